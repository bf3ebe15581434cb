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
//! Let v = u * m + half(s), an integer of the range L..H, where H - L <= 2 * S * max(m) for |u| <=
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
//! # Finer keys
//! Where many elements are rounded, one limb less of each is worth a larger table. With f bits of
//! what is dropped left in the key, v = h * 2^(s-f) + d with one limb 0 <= d < 2^(s-f), and y =
//! clamp((h >> f) + zero) stands beside K = h + zero * 2^f in the table. The argument is the same
//! with s - f in the place of s: v = (K - zero * 2^f) * 2^(s-f) + d modulo p, and the keys are only
//! those for which both sides are less than p apart.
//!
//! # Clamping by blocks
//! Where few elements would need a table of many keys, and the range's size is a multiple of 2^b,
//! K - lo is t * 2^b + l with l looked up in 0..2^b and (t, f, g) in a table of blocks: f = 1 and
//! g = t * 2^b inside the range, f = 0 and g its first or last number outside. Then y - lo is g + f
//! times l. The keys of whole blocks are no fewer than those of the operation, so the same test
//! decides whether they are safe; if not, the table of all keys is used.
//!
//! # Clamping by excess
//! Where even blocks would be too many: K = y + g (1 + q), q in limbs and (y + g, g) in a table of
//! lo - 1..hi + 1 with g = -1, 0..0, 1. So y is of the range and K itself, or its largest number
//! and K is above, or its smallest and K is below. The same test of keys is made with all that y +
//! g (1 + q) can be. The product is committed, since K is known where look-ups end and the product
//! where the first sum-check does.
//!
//! Where the range itself has too many numbers, and keys leave it at one end only, say at hi: K is
//! y plus d with d = g (1 + q), hi - y = i in limbs and g i = 0 with g of 0 and 1. So y is at most
//! hi, and K, or hi with K above; it is at least lo, because K is.
//!
//! # Not clamping
//! Where no accumulator that there can be leaves the range, y is K. If something was dropped, y
//! less the smallest K is looked up in limbs, or K could be any element of the field. If nothing
//! was, K is a sum of accumulators and constants modulo p, and so is y.

use super::build::Builder;
use super::limits::{LIMB_BITS_MAX, PlanError, TABLE_MAX};
use super::{ColumnId, Form, Lookup, Rescaled, Source, Spread, Table, Values};
use crate::field::{F, PRIME, bits_of, halved, int};
use p3_field::PrimeCharacteristicRing;
use std::sync::Arc;
use tg_tensor::program::{Rescale, Spec, round_shift};

/// Where numbers lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) lo: i64,
    pub(super) hi: i64,
}

impl Reach {
    /// Numbers of at most this magnitude.
    pub(super) fn within(bound: i64) -> Self {
        Self { lo: -bound, hi: bound }
    }

    /// The sum of so many such numbers.
    pub(super) fn times(self, count: i64) -> Self {
        Self { lo: self.lo * count, hi: self.hi * count }
    }

    /// Products with numbers of another range.
    pub(super) fn product(self, other: Self) -> Self {
        let ends = [self.lo * other.lo, self.lo * other.hi, self.hi * other.lo, self.hi * other.hi];
        let [first, rest @ ..] = ends;
        let lo = rest.iter().copied().fold(first, i64::min);
        Self { lo, hi: rest.iter().copied().fold(first, i64::max) }
    }

    pub(super) fn magnitude(self) -> i64 {
        self.lo.abs().max(self.hi.abs())
    }
}

/// The keys that an operation needs, and the most that its table may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) least: i64,
    pub(super) most: i64,
}

/// A table that clamps: where it is, the keys it has, and the most that it may have for all that
/// share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClampTable {
    table: usize,
    keys: Keys,
}

