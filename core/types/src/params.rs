//! The ledger's parameters: every number that decides about money, time or load, in one place.
//!
//! They are part of the genesis, so that two networks with different numbers have different genesis
//! hashes. The two sets of defaults differ in what a mistake costs: a local network is for trying
//! things out and is quick and cheap.

use crate::amount::{Amount, Bps};
use crate::tick::DurationMs;
use crate::tx::TX_BYTES_MAX;
use crate::wire;

wire! {
    /// All ledger parameters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Params {
        /// The least fee per byte of a transaction.
        pub fee_floor_per_byte: Amount,
        /// The share of fees that is burned.
        pub fee_burn_bps: Bps,
        /// The share of fees that goes into the treasury. The proposer's owner gets the rest.
        pub fee_treasury_bps: Bps,
        /// How long stake that was called back can still be slashed.
        pub unbonding: DurationMs,
        /// The least stake an account may have, if it has any.
        pub stake_min: Amount,
        /// The share of its stake that a validator loses for voting twice.
        pub slash_equivocation_bps: Bps,
        /// The share of what was lost that the reporter receives.
        pub slash_bounty_bps: Bps,
        /// What evidence that convicts nobody costs its sender, besides the fee.
        pub forged_evidence_penalty: Amount,
        /// The span in which validators report the nodes they did not see.
        pub absence_epoch: DurationMs,
        /// The longest a job may wait.
        pub job_expires_max: DurationMs,
        /// The most transactions in a block.
        pub block_tx_max: u32,
        /// The most bytes of transactions in a block.
        pub block_bytes_max: u32,
        /// The most transactions in a second of block time, besides what an idle second left over.
        pub tx_per_second_max: u32,
        /// How many blocks ahead a transaction may expire at most.
        pub expiry_heights_max: u64,
        /// How long an idempotency id is remembered.
        pub seen_retention: DurationMs,
        /// How much later than its parent a block may be.
        pub tick_step_max: DurationMs,
        /// How many things that fell due a block works off; the rest continues in the next.
        pub due_per_block_max: u32,
    }
}

/// Why parameters contradict each other or leave no room to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// Shares that add up to more than the whole.
    #[error("fee shares of {burn} and {treasury} are more than the whole")]
    FeeShares {
        /// The share burned.
        burn: Bps,
        /// The share of the treasury.
        treasury: Bps,
    },
    /// A number outside its bounds.
    #[error("{name} is {found}, expected {min}..={max}")]
    Bound {
        /// Which parameter.
        name: &'static str,
        /// Its number.
        found: u64,
        /// The least allowed.
        min: u64,
        /// The most allowed.
        max: u64,
    },
}

/// The largest block the engine is built to spread within a block's time.
pub const BLOCK_BYTES_MAX: u64 = 3 * 512 * 1024;
/// No duration is longer than ten years, so that sums with block times never overflow.
const DURATION_MAX: u64 = 3_650 * DurationMs::DAY.get();
/// What falls due is worked off within one block's time.
const DUE_PER_BLOCK_MAX: u64 = 65_536;
/// The most transactions in a block or a second, far above what the engine carries.
const TX_COUNT_MAX: u64 = 1_000_000;
/// A year of the quickest blocks.
const EXPIRY_HEIGHTS_MAX: u64 = 400_000_000;

impl Params {
    /// For a network on one machine or among friends: quick and cheap.
    pub const fn local() -> Self {
        Self {
            fee_floor_per_byte: Amount::constant(10),
            fee_burn_bps: Bps::constant(5_000),
            fee_treasury_bps: Bps::constant(1_000),
            unbonding: DurationMs::MINUTE,
            stake_min: Amount::constant(10_000_000_000),
            slash_equivocation_bps: Bps::constant(1_000),
            slash_bounty_bps: Bps::constant(500),
            forged_evidence_penalty: Amount::constant(1_000_000_000),
            absence_epoch: DurationMs::new(10_000),
            job_expires_max: DurationMs::DAY,
            block_tx_max: 2_000,
            block_bytes_max: 1024 * 1024,
            tx_per_second_max: 20_000,
            expiry_heights_max: 10_000,
            seen_retention: DurationMs::HOUR,
            tick_step_max: DurationMs::new(5_000),
            due_per_block_max: 4_000,
        }
    }

