//! What a job file can say and this version cannot do. It is read, kept and named, so that a
//! command refuses with a sentence instead of running something else than was asked for.

use crate::file::{JobFile, Resources, Task, Work};
use crate::words::LocalPath;
use std::fmt;
use tg_types::gpu::GPUS_MAX;
use tg_types::job::NODES_PER_JOB_MAX;

/// Where a task finds its inputs; the only place where files can be seen.
const INPUT_FOLDER: &str = "/in/";

/// A key that this version cannot honour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The key, with the sections around it.
    pub key: &'static str,
    /// Why not, and what to do instead.
    pub sentence: String,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.key, self.sentence)
    }
}

impl JobFile {
    /// The keys that this version cannot honour. A job with any of them must not be handed in.
    #[must_use]
    pub fn unsupported(&self) -> Vec<Unsupported> {
        let mut found = Vec::new();
        let mut add = |key, sentence: &str| {
            found.push(Unsupported { key, sentence: sentence.to_owned() });
        };
        if let Work::Task(task) = &self.work {
            of_task(task, &mut add);
        }
        of_resources(&self.resources, &mut add);
        of_gpus(&self.resources, matches!(self.work, Work::Task(_)), &mut add);
        if self.num_nodes.get() > NODES_PER_JOB_MAX.into() {
            add("num_nodes", "a job runs on 16 nodes at most in this version");
        }
        if self.service.is_some() {
            add("service", "a job is run once in this version; it cannot answer requests");
        }
        if let Some(verify) = self.verify.filter(|verify| verify.tier().is_none()) {
            let word = verify.word();
            let sentence = format!(
                "{word} is not in this version; use none, audit, sync, redundant, proof or zk"
            );
            add("verify", &sentence);
        }
        found
    }
}

fn of_task(task: &Task, add: &mut impl FnMut(&'static str, &str)) {
    if !task.secrets.is_empty() {
        add("secrets", "variables cannot be sealed in this version; use a file in `inputs`");
    }
    let elsewhere = task.file_mounts.keys().find(|path| {
        let name = path.as_str().strip_prefix(INPUT_FOLDER);
        name.is_none_or(|name| name.contains('/'))
    });
    if let Some(path) = elsewhere {
        let sentence =
            format!("files are seen in {INPUT_FOLDER} only, not at {path}; use `inputs`");
        add("file_mounts", &sentence);
    }
    let is_remote = |path: &&LocalPath| path.as_str().contains("://");
    if let Some(path) = task.file_mounts.values().find(is_remote) {
        add("file_mounts", &format!("{path} cannot be fetched in this version; fetch it first"));
    }
    if let Some(path) = task.inputs.values().find(is_remote) {
        add("inputs", &format!("{path} cannot be fetched in this version; fetch it first"));
    }
}

fn of_gpus(resources: &Resources, is_command: bool, add: &mut impl FnMut(&'static str, &str)) {
    let count = resources.accelerators.iter().map(|one| one.count().get()).max().unwrap_or(1);
    if count > GPUS_MAX.into() {
        add("resources.accelerators", "a run is given 16 GPUs at most");
    }
    if count > 1 && !is_command {
        let sentence = "a model is run on one device in this version; ask for a count of 1";
        add("resources.accelerators", sentence);
    }
    if resources.gpu_share.is_some() && !is_command {
        add("resources.gpu_share", "only commands are given parts of GPUs in this version");
    }
    if resources.gpu_share.is_some() && count > 1 {
        add("resources.gpu_share", "a part of one GPU or several GPUs; leave one of them out");
    }
    if resources.share_with_strangers.is_some() && resources.gpu_share.is_none() {
        add("resources.share_with_strangers", "nothing is shared without `gpu_share`");
    }
}

fn of_resources(resources: &Resources, add: &mut impl FnMut(&'static str, &str)) {
    if resources.accelerators.len() > 1 {
        let sentence = "alternatives are not in this version; name one model or gpu_memory";
        add("resources.accelerators", sentence);
    }
    if resources.region.is_some() && resources.home.is_some() {
        let sentence = "machines of one region are all as near; leave `region` or `home` out";
        add("resources.home", sentence);
    }
    if resources.use_spot == Some(true) {
        let sentence = "every run is firm in this version; there is no lower price to be had";
        add("resources.use_spot", sentence);
    }
    if !resources.any_of.is_empty() {
        let sentence = "alternatives are not in this version; ask for what all of them have";
        add("resources.any_of", sentence);
    }
}
