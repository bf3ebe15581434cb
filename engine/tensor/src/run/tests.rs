//! The executor against the definition.

use super::linear::Way;
use super::*;
use crate::element::Element;
use crate::program::{
    Constant, Input, Label, Multipliers, Operand, Operation, Output, Parts, Primitive, Rescale,
    Shape, Sides, Strides, Window,
};
use crate::sample;
use std::cell::Cell;
use std::convert::Infallible;

/// Compares what a runner computes with the definition, every `stride`-th element.
fn check_kept(model: &Model, inputs: &[Tensor], kept: &[Tensor], stride: usize) {
    let program = model.program();
    assert_eq!(kept.len(), program.operations().len());
    for (index, (operation, found)) in program.operations().iter().zip(kept).enumerate() {
        found.check(&operation.spec).expect("results lie in their ranges");
        let mut read = |value: ValueId, at: usize| -> Result<i32, Infallible> {
            let tensor = match program.place(value).expect("value exists") {
                Place::Input(input) => &inputs[input],
                Place::Constant(constant) => &model.constants()[constant],
                Place::Operation(made) => &kept[made],
            };
            Ok(tensor.get(at).expect("element exists"))
        };
        for at in (0..found.len()).step_by(stride) {
            let element = Element::new(program, index, at).expect("element exists");
            let Ok(expected) = element.compute(&mut read);
            let what = &operation.primitive;
            assert_eq!(found.get(at), Some(expected), "operation {index} element {at} {what:?}");
        }
    }
}

/// Goal: the executor is the definition. Method: random models and inputs; every operation's output
/// with one thread is compared with the definition, then both paths and three teams with that.
#[test]
fn prop_runs_compute_the_definition_on_all_paths_and_teams() {
    arbtest::arbtest(|u| {
        let model = Arc::new(sample::model(u)?);
        let inputs = sample::inputs(u, model.program())?;
        let options = |path, threads| Options { threads, path };
        let first = Runner::new(Arc::clone(&model), options(Some(Path::Portable), 1));
        let kept = first.run_keeping(&inputs).expect("inputs are valid");
        check_kept(&model, &inputs, &kept, 1);
        let outputs = first.run(&inputs).expect("inputs are valid");
        for (path, threads) in [(None, 1), (None, 2), (None, 3), (Some(Path::Portable), 2)] {
            let runner = Runner::eager(Arc::clone(&model), options(path, threads));
            assert_eq!(runner.run_keeping(&inputs).as_ref(), Ok(&kept));
            assert_eq!(runner.run(&inputs).as_ref(), Ok(&outputs));
        }
        Ok(())
    })
    .budget_ms(5_000);
}

/// Goal: the property above sees every way of computing a product and operations that are written
/// over their operands. Method: count them.
#[test]
fn samples_reach_every_way_of_computing() {
    let counts: [Cell<u32>; 5] = Default::default();
    let count = |index: usize| counts[index].set(counts[index].get() + 1);
    arbtest::arbtest(|u| {
        let runner = Runner::new(sample::model(u)?, Options { threads: 1, path: None });
        for step in &runner.steps {
            let Step::Linear(linear) = step else { continue };
            match &linear.way {
                Way::Depthwise(_) => count(0),
                Way::FewRows => count(1),
                Way::FewColumns(_) => count(2),
                Way::Packed(_) => count(3),
            }
        }
        if runner.plan.slots().len() < runner.steps.len() {
            count(4);
        }
        Ok(())
    })
    .budget_ms(1_000);
    for (index, count) in counts.iter().enumerate() {
        assert!(count.get() >= 20, "{index}: {}", count.get());
    }
}

fn label(text: &str) -> Label {
    Label::lossy(text)
}

fn shape(len: u32) -> Shape {
    Shape::new(vec![len]).expect("one side is allowed")
}

const BYTE: (i32, i32) = (-128, 127);

fn byte(len: u32) -> Spec {
    Spec { len, lo: BYTE.0, hi: BYTE.1 }
}

/// A chain of layers: each reads the output of the one before. Weights are -3 to 3, without bias.
#[derive(Default)]
struct Chain {
    parts: Parts,
    constants: Vec<Tensor>,
}

impl Chain {
    fn new(len: u32, layers: u32) -> Self {
        let mut chain = Self::default();
        let spec = byte(len);
        let (label, shape) = (label("x"), shape(len));
        chain.parts.inputs.push(Input { label, shape, spec, scaling: None });
        chain.parts.constants.reserve(layers as usize);
        chain
    }

