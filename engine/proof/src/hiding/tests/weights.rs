//! Secret weights, shown or committed inputs and outputs.

use super::CONTEXT;
use crate::hiding::owned::{HiddenWeights, WeightsKey};
use crate::hiding::seed::{Seed, Stream};
use crate::hiding::statement::{HidingRoot, Tensors, ZkStatement};
use crate::hiding::{Shown, Weights, ZkProver, ZkSeeds, ZkVerifier};
use crate::plan::Tree;
use crate::tests::programs::Net;
use crate::witness::Witness;
use crate::{HidingProof, PlanError, ProveError, VerifyError};
use std::sync::Arc;
use tg_tensor::program::{
    Input, Label, Operation, Output, Parts, Primitive, Program, Shape, Spec, ValueId,
};
use tg_tensor::{Model, Options, Runner, Tensor};
use tg_types::List;

const ALL: [Shown; 4] = [
    Shown { inputs: true, outputs: true },
    Shown { inputs: true, outputs: false },
    Shown { inputs: false, outputs: true },
    Shown { inputs: false, outputs: false },
];

fn key(byte: u8) -> WeightsKey {
    WeightsKey::new(Seed::new([byte; 32]), 4, 0)
}

fn seeds(byte: u8) -> ZkSeeds {
    let seed = |place: u8| Seed::new([byte ^ place; 32]);
    ZkSeeds { inputs: seed(1), outputs: seed(2), proof: seed(3) }
}

struct Proven {
    prover: ZkProver,
    verifier: ZkVerifier,
    inputs: Vec<Vec<Tensor>>,
    statement: ZkStatement,
    proof: HidingProof,
}

fn verifier(net: Net, weights: Option<HiddenWeights>, batch: usize, shown: Shown) -> ZkVerifier {
    let weights = match weights {
        Some(weights) => Weights::Committed(Arc::new(net.model().program().clone()), weights),
        None => Weights::Known(net.model()),
    };
    ZkVerifier::new(weights, batch, shown).expect("it can be verified")
}

fn proven(net: Net, batch: i64, shown: Shown, key: Option<WeightsKey>) -> Proven {
    let inputs: Vec<Vec<Tensor>> = (0..batch).map(|seed| net.inputs(seed)).collect();
    let prover = ZkProver::new(net.model(), batch as usize, shown, key).expect("provable");
    let verifier = verifier(net, prover.commitment(), batch as usize, shown);
    let (statement, proof) =
        prover.prove(&inputs, &seeds(40), CONTEXT.to_vec()).expect("inputs that fit");
    Proven { prover, verifier, inputs, statement, proof }
}

impl Proven {
    fn check(&self, statement: &ZkStatement, proof: &HidingProof) -> Result<f64, VerifyError> {
        self.verifier.verify(statement, &proof.to_bytes()).map(|report| report.bits)
    }
}

#[test]
fn honest_proofs_are_accepted_whatever_is_hidden() {
    for net in [Net::Dense, Net::Convolution, Net::Attention, Net::Choices, Net::Rows] {
        for (place, shown) in ALL.into_iter().enumerate() {
            let batch = 1 + place as i64 % 2;
            for key in [Some(key(9)), Some(WeightsKey::known()), None] {
                let proven = proven(net, batch, shown, key);
                let bits = proven.check(&proven.statement, &proven.proof);
                assert!(bits.clone().is_ok_and(|bits| bits >= 100.0), "{net:?} {shown:?} {bits:?}");
            }
        }
    }
}

