//! Operations that choose one of several numbers: maxima, the place of the largest, choices by a
//! condition, rows by number.
//!
//! # Why the chosen number is right
//! A maximum y of numbers x satisfies the product of all (y - x) = 0, so it is one of them and lies
//! in their range lo..hi; then y - x, an integer within ±(hi - lo), stands in the table of 0..hi -
//! lo modulo p only if it is not negative, as 2 * (hi - lo) < p. More than four numbers are taken
//! in steps of four, whose results are committed.
//!
//! An arg-max is the maximum K of the candidates x * n + (n - 1 - k), which all differ, so the
//! place of the largest is k = n - 1 - K mod n. It is looked up in 0..n - 1, and (K - (n - 1 - k))
//! / n - lo in the range of x: the two say K = x' * n + (n - 1 - k') modulo p for some x' and k' in
//! their ranges, whose right side is within the range of candidates; that is below p wide, so both
//! are those of K.
//!
//! A choice has a flag, looked up with its condition in a table of 0 and 1, and y - otherwise is
//! the flag times (then - otherwise). A row by number looks up (index times row + place, element)
//! in the table's elements. The verifier has these, or what is known of them where look-ups end is
//! a claim about the value that they are; then each inference has keys of its own. An index lies in
//! its range, so no key is that of another inference or of padding.

use super::build::Builder;
use super::limits::{PlanError, STEP_TAPS_MAX, TABLE_MAX, TAPS_MAX};
use super::rescale::Axis;
use super::{
    Check, ColumnId, Form, Holder, Lookup, MatMulShape, MaxShape, Placed, Product, ProductKind,
    Source, Spread, Table, Values,
};
use crate::field::{F, PRIME, bits_of, int};
use p3_field::{Field, PrimeCharacteristicRing};
use tg_tensor::program::{Primitive, ValueId};

impl Builder {
    /// A maximum of `taps` numbers whose differences are below `size`, and columns for `more`
    /// numbers. The last of these, or the operation's value if there are none, is the maximum.
    pub(super) fn maximum(
        &mut self,
        operation: usize,
        taps: u64,
        size: i64,
        more: usize,
    ) -> Result<(), PlanError> {
        if size > TABLE_MAX {
            return Err(PlanError::Wide { operation, numbers: size, most: TABLE_MAX });
        }
        if taps > TAPS_MAX {
            return Err(PlanError::Taps { operation, taps, most: TAPS_MAX });
        }
        let mut level: Vec<Source> =
            (0..taps as usize).map(|tap| Source::Tap(operation, tap)).collect();
        let columns = self.columns_of(operation, steps(level.len()) + more);
        let value = Source::Value(self.program.value_of(operation));
        let last =
            if more > 0 { columns.last().map_or(value, |c| Source::Column(*c)) } else { value };
        let mut free = columns.into_iter();
        while level.len() > STEP_TAPS_MAX {
            let mut next = Vec::new();
            for taps in level.chunks(STEP_TAPS_MAX) {
                let [tap] = taps else {
                    let made = free.next().map_or(last, Source::Column);
                    self.step(operation, made, taps.to_vec(), size);
                    next.push(made);
                    continue;
                };
                next.push(*tap);
            }
            level = next;
        }
        self.step(operation, last, level, size);
        Ok(())
    }

    fn step(&mut self, operation: usize, made: Source, taps: Vec<Source>, size: i64) {
        let table = self.table(Table::Range { size });
        let product = self.products.len();
        for (place, tap) in taps.iter().enumerate() {
            let mut key = Form::of(made);
            key.add(*tap, int(-1));
            self.look_up(operation, table, Lookup::Excess(product, place), key);
        }
        let bits = self.layout_of(operation).bits();
        self.checks.push(Check::Max(product));
        let kind = ProductKind::Max(MaxShape { made, taps });
        self.products.push(Product { operation, bits, kind });
    }

    pub(super) fn arg_max(&mut self, operation: usize) -> Result<(), PlanError> {
        let program = self.program.clone();
        let Primitive::ArgMax { x, len, .. } = program.operations()[operation].primitive else {
            return Ok(());
        };
        let read = self.program.specs()[x.index()];
        let (lo, numbers) = (i64::from(read.lo), i64::from(read.hi) - i64::from(read.lo) + 1);
        let len = i64::from(len);
        let size = numbers.saturating_mul(len);
        if read.magnitude().saturating_mul(len) + len > PRIME / 2 {
            return Err(PlanError::Wide { operation, numbers: size, most: TABLE_MAX });
        }
        self.maximum(operation, len as u64, size, 1)?;
        let Some(largest) = self.last_extra(operation) else { return Ok(()) };
        let value = Source::Value(program.value_of(operation));
        let places = self.table(Table::Range { size: len });
        self.look_up(operation, places, Lookup::Place(operation), Form::of(value));
        let each = int(len).inverse();
        let mut key = Form::default();
        key.add(Source::Column(largest), each);
        key.add(value, each);
        key.plus(int(1 - len) * each - int(lo));
        let candidates = self.table(Table::Range { size: numbers });
        self.look_up(operation, candidates, Lookup::Largest(operation), key);
        Ok(())
    }

