//! Division by a number or its root, whose shift is another for each number.
//!
//! `y = clamp(round_shift((a + offset) * E, s) + zero)`, where the divisor x decides the entry E
//! and the shift s. What x decides stands beside x, once for each of its elements, and its readers
//! read it there. Let 2^e be the power that x is divided by, index j stand for it (e, or e / 2 for
//! a root), and P = 2^max(e, 0).
//!
//! # The power of a divisor
//! Committed are t, j, E, the limbs of r and, if x can be negative, of q, and all that follows from
//! j: f = min(j, 0), P, s in several forms, g. Look-ups say that they do follow, that t has the
//! entry E and stands for f, and that r < P. An equation says
//! ```text
//! x + g * q = t * P + r
//! ```
//! Both sides are integers of less than p distance ([`Normal::new`] refuses others), so they are
//! equal. Entries of t are: t = 1 to 2^11 - 1 (2^12 - 1 for a root) with the power of t itself,
//! which is never above 0; and t = 0 with the entry of 1 and the f of the index that is one below
//! that of 1. Only that index has g = 1. So there are three cases, of which x allows one:
//! - j > 0: f is 0, so t is a whole mantissa, and x = t * P + r has the power of j.
//! - j of 1 or more numbers, not above 0: P is 1 and r is 0, so x = t, and f is the power of t.
//! - the index below: t = 0, P = 1, r = 0, so x = -q, which is at most 0 and counts as 1.
//!
//! # The variable shift
//! With V the largest |(a + offset) * E| and 2^(B-1) above V + half(s) and at least 2^s for all s,
//! an equation says
//! ```text
//! (a + offset) * E + half(s) + 2^(B-1) = k * 2^s + d        0 <= d < 2^s,  0 <= k < 2^(B-s)
//! ```
//! Both sides are integers of less than p distance again. So k - 2^(B-1-s) is the rounded number,
//! and is clamped as in `rescale.rs`, with a product instead of a committed excess.
//!
//! # Widths that vary
//! A limb l of w bits, w depending on s: the pair (2^w + l, 2^w) is in the table of numbers with
//! the largest power of two within them only if 0 <= l < 2^w. Limb i of a number of n bits has as
//! many of these as are left of n - 11 i, so that together they have n.

use super::build::Builder;
use super::limits::{LIMB_BITS_MAX, PlanError, TABLE_MAX};
use super::rescale::{Reach, half, limbs, summed};
use super::{ColumnId, Form, Layout, Lookup, Placed, Source, Table, Values};
use crate::field::{F, PRIME, bits_of, int};
use p3_field::PrimeCharacteristicRing;
use std::sync::Arc;
use tg_tensor::element::{MANTISSA_BITS, power_of};
use tg_tensor::program::{Inverse, Place, Primitive, Spec};

/// The most bits of a limb whose width varies: its table has twice as many entries.
const STEP_BITS: u8 = 11;

/// A division: what is committed of it.
#[derive(Clone, Debug)]
pub(crate) struct Normal {
    inverse: Inverse,
    shift: i64,
    zero: i64,
    spec: Spec,
    /// The index of a divisor of 1, and the first and last that there can be.
    one: i64,
    first: i64,
    last: i64,
    /// B above.
    bits: u8,
    /// Entry and f of each t.
    entries: Arc<[[i32; 2]]>,
    /// Limbs of -x.
    negative: Vec<u8>,
    /// Limbs of how far a result lies outside its range; `None` if it cannot.
    excess: Option<Vec<u8>>,
}

/// Bits of limb `place` of a number of `bits` bits.
fn step(bits: i64, place: usize) -> i64 {
    (bits - i64::from(STEP_BITS) * place as i64).clamp(0, STEP_BITS.into())
}

fn steps(bits: i64) -> usize {
    (bits.max(0) as usize).div_ceil(STEP_BITS.into())
}

fn cut(number: i64, widths: impl IntoIterator<Item = u8>) -> Vec<i32> {
    let mut left = number;
    let limb = |width: u8| {
        let limb = left & ((1 << width) - 1);
        left >>= width;
        limb as i32
    };
    widths.into_iter().map(limb).collect()
}

