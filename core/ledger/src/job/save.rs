//! Checkpoints: a node that runs a command saves its state, and whoever runs it next begins there.
//!
//! The ledger keeps the last one. It does not know what is in it, so only work of tier `none` may
//! have checkpoints; and how much work is in it is told by the time of blocks, not by the node.

use tg_types::checkpoint::{CHECKPOINT_BYTES_MAX, CHECKPOINT_EVERY_MIN};
use tg_types::ids::{JobId, NodeId};
use tg_types::voucher::Voucher;
use tg_types::{
    Amount, AmountError, CheckpointRef, DurationMs, Event, JobSpec, Params, Reason, Tick, Tier,
    Work, wire,
};

use super::record::{JobEntry, RunState};
use super::run::speaker;
use crate::error::Fail;
use crate::session::{Call, Session};
use crate::voucher::Vouched;

wire! {
    /// The state of a job as it was saved last.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SavedState {
        /// The package with it.
        pub checkpoint: CheckpointRef,
        /// Which node saved it.
        pub node: NodeId,
        /// When.
        pub saved: Tick,
        /// How long the work in it took, over all runs.
        pub ran: DurationMs,
    }
}

/// Refuses plans that no job may have.
pub(super) fn check_spec(spec: &JobSpec) -> Result<(), Reason> {
    let Some(plan) = &spec.checkpoint else { return Ok(()) };
    match (&spec.work, spec.tier) {
        (Work::Opaque { .. }, Tier::Trusted) => {}
        (Work::Opaque { .. } | Work::Tensor { .. }, _) => {
            return Err(Reason::CheckpointNeedsCommand);
        }
    }
    if plan.every < CHECKPOINT_EVERY_MIN {
        return Err(Reason::CheckpointTooOften);
    }
    let is_large = plan.from.is_some_and(|from| from.package_bytes > CHECKPOINT_BYTES_MAX);
    if is_large { Err(Reason::CheckpointTooLarge) } else { Ok(()) }
}

/// What saving costs at most: a transaction for every checkpoint that a run may have.
pub(super) fn fees_max(params: &Params, spec: &JobSpec) -> Result<Amount, AmountError> {
    let saves = spec.checkpoint.map_or(0, |plan| plan.saves_max(spec.run_max));
    params.jobs.step_fee.times(saves.into())
}

/// What the run that goes on gets for what it has saved.
pub(super) fn fees(params: &Params, entry: &JobEntry) -> Result<Amount, AmountError> {
    params.jobs.step_fee.times(entry.saves.into())
}

/// How long a run that began then has gone on since the state was saved.
pub(super) fn since_saved(entry: &JobEntry, begun: Tick, now: Tick) -> DurationMs {
    let from = entry.saved.map_or(begun, |last| last.saved.max(begun));
    now.since(from).unwrap_or(DurationMs::ZERO)
}

/// How much work is in the state of a run that began then: what was saved before, and since.
pub(super) fn ran_until(entry: &JobEntry, begun: Tick, now: Tick) -> DurationMs {
    let before = entry.saved.map_or(0, |last| last.ran.get());
    DurationMs::new(before.saturating_add(since_saved(entry, begun, now).get()))
}

/// How much work was saved before a run that began then: it went on from there. What the client
/// began with is not known.
pub(super) fn ran_before(entry: &JobEntry, begun: Tick) -> DurationMs {
    let Some(last) = entry.saved else { return DurationMs::ZERO };
    let here = last.saved.since(begun).unwrap_or(DurationMs::ZERO);
    DurationMs::new(last.ran.get().saturating_sub(here.get()))
}

/// Takes the state of a run as its node saved it.
pub(crate) fn save(
    session: &mut Session<'_>,
    call: &Call,
    job: &JobId,
    checkpoint: CheckpointRef,
    vouchers: &[Voucher],
) -> Result<(), Fail> {
    let (node, now) = (speaker(call), session.env.tick);
    super::load(session, &[*job])?;
    let mut entry = session.tables.jobs.get(job.as_bytes())?.cloned().ok_or(Reason::JobUnknown)?;
    let plan = entry.spec.checkpoint.ok_or(Reason::CheckpointNotAsked)?;
    let run = entry.run_of(&node).ok_or(Reason::RunUnknown)?;
    if run.state != RunState::Placed {
        return Err(Reason::RunNotThere.into());
    }
    let begun = run.begun;
    if checkpoint.package_bytes > CHECKPOINT_BYTES_MAX {
        return Err(Reason::CheckpointTooLarge.into());
    }
    let since = since_saved(&entry, begun, now);
    let is_full = entry.saves >= plan.saves_max(entry.spec.run_max);
    if is_full || since < plan.apart_min() {
        return Err(Reason::CheckpointTooOften.into());
    }
    Vouched::by(session, vouchers).check(checkpoint.package_ref())?;

    let ran = ran_until(&entry, begun, now);
    entry.saves = entry.saves.saturating_add(1);
    entry.saved = Some(SavedState { checkpoint, node, saved: now, ran });
    session.tables.jobs.put(job.as_bytes(), Some(entry))?;
    session.emit(Event::CheckpointSaved { job: *job, node, checkpoint, ran });
    Ok(())
}
