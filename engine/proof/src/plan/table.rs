//! The tables in which numbers are looked up.

use crate::field::{EF, F, bits_of, eq_table, int};
use crate::pcs::FOLD;
use p3_field::PrimeCharacteristicRing;
use std::sync::Arc;

/// A table of pairs (key, value). Keys follow each other without gaps; entries behind the last
/// repeat it, so that a table has a power of two of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// Keys 0 to `size` - 1, all with the value 0.
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
            Self::Clamp { from, to, .. } => (to - from + 1) as usize,
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
            Self::Clamp { from, .. } | Self::Entries { from, .. } => *from,
        }
    }

    /// Key and value of an entry.
    pub(crate) fn entry(&self, place: usize) -> (i64, i64) {
        let place = place.min(self.size() - 1);
        let key = self.first() + place as i64;
        let value = match self {
            Self::Range { .. } => 0,
            Self::Clamp { lo, hi, .. } => key.clamp(*lo, *hi),
            Self::Entries { values, .. } => values[place].into(),
        };
        (key, value)
    }

    /// The values at a point of the functions of keys and values.
    pub(crate) fn eval(&self, point: &[EF]) -> (EF, EF) {
        let (mut key, mut value) = (EF::ZERO, EF::ZERO);
        for (place, weight) in eq_table(point).into_iter().enumerate() {
            let (k, v) = self.entry(place);
            key += weight * int(k);
            value += weight * int(v);
        }
        (key, value)
    }

    /// The entries as elements.
    pub(crate) fn elements(&self) -> impl Iterator<Item = (F, F)> + '_ {
        (0..1 << self.bits()).map(|place| {
            let (key, value) = self.entry(place);
            (int(key), int(value))
        })
    }
}
