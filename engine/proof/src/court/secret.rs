//! Weights that only their owner has: how validators come to trust a commitment to them, and how
//! providers prove about it.
//!
//! A commitment hides weights for a number of proofs, of which the registration is the first. All
//! randomness follows from the owner's seed and from what is proven, so whoever registers or proves
//! the same again sends the same bytes, and shows nothing more.

use super::plans::Plans;
use super::{CourtError, hidden, is_small, proof_cost, size};
use crate::error::{ProveError, VerifyError};
use crate::hiding::{HiddenWeights, Seed, WeightsKey, ZkProver};
use crate::plan::PlanError;
use crate::register::{self, Registry};
use crate::security::Report;
use std::sync::Arc;
use tg_tensor::Model;
use tg_tensor::program::Program;
use tg_types::hash::{Tag, tagged};
use tg_types::weights::WEIGHTS_PROOFS_MAX;
use tg_types::{AccountId, GenesisHash, Hash32, RegistrationClaim, SecretWeights};

const NAME_TAG: Tag = Tag::new("tensorgrid/secret-weights-name");
const REGISTER_TAG: Tag = Tag::new("tensorgrid/secret-weights-register");

/// What makes the commitment to secret weights.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretKey {
    /// 32 bytes from the system's generator, known to the owner and to providers of its jobs.
    pub seed: [u8; 32],
    /// How many proofs may be made, the registration included.
    pub proofs: u16,
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretKey").field("proofs", &self.proofs).finish_non_exhaustive()
    }
}

impl SecretKey {
    /// With this key one proof can be made. Whoever counts all of them is somewhere else.
    fn once(&self) -> WeightsKey {
        let used = self.proofs.saturating_sub(1);
        WeightsKey::new(Seed::new(self.seed), self.proofs, used)
    }
}

/// How a job names secret weights: by their root and the secret of the job's package, so that a
/// reader can neither try guesses nor tell that two jobs have the same.
#[must_use]
pub fn name(weights_root: &Hash32, secret: &[u8; 32]) -> Hash32 {
    tagged(NAME_TAG, &[weights_root.as_bytes(), secret])
}

/// What a registration is bound to.
#[must_use]
pub fn context(genesis: &GenesisHash, owner: &AccountId) -> Vec<u8> {
    [genesis.as_bytes().as_slice(), owner.as_bytes()].concat()
}

/// A prover of one run of a model with secret weights, which shows neither inputs nor outputs.
///
/// # Errors
/// If runs of it cannot be proven without their numbers.
pub fn prover(model: &Arc<Model>, key: &SecretKey) -> Result<ZkProver, PlanError> {
    let shown = crate::hiding::Shown { inputs: false, outputs: false };
    ZkProver::new(Arc::clone(model), 1, shown, Some(key.once()))
}

/// The commitment to a model's weights.
///
/// # Errors
/// If runs of it cannot be proven without their numbers, or it has no weights.
pub fn commit(model: &Arc<Model>, key: &SecretKey) -> Result<SecretWeights, PlanError> {
    let commitment = prover(model, key)?.commitment().ok_or(PlanError::NoWeights)?;
    Ok(commitment.named())
}

/// Proves that a model's weights fit its program. Proven again in the same context, it is the same
/// proof.
///
/// # Errors
/// If weights of the program cannot be registered.
pub fn register(
    model: &Model,
    key: &SecretKey,
    context: Vec<u8>,
) -> Result<(SecretWeights, Vec<u8>), ProveError> {
    let seed = Seed::new(*tagged(REGISTER_TAG, &[&key.seed, &context]).as_bytes());
    let (weights, proof) = register::prove_hiding(model, key.once(), &seed, context)?;
    Ok((weights.named(), proof.to_bytes()))
}

/// Verifies that secret weights fit a program. Takes no longer than [`super::costs`] says.
///
/// # Errors
/// If it is not shown.
pub fn verify(
    program: &[u8],
    claim: &RegistrationClaim,
    proof: &[u8],
) -> Result<Report, CourtError> {
    verify_with(&Plans::default(), program, claim, proof)
}

pub(super) fn verify_with(
    plans: &Plans<Registry>,
    program: &[u8],
    claim: &RegistrationClaim,
    proof: &[u8],
) -> Result<Report, CourtError> {
    let program = Program::from_bytes(program)?;
    if program.id() != claim.program {
        return Err(CourtError::Other("programs"));
    }
    if !claim.weights.is_countable() {
        return Err(CourtError::Count(claim.weights.proofs));
    }
    let weights = HiddenWeights::of_named(&claim.weights).ok_or(VerifyError::Bytes)?;
    let registry = registry(plans, &program)?;
    Ok(registry.verify(&weights, context(&claim.genesis, &claim.owner), proof)?)
}

/// What registrations of a program's weights are verified with, if neither program is too large.
pub(super) fn registry(
    plans: &Plans<Registry>,
    program: &Program,
) -> Result<Arc<Registry>, CourtError> {
    if !is_small(program) {
        return Err(CourtError::TooLarge);
    }
    let make = || {
        let found = Registry::new(program, is_small, WEIGHTS_PROOFS_MAX)?;
        found.ok_or(PlanError::LargeRegistration)
    };
    Ok(plans.get(program, make)?)
}

/// What verifying a registration takes at most, in microseconds.
pub(super) fn cost(registry: &Registry) -> u64 {
    let setup = registry.setup();
    let openings = setup.owned.len() as u64 + 1;
    let numbers = proof_cost(1 << setup.plan.leaf_bits, size(&setup.plan.program));
    numbers + openings * hidden::OPENING_COST
}
