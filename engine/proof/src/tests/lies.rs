//! Provers that lie, with all their power: they choose what they commit to, run look-ups and
//! sum-checks on other numbers, and hide that look-ups do not add up.

use super::programs::Net;
use super::{CONTEXT, Proven, proven};
use crate::field::{EF, F, ext, int};
use crate::pcs::{Opening, Root};
use crate::plan::{Holder, Lookup, Role};
use crate::witness::{Looked, Witness, whole};
use crate::{Mode, Proof, Statement, VerifyError};
use p3_whir::pcs::proof::QueryOpenings;
use std::sync::Arc;
use tg_tensor::{Model, Options, Runner, Tensor};

pub(super) struct Liar {
    pub(super) proven: Proven,
    pub(super) witness: Witness,
}

impl Liar {
    pub(super) fn new(net: Net, mode: Mode, batch: i64) -> Self {
        let model = net.model();
        let inputs: Vec<Vec<Tensor>> = (0..batch).map(|seed| net.inputs(seed)).collect();
        Self::of(&model, proven(&model, mode, inputs))
    }

    /// One who knows an honest proof.
    pub(super) fn of(model: &Arc<Model>, proven: Proven) -> Self {
        let runner = Runner::new(model.clone(), Options { threads: 1, path: None });
        let inputs = &proven.statement.inputs;
        let witness = Witness::new(&proven.prover.setup().plan, &runner, inputs);
        Self { witness: witness.expect("inputs that fit"), proven }
    }

    /// Whether a proof of the statement from these numbers is refused: when they are committed, and
    /// when only the commitment or only the rest has them.
    pub(super) fn is_refused(&self, statement: &Statement, lie: &Witness) -> bool {
        let prove = |committed: &Witness, shown: &Witness| {
            self.proven.prover.prove_witness(statement, committed, shown, true)
        };
        let honest = self.proven.proof.to_bytes();
        let all = [prove(lie, lie), prove(lie, &self.witness), prove(&self.witness, lie)];
        assert_ne!(all[0].to_bytes(), honest, "a lie that is none shows nothing");
        // A lie that nothing but the commitment shows leaves the honest proof, if it is not there.
        all.iter().all(|proof| proof.to_bytes() == honest || self.proven.refuses(statement, proof))
    }

    pub(super) fn setup(&self) -> &crate::setup::Setup {
        self.proven.prover.setup()
    }

    /// Looks up what a liar has committed to for an operation, wherever that is in its table.
    pub(super) fn look_up_again(&self, lie: &mut Witness, operation: usize) {
        let plan = &self.setup().plan;
        for (index, group) in plan.groups.iter().enumerate() {
            if group.what != Lookup::Formed(operation) {
                continue;
            }
            let looked = lie.looked(plan, group, operation);
            let table = &plan.tables[group.table];
            let places = |looked: &Looked| {
                let keys = looked.numbers[0].iter();
                keys.filter_map(|key| table.place((*key).into())).collect::<Vec<_>>()
            };
            for place in places(&lie.lookups[index]) {
                lie.multiplicities[group.table][place] -= 1;
            }
            for place in places(&looked) {
                lie.multiplicities[group.table][place] += 1;
            }
            lie.lookups[index] = looked;
        }
    }
}

impl Looked {
    /// Key and values of a look-up.
    pub(crate) fn get(&self, at: usize) -> [i32; 3] {
        self.numbers.each_ref().map(|numbers| numbers.get(at).copied().unwrap_or(0))
    }

    /// Puts others in their place.
    pub(crate) fn set(&mut self, at: usize, to: [i32; 3]) {
        let len = self.numbers[0].len();
        for (numbers, to) in self.numbers.iter_mut().zip(to) {
            if to != 0 || !numbers.is_empty() {
                numbers.resize(len, 0);
                numbers[at] = to;
            }
        }
    }

    /// Changes them.
    pub(crate) fn change(&mut self, at: usize, with: impl FnOnce(&mut [i32; 3])) {
        let mut numbers = self.get(at);
        with(&mut numbers);
        self.set(at, numbers);
    }
}

