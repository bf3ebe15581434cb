//! The ledger's parameters: every number that decides about money, time or load, in one place.
//!
//! They are part of the genesis, so that two networks with different numbers have different genesis
//! hashes. The two sets of defaults differ in what a mistake costs: a local network is for trying
//! things out and is quick and cheap.

use crate::amount::{Amount, Bps};
use crate::job::{CHECK_ROUNDS_MAX, Extent, Tier};
use crate::tick::DurationMs;
use crate::tx::PROOF_TX_BYTES_MAX;
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
        /// Everything about jobs.
        pub jobs: JobParams,
        /// Everything about what nodes show of their capacity.
        pub capacity: CapacityParams,
    }
}

wire! {
    /// How nodes show that they have the memory and the speed they claim.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CapacityParams {
        /// The most blocks of 1 KiB that a node is asked to fill. 0: nobody is asked, and claims
        /// are believed.
        pub blocks_max: u32,
        /// The share of a device's claimed memory that is to be filled.
        pub share: Bps,
        /// How long filling may take.
        pub fill_within: DurationMs,
        /// How long showing the drawn blocks may take.
        pub answer_within: DurationMs,
        /// How long after a failure a node is asked again.
        pub pause: DurationMs,
        /// How many blocks are drawn.
        pub openings: u8,
        /// How often a node that has shown its capacity is asked again, per million beacons.
        pub again_per_million: u32,
        /// How many nodes one beacon asks or draws for.
        pub per_beacon_max: u32,
    }
}

impl CapacityParams {
    /// Nobody is asked, and claims are believed.
    pub const OFF: Self = Self { blocks_max: 0, ..Self::local() };

    /// One MiB: filled within milliseconds, so that the way is gone and nobody waits.
    const fn local() -> Self {
        Self {
            blocks_max: CAPACITY_BLOCKS_MIN,
            share: Bps::WHOLE,
            fill_within: DurationMs::new(10_000),
            answer_within: DurationMs::new(10_000),
            pause: DurationMs::new(10_000),
            openings: 3,
            again_per_million: 300,
            per_beacon_max: 256,
        }
    }

    /// Half of what is claimed, up to 4 GiB, within a minute. Of a memory of which a third is not
    /// there, twelve blocks find none in less than one case of a hundred.
    const fn open() -> Self {
        Self {
            blocks_max: CAPACITY_BLOCKS_MAX,
            share: Bps::constant(5_000),
            fill_within: DurationMs::MINUTE,
            answer_within: DurationMs::MINUTE,
            pause: DurationMs::new(10 * DurationMs::MINUTE.get()),
            openings: 12,
            again_per_million: 100,
            ..Self::local()
        }
    }

