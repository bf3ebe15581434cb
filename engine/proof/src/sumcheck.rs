//! The prover of both sum-checks: sums of products of multilinear tables.
//!
//! A term with fewer variables than the sum-check is the product that is 0 wherever one of the
//! first variables is not: while these are bound it is its own sum times one minus each challenge.
//! Variables are bound from the top, so a table is worked on in whole registers until it has only
//! one left.

use crate::field::{EF, F};
use crate::messages::SumMessages;
use crate::outer::Outer;
use crate::wide::{Factor, Narrow, Wide, lane, times};
use p3_challenger::FieldChallenger;
use p3_field::{PackedFieldExtension, PackedValue, PrimeCharacteristicRing};
use p3_sumcheck::generic_degree::GenericDegreeProof;
use rayon::prelude::*;

/// A proof of a sum.
pub(crate) type SumProof = GenericDegreeProof<F, EF>;

/// The most factors of a product: four taps of a maximum and the weights of its check.
const FACTORS_MAX: usize = 5;

/// Registers that one thread takes at once.
const EACH: usize = 256;

/// A product of tables of the same size.
pub(crate) struct ProductTerm<'a> {
    /// What it is while inferences are bound, if it begins with them.
    outer: Option<Outer<'a>>,
    /// The tables while they fill registers; else empty.
    wide: Vec<Vec<Wide>>,
    /// One more of them before the first variable is bound, if it is of the base field: a fifth of
    /// the memory, and of the work of the first round.
    narrow: Vec<Narrow>,
    /// The tables when they do not.
    few: Vec<Vec<EF>>,
    bits: usize,
    /// What is left of the sum while first variables are bound.
    sum: EF,
    /// One minus each challenge of the first variables.
    scale: EF,
}

/// The elements of a table in registers; it has at least one of them.
pub(crate) fn pack(table: &[EF]) -> Vec<Wide> {
    table.chunks_exact(Narrow::WIDTH).map(Wide::from_ext_slice).collect()
}

/// The sum of all lanes.
fn across(wide: Wide) -> EF {
    (0..Narrow::WIDTH).map(|lane| self::lane(&wide, lane)).sum()
}

/// The sum of what there is in each of so many registers.
fn sum(len: usize, of: impl Fn(usize) -> Wide + Send + Sync) -> EF {
    let all = (0..len).into_par_iter().with_min_len(EACH).map(of);
    across(all.reduce(|| Wide::ZERO, |a, b| a + b))
}

impl<'a> ProductTerm<'a> {
    /// A term of tables of 2^bits entries.
    pub(crate) fn new(factors: Vec<Vec<EF>>) -> Self {
        let len = factors.first().map_or(1, Vec::len);
        if len >= 2 * Narrow::WIDTH {
            return Self::of(factors.iter().map(|table| pack(table)).collect());
        }
        let product = |index: usize| factors.iter().map(|factor| factor[index]).product::<EF>();
        let sum = (0..len).map(product).sum();
        let bits = len.trailing_zeros() as usize;
        let (wide, narrow) = (Vec::new(), Vec::new());
        Self { outer: None, wide, narrow, few: factors, bits, sum, scale: EF::ONE }
    }

    /// A term of tables in registers.
    fn of(factors: Vec<Vec<Wide>>) -> Self {
        let len = factors.first().map_or(0, Vec::len);
        let product = |index: usize| {
            let all = factors.iter().map(|factor| factor[index]);
            all.reduce(times).unwrap_or(Wide::ONE)
        };
        let sum = sum(len, product);
        let bits = (len * Narrow::WIDTH).trailing_zeros() as usize;
        let (narrow, few) = (Vec::new(), Vec::new());
        let outer = None;
        let mut term = Self { outer, wide: factors, narrow, few, bits, sum, scale: EF::ONE };
        term.leave_registers();
        term
    }

