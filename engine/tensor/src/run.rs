//! Runs programs on the processor.
//!
//! A [`Runner`] is a model made ready: weights packed, memory planned, threads started. It computes
//! what [`crate::element`] defines, to the bit, on every path and with every number of threads; the
//! tests compare them element by element. Inputs are checked at the door; after that nothing can
//! fail, because the checks of a program bound every index and every sum.

mod axis;
mod depthwise;
mod device;
mod elements;
mod gather;
mod linear;
mod mat_mul;
mod moves;
mod plan;
mod pointwise;
mod product;
mod reduce;
mod step;
mod table;
mod team;
#[cfg(test)]
mod tests;
mod view;

pub use elements::Elements;

#[cfg(feature = "wgpu")]
pub(crate) use device::DeviceFailed;
pub(crate) use device::{Device, Session};
pub(crate) use elements::Target;

#[cfg(feature = "wgpu")]
use crate::gpu::{Gpu, GpuError, Prepared};
use crate::kernels::{Path, Weights};
use crate::model::Model;
use crate::program::{Place, Program, Spec, ValueId, Width};
use crate::tensor::{Tensor, TensorError};
use plan::{Plan, Slot};
use std::sync::{Arc, Mutex, PoisonError};
use step::Step;
use team::Team;

/// Memory sets that a runner keeps for later runs: as many as runs at once. More are made when they
/// are needed, and dropped afterwards.
const ARENAS_MAX: usize = 4;

/// How a runner runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Threads, the caller's included; 0 is one for each core.
    pub threads: usize,
    /// Which kernels; `None` is the fastest of this machine.
    pub path: Option<Path>,
}

/// Why a run was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Too many or too few inputs.
    #[error("{found} inputs given, {expected} needed")]
    Inputs {
        /// How many are given.
        found: usize,
        /// How many are needed.
        expected: usize,
    },
    /// An input has the wrong width.
    #[error("input {index} ({label}) has elements of {found} bytes, {expected} needed")]
    Width {
        /// Which.
        index: usize,
        /// Its name.
        label: String,
        /// Bytes of an element that is given.
        found: usize,
        /// Bytes of an element that is needed.
        expected: usize,
    },
    /// An input does not fit the program.
    #[error("input {index} ({label})")]
    Input {
        /// Which.
        index: usize,
        /// Its name.
        label: String,
        /// What is wrong with it.
        source: TensorError,
    },
    /// The operation does not exist or has no accumulators.
    #[error("operation {0} is no product")]
    NoProduct(usize),
}

/// A model that is ready to run. Runs may be made from several threads at once.
#[derive(Debug)]
pub struct Runner {
    model: Arc<Model>,
    steps: Vec<Step>,
    plan: Plan,
    path: Path,
    team: Team,
    /// Computes operations instead of the processor.
    device: Option<Box<dyn Device>>,
    /// Memory for runs. A lock, because runs take and return it without waiting for each other.
    arenas: Mutex<Vec<Arena>>,
}

/// The memory of one run.
#[derive(Debug)]
struct Arena {
    slots: Vec<Tensor>,
    /// One for each thread.
    scratch: Vec<Scratch>,
}

/// What a thread keeps for itself between operations.
#[derive(Debug)]
struct Scratch {
    /// Rows of a product as factors.
    rows: Vec<i16>,
    /// Rows that were gathered from windows.
    gathered: Vec<i16>,
    /// Where the taps of windows read, shared by groups.
    bases: Vec<usize>,
    /// Taps of one place.
    taps: Vec<depthwise::Tap>,
    /// Sums of a block.
    sums: Vec<i32>,
    /// Sums of a product that is split by columns.
    split: Vec<i32>,
    /// A computed right-hand side.
    packed: Weights,
    /// Blocks of pointwise operations.
    buffers: Box<pointwise::Buffers>,
}

impl Scratch {
    fn new() -> Self {
        Self {
            rows: Vec::new(),
            gathered: Vec::new(),
            bases: Vec::new(),
            taps: Vec::new(),
            sums: Vec::new(),
            split: Vec::new(),
            packed: Weights::default(),
            buffers: Box::new(pointwise::BUFFERS),
        }
    }
}

