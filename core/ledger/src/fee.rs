//! Fees: what a transaction must offer at least, and who gets it. Fees are collected while the
//! block runs and shared out once at its end, so that nobody spends within a block what the block
//! itself earns, and so that rounding happens once: the burned and the treasury's share are
//! rounded down and the proposer's owner gets the rest to the last unit.

use tg_types::{Amount, Event, Params};

use crate::account;
use crate::error::Stop;
use crate::planted::planted;
use crate::session::Session;
use crate::totals::{Flow, Part};

/// The least fee for a transaction of this size. A product above the cap cannot be paid by
/// anybody, so the cap itself says the same.
pub fn floor(params: &Params, size_bytes: u32) -> Amount {
    params.fee_floor_per_byte.times(size_bytes.into()).unwrap_or(Amount::CAP)
}

/// Shares the block's fees out.
pub(crate) fn share(session: &mut Session<'_>) -> Result<(), Stop> {
    let fees = session.fees;
    if fees.is_zero() {
        return Ok(());
    }
    let mut burned = fees.share_floor(session.params.fee_burn_bps);
    let mut treasury = fees.share_floor(session.params.fee_treasury_bps);
    if planted!(session.rules, KeepAllFees) {
        (burned, treasury) = (Amount::ZERO, Amount::ZERO);
    }
    let earned = fees.minus(burned)?.minus(treasury)?;
    let owner = session.proposer_owner;
    let slot = session.tables.accounts.find(owner.as_bytes())?;

    account::credit(session, slot, earned)?;
    let (from, to) = (Part::Balances, Part::Burned);
    session.totals.shift(Flow { from, to, amount: burned })?;
    session.totals.shift(Flow { from, to: Part::Treasury, amount: treasury })?;
    if planted!(session.rules, BurnFeeTwice) {
        session.totals.shift(Flow { from, to, amount: burned })?;
    }
    session.emit(Event::FeesShared { proposer: owner, earned, burned, treasury });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::floor;
    use tg_types::{Amount, Params};

    #[test]
    fn floor_grows_with_size_up_to_the_cap() {
        let params = |per_byte| Params { fee_floor_per_byte: per_byte, ..Params::local() };
        let check = |per_byte: Amount, size_bytes, expected: u64| {
            assert_eq!(floor(&params(per_byte), size_bytes).units(), expected);
        };
        check(Amount::constant(7), 0, 0);
        check(Amount::constant(7), 300, 2_100);
        check(Amount::CAP, 1, Amount::CAP.units());
        check(Amount::CAP, u32::MAX, Amount::CAP.units());
    }
}
