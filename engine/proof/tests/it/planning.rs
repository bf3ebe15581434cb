//! Programs of strangers are planned, or refused, in bounded time and memory.
//!
//! Each family below asks for as much as it can of one thing that a plan lists, searches or writes
//! down, up to what passes the checks of the court and fits a program on record.

use crate::bounds::{Bounds, measured};
use std::time::Duration;
use tg_proof::court;
use tg_tensor::program::{
    Constant, Input, Inverse, JoinTerm, Label, MovePart, Operand, Operation, Output, Parts,
    Primitive, Program, Rescale, Run, Shape, Spec, ValueId, Window,
};
use tg_types::{Encode as _, List};

/// The most bytes of a program on record: 32 pieces of 8 KiB.
const PROGRAM_BYTES_MAX: usize = 256 << 10;

/// What planning any program may take on a busy machine; alone it takes a tenth.
const TIME: Duration = Duration::from_millis(400);

/// What planning any program may hold.
const HELD: usize = 64 << 20;

fn list<T: std::fmt::Debug, const MIN: usize, const MAX: usize>(
    items: Vec<T>,
) -> List<T, MIN, MAX> {
    List::new(items).expect("as many as allowed")
}

fn value(number: u32) -> ValueId {
    ValueId { number }
}

fn operand(number: u32, strides: Vec<u32>) -> Operand {
    Operand { value: value(number), strides: list(strides) }
}

/// A program in the making, with one input.
struct Making {
    parts: Parts,
}

impl Making {
    fn new(spec: Spec) -> Self {
        let (label, shape) = (Label::lossy("x"), Shape::new(vec![spec.len]).expect("one side"));
        let input = Input { label, shape, spec, scaling: None };
        Self { parts: Parts { inputs: vec![input], ..Parts::default() } }
    }

    fn constants(mut self, count: u32, spec: Spec) -> Self {
        let shape = || Shape::new(vec![spec.len]).expect("one side");
        let constant = |_| Constant { label: Label::lossy("c"), shape: shape(), spec };
        self.parts.constants.extend((0..count).map(constant));
        self
    }

    /// The number of the next value.
    fn next(&self) -> u32 {
        let parts = &self.parts;
        (parts.inputs.len() + parts.constants.len() + parts.operations.len()) as u32
    }

    fn push(&mut self, spec: Spec, primitive: Primitive) -> u32 {
        let number = self.next();
        self.parts.operations.push(Operation { label: Label::lossy("o"), spec, primitive });
        number
    }

    /// Its last values, or one of them several times, are outputs.
    fn finish(mut self, outputs: &[(u32, u32)]) -> Program {
        for (number, len) in outputs {
            let shape = Shape::new(vec![*len]).expect("one side");
            let (label, value) = (Label::lossy("y"), value(*number));
            self.parts.outputs.push(Output { label, shape, value, scaling: None });
        }
        Program::new(self.parts).expect("a program")
    }
}

const BYTE: Spec = Spec { len: 1, lo: -128, hi: 127 };

fn one() -> Rescale {
    Rescale { pre_shift: 0, multipliers: list(vec![1]), shift: 0, zero: 0 }
}

/// Moves of two numbers that double the ways down, then operations with many columns that read the
/// last of them or one another.
fn ways(doublings: u32, after: u32) -> Program {
    let spec = Spec { len: 2, ..BYTE };
    let mut making = Making::new(spec);
    let table = Primitive::Table { x: value(0), entries: list((-128..=127).collect()) };
    let mut last = making.push(spec, table);
    for _ in 0..doublings {
        let part = |start| {
            let run = Run::Read { start, step: 1, count: 1 };
            MovePart { value: value(last), offsets: list(vec![list(vec![run])]) }
        };
        let parts = list(vec![part(0), part(1)]);
        let primitive = Primitive::Move { sides: list(vec![2]), axis: 0, parts, fill: 0 };
        last = making.push(spec, primitive);
    }
    for _ in 0..after {
        let product = Primitive::Product {
            sides: list(vec![2]),
            a: operand(last, vec![1]),
            b: operand(last, vec![1]),
            offset_a: 1,
            offset_b: 2,
            rescale: Rescale { pre_shift: 5, multipliers: list(vec![900]), shift: 20, zero: 0 },
        };
        last = making.push(spec, product);
    }
    making.finish(&[(last, 2)])
}

/// Tables that differ in their last entries only.
fn tables(count: u32, numbers: i32) -> Program {
    let spec = Spec { len: 1, lo: 0, hi: numbers - 1 };
    let mut making = Making::new(spec);
    let mut last = 0;
    for number in 0..count {
        let mut entries = vec![0_i16; numbers as usize];
        entries[numbers as usize - 1] = (number % 100) as i16;
        entries[numbers as usize - 2] = (number / 100) as i16;
        last = making.push(spec, Primitive::Table { x: value(last), entries: list(entries) });
    }
    making.finish(&[(last, 1)])
}

