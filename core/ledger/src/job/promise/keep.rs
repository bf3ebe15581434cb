//! Slots that nodes keep: what happens to them when their node changes, and when they begin.

use tg_scheduler::ahead::Ahead;
use tg_scheduler::slots::{KeptSlot, Span};
use tg_scheduler::{Ask, Offer, fit_later};
use tg_types::ids::{JobId, NodeId};
use tg_types::{Amount, DurationMs, HostPart, JobStatus, Tick};

use super::{
    Blamed, Promise, SLOT_MARGIN, Seat, begin, enlist, facts, release, rest_of_run, run_span,
};
use crate::due::{self, DueItem};
use crate::error::{ApplyError, Stop};
use crate::job::place::{self, excluded};
use crate::job::record::JobEntry;
use crate::job::{drain, known};
use crate::keys;
use crate::session::Session;

/// Looks at the slots that a node keeps after it disappeared or changed what it offers: those that
/// it cannot keep any more are looked for elsewhere.
pub(crate) fn recheck(session: &mut Session<'_>, id: &NodeId) -> Result<(), Stop> {
    let Some(entry) = session.tables.nodes.get(id.as_bytes())? else {
        return Ok(());
    };
    let entry = entry.clone();
    let mut kept: Vec<KeptSlot> = entry.kept.as_slice().to_vec();
    // If it takes fewer runs than before, as many as can be stay: those that end first.
    kept.sort_by_key(|slot| slot.to);
    let mut ahead = Ahead::default();
    for span in drain::closed_spans(&entry.descriptor) {
        ahead.add(span, [], HostPart::NONE);
    }
    for job in entry.runs.as_slice() {
        let run = known(session, job)?;
        let Span { from, to } = rest_of_run(&session.params, &run, id, session.env.tick);
        // What a run that began a little late is longer than its slot is no reason to lose the
        // next: that one waits for it.
        let to = Tick::new(to.get().saturating_sub(SLOT_MARGIN.get()));
        ahead.add(Span { from, to }, entry.gpus_of(job), entry.host_of(job));
    }
    for slot in kept {
        let entry = known(session, &slot.job)?;
        let Promise::Kept { node, owner, .. } = entry.promise else { continue };
        let seat = Seat::find(session, &node)?;
        let offer = seat.offer(session);
        let has_room = offer.is_some_and(|offer| offer.can_keep(&entry.spec, &slot, &ahead));
        if has_room && keeps(session, &entry, &slot, &node)? {
            ahead.keep(&slot);
        } else {
            lose(session, &slot.job, entry, Some(Blamed { node, owner }))?;
        }
    }
    Ok(())
}

/// A slot is lost: the promise is decided about anew.
fn lose(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    blamed: Option<Blamed>,
) -> Result<(), Stop> {
    release(session, job, &entry)?;
    enlist(session, job, &mut entry, true, blamed)?;
    session.tables.jobs.put(job.as_bytes(), Some(entry))
}

/// Whether a node that keeps a slot still passes the rules and offers what it keeps, whoever has
/// that now. Its stake stands for the run already.
fn keeps(
    session: &mut Session<'_>,
    entry: &JobEntry,
    slot: &KeptSlot,
    id: &NodeId,
) -> Result<bool, Stop> {
    let facts = facts(session, entry)?;
    let span = run_span(&session.params, &entry.spec, session.env.tick);
    let excluded = excluded(entry);
    let (facts, bond) = (facts.as_ref(), Amount::ZERO);
    let ask = Ask { spec: &entry.spec, facts, bond, excluded: &excluded, span, job: None };
    let seat = Seat::find(session, id)?;
    let offer = seat.offer(session);
    let is_fit = |offer: &Offer<'_>| fit_later(&ask, offer).is_ok();
    Ok(offer.is_some_and(|offer| is_fit(&offer) && offer.offers_kept(&entry.spec, slot)))
}

/// A slot begins: its job is given to its node, with what was kept for it.
pub(crate) fn fall_due(session: &mut Session<'_>, job: &JobId) -> Result<(), Stop> {
    let Some(mut entry) = session.tables.jobs.get(job.as_bytes())?.cloned() else {
        return Ok(());
    };
    let Promise::Kept { node, owner, from, .. } = entry.promise else {
        return Ok(());
    };
    let now = session.env.tick;
    if from > now {
        return Ok(()); // it was entered anew, and a later date stands in the queue
    }
    let record = session.tables.nodes.get(node.as_bytes())?;
    let slot = record.and_then(|it| it.kept.as_slice().iter().find(|slot| slot.job == *job));
    let slot = slot.cloned().ok_or(ApplyError::Incomplete(keys::node(&node)))?;
    if !keeps(session, &entry, &slot, &node)? {
        return lose(session, job, entry, Some(Blamed { node, owner }));
    }
    let dates = run_span(&session.params, &entry.spec, now).to;
    if dates > entry.expires.plus(SLOT_MARGIN)? {
        return lose(session, job, entry, None); // there were no blocks when it should have begun
    }
    let seat = Seat::find(session, &node)?;
    let offer = seat.offer(session).filter(|offer| offer.has_kept_free(&entry.spec, &slot));
    let Some(offer) = offer else {
        let later = now.plus(DurationMs::SECOND)?;
        return due::add(session, later, DueItem::BeginSlot { job: *job });
    };
    let class = offer.class_of(&entry.spec, slot.gpus.as_slice());
    begin(session, job, &mut entry, &node)?;
    place::assign(session, job, &mut entry, (&node, class), Some(slot.gpus))?;
    place::dequeue(session, &mut entry)?;
    entry.status = JobStatus::Running;
    session.tables.jobs.put(job.as_bytes(), Some(entry))
}
