//! What the node has committed to, kept on disk until it is settled. A result that is not shown
//! costs half of its bond, and nothing but the commitment's own salt can show it: an agent that
//! died in between must find it again.

use std::fs;
use std::io;
use std::path::PathBuf;
use tg_types::{Decode, Encode, JobId, RunResult, Voucher, wire};

wire! {
    /// A result with all that showing it needs.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Note {
        /// The result.
        pub(crate) result: RunResult,
        /// The salt of its seal.
        pub(crate) salt: [u8; 32],
        /// That validators hold its package.
        pub(crate) voucher: Voucher,
    }
}

/// The notes of an agent: a small file for each commitment.
pub(crate) struct Notes {
    folder: Option<PathBuf>,
}

impl Notes {
    /// Notes in a folder, or none at all for nodes that do not come back.
    pub(crate) fn new(folder: Option<PathBuf>) -> io::Result<Self> {
        if let Some(folder) = &folder {
            fs::create_dir_all(folder)?;
        }
        Ok(Self { folder })
    }

    fn path(&self, job: &JobId) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(job.to_string()))
    }

    /// Keeps a note. The agent goes on without if the disk does not take it.
    pub(crate) fn keep(&self, job: &JobId, note: &Note) {
        let Some(path) = self.path(job) else { return };
        if let Err(error) = fs::write(&path, note.to_bytes()) {
            tracing::warn!(%job, %error, "a commitment is not noted; a restart would forget it");
        }
    }

    /// The note about a job; nothing if there is none that can be read.
    pub(crate) fn find(&self, job: &JobId) -> Option<Note> {
        let bytes = fs::read(self.path(job)?).ok()?;
        Note::from_bytes(&bytes).inspect_err(|error| tracing::warn!(%job, %error, "note lost")).ok()
    }

    /// Forgets a job.
    pub(crate) fn forget(&self, job: &JobId) {
        if let Some(path) = self.path(job) {
            let _never_kept = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Note, Notes};
    use std::fs;
    use tg_types::{
        Hash32, JobId, PackageRef, Packages, RunResult, SeatSignature, SeatSignatures, Signature,
        Voucher,
    };

    fn note() -> Note {
        let hash = Hash32::new([2; 32]);
        let result = RunResult { output: hash, trace: hash, package: hash, package_bytes: 3 };
        let packages =
            Packages::new(vec![PackageRef { id: hash, bytes: 3, key_escrow: None }]).expect("one");
        let signature = SeatSignature { seat: 0, signature: Signature::new([5; 64]) };
        let signatures = SeatSignatures::new(vec![signature]).expect("one");
        Note { result, salt: [4; 32], voucher: Voucher { packages, signatures } }
    }

    #[test]
    fn note_is_found_by_another_agent_until_it_is_dropped() {
        let folder = std::env::temp_dir().join(format!("tg-agent-notes-{}", std::process::id()));
        let notes = Notes::new(Some(folder.clone())).expect("a folder");
        let (job, note) = (JobId::new([1; 32]), note());
        assert_eq!(notes.find(&job), None);
        notes.keep(&job, &note);
        let again = Notes::new(Some(folder.clone())).expect("a folder");
        assert_eq!(again.find(&job).as_ref(), Some(&note));
        assert_eq!(again.find(&JobId::new([9; 32])), None);
        // Half a file is no note.
        let path = again.path(&job).expect("a path");
        let bytes = fs::read(&path).expect("reads");
        fs::write(&path, &bytes[..bytes.len() / 2]).expect("writes");
        assert_eq!(again.find(&job), None);
        notes.keep(&job, &note);
        again.forget(&job);
        assert_eq!(notes.find(&job), None);
        fs::remove_dir_all(folder).expect("removes");
    }

    #[test]
    fn agent_without_a_folder_keeps_nothing() {
        let notes = Notes::new(None).expect("nothing to make");
        notes.keep(&JobId::new([1; 32]), &note());
        assert_eq!(notes.find(&JobId::new([1; 32])), None);
    }
}
