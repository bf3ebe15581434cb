//! The folder in which a task keeps its state, so that it can go on elsewhere. It is a part of the
//! work folder, which is on disk for such tasks: what an earlier run saved is put there before the
//! program starts, and what it holds can be read while the program runs.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, lchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::FileError;
use crate::limits::Bytes;
use crate::outputs::Outputs;
use crate::run_folder::RunFolder;
use crate::spec::JobUser;

/// The folder in the work folder; the task's own path for it is a link to it.
pub(crate) const CHECKPOINT_NAME: &str = ".checkpoint";

/// The work folder on disk, in the folder of its run.
pub(crate) const WORK_NAME: &str = "job";

/// Files and folders that are put in place at most; a checkpoint has fewer.
const ENTRIES_MAX: usize = 100_000;

/// The folder in which a task keeps its state.
#[derive(Clone, Debug)]
pub struct KeptFolder {
    path: PathBuf,
    work: Arc<OwnedFd>,
}

impl KeptFolder {
    /// Makes it, in a work folder that is there.
    pub(crate) fn make(run: &RunFolder) -> Result<Self, FileError> {
        let work = run.path().join(WORK_NAME);
        let path = work.join(CHECKPOINT_NAME);
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(FileError::io("make", &path))?;
        let work = File::open(&work).map_err(FileError::io("open", &work))?;
        Ok(Self { path, work: Arc::new(work.into()) })
    }

    /// Gives it and all that was put there to the task's user.
    pub(crate) fn give(&self, user: Option<JobUser>) -> Result<(), FileError> {
        let Some(JobUser { uid, gid }) = user else { return Ok(()) };
        let mut left = vec![self.path.clone()];
        let mut seen = 0_usize;
        while let Some(path) = left.pop() {
            seen += 1;
            if seen > ENTRIES_MAX {
                return Err(FileError::TooMany { path: self.path.clone(), max: ENTRIES_MAX });
            }
            lchown(&path, Some(uid), Some(gid)).map_err(FileError::io("give", &path))?;
            let metadata = fs::symlink_metadata(&path).map_err(FileError::io("look at", &path))?;
            if metadata.is_dir() {
                for entry in fs::read_dir(&path).map_err(FileError::io("list", &path))? {
                    left.push(entry.map_err(FileError::io("list", &path))?.path());
                }
            }
        }
        Ok(())
    }

    /// Where it is on this machine. Only to put files there before the program starts: from then on
    /// the task decides where a path leads.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it now. The program may be changing it; links are not followed.
    ///
    /// # Errors
    /// If it cannot be listed, or holds more than so many bytes.
    pub fn files(&self, max: Bytes) -> Result<Outputs, FileError> {
        Outputs::look(&self.work, CHECKPOINT_NAME, max)
    }
}

#[cfg(test)]
mod tests {
    use super::{CHECKPOINT_NAME, KeptFolder, WORK_NAME};
    use crate::files::TemporaryFolder;
    use crate::limits::Bytes;
    use crate::run_folder::RunFolder;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn folder_is_read_while_it_changes_and_never_through_links() {
        let folder = TemporaryFolder::new().expect("a folder");
        let run = RunFolder::make(folder.path()).expect("a run");
        fs::create_dir(run.path().join(WORK_NAME)).expect("makes");
        let kept = KeptFolder::make(&run).expect("makes");
        fs::create_dir(kept.path().join("deep")).expect("makes");
        fs::write(kept.path().join("deep/state"), "7").expect("writes");
        kept.give(None).expect("nobody to give it to");
        let files = kept.files(Bytes::new(1)).expect("lists");
        assert_eq!(files.files().len(), 1);
        fs::write(kept.path().join("more"), "8").expect("writes");
        assert!(kept.files(Bytes::new(1)).is_err(), "too much");
        assert_eq!(kept.files(Bytes::new(2)).expect("lists").files().len(), 2);
        let work = run.path().join(WORK_NAME);
        fs::rename(work.join(CHECKPOINT_NAME), work.join("away")).expect("moves");
        assert!(kept.files(Bytes::new(9)).expect("it is gone").files().is_empty());
        symlink("/etc", work.join(CHECKPOINT_NAME)).expect("links");
        assert!(kept.files(Bytes::mib(1)).is_err(), "a task's link is not followed");
    }
}
