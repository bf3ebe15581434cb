//! Deciding about promises: which node keeps a slot, or when the earliest would be.

use tg_scheduler::ahead::Room;
use tg_scheduler::slots::{KeptSlot, Span};
use tg_scheduler::{Ask, Meter, fit_later, steps_of};
use tg_types::ids::JobId;
use tg_types::node::SLOTS_MAX;
use tg_types::{DurationMs, GpuSlices, List, Reason, Tick};

use super::{
    ASK_AGAIN, KEPT_PER_NODE_MAX, LISTS, Promise, SLOT_AHEAD_MAX, Seat, ahead_of, facts, release,
    run_span, slot_length, tell,
};
use crate::due::{self, DueItem};
use crate::error::{ApplyError, Stop};
use crate::job::place::{self, excluded, run_bond};
use crate::job::record::JobEntry;
use crate::job::{fleet, known, load, settle};
use crate::list::{self, ListOf};
use crate::session::Session;
use crate::{keys, node};

/// Promises that a block decides about: each may look at all nodes.
const PROMISES_PER_BLOCK_MAX: u64 = 16;

/// Nodes whose slots are looked at for one promise.
const NODES_PER_PROMISE_MAX: usize = 64;

/// Runs of these nodes that are looked at: each is an entry to be loaded. As many as a node may
/// have at least, so that one node can always be looked at.
const RUNS_PER_PROMISE_MAX: usize = 512;
const _: () = assert!(RUNS_PER_PROMISE_MAX >= SLOTS_MAX as usize);

/// Runs that a block looks at for promises. It begins with no other promise if that might take more
/// than are left.
const RUNS_PER_BLOCK_MAX: usize = 4 * RUNS_PER_PROMISE_MAX;

/// Steps of looking for slots in a block, in the measure of searches for runs, before the next
/// promise has to wait for the next block. One promise takes as many at most too.
const STEPS_MAX: u64 = fleet::STEPS_PER_BLOCK_MAX / 4;

/// What it takes to hold a span against others.
const STEPS_PER_SPAN: usize = 16;

/// Loads what deciding about the promises that wait now needs, as far as that is known.
pub(crate) fn load_ahead(session: &mut Session<'_>) -> Result<(), Stop> {
    session.require(&LISTS.map(keys::list_head))?;
    let mut ids = Vec::new();
    for list in LISTS {
        ids.extend(next_jobs(session, list, PROMISES_PER_BLOCK_MAX)?);
    }
    if ids.is_empty() {
        return Ok(());
    }
    // A promise that is refused ends its job.
    let (jobs, ends) = (place::load_waiting(session, &ids), load(session, &ids));
    let nodes = node::all(session).map(drop);
    session.all_of([jobs, ends, nodes])
}

/// What a block has left for deciding about promises.
pub(crate) struct Turn {
    promises: u64,
    steps: u64,
    runs: usize,
    /// Promises that were given and for which no slot was found.
    hopeless: Vec<JobId>,
}

/// Looks for other slots for promises that were given and lost their node, before the queue takes
/// what is free.
pub(crate) fn renew_all(session: &mut Session<'_>) -> Result<Turn, Stop> {
    let (promises, steps, runs) = (PROMISES_PER_BLOCK_MAX, STEPS_MAX, RUNS_PER_BLOCK_MAX);
    let mut turn = Turn { promises, steps, runs, hopeless: Vec::new() };
    decide_some(session, ListOf::Renewals, &mut turn)?;
    Ok(turn)
}

/// Decides about the promises that wait and were not placed at once, as many as a block may.
pub(crate) fn decide_all(session: &mut Session<'_>, mut turn: Turn) -> Result<(), Stop> {
    for job in std::mem::take(&mut turn.hopeless) {
        let entry = known(session, &job)?;
        if matches!(entry.promise, Promise::Asked { .. }) {
            settle::fail(session, &job, entry)?;
        }
    }
    decide_some(session, ListOf::Promises, &mut turn)?;
    // The next block looks ahead for whoever stands at the front.
    for list in LISTS {
        list::skip_some_holes(session, list, PROMISES_PER_BLOCK_MAX)?;
    }
    Ok(())
}

