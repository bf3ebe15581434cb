//! Bugs that are put in on purpose. A simulator that never failed proves little; with the feature
//! `planted-bugs` a run can be told to make one of these mistakes, and must notice. Without the
//! feature nothing of this exists: `planted!` is then the literal `false`.

/// One mistake a ledger can be told to make.
#[cfg(feature = "planted-bugs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// Any nonce is accepted, so that a transaction can be replayed.
    SkipNonce,
    /// The receiver of a transfer is credited twice.
    PayTwice,
    /// A transfer pays twice, and the totals are raised to match: only the supply tells.
    MintOnTransfer,
    /// Evidence that fails its check is believed; its first 32 bytes name the offender.
    ForgedEvidence,
    /// Unstaked money is never queued for release.
    ForgetUnbonding,
    /// Slashing spares what is unbonding, so that an offender escapes by unstaking first.
    SlashActiveOnly,
    /// The burned part of the fees is counted twice.
    BurnFeeTwice,
    /// A cancelled job's escrow is not returned.
    LoseRefund,
    /// A closed job keeps its escrow although it was returned.
    KeepEscrow,
    /// Anybody may cancel anybody's job.
    SkipOwner,
    /// Certificates are recorded as beacons without being checked.
    TrustCertificates,
    /// One validator's word is enough to drop a node.
    DropOnOneReport,
    /// The proposer's owner gets all of the fees, and nothing is burned.
    KeepAllFees,
    /// What is shown is not held against what was committed to.
    SkipSeal,
    /// The owner of a run may be drawn to check it.
    SelfCheck,
    /// A provider is paid twice when its job is settled.
    PayTwiceOnSettle,
    /// A bond is never released.
    ForgetBond,
    /// Evidence that upholds a result refutes it.
    SlashHonest,
    /// The provider may answer in a dispute when it is not its turn.
    SkipTurn,
    /// Blocks of a filled memory are believed unseen. The simulator does not fill memories, so
    /// only the ledger's own tests notice it.
    TrustOpenings,
    /// One validator's signature is enough for a voucher. Simulated networks ask for no vouchers,
    /// so only the ledger's own tests notice it.
    OneVoucher,
    /// Digests of drawn tiles are believed unseen.
    TrustTiles,
    /// One validator's word decides a complaint. Only the ledger's own tests notice it.
    OneJudge,
    /// Results are believed whatever shows them. Simulated networks prove nothing, so only the
    /// ledger's own tests notice it.
    TrustProofs,
}

#[cfg(feature = "planted-bugs")]
impl PlantedBug {
    /// Every bug, for runs that try them all.
    pub const ALL: [Self; 19] = [
        Self::SkipNonce,
        Self::PayTwice,
        Self::MintOnTransfer,
        Self::ForgedEvidence,
        Self::ForgetUnbonding,
        Self::SlashActiveOnly,
        Self::BurnFeeTwice,
        Self::LoseRefund,
        Self::KeepEscrow,
        Self::SkipOwner,
        Self::TrustCertificates,
        Self::DropOnOneReport,
        Self::KeepAllFees,
        Self::SkipSeal,
        Self::SelfCheck,
        Self::PayTwiceOnSettle,
        Self::ForgetBond,
        Self::SlashHonest,
        Self::SkipTurn,
    ];
}

/// Whether the given rules ask for the given mistake.
#[cfg(feature = "planted-bugs")]
macro_rules! planted {
    ($rules:expr, $bug:ident) => {
        $rules.planted == Some($crate::planted::PlantedBug::$bug)
    };
}

/// Whether the given rules ask for the given mistake: never.
#[cfg(not(feature = "planted-bugs"))]
macro_rules! planted {
    ($rules:expr, $bug:ident) => {
        false
    };
}

pub(crate) use planted;
