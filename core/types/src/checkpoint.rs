//! Checkpoints: what a command has written of its state, so that it can go on elsewhere.
//!
//! A job says how often its folder is to be saved; the node that runs it hands a sealed package of
//! the folder to the validators and names it to the ledger. Whoever runs the job next begins with
//! the last one. Nothing on chain says what is in it: it is the word of the node that saved it, so
//! only work that is the provider's word anyway has checkpoints.

use crate::ids::Hash32;
use crate::tick::DurationMs;
use crate::voucher::PackageRef;
use crate::wire;

/// The shortest time between two checkpoints of a run: each is a transaction, and a package that
/// every validator fetches.
pub const CHECKPOINT_EVERY_MIN: DurationMs = DurationMs::new(5_000);

/// The largest package of a checkpoint. Every validator keeps it.
pub const CHECKPOINT_BYTES_MAX: u64 = 1 << 30;

/// The most checkpoints of one run, which are paid for: of longer runs they are further apart.
pub const CHECKPOINTS_PER_RUN_MAX: u32 = 1_024;

wire! {
    /// The sealed package of a checkpoint, by content.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CheckpointRef {
        /// The hash of its bytes.
        pub package: Hash32,
        /// How many bytes it has.
        pub package_bytes: u64,
    }
}

impl CheckpointRef {
    /// The package as vouchers name it. Its key follows from that of the job's inputs.
    pub const fn package_ref(&self) -> PackageRef {
        PackageRef { id: self.package, bytes: self.package_bytes, key_escrow: None }
    }
}

wire! {
    /// Whether and how a job's state is saved.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CheckpointPlan {
        /// How often.
        pub every: DurationMs,
        /// What its first run begins with, if it goes on with the work of another job.
        pub from: Option<CheckpointRef>,
    }
}

impl CheckpointPlan {
    /// How many checkpoints a run of this length may save at most.
    pub fn saves_max(&self, run_max: DurationMs) -> u32 {
        let count = run_max.get().checked_div(self.every.get()).unwrap_or(0);
        u32::try_from(count).unwrap_or(u32::MAX).min(CHECKPOINTS_PER_RUN_MAX)
    }

    /// How long after a checkpoint the ledger takes the next one: clocks and blocks are not exact,
    /// so half of the stated time will do.
    pub const fn apart_min(&self) -> DurationMs {
        DurationMs::new(self.every.get() / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::{CHECKPOINTS_PER_RUN_MAX, CheckpointPlan};
    use crate::tick::DurationMs;

    #[test]
    fn run_has_as_many_checkpoints_as_intervals_up_to_a_bound() {
        let saves = |every, run_max| {
            let plan = CheckpointPlan { every: DurationMs::new(every), from: None };
            plan.saves_max(DurationMs::new(run_max))
        };
        assert_eq!((saves(10, 9), saves(10, 10), saves(10, 59)), (0, 1, 5));
        assert_eq!((saves(0, 9), saves(1, u64::MAX)), (0, CHECKPOINTS_PER_RUN_MAX));
    }
}
