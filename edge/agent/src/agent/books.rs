//! What an agent has under way.

use super::capacity::{self, Drawn};
use super::{Ran, Report, check, dispute};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tg_types::{Hash32, JobId};

/// What the agent knows of the jobs it has to do with.
#[derive(Default)]
pub(super) struct Books {
    /// Runs that are under way, until they report.
    pub(super) running: BTreeSet<JobId>,
    /// Checks that are under way, until they report.
    pub(super) checking: BTreeSet<JobId>,
    /// Results of ours that are not settled.
    pub(super) runs: BTreeMap<JobId, Ran>,
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
    /// What reports is not under way any more.
    pub(super) fn end(&mut self, report: &Report) {
        match report {
            Report::Ran(job, _)
            | Report::Failed(job, _)
            | Report::Yielded(job, _)
            | Report::WrongInputs(job, _) => {
                self.running.remove(job);
            }
            Report::Checked(job, _) | Report::Unchecked(job) | Report::Wrong(job, _) => {
                self.checking.remove(job);
            }
            Report::Keyless(_) | Report::Saved(_) | Report::Filled(..) => {}
        }
    }
}
