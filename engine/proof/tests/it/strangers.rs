//! Bytes of strangers are refused in bounded time and memory, whatever they claim.

use crate::counting::most_held;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tg_proof::{
    HidingProver, HidingStatement, HidingVerifier, Mode, PROOF_BYTES_MAX, Prover, Seed, Seeds,
    Statement, Verifier, VerifyError,
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

/// Verifiers of all modes, each with a proof that it accepts.
struct Cases {
    shown: Vec<(Verifier, Statement, Vec<u8>)>,
    hidden: (HidingVerifier, HidingStatement, Vec<u8>),
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
        let seeds = Seeds { inputs: Seed::new([1; 32]), proof: Seed::new([2; 32]) };
        let found = prover.prove(std::slice::from_ref(&inputs), &seeds, Vec::new());
        let (statement, proof) = found.expect("inputs that fit");
        let verifier = HidingVerifier::new(Arc::clone(&model), 1).expect("it can be verified");
        let hidden = (verifier, statement, proof.to_bytes());
        Self { shown: vec![shown(Mode::Public), shown(Mode::Committed)], hidden }
    }

    /// Verifies bytes in all modes, within bounds of time and memory.
    fn verify(&self, bytes: &[u8]) -> [Result<(), VerifyError>; 3] {
        let bounded = |verify: &dyn Fn() -> Result<(), VerifyError>| {
            let begun = Instant::now();
            let (found, held) = most_held(verify);
            let took = begun.elapsed();
            let most = HELD_ANYWAY + HELD_FOR_BYTE * bytes.len();
            assert!(held <= most, "{held} bytes held for {} of input", bytes.len());
            assert!(took <= TIME, "{took:?} taken for {} bytes of input", bytes.len());
            found
        };
        let (verifier, statement, _) = &self.hidden;
        [
            bounded(&|| self.shown[0].0.verify(&self.shown[0].1, bytes).map(drop)),
            bounded(&|| self.shown[1].0.verify(&self.shown[1].1, bytes).map(drop)),
            bounded(&|| verifier.verify(statement, bytes).map(drop)),
        ]
    }

    fn honest(&self) -> [&[u8]; 3] {
        [&self.shown[0].2, &self.shown[1].2, &self.hidden.2]
    }
}

#[test]
fn honest_proofs_are_accepted_within_the_bounds() {
    let cases = Cases::new();
    for (mode, bytes) in cases.honest().into_iter().enumerate() {
        let found = cases.verify(bytes);
        let accepted = found.iter().map(Result::is_ok).collect::<Vec<_>>();
        assert_eq!(accepted, [mode == 0, mode == 1, mode == 2]);
    }
}

/// Goal: no bytes cost a verifier more than their number allows. Method: bytes all alike, which are
/// lists of nothing; bytes that look random; honest proofs with a huge length at every place of a
/// grid, cut behind it or not; all up to the longest that is read, and beyond.
#[test]
fn strange_bytes_are_refused_in_bounded_time_and_memory() {
    let cases = Cases::new();
    let refused = |bytes: &[u8]| cases.verify(bytes).iter().all(Result::is_err);
    for len in [0, 1, 100, 10_000, PROOF_BYTES_MAX, PROOF_BYTES_MAX + 1] {
        for byte in [0, 1, 2, 0x7f, 0x80, 0xff] {
            assert!(refused(&vec![byte; len]), "{len} bytes of {byte}");
        }
        let random = |n: usize| (n.wrapping_mul(2_654_435_761) >> 16) as u8;
        assert!(refused(&(0..len).map(random).collect::<Vec<_>>()), "{len} random bytes");
    }
    let huge: [&[u8]; 3] = [&[0xff, 0xff, 0x03], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff; 10]];
    for honest in cases.honest() {
        for at in (0..honest.len()).step_by(honest.len() / 150 + 1) {
            assert!(refused(&honest[..at]), "cut at {at}");
            for length in huge {
                let cut = [&honest[..at], length].concat();
                assert!(refused(&cut), "huge at {at}, cut");
                // As many empty lists, or zeros, as the length may be thought to announce.
                assert!(refused(&[&cut, &vec![0; 1 << 16][..]].concat()), "huge at {at}, filled");
                assert!(refused(&[&cut, &honest[at + 1..]].concat()), "huge at {at}");
            }
        }
    }
}
