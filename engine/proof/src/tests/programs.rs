//! Small networks with every kind of operation that can be proven.

use std::sync::Arc;
use tg_tensor::program::{
    Constant, Input, Inverse, JoinTerm, Label, MovePart, Operand, Operation, Output, Parts,
    Primitive, Program, Rescale, Run, Shape, Spec, ValueId, Window,
};
use tg_tensor::{Model, Tensor};
use tg_types::List;

/// The networks of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Net {
    /// Three products, as a perceptron.
    Dense,
    /// Convolutions with padding, maxima, a permutation, a residual, a table, a sum.
    Convolution,
    /// A depthwise convolution with a first shift.
    Depthwise,
    /// An output that is a moved value, and one that is large.
    Moved,
    /// Products of values: matrices and elements.
    Attention,
    /// Rows by number, choices, a large maximum, the place of the largest.
    Choices,
    /// Divisions by sums, roots, negative numbers and constants.
    Normalise,
    /// Rows of an input, an output, a computed and a moved value, by numbers that are computed too.
    Rows,
    /// Results of many more numbers than a table has entries.
    Wide,
    /// Nothing but a table that gives the same for several numbers.
    Entries,
    /// Shifts of so many bits that one limb of them has the most that a limb may have. With four
    /// inferences each of its columns has the variables of the first round of a large commitment.
    Coarse,
    /// The same, with a product beside it whose rounded numbers are so few that all of them are
    /// keys of a table.
    Keyed,
    /// Rounded numbers that lie so far from zero that finer keys of them would not.
    Far,
}

impl Net {
    /// All of them but the last four.
    pub(crate) const ALL: [Self; 9] = [
        Self::Dense,
        Self::Convolution,
        Self::Depthwise,
        Self::Moved,
        Self::Attention,
        Self::Choices,
        Self::Normalise,
        Self::Rows,
        Self::Wide,
    ];

    pub(crate) fn model(self) -> Arc<Model> {
        self.model_with(0)
    }

    /// The same program with other weights of the same bounds.
    pub(crate) fn model_with(self, turn: i64) -> Arc<Model> {
        let mut net = Builder::new(turn);
        match self {
            Self::Dense => dense(&mut net),
            Self::Convolution => convolution(&mut net),
            Self::Depthwise => depthwise(&mut net),
            Self::Moved => moved(&mut net),
            Self::Attention => attention(&mut net),
            Self::Choices => choices(&mut net),
            Self::Normalise => normalise(&mut net),
            Self::Rows => rows(&mut net),
            Self::Wide => wide(&mut net),
            Self::Entries => entries(&mut net),
            Self::Coarse => coarse(&mut net),
            Self::Keyed => keyed(&mut net),
            Self::Far => far(&mut net),
        }
        Arc::new(net.finish())
    }

    /// The same, with so many outputs that all name the value of the last.
    pub(crate) fn model_with_outputs(self, outputs: usize) -> Arc<Model> {
        let model = self.model();
        let program = model.program();
        let last = program.outputs().last().expect("an output").clone();
        let parts = Parts {
            inputs: program.inputs().to_vec(),
            constants: program.constants().to_vec(),
            operations: program.operations().to_vec(),
            outputs: vec![last; outputs],
        };
        let program = Program::new(parts).expect("a program of the tests");
        Arc::new(Model::new(program, model.constants().to_vec()).expect("a model of the tests"))
    }

    /// The same program, bounds and all, with two of its weights swapped.
    pub(crate) fn model_swapped(self) -> Arc<Model> {
        let model = self.model();
        let mut constants = model.constants().to_vec();
        let mut numbers = constants[0].to_numbers();
        assert_ne!(numbers[0], numbers[1]);
        numbers.swap(0, 1);
        let spec = model.program().constants()[0].spec;
        constants[0] = Tensor::new(&spec, &numbers).expect("of the range");
        Arc::new(Model::new(model.program().clone(), constants).expect("the same bounds"))
    }

    pub(crate) fn inputs(self, seed: i64) -> Vec<Tensor> {
        let model = self.model();
        let inputs = model.program().inputs().iter();
        inputs.map(|input| tensor(&input.spec, seed * 1_001 + 17)).collect()
    }
}

