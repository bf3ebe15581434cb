//! Every byte of a proof and of a statement matters, in all modes.
//!
//! Each byte of an encoding belongs to a class: lengths, roots, sums, rounds, evaluations, opened
//! rows, paths, work. The map is made part by part and is the whole encoding, so none is left out.

use super::programs::Net;
use super::{CONTEXT, divided, proven};
use crate::codec::write;
use crate::court::context;
use crate::field::{EF, F};
use crate::hiding::{HiddenOpening, LastProof};
use crate::pcs::Opening;
use crate::register::{self, RegisterError};
use crate::sumcheck::SumProof;
use crate::{
    HiddenWeights, HidingProof, HidingProver, HidingRoot, HidingStatement, HidingVerifier,
    InputsCommitment, Mode, Proof, Prover, Seed, Seeds, Shown, Statement, Tensors, Verifier,
    VerifyError, Weights, WeightsCommitment, WeightsKey, ZkProver, ZkSeeds, ZkStatement,
    ZkVerifier,
};
use p3_field::PrimeField32;
use p3_multi_stark::fractional_gkr::FractionGkrProof;
use p3_sumcheck::SumcheckData;
use p3_whir::pcs::proof::{QueryOpenings, SharedProofOpening};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use tg_tensor::Tensor;
use tg_types::{GenesisHash, JobId, NodeId};

/// Bytes of a class that are flipped.
const FLIPS: usize = 48;

/// A part of an encoding.
struct Piece {
    class: &'static str,
    at: usize,
    len: usize,
}

/// An encoding in parts.
#[derive(Default)]
struct Map {
    pieces: Vec<Piece>,
    bytes: Vec<u8>,
}

impl Map {
    fn add(&mut self, class: &'static str, part: &impl Serialize) {
        let bytes = write(part);
        self.pieces.push(Piece { class, at: self.bytes.len(), len: bytes.len() });
        self.bytes.extend(bytes);
    }

    fn len(&mut self, len: usize) {
        self.add("length", &len);
    }

    /// Whether something is there, or which of two things it is.
    fn tag(&mut self, tag: u8) {
        self.add("tag", &tag);
    }

    fn list(&mut self, class: &'static str, items: &[impl Serialize]) {
        self.len(items.len());
        items.iter().for_each(|item| self.add(class, item));
    }

    fn root(&mut self, root: &crate::pcs::Root) {
        self.list("root", root.roots());
    }

    fn lookups(&mut self, proof: &FractionGkrProof<EF>) {
        self.add("claimed sum", &proof.root_denominator);
        self.len(proof.layers.len());
        for layer in &proof.layers {
            self.list("round", &layer.round_polys);
            let sent = &layer.claims;
            self.add("evaluation", &[sent.n0, sent.d0, sent.n1, sent.d1]);
        }
    }

    fn sum(&mut self, proof: &Option<SumProof>) {
        self.tag(proof.is_some().into());
        let Some(proof) = proof else { return };
        self.add("claimed sum", &proof.claimed_sum);
        self.len(proof.round_polys.len());
        proof.round_polys.iter().for_each(|values| self.list("round", values));
        self.list("work", &proof.pow_witnesses);
    }

    fn quadratic(&mut self, proof: &SumcheckData<F, EF>) {
        self.list("round of an opening", &proof.polynomial_evaluations);
        self.list("work", &proof.pow_witnesses);
    }

    fn shared<T: Serialize, P: Serialize>(&mut self, opened: &SharedProofOpening<T, P>) {
        self.len(opened.rows.len());
        opened.rows.iter().for_each(|row| self.list("opened row", row));
        self.add("path", &opened.proof);
    }

    fn queries<P: Serialize>(&mut self, opened: &QueryOpenings<F, EF, P>) {
        match opened {
            QueryOpenings::Base(opened) => {
                self.tag(0);
                self.shared(opened);
            }
            QueryOpenings::Extension(opened) => {
                self.tag(1);
                self.shared(opened);
            }
        }
    }

