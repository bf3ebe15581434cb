//! Convolutions and pools: every way of writing padding becomes explicit numbers.

use super::attributes::{size, sizes};
use super::parse::{Context, Meaning};
use super::{Op, PoolKind, Window};
use crate::error::NodeError;

/// The largest stride, dilation, kernel side or pad. Any two of them can be multiplied and added
/// to a side of a tensor without overflow.
const EXTENT_MAX: usize = 1 << 20;

/// How padding is to be found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AutoPad {
    /// The numbers given.
    Explicit,
    /// None.
    Valid,
    /// As much as keeps the side divided by the stride, the odd one at the end.
    SameUpper,
    /// The same, the odd one at the start.
    SameLower,
}

/// `Conv`.
pub(super) fn conv(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(2, 3)?;
    let spatial = spatial(context)?;
    let mut window = window(context, kernel_of_weights(context)?)?;
    pad_forward(context, spatial, &mut window)?;
    let group = extent(context.int_or("group", 1)?, "the group")?;
    Ok(context.operation(Op::Conv { window, group }, 3))
}

/// `ConvTranspose`.
pub(super) fn conv_transpose(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(2, 3)?;
    let spatial = spatial(context)?;
    let mut window = window(context, kernel_of_weights(context)?)?;
    let rank = spatial.len();
    let output_padding = match context.ints("output_padding")? {
        Some(list) => bounded(list, rank, "the output padding", 0)?,
        None => vec![0; rank],
    };
    let mode = auto_pad(context)?;
    let asked = match context.ints("output_shape")? {
        // Some exporters write the whole shape, batch and channels included.
        Some(list) => {
            let from = list.len().saturating_sub(rank);
            Some(sizes(list.get(from..).unwrap_or_default(), rank, "the output shape")?)
        }
        None if matches!(mode, AutoPad::SameUpper | AutoPad::SameLower) => {
            Some(spatial.iter().zip(&window.strides).map(|(side, step)| side * step).collect())
        }
        None => None,
    };
    if let Some(asked) = asked {
        cut_to(spatial, &asked, &output_padding, mode, &mut window)?;
    } else if mode == AutoPad::Explicit {
        explicit_pads(context, &mut window)?;
    }
    let group = extent(context.int_or("group", 1)?, "the group")?;
    Ok(context.operation(Op::ConvTranspose { window, group, output_padding }, 3))
}

/// `MaxPool` and `AveragePool`.
pub(super) fn pool(context: &Context<'_>, kind: PoolKind) -> Result<Meaning, NodeError> {
    context.count(1, 1)?;
    let spatial = spatial(context)?;
    context.unset("storage_order", "a column-major storage order")?;
    let kernel = context.ints("kernel_shape")?;
    let kernel = kernel.ok_or(NodeError::AttributeMissing { name: "kernel_shape" })?;
    let kernel = bounded(kernel, spatial.len(), "the kernel", 1)?;
    let mut window = window(context, kernel)?;
    if window.dilations.iter().any(|dilation| *dilation != 1) {
        return Err(NodeError::Form { what: "a dilated pool" });
    }
    pad_forward(context, spatial, &mut window)?;
    let ceil = context.flag_or("ceil_mode", false)?;
    let sides = window.before.iter().chain(&window.after).zip(window.kernel.iter().cycle());
    for (pad, kernel) in sides {
        // A window that lies wholly in the padding would have nothing to choose from.
        if pad >= kernel {
            let found = i64::try_from(*pad).unwrap_or(i64::MAX);
            return Err(NodeError::Range { what: "the padding of a pool", found });
        }
    }
    Ok(context.operation(Op::Pool { kind, window, ceil }, 1))
}

/// The spatial sides of the first operand: one or two.
fn spatial<'a>(context: &Context<'a>) -> Result<&'a [usize], NodeError> {
    let shape = context.operand(0)?.shape;
    match shape {
        [_, _, spatial @ ..] if matches!(spatial.len(), 1 | 2) => Ok(spatial),
        _ => Err(NodeError::Rank { index: 0, found: shape.len(), expected: "3 or 4" }),
    }
}

/// The kernel's sides. The weights decide; an attribute that contradicts them is refused.
fn kernel_of_weights(context: &Context<'_>) -> Result<Vec<usize>, NodeError> {
    let rank = context.operand(0)?.shape.len();
    let weights = context.operand(1)?.shape;
    let kernel = match weights {
        [_, _, kernel @ ..] if weights.len() == rank => kernel,
        _ => {
            let expected = "the rank of operand 0";
            return Err(NodeError::Rank { index: 1, found: weights.len(), expected });
        }
    };
    if let Some(stated) = context.ints("kernel_shape")? {
        let stated = bounded(stated, kernel.len(), "the kernel", 1)?;
        if stated != kernel {
            return Err(NodeError::Shapes { left: stated, right: kernel.to_vec() });
        }
    }
    for side in kernel {
        extent(i64::try_from(*side).unwrap_or(i64::MAX), "the kernel")?;
    }
    Ok(kernel.to_vec())
}

