//! Fees: what a transaction must offer at least, and who gets it. Fees are collected while the
//! block runs and shared out once at its end, so that nobody spends within a block what the block
//! itself earns, and so that rounding happens once: the burned and the treasury's share are
//! rounded down and the proposer's owner gets the rest to the last unit.

use std::collections::BTreeSet;

use tg_types::{Action, Amount, AmountError, Event, Params};

use crate::account;
use crate::error::Stop;
use crate::planted::planted;
use crate::session::Session;
use crate::totals::{Flow, Part};

/// What is paid for as a whole when a package is kept.
const MIB: u64 = 1 << 20;

/// The least fee for a transaction of this size with this action: for its bytes, for keeping the
/// packages it hands in, and for verifying the result it shows. A sum above the cap cannot be paid
/// by anybody, so the cap itself says the same.
pub fn floor(params: &Params, size_bytes: u32, action: &Action) -> Amount {
    try_floor(params, size_bytes, action).unwrap_or(Amount::CAP)
}

/// As [`floor`], for those who want to know that nobody can pay it.
///
/// # Errors
/// If it would be above the cap.
pub fn try_floor(params: &Params, size_bytes: u32, action: &Action) -> Result<Amount, AmountError> {
    let bytes = u64::from(size_bytes).saturating_add(action.bytes_repeated());
    let size = params.fee_floor_per_byte.times(bytes)?;
    let kept = params.jobs.keep_fee_per_mib.times(kept_mib(action))?;
    let verified = params.jobs.proof_fee.times(action.proof_cost().unwrap_or(0))?;
    size.plus(kept)?.plus(verified)
}

/// What showing a result had to cost, whatever else its vouchers name.
pub(crate) fn shown(params: &Params, size_bytes: u32, cost: u64, package_bytes: u64) -> Amount {
    let parts = [
        params.fee_floor_per_byte.times(size_bytes.into()),
        params.jobs.keep_fee_per_mib.times(package_bytes.div_ceil(MIB)),
        params.jobs.proof_fee.times(cost),
    ];
    let sum = parts.into_iter().try_fold(Amount::ZERO, |sum, part| sum.plus(part?));
    sum.unwrap_or(Amount::CAP)
}

/// How many MiB are begun by the different packages of an action's vouchers.
fn kept_mib(action: &Action) -> u64 {
    let packages = action.vouchers().iter().flat_map(|voucher| voucher.packages.as_slice());
    let packages: BTreeSet<_> = packages.collect();
    packages.iter().map(|package| package.bytes.div_ceil(MIB)).fold(0, u64::saturating_add)
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
    use tg_types::{
        Action, Amount, Hash32, JobParams, List, PackageRef, Params, SeatSignature, SeatSignatures,
        Signature, Voucher,
    };

    #[test]
    fn floor_grows_with_size_up_to_the_cap() {
        let params = |per_byte| Params { fee_floor_per_byte: per_byte, ..Params::local() };
        let check = |per_byte: Amount, size_bytes, expected: u64| {
            let action = Action::Stake { amount: Amount::ZERO };
            assert_eq!(floor(&params(per_byte), size_bytes, &action).units(), expected);
        };
        check(Amount::constant(7), 0, 0);
        check(Amount::constant(7), 300, 2_100);
        check(Amount::CAP, 1, Amount::CAP.units());
        check(Amount::CAP, u32::MAX, Amount::CAP.units());
    }

    #[test]
    fn floor_grows_with_every_mib_of_every_package_once() {
        let jobs = JobParams { keep_fee_per_mib: Amount::constant(100), ..Params::local().jobs };
        let params = Params { fee_floor_per_byte: Amount::constant(1), jobs, ..Params::local() };
        let voucher = |sizes: &[(u8, u64)]| {
            let package = |(id, bytes): &(u8, u64)| PackageRef {
                id: Hash32::new([*id; 32]),
                bytes: *bytes,
                key_escrow: None,
            };
            let signature = SeatSignature { seat: 0, signature: Signature::new([0; 64]) };
            Voucher {
                packages: List::new(sizes.iter().map(package).collect()).expect("a few"),
                signatures: SeatSignatures::new(vec![signature]).expect("one"),
            }
        };
        let check = |vouchers: Vec<Voucher>, expected: u64| {
            let vouchers = List::new(vouchers).expect("a few");
            let result = tg_types::tx::OpenedResult {
                job: tg_types::JobId::new([1; 32]),
                result: tg_types::RunResult {
                    output: Hash32::new([1; 32]),
                    trace: Hash32::new([1; 32]),
                    package: Hash32::new([1; 32]),
                    package_bytes: 1,
                },
                salt: [0; 32],
            };
            let results = List::new(vec![result]).expect("one");
            let action = Action::RevealResults { results, vouchers };
            assert_eq!(floor(&params, 1_000, &action).units(), expected);
        };
        let mib = 1 << 20;
        check(vec![], 1_000);
        check(vec![voucher(&[(1, 0)])], 1_000);
        check(vec![voucher(&[(1, 1)])], 1_100);
        check(vec![voucher(&[(1, mib)])], 1_100);
        check(vec![voucher(&[(1, mib + 1)])], 1_200);
        check(vec![voucher(&[(1, 1), (2, 2 * mib)]), voucher(&[(1, 1), (3, 1)])], 1_400);
        check(vec![voucher(&[(1, u64::MAX), (2, u64::MAX)])], 1_000 + 100 * 2 * (1 << 44));
        let jobs = JobParams { keep_fee_per_mib: Amount::CAP, ..params.jobs.clone() };
        let dear = Params { jobs, ..params.clone() };
        let action = Action::SubmitEvidence { evidence: tg_types::Bytes::EMPTY };
        assert_eq!(floor(&dear, 1_000, &action).units(), 1_000);
    }
}
