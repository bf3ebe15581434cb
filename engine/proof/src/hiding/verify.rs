//! The verifier of hiding proofs.

use super::last;
use super::owned::HiddenWeights;
use super::proof::HidingProof;
use super::seed::Seed;
use super::setup::{HidingSetup, Secrecy};
use super::statement::{HidingRoot, HidingStatement, InputsCommitment, ZkStatement};
use super::walk::Walk;
use crate::claims::Publics;
use crate::error::VerifyError;
use crate::field::EF;
use crate::plan::PlanError;
use crate::security::Report;
use crate::sumcheck::shortened;
use std::sync::Arc;
use tg_tensor::program::Program;
use tg_tensor::{Model, Tensor};

/// Verifies proofs that hide inputs, about one model and for one number of inferences.
#[derive(Debug)]
pub struct HidingVerifier(ZkVerifier);

impl HidingVerifier {
    /// One that has the model.
    pub fn new(model: impl Into<Arc<Model>>, batch: usize) -> Result<Self, PlanError> {
        let shown = Shown { inputs: false, outputs: true };
        ZkVerifier::new(Weights::Known(model.into()), batch, shown).map(Self)
    }

    /// The soundness of proofs that this verifier accepts.
    #[must_use]
    pub fn report(&self) -> &Report {
        self.0.report()
    }

    /// Commits to the inputs of all inferences, as their owner does. Whoever is to prove needs
    /// them, and the seed.
    pub fn commit(
        &self,
        inputs: &[Vec<Tensor>],
        seed: &Seed,
    ) -> Result<InputsCommitment, VerifyError> {
        self.0.commit_inputs(inputs, seed)
    }

    /// Verifies the bytes of a proof.
    pub fn verify(
        &self,
        statement: &HidingStatement,
        bytes: &[u8],
    ) -> Result<&Report, VerifyError> {
        self.0.verify(&statement.into(), bytes)
    }
}

/// What a verifier has of a model.
#[derive(Clone, Debug)]
pub enum Weights {
    /// All of it.
    Known(Arc<Model>),
    /// The program and a commitment to the weights.
    Committed(Arc<Program>, HiddenWeights),
}

/// Which tensors statements show; the others are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The inputs.
    pub inputs: bool,
    /// The outputs.
    pub outputs: bool,
}

/// Verifies hiding proofs about one program, for one number of inferences.
#[derive(Debug)]
pub struct ZkVerifier {
    setup: Arc<HidingSetup>,
    weights: Option<HiddenWeights>,
}

impl ZkVerifier {
    /// One for statements that show this much.
    pub fn new(weights: Weights, batch: usize, shown: Shown) -> Result<Self, PlanError> {
        let (inputs, outputs) = (!shown.inputs, !shown.outputs);
        match weights {
            Weights::Known(model) => {
                let program = Arc::new(model.program().clone());
                let secrecy = Secrecy { inputs, outputs, weights: None };
                let setup = HidingSetup::new(&program, Some(model), batch, secrecy)?;
                Ok(Self { setup: Arc::new(setup), weights: None })
            }
            Weights::Committed(program, weights) => {
                let secrecy = Secrecy { inputs, outputs, weights: Some(weights.openings) };
                let setup = HidingSetup::new(&program, None, batch, secrecy)?;
                Ok(Self::with(Arc::new(setup), weights))
            }
        }
    }

    /// One for a setup with a commitment to weights.
    pub(crate) fn with(setup: Arc<HidingSetup>, weights: HiddenWeights) -> Self {
        Self { setup, weights: Some(weights) }
    }

    /// The soundness of proofs that this verifier accepts.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.setup.report
    }

    /// Commits to the inputs of all inferences, as their owner does. Whoever is to prove needs
    /// them, and the seed.
    pub fn commit_inputs(
        &self,
        inputs: &[Vec<Tensor>],
        seed: &Seed,
    ) -> Result<HidingRoot, VerifyError> {
        let sealed = self.setup.seal_inputs(inputs, seed)?.ok_or(VerifyError::Secrecy)?;
        Ok(HidingRoot::of(&sealed.root))
    }

    /// Commits to the outputs of all inferences, as the prover does: whoever gets them with the
    /// seed finds the root of the statement again.
    pub fn commit_outputs(
        &self,
        outputs: &[Vec<Tensor>],
        seed: &Seed,
    ) -> Result<HidingRoot, VerifyError> {
        let sealed = self.setup.seal_outputs(outputs, seed)?.ok_or(VerifyError::Secrecy)?;
        Ok(HidingRoot::of(&sealed.root))
    }

    /// Verifies the bytes of a proof.
    pub fn verify(&self, statement: &ZkStatement, bytes: &[u8]) -> Result<&Report, VerifyError> {
        let setup = &self.setup;
        let plan = &setup.plan;
        let constants = setup.constants();
        let weights = self.weights.map(|weights| weights.root.root());
        let roots = setup.roots(statement, weights.as_ref())?;
        statement.check(plan, constants)?;
        let proof = HidingProof::from_bytes(bytes)?;
        let mut transcript = setup.begin(statement, &roots);
        if proof.root.roots().len() != 1 || proof.owned.len() != setup.owned.len() {
            return Err(VerifyError::Bytes);
        }
        setup.run.absorb(&proof.root, transcript.sponge());
        let mut walk = Walk::new(plan, &mut transcript);
        walk.lookups(&proof.lookups, &mut transcript)?;
        walk.products(&proof.products, &mut transcript)?;
        walk.claims(&proof.claims, &mut transcript)?;
        walk.lower(&proof.lower, &mut transcript)?;
        walk.factors(&proof.factors, &mut transcript)?;
        let (inputs, outputs) = (statement.inputs.shown(), statement.outputs.shown());
        let publics = Publics { inputs, outputs, constants };
        let linear = walk.linear(Some(&publics))?;
        let ended = last::replay(&proof.last, setup.rounds(), linear.constant, &mut transcript)
            .ok_or(VerifyError::Sum("last"))?;
        let points = ended.run_points(&setup.run_stack);
        let sponge = transcript.sponge();
        let values = setup.run.verify(&proof.root, &proof.opening, points, sponge);
        let values = values.ok_or(VerifyError::Opening("values"))?;
        let [of_run, masks @ ..] = &values[..] else { return Err(VerifyError::Claims) };
        let mut opened = vec![(&setup.run_stack, *of_run)];
        for ((owned, root), opening) in setup.owned.iter().zip(&roots).zip(&proof.owned) {
            let point = ended.stack_point(&owned.stack);
            let value = owned.verify(root, opening, point, sponge);
            opened.push((&owned.stack, value.ok_or(VerifyError::Opening(owned.name()))?));
        }
        walk.challenges.functionals = ended.point.clone();
        let mut weighed = EF::default();
        for (stack, value) in opened {
            let weight = linear.eval(plan, &walk.challenges, stack);
            weighed += shortened(&ended.point, stack.bits) * weight * value;
        }
        if !ended.closes(&proof.last, weighed, masks) {
            return Err(VerifyError::Claims);
        }
        Ok(&setup.report)
    }
}