/// How a rounded number becomes an element of the range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Clamping {
    /// By a table of all rounded numbers.
    Keys,
    /// By a table of blocks of them.
    Blocks(Blocks),
    /// By the limbs of how far it lies outside.
    Excess(Vec<u8>),
    /// By the limbs of how far it lies outside of one end, and of how far the element lies inside:
    /// it cannot leave the range at the other end.
    End(End),
    /// Not at all: it is the element. The limbs are those of how far it is from the smallest;
    /// without any it is the smallest, which has to be said if something was dropped.
    Plain(i64, Vec<u8>),
}

/// The end of a range at which a clamp acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The end, and 1 for the largest number or -1 for the smallest.
    at: i64,
    sign: i64,
    outside: Vec<u8>,
    inside: Vec<u8>,
}

impl Clamping {
    /// What is committed of a rounded number that is clamped; where that is its block, the number
    /// becomes it.
    pub(crate) fn numbers(&self, key: &mut i64, spec: &Spec) -> Vec<i64> {
        let cut = |number: i64, widths: &[u8]| {
            let mut left = number;
            let limb = |width: &u8| {
                let limb = left & ((1 << width) - 1);
                left >>= width;
                limb
            };
            widths.iter().map(limb).collect::<Vec<_>>()
        };
        match self {
            Self::Keys => Vec::new(),
            Self::Blocks(blocks) => {
                let [block, rest @ ..] = blocks.of(*key);
                *key = block;
                rest.to_vec()
            }
            Self::Excess(widths) => {
                let excess = *key - (*key).clamp(spec.lo.into(), spec.hi.into());
                let mut all = cut(excess.abs().max(1) - 1, widths);
                all.extend([excess.signum(), excess]);
                all
            }
            Self::End(end) => {
                let past = (*key - end.at) * end.sign;
                let mut all = cut(past.max(1) - 1, &end.outside);
                all.extend(cut((-past).max(0), &end.inside));
                all.extend([i64::from(past > 0), past.max(0)]);
                all
            }
            Self::Plain(from, widths) => cut(*key - from, widths),
        }
    }

