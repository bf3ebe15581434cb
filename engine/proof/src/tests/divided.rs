//! Runs with two commitments, and columns that are cut. From which size on that is done is said
//! here, so that small programs take the ways of large ones.

use super::lies::{Liar, rows, shorten, twice};
use super::programs::Net;
use super::sponge::{Rule, under};
use super::{Proven, proven_with, setup_with};
use crate::codec::Rest;
use crate::field::{ext, int};
use crate::plan::{At, Piece, Plan, Sizes, Tree};
use crate::{Mode, Proof, VerifyError};
use std::collections::BTreeSet;
use tg_tensor::Tensor;

/// Every stack is divided if that saves a quarter.
const ALWAYS: Sizes<'static> = Sizes { divided_bits: 0, ..Sizes::USUAL };

/// Divided runs that are lied about.
const DIVIDED: [(Net, Mode, i64); 5] = [
    (Net::Convolution, Mode::Public, 3),
    (Net::Moved, Mode::Public, 1),
    (Net::Attention, Mode::Public, 3),
    (Net::Choices, Mode::Public, 16),
    (Net::Wide, Mode::Public, 3),
];

/// A run with committed weights.
const SECRET: (Net, Mode, i64) = (Net::Convolution, Mode::Committed, 3);

/// A run that is cut and has one stack.
const CUT: (Net, Mode, i64) = (Net::Convolution, Mode::Public, 1);

fn inputs(net: Net, batch: i64, first: i64) -> Vec<Vec<Tensor>> {
    (first..first + batch).map(|seed| net.inputs(seed)).collect()
}

/// An honest proof of a run that is divided.
pub(super) fn proven(net: Net, mode: Mode, batch: i64) -> Proven {
    let proven = proven_with(&net.model(), mode, inputs(net, batch, 0), &ALWAYS);
    let bits = proven.check();
    assert!(bits.clone().is_ok_and(|bits| bits >= 100.0), "{net:?} {mode:?} {bits:?}");
    assert!(proven.proof.rest.is_some(), "{net:?} {mode:?}");
    proven
}

/// One who lies about a run.
fn liar((net, mode, batch): (Net, Mode, i64)) -> Liar {
    Liar::of(&net.model(), proven(net, mode, batch))
}

/// The tables of both stacks of a run.
fn stacks(plan: &Plan) -> [&[Piece]; 2] {
    [Tree::Run, Tree::Rest].map(|tree| plan.pieces[tree as usize].as_slice())
}

/// Bundles whose columns are cut.
fn cut(plan: &Plan) -> BTreeSet<usize> {
    let all = stacks(plan).into_iter().flatten();
    all.filter(|piece| !piece.cut.is_first()).map(|piece| piece.bundle).collect()
}

/// Goal: what is tried below has all kinds of pieces. Method: look for columns with pieces in both
/// stacks, and for those that are cut and opened at the end of each argument.
#[test]
fn divided_runs_have_pieces_of_all_kinds() {
    let (mut in_both, mut opened) = (0, BTreeSet::new());
    for (net, mode, batch) in DIVIDED.into_iter().chain([SECRET]) {
        let plan = setup_with(&net.model(), mode, batch as usize, &ALWAYS).plan;
        let (cut, [run, rest]) = (cut(&plan), stacks(&plan));
        assert!(!run.is_empty() && !rest.is_empty(), "{net:?} {mode:?}");
        let is_in = |stack: &[Piece], bundle| stack.iter().any(|piece| piece.bundle == bundle);
        in_both += cut.iter().filter(|at| is_in(run, **at) && is_in(rest, **at)).count();
        for (tree, pieces) in [Tree::Run, Tree::Rest].into_iter().zip([run, rest]) {
            let of_cut = |at: &usize| cut.contains(&pieces[*at].bundle);
            let all = plan.opened[tree as usize].iter().filter(|opened| of_cut(&opened.piece));
            opened.extend(all.map(|opened| match opened.at {
                At::Lookups => "look-ups",
                At::Product(_) => "product",
                At::Functional => "functional",
                At::Slice(_) => "slice",
                At::Checks => "checks",
            }));
        }
    }
    assert!(in_both > 0);
    assert!(opened.is_superset(&["functional", "look-ups", "product"].into()), "{opened:?}");
}

/// Goal: what jobs on the network prove has one opening, as they may show so many bytes. Method:
/// plans of all programs for one inference with committed weights.
#[test]
fn one_inference_with_committed_weights_is_not_divided() {
    for net in Net::ALL {
        let plan = setup_with(&net.model(), Mode::Committed, 1, &ALWAYS).plan;
        assert!(cut(&plan).is_empty() && stacks(&plan)[1].is_empty(), "{net:?}");
    }
}

/// Goal: no number of a divided run is free. Method: every lie about activations, limbs, look-ups,
/// multiplicities and outputs.
#[test]
fn lies_about_divided_runs_are_refused() {
    for liar in DIVIDED.map(liar) {
        liar.lies_about_activations();
        liar.lies_about_remainders();
        liar.lies_about_limbs();
        liar.lies_about_look_ups();
        liar.lies_about_multiplicities();
        liar.lies_about_outputs();
    }
}

#[test]
fn lies_about_a_divided_run_with_secret_weights_are_refused() {
    let liar = liar(SECRET);
    liar.lies_about_activations();
    liar.lies_about_outputs();
}

#[test]
fn lies_about_a_run_that_is_cut_and_has_one_stack_are_refused() {
    let (net, mode, batch) = CUT;
    let proven = proven_with(&net.model(), mode, inputs(net, batch, 0), &ALWAYS);
    assert!(proven.check().is_ok() && proven.proof.rest.is_none());
    let liar = Liar::of(&net.model(), proven);
    assert!(!cut(&liar.setup().plan).is_empty());
    liar.lies_about_activations();
    liar.lies_about_limbs();
    liar.lies_about_multiplicities();
    liar.lies_about_outputs();
}

