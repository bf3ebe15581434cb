//! Where the elements of a value lie, and how they are moved.
//!
//! A value keeps the order in which it was made (channels last after a convolution, say), and a
//! transposition only changes how it is read. Elements move when an operation needs another order.

use super::build::{Builder, Slot};
use super::error::LowerError;
use super::quant::Quant;
use tg_tensor::program::{MovePart, Operand, Primitive, Run, Runs, Sides, Strides};
use tg_types::List;

/// A value of the graph as a value of the program.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// Which value of the program.
    pub(crate) slot: Slot,
    /// What its integers stand for.
    pub(crate) quant: Quant,
    /// Its sides in the graph.
    pub(crate) sides: Vec<usize>,
    /// The graph's axes from slowest to fastest, as they lie in memory.
    pub(crate) order: Vec<usize>,
}

impl Held {
    /// A value whose axes lie as they are named.
    pub(crate) fn plain(slot: Slot, quant: Quant, sides: Vec<usize>) -> Self {
        let order = (0..sides.len()).collect();
        Self { slot, quant, sides, order }
    }

    /// How many elements.
    pub(crate) fn len(&self) -> usize {
        self.sides.iter().product()
    }

    /// How far apart neighbours along each axis of the graph lie.
    pub(crate) fn strides(&self) -> Vec<usize> {
        let mut strides = vec![0; self.sides.len()];
        let mut stride = 1;
        for axis in self.order.iter().rev() {
            if let (Some(place), Some(side)) = (strides.get_mut(*axis), self.sides.get(*axis)) {
                *place = stride;
                stride *= side;
            }
        }
        strides
    }

    /// The axes that have more than one place, as they lie in memory.
    fn real_order(&self, order: &[usize]) -> Vec<usize> {
        let is_real = |axis: &usize| self.sides.get(*axis).is_some_and(|side| *side > 1);
        order.iter().copied().filter(is_real).collect()
    }

    /// Whether the elements already lie in an order.
    pub(crate) fn lies(&self, order: &[usize]) -> bool {
        self.real_order(&self.order) == self.real_order(order)
    }
}

/// The offsets of one side of a move; `None` is filled.
pub(crate) type Offsets = Vec<Option<usize>>;

/// Offsets of a whole axis.
pub(crate) fn whole(side: usize, stride: usize) -> Offsets {
    (0..side).map(|place| Some(place * stride)).collect()
}

/// One part of a move.
pub(crate) struct Piece {
    /// What is read.
    pub(crate) slot: Slot,
    /// Offsets for each side of the output.
    pub(crate) offsets: Vec<Offsets>,
}

impl Builder {
    /// Copies by offsets. `axis` is the side along which the pieces follow each other.
    pub(crate) fn moved(
        &mut self,
        name: &str,
        pieces: Vec<Piece>,
        axis: usize,
        quant: &Quant,
        fill: i32,
    ) -> Result<Slot, LowerError> {
        let (pieces, axis) = merged(pieces, axis);
        let first = pieces.first().ok_or_else(|| LowerError::too_large(name))?;
        let mut sides: Vec<usize> = first.offsets.iter().map(Vec::len).collect();
        let along = pieces.iter().map(|piece| piece.offsets.get(axis).map_or(0, Vec::len)).sum();
        if let Some(side) = sides.get_mut(axis) {
            *side = along;
        }
        let len = sides
            .iter()
            .try_fold(1_u32, |product, side| product.checked_mul(u32::try_from(*side).ok()?));
        let len = len.ok_or_else(|| LowerError::too_large(name))?;
        let sides = grid_sides(&sides, name)?;
        let mut parts = Vec::new();
        for piece in pieces {
            let runs: Result<Vec<Runs>, LowerError> =
                piece.offsets.iter().map(|offsets| runs(offsets, name)).collect();
            let runs = List::new(runs?).map_err(|_| LowerError::too_large(name))?;
            parts.push((piece.slot, runs));
        }
        if parts.is_empty() || parts.len() > 1_024 {
            return Err(LowerError::too_large(name));
        }
        let axis = u8::try_from(axis).map_err(|_| LowerError::too_large(name))?;
        Ok(self.push(name, quant.spec(len), move |number| {
            let part = |(slot, offsets)| MovePart { value: number(slot), offsets };
            let parts = List::new(parts.into_iter().map(part).collect())
                .unwrap_or_else(|_| unreachable!("the number of parts was checked"));
            Primitive::Move { sides, axis, parts, fill }
        }))
    }