    fn opening(&mut self, opening: &Opening) {
        let whir = &opening.whir;
        self.list("answer out of the domain", &whir.initial_ood_answers);
        self.quadratic(&whir.initial_sumcheck);
        self.len(whir.rounds.len());
        for round in &whir.rounds {
            self.tag(round.commitment.is_some().into());
            round.commitment.iter().for_each(|root| self.root(root));
            self.list("answer out of the domain", &round.ood_answers);
            self.add("work", &round.pow_witness);
            self.queries(&round.openings);
            self.quadratic(&round.sumcheck);
        }
        self.tag(whir.final_poly.is_some().into());
        whir.final_poly.iter().for_each(|last| self.add("last polynomial", last));
        self.add("work", &whir.final_pow_witness);
        self.queries(&whir.final_openings);
        self.tag(whir.final_sumcheck.is_some().into());
        whir.final_sumcheck.iter().for_each(|sum| self.quadratic(sum));
        self.len(opening.evals.len());
        for batch in &opening.evals {
            self.list("opened value", batch.current());
            self.len(0);
        }
    }

    fn hidden(&mut self, opening: &HiddenOpening) {
        self.list("opened value", &opening.evals);
        self.len(opening.sumchecks.len());
        for sum in &opening.sumchecks {
            self.add("claimed sum", &sum.mu_tilde);
            self.len(sum.round_coefficients.len());
            sum.round_coefficients.iter().for_each(|c| self.list("round of an opening", c));
            self.list("work", &sum.pow_witnesses);
        }
        self.len(opening.sumcheck_mask_commitments.len());
        opening.sumcheck_mask_commitments.iter().for_each(|root| self.root(root));
        self.len(opening.rounds.len());
        for round in &opening.rounds {
            self.root(&round.commitment);
            self.root(&round.mask_commitment);
            self.list("answer out of the domain", &round.ood_answers);
            self.add("work", &round.pow_witness);
            self.queries(&round.openings);
        }
        let base = &opening.base_case;
        self.root(&base.fresh_main_commitment);
        self.len(base.fresh_mask_commitments.len());
        base.fresh_mask_commitments.iter().for_each(|root| self.root(root));
        self.add("claimed sum", &base.masked_claim);
        self.list("last polynomial", &base.blinded_message);
        self.list("last polynomial", &base.blinded_randomness);
        self.len(base.blinded_masks.len());
        for mask in &base.blinded_masks {
            self.list("last polynomial", &mask.message);
            self.list("last polynomial", &mask.randomness);
        }
        self.add("work", &base.pow_witness);
        self.queries(&base.source_openings);
        self.shared(&base.fresh_main_openings);
        self.len(base.mask_openings.len());
        for pair in &base.mask_openings {
            self.shared(&pair.carried);
            self.shared(&pair.fresh);
        }
    }

    fn of(proof: &Proof) -> Self {
        let mut map = Self::default();
        map.list("accumulator", &proof.clear);
        map.root(&proof.root);
        map.lookups(&proof.lookups);
        map.sum(&proof.products);
        map.list("evaluation", &proof.claims);
        map.sum(&proof.functionals);
        map.opening(&proof.opening);
        map.tag(proof.rest.is_some().into());
        if let Some(rest) = &proof.rest {
            map.root(&rest.root);
            map.opening(&rest.opening);
        }
        map.len(proof.weights.len());
        proof.weights.iter().for_each(|opening| map.opening(opening));
        map
    }

    fn of_hiding(proof: &HidingProof) -> Self {
        let mut map = Self::default();
        map.root(&proof.root);
        map.lookups(&proof.lookups);
        map.sum(&proof.products);
        map.list("evaluation", &proof.claims);
        map.list("coefficient", &proof.lower);
        map.list("factor", &proof.factors);
        let LastProof { mask, rounds, blind, shown } = &proof.last;
        map.add("claimed sum", mask);
        map.list("round", rounds);
        map.add("claimed sum", blind);
        map.list("coefficient", shown);
        map.hidden(&proof.opening);
        map.len(proof.owned.len());
        proof.owned.iter().for_each(|opening| map.hidden(opening));
        map
    }
}

/// Flips bytes of every class there is within a part of the encoding; gives the classes.
fn flip(
    map: &Map,
    within: &Range<usize>,
    verify: &dyn Fn(&[u8]) -> Result<(), VerifyError>,
) -> BTreeMap<&'static str, Vec<usize>> {
    let mut classes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for piece in map.pieces.iter().filter(|piece| within.contains(&piece.at)) {
        classes.entry(piece.class).or_default().extend(piece.at..piece.at + piece.len);
    }
    for (class, places) in &classes {
        let step = (places.len() / FLIPS).max(1) | 1;
        for (flip, at) in places.iter().step_by(step).enumerate() {
            let mut other = map.bytes.clone();
            other[*at] ^= 1 << (flip % 8);
            assert!(verify(&other).is_err(), "{class}: byte {at}, bit {}", flip % 8);
        }
    }
    classes
}

