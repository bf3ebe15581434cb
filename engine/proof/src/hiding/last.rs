//! The last sum-check: a linear equation about the stacks, reduced to one point of each.
//!
//! Its own messages cannot be covered by pads, as the equation of pads is what it proves. They are
//! masked as in Libra (eprint 2019/317): with random g(X) = g_0 + Σ (g_i · X_i + g_i' · X_i²), of
//! which the coefficients are committed, the prover tells the sum G of g over the cube, gets the
//! challenge μ, and proves the sum of W · stack + μ · g. The messages are as many as the
//! coefficients and determine them, so they are uniform. It ends at a point r, where the stacks are
//! opened; noise makes these values uniform. What must be g(r) follows from them.
//!
//! g(r) = ⟨c, v⟩ is linear in the coefficients c; v has powers of r. With random c', committed as
//! well: the prover sends t = ⟨c', v⟩, gets λ, sends h = c' + λ · c, which is uniform. The verifier
//! checks ⟨h, v⟩ = t + λ · g(r), draws a point z, and h(z) = c'(z) + λ · c(z) by openings of all
//! coordinates of c and c'. Those of c' follow from h and those of c, which the spare elements
//! of c make uniform.

use super::stack::{MASK_BITS, Piece, Stack, basis};
use crate::field::{DEGREE, EF, eq_table};
use crate::replay::bound;
use crate::sumcheck::ProductTerm;
use crate::transcript::Transcript;
use p3_field::{Field, PrimeCharacteristicRing};
use serde::{Deserialize, Serialize};

/// Points at which the run's stack is opened.
pub(crate) const RUN_CLAIMS: usize = 1 + 2 * DEGREE;

/// The degree of a round: of a weight times a cell, and of the mask.
pub(crate) const DEGREE_OF_ROUND: usize = 2;

/// The messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LastProof {
    /// The sum of the mask.
    pub(crate) mask: EF,
    /// Values at 0 and 2 of each round.
    pub(crate) rounds: Vec<[EF; DEGREE_OF_ROUND]>,
    /// What hides the mask, at the end.
    pub(crate) blind: EF,
    /// The coefficients of the mask, hidden.
    pub(crate) shown: Vec<EF>,
}

/// Where the last sum-check ended.
pub(crate) struct Ended {
    pub(crate) point: Vec<EF>,
    /// What the sum must be there.
    pub(crate) last: EF,
    mask_factor: EF,
    blind_factor: EF,
    /// Where the masks are opened.
    pub(crate) within: Vec<EF>,
}

/// The powers of a point that the coefficients of a mask are multiplied with.
fn powers(point: &[EF]) -> Vec<EF> {
    let of = |x: &EF| [*x, x.square()];
    std::iter::once(EF::ONE).chain(point.iter().flat_map(of)).collect()
}

fn dot(a: &[EF], b: &[EF]) -> EF {
    a.iter().zip(b).map(|(x, y)| *x * *y).sum()
}

/// A mask while its variables are bound.
struct Mask<'a> {
    coefficients: &'a [EF],
    /// The constant, and all that is bound.
    bound: EF,
}

impl Mask<'_> {
    fn of(&self, variable: usize, at: EF) -> EF {
        let place = 2 * variable + 1;
        at * (self.coefficients[place] + at * self.coefficients[place + 1])
    }

    /// The sum over all variables from `variable` on, this one being `at` if that is given.
    fn sum(&self, rounds: usize, variable: usize, at: Option<EF>) -> EF {
        let free = variable + usize::from(at.is_some());
        let cube = |variables: usize| EF::TWO.exp_u64(variables as u64);
        let fixed = self.bound + at.map_or(EF::ZERO, |at| self.of(variable, at));
        let halves: EF = (free..rounds).map(|other| self.of(other, EF::ONE)).sum();
        cube(rounds - free) * fixed + cube((rounds - free).saturating_sub(1)) * halves
    }
}

/// Proves the sum of the terms.
pub(crate) fn prove(
    mut terms: Vec<ProductTerm<'_>>,
    rounds: usize,
    (mask, blind): (&[EF], &[EF]),
    transcript: &mut Transcript,
) -> (LastProof, Ended) {
    let mut masked = Mask { coefficients: mask, bound: mask[0] };
    let sum = masked.sum(rounds, 0, None);
    transcript.absorb("mask", &[sum]);
    let mask_factor = transcript.draw("mask factor");
    let mut proof = LastProof { mask: sum, rounds: Vec::new(), blind: EF::ZERO, shown: Vec::new() };
    let mut point = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let at = |at: EF| mask_factor * masked.sum(rounds, round, Some(at));
        let mut values = [at(EF::ZERO), at(EF::TWO)];
        terms.iter().for_each(|term| term.round(rounds - round, &mut values));
        transcript.absorb("last round", &values);
        let challenge = transcript.draw("last");
        terms.iter_mut().for_each(|term| term.fold(rounds - round, challenge));
        masked.bound += masked.of(round, challenge);
        proof.rounds.push(values);
        point.push(challenge);
    }
    let powers = powers(&point);
    proof.blind = dot(blind, &powers);
    transcript.absorb("blind", &[proof.blind]);
    let blind_factor = transcript.draw("blind factor");
    proof.shown = blind.iter().zip(mask).map(|(b, m)| *b + blind_factor * *m).collect();
    transcript.absorb("shown", &proof.shown);
    let within = transcript.draw_point("within", MASK_BITS);
    let last = EF::ZERO;
    (proof, Ended { point, last, mask_factor, blind_factor, within })
}

