//! What somebody wants to have done, from a job file or from what was typed, with everything it
//! names read from disk.

use super::{float, gang, gpu_needs, showing};
use crate::{
    args::{jobs::JobOptions, model::NamedFile},
    commands::model,
    failure::{Failure, OrFail as _},
    files,
    network::now,
    work::{
        market::Urgency,
        order::{Job, Order, TaskFile, TaskOrder},
    },
};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tg_float::FloatModel;
use tg_gateway::task::{Root, TaskLimits, word};
use tg_gateway::{KeyEscrow, WeightsSecret};
use tg_jobfile::{
    Cpus, JobFile, ModelSource, Priority, Public, Resources, Run, Size, Work, WorkPath,
};
use tg_tensor::{Model, Tensor};
use tg_types::checkpoint::CHECKPOINT_EVERY_MIN;
use tg_types::{
    Amount, DeviceKind, DurationMs, Features, GpuAsk, HostPart, Needs, RegionAsk, Tick, Tier,
};

/// How long a run may take unless something else is asked for.
const RUN_MAX: DurationMs = DurationMs::MINUTE;

/// What a command may use unless something else is asked for.
const LIMITS: TaskLimits =
    TaskLimits { memory_mib: 512, disk_mib: 128, cpu_milli: 1_000, pids: 256 };

/// What a float model may use unless something else is asked for: weights, and what is computed
/// with them, on the cores of an ordinary machine. Its outputs are all it writes.
const FLOAT_LIMITS: TaskLimits =
    TaskLimits { memory_mib: 2_048, disk_mib: 64, cpu_milli: 4_000, pids: 256 };

/// How often the state of a command is saved unless something else is asked for.
const CHECKPOINT_EVERY: DurationMs = DurationMs::new(10 * 60_000);

/// The largest job file.
const FILE_BYTES_MAX: u64 = tg_jobfile::BYTES_MAX as u64;

/// The job file of a folder.
const JOB_FILE: &str = "job.tg.yaml";

/// What somebody wants to have done.
pub(crate) struct Plan {
    /// What is to be computed.
    pub(crate) what: What,
    /// How surely.
    pub(crate) tier: Tier,
    /// Where.
    pub(crate) needs: Needs,
    /// How long a run may take.
    pub(crate) run_max: DurationMs,
    /// How long the job may take in all.
    pub(crate) within: DurationMs,
    /// By when it is to be promised, if it is.
    pub(crate) promise: Option<Tick>,
    /// How often its state is saved, if it is.
    pub(crate) checkpoint: Option<DurationMs>,
    /// On how many nodes it runs at the same time.
    pub(crate) nodes: u8,
    /// The most it may cost.
    pub(crate) budget_max: Option<Amount>,
    /// Who keeps the key of what it reads.
    pub(crate) escrow: KeyEscrow,
    /// What it offers to be served sooner.
    pub(crate) urgency: Urgency,
    /// Whether its weights are a secret.
    pub(crate) has_secret: bool,
    /// What makes the commitment to them, once that is known.
    pub(crate) secret: Option<WeightsSecret>,
}

/// What is to be computed, and where its outputs go.
pub(crate) enum What {
    /// A tensor program.
    Tensor {
        /// The model.
        model: Box<Model>,
        /// Files with its inputs.
        inputs: Vec<NamedFile>,
        /// Files for its outputs by their labels.
        outputs: Vec<(String, PathBuf)>,
    },
    /// A model in floating point.
    Float {
        /// The model.
        model: Box<FloatModel>,
        /// Files with its inputs.
        inputs: Vec<NamedFile>,
        /// What is handed in; its inputs are added when it is.
        order: Box<TaskOrder>,
        /// Files for its outputs by their names.
        outputs: Vec<(String, PathBuf)>,
    },
    /// A command.
    Task {
        /// The command.
        order: Box<TaskOrder>,
        /// Files for its outputs by their paths in its folder of outputs.
        outputs: Vec<(String, PathBuf)>,
    },
}

impl Plan {
    /// What was typed, or what the job file says that was typed.
    pub(crate) fn read(options: &JobOptions) -> Result<Self, Failure> {
        match (&options.file, options.command.is_empty()) {
            (Some(file), true) if is_job_file(file) => Self::of_file(file, options),
            (Some(folder), true) if folder.join(JOB_FILE).is_file() => {
                Self::of_file(&folder.join(JOB_FILE), options)
            }
            (Some(file), true) if options.float => Self::of_float(file, options),
            (_, false) if options.float => Err(Failure::misuse(
                "--float is for models",
                "give a model (.onnx), or leave --float out",
            )),
            (Some(file), true) => Self::of_model(model::read_program(file)?, options),
            (None, false) => Self::of_command(options),
            (Some(_), false) => Err(Failure::misuse(
                "there is a file and a command",
                "give one of them; inputs of a command are given with -i",
            )),
            (None, true) => Err(Failure::misuse(
                "there is nothing to run",
                "give a job file, a program or a model, or a command after --",
            )),
        }
    }

