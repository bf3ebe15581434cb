//! Hiding proofs: honest ones, lies, and what they show.

mod mutants;
mod shown;
mod simulator;
mod weights;

use super::owned::Sealed;
use super::pcs::HiddenOpening;
use super::seed::Stream;
use super::{
    HidingProof, HidingProver, HidingStatement, HidingVerifier, InputsCommitment, Seed, Seeds,
};
use crate::field::{EF, F, int};
use crate::pcs::Root;
use crate::plan::Role;
use crate::tests::programs::Net;
use crate::tests::random::{changed, provable};
use crate::witness::Witness;
use crate::{PlanError, VerifyError};
use arbtest::arbitrary::{Error, Unstructured};
use p3_field::PrimeCharacteristicRing;
use p3_whir::pcs::proof::QueryOpenings;
use std::cell::Cell;
use tg_tensor::{Options, Runner, Tensor, sample};

const CONTEXT: &[u8] = b"chain, job, provider";

fn seeds(byte: u8) -> Seeds {
    Seeds { inputs: Seed::new([byte; 32]), proof: Seed::new([byte ^ 0xff; 32]) }
}

/// Those that show no input as an output.
const NETS: [Net; 8] = [
    Net::Dense,
    Net::Convolution,
    Net::Moved,
    Net::Attention,
    Net::Choices,
    Net::Normalise,
    Net::Rows,
    Net::Wide,
];

struct Proven {
    prover: HidingProver,
    verifier: HidingVerifier,
    inputs: Vec<Vec<Tensor>>,
    statement: HidingStatement,
    proof: HidingProof,
}

fn proven(net: Net, batch: i64) -> Proven {
    let inputs: Vec<Vec<Tensor>> = (0..batch).map(|seed| net.inputs(seed)).collect();
    let prover = HidingProver::new(net.model(), batch as usize).expect("it can be proven");
    let verifier = HidingVerifier::new(net.model(), batch as usize).expect("it can be verified");
    let (statement, proof) =
        prover.prove(&inputs, &seeds(7), CONTEXT.to_vec()).expect("inputs that fit");
    assert_eq!(verifier.commit(&inputs, &seeds(7).inputs), Ok(statement.inputs));
    Proven { prover, verifier, inputs, statement, proof }
}

impl Proven {
    fn check(&self, statement: &HidingStatement, proof: &HidingProof) -> Result<(), VerifyError> {
        self.verifier.verify(statement, &proof.to_bytes()).map(drop)
    }

    fn refuses(&self, proof: &HidingProof) -> bool {
        self.check(&self.statement, proof).is_err()
    }

    fn sealed(&self) -> Sealed {
        let found = self.prover.setup().seal_inputs(&self.inputs, &seeds(7).inputs);
        found.expect("inputs that fit").expect("inputs are hidden")
    }

    fn witness(&self, net: Net) -> Witness {
        let runner = Runner::new(net.model(), Options { threads: 1, path: None });
        Witness::new(&self.prover.setup().plan, &runner, &self.inputs).expect("inputs that fit")
    }

    /// Whether a proof from these numbers is refused: when they are committed, and when only the
    /// commitment or only the rest has them. The first of these differs from the honest proof.
    fn is_lie(&self, statement: &HidingStatement, honest: &Witness, lie: &Witness) -> bool {
        let prove = |witnesses| {
            let (sealed, seed) = (self.sealed(), seeds(7).proof);
            let prover = self.prover.inner();
            prover.prove_witness(&statement.into(), vec![sealed], &seed, witnesses, true)
        };
        let all = [[lie, lie], [lie, honest], [honest, lie]].map(prove);
        // A lie that nothing but the commitment shows leaves the honest proof, if it is not there.
        let same = self.proof.to_bytes();
        all.iter().all(|proof| proof.to_bytes() == same || self.check(statement, proof).is_err())
    }
}

