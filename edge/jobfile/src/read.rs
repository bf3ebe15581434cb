//! From the tree of a file to a job. Every key has one line here; whatever no line asks for was
//! refused when its section was opened.

use crate::fault::{Fault, Located, Position};
use crate::file::{
    Accelerator, Checkpoint, JobFile, Model, ModelSource, Public, Resources, Run, Service, Task,
    Verify, Work,
};
use crate::form::Form;
use crate::keys::{self, Section};
use crate::words::{EnvName, Script, Word};
use crate::yaml::{self, Entry, Node, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use tg_types::job::{REPLICAS_MAX, REPLICAS_MIN};
use tg_types::{Amount, Features, Name};

/// The most entries of a list or mapping: as many inputs as a sandbox has mounts for, and more
/// variables than anybody sets.
const ENTRIES_MAX: usize = 1_024;

/// Keys that describe a command and its surroundings; a model has none of that.
const TASK_KEYS: [&str; 7] = ["image", "setup", "run", "envs", "secrets", "file_mounts", "network"];

const REPLICAS: &str = "a number of replicas from 2 to 4";
const _: () = assert!(REPLICAS_MIN == 2 && REPLICAS_MAX == 4, "the words above say so");

/// Reads the text of a job file.
pub(crate) fn job(text: &str) -> Result<JobFile, Located> {
    let root = yaml::parse(text)?;
    let top = Map::open(&root, keys::TOP)?;
    let mut job = JobFile::new(work(&top)?);
    job.name = top.scalar("name")?;
    if let Some(map) = top.map("resources", keys::RESOURCES)? {
        job.resources = resources(&map)?;
    }
    job.num_nodes = top.scalar("num_nodes")?.unwrap_or(NonZeroU16::MIN);
    job.service = top.map("service", keys::SERVICE)?.map(|map| service(&map)).transpose()?;
    job.checkpoint =
        top.map("checkpoint", keys::CHECKPOINT)?.map(|map| checkpoint(&map)).transpose()?;
    if let Some(map) = top.map("budget", keys::BUDGET)? {
        job.budget_max = Some(map.needed::<Amount>("max")?);
    }
    job.verify = top.get("verify").map(verify).transpose()?;
    job.key_escrow = top.scalar("key_escrow")?;
    job.public = top.scalar("public")?;
    job.run_max = top.scalar("run_max")?;
    job.deadline = top.scalar("deadline")?;
    job.secret_weights = top.scalar("secret_weights")?.unwrap_or(false);
    job.promise = top.scalar("promise")?.unwrap_or(false);
    job.priority = top.scalar("priority")?;
    Ok(job)
}

fn work(top: &Map<'_>) -> Result<Work, Located> {
    let refuse = |key: &'static str, other: &'static str, why: &'static str| {
        let at = top.entry(key).map_or(top.at, |entry| entry.at);
        Err(Located::new(at, Fault::Together { key, other, why }))
    };
    let is_float = top.scalar("float")?;
    let source = if is_float == Some(true) { ModelSource::Float } else { ModelSource::Model };
    let model = top.scalar("model")?.map(|path| ("model", source(path)));
    let program = top.scalar("program")?.map(|path| ("program", ModelSource::Program(path)));
    if model.is_some() && program.is_some() {
        return refuse("program", "model", "they are two ways to name the same");
    }
    if is_float.is_some() && program.is_some() {
        return refuse("float", "program", "a program is whole numbers already");
    }
    if let Some((by, source)) = model.or(program) {
        if let Some(key) = TASK_KEYS.into_iter().find(|key| top.get(key).is_some()) {
            return refuse(key, by, "a model is run by itself, without a command around it");
        }
        let (inputs, outputs) = (top.pairs("inputs")?, top.pairs("outputs")?);
        return Ok(Work::Model(Model { source, inputs, outputs }));
    }
    let task = Task {
        image: top.scalar("image")?,
        setup: top.scalar("setup")?,
        run: top.get("run").map(run).transpose()?,
        envs: top.pairs("envs")?,
        secrets: top.get("secrets").map(secrets).transpose()?.unwrap_or_default(),
        file_mounts: top.pairs("file_mounts")?,
        inputs: top.pairs("inputs")?,
        outputs: top.pairs("outputs")?,
        network: top.scalar("network")?.unwrap_or(false),
    };
    if task.image.is_none() && task.run.is_none() {
        return Err(Located::new(top.at, Fault::NothingToRun));
    }
    if is_float.is_some() {
        let command = if task.run.is_some() { "run" } else { "image" };
        return refuse("float", command, "only a `model` is run in floating point");
    }
    Ok(Work::Task(task))
}

