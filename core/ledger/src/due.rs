//! What falls due when. Stakes come free, jobs expire and idempotency ids are forgotten at some
//! time, and no transaction is there to do it. Everything with a date is put into the bucket of
//! its second, and every block visits the buckets up to its own time.
//!
//! The work of a block is bounded; what is left continues in the next block at the cursor. A
//! bucket is a head that counts and pages that hold, so that a second into which many dates fall
//! never becomes one huge entry. Nothing is visited before its time, and nothing twice.

use std::collections::BTreeSet;

use tg_types::codec::encode_list;
use tg_types::ids::{AccountId, JobId, NodeId, Noun, StateKey};
use tg_types::{Decode, DecodeError, DurationMs, Encode, Reader, Tick, TimeError, wire};

use crate::entry::{Entry, entry, key_of};
use crate::error::{ApplyError, Stop};
use crate::job::{complaint, drain, draw, promise};
use crate::session::Session;
use crate::{capacity, job, keys, node, seen, stake};

/// Items in one page: a page stays below 3 KiB, and a busy second needs few pages.
pub const PAGE_ITEMS_MAX: usize = 64;

/// Seconds a block visits at most. Blocks are less than a second apart, so this catches up with a
/// long pause sixty times faster than time passes, and bounds the look-ups of a block.
pub const SECONDS_PER_BLOCK_MAX: u64 = 64;

wire! {
    /// Something with a date.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum DueItem {
        /// A used idempotency id may be forgotten.
        ForgetSeen {
            /// The id of its entry.
            id: [u8; 32],
        } = 1,
        /// Unbonding stake comes free.
        ReleaseStake {
            /// Whose.
            account: AccountId,
        } = 2,
        /// A job expires, or a closed one may be forgotten.
        CloseJob {
            /// Which.
            job: JobId,
        } = 3,
        /// Somebody may have missed a step of a job.
        JobStep {
            /// Which.
            job: JobId,
        } = 4,
        /// An absent node is dropped.
        DropNode {
            /// Which.
            node: NodeId,
        } = 5,
        /// What an absent node was to compute goes to others.
        LoseRuns {
            /// Which.
            node: NodeId,
        } = 6,
        /// A node may not have shown its capacity in time, or is to be asked for it.
        CapacityStep {
            /// Which.
            node: NodeId,
        } = 7,
        /// A complaint may not have been judged in time.
        EndComplaint {
            /// About which job.
            job: JobId,
        } = 8,
        /// A slot that a node keeps begins.
        BeginSlot {
            /// For which job.
            job: JobId,
        } = 9,
        /// A node that keeps slots has changed what it offers.
        RecheckSlots {
            /// Which.
            node: NodeId,
        } = 10,
        /// Runs of a node that closes are asked to move.
        DrainNode {
            /// Which.
            node: NodeId,
        } = 11,
    }
}

impl DueItem {
    /// Whether visiting it may look at all nodes.
    const fn needs_nodes(&self) -> bool {
        match self {
            Self::JobStep { .. } | Self::DropNode { .. } => true,
            Self::ForgetSeen { .. }
            | Self::ReleaseStake { .. }
            | Self::CloseJob { .. }
            | Self::LoseRuns { .. }
            | Self::CapacityStep { .. }
            | Self::EndComplaint { .. }
            | Self::BeginSlot { .. }
            | Self::DrainNode { .. }
            | Self::RecheckSlots { .. } => false,
        }
    }
}

entry! {
    /// How many things fall due in one second.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct DueHead {
        /// Items in the pages of this second, visited ones included.
        pub count: u64,
    }
}

impl Entry for DueHead {
    const NOUN: Noun = Noun::Due;
}

entry! {
    /// Some of the things that fall due in one second.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct DuePage {
        /// In the order in which they were added.
        pub items: DueItems,
    }
}

impl Entry for DuePage {
    const NOUN: Noun = Noun::Due;
}

/// At most [`PAGE_ITEMS_MAX`] items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueItems(Vec<DueItem>);

impl DueItems {
    /// The items.
    pub fn as_slice(&self) -> &[DueItem] {
        &self.0
    }
}

