//! What is said between the supervisor and its two helpers, the launcher outside and the first
//! process inside. Both helpers are copies of this program, so the format is private and has no
//! version; it is JSON in frames (`control.rs`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::view::View;

/// The first argument that makes a copy of this program a helper.
pub(crate) const INIT_WORD: &str = "sandbox-init";
/// The second argument: start the sandbox.
pub(crate) const LAUNCH_WORD: &str = "launch";
/// The second argument: be the first process inside.
pub(crate) const INSIDE_WORD: &str = "inside";
/// The second argument: end at once, successfully; what a trial runs.
pub(crate) const NOTHING_WORD: &str = "nothing";

/// What programs are found by, where nothing else is stated.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A user of the machine for tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobUser {
    /// User number, never 0.
    pub uid: u32,
    /// Group number, never 0.
    pub gid: u32,
}

/// What the launcher does.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Launch {
    /// Becomes this program, which starts the first process inside.
    Become { program: Vec<String> },
    /// Makes namespaces and starts the first process in them.
    Namespaces {
        /// Make a user namespace with this machine user in it, seen as [`INSIDE_USER`].
        user: Option<JobUser>,
        /// Share the machine's network.
        network: bool,
    },
    /// Starts the first process without namespaces.
    Plain,
}

/// The user a task sees itself as where user numbers are its own.
pub(crate) const INSIDE_USER: JobUser = JobUser { uid: 1000, gid: 1000 };

/// What the first process inside does.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inside {
    /// The file tree to build, where nobody else did.
    pub(crate) view: Option<View>,
    /// The machine user to become, where nobody else did.
    pub(crate) user: Option<JobUser>,
    /// Whether it may name the machine: only in namespaces that it made.
    pub(crate) hostname: bool,
    /// What Landlock lets through.
    pub(crate) paths: Paths,
    /// Which sockets may be made.
    pub(crate) sockets: Sockets,
    /// What it shares with other processes of the machine.
    pub(crate) shares: Shares,
    /// Resource limits of each process.
    pub(crate) rlimits: Vec<Rlimit>,
    /// The work folder.
    pub(crate) work: PathBuf,
    /// The program and its arguments.
    pub(crate) program: Vec<String>,
    /// All of its environment.
    pub(crate) environment: BTreeMap<String, String>,
}

/// What Landlock lets through. What does not exist is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Paths {
    /// To read and to run, with everything below.
    pub(crate) read: Vec<PathBuf>,
    /// To do anything with, with everything below.
    pub(crate) write: Vec<PathBuf>,
    /// Devices to read, write and control.
    pub(crate) devices: Vec<PathBuf>,
}

/// Which sockets may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Sockets {
    /// Pairs only: without a mount namespace even a local socket leads to the machine.
    Pairs,
    /// Local ones.
    Local,
    /// Local ones and those of the internet.
    Internet,
}

/// What a task shares with other processes of the machine, so that system calls must be refused
/// which would reach them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Shares {
    /// Nothing: it has namespaces.
    Nothing,
    /// Process numbers and memory segments, but not the user.
    Numbers,
    /// The user as well, who owns files outside.
    User,
}

/// A resource limit of each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Rlimit {
    /// Bytes of private writable memory.
    Data(u64),
    /// Seconds of processor time.
    Cpu(u64),
    /// Bytes of each file.
    FileSize(u64),
    /// Processes of the user.
    Processes(u64),
    /// Open files.
    Files(u64),
}

/// How much of Landlock the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Landlocked {
    /// Files, network and signals.
    Fully,
    /// Files at least.
    Partly,
    /// Nothing.
    Not,
}

/// Which step failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Stage {
    /// Closing what was left open.
    #[error("closing inherited files")]
    Files,
    /// A session of its own.
    #[error("making a session")]
    Session,
    /// Starting `bwrap`, `runc`, `podman` or the first process.
    #[error("starting the next program")]
    Start,
    /// Making namespaces.
    #[error("making namespaces")]
    Namespaces,
    /// Mapping users.
    #[error("mapping users")]
    UserMap,
    /// Building the file tree.
    #[error("building the file tree")]
    Mounts,
    /// Preparing the work folder.
    #[error("preparing the work folder")]
    Work,
    /// Becoming the task's user without privileges.
    #[error("giving up privileges")]
    Privileges,
    /// Setting resource limits.
    #[error("setting resource limits")]
    Rlimits,
    /// Landlock.
    #[error("restricting files by Landlock")]
    Landlock,
    /// The filter of system calls.
    #[error("filtering system calls")]
    Seccomp,
    /// Running the task's program.
    #[error("running the program")]
    Program,
}

/// What a helper reports.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// It could not; it ends.
    Failed { stage: Stage, errno: i32 },
    /// Everything holds; the program is started next. Comes with the opened work folder.
    Ready { landlock: Landlocked },
    /// The program ended, and where process numbers are the task's own, everything else did too.
    Ended(Exit),
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Exit {
    Code(u8),
    Signal(u32),
}