/// Goal: whoever gets outputs and the seed finds the root of the statement, and no other outputs
/// give it.
#[test]
fn committed_outputs_are_those_of_the_run() {
    let shown = Shown { inputs: true, outputs: false };
    let proven = proven(Net::Dense, 1, shown, None);
    let runner = Runner::new(Net::Dense.model(), Options { threads: 1, path: None });
    let outputs = vec![runner.run(&proven.inputs[0]).expect("inputs that fit")];
    let found = proven.verifier.commit_outputs(&outputs, &seeds(40).outputs).expect("they fit");
    assert_eq!(proven.statement.outputs, Tensors::Committed(found));
    let mut numbers = outputs[0][0].to_numbers();
    numbers[0] += 1;
    let spec = Net::Dense.model().program().specs()[proven.prover.setup().plan.value_of(2).index()];
    let other = vec![vec![Tensor::new(&spec, &numbers).expect("of the range")]];
    let setup = proven.prover.setup();
    let sealed = setup.seal_outputs(&other, &seeds(40).outputs).expect("they fit");
    let sealed = sealed.expect("outputs are hidden");
    assert_ne!(HidingRoot::of(&sealed.root), found);
    // A commitment to other outputs than those of the run helps no prover.
    let outputs = Tensors::Committed(HidingRoot::of(&sealed.root));
    let statement = ZkStatement { outputs, ..proven.statement.clone() };
    let witness = Witness::new(&setup.plan, &runner, &proven.inputs).expect("inputs that fit");
    let seed = seeds(40).proof;
    let prove = |sealed, witness: &Witness| {
        proven.prover.prove_witness(&statement, vec![sealed], &seed, [witness; 2], true)
    };
    let proof = prove(sealed, &witness);
    assert_eq!(proven.check(&statement, &proof), Err(VerifyError::Claims));
    let mut lie = witness.clone();
    lie.values[setup.plan.value_of(2).index()][0] += 1;
    let sealed = setup.seal_outputs(&other, &seeds(40).outputs).expect("they fit");
    let proof = prove(sealed.expect("outputs are hidden"), &lie);
    assert!(proven.check(&statement, &proof).is_err());
}

/// Goal: a proof is about the weights behind the root. Method: another root of the same weights,
/// and a root of weights of which one is another, with a run of either.
#[test]
fn run_with_other_weights_than_committed_is_refused() {
    let (net, shown) = (Net::Dense, ALL[0]);
    let proven = proven(net, 1, shown, Some(key(9)));
    let again = ZkProver::new(net.model(), 1, shown, Some(key(9))).expect("provable");
    assert_eq!(again.commitment(), proven.prover.commitment());
    let other = ZkProver::new(net.model(), 1, shown, Some(key(10))).expect("provable");
    assert_ne!(other.commitment(), proven.prover.commitment());
    let verifier = verifier(net, other.commitment(), 1, shown);
    assert!(verifier.verify(&proven.statement, &proven.proof.to_bytes()).is_err());

    let setup = proven.prover.setup();
    let owned = setup.owned(Tree::Weights).expect("weights are hidden");
    let mut cells = owned.cells(&proven.prover.seal_weights().expect("weights are hidden"));
    cells[0] += crate::field::int(1);
    let sealed = owned.commit_cells(cells, Seed::new([3; 32]).generator(Stream::Commitment, 0));
    let weights = HiddenWeights { root: HidingRoot::of(&sealed.root), openings: 4 };
    let verifier = self::verifier(net, Some(weights), 1, shown);
    let runner = Runner::new(net.model(), Options { threads: 1, path: None });
    let witness = Witness::new(&setup.plan, &runner, &proven.inputs).expect("inputs that fit");
    let (statement, seed) = (&proven.statement, seeds(40).proof);
    let proof = proven.prover.prove_witness(statement, vec![sealed], &seed, [&witness; 2], true);
    let found = verifier.verify(statement, &proof.to_bytes()).map(drop);
    assert_eq!(found, Err(VerifyError::Claims));
}

#[test]
fn statement_that_shows_what_should_be_committed_is_refused() {
    for shown in ALL {
        let proven = proven(Net::Dense, 1, shown, Some(key(9)));
        for other in ALL.into_iter().filter(|other| *other != shown) {
            let verifier = verifier(Net::Dense, proven.prover.commitment(), 1, other);
            let found = verifier.verify(&proven.statement, &proven.proof.to_bytes()).map(drop);
            assert_eq!(found, Err(VerifyError::Secrecy), "{shown:?} {other:?}");
        }
    }
    let proven = proven(Net::Dense, 1, ALL[0], Some(key(9)));
    let verifier = verifier(Net::Dense, None, 1, ALL[0]);
    assert!(verifier.verify(&proven.statement, &proven.proof.to_bytes()).is_err());
}

#[test]
fn bytes_of_a_commitment_to_weights_are_read_again() {
    let prover = ZkProver::new(Net::Dense.model(), 1, ALL[0], Some(key(9))).expect("provable");
    let weights = prover.commitment().expect("weights are hidden");
    assert_eq!(HiddenWeights::from_bytes(&weights.to_bytes()), Some(weights));
    assert_eq!(HiddenWeights::from_bytes(&[0xff; 34]), None);
    let other = HiddenWeights { openings: 5, ..weights };
    assert_ne!(other.id(), weights.id());
}