fn run(node: &Node) -> Result<Run, Located> {
    let expected = "a command as text, or as a list of words";
    match &node.value {
        Value::Text(_) => Ok(Run::Shell(scalar(node, "run")?)),
        Value::List(items) => {
            bounded(node, "run", items.len())?;
            let Some((program, arguments)) = items.split_first() else {
                return Err(unexpected(node, "run", expected));
            };
            let program: Script = scalar(program, "run")?;
            let arguments: Result<Vec<Word>, _> =
                arguments.iter().map(|word| scalar(word, "run")).collect();
            Ok(Run::Program { program, arguments: arguments? })
        }
        Value::Null | Value::Map(_) => Err(unexpected(node, "run", expected)),
    }
}

/// Names as a list, or as a mapping without values.
fn secrets(node: &Node) -> Result<BTreeSet<EnvName>, Located> {
    let key = "secrets";
    let mut names = BTreeSet::new();
    let mut add = |name: EnvName, at: Position| {
        let fault = Fault::RepeatedKey { key: name.to_string(), first: node.at.line };
        if names.insert(name) { Ok(()) } else { Err(Located::new(at, fault)) }
    };
    match &node.value {
        Value::List(items) => {
            bounded(node, key, items.len())?;
            for item in items {
                add(scalar(item, key)?, item.at)?;
            }
        }
        Value::Map(entries) => {
            bounded(node, key, entries.len())?;
            for entry in entries {
                if entry.node.value != Value::Null {
                    // The value itself is not repeated in the message.
                    let expected = "no value; it is taken from your environment";
                    let (key, found) = (format!("{key}.{}", entry.key), "one".to_owned());
                    let fault = Fault::Expected { key, expected, found };
                    return Err(Located::new(entry.node.at, fault));
                }
                add(key_of(entry, key)?, entry.at)?;
            }
        }
        Value::Null | Value::Text(_) => {
            return Err(unexpected(node, key, "a list of names, such as [HF_TOKEN]"));
        }
    }
    Ok(names)
}

fn resources(map: &Map<'_>) -> Result<Resources, Located> {
    let mut resources = plain_resources(map)?;
    let Some(node) = map.get("any_of") else { return Ok(resources) };
    let key = "resources.any_of";
    let Value::List(items) = &node.value else {
        return Err(unexpected(node, key, "a list of alternatives"));
    };
    bounded(node, key, items.len())?;
    for item in items {
        let map = Map::open(item, keys::RESOURCES)?;
        if let Some(nested) = map.get("any_of") {
            return Err(unexpected(nested, key, "alternatives without alternatives"));
        }
        resources.any_of.push(plain_resources(&map)?);
    }
    Ok(resources)
}

fn plain_resources(map: &Map<'_>) -> Result<Resources, Located> {
    Ok(Resources {
        accelerators: map.get("accelerators").map(accelerators).transpose()?.unwrap_or_default(),
        gpu_memory: map.scalar("gpu_memory")?,
        gpu_share: map.scalar("gpu_share")?,
        share_with_strangers: map.scalar("share_with_strangers")?,
        memory: map.scalar("memory")?,
        cpus: map.scalar("cpus")?,
        disk: map.scalar("disk")?,
        region: map.scalar("region")?,
        home: map.scalar("home")?,
        features: map.get("features").map(features).transpose()?.unwrap_or_default(),
        use_spot: map.scalar("use_spot")?,
        any_of: Vec::new(),
    })
}

