//! What a client asks for, and how far it has come.

use crate::ids::Hash32;
use crate::tick::DurationMs;
use crate::wire;

wire! {
    /// A job: which program on which input, and what it may take.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct JobSpec {
        /// The program, by content.
        pub program: Hash32,
        /// The input, by content.
        pub input: Hash32,
        /// How long it may run.
        pub max_run_ms: DurationMs,
        /// How long it may wait before the escrow goes back.
        pub expires_after: DurationMs,
        /// The least memory of a device that can run it.
        pub memory_mib_min: u32,
    }
}

wire! {
    /// How far a job has come.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum JobStatus {
        /// Waiting for a node; its escrow is locked.
        Queued = 1,
        /// Taken back by its owner; the escrow has been refunded.
        Cancelled = 2,
        /// Not done in time; the escrow has been refunded.
        Expired = 3,
    }
}
