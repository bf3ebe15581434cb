//! Programs, inputs and runs for the tests of traces and disputes.

use super::{Run, Trace, Witness};
use crate::commit::{Salt, top, value_root};
use crate::element::Element;
use crate::model::Model;
use crate::program::{
    Constant, Input, Inverse, JoinTerm, Label, MovePart, Operand, Operation, Output, Parts, Place,
    Primitive, Program, Rescale, Run as Places, Spec, ValueId, Window,
};
use crate::tensor::Tensor;
use tg_types::{Hash32, List};

/// A small generator of numbers (xorshift64*), enough for tests.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((self.next() >> 33) as usize) % end
    }

    pub(crate) fn tensor(&mut self, spec: &Spec) -> Tensor {
        let span = (i64::from(spec.hi) - i64::from(spec.lo) + 1) as usize;
        let mut number = || i64::from(spec.lo) + self.below(span) as i64;
        let numbers: Vec<i64> = (0..spec.len).map(|_| number()).collect();
        Tensor::new(spec, &numbers).unwrap()
    }

    pub(crate) fn bytes(&mut self) -> [u8; 32] {
        std::array::from_fn(|_| self.next() as u8)
    }
}

pub(crate) fn spec(len: u32, lo: i32, hi: i32) -> Spec {
    Spec { len, lo, hi }
}

/// Elements of one byte.
pub(crate) fn bytes(len: u32) -> Spec {
    spec(len, -128, 127)
}

fn label(text: &str) -> Label {
    Label::lossy(text)
}

fn list<T, const MIN: usize, const MAX: usize>(items: Vec<T>) -> List<T, MIN, MAX> {
    List::new(items).ok().unwrap()
}

fn operand(value: ValueId, strides: &[u32]) -> Operand {
    Operand { value, strides: list(strides.to_vec()) }
}

/// A rescale that brings accumulators up to `bound` to about nine bits.
pub(crate) fn rescale(bound: i64, multiplier: i32) -> Rescale {
    let shift = (bound.max(1).ilog2() as u8).saturating_sub(9);
    Rescale { pre_shift: shift, multipliers: list(vec![multiplier]), shift: 1, zero: 1 }
}

/// Puts a program together; constants first, then operations.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) parts: Parts,
    pub(crate) constants: Vec<Tensor>,
}

impl Builder {
    pub(crate) fn input(&mut self, spec: Spec) -> ValueId {
        let shape = list(vec![spec.len]);
        self.parts.inputs.push(Input { label: label("in"), shape, spec, scaling: None });
        ValueId { number: self.parts.inputs.len() as u32 - 1 }
    }

    pub(crate) fn constant(&mut self, spec: Spec, tensor: Tensor) -> ValueId {
        let shape = list(vec![spec.len]);
        self.parts.constants.push(Constant { label: label("constant"), shape, spec });
        self.constants.push(tensor);
        let number = self.parts.inputs.len() + self.parts.constants.len() - 1;
        ValueId { number: number as u32 }
    }

    pub(crate) fn operation(&mut self, spec: Spec, primitive: Primitive) -> ValueId {
        let operation = Operation { label: label(primitive.name()), spec, primitive };
        self.parts.operations.push(operation);
        let before = self.parts.inputs.len() + self.parts.constants.len();
        ValueId { number: (before + self.parts.operations.len() - 1) as u32 }
    }

    /// A linear operation with the bound that its weights give.
    pub(crate) fn linear(&mut self, x: (ValueId, Spec), linear: &Linear, out: Spec) -> ValueId {
        let Linear { weights, bias, window, columns, groups, pad } = *linear;
        let constant = |value: ValueId| &self.constants[value.index() - self.parts.inputs.len()];
        let all = constant(weights).to_numbers();
        let each = all.len() / columns as usize;
        let bound = |column: usize| {
            let sum: i64 = all[column * each..][..each].iter().map(|weight| weight.abs()).sum();
            let bias = bias.map_or(0, |bias| constant(bias).get(column).unwrap());
            x.1.magnitude() * sum + i64::from(bias).abs()
        };
        let bound = (0..columns as usize).map(bound).max().unwrap();
        let rescale = rescale(bound, 3);
        let bound = bound as u32;
        let x = x.0;
        self.operation(
            out,
            Primitive::Linear { x, weights, bias, window, columns, groups, pad, bound, rescale },
        )
    }

