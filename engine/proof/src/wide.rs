//! Elements of the extension in registers: one element in each lane.

use crate::field::{DEGREE, EF, F};
use p3_field::{
    Algebra, BasedVectorSpace, ExtensionField, Field, PackedFieldExtension, PackedValue,
    PrimeCharacteristicRing,
};

/// Elements of the base field in a register.
pub(crate) type Narrow = <F as Field>::Packing;
/// Elements of the extension, one for each of these.
pub(crate) type Wide = <EF as ExtensionField<F>>::ExtensionPacking;

/// Elements of a register.
pub(crate) const WIDTH: usize = <Narrow as PackedValue>::WIDTH;

/// One element of a register.
pub(crate) fn lane(wide: &Wide, lane: usize) -> EF {
    <Wide as PackedFieldExtension<F, EF>>::extract(wide, lane)
}

/// What the coordinates of a factor are multiplied with is a matrix of the other's: X^5 = 1 - X^2.
#[inline(always)]
fn matrix<A: PrimeCharacteristicRing + Copy>(by: &[A]) -> [[A; DEGREE]; DEGREE] {
    let [b0, b1, b2, b3, b4] = [by[0], by[1], by[2], by[3], by[4]];
    let (b03, b14, b42) = (b0 - b3, b1 - b4, b4 - b2);
    [
        [b0, b4, b3, b2, b14],
        [b1, b0, b4, b3, b2],
        [b2, b14, b03, b42, b3 - b14],
        [b3, b2, b14, b03, b42],
        [b4, b3, b2, b14, b03],
    ]
}

#[inline(always)]
fn coordinates(wide: &Wide) -> &[Narrow; DEGREE] {
    let all: &[Narrow] = wide.as_basis_coefficients_slice();
    all.try_into().expect("an element has five coordinates")
}

/// The product. The library's reduces nine sums of products, this one five.
#[inline(always)]
pub(crate) fn times(a: Wide, b: Wide) -> Wide {
    let (a, rows) = (coordinates(&a), matrix(coordinates(&b)));
    Wide::from_basis_coefficients_fn(|place| Narrow::dot_product::<DEGREE>(a, &rows[place]))
}

/// An element that registers are multiplied with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factor([[F; DEGREE]; DEGREE]);

impl Factor {
    /// Makes an element ready.
    #[inline(always)]
    pub(crate) fn new(element: EF) -> Self {
        Self(matrix(element.as_basis_coefficients_slice()))
    }

    /// Its product with elements.
    #[inline(always)]
    pub(crate) fn times(&self, wide: Wide) -> Wide {
        let of = |row: &[F; DEGREE]| Narrow::mixed_dot_product::<DEGREE>(coordinates(&wide), row);
        Wide::from_basis_coefficients_fn(|place| of(&self.0[place]))
    }

    /// Its product with elements of the base field.
    #[inline(always)]
    pub(crate) fn base(&self, narrow: Narrow) -> Wide {
        Wide::from_basis_coefficients_fn(|place| narrow * self.0[place][0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(seed: u32) -> Wide {
        Wide::from_ext_fn(|lane| {
            EF::from_basis_coefficients_fn(|place| {
                F::from_u32(
                    (seed * 977 + lane as u32 * 31 + place as u32 + 1).wrapping_mul(2_654_435_761)
                        >> 1,
                )
            })
        })
    }

    /// Goal: both products are those of the library.
    #[test]
    fn products_are_those_of_the_library() {
        for seed in 0..64 {
            let (a, b) = (some(seed), some(seed + 64));
            assert_eq!(times(a, b), a * b);
            let factor = lane(&b, 0);
            assert_eq!(Factor::new(factor).times(a), a * factor);
            let narrow = coordinates(&a)[1];
            assert_eq!(Factor::new(factor).base(narrow), Wide::from(narrow) * factor);
        }
    }
}
