//! What is to be run: program, environment, root, network, limits, inputs, devices. Everything that
//! comes from a stranger is parsed here once; what is left has no way of meaning something else to
//! a shell, a mount table or another program's command line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::limits::Limits;
use crate::oci::Rootfs;

/// The work folder as the task sees it: the only place it can write to, and where it starts.
pub const WORK_FOLDER: &str = "/job";
/// Where the task finds its inputs, read-only, each under its name.
pub const INPUT_FOLDER: &str = "/in";
/// Where the task puts what is to be kept: a link to `out` in its work folder.
pub const OUTPUT_FOLDER: &str = "/out";

/// The variable in which a task finds the folder that is saved, which is elsewhere at
/// [`crate::Level::Rlimits`].
pub const CHECKPOINT_VARIABLE: &str = "TG_CHECKPOINT";

/// Where the files of the task's root come from.
#[derive(Clone, Debug, Default)]
pub enum Root {
    /// The programs and libraries of this machine, read-only; no settings, no homes, no data.
    #[default]
    Host,
    /// An unpacked image.
    Image(Rootfs),
    /// This program itself with the libraries it has loaded, and nothing else of the machine. The
    /// task's program is what it is started with; its `main` looks for that before anything else.
    /// Needs a level with namespaces.
    Own,
}

/// Which network a task has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// None at all.
    #[default]
    None,
    /// The machine's, with everything that can be reached from it: loopback and local network
    /// too. Needs the provider's permission ([`crate::Settings::allow_network`]).
    Host,
}

/// Where the work folder is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Work {
    /// In memory, with an exact bound. At the level without namespaces it is on disk all the same.
    #[default]
    Memory,
    /// On disk, for tasks that write more than fits into memory. The bound is watched: a task that
    /// passes it is ended a moment later, not at the byte.
    Disk,
}

/// One program to run, with all it may see and use.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// The program and its arguments. Empty means what the image states; with [`Root::Own`] these
    /// are arguments of this program.
    pub program: Vec<String>,
    /// The whole environment, besides `PATH`, `HOME`, `TMPDIR`, `TENSORGRID_WORK`,
    /// `TENSORGRID_INPUT` and `TENSORGRID_OUTPUT` where it does not state them. The last three
    /// name the folders of this task, which are elsewhere at [`crate::Level::Rlimits`].
    pub environment: BTreeMap<String, String>,
    /// Where its files come from.
    pub root: Root,
    /// Which network it has.
    pub network: Network,
    /// Where its work folder is kept.
    pub work: Work,
    /// What it may use at most.
    pub limits: Limits,
    /// What it may read, besides its root.
    pub inputs: Vec<Input>,
    /// Devices assigned to it, such as `/dev/nvidia0`; no others exist in the sandbox.
    pub devices: Vec<PathBuf>,
    /// Where it keeps its state, if that is to be saved. Its work folder is on disk then.
    pub checkpoint: Option<CheckpointPath>,
}

impl Task {
    /// Program, arguments and environment together; well below what the kernel takes.
    pub const TEXT_BYTES_MAX: usize = 512 << 10;
    /// Inputs and devices together: each is a mount, and no task has a reason for more.
    pub const MOUNTS_MAX: usize = 1024;

    /// A task on the machine's own programs.
    #[must_use]
    pub fn new(program: &[&str]) -> Self {
        let program = program.iter().map(|&word| word.to_owned()).collect();
        Self { program, ..Self::default() }
    }

    /// Program, arguments and environment as they are started, checked.
    ///
    /// # Errors
    /// If there is no program, something is too long or contains what no process can be given.
    pub(crate) fn command(&self) -> Result<Command, TaskError> {
        let mut environment = BTreeMap::new();
        let mut program = self.program.clone();
        if let Root::Image(image) = &self.root {
            environment.extend(image.config().environment());
            if program.is_empty() {
                program = image.config().program();
            }
        }
        environment.extend(self.environment.clone());
        let words = program.iter().chain(environment.keys()).chain(environment.values());
        let bytes: usize = words.clone().map(|word| word.len().saturating_add(1)).sum();
        if bytes > Self::TEXT_BYTES_MAX {
            return Err(TaskError::TooLong { bytes });
        }
        if words.clone().any(|word| word.contains('\0')) {
            return Err(TaskError::ZeroByte);
        }
        let is_name = |name: &String| !name.is_empty() && !name.contains('=');
        if let Some(name) = environment.keys().find(|name| !is_name(name)) {
            return Err(TaskError::Variable { name: name.clone() });
        }
        if program.first().is_none_or(String::is_empty) {
            return Err(TaskError::NoProgram);
        }
        Ok(Command { program, environment })
    }