impl Normal {
    /// That of an operation, unless a number in it could stand for two.
    fn new(primitive: &Primitive, reach: Reach, divisor: Spec, spec: Spec) -> Option<Self> {
        let Primitive::Normalise { inverse, entries, shift, zero, .. } = primitive else {
            return None;
        };
        let (lo, hi) = (i64::from(divisor.lo), i64::from(divisor.hi));
        let index = |x: i64| power_of(x, *inverse).1;
        let one = index(1);
        let first = if lo < 1 { one - 1 } else { index(lo) };
        let entry = |t: i64| {
            let (mantissa, power) = power_of(t, *inverse);
            let place = (mantissa - (1 << MANTISSA_BITS)) as usize;
            let entry = entries.as_slice().get(place).copied().unwrap_or(0);
            [entry.into(), if t == 0 { one - 1 } else { power } as i32]
        };
        let mantissas = match inverse {
            Inverse::Reciprocal => 2_i64 << MANTISSA_BITS,
            Inverse::Root => 4 << MANTISSA_BITS,
        };
        let largest = entries.as_slice().iter().copied().max().unwrap_or(0);
        let product = reach.magnitude() * i64::from(largest);
        let mut normal = Self {
            inverse: *inverse,
            shift: (*shift).into(),
            zero: (*zero).into(),
            spec,
            one,
            first,
            last: index(hi),
            bits: 0,
            entries: (0..mantissas).map(entry).collect(),
            negative: if lo < 0 {
                limbs(bits_of((1 - lo) as usize) as u8, LIMB_BITS_MAX)
            } else {
                Vec::new()
            },
            excess: None,
        };
        let (least, most) = (normal.shift_of(first), normal.shift_of(normal.last));
        let top = (bits_of((product + half(most as u8) + 1) as usize) as i64).max(most);
        normal.bits = top as u8 + 1;
        let is_divided = (mantissas << normal.exponent(normal.last)) - 1 - lo < PRIME
            && hi + (1 << normal.negative.iter().sum::<u8>()) - 1 < PRIME;
        let is_shifted =
            (1 << top) - 1 + product < PRIME && (1 << top) + product + half(most as u8) < PRIME;
        let is_clamped = normal.clamp(product, least as u8);
        (is_divided && is_shifted && is_clamped).then_some(normal)
    }

    /// Decides how results of products up to `product` are clamped; gives whether none can stand
    /// for two. The smallest shift gives the largest results.
    fn clamp(&mut self, product: i64, shift: u8) -> bool {
        let (lo, hi) = (i64::from(self.spec.lo), i64::from(self.spec.hi));
        let from = ((half(shift) - product) >> shift) + self.zero;
        let to = ((half(shift) + product) >> shift) + self.zero;
        if lo <= from && to <= hi {
            return true;
        }
        // The sign of what is clamped is looked up in a table of the range.
        if hi - lo + 3 > TABLE_MAX {
            return false;
        }
        let widths = limbs(bits_of((to - hi).max(lo - from).max(1) as usize) as u8, LIMB_BITS_MAX);
        let most = 1_i64 << widths.iter().sum::<u8>();
        self.excess = Some(widths);
        to - (lo - most) < PRIME && hi + most - from < PRIME
    }

    /// The shift of an index. The index below that of 1 counts as 1.
    fn shift_of(&self, index: i64) -> i64 {
        self.shift + index.max(self.one)
    }

    /// How many bits are dropped of a divisor.
    fn exponent(&self, index: i64) -> i64 {
        match self.inverse {
            Inverse::Reciprocal => index.max(0),
            Inverse::Root => 2 * index.max(0),
        }
    }

    /// Limbs of r, d and k.
    fn counts(&self) -> [usize; 3] {
        let (least, most) = (self.shift_of(self.first), self.shift_of(self.last));
        [self.exponent(self.last), most, i64::from(self.bits) - least].map(steps)
    }

