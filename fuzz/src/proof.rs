//! Proofs and statements from strangers, for verifiers of all kinds, and programs that they plan.
//!
//! A few small programs are proven once in each way, and their weights registered. An input either
//! changes the honest statement and the honest bytes in some places, which reaches deep into a
//! verifier, or is the bytes themselves. Nobody makes a proof by accident: what is accepted must be
//! what was proven. Or an input is a program, which is planned in all ways and must not overflow.

use arbtest::arbitrary::Unstructured;
use std::sync::{Arc, OnceLock};
use tg_proof::{
    HiddenWeights, HidingProver, HidingRoot, HidingStatement, HidingVerifier, InputsCommitment,
    Mode, Prover, Seed, Seeds, Shown, Statement, Tensors, Verifier, Weights, WeightsCommitment,
    WeightsKey, ZkProver, ZkSeeds, ZkStatement, ZkVerifier, court, register,
};
use tg_tensor::program::{Label, Output, Parts, Program, Shape, Spec};
use tg_tensor::{Model, Tensor, sample};
use tg_types::Encode as _;

/// How many programs there are; the first byte of an input picks one, and the mode.
pub const PROGRAMS: usize = 4;

/// Public weights, committed ones, hidden inputs; everything hidden; registrations that do not hide
/// the weights, and that do.
const MODES: usize = 6;

/// Proofs that a commitment to secret weights is good for.
const OPENINGS: u16 = 3;

/// Bytes of a change: what, where, and with which number.
const CHANGE: usize = 5;

/// Programs with more look-ups take too long to be tried often.
const LEAVES_MAX: u64 = 1 << 11;

const CONTEXT: &[u8] = b"chain, job, provider";

/// A statement with its proof and who verifies it.
enum Proven {
    Shown { verifier: Verifier, statement: Statement, bytes: Vec<u8> },
    Hidden { verifier: HidingVerifier, statement: HidingStatement, bytes: Vec<u8> },
    Zk { weights: HiddenWeights, verifier: ZkVerifier, statement: ZkStatement, bytes: Vec<u8> },
    Registered { weights: WeightsCommitment, bytes: Vec<u8> },
    RegisteredHiding { weights: HiddenWeights, bytes: Vec<u8> },
}

impl Proven {
    fn bytes(&self) -> &Vec<u8> {
        match self {
            Self::Shown { bytes, .. }
            | Self::Hidden { bytes, .. }
            | Self::Zk { bytes, .. }
            | Self::Registered { bytes, .. }
            | Self::RegisteredHiding { bytes, .. } => bytes,
        }
    }
}

/// What a statement of [`Proven::Zk`] shows: nothing.
const NOTHING: Shown = Shown { inputs: false, outputs: false };

fn seed(byte: u8) -> Seed {
    Seed::new([byte; 32])
}

fn key() -> WeightsKey {
    WeightsKey::new(seed(5), OPENINGS, 0)
}

/// A model with an output that can be proven, and one run of it.
struct Subject {
    model: Arc<Model>,
    inputs: Vec<Tensor>,
}