    /// For a network of strangers: stake is bound for longer than it takes to notice and report a
    /// double vote.
    pub const fn open() -> Self {
        Self {
            fee_floor_per_byte: Amount::constant(100),
            unbonding: DurationMs::new(14 * DurationMs::DAY.get()),
            stake_min: Amount::constant(1_000_000_000_000),
            slash_equivocation_bps: Bps::constant(2_000),
            forged_evidence_penalty: Amount::constant(10_000_000_000),
            absence_epoch: DurationMs::MINUTE,
            job_expires_max: DurationMs::new(7 * DurationMs::DAY.get()),
            block_tx_max: 2_000,
            block_bytes_max: 1024 * 1024,
            tx_per_second_max: 20_000,
            seen_retention: DurationMs::DAY,
            tick_step_max: DurationMs::new(10_000),
            ..Self::local()
        }
    }

    /// Refuses parameters with which the ledger could not work.
    pub fn check(&self) -> Result<(), ParamsError> {
        let (burn, treasury) = (self.fee_burn_bps, self.fee_treasury_bps);
        if burn.plus(treasury).is_err() {
            return Err(ParamsError::FeeShares { burn, treasury });
        }
        let tx_bytes = u64::try_from(TX_BYTES_MAX).unwrap_or(u64::MAX);
        let bounds = [
            ("unbonding", self.unbonding.get(), 1, DURATION_MAX),
            ("absence_epoch", self.absence_epoch.get(), 1, DURATION_MAX),
            ("job_expires_max", self.job_expires_max.get(), 1, DURATION_MAX),
            ("seen_retention", self.seen_retention.get(), 1, DURATION_MAX),
            ("tick_step_max", self.tick_step_max.get(), 1, DURATION_MAX),
            ("block_tx_max", self.block_tx_max.into(), 1, TX_COUNT_MAX),
            ("block_bytes_max", self.block_bytes_max.into(), tx_bytes, BLOCK_BYTES_MAX),
            ("tx_per_second_max", self.tx_per_second_max.into(), 1, TX_COUNT_MAX),
            ("expiry_heights_max", self.expiry_heights_max, 1, EXPIRY_HEIGHTS_MAX),
            ("due_per_block_max", self.due_per_block_max.into(), 1, DUE_PER_BLOCK_MAX),
        ];
        for (name, found, min, max) in bounds {
            if found < min || found > max {
                return Err(ParamsError::Bound { name, found, min, max });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Params, ParamsError};
    use crate::amount::Bps;
    use crate::tick::DurationMs;

    #[test]
    fn default_params_pass() {
        assert_eq!(Params::local().check(), Ok(()));
        assert_eq!(Params::open().check(), Ok(()));
    }

    #[test]
    fn params_that_share_more_than_the_whole_are_refused() {
        let params = Params { fee_burn_bps: Bps::WHOLE, ..Params::local() };
        assert!(matches!(params.check(), Err(ParamsError::FeeShares { .. })));
    }

    #[test]
    fn params_that_leave_no_room_are_refused() {
        let local = Params::local;
        let cases = [
            ("unbonding", Params { unbonding: DurationMs::ZERO, ..local() }),
            ("unbonding", Params { unbonding: DurationMs::MAX, ..local() }),
            ("absence_epoch", Params { absence_epoch: DurationMs::ZERO, ..local() }),
            ("job_expires_max", Params { job_expires_max: DurationMs::ZERO, ..local() }),
            ("seen_retention", Params { seen_retention: DurationMs::ZERO, ..local() }),
            ("tick_step_max", Params { tick_step_max: DurationMs::ZERO, ..local() }),
            ("block_tx_max", Params { block_tx_max: 0, ..local() }),
            ("block_bytes_max", Params { block_bytes_max: 16_383, ..local() }),
            ("block_bytes_max", Params { block_bytes_max: u32::MAX, ..local() }),
            ("tx_per_second_max", Params { tx_per_second_max: 0, ..local() }),
            ("expiry_heights_max", Params { expiry_heights_max: 0, ..local() }),
            ("due_per_block_max", Params { due_per_block_max: 0, ..local() }),
        ];
        for (expected, params) in cases {
            let error = params.check().expect_err("a bound is broken");
            assert!(
                matches!(error, ParamsError::Bound { name, .. } if name == expected),
                "{error}"
            );
        }
    }
}
