//! The verifier.
//!
//! It replays the prover's transcript, then closes every claim: numerators, accumulators in the
//! clear, the ends of both sum-checks, and the one equation of all functionals
//! ([`crate::claims`]). It works on sizes of the plan only and does not panic on any proof.

use crate::claims::{Challenges, Openings, Publics, Tally};
use crate::codec::Proof;
use crate::error::VerifyError;
use crate::field::{EF, F, dot_base, eq_points, int};
use crate::logup;
use crate::pcs::{Opening, Pcs, Root};
use crate::plan::{Check, Opened, Plan, PlanError, ProductKind, Tree};
use crate::replay::{self, Gate, LookedUp};
use crate::security::Report;
use crate::setup::{Setup, WeightsCommitment};
use crate::statement::Statement;
use crate::sumcheck::shortened;
use p3_field::PrimeCharacteristicRing;
use rayon::prelude::*;
use std::sync::Arc;
use tg_tensor::program::{MAGNITUDE_MAX, Primitive, Program};
use tg_tensor::{Model, Tensor};
use tg_types::Hash32;

/// Verifies proofs about one program and its weights, for one number of inferences.
#[derive(Debug)]
pub struct Verifier {
    setup: Arc<Setup>,
    weights: Weights,
    digest: Hash32,
}

#[derive(Debug)]
enum Weights {
    Public(Arc<Model>),
    Committed(Option<WeightsCommitment>),
}

impl Verifier {
    /// One that has the model.
    pub fn public(model: impl Into<Arc<Model>>, batch: usize) -> Result<Self, PlanError> {
        let model = model.into();
        let setup = Setup::new(&Arc::new(model.program().clone()), Some(model.constants()), batch)?;
        Ok(Self::known(Arc::new(setup), model))
    }

    /// One for a setup with a model.
    pub(crate) fn known(setup: Arc<Setup>, model: Arc<Model>) -> Self {
        let digest = model.weights_root();
        Self { setup, weights: Weights::Public(model), digest }
    }

    /// One that has the program and a commitment to its weights, `None` if it has none. The
    /// commitment must be that of weights that passed the checks of a model: whoever registers it
    /// recomputes it from them.
    pub fn committed(
        program: impl Into<Arc<Program>>,
        commitment: Option<WeightsCommitment>,
        batch: usize,
    ) -> Result<Self, PlanError> {
        Ok(Self::with(Arc::new(Setup::new(&program.into(), None, batch)?), commitment))
    }

    /// One for a setup with committed weights.
    pub(crate) fn with(setup: Arc<Setup>, commitment: Option<WeightsCommitment>) -> Self {
        let none = || WeightsCommitment::of(std::iter::empty()).digest();
        let digest = commitment.as_ref().map_or_else(none, WeightsCommitment::digest);
        Self { setup, weights: Weights::Committed(commitment), digest }
    }