/// Numbers of a range that look random.
fn tensor(spec: &Spec, seed: i64) -> Tensor {
    let (lo, hi) = (i64::from(spec.lo), i64::from(spec.hi));
    let number =
        |index: i64| lo + (index * 7_919 + seed * 104_729 + index * index * 31) % (hi - lo + 1);
    let numbers: Vec<i64> = (0..i64::from(spec.len)).map(number).collect();
    Tensor::new(spec, &numbers).expect("numbers of the range")
}

struct Builder {
    parts: Parts,
    constants: Vec<Tensor>,
    specs: Vec<Spec>,
    turn: i64,
}

fn list<T: std::fmt::Debug, const MIN: usize, const MAX: usize>(
    items: Vec<T>,
) -> List<T, MIN, MAX> {
    List::new(items).expect("tests are small")
}

fn rescale(pre_shift: u8, multipliers: Vec<i32>, shift: u8, zero: i32) -> Rescale {
    Rescale { pre_shift, multipliers: list(multipliers), shift, zero }
}

/// Constants that a network may have.
const CONSTANTS: u32 = 8;

impl Builder {
    fn new(turn: i64) -> Self {
        Self { parts: Parts::default(), constants: Vec::new(), specs: Vec::new(), turn }
    }

    fn input(&mut self, len: u32, lo: i32, hi: i32) -> ValueId {
        let spec = Spec { len, lo, hi };
        let shape = Shape::new(vec![len]).expect("one side");
        self.parts.inputs.push(Input { label: Label::lossy("x"), shape, spec, scaling: None });
        self.specs.push(spec);
        ValueId { number: 0 }
    }

    fn constant(&mut self, len: u32, lo: i32, hi: i32) -> (ValueId, Vec<i64>) {
        let spec = Spec { len, lo, hi };
        let mut numbers = tensor(&spec, 3 + self.constants.len() as i64).to_numbers();
        // Turning a row round changes no bound.
        let middle = (self.turn as usize).min(numbers.len());
        numbers.rotate_left(middle);
        let shape = Shape::new(vec![len]).expect("one side");
        self.parts.constants.push(Constant { label: Label::lossy("c"), shape, spec });
        self.constants.push(Tensor::new(&spec, &numbers).expect("of the range"));
        (ValueId { number: self.constants.len() as u32 }, numbers)
    }

    /// An operation. Values of operations are numbered behind all constants there may be.
    fn push(&mut self, len: u32, (lo, hi): (i32, i32), primitive: Primitive) -> ValueId {
        let spec = Spec { len, lo, hi };
        let label = Label::lossy("op");
        self.parts.operations.push(Operation { label, spec, primitive });
        ValueId { number: CONSTANTS + self.parts.operations.len() as u32 }
    }

    fn linear(
        &mut self,
        (x, magnitude): (ValueId, i64),
        window: Window,
        (columns, groups): (u32, u32),
        rescale: Rescale,
        range: (i32, i32),
    ) -> ValueId {
        let terms = window.taps() as u32 * window.channels / groups;
        let (weights, numbers) = self.constant(columns * terms, -90, 100);
        let (bias, offsets) = self.constant(columns, -3_000, 3_000);
        let pad = 3;
        let column = |column: usize| {
            let row = &numbers[column * terms as usize..(column + 1) * terms as usize];
            row.iter().map(|w| w.abs()).sum::<i64>() * magnitude + offsets[column].abs()
        };
        let bound = (0..columns as usize).map(column).max().expect("there are columns") as u32;
        let len = window.batch * window.positions() as u32 * columns;
        let bias = Some(bias);
        let primitive =
            Primitive::Linear { x, weights, bias, window, columns, groups, pad, bound, rescale };
        self.push(len, range, primitive)
    }

    fn output(&mut self, value: ValueId, len: u32) {
        let shape = Shape::new(vec![len]).expect("one side");
        let label = Label::lossy("y");
        self.parts.outputs.push(Output { label, shape, value, scaling: None });
    }