/// `RTX4090:1`, a list of such, or a mapping from model to count.
fn accelerators(node: &Node) -> Result<Vec<Accelerator>, Located> {
    let key = "resources.accelerators";
    let mut found: Vec<Accelerator> = Vec::new();
    let mut add = |one: Accelerator, at: Position| {
        if found.contains(&one) {
            let fault = Fault::RepeatedKey { key: one.to_string(), first: node.at.line };
            return Err(Located::new(at, fault));
        }
        found.push(one);
        Ok(())
    };
    match &node.value {
        Value::Text(_) => add(scalar(node, key)?, node.at)?,
        Value::List(items) => {
            bounded(node, key, items.len())?;
            for item in items {
                add(scalar(item, key)?, item.at)?;
            }
        }
        Value::Map(entries) => {
            bounded(node, key, entries.len())?;
            for entry in entries {
                let model: Name = key_of(entry, key)?;
                let count: NonZeroU16 = scalar(&entry.node, key)?;
                let one = Accelerator::new(model, count);
                let expected = Accelerator::EXPECTED;
                let fault = || unexpected_text(entry.at, key, expected, &entry.key);
                add(one.ok_or_else(fault)?, entry.at)?;
            }
        }
        Value::Null => return Err(unexpected(node, key, Accelerator::EXPECTED)),
    }
    Ok(found)
}

fn features(node: &Node) -> Result<Features, Located> {
    let key = "resources.features";
    let Value::List(items) = &node.value else { return scalar(node, key) };
    bounded(node, key, items.len())?;
    items.iter().try_fold(Features::NONE, |all, item| Ok(all.with(scalar(item, key)?)))
}

fn service(map: &Map<'_>) -> Result<Service, Located> {
    Ok(Service {
        port: map.needed("port")?,
        readiness_probe: map.scalar("readiness_probe")?,
        replicas: map.scalar("replicas")?,
    })
}

fn checkpoint(map: &Map<'_>) -> Result<Checkpoint, Located> {
    Ok(Checkpoint { path: map.needed("path")?, every: map.scalar("every")? })
}

fn verify(node: &Node) -> Result<Verify, Located> {
    if let Value::Text(_) = node.value {
        return scalar(node, "verify");
    }
    let map = Map::open(node, keys::VERIFY)?;
    let Some(mode) = map.get("mode") else {
        let (key, expected) = (keys::VERIFY.join("mode"), Verify::EXPECTED);
        return Err(Located::new(map.at, Fault::Missing { key, expected }));
    };
    let replicas = map.get("replicas");
    let is_redundant = mode.text() == Some("redundant");
    match (is_redundant, replicas) {
        (true, Some(node)) => {
            let key = "verify.replicas";
            let count: NonZeroU16 = scalar(node, key)?;
            let count = u8::try_from(count.get()).ok();
            let replicas = count.filter(|count| (REPLICAS_MIN..=REPLICAS_MAX).contains(count));
            let replicas = replicas.ok_or_else(|| unexpected(node, key, REPLICAS))?;
            Ok(Verify::Redundant { replicas })
        }
        (true, None) => {
            let key = keys::VERIFY.join("replicas");
            Err(Located::new(map.at, Fault::Missing { key, expected: REPLICAS }))
        }
        (false, Some(node)) => {
            Err(unexpected(node, "verify.replicas", "no replicas unless the mode is redundant"))
        }
        (false, None) => scalar(mode, "verify.mode"),
    }
}

impl Form for Verify {
    const EXPECTED: &'static str =
        "none, audit, sync, redundant:N with N from 2 to 4, optimistic, proof, zk or tee";

    fn read(text: &str) -> Option<Self> {
        let plain = [
            Self::None,
            Self::Audit,
            Self::Sync,
            Self::Optimistic,
            Self::Proof,
            Self::Zk,
            Self::Tee,
        ];
        plain.into_iter().find(|mode| mode.word() == text).or_else(|| {
            let count: u8 = text.strip_prefix("redundant:")?.parse().ok()?;
            let is_plain = text == format!("redundant:{count}");
            let fits = is_plain && (REPLICAS_MIN..=REPLICAS_MAX).contains(&count);
            fits.then_some(Self::Redundant { replicas: count })
        })
    }
}

