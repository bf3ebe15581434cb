//! What a machine shows to be credited with memory and speed: a chain of matrix products that has
//! to be kept while it is computed, and a tree over it from which anything can be opened.
//!
//! The memory consists of blocks of 1 KiB, squares of 32 x 32 signed bytes. As in Argon2 (RFC 9106)
//! it is cut into lanes that are filled side by side and into four slices after each of which the
//! lanes meet. The first two blocks of a lane come from the seed. Every other block is a product of
//! the block before it in its lane with another one of those that exist: which one is decided by
//! the hash of the block before, so it is known only at the moment it is needed, and whoever has
//! not kept it must compute it again, with all that it was made of.
//!
//! - block = saturate(before * other / 2^9) xor other xor hash of before
//! - leaf  = H(1,024 bytes of the block), node = H(left ‖ right); the tree is complete
//!
//! Blocks are a power of two in number, so a path needs no directions. Leaves and nodes have inputs
//! of different lengths, so none can pass for another. Whoever checks an opening computes one
//! block: some microseconds, whatever the memory. How long the filling took is not said here; that
//! is for whoever asked to measure.
//!
//! The memory is that of the host, filled by the processor ([`fill`]), or that of a GPU, filled by
//! it ([`fill_on`], in builds with the feature `wgpu`). Both give the same bits and one [`Filled`],
//! so nobody who checks needs to know which it was.

#[cfg(feature = "wgpu")]
mod device;
mod opening;
#[cfg(test)]
mod tests;

#[cfg(feature = "wgpu")]
pub use device::fill_on;
pub use opening::{OPENING_BYTES_MAX, Opening, check};

use crate::kernels::{self, Path, SIDE, Square};
use rayon::iter::{IndexedParallelIterator as _, ParallelIterator as _};
use rayon::slice::ParallelSliceMut as _;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tg_types::Hash32;
use tg_types::hash::{Tag, sha256, tagged};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = SIDE * SIDE;

/// The fewest blocks: 1 MiB, so that every lane has a few blocks in every slice.
pub const BLOCKS_MIN: u32 = 1 << 10;

/// The most blocks: 4 GiB. An opening stays small enough that three fit into a transaction.
pub const BLOCKS_MAX: u32 = 1 << 22;

/// Multiply-adds of a block.
pub const BLOCK_MULTIPLY_ADDS: u64 = (SIDE * SIDE * SIDE) as u64;

/// Parts after which lanes see each other, as in Argon2.
const SLICES: usize = 4;

/// The fewest lanes: more than most machines have cores.
const LANES_MIN: usize = 16;

/// The most lanes: enough to keep a graphics processor busy.
const LANES_MAX: usize = 1_024;

/// Blocks for which a lane is added.
const LANE_BLOCKS: usize = 4_096;

/// Blocks at the beginning of a lane that come from the seed: with one there would be no other
/// block to read.
const SEEDED: usize = 2;

/// The most threads that fill: there are no more lanes.
const THREADS_MAX: usize = LANES_MAX;

const EXPAND: Tag = Tag::new("tensorgrid/capacity-block");

/// Why a memory was not filled, or an opening is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapacityError {
    /// No such number of blocks.
    #[error("{found} blocks; expected a power of two from {BLOCKS_MIN} to {BLOCKS_MAX}")]
    Blocks {
        /// What was asked for.
        found: u32,
    },
    /// The system does not give that much memory.
    #[error("no memory for {blocks} blocks of {BLOCK_BYTES} bytes")]
    Memory {
        /// What was asked for.
        blocks: u32,
    },
    /// There is no such block.
    #[error("there is no block {place} among {blocks}")]
    Place {
        /// What was asked for.
        place: u32,
        /// How many there are.
        blocks: u32,
    },
    /// The block is opened with inputs that it does not have, or without those it has.
    #[error("block {place} is not opened with what it reads")]
    Inputs {
        /// The block that is opened.
        place: u32,
    },
    /// A block is not under the root, or its path has another length.
    #[error("block {place} is not the one under the root")]
    Path {
        /// Which: the one that is opened, or one that it reads.
        place: u32,
    },
    /// The device on which the memory is failed.
    #[cfg(feature = "wgpu")]
    #[error("the memory of the GPU is not at hand")]
    Gpu(#[from] crate::gpu::GpuError),
}

/// What a memory is filled from, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    seed: Hash32,
    blocks: usize,
    lanes: usize,
}

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    slice: usize,
    lane: usize,
    step: usize,
}

