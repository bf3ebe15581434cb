//! Shapes and kinds of results, found before anything is computed or reserved.
//!
//! [`infer`] checks the operands of an operation against each other. After it, the operation can
//! be carried out: nothing that comes later has to ask whether shapes fit. All arithmetic is
//! checked, so a shape that overflows is an error like any other.

mod window;

use crate::dtype::Dtype;
use crate::error::NodeError;
use crate::op::{Binary, Op, PadMode, Reduction, Unary};
use crate::proto::RANK_MAX;

/// Kind and shape of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
}

/// The operands' types, nothing where one is left out.
pub(crate) struct Operands<'a>(pub(crate) &'a [Option<Type>]);

impl<'a> Operands<'a> {
    fn get(&self, index: usize) -> Result<&'a Type, NodeError> {
        self.optional(index).ok_or(NodeError::OperandMissing { index })
    }

    fn optional(&self, index: usize) -> Option<&'a Type> {
        self.0.get(index).and_then(Option::as_ref)
    }

    fn shape(&self, index: usize) -> Result<&'a [usize], NodeError> {
        self.get(index).map(|operand| operand.shape.as_slice())
    }

    /// The shape of an operand that must hold floats.
    fn floats(&self, index: usize) -> Result<&'a [usize], NodeError> {
        let operand = self.get(index)?;
        if operand.dtype == Dtype::Float {
            Ok(&operand.shape)
        } else {
            Err(NodeError::Kind { index, found: operand.dtype, expected: "float" })
        }
    }

    /// Refuses operands of another kind than the first.
    fn same_kind(&self, indices: std::ops::Range<usize>) -> Result<Dtype, NodeError> {
        let first = self.get(indices.start)?.dtype;
        for index in indices {
            let found = self.get(index)?.dtype;
            if found != first {
                return Err(NodeError::Kind { index, found, expected: "the kind of the first" });
            }
        }
        Ok(first)
    }

    /// An operand that must be a float vector of one length, if it is there.
    fn vector(&self, index: usize, length: usize) -> Result<(), NodeError> {
        if self.optional(index).is_none() {
            return Ok(());
        }
        let shape = self.floats(index)?;
        if shape == [length] { Ok(()) } else { Err(mismatch(shape, &[length])) }
    }
}

fn mismatch(left: &[usize], right: &[usize]) -> NodeError {
    NodeError::Shapes { left: left.to_vec(), right: right.to_vec() }
}

/// The number of elements of a shape. A zero does not hide sides that overflow.
pub(crate) fn elements(shape: &[usize], max: usize) -> Result<usize, NodeError> {
    let too_large = |found| NodeError::Size { found, max };
    let bound = shape.iter().try_fold(1_usize, |total, side| total.checked_mul((*side).max(1)));
    let bound = bound.ok_or(too_large(None))?;
    if bound > max {
        return Err(too_large(Some(bound)));
    }
    Ok(if shape.contains(&0) { 0 } else { bound })
}

/// The shape that two shapes broadcast to.
pub(crate) fn broadcast(left: &[usize], right: &[usize]) -> Result<Vec<usize>, NodeError> {
    let rank = left.len().max(right.len());
    let side = |shape: &[usize], axis: usize| {
        let missing = rank - shape.len();
        axis.checked_sub(missing).and_then(|axis| shape.get(axis).copied()).unwrap_or(1)
    };
    (0..rank)
        .map(|axis| match (side(left, axis), side(right, axis)) {
            (one, other) if one == other => Ok(one),
            (1, other) => Ok(other),
            (one, 1) => Ok(one),
            _ => Err(mismatch(left, right)),
        })
        .collect()
}

