//! The queue and the placements: at the end of every block waiting jobs are given to nodes that
//! fit, in the order of their keys ([`super::row`]). A block looks at a bounded number of jobs of
//! every row. As long as nodes have room, the next block goes on where it stopped, so that a long
//! row of jobs that fit nowhere does not hide the others for ever; when there is none left, it
//! begins at the front again, so that who comes first gets what is free next.
//!
//! No client takes all that is free in a block while others wait: what goes beyond its fair part
//! has to wait until the others were looked at.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use tg_scheduler::pace::DeviceClass;
use tg_scheduler::price;
use tg_types::ids::{AccountId, JobId, NodeId, StateKey};
use tg_types::{Amount, Event, GpuSlices, JobSpec, JobStatus, Reason, Tick, Tier, TimeError, Work};

use super::fleet::{self, Fleet};
use super::record::{JobEntry, Run, RunState};
use super::row::{QueueKey, QueueRow};
use super::{gang, gpus, make_room, pace, promise};
use crate::due::{self, DueItem};
use crate::error::{ApplyError, Stop};
use crate::list::{self, LIST_PAGE_MAX, ListHead, ListOf};
use crate::session::Session;
use crate::{keys, node, program};

/// The row in which a job waits. What it needs of a program was loaded.
pub(crate) fn row_of(session: &mut Session<'_>, spec: &JobSpec) -> Result<QueueRow, Stop> {
    let facts = match &spec.work {
        Work::Tensor { program, .. } => program::facts(session, program)?,
        Work::Opaque { .. } => None,
    };
    Ok(QueueRow::of(spec, facts.as_ref()))
}

/// Loads what putting jobs into these rows needs.
pub(crate) fn load_ends(session: &mut Session<'_>, rows: &BTreeSet<QueueRow>) -> Result<(), Stop> {
    let heads: Vec<_> = rows.iter().map(|row| keys::list_head(ListOf::Queue(*row))).collect();
    session.require(&heads)?;
    if !rows.is_empty() {
        gang::load_end(session)?;
    }
    let mut is_complete = true;
    for row in rows {
        let end = list::load_end(session, ListOf::Queue(*row));
        is_complete &= session.attempt(end)?.is_some();
    }
    if is_complete { Ok(()) } else { session.check_complete() }
}

/// Puts a job into the queue, unless it stands there.
pub(crate) fn enqueue(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
) -> Result<(), Stop> {
    if entry.queue_place.is_none() {
        let place = list::push(session, ListOf::Queue(entry.row), *job.as_bytes())?;
        entry.queue_place = Some(place);
        entry.queued = session.env.tick;
        gang::enlist(session, job, entry)?;
    }
    Ok(())
}

/// Takes a job out of the queue, if it stands there.
pub(crate) fn dequeue(session: &mut Session<'_>, entry: &mut JobEntry) -> Result<(), Stop> {
    gang::delist(session, entry)?;
    match entry.queue_place.take() {
        Some(place) => list::set(session, ListOf::Queue(entry.row), place, None),
        None => Ok(()),
    }
}

/// What a run of this job puts at risk.
pub fn run_bond(multiple: u16, spec: &JobSpec) -> Amount {
    spec.pay.times(multiple.into()).unwrap_or(Amount::CAP)
}

/// Loads what placing the jobs that wait now needs.
pub(crate) fn load_ahead(session: &mut Session<'_>) -> Result<(), Stop> {
    let heads: Vec<_> = QueueRow::all().map(|row| keys::list_head(ListOf::Queue(row))).collect();
    session.require(&heads)?;
    let mut rows = Vec::new();
    for row in QueueRow::all() {
        let head = list::head(session, ListOf::Queue(row))?;
        rows.extend((head.first < head.next).then_some((row, head)));
    }
    if rows.is_empty() {
        return Ok(());
    }
    let front = |(row, head): &(QueueRow, ListHead)| {
        keys::list_page(ListOf::Queue(*row), head.first / LIST_PAGE_MAX)
    };
    let fronts: Vec<_> = rows.iter().map(front).collect();
    let parts = parts(&rows, session.params.jobs.placements_per_block_max);
    let pages: Vec<_> = parts.iter().flat_map(Part::pages).collect();
    let nodes = node::all(session).map(drop);
    let pages = list::load_pages(session, &pages);
    let loads = [session.require(&fronts), pages, nodes, gang::load_ahead(session)];
    session.all_of(loads)?;
    // Nodes are decoded for this, so nothing that was asked for may be missing any more.
    if fleet::has_room(session)? { waiting(session, &parts).map(drop) } else { Ok(()) }
}

