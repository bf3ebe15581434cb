//! The tables in which numbers are looked up.

use crate::field::{EF, F, bits_of, eq_table, int};
use crate::pcs::FOLD;
use p3_field::PrimeCharacteristicRing;
use std::sync::Arc;

/// A table of keys with two values each. Keys follow each other without gaps; entries behind the
/// last repeat it, so that a table has a power of two of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// Keys 0 to `size` - 1, with no values (they are 0).
    Range {
        /// How many.
        size: i64,
    },
    /// Keys `from` to `to` with the nearest number of `lo` to `hi`.
    Clamp {
        /// The first key.
        from: i64,
        /// The last key.
        to: i64,
        /// The smallest value.
        lo: i64,
        /// The largest value.
        hi: i64,
    },
    /// Keys `from` to `to`, blocks of 2^bits numbers counted from the smallest of a range of
    /// `inside` blocks: with 1 and the block's first number where the key is one of these; else
    /// with 0 and the range's first or last number.
    Blocks {
        /// The first key.
        from: i64,
        /// The last key.
        to: i64,
        /// How many blocks the range has.
        inside: i64,
        /// log2 of the numbers of a block.
        bits: u8,
    },
    /// Keys from `from` on with the entries of a table of the program.
    Entries {
        /// The first key.
        from: i64,
        /// The values.
        values: Arc<[i32]>,
    },
}

impl Table {
    /// How many keys.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Range { size } => *size as usize,
            Self::Clamp { from, to, .. } | Self::Blocks { from, to, .. } => {
                (to - from + 1) as usize
            }
            Self::Entries { values, .. } => values.len(),
        }
    }

    /// Variables of its columns.
    pub(crate) fn bits(&self) -> usize {
        bits_of(self.size()).max(FOLD)
    }

    /// The place of a key; `None` if it has none.
    pub(crate) fn place(&self, key: i64) -> Option<usize> {
        let place = usize::try_from(key - self.first()).ok()?;
        (place < self.size()).then_some(place)
    }

    fn first(&self) -> i64 {
        match self {
            Self::Range { .. } => 0,
            Self::Clamp { from, .. } | Self::Blocks { from, .. } | Self::Entries { from, .. } => {
                *from
            }
        }
    }

    /// Key and values of an entry.
    pub(crate) fn entry(&self, place: usize) -> [i64; 3] {
        let place = place.min(self.size() - 1);
        let key = self.first() + place as i64;
        match self {
            Self::Range { .. } => [key, 0, 0],
            Self::Clamp { lo, hi, .. } => [key, key.clamp(*lo, *hi), 0],
            Self::Blocks { inside, bits, .. } if (0..*inside).contains(&key) => {
                [key, 1, key << bits]
            }
            Self::Blocks { inside, bits, .. } => {
                [key, 0, if key < 0 { 0 } else { (inside << bits) - 1 }]
            }
            Self::Entries { values, .. } => [key, values[place].into(), 0],
        }
    }

    /// The values at a point of the functions of keys and values.
    pub(crate) fn eval(&self, point: &[EF]) -> [EF; 3] {
        let mut sums = [EF::ZERO; 3];
        for (place, weight) in eq_table(point).into_iter().enumerate() {
            for (sum, number) in sums.iter_mut().zip(self.entry(place)) {
                if number != 0 {
                    *sum += weight * int(number);
                }
            }
        }
        sums
    }

    /// The entries as elements.
    pub(crate) fn elements(&self) -> impl Iterator<Item = [F; 3]> + '_ {
        (0..1 << self.bits()).map(|place| self.entry(place).map(int))
    }
}
