//! Filling the memory of a GPU instead of that of the host.
//!
//! The few blocks that come from the seed are made here and sent to the device, which makes all
//! others. The tree is built here, of the hashes that come back: 32 bytes for each block.

use super::{
    BLOCK_BYTES, Blocks, CapacityError, Filled, Place, Plan, SEEDED, SLICES, leaf, levels,
};
use crate::gpu::{self, FillShape, Gpu, Seeded};
use tg_types::Hash32;

const _: () = assert!(gpu::SLICES == SLICES, "every slice has a buffer of its own");

/// Fills the memory of a device. The result is that of [`super::fill`], to the bit; only the blocks
/// lie elsewhere, as long as it lives.
///
/// # Errors
/// If the number of blocks is not allowed, a quarter of them does not fit into a buffer of the
/// device, its memory is full, or it fails.
pub fn fill_on(gpu: &Gpu, seed: Hash32, blocks: u32) -> Result<Filled, CapacityError> {
    fill_plan(gpu, Plan::new(seed, blocks)?)
}

fn fill_plan(gpu: &Gpu, plan: Plan) -> Result<Filled, CapacityError> {
    let number = |it: usize| u32::try_from(it).expect("at most 2^22 blocks");
    let shape = FillShape {
        lanes: number(plan.lanes),
        segment: number(plan.segment()),
        seeded: number(SEEDED),
    };
    let lanes = (0..plan.lanes).flat_map(|lane| (0..SEEDED).map(move |step| (lane, step)));
    let seeded = lanes.map(|(lane, step)| {
        let index = plan.index_of(Place { slice: 0, lane, step });
        let mut block = [0; BLOCK_BYTES];
        plan.expand(index, &mut block);
        Seeded { index, block, leaf: leaf(&block) }
    });
    let (blocks, leaves) = gpu::fill(gpu, &shape, seeded)?;
    Ok(Filled { plan, blocks: Blocks::Device(blocks), levels: levels(leaves) })
}

#[cfg(test)]
mod tests {
    use super::super::{BLOCKS_MAX, BLOCKS_MIN, CapacityError, LANES_MIN, check, fill_by};
    use super::{Plan, fill_on, fill_plan};
    use crate::gpu::{Gpu, GpuError, devices};
    use crate::kernels::Path;
    use tg_types::Hash32;

    fn gpu() -> Gpu {
        if devices().is_empty() {
            panic!("no Vulkan device: install mesa-vulkan-drivers or run without --features wgpu");
        }
        Gpu::open(0).expect("a device that is listed can be opened")
    }

    /// Goal: a GPU fills its memory with the same bits as the processor the host's. Method: several
    /// seeds and sizes, with the fewest lanes and with more; roots, and openings of blocks spread
    /// over all slices, are equal and are believed.
    #[test]
    fn gpu_fills_what_the_processor_does() {
        let gpu = gpu();
        // Memories of more lanes than the fewest take long in software, so the lanes are set here.
        let sizes = [(1, 1, 1), (2, 1, 1), (3, 2, 1), (4, 4, 1), (5, 4, 4), (6, 2, 8)];
        for (number, mib, lanes) in sizes {
            let (seed, blocks) = (Hash32::new([number; 32]), mib * BLOCKS_MIN);
            let plan = Plan::new(seed, blocks).expect("a number that is allowed");
            let plan = Plan { lanes: lanes * LANES_MIN, ..plan };
            let expected = fill_by(Path::detect(), &plan, 0).expect("memory");
            let found = fill_plan(&gpu, plan).expect("memory of the device");
            assert_eq!(found.root(), expected.root(), "{mib} MiB");
            let few = blocks as usize / 61;
            let last = std::iter::once(blocks - 1);
            for place in (0..blocks).step_by(few).chain(last) {
                let opening = found.open(place).expect("a block");
                assert_eq!(Ok(&opening), expected.open(place).as_ref());
                assert_eq!(check(&plan, &found.root(), place, &opening), Ok(()));
            }
            let missing = CapacityError::Place { place: blocks, blocks };
            assert_eq!(found.open(blocks), Err(missing));
        }
        assert_eq!(gpu.failure(), None);
    }

    #[test]
    fn gpu_refuses_what_does_not_fit_its_buffers_and_works_on() {
        let gpu = gpu();
        let seed = Hash32::new([9; 32]);
        let found = BLOCKS_MIN + 1;
        assert_eq!(fill_on(&gpu, seed, found).err(), Some(CapacityError::Blocks { found }));
        let needed = u64::from(BLOCKS_MAX) / 4 * 1_024;
        if gpu.info().value_bytes_max < needed {
            let refused = fill_on(&gpu, seed, BLOCKS_MAX).err();
            let is_limit = |error: &CapacityError| {
                matches!(error, CapacityError::Gpu(GpuError::Limit { needed: it, .. })
                    if *it == needed)
            };
            assert!(refused.as_ref().is_some_and(is_limit), "{refused:?}");
        }
        assert_eq!(gpu.failure(), None);
        assert!(fill_on(&gpu, seed, BLOCKS_MIN).is_ok());
    }

    #[test]
    fn gpu_that_is_lost_is_an_error_when_filling_and_when_opening() {
        let gpu = gpu();
        let seed = Hash32::new([7; 32]);
        let filled = fill_on(&gpu, seed, BLOCKS_MIN).expect("memory of the device");
        gpu.destroy();
        let is_lost = |error: Option<CapacityError>| {
            assert!(matches!(error, Some(CapacityError::Gpu(_))), "{error:?}");
        };
        is_lost(filled.open(BLOCKS_MIN - 1).err());
        is_lost(fill_on(&gpu, seed, BLOCKS_MIN).err());
    }
}
