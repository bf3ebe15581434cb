//! Look-ups and sum-checks as a verifier sees them, over numbers that it may or may not know.
//!
//! A verifier that is shown every number checks the equations where they arise. One that is shown
//! numbers covered by pads keeps them as unknowns. Both walk through the same messages here: all
//! that happens to a number on the way is linear; the products at the ends are left to the caller.

use crate::field::{EF, F, eq_points};
use crate::fractions::leaf_point;
use crate::messages::{LookupMessages, SumMessages};
use crate::sumcheck::SumProof;
use crate::transcript::Transcript;
use p3_field::{Field, PrimeCharacteristicRing};
use p3_multi_stark::fractional_gkr::FractionGkrProof;

/// Values that a round of the look-ups carries: at 0, 2 and 3.
const LOOKUP_DEGREE: usize = 3;

/// A number that can be added and scaled.
pub(crate) trait Number: Clone + Default {
    /// Adds another one times a factor.
    fn add(&mut self, factor: EF, other: &Self);
}

impl Number for EF {
    fn add(&mut self, factor: EF, other: &Self) {
        *self += factor * *other;
    }
}

/// The end of a layer of the look-ups: `sum` must be `eq` times the joined children.
#[derive(Clone, Debug)]
pub(crate) struct Gate<N> {
    pub(crate) eq: EF,
    pub(crate) lambda: EF,
    /// Numerator and denominator of the first child, then of the second.
    pub(crate) children: [N; 4],
    pub(crate) sum: N,
}

impl<N> Gate<N> {
    /// What the sum must be with these children.
    pub(crate) fn join(&self, [n0, d0, n1, d1]: [EF; 4]) -> EF {
        self.eq * (d1 * n0 + d0 * n1 + self.lambda * d0 * d1)
    }
}

/// Replayed look-ups.
#[derive(Clone, Debug)]
pub(crate) struct LookedUp<N> {
    pub(crate) gates: Vec<Gate<N>>,
    pub(crate) point: Vec<EF>,
    pub(crate) numerator: N,
    pub(crate) denominator: N,
}

/// Replays look-ups of 2^bits leaves whose numerators over denominators must sum to zero; `None` if
/// the proof has another shape. That the root's denominator is not zero is left to the caller.
pub(crate) fn lookups<N: Number>(
    proof: &FractionGkrProof<EF>,
    bits: usize,
    transcript: &mut Transcript,
    read: &mut impl FnMut(EF) -> N,
) -> Option<LookedUp<N>> {
    let has_rounds = |(layer, messages): (usize, &Vec<[EF; 3]>)| messages.len() == layer;
    let mut rounds = proof.layers.iter().map(|layer| &layer.round_polys).enumerate();
    if bits == 0 || proof.layers.len() != bits || !rounds.all(has_rounds) {
        return None;
    }
    let root = proof.root_denominator;
    let mut replay = LookupMessages::new(transcript.sponge(), bits, root);
    let mut found = LookedUp {
        gates: Vec::with_capacity(bits),
        point: Vec::new(),
        numerator: N::default(),
        denominator: read(root),
    };
    for layer in &proof.layers {
        let lambda = replay.begin_layer();
        let mut sum = found.numerator.clone();
        sum.add(lambda, &found.denominator);
        let mut ends = Vec::with_capacity(bits);
        for values in &layer.round_polys {
            let challenge = replay.round(values);
            let values = values.map(&mut *read);
            sum = bound(&sum, &values, LOOKUP_DEGREE, challenge);
            ends.push(challenge);
        }
        let sent = &layer.claims;
        let children = [sent.n0, sent.d0, sent.n1, sent.d1].map(&mut *read);
        let branch = replay.end_layer(sent);
        let between = |low: &N, high: &N| {
            let mut number = N::default();
            number.add(EF::ONE - branch, low);
            number.add(branch, high);
            number
        };
        found.numerator = between(&children[0], &children[2]);
        found.denominator = between(&children[1], &children[3]);
        let eq = eq_points(&found.point, &ends);
        found.gates.push(Gate { eq, lambda, children, sum });
        ends.insert(0, branch);
        found.point = ends;
    }
    found.point = leaf_point(found.point);
    Some(found)
}

/// A replayed sum-check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum<N> {
    pub(crate) sum: N,
    pub(crate) last: N,
    pub(crate) point: Vec<EF>,
}

/// Replays a sum-check, which is there if and only if it has a number of rounds; `None` if it has
/// another shape.
pub(crate) fn sum<N: Number>(
    proof: &Option<SumProof>,
    rounds: Option<usize>,
    degree: usize,
    transcript: &mut Transcript,
    read: &mut impl FnMut(EF) -> N,
) -> Option<Sum<N>> {
    let (proof, rounds) = match (proof, rounds) {
        (None, None) => return Some(Sum::default()),
        (Some(proof), Some(rounds)) => (proof, rounds),
        (None, Some(_)) | (Some(_), None) => return None,
    };
    let is_wide = |values: &Vec<EF>| values.len() == degree;
    let has_shape = proof.round_polys.len() == rounds && proof.round_polys.iter().all(is_wide);
    if degree == 0 || !has_shape || !proof.pow_witnesses.is_empty() {
        return None;
    }
    let mut replay = SumMessages::new(transcript.sponge(), (rounds, degree), proof.claimed_sum);
    let sum = read(proof.claimed_sum);
    let mut found = Sum { last: sum.clone(), sum, point: Vec::with_capacity(rounds) };
    for values in &proof.round_polys {
        let challenge = replay.round(values);
        let values: Vec<N> = values.iter().map(|value| read(*value)).collect();
        found.last = bound(&found.last, &values, degree, challenge);
        found.point.push(challenge);
    }
    Some(found)
}

/// The value at a challenge of the polynomial with these values at 0, 2, 3, … whose values at 0
/// and 1 have the given sum.
pub(crate) fn bound<N: Number>(sum: &N, values: &[N], degree: usize, challenge: EF) -> N {
    let weights = lagrange(degree, challenge);
    let mut found = N::default();
    found.add(weights[1], sum);
    for (place, value) in values.iter().enumerate() {
        let weight = if place == 0 { weights[0] - weights[1] } else { weights[place + 1] };
        found.add(weight, value);
    }
    found
}

/// The weights of values at 0 to `degree` in the value at a point.
pub(crate) fn lagrange(degree: usize, point: EF) -> Vec<EF> {
    let node = F::from_usize;
    let weight = |own: usize| {
        let others = (0..=degree).filter(|other| *other != own);
        let (above, below) = others.fold((EF::ONE, F::ONE), |(above, below), other| {
            (above * (point - node(other)), below * (node(own) - node(other)))
        });
        above * below.inverse()
    };
    (0..=degree).map(weight).collect()
}