impl Plan {
    /// A plan for this many blocks.
    ///
    /// # Errors
    /// If the number is not allowed.
    pub fn new(seed: Hash32, blocks: u32) -> Result<Self, CapacityError> {
        if !blocks.is_power_of_two() || !(BLOCKS_MIN..=BLOCKS_MAX).contains(&blocks) {
            return Err(CapacityError::Blocks { found: blocks });
        }
        let blocks = blocks as usize;
        Ok(Self { seed, blocks, lanes: (blocks / LANE_BLOCKS).clamp(LANES_MIN, LANES_MAX) })
    }

    /// How many blocks there are.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        u32::try_from(self.blocks).expect("at most 2^22 blocks")
    }

    /// Levels of the tree below the root: the length of a path.
    fn depth(&self) -> usize {
        self.blocks.trailing_zeros() as usize
    }

    /// Blocks of a slice, all lanes together.
    const fn slice(&self) -> usize {
        self.blocks / SLICES
    }

    /// Blocks of one lane in a slice.
    const fn segment(&self) -> usize {
        self.slice() / self.lanes
    }

    fn place_of(&self, index: usize) -> Place {
        let (slice, rest) = (index / self.slice(), index % self.slice());
        Place { slice, lane: rest / self.segment(), step: rest % self.segment() }
    }

    fn index_of(&self, place: Place) -> usize {
        place.slice * self.slice() + place.lane * self.segment() + place.step
    }

    /// The block before in the same lane; `None` for one that comes from the seed.
    fn before(&self, place: Place) -> Option<usize> {
        match place {
            Place { slice: 0, step: ..SEEDED, .. } => None,
            Place { step: 0, slice, .. } => {
                let step = self.segment() - 1;
                Some(self.index_of(Place { slice: slice - 1, step, ..place }))
            }
            Place { .. } => Some(self.index_of(place) - 1),
        }
    }

    /// The other block that is read: one of a finished slice, or an earlier one of the same
    /// segment, but not the block before.
    fn other(&self, place: Place, hash_before: &Hash32) -> usize {
        let finished = place.slice * self.slice();
        let choice = finished + place.step.saturating_sub(1);
        let lot = hash_before.as_bytes().first_chunk().copied().unwrap_or_default();
        // A remainder of 64 bits by at most 22 is as good as even.
        let chosen = (u64::from_be_bytes(lot) % (choice.max(1) as u64)) as usize;
        match chosen.checked_sub(finished) {
            None => chosen,
            Some(step) => self.index_of(Place { step, ..place }),
        }
    }

    /// A block that comes from the seed.
    fn expand(&self, index: usize, block: &mut Square) {
        let index = (index as u64).to_be_bytes();
        for (number, part) in (0_u8..).zip(block.as_chunks_mut::<32>().0) {
            *part = *tagged(EXPAND, &[self.seed.as_bytes(), &index, &[number]]).as_bytes();
        }
    }
}

/// The hash of a block: its leaf in the tree, and what decides about the next one.
fn leaf(block: &Square) -> Hash32 {
    Hash32::new(sha256(&[block]))
}

fn node(left: &Hash32, right: &Hash32) -> Hash32 {
    Hash32::new(sha256(&[left.as_bytes(), right.as_bytes()]))
}

/// Where the blocks of a memory lie.
enum Blocks {
    Host(Vec<Square>),
    #[cfg(feature = "wgpu")]
    Device(crate::gpu::DeviceBlocks),
}

impl Blocks {
    /// The block with an index; `None` if there is none.
    fn read(&self, index: usize) -> Result<Option<Square>, CapacityError> {
        match self {
            Self::Host(blocks) => Ok(blocks.get(index).copied()),
            #[cfg(feature = "wgpu")]
            Self::Device(blocks) => Ok(blocks.read(index)?),
        }
    }
}

/// A memory that was filled, with the tree over it. The tree is on the host, wherever the blocks
/// are.
pub struct Filled {
    plan: Plan,
    blocks: Blocks,
    /// Leaves first, the root last.
    levels: Vec<Vec<Hash32>>,
}

/// Shows the plan; a memory is too much to show.
impl std::fmt::Debug for Filled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filled").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Filled {
    /// The root over all blocks.
    #[must_use]
    pub fn root(&self) -> Hash32 {
        self.levels.last().and_then(|top| top.first()).copied().unwrap_or(Hash32::new([0; 32]))
    }

    /// The path of a leaf: its siblings, lowest first.
    fn path(&self, index: usize) -> Vec<Hash32> {
        let levels = self.levels.iter().enumerate();
        levels.filter_map(|(level, hashes)| hashes.get(index >> level ^ 1).copied()).collect()
    }
}

