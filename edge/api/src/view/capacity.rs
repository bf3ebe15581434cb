//! Readable JSON of what nodes show of their capacity.

use super::Listing;
use crate::text::Number;
use serde::{Deserialize, Serialize};
use tg_ledger::Proved;
use tg_types::{Event, Tick};

/// What was measured of a node: host memory, filled by its processor. The memory of its other
/// devices is claimed, not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProvedView {
    /// The memory of a device that it is credited with at most.
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
        Event::CapacityAsked { node, seed, blocks, deadline } => list
            .text("node", node)
            .text("seed", seed)
            .number("blocks", *blocks)
            .number("deadline", deadline.get()),
        Event::CapacityCommitted { node, root } => list.text("node", node).text("root", root),
        Event::CapacityDrawn { node, lot, deadline } => {
            list.text("node", node).text("lot", lot).number("deadline", deadline.get())
        }
        Event::CapacityShown { node, shown } => list.text("node", node).number("shown", *shown),
        Event::CapacityProved { node, memory_mib, blocks, took } => list
            .text("node", node)
            .number("memory_mib", *memory_mib)
            .number("blocks", *blocks)
            .number("took_ms", took.get()),
        Event::CapacityMissed { node, again } => {
            list.text("node", node).number("again", again.get())
        }
        _ => list,
    }
}
