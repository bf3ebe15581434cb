//! Lies where a proof is large: limbs of more bits than small proofs have, and a first round that
//! folds six variables. How many bits a limb has is chosen by what costs least; here it is said, so
//! that small programs take the ways of large ones.

use super::lies::Liar;
use super::programs::Net;
use super::{CONTEXT, proven_with, setup_with};
use crate::plan::{Clamping, Lookup, Rescaled, Sizes, Table};
use crate::witness::Witness;
use crate::{Mode, Proof, Prover, Verifier};
use p3_whir::pcs::proof::QueryOpenings;
use std::sync::Arc;
use tg_tensor::{Model, Tensor};

/// Inferences of a proof: with fewer, columns would be too small for the large first round.
const BATCH: i64 = 4;

/// Numbers of a row of the first codeword where six variables are folded.
const LARGE_ROW: usize = 64;

/// Sizes with limbs of up to so many bits.
fn sizes(widest: &[u8; 1]) -> Sizes<'_> {
    Sizes { limb_bits: widest, ..Sizes::USUAL }
}

/// An honest proof with limbs of up to so many bits, and one who lies about it.
fn liar(net: Net, mode: Mode, widest: u8) -> Liar {
    let model = net.model();
    let inputs: Vec<Vec<Tensor>> = (0..BATCH).map(|seed| net.inputs(seed)).collect();
    let liar = Liar::of(&model, proven_with(&model, mode, inputs, &sizes(&[widest])));
    let bits = liar.proven.check();
    assert!(bits.clone().is_ok_and(|bits| bits >= 100.0), "{net:?} {mode:?} {bits:?}");
    liar
}

/// Whether limbs of so many bits are looked up.
fn has_limbs_of(liar: &Liar, bits: u8) -> bool {
    let plan = &liar.setup().plan;
    plan.groups.iter().any(|group| {
        matches!(group.what, Lookup::Limb(..))
            && plan.tables[group.table] == Table::Range { size: 1 << bits }
    })
}

fn first_row(proof: &Proof) -> usize {
    match &proof.opening.whir.rounds[0].openings {
        QueryOpenings::Base(opened) => opened.rows[0].len(),
        QueryOpenings::Extension(opened) => opened.rows[0].len(),
    }
}

/// Goal: lies are refused however the dropped bits are cut. Method: limbs of at most 14 bits; a
/// shift of 18 takes two limbs, and a shift of 12 leaves finer keys beside the first shift.
#[test]
fn lies_with_wide_limbs_and_finer_keys_are_refused() {
    for net in [Net::Coarse, Net::Depthwise] {
        let liar = liar(net, Mode::Public, 14);
        let is_finer = liar.setup().plan.rescales.values().any(|rescaled| rescaled.fine > 0);
        assert!(is_finer || has_limbs_of(&liar, 9), "{net:?}");
        liar.lies_about_activations();
        liar.lies_about_remainders();
        liar.lies_about_limbs();
        liar.lies_about_look_ups();
    }
}

/// Whether a large proof from these numbers is refused, which are not the right ones.
fn refuses(liar: &Liar, committed: &Witness, shown: &Witness) -> bool {
    let statement = &liar.proven.statement;
    let proof = liar.proven.prover.prove_witness(statement, committed, shown, true);
    assert_eq!(first_row(&proof), LARGE_ROW);
    assert_ne!(proof.to_bytes(), liar.proven.proof.to_bytes(), "a lie that is none");
    liar.proven.refuses(statement, &proof)
}

/// Goal: a large proof of a false run is refused. Method: the smallest program with a limb of 18
/// bits, whose table alone makes the commitment large; a wrong activation, look-up, limb, output
/// and row of the first codeword.
#[test]
fn lies_in_a_large_proof_are_refused() {
    let liar = liar(Net::Coarse, Mode::Committed, 18);
    assert!(has_limbs_of(&liar, 18));
    let (statement, honest) = (&liar.proven.statement, &liar.witness);
    assert_eq!(first_row(&liar.proven.proof), LARGE_ROW);
    let plan = &liar.setup().plan;
    let refuses = |committed, shown| refuses(&liar, committed, shown);

    let mut lie = honest.clone();
    lie.values[plan.value_of(0).index()][5] ^= 1;
    assert!(refuses(&lie, &lie) && refuses(&lie, honest) && refuses(honest, &lie), "activation");

    let mut lie = honest.clone();
    lie.limbs.get_mut(&0).expect("it has limbs")[0][3] ^= 1;
    assert!(refuses(&lie, &lie) && refuses(&lie, honest), "limb");
    let mut lie = honest.clone();
    let limb = plan.groups.iter().position(|group| matches!(group.what, Lookup::Limb(0, 0)));
    lie.limbs.get_mut(&0).expect("it has limbs")[0][0] += 1 << 18;
    let limb = limb.expect("limbs are looked up");
    lie.lookups[limb].change(0, |numbers| numbers[0] += 1 << 18);
    assert!(refuses(&lie, &lie), "limb out of its range");

    let entry = plan.groups.iter().position(|group| group.what == Lookup::Entry(1));
    let entry = entry.expect("the table is looked up");
    let mut lie = honest.clone();
    lie.values[plan.value_of(1).index()][2] += 1;
    lie.lookups[entry].change(2, |numbers| numbers[1] += 1);
    assert!(refuses(&lie, &lie), "output of a look-up");

    let mut proof = liar.proven.proof.clone();
    if let QueryOpenings::Base(opened) = &mut proof.opening.whir.rounds[0].openings {
        opened.rows[0][LARGE_ROW - 1] += crate::field::int(1);
    }
    assert!(liar.proven.refuses(statement, &proof), "row");
}