impl Encode for DueItems {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_list(&self.0, out);
    }
}

impl Decode for DueItems {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.list(PAGE_ITEMS_MAX).map(Self)
    }
}

/// Which page of which second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOf {
    /// The second since the Unix epoch.
    pub second: u64,
    /// The page, counted from 0.
    pub page: u64,
}

/// The bucket of an instant: the first second that is not before it.
pub(crate) fn second_of(tick: Tick) -> u64 {
    tick.get().div_ceil(DurationMs::SECOND.get())
}

/// Puts an item on its date. Called as the last change of an action.
pub(crate) fn add(session: &mut Session<'_>, tick: Tick, item: DueItem) -> Result<(), Stop> {
    // A second the cursor has left is never visited again, so a date in it moves to the cursor.
    let second = second_of(tick).max(session.cursor.due_second);
    let head = session.tables.due_heads.find(&keys::due_head_id(second))?;
    let count = session.tables.due_heads.at(head).map_or(0, |head| head.count);
    let place = Place::of(count);
    let page_id = keys::due_page_id(PageOf { second, page: place.page });
    let page = match place.index {
        0 => session.tables.due_pages.find_new(&page_id), // the count says that it does not exist
        _ => session.tables.due_pages.find(&page_id)?,
    };
    let count = count.checked_add(1).ok_or(TimeError::Overflow)?;

    *session.tables.due_heads.at_mut(head) = Some(DueHead { count });
    session.tables.due_pages.at_mut(page).get_or_insert_default().items.0.push(item);
    Ok(())
}

/// Visits what has fallen due, as much as a block may.
pub(crate) fn visit(session: &mut Session<'_>) -> Result<(), Stop> {
    let now = session.env.tick.second();
    let mut items_left = u64::from(session.params.due_per_block_max);
    let mut seconds_left = SECONDS_PER_BLOCK_MAX;
    while seconds_left > 0 && session.cursor.due_second <= now {
        let is_finished = visit_second(session, &mut items_left)?;
        if !is_finished {
            break;
        }
        session.cursor.due_second += 1;
        session.cursor.due_index = 0;
        seconds_left -= 1;
    }
    Ok(())
}

/// Visits the rest of the cursor's second; says whether it is finished.
fn visit_second(session: &mut Session<'_>, items_left: &mut u64) -> Result<bool, Stop> {
    let second = session.cursor.due_second;
    let head = session.tables.due_heads.find(&keys::due_head_id(second))?;
    // The count is read again every time: what is visited may add to this very second.
    while let Some(count) = session.tables.due_heads.at(head).map(|head| head.count) {
        if session.cursor.due_index == count {
            *session.tables.due_heads.at_mut(head) = None;
            break;
        }
        if *items_left == 0 {
            return Ok(false);
        }
        visit_item(session, count)?;
        *items_left -= 1;
    }
    Ok(true)
}

/// Visits the item at the cursor, and drops its page after the page's last item.
fn visit_item(session: &mut Session<'_>, count: u64) -> Result<(), Stop> {
    let second = session.cursor.due_second;
    let place = Place::of(session.cursor.due_index);
    let page_id = keys::due_page_id(PageOf { second, page: place.page });
    let page = session.tables.due_pages.find(&page_id)?;
    let item = session
        .tables
        .due_pages
        .at(page)
        .and_then(|page| page.items.0.get(place.index).copied())
        .ok_or(ApplyError::Incomplete(key_of::<DuePage>(page_id)))?;
    session.cursor.due_index += 1;
    match item {
        DueItem::ForgetSeen { id } => seen::forget(session, &id)?,
        DueItem::ReleaseStake { account } => stake::release(session, &account)?,
        DueItem::CloseJob { job } => job::fall_due(session, &job)?,
        DueItem::JobStep { job } => job::miss::fall_due(session, &job)?,
        DueItem::DropNode { node } => node::fall_due(session, &node)?,
        DueItem::LoseRuns { node } => {
            job::run::lose(session, &node)?;
            promise::recheck(session, &node)?;
        }
        DueItem::BeginSlot { job } => promise::fall_due(session, &job)?,
        DueItem::RecheckSlots { node } => promise::recheck(session, &node)?,
        DueItem::DrainNode { node } => drain::fall_due(session, &node)?,
        DueItem::CapacityStep { node } => capacity::fall_due(session, &node)?,
        DueItem::EndComplaint { job } => complaint::fall_due(session, &job)?,
    }
    let is_page_done = place.index + 1 == PAGE_ITEMS_MAX || session.cursor.due_index == count;
    if is_page_done {
        drop_page(session, &page_id, place)?;
    }
    Ok(())
}