#[test]
fn no_more_proofs_are_made_than_the_commitment_hides() {
    let prover = ZkProver::new(Net::Dense.model(), 1, ALL[0], Some(key(9))).expect("provable");
    let prove =
        |byte: u8| prover.prove(&[Net::Dense.inputs(0)], &seeds(byte), CONTEXT.to_vec()).map(drop);
    for byte in 0..4 {
        assert_eq!(prove(byte), Ok(()));
    }
    assert_eq!(prove(9), Err(ProveError::Openings { most: 4 }));
    assert_eq!(prover.used(), 4);
    let asked = WeightsKey::new(Seed::new([1; 32]), u16::MAX, 0);
    let found = ZkProver::new(Net::Dense.model(), 1, ALL[0], Some(asked)).map(drop);
    assert!(matches!(found, Err(PlanError::Large { .. })));
}

/// Goal: the noise suffices for all openings. Method: as many rows of the code that are nothing but
/// noise as all openings together show, and at the end of every part of the message: with other
/// randomness, these cells differ and all others are the same.
#[test]
fn every_part_of_secret_weights_ends_in_noise_for_all_openings() {
    for openings in [1, 4, 30] {
        let key = |byte: u8| Some(WeightsKey::new(Seed::new([byte; 32]), openings, 0));
        let prover =
            |byte: u8| ZkProver::new(Net::Dense.model(), 1, ALL[0], key(byte)).expect("provable");
        let (first, second) = (prover(1), prover(2));
        let owned = first.setup().owned(Tree::Weights).expect("weights are hidden");
        let rows = usize::from(openings) * owned.pcs.queries();
        let sealed = [&first, &second].map(|one| one.seal_weights().expect("weights are hidden"));
        let [one, two] = sealed.each_ref().map(|sealed| sealed.kept.message.as_slice());
        let part = one.len() >> owned.pcs.fold();
        assert!(rows <= part);
        for (one, two) in one.chunks(part).zip(two.chunks(part)) {
            let same = one.iter().zip(two).filter(|(one, two)| one == two).count();
            assert!(same <= part - rows);
            assert!(
                one[part - rows..].iter().zip(&two[part - rows..]).all(|(one, two)| one != two)
            );
        }
    }
}

/// Goal: two proofs about the same weights and inputs have no number in common but those that the
/// statement shows. Method: all messages of both, with other seeds.
#[test]
fn proofs_about_the_same_weights_share_no_message() {
    let prover = ZkProver::new(Net::Dense.model(), 1, ALL[0], Some(key(9))).expect("provable");
    let prove = |byte: u8| {
        let found = prover.prove(&[Net::Dense.inputs(0)], &seeds(byte), CONTEXT.to_vec());
        found.expect("inputs that fit").1
    };
    let messages = |proof: &HidingProof| {
        let mut all = proof.claims.clone();
        all.extend(proof.lower.iter().chain(&proof.factors));
        all.extend(proof.last.rounds.iter().flatten());
        all.extend(&proof.last.shown);
        all.extend(proof.opening.evals.iter().chain(&proof.owned[0].evals));
        all
    };
    let (first, second) = (messages(&prove(1)), messages(&prove(2)));
    assert!(first.iter().all(|message| !second.contains(message)));
}

/// A program that gives its inputs, by a table, and the number of a second one.
fn echo(second: i16) -> Arc<Model> {
    let spec = Spec { len: 12, lo: -20, hi: 20 };
    let (label, shape) = (|| Label::lossy("x"), || Shape::new(vec![12]).expect("one side"));
    let entries = |entry: fn(i16) -> i16| {
        let entries = List::new((-20..=20).map(entry).collect()).expect("few entries");
        Primitive::Table { x: ValueId { number: 0 }, entries }
    };
    let operation = |primitive| Operation { label: label(), spec, primitive };
    let last = if second == 0 { entries(|_| 0) } else { entries(|_| 1) };
    let output = |number| {
        let value = ValueId { number };
        Output { label: label(), shape: shape(), value, scaling: None }
    };
    let parts = Parts {
        inputs: vec![Input { label: label(), shape: shape(), spec, scaling: None }],
        operations: vec![operation(entries(|x| x)), operation(last)],
        outputs: if second < 0 { vec![output(1)] } else { vec![output(1), output(2)] },
        ..Parts::default()
    };
    let program = Program::new(parts).expect("a program");
    Arc::new(Model::new(program, Vec::new()).expect("it has no constants"))
}

