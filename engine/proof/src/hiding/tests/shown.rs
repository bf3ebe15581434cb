//! What a proof shows: counts, a distinguisher, a simulator.

use super::{CONTEXT, NETS, proven, seeds};
use crate::field::{DEGREE, EF};
use crate::hiding::HidingProof;
use crate::hiding::last::{self, LastProof, RUN_CLAIMS};
use crate::hiding::stack::{self, MASK_BITS, NOISE_BITS};
use crate::hiding::walk::Walk;
use crate::tests::programs::Net;
use crate::{Mode, Prover};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;
use tg_tensor::{Options, Runner, Tensor};

/// The messages that are covered by pads.
fn covered(proof: &mut HidingProof) -> Vec<&mut EF> {
    let mut all = vec![&mut proof.lookups.root_denominator];
    for layer in &mut proof.lookups.layers {
        all.extend(layer.round_polys.iter_mut().flatten());
        let sent = &mut layer.claims;
        all.extend([&mut sent.n0, &mut sent.d0, &mut sent.n1, &mut sent.d1]);
    }
    if let Some(sum) = &mut proof.products {
        all.push(&mut sum.claimed_sum);
        all.extend(sum.round_polys.iter_mut().flatten());
    }
    all.extend(&mut proof.claims);
    all.extend(&mut proof.lower);
    all
}

/// Goal: as many pads as messages, so none covers two. The verifier refuses to have used another
/// number than the plan says.
#[test]
fn every_pad_covers_one_message_or_moves_one_factor() {
    for net in NETS {
        let mut proven = proven(net, 1);
        let messages = covered(&mut proven.proof).len();
        let pads = stack::pads(&proven.prover.setup().plan);
        assert_eq!(messages + proven.proof.factors.len(), pads, "{net:?}");
    }
}

/// Goal: no more is opened than is random. Method: count. The rounds of the last sum-check and the
/// sum of the mask are as many as the mask has coefficients; each opening of a stack or of a
/// coordinate of the mask has at least as many cells of noise as it has coordinates.
#[test]
fn opened_values_are_no_more_than_what_hides_them() {
    for net in NETS {
        let proven = proven(net, 1);
        let last = &proven.proof.last;
        let messages = 1 + last.rounds.iter().flatten().count();
        let coefficients = 1 + 2 * proven.prover.setup().rounds();
        assert_eq!(messages, coefficients);
        let spare = (1 << MASK_BITS) - coefficients;
        assert!(spare >= DEGREE && 1 << NOISE_BITS >= DEGREE);
        // The stack, each coordinate of the mask, and of the blind, which follows from the others.
        assert_eq!(proven.proof.opening.evals.len(), RUN_CLAIMS);
        assert_eq!(RUN_CLAIMS, 1 + DEGREE + DEGREE);
        assert_eq!(proven.proof.owned[0].evals.len(), 1);
    }
}

/// Two inputs with the same outputs.
fn twins(net: Net) -> [Vec<Tensor>; 2] {
    let runner = Runner::new(net.model(), Options { threads: 1, path: None });
    let first = net.inputs(0);
    let made = runner.run(&first).expect("inputs that fit");
    let spec = net.model().program().inputs()[0].spec;
    for place in 0..first[0].len() {
        let mut numbers = first[0].to_numbers();
        numbers[place] += if numbers[place] < i64::from(spec.hi) { 1 } else { -1 };
        let mut second = first.clone();
        second[0] = Tensor::new(&spec, &numbers).expect("of the range");
        if runner.run(&second).as_ref() == Ok(&made) {
            return [first, second];
        }
    }
    panic!("no twins");
}