/// Replays a proof of the sum; `None` if it has another shape.
pub(crate) fn replay(
    proof: &LastProof,
    rounds: usize,
    sum: EF,
    transcript: &mut Transcript,
) -> Option<Ended> {
    if proof.rounds.len() != rounds || proof.shown.len() != 1 << MASK_BITS {
        return None;
    }
    transcript.absorb("mask", &[proof.mask]);
    let mask_factor = transcript.draw("mask factor");
    let mut last = sum + mask_factor * proof.mask;
    let mut point = Vec::with_capacity(rounds);
    for values in &proof.rounds {
        transcript.absorb("last round", values);
        let challenge = transcript.draw("last");
        last = bound(&last, values, DEGREE_OF_ROUND, challenge);
        point.push(challenge);
    }
    transcript.absorb("blind", &[proof.blind]);
    let blind_factor = transcript.draw("blind factor");
    transcript.absorb("shown", &proof.shown);
    let within = transcript.draw_point("within", MASK_BITS);
    Some(Ended { point, last, mask_factor, blind_factor, within })
}

impl Ended {
    /// The part of the point that belongs to a stack.
    pub(crate) fn stack_point(&self, stack: &Stack) -> Vec<EF> {
        self.point[self.point.len() - stack.bits..].to_vec()
    }

    /// Where the run's stack is opened: at the point, and each coordinate of masks and blinds.
    pub(crate) fn run_points(&self, stack: &Stack) -> Vec<Vec<EF>> {
        let at = self.stack_point(stack);
        let coordinates = (0..DEGREE).map(Piece::Mask).chain((0..DEGREE).map(Piece::Blind));
        let masks = coordinates.map(|piece| stack.point(piece, &self.within));
        std::iter::once(at).chain(masks).collect()
    }

    /// Whether the mask is what it must be where the weighed stacks have this value, by the
    /// openings of its coordinates and those of the blinds.
    pub(crate) fn closes(&self, proof: &LastProof, weighed: EF, opened: &[EF]) -> bool {
        let (Some(inverse), Some((masks, blinds))) =
            (self.mask_factor.try_inverse(), opened.split_at_checked(DEGREE))
        else {
            return false;
        };
        let mask = (self.last - weighed) * inverse;
        let powers = powers(&self.point);
        let whole = |parts: &[EF]| {
            let terms = parts.iter().enumerate();
            terms.map(|(place, part)| *part * basis(place)).sum::<EF>()
        };
        let shown = dot(&proof.shown, &eq_table(&self.within));
        blinds.len() == DEGREE
            && dot(&proof.shown, &powers) == proof.blind + self.blind_factor * mask
            && shown == whole(blinds) + self.blind_factor * whole(masks)
    }
}

#[cfg(test)]
impl Ended {
    /// By how much the two equations that close the proof are wrong.
    pub(crate) fn gaps(&self, proof: &LastProof, weighed: EF, opened: &[EF]) -> [EF; 2] {
        let mask = (self.last - weighed) * self.mask_factor.inverse();
        let (masks, blinds) = opened.split_at(DEGREE);
        let whole = |parts: &[EF]| -> EF {
            parts.iter().enumerate().map(|(place, part)| *part * basis(place)).sum()
        };
        let shown = dot(&proof.shown, &eq_table(&self.within));
        [
            dot(&proof.shown, &powers(&self.point)) - proof.blind - self.blind_factor * mask,
            shown - whole(blinds) - self.blind_factor * whole(masks),
        ]
    }

    /// Makes what follows from all other messages: the blind at the end, and the opened coordinates
    /// of the blinds, behind those of the mask. Coordinates of λ · c are sums of those of c times
    /// elements of the base field, so they can be taken at a point of the extension.
    pub(crate) fn simulate(&self, proof: &mut LastProof, weighed: EF, masks: &[EF]) -> Vec<EF> {
        let mask = (self.last - weighed) * self.mask_factor.inverse();
        proof.blind = dot(&proof.shown, &powers(&self.point)) - self.blind_factor * mask;
        let eq = eq_table(&self.within);
        let blind = |place: usize| {
            let len = proof.shown.len();
            let shown = super::stack::coordinate(&proof.shown, place, len);
            let shown: EF = eq.iter().zip(shown).map(|(weight, part)| *weight * part).sum();
            let scaled = masks.iter().enumerate().map(|(other, mask)| {
                let factor =
                    super::stack::coordinate(&[self.blind_factor * basis(other)], place, 1);
                *mask * factor[0]
            });
            shown - scaled.sum::<EF>()
        };
        masks.iter().copied().chain((0..DEGREE).map(blind)).collect()
    }
}