/// Constants that are moved into one value, a thousand at a time.
fn constants(count: u32) -> Program {
    let mut making = Making::new(BYTE).constants(count, BYTE);
    let mut outputs = Vec::new();
    for first in (0..count).step_by(1_024) {
        let here = first..count.min(first + 1_024);
        let part = |constant: u32| {
            let run = Run::Read { start: 0, step: 1, count: 1 };
            MovePart { value: value(1 + constant), offsets: list(vec![list(vec![run])]) }
        };
        let (len, parts) = (here.len() as u32, list(here.map(part).collect()));
        let primitive = Primitive::Move { sides: list(vec![len]), axis: 0, parts, fill: 0 };
        outputs.push((making.push(Spec { len, ..BYTE }, primitive), len));
    }
    making.finish(&outputs)
}

/// One operation, and very many outputs.
fn outputs(count: u32) -> Program {
    let mut making = Making::new(BYTE);
    let sum = Primitive::Sum { x: value(0), window: Window::rows(1, 1), offset: 0, rescale: one() };
    let made = making.push(BYTE, sum);
    let outputs: Vec<(u32, u32)> = (0..count).map(|place| (place % 2 * made, 1)).collect();
    making.finish(&outputs)
}

/// Choices by conditions of as many numbers as a table has.
fn choices(count: u32, numbers: i32) -> Program {
    let wide = Spec { len: 1, lo: 0, hi: numbers - 1 };
    let mut making = Making::new(wide);
    let mut last = 0;
    for _ in 0..count {
        let read = |number| operand(number, vec![1]);
        let (condition, then, otherwise) = (read(0), read(0), read(last));
        let sides = list(vec![1]);
        last = making.push(wide, Primitive::Select { sides, condition, then, otherwise });
    }
    making.finish(&[(last, 1)])
}

/// Divisions, each with its own entries.
fn divisions(count: u32) -> Program {
    let spec = Spec { len: 1, lo: -1_000, hi: 30_000 };
    let mut making = Making::new(spec);
    let mut last = 0;
    for number in 0..count {
        let mut entries = vec![16_384_i16; 1_024];
        entries[1_023] = number as i16;
        let division = Primitive::Normalise {
            sides: list(vec![1]),
            a: operand(last, vec![1]),
            offset: 0,
            x: operand(0, vec![1]),
            inverse: Inverse::Reciprocal,
            entries: list(entries),
            shift: 14,
            zero: 0,
        };
        last = making.push(spec, division);
    }
    making.finish(&[(last, 1)])
}

/// Sums of products with factors by place, which are clamped.
fn joins(count: u32, len: u32) -> Program {
    let spec = Spec { len, ..BYTE };
    let mut making = Making::new(spec);
    let mut last = 0;
    for number in 0..count {
        let factors: Vec<i32> = (0..len).map(|place| (place + number) as i32 % 900).collect();
        let term = |number: u32| JoinTerm {
            operand: operand(number, vec![1]),
            multipliers: list(factors.clone()),
        };
        let terms = list((0..4).map(|place| term(last * (place % 2))).collect());
        let sides = list(vec![len]);
        let join = Primitive::Join { sides, terms, constant: list(vec![0]), shift: 7 };
        last = making.push(spec, join);
    }
    making.finish(&[(last, len)])
}

/// The place of the largest of very many numbers.
fn largest(len: u32) -> Program {
    let spec = Spec { len, ..BYTE };
    let mut making = Making::new(spec);
    let hi = len as i32 - 1;
    let primitive = Primitive::ArgMax { x: value(0), outer: 1, len, inner: 1 };
    let made = making.push(Spec { len: 1, lo: 0, hi }, primitive);
    making.finish(&[(made, 1)])
}

/// Weights with as many columns as fit a commitment.
fn wide(columns: u32) -> Program {
    let weights = Spec { len: 4 * columns, lo: -5, hi: 5 };
    let mut making = Making::new(Spec { len: 4, ..BYTE }).constants(1, weights);
    let linear = Primitive::Linear {
        x: value(0),
        weights: value(1),
        bias: None,
        window: Window::rows(1, 4),
        columns,
        groups: 1,
        pad: 0,
        bound: 2_560,
        rescale: Rescale { shift: 9, ..one() },
    };
    let made = making.push(Spec { len: columns, ..BYTE }, linear);
    let window = Window::middle(1, columns, 1);
    let sum = Primitive::Sum { x: value(made), window, offset: 0, rescale: one() };
    let spec = Spec { len: 1, lo: -1 << 29, hi: 1 << 29 };
    let made = making.push(spec, sum);
    making.finish(&[(made, 1)])
}