    /// A term of weights, in registers, and as many numbers of the base field.
    pub(crate) fn weighted(weights: Vec<Wide>, numbers: &[F]) -> Self {
        let numbers = Narrow::pack_slice(numbers);
        if weights.len() < 2 {
            let numbers = numbers.iter().map(|narrow| Wide::from(*narrow)).collect();
            return Self::of(vec![weights, numbers]);
        }
        let sum = sum(weights.len(), |index| weights[index] * numbers[index]);
        let bits = (weights.len() * Narrow::WIDTH).trailing_zeros() as usize;
        let (wide, narrow) = (vec![weights], numbers.to_vec());
        Self { outer: None, wide, narrow, few: Vec::new(), bits, sum, scale: EF::ONE }
    }

    /// A term of a column of 2^bits cells and functionals on it.
    pub(crate) fn outer(outer: Outer<'a>, bits: usize) -> Self {
        let sum = outer.sum();
        let (wide, narrow, few) = (Vec::new(), Vec::new(), Vec::new());
        Self { outer: Some(outer), wide, narrow, few, bits, sum, scale: EF::ONE }
    }

    /// Whether a variable cannot be bound between registers any more.
    fn leave_registers(&mut self) {
        if self.wide.first().is_some_and(|table| table.len() == 1) {
            let lanes = |table: Vec<Wide>| {
                (0..Narrow::WIDTH).map(|lane| self::lane(&table[0], lane)).collect::<Vec<EF>>()
            };
            self.few = std::mem::take(&mut self.wide).into_iter().map(lanes).collect();
        }
    }

    /// Adds its values at 0, 2, 3, … of the next variable.
    pub(crate) fn round(&self, remaining: usize, values: &mut [EF]) {
        if self.bits < remaining {
            for (place, value) in values.iter_mut().enumerate() {
                let at = EF::from_usize(if place == 0 { 0 } else { place + 1 });
                *value += self.sum * (EF::ONE - at);
            }
            return;
        }
        let found: Vec<EF> = if let Some(outer) = &self.outer {
            let mut sums = vec![EF::ZERO; values.len()];
            for sides in &outer.sides {
                let found = products(sides, |a, b| a * b, 0..sides[0].len() / 2, values.len());
                sums.iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
            }
            sums
        } else if self.wide.is_empty() {
            let pairs = 0..self.few.first().map_or(1, Vec::len) / 2;
            products(&self.few, |a, b| a * b, pairs, values.len()).to_vec()
        } else {
            let half = self.wide[0].len() / 2;
            let chunks = (0..half.div_ceil(EACH)).into_par_iter();
            let of = |chunk: usize| {
                let range = chunk * EACH..((chunk + 1) * EACH).min(half);
                if !self.narrow.is_empty() {
                    return weighted(&self.wide[0], &self.narrow, range, values.len());
                }
                products(&self.wide, times, range, values.len())
            };
            let join = |mut a: [Wide; FACTORS_MAX], b: [Wide; FACTORS_MAX]| {
                a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
                a
            };
            chunks.map(of).reduce(|| [Wide::ZERO; FACTORS_MAX], join).map(across).to_vec()
        };
        values.iter_mut().zip(found).for_each(|(value, sum)| *value += self.scale * sum);
    }

    /// Binds the next variable.
    pub(crate) fn fold(&mut self, remaining: usize, challenge: EF) {
        if self.bits < remaining {
            self.scale *= EF::ONE - challenge;
            self.sum *= EF::ONE - challenge;
            return;
        }
        if let Some(outer) = &mut self.outer {
            if let Some(left) = outer.fold(challenge) {
                self.outer = None;
                self.wide = left.into();
                self.leave_registers();
            }
            return;
        }
        let factor = Factor::new(challenge);
        for table in &mut self.wide {
            let half = table.len() / 2;
            let (low, high) = table.split_at_mut(half);
            low.par_iter_mut().zip(&*high).with_min_len(EACH).for_each(|(low, high)| {
                *low += factor.times(*high - *low);
            });
            table.truncate(half);
        }
        if !self.narrow.is_empty() {
            let (low, high) = self.narrow.split_at(self.narrow.len() / 2);
            let pairs = low.par_iter().zip(high).with_min_len(EACH);
            let fold = |(low, high): (&Narrow, &Narrow)| factor.base(*high - *low) + *low;
            self.wide.push(pairs.map(fold).collect());
            self.narrow = Vec::new();
        }
        for table in &mut self.few {
            let half = table.len() / 2;
            let (low, high) = table.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                *low += challenge * (*high - *low);
            }
            table.truncate(half);
        }
        self.leave_registers();
    }
}

