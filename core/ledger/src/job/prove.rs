//! Results that are shown to be right in the block that accepts them: by a proof, or by the weights
//! with which every validator runs the program itself. Nobody is drawn and nobody waits. There is
//! no commitment either: what is shown is bound to its provider, so a copy of it is worth nothing.
//!
//! A node that signs a result which does not pass has shown its own lie, and loses its bond. So
//! whatever may happen to an honest node must be refused before: all sizes, costs and vouchers.
//!
//! Blocks have room for few of these transactions, so one that nobody waits for, that is longer
//! than its job can need or that does not pay for its cost is not even admitted: it takes no place,
//! and whoever shows a result twice does not pay for it.

use tg_types::hash::sha256;
use tg_types::ids::{AccountId, Hash32, JobId, NodeId};
use tg_types::voucher::Voucher;
use tg_types::{Amount, Event, JobStatus, Reason, ResultClaim, RunResult, ShownBy, Tick, Work};

use super::charges::charges;
use super::record::{JobEntry, Run, RunState};
use super::run;
use super::settle::{self, Loss};
use crate::error::{ApplyError, Fail, Stop};
use crate::planted::planted;
use crate::session::{Call, Session};
use crate::voucher::Vouched;
use crate::{keys, program};

/// A result as a transaction shows it.
pub(crate) struct Shown<'a> {
    pub(crate) job: &'a JobId,
    pub(crate) result: &'a RunResult,
    pub(crate) bytes: &'a [u8],
    pub(crate) vouchers: &'a [Voucher],
    /// What showing it had to cost, which the client pays back.
    pub(crate) fee: Amount,
}

/// Whether a job waits for a result that this node is to show at once.
#[must_use]
pub fn awaits_result(entry: &JobEntry, node: &NodeId) -> bool {
    let is_placed = |run: &Run| run.node == *node && run.state == RunState::Placed;
    entry.spec.tier.is_shown() && entry.runs.as_slice().iter().any(is_placed)
}

/// Whether a job waits for so many bytes that this node shows. More than a result of its tier can
/// need would keep others out of the block.
pub fn check_shown(
    entry: Option<&JobEntry>,
    node: &NodeId,
    shown_bytes: usize,
) -> Result<(), Reason> {
    let entry = entry.filter(|entry| awaits_result(entry, node));
    // The number of a run does not change how long its result may be.
    let by = entry.and_then(|entry| entry.spec.tier.shown_by(0)).ok_or(Reason::ResultNotAwaited)?;
    if shown_bytes > by.bytes_max() { Err(Reason::TxTooLarge) } else { Ok(()) }
}

/// Refuses what takes no place in a block: a result that nobody waits for, a longer one, or one
/// whose fee is reckoned from another cost.
pub(crate) fn check_awaited(
    session: &mut Session<'_>,
    sender: &AccountId,
    job: &JobId,
    cost: u64,
    shown_bytes: usize,
) -> Result<(), Fail> {
    let node = NodeId::new(*sender.as_bytes());
    let entry = session.tables.jobs.get(job.as_bytes())?;
    check_shown(entry, &node, shown_bytes)?;
    let Some((program, by)) = entry.and_then(|entry| shown_by(entry, &node)) else {
        return Err(Reason::RunNotThere.into());
    };
    let costs = program::costs(session, &program)?.ok_or(Reason::ProgramUnknown)?;
    if costs.by(by) == Some(cost) { Ok(()) } else { Err(Reason::ProofCostWrong.into()) }
}

/// Of which program a node shows its result, and how; `None` if results of the job are not shown.
fn shown_by(entry: &JobEntry, node: &NodeId) -> Option<(Hash32, ShownBy)> {
    let Work::Tensor { program, .. } = entry.spec.work else { return None };
    Some((program, entry.spec.tier.shown_by(entry.run_number(node)?)?))
}

/// Takes a result that is shown to be right, and settles its job; or takes the bond of whoever
/// shows what is not right.
pub(crate) fn prove(session: &mut Session<'_>, call: &Call, shown: &Shown<'_>) -> Result<(), Fail> {
    let Shown { job, result, .. } = *shown;
    let node = run::speaker(call);
    super::load(session, &[*job])?;
    let mut entry = session.tables.jobs.get(job.as_bytes())?.cloned().ok_or(Reason::JobUnknown)?;
    let run = entry.run_of(&node).cloned().ok_or(Reason::RunUnknown)?;
    let claim = claim(session, &entry, shown, &node).ok_or(Reason::RunNotThere)?;
    if result.trace != Hash32::new(sha256(&[shown.bytes])) {
        return Err(Reason::ProofHashWrong.into());
    }
    let program = program::bytes(session, &claim.program)?;
    // Signatures and proofs are costly, so everything else is checked and loaded before.
    let vouched = Vouched::by(session, shown.vouchers);
    vouched.check(result.package_ref())?;
    let is_right = session.rules.verifier.verify(&program, &claim, shown.bytes);

    if !is_right && !planted!(session.rules, TrustProofs) {
        return Ok(refute(session, job, entry, &run)?);
    }
    if let Some(run) = entry.run_of(&node) {
        run.state = RunState::Revealed { result: *result, height: session.env.height };
        run.end_at(session.env.tick);
        run.deadline = Tick::MAX;
    }
    run::blame_doubters(session, &entry)?;
    entry.status = JobStatus::Checking;
    session.emit(Event::ResultProved { job: *job, node, result: *result, by: claim.by });
    let unpayable = || ApplyError::Incomplete(keys::job(job));
    let mut prices = charges(&session.params, &entry.spec, entry.extent).ok_or_else(unpayable)?;
    prices.fees = prices.fees.min(shown.fee);
    Ok(settle::pay_out(session, job, entry, &prices)?)
}

/// What is said to be right; `None` if results of this job are not shown that way.
fn claim(
    session: &Session<'_>,
    entry: &JobEntry,
    shown: &Shown<'_>,
    node: &NodeId,
) -> Option<ResultClaim> {
    let Work::Tensor { weights, inputs, .. } = entry.spec.work else { return None };
    let (program, by) = shown_by(entry, node)?;
    let (genesis, output) = (session.rules.domain.genesis, shown.result.output);
    let (job, node) = (*shown.job, *node);
    Some(ResultClaim { genesis, job, node, program, weights, inputs, output, by })
}

/// A node has shown what is not right: it loses its bond, and the job goes to another one.
fn refute(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    run: &Run,
) -> Result<(), Stop> {
    let Run { node, owner, bond, .. } = run;
    run::end(session, job, &mut entry, node, Reason::ResultRefuted)?;
    settle::slash(session, job, &Loss::whole(node, owner, *bond), None)?;
    run::retry(session, job, entry)
}