/// Goal: a distinguisher that guesses inputs and makes the proof itself knows from proofs that do
/// not hide which of two inputs was used, from any of several messages, and from hiding ones does
/// not. Method: two inputs with the same outputs, so that the outputs do not tell.
#[test]
fn distinguisher_wins_without_hiding_and_loses_with_it() {
    let net = Net::Convolution;
    let [first, second] = twins(net);
    for mode in [Mode::Public, Mode::Committed] {
        let prover = Prover::new(net.model(), mode, 1).expect("it can be proven");
        let prove = |inputs: &Vec<Tensor>| {
            prover.prove(vec![inputs.clone()], CONTEXT.to_vec()).expect("inputs that fit")
        };
        let (seen, again, other) = (prove(&first).1, prove(&first).1, prove(&second).1);
        assert!(seen.root == again.root && seen.root != other.root);
        assert!(seen.claims == again.claims && seen.claims != other.claims);
    }
    let prover = crate::HidingProver::new(net.model(), 1).expect("it can be proven");
    let prove = |inputs: &Vec<Tensor>, seed: u8| {
        let all = [inputs.clone()];
        prover.prove(&all, &seeds(seed), CONTEXT.to_vec()).expect("inputs that fit")
    };
    // Whoever has the seeds can tell; nobody else: no message of two proofs is the same.
    let ((statement, mut seen), (same, again)) = (prove(&first, 1), prove(&first, 1));
    assert_eq!((&statement, seen.to_bytes()), (&same, again.to_bytes()));
    let messages = |proof: &mut HidingProof| {
        let mut all: Vec<EF> = covered(proof).into_iter().map(|message| *message).collect();
        all.extend(&proof.factors);
        all.extend(proof.last.rounds.iter().flatten());
        all.extend([proof.last.mask, proof.last.blind]);
        all.extend(&proof.last.shown);
        all.extend(proof.opening.evals.iter().chain(&proof.owned[0].evals));
        all
    };
    let shown: BTreeSet<String> = messages(&mut seen).iter().map(|m| format!("{m:?}")).collect();
    for (inputs, seed) in [(&first, 2), (&first, 3), (&second, 2), (&second, 3)] {
        let (guessed, mut guess) = prove(inputs, seed);
        assert_ne!(guessed.inputs, statement.inputs);
        assert_ne!(guess.root, seen.root);
        let found = messages(&mut guess);
        assert!(found.iter().all(|message| !shown.contains(&format!("{message:?}"))));
    }
}

/// Goal: what a verifier sees before the openings can be made without inputs. Method: uniform
/// messages, and one challenge, that of the mask, chosen beforehand; all that a verifier checks
/// beside the openings holds. Their own simulator is that of eprint 2026/391.
#[test]
fn simulator_without_inputs_makes_what_a_verifier_accepts() {
    for net in NETS {
        let proven = proven(net, 1);
        let setup = proven.prover.setup();
        let mut rng = StdRng::from_seed([3; 32]);
        let mut random = || -> EF { rng.random() };
        let mut proof = proven.proof.clone();
        covered(&mut proof).into_iter().for_each(|message| *message = random());
        proof.factors.iter_mut().for_each(|message| *message = random());

        let roots = [proven.statement.inputs.root()];
        let mut transcript = setup.begin(&(&proven.statement).into(), &roots);
        let mut walk = Walk::new(&setup.plan, &mut transcript);
        walk.lookups(&proof.lookups, &mut transcript).expect("the shape");
        walk.products(&proof.products, &mut transcript).expect("the shape");
        walk.claims(&proof.claims, &mut transcript).expect("the shape");
        walk.lower(&proof.lower, &mut transcript).expect("the shape");
        walk.factors(&proof.factors, &mut transcript).expect("the shape");
        let constants = setup.constants();
        let outputs = &proven.statement.outputs;
        let publics = crate::claims::Publics { inputs: &[], outputs, constants };
        let linear = walk.linear(Some(&publics)).expect("the plan is complete");

        let mut simulated = LastProof {
            mask: random(),
            rounds: (0..setup.rounds()).map(|_| [random(), random()]).collect(),
            blind: random(),
            shown: (0..1 << MASK_BITS).map(|_| random()).collect(),
        };
        let ended = last::replay(&simulated, setup.rounds(), linear.constant, &mut transcript);
        let mut ended = ended.expect("the shape");
        ended.program(random());
        walk.challenges.functionals = ended.point.clone();
        let weighed: EF = [&setup.run_stack, &setup.owned[0].stack]
            .into_iter()
            .map(|stack| {
                let weight = linear.eval(&setup.plan, &walk.challenges, stack);
                crate::sumcheck::shortened(&ended.point, stack.bits) * weight * random()
            })
            .sum();
        let masks: Vec<EF> = (0..DEGREE).map(|_| random()).collect();
        let opened = ended.simulate(&mut simulated, weighed, &masks);
        assert!(ended.closes(&simulated, weighed, &opened), "{net:?}");
    }
}
