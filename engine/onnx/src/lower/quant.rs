//! Real numbers as integers: scales, zero points, and the factors that take one to another.

use tg_tensor::program::{MAGNITUDE_MAX, Multipliers, Rescale, Scaling, Spec};

/// Which integers stand for which real numbers: real = (integer - zero) * scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quant {
    /// The real distance of two neighbouring integers.
    pub(crate) scale: f64,
    /// The integer that stands for zero.
    pub(crate) zero: i32,
    /// The smallest integer in use.
    pub(crate) lo: i32,
    /// The largest integer in use.
    pub(crate) hi: i32,
}

/// The width that stands for that of a range of nothing but zero: other data may hold something.
const WIDTH_OF_ZERO: f64 = 1.0;

/// The smallest width of a real range; what is smaller is rounding noise.
const WIDTH_MIN: f64 = 1e-12;

fn width(seen: f64) -> f64 {
    if seen == 0.0 { WIDTH_OF_ZERO } else { seen.max(WIDTH_MIN) }
}

/// Half the numbers that a value has at most: a product of two values that use them all on one side
/// of zero, with its rounding, stays within [`MAGNITUDE_MAX`].
const HALF_MAX: i32 = (1 << 14) - (1 << 7);

/// The largest magnitude of a factor of a product of two values.
pub(crate) const FACTOR_OF_TWO_MAX: f64 = (2 * HALF_MAX - 1) as f64;

impl Quant {
    /// Spreads `bits` over a real range, which is widened to hold zero.
    pub(crate) fn spread(min: f64, max: f64, bits: u32) -> Self {
        let (min, max) = (min.min(0.0), max.max(0.0));
        let half = (1_i32 << (bits - 1)).min(HALF_MAX);
        let (lo, hi) = (-half, half - 1);
        let scale = width(max - min) / f64::from(hi - lo);
        let zero = (f64::from(lo) - min / scale).round().clamp(lo.into(), hi.into()) as i32;
        Self { scale, zero, lo, hi }
    }

    /// As [`Self::spread`], but zero stands for zero, as factors of products like it.
    pub(crate) fn centred(min: f64, max: f64, bits: u32) -> Self {
        let hi = (1_i32 << (bits - 1)) - 1;
        let scale = width(min.abs().max(max.abs())) / f64::from(hi);
        Self { scale, zero: 0, lo: -hi, hi }
    }

    /// Integers that stand for themselves.
    pub(crate) const fn plain(lo: i32, hi: i32) -> Self {
        Self { scale: 1.0, zero: 0, lo, hi }
    }

    /// The nearest integer in use. What is no number counts as zero.
    pub(crate) fn encode(&self, real: f64) -> i64 {
        if real.is_nan() {
            return i64::from(self.zero).clamp(self.lo.into(), self.hi.into());
        }
        let nearest = (real / self.scale).round() + f64::from(self.zero);
        nearest.clamp(self.lo.into(), self.hi.into()) as i64
    }

    /// The real number that an integer stands for.
    pub(crate) fn decode(&self, integer: i64) -> f64 {
        (integer - i64::from(self.zero)) as f64 * self.scale
    }

    /// The spec of a value of `len` such integers.
    pub(crate) const fn spec(&self, len: u32) -> Spec {
        Spec { len, lo: self.lo, hi: self.hi }
    }

    /// Only the integers that stand for a real range.
    pub(crate) fn clipped(&self, min: f64, max: f64) -> Self {
        let lo = if min.is_finite() { self.encode(min) as i32 } else { self.lo };
        let hi = if max.is_finite() { self.encode(max) as i32 } else { self.hi };
        Self { lo: lo.min(hi), hi: hi.max(lo), ..*self }
    }

    /// What a port says of it.
    pub(crate) const fn scaling(&self) -> Scaling {
        Scaling { scale: self.scale, zero: self.zero }
    }

    /// The real numbers between which all others lie.
    pub(crate) fn reals(&self) -> (f64, f64) {
        (self.decode(self.lo.into()), self.decode(self.hi.into()))
    }

    /// The largest magnitude of an integer less its zero.
    pub(crate) fn magnitude(&self) -> f64 {
        let from_zero = |integer: i32| (i64::from(integer) - i64::from(self.zero)).abs() as f64;
        from_zero(self.lo).max(from_zero(self.hi))
    }
}

/// The largest result whose error counts when a factor is chosen: results have 15 bits or are cut
/// to them.
const REACH: f64 = 32_768.0;

/// The most bits that are dropped before a multiplication.
const PRE_SHIFT_MAX: u8 = 24;