    /// The value that a layer reads when there will be `layers` of them.
    fn last(&self, layers: u32) -> ValueId {
        let made = self.parts.operations.len() as u32;
        ValueId { number: if made == 0 { 0 } else { layers + made } }
    }

    fn linear(&mut self, layers: u32, window: Window, columns: u32, groups: u32) {
        let depth = window.taps() as u32 * (window.channels / groups);
        let spec = Spec { len: depth * columns, lo: -3, hi: 3 };
        let numbers: Vec<i64> = (0..i64::from(spec.len)).map(|i| (i * 5 + i / 7) % 7 - 3).collect();
        let sum = |column: &[i64]| column.iter().map(|weight| weight.abs()).sum::<i64>();
        let bound = numbers.chunks(depth as usize).map(sum).max().unwrap_or(0) * 128;
        let tensor = Tensor::new(&spec, &numbers).expect("weights are small");
        let weights = ValueId { number: 1 + self.constants.len() as u32 };
        self.parts.constants.push(Constant { label: label("w"), shape: shape(spec.len), spec });
        self.constants.push(tensor);
        let multipliers = (0..columns).map(|column| 3 + column as i32 % 5).collect();
        let rescale = Rescale {
            pre_shift: 0,
            multipliers: Multipliers::new(multipliers).expect("few columns"),
            shift: 9,
            zero: -3,
        };
        let x = self.last(layers);
        let (bias, pad, bound) = (None, 5, bound as u32);
        let primitive =
            Primitive::Linear { x, weights, bias, window, columns, groups, pad, bound, rescale };
        let rows = window.batch * window.positions() as u32;
        let spec = byte(rows * columns);
        self.parts.operations.push(Operation { label: label("linear"), spec, primitive });
    }

    fn model(mut self) -> Model {
        let value = self.last(self.constants.len() as u32);
        let spec = self.parts.operations.last().expect("a layer").spec;
        let (label, shape) = (label("y"), shape(spec.len));
        self.parts.outputs.push(Output { label, shape, value, scaling: None });
        let program = Program::new(self.parts).expect("program is valid");
        Model::new(program, self.constants).expect("model is valid")
    }
}

fn image(side: u32, channels: u32, kernel: u32, stride: u32) -> Window {
    let out = side.div_ceil(stride);
    let pad = (kernel / 2) as i32;
    Window {
        height: side,
        width: side,
        out_height: out,
        out_width: out,
        kernel_height: kernel,
        kernel_width: kernel,
        stride_height: stride,
        stride_width: stride,
        pad_top: pad,
        pad_left: pad,
        ..Window::rows(1, channels)
    }
}

fn ramp(len: u32) -> Tensor {
    let numbers: Vec<i64> = (0..i64::from(len)).map(|i| (i * 37 + i / 11) % 256 - 128).collect();
    Tensor::new(&byte(len), &numbers).expect("bytes")
}

fn check_model(model: Model, stride: usize) {
    let model = Arc::new(model);
    let inputs: Vec<Tensor> =
        model.program().inputs().iter().map(|input| ramp(input.spec.len)).collect();
    let options = |path, threads| Options { threads, path };
    let runner = Runner::new(Arc::clone(&model), options(None, 1));
    let kept = runner.run_keeping(&inputs).expect("inputs are valid");
    check_kept(&model, &inputs, &kept, stride);
    for (path, threads) in [(None, 2), (None, 3), (Some(Path::Portable), 2)] {
        let runner = Runner::new(Arc::clone(&model), options(path, threads));
        assert_eq!(runner.run_keeping(&inputs).as_ref(), Ok(&kept), "{path:?} {threads}");
    }
}

/// Goal: blocks, pieces and threads of real sizes fit together. Method: layers that are larger than
/// a block in every direction; some of their elements are compared with the definition.
#[test]
fn large_layers_compute_the_definition() {
    let mut images = Chain::new(33 * 33 * 20, 5);
    images.linear(5, image(33, 20, 3, 1), 70, 1);
    images.linear(5, image(33, 70, 3, 1), 70, 70);
    images.linear(5, image(33, 70, 1, 1), 40, 2);
    images.linear(5, image(33, 40, 5, 2), 3, 1);
    images.linear(5, image(17, 3, 3, 1), 24, 3);
    check_model(images.model(), 97);

    let mut rows = Chain::new(3 * 1_100, 3);
    rows.linear(3, Window::rows(3, 1_100), 1_400, 1);
    rows.linear(3, Window::rows(14, 300), 1_035, 1);
    rows.linear(3, Window::rows(138, 105), 1_100, 1);
    check_model(rows.model(), 61);
}

