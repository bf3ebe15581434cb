//! Fills the memory of a device with the blocks of [`crate::capacity`], to the same bits as the
//! processor does. The blocks stay on the device; their hashes come back, and later the few blocks
//! that somebody wants to see.
//!
//! Every slice is a buffer of its own, so what a device can fill is four times its largest buffer:
//! all that is ever asked for where buffers may have 1 GiB, 512 MiB where they have the 128 MiB
//! that every device gives. Calls are short, so that drivers do not take the device for stuck.

use super::session::encoder;
use super::{Gpu, GpuError};
use tg_types::Hash32;

const SOURCE: &str = include_str!("fill.wgsl");

/// Slices of a memory: as many buffers as the kernel has names for.
pub(crate) const SLICES: usize = 4;

/// Bytes of a block.
const BLOCK_BYTES: usize = 1_024;

/// Bytes of a hash.
const HASH_BYTES: usize = 32;

/// Blocks of a lane that one call fills. Drivers give up after some seconds, and Mesa's driver in
/// software ends all loops of an invocation together after 65,535 turns; a block takes 1,200.
const STEPS_PER_CALL: u32 = 32;

/// How a memory is cut up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FillShape {
    /// Lanes that are filled side by side.
    pub(crate) lanes: u32,
    /// Blocks of one lane in a slice.
    pub(crate) segment: u32,
    /// Blocks at the beginning of every lane that come from the seed.
    pub(crate) seeded: u32,
}

/// A block that comes from the seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeded {
    /// Its index.
    pub(crate) index: usize,
    /// What is in it.
    pub(crate) block: [u8; BLOCK_BYTES],
    /// Its hash.
    pub(crate) leaf: Hash32,
}

/// Blocks that lie on a device.
#[derive(Debug)]
pub(crate) struct DeviceBlocks {
    gpu: Gpu,
    slices: [wgpu::Buffer; SLICES],
    slice_blocks: usize,
}

impl DeviceBlocks {
    /// Copies a block to the host; `None` if there is no such block.
    pub(crate) fn read(&self, index: usize) -> Result<Option<[u8; BLOCK_BYTES]>, GpuError> {
        let Some(buffer) = self.slices.get(index / self.slice_blocks) else { return Ok(None) };
        let start = offset(index % self.slice_blocks, BLOCK_BYTES);
        let part = start..start + BLOCK_BYTES as u64;
        let copy = |bytes: &[u8]| bytes.first_chunk().copied();
        self.gpu.download_part(encoder(&self.gpu), buffer, part, copy)
    }
}

/// Fills a memory; gives the blocks and the hashes of all of them.
pub(crate) fn fill(
    gpu: &Gpu,
    shape: &FillShape,
    seeded: impl Iterator<Item = Seeded>,
) -> Result<(DeviceBlocks, Vec<Hash32>), GpuError> {
    let slice_blocks = shape.lanes as usize * shape.segment as usize;
    let slice_bytes = offset(slice_blocks, BLOCK_BYTES);
    let leaves_bytes = offset(SLICES * slice_blocks, HASH_BYTES);
    let needed = slice_bytes.max(leaves_bytes);
    let (device, found) = (gpu.info().name.clone(), gpu.info().value_bytes_max);
    if needed > found {
        return Err(GpuError::Limit { device, what: "bytes of a buffer", found, needed });
    }
    let slices = [(); SLICES].map(|()| gpu.reserve(slice_bytes));
    let leaves = gpu.reserve(leaves_bytes);
    gpu.check()?;

    let [first, ..] = &slices;
    for Seeded { index, block, leaf } in seeded {
        gpu.0.queue.write_buffer(first, offset(index, BLOCK_BYTES), &block);
        gpu.0.queue.write_buffer(&leaves, offset(index, HASH_BYTES), &turned(*leaf.as_bytes()));
    }
    let kernel = Kernel::new(gpu, &leaves, &slices);
    for slice in 0..SLICES as u32 {
        let begin = if slice == 0 { shape.seeded } else { 0 };
        for first in (begin..shape.segment).step_by(STEPS_PER_CALL as usize) {
            let last = first.saturating_add(STEPS_PER_CALL).min(shape.segment);
            kernel.call(gpu, shape, [slice, first, last]);
            gpu.check()?;
        }
    }
    let read = |bytes: &[u8]| -> Vec<Hash32> {
        bytes.as_chunks().0.iter().map(|hash| Hash32::new(turned(*hash))).collect()
    };
    let hashes = gpu.download_part(encoder(gpu), &leaves, 0..leaves_bytes, read)?;
    Ok((DeviceBlocks { gpu: gpu.clone(), slices, slice_blocks }, hashes))
}

/// Where the item with this number begins in a buffer.
const fn offset(index: usize, bytes: usize) -> u64 {
    index as u64 * bytes as u64
}

/// Turns a hash into what the device keeps of it and back: SHA-256 computes with words whose large
/// end comes first, in devices the small one does.
fn turned(mut hash: [u8; HASH_BYTES]) -> [u8; HASH_BYTES] {
    hash.as_chunks_mut::<4>().0.iter_mut().for_each(|word| word.reverse());
    hash
}

/// The kernel with the buffers it works on.
struct Kernel {
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    buffers: Vec<wgpu::Buffer>,
}

impl Kernel {
    fn new(gpu: &Gpu, leaves: &wgpu::Buffer, slices: &[wgpu::Buffer]) -> Self {
        let device = &gpu.0.device;
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(SOURCE.into()),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &[],
                // The kernel writes what it reads.
                zero_initialize_workgroup_memory: false,
            },
            cache: None,
        });
        let layout = pipeline.get_bind_group_layout(0);
        let buffers = std::iter::once(leaves).chain(slices).cloned().collect();
        Self { pipeline, layout, buffers }
    }

    /// Fills blocks of all lanes: of which slice, from the first up to the last.
    fn call(&self, gpu: &Gpu, shape: &FillShape, [slice, first, last]: [u32; 3]) {
        let FillShape { lanes, segment, .. } = *shape;
        let parameters = gpu.upload_parameters(&[slice, lanes * segment, segment, first, last]);
        let buffers = std::iter::once(&parameters).chain(&self.buffers);
        let entries: Vec<wgpu::BindGroupEntry<'_>> = (0_u32..)
            .zip(buffers)
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let bindings = gpu.0.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.layout,
            entries: &entries,
        });
        let mut commands = encoder(gpu);
        let mut pass = commands.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &bindings, &[]);
        pass.dispatch_workgroups(lanes, 1, 1);
        drop(pass);
        gpu.0.queue.submit([commands.finish()]);
    }
}
