//! Processors and memory of machines: whether what a run asks for is there and free, and how much
//! of it a node has left. What runs hold stands in the entries of their nodes; nothing else is
//! kept.
//!
//! An offer that says nothing of processors or of memory is not counted in that: its slots are all
//! that there is to give out.

use crate::Offer;
use crate::logarithm::{ONE, log2};
use tg_types::HostPart;

/// What counts as one in the logarithm of processors: less is not told apart.
const CPU_GRAIN_MILLI: u32 = 250;
/// The same of memory.
const MEMORY_GRAIN_MIB: u32 = 256;
/// The most half octaves that are told apart, and what says nothing of itself.
pub(crate) const SPARE_MAX: u8 = 31;

impl Offer<'_> {
    /// What its runs hold of processors and memory together.
    fn host_held(&self) -> HostPart {
        self.hosted.iter().fold(HostPart::NONE, |all, held| all.with(held.part))
    }

    /// Whether its machine has so much, whoever holds it.
    pub(crate) fn has_host(&self, asked: HostPart) -> bool {
        is_within(asked, self.descriptor.host, HostPart::NONE)
    }

    /// Whether so much of it is free.
    pub(crate) fn has_host_free(&self, asked: HostPart) -> bool {
        asked == HostPart::NONE || is_within(asked, self.descriptor.host, self.host_held())
    }

    /// Whether so much of it is free beside what is taken.
    pub(crate) fn has_host_beside(&self, asked: HostPart, taken: HostPart) -> bool {
        is_within(asked, self.descriptor.host, taken)
    }

    /// How much of processors and memory is free, in half octaves: where less is left, a run that
    /// fits fits more tightly.
    pub(crate) fn spare(&self) -> u8 {
        let (offered, free) =
            (self.descriptor.host, self.descriptor.host.without(self.host_held()));
        let parts = [
            (offered.cpu_milli, free.cpu_milli / CPU_GRAIN_MILLI),
            (offered.memory_mib, free.memory_mib / MEMORY_GRAIN_MIB),
        ];
        let half_octaves = |(offered, grains): (u32, u32)| match offered {
            0 => i64::from(SPARE_MAX),
            _ => 2 * log2(grains.into()) / ONE,
        };
        let mean = parts.map(half_octaves).into_iter().sum::<i64>() / 2;
        u8::try_from(mean).unwrap_or(SPARE_MAX).min(SPARE_MAX)
    }
}

/// Whether so much is there beside what is held, as far as anything is said of it.
fn is_within(asked: HostPart, offered: HostPart, held: HostPart) -> bool {
    let fits = |asked: u32, offered: u32, held: u32| {
        let free = offered.saturating_sub(held);
        asked == 0 || offered == 0 || asked <= free
    };
    fits(asked.cpu_milli, offered.cpu_milli, held.cpu_milli)
        && fits(asked.memory_mib, offered.memory_mib, held.memory_mib)
}