    /// The limbs that are committed, and how many other numbers.
    fn limbs(&self) -> (Vec<u8>, usize) {
        match self {
            Self::Keys => (Vec::new(), 0),
            Self::Blocks(blocks) => (vec![blocks.bits], 2),
            Self::Excess(widths) => (widths.clone(), 2),
            Self::End(end) => ([end.outside.clone(), end.inside.clone()].concat(), 2),
            Self::Plain(_, widths) => (widths.clone(), 0),
        }
    }
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
    fn numbers(&self) -> i64 {
        self.to - self.from + 1
    }

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

/// The widths of the limbs of a number of so many bits, at most `widest` each.
pub(crate) fn limbs(bits: u8, widest: u8) -> Vec<u8> {
    let count = bits.div_ceil(widest);
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
    pub(crate) fn new(bound: i64, pre_shift: u8, widest: u8) -> Self {
        let small = round_shift(bound, pre_shift);
        let width = (64 - (2 * small).leading_zeros()) as u8;
        let bits = width.saturating_sub(widest);
        Self { small, bits, size: ((2 * small) >> bits) + 1 }
    }
}

/// The limbs of what a rescale drops, lowest bits first: of e, of l, of d.
pub(crate) fn limb_widths(rescale: &Rescale, bound: i64, widest: u8, fine: u8) -> [Vec<u8>; 3] {
    let dropped = dropped(rescale.shift, widest, fine);
    if rescale.pre_shift == 0 {
        return [Vec::new(), Vec::new(), dropped];
    }
    let top = Top::new(bound, rescale.pre_shift, widest);
    [limbs(rescale.pre_shift, widest), limbs(top.bits, widest), dropped]
}

/// The limbs of d. With a finer key there is one, however wide.
fn dropped(shift: u8, widest: u8, fine: u8) -> Vec<u8> {
    match shift - fine {
        0 => Vec::new(),
        bits if fine > 0 => vec![bits],
        bits => limbs(bits, widest),
    }
}

impl Builder {
    /// The look-ups of an operation's rescale of accumulators that lie where `reach` says.
    pub(super) fn rescale(
        &mut self,
        operation: usize,
        reach: Reach,
        rescale: &Rescale,
        axis: Axis,
    ) -> Result<(), PlanError> {
        let bound = reach.magnitude();
        let spec = self.spec_of(operation);
        let rounded = keys(rescale, reach, 0);
        let clamping = self.clamping(operation, rounded, rescale.shift, &spec)?;
        let fine = match &clamping {
            Clamping::Keys => self.fine(operation, rescale, reach, &spec),
            Clamping::Blocks(_) | Clamping::Excess(_) | Clamping::End(_) | Clamping::Plain(..) => 0,
        };
        let widths = limb_widths(rescale, bound, self.widest, fine);
        let mut all = widths.concat();
        let (clamped, more) = clamping.limbs();
        all.extend(&clamped);
        let mut columns = self.limbs(operation, &all, more).into_iter();
        let [dropped_first, low, dropped] = widths.map(|widths| summed(&widths, &mut columns));
        let mut u = Form::of(Source::Accumulator(operation));
        if rescale.pre_shift > 0 {
            u.plus(int(half(rescale.pre_shift)));
            u.add_form(&dropped_first, int(-1));
            let mut shifted = Form::default();
            shifted.add_form(&u, halved(rescale.pre_shift));
            u = shifted;
            self.top(operation, bound, rescale.pre_shift, &u, &low)?;
        }
        let key = key(u, &dropped, rescale, axis, fine);
        let (first, second) = match &clamping {
            Clamping::End(end) => (end.outside.clone(), end.inside.clone()),
            Clamping::Keys | Clamping::Blocks(_) | Clamping::Excess(_) | Clamping::Plain(..) => {
                (clamped, Vec::new())
            }
        };
        let [inside, other] = [first, second].map(|widths| summed(&widths, &mut columns));
        let rest: Vec<ColumnId> = columns.collect();
        match (&clamping, rest.as_slice()) {
            (Clamping::Blocks(blocks), [flag, base]) => {
                self.by_block(operation, *blocks, &inside, [*flag, *base], &key);
            }
            (Clamping::Excess(_), [sign, excess]) => {
                self.by_excess(operation, &key, &inside, [*sign, *excess]);
            }
            (Clamping::Plain(from, _), _) => {
                let element = Form::of(Source::Value(self.program.value_of(operation)));
                if rescale.shift > 0 {
                    let mut stated = inside;
                    stated.plus(int(*from));
                    self.same(operation, &key, &stated);
                }
                self.same(operation, &key, &element);
            }
            (Clamping::End(end), [flag, excess]) => {
                let limbs = [&inside, &other];
                self.by_end(operation, &key, end, limbs, [*flag, *excess]);
            }
            (Clamping::Keys | Clamping::Blocks(_) | Clamping::Excess(_) | Clamping::End(_), _) => {
                let table = self.clamp_table(operation, keys(rescale, reach, fine), fine, &spec)?;
                self.look_up(operation, table, Lookup::Clamp(operation), key);
            }
        }
        let (rescale, widest) = (rescale.clone(), self.widest);
        let rescaled = Rescaled { rescale, bound, widest, axis, clamping, fine };
        self.rescales.insert(operation, rescaled);
        Ok(())
    }

