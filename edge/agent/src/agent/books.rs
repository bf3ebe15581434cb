//! What an agent has under way.

use super::capacity::{self, Drawn};
use super::notes::Note;
use super::{Ran, Report, check, dispute};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tg_ledger::JobEntry;
use tg_types::{Hash32, JobId, NodeId, Tick};

/// What a run that is under way is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Under {
    /// It is wanted.
    Wanted,
    /// It is not wanted any more; what it reports is not heard.
    Dropped,
    /// The same, and when it has ended the job is run anew: the node was given it again.
    Again {
        /// When.
        since: Tick,
    },
}

/// Which one of a job's runs on one node it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// When it was placed.
    pub(crate) begun: Tick,
    /// Which member it is, if the job is a gang.
    pub(crate) rank: Option<u8>,
}

impl Attempt {
    /// The one that a node has now.
    pub(crate) fn of(entry: &JobEntry, node: &NodeId) -> Option<Self> {
        let run = entry.live().find(|run| run.node == *node)?;
        Some(Self { begun: run.begun, rank: entry.rank_of(node) })
    }
}

/// A result whose gang broke while the commitment to it was on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stale {
    note: Note,
    /// Whose part it is.
    rank: u8,
    /// Whether the commitment came, and so stands for the next run.
    is_bound: bool,
}

/// What is to be done about a stale result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StaleStep {
    /// Nothing now.
    Wait,
    /// It is of the same member, and so right for the next run too.
    Show(Note),
    /// It is of another member: nobody may take it for this one's.
    GiveUp,
}

/// What the agent knows of the jobs it has to do with.
#[derive(Default)]
pub(super) struct Books {
    /// Runs that are under way, until they report.
    pub(super) running: BTreeMap<JobId, Under>,
    /// Checks that are under way, until they report.
    pub(super) checking: BTreeSet<JobId>,
    /// Which attempts these and the results of ours are.
    pub(super) attempts: BTreeMap<JobId, Attempt>,
    /// Results of ours that are not settled.
    pub(super) runs: BTreeMap<JobId, Ran>,
    /// Results of gangs that broke, as long as a commitment to them may come.
    pub(super) stale: BTreeMap<JobId, Stale>,
    /// Results that are being shown to be right, until their job or run is over.
    pub(super) shown: BTreeSet<JobId>,
    /// Checks of ours whose answer is not shown.
    pub(super) checks: BTreeMap<JobId, check::Checked>,
    /// Runs that we computed as a checker and vouched for, until they are settled.
    pub(super) vouched: BTreeMap<JobId, dispute::KeptRun>,
    /// Disputes in which the provider did not go on.
    pub(super) undefended: BTreeSet<JobId>,
    /// Jobs whose inputs we complain about.
    pub(super) complaints: BTreeSet<JobId>,
    /// Results we object to.
    pub(super) objections: BTreeMap<JobId, Arc<dispute::Objection>>,
    /// The seed of the memory that is filled or kept.
    pub(super) seed: Option<Hash32>,
    /// The memory that shows what the machine can do, while it is asked for.
    pub(super) answer: Option<capacity::Answer>,
    /// Blocks of it that were drawn before it was filled again.
    pub(super) drawn: Option<Drawn>,
}

impl Books {
    /// A run is to begin that was placed then; says whether it may, which it may not while another
    /// one of the same job is under way.
    pub(super) fn begin(&mut self, job: JobId, since: Tick) -> bool {
        match self.running.get_mut(&job) {
            None => self.running.insert(job, Under::Wanted).is_none(),
            Some(under) => {
                if *under != Under::Wanted {
                    *under = Under::Again { since };
                }
                false
            }
        }
    }

    /// A run has found out which one it is; says whether it is wanted.
    pub(super) fn begin_attempt(&mut self, job: JobId, attempt: Attempt) -> bool {
        let is_wanted = self.running.get(&job) == Some(&Under::Wanted);
        if is_wanted {
            self.attempts.insert(job, attempt);
        }
        is_wanted
    }

    /// Whether the gang of a run of ours broke and began anew, if this is what it is now. Of any
    /// other job the work is the same.
    pub(super) fn is_outdated(&self, job: &JobId, now: Attempt) -> bool {
        let known = self.attempts.get(job);
        now.rank.is_some() && known.is_some_and(|known| known.begun < now.begun)
    }

