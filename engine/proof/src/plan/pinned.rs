//! Columns that somebody else made: hidden inputs, and constants whose ranges are proven.
//!
//! Whoever registers weights behind a root shows once that they are what proofs of inferences take
//! for granted: numbers of their ranges, and 0 in cells that stand for nothing. The plan of a
//! registration is that of another program with the same constants, so it is told how these lie in
//! the commitment.
//!
//! # Why a number is in its range
//! One of few numbers is looked up among them. For one of N up to 2^30 numbers, its distances from
//! the smallest and from the largest are looked up in limbs of k bits together, 2^k < 2N. The two
//! add up to N - 1 modulo p; as integers their sum is below 2^(k + 1) <= p + N - 1, so it is N - 1
//! itself, and both are at most that.

use super::build::Builder;
use super::layout::layouts;
use super::limits::{LIMB_BITS_MAX, PlanError, TABLE_MAX};
use super::rescale::limbs;
use super::{Check, ColumnId, Form, Group, Layout, Lookup, Role, Source, Table, Tree};
use crate::field::{bits_of, int};
use tg_tensor::program::{Place, Primitive, Program, Spec, ValueId};

/// The most numbers of a constant's range, unless it is all that there are.
const NUMBERS_MAX: i64 = 1 << 30;

/// How the constants of a program lie in a commitment, and which ranges are to be proven.
#[derive(Clone, Debug)]
pub(crate) struct Pins {
    /// The layout of each constant.
    pub(super) layouts: Vec<Layout>,
    /// Whether an output depends on it, so that it is committed.
    pub(crate) needed: Vec<bool>,
    /// Whether its range is to be proven by look-ups of its own.
    pub(crate) ranged: Vec<bool>,
}

impl Pins {
    /// Those of a program.
    pub(crate) fn new(program: &Program) -> Self {
        let (layouts, needed) = (layouts(program, 1), needed(program));
        let values = (0..program.constants().len()).map(|index| program.value_of_constant(index));
        let values: Vec<usize> = values.map(ValueId::index).collect();
        Self {
            layouts: values.iter().map(|value| layouts[*value].clone()).collect(),
            needed: values.iter().map(|value| needed[*value]).collect(),
            ranged: values.iter().map(|value| needed[*value]).collect(),
        }
    }
}

/// A constant that can be too many numbers for a table.
#[derive(Clone, Debug)]
pub(crate) struct Wide {
    lo: i32,
    hi: i32,
    widths: Vec<u8>,
}

impl Wide {
    /// The limbs of its numbers: of how far they are above the smallest, then below the largest.
    pub(crate) fn limbs(&self, numbers: &[i32]) -> Vec<Vec<i32>> {
        let mut found = Vec::new();
        let above = |number: i32| i64::from(number) - i64::from(self.lo);
        let below = |number: i32| i64::from(self.hi) - i64::from(number);
        let distances: [&dyn Fn(i32) -> i64; 2] = [&above, &below];
        for distance in distances {
            let mut shift = 0;
            for width in &self.widths {
                let limb = |number: &i32| (distance(*number) >> shift & ((1 << width) - 1)) as i32;
                found.push(numbers.iter().map(limb).collect());
                shift += width;
            }
        }
        found
    }
}

impl Builder {
    /// Refuses outputs that the proof would have to show, or cannot commit to.
    pub(super) fn check_outputs(&self) -> Result<(), PlanError> {
        for (index, output) in self.program.outputs().iter().enumerate() {
            match self.program.place(output.value) {
                Some(Place::Constant(_)) if self.secret => {
                    return Err(PlanError::SecretOutput(index));
                }
                Some(Place::Input(_)) if self.hidden.inputs => {
                    return Err(PlanError::HiddenOutput(index));
                }
                Some(Place::Constant(_) | Place::Input(_)) if self.hidden.outputs => {
                    return Err(PlanError::CommittedOutput(index));
                }
                Some(Place::Operation(operation)) if self.hidden.outputs => {
                    let made = &self.program.operations()[operation].primitive;
                    if matches!(made, Primitive::Move { .. }) {
                        return Err(PlanError::CommittedOutput(index));
                    }
                }
                Some(Place::Constant(_) | Place::Input(_) | Place::Operation(_)) | None => {}
            }
        }
        Ok(())
    }

