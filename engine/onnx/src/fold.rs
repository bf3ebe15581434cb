//! Constants are computed while importing.
//!
//! Exporters leave long chains of integer arithmetic on shapes in their files. Whatever only moves
//! elements or computes with integers is done here, in 64 bits and checked. The rest, such as the
//! product of two weight matrices, is done by the float engine.

use tg_tensor::{Array, Data};

use crate::dtype::Dtype;
use crate::error::NodeError;
use crate::float::Engine;
use crate::op::{Binary, Op, Reduction, Unary};
use crate::shape::Type;

/// An operand with its type.
pub(crate) type Operand<'a> = Option<(Type, &'a Array)>;

/// Results above this many elements are left to the float engine, which moves them faster and
/// without a table of positions. Shapes, indices and masks stay well below.
const DIRECT_ELEMENTS_MAX: usize = 1 << 20;

/// Computes an operation whose operands are all constant and whose result types are known.
pub(crate) fn evaluate(
    engine: &Engine,
    op: &Op,
    operands: &[Operand<'_>],
    results: &[Type],
) -> Result<Vec<Array>, NodeError> {
    // Shapes without elements may still have large sides, which nothing should walk along.
    if results.iter().all(|result| result.shape.contains(&0)) {
        let empty = |result: &Type| {
            let float = result.dtype.is_float();
            let data = if float { Data::Float(vec![]) } else { Data::Int(vec![]) };
            Array::new(result.shape.clone(), data)
        };
        return Ok(results.iter().map(empty).collect::<Result<_, _>>()?);
    }
    let count = |shape: &[usize]| shape.iter().product::<usize>();
    let small = results.iter().all(|result| count(&result.shape) <= DIRECT_ELEMENTS_MAX)
        && operands.iter().flatten().all(|(_, array)| array.len() <= DIRECT_ELEMENTS_MAX);
    let free = matches!(op, Op::Identity | Op::Reshape { .. } | Op::Cast { .. });
    if let [result] = results
        && (small || free)
        && let Some(data) = direct(op, operands, result)?
    {
        return Ok(vec![Array::new(result.shape.clone(), data)?]);
    }
    Ok(engine.evaluate(op, operands, results)?)
}

/// About how many steps the float engine needs, to bound them before it starts.
pub(crate) fn work(op: &Op, operands: &[Operand<'_>], results: &[Type]) -> u64 {
    let count =
        |shape: &[usize]| shape.iter().fold(1_u64, |n, side| n.saturating_mul(*side as u64));
    let shape = |index: usize| {
        operands.get(index).and_then(Option::as_ref).map_or(&[][..], |(kind, _)| &kind.shape)
    };
    let made = results.iter().map(|result| count(&result.shape)).sum::<u64>();
    let read = (0..operands.len()).map(|index| count(shape(index))).sum::<u64>();
    let inner = match op {
        Op::Gemm { transpose_left, .. } => {
            let axis = usize::from(!*transpose_left);
            shape(0).get(axis).map_or(1, |side| *side as u64)
        }
        Op::MatMul => shape(0).last().map_or(1, |side| *side as u64),
        Op::Conv { .. } => count(shape(1).get(1..).unwrap_or_default()),
        Op::ConvTranspose { .. } => count(shape(1)),
        Op::Pool { window, .. } => count(&window.kernel),
        Op::Unary(_)
        | Op::Binary(_)
        | Op::Softmax { .. }
        | Op::LayerNorm { .. }
        | Op::InstanceNorm { .. }
        | Op::GroupNorm { .. }
        | Op::BatchNorm { .. }
        | Op::GlobalPool(_)
        | Op::Reduce { .. }
        | Op::ArgExtreme { .. }
        | Op::Concat { .. }
        | Op::Slice { .. }
        | Op::Split { .. }
        | Op::Pad { .. }
        | Op::Reshape { .. }
        | Op::Transpose { .. }
        | Op::Expand { .. }
        | Op::Tile { .. }
        | Op::Gather { .. }
        | Op::Where
        | Op::Cast { .. }
        | Op::Identity
        | Op::Resize { .. }
        | Op::DepthToSpace { .. }
        | Op::SpaceToDepth { .. }
        | Op::Quantize { .. }
        | Op::Dequantize { .. } => 1,
    };
    made.saturating_mul(inner).saturating_add(read)
}

/// Computes what needs no float arithmetic, or nothing if it does.
fn direct(op: &Op, operands: &[Operand<'_>], result: &Type) -> Result<Option<Data>, NodeError> {
    let Some(Some((kind, first))) = operands.first() else { return Ok(None) };
    let shape = &result.shape;
    let moved = |base: i64, strides: &[i64]| strided(first.data(), shape, base, strides);
    Ok(match op {
        Op::Identity | Op::Reshape { .. } => Some(first.data().clone()),
        Op::Cast { to } => Some(cast(first.data(), *to)),
        Op::Slice { spans } => {
            let mut base = 0_i64;
            let mut steps = Vec::with_capacity(spans.len());
            for (span, stride) in spans.iter().zip(strides(&kind.shape)) {
                base += i64::try_from(span.start).unwrap_or_default() * stride;
                steps.push(span.step.saturating_mul(stride));
            }
            Some(moved(base, &steps))
        }
        Op::Transpose { order } => {
            let own = strides(&kind.shape);
            let turned: Vec<i64> =
                order.iter().filter_map(|axis| own.get(*axis).copied()).collect();
            Some(moved(0, &turned))
        }
        Op::Expand { .. } => Some(moved(0, &broadcast_strides(&kind.shape, shape))),
        Op::Concat { axis } => Some(concat(operands, *axis)),
        Op::Gather { axis } => gather(kind, first.data(), operands.get(1), *axis)?,
        Op::Where => choose(operands, shape),
        Op::Binary(binary) => binary_ints(*binary, operands, shape)?,
        Op::Unary(unary) => unary_ints(*unary, first.data())?,
        Op::Reduce { kind: reduction, axes, .. } => {
            reduce_ints(*reduction, axes, &kind.shape, first.data())?
        }
        Op::Gemm { .. }
        | Op::MatMul
        | Op::Conv { .. }
        | Op::ConvTranspose { .. }
        | Op::Softmax { .. }
        | Op::LayerNorm { .. }
        | Op::InstanceNorm { .. }
        | Op::GroupNorm { .. }
        | Op::BatchNorm { .. }
        | Op::Pool { .. }
        | Op::GlobalPool(_)
        | Op::ArgExtreme { .. }
        | Op::Split { .. }
        | Op::Pad { .. }
        | Op::Tile { .. }
        | Op::Resize { .. }
        | Op::DepthToSpace { .. }
        | Op::SpaceToDepth { .. }
        | Op::Quantize { .. }
        | Op::Dequantize { .. } => None,
    })
}

/// How far apart neighbours along each axis are.
fn strides(shape: &[usize]) -> Vec<i64> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1_i64;
    for (stride, side) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step = step.saturating_mul(i64::try_from(*side).unwrap_or(i64::MAX));
    }
    strides
}

/// The strides of an operand seen in a larger shape: none where it is repeated.
fn broadcast_strides(from: &[usize], to: &[usize]) -> Vec<i64> {
    let mut result = vec![0; to.len()];
    let own = strides(from);
    for ((place, stride), side) in
        result.iter_mut().rev().zip(own.iter().rev()).zip(from.iter().rev())
    {
        *place = if *side == 1 { 0 } else { *stride };
    }
    result
}

/// The positions that a strided view of a shape visits, in row-major order.
fn positions(shape: &[usize], base: i64, strides: &[i64]) -> Vec<usize> {
    let mut places = vec![base];
    for (side, stride) in shape.iter().zip(strides) {
        let steps: Vec<i64> =
            (0..*side).map(|at| stride * i64::try_from(at).unwrap_or_default()).collect();
        places =
            places.iter().flat_map(|place| steps.iter().map(move |step| place + step)).collect();
    }
    places.iter().map(|place| usize::try_from(*place).unwrap_or(usize::MAX)).collect()
}

fn strided(data: &Data, shape: &[usize], base: i64, strides: &[i64]) -> Data {
    pick(data, &positions(shape, base, strides))
}

fn pick(data: &Data, places: &[usize]) -> Data {
    match data {
        Data::Float(values) => {
            Data::Float(places.iter().filter_map(|place| values.get(*place).copied()).collect())
        }
        Data::Int(values) => {
            Data::Int(places.iter().filter_map(|place| values.get(*place).copied()).collect())
        }
    }
}

fn cast(data: &Data, to: Dtype) -> Data {
    match (data, to) {
        (Data::Float(values), Dtype::Float) => Data::Float(values.clone()),
        (Data::Int(values), Dtype::Float) => {
            Data::Float(values.iter().map(|value| *value as f32).collect())
        }
        (Data::Float(values), Dtype::Bool) => {
            Data::Int(values.iter().map(|value| i64::from(*value != 0.0)).collect())
        }
        // Toward zero, and at most to the ends of the range.
        (Data::Float(values), Dtype::Int | Dtype::Int8 | Dtype::Uint8) => {
            let values = values.iter().map(|value| *value as i64);
            Data::Int(values.map(|value| narrow(value, to)).collect())
        }
        (Data::Int(values), Dtype::Int | Dtype::Bool | Dtype::Int8 | Dtype::Uint8) => {
            Data::Int(values.iter().map(|value| narrow(*value, to)).collect())
        }
    }
}

/// An integer as another kind. Codes keep the low eight bits, as a cast in C does.
fn narrow(value: i64, to: Dtype) -> i64 {
    match to {
        Dtype::Bool => i64::from(value != 0),
        Dtype::Int8 => i64::from(value as i8),
        Dtype::Uint8 => i64::from(value as u8),
        Dtype::Int | Dtype::Float => value,
    }
}

fn concat(operands: &[Operand<'_>], axis: usize) -> Data {
    let parts: Vec<&(Type, &Array)> = operands.iter().flatten().collect();
    let outer: usize = parts
        .first()
        .map_or(1, |(kind, _)| kind.shape.get(..axis).unwrap_or_default().iter().product());
    let mut floats = Vec::new();
    let mut ints = Vec::new();
    for row in 0..outer {
        for (kind, array) in &parts {
            let width: usize = kind.shape.get(axis..).unwrap_or_default().iter().product();
            let range = row * width..(row + 1) * width;
            match array.data() {
                Data::Float(values) => {
                    floats.extend_from_slice(values.get(range).unwrap_or_default());
                }
                Data::Int(values) => ints.extend_from_slice(values.get(range).unwrap_or_default()),
            }
        }
    }
    let is_float = parts.first().is_some_and(|(kind, _)| kind.dtype.is_float());
    if is_float { Data::Float(floats) } else { Data::Int(ints) }
}

/// An index counted from the front, if it is within an axis.
pub(crate) fn resolve(index: i64, side: usize) -> Result<usize, NodeError> {
    let wrong = NodeError::Index { found: index, side };
    let length = i64::try_from(side).unwrap_or(i64::MAX);
    let from_front = if index < 0 { index.saturating_add(length) } else { index };
    usize::try_from(from_front).ok().filter(|place| *place < side).ok_or(wrong)
}

fn gather(
    kind: &Type,
    data: &Data,
    indices: Option<&Operand<'_>>,
    axis: usize,
) -> Result<Option<Data>, NodeError> {
    let Some(Some((_, indices))) = indices else { return Ok(None) };
    let Data::Int(indices) = indices.data() else { return Ok(None) };
    let side = kind.shape.get(axis).copied().unwrap_or_default();
    let outer: usize = kind.shape.get(..axis).unwrap_or_default().iter().product();
    let inner: usize = kind.shape.get(axis + 1..).unwrap_or_default().iter().product();
    let rows = indices.iter().map(|index| resolve(*index, side)).collect::<Result<Vec<_>, _>>()?;
    let mut places = Vec::with_capacity(outer * rows.len() * inner);
    for block in 0..outer {
        for row in &rows {
            let start = (block * side + row) * inner;
            places.extend(start..start + inner);
        }
    }
    Ok(Some(pick(data, &places)))
}

fn choose(operands: &[Operand<'_>], shape: &[usize]) -> Option<Data> {
    let [Some((mask_kind, mask)), Some((left_kind, left)), Some((right_kind, right))] = operands
    else {
        return None;
    };
    let view =
        |kind: &Type, data: &Data| strided(data, shape, 0, &broadcast_strides(&kind.shape, shape));
    let Data::Int(mask) = view(mask_kind, mask.data()) else { return None };
    match (view(left_kind, left.data()), view(right_kind, right.data())) {
        (Data::Float(left), Data::Float(right)) => {
            let both = left.iter().zip(&right).zip(&mask);
            Some(Data::Float(both.map(|((a, b), mask)| if *mask != 0 { *a } else { *b }).collect()))
        }
        (Data::Int(left), Data::Int(right)) => {
            let both = left.iter().zip(&right).zip(&mask);
            Some(Data::Int(both.map(|((a, b), mask)| if *mask != 0 { *a } else { *b }).collect()))
        }
        (Data::Float(_), Data::Int(_)) | (Data::Int(_), Data::Float(_)) => None,
    }
}

fn binary_ints(
    binary: Binary,
    operands: &[Operand<'_>],
    shape: &[usize],
) -> Result<Option<Data>, NodeError> {
    let [Some((left_kind, left)), Some((right_kind, right))] = operands else { return Ok(None) };
    if left_kind.dtype.is_float() || right_kind.dtype.is_float() {
        return Ok(None);
    }
    let view =
        |kind: &Type, data: &Data| strided(data, shape, 0, &broadcast_strides(&kind.shape, shape));
    let (Data::Int(left), Data::Int(right)) =
        (view(left_kind, left.data()), view(right_kind, right.data()))
    else {
        return Ok(None);
    };
    let values = left.iter().zip(&right).map(|(a, b)| int_pair(binary, *a, *b));
    let values: Option<Vec<i64>> = values.collect();
    values.map(Data::Int).map(Some).ok_or(NodeError::Arithmetic)
}

/// Two integers, or nothing if the result does not exist or does not fit.
fn int_pair(binary: Binary, a: i64, b: i64) -> Option<i64> {
    Some(match binary {
        Binary::Add => a.checked_add(b)?,
        Binary::Sub => a.checked_sub(b)?,
        Binary::Mul => a.checked_mul(b)?,
        Binary::Div => a.checked_div(b)?,
        Binary::Pow => a.checked_pow(u32::try_from(b).ok()?)?,
        Binary::PRelu => {
            if a < 0 {
                a.checked_mul(b)?
            } else {
                a
            }
        }
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::And => i64::from(a != 0 && b != 0),
        Binary::Or => i64::from(a != 0 || b != 0),
        Binary::Xor => i64::from((a != 0) != (b != 0)),
        Binary::Equal => i64::from(a == b),
        Binary::Less => i64::from(a < b),
        Binary::LessOrEqual => i64::from(a <= b),
        Binary::Greater => i64::from(a > b),
        Binary::GreaterOrEqual => i64::from(a >= b),
    })
}

fn unary_ints(unary: Unary, data: &Data) -> Result<Option<Data>, NodeError> {
    let Data::Int(values) = data else { return Ok(None) };
    let apply = |value: i64| match unary {
        Unary::Abs => value.checked_abs(),
        Unary::Neg => value.checked_neg(),
        Unary::Sign => Some(value.signum()),
        Unary::Not => Some(i64::from(value == 0)),
        // An infinite bound saturates to the end of the range, which is no bound.
        Unary::Clip { min, max } => Some(value.max(min as i64).min(max as i64)),
        Unary::Relu
        | Unary::LeakyRelu { .. }
        | Unary::Elu { .. }
        | Unary::Selu { .. }
        | Unary::Celu { .. }
        | Unary::Softplus
        | Unary::Softsign
        | Unary::Sigmoid
        | Unary::HardSigmoid { .. }
        | Unary::HardSwish
        | Unary::Tanh
        | Unary::Erf
        | Unary::Gelu { .. }
        | Unary::Mish
        | Unary::Sqrt
        | Unary::Exp
        | Unary::Log
        | Unary::Reciprocal
        | Unary::Floor
        | Unary::Ceil
        | Unary::Round => None, // of floats only, as `shape` has checked
    };
    let values: Option<Vec<i64>> = values.iter().map(|value| apply(*value)).collect();
    values.map(Data::Int).map(Some).ok_or(NodeError::Arithmetic)
}

fn reduce_ints(
    reduction: Reduction,
    axes: &[usize],
    shape: &[usize],
    data: &Data,
) -> Result<Option<Data>, NodeError> {
    let Data::Int(values) = data else { return Ok(None) };
    let kept: Vec<usize> = (0..shape.len()).filter(|axis| !axes.contains(axis)).collect();
    let kept_shape: Vec<usize> = kept.iter().filter_map(|axis| shape.get(*axis).copied()).collect();
    let mut steps = vec![0; shape.len()];
    for (axis, stride) in kept.iter().zip(strides(&kept_shape)) {
        if let Some(step) = steps.get_mut(*axis) {
            *step = stride;
        }
    }
    let mut totals: Vec<Option<i64>> = vec![None; kept_shape.iter().product()];
    for (value, place) in values.iter().zip(positions(shape, 0, &steps)) {
        let Some(total) = totals.get_mut(place) else { continue };
        let step = match reduction {
            Reduction::Sum => total.unwrap_or(0).checked_add(*value),
            Reduction::Prod => total.unwrap_or(1).checked_mul(*value),
            Reduction::Max => Some(total.map_or(*value, |sofar| sofar.max(*value))),
            Reduction::Min => Some(total.map_or(*value, |sofar| sofar.min(*value))),
            Reduction::SumSquare => {
                value.checked_mul(*value).and_then(|square| total.unwrap_or(0).checked_add(square))
            }
            Reduction::Mean | Reduction::L1 | Reduction::L2 => None, // of floats only
        };
        *total = Some(step.ok_or(NodeError::Arithmetic)?);
    }
    Ok(Some(Data::Int(totals.into_iter().map(Option::unwrap_or_default).collect())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Span;

    fn ints(shape: &[usize], values: &[i64]) -> (Type, Array) {
        let kind = Type { dtype: Dtype::Int, shape: shape.to_vec() };
        (kind, Array::new(shape.to_vec(), Data::Int(values.to_vec())).unwrap())
    }

    fn check(op: &Op, operands: &[(Type, Array)], shape: &[usize], expected: &[i64]) {
        let operands: Vec<Operand<'_>> =
            operands.iter().map(|(kind, array)| Some((kind.clone(), array))).collect();
        let result = Type { dtype: Dtype::Int, shape: shape.to_vec() };
        let data = direct(op, &operands, &result).unwrap();
        assert_eq!(data, Some(Data::Int(expected.to_vec())), "{op:?}");
    }

    #[test]
    fn elements_are_moved_as_the_operations_say() {
        let table = ints(&[2, 3], &[1, 2, 3, 4, 5, 6]);
        let turned = Op::Transpose { order: vec![1, 0] };
        check(&turned, std::slice::from_ref(&table), &[3, 2], &[1, 4, 2, 5, 3, 6]);
        let back = Op::Slice {
            spans: vec![
                Span { start: 1, step: -1, count: 2 },
                Span { start: 0, step: 2, count: 2 },
            ],
        };
        check(&back, std::slice::from_ref(&table), &[2, 2], &[4, 6, 1, 3]);
        let rows = ints(&[2], &[-1, 0]);
        check(&Op::Gather { axis: 1 }, &[table.clone(), rows], &[2, 2], &[3, 1, 6, 4]);
        let more = ints(&[2, 1], &[7, 8]);
        check(&Op::Concat { axis: 1 }, &[table, more], &[2, 4], &[1, 2, 3, 7, 4, 5, 6, 8]);
        let column = ints(&[2, 1], &[1, 2]);
        check(&Op::Expand { shape: vec![2, 2] }, &[column], &[2, 2], &[1, 1, 2, 2]);
    }

    #[test]
    fn integers_are_computed_in_64_bits_and_checked() {
        let pair = |binary, a, b| direct_pair(binary, a, b);
        assert_eq!(pair(Binary::Mul, 1 << 40, 4), Ok(Some(1 << 42)));
        assert_eq!(pair(Binary::Div, -7, 2), Ok(Some(-3)));
        assert_eq!(pair(Binary::Div, 1, 0), Err(()));
        assert_eq!(pair(Binary::Add, i64::MAX, 1), Err(()));
    }

    fn direct_pair(binary: Binary, a: i64, b: i64) -> Result<Option<i64>, ()> {
        let (left, right) = (ints(&[], &[a]), ints(&[1], &[b]));
        let operands = [Some((left.0, &left.1)), Some((right.0, &right.1))];
        match binary_ints(binary, &operands, &[1]) {
            Ok(Some(Data::Int(values))) => Ok(values.first().copied()),
            Ok(_) => Ok(None),
            Err(_) => Err(()),
        }
    }

    #[test]
    fn sums_over_axes_keep_the_others() {
        let table = ints(&[2, 3], &[1, 2, 3, 4, 5, 6]);
        let sum =
            |axes: &[usize]| Op::Reduce { kind: Reduction::Sum, axes: axes.to_vec(), keep: false };
        check(&sum(&[0]), std::slice::from_ref(&table), &[3], &[5, 7, 9]);
        check(&sum(&[1]), std::slice::from_ref(&table), &[2], &[6, 15]);
        check(&sum(&[0, 1]), &[table], &[], &[21]);
    }
}