    /// Fills up the constants; numbers are given when the program is finished.
    fn finish(mut self) -> Model {
        while self.constants.len() < CONSTANTS as usize {
            self.constant(1, 0, 0);
        }
        // Values are numbered inputs, constants, operations; there is one input.
        let program = Program::new(self.parts).expect("a program of the tests");
        Model::new(program, self.constants).expect("a model of the tests")
    }
}

fn dense(net: &mut Builder) {
    let x = net.input(20, -128, 127);
    let first = rescale(0, (0..12).map(|c| 900 + c * 7).collect(), 17, -9);
    let a = net.linear((x, 128), Window::rows(1, 20), (12, 1), first, (-128, 127));
    let b =
        net.linear((a, 128), Window::rows(1, 12), (7, 1), rescale(0, vec![800], 16, 0), (0, 127));
    let c = net.linear(
        (b, 127),
        Window::rows(1, 7),
        (5, 1),
        rescale(0, vec![3], 1, 2),
        (-99_000, 99_000),
    );
    net.output(c, 5);
}

fn same(side: u32, channels: u32) -> Window {
    Window {
        height: side,
        width: side,
        out_height: side,
        out_width: side,
        kernel_height: 3,
        kernel_width: 3,
        pad_top: 1,
        pad_left: 1,
        ..Window::rows(1, channels)
    }
}

fn pool(side: u32, channels: u32) -> Window {
    Window {
        height: side,
        width: side,
        out_height: side / 2,
        out_width: side / 2,
        kernel_height: 2,
        kernel_width: 2,
        stride_height: 2,
        stride_width: 2,
        ..Window::rows(1, channels)
    }
}

fn natural(value: ValueId, strides: Vec<u32>) -> Operand {
    Operand { value, strides: list(strides) }
}

fn convolution(net: &mut Builder) {
    let x = net.input(72, -128, 127);
    let factors = rescale(0, vec![700, 650, 610], 18, 5);
    let a = net.linear((x, 128), same(6, 2), (3, 1), factors, (-128, 127));
    let b = net.push(27, (-128, 127), Primitive::Max { x: a, window: pool(6, 3) });
    let c = net.linear((b, 128), same(3, 3), (3, 1), rescale(0, vec![700], 18, 0), (-128, 127));
    let sides = list(vec![9, 3]);
    let term = |value: ValueId, factors: Vec<i32>| JoinTerm {
        operand: natural(value, vec![3, 1]),
        multipliers: list(factors),
    };
    let terms = list(vec![term(b, vec![5, -6, 7]), term(c, vec![9])]);
    let join = Primitive::Join { sides, terms, constant: list(vec![1, 2, 3]), shift: 4 };
    let d = net.push(27, (-100, 100), join);
    let entries = list((-100..=100).map(|x: i16| x * x / 100 - 50).collect());
    let e = net.push(27, (-100, 127), Primitive::Table { x: d, entries });
    let window = Window { height: 3, width: 3, ..Window::rows(1, 3) };
    let window = Window { kernel_height: 3, kernel_width: 2, out_width: 2, ..window };
    let sum = Primitive::Sum { x: e, window, offset: 4, rescale: rescale(0, vec![20, 30], 6, -1) };
    let f = net.push(6, (-60, 60), sum);
    let run = |step: i32, count: u32| list(vec![Run::Read { start: 0, step, count }]);
    let part = MovePart { value: f, offsets: list(vec![run(1, 3), run(3, 2)]) };
    let order =
        Primitive::Move { sides: list(vec![3, 2]), axis: 0, parts: list(vec![part]), fill: 0 };
    let g = net.push(6, (-60, 60), order);
    let last = rescale(0, vec![3], 2, 0);
    let h = net.linear((g, 60), Window::rows(1, 6), (4, 1), last, (-20_000, 20_000));
    net.output(h, 4);
}

