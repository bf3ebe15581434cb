//! Why a block cannot be applied. A transaction that fails is no error: it leaves a receipt. An
//! error here means that the block must not exist, that entries are missing, or that the state
//! itself is broken.

use tg_types::ids::{AccountId, StateKey};
use tg_types::{AmountError, DecodeError, Height, Reason, Tick, TimeError};

use crate::totals::Part;

/// Why a block cannot be applied or built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The view has not loaded these entries, sorted. Load them and call again.
    #[error("{} entries are not loaded", .0.len())]
    Missing(Vec<StateKey>),
    /// A transaction must not be in this block.
    #[error("transaction {index} is not admissible: {reason}")]
    InadmissibleTx {
        /// Which transaction of the block.
        index: usize,
        /// Why.
        reason: Reason,
    },
    /// The block does not follow the last one.
    #[error("block has height {found}, expected {expected}")]
    WrongHeight {
        /// The block's height.
        found: Height,
        /// The height that follows the state.
        expected: Height,
    },
    /// The block's time goes back, or jumps too far.
    #[error("block time {found} is not within {earliest} and {latest}")]
    BadTick {
        /// The block's time.
        found: Tick,
        /// The earliest time allowed.
        earliest: Tick,
        /// The latest time allowed.
        latest: Tick,
    },
    /// The parent's time is not the one the state remembers.
    #[error("parent time is said to be {found}, the state has {expected}")]
    WrongParentTick {
        /// The parent time given.
        found: Tick,
        /// The parent time in the state.
        expected: Tick,
    },
    /// The proposer has no seat.
    #[error("proposer {0} has no seat")]
    UnknownProposer(AccountId),
    /// More transactions than a block may hold.
    #[error("{count} transactions, at most {max} fit in a block")]
    TooManyTxs {
        /// How many there are.
        count: usize,
        /// How many are allowed.
        max: u32,
    },
    /// More transactions than the time since the parent allows.
    #[error("{count} transactions, at most {max} are allowed this soon after the parent")]
    TooFast {
        /// How many there are.
        count: usize,
        /// How many are allowed.
        max: u64,
    },
    /// More transaction bytes than a block may hold.
    #[error("{bytes} bytes of transactions, at most {max} fit in a block")]
    TooManyBytes {
        /// How many bytes there are.
        bytes: u64,
        /// How many are allowed.
        max: u32,
    },
    /// More results to verify than a block may hold, by their number, cost or bytes.
    #[error("{count} results to verify in {cost} microseconds and {bytes} bytes are too much")]
    TooManyProofs {
        /// How many there are.
        count: u32,
        /// What verifying them takes.
        cost: u64,
        /// The bytes of their transactions.
        bytes: u64,
    },
    /// More signatures of vouchers than a block may hold.
    #[error("{signatures} signatures of vouchers, at most {max} fit in a block")]
    TooManySignatures {
        /// How many there are.
        signatures: u32,
        /// How many are allowed.
        max: u32,
    },
    /// More jobs are submitted than a block may take in.
    #[error("{jobs} jobs are submitted, at most {max} fit in a block")]
    TooManyJobs {
        /// How many there are.
        jobs: u32,
        /// How many are allowed.
        max: u32,
    },
    /// A certificate that is not the next one.
    #[error("certificate for height {found}, expected {expected}")]
    CertificateOrder {
        /// The height the certificate is for.
        found: Height,
        /// The next height without a recorded certificate.
        expected: Height,
    },
    /// A certificate for this block or a later one.
    #[error("certificate for height {found} in a block of height {height}")]
    CertificateEarly {
        /// The height the certificate is for.
        found: Height,
        /// The block's height.
        height: Height,
    },
    /// A certificate longer than any real one.
    #[error("certificate for height {height} has {bytes} bytes, at most {max} are allowed")]
    CertificateLong {
        /// The height the certificate is for.
        height: Height,
        /// Its size.
        bytes: usize,
        /// The size allowed.
        max: usize,
    },
    /// A certificate that does not certify.
    #[error("certificate for height {height} does not verify")]
    CertificateForged {
        /// The height the certificate is for.
        height: Height,
    },
    /// A certificate is overdue.
    #[error("block lacks the certificate of height {needed}; the last recorded is of {last}")]
    CertificateOverdue {
        /// The height whose certificate must be recorded by now.
        needed: Height,
        /// The last height whose certificate is recorded.
        last: Height,
    },
    /// A stored entry cannot be read.
    #[error("entry {key:?} is corrupt")]
    Corrupt {
        /// Which entry.
        key: StateKey,
        /// What is wrong with its bytes.
        source: DecodeError,
    },
    /// An entry that every state has is not there.
    #[error("entry {0:?} does not exist")]
    Incomplete(StateKey),
    /// An amount left its range although the checks before say that it cannot.
    #[error("an amount left its range")]
    Money(#[from] AmountError),
    /// A time or height left its range.
    #[error("a time left its range")]
    Time(#[from] TimeError),
    /// Money appeared or disappeared.
    #[error("{part} are out of balance: totals say {totals}, entries say {entries}")]
    Unbalanced {
        /// Which part of the supply.
        part: Part,
        /// What the running totals say, in base units.
        totals: u128,
        /// What the entries say, in base units.
        entries: u128,
    },
}

/// Why work on a block stopped. There is no refusal here: a block's own work is never refused.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The view does not know this entry.
    Unknown(StateKey),
    /// The block cannot go on.
    Fatal(ApplyError),
}

/// Why a transaction did not go through.
#[derive(Debug)]
pub(crate) enum Fail {
    /// A rule of the ledger refuses it; nothing was changed.
    Refused(Reason),
    /// The whole block stops.
    Stop(Stop),
}

impl<E: Into<ApplyError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Fatal(error.into())
    }
}

impl From<Reason> for Fail {
    fn from(reason: Reason) -> Self {
        Self::Refused(reason)
    }
}

impl<E: Into<Stop>> From<E> for Fail {
    fn from(error: E) -> Self {
        Self::Stop(error.into())
    }
}
