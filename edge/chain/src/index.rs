//! Where things stand: in which block and place a transaction, in which blocks something happened
//! to a job or a node, and which jobs came last. The state itself holds no history.
//!
//! Derived from the records of final blocks, so it may be lost: on start it is filled up from the
//! first height it lacks. Commits are therefore not flushed one by one.

use crate::record::Record;
use redb::{Database, Durability, ReadableDatabase as _, TableDefinition, WriteTransaction};
use std::{collections::BTreeSet, path::Path};
use tg_ledger::keys;
use tg_types::{
    ids::{JobId, NodeId, StateKey, TxId},
    receipt::Event,
    tick::Height,
};

const PLACES: TableDefinition<'_, [u8; 32], (u64, u32)> = TableDefinition::new("places");
const BY_HEIGHT: TableDefinition<'_, (u64, u32), [u8; 32]> = TableDefinition::new("by_height");
/// Blocks in which something happened to the entry with a key.
const SUBJECTS: TableDefinition<'_, ([u8; 33], u64), ()> = TableDefinition::new("subjects");
const SUBJECTS_BY_HEIGHT: TableDefinition<'_, (u64, u32), [u8; 33]> =
    TableDefinition::new("subjects_by_height");
/// Jobs in the order in which they came: by block, and by place among the jobs of the block.
const JOBS: TableDefinition<'_, (u64, u32), [u8; 32]> = TableDefinition::new("jobs");
/// The last height that is in all tables. A new name whenever there is a new table, so that an
/// index of an earlier version is filled anew.
const TIPS: TableDefinition<'_, (), u64> = TableDefinition::new("tip_with_subjects");

/// Flushed to disk after this many blocks; the rest is derived again after a crash.
const FLUSH_BLOCKS: u64 = 64;

/// The index cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the index of transactions failed")]
pub struct IndexError(#[source] Box<redb::Error>);

impl<E: Into<redb::Error>> From<E> for IndexError {
    fn from(error: E) -> Self {
        Self(Box::new(error.into()))
    }
}

/// Where a transaction stands in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxPlace {
    /// Height of its block.
    pub height: Height,
    /// Position in the block.
    pub index: u32,
}

/// Where a job stands in the order in which jobs came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobPlace {
    /// Height of the block it was queued in.
    pub height: Height,
    /// Its place among the jobs of that block.
    pub place: u32,
}

/// The index of one node.
pub struct Index(Database);