impl Subject {
    fn new(number: usize) -> Option<Self> {
        let mut noise = 0x9e37_79b9_u32.wrapping_mul(number as u32 + 1);
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 24) as u8
        })
        .take(4_096)
        .collect();
        let mut unstructured = Unstructured::new(&bytes);
        let model = sample::model(&mut unstructured).ok()?;
        let operations = (0..model.program().operations().len()).rev();
        let model =
            operations.filter_map(|operation| with_output(&model, operation)).find(|m| {
                let verifier = Verifier::committed(m.program().clone(), None, 1);
                let is_small = verifier.is_ok_and(|verifier| verifier.leaves() <= LEAVES_MAX);
                let prover = is_small.then(|| Prover::new(m.clone(), Mode::Committed, 1));
                // Only a program with weights tells the modes apart.
                prover.and_then(Result::ok).is_some_and(|prover| prover.commitment().is_some())
                    && HidingProver::new(m.clone(), 1).is_ok()
                    && ZkProver::new(m.clone(), 1, NOTHING, Some(key())).is_ok()
                    && register::prove_hiding(m, key(), &seed(6), Vec::new()).is_ok()
                    && register::prove(m, Vec::new()).is_ok()
            })?;
        let inputs = sample::inputs(&mut unstructured, model.program()).ok()?;
        Some(Self { model, inputs })
    }

    fn prove(&self, mode: usize) -> Proven {
        let model = Arc::clone(&self.model);
        let all = vec![self.inputs.clone()];
        let mode = match mode {
            0 => Mode::Public,
            1 => Mode::Committed,
            3 => return self.prove_hidden(&all),
            4 => {
                let found = register::prove(&model, CONTEXT.to_vec());
                let (weights, proof) = found.expect("it was made before");
                return Proven::Registered { weights, bytes: proof.to_bytes() };
            }
            5 => {
                let found = register::prove_hiding(&model, key(), &seed(6), CONTEXT.to_vec());
                let (weights, proof) = found.expect("it was made before");
                return Proven::RegisteredHiding { weights, bytes: proof.to_bytes() };
            }
            _ => {
                let seeds = Seeds { inputs: seed(1), proof: seed(2) };
                let prover = HidingProver::new(Arc::clone(&model), 1).expect("it was made before");
                let found = prover.prove(&all, &seeds, CONTEXT.to_vec());
                let (statement, proof) = found.expect("inputs that fit");
                let verifier = HidingVerifier::new(model, 1).expect("what can be proven");
                return Proven::Hidden { verifier, statement, bytes: proof.to_bytes() };
            }
        };
        let prover = Prover::new(Arc::clone(&model), mode, 1).expect("it was made before");
        let found = prover.prove(all, CONTEXT.to_vec());
        let (statement, proof) = found.expect("inputs that fit");
        let verifier = match mode {
            Mode::Public => Verifier::public(model, 1),
            Mode::Committed => Verifier::committed(model.program().clone(), prover.commitment(), 1),
        };
        let verifier = verifier.expect("what can be proven");
        Proven::Shown { verifier, statement, bytes: proof.to_bytes() }
    }

    fn prove_hidden(&self, all: &[Vec<Tensor>]) -> Proven {
        let prover = ZkProver::new(Arc::clone(&self.model), 1, NOTHING, Some(key()));
        let prover = prover.expect("it was made before");
        let seeds = ZkSeeds { inputs: seed(1), outputs: seed(1), proof: seed(1) };
        let found = prover.prove(all, &seeds, CONTEXT.to_vec());
        let (statement, proof) = found.expect("inputs that fit");
        let weights = prover.commitment().expect("weights are hidden");
        let verifier = of_hidden(&self.model, weights).expect("what can be proven");
        Proven::Zk { weights, verifier, statement, bytes: proof.to_bytes() }
    }
}

/// A verifier of proofs that show nothing; `None` if there is none for such a commitment.
fn of_hidden(model: &Model, weights: HiddenWeights) -> Option<ZkVerifier> {
    let program = Arc::new(model.program().clone());
    ZkVerifier::new(Weights::Committed(program, weights), 1, NOTHING).ok()
}

/// The same program with one operation as its only output.
fn with_output(model: &Model, operation: usize) -> Option<Arc<Model>> {
    let program = model.program();
    let value = program.value_of(operation);
    let shape = Shape::new(vec![program.operations()[operation].spec.len]).ok()?;
    let parts = Parts {
        inputs: program.inputs().to_vec(),
        constants: program.constants().to_vec(),
        operations: program.operations().to_vec(),
        outputs: vec![Output { label: Label::lossy("y"), shape, value, scaling: None }],
    };
    Model::new(Program::new(parts).ok()?, model.constants().to_vec()).ok().map(Arc::new)
}

/// All programs in all modes; proven once.
fn proven() -> &'static [(Arc<Model>, Proven)] {
    static PROVEN: OnceLock<Vec<(Arc<Model>, Proven)>> = OnceLock::new();
    PROVEN.get_or_init(|| {
        let subjects = (0..).filter_map(Subject::new).take(PROGRAMS);
        let all = subjects.flat_map(|subject| {
            (0..MODES).map(move |mode| (Arc::clone(&subject.model), subject.prove(mode)))
        });
        all.collect()
    })
}

/// What is changed in a number, a byte or a list of them.
struct Change {
    what: u8,
    at: usize,
    number: u8,
}

fn changes(bytes: &[u8]) -> impl Iterator<Item = Change> {
    bytes.chunks_exact(CHANGE).map(|chunk| Change {
        what: chunk[0],
        at: usize::from(chunk[1]) | usize::from(chunk[2]) << 8 | usize::from(chunk[3]) << 16,
        number: chunk[4],
    })
}

/// Another tensor: one of its elements is another number of the range, or just outside.
fn moved(tensor: &Tensor, spec: &Spec, change: &Change) -> Option<Tensor> {
    let mut numbers = tensor.to_numbers();
    let at = change.at % numbers.len().max(1);
    let range = i64::from(spec.hi) - i64::from(spec.lo) + 1;
    let number = numbers.get_mut(at)?;
    *number = i64::from(spec.lo)
        + (*number - i64::from(spec.lo) + i64::from(change.number)).rem_euclid(range);
    Tensor::new(spec, &numbers).ok()
}