/// The rescale that multiplies accumulators up to `bound` by `factor`; `None` if they leave 31
/// bits.
///
/// A first shift makes room for a finer factor, but its rounding shows in the result; the sum of
/// both errors decides.
pub(crate) fn rescale_for(factor: f64, bound: f64, zero: i32) -> Option<Rescale> {
    if !factor.is_finite() || factor < 0.0 || bound > MAGNITUDE_MAX as f64 {
        return None;
    }
    let reach = (bound * factor).min(REACH);
    let mut best: Option<(f64, Rescale)> = None;
    for pre_shift in 0..=PRE_SHIFT_MAX {
        let rescale = rescale_with(factor, bound, zero, pre_shift);
        if !rescale.admits(bound.ceil() as i64) {
            continue;
        }
        let dropped = 2_f64.powi(pre_shift.into());
        let made = f64::from(rescale.multiplier(0)) / dropped / 2_f64.powi(rescale.shift.into());
        let rounding = if pre_shift == 0 { 0.0 } else { dropped * factor / 2.0 };
        let loss = rounding + reach * (made / factor.max(f64::MIN_POSITIVE) - 1.0).abs();
        if best.as_ref().is_none_or(|(least, _)| loss < least * 0.99) {
            best = Some((loss, rescale));
        }
    }
    best.map(|(_, rescale)| rescale)
}

fn rescale_with(factor: f64, bound: f64, zero: i32, pre_shift: u8) -> Rescale {
    let small = (bound / f64::from(1_u32 << pre_shift)).ceil() + 1.0;
    let scaled = factor * f64::from(1_u32 << pre_shift);
    let (multiplier, shift) = fixed_point(scaled, small);
    Rescale { pre_shift, multipliers: one(multiplier), shift, zero }
}

/// The largest factor: 24 bits, as many as a device's float holds exactly.
pub(crate) const FACTOR_MAX: f64 = 16_777_216.0;

/// `factor` as `m / 2^s` with the finest `m` for which numbers up to `bound` stay within limits. A
/// factor that is too large for them becomes the largest one that is not: results are clamped
/// anyway.
pub(crate) fn fixed_point(factor: f64, bound: f64) -> (i32, u8) {
    for shift in (0..=30_u8).rev() {
        let multiplier = (factor * f64::from(1_u32 << shift)).round();
        let rounding = if shift == 0 { 0.0 } else { f64::from(1_u32 << (shift - 1)) };
        if multiplier <= FACTOR_MAX && bound * multiplier + rounding <= MAGNITUDE_MAX as f64 {
            return (multiplier as i32, shift);
        }
    }
    ((MAGNITUDE_MAX as f64 / bound.max(1.0)).min(FACTOR_MAX).floor() as i32, 0)
}

/// A list of one factor.
pub(crate) fn one(multiplier: i32) -> Multipliers {
    Multipliers::new(vec![multiplier]).unwrap_or_else(|_| unreachable!("one is within bounds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quant_of_a_range_holds_its_ends_and_zero() {
        for (min, max) in [(-1.0, 1.0), (0.0, 6.0), (-3.0, 0.0), (0.5, 2.0), (0.0, 0.0)] {
            for bits in [8, 12, 15] {
                let quant = Quant::spread(min, max, bits);
                assert_eq!(quant.decode(i64::from(quant.zero)), 0.0);
                for real in [min, max] {
                    let again = quant.decode(quant.encode(real));
                    assert!((again - real).abs() <= quant.scale, "{real} became {again}");
                }
            }
        }
    }

    #[test]
    fn rescale_for_a_factor_is_close_and_admitted() {
        for factor in [3.7e-9, 3.7e-6, 0.001, 0.04, 0.7, 1.0, 5.3] {
            for bound in [127.0, 32_767.0, 4.0e6, 1.0e8, FACTOR_OF_TWO_MAX.powi(2)] {
                if bound * factor > MAGNITUDE_MAX as f64 {
                    continue; // nothing holds such results
                }
                let rescale = rescale_for(factor, bound, 3).expect("it fits 31 bits");
                assert!(rescale.admits(bound as i64), "{factor} {bound} {rescale:?}");
                let wide = Spec { len: 1, lo: -(1 << 29), hi: 1 << 29 };
                let largest = (bound * factor).min(16_383.0);
                for part in [-1.0, -0.3, 0.1, 0.7, 1.0] {
                    let accumulator = largest * part / factor;
                    let found = f64::from(rescale.apply(accumulator as i64, 0, &wide)) - 3.0;
                    // Results of so many bits are cut to 15; their factors are coarse.
                    let part_lost = if bound * factor > 1.0e7 { 0.01 } else { 0.002 };
                    let slack = 1.0 + factor + largest * part_lost;
                    let exact = largest * part;
                    assert!((found - exact).abs() <= slack, "{factor} {bound} {found} {exact}");
                }
            }
        }
    }

    #[test]
    fn rescale_beyond_31_bits_is_refused_and_an_excessive_factor_is_cut() {
        assert_eq!(rescale_for(1.0, MAGNITUDE_MAX as f64 * 2.0, 0), None);
        assert_eq!(rescale_for(f64::INFINITY, 1.0, 0), None);
        let cut = rescale_for(1.0e12, 1.0e6, 0).expect("it is cut");
        assert!(cut.admits(1_000_000) && cut.multiplier(0) > 0);
    }

    #[test]
    fn quant_of_nothing_but_zero_has_a_scale() {
        let quant = Quant::spread(0.0, 0.0, 8);
        assert!(quant.scale > 1e-3 && quant.decode(quant.encode(0.0)) == 0.0);
    }
}