    /// Runs that are under way and wanted, but not among these.
    pub(super) fn wanted_besides(&self, runs: &[JobId]) -> Vec<JobId> {
        let wanted = self.running.iter().filter(|(_, under)| **under != Under::Dropped);
        wanted.map(|(job, _)| *job).filter(|job| !runs.contains(job)).collect()
    }

    /// A commitment of ours came.
    pub(super) fn note_commitment(&mut self, job: &JobId) {
        if let Some(ran) = self.runs.get_mut(job) {
            ran.is_committed = true;
        }
        if let Some(stale) = self.stale.get_mut(job) {
            stale.is_bound = true;
        }
    }

    /// What may still be committed to of a run whose gang is broken.
    pub(super) fn take_stale(&mut self, job: &JobId) -> Option<Stale> {
        let before = self.stale.remove(job).filter(|stale| !stale.is_bound);
        let rank = self.attempts.get(job).and_then(|attempt| attempt.rank);
        let ran = self.runs.get(job).filter(|ran| !ran.is_committed);
        let now = ran.zip(rank);
        let now = now.map(|(ran, rank)| Stale { note: ran.note.clone(), rank, is_bound: false });
        now.or(before)
    }

    /// What is to be done about a stale result, as far as it is known which run of ours goes on.
    /// Whose part it would be is told before its commitment comes, if there is time: whoever has
    /// committed cannot give up.
    pub(super) fn stale_step(&self, job: &JobId) -> StaleStep {
        let attempt = self.attempts.get(job);
        let Some((stale, attempt)) = self.stale.get(job).zip(attempt) else {
            return StaleStep::Wait;
        };
        if attempt.rank != Some(stale.rank) {
            return StaleStep::GiveUp;
        }
        if stale.is_bound { StaleStep::Show(stale.note.clone()) } else { StaleStep::Wait }
    }

    /// Forgets a job, but not what is under way.
    pub(super) fn forget(&mut self, job: &JobId) {
        self.runs.remove(job);
        self.attempts.remove(job);
        self.stale.remove(job);
        self.shown.remove(job);
        self.checks.remove(job);
        self.vouched.remove(job);
        self.undefended.remove(job);
        self.complaints.remove(job);
        self.objections.remove(job);
    }

    /// A run that is under way is not wanted any more; says whether there is one.
    pub(super) fn drop_run(&mut self, job: &JobId) -> bool {
        let under = self.running.get_mut(job);
        under.map(|under| *under = Under::Dropped).is_some()
    }