impl Index {
    /// Opens the index in a file, or makes it.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn open(file: &Path) -> Result<Self, IndexError> {
        Self::prepare(Database::create(file)?)
    }

    /// An index in memory, for nodes that keep nothing.
    ///
    /// # Errors
    /// If memory cannot be used.
    pub fn in_memory() -> Result<Self, IndexError> {
        Self::prepare(
            Database::builder().create_with_backend(redb::backends::InMemoryBackend::new())?,
        )
    }

    fn prepare(database: Database) -> Result<Self, IndexError> {
        let transaction = database.begin_write()?;
        transaction.open_table(PLACES)?;
        transaction.open_table(BY_HEIGHT)?;
        transaction.open_table(SUBJECTS)?;
        transaction.open_table(SUBJECTS_BY_HEIGHT)?;
        transaction.open_table(JOBS)?;
        transaction.open_table(TIPS)?;
        transaction.commit()?;
        Ok(Self(database))
    }

    /// Adds what a block's record says and forgets what is below `oldest`.
    ///
    /// # Errors
    /// If the index cannot be written.
    pub fn add(&self, height: Height, record: &Record, oldest: Height) -> Result<(), IndexError> {
        let mut transaction = self.0.begin_write()?;
        let is_flushed = height.get().is_multiple_of(FLUSH_BLOCKS);
        if !is_flushed {
            transaction.set_durability(Durability::None)?;
        }
        add_txs(&transaction, height, record)?;
        add_subjects(&transaction, height, record)?;
        if is_flushed {
            prune(&transaction, oldest)?;
        }
        transaction.open_table(TIPS)?.insert((), height.get())?;
        transaction.commit()?;
        Ok(())
    }

    /// The last height added.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn tip(&self) -> Result<Option<Height>, IndexError> {
        let tips = self.0.begin_read()?.open_table(TIPS)?;
        Ok(tips.get(())?.map(|tip| Height::new(tip.value())))
    }

    /// Where a transaction stands.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn find(&self, id: &TxId) -> Result<Option<TxPlace>, IndexError> {
        let places = self.0.begin_read()?.open_table(PLACES)?;
        Ok(places.get(*id.as_bytes())?.map(|place| {
            let (height, index) = place.value();
            TxPlace { height: Height::new(height), index }
        }))
    }

    /// The last blocks in which something happened to the entry with this key, the latest first: at
    /// most `limit`, and all before a height if one is given.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn heights(
        &self,
        subject: &StateKey,
        before: Option<Height>,
        limit: usize,
    ) -> Result<Vec<Height>, IndexError> {
        let subject = *subject.as_bytes();
        let end = before.map_or(u64::MAX, Height::get);
        let table = self.0.begin_read()?.open_table(SUBJECTS)?;
        let found = table.range((subject, 0)..(subject, end))?.rev().take(limit);
        let heights = found.map(|item| item.map(|(key, _)| Height::new(key.value().1)));
        Ok(heights.collect::<Result<_, _>>()?)
    }

    /// The last jobs, the latest first: at most `limit`, and all before a place if one is given.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn jobs(
        &self,
        before: Option<JobPlace>,
        limit: usize,
    ) -> Result<Vec<(JobPlace, JobId)>, IndexError> {
        let end = before.map_or((u64::MAX, 0), |before| (before.height.get(), before.place));
        let table = self.0.begin_read()?.open_table(JOBS)?;
        let found = table.range((0, 0)..end)?.rev().take(limit);
        let jobs = found.map(|item| {
            item.map(|(key, id)| {
                let (height, place) = key.value();
                (JobPlace { height: Height::new(height), place }, JobId::new(id.value()))
            })
        });
        Ok(jobs.collect::<Result<_, _>>()?)
    }
}

fn add_txs(
    transaction: &WriteTransaction,
    height: Height,
    record: &Record,
) -> Result<(), IndexError> {
    let mut places = transaction.open_table(PLACES)?;
    let mut by_height = transaction.open_table(BY_HEIGHT)?;
    for (index, receipt) in (0u32..).zip(&record.receipts) {
        places.insert(*receipt.tx.as_bytes(), (height.get(), index))?;
        by_height.insert((height.get(), index), *receipt.tx.as_bytes())?;
    }
    Ok(())
}

fn add_subjects(
    transaction: &WriteTransaction,
    height: Height,
    record: &Record,
) -> Result<(), IndexError> {
    let happened: BTreeSet<StateKey> = record.events().flat_map(|(_, it)| subjects(it)).collect();
    let mut table = transaction.open_table(SUBJECTS)?;
    let mut by_height = transaction.open_table(SUBJECTS_BY_HEIGHT)?;
    for (index, subject) in (0u32..).zip(&happened) {
        table.insert((*subject.as_bytes(), height.get()), ())?;
        by_height.insert((height.get(), index), *subject.as_bytes())?;
    }
    let mut jobs = transaction.open_table(JOBS)?;
    for (place, job) in queued(record) {
        jobs.insert((height.get(), place), *job.as_bytes())?;
    }
    Ok(())
}

fn prune(transaction: &WriteTransaction, oldest: Height) -> Result<(), IndexError> {
    let old = (0, 0)..(oldest.get(), 0);
    let mut places = transaction.open_table(PLACES)?;
    let mut by_height = transaction.open_table(BY_HEIGHT)?;
    for item in by_height.extract_from_if(old.clone(), |_, _| true)? {
        places.remove(item?.1.value())?;
    }
    let mut subjects = transaction.open_table(SUBJECTS)?;
    let mut by_height = transaction.open_table(SUBJECTS_BY_HEIGHT)?;
    for item in by_height.extract_from_if(old.clone(), |_, _| true)? {
        let (key, subject) = item?;
        subjects.remove((subject.value(), key.value().0))?;
    }
    transaction.open_table(JOBS)?.retain_in(old, |_, _| false)?;
    Ok(())
}