    /// All that follows from an index: f, P, g, 2^s, half(s), 2^(B-1-s), and 2^w of the limbs of r,
    /// d and k.
    fn powers(&self, index: i64) -> Vec<i32> {
        let (shift, exponent) = (self.shift_of(index), self.exponent(index));
        let top = i64::from(self.bits) - 1;
        let mut all = vec![
            index.min(0),
            1 << exponent,
            (index < self.one).into(),
            1 << shift,
            half(shift as u8),
            1 << (top - shift),
        ];
        for (count, bits) in self.counts().into_iter().zip([exponent, shift, top + 1 - shift]) {
            all.extend((0..count).map(|place| 1_i64 << step(bits, place)));
        }
        all.into_iter().map(|number| number as i32).collect()
    }

    /// What is committed of a divisor: j, t, E, all that follows from j, limbs of r and q.
    pub(crate) fn divisor(&self, x: i64) -> Vec<i32> {
        let (mantissa, power) = power_of(x, self.inverse);
        let (index, t) = match x {
            ..1 => (self.one - 1, 0),
            _ if power > 0 => (power, mantissa),
            _ => (power, x),
        };
        let rest = if x < 1 { 0 } else { x - (t << self.exponent(index)) };
        let mut all = vec![index as i32, t as i32, self.entries[t as usize][0]];
        all.extend(self.powers(index));
        all.extend(cut(rest, std::iter::repeat_n(STEP_BITS, self.counts()[0])));
        all.extend(cut((-x).max(0), self.negative.iter().copied()));
        all
    }

    /// What is committed of an element beside its value: limbs of d and k, limbs of the excess,
    /// and its sign.
    pub(crate) fn element(&self, left: i64, x: i64) -> Vec<i32> {
        let divisor = self.divisor(x);
        let shift = self.shift_of(divisor[0].into());
        let top = i64::from(self.bits) - 1;
        let sum = left * i64::from(divisor[2]) + half(shift as u8) + (1 << top);
        let [_, dropped, kept] = self.counts();
        let mut all = cut(sum & ((1 << shift) - 1), std::iter::repeat_n(STEP_BITS, dropped));
        all.extend(cut(sum >> shift, std::iter::repeat_n(STEP_BITS, kept)));
        if let Some(widths) = &self.excess {
            let key = (sum >> shift) - (1 << (top - shift)) + self.zero;
            let excess = key - key.clamp(self.spec.lo.into(), self.spec.hi.into());
            all.extend(cut(excess.abs().max(1) - 1, widths.iter().copied()));
            all.push(excess.signum() as i32);
        }
        all
    }

    /// Numbers beside an element's value.
    pub(crate) fn own(&self) -> usize {
        let [_, dropped, kept] = self.counts();
        dropped + kept + self.excess.as_ref().map_or(0, |widths| widths.len() + 1)
    }
}

/// The columns of what follows from a divisor.
struct Beside {
    index: ColumnId,
    t: ColumnId,
    entry: ColumnId,
    powers: Vec<ColumnId>,
    rest: Vec<ColumnId>,
    negative: Vec<ColumnId>,
}

impl Builder {
    pub(super) fn normalise(&mut self, operation: usize) -> Result<(), PlanError> {
        let program = self.program.clone();
        let primitive = &program.operations()[operation].primitive;
        let Primitive::Normalise { a, offset, x, .. } = primitive else { return Ok(()) };
        let reach = self.reach(a.value, (*offset).into());
        let divisor = program.specs()[x.value.index()];
        let spec = self.spec_of(operation);
        let normal =
            Normal::new(primitive, reach, divisor, spec).ok_or(PlanError::Wraps { operation })?;
        let layout = match program.place(x.value) {
            Some(Place::Constant(_)) => Layout::new(self.batch, &[1, divisor.elements()]),
            Some(Place::Input(_) | Place::Operation(_)) | None => {
                self.layouts[x.value.index()].clone()
            }
        };
        let own = self.columns_of(operation, normal.own());
        let beside = self.beside(operation, &normal, &layout);
        self.divide(operation, &normal, &layout, &beside, Source::Value(x.value));
        self.shift(operation, &normal, &own, &beside, (*offset).into());
        self.normals.insert(operation, normal);
        Ok(())
    }

