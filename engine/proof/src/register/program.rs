//! The program that is proven instead of an inference: it turns weights into numbers that show
//! nothing but that they are within their bounds.
//!
//! For every Linear on which outputs depend, with the largest magnitude M of what it reads and its
//! stated bound B:
//! ```text
//! a = |w| by a table                    so w is of its range too
//! s = sum of a column's a               as far as one more than B / M, rounded down
//! M * s + b, M * s - b                  as far as one more than B, and at least B: must be B
//! ```
//! Without a bias, s as far as one more than B / M and at least that must be B / M. All that is
//! proven is an output, and what it must be is known beforehand.

use crate::plan::{Pins, PlanError};
use std::collections::BTreeMap;
use tg_tensor::Tensor;
use tg_tensor::program::{
    JoinTerm, Label, MAGNITUDE_MAX, Multipliers, Operand, Operation, Output, Parts, Place,
    Primitive, Program, Rescale, Shape, Sides, Spec, Strides, Table, ValueId, Window,
};

/// A program about a program's constants, and what its outputs must be.
#[derive(Clone, Debug)]
pub(super) struct Registered {
    pub(super) program: Program,
    pub(super) pins: Pins,
    pub(super) outputs: Vec<Tensor>,
}

impl Registered {
    /// The one for a program.
    pub(super) fn new(program: &Program) -> Result<Self, PlanError> {
        let pins = Pins::new(program);
        if !pins.needed.contains(&true) {
            return Err(PlanError::NoWeights);
        }
        let mut builder = Builder {
            program,
            parts: Parts { constants: program.constants().to_vec(), ..Parts::default() },
            magnitudes: BTreeMap::new(),
            pins,
            numbers: Vec::new(),
        };
        for (index, operation) in program.operations().iter().enumerate() {
            builder.operation(index, operation)?;
        }
        let Builder { parts, pins, numbers, .. } = builder;
        let all = numbers.into_iter().zip(&parts.outputs).map(|(number, output)| {
            let place = output.value.index() - parts.constants.len();
            let spec = &parts.operations[place].spec;
            Tensor::new(spec, &vec![number; spec.elements()]).expect("the number is of the range")
        });
        let outputs = all.collect();
        let program = Program::new(parts).map_err(PlanError::Registration)?;
        Ok(Self { program, pins, outputs })
    }
}

struct Builder<'a> {
    program: &'a Program,
    parts: Parts,
    /// The magnitudes of each constant that is used as weights.
    magnitudes: BTreeMap<usize, ValueId>,
    pins: Pins,
    /// What all elements of each output must be.
    numbers: Vec<i64>,
}

