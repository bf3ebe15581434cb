//! What a job costs. A quote and the escrow are the same sum, computed here and nowhere else: what
//! a client is told is what is locked, and what is locked is all that can be spent.

use super::save;
use tg_types::tx::TX_BYTES_MAX;
use tg_types::{Amount, Bps, Extent, JobSpec, Params, ShownBy, Tier};

/// What a job costs, part by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charges {
    /// Runs that are paid if all goes well.
    pub runs: u8,
    /// What one run is paid.
    pub pay: Amount,
    /// Checkers that are paid if the result is drawn and all are found.
    pub checkers: u8,
    /// What one checker is paid.
    pub check_pay: Amount,
    /// What each run gets for its transactions, or gets at most if its result is shown to be right
    /// at once.
    pub fees: Amount,
    /// What each check gets for its transactions: answers about tiles are long.
    pub check_fees: Amount,
    /// What of a run's pay each checker of tiles gets besides that had to recompute all of it,
    /// because the provider did not show its tiles.
    pub unshown: Amount,
    /// The share of results that is drawn.
    pub draw_share: Bps,
    /// What saving checkpoints costs at most; those that are not made are not paid.
    pub saves: Amount,
    /// What is locked; nothing costs more.
    pub escrow: Amount,
}

/// Transactions that a run or a check needs: a commitment and an opening.
pub(super) const STEPS: u64 = 2;

/// What a job costs whose checkers recompute so much of it; `None` if no amount is large enough.
pub fn charges(params: &Params, spec: &JobSpec, extent: Extent) -> Option<Charges> {
    let jobs = &params.jobs;
    let (checkers, share, draw_share) = match (spec.tier, extent) {
        (
            Tier::Trusted
            | Tier::Redundant { .. }
            | Tier::Proof { .. }
            | Tier::Rerun
            | Tier::Zk { .. },
            _,
        ) => (0, Bps::ZERO, Bps::ZERO),
        (Tier::Audit, Extent::Whole) => (jobs.audit_checkers, jobs.audit_pay, jobs.audit_share),
        (Tier::Audit, Extent::Tiles) => {
            (jobs.audit_checkers, jobs.audit_tiles_pay, jobs.audit_share)
        }
        (Tier::Sync, _) => (jobs.sync_checkers, jobs.sync_pay, Bps::WHOLE),
    };
    let fees = match spec.tier.shown_by(0) {
        Some(by) => proof_fee_max(params, by)?,
        None => jobs.step_fee.times(STEPS).ok()?,
    };
    let check_fees = match extent {
        Extent::Whole => fees,
        Extent::Tiles => {
            fees.plus(jobs.audit_tile_fee.times(jobs.audit_tiles.into()).ok()?).ok()?
        }
    };
    let check_pay = spec.pay.share_floor(share);
    let unshown = match extent {
        Extent::Whole => Amount::ZERO,
        Extent::Tiles => {
            let more =
                spec.pay.share_floor(jobs.audit_pay).minus(check_pay).unwrap_or(Amount::ZERO);
            // Whoever has done the work keeps some of its pay, whatever its checkers say.
            let most = spec.pay.units() / u64::from(checkers).saturating_add(1);
            more.share_floor(jobs.audit_unshown).min(Amount::new(most).ok()?)
        }
    };
    let (runs, pay, escrow) = (spec.runs(), spec.pay, Amount::ZERO);
    let parts = Charges {
        runs,
        pay,
        checkers,
        check_pay,
        fees,
        check_fees,
        unshown,
        draw_share,
        saves: Amount::ZERO,
        escrow,
    };
    let saves = save::fees_max(params, spec).ok()?;
    let escrow = parts.of(spec.runs_paid_max().into(), checkers.into())?.plus(saves).ok()?;
    Some(Charges { escrow, saves, ..parts })
}

/// The most that a transaction with a result and all that shows it costs; what it costs less goes
/// back to the client.
fn proof_fee_max(params: &Params, by: ShownBy) -> Option<Amount> {
    let bytes = u64::try_from(by.bytes_max() + TX_BYTES_MAX).ok()?;
    let verifying = params.jobs.proof_fee.times(params.jobs.proof_cost_max).ok()?;
    params.fee_floor_per_byte.times(bytes).ok()?.plus(verifying).ok()
}

impl Charges {
    /// What is charged when so many runs and checks are paid; `None` if that is more than an amount
    /// can be.
    pub fn of(&self, runs: usize, checks: usize) -> Option<Amount> {
        let each = |amount: Amount, fees: Amount, count: usize| {
            amount.plus(fees).ok()?.times(u64::try_from(count).ok()?).ok()
        };
        let checks = each(self.check_pay, self.check_fees, checks)?;
        each(self.pay, self.fees, runs)?.plus(checks).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::command;
    use super::charges;
    use tg_types::{Amount, Extent, Hash32, JobSpec, Params, Tier};

    #[test]
    fn escrow_is_the_most_that_can_be_charged() {
        let params = Params::local();
        let hash = Hash32::new([0; 32]);
        let spec = |tier| JobSpec { tier, ..command(100_000, 1_000) };
        let check = |(tier, extent), runs, checks, most: [usize; 2], total: u64| {
            let charges = charges(&params, &spec(tier), extent).expect("small");
            let unshown = if extent == Extent::Tiles { 30_000 } else { 0 };
            assert_eq!(charges.unshown.units(), unshown);
            assert_eq!((usize::from(charges.runs), usize::from(charges.checkers)), (runs, checks));
            assert_eq!(charges.of(most[0], most[1]), Some(charges.escrow));
            assert_eq!(charges.of(runs, checks).map(Amount::units), Some(total));
        };
        check((Tier::Trusted, Extent::Whole), 1, 0, [1, 0], 110_000);
        check((Tier::Audit, Extent::Whole), 1, 2, [1, 2], 270_000);
        // A tenth of the pay, two transactions and eight tiles for each of two checkers.
        check((Tier::Audit, Extent::Tiles), 1, 2, [1, 2], 110_000 + 2 * (10_000 + 130_000));
        check((Tier::Sync, Extent::Whole), 1, 7, [1, 7], 670_000);
        check((Tier::Redundant { replicas: 2 }, Extent::Whole), 2, 0, [3, 0], 220_000);
        let shown = 100_000 + 10 * 512 * 1_024 + 10 * 100_000;
        check((Tier::Proof { weights: hash }, Extent::Whole), 1, 0, [1, 0], shown);
        check((Tier::Rerun, Extent::Whole), 1, 0, [1, 0], shown);
        let hidden = 100_000 + 10 * 2_048 * 1_024 + 10 * 100_000;
        check((Tier::ZK, Extent::Whole), 1, 0, [1, 0], hidden);
    }

    #[test]
    fn provider_keeps_some_of_its_pay_however_many_checkers_recompute_it() {
        let mut params = Params::local();
        params.jobs.audit_unshown = tg_types::Bps::WHOLE;
        let spec = JobSpec { tier: Tier::Audit, ..command(100_000, 1_000) };
        for checkers in 1..=16 {
            params.jobs.audit_checkers = checkers;
            let charges = charges(&params, &spec, Extent::Tiles).expect("small");
            assert!(charges.unshown.units() * u64::from(checkers) < spec.pay.units());
        }
    }
}