/// Bytes that are refused, and as what.
fn check(map: &Map, verify: &dyn Fn(&[u8]) -> Result<(), VerifyError>) {
    assert_eq!(verify(&map.bytes), Ok(()));
    let classes = flip(map, &(0..map.bytes.len()), verify);
    for wanted in ["length", "root", "claimed sum", "round", "opened value", "path", "work"] {
        assert!(classes.contains_key(wanted), "no {wanted}");
    }
    // Another way to write the same element, or the same length.
    for class in classes.keys().filter(|class| !["tag", "accumulator", "path"].contains(class)) {
        let piece = map.pieces.iter().find(|piece| piece.class == *class).expect("it has one");
        let mut other = map.bytes.clone();
        if *class == "length" {
            other[piece.at + piece.len - 1] |= 0x80;
            other.insert(piece.at + piece.len, 0);
        } else {
            let element: [u8; 4] = other[piece.at..piece.at + 4].try_into().expect("four bytes");
            let more = u32::from_le_bytes(element) + F::ORDER_U32;
            other[piece.at..piece.at + 4].copy_from_slice(&more.to_le_bytes());
        }
        assert_eq!(verify(&other), Err(VerifyError::Bytes), "{class}");
    }
    let bytes = &map.bytes;
    for byte in [0, 1, 0xff] {
        assert_eq!(verify(&[bytes, &[byte][..]].concat()), Err(VerifyError::Bytes), "longer");
        assert!(verify(&[&[byte][..], bytes].concat()).is_err(), "longer in front");
    }
    let step = (map.pieces.len() / 300).max(1);
    for piece in map.pieces.iter().step_by(step) {
        assert_eq!(verify(&bytes[..piece.at]), Err(VerifyError::Bytes), "cut at {}", piece.at);
        let huge = [&bytes[..piece.at], &[0xff, 0xff, 0xff, 0xff, 0x0f], &bytes[piece.at..]];
        assert!(verify(&huge.concat()).is_err(), "huge at {}", piece.at);
    }
}

#[test]
fn every_class_of_bytes_of_a_proof_matters() {
    for (net, mode) in [(Net::Convolution, Mode::Public), (Net::Dense, Mode::Committed)] {
        let proven = proven(&net.model(), mode, vec![net.inputs(0)]);
        let map = Map::of(&proven.proof);
        assert!(map.bytes == proven.proof.to_bytes(), "the map is the encoding");
        check(&map, &|bytes| proven.verifier.verify(&proven.statement, bytes).map(drop));
    }
}

/// Goal: the second opening of a divided run is verified as the first is. Method: all classes of
/// the whole proof, and all once more within its section.
#[test]
fn every_class_of_bytes_of_a_divided_proof_matters() {
    for mode in [Mode::Public, Mode::Committed] {
        let proven = divided::proven(Net::Convolution, mode, 3);
        let map = Map::of(&proven.proof);
        assert!(map.bytes == proven.proof.to_bytes(), "the map is the encoding");
        let verify = |bytes: &[u8]| proven.verifier.verify(&proven.statement, bytes).map(drop);
        check(&map, &verify);
        let sections = proven.proof.sections();
        let place = sections.iter().position(|(name, _)| *name == "rest").expect("it has one");
        let at: usize = sections[..place].iter().map(|(_, len)| len).sum();
        let classes = flip(&map, &(at..at + sections[place].1), &verify);
        let wanted = [
            "length",
            "tag",
            "root",
            "answer out of the domain",
            "round of an opening",
            "work",
            "opened row",
            "path",
            "last polynomial",
            "opened value",
        ];
        assert!(classes.keys().eq(&wanted.into_iter().collect::<BTreeSet<_>>()), "{classes:?}");
    }
}

fn seeds() -> Seeds {
    Seeds { inputs: Seed::new([1; 32]), proof: Seed::new([2; 32]) }
}

fn hidden(net: Net, context: Vec<u8>) -> (HidingVerifier, HidingStatement, HidingProof) {
    let prover = HidingProver::new(net.model(), 1).expect("it can be proven");
    let found = prover.prove(&[net.inputs(0)], &seeds(), context);
    let (statement, proof) = found.expect("inputs that fit");
    let verifier = HidingVerifier::new(net.model(), 1).expect("it can be verified");
    (verifier, statement, proof)
}