/// Fills a memory on this many threads, 0 being one for each core. The result does not depend on
/// their number.
///
/// # Errors
/// If the number of blocks is not allowed, or there is not that much memory.
pub fn fill(seed: Hash32, blocks: u32, threads: usize) -> Result<Filled, CapacityError> {
    fill_by(Path::detect(), &Plan::new(seed, blocks)?, threads)
}

fn fill_by(path: Path, plan: &Plan, threads: usize) -> Result<Filled, CapacityError> {
    let no_memory = |_| CapacityError::Memory { blocks: plan.blocks() };
    let mut blocks: Vec<Square> = Vec::new();
    blocks.try_reserve_exact(plan.blocks).map_err(no_memory)?;
    blocks.resize(plan.blocks, [0; BLOCK_BYTES]);
    let mut leaves: Vec<Hash32> = Vec::new();
    leaves.try_reserve_exact(plan.blocks).map_err(no_memory)?;
    leaves.resize(plan.blocks, Hash32::new([0; 32]));
    // If the system gives no threads, the caller's works alone: later, but to the same bits.
    let pool = ThreadPoolBuilder::new().num_threads(threads.min(THREADS_MAX)).build().ok();
    for slice in 0..SLICES {
        let start = slice * plan.slice();
        let (done, rest) = blocks.split_at_mut(start);
        let (done_leaves, rest_leaves) = leaves.split_at_mut(start);
        let segments = rest[..plan.slice()].par_chunks_mut(plan.segment());
        let segment_leaves = rest_leaves[..plan.slice()].par_chunks_mut(plan.segment());
        let done = Done { path, plan, blocks: done, leaves: done_leaves };
        within(pool.as_ref(), || {
            let segments = segments.zip(segment_leaves).enumerate();
            segments.for_each(|(lane, (blocks, leaves))| {
                done.fill_segment(Place { slice, lane, step: 0 }, blocks, leaves);
            });
        });
    }
    let levels = within(pool.as_ref(), || levels(leaves));
    Ok(Filled { plan: *plan, blocks: Blocks::Host(blocks), levels })
}

/// Works on the threads of a pool, if there is one.
fn within<T: Send>(pool: Option<&ThreadPool>, work: impl FnOnce() -> T + Send) -> T {
    match pool {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

/// The slices that are finished.
struct Done<'a> {
    path: Path,
    plan: &'a Plan,
    blocks: &'a [Square],
    leaves: &'a [Hash32],
}

impl Done<'_> {
    /// Fills one lane's part of a slice, from `place` on.
    fn fill_segment(&self, place: Place, blocks: &mut [Square], leaves: &mut [Hash32]) {
        let first = self.plan.index_of(place);
        for step in 0..blocks.len() {
            let place = Place { step, ..place };
            let (earlier, rest) = blocks.split_at_mut(step);
            let block = &mut rest[0];
            // Places before the segment are in finished slices, others in the segment.
            let find = |index: usize| match index.checked_sub(first) {
                Some(step) => &earlier[step],
                None => &self.blocks[index],
            };
            match self.plan.before(place) {
                None => self.plan.expand(first + step, block),
                Some(before) => {
                    let hash = match before.checked_sub(first) {
                        Some(step) => leaves[step],
                        None => self.leaves[before],
                    };
                    let other = self.plan.other(place, &hash);
                    let (before, other) = (find(before), find(other));
                    kernels::chain(self.path, before, other, hash.as_bytes(), block);
                }
            }
            leaves[step] = leaf(block);
        }
    }
}

/// Nodes that one thread makes at a time.
const NODES_PER_PIECE: usize = 1_024;

/// The levels of the tree, leaves first.
fn levels(leaves: Vec<Hash32>) -> Vec<Vec<Hash32>> {
    let mut levels = vec![leaves];
    while let Some(last) = levels.last().filter(|level| level.len() > 1) {
        let mut next = vec![Hash32::new([0; 32]); last.len() / 2];
        let pieces = next.par_chunks_mut(NODES_PER_PIECE).enumerate();
        pieces.for_each(|(piece, nodes)| {
            let pairs = last.as_chunks::<2>().0.iter().skip(piece * NODES_PER_PIECE);
            for (out, [left, right]) in nodes.iter_mut().zip(pairs) {
                *out = node(left, right);
            }
        });
        levels.push(next);
    }
    levels
}