/// What is shown every operation's output: its index and the elements.
type Observer<'a> = dyn FnMut(usize, Elements<'_>) + 'a;

/// Who watches a run, and what has been shown: a run that begins anew shows nothing twice.
struct Show<'a> {
    observer: Option<&'a mut Observer<'a>>,
    seen: usize,
}

impl Show<'_> {
    fn is_watched(&self) -> bool {
        self.observer.is_some()
    }

    fn show(&mut self, operation: usize, elements: Elements<'_>) {
        if let Some(observer) = self.observer.as_mut().filter(|_| operation == self.seen) {
            observer(operation, elements);
            self.seen += 1;
        }
    }
}

/// What every operation needs to run.
#[derive(Clone, Copy, Debug)]
struct Context<'a> {
    path: Path,
    team: &'a Team,
}

/// The values that an operation can read.
#[derive(Clone, Copy, Debug)]
struct Values<'a> {
    model: &'a Model,
    inputs: &'a [Tensor],
    plan: &'a Plan,
    slots: &'a [Tensor],
    /// The slot that is being written.
    written: usize,
}

impl<'a> Values<'a> {
    /// A value that is read.
    fn get(&self, value: ValueId) -> Elements<'a> {
        self.unless_overwritten(value).expect("the plan keeps what is read")
    }

    /// A value that is read; `None` if the output is written over it.
    fn unless_overwritten(&self, value: ValueId) -> Option<Elements<'a>> {
        let program = self.model.program();
        match program.place(value).expect("a program reads values that it has") {
            Place::Input(index) => Some((&self.inputs[index]).into()),
            Place::Constant(index) => Some((&self.model.constants()[index]).into()),
            Place::Operation(index) => {
                let slot = self.plan.slot_of(index);
                let len = program.operations()[index].spec.elements();
                (slot != self.written).then(|| Elements::first(&self.slots[slot], len))
            }
        }
    }
}

impl Runner {
    /// Makes a model ready to run.
    #[must_use]
    pub fn new(model: impl Into<Arc<Model>>, options: Options) -> Self {
        let model = model.into();
        let steps = step::prepare(&model);
        let plan = Plan::new(model.program());
        let path = options.path.unwrap_or_else(Path::detect);
        let team = Team::new(options.threads);
        Self { model, steps, plan, path, team, device: None, arenas: Mutex::new(Vec::new()) }
    }

    /// The same runner with a GPU, which computes what it can; the results are the same. If the
    /// GPU fails during a run, that run and all later ones are made by the processor.
    #[cfg(feature = "wgpu")]
    pub fn on(self, gpu: &Gpu) -> Result<Self, GpuError> {
        let prepared = Prepared::new(gpu, &self.model)?;
        Ok(self.with_device(Box::new(prepared)))
    }

    /// The same runner with a device, which has been made ready for the same model.
    #[cfg(any(test, feature = "wgpu"))]
    pub(crate) fn with_device(mut self, device: Box<dyn Device>) -> Self {
        self.device = Some(device);
        self
    }

    /// One that spreads even the smallest work over its threads.
    #[cfg(test)]
    fn eager(model: impl Into<Arc<Model>>, options: Options) -> Self {
        let mut runner = Self::new(model, options);
        runner.team.make_eager();
        runner
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Bytes of memory for the operations' outputs during one run, besides inputs and weights.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.plan.bytes()
    }

