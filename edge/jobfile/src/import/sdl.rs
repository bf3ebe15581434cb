//! Akash SDL, version 2: services, the compute profile and placement that `deployment` gives them.
//! The first service of the deployment becomes the job.

use super::draft::{Draft, MODEL_NAME, has_image, join, size_in};
use super::{Imported, nothing};
use crate::fault::{Located, Position};
use crate::form::Form;
use crate::units::{Cpus, Size};
use crate::yaml::{self, Entry, Node, Value};
use std::num::NonZeroU16;
use tg_types::Name;

/// Units of sizes, as in Kubernetes.
const UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("k", 1_000),
    ("Ki", 1 << 10),
    ("M", 1_000_000),
    ("Mi", 1 << 20),
    ("G", 1_000_000_000),
    ("Gi", 1 << 30),
    ("T", 1_000_000_000_000),
    ("Ti", 1 << 40),
];

/// Where a service is deployed.
struct Choice<'n> {
    service: &'n str,
    placement: &'n str,
    profile: &'n str,
}

pub(super) fn import(text: &str) -> Result<Imported, Located> {
    let root = yaml::parse(text)?;
    let mut draft = Draft::new();
    let top = draft.entries("", &root);
    let find = |key: &str| top.iter().find(|entry| entry.key == key);
    let services = find("services").map(|entry| &entry.node);
    let choice = choose(&mut draft, find("deployment"), services)
        .ok_or_else(|| nothing("no service with an image under `services`"))?;
    for entry in top {
        match entry.key.as_str() {
            "services" => {
                for one in draft.entries("services", &entry.node) {
                    if one.key == choice.service {
                        service(&mut draft, one);
                    } else {
                        let why = "one file is one job; import this service on its own";
                        draft.drop_key_because("services", one, why);
                    }
                }
            }
            "profiles" => profiles(&mut draft, &entry.node, &choice),
            "deployment" => {}
            _ => draft.drop_key("", entry),
        }
    }
    Ok(draft.finish())
}

/// The first service that is deployed, or else the first there is.
fn choose<'n>(
    draft: &mut Draft,
    deployment: Option<&'n Entry>,
    services: Option<&'n Node>,
) -> Option<Choice<'n>> {
    let services = draft.entries("services", services?);
    let is_run = |name: &str| services.iter().any(|one| one.key == name && has_image(&one.node));
    let mut choice: Option<Choice<'n>> = None;
    let deployed = deployment.map(|entry| draft.entries("deployment", &entry.node));
    for one in deployed.unwrap_or_default() {
        if choice.is_some() || !is_run(&one.key) {
            let why = "one file is one job, and it is not this one";
            draft.drop_key_because("deployment", one, why);
            continue;
        }
        let path = join("deployment", &one.key);
        let mut found = Choice { service: &one.key, placement: "", profile: "" };
        for placement in draft.entries(&path, &one.node) {
            if !found.placement.is_empty() {
                draft.drop_key_because(&path, placement, "a job is placed once");
                continue;
            }
            found.placement = &placement.key;
            let path = join(&path, &placement.key);
            for entry in draft.entries(&path, &placement.node) {
                match (entry.key.as_str(), entry.node.text()) {
                    ("profile", Some(profile)) => found.profile = profile,
                    ("count", Some("1")) => {}
                    ("count", _) => draft.drop_key_because(&path, entry, "a job is run once"),
                    _ => draft.drop_key(&path, entry),
                }
            }
        }
        choice = Some(found);
    }
    let first = || services.iter().find(|one| has_image(&one.node));
    choice.or_else(|| Some(Choice { service: &first()?.key, placement: "", profile: "" }))
}

fn service(draft: &mut Draft, chosen: &Entry) {
    let path = join("services", &chosen.key);
    draft.name(&path, chosen.at, &chosen.key);
    let mut command = None;
    let mut arguments = None;
    for entry in draft.entries(&path, &chosen.node) {
        let (key, node) = (join(&path, &entry.key), &entry.node);
        match entry.key.as_str() {
            "image" => draft.task.image = draft.read(&key, node),
            "command" => command = draft.words(&key, node).map(|words| (entry.at, words)),
            "args" => arguments = draft.words(&key, node).map(|words| (entry.at, words)),
            "env" => {
                for item in draft.items(&key, node) {
                    if let Some(text) = draft.text(&key, item) {
                        draft.variable(&key, item.at, text);
                    }
                }
            }
            "expose" => {
                for item in draft.items(&key, node) {
                    expose(draft, &key, item);
                }
            }
            _ => draft.drop_key(&path, entry),
        }
    }
    match (command, arguments) {
        (Some((at, command)), Some((_, arguments))) => {
            draft.run(&path, at, &[command, arguments]);
        }
        (Some((at, command)), None) => draft.run(&path, at, &[command]),
        (None, Some((at, arguments))) => {
            draft.run(&path, at, &[arguments]);
            let why = "`args` is `run` now, which replaces the entry point of the image";
            draft.note(at, format!("`{path}`: {why}"));
        }
        (None, None) => {}
    }
    let why = "a lease has a network; `network: true` asks for one";
    draft.note(chosen.at, format!("`{path}`: {why}"));
}

fn expose(draft: &mut Draft, path: &str, node: &Node) {
    for entry in draft.entries(path, node) {
        match (entry.key.as_str(), entry.node.text()) {
            ("port", Some(text)) => draft.port(path, entry.at, text),
            _ => draft.drop_key(path, entry),
        }
    }
}

