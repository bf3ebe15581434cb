//! The books of complaints: who says that a package does not open, what validators found, and what
//! stands on it until they have.

use crate::violation::{Invariant, Violations};
use std::collections::{BTreeMap, BTreeSet};
use tg_types::ids::{AccountId, JobId};

#[derive(Debug)]
struct ComplaintBook {
    by: AccountId,
    bond: i128,
    opens: BTreeSet<AccountId>,
    fails: BTreeSet<AccountId>,
}

/// Complaints that are not decided.
#[derive(Debug)]
pub(super) struct Complaints {
    open: BTreeMap<JobId, ComplaintBook>,
    quorum: usize,
    bond: i128,
}

impl Complaints {
    /// Nobody has complained; so many validators decide, and this stands on a complaint.
    pub(super) const fn new(quorum: usize, bond: i128) -> Self {
        Self { open: BTreeMap::new(), quorum, bond }
    }

    /// Somebody complains.
    pub(super) fn add(
        &mut self,
        job: &JobId,
        (by, bond): (AccountId, i128),
        found: &mut Violations,
    ) {
        let (opens, fails) = (BTreeSet::new(), BTreeSet::new());
        let before = self.open.insert(*job, ComplaintBook { by, bond, opens, fails });
        let is_fair = before.is_none() && bond == self.bond;
        found.check(is_fair, Invariant::Work, || {
            format!("{by:?} complains about {job:?} with {bond}, after {before:?}")
        });
    }

    /// A validator says whether a package opens.
    pub(super) fn judge(
        &mut self,
        job: &JobId,
        (validator, opens): (AccountId, bool),
        found: &mut Violations,
    ) {
        let is_new = self.open.get_mut(job).is_some_and(|book| {
            let has_judged = book.opens.contains(&validator) || book.fails.contains(&validator);
            let votes = if opens { &mut book.opens } else { &mut book.fails };
            votes.insert(validator) && !has_judged
        });
        found.check(is_new, Invariant::Authority, || {
            format!("{validator:?} judges a complaint about {job:?} twice, or there is none")
        });
    }

    /// Whether a quorum has found that a package opens, or that it does not.
    pub(super) fn has_found(&self, job: &JobId, opens: bool) -> bool {
        let votes = |book: &ComplaintBook| if opens { book.opens.len() } else { book.fails.len() };
        self.open.get(job).is_some_and(|book| votes(book) >= self.quorum)
    }

    /// A complaint is over: gives who complained, and what stood on it.
    pub(super) fn end(&mut self, job: &JobId) -> Option<(AccountId, i128)> {
        self.open.remove(job).map(|book| (book.by, book.bond))
    }

    /// What stands on a complaint about a job.
    pub(super) fn bond(&self, job: &JobId) -> i128 {
        self.open.get(job).map_or(0, |book| book.bond)
    }
}
