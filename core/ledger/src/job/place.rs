//! The queue and the placements: at the end of every block waiting jobs are given to nodes that
//! fit. A block looks at a bounded number of jobs and continues where it stopped, so that a long
//! row of jobs that fit nowhere does not hide the others for ever.

use tg_scheduler::{Ask, Offer, choose};
use tg_types::ids::{AccountId, JobId, NodeId, StateKey};
use tg_types::{Amount, Bps, Event, JobSpec, JobStatus, ProgramFacts, Reason, Tier, Work};

use super::record::{JobEntry, Run, RunState};
use crate::due::{self, DueItem};
use crate::error::{ApplyError, Stop};
use crate::list::{self, LIST_PAGE_MAX, ListHead, ListOf};
use crate::session::Session;
use crate::table::Slot;
use crate::{keys, node, program};

/// Puts a job into the queue, unless it stands there.
pub(crate) fn enqueue(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
) -> Result<(), Stop> {
    if entry.queue_place.is_none() {
        entry.queue_place = Some(list::push(session, ListOf::Queue, *job.as_bytes())?);
    }
    Ok(())
}

/// Takes a job out of the queue, if it stands there.
pub(crate) fn dequeue(session: &mut Session<'_>, entry: &mut JobEntry) -> Result<(), Stop> {
    match entry.queue_place.take() {
        Some(place) => list::set(session, ListOf::Queue, place, None),
        None => Ok(()),
    }
}

/// What a run of this job puts at risk.
pub fn run_bond(multiple: u16, spec: &JobSpec) -> Amount {
    spec.pay.times(multiple.into()).unwrap_or(Amount::CAP)
}

/// Loads what placing the jobs that wait now needs.
pub(crate) fn load_ahead(session: &mut Session<'_>) -> Result<(), Stop> {
    let head = list::head(session, ListOf::Queue)?;
    if head.first >= head.next {
        return Ok(());
    }
    let front = list::get(session, ListOf::Queue, head.first).map(drop);
    let jobs = fleet(session).and_then(|fleet| waiting(session, head, &fleet)).map(drop);
    session.all_of([front, jobs])
}

/// Gives waiting jobs to nodes, as many as a block may look at.
pub(crate) fn place_all(session: &mut Session<'_>) -> Result<(), Stop> {
    let head = list::skip_holes(session, ListOf::Queue)?;
    if head.first >= head.next {
        return Ok(());
    }
    let mut fleet = fleet(session)?;
    let Waiting { jobs, next } = waiting(session, head, &fleet)?;
    session.cursor.queue_place = next;
    for (place_in_queue, job) in &jobs {
        if !has_room(&fleet) {
            session.cursor.queue_place = *place_in_queue;
            break;
        }
        place(session, job, &mut fleet)?;
    }
    Ok(())
}

/// The jobs that a block looks at.
struct Waiting {
    /// With their places in the queue.
    jobs: Vec<(u64, JobId)>,
    /// The place at which the next block goes on.
    next: u64,
}

/// Finds the jobs that a block looks at and loads them; none if no node has room.
fn waiting(session: &mut Session<'_>, head: ListHead, fleet: &[Seat]) -> Result<Waiting, Stop> {
    let from = session.cursor.queue_place;
    let from = if (head.first..head.next).contains(&from) { from } else { head.first };
    if !has_room(fleet) {
        return Ok(Waiting { jobs: Vec::new(), next: from });
    }
    let to = from.saturating_add(session.params.jobs.placements_per_block_max.into());
    let to = to.min(head.next);
    let found = list::range(session, ListOf::Queue, from..to)?;
    let jobs: Vec<_> = found.into_iter().map(|(place, id)| (place, JobId::new(id))).collect();
    let ids: Vec<JobId> = jobs.iter().map(|(_, job)| *job).collect();
    super::load(session, &ids)?;
    Ok(Waiting { jobs, next: if to == head.next { head.first } else { to } })
}

/// Whether any node takes one more run.
fn has_room(fleet: &[Seat]) -> bool {
    fleet.iter().any(|seat| seat.room > 0)
}

/// A node as placements see it: what changes is looked up in its place.
struct Seat {
    id: NodeId,
    node: Slot,
    stake: Slot,
    reputation: Bps,
    /// How many more runs it takes.
    room: usize,
}

/// All nodes.
fn fleet(session: &mut Session<'_>) -> Result<Vec<Seat>, Stop> {
    let now = session.env.tick;
    let mut fleet = Vec::new();
    for id in node::all(session)?.iter() {
        let node = session.tables.nodes.find(id.as_bytes())?;
        let Some(entry) = session.tables.nodes.at(node) else {
            continue;
        };
        let (owner, reputation) = (entry.owner, entry.reputation.lower_bound(now));
        let is_credited = entry.is_credited(&session.params.capacity);
        let is_open = entry.absent.is_none() && is_credited && entry.descriptor.is_open;
        let slots = if is_open { usize::from(entry.descriptor.slots) } else { 0 };
        let room = slots.saturating_sub(entry.runs.as_slice().len());
        let stake = session.tables.stakes.find(owner.as_bytes())?;
        fleet.push(Seat { id: *id, node, stake, reputation, room });
    }
    Ok(fleet)
}

