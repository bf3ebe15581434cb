//! A full look at a state: every entry is decoded and encoded again, and all money is counted.

mod work;

use crate::violation::{Invariant, Violations};
use std::collections::BTreeMap;
use tg_ledger::GpuMixEntry;
use tg_ledger::{
    AbsenceEntry, AccountEntry, BeaconEntry, ComplaintEntry, Cursor, DisputeEntry, DraftEntry,
    DueHead, DuePage, HeaderEntry, JobEntry, ListHead, ListPage, LogEntry, MemoryView, NodeEntry,
    PaceEntry, ParamsEntry, PieceEntry, ProgramEntry, SeenEntry, StakeEntry, Totals,
    ValidatorEntry, WeightsEntry,
};
use tg_types::{
    codec::{Decode, Encode},
    genesis::Genesis,
    ids::{AccountId, JobId, NodeId, Noun, StateKey},
    job::JobStatus,
    key::PublicKey,
    tick::{DurationMs, Tick},
};

/// What a state holds, by what it is.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) balances: BTreeMap<AccountId, u128>,
    pub(crate) stakes: BTreeMap<AccountId, StakeEntry>,
    pub(crate) jobs: BTreeMap<JobId, JobEntry>,
    pub(crate) disputes: BTreeMap<JobId, DisputeEntry>,
    pub(crate) complaints: BTreeMap<JobId, ComplaintEntry>,
    nodes: BTreeMap<NodeId, NodeEntry>,
    /// Lists by their numbers, pages by theirs.
    list_heads: BTreeMap<[u64; 2], ListHead>,
    list_pages: BTreeMap<([u64; 2], u64), ListPage>,
    pub(crate) slashed: Vec<PublicKey>,
    pub(crate) totals: Option<Totals>,
    pub(crate) cursor: Option<Cursor>,
}

/// Decodes an entry and checks that its bytes are the only ones it has.
fn read<T: Decode + Encode>(key: &StateKey, bytes: &[u8], found: &mut Violations) -> Option<T> {
    match T::from_bytes(bytes) {
        Ok(value) => {
            let same = value.to_bytes() == bytes;
            found.check(same, Invariant::Canonical, || format!("entry {key:?} encodes otherwise"));
            Some(value)
        }
        Err(error) => {
            found.add(Invariant::Canonical, format!("entry {key:?} does not decode: {error}"));
            None
        }
    }
}

impl Scan {
    /// Reads every entry of a state.
    pub(crate) fn of(view: &MemoryView, found: &mut Violations) -> Self {
        let mut scan = Self::default();
        for (key, bytes) in view.iter() {
            scan.add(key, bytes, found);
        }
        scan
    }

    fn add(&mut self, key: &StateKey, bytes: &[u8], found: &mut Violations) {
        let owner = || AccountId::new(key.id()).ok();
        match key.noun() {
            Noun::Totals => self.totals = read(key, bytes, found),
            Noun::Cursor => self.cursor = read(key, bytes, found),
            Noun::Account => {
                let entry: Option<AccountEntry> = read(key, bytes, found);
                let held = owner().zip(entry);
                self.balances.extend(held.map(|(id, entry)| (id, entry.balance.units().into())));
            }
            Noun::Stake => self.stakes.extend(owner().zip(read(key, bytes, found))),
            Noun::Job => {
                let job = JobId::new(key.id());
                self.jobs.extend(read(key, bytes, found).map(|entry| (job, entry)));
            }
            Noun::Validator => {
                let entry: Option<ValidatorEntry> = read(key, bytes, found);
                if entry.is_some_and(|entry| entry.slashed.is_some()) {
                    self.slashed.extend(PublicKey::new(key.id()));
                }
            }
            Noun::Seen => drop(read::<SeenEntry>(key, bytes, found)),
            Noun::Node => {
                let node = NodeId::new(key.id());
                self.nodes.extend(read(key, bytes, found).map(|entry| (node, entry)));
            }
            Noun::Dispute => {
                let job = JobId::new(key.id());
                self.disputes.extend(read(key, bytes, found).map(|entry| (job, entry)));
            }
            Noun::Complaint => {
                let job = JobId::new(key.id());
                self.complaints.extend(read(key, bytes, found).map(|entry| (job, entry)));
            }
            Noun::Pace => drop(read::<PaceEntry>(key, bytes, found)),
            Noun::GpuMix => drop(read::<GpuMixEntry>(key, bytes, found)),
            Noun::List => self.add_list(key, bytes, found),
            Noun::Weights => drop(read::<WeightsEntry>(key, bytes, found)),
            Noun::Program => drop(read::<ProgramEntry>(key, bytes, found)),
            Noun::Piece => drop(read::<PieceEntry>(key, bytes, found)),
            Noun::Draft => drop(read::<DraftEntry>(key, bytes, found)),
            Noun::Headers => drop(read::<HeaderEntry>(key, bytes, found)),
            Noun::Beacon => drop(read::<BeaconEntry>(key, bytes, found)),
            Noun::Log => drop(read::<LogEntry>(key, bytes, found)),
            Noun::Params => drop(read::<ParamsEntry>(key, bytes, found)),
            Noun::Absence => drop(read::<AbsenceEntry>(key, bytes, found)),
            // A bucket's head stands before its pages, which are counted from one in its key.
            Noun::Due if key.id()[8..16] == [0; 8] => drop(read::<DueHead>(key, bytes, found)),
            Noun::Due => drop(read::<DuePage>(key, bytes, found)),
        }
    }

