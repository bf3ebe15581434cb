//! Jobs: what was asked for, and the escrow that will pay for it. The escrow is locked when the
//! job is submitted and goes back in full when the owner cancels or the job's time runs out.
//! A closed job stays readable until its date, or for the retention time after it expired; then
//! the due queue forgets it, so that the state holds no history.

use tg_types::ids::{AccountId, JobId, Noun};
use tg_types::{Amount, Event, JobSpec, JobStatus, Reason, Tick};

use crate::account;
use crate::due::{self, DueItem};
use crate::entry::{Entry, Held, entry};
use crate::error::{Fail, Stop};
use crate::planted::planted;
use crate::session::{Call, Session};
use crate::totals::{Flow, Part};

entry! {
    /// A job.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct JobEntry {
        /// Who asked and pays.
        pub owner: AccountId,
        /// What was asked for.
        pub spec: JobSpec,
        /// What is locked for it now.
        pub escrow: Amount,
        /// When it was submitted.
        pub submitted: Tick,
        /// When it expires.
        pub expires: Tick,
        /// How far it has come.
        pub status: JobStatus,
    }
}

impl Entry for JobEntry {
    const NOUN: Noun = Noun::Job;

    fn held(&self) -> Held {
        Held { escrow: self.escrow.units().into(), ..Held::default() }
    }
}

/// Takes a job in and locks its escrow.
pub(crate) fn submit(
    session: &mut Session<'_>,
    call: &Call,
    spec: &JobSpec,
    escrow: Amount,
) -> Result<(), Fail> {
    if escrow.is_zero() {
        return Err(Reason::EscrowZero.into());
    }
    if spec.expires_after > session.params.job_expires_max {
        return Err(Reason::JobExpiryTooLong.into());
    }
    let left = account::balance_less(session, call.slot, escrow)?;
    let job = JobId::of(call.tx);
    let slot = session.tables.jobs.find(job.as_bytes())?;
    if session.tables.jobs.at(slot).is_some() {
        return Err(Reason::JobExists.into());
    }
    let submitted = session.env.tick;
    let expires = submitted.plus(spec.expires_after)?;

    account::set_balance(session, call.slot, left);
    let (owner, status) = (call.sender, JobStatus::Queued);
    let entry = JobEntry { owner, spec: spec.clone(), escrow, submitted, expires, status };
    *session.tables.jobs.at_mut(slot) = Some(entry);
    session.totals.shift(Flow { from: Part::Balances, to: Part::Escrow, amount: escrow })?;
    session.emit(Event::JobQueued { job, owner, escrow });
    due::add(session, expires, DueItem::CloseJob { job })?;
    Ok(())
}

/// Takes a waiting job back.
pub(crate) fn cancel(session: &mut Session<'_>, call: &Call, job: &JobId) -> Result<(), Fail> {
    let entry = session.tables.jobs.get(job.as_bytes())?.cloned().ok_or(Reason::JobUnknown)?;
    if entry.owner != call.sender && !planted!(session.rules, SkipOwner) {
        return Err(Reason::JobNotOwned.into());
    }
    if entry.status != JobStatus::Queued {
        return Err(Reason::JobClosed.into());
    }

    let (owner, refund) = (entry.owner, entry.escrow);
    close(session, job, entry, JobStatus::Cancelled)?;
    session.emit(Event::JobCancelled { job: *job, owner, refund });
    Ok(())
}

/// A job's date has come: a waiting job expires, a closed one is forgotten.
pub(crate) fn fall_due(session: &mut Session<'_>, job: &JobId) -> Result<(), Stop> {
    let Some(entry) = session.tables.jobs.get(job.as_bytes())?.cloned() else {
        return Ok(());
    };
    match entry.status {
        JobStatus::Queued => expire(session, job, entry),
        JobStatus::Cancelled | JobStatus::Expired => session.tables.jobs.put(job.as_bytes(), None),
    }
}

/// Closes a job whose time has run out, and keeps it readable for a while.
fn expire(session: &mut Session<'_>, job: &JobId, entry: JobEntry) -> Result<(), Stop> {
    let (owner, refund) = (entry.owner, entry.escrow);
    let forgotten = session.env.tick.plus(session.params.seen_retention)?;

    close(session, job, entry, JobStatus::Expired)?;
    session.emit(Event::JobExpired { job: *job, owner, refund });
    due::add(session, forgotten, DueItem::CloseJob { job: *job })
}

/// Gives the escrow back and sets the status.
fn close(
    session: &mut Session<'_>,
    job: &JobId,
    entry: JobEntry,
    status: JobStatus,
) -> Result<(), Stop> {
    let refund = entry.escrow;
    let owner = session.tables.accounts.find(entry.owner.as_bytes())?;

    if !planted!(session.rules, LoseRefund) {
        account::credit(session, owner, refund)?;
    }
    let escrow = if planted!(session.rules, KeepEscrow) { refund } else { Amount::ZERO };
    session.tables.jobs.put(job.as_bytes(), Some(JobEntry { escrow, status, ..entry }))?;
    session.totals.shift(Flow { from: Part::Escrow, to: Part::Balances, amount: refund })?;
    Ok(())
}
