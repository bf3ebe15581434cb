//! What the node has promised or is about to show, kept on disk until it is settled. A result that
//! is not shown costs half of its bond, and nothing but the commitment's own salt can show it: an
//! agent that died in between must find it again. So must one that vouched for somebody's result,
//! for it may have to defend that; and one that has proven its own must not do so twice: a proof
//! that hides data may be made once. A defence reads the inputs again, so their key is noted as
//! well where nobody but their owner could give it a second time.
//!
//! Notes are on the disk itself before anything follows from them, and for the agent's eyes only.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tg_privacy::ContentKey;
use tg_types::tx::ShownBytes;
use tg_types::{Action, CheckAnswer, Decode, Encode, Hash32, JobId, RunResult, Voucher, wire};

/// For how long a result that was proven may be shown with its package, which validators keep on
/// credit for ten minutes. After that the proof is good with another package only.
const PACKAGE_KEPT: Duration = Duration::from_secs(300);

/// For how long notes about jobs are kept that nobody knows. A validator that has just started may
/// not know a job yet.
const UNKNOWN_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// Jobs that an agent reads notes of when it starts: more than a node can have to do with at once.
const NOTED_MAX: usize = 4_096;

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

wire! {
    /// What a node owes as a checker.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) enum Duty {
        /// A check that it was drawn for.
        Check = 1,
        /// What it has committed to, or is about to: it vouches for the result until its end.
        Vouched {
            /// The answer.
            answer: CheckAnswer,
            /// The salt of its seal.
            salt: [u8; 32],
        } = 2,
    }
}

/// A result that was proven before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proven {
    /// How it names its outputs.
    pub(crate) output: Hash32,
    /// What shows it to be right.
    pub(crate) shown: ShownBytes,
    /// All of it as it was sent, while validators hold its package; later it is packed again.
    pub(crate) whole: Option<Action>,
}

/// Kinds of notes, by the ends of their names.
const KINDS: [&str; 4] = [COMMITMENT, PROOF, DUTY, KEY];
const COMMITMENT: &str = "";
const PROOF: &str = ".proof";
const DUTY: &str = ".check";
const KEY: &str = ".key";

/// The end of a note's name while it is written.
const BEGUN: &str = ".new";

/// The notes of an agent: a small file for each.
pub(crate) struct Notes {
    folder: Option<PathBuf>,
    /// Jobs with notes.
    noted: BTreeSet<JobId>,
}

impl Notes {
    /// Notes in a folder, or none at all for nodes that do not come back.
    pub(crate) fn new(folder: Option<PathBuf>) -> io::Result<Self> {
        let mut noted = BTreeSet::new();
        if let Some(folder) = &folder {
            fs::create_dir_all(folder)?;
            for file in fs::read_dir(folder)? {
                let file = file?;
                let name = file.file_name();
                if name.to_str().is_some_and(|name| name.ends_with(BEGUN)) {
                    wipe(&file.path());
                    continue;
                }
                let job = name.to_str().and_then(|name| name.split('.').next());
                noted.extend(job.and_then(|job| job.parse::<JobId>().ok()));
                if noted.len() >= NOTED_MAX {
                    break;
                }
            }
        }
        Ok(Self { folder, noted })
    }

    fn path(&self, job: &JobId, kind: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{job}{kind}")))
    }

    /// Jobs with notes.
    pub(crate) fn jobs(&self) -> Vec<JobId> {
        self.noted.iter().copied().collect()
    }

    /// Writes a note. The agent goes on without if the disk does not take it.
    fn write(&mut self, job: &JobId, kind: &str, bytes: &[u8]) {
        let Some((folder, path)) = self.folder.as_ref().zip(self.path(job, kind)) else { return };
        match write_durably(folder, &path, bytes) {
            Ok(()) => drop(self.noted.insert(*job)),
            Err(error) => tracing::warn!(%job, %error, "not noted; a restart would forget it"),
        }
    }

    /// The note about a job; nothing if there is none that can be read.
    fn read<T: Decode>(&self, job: &JobId, kind: &str) -> Option<T> {
        let bytes = fs::read(self.path(job, kind)?).ok()?;
        T::from_bytes(&bytes).inspect_err(|error| tracing::warn!(%job, %error, "note lost")).ok()
    }

    fn age(&self, job: &JobId, kind: &str) -> Option<Duration> {
        let written = fs::metadata(self.path(job, kind)?).ok()?.modified().ok()?;
        // A clock that was put back says nothing.
        Some(written.elapsed().unwrap_or(Duration::MAX))
    }