    fn of_model(model: Model, options: &JobOptions) -> Result<Self, Failure> {
        let inputs = options.input.clone();
        let what = What::Tensor { model: Box::new(model), inputs, outputs: Vec::new() };
        Self::typed(what, Tier::Audit, Features::NONE, options)
    }

    fn of_float(file: &Path, options: &JobOptions) -> Result<Self, Failure> {
        let limits = limits(FLOAT_LIMITS, options.memory, options.disk, options.cpus);
        let what = float::what(file, options.input.clone(), Vec::new(), limits)?;
        Self::typed(what, Tier::Trusted, Features::SANDBOX.with(Features::ONNX), options)
    }

    fn of_command(options: &JobOptions) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for NamedFile { name, path } in &options.input {
            let usual = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
            let name = name.clone().or(usual);
            let hint = "give it one: -i NAME=FILE";
            let what = format!("{} has no name", path.display());
            gather(path, &name.ok_or_else(|| Failure::misuse(what, hint))?, &mut files)?;
        }
        let limits = limits(LIMITS, options.memory, options.disk, options.cpus);
        let root = root(options.image.as_deref(), &mut files)?;
        let order = TaskOrder {
            program: options.command.clone(),
            environment: options.env.clone(),
            root,
            limits,
            network: options.network,
            checkpoint: checkpoint_path(options.checkpoint.as_deref())?,
            files,
        };
        let what = What::Task { order: Box::new(order), outputs: Vec::new() };
        Self::typed(what, Tier::Trusted, Features::SANDBOX, options)
    }

    fn typed(
        what: What,
        tier: Tier,
        features: Features,
        options: &JobOptions,
    ) -> Result<Self, Failure> {
        let gpus = gpu_needs::asked(options)?;
        let has_gpu = options.gpu.is_some() || options.vram.is_some() || gpus != GpuAsk::Usual;
        let memory = if has_gpu { options.vram } else { options.memory };
        let needs = Needs {
            kind: has_gpu.then_some(DeviceKind::Gpu),
            model: gpu_needs::model(options.gpu.as_ref())?,
            memory_mib_min: memory.map_or(0, Size::mib_ceil),
            features: options.feature.iter().fold(features, |all, one| all.with(*one)),
            region: region(options),
            gpus,
            host: host(options.cpus, options.memory),
        };
        let plan = Self {
            what,
            tier: options.verify.map_or(tier, |name| name.0),
            needs,
            run_max: options.run_max.map_or(RUN_MAX, |span| span.get()),
            within: within(options, None)?,
            promise: promise(options, None)?,
            checkpoint: saved_every(options, None),
            nodes: options.nodes.unwrap_or(1),
            budget_max: None,
            escrow: options.key_escrow.map_or(KeyEscrow::Validators, kept_by),
            urgency: urgency(options, None),
            has_secret: options.secret_weights,
            secret: None,
        };
        plan.checked(options.public)
    }

    fn of_file(path: &Path, options: &JobOptions) -> Result<Self, Failure> {
        gpu_needs::check_untyped(options)?;
        let shown = path.display();
        let bytes = files::read(path, FILE_BYTES_MAX);
        let bytes = bytes.or_fail(format_args!("cannot read {shown}"), "is the path right?")?;
        let hint = "docs/jobfile.md lists all keys";
        let text = std::str::from_utf8(&bytes).or_fail(format_args!("{shown} is no text"), hint)?;
        let file = JobFile::parse(text, &shown.to_string())
            .or_fail(format_args!("{shown} is no job file"), hint)?;
        if let Some(first) = file.unsupported().first() {
            let hint = "remove the key or change its value";
            return Err(Failure::misuse(format!("{shown}: {first}"), hint));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let (what, usual) = match &file.work {
            Work::Model(model) => what_of_model(model, &file, folder, options)?,
            Work::Task(_) if options.float => {
                return Err(Failure::misuse("--float is for models", "leave --float out"));
            }
            Work::Task(task) => {
                let what = what_of_task(task, &file, folder, options.checkpoint.as_deref())?;
                (what, Tier::Trusted)
            }
        };
        let verify = file.verify.and_then(tg_jobfile::Verify::tier);
        let typed = options.verify.map(|name| name.0);
        let plan = Self {
            what,
            tier: typed.or(verify).unwrap_or(usual),
            needs: needs_of(&file, options),
            run_max: file.run_max.or(options.run_max).map_or(RUN_MAX, |span| span.get()),
            within: within(options, Some(&file))?,
            promise: promise(options, Some(&file))?,
            checkpoint: saved_every(options, Some(&file)),
            nodes: options.nodes.or(u8::try_from(file.num_nodes.get()).ok()).unwrap_or(u8::MAX),
            budget_max: file.budget_max,
            escrow: options.key_escrow.or(file.key_escrow).map_or(KeyEscrow::Validators, kept_by),
            urgency: urgency(options, file.priority),
            has_secret: options.secret_weights || file.secret_weights,
            secret: None,
        };
        plan.checked(options.public.or(file.public))
    }

    /// Refuses what the ledger would refuse, with a better hint.
    fn checked(mut self, public: Option<Public>) -> Result<Self, Failure> {
        self.needs = gpu_needs::named(self.needs)?;
        self.needs.host = self.held_host();
        self.check_promise()?;
        self.check_checkpoint()?;
        gang::check(&self)?;
        gpu_needs::check(&self)?;
        if self.has_secret {
            return self.with_secret();
        }
        if matches!(self.tier, Tier::Trusted | Tier::Redundant { .. }) {
            return Ok(self);
        }
        match &self.what {
            What::Tensor { model, .. } => {
                self.tier = showing::tier(model, self.tier, public)?;
                Ok(self)
            }
            What::Float { .. } => Err(Failure::misuse(
                "floats have no exact meaning that others could recompute: their last bits depend \
                 on the runtime and the processor",
                "use --verify none or redundant:2, or leave --float out, so that the model is run \
                 as exact integers",
            )),
            What::Task { .. } => Err(Failure::misuse(
                "a command has no meaning that others could recompute",
                "use --verify none or redundant:2, or import a model and run that",
            )),
        }
    }

    /// What a run holds of its machine. Tensor programs hold nothing.
    fn held_host(&self) -> HostPart {
        match &self.what {
            What::Tensor { .. } => HostPart::NONE,
            What::Float { .. } | What::Task { .. } => self.needs.host,
        }
    }

    /// Refuses secret weights where nothing hides them. Which they are is looked up later.
    fn with_secret(mut self) -> Result<Self, Failure> {
        let hint = "give a model and --verify zk, or leave --secret-weights out";
        match (&self.what, self.tier) {
            (What::Tensor { model, .. }, Tier::Zk { .. }) => {
                self.tier = showing::secret_tier(model)?;
                Ok(self)
            }
            (What::Tensor { .. } | What::Float { .. } | What::Task { .. }, _) => {
                Err(Failure::misuse("only proofs of tier zk can hide weights", hint))
            }
        }
    }

    /// Refuses a promise of what has no date.
    fn check_promise(&self) -> Result<(), Failure> {
        if self.promise.is_none() {
            return Ok(());
        }
        if !self.tier.ends_with_its_run() {
            return Err(Failure::misuse(
                "nobody knows when drawn checkers or further runs are done, so such a job cannot \
                 be promised",
                "use --verify none, proof or zk, or leave --promise out",
            ));
        }
        match self.escrow {
            KeyEscrow::Validators => Ok(()),
            KeyEscrow::None => Err(Failure::misuse(
                "a job that waits for its owner to hand out the key cannot be promised",
                "let validators keep shares of the key, or leave --promise out",
            )),
        }
    }

    /// Refuses checkpoints of what cannot go on from one.
    fn check_checkpoint(&self) -> Result<(), Failure> {
        let Some(every) = self.checkpoint else { return Ok(()) };
        if !matches!(self.what, What::Task { .. }) {
            let what = "a model is run from its beginning; only commands have checkpoints";
            return Err(Failure::misuse(what, "leave the checkpoint out"));
        }
        if self.tier != Tier::Trusted {
            return Err(Failure::misuse(
                "nobody can tell whether a checkpoint is right, so a job whose result is compared \
                 cannot go on from one",
                "use --verify none, or leave the checkpoint out",
            ));
        }
        if every < CHECKPOINT_EVERY_MIN {
            let what = "checkpoints are five seconds apart at least";
            return Err(Failure::misuse(what, "give a longer --checkpoint-every"));
        }
        Ok(())
    }

    /// What a proof that hides its data takes, if it asks for one.
    pub(crate) fn hiding(&self) -> Option<String> {
        match &self.what {
            What::Tensor { model, .. } => showing::hiding(self.tier, model),
            What::Float { .. } | What::Task { .. } => None,
        }
    }

    /// The order, with inputs if it is one of tensors.
    pub(crate) fn order<'a>(&'a self, inputs: &'a [Tensor]) -> Order<'a> {
        Order {
            job: match &self.what {
                What::Tensor { model, .. } => Job::Tensor { model, inputs },
                What::Float { order, .. } | What::Task { order, .. } => Job::Task(order),
            },
            tier: self.tier,
            needs: self.needs.clone(),
            run_max: self.run_max,
            expires_after: self.within,
            promise: self.promise,
            checkpoint: self.checkpoint,
            nodes: self.nodes,
            escrow: self.escrow,
            urgency: self.urgency,
            secret: self.secret,
        }
    }
}