    /// A list's head stands before its pages, which are counted from one in its key.
    fn add_list(&mut self, key: &StateKey, bytes: &[u8], found: &mut Violations) {
        let id = key.id();
        let (words, _) = id.as_chunks::<8>();
        let number = |place: usize| words.get(place).map_or(0, |word| u64::from_le_bytes(*word));
        let list = [number(1), number(2)];
        match number(0) {
            0 => self.list_heads.extend(read(key, bytes, found).map(|head| (list, head))),
            page => {
                let page = (list, page - 1);
                self.list_pages.extend(read(key, bytes, found).map(|entry| (page, entry)));
            }
        }
    }

    /// Counts all money in the entries and compares it with the supply and the running totals.
    pub(crate) fn check_supply(&self, genesis: &Genesis, found: &mut Violations) {
        let Some(totals) = self.totals else {
            found.add(Invariant::Supply, "the state has no totals");
            return;
        };
        let supply = u128::from(genesis.supply().units());
        let units = |amount: tg_types::Amount| u128::from(amount.units());
        let unbonding = |stake: &StakeEntry| -> u128 {
            stake.unbonding.as_slice().iter().map(|item| units(item.amount)).sum()
        };
        let in_jobs: u128 = self.jobs.values().map(|job| units(job.escrow)).sum();
        let in_disputes: u128 = self.disputes.values().map(|it| units(it.bond)).sum();
        let in_complaints: u128 = self.complaints.values().map(|it| units(it.bond)).sum();
        let counted = [
            ("balances", self.balances.values().sum(), totals.balances),
            ("escrow", in_jobs + in_disputes + in_complaints, totals.escrow),
            ("staked", self.stakes.values().map(|stake| units(stake.active)).sum(), totals.staked),
            ("unbonding", self.stakes.values().map(unbonding).sum(), totals.unbonding),
        ];
        let mut sum: u128 = units(totals.treasury) + units(totals.burned);
        for (part, entries, total) in counted {
            let entries: u128 = entries;
            sum += entries;
            found.check(entries == units(total), Invariant::Supply, || {
                format!("{part}: entries hold {entries}, totals say {}", total.units())
            });
        }
        found.check(sum == supply && units(totals.supply) == supply, Invariant::Supply, || {
            format!("all parts are {sum}, the supply is {supply}")
        });
    }

    /// Nothing is left that should have happened by the block's time.
    pub(crate) fn check_due(&self, tick: Tick, found: &mut Violations) {
        let is_over = |due: Tick| due.get().div_ceil(DurationMs::SECOND.get()) <= tick.second();
        for (owner, stake) in &self.stakes {
            for item in stake.unbonding.as_slice().iter().filter(|item| is_over(item.due)) {
                let due = item.due;
                found.add(
                    Invariant::DueDate,
                    format!("{owner:?} unbonds {} since {due}, now {tick}", item.amount),
                );
            }
        }
        for (id, job) in &self.jobs {
            let is_open = matches!(job.status, JobStatus::Queued | JobStatus::Running);
            let is_unfinished = is_open && !job.is_owed();
            found.check(!is_unfinished || !is_over(job.expires), Invariant::DueDate, || {
                format!("{id:?} should have expired at {}, now {tick}", job.expires)
            });
            if job.status.is_final() {
                continue;
            }
            for run in job.live().filter(|run| is_over(run.deadline)) {
                let (node, deadline) = (run.node, run.deadline);
                found.add(
                    Invariant::DueDate,
                    format!("{id:?}: {node:?} had to go on at {deadline}, now {tick}"),
                );
            }
        }
    }
}
