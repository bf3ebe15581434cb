//! Bytes of strangers are refused in bounded time and memory, whatever they claim.

use crate::bounds::{Bounds, bounded};
use std::sync::Arc;
use std::time::Duration;
use tg_proof::{
    HiddenWeights, HidingProver, HidingStatement, HidingVerifier, Mode, PROOF_BYTES_MAX, Prover,
    Seed, Seeds, Shown, Statement, Verifier, VerifyError, Weights, WeightsCommitment, WeightsKey,
    ZkProver, ZkSeeds, ZkStatement, ZkVerifier, register,
};
use tg_tensor::program::{
    Constant, Input, Label, Operation, Output, Parts, Primitive, Program, Rescale, Shape, Spec,
    ValueId, Window,
};
use tg_tensor::{Model, Tensor};
use tg_types::List;

/// Bytes that reading may hold for each byte of a proof: an empty list takes one byte there and
/// 24 here, and a list that grows is there twice for a moment.
const HELD_FOR_BYTE: usize = 96;

/// Bytes that are reserved for one announced list before any of it is read, and those that
/// verifying a small proof takes anyway.
const HELD_ANYWAY: usize = 8 << 20;

/// Time that refusing may take, on a busy machine.
const TIME: Duration = Duration::from_secs(5);

fn list<T: std::fmt::Debug, const MIN: usize, const MAX: usize>(
    items: Vec<T>,
) -> List<T, MIN, MAX> {
    List::new(items).expect("tests are small")
}

/// A table of a product.
fn model() -> Arc<Model> {
    let (label, shape) = (|| Label::lossy("v"), |len| Shape::new(vec![len]).expect("short"));
    let value = |number: u32| ValueId { number };
    let spec = |len, lo, hi| Spec { len, lo, hi };
    let input = Input { label: label(), shape: shape(8), spec: spec(8, -9, 9), scaling: None };
    let constant = Constant { label: label(), shape: shape(32), spec: spec(32, -5, 5) };
    let numbers: Vec<i64> = (0..32).map(|place| place * 7 % 11 - 5).collect();
    let largest = numbers.chunks(8).map(|row| row.iter().map(|w| w.abs()).sum::<i64>() * 9).max();
    let linear = Primitive::Linear {
        x: value(0),
        weights: value(1),
        bias: None,
        window: Window::rows(1, 8),
        columns: 4,
        groups: 1,
        pad: 0,
        bound: u32::try_from(largest.expect("rows")).expect("small"),
        rescale: Rescale { pre_shift: 0, multipliers: list(vec![1]), shift: 2, zero: 0 },
    };
    let entries = list((-40..=40).map(|x: i16| x / 3).collect());
    let table = Primitive::Table { x: value(2), entries };
    let operation = |spec, primitive| Operation { label: label(), spec, primitive };
    let output = Output { label: label(), shape: shape(4), value: value(3), scaling: None };
    let parts = Parts {
        inputs: vec![input],
        constants: vec![constant.clone()],
        operations: vec![operation(spec(4, -40, 40), linear), operation(spec(4, -20, 20), table)],
        outputs: vec![output],
    };
    let weights = Tensor::new(&constant.spec, &numbers).expect("of the range");
    let program = Program::new(parts).expect("a program");
    Arc::new(Model::new(program, vec![weights]).expect("a model"))
}

/// Verifiers of all modes, each with a proof that it accepts, and registrations.
struct Cases {
    model: Arc<Model>,
    shown: Vec<(Verifier, Statement, Vec<u8>)>,
    hidden: (HidingVerifier, HidingStatement, Vec<u8>),
    zk: (ZkVerifier, ZkStatement, Vec<u8>),
    registered: (WeightsCommitment, Vec<u8>),
    registered_hiding: (HiddenWeights, Vec<u8>),
}

fn seed(byte: u8) -> Seed {
    Seed::new([byte; 32])
}

fn key() -> WeightsKey {
    WeightsKey::new(seed(5), 3, 0)
}

/// A proof that shows nothing, and who verifies it.
fn zk(model: &Arc<Model>, inputs: &[Tensor]) -> (ZkVerifier, ZkStatement, Vec<u8>) {
    let shown = Shown { inputs: false, outputs: false };
    let prover = ZkProver::new(Arc::clone(model), 1, shown, Some(key())).expect("it can be proven");
    let seeds = ZkSeeds { inputs: seed(1), outputs: seed(1), proof: seed(1) };
    let found = prover.prove(&[inputs.to_vec()], &seeds, Vec::new());
    let (statement, proof) = found.expect("inputs that fit");
    let weights = prover.commitment().expect("weights are hidden");
    let weights = Weights::Committed(Arc::new(model.program().clone()), weights);
    let verifier = ZkVerifier::new(weights, 1, shown).expect("it can be verified");
    (verifier, statement, proof.to_bytes())
}

