//! How an accumulator becomes an element: the one place where numbers are rounded.

use super::{MAGNITUDE_MAX, Spec};
use tg_types::{List, wire};

/// Factors of a rescale: one for all elements, or one for each column (or position).
pub type Multipliers = List<i32, 1, 65_536>;

wire! {
    /// Accumulator to element:
    /// `clamp(((round_shift(acc, pre_shift) * m) round-shifted by shift) + zero, lo, hi)`,
    /// where `round_shift(v, s) = (v + 2^(s-1)) >> s` with an arithmetic shift, and `v` for s = 0.
    ///
    /// The first shift is for accumulators whose product with `m` would leave 31 bits; it is 0 for
    /// most.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Rescale {
        /// Bits dropped, rounded, before the multiplication.
        pub pre_shift: u8,
        /// The factors.
        pub multipliers: Multipliers,
        /// Bits dropped, rounded, after the multiplication.
        pub shift: u8,
        /// Added at the end: the integer that stands for zero.
        pub zero: i32,
    }
}

/// The most bits that one shift drops.
pub(super) const SHIFT_MAX: u8 = 30;

/// `(value + 2^(shift-1)) >> shift`, halves upwards; `value` itself for a shift of 0.
#[must_use]
pub const fn round_shift(value: i64, shift: u8) -> i64 {
    if shift == 0 { value } else { (value + (1 << (shift - 1))) >> shift }
}

impl Rescale {
    /// The factor of a column.
    #[must_use]
    pub fn multiplier(&self, column: usize) -> i32 {
        let all = self.multipliers.as_slice();
        all.get(if all.len() == 1 { 0 } else { column }).copied().unwrap_or(0)
    }

    /// The element of an accumulator in a column.
    #[must_use]
    pub fn apply(&self, accumulator: i64, column: usize, spec: &Spec) -> i32 {
        let small = round_shift(accumulator, self.pre_shift);
        let scaled = round_shift(small * i64::from(self.multiplier(column)), self.shift);
        clamp(scaled + i64::from(self.zero), spec)
    }

    /// Whether accumulators up to `bound` in magnitude stay within [`MAGNITUDE_MAX`] all the way.
    #[must_use]
    pub fn admits(&self, bound: i64) -> bool {
        let shifts = self.pre_shift <= SHIFT_MAX && self.shift <= SHIFT_MAX;
        if !shifts || !(0..=MAGNITUDE_MAX).contains(&bound) {
            return false;
        }
        let rounding = |shift: u8| if shift == 0 { 0 } else { 1_i64 << (shift - 1) };
        let small = round_shift(bound, self.pre_shift);
        let largest = self.multipliers.as_slice().iter().map(|m| i64::from(*m)).max().unwrap_or(0);
        let smallest = self.multipliers.as_slice().iter().map(|m| i64::from(*m)).min().unwrap_or(0);
        smallest >= 0
            && bound + rounding(self.pre_shift) <= MAGNITUDE_MAX
            && small * largest + rounding(self.shift) <= MAGNITUDE_MAX
            && i64::from(self.zero).abs() <= MAGNITUDE_MAX
    }
}

/// The nearest number in the range.
#[must_use]
pub fn clamp(value: i64, spec: &Spec) -> i32 {
    let inside = value.clamp(spec.lo.into(), spec.hi.into());
    i32::try_from(inside).unwrap_or(spec.lo)
}
