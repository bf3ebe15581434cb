//! Why every field of a statement is absorbed: forgers who choose it when all challenges are drawn.
//!
//! The network is such that a forger has much to choose from: inputs, outputs, accumulators, biases
//! and constants of a join may each be a good part of the field. To whoever knows the challenges, a
//! false statement is then five linear equations of numbers that are free within their ranges.

use super::programs::Net;
use super::sponge::{Rule, under};
use super::{CONTEXT, proven, solve, verifier};
use crate::field::{EF, PRIME, eq_table, int};
use crate::plan::Role;
use crate::{Mode, Proof, Prover, Statement, Verifier};
use p3_field::PrimeField32;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::ops::RangeInclusive;
use std::sync::Arc;
use tg_tensor::program::{
    Constant, Input, JoinTerm, Label, Operand, Operation, Output, Parts, Primitive, Program,
    Rescale, Shape, Spec, ValueId, Window,
};
use tg_tensor::{Model, Options, Runner, Tensor};
use tg_types::List;

/// Elements of everything.
const LEN: usize = 16;
/// What inputs, biases and constants may be.
const WIDE: i32 = 1 << 28;
/// Numbers that a forger tries before giving up.
const TRIES: usize = 1 << 20;

fn list<T: std::fmt::Debug, const MIN: usize, const MAX: usize>(
    items: Vec<T>,
) -> List<T, MIN, MAX> {
    List::new(items).expect("tests are small")
}

fn spec(lo: i32, hi: i32) -> Spec {
    Spec { len: LEN as u32, lo, hi }
}

fn number(index: usize) -> i64 {
    (index as i64 * 7_919_003 + 40_000_003 * index as i64 * index as i64) % i64::from(WIDE)
}

fn tensor(range: Spec, numbers: &[i64]) -> Tensor {
    Tensor::new(&range, numbers).expect("numbers of the range")
}

/// y = round((s + bias) / 2^28) and z = x + constant.
fn model(bias: &[i64], constant: &[i64]) -> Arc<Model> {
    let (label, shape) = (|| Label::lossy("v"), || Shape::new(vec![LEN as u32]).expect("short"));
    let value = |number: u32| ValueId { number };
    let input = |spec| Input { label: label(), shape: shape(), spec, scaling: None };
    let stated = |spec| Constant { label: label(), shape: shape(), spec };
    let output =
        |number| Output { label: label(), shape: shape(), value: value(number), scaling: None };
    let window = Window::rows(1, LEN as u32);
    let rescale = Rescale { pre_shift: 0, multipliers: list(vec![1]), shift: 28, zero: 0 };
    let linear = Primitive::Linear {
        x: value(0),
        weights: value(2),
        bias: Some(value(3)),
        window,
        columns: LEN as u32,
        groups: LEN as u32,
        pad: 0,
        bound: WIDE as u32 + 1,
        rescale,
    };
    let operand = Operand { value: value(1), strides: list(vec![1]) };
    let term = JoinTerm { operand, multipliers: list(vec![1]) };
    let join = Primitive::Join {
        sides: list(vec![LEN as u32]),
        terms: list(vec![term]),
        constant: list(constant.iter().map(|number| *number as i32).collect()),
        shift: 0,
    };
    let operation = |spec, primitive| Operation { label: label(), spec, primitive };
    let parts = Parts {
        inputs: vec![input(spec(-1, 1)), input(spec(-WIDE, WIDE))],
        constants: vec![stated(spec(-1, 1)), stated(spec(-WIDE, WIDE))],
        operations: vec![
            operation(spec(-1, 1), linear),
            operation(spec(-2 * WIDE, 2 * WIDE), join),
        ],
        outputs: vec![output(4), output(5)],
    };
    let program = Program::new(parts).expect("a program of the tests");
    let constants = vec![tensor(spec(-1, 1), &[1; LEN]), tensor(spec(-WIDE, WIDE), bias)];
    Arc::new(Model::new(program, constants).expect("a model of the tests"))
}

/// Biases of which the first is as large as can be, as the program says that there is one.
fn biases() -> Vec<i64> {
    (0..LEN).map(|index| if index == 0 { WIDE.into() } else { number(index) }).collect()
}

fn constants() -> Vec<i64> {
    (0..LEN).map(|index| number(index + 40)).collect()
}