/// What was typed to be served sooner, or what the job file says.
fn urgency(options: &JobOptions, stated: Option<Priority>) -> Urgency {
    match (options.bid, options.priority.or(stated)) {
        (Some(bid), _) => Urgency::Bid(bid),
        (None, Some(priority)) => Urgency::Priority(priority),
        (None, None) => Urgency::Usual,
    }
}

/// Who keeps a key, as packages say it.
const fn kept_by(escrow: tg_jobfile::KeyEscrow) -> KeyEscrow {
    match escrow {
        tg_jobfile::KeyEscrow::Validators => KeyEscrow::Validators,
        tg_jobfile::KeyEscrow::None => KeyEscrow::None,
    }
}

/// What a job needs whose file may not say that it is one in floats, nor where its client is now.
fn needs_of(file: &JobFile, options: &JobOptions) -> Needs {
    let needs = file.needs();
    let float = Features::SANDBOX.with(Features::ONNX);
    let (features, host) = if options.float {
        (needs.features.with(float), host(file.resources.cpus, file.resources.memory))
    } else {
        (needs.features, needs.host)
    };
    let region = match (needs.region, &options.home) {
        (RegionAsk::Any | RegionAsk::Near { .. }, Some(home)) => {
            RegionAsk::Near { region: home.clone() }
        }
        (stated, _) => stated,
    };
    Needs { features, region, host, ..needs }
}