fn decide_some(session: &mut Session<'_>, list: ListOf, turn: &mut Turn) -> Result<(), Stop> {
    list::skip_holes(session, list)?;
    let jobs = next_jobs(session, list, turn.promises)?;
    if jobs.is_empty() {
        return Ok(());
    }
    place::load_waiting(session, &jobs)?;
    for job in &jobs {
        if turn.steps == 0 || turn.runs < RUNS_PER_PROMISE_MAX {
            break;
        }
        turn.promises = turn.promises.saturating_sub(1);
        // What is unknown is found out for all of them at once.
        let decided = decide(session, job, turn);
        session.attempt(decided)?;
    }
    session.check_complete()
}

/// The jobs of a list whose promises are decided about next.
fn next_jobs(session: &mut Session<'_>, list: ListOf, most: u64) -> Result<Vec<JobId>, Stop> {
    let head = list::head(session, list)?;
    let end = head.next.min(head.first.saturating_add(most));
    let found = list::range(session, list, head.first..end)?;
    Ok(found.into_iter().map(|(_, id)| JobId::new(id)).collect())
}

/// Where a slot could be kept for a job.
struct Chances {
    /// The node with the latest slot before the deadline, and what it would keep.
    latest: Option<(Seat, Room)>,
    /// When the earliest slot of all that may be kept begins, whatever the deadline.
    earliest: Option<Tick>,
    /// Whether any node passes the rules.
    has_node: bool,
}

fn decide(session: &mut Session<'_>, job: &JobId, turn: &mut Turn) -> Result<(), Stop> {
    let entry = known(session, job)?;
    let Promise::Asked { was_given, .. } = entry.promise else {
        return Ok(());
    };
    let length = slot_length(&session.params, &entry.spec);
    let length = length.ok_or(ApplyError::Incomplete(keys::job(job)))?;
    let Chances { latest, earliest, has_node } = chances(session, job, &entry, length, turn)?;
    if let Some((seat, room)) = latest {
        return keep(session, job, entry, &seat, (room, length));
    }
    if was_given {
        turn.hopeless.push(*job); // unless the queue places it
        return Ok(());
    }
    let why = if !has_node {
        Reason::PromiseNoNode
    } else if session.env.tick.plus(length)? > entry.expires {
        Reason::PromiseTooShort
    } else {
        Reason::PromiseNoRoom
    };
    let earliest = earliest.and_then(|from| from.plus(length).ok()?.plus(ASK_AGAIN).ok());
    settle::refuse(session, job, entry, why, earliest)
}

/// Looks for a slot on some of the nodes that pass the rules. Which of them come first differs from
/// job to job, so that promises are spread.
fn chances(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &JobEntry,
    length: DurationMs,
    turn: &mut Turn,
) -> Result<Chances, Stop> {
    let now = session.env.tick;
    let Seats { seats, has_node } = seats_for(session, job, entry, turn)?;
    let mut wanted = Vec::new();
    for seat in &seats {
        let node = session.tables.nodes.at(seat.node);
        let runs = node.into_iter().flat_map(|node| node.runs.as_slice());
        wanted.extend(runs.filter(|run| !session.tables.jobs.has(run.as_bytes())).map(keys::job));
    }
    session.require(&wanted)?;
    let mut found = Chances { latest: None, earliest: None, has_node };
    let last = now.plus(SLOT_AHEAD_MAX)?;
    let within = Span { from: now, to: entry.expires.min(last.plus(length)?) };
    let meter = Meter::default();
    for seat in seats {
        let Some(node) = session.tables.nodes.at(seat.node).cloned() else { continue };
        let runs = node.runs.as_slice().iter().map(|run| Ok((*run, known(session, run)?)));
        let runs: Vec<(JobId, JobEntry)> = runs.collect::<Result<_, Stop>>()?;
        let ahead = ahead_of(&session.params, (&seat.id, &node), &runs, now);
        meter.add(STEPS_PER_SPAN * ahead.len());
        let Some(offer) = seat.offer(session) else { continue };
        let early = offer.earliest_room(&entry.spec, &ahead, (now, length), &meter);
        let early = early.map(|room| room.from).filter(|from| *from <= last);
        found.earliest = [found.earliest, early].into_iter().flatten().min();
        let late = offer.latest_room(&entry.spec, &ahead, (within, length), &meter);
        let best = found.latest.as_ref().map(|(_, room)| room.from);
        if let Some(late) = late.filter(|room| Some(room.from) > best) {
            found.latest = Some((seat, late));
        }
        if meter.steps() >= STEPS_MAX {
            break;
        }
    }
    turn.steps = turn.steps.saturating_sub(meter.steps());
    Ok(found)
}