fn inputs() -> Vec<Tensor> {
    let wide: Vec<i64> = (0..LEN).map(|index| number(index + 80)).collect();
    let small: Vec<i64> = (0..LEN as i64).map(|index| index % 3 - 1).collect();
    vec![tensor(spec(-1, 1), &small), tensor(spec(-WIDE, WIDE), &wide)]
}

/// Whether a statement is true.
fn is_true(model: &Arc<Model>, statement: &Statement) -> bool {
    let runner = Runner::new(Arc::clone(model), Options { threads: 1, path: None });
    runner.run(&statement.inputs[0]).as_ref() == Ok(&statement.outputs[0])
}

/// Other numbers, each of its range, that make up for a gap when each is multiplied with its slope.
fn find(slopes: &[EF], gap_of_none: EF, range: &RangeInclusive<i64>) -> Vec<i64> {
    let mut rng = StdRng::from_seed([5; 32]);
    let centred = |element: crate::field::F| {
        let whole = i64::from(element.as_canonical_u32());
        if whole > PRIME / 2 { whole - PRIME } else { whole }
    };
    for _ in 0..TRIES {
        let free = slopes.len() - crate::field::DEGREE;
        let mut all: Vec<i64> = (0..free).map(|_| rng.random_range(range.clone())).collect();
        let sum: EF = slopes.iter().zip(&all).map(|(slope, number)| *slope * int(*number)).sum();
        let rest = solve(&slopes[free..], -gap_of_none - sum).into_iter().map(centred);
        all.extend(rest);
        if all.iter().all(|number| range.contains(number)) {
            return all;
        }
    }
    panic!("no numbers found");
}

/// What a gap is if all numbers are 0, and by how much each of them changes it.
fn slopes(len: usize, gap: impl Fn(&[i64]) -> EF) -> (EF, Vec<EF>) {
    let none = gap(&vec![0; len]);
    let slope = |place: usize| {
        let mut numbers = vec![0; len];
        numbers[place] = 1;
        gap(&numbers) - none
    };
    (none, (0..len).map(slope).collect())
}

/// An honest statement, and the proof of a mutant's prover who absorbs something else.
fn mutant_proof(absorbed: fn(&Statement) -> Statement) -> (Verifier, Statement, Proof) {
    let model = model(&biases(), &constants());
    let proven = proven(&model, Mode::Public, vec![inputs()]);
    assert!(is_true(&model, &proven.statement) && proven.check().is_ok());
    let runner = Runner::new(model, Options { threads: 1, path: None });
    let plan = &proven.prover.setup().plan;
    let witness = crate::witness::Witness::new(plan, &runner, &[inputs()]).expect("they fit");
    let blank = absorbed(&proven.statement);
    let proof = proven.prover.prove_witness(&blank, &witness, &witness, false);
    assert!(proven.verifier.verify_absorbing(&proven.statement, &blank, &proof).is_ok());
    (proven.verifier, proven.statement, proof)
}

/// That a forger's statement is false, accepted by a mutant, refused by the real verifier.
fn check(verifier: &Verifier, absorbed: &Statement, statement: &Statement, proof: &Proof) {
    assert!(!is_true(&model(&biases(), &constants()), statement));
    assert_eq!(verifier.verify_absorbing(statement, absorbed, proof), Ok(()));
    assert!(verifier.verify(statement, &proof.to_bytes()).is_err());
}

#[test]
fn forger_chooses_the_context_last() {
    let blank = |statement: &Statement| Statement { context: Vec::new(), ..statement.clone() };
    let (verifier, statement, proof) = mutant_proof(blank);
    let other = Statement { context: b"another job".to_vec(), ..statement };
    assert_eq!(verifier.verify_absorbing(&other, &blank(&other), &proof), Ok(()));
    assert!(verifier.verify(&other, &proof.to_bytes()).is_err());
    // Nor does the proof that was made for one context hold in another.
    let proven = proven(&Net::Dense.model(), Mode::Public, vec![Net::Dense.inputs(0)]);
    let other = Statement { context: b"another job".to_vec(), ..proven.statement.clone() };
    assert_eq!(proven.statement.context, CONTEXT);
    assert!(proven.refuses(&other, &proven.proof));
}

