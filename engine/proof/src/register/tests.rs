//! Registrations: honest ones, and weights that do not fit.

use super::program::Registered;
use super::{
    RegisterError, hiding_setup, prove, prove_hiding, setup, statement, verify, verify_hiding,
};
use crate::court;
use crate::field::int;
use crate::hiding::{HiddenWeights, HidingRoot, Seed, Shown, Stream, Tensors, Weights, WeightsKey};
use crate::hiding::{ZkProver, ZkSeeds, ZkStatement, ZkVerifier};
use crate::plan::{Check, Lookup, Plan, Role};
use crate::prove::Prover;
use crate::tests::programs::Net;
use crate::tests::random::provable;
use crate::verify::Verifier;
use crate::witness::{Looked, Witness};
use crate::{Mode, PlanError, ProveError, VerifyError};
use std::sync::Arc;
use tg_tensor::program::{
    Constant, Input, Label, Operation, Output, Parts, Primitive, Program, Rescale, Shape, Spec,
    ValueId, Window,
};
use tg_tensor::{Model, Options, Runner, Tensor, sample};

const CONTEXT: &[u8] = b"chain, owner";

fn key(used: u16) -> WeightsKey {
    WeightsKey::new(Seed::new([5; 32]), 3, used)
}

fn seed(byte: u8) -> Seed {
    Seed::new([byte; 32])
}

/// A program with another bound of its first Linear that has a bias or not, as asked.
fn with_bound(program: &Program, change: i64, has_bias: bool) -> Option<Program> {
    let mut parts = parts(program);
    let linear = parts.operations.iter_mut().find_map(|operation| {
        let Primitive::Linear { bound, bias, .. } = &mut operation.primitive else { return None };
        (bias.is_some() == has_bias).then_some(bound)
    })?;
    *linear = u32::try_from(i64::from(*linear) + change).ok()?;
    Program::new(parts).ok()
}

#[test]
fn weights_of_all_nets_are_registered_under_the_root_that_inferences_open() {
    for net in Net::ALL {
        let model = net.model();
        let prover = Prover::new(model.clone(), Mode::Committed, 1).expect("provable");
        let found = prove(&model, CONTEXT.to_vec());
        let Some(expected) = prover.commitment() else {
            assert_eq!(found.map(drop), Err(ProveError::Plan(PlanError::NoWeights)), "{net:?}");
            continue;
        };
        let (commitment, proof) = found.expect("it fits");
        assert_eq!(commitment, expected);
        let found = verify(model.program(), &commitment, CONTEXT.to_vec(), &proof.to_bytes());
        let bits = found.map(|report| report.bits);
        assert!(bits.clone().is_ok_and(|bits| bits >= 100.0), "{net:?} {bits:?}");
        let prover = Prover::new(model.clone(), Mode::Committed, 3).expect("provable");
        assert_eq!(prover.commitment(), Some(commitment), "{net:?}");
    }
}

#[test]
fn weights_are_registered_without_showing_them_under_the_root_of_hiding_proofs() {
    for net in [Net::Dense, Net::Convolution, Net::Attention] {
        let model = net.model();
        let program = model.program();
        let (weights, proof) =
            prove_hiding(&model, key(0), &seed(1), CONTEXT.to_vec()).expect("it fits");
        let found = verify_hiding(program, &weights, CONTEXT.to_vec(), &proof.to_bytes());
        let bits = found.map(|report| report.bits);
        assert!(bits.clone().is_ok_and(|bits| bits >= 100.0), "{net:?} {bits:?}");
        let shown = Shown { inputs: true, outputs: true };
        let prover = ZkProver::new(model.clone(), 1, shown, Some(key(1))).expect("provable");
        assert_eq!(prover.commitment(), Some(weights), "{net:?}");
        let seeds = ZkSeeds { inputs: seed(2), outputs: seed(3), proof: seed(4) };
        let (statement, proof) =
            prover.prove(&[net.inputs(0)], &seeds, CONTEXT.to_vec()).expect("inputs that fit");
        let weights = Weights::Committed(Arc::new(program.clone()), weights);
        let verifier = ZkVerifier::new(weights, 1, shown).expect("provable");
        assert!(verifier.verify(&statement, &proof.to_bytes()).is_ok(), "{net:?}");
    }
}