impl Liar {
    /// Other elements of an operation's value: the pair that is looked up is the false one, or the
    /// one in the table.
    pub(super) fn lies_about_activations(&self) {
        let plan = &self.setup().plan;
        for (value, holder) in plan.holders.iter().enumerate() {
            let Holder::Column(column) = holder else { continue };
            let Role::Value(operation) = plan.columns[column.0].role else { continue };
            for at in [0, self.witness.values[value].len() - 1] {
                let mut lie = self.witness.clone();
                lie.values[value][at] ^= 1;
                assert!(self.is_refused(&self.proven.statement, &lie), "{operation} at {at}");
                for (group, looked) in plan.groups.iter().zip(&mut lie.lookups) {
                    if group.what == Lookup::Clamp(operation) {
                        looked.change(at, |numbers| numbers[1] ^= 1);
                    }
                }
                assert!(self.is_refused(&self.proven.statement, &lie), "{operation} at {at}");
            }
        }
    }

    /// Limbs just outside of their range, with the rounded number that belongs to them.
    pub(super) fn lies_about_remainders(&self) {
        let plan = &self.setup().plan;
        for (index, group) in plan.groups.iter().enumerate() {
            let Lookup::Limb(operation, place) = group.what else { continue };
            let size = plan.tables[group.table].size() as i32;
            let mut lie = self.witness.clone();
            let limb = &mut lie.limbs.get_mut(&operation).expect("it has limbs")[place][0];
            *limb += size;
            lie.lookups[index].change(0, |numbers| numbers[0] += size);
            for (group, looked) in plan.groups.iter().zip(&mut lie.lookups) {
                if group.what == Lookup::Clamp(operation) {
                    looked.change(0, |numbers| numbers[0] -= 1);
                }
            }
            assert!(self.is_refused(&self.proven.statement, &lie), "{operation} limb {place}");
        }
    }

    /// Another limb: in the commitment, in what follows, and in both.
    pub(super) fn lies_about_limbs(&self) {
        for column in &self.setup().plan.columns {
            let Role::Limb(operation, place) = column.role else { continue };
            let mut lie = self.witness.clone();
            lie.limbs.get_mut(&operation).expect("it has limbs")[place][0] ^= 1;
            assert!(self.is_refused(&self.proven.statement, &lie), "{operation} limb {place}");
        }
    }

    /// Another key or value of one look-up of every kind.
    pub(super) fn lies_about_look_ups(&self) {
        let plan = &self.setup().plan;
        for (index, group) in plan.groups.iter().enumerate() {
            for part in 0..3 {
                let mut lie = self.witness.clone();
                lie.lookups[index].change(0, |numbers| numbers[part] += 1);
                let (statement, honest) = (&self.proven.statement, &self.witness);
                let proof = self.proven.prover.prove_witness(statement, honest, &lie, true);
                assert_ne!(proof.to_bytes(), self.proven.proof.to_bytes(), "{:?}", group.what);
                assert!(self.proven.refuses(statement, &proof), "{:?} {part}", group.what);
            }
        }
    }

    /// Entries that are said to be looked up once more than they are.
    pub(super) fn lies_about_multiplicities(&self) {
        for table in 0..self.witness.multiplicities.len() {
            let mut lie = self.witness.clone();
            lie.multiplicities[table][1] += 1;
            assert!(self.is_refused(&self.proven.statement, &lie), "table {table}");
        }
    }

    /// Other outputs in the statement, and in the run or not.
    pub(super) fn lies_about_outputs(&self) {
        let program = &self.setup().plan.program;
        for (index, output) in program.outputs().iter().enumerate() {
            let spec = program.specs()[output.value.index()];
            let mut statement = self.proven.statement.clone();
            let mut numbers = statement.outputs[0][index].to_numbers();
            numbers[0] += if numbers[0] < i64::from(spec.hi) { 1 } else { -1 };
            statement.outputs[0][index] = Tensor::new(&spec, &numbers).expect("of the range");
            let mut lie = self.witness.clone();
            lie.values[output.value.index()][0] = numbers[0] as i32;
            assert!(self.is_refused(&statement, &lie));
            assert!(self.is_refused(&statement, &self.witness));
        }
    }
}

fn cases() -> impl Iterator<Item = Liar> {
    let nets = Net::ALL.into_iter().flat_map(|net| [(net, 1), (net, 3)]);
    // Look-ups of sixteen have inferences in rows.
    let nets = nets.chain([Net::Convolution, Net::Normalise, Net::Rows].map(|net| (net, 16)));
    nets.map(|(net, batch)| Liar::new(net, Mode::Public, batch))
}

