//! Elements of the extension in registers: one element in each lane.

use crate::field::{DEGREE, EF, F};
use p3_field::{
    BasedVectorSpace, ExtensionField, Field, PackedFieldExtension, PackedValue,
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

/// What the coordinates of a factor are multiplied with is made of the other's, b: X^5 = 1 - X^2.
/// These are b0 to b4, b0 - b3, b1 - b4, b4 - b2 and b3 - b1 + b4.
type Parts<A> = [A; 9];

#[inline(always)]
fn parts<A: PrimeCharacteristicRing + Copy>(by: &[A]) -> Parts<A> {
    let [b0, b1, b2, b3, b4] = [by[0], by[1], by[2], by[3], by[4]];
    let b14 = b1 - b4;
    [b0, b1, b2, b3, b4, b0 - b3, b14, b4 - b2, b3 - b14]
}

/// The product of coordinates with what the other factor is made of. Written down row by row: a
/// loop over the rows would keep them in memory.
#[inline(always)]
fn product(a: &[Narrow; DEGREE], parts: &Parts<Narrow>) -> Wide {
    let [b0, b1, b2, b3, b4, b03, b14, b42, b314] = *parts;
    let dot = |row: [Narrow; DEGREE]| Narrow::dot_product::<DEGREE>(a, &row);
    let c0 = dot([b0, b4, b3, b2, b14]);
    let c1 = dot([b1, b0, b4, b3, b2]);
    let c2 = dot([b2, b14, b03, b42, b314]);
    let c3 = dot([b3, b2, b14, b03, b42]);
    let c4 = dot([b4, b3, b2, b14, b03]);
    Wide::from_basis_coefficients_fn(|place| match place {
        0 => c0,
        1 => c1,
        2 => c2,
        3 => c3,
        _ => c4,
    })
}

#[inline(always)]
fn coordinates(wide: &Wide) -> &[Narrow; DEGREE] {
    let all: &[Narrow] = wide.as_basis_coefficients_slice();
    all.try_into().expect("an element has five coordinates")
}

/// The product. The library's reduces nine sums of products, this one five.
#[inline(always)]
pub(crate) fn times(a: Wide, b: Wide) -> Wide {
    product(coordinates(&a), &parts(coordinates(&b)))
}

/// An element that registers are multiplied with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factor(Parts<Narrow>);

impl Factor {
    /// Makes an element ready.
    #[inline(always)]
    pub(crate) fn new(element: EF) -> Self {
        Self(parts::<F>(element.as_basis_coefficients_slice()).map(Narrow::from))
    }

    /// Its product with elements.
    #[inline(always)]
    pub(crate) fn times(&self, wide: Wide) -> Wide {
        product(coordinates(&wide), &self.0)
    }

    /// Its product with elements of the base field.
    #[inline(always)]
    pub(crate) fn base(&self, narrow: Narrow) -> Wide {
        Wide::from_basis_coefficients_fn(|place| narrow * self.0[place])
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
