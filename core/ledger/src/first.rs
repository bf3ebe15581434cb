//! The first block writes the genesis. The engine starts with an empty database, so what the
//! genesis says about money, seats and parameters enters the state like everything else: as the
//! changes of a block, visible in its receipt.

use tg_types::{Amount, Event};

use crate::account::AccountEntry;
use crate::error::Stop;
use crate::keys;
use crate::params::ParamsEntry;
use crate::session::Session;
use crate::slash::ValidatorEntry;
use crate::stake::StakeEntry;
use crate::totals::Part;

/// Writes the genesis into an empty state.
pub(crate) fn write_genesis(session: &mut Session<'_>) -> Result<(), Stop> {
    let genesis = &session.rules.genesis;
    let params = genesis.params().clone();
    session.tables.params.put(&keys::ONLY, Some(ParamsEntry { params }))?;
    session.totals.issue(Part::Treasury, genesis.treasury())?;
    for seat in genesis.validators() {
        let validator = ValidatorEntry { owner: seat.owner, slashed: None };
        session.tables.validators.put(seat.key.as_bytes(), Some(validator))?;
        // Genesis seats have different owners, so nobody's stake is overwritten.
        let stake = StakeEntry { active: seat.stake, ..StakeEntry::default() };
        session.tables.stakes.put(seat.owner.as_bytes(), stake.unless_empty())?;
        session.totals.issue(Part::Staked, seat.stake)?;
        session.emit(Event::Staked { account: seat.owner, amount: seat.stake });
    }
    let credited = |(_, amount): &&(_, Amount)| !amount.is_zero();
    for (account, amount) in genesis.allocations().iter().filter(credited) {
        let entry = AccountEntry { balance: *amount, ..AccountEntry::default() };
        session.tables.accounts.put(account.as_bytes(), Some(entry))?;
        session.totals.issue(Part::Balances, *amount)?;
        session.emit(Event::AccountCredited { account: *account, amount: *amount });
    }
    Ok(())
}