/// Drops a page all of whose items were visited; one that was added to meanwhile stays.
fn drop_page(session: &mut Session<'_>, page_id: &[u8; 32], place: Place) -> Result<(), Stop> {
    let page = session.tables.due_pages.find(page_id)?;
    let items = session.tables.due_pages.at(page).map_or(0, |page| page.items.0.len());
    if items == place.index + 1 {
        *session.tables.due_pages.at_mut(page) = None;
    }
    Ok(())
}

/// Loads what putting items on these dates needs.
pub(crate) fn load_dates(session: &mut Session<'_>, dates: &[Tick]) -> Result<(), Stop> {
    let earliest = session.cursor.due_second;
    let mut seconds: Vec<u64> = dates.iter().map(|tick| second_of(*tick).max(earliest)).collect();
    seconds.sort_unstable();
    seconds.dedup();
    let heads: Vec<StateKey> = seconds.iter().map(|second| keys::due_head(*second)).collect();
    session.require(&heads)?;
    let mut is_complete = true;
    for second in seconds {
        let head = session.tables.due_heads.get(&keys::due_head_id(second))?;
        let place = Place::of(head.map_or(0, |head| head.count));
        if place.index > 0 {
            // A page that was begun in this block is in the table and not in the view.
            let id = keys::due_page_id(PageOf { second, page: place.page });
            let found = session.tables.due_pages.find(&id).map(drop);
            is_complete &= session.attempt(found)?.is_some();
        }
    }
    if is_complete { Ok(()) } else { session.check_complete() }
}

/// Names all unknown entries that a visit will need, stage by stage, so that a view which loads on
/// demand is asked a few times per block and not once per entry.
pub(crate) fn load_ahead(session: &mut Session<'_>) -> Result<(), Stop> {
    let first = session.cursor.due_second;
    let last = session.env.tick.second().min(first.saturating_add(SECONDS_PER_BLOCK_MAX - 1));
    let heads: Vec<StateKey> = (first..=last).map(keys::due_head).collect();
    session.require(&heads)?;
    let page_ids = pages_ahead(session, first..=last)?;
    let pages: Vec<StateKey> = page_ids.iter().map(|id| key_of::<DuePage>(*id)).collect();
    session.require(&pages)?;
    let mut items = Vec::new();
    for id in page_ids {
        if let Some(page) = session.tables.due_pages.get(&id)? {
            items.extend_from_slice(&page.items.0);
        }
    }
    let subjects: Vec<StateKey> = items.iter().flat_map(subjects_of).collect();
    let subjects = session.require(&subjects);
    let jobs = jobs_of(session, &items).and_then(|jobs| job::load(session, &jobs));
    let complaints = load_complaints(session, &items);
    let has_capacity = items.iter().any(|item| matches!(item, DueItem::CapacityStep { .. }));
    let capacity = if has_capacity { capacity::load_due(session) } else { Ok(()) };
    if !items.iter().any(DueItem::needs_nodes) {
        return session.all_of([subjects, jobs, complaints, capacity]);
    }
    let nodes = draw::load_ground(session);
    // A node that is busy is dropped later.
    let later = session.env.tick.plus(session.params.jobs.answer_within)?;
    let dates = load_dates(session, &[later]);
    session.all_of([subjects, jobs, complaints, capacity, nodes, dates])
}