/// Goal: products of two values of real sizes, in one batch and in many, fit together.
#[test]
fn large_products_of_values_compute_the_definition() {
    for (batch, rows, columns, inner) in
        [(1, 3, 900, 600), (1, 25, 500, 300), (2, 150, 160, 70), (40, 30, 50, 64)]
    {
        let specs = [batch * rows * inner, batch * columns * inner].map(byte);
        let input =
            |spec: Spec| Input { label: label("x"), shape: shape(spec.len), spec, scaling: None };
        let rescale = Rescale {
            pre_shift: 0,
            multipliers: Multipliers::new(vec![1]).expect("one"),
            shift: 12,
            zero: 3,
        };
        let [a, b] = [0, 1].map(|number| ValueId { number });
        let (offset_a, offset_b) = (5, -7);
        let primitive =
            Primitive::MatMul { a, b, batch, rows, columns, inner, offset_a, offset_b, rescale };
        let spec = byte(batch * rows * columns);
        let parts = Parts {
            inputs: specs.map(input).to_vec(),
            operations: vec![Operation { label: label("product"), spec, primitive }],
            ..Parts::default()
        };
        let program = Program::new(parts).expect("program is valid");
        check_model(Model::new(program, Vec::new()).expect("model is valid"), 101);
    }
}

#[test]
fn accumulators_of_a_product_are_its_sums() {
    arbtest::arbtest(|u| {
        let model = Arc::new(sample::model(u)?);
        let inputs = sample::inputs(u, model.program())?;
        let runner = Runner::new(Arc::clone(&model), Options { threads: 1, path: None });
        let kept = runner.run_keeping(&inputs).expect("inputs are valid");
        for (index, operation) in model.program().operations().iter().enumerate() {
            let value = |value: ValueId| match model.program().place(value).expect("exists") {
                Place::Input(input) => &inputs[input],
                Place::Constant(constant) => &model.constants()[constant],
                Place::Operation(made) => &kept[made],
            };
            let found = match &operation.primitive {
                Primitive::Linear { x, .. } => runner.accumulators(index, &[value(*x)]),
                Primitive::MatMul { a, b, .. } => {
                    runner.accumulators(index, &[value(*a), value(*b)])
                }
                Primitive::Join { .. }
                | Primitive::Product { .. }
                | Primitive::Table { .. }
                | Primitive::Sum { .. }
                | Primitive::Max { .. }
                | Primitive::Normalise { .. }
                | Primitive::Move { .. }
                | Primitive::Select { .. }
                | Primitive::Lookup { .. }
                | Primitive::ArgMax { .. } => {
                    assert_eq!(runner.accumulators(index, &[]), Err(RunError::NoProduct(index)));
                    continue;
                }
            };
            for (at, sum) in found.expect("operands are valid").into_iter().enumerate() {
                let element = Element::new(model.program(), index, at).expect("exists");
                assert_eq!(Some(element.finish(sum.into())), kept[index].get(at));
                let mut read = |id: ValueId, at: usize| -> Result<i32, Infallible> {
                    Ok(value(id).get(at).expect("exists"))
                };
                let mut state = element.start();
                for term in 0..element.terms() {
                    let Ok(next) = element.absorb(state, term, &mut read);
                    state = next;
                }
                assert_eq!(state, i64::from(sum));
            }
        }
        Ok(())
    });
}

/// A chain of pointwise operations and one that keeps its first value to the end.
fn deep(operations: u32) -> Program {
    let len = 1_000;
    let sides = Sides::new(vec![len]).expect("one side");
    let one = Multipliers::new(vec![1]).expect("one");
    let strides = Strides::new(vec![1]).expect("one side");
    let operation = |index: u32| {
        let operand = Operand { value: ValueId { number: index }, strides: strides.clone() };
        let term = crate::program::JoinTerm { operand, multipliers: one.clone() };
        let terms = tg_types::List::new(vec![term]).expect("one term");
        let constant = one.clone();
        let primitive = if index.is_multiple_of(2) {
            Primitive::Join { sides: sides.clone(), terms, constant, shift: 0 }
        } else {
            Primitive::Max { x: ValueId { number: index }, window: Window::rows(1, len) }
        };
        Operation { label: label("step"), spec: byte(len), primitive }
    };
    let output = |number: u32| {
        let value = ValueId { number };
        Output { label: label("y"), shape: shape(len), value, scaling: None }
    };
    let input = Input { label: label("x"), shape: shape(len), spec: byte(len), scaling: None };
    let parts = Parts {
        inputs: vec![input],
        operations: (0..operations).map(operation).collect(),
        outputs: vec![output(1), output(operations)],
        ..Parts::default()
    };
    Program::new(parts).expect("program is valid")
}

