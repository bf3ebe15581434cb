//! Readable JSON of what nodes show of their capacity.

use super::Listing;
use crate::text::Number;
use serde::{Deserialize, Serialize};
use tg_types::{Event, Proved, Tick};

/// What was measured of a device: a share of its memory, filled by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProvedView {
    /// The memory that it is credited with at most.
    pub memory_mib: u32,
    /// The memory that it filled.
    pub filled_kib: u32,
    /// How long that took in block time.
    pub took_ms: u64,
    /// How fast that was at least.
    pub kib_per_second: u64,
    /// When.
    pub at: Number<Tick>,
}

impl From<&Proved> for ProvedView {
    fn from(proved: &Proved) -> Self {
        Self {
            memory_mib: proved.memory_mib,
            filled_kib: proved.blocks,
            took_ms: proved.took.get(),
            kib_per_second: proved.blocks_per_second(),
            at: Number(proved.at),
        }
    }
}

/// What an event about capacity says, besides its sentence.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are told elsewhere")]
pub(super) fn event_details(event: &Event, list: Listing) -> Listing {
    match event {
        Event::CapacityAsked { node, device, seed, blocks, deadline } => list
            .text("node", node)
            .number("device", *device)
            .text("seed", seed)
            .number("blocks", *blocks)
            .number("deadline", deadline.get()),
        Event::CapacityCommitted { node, root } => list.text("node", node).text("root", root),
        Event::CapacityDrawn { node, lot, deadline } => {
            list.text("node", node).text("lot", lot).number("deadline", deadline.get())
        }
        Event::CapacityShown { node, shown } => list.text("node", node).number("shown", *shown),
        Event::CapacityProved { node, device, memory_mib, blocks, took } => list
            .text("node", node)
            .number("device", *device)
            .number("memory_mib", *memory_mib)
            .number("blocks", *blocks)
            .number("took_ms", took.get()),
        Event::CapacityMissed { node, device, again } => {
            list.text("node", node).number("device", *device).number("again", again.get())
        }
        _ => list,
    }
}