/// Where a job is to run, as far as that was typed.
fn region(options: &JobOptions) -> RegionAsk {
    match (&options.region, &options.home) {
        (Some(region), _) => RegionAsk::Only { region: region.clone() },
        (None, Some(home)) => RegionAsk::Near { region: home.clone() },
        (None, None) => RegionAsk::Any,
    }
}

fn is_job_file(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml")
}

/// How long a job may take in all: until what the job file says, or what was typed.
fn within(options: &JobOptions, file: Option<&JobFile>) -> Result<DurationMs, Failure> {
    match file.and_then(|file| file.deadline).or(options.deadline) {
        Some(deadline) => {
            let late = || Failure::misuse("the deadline has passed", "give a later one");
            deadline.get().since(now()).map_err(|_| late())
        }
        None => Ok(options.within.map_or(DurationMs::HOUR, |span| span.get())),
    }
}

/// By when a job is to be promised, if it is.
fn promise(options: &JobOptions, file: Option<&JobFile>) -> Result<Option<Tick>, Failure> {
    if !options.promise && !file.is_some_and(|file| file.promise) {
        return Ok(None);
    }
    if let Some(deadline) = file.and_then(|file| file.deadline).or(options.deadline) {
        return Ok(Some(deadline.get()));
    }
    let hint = "give it with --deadline 2026-12-01T08:00Z, --within 2h, or `deadline:` in the file";
    let none = || Failure::misuse("there is no deadline to be promised", hint);
    let within = options.within.ok_or_else(none)?;
    now().plus(within.get()).map(Some).map_err(|_| none())
}

/// How often the state of a job is saved, if it is.
fn saved_every(options: &JobOptions, file: Option<&JobFile>) -> Option<DurationMs> {
    let stated = file.and_then(|file| file.checkpoint.as_ref());
    if stated.is_none() && options.checkpoint.is_none() {
        return None;
    }
    let every = options.checkpoint_every.or(stated.and_then(|stated| stated.every));
    Some(every.map_or(CHECKPOINT_EVERY, |span| span.get()))
}