/// The types of an operation's results.
pub(crate) fn infer(op: &Op, operands: &Operands<'_>) -> Result<Vec<Type>, NodeError> {
    let (dtype, shape) = match op {
        Op::Gemm { transpose_left, transpose_right, .. } => {
            (Dtype::Float, gemm(operands, *transpose_left, *transpose_right)?)
        }
        Op::MatMul => (Dtype::Float, mat_mul(operands.floats(0)?, operands.floats(1)?)?),
        Op::Conv { window, group } => (Dtype::Float, window::conv(operands, window, *group)?),
        Op::ConvTranspose { window, group, output_padding } => {
            (Dtype::Float, window::conv_transpose(operands, window, *group, output_padding)?)
        }
        Op::Pool { window, ceil, .. } => (Dtype::Float, window::pool(operands, window, *ceil)?),
        Op::GlobalPool(_) => (Dtype::Float, window::global_pool(operands)?),
        Op::Unary(unary) => return infer_unary(*unary, operands.get(0)?).map(|one| vec![one]),
        Op::Binary(binary) => return infer_binary(*binary, operands).map(|one| vec![one]),
        Op::Softmax { .. } => (Dtype::Float, operands.floats(0)?.to_vec()),
        Op::LayerNorm { .. }
        | Op::InstanceNorm { .. }
        | Op::GroupNorm { .. }
        | Op::BatchNorm { .. } => (Dtype::Float, normalised(op, operands)?),
        Op::Reduce { kind, axes, keep } => {
            let operand = operands.get(0)?;
            (reduced_kind(*kind, operand.dtype)?, reduced(&operand.shape, axes, *keep)?)
        }
        Op::ArgExtreme { axis, keep, .. } => {
            (Dtype::Int, reduced(operands.floats(0)?, &[*axis], *keep)?)
        }
        Op::Where => {
            let condition = operands.get(0)?;
            if condition.dtype != Dtype::Bool {
                let found = condition.dtype;
                return Err(NodeError::Kind { index: 0, found, expected: "bool" });
            }
            let dtype = operands.same_kind(1..3)?;
            let both = broadcast(operands.shape(1)?, operands.shape(2)?)?;
            (dtype, broadcast(&condition.shape, &both)?)
        }
        Op::Cast { to } => (*to, operands.shape(0)?.to_vec()),
        Op::Quantize { axis, to } => (*to, quantised(operands, *axis, true)?),
        Op::Dequantize { axis } => (Dtype::Float, quantised(operands, *axis, false)?),
        Op::Split { axis, sides } => return split(operands.get(0)?, *axis, sides),
        Op::Concat { .. }
        | Op::Slice { .. }
        | Op::Pad { .. }
        | Op::Reshape { .. }
        | Op::Transpose { .. }
        | Op::Expand { .. }
        | Op::Tile { .. }
        | Op::Gather { .. }
        | Op::Identity
        | Op::Resize { .. }
        | Op::DepthToSpace { .. }
        | Op::SpaceToDepth { .. } => moved(op, operands)?,
    };
    Ok(vec![Type { dtype, shape }])
}

fn infer_unary(unary: Unary, operand: &Type) -> Result<Type, NodeError> {
    let (allowed, expected) = match unary {
        Unary::Not => (operand.dtype == Dtype::Bool, "bool"),
        Unary::Abs | Unary::Neg | Unary::Sign | Unary::Clip { .. } => {
            (matches!(operand.dtype, Dtype::Float | Dtype::Int), "float or int")
        }
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
        | Unary::Round => (operand.dtype == Dtype::Float, "float"),
    };
    if allowed {
        Ok(operand.clone())
    } else {
        Err(NodeError::Kind { index: 0, found: operand.dtype, expected })
    }
}

fn infer_binary(binary: Binary, operands: &Operands<'_>) -> Result<Type, NodeError> {
    let shape = broadcast(operands.shape(0)?, operands.shape(1)?)?;
    let left = operands.get(0)?.dtype;
    let (dtype, allowed, expected) = match binary {
        Binary::And | Binary::Or | Binary::Xor => {
            operands.same_kind(0..2)?;
            (Dtype::Bool, left == Dtype::Bool, "bool")
        }
        Binary::Equal => (Dtype::Bool, operands.same_kind(0..2).is_ok(), "the other's kind"),
        Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => {
            operands.same_kind(0..2)?;
            (Dtype::Bool, matches!(left, Dtype::Float | Dtype::Int), "float or int")
        }
        // The exponent may be of another kind; the result is of the base's.
        Binary::Pow => (left, left.is_float() || operands.same_kind(0..2).is_ok(), "float"),
        Binary::PRelu => {
            operands.same_kind(0..2)?;
            if shape != operands.shape(0)? {
                return Err(mismatch(operands.shape(0)?, operands.shape(1)?));
            }
            (left, left.is_float(), "float")
        }
        Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Min | Binary::Max => {
            operands.same_kind(0..2)?;
            (left, matches!(left, Dtype::Float | Dtype::Int), "float or int")
        }
    };
    if allowed {
        Ok(Type { dtype, shape })
    } else {
        Err(NodeError::Kind { index: 0, found: left, expected })
    }
}