impl Form for Public {
    const EXPECTED: &'static str = "data or all";

    fn read(text: &str) -> Option<Self> {
        [Self::Data, Self::All].into_iter().find(|public| public.word() == text)
    }
}

impl Form for Accelerator {
    const EXPECTED: &'static str = "GPUs such as RTX4090:1, a list of them, or {A100-80GB: 1}";

    fn read(text: &str) -> Option<Self> {
        let (model, count) = match text.split_once(':') {
            Some((model, count)) => (model, NonZeroU16::read(count)?),
            None => (text, NonZeroU16::MIN),
        };
        Self::new(Name::read(model)?, count)
    }
}

/// An opened mapping: its keys are known, and each is there at most once.
struct Map<'n> {
    section: Section,
    at: Position,
    entries: &'n [Entry],
}

impl<'n> Map<'n> {
    fn open(node: &'n Node, section: Section) -> Result<Self, Located> {
        let Value::Map(entries) = &node.value else {
            let key = if section.path.is_empty() { "the file" } else { section.path };
            return Err(unexpected(node, key, "a mapping of keys to values"));
        };
        if let Some(entry) = entries.iter().find(|entry| !section.has(&entry.key)) {
            let key = section.join(&entry.key);
            let suggestion = section.closest(&entry.key);
            return Err(Located::new(entry.at, Fault::UnknownKey { key, suggestion }));
        }
        Ok(Self { section, at: node.at, entries })
    }

    fn entry(&self, key: &str) -> Option<&'n Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    fn get(&self, key: &str) -> Option<&'n Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    fn scalar<T: Form>(&self, key: &'static str) -> Result<Option<T>, Located> {
        self.get(key).map(|node| scalar(node, &self.section.join(key))).transpose()
    }

    fn needed<T: Form>(&self, key: &'static str) -> Result<T, Located> {
        let missing = Fault::Missing { key: self.section.join(key), expected: T::EXPECTED };
        self.scalar(key)?.ok_or_else(|| Located::new(self.at, missing))
    }

    fn map(&self, key: &'static str, section: Section) -> Result<Option<Map<'n>>, Located> {
        self.get(key).map(|node| Map::open(node, section)).transpose()
    }

    /// A mapping whose keys are the author's own.
    fn pairs<K: Form + Ord, V: Form>(&self, key: &'static str) -> Result<BTreeMap<K, V>, Located> {
        let Some(node) = self.get(key) else { return Ok(BTreeMap::new()) };
        let Value::Map(entries) = &node.value else {
            return Err(unexpected(node, key, "a mapping, such as {name: value}"));
        };
        bounded(node, key, entries.len())?;
        let pairs = entries.iter().map(|entry| {
            Ok((key_of(entry, key)?, scalar(&entry.node, &format!("{key}.{}", entry.key))?))
        });
        pairs.collect()
    }
}

fn scalar<T: Form>(node: &Node, key: &str) -> Result<T, Located> {
    node.text().and_then(T::read).ok_or_else(|| unexpected(node, key, T::EXPECTED))
}

fn key_of<T: Form>(entry: &Entry, key: &str) -> Result<T, Located> {
    T::read(&entry.key).ok_or_else(|| unexpected_text(entry.at, key, T::EXPECTED, &entry.key))
}

fn bounded(node: &Node, key: &str, count: usize) -> Result<(), Located> {
    if count > ENTRIES_MAX {
        let fault = Fault::TooMany { key: key.to_owned(), count, max: ENTRIES_MAX };
        return Err(Located::new(node.at, fault));
    }
    Ok(())
}

fn unexpected(node: &Node, key: &str, expected: &'static str) -> Located {
    let (key, found) = (key.to_owned(), node.found());
    Located::new(node.at, Fault::Expected { key, expected, found })
}

fn unexpected_text(at: Position, key: &str, expected: &'static str, text: &str) -> Located {
    let node = Node { at, value: Value::Text(text.to_owned()) };
    unexpected(&node, key, expected)
}
