//! Stake: money that can be lost. Calling it back takes effect only after the unbonding time,
//! during which it can still be slashed; otherwise an offender would be gone before the evidence
//! arrives. The release needs no transaction: the due queue does it.

use tg_types::codec::encode_list;
use tg_types::ids::{AccountId, Noun};
use tg_types::{Amount, Decode, DecodeError, Encode, Event, Reader, Reason, Tick, wire};

use crate::account;
use crate::due::{self, DueItem};
use crate::entry::{Entry, Held, entry};
use crate::error::{ApplyError, Fail, Stop};
use crate::planted::planted;
use crate::session::{Call, Session};
use crate::totals::{Flow, Part};

/// Unbondings one account may have under way. Bounds the entry; an owner that needs more can wait
/// for the first release.
pub const UNBONDING_MAX: usize = 16;

entry! {
    /// An account's stake.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct StakeEntry {
        /// At stake until it is called back.
        pub active: Amount,
        /// Called back, but not released yet.
        pub unbonding: Unbondings,
        /// What of the active stake stands for work that is not settled yet.
        pub exposed: Amount,
    }
}

impl Entry for StakeEntry {
    const NOUN: Noun = Noun::Stake;

    fn held(&self) -> Held {
        let unbonding = self.unbonding.0.iter().map(|item| u128::from(item.amount.units())).sum();
        Held { staked: self.active.units().into(), unbonding, ..Held::default() }
    }
}

wire! {
    /// Stake that was called back.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Unbonding {
        /// How much.
        pub amount: Amount,
        /// When it is released.
        pub due: Tick,
    }
}

/// At most [`UNBONDING_MAX`] unbondings, in the order in which they were started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unbondings(Vec<Unbonding>);

impl Unbondings {
    /// The unbondings.
    pub fn as_slice(&self) -> &[Unbonding] {
        &self.0
    }

    /// All that is unbonding.
    pub fn total(&self) -> Result<Amount, ApplyError> {
        let sum = self.0.iter().try_fold(Amount::ZERO, |sum, item| sum.plus(item.amount))?;
        Ok(sum)
    }
}

impl Encode for Unbondings {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_list(&self.0, out);
    }
}

impl Decode for Unbondings {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.list(UNBONDING_MAX).map(Self)
    }
}

impl StakeEntry {
    /// A stake with nothing in it is not stored.
    pub(crate) fn unless_empty(self) -> Option<Self> {
        let is_empty = self.active.is_zero() && self.unbonding.0.is_empty();
        (!is_empty || !self.exposed.is_zero()).then_some(self)
    }

    /// What of the active stake stands for nothing yet.
    pub fn free(&self) -> Amount {
        self.active.minus(self.exposed).unwrap_or(Amount::ZERO)
    }

    /// The stake with so much more at risk.
    pub(crate) fn expose(&mut self, bond: Amount) -> Result<(), ApplyError> {
        self.exposed = self.exposed.plus(bond)?;
        Ok(())
    }

    /// The stake with so much less at risk.
    pub(crate) fn release(&mut self, bond: Amount) -> Result<(), ApplyError> {
        self.exposed = self.exposed.minus(bond)?;
        Ok(())
    }

    /// The stake without `loss`, and how much of the loss was active. What is active goes first,
    /// then what is unbonding, oldest first, because that would be out of reach soonest.
    pub(crate) fn without(mut self, loss: Amount) -> Result<(Self, Amount), ApplyError> {
        let from_active = loss.min(self.active);
        self.active = self.active.minus(from_active)?;
        let mut left = loss.minus(from_active)?;
        for item in &mut self.unbonding.0 {
            let taken = left.min(item.amount);
            item.amount = item.amount.minus(taken)?;
            left = left.minus(taken)?;
        }
        self.unbonding.0.retain(|item| !item.amount.is_zero());
        Ok((self, from_active))
    }
}