/// The folder that is saved, checked.
fn checkpoint_path(path: Option<&str>) -> Result<Option<String>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let checked = tg_sandbox::CheckpointPath::new(path);
    checked.map_err(|error| Failure::misuse(error.to_string(), "name it /ckpt, for example"))?;
    Ok(Some(path.to_owned()))
}

/// What a model's job is, and how surely it is done unless something is said.
fn what_of_model(
    stated: &tg_jobfile::Model,
    file: &JobFile,
    folder: &Path,
    options: &JobOptions,
) -> Result<(What, Tier), Failure> {
    let named = stated.inputs.iter().map(|(label, path)| NamedFile {
        name: Some(label.to_string()),
        path: folder.join(path.as_str()),
    });
    let inputs = named.chain(options.input.iter().cloned()).collect();
    let outputs = stated.outputs.iter();
    let outputs =
        outputs.map(|(label, path)| (label.to_string(), folder.join(path.as_str()))).collect();
    let (path, is_float) = match &stated.source {
        ModelSource::Model(path) | ModelSource::Program(path) => (path, options.float),
        ModelSource::Float(path) => (path, true),
    };
    let path = folder.join(path.as_str());
    if is_float {
        let Resources { memory, disk, cpus, .. } = file.resources;
        let limits = limits(FLOAT_LIMITS, memory, disk, cpus);
        return Ok((float::what(&path, inputs, outputs, limits)?, Tier::Trusted));
    }
    let model = Box::new(model::read_program(&path)?);
    Ok((What::Tensor { model, inputs, outputs }, Tier::Audit))
}

/// What a run asks for of the processors and the memory of its machine.
fn host(cpus: Option<Cpus>, memory: Option<Size>) -> HostPart {
    HostPart {
        cpu_milli: cpus.map_or(0, Cpus::thousandths),
        memory_mib: memory.map_or(0, Size::mib_ceil),
    }
}

/// What a program may use: what is asked for, and what is usual for the rest.
fn limits(
    usual: TaskLimits,
    memory: Option<Size>,
    disk: Option<Size>,
    cpus: Option<Cpus>,
) -> TaskLimits {
    TaskLimits {
        memory_mib: memory.map_or(usual.memory_mib, Size::mib_ceil),
        disk_mib: disk.map_or(usual.disk_mib, Size::mib_ceil),
        cpu_milli: cpus.map_or(usual.cpu_milli, Cpus::thousandths),
        pids: usual.pids,
    }
}

fn what_of_task(
    task: &tg_jobfile::Task,
    file: &JobFile,
    folder: &Path,
    checkpoint: Option<&str>,
) -> Result<What, Failure> {
    let stated = file.checkpoint.as_ref().map(|stated| stated.path.as_str());
    let checkpoint = checkpoint_path(checkpoint.or(stated))?;
    let mut files = Vec::new();
    for (name, path) in &task.inputs {
        gather(&folder.join(path.as_str()), name.as_str(), &mut files)?;
    }
    for (path, here) in &task.file_mounts {
        let below = path.as_str().strip_prefix("/in/").unwrap_or(path.as_str());
        gather(&folder.join(here.as_str()), below, &mut files)?;
    }
    let image = task.image.as_ref().map(ToString::to_string);
    let root = root(image.as_deref(), &mut files)?;
    let Resources { memory, disk, cpus, .. } = file.resources;
    let limits = limits(LIMITS, memory, disk, cpus);
    let order = TaskOrder {
        program: program(task),
        environment: task.envs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        root,
        limits,
        network: task.network,
        checkpoint,
        files,
    };
    let outputs = task.outputs.iter().map(|(path, here)| {
        let below = path.as_str().strip_prefix("out/").unwrap_or(path.as_str());
        (below.to_owned(), folder.join(here.as_str()))
    });
    Ok(What::Task { order: Box::new(order), outputs: outputs.collect() })
}

