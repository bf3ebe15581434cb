//! The folder of one run: control socket, base of the view, inputs, work folder. It has a lock, so
//! that what a dead process left behind can be told from what a living one uses.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::error::RunError;
use crate::files::{FileError, TemporaryFolder};
use crate::helper::CONTROL_NAME;

/// How folders of runs are named.
pub(crate) const RUN_PREFIX: &str = "run-";
/// Held while a run lasts; a folder whose lock is free was left behind.
const LOCK_NAME: &str = "lock";
/// A folder without a lock is being made, unless it is this old.
const MAKING_MAX: Duration = Duration::from_secs(60);

/// The folder of one run, removed when dropped.
#[derive(Debug)]
pub(crate) struct RunFolder {
    folder: TemporaryFolder,
    _lock: File,
}

impl RunFolder {
    pub(crate) fn make(state: &Path) -> Result<Self, FileError> {
        let folder = TemporaryFolder::below(state, RUN_PREFIX)?;
        let path = folder.path().join(LOCK_NAME);
        let lock = File::create(&path).map_err(FileError::io("make", &path))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(FileError::io("lock", &path))?;
        // The task's user passes through, but sees no names.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711))
            .map_err(FileError::io("open", folder.path()))?;
        Ok(Self { folder, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn name(&self) -> &str {
        self.path().file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Opens the control socket. Its name is found through an open folder, because the address of
    /// a socket is shorter than a path may be.
    pub(crate) fn listen(&self) -> Result<UnixListener, RunError> {
        let folder = File::open(self.path()).map_err(RunError::Helper)?;
        let address = format!("/proc/self/fd/{}/{CONTROL_NAME}", folder.as_raw_fd());
        let listener = UnixListener::bind(address).map_err(RunError::Helper)?;
        listener.set_nonblocking(true).map_err(RunError::Helper)?;
        // The first process may be the task's user by then. The folder's name is a secret.
        fs::set_permissions(self.path().join(CONTROL_NAME), fs::Permissions::from_mode(0o666))
            .map_err(RunError::Helper)?;
        Ok(listener)
    }
}

/// Whether nobody holds the lock of a run's folder.
pub(crate) fn is_left_behind(folder: &Path) -> bool {
    match File::open(folder.join(LOCK_NAME)) {
        Ok(lock) => rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(_) => {
            let modified = fs::metadata(folder).and_then(|metadata| metadata.modified());
            modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > MAKING_MAX))
        }
    }
}