/// Gives waiting jobs to nodes, as many as a block may look at.
pub(crate) fn place_all(session: &mut Session<'_>) -> Result<(), Stop> {
    let mut rows = Vec::new();
    for row in QueueRow::all() {
        let head = list::skip_holes(session, ListOf::Queue(row))?;
        rows.extend((head.first < head.next).then_some((row, head)));
    }
    if rows.is_empty() {
        return Ok(());
    }
    let mut fleet = Fleet::load(session)?;
    let mut had = BTreeMap::new();
    if fleet.has_room() {
        had.extend(gang::place_elders(session, &mut fleet)?);
    }
    let looks = if fleet.has_room() { session.params.jobs.placements_per_block_max } else { 0 };
    let parts = parts(&rows, looks);
    let jobs = waiting(session, &parts)?;
    let end = give(session, &jobs, &mut fleet, had)?;
    for Part { row, head, looked } in parts {
        let at = match &end {
            End::NoRoom => head.first,
            End::NoTime(untried) if untried.contains_key(&row) => untried[&row],
            End::NoTime(_) | End::AllLookedAt if looked.end == head.next => head.first,
            End::NoTime(_) | End::AllLookedAt => looked.end,
        };
        if at != head.at {
            list::set_at(session, ListOf::Queue(row), at)?;
        }
    }
    Ok(())
}

/// A job that waits.
struct Candidate {
    key: QueueKey,
    job: JobId,
    owner: AccountId,
}

/// What a block looks at of a row.
struct Part {
    row: QueueRow,
    head: ListHead,
    looked: Range<u64>,
}

impl Part {
    /// The pages of the queue in which it stands.
    fn pages(&self) -> impl Iterator<Item = (ListOf, u64)> + use<> {
        let (list, Range { start, end }) = (ListOf::Queue(self.row), self.looked.clone());
        let pages = start / LIST_PAGE_MAX..end.div_ceil(LIST_PAGE_MAX);
        pages.map(move |page| (list, page))
    }
}

/// What a block that has so many looks looks at.
fn parts(rows: &[(QueueRow, ListHead)], looks: u32) -> Vec<Part> {
    let from = |head: &ListHead| {
        if (head.first..head.next).contains(&head.at) { head.at } else { head.first }
    };
    let lengths: Vec<u64> = rows.iter().map(|(_, head)| head.next - from(head)).collect();
    let shares = shared_out(looks.into(), &lengths);
    let part = |((row, head), share): (&(QueueRow, ListHead), u64)| {
        let from = from(head);
        Part { row: *row, head: *head, looked: from..from.saturating_add(share) }
    };
    rows.iter().zip(shares).map(part).collect()
}

/// Finds the jobs that a block looks at and loads them, in the order of their keys.
fn waiting(session: &mut Session<'_>, parts: &[Part]) -> Result<Vec<Candidate>, Stop> {
    let pages: Vec<_> = parts.iter().flat_map(Part::pages).collect();
    list::load_pages(session, &pages)?;
    let mut ids = Vec::new();
    for Part { row, looked, .. } in parts {
        let found = list::range(session, ListOf::Queue(*row), looked.clone())?;
        ids.extend(found.into_iter().map(|(_, id)| JobId::new(id)));
    }
    load_waiting(session, &ids)?;
    let mut jobs = Vec::with_capacity(ids.len());
    for job in ids {
        let entry = session.tables.jobs.get(job.as_bytes())?;
        let waits = entry.and_then(|entry| Some((entry.queue_key()?, entry.owner)));
        let (key, owner) = waits.ok_or(ApplyError::Incomplete(keys::job(&job)))?;
        jobs.push(Candidate { key, job, owner });
    }
    jobs.sort_unstable_by_key(|candidate| candidate.key);
    Ok(jobs)
}

