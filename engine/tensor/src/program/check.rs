//! The checks that every program passes before it exists. They need no weights; what depends on the
//! weights is a stated bound, checked by [`crate::Model`].
//!
//! Everything here is bounded by the bytes of the program, not by the sizes it states.

use super::primitive::Runs;
use super::rescale::SHIFT_MAX;
use super::{
    ELEMENTS_MAX, ITEMS_MAX, Inverse, JoinTerm, MAGNITUDE_MAX, MovePart, Multipliers, Operand,
    Operation, Parts, Primitive, Rescale, Run, Scaling, Shape, Sides, Spec, TERMS_MAX, TOTAL_MAX,
    ValueId, Window,
};
use crate::element::{MANTISSA_BITS, power_of};
use tg_types::codec::DecodeError;

/// Why something is no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The bytes are not of the canonical form.
    #[error("program cannot be read")]
    Decode(#[from] DecodeError),
    /// Too many inputs, constants, operations or outputs.
    #[error("{found} {what}, at most {} are allowed", ITEMS_MAX)]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        found: usize,
    },
    /// All values together have too many elements.
    #[error("values have {found} elements together, at most {} are allowed", TOTAL_MAX)]
    Total {
        /// How many.
        found: u64,
    },
    /// All elements together have too many terms.
    #[error("a run has {found} terms, at most {} are allowed", TERMS_MAX)]
    Work {
        /// How many.
        found: u64,
    },
    /// A part is wrong.
    #[error("{what} {index} ({label})")]
    Part {
        /// Input, constant, operation or output.
        what: &'static str,
        /// Which.
        index: usize,
        /// Its name.
        label: String,
        /// What is wrong with it.
        #[source]
        flaw: Flaw,
    },
}

/// What is wrong with a part of a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// It reads a value that does not come before it.
    #[error("reads value {0}, which does not come before it")]
    Order(u32),
    /// A value that must be a constant is not.
    #[error("value {0} must be a constant")]
    NotConstant(u32),
    /// A number of elements or places differs from what the rest says.
    #[error("{what}: {found} stated, {expected} needed")]
    Count {
        /// Of what.
        what: &'static str,
        /// The number stated.
        found: u64,
        /// The number that fits.
        expected: u64,
    },
    /// A side, stride or count is 0 or too large.
    #[error("{what} is {found}, expected 1 to {}", ELEMENTS_MAX)]
    Side {
        /// Which.
        what: &'static str,
        /// The number stated.
        found: u64,
    },
    /// A range that is empty, too wide, or not wide enough for what is put into it.
    #[error("range {lo}..={hi} does not fit: {why}")]
    Range {
        /// The smallest stated.
        lo: i64,
        /// The largest stated.
        hi: i64,
        /// What it has to fit.
        why: &'static str,
    },
    /// An accumulator may leave 31 bits.
    #[error("accumulators up to {bound} leave 31 bits on their way to an element")]
    Bound {
        /// The largest magnitude.
        bound: i64,
    },
    /// A scale that is no positive normal number.
    #[error("a scale is positive, finite and not subnormal")]
    Scale,
    /// A shift that is too large or too small.
    #[error("shift {0} is not allowed here")]
    Shift(u8),
    /// It reads outside a value.
    #[error("reads element {index} of value {value}, which has {len}")]
    Outside {
        /// Which value.
        value: u32,
        /// Which element.
        index: i64,
        /// How many it has.
        len: u32,
    },
}

/// Checks all parts; returns what is known of every value.
pub(super) fn check(parts: &Parts) -> Result<Vec<Spec>, ProgramError> {
    for (what, found) in [
        ("inputs", parts.inputs.len()),
        ("constants", parts.constants.len()),
        ("operations", parts.operations.len()),
        ("outputs", parts.outputs.len()),
    ] {
        if found > ITEMS_MAX {
            return Err(ProgramError::TooMany { what, found });
        }
    }
    let mut specs = Vec::new();
    for (index, input) in parts.inputs.iter().enumerate() {
        port(&input.spec, &input.shape)
            .and_then(|()| scaling(input.scaling.as_ref()))
            .map_err(part("input", index, input.label.as_str()))?;
        specs.push(input.spec);
    }
    for (index, constant) in parts.constants.iter().enumerate() {
        port(&constant.spec, &constant.shape).map_err(part(
            "constant",
            index,
            constant.label.as_str(),
        ))?;
        specs.push(constant.spec);
    }
    let constants = parts.inputs.len()..specs.len();
    for (index, operation) in parts.operations.iter().enumerate() {
        let values = Values { specs: &specs, constants: constants.clone() };
        spec(&operation.spec).and_then(|()| values.primitive(operation)).map_err(part(
            "operation",
            index,
            operation.label.as_str(),
        ))?;
        specs.push(operation.spec);
    }
    for (index, output) in parts.outputs.iter().enumerate() {
        let values = Values { specs: &specs, constants: constants.clone() };
        values
            .get(output.value)
            .and_then(|spec| count("elements", product(output.shape.as_slice())?, spec.len))
            .and_then(|()| scaling(output.scaling.as_ref()))
            .map_err(part("output", index, output.label.as_str()))?;
    }
    let found = specs.iter().map(|spec| u64::from(spec.len)).sum();
    if found > TOTAL_MAX {
        return Err(ProgramError::Total { found });
    }
    let found = super::terms(&parts.operations);
    if found > TERMS_MAX { Err(ProgramError::Work { found }) } else { Ok(specs) }
}

