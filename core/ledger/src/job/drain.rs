//! Draining: a node that closes is given no run that may last longer ([`tg_scheduler::Rule`]), and
//! commands that are saved and would not end in time move away before. Their node is asked to save
//! them once more and to end the run ([`super::make_room::yield_run`]); it is paid for the time up
//! to what it saved, and the job goes back to where it stood in the queue. What is not saved runs
//! on, and so does what is promised: whoever promised it and closes is to blame.
//!
//! A node is looked at when it says that it closes at once, or shortly before the date that it has
//! named. The due queue does it, a bounded number of runs at a time, and comes again for the rest.
//! Its record says which item of that queue counts; whoever changes its mind leaves others there,
//! which cost nothing when they come.

use tg_scheduler::slots::Span;
use tg_types::ids::NodeId;
use tg_types::{DurationMs, Event, NodeDescriptor, Params, Tick, TimeError};

use super::promise::Promise;
use super::record::{JobEntry, RunState, YieldTo};
use crate::due::{self, DueItem};
use crate::error::Stop;
use crate::node::{self, NodeEntry};
use crate::session::Session;

/// How long before its end a node that is open has its runs asked to move: this many times what
/// ending a run takes.
const AHEAD: u64 = 2;

/// How far ahead a node is put down to be looked at. If it closes later, it is put down again then.
const AHEAD_MAX: DurationMs = DurationMs::new(30 * DurationMs::DAY.get());

/// How long until the rest of a node's runs is asked.
const AGAIN: DurationMs = DurationMs::SECOND;

/// When runs of a node with this offer are asked to move; `None` if it does not close.
fn date(params: &Params, offer: &NodeDescriptor, now: Tick) -> Option<Tick> {
    let closes = offer.closes?;
    let ahead = params.jobs.yields.within.get().saturating_mul(AHEAD);
    let early = Tick::new(closes.get().saturating_sub(ahead));
    Some(if offer.is_open { early.max(now) } else { now })
}

/// When a node with this offer is to be looked at, if nothing is put down for it that comes first.
pub(crate) fn next_look(
    params: &Params,
    offer: &NodeDescriptor,
    stands: Option<Tick>,
    now: Tick,
) -> Result<Option<Tick>, TimeError> {
    let Some(date) = date(params, offer, now) else { return Ok(None) };
    let date = date.min(now.plus(AHEAD_MAX)?);
    Ok(Some(date).filter(|date| stands.is_none_or(|stands| *date < stands)))
}

/// Puts down that a node is looked at then, if it is. That date was loaded.
pub(crate) fn begin(
    session: &mut Session<'_>,
    node: &NodeId,
    date: Option<Tick>,
) -> Result<(), Stop> {
    let Some(date) = date else { return Ok(()) };
    node::update(session, node, |entry| entry.drains = Some(date))?;
    due::add(session, date, DueItem::DrainNode { node: *node })
}

/// Whether an item of the due queue about this node counts now.
pub(crate) fn is_due(entry: &NodeEntry, now: Tick) -> bool {
    entry.drains.is_some_and(|date| date <= now)
}

/// What closing takes of a node's slots: all of them, for ever.
pub(super) fn closed_spans(offer: &NodeDescriptor) -> impl Iterator<Item = Span> + use<> {
    let span = offer.closes.map(|from| Span { from, to: Tick::MAX });
    let slots = usize::from(offer.slots);
    span.into_iter().flat_map(move |span| std::iter::repeat_n(span, slots))
}

/// The time has come to ask runs of a node to move, unless it says something else by now.
pub(crate) fn fall_due(session: &mut Session<'_>, id: &NodeId) -> Result<(), Stop> {
    let now = session.env.tick;
    let node = session.tables.nodes.get(id.as_bytes())?.filter(|node| is_due(node, now));
    let Some(node) = node.cloned() else { return Ok(()) };
    let next = next_look(&session.params, &node.descriptor, None, now)?;
    node::update(session, id, |node| node.drains = None)?;
    let (Some(closes), Some(date)) = (node.descriptor.closes, next) else { return Ok(()) };
    if date > now {
        return begin(session, id, next);
    }
    let yields = &session.params.jobs.yields;
    let (by, mut left) = (now.plus(yields.within)?, yields.per_block_max);
    for job in node.runs.as_slice() {
        let entry = session.tables.jobs.get(job.as_bytes())?;
        let Some(entry) = entry.filter(|entry| is_moved(entry, id, closes)) else { continue };
        let mut entry = entry.clone();
        if left == 0 {
            return begin(session, id, Some(now.plus(AGAIN)?));
        }
        left -= 1;
        if let Some(run) = entry.run_of(id) {
            run.yields_to = Some(YieldTo::Owner);
        }
        session.tables.jobs.put(job.as_bytes(), Some(entry))?;
        session.emit(Event::MoveAsked { job: *job, node: *id, by });
    }
    Ok(())
}

/// Whether a run of a job on a node that closes then moves away: it is saved, it computes, and
/// nobody knows that it ends before.
fn is_moved(entry: &JobEntry, node: &NodeId, closes: Tick) -> bool {
    let run = entry.live().find(|run| run.node == *node);
    let may_last = run.is_some_and(|run| {
        let is_free = run.state == RunState::Placed && run.yields_to.is_none();
        let end = run.begun.plus(entry.spec.run_max);
        is_free && end.map_or(true, |end| end > closes)
    });
    entry.spec.checkpoint.is_some() && entry.promise == Promise::None && may_last
}
