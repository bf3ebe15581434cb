//! Terms of the second sum-check whose weights are made of one for each inference and one for each
//! cell of an inference.
//!
//! While the inferences are bound, the cells of each of them only matter as a sum: what the weights
//! of the cells make of it. So the first rounds are those of as many numbers as there are
//! inferences, and then one inference is left, which is all of them at the challenges. Both are one
//! pass over the column, of products with numbers of the base field.

use crate::claims::Functional;
use crate::field::{DEGREE, EF, F, eq_table};
use crate::plan::Layout;
use crate::sumcheck::pack;
use crate::wide::{Narrow, Wide, lane};
use p3_field::{Algebra, BasedVectorSpace, PackedValue, PrimeCharacteristicRing};
use rayon::prelude::*;
use std::borrow::Cow;

/// Products that are added before they are reduced.
const TOGETHER: usize = 4;

/// A column with functionals on it, before the inferences are bound.
pub(crate) struct Outer<'a> {
    /// Of each functional: the weights of inferences, and what each inference adds up to.
    pub(crate) sides: Vec<[Vec<EF>; 2]>,
    /// Of each functional: the weights of the cells of an inference.
    cells: Vec<Vec<Wide>>,
    numbers: Cow<'a, [F]>,
    challenges: Vec<EF>,
}

impl<'a> Outer<'a> {
    /// One for a column, unless it has too few cells for that, or only one inference.
    pub(crate) fn new(
        layout: &Layout,
        functionals: &[Functional],
        numbers: Cow<'a, [F]>,
    ) -> Result<Self, Cow<'a, [F]>> {
        let inner = 1 << layout.inner_bits();
        if layout.batch().bits == 0 || inner < Narrow::WIDTH || functionals.is_empty() {
            return Err(numbers);
        }
        let places = layout.cells();
        let (mut sides, mut cells) = (Vec::new(), Vec::new());
        for functional in functionals {
            let mut spread = vec![EF::ZERO; inner];
            for (place, weight) in places.iter().zip(&functional.cells) {
                spread[*place as usize] = *weight;
            }
            let weights = pack(&spread);
            let inferences = Narrow::pack_slice(&numbers).par_chunks(weights.len());
            let sums = inferences.map(|numbers| weighted_sum(&weights, numbers)).collect();
            let mut batch = functional.batch.to_vec();
            batch.resize(1 << layout.batch().bits, EF::ZERO);
            sides.push([batch, sums]);
            cells.push(weights);
        }
        Ok(Self { sides, cells, numbers, challenges: Vec::new() })
    }

    /// The sum of all cells with their weights.
    pub(crate) fn sum(&self) -> EF {
        let of = |[batch, sums]: &[Vec<EF>; 2]| -> EF {
            batch.iter().zip(sums).map(|(weight, sum)| *weight * *sum).sum()
        };
        self.sides.iter().map(of).sum()
    }

    /// Binds the next inference's variable; if it was the last, gives the weights and the numbers
    /// of the inference that is left.
    pub(crate) fn fold(&mut self, challenge: EF) -> Option<[Vec<Wide>; 2]> {
        self.challenges.push(challenge);
        for table in self.sides.iter_mut().flatten() {
            let half = table.len() / 2;
            let (low, high) = table.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                *low += challenge * (*high - *low);
            }
            table.truncate(half);
        }
        let is_last = self.sides.iter().all(|[batch, _]| batch.len() == 1);
        is_last.then(|| [self.weights_left(), self.numbers_left()])
    }

    fn weights_left(&self) -> Vec<Wide> {
        let registers = self.cells.first().map_or(0, Vec::len);
        let mut left = vec![Wide::ZERO; registers];
        for ([batch, _], cells) in self.sides.iter().zip(&self.cells) {
            let weight = Wide::from(batch[0]);
            left.iter_mut().zip(cells).for_each(|(left, cell)| *left += weight * *cell);
        }
        left
    }

    fn numbers_left(&self) -> Vec<Wide> {
        let registers = self.cells.first().map_or(0, Vec::len);
        let weights = eq_table(&self.challenges);
        let mut left = vec![Wide::ZERO; registers];
        let all = Narrow::pack_slice(&self.numbers).chunks(TOGETHER * registers);
        for (numbers, weights) in all.zip(weights.chunks(TOGETHER)) {
            let by = |coordinate: usize| {
                let of = |weight: &EF| weight.as_basis_coefficients_slice()[coordinate];
                std::array::from_fn(|place| weights.get(place).map_or(F::ZERO, of))
            };
            let by: [[F; TOGETHER]; DEGREE] = std::array::from_fn(by);
            for (register, left) in left.iter_mut().enumerate() {
                let of = |place: usize| numbers.get(place * registers + register);
                let several: [Narrow; TOGETHER] =
                    std::array::from_fn(|place| of(place).copied().unwrap_or(Narrow::ZERO));
                *left += Wide::from_basis_coefficients_fn(|coordinate| {
                    Narrow::mixed_dot_product(&several, &by[coordinate])
                });
            }
        }
        left
    }
}

