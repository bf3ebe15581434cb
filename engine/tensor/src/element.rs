//! The meaning of a program, one element at a time.
//!
//! Every element is a fold: a start, a number of terms that are absorbed one after the other, and a
//! finish. Kernels compute the same numbers faster and in another order; this is what they are
//! compared with, what an audit recomputes and what a step of a dispute executes. It is written to
//! be read next to `docs/tensor-program.md`, and to be mirrored by a contract.

use crate::program::{
    Inverse, MovePart, Operand, Operation, Primitive, Program, Run, Spec, ValueId, Window, clamp,
    round_shift,
};

/// Mantissas of [`Primitive::Normalise`] have this many bits below their first.
pub const MANTISSA_BITS: u8 = 10;

/// Mantissa and shift of a number: for a reciprocal `x = m * 2^e` with m in [2^10, 2^11) and shift
/// e; for a root m in [2^10, 2^12) with even e and shift e / 2. Bits below the mantissa are
/// dropped.
#[must_use]
pub fn power_of(x: i64, inverse: Inverse) -> (i64, i64) {
    let x = x.max(1);
    let over = i64::from(x.ilog2()) - i64::from(MANTISSA_BITS);
    let exponent = match inverse {
        Inverse::Reciprocal => over,
        Inverse::Root => over.div_euclid(2) * 2,
    };
    let mantissa = if exponent >= 0 { x >> exponent } else { x << -exponent };
    match inverse {
        Inverse::Reciprocal => (mantissa, exponent),
        Inverse::Root => (mantissa, exponent / 2),
    }
}

/// One element of one operation.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    program: &'a Program,
    operation: &'a Operation,
    index: usize,
}

impl<'a> Element<'a> {
    /// The element at `index` of an operation's output; `None` if there is none.
    #[must_use]
    pub fn new(program: &'a Program, operation: usize, index: usize) -> Option<Self> {
        let operation = program.operations().get(operation)?;
        (index < operation.spec.elements()).then_some(Self { program, operation, index })
    }

    /// How many terms are absorbed.
    #[must_use]
    pub fn terms(&self) -> u64 {
        self.operation.primitive.terms()
    }

    /// The state before the first term.
    #[must_use]
    pub fn start(&self) -> i64 {
        match &self.operation.primitive {
            Primitive::Join { sides, constant, .. } => {
                let constants = constant.as_slice();
                let last = sides.as_slice().last().map_or(1, |side| *side as usize);
                let place = if constants.len() == 1 { 0 } else { self.index % last };
                constants.get(place).copied().unwrap_or(0).into()
            }
            Primitive::Max { x, .. } => self.spec(*x).lo.into(),
            Primitive::ArgMax { .. } => i64::MIN,
            Primitive::Linear { .. }
            | Primitive::MatMul { .. }
            | Primitive::Product { .. }
            | Primitive::Table { .. }
            | Primitive::Sum { .. }
            | Primitive::Normalise { .. }
            | Primitive::Move { .. }
            | Primitive::Select { .. }
            | Primitive::Lookup { .. } => 0,
        }
    }