/// Goal: a run has as many commitments as are planned. Method: the second one left out, added
/// where none belongs, exchanged with the first, or another one's.
#[test]
fn another_number_of_commitments_is_refused() {
    let first = proven(Net::Convolution, Mode::Public, 3);
    let mut without = first.proof.clone();
    let rest = without.rest.take();
    let refused = |proof: &Proof| first.verifier.verify(&first.statement, &proof.to_bytes()).err();
    assert_eq!(refused(&without), Some(VerifyError::Opening("values")));
    let mut exchanged = first.proof.clone();
    if let Some(Rest { root, opening }) = &mut exchanged.rest {
        std::mem::swap(&mut exchanged.root, root);
        std::mem::swap(&mut exchanged.opening, opening);
    }
    assert!(refused(&exchanged).is_some());
    let mut others = first.proof.clone();
    others.rest.iter_mut().for_each(|rest| rest.root = first.proof.root.clone());
    assert!(refused(&others).is_some());
    let whole = super::proven(&Net::Dense.model(), Mode::Public, inputs(Net::Dense, 1, 0));
    assert!(whole.proof.rest.is_none());
    let mut more = whole.proof.clone();
    more.rest = rest;
    assert!(whole.refuses(&whole.statement, &more));
}

/// Goal: both stacks are of one run. Method: root and opening of the second one, or the opening
/// alone, of a proof of other inputs.
#[test]
fn second_stack_of_other_inputs_is_refused() {
    for (net, mode, batch) in DIVIDED.into_iter().chain([SECRET]) {
        let ours = proven(net, mode, batch);
        let theirs = proven_with(&net.model(), mode, inputs(net, batch, 9), &ALWAYS);
        assert!(theirs.check().is_ok());
        let mut spliced = ours.proof.clone();
        spliced.rest = theirs.proof.rest.clone();
        assert!(spliced.to_bytes() != ours.proof.to_bytes(), "{net:?} {mode:?}");
        assert!(ours.refuses(&ours.statement, &spliced), "{net:?} {mode:?}");
        spliced.rest.iter_mut().zip(&ours.proof.rest).for_each(|(to, own)| {
            to.root = own.root.clone();
        });
        assert!(ours.refuses(&ours.statement, &spliced), "{net:?} {mode:?}");
    }
}

/// Goal: a second commitment of another shape is refused without a panic. Method: every list of it
/// shortened, every part of it left out, rows added, roots doubled.
#[test]
fn second_commitments_of_another_shape_are_refused() {
    let changes: [fn(&mut Rest); 15] = [
        |rest| rest.root = twice(&rest.root),
        |rest| shorten(&mut rest.opening.evals),
        |rest| rest.opening.evals.push(rest.opening.evals[0].clone()),
        |rest| shorten(&mut rest.opening.whir.rounds),
        |rest| rest.opening.whir.rounds[0].commitment = None,
        |rest| {
            let round = &mut rest.opening.whir.rounds[0];
            round.commitment = round.commitment.as_ref().map(twice);
        },
        |rest| shorten(&mut rest.opening.whir.rounds[0].ood_answers),
        |rest| rest.opening.whir.final_poly = None,
        |rest| shorten(&mut rest.opening.whir.initial_ood_answers),
        |rest| shorten(&mut rest.opening.whir.initial_sumcheck.polynomial_evaluations),
        |rest| rows(&mut rest.opening, shorten, shorten),
        |rest| rows(&mut rest.opening, |r| shorten(&mut r[0]), |r| shorten(&mut r[0])),
        |rest| rows(&mut rest.opening, |r| r.push(r[0].clone()), |r| r.push(r[0].clone())),
        |rest| rows(&mut rest.opening, |r| r[0].push(int(1)), |r| r[0].push(ext(1))),
        |rest| {
            let stray = rest.opening.whir.final_sumcheck.take();
            rest.opening.whir.final_sumcheck = stray.is_none().then(Default::default);
        },
    ];
    for mode in [Mode::Public, Mode::Committed] {
        let proven = proven(Net::Convolution, mode, 3);
        for (index, change) in changes.into_iter().enumerate() {
            let mut proof = proven.proof.clone();
            proof.rest.iter_mut().for_each(change);
            assert!(proof.to_bytes() != proven.proof.to_bytes(), "change {index}");
            assert!(proven.refuses(&proven.statement, &proof), "change {index}");
        }
    }
}

/// Goal: the second root is absorbed before anything is drawn, so that nobody chooses what lies
/// there for known challenges, as the forger does who chooses the columns last. Method: what a
/// verifier draws with another second root, and what a mutant does that is deaf to it.
#[test]
fn second_commitment_is_absorbed_before_anything_is_drawn() {
    let proven = proven(Net::Convolution, Mode::Public, 3);
    let mut other = proven.proof.clone();
    other.rest.iter_mut().for_each(|rest| rest.root = proven.proof.root.clone());
    let listen = |rule: &Rule, proof: &Proof| {
        under(rule, || proven.verifier.verify(&proven.statement, &proof.to_bytes()).is_ok()).1
    };
    let root = proven.proof.rest.as_ref().map(|rest| rest.root.clone()).expect("it is divided");
    let heard = listen(&Rule::default(), &proven.proof);
    assert_ne!(heard.drawn[0], listen(&Rule::default(), &other).drawn[0]);
    let mutant = Rule::deaf(heard.place_of(0, &root.roots()[0]));
    assert_eq!(listen(&mutant, &proven.proof).drawn[0], listen(&mutant, &other).drawn[0]);
}
