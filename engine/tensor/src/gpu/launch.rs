//! One call of a kernel: what it reads, its parameters, and how many workgroups there are.

use super::Gpu;
use super::kernels::{Compiled, Variant};
use crate::program::{Rescale, Spec, ValueId, Window};

/// Workgroups of one side of a dispatch; with more there is a second side. Every device takes
/// 65,535, and no operation needs more than 2^28 workgroups.
pub(super) const SIDE_MAX: u32 = 1 << 15;

/// Elements that an invocation computes, except in tiles.
pub(super) const RUN: u32 = 4;

/// Invocations of a workgroup, except in tiles.
const LANES: u32 = 64;

/// What a kernel reads.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// A value of the run.
    Value(ValueId),
    /// Constants and numbers, which are there before any run.
    Fixed(wgpu::Buffer),
}

/// One call of a kernel.
#[derive(Debug)]
pub(super) struct Launch {
    compiled: Compiled,
    parameters: wgpu::Buffer,
    /// What it reads, in the order of its bindings.
    pub(super) reads: Vec<Source>,
    workgroups: u32,
}

impl Launch {
    /// A call of a kernel with one workgroup for each item, as tiles are.
    pub(super) fn by_tile(
        gpu: &Gpu,
        variant: Variant,
        parameters: &[u32],
        reads: Vec<Source>,
        workgroups: u32,
    ) -> Option<Self> {
        let compiled = gpu.compiled(variant)?;
        Some(Self { compiled, parameters: gpu.upload_parameters(parameters), reads, workgroups })
    }

    /// A call of a kernel with one invocation for each item.
    pub(super) fn by_item(
        gpu: &Gpu,
        variant: Variant,
        parameters: &[u32],
        reads: Vec<Source>,
        items: u32,
    ) -> Option<Self> {
        Self::by_tile(gpu, variant, parameters, reads, items.div_ceil(LANES))
    }

    /// Adds the call to the commands. `reads` are the buffers in the order of the bindings.
    pub(super) fn encode(
        &self,
        gpu: &Gpu,
        commands: &mut wgpu::CommandEncoder,
        reads: &[wgpu::Buffer],
        out: &wgpu::Buffer,
    ) {
        let buffers = [&self.parameters, out].into_iter().chain(reads);
        let entries: Vec<wgpu::BindGroupEntry<'_>> = (0_u32..)
            .zip(buffers)
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let bindings = gpu.0.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.compiled.layout,
            entries: &entries,
        });
        let mut pass = commands.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&self.compiled.pipeline);
        pass.set_bind_group(0, &bindings, &[]);
        let [x, y] = sides(self.workgroups);
        pass.dispatch_workgroups(x, y, 1);
    }
}

/// A dispatch of at least this many workgroups; kernels skip what is too many.
fn sides(workgroups: u32) -> [u32; 2] {
    let x = workgroups.clamp(1, SIDE_MAX);
    [x, workgroups.div_ceil(x).max(1)]
}

/// How numbers become elements, as `Finish` of the kernels.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Finish {
    /// Bits dropped before the multiplication.
    pub(super) pre_shift: u8,
    /// Bits dropped after it.
    pub(super) shift: u8,
    /// Added at the end.
    pub(super) zero: i32,
    /// The smallest element.
    pub(super) lo: i32,
    /// The largest element.
    pub(super) hi: i32,
    /// Whether there is a factor for each column or place.
    pub(super) each: bool,
    /// Elements of the output.
    pub(super) len: u32,
    /// Work items.
    pub(super) items: u32,
}

impl Finish {
    /// Only the range of the output, with [`RUN`] elements for each item.
    pub(super) fn clamping(spec: &Spec) -> Self {
        let items = spec.len.div_ceil(RUN);
        Self { lo: spec.lo, hi: spec.hi, len: spec.len, items, ..Self::default() }
    }

    /// A rescale to the range of the output.
    pub(super) fn rescaling(rescale: &Rescale, spec: &Spec) -> Self {
        Self {
            pre_shift: rescale.pre_shift,
            shift: rescale.shift,
            zero: rescale.zero,
            each: rescale.multipliers.as_slice().len() > 1,
            ..Self::clamping(spec)
        }
    }

    /// As the kernels read it.
    pub(super) fn words(&self) -> [u32; 8] {
        [
            self.pre_shift.into(),
            self.shift.into(),
            self.zero.cast_unsigned(),
            self.lo.cast_unsigned(),
            self.hi.cast_unsigned(),
            self.each.into(),
            self.len,
            self.items,
        ]
    }
}

/// A window as the kernels read it, whose steps are `unit` channels. `None` if its lines cannot be
/// numbered with 31 bits.
pub(super) fn window_words(window: &Window, unit: u32) -> Option<[u32; 16]> {
    let reach = |out: u32, stride: u32, kernel: u32, dilation: u32, pad: i32| {
        u64::from(out.saturating_sub(1)) * u64::from(stride)
            + u64::from(kernel.saturating_sub(1)) * u64::from(dilation)
            + u64::from(pad.unsigned_abs())
    };
    let w = window;
    let down = reach(w.out_height, w.stride_height, w.kernel_height, w.dilation_height, w.pad_top);
    let right = reach(w.out_width, w.stride_width, w.kernel_width, w.dilation_width, w.pad_left);
    i32::try_from(down.max(right)).ok()?;
    Some([
        w.height,
        w.width,
        w.channels / unit,
        w.out_width,
        u32::try_from(w.positions()).ok()?,
        w.kernel_width,
        u32::try_from(w.taps()).ok()?,
        0,
        w.stride_height,
        w.stride_width,
        w.dilation_height,
        w.dilation_width,
        w.pad_top.cast_unsigned(),
        w.pad_left.cast_unsigned(),
        w.spread_height,
        w.spread_width,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dispatches_cover_all_workgroups_within_the_limits_of_every_device() {
        for workgroups in [0, 1, 2, 32_767, 32_768, 32_769, 100_000, 1 << 28] {
            let [x, y] = sides(workgroups);
            assert!(x <= 65_535 && y <= 65_535, "{workgroups}");
            assert!(x > 0 && y > 0 && u64::from(x) * u64::from(y) >= workgroups.into());
        }
    }

    #[test]
    fn windows_that_reach_too_far_are_left_to_the_processor() {
        let far = Window { out_height: 1 << 20, stride_height: 1 << 20, ..Window::rows(1, 4) };
        assert_eq!(window_words(&far, 1), None);
        assert!(window_words(&Window::rows(1, 4), 4).is_some_and(|words| words[2] == 1));
    }
}