/// The sums of products at 0, 2, 3, … of the variable between the halves of the tables.
fn products<A: PrimeCharacteristicRing + Copy>(
    tables: &[Vec<A>],
    times: impl Fn(A, A) -> A,
    range: std::ops::Range<usize>,
    count: usize,
) -> [A; FACTORS_MAX] {
    let half = tables.first().map_or(1, Vec::len) / 2;
    let mut sums = [A::ZERO; FACTORS_MAX];
    for index in range {
        let mut all = [A::ONE; FACTORS_MAX];
        for (place, table) in tables.iter().enumerate() {
            let (low, high) = (table[index], table[index + half]);
            let step = high - low;
            let mut value = high;
            for (point, product) in all.iter_mut().take(count).enumerate() {
                let factor = if point == 0 {
                    low
                } else {
                    value += step;
                    value
                };
                *product = if place == 0 { factor } else { times(*product, factor) };
            }
        }
        sums.iter_mut().zip(all).take(count).for_each(|(sum, product)| *sum += product);
    }
    sums
}

/// The same of weights and numbers of the base field.
fn weighted(
    weights: &[Wide],
    numbers: &[Narrow],
    range: std::ops::Range<usize>,
    count: usize,
) -> [Wide; FACTORS_MAX] {
    let half = weights.len() / 2;
    let mut sums = [Wide::ZERO; FACTORS_MAX];
    for index in range {
        let (low, high) = (weights[index], weights[index + half]);
        let (number, next) = (numbers[index], numbers[index + half]);
        sums[0] += low * number;
        let (mut weight, mut value) = (high, next);
        for sum in &mut sums[1..count] {
            weight += high - low;
            value += next - number;
            *sum += weight * value;
        }
    }
    sums
}

/// What a sum-check leaves: its proof, the point, and every factor of every term there.
pub(crate) struct Summed {
    pub(crate) proof: SumProof,
    pub(crate) point: Vec<EF>,
    pub(crate) factors: Vec<Vec<EF>>,
}

/// Proves the sum of the terms.
pub(crate) fn prove(
    mut terms: Vec<ProductTerm<'_>>,
    degree: usize,
    sponge: &mut impl FieldChallenger<F>,
) -> Summed {
    let rounds = terms.iter().map(|term| term.bits).max().unwrap_or(0);
    let claimed_sum = terms.iter().map(|term| term.sum).sum();
    let mut proof = SumProof { claimed_sum, ..SumProof::default() };
    let mut messages = SumMessages::new(sponge, (rounds, degree), claimed_sum);
    let mut point = Vec::with_capacity(rounds);
    for remaining in (1..=rounds).rev() {
        let mut values = vec![EF::ZERO; degree];
        terms.iter().for_each(|term| term.round(remaining, &mut values));
        let challenge = messages.round(&values);
        terms.iter_mut().for_each(|term| term.fold(remaining, challenge));
        proof.round_polys.push(values);
        point.push(challenge);
    }
    let last = |term: &ProductTerm<'_>| term.few.iter().map(|table| table[0]).collect();
    Summed { proof, point, factors: terms.iter().map(last).collect() }
}

/// One minus each coordinate that a term of so many variables does not have.
pub(crate) fn shortened(point: &[EF], bits: usize) -> EF {
    point[..point.len() - bits].iter().map(|coordinate| EF::ONE - *coordinate).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{self, Sum};
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
        let proof = Some(summed.proof);
        let replayed = replay::sum(&proof, Some(5), 3, &mut transcript, &mut |number: EF| number);
        let Sum { point, last, .. } = replayed.expect("it has the shape");
        let left = sizes.iter().zip(&summed.factors).map(|((bits, _), factors)| {
            shortened(&point, *bits) * factors.iter().copied().product::<EF>()
        });
        assert_eq!(last, left.sum::<EF>());
        assert_eq!(point, summed.point);
    }
}
