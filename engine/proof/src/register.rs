//! Registration: that the weights behind a root fit a program, shown once and without showing them.
//!
//! Proofs about committed weights take for granted what whoever has a model checks by looking: that
//! all constants are of their ranges, that no column of a Linear exceeds its stated bound, that
//! cells which stand for nothing are 0. Whoever registers a secret model proves it instead, about
//! the very root that proofs of inferences open.
//!
//! It is a proof of another program, which has the same constants and whose outputs are known
//! beforehand ([`program`]); ranges and padding are in its plan (`plan/pinned.rs`). Constants on
//! which no output depends are neither committed nor registered. A bound is shown to be kept; that
//! it is met by a column is not shown.

mod program;
#[cfg(test)]
mod tests;

use crate::codec::Proof;
use crate::error::{ProveError, VerifyError};
use crate::hiding::{
    HiddenWeights, HidingProof, HidingSetup, Secrecy, Seed, Tensors, WeightsKey, ZkProver,
    ZkStatement, ZkVerifier,
};
use crate::plan::{Hidden, PlanError, build_pinned};
use crate::prove::Prover;
use crate::security::Report;
use crate::setup::{Setup, WeightsCommitment};
use crate::statement::{Mode, Statement};
use crate::verify::Verifier;
use program::Registered;
use std::sync::Arc;
use tg_tensor::program::{Program, ProgramId};
use tg_tensor::{Model, Tensor};
use tg_types::hash::{Tag, tagged};

const REGISTER_TAG: Tag = Tag::new("tensorgrid/proof-register");

/// Proves that a model's weights fit its program, for the commitment that proofs of its inferences
/// in [`Mode::Committed`] open. The proof is not zero-knowledge: it does not show the weights, but
/// is not proven to hide them.
pub fn prove(model: &Model, context: Vec<u8>) -> Result<(WeightsCommitment, Proof), ProveError> {
    let registered = Registered::new(model.program())?;
    let setup = setup(model.program(), &registered)?;
    let prover = Prover::with(setup, Arc::new(about(&registered.program, model)));
    let commitment = prover.commitment().ok_or(PlanError::NoWeights)?;
    let (_, proof) = prover.prove(vec![Vec::new()], context)?;
    Ok((commitment, proof))
}

/// Verifies that the weights behind a commitment fit a program; gives the soundness of the proof.
pub fn verify(
    program: &Program,
    commitment: &WeightsCommitment,
    context: Vec<u8>,
    proof: &[u8],
) -> Result<Report, RegisterError> {
    let registered = Registered::new(program)?;
    let setup = Arc::new(setup(program, &registered)?);
    let verifier = Verifier::with(setup, Some(commitment.clone()));
    Ok(verifier.verify(&statement(&registered, context), proof)?.clone())
}

/// The same for a hiding commitment, which zero-knowledge proofs of inferences open; it counts as
/// one of the proofs that may be made about it. The proof shows nothing of the weights but that
/// they fit.
pub fn prove_hiding(
    model: &Model,
    key: WeightsKey,
    seed: &Seed,
    context: Vec<u8>,
) -> Result<(HiddenWeights, HidingProof), ProveError> {
    let registered = Registered::new(model.program())?;
    let setup = hiding_setup(model.program(), &registered, key.openings)?;
    let prover = ZkProver::with(setup, Arc::new(about(&registered.program, model)), Some(key));
    let weights = prover.commitment().ok_or(PlanError::NoWeights)?;
    let (_, proof) = prover.prove_with(&[Vec::new()], [seed; 3], context)?;
    Ok((weights, proof))
}

/// Verifies that the weights behind a hiding commitment fit a program.
pub fn verify_hiding(
    program: &Program,
    weights: &HiddenWeights,
    context: Vec<u8>,
    proof: &[u8],
) -> Result<Report, RegisterError> {
    let registered = Registered::new(program)?;
    let setup = hiding_setup(program, &registered, weights.openings)?;
    let Statement { inputs, outputs, context } = statement(&registered, context);
    let (inputs, outputs) = (Tensors::Shown(inputs), Tensors::Shown(outputs));
    let statement = ZkStatement { inputs, outputs, context };
    Ok(ZkVerifier::with(Arc::new(setup), *weights).verify(&statement, proof)?.clone())
}

/// Why weights are not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// Weights of this program cannot be registered.
    #[error("weights of this program cannot be registered")]
    Plan(#[from] PlanError),
    /// The proof does not hold.
    #[error("proof does not hold")]
    Proof(#[from] VerifyError),
}

fn setup(program: &Program, registered: &Registered) -> Result<Setup, PlanError> {
    let about = Arc::new(registered.program.clone());
    let plan = build_pinned(about, registered.pins.clone(), Hidden::default())?;
    Setup::of(plan, Mode::Committed, id(program))?.registering()
}

fn hiding_setup(
    program: &Program,
    registered: &Registered,
    openings: u16,
) -> Result<HidingSetup, PlanError> {
    let about = Arc::new(registered.program.clone());
    let hidden = Hidden { run: true, inputs: false, outputs: false };
    let plan = build_pinned(about, registered.pins.clone(), hidden)?;
    let secrecy = Secrecy { inputs: false, outputs: false, weights: Some(openings) };
    HidingSetup::of(Arc::new(plan), id(program), None, secrecy)
}

/// What the verifier of hiding registrations derives of a program, for any number of proofs.
#[derive(Debug)]
pub(crate) struct Registry {
    setup: HidingSetup,
    outputs: Vec<Tensor>,
}

impl Registry {
    /// The one for a program, if the program that is proven instead passes a test before it is
    /// planned.
    pub(crate) fn new(
        program: &Program,
        is_allowed: impl FnOnce(&Program) -> bool,
        openings_max: u16,
    ) -> Result<Option<Self>, PlanError> {
        let registered = Registered::new(program)?;
        if !is_allowed(&registered.program) {
            return Ok(None);
        }
        let setup = hiding_setup(program, &registered, openings_max)?;
        Ok(Some(Self { setup, outputs: registered.outputs }))
    }

    /// What is derived of the program that is proven instead.
    pub(crate) fn setup(&self) -> &HidingSetup {
        &self.setup
    }

    /// Verifies that the weights behind a commitment fit.
    pub(crate) fn verify(
        &self,
        weights: &HiddenWeights,
        context: Vec<u8>,
        proof: &[u8],
    ) -> Result<Report, RegisterError> {
        let setup = self.setup.for_openings(weights.openings)?;
        let inputs = Tensors::Shown(vec![Vec::new()]);
        let outputs = Tensors::Shown(vec![self.outputs.clone()]);
        let statement = ZkStatement { inputs, outputs, context };
        Ok(ZkVerifier::with(Arc::new(setup), *weights).verify(&statement, proof)?.clone())
    }
}

/// The id that stands for the registration of a program's weights in statements.
fn id(program: &Program) -> ProgramId {
    tagged(REGISTER_TAG, &[program.id().as_bytes()])
}

fn statement(registered: &Registered, context: Vec<u8>) -> Statement {
    Statement { inputs: vec![Vec::new()], outputs: vec![registered.outputs.clone()], context }
}

/// The program about a model's constants, with these. It states no bounds, and ranges are the same.
fn about(program: &Program, model: &Model) -> Model {
    Model::new(program.clone(), model.constants().to_vec()).expect("constants of the same ranges")
}
