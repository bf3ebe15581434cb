//! Bugs that a run can be told to have, by name. They exist only with the feature `planted-bugs`;
//! without it there is nothing to choose from.

use tg_ledger::Rules;

#[cfg(feature = "planted-bugs")]
use tg_ledger::PlantedBug;

/// A bug put in on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// In the ledger.
    #[cfg(feature = "planted-bugs")]
    Ledger(PlantedBug),
    /// In the store of records: they are not synced.
    #[cfg(feature = "planted-bugs")]
    DropSync,
}

#[cfg(feature = "planted-bugs")]
impl Plant {
    /// Every bug.
    pub(crate) fn all() -> Vec<Self> {
        let ledger = PlantedBug::ALL.into_iter().map(Self::Ledger);
        std::iter::once(Self::DropSync).chain(ledger).collect()
    }

    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::DropSync => "drop-sync",
            Self::Ledger(bug) => match bug {
                PlantedBug::SkipNonce => "skip-nonce",
                PlantedBug::PayTwice => "pay-twice",
                PlantedBug::ForgedEvidence => "forged-evidence",
                PlantedBug::ForgetUnbonding => "forget-unbonding",
                PlantedBug::SlashActiveOnly => "slash-active-only",
                PlantedBug::BurnFeeTwice => "burn-fee-twice",
                PlantedBug::LoseRefund => "lose-refund",
                PlantedBug::KeepEscrow => "keep-escrow",
                PlantedBug::SkipOwner => "skip-owner",
                PlantedBug::TrustCertificates => "trust-certificates",
                PlantedBug::DropOnOneReport => "drop-on-one-report",
                PlantedBug::KeepAllFees => "keep-all-fees",
                PlantedBug::MintOnTransfer => "mint-on-transfer",
                PlantedBug::SkipSeal => "skip-seal",
                PlantedBug::SelfCheck => "self-check",
                PlantedBug::PayTwiceOnSettle => "pay-twice-on-settle",
                PlantedBug::ForgetBond => "forget-bond",
                PlantedBug::SlashHonest => "slash-honest",
                PlantedBug::SkipTurn => "skip-turn",
                PlantedBug::TrustOpenings => "trust-openings",
                PlantedBug::TrustTiles => "trust-tiles",
                PlantedBug::OneVoucher => "one-voucher",
                PlantedBug::OneJudge => "one-judge",
                PlantedBug::TrustProofs => "trust-proofs",
            },
        }
    }

    /// Puts the bug into a node's rules, if it belongs there.
    pub(crate) const fn adjust(self, rules: &mut Rules) {
        match self {
            Self::Ledger(bug) => rules.planted = Some(bug),
            Self::DropSync => {}
        }
    }

    /// Whether it shows only where results are checked and disputed.
    pub(crate) const fn is_in_court(self) -> bool {
        matches!(
            self,
            Self::Ledger(PlantedBug::SelfCheck | PlantedBug::SlashHonest | PlantedBug::SkipTurn)
        )
    }

    /// Whether records are not synced.
    pub(crate) fn drops_sync(self) -> bool {
        self == Self::DropSync
    }
}

#[cfg(not(feature = "planted-bugs"))]
impl Plant {
    /// Every bug: none in this build.
    pub(crate) const fn all() -> Vec<Self> {
        Vec::new()
    }

    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {}
    }

    /// Puts the bug into a node's rules.
    pub(crate) const fn adjust(self, _rules: &mut Rules) {
        match self {}
    }

    /// Whether it shows only where results are checked and disputed.
    pub(crate) const fn is_in_court(self) -> bool {
        match self {}
    }

    /// Whether records are not synced.
    pub(crate) const fn drops_sync(self) -> bool {
        match self {}
    }
}
