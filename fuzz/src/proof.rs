//! Proofs and statements from strangers, for verifiers of all three modes.
//!
//! A few small programs are proven once, in each mode. An input either changes the honest statement
//! and the honest bytes in some places, which reaches deep into a verifier, or is the bytes
//! themselves. Nobody makes a proof by accident: what is accepted must be what was proven.

use arbtest::arbitrary::Unstructured;
use std::sync::{Arc, OnceLock};
use tg_proof::{
    HidingProver, HidingStatement, HidingVerifier, InputsCommitment, Mode, Prover, Seed, Seeds,
    Statement, Verifier,
};
use tg_tensor::program::{Label, Output, Parts, Program, Shape, Spec};
use tg_tensor::{Model, Tensor, sample};

/// How many programs there are; the first byte of an input picks one, and the mode.
pub const PROGRAMS: usize = 4;

/// Public weights, committed ones, hidden inputs.
const MODES: usize = 3;

/// Bytes of a change: what, where, and with which number.
const CHANGE: usize = 5;

/// Programs with more look-ups take too long to be tried often.
const LEAVES_MAX: u64 = 1 << 11;

const CONTEXT: &[u8] = b"chain, job, provider";

/// A statement with its proof and who verifies it.
enum Proven {
    Shown { verifier: Verifier, statement: Statement, bytes: Vec<u8> },
    Hidden { verifier: HidingVerifier, statement: HidingStatement, bytes: Vec<u8> },
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
            _ => {
                let seed = |byte: u8| Seed::new([byte; 32]);
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

/// Verifies a changed statement with changed bytes. What is accepted is what was proven.
pub fn check(bytes: &[u8]) {
    let [which, kind, rest @ ..] = bytes else { return };
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
    let tensors = |outputs: &mut [Tensor], specs: &[Spec], wanted: u8| {
        for change in all.iter().filter(|change| change.what == wanted) {
            let place = usize::from(change.number >> 4) % outputs.len().max(1);
            if let (Some(tensor), Some(spec)) = (outputs.get_mut(place), specs.get(place)) {
                *tensor = moved(tensor, spec, change).unwrap_or_else(|| tensor.clone());
            }
        }
    };
    let program = model.program();
    let given: Vec<Spec> = program.inputs().iter().map(|input| input.spec).collect();
    let made: Vec<Spec> = program.outputs().iter().filter_map(|o| program.spec(o.value)).collect();
    let contexts = || all.iter().filter(|change| change.what >= 0xc4);
    match proven {
        Proven::Shown { verifier, statement, bytes } => {
            let mut other = statement.clone();
            tensors(&mut other.inputs[0], &given, 0xc0);
            tensors(&mut other.outputs[0], &made, 0xc1);
            contexts().for_each(|change| edit(&mut other.context, change.what % 6, change));
            let proof = proof(bytes);
            let is_honest = other == *statement && proof == *bytes;
            assert_eq!(verifier.verify(&other, &proof).is_ok(), is_honest, "which {which}");
        }
        Proven::Hidden { verifier, statement, bytes } => {
            let mut other = statement.clone();
            let mut root = other.inputs.to_bytes();
            for change in all.iter().filter(|change| change.what == 0xc0) {
                root[change.at % 32] ^= change.number;
            }
            let Some(inputs) = InputsCommitment::from_bytes(&root) else { return };
            other.inputs = inputs;
            tensors(&mut other.outputs[0], &made, 0xc1);
            contexts().for_each(|change| edit(&mut other.context, change.what % 6, change));
            let proof = proof(bytes);
            let is_honest = other == *statement && proof == *bytes;
            assert_eq!(verifier.verify(&other, &proof).is_ok(), is_honest, "which {which}");
        }
    }
}

/// Honest proofs as they are, and changes all over them: where fuzzing starts.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (number, (_, proven)) in proven().iter().enumerate() {
        let (Proven::Shown { bytes, .. } | Proven::Hidden { bytes, .. }) = proven;
        let which = number as u8;
        seeds.push(vec![which, 0]);
        seeds.push([vec![which, 1], bytes.clone()].concat());
        seeds.push([vec![which, 1], bytes[..bytes.len() / 2].to_vec()].concat());
        for part in 0..16 {
            let at = (bytes.len() * part / 16).to_le_bytes();
            seeds.push(vec![which, 0, part as u8, at[0], at[1], at[2], 1 << (part % 8)]);
        }
        for what in [0xc0, 0xc1, 0xc4, 0xc8] {
            seeds.push(vec![which, 0, what, 3, 0, 0, 1]);
        }
    }
    seeds
}
