//! Jobs: what was asked for, who does it, who checks it, and the escrow that pays for it.
//!
//! A job waits in the queue until a node is found ([`place`]); the node runs it, commits to its
//! result and shows it ([`run`]), or shows it with a proof ([`prove`]); what the tier asks for
//! follows ([`draw`], [`check`], [`keyless`], [`dispute`]); the end is a settlement ([`settle`]).
//! Every step has a date by which it must happen ([`miss`]). Packages that do not open have a court
//! of their own ([`complaint`]). What runs took is learned when their job settles ([`pace`]). A
//! client may stop a job that runs ([`stop`]), and what runs on a node that closes moves away if it
//! can ([`drain`]). Some jobs run on several nodes at once ([`gang`]). Runs that need GPUs hold
//! definite ones ([`gpus`]). Until a job has ended, its client may change some of it ([`adjust`]).
//! The whole path with all times and losses is in `docs/protocol.md`.
//!
//! A closed job stays readable for the retention time; then the due queue forgets it, so that the
//! state holds no history.

pub(crate) mod adjust;
pub(crate) mod charges;
pub(crate) mod check;
pub(crate) mod complaint;
pub(crate) mod dispute;
pub(crate) mod drain;
pub(crate) mod draw;
mod fleet;
pub(crate) mod gang;
pub(crate) mod gpus;
pub(crate) mod keyless;
pub(crate) mod make_room;
pub(crate) mod miss;
pub(crate) mod pace;
pub(crate) mod place;
pub(crate) mod promise;
pub(crate) mod prove;
pub(crate) mod rebalance;
mod record;
mod row;
pub(crate) mod run;
#[cfg(test)]
mod sample;
pub(crate) mod save;
pub(crate) mod settle;
pub(crate) mod stop;

pub use complaint::{ComplaintEntry, Verdict};
pub use promise::Promise;
pub use prove::{awaits_result, check_shown};
pub use record::{
    Check, CheckState, Checks, Draw, GangPlace, JobEntry, Run, RunState, Runs, YieldTo,
};
pub use row::{BONUS_MAX, BONUS_PER_OCTAVE, QueueKey, QueueRow, ROWS};
pub use save::SavedState;

use std::collections::BTreeSet;

use record::Terms;
use tg_types::genesis::NetworkKind;
use tg_types::ids::{Hash32, JobId};
use tg_types::job::{REPLICAS_MAX, REPLICAS_MIN};
use tg_types::tx::{ARRAY_TASKS_MAX, ArrayTasks, JOBS_PER_TX_MAX};
use tg_types::{
    Amount, CheckedTx, DurationMs, Event, Extent, JobSpec, JobStatus, Params, Reason, Tick, Tier,
    Voucher, Work,
};

use crate::due::{self, DueItem};
use crate::error::{ApplyError, Fail, Stop};
use crate::planted::planted;
use crate::session::{Call, Session};
use crate::totals::{Flow, Part};
use crate::voucher::Vouched;
use crate::{account, keys, node, program, weights};

// Jobs of a transaction are told apart by a byte.
const _: () = assert!(ARRAY_TASKS_MAX as usize <= 256 && JOBS_PER_TX_MAX <= 256);

/// Owners of nodes that a result of tier sync needs besides the provider's on an open network: with
/// fewer, a handful of accounts would vouch for each other.
pub const SYNC_OWNERS_MIN: u8 = 4;

/// Jobs that are asked for alike: one, or tasks of an array.
struct Lot<'a> {
    spec: &'a JobSpec,
    /// The number of the first task of an array.
    first: Option<u32>,
    count: u16,
}

/// Takes jobs in and locks their escrow: all of them or none.
pub(crate) fn submit(
    session: &mut Session<'_>,
    call: &Call,
    specs: &[JobSpec],
    escrow_max: Amount,
    vouchers: &[Voucher],
) -> Result<(), Fail> {
    let lots: Vec<Lot<'_>> = specs.iter().map(|spec| Lot { spec, first: None, count: 1 }).collect();
    take_in(session, call, &lots, escrow_max, vouchers)
}

/// Takes tasks of an array in and locks their escrow: all of them or none.
pub(crate) fn submit_array(
    session: &mut Session<'_>,
    call: &Call,
    (spec, tasks): (&JobSpec, ArrayTasks),
    escrow_max: Amount,
    vouchers: &[Voucher],
) -> Result<(), Fail> {
    let first = *tasks.numbers().ok_or(Reason::ArrayWrong)?.start();
    match &spec.work {
        Work::Opaque { .. } => {}
        Work::Tensor { .. } => return Err(Reason::ArrayNeedsCommand.into()),
    }
    let lot = Lot { spec, first: Some(first), count: tasks.count };
    take_in(session, call, &[lot], escrow_max, vouchers)
}