    /// Checks that inputs are named once and devices are device files below `/dev`.
    ///
    /// # Errors
    /// The first thing that is not so.
    pub(crate) fn check_mounts(&self) -> Result<(), TaskError> {
        let count = self.inputs.len().saturating_add(self.devices.len());
        if count > Self::MOUNTS_MAX {
            return Err(TaskError::TooManyMounts { count });
        }
        let mut names = BTreeSet::new();
        for Input { name, source } in &self.inputs {
            if !names.insert(name) {
                return Err(TaskError::InputTwice { name: name.clone() });
            }
            if let Source::Path(path) = source
                && !path.is_absolute()
            {
                return Err(TaskError::RelativeInput { path: path.clone() });
            }
        }
        match self.devices.iter().find(|path| !is_device(path)) {
            Some(path) => Err(TaskError::NotADevice { path: path.clone() }),
            None => Ok(()),
        }
    }
}

/// What is started: checked, and completed from the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) program: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
}

/// A name under [`INPUT_FOLDER`]: letters, digits, `.`, `-` and `_`, not beginning with a dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InputName(String);

impl InputName {
    /// The longest name of a file.
    pub const BYTES_MAX: usize = 255;

    /// Checks a name.
    ///
    /// # Errors
    /// If it is empty, too long or has other characters.
    pub fn new(name: &str) -> Result<Self, TaskError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        let fits = (1..=Self::BYTES_MAX).contains(&name.len());
        if fits && name.chars().all(is_plain) && !name.starts_with('.') {
            return Ok(Self(name.to_owned()));
        }
        Err(TaskError::InputName { name: name.chars().take(Self::BYTES_MAX).collect() })
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Names below `/` that systems and images have for themselves.
const TAKEN: [&str; 26] = [
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "in",
    "job",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "lost+found",
    "media",
    "mnt",
    "nix",
    "opt",
    "out",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
    "tmp",
    "usr",
    "var",
];

/// A folder of the task's own directly below `/`, such as `/ckpt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointPath(InputName);

impl CheckpointPath {
    /// Checks a path: one name below `/`, which is none that systems use.
    ///
    /// # Errors
    /// If it is another path.
    pub fn new(path: &str) -> Result<Self, TaskError> {
        let wrong = || TaskError::CheckpointPath { path: path.chars().take(255).collect() };
        let name = path.strip_prefix('/').filter(|name| !TAKEN.contains(name)).ok_or_else(wrong)?;
        InputName::new(name).map(Self).map_err(|_| wrong())
    }

    /// The name below `/`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.as_str()
    }
}

/// Something that the task may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name in [`INPUT_FOLDER`].
    pub name: InputName,
    /// What it is.
    pub source: Source,
}

/// What an input is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file with these bytes, written for this run.
    Bytes(Vec<u8>),
    /// A file or folder of the machine, by its absolute path. The task must be able to read it:
    /// it is another user where this program is root.
    Path(PathBuf),
}

impl Input {
    /// A file with these bytes.
    ///
    /// # Errors
    /// If the name is none.
    pub fn bytes(name: &str, bytes: impl Into<Vec<u8>>) -> Result<Self, TaskError> {
        Ok(Self { name: InputName::new(name)?, source: Source::Bytes(bytes.into()) })
    }

    /// A file or folder of the machine.
    ///
    /// # Errors
    /// If the name is none.
    pub fn path(name: &str, path: impl Into<PathBuf>) -> Result<Self, TaskError> {
        Ok(Self { name: InputName::new(name)?, source: Source::Path(path.into()) })
    }
}

/// Whether a path is a character device below `/dev`, named without detours.
fn is_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let plain = path.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
    let metadata = std::fs::symlink_metadata(path);
    plain
        && path.starts_with("/dev")
        && metadata.is_ok_and(|metadata| metadata.file_type().is_char_device())
}