/// Goal: one seed for several things hides each of them. Method: a program that gives its inputs;
/// with one seed, commitments to inputs and to outputs have the same numbers and size, and so have
/// those of another program; two proofs of the same differ in their context only.
#[test]
fn one_seed_gives_no_randomness_twice() {
    let shown = Shown { inputs: false, outputs: false };
    let numbers: Vec<i64> = (0..12).map(|place| place * 7 % 41 - 20).collect();
    let spec = Spec { len: 12, lo: -20, hi: 20 };
    let inputs = vec![vec![Tensor::new(&spec, &numbers).expect("of the range")]];
    let seed = || Seed::new([8; 32]);
    let model = echo(-1);
    let prover = ZkProver::new(model.clone(), 1, shown, None).expect("provable");
    let prove = |context: &[u8]| {
        let seeds = ZkSeeds { inputs: seed(), outputs: seed(), proof: seed() };
        prover.prove(&inputs, &seeds, context.to_vec()).expect("inputs that fit")
    };
    let (statement, first) = prove(b"one");
    assert_ne!(statement.inputs, statement.outputs);
    let setup = prover.setup();
    let sealed = |tree: Tree| {
        let sealed = if tree == Tree::Inputs {
            setup.seal_inputs(&inputs, &seed())
        } else {
            setup.seal_outputs(&inputs, &seed())
        };
        let sealed = sealed.expect("they fit").expect("they are hidden");
        sealed.kept.message.as_slice().to_vec()
    };
    let cells = [sealed(Tree::Inputs), sealed(Tree::Outputs)];
    let [one, two] = &cells;
    assert_eq!(one.len(), two.len());
    let noise = one.iter().zip(two).filter(|(one, two)| one != two).count();
    assert_eq!(noise, 1 << super::super::stack::NOISE_BITS, "all noise is other noise");

    let (again, second) = prove(b"two");
    assert_eq!((again.inputs, again.outputs), (statement.inputs.clone(), statement.outputs));
    assert_ne!(first.root, second.root);
    assert!(first.last.shown.iter().all(|message| !second.last.shown.contains(message)));

    let [zeros, ones] = [0, 1].map(|second| {
        let weights = Weights::Known(echo(second));
        let verifier = ZkVerifier::new(weights, 1, shown).expect("it can be verified");
        Tensors::Committed(verifier.commit_inputs(&inputs, &seed()).expect("they fit"))
    });
    assert_ne!(zeros, ones);
    assert_ne!(zeros, statement.inputs);
}

/// Goal: the number of proofs that a commitment is good for is a part of it. Method: numbers that
/// give the same stack, so that nothing else tells them apart.
#[test]
fn proof_about_the_same_root_for_more_proofs_is_refused() {
    let proven = proven(Net::Dense, 1, ALL[0], Some(key(9)));
    let weights = proven.prover.commitment().expect("weights are hidden");
    let bytes = proven.proof.to_bytes();
    let stack = |openings: u16| {
        let weights = HiddenWeights { openings, ..weights };
        let verifier = verifier(Net::Dense, Some(weights), 1, ALL[0]);
        (verifier.verify(&proven.statement, &bytes).is_ok(), openings)
    };
    let same = |openings: &u16| {
        let key = WeightsKey::new(Seed::new([9; 32]), *openings, 0);
        let prover = ZkProver::new(Net::Dense.model(), 1, ALL[0], Some(key)).expect("provable");
        let bits =
            |prover: &ZkProver| prover.setup().owned(Tree::Weights).map(|one| one.pcs.bits());
        bits(&prover) == bits(&proven.prover)
    };
    let others: Vec<u16> = [1, 2, 3, 5, 6].into_iter().filter(same).collect();
    assert!(!others.is_empty(), "another number gives the same stack");
    assert_eq!(stack(4), (true, 4));
    for openings in others {
        assert_eq!(stack(openings), (false, openings));
    }
}
