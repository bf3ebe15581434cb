//! Adjusting: a client changes its mind about a job. While it waits, it may offer more or less, run
//! on more nodes or fewer, or be wanted earlier; a later date it may have until it has ended. What
//! more is needed is locked, what is needed no more goes back, and it keeps the time at which it
//! came: with another offer it stands where it would stand had it made that offer at once.
//!
//! What runs is not changed: its node has taken it for that pay, with a bond that follows from it.
//! What is promised is not changed either, since a slot is kept for just that.

use std::collections::BTreeSet;

use tg_types::ids::JobId;
use tg_types::{Adjustment, Amount, Event, JobSpec, JobStatus, Reason, Tick};

use super::charges::charges;
use super::place;
use super::promise::Promise;
use super::record::JobEntry;
use crate::account;
use crate::due::{self, DueItem};
use crate::error::Fail;
use crate::session::{Call, Session};
use crate::totals::{Flow, Part};

/// Changes what a client wants of a job, if no more than so much has to be locked besides.
pub(crate) fn adjust(
    session: &mut Session<'_>,
    call: &Call,
    (job, change): (&JobId, &Adjustment),
    escrow_max: Amount,
) -> Result<(), Fail> {
    super::load(session, &[*job])?;
    let mut entry = session.tables.jobs.get(job.as_bytes())?.cloned().ok_or(Reason::JobUnknown)?;
    if entry.owner != call.sender {
        return Err(Reason::JobNotOwned.into());
    }
    let (spec, expires) = adjusted(session, &entry, change)?;
    super::check_spec(session, &spec)?;
    let escrow_of = |spec: &JobSpec| {
        let charges = charges(&session.params, spec, entry.extent).ok_or(Reason::EscrowTooLow);
        charges.map(|charges| charges.escrow)
    };
    let (before, after) = (escrow_of(&entry.spec)?, escrow_of(&spec)?);
    let more = after.minus(before).unwrap_or(Amount::ZERO);
    let less = before.minus(after).unwrap_or(Amount::ZERO);
    let escrow = entry.escrow.plus(more).and_then(|sum| sum.minus(less));
    let escrow = escrow.map_err(|_| Reason::EscrowTooLow)?;
    if more > escrow_max {
        return Err(Reason::EscrowTooLow.into());
    }
    let left = account::balance_less(session, call.slot, more)?;
    let row = place::row_of(session, &spec)?;
    let rows = BTreeSet::from([row]);
    let loads = [due::load_dates(session, &[expires]), place::load_ends(session, &rows)];
    session.all_of(loads)?;

    account::set_balance(session, call.slot, left);
    account::credit(session, call.slot, less)?;
    session.totals.shift(Flow { from: Part::Balances, to: Part::Escrow, amount: more })?;
    session.totals.shift(Flow { from: Part::Escrow, to: Part::Balances, amount: less })?;
    let is_moved = entry.queue_place.is_some() && (row != entry.row || change.nodes.is_some());
    if is_moved {
        place::dequeue(session, &mut entry)?;
    }
    if change.nodes.is_some() {
        entry.wanted = spec.runs();
    }
    let is_dated = expires != entry.expires;
    (entry.escrow, entry.spec, entry.expires, entry.row) = (escrow, spec, expires, row);
    if is_moved {
        let queued = entry.queued;
        place::enqueue(session, job, &mut entry)?;
        entry.queued = queued;
    }
    let (pay, nodes) = (entry.spec.pay, entry.spec.nodes);
    session.tables.jobs.put(job.as_bytes(), Some(entry))?;
    session.emit(Event::JobAdjusted { job: *job, pay, nodes, expires, escrow });
    if is_dated {
        due::add(session, expires, DueItem::CloseJob { job: *job })?;
    }
    Ok(())
}

/// What is wanted of a job after a change, and until when.
fn adjusted(
    session: &Session<'_>,
    entry: &JobEntry,
    change: &Adjustment,
) -> Result<(JobSpec, Tick), Fail> {
    if entry.status.is_final() {
        return Err(Reason::JobClosed.into());
    }
    if *change == Adjustment::NONE {
        return Err(Reason::AdjustNothing.into());
    }
    if entry.promise != Promise::None {
        return Err(Reason::AdjustPromised.into());
    }
    let now = session.env.tick;
    let expires = change.expires.unwrap_or(entry.expires);
    // An earlier date would end a run that nobody pays.
    let is_of_waiting = change.pay.is_some() || change.nodes.is_some() || expires < entry.expires;
    if is_of_waiting && entry.status != JobStatus::Queued {
        return Err(Reason::AdjustTooLate.into());
    }
    if change.expires.is_some_and(|expires| expires <= now) {
        return Err(Reason::AdjustPast.into());
    }
    if change.expires.is_some() && expires > now.plus(session.params.job_expires_max)? {
        return Err(Reason::JobExpiryTooLong.into());
    }
    let pay = change.pay.unwrap_or(entry.spec.pay);
    let nodes = change.nodes.unwrap_or(entry.spec.nodes);
    Ok((JobSpec { pay, nodes, ..entry.spec.clone() }, expires))
}
