//! The field of the proofs, and sums of small integers with weights from its extension.
//!
//! Programs keep every number within (p - 1) / 2 of zero, so an integer and the element that
//! stands for it are the same thing. Weights come from the extension of degree five, in which a
//! wrong claim survives a random point with probability about 2^-155 times its degree.

use p3_field::extension::QuinticTrinomialExtensionField;
use p3_field::{BasedVectorSpace, Field, PrimeCharacteristicRing, PrimeField32};
use p3_koala_bear::KoalaBear;
use p3_multilinear_util::poly::Poly;
use std::sync::OnceLock;

/// The base field: p = 2^31 - 2^24 + 1.
pub(crate) type F = KoalaBear;

/// The field of challenges.
pub(crate) type EF = QuinticTrinomialExtensionField<F>;

/// Coordinates of an element of [`EF`].
pub(crate) const DEGREE: usize = 5;

/// The prime.
pub(crate) const PRIME: i64 = (1 << 31) - (1 << 24) + 1;

const _: () = assert!(PRIME == 2 * tg_tensor::program::MAGNITUDE_MAX + 1);

/// Rows after which a [`Fold`] reduces its sums: 2^30 (a coordinate) times 2^15 (an element) times
/// this many stays below 2^62.
const ROWS_UNREDUCED: usize = 1 << 16;

/// The element that stands for an integer.
pub(crate) fn int(value: i64) -> F {
    // Almost all numbers are near zero, where a division would be the dearest part.
    let shifted = if value < 0 { value + PRIME } else { value };
    match u32::try_from(shifted) {
        Ok(small) => F::from_u32(small),
        Err(_) => F::from_u32(value.rem_euclid(PRIME) as u32),
    }
}

/// Numbers on either side of zero whose elements are written down: limbs and keys of most look-ups.
const SMALL: i32 = 1 << 16;

/// The elements of small integers, made once. Almost all numbers of a run are such, and looking one
/// up takes less than the division that makes it.
pub(crate) struct Small(&'static [F]);

impl Small {
    /// Those of this process.
    pub(crate) fn get() -> Self {
        static ELEMENTS: OnceLock<Vec<F>> = OnceLock::new();
        Self(ELEMENTS.get_or_init(|| (-SMALL..SMALL).map(|number| int(number.into())).collect()))
    }

    /// The element that stands for an integer.
    #[inline(always)]
    pub(crate) fn int(&self, number: i32) -> F {
        match self.0.get(number.wrapping_add(SMALL) as usize) {
            Some(element) => *element,
            None => int(number.into()),
        }
    }
}

/// The same, in the extension.
pub(crate) fn ext(value: i64) -> EF {
    EF::from(int(value))
}

/// 2^-bits.
pub(crate) fn halved(bits: u8) -> F {
    int(1_i64 << bits).inverse()
}

/// Bits that tell `count` things apart; 0 for one thing.
pub(crate) fn bits_of(count: usize) -> usize {
    count.max(1).next_power_of_two().trailing_zeros() as usize
}

/// eq(point, i) for every i; the first coordinate is the top bit of i.
pub(crate) fn eq_table(point: &[EF]) -> Vec<EF> {
    Poly::new_from_point(point, EF::ONE).into_evals()
}

/// eq(point, i) of one i.
pub(crate) fn eq_at(point: &[EF], index: usize) -> EF {
    let bit = |place: usize| index >> (point.len() - 1 - place) & 1 == 1;
    let factor = |(place, x): (usize, &EF)| if bit(place) { *x } else { EF::ONE - *x };
    point.iter().enumerate().map(factor).product()
}

/// eq(a, b) of two points.
pub(crate) fn eq_points(a: &[EF], b: &[EF]) -> EF {
    a.iter().zip(b).map(|(x, y)| (*x * *y).double() - *x - *y + EF::ONE).product()
}

/// The product of the weights with elements of the base field.
pub(crate) fn dot_base(weights: &[EF], values: impl IntoIterator<Item = F>) -> EF {
    weights.iter().zip(values).map(|(weight, value)| *weight * value).sum()
}

/// The coordinates of an element as integers nearest to zero, so below 2^30 in magnitude.
fn coordinates(value: EF) -> [i32; DEGREE] {
    let parts: &[F] = value.as_basis_coefficients_slice();
    std::array::from_fn(|place| {
        let whole = i64::from(parts[place].as_canonical_u32());
        (if whole > PRIME / 2 { whole - PRIME } else { whole }) as i32
    })
}

/// Rows of 16-bit integers summed with weights, without a reduction for each product.
pub(crate) struct Fold {
    sums: Vec<i64>,
    width: usize,
    rows: usize,
}

impl Fold {
    /// Sums of `width` columns.
    pub(crate) fn new(width: usize) -> Self {
        Self { sums: vec![0; DEGREE * width], width, rows: 0 }
    }

    /// Adds a row with its weight, from column `at` on.
    pub(crate) fn add(&mut self, weight: EF, at: usize, row: &[i16]) {
        for (place, factor) in coordinates(weight).into_iter().enumerate() {
            let from = place * self.width + at;
            let sums = &mut self.sums[from..from + row.len()];
            for (sum, element) in sums.iter_mut().zip(row) {
                *sum += i64::from(factor) * i64::from(*element);
            }
        }
        self.rows += 1;
        if self.rows == ROWS_UNREDUCED {
            self.rows = 0;
            for sum in &mut self.sums {
                *sum %= PRIME;
            }
        }
    }

    /// The sums as elements.
    pub(crate) fn finish(self) -> Vec<EF> {
        let coordinate = |place: usize, column: usize| int(self.sums[place * self.width + column]);
        let element =
            |column: usize| EF::from_basis_coefficients_fn(|place| coordinate(place, column));
        (0..self.width).map(element).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(seed: u32) -> EF {
        EF::from_basis_coefficients_fn(|place| {
            int(i64::from(seed) * 7_919_777 * (place as i64 + 3))
        })
    }

    #[test]
    fn fold_of_extreme_rows_equals_sum_of_products() {
        let rows = [[i16::MIN, 0, 5], [i16::MAX, -1, 7], [-3, 2, i16::MIN]];
        let mut fold = Fold::new(4);
        for (index, row) in rows.iter().enumerate() {
            fold.add(some(index as u32 + 1), 1, row);
        }
        let sums = fold.finish();
        assert_eq!(sums[0], EF::ZERO);
        for column in 0..3 {
            let terms = rows.iter().enumerate();
            let sum: EF = terms.map(|(i, row)| some(i as u32 + 1) * int(row[column].into())).sum();
            assert_eq!(sums[column + 1], sum);
        }
    }

    #[test]
    fn integers_of_program_range_are_told_apart() {
        let most = tg_tensor::program::MAGNITUDE_MAX;
        assert_ne!(int(most), int(-most));
        assert_eq!(int(most) + F::ONE, int(-most));
        assert_eq!(coordinates(ext(-most))[0], -most as i32);
    }

    #[test]
    fn eq_table_agrees_with_single_entries() {
        let point = [some(1), some(2), some(3)];
        let table = eq_table(&point);
        assert!((0..8).all(|index| table[index] == eq_at(&point, index)));
        let corner = [EF::ONE, EF::ZERO, EF::ONE];
        assert_eq!(eq_points(&point, &corner), table[5]);
    }
}