#[test]
fn every_class_of_bytes_of_a_hiding_proof_matters() {
    let (verifier, statement, proof) = hidden(Net::Convolution, CONTEXT.to_vec());
    let map = Map::of_hiding(&proof);
    assert!(map.bytes == proof.to_bytes(), "the map is the encoding");
    check(&map, &|bytes| verifier.verify(&statement, bytes).map(drop));
}

/// Each tensor with its first or last number changed.
fn changed(model: &tg_tensor::Model, tensor: &Tensor, value: usize) -> Vec<Tensor> {
    let spec = model.program().specs()[value];
    let change = |place: usize| {
        let mut numbers = tensor.to_numbers();
        numbers[place] += if numbers[place] < i64::from(spec.hi) { 1 } else { -1 };
        Tensor::new(&spec, &numbers).expect("of the range")
    };
    vec![change(0), change(tensor.len() - 1)]
}

/// Chain, job and provider, each swapped once.
fn contexts() -> [Vec<u8>; 4] {
    let of = |chain, job, provider| {
        context(
            &GenesisHash::new([chain; 32]),
            &JobId::new([job; 32]),
            &NodeId::new([provider; 32]),
        )
    };
    [of(1, 2, 3), of(9, 2, 3), of(1, 9, 3), of(1, 2, 9)]
}

/// Goal: nothing of a statement may be another. Method: each list of numbers, each byte of the
/// context; chain, job, provider, model.
#[test]
fn every_part_of_a_statement_matters() {
    let net = Net::Choices;
    let (model, [bound, swapped @ ..]) = (net.model(), contexts());
    for mode in [Mode::Public, Mode::Committed] {
        let prover = Prover::new(model.clone(), mode, 1).expect("it can be proven");
        let (statement, proof) = prover.prove(vec![net.inputs(0)], bound.clone()).expect("fits");
        let (verifier, bytes) = (super::verifier(&model, &prover, mode, 1), proof.to_bytes());
        let refuses = |other: &Statement| verifier.verify(other, &bytes).is_err();
        assert!(!refuses(&statement));
        let with = |context: Vec<u8>| Statement { context, ..statement.clone() };
        assert!(swapped.iter().all(|context| refuses(&with(context.clone()))));
        for place in 0..bound.len() {
            let mut other = bound.clone();
            other[place] ^= 1;
            assert!(refuses(&with(other)), "byte {place} of the context");
        }
        assert!(refuses(&with(bound[1..].to_vec())) && refuses(&with(Vec::new())));
        for tensor in changed(&model, &statement.inputs[0][0], 0) {
            let mut other = statement.clone();
            other.inputs[0][0] = tensor;
            assert!(refuses(&other), "input");
        }
        for (index, output) in model.program().outputs().iter().enumerate() {
            for tensor in changed(&model, &statement.outputs[0][index], output.value.index()) {
                let mut other = statement.clone();
                other.outputs[0][index] = tensor;
                assert!(refuses(&other), "output {index}");
            }
        }
        let mut twice = statement.clone();
        twice.inputs.push(statement.inputs[0].clone());
        twice.outputs.push(statement.outputs[0].clone());
        assert!(refuses(&twice), "batch");
        let theirs = net.model_with(1);
        let prover = Prover::new(theirs.clone(), mode, 1).expect("it can be proven");
        let verifier: Verifier = super::verifier(&theirs, &prover, mode, 1);
        assert!(verifier.verify(&statement, &bytes).is_err(), "model");
        let other_mode = match mode {
            Mode::Public => Mode::Committed,
            Mode::Committed => Mode::Public,
        };
        let prover = Prover::new(model.clone(), other_mode, 1).expect("it can be proven");
        let verifier = super::verifier(&model, &prover, other_mode, 1);
        assert!(verifier.verify(&statement, &bytes).is_err(), "mode");
    }
}

