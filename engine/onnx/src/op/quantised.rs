//! Quantised models: codes and the floats they stand for.

use super::Op;
use super::attributes::axis;
use super::parse::{Context, Meaning};
use crate::dtype::Dtype;
use crate::error::NodeError;

/// `QuantizeLinear`.
pub(super) fn quantize(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(2, 3)?;
    let to = match (context.optional(2), context.element("output_dtype")) {
        (Some(zero_point), _) => zero_point.dtype,
        (None, Ok(Some(to))) => to,
        // The number 0 is no element kind and means that the attribute is not set.
        (None, Ok(None)) => Dtype::Uint8,
        (None, Err(_)) if context.int("output_dtype")? == Some(0) => Dtype::Uint8,
        (None, Err(error)) => return Err(error),
    };
    if !to.is_code() {
        return Err(NodeError::Kind { index: 2, found: to, expected: "int8 or uint8" });
    }
    let axis = scale_axis(context)?;
    Ok(context.operation(Op::Quantize { axis, to }, 3))
}

/// `DequantizeLinear`.
pub(super) fn dequantize(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(2, 3)?;
    if let Some(zero_point) = context.optional(2)
        && !zero_point.dtype.is_code()
        && zero_point.constant.is_none_or(|zero| zero.to_floats().iter().any(|zero| *zero != 0.0))
    {
        // The standard knows no other; subtracting it from 32 bits could overflow.
        let found = zero_point.dtype;
        return Err(NodeError::Kind { index: 2, found, expected: "zero for 32-bit codes" });
    }
    let axis = scale_axis(context)?;
    Ok(context.operation(Op::Dequantize { axis }, 3))
}

/// The axis along which scales differ. With one scale for all it does not matter, and is 0.
fn scale_axis(context: &Context<'_>) -> Result<usize, NodeError> {
    context.unset("block_size", "quantisation in blocks")?;
    let scale = context.operand(1)?;
    match scale.shape {
        [] | [1] => Ok(0),
        [_] => axis(context.int_or("axis", 1)?, context.rank()?),
        [..] => Err(NodeError::Rank { index: 1, found: scale.shape.len(), expected: "0 or 1" }),
    }
}