fn depthwise(net: &mut Builder) {
    let x = net.input(48, -2_000, 2_000);
    let factors = rescale(5, vec![13, 14, 15], 12, 0);
    let a = net.linear((x, 2_000), same(4, 3), (3, 3), factors, (-128, 127));
    let one = rescale(3, vec![60], 12, 1);
    let b = net.linear((a, 128), Window::rows(16, 3), (4, 1), one, (-128, 127));
    let window = Window { height: 4, width: 4, ..Window::rows(1, 4) };
    let window = Window { kernel_height: 4, kernel_width: 4, ..window };
    let sum = Primitive::Sum { x: b, window, offset: 0, rescale: rescale(0, vec![1], 4, 0) };
    let c = net.push(4, (-128, 127), sum);
    net.output(c, 4);
    net.output(x, 48);
}

fn far(net: &mut Builder) {
    const ZERO: i32 = 1 << 24;
    let x = net.input(1_024, -128, 127);
    let rescale = rescale(0, vec![2], 7, ZERO);
    let sum = Primitive::Sum { x, window: Window::rows(1_024, 1), offset: 0, rescale };
    let a = net.push(1_024, (ZERO - 1, ZERO + 1), sum);
    net.output(a, 1_024);
}

fn moved(net: &mut Builder) {
    let x = net.input(12, 0, 50);
    let a = net.linear((x, 50), Window::rows(3, 4), (3, 1), rescale(0, vec![90], 12, 0), (-50, 50));
    let runs =
        |count: u32| list(vec![Run::Read { start: 2, step: -1, count }, Run::Fill { count: 2 }]);
    let rows = list(vec![Run::Read { start: 0, step: 3, count: 3 }]);
    let part = MovePart { value: a, offsets: list(vec![rows, runs(3)]) };
    let fill =
        Primitive::Move { sides: list(vec![3, 5]), axis: 1, parts: list(vec![part]), fill: 7 };
    let b = net.push(15, (-50, 50), fill);
    net.output(b, 15);
    net.output(b, 15);
    let shifted =
        Window { kernel_height: 2, height: 3, out_height: 4, pad_top: 1, ..Window::rows(1, 5) };
    let c = net.push(20, (-50, 50), Primitive::Max { x: b, window: shifted });
    net.output(c, 20);
}

fn attention(net: &mut Builder) {
    let x = net.input(30, -128, 127);
    let window = Window::rows(6, 5);
    let a = net.linear((x, 128), window, (5, 1), rescale(0, vec![700], 17, 3), (-128, 127));
    let one = rescale(0, vec![300], 15, 0);
    let (offset_a, offset_b) = (-3, 2);
    let (batch, rows, columns, inner) = (2, 3, 3, 5);
    let rescale_first = one.clone();
    let scores = Primitive::MatMul {
        a,
        b: x,
        batch,
        rows,
        columns,
        inner,
        offset_a,
        offset_b,
        rescale: rescale_first,
    };
    let b = net.push(18, (-100, 100), scores);
    let sides = list(vec![2, 3, 3]);
    let (left, right) = (natural(b, vec![9, 3, 1]), natural(b, vec![9, 1, 3]));
    let rescale = rescale(2, vec![9], 6, -4);
    let product = Primitive::Product { sides, a: left, b: right, offset_a, offset_b, rescale };
    let c = net.push(18, (-128, 127), product);
    net.output(c, 18);
}

fn choices(net: &mut Builder) {
    let x = net.input(14, 0, 4);
    let (rows, _) = net.constant(15, -50, 60);
    let a = net.push(42, (-50, 60), Primitive::Lookup { table: rows, indices: x, row: 3 });
    let window = Window::middle(1, 14, 3);
    let b = net.push(3, (-50, 60), Primitive::Max { x: a, window });
    let sides = list(vec![14, 3]);
    let (condition, then) = (natural(x, vec![1, 0]), natural(b, vec![0, 1]));
    let otherwise = natural(a, vec![3, 1]);
    let c = net.push(42, (-50, 60), Primitive::Select { sides, condition, then, otherwise });
    let d = net.push(3, (0, 13), Primitive::ArgMax { x: c, outer: 1, len: 14, inner: 3 });
    let sides = list(vec![3]);
    let term = JoinTerm { operand: natural(d, vec![1]), multipliers: list(vec![5]) };
    let join =
        Primitive::Join { sides, terms: list(vec![term]), constant: list(vec![-1]), shift: 1 };
    let e = net.push(3, (-100, 100), join);
    net.output(e, 3);
    net.output(c, 42);
}

