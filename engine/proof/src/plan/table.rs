//! The tables in which numbers are looked up.

use super::Layout;
use crate::field::{EF, F, bits_of, dot_base, eq_table, int};
use p3_field::PrimeCharacteristicRing;
use std::sync::Arc;
use tg_tensor::program::ValueId;

/// Variables of the smallest table: enough for the first round of a large commitment.
const TABLE_BITS_MIN: usize = 6;

/// Values by place. Those that follow from their place are not written down: a few bytes of a
/// program ask for a million of them, and planning it must not take longer than reading it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Values {
    /// Written down.
    Written(Arc<[i32]>),
    /// 0 at the place of the number 0 and 1 at all others, for the numbers of a range.
    NotZero {
        /// The smallest number.
        lo: i32,
        /// The largest number.
        hi: i32,
    },
    /// So many, -1 at the first place, 1 at the last and 0 between them.
    Ends(usize),
    /// The largest powers of two within 1 and the numbers that follow it, so many.
    Powers(usize),
}

impl Values {
    /// How many.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Written(values) => values.len(),
            Self::NotZero { lo, hi } => (i64::from(*hi) - i64::from(*lo) + 1) as usize,
            Self::Ends(len) | Self::Powers(len) => *len,
        }
    }

    /// The value at a place, which must be there.
    pub(crate) fn at(&self, place: usize) -> i64 {
        match self {
            Self::Written(values) => values[place].into(),
            Self::NotZero { lo, .. } => (i64::from(*lo) + place as i64 != 0).into(),
            Self::Ends(len) => i64::from(place + 1 == *len) - i64::from(place == 0),
            Self::Powers(_) => 1 << (place + 1).ilog2(),
        }
    }
}

impl FromIterator<i32> for Values {
    fn from_iter<I: IntoIterator<Item = i32>>(values: I) -> Self {
        Self::Written(values.into_iter().collect())
    }
}

