//! What a proof shows: counts, and messages that are never the same.

use super::{CONTEXT, NETS, proven, seeds};
use crate::field::{DEGREE, EF, F};
use crate::hiding::HidingProof;
use crate::hiding::last::RUN_CLAIMS;
use crate::hiding::stack::{self, MASK_BITS, NOISE_BITS};
use crate::tests::programs::Net;
use crate::{Mode, Prover};
use p3_field::{BasedVectorSpace, PrimeField32};
use p3_whir::pcs::proof::QueryOpenings;
use std::collections::BTreeSet;
use tg_tensor::{Options, Runner, Tensor};

/// The messages that are covered by pads.
pub(super) fn covered(proof: &mut HidingProof) -> Vec<&mut EF> {
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

/// All numbers that a proof shows before its openings, and the values that these are of.
pub(super) fn messages(proof: &mut HidingProof) -> Vec<EF> {
    let mut all: Vec<EF> = covered(proof).into_iter().map(|message| *message).collect();
    all.extend(&proof.factors);
    all.extend(proof.last.rounds.iter().flatten());
    all.extend([proof.last.mask, proof.last.blind]);
    all.extend(&proof.last.shown);
    all.extend(proof.opening.evals.iter().chain(&proof.owned[0].evals));
    all
}

/// Adds the coordinates of opened rows.
fn add_rows<P>(all: &mut Vec<u32>, opened: &QueryOpenings<F, EF, P>) {
    match opened {
        QueryOpenings::Base(opened) => {
            all.extend(opened.rows.iter().flatten().map(|cell| cell.as_canonical_u32()));
        }
        QueryOpenings::Extension(opened) => add_all(all, opened.rows.iter().flatten()),
    }
}

/// Adds the coordinates of elements.
fn add_all<'a>(all: &mut Vec<u32>, elements: impl IntoIterator<Item = &'a EF>) {
    for element in elements {
        let parts: &[F] = element.as_basis_coefficients_slice();
        all.extend(parts.iter().map(|part| part.as_canonical_u32()));
    }
}

/// All coordinates that the openings show: rows of words and masks, rounds, answers, what is left
/// at their ends.
pub(super) fn opened(proof: &HidingProof) -> Vec<u32> {
    let mut all = Vec::new();
    for opening in [&proof.opening].into_iter().chain(&proof.owned) {
        for sum in &opening.sumchecks {
            add_all(&mut all, [&sum.mu_tilde]);
            add_all(&mut all, sum.round_coefficients.iter().flatten());
        }
        for round in &opening.rounds {
            add_all(&mut all, &round.ood_answers);
            add_rows(&mut all, &round.openings);
        }
        let base = &opening.base_case;
        add_all(&mut all, [&base.masked_claim]);
        add_all(&mut all, base.blinded_message.iter().chain(&base.blinded_randomness));
        for mask in &base.blinded_masks {
            add_all(&mut all, mask.message.iter().chain(&mask.randomness));
        }
        add_rows(&mut all, &base.source_openings);
        add_all(&mut all, base.fresh_main_openings.rows.iter().flatten());
        for pair in &base.mask_openings {
            add_all(&mut all, pair.carried.rows.iter().chain(&pair.fresh.rows).flatten());
        }
    }
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
pub(super) fn twins(net: Net) -> [Vec<Tensor>; 2] {
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
    let shown: BTreeSet<String> = messages(&mut seen).iter().map(|m| format!("{m:?}")).collect();
    for (inputs, seed) in [(&first, 2), (&first, 3), (&second, 2), (&second, 3)] {
        let (guessed, mut guess) = prove(inputs, seed);
        assert_ne!(guessed.inputs, statement.inputs);
        assert_ne!(guess.root, seen.root);
        let found = messages(&mut guess);
        assert!(found.iter().all(|message| !shown.contains(&format!("{message:?}"))));
    }
}
