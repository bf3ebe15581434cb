//! Numbers that are sent covered by pads.
//!
//! A message m is sent as m + π with a pad π that is random, committed before, and used once. To
//! whoever does not know the pads, a covered message is a uniform number. A verifier computes with
//! the difference of what was sent and the unknown pad: an [`Affine`] form over all pads. What
//! should be equal becomes a linear equation of pads.

use crate::field::{DEGREE, EF, F};
use crate::messages::Heading;
use crate::pcs::Sponge;
use crate::plan::Plan;
use crate::replay::Number;
use crate::sumcheck::SumProof;
use p3_challenger::{CanObserve, CanSample, CanSampleBits, FieldChallenger};
use p3_field::{BasedVectorSpace, PrimeCharacteristicRing};
use p3_multi_stark::fractional_gkr::FractionGkrProof;

/// A constant plus pads times factors. A pad may occur more than once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Affine {
    pub(crate) constant: EF,
    pub(crate) terms: Vec<(usize, EF)>,
}

impl Affine {
    /// A number that is known.
    pub(crate) fn known(constant: EF) -> Self {
        Self { constant, terms: Vec::new() }
    }
}

impl Number for Affine {
    fn add(&mut self, factor: EF, other: &Self) {
        self.constant += factor * other.constant;
        self.terms.extend(other.terms.iter().map(|(pad, weight)| (*pad, factor * *weight)));
    }
}

/// How many pads a proof has used: each is handed out once.
#[derive(Debug, Default)]
pub(crate) struct Used(usize);

impl Used {
    /// The number that a covered message stands for.
    pub(crate) fn read(&mut self, sent: EF) -> Affine {
        Affine { constant: sent, terms: vec![(self.next(), -EF::ONE)] }
    }

    /// A pad that covers nothing.
    pub(crate) fn fresh(&mut self) -> Affine {
        Affine { constant: EF::ZERO, terms: vec![(self.next(), EF::ONE)] }
    }

    fn next(&mut self) -> usize {
        self.0 += 1;
        self.0 - 1
    }

    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.0
    }
}

/// Pads that the look-ups, the first sum-check and its claims use.
pub(crate) fn messages(plan: &Plan) -> usize {
    let layers = (0..plan.leaf_bits).map(|layer| 3 * layer + 4).sum::<usize>();
    let products = match plan.products.is_empty() {
        true => 0,
        false => 1 + plan.product_bits() * plan.product_degree() + plan.claims(),
    };
    1 + layers + products
}

/// The prover's pads.
pub(crate) struct Pads {
    all: Vec<EF>,
    used: usize,
}

impl Pads {
    /// Pads to be used.
    pub(crate) fn new(all: Vec<EF>) -> Self {
        Self { all, used: 0 }
    }

    /// All pads.
    pub(crate) fn all(&self) -> &[EF] {
        &self.all
    }

    /// The next pad.
    pub(crate) fn take(&mut self) -> EF {
        self.used += 1;
        self.all[self.used - 1]
    }

    /// The last pads.
    pub(crate) fn last(&self, count: usize) -> &[EF] {
        &self.all[self.all.len() - count..]
    }

    fn cover(&mut self, message: &mut EF) {
        *message += self.take();
    }

    /// Covers numbers.
    pub(crate) fn cover_all(&mut self, messages: &mut [EF]) {
        messages.iter_mut().for_each(|message| self.cover(message));
    }

    /// Covers a proof of look-ups.
    pub(crate) fn cover_lookups(&mut self, proof: &mut FractionGkrProof<EF>) {
        self.cover(&mut proof.root_denominator);
        for layer in &mut proof.layers {
            layer.round_polys.iter_mut().for_each(|values| self.cover_all(values));
            let sent = &mut layer.claims;
            for message in [&mut sent.n0, &mut sent.d0, &mut sent.n1, &mut sent.d1] {
                self.cover(message);
            }
        }
    }

    /// Covers a sum-check.
    pub(crate) fn cover_sum(&mut self, proof: &mut SumProof) {
        self.cover(&mut proof.claimed_sum);
        proof.round_polys.iter_mut().for_each(|values| self.cover_all(values));
    }

    /// A sponge for the prover of look-ups, which absorbs its messages covered by the next pads.
    pub(crate) fn lookups<'a>(&'a self, bits: usize, sponge: &'a mut Sponge) -> Covered<'a> {
        self.sponge(&Heading::lookups(bits), sponge)
    }

    /// The same for a sum-check.
    pub(crate) fn sum<'a>(
        &'a self,
        rounds: usize,
        degree: usize,
        sponge: &'a mut Sponge,
    ) -> Covered<'a> {
        self.sponge(&Heading::sum(rounds, degree), sponge)
    }

    fn sponge<'a>(&'a self, heading: &Heading, sponge: &'a mut Sponge) -> Covered<'a> {
        let plain = heading.elements().count();
        Covered { sponge, plain, pads: &self.all[self.used..], place: 0 }
    }
}

/// A sponge that adds pads to what it absorbs, once it has absorbed the heading of a protocol.
/// Behind it there are nothing but messages.
pub(crate) struct Covered<'a> {
    sponge: &'a mut Sponge,
    /// Elements of the heading that are left.
    plain: usize,
    pads: &'a [EF],
    /// Coordinates of pads that were added.
    place: usize,
}

impl CanObserve<F> for Covered<'_> {
    fn observe(&mut self, value: F) {
        if self.plain > 0 {
            self.plain -= 1;
            self.sponge.observe(value);
            return;
        }
        let pad: &[F] = self.pads[self.place / DEGREE].as_basis_coefficients_slice();
        self.sponge.observe(value + pad[self.place % DEGREE]);
        self.place += 1;
    }
}

impl CanSample<F> for Covered<'_> {
    fn sample(&mut self) -> F {
        self.sponge.sample()
    }
}

impl CanSampleBits<usize> for Covered<'_> {
    fn sample_bits(&mut self, bits: usize) -> usize {
        self.sponge.sample_bits(bits)
    }
}

impl FieldChallenger<F> for Covered<'_> {}