    /// How to clamp: the fewest cells decide. What is not a table of all keys must save half of it.
    fn clamping(
        &self,
        operation: usize,
        keys: Keys,
        shift: u8,
        spec: &Spec,
    ) -> Result<Clamping, PlanError> {
        let (lo, hi) = (i64::from(spec.lo), i64::from(spec.hi));
        let numbers = keys.to - keys.from + 1;
        let cells = 1_i64 << self.layout_of(operation).bits();
        let all_keys = if self.shares_keys(keys, 0, spec) { 0 } else { 1_i64 << bits(numbers) };
        let is_too_wide = numbers > TABLE_MAX;
        if lo <= keys.from && keys.to <= hi {
            // Without a shift nothing was dropped, and the element is told apart by itself.
            let widths = if shift == 0 { Vec::new() } else { limbs(bits(numbers), self.widest) };
            let last = keys.from + (1 << widths.iter().sum::<u8>()) - 1;
            let is_safe = shift == 0 || (keys.least <= keys.from && last <= keys.most);
            if is_safe && (is_too_wide || 2 * cells * (widths.len() as i64) < all_keys) {
                return Ok(Clamping::Plain(keys.from, widths));
            }
        }
        let widths = limbs(bits((keys.to - hi).max(lo - keys.from).max(1)), self.widest);
        let excess = 1 << widths.iter().sum::<u8>();
        let range = hi - lo + 3;
        let by_excess = cells * (2 + widths.len() as i64) + (1 << bits(range));
        let is_safe = range <= TABLE_MAX && keys.least <= lo - excess && hi + excess <= keys.most;
        let blocks = self.blocks(keys, spec).filter(|blocks| blocks.numbers() <= TABLE_MAX);
        let by_block = blocks.map_or(i64::MAX, |blocks| 3 * cells + (1 << bits(blocks.numbers())));
        match blocks {
            Some(blocks) if by_block <= by_excess && (is_too_wide || 2 * by_block < all_keys) => {
                Ok(Clamping::Blocks(blocks))
            }
            Some(_) | None if is_safe && (is_too_wide || 2 * by_excess < all_keys) => {
                Ok(Clamping::Excess(widths))
            }
            Some(_) | None if is_too_wide => end(keys, spec, self.widest)
                .map(Clamping::End)
                .ok_or(PlanError::Wide { operation, numbers, most: TABLE_MAX }),
            Some(_) | None => Ok(Clamping::Keys),
        }
    }

    /// How to clamp by blocks, if that is safe.
    fn blocks(&self, keys: Keys, spec: &Spec) -> Option<Blocks> {
        let (lo, numbers) = (i64::from(spec.lo), i64::from(spec.hi) - i64::from(spec.lo) + 1);
        let bits = (numbers.trailing_zeros() as u8).min(LIMB_BITS_MAX);
        let (from, to) = ((keys.from - lo) >> bits, (keys.to - lo) >> bits);
        let first = (from << bits) + lo;
        let last = (to << bits) + (1 << bits) - 1 + lo;
        let is_safe = keys.least <= first && last <= keys.most;
        is_safe.then_some(Blocks { from, to, inside: numbers >> bits, bits, lo })
    }

    /// How many more bits than the rounded number a key of a table of all keys has: what needs the
    /// fewest cells. Limbs count for every element, tables once.
    fn fine(&self, operation: usize, rescale: &Rescale, reach: Reach, spec: &Spec) -> u8 {
        let cells = 1_i64 << self.layout_of(operation).bits();
        let all = |fine: u8| -> Option<i64> {
            let keys = keys(rescale, reach, fine);
            let numbers = keys.to - keys.from + 1;
            let mut widths = dropped(rescale.shift, self.widest, fine);
            let of_limbs = cells * widths.len() as i64;
            widths.dedup();
            widths.retain(|width| !self.has_table(&Table::Range { size: 1 << width }));
            let is_small = widths.iter().all(|width| 1 << width <= TABLE_MAX);
            let is_whole = [keys.from, keys.to].iter().all(|key| i32::try_from(*key).is_ok());
            let is_safe = numbers <= TABLE_MAX && keys.least <= keys.from && is_whole;
            let of_keys = if self.shares_keys(keys, fine, spec) { 0 } else { 1 << bits(numbers) };
            let of_ranges: i64 = widths.iter().map(|width| 1_i64 << width).sum();
            (is_small && is_safe).then_some(of_limbs + of_keys + of_ranges)
        };
        let found = (0..=rescale.shift).filter_map(|fine| Some((all(fine)?, fine))).min();
        found.map_or(0, |(_, fine)| fine)
    }

