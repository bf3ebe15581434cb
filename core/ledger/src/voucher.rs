//! Which packages validators hold. A job or a result that names a package shows with it that a
//! quorum of seats has signed for it; see [`tg_types::voucher`]. A quorum contains more honest
//! validators than others whatever a third of them does, so seats that were slashed need no
//! exception, and everything here follows from the genesis and the transaction alone.

use std::collections::BTreeSet;

use tg_types::voucher::{PackageRef, Voucher, count_holders};
use tg_types::{CheckedTx, Reason};

use crate::absence::quorum;
use crate::planted::planted;
use crate::session::Session;

/// Signatures of vouchers that a block may hold. They are checked while the block is executed, so
/// this bounds the time that takes: about a tenth of a second.
pub const VOUCHER_SIGNATURES_PER_BLOCK_MAX: u32 = 2_048;

/// How many signatures of vouchers a transaction has.
pub(crate) fn signatures_of(tx: &CheckedTx) -> u32 {
    let vouchers = tx.body().action.vouchers().iter();
    let count = vouchers.map(|voucher| voucher.signatures.as_slice().len()).sum::<usize>();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The packages that the vouchers of a transaction show to be held.
pub(crate) struct Vouched(Option<BTreeSet<PackageRef>>);

impl Vouched {
    /// Checks vouchers, each once.
    pub(crate) fn by(session: &Session<'_>, vouchers: &[Voucher]) -> Self {
        if !session.params.jobs.is_vouched {
            return Self(None);
        }
        let rules = session.rules;
        let seats = rules.genesis.validators();
        let needed = if planted!(rules, OneVoucher) { 1 } else { quorum(seats.len()) };
        let counts = count_holders(&rules.domain, seats, vouchers);
        let is_enough = |count: Option<usize>| count.is_some_and(|count| count >= needed);
        let good = vouchers.iter().zip(counts).filter(|(_, count)| is_enough(*count));
        let packages = good.flat_map(|(voucher, _)| voucher.packages.as_slice());
        Self(Some(packages.copied().collect()))
    }

    /// Refuses a package that is not held, or whose key others keep than is said.
    pub(crate) fn check(&self, package: PackageRef) -> Result<(), Reason> {
        match &self.0 {
            Some(held) if !held.contains(&package) => Err(Reason::PackageNotHeld),
            Some(_) | None => Ok(()),
        }
    }
}
