//! Results of jobs as validators verify them: by a proof, or by running the program.
//!
//! A job names roots and ids only, so whatever shows a result brings inputs, outputs and the
//! commitment to the weights along, and here they are held against these names first; of sealed
//! data it brings commitments only ([`hidden`]). A proof is bound to network, job and provider.
//! What verifying costs follows from the program alone; a program whose proofs would take longer
//! than that is none that can be proven here.

pub mod hidden;
pub mod secret;

mod plans;

use crate::error::VerifyError;
use crate::hiding::HidingSetup;
use crate::plan::{PLANNING_STEPS_MAX, PlanError, steps};
use crate::register::{RegisterError, Registry};
use crate::security::Report;
use crate::setup::{Setup, WeightsCommitment};
use crate::statement::Statement;
use crate::verify::Verifier;
use plans::Plans;
#[cfg(test)]
pub(crate) use plans::{KEPT_STEPS_MAX, weight};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use tg_tensor::commit::Salt;
use tg_tensor::program::{Operation, Place, Primitive, Program, ProgramError, Spec, ValueId};
use tg_tensor::trace::{inputs_root, outputs_root};
use tg_tensor::{MAGIC, Model, ModelError, Options, RunError, Runner, Tensor, TensorError};
use tg_types::hash::sha256;
use tg_types::tx::SHOWN_OPENLY_BYTES_MAX;
use tg_types::{
    Bytes, Decode as _, DecodeError, Encode as _, GenesisHash, Hash32, JobId, NodeId,
    RegistrationClaim, ResultClaim, ResultVerifier, ShownBy, VerifyCosts, wire,
};

/// Verdicts that are remembered: a block is executed several times, by its proposer and for every
/// candidate of its height, but what it shows is verified once.
pub(crate) const REMEMBERED_MAX: usize = 1_024;

/// Elements and reads of a program up to which its costs are looked at more closely, which takes
/// time of a block too. Larger ones are beyond what a block has time for.
const SIZE_MAX: u64 = 1 << 20;
/// Operations of a program up to which its costs are looked at more closely.
const OPERATIONS_MAX: usize = 512;
/// Candidates of all its maxima together: each needs a look-up and a third of a column of its own.
const CANDIDATES_MAX: u64 = 1_024;

/// How often a verifier goes through what stands beside a divisor.
const DIVISOR_READS: u64 = 16;

/// What is shown besides numbers, weights and proof: salt, commitment, lengths. All but this much
/// of what a transaction may show is theirs.
const FRAME_BYTES: usize = 128;

/// No proof is shorter: a job whose numbers leave less room could never be done.
const PROOF_BYTES_MIN: usize = 32 << 10;

wire! {
    /// What shows a result.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Shown {
        /// The salt of the inputs.
        pub salt: [u8; 32],
        /// All inputs, then all outputs, in the program's order; it says how long each is.
        pub numbers: Bytes<SHOWN_OPENLY_BYTES_MAX>,
        /// What shows that these inputs give these outputs.
        pub evidence: Evidence,
    }
}

wire! {
    /// What shows that inputs give outputs.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Evidence {
        /// A proof about committed weights.
        Proof {
            /// The commitment to the weights; empty if there are none.
            commitment: Bytes<64>,
            /// The proof.
            proof: Bytes<SHOWN_OPENLY_BYTES_MAX>,
        } = 1,
        /// The weights themselves.
        Rerun {
            /// All constants, in the program's order.
            weights: Bytes<SHOWN_OPENLY_BYTES_MAX>,
        } = 2,
    }
}

