//! One model for all ways to give out a GPU: as a whole, in partitions that hardware keeps apart
//! (MIG), in shares of the processor side by side (MPS), or in turns (time slices).
//!
//! Strangers meet on a GPU only in partitions, unless both have agreed to shares. A GPU is in one
//! mode at a time and returns to the free one when its last user is gone, so changing how it is
//! split never touches a running task.

mod mig;
mod pool;
#[cfg(test)]
mod tests;

pub use mig::{Partition, Profile, profiles};
pub use pool::{Pool, Started};

use crate::catalogue::Split;
use crate::packing::GPU_MILLI;
use tg_types::gpu::SHARE_STEPS;
use tg_types::{GpuPart, MigSlices, Sharing};

/// Shares are given out in this many steps of a GPU.
pub const STEPS: u8 = SHARE_STEPS;
/// Of the memory of a part, what its user can have: drivers keep some for themselves.
const USABLE: (u64, u64) = (15, 16);

/// How the devices of a node may be given out besides as a whole: a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Modes(u8);

impl Modes {
    /// As a whole only.
    pub const WHOLE: Self = Self(0);
    /// In partitions.
    pub const MIG: Self = Self(1);
    /// Side by side.
    pub const MPS: Self = Self(1 << 1);
    /// In turns.
    pub const TIME: Self = Self(1 << 2);
    const ALL: Self = Self(0b111);

    /// Both together.
    #[must_use]
    pub const fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// Whether all of `needed` are there.
    pub const fn contains(self, needed: Self) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// The bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set with these bits; `None` if one has no meaning.
    pub const fn of_bits(bits: u8) -> Option<Self> {
        if bits & !Self::ALL.0 == 0 { Some(Self(bits)) } else { None }
    }
}

/// What a task takes of a node's devices of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Take {
    /// Nothing.
    None,
    /// So many whole ones.
    Whole(u8),
    /// A partition.
    Part(Profile),
    /// So many [`STEPS`] of one, beside others.
    Share(u8),
}

impl Take {
    /// What it takes of all devices together, in thousandths of one.
    pub fn milli(self) -> u32 {
        let whole = u32::from(GPU_MILLI);
        match self {
            Self::None => 0,
            Self::Whole(count) => whole * u32::from(count),
            Self::Part(profile) => u32::from(profile.milli()),
            Self::Share(steps) => whole * u32::from(steps) / u32::from(STEPS),
        }
    }

    /// What it costs of the price of one device, in thousandths, rounded up: of a partition the
    /// larger of its parts of processors and memory, since neither is left for others.
    pub fn charge_milli(self) -> u32 {
        match self {
            Self::None => u32::from(GPU_MILLI),
            Self::Whole(_) | Self::Share(_) => self.milli(),
            Self::Part(profile) => profile.charge_milli(),
        }
    }
}

impl Split {
    /// As the owner of a device says, who has asked the driver.
    pub const fn of(sharing: Sharing) -> Self {
        match sharing.mig {
            None => Self::None,
            Some(MigSlices::Four) => Self::Mig4,
            Some(MigSlices::Seven) => Self::Mig7,
        }
    }
}

impl Modes {
    /// What the owner of a device allows.
    pub const fn of(sharing: Sharing) -> Self {
        let mig = if sharing.mig.is_some() { Self::MIG } else { Self::WHOLE };
        let shares = Self::MPS.with(Self::TIME);
        if sharing.shares { mig.with(shares) } else { mig }
    }
}

/// A device as far as sharing is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// How it splits.
    pub split: Split,
    /// What its owner allows.
    pub modes: Modes,
    /// Its memory.
    pub memory_mib: u32,
}

/// A share of one device that a task asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fraction {
    /// Thousandths of its speed.
    pub milli: u16,
    /// Memory.
    pub memory_mib: u32,
    /// Whether strangers may run beside it on the same processor.
    pub may_share: bool,
}

impl Device {
    /// How such a fraction is taken of this device: beside others if both sides agree, otherwise as
    /// the smallest partition that is enough, otherwise as a whole.
    pub fn take(&self, asked: Fraction) -> Take {
        let shares = [Modes::MPS, Modes::TIME].iter().any(|mode| self.modes.contains(*mode));
        if asked.may_share && shares {
            let steps = self.steps(asked);
            return if steps < STEPS { Take::Share(steps) } else { Take::Whole(1) };
        }
        if self.modes.contains(Modes::MIG) {
            let fitting = profiles(self.split).iter().filter(|profile| {
                profile.milli() >= asked.milli
                    && usable(self.memory_mib, profile.memory, profile.memory_of())
                        >= asked.memory_mib
            });
            // The largest profile is the whole device, which needs no partition.
            let small = fitting.filter(|profile| profile.memory < profile.memory_of());
            if let Some(profile) = small.min_by_key(|profile| (profile.memory, profile.compute)) {
                return Take::Part(*profile);
            }
        }
        Take::Whole(1)
    }

    /// Steps that cover both the speed and the memory.
    fn steps(&self, asked: Fraction) -> u8 {
        let all = u64::from(STEPS);
        let speed = (u64::from(asked.milli) * all).div_ceil(GPU_MILLI.into());
        let memory = usable(self.memory_mib, 1, 1).max(1);
        let memory = (u64::from(asked.memory_mib) * all).div_ceil(memory.into());
        u8::try_from(speed.max(memory).max(1)).unwrap_or(STEPS).min(STEPS)
    }
}