    fn beside(&mut self, operation: usize, normal: &Normal, layout: &Layout) -> Beside {
        let own = normal.own();
        let powers = normal.powers(normal.first).len();
        let count = 3 + powers + normal.counts()[0] + normal.negative.len();
        let mut columns = self.columns_with(operation, layout, own..own + count).into_iter();
        let mut take = |count: usize| columns.by_ref().take(count).collect::<Vec<_>>();
        let (fixed, powers) = (take(3), take(powers));
        let (rest, negative) = (take(normal.counts()[0]), take(normal.negative.len()));
        let [index, t, entry] = [0, 1, 2].map(|place| fixed[place]);
        Beside { index, t, entry, powers, rest, negative }
    }

    /// That the numbers beside a divisor are those of its power.
    fn divide(
        &mut self,
        operation: usize,
        normal: &Normal,
        layout: &Layout,
        beside: &Beside,
        x: Source,
    ) {
        let what = Lookup::Formed(operation);
        let of = |column: ColumnId| Form::of(Source::Column(column));
        let [f, p, g] = [0, 1, 2].map(|place| of(beside.powers[place]));
        let table = self.table(Table::Pairs { from: 0, values: normal.entries.clone() });
        self.group_with(layout.clone(), table, what, of(beside.t), [of(beside.entry), f]);
        let powers: Vec<Vec<i32>> =
            (normal.first..=normal.last).map(|index| normal.powers(index)).collect();
        for (pair, columns) in beside.powers.chunks(2).enumerate() {
            let entry = |powers: &Vec<i32>| {
                [2 * pair, 2 * pair + 1].map(|place| powers.get(place).copied().unwrap_or(0))
            };
            let values = powers.iter().map(entry).collect();
            let table = self.table(Table::Pairs { from: normal.first, values });
            let values = [columns.first(), columns.get(1)]
                .map(|column| column.map_or_else(Form::default, |column| of(*column)));
            self.group_with(layout.clone(), table, what, of(beside.index), values);
        }
        for (place, limb) in beside.rest.iter().enumerate() {
            let width = of(beside.powers[6 + place]);
            self.limb_of_width(layout, what, *limb, width);
        }
        for (width, limb) in normal.negative.iter().zip(&beside.negative) {
            let table = self.table(Table::Range { size: 1 << width });
            let values = [Form::default(), Form::default()];
            self.group_with(layout.clone(), table, what, of(*limb), values);
        }
        let mut products = vec![(int(-1), [of(beside.t), p])];
        if !beside.negative.is_empty() {
            let q = summed(&normal.negative, &mut beside.negative.iter().copied());
            products.push((F::ONE, [g, q]));
        }
        let mut rest = Form::of(x);
        rest.add_form(&stepped(&beside.rest), int(-1));
        self.equation(operation, layout.clone(), products, rest);
    }

    /// That a limb has at most the bits of a width, which is given as a power of two.
    fn limb_of_width(&mut self, layout: &Layout, what: Lookup, limb: ColumnId, width: Form) {
        let values = Values::Powers((2 << STEP_BITS) - 1);
        let table = self.table(Table::Entries { from: 1, values });
        let mut key = width.clone();
        key.add(Source::Column(limb), F::ONE);
        self.group_with(layout.clone(), table, what, key, [width, Form::default()]);
    }