fn part(what: &'static str, index: usize, label: &str) -> impl FnOnce(Flaw) -> ProgramError {
    move |flaw| ProgramError::Part { what, index, label: label.to_owned(), flaw }
}

fn port(stated: &Spec, shape: &Shape) -> Result<(), Flaw> {
    spec(stated)?;
    count("elements", product(shape.as_slice())?, stated.len)
}

fn scaling(scaling: Option<&Scaling>) -> Result<(), Flaw> {
    let is_scale = |scaling: &Scaling| scaling.scale.is_normal() && scaling.scale > 0.0;
    if scaling.is_none_or(is_scale) { Ok(()) } else { Err(Flaw::Scale) }
}

fn spec(stated: &Spec) -> Result<(), Flaw> {
    side("number of elements", stated.len.into())?;
    let (lo, hi) = (i64::from(stated.lo), i64::from(stated.hi));
    if lo > hi || stated.magnitude() > MAGNITUDE_MAX {
        return Err(Flaw::Range { lo, hi, why: "a range lies within 31 bits and is not empty" });
    }
    Ok(())
}

fn side(what: &'static str, found: u64) -> Result<(), Flaw> {
    if (1..=u64::from(ELEMENTS_MAX)).contains(&found) {
        return Ok(());
    }
    Err(Flaw::Side { what, found })
}

fn product(sides: &[u32]) -> Result<u64, Flaw> {
    let mut product = 1_u64;
    for found in sides {
        side("side", (*found).into())?;
        product = product.saturating_mul((*found).into());
    }
    side("product of the sides", product)?;
    Ok(product)
}

fn count(what: &'static str, found: u64, expected: impl Into<u64>) -> Result<(), Flaw> {
    let expected = expected.into();
    if found == expected { Ok(()) } else { Err(Flaw::Count { what, found, expected }) }
}

fn within(inner: (i64, i64), outer: &Spec, why: &'static str) -> Result<(), Flaw> {
    if outer.admits(inner.0) && outer.admits(inner.1) {
        return Ok(());
    }
    Err(Flaw::Range { lo: outer.lo.into(), hi: outer.hi.into(), why })
}

fn range(spec: &Spec) -> (i64, i64) {
    (spec.lo.into(), spec.hi.into())
}

/// The range of a value with an offset, which must be that of a 16-bit factor.
fn factor(spec: &Spec, offset: i32) -> Result<i64, Flaw> {
    let lo = i64::from(spec.lo) + i64::from(offset);
    let hi = i64::from(spec.hi) + i64::from(offset);
    if lo < i16::MIN.into() || hi > i16::MAX.into() {
        return Err(Flaw::Range { lo, hi, why: "a factor with its offset has 16 bits" });
    }
    Ok(lo.abs().max(hi.abs()))
}

fn rescale(rescale: &Rescale, bound: i64) -> Result<(), Flaw> {
    if rescale.admits(bound) { Ok(()) } else { Err(Flaw::Bound { bound }) }
}

/// One number, or one for each of `places`.
fn one_or_each(numbers: &Multipliers, places: u64) -> Result<(), Flaw> {
    match numbers.as_slice().len() as u64 {
        1 => Ok(()),
        found => count("factors", found, places),
    }
}

