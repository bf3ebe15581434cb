//! Results of jobs as validators verify them: what is shown must be all that the chain names.

mod hidden;

use super::programs::Net;
use crate::court::{
    Court, CourtError, Evidence, REMEMBERED_MAX, Shown, commitment_id, context, costs, verify,
};
use crate::{Mode, PlanError, Prover};
use std::sync::Arc;
use std::time::Instant;
use tg_tensor::commit::Salt;
use tg_tensor::program::{
    Input, Label, MovePart, Operand, Operation, Output, Parts, Primitive, Program, Run, Shape,
    Spec, ValueId,
};
use tg_tensor::trace::{inputs_root, outputs_root};
use tg_tensor::{Model, Options, Runner};
use tg_types::tx::SHOWN_OPENLY_BYTES_MAX;
use tg_types::{
    Bytes, Decode as _, Encode as _, GenesisHash, Hash32, JobId, List, NodeId, ResultClaim,
    ResultVerifier as _, ShownBy,
};

const SALT: [u8; 32] = [9; 32];

/// An honest result of a network with all that shows it.
struct Case {
    program: Vec<u8>,
    claim: ResultClaim,
    shown: Shown,
}

impl Case {
    fn new(model: &Arc<Model>, net: Net, is_proven: bool) -> Self {
        let (genesis, job) = (GenesisHash::new([1; 32]), JobId::new([2; 32]));
        let (node, inputs) = (NodeId::new([3; 32]), net.inputs(1));
        let (by, evidence, outputs) = if is_proven {
            let prover = Prover::new(Arc::clone(model), Mode::Committed, 1).expect("provable");
            let bound = context(&genesis, &job, &node);
            let (statement, proof) = prover.prove(vec![inputs.clone()], bound).expect("proves");
            let commitment = prover.commitment();
            let evidence = Evidence::proof(commitment.as_ref(), proof.to_bytes()).expect("short");
            let by = ShownBy::Proof { weights: commitment_id(commitment.as_ref()) };
            (by, evidence, statement.outputs.into_iter().flatten().collect())
        } else {
            let runner = Runner::new(Arc::clone(model), Options::default());
            let outputs = runner.run(&inputs).expect("runs");
            (ShownBy::Rerun, Evidence::rerun(model).expect("short"), outputs)
        };
        let claim = ResultClaim {
            genesis,
            job,
            node,
            program: model.id(),
            weights: model.weights_root(),
            inputs: inputs_root(&inputs, &Salt::new(SALT)),
            output: outputs_root(outputs.iter()),
            by,
        };
        let shown = Shown::new(SALT, &inputs, &outputs, evidence).expect("short");
        Self { program: model.program().to_bytes(), claim, shown }
    }

    fn check(&self) -> Result<Option<f64>, CourtError> {
        let verified = verify(&self.program, &self.claim, &self.shown.to_bytes())?;
        Ok(verified.report.map(|report| report.bits))
    }
}

#[test]
fn honest_results_are_verified_both_ways() {
    for net in [Net::Dense, Net::Convolution] {
        let model = net.model();
        let bits = Case::new(&model, net, true).check().expect("holds");
        assert!(bits.is_some_and(|bits| bits >= 100.0));
        assert_eq!(Case::new(&model, net, false).check(), Ok(None));
    }
}

/// Goal: a result stands for one network, job, provider, program, input, output and model only.
/// Method: an honest case with one of them changed at a time.
#[test]
fn result_for_something_else_is_refused() {
    type Change = fn(&mut Case);
    let other = || Hash32::new([77; 32]);
    let changes: [(&str, Change); 8] = [
        ("network", |case| case.claim.genesis = GenesisHash::new([7; 32])),
        ("job", |case| case.claim.job = JobId::new([7; 32])),
        ("provider", |case| case.claim.node = NodeId::new([7; 32])),
        ("inputs", |case| case.claim.inputs = Hash32::new([7; 32])),
        ("output", |case| case.claim.output = Hash32::new([7; 32])),
        ("salt", |case| case.shown.salt = [7; 32]),
        ("way", |case| case.claim.by = ShownBy::Rerun),
        ("weights", |case| case.claim.by = ShownBy::Proof { weights: Hash32::new([7; 32]) }),
    ];
    let model = Net::Dense.model();
    for (what, change) in changes {
        let mut case = Case::new(&model, Net::Dense, true);
        change(&mut case);
        assert!(case.check().is_err(), "{what}");
    }
    let mut case = Case::new(&model, Net::Dense, false);
    case.claim.weights = other();
    assert_eq!(case.check().err(), Some(CourtError::Other("weights")));
    let conv = Net::Convolution.model();
    let mut case = Case::new(&model, Net::Dense, true);
    case.program = conv.program().to_bytes();
    assert!(case.check().is_err(), "program");
}