/// All families, each with sizes around what is still planned.
fn programs() -> Vec<(String, Program)> {
    let mut all = Vec::new();
    let mut add = |name: &str, size: u32, program: Program| {
        if program.to_bytes().len() <= PROGRAM_BYTES_MAX {
            all.push((format!("{name} {size}"), program));
        }
    };
    for (doublings, after) in [(8, 500), (10, 440), (12, 100), (16, 3), (18, 0), (30, 0)] {
        add("ways", doublings, ways(doublings, after));
    }
    for (count, numbers) in [(510, 240), (120, 1_000), (15, 8_000), (3, 32_768)] {
        add("tables", count, tables(count, numbers));
    }
    for count in [1_000, 5_000, 7_000] {
        add("constants", count, constants(count));
    }
    for count in [4_000, 16_000] {
        add("outputs", count, outputs(count));
    }
    for (count, numbers) in [(4, 1 << 20), (60, 1 << 16), (500, 1 << 13), (500, 1 << 20)] {
        add("choices", count, choices(count, numbers));
    }
    for count in [20, 60, 120] {
        add("divisions", count, divisions(count));
    }
    for (count, len) in [(12, 1_000), (100, 100), (500, 4)] {
        add("joins", count, joins(count, len));
    }
    for len in [500, 1_024, 100_000] {
        add("largest", len, largest(len));
    }
    for columns in [1 << 12, 1 << 17, 1 << 18] {
        add("wide", columns, wide(columns));
    }
    all
}

/// Goal: planning a stranger's program takes bounded time and memory, whatever it is. Method: the
/// families above; what is refused must be refused as cheaply.
#[test]
fn hostile_programs_are_planned_in_bounded_time_and_memory() {
    let (mut planned, mut slowest) = (0, Bounds { held: 0, time: Duration::ZERO });
    for (name, program) in programs() {
        let (costs, took) = measured(|| court::costs(&program));
        println!("{name}: {costs:?} {took:?}, {} bytes", program.to_bytes().len());
        planned += u32::from(costs.proof.is_some());
        slowest.held = slowest.held.max(took.held);
        slowest.time = slowest.time.max(took.time);
        assert!(took.time <= TIME && took.held <= HELD, "{name}: {took:?}");
    }
    println!("{planned} are planned; at most {slowest:?}");
    assert!(planned >= 15, "only {planned} pass the checks");
}

/// Sums that read one number each of one large value: an input, or a constant.
fn readers(count: u32, len: u32, is_constant: bool) -> Program {
    let (small, large) = (Spec { len: 1, lo: -9, hi: 9 }, Spec { len, lo: -9, hi: 9 });
    let mut making = Making::new(small);
    if is_constant {
        making = making.constants(1, large);
    } else {
        making.parts.inputs.extend(Making::new(large).parts.inputs);
    }
    let mut outputs = Vec::new();
    for _ in 0..count {
        let term =
            |number| JoinTerm { operand: operand(number, vec![1]), multipliers: list(vec![1]) };
        let (sides, terms) = (list(vec![1]), list(vec![term(1), term(0)]));
        let join = Primitive::Join { sides, terms, constant: list(vec![0]), shift: 1 };
        outputs.push((making.push(small, join), 1));
    }
    making.finish(&outputs)
}

/// Goal: what verifying takes is metered where a claim about one number is one about a large value.
/// Method: ever more readers of one; beyond the bound of reads nothing is planned.
#[test]
fn every_reader_of_a_large_value_is_metered() {
    let (len, most) = (1 << 17, 6);
    for is_constant in [false, true] {
        let cost = |count| court::costs(&readers(count, len, is_constant)).proof;
        let (one, many) = (cost(1).expect("provable"), cost(most).expect("provable"));
        let each = u64::from(len) / 16;
        assert!(many - one >= u64::from(most - 1) * each, "{one} and {many}");
        assert_eq!(cost(most + 2), None);
    }
}

/// Goal: the same where each candidate of a maximum is a claim of its own.
#[test]
fn every_candidate_of_a_maximum_is_metered() {
    let columns = |len: u32, inner: u32| {
        let mut making = Making::new(Spec { len: len * inner, ..BYTE });
        let hi = len as i32 - 1;
        let primitive = Primitive::ArgMax { x: value(0), outer: 1, len, inner };
        let made = making.push(Spec { len: inner, lo: 0, hi }, primitive);
        court::costs(&making.finish(&[(made, inner)])).proof
    };
    assert!(columns(64, 8).is_some());
    assert_eq!(columns(1_024, 64), None);
}
