//! The verifier of hiding proofs.

use super::last;
use super::proof::HidingProof;
use super::setup::HidingSetup;
use super::statement::{HidingStatement, InputsCommitment, Seed};
use super::walk::Walk;
use crate::claims::Publics;
use crate::error::VerifyError;
use crate::field::EF;
use crate::plan::PlanError;
use crate::security::Report;
use crate::sumcheck::shortened;
use std::sync::Arc;
use tg_tensor::{Model, Tensor};

/// Verifies hiding proofs about one model, for one number of inferences.
#[derive(Debug)]
pub struct HidingVerifier {
    setup: HidingSetup,
}

impl HidingVerifier {
    /// One that has the model.
    pub fn new(model: impl Into<Arc<Model>>, batch: usize) -> Result<Self, PlanError> {
        Ok(Self { setup: HidingSetup::new(model.into(), batch)? })
    }

    /// The soundness of proofs that this verifier accepts.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.setup.report
    }

    /// Commits to the inputs of all inferences, as their owner does. Whoever is to prove needs
    /// them, and the seed.
    pub fn commit(
        &self,
        inputs: &[Vec<Tensor>],
        seed: &Seed,
    ) -> Result<InputsCommitment, VerifyError> {
        self.setup.commitment(inputs, seed)
    }

    /// Verifies the bytes of a proof.
    pub fn verify(
        &self,
        statement: &HidingStatement,
        bytes: &[u8],
    ) -> Result<&Report, VerifyError> {
        let setup = &self.setup;
        let plan = &setup.plan;
        let constants = setup.model.constants();
        statement.check(plan, constants)?;
        let proof = HidingProof::from_bytes(bytes)?;
        let mut transcript = setup.begin(statement);
        if proof.root.roots().len() != 1 {
            return Err(VerifyError::Bytes);
        }
        setup.run.absorb(&proof.root, transcript.sponge());
        let mut walk = Walk::new(plan, &mut transcript);
        walk.lookups(&proof.lookups, &mut transcript)?;
        walk.products(&proof.products, &mut transcript)?;
        walk.claims(&proof.claims, &mut transcript)?;
        walk.lower(&proof.lower, &mut transcript)?;
        walk.factors(&proof.factors, &mut transcript)?;
        let publics = Publics { inputs: &[], outputs: &statement.outputs, constants };
        let linear = walk.linear(Some(&publics))?;
        let ended = last::replay(&proof.last, setup.rounds(), linear.constant, &mut transcript)
            .ok_or(VerifyError::Sum("last"))?;
        let points = ended.run_points(&setup.run_stack);
        let sponge = transcript.sponge();
        let values = setup.run.verify(&proof.root, &proof.opening, points, sponge);
        let values = values.ok_or(VerifyError::Opening("values"))?;
        let points = vec![ended.stack_point(&setup.inputs_stack)];
        let root = statement.inputs.root();
        let inputs = setup.inputs.verify(&root, &proof.inputs, points, sponge);
        let inputs = inputs.ok_or(VerifyError::Opening("inputs"))?;

        let ([of_run, masks @ ..], [of_inputs]) = (&values[..], &inputs[..]) else {
            return Err(VerifyError::Claims);
        };
        walk.challenges.functionals = ended.point.clone();
        let mut weighed = EF::default();
        for (stack, value) in [(&setup.run_stack, of_run), (&setup.inputs_stack, of_inputs)] {
            let weight = linear.eval(plan, &walk.challenges, stack);
            weighed += shortened(&ended.point, stack.bits) * weight * *value;
        }
        if !ended.closes(&proof.last, weighed, masks) {
            return Err(VerifyError::Claims);
        }
        Ok(&setup.report)
    }
}