    fn bounds(&self) -> [(&'static str, u64, u64, u64); 7] {
        let least = if self.blocks_max == 0 { 0 } else { CAPACITY_BLOCKS_MIN.into() };
        [
            ("blocks_max", self.blocks_max.into(), least, CAPACITY_BLOCKS_MAX.into()),
            ("fill_within", self.fill_within.get(), 1, DURATION_MAX),
            ("capacity_answer_within", self.answer_within.get(), 1, DURATION_MAX),
            ("pause", self.pause.get(), 1, DURATION_MAX),
            ("openings", self.openings.into(), 1, OPENINGS_MAX),
            ("again_per_million", self.again_per_million.into(), 0, 1_000_000),
            ("per_beacon_max", self.per_beacon_max.into(), 1, WORK_MAX),
        ]
    }
}

wire! {
    /// The parameters of jobs: prices, bonds and times.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct JobParams {
        /// The least pay of a run, so that a slash of some runs' pay hurts.
        pub pay_min: Amount,
        /// The longest a run may take.
        pub run_max: DurationMs,
        /// How much later than a run may take its commitment may come: transfer and queues.
        pub run_grace: DurationMs,
        /// How long a node may take to show what it committed to, and either party of a dispute to
        /// go on.
        pub answer_within: DurationMs,
        /// How much longer than a run may take a check may take.
        pub check_grace: DurationMs,
        /// How many runs of a job may fail before it does.
        pub runs_failed_max: u8,
        /// The share of results that is drawn for an audit.
        pub audit_share: Bps,
        /// How many checkers an audit draws.
        pub audit_checkers: u8,
        /// How many checkers a result of tier sync has.
        pub sync_checkers: u8,
        /// How many rounds of checkers are drawn before a result counts as one nobody checks.
        pub rounds_max: u8,
        /// What a checker of an audit is paid, as a share of a run's pay.
        pub audit_pay: Bps,
        /// What a checker of tier sync is paid, as a share of a run's pay.
        pub sync_pay: Bps,
        /// From how many multiply-adds of a run on an audit recomputes drawn tiles of it. Below,
        /// the whole run is recomputed, which is shorter and stronger.
        pub audit_tiles_from: u64,
        /// How many tiles are drawn for each checker of such an audit. Fewer, if what shows them
        /// does not fit into a transaction.
        pub audit_tiles: u8,
        /// What a checker of such an audit is paid, as a share of a run's pay.
        pub audit_tiles_pay: Bps,
        /// What a checker of such an audit that had to recompute the whole run gets of what a check
        /// of the whole is paid more, out of the provider's pay: it has not shown its tiles.
        pub audit_unshown: Bps,
        /// What it gets besides for each tile: an answer has many bytes.
        pub audit_tile_fee: Amount,
        /// What a node gets for each transaction that a run or a check needs.
        pub step_fee: Amount,
        /// What a run puts at risk, in multiples of its pay.
        pub run_bond: u16,
        /// What a check puts at risk, in multiples of its pay.
        pub check_bond: u16,
        /// What an objection puts at risk.
        pub challenge_bond: Amount,
        /// The share of what a wrong result costs that whoever showed it receives.
        pub challenge_bounty: Bps,
        /// What not answering costs.
        pub fine: Amount,
        /// How long an absent node stays registered.
        pub absent_max: DurationMs,
        /// The most nodes: every placement looks at all of them.
        pub nodes_max: u32,
        /// How many waiting jobs a block looks at.
        pub placements_per_block_max: u32,
        /// How many results a block draws checkers for.
        pub draws_per_block_max: u32,
        /// Whether whoever names a package must show that a quorum of validators holds it.
        pub is_vouched: bool,
        /// What keeping a package costs whoever hands it in, for each MiB that is begun.
        pub keep_fee_per_mib: Amount,
        /// How long after the end of a job validators keep its packages.
        pub result_kept: DurationMs,
        /// How long after a result was accepted its owner may complain that it does not open.
        pub complain_within: DurationMs,
        /// How long validators may take to judge a complaint.
        pub complaint_judged_within: DurationMs,
        /// What a complaint puts at risk.
        pub complaint_bond: Amount,
        /// The share of its stake that a provider loses whose result does not open.
        pub complaint_slash_bps: Bps,
        /// What a microsecond of verifying a result costs whoever shows it, besides its bytes.
        pub proof_fee: Amount,
        /// The most microseconds that verifying one result may take.
        pub proof_cost_max: u64,
        /// The most microseconds that verifying all results of a block may take.
        pub proof_cost_per_block_max: u64,
        /// The most results that are verified in a block.
        pub proofs_per_block_max: u32,
        /// The most bytes of transactions with such results in a block.
        pub proof_bytes_per_block_max: u32,
        /// When runs have to yield.
        pub yields: YieldParams,
    }
}

wire! {
    /// When a run that is saved has to yield to a job that offers much more.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct YieldParams {
        /// How many octaves more: fewer would stop work for little.
        pub octaves: u8,
        /// How long a node may take to save the state once more and to end the run.
        pub within: DurationMs,
        /// How long a run is left alone after it was placed.
        pub after: DurationMs,
        /// How often a job has to yield; nobody does if it is 0.
        pub per_job_max: u8,
        /// How many runs are asked to yield in a block.
        pub per_block_max: u8,
    }
}

impl YieldParams {
    const LOCAL: Self = Self {
        octaves: 2,
        within: DurationMs::new(20_000),
        after: DurationMs::new(10_000),
        per_job_max: 4,
        per_block_max: 8,
    };

    const OPEN: Self =
        Self { within: DurationMs::MINUTE, after: DurationMs::MINUTE, ..Self::LOCAL };