/// The jobs that visiting these items may touch.
fn jobs_of(session: &mut Session<'_>, items: &[DueItem]) -> Result<Vec<JobId>, Stop> {
    let (mut jobs, mut nodes) = (BTreeSet::new(), BTreeSet::new());
    for item in items {
        match item {
            DueItem::CloseJob { job } | DueItem::JobStep { job } | DueItem::BeginSlot { job } => {
                jobs.insert(*job);
            }
            DueItem::LoseRuns { node } | DueItem::RecheckSlots { node } => {
                nodes.insert((*node, false));
            }
            DueItem::DrainNode { node } => {
                nodes.insert((*node, true));
            }
            DueItem::ForgetSeen { .. }
            | DueItem::ReleaseStake { .. }
            | DueItem::DropNode { .. }
            | DueItem::CapacityStep { .. }
            | DueItem::EndComplaint { .. } => {}
        }
    }
    let now = session.env.tick;
    for (node, is_drain) in nodes {
        let found = session.tables.nodes.get(node.as_bytes()).map(|entry| {
            let entry = entry.filter(|entry| !is_drain || drain::is_due(entry, now));
            let runs = entry.into_iter().flat_map(|entry| entry.runs.as_slice().iter().copied());
            let kept = entry.into_iter().flat_map(|entry| entry.kept.as_slice());
            runs.chain(kept.map(|slot| slot.job)).collect::<Vec<JobId>>()
        });
        jobs.extend(session.attempt(found)?.unwrap_or_default());
    }
    Ok(jobs.into_iter().collect())
}

/// Loads what the complaints among these items need.
fn load_complaints(session: &mut Session<'_>, items: &[DueItem]) -> Result<(), Stop> {
    let job_of = |item: &DueItem| {
        if let DueItem::EndComplaint { job } = item { Some(*job) } else { None }
    };
    let jobs: Vec<JobId> = items.iter().filter_map(job_of).collect();
    complaint::load_due(session, &jobs)
}

/// The ids of the pages that the block's allowance of items reaches.
fn pages_ahead(
    session: &mut Session<'_>,
    seconds: std::ops::RangeInclusive<u64>,
) -> Result<Vec<[u8; 32]>, Stop> {
    let mut items_left = u64::from(session.params.due_per_block_max);
    let mut index = session.cursor.due_index;
    let mut pages = Vec::new();
    for second in seconds {
        let head = session.tables.due_heads.get(&keys::due_head_id(second))?;
        let count = head.map_or(0, |head| head.count);
        let end = count.min(index.saturating_add(items_left));
        if index < end {
            let range = Place::of(index).page..=Place::of(end - 1).page;
            pages.extend(range.map(|page| keys::due_page_id(PageOf { second, page })));
        }
        items_left = items_left.saturating_sub(end.saturating_sub(index));
        index = 0;
        if items_left == 0 {
            break;
        }
    }
    Ok(pages)
}

/// The entries that visiting an item surely touches.
fn subjects_of(item: &DueItem) -> Vec<StateKey> {
    match item {
        DueItem::ForgetSeen { id } => vec![keys::seen_by_id(*id)],
        DueItem::ReleaseStake { account } => vec![keys::stake(account), keys::account(account)],
        DueItem::CloseJob { job } => vec![keys::job(job), keys::complaint(job)],
        DueItem::EndComplaint { job } => vec![keys::complaint(job)],
        DueItem::JobStep { job } => vec![keys::job(job), keys::dispute(job)],
        DueItem::DropNode { node } => vec![keys::node(node), keys::absence(node)],
        DueItem::BeginSlot { job } => vec![keys::job(job)],
        DueItem::LoseRuns { node }
        | DueItem::CapacityStep { node }
        | DueItem::DrainNode { node }
        | DueItem::RecheckSlots { node } => vec![keys::node(node)],
    }
}

/// Where an item lies in its second.
#[derive(Clone, Copy, Debug)]
struct Place {
    page: u64,
    index: usize,
}

impl Place {
    fn of(item: u64) -> Self {
        let size = PAGE_ITEMS_MAX as u64;
        let index = usize::try_from(item % size).expect("a remainder below a page's size");
        Self { page: item / size, index }
    }
}
