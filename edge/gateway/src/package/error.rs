//! Why a package cannot be made or opened. Apart, because everything about packages can go wrong in
//! one of these ways.

use crate::stream::is_other_content;
use std::io;
use tg_privacy::{CombineError, OpenError, SealError, ThresholdError};
use tg_types::DecodeError;

/// Why a package cannot be made or opened.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// It is too long.
    #[error("package has {found} bytes, at most {max} are allowed")]
    TooLarge {
        /// How long it is.
        found: u64,
        /// How long it may be.
        max: u64,
    },
    /// It does not fit into memory, where it has to be as a whole.
    #[error("{needed} bytes do not fit into the memory that is free")]
    Memory {
        /// How much it takes.
        needed: u64,
    },
    /// Its head is too long.
    #[error("head has {found} bytes, at most {max} are allowed")]
    Head {
        /// How long it is.
        found: u64,
        /// How long it may be.
        max: usize,
    },
    /// It goes on behind its last part.
    #[error("package goes on behind its end")]
    Trailing,
    /// What goes in has another length than it said.
    #[error("content has {found} bytes, {stated} were stated")]
    Length {
        /// How much there was.
        found: u64,
        /// How much was stated.
        stated: u64,
    },
    /// It cannot be read or written, or ends early.
    #[error("package cannot be read or written")]
    Stream(#[from] io::Error),
    /// Too many validators, or none.
    #[error("key cannot be split among the validators")]
    Threshold(#[from] ThresholdError),
    /// It cannot be sealed.
    #[error("package cannot be sealed")]
    Seal(#[from] SealError),
    /// It cannot be read.
    #[error("package cannot be read")]
    Decode(#[from] DecodeError),
    /// The shares give no key.
    #[error("shares give no key")]
    Combine(#[from] CombineError),
    /// The key does not open it.
    #[error("package does not open")]
    Open(#[from] OpenError),
    /// It was wrapped to somebody else.
    #[error("key was not wrapped to us")]
    Unwrap(#[from] tg_privacy::UnwrapError),
    /// It is of another owner or network.
    #[error("package is somebody else's")]
    Whose,
    /// It holds something else.
    #[error("package holds something else")]
    Kind,
    /// No share of its key was wrapped to us.
    #[error("package has no share of its key for us")]
    NoShare,
    /// It would hold too much.
    #[error("more than {max} items of one kind")]
    TooMany {
        /// How many there may be.
        max: usize,
    },
}

impl PackageError {
    /// Whether the package itself is wrong: everybody who tries it finds the same. Otherwise it
    /// was this machine that could not read it.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        match self {
            Self::Stream(error) => is_other_content(error),
            Self::Memory { .. } => false,
            Self::TooLarge { .. }
            | Self::Head { .. }
            | Self::Trailing
            | Self::Length { .. }
            | Self::Threshold(_)
            | Self::Seal(_)
            | Self::Decode(_)
            | Self::Combine(_)
            | Self::Open(_)
            | Self::Unwrap(_)
            | Self::Whose
            | Self::Kind
            | Self::NoShare
            | Self::TooMany { .. } => true,
        }
    }
}
