//! Partitions of a GPU that hardware keeps apart (NVIDIA's MIG), with the rules where they may lie.
//!
//! A partition takes some of the compute slices and a run of memory slices that may begin at few
//! places only. The places are those that `nvidia-smi mig -lgipp` prints for A100 and A30; newer
//! GPUs are documented with the same geometry. A provider asks its driver before it carries a
//! partition out.

use crate::catalogue::Split;
use crate::packing::GPU_MILLI;

/// A kind of partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Profile {
    /// Compute slices.
    pub compute: u8,
    /// Memory slices.
    pub memory: u8,
    /// Where it may begin, as bits.
    starts: u8,
    split: Split,
}

/// A partition of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition {
    /// Its kind.
    pub profile: Profile,
    /// Its first memory slice.
    pub start: u8,
}

const fn profile(split: Split, compute: u8, memory: u8, starts: u8) -> Profile {
    Profile { compute, memory, starts, split }
}

/// A100, H100, H200, B200 and their kin: seven compute and eight memory slices.
const SEVEN: &[Profile] = &[
    profile(Split::Mig7, 1, 1, 0b0111_1111),
    profile(Split::Mig7, 1, 2, 0b0101_0101),
    profile(Split::Mig7, 2, 2, 0b0001_0101),
    profile(Split::Mig7, 3, 4, 0b0001_0001),
    profile(Split::Mig7, 4, 4, 0b0000_0001),
    profile(Split::Mig7, 7, 8, 0b0000_0001),
];

/// A30 and RTX PRO 6000: four of each.
const FOUR: &[Profile] = &[
    profile(Split::Mig4, 1, 1, 0b1111),
    profile(Split::Mig4, 2, 2, 0b0101),
    profile(Split::Mig4, 4, 4, 0b0001),
];

/// The kinds of partitions of a GPU that splits so.
pub const fn profiles(split: Split) -> &'static [Profile] {
    match split {
        Split::None => &[],
        Split::Mig4 => FOUR,
        Split::Mig7 => SEVEN,
    }
}

/// Compute and memory slices of the whole GPU.
const fn slices(split: Split) -> (u8, u8) {
    match split {
        Split::None => (1, 1),
        Split::Mig4 => (4, 4),
        Split::Mig7 => (7, 8),
    }
}

impl Profile {
    /// Its share of the GPU's speed, in thousandths, rounded down.
    pub const fn milli(self) -> u16 {
        GPU_MILLI * self.compute as u16 / slices(self.split).0 as u16
    }

    /// Memory slices of the whole GPU.
    pub const fn memory_of(self) -> u8 {
        slices(self.split).1
    }

    /// The places where it may begin.
    pub fn starts(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |start| self.starts & 1 << start != 0)
    }

    /// The memory slices it takes from there on, as bits.
    pub(super) const fn mask(self, start: u8) -> u8 {
        let run = ((1_u16 << self.memory) - 1) << start;
        (run & 0xff) as u8
    }
}

/// Where a partition does the least harm: where most kinds can still be placed afterwards, the last
/// of equals, since large ones begin at the front.
pub(super) fn best_start(split: Split, taken: u8, profile: Profile) -> Option<u8> {
    if profile.split != split {
        return None;
    }
    let free = profile.starts().filter(|start| taken & profile.mask(*start) == 0);
    free.max_by_key(|start| (room(split, taken | profile.mask(*start)), *start))
}

/// The compute slices of all partitions that could begin somewhere, one at a time.
fn room(split: Split, taken: u8) -> u32 {
    let each = profiles(split).iter().map(|profile| {
        let places = profile.starts().filter(|start| taken & profile.mask(*start) == 0).count();
        u32::try_from(places).unwrap_or(0) * u32::from(profile.compute)
    });
    each.sum()
}

/// The kinds that have room beside these memory slices, as bits.
pub(super) fn parts_left(split: Split, taken: u8) -> u8 {
    let kinds = profiles(split)
        .iter()
        .enumerate()
        .filter(|(_, profile)| profile.starts().any(|start| taken & profile.mask(start) == 0));
    kinds.fold(0, |bits, (place, _)| bits | 1 << place)
}

/// What is left of a GPU with these memory slices taken, in thousandths: what the most compute
/// slices are that partitions could still have.
pub(super) fn left_milli(split: Split, taken: u8) -> u16 {
    let (compute, _) = slices(split);
    GPU_MILLI * u16::from(most_compute(split, taken, 0)) / u16::from(compute)
}

/// The most compute slices of partitions that lie side by side from a memory slice on.
fn most_compute(split: Split, taken: u8, from: u8) -> u8 {
    if from >= slices(split).1 {
        return 0;
    }
    let skipped = most_compute(split, taken, from + 1);
    let here = profiles(split).iter().filter(|profile| {
        profile.starts().any(|start| start == from) && taken & profile.mask(from) == 0
    });
    let used = here.map(|it| it.compute + most_compute(split, taken, from + it.memory));
    used.max().unwrap_or(0).max(skipped)
}
