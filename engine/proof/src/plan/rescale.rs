//! Rescales: rounding and clamping as look-ups.
//!
//! `y = clamp(round_shift(round_shift(acc, pre) * m, s) + zero)`. With half(0) = 0 and half(b) =
//! 2^(b-1), write
//! ```text
//! acc + half(pre) = u * 2^pre + e        0 <= e < 2^pre
//! u * m + half(s) = k * 2^s + d          0 <= d < 2^s       y = clamp(k + zero)
//! ```
//! `e` and `d` are committed in limbs, each looked up in the range of its width. `u` and `k` are
//! not committed: they are sums of the accumulator and limbs, divided by a power of two in the
//! field.
//!
//! # Why nothing is taken for something else
//! Let v = u * m + half(s), an integer of the range L..H, where H - L = 2 * S * max(m) for |u| <=
//! S, and (K, y) the entry that is looked up, K in the table's keys. The look-up says v = (K -
//! zero) * 2^s + d modulo p, with d in 0..2^s. Both sides are integers; if their distance is below
//! p, they are equal and K is the right one. The right side lies between (first - zero) * 2^s and
//! (last - zero) * 2^s + 2^s - 1, and a table is only used with keys for which the distance of
//! either end from the other end of L..H is below p ([`Keys`]). For the keys of this operation
//! alone that always holds: the distance is at most H - L + 2^s - 1, and the program's rule S *
//! max(m) + half(s) <= (p - 1) / 2 makes this at most p - 2.
//!
//! With a first shift, u itself must be told apart: e in its range alone would leave u any element
//! of the field. So u + S = t * 2^b + l is looked up as well, l in limbs and t, which is not
//! committed, in 0..(2S >> b). The same argument holds with a = acc + half(pre) between half - B
//! and half + B, against (t * 2^b + l - S) * 2^pre + e; where the distance could reach p, the
//! program is refused.
//!
//! # Clamping by blocks
//! Where few elements would need a table of many keys, and the range's size is a multiple of 2^b,
//! K - lo is t * 2^b + l with l looked up in 0..2^b and (t, f, g) in a table of blocks: f = 1 and
//! g = t * 2^b inside the range, f = 0 and g its first or last number outside. Then y - lo is g + f
//! times l. The keys of whole blocks are no fewer than those of the operation, so the same test
//! decides whether they are safe; if not, the table of all keys is used.

use super::build::Builder;
use super::limits::{LIMB_BITS_MAX, PlanError, TABLE_MAX};
use super::{
    Check, ColumnId, Form, Gate, Lookup, Product, ProductKind, Rescaled, Source, Spread, Table,
};
use crate::field::{F, PRIME, bits_of, halved, int};
use std::sync::Arc;
use tg_tensor::program::{Rescale, Spec, round_shift};

/// The keys that an operation needs, and the most that its table may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) least: i64,
    pub(super) most: i64,
}

/// A clamp by blocks of 2^bits numbers, counted from the smallest of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// The first and the last block that there can be.
    from: i64,
    to: i64,
    /// Blocks of the range.
    inside: i64,
    pub(crate) bits: u8,
    pub(crate) lo: i64,
}

impl Blocks {
    /// Block, place within it, flag and first number of a key.
    pub(crate) fn of(&self, key: i64) -> [i64; 4] {
        let block = (key - self.lo) >> self.bits;
        let low = (key - self.lo) & ((1 << self.bits) - 1);
        if (0..self.inside).contains(&block) {
            [block, low, 1, block << self.bits]
        } else {
            [block, low, 0, if block < 0 { 0 } else { (self.inside << self.bits) - 1 }]
        }
    }
}

/// Where a rescale's multipliers are: by column, or by the place on the first side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    Columns,
    Rows,
}

/// 2^(shift-1), or 0.
pub(crate) const fn half(shift: u8) -> i64 {
    if shift == 0 { 0 } else { 1 << (shift - 1) }
}

