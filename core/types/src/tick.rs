//! Block time and block height.
//!
//! Core has no clock: time is what a block says, in milliseconds since the Unix epoch, bounded
//! against its parent. Instants, spans and heights are different types, so that a height can never
//! be added to a time.

use crate::codec::{Decode, DecodeError, Encode, Reader};
use std::fmt;

/// Why a time or a height cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Beyond 64 bits.
    #[error("result does not fit in 64 bits")]
    Overflow,
    /// The other one is later.
    #[error("{later} is later than {earlier}")]
    Later {
        /// What should have been earlier.
        later: u64,
        /// What should have been later.
        earlier: u64,
    },
    /// Below the genesis.
    #[error("there is no block {blocks} below {height}")]
    BelowGenesis {
        /// From where.
        height: Height,
        /// How far down.
        blocks: u64,
    },
}

macro_rules! counter {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// The first one.
            pub const ZERO: Self = Self(0);
            /// The last one that can be written.
            pub const MAX: Self = Self(u64::MAX);

            /// From its number.
            pub const fn new(number: u64) -> Self {
                Self(number)
            }

            /// Its number.
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl Encode for $name {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                self.0.encode(out);
            }
        }

        impl Decode for $name {
            const BYTES_MIN: usize = 8;

            #[inline]
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                u64::decode(reader).map(Self)
            }
        }
    };
}

counter!(
    /// An instant of block time: milliseconds since the Unix epoch.
    Tick
);
counter!(
    /// A span of block time in milliseconds.
    DurationMs
);
counter!(
    /// A block's number. The genesis is 0, the first block is 1.
    Height
);

impl Tick {
    /// The instant `span` later.
    pub const fn plus(self, span: DurationMs) -> Result<Self, TimeError> {
        match self.0.checked_add(span.0) {
            Some(sum) => Ok(Self(sum)),
            None => Err(TimeError::Overflow),
        }
    }

    /// The span since `earlier`.
    pub const fn since(self, earlier: Self) -> Result<DurationMs, TimeError> {
        match self.0.checked_sub(earlier.0) {
            Some(span) => Ok(DurationMs(span)),
            None => Err(TimeError::Later { later: earlier.0, earlier: self.0 }),
        }
    }

    /// The whole seconds, rounded down: the bucket of the due queue this instant falls into.
    pub const fn second(self) -> u64 {
        self.0 / DurationMs::SECOND.0
    }
}

impl DurationMs {
    /// A second.
    pub const SECOND: Self = Self(1_000);
    /// A minute.
    pub const MINUTE: Self = Self(60 * Self::SECOND.0);
    /// An hour.
    pub const HOUR: Self = Self(60 * Self::MINUTE.0);
    /// A day.
    pub const DAY: Self = Self(24 * Self::HOUR.0);

    /// Both spans together.
    pub const fn plus(self, more: Self) -> Result<Self, TimeError> {
        match self.0.checked_add(more.0) {
            Some(sum) => Ok(Self(sum)),
            None => Err(TimeError::Overflow),
        }
    }

    /// The span `count` times.
    pub const fn times(self, count: u64) -> Result<Self, TimeError> {
        match self.0.checked_mul(count) {
            Some(product) => Ok(Self(product)),
            None => Err(TimeError::Overflow),
        }
    }
}

impl Height {
    /// The first block's height.
    pub const FIRST: Self = Self(1);

    /// The next block's height.
    pub const fn next(self) -> Result<Self, TimeError> {
        self.plus(1)
    }

    /// The height `blocks` later.
    pub const fn plus(self, blocks: u64) -> Result<Self, TimeError> {
        match self.0.checked_add(blocks) {
            Some(sum) => Ok(Self(sum)),
            None => Err(TimeError::Overflow),
        }
    }

    /// The height `blocks` earlier, if there is one.
    pub const fn minus(self, blocks: u64) -> Result<Self, TimeError> {
        match self.0.checked_sub(blocks) {
            Some(left) => Ok(Self(left)),
            None => Err(TimeError::BelowGenesis { height: self, blocks }),
        }
    }

    /// How many blocks after `earlier` this is.
    pub const fn since(self, earlier: Self) -> Result<u64, TimeError> {
        match self.0.checked_sub(earlier.0) {
            Some(blocks) => Ok(blocks),
            None => Err(TimeError::Later { later: earlier.0, earlier: self.0 }),
        }
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

impl fmt::Display for DurationMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

impl fmt::Display for Height {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::{DurationMs, Height, Tick, TimeError};

    #[test]
    fn tick_beyond_the_last_is_refused() {
        assert_eq!(Tick::MAX.plus(DurationMs::new(1)), Err(TimeError::Overflow));
        assert_eq!(Tick::ZERO.plus(DurationMs::MAX), Ok(Tick::MAX));
        assert_eq!(DurationMs::DAY.times(u64::MAX), Err(TimeError::Overflow));
        assert_eq!(DurationMs::MAX.plus(DurationMs::SECOND), Err(TimeError::Overflow));
    }

    #[test]
    fn tick_since_a_later_one_is_refused() {
        let (early, late) = (Tick::new(1_999), Tick::new(2_000));
        assert_eq!(late.since(early), Ok(DurationMs::new(1)));
        assert_eq!(early.since(late), Err(TimeError::Later { later: 2_000, earlier: 1_999 }));
        assert_eq!((early.second(), late.second()), (1, 2));
    }

    #[test]
    fn height_below_the_genesis_is_refused() {
        assert_eq!(Height::ZERO.next(), Ok(Height::FIRST));
        assert_eq!(Height::MAX.next(), Err(TimeError::Overflow));
        assert_eq!(Height::FIRST.minus(1), Ok(Height::ZERO));
        let below = TimeError::BelowGenesis { height: Height::FIRST, blocks: 2 };
        assert_eq!(Height::FIRST.minus(2), Err(below));
        assert_eq!(Height::new(9).since(Height::new(4)), Ok(5));
        assert!(Height::new(4).since(Height::new(9)).is_err());
    }
}
