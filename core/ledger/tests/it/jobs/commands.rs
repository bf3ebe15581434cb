//! Commands for tests of what ends or moves runs before they are finished.

use tg_types::checkpoint::CHECKPOINT_EVERY_MIN;
use tg_types::{
    Action, Amount, CheckpointPlan, CheckpointRef, DurationMs, Hash32, JobId, JobSpec, List,
    Params, Tier, Work,
};

use crate::fleet::*;
use crate::world::*;

/// A command that may run for so long and wait for an hour.
pub(super) fn command_of(run_max: u64) -> JobSpec {
    let work = Work::Opaque { task: Hash32::new([1; 32]) };
    let (run_max, expires_after) = (DurationMs::new(run_max), DurationMs::HOUR);
    JobSpec { work, run_max, expires_after, ..spec(Tier::Trusted) }
}

/// The same job, saved as often as may be.
pub(super) fn saved_often(spec: JobSpec) -> JobSpec {
    let checkpoint = Some(CheckpointPlan { every: CHECKPOINT_EVERY_MIN, from: None });
    JobSpec { checkpoint, ..spec }
}

/// A saved state.
pub(super) fn package(number: u8) -> CheckpointRef {
    CheckpointRef { package: Hash32::new([number; 32]), package_bytes: 9 }
}

/// A node says that a run ended which it was asked to end.
pub(super) fn yielded(job: JobId, checkpoint: Option<CheckpointRef>) -> Action {
    Action::YieldRun { job, checkpoint, vouchers: List::default() }
}

/// Parameters that let jobs wait for a day and run for an hour.
pub(super) fn patient() -> Params {
    let mut params = busy_params();
    params.job_expires_max = DurationMs::DAY;
    params.jobs.run_max = DurationMs::HOUR;
    params
}

/// The same with bonds so small that a node's stake stands for many runs.
pub(super) fn patient_with_small_bonds() -> Params {
    let mut params = patient();
    params.jobs.run_bond = 1;
    params
}

impl World {
    /// From now on nodes do their work, until all of these jobs have ended.
    pub(super) fn finish(&mut self, mut jobs: Vec<JobId>) {
        for _ in 0..200 {
            jobs.retain(|job| self.job(job).is_some_and(|entry| !entry.status.is_final()));
            if jobs.is_empty() {
                break;
            }
            for job in &jobs {
                let Some(runner) = self.runners(*job).first().copied() else { continue };
                self.run(voice(runner), commit_as(runner, *job, &right()));
                self.run(voice(runner), reveal_as(runner, *job, &right()));
            }
            self.beat();
        }
        assert!(jobs.is_empty(), "everything ends");
        assert_eq!(self.totals().escrow, Amount::ZERO);
    }
}