/// The widths of the limbs of a number of so many bits.
pub(crate) fn limbs(bits: u8) -> Vec<u8> {
    let count = bits.div_ceil(LIMB_BITS_MAX);
    (0..count).map(|place| bits / count + u8::from(place < bits % count)).collect()
}

/// What is looked up of a number with a first shift: how far the top is shifted, and its size.
pub(crate) struct Top {
    pub(crate) small: i64,
    pub(crate) bits: u8,
    pub(crate) size: i64,
}

impl Top {
    /// That of accumulators within `bound`.
    pub(crate) fn new(bound: i64, pre_shift: u8) -> Self {
        let small = round_shift(bound, pre_shift);
        let width = (64 - (2 * small).leading_zeros()) as u8;
        let bits = width.saturating_sub(LIMB_BITS_MAX);
        Self { small, bits, size: ((2 * small) >> bits) + 1 }
    }
}

/// The limbs of what a rescale drops, lowest bits first: of e, of l, of d.
pub(crate) fn limb_widths(rescale: &Rescale, bound: i64) -> [Vec<u8>; 3] {
    if rescale.pre_shift == 0 {
        return [Vec::new(), Vec::new(), limbs(rescale.shift)];
    }
    let top = Top::new(bound, rescale.pre_shift);
    [limbs(rescale.pre_shift), limbs(top.bits), limbs(rescale.shift)]
}

impl Builder {
    /// The look-ups of an operation's rescale of accumulators within `bound`.
    pub(super) fn rescale(
        &mut self,
        operation: usize,
        bound: i64,
        rescale: &Rescale,
        axis: Axis,
    ) -> Result<(), PlanError> {
        let widths = limb_widths(rescale, bound);
        let spec = self.spec_of(operation);
        let keys = keys(rescale, bound);
        let blocks = self.blocks(operation, keys, &spec);
        let mut all = widths.concat();
        all.extend(blocks.map(|blocks| blocks.bits));
        let more = if blocks.is_some() { 2 } else { 0 };
        let mut columns = self.limbs(operation, &all, more).into_iter();
        let mut sum = |widths: &[u8]| {
            let mut form = Form::default();
            let mut shift = 0_u8;
            for (width, column) in widths.iter().zip(&mut columns) {
                form.add(Source::Column(column), int(1 << shift));
                shift += width;
            }
            form
        };
        let [dropped_first, low, dropped] = [0, 1, 2].map(|part| sum(&widths[part]));
        let mut u = Form::of(Source::Accumulator(operation));
        if rescale.pre_shift > 0 {
            u.plus(int(half(rescale.pre_shift)));
            u.add_form(&dropped_first, int(-1));
            let mut shifted = Form::default();
            shifted.add_form(&u, halved(rescale.pre_shift));
            u = shifted;
            self.top(operation, bound, rescale.pre_shift, &u, &low)?;
        }
        let mut key = Form::default();
        match spread(rescale, axis) {
            Ok(spread) => key.add_form(&u.spread(&spread), halved(rescale.shift)),
            Err(factor) => key.add_form(&u, factor * halved(rescale.shift)),
        }
        key.plus(int(half(rescale.shift)) * halved(rescale.shift) + int(rescale.zero.into()));
        key.add_form(&dropped, -halved(rescale.shift));
        let rescaled = Rescaled { rescale: rescale.clone(), bound, axis, blocks };
        self.rescales.insert(operation, rescaled);
        let rest: Vec<ColumnId> = columns.collect();
        if let (Some(blocks), [low, flag, base]) = (blocks, rest.as_slice()) {
            let gate = Gate { low: *low, flag: *flag, base: *base, lo: blocks.lo };
            self.gate(operation, blocks, gate, &key);
            return Ok(());
        }
        let table = self.clamp_table(operation, keys, &spec)?;
        self.look_up(operation, table, Lookup::Clamp(operation), key);
        Ok(())
    }

