//! Results that are shown to be right at once: with a proof, which may hide data, or the weights.
//!
//! A node that shows what does not pass loses its bond, so it verifies everything itself before,
//! as a validator does. A model is made ready for proofs once, since committing to its weights
//! takes longer than a proof about them.
//!
//! What was sent once is sent again rather than proven again: of a result whose data are hidden, a
//! second proof could show what the first hides.

use super::notes::Proven;
use super::work::WorkError;
use crate::tensor_run::TensorRun;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tg_proof::court::hidden::{self, Committer, HiddenShown};
use tg_proof::court::{self, CourtError, Evidence, Shown, commitment_id, context, secret};
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
    #[error("outputs are not those that were proven before")]
    OtherOutputs,
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
    /// What showed its result before, if anything did.
    pub(crate) before: Option<Proven>,
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
    /// Whether nothing was ever proven.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

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
pub(crate) fn show(provers: &Provers, mut asked: Asked<'_>) -> Result<Proved, WorkError> {
    let program = asked.run.model().program();
    let before = asked.before.take();
    let (claim, bytes, hidden) = match (asked.claim.by, before) {
        (ShownBy::Proof { .. } | ShownBy::Rerun, None) => {
            (asked.claim, open(provers, &asked)?, None)
        }
        (ShownBy::Zk { .. }, None) => {
            let (bytes, output) = hide(provers, &asked)?;
            (ResultClaim { output: output.id, ..asked.claim }, bytes, Some(output))
        }
        (ShownBy::Proof { .. } | ShownBy::Rerun | ShownBy::Zk { .. }, Some(before)) => {
            let hidden = again(&asked, &before)?;
            let bytes = before.shown.as_slice().to_vec();
            (ResultClaim { output: before.output, ..asked.claim }, bytes, hidden)
        }
    };
    let cost = court::costs(program).by(claim.by).ok_or(ShowError::TooCostly)?;
    if !asked.cheats {
        court::verify(&program.to_bytes(), &claim, &bytes).map_err(ShowError::from)?;
    }
    Ok(Proved { cost, bytes, hidden })
}

/// Holds a run against what was shown of it before. The outputs go into a package once more, so
/// they must be those that were proven.
fn again(asked: &Asked<'_>, before: &Proven) -> Result<Option<HiddenOutput>, WorkError> {
    let Asked { run, claim, .. } = asked;
    let (output, hidden) = match claim.by {
        ShownBy::Proof { .. } | ShownBy::Rerun => (claim.output, None),
        ShownBy::Zk { run: number, .. } => {
            let seed = hidden::output_seed(&run.inputs_secret(), number);
            let committer = Committer::new(run.model().program()).map_err(ShowError::from)?;
            let root = committer.output(&run.output_tensors()?, seed).map_err(ShowError::from)?;
            let id = hidden::output_id(&root);
            (id, Some(HiddenOutput { id, seed }))
        }
    };
    if output == before.output { Ok(hidden) } else { Err(ShowError::OtherOutputs.into()) }
}