impl Cases {
    fn new() -> Self {
        let model = model();
        let spec = model.program().inputs()[0].spec;
        let numbers: Vec<i64> = (0..8).map(|place| place * 5 % 19 - 9).collect();
        let inputs = vec![Tensor::new(&spec, &numbers).expect("of the range")];
        let shown = |mode| {
            let prover = Prover::new(Arc::clone(&model), mode, 1).expect("it can be proven");
            let (statement, proof) = prover.prove(vec![inputs.clone()], Vec::new()).expect("fits");
            let verifier = match mode {
                Mode::Public => Verifier::public(Arc::clone(&model), 1),
                Mode::Committed => {
                    Verifier::committed(model.program().clone(), prover.commitment(), 1)
                }
            };
            (verifier.expect("it can be verified"), statement, proof.to_bytes())
        };
        let prover = HidingProver::new(Arc::clone(&model), 1).expect("it can be proven");
        let seeds = Seeds { inputs: seed(1), proof: seed(2) };
        let found = prover.prove(std::slice::from_ref(&inputs), &seeds, Vec::new());
        let (statement, proof) = found.expect("inputs that fit");
        let verifier = HidingVerifier::new(Arc::clone(&model), 1).expect("it can be verified");
        let hidden = (verifier, statement, proof.to_bytes());
        let (weights, proof) = register::prove(&model, Vec::new()).expect("it fits");
        let registered = (weights, proof.to_bytes());
        let found = register::prove_hiding(&model, key(), &seed(6), Vec::new());
        let (weights, proof) = found.expect("it fits");
        Self {
            shown: vec![shown(Mode::Public), shown(Mode::Committed)],
            hidden,
            zk: zk(&model, &inputs),
            registered,
            registered_hiding: (weights, proof.to_bytes()),
            model,
        }
    }

    /// Verifies bytes in all modes, within bounds of time and memory.
    fn verify(&self, bytes: &[u8]) -> [Result<(), VerifyError>; 4] {
        let bounds = Bounds { held: HELD_ANYWAY + HELD_FOR_BYTE * bytes.len(), time: TIME };
        let (verifier, statement, _) = &self.hidden;
        let (zk, secret, _) = &self.zk;
        [
            bounded(bounds, || self.shown[0].0.verify(&self.shown[0].1, bytes).map(drop)),
            bounded(bounds, || self.shown[1].0.verify(&self.shown[1].1, bytes).map(drop)),
            bounded(bounds, || verifier.verify(statement, bytes).map(drop)),
            bounded(bounds, || zk.verify(secret, bytes).map(drop)),
        ]
    }

    /// Whether bytes are a registration, without and with hiding, within the same bounds. The
    /// program is planned each time.
    fn register(&self, bytes: &[u8]) -> [bool; 2] {
        let bounds = Bounds { held: HELD_ANYWAY + HELD_FOR_BYTE * bytes.len(), time: TIME };
        let (program, none) = (self.model.program(), Vec::new);
        let (plain, hiding) = (&self.registered.0, &self.registered_hiding.0);
        [
            bounded(bounds, || register::verify(program, plain, none(), bytes).is_ok()),
            bounded(bounds, || register::verify_hiding(program, hiding, none(), bytes).is_ok()),
        ]
    }

    fn honest(&self) -> [&[u8]; 4] {
        [&self.shown[0].2, &self.shown[1].2, &self.hidden.2, &self.zk.2]
    }
}

#[test]
fn honest_proofs_are_accepted_within_the_bounds() {
    let cases = Cases::new();
    for (mode, bytes) in cases.honest().into_iter().enumerate() {
        let found = cases.verify(bytes);
        let accepted = found.iter().map(Result::is_ok).collect::<Vec<_>>();
        assert_eq!(accepted, [mode == 0, mode == 1, mode == 2, mode == 3]);
        assert_eq!(cases.register(bytes), [false, false]);
    }
    assert_eq!(cases.register(&cases.registered.1), [true, false]);
    assert_eq!(cases.register(&cases.registered_hiding.1), [false, true]);
}

/// Bytes all alike, which are lists of nothing, and bytes that look random; up to the longest that
/// is read, and beyond.
fn strange() -> impl Iterator<Item = Vec<u8>> {
    let lens = [0, 1, 100, 10_000, PROOF_BYTES_MAX, PROOF_BYTES_MAX + 1];
    lens.into_iter().flat_map(|len| {
        let random = |n: usize| (n.wrapping_mul(2_654_435_761) >> 16) as u8;
        let alike = [0, 1, 2, 0x7f, 0x80, 0xff].map(|byte| vec![byte; len]);
        alike.into_iter().chain([(0..len).map(random).collect()])
    })
}

/// An honest proof with a huge length at some places, cut there or not.
fn huge(honest: &[u8], places: usize) -> impl Iterator<Item = Vec<u8>> + '_ {
    let huge: [&[u8]; 3] = [&[0xff, 0xff, 0x03], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff; 10]];
    (0..honest.len()).step_by(honest.len() / places + 1).flat_map(move |at| {
        let with = move |length: &[u8]| {
            let cut = [&honest[..at], length].concat();
            // As many empty lists, or zeros, as the length may be thought to announce.
            let filled = [&cut, &vec![0; 1 << 16][..]].concat();
            let behind = [&cut, &honest[at + 1..]].concat();
            [cut, filled, behind]
        };
        huge.into_iter().flat_map(with).chain([honest[..at].to_vec()])
    })
}

/// Goal: no bytes cost a verifier more than their number allows. Method: strange bytes, and honest
/// proofs with a huge length at every place of a grid.
#[test]
fn strange_bytes_are_refused_in_bounded_time_and_memory() {
    let cases = Cases::new();
    let refused = |bytes: &[u8]| cases.verify(bytes).iter().all(Result::is_err);
    for bytes in strange() {
        assert!(refused(&bytes), "{} bytes", bytes.len());
    }
    for honest in cases.honest() {
        for bytes in huge(honest, 150) {
            assert!(refused(&bytes), "{} bytes", bytes.len());
        }
    }
}

#[test]
fn strange_registrations_are_refused_in_bounded_time_and_memory() {
    let cases = Cases::new();
    for bytes in strange() {
        assert_eq!(cases.register(&bytes), [false, false], "{} bytes", bytes.len());
    }
    for honest in [&cases.registered.1, &cases.registered_hiding.1] {
        for bytes in huge(honest, 25) {
            assert_eq!(cases.register(&bytes), [false, false], "{} bytes", bytes.len());
        }
    }
}