/// Goal: a registration is one of a program, a root, a context. Method: change each.
#[test]
fn registration_of_anything_else_is_refused() {
    let (model, other) = (Net::Dense.model(), Net::Dense.model_with(1));
    let (commitment, proof) = prove(&model, CONTEXT.to_vec()).expect("it fits");
    let bytes = proof.to_bytes();
    let (swapped, another) = prove(&other, CONTEXT.to_vec()).expect("it fits");
    let program = model.program();
    assert!(verify(program, &commitment, CONTEXT.to_vec(), &bytes).is_ok());
    assert!(verify(program, &swapped, CONTEXT.to_vec(), &bytes).is_err());
    assert!(verify(program, &swapped, CONTEXT.to_vec(), &another.to_bytes()).is_err());
    assert!(verify(other.program(), &commitment, CONTEXT.to_vec(), &bytes).is_err());
    assert!(verify(program, &commitment, b"another".to_vec(), &bytes).is_err());
    let wider = with_bound(program, 1, true).expect("a program");
    assert!(verify(&wider, &commitment, CONTEXT.to_vec(), &bytes).is_err());
    for at in (0..bytes.len()).step_by(bytes.len() / 40) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        assert!(verify(program, &commitment, CONTEXT.to_vec(), &flipped).is_err(), "byte {at}");
    }
    // A proof of an inference is no registration.
    let prover = Prover::new(model.clone(), Mode::Committed, 1).expect("provable");
    let (_, inference) =
        prover.prove(vec![Net::Dense.inputs(0)], CONTEXT.to_vec()).expect("inputs that fit");
    assert!(verify(program, &commitment, CONTEXT.to_vec(), &inference.to_bytes()).is_err());
}

/// The registration of a program by somebody with other constants, as long as they have the same
/// widths.
struct Liar {
    registered: Registered,
    program: Program,
    prover: Prover,
    witness: Witness,
}

impl Liar {
    /// `honest` constants are those of the run, `committed` ones those behind the root.
    fn new(program: &Program, honest: &Model, committed: Model) -> Self {
        let registered = Registered::new(program).expect("it can be registered");
        let setup = setup(program, &registered).expect("it can be registered");
        let about = super::about(&registered.program, honest);
        let runner = Runner::new(Arc::new(about), Options { threads: 1, path: None });
        let witness = Witness::new(&setup.plan, &runner, &[Vec::new()]).expect("no inputs");
        let prover = Prover::with(setup, Arc::new(committed));
        Self { registered, program: program.clone(), prover, witness }
    }

    fn plan(&self) -> &Plan {
        &self.prover.setup().plan
    }

    fn claims(&self, lie: &Witness) -> Result<f64, VerifyError> {
        let statement = statement(&self.registered, CONTEXT.to_vec());
        let proof = self.prover.prove_witness(&statement, lie, lie, true);
        let setup = setup(&self.program, &self.registered).expect("it can be registered");
        let verifier = Verifier::with(Arc::new(setup), self.prover.commitment());
        verifier.verify(&statement, &proof.to_bytes()).map(|report| report.bits)
    }

    /// The group of look-ups of a constant's numbers.
    fn group(&self, constant: usize) -> usize {
        let value = self.plan().program.value_of_constant(constant);
        let reads = |what: Lookup| {
            let Lookup::Entry(operation) = what else {
                return what == Lookup::Input(value.index());
            };
            self.plan().primitive(operation).reads() == [value]
        };
        self.plan().groups.iter().position(|group| reads(group.what)).expect("it is looked up")
    }
}

/// Constants whose ranges are wider than the program's, so that they can be anything.
fn any(model: &Model, change: impl Fn(usize, &mut Vec<i64>)) -> Model {
    let mut constants = model.program().constants().to_vec();
    let mut tensors = Vec::new();
    for (index, (constant, tensor)) in constants.iter_mut().zip(model.constants()).enumerate() {
        (constant.spec.lo, constant.spec.hi) = (-(1 << 24), 1 << 24);
        let mut numbers = tensor.to_numbers();
        change(index, &mut numbers);
        tensors.push(Tensor::new(&constant.spec, &numbers).expect("a wide range"));
    }
    let program = Program::new(Parts { constants, ..Parts::default() }).expect("a program");
    Model::new(program, tensors).expect("of the range")
}