#[test]
fn every_part_of_a_hiding_statement_matters() {
    let net = Net::Choices;
    let (model, [bound, swapped @ ..]) = (net.model(), contexts());
    let (verifier, statement, proof) = hidden(net, bound.clone());
    let bytes = proof.to_bytes();
    let refuses = |other: &HidingStatement| verifier.verify(other, &bytes).is_err();
    assert!(!refuses(&statement));
    let with = |context: Vec<u8>| HidingStatement { context, ..statement.clone() };
    assert!(swapped.iter().all(|context| refuses(&with(context.clone()))));
    for place in 0..32 {
        let mut root = statement.inputs.to_bytes();
        root[place] ^= 1;
        // Not below p: no commitment at all.
        let Some(inputs) = InputsCommitment::from_bytes(&root) else { continue };
        assert!(refuses(&HidingStatement { inputs, ..statement.clone() }), "root, {place}");
    }
    for (index, output) in model.program().outputs().iter().enumerate() {
        for tensor in changed(&model, &statement.outputs[0][index], output.value.index()) {
            let mut other = statement.clone();
            other.outputs[0][index] = tensor;
            assert!(refuses(&other), "output {index}");
        }
    }
    let theirs = HidingVerifier::new(net.model_with(1), 1).expect("it can be verified");
    assert!(theirs.verify(&statement, &bytes).is_err(), "model");
}

/// Nothing is shown.
const NOTHING: Shown = Shown { inputs: false, outputs: false };

fn key() -> WeightsKey {
    WeightsKey::new(Seed::new([5; 32]), 3, 0)
}

fn zk_verifier(net: Net, weights: HiddenWeights) -> Option<ZkVerifier> {
    let program = Arc::new(net.model().program().clone());
    ZkVerifier::new(Weights::Committed(program, weights), 1, NOTHING).ok()
}

/// A proof about secret weights, inputs and outputs, all with one seed.
fn secret(net: Net, context: Vec<u8>) -> (HiddenWeights, ZkVerifier, ZkStatement, HidingProof) {
    let prover = ZkProver::new(net.model(), 1, NOTHING, Some(key())).expect("it can be proven");
    let seed = || Seed::new([1; 32]);
    let seeds = ZkSeeds { inputs: seed(), outputs: seed(), proof: seed() };
    let (statement, proof) = prover.prove(&[net.inputs(0)], &seeds, context).expect("it fits");
    let weights = prover.commitment().expect("weights are hidden");
    let verifier = zk_verifier(net, weights).expect("it can be verified");
    (weights, verifier, statement, proof)
}

/// Why the proof of a registration is refused.
fn refused<R>(found: Result<R, RegisterError>) -> Result<(), VerifyError> {
    match found {
        Ok(_) => Ok(()),
        Err(RegisterError::Proof(error)) => Err(error),
        Err(RegisterError::Plan(error)) => panic!("it was planned before: {error}"),
    }
}

#[test]
fn every_class_of_bytes_of_a_proof_about_secret_weights_matters() {
    let (_, verifier, statement, proof) = secret(Net::Dense, CONTEXT.to_vec());
    let map = Map::of_hiding(&proof);
    assert!(map.bytes == proof.to_bytes(), "the map is the encoding");
    check(&map, &|bytes| verifier.verify(&statement, bytes).map(drop));
}

#[test]
fn every_class_of_bytes_of_a_registration_matters() {
    let model = Net::Dense.model();
    let (weights, proof) = register::prove(&model, CONTEXT.to_vec()).expect("it fits");
    let map = Map::of(&proof);
    assert!(map.bytes == proof.to_bytes(), "the map is the encoding");
    check(&map, &|bytes| {
        refused(register::verify(model.program(), &weights, CONTEXT.to_vec(), bytes))
    });
}

#[test]
fn every_class_of_bytes_of_a_hiding_registration_matters() {
    let model = Net::Dense.model();
    let found = register::prove_hiding(&model, key(), &Seed::new([6; 32]), CONTEXT.to_vec());
    let (weights, proof) = found.expect("it fits");
    let map = Map::of_hiding(&proof);
    assert!(map.bytes == proof.to_bytes(), "the map is the encoding");
    check(&map, &|bytes| {
        refused(register::verify_hiding(model.program(), &weights, CONTEXT.to_vec(), bytes))
    });
}

