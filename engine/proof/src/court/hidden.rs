//! Results of sealed data: commitments to inputs and outputs, and a proof that shows neither.
//!
//! The client commits to its inputs once for every run that the job may have, because a second
//! proof about one commitment would show more than it hides. All randomness of a job follows from
//! one secret in its package, so a provider that proves the same run again uses the same. The seed
//! of the outputs goes back with them: whoever opens the result finds the commitment again.

use super::plans::Plans;
use super::{CourtError, Verified, context, is_small, proof_cost, size};
use crate::error::VerifyError;
use crate::hiding::{
    HiddenWeights, HidingRoot, HidingSetup, Secrecy, Seed, Tensors, WeightsKey, ZkProver, ZkSeeds,
    ZkStatement, ZkVerifier,
};
use crate::plan::PlanError;
use std::sync::Arc;
use tg_tensor::program::Program;
use tg_tensor::{Model, Tensor};
use tg_types::hash::{Tag, tagged};
use tg_types::params::RUNS_FAILED_MAX;
use tg_types::tx::SHOWN_BYTES_MAX;
use tg_types::{Bytes, Decode as _, Hash32, List, ResultClaim, wire};

const SEED_TAG: Tag = Tag::new("tensorgrid/hidden-job-seed");
const INPUTS_TAG: Tag = Tag::new("tensorgrid/hidden-job-inputs");
const OUTPUT_TAG: Tag = Tag::new("tensorgrid/hidden-job-output");

/// The most runs of a job: as many as the parameters of a network may let fail, and one.
pub const RUNS_MAX: usize = RUNS_FAILED_MAX as usize + 1;

/// Microseconds to verify one of the four openings: run, inputs, weights, outputs.
pub(super) const OPENING_COST: u64 = 16_000;

/// What statements of jobs show: neither inputs nor outputs.
const SECRECY: Secrecy = Secrecy { inputs: true, outputs: true, weights: Some(0) };

wire! {
    /// What shows a result without its numbers.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HiddenShown {
        /// The commitment to the weights.
        pub weights: [u8; 34],
        /// The commitments to the inputs, one for each run that the job may have.
        pub inputs: List<Hash32, 1, RUNS_MAX>,
        /// The commitment to the outputs.
        pub output: Hash32,
        /// The proof.
        pub proof: Bytes<SHOWN_BYTES_MAX>,
    }
}

/// The id of the commitments to the inputs in a job.
#[must_use]
pub fn inputs_id(roots: &[Hash32]) -> Hash32 {
    let roots: Vec<&[u8]> = roots.iter().map(|root| root.as_bytes().as_slice()).collect();
    tagged(INPUTS_TAG, &roots)
}

/// The seed of the commitment to the outputs of a run, counted from 0, from the job's secret.
#[must_use]
pub fn output_seed(secret: &[u8; 32], run: u8) -> [u8; 32] {
    seed(secret, run, b"outputs")
}

fn seed(secret: &[u8; 32], run: u8, of: &[u8]) -> [u8; 32] {
    *tagged(SEED_TAG, &[secret, &[run], of]).as_bytes()
}

/// All seeds of the proof of a run.
#[must_use]
pub fn seeds(secret: &[u8; 32], run: u8) -> ZkSeeds {
    let of = |part: &[u8]| Seed::new(seed(secret, run, part));
    ZkSeeds { inputs: of(b"inputs"), outputs: of(b"outputs"), proof: of(b"proof") }
}

/// A prover of a model whose weights anybody may have.
///
/// # Errors
/// If runs of it cannot be proven without their numbers.
pub fn prover(model: &Arc<Model>) -> Result<ZkProver, PlanError> {
    let shown = crate::hiding::Shown { inputs: false, outputs: false };
    ZkProver::new(Arc::clone(model), 1, shown, Some(WeightsKey::known()))
}

/// Commits to inputs and outputs of a program, as its owner, provider and judges do.
#[derive(Debug)]
pub struct Committer(Arc<HidingSetup>);

impl Committer {
    /// One for a program.
    ///
    /// # Errors
    /// If runs of it cannot be proven without their numbers.
    pub fn new(program: &Program) -> Result<Self, CourtError> {
        Self::planned(&Plans::default(), program)
    }

