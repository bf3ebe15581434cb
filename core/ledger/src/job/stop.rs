//! Stopping: a client ends a job that runs.
//!
//! A command of tier `none` has one run, whose node is asked to end it: the program has a moment to
//! end by itself, its state is saved once more if the job asks for that, and the node says that it
//! is over ([`super::make_room::yield_run`]). It is paid for its time, as prices of commands are
//! prices of time, and until a date at most, so that nobody earns by being slow. Everything else
//! ends in the block in which its client stops it, because there is nothing to be saved: runs of
//! commands are paid for their time, those of tensor programs in full, since these are priced by
//! their work, and nobody sees how much of that is done.
//!
//! Where a result was committed to, its work is done: then a job cannot be stopped any more.

use tg_types::ids::JobId;
use tg_types::{
    Amount, CheckpointRef, DurationMs, Event, JobSpec, JobStatus, Reason, Tick, Tier, Work,
};

use super::charges::STEPS;
use super::record::{JobEntry, Run, RunState, YieldTo};
use super::save::{self, SavedState};
use super::{make_room, settle};
use crate::error::{Fail, Stop};
use crate::session::Session;
use crate::totals::{Flow, Part};

/// What a run of so long is paid: the part of the pay that its time is of the limit, rounded down.
pub(super) fn time_pay(spec: &JobSpec, ran: DurationMs) -> Amount {
    time_share(spec.pay, spec.run_max, ran)
}

/// The part of an amount that a time is of the limit, rounded down.
pub(super) fn time_share(all: Amount, run_max: DurationMs, ran: DurationMs) -> Amount {
    let share = u128::from(all.units()) * u128::from(ran.get().min(run_max.get()));
    let part = share.checked_div(run_max.get().into());
    let part = part.and_then(|part| Amount::new(u64::try_from(part).ok()?).ok());
    part.unwrap_or(all) // a limit of nothing is reached at once
}

/// What a run is paid if it ends now, because its client stops the job.
fn pay_now(spec: &JobSpec, run: &Run, now: Tick) -> (DurationMs, Amount) {
    let ran = now.since(run.begun).unwrap_or(DurationMs::ZERO);
    match (&spec.work, run.state) {
        (Work::Opaque { .. }, RunState::Placed) => (ran, time_pay(spec, ran)),
        (Work::Opaque { .. } | Work::Tensor { .. }, _) => (ran, spec.pay),
    }
}

/// Whether a node is asked to end its run, and not simply told: it may have something to save.
fn is_asked(spec: &JobSpec) -> bool {
    match (&spec.work, spec.tier) {
        (Work::Opaque { .. }, Tier::Trusted) => !spec.is_gang(),
        (Work::Opaque { .. } | Work::Tensor { .. }, _) => false,
    }
}

/// A client stops a job that runs.
pub(super) fn ask(session: &mut Session<'_>, job: &JobId, mut entry: JobEntry) -> Result<(), Fail> {
    // Members of a gang have different work: those that are done are paid in full.
    let is_done = |run: &Run| run.state != RunState::Placed;
    let is_gang = entry.spec.is_gang();
    let is_late = if is_gang { entry.live().all(is_done) } else { entry.live().any(is_done) };
    if is_late {
        return Err(Reason::StopTooLate.into());
    }
    if !is_asked(&entry.spec) {
        return Ok(end_now(session, job, entry)?);
    }
    if entry.is_stopped {
        return Err(Reason::StopRepeated.into());
    }
    let by = session.env.tick.plus(session.params.jobs.yields.within)?;

    entry.is_stopped = true;
    for run in entry.runs.as_mut_slice().iter_mut().filter(|run| run.is_live()) {
        run.yields_to = Some(YieldTo::Client { by });
        session.emit(Event::StopAsked { job: *job, node: run.node, by });
    }
    Ok(session.tables.jobs.put(job.as_bytes(), Some(entry))?)
}

/// Ends all runs of a job that was stopped, and pays them.
fn end_now(session: &mut Session<'_>, job: &JobId, mut entry: JobEntry) -> Result<(), Stop> {
    let now = session.env.tick;
    let runs: Vec<Run> = entry.live().cloned().collect();
    for run in &runs {
        let (ran, paid) = pay_now(&entry.spec, run, now);
        let steps = match run.state {
            RunState::Placed | RunState::Ended { .. } => 0,
            RunState::Committed { .. } => 1,
            RunState::Revealed { .. } => STEPS,
        };
        let fees = session.params.jobs.step_fee.times(steps)?;
        pay(session, job, &mut entry, (run, ran), (paid, fees))?;
    }
    close(session, job, entry)
}

/// A run ends whose node was asked to stop it: its time is paid until then.
pub(super) fn end(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    (run, until): (&Run, Tick),
    checkpoint: Option<CheckpointRef>,
) -> Result<(), Stop> {
    let now = session.env.tick;
    let ran = until.since(run.begun).unwrap_or(DurationMs::ZERO);
    let paid = time_pay(&entry.spec, ran);
    // A transaction that says so, besides those that saved its state.
    let fees = save::fees(&session.params, &entry)?.plus(session.params.jobs.step_fee)?;
    if let Some(checkpoint) = checkpoint {
        let ran = save::ran_until(&entry, run.begun, now);
        entry.saved = Some(SavedState { checkpoint, node: run.node, saved: now, ran });
    }
    pay(session, job, &mut entry, (run, ran), (paid, fees))?;
    close(session, job, entry)
}

/// Pays a run that was stopped, and ends it. It says nothing about its node, good or bad.
fn pay(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    (run, ran): (&Run, DurationMs),
    (paid, fees): (Amount, Amount),
) -> Result<(), Stop> {
    let spent = paid.plus(fees)?;
    entry.escrow = entry.escrow.minus(spent)?;
    entry.paid = entry.paid.plus(spent)?;
    settle::release_run(session, job, run)?;
    settle::pay_owner_and_node(session, (&run.owner, &run.node), paid, fees)?;
    session.totals.shift(Flow { from: Part::Escrow, to: Part::Balances, amount: spent })?;
    make_room::delist(session, entry)?;
    if let Some(run) = entry.run_of(&run.node) {
        run.state = RunState::Ended { why: Reason::RunStopped };
    }
    let (node, owner) = (run.node, run.owner);
    session.emit(Event::RunStopped { job: *job, node, ran, paid });
    session.emit(Event::ProviderPaid { job: *job, node, owner, amount: paid });
    Ok(())
}

/// Ends a job that was stopped; what is left of its escrow goes back.
pub(super) fn close(session: &mut Session<'_>, job: &JobId, entry: JobEntry) -> Result<(), Stop> {
    let (owner, refund) = (entry.owner, entry.escrow);
    settle::close(session, job, entry, JobStatus::Cancelled)?;
    session.emit(Event::JobCancelled { job: *job, owner, refund });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::sample::command;
    use super::time_pay;
    use tg_types::{Amount, DurationMs};

    #[test]
    fn time_is_paid_in_proportion_rounded_down_and_never_above_the_pay() {
        let check = |pay, run_max, ran, expected| {
            let paid = time_pay(&command(pay, run_max), DurationMs::new(ran));
            assert_eq!(paid.units(), expected, "{ran} of {run_max} for {pay}");
        };
        check(100, 1_000, 0, 0);
        check(100, 1_000, 9, 0);
        check(100, 1_000, 519, 51);
        check(100, 1_000, 1_000, 100);
        check(100, 1_000, u64::MAX, 100);
        check(100, 0, 0, 100);
        check(Amount::CAP.units(), u64::MAX, u64::MAX, Amount::CAP.units());
    }
}
