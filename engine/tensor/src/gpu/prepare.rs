//! A model made ready for a device: constants uploaded, kernels compiled, calls prepared.

use super::launch::{Launch, Source};
use super::memory::bytes_of;
use super::{Gpu, GpuError};
use crate::model::Model;
use crate::program::{Operation, Place, Primitive, Program, Spec, ValueId};
use std::collections::BTreeMap;

/// Below this many elements, an operation has too few lanes for a device to be quick.
pub(super) const FEW_ELEMENTS: u32 = 256;

/// With few elements, folds longer than this are left to the processor: one lane of a device is a
/// hundred times slower than a processor.
pub(super) const LONG_FOLD: u64 = 4_096;

/// A model that is ready for a device.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(super) gpu: Gpu,
    /// What the device does for each operation; `None` if the processor computes it.
    pub(super) tasks: Vec<Option<Task>>,
    /// The values that nobody reads after each operation.
    pub(super) dying: Vec<Vec<ValueId>>,
    /// How many values there are.
    pub(super) values: usize,
    /// The number of the first operation's value.
    pub(super) first: usize,
}

/// An operation on the device.
#[derive(Debug)]
pub(super) struct Task {
    /// Its calls, which write to the same output one after the other.
    pub(super) launches: Vec<Launch>,
    /// Bytes of its output.
    pub(super) bytes: u64,
}

impl Prepared {
    /// Makes a model ready. Operations that the device cannot do are left to the processor.
    pub(crate) fn new(gpu: &Gpu, model: &Model) -> Result<Self, GpuError> {
        gpu.check()?;
        let program = model.program();
        let mut prepare = Prepare { gpu, model, uploaded: BTreeMap::new() };
        let operations = program.operations().iter();
        let tasks = operations.map(|operation| prepare.task(operation)).collect();
        gpu.check()?;
        Ok(Self {
            gpu: gpu.clone(),
            tasks,
            dying: dying(program),
            values: program.specs().len(),
            first: program.value_of(0).index(),
        })
    }
}

/// What is kept while operations are made ready.
pub(super) struct Prepare<'a> {
    pub(super) gpu: &'a Gpu,
    model: &'a Model,
    /// Constants that are on the device.
    uploaded: BTreeMap<ValueId, wgpu::Buffer>,
}

impl Prepare<'_> {
    fn task(&mut self, operation: &Operation) -> Option<Task> {
        let bytes = bytes_of(&operation.spec);
        if !self.gpu.0.bounds.admit(bytes) {
            return None;
        }
        let one = |launch: Option<Launch>| launch.map(|launch| vec![launch]);
        let launches = match &operation.primitive {
            Primitive::Linear { .. } => one(self.linear(operation)),
            Primitive::MatMul { .. } => one(self.mat_mul(operation)),
            Primitive::Join { .. }
            | Primitive::Product { .. }
            | Primitive::Table { .. }
            | Primitive::Normalise { .. }
            | Primitive::Select { .. } => one(self.grid(operation)),
            Primitive::Sum { .. } | Primitive::Max { .. } | Primitive::ArgMax { .. } => {
                one(self.reduce(operation))
            }
            Primitive::Move { .. } => self.moves(operation),
            Primitive::Lookup { .. } => one(self.lookup(operation)),
        }?;
        Some(Task { launches, bytes })
    }

    /// What is known of a value.
    pub(super) fn spec(&self, value: ValueId) -> Option<Spec> {
        self.model.program().spec(value)
    }

    /// Numbers of a constant.
    pub(super) fn constant(&self, value: ValueId) -> Option<Vec<i32>> {
        let numbers = self.model.constant(value)?.to_numbers();
        Some(numbers.into_iter().map(|number| number as i32).collect())
    }

    /// Where a kernel finds a value. Constants are uploaded once. `None` if it is too large.
    pub(super) fn source(&mut self, value: ValueId) -> Option<Source> {
        let spec = self.spec(value)?;
        if !self.gpu.0.bounds.admit(bytes_of(&spec)) {
            return None;
        }
        match self.model.program().place(value)? {
            Place::Input(_) | Place::Operation(_) => Some(Source::Value(value)),
            Place::Constant(_) => {
                let tensor = self.model.constant(value)?;
                let buffer = self.uploaded.entry(value);
                let buffer = buffer.or_insert_with(|| self.gpu.upload(tensor.into()));
                Some(Source::Fixed(buffer.clone()))
            }
        }
    }

    /// Numbers that an operation has of its own. `None` if they are too many.
    pub(super) fn numbers(&self, numbers: &[i32]) -> Option<Source> {
        let fits = self.gpu.0.bounds.admit(4 * numbers.len() as u64);
        fits.then(|| Source::Fixed(self.gpu.upload_numbers(numbers)))
    }
}

/// Whether the elements of an operation are so few and their folds so long that the processor is
/// quicker.
pub(super) fn is_lopsided(elements: u32, terms: u64) -> bool {
    elements < FEW_ELEMENTS && terms > LONG_FOLD
}

/// For each operation, the values that nobody reads after it. Outputs of the program stay.
fn dying(program: &Program) -> Vec<Vec<ValueId>> {
    let count = program.operations().len();
    let mut last: Vec<Option<usize>> = vec![None; program.specs().len()];
    for (index, operation) in program.operations().iter().enumerate() {
        let made = program.value_of(index);
        for value in operation.primitive.reads().into_iter().chain([made]) {
            if let Some(last) = last.get_mut(value.index()) {
                *last = Some(index);
            }
        }
    }
    for output in program.outputs() {
        if let Some(last) = last.get_mut(output.value.index()) {
            *last = None;
        }
    }
    let mut dying = vec![Vec::new(); count];
    for (number, last) in (0_u32..).zip(last) {
        if let Some(dying) = last.and_then(|last| dying.get_mut(last)) {
            dying.push(ValueId { number });
        }
    }
    dying
}