#[test]
fn memory_of_a_deep_chain_is_that_of_a_few_values() {
    let program = deep(200);
    let runner = Runner::new(
        Model::new(program, Vec::new()).expect("model is valid"),
        Options { threads: 1, path: None },
    );
    assert_eq!(runner.memory_bytes(), 3 * 1_000);
    let outputs = runner.run(&[ramp(1_000)]).expect("input is valid");
    let add = |by: i64| {
        let numbers = ramp(1_000).to_numbers().into_iter().map(|x| (x + by).min(127));
        Tensor::new(&byte(1_000), &numbers.collect::<Vec<_>>()).expect("bytes")
    };
    assert_eq!(outputs, [add(1), add(100)]);
    check_model(runner.model().clone(), 1);
}

#[test]
fn run_again_uses_the_same_memory() {
    let model = Model::new(deep(5), Vec::new()).expect("model is valid");
    let runner = Runner::new(model, Options { threads: 2, path: None });
    let place = |runner: &Runner| match &runner.arenas.lock().expect("not poisoned")[..] {
        [arena] => (&raw const arena.slots[0], arena.slots.len()),
        arenas => panic!("{} arenas", arenas.len()),
    };
    let first = runner.run(&[ramp(1_000)]);
    let before = place(&runner);
    assert_eq!(runner.run(&[ramp(1_000)]), first);
    assert_eq!(place(&runner), before);
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let model = Model::new(deep(1), Vec::new()).expect("model is valid");
    let runner = Runner::new(model, Options::default());
    let label = || "x".to_owned();
    let check = |inputs: &[Tensor], expected: RunError| {
        assert_eq!(runner.run(inputs), Err(expected.clone()));
        assert_eq!(runner.run_keeping(inputs), Err(expected));
    };
    check(&[], RunError::Inputs { found: 0, expected: 1 });
    check(&[ramp(1_000), ramp(1)], RunError::Inputs { found: 2, expected: 1 });
    let wide = Tensor::I16(vec![0; 1_000]);
    check(&[wide], RunError::Width { index: 0, label: label(), found: 2, expected: 1 });
    let source = TensorError::Count { found: 999, expected: 1_000 };
    check(&[ramp(999)], RunError::Input { index: 0, label: label(), source });
}

#[test]
fn elements_and_operands_that_do_not_fit_are_refused() {
    let mut chain = Chain::new(6, 1);
    chain.linear(1, Window::rows(2, 3), 2, 1);
    chain.parts.inputs[0].spec.hi = 100;
    let runner = Runner::new(chain.model(), Options::default());
    let bad = Tensor::I8(vec![0, 1, 2, 101, 4, 5]);
    let source = TensorError::Range { index: 3, found: 101, lo: -128, hi: 100 };
    let input = |label: &str, source| RunError::Input { index: 0, label: label.to_owned(), source };
    assert_eq!(runner.run(std::slice::from_ref(&bad)), Err(input("x", source.clone())));
    assert_eq!(runner.accumulators(0, &[&bad]), Err(input("operand", source)));
    assert_eq!(runner.accumulators(0, &[]), Err(RunError::Inputs { found: 0, expected: 1 }));
    assert_eq!(runner.accumulators(1, &[&bad]), Err(RunError::NoProduct(1)));
}

#[test]
fn observer_sees_every_operation_once_in_order() {
    let model = Model::new(deep(9), Vec::new()).expect("model is valid");
    let runner = Runner::new(model, Options { threads: 2, path: None });
    let mut seen = Vec::new();
    let inputs = [ramp(1_000)];
    let outputs = runner.run_observed(&inputs, &mut |index, elements| {
        seen.push((index, elements.to_tensor()));
    });
    let kept = runner.run_keeping(&inputs).expect("input is valid");
    assert_eq!(seen, kept.iter().cloned().enumerate().collect::<Vec<_>>());
    assert_eq!(outputs, Ok(vec![kept[0].clone(), kept[8].clone()]));
}