/// The jobs that a block queued, each with its place.
pub(crate) fn queued(record: &Record) -> impl DoubleEndedIterator<Item = (u32, JobId)> {
    let jobs = record.events().filter_map(|(_, event)| match is_queued(event) {
        true => event.job(),
        false => None,
    });
    let jobs: Vec<JobId> = jobs.collect();
    (0u32..).zip(jobs).collect::<Vec<_>>().into_iter()
}

const fn is_queued(event: &Event) -> bool {
    matches!(event, Event::JobQueued { .. })
}

/// The keys of the job and the node that an event is about.
pub(crate) fn subjects(event: &Event) -> impl Iterator<Item = StateKey> + use<> {
    let job = event.job().map(|job| keys::job(&job));
    job.into_iter().chain(node_of(event).map(|node| keys::node(&node)))
}

/// The node that an event is about.
const fn node_of(event: &Event) -> Option<NodeId> {
    match event {
        Event::CheckpointSaved { node, .. } | Event::YieldAsked { node, .. } => Some(*node),
        Event::RunYielded { node, .. } | Event::StopAsked { node, .. } => Some(*node),
        Event::RunStopped { node, .. } | Event::MoveAsked { node, .. } => Some(*node),
        Event::RunMoved { node, .. } | Event::GangBroken { node, .. } => Some(*node),
        Event::PromiseGiven { node, .. } | Event::ClientCompensated { node, .. } => Some(*node),
        Event::NodeRegistered { node, .. }
        | Event::NodeChanged { node, .. }
        | Event::NodeLeft { node, .. }
        | Event::NodeDropped { node, .. }
        | Event::NodeAbsent { node, .. }
        | Event::JobPlaced { node, .. }
        | Event::RunEnded { node, .. }
        | Event::ResultCommitted { node, .. }
        | Event::ResultRevealed { node, .. }
        | Event::ResultProved { node, .. }
        | Event::CheckDrawn { node, .. }
        | Event::CheckCommitted { node, .. }
        | Event::CheckPassed { node, .. }
        | Event::CheckMissed { node, .. }
        | Event::CheckRefused { node, .. }
        | Event::TilesNotShown { node, .. }
        | Event::KeyLacked { node, .. }
        | Event::CheckExcused { node, .. }
        | Event::DisputeAnswered { node, .. }
        | Event::ProviderPaid { node, .. }
        | Event::CheckerPaid { node, .. }
        | Event::NodeSlashed { node, .. }
        | Event::NodeFined { node, .. }
        | Event::CapacityAsked { node, .. }
        | Event::CapacityCommitted { node, .. }
        | Event::CapacityDrawn { node, .. }
        | Event::CapacityShown { node, .. }
        | Event::CapacityProved { node, .. }
        | Event::CapacityMissed { node, .. } => Some(*node),
        Event::AccountCredited { .. }
        | Event::Transferred { .. }
        | Event::Staked { .. }
        | Event::UnbondingStarted { .. }
        | Event::Unbonded { .. }
        | Event::AbsenceReported { .. }
        | Event::JobQueued { .. }
        | Event::JobCancelled { .. }
        | Event::JobAdjusted { .. }
        | Event::JobExpired { .. }
        | Event::Slashed { .. }
        | Event::PenaltyTaken { .. }
        | Event::FeesShared { .. }
        | Event::BeaconRecorded { .. }
        | Event::ProgramRecorded { .. }
        | Event::WeightsRegistered { .. }
        | Event::ResultUnchecked { .. }
        | Event::ResultNotDrawn { .. }
        | Event::DisputeOpened { .. }
        | Event::ClaimPicked { .. }
        | Event::DefencePassed { .. }
        | Event::DisputeEnded { .. }
        | Event::RunsDisagreed { .. }
        | Event::JobSettled { .. }
        | Event::JobFailed { .. }
        | Event::PromiseRefused { .. }
        | Event::PromiseBroken { .. }
        | Event::Complained { .. }
        | Event::ComplaintJudged { .. }
        | Event::ComplaintUpheld { .. }
        | Event::ComplaintRejected { .. }
        | Event::ComplaintLapsed { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Index, JobPlace};
    use crate::record::Record;
    use tg_ledger::keys;
    use tg_types::{
        Amount, Event, Height, JobId, NodeId, SecretKey, receipt::BlockReceipt, tick::Tick,
    };

    fn record(height: u64, events: Vec<Event>) -> Record {
        Record { receipts: Vec::new(), block: BlockReceipt { height: Height::new(height), events } }
    }

    fn queue(job: u8) -> Event {
        let owner = SecretKey::from_seed([1; 32]).public().into();
        Event::JobQueued { job: JobId::new([job; 32]), owner, escrow: Amount::ZERO }
    }

    fn placed(job: u8, node: u8) -> Event {
        let (job, node) = (JobId::new([job; 32]), NodeId::new([node; 32]));
        Event::JobPlaced { job, node, run: 0, deadline: Tick::ZERO }
    }

    /// Blocks 1 to 64: every block queues two jobs and places the first of them on one node; the
    /// 64th forgets those below `oldest`.
    fn filled(oldest: u64) -> Index {
        let index = Index::in_memory().expect("memory");
        for height in 1..=64_u8 {
            let events = vec![queue(height), placed(height, 200), queue(height + 100)];
            let record = record(height.into(), events);
            index.add(Height::new(height.into()), &record, Height::new(oldest)).expect("added");
        }
        index
    }

    #[test]
    fn heights_of_a_subject_come_latest_first_and_page_by_page() {
        let index = filled(0);
        let node = keys::node(&NodeId::new([200; 32]));
        let heights = |before: Option<u64>, limit| -> Vec<u64> {
            let found = index.heights(&node, before.map(Height::new), limit).expect("read");
            found.into_iter().map(Height::get).collect()
        };
        assert_eq!(heights(None, 3), [64, 63, 62]);
        assert_eq!(heights(Some(62), 2), [61, 60]);
        assert!(heights(Some(1), 2).is_empty());
        assert_eq!(heights(None, 1_000).len(), 64);
        let job = keys::job(&JobId::new([7; 32]));
        assert_eq!(index.heights(&job, None, 9).expect("read"), [Height::new(7)]);
        let stranger = keys::job(&JobId::new([250; 32]));
        assert_eq!(index.heights(&stranger, None, 9).expect("read"), []);
    }

    #[test]
    fn jobs_come_latest_first_and_every_page_goes_on_where_the_last_ended() {
        let index = filled(0);
        let mut before = None;
        let mut seen = Vec::new();
        loop {
            let page = index.jobs(before, 5).expect("read");
            assert!(page.len() <= 5);
            let Some((last, _)) = page.last() else { break };
            before = Some(*last);
            seen.extend(page);
        }
        assert_eq!(seen.len(), 128);
        assert!(seen.is_sorted_by(|left, right| left.0 > right.0));
        let last = JobPlace { height: Height::new(64), place: 1 };
        assert_eq!(seen[0], (last, JobId::new([164; 32])));
    }

    #[test]
    fn what_is_older_than_the_node_keeps_is_forgotten() {
        let index = filled(60);
        let node = keys::node(&NodeId::new([200; 32]));
        assert_eq!(index.heights(&node, None, 100).expect("read").len(), 5);
        assert_eq!(index.jobs(None, 100).expect("read").len(), 10);
        let job = keys::job(&JobId::new([7; 32]));
        assert_eq!(index.heights(&job, None, 9).expect("read"), []);
    }
}