    /// The state after one more term. `read` gives an element of a value.
    pub fn absorb<E>(
        &self,
        state: i64,
        term: u64,
        read: &mut impl FnMut(ValueId, usize) -> Result<i32, E>,
    ) -> Result<i64, E> {
        let mut get = |value: ValueId, index: usize| read(value, index).map(i64::from);
        Ok(match &self.operation.primitive {
            Primitive::Linear { .. } => state + self.linear_term(term, &mut get)?,
            Primitive::MatMul { .. } => state + self.pair_term(term, &mut get)?,
            Primitive::Join { sides, terms, .. } => {
                let Some(term) = terms.as_slice().get(term as usize) else { return Ok(state) };
                let factors = term.multipliers.as_slice();
                let last = sides.as_slice().last().map_or(1, |side| *side as usize);
                let place = if factors.len() == 1 { 0 } else { self.index % last };
                let factor = i64::from(factors.get(place).copied().unwrap_or(0));
                state
                    + get(term.operand.value, self.seen(&term.operand, sides.as_slice()))? * factor
            }
            Primitive::Product { sides, a, b, offset_a, offset_b, .. } => {
                let left = get(a.value, self.seen(a, sides.as_slice()))? + i64::from(*offset_a);
                let right = get(b.value, self.seen(b, sides.as_slice()))? + i64::from(*offset_b);
                left * right
            }
            Primitive::Table { x, entries } => {
                let entry = get(*x, self.index)? - i64::from(self.spec(*x).lo);
                let entry = usize::try_from(entry).unwrap_or(usize::MAX);
                entries.as_slice().get(entry).copied().unwrap_or(0).into()
            }
            Primitive::Sum { x, window, offset, .. } => match self.window_tap(window, term) {
                Some(index) => state + get(*x, index)? + i64::from(*offset),
                None => state,
            },
            Primitive::Max { x, window } => match self.window_tap(window, term) {
                Some(index) => state.max(get(*x, index)?),
                None => state,
            },
            Primitive::Normalise { .. } => self.quotient(&mut get)?,
            Primitive::Move { sides, axis, parts, fill } => {
                let place =
                    moved(self.index, sides.as_slice(), usize::from(*axis), parts.as_slice());
                match place {
                    Some((value, index)) => get(value, index)?,
                    None => (*fill).into(),
                }
            }
            Primitive::Select { sides, condition, then, otherwise } => {
                let sides = sides.as_slice();
                let decided = get(condition.value, self.seen(condition, sides))? != 0;
                let taken = if decided { then } else { otherwise };
                get(taken.value, self.seen(taken, sides))?
            }
            Primitive::Lookup { table, indices, row } => {
                let row = *row as usize;
                let picked = get(*indices, self.index / row)?;
                let picked = usize::try_from(picked).unwrap_or(0);
                get(*table, picked * row + self.index % row)?
            }
            Primitive::ArgMax { x, len, inner, .. } => {
                let (len, inner) = (*len as usize, *inner as usize);
                let (outer, within) = (self.index / inner, self.index % inner);
                let value = get(*x, (outer * len + term as usize) * inner + within)?;
                state.max(candidate(value, term))
            }
        })
    }

    /// The element, from the state after the last term.
    #[must_use]
    pub fn finish(&self, state: i64) -> i32 {
        let spec = &self.operation.spec;
        match &self.operation.primitive {
            Primitive::Linear { columns, rescale, .. } => {
                rescale.apply(state, self.index % *columns as usize, spec)
            }
            Primitive::MatMul { rescale, .. } | Primitive::Product { rescale, .. } => {
                rescale.apply(state, 0, spec)
            }
            Primitive::Sum { window, rescale, .. } => {
                let place = self.index / window.channels as usize;
                rescale.apply(state, place % window.positions() as usize, spec)
            }
            Primitive::Join { shift, .. } => clamp(round_shift(state, *shift), spec),
            Primitive::ArgMax { .. } => clamp(place_of(state), spec),
            Primitive::Table { .. }
            | Primitive::Max { .. }
            | Primitive::Normalise { .. }
            | Primitive::Move { .. }
            | Primitive::Select { .. }
            | Primitive::Lookup { .. } => clamp(state, spec),
        }
    }

    /// The element, from everything it reads.
    pub fn compute<E>(
        &self,
        read: &mut impl FnMut(ValueId, usize) -> Result<i32, E>,
    ) -> Result<i32, E> {
        let mut state = self.start();
        for term in 0..self.terms() {
            state = self.absorb(state, term, read)?;
        }
        Ok(self.finish(state))
    }

    fn spec(&self, value: ValueId) -> Spec {
        self.program.spec(value).unwrap_or(self.operation.spec)
    }

    /// The element of an operand that stands at this place of the grid.
    fn seen(&self, operand: &Operand, sides: &[u32]) -> usize {
        seen(self.index, sides, operand.strides.as_slice())
    }

    fn linear_term<E>(
        &self,
        term: u64,
        get: &mut impl FnMut(ValueId, usize) -> Result<i64, E>,
    ) -> Result<i64, E> {
        let Primitive::Linear { x, weights, bias, window, columns, groups, pad, .. } =
            &self.operation.primitive
        else {
            return Ok(0);
        };
        let column = self.index % *columns as usize;
        let term = match (bias, term) {
            (Some(bias), 0) => return get(*bias, column),
            (Some(_), term) => term as usize - 1,
            (None, term) => term as usize,
        };
        let each = (window.channels / groups) as usize;
        let group = column / (columns / groups) as usize;
        let (tap, channel) = (term / each, term % each);
        let terms = window.taps() as usize * each;
        let left = match self.place_read(window, self.index / *columns as usize, tap) {
            Some(place) => get(*x, place * window.channels as usize + group * each + channel)?,
            None => (*pad).into(),
        };
        Ok(left * get(*weights, column * terms + term)?)
    }