    pub(super) fn select(&mut self, operation: usize, read: ValueId) -> Result<(), PlanError> {
        let spec = self.program.specs()[read.index()];
        let numbers = i64::from(spec.hi) - i64::from(spec.lo) + 1;
        if numbers > TABLE_MAX {
            return Err(PlanError::Wide { operation, numbers, most: TABLE_MAX });
        }
        let Some(flag) = self.columns_of(operation, 1).first().copied() else { return Ok(()) };
        let values = Values::NotZero { lo: spec.lo, hi: spec.hi };
        let table = self.table(Table::Entries { from: spec.lo.into(), values });
        let key = Form::of(Source::Condition(operation));
        let values = [Form::of(Source::Column(flag)), Form::default()];
        self.group(operation, table, Lookup::Formed(operation), key, values);
        let taken = |number: i32| Source::Placed(Placed { operation, place: 1, number });
        let mut between = Form::of(taken(1));
        between.add(taken(0), int(-1));
        let mut rest = Form::of(taken(0));
        rest.add(Source::Value(self.program.value_of(operation)), int(-1));
        let factors = [Form::of(Source::Column(flag)), between];
        self.equation(operation, self.layout_of(operation), vec![(F::ONE, factors)], rest);
        Ok(())
    }

    pub(super) fn rows(
        &mut self,
        operation: usize,
        table: ValueId,
        row: u32,
    ) -> Result<(), PlanError> {
        let numbers = self.program.specs()[table.index()].elements() as i64;
        if numbers > TABLE_MAX {
            return Err(PlanError::Wide { operation, numbers, most: TABLE_MAX });
        }
        let table = match self.holders[table.index()] {
            Holder::Constant(constant) => {
                let values = crate::witness::numbers(&self.constants[constant]).collect();
                Table::Entries { from: 0, values }
            }
            Holder::Column(_)
            | Holder::Input(_)
            | Holder::Output(_)
            | Holder::Moved(_)
            | Holder::Dead => {
                Table::Held { value: table, layout: self.layouts[table.index()].clone() }
            }
        };
        self.columns_of(operation, 0);
        let mut key = Form::default();
        if table.keys_of_inference() > 0 {
            key.constant.push((int(table.keys_of_inference() as i64), Spread::Inferences));
        }
        let table = self.table(table);
        key.add(Source::Index(operation), int(row.into()));
        let places = (0..row).map(|place| int(place.into())).collect();
        key.constant.push((F::ONE, Spread::Columns(places)));
        self.look_up(operation, table, Lookup::Row(operation), key);
        Ok(())
    }

    pub(super) fn mat_mul(&mut self, operation: usize) -> Result<(), PlanError> {
        let program = self.program.clone();
        let Primitive::MatMul { a, b, batch, rows, columns, inner, offset_a, offset_b, rescale } =
            &program.operations()[operation].primitive
        else {
            return Ok(());
        };
        let offsets = [i64::from(*offset_a), i64::from(*offset_b)];
        let reach = self.reach(*a, offsets[0]).product(self.reach(*b, offsets[1]));
        self.rescale(operation, reach.times((*inner).into()), rescale, Axis::Columns)?;
        let shape = MatMulShape {
            values: [*a, *b],
            offsets,
            batch: *batch as usize,
            inner: *inner as usize,
            rows: [*rows as usize, *columns as usize],
            batch_bits: bits_of(*batch as usize),
            inner_bits: bits_of(*inner as usize),
        };
        let bits = bits_of(self.batch) + shape.batch_bits + shape.inner_bits;
        self.products.push(Product { operation, bits, kind: ProductKind::MatMul(shape) });
        Ok(())
    }

    /// The last column of an operation beside its value.
    fn last_extra(&self, operation: usize) -> Option<ColumnId> {
        let ProductKind::Max(shape) = &self.products.last()?.kind else { return None };
        match shape.made {
            Source::Column(column) if self.products.last()?.operation == operation => Some(column),
            Source::Column(_)
            | Source::Value(_)
            | Source::Accumulator(_)
            | Source::Tap(..)
            | Source::Condition(_)
            | Source::Index(_)
            | Source::Placed(_)
            | Source::Beside(..) => None,
        }
    }
}

/// Columns of the steps before the last.
fn steps(taps: usize) -> usize {
    let mut left = taps;
    let mut columns = 0;
    while left > STEP_TAPS_MAX {
        let (full, rest) = (left / STEP_TAPS_MAX, left % STEP_TAPS_MAX);
        columns += full + usize::from(rest > 1);
        left = full + usize::from(rest > 0);
    }
    columns
}