/// A table of keys with two values each. Keys follow each other without gaps; entries behind the
/// last repeat it, so that a table has a power of two of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    /// Keys 0 to `size` - 1, with no values (they are 0).
    Range {
        /// How many.
        size: i64,
    },
    /// Keys `from` to `to` with the number of `lo` to `hi` that is nearest to the key without its
    /// last bits. The first key has zeros there.
    Clamp {
        /// The first key.
        from: i64,
        /// The last key.
        to: i64,
        /// The smallest value.
        lo: i64,
        /// The largest value.
        hi: i64,
        /// How many last bits.
        fine: u8,
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
    /// Keys from `from` on with two values each.
    Pairs {
        /// The first key.
        from: i64,
        /// The values.
        values: Arc<[[i32; 2]]>,
    },
    /// The elements of a value that is not known here, a secret constant or what an operation
    /// made, by number; those of an inference follow those of the one before. Entries lie as the
    /// leaves of look-ups of that layout do. Padding has the key -1, which nobody looks up.
    Held {
        /// The value.
        value: ValueId,
        /// How it lies where it is committed.
        layout: Layout,
    },
    /// Keys from `from` on with one value each, such as the entries of a table of the program.
    Entries {
        /// The first key.
        from: i64,
        /// The values.
        values: Values,
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
            Self::Pairs { values, .. } => values.len(),
            Self::Held { layout, .. } => layout.batch().len * layout.len(),
        }
    }

    /// How many keys each inference has for itself; 0 if all look up the same.
    pub(crate) fn keys_of_inference(&self) -> usize {
        match self {
            Self::Held { layout, .. } if layout.batch().len > 1 => layout.len(),
            Self::Held { .. }
            | Self::Range { .. }
            | Self::Clamp { .. }
            | Self::Blocks { .. }
            | Self::Pairs { .. }
            | Self::Entries { .. } => 0,
        }
    }

    /// Variables of its columns.
    pub(crate) fn bits(&self) -> usize {
        match self {
            Self::Held { layout, .. } => layout.bits(),
            Self::Range { .. }
            | Self::Clamp { .. }
            | Self::Blocks { .. }
            | Self::Pairs { .. }
            | Self::Entries { .. } => bits_of(self.size()).max(TABLE_BITS_MIN),
        }
    }

    /// The place of a key; `None` if it has none.
    pub(crate) fn place(&self, key: i64) -> Option<usize> {
        if let Self::Held { layout, .. } = self {
            let number = usize::try_from(key).ok()?;
            return layout.leaf(number / layout.len(), number % layout.len());
        }
        let place = usize::try_from(key - self.first()).ok()?;
        (place < self.size()).then_some(place)
    }

    /// The place of keys, for many of them.
    pub(crate) fn places(&self) -> impl Fn(i64) -> Option<usize> + '_ {
        let (first, size) = (self.first(), self.size());
        let is_held = matches!(self, Self::Held { .. });
        move |key: i64| {
            if is_held {
                return self.place(key);
            }
            usize::try_from(key - first).ok().filter(|place| *place < size)
        }
    }

    fn first(&self) -> i64 {
        match self {
            Self::Range { .. } | Self::Held { .. } => 0,
            Self::Clamp { from, .. }
            | Self::Blocks { from, .. }
            | Self::Pairs { from, .. }
            | Self::Entries { from, .. } => *from,
        }
    }

    /// Key and values of an entry. The values of one that is held are not known here.
    pub(crate) fn entry(&self, place: usize) -> [i64; 3] {
        let place = place.min(self.size() - 1);
        let key = self.first() + place as i64;
        match self {
            Self::Range { .. } | Self::Held { .. } => [key, 0, 0],
            Self::Clamp { lo, hi, fine, .. } => [key, (key >> fine).clamp(*lo, *hi), 0],
            Self::Blocks { inside, bits, .. } if (0..*inside).contains(&key) => {
                [key, 1, key << bits]
            }
            Self::Blocks { inside, bits, .. } => {
                [key, 0, if key < 0 { 0 } else { (inside << bits) - 1 }]
            }
            Self::Entries { values, .. } => [key, values.at(place), 0],
            Self::Pairs { values, .. } => [key, values[place][0].into(), values[place][1].into()],
        }
    }

    /// The values at a point of the functions of keys and values. What is held counts as 0.
    pub(crate) fn eval(&self, point: &[EF]) -> [EF; 3] {
        if let Self::Held { layout, .. } = self {
            let point = layout.cell_point(point);
            let [inferences, elements] = [layout.batch_weights(&point), layout.weights(&point)]
                .map(|weights| {
                    let numbers = (0..weights.len()).map(|number| int(number as i64));
                    (weights.iter().copied().sum::<EF>(), dot_base(&weights, numbers))
                });
            let used = inferences.0 * elements.0;
            let first = inferences.1 * elements.0 * int(layout.len() as i64);
            return [first + inferences.0 * elements.1 - (EF::ONE - used), EF::ZERO, EF::ZERO];
        }
        if let Some(found) = self.eval_linear(point) {
            return found;
        }
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

    /// The same of a range or a clamp, which are linear but for their ends, in time of the number
    /// of variables. A verifier evaluates tables, and the largest are of these kinds.
    fn eval_linear(&self, point: &[EF]) -> Option<[EF; 3]> {
        let (size, first) = (self.size(), self.first());
        let used = Below::new(point, size);
        let last = size as i64 - 1;
        let key = used.places + (EF::ONE - used.count) * int(last) + int(first);
        let value = match self {
            Self::Range { .. } => EF::ZERO,
            Self::Clamp { lo, hi, fine, .. } => {
                // Places that differ in their last bits only are one.
                let high = &point[..point.len().saturating_sub((*fine).into())];
                let (first, last) = (first >> fine, last >> fine);
                let place = |number: i64| (number - first).clamp(0, last) as usize;
                // Those below the range, then those of it, then the range's largest number or that
                // of the last place.
                let [low, above] = [*lo, *hi].map(|number| Below::new(high, place(number)));
                let inside = (above.count - low.count) * int(first) + above.places - low.places;
                let [below, behind] = [first, first + last].map(|number| number.clamp(*lo, *hi));
                low.count * int(below) + inside + (EF::ONE - above.count) * int(behind)
            }
            Self::Blocks { .. } | Self::Pairs { .. } | Self::Held { .. } | Self::Entries { .. } => {
                return None;
            }
        };
        Some([key, value, EF::ZERO])
    }

    /// The entries as elements; `numbers` are those of a value that is held.
    pub(crate) fn elements(&self, numbers: &[i32]) -> Vec<[F; 3]> {
        let Self::Held { layout, .. } = self else {
            return (0..1 << self.bits()).map(|place| self.entry(place).map(int)).collect();
        };
        let mut all = vec![[-F::ONE, F::ZERO, F::ZERO]; 1 << layout.bits()];
        let cells = layout.cells();
        for (inference, numbers) in numbers.chunks(layout.len()).enumerate() {
            for ((element, cell), number) in cells.iter().enumerate().zip(numbers) {
                let key = (inference * layout.len() + element) as i64;
                let leaf = layout.leaf_of_cell(inference, *cell as usize);
                all[leaf] = [int(key), int((*number).into()), F::ZERO];
            }
        }
        all
    }
}