fn take_in(
    session: &mut Session<'_>,
    call: &Call,
    lots: &[Lot<'_>],
    escrow_max: Amount,
    vouchers: &[Voucher],
) -> Result<(), Fail> {
    let mut escrow = Amount::ZERO;
    let (mut dates, mut terms) = (Vec::new(), Vec::new());
    for Lot { spec, count, .. } in lots {
        let extent = check_spec(session, spec)?;
        dates.push(promise::expiry(session.env.tick, spec)?);
        let charges =
            charges::charges(&session.params, spec, extent).ok_or(Reason::EscrowTooLow)?;
        let together = charges.escrow.times((*count).into());
        let sum = together.and_then(|together| escrow.plus(together));
        escrow = sum.map_err(|_| Reason::EscrowTooLow)?;
        terms.push((extent, charges.escrow, place::row_of(session, spec)?));
    }
    if escrow > escrow_max {
        return Err(Reason::EscrowTooLow.into());
    }
    if lots.iter().any(|lot| lot.spec.tier == Tier::Sync) {
        check_owners(session)?;
    }
    let secrets = weights::reserved(session, &call.sender, lots.iter().map(|lot| lot.spec))?;
    let left = account::balance_less(session, call.slot, escrow)?;
    let rows = terms.iter().map(|(_, _, row)| *row).collect();
    let has_promise = lots.iter().any(|lot| lot.spec.promise.is_some());
    let promises = promise::load_end(session, has_promise);
    let loads = [due::load_dates(session, &dates), place::load_ends(session, &rows), promises];
    session.all_of(loads)?;
    // Signatures are costly, so everything else is checked and loaded before.
    let vouched = Vouched::by(session, vouchers);
    for lot in lots {
        vouched.check(lot.spec.package_ref())?;
        if let Some(from) = lot.spec.checkpoint.and_then(|plan| plan.from) {
            vouched.check(from.package_ref())?;
        }
    }

    account::set_balance(session, call.slot, left);
    session.totals.shift(Flow { from: Part::Balances, to: Part::Escrow, amount: escrow })?;
    for (id, entry) in secrets {
        session.tables.weights.put(id.as_bytes(), Some(entry))?;
    }
    let mut ids = (0..=u8::MAX).map(|place| JobId::of(call.tx, place));
    for (lot, terms) in lots.iter().zip(terms) {
        for (place, job) in (0..).zip(ids.by_ref().take(lot.count.into())) {
            let task = lot.first.map(|first| first.saturating_add(place));
            begin(session, call, (job, lot.spec, task), terms)?;
        }
    }
    Ok(())
}

/// Writes a job down and queues it.
fn begin(
    session: &mut Session<'_>,
    call: &Call,
    (job, spec, task): (JobId, &JobSpec, Option<u32>),
    terms: Terms,
) -> Result<(), Stop> {
    let submitted = session.env.tick;
    let expires = promise::expiry(submitted, spec)?;
    let owner = call.sender;
    let entry = JobEntry::new(owner, spec.clone(), terms, [submitted, expires]);
    let mut entry = JobEntry { task, ..entry };
    place::enqueue(session, &job, &mut entry)?;
    promise::ask(session, &job, &mut entry)?;
    // Its id is made of a transaction's, which is carried out once: there was no such job before.
    let slot = session.tables.jobs.find_new(job.as_bytes());
    *session.tables.jobs.at_mut(slot) = Some(entry);
    session.emit(Event::JobQueued { job, owner, escrow: terms.1 });
    due::add(session, expires, DueItem::CloseJob { job })
}

/// Refuses what no job may ask for; says how much of a run its checkers recompute.
fn check_spec(session: &mut Session<'_>, spec: &JobSpec) -> Result<Extent, Fail> {
    if spec.expires_after > session.params.job_expires_max {
        return Err(Reason::JobExpiryTooLong.into());
    }
    if spec.run_max > session.params.jobs.run_max {
        return Err(Reason::RunTooLong.into());
    }
    gang::check_spec(spec)?;
    promise::check_spec(spec)?;
    save::check_spec(spec)?;
    gpus::check_spec(spec)?;
    if spec.pay < session.params.jobs.pay_min {
        return Err(Reason::PayTooLow.into());
    }
    let multiply_adds = match &spec.work {
        Work::Tensor { program, .. } => {
            check_showable(session, program, spec.tier)?;
            program::facts(session, program)?.ok_or(Reason::ProgramUnknown)?.multiply_adds
        }
        Work::Opaque { .. } => 0,
    };
    match (spec.tier, &spec.work) {
        (Tier::Trusted, _) | (Tier::Audit | Tier::Sync, Work::Tensor { .. }) => {}
        (Tier::Redundant { replicas }, _) => {
            if !(REPLICAS_MIN..=REPLICAS_MAX).contains(&replicas) {
                return Err(Reason::ReplicasWrong.into());
            }
        }
        (Tier::Proof { .. } | Tier::Rerun | Tier::Zk { .. }, Work::Tensor { .. }) => {}
        (
            Tier::Audit | Tier::Sync | Tier::Proof { .. } | Tier::Rerun | Tier::Zk { .. },
            Work::Opaque { .. },
        ) => return Err(Reason::TierNeedsProgram.into()),
    }
    Ok(session.params.jobs.extent(spec.tier, multiply_adds))
}

/// Whether results of a program can be shown to be right at once, if the tier asks for that, and
/// within the time that a block has for it.
fn check_showable(session: &mut Session<'_>, program: &Hash32, tier: Tier) -> Result<(), Fail> {
    let Some(by) = tier.shown_by(0) else { return Ok(()) };
    let costs = program::costs(session, program)?.ok_or(Reason::ProgramUnknown)?;
    let cost = costs.by(by).ok_or(Reason::ProgramNotShowable)?;
    if cost > session.params.jobs.proof_cost_max {
        return Err(Reason::ProofTooCostly.into());
    }
    Ok(())
}

/// Whether enough owners could check a result besides its provider. A local network may do with
/// fewer, and says so.
fn check_owners(session: &mut Session<'_>) -> Result<(), Fail> {
    if session.rules.genesis.spec().kind == NetworkKind::Local {
        return Ok(());
    }
    let is_enough = node::owners(session)?.len() > usize::from(SYNC_OWNERS_MIN);
    if is_enough { Ok(()) } else { Err(Reason::CheckersTooFew.into()) }
}

/// Takes a waiting job back, or stops one that runs. What that costs is said in [`promise`] and
/// [`stop`].
pub(crate) fn cancel(session: &mut Session<'_>, call: &Call, job: &JobId) -> Result<(), Fail> {
    load(session, &[*job])?;
    let mut entry = session.tables.jobs.get(job.as_bytes())?.cloned().ok_or(Reason::JobUnknown)?;
    if entry.owner != call.sender && !planted!(session.rules, SkipOwner) {
        return Err(Reason::JobNotOwned.into());
    }
    match entry.status {
        JobStatus::Queued => {}
        JobStatus::Running => return stop::ask(session, job, entry),
        JobStatus::Checking | JobStatus::Disputed => return Err(Reason::StopTooLate.into()),
        JobStatus::Cancelled | JobStatus::Expired | JobStatus::Settled | JobStatus::Failed => {
            return Err(Reason::JobClosed.into());
        }
    }

    promise::pay_keeper(session, job, &mut entry)?;
    let (owner, refund) = (entry.owner, entry.escrow);
    settle::close(session, job, entry, JobStatus::Cancelled)?;
    session.emit(Event::JobCancelled { job: *job, owner, refund });
    Ok(())
}

/// A job's date has come: one without a result expires, a closed one is forgotten. One whose result
/// is being checked goes on, and so does one whose result is owed, and one that runs and is saved,
/// since its state would outlast what was locked for it, and a gang that runs, since members that
/// are done wait for the others; these steps have dates of their own.
pub(crate) fn fall_due(session: &mut Session<'_>, job: &JobId) -> Result<(), Stop> {
    let Some(entry) = session.tables.jobs.get(job.as_bytes())?.cloned() else {
        return Ok(());
    };
    if entry.status.is_final() {
        return forget(session, job, &entry);
    }
    if entry.expires > session.env.tick {
        return Ok(()); // its client has moved the date
    }
    let is_judged = entry.status == JobStatus::Checking || entry.status == JobStatus::Disputed;
    let outlasts = entry.spec.checkpoint.is_some() || entry.spec.is_gang();
    let runs_on = outlasts && entry.live().next().is_some();
    if is_judged || runs_on || entry.is_owed() {
        let later = session.env.tick.plus(session.params.jobs.answer_within)?;
        return due::add(session, later, DueItem::CloseJob { job: *job });
    }
    settle::expire(session, job, entry)
}

/// How long after its end a job can still be read. All complaints about it are over by then.
pub fn kept(params: &Params) -> DurationMs {
    params.seen_retention.max(params.jobs.complaints_last())
}

/// Forgets a job that has ended, and what somebody complained about it.
fn forget(session: &mut Session<'_>, job: &JobId, entry: &JobEntry) -> Result<(), Stop> {
    let kept = kept(&session.params);
    let forgotten = entry.closed.map_or(Ok(Tick::ZERO), |closed| closed.plus(kept))?;
    if forgotten > session.env.tick {
        return Ok(()); // the date of its expiry may come before the time to forget it
    }
    let complaint = session.tables.complaints.get(job.as_bytes())?;
    if complaint.is_some_and(ComplaintEntry::is_open) {
        // It ends in this very second, but its date was set later.
        let later = session.env.tick.plus(session.params.jobs.answer_within)?;
        return due::add(session, later, DueItem::CloseJob { job: *job });
    }
    session.tables.complaints.put(job.as_bytes(), None)?;
    session.tables.jobs.put(job.as_bytes(), None)
}

/// A job that must exist, because something of the ledger's own refers to it.
pub(crate) fn known(session: &mut Session<'_>, job: &JobId) -> Result<JobEntry, Stop> {
    let entry = session.tables.jobs.get(job.as_bytes())?.cloned();
    Ok(entry.ok_or(ApplyError::Incomplete(keys::job(job)))?)
}

/// Loads everything that steps of these jobs may touch, so that a view which loads on demand is
/// asked a few times and not once per entry.
pub(crate) fn load(session: &mut Session<'_>, jobs: &[JobId]) -> Result<(), Stop> {
    if jobs.is_empty() {
        return Ok(());
    }
    let wanted: Vec<_> = jobs.iter().flat_map(|job| [keys::job(job), keys::dispute(job)]).collect();
    session.require(&wanted)?;
    let (mut around, mut dates, mut rows) = (Vec::new(), Vec::new(), BTreeSet::new());
    let (mut has_promise, mut has_plan) = (false, false);
    for job in jobs {
        if let Some(dispute) = session.tables.disputes.get(job.as_bytes())? {
            around.push(keys::account(&dispute.challenger));
        }
        if let Some(entry) = session.tables.jobs.get(job.as_bytes())?.cloned() {
            place::keys_around(&entry, &mut around);
            rows.insert(entry.row);
            has_promise |= entry.promise != Promise::None;
            has_plan |= entry.spec.checkpoint.is_some();
            dates.extend(dates_ahead(session, &entry.spec)?);
        }
    }
    let around = session.require(&around);
    let dates = due::load_dates(session, &dates);
    let queue = place::load_ends(session, &rows);
    let promises = promise::load_end(session, has_promise);
    let listed = make_room::load_end(session, has_plan);
    session.all_of([around, dates, queue, promises, listed])
}

/// Loads what taking in and placing the jobs of these transactions needs.
pub(crate) fn load_submitted(session: &mut Session<'_>, txs: &[CheckedTx]) -> Result<(), Stop> {
    let (mut dates, mut rows) = (BTreeSet::new(), BTreeSet::new());
    let mut has_promise = false;
    let mut has_plan = false;
    let mut mix = None;
    for (spec, _) in txs.iter().flat_map(|tx| tx.body().action.jobs()) {
        has_plan |= spec.checkpoint.is_some();
        mix = mix.or(gpus::is_holding(spec).then(keys::gpu_mix));
        // A job with dates that there cannot be is refused later.
        dates.extend(promise::expiry(session.env.tick, spec));
        if spec.promise.is_some() {
            has_promise = true;
            dates.extend(session.env.tick.plus(kept(&session.params))); // it may be refused at once
        }
        dates.extend(place::run_deadline(session, spec));
        let row = place::row_of(session, spec);
        rows.extend(session.attempt(row)?);
    }
    if dates.is_empty() {
        return Ok(());
    }
    let dates: Vec<Tick> = dates.into_iter().collect();
    let dates = due::load_dates(session, &dates);
    let queue = place::load_ends(session, &rows);
    let nodes = node::all(session).map(drop);
    let promises = promise::load_end(session, has_promise);
    let listed = make_room::load_end(session, has_plan);
    let mix = session.require(mix.as_slice());
    session.all_of([dates, queue, nodes, promises, listed, mix])
}

/// All dates that a step of a job which happens now may set.
fn dates_ahead(session: &Session<'_>, spec: &JobSpec) -> Result<[Tick; 5], Stop> {
    let (now, jobs) = (session.env.tick, &session.params.jobs);
    Ok([
        now.plus(jobs.answer_within)?,
        now.plus(kept(&session.params))?,
        now.plus(jobs.complaint_judged_within)?,
        now.plus(spec.run_max)?.plus(jobs.run_grace)?,
        now.plus(spec.run_max)?.plus(jobs.check_grace)?,
    ])
}