#[test]
fn liar_without_a_lie_is_accepted() {
    let model = Net::Dense.model();
    let liar = Liar::new(model.program(), &model, any(&model, |_, _| {}));
    assert!(liar.claims(&liar.witness).is_ok());
}

/// Goal: a weight out of its range is refused, whatever is looked up for it. Method: commit to it,
/// and look up the number with its magnitude, with another one, or another number.
#[test]
fn weight_out_of_its_range_is_refused() {
    for net in [Net::Dense, Net::Convolution] {
        let model = net.model();
        let spec = model.program().constants()[0].spec;
        for number in [spec.hi + 1, spec.lo - 1] {
            let committed = any(&model, |index, numbers| {
                if index == 0 {
                    numbers[3] = number.into();
                }
            });
            let liar = Liar::new(model.program(), &model, committed);
            let honest = &liar.witness;
            assert!(liar.claims(honest).is_err());
            let value = liar.plan().program.value_of_constant(0).index();
            let group = liar.group(0);
            for pair in [[number, number.abs(), 0], [number, spec.hi, 0], [spec.hi, spec.hi, 0]] {
                let mut lie = honest.clone();
                lie.values[value][3] = number;
                lie.lookups[group].set(3, pair);
                assert!(liar.claims(&lie).is_err(), "{net:?} {pair:?}");
                if let Lookup::Entry(operation) = liar.plan().groups[group].what {
                    let made = liar.plan().value_of(operation).index();
                    lie.values[made][3] = pair[1];
                    assert!(liar.claims(&lie).is_err(), "{net:?} {pair:?}");
                }
            }
        }
    }
}

/// Goal: biases are of their range, which limbs show. Method: commit to the number behind it; with
/// limbs that are those of the number, as far as there are any, or of another one.
#[test]
fn bias_out_of_its_range_is_refused() {
    let model = Net::Dense.model();
    let found = |plan: &Plan| plan.wides.keys().next().copied();
    let liar = Liar::new(model.program(), &model, any(&model, |_, _| {}));
    let constant = found(liar.plan()).expect("a bias with a wide range");
    let spec = model.program().constants()[constant].spec;
    for number in [spec.hi + 1, spec.lo - 1] {
        let committed = any(&model, |index, numbers| {
            if index == constant {
                numbers[0] = number.into();
            }
        });
        let liar = Liar::new(model.program(), &model, committed);
        assert!(liar.claims(&liar.witness).is_err());
        let mut lie = liar.witness.clone();
        let value = liar.plan().program.value_of_constant(constant).index();
        lie.values[value][0] = number;
        assert!(liar.claims(&lie).is_err());
        let limbs = liar.plan().wides[&constant].limbs(&lie.values[value]);
        for (index, group) in liar.plan().groups.iter().enumerate() {
            if let Lookup::Range(of, place) = group.what
                && of == constant
            {
                lie.lookups[index].change(0, |numbers| numbers[0] = limbs[place][0]);
            }
        }
        lie.ranges.insert(constant, limbs);
        assert!(liar.claims(&lie).is_err());
    }
}

/// The parts of a program.
fn parts(program: &Program) -> Parts {
    Parts {
        inputs: program.inputs().to_vec(),
        constants: program.constants().to_vec(),
        operations: program.operations().to_vec(),
        outputs: program.outputs().to_vec(),
    }
}