fn profiles(draft: &mut Draft, node: &Node, choice: &Choice<'_>) {
    for kind in draft.entries("profiles", node) {
        let path = join("profiles", &kind.key);
        let wanted = match kind.key.as_str() {
            "compute" => choice.profile,
            "placement" => choice.placement,
            _ => {
                draft.drop_key("profiles", kind);
                continue;
            }
        };
        for profile in draft.entries(&path, &kind.node) {
            if profile.key != wanted {
                draft.drop_key_because(&path, profile, "the job does not use it");
                continue;
            }
            let path = join(&path, &profile.key);
            for entry in draft.entries(&path, &profile.node) {
                let inner = join(&path, &entry.key);
                match (kind.key.as_str(), entry.key.as_str()) {
                    ("compute", "resources") => compute(draft, &inner, &entry.node),
                    ("placement", "attributes") => attributes(draft, &inner, &entry.node),
                    ("placement", "pricing") => {
                        let why = "prices are in another coin; set `budget` in TGRID";
                        draft.drop_key_because(&path, entry, why);
                    }
                    _ => draft.drop_key(&path, entry),
                }
            }
        }
    }
}

fn compute(draft: &mut Draft, path: &str, node: &Node) {
    for entry in draft.entries(path, node) {
        let (key, node) = (join(path, &entry.key), &entry.node);
        match entry.key.as_str() {
            "cpu" => {
                for part in draft.entries(&key, node) {
                    match part.key.as_str() {
                        "units" => cpus(draft, &join(&key, "units"), &part.node),
                        _ => draft.drop_key(&key, part),
                    }
                }
            }
            "memory" => {
                for part in draft.entries(&key, node) {
                    match part.key.as_str() {
                        "size" => draft.resources().memory = size(draft, &key, &part.node),
                        _ => draft.drop_key(&key, part),
                    }
                }
            }
            "storage" => match &node.value {
                Value::List(items) => items.iter().for_each(|item| storage(draft, &key, item)),
                Value::Map(_) | Value::Null | Value::Text(_) => storage(draft, &key, node),
            },
            "gpu" => gpu(draft, &key, node),
            _ => draft.drop_key(path, entry),
        }
    }
}

fn size(draft: &mut Draft, path: &str, node: &Node) -> Option<Size> {
    let size = node.text().and_then(|text| size_in(text, &UNITS));
    if size.is_none() {
        draft.unreadable(path, node, "a size such as 512Mi or 2Gi");
    }
    size
}

/// Processors, or thousandths of one as in `500m`.
fn cpus(draft: &mut Draft, path: &str, node: &Node) {
    let text = node.text().unwrap_or_default();
    let cpus = match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse().ok().and_then(Cpus::from_thousandths),
        None => Cpus::read(text),
    };
    match cpus {
        Some(cpus) => draft.resources().cpus = Some(cpus),
        None => draft.unreadable(path, node, Cpus::EXPECTED),
    }
}

/// One volume; the sum of all is what the job may write.
fn storage(draft: &mut Draft, path: &str, node: &Node) {
    for entry in draft.entries(path, node) {
        match entry.key.as_str() {
            "size" => {
                let Some(more) = size(draft, path, &entry.node) else { continue };
                let held = draft.resources().disk.map_or(0, Size::bytes);
                let sum = Size::new(held.saturating_add(more.bytes())).unwrap_or(Size::MAX);
                draft.resources().disk = Some(sum);
            }
            _ => draft.drop_key(path, entry),
        }
    }
}

fn gpu(draft: &mut Draft, path: &str, node: &Node) {
    let mut count = NonZeroU16::MIN;
    let mut is_asked = false;
    let mut models: Vec<(Position, String)> = Vec::new();
    for entry in draft.entries(path, node) {
        match (entry.key.as_str(), entry.node.text()) {
            ("units", Some("0")) => {}
            ("units", _) => {
                is_asked = true;
                count = draft.read(&join(path, "units"), &entry.node).unwrap_or(count);
            }
            ("attributes", None) => models = vendors(draft, &join(path, "attributes"), &entry.node),
            _ => draft.drop_key(path, entry),
        }
    }
    if !is_asked {
        return;
    }
    if models.is_empty() {
        draft.any_gpu(node.at, path, u64::from(count.get()));
    }
    for (at, model) in models {
        draft.gpu(at, path, &model, count);
    }
}

/// The models of all vendors, and the least memory that any of them asks for.
fn vendors(draft: &mut Draft, path: &str, node: &Node) -> Vec<(Position, String)> {
    let mut models = Vec::new();
    for entry in draft.entries(path, node) {
        if entry.key != "vendor" {
            draft.drop_key(path, entry);
            continue;
        }
        for vendor in draft.entries(path, &entry.node) {
            let path = join(path, &vendor.key);
            let items = draft.items(&path, &vendor.node);
            if items.is_empty() {
                draft.note(vendor.at, format!("`{path}`: {MODEL_NAME}"));
            }
            for item in items {
                for part in draft.entries(&path, item) {
                    match (part.key.as_str(), part.node.text()) {
                        ("model", Some(model)) => models.push((part.at, model.to_owned())),
                        ("ram", _) => {
                            let Some(ram) = size(draft, &path, &part.node) else { continue };
                            let least =
                                draft.resources().gpu_memory.map_or(ram, |held| held.min(ram));
                            draft.resources().gpu_memory = Some(least);
                        }
                        _ => draft.drop_key(&path, part),
                    }
                }
            }
        }
    }
    models
}

fn attributes(draft: &mut Draft, path: &str, node: &Node) {
    for entry in draft.entries(path, node) {
        let is_region = matches!(entry.key.as_str(), "region" | "location-region");
        if is_region && draft.resources().region.is_none() {
            draft.resources().region = draft.read::<Name>(path, &entry.node);
        } else {
            draft.drop_key(path, entry);
        }
    }
}