#[test]
fn proof_that_hides_nothing_is_accepted() {
    for liar in cases() {
        let (statement, witness) = (&liar.proven.statement, &liar.witness);
        let proof = liar.proven.prover.prove_witness(statement, witness, witness, true);
        assert!(!liar.proven.refuses(statement, &proof));
    }
}

#[test]
fn wrong_activation_is_refused() {
    cases().for_each(|liar| liar.lies_about_activations());
}

#[test]
fn remainder_out_of_its_range_is_refused() {
    cases().for_each(|liar| liar.lies_about_remainders());
}

/// Goal: no committed number is free. Method: change one of every column, in the commitment, in
/// what follows, and in both.
#[test]
fn any_other_committed_number_is_refused() {
    cases().for_each(|liar| liar.lies_about_limbs());
}

/// Goal: what is looked up is what was committed, and is in its table. Method: change key or value
/// of one look-up of every kind.
#[test]
fn wrong_look_up_is_refused() {
    cases().for_each(|liar| liar.lies_about_look_ups());
}

/// Goal: nobody proves with other weights than are named. Method: a prover runs another model of
/// the same program, and names the weights, and opens the root, of the right one.
#[test]
fn wrong_weights_are_refused() {
    let weighted = [Net::Dense, Net::Convolution, Net::Depthwise, Net::Attention, Net::Choices];
    for (net, mode) in
        weighted.into_iter().flat_map(|net| [Mode::Public, Mode::Committed].map(|mode| (net, mode)))
    {
        let (ours, theirs) = (net.model(), net.model_swapped());
        assert_eq!(ours.program().id(), theirs.program().id());
        assert_ne!(ours.weights_root(), theirs.weights_root());
        let prover = |model: &Arc<Model>| {
            crate::Prover::new(model.clone(), mode, 1).expect("it can be proven")
        };
        let verifier = super::verifier(&ours, &prover(&ours), mode, 1);
        let inputs = || vec![net.inputs(3)];
        let disguised = prover(&theirs).disguised(prover(&ours));
        let found = disguised.prove(inputs(), CONTEXT.to_vec());
        let (statement, proof) = found.expect("inputs that fit");
        assert!(verifier.verify(&statement, &proof.to_bytes()).is_err(), "{net:?} {mode:?}");
        // Without a disguise it is the proof of another statement; with the right weights it holds.
        let honest = prover(&ours).disguised(prover(&ours)).prove(inputs(), CONTEXT.to_vec());
        let (statement, proof) = honest.expect("inputs that fit");
        assert!(verifier.verify(&statement, &proof.to_bytes()).is_ok(), "{net:?} {mode:?}");
    }
}

/// Goal: a row comes from the table of its own inference, and is one of the rows that there are.
/// Method: look up the same place of the next inference, and padding, with all counts as they then
/// must be.
#[test]
fn row_of_another_inference_or_of_padding_is_refused() {
    let mut lies = 0;
    for batch in [3, 16] {
        let liar = Liar::new(Net::Rows, Mode::Public, batch);
        let plan = &liar.setup().plan;
        for (index, group) in plan.groups.iter().enumerate() {
            let Lookup::Row(operation) = group.what else { continue };
            let table = &plan.tables[group.table];
            let honest = liar.witness.lookups[index].get(0);
            let entries = table.elements(&liar.witness.held(plan, table));
            let place = |key: i32| table.place(key.into()).expect("a key");
            let next = place(honest[0] + table.keys_of_inference() as i32);
            let padding = entries.iter().position(|entry| entry[0] == int(-1));
            for other in [Some(next), padding].into_iter().flatten() {
                let mut lie = liar.witness.clone();
                let found = entries[other].map(whole);
                lie.lookups[index].set(0, found);
                lie.multiplicities[group.table][place(honest[0])] -= 1;
                lie.multiplicities[group.table][other] += 1;
                lie.values[plan.value_of(operation).index()][0] = found[1];
                assert!(liar.is_refused(&liar.proven.statement, &lie), "{operation} {found:?}");
                lies += 1;
            }
        }
    }
    assert!(lies > 10, "only {lies} lies");
}

#[test]
fn wrong_multiplicity_is_refused() {
    cases().for_each(|liar| liar.lies_about_multiplicities());
}