impl Liar {
    /// Looks a constant up as this plan does, and counts what is in its table.
    fn look_up_again(&self, lie: &mut Witness, constant: usize) {
        let plan = self.plan();
        let value = plan.program.value_of_constant(constant).index();
        let numbers = lie.values[value].clone();
        if let Some(wide) = plan.wides.get(&constant) {
            lie.ranges.insert(constant, wide.limbs(&numbers));
        }
        for (group, looked) in plan.groups.iter().zip(&mut lie.lookups) {
            let keys: Vec<i32> = if group.what == Lookup::Input(value) {
                let lo = plan.program.specs()[value].lo;
                numbers.iter().map(|number| number - lo).collect()
            } else if let Lookup::Range(of, place) = group.what
                && of == constant
            {
                lie.ranges[&of][place].clone()
            } else {
                continue;
            };
            *looked = Looked::keys(keys);
        }
        lie.multiplicities = plan.tables.iter().map(|table| vec![0; 1 << table.bits()]).collect();
        for (group, looked) in plan.groups.iter().zip(&lie.lookups) {
            let table = &plan.tables[group.table];
            for place in looked.numbers[0].iter().filter_map(|key| table.place((*key).into())) {
                lie.multiplicities[group.table][place] += 1;
            }
        }
    }
}

/// Goal: nothing but the range refuses a number out of it. Method: the honest registration of a
/// program whose range of a constant is no wider than needed, for one whose range ends just before
/// the constant's largest or smallest number.
#[test]
fn constant_that_fits_a_wider_range_only_is_refused() {
    let model = Net::Dense.model();
    let ranged = |constant: usize, lo: i64, hi: i64| {
        let mut parts = parts(model.program());
        let spec = &mut parts.constants[constant].spec;
        (spec.lo, spec.hi) = (lo as i32, hi as i32);
        Program::new(parts).expect("a program")
    };
    for constant in 0..6 {
        let numbers = model.constants()[constant].to_numbers();
        let ends = (numbers.iter().copied().min(), numbers.iter().copied().max());
        let (Some(least), Some(most)) = ends else { continue };
        let program = ranged(constant, least, most);
        let honest = Liar::new(&program, &model, any(&model, |_, _| {}));
        assert!(honest.claims(&honest.witness).is_ok(), "{constant}");
        for (lo, hi) in [(least, most), (least + 1, most), (least, most - 1)] {
            let program = ranged(constant, lo, hi);
            let registered = Registered::new(&program).expect("it can be registered");
            let setup = setup(&program, &registered).expect("it can be registered");
            let prover = Prover::with(setup, Arc::new(any(&model, |_, _| {})));
            let witness = honest.witness.clone();
            let liar = Liar { registered, program, prover, witness };
            let mut lie = liar.witness.clone();
            liar.look_up_again(&mut lie, constant);
            let fits = (lo, hi) == (least, most);
            assert_eq!(liar.claims(&lie).is_ok(), fits, "{constant}: {lo}..{hi}");
        }
    }
}

/// The model without biases, with the bounds that are left.
fn without_bias(model: &Model) -> Model {
    let mut parts = parts(model.program());
    for operation in &mut parts.operations {
        let stated = operation.clone();
        let Primitive::Linear { x, weights, bias, columns, pad, bound, .. } =
            &mut operation.primitive
        else {
            continue;
        };
        let largest = model.program().spec(*x).expect("a value").magnitude();
        let numbers = model.constant(*weights).expect("a constant").to_numbers();
        let column = |row: &[i64]| row.iter().map(|w| w.abs()).sum::<i64>();
        let sums = numbers.chunks(numbers.len() / *columns as usize).map(column);
        *bound = (sums.max().expect("columns") * largest.max((*pad).into())) as u32;
        *bias = None;
        assert_ne!(stated, *operation);
    }
    Model::new(Program::new(parts).expect("a program"), model.constants().to_vec())
        .expect("a model")
}

#[test]
fn bound_without_bias_is_refused_from_the_first_number_that_a_sum_exceeds() {
    let model = without_bias(&Net::Dense.model());
    // What is read is up to 128, so that many below the bound no sum is allowed to be as large.
    for (less, fits) in [(0, true), (1, false), (128, false)] {
        let program = with_bound(model.program(), -less, false).expect("a program");
        let liar = Liar::new(&program, &model, any(&model, |_, _| {}));
        assert_eq!(liar.witness.outputs[0] == liar.registered.outputs, fits);
        assert_eq!(liar.claims(&liar.witness).is_ok(), fits, "{less}");
    }
}

