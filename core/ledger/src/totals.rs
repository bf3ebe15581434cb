//! Where all the money is. The supply never changes after the genesis, so its parts are kept as
//! running totals, and every block ends with two questions: do the parts still add up to the
//! supply, and did the entries change by exactly what the totals say? The second one is an
//! independent count, so a mistake in either place stops the chain instead of making money.

use std::fmt;

use tg_types::Amount;
use tg_types::ids::Noun;

use crate::entry::{Entry, Held, entry};
use crate::error::ApplyError;

entry! {
    /// The parts of the supply.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Totals {
        /// All there is, fixed by the genesis.
        pub supply: Amount,
        /// Free to spend, over all accounts.
        pub balances: Amount,
        /// Locked for jobs.
        pub escrow: Amount,
        /// Staked.
        pub staked: Amount,
        /// On its way from stake to balance.
        pub unbonding: Amount,
        /// The treasury's.
        pub treasury: Amount,
        /// Out of circulation for good.
        pub burned: Amount,
    }
}

impl Entry for Totals {
    const NOUN: Noun = Noun::Totals;
}

/// A part of the supply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// All there is.
    Supply,
    /// Free to spend.
    Balances,
    /// Locked for jobs.
    Escrow,
    /// Staked.
    Staked,
    /// On its way from stake to balance.
    Unbonding,
    /// The treasury's.
    Treasury,
    /// Out of circulation for good.
    Burned,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Supply => "parts of the supply",
            Self::Balances => "balances",
            Self::Escrow => "escrows",
            Self::Staked => "stakes",
            Self::Unbonding => "unbonding stakes",
            Self::Treasury => "treasury",
            Self::Burned => "burned coins",
        })
    }
}

/// Money that changes its part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// What it was.
    pub(crate) from: Part,
    /// What it is now.
    pub(crate) to: Part,
    /// How much.
    pub(crate) amount: Amount,
}

impl Totals {
    /// Moves money between two parts.
    pub(crate) fn shift(&mut self, flow: Flow) -> Result<(), ApplyError> {
        let mut after = *self;
        *after.part_mut(flow.from) = after.part_mut(flow.from).minus(flow.amount)?;
        *after.part_mut(flow.to) = after.part_mut(flow.to).plus(flow.amount)?;
        *self = after;
        Ok(())
    }

    /// Adds new money to the supply; only the genesis does.
    pub(crate) fn issue(&mut self, part: Part, amount: Amount) -> Result<(), ApplyError> {
        let mut after = *self;
        after.supply = after.supply.plus(amount)?;
        *after.part_mut(part) = after.part_mut(part).plus(amount)?;
        *self = after;
        Ok(())
    }

    /// The sum of all parts but the supply, in base units.
    pub fn parts_sum(&self) -> u128 {
        [self.balances, self.escrow, self.staked, self.unbonding, self.treasury, self.burned]
            .into_iter()
            .map(|part| u128::from(part.units()))
            .sum()
    }

    /// Compares the totals with their own sum and with what happened to the entries.
    pub(crate) fn check(&self, count: &Count) -> Result<(), ApplyError> {
        let supply = u128::from(self.supply.units());
        let sum = self.parts_sum();
        if sum != supply {
            return Err(ApplyError::Unbalanced {
                part: Part::Supply,
                totals: supply,
                entries: sum,
            });
        }
        let (old, new) = (&count.totals_before, self);
        let (before, after) = (&count.held_before, &count.held_after);
        let parts = [
            (Part::Balances, old.balances, new.balances, before.balances, after.balances),
            (Part::Escrow, old.escrow, new.escrow, before.escrow, after.escrow),
            (Part::Staked, old.staked, new.staked, before.staked, after.staked),
            (Part::Unbonding, old.unbonding, new.unbonding, before.unbonding, after.unbonding),
        ];
        for (part, total_before, total_after, held_before, held_after) in parts {
            // Entries that the block did not touch hold total_before - held_before. The sums are
            // compared without subtracting, because a broken state may hold more than its total.
            let totals = u128::from(total_after.units());
            let sum = u128::from(total_before.units()) + held_after;
            if totals + held_before != sum {
                let entries = sum.saturating_sub(held_before);
                return Err(ApplyError::Unbalanced { part, totals, entries });
            }
        }
        Ok(())
    }

    fn part_mut(&mut self, part: Part) -> &mut Amount {
        match part {
            Part::Supply => &mut self.supply,
            Part::Balances => &mut self.balances,
            Part::Escrow => &mut self.escrow,
            Part::Staked => &mut self.staked,
            Part::Unbonding => &mut self.unbonding,
            Part::Treasury => &mut self.treasury,
            Part::Burned => &mut self.burned,
        }
    }
}

/// What a block did to the money in entries, counted entry by entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    /// The totals before the block.
    pub(crate) totals_before: Totals,
    /// Money in the touched entries before the block.
    pub(crate) held_before: Held,
    /// Money in the touched entries after the block.
    pub(crate) held_after: Held,
}

#[cfg(test)]
mod tests {
    use super::{Count, Flow, Held, Part, Totals};
    use crate::error::ApplyError;
    use tg_types::{Amount, AmountError};

    fn units(units: u64) -> Amount {
        Amount::new(units).expect("below the cap")
    }

    fn totals() -> Totals {
        let mut totals = Totals::default();
        totals.issue(Part::Balances, units(100)).expect("below the cap");
        totals.issue(Part::Treasury, units(5)).expect("below the cap");
        totals
    }

    #[test]
    fn shift_beyond_what_there_is_changes_nothing() {
        let mut totals = totals();
        let flow = Flow { from: Part::Balances, to: Part::Escrow, amount: units(101) };
        let (asked, held) = (units(101), units(100));
        let refused = ApplyError::Money(AmountError::Insufficient { asked, held });
        assert_eq!(totals.shift(flow), Err(refused));
        assert_eq!(totals, super::tests::totals());
    }

    #[test]
    fn check_finds_a_unit_too_many_in_every_part() {
        let before = totals();
        let mut after = before;
        for to in [Part::Escrow, Part::Staked, Part::Unbonding] {
            after.shift(Flow { from: Part::Balances, to, amount: units(10) }).expect("enough");
        }
        let held_before = Held { balances: 60, ..Held::default() };
        let held_after = Held { balances: 30, escrow: 10, staked: 10, unbonding: 10 };
        let check =
            |held_after| after.check(&Count { totals_before: before, held_before, held_after });
        assert_eq!(check(held_after), Ok(()));
        let unbalanced =
            |part, totals: u128| Err(ApplyError::Unbalanced { part, totals, entries: totals + 1 });
        let more = Held { balances: 31, ..held_after };
        assert_eq!(check(more), unbalanced(Part::Balances, 70));
        assert_eq!(check(Held { escrow: 11, ..held_after }), unbalanced(Part::Escrow, 10));
        assert_eq!(check(Held { staked: 11, ..held_after }), unbalanced(Part::Staked, 10));
        assert_eq!(check(Held { unbonding: 11, ..held_after }), unbalanced(Part::Unbonding, 10));
    }

    #[test]
    fn check_finds_parts_that_do_not_add_up() {
        let before = totals();
        let after = Totals { burned: units(1), ..before };
        let held = Held::default();
        let count = Count { totals_before: before, held_before: held, held_after: held };
        let expected = ApplyError::Unbalanced { part: Part::Supply, totals: 105, entries: 106 };
        assert_eq!(after.check(&count), Err(expected));
    }
}