fn product(a: Operand, b: Operand, offset: i32, rescale: Rescale) -> Primitive {
    let sides = list(vec![3, 4]);
    Primitive::Product { sides, a, b, offset_a: offset, offset_b: offset, rescale }
}

/// Sums of the rows of 3 x 4 numbers.
fn row_sums(x: ValueId) -> Primitive {
    let window = Window::middle(3, 4, 1);
    Primitive::Sum { x, window, offset: 0, rescale: rescale(0, vec![1], 0, 0) }
}

/// 3 x 4 numbers divided.
fn divided(
    (a, offset): (ValueId, i32),
    (x, strides): (ValueId, [u32; 2]),
    inverse: Inverse,
    (shift, zero): (u8, i32),
) -> Primitive {
    let mantissas = 1_024_i32..if inverse == Inverse::Root { 4_096 } else { 2_048 };
    let entry = |mantissa: i32| match inverse {
        Inverse::Reciprocal => (1 << 24) / mantissa,
        Inverse::Root => (f64::from(1 << 19) / f64::from(mantissa).sqrt()) as i32,
    };
    Primitive::Normalise {
        sides: list(vec![3, 4]),
        a: natural(a, vec![4, 1]),
        offset,
        x: natural(x, strides.to_vec()),
        inverse,
        entries: list(mantissas.map(|mantissa| entry(mantissa) as i16).collect()),
        shift,
        zero,
    }
}

fn normalise(net: &mut Builder) {
    let x = net.input(12, 0, 3_000);
    let sums = net.push(3, (0, 12_000), row_sums(x));
    let by_sum = divided((x, 0), (sums, [1, 0]), Inverse::Reciprocal, (14, 0));
    let shares = net.push(12, (0, 1_000), by_sum);
    let whole = natural(x, vec![4, 1]);
    let square = product(whole.clone(), whole, 0, rescale(0, vec![1], 0, 0));
    let squares = net.push(12, (0, 9_000_000), square);
    let lengths = net.push(3, (0, 36_000_000), row_sums(squares));
    let by_root = divided((shares, -5), (lengths, [1, 0]), Inverse::Root, (6, 0));
    let roots = net.push(12, (-128, 127), by_root);
    net.output(roots, 12);
    let term = JoinTerm { operand: natural(x, vec![4, 1]), multipliers: list(vec![1]) };
    let (sides, terms) = (list(vec![3, 4]), list(vec![term]));
    let less = Primitive::Join { sides, terms, constant: list(vec![-1_500]), shift: 0 };
    let signed = net.push(12, (-1_500, 1_500), less);
    let by_signed = divided((x, 0), (signed, [4, 1]), Inverse::Reciprocal, (12, 3));
    let quotients = net.push(12, (-300, 900), by_signed);
    net.output(quotients, 12);
    let (constant, _) = net.constant(4, 1, 1_000);
    let by_constant = divided((signed, 0), (constant, [0, 1]), Inverse::Root, (19, 0));
    let last = net.push(12, (-3_000, 3_000), by_constant);
    net.output(last, 12);
}

fn rows(net: &mut Builder) {
    let x = net.input(12, 0, 3);
    let factors = rescale(0, vec![700], 12, 3);
    let made = net.linear((x, 3), Window::rows(4, 3), (3, 1), factors, (-50, 50));
    let run = |start: u32, step: i32, count: u32| list(vec![Run::Read { start, step, count }]);
    let part = MovePart { value: made, offsets: list(vec![run(9, -3, 4), run(0, 1, 3)]) };
    let turn =
        Primitive::Move { sides: list(vec![4, 3]), axis: 0, parts: list(vec![part]), fill: 0 };
    let turned = net.push(12, (-50, 50), turn);
    let look_up = |table, indices, row| Primitive::Lookup { table, indices, row };
    let first = net.push(36, (-50, 50), look_up(made, x, 3));
    let second = net.push(36, (-50, 50), look_up(turned, x, 3));
    let third = net.push(36, (0, 3), look_up(x, x, 3));
    net.output(first, 36);
    // An output is a table as well.
    let again = net.push(108, (-50, 50), look_up(first, x, 9));
    net.output(again, 108);
    let largest = Primitive::ArgMax { x: made, outer: 1, len: 4, inner: 3 };
    let largest = net.push(3, (0, 3), largest);
    let best = net.push(9, (-50, 50), look_up(made, largest, 3));
    net.output(best, 9);
    let term = |value| JoinTerm { operand: natural(value, vec![1]), multipliers: list(vec![3]) };
    let terms = list(vec![term(second), term(third)]);
    let (sides, constant) = (list(vec![36]), list(vec![1]));
    let sum = Primitive::Join { sides, terms, constant, shift: 1 };
    let sum = net.push(36, (-100, 100), sum);
    net.output(sum, 36);
}

