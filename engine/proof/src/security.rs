//! How likely a false statement passes, term by term.
//!
//! All terms are proven in the model in which the sponge is a random oracle; none rests on a
//! conjecture about codes (the Johnson bound is a theorem). A root stands for a short list of
//! polynomials until it is opened, so every term of our own is charged once for each of them.

use crate::field::{DEGREE, PRIME};
use crate::pcs::Soundness;
use crate::plan::Plan;

/// The fewest bits of security with which a proof is made or accepted.
pub const SECURITY_BITS_MIN: u32 = 100;

/// One way in which a false statement could pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// What it is.
    pub name: &'static str,
    /// -log2 of its probability.
    pub bits: f64,
}

/// All terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The terms.
    pub terms: Vec<Term>,
    /// -log2 of their sum.
    pub bits: f64,
}

impl Report {
    /// The terms of a plan's proof with these commitments.
    pub(crate) fn new(plan: &Plan, run: &[Soundness], weights: &[Soundness]) -> Self {
        let candidates: f64 = run.iter().chain(weights).map(|one| one.candidates_log2).sum();
        let functionals = plan.functionals();
        let second =
            functionals.iter().map(|(column, at)| plan.functional_bits(*column, *at)).max();
        let mut terms = Vec::new();
        for (name, all) in [("opening of the run", run), ("opening of weights", weights)] {
            terms.extend(all.iter().map(|one| Term { name, bits: one.bits }));
        }
        terms.extend(Self::terms_of_plan(plan, candidates));
        let rounds = 2.0 * second.unwrap_or(0) as f64;
        terms.push(of_field("second sum-check", rounds, candidates));
        Self::of(terms)
    }

    /// The terms up to the claims, each for so many candidates (log2) that roots may stand for.
    pub(crate) fn terms_of_plan(plan: &Plan, candidates: f64) -> Vec<Term> {
        let of = |name: &'static str, ways: f64| of_field(name, ways, candidates);
        let leaves = 2_f64.powi(plan.leaf_bits as i32);
        let layers = plan.leaf_bits as f64;
        let rounds = plan.product_bits() * plan.product_degree();
        vec![
            // Cleared of denominators the sum has degree 3 (beta^3) in each of the leaves; a zero
            // denominator is charged as much again.
            of("look-ups: alpha, beta", 6.0 * leaves),
            // Layer i has i rounds of degree 3, one challenge that joins numerator and denominator
            // and one that joins two halves.
            of("look-ups: layers", 1.5 * layers * (layers + 1.0) + 2.0 * layers),
            of("checks: gamma and point", (plan.checks.len() + plan.check_bits()) as f64),
            of("first sum-check", rounds as f64),
            of("claims: rho", plan.claims() as f64),
        ]
    }

    /// All terms together.
    pub(crate) fn of(mut terms: Vec<Term>) -> Self {
        terms.retain(|term| term.bits.is_finite());
        let sum: f64 = terms.iter().map(|term| 2_f64.powf(-term.bits)).sum();
        Self { terms, bits: -sum.log2() }
    }
}

/// A term of so many elements of the field for which a false statement passes, for each of the
/// candidates (log2) that roots may stand for.
pub(crate) fn of_field(name: &'static str, ways: f64, candidates: f64) -> Term {
    let field = DEGREE as f64 * (PRIME as f64).log2();
    let bits = if ways > 0.0 { field - ways.log2() - candidates } else { f64::INFINITY };
    Term { name, bits }
}