#[test]
fn false_accumulator_with_fitting_output_is_refused() {
    let liar = Liar::new(Net::Dense, Mode::Public, 1);
    let mut lie = liar.witness.clone();
    lie.clear[0] += 2;
    assert_ne!(lie.clear, liar.proven.proof.clear);
    let mut statement = liar.proven.statement.clone();
    let mut numbers = statement.outputs[0][0].to_numbers();
    numbers[0] += 3;
    let spec = liar.proven.prover.setup().plan.program.specs().last().copied().expect("an output");
    statement.outputs[0][0] = Tensor::new(&spec, &numbers).expect("of the range");
    let prove =
        |shown: &Witness| liar.proven.prover.prove_witness(&statement, &liar.witness, shown, true);
    let bytes = |proof: Proof| liar.proven.verifier.verify(&statement, &proof.to_bytes()).map(drop);
    assert_eq!(bytes(prove(&lie)), Err(VerifyError::Claims));
    assert_eq!(bytes(prove(&liar.witness)), Err(VerifyError::Accumulators));
}

#[test]
fn accumulators_that_are_equal_in_the_field_only_are_refused() {
    let liar = Liar::new(Net::Dense, Mode::Public, 1);
    let mut proof = liar.proven.proof.clone();
    let moved = i64::from(proof.clear[0]) - proof.clear[0].signum() as i64 * crate::field::PRIME;
    proof.clear[0] = moved as i32;
    let found = liar.proven.verifier.verify(&liar.proven.statement, &proof.to_bytes());
    assert_eq!(found.map(drop), Err(VerifyError::Accumulators));
}

#[test]
fn wrong_outputs_are_refused_even_with_a_proof_made_for_them() {
    cases().for_each(|liar| liar.lies_about_outputs());
}

#[test]
fn run_on_other_inputs_is_refused() {
    for net in Net::ALL {
        let liar = Liar::new(net, Mode::Public, 1);
        let other = proven(&net.model(), Mode::Public, vec![net.inputs(9)]);
        let mut statement = liar.proven.statement.clone();
        statement.inputs = other.statement.inputs.clone();
        assert_ne!(statement.inputs, liar.proven.statement.inputs, "{net:?}");
        assert!(liar.is_refused(&statement, &liar.witness), "{net:?}");
        assert!(liar.proven.refuses(&liar.proven.statement, &other.proof), "{net:?}");
    }
}

#[test]
fn lies_with_secret_weights_are_refused() {
    let liar = Liar::new(Net::Convolution, Mode::Committed, 1);
    let mut lie = liar.witness.clone();
    let hidden = liar.proven.prover.setup().plan.value_of(0);
    lie.values[hidden.index()][3] ^= 1;
    assert!(liar.is_refused(&liar.proven.statement, &lie));
}

/// Goal: every bit of a proof matters and none makes the verifier panic. Method: flip bits all over
/// every section.
#[test]
fn flipped_bits_in_every_section_are_refused() {
    for (net, mode) in [(Net::Convolution, Mode::Committed), (Net::Dense, Mode::Public)] {
        let proven = proven(&net.model(), mode, vec![net.inputs(0)]);
        let bytes = proven.proof.to_bytes();
        let mut at = 0;
        for (name, len) in proven.proof.sections() {
            for flip in 0..60 {
                let mut other = bytes.clone();
                let place = at + (flip * 7_919 + flip * flip * 13) % len;
                other[place] ^= 1 << (flip % 8);
                assert_ne!(other, bytes);
                let found = proven.verifier.verify(&proven.statement, &other);
                assert!(found.is_err(), "{net:?} {name} byte {place}");
            }
            at += len;
        }
        assert_eq!(at, bytes.len());
    }
}

#[test]
fn bytes_that_are_cut_or_longer_or_no_elements_are_refused() {
    let proven = proven(&Net::Dense.model(), Mode::Public, vec![Net::Dense.inputs(0)]);
    let bytes = proven.proof.to_bytes();
    let check = |bytes: &[u8]| proven.verifier.verify(&proven.statement, bytes).map(drop);
    assert_eq!(check(&bytes), Ok(()));
    assert_eq!(check(&[bytes.clone(), vec![0]].concat()), Err(VerifyError::Bytes));
    for len in (0..bytes.len()).step_by(997) {
        assert_eq!(check(&bytes[..len]), Err(VerifyError::Bytes));
    }
    // The root's first element as itself plus p is the same element in other bytes.
    let at = proven.proof.sections()[0].1 + 1;
    let mut other = bytes.clone();
    other[at..at + 4].copy_from_slice(&[0xff; 4]);
    assert_eq!(check(&other), Err(VerifyError::Bytes));
    let long = vec![0; crate::PROOF_BYTES_MAX + 1];
    assert!(matches!(check(&long), Err(VerifyError::Size { .. })));
    assert_eq!(proven.statement.context, CONTEXT);
}