    /// That the elements are the products, shifted and clamped.
    fn shift(
        &mut self,
        operation: usize,
        normal: &Normal,
        own: &[ColumnId],
        beside: &Beside,
        offset: i64,
    ) {
        let layout = self.layout_of(operation);
        let what = Lookup::Formed(operation);
        let read = |column: ColumnId| Form::of(Source::Beside(operation, column));
        let [remainders, dropped, kept] = normal.counts();
        for (limb, width) in own[..dropped + kept].iter().zip(&beside.powers[6 + remainders..]) {
            self.limb_of_width(&layout, what, *limb, read(*width));
        }
        let (d, rest) = own.split_at(dropped);
        let (k, rest) = rest.split_at(kept);
        let (d, k) = (stepped(d), stepped(k));
        let [power, halves, zero] = [3, 4, 5].map(|place| read(beside.powers[place]));
        let mut left = Form::of(Source::Placed(Placed { operation, place: 0, number: 0 }));
        left.plus(int(offset));
        let mut others = halves;
        others.plus(int(1 << (normal.bits - 1)));
        others.add_form(&d, int(-1));
        let products = vec![(F::ONE, [left, read(beside.entry)]), (int(-1), [k.clone(), power])];
        self.equation(operation, layout.clone(), products, others);

        let mut key = k;
        key.add_form(&zero, int(-1));
        key.plus(int(normal.zero));
        key.add(Source::Value(self.program.value_of(operation)), int(-1));
        let mut products = Vec::new();
        if let (Some(widths), Some((sign, limbs))) = (&normal.excess, rest.split_last()) {
            self.signed(operation, *sign);
            for (width, limb) in widths.iter().zip(limbs) {
                let table = self.table(Table::Range { size: 1 << width });
                self.look_up(operation, table, what, Form::of(Source::Column(*limb)));
            }
            let mut far = summed(widths, &mut limbs.iter().copied());
            far.plus(F::ONE);
            products.push((int(-1), [Form::of(Source::Column(*sign)), far]));
        }
        self.equation(operation, layout, products, key);
    }
}

/// The sum of limbs of [`STEP_BITS`] each.
fn stepped(limbs: &[ColumnId]) -> Form {
    summed(&vec![STEP_BITS; limbs.len()], &mut limbs.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_tensor::program::{Operand, Sides, Strides, ValueId, round_shift};

    fn normal(inverse: Inverse, reach: Reach, hi: i32, shift: u8) -> Normal {
        let value = ValueId { number: 0 };
        let strides = Strides::new(vec![1]).expect("one is allowed");
        let operand = Operand { value, strides };
        let count = if inverse == Inverse::Root { 3 << MANTISSA_BITS } else { 1 << MANTISSA_BITS };
        let primitive = Primitive::Normalise {
            sides: Sides::new(vec![1]).expect("one is allowed"),
            a: operand.clone(),
            offset: 0,
            x: operand,
            inverse,
            entries: tg_types::List::new(vec![16_384; count]).expect("as many as allowed"),
            shift,
            zero: 0,
        };
        let divisor = Spec { len: 1, lo: -5, hi };
        let spec = Spec { len: 1, lo: -100, hi: 100 };
        Normal::new(&primitive, reach, divisor, spec).expect("nothing wraps")
    }

    /// Goal: whatever is divided, limbs have their widths and the result is that of the program.
    /// Method: the ends of all ranges, at and beside all powers.
    #[test]
    fn limbs_of_extreme_quotients_have_their_widths() {
        for (inverse, shift) in [(Inverse::Reciprocal, 10), (Inverse::Root, 7)] {
            for reach in [Reach { lo: -512, hi: 511 }, Reach::within(32_767)] {
                let normal = normal(inverse, reach, 1 << 18, shift);
                let near = |power: i64| [(1 << power) - 1, 1 << power, (3 << power) / 2];
                let near = (0..=18).flat_map(near);
                for x in near.filter(|x| *x <= 1 << 18).chain([-5, -1]) {
                    let divisor = normal.divisor(x);
                    let powers = normal.powers(divisor[0].into());
                    let [rest, ..] = normal.counts();
                    let mut limbs = divisor[3 + powers.len()..][..rest].iter().zip(&powers[6..]);
                    assert!(limbs.all(|(limb, width)| limb < width), "{x}");
                    for left in [reach.lo, -1, 0, 1, reach.hi] {
                        let own = normal.element(left, x);
                        let mut limbs = own.iter().zip(&powers[6 + rest..]);
                        assert!(limbs.all(|(limb, width)| limb < width), "{left}");
                        let [_, dropped, kept] = normal.counts();
                        let kept = own[dropped..dropped + kept].iter().rev();
                        let k = kept.fold(0, |sum, limb| (sum << STEP_BITS) + i64::from(*limb));
                        let shift = (i64::from(shift) + power_of(x, inverse).1) as u8;
                        let wanted = round_shift(left * 16_384, shift);
                        assert_eq!(k - i64::from(powers[5]), wanted, "{left} by {x}");
                    }
                }
            }
        }
    }
}