    /// How to clamp by blocks, where that takes fewer cells than a table of all keys: three more
    /// numbers for each element, against a table of blocks only.
    fn blocks(&self, operation: usize, keys: Keys, spec: &Spec) -> Option<Blocks> {
        let (lo, numbers) = (i64::from(spec.lo), i64::from(spec.hi) - i64::from(spec.lo) + 1);
        let bits = (numbers.trailing_zeros() as u8).min(LIMB_BITS_MAX);
        let (from, to) = ((keys.from - lo) >> bits, (keys.to - lo) >> bits);
        let first = (from << bits) + lo;
        let last = (to << bits) + (1 << bits) - 1 + lo;
        let is_safe = keys.least <= first && last <= keys.most;
        let blocks = Blocks { from, to, inside: numbers >> bits, bits, lo };
        let cells = 3 << self.layout_of(operation).bits();
        let saved = 1 << bits_of((keys.to - keys.from + 1) as usize);
        let costs = cells + (1 << bits_of((to - from + 1) as usize));
        let is_shared = self.tables.iter().any(|table| match table {
            Table::Clamp { from, to, lo, hi } => {
                (*lo, *hi) == (spec.lo.into(), spec.hi.into())
                    && *from <= keys.from
                    && keys.to <= *to
            }
            Table::Range { .. } | Table::Blocks { .. } | Table::Entries { .. } => false,
        });
        (is_safe && !is_shared && 2 * costs < saved).then_some(blocks)
    }

    /// The look-up of a key's block, and the product that makes the element of it.
    fn gate(&mut self, operation: usize, blocks: Blocks, gate: Gate, key: &Form) {
        let Blocks { from, to, inside, bits, lo } = blocks;
        let mut block = Form::default();
        block.add_form(key, halved(bits));
        block.plus(int(-lo) * halved(bits));
        block.add(Source::Column(gate.low), -halved(bits));
        let table = self.table(Table::Blocks { from, to, inside, bits });
        let values = [gate.flag, gate.base].map(|column| Form::of(Source::Column(column)));
        self.group(operation, table, Lookup::Block(operation), block, values);
        let size = self.layout_of(operation).bits();
        self.checks.push(Check::Select(self.products.len()));
        self.products.push(Product { operation, bits: size, kind: ProductKind::Gate(gate) });
    }

    /// The look-up of the top of a first shift's result.
    fn top(
        &mut self,
        operation: usize,
        bound: i64,
        pre_shift: u8,
        u: &Form,
        low: &Form,
    ) -> Result<(), PlanError> {
        let top = Top::new(bound, pre_shift);
        let (least, most) = (half(pre_shift) - bound, half(pre_shift) + bound);
        let reach = ((top.size << top.bits) - top.small) << pre_shift;
        if reach - 1 - least >= PRIME || most + (top.small << pre_shift) >= PRIME {
            return Err(PlanError::Wraps { operation });
        }
        let mut key = Form::default();
        key.add_form(u, halved(top.bits));
        key.plus(int(top.small) * halved(top.bits));
        key.add_form(low, -halved(top.bits));
        let table = self.table(Table::Range { size: top.size });
        self.look_up(operation, table, Lookup::Top(operation), key);
        Ok(())
    }

    /// A table that clamps, shared with earlier operations if that is safe and saves entries.
    fn clamp_table(
        &mut self,
        operation: usize,
        keys: Keys,
        spec: &Spec,
    ) -> Result<usize, PlanError> {
        let numbers = keys.to - keys.from + 1;
        if numbers > TABLE_MAX {
            return Err(PlanError::Wide { operation, numbers, most: TABLE_MAX });
        }
        let (lo, hi) = (i64::from(spec.lo), i64::from(spec.hi));
        let own = Table::Clamp { from: keys.from, to: keys.to, lo, hi };
        for (index, allowed) in self.allowed.clone() {
            let Table::Clamp { from, to, lo: low, hi: high } = self.tables[index] else { continue };
            let all = Keys {
                from: from.min(keys.from),
                to: to.max(keys.to),
                least: allowed.least.max(keys.least),
                most: allowed.most.min(keys.most),
            };
            let both = Table::Clamp { from: all.from, to: all.to, lo, hi };
            let saves = both.bits() <= self.tables[index].bits().max(own.bits());
            if (low, high) == (lo, hi) && saves && all.least <= all.from && all.to <= all.most {
                self.tables[index] = both;
                self.allowed.insert(index, all);
                return Ok(index);
            }
        }
        self.tables.push(own);
        self.allowed.insert(self.tables.len() - 1, keys);
        Ok(self.tables.len() - 1)
    }
}

