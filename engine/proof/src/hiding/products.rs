//! All that is not linear, as one equation that a verifier checks without seeing its numbers.
//!
//! Every layer of the look-ups and the first sum-check end with products of hidden numbers a_i.
//! Combined with powers of a challenge κ they are one polynomial equation P(a) = b of degree d,
//! where P is public and b is linear in the pads. The prover takes a fresh pad x_i for each a_i; as
//! a polynomial in e, with P made homogeneous by e,
//! ```text
//! P(x + e·a)  =  z_0 + e·z_1 + … + e^d·z_d,    z_d = P(a) = b
//! ```
//! It sends z_0 … z_{d-1} covered by pads, gets the challenge e, and sends u = x + e·a, which are
//! uniform because the x are and cover nothing else. What is left to check is linear: u_i = x_i +
//! e·a_i, and P(u) = Σ e^k·z_k + e^d·b. If P(a) is not b, both sides differ as polynomials in e,
//! since a, x, z and b are fixed before e is drawn; they agree for at most d values of e.

use super::pads::Affine;
use crate::claims::Challenges;
use crate::field::EF;
use crate::plan::Plan;
use crate::replay::{Gate, Number};
use crate::verify::product_ends;
use p3_field::{Field, PrimeCharacteristicRing};

/// Numbers of a layer of the look-ups.
const CHILDREN: usize = 4;

/// The degree of the equation.
pub(crate) fn degree(plan: &Plan) -> usize {
    plan.products.iter().map(|product| product.claims_multiplied()).fold(2, usize::max)
}

/// The numbers that are multiplied: children of all layers, claims.
pub(crate) fn factors(plan: &Plan) -> usize {
    CHILDREN * plan.leaf_bits + plan.claims()
}

/// The equation.
pub(crate) struct Equation<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) challenges: &'a Challenges,
    pub(crate) gates: &'a [Gate<Affine>],
    pub(crate) kappa: EF,
}

impl Equation<'_> {
    /// The homogeneous polynomial, at `unit` in place of one.
    pub(crate) fn left(&self, unit: EF, factors: &[EF]) -> EF {
        let degree = degree(self.plan);
        let to_degree = |factors: usize| unit.exp_u64((degree - factors) as u64);
        let (children, claims) = factors.split_at(CHILDREN * self.gates.len());
        let mut power = EF::ONE;
        let mut sum = EF::ZERO;
        for (gate, children) in self.gates.iter().zip(children.as_chunks().0) {
            sum += power * to_degree(2) * gate.join(*children);
            power *= self.kappa;
        }
        for (factors, end) in product_ends(self.plan, self.challenges, claims) {
            sum += power * to_degree(factors) * end;
        }
        sum
    }

    /// What it must be.
    pub(crate) fn right(&self, last: &Affine) -> Affine {
        let mut power = EF::ONE;
        let mut sum = Affine::default();
        for gate in self.gates {
            sum.add(power, &gate.sum);
            power *= self.kappa;
        }
        sum.add(power, last);
        sum
    }

    /// The prover's coefficients below the degree.
    pub(crate) fn lower(&self, blinds: &[EF], factors: &[EF]) -> Vec<EF> {
        let at = |unit: EF| {
            let moved = blinds.iter().zip(factors).map(|(x, a)| *x + unit * *a);
            self.left(unit, &moved.collect::<Vec<_>>())
        };
        let degree = degree(self.plan);
        let mut coefficients = interpolate((0..=degree).map(|e| at(EF::from_usize(e))).collect());
        coefficients.truncate(degree);
        coefficients
    }
}

/// The coefficients of the polynomial with these values at 0, 1, 2, …, by divided differences.
fn interpolate(mut values: Vec<EF>) -> Vec<EF> {
    let len = values.len();
    for step in 1..len {
        let inverse = EF::from_usize(step).inverse();
        for place in (step..len).rev() {
            values[place] = (values[place] - values[place - 1]) * inverse;
        }
    }
    let mut coefficients = vec![EF::ZERO; len];
    for place in (0..len).rev() {
        // Times (X - place), plus the difference.
        for above in (1..len).rev() {
            let below = coefficients[above - 1];
            coefficients[above] = below - EF::from_usize(place) * coefficients[above];
        }
        coefficients[0] = values[place] - EF::from_usize(place) * coefficients[0];
    }
    coefficients
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpolation_gives_the_coefficients_back() {
        let coefficients: Vec<EF> = (0..5).map(|i| EF::from_usize(i * i * 7 + 3)).collect();
        let value = |at: usize| {
            let terms = coefficients.iter().enumerate();
            terms.map(|(power, c)| *c * EF::from_usize(at).exp_u64(power as u64)).sum()
        };
        assert_eq!(interpolate((0..5).map(value).collect()), coefficients);
    }
}
