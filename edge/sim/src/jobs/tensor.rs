//! The work: one tiny tensor program, some inputs for it, right runs and wrong ones.
//!
//! The program has eight products of five tiles each, and a row of a product depends on the same
//! row of the one before. So a lie about one tile reaches only the tiles behind it, and making a
//! lying run is as cheap as it is for a liar.

use super::play::Asked;
use rand::{RngExt as _, rngs::StdRng};
use tg_tensor::{
    Model, Options, Program, Runner, Tensor,
    commit::{Salt, TILE},
    element::Element,
    program::{
        Constant, Input, Label, Operation, Output, Parts, Primitive, Rescale, Spec, ValueId, Window,
    },
    trace::{Run, TileAudit, Trace, Witness, inputs_root, outputs_root},
};
use tg_types::{
    bounded::List,
    codec::Encode as _,
    ids::Hash32,
    job::{RunResult, Work},
    tx::{Action, ProgramPiece},
};

/// Operations of the program.
const OPERATIONS: usize = 8;

/// Tiles of each operation's output.
const TILES_EACH: u32 = 5;

/// Tiles of a whole run.
pub(super) const TILES: u32 = OPERATIONS as u32 * TILES_EACH;

/// Columns of every product.
const SIDE: u32 = 16;

/// Elements of every value.
const ELEMENTS: u32 = TILES_EACH * TILE as u32;

/// Different inputs of a simulation: enough that two jobs rarely have the same.
const TASKS: usize = 24;

/// A tile of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tile {
    pub(super) operation: usize,
    pub(super) tile: u32,
}

impl Tile {
    /// The tile with this number, counted through the whole run.
    pub(super) const fn numbered(number: u32) -> Self {
        Self { operation: (number / TILES_EACH) as usize, tile: number % TILES_EACH }
    }

    /// Its elements.
    pub(super) fn elements(self) -> std::ops::Range<usize> {
        let start = self.tile as usize * TILE;
        start..start + TILE
    }
}

/// How a tile is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// All of it is made up, which costs nothing to compute.
    MadeUp,
    /// One element is another, which is hard to see.
    OneElement,
}

/// One input of the program, with what really comes out.
pub(super) struct Task {
    inputs: Vec<Tensor>,
    salt: Salt,
    inputs_root: Hash32,
    operations: Vec<Tensor>,
    /// The right output.
    pub(super) output: Hash32,
}

/// The program with its weights, and the tasks.
pub(super) struct Works {
    model: Model,
    program: Vec<u8>,
    weights_root: Hash32,
    pub(super) tasks: Vec<Task>,
}

/// What somebody says that a run gave.
pub(super) struct Ran {
    task: usize,
    operations: Vec<Tensor>,
    trace: Trace,
    /// The output as it is said.
    pub(super) output: Hash32,
    /// Tiles that do not follow from what they read.
    pub(super) wrong: Vec<Tile>,
}

impl Ran {
    /// The published root.
    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The root that is published.
    pub(super) fn root(&self) -> Hash32 {
        self.trace.root()
    }
}

const BYTES: Spec = Spec { len: ELEMENTS, lo: -128, hi: 127 };
const WEIGHTS: Spec = Spec { len: SIDE * SIDE, lo: -127, hi: 127 };

fn label(text: &str) -> Label {
    Label::lossy(text)
}

fn random_tensor(spec: &Spec, chance: &mut StdRng) -> Tensor {
    let number = |_| i64::from(chance.random_range(spec.lo..=spec.hi));
    let numbers: Vec<i64> = (0..spec.len).map(number).collect();
    Tensor::new(spec, &numbers).expect("the numbers are of the spec")
}

