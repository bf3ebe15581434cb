//! Shapes of convolutions and pools.

use super::{Operands, mismatch};
use crate::error::NodeError;
use crate::op::Window;

/// `[n, c, …]` of the first operand.
fn parts<'a>(operands: &Operands<'a>) -> Result<(usize, usize, &'a [usize]), NodeError> {
    match operands.floats(0)? {
        [batch, channels, spatial @ ..] => Ok((*batch, *channels, spatial)),
        other => Err(NodeError::Rank { index: 0, found: other.len(), expected: "3 or 4" }),
    }
}

/// The first two sides of the weights.
fn weight_channels(operands: &Operands<'_>) -> Result<(usize, usize), NodeError> {
    match operands.floats(1)? {
        [first, second, ..] => Ok((*first, *second)),
        other => Err(NodeError::Rank { index: 1, found: other.len(), expected: "3 or 4" }),
    }
}

/// The shape of a convolution.
pub(super) fn conv(
    operands: &Operands<'_>,
    window: &Window,
    group: usize,
) -> Result<Vec<usize>, NodeError> {
    let (batch, channels, spatial) = parts(operands)?;
    let (out, inner) = weight_channels(operands)?;
    let fits = inner.checked_mul(group) == Some(channels) && out.is_multiple_of(group);
    if !fits || channels == 0 {
        return Err(mismatch(operands.shape(0)?, operands.shape(1)?));
    }
    operands.vector(2, out)?;
    let mut shape = vec![batch, out];
    for (axis, side) in spatial.iter().enumerate() {
        shape.push(places(window, axis, *side, false)?);
    }
    Ok(shape)
}

/// The shape of a transposed convolution.
pub(super) fn conv_transpose(
    operands: &Operands<'_>,
    window: &Window,
    group: usize,
    output_padding: &[usize],
) -> Result<Vec<usize>, NodeError> {
    let (batch, channels, spatial) = parts(operands)?;
    let (inner, out) = weight_channels(operands)?;
    let total = out.checked_mul(group);
    let (true, Some(out)) = (inner == channels && channels.is_multiple_of(group), total) else {
        return Err(mismatch(operands.shape(0)?, operands.shape(1)?));
    };
    operands.vector(2, out)?;
    let mut shape = vec![batch, out];
    for (axis, side) in spatial.iter().enumerate() {
        let extra = output_padding.get(axis).copied().unwrap_or_default();
        let cut = pads(window, axis);
        let full = side
            .checked_sub(1)
            .and_then(|steps| steps.checked_mul(window.stride(axis)))
            .and_then(|full| full.checked_add(window.reach(axis) + extra));
        let left = full.and_then(|full| full.checked_sub(cut)).filter(|left| *left > 0);
        shape.push(left.ok_or_else(|| mismatch(spatial, &window.kernel))?);
    }
    Ok(shape)
}

/// The shape of a pool.
pub(super) fn pool(
    operands: &Operands<'_>,
    window: &Window,
    ceil: bool,
) -> Result<Vec<usize>, NodeError> {
    let (batch, channels, spatial) = parts(operands)?;
    let mut shape = vec![batch, channels];
    for (axis, side) in spatial.iter().enumerate() {
        shape.push(places(window, axis, *side, ceil)?);
    }
    Ok(shape)
}

/// The shape of a pool over everything.
pub(super) fn global_pool(operands: &Operands<'_>) -> Result<Vec<usize>, NodeError> {
    let (batch, channels, spatial) = parts(operands)?;
    if spatial.is_empty() || spatial.contains(&0) {
        return Err(NodeError::Empty { shape: operands.shape(0)?.to_vec() });
    }
    let mut shape = vec![batch, channels];
    shape.resize(2 + spatial.len(), 1);
    Ok(shape)
}

fn pads(window: &Window, axis: usize) -> usize {
    let pad = |list: &[usize]| list.get(axis).copied().unwrap_or_default();
    pad(&window.before) + pad(&window.after)
}

/// How many places a window has along an axis.
fn places(window: &Window, axis: usize, side: usize, ceil: bool) -> Result<usize, NodeError> {
    let wrong = || mismatch(&[side], &window.kernel);
    let padded = side.checked_add(pads(window, axis)).ok_or_else(wrong)?;
    let room = padded.checked_sub(window.reach(axis)).ok_or_else(wrong)?;
    let stride = window.stride(axis);
    if !ceil {
        return Ok(room / stride + 1);
    }
    let places = room.div_ceil(stride) + 1;
    // A last window that starts in the padding behind the operand has nothing to look at.
    let before = window.before.get(axis).copied().unwrap_or_default();
    let starts_behind = (places - 1) * stride >= side + before;
    Ok(if starts_behind { places - 1 } else { places })
}