/// Loads what placing these jobs needs, besides nodes and their owners' stakes. Jobs that came in
/// this block are here already, and the view does not know of them.
pub(super) fn load_waiting(session: &mut Session<'_>, jobs: &[JobId]) -> Result<(), Stop> {
    let older = jobs.iter().filter(|job| !session.tables.jobs.has(job.as_bytes()));
    let older: Vec<StateKey> = older.map(keys::job).collect();
    session.require(&older)?;
    let (mut programs, mut dates) = (BTreeSet::new(), BTreeSet::new());
    let mut paces = BTreeSet::new();
    let mut has_plan = false;
    for job in jobs {
        let slot = session.tables.jobs.find(job.as_bytes())?;
        let Some(entry) = session.tables.jobs.at(slot) else { continue };
        has_plan |= entry.spec.checkpoint.is_some();
        paces.extend(gpus::is_holding(&entry.spec).then(keys::gpu_mix));
        if let Work::Tensor { program, .. } = &entry.spec.work {
            programs.insert(keys::program(program));
        }
        paces.extend(pace::placing(&entry.owner, &entry.spec).map(|subject| keys::pace(&subject)));
        dates.insert(run_deadline(session, &entry.spec)?);
    }
    let (programs, dates): (Vec<_>, Vec<_>) =
        (programs.into_iter().chain(paces).collect(), dates.into_iter().collect());
    let programs = session.require(&programs);
    let dates = due::load_dates(session, &dates);
    let listed = make_room::load_end(session, has_plan);
    session.all_of([programs, dates, listed])
}

/// Shares looks out among rows of these lengths: each gets as many as the others unless it has
/// fewer jobs, and one at least.
fn shared_out(looks: u64, lengths: &[u64]) -> Vec<u64> {
    let mut shares = vec![0; lengths.len()];
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|row| lengths[*row]);
    let (mut left, mut rows) = (looks, lengths.len() as u64);
    for row in order {
        let share = left.div_ceil(rows).max(looks.min(1)).min(lengths[row]);
        shares[row] = share;
        left = left.saturating_sub(share);
        rows -= 1;
    }
    shares
}

/// Why a block looks at no more jobs.
enum End {
    /// It has looked at all that it may.
    AllLookedAt,
    /// No node has room.
    NoRoom,
    /// Looking took too long; the first places of rows that were not looked at.
    NoTime(BTreeMap<QueueRow, u64>),
}

/// Gives jobs to nodes in their order, but for owners that have had their fair part of what is
/// free: their other jobs come behind those of all others. Some have had runs before.
fn give(
    session: &mut Session<'_>,
    jobs: &[Candidate],
    fleet: &mut Fleet,
    mut had: BTreeMap<AccountId, usize>,
) -> Result<End, Stop> {
    if !fleet.has_room() {
        return Ok(End::NoRoom);
    }
    let owners: BTreeSet<AccountId> = jobs.iter().map(|candidate| candidate.owner).collect();
    let fair_part = fleet.room().checked_div(owners.len()).unwrap_or(0).max(1);
    let mut turns: VecDeque<_> = jobs.iter().map(|candidate| (candidate, false)).collect();
    while let Some((candidate, is_put_off)) = turns.pop_front() {
        if !fleet.has_room() {
            return Ok(End::NoRoom);
        }
        if !fleet.has_time() {
            let mut untried = BTreeMap::new();
            for QueueKey { row, place, .. } in
                turns.iter().map(|(other, _)| other.key).chain([candidate.key])
            {
                let first = untried.entry(row).or_insert(place);
                *first = place.min(*first);
            }
            return Ok(End::NoTime(untried));
        }
        let had = had.entry(candidate.owner).or_default();
        if *had >= fair_part && !is_put_off {
            turns.push_back((candidate, true));
            continue;
        }
        fleet.turn_of(candidate.key);
        *had += place(session, &candidate.job, fleet)?;
    }
    Ok(End::AllLookedAt)
}