fn make_model(chance: &mut StdRng) -> Model {
    let shape = |len| List::new(vec![len]).expect("one side");
    let weights: Vec<Tensor> = (0..OPERATIONS).map(|_| random_tensor(&WEIGHTS, chance)).collect();
    let constant =
        |_| Constant { label: label("weights"), shape: shape(WEIGHTS.len), spec: WEIGHTS };
    let operation = |(index, tensor): (usize, &Tensor)| {
        let columns = SIDE as usize;
        let numbers = tensor.to_numbers();
        let sum = |row: &[i64]| row.iter().map(|weight| weight.abs()).sum::<i64>();
        let bound = numbers.chunks(columns).map(sum).max().unwrap_or(0) * BYTES.magnitude();
        let rescale = Rescale {
            pre_shift: 9, // sums of 16 products of bytes come down to about nine bits
            multipliers: List::new(vec![3]).expect("one factor"),
            shift: 1,
            zero: 1,
        };
        // The input comes first, then the weights, then the operations' outputs.
        let x = if index == 0 { 0 } else { OPERATIONS + index };
        let number = |place: usize| u32::try_from(place).expect("few values");
        let primitive = Primitive::Linear {
            x: ValueId { number: number(x) },
            weights: ValueId { number: number(1 + index) },
            bias: None,
            window: Window::rows(ELEMENTS / SIDE, SIDE),
            columns: SIDE,
            groups: 1,
            pad: 0,
            bound: u32::try_from(bound).expect("small weights"),
            rescale,
        };
        Operation { label: label("product"), spec: BYTES, primitive }
    };
    let last = ValueId { number: u32::try_from(2 * OPERATIONS).expect("few values") };
    let parts = Parts {
        inputs: vec![Input {
            label: label("x"),
            shape: shape(ELEMENTS),
            spec: BYTES,
            scaling: None,
        }],
        constants: (0..OPERATIONS).map(constant).collect(),
        operations: weights.iter().enumerate().map(operation).collect(),
        outputs: vec![Output {
            label: label("y"),
            shape: shape(ELEMENTS),
            value: last,
            scaling: None,
        }],
    };
    let program = Program::new(parts).expect("the program is valid by construction");
    Model::new(program, weights).expect("the bounds are those of the weights")
}

impl Works {
    /// Draws a program and its tasks, and runs them.
    pub(super) fn new(chance: &mut StdRng) -> Self {
        let model = make_model(chance);
        let runner = Runner::new(model.clone(), Options { threads: 1, path: None });
        let task = |_| {
            let inputs = vec![random_tensor(&BYTES, chance)];
            let salt = Salt::new(chance.random());
            let operations = runner.run_keeping(&inputs).expect("inputs fit the program");
            let output = outputs_root(operations.last().into_iter());
            let inputs_root = inputs_root(&inputs, &salt);
            Task { inputs, salt, inputs_root, operations, output }
        };
        let tasks = (0..TASKS).map(task).collect();
        let (program, weights_root) = (model.program().to_bytes(), model.weights_root());
        Self { model, program, weights_root, tasks }
    }

    /// What puts the program on record.
    pub(super) fn put_program(&self) -> Action {
        let bytes = ProgramPiece::new(self.program.clone()).expect("a tiny program is one piece");
        Action::PutProgram { program: self.model.id(), piece: 0, pieces: 1, bytes }
    }

    /// The program.
    pub(super) fn program(&self) -> &Program {
        self.model.program()
    }

    /// What a job asks for.
    pub(super) fn work(&self, task: usize, salt: &Salt) -> Work {
        Work::Tensor {
            program: self.model.id(),
            weights: self.weights_root,
            inputs: self.tasks[task].inputs_root,
            salt: salt.mark(),
        }
    }

    /// The task that a job asks for.
    pub(super) fn task_of(&self, work: &Work) -> Option<usize> {
        let Work::Tensor { inputs, .. } = work else { return None };
        self.tasks.iter().position(|task| task.inputs_root == *inputs)
    }

    /// A right run.
    pub(super) fn run(&self, task: usize, salt: Salt) -> Ran {
        let operations = self.tasks[task].operations.clone();
        self.ran(task, salt, operations, Vec::new())
    }