    fn bounds(&self) -> [(&'static str, u64, u64, u64); 2] {
        [
            ("yields.octaves", self.octaves.into(), 1, YIELD_OCTAVES_MAX),
            ("yields.within", self.within.get(), 1, DURATION_MAX),
        ]
    }
}

impl JobParams {
    /// The share of the pay that is slashed is 20 times it: with a third of the checkers colluding
    /// a share of 7.1 % keeps lying unprofitable; 10 % are drawn.
    const fn local() -> Self {
        Self {
            pay_min: Amount::constant(1_000),
            run_max: DurationMs::HOUR,
            run_grace: DurationMs::new(10_000),
            answer_within: DurationMs::new(10_000),
            check_grace: DurationMs::new(10_000),
            runs_failed_max: 4,
            audit_share: Bps::constant(1_000),
            audit_checkers: 2,
            sync_checkers: 7,
            rounds_max: 3,
            audit_pay: Bps::constant(7_000),
            sync_pay: Bps::constant(7_000),
            audit_tiles_from: 1 << 36,
            audit_tiles: 8,
            audit_tiles_pay: Bps::constant(1_000),
            audit_unshown: Bps::constant(5_000),
            audit_tile_fee: Amount::constant(15_000),
            step_fee: Amount::constant(5_000),
            run_bond: 20,
            check_bond: 20,
            challenge_bond: Amount::constant(1_000_000_000),
            challenge_bounty: Bps::constant(5_000),
            fine: Amount::constant(1_000_000),
            absent_max: DurationMs::MINUTE,
            nodes_max: 4_096,
            placements_per_block_max: 1_024,
            draws_per_block_max: 1_024,
            is_vouched: true,
            keep_fee_per_mib: Amount::constant(1_000),
            result_kept: DurationMs::DAY,
            complain_within: DurationMs::HOUR,
            complaint_judged_within: DurationMs::new(30_000),
            complaint_bond: Amount::constant(100_000_000),
            complaint_slash_bps: Bps::constant(100),
            proof_fee: Amount::constant(10),
            proof_cost_max: 100_000,
            proof_cost_per_block_max: 100_000,
            proofs_per_block_max: 4,
            proof_bytes_per_block_max: 2 * 1024 * 1024,
            yields: YieldParams::LOCAL,
        }
    }

    /// Times for machines far from each other, and a challenge that is worth more.
    const fn open() -> Self {
        Self {
            pay_min: Amount::constant(10_000),
            run_max: DurationMs::DAY,
            run_grace: DurationMs::MINUTE,
            answer_within: DurationMs::MINUTE,
            check_grace: DurationMs::MINUTE,
            audit_tiles: 16,
            audit_tile_fee: Amount::constant(150_000),
            step_fee: Amount::constant(50_000),
            challenge_bond: Amount::constant(10_000_000_000),
            fine: Amount::constant(10_000_000),
            absent_max: DurationMs::new(10 * DurationMs::MINUTE.get()),
            keep_fee_per_mib: Amount::constant(10_000),
            result_kept: DurationMs::new(7 * DurationMs::DAY.get()),
            complain_within: DurationMs::DAY,
            complaint_judged_within: DurationMs::new(10 * DurationMs::MINUTE.get()),
            complaint_bond: Amount::constant(1_000_000_000),
            proof_fee: Amount::constant(100),
            yields: YieldParams::OPEN,
            ..Self::local()
        }
    }

    /// How much of a run that takes so many multiply-adds checkers of a tier recompute.
    pub const fn extent(&self, tier: Tier, multiply_adds: u64) -> Extent {
        match tier {
            Tier::Audit if multiply_adds >= self.audit_tiles_from => Extent::Tiles,
            Tier::Trusted
            | Tier::Audit
            | Tier::Sync
            | Tier::Redundant { .. }
            | Tier::Proof { .. }
            | Tier::Rerun
            | Tier::Zk { .. } => Extent::Whole,
        }
    }

    /// The most runs of a job that needs one.
    pub const fn runs_max(&self) -> u8 {
        self.runs_failed_max.saturating_add(1)
    }

    /// How long after a job's end all complaints about it are over.
    pub const fn complaints_last(&self) -> DurationMs {
        let sum = self.complain_within.get().saturating_add(self.complaint_judged_within.get());
        DurationMs::new(sum)
    }