#[test]
fn honest_hiding_proofs_of_all_nets_are_accepted() {
    for net in NETS {
        for batch in [1, 3, 16] {
            let proven = proven(net, batch);
            let found = proven.verifier.verify(&proven.statement, &proven.proof.to_bytes());
            let bits = found.map(|report| report.bits);
            assert!(bits.clone().is_ok_and(|bits| bits >= 100.0), "{net:?} {bits:?}");
        }
    }
}

/// Goal: hash, layout, code and randomness of a commitment to inputs do not change unnoticed, as
/// its owner and the prover make it apart from each other. Method: a golden root.
#[test]
fn inputs_commitment_is_the_golden_one() {
    let verifier = HidingVerifier::new(Net::Dense.model(), 1).expect("it can be verified");
    let found = verifier.commit(&[Net::Dense.inputs(0)], &seeds(7).inputs).expect("they fit");
    let golden =
        expect_test::expect!["0c91cec7529775cb5f7fc99b27ce7f854ff6add672e8b86373eac1d15303ea23"];
    golden.assert_eq(&tg_types::Hash32::new(found.to_bytes()).to_string());
    assert_eq!(InputsCommitment::from_bytes(&found.to_bytes()), Some(found));
    assert_eq!(InputsCommitment::from_bytes(&[0xff; 32]), None);
}

#[test]
fn liar_without_a_lie_is_accepted() {
    let proven = proven(Net::Convolution, 1);
    let witness = proven.witness(Net::Convolution);
    let (sealed, seed) = (proven.sealed(), seeds(7).proof);
    let (prover, statement) = (proven.prover.inner(), (&proven.statement).into());
    let proof = prover.prove_witness(&statement, vec![sealed], &seed, [&witness; 2], true);
    assert_eq!(proven.check(&proven.statement, &proof), Ok(()));
}

/// Goal: no committed number is free. Method: change one of every column, in the commitment, in
/// what follows, and in both; of larger nets, one of every third column, in both.
#[test]
fn wrong_numbers_are_refused() {
    for net in NETS {
        let proven = proven(net, 1);
        let honest = proven.witness(net);
        let plan = &proven.prover.setup().plan;
        let is_thorough = [Net::Dense, Net::Convolution].contains(&net);
        let step = if is_thorough { 1 } else { 3 };
        for column in plan.columns.iter().step_by(step) {
            let mut lie = honest.clone();
            match column.role {
                Role::Value(operation) => lie.values[plan.value_of(operation).index()][0] ^= 1,
                Role::Limb(operation, place) => {
                    lie.limbs.get_mut(&operation).expect("it has limbs")[place][0] ^= 1;
                }
                Role::Multiplicity(table) => lie.multiplicities[table][1] += 1,
                Role::Input(_) | Role::Constant(_) | Role::Range(..) | Role::Filler => continue,
            }
            let is_refused = match is_thorough {
                true => proven.is_lie(&proven.statement, &honest, &lie),
                false => {
                    let (prover, seed) = (proven.prover.inner(), seeds(7).proof);
                    let (statement, sealed) = ((&proven.statement).into(), vec![proven.sealed()]);
                    let both = [&lie; 2];
                    proven.refuses(&prover.prove_witness(&statement, sealed, &seed, both, true))
                }
            };
            assert!(is_refused, "{net:?} {:?}", column.role);
        }
    }
}

/// Goal: nobody proves with other weights than are named. Method: a prover runs another model of
/// the same program under the name of the right one.
#[test]
fn wrong_weights_are_refused() {
    for net in [Net::Dense, Net::Convolution, Net::Attention] {
        let prover = |model| HidingProver::new(model, 1).expect("it can be proven");
        let disguised = prover(net.model_swapped()).disguised(&prover(net.model()));
        let found = disguised.prove(&[net.inputs(3)], &seeds(7), CONTEXT.to_vec());
        let (statement, proof) = found.expect("inputs that fit");
        let verifier = HidingVerifier::new(net.model(), 1).expect("it can be verified");
        let found = verifier.verify(&statement, &proof.to_bytes());
        assert_eq!(found.map(drop), Err(VerifyError::Claims), "{net:?}");
    }
}

