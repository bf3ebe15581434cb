//! How a task ended, what it used and what really held it. The last part is the point: a receipt
//! says which limit was enforced by what, and which was not.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::files::FileError;
use crate::limits::Bytes;
use crate::outputs::Outputs;

/// How a sandbox is built, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// `bwrap` makes namespaces and mounts.
    Bubblewrap,
    /// `runc` runs a container.
    Runc,
    /// `podman` runs a container.
    Podman,
    /// This program makes namespaces and mounts by itself.
    Namespaces,
    /// No namespaces: the machine's own file tree, behind Landlock where the kernel has it,
    /// seccomp and resource limits. Only with [`crate::Settings::allow_rlimits`].
    Rlimits,
}

impl Level {
    /// All of them, best first.
    pub const ALL: [Self; 5] =
        [Self::Bubblewrap, Self::Runc, Self::Podman, Self::Namespaces, Self::Rlimits];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Runc => "runc",
            Self::Podman => "podman",
            Self::Namespaces => "namespaces",
            Self::Rlimits => "rlimits",
        }
    }

    /// Whether the task has process numbers of its own, which all die with its first process.
    pub(crate) const fn has_namespaces(self) -> bool {
        !matches!(self, Self::Rlimits)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guard {
    /// Files of the machine outside the root, the inputs and the work folder.
    Files,
    /// The network.
    Network,
    /// Processes of the machine: seeing, signalling and tracing them.
    Processes,
    /// Becoming somebody else.
    Privileges,
    /// Dangerous system calls.
    SystemCalls,
    /// [`crate::Limits::memory`].
    Memory,
    /// [`crate::Limits::cpu_milli`].
    CpuShare,
    /// [`crate::Limits::cpu_time`].
    CpuTime,
    /// [`crate::Limits::wall`].
    WallTime,
    /// [`crate::Limits::pids`].
    Pids,
    /// [`crate::Limits::disk`].
    Disk,
    /// [`crate::Limits::streams`].
    Streams,
    /// Processes that outlive the task.
    LeftBehind,
}

impl Guard {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Files,
        Self::Network,
        Self::Processes,
        Self::Privileges,
        Self::SystemCalls,
        Self::Memory,
        Self::CpuShare,
        Self::CpuTime,
        Self::WallTime,
        Self::Pids,
        Self::Disk,
        Self::Streams,
        Self::LeftBehind,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Network => "network",
            Self::Processes => "processes",
            Self::Privileges => "privileges",
            Self::SystemCalls => "system calls",
            Self::Memory => "memory",
            Self::CpuShare => "cpu share",
            Self::CpuTime => "cpu time",
            Self::WallTime => "wall time",
            Self::Pids => "pids",
            Self::Disk => "disk",
            Self::Streams => "streams",
            Self::LeftBehind => "left behind",
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// By what something is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// A file tree of its own, read-only.
    MountNamespace,
    /// A network of its own, without any interface that leads out.
    NetworkNamespace,
    /// Process numbers of its own.
    PidNamespace,
    /// User numbers of its own.
    UserNamespace,
    /// Another user of the machine than the one that runs this program.
    OtherUser,
    /// No capabilities, and no way to gain privileges by running a program.
    NoPrivileges,
    /// Landlock rules.
    Landlock,
    /// A filter for system calls.
    Seccomp,
    /// A control group of version 1.
    CgroupV1,
    /// A control group of version 2.
    CgroupV2,
    /// A resource limit of each process.
    Rlimit,
    /// A file system in memory with a size.
    Tmpfs,
    /// This program looks regularly and ends the task.
    Watcher,
}

impl By {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MountNamespace => "mount namespace",
            Self::NetworkNamespace => "network namespace",
            Self::PidNamespace => "pid namespace",
            Self::UserNamespace => "user namespace",
            Self::OtherUser => "other user",
            Self::NoPrivileges => "no privileges",
            Self::Landlock => "Landlock",
            Self::Seccomp => "seccomp",
            Self::CgroupV1 => "cgroup v1",
            Self::CgroupV2 => "cgroup v2",
            Self::Rlimit => "rlimit",
            Self::Tmpfs => "tmpfs",
            Self::Watcher => "watcher",
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What held a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforced {
    /// How the sandbox was built.
    pub level: Level,
    /// Each guard with everything that enforced it; nothing if it was not enforced.
    pub guards: BTreeMap<Guard, Vec<By>>,
}

impl Enforced {
    pub(crate) fn new(level: Level) -> Self {
        let guards = Guard::ALL.iter().map(|&guard| (guard, Vec::new())).collect();
        Self { level, guards }
    }

    pub(crate) fn add(&mut self, guard: Guard, by: By) {
        let held = self.guards.entry(guard).or_default();
        if !held.contains(&by) {
            held.push(by);
        }
    }

    /// By what a guard was enforced; empty if it was not.
    #[must_use]
    pub fn by(&self, guard: Guard) -> &[By] {
        self.guards.get(&guard).map_or(&[], Vec::as_slice)
    }

    /// What was not enforced at all.
    pub fn missing(&self) -> impl Iterator<Item = Guard> {
        Guard::ALL.into_iter().filter(|&guard| self.by(guard).is_empty())
    }

    /// One line for each guard, for people.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let line = |guard: Guard| {
            let by: Vec<&str> = self.by(guard).iter().map(|by| by.name()).collect();
            let by = if by.is_empty() { "NOT ENFORCED".to_owned() } else { by.join(", ") };
            format!("{guard}: {by}")
        };
        Guard::ALL.into_iter().map(line).collect()
    }
}