/// Puts money at stake.
pub(crate) fn stake(session: &mut Session<'_>, call: &Call, amount: Amount) -> Result<(), Fail> {
    if amount.is_zero() {
        return Err(Reason::AmountZero.into());
    }
    let left = account::balance_less(session, call.slot, amount)?;
    let slot = session.tables.stakes.find(call.sender.as_bytes())?;
    let held = session.tables.stakes.at(slot).map_or(Amount::ZERO, |stake| stake.active);
    let active = held.plus(amount)?;
    if active < session.params.stake_min {
        return Err(Reason::StakeTooLow.into());
    }

    account::set_balance(session, call.slot, left);
    session.tables.stakes.at_mut(slot).get_or_insert_default().active = active;
    session.totals.shift(Flow { from: Part::Balances, to: Part::Staked, amount })?;
    session.emit(Event::Staked { account: call.sender, amount });
    Ok(())
}

/// Calls stake back.
pub(crate) fn unstake(session: &mut Session<'_>, call: &Call, amount: Amount) -> Result<(), Fail> {
    if amount.is_zero() {
        return Err(Reason::AmountZero.into());
    }
    let slot = session.tables.stakes.find(call.sender.as_bytes())?;
    let mut stake = session.tables.stakes.at(slot).cloned().unwrap_or_default();
    let active = stake.active.minus(amount).map_err(|_| Reason::StakeMissing)?;
    if active < stake.exposed {
        return Err(Reason::StakeExposed.into());
    }
    if active < session.params.stake_min {
        // Seats are fixed by the genesis: one without stake would vote with nothing to lose.
        if session.rules.genesis.validators().iter().any(|seat| seat.owner == call.sender) {
            return Err(Reason::ValidatorLocked.into());
        }
        if !active.is_zero() {
            return Err(Reason::StakeTooLow.into());
        }
    }
    if stake.unbonding.0.len() >= UNBONDING_MAX {
        return Err(Reason::UnbondingFull.into());
    }
    let due = session.env.tick.plus(session.params.unbonding)?;

    stake.active = active;
    stake.unbonding.0.push(Unbonding { amount, due });
    *session.tables.stakes.at_mut(slot) = Some(stake);
    session.totals.shift(Flow { from: Part::Staked, to: Part::Unbonding, amount })?;
    session.emit(Event::UnbondingStarted { account: call.sender, amount, due });
    if !planted!(session.rules, ForgetUnbonding) {
        due::add(session, due, DueItem::ReleaseStake { account: call.sender })?;
    }
    Ok(())
}

/// Releases what has unbonded. Called once for every unbonding; whoever comes first takes all that
/// is due, and a later call may find nothing.
pub(crate) fn release(session: &mut Session<'_>, owner: &AccountId) -> Result<(), Stop> {
    let now = session.env.tick;
    let slot = session.tables.stakes.find(owner.as_bytes())?;
    let Some(mut stake) = session.tables.stakes.at(slot).cloned() else {
        return Ok(());
    };
    let mut amount = Amount::ZERO;
    for item in stake.unbonding.0.extract_if(.., |item| item.due <= now) {
        amount = amount.plus(item.amount)?;
    }
    if amount.is_zero() {
        return Ok(());
    }
    let account = session.tables.accounts.find(owner.as_bytes())?;

    account::credit(session, account, amount)?;
    *session.tables.stakes.at_mut(slot) = stake.unless_empty();
    session.totals.shift(Flow { from: Part::Unbonding, to: Part::Balances, amount })?;
    session.emit(Event::Unbonded { account: *owner, amount });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{StakeEntry, Unbonding, Unbondings};
    use tg_types::{Amount, Tick};

    fn stake(active: u64, unbonding: &[u64]) -> StakeEntry {
        let units = |units| Amount::new(units).expect("below the cap");
        let due = Tick::ZERO;
        let unbonding = unbonding.iter().map(|n| Unbonding { amount: units(*n), due }).collect();
        let exposed = Amount::ZERO;
        StakeEntry { active: units(active), unbonding: Unbondings(unbonding), exposed }
    }

    #[test]
    fn loss_takes_active_stake_first_then_the_oldest_unbonding() {
        let check = |loss, left: StakeEntry, from_active| {
            let loss = Amount::new(loss).expect("below the cap");
            let (after, taken) = stake(10, &[5, 7]).without(loss).expect("enough");
            assert_eq!((after, taken.units()), (left, from_active));
        };
        check(0, stake(10, &[5, 7]), 0);
        check(9, stake(1, &[5, 7]), 9);
        check(12, stake(0, &[3, 7]), 10);
        check(15, stake(0, &[7]), 10);
        check(16, stake(0, &[6]), 10);
        check(22, stake(0, &[]), 10);
    }
}
