//! GPUs and parts of them: how a node gives its GPUs out, what a job asks for, what a run has.
//!
//! Separate from devices and jobs because both sides speak of it: the owner of a device says how it
//! may be shared, the client says how much it needs and whether strangers may be beside it, and
//! what the ledger makes of both is a definite device and a definite part of it.

use crate::bounded::List;
use crate::ids::JobId;
use crate::wire;
use std::fmt;

/// Shares of a GPU are counted in twentieths: never more users than MPS serves.
pub const SHARE_STEPS: u8 = 20;

/// The most GPUs of a run, and the most equal GPUs of a node that are given out: more than one
/// machine has.
pub const GPUS_MAX: u8 = 16;

/// The place of a device that is offered no more: no offer has so many.
pub const DEVICE_GONE: u8 = u8::MAX;

wire! {
    /// Into how many compute slices hardware divides a GPU (NVIDIA's MIG).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum MigSlices {
        /// As A30 and RTX PRO 6000.
        Four = 4,
        /// As A100, H100 and their kin.
        Seven = 7,
    }
}

impl MigSlices {
    /// How many.
    pub const fn count(self) -> u8 {
        match self {
            Self::Four => 4,
            Self::Seven => 7,
        }
    }
}

wire! {
    /// How a device may be given out besides as a whole.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Sharing {
        /// In partitions that hardware keeps apart.
        pub mig: Option<MigSlices>,
        /// In shares, beside strangers who have agreed to that as well.
        pub shares: bool,
    }
}

impl Sharing {
    /// As a whole only.
    pub const WHOLE: Self = Self { mig: None, shares: false };
}

/// For people.
impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.mig, self.shares) {
            (None, false) => f.write_str("whole"),
            (None, true) => f.write_str("in shares"),
            (Some(mig), false) => write!(f, "in partitions, {} at most", mig.count()),
            (Some(mig), true) => write!(f, "in partitions, {} at most, or shares", mig.count()),
        }
    }
}

wire! {
    /// What a run is to have of a node's GPUs.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum GpuAsk {
        /// What is usual: a command that needs a GPU has one for itself, a tensor program is
        /// computed beside others.
        #[default]
        Usual = 0,
        /// So many equal ones for itself.
        Whole {
            /// How many.
            count: u8,
        } = 1,
        /// A part of one, with the memory that the job needs.
        Part {
            /// Twentieths of its speed.
            steps: u8,
            /// Whether strangers may be beside it on the same processors; otherwise it has a
            /// partition, or the whole GPU.
            may_share: bool,
        } = 2,
    }
}

impl GpuAsk {
    /// Whether there is such a thing.
    pub const fn is_valid(self) -> bool {
        match self {
            Self::Usual => true,
            Self::Whole { count } => count >= 1 && count <= GPUS_MAX,
            Self::Part { steps, .. } => steps >= 1 && steps < SHARE_STEPS,
        }
    }
}

/// For people.
impl fmt::Display for GpuAsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usual => f.write_str("as usual"),
            Self::Whole { count: 1 } => f.write_str("a whole GPU"),
            Self::Whole { count } => write!(f, "{count} whole GPUs"),
            Self::Part { steps, may_share } => {
                let hundredths = u32::from(*steps) * 100 / u32::from(SHARE_STEPS);
                write!(f, "0.{hundredths:02} of a GPU")?;
                if *may_share { f.write_str(", beside strangers") } else { Ok(()) }
            }
        }
    }
}

wire! {
    /// What of a GPU a run has.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum GpuPart {
        /// All of it.
        Whole = 1,
        /// A partition.
        Partition {
            /// Compute slices.
            compute: u8,
            /// Memory slices.
            memory: u8,
            /// The first of them.
            start: u8,
        } = 2,
        /// A share, beside others.
        Share {
            /// Twentieths.
            steps: u8,
        } = 3,
    }
}

/// For people.
impl fmt::Display for GpuPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("whole"),
            Self::Partition { compute, memory, start } => {
                write!(f, "partition of {compute} compute and {memory} memory slices at {start}")
            }
            Self::Share { steps } => write!(f, "{steps} of {SHARE_STEPS} shares"),
        }
    }
}

wire! {
    /// A definite GPU of a node, or a definite part of one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct GpuSlice {
        /// The device, by its place in the offer; [`DEVICE_GONE`] if it is offered no more.
        pub device: u8,
        /// Which of those that are equal.
        pub unit: u8,
        /// What of it.
        pub part: GpuPart,
    }
}

/// For people.
impl fmt::Display for GpuSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {} of device {}, {}", self.unit, self.device, self.part)
    }
}

wire! {
    /// What a run has of a node's GPUs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct HeldGpu {
        /// The run, by its job.
        pub job: JobId,
        /// What it has.
        pub slice: GpuSlice,
    }
}

/// What one run has: several GPUs if it asks for several.
pub type GpuSlices = List<GpuSlice, 0, { GPUS_MAX as usize }>;

#[cfg(test)]
mod tests {
    use super::{GpuAsk, GpuPart, GpuSlice, MigSlices, Sharing};

    #[test]
    fn asks_have_bounds() {
        let part = |steps| GpuAsk::Part { steps, may_share: false };
        for valid in [GpuAsk::Usual, GpuAsk::Whole { count: 16 }, part(1), part(19)] {
            assert!(valid.is_valid(), "{valid}");
        }
        for wrong in [GpuAsk::Whole { count: 0 }, GpuAsk::Whole { count: 17 }, part(0), part(20)] {
            assert!(!wrong.is_valid(), "{wrong:?}");
        }
    }

    #[test]
    fn parts_have_words() {
        let part = GpuPart::Partition { compute: 1, memory: 2, start: 4 };
        let slice = GpuSlice { device: 1, unit: 0, part };
        let words = "GPU 0 of device 1, partition of 1 compute and 2 memory slices at 4";
        assert_eq!(slice.to_string(), words);
        let ask = GpuAsk::Part { steps: 1, may_share: true };
        assert_eq!(ask.to_string(), "0.05 of a GPU, beside strangers");
        let sharing = Sharing { mig: Some(MigSlices::Seven), shares: false };
        assert_eq!(sharing.to_string(), "in partitions, 7 at most");
    }
}
