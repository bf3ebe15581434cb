//! Which transactions may be in a block at all. An inadmissible one pays nothing and leaves no
//! receipt, because its sender may not even have the fee; therefore a block that holds one is
//! invalid. Everything that needs the fee to be paid first is left to the action.

use tg_types::{Action, CheckedTx, Reason, TxBody};

use crate::account::{self, Charge};
use crate::error::Fail;
use crate::job::prove;
use crate::planted::planted;
use crate::session::{Call, Session};
use crate::slash::EVIDENCE_PER_BLOCK_MAX;
use crate::weights::{self, Registration};
use crate::{fee, program, seen};

/// Checks a transaction and changes nothing.
pub(crate) fn check(session: &mut Session<'_>, tx: &CheckedTx) -> Result<(Call, Charge), Fail> {
    let body = tx.body();
    check_expiry(session, body)?;
    let bytes_max = body.action.tx_bytes_max();
    if usize::try_from(tx.size_bytes()).is_ok_and(|size| size > bytes_max) {
        return Err(Reason::TxTooLarge.into());
    }
    if body.action.proof_cost().is_some_and(|cost| cost > session.params.jobs.proof_cost_max) {
        return Err(Reason::ProofLimit.into());
    }
    if body.fee < fee::floor(&session.params, tx.size_bytes(), &body.action) {
        return Err(Reason::FeeTooLow.into());
    }
    if let Action::ProveResult { job, cost, shown, .. } = &body.action {
        prove::check_awaited(session, &body.sender, job, *cost, shown.as_slice().len())?;
    }
    if let Action::RegisterWeights { program, weights, cost, proof } = &body.action {
        let (cost, proof) = (*cost, proof.as_slice());
        weights::check_admissible(session, &Registration { program, weights, cost, proof })?;
    }
    program::check_limit(session, &body.sender, &body.action)?;
    let is_evidence = matches!(body.action, Action::SubmitEvidence { .. });
    if is_evidence && session.evidence_count >= EVIDENCE_PER_BLOCK_MAX {
        return Err(Reason::EvidenceLimit.into());
    }
    let slot = session.tables.accounts.find(body.sender.as_bytes())?;
    let lanes = session.tables.accounts.at(slot).map(|account| account.lanes).unwrap_or_default();
    let expected = lanes.next(body.lane);
    if !planted!(session.rules, SkipNonce) {
        if body.nonce < expected {
            return Err(Reason::NonceTooLow.into());
        }
        if body.nonce > expected {
            return Err(Reason::NonceTooHigh.into());
        }
    }
    let next = expected.next().ok_or(Reason::NonceTooHigh)?;
    let balance =
        account::balance_at(session, slot).minus(body.fee).map_err(|_| Reason::FeeNotCovered)?;
    if let Some(id) = &body.idempotency {
        seen::check(session, &body.sender, id)?;
    }
    let call = Call { sender: body.sender, slot, tx: tx.id(), size_bytes: tx.size_bytes() };
    Ok((call, Charge { balance, lane: body.lane, next }))
}

/// A transaction must be used before it expires, and must not be kept for ever.
fn check_expiry(session: &Session<'_>, body: &TxBody) -> Result<(), Fail> {
    let height = session.env.height;
    if body.expires <= height {
        return Err(Reason::Expired.into());
    }
    if body.expires.since(height)? > session.params.expiry_heights_max {
        return Err(Reason::ExpiresTooFar.into());
    }
    Ok(())
}