/// Why a task cannot be run as it is described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// The folder for checkpoints cannot be there.
    #[error(
        "{path:?} cannot be the folder for checkpoints: it is one name directly below /, such as \
         /ckpt, that no system uses"
    )]
    CheckpointPath {
        /// The path.
        path: String,
    },
    /// Neither the task nor its image says what to run.
    #[error("no program is named")]
    NoProgram,
    /// More text than a process is given.
    #[error(
        "program, arguments and environment have {bytes} bytes, at most {}",
        Task::TEXT_BYTES_MAX
    )]
    TooLong {
        /// How much.
        bytes: usize,
    },
    /// The kernel ends words at a zero byte.
    #[error("a word contains a zero byte")]
    ZeroByte,
    /// Not the name of a variable.
    #[error("{name:?} is no name of an environment variable")]
    Variable {
        /// The name.
        name: String,
    },
    /// Not a name for an input.
    #[error("{name:?} is no name for an input: letters, digits, '.', '-' and '_' only")]
    InputName {
        /// The name.
        name: String,
    },
    /// Two inputs with one name.
    #[error("two inputs are named {}", name.as_str())]
    InputTwice {
        /// The name.
        name: InputName,
    },
    /// An input that depends on where this process runs.
    #[error("the input {path} is not an absolute path")]
    RelativeInput {
        /// The path.
        path: PathBuf,
    },
    /// Not something to hand to a task as its device.
    #[error("{path} is no character device below /dev")]
    NotADevice {
        /// The path.
        path: PathBuf,
    },
    /// More mounts than anybody needs.
    #[error("{count} inputs and devices, at most {}", Task::MOUNTS_MAX)]
    TooManyMounts {
        /// How many.
        count: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::{Input, InputName, Task, TaskError};
    use std::path::PathBuf;

    #[test]
    fn input_names_cannot_leave_their_folder() {
        for name in ["", ".", "..", "a/b", "../x", "a b", ".hidden", "a\0b", &"x".repeat(256)] {
            let refused = InputName::new(name);
            assert!(matches!(refused, Err(TaskError::InputName { .. })), "{name:?}");
        }
        assert_eq!(InputName::new("model-1_a.onnx").map(|n| n.0), Ok("model-1_a.onnx".into()));
    }

    #[test]
    fn task_without_program_or_with_bad_words_is_refused() {
        assert_eq!(Task::new(&[]).command(), Err(TaskError::NoProgram));
        assert_eq!(Task::new(&[""]).command(), Err(TaskError::NoProgram));
        assert_eq!(Task::new(&["a", "b\0"]).command(), Err(TaskError::ZeroByte));
        let long = "x".repeat(Task::TEXT_BYTES_MAX);
        assert!(matches!(Task::new(&["a", &long]).command(), Err(TaskError::TooLong { .. })));
        let mut task = Task::new(&["a"]);
        task.environment.insert("A=B".into(), String::new());
        assert!(matches!(task.command(), Err(TaskError::Variable { .. })));
    }

    #[test]
    fn mounts_name_each_input_once_and_devices_only() {
        let input = |name: &str, path: &str| Input::path(name, path).expect("a name");
        let check = |inputs: Vec<Input>, devices: &[&str]| {
            let devices = devices.iter().map(PathBuf::from).collect();
            Task { inputs, devices, ..Task::default() }.check_mounts()
        };
        let bytes = Input::bytes("a", "content").expect("a name");
        let twice = check(vec![input("a", "/x"), input("b", "/x"), bytes.clone()], &[]);
        assert!(matches!(twice, Err(TaskError::InputTwice { .. })));
        let relative = check(vec![input("a", "x")], &[]);
        assert!(matches!(relative, Err(TaskError::RelativeInput { .. })));
        let many = check(vec![], &["/dev/null"; Task::MOUNTS_MAX + 1]);
        assert!(matches!(many, Err(TaskError::TooManyMounts { .. })));
        for path in ["/etc/passwd", "/dev", "/dev/../etc/passwd", "/dev/shm", "null"] {
            let refused = check(vec![], &[path]);
            assert!(matches!(refused, Err(TaskError::NotADevice { .. })), "{path}");
        }
        assert_eq!(check(vec![bytes, input("b", "/x")], &["/dev/null"]), Ok(()));
    }
}