impl Builder<'_> {
    fn operation(&mut self, index: usize, operation: &Operation) -> Result<(), PlanError> {
        let Primitive::Linear { x, weights, bias, columns, pad, bound, .. } = &operation.primitive
        else {
            return Ok(());
        };
        let (Some(weights), Some(read)) = (self.constant(*weights), self.program.spec(*x)) else {
            return Ok(());
        };
        let bias = bias.and_then(|bias| self.constant(bias));
        let is_needed = |constant: &usize| self.pins.needed[*constant];
        // A Linear that no output depends on is not proven, but its weights may be another's; that
        // its bound holds for them too is no harm to ask.
        if !is_needed(&weights) || bias.as_ref().is_some_and(|bias| !is_needed(bias)) {
            return Ok(());
        }
        let largest = read.magnitude().max(i64::from(*pad).abs());
        let bound = i64::from(*bound);
        let spec = self.parts.constants[weights].spec;
        let reach = i64::from(spec.len / columns) * spec.magnitude();
        // Weights that are multiplied with nothing but 0 may be anything.
        let most = bound.checked_div(largest).unwrap_or(reach).min(reach);
        let added = bias.map_or(0, |_| bound + 1);
        if (most + 1) * largest.max(1) + added > MAGNITUDE_MAX {
            return Err(PlanError::Bound { operation: index, bound });
        }
        let sum = Sum { weights, columns: *columns, largest, bound, most };
        match bias {
            None => self.without_bias(&sum),
            Some(bias) => self.with_bias(&sum, bias),
        }
        Ok(())
    }

    /// The number of a constant in both programs.
    fn constant(&self, value: ValueId) -> Option<usize> {
        match self.program.place(value) {
            Some(Place::Constant(constant)) => Some(constant),
            Some(Place::Input(_) | Place::Operation(_)) | None => None,
        }
    }

    fn add(&mut self, label: &str, spec: Spec, primitive: Primitive) -> ValueId {
        let number = (self.parts.constants.len() + self.parts.operations.len()) as u32;
        self.parts.operations.push(Operation { label: Label::lossy(label), spec, primitive });
        ValueId { number }
    }

    /// Demands that all elements of a value are a number.
    fn must_be(&mut self, value: ValueId, len: u32, number: i64) {
        let shape = Shape::new(vec![len]).expect("one side");
        let label = Label::lossy("registered");
        self.parts.outputs.push(Output { label, shape, value, scaling: None });
        self.numbers.push(number);
    }

    /// The magnitudes of a constant, by a table that has no other numbers than those of its range.
    fn magnitudes(&mut self, constant: usize) -> ValueId {
        if let Some(found) = self.magnitudes.get(&constant) {
            return *found;
        }
        let spec = self.parts.constants[constant].spec;
        let entries: Vec<i16> = (spec.lo..=spec.hi).map(|w| w.unsigned_abs() as i16).collect();
        let most = spec.magnitude() as i32;
        let entries = Table::new(entries).expect("weights are of few numbers");
        let x = ValueId { number: constant as u32 };
        let made = Spec { lo: 0, hi: most, ..spec };
        let value = self.add("magnitudes", made, Primitive::Table { x, entries });
        self.pins.ranged[constant] = false;
        self.magnitudes.insert(constant, value);
        value
    }

    /// The sums of columns of magnitudes, clamped to a range.
    fn sums(&mut self, sum: &Sum, lo: i64, hi: i64) -> ValueId {
        let x = self.magnitudes(sum.weights);
        let len = self.parts.constants[sum.weights].spec.len / sum.columns;
        let window = Window::middle(sum.columns, len, 1);
        let spec = Spec { len: sum.columns, lo: lo as i32, hi: hi as i32 };
        let rescale = Rescale { pre_shift: 0, multipliers: one(1), shift: 0, zero: 0 };
        self.add("sums", spec, Primitive::Sum { x, window, offset: 0, rescale })
    }

    fn without_bias(&mut self, sum: &Sum) {
        let made = self.sums(sum, sum.most, sum.most + 1);
        self.must_be(made, sum.columns, sum.most);
    }

    fn with_bias(&mut self, sum: &Sum, bias: usize) {
        let bound = sum.bound;
        let sums = self.sums(sum, 0, sum.most + 1);
        let spec = self.parts.constants[bias].spec;
        let mut added = ValueId { number: bias as u32 };
        if spec.magnitude() > bound + 1 {
            let ends = (bound + 1) as i32;
            let spec =
                Spec { lo: spec.lo.clamp(-ends, ends), hi: spec.hi.clamp(-ends, ends), ..spec };
            added = self.join("bias", spec, &[(added, 1)]);
        }
        for sign in [1, -1] {
            let spec = Spec { len: sum.columns, lo: bound as i32, hi: (bound + 1) as i32 };
            let made = self.join("bound", spec, &[(sums, sum.largest as i32), (added, sign)]);
            self.must_be(made, sum.columns, bound);
        }
    }

    /// The sum of values times factors.
    fn join(&mut self, label: &str, spec: Spec, terms: &[(ValueId, i32)]) -> ValueId {
        let strides = Strides::new(vec![1]).expect("one side");
        let term = |(value, factor): &(ValueId, i32)| JoinTerm {
            operand: Operand { value: *value, strides: strides.clone() },
            multipliers: one(*factor),
        };
        let terms = terms.iter().map(term).collect();
        let primitive = Primitive::Join {
            sides: Sides::new(vec![spec.len]).expect("one side"),
            terms: tg_types::List::new(terms).expect("few terms"),
            constant: one(0),
            shift: 0,
        };
        self.add(label, spec, primitive)
    }
}

/// The weights of a Linear, their columns, and the bound that they must keep.
struct Sum {
    weights: usize,
    columns: u32,
    /// The largest magnitude of what they are multiplied with.
    largest: i64,
    bound: i64,
    /// What a column's magnitudes may add up to, if there were no bias.
    most: i64,
}

fn one(factor: i32) -> Multipliers {
    Multipliers::new(vec![factor]).expect("one is allowed")
}