    pub(crate) fn finish(mut self, outputs: &[ValueId]) -> Model {
        let before = self.parts.inputs.len() + self.parts.constants.len();
        for value in outputs {
            let len = self.parts.operations[value.index() - before].spec.len;
            let shape = list(vec![len]);
            let output = Output { label: label("out"), shape, value: *value, scaling: None };
            self.parts.outputs.push(output);
        }
        Model::new(Program::new(self.parts).unwrap(), self.constants).unwrap()
    }
}

/// What a linear operation reads besides its input.
#[derive(Clone, Copy)]
pub(crate) struct Linear {
    pub(crate) weights: ValueId,
    pub(crate) bias: Option<ValueId>,
    pub(crate) window: Window,
    pub(crate) columns: u32,
    pub(crate) groups: u32,
    pub(crate) pad: i32,
}

/// A model with all twelve primitives, values of all widths and more operations than one node has
/// children.
pub(crate) fn zoo(random: &mut Random) -> Model {
    let mut b = Builder::default();
    let x = b.input(bytes(2048));
    let picks = b.input(spec(70, 0, 6));
    let mut constant = |spec: Spec| b.constant(spec, random.tensor(&spec));
    let weights = constant(spec(8 * 9 * 2, -127, 127));
    let bias = Some(constant(spec(8, -40_000, 40_000)));
    let rows = constant(bytes(7 * 24));
    let last = constant(spec(10 * 4096, -3, 3));

    let window = image(4, 16);
    let linear = Linear { weights, bias, window, columns: 8, groups: 2, pad: 3 };
    let conv = b.linear((x, bytes(2048)), &linear, bytes(4096));
    let [max, sum] = zoo_pools(&mut b, conv);
    let [join, product] = zoo_pointwise(&mut b, max, sum);
    let last = zoo_products(&mut b, join, product, last);
    let moved = zoo_move(&mut b, product, sum);
    let select = Primitive::Select {
        sides: list(vec![1024]),
        condition: operand(moved, &[1]),
        then: operand(join, &[1]),
        otherwise: operand(max, &[1]),
    };
    let mut chain = b.operation(bytes(1024), select);
    let lookup = Primitive::Lookup { table: rows, indices: picks, row: 24 };
    let lookup = b.operation(bytes(1680), lookup);
    let arg_max = Primitive::ArgMax { x: lookup, outer: 4, len: 42, inner: 10 };
    let arg_max = b.operation(spec(40, 0, 41), arg_max);
    for _ in 0..7 {
        let entries = (0..256).map(|entry| (255 - entry - 128) as i16).collect();
        let table = Primitive::Table { x: chain, entries: list(entries) };
        chain = b.operation(bytes(1024), table);
    }
    b.finish(&[last, arg_max, chain])
}

/// Windows of 3 x 3 over two padded images.
fn image(channels: u32, side: u32) -> Window {
    Window {
        height: side,
        width: side,
        out_height: side,
        out_width: side,
        kernel_height: 3,
        kernel_width: 3,
        pad_top: 1,
        pad_left: 1,
        ..Window::rows(2, channels)
    }
}

fn zoo_pools(b: &mut Builder, conv: ValueId) -> [ValueId; 2] {
    let pool = Window {
        out_height: 8,
        out_width: 8,
        kernel_height: 2,
        kernel_width: 2,
        stride_height: 2,
        stride_width: 2,
        pad_top: 0,
        pad_left: 0,
        ..image(8, 16)
    };
    let max = b.operation(bytes(1024), Primitive::Max { x: conv, window: pool });
    let by = rescale(4 * 130, 1);
    let sum = Primitive::Sum { x: conv, window: pool, offset: 2, rescale: by };
    [max, b.operation(spec(1024, -600, 600), sum)]
}