#[test]
fn run_on_other_inputs_than_committed_is_refused() {
    let net = Net::Convolution;
    let proven = proven(net, 1);
    let runner = Runner::new(net.model(), Options { threads: 1, path: None });
    let inputs = vec![net.inputs(9)];
    let plan = &proven.prover.setup().plan;
    let other = Witness::new(plan, &runner, &inputs).expect("inputs that fit");
    let statement = HidingStatement { outputs: other.outputs.clone(), ..proven.statement.clone() };
    let seed = seeds(7).proof;
    let (prover, sealed) = (proven.prover.inner(), vec![proven.sealed()]);
    let proof = prover.prove_witness(&(&statement).into(), sealed, &seed, [&other; 2], true);
    assert!(proven.check(&statement, &proof).is_err());
    // The same run is fine with a commitment to its own inputs.
    let found = proven.prover.prove(&inputs, &seeds(8), CONTEXT.to_vec());
    let (statement, proof) = found.expect("inputs that fit");
    assert_eq!(proven.check(&statement, &proof), Ok(()));
}

/// Goal: an owner who commits to a number that an input cannot be helps no prover. Method: commit
/// to one, look it up as it is or as it should be.
#[test]
fn inputs_out_of_their_range_are_refused() {
    let net = Net::Dense;
    let proven = proven(net, 1);
    let setup = proven.prover.setup();
    let spec = setup.plan.program.specs()[0];
    let honest = proven.witness(net);
    let mut lie = honest.clone();
    lie.values[0][0] = spec.hi + 1;
    let is_input = |what| what == crate::plan::Lookup::Input(0);
    let looked_up = setup.plan.groups.iter().position(|group| is_input(group.what));
    let looked_up = looked_up.expect("inputs are looked up");
    lie.lookups[looked_up].change(0, |numbers| numbers[0] = spec.hi + 1 - spec.lo);
    // The column of the only input is the largest piece, so it is the first.
    let mut cells = proven.sealed().kept.message.as_slice().to_vec();
    assert_eq!(cells[0], int(honest.values[0][0].into()));
    cells[0] = int((spec.hi + 1).into());
    let mut half = lie.clone();
    half.values[0][0] = honest.values[0][0];
    for shown in [&honest, &lie, &half] {
        let sealed = setup.owned[0]
            .commit_cells(cells.clone(), seeds(3).proof.generator(Stream::Commitment, 0));
        let inputs = InputsCommitment::of(&sealed.root);
        let statement = HidingStatement { inputs, ..proven.statement.clone() };
        let (prover, seed) = (proven.prover.inner(), seeds(7).proof);
        let stated = (&statement).into();
        let proof = prover.prove_witness(&stated, vec![sealed], &seed, [shown; 2], true);
        assert_eq!(proven.check(&statement, &proof), Err(VerifyError::Claims));
    }
}

#[test]
fn proof_for_another_statement_is_refused() {
    let proven = proven(Net::Dense, 1);
    let mut other = proven.statement.clone();
    other.context.push(0);
    assert!(proven.check(&other, &proven.proof).is_err());
    let mut other = proven.statement.clone();
    other.inputs = proven.verifier.commit(&proven.inputs, &seeds(9).inputs).expect("they fit");
    assert!(proven.check(&other, &proven.proof).is_err());
    let plan = &proven.prover.setup().plan;
    let spec = plan.program.specs()[plan.program.outputs()[0].value.index()];
    let mut numbers = proven.statement.outputs[0][0].to_numbers();
    numbers[0] += if numbers[0] < i64::from(spec.hi) { 1 } else { -1 };
    let mut other = proven.statement.clone();
    other.outputs[0][0] = Tensor::new(&spec, &numbers).expect("of the range");
    assert!(proven.check(&other, &proven.proof).is_err());
    let honest = proven.witness(Net::Dense);
    assert!(proven.is_lie(&other, &honest, &honest));
    let verifier = HidingVerifier::new(Net::Dense.model_with(1), 1).expect("it can be verified");
    assert!(verifier.verify(&proven.statement, &proven.proof.to_bytes()).is_err());
}