/// Goal: one column above its bound is refused. Method: a program that states one less than what
/// its weights reach, or as much less as makes the sum of magnitudes itself too large; an honest
/// run shows that, and no liar can hide it.
#[test]
fn bound_that_weights_exceed_is_refused() {
    let model = Net::Dense.model();
    for less in [1, 40, 200] {
        let program = with_bound(model.program(), -less, true).expect("a program");
        let liar = Liar::new(&program, &model, any(&model, |_, _| {}));
        assert_ne!(liar.witness.outputs[0], liar.registered.outputs);
        assert!(liar.claims(&liar.witness).is_err(), "{less}");
        // The outputs that are stated, with everything else from the run.
        let mut lie = liar.witness.clone();
        lie.outputs = vec![liar.registered.outputs.clone()];
        for (output, tensor) in liar.plan().program.outputs().iter().zip(&liar.registered.outputs) {
            lie.values[output.value.index()] =
                tensor.to_numbers().into_iter().map(|number| number as i32).collect();
        }
        assert!(liar.claims(&lie).is_err(), "{less}");
    }
    // One more than they reach is not equal, but kept.
    let program = with_bound(model.program(), 1, true).expect("a program");
    let liar = Liar::new(&program, &model, any(&model, |_, _| {}));
    assert!(liar.claims(&liar.witness).is_ok());
}

/// Goal: nothing stands where nothing should, and no cell of a hiding commitment is out of range.
/// Method: change one cell of the stack of an otherwise honest registration.
#[test]
fn cells_of_a_hiding_commitment_are_what_they_should_be() {
    let model = Net::Dense.model();
    let program = model.program();
    let registered = Registered::new(program).expect("it can be registered");
    let setup = || hiding_setup(program, &registered, 3).expect("it can be registered");
    let about = Arc::new(super::about(&registered.program, &model));
    let prover = ZkProver::with(setup(), about.clone(), Some(key(0)));
    let plan = &prover.setup().plan;
    let runner = Runner::new(about, Options { threads: 1, path: None });
    let witness = Witness::new(plan, &runner, &[Vec::new()]).expect("no inputs");
    let owned = &prover.setup().owned[0];
    let honest = owned.cells(&prover.seal_weights().expect("weights are hidden"));
    // The largest column stands first: 12 columns of 20 weights, in rows of 32 cells.
    let column = plan.columns.iter().position(|column| column.role == Role::Constant(0));
    let column = crate::plan::ColumnId(column.expect("it is committed"));
    assert!(plan.checks.contains(&Check::Padding(column)));
    assert_eq!(honest[0], int(witness.values[0][0].into()));
    assert_eq!(honest[32], int(witness.values[0][20].into()));
    let claims = |place: Option<usize>, number: i64| {
        let mut cells = honest.clone();
        if let Some(place) = place {
            cells[place] = int(number);
        }
        let sealed = owned.commit_cells(cells, seed(9).generator(Stream::Commitment, 0));
        let weights = HiddenWeights { root: HidingRoot::of(&sealed.root), openings: 3 };
        let stated = statement(&registered, CONTEXT.to_vec());
        let (inputs, outputs) = (Tensors::Shown(stated.inputs), Tensors::Shown(stated.outputs));
        let statement = ZkStatement { inputs, outputs, context: CONTEXT.to_vec() };
        let proof = prover.prove_witness(&statement, vec![sealed], &seed(8), [&witness; 2], true);
        verify_hiding(program, &weights, CONTEXT.to_vec(), &proof.to_bytes()).map(drop)
    };
    let refused = Err(RegisterError::Proof(VerifyError::Claims));
    assert_eq!(claims(None, 0), Ok(()));
    // Behind a row, behind the last row, and a weight.
    assert_eq!(claims(Some(20), 1), refused);
    assert_eq!(claims(Some(12 * 32), 1), refused);
    assert_eq!(claims(Some(0), 128), refused);
    // Noise may be anything.
    assert_eq!(claims(Some(honest.len() - 1), 7), Ok(()));
}

