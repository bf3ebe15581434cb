//! A program under construction.
//!
//! A program numbers its constants before its operations, but they are made together; so values
//! have provisional numbers until the end, when also what no output needs is left out.

use super::error::LowerError;
use super::quant::Quant;
use std::collections::{BTreeMap, BTreeSet};
use tg_tensor::program::{
    Constant, Input, Label, Operation, Output, Parts, Primitive, Program, Scaling, Shape, Spec,
    ValueId,
};
use tg_tensor::{Model, Tensor};

/// A value of the program to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// An input.
    Input(usize),
    /// A constant.
    Constant(usize),
    /// An operation's output.
    Operation(usize),
}

/// Gives a slot its number.
pub(crate) type Numbering<'a> = &'a dyn Fn(Slot) -> ValueId;

/// Collects what a program is made of.
#[derive(Default)]
pub(crate) struct Builder {
    inputs: Vec<Input>,
    constants: Vec<Constant>,
    numbers: Vec<Tensor>,
    operations: Vec<Operation>,
    outputs: Vec<(Label, Shape, Slot, Option<Scaling>)>,
}

impl Builder {
    /// Adds an input.
    pub(crate) fn input(
        &mut self,
        name: &str,
        sides: &[usize],
        spec: Spec,
        scaling: Option<Scaling>,
    ) -> Result<Slot, LowerError> {
        let input = Input { label: Label::lossy(name), shape: shape(sides)?, spec, scaling };
        self.inputs.push(input);
        Ok(Slot::Input(self.inputs.len() - 1))
    }

    /// Adds a constant.
    pub(crate) fn constant(
        &mut self,
        name: &str,
        sides: &[usize],
        numbers: &[i64],
    ) -> Result<Slot, LowerError> {
        let least = numbers.iter().copied().min().unwrap_or(0);
        let most = numbers.iter().copied().max().unwrap_or(0);
        let small = |number: i64| i32::try_from(number).map_err(|_| LowerError::too_large(name));
        let len = u32::try_from(numbers.len()).map_err(|_| LowerError::too_large(name))?;
        let spec = Spec { len, lo: small(least)?, hi: small(most)? };
        let tensor = Tensor::new(&spec, numbers).map_err(|_| LowerError::too_large(name))?;
        self.constants.push(Constant { label: Label::lossy(name), shape: shape(sides)?, spec });
        self.numbers.push(tensor);
        Ok(Slot::Constant(self.constants.len() - 1))
    }

    /// Adds an operation.
    pub(crate) fn push(
        &mut self,
        name: &str,
        spec: Spec,
        draft: impl FnOnce(Numbering<'_>) -> Primitive,
    ) -> Slot {
        let primitive = draft(&provisional);
        self.operations.push(Operation { label: Label::lossy(name), spec, primitive });
        Slot::Operation(self.operations.len() - 1)
    }

    /// Adds an output.
    pub(crate) fn output(
        &mut self,
        name: &str,
        sides: &[usize],
        slot: Slot,
        quant: Option<&Quant>,
    ) -> Result<(), LowerError> {
        let scaling = quant.map(Quant::scaling);
        self.outputs.push((Label::lossy(name), shape(sides)?, slot, scaling));
        Ok(())
    }

    /// Puts the program and its weights together, without what no output needs.
    /// Also gives the final places of the operations that are left.
    pub(crate) fn finish(self) -> Result<(Model, BTreeMap<usize, usize>), LowerError> {
        let (operations, constants) = self.needed();
        let places = operations.iter().enumerate().map(|(place, index)| (*index, place)).collect();
        let inputs = self.inputs.len();
        let place = |list: &[usize], index: usize| list.binary_search(&index).unwrap_or(0);
        let number = |slot: Slot| {
            let index = match slot {
                Slot::Input(index) => index,
                Slot::Constant(index) => inputs + place(&constants, index),
                Slot::Operation(index) => inputs + constants.len() + place(&operations, index),
            };
            ValueId { number: index as u32 }
        };
        let outputs = self.outputs.into_iter().map(|(label, shape, slot, scaling)| Output {
            label,
            shape,
            value: number(slot),
            scaling,
        });
        let outputs = outputs.collect();
        let kept = |list: &[usize], index: &usize| list.binary_search(index).is_ok();
        let made = self.operations.into_iter().enumerate();
        let made = made.filter(|(index, _)| kept(&operations, index)).map(|(_, operation)| {
            let primitive = operation.primitive.renumbered(|value| number(slot_of(value)));
            Operation { primitive, ..operation }
        });
        let made = made.collect();
        let pairs = self.constants.into_iter().zip(self.numbers).enumerate();
        let (stated, numbers) =
            pairs.filter(|(index, _)| kept(&constants, index)).map(|(_, pair)| pair).unzip();
        let parts = Parts { inputs: self.inputs, constants: stated, operations: made, outputs };
        Ok((Model::new(Program::new(parts)?, numbers)?, places))
    }

    /// The operations and constants that outputs depend on, ascending.
    fn needed(&self) -> (Vec<usize>, Vec<usize>) {
        let mut wanted: Vec<Slot> = self.outputs.iter().map(|(_, _, slot, _)| *slot).collect();
        let mut found = BTreeSet::new();
        while let Some(slot) = wanted.pop() {
            if !found.insert(slot) {
                continue;
            }
            if let Slot::Operation(index) = slot
                && let Some(operation) = self.operations.get(index)
            {
                wanted.extend(operation.primitive.reads().into_iter().map(slot_of));
            }
        }
        let operation = |slot: &Slot| match slot {
            Slot::Operation(index) => Some(*index),
            Slot::Input(_) | Slot::Constant(_) => None,
        };
        let constant = |slot: &Slot| match slot {
            Slot::Constant(index) => Some(*index),
            Slot::Input(_) | Slot::Operation(_) => None,
        };
        (found.iter().filter_map(operation).collect(), found.iter().filter_map(constant).collect())
    }
}

const KIND_BITS: u32 = 30;

/// The number of a slot until the end: its kind in the highest bits.
fn provisional(slot: Slot) -> ValueId {
    let (kind, index) = match slot {
        Slot::Input(index) => (0, index),
        Slot::Constant(index) => (1, index),
        Slot::Operation(index) => (2, index),
    };
    ValueId { number: (kind << KIND_BITS) | index as u32 }
}

fn slot_of(value: ValueId) -> Slot {
    let index = (value.number & ((1 << KIND_BITS) - 1)) as usize;
    match value.number >> KIND_BITS {
        0 => Slot::Input(index),
        1 => Slot::Constant(index),
        _ => Slot::Operation(index),
    }
}

fn shape(sides: &[usize]) -> Result<Shape, LowerError> {
    let sides: Result<Vec<u32>, _> = sides.iter().map(|side| u32::try_from(*side)).collect();
    let sides = sides.map_err(|_| LowerError::too_large("shape"))?;
    Shape::new(sides).map_err(|_| LowerError::too_large("rank of a shape"))
}
