//! What planning a program takes, known before it is planned.
//!
//! Validators plan programs of strangers while they execute a block. A plan lists columns,
//! look-ups, products, factors and entries; how many of them there can be follows from the sizes
//! that the program states, and planning takes time and memory in proportion.

use tg_tensor::program::{Multipliers, Operation, Primitive, Program};

/// What a plan lists for an operation at most, besides what is counted by its sizes: a division has
/// the most, about 30 columns and as many look-ups, with tables of some hundred entries.
const STEPS_OF_OPERATION: u64 = 1_024;

/// What a plan lists for each number that a maximum is taken of: a look-up of the difference, a
/// factor, and a third of a column.
const STEPS_OF_CANDIDATE: u64 = 16;

/// What a plan lists for an input, a constant or an output.
const STEPS_OF_VALUE: u64 = 16;

/// Entries that a plan writes down for each one that a division states.
const ENTRIES_OF_DIVISION: u64 = 8;

/// Steps of planning a program: it lists no more than this.
pub(crate) fn steps(program: &Program) -> u64 {
    let values = [program.inputs().len(), program.constants().len(), program.outputs().len()];
    let values = values.iter().map(|count| *count as u64 * STEPS_OF_VALUE);
    values.chain(program.operations().iter().map(of_operation)).fold(0, u64::saturating_add)
}

fn of_operation(operation: &Operation) -> u64 {
    let factors = |multipliers: &Multipliers| multipliers.as_slice().len() as u64;
    let sized = match &operation.primitive {
        Primitive::Linear { rescale, .. }
        | Primitive::MatMul { rescale, .. }
        | Primitive::Product { rescale, .. }
        | Primitive::Sum { rescale, .. } => factors(&rescale.multipliers),
        Primitive::Join { terms, constant, .. } => {
            let all = terms.as_slice().iter().map(|term| factors(&term.multipliers));
            all.fold(factors(constant), u64::saturating_add)
        }
        Primitive::Table { entries, .. } => entries.as_slice().len() as u64,
        Primitive::Normalise { entries, .. } => {
            entries.as_slice().len() as u64 * ENTRIES_OF_DIVISION
        }
        primitive @ (Primitive::Max { .. } | Primitive::ArgMax { .. }) => {
            primitive.terms().saturating_mul(STEPS_OF_CANDIDATE)
        }
        Primitive::Move { parts, .. } => parts.as_slice().len() as u64,
        Primitive::Lookup { row, .. } => u64::from(*row),
        Primitive::Select { .. } => 0,
    };
    sized.saturating_add(STEPS_OF_OPERATION)
}
