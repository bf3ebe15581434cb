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

    /// Its part of the price of a GPU, in thousandths: the larger of its parts of processors and
    /// memory, rounded up.
    pub(super) fn charge_milli(self) -> u32 {
        let (compute, memory) = slices(self.split);
        let part = |of: u8, all: u8| (u32::from(GPU_MILLI) * u32::from(of)).div_ceil(all.into());
        part(self.compute, compute).max(part(self.memory, memory))
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
        mask(self.memory, start)
    }
}

/// So many memory slices from there on, as bits; what no GPU has is left out.
pub(super) const fn mask(memory: u8, start: u8) -> u8 {
    let count = if memory > 8 { 8 } else { memory };
    let run = if start > 7 { 0 } else { ((1_u16 << count) - 1) << start };
    (run & 0xff) as u8
}

/// What has room beside memory slices that are taken, for every set of them: these are asked for
/// at every decision.
struct Rooms {
    /// The kinds that have room, as bits.
    kinds: [u8; 256],
    /// The compute slices of all partitions that could begin somewhere, one at a time.
    places: [u8; 256],
    /// The most compute slices of partitions that lie side by side.
    compute: [u8; 256],
}

static NONE_ROOMS: Rooms = rooms(Split::None);
static FOUR_ROOMS: Rooms = rooms(Split::Mig4);
static SEVEN_ROOMS: Rooms = rooms(Split::Mig7);

const fn rooms_of(split: Split) -> &'static Rooms {
    match split {
        Split::None => &NONE_ROOMS,
        Split::Mig4 => &FOUR_ROOMS,
        Split::Mig7 => &SEVEN_ROOMS,
    }
}

const fn rooms(split: Split) -> Rooms {
    let mut rooms = Rooms { kinds: [0; 256], places: [0; 256], compute: [0; 256] };
    let all = profiles(split);
    let mut taken = 0;
    while taken < 256 {
        // The most from a memory slice on, found from the last to the first.
        let mut most = [0; 17];
        let mut start = 8;
        while start > 0 {
            start -= 1;
            most[start] = most[start + 1];
            let mut kind = 0;
            while kind < all.len() {
                let it = all[kind];
                if it.starts & 1 << start != 0 && taken & it.mask(start as u8) as usize == 0 {
                    rooms.kinds[taken] |= 1 << kind;
                    rooms.places[taken] += it.compute;
                    let used = it.compute + most[start + it.memory as usize];
                    most[start] = if used > most[start] { used } else { most[start] };
                }
                kind += 1;
            }
        }
        rooms.compute[taken] = most[0];
        taken += 1;
    }
    rooms
}

/// Where a partition does the least harm: where most kinds can still be placed afterwards, the last
/// of equals, since large ones begin at the front.
pub(super) fn best_start(split: Split, taken: u8, profile: Profile) -> Option<u8> {
    if profile.split != split {
        return None;
    }
    let places = &rooms_of(split).places;
    let free = profile.starts().filter(|start| taken & profile.mask(*start) == 0);
    free.max_by_key(|start| (places[usize::from(taken | profile.mask(*start))], *start))
}

/// The kinds that have room beside these memory slices, as bits.
pub(super) fn parts_left(split: Split, taken: u8) -> u8 {
    rooms_of(split).kinds[usize::from(taken)]
}

/// What is left of a GPU with these memory slices taken, in thousandths: what the most compute
/// slices are that partitions could still have.
pub(super) fn left_milli(split: Split, taken: u8) -> u16 {
    let (compute, _) = slices(split);
    let most = rooms_of(split).compute[usize::from(taken)];
    GPU_MILLI * u16::from(most) / u16::from(compute)
}
