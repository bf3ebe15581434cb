//! All keys of the job file, each with a sentence. The table is what the reader knows, what the
//! writer puts into comments and what the reference must name.

/// A key and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The word.
    pub name: &'static str,
    /// What it says, as a sentence without its full stop.
    pub about: &'static str,
}

/// The keys of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Where the mapping is: empty for the file itself.
    pub path: &'static str,
    /// Its keys, in the order in which they are written.
    pub keys: &'static [Key],
}

const fn key(name: &'static str, about: &'static str) -> Key {
    Key { name, about }
}

/// The file itself.
pub(crate) const TOP: Section = Section {
    path: "",
    keys: &[
        key("name", "what the job is called in lists"),
        key("model", "an ONNX file or an imported program (.tgp), run as exact integers"),
        key("float", "whether the ONNX file is run as it is, in floating point"),
        key("program", "a program (.tgp) that `tensorgrid model import` has made"),
        key("image", "the container image in which the command runs"),
        key("setup", "a command that runs before `run`, in the same place"),
        key("run", "the command: text for the shell, or a list of words"),
        key("envs", "environment variables of the command"),
        key("secrets", "names of variables that are taken from your environment and sealed"),
        key("file_mounts", "files and folders to be seen under other paths"),
        key("inputs", "what the job reads: its name there, and the file or folder here"),
        key("outputs", "what the job gives: its name there, and where it is written here"),
        key("resources", "the machine"),
        key("num_nodes", "how many nodes work together"),
        key("service", "a job that answers requests until it is stopped"),
        key("checkpoint", "what to keep so that the job can go on elsewhere"),
        key("budget", "what the job may cost"),
        key("verify", "how sure to be: none, audit, sync, redundant, optimistic, proof, zk or tee"),
        key("key_escrow", "who keeps the key of the sealed data: validators, or none but you"),
        key("public", "what anybody may read: data (inputs and outputs), or all (weights as well)"),
        key("run_max", "how long one run may take"),
        key("deadline", "when the result must be there"),
        key(
            "secret_weights",
            "whether the weights are a secret that is registered; for verify: zk",
        ),
        key("promise", "whether the deadline is to be promised, or the job not wanted"),
        key("priority", "how urgent it is, from 0 to 3: each step doubles what a run is paid"),
        key("network", "whether the command may use the network"),
    ],
};

/// `resources`, and each alternative of `resources.any_of`.
pub(crate) const RESOURCES: Section = Section {
    path: "resources",
    keys: &[
        key("accelerators", "GPUs by the maker's name and count; several are alternatives"),
        key("gpu_memory", "the least memory of a GPU, or of the part of one"),
        key("gpu_share", "a part of a GPU is enough: 0.05 to 0.95, in steps of 0.05"),
        key("share_with_strangers", "whether others may be beside it on the same processors"),
        key("memory", "the least memory of the machine"),
        key("cpus", "the fewest processors"),
        key("disk", "the least space for files"),
        key("region", "where the machine stands"),
        key("home", "where you or your data are: machines there or near it are preferred"),
        key("features", "what the device can do besides the usual"),
        key("use_spot", "whether the job may be interrupted for a lower price"),
        key("any_of", "alternatives, each with keys of `resources`"),
    ],
};

/// `service`.
pub(crate) const SERVICE: Section = Section {
    path: "service",
    keys: &[
        key("port", "where the command listens"),
        key("readiness_probe", "a path that answers when it is ready"),
        key("replicas", "how many copies answer"),
    ],
};

/// `checkpoint`.
pub(crate) const CHECKPOINT: Section = Section {
    path: "checkpoint",
    keys: &[
        key("path", "the folder in which the job keeps its state"),
        key("every", "how often it is copied"),
    ],
};

/// `budget`.
pub(crate) const BUDGET: Section =
    Section { path: "budget", keys: &[key("max", "the most the job may cost in all, in TGRID")] };

/// `verify` as a mapping.
pub(crate) const VERIFY: Section = Section {
    path: "verify",
    keys: &[
        key("mode", "the same words"),
        key("replicas", "how many providers must give the same output, for `redundant`"),
    ],
};

/// All sections, the file itself first.
pub const SECTIONS: [Section; 6] = [TOP, RESOURCES, SERVICE, CHECKPOINT, BUDGET, VERIFY];

/// Words of neighbouring formats that are too far from ours to be taken for typing errors.
const SYNONYMS: [(&str, &str); 20] = [
    ("accelerator", "accelerators"),
    ("arguments", "run"),
    ("cmd", "run"),
    ("command", "run"),
    ("container", "image"),
    ("cpu", "cpus"),
    ("disk_size", "disk"),
    ("entrypoint", "run"),
    ("environment", "envs"),
    ("escrow", "key_escrow"),
    ("gpu", "accelerators"),
    ("gpus", "accelerators"),
    ("mounts", "file_mounts"),
    ("nodes", "num_nodes"),
    ("ports", "port"),
    ("timeout", "run_max"),
    ("volumes", "file_mounts"),
    ("vram", "gpu_memory"),
    ("workdir", "file_mounts"),
    ("zone", "region"),
];