/// What a user has of so many parts of a memory.
fn usable(memory_mib: u32, parts: u8, of: u8) -> u32 {
    let (kept, whole) = USABLE;
    let all = u64::from(memory_mib) * u64::from(parts) * kept / whole / u64::from(of);
    u32::try_from(all).unwrap_or(u32::MAX)
}

/// The state of one device: free, taken as a whole, or shared in one of the modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gpu(u16);

const PARTED: u16 = 1 << 8;
const SHARED: u16 = 1 << 9;
const TAKEN: u16 = 1 << 10;
const LOW: u16 = 0xff;

impl Gpu {
    /// Nobody uses it.
    pub const FREE: Self = Self(0);
    /// One task has all of it.
    pub const TAKEN: Self = Self(TAKEN);

    /// The device with one more user that is known to have this of it.
    #[must_use]
    pub(crate) fn used_by(self, part: GpuPart) -> Self {
        match part {
            GpuPart::Whole => Self::TAKEN,
            GpuPart::Partition { memory, start, .. } => {
                let mask = mig::mask(memory, start);
                if self == Self::TAKEN {
                    self
                } else {
                    Self(PARTED | u16::from(self.parted() | mask))
                }
            }
            GpuPart::Share { steps } => {
                let sum = self.shared().saturating_add(steps).min(STEPS);
                if self == Self::TAKEN { self } else { Self(SHARED | u16::from(sum)) }
            }
        }
    }

    /// What whoever needs the device both times finds of it: parts lie beside all that have been
    /// given out, and who meets two modes has no place.
    #[must_use]
    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::FREE, one) | (one, Self::FREE) => one,
            (one, two) if one.parted() != 0 && two.parted() != 0 => {
                Self(PARTED | u16::from(one.parted() | two.parted()))
            }
            (one, two) if one.shared() != 0 && two.shared() != 0 => {
                Self(SHARED | u16::from(one.shared().max(two.shared())))
            }
            _ => Self::TAKEN,
        }
    }

    /// The places that partitions have, as bits; 0 if it has none.
    const fn parted(self) -> u8 {
        if self.0 & PARTED != 0 { (self.0 & LOW) as u8 } else { 0 }
    }

    /// The steps that are given out; 0 if it is not shared.
    const fn shared(self) -> u8 {
        if self.0 & SHARED != 0 { (self.0 & LOW) as u8 } else { 0 }
    }

    /// Its number, for ledger entries.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// What is left of it, in thousandths.
    pub fn left_milli(self, split: Split) -> u16 {
        match self.0 & !LOW {
            0 => GPU_MILLI,
            PARTED => mig::left_milli(split, self.parted()),
            SHARED => GPU_MILLI - GPU_MILLI * u16::from(self.shared()) / u16::from(STEPS),
            _ => 0,
        }
    }

    /// The kinds of partitions that have room beside others, as bits in the order of [`profiles`].
    pub(crate) fn parts_left(self, split: Split) -> u8 {
        let taken = self.parted();
        if taken == 0 { 0 } else { mig::parts_left(split, taken) }
    }

    /// The steps that are left beside others.
    pub(crate) const fn steps_left(self) -> u8 {
        if self.shared() == 0 { 0 } else { STEPS - self.shared() }
    }

    /// The device with this taken of it besides, and where; `None` if there is no room.
    pub fn with(self, take: Take, split: Split) -> Option<(Self, u8)> {
        match take {
            Take::None => Some((self, 0)),
            Take::Whole(_) => (self == Self::FREE).then_some((Self::TAKEN, 0)),
            Take::Part(profile) => {
                if self != Self::FREE && self.parted() == 0 {
                    return None;
                }
                let start = mig::best_start(split, self.parted(), profile)?;
                Some((Self(PARTED | u16::from(self.parted() | profile.mask(start))), start))
            }
            Take::Share(steps) => {
                if self != Self::FREE && self.shared() == 0 {
                    return None;
                }
                let sum = self.shared().checked_add(steps).filter(|sum| *sum <= STEPS)?;
                Some((Self(SHARED | u16::from(sum)), 0))
            }
        }
    }

    /// The device with this taken of it at a place that was chosen before; `None` if that is not
    /// free.
    pub fn with_at(self, take: Take, start: u8, split: Split) -> Option<Self> {
        let Take::Part(profile) = take else {
            return self.with(take, split).map(|(with, _)| with);
        };
        let is_place = profile.starts().any(|allowed| allowed == start);
        let is_apart = self.parted() & profile.mask(start) == 0;
        let is_mode = self == Self::FREE || self.parted() != 0;
        (is_place && is_apart && is_mode)
            .then_some(Self(PARTED | u16::from(self.parted() | profile.mask(start))))
    }

    /// The device when this is given back; `None` if it was not taken there.
    pub fn without(self, take: Take, start: u8) -> Option<Self> {
        match take {
            Take::None => Some(self),
            Take::Whole(_) => (self == Self::TAKEN).then_some(Self::FREE),
            Take::Part(profile) => {
                let mask = profile.mask(start);
                let left = (self.parted() & mask == mask).then_some(self.parted() & !mask)?;
                Some(if left == 0 { Self::FREE } else { Self(PARTED | u16::from(left)) })
            }
            Take::Share(steps) => {
                let left = self.shared().checked_sub(steps)?;
                Some(if left == 0 { Self::FREE } else { Self(SHARED | u16::from(left)) })
            }
        }
    }
}