/// The command, with what runs before it, and with what carries its outputs from the work folder
/// to the folder from which they are taken.
fn program(task: &tg_jobfile::Task) -> Vec<String> {
    let mut text = String::new();
    if let Some(setup) = &task.setup {
        text.push_str(&format!("{setup}\n"));
    }
    let carried: Vec<&str> = task.outputs.keys().map(WorkPath::as_str).collect();
    let carried: Vec<&str> = carried.into_iter().filter(|path| !path.starts_with("out/")).collect();
    let (run, words): (Option<String>, Vec<String>) = match &task.run {
        None => (None, Vec::new()),
        Some(Run::Shell(script)) => (Some(script.to_string()), Vec::new()),
        Some(Run::Program { program, arguments }) => {
            let words = arguments.iter().map(ToString::to_string);
            let words: Vec<String> = std::iter::once(program.to_string()).chain(words).collect();
            if text.is_empty() && carried.is_empty() {
                return words;
            }
            (Some("\"$@\"".to_owned()), words)
        }
    };
    if run.is_none() && text.is_empty() {
        return Vec::new(); // what the image states
    }
    // In parentheses, so that an `exit` in it does not leave the outputs behind.
    text.push_str(&run.map(|run| format!("(\n{run}\n)\n")).unwrap_or_default());
    for path in carried {
        let quoted = format!("'{}'", path.replace('\'', "'\\''"));
        text.push_str(&format!(
            "mkdir -p \"$(dirname \"$TENSORGRID_OUTPUT\"/{quoted})\"\n\
             cp {quoted} \"$TENSORGRID_OUTPUT\"/{quoted}\n"
        ));
    }
    let shell = ["/bin/sh", "-ec", &text, "sh"].map(str::to_owned);
    shell.into_iter().chain(words).collect()
}

/// Where a command's own files come from. An archive travels with the inputs.
fn root(image: Option<&str>, files: &mut Vec<(String, TaskFile)>) -> Result<Root, Failure> {
    let Some(image) = image else { return Ok(Root::Host) };
    let what = "the image cannot be used";
    let hint = "give an archive, or a name such as docker.io/library/alpine:3";
    if Path::new(image).is_file() {
        files.push(("image.tar".to_owned(), input(Path::new(image))?));
        return Ok(Root::Archive { name: word("image.tar").or_fail(what, hint)? });
    }
    tg_sandbox::oci::ImageName::new(image).or_fail(what, hint)?;
    Ok(Root::Image { name: word(image).or_fail(what, hint)? })
}

/// Lists a file, or all files of a folder, under a name.
fn gather(path: &Path, name: &str, files: &mut Vec<(String, TaskFile)>) -> Result<(), Failure> {
    if !path.is_dir() {
        files.push((name.to_owned(), input(path)?));
        return Ok(());
    }
    let what = format!("cannot read {}", path.display());
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(path).or_fail(&what, "is the path right?")? {
        entries.push(entry.or_fail(&what, "is the folder readable?")?.path());
    }
    entries.sort();
    for entry in entries {
        let below = entry.file_name().and_then(|name| name.to_str());
        let below = below.ok_or_else(|| Failure::new(&what, "names must be UTF-8"))?;
        gather(&entry, &format!("{name}/{below}"), files)?;
    }
    Ok(())
}

/// A file that travels with a job. It is read when the job is handed in.
fn input(path: &Path) -> Result<TaskFile, Failure> {
    let what = format!("cannot read {}", path.display());
    let file = fs::File::open(path).or_fail(&what, "is the path right?")?;
    if !file.metadata().or_fail(&what, "is the path right?")?.is_file() {
        return Err(Failure::misuse(what, "give a plain file or a folder"));
    }
    Ok(TaskFile::Path(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::program;
    use tg_jobfile::{JobFile, Task, Work};

    fn task(text: &str) -> Task {
        match JobFile::parse(text, "test").expect("a job file").work {
            Work::Task(task) => task,
            Work::Model(_) => Task::default(),
        }
    }

    #[test]
    fn command_carries_its_outputs() {
        let plain = task("run: [echo, hi]");
        assert_eq!(program(&plain), ["echo", "hi"]);
        let words = program(&task("run: exit 0\noutputs: {a/b.txt: ./b.txt, out/c: ./c}"));
        let [shell, flags, text, name] = words.as_slice() else { panic!("{words:?}") };
        assert_eq!((shell.as_str(), flags.as_str(), name.as_str()), ("/bin/sh", "-ec", "sh"));
        let copies = "mkdir -p \"$(dirname \"$TENSORGRID_OUTPUT\"/'a/b.txt')\"\n\
                      cp 'a/b.txt' \"$TENSORGRID_OUTPUT\"/'a/b.txt'\n";
        assert_eq!(*text, format!("(\nexit 0\n)\n{copies}"));
    }

    #[test]
    fn setup_runs_before_a_program() {
        let words = program(&task("setup: make\nrun: [./it, 'two words']"));
        assert_eq!(words, ["/bin/sh", "-ec", "make\n(\n\"$@\"\n)\n", "sh", "./it", "two words"]);
    }
}