    /// The same, with plans that are remembered.
    pub(super) fn planned(
        plans: &Plans<HidingSetup>,
        program: &Program,
    ) -> Result<Self, CourtError> {
        if !is_small(program) {
            return Err(CourtError::TooLarge);
        }
        let make = || HidingSetup::new(&Arc::new(program.clone()), None, 1, SECRECY);
        Ok(Self(plans.get(program, make)?))
    }

    /// The commitments to inputs for so many runs of a job with this secret.
    ///
    /// # Errors
    /// If the inputs do not fit the program.
    pub fn inputs(
        &self,
        inputs: &[Tensor],
        secret: &[u8; 32],
        runs: u8,
    ) -> Result<Vec<Hash32>, CourtError> {
        let root = |run: u8| {
            let sealed = self.0.seal_inputs(&[inputs.to_vec()], &seeds(secret, run).inputs)?;
            let sealed = sealed.ok_or(VerifyError::Secrecy)?;
            Ok(Hash32::new(HidingRoot::of(&sealed.root).to_bytes()))
        };
        (0..runs).map(root).collect()
    }

    /// The commitment to outputs.
    ///
    /// # Errors
    /// If the outputs do not fit the program.
    pub fn output(&self, outputs: &[Tensor], seed: [u8; 32]) -> Result<Hash32, CourtError> {
        let sealed = self.0.seal_outputs(&[outputs.to_vec()], &Seed::new(seed))?;
        let sealed = sealed.ok_or(VerifyError::Secrecy)?;
        Ok(Hash32::new(HidingRoot::of(&sealed.root).to_bytes()))
    }

    /// What verifying takes at most, in microseconds: as a proof that hides nothing, and openings.
    pub(super) fn cost(&self, program: &Program) -> u64 {
        let openings = self.0.owned.len() as u64 + 1;
        proof_cost(1 << self.0.plan.leaf_bits, size(program)) + openings * OPENING_COST
    }
}

/// How a result names the commitment to its outputs.
#[must_use]
pub fn output_id(root: &Hash32) -> Hash32 {
    tagged(OUTPUT_TAG, &[root.as_bytes()])
}

/// What a result of this kind claims beside program and names.
pub(super) struct Claimed<'a> {
    pub(super) claim: &'a ResultClaim,
    pub(super) weights: Hash32,
    pub(super) inputs: Hash32,
    pub(super) run: u8,
    /// Whether the weights are registered.
    pub(super) is_secret: bool,
}

/// Verifies a result that is shown without its numbers.
pub(super) fn verify(
    plans: &Plans<HidingSetup>,
    program: &Program,
    claimed: &Claimed<'_>,
    shown: &[u8],
) -> Result<Verified, CourtError> {
    let Claimed { claim, .. } = claimed;
    let shown = HiddenShown::from_bytes(shown)?;
    let weights = HiddenWeights::from_bytes(&shown.weights).ok_or(VerifyError::Bytes)?;
    // Of weights that nobody could commit to again, only a registration tells that they fit.
    if (weights.openings() != 0) != claimed.is_secret || weights.id() != claimed.weights {
        return Err(CourtError::Other("commitments to weights"));
    }
    let roots = shown.inputs.as_slice();
    if inputs_id(roots) != claimed.inputs {
        return Err(CourtError::Other("commitments to inputs"));
    }
    let root = roots.get(usize::from(claimed.run)).ok_or(CourtError::Other("runs"))?;
    if output_id(&shown.output) != claim.output {
        return Err(CourtError::Other("outputs"));
    }
    let root_of = |hash: &Hash32| {
        let root = HidingRoot::from_bytes(hash.as_bytes()).ok_or(VerifyError::Bytes)?;
        Ok::<_, CourtError>(Tensors::Committed(root))
    };
    let statement = ZkStatement {
        inputs: root_of(root)?,
        outputs: root_of(&shown.output)?,
        context: context(&claim.genesis, &claim.job, &claim.node),
    };
    let setup = Committer::planned(plans, program)?.0;
    let setup = match weights.openings() {
        0 => setup,
        openings => Arc::new(setup.for_openings(openings)?),
    };
    let verifier = ZkVerifier::with(setup, weights);
    let report = Some(verifier.verify(&statement, shown.proof.as_slice())?.clone());
    Ok(Verified { inputs: Vec::new(), outputs: Vec::new(), report })
}