    fn pair_term<E>(
        &self,
        term: u64,
        get: &mut impl FnMut(ValueId, usize) -> Result<i64, E>,
    ) -> Result<i64, E> {
        let Primitive::MatMul { a, b, rows, columns, inner, offset_a, offset_b, .. } =
            &self.operation.primitive
        else {
            return Ok(0);
        };
        let (rows, columns, inner) = (*rows as usize, *columns as usize, *inner as usize);
        let (row, column) = (self.index / columns, self.index % columns);
        let batch = row / rows;
        let left = get(*a, row * inner + term as usize)? + i64::from(*offset_a);
        let right = (batch * columns + column) * inner + term as usize;
        Ok(left * (get(*b, right)? + i64::from(*offset_b)))
    }

    fn quotient<E>(
        &self,
        get: &mut impl FnMut(ValueId, usize) -> Result<i64, E>,
    ) -> Result<i64, E> {
        let Primitive::Normalise { sides, a, offset, x, inverse, entries, shift, zero } =
            &self.operation.primitive
        else {
            return Ok(0);
        };
        let left = get(a.value, self.seen(a, sides.as_slice()))? + i64::from(*offset);
        let right = get(x.value, self.seen(x, sides.as_slice()))?;
        let (mantissa, exponent) = power_of(right, *inverse);
        let entry = usize::try_from(mantissa - (1 << MANTISSA_BITS)).unwrap_or(usize::MAX);
        let entry = entries.as_slice().get(entry).copied().unwrap_or(0);
        let shift = u8::try_from(i64::from(*shift) + exponent).unwrap_or(0);
        Ok(round_shift(left * i64::from(entry), shift) + i64::from(*zero))
    }

    fn window_tap(&self, window: &Window, term: u64) -> Option<usize> {
        let channels = window.channels as usize;
        let place = self.place_read(window, self.index / channels, term as usize)?;
        Some(place * channels + self.index % channels)
    }

    /// The input place (image, row, column as one number) that a tap of an output place reads.
    fn place_read(&self, window: &Window, place: usize, tap: usize) -> Option<usize> {
        let (out_width, kernel_width) = (window.out_width as usize, window.kernel_width as usize);
        let positions = window.positions() as usize;
        let (image, position) = (place / positions, place % positions);
        let row = window.row((position / out_width) as u32, (tap / kernel_width) as u32)?;
        let column = window.column((position % out_width) as u32, (tap % kernel_width) as u32)?;
        Some(
            (image * window.height as usize + row as usize) * window.width as usize
                + column as usize,
        )
    }
}

/// A candidate of an arg-max as one number: larger for larger values, then for earlier places.
fn candidate(value: i64, place: u64) -> i64 {
    (value << 32) | (i64::from(u32::MAX) - place as i64)
}

fn place_of(candidate: i64) -> i64 {
    i64::from(u32::MAX) - (candidate & i64::from(u32::MAX))
}

/// The element of an operand at a place of the grid.
pub(crate) fn seen(index: usize, sides: &[u32], strides: &[u32]) -> usize {
    let mut left = index;
    let mut at = 0;
    for (side, stride) in sides.iter().zip(strides).rev() {
        at += left % *side as usize * *stride as usize;
        left /= *side as usize;
    }
    at
}

/// The source of a moved element; `None` is fill.
fn moved(index: usize, sides: &[u32], axis: usize, parts: &[MovePart]) -> Option<(ValueId, usize)> {
    let mut places = [0_usize; 6];
    let mut left = index;
    for (place, side) in places.iter_mut().take(sides.len()).zip(sides).rev() {
        *place = left % *side as usize;
        left /= *side as usize;
    }
    for part in parts {
        let extent = part.offsets.as_slice().get(axis).map_or(0, |runs| places_of(runs.as_slice()));
        let along = places.get_mut(axis)?;
        if *along >= extent {
            *along -= extent;
            continue;
        }
        let mut source = 0_i64;
        for (runs, place) in part.offsets.as_slice().iter().zip(places) {
            source += offset_at(runs.as_slice(), place)?;
        }
        return usize::try_from(source).ok().map(|source| (part.value, source));
    }
    None
}

fn places_of(runs: &[Run]) -> usize {
    let count = |run: &Run| match run {
        Run::Read { count, .. } | Run::Fill { count } => *count as usize,
    };
    runs.iter().map(count).sum()
}

/// The source offset at a place of one side; `None` is fill.
fn offset_at(runs: &[Run], place: usize) -> Option<i64> {
    let mut left = place;
    for run in runs {
        match *run {
            Run::Read { start, step, count } if left < count as usize => {
                return Some(i64::from(start) + i64::from(step) * left as i64);
            }
            Run::Fill { count } if left < count as usize => return None,
            Run::Read { count, .. } | Run::Fill { count } => left -= count as usize,
        }
    }
    None
}