/// Gives a job to as many nodes as it wants, if they are there.
fn place(session: &mut Session<'_>, job: &JobId, fleet: &mut [Seat]) -> Result<(), Stop> {
    let mut entry = super::known(session, job)?;
    let facts = match &entry.spec.work {
        Work::Tensor { program, .. } => program::facts(session, program)?,
        Work::Opaque { .. } => None,
    };
    let before = entry.runs.as_slice().len();
    while entry.live().count() < usize::from(entry.wanted) {
        let Some(chosen) = find(session, &entry, facts.as_ref(), fleet) else {
            break;
        };
        let seat = &mut fleet[chosen];
        seat.room = seat.room.saturating_sub(1);
        assign(session, job, &mut entry, &seat.id)?;
    }
    if entry.runs.as_slice().len() == before {
        return Ok(());
    }
    if entry.live().count() >= usize::from(entry.wanted) {
        dequeue(session, &mut entry)?;
    }
    entry.status = JobStatus::Running;
    session.tables.jobs.put(job.as_bytes(), Some(entry))
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

/// The place of the best node for one more run: of an owner that has not had the job, or else of
/// one that merely disappeared.
fn find(
    session: &Session<'_>,
    entry: &JobEntry,
    facts: Option<&ProgramFacts>,
    fleet: &[Seat],
) -> Option<usize> {
    let bond = run_bond(session.params.jobs.run_bond, &entry.spec);
    let all: Vec<AccountId> = entry.runs.as_slice().iter().map(|run| run.owner).collect();
    let excluded = excluded(entry);
    let choose_without = |excluded: &[AccountId]| {
        let ask = Ask { spec: &entry.spec, facts, bond, excluded };
        choose(&ask, fleet.iter().filter_map(|seat| offer(session, seat)))
    };
    let found = choose_without(&all);
    if found.is_none() && excluded.len() < all.len() {
        return choose_without(&excluded);
    }
    found
}

/// What a node offers now.
fn offer<'a>(session: &'a Session<'_>, seat: &Seat) -> Option<Offer<'a>> {
    let entry = session.tables.nodes.at(seat.node)?;
    let stake = session.tables.stakes.at(seat.stake);
    Some(Offer {
        node: seat.id,
        owner: entry.owner,
        descriptor: &entry.descriptor,
        running: u16::try_from(entry.runs.as_slice().len()).unwrap_or(u16::MAX),
        is_present: entry.absent.is_none(),
        credit: entry.credit(&session.params.capacity),
        stake_free: stake.map_or(Amount::ZERO, |stake| stake.free()),
        reputation: seat.reputation,
    })
}

/// Gives a job to a node.
fn assign(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    id: &NodeId,
) -> Result<(), Stop> {
    let bond = run_bond(session.params.jobs.run_bond, &entry.spec);
    let deadline =
        session.env.tick.plus(entry.spec.run_max)?.plus(session.params.jobs.run_grace)?;
    let unknown = || ApplyError::Incomplete(keys::node(id));
    let slot = session.tables.nodes.find(id.as_bytes())?;
    let record = session.tables.nodes.at_mut(slot).as_mut().ok_or_else(unknown)?;
    let owner = record.owner;
    if !record.begin_run(*job) {
        return Err(unknown().into());
    }
    let stake = session.tables.stakes.find(owner.as_bytes())?;
    session.tables.stakes.at_mut(stake).get_or_insert_default().expose(bond)?;
    let number = u8::try_from(entry.runs.as_slice().len()).expect("a job has at most 16 runs");
    let run = Run { node: *id, owner, bond, deadline, state: RunState::Placed };
    entry.runs.push(run).map_err(|_| ApplyError::Incomplete(keys::job(job)))?;
    session.emit(Event::JobPlaced { job: *job, node: *id, run: number, deadline });
    due::add(session, deadline, DueItem::JobStep { job: *job })
}

/// Keys of everything that a step of a job may touch besides the job itself.
pub(crate) fn keys_around(entry: &JobEntry, out: &mut Vec<StateKey>) {
    out.push(keys::account(&entry.owner));
    if let Work::Tensor { program, .. } = &entry.spec.work {
        out.push(keys::program(program));
    }
    let page = entry.queue_place.map(|place| place / LIST_PAGE_MAX);
    out.extend(page.map(|page| keys::list_page(ListOf::Queue, page)));
    let runs = entry.runs.as_slice().iter().map(|run| (&run.node, &run.owner));
    let checks = entry.checks.as_slice().iter().map(|check| (&check.node, &check.owner));
    for (node, owner) in runs.chain(checks) {
        out.extend([keys::node(node), keys::stake(owner), keys::account(owner)]);
        out.extend(node.account().ok().map(|account| keys::account(&account)));
    }
}
