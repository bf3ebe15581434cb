//! Networks of known shapes with random weights, as tensor programs: what is measured is what a
//! shape costs, not what a network knows.

use tg_tensor::program::{
    Constant, Input, Inverse, JoinTerm, Label, MovePart, Operand, Operation, Output, Parts,
    Primitive, Program, Rescale, Run, Shape, Spec, ValueId, Window,
};
use tg_tensor::{Model, Tensor};
use tg_types::List;

/// Multiply-adds of a program's products.
pub(super) fn multiply_adds(program: &Program) -> u64 {
    let of = |operation: &Operation| {
        let len = u64::from(operation.spec.len);
        match &operation.primitive {
            Primitive::Linear { window, groups, .. } => {
                len * window.taps() * u64::from(window.channels / groups)
            }
            Primitive::MatMul { inner, .. } => len * u64::from(*inner),
            Primitive::Join { .. }
            | Primitive::Product { .. }
            | Primitive::Table { .. }
            | Primitive::Sum { .. }
            | Primitive::Max { .. }
            | Primitive::Normalise { .. }
            | Primitive::Move { .. }
            | Primitive::Select { .. }
            | Primitive::Lookup { .. }
            | Primitive::ArgMax { .. } => 0,
        }
    };
    program.operations().iter().map(of).sum()
}

/// Thirteen 3 x 3 convolutions and five maxima on 32 x 32 pixels, then ten classes.
pub(super) fn vgg16() -> Model {
    let stages: [&[u32]; 5] = [&[64; 2], &[128; 2], &[256; 3], &[512; 3], &[512; 3]];
    let mut net = Net::new(3 * 32 * 32, INT8, 2 * 14);
    let (mut value, mut side, mut channels) = (net.input(), 32, 3);
    let mut range = INT8;
    for stage in stages {
        for columns in stage {
            let window = Window {
                height: side,
                width: side,
                out_height: side,
                out_width: side,
                kernel_height: 3,
                kernel_width: 3,
                pad_top: 1,
                pad_left: 1,
                ..Window::rows(1, channels)
            };
            value = net.linear((value, range), window, *columns, RELU);
            (range, channels) = (RELU, *columns);
        }
        let window = Window {
            height: side,
            width: side,
            out_height: side / 2,
            out_width: side / 2,
            kernel_height: 2,
            kernel_width: 2,
            stride_height: 2,
            stride_width: 2,
            ..Window::rows(1, channels)
        };
        side /= 2;
        value = net.push(side * side * channels, RELU, Primitive::Max { x: value, window });
    }
    let classes = net.linear((value, range), Window::rows(1, channels), 10, INT8);
    net.finish(classes, 10)
}

const TOKENS: u32 = 64;
const WIDTH: u32 = 768;
const HEADS: u32 = 12;
const HEAD: u32 = WIDTH / HEADS;

/// A block of a transformer of GPT-2 small's shape, on 64 tokens: norm, masked attention, residual,
/// norm, two products with a table between them, residual.
pub(super) fn gpt2_block() -> Model {
    let mut net = Net::new(TOKENS * WIDTH, INT8, 2 * 4 + 1);
    let x = net.input();
    let normal = net.layer_norm(x);
    let mixed = net.linear((normal, INT8), Window::rows(TOKENS, WIDTH), 3 * WIDTH, INT8);
    let heard = net.attention(mixed);
    let heard = net.linear((heard, INT8), Window::rows(TOKENS, WIDTH), WIDTH, INT8);
    let first = net.sum_of(x, heard);
    let normal = net.layer_norm(first);
    let wide = (-2_048, 2_047);
    let inner = net.linear((normal, INT8), Window::rows(TOKENS, WIDTH), 4 * WIDTH, wide);
    let gelu = |x: i32| {
        let x = f64::from(x) / 256.0;
        (x / (1.0 + (-1.702 * x).exp()) * 16.0).round().clamp(-20.0, 127.0) as i16
    };
    let entries = list((wide.0..=wide.1).map(gelu).collect());
    let active = net.push(4 * TOKENS * WIDTH, INT8, Primitive::Table { x: inner, entries });
    let outer = net.linear((active, INT8), Window::rows(TOKENS, 4 * WIDTH), WIDTH, INT8);
    let second = net.sum_of(first, outer);
    net.finish(second, TOKENS * WIDTH)
}