impl Section {
    /// The key with its section, as people write it in one word.
    #[must_use]
    pub fn join(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// What a key says.
    pub(crate) fn about(&self, name: &str) -> &'static str {
        self.keys.iter().find(|key| key.name == name).map_or("", |key| key.about)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.keys.iter().any(|key| key.name == name)
    }

    /// The key that was probably meant. Keys of other sections are tried last: whoever writes
    /// `gpu_memory` at the top has forgotten `resources`.
    pub(crate) fn closest(&self, word: &str) -> Option<&'static str> {
        let word = word.to_lowercase().replace('-', "_");
        let synonym = SYNONYMS.iter().find(|(other, _)| *other == word).map(|(_, key)| *key);
        if let Some(key) = synonym.filter(|key| self.has(key)) {
            return Some(key);
        }
        nearest(&word, self.keys).or_else(|| {
            let others = SECTIONS.iter().filter(|section| section.path != self.path);
            let mut exact = others.flat_map(|section| section.keys.iter());
            let wanted = synonym.unwrap_or(&word);
            exact.find(|key| key.name == wanted).map(|key| full_name(key.name))
        })
    }
}

fn nearest(word: &str, keys: &'static [Key]) -> Option<&'static str> {
    /// One error in three letters is still recognised as the word.
    const LETTERS_PER_ERROR: usize = 3;
    /// Longer words are no typing errors, and comparing takes the product of both lengths.
    const LETTERS_MAX: usize = 32;
    if word.chars().count() > LETTERS_MAX {
        return None;
    }
    let distance = |key: &Key| strsim::osa_distance(word, key.name);
    let best = keys.iter().min_by_key(|key| distance(key))?;
    let allowed = best.name.len().div_ceil(LETTERS_PER_ERROR);
    let shares_start = |key: &&Key| {
        let shorter = word.len().min(key.name.len());
        shorter >= LETTERS_PER_ERROR && (word.starts_with(key.name) || key.name.starts_with(word))
    };
    let is_near = (distance(best) <= allowed).then_some(best);
    is_near.or_else(|| keys.iter().find(shares_start)).map(|key| key.name)
}

/// A key of a section with the section in front, for suggestions across sections.
fn full_name(name: &'static str) -> &'static str {
    match name {
        "accelerators" => "resources.accelerators",
        "gpu_memory" => "resources.gpu_memory",
        "gpu_share" => "resources.gpu_share",
        "share_with_strangers" => "resources.share_with_strangers",
        "memory" => "resources.memory",
        "cpus" => "resources.cpus",
        "disk" => "resources.disk",
        "region" => "resources.region",
        "home" => "resources.home",
        "features" => "resources.features",
        "use_spot" => "resources.use_spot",
        "any_of" => "resources.any_of",
        "port" => "service.port",
        "replicas" => "verify.replicas",
        "max" => "budget.max",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{BUDGET, RESOURCES, SECTIONS, SYNONYMS, TOP};

    #[test]
    fn closest_key_is_the_one_that_was_meant() {
        for (word, key) in [
            ("env", "envs"),
            ("modle", "model"),
            ("Image", "image"),
            ("file-mounts", "file_mounts"),
            ("gpu_memory", "resources.gpu_memory"),
            ("gpus", "resources.accelerators"),
            ("dead_line", "deadline"),
            ("command", "run"),
            ("max", "budget.max"),
            ("check", "checkpoint"),
            ("escrow", "key_escrow"),
            ("key-escrow", "key_escrow"),
        ] {
            assert_eq!(TOP.closest(word), Some(key), "{word}");
        }
        assert_eq!(RESOURCES.closest("acclerators"), Some("accelerators"));
        assert_eq!(RESOURCES.closest("vram"), Some("gpu_memory"));
        assert_eq!(BUDGET.closest("maximum"), Some("max"));
        assert_eq!(RESOURCES.closest("model"), Some("model"));
        for word in ["", "zzzzzzz", "x-custom", &"envs".repeat(100)] {
            assert_eq!(TOP.closest(word), None, "{word}");
        }
    }

    #[test]
    fn synonyms_lead_to_keys_and_are_none() {
        let is_key = |word: &str| SECTIONS.iter().any(|section| section.has(word));
        for (word, key) in SYNONYMS {
            assert!(is_key(key) && !is_key(word), "{word}");
        }
    }
}