/// Which time ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// Time since the start.
    Wall,
    /// Processor time.
    Cpu,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// By itself, with this exit code.
    Exited(u8),
    /// By this signal, which did not come from us.
    Signalled(u32),
    /// It used more memory than allowed.
    OutOfMemory,
    /// It took more time than allowed.
    OutOfTime(Clock),
    /// It filled its work folder: stopped by the watcher, or failed while nothing was left.
    OutOfDisk,
    /// It wrote more to its streams than allowed.
    TooMuchSaid,
    /// By whoever asked for it.
    Stopped,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => f.pad(&format!("exited {code}")),
            Self::Signalled(signal) => f.pad(&format!("signal {signal}")),
            Self::OutOfMemory => f.pad("out of memory"),
            Self::OutOfTime(Clock::Wall) => f.pad("out of time"),
            Self::OutOfTime(Clock::Cpu) => f.pad("out of cpu time"),
            Self::OutOfDisk => f.pad("out of disk"),
            Self::TooMuchSaid => f.pad("said too much"),
            Self::Stopped => f.pad("stopped"),
        }
    }
}

/// What a task used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of all its processes.
    pub cpu: Duration,
    /// The most memory at any moment: exact with a control group, else the largest sample; nothing
    /// if it ended before the first one.
    pub memory_peak: Option<Bytes>,
    /// Time from the start of the program to its end.
    pub wall: Duration,
    /// The most its work folder was seen to hold.
    pub disk: Bytes,
    /// What it wrote to its streams, as far as it was read.
    pub streams: Bytes,
}

/// All there is to say about a task that was run.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// What it used.
    pub usage: Usage,
    /// What held it.
    pub enforced: Enforced,
    /// What it left in [`crate::OUTPUT_FOLDER`], however it ended; an error if that is more than
    /// allowed or cannot be read.
    pub outputs: Result<Outputs, FileError>,
}

#[cfg(test)]
mod tests {
    use super::{By, Enforced, Guard, Level};

    #[test]
    fn what_is_not_enforced_is_said() {
        let mut enforced = Enforced::new(Level::Rlimits);
        enforced.add(Guard::Network, By::Seccomp);
        enforced.add(Guard::Network, By::Landlock);
        enforced.add(Guard::Network, By::Seccomp);
        assert_eq!(enforced.by(Guard::Network), [By::Seccomp, By::Landlock]);
        assert_eq!(enforced.missing().count(), Guard::ALL.len() - 1);
        let lines = enforced.lines();
        assert!(lines.contains(&"network: seccomp, Landlock".to_owned()));
        assert!(lines.contains(&"memory: NOT ENFORCED".to_owned()));
    }

    #[test]
    fn enforced_survives_json() {
        let mut enforced = Enforced::new(Level::Bubblewrap);
        enforced.add(Guard::Memory, By::CgroupV1);
        let text = serde_json::to_string(&enforced).expect("writes");
        assert_eq!(serde_json::from_str::<Enforced>(&text).expect("reads"), enforced);
    }
}