#[test]
fn forger_chooses_inputs_last() {
    let blank = |statement: &Statement| Statement { inputs: Vec::new(), ..statement.clone() };
    let (verifier, statement, proof) = mutant_proof(blank);
    let learnt = verifier.learn(&blank(&statement), &proof);
    let with = |numbers: &[i64]| {
        let mut other = statement.clone();
        other.inputs[0][1] = tensor(spec(-WIDE, WIDE), numbers);
        other
    };
    let (none, slopes) = slopes(LEN, |numbers| verifier.gap(&with(numbers), &proof, &learnt));
    let wide = i64::from(WIDE);
    let forged = with(&find(&slopes, none, &(-wide..=wide)));
    check(&verifier, &blank(&statement), &forged, &proof);
}

#[test]
fn forger_chooses_outputs_last() {
    let blank = |statement: &Statement| Statement { outputs: Vec::new(), ..statement.clone() };
    let (verifier, statement, proof) = mutant_proof(blank);
    let learnt = verifier.learn(&blank(&statement), &proof);
    let with = |numbers: &[i64]| {
        let mut other = statement.clone();
        other.outputs[0][1] = tensor(spec(-2 * WIDE, 2 * WIDE), numbers);
        other
    };
    let (none, slopes) = slopes(LEN, |numbers| verifier.gap(&with(numbers), &proof, &learnt));
    let wide = 2 * i64::from(WIDE);
    let forged = with(&find(&slopes, none, &(-wide..=wide)));
    check(&verifier, &blank(&statement), &forged, &proof);
}

/// The outputs are absorbed and false; accumulators that give them are found afterwards.
#[test]
fn forger_chooses_accumulators_last() {
    let model = model(&biases(), &constants());
    let proven = proven(&model, Mode::Public, vec![inputs()]);
    let runner = Runner::new(Arc::clone(&model), Options { threads: 1, path: None });
    let plan = &proven.prover.setup().plan;
    let witness = crate::witness::Witness::new(plan, &runner, &[inputs()]).expect("they fit");
    let mut statement = proven.statement.clone();
    statement.outputs[0][0] = tensor(spec(-1, 1), &[1; LEN]);
    assert!(!is_true(&model, &statement));
    let prove = |rule: &Rule| {
        let prove = || proven.prover.prove_witness(&statement, &witness, &witness, false);
        under(rule, prove)
    };
    let (proof, log) = prove(&Rule::default());
    let said: Vec<_> = proof.clear.iter().map(|sum| int((*sum).into())).collect();
    let mutant = Rule::deaf(log.place_of(0, &said));
    let forge = |rule: &Rule| {
        let (proof, _) = prove(rule);
        let learnt = under(rule, || proven.verifier.learn(&statement, &proof)).0;
        let with = |numbers: &[i64]| {
            let clear = numbers.iter().map(|number| *number as i32).collect();
            Proof { clear, ..proof.clone() }
        };
        let gap = |numbers: &[i64]| proven.verifier.gap(&statement, &with(numbers), &learnt);
        let (none, slopes) = slopes(LEN, gap);
        let ones = 1 << 27..=tg_tensor::program::MAGNITUDE_MAX;
        with(&find(&slopes, none, &ones))
    };
    let verify = |rule: &Rule, proof: &Proof| {
        under(rule, || proven.verifier.verify(&statement, &proof.to_bytes()).is_ok()).0
    };
    let forged = forge(&mutant);
    assert!(verify(&mutant, &forged));
    assert!(!verify(&Rule::default(), &forged));
    assert!(!verify(&Rule::default(), &forge(&Rule::default())));
}