/// Changes a list of bytes: one of them, its end, or one more.
fn edit(bytes: &mut Vec<u8>, kind: u8, change: &Change) {
    let at = change.at % (bytes.len() + 1);
    match kind {
        0 | 1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= change.number),
        2 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = change.number),
        3 => bytes.truncate(at),
        4 => bytes.insert(at, change.number),
        _ => bytes.iter_mut().skip(at).take(4).for_each(|byte| *byte = 0xff),
    }
}

/// Bytes with those flipped that changes of a kind say.
fn flipped<const N: usize>(mut bytes: [u8; N], all: &[Change], wanted: u8) -> [u8; N] {
    for change in all.iter().filter(|change| change.what == wanted) {
        bytes[change.at % N] ^= change.number;
    }
    bytes
}

/// Plans a program in all ways. Whatever it is, that ends soon and overflows nothing.
fn plan(bytes: &[u8]) {
    let Ok(program) = Program::from_bytes(bytes) else { return };
    if court::costs(&program).proof.is_none() {
        return;
    }
    let weights = WeightsCommitment::from_bytes(&[0; 32]).expect("zeros are elements");
    let found = register::verify(&program, &weights, Vec::new(), &[]);
    assert!(found.is_err(), "no bytes are no registration");
    for openings in [0, OPENINGS] {
        let mut bytes = [0; 34];
        bytes[32..].copy_from_slice(&openings.to_be_bytes());
        let weights = HiddenWeights::from_bytes(&bytes).expect("zeros are elements");
        let found = register::verify_hiding(&program, &weights, Vec::new(), &[]);
        assert!(found.is_err(), "no bytes are no registration");
        let weights = Weights::Committed(Arc::new(program.clone()), weights);
        let _any = ZkVerifier::new(weights, 1, NOTHING);
    }
}

/// Makes the honest proofs, which takes longer than any input may.
pub fn prepare() {
    proven();
}

/// Verifies a changed statement with changed bytes. What is accepted is what was proven.
pub fn check(bytes: &[u8]) {
    let [which, kind, rest @ ..] = bytes else { return };
    if *kind == 2 {
        return plan(rest);
    }
    let Some((model, proven)) = proven().get(usize::from(*which) % (PROGRAMS * MODES)) else {
        return;
    };
    let raw = *kind == 1;
    let all: Vec<Change> = if raw { Vec::new() } else { changes(rest).collect() };
    let proof = |honest: &Vec<u8>| {
        let mut proof = if raw { rest.to_vec() } else { honest.clone() };
        for change in all.iter().filter(|change| change.what < 0xc0) {
            edit(&mut proof, change.what % 6, change);
        }
        proof
    };
    let bytes = proof(proven.bytes());
    let is_same = bytes == *proven.bytes();
    let mut context = CONTEXT.to_vec();
    for change in all.iter().filter(|change| change.what >= 0xc4) {
        edit(&mut context, change.what % 6, change);
    }
    let is_same = is_same && context == CONTEXT;
    let case = Case { all: &all, program: model.program(), context, bytes, is_same };
    let (found, is_honest) = match proven {
        Proven::Shown { verifier, statement, .. } => case.shown(verifier, statement),
        Proven::Hidden { verifier, statement, .. } => case.hidden(verifier, statement),
        Proven::Zk { weights, verifier, statement, .. } => {
            case.zk(model, weights, verifier, statement)
        }
        Proven::Registered { weights, .. } => case.registered(weights),
        Proven::RegisteredHiding { weights, .. } => case.registered_hiding(weights),
    };
    assert_eq!(found, is_honest, "which {which}");
}

/// Changes of a statement, and a proof with its changes made.
struct Case<'a> {
    all: &'a [Change],
    program: &'a Program,
    context: Vec<u8>,
    bytes: Vec<u8>,
    /// Whether context and bytes are the honest ones.
    is_same: bool,
}

