//! Accounts: a balance, and for every lane the nonce that comes next. Lanes let one sender have
//! several independent queues of transactions; a lane that was never used takes no space. An
//! account stays for ever once it has sent something, because its nonces are what keeps an old
//! transaction from being replayed.

use tg_types::ids::{AccountId, Noun};
use tg_types::tx::LANES_MAX;
use tg_types::{Amount, Decode, DecodeError, Encode, Event, Lane, Nonce, Reader, Reason};

use crate::entry::{Entry, Held, entry};
use crate::error::{Fail, Stop};
use crate::planted::planted;
use crate::session::{Call, Session};
use crate::table::Slot;
use crate::totals::Part;

entry! {
    /// An account.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct AccountEntry {
        /// Free to spend.
        pub balance: Amount,
        /// The next nonce of every lane.
        pub lanes: Lanes,
    }
}

impl Entry for AccountEntry {
    const NOUN: Noun = Noun::Account;

    fn held(&self) -> Held {
        Held { balances: self.balance.units().into(), ..Held::default() }
    }
}

/// The next nonce of every lane. Lanes that were never used start at nonce 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lanes([Nonce; LANE_COUNT]);

const LANE_COUNT: usize = LANES_MAX as usize;

// One bit per lane says in the byte form which lanes follow.
const _: () = assert!(LANE_COUNT == u8::BITS as usize);

impl Lanes {
    /// The nonce that the lane's next transaction must have.
    pub fn next(&self, lane: Lane) -> Nonce {
        self.0[usize::from(lane.get())]
    }

    /// The lanes that were used, with the nonce that comes next.
    pub fn used(&self) -> impl Iterator<Item = (usize, Nonce)> {
        self.0.into_iter().enumerate().filter(|(_, next)| *next != Nonce::ZERO)
    }

    fn set(&mut self, lane: Lane, next: Nonce) {
        self.0[usize::from(lane.get())] = next;
    }
}

impl Encode for Lanes {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.used().fold(0, |mask, (lane, _)| mask | 1 << lane));
        for (_, next) in self.used() {
            next.encode(out);
        }
    }
}

impl Decode for Lanes {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mask = reader.byte()?;
        let mut lanes = Self::default();
        for (lane, next) in lanes.0.iter_mut().enumerate() {
            if mask >> lane & 1 == 1 {
                *next = Nonce::decode(reader)?;
                if *next == Nonce::ZERO {
                    let expected = "next nonce of a used lane, not zero";
                    return Err(DecodeError::Range { at: reader.position(), expected });
                }
            }
        }
        Ok(lanes)
    }
}

/// What is free to spend at this place; an account that does not exist has nothing.
pub(crate) fn balance_at(session: &Session<'_>, slot: Slot) -> Amount {
    session.tables.accounts.at(slot).map_or(Amount::ZERO, |account| account.balance)
}

/// What is left of a balance after taking `amount`, or that it does not suffice.
pub(crate) fn balance_less(
    session: &Session<'_>,
    slot: Slot,
    amount: Amount,
) -> Result<Amount, Reason> {
    balance_at(session, slot).minus(amount).map_err(|_| Reason::BalanceTooLow)
}

/// Sets a balance that was checked before.
pub(crate) fn set_balance(session: &mut Session<'_>, slot: Slot, balance: Amount) {
    session.tables.accounts.at_mut(slot).get_or_insert_default().balance = balance;
}

/// Adds to a balance. The supply is capped, so a sum of balances always fits.
pub(crate) fn credit(session: &mut Session<'_>, slot: Slot, amount: Amount) -> Result<(), Stop> {
    if amount.is_zero() {
        return Ok(()); // an account is not made for nothing
    }
    let balance = balance_at(session, slot).plus(amount)?;
    set_balance(session, slot, balance);
    Ok(())
}

/// Takes the fee and moves the lane on; both were checked before.
pub(crate) fn charge(session: &mut Session<'_>, slot: Slot, charge: &Charge) {
    let account = session.tables.accounts.at_mut(slot).get_or_insert_default();
    account.balance = charge.balance;
    account.lanes.set(charge.lane, charge.next);
}

/// What an admitted transaction does to its sender before anything else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    /// The balance without the fee.
    pub(crate) balance: Amount,
    /// The lane that was used.
    pub(crate) lane: Lane,
    /// The lane's next nonce.
    pub(crate) next: Nonce,
}

/// Moves money to another account, which need not exist yet.
pub(crate) fn transfer(
    session: &mut Session<'_>,
    call: &Call,
    to: &AccountId,
    amount: Amount,
) -> Result<(), Fail> {
    if amount.is_zero() {
        return Err(Reason::AmountZero.into());
    }
    if *to == call.sender {
        return Err(Reason::SelfTransfer.into());
    }
    let left = balance_less(session, call.slot, amount)?;
    let receiver = session.tables.accounts.find(to.as_bytes())?;
    let raised = balance_at(session, receiver).plus(amount)?;

    set_balance(session, call.slot, left);
    set_balance(session, receiver, raised);
    if planted!(session.rules, PayTwice) {
        credit(session, receiver, amount)?;
    }
    if planted!(session.rules, MintOnTransfer) {
        credit(session, receiver, amount)?;
        session.totals.issue(Part::Balances, amount)?;
    }
    session.emit(Event::Transferred { from: call.sender, to: *to, amount });
    Ok(())
}