    /// Notes what was committed to.
    pub(crate) fn keep(&mut self, job: &JobId, note: &Note) {
        self.write(job, COMMITMENT, &note.to_bytes());
    }

    /// What was committed to.
    pub(crate) fn find(&self, job: &JobId) -> Option<Note> {
        self.read(job, COMMITMENT)
    }

    /// Notes what shows a result to be right.
    pub(crate) fn keep_proof(&mut self, job: &JobId, proof: &Action) {
        self.write(job, PROOF, &proof.to_bytes());
    }

    /// What shows a result to be right, if that was noted: until the job or its run is over.
    pub(crate) fn find_proof(&self, job: &JobId) -> Option<Proven> {
        let age = self.age(job, PROOF)?;
        let proof: Action = self.read(job, PROOF)?;
        let Action::ProveResult { job: of, result, shown, .. } = &proof else { return None };
        if of != job {
            return None;
        }
        let (output, shown) = (result.output, shown.clone());
        Some(Proven { output, shown, whole: (age <= PACKAGE_KEPT).then_some(proof) })
    }

    /// Notes what is owed as a checker.
    pub(crate) fn keep_duty(&mut self, job: &JobId, duty: &Duty) {
        self.write(job, DUTY, &duty.to_bytes());
    }

    /// What is owed as a checker.
    pub(crate) fn find_duty(&self, job: &JobId) -> Option<Duty> {
        self.read(job, DUTY)
    }

    /// Notes the key of a job's inputs, if its owner keeps it.
    pub(crate) fn keep_key(&mut self, job: &JobId, key: Option<&ContentKey>) {
        if let Some(key) = key {
            self.write(job, KEY, &*key.expose());
        }
    }

    /// The key of a job's inputs, if it was noted.
    pub(crate) fn find_key(&self, job: &JobId) -> Option<ContentKey> {
        self.read(job, KEY).map(ContentKey::new)
    }

    /// Forgets what was owed as a checker, and the key unless a result of ours needs it.
    pub(crate) fn forget_duty(&mut self, job: &JobId) {
        if !self.noted.contains(job) {
            return;
        }
        self.remove(job, DUTY);
        if self.find(job).is_none() && self.find_proof(job).is_none() {
            self.remove(job, KEY);
        }
    }

    fn remove(&self, job: &JobId, kind: &str) {
        match self.path(job, kind) {
            Some(path) if kind == KEY => wipe(&path),
            Some(path) => {
                let _never_kept = fs::remove_file(path);
            }
            None => {}
        }
    }

    /// Forgets a job.
    pub(crate) fn forget(&mut self, job: &JobId) {
        // Files of more jobs than are counted may be there too.
        self.noted.remove(job);
        KINDS.iter().for_each(|kind| self.remove(job, kind));
    }

    /// Forgets a job that nobody knows, if that was noted long ago.
    pub(crate) fn forget_unknown(&mut self, job: &JobId) {
        let ages = KINDS.iter().filter_map(|kind| self.age(job, kind));
        if ages.min().is_none_or(|age| age > UNKNOWN_KEPT) {
            self.forget(job);
        }
    }
}

/// Writes a file for its owner only, as a whole or not at all: under another name first, and both
/// the file and its name are on the disk when this returns.
fn write_durably(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut begun = path.as_os_str().to_owned();
    begun.push(BEGUN);
    let begun = PathBuf::from(begun);
    let _absent_unless_cut_off = fs::remove_file(&begun);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&begun)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&begun, path)?;
    File::open(folder)?.sync_all()
}

