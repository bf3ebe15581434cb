//! Results that are shown to be right at once: with a proof, or with the weights.
//!
//! A node that shows what does not pass loses its bond, so it verifies everything itself before,
//! as a validator does. A model is made ready for proofs once, since committing to its weights
//! takes longer than a proof about them.

use super::work::WorkError;
use crate::tensor_run::TensorRun;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tg_proof::court::{self, CourtError, Evidence, Shown, commitment_id, context};
use tg_proof::{Mode, ProveError, Prover};
use tg_tensor::Model;
use tg_types::{Encode as _, Hash32, ResultClaim, ShownBy};

/// Models that are kept ready. A large one takes hundreds of megabytes.
const READY_MAX: usize = 2;

/// Why a result is not shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShowError {
    #[error("program cannot be proven")]
    Prove(#[from] ProveError),
    #[error("job names another commitment to the weights")]
    OtherWeights,
    #[error("package was not made to be shown in this way")]
    OtherTier,
    #[error("what shows the result is too long for a transaction")]
    TooLong,
    #[error("verifying it would cost too much")]
    TooCostly,
    #[error("what shows the result does not pass")]
    Court(#[from] CourtError),
}

/// What shows a result, as a transaction carries it.
#[derive(Clone, Debug)]
pub(crate) struct Proved {
    pub(crate) cost: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Provers of the last models.
#[derive(Default)]
pub(crate) struct Provers {
    // A lock: taken by every run that proves, held while nothing is computed.
    ready: Mutex<VecDeque<([Hash32; 2], Arc<Prover>)>>,
}

impl Provers {
    /// The prover of a model.
    fn of(&self, model: &Arc<Model>) -> Result<Arc<Prover>, ShowError> {
        let id = [model.id(), model.weights_root()];
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let known = ready.iter().find(|(known, _)| *known == id);
        if let Some((_, prover)) = known {
            return Ok(Arc::clone(prover));
        }
        drop(ready);
        let prover = Prover::new(Arc::clone(model), Mode::Committed, 1);
        let prover = Arc::new(prover.map_err(ProveError::from)?);
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.push_back((id, Arc::clone(&prover)));
        while ready.len() > READY_MAX {
            ready.pop_front();
        }
        Ok(prover)
    }
}

/// What shows the result of a run.
pub(crate) fn show(
    provers: &Provers,
    run: &TensorRun,
    claim: &ResultClaim,
    cheats: bool,
) -> Result<Proved, WorkError> {
    let model = run.model();
    let evidence = match claim.by {
        ShownBy::Proof { weights } => {
            let prover = provers.of(model)?;
            let commitment = prover.commitment();
            if commitment_id(commitment.as_ref()) != weights {
                return Err(ShowError::OtherWeights.into());
            }
            let bound = context(&claim.genesis, &claim.job, &claim.node);
            let proven = prover.prove(vec![run.inputs().to_vec()], bound);
            let (_, proof) = proven.map_err(ShowError::from)?;
            Evidence::proof(commitment.as_ref(), proof.to_bytes())
        }
        ShownBy::Rerun => Evidence::rerun(model),
    };
    let evidence = evidence.ok_or(ShowError::TooLong)?;
    let outputs = run.output_tensors()?;
    let shown = Shown::new(run.inputs_secret(), run.inputs(), &outputs, evidence);
    let bytes = shown.ok_or(ShowError::TooLong)?.to_bytes();
    let cost = court::costs(model.program()).by(claim.by).ok_or(ShowError::TooCostly)?;
    if !cheats {
        court::verify(&model.program().to_bytes(), claim, &bytes).map_err(ShowError::from)?;
    }
    Ok(Proved { cost, bytes })
}