/// Goal: a registration says how surely its root stands for one model. Method: look at its terms.
#[test]
fn registration_accounts_for_another_model_behind_its_root() {
    let model = Net::Dense.model();
    let (commitment, proof) = prove(&model, CONTEXT.to_vec()).expect("it fits");
    let report = verify(model.program(), &commitment, CONTEXT.to_vec(), &proof.to_bytes());
    let report = report.expect("it holds");
    let others = report.terms.iter().filter(|term| term.name == "another model behind the root");
    assert_eq!(others.count(), commitment.roots().len());
    assert!(report.bits >= 100.0, "{}", report.bits);
}

#[test]
fn weights_that_do_not_fit_a_model_or_a_key_that_is_used_up_give_no_registration() {
    let model = Net::Dense.model();
    let found = prove_hiding(&model, key(3), &seed(1), CONTEXT.to_vec()).map(drop);
    assert_eq!(found, Err(ProveError::Openings { most: 3 }));
    let without = Parts { inputs: model.program().inputs().to_vec(), ..Parts::default() };
    let without = Model::new(Program::new(without).expect("a program"), vec![]).expect("a model");
    let found = prove(&without, CONTEXT.to_vec()).map(drop);
    assert_eq!(found, Err(ProveError::Plan(PlanError::NoWeights)));
}

/// Goal: whatever can be proven with committed weights can be registered, or is refused for one of
/// the stated limits. Method: random programs; their own weights are accepted.
#[test]
fn prop_weights_of_random_programs_are_registered() {
    let registered = std::cell::Cell::new(0);
    arbtest::arbtest(|u| {
        let Some(model) = provable(&sample::model(u)?) else { return Ok(()) };
        let (commitment, proof) = match prove(&model, CONTEXT.to_vec()) {
            Ok(found) => found,
            Err(ProveError::Plan(_)) => return Ok(()),
            Err(error) => panic!("{error:?}"),
        };
        let prover = Prover::new(model.clone(), Mode::Committed, 1).expect("provable");
        assert_eq!(prover.commitment().as_ref(), Some(&commitment));
        let found = verify(model.program(), &commitment, CONTEXT.to_vec(), &proof.to_bytes());
        assert!(found.is_ok(), "{found:?}: {:#?}", model.program());
        registered.set(registered.get() + 1);
        Ok(())
    })
    .budget_ms(4_000);
    assert!(registered.get() > 2, "only {}", registered.get());
}

/// A perceptron on 784 numbers with weights and biases of all kinds.
fn perceptron(sides: &[u32]) -> Model {
    let mut parts = Parts::default();
    let spec = Spec { len: sides[0], lo: -128, hi: 127 };
    let shape = Shape::new(vec![sides[0]]).expect("one side");
    parts.inputs.push(Input { label: Label::lossy("x"), shape, spec, scaling: None });
    let mut constants = Vec::new();
    for layer in sides.windows(2) {
        let (rows, columns) = (layer[0], layer[1]);
        let number = |index: u32, span: i64| {
            (i64::from(index) * 7_919 + i64::from(index / 13) * 104_729) % (2 * span + 1) - span
        };
        let weights: Vec<i64> = (0..rows * columns).map(|index| number(index, 127)).collect();
        let biases: Vec<i64> = (0..columns).map(|index| number(index, 40_000)).collect();
        for (numbers, span) in [(weights, 127), (biases, 40_000)] {
            let spec = Spec { len: numbers.len() as u32, lo: -span, hi: span };
            let shape = Shape::new(vec![spec.len]).expect("one side");
            parts.constants.push(Constant { label: Label::lossy("c"), shape, spec });
            constants.push(Tensor::new(&spec, &numbers).expect("of the range"));
        }
    }
    let mut x = ValueId { number: 0 };
    for (place, layer) in sides.windows(2).enumerate() {
        let (rows, columns) = (layer[0], layer[1]);
        let value = |index: usize| ValueId { number: index as u32 };
        let [weights, biases] = [2 * place, 2 * place + 1].map(|at| constants[at].to_numbers());
        let largest = if place == 0 { 128 } else { 127 };
        let column = |(row, bias): (&[i64], &i64)| {
            largest * row.iter().map(|w| w.abs()).sum::<i64>() + bias.abs()
        };
        let bound = weights.chunks(rows as usize).zip(&biases).map(column).max().expect("columns");
        let multipliers = tg_types::List::new(vec![3; columns as usize]).expect("few");
        let rescale = Rescale { pre_shift: 0, multipliers, shift: 14, zero: 0 };
        let primitive = Primitive::Linear {
            x,
            weights: value(1 + 2 * place),
            bias: Some(value(2 + 2 * place)),
            window: Window::rows(1, rows),
            columns,
            groups: 1,
            pad: 0,
            bound: bound as u32,
            rescale,
        };
        let spec = Spec { len: columns, lo: 0, hi: 127 };
        parts.operations.push(Operation { label: Label::lossy("l"), spec, primitive });
        x = value(1 + constants.len() + place);
    }
    let shape = Shape::new(vec![*sides.last().expect("sides")]).expect("one side");
    parts.outputs.push(Output { label: Label::lossy("y"), shape, value: x, scaling: None });
    Model::new(Program::new(parts).expect("a program"), constants).expect("a model")
}

