//! What only moves elements: reshapes, slices, pads, repetitions, gathers.

use super::error::LowerError;
use super::layout::{Held, Offsets, Piece, whole};
use super::quant::Quant;
use super::{Lowering, refuse};
use crate::graph::{Node, ValueId};
use crate::op::{Coordinates, Nearest, Op, PadMode, ResizeMode, Span};
use tg_tensor::program::Primitive;

impl Lowering<'_> {
    /// A node that moves elements.
    pub(super) fn moves(&mut self, node: &Node) -> Result<(), LowerError> {
        if let Op::Reshape { shape } = &node.op {
            self.reshape(node, shape)
        } else if let Op::Transpose { order } = &node.op {
            self.transpose(node, order)
        } else if let Op::Concat { axis } = node.op {
            self.concat(node, axis)
        } else if let Op::Gather { axis } = node.op {
            self.gather(node, axis)
        } else if let Op::Split { axis, sides } = &node.op {
            self.split(node, *axis, sides)
        } else if let Op::DepthToSpace { block, channel_first } = node.op {
            self.depth_to_space(node, block, channel_first)
        } else if let Op::SpaceToDepth { block } = node.op {
            self.space_to_depth(node, block)
        } else {
            self.picked(node)
        }
    }

    fn result(&self, node: &Node) -> Result<ValueId, LowerError> {
        node.outputs.first().copied().ok_or_else(|| refuse(node, "it has no result"))
    }

    /// An operand with the integers of the group it shares with the result.
    fn shared(&mut self, node: &Node, place: usize, quant: Quant) -> Result<Held, LowerError> {
        let value = self.operand(node, place)?;
        let Some(constant) = self.graph.constant(value) else {
            let held = self.need(value)?;
            let same = held.quant.scale == quant.scale && held.quant.zero == quant.zero;
            return if same { Ok(held) } else { self.requantised(&held, quant) };
        };
        let sides = constant.shape().to_vec();
        let integers: Vec<i64> =
            super::plan::floats(constant).iter().map(|number| quant.encode(*number)).collect();
        let name = self.value(value)?.name.clone();
        Ok(Held::plain(self.builder.constant(&name, &sides, &integers)?, quant, sides))
    }

    fn reshape(&mut self, node: &Node, shape: &[usize]) -> Result<(), LowerError> {
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let held = match same_axes(&held, shape) {
            Some(order) => Held { sides: shape.to_vec(), order, ..held },
            None => {
                let held = self.builder.canonical(&held)?;
                Held::plain(held.slot, held.quant, shape.to_vec())
            }
        };
        let result = self.result(node)?;
        self.keep(result, held);
        Ok(())
    }

    fn transpose(&mut self, node: &Node, order: &[usize]) -> Result<(), LowerError> {
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let sides = order.iter().map(|axis| held.sides.get(*axis).copied().unwrap_or(1)).collect();
        let renamed = held.order.iter().map(|axis| order.iter().position(|from| from == axis));
        let renamed: Option<Vec<usize>> = renamed.collect();
        let renamed = renamed.ok_or_else(|| refuse(node, "its order is no permutation"))?;
        let result = self.result(node)?;
        self.keep(result, Held { sides, order: renamed, ..held });
        Ok(())
    }

    fn concat(&mut self, node: &Node, axis: usize) -> Result<(), LowerError> {
        let result = self.result(node)?;
        let quant = self.plan.quant(result);
        let mut parts = Vec::new();
        for place in 0..node.inputs.len() {
            parts.push(self.shared(node, place, quant)?);
        }
        let order = parts.first().map(|part| part.order.clone()).unwrap_or_default();
        let sides = self.result_sides(node)?;
        let pieces = parts.iter().map(|part| {
            let strides = part.strides();
            let offsets = order.iter().map(|axis| {
                let side = part.sides.get(*axis).copied().unwrap_or(1);
                whole(side, strides.get(*axis).copied().unwrap_or(0))
            });
            Piece { slot: part.slot, offsets: offsets.collect() }
        });
        let along = order.iter().position(|own| *own == axis).unwrap_or(0);
        let (pieces, along) = flattened(pieces.collect(), along);
        let quant = hull(quant, &parts);
        let slot = self.builder.moved(&node.name, pieces, along, &quant, quant.lo)?;
        self.keep(result, Held { slot, quant, sides, order });
        Ok(())
    }

    fn split(&mut self, node: &Node, axis: usize, parts: &[usize]) -> Result<(), LowerError> {
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let mut start = 0;
        for (result, count) in node.outputs.iter().zip(parts) {
            let mut offsets = all(&held);
            if let Some(own) = offsets.get_mut(axis) {
                *own = own.iter().skip(start).take(*count).copied().collect();
            }
            start += count;
            if !self.graph.value(*result).name.is_empty() {
                let part = self.taken(&node.name, &held, offsets, held.quant, 0)?;
                self.keep(*result, part);
            }
        }
        Ok(())
    }

    /// Slice, Pad, Expand, Tile and Resize: each axis of the result picks places of an axis.
    fn picked(&mut self, node: &Node) -> Result<(), LowerError> {
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let result = self.result(node)?;
        let lead = self.result_sides(node)?.len() - held.sides.len();
        let grown = Held {
            sides: std::iter::repeat_n(1, lead).chain(held.sides.iter().copied()).collect(),
            order: (0..lead).chain(held.order.iter().map(|axis| axis + lead)).collect(),
            ..held
        };
        let mut quant = grown.quant;
        let mut fill = quant.zero;
        if let Op::Pad { mode: PadMode::Constant(border), .. } = node.op {
            let planned = self.plan.quant(result);
            quant = Quant { lo: quant.lo.min(planned.lo), hi: quant.hi.max(planned.hi), ..quant };
            fill = quant.encode(border.into()) as i32;
        }
        let picks = places_picked(node, &grown.sides)?;
        let strides = grown.strides();
        let offsets = picks.into_iter().zip(&strides).map(|(picks, stride)| {
            picks.into_iter().map(|place| place.map(|place| place * stride)).collect()
        });
        let held = self.taken(&node.name, &grown, offsets.collect(), quant, fill)?;
        self.keep(result, held);
        Ok(())
    }

    /// Copies by offsets along each axis of the graph, in the order in which the source lies.
    fn taken(
        &mut self,
        name: &str,
        held: &Held,
        offsets: Vec<Offsets>,
        quant: Quant,
        fill: i32,
    ) -> Result<Held, LowerError> {
        let sides: Vec<usize> = offsets.iter().map(Vec::len).collect();
        if sides == held.sides && offsets == all(held) {
            return Ok(held.clone());
        }
        let lying = held.order.iter().map(|axis| offsets.get(*axis).cloned().unwrap_or_default());
        let piece = Piece { slot: held.slot, offsets: lying.collect() };
        let slot = self.builder.moved(name, vec![piece], 0, &quant, fill)?;
        Ok(Held { slot, quant, sides, order: held.order.clone() })
    }

    fn gather(&mut self, node: &Node, axis: usize) -> Result<(), LowerError> {
        let result = self.result(node)?;
        let (table, indices) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let sides = self.result_sides(node)?;
        if let Some(picked) = self.graph.constant(indices) {
            return self.gather_fixed(node, axis, &super::plan::floats(picked));
        }
        let quant = self.plan.quant(result);
        let rows = self.shared(node, 0, quant)?;
        let mut order: Vec<usize> = (0..rows.sides.len()).filter(|own| *own != axis).collect();
        order.insert(0, axis);
        let rows = self.builder.ordered(&rows, &order)?;
        let count = rows.sides.get(axis).copied().unwrap_or(1);
        let row = u32::try_from(rows.len() / count).map_err(|_| LowerError::too_large("row"))?;
        let picks = self.need(indices)?;
        let picks = self.builder.canonical(&picks)?;
        let picks = self.rows_picked(node, &picks, count)?;
        let len = super::terms::length(&sides, &node.name)?;
        let (from, by) = (rows.slot, picks.slot);
        let slot = self.builder.push(&node.name, rows.quant.spec(len), move |number| {
            Primitive::Lookup { table: number(from), indices: number(by), row }
        });
        // Now [indices…, rest of the table]; the indices belong where the axis was.
        let wide = self.graph.dims(indices).len();
        let moved = (axis..axis + wide).chain((0..axis).chain(axis + wide..sides.len()));
        let held = Held { slot, quant: rows.quant, sides, order: moved.collect() };
        debug_assert!(self.graph.dims(table).len() + wide == held.sides.len() + 1);
        self.keep(result, held);
        Ok(())
    }

    /// Indices that lie within the rows there are; negative ones count from the end.
    fn rows_picked(&mut self, node: &Node, picks: &Held, count: usize) -> Result<Held, LowerError> {
        let last = count as i64 - 1;
        let (lo, hi) = (i64::from(picks.quant.lo), i64::from(picks.quant.hi));
        if lo >= 0 && hi <= last {
            return Ok(picks.clone());
        }
        let last = i32::try_from(last).map_err(|_| LowerError::too_large("rows"))?;
        if lo >= 0 {
            return self.requantised(picks, Quant::plain(0, last));
        }
        let inside = self.requantised(picks, Quant::plain(-last - 1, last))?;
        let entries =
            (-last - 1..=last).map(|pick| i64::from(if pick < 0 { pick + last + 1 } else { pick }));
        if last > 32_767 {
            return Err(refuse(node, "negative indices into more than 32768 rows"));
        }
        self.table(&node.name, &inside, entries.collect(), Quant::plain(0, last))
    }

    /// A gather whose indices are known moves whole rows.
    fn gather_fixed(&mut self, node: &Node, axis: usize, picked: &[f64]) -> Result<(), LowerError> {
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let side = held.sides.get(axis).copied().unwrap_or(1);
        let stride = held.strides().get(axis).copied().unwrap_or(0);
        let place = |index: &f64| {
            let index = if *index < 0.0 { *index + side as f64 } else { *index };
            Some((index as usize).min(side - 1) * stride)
        };
        let mut offsets = all(&held);
        if let Some(own) = offsets.get_mut(axis) {
            *own = picked.iter().map(place).collect();
        }
        let taken = self.taken(&node.name, &held, offsets, held.quant, 0)?;
        let sides = self.result_sides(node)?;
        let taken = match same_axes(&taken, &sides) {
            Some(order) => Held { sides, order, ..taken },
            None => {
                let taken = self.builder.canonical(&taken)?;
                Held::plain(taken.slot, taken.quant, sides)
            }
        };
        let result = self.result(node)?;
        self.keep(result, taken);
        Ok(())
    }

    fn depth_to_space(
        &mut self,
        node: &Node,
        block: usize,
        channel_first: bool,
    ) -> Result<(), LowerError> {
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let held = self.builder.canonical(&held)?;
        let [images, depth, height, width] = planes(node, &held)?;
        let channels = depth / (block * block);
        let (split, order) = if channel_first {
            (vec![images, channels, block, block, height, width], [0, 1, 4, 2, 5, 3])
        } else {
            (vec![images, block, block, channels, height, width], [0, 3, 4, 1, 5, 2])
        };
        self.rearranged(node, &held, split, &order)
    }

    fn space_to_depth(&mut self, node: &Node, block: usize) -> Result<(), LowerError> {
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let held = self.builder.canonical(&held)?;
        let [images, channels, height, width] = planes(node, &held)?;
        let split = vec![images, channels, height / block, block, width / block, block];
        self.rearranged(node, &held, split, &[0, 3, 5, 1, 2, 4])
    }

    fn rearranged(
        &mut self,
        node: &Node,
        held: &Held,
        split: Vec<usize>,
        order: &[usize],
    ) -> Result<(), LowerError> {
        let cut = Held::plain(held.slot, held.quant, split);
        let moved = self.builder.ordered(&cut, order)?;
        let sides = self.result_sides(node)?;
        let result = self.result(node)?;
        self.keep(result, Held::plain(moved.slot, moved.quant, sides));
        Ok(())
    }
}

