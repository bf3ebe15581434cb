//! How commands find the network that `up` runs on this machine: a small file in the user's state
//! folder, which a dead process cannot keep alive.

use crate::files::{self, FileError, Readers};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The file has a few lines.
const BYTES_MAX: u64 = 16 * 1024;

/// The network that runs on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Current {
    /// The process.
    pub(crate) pid: u32,
    /// Where it answers.
    pub(crate) rpc: String,
    /// Its network file.
    pub(crate) network: PathBuf,
    /// The way into its network of peers.
    #[serde(default)]
    pub(crate) ticket: Option<String>,
}

/// Where the running network is noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place(PathBuf);

impl Place {
    /// In this state folder.
    #[must_use]
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self(folder.join("current.json"))
    }

    /// Notes a running network, in place of an earlier one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn note(&self, current: &Current) -> Result<(), FileError> {
        if let Some(folder) = self.0.parent() {
            files::make_folder(folder)?;
        }
        let bytes = serde_json::to_vec_pretty(current).expect("the note is plain data");
        files::write(&self.0, &bytes, Readers::Owner)
    }

    /// The network that runs, if one does.
    #[must_use]
    pub(crate) fn find(&self) -> Option<Current> {
        let bytes = files::read(&self.0, BYTES_MAX).ok()?;
        let current: Current = serde_json::from_slice(&bytes).ok()?;
        is_running(current.pid).then_some(current)
    }

    /// Removes the note of this process; that of another one stays.
    pub(crate) fn forget(&self) {
        if self.find().is_some_and(|current| current.pid == std::process::id()) {
            let _gone_already = std::fs::remove_file(&self.0);
        }
    }
}

fn is_running(pid: u32) -> bool {
    let processes = Path::new("/proc");
    !processes.exists() || processes.join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::{Current, Place};
    use crate::files::TemporaryFolder;

    fn current(pid: u32) -> Current {
        Current {
            pid,
            rpc: "http://127.0.0.1:1".to_owned(),
            network: "network.json".into(),
            ticket: None,
        }
    }

    #[test]
    fn note_of_a_running_process_is_found_until_forgotten() {
        let folder = TemporaryFolder::new().expect("a folder");
        let place = Place::in_folder(&folder.path().join("state"));
        assert_eq!(place.find(), None);
        let mine = current(std::process::id());
        place.note(&mine).expect("writes");
        assert_eq!(place.find(), Some(mine));
        place.forget();
        assert_eq!(place.find(), None);
    }

    #[test]
    fn note_of_a_dead_or_foreign_process_is_left_alone() {
        let folder = TemporaryFolder::new().expect("a folder");
        let place = Place::in_folder(folder.path());
        place.note(&current(u32::MAX)).expect("writes");
        assert_eq!(place.find(), None);
        place.note(&current(1)).expect("writes");
        place.forget();
        assert_eq!(place.find(), Some(current(1)));
    }
}