/// What the first places have of all weights eq(point, place).
struct Below {
    /// The sum of their weights.
    count: EF,
    /// The sum of their weights times their numbers.
    places: EF,
}

impl Below {
    /// That of the places before `end`, of which there may be as many as there are.
    fn new(point: &[EF], end: usize) -> Self {
        // The mean number of the places that share all bits but the last ones.
        let mut means = vec![EF::ZERO];
        for (bit, coordinate) in point.iter().rev().enumerate() {
            let mean = means.last().copied().unwrap_or_default();
            means.push(mean + *coordinate * int(1_i64 << bit));
        }
        let mut below = Self { count: EF::ZERO, places: EF::ZERO };
        if end >> point.len() > 0 {
            return Self { count: EF::ONE, places: means.last().copied().unwrap_or_default() };
        }
        let (mut weight, mut number) = (EF::ONE, 0_i64);
        for (place, coordinate) in point.iter().enumerate() {
            let bit = point.len() - 1 - place;
            let without = weight * (EF::ONE - *coordinate);
            if end >> bit & 1 == 1 {
                below.count += without;
                below.places += without * (means[bit] + int(number));
                weight *= *coordinate;
                number += 1 << bit;
            } else {
                weight = without;
            }
        }
        below
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p3_field::BasedVectorSpace as _;

    /// Goal: tables that are evaluated in closed form are those that are looked up in. Method:
    /// ranges and clamps of all kinds against the sum over their entries.
    #[test]
    fn linear_tables_are_evaluated_as_the_sum_of_their_entries() {
        let clamp = |from: i64, to: i64, fine: u8| Table::Clamp { from, to, lo: -9, hi: 7, fine };
        let tables = [
            Table::Range { size: 1 },
            Table::Range { size: 64 },
            Table::Range { size: 77 },
            clamp(-40, 60, 0),
            clamp(-9, 7, 0),
            clamp(-3, 4, 0),
            clamp(20, 90, 0),
            clamp(-90, -20, 0),
            clamp(-200, 99, 3),
            clamp(-72, 63, 3),
            clamp(-8, 5, 2),
            clamp(0, 127, 7),
            clamp(-256, 3, 8),
            clamp(512, 530, 9),
        ];
        for table in tables {
            let coordinate = |seed: usize| {
                EF::from_basis_coefficients_fn(|place| int((seed * 7_919 + place * 31 + 5) as i64))
            };
            let point: Vec<EF> = (0..table.bits()).map(coordinate).collect();
            let mut sums = [EF::ZERO; 3];
            for (place, weight) in eq_table(&point).into_iter().enumerate() {
                for (sum, number) in sums.iter_mut().zip(table.entry(place)) {
                    *sum += weight * int(number);
                }
            }
            assert_eq!(table.eval_linear(&point), Some(sums), "{table:?}");
        }
    }
}