    /// The soundness of proofs that this verifier accepts.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.setup.report
    }

    /// How many look-ups and entries of tables a proof is about: verifying takes time in
    /// proportion.
    #[must_use]
    pub fn leaves(&self) -> u64 {
        self.setup.leaves()
    }

    /// Verifies the bytes of a proof.
    pub fn verify(&self, statement: &Statement, bytes: &[u8]) -> Result<&Report, VerifyError> {
        let constants = match &self.weights {
            Weights::Public(model) => model.constants(),
            Weights::Committed(_) => &[],
        };
        let plan = &self.setup.plan;
        statement.check(plan, constants)?;
        let proof = Proof::from_bytes(bytes)?;
        check_clear(plan, statement, &proof.clear)?;
        let replay = self.replay(statement, &proof)?;
        self.close(statement, constants, &proof, &replay)?;
        Ok(&self.setup.report)
    }

    /// Replays the transcript: everything that does not need the statement's numbers.
    fn replay(&self, statement: &Statement, proof: &Proof) -> Result<Replay, VerifyError> {
        let plan = &self.setup.plan;
        let mut transcript = self.setup.begin(statement, &self.digest);
        let roots = match &self.weights {
            Weights::Committed(Some(commitment)) => commitment.roots(),
            Weights::Committed(None) | Weights::Public(_) => Vec::new(),
        };
        let secret = self.setup.weights.len();
        if roots.len() != secret || proof.weights.len() != secret {
            return Err(VerifyError::Opening("weights"));
        }
        for ((_, pcs), root) in self.setup.weights.iter().zip(&roots) {
            pcs.absorb(root, transcript.sponge());
        }
        let clear: Vec<F> = proof.clear.iter().map(|sum| int((*sum).into())).collect();
        transcript.absorb_base("accumulators", &clear);
        let run = self.commitments(proof)?;
        for (_, pcs, root, _) in &run {
            pcs.absorb(root, transcript.sponge());
        }
        let mut challenges = Challenges {
            alpha: transcript.draw("alpha"),
            beta: transcript.draw("beta"),
            ..Challenges::default()
        };
        let shown = &mut |number: EF| number;
        let lookups = replay::lookups(&proof.lookups, plan.leaf_bits, &mut transcript, shown)
            .ok_or(VerifyError::Lookups)?;
        challenges.lookups = lookups.point.clone();
        challenges.gamma = transcript.draw("gamma");
        challenges.checks = transcript.draw_point("checks", plan.check_bits());
        let rounds = (!plan.products.is_empty()).then_some(plan.product_bits());
        let degree = plan.product_degree();
        let products = replay::sum(&proof.products, rounds, degree, &mut transcript, shown)
            .ok_or(VerifyError::Sum("first"))?;
        challenges.products = products.point;
        if proof.claims.len() != plan.claims() {
            return Err(VerifyError::Sum("first"));
        }
        transcript.absorb("claims", &proof.claims);
        challenges.rho = transcript.draw("rho");
        let all = plan.functionals();
        let rounds = all.iter().map(|(column, at)| plan.functional_bits(*column, *at)).max();
        let functionals = replay::sum(&proof.functionals, rounds, 2, &mut transcript, shown)
            .ok_or(VerifyError::Sum("second"))?;
        challenges.functionals = functionals.point;
        let mut openings = Openings::new();
        let weights = self.setup.weights.iter().zip(&roots).zip(&proof.weights);
        let weights = weights.map(|(((tree, pcs), root), opening)| (*tree, pcs, root, opening));
        for (tree, pcs, root, opening) in run.into_iter().chain(weights) {
            let (points, weights) = plan.points(tree, &challenges);
            let name = if tree.is_of_weights() { "weights" } else { "values" };
            let values = pcs.verify(root, opening, &points, transcript.sponge());
            let values = values.ok_or(VerifyError::Opening(name))?;
            record(&plan.opened[tree as usize], &weights, values, &mut openings);
        }
        let (first, second) = ((products.sum, products.last), (functionals.sum, functionals.last));
        Ok(Replay { challenges, openings, lookups, first, second })
    }

    /// The commitments to the run, with their openings: as many as are planned, each of one root.
    fn commitments<'a>(&'a self, proof: &'a Proof) -> Result<Vec<Committed<'a>>, VerifyError> {
        let mut found = vec![(Tree::Run, &self.setup.run, &proof.root, &proof.opening)];
        match (&self.setup.rest, &proof.rest) {
            (None, None) => {}
            (Some(pcs), Some(rest)) => found.push((Tree::Rest, pcs, &rest.root, &rest.opening)),
            (Some(_), None) | (None, Some(_)) => return Err(VerifyError::Opening("values")),
        }
        let has_one_root = |(_, _, root, _): &Committed<'_>| root.roots().len() == 1;
        if found.iter().all(has_one_root) { Ok(found) } else { Err(VerifyError::Bytes) }
    }

    /// Closes all claims.
    fn close(
        &self,
        statement: &Statement,
        constants: &[Tensor],
        proof: &Proof,
        replay: &Replay,
    ) -> Result<(), VerifyError> {
        let plan = &self.setup.plan;
        let Replay { challenges, openings, lookups, first, second } = replay;
        let known = logup::known(plan, challenges).ok_or(VerifyError::Claims)?;
        let value = |part: &logup::Part| part.value(openings).ok_or(VerifyError::Claims);
        let holds = |gate: &Gate<EF>| gate.join(gate.children) == gate.sum;
        let is_fraction = proof.lookups.root_denominator != EF::ZERO;
        if !is_fraction || !lookups.gates.iter().all(holds) {
            return Err(VerifyError::Lookups);
        }
        if value(&known.numerator)? != lookups.numerator {
            return Err(VerifyError::Lookups);
        }
        let ends = product_ends(plan, challenges, &proof.claims);
        if ends.iter().map(|(_, end)| *end).sum::<EF>() != first.1 {
            return Err(VerifyError::Sum("first"));
        }
        let (inputs, outputs) = (&statement.inputs, &statement.outputs);
        let publics = Publics { inputs, outputs, constants };
        let requests = plan.requests(challenges);
        let tally = Tally::new(plan, challenges, &requests, Some(&publics));
        if !tally.is_complete() {
            return Err(VerifyError::Claims);
        }
        let mut end = EF::ZERO;
        for (column, at) in plan.functionals() {
            let Some(value) = openings.get(&(column, at)) else {
                return Err(VerifyError::Claims);
            };
            let all = tally.functionals.get(&(column, at)).into_iter().flatten();
            let weight: EF = all.map(|one| plan.eval_functional(challenges, column, at, one)).sum();
            let bits = plan.functional_bits(column, at);
            end += shortened(&challenges.functionals, bits) * weight * *value;
        }
        if end != second.1 {
            return Err(VerifyError::Sum("second"));
        }
        let mut left = lookups.denominator - value(&known.denominator)? - first.0;
        left += checks(plan, challenges, outputs, &proof.clear);
        let mut power = EF::ONE;
        for claim in &proof.claims {
            power *= challenges.rho;
            left += power * *claim;
        }
        let opened = tally.points.value(openings).ok_or(VerifyError::Claims)?;
        if left != tally.constant + opened + second.0 {
            return Err(VerifyError::Claims);
        }
        Ok(())
    }
}