fn gemm(
    operands: &Operands<'_>,
    transpose_left: bool,
    transpose_right: bool,
) -> Result<Vec<usize>, NodeError> {
    let sides = |index, transpose| match operands.floats(index)? {
        [rows, columns] if transpose => Ok((*columns, *rows)),
        [rows, columns] => Ok((*rows, *columns)),
        other => Err(NodeError::Rank { index, found: other.len(), expected: "2" }),
    };
    let (rows, inner) = sides(0, transpose_left)?;
    let (inner_right, columns) = sides(1, transpose_right)?;
    if inner != inner_right {
        return Err(mismatch(operands.shape(0)?, operands.shape(1)?));
    }
    let shape = vec![rows, columns];
    if operands.optional(2).is_some() {
        let addend = operands.floats(2)?;
        if broadcast(&shape, addend)? != shape {
            return Err(mismatch(&shape, addend));
        }
    }
    Ok(shape)
}

fn mat_mul(left: &[usize], right: &[usize]) -> Result<Vec<usize>, NodeError> {
    let wrong = || mismatch(left, right);
    let (left_stack, rows, inner) = match left {
        [inner] => (&[][..], None, *inner),
        [stack @ .., rows, inner] => (stack, Some(*rows), *inner),
        [] => return Err(wrong()),
    };
    let (right_stack, inner_right, columns) = match right {
        [inner] => (&[][..], *inner, None),
        [stack @ .., inner, columns] => (stack, *inner, Some(*columns)),
        [] => return Err(wrong()),
    };
    if inner != inner_right {
        return Err(wrong());
    }
    let mut shape = broadcast(left_stack, right_stack)?;
    shape.extend(rows);
    shape.extend(columns);
    Ok(shape)
}

fn normalised(op: &Op, operands: &Operands<'_>) -> Result<Vec<usize>, NodeError> {
    let shape = operands.floats(0)?;
    let channels = || match shape {
        [_, channels, ..] => Ok(*channels),
        other => Err(NodeError::Rank { index: 0, found: other.len(), expected: "2 or more" }),
    };
    if let Op::LayerNorm { axis, .. } = op {
        let inner = shape.get(*axis..).unwrap_or_default();
        for index in 1..operands.0.len() {
            let parameter = operands.floats(index)?;
            if broadcast(inner, parameter)? != inner {
                return Err(mismatch(inner, parameter));
            }
        }
        return Ok(shape.to_vec());
    }
    let channels = channels()?;
    for index in 1..operands.0.len() {
        operands.vector(index, channels)?;
    }
    Ok(shape.to_vec())
}

fn reduced_kind(kind: Reduction, dtype: Dtype) -> Result<Dtype, NodeError> {
    let whole = matches!(
        kind,
        Reduction::Sum | Reduction::Max | Reduction::Min | Reduction::Prod | Reduction::SumSquare
    );
    match dtype {
        Dtype::Float => Ok(dtype),
        Dtype::Int if whole => Ok(dtype),
        Dtype::Int | Dtype::Bool | Dtype::Int8 | Dtype::Uint8 => {
            Err(NodeError::Kind { index: 0, found: dtype, expected: "float" })
        }
    }
}

fn reduced(shape: &[usize], axes: &[usize], keep: bool) -> Result<Vec<usize>, NodeError> {
    let mut result = Vec::with_capacity(shape.len());
    for (axis, side) in shape.iter().enumerate() {
        if !axes.contains(&axis) {
            result.push(*side);
            continue;
        }
        if *side == 0 {
            return Err(NodeError::Empty { shape: shape.to_vec() });
        }
        if keep {
            result.push(1);
        }
    }
    Ok(result)
}