/// Goal: every bit of a proof matters and none makes the verifier panic. Method: flip bits all over
/// every section.
#[test]
fn flipped_bits_in_every_section_are_refused() {
    let proven = proven(Net::Convolution, 1);
    let bytes = proven.proof.to_bytes();
    let mut at = 0;
    for (name, len) in proven.proof.sections() {
        for flip in 0..60 {
            let mut other = bytes.clone();
            let place = at + (flip * 7_919 + flip * flip * 13) % len;
            other[place] ^= 1 << (flip % 8);
            let found = proven.verifier.verify(&proven.statement, &other);
            assert!(found.is_err(), "{name} byte {place}");
        }
        at += len;
    }
    assert_eq!(at, bytes.len());
    let longer = [bytes, vec![0]].concat();
    let found = proven.verifier.verify(&proven.statement, &longer);
    assert_eq!(found.map(drop), Err(VerifyError::Bytes));
}

fn shorten<T>(list: &mut Vec<T>) {
    list.truncate(list.len() - 1);
}

/// Goal: a proof of another shape or with another number is refused and never panics.
#[test]
fn proofs_of_another_shape_or_number_are_refused() {
    let proven = proven(Net::Convolution, 1);
    let changes: [fn(&mut HidingProof); 26] = [
        |proof| shorten(&mut proof.lookups.layers),
        |proof| shorten(&mut proof.lookups.layers[3].round_polys),
        |proof| proof.products = None,
        |proof| proof.products.iter_mut().for_each(|sum| shorten(&mut sum.round_polys[0])),
        |proof| proof.products.iter_mut().for_each(|sum| shorten(&mut sum.round_polys)),
        |proof| shorten(&mut proof.claims),
        |proof| shorten(&mut proof.lower),
        |proof| shorten(&mut proof.factors),
        |proof| shorten(&mut proof.last.rounds),
        |proof| shorten(&mut proof.last.shown),
        |proof| shorten(&mut proof.opening.evals),
        |proof| shorten(&mut proof.opening.rounds),
        |proof| shorten(&mut proof.opening.sumchecks),
        |proof| shorten(&mut proof.opening.sumcheck_mask_commitments),
        |proof| shorten(&mut proof.opening.base_case.blinded_message),
        |proof| shorten(&mut proof.opening.base_case.blinded_randomness),
        |proof| shorten(&mut proof.opening.base_case.blinded_masks),
        |proof| shorten(&mut proof.opening.base_case.mask_openings),
        |proof| shorten(&mut proof.owned[0].evals),
        |proof| shorten(&mut proof.owned),
        |proof| proof.owned.push(proof.owned[0].clone()),
        |proof| proof.lower[0] += EF::ONE,
        |proof| proof.factors[0] += EF::ONE,
        |proof| proof.last.blind += EF::ONE,
        |proof| proof.last.mask += EF::ONE,
        |proof| proof.last.shown[40] += EF::ONE,
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut proof = proven.proof.clone();
        change(&mut proof);
        assert!(proven.refuses(&proof), "change {index}");
    }
}

/// A tree with two roots.
fn twice(root: &mut Root) {
    *root = Root::new([root.roots(), root.roots()].concat());
}

/// Changes opened rows.
fn rows<P>(
    openings: &mut QueryOpenings<F, EF, P>,
    base: fn(&mut Vec<Vec<F>>),
    ext: fn(&mut Vec<Vec<EF>>),
) {
    match openings {
        QueryOpenings::Base(opened) => base(&mut opened.rows),
        QueryOpenings::Extension(opened) => ext(&mut opened.rows),
    }
}

