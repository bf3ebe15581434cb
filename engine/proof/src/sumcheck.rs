//! The prover of both sum-checks: sums of products of multilinear tables.
//!
//! A term with fewer variables than the sum-check is the product that is 0 wherever one of the
//! first variables is not: while these are bound it is its own sum times one minus each challenge.

use crate::field::{EF, F};
use p3_challenger::{FieldChallenger, GrindingChallenger};
use p3_field::PrimeCharacteristicRing;
use p3_sumcheck::generic_degree::{GenericDegreeProof, RoundProver};

/// A proof of a sum.
pub(crate) type SumProof = GenericDegreeProof<F, EF>;

/// A product of tables of the same size.
pub(crate) struct ProductTerm {
    factors: Vec<Vec<EF>>,
    bits: usize,
    /// What is left of the sum while first variables are bound.
    sum: EF,
    /// One minus each challenge of the first variables.
    scale: EF,
}

impl ProductTerm {
    /// A term of tables of 2^bits entries.
    pub(crate) fn new(factors: Vec<Vec<EF>>) -> Self {
        let len = factors.first().map_or(1, Vec::len);
        let product = |index: usize| factors.iter().map(|factor| factor[index]).product::<EF>();
        let sum = (0..len).map(product).sum();
        Self { bits: len.trailing_zeros() as usize, factors, sum, scale: EF::ONE }
    }

    /// Adds its values at 0, 2, 3, … of the next variable.
    pub(crate) fn round(&self, remaining: usize, values: &mut [EF]) {
        let half = 1 << (remaining - 1);
        for (place, value) in values.iter_mut().enumerate() {
            // Values at 0, 2, 3, …
            let at = EF::from_usize(if place == 0 { 0 } else { place + 1 });
            if self.bits < remaining {
                *value += self.sum * (EF::ONE - at);
                continue;
            }
            let factor = |table: &Vec<EF>, index: usize| match place {
                0 => table[index],
                _ => table[index] + at * (table[index + half] - table[index]),
            };
            let product = |index: usize| {
                self.factors.iter().map(|table| factor(table, index)).product::<EF>()
            };
            *value += self.scale * (0..half).map(product).sum::<EF>();
        }
    }

    /// Binds the next variable.
    pub(crate) fn fold(&mut self, remaining: usize, challenge: EF) {
        if self.bits < remaining {
            self.scale *= EF::ONE - challenge;
            self.sum *= EF::ONE - challenge;
            return;
        }
        let half = 1 << (remaining - 1);
        for table in &mut self.factors {
            let (low, high) = table.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                *low += challenge * (*high - *low);
            }
            table.truncate(half);
        }
    }
}

struct State {
    terms: Vec<ProductTerm>,
    degree: usize,
    remaining: usize,
}

impl RoundProver<EF> for State {
    fn fold(&mut self, challenge: EF) {
        for term in &mut self.terms {
            term.fold(self.remaining, challenge);
        }
        self.remaining -= 1;
    }

    fn round_poly(&self) -> Vec<EF> {
        let mut values = vec![EF::ZERO; self.degree];
        for term in &self.terms {
            term.round(self.remaining, &mut values);
        }
        values
    }
}

/// What a sum-check leaves: its proof, the point, and every factor of every term there.
pub(crate) struct Summed {
    pub(crate) proof: SumProof,
    pub(crate) point: Vec<EF>,
    pub(crate) factors: Vec<Vec<EF>>,
}

/// Proves the sum of the terms.
pub(crate) fn prove(
    terms: Vec<ProductTerm>,
    degree: usize,
    sponge: &mut (impl FieldChallenger<F> + GrindingChallenger<Witness = F>),
) -> Summed {
    let rounds = terms.iter().map(|term| term.bits).max().unwrap_or(0);
    let sum = terms.iter().map(|term| term.sum).sum();
    let mut state = State { terms, degree, remaining: rounds };
    let (proof, point) = state.prove::<F, _>(sponge, rounds, degree, 0, sum);
    let last = |term: &ProductTerm| term.factors.iter().map(|table| table[0]).collect();
    let factors = state.terms.iter().map(last).collect();
    Summed { proof, point: point.as_slice().to_vec(), factors }
}

/// One minus each coordinate that a term of so many variables does not have.
pub(crate) fn shortened(point: &[EF], bits: usize) -> EF {
    point[..point.len() - bits].iter().map(|coordinate| EF::ONE - *coordinate).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Transcript;

    /// Goal: terms of different sizes are proven in one run. Method: the verifier's last value is
    /// the sum of the products of what is left, each times its missing variables.
    #[test]
    fn sum_of_terms_of_different_sizes_is_proven() {
        let table = |seed: usize, bits: usize| {
            (0..1 << bits).map(|i| EF::from_usize(seed * 97 + i * i * 31 + 5)).collect::<Vec<_>>()
        };
        let sizes = [(3, 2), (5, 3), (0, 2), (5, 2)];
        let terms = sizes.iter().enumerate().map(|(seed, (bits, factors))| {
            ProductTerm::new((0..*factors).map(|f| table(seed * 10 + f, *bits)).collect())
        });
        let mut transcript = Transcript::new("test");
        let summed = prove(terms.collect(), 3, transcript.sponge());

        let mut transcript = Transcript::new("test");
        let checked = summed.proof.verify(transcript.sponge(), 5, 3, 0);
        let (point, last) = checked.expect("an honest proof");
        let left = sizes.iter().zip(&summed.factors).map(|((bits, _), factors)| {
            shortened(point.as_slice(), *bits) * factors.iter().copied().product::<EF>()
        });
        assert_eq!(last, left.sum::<EF>());
    }
}
