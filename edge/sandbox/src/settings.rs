//! What a provider decides about sandboxes, and which programs its machine has for them.

use std::path::{Path, PathBuf};

use crate::outcome::Level;
use crate::spec::JobUser;

/// Where programs are looked for. The environment is not asked: what runs a stranger's program is
/// not chosen by a variable.
const TOOL_FOLDERS: [&str; 7] = [
    "/usr/bin",
    "/usr/sbin",
    "/bin",
    "/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/run/current-system/sw/bin",
];

/// What a provider decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where runs keep their files; made if it is not there, and closed to the eyes of others.
    /// Nothing else may be in it. For [`Level::Rlimits`] as root it must be reachable for
    /// [`Settings::job_user`], so not below a closed home.
    pub state_folder: PathBuf,
    /// Who runs tasks when this program is root; never user 0.
    pub job_user: JobUser,
    /// Whether a task may have the machine's network if it asks.
    pub allow_network: bool,
    /// Whether tasks may run without namespaces where nothing better can be had.
    pub allow_rlimits: bool,
    /// Levels that may be used.
    pub levels: Vec<Level>,
    /// The control group below which to make those of tasks, such as `/tensorgrid.slice`. Without
    /// it: the group of this process, the one above it, or the topmost, whichever may be used.
    pub cgroup_parent: Option<String>,
    /// The program that starts tasks, if it is not this one: it calls
    /// [`init_if_asked`](crate::init_if_asked) and needs no other libraries than this one.
    pub helper: Option<PathBuf>,
}

impl Settings {
    /// The user that owns nothing on most machines.
    pub const NOBODY: JobUser = JobUser { uid: 65534, gid: 65534 };

    /// Strict settings: no network, never without namespaces.
    #[must_use]
    pub fn new(state_folder: &Path) -> Self {
        Self {
            state_folder: state_folder.to_owned(),
            job_user: Self::NOBODY,
            allow_network: false,
            allow_rlimits: false,
            levels: Level::ALL.to_vec(),
            cgroup_parent: None,
            helper: None,
        }
    }
}

/// Other programs that build sandboxes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tools {
    pub(crate) bubblewrap: Option<PathBuf>,
    pub(crate) runc: Option<PathBuf>,
    pub(crate) podman: Option<PathBuf>,
}

impl Tools {
    pub(crate) fn find() -> Self {
        Self { bubblewrap: find("bwrap"), runc: find("runc"), podman: find("podman") }
    }

    /// The program a level needs: its name, and where it is.
    pub(crate) fn of(&self, level: Level) -> Option<(&'static str, Option<&Path>)> {
        match level {
            Level::Bubblewrap => Some(("bwrap", self.bubblewrap.as_deref())),
            Level::Runc => Some(("runc", self.runc.as_deref())),
            Level::Podman => Some(("podman", self.podman.as_deref())),
            Level::Namespaces | Level::Rlimits => None,
        }
    }
}

/// Finds a program that this process may run.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let paths = TOOL_FOLDERS.iter().map(|folder| Path::new(folder).join(name));
    let mut usable = paths.filter(|path| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    });
    usable.next()
}
