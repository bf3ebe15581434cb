//! Compose files, as the Compose Specification describes them. The first service with an image
//! becomes the job.

use super::draft::{Draft, Words, has_image, join, size_in};
use super::{Imported, nothing};
use crate::fault::Located;
use crate::form::{Form, whole};
use crate::units::Cpus;
use crate::words::{LocalPath, MountPath};
use crate::yaml::{self, Entry, Node, Value};

/// Units of memory in compose files, in lower case; they are binary.
const UNITS: [(&str, u64); 8] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1 << 30),
];

pub(super) fn import(text: &str) -> Result<Imported, Located> {
    let root = yaml::parse(text)?;
    let mut draft = Draft::new();
    let mut chosen = None;
    for entry in draft.entries("", &root) {
        match entry.key.as_str() {
            "services" => {
                for service in draft.entries("services", &entry.node) {
                    let is_run = has_image(&service.node);
                    if chosen.is_none() && is_run {
                        chosen = Some(service);
                        continue;
                    }
                    let why = if is_run {
                        "one file is one job; import this service on its own"
                    } else {
                        "it names no image"
                    };
                    draft.drop_key_because("services", service, why);
                }
            }
            "name" => draft.drop_key_because("", entry, "the job is called as its service"),
            _ => draft.drop_key("", entry),
        }
    }
    let chosen = chosen.ok_or_else(|| nothing("no service with an image under `services`"))?;
    service(&mut draft, chosen);
    Ok(draft.finish())
}

fn service(draft: &mut Draft, chosen: &Entry) {
    let path = join("services", &chosen.key);
    draft.name(&path, chosen.at, &chosen.key);
    let (mut entrypoint, mut command) = (None, None);
    let mut is_offline = false;
    for entry in draft.entries(&path, &chosen.node) {
        let (key, node) = (join(&path, &entry.key), &entry.node);
        match entry.key.as_str() {
            "image" => draft.task.image = draft.read(&key, node),
            "entrypoint" => entrypoint = draft.words(&key, node).map(|words| (entry, words)),
            "command" => command = draft.words(&key, node).map(|words| (entry, words)),
            "environment" => environment(draft, &key, node),
            "volumes" => {
                for item in draft.items(&key, node) {
                    volume(draft, &key, item);
                }
            }
            "ports" => {
                for item in draft.items(&key, node) {
                    port(draft, &key, item);
                }
            }
            "expose" => {
                for item in draft.items(&key, node) {
                    if let Some(text) = draft.text(&key, item) {
                        draft.port(&key, item.at, text);
                    }
                }
            }
            "deploy" => deploy(draft, &key, node),
            "gpus" if node.text() == Some("all") => draft.any_gpu(node.at, &key, 1),
            "gpus" => devices(draft, &key, node),
            "runtime" if node.text() == Some("nvidia") => draft.any_gpu(node.at, &key, 1),
            "mem_limit" | "mem_reservation" => memory(draft, &key, node),
            "cpus" => cpus(draft, &key, node),
            "network_mode" if node.text() == Some("none") => is_offline = true,
            _ => draft.drop_key(&path, entry),
        }
    }
    let parts: Vec<Words> =
        entrypoint.iter().chain(&command).map(|(_, words)| words.clone()).collect();
    if let Some((entry, _)) = entrypoint.as_ref().or(command.as_ref()) {
        draft.run(&join(&path, &entry.key), entry.at, &parts);
    }
    if let (None, Some((entry, _))) = (&entrypoint, &command) {
        let why = "it is `run` now, which replaces the entry point of the image";
        draft.drop_key_because(&path, entry, why);
    }
    if parts.iter().any(has_dollar) {
        let why = "compose puts variables in before a command is started; check `run`";
        draft.note(chosen.at, format!("`{path}`: {why}"));
    }
    if !is_offline {
        let why = "compose gives every service a network; `network: true` asks for one";
        draft.note(chosen.at, format!("`{path}`: {why}"));
    }
}

fn has_dollar(words: &Words) -> bool {
    match words {
        Words::Text(text) => text.contains('$'),
        Words::List(words) => words.iter().any(|word| word.contains('$')),
    }
}

/// A mapping, or a list of `NAME=value`.
fn environment(draft: &mut Draft, path: &str, node: &Node) {
    if let Value::List(items) = &node.value {
        for item in items {
            if let Some(text) = draft.text(path, item) {
                draft.variable(path, item.at, text);
            }
        }
        return;
    }
    for entry in draft.entries(path, node) {
        match &entry.node.value {
            Value::Null => draft.secret(path, entry.at, &entry.key),
            Value::Text(text) => draft.variable_value(path, entry.at, &entry.key, text),
            Value::List(_) | Value::Map(_) => draft.drop_key(path, entry),
        }
    }
}