/// Why something does not show a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CourtError {
    /// The program cannot be read.
    #[error("program cannot be read")]
    Program(#[from] ProgramError),
    /// The bytes are not of the canonical form.
    #[error("what is shown cannot be read")]
    Decode(#[from] DecodeError),
    /// There are more or fewer numbers than inputs and outputs have.
    #[error("{found} bytes of numbers, the program has {expected}")]
    Length {
        /// How many there are.
        found: usize,
        /// How many inputs and outputs take.
        expected: usize,
    },
    /// A number is out of its range.
    #[error("an input or output is out of its range")]
    Tensor(#[from] TensorError),
    /// What is shown is not what the job or the result names.
    #[error("the {0} shown are not those that were named")]
    Other(&'static str),
    /// A proof where the weights were expected, or the other way round.
    #[error("the result is shown in another way than the job asks for")]
    Way,
    /// The program cannot be proven.
    #[error("program cannot be proven")]
    Plan(#[from] PlanError),
    /// The program can be proven, but verifying takes too long.
    #[error("proofs of this program take too long to verify")]
    TooLarge,
    /// The proof does not hold.
    #[error("proof does not hold")]
    Proof(#[from] VerifyError),
    /// The weights do not fit the program.
    #[error("weights do not fit the program")]
    Weights(#[from] ModelError),
    /// It is not shown that secret weights fit the program.
    #[error("secret weights are not shown to fit the program")]
    Registration(#[from] RegisterError),
    /// A commitment to secret weights is for too few or too many proofs.
    #[error("a commitment for {0} proofs is not counted")]
    Count(u16),
    /// The program does not run.
    #[error("program does not run")]
    Run(#[from] RunError),
}

/// A result that was verified.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The inputs, if they are public.
    pub inputs: Vec<Tensor>,
    /// The outputs, if they are.
    pub outputs: Vec<Tensor>,
    /// The soundness of the proof; absent if the program was run.
    pub report: Option<Report>,
}

/// What a proof for a job is bound to besides its statement.
#[must_use]
pub fn context(genesis: &GenesisHash, job: &JobId, node: &NodeId) -> Vec<u8> {
    [genesis.as_bytes().as_slice(), job.as_bytes(), node.as_bytes()].concat()
}

/// The id of a commitment in a job; zeros if there are no weights to commit to.
#[must_use]
pub fn commitment_id(commitment: Option<&WeightsCommitment>) -> Hash32 {
    commitment.map_or(Hash32::new([0; 32]), WeightsCommitment::id)
}

impl Shown {
    /// Puts together what shows a result; `None` if it is longer than may be shown.
    #[must_use]
    pub fn new(
        salt: [u8; 32],
        inputs: &[Tensor],
        outputs: &[Tensor],
        evidence: Evidence,
    ) -> Option<Self> {
        let numbers = Bytes::new(bytes_of(inputs.iter().chain(outputs))).ok()?;
        Some(Self { salt, numbers, evidence })
    }
}

impl Evidence {
    /// A proof; `None` if it is longer than may be shown.
    #[must_use]
    pub fn proof(commitment: Option<&WeightsCommitment>, proof: Vec<u8>) -> Option<Self> {
        let commitment = commitment.map(WeightsCommitment::to_bytes).unwrap_or_default();
        Some(Self::Proof {
            commitment: Bytes::new(commitment).ok()?,
            proof: Bytes::new(proof).ok()?,
        })
    }

    /// The weights of a model; `None` if they are longer than may be shown.
    #[must_use]
    pub fn rerun(model: &Model) -> Option<Self> {
        Some(Self::Rerun { weights: Bytes::new(bytes_of(model.constants().iter())).ok()? })
    }
}

fn bytes_of<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for tensor in tensors {
        tensor.append_bytes(0..tensor.len(), &mut bytes);
    }
    bytes
}

/// Verifies a result. Takes no longer than [`costs`] says.
///
/// # Errors
/// If it is not shown to be right.
pub fn verify(program: &[u8], claim: &ResultClaim, shown: &[u8]) -> Result<Verified, CourtError> {
    verify_with(&Planned::default(), program, claim, shown)
}

fn verify_with(
    planned: &Planned,
    program: &[u8],
    claim: &ResultClaim,
    shown: &[u8],
) -> Result<Verified, CourtError> {
    let program = Program::from_bytes(program)?;
    if program.id() != claim.program {
        return Err(CourtError::Other("programs"));
    }
    if let ShownBy::Zk { weights, inputs, run, is_secret } = claim.by {
        let claimed = hidden::Claimed { claim, weights, inputs, run, is_secret };
        return hidden::verify(&planned.hidden, &program, &claimed, shown);
    }
    let shown = Shown::from_bytes(shown)?;
    let (inputs, outputs) = numbers(&program, shown.numbers.as_slice())?;
    if inputs_root(&inputs, &Salt::new(shown.salt)) != claim.inputs {
        return Err(CourtError::Other("inputs"));
    }
    if outputs_root(outputs.iter()) != claim.output {
        return Err(CourtError::Other("outputs"));
    }
    match (&shown.evidence, claim.by) {
        (Evidence::Proof { commitment, proof }, ShownBy::Proof { weights }) => {
            let commitment = match commitment.as_slice() {
                [] => None,
                bytes => Some(WeightsCommitment::from_bytes(bytes).ok_or(VerifyError::Bytes)?),
            };
            if commitment_id(commitment.as_ref()) != weights {
                return Err(CourtError::Other("commitments to weights"));
            }
            let context = context(&claim.genesis, &claim.job, &claim.node);
            let statement =
                Statement { inputs: vec![inputs.clone()], outputs: vec![outputs.clone()], context };
            let verifier = Verifier::with(bounded(&planned.open, &program)?, commitment);
            let report = Some(verifier.verify(&statement, proof.as_slice())?.clone());
            Ok(Verified { inputs, outputs, report })
        }
        (Evidence::Rerun { weights }, ShownBy::Rerun) => {
            let made = rerun(&program, &claim.weights, weights.as_slice(), &inputs)?;
            if made != outputs {
                return Err(CourtError::Other("outputs"));
            }
            Ok(Verified { inputs, outputs, report: None })
        }
        (Evidence::Proof { .. }, ShownBy::Rerun | ShownBy::Zk { .. })
        | (Evidence::Rerun { .. }, ShownBy::Proof { .. } | ShownBy::Zk { .. }) => {
            Err(CourtError::Way)
        }
    }
}

/// Bytes of a value's numbers.
fn length(spec: &Spec) -> usize {
    spec.elements().saturating_mul(spec.width().bytes())
}

/// Bytes of all inputs and outputs of a program.
fn numbers_bytes(program: &Program) -> usize {
    let given = program.inputs().iter().map(|input| length(&input.spec));
    let made = program.outputs().iter().filter_map(|output| program.spec(output.value));
    given.chain(made.map(|spec| length(&spec))).fold(0, usize::saturating_add)
}

/// Reads inputs and outputs.
fn numbers(program: &Program, bytes: &[u8]) -> Result<(Vec<Tensor>, Vec<Tensor>), CourtError> {
    let given: Vec<Spec> = program.inputs().iter().map(|input| input.spec).collect();
    let made: Vec<Spec> =
        program.outputs().iter().filter_map(|output| program.spec(output.value)).collect();
    let (found, expected) = (bytes.len(), numbers_bytes(program));
    if found != expected {
        return Err(CourtError::Length { found, expected });
    }
    let mut rest = bytes;
    let mut read = |specs: &[Spec]| -> Result<Vec<Tensor>, CourtError> {
        let mut tensors = Vec::new();
        for spec in specs {
            let (part, behind) = rest.split_at(length(spec).min(rest.len()));
            rest = behind;
            tensors.push(Tensor::from_bytes(spec, part)?);
        }
        Ok(tensors)
    };
    Ok((read(&given)?, read(&made)?))
}

/// What is derived of a program that is not too large, for one inference with committed weights.
fn bounded(plans: &Plans<Setup>, program: &Program) -> Result<Arc<Setup>, CourtError> {
    if !is_small(program) {
        return Err(CourtError::TooLarge);
    }
    Ok(plans.get(program, || Setup::new(&Arc::new(program.clone()), None, 1))?)
}

fn rerun(
    program: &Program,
    root: &Hash32,
    weights: &[u8],
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, CourtError> {
    if !is_small(program) {
        return Err(CourtError::TooLarge);
    }
    let model = Model::from_bytes(&[&MAGIC, program.to_bytes().as_slice(), weights].concat())?;
    if model.weights_root() != *root {
        return Err(CourtError::Other("weights"));
    }
    Ok(Runner::new(model, Options { threads: 1, path: None }).run(inputs)?)
}

/// What verifying results of a program takes.
#[must_use]
pub fn costs(program: &Program) -> VerifyCosts {
    costs_with(&Planned::default(), program)
}

fn costs_with(planned: &Planned, program: &Program) -> VerifyCosts {
    if !is_small(program) {
        return VerifyCosts::NONE;
    }
    let room =
        SHOWN_OPENLY_BYTES_MAX.checked_sub(numbers_bytes(program).saturating_add(FRAME_BYTES));
    // A program whose results cannot be shown is not planned.
    let is_showable = room >= Some(PROOF_BYTES_MIN);
    let setup = is_showable.then(|| bounded(&planned.open, program).ok()).flatten();
    let proof = setup.map(|setup| proof_cost(setup.leaves(), size(program)));
    let weights = program.constants().iter();
    let bytes = weights.map(|constant| length(&constant.spec));
    let bytes: usize = bytes.fold(0, usize::saturating_add);
    let fits = Some(bytes) <= room;
    let rerun = fits.then(|| rerun_cost(program, bytes as u64));
    let committer = hidden::Committer::planned(&planned.hidden, program).ok();
    let zk = committer.map(|committer| committer.cost(program));
    let registry = zk.and_then(|_| secret::registry(&planned.registries, program).ok());
    let registration = registry.map(|registry| secret::cost(&registry));
    VerifyCosts { proof, rerun, zk, registration }
}

/// Microseconds to verify a proof about so many look-ups and reads: queries and hashes, which are
/// about as many for every program, then the weights of claims, number by number.
const fn proof_cost(leaves: u64, reads: u64) -> u64 {
    8_000 + leaves / 16 + reads / 16
}

/// Microseconds to run a program, to hash so many bytes of weights and to read them. Products are
/// added up many at a time; everything else goes number by number.
fn rerun_cost(program: &Program, bytes: u64) -> u64 {
    let single = program.operations().iter().map(|operation| {
        let len = u64::from(operation.spec.len);
        match &operation.primitive {
            Primitive::Linear { .. } | Primitive::MatMul { .. } => len,
            primitive @ (Primitive::Join { .. }
            | Primitive::Product { .. }
            | Primitive::Table { .. }
            | Primitive::Sum { .. }
            | Primitive::Max { .. }
            | Primitive::Normalise { .. }
            | Primitive::Move { .. }
            | Primitive::Select { .. }
            | Primitive::Lookup { .. }
            | Primitive::ArgMax { .. }) => len.saturating_mul(primitive.terms()),
        }
    });
    let single = single.fold(0, u64::saturating_add);
    300 + program.terms() / 256 + single / 32 + bytes / 128
}

/// Whether a program may be planned while a block is executed.
fn is_small(program: &Program) -> bool {
    let candidates = program.operations().iter().map(|operation| match &operation.primitive {
        primitive @ (Primitive::Max { .. } | Primitive::ArgMax { .. }) => primitive.terms(),
        Primitive::Linear { .. }
        | Primitive::MatMul { .. }
        | Primitive::Join { .. }
        | Primitive::Product { .. }
        | Primitive::Table { .. }
        | Primitive::Sum { .. }
        | Primitive::Normalise { .. }
        | Primitive::Move { .. }
        | Primitive::Select { .. }
        | Primitive::Lookup { .. } => 0,
    });
    program.operations().len() <= OPERATIONS_MAX
        && candidates.fold(0, u64::saturating_add) <= CANDIDATES_MAX
        && size(program) <= SIZE_MAX
        && steps(program) <= PLANNING_STEPS_MAX
}

/// Elements of a run, and what a verifier looks at for them: what a product adds up in columns is
/// looked at once. A claim about a moved value is a claim about what it is made of, again for every
/// reader, and so on down; so whoever reads one is charged for all that.
fn size(program: &Program) -> u64 {
    let inputs = program.inputs().iter().map(|input| u64::from(input.spec.len));
    let mut size = inputs.fold(0, u64::saturating_add);
    let uses = weight_uses(program);
    // What lies below each value that may be moved.
    let mut below = vec![0_u64; program.operations().len()];
    for (index, operation) in program.operations().iter().enumerate() {
        let read =
            operation.primitive.reads().into_iter().map(|value| match program.place(value) {
                Some(Place::Operation(source)) => below.get(source).copied().unwrap_or(u64::MAX),
                Some(Place::Input(_) | Place::Constant(_)) | None => 0,
            });
        let read = read.fold(0, u64::saturating_add);
        let len = u64::from(operation.spec.len);
        let own = len.saturating_add(terms(operation).max(passes(program, operation, &uses)));
        let (times, is_moved) = match &operation.primitive {
            Primitive::Move { .. } | Primitive::Join { .. } | Primitive::Sum { .. } => (1, true),
            primitive @ (Primitive::Max { .. } | Primitive::ArgMax { .. }) => {
                (primitive.terms(), false)
            }
            Primitive::Linear { .. }
            | Primitive::MatMul { .. }
            | Primitive::Product { .. }
            | Primitive::Table { .. }
            | Primitive::Normalise { .. }
            | Primitive::Select { .. }
            | Primitive::Lookup { .. } => (1, false),
        };
        let own = own.saturating_add(read.saturating_mul(times));
        size = size.saturating_add(own);
        if is_moved && let Some(below) = below.get_mut(index) {
            *below = own;
        }
    }
    size
}

/// What an operation adds up, number by number.
fn terms(operation: &Operation) -> u64 {
    let len = u64::from(operation.spec.len);
    match &operation.primitive {
        Primitive::Linear { columns, groups, .. } => {
            let each = operation.multiply_adds().saturating_mul(u64::from(*groups));
            each / u64::from(*columns).max(1)
        }
        Primitive::MatMul { batch, rows, columns, inner, .. } => {
            let sides = u64::from(*rows).saturating_add(u64::from(*columns));
            u64::from(*batch).saturating_mul(sides).saturating_mul(u64::from(*inner))
        }
        primitive @ (Primitive::Join { .. }
        | Primitive::Product { .. }
        | Primitive::Table { .. }
        | Primitive::Sum { .. }
        | Primitive::Max { .. }
        | Primitive::Normalise { .. }
        | Primitive::Move { .. }
        | Primitive::Select { .. }
        | Primitive::Lookup { .. }
        | Primitive::ArgMax { .. }) => len.saturating_mul(primitive.terms()),
    }
}

/// How many Linears multiply with each constant.
fn weight_uses(program: &Program) -> BTreeMap<ValueId, u32> {
    let mut uses = BTreeMap::new();
    for operation in program.operations() {
        if let Primitive::Linear { weights, .. } = &operation.primitive {
            *uses.entry(*weights).or_insert(0) += 1;
        }
    }
    uses
}

/// Numbers that a verifier goes through for what an operation reads: a claim about some elements of
/// a value is one about all of them, with weights that are 0 elsewhere. So reading one number of a
/// large value takes as long as reading all.
fn passes(program: &Program, operation: &Operation, uses: &BTreeMap<ValueId, u32>) -> u64 {
    let len = |value: &ValueId| program.spec(*value).map_or(u64::MAX, |spec| spec.len.into());
    let all = |values: &mut dyn Iterator<Item = ValueId>| {
        values.map(|value| len(&value)).fold(0, u64::saturating_add)
    };
    match &operation.primitive {
        Primitive::Linear { x, weights, bias, groups, .. } => {
            // Weights of one Linear without groups are opened at a point.
            let is_plain = *groups == 1 && uses.get(weights) == Some(&1);
            let weights = (!is_plain).then_some(*weights);
            all(&mut [Some(*x), *bias, weights].into_iter().flatten())
        }
        primitive @ (Primitive::Max { x, .. } | Primitive::ArgMax { x, .. }) => {
            primitive.terms().saturating_mul(len(x))
        }
        Primitive::Normalise { a, x, .. } => {
            len(&a.value).saturating_add(DIVISOR_READS.saturating_mul(len(&x.value)))
        }
        // Entries are counted as look-ups; of a computed table there is a claim beside them.
        Primitive::Lookup { table, indices, .. } => match program.place(*table) {
            Some(Place::Constant(_)) => len(indices),
            Some(Place::Input(_) | Place::Operation(_)) | None => {
                len(indices).saturating_add(len(table))
            }
        },
        primitive @ (Primitive::Join { .. } | Primitive::Sum { .. } | Primitive::Move { .. }) => {
            let values: BTreeSet<ValueId> = primitive.reads().into_iter().collect();
            all(&mut values.into_iter())
        }
        primitive @ (Primitive::MatMul { .. }
        | Primitive::Product { .. }
        | Primitive::Table { .. }
        | Primitive::Select { .. }) => all(&mut primitive.reads().into_iter()),
    }
}

/// The verifier of a network, which remembers its last verdicts and plans.
#[derive(Debug, Default)]
pub struct Court {
    planned: Planned,
    // A lock: several threads execute blocks, and it is held briefly.
    remembered: Mutex<Remembered>,
}

/// Plans that are remembered, by how results are shown.
#[derive(Debug, Default)]
struct Planned {
    open: Plans<Setup>,
    hidden: Plans<HidingSetup>,
    registries: Plans<Registry>,
}

#[derive(Debug, Default)]
pub(crate) struct Remembered {
    pub(crate) verdicts: BTreeMap<[u8; 32], bool>,
    /// The oldest first.
    pub(crate) order: VecDeque<[u8; 32]>,
}

impl Court {
    #[cfg(test)]
    pub(crate) fn plans(&self) -> &Plans<Setup> {
        &self.planned.open
    }

    pub(crate) fn remembered(&self) -> std::sync::MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remembered {
    fn keep(&mut self, key: [u8; 32], verdict: bool) {
        if self.verdicts.insert(key, verdict).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.verdicts.remove(&oldest);
        }
    }
}

/// A name for a claim with what shows it; the program's id stands for the program.
fn key_of(claim: &ResultClaim, shown: &[u8]) -> [u8; 32] {
    sha256(&[&claim.to_bytes(), shown])
}

impl ResultVerifier for Court {
    fn costs(&self, program: &[u8]) -> VerifyCosts {
        let program = Program::from_bytes(program);
        program.map_or(VerifyCosts::NONE, |program| costs_with(&self.planned, &program))
    }

    fn verify(&self, program: &[u8], claim: &ResultClaim, shown: &[u8]) -> bool {
        let key = key_of(claim, shown);
        if let Some(verdict) = self.remembered().verdicts.get(&key) {
            return *verdict;
        }
        let verdict = verify_with(&self.planned, program, claim, shown).is_ok();
        self.remembered().keep(key, verdict);
        verdict
    }

    fn verify_registration(&self, program: &[u8], claim: &RegistrationClaim, proof: &[u8]) -> bool {
        let key = sha256(&[b"registration", &claim.to_bytes(), proof]);
        if let Some(verdict) = self.remembered().verdicts.get(&key) {
            return *verdict;
        }
        let verdict = secret::verify_with(&self.planned.registries, program, claim, proof).is_ok();
        self.remembered().keep(key, verdict);
        verdict
    }
}
