//! `prove --hide`: a proof with commitments in place of data, and of weights if they are secret.

use crate::{
    args::Hide,
    failure::{Failure, OrFail as _},
    files,
    secrets::{Kept, Secrets},
};
use std::{path::Path, sync::Arc, time::Instant};
use tg_proof::court::hidden::{self, Committer, HiddenShown};
use tg_proof::court::{context, secret};
use tg_proof::{HidingRoot, Tensors};
use tg_tensor::commit::Salt;
use tg_tensor::trace::inputs_root;
use tg_tensor::{Model, Tensor};
use tg_types::{
    Bytes, Encode as _, GenesisHash, Hash32, JobId, List, NodeId, ResultClaim, ShownBy,
};

/// A run that was proven without showing its data.
pub(super) struct Hidden {
    pub(super) claim: ResultClaim,
    pub(super) shown: Vec<u8>,
    pub(super) weights: Hash32,
    pub(super) setup_ms: f64,
    pub(super) prove_ms: f64,
    pub(super) proof_bytes: usize,
    /// How many proofs about secret weights are left.
    pub(super) left: Option<u16>,
}

/// The key of the weights, if they are to be hidden, after this proof was counted.
fn counted(keys: &Path, model: &Model, hide: Hide) -> Result<Option<(Kept, u16)>, Failure> {
    match hide {
        Hide::Data => Ok(None),
        Hide::All => Secrets::new(keys).change(model, Kept::count).map(Some),
    }
}

/// Proves a run for no network, job or provider.
pub(super) fn prove(
    keys: &Path,
    model: &Arc<Model>,
    inputs: &[Tensor],
    hide: Hide,
) -> Result<Hidden, Failure> {
    let (what, hint) = ("the run cannot be proven without its data", super::HINT);
    let started = Instant::now();
    let committer = Committer::new(model.program()).or_fail(what, hint)?;
    let salt: [u8; 32] = files::random().or_fail("there are no random numbers", "try again")?;
    let roots = committer.inputs(inputs, &salt, 1).or_fail(what, hint)?;
    let kept = counted(keys, model, hide)?;
    let prover = match &kept {
        Some((kept, _)) => secret::prover(model, &kept.key()),
        None => hidden::prover(model),
    };
    let prover = prover.or_fail(what, hint)?;
    let setup_ms = super::ms(started);
    let commitment = prover.commitment().ok_or_else(|| Failure::new(what, hint))?;
    let (genesis, job, node) =
        (GenesisHash::new([0; 32]), JobId::new([0; 32]), NodeId::new([0; 32]));
    let started = Instant::now();
    let bound = context(&genesis, &job, &node);
    let proven = prover.prove(&[inputs.to_vec()], &hidden::seeds(&salt, 0), bound);
    let (statement, proof) = proven.or_fail(what, hint)?;
    let prove_ms = super::ms(started);
    let Tensors::Committed(output) = statement.outputs else {
        return Err(Failure::new(what, hint));
    };
    let output = Hash32::new(HidingRoot::to_bytes(&output));
    let (root, is_secret) = (model.weights_root(), kept.is_some());
    let claim = ResultClaim {
        genesis,
        job,
        node,
        program: model.id(),
        weights: if is_secret { secret::name(&root, &salt) } else { root },
        inputs: inputs_root(inputs, &Salt::new(salt)),
        output: hidden::output_id(&output),
        by: ShownBy::Zk {
            weights: commitment.id(),
            inputs: hidden::inputs_id(&roots),
            run: 0,
            is_secret,
        },
    };
    let long = || Failure::new("the proof is too long for a file", "prove a smaller model");
    let proof = proof.to_bytes();
    let proof_bytes = proof.len();
    let shown = HiddenShown {
        weights: commitment.to_bytes(),
        inputs: List::new(roots).map_err(|_| long())?,
        output,
        proof: Bytes::new(proof).map_err(|_| long())?,
    };
    let (shown, weights) = (shown.to_bytes(), commitment.id());
    let left = kept.map(|(_, left)| left);
    Ok(Hidden { claim, shown, weights, setup_ms, prove_ms, proof_bytes, left })
}
