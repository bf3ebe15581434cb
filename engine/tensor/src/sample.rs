//! Random models and inputs that are valid by construction, for tests and fuzzing.
//!
//! Every primitive occurs, with the odd cases on purpose: padding, dilation, spread and groups,
//! broadcast and permuted operands, moves with several parts and fills, ranges of all widths and
//! ranges far from zero. Structure is drawn from the unstructured bytes; bulk numbers (weights,
//! tables, inputs) come from a generator that is seeded by them, as there are few bytes.

mod build;
mod geometry;

use crate::model::Model;
use crate::program::{Constant, Input, Label, Operation, Output, Parts, Primitive, Program};
use crate::program::{Shape, Spec, ValueId};
use crate::tensor::Tensor;
use arbtest::arbitrary::{Result, Unstructured};

/// The most operations of a sample.
const OPERATIONS_MAX: usize = 8;

/// Constants that an operation can have of its own: weights and biases.
const CONSTANTS_EACH: usize = 2;

/// The most elements of a value, so that comparing all of them is quick.
const ELEMENTS_MAX: u32 = 1_500;

/// How often an operation is drawn anew that cannot be built from the values there are.
const TRIES_MAX: usize = 20;

/// The names of the primitives, in the order of their tags.
pub const KINDS: [&str; 12] = [
    "Linear",
    "MatMul",
    "Join",
    "Product",
    "Table",
    "Sum",
    "Max",
    "Normalise",
    "Move",
    "Select",
    "Lookup",
    "ArgMax",
];

/// The place of a primitive in [`KINDS`].
#[must_use]
pub fn kind(primitive: &Primitive) -> usize {
    match primitive {
        Primitive::Linear { .. } => 0,
        Primitive::MatMul { .. } => 1,
        Primitive::Join { .. } => 2,
        Primitive::Product { .. } => 3,
        Primitive::Table { .. } => 4,
        Primitive::Sum { .. } => 5,
        Primitive::Max { .. } => 6,
        Primitive::Normalise { .. } => 7,
        Primitive::Move { .. } => 8,
        Primitive::Select { .. } => 9,
        Primitive::Lookup { .. } => 10,
        Primitive::ArgMax { .. } => 11,
    }
}

/// A model of 1 to 8 operations.
pub fn model(u: &mut Unstructured<'_>) -> Result<Model> {
    let count = u.int_in_range(1..=OPERATIONS_MAX)?;
    let mut builder = Builder::new(u, count)?;
    for _ in 0..count {
        builder.push()?;
    }
    builder.finish()
}

/// Inputs for a program: any numbers of their ranges, the ends of the ranges more often.
pub fn inputs(u: &mut Unstructured<'_>, program: &Program) -> Result<Vec<Tensor>> {
    let mut noise = Noise::new(u)?;
    Ok(program.inputs().iter().map(|input| noise.tensor(&input.spec)).collect())
}

/// Numbers that look random: splitmix64.
#[derive(Debug)]
struct Noise(u64);

impl Noise {
    fn new(u: &mut Unstructured<'_>) -> Result<Self> {
        u.arbitrary().map(Self)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number between two, one of the two themselves in one of eight cases.
    fn between(&mut self, lo: i64, hi: i64) -> i64 {
        match self.next() % 16 {
            0 => lo,
            1 => hi,
            _ => lo + (self.next() % (hi - lo + 1).unsigned_abs()) as i64,
        }
    }

    fn many(&mut self, count: usize, lo: i64, hi: i64) -> Vec<i64> {
        (0..count).map(|_| self.between(lo, hi)).collect()
    }

    fn tensor(&mut self, spec: &Spec) -> Tensor {
        let numbers = self.many(spec.elements(), spec.lo.into(), spec.hi.into());
        Tensor::new(spec, &numbers).expect("the numbers are of the spec")
    }
}

/// A program that grows. All inputs are there from the start, and places for the constants, so that
/// the numbers of values never change.
struct Builder<'a, 'b> {
    u: &'a mut Unstructured<'b>,
    noise: Noise,
    parts: Parts,
    tensors: Vec<Tensor>,
    /// What is known of every value.
    specs: Vec<Spec>,
    /// Constants that are in use.
    constants: usize,
}

impl<'a, 'b> Builder<'a, 'b> {
    fn new(u: &'a mut Unstructured<'b>, operations: usize) -> Result<Self> {
        let noise = Noise::new(u)?;
        let (parts, tensors, specs) = (Parts::default(), Vec::new(), Vec::new());
        let mut builder = Self { u, noise, parts, tensors, specs, constants: 0 };
        // A byte, 16 bits, row numbers, and anything.
        for (index, range) in [(-128, 127), (-32_767, 32_767), (0, 3)].into_iter().enumerate() {
            builder.input(index, range)?;
        }
        let any = builder.range()?;
        builder.input(3, any)?;
        for index in 0..operations * CONSTANTS_EACH {
            let spec = Spec { len: 1, lo: 0, hi: 0 };
            let label = Label::lossy(&format!("constant {index}"));
            builder.parts.constants.push(Constant { label, shape: shape(1), spec });
            builder.tensors.push(Tensor::zeros(&spec));
            builder.specs.push(spec);
        }
        Ok(builder)
    }

