//! Why the other side ended a stream: one number on the wire, one word here.

use iroh::endpoint::VarInt;
use std::fmt;

/// Why a peer did not answer a call or give a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does as much for us, or for all, as it is ready to. Worth another try.
    Busy,
    /// The request has more bytes than allowed.
    TooLarge,
    /// The request is not one frame, or not a request at all.
    Malformed,
    /// Its handler took too long and was cut.
    TooSlow,
    /// Its handler broke off, or it is stopping.
    Failed,
    /// We may not read this.
    Forbidden,
    /// It does not have this.
    Absent,
    /// A number that this version does not know.
    Other(u64),
}

impl Refusal {
    pub(crate) const fn code(self) -> VarInt {
        // From 16 up, so that none is taken for one of the transport's own small numbers.
        match self {
            Self::Busy => VarInt::from_u32(16),
            Self::TooLarge => VarInt::from_u32(17),
            Self::Malformed => VarInt::from_u32(18),
            Self::TooSlow => VarInt::from_u32(19),
            Self::Failed => VarInt::from_u32(20),
            Self::Forbidden => VarInt::from_u32(21),
            Self::Absent => VarInt::from_u32(22),
            Self::Other(_) => VarInt::from_u32(23),
        }
    }

    pub(crate) const fn of(code: VarInt) -> Self {
        match code.into_inner() {
            16 => Self::Busy,
            17 => Self::TooLarge,
            18 => Self::Malformed,
            19 => Self::TooSlow,
            20 => Self::Failed,
            21 => Self::Forbidden,
            22 => Self::Absent,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("it is busy"),
            Self::TooLarge => f.write_str("the request is too large"),
            Self::Malformed => f.write_str("the request is malformed"),
            Self::TooSlow => f.write_str("its handler took too long"),
            Self::Failed => f.write_str("its handler broke off"),
            Self::Forbidden => f.write_str("we may not read this"),
            Self::Absent => f.write_str("it does not have this"),
            Self::Other(code) => write!(f, "reason {code}"),
        }
    }
}