/// Nodes on which slots are looked for.
struct Seats {
    seats: Vec<Seat>,
    /// Whether any node passes the rules, or some were not asked.
    has_node: bool,
}

/// Some nodes that pass the rules and may keep one more slot. What they take is taken off the
/// block's turn.
fn seats_for(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &JobEntry,
    turn: &mut Turn,
) -> Result<Seats, Stop> {
    let facts = facts(session, entry)?;
    let excluded = excluded(entry);
    let ask = Ask {
        spec: &entry.spec,
        facts: facts.as_ref(),
        bond: run_bond(session.params.jobs.run_bond, &entry.spec),
        excluded: &excluded,
        span: run_span(&session.params, &entry.spec, session.env.tick),
        job: Some(*job),
    };
    let nodes = node::all(session)?;
    let first = fleet::draw(session, job, entry.runs.as_slice().len());
    let first = first.checked_rem(nodes.len() as u64).unwrap_or(0);
    let (before, after) = nodes.split_at(usize::try_from(first).unwrap_or(0));
    let (mut seats, mut has_node) = (Vec::new(), false);
    let (mut runs, mut steps) = (0, 0_u64);
    for id in after.iter().chain(before) {
        if seats.len() >= NODES_PER_PROMISE_MAX || steps >= STEPS_MAX {
            has_node = true; // there may be more
            break;
        }
        let seat = Seat::find(session, id)?;
        let Some(offer) = seat.offer(session) else { continue };
        steps = steps.saturating_add(steps_of(&ask, &offer) as u64);
        if fit_later(&ask, &offer).is_err() {
            continue;
        }
        has_node = true;
        let with_these = runs + usize::from(offer.running);
        if offer.kept.len() >= KEPT_PER_NODE_MAX || with_these > RUNS_PER_PROMISE_MAX {
            continue;
        }
        runs = with_these;
        seats.push(seat);
    }
    turn.steps = turn.steps.saturating_sub(steps);
    turn.runs = turn.runs.saturating_sub(runs);
    Ok(Seats { seats, has_node })
}

/// Keeps a slot for a job, with what it will hold.
fn keep(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    seat: &Seat,
    (Room { from, gpus }, length): (Room, DurationMs),
) -> Result<(), Stop> {
    let unknown = || ApplyError::Incomplete(keys::node(&seat.id));
    let Promise::Asked { was_given, .. } = entry.promise else {
        return Ok(());
    };
    release(session, job, &entry)?;
    let bond = run_bond(session.params.jobs.run_bond, &entry.spec);
    let record = session.tables.nodes.at_mut(seat.node).as_mut().ok_or_else(unknown)?;
    let (owner, host) = (record.owner, entry.spec.needs.host);
    let gpus: GpuSlices = List::new(gpus).map_err(|_| unknown())?;
    let slot = KeptSlot { job: *job, from, to: from.plus(length)?, gpus, host };
    record.kept.push(slot).map_err(|_| unknown())?;
    session.tables.stakes.at_mut(seat.stake).get_or_insert_default().expose(bond)?;
    entry.promise = Promise::Kept { node: seat.id, owner, bond, from };
    tell(session, (job, entry.expires), (&seat.id, from), was_given);
    session.tables.jobs.put(job.as_bytes(), Some(entry))?;
    due::add(session, from, DueItem::BeginSlot { job: *job })
}