    /// The column of a hidden input, and that its numbers are of its range.
    pub(super) fn hidden_input(
        &mut self,
        value: ValueId,
        input: usize,
    ) -> Result<ColumnId, PlanError> {
        let layout = self.layouts[value.index()].clone();
        let spec = self.program.specs()[value.index()];
        let numbers = i64::from(spec.hi) - i64::from(spec.lo) + 1;
        if numbers > TABLE_MAX {
            return Err(PlanError::WideInput { input, numbers, most: TABLE_MAX });
        }
        let bundle = self.bundle(Tree::Inputs);
        let column = self.column(Tree::Inputs, bundle, 0, layout, Role::Input(input));
        self.look_up_range(value, column, &spec);
        Ok(column)
    }

    /// That the numbers of a column are those of a range which fits a table.
    fn look_up_range(&mut self, value: ValueId, column: ColumnId, spec: &Spec) {
        let size = i64::from(spec.hi) - i64::from(spec.lo) + 1;
        let table = self.table(Table::Range { size });
        let mut key = Form::of(Source::Column(column));
        key.plus(int(-i64::from(spec.lo)));
        self.look_up_column(column, table, Lookup::Input(value.index()), key);
    }

    fn look_up_column(&mut self, column: ColumnId, table: usize, what: Lookup, key: Form) {
        let layout = self.columns[column.0].layout.clone();
        let values = [Form::default(), Form::default()];
        self.groups.push(Group { layout, table, key, values, what, leaf: 0 });
    }

    /// That a constant's numbers are of their range if that is asked for, and its padding is 0.
    pub(super) fn pin(&mut self, constant: usize, column: ColumnId) -> Result<(), PlanError> {
        let Some(pins) = &self.pins else { return Ok(()) };
        let layout = &self.columns[column.0].layout;
        if layout.len() < 1 << layout.bits() {
            self.checks.push(Check::Padding(column));
        }
        if !pins.ranged[constant] {
            return Ok(());
        }
        let value = self.program.value_of_constant(constant);
        let spec = self.program.specs()[value.index()];
        let numbers = i64::from(spec.hi) - i64::from(spec.lo) + 1;
        let few = (1_i64 << LIMB_BITS_MAX).max(2 * i64::from(spec.len));
        if numbers <= few.min(TABLE_MAX) {
            self.look_up_range(value, column, &spec);
            return Ok(());
        }
        if numbers > NUMBERS_MAX {
            return Err(PlanError::WideConstant { constant, numbers, most: NUMBERS_MAX });
        }
        self.wide_range(constant, column, &spec);
        Ok(())
    }

    fn wide_range(&mut self, constant: usize, column: ColumnId, spec: &Spec) {
        let (lo, hi) = (i64::from(spec.lo), i64::from(spec.hi));
        let widths = limbs(bits_of((hi - lo + 1) as usize) as u8, self.widest);
        let layout = self.columns[column.0].layout.clone();
        let bundle = self.bundle(Tree::Run);
        let zero = self.table(Table::Range { size: 1 });
        let mut above = Form::of(Source::Column(column));
        above.plus(int(-lo));
        let mut below = Form::default();
        below.add(Source::Column(column), int(-1));
        below.plus(int(hi));
        for (side, mut distance) in [above, below].into_iter().enumerate() {
            let mut shift = 0;
            for (index, width) in widths.iter().enumerate() {
                let place = side * widths.len() + index;
                let role = Role::Range(constant, place);
                let limb = self.column(Tree::Run, bundle, place, layout.clone(), role);
                let table = self.table(Table::Range { size: 1 << width });
                let what = Lookup::Range(constant, place);
                self.look_up_column(limb, table, what, Form::of(Source::Column(limb)));
                distance.add(Source::Column(limb), int(-(1 << shift)));
                shift += width;
            }
            self.look_up_column(column, zero, Lookup::Zero(0), distance);
        }
        self.wides.insert(constant, Wide { lo: spec.lo, hi: spec.hi, widths });
    }
}

/// Whether outputs depend on each value.
pub(super) fn needed(program: &Program) -> Vec<bool> {
    let mut needed = vec![false; program.specs().len()];
    for output in program.outputs() {
        needed[output.value.index()] = true;
    }
    for operation in (0..program.operations().len()).rev() {
        if needed[program.value_of(operation).index()] {
            for read in program.operations()[operation].primitive.reads() {
                needed[read.index()] = true;
            }
        }
    }
    needed
}