/// Goal: the library's verifier is asked nothing that makes it panic. Method: openings of another
/// shape, part by part.
#[test]
fn openings_of_another_shape_are_refused() {
    let proven = proven(Net::Dense, 1);
    let changes: [fn(&mut HiddenOpening); 17] = [
        |opening| twice(&mut opening.rounds[0].commitment),
        |opening| twice(&mut opening.rounds[0].mask_commitment),
        |opening| twice(&mut opening.sumcheck_mask_commitments[0]),
        |opening| twice(&mut opening.base_case.fresh_main_commitment),
        |opening| twice(&mut opening.base_case.fresh_mask_commitments[0]),
        |opening| shorten(&mut opening.base_case.fresh_mask_commitments),
        |opening| rows(&mut opening.rounds[0].openings, shorten, shorten),
        |opening| {
            let openings = &mut opening.rounds[0].openings;
            rows(openings, |all| shorten(&mut all[0]), |all| shorten(&mut all[0]));
        },
        |opening| {
            let openings = &mut opening.rounds[0].openings;
            rows(openings, |all| all.push(all[0].clone()), |all| all.push(all[0].clone()));
        },
        |opening| rows(&mut opening.base_case.source_openings, shorten, shorten),
        |opening| {
            let openings = &mut opening.base_case.source_openings;
            rows(openings, |all| shorten(&mut all[0]), |all| shorten(&mut all[0]));
        },
        |opening| shorten(&mut opening.base_case.fresh_main_openings.rows),
        |opening| shorten(&mut opening.base_case.mask_openings[0].carried.rows),
        |opening| shorten(&mut opening.base_case.mask_openings[1].fresh.rows[0]),
        |opening| shorten(&mut opening.base_case.blinded_masks[0].message),
        |opening| shorten(&mut opening.base_case.blinded_masks[0].randomness),
        |opening| opening.base_case.blinded_message.push(EF::ONE),
    ];
    let parts: [fn(&mut HidingProof) -> &mut HiddenOpening; 2] =
        [|proof| &mut proof.opening, |proof| &mut proof.owned[0]];
    for (index, change) in changes.into_iter().enumerate() {
        for part in parts {
            let mut proof = proven.proof.clone();
            change(part(&mut proof));
            assert!(proven.refuses(&proof), "change {index}");
        }
    }
}

#[test]
fn output_that_is_an_input_cannot_be_hidden() {
    let found = HidingProver::new(Net::Depthwise.model(), 1).map(drop);
    assert_eq!(found, Err(PlanError::HiddenOutput(1)));
}

fn check_random(u: &mut Unstructured<'_>, proofs: &Cell<u32>) -> Result<(), Error> {
    let Some(model) = provable(&sample::model(u)?) else { return Ok(()) };
    let batch = u.int_in_range(1..=3)?;
    let Ok(prover) = HidingProver::new(model.clone(), batch) else { return Ok(()) };
    let verifier = HidingVerifier::new(model.clone(), batch).expect("what can be proven");
    let mut inputs = Vec::new();
    for _ in 0..batch {
        inputs.push(sample::inputs(u, model.program())?);
    }
    let found = prover.prove(&inputs, &seeds(u.arbitrary()?), CONTEXT.to_vec());
    let (statement, proof) = found.expect("inputs that fit");
    let bytes = proof.to_bytes();
    let found = verifier.verify(&statement, &bytes);
    assert!(found.is_ok(), "{found:?} batch {batch}: {:#?}", model.program());
    proofs.set(proofs.get() + 1);

    let inference = u.int_in_range(0..=batch - 1)?;
    let mut other = statement.clone();
    let value = model.program().outputs()[0].value;
    if let Some(tensor) = changed(u, &statement.outputs[inference][0], &model, value)? {
        other.outputs[inference][0] = tensor;
        assert!(verifier.verify(&other, &bytes).is_err(), "wrong output accepted");
    }
    let mut other = bytes.clone();
    let at = u.int_in_range(0..=bytes.len() - 1)?;
    other[at] ^= 1 << u.int_in_range(0..=7_u8)?;
    assert!(verifier.verify(&statement, &other).is_err(), "flipped bit accepted at {at}");
    Ok(())
}

/// Goal: every program that is proven without hiding is proven with it. Method: random programs,
/// batches and inputs; then one output and one bit of the proof is changed.
#[test]
fn prop_random_programs_are_proven_without_showing_inputs() {
    let proofs = Cell::new(0);
    arbtest::arbtest(|u| check_random(u, &proofs)).budget_ms(5_000);
    assert!(proofs.get() > 2, "only {} proofs", proofs.get());
}
