//! Whole proofs: honest ones of all kinds, and every lie that we could think of.

mod bytes;
mod court;
mod divided;
pub(crate) mod fractions;
mod large;
mod lies;
mod mutants;
mod planning;
pub(crate) mod programs;
pub(crate) mod random;
pub(crate) mod sponge;
mod statements;

use crate::field::{DEGREE, EF, F};
use crate::plan::{self, Hidden, Sizes};
use crate::setup::Setup;
use crate::{Mode, Proof, Prover, Statement, Verifier, VerifyError};
use p3_field::{BasedVectorSpace as _, Field as _, PrimeCharacteristicRing as _};
use programs::Net;
use std::sync::Arc;
use tg_tensor::{Model, Tensor};

/// A proven statement with the verifier that accepts it.
struct Proven {
    prover: Prover,
    verifier: Verifier,
    statement: Statement,
    proof: Proof,
}

const CONTEXT: &[u8] = b"chain, job, provider";

fn verifier(model: &Arc<Model>, prover: &Prover, mode: Mode, batch: usize) -> Verifier {
    match mode {
        Mode::Public => Verifier::public(model.clone(), batch),
        Mode::Committed => Verifier::committed(model.program().clone(), prover.commitment(), batch),
    }
    .expect("what can be proven can be verified")
}

fn proven(model: &Arc<Model>, mode: Mode, inputs: Vec<Vec<Tensor>>) -> Proven {
    let batch = inputs.len();
    let prover = Prover::new(model.clone(), mode, batch).expect("a program that can be proven");
    let verifier = verifier(model, &prover, mode, batch);
    let (statement, proof) = prover.prove(inputs, CONTEXT.to_vec()).expect("inputs that fit");
    Proven { prover, verifier, statement, proof }
}

/// The setup of a model whose runs are laid out by other sizes than usual.
fn setup_with(model: &Model, mode: Mode, batch: usize, sizes: &Sizes<'_>) -> Setup {
    let program = Arc::new(model.program().clone());
    let constants = match mode {
        Mode::Public => Some(model.constants()),
        Mode::Committed => None,
    };
    let plan = plan::build(&program, batch, constants, Hidden::default(), sizes);
    Setup::of(plan.expect("it can be planned"), mode, program.id()).expect("it is secure")
}

/// A proof of a run that is laid out by other sizes than usual.
fn proven_with(
    model: &Arc<Model>,
    mode: Mode,
    inputs: Vec<Vec<Tensor>>,
    sizes: &Sizes<'_>,
) -> Proven {
    let setup = || setup_with(model, mode, inputs.len(), sizes);
    let prover = Prover::with(setup(), model.clone());
    let verifier = match mode {
        Mode::Public => Verifier::known(Arc::new(setup()), model.clone()),
        Mode::Committed => Verifier::with(Arc::new(setup()), prover.commitment()),
    };
    let (statement, proof) = prover.prove(inputs, CONTEXT.to_vec()).expect("inputs that fit");
    Proven { prover, verifier, statement, proof }
}

impl Proven {
    fn check(&self) -> Result<f64, VerifyError> {
        self.verifier.verify(&self.statement, &self.proof.to_bytes()).map(|report| report.bits)
    }

    fn refuses(&self, statement: &Statement, proof: &Proof) -> bool {
        self.verifier.verify(statement, &proof.to_bytes()).is_err()
    }
}

/// Elements of the base field that give a sum when multiplied with five of the extension.
pub(crate) fn solve(factors: &[EF], sum: EF) -> Vec<F> {
    let parts = |element: EF| -> Vec<F> {
        let parts: &[F] = element.as_basis_coefficients_slice();
        parts.to_vec()
    };
    let columns: Vec<Vec<F>> = factors.iter().map(|factor| parts(*factor)).collect();
    let right = parts(sum);
    let row = |row: usize| columns.iter().map(|c| c[row]).chain([right[row]]).collect();
    let mut rows: Vec<Vec<F>> = (0..DEGREE).map(row).collect();
    for place in 0..DEGREE {
        let pivot = (place..DEGREE).find(|row| rows[*row][place] != F::ZERO);
        rows.swap(place, pivot.expect("random elements are independent"));
        let inverse = rows[place][place].inverse();
        rows[place].iter_mut().for_each(|cell| *cell *= inverse);
        let own = rows[place].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(other, _)| *other != place) {
            let factor = row[place];
            row.iter_mut().zip(&own).for_each(|(cell, own)| *cell -= factor * *own);
        }
    }
    rows.iter().map(|row| row[DEGREE]).collect()
}

#[test]
fn honest_proofs_of_all_nets_and_modes_are_accepted() {
    for net in Net::ALL {
        let model = net.model();
        for mode in [Mode::Public, Mode::Committed] {
            // From sixteen on look-ups have inferences in rows.
            for batch in [1, 3, 4, 16] {
                let inputs = (0..batch).map(|seed| net.inputs(seed)).collect();
                let proven = proven(&model, mode, inputs);
                let bits = proven.check();
                assert!(bits.clone().is_ok_and(|bits| bits >= 100.0), "{net:?} {mode:?} {bits:?}");
            }
        }
    }
}

/// Goal: keys that would not fit into a number of 32 bits are not made finer.
#[test]
fn numbers_far_from_zero_are_proven() {
    let proven = proven(&Net::Far.model(), Mode::Public, vec![Net::Far.inputs(1)]);
    assert!(proven.check().is_ok());
}