/// Elements of the input and of the output that a window speaks of, besides output channels.
fn window(window: &Window) -> Result<(u64, u64), Flaw> {
    for (what, found) in [
        ("kernel height", window.kernel_height),
        ("kernel width", window.kernel_width),
        ("stride", window.stride_height),
        ("stride", window.stride_width),
        ("dilation", window.dilation_height),
        ("dilation", window.dilation_width),
        ("spread", window.spread_height),
        ("spread", window.spread_width),
        ("padding", window.pad_top.unsigned_abs().max(1)),
        ("padding", window.pad_left.unsigned_abs().max(1)),
    ] {
        side(what, found.into())?;
    }
    product(&[window.kernel_height, window.kernel_width, window.channels])?;
    let input = product(&[window.batch, window.height, window.width, window.channels])?;
    let output = product(&[window.batch, window.out_height, window.out_width])?;
    Ok((input, output))
}

/// The values that an operation may read.
struct Values<'a> {
    specs: &'a [Spec],
    constants: std::ops::Range<usize>,
}

impl Values<'_> {
    fn get(&self, value: ValueId) -> Result<Spec, Flaw> {
        self.specs.get(value.index()).copied().ok_or(Flaw::Order(value.number))
    }

    fn constant(&self, value: ValueId) -> Result<Spec, Flaw> {
        let spec = self.get(value)?;
        if self.constants.contains(&value.index()) {
            Ok(spec)
        } else {
            Err(Flaw::NotConstant(value.number))
        }
    }

    fn operand(&self, operand: &Operand, sides: &Sides) -> Result<Spec, Flaw> {
        let spec = self.get(operand.value)?;
        let (sides, strides) = (sides.as_slice(), operand.strides.as_slice());
        count("strides", strides.len() as u64, sides.len() as u64)?;
        let last = sides.iter().zip(strides).fold(0_u64, |last, (side, stride)| {
            last.saturating_add(u64::from(*side - 1) * u64::from(*stride))
        });
        if last >= u64::from(spec.len) {
            let index = i64::try_from(last).unwrap_or(i64::MAX);
            return Err(Flaw::Outside { value: operand.value.number, index, len: spec.len });
        }
        Ok(spec)
    }

    fn primitive(&self, operation: &Operation) -> Result<(), Flaw> {
        let out = &operation.spec;
        match &operation.primitive {
            Primitive::Linear { .. } => self.linear(operation),
            Primitive::MatMul { .. } => self.mat_mul(operation),
            Primitive::Join { sides, terms, constant, shift } => {
                count("elements", product(sides.as_slice())?, out.len)?;
                self.join(sides, terms.as_slice(), constant, *shift)
            }
            Primitive::Product { sides, a, b, offset_a, offset_b, rescale: by } => {
                count("elements", product(sides.as_slice())?, out.len)?;
                let a = factor(&self.operand(a, sides)?, *offset_a)?;
                let b = factor(&self.operand(b, sides)?, *offset_b)?;
                one_or_each(&by.multipliers, 1)?;
                rescale(by, a * b)
            }
            Primitive::Table { x, entries } => {
                let x = self.get(*x)?;
                count("elements", x.len.into(), out.len)?;
                let numbers = u64::try_from(i64::from(x.hi) - i64::from(x.lo) + 1).unwrap_or(0);
                count("entries", entries.as_slice().len() as u64, numbers)?;
                self.entries(entries.as_slice(), out)
            }
            Primitive::Sum { x, window: view, offset, rescale: by } => {
                let x = self.get(*x)?;
                self.reduction(&x, view, out)?;
                one_or_each(&by.multipliers, view.positions())?;
                let largest = (i64::from(x.lo) + i64::from(*offset))
                    .abs()
                    .max((i64::from(x.hi) + i64::from(*offset)).abs());
                let taps = i64::try_from(view.taps()).unwrap_or(i64::MAX);
                rescale(by, largest.saturating_mul(taps))
            }
            Primitive::Max { x, window: view } => {
                let x = self.get(*x)?;
                self.reduction(&x, view, out)?;
                within(range(&x), out, "it holds every element read")
            }
            Primitive::Normalise { .. } => self.normalise(operation),
            Primitive::Move { sides, axis, parts, fill } => {
                count("elements", product(sides.as_slice())?, out.len)?;
                self.moves(sides, *axis, parts.as_slice(), *fill, out)
            }
            Primitive::Select { sides, condition, then, otherwise } => {
                count("elements", product(sides.as_slice())?, out.len)?;
                self.operand(condition, sides)?;
                for operand in [then, otherwise] {
                    let spec = self.operand(operand, sides)?;
                    within(range(&spec), out, "it holds every element read")?;
                }
                Ok(())
            }
            Primitive::Lookup { table, indices, row } => {
                self.lookup(&self.get(*table)?, &self.get(*indices)?, *row, out)
            }
            Primitive::ArgMax { x, outer, len, inner } => {
                let x = self.get(*x)?;
                count("elements", product(&[*outer, *len, *inner])?, x.len)?;
                count("elements", product(&[*outer, *inner])?, out.len)?;
                within((0, i64::from(*len) - 1), out, "it holds every place")
            }
        }
    }

    fn lookup(&self, table: &Spec, indices: &Spec, row: u32, out: &Spec) -> Result<(), Flaw> {
        side("row", row.into())?;
        count("elements", u64::from(indices.len) * u64::from(row), out.len)?;
        let rows = i64::from(table.len / row);
        count("elements of the table", u64::from(table.len % row), 0_u64)?;
        if indices.lo < 0 || i64::from(indices.hi) >= rows {
            let (lo, hi) = range(indices);
            return Err(Flaw::Range { lo, hi, why: "every index names a row" });
        }
        within(range(table), out, "it holds every element read")
    }

    fn entries(&self, entries: &[i16], out: &Spec) -> Result<(), Flaw> {
        for entry in entries {
            let entry = i64::from(*entry);
            within((entry, entry), out, "it holds every entry")?;
        }
        Ok(())
    }

    fn reduction(&self, x: &Spec, view: &Window, out: &Spec) -> Result<(), Flaw> {
        let (input, output) = window(view)?;
        count("elements of the input", x.len.into(), input)?;
        count("elements", out.len.into(), output.saturating_mul(view.channels.into()))
    }

    fn linear(&self, operation: &Operation) -> Result<(), Flaw> {
        let Primitive::Linear {
            x,
            weights,
            bias,
            window: view,
            columns,
            groups,
            pad,
            bound,
            rescale: by,
        } = &operation.primitive
        else {
            return Ok(());
        };
        let (x, weights) = (self.get(*x)?, self.constant(*weights)?);
        let (input, output) = window(view)?;
        side("columns", (*columns).into())?;
        side("groups", (*groups).into())?;
        count("channels left over by groups", u64::from(view.channels % *groups), 0_u64)?;
        count("columns left over by groups", u64::from(columns % *groups), 0_u64)?;
        count("elements of the input", x.len.into(), input)?;
        let terms = view.taps() * u64::from(view.channels / *groups);
        count("weights", weights.len.into(), terms.saturating_mul((*columns).into()))?;
        let elements = output.saturating_mul((*columns).into());
        count("elements", operation.spec.len.into(), elements)?;
        if let Some(bias) = bias {
            count("biases", self.constant(*bias)?.len.into(), *columns)?;
        }
        factor(&x, 0)?;
        let wide = Spec { lo: x.lo.min(*pad), hi: x.hi.max(*pad), ..x };
        if wide.width() != x.width() {
            let (lo, hi) = range(&x);
            return Err(Flaw::Range { lo, hi, why: "padding is as wide as an element" });
        }
        if weights.magnitude() > i8::MAX.into() {
            let (lo, hi) = range(&weights);
            return Err(Flaw::Range { lo, hi, why: "weights lie within -127..=127" });
        }
        one_or_each(&by.multipliers, (*columns).into())?;
        rescale(by, (*bound).into())
    }

    fn mat_mul(&self, operation: &Operation) -> Result<(), Flaw> {
        let Primitive::MatMul {
            a,
            b,
            batch,
            rows,
            columns,
            inner,
            offset_a,
            offset_b,
            rescale: by,
        } = &operation.primitive
        else {
            return Ok(());
        };
        let (a, b) = (self.get(*a)?, self.get(*b)?);
        count("elements of the left factor", product(&[*batch, *rows, *inner])?, a.len)?;
        count("elements of the right factor", product(&[*batch, *columns, *inner])?, b.len)?;
        count("elements", product(&[*batch, *rows, *columns])?, operation.spec.len)?;
        let largest = factor(&a, *offset_a)? * factor(&b, *offset_b)?;
        one_or_each(&by.multipliers, 1)?;
        rescale(by, largest.saturating_mul((*inner).into()))
    }

    fn join(
        &self,
        sides: &Sides,
        terms: &[JoinTerm],
        constant: &Multipliers,
        shift: u8,
    ) -> Result<(), Flaw> {
        if shift > SHIFT_MAX {
            return Err(Flaw::Shift(shift));
        }
        let places = sides.as_slice().last().copied().unwrap_or(0).into();
        let largest = |numbers: &Multipliers| {
            let all = numbers.as_slice().iter();
            all.map(|number| i64::from(*number).abs()).max().unwrap_or(0)
        };
        one_or_each(constant, places)?;
        let rounding = if shift == 0 { 0 } else { 1_i64 << (shift - 1) };
        let mut bound = largest(constant) + rounding;
        for term in terms {
            let spec = self.operand(&term.operand, sides)?;
            one_or_each(&term.multipliers, places)?;
            let term = spec.magnitude().saturating_mul(largest(&term.multipliers));
            bound = bound.saturating_add(term);
        }
        if bound > MAGNITUDE_MAX { Err(Flaw::Bound { bound }) } else { Ok(()) }
    }

    fn normalise(&self, operation: &Operation) -> Result<(), Flaw> {
        let Primitive::Normalise { sides, a, offset, x, inverse, entries, shift, zero } =
            &operation.primitive
        else {
            return Ok(());
        };
        count("elements", product(sides.as_slice())?, operation.spec.len)?;
        let largest = factor(&self.operand(a, sides)?, *offset)?;
        let x = self.operand(x, sides)?;
        let needed = match inverse {
            Inverse::Reciprocal => 1_u64 << MANTISSA_BITS,
            Inverse::Root => 3 << MANTISSA_BITS,
        };
        count("entries", entries.as_slice().len() as u64, needed)?;
        let entry = entries.as_slice().iter().copied().max().unwrap_or(0);
        if entries.as_slice().iter().any(|entry| *entry < 0) {
            return Err(Flaw::Range { lo: 0, hi: entry.into(), why: "inverses are not negative" });
        }
        let total = |x: i64| i64::from(*shift) + power_of(x, *inverse).1;
        let (least, most) = (total(1), total(i64::from(x.hi).max(1)));
        if least < 0 || most > SHIFT_MAX.into() {
            return Err(Flaw::Shift(*shift));
        }
        let rounding = if most == 0 { 0 } else { 1_i64 << (most - 1) };
        let bound = largest * i64::from(entry) + rounding;
        if bound > MAGNITUDE_MAX || i64::from(*zero).abs() > MAGNITUDE_MAX {
            return Err(Flaw::Bound { bound });
        }
        Ok(())
    }

    fn moves(
        &self,
        sides: &Sides,
        axis: u8,
        parts: &[MovePart],
        fill: i32,
        out: &Spec,
    ) -> Result<(), Flaw> {
        let sides = sides.as_slice();
        let axis = usize::from(axis);
        let Some(along) = sides.get(axis) else {
            return Err(Flaw::Side { what: "axis", found: axis as u64 });
        };
        let mut covered = 0_u64;
        let mut fills = false;
        for part in parts {
            let source = self.get(part.value)?;
            within(range(&source), out, "it holds every element read")?;
            let offsets = part.offsets.as_slice();
            count("lists of offsets", offsets.len() as u64, sides.len() as u64)?;
            let (mut least, mut most) = (0_i64, 0_i64);
            for (index, (runs, side)) in offsets.iter().zip(sides).enumerate() {
                let reach = reach(runs)?;
                if index == axis {
                    covered = covered.saturating_add(reach.places);
                } else {
                    count("places of a side", reach.places, *side)?;
                }
                least += reach.least;
                most += reach.most;
                fills |= reach.fills;
            }
            for index in [least, most] {
                if !(0..i64::from(source.len)).contains(&index) {
                    let value = part.value.number;
                    return Err(Flaw::Outside { value, index, len: source.len });
                }
            }
        }
        count("places along the axis", covered, *along)?;
        if fills {
            within((fill.into(), fill.into()), out, "it holds the fill")?;
        }
        Ok(())
    }
}

/// What a list of runs covers and reads.
struct Reach {
    places: u64,
    least: i64,
    most: i64,
    fills: bool,
}

fn reach(runs: &Runs) -> Result<Reach, Flaw> {
    let mut reach = Reach { places: 0, least: i64::MAX, most: 0, fills: false };
    for run in runs.as_slice() {
        let places = match *run {
            Run::Fill { count } => {
                reach.fills = true;
                count
            }
            Run::Read { start, step, count } => {
                let first = i64::from(start);
                let last = first + i64::from(step) * (i64::from(count) - 1);
                reach.least = reach.least.min(first.min(last));
                reach.most = reach.most.max(first.max(last));
                count
            }
        };
        side("places of a run", places.into())?;
        reach.places += u64::from(places);
    }
    if reach.least == i64::MAX {
        reach.least = 0; // nothing but fill
    }
    Ok(reach)
}
