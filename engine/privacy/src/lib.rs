//! Sealed data: what a job reads and gives is encrypted once, under a content key, and the key goes
//! to those who need it and to nobody else.
//!
//! A sealed message is public: anybody may store and pass it on. Its content key is wrapped to the
//! assigned provider and, with key escrow, split into shares, each wrapped to one validator, who
//! releases it against an assignment or a draw on chain. So the owner may be offline and a job can
//! move, and no single validator can read anything. Whoever receives a message that its key does
//! not open publishes the key; then everybody can decide who is right.
//!
//! This room is separate because it holds secrets and the crates that work on them. It has no
//! random source: every function that needs chance takes [`Randomness`] that the edge has drawn.
//! Secrets are wiped when dropped and never printed. Wiping is done where we own the memory; copies
//! that a processor or a library leaves on a stack are not in our hands.
//!
//! What it does not do: hide how long a message is, when it is read, or who reads it; and take a
//! key back from somebody who has had it.

pub mod content;
pub mod label;
pub mod randomness;
pub mod shares;
pub mod wrap;

pub use content::{
    Complaint, ContentKey, Context, Judge, KeyCommitment, OpenError, Opener, Purpose, SealError,
    SealedHeader, Sealer, judge_complaint, open_all, seal_all,
};
pub use label::{LabelError, PrivacyLabel, Readers};
pub use randomness::Randomness;
pub use shares::{
    BadShare, CombineError, Share, ShareBook, ShareFault, ShareIndex, Threshold, ThresholdError,
    ThresholdSpec, combine, split,
};
pub use wrap::{
    Carries, KeyOf, UnwrapError, WrapContext, WrapKeyError, WrapPublic, WrapSecret, Wrapped,
    unwrap, unwrap_share, wrap, wrap_share,
};