impl Case<'_> {
    fn tensors(&self, tensors: &mut [Tensor], specs: &[Spec], wanted: u8) {
        for change in self.all.iter().filter(|change| change.what == wanted) {
            let place = usize::from(change.number >> 4) % tensors.len().max(1);
            if let (Some(tensor), Some(spec)) = (tensors.get_mut(place), specs.get(place)) {
                *tensor = moved(tensor, spec, change).unwrap_or_else(|| tensor.clone());
            }
        }
    }

    fn outputs(&self, outputs: &mut [Tensor]) {
        let program = self.program;
        let made: Vec<Spec> =
            program.outputs().iter().filter_map(|output| program.spec(output.value)).collect();
        self.tensors(outputs, &made, 0xc1);
    }

    /// Whether the proof is accepted, and whether it is the honest one.
    fn shown(&self, verifier: &Verifier, statement: &Statement) -> (bool, bool) {
        let mut other = statement.clone();
        let given: Vec<Spec> = self.program.inputs().iter().map(|input| input.spec).collect();
        self.tensors(&mut other.inputs[0], &given, 0xc0);
        self.outputs(&mut other.outputs[0]);
        other.context.clone_from(&self.context);
        let is_honest = other == *statement && self.is_same;
        (verifier.verify(&other, &self.bytes).is_ok(), is_honest)
    }

    fn hidden(&self, verifier: &HidingVerifier, statement: &HidingStatement) -> (bool, bool) {
        let mut other = statement.clone();
        let root = flipped(other.inputs.to_bytes(), self.all, 0xc0);
        let Some(inputs) = InputsCommitment::from_bytes(&root) else { return (false, false) };
        other.inputs = inputs;
        self.outputs(&mut other.outputs[0]);
        other.context.clone_from(&self.context);
        let is_honest = other == *statement && self.is_same;
        (verifier.verify(&other, &self.bytes).is_ok(), is_honest)
    }

    fn zk(
        &self,
        model: &Model,
        weights: &HiddenWeights,
        verifier: &ZkVerifier,
        statement: &ZkStatement,
    ) -> (bool, bool) {
        let root = |tensors: &Tensors, wanted: u8| {
            let Tensors::Committed(root) = tensors else { return Some(tensors.clone()) };
            let bytes = flipped(root.to_bytes(), self.all, wanted);
            HidingRoot::from_bytes(&bytes).map(Tensors::Committed)
        };
        let (Some(inputs), Some(outputs), Some(other)) = (
            root(&statement.inputs, 0xc0),
            root(&statement.outputs, 0xc1),
            HiddenWeights::from_bytes(&flipped(weights.to_bytes(), self.all, 0xc2)),
        ) else {
            return (false, false);
        };
        let changed = ZkStatement { inputs, outputs, context: self.context.clone() };
        if other == *weights {
            let found = verifier.verify(&changed, &self.bytes).is_ok();
            return (found, changed == *statement && self.is_same);
        }
        let Some(verifier) = of_hidden(model, other) else { return (false, false) };
        (verifier.verify(&changed, &self.bytes).is_ok(), false)
    }

    fn registered(&self, weights: &WeightsCommitment) -> (bool, bool) {
        let mut bytes = weights.to_bytes();
        for change in self.all.iter().filter(|change| change.what == 0xc2) {
            edit(&mut bytes, change.number % 6, change);
        }
        let Some(other) = WeightsCommitment::from_bytes(&bytes) else { return (false, false) };
        let found = register::verify(self.program, &other, self.context.clone(), &self.bytes);
        (found.is_ok(), other == *weights && self.is_same)
    }

    fn registered_hiding(&self, weights: &HiddenWeights) -> (bool, bool) {
        let bytes = flipped(weights.to_bytes(), self.all, 0xc2);
        let Some(other) = HiddenWeights::from_bytes(&bytes) else { return (false, false) };
        let context = self.context.clone();
        let found = register::verify_hiding(self.program, &other, context, &self.bytes);
        (found.is_ok(), other == *weights && self.is_same)
    }
}

/// Honest proofs as they are, and changes all over them: where fuzzing starts.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (number, (model, proven)) in proven().iter().enumerate() {
        let (bytes, which) = (proven.bytes(), number as u8);
        if number % MODES == 0 {
            seeds.push([vec![which, 2], model.program().to_bytes()].concat());
        }
        seeds.push(vec![which, 0]);
        seeds.push([vec![which, 1], bytes.clone()].concat());
        seeds.push([vec![which, 1], bytes[..bytes.len() / 2].to_vec()].concat());
        for part in 0..16 {
            let at = (bytes.len() * part / 16).to_le_bytes();
            seeds.push(vec![which, 0, part as u8, at[0], at[1], at[2], 1 << (part % 8)]);
        }
        for what in [0xc0, 0xc1, 0xc2, 0xc4, 0xc8] {
            seeds.push(vec![which, 0, what, 3, 0, 0, 1]);
        }
    }
    seeds
}