fn quantised(
    operands: &Operands<'_>,
    axis: usize,
    to_codes: bool,
) -> Result<Vec<usize>, NodeError> {
    let operand = operands.get(0)?;
    let shape = &operand.shape;
    if operand.dtype.is_float() != to_codes || operand.dtype == Dtype::Bool {
        let expected = if to_codes { "float" } else { "int8, uint8 or int" };
        return Err(NodeError::Kind { index: 0, found: operand.dtype, expected });
    }
    let scale = operands.floats(1)?;
    let one = matches!(scale, [] | [1]);
    if !one && shape.get(axis) != scale.first() {
        return Err(mismatch(shape, scale));
    }
    if let Some(zero_point) = operands.optional(2) {
        let fits = zero_point.shape == scale || (one && matches!(*zero_point.shape, [] | [1]));
        if !fits {
            return Err(mismatch(&zero_point.shape, scale));
        }
        if !to_codes && zero_point.dtype != operand.dtype {
            let (found, expected) = (zero_point.dtype, "the kind of the codes");
            return Err(NodeError::Kind { index: 2, found, expected });
        }
    }
    Ok(shape.clone())
}

fn split(operand: &Type, axis: usize, sides: &[usize]) -> Result<Vec<Type>, NodeError> {
    let side = operand.shape.get(axis).copied().unwrap_or_default();
    let total = sides.iter().try_fold(0_usize, |total, side| total.checked_add(*side));
    if total != Some(side) {
        return Err(mismatch(&operand.shape, sides));
    }
    let part = |side: &usize| {
        let mut part = operand.clone();
        if let Some(place) = part.shape.get_mut(axis) {
            *place = *side;
        }
        part
    };
    Ok(sides.iter().map(part).collect())
}

/// Operations that move elements and leave their kind alone.
fn moved(op: &Op, operands: &Operands<'_>) -> Result<(Dtype, Vec<usize>), NodeError> {
    let Type { dtype, shape } = operands.get(0)?;
    let result = match op {
        Op::Concat { axis } => return concat(operands, *axis),
        Op::Slice { spans } => spans.iter().map(|span| span.count).collect(),
        Op::Pad { mode, before, after } => padded(*mode, shape, before, after)?,
        Op::Reshape { shape } | Op::Expand { shape } => shape.clone(),
        Op::Resize { shape, .. } => {
            operands.floats(0)?;
            shape.clone()
        }
        Op::Transpose { order } => {
            order.iter().filter_map(|axis| shape.get(*axis).copied()).collect()
        }
        Op::Tile { repeats } => {
            let side = |(side, times): (&usize, &usize)| side.checked_mul(*times);
            let sides: Option<Vec<usize>> = shape.iter().zip(repeats).map(side).collect();
            sides.ok_or(NodeError::Size { found: None, max: usize::MAX })?
        }
        Op::Gather { axis } => gathered(operands, shape, *axis)?,
        Op::DepthToSpace { block, .. } => {
            let [n, c, h, w] = image(shape)?;
            let area = block.checked_mul(*block).filter(|area| c.is_multiple_of(*area));
            let area = area.ok_or_else(|| mismatch(shape, &[*block]))?;
            vec![n, c / area, larger(h, *block)?, larger(w, *block)?]
        }
        Op::SpaceToDepth { block } => {
            let [n, c, h, w] = image(shape)?;
            if !h.is_multiple_of(*block) || !w.is_multiple_of(*block) {
                return Err(mismatch(shape, &[*block]));
            }
            vec![n, larger(larger(c, *block)?, *block)?, h / block, w / block]
        }
        Op::Gemm { .. }
        | Op::MatMul
        | Op::Conv { .. }
        | Op::ConvTranspose { .. }
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Softmax { .. }
        | Op::LayerNorm { .. }
        | Op::InstanceNorm { .. }
        | Op::GroupNorm { .. }
        | Op::BatchNorm { .. }
        | Op::Pool { .. }
        | Op::GlobalPool(_)
        | Op::Reduce { .. }
        | Op::ArgExtreme { .. }
        | Op::Split { .. }
        | Op::Where
        | Op::Cast { .. }
        | Op::Identity
        | Op::Quantize { .. }
        | Op::Dequantize { .. } => shape.clone(),
    };
    Ok((*dtype, result))
}

