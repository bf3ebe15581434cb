//! Which memory holds which value.
//!
//! A value is needed from the operation that makes it to the last one that reads it, and the
//! program's outputs to the end. Slots are shared by values whose times do not overlap; a pointwise
//! operation writes over an operand that nobody reads after it. There are slots for each width,
//! because memory of one type stays of that type in safe code.

use super::view::View;
use crate::program::{Operand, Place, Primitive, Program, ValueId, Width};
use std::collections::BTreeSet;

/// One piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// The width of its elements.
    pub(super) width: Width,
    /// How many elements its largest value has.
    pub(super) len: usize,
}

/// The memory of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// All slots.
    slots: Vec<Slot>,
    /// The slot of each operation's output.
    of: Vec<usize>,
}

/// Slots that hold nothing at the moment, by their size and number.
#[derive(Default)]
struct Free {
    i8: BTreeSet<(usize, usize)>,
    i16: BTreeSet<(usize, usize)>,
    i32: BTreeSet<(usize, usize)>,
}

impl Free {
    fn of(&mut self, width: Width) -> &mut BTreeSet<(usize, usize)> {
        match width {
            Width::I8 => &mut self.i8,
            Width::I16 => &mut self.i16,
            Width::I32 => &mut self.i32,
        }
    }
}

impl Plan {
    /// Makes the plan of a program.
    pub(super) fn new(program: &Program) -> Self {
        let last_reads = last_reads(program);
        let mut plan = Self::default();
        let mut free = Free::default();
        for (index, operation) in program.operations().iter().enumerate() {
            let dying = dying(program, &last_reads, index);
            let slot = match plan.overwritten(program, &dying, index) {
                Some(slot) => slot,
                None => plan.take(&mut free, operation.spec.width(), operation.spec.elements()),
            };
            plan.of.push(slot);
            let unread = last_reads[index].is_none().then_some(index);
            let held = |dead: &usize| plan.of[*dead] != slot || unread.is_some();
            for dead in dying.into_iter().filter(held).chain(unread) {
                let (number, slot) = (plan.of[dead], plan.slots[plan.of[dead]]);
                free.of(slot.width).insert((slot.len, number));
            }
        }
        plan
    }

    /// All slots.
    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The slot of an operation's output.
    pub(super) fn slot_of(&self, operation: usize) -> usize {
        self.of[operation]
    }

    /// Bytes of all slots.
    pub(super) fn bytes(&self) -> u64 {
        self.slots.iter().map(|slot| slot.len as u64 * slot.width.bytes() as u64).sum()
    }

    /// The slot of an operand that the operation may write over.
    fn overwritten(&self, program: &Program, dying: &[usize], index: usize) -> Option<usize> {
        let operation = program.operations().get(index)?;
        let fits = |dead: &&usize| {
            let spec = program.operations()[**dead].spec;
            let same = (spec.width(), spec.len) == (operation.spec.width(), operation.spec.len);
            same && reads_in_step(&operation.primitive, program.value_of(**dead))
        };
        dying.iter().find(fits).map(|dead| self.of[*dead])
    }

    /// The smallest free slot that is large enough, or else the largest, enlarged, or a new one.
    fn take(&mut self, free: &mut Free, width: Width, len: usize) -> usize {
        let free = free.of(width);
        let found = free.range((len, 0)..).next().or_else(|| free.last()).copied();
        let Some((size, number)) = found else {
            self.slots.push(Slot { width, len });
            return self.slots.len() - 1;
        };
        free.remove(&(size, number));
        self.slots[number].len = size.max(len);
        number
    }
}

/// For each operation, the last operation that reads its output: `None` if nobody does, the number
/// of operations if it is an output of the program.
fn last_reads(program: &Program) -> Vec<Option<usize>> {
    let count = program.operations().len();
    let mut last = vec![None; count];
    for (index, operation) in program.operations().iter().enumerate() {
        for made in reads(&operation.primitive).filter_map(|value| maker(program, value)) {
            last[made] = Some(index);
        }
    }
    for made in program.outputs().iter().filter_map(|output| maker(program, output.value)) {
        last[made] = Some(count);
    }
    last
}

/// The operations whose outputs nobody reads after this operation has.
fn dying(program: &Program, last_reads: &[Option<usize>], index: usize) -> Vec<usize> {
    let read = reads(&program.operations()[index].primitive);
    let mut dying: Vec<usize> = read
        .filter_map(|value| maker(program, value))
        .filter(|made| last_reads[*made] == Some(index))
        .collect();
    dying.sort_unstable();
    dying.dedup();
    dying
}

/// The operation that makes a value.
fn maker(program: &Program, value: ValueId) -> Option<usize> {
    match program.place(value)? {
        Place::Operation(index) => Some(index),
        Place::Input(_) | Place::Constant(_) => None,
    }
}

/// The values that a primitive reads; one that is read in several ways occurs several times.
fn reads(primitive: &Primitive) -> impl Iterator<Item = ValueId> {
    let values: Vec<ValueId> = match primitive {
        Primitive::Linear { x, weights, bias, .. } => {
            [*x, *weights].into_iter().chain(*bias).collect()
        }
        Primitive::MatMul { a, b, .. } => vec![*a, *b],
        Primitive::Table { x, .. }
        | Primitive::Sum { x, .. }
        | Primitive::Max { x, .. }
        | Primitive::ArgMax { x, .. } => vec![*x],
        Primitive::Join { .. }
        | Primitive::Product { .. }
        | Primitive::Normalise { .. }
        | Primitive::Select { .. } => {
            seen(primitive).1.iter().map(|operand| operand.value).collect()
        }
        Primitive::Move { parts, .. } => parts.as_slice().iter().map(|part| part.value).collect(),
        Primitive::Lookup { table, indices, .. } => vec![*table, *indices],
    };
    values.into_iter()
}

/// The grid of a pointwise primitive and the operands that it sees through it.
fn seen(primitive: &Primitive) -> (&[u32], Vec<&Operand>) {
    match primitive {
        Primitive::Join { sides, terms, .. } => {
            (sides.as_slice(), terms.as_slice().iter().map(|term| &term.operand).collect())
        }
        Primitive::Product { sides, a, b, .. } => (sides.as_slice(), vec![a, b]),
        Primitive::Normalise { sides, a, x, .. } => (sides.as_slice(), vec![a, x]),
        Primitive::Select { sides, condition, then, otherwise } => {
            (sides.as_slice(), vec![condition, then, otherwise])
        }
        Primitive::Linear { .. }
        | Primitive::MatMul { .. }
        | Primitive::Table { .. }
        | Primitive::Sum { .. }
        | Primitive::Max { .. }
        | Primitive::Move { .. }
        | Primitive::Lookup { .. }
        | Primitive::ArgMax { .. } => (&[], Vec::new()),
    }
}

/// Whether each element of the output depends on no element of the value but that in its place.
fn reads_in_step(primitive: &Primitive, value: ValueId) -> bool {
    if let Primitive::Table { x, .. } = primitive {
        return *x == value;
    }
    let (sides, operands) = seen(primitive);
    let mut views = operands.iter().filter(|operand| operand.value == value).peekable();
    let in_step = |operand: &&Operand| View::new(sides, operand.strides.as_slice()).is_identity();
    views.peek().is_some() && views.all(in_step)
}