    fn input(&mut self, index: usize, (lo, hi): (i32, i32)) -> Result<()> {
        let mut len = 1;
        for _ in 0..self.u.int_in_range(1..=4)? {
            len = (len * self.u.int_in_range(1..=7)?).min(ELEMENTS_MAX);
        }
        let spec = Spec { len, lo, hi };
        let label = Label::lossy(&format!("input {index}"));
        self.parts.inputs.push(Input { label, shape: shape(len), spec, scaling: None });
        self.specs.push(spec);
        Ok(())
    }

    /// A range of some width.
    fn range(&mut self) -> Result<(i32, i32)> {
        let ranges = [
            (-128, 127),
            (-127, 127),
            (0, 127),
            (0, 255),
            (-7, 8),
            (5, 5),
            (-32_768, 32_767),
            (-1_000, 3_000),
            (0, 65_535),
            (40_000, 40_200),
            (-900_000, 70),
            (-3, 1 << 29),
        ];
        self.u.choose(&ranges).copied()
    }

    fn spec(&mut self, len: u32) -> Result<Spec> {
        let (lo, hi) = self.range()?;
        Ok(Spec { len, lo, hi })
    }

    /// A spec that holds all of a range.
    fn holding(&mut self, len: u32, lo: i32, hi: i32) -> Result<Spec> {
        let other = if self.u.ratio(1, 3)? { self.range()? } else { (lo, hi) };
        Ok(Spec { len, lo: lo.min(other.0), hi: hi.max(other.1) })
    }

    /// A value for which a condition holds; the newest more often. `None` if there is none.
    fn value(&mut self, fits: impl Fn(&Spec) -> bool) -> Result<Option<(ValueId, Spec)>> {
        let before = self.parts.inputs.len();
        let unused = before + self.constants..before + self.tensors.len();
        let mut all: Vec<usize> = (0..self.specs.len())
            .filter(|index| !unused.contains(index) && fits(&self.specs[*index]))
            .collect();
        if all.is_empty() {
            return Ok(None);
        }
        let newest = all.split_off(all.len().saturating_sub(3));
        let picked = if all.is_empty() || self.u.ratio(1, 2)? { newest } else { all };
        let index = *self.u.choose(&picked)?;
        Ok(Some((ValueId { number: index as u32 }, self.specs[index])))
    }

    /// A new constant. `None` if all are in use.
    fn constant(&mut self, spec: Spec) -> Option<(ValueId, Tensor)> {
        let place = self.parts.constants.get_mut(self.constants)?;
        (place.spec, place.shape) = (spec, shape(spec.len));
        let value = ValueId { number: (self.parts.inputs.len() + self.constants) as u32 };
        let tensor = self.noise.tensor(&spec);
        self.tensors[self.constants] = tensor.clone();
        self.specs[value.index()] = spec;
        self.constants += 1;
        Some((value, tensor))
    }

    /// One more operation.
    fn push(&mut self) -> Result<()> {
        for _ in 0..TRIES_MAX {
            let kind = self.u.int_in_range(0..=KINDS.len() - 1)?;
            let Some((spec, primitive)) = self.primitive(kind)? else { continue };
            let label = Label::lossy(KINDS[kind]);
            self.parts.operations.push(Operation { label, spec, primitive });
            self.specs.push(spec);
            return Ok(());
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Model> {
        let last = self.specs.len() - 1;
        let mut outputs = vec![last];
        for _ in 0..self.u.int_in_range(0..=2)? {
            outputs.push(self.u.int_in_range(0..=last)?);
        }
        for (index, value) in outputs.into_iter().enumerate() {
            let label = Label::lossy(&format!("output {index}"));
            let shape = shape(self.specs[value].len);
            let value = ValueId { number: value as u32 };
            self.parts.outputs.push(Output { label, shape, value, scaling: None });
        }
        let program = Program::new(self.parts).expect("samples are valid by construction");
        Ok(Model::new(program, self.tensors).expect("samples are valid by construction"))
    }
}

fn shape(len: u32) -> Shape {
    Shape::new(vec![len]).expect("one side is allowed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Goal: no primitive is missing or rare in samples. Method: count them in a few hundred.
    #[test]
    fn samples_have_all_primitives_often() {
        let counts: [Cell<u32>; 12] = Default::default();
        arbtest::arbtest(|u| {
            for operation in model(u)?.program().operations() {
                let count = &counts[kind(&operation.primitive)];
                count.set(count.get() + 1);
            }
            Ok(())
        })
        .budget_ms(1_000);
        let all: u32 = counts.iter().map(Cell::get).sum();
        for (name, count) in KINDS.iter().zip(&counts) {
            assert!(count.get() * 40 > all, "{name}: {} of {all}", count.get());
        }
    }

    #[test]
    fn samples_are_read_back_from_their_bytes() {
        arbtest::arbtest(|u| {
            let model = model(u)?;
            assert_eq!(Model::from_bytes(&model.to_bytes()).as_ref(), Ok(&model));
            Ok(())
        });
    }
}