fn concat(operands: &Operands<'_>, axis: usize) -> Result<(Dtype, Vec<usize>), NodeError> {
    let dtype = operands.same_kind(0..operands.0.len())?;
    let mut result = operands.shape(0)?.to_vec();
    for index in 1..operands.0.len() {
        let shape = operands.shape(index)?;
        let fits = shape.len() == result.len()
            && shape.iter().zip(&result).enumerate().all(|(at, (a, b))| at == axis || a == b);
        if !fits {
            return Err(mismatch(&result, shape));
        }
        let more = shape.get(axis).copied().unwrap_or_default();
        if let Some(side) = result.get_mut(axis) {
            let max = usize::MAX;
            *side = side.checked_add(more).ok_or(NodeError::Size { found: None, max })?;
        }
    }
    Ok((dtype, result))
}

fn padded(
    mode: PadMode,
    shape: &[usize],
    before: &[usize],
    after: &[usize],
) -> Result<Vec<usize>, NodeError> {
    let mut result = Vec::with_capacity(shape.len());
    for ((side, before), after) in shape.iter().zip(before).zip(after) {
        let reach = match mode {
            PadMode::Constant(_) => usize::MAX,
            // A mirror shows no more than there is beside the edge.
            PadMode::Reflect => side.saturating_sub(1),
            PadMode::Edge if *side == 0 => 0,
            PadMode::Edge => usize::MAX,
        };
        let found = i64::try_from(*before.max(after)).unwrap_or(i64::MAX);
        if *before.max(after) > reach {
            return Err(NodeError::Range { what: "the padding", found });
        }
        let total = side.checked_add(*before).and_then(|total| total.checked_add(*after));
        result.push(total.ok_or(NodeError::Range { what: "the padding", found })?);
    }
    Ok(result)
}

fn gathered(
    operands: &Operands<'_>,
    shape: &[usize],
    axis: usize,
) -> Result<Vec<usize>, NodeError> {
    let indices = operands.get(1)?;
    if indices.dtype != Dtype::Int {
        return Err(NodeError::Kind { index: 1, found: indices.dtype, expected: "int" });
    }
    let (outer, inner) = shape.split_at_checked(axis).unwrap_or_default();
    let inner = inner.get(1..).unwrap_or_default();
    let result: Vec<usize> = [outer, &indices.shape, inner].concat();
    if result.len() > RANK_MAX {
        let (found, expected) = (result.len(), "8 or less for the result");
        return Err(NodeError::Rank { index: 1, found, expected });
    }
    Ok(result)
}

fn image(shape: &[usize]) -> Result<[usize; 4], NodeError> {
    let wrong = NodeError::Rank { index: 0, found: shape.len(), expected: "4" };
    shape.try_into().map_err(|_| wrong)
}

fn larger(side: usize, factor: usize) -> Result<usize, NodeError> {
    side.checked_mul(factor).ok_or(NodeError::Size { found: None, max: usize::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcast_aligns_the_last_sides() {
        assert_eq!(broadcast(&[2, 1, 3], &[4, 1]).unwrap(), [2, 4, 3]);
        assert_eq!(broadcast(&[], &[5]).unwrap(), [5]);
        assert_eq!(broadcast(&[1], &[0]).unwrap(), [0]);
        assert!(broadcast(&[2], &[3]).is_err());
    }

    #[test]
    fn elements_of_a_shape_that_overflows_are_refused() {
        assert_eq!(elements(&[2, 3], 6).unwrap(), 6);
        assert_eq!(elements(&[0, 3], 6).unwrap(), 0);
        assert!(elements(&[0, usize::MAX, 2], usize::MAX).is_err());
        assert!(elements(&[7], 6).is_err());
    }

    #[test]
    fn matrix_products_follow_the_rules_of_vectors_and_stacks() {
        assert_eq!(mat_mul(&[3], &[3]).unwrap(), Vec::<usize>::new());
        assert_eq!(mat_mul(&[2, 3], &[3]).unwrap(), [2]);
        assert_eq!(mat_mul(&[5, 1, 2, 3], &[4, 3, 6]).unwrap(), [5, 4, 2, 6]);
        assert!(mat_mul(&[2, 3], &[2, 3]).is_err());
        assert!(mat_mul(&[], &[1]).is_err());
    }
}