/// Gives a job to as many nodes as it wants, if they are there; says to how many.
pub(super) fn place(
    session: &mut Session<'_>,
    job: &JobId,
    fleet: &mut Fleet,
) -> Result<usize, Stop> {
    let mut entry = super::known(session, job)?;
    if !promise::may_begin(session, &entry) {
        return Ok(0);
    }
    if entry.spec.is_gang() {
        return gang::place_all(session, job, entry, fleet);
    }
    let facts = match &entry.spec.work {
        Work::Tensor { program, .. } => program::facts(session, program)?,
        Work::Opaque { .. } => None,
    };
    let before = entry.runs.as_slice().len();
    fleet.learn(session, &entry, facts.as_ref())?;
    while entry.live().count() < usize::from(entry.wanted) && fleet.has_time_for(&entry.owner) {
        let Some(chosen) = fleet.find(session, job, &entry, facts.as_ref()) else {
            break;
        };
        let node = fleet.id(chosen.number);
        promise::begin(session, job, &mut entry, &node)?;
        assign(session, job, &mut entry, (&node, chosen.class), None)?;
        fleet.follow(session, chosen.number);
    }
    let given = entry.runs.as_slice().len() - before;
    if given == 0 {
        return Ok(0);
    }
    if entry.live().count() >= usize::from(entry.wanted) {
        dequeue(session, &mut entry)?;
    }
    entry.status = JobStatus::Running;
    session.tables.jobs.put(job.as_bytes(), Some(entry))?;
    Ok(given)
}

/// Owners that may not run a job (again): those who run it, and those whose runs ended by their own
/// doing. Whoever merely disappeared may try again if nobody else is there, unless each run has a
/// commitment of its own: a late proof of the first would be a lie about the second.
pub fn excluded(entry: &JobEntry) -> Vec<AccountId> {
    let is_once = matches!(entry.spec.tier, Tier::Zk { .. });
    let is_out = |run: &&Run| match run.state {
        RunState::Placed | RunState::Committed { .. } | RunState::Revealed { .. } => true,
        RunState::Ended { why } => is_once || why != Reason::RunMissed,
    };
    entry.runs.as_slice().iter().filter(is_out).map(|run| run.owner).collect()
}

/// When a run that begins now must have given its result.
pub(super) fn run_deadline(session: &Session<'_>, spec: &JobSpec) -> Result<Tick, TimeError> {
    session.env.tick.plus(spec.run_max)?.plus(session.params.jobs.run_grace)
}

/// Gives a job to a node, for a device of this class; with these GPUs, if they were kept for it.
pub(super) fn assign(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    (id, class): (&NodeId, Option<DeviceClass>),
    kept: Option<GpuSlices>,
) -> Result<(), Stop> {
    let bond = run_bond(session.params.jobs.run_bond, &entry.spec);
    let deadline = run_deadline(session, &entry.spec)?;
    let unknown = || ApplyError::Incomplete(keys::node(id));
    let slot = session.tables.nodes.find(id.as_bytes())?;
    let owner = session.tables.nodes.at(slot).ok_or_else(unknown)?.owner;
    let stake = session.tables.stakes.find(owner.as_bytes())?;
    let gpus = gpus::choose(session, (job, &entry.spec), (id, class), [slot, stake], kept)?;
    let record = session.tables.nodes.at_mut(slot).as_mut().ok_or_else(unknown)?;
    // Only commands run as gangs.
    let asked =
        if entry.spec.is_gang() { price(&entry.spec, None, &record.descriptor) } else { None };
    if !record.begin_run(*job, gpus.as_slice(), entry.spec.needs.host) {
        return Err(unknown().into());
    }
    session.tables.stakes.at_mut(stake).get_or_insert_default().expose(bond)?;
    let number = u8::try_from(entry.runs.as_slice().len()).expect("a job has at most 24 runs");
    let (begun, state) = (session.env.tick, RunState::Placed);
    let (took, yields_to) = (None, None);
    let run =
        Run { node: *id, owner, bond, class, gpus, asked, begun, took, deadline, yields_to, state };
    // Runs that are placed together have one date.
    let is_dated = entry.live().any(|other| other.deadline == deadline);
    entry.runs.push(run).map_err(|_| ApplyError::Incomplete(keys::job(job)))?;
    entry.waits_for = None;
    make_room::enlist(session, job, entry)?;
    session.emit(Event::JobPlaced { job: *job, node: *id, run: number, deadline });
    if is_dated { Ok(()) } else { due::add(session, deadline, DueItem::JobStep { job: *job }) }
}