fn zoo_pointwise(b: &mut Builder, max: ValueId, sum: ValueId) -> [ValueId; 2] {
    let entries: Vec<i16> = (0..256).map(|entry| (entry * 37 % 251 - 125) as i16).collect();
    let table = b.operation(bytes(1024), Primitive::Table { x: max, entries: list(entries) });
    let join = Primitive::Join {
        sides: list(vec![128, 8]),
        terms: list(vec![
            JoinTerm { operand: operand(sum, &[8, 1]), multipliers: list(vec![300]) },
            JoinTerm { operand: operand(table, &[8, 1]), multipliers: list(vec![-70]) },
        ]),
        constant: list((0..8).collect()),
        shift: 9,
    };
    let join = b.operation(bytes(1024), join);
    let product = Primitive::Product {
        sides: list(vec![128, 8]),
        a: operand(join, &[8, 1]),
        b: operand(max, &[0, 1]),
        offset_a: 1,
        offset_b: -1,
        rescale: rescale(130 * 130, 2),
    };
    [join, b.operation(bytes(1024), product)]
}

fn zoo_products(b: &mut Builder, join: ValueId, product: ValueId, weights: ValueId) -> ValueId {
    let mat_mul = Primitive::MatMul {
        a: join,
        b: product,
        batch: 2,
        rows: 64,
        columns: 64,
        inner: 8,
        offset_a: 5,
        offset_b: -6,
        rescale: rescale(134 * 134 * 8, 3),
    };
    let wide = spec(8192, -3000, 3000);
    let mat_mul = b.operation(wide, mat_mul);
    let window = Window::rows(2, 4096);
    let linear = Linear { weights, bias: None, window, columns: 10, groups: 1, pad: 0 };
    b.linear((mat_mul, wide), &linear, spec(20, -40_000, 40_000))
}

fn zoo_move(b: &mut Builder, product: ValueId, sum: ValueId) -> ValueId {
    let entries = (0..1024).map(|entry| (32_767 - entry * 16) as i16).collect();
    let normalise = Primitive::Normalise {
        sides: list(vec![128, 8]),
        a: operand(product, &[8, 1]),
        offset: 3,
        x: operand(sum, &[8, 0]),
        inverse: Inverse::Reciprocal,
        entries: list(entries),
        shift: 15,
        zero: -2,
    };
    let normalise = b.operation(bytes(1024), normalise);
    let along = vec![Places::Fill { count: 2 }, Places::Read { start: 1016, step: -8, count: 128 }];
    let across = vec![Places::Read { start: 0, step: 1, count: 8 }];
    let offsets = list(vec![list(across), list(along)]);
    let parts = list(vec![MovePart { value: normalise, offsets }]);
    let moved = Primitive::Move { sides: list(vec![8, 130]), axis: 1, parts, fill: -7 };
    b.operation(bytes(1040), moved)
}

/// Layers of `sides`, without padding to speak of: the smallest program of any depth.
pub(crate) fn perceptron(random: &mut Random, rows: u32, sides: &[u32]) -> Model {
    let mut b = Builder::default();
    let mut x = b.input(bytes(rows * sides[0]));
    let mut layers = Vec::new();
    for pair in sides.windows(2) {
        let weights = spec(pair[0] * pair[1], -127, 127);
        let biases = spec(pair[1], -1_000, 1_000);
        let weights = b.constant(weights, random.tensor(&weights));
        layers.push((weights, b.constant(biases, random.tensor(&biases)), pair[0], pair[1]));
    }
    for (weights, bias, from, to) in layers {
        let window = Window::rows(rows, from);
        let linear = Linear { weights, bias: Some(bias), window, columns: to, groups: 1, pad: 0 };
        x = b.linear((x, bytes(rows * from)), &linear, bytes(rows * to));
    }
    b.finish(&[x])
}