type Range = (i32, i32);
const INT8: Range = (-128, 127);
const RELU: Range = (0, 127);

/// Shift of products: small enough that one limb holds what it drops.
const SHIFT: u8 = 12;

/// The largest weight.
const WEIGHT: i64 = 64;

struct Net {
    parts: Parts,
    constants: Vec<Tensor>,
    /// How many constants there will be: operations are numbered behind them.
    announced: u32,
    state: u64,
}

fn list<T: std::fmt::Debug, const MIN: usize, const MAX: usize>(
    items: Vec<T>,
) -> List<T, MIN, MAX> {
    List::new(items).expect("the shapes are known")
}

fn rescale(multiplier: i32, shift: u8, zero: i32) -> Rescale {
    Rescale { pre_shift: 0, multipliers: list(vec![multiplier]), shift, zero }
}

fn operand(value: ValueId, strides: &[u32]) -> Operand {
    Operand { value, strides: list(strides.to_vec()) }
}

fn term(value: ValueId, strides: &[u32], multiplier: i32) -> JoinTerm {
    JoinTerm { operand: operand(value, strides), multipliers: list(vec![multiplier]) }
}

/// The entries of an inverse, near 2^24 / m or 2^19 / sqrt(m) of mantissas m.
fn inverses(inverse: Inverse) -> Vec<i16> {
    match inverse {
        Inverse::Reciprocal => (1_024..2_048).map(|m| ((1 << 24) / m) as i16).collect(),
        Inverse::Root => {
            (1_024..4_096).map(|m: i32| (f64::from(1 << 19) / f64::from(m).sqrt()) as i16).collect()
        }
    }
}

impl Net {
    fn new(inputs: u32, range: Range, announced: u32) -> Self {
        let spec = Spec { len: inputs, lo: range.0, hi: range.1 };
        let mut parts = Parts::default();
        let shape = Shape::new(vec![inputs]).expect("one side");
        parts.inputs.push(Input { label: Label::lossy("x"), shape, spec, scaling: None });
        Self { parts, constants: Vec::new(), announced, state: 0x9e37_79b9_7f4a_7c15 }
    }

    fn input(&self) -> ValueId {
        ValueId { number: 0 }
    }