/// Removes a file, having written over what was in it: a key must not be found in free blocks.
fn wipe(path: &Path) {
    let _removed_all_the_same = File::options().write(true).open(path).and_then(|mut file| {
        let bytes = file.metadata()?.len();
        io::copy(&mut io::Read::take(io::repeat(0), bytes), &mut file)?;
        file.sync_all()
    });
    let _never_kept = fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::{BEGUN, COMMITMENT, Duty, KEY, Note, Notes, PROOF, Proven, wipe};
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::path::{Path, PathBuf};
    use std::time::{Duration, SystemTime};
    use tg_privacy::ContentKey;
    use tg_types::{
        Action, Bytes, CheckAnswer, Hash32, JobId, List, PackageRef, Packages, RunResult,
        SeatSignature, SeatSignatures, Signature, TileAnswer, Voucher,
    };

    const HASH: Hash32 = Hash32::new([2; 32]);
    const JOB: JobId = JobId::new([1; 32]);

    fn note() -> Note {
        let result = RunResult { output: HASH, trace: HASH, package: HASH, package_bytes: 3 };
        let package = PackageRef { id: HASH, bytes: 3, key_escrow: None };
        let packages = Packages::new(vec![package]).expect("one");
        let signature = SeatSignature { seat: 0, signature: Signature::new([5; 64]) };
        let signatures = SeatSignatures::new(vec![signature]).expect("one");
        Note { result, salt: [4; 32], voucher: Voucher { packages, signatures } }
    }

    fn proof(job: JobId) -> Action {
        let Note { result, voucher, .. } = note();
        let shown = Bytes::new(vec![7; 200_000]).expect("within the bound");
        let vouchers = List::new(vec![voucher]).expect("one");
        Action::ProveResult { job, result, cost: 5, shown, vouchers }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tg-agent-{name}-{}", std::process::id()));
        let _fresh = fs::remove_dir_all(&folder);
        folder
    }

    fn open(folder: &Path) -> Notes {
        Notes::new(Some(folder.to_path_buf())).expect("a folder")
    }

    #[test]
    fn note_is_found_by_another_agent_until_it_is_dropped() {
        let folder = folder("notes");
        let (mut notes, note) = (open(&folder), note());
        assert_eq!(notes.find(&JOB), None);
        notes.keep(&JOB, &note);
        let mut again = open(&folder);
        assert_eq!((again.find(&JOB).as_ref(), again.jobs()), (Some(&note), vec![JOB]));
        assert_eq!(again.find(&JobId::new([9; 32])), None);
        // Half a file is no note.
        let path = again.path(&JOB, COMMITMENT).expect("a path");
        let bytes = fs::read(&path).expect("reads");
        fs::write(&path, &bytes[..bytes.len() / 2]).expect("writes");
        assert_eq!(again.find(&JOB), None);
        notes.keep(&JOB, &note);
        again.forget(&JOB);
        assert_eq!((notes.find(&JOB), again.jobs()), (None, vec![]));
        fs::remove_dir_all(folder).expect("removes");
    }

    /// Goal: who has proven a result and dies before it is final never proves it again, but does
    /// not show a package that validators may have forgotten. Method: another agent on the same
    /// folder, at once, long after, and when the run is over; a note that speaks of another job.
    #[test]
    fn proof_is_found_by_another_agent_until_its_run_is_over() {
        let folder = folder("proofs");
        let mut notes = open(&folder);
        notes.keep_proof(&JOB, &proof(JOB));
        let Action::ProveResult { result, shown, .. } = proof(JOB) else {
            unreachable!("a result")
        };
        let found = |whole| Some(Proven { output: result.output, shown: shown.clone(), whole });
        assert_eq!(open(&folder).find_proof(&JOB), found(Some(proof(JOB))));
        assert_eq!(open(&folder).find(&JOB), None, "nothing was committed to");
        let path = notes.path(&JOB, PROOF).expect("a path");
        for secs in [301, 86_400, 400 * 86_400] {
            let file = fs::File::options().write(true).open(&path).expect("opens");
            file.set_modified(SystemTime::now() - Duration::from_secs(secs)).expect("sets");
            assert_eq!(open(&folder).find_proof(&JOB), found(None), "{secs} s");
        }
        open(&folder).forget(&JOB);
        assert_eq!(open(&folder).find_proof(&JOB), None);
        notes.keep_proof(&JOB, &proof(JobId::new([3; 32])));
        assert_eq!(open(&folder).find_proof(&JOB), None);
        fs::remove_dir_all(folder).expect("removes");
    }

    #[test]
    fn duty_is_found_by_another_agent_until_it_is_done() {
        let folder = folder("duties");
        let mut notes = open(&folder);
        notes.keep_duty(&JOB, &Duty::Check);
        assert_eq!(open(&folder).find_duty(&JOB), Some(Duty::Check));
        let answer = CheckAnswer::Whole { trace: HASH, known: HASH, tiles: TileAnswer::EMPTY };
        let duty = Duty::Vouched { answer, salt: [3; 32] };
        notes.keep_duty(&JOB, &duty);
        notes.keep(&JOB, &note());
        let mut again = open(&folder);
        assert_eq!((again.find_duty(&JOB), again.jobs()), (Some(duty), vec![JOB]));
        again.forget_duty(&JOB);
        assert_eq!((again.find_duty(&JOB), again.find(&JOB)), (None, Some(note())));
        again.forget(&JOB);
        assert_eq!(fs::read_dir(&folder).expect("reads").count(), 0);
        fs::remove_dir_all(folder).expect("removes");
    }

    /// Goal: a provider or checker that was restarted can defend itself though the owner is gone,
    /// and nothing is left of the key when the job is over. Method: another agent on the same
    /// folder; a second name of the file, which shows what is in it after it was removed.
    #[test]
    fn key_is_found_by_another_agent_alone_and_wiped_when_the_job_is_over() {
        let folder = folder("keys");
        let mut notes = open(&folder);
        notes.keep_key(&JOB, None);
        assert!(notes.find_key(&JOB).is_none() && notes.jobs().is_empty());
        notes.keep(&JOB, &note());
        notes.keep_duty(&JOB, &Duty::Check);
        notes.keep_key(&JOB, Some(&ContentKey::new([7; 32])));
        let mut again = open(&folder);
        assert_eq!(*again.find_key(&JOB).expect("noted").expose(), [7; 32]);
        let (path, left) = (again.path(&JOB, KEY).expect("a path"), folder.join("left"));
        assert_eq!(fs::metadata(&path).expect("is there").permissions().mode() & 0o777, 0o600);
        fs::hard_link(&path, &left).expect("links");
        again.forget_duty(&JOB);
        assert!(again.find_key(&JOB).is_some(), "the result may have to be defended");
        again.forget(&JOB);
        assert!(again.find_key(&JOB).is_none());
        assert_eq!(fs::read(&left).expect("reads"), [0; 32]);

        notes.keep_duty(&JOB, &Duty::Check);
        notes.keep_key(&JOB, Some(&ContentKey::new([7; 32])));
        notes.forget_duty(&JOB);
        assert!(notes.find_key(&JOB).is_none(), "a checker's duty is over");
        fs::remove_dir_all(folder).expect("removes");
    }

    /// Goal: a note is never half of one, and what was begun before a crash is gone. Method: what a
    /// crash leaves is there when the next agent writes, and when it starts; a note is a new file
    /// each time, so the old one is whole until the new one is.
    #[test]
    fn note_is_written_beside_the_old_one_and_what_a_crash_left_is_removed() {
        let folder = folder("crash");
        let mut notes = open(&folder);
        notes.keep(&JOB, &note());
        let path = notes.path(&JOB, COMMITMENT).expect("a path");
        let file = || fs::metadata(&path).expect("is there").ino();
        let (first, begun) = (file(), folder.join(format!("{JOB}{BEGUN}")));
        fs::write(&begun, b"half").expect("writes");
        notes.keep(&JOB, &note());
        assert!(file() != first && !begun.exists());
        assert_eq!(notes.find(&JOB), Some(note()));
        let begun = folder.join(format!("{}{KEY}{BEGUN}", JobId::new([9; 32])));
        fs::write(&begun, b"half of a key").expect("writes");
        assert_eq!(open(&folder).jobs(), [JOB]);
        assert!(!begun.exists());
        wipe(&begun); // nothing to do, and no reason to fail
        fs::remove_dir_all(folder).expect("removes");
    }

    #[test]
    fn notes_about_unknown_jobs_are_dropped_when_they_are_old() {
        let folder = folder("unknown");
        let mut notes = open(&folder);
        notes.keep_duty(&JOB, &Duty::Check);
        notes.forget_unknown(&JOB);
        assert_eq!(notes.jobs(), [JOB], "a validator may not know the job yet");
        let path = notes.path(&JOB, super::DUTY).expect("a path");
        let file = fs::File::options().write(true).open(path).expect("opens");
        file.set_modified(SystemTime::now() - Duration::from_secs(8 * 86_400)).expect("sets");
        notes.forget_unknown(&JOB);
        assert_eq!((notes.jobs(), notes.find_duty(&JOB)), (vec![], None));
        fs::remove_dir_all(folder).expect("removes");
    }

    #[test]
    fn agent_without_a_folder_keeps_nothing() {
        let mut notes = Notes::new(None).expect("nothing to make");
        notes.keep(&JOB, &note());
        notes.keep_duty(&JOB, &Duty::Check);
        assert_eq!((notes.find(&JOB), notes.find_duty(&JOB), notes.jobs()), (None, None, vec![]));
    }
}