/// Goal: a lie is refused although its provider names it rightly. Method: one output changed, with
/// the claim that belongs to it.
#[test]
fn wrong_outputs_are_refused_both_ways() {
    for is_proven in [true, false] {
        let model = Net::Dense.model();
        let mut case = Case::new(&model, Net::Dense, is_proven);
        let (inputs, mut outputs) = (Net::Dense.inputs(1), Vec::new());
        let right = Runner::new(Arc::clone(&model), Options::default()).run(&inputs);
        for (tensor, output) in right.expect("runs").iter().zip(model.program().outputs()) {
            let spec = model.program().spec(output.value).expect("is there");
            let mut numbers = tensor.to_numbers();
            numbers[0] =
                if numbers[0] == i64::from(spec.hi) { spec.lo.into() } else { numbers[0] + 1 };
            outputs.push(tg_tensor::Tensor::new(&spec, &numbers).expect("in range"));
        }
        case.claim.output = outputs_root(outputs.iter());
        let evidence = case.shown.evidence.clone();
        case.shown = Shown::new(SALT, &inputs, &outputs, evidence).expect("short");
        assert!(case.check().is_err());
    }
}

#[test]
fn bytes_that_show_nothing_are_refused() {
    let model = Net::Dense.model();
    let case = Case::new(&model, Net::Dense, true);
    let bytes = case.shown.to_bytes();
    let check = |bytes: &[u8]| verify(&case.program, &case.claim, bytes).map(|_| ());
    assert_eq!(check(&bytes), Ok(()));
    for cut in [0, 1, 40, bytes.len() / 2, bytes.len() - 1] {
        assert!(check(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    assert!(check(&[bytes.as_slice(), &[0]].concat()).is_err(), "longer");
    let random: Vec<u8> =
        (0..400_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert!(check(&random).is_err(), "random");
    let mut junk = case.shown.clone();
    let Evidence::Proof { commitment, .. } = junk.evidence.clone() else { unreachable!("a proof") };
    let proof = Bytes::new(random).expect("short");
    junk.evidence = Evidence::Proof { commitment, proof };
    assert!(matches!(check(&junk.to_bytes()), Err(CourtError::Proof(_))), "a random proof");
    assert_eq!(Shown::from_bytes(&bytes), Ok(case.shown));
}

#[test]
fn court_remembers_verdicts_up_to_a_bound() {
    let court = Court::default();
    let model = Net::Dense.model();
    let case = Case::new(&model, Net::Dense, false);
    let bytes = case.shown.to_bytes();
    assert!(court.verify(&case.program, &case.claim, &bytes));
    // The program is not looked at again.
    assert!(court.verify(&[], &case.claim, &bytes));
    for number in 0..=u32::try_from(REMEMBERED_MAX).expect("few") {
        assert!(!court.verify(&[], &case.claim, &number.to_be_bytes()));
    }
    assert_eq!(court.remembered().order.len(), REMEMBERED_MAX);
    assert_eq!(court.remembered().verdicts.len(), REMEMBERED_MAX);
    assert!(!court.verify(&[], &case.claim, &bytes), "it was forgotten");
}

#[test]
fn programs_that_cannot_be_shown_have_no_cost() {
    let none = Court::default().costs(b"no program");
    assert_eq!(none, tg_types::VerifyCosts::NONE);
    // An output that is an input: nothing is proven, but that can be shown.
    let spec = Spec { len: 2, lo: -128, hi: 127 };
    let (label, shape) = (|| Label::lossy("x"), || Shape::new(vec![2]).expect("short"));
    let input = Input { label: label(), shape: shape(), spec, scaling: None };
    let value = ValueId { number: 0 };
    let outputs = vec![Output { label: label(), shape: shape(), value, scaling: None }];
    let parts = Parts { inputs: vec![input], outputs, ..Parts::default() };
    let program = Program::new(parts).expect("a program");
    assert!(costs(&program).rerun.is_some());
}

/// A program that gives its input of so many bytes.
fn echo(bytes: u32) -> Program {
    let spec = Spec { len: bytes, lo: -128, hi: 127 };
    let (label, shape) = (|| Label::lossy("x"), || Shape::new(vec![bytes]).expect("short"));
    let input = Input { label: label(), shape: shape(), spec, scaling: None };
    let value = ValueId { number: 0 };
    let outputs = vec![Output { label: label(), shape: shape(), value, scaling: None }];
    Program::new(Parts { inputs: vec![input], outputs, ..Parts::default() }).expect("a program")
}

/// Goal: nobody can ask for results that no transaction has room for. Method: inputs and outputs
/// that just fit, and longer ones.
#[test]
fn programs_whose_numbers_are_too_long_to_be_shown_have_no_cost() {
    let can = |bytes: usize| {
        let costs = costs(&echo(u32::try_from(bytes / 2).expect("short")));
        (costs.proof.is_some(), costs.rerun.is_some())
    };
    assert_eq!(can(SHOWN_OPENLY_BYTES_MAX / 2), (true, true));
    assert_eq!(can(SHOWN_OPENLY_BYTES_MAX - 1_000), (false, true));
    assert_eq!(can(SHOWN_OPENLY_BYTES_MAX), (false, false));
}

/// Moves of two numbers, each made of the two of the one before in as many parts.
fn moves(count: u32, parts: u32) -> Program {
    let spec = Spec { len: 2, lo: -128, hi: 127 };
    let (label, shape) = (|| Label::lossy("x"), || Shape::new(vec![2]).expect("short"));
    let input = Input { label: label(), shape: shape(), spec, scaling: None };
    let each = 2 / parts;
    let operation = |number: u32| {
        let part = |part: u32| {
            let run = Run::Read { start: part * each, step: 1, count: each };
            let offsets = vec![List::new(vec![run]).expect("one")];
            let offsets = List::new(offsets).expect("one");
            MovePart { value: ValueId { number }, offsets }
        };
        let parts = List::new((0..parts).map(part).collect()).expect("few");
        let sides = List::new(vec![2]).expect("one");
        let primitive = Primitive::Move { sides, axis: 0, parts, fill: 0 };
        Operation { label: label(), spec, primitive }
    };
    let outputs = vec![Output {
        label: label(),
        shape: shape(),
        value: ValueId { number: count },
        scaling: None,
    }];
    let operations = (0..count).map(operation).collect();
    Program::new(Parts { inputs: vec![input], operations, outputs, ..Parts::default() })
        .expect("a program")
}

/// Goal: no program takes validators longer than a block has time, not even to find that out.
/// Method: moves that double the ways down to the input, and more of them than may be.
#[test]
fn programs_whose_plans_explode_are_not_planned() {
    let costs = |count, parts| {
        let costs = costs(&moves(count, parts));
        (costs.proof.is_some(), costs.rerun.is_some())
    };
    assert_eq!(costs(3, 2), (true, true));
    assert_eq!(costs(60, 2), (false, false));
    assert_eq!(costs(100, 1), (true, true));
    assert_eq!(costs(600, 1), (false, false));
}

/// Choices by a condition of as many numbers as a table may have.
fn choices(count: u32) -> Program {
    let wide = Spec { len: 1, lo: 0, hi: (1 << 20) - 1 };
    let (label, shape) = (|| Label::lossy("x"), || Shape::new(vec![1]).expect("short"));
    let input = Input { label: label(), shape: shape(), spec: wide, scaling: None };
    let operation = |number: u32| {
        let strides = || List::new(vec![1]).expect("one");
        let read = |number| Operand { value: ValueId { number }, strides: strides() };
        let sides = List::new(vec![1]).expect("one");
        let (condition, then, otherwise) = (read(0), read(0), read(number));
        let primitive = Primitive::Select { sides, condition, then, otherwise };
        Operation { label: label(), spec: wide, primitive }
    };
    let value = ValueId { number: count };
    let outputs = vec![Output { label: label(), shape: shape(), value, scaling: None }];
    let operations = (0..count).map(operation).collect();
    Program::new(Parts { inputs: vec![input], operations, outputs, ..Parts::default() })
        .expect("a program")
}

/// Goal: planning writes down no more than a bound, whatever the operations ask for together, also
/// where they ask for the same. Method: choices with the largest table that one may have.
#[test]
fn programs_whose_tables_add_up_are_not_planned() {
    assert!(costs(&choices(3)).proof.is_some());
    for count in [5, 500] {
        assert_eq!(costs(&choices(count)).proof, None);
        let planned = crate::Verifier::committed(choices(count), None, 1).map(drop);
        let found = planned.expect_err("too many entries");
        assert!(matches!(found, PlanError::Tables { operation: 4, .. }), "{found}");
    }
}

/// The least time that some work takes of several tries, in microseconds: others may use the
/// machine meanwhile.
fn least_micros(mut work: impl FnMut()) -> u64 {
    let times = (0..5).map(|_| {
        let started = Instant::now();
        work();
        u64::try_from(started.elapsed().as_micros()).expect("short")
    });
    times.min().expect("some")
}

/// Goal: the stated cost covers the time. Method: the networks of the tests, a generous factor for
/// busy machines.
#[test]
fn costs_cover_the_time_of_verifying() {
    for net in [Net::Dense, Net::Convolution, Net::Depthwise, Net::Moved, Net::Attention] {
        let model = net.model();
        for is_proven in [true, false] {
            let case = Case::new(&model, net, is_proven);
            let took = least_micros(|| assert!(case.check().is_ok(), "{net:?}"));
            let cost = costs(model.program()).by(case.claim.by).expect("can be shown");
            assert!(took <= 10 * cost, "{net:?}: took {took}, cost {cost}");
        }
    }
}