/// Keys of everything that a step of a job may touch besides the job itself.
pub(crate) fn keys_around(entry: &JobEntry, out: &mut Vec<StateKey>) {
    out.push(keys::account(&entry.owner));
    out.extend(pace::subjects(&entry.owner, &entry.spec).iter().map(keys::pace));
    if let Work::Tensor { program, .. } = &entry.spec.work {
        out.push(keys::program(program));
    }
    out.extend(entry.spec.tier.secret_weights().map(|id| keys::weights(&id)));
    let page = entry.queue_place.map(|place| place / LIST_PAGE_MAX);
    out.extend(page.map(|page| keys::list_page(ListOf::Queue(entry.row), page)));
    promise::keys_around(&entry.promise, out);
    make_room::keys_around(entry, out);
    let page = entry.gang_place.map(|at| at.place / LIST_PAGE_MAX);
    out.extend(page.map(|page| keys::list_page(ListOf::Gangs, page)));
    out.extend(gpus::is_holding(&entry.spec).then(keys::gpu_mix));
    let runs = entry.runs.as_slice().iter().map(|run| (&run.node, &run.owner));
    let checks = entry.checks.as_slice().iter().map(|check| (&check.node, &check.owner));
    for (node, owner) in runs.chain(checks) {
        out.extend([keys::node(node), keys::stake(owner), keys::account(owner)]);
        out.extend(node.account().ok().map(|account| keys::account(&account)));
    }
}

#[cfg(test)]
mod tests {
    use super::shared_out;

    #[test]
    fn looks_are_shared_out_evenly_among_rows_that_have_jobs() {
        let check = |looks, lengths: &[u64], expected: &[u64]| {
            assert_eq!(shared_out(looks, lengths), expected, "{looks} among {lengths:?}");
        };
        check(8, &[], &[]);
        check(0, &[5, 5], &[0, 0]);
        check(100, &[5, 7, 9], &[5, 7, 9]);
        check(8, &[9, 9], &[4, 4]);
        check(8, &[1, 9], &[1, 7]);
        check(7, &[9, 2, 9], &[3, 2, 2]);
        check(2, &[9, 9, 9], &[1, 1, 1]); // none is left out
    }

    #[test]
    fn prop_shares_are_bounded_and_leave_nobody_out() {
        arbtest::arbtest(|u| {
            let looks = u.int_in_range(1..=2_000)?;
            let rows = u.int_in_range(1..=32)?;
            let lengths = (0..rows).map(|_| u.int_in_range(1..=1_000));
            let lengths = lengths.collect::<Result<Vec<u64>, _>>()?;
            let shares = shared_out(looks, &lengths);
            let sum: u64 = shares.iter().sum();
            assert!(sum < looks + rows && sum >= looks.min(lengths.iter().sum()));
            let pairs = || shares.iter().zip(&lengths);
            assert!(pairs().all(|(share, length)| (1..=*length).contains(share)));
            let cut = pairs().filter(|(share, length)| share < length);
            let least = cut.map(|(share, _)| *share).min();
            assert!(least.is_none_or(|least| shares.iter().all(|share| *share <= least + 1)));
            Ok(())
        });
    }
}
