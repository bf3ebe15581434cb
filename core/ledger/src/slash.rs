//! Slashing: a validator that voted for two blocks at once loses stake, on evidence and never on
//! anybody's word. Whether evidence convicts is the engine's knowledge and asked through a trait.
//! A key is slashed once; its tombstone stays. Evidence that convicts nobody costs its sender a
//! penalty, because checking it costs everybody time.

use tg_types::ids::{AccountId, Noun};
use tg_types::{Amount, Event, Height, PublicKey, Reason};

use crate::account;
use crate::entry::{Entry, entry};
use crate::error::{Fail, Stop};
use crate::planted::planted;
use crate::session::{Call, Session};
use crate::stake::StakeEntry;
use crate::totals::{Flow, Part};

/// Pieces of evidence a block may hold. A check costs every validator two signatures and the
/// decoding of bytes from a stranger; real evidence is rare.
pub const EVIDENCE_PER_BLOCK_MAX: u32 = 8;

entry! {
    /// A validator's seat.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ValidatorEntry {
        /// Whose stake stands behind it.
        pub owner: AccountId,
        /// When it was slashed for voting twice, if it was.
        pub slashed: Option<Height>,
    }
}

impl Entry for ValidatorEntry {
    const NOUN: Noun = Noun::Validator;
}

/// Judges evidence and carries the judgement out.
pub(crate) fn report(session: &mut Session<'_>, call: &Call, evidence: &[u8]) -> Result<(), Fail> {
    session.evidence_count += 1;
    let Some(offender) = convict(session, evidence) else {
        take_penalty(session, call)?;
        return Err(Reason::EvidenceForged.into());
    };
    let seat_slot = session.tables.validators.find(offender.as_bytes())?;
    let seat = *session.tables.validators.at(seat_slot).ok_or(Reason::OffenderUnknown)?;
    if seat.slashed.is_some() {
        return Err(Reason::AlreadySlashed.into());
    }
    let stake_slot = session.tables.stakes.find(seat.owner.as_bytes())?;
    let stake = session.tables.stakes.at(stake_slot).cloned().unwrap_or_default();
    let loss = loss_of(session, &stake)?;
    let (stake, from_active) = stake.without(loss)?;
    let from_unbonding = loss.minus(from_active)?;
    let bounty = loss.share_floor(session.params.slash_bounty_bps);

    let slashed = Some(session.env.height);
    *session.tables.validators.at_mut(seat_slot) = Some(ValidatorEntry { slashed, ..seat });
    *session.tables.stakes.at_mut(stake_slot) = stake.unless_empty();
    let to = Part::Burned;
    session.totals.shift(Flow { from: Part::Staked, to, amount: from_active })?;
    session.totals.shift(Flow { from: Part::Unbonding, to, amount: from_unbonding })?;
    account::credit(session, call.slot, bounty)?;
    session.totals.shift(Flow { from: Part::Burned, to: Part::Balances, amount: bounty })?;
    let (offender, reporter) = (seat.owner, call.sender);
    session.emit(Event::Slashed { offender, reporter, amount: loss, bounty });
    Ok(())
}

/// Whom the evidence convicts.
fn convict(session: &Session<'_>, evidence: &[u8]) -> Option<PublicKey> {
    let offender = session.rules.equivocation.offender(evidence);
    if planted!(session.rules, ForgedEvidence) {
        return offender.or_else(|| PublicKey::new(*evidence.first_chunk()?).ok());
    }
    offender
}

/// How much of a stake is lost.
fn loss_of(session: &Session<'_>, stake: &StakeEntry) -> Result<Amount, Stop> {
    let mut total = stake.active;
    if !planted!(session.rules, SlashActiveOnly) {
        total = total.plus(stake.unbonding.total()?)?;
    }
    Ok(total.share_floor(session.params.slash_equivocation_bps))
}

/// Burns the penalty, or what there is of it.
fn take_penalty(session: &mut Session<'_>, call: &Call) -> Result<(), Stop> {
    let balance = account::balance_at(session, call.slot);
    let amount = session.params.forged_evidence_penalty.min(balance);
    let left = balance.minus(amount)?;

    account::set_balance(session, call.slot, left);
    session.totals.shift(Flow { from: Part::Balances, to: Part::Burned, amount })?;
    session.emit(Event::PenaltyTaken { account: call.sender, amount });
    Ok(())
}