/// Which places of an operand's axes a result's axes hold.
fn places_picked(node: &Node, sides: &[usize]) -> Result<Vec<Vec<Option<usize>>>, LowerError> {
    let side = |axis: usize| -> usize { sides.get(axis).copied().unwrap_or(1) };
    let cycled =
        |(axis, count): (usize, usize)| (0..count).map(|place| Some(place % side(axis))).collect();
    if let Op::Slice { spans } = &node.op {
        return Ok(spans.iter().map(span).collect());
    }
    if let Op::Pad { mode, before, after } = &node.op {
        let padded = before.iter().zip(after).enumerate();
        return Ok(padded.map(|(axis, (b, a))| bordered(side(axis), *b, *a, *mode)).collect());
    }
    if let Op::Expand { shape } = &node.op {
        return Ok(shape.iter().copied().enumerate().map(cycled).collect());
    }
    if let Op::Tile { repeats } = &node.op {
        let counts = repeats.iter().enumerate().map(|(axis, times)| (axis, times * side(axis)));
        return Ok(counts.map(cycled).collect());
    }
    if let Op::Resize { mode: ResizeMode::Nearest(nearest), coordinates, scales, shape } = &node.op
    {
        let axes = shape.iter().zip(scales).enumerate();
        let one = |(axis, (wanted, scale)): (usize, (&usize, &f32))| {
            resized(side(axis), *wanted, *scale, *nearest, *coordinates)
        };
        return Ok(axes.map(one).collect());
    }
    Err(refuse(node, "Resize by interpolation; only nearest is supported"))
}

