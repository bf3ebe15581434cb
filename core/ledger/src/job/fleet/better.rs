//! Nodes to which runs may move. What is found is not given: it is told how good it is, and left
//! out when the next run is looked at.

use tg_scheduler::{Ask, Found};
use tg_types::Bps;
use tg_types::ids::{AccountId, JobId};

use super::{Fleet, STEPS_PER_BLOCK_MAX, draw};
use crate::job::place::run_bond;
use crate::job::promise;
use crate::job::record::JobEntry;
use crate::session::Session;

/// The part of a block's steps that looking for better places may take beside those of placing: as
/// much as promises have. Who waits comes first, and this need not be done soon.
const PART: u64 = 4;

impl Fleet {
    /// Whether the block may look for one more better place, for a job of this client.
    pub(in crate::job) fn has_time_to_move(&self, client: &AccountId) -> bool {
        self.meter.steps() < STEPS_PER_BLOCK_MAX / PART && self.has_time_for(client)
    }

    /// The best node of another owner for the only run of the job that was looked up last, as if it
    /// was placed now, and the lower bound of that node's reputation. Its client has less time
    /// then.
    pub(in crate::job) fn find_elsewhere(
        &mut self,
        session: &Session<'_>,
        job: &JobId,
        entry: &JobEntry,
    ) -> Option<(Found, Bps)> {
        let before = self.meter.steps();
        let owners: Vec<AccountId> = entry.runs.as_slice().iter().map(|run| run.owner).collect();
        let bond = run_bond(session.params.jobs.run_bond, &entry.spec);
        let span = promise::run_span(&session.params, &entry.spec, session.env.tick);
        let (spec, excluded) = (&entry.spec, owners.as_slice());
        let ask = Ask { spec, facts: None, bond, excluded, span, job: Some(*job) };
        let found = self.best(session, &ask, draw(session, job, owners.len()));
        self.charge(&entry.owner, before);
        found.and_then(|found| Some((found, self.seats.get(found.number)?.reputation)))
    }

    /// A node is as good as taken by a run that was asked to move: no other is asked to move there.
    pub(in crate::job) fn expect_at(&mut self, place: usize) {
        self.beside.push(place);
    }
}