    /// A run in which these tiles are wrong; all that follows is computed from them.
    pub(super) fn lie(
        &self,
        task: usize,
        salt: Salt,
        (tiles, how): (&[Tile], Wrong),
        chance: &mut StdRng,
    ) -> Ran {
        let mut operations = self.tasks[task].operations.clone();
        let mut is_touched = [false; TILES_EACH as usize];
        for operation in 0..OPERATIONS {
            for tile in 0..TILES_EACH {
                let place = Tile { operation, tile };
                let is_lie = tiles.contains(&place);
                let touched = &mut is_touched[tile as usize];
                if *touched {
                    let numbers = self.recompute(task, &operations, place);
                    replace(&mut operations[operation], place, &numbers);
                }
                if is_lie {
                    let right = numbers_of(&operations[operation], place);
                    replace(&mut operations[operation], place, &twist(right, how, chance));
                    *touched = true;
                }
            }
        }
        self.ran(task, salt, operations, tiles.to_vec())
    }

    fn ran(&self, task: usize, salt: Salt, operations: Vec<Tensor>, wrong: Vec<Tile>) -> Ran {
        let trace = Trace::of(self.program(), salt, &operations).expect("all outputs are there");
        let output = outputs_root(operations.last().into_iter());
        Ran { task, operations, trace, output, wrong }
    }

    fn recompute(&self, task: usize, operations: &[Tensor], place: Tile) -> Vec<i64> {
        let inputs = OPERATIONS; // the number of the last constant
        let mut read = |value: ValueId, index: usize| {
            let number = value.index();
            let tensor = match number {
                0 => self.tasks[task].inputs.first(),
                _ if number <= inputs => self.model.constants().get(number - 1),
                _ => operations.get(number - inputs - 1),
            };
            tensor.and_then(|tensor| tensor.get(index)).ok_or(())
        };
        let mut numbers = Vec::with_capacity(TILE);
        for index in place.elements() {
            let element = Element::new(self.program(), place.operation, index);
            let element = element.expect("an element of the program");
            numbers.push(element.compute(&mut read).expect("all operands are there").into());
        }
        numbers
    }

    /// What a checker knows of a result whose tiles it recomputes.
    pub(super) fn tile_audit(&self, asked: Asked, result: &RunResult) -> TileAudit<'_> {
        let Asked { task, salt } = asked;
        let (model, inputs) = (&self.model, self.tasks[task].inputs.as_slice());
        let (trace_root, outputs_root) = (result.trace, result.output);
        TileAudit { model, inputs, salt, trace_root, outputs_root }
    }

    /// What somebody knows who has made this run.
    pub(super) fn witness<'a>(&'a self, ran: &'a Ran) -> Witness<'a> {
        let task = &self.tasks[ran.task];
        let (inputs, inputs_salt) = (task.inputs.as_slice(), task.salt);
        let run = Run { inputs, inputs_salt, operations: &ran.operations };
        Witness::new(&self.model, run, &ran.trace).expect("the run is of this program")
    }
}

fn numbers_of(tensor: &Tensor, place: Tile) -> Vec<i64> {
    place.elements().filter_map(|index| tensor.get(index)).map(i64::from).collect()
}

/// Other numbers than these.
fn twist(mut numbers: Vec<i64>, how: Wrong, chance: &mut StdRng) -> Vec<i64> {
    let one = chance.random_range(0..numbers.len());
    let other = |number: i64, chance: &mut StdRng| {
        let span = i64::from(BYTES.hi) - i64::from(BYTES.lo) + 1;
        let from_lo = number - i64::from(BYTES.lo) + chance.random_range(1..span);
        i64::from(BYTES.lo) + from_lo % span
    };
    match how {
        Wrong::OneElement => numbers[one] = other(numbers[one], chance),
        Wrong::MadeUp => {
            for number in &mut numbers {
                *number = other(*number, chance);
            }
        }
    }
    numbers
}

fn replace(tensor: &mut Tensor, place: Tile, numbers: &[i64]) {
    let mut all = tensor.to_numbers();
    all.splice(place.elements(), numbers.iter().copied());
    *tensor = Tensor::new(&BYTES, &all).expect("the numbers are of the spec");
}
