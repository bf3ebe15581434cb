//! Results that are shown to be right at once: with a proof, which may hide data, or the weights.
//!
//! A node that shows what does not pass loses its bond, so it verifies everything itself before,
//! as a validator does. A model is made ready for proofs once, since committing to its weights
//! takes longer than a proof about them.

use super::work::WorkError;
use crate::tensor_run::TensorRun;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tg_proof::court::hidden::{self, Committer, HiddenShown};
use tg_proof::court::{self, CourtError, Evidence, Shown, commitment_id, context};
use tg_proof::{Mode, PlanError, ProveError, Prover, ZkProver};
use tg_tensor::Model;
use tg_types::{Bytes, Encode as _, Hash32, List, ResultClaim, ShownBy};

/// Models that are kept ready for each kind of proof. A large one takes hundreds of megabytes.
const READY_MAX: usize = 2;

/// Why a result is not shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShowError {
    #[error("program cannot be proven")]
    Prove(#[from] ProveError),
    #[error("job names another commitment to the weights")]
    OtherWeights,
    #[error("job names other commitments to the inputs")]
    OtherInputs,
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
    /// What the outputs are committed to with, if they are not shown.
    pub(crate) hidden: Option<HiddenOutput>,
}

/// How a result names outputs that are not shown, and what the client needs to find that again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HiddenOutput {
    pub(crate) id: Hash32,
    pub(crate) seed: [u8; 32],
}

/// What of a run is asked to be shown.
pub(crate) struct Asked<'a> {
    pub(crate) run: &'a TensorRun,
    pub(crate) claim: ResultClaim,
    /// How many runs the job may have.
    pub(crate) runs: u8,
    /// Whether the run is a lie, which no honest node would show.
    pub(crate) cheats: bool,
}

/// Provers of the last models.
#[derive(Default)]
pub(crate) struct Provers {
    open: Ready<Prover>,
    hidden: Ready<ZkProver>,
}

/// Provers of one kind.
struct Ready<P> {
    // A lock: taken by every run that proves, held while nothing is computed.
    last: Mutex<VecDeque<([Hash32; 2], Arc<P>)>>,
}

impl<P> Default for Ready<P> {
    fn default() -> Self {
        Self { last: Mutex::default() }
    }
}

impl<P> Ready<P> {
    /// The prover of a model; makes one if there is none.
    fn of(
        &self,
        model: &Arc<Model>,
        make: impl FnOnce() -> Result<P, PlanError>,
    ) -> Result<Arc<P>, ShowError> {
        let id = [model.id(), model.weights_root()];
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.iter().find(|(known, _)| *known == id);
        if let Some((_, prover)) = known {
            return Ok(Arc::clone(prover));
        }
        drop(last);
        let prover = Arc::new(make().map_err(ProveError::from)?);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.push_back((id, Arc::clone(&prover)));
        while last.len() > READY_MAX {
            last.pop_front();
        }
        Ok(prover)
    }
}

/// What shows the result of a run.
pub(crate) fn show(provers: &Provers, asked: &Asked<'_>) -> Result<Proved, WorkError> {
    let program = asked.run.model().program();
    let (claim, bytes, hidden) = match asked.claim.by {
        ShownBy::Proof { .. } | ShownBy::Rerun => (asked.claim, open(provers, asked)?, None),
        ShownBy::Zk { .. } => {
            let (bytes, output) = hide(provers, asked)?;
            (ResultClaim { output: output.id, ..asked.claim }, bytes, Some(output))
        }
    };
    let cost = court::costs(program).by(claim.by).ok_or(ShowError::TooCostly)?;
    if !asked.cheats {
        court::verify(&program.to_bytes(), &claim, &bytes).map_err(ShowError::from)?;
    }
    Ok(Proved { cost, bytes, hidden })
}

/// What shows a result whose data are sealed.
fn hide(provers: &Provers, asked: &Asked<'_>) -> Result<(Vec<u8>, HiddenOutput), WorkError> {
    let Asked { run, claim, runs, .. } = asked;
    let ShownBy::Zk { weights, inputs, run: number } = claim.by else {
        return Err(ShowError::OtherTier.into());
    };
    let (model, secret) = (run.model(), run.inputs_secret());
    let prover = provers.hidden.of(model, || hidden::prover(model))?;
    let commitment = prover.commitment().filter(|known| known.id() == weights);
    let commitment = commitment.ok_or(ShowError::OtherWeights)?;
    let committer = Committer::new(model.program()).map_err(ShowError::from)?;
    let roots = committer.inputs(run.inputs(), &secret, *runs).map_err(ShowError::from)?;
    if hidden::inputs_id(&roots) != inputs {
        return Err(ShowError::OtherInputs.into());
    }
    let bound = context(&claim.genesis, &claim.job, &claim.node);
    let seeds = hidden::seeds(&secret, number);
    let proven = prover.prove(&[run.inputs().to_vec()], &seeds, bound);
    let (_, proof) = proven.map_err(ShowError::from)?;
    let seed = hidden::output_seed(&secret, number);
    // Of the run that is handed in, not of the one that was proven: liars have two.
    let output = committer.output(&run.output_tensors()?, seed).map_err(ShowError::from)?;
    let shown = HiddenShown {
        weights: commitment.to_bytes(),
        inputs: List::new(roots).map_err(|_| ShowError::TooLong)?,
        output,
        proof: Bytes::new(proof.to_bytes()).map_err(|_| ShowError::TooLong)?,
    };
    let bytes = shown.to_bytes();
    if bytes.len() > claim.by.bytes_max() {
        return Err(ShowError::TooLong.into());
    }
    Ok((bytes, HiddenOutput { id: hidden::output_id(&output), seed }))
}

/// What shows a result whose data are public.
fn open(provers: &Provers, asked: &Asked<'_>) -> Result<Vec<u8>, WorkError> {
    let Asked { run, claim, .. } = asked;
    let model = run.model();
    let evidence = match claim.by {
        ShownBy::Zk { .. } => return Err(ShowError::OtherTier.into()),
        ShownBy::Proof { weights } => {
            let new = || Prover::new(Arc::clone(model), Mode::Committed, 1);
            let prover = provers.open.of(model, new)?;
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
    if bytes.len() > claim.by.bytes_max() {
        return Err(ShowError::TooLong.into());
    }
    Ok(bytes)
}