fn planes(node: &Node, held: &Held) -> Result<[usize; 4], LowerError> {
    <[usize; 4]>::try_from(held.sides.as_slice()).map_err(|_| refuse(node, "it needs four axes"))
}

/// Offsets of every place of every axis.
fn all(held: &Held) -> Vec<Offsets> {
    held.sides.iter().zip(held.strides()).map(|(side, stride)| whole(*side, stride)).collect()
}

/// The order of the axes after a reshape that only adds or drops axes of one place.
fn same_axes(held: &Held, shape: &[usize]) -> Option<Vec<usize>> {
    let wide = |sides: &[usize]| -> Vec<usize> {
        (0..sides.len()).filter(|axis| sides.get(*axis).is_some_and(|side| *side > 1)).collect()
    };
    let (old, new) = (wide(&held.sides), wide(shape));
    let same = old.len() == new.len()
        && old.iter().zip(&new).all(|(old, new)| held.sides.get(*old) == shape.get(*new));
    if !same {
        return None;
    }
    let renamed = held.order.iter().filter_map(|axis| {
        old.iter().position(|old| old == axis).and_then(|place| new.get(place)).copied()
    });
    let singles = (0..shape.len()).filter(|axis| !new.contains(axis));
    Some(singles.chain(renamed).collect())
}