    /// The value with its axes in another order in memory.
    pub(crate) fn ordered(&mut self, held: &Held, order: &[usize]) -> Result<Held, LowerError> {
        let same = Held { order: order.to_vec(), ..held.clone() };
        if held.lies(order) {
            return Ok(same);
        }
        let strides = held.strides();
        let offsets = order.iter().map(|axis| {
            let side = held.sides.get(*axis).copied().unwrap_or(1);
            whole(side, strides.get(*axis).copied().unwrap_or(0))
        });
        let piece = Piece { slot: held.slot, offsets: offsets.collect() };
        let slot = self.moved("order", vec![piece], 0, &held.quant, held.quant.lo)?;
        Ok(Held { slot, ..same })
    }

    /// The value with its axes in memory as they are named.
    pub(crate) fn canonical(&mut self, held: &Held) -> Result<Held, LowerError> {
        let order: Vec<usize> = (0..held.sides.len()).collect();
        self.ordered(held, &order)
    }
}

/// Drops sides of one place and joins neighbours that are read as one, so that sides are few.
fn merged(mut pieces: Vec<Piece>, axis: usize) -> (Vec<Piece>, usize) {
    let mut axis = axis;
    if let [piece] = pieces.as_mut_slice() {
        let base: usize = piece
            .offsets
            .iter()
            .filter(|side| side.len() == 1)
            .map(|side| side.first().copied().flatten().unwrap_or(0))
            .sum();
        let fills = piece.offsets.iter().any(|side| side.len() == 1 && side.contains(&None));
        if !fills {
            piece.offsets.retain(|side| side.len() > 1);
            let mut joined: Vec<Offsets> = Vec::new();
            for side in piece.offsets.drain(..) {
                match joined.last_mut().and_then(|last| join(last, &side)) {
                    Some(both) => {
                        joined.pop();
                        joined.push(both);
                    }
                    None => joined.push(side),
                }
            }
            if joined.is_empty() {
                joined.push(vec![Some(0)]);
            }
            if let Some(first) = joined.first_mut() {
                first.iter_mut().flatten().for_each(|offset| *offset += base);
            }
            piece.offsets = joined;
            axis = 0;
        }
    }
    (pieces, axis)
}

/// Two neighbouring sides as one, if the outer one steps over exactly what the inner one covers.
fn join(outer: &Offsets, inner: &Offsets) -> Option<Offsets> {
    let (start, step) = even(inner)?;
    let (_, outer_step) = even(outer)?;
    if start != 0 || outer_step != step * inner.len() {
        return None;
    }
    let pair = |outer: &Option<usize>| {
        let outer = *outer;
        inner.iter().map(move |inner| Some(outer? + (*inner)?))
    };
    Some(outer.iter().flat_map(pair).collect())
}

/// Start and step of evenly spaced offsets without fill.
fn even(offsets: &Offsets) -> Option<(usize, usize)> {
    let (first, second) = match offsets.as_slice() {
        [Some(first), Some(second), ..] => (*first, *second),
        _ => return None,
    };
    let step = second.checked_sub(first)?;
    let is_even = offsets.iter().enumerate().all(|(at, o)| *o == Some(first + at * step));
    is_even.then_some((first, step))
}

fn runs(offsets: &Offsets, name: &str) -> Result<Runs, LowerError> {
    let mut runs: Vec<Run> = Vec::new();
    let mut rest = offsets.as_slice();
    while let Some(first) = rest.first() {
        let count = match first {
            None => rest.iter().take_while(|offset| offset.is_none()).count(),
            Some(first) => {
                let step = step_of(*first, rest.get(1).copied().flatten());
                let expected = |at: usize| Some(*first as i64 + step * at as i64);
                let goes_on = |(at, offset): &(usize, &Option<usize>)| {
                    offset.map(|offset| offset as i64) == expected(*at)
                };
                rest.iter().enumerate().take_while(goes_on).count()
            }
        };
        let small = |number: usize| u32::try_from(number).map_err(|_| LowerError::too_large(name));
        runs.push(match first {
            None => Run::Fill { count: small(count)? },
            Some(first) => {
                let step = step_of(*first, rest.get(1).copied().flatten());
                let step = i32::try_from(step).map_err(|_| LowerError::too_large(name))?;
                Run::Read { start: small(*first)?, step, count: small(count)? }
            }
        });
        rest = rest.get(count.max(1)..).unwrap_or_default();
    }
    Runs::new(runs).map_err(|_| LowerError::too_large(name))
}