/// Random inputs of a model.
pub(crate) fn inputs(model: &Model, random: &mut Random) -> Vec<Tensor> {
    model.program().inputs().iter().map(|input| random.tensor(&input.spec)).collect()
}

/// All operations' outputs, by the meaning of each element. An element in `lies` gets the number
/// given there, and what follows is computed from it.
pub(crate) fn run(model: &Model, inputs: &[Tensor], lies: &[Lie]) -> Vec<Tensor> {
    let program = model.program();
    let mut outputs: Vec<Tensor> = Vec::new();
    for (operation, stated) in program.operations().iter().enumerate() {
        let mut read = |value: ValueId, index: usize| {
            let tensor = match program.place(value).unwrap() {
                Place::Input(place) => &inputs[place],
                Place::Constant(place) => &model.constants()[place],
                Place::Operation(place) => &outputs[place],
            };
            tensor.get(index).ok_or(())
        };
        let mut numbers = Vec::new();
        for index in 0..stated.spec.elements() {
            let element = Element::new(program, operation, index).unwrap();
            numbers.push(i64::from(element.compute(&mut read).unwrap()));
        }
        for lie in lies.iter().filter(|lie| lie.operation == operation) {
            let number = &mut numbers[lie.element];
            let span = i64::from(stated.spec.hi) - i64::from(stated.spec.lo) + 1;
            if span == 1 {
                continue; // there is nothing to lie about
            }
            let from_lo = *number - i64::from(stated.spec.lo) + 1 + lie.by % (span - 1);
            *number = i64::from(stated.spec.lo) + from_lo % span;
        }
        outputs.push(Tensor::new(&stated.spec, &numbers).unwrap());
    }
    outputs
}

/// An element that gets another number than it ought to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lie {
    pub(crate) operation: usize,
    pub(crate) element: usize,
    pub(crate) by: i64,
}

/// A run with everything that a witness borrows.
pub(crate) struct Ran {
    pub(crate) model: Model,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) inputs_salt: Salt,
    pub(crate) operations: Vec<Tensor>,
    pub(crate) trace: Trace,
}

impl Ran {
    pub(crate) fn new(model: Model, inputs: Vec<Tensor>, salts: [[u8; 32]; 2]) -> Self {
        let operations = run(&model, &inputs, &[]);
        let trace = Trace::of(model.program(), Salt::new(salts[1]), &operations).unwrap();
        Self { model, inputs, inputs_salt: Salt::new(salts[0]), operations, trace }
    }

    /// The zoo with random weights, inputs and salts.
    pub(crate) fn zoo(random: &mut Random) -> Self {
        let model = zoo(random);
        let inputs = inputs(&model, random);
        Self::new(model, inputs, [random.bytes(), random.bytes()])
    }

    /// The same run by somebody who lies.
    pub(crate) fn lying(&self, lies: &[Lie]) -> Self {
        let operations = run(&self.model, &self.inputs, lies);
        let salt = *self.trace.salt();
        let trace = Trace::of(self.model.program(), salt, &operations).unwrap();
        let (model, inputs) = (self.model.clone(), self.inputs.clone());
        Self { model, inputs, inputs_salt: self.inputs_salt, operations, trace }
    }

    pub(crate) fn program(&self) -> &Program {
        self.model.program()
    }

    pub(crate) fn witness(&self) -> Witness<'_> {
        let (inputs, operations) = (&self.inputs, &self.operations);
        let run = Run { inputs, inputs_salt: self.inputs_salt, operations };
        Witness::new(&self.model, run, &self.trace).unwrap()
    }
}

impl Trace {
    /// The same trace with another digest for a tile.
    pub(crate) fn with_digest(
        &self,
        program: &Program,
        operation: usize,
        tile: usize,
        digest: Hash32,
    ) -> Self {
        let mut trace = self.clone();
        trace.digests[self.starts[operation] + tile] = digest;
        let spec = program.operations()[operation].spec;
        let top = top(trace.tiles(operation).unwrap());
        trace.roots[operation] = value_root(spec.len, spec.width(), &top);
        trace
    }
}