/// Strides and dilations around a kernel, without padding.
fn window(context: &Context<'_>, kernel: Vec<usize>) -> Result<Window, NodeError> {
    let rank = kernel.len();
    let list = |name, what| match context.ints(name)? {
        Some([]) | None => Ok(vec![1; rank]),
        Some(list) => bounded(list, rank, what, 1),
    };
    Ok(Window {
        strides: list("strides", "the strides")?,
        dilations: list("dilations", "the dilations")?,
        before: vec![0; rank],
        after: vec![0; rank],
        kernel,
    })
}

fn auto_pad(context: &Context<'_>) -> Result<AutoPad, NodeError> {
    context.word(
        "auto_pad",
        "NOTSET",
        &[
            ("NOTSET", AutoPad::Explicit),
            ("", AutoPad::Explicit),
            ("VALID", AutoPad::Valid),
            ("SAME_UPPER", AutoPad::SameUpper),
            ("SAME_LOWER", AutoPad::SameLower),
        ],
    )
}

fn explicit_pads(context: &Context<'_>, window: &mut Window) -> Result<(), NodeError> {
    let rank = window.kernel.len();
    if let Some(list) = context.ints("pads")? {
        let mut pads = bounded(list, 2 * rank, "the pads", 0)?;
        window.after = pads.split_off(rank);
        window.before = pads;
    }
    Ok(())
}

/// The padding of a convolution or pool.
fn pad_forward(
    context: &Context<'_>,
    spatial: &[usize],
    window: &mut Window,
) -> Result<(), NodeError> {
    let mode = auto_pad(context)?;
    match mode {
        AutoPad::Explicit => return explicit_pads(context, window),
        AutoPad::Valid => return Ok(()),
        AutoPad::SameUpper | AutoPad::SameLower => {}
    }
    let mut total = Vec::with_capacity(spatial.len());
    for (axis, side) in spatial.iter().enumerate() {
        let (reach, stride) = (window.reach(axis), window.stride(axis));
        let places = side.div_ceil(stride);
        let needed = places.saturating_sub(1) * stride + reach;
        total.push(needed.saturating_sub(*side));
    }
    window.halve(&total, mode == AutoPad::SameUpper);
    Ok(())
}

/// The padding of a transposed convolution that is to give `asked`. Of an odd amount, the larger
/// half is cut at the start unless the mode says otherwise, as the specification has it.
fn cut_to(
    spatial: &[usize],
    asked: &[usize],
    output_padding: &[usize],
    mode: AutoPad,
    window: &mut Window,
) -> Result<(), NodeError> {
    let mut total = Vec::with_capacity(spatial.len());
    for (axis, ((side, asked), extra)) in spatial.iter().zip(asked).zip(output_padding).enumerate()
    {
        let full = side.saturating_sub(1) * window.stride(axis) + window.reach(axis) + extra;
        let surplus = full.checked_sub(*asked).filter(|surplus| *surplus <= EXTENT_MAX);
        let found = i64::try_from(*asked).unwrap_or(i64::MAX);
        total.push(surplus.ok_or(NodeError::Range { what: "the output shape", found })?);
    }
    window.halve(&total, mode == AutoPad::SameUpper);
    Ok(())
}

impl Window {
    /// How many elements the kernel spans along an axis.
    #[must_use]
    pub fn reach(&self, axis: usize) -> usize {
        let kernel = self.kernel.get(axis).copied().unwrap_or(1);
        let dilation = self.dilations.get(axis).copied().unwrap_or(1);
        kernel.saturating_sub(1) * dilation + 1
    }

    /// The stride along an axis.
    #[must_use]
    pub fn stride(&self, axis: usize) -> usize {
        self.strides.get(axis).copied().unwrap_or(1)
    }

    fn halve(&mut self, total: &[usize], larger_half_after: bool) {
        let smaller: Vec<usize> = total.iter().map(|pad| pad / 2).collect();
        let larger: Vec<usize> = total.iter().map(|pad| pad - pad / 2).collect();
        (self.before, self.after) =
            if larger_half_after { (smaller, larger) } else { (larger, smaller) };
    }
}

fn extent(found: i64, what: &'static str) -> Result<usize, NodeError> {
    let value = size(found, what)?;
    if value == 0 || value > EXTENT_MAX {
        return Err(NodeError::Range { what, found });
    }
    Ok(value)
}

fn bounded(
    list: &[i64],
    expected: usize,
    what: &'static str,
    min: usize,
) -> Result<Vec<usize>, NodeError> {
    let values = sizes(list, expected, what)?;
    for (value, found) in values.iter().zip(list) {
        if *value < min || *value > EXTENT_MAX {
            return Err(NodeError::Range { what, found: *found });
        }
    }
    Ok(values)
}