    /// The next random number of ±`most`.
    fn random(&mut self, most: i64) -> i64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 33) as i64 % (2 * most + 1) - most
    }

    fn constant(&mut self, numbers: &[i64], (lo, hi): Range) -> ValueId {
        let spec = Spec { len: numbers.len() as u32, lo, hi };
        let shape = Shape::new(vec![spec.len]).expect("one side");
        self.parts.constants.push(Constant { label: Label::lossy("c"), shape, spec });
        self.constants.push(Tensor::new(&spec, numbers).expect("numbers of the range"));
        ValueId { number: self.constants.len() as u32 }
    }

    fn push(&mut self, len: u32, (lo, hi): Range, primitive: Primitive) -> ValueId {
        let spec = Spec { len, lo, hi };
        self.parts.operations.push(Operation { label: Label::lossy("op"), spec, primitive });
        ValueId { number: self.announced + self.parts.operations.len() as u32 }
    }

    /// A product with random weights, scaled to a few dozen, or to a part of the range.
    fn linear(
        &mut self,
        (x, from): (ValueId, Range),
        window: Window,
        columns: u32,
        range: Range,
    ) -> ValueId {
        let terms = window.taps() as u32 * window.channels;
        let weights: Vec<i64> = (0..columns * terms).map(|_| self.random(WEIGHT)).collect();
        let offsets: Vec<i64> = (0..columns).map(|_| self.random(1_000)).collect();
        let largest = i64::from(from.0).abs().max(i64::from(from.1).abs());
        let rows = weights.chunks(terms as usize).zip(&offsets);
        let bound = |(row, offset): (&[i64], &i64)| {
            row.iter().map(|weight| weight.abs()).sum::<i64>() * largest + offset.abs()
        };
        let bound = rows.map(bound).max().unwrap_or(0) as u32;
        let spread = f64::from(terms).sqrt() * 37.0 * 45.0;
        let wanted = f64::from(range.1) / 3.0;
        let multiplier = (wanted * f64::from(1 << SHIFT) / spread).round().max(1.0) as i32;
        let weights = self.constant(&weights, (-WEIGHT as i32, WEIGHT as i32));
        let bias = Some(self.constant(&offsets, (-1_000, 1_000)));
        let len = window.batch * window.positions() as u32 * columns;
        let rescale = rescale(multiplier, SHIFT, 0);
        let (groups, pad) = (1, 0);
        let primitive =
            Primitive::Linear { x, weights, bias, window, columns, groups, pad, bound, rescale };
        self.push(len, range, primitive)
    }

    fn join(&mut self, sides: &[u32], terms: Vec<JoinTerm>, shift: u8, range: Range) -> ValueId {
        let (len, sides) = (sides.iter().product(), list(sides.to_vec()));
        let constant = list(vec![0]);
        self.push(len, range, Primitive::Join { sides, terms: list(terms), constant, shift })
    }

    fn sum_of(&mut self, a: ValueId, b: ValueId) -> ValueId {
        let terms = vec![term(a, &[WIDTH, 1], 1), term(b, &[WIDTH, 1], 1)];
        self.join(&[TOKENS, WIDTH], terms, 0, INT8)
    }

    fn sum(&mut self, x: ValueId, [rows, len]: [u32; 2], rescale: Rescale, hi: Range) -> ValueId {
        let window = Window::middle(rows, len, 1);
        self.push(rows, hi, Primitive::Sum { x, window, offset: 0, rescale })
    }

    /// Rows less their mean, divided by the root of their mean square, in the written-out form of
    /// the importer: halves of a step are kept until they are divided.
    fn layer_norm(&mut self, x: ValueId) -> ValueId {
        let sides = [TOKENS, WIDTH];
        let mean = self.sum(x, sides, rescale(171, 16, 0), (-256, 256));
        let terms = vec![term(x, &[WIDTH, 1], 2), term(mean, &[1, 0], -1)];
        let centred = self.join(&sides, terms, 0, (-512, 512));
        let whole = operand(centred, &[WIDTH, 1]);
        let product = Primitive::Product {
            sides: list(sides.to_vec()),
            a: whole.clone(),
            b: whole.clone(),
            offset_a: 0,
            offset_b: 0,
            rescale: rescale(1, 0, 0),
        };
        let most = 512 * 512;
        let squares = self.push(TOKENS * WIDTH, (0, most), product);
        let epsilon = WIDTH as i32;
        let hi = most * WIDTH as i32 + epsilon;
        let lengths = self.sum(squares, sides, rescale(1, 0, epsilon), (0, hi));
        let by_root = Primitive::Normalise {
            sides: list(sides.to_vec()),
            a: whole,
            offset: 0,
            x: operand(lengths, &[1, 0]),
            inverse: Inverse::Root,
            entries: list(inverses(Inverse::Root)),
            shift: 7,
            zero: 0,
        };
        let normal = self.push(TOKENS * WIDTH, (-2_047, 2_047), by_root);
        let factors = (0..WIDTH).map(|_| 69 + self.random(30) as i32).collect();
        let operand = operand(normal, &[WIDTH, 1]);
        let scaled = JoinTerm { operand, multipliers: list(factors) };
        self.join(&sides, vec![scaled], 8, INT8)
    }

    /// A permutation of a value of three sides: where each starts, and its steps.
    fn moved(&mut self, value: ValueId, sides: [u32; 3], start: u32, steps: [u32; 3]) -> ValueId {
        let run = |(place, (count, step)): (usize, (u32, u32))| {
            let start = if place == 0 { start } else { 0 };
            list(vec![Run::Read { start, step: step as i32, count }])
        };
        let offsets = sides.into_iter().zip(steps).enumerate().map(run).collect();
        let parts = list(vec![MovePart { value, offsets: list(offsets) }]);
        let len = sides.iter().product();
        let sides = list(sides.to_vec());
        self.push(len, INT8, Primitive::Move { sides, axis: 0, parts, fill: 0 })
    }

    /// Masked attention of all heads.
    fn attention(&mut self, mixed: ValueId) -> ValueId {
        let (row, by_head) = (3 * WIDTH, [HEADS, TOKENS, HEAD]);
        let [queries, keys] =
            [0, WIDTH].map(|start| self.moved(mixed, by_head, start, [HEAD, row, 1]));
        let values = self.moved(mixed, [HEADS, HEAD, TOKENS], 2 * WIDTH, [HEAD, 1, row]);
        let product = |a, b, rescale| Primitive::MatMul {
            a,
            b,
            batch: HEADS,
            rows: TOKENS,
            columns: TOKENS,
            inner: HEAD,
            offset_a: 0,
            offset_b: 0,
            rescale,
        };
        let len = HEADS * TOKENS * TOKENS;
        let scores = self.push(len, (-2_048, 2_047), product(queries, keys, rescale(1, 5, 0)));
        let shares = self.softmax(scores);
        // As many values as tokens and numbers of a head, so both products have the same sides.
        let heard = self.push(len, INT8, product(shares, values, rescale(1, 14, 0)));
        self.moved(heard, [TOKENS, HEADS, HEAD], 0, [HEAD, TOKENS * HEAD, 1])
    }

    /// Shares of 2^14 of each row, of tokens that are not later.
    fn softmax(&mut self, scores: ValueId) -> ValueId {
        let (rows, len) = (HEADS * TOKENS, HEADS * TOKENS * TOKENS);
        let later = |at: u32| if at % TOKENS > at / TOKENS { -4_096 } else { 0 };
        let numbers: Vec<i64> = (0..TOKENS * TOKENS).map(later).collect();
        let mask = self.constant(&numbers, (-4_096, 0));
        let sides = [HEADS, TOKENS, TOKENS];
        let plain = [TOKENS * TOKENS, TOKENS, 1];
        let terms = vec![term(scores, &plain, 1), term(mask, &[0, TOKENS, 1], 1)];
        let masked = self.join(&sides, terms, 0, (-6_144, 2_047));
        let window = Window::middle(rows, TOKENS, 1);
        let most = self.push(rows, (-6_144, 2_047), Primitive::Max { x: masked, window });
        let sides = [rows, TOKENS];
        let terms = vec![term(masked, &[TOKENS, 1], 1), term(most, &[1, 0], -1)];
        let below = self.join(&sides, terms, 0, (-4_095, 0));
        let power = |at: i32| (16_383.0 * (f64::from(at) / 400.0).exp()).round() as i16;
        let entries = list((-4_095..=0).map(power).collect());
        let powers = self.push(len, (0, 16_383), Primitive::Table { x: below, entries });
        let total = self.sum(powers, sides, rescale(1, 0, 0), (0, 16_383 * TOKENS as i32));
        let by_sum = Primitive::Normalise {
            sides: list(sides.to_vec()),
            a: operand(powers, &[TOKENS, 1]),
            offset: 0,
            x: operand(total, &[1, 0]),
            inverse: Inverse::Reciprocal,
            entries: list(inverses(Inverse::Reciprocal)),
            shift: 10,
            zero: 0,
        };
        self.push(len, (0, 16_384), by_sum)
    }

    fn finish(mut self, output: ValueId, len: u32) -> Model {
        let shape = Shape::new(vec![len]).expect("one side");
        let label = Label::lossy("y");
        self.parts.outputs.push(Output { label, shape, value: output, scaling: None });
        let program = Program::new(self.parts).expect("a program of known shape");
        Model::new(program, self.constants).expect("bounds are those of the weights")
    }
}

#[cfg(test)]
mod tests {
    use super::{gpt2_block, multiply_adds, vgg16};

    #[test]
    fn networks_have_the_multiply_adds_of_their_shapes() {
        assert_eq!(multiply_adds(vgg16().program()), 313_201_664);
        let products = 64 * 768 * (3 * 768 + 768 + 2 * 4 * 768);
        let attention = 2 * 12 * 64 * 64 * 64;
        assert_eq!(multiply_adds(gpt2_block().program()), products + attention);
    }
}