/// The sum of numbers with their weights.
fn weighted_sum(weights: &[Wide], numbers: &[Narrow]) -> EF {
    let mut sum = Wide::ZERO;
    let (weights, rest) = weights.as_chunks::<TOGETHER>();
    let (numbers, last) = numbers.as_chunks::<TOGETHER>();
    for (weights, numbers) in weights.iter().zip(numbers) {
        sum += Wide::from_basis_coefficients_fn(|coordinate| {
            let of = |place: usize| {
                let all: &[Narrow] = weights[place].as_basis_coefficients_slice();
                all[coordinate]
            };
            Narrow::dot_product(&std::array::from_fn(of), numbers)
        });
    }
    sum += rest.iter().zip(last).map(|(weight, number)| *weight * *number).sum::<Wide>();
    (0..Narrow::WIDTH).map(|place| lane(&sum, place)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sumcheck::{self, ProductTerm};
    use std::sync::Arc;

    /// Goal: a column of several inferences is proven as the table it is. Method: functionals with
    /// different weights of inferences, on columns with and without padding, against
    /// the sum-check over all cells with the weights written out.
    #[test]
    fn column_of_inferences_is_proven_as_a_table() {
        let some = |seed: usize| EF::from_usize(seed * seed * 31 + 7).square() + EF::ONE;
        for (inferences, sides) in [(2, [1, 8]), (5, [3, 20]), (64, [7, 5])] {
            let layout = Layout::new(inferences, &sides);
            let weights = |seed: usize, len: usize| -> Vec<EF> {
                (0..len).map(|at| some(seed * 1_000 + at)).collect()
            };
            let functional = |(batch, cells): (usize, usize)| Functional {
                batch: Arc::new(weights(batch, inferences)),
                cells: weights(cells, layout.len()),
            };
            let functionals: Vec<_> = [(1, 2), (1, 3), (4, 5)].map(functional).into();
            let numbers: Vec<F> =
                (0..1 << layout.bits()).map(|at| F::from_usize(at * at * 7 + 3)).collect();
            let mut written = vec![EF::ZERO; numbers.len()];
            for one in &functionals {
                crate::prove::add_to(&layout, &layout.cells(), one, &mut written);
            }
            let table = vec![written, numbers.iter().map(|number| EF::from(*number)).collect()];
            let outer = Outer::new(&layout, &functionals, Cow::Borrowed(&numbers));
            let outer = outer.unwrap_or_else(|_| panic!("{inferences} inferences are several"));
            let terms = [ProductTerm::outer(outer, layout.bits()), ProductTerm::new(table)];
            let [by_outer, by_table] =
                terms.map(|term| sumcheck::prove(vec![term], 2, &mut crate::pcs::sponge()));
            assert_eq!(by_outer.proof.claimed_sum, by_table.proof.claimed_sum);
            assert_eq!(by_outer.proof.round_polys, by_table.proof.round_polys);
            assert_eq!(by_outer.factors, by_table.factors);
        }
    }
}