/// The keys of a rescale of accumulators within `bound`.
fn keys(rescale: &Rescale, bound: i64) -> Keys {
    let (shift, zero) = (rescale.shift, i64::from(rescale.zero));
    let small = round_shift(bound, rescale.pre_shift);
    let largest = rescale.multipliers.as_slice().iter().copied().max().map_or(0, i64::from);
    let (least, most) = (half(shift) - small * largest, half(shift) + small * largest);
    Keys {
        from: (least >> shift) + zero,
        to: (most >> shift) + zero,
        // The smallest K with most - (K - zero) * 2^s < p, and the largest with
        // (K - zero) * 2^s + 2^s - 1 - least < p.
        least: zero - ((PRIME - 1 - most) >> shift),
        most: zero + ((PRIME - (1 << shift) + least) >> shift),
    }
}

/// The multipliers as factors by place, or the one that is the same everywhere.
fn spread(rescale: &Rescale, axis: Axis) -> Result<Spread, F> {
    let factors: Arc<[F]> =
        rescale.multipliers.as_slice().iter().map(|factor| int((*factor).into())).collect();
    match (factors.first(), axis) {
        (Some(one), _) if factors.iter().all(|factor| factor == one) => Err(*one),
        (_, Axis::Columns) => Ok(Spread::Columns(factors)),
        (_, Axis::Rows) => Ok(Spread::Rows(factors)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_tensor::program::{MAGNITUDE_MAX, Multipliers};

    fn rescale(shift: u8, multiplier: i32, zero: i32) -> Rescale {
        let multipliers = Multipliers::new(vec![multiplier]).expect("one is allowed");
        Rescale { pre_shift: 0, multipliers, shift, zero }
    }

    #[test]
    fn limbs_cover_all_bits_and_stay_small() {
        for bits in 0..=30 {
            let widths = limbs(bits);
            assert_eq!(widths.iter().sum::<u8>(), bits);
            assert!(widths.iter().all(|width| (1..=LIMB_BITS_MAX).contains(width)));
        }
    }

    /// Goal: the keys of an admitted rescale never wrap. Method: the largest bounds that the
    /// program's rules admit, for every shift.
    #[test]
    fn keys_of_the_largest_admitted_bound_lie_within_what_is_safe() {
        for shift in 0..=30 {
            let bound = MAGNITUDE_MAX - half(shift);
            let stated = rescale(shift, 1, -77);
            assert!(stated.admits(bound) && !stated.admits(bound + 1));
            let keys = keys(&stated, bound);
            assert!(keys.least <= keys.from && keys.to <= keys.most, "{shift}: {keys:?}");
        }
    }

    /// Goal: blocks clamp as the range does, and the table holds what is computed. Method: all keys
    /// around ranges of several sizes.
    #[test]
    fn blocks_give_the_clamped_number_of_every_key() {
        for (lo, inside, bits) in [(-128, 1, 8), (-16_256, 127, 8), (5, 3, 1), (0, 7, 0)] {
            let blocks = Blocks { from: -9, to: inside + 9, inside, bits, lo };
            let hi = lo + (inside << bits) - 1;
            let Blocks { from, to, .. } = blocks;
            let table = Table::Blocks { from, to, inside, bits };
            for key in (from << bits) + lo..((to + 1) << bits) + lo {
                let [block, low, flag, base] = blocks.of(key);
                assert_eq!(lo + base + flag * low, key.clamp(lo, hi));
                let place = table.place(block).expect("a block of the table");
                assert_eq!(table.entry(place), [block, flag, base]);
            }
        }
    }
}