fn wide(net: &mut Builder) {
    let x = net.input(12, 0, 3_000);
    let (rows, turned) = (natural(x, vec![4, 1]), natural(x, vec![1, 3]));
    let one = rescale(0, vec![1], 0, 0);
    let first = product(rows.clone(), turned.clone(), -1_500, one);
    let clamped = net.push(12, (-90, 100), first);
    net.output(clamped, 12);
    let second = product(rows.clone(), turned.clone(), -1_500, rescale(2, vec![7], 1, 40));
    let inner = net.push(12, (-700, 800), second);
    let terms = [(rows, 1_000), (turned, 1_001), (natural(inner, vec![4, 1]), 9)];
    let terms =
        terms.map(|(operand, factor)| JoinTerm { operand, multipliers: list(vec![factor]) });
    let (sides, terms) = (list(vec![3, 4]), list(terms.to_vec()));
    let join = Primitive::Join { sides, terms, constant: list(vec![0]), shift: 1 };
    let sums = net.push(12, (-4_000_000, 4_000_000), join);
    let sum = net.push(3, (-16_000_000, 16_000_000), row_sums(sums));
    net.output(sum, 3);
    let whole = natural(x, vec![4, 1]);
    let square = product(whole.clone(), whole, -1_000, rescale(0, vec![1], 0, 0));
    let squares = net.push(12, (0, 1_500_000), square);
    let terms =
        list(vec![JoinTerm { operand: natural(squares, vec![4, 1]), multipliers: list(vec![-3]) }]);
    let sides = list(vec![3, 4]);
    let turned = Primitive::Join { sides, terms, constant: list(vec![5]), shift: 1 };
    let last = net.push(12, (-1_900_000, 10), turned);
    net.output(last, 12);
}

fn entries(net: &mut Builder) {
    let x = net.input(12, -20, 43);
    let entries = list((-20..=43).map(|x: i16| (x + 20) / 4 * 3 - 9).collect());
    let y = net.push(12, (-128, 127), Primitive::Table { x, entries });
    net.output(y, 12);
}

fn coarse(net: &mut Builder) {
    let x = net.input(20, -128, 127);
    let first = rescale(0, (0..16).map(|c| 1_800 + c * 7).collect(), 18, -9);
    let a = net.linear((x, 128), Window::rows(1, 20), (16, 1), first, (-128, 127));
    let entries = list((-128..=127).map(|x: i16| x * x / 150 - 50).collect());
    let b = net.push(16, (-128, 127), Primitive::Table { x: a, entries });
    let last = rescale(0, vec![3], 1, 2);
    let c = net.linear((b, 128), Window::rows(1, 16), (5, 1), last, (-99_000, 99_000));
    net.output(c, 5);
}

fn keyed(net: &mut Builder) {
    coarse(net);
    let x = ValueId { number: 0 };
    let few = rescale(0, (0..16).map(|c| 300 + c * 3).collect(), 18, -9);
    // Of an odd number of numbers there are no blocks.
    let a = net.linear((x, 128), Window::rows(1, 20), (16, 1), few, (-128, 126));
    let last = rescale(0, vec![3], 1, 2);
    let b = net.linear((a, 128), Window::rows(1, 16), (5, 1), last, (-99_000, 99_000));
    net.output(b, 5);
}