/// Biases or constants of a join: a model for which what was proven of another one is false.
#[test]
fn forger_chooses_the_model_last() {
    let ours = model(&biases(), &constants());
    let prover = || Prover::new(Arc::clone(&ours), Mode::Public, 1).expect("it can be proven");
    let mutant = |model: &Arc<Model>| {
        Verifier::public(Arc::clone(model), 1).expect("it can be verified").without_model()
    };
    let found = prover().without_model().prove(vec![inputs()], CONTEXT.to_vec());
    let (statement, proof) = found.expect("inputs that fit");
    let learnt = mutant(&ours).learn(&statement, &proof);
    let wide = i64::from(WIDE);
    let biased = |numbers: &[i64]| model(&[&[wide], numbers].concat(), &constants());
    let joined = |numbers: &[i64]| model(&biases(), numbers);
    for (len, with) in [(LEN - 1, &biased as &dyn Fn(&[i64]) -> Arc<Model>), (LEN, &joined)] {
        let gap = |numbers: &[i64]| mutant(&with(numbers)).gap(&statement, &proof, &learnt);
        let (none, slopes) = slopes(len, gap);
        let theirs = with(&find(&slopes, none, &(-wide + 1..=wide - 1)));
        assert!(!is_true(&theirs, &statement));
        let bytes = proof.to_bytes();
        assert!(mutant(&theirs).verify(&statement, &bytes).is_ok());
        let real = Verifier::public(theirs, 1).expect("it can be verified");
        assert!(real.verify(&statement, &bytes).is_err());
        let (_, honest) = prover().prove(vec![inputs()], CONTEXT.to_vec()).expect("they fit");
        assert!(real.verify(&statement, &honest.to_bytes()).is_err());
    }
}

/// Secret weights that are what others were at the only point where these are looked at.
#[test]
fn forger_chooses_weights_behind_their_root_last() {
    let committed = |bias: &[i64]| {
        let model = model(bias, &constants());
        let prover = Prover::new(Arc::clone(&model), Mode::Committed, 1).expect("it can be proven");
        (model, prover)
    };
    let (ours, prover) = committed(&biases());
    let real = verifier(&ours, &prover, Mode::Committed, 1);
    let root = prover.commitment().expect("it has weights").roots()[0].roots()[0];
    let prove = |prover: &Prover, rule: &Rule| {
        under(rule, || prover.prove(vec![inputs()], CONTEXT.to_vec()).expect("they fit"))
    };
    let prover = prover.without_model();
    let (_, log) = prove(&prover, &Rule::default());
    let deaf = Rule::deaf(log.place_of(0, &root));
    let forge = |rule: &Rule| {
        let mutant = verifier(&ours, &committed(&biases()).1, Mode::Committed, 1).without_model();
        let ((statement, proof), _) = prove(&prover, rule);
        let learnt = under(rule, || mutant.learn(&statement, &proof)).0;
        let plan = &prover.setup().plan;
        let opened = plan.opened.iter().flatten().flat_map(|opened| {
            opened.columns.iter().map(move |column| (*column, opened.at)).collect::<Vec<_>>()
        });
        let is_bias = |id: usize| plan.columns[id].role == Role::Constant(1);
        let seen: Vec<_> = opened.filter(|(column, _)| is_bias(column.0)).collect();
        let [(column, at)] = seen[..] else { panic!("opened at {} points", seen.len()) };
        let point = eq_table(&plan.point(&learnt.challenges, column, at));
        let cells = plan.columns[column.0].layout.cells();
        let slopes: Vec<EF> = cells.iter().skip(1).map(|cell| point[*cell as usize]).collect();
        let true_biases = biases();
        let terms = slopes.iter().zip(&true_biases[1..]);
        let none: EF = -terms.map(|(slope, bias)| *slope * int(*bias)).sum::<EF>();
        let wide = i64::from(WIDE);
        let found = find(&slopes, none, &(-wide + 1..=wide - 1));
        let (theirs, other) = committed(&[&[wide], &found[..]].concat());
        let hybrid = committed(&biases()).1.disguised(other).without_model();
        let ((statement, proof), _) = prove(&hybrid, rule);
        assert!(!is_true(&theirs, &statement));
        let (theirs, prover) = (theirs, committed(&[&[wide], &found[..]].concat()).1);
        let real = verifier(&theirs, &prover, Mode::Committed, 1);
        let mutant = verifier(&theirs, &prover, Mode::Committed, 1).without_model();
        let bytes = proof.to_bytes();
        let wins = under(rule, || mutant.verify(&statement, &bytes).is_ok()).0;
        (wins, real.verify(&statement, &bytes).is_ok())
    };
    assert_eq!(forge(&deaf), (true, false));
    assert_eq!(forge(&Rule::default()), (false, false));
    let ((statement, proof), _) = prove(&prover, &deaf);
    assert!(real.verify(&statement, &proof.to_bytes()).is_err());
}