/// Goal: where all rounded numbers of a large proof are keys of a table, each has its own element.
/// Method: another element beside the key, another key with the element that belongs to it, and a
/// limb out of its range that makes up for another key.
#[test]
fn lies_about_keys_in_a_large_proof_are_refused() {
    let liar = liar(Net::Keyed, Mode::Committed, 18);
    let plan = &liar.setup().plan;
    let by_keys = |(_, rescaled): &(&usize, &Rescaled)| rescaled.clamping == Clamping::Keys;
    let (operation, rescaled) = plan.rescales.iter().find(by_keys).expect("one has keys");
    assert_eq!((rescaled.fine, has_limbs_of(&liar, 18)), (0, true));
    let find = |what| plan.groups.iter().position(|group| group.what == what).expect("looked up");
    let (clamp, limb) = (find(Lookup::Clamp(*operation)), find(Lookup::Limb(*operation, 0)));
    let table = plan.groups[clamp].table;
    let value = plan.value_of(*operation).index();
    let of = |lie: &mut Witness, key: i32| {
        let old = lie.lookups[clamp].get(0);
        let place = |key: i32| plan.tables[table].place(key.into());
        lie.multiplicities[table][place(old[0]).expect("a key")] -= 1;
        let place = place(key).expect("a key");
        lie.multiplicities[table][place] += 1;
        let [_, element, _] = plan.tables[table].entry(place);
        lie.lookups[clamp].set(0, [key, element as i32, 0]);
        lie.values[value][0] = element as i32;
    };
    let honest = &liar.witness;
    let [key, element, _] = honest.lookups[clamp].get(0);

    let mut lie = honest.clone();
    lie.values[value][0] = element ^ 1;
    assert!(refuses(&liar, &lie, &lie) && refuses(&liar, honest, &lie), "element");
    lie.lookups[clamp].change(0, |numbers| numbers[1] = element ^ 1);
    assert!(refuses(&liar, &lie, &lie), "pair that is not in the table");

    let other =
        if plan.tables[table].place((key + 1).into()).is_some() { key + 1 } else { key - 1 };
    let mut lie = honest.clone();
    of(&mut lie, other);
    assert!(refuses(&liar, &lie, &lie), "pair of another key");

    let moved = (key - other) << 18;
    lie.limbs.get_mut(operation).expect("it has limbs")[0][0] += moved;
    lie.lookups[limb].change(0, |numbers| numbers[0] += moved);
    assert!(refuses(&liar, &lie, &lie), "limb that makes up for it");
}

/// Goal: nobody proves a large run with other weights than are named. Method: a prover of a model
/// with two weights swapped names, and opens, those of the right one.
#[test]
fn wrong_weights_in_a_large_proof_are_refused() {
    let (net, mode) = (Net::Coarse, Mode::Committed);
    let (ours, theirs) = (net.model(), net.model_swapped());
    assert_eq!(ours.program().id(), theirs.program().id());
    let setup = |model: &Model| setup_with(model, mode, BATCH as usize, &sizes(&[18]));
    let prover = |model: &Arc<Model>| Prover::with(setup(model), model.clone());
    let verifier = Verifier::with(Arc::new(setup(&ours)), prover(&ours).commitment());
    let inputs = (0..BATCH).map(|seed| net.inputs(seed)).collect();
    let disguised = prover(&theirs).disguised(prover(&ours));
    let (statement, proof) = disguised.prove(inputs, CONTEXT.to_vec()).expect("inputs that fit");
    assert_eq!(first_row(&proof), LARGE_ROW);
    assert!(verifier.verify(&statement, &proof.to_bytes()).is_err());
}