/// Goal: nothing of a statement that shows nothing may be another. Method: chain, job, provider;
/// each byte of the three commitments, the number of proofs about weights among them; the model;
/// what is shown.
#[test]
fn every_part_of_a_statement_about_secrets_matters() {
    let (net, [bound, swapped @ ..]) = (Net::Dense, contexts());
    let (weights, verifier, statement, proof) = secret(net, bound.clone());
    let bytes = proof.to_bytes();
    let refuses = |other: &ZkStatement| verifier.verify(other, &bytes).is_err();
    assert!(!refuses(&statement));
    let with = |context: Vec<u8>| ZkStatement { context, ..statement.clone() };
    assert!(swapped.iter().all(|context| refuses(&with(context.clone()))));
    assert!(refuses(&with(bound[1..].to_vec())) && refuses(&with(Vec::new())));
    let (Tensors::Committed(inputs), Tensors::Committed(outputs)) =
        (&statement.inputs, &statement.outputs)
    else {
        unreachable!("nothing is shown");
    };
    let flipped = |root: &HidingRoot, place: usize| {
        let mut bytes = root.to_bytes();
        bytes[place] ^= 1;
        // Not below p: no commitment at all.
        HidingRoot::from_bytes(&bytes).map(Tensors::Committed)
    };
    for place in 0..32 {
        if let Some(inputs) = flipped(inputs, place) {
            assert!(refuses(&ZkStatement { inputs, ..statement.clone() }), "inputs, {place}");
        }
        if let Some(outputs) = flipped(outputs, place) {
            assert!(refuses(&ZkStatement { outputs, ..statement.clone() }), "outputs, {place}");
        }
    }
    let (inputs, outputs) = (statement.outputs.clone(), statement.inputs.clone());
    assert!(refuses(&ZkStatement { inputs, outputs, ..statement.clone() }), "exchanged");
    let inputs = Tensors::Shown(vec![net.inputs(0)]);
    let shown = ZkStatement { inputs, ..statement.clone() };
    assert_eq!(verifier.verify(&shown, &bytes).map(drop), Err(VerifyError::Secrecy));
    for place in 0..34 {
        let mut other = weights.to_bytes();
        other[place] ^= 1;
        let Some(verifier) = HiddenWeights::from_bytes(&other).and_then(|w| zk_verifier(net, w))
        else {
            continue;
        };
        assert!(verifier.verify(&statement, &bytes).is_err(), "weights, {place}");
    }
    let theirs = zk_verifier(Net::Attention, weights).expect("it can be verified");
    assert!(theirs.verify(&statement, &bytes).is_err(), "program");
    let known = Weights::Known(net.model());
    let known = ZkVerifier::new(known, 1, NOTHING).expect("it can be verified");
    assert!(known.verify(&statement, &bytes).is_err(), "weights in the clear");
}

/// Goal: a registration is one of a program, a commitment, an owner and a chain. Method: each byte
/// of the commitment, each of the context's parts, another program.
#[test]
fn every_part_of_a_registration_matters() {
    let (model, [bound, swapped @ ..]) = (Net::Dense.model(), contexts());
    let program = model.program();
    let (weights, proof) = register::prove(&model, bound.clone()).expect("it fits");
    let bytes = proof.to_bytes();
    let verify = |weights: &WeightsCommitment, context: &[u8]| {
        register::verify(program, weights, context.to_vec(), &bytes).is_ok()
    };
    assert!(verify(&weights, &bound));
    assert!(swapped.iter().all(|context| !verify(&weights, context)) && !verify(&weights, &[]));
    for place in 0..weights.to_bytes().len() {
        let mut other = weights.to_bytes();
        other[place] ^= 1;
        let Some(other) = WeightsCommitment::from_bytes(&other) else { continue };
        assert!(!verify(&other, &bound), "commitment, {place}");
    }
    let twice = weights.to_bytes().repeat(2);
    if let Some(twice) = WeightsCommitment::from_bytes(&twice) {
        assert!(!verify(&twice, &bound), "two roots");
    }

    let seed = Seed::new([6; 32]);
    let found = register::prove_hiding(&model, key(), &seed, bound.clone());
    let (weights, proof) = found.expect("it fits");
    let bytes = proof.to_bytes();
    let verify = |weights: &HiddenWeights, context: &[u8]| {
        register::verify_hiding(program, weights, context.to_vec(), &bytes).is_ok()
    };
    assert!(verify(&weights, &bound));
    assert!(swapped.iter().all(|context| !verify(&weights, context)) && !verify(&weights, &[]));
    for place in 0..34 {
        let mut other = weights.to_bytes();
        other[place] ^= 1;
        let Some(other) = HiddenWeights::from_bytes(&other) else { continue };
        assert!(!verify(&other, &bound), "commitment, {place}");
    }
    let theirs = Net::Attention.model();
    let found = register::verify_hiding(theirs.program(), &weights, bound, &bytes);
    assert!(found.is_err(), "program");
}
