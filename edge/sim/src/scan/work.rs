//! What entries say about the same work must agree: a job's runs, the nodes that have them, the
//! stake that stands for them, the queue and the list of nodes.

use super::Scan;
use crate::violation::{Invariant, Violations};
use std::collections::BTreeMap;
use tg_ledger::{JobEntry, LIST_PAGE_MAX, StakeEntry};
use tg_types::{
    amount::Amount,
    ids::{AccountId, JobId, NodeId},
};

/// Numbers of the lists in their keys.
const NODES: [u64; 2] = [1, 0];
const QUEUE: u64 = 2;

impl Scan {
    /// Checks that entries about work agree with each other.
    pub(crate) fn check_work(&self, found: &mut Violations) {
        self.check_bonds(found);
        self.check_nodes(found);
        self.check_queue(found);
        for (id, job) in &self.jobs {
            let is_open = !job.escrow.is_zero();
            found.check(is_open != job.status.is_final(), Invariant::Work, || {
                format!("{id:?} is {:?} and has {} locked", job.status, job.escrow)
            });
        }
    }

    fn open_jobs(&self) -> impl Iterator<Item = (&JobId, &JobEntry)> {
        self.jobs.iter().filter(|(_, job)| !job.status.is_final())
    }

    /// Stake is exposed for runs and checks that are under way, and for nothing else.
    fn check_bonds(&self, found: &mut Violations) {
        let mut bonds: BTreeMap<AccountId, u128> = BTreeMap::new();
        let mut add = |owner: AccountId, bond: Amount| {
            *bonds.entry(owner).or_default() += u128::from(bond.units());
        };
        for (_, job) in self.open_jobs() {
            job.live().for_each(|run| add(run.owner, run.bond));
            let checks = job.checks.as_slice().iter();
            let checks = checks.filter(|check| check.is_bonded());
            checks.for_each(|check| add(check.owner, check.bond));
        }
        let exposed = |stake: &StakeEntry| u128::from(stake.exposed.units());
        for (owner, stake) in &self.stakes {
            let bond = bonds.remove(owner).unwrap_or(0);
            found.check(exposed(stake) == bond, Invariant::Work, || {
                format!("{owner:?} has {} exposed, its work needs {bond}", stake.exposed)
            });
        }
        for (owner, bond) in bonds.into_iter().filter(|(_, bond)| *bond > 0) {
            found.add(Invariant::Work, format!("{owner:?} has no stake for bonds of {bond}"));
        }
    }

    /// Nodes have the runs and checks that jobs say, and stand in their list without holes.
    fn check_nodes(&self, found: &mut Violations) {
        let mut runs: BTreeMap<NodeId, Vec<JobId>> = BTreeMap::new();
        let mut checks: BTreeMap<NodeId, u32> = BTreeMap::new();
        for (id, job) in self.open_jobs() {
            job.live().for_each(|run| runs.entry(run.node).or_default().push(*id));
            for check in job.checks.as_slice().iter().filter(|it| it.is_bonded()) {
                *checks.entry(check.node).or_default() += 1;
            }
        }
        for (id, node) in &self.nodes {
            let mut listed = node.runs.as_slice().to_vec();
            listed.sort_unstable();
            let expected = runs.remove(id).unwrap_or_default();
            found.check(listed == expected, Invariant::Work, || {
                format!("{id:?} lists runs {listed:?}, jobs say {expected:?}")
            });
            let expected = checks.remove(id).unwrap_or(0);
            found.check(node.checks == expected, Invariant::Work, || {
                format!("{id:?} has {} checks, jobs say {expected}", node.checks)
            });
            found.check(
                self.listed(NODES, node.place) == Some(*id.as_bytes()),
                Invariant::Work,
                || format!("{id:?} does not stand at its place {} of the list", node.place),
            );
        }
        let is_busy = !runs.is_empty() || !checks.is_empty();
        found.check(!is_busy, Invariant::Work, || format!("{runs:?} {checks:?} at no node"));
        let count = self.list_heads.get(&NODES).map_or(0, |head| head.next - head.first);
        found.check(count == self.nodes.len() as u64, Invariant::Work, || {
            format!("the list has {count} nodes, there are {}", self.nodes.len())
        });
    }

    /// Jobs that want more runs stand in the queue, once, and nothing else does.
    fn check_queue(&self, found: &mut Violations) {
        let queued = self.list_pages.iter().filter(|(([list, _], _), _)| *list == QUEUE);
        let queued: usize = queued.map(|(_, page)| page.items.iter().count()).sum();
        let mut waiting = 0;
        for (id, job) in &self.jobs {
            let wants = !job.status.is_final() && job.live().count() < usize::from(job.wanted);
            found.check(wants == job.queue_place.is_some(), Invariant::Work, || {
                let (runs, wanted) = (job.live().count(), job.wanted);
                format!("{id:?} has {runs} of {wanted} runs, queue place {:?}", job.queue_place)
            });
            let Some(place) = job.queue_place else { continue };
            waiting += 1;
            let row = [QUEUE, job.row.get().into()];
            found.check(self.listed(row, place) == Some(*id.as_bytes()), Invariant::Work, || {
                format!("{id:?} does not stand at its place {place} of the queue")
            });
        }
        found.check(queued == waiting, Invariant::Work, || {
            format!("{queued} jobs in the queue, {waiting} wait")
        });
    }

    /// What stands at a place of a list.
    fn listed(&self, list: [u64; 2], place: u64) -> Option<[u8; 32]> {
        let page = self.list_pages.get(&(list, place / LIST_PAGE_MAX))?;
        page.items.get(place % LIST_PAGE_MAX)
    }
}
