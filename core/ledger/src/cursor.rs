//! How far the ledger has come: the last block, the due queue, the beacons and the rate. One entry,
//! because every block reads and writes all of it; and in the state, because a node that
//! synchronised its state must continue at the same place as one that executed every block.

use tg_types::ids::Noun;
use tg_types::{Height, Tick, wire};

use crate::entry::{Entry, entry};

entry! {
    /// How far the ledger has come.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Cursor {
        /// The last block's height.
        pub height: Height,
        /// The last block's time.
        pub tick: Tick,
        /// The second whose bucket of the due queue is visited next.
        pub due_second: u64,
        /// Items of that second which were visited already.
        pub due_index: u64,
        /// The last height whose certificate is recorded.
        pub beacon: Height,
        /// The height whose results are drawn next.
        pub draw_height: Height,
        /// Results of that height which were drawn already.
        pub draw_place: u64,
        /// Thousandths of a transaction that the rate still allows after the last block.
        pub allowance: u64,
        /// What became of promises.
        pub promises: PromiseCounts,
    }
}

wire! {
    /// How many jobs were promised, and what became of them. The rest is under way, was taken back
    /// by its client, or was voided because its package does not open.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PromiseCounts {
        /// Promised.
        pub given: u64,
        /// Done in time.
        pub kept: u64,
        /// Not done in time, openly.
        pub broken: u64,
    }
}

impl Entry for Cursor {
    const NOUN: Noun = Noun::Cursor;
}
