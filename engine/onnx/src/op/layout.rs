//! Operators that move elements around or make constants out of shapes.

use tg_tensor::{Array, Data};

use super::attributes::{axes, axis, size, sizes};
use super::parse::{Context, Meaning};
use super::{Coordinates, Nearest, Op, PadMode, ResizeMode, Span};
use crate::dtype::Dtype;
use crate::error::NodeError;
use crate::proto::RANK_MAX;
use crate::shape::{broadcast, elements};

/// Finds out what a node means, or nothing if it is of another family.
pub(super) fn parse(context: &Context<'_>) -> Result<Option<Meaning>, NodeError> {
    let meaning = match context.node.operator.as_str() {
        "Concat" => concat(context)?,
        "Slice" => slice(context)?,
        "Split" => split(context)?,
        "Pad" => pad(context)?,
        "Reshape" => reshape(context)?,
        "Flatten" => flatten(context)?,
        "Squeeze" => squeeze(context)?,
        "Unsqueeze" => unsqueeze(context)?,
        "Transpose" => transpose(context)?,
        "Expand" => expand(context)?,
        "Tile" => tile(context)?,
        "Gather" => {
            context.count(2, 2)?;
            let axis = axis(context.int_or("axis", 0)?, context.rank()?)?;
            context.operation(Op::Gather { axis }, 2)
        }
        "Shape" => shape(context)?,
        "Size" => {
            context.count(1, 1)?;
            let count = elements(context.operand(0)?.shape, usize::MAX)?;
            ints(vec![], vec![signed(count)])?
        }
        "ConstantOfShape" => constant_of_shape(context)?,
        "Range" => range(context)?,
        "Resize" => resize(context)?,
        "Upsample" => upsample(context)?,
        "DepthToSpace" => {
            let channel_first = context.word("mode", "DCR", &[("DCR", false), ("CRD", true)])?;
            let block = block(context)?;
            context.operation(Op::DepthToSpace { block, channel_first }, 1)
        }
        "SpaceToDepth" => {
            let block = block(context)?;
            context.operation(Op::SpaceToDepth { block }, 1)
        }
        _ => return Ok(None),
    };
    Ok(Some(meaning))
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn ints(shape: Vec<usize>, values: Vec<i64>) -> Result<Meaning, NodeError> {
    Ok(Meaning::Constant(Dtype::Int, Array::new(shape, Data::Int(values))?))
}

fn required(list: Option<&[i64]>, index: usize) -> Result<&[i64], NodeError> {
    list.ok_or(NodeError::OperandMissing { index })
}

fn concat(context: &Context<'_>) -> Result<Meaning, NodeError> {
    let count = context.operands.len();
    context.count(1, usize::MAX)?;
    let axis_given = context.int("axis")?;
    let axis_given = axis_given.ok_or(NodeError::AttributeMissing { name: "axis" })?;
    let axis = axis(axis_given, context.rank()?)?;
    Ok(context.operation(Op::Concat { axis }, count))
}

/// Starts, ends and axes are attributes before opset 10 and operands since.
fn slice(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(1, 5)?;
    let shape = context.operand(0)?.shape;
    let starts = required(context.ints_of("starts", 1, "the starts")?, 1)?;
    let ends = required(context.ints_of("ends", 2, "the ends")?, 2)?;
    if ends.len() != starts.len() {
        let (found, expected) = (ends.len(), starts.len());
        return Err(NodeError::Length { what: "the ends", found, expected });
    }
    let count = signed(starts.len());
    let all: Vec<i64> = (0..count).collect();
    let listed = context.ints_of("axes", 3, "the axes")?.unwrap_or(&all);
    axes(listed, shape.len())?; // refuses one that occurs twice
    let ones = vec![1; starts.len()];
    let steps = context.constant_ints(4, "the steps")?.unwrap_or(&ones);
    if listed.len() != starts.len() || steps.len() != starts.len() {
        let (found, expected) = (listed.len().min(steps.len()), starts.len());
        return Err(NodeError::Length { what: "the axes and steps", found, expected });
    }
    let mut spans: Vec<Span> =
        shape.iter().map(|side| Span { start: 0, step: 1, count: *side }).collect();
    let parts = listed.iter().zip(starts).zip(ends).zip(steps);
    for (((listed, start), end), step) in parts {
        let axis = axis(*listed, shape.len())?;
        if let (Some(place), Some(side)) = (spans.get_mut(axis), shape.get(axis)) {
            *place = span(*side, *start, *end, *step)?;
        }
    }
    Ok(context.operation(Op::Slice { spans }, 1))
}

/// What a slice takes of one axis. Bounds beyond the axis are brought back to it.
fn span(side: usize, start: i64, end: i64, step: i64) -> Result<Span, NodeError> {
    let side = signed(side);
    let from_front = |place: i64| if place < 0 { place.saturating_add(side) } else { place };
    let (start, end) = (from_front(start), from_front(end));
    let (start, distance) = match step {
        1.. => {
            let start = start.clamp(0, side);
            (start, end.clamp(0, side).saturating_sub(start))
        }
        0 => return Err(NodeError::Range { what: "the step", found: step }),
        _ => {
            let start = start.clamp(0, (side - 1).max(0));
            (start, start.saturating_sub(end.clamp(-1, (side - 1).max(-1))))
        }
    };
    let count =
        if side == 0 { 0 } else { distance.max(0).unsigned_abs().div_ceil(step.unsigned_abs()) };
    let count =
        usize::try_from(count).map_err(|_| NodeError::Range { what: "the end", found: end })?;
    Ok(Span { start: size(start, "the start")?, step, count })
}

/// The parts are an attribute before opset 13 and an operand since; without them they are equal.
fn split(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(1, 2)?;
    let shape = context.operand(0)?.shape;
    let axis = axis(context.int_or("axis", 0)?, shape.len())?;
    let side = shape.get(axis).copied().unwrap_or_default();
    let parts = context.node.outputs.len();
    let sides = match context.ints_of("split", 1, "the parts")? {
        Some(list) => sizes(list, parts, "the parts")?,
        None => {
            // Of a side that does not divide, the last part is the smaller one.
            let part = side.div_ceil(parts.max(1));
            (0..parts).map(|at| part.min(side.saturating_sub(at.saturating_mul(part)))).collect()
        }
    };
    Ok(context.operation(Op::Split { axis, sides }, 1))
}

/// Pads and the value are attributes before opset 11 and operands since.
fn pad(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(1, 4)?;
    let rank = context.rank()?;
    let list = required(context.ints_of("pads", 1, "the pads")?, 1)?;
    let listed = match context.constant_ints(3, "the axes")? {
        Some(listed) => {
            axes(listed, rank)?; // refuses one that occurs twice
            listed.iter().map(|found| axis(*found, rank)).collect::<Result<Vec<_>, _>>()?
        }
        None => (0..rank).collect(),
    };
    if list.iter().any(|pad| *pad < 0) {
        return Err(NodeError::Form { what: "a negative pad, which is a slice," });
    }
    let pads = sizes(list, 2 * listed.len(), "the pads")?;
    let (starts, ends) = pads.split_at(listed.len());
    let (mut before, mut after) = (vec![0; rank], vec![0; rank]);
    for ((axis, start), end) in listed.iter().zip(starts).zip(ends) {
        if let (Some(first), Some(last)) = (before.get_mut(*axis), after.get_mut(*axis)) {
            (*first, *last) = (*start, *end);
        }
    }
    let mode = match context.text_or("mode", "constant")? {
        "constant" => {
            let value = context.constant_number(2, "the value")?;
            let value = value.map_or_else(|| context.float_or("value", 0.0), Ok)?;
            PadMode::Constant(value)
        }
        "reflect" => PadMode::Reflect,
        "edge" => PadMode::Edge,
        found => {
            return Err(NodeError::AttributeText { name: "mode", found: found.to_owned() });
        }
    };
    Ok(context.operation(Op::Pad { mode, before, after }, 1))
}

/// A zero in the target keeps the side of the operand, and -1 stands for what is left.
fn reshape(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(1, 2)?;
    let from = context.operand(0)?.shape;
    let target = required(context.ints_of("shape", 1, "the shape")?, 1)?;
    let zero_is_zero = context.flag_or("allowzero", false)?;
    if target.len() > RANK_MAX {
        let (found, expected) = (target.len(), RANK_MAX);
        return Err(NodeError::Length { what: "the shape", found, expected });
    }
    let mut shape = Vec::with_capacity(target.len());
    let mut open = None;
    for (at, found) in target.iter().enumerate() {
        shape.push(match found {
            0 if !zero_is_zero => *from
                .get(at)
                .ok_or(NodeError::Range { what: "a side that is to be kept", found: signed(at) })?,
            -1 if open.is_none() => {
                open = Some(at);
                1
            }
            _ => size(*found, "a side")?,
        });
    }
    let total = elements(from, usize::MAX)?;
    let known = elements(&shape, usize::MAX)?;
    if let Some(side) = open.and_then(|at| shape.get_mut(at)) {
        // An operand without elements leaves nothing to be found out.
        *side = total.checked_div(known).unwrap_or_default();
    }
    reshaped(context, shape)
}

/// A reshape to a shape that must hold all elements.
fn reshaped(context: &Context<'_>, shape: Vec<usize>) -> Result<Meaning, NodeError> {
    let from = context.operand(0)?.shape;
    if shape.len() > RANK_MAX {
        let (found, expected) = (shape.len(), RANK_MAX);
        return Err(NodeError::Length { what: "the shape", found, expected });
    }
    if elements(from, usize::MAX)? != elements(&shape, usize::MAX)? {
        return Err(NodeError::Shapes { left: from.to_vec(), right: shape });
    }
    Ok(context.operation(Op::Reshape { shape }, 1))
}

fn flatten(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(1, 1)?;
    let shape = context.operand(0)?.shape;
    // One more than an axis: everything may come to stand before the cut.
    let found = context.int_or("axis", 1)?;
    let at = if found == signed(shape.len()) { shape.len() } else { axis(found, shape.len())? };
    let (outer, inner) = shape.split_at(at);
    reshaped(context, vec![elements(outer, usize::MAX)?, elements(inner, usize::MAX)?])
}

fn squeeze(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(1, 2)?;
    let shape = context.operand(0)?.shape;
    let gone = match context.ints_of("axes", 1, "the axes")? {
        Some(list) => axes(list, shape.len())?,
        None => (0..shape.len()).filter(|axis| shape.get(*axis) == Some(&1)).collect(),
    };
    let left = shape.iter().enumerate().filter(|(axis, _)| !gone.contains(axis));
    reshaped(context, left.map(|(_, side)| *side).collect())
}

fn unsqueeze(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(1, 2)?;
    let shape = context.operand(0)?.shape;
    let list = required(context.ints_of("axes", 1, "the axes")?, 1)?;
    let rank = shape.len() + list.len();
    if rank > RANK_MAX {
        return Err(NodeError::Length { what: "the axes", found: rank, expected: RANK_MAX });
    }
    let new = axes(list, rank)?;
    let mut old = shape.iter();
    let side = |axis| if new.contains(&axis) { 1 } else { old.next().copied().unwrap_or(1) };
    reshaped(context, (0..rank).map(side).collect())
}

fn transpose(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(1, 1)?;
    let rank = context.rank()?;
    let order = match context.ints("perm")? {
        None => (0..rank).rev().collect(),
        Some(list) => {
            if axes(list, rank)?.len() != rank {
                let found = list.len();
                return Err(NodeError::Length { what: "the order", found, expected: rank });
            }
            list.iter().map(|found| axis(*found, rank)).collect::<Result<Vec<_>, _>>()?
        }
    };
    Ok(context.operation(Op::Transpose { order }, 1))
}

fn expand(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(2, 2)?;
    let asked = required(context.constant_ints(1, "the shape")?, 1)?;
    if asked.len() > RANK_MAX {
        let (found, expected) = (asked.len(), RANK_MAX);
        return Err(NodeError::Length { what: "the shape", found, expected });
    }
    let asked = sizes(asked, asked.len(), "a side")?;
    let shape = broadcast(context.operand(0)?.shape, &asked)?;
    Ok(context.operation(Op::Expand { shape }, 1))
}

fn tile(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(2, 2)?;
    let list = required(context.constant_ints(1, "the repeats")?, 1)?;
    let repeats = sizes(list, context.rank()?, "the repeats")?;
    Ok(context.operation(Op::Tile { repeats }, 1))
}

/// A shape is known before anything runs, so it is a constant whatever the operand is.
fn shape(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(1, 1)?;
    let shape = context.operand(0)?.shape;
    let rank = signed(shape.len());
    let place = |found: i64| {
        let from_front = if found < 0 { found.saturating_add(rank) } else { found };
        usize::try_from(from_front.clamp(0, rank)).unwrap_or_default()
    };
    let start = place(context.int_or("start", 0)?);
    let end = place(context.int_or("end", rank)?).max(start);
    let sides: Vec<i64> =
        shape.get(start..end).unwrap_or_default().iter().map(|side| signed(*side)).collect();
    ints(vec![sides.len()], sides)
}

fn constant_of_shape(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(1, 1)?;
    let list = required(context.constant_ints(0, "the shape")?, 0)?;
    if list.len() > RANK_MAX {
        let (found, expected) = (list.len(), RANK_MAX);
        return Err(NodeError::Length { what: "the shape", found, expected });
    }
    let shape = sizes(list, list.len(), "a side")?;
    let count = elements(&shape, context.elements_max)?;
    let (dtype, data) = match context.tensor("value")? {
        None => (Dtype::Float, Data::Float(vec![0.0; count])),
        Some((dtype, value)) => {
            let wrong = NodeError::Length { what: "the value", found: value.len(), expected: 1 };
            let data = match value.data() {
                Data::Float(values) => match values.as_slice() {
                    [value] => Data::Float(vec![*value; count]),
                    [..] => return Err(wrong),
                },
                Data::Int(values) => match values.as_slice() {
                    [value] => Data::Int(vec![*value; count]),
                    [..] => return Err(wrong),
                },
            };
            (dtype, data)
        }
    };
    Ok(Meaning::Constant(dtype, Array::new(shape, data)?))
}

fn range(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(3, 3)?;
    let bound = |index| {
        let what = "a bound of the range";
        let array = context.constant(index, what)?.ok_or(NodeError::OperandMissing { index })?;
        if array.len() == 1 {
            Ok(array.data())
        } else {
            Err(NodeError::Length { what, found: array.len(), expected: 1 })
        }
    };
    let max = context.elements_max;
    match (bound(0)?, bound(1)?, bound(2)?) {
        (Data::Int(start), Data::Int(limit), Data::Int(step)) => {
            let first = |list: &[i64]| list.first().copied().unwrap_or_default();
            let (start, limit, step) = (first(start), first(limit), first(step));
            let values = int_range(start, limit, step, max)?;
            ints(vec![values.len()], values)
        }
        (Data::Float(start), Data::Float(limit), Data::Float(step)) => {
            let first = |list: &[f32]| list.first().copied().unwrap_or_default();
            let (start, step) = (first(start), first(step));
            let count = ((first(limit) - start) / step).ceil().max(0.0);
            if !count.is_finite() || count as usize > max {
                return Err(NodeError::Size { found: None, max });
            }
            let values: Vec<f32> = (0..count as usize).map(|at| start + at as f32 * step).collect();
            let array = Array::new(vec![values.len()], Data::Float(values))?;
            Ok(Meaning::Constant(Dtype::Float, array))
        }
        (_, _, _) => {
            Err(NodeError::Kind { index: 1, found: Dtype::Float, expected: "one kind for all" })
        }
    }
}

fn int_range(start: i64, limit: i64, step: i64, max: usize) -> Result<Vec<i64>, NodeError> {
    if step == 0 {
        return Err(NodeError::Range { what: "the step", found: step });
    }
    let distance = i128::from(limit) - i128::from(start);
    let step_wide = i128::from(step);
    let signum = step_wide.signum();
    let count = (distance * signum + step_wide.abs() - 1).div_euclid(step_wide.abs()).max(0);
    let count = usize::try_from(count).ok().filter(|count| *count <= max);
    let count = count.ok_or(NodeError::Size { found: count, max })?;
    Ok((0..count).map(|at| start.wrapping_add(step.wrapping_mul(signed(at)))).collect())
}

fn block(context: &Context<'_>) -> Result<usize, NodeError> {
    context.count(1, 1)?;
    let found = context.int("blocksize")?;
    let found = found.ok_or(NodeError::AttributeMissing { name: "blocksize" })?;
    match size(found, "the block")? {
        0 => Err(NodeError::Range { what: "the block", found }),
        block => Ok(block),
    }
}

/// Opset 10 has the factors where opset 11 has the region of interest, and one rounding only.
fn resize(context: &Context<'_>) -> Result<Meaning, NodeError> {
    let words = [("nearest", false), ("linear", true)];
    if context.opset < 11 {
        context.count(2, 2)?;
        let linear = context.word("mode", "nearest", &words)?;
        return scaled(context, old_mode(linear), Coordinates::Asymmetric, 1);
    }
    context.count(1, 4)?;
    context.unset("antialias", "antialiasing")?;
    if context.text_or("keep_aspect_ratio_policy", "stretch")? != "stretch" {
        return Err(NodeError::Form { what: "keeping the aspect ratio" });
    }
    let coordinates = context.word(
        "coordinate_transformation_mode",
        "half_pixel",
        &[
            ("half_pixel", Coordinates::HalfPixel),
            ("asymmetric", Coordinates::Asymmetric),
            ("pytorch_half_pixel", Coordinates::PytorchHalfPixel),
            ("align_corners", Coordinates::AlignCorners),
        ],
    )?;
    let mode = if context.word("mode", "nearest", &words)? {
        ResizeMode::Linear
    } else {
        ResizeMode::Nearest(context.word(
            "nearest_mode",
            "round_prefer_floor",
            &[
                ("round_prefer_floor", Nearest::PreferFloor),
                ("round_prefer_ceil", Nearest::PreferCeil),
                ("floor", Nearest::Floor),
                ("ceil", Nearest::Ceil),
            ],
        )?)
    };
    scaled(context, mode, coordinates, 2)
}

fn upsample(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(1, 2)?;
    let words = [("nearest", false), ("linear", true), ("bilinear", true)];
    let linear = context.word("mode", "nearest", &words)?;
    scaled(context, old_mode(linear), Coordinates::Asymmetric, 1)
}

fn old_mode(linear: bool) -> ResizeMode {
    if linear { ResizeMode::Linear } else { ResizeMode::Nearest(Nearest::Floor) }
}

/// The factors stand in an attribute or at operand `index`; behind it may stand sizes instead.
fn scaled(
    context: &Context<'_>,
    mode: ResizeMode,
    coordinates: Coordinates,
    index: usize,
) -> Result<Meaning, NodeError> {
    let from = context.operand(0)?.shape;
    let listed = match context.ints("axes")? {
        Some(list) => {
            list.iter().map(|found| axis(*found, from.len())).collect::<Result<_, _>>()?
        }
        None => (0..from.len()).collect::<Vec<usize>>(),
    };
    let stated = match context.floats("scales")? {
        Some(scales) => Some(scales),
        None => match context.constant(index, "the factors")?.map(Array::data) {
            Some(Data::Float(scales)) => Some(scales.as_slice()),
            Some(Data::Int(_)) => {
                return Err(NodeError::Kind { index, found: Dtype::Int, expected: "floats" });
            }
            None => None,
        },
    };
    let (mut scales, mut shape) = (vec![1.0; from.len()], from.to_vec());
    // Files that state sizes leave the factors out, or empty.
    if let Some(stated) = stated.filter(|stated| !stated.is_empty()) {
        if stated.len() != listed.len() {
            let (found, expected) = (stated.len(), listed.len());
            return Err(NodeError::Length { what: "the factors", found, expected });
        }
        for (axis, scale) in listed.iter().zip(stated) {
            set(&mut scales, *axis, *scale);
            let side = from.get(*axis).copied().unwrap_or_default();
            set(&mut shape, *axis, scaled_side(side, *scale)?);
        }
    } else {
        let asked = required(context.constant_ints(index + 1, "the sizes")?, index + 1)?;
        let asked = sizes(asked, listed.len(), "the sizes")?;
        for (axis, asked) in listed.iter().zip(asked) {
            let side = from.get(*axis).copied().unwrap_or_default();
            set(&mut scales, *axis, asked as f32 / side as f32);
            set(&mut shape, *axis, asked);
        }
    }
    Ok(context.operation(Op::Resize { mode, coordinates, scales, shape }, 1))
}

fn set<T>(list: &mut [T], at: usize, value: T) {
    if let Some(place) = list.get_mut(at) {
        *place = value;
    }
}

/// A side times a factor, rounded down.
fn scaled_side(side: usize, scale: f32) -> Result<usize, NodeError> {
    let result = (side as f32 * scale).floor();
    if (0.0..1e9).contains(&result) {
        Ok(result as usize)
    } else {
        Err(NodeError::Form { what: "a factor that is negative, infinite or too large" })
    }
}