fn span(span: &Span) -> Vec<Option<usize>> {
    let place = |at: usize| usize::try_from(span.start as i64 + span.step * at as i64).ok();
    (0..span.count).map(place).collect()
}

/// The places of a padded axis.
fn bordered(side: usize, before: usize, after: usize, mode: PadMode) -> Vec<Option<usize>> {
    let last = side as i64 - 1;
    let place = |at: i64| match mode {
        PadMode::Constant(_) => usize::try_from(at).ok().filter(|at| *at < side),
        PadMode::Edge => usize::try_from(at.clamp(0, last)).ok(),
        PadMode::Reflect => {
            let period = (2 * last).max(1);
            let at = at.rem_euclid(period);
            usize::try_from(if at > last { period - at } else { at }).ok()
        }
    };
    (0..before + side + after).map(|at| place(at as i64 - before as i64)).collect()
}

/// The places that a resized axis repeats.
fn resized(
    side: usize,
    wanted: usize,
    scale: f32,
    nearest: Nearest,
    coordinates: Coordinates,
) -> Vec<Option<usize>> {
    if side == wanted {
        return (0..side).map(Some).collect();
    }
    // In single precision, as everybody computes it: which side of a step a place falls on depends
    // on it.
    let place = |at: usize| {
        let at = at as f32;
        let exact = match coordinates {
            Coordinates::Asymmetric => at / scale,
            Coordinates::HalfPixel => (at + 0.5) / scale - 0.5,
            Coordinates::PytorchHalfPixel if wanted == 1 => 0.0,
            Coordinates::PytorchHalfPixel => (at + 0.5) / scale - 0.5,
            Coordinates::AlignCorners if wanted == 1 => 0.0,
            Coordinates::AlignCorners => at * (side as f32 - 1.0) / (wanted as f32 - 1.0),
        };
        let whole = match nearest {
            Nearest::Floor => exact.floor(),
            Nearest::Ceil => exact.ceil(),
            Nearest::PreferFloor => (exact - 0.5).ceil(),
            Nearest::PreferCeil => (exact + 0.5).floor(),
        };
        Some(whole.clamp(0.0, side as f32 - 1.0) as usize)
    };
    (0..wanted).map(place).collect()
}

/// Drops axes of one place that no piece moves along.
fn flattened(mut pieces: Vec<Piece>, along: usize) -> (Vec<Piece>, usize) {
    let rank = pieces.first().map_or(0, |piece| piece.offsets.len());
    let is_single = |pieces: &[Piece], axis: usize| {
        axis != along
            && pieces.iter().all(|piece| {
                piece.offsets.get(axis).is_some_and(|side| side.as_slice() == [Some(0)])
            })
    };
    let singles: Vec<bool> = (0..rank).map(|axis| is_single(&pieces, axis)).collect();
    for piece in &mut pieces {
        let mut at = 0;
        piece.offsets.retain(|_| {
            at += 1;
            singles.get(at - 1) != Some(&true)
        });
    }
    let before = singles.iter().take(along).filter(|single| **single).count();
    (pieces, along - before)
}

/// The integers that all parts use.
fn hull(quant: Quant, parts: &[Held]) -> Quant {
    let lo = parts.iter().map(|part| part.quant.lo).min().unwrap_or(quant.lo);
    let hi = parts.iter().map(|part| part.quant.hi).max().unwrap_or(quant.hi);
    Quant { lo, hi, ..quant }
}