/// Verifies separate proofs, on as many threads as there are; one result for each, in their order.
///
/// They share the verifiers' plans and parameters, and nothing else: a proof's work is the hashes
/// of its own opened paths and the weights at its own points, neither of which can be added up over
/// proofs. Proofs that shall cost less together are made together, as a batch or a
/// [`crate::Union`].
pub fn verify_all<'a>(
    proofs: &[(&'a Verifier, &Statement, &[u8])],
) -> Vec<Result<&'a Report, VerifyError>> {
    let verify = |(verifier, statement, bytes): &(&'a Verifier, &Statement, &[u8])| {
        verifier.verify(statement, bytes)
    };
    proofs.par_iter().map(verify).collect()
}

/// A commitment to the run: which, its parameters, root and opening.
type Committed<'a> = (Tree, &'a Pcs, &'a Root, &'a Opening);

/// What a replayed transcript leaves to be closed.
struct Replay {
    challenges: Challenges,
    openings: Openings,
    lookups: LookedUp<EF>,
    /// Claimed sum and last value of each sum-check.
    first: (EF, EF),
    second: (EF, EF),
}

/// Adds the values of opened columns, or of parts of them, by what they count for.
fn record(opened: &[Opened], weights: &[EF], values: Vec<Vec<EF>>, openings: &mut Openings) {
    for ((opened, weight), values) in opened.iter().zip(weights).zip(values) {
        for (column, value) in opened.columns.iter().zip(values) {
            *openings.entry((*column, opened.at)).or_default() += *weight * value;
        }
    }
}

/// Accumulators in the clear: as many as there are, small enough to be told apart in the field, and
/// such that the rescale gives the outputs.
fn check_clear(plan: &Plan, statement: &Statement, clear: &[i32]) -> Result<(), VerifyError> {
    if clear.len() != plan.clear_len() {
        return Err(VerifyError::Accumulators);
    }
    let mut rest = clear;
    for check in &plan.checks {
        let Check::Clear(operation) = *check else { continue };
        let stated = &plan.program.operations()[operation];
        let (Primitive::Linear { columns, rescale, .. }, Some(output)) =
            (&stated.primitive, output_of(plan, operation))
        else {
            return Err(VerifyError::Accumulators);
        };
        for outputs in &statement.outputs {
            let (sums, behind) = rest.split_at(stated.spec.elements());
            rest = behind;
            for (index, sum) in sums.iter().enumerate() {
                let sum = i64::from(*sum);
                let made = rescale.apply(sum, index % *columns as usize, &stated.spec);
                if sum.abs() > MAGNITUDE_MAX || outputs[output].get(index) != Some(made) {
                    return Err(VerifyError::Accumulators);
                }
            }
        }
    }
    Ok(())
}

fn output_of(plan: &Plan, operation: usize) -> Option<usize> {
    let value = plan.value_of(operation);
    plan.program.outputs().iter().position(|output| output.value == value)
}

/// What each product adds to the end of the first sum-check, if the claims hold, and how many
/// claims are multiplied for it.
pub(crate) fn product_ends(
    plan: &Plan,
    challenges: &Challenges,
    claims: &[EF],
) -> Vec<(usize, EF)> {
    let mut rest = claims;
    let mut ends = Vec::with_capacity(plan.products.len());
    for (index, product) in plan.products.iter().enumerate() {
        let (claims, behind) = rest.split_at(product.claims());
        rest = behind;
        let value = match (&product.kind, claims) {
            (
                ProductKind::Linear(_) | ProductKind::MatMul(_) | ProductKind::Elements { .. },
                claims,
            ) => claims.iter().copied().product(),
            (ProductKind::Times(times), claims) => {
                let check = Check::Equation(times.equation);
                let weight = check_weight(plan, challenges, index, check) * times.scale;
                weight * claims.iter().copied().product::<EF>()
            }
            (ProductKind::Max(_), [made, taps @ ..]) => {
                let weight = check_weight(plan, challenges, index, Check::Max(index));
                weight * taps.iter().map(|tap| *made - *tap).product::<EF>()
            }
            (ProductKind::Max(_), []) => EF::ZERO,
        };
        let end = shortened(&challenges.products, product.bits) * value;
        ends.push((product.claims_multiplied(), end));
    }
    ends
}