/// Seconds of processor time of this thread; none where the system does not tell.
fn processor_s() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(stat.split(' ').next()?.parse::<f64>().ok()? / 1e9)
}

/// Does all work on one thread of its own: a prover moves into the pool that it finds itself in.
fn timed<T: Send>(what: &str, work: impl FnOnce() -> T + Send) -> T {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let (done, spent) = pool.install(|| {
        let (started, before) = (std::time::Instant::now(), processor_s());
        let done = work();
        let spent = before.and_then(|before| Some(processor_s()? - before));
        (done, spent.unwrap_or_else(|| started.elapsed().as_secs_f64()))
    });
    println!("{what}: {:.1} ms", spent * 1e3);
    done
}

/// Goal: figures for `docs/proof.md`. Method: perceptrons of two sizes, processor time of one
/// thread.
#[test]
#[ignore = "slow: prints times and sizes"]
fn registration_and_secret_weights_of_perceptrons_slow() {
    for sides in [&[784, 128, 10][..], &[784, 1_024, 1_024, 10]] {
        let model = Arc::new(perceptron(sides));
        let program = Arc::new(model.program().clone());
        let context = CONTEXT.to_vec();
        println!("perceptron {sides:?}");
        let (commitment, proof) =
            timed("register", || prove(&model, context.clone())).expect("it fits");
        let bytes = proof.to_bytes();
        let found = timed("verify", || verify(&program, &commitment, context.clone(), &bytes));
        println!("{} bytes, {:.1} bits", bytes.len(), found.expect("it holds").bits);
        let key = |used: u16| WeightsKey::new(seed(5), 8, used);
        let (weights, proof) =
            timed("register hiding", || prove_hiding(&model, key(0), &seed(1), context.clone()))
                .expect("it fits");
        let bytes = proof.to_bytes();
        let found = timed("verify", || verify_hiding(&program, &weights, context.clone(), &bytes));
        println!("{} bytes, {:.1} bits", bytes.len(), found.expect("it holds").bits);
        let costs = timed("plan for the court", || court::costs(&program));
        println!("{:?} microseconds in the court", costs.registration);
        let spec = model.program().inputs()[0].spec;
        let inputs = vec![vec![Tensor::zeros(&spec)]];
        for name in ["secret", "known"] {
            for shown in [true, false] {
                let key = if name == "secret" { key(1) } else { WeightsKey::known() };
                let shown = Shown { inputs: shown, outputs: shown };
                println!("{name} weights, {shown:?}");
                let prover = timed("setup", || ZkProver::new(model.clone(), 1, shown, Some(key)));
                let prover = prover.expect("provable");
                let seeds = ZkSeeds { inputs: seed(2), outputs: seed(3), proof: seed(4) };
                let proven = timed("prove", || prover.prove(&inputs, &seeds, context.clone()));
                let (statement, proof) = proven.expect("inputs that fit");
                let bytes = proof.to_bytes();
                let weights = prover.commitment().expect("behind a root");
                let weights = Weights::Committed(program.clone(), weights);
                let verifier = ZkVerifier::new(weights, 1, shown).expect("provable");
                let found = timed("verify", || verifier.verify(&statement, &bytes));
                println!("{} bytes, {:.1} bits", bytes.len(), found.expect("it holds").bits);
            }
        }
    }
}