fn step_of(first: usize, second: Option<usize>) -> i64 {
    second.map_or(0, |second| second as i64 - first as i64)
}

/// Sides as a program states them.
pub(crate) fn grid_sides(sides: &[usize], name: &str) -> Result<Sides, LowerError> {
    let sides: Option<Vec<u32>> = sides.iter().map(|side| u32::try_from(*side).ok()).collect();
    let sides = sides.ok_or_else(|| LowerError::too_large(name))?;
    Sides::new(sides).map_err(|_| LowerError::too_large(&format!("number of axes of {name}")))
}

/// A grid over which several values are read together.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    /// The sides, units left out and neighbours joined where all values allow it.
    pub(crate) sides: Vec<usize>,
    /// How far one step along each side goes in each value.
    pub(crate) strides: Vec<Vec<usize>>,
}

impl Grid {
    /// The grid over `sides` lying in `order`, on which values broadcast.
    pub(crate) fn new(sides: &[usize], order: &[usize], values: &[&Held], keep_last: bool) -> Self {
        let steps: Vec<Vec<usize>> = values
            .iter()
            .map(|value| {
                let lead = sides.len() - value.sides.len().min(sides.len());
                let strides = value.strides();
                let step = |axis: usize| match axis.checked_sub(lead) {
                    Some(own) if value.sides.get(own).is_some_and(|side| *side > 1) => {
                        strides.get(own).copied().unwrap_or(0)
                    }
                    _ => 0,
                };
                order.iter().map(|axis| step(*axis)).collect()
            })
            .collect();
        let mut grid = Self { sides: Vec::new(), strides: vec![Vec::new(); values.len()] };
        for (at, axis) in order.iter().enumerate() {
            let side = sides.get(*axis).copied().unwrap_or(1);
            let is_last = keep_last && at + 1 == order.len();
            if side == 1 && !is_last {
                continue;
            }
            let own: Vec<usize> =
                steps.iter().map(|step| step.get(at).copied().unwrap_or(0)).collect();
            grid.append(side, &own, is_last);
        }
        if grid.sides.is_empty() {
            grid.append(1, &vec![0; values.len()], true);
        }
        grid
    }

    fn append(&mut self, side: usize, steps: &[usize], alone: bool) {
        let joins = !alone
            && !self.sides.is_empty()
            && self.strides.iter().zip(steps).all(|(own, step)| own.last() == Some(&(step * side)));
        if joins {
            if let Some(last) = self.sides.last_mut() {
                *last *= side;
            }
            for (own, step) in self.strides.iter_mut().zip(steps) {
                if let Some(last) = own.last_mut() {
                    *last = *step;
                }
            }
            return;
        }
        self.sides.push(side);
        for (own, step) in self.strides.iter_mut().zip(steps) {
            own.push(*step);
        }
    }

    /// The strides of one value, as a program states them.
    pub(crate) fn strides_of(&self, value: usize, name: &str) -> Result<Strides, LowerError> {
        let strides = self.strides.get(value).map(Vec::as_slice).unwrap_or_default();
        let strides: Option<Vec<u32>> = strides.iter().map(|s| u32::try_from(*s).ok()).collect();
        let strides = strides.ok_or_else(|| LowerError::too_large(name))?;
        Strides::new(strides).map_err(|_| LowerError::too_large(name))
    }
}

/// An operand whose value gets its number later.
pub(crate) fn operand(
    number: super::build::Numbering<'_>,
    slot: Slot,
    strides: Strides,
) -> Operand {
    Operand { value: number(slot), strides }
}