#[test]
fn nets_are_clamped_in_all_ways() {
    use crate::plan::Clamping;
    let uses = |wanted: fn(&Clamping) -> bool| {
        Net::ALL.into_iter().any(|net| {
            let prover = Prover::new(net.model(), Mode::Public, 1).expect("it can be proven");
            prover.setup().plan.rescales.values().any(|rescaled| wanted(&rescaled.clamping))
        })
    };
    assert!(uses(|clamping| *clamping == Clamping::Keys));
    assert!(uses(|clamping| matches!(clamping, Clamping::Blocks(_))));
    assert!(uses(|clamping| matches!(clamping, Clamping::Excess(_))));
    assert!(uses(|clamping| matches!(clamping, Clamping::End(_))));
    assert!(uses(|clamping| matches!(clamping, Clamping::Plain(_, limbs) if limbs.is_empty())));
    assert!(uses(|clamping| matches!(clamping, Clamping::Plain(_, limbs) if !limbs.is_empty())));
}

/// Goal: hash, layout and code of a commitment do not change unnoticed, as roots are kept. Method:
/// a golden root.
#[test]
fn weights_commitment_is_the_golden_one() {
    let prover = Prover::new(Net::Dense.model(), Mode::Committed, 1).expect("it can be proven");
    let id = prover.commitment().expect("it has weights").id();
    let golden =
        expect_test::expect!["15321b802e3473a85240781d49e7d2c5049c2ab437f2626008826cd570b68679"];
    golden.assert_eq(&id.to_string());
}

#[test]
fn outputs_of_a_proof_are_those_of_the_program() {
    let model = Net::Convolution.model();
    let inputs = Net::Convolution.inputs(5);
    let proven = proven(&model, Mode::Public, vec![inputs.clone()]);
    let runner = tg_tensor::Runner::new(model, tg_tensor::Options::default());
    assert_eq!(Ok(proven.statement.outputs[0].clone()), runner.run(&inputs));
}

#[test]
fn proof_for_another_context_program_or_model_is_refused() {
    let model = Net::Convolution.model();
    let proven = proven(&model, Mode::Public, vec![Net::Convolution.inputs(1)]);
    assert!(proven.check().is_ok());

    let mut other = proven.statement.clone();
    other.context[0] ^= 1;
    assert!(proven.refuses(&other, &proven.proof));

    let other = Net::Convolution.model_with(1);
    assert_eq!(other.program().specs(), model.program().specs());
    let verifier = Verifier::public(other, 1).expect("it can be proven");
    assert!(verifier.verify(&proven.statement, &proven.proof.to_bytes()).is_err());

    let verifier = Verifier::public(model, 2).expect("it can be proven");
    let found = verifier.verify(&proven.statement, &proven.proof.to_bytes());
    assert_eq!(found, Err(VerifyError::Batch { found: 1, expected: 2 }));
}

#[test]
fn proof_against_another_commitment_is_refused() {
    let (model, other) = (Net::Dense.model(), Net::Dense.model_with(1));
    let proven = proven(&model, Mode::Committed, vec![Net::Dense.inputs(1)]);
    let prover = Prover::new(other.clone(), Mode::Committed, 1).expect("it can be proven");
    assert_ne!(prover.commitment(), proven.prover.commitment());
    let verifier = verifier(&other, &prover, Mode::Committed, 1);
    assert!(verifier.verify(&proven.statement, &proven.proof.to_bytes()).is_err());
}

#[test]
fn weights_commitment_does_not_depend_on_the_batch_and_is_read_back() {
    let model = Net::Dense.model();
    let commitment = |batch: usize| {
        let prover = Prover::new(model.clone(), Mode::Committed, batch).expect("it can be proven");
        prover.commitment().expect("it has weights")
    };
    assert_eq!(commitment(1), commitment(5));
    let bytes = commitment(1).to_bytes();
    assert_eq!(crate::WeightsCommitment::from_bytes(&bytes), Some(commitment(1)));
    assert_eq!(crate::WeightsCommitment::from_bytes(&[0xff; 32]), None);
    assert_eq!(crate::WeightsCommitment::from_bytes(&bytes[1..]), None);
    assert_eq!(crate::WeightsCommitment::from_bytes(&[]), None);
}

/// Goal: no division by a wrong power is accepted. Method: in divisions of all kinds a liar commits
/// to the numbers of another divisor, with which all look-ups of them hold.
#[test]
fn division_by_another_power_is_refused() {
    let net = Net::Normalise;
    let liar = lies::Liar::new(net, Mode::Public, 1);
    let plan = &liar.setup().plan;
    let mut lies = 0;
    for (operation, normal) in &plan.normals {
        let own = normal.own();
        for other in [-1_000, -1, 0, 1, 2, 1_023, 1_024, 2_047, 2_048, 4_095, 4_096, 11_111] {
            let found = normal.divisor(other);
            let mut lie = liar.witness.clone();
            let limbs = lie.limbs.get_mut(operation).expect("it has limbs");
            let is_same =
                limbs[own..].iter().zip(&found).all(|(column, number)| column[0] == *number);
            // Divisors that this operation cannot have would not be found in its tables.
            let has_index = plan.groups.iter().any(|group| {
                let table = &plan.tables[group.table];
                group.what == plan::Lookup::Formed(*operation)
                    && matches!(table, plan::Table::Pairs { from, .. } if *from < 0)
                    && table.place(found[0].into()).is_some()
            });
            if is_same || !has_index || limbs.len() - own != found.len() {
                continue;
            }
            for (column, number) in limbs[own..].iter_mut().zip(found) {
                column[0] = number;
            }
            lies += 1;
            liar.look_up_again(&mut lie, *operation);
            assert!(liar.is_refused(&liar.proven.statement, &lie), "{operation} by {other}");
        }
    }
    assert!(lies > 20, "only {lies} lies");
}