/// `./data:/data:ro`, or a mapping.
fn volume(draft: &mut Draft, path: &str, node: &Node) {
    let mut mount = Mount::default();
    if let Value::Map(entries) = &node.value {
        for entry in entries {
            match (entry.key.as_str(), entry.node.text()) {
                ("type", Some("bind")) => {}
                ("source", Some(text)) => mount.source = text.to_owned(),
                ("target", Some(text)) => mount.target = text.to_owned(),
                ("read_only", Some(text)) => mount.is_read_only = text == "true",
                _ => draft.drop_key(path, entry),
            }
        }
    } else if let Some(text) = draft.text(path, node) {
        let mut parts = text.splitn(3, ':');
        mount.source = parts.next().unwrap_or_default().to_owned();
        mount.target = parts.next().unwrap_or_default().to_owned();
        let options = parts.next().unwrap_or_default();
        mount.is_read_only = options.split(',').any(|option| option == "ro");
        let others = options.split(',').filter(|option| !matches!(*option, "" | "ro" | "rw"));
        for other in others {
            draft.note(node.at, format!("`{path}`: the option {other:?} has no counterpart"));
        }
    } else {
        return;
    }
    let is_folder = mount.source.starts_with(['.', '/', '~']);
    let target = MountPath::read(&mount.target).filter(|_| is_folder);
    let (Some(target), Some(source)) = (target, LocalPath::read(&mount.source)) else {
        let what = format!("{}:{}", mount.source, mount.target);
        draft.note(node.at, format!("`{path}`: {what:?} is no file or folder at an absolute path"));
        return;
    };
    if !mount.is_read_only {
        let why = "what the job writes there does not come back; name it in `outputs`";
        draft.note(node.at, format!("`{path}`: {target}: {why}"));
    }
    if draft.task.file_mounts.insert(target.clone(), source).is_some() {
        draft.note(node.at, format!("`{path}`: {target} is mounted twice; the last one holds"));
    }
}

#[derive(Default)]
struct Mount {
    source: String,
    target: String,
    is_read_only: bool,
}

/// `8080`, `80:8080`, `127.0.0.1:80:8080/tcp`, or a mapping. The last number is the container's.
fn port(draft: &mut Draft, path: &str, node: &Node) {
    if let Value::Map(entries) = &node.value {
        for entry in entries {
            match (entry.key.as_str(), entry.node.text()) {
                ("target", Some(text)) => draft.port(path, entry.at, text),
                _ => draft.drop_key(path, entry),
            }
        }
        return;
    }
    let Some(text) = draft.text(path, node) else { return };
    let (address, inside) = text.rsplit_once(':').unwrap_or(("", text));
    let (inside, protocol) = inside.split_once('/').unwrap_or((inside, ""));
    draft.port(path, node.at, inside);
    if !address.is_empty() {
        draft.note(node.at, format!("`{path}`: {address:?}, the address outside, is left out"));
    }
    if !matches!(protocol, "" | "tcp") {
        draft.note(node.at, format!("`{path}`: the protocol {protocol:?} has no counterpart"));
    }
}

fn deploy(draft: &mut Draft, path: &str, node: &Node) {
    for entry in draft.entries(path, node) {
        if entry.key != "resources" {
            draft.drop_key(path, entry);
            continue;
        }
        let path = join(path, &entry.key);
        for part in draft.entries(&path, &entry.node) {
            if !matches!(part.key.as_str(), "limits" | "reservations") {
                draft.drop_key(&path, part);
                continue;
            }
            let path = join(&path, &part.key);
            for entry in draft.entries(&path, &part.node) {
                let key = join(&path, &entry.key);
                match entry.key.as_str() {
                    "cpus" => cpus(draft, &key, &entry.node),
                    "memory" => memory(draft, &key, &entry.node),
                    "devices" => devices(draft, &key, &entry.node),
                    _ => draft.drop_key(&path, entry),
                }
            }
        }
    }
}

/// A limit and a reservation are the same here; the larger one is asked for.
fn memory(draft: &mut Draft, path: &str, node: &Node) {
    match node.text().and_then(|text| size_in(&text.to_lowercase(), &UNITS)) {
        Some(size) => larger(&mut draft.resources().memory, size),
        None => draft.unreadable(path, node, "a size such as 512m or 2g"),
    }
}

fn cpus(draft: &mut Draft, path: &str, node: &Node) {
    if let Some(cpus) = draft.read::<Cpus>(path, node) {
        larger(&mut draft.resources().cpus, cpus);
    }
}

fn larger<T: Ord + Copy>(slot: &mut Option<T>, found: T) {
    *slot = Some(slot.map_or(found, |held| held.max(found)));
}

/// Devices that a service is given; only GPUs have a counterpart.
fn devices(draft: &mut Draft, path: &str, node: &Node) {
    for item in draft.items(path, node) {
        let mut count = 1;
        let mut is_gpu = false;
        for entry in draft.entries(path, item) {
            match (entry.key.as_str(), entry.node.text()) {
                ("driver", Some("nvidia")) => is_gpu = true,
                ("count", Some("all")) => {}
                ("count", Some(text)) => count = whole(text).unwrap_or(1),
                ("capabilities", None) => {
                    for word in draft.items(path, &entry.node) {
                        if word.text() == Some("gpu") {
                            is_gpu = true;
                        } else {
                            draft.unreadable(&join(path, "capabilities"), word, "gpu");
                        }
                    }
                }
                _ => draft.drop_key(path, entry),
            }
        }
        if is_gpu {
            draft.any_gpu(item.at, path, count);
        } else {
            draft.unreadable(path, item, "a device with the capability gpu");
        }
    }
}