    fn bounds(&self) -> [(&'static str, u64, u64, u64); 24] {
        let proof_bytes = u64::try_from(PROOF_TX_BYTES_MAX).unwrap_or(u64::MAX);
        let (cost, per_block) = (self.proof_cost_max, self.proof_cost_per_block_max);
        let bytes_per_block = self.proof_bytes_per_block_max.into();
        [
            ("pay_min", self.pay_min.units(), 1, Amount::CAP.units()),
            ("run_max", self.run_max.get(), 1, DURATION_MAX),
            ("run_grace", self.run_grace.get(), 1, DURATION_MAX),
            ("answer_within", self.answer_within.get(), 1, DURATION_MAX),
            ("check_grace", self.check_grace.get(), 1, DURATION_MAX),
            ("absent_max", self.absent_max.get(), 1, DURATION_MAX),
            ("runs_failed_max", self.runs_failed_max.into(), 1, RUNS_FAILED_MAX),
            ("audit_checkers", self.audit_checkers.into(), 1, CHECKERS_MAX),
            ("sync_checkers", self.sync_checkers.into(), 1, CHECKERS_MAX),
            ("audit_tiles", self.audit_tiles.into(), 1, AUDIT_TILES_MAX),
            ("rounds_max", self.rounds_max.into(), 1, ROUNDS_MAX),
            ("run_bond", self.run_bond.into(), 1, BOND_MAX),
            ("check_bond", self.check_bond.into(), 1, BOND_MAX),
            ("nodes_max", self.nodes_max.into(), 1, NODES_MAX),
            ("placements_per_block_max", self.placements_per_block_max.into(), 1, WORK_MAX),
            ("draws_per_block_max", self.draws_per_block_max.into(), 1, WORK_MAX),
            ("complain_within", self.complain_within.get(), 1, DURATION_MAX),
            ("complaint_judged_within", self.complaint_judged_within.get(), 1, DURATION_MAX),
            // Whoever judges a complaint needs the package.
            ("result_kept", self.result_kept.get(), self.complaints_last().get(), DURATION_MAX),
            ("complaint_bond", self.complaint_bond.units(), 1, Amount::CAP.units()),
            ("proof_cost_max", cost, 1, PROOF_COST_MAX),
            // Whatever a job may ask for must find room in a block.
            ("proof_cost_per_block_max", per_block, cost, PROOF_COST_MAX),
            ("proofs_per_block_max", self.proofs_per_block_max.into(), 1, PROOFS_MAX),
            ("proof_bytes_per_block_max", bytes_per_block, proof_bytes, BLOCK_BYTES_MAX),
        ]
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

/// Offers are told apart in so many octaves.
const YIELD_OCTAVES_MAX: u64 = 15;

/// The largest block the engine is built to spread within a block's time.
pub const BLOCK_BYTES_MAX: u64 = 5 * 512 * 1024;
/// No duration is longer than ten years, so that sums with block times never overflow.
const DURATION_MAX: u64 = 3_650 * DurationMs::DAY.get();
/// What falls due is worked off within one block's time, and its events fit in a block's receipt.
const DUE_PER_BLOCK_MAX: u64 = 8_192;
/// The most transactions in a block or a second, far above what the engine carries.
const TX_COUNT_MAX: u64 = 1_000_000;
/// Failed runs stay in a job's record, and a job of sealed data names a commitment for each run.
pub const RUNS_FAILED_MAX: u64 = 8;
/// Checkers of a round; with the rounds they stay in a job's record.
const CHECKERS_MAX: u64 = 16;
/// Tiles of a checker: what shows more of them does not fit into a transaction.
const AUDIT_TILES_MAX: u64 = 64;
/// Verifying results must leave a block's time for everything else: a second at most.
const PROOF_COST_MAX: u64 = 1_000_000;
/// Results that are verified in a block; more do not fit into it.
const PROOFS_MAX: u64 = 64;
/// Rounds of checkers: a trace has so many keys.
const ROUNDS_MAX: u64 = CHECK_ROUNDS_MAX as u64;
/// Bonds of more than a thousand times the pay lock providers out.
const BOND_MAX: u64 = 1_000;
/// Nodes that a placement can look at within a block's time.
const NODES_MAX: u64 = 65_536;
/// Placements and draws within a block's time; their events fit in a block's receipt.
const WORK_MAX: u64 = 8_192;
/// 1 MiB of blocks: the least that the engine fills.
const CAPACITY_BLOCKS_MIN: u32 = 1 << 10;
/// 4 GiB of blocks: the most that the engine fills.
const CAPACITY_BLOCKS_MAX: u32 = 1 << 22;
/// Blocks that are shown: more would cost a node more fees than its work brings.
const OPENINGS_MAX: u64 = 64;
/// A year of the quickest blocks.
const EXPIRY_HEIGHTS_MAX: u64 = 400_000_000;

impl Params {
    /// For a network on one machine or among friends: quick and cheap.
    pub const fn local() -> Self {
        Self {
            fee_floor_per_byte: Amount::constant(10),
            fee_burn_bps: Bps::constant(5_000),
            fee_treasury_bps: Bps::constant(1_000),
            unbonding: DurationMs::new(2 * DurationMs::HOUR.get()),
            stake_min: Amount::constant(10_000_000_000),
            slash_equivocation_bps: Bps::constant(1_000),
            slash_bounty_bps: Bps::constant(500),
            forged_evidence_penalty: Amount::constant(1_000_000_000),
            absence_epoch: DurationMs::new(1_000),
            job_expires_max: DurationMs::DAY,
            block_tx_max: 2_000,
            block_bytes_max: 5 * 512 * 1024,
            tx_per_second_max: 20_000,
            expiry_heights_max: 10_000,
            seen_retention: DurationMs::HOUR,
            tick_step_max: DurationMs::new(5_000),
            due_per_block_max: 4_000,
            jobs: JobParams::local(),
            capacity: CapacityParams::local(),
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
            absence_epoch: DurationMs::new(5_000),
            job_expires_max: DurationMs::new(7 * DurationMs::DAY.get()),
            block_tx_max: 2_000,
            block_bytes_max: 5 * 512 * 1024,
            tx_per_second_max: 20_000,
            seen_retention: DurationMs::DAY,
            tick_step_max: DurationMs::new(10_000),
            jobs: JobParams::open(),
            capacity: CapacityParams::open(),
            ..Self::local()
        }
    }

    /// Refuses parameters with which the ledger could not work.
    pub fn check(&self) -> Result<(), ParamsError> {
        let (burn, treasury) = (self.fee_burn_bps, self.fee_treasury_bps);
        if burn.plus(treasury).is_err() {
            return Err(ParamsError::FeeShares { burn, treasury });
        }
        // Whatever may be sent must find room in a block.
        let tx_bytes = u64::try_from(PROOF_TX_BYTES_MAX).unwrap_or(u64::MAX);
        // Stake must not leave before what it stands for can no longer be complained about.
        let unbonding_min = self.jobs.complaints_last().get();
        let bounds = [
            ("unbonding", self.unbonding.get(), unbonding_min, DURATION_MAX),
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
        for (name, found, min, max) in bounds
            .into_iter()
            .chain(self.jobs.bounds())
            .chain(self.jobs.yields.bounds())
            .chain(self.capacity.bounds())
        {
            if found < min || found > max {
                return Err(ParamsError::Bound { name, found, min, max });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{CapacityParams, JobParams, Params, ParamsError};
    use crate::amount::{Amount, Bps};
    use crate::job::{Extent, Tier};
    use crate::tick::DurationMs;

    #[test]
    fn default_params_pass() {
        assert_eq!(Params::local().check(), Ok(()));
        assert_eq!(Params::open().check(), Ok(()));
        let off = Params { capacity: CapacityParams::OFF, ..Params::open() };
        assert_eq!(off.check(), Ok(()));
    }

    #[test]
    fn audits_go_by_tiles_from_the_threshold_on() {
        let jobs = Params::local().jobs;
        for (tier, multiply_adds, expected) in [
            (Tier::Audit, 1_000_000, Extent::Whole),
            (Tier::Audit, jobs.audit_tiles_from - 1, Extent::Whole),
            (Tier::Audit, jobs.audit_tiles_from, Extent::Tiles),
            (Tier::Audit, u64::MAX, Extent::Tiles),
            (Tier::Sync, u64::MAX, Extent::Whole),
            (Tier::Trusted, u64::MAX, Extent::Whole),
            (Tier::Proof { weights: crate::ids::Hash32::new([0; 32]) }, u64::MAX, Extent::Whole),
            (Tier::Rerun, u64::MAX, Extent::Whole),
            (Tier::ZK, u64::MAX, Extent::Whole),
            (Tier::Redundant { replicas: 2 }, u64::MAX, Extent::Whole),
        ] {
            assert_eq!(jobs.extent(tier, multiply_adds), expected, "{tier:?} {multiply_adds}");
        }
    }

    #[test]
    fn params_that_share_more_than_the_whole_are_refused() {
        let params = Params { fee_burn_bps: Bps::WHOLE, ..Params::local() };
        assert!(matches!(params.check(), Err(ParamsError::FeeShares { .. })));
    }

    fn job_cases() -> Vec<(&'static str, Params)> {
        let with = |name, change: fn(&mut JobParams)| {
            let mut params = Params::local();
            change(&mut params.jobs);
            (name, params)
        };
        vec![
            with("pay_min", |jobs| jobs.pay_min = Amount::ZERO),
            with("run_max", |jobs| jobs.run_max = DurationMs::ZERO),
            with("run_grace", |jobs| jobs.run_grace = DurationMs::MAX),
            with("answer_within", |jobs| jobs.answer_within = DurationMs::ZERO),
            with("check_grace", |jobs| jobs.check_grace = DurationMs::ZERO),
            with("absent_max", |jobs| jobs.absent_max = DurationMs::ZERO),
            with("runs_failed_max", |jobs| jobs.runs_failed_max = 9),
            with("audit_checkers", |jobs| jobs.audit_checkers = 0),
            with("sync_checkers", |jobs| jobs.sync_checkers = 17),
            with("audit_tiles", |jobs| jobs.audit_tiles = 0),
            with("audit_tiles", |jobs| jobs.audit_tiles = 65),
            with("rounds_max", |jobs| jobs.rounds_max = 5),
            with("run_bond", |jobs| jobs.run_bond = 0),
            with("check_bond", |jobs| jobs.check_bond = 1_001),
            with("nodes_max", |jobs| jobs.nodes_max = 0),
            with("placements_per_block_max", |jobs| jobs.placements_per_block_max = 8_193),
            with("draws_per_block_max", |jobs| jobs.draws_per_block_max = 0),
            with("complain_within", |jobs| jobs.complain_within = DurationMs::ZERO),
            with("unbonding", |jobs| jobs.complain_within = DurationMs::DAY),
            with("unbonding", |jobs| jobs.complain_within = DurationMs::MAX),
            with("complaint_judged_within", |jobs| jobs.complaint_judged_within = DurationMs::ZERO),
            with("unbonding", |jobs| jobs.complaint_judged_within = DurationMs::DAY),
            with("result_kept", |jobs| jobs.result_kept = jobs.complain_within),
            with("result_kept", |jobs| jobs.result_kept = DurationMs::MAX),
            with("complaint_bond", |jobs| jobs.complaint_bond = Amount::ZERO),
            with("proof_cost_max", |jobs| jobs.proof_cost_max = 0),
            with("proof_cost_per_block_max", |jobs| {
                jobs.proof_cost_per_block_max = jobs.proof_cost_max - 1;
            }),
            with("proof_cost_per_block_max", |jobs| jobs.proof_cost_per_block_max = 1_000_001),
            with("proofs_per_block_max", |jobs| jobs.proofs_per_block_max = 0),
            with("proof_bytes_per_block_max", |jobs| jobs.proof_bytes_per_block_max = 1 << 20),
        ]
    }

    fn capacity_cases() -> Vec<(&'static str, Params)> {
        let with = |name, change: fn(&mut CapacityParams)| {
            let mut params = Params::open();
            change(&mut params.capacity);
            (name, params)
        };
        vec![
            with("blocks_max", |it| it.blocks_max = 1_023),
            with("blocks_max", |it| it.blocks_max = (1 << 22) + 1),
            with("fill_within", |it| it.fill_within = DurationMs::ZERO),
            with("capacity_answer_within", |it| it.answer_within = DurationMs::MAX),
            with("pause", |it| it.pause = DurationMs::ZERO),
            with("openings", |it| it.openings = 0),
            with("openings", |it| it.openings = 65),
            with("again_per_million", |it| it.again_per_million = 1_000_001),
            with("per_beacon_max", |it| it.per_beacon_max = 0),
        ]
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
            ("block_bytes_max", Params { block_bytes_max: (2 << 20) - 1, ..local() }),
            ("block_bytes_max", Params { block_bytes_max: u32::MAX, ..local() }),
            ("tx_per_second_max", Params { tx_per_second_max: 0, ..local() }),
            ("expiry_heights_max", Params { expiry_heights_max: 0, ..local() }),
            ("due_per_block_max", Params { due_per_block_max: 0, ..local() }),
            ("due_per_block_max", Params { due_per_block_max: 8_193, ..local() }),
        ];
        for (expected, params) in cases.into_iter().chain(job_cases()).chain(capacity_cases()) {
            let error = params.check().expect_err("a bound is broken");
            assert!(
                matches!(error, ParamsError::Bound { name, .. } if name == expected),
                "{error}"
            );
        }
    }
}