    /// Whether a table of keys is there already that holds these and may.
    fn shares_keys(&self, keys: Keys, fine: u8, spec: &Spec) -> bool {
        let alike = self.clamps.get(&(spec.lo.into(), spec.hi.into(), fine));
        alike.into_iter().flatten().any(|clamp| {
            let Keys { from, to, least, most } = clamp.keys;
            from <= keys.from
                && keys.to <= to
                && least.max(keys.least) <= from
                && to <= most.min(keys.most)
        })
    }

    /// The look-up of a key's block, and the product that makes the element of it.
    fn by_block(
        &mut self,
        operation: usize,
        blocks: Blocks,
        low: &Form,
        [flag, base]: [ColumnId; 2],
        key: &Form,
    ) {
        let Blocks { from, to, inside, bits, lo } = blocks;
        let mut block = Form::default();
        block.add_form(key, halved(bits));
        block.plus(int(-lo) * halved(bits));
        block.add_form(low, -halved(bits));
        let table = self.table(Table::Blocks { from, to, inside, bits });
        let values = [flag, base].map(|column| Form::of(Source::Column(column)));
        self.group(operation, table, Lookup::Block(operation), block, values);
        let mut rest = Form::of(Source::Column(base));
        rest.plus(int(lo));
        rest.add(Source::Value(self.program.value_of(operation)), int(-1));
        let factors = [Form::of(Source::Column(flag)), low.clone()];
        self.equation(operation, self.layout_of(operation), vec![(F::ONE, factors)], rest);
    }

    /// That the key is the element plus the excess, and that this is its sign times one more than
    /// the limbs say.
    fn by_excess(
        &mut self,
        operation: usize,
        key: &Form,
        limbs: &Form,
        [sign, excess]: [ColumnId; 2],
    ) {
        let value = Source::Value(self.program.value_of(operation));
        let mut clamped = Form::of(value);
        clamped.add(Source::Column(excess), F::ONE);
        self.same(operation, key, &clamped);
        self.signed(operation, sign);
        self.excess(operation, limbs, [sign, excess]);
    }

    /// That an excess is its sign times one more than the limbs say.
    fn excess(&mut self, operation: usize, limbs: &Form, [sign, excess]: [ColumnId; 2]) {
        let mut far = limbs.clone();
        far.plus(F::ONE);
        let mut rest = Form::default();
        rest.add(Source::Column(excess), int(-1));
        let factors = [Form::of(Source::Column(sign)), far];
        self.equation(operation, self.layout_of(operation), vec![(F::ONE, factors)], rest);
    }

    /// That the key is the element plus the excess over an end of the range, that the element lies
    /// as far inside as its limbs say, and that one of both is nothing.
    fn by_end(
        &mut self,
        operation: usize,
        key: &Form,
        end: &End,
        [outside, inside]: [&Form; 2],
        [flag, excess]: [ColumnId; 2],
    ) {
        let value = Source::Value(self.program.value_of(operation));
        let mut clamped = Form::of(value);
        clamped.add(Source::Column(excess), int(end.sign));
        self.same(operation, key, &clamped);
        let mut within = Form::default();
        within.add(value, int(-end.sign));
        within.plus(int(end.at * end.sign));
        self.same(operation, &within, inside);
        let table = self.table(Table::Range { size: 2 });
        let what = Lookup::Formed(operation);
        self.look_up(operation, table, what, Form::of(Source::Column(flag)));
        self.excess(operation, outside, [flag, excess]);
        let factors = [Form::of(Source::Column(flag)), inside.clone()];
        let layout = self.layout_of(operation);
        self.equation(operation, layout, vec![(F::ONE, factors)], Form::default());
    }

    /// That a sign is 0 and the element of its range, or that the sign is 1 or -1 and the element
    /// the largest or smallest of it.
    pub(super) fn signed(&mut self, operation: usize, sign: ColumnId) {
        let spec = self.spec_of(operation);
        let values = Values::Ends((i64::from(spec.hi) - i64::from(spec.lo) + 3) as usize);
        let from = i64::from(spec.lo) - 1;
        let table = self.table(Table::Entries { from, values });
        let mut key = Form::of(Source::Value(self.program.value_of(operation)));
        key.add(Source::Column(sign), F::ONE);
        let values = [Form::of(Source::Column(sign)), Form::default()];
        self.group(operation, table, Lookup::Formed(operation), key, values);
    }