/// Changes the opened rows of the first and of the last round.
pub(super) fn rows(opening: &mut Opening, base: fn(&mut Vec<Vec<F>>), ext: fn(&mut Vec<Vec<EF>>)) {
    let last = &mut opening.whir.final_openings;
    for openings in opening.whir.rounds.iter_mut().map(|round| &mut round.openings).chain([last]) {
        match openings {
            QueryOpenings::Base(opened) => base(&mut opened.rows),
            QueryOpenings::Extension(opened) => ext(&mut opened.rows),
        }
    }
}

/// A tree with two roots.
pub(super) fn twice(root: &Root) -> Root {
    Root::new([root.roots(), root.roots()].concat())
}

pub(super) fn shorten<T>(list: &mut Vec<T>) {
    list.truncate(list.len() - 1);
}

/// Goal: a proof of another shape is refused and never panics. Method: drop or add parts.
#[test]
fn proofs_of_another_shape_are_refused() {
    let proven =
        proven(&Net::Convolution.model(), Mode::Committed, vec![Net::Convolution.inputs(0)]);
    let changes: [fn(&mut Proof); 17] = [
        |proof| shorten(&mut proof.clear),
        |proof| proof.clear.push(0),
        |proof| shorten(&mut proof.lookups.layers),
        |proof| shorten(&mut proof.lookups.layers[3].round_polys),
        |proof| proof.products = None,
        |proof| proof.products.iter_mut().for_each(|sum| shorten(&mut sum.round_polys)),
        |proof| proof.products.iter_mut().for_each(|sum| shorten(&mut sum.round_polys[0])),
        |proof| shorten(&mut proof.claims),
        |proof| proof.functionals = None,
        |proof| proof.functionals.iter_mut().for_each(|sum| sum.pow_witnesses.push(int(1))),
        |proof| shorten(&mut proof.opening.evals),
        |proof| shorten(&mut proof.opening.whir.rounds),
        |proof| proof.opening.whir.rounds[0].commitment = None,
        |proof| shorten(&mut proof.opening.whir.rounds[0].ood_answers),
        |proof| proof.opening.whir.final_poly = None,
        |proof| shorten(&mut proof.opening.whir.initial_ood_answers),
        |proof| shorten(&mut proof.weights),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut proof = proven.proof.clone();
        change(&mut proof);
        assert_ne!(proof.to_bytes(), proven.proof.to_bytes(), "change {index}");
        assert!(proven.refuses(&proven.statement, &proof), "change {index}");
    }
    let rows: [fn(&mut Proof); 6] = [
        |proof| rows(&mut proof.opening, shorten, shorten),
        |proof| rows(&mut proof.opening, |r| shorten(&mut r[0]), |r| shorten(&mut r[0])),
        |proof| rows(&mut proof.opening, |r| r.push(r[0].clone()), |r| r.push(r[0].clone())),
        |proof| rows(&mut proof.opening, |r| r[0].push(int(1)), |r| r[0].push(ext(1))),
        |proof| proof.root = twice(&proof.root),
        |proof| {
            let round = &mut proof.opening.whir.rounds[0];
            round.commitment = round.commitment.as_ref().map(twice);
        },
    ];
    for (index, change) in rows.into_iter().enumerate() {
        let mut proof = proven.proof.clone();
        change(&mut proof);
        assert_ne!(proof.to_bytes(), proven.proof.to_bytes(), "rows {index}");
        assert!(proven.refuses(&proven.statement, &proof), "rows {index}");
    }
    let mut proof = proven.proof.clone();
    let stray = proof.opening.whir.final_sumcheck.take();
    proof.opening.whir.final_sumcheck = stray.is_none().then(Default::default);
    assert!(proven.refuses(&proven.statement, &proof), "closing sum-check");
}