/// What shows a result whose data are sealed.
fn hide(provers: &Provers, asked: &Asked<'_>) -> Result<(Vec<u8>, HiddenOutput), WorkError> {
    let Asked { run, claim, runs, .. } = asked;
    let ShownBy::Zk { weights, inputs, run: number, is_secret } = claim.by else {
        return Err(ShowError::OtherTier.into());
    };
    let (model, salt) = (run.model(), run.inputs_secret());
    let prover = match (is_secret, run.weights_secret()) {
        (false, None) => provers.hidden.of(model, || hidden::prover(model))?,
        // It is good for this run only: about secret weights no proof is made that is not counted.
        (true, Some(key)) => Arc::new(
            secret::prover(model, &key).map_err(|it| ShowError::from(ProveError::from(it)))?,
        ),
        (false, Some(_)) | (true, None) => return Err(ShowError::OtherTier.into()),
    };
    let commitment = prover.commitment().filter(|known| known.id() == weights);
    let commitment = commitment.ok_or(ShowError::OtherWeights)?;
    let committer = Committer::new(model.program()).map_err(ShowError::from)?;
    let roots = committer.inputs(run.inputs(), &salt, *runs).map_err(ShowError::from)?;
    if hidden::inputs_id(&roots) != inputs {
        return Err(ShowError::OtherInputs.into());
    }
    let bound = context(&claim.genesis, &claim.job, &claim.node);
    let seeds = hidden::seeds(&salt, number);
    let proven = prover.prove(&[run.inputs().to_vec()], &seeds, bound);
    let (_, proof) = proven.map_err(ShowError::from)?;
    let seed = hidden::output_seed(&salt, number);
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

#[cfg(test)]
mod tests {
    use super::{Asked, Proven, Provers, ShowError, show};
    use crate::agent::work::WorkError;
    use crate::tensor_run::{Engine, TensorRun, TensorRunError, trace_salt};
    use tg_gateway::{TensorInputs, WeightsSecret};
    use tg_privacy::WrapSecret;
    use tg_proof::court::hidden::{Committer, inputs_id, prover};
    use tg_proof::court::{commitment_id, secret};
    use tg_tensor::commit::Salt;
    use tg_tensor::program::{
        Input, Label, Operation, Output, Parts, Primitive, Shape, Spec, ValueId,
    };
    use tg_tensor::trace::inputs_root;
    use tg_tensor::{Model, Program, Tensor};
    use tg_types::{
        Bytes, GenesisHash, Hash32, JobId, List, NodeId, ResultClaim, ShownBy, Tier, Work,
    };

    const SECRET: [u8; 32] = [9; 32];
    const RUNS: u8 = 3;

    /// A model that looks its two inputs up.
    fn model() -> Model {
        let label = || Label::lossy("x");
        let shape = || Shape::new(vec![2]).expect("is short");
        let spec = Spec { len: 2, lo: 0, hi: 3 };
        let entries = List::new(vec![3, 1, 0, 2]).expect("few");
        let primitive = Primitive::Table { x: ValueId { number: 0 }, entries };
        let value = ValueId { number: 1 };
        let parts = Parts {
            inputs: vec![Input { label: label(), shape: shape(), spec, scaling: None }],
            operations: vec![Operation { label: label(), spec, primitive }],
            outputs: vec![Output { label: label(), shape: shape(), value, scaling: None }],
            ..Parts::default()
        };
        Model::new(Program::new(parts).expect("a program"), Vec::new()).expect("no weights")
    }

    fn run() -> TensorRun {
        run_with(None, model().weights_root()).expect("runs")
    }

    /// A run of a package whose job names its weights so.
    fn run_with(
        secret: Option<WeightsSecret>,
        weights: Hash32,
    ) -> Result<TensorRun, TensorRunError> {
        let model = model();
        let inputs = vec![Tensor::new(&model.program().inputs()[0].spec, &[0, 3]).expect("fits")];
        let work = Work::Tensor {
            program: model.id(),
            weights,
            inputs: inputs_root(&inputs, &Salt::new(SECRET)),
            salt: trace_salt(&SECRET).mark(),
        };
        let package = TensorInputs {
            salt: SECRET,
            result_to: WrapSecret::from_seed([1; WrapSecret::SEED_BYTES]).public().clone(),
            tier: Tier::ZK,
            model: model.to_bytes(),
            inputs: vec![vec![0, 3]],
            secret,
        };
        TensorRun::new(package, &work, &Engine::Processor)
    }

    /// Goal: a job with secret weights names them by a hash of root and salt, and no other way; and
    /// is not proven as one with public weights, nor the other way round.
    #[test]
    fn secret_weights_are_named_and_proven_as_such() {
        let root = model().weights_root();
        let key = WeightsSecret { seed: [5; 32], proofs: 9 };
        let named = secret::name(&root, &SECRET);
        let other = |run: Result<TensorRun, TensorRunError>| {
            assert!(matches!(run, Err(TensorRunError::OtherWork)), "{run:?}");
        };
        other(run_with(Some(key), root));
        other(run_with(None, named));
        other(run_with(Some(key), secret::name(&root, &[7; 32])));
        let secret_run = run_with(Some(key), named).expect("runs");
        assert_eq!(secret_run.weights_secret().map(|it| (it.seed, it.proofs)), Some(([5; 32], 9)));
        for (run, is_secret) in [(secret_run, false), (run(), true)] {
            let hash = Hash32::new([1; 32]);
            let by = ShownBy::Zk { weights: hash, inputs: hash, run: 0, is_secret };
            let claim = claim(&run, by);
            let asked = Asked { run: &run, claim, runs: RUNS, cheats: false, before: None };
            let refused = show(&Provers::default(), asked);
            assert!(matches!(refused, Err(WorkError::Show(ShowError::OtherTier))), "{is_secret}");
        }
    }

    fn claim(run: &TensorRun, by: ShownBy) -> ResultClaim {
        let (model, subject) = (run.model(), run.subject().expect("a run"));
        ResultClaim {
            genesis: GenesisHash::new([1; 32]),
            job: JobId::new([2; 32]),
            node: NodeId::new([3; 32]),
            program: model.id(),
            weights: model.weights_root(),
            inputs: inputs_root(run.inputs(), &Salt::new(SECRET)),
            output: subject.outputs_root,
            by,
        }
    }

    /// Goal: a node that comes back long after it sent a result shows the same bytes, whatever the
    /// tier, and proves nothing; what it has noted of another run it does not show. Method: noted
    /// bytes with provers that have never been used.
    #[test]
    fn what_was_proven_before_is_shown_again_and_not_proven_again() {
        let run = run();
        let model = run.model();
        let committer = Committer::new(model.program()).expect("provable");
        let roots = committer.inputs(run.inputs(), &SECRET, RUNS).expect("fit");
        let weights = prover(model).expect("provable").commitment().expect("committed").id();
        let ways = [
            ShownBy::Zk { weights, inputs: inputs_id(&roots), run: 1, is_secret: false },
            ShownBy::Proof { weights: commitment_id(None) },
        ];
        for by in ways {
            let claim = claim(&run, by);
            let asked = |before| Asked { run: &run, claim, runs: RUNS, cheats: false, before };
            let first = show(&Provers::default(), asked(None)).expect("proves");
            let output = first.hidden.map_or(claim.output, |hidden| hidden.id);
            let shown = Bytes::new(first.bytes.clone()).expect("short");
            let noted = Proven { output, shown, whole: None };
            let unused = Provers::default();
            let again = show(&unused, asked(Some(noted.clone()))).expect("passes");
            assert_eq!((again.cost, &again.bytes), (first.cost, &first.bytes), "{by:?}");
            let seed = |proved: &super::Proved| proved.hidden.map(|it| (it.id, it.seed));
            assert_eq!(seed(&again), seed(&first), "{by:?}");
            assert!(unused.open.is_empty() && unused.hidden.is_empty(), "{by:?}");

            let other = Proven { output: Hash32::new([7; 32]), ..noted.clone() };
            let refused = show(&unused, asked(Some(other)));
            assert!(matches!(refused, Err(WorkError::Show(ShowError::OtherOutputs))), "{by:?}");
            let mut bytes = first.bytes.clone();
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
            }
            let spoilt = Proven { shown: Bytes::new(bytes).expect("short"), ..noted };
            let refused = show(&unused, asked(Some(spoilt)));
            assert!(matches!(refused, Err(WorkError::Show(ShowError::Court(_)))), "{by:?}");
        }
    }
}