    /// Looks up the difference of two numbers in the table of nothing but 0.
    fn same(&mut self, operation: usize, key: &Form, other: &Form) {
        let mut difference = key.clone();
        difference.add_form(other, int(-1));
        let table = self.table(Table::Range { size: 1 });
        self.look_up(operation, table, Lookup::Zero(operation), difference);
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
        let top = Top::new(bound, pre_shift, self.widest);
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
        fine: u8,
        spec: &Spec,
    ) -> Result<usize, PlanError> {
        let numbers = keys.to - keys.from + 1;
        if numbers > TABLE_MAX {
            return Err(PlanError::Wide { operation, numbers, most: TABLE_MAX });
        }
        let (lo, hi) = (i64::from(spec.lo), i64::from(spec.hi));
        let own = Table::Clamp { from: keys.from, to: keys.to, lo, hi, fine };
        let alike = self.clamps.entry((lo, hi, fine)).or_default();
        for clamp in alike.iter_mut() {
            let all = Keys {
                from: clamp.keys.from.min(keys.from),
                to: clamp.keys.to.max(keys.to),
                least: clamp.keys.least.max(keys.least),
                most: clamp.keys.most.min(keys.most),
            };
            let both = Table::Clamp { from: all.from, to: all.to, lo, hi, fine };
            let saves = both.bits() <= self.tables[clamp.table].bits().max(own.bits());
            if saves && all.least <= all.from && all.to <= all.most {
                self.tables[clamp.table] = both;
                clamp.keys = all;
                return Ok(clamp.table);
            }
        }
        alike.push(ClampTable { table: self.tables.len(), keys });
        self.tables.push(own);
        Ok(self.tables.len() - 1)
    }
}

/// The sum of as many limbs as there are widths.
pub(super) fn summed(widths: &[u8], columns: &mut impl Iterator<Item = ColumnId>) -> Form {
    let mut form = Form::default();
    let mut shift = 0_u8;
    for (width, column) in widths.iter().zip(columns) {
        form.add(Source::Column(column), int(1 << shift));
        shift += width;
    }
    form
}

/// How to clamp at the only end that keys leave; `None` if that is not safe, or they leave both.
fn end(keys: Keys, spec: &Spec, widest: u8) -> Option<End> {
    let (lo, hi) = (i64::from(spec.lo), i64::from(spec.hi));
    let (at, sign, past, within) = match (keys.from < lo, hi < keys.to) {
        (false, true) => (hi, 1, keys.to - hi, hi - keys.from),
        (true, false) => (lo, -1, lo - keys.from, keys.to - lo),
        (true, true) | (false, false) => return None,
    };
    let [outside, inside] = [past, within + 1].map(|numbers| limbs(bits(numbers), widest));
    let [far, near] = [&outside, &inside].map(|widths| 1_i64 << widths.iter().sum::<u8>());
    let (first, last) = if sign > 0 { (at - near, at + far) } else { (at - far, at + near) };
    let is_safe = keys.least <= first && last <= keys.most;
    is_safe.then_some(End { at, sign, outside, inside })
}

/// Bits that tell so many numbers apart.
fn bits(numbers: i64) -> u8 {
    bits_of(numbers.max(1) as usize) as u8
}

/// The key that is looked up: u times its multiplier without what is dropped, finer than the
/// rounded number by so many bits.
fn key(u: Form, dropped: &Form, rescale: &Rescale, axis: Axis, fine: u8) -> Form {
    let each = halved(rescale.shift - fine);
    let mut key = Form::default();
    match spread(rescale, axis) {
        Ok(spread) => key.add_form(&u.spread(&spread), each),
        Err(factor) => key.add_form(&u, factor * each),
    }
    key.plus(int(half(rescale.shift)) * each + int(i64::from(rescale.zero) << fine));
    key.add_form(dropped, -each);
    key
}

/// The keys of a rescale of accumulators that lie where `reach` says. Finer ones begin with the
/// first of those that are rounded to one number.
fn keys(rescale: &Rescale, reach: Reach, fine: u8) -> Keys {
    let (shift, zero) = (rescale.shift - fine, i64::from(rescale.zero) << fine);
    let small = Reach {
        lo: round_shift(reach.lo, rescale.pre_shift),
        hi: round_shift(reach.hi, rescale.pre_shift),
    };
    let factors = || rescale.multipliers.as_slice().iter().copied().map(i64::from);
    let factors = Reach { lo: factors().min().unwrap_or(0), hi: factors().max().unwrap_or(0) };
    let scaled = small.product(factors);
    let (least, most) = (half(rescale.shift) + scaled.lo, half(rescale.shift) + scaled.hi);
    Keys {
        from: ((least >> rescale.shift) << fine) + zero,
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
    use crate::plan::limits::Sizes;
    use tg_tensor::program::{MAGNITUDE_MAX, Multipliers};

    fn rescale(shift: u8, multiplier: i32, zero: i32) -> Rescale {
        let multipliers = Multipliers::new(vec![multiplier]).expect("one is allowed");
        Rescale { pre_shift: 0, multipliers, shift, zero }
    }

    #[test]
    fn limbs_cover_all_bits_and_stay_small() {
        for bits in 0..=30 {
            for widest in Sizes::USUAL.limb_bits.iter().copied() {
                let widths = limbs(bits, widest);
                assert_eq!(widths.iter().sum::<u8>(), bits);
                assert!(widths.iter().all(|width| (1..=widest).contains(width)));
            }
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
            let keys = keys(&stated, Reach::within(bound), 0);
            assert!(keys.least <= keys.from && keys.to <= keys.most, "{shift}: {keys:?}");
        }
    }

    /// Goal: finer keys stand beside the rounded number, and are safe where the rounded one is.
    /// Method: all finenesses of several shifts, accumulators of the whole range.
    #[test]
    fn finer_keys_stand_beside_the_rounded_number() {
        let spec = Spec { len: 1, lo: -128, hi: 127 };
        for (shift, multiplier, zero, bound) in [(20, 10_479, 0, 97_921), (7, 3, -5, 4_000)] {
            let stated = rescale(shift, multiplier, zero);
            for fine in 0..=shift {
                let keys = keys(&stated, Reach::within(bound), fine);
                let Keys { from, to, least, most } = keys;
                assert!((from - (i64::from(zero) << fine)) % (1 << fine) == 0);
                assert!(least <= from && to <= most);
                let table = Table::Clamp { from, to, lo: -128, hi: 127, fine };
                for sum in (-bound..=bound).step_by(1_001).chain([bound, 0, -1]) {
                    let scaled = sum * i64::from(multiplier) + half(shift);
                    let key = (scaled >> (shift - fine)) + (i64::from(zero) << fine);
                    let place = table.place(key).expect("a key of the table");
                    let made = stated.apply(sum, 0, &spec);
                    assert_eq!(table.entry(place), [key, made.into(), 0]);
                }
            }
        }
    }

    /// Goal: liars are tried on finer keys too. Method: the nets that they run, as often as they
    /// do.
    #[test]
    fn nets_of_liars_have_finer_keys() {
        use crate::tests::programs::Net;
        let is_finer = |(net, batch): (Net, usize)| {
            let prover = crate::Prover::new(net.model(), crate::Mode::Public, batch);
            let prover = prover.expect("it can be proven");
            prover.setup().plan.rescales.values().any(|rescaled| rescaled.fine > 0)
        };
        assert!(Net::ALL.into_iter().flat_map(|net| [(net, 1), (net, 3)]).any(is_finer));
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