/// The weight of a check where its product ended.
fn check_weight(plan: &Plan, challenges: &Challenges, index: usize, check: Check) -> EF {
    let power = plan.check_power(challenges, check).unwrap_or_default();
    let point = &challenges.checks[challenges.checks.len() - plan.products[index].bits..];
    power * eq_points(point, plan.product_point(challenges, index))
}

/// What the checks must give: accumulators in the clear, and outputs that are moved values.
pub(crate) fn checks(
    plan: &Plan,
    challenges: &Challenges,
    outputs: &[Vec<Tensor>],
    clear: &[i32],
) -> EF {
    let mut rest = clear;
    let mut sum = EF::ZERO;
    for check in &plan.checks {
        let power = plan.check_power(challenges, *check).unwrap_or_default();
        let (Check::Clear(operation) | Check::Copy(operation)) = *check else { continue };
        let layout = plan.layout_of(operation);
        let batch = layout.batch_weights(&challenges.checks);
        let weights = layout.weights(&challenges.checks);
        for (inference, weight) in batch.iter().enumerate() {
            let value = match *check {
                Check::Clear(_) => {
                    let (sums, behind) = rest.split_at(layout.len());
                    rest = behind;
                    dot_base(&weights, sums.iter().map(|sum| int((*sum).into())))
                }
                Check::Copy(_) | Check::Max(_) | Check::Equation(_) | Check::Padding(_) => {
                    let output = output_of(plan, operation).unwrap_or(0);
                    let made = &outputs[inference][output];
                    dot_base(&weights, crate::claims::elements(made))
                }
            };
            sum += power * *weight * value;
        }
    }
    sum
}

/// What a forger knows once all is drawn.
#[cfg(test)]
pub(crate) struct Learnt {
    pub(crate) challenges: Challenges,
    pub(crate) openings: Openings,
    /// That of the look-ups, at their end.
    pub(crate) denominator: EF,
}

#[cfg(test)]
impl Verifier {
    /// What a forger learns from a proof before anything is closed.
    pub(crate) fn learn(&self, absorbed: &Statement, proof: &Proof) -> Learnt {
        let Replay { challenges, openings, lookups, .. } =
            self.replay(absorbed, proof).expect("only claims are false");
        Learnt { challenges, openings, denominator: lookups.denominator }
    }

    /// By how much the last equation of a statement is wrong.
    pub(crate) fn gap(&self, statement: &Statement, proof: &Proof, learnt: &Learnt) -> EF {
        let constants = match &self.weights {
            Weights::Public(model) => model.constants(),
            Weights::Committed(_) => &[],
        };
        let (plan, challenges) = (&self.setup.plan, &learnt.challenges);
        let known = logup::known(plan, challenges).expect("the plan is complete");
        let (inputs, outputs) = (&statement.inputs, &statement.outputs);
        let publics = Publics { inputs, outputs, constants };
        let requests = plan.requests(challenges);
        let tally = Tally::new(plan, challenges, &requests, Some(&publics));
        let sum = |sum: &Option<crate::sumcheck::SumProof>| {
            sum.as_ref().map_or(EF::ZERO, |sum| sum.claimed_sum)
        };
        let value = |part: &crate::claims::Points| part.value(&learnt.openings).expect("opened");
        let mut left = learnt.denominator + checks(plan, challenges, outputs, &proof.clear)
            - known.denominator.constant
            - value(&known.denominator.points)
            - sum(&proof.products);
        let powers = challenges.rho.shifted_powers(challenges.rho);
        left += proof.claims.iter().zip(powers).map(|(claim, power)| *claim * power).sum::<EF>();
        left - tally.constant - value(&tally.points) - sum(&proof.functionals)
    }

    /// A mutant that absorbs something else than the statement.
    pub(crate) fn verify_absorbing(
        &self,
        statement: &Statement,
        absorbed: &Statement,
        proof: &Proof,
    ) -> Result<(), VerifyError> {
        let constants = match &self.weights {
            Weights::Public(model) => model.constants(),
            Weights::Committed(_) => &[],
        };
        statement.check(&self.setup.plan, constants)?;
        check_clear(&self.setup.plan, statement, &proof.clear)?;
        let replay = self.replay(absorbed, proof)?;
        self.close(statement, constants, proof, &replay)
    }

    /// A mutant that absorbs neither which program nor which weights it has.
    pub(crate) fn without_model(mut self) -> Self {
        self.digest = Hash32::new([0; 32]);
        let setup = Arc::get_mut(&mut self.setup).expect("nobody else has it");
        setup.program = Hash32::new([0; 32]);
        self
    }
}