    /// What reports is not under way any more. Says which run it was, if it was one.
    pub(super) fn end(&mut self, report: &Report) -> Option<(JobId, Under)> {
        match report {
            Report::Ran(job, _)
            | Report::Failed(job, _)
            | Report::Yielded(job, _)
            | Report::WrongInputs(job, _) => {
                return self.running.remove(job).map(|under| (*job, under));
            }
            Report::Checked(job, _) | Report::Unchecked(job) | Report::Wrong(job, _) => {
                self.checking.remove(job);
            }
            Report::Begun(..) | Report::Keyless(_) | Report::Saved(_) | Report::Filled(..) => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Attempt, Books, Note, Ran, Report, StaleStep, Under};
    use tg_types::{
        Hash32, JobId, PackageRef, Packages, RunFailure, RunResult, SeatSignature, SeatSignatures,
        Signature, Tick, Voucher,
    };

    const JOB: JobId = JobId::new([1; 32]);

    fn note(salt: u8) -> Note {
        let hash = Hash32::new([2; 32]);
        let result = RunResult { output: hash, trace: hash, package: hash, package_bytes: 3 };
        let package = PackageRef { id: hash, bytes: 3, key_escrow: None };
        let packages = Packages::new(vec![package]).expect("one");
        let signature = SeatSignature { seat: 0, signature: Signature::new([5; 64]) };
        let signatures = SeatSignatures::new(vec![signature]).expect("one");
        Note { result, salt: [salt; 32], voucher: Voucher { packages, signatures } }
    }

    const fn attempt(begun: u64, rank: Option<u8>) -> Attempt {
        Attempt { begun: Tick::new(begun), rank }
    }

    /// Has a result as this member, of which the ledger has heard or not.
    fn with_result(rank: Option<u8>, is_committed: bool) -> Books {
        let mut books = Books::default();
        assert!(books.begin(JOB, Tick::ZERO) && books.begin_attempt(JOB, attempt(1, rank)));
        books.end(&Report::Failed(JOB, RunFailure::Declined));
        let (run, proved, key) = (None, None, None);
        books.runs.insert(JOB, Ran { run, note: note(1), proved, key, is_committed });
        books
    }

    /// The gang breaks, and we are given it again as this member.
    fn broken(mut books: Books, rank: u8) -> Books {
        let stale = books.take_stale(&JOB);
        books.forget(&JOB);
        books.stale.extend(stale.map(|stale| (JOB, stale)));
        assert!(books.begin(JOB, Tick::new(2)));
        assert_eq!(books.stale_step(&JOB), StaleStep::Wait, "nobody knows as whom yet");
        assert!(books.begin_attempt(JOB, attempt(2, Some(rank))));
        books
    }

    /// The run that goes on ends without a result.
    fn ended(mut books: Books) -> Books {
        assert!(books.drop_run(&JOB));
        books.end(&Report::Failed(JOB, RunFailure::Declined));
        books
    }

    #[test]
    fn run_and_check_of_one_job_end_each_on_their_own() {
        let mut books = Books::default();
        let now = Tick::ZERO;
        assert!(books.begin(JOB, now) && books.checking.insert(JOB));
        assert!(!books.begin(JOB, now), "it is under way");
        let failed = Report::Failed(JOB, RunFailure::Declined);
        assert_eq!(books.end(&failed), Some((JOB, Under::Wanted)));
        assert!(books.begin(JOB, now), "it may be begun again");
        assert!(books.drop_run(&JOB));
        let since = Tick::new(7);
        assert!(!books.begin(JOB, since), "the other one has not ended");
        assert_eq!(books.end(&failed), Some((JOB, Under::Again { since })));
        assert!(books.begin(JOB, now));
        books.end(&Report::Unchecked(JOB));
        assert!(books.checking.is_empty());
        assert!(books.checking.insert(JOB));
        books.end(&Report::Keyless(JOB));
        assert!(!books.checking.insert(JOB), "it waits for its key");
        assert!(!books.running.is_empty());
    }

    /// Goal: what ended or began anew while nobody told us is seen in the record. Method: a record
    /// with and without our run, older and newer than it.
    #[test]
    fn runs_that_ended_unheard_are_seen_in_the_record() {
        let mut books = Books::default();
        assert!(books.begin(JOB, Tick::ZERO));
        assert!(books.wanted_besides(&[JOB]).is_empty());
        assert_eq!(books.wanted_besides(&[]), [JOB]);
        assert!(books.begin_attempt(JOB, attempt(5, Some(0))));
        assert!(books.is_outdated(&JOB, attempt(6, Some(0))), "its gang began anew");
        assert!(!books.is_outdated(&JOB, attempt(5, Some(0))));
        assert!(!books.is_outdated(&JOB, attempt(4, Some(0))), "that validator is behind");
        assert!(!books.is_outdated(&JOB, attempt(6, None)), "the work is the same");
        assert!(books.drop_run(&JOB) && books.wanted_besides(&[]).is_empty());
        assert!(!books.begin_attempt(JOB, attempt(9, Some(0))), "nobody wants it");
        assert!(books.is_outdated(&JOB, attempt(6, Some(0))));
    }

    /// Goal: whoever is bound by a commitment that came late shows what it is to, and never the
    /// part of another member. Method: the gang breaks before and after the commitment came.
    #[test]
    fn result_of_a_broken_gang_is_shown_if_its_commitment_binds_the_same_member() {
        let mut same = broken(with_result(Some(1), false), 1);
        assert_eq!(same.stale_step(&JOB), StaleStep::Wait, "the commitment may never come");
        same.note_commitment(&JOB);
        assert_eq!(same.stale_step(&JOB), StaleStep::Show(note(1)));
        assert_eq!(same.take_stale(&JOB), None, "that commitment bound a run that has ended");
        let other = broken(with_result(Some(1), false), 0);
        assert_eq!(other.stale_step(&JOB), StaleStep::GiveUp);
        let heard = broken(with_result(Some(1), true), 0);
        assert_eq!(heard.stale_step(&JOB), StaleStep::Wait, "nothing is on its way");
        let twice = broken(ended(broken(with_result(Some(1), false), 1)), 0);
        assert_eq!(twice.stale_step(&JOB), StaleStep::GiveUp, "it is still on its way");
    }
}