    /// Runs the program. The outputs are in its order.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, RunError> {
        self.run_shown(inputs, None)
    }

    /// Runs the program and shows every operation's output when it is computed: the operation's
    /// index and the elements.
    pub fn run_observed(
        &self,
        inputs: &[Tensor],
        observer: &mut dyn FnMut(usize, Elements<'_>),
    ) -> Result<Vec<Tensor>, RunError> {
        self.run_shown(inputs, Some(observer))
    }

    fn run_shown<'a>(
        &self,
        inputs: &[Tensor],
        observer: Option<&'a mut Observer<'a>>,
    ) -> Result<Vec<Tensor>, RunError> {
        check_inputs(self.model.program(), inputs)?;

        let mut arena = self.arena();
        let mut show = Show { observer, seen: 0 };
        if self.try_on_device(inputs, &mut arena, &mut show).is_none() {
            for (index, step) in self.steps.iter().enumerate() {
                self.step(index, step, inputs, &mut arena);
                show.show(index, self.output(index, inputs, &arena.slots));
            }
        }
        let values = self.values(inputs, &arena.slots, None);
        let outputs = self.model.program().outputs().iter();
        let outputs = outputs.map(|output| values.get(output.value).to_tensor()).collect();
        self.put_back(arena);
        Ok(outputs)
    }

    /// Runs the program with the help of the device; the outputs are in the arena at the end.
    /// `None` if there is no device or it has failed.
    fn try_on_device(
        &self,
        inputs: &[Tensor],
        arena: &mut Arena,
        show: &mut Show<'_>,
    ) -> Option<()> {
        let device = self.device.as_ref()?;
        let mut session = device.begin()?;
        let program = self.model.program();
        // Outputs that only the device has.
        let mut away = vec![false; self.steps.len()];
        for (index, step) in self.steps.iter().enumerate() {
            if device.takes(index) {
                let host = self.values(inputs, &arena.slots, None);
                session.compute(index, &|value| host.get(value)).ok()?;
                away[index] = true;
            } else {
                for read in program.operations()[index].primitive.reads() {
                    self.bring(read, &mut away, session.as_mut(), arena)?;
                }
                self.step(index, step, inputs, arena);
            }
            if show.is_watched() {
                self.bring(self.value(index), &mut away, session.as_mut(), arena)?;
                show.show(index, self.output(index, inputs, &arena.slots));
            }
            session.finished(index);
        }
        for output in program.outputs() {
            self.bring(output.value, &mut away, session.as_mut(), arena)?;
        }
        Some(())
    }

    /// Fetches a value that only the device has. `None` if the device has failed.
    fn bring(
        &self,
        value: ValueId,
        away: &mut [bool],
        session: &mut dyn Session,
        arena: &mut Arena,
    ) -> Option<()> {
        let Some(Place::Operation(index)) = self.model.program().place(value) else {
            return Some(());
        };
        if std::mem::take(&mut away[index]) {
            let len = self.model.program().operations()[index].spec.elements();
            let out = Target::first(&mut arena.slots[self.plan.slot_of(index)], len);
            session.fetch(index, out).ok()?;
        }
        Some(())
    }

    /// Runs the program and keeps the outputs of all operations, in their order.
    pub fn run_keeping(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, RunError> {
        let mut kept = Vec::with_capacity(self.steps.len());
        self.run_observed(inputs, &mut |_, elements| kept.push(elements.to_tensor()))?;
        Ok(kept)
    }

    /// The accumulators of a product before its rescale, biases included. `operands` is what it
    /// reads besides constants: one for a linear operation, two for a product of two values.
    pub fn accumulators(
        &self,
        operation: usize,
        operands: &[&Tensor],
    ) -> Result<Vec<i32>, RunError> {
        let (Some(step), Some(stated)) =
            (self.steps.get(operation), self.model.program().operations().get(operation))
        else {
            return Err(RunError::NoProduct(operation));
        };
        let context = self.context();
        let mut sums = vec![0; stated.spec.elements()];
        let out = Target::I32(&mut sums);
        match step {
            Step::Linear(linear) => {
                let [x] = self.operands(operands, [linear.x])?;
                let weights = self.model.constant(linear.weights).expect("weights are a constant");
                let (weights, finish) = (step::bytes(weights.into()), &linear.finish.raw());
                let mut arena = self.arena();
                let reads = linear::Reads { x, weights, finish };
                linear.run(&context, reads, out, &mut arena.scratch);
                self.put_back(arena);
            }
            Step::MatMul(product) => {
                let [a, b] = self.operands(operands, [product.a, product.b])?;
                let mut arena = self.arena();
                let reads = mat_mul::Reads { a, b, finish: &product.finish.raw() };
                product.run(&context, reads, out, &mut arena.scratch);
                self.put_back(arena);
            }
            Step::Pointwise(_)
            | Step::Table(_)
            | Step::Reduce(_)
            | Step::Moves(_)
            | Step::Lookup(_)
            | Step::ArgMax(_) => return Err(RunError::NoProduct(operation)),
        }
        Ok(sums)
    }

    /// Operands that were given, checked against the values that they stand for.
    fn operands<'a, const N: usize>(
        &self,
        given: &[&'a Tensor],
        values: [ValueId; N],
    ) -> Result<[Elements<'a>; N], RunError> {
        let Ok(given) = <[&Tensor; N]>::try_from(given) else {
            return Err(RunError::Inputs { found: given.len(), expected: N });
        };
        for (index, (given, value)) in given.iter().zip(values).enumerate() {
            let spec = self.model.program().spec(value).expect("a program reads values it has");
            check_tensor(index, "operand", given, &spec)?;
        }
        Ok(given.map(Elements::from))
    }

    /// Computes one operation's output into its slot.
    fn step(&self, index: usize, step: &Step, inputs: &[Tensor], arena: &mut Arena) {
        let written = self.plan.slot_of(index);
        let len = self.model.program().operations()[index].spec.elements();
        let mut out = std::mem::replace(&mut arena.slots[written], Tensor::I8(Vec::new()));
        let values = self.values(inputs, &arena.slots, Some(written));
        step.run(&self.context(), &values, Target::first(&mut out, len), &mut arena.scratch);
        arena.slots[written] = out;
    }

    fn context(&self) -> Context<'_> {
        Context { path: self.path, team: &self.team }
    }

    fn value(&self, operation: usize) -> ValueId {
        self.model.program().value_of(operation)
    }

    fn output<'a>(
        &'a self,
        operation: usize,
        inputs: &'a [Tensor],
        slots: &'a [Tensor],
    ) -> Elements<'a> {
        self.values(inputs, slots, None).get(self.value(operation))
    }

    fn values<'a>(
        &'a self,
        inputs: &'a [Tensor],
        slots: &'a [Tensor],
        written: Option<usize>,
    ) -> Values<'a> {
        let written = written.unwrap_or(usize::MAX);
        Values { model: &self.model, inputs, plan: &self.plan, slots, written }
    }

    /// Memory for a run: what an earlier one left, or new.
    fn arena(&self) -> Arena {
        let kept = self.arenas.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| Arena {
            slots: self.plan.slots().iter().map(memory).collect(),
            scratch: (0..self.team.members()).map(|_| Scratch::new()).collect(),
        })
    }

    fn put_back(&self, arena: Arena) {
        let mut arenas = self.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        if arenas.len() < ARENAS_MAX {
            arenas.push(arena);
        }
    }
}

fn memory(slot: &Slot) -> Tensor {
    match slot.width {
        Width::I8 => Tensor::I8(vec![0; slot.len]),
        Width::I16 => Tensor::I16(vec![0; slot.len]),
        Width::I32 => Tensor::I32(vec![0; slot.len]),
    }
}

fn check_inputs(program: &Program, inputs: &[Tensor]) -> Result<(), RunError> {
    let expected = program.inputs().len();
    if inputs.len() != expected {
        return Err(RunError::Inputs { found: inputs.len(), expected });
    }
    for (index, (stated, given)) in program.inputs().iter().zip(inputs).enumerate() {
        check_tensor(index, stated.label.as_str(), given, &stated.spec)?;
    }
    Ok(())
}

fn check_tensor(index: usize, label: &str, given: &Tensor, spec: &Spec) -> Result<(), RunError> {
    let label = || label.to_owned();
    let (found, expected) = (given.width().bytes(), spec.width().bytes());
    if found != expected {
        return Err(RunError::Width { index, label: label(), found, expected });
    }
    if given.len() == spec.elements() && Elements::from(given).is_within(spec) {
        return Ok(());
    }
    given.check(spec).map_err(|source| RunError::Input { index, label: label(), source })
}
