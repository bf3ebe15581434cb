//! Checkpoints of a run: what the program keeps is copied, sealed, handed to the validators and
//! named to the ledger, again and again while it runs; and what was saved last is fetched for the
//! run that goes on.

use super::packages::Reader;
use super::work::WorkError;
use super::{AgentConfig, Report};
use crate::chance::Chance;
use crate::saved::{CHECKPOINT_MAX, Staged, stage};
use crate::task_run::Workshop;
use std::convert::Infallible;
use std::error::Error as _;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tg_gateway::package::Whose;
use tg_gateway::{Kept, Seal};
use tg_ledger::JobEntry;
use tg_privacy::ContentKey;
use tg_sandbox::KeptFolder;
use tg_types::checkpoint::CHECKPOINTS_PER_RUN_MAX;
use tg_types::{
    Action, Amount, CheckpointPlan, CheckpointRef, Hash32, JobId, List, PackageRef, Params,
    Vouchers,
};
use tokio::sync::{mpsc, oneshot};

const MIB: u64 = 1 << 20;

/// A run whose state may be saved.
pub(crate) struct Saving<'a> {
    pub(crate) job: JobId,
    pub(crate) entry: &'a JobEntry,
    pub(crate) task: Hash32,
    /// The key of its inputs.
    pub(crate) key: [u8; 32],
    pub(crate) reports: &'a mpsc::Sender<Report>,
}

impl Saving<'_> {
    fn whose(&self, config: &AgentConfig) -> Whose {
        Whose { genesis: config.gateway.domain().genesis, owner: self.entry.owner }
    }

    /// What the run begins with. A checkpoint that cannot be had counts as none: the work is done
    /// from its beginning, which is slower and as good.
    pub(crate) async fn begins_with(&self, config: &AgentConfig) -> Option<Reader> {
        let from = self.entry.begins_with()?;
        let opened = self.open(config, from).await.inspect_err(|error| {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            tracing::warn!(job = %self.job, %error, why, "a checkpoint cannot be had; begins anew");
        });
        opened.ok()
    }

    async fn open(&self, config: &AgentConfig, from: CheckpointRef) -> Result<Reader, WorkError> {
        let package = config.gateway.package(&from.package, from.package_bytes).await?;
        let sealed = package.sealed().await?;
        let (key, whose) = (ContentKey::new(self.key), self.whose(config));
        let opening = package.head().open_checkpoint(&key, (&whose, self.task), sealed);
        let opening = opening.map_err(WorkError::Inputs)?;
        Ok(Box::new(Held { opening, _package: package }))
    }

    /// Saves the state of the run as often as its plan says. Never ends by itself.
    pub(crate) async fn save_until_dropped(
        &self,
        config: &AgentConfig,
        (workshop, name): (&Arc<Workshop>, String),
        folder: oneshot::Receiver<KeptFolder>,
    ) -> Infallible {
        let (Some(plan), Ok(folder)) = (self.entry.spec.checkpoint, folder.await) else {
            return pending().await;
        };
        let every = interval(&plan, self.entry.spec.run_max.get());
        let (mut last, mut spent) = (None, Amount::ZERO);
        loop {
            tokio::time::sleep(every).await;
            let saved = self.save(config, (workshop, &name), &folder, (last, spent)).await;
            match saved {
                Ok(Some((id, cost))) => {
                    last = Some(id);
                    spent = spent.plus(cost).unwrap_or(Amount::CAP);
                }
                Ok(None) => {}
                Err(error) => {
                    let why = error.source().map(ToString::to_string).unwrap_or_default();
                    tracing::warn!(job = %self.job, %error, why, "a checkpoint was not made");
                }
            }
        }
    }

    /// Saves the state once, unless it is the same as before or keeping it would cost too much;
    /// says which one it is and what that costs.
    async fn save(
        &self,
        config: &AgentConfig,
        (workshop, name): (&Arc<Workshop>, &str),
        folder: &KeptFolder,
        (last, spent): (Option<Hash32>, Amount),
    ) -> Result<Option<(Hash32, Amount)>, WorkError> {
        let bench = workshop.place_for_saving(name)?;
        let folder = folder.clone();
        let staged = tokio::task::spawn_blocking(move || stage(&folder, CHECKPOINT_MAX, bench));
        let staged = staged.await.map_err(|_| WorkError::Panicked)??;
        let Some(staged) = staged.filter(|staged| Some(staged.id) != last) else { return Ok(None) };
        let cost = keep_cost(config.gateway.params(), &staged);
        if !is_worth(self.entry.spec.pay, spent, cost) {
            tracing::debug!(job = %self.job, "keeping another checkpoint would cost too much");
            return Ok(None);
        }
        let id = staged.id;
        let (checkpoint, vouchers) = self.hand_over(config, staged).await?;
        let action = Action::SaveCheckpoint { job: self.job, checkpoint, vouchers };
        // The agent has stopped if nobody hears this.
        let _unheard = self.reports.send(Report::Saved(Box::new(action))).await;
        Ok(Some((id, cost)))
    }

    /// What ends a run that was asked to end before it was finished. What cannot be saved any more
    /// is done again, if anybody goes on.
    pub(crate) async fn yielded(&self, config: &AgentConfig, staged: Option<Staged>) -> Action {
        let handed = match staged {
            Some(staged) => self.hand_over(config, staged).await.map(Some),
            None => Ok(None),
        };
        let handed = handed.inspect_err(|error| {
            tracing::warn!(job = %self.job, %error, "the last state of a run was not saved");
        });
        let (checkpoint, vouchers) = handed.ok().flatten().unzip();
        let vouchers = vouchers.unwrap_or_default();
        Action::YieldRun { job: self.job, checkpoint, vouchers }
    }

    /// Seals a state and has it kept.
    async fn hand_over(
        &self,
        config: &AgentConfig,
        staged: Staged,
    ) -> Result<(CheckpointRef, Vouchers), WorkError> {
        let mut numbers = Chance::new((config.random)().ok_or(WorkError::Random)?);
        let (key, whose) = (ContentKey::new(self.key), self.whose(config));
        let seal = Seal::checkpoint(&whose, self.task, &key, || numbers.draw())?;
        let Kept { package, voucher } = config.gateway.keep(seal, Box::new(staged)).await?;
        let PackageRef { id: package, bytes: package_bytes, .. } = package;
        let checkpoint = CheckpointRef { package, package_bytes };
        let vouchers = List::new(vec![voucher]).map_err(|_| WorkError::NotKept)?;
        Ok((checkpoint, vouchers))
    }
}

/// How long to wait between two checkpoints: as the job says, and not more often than the ledger
/// takes them.
fn interval(plan: &CheckpointPlan, run_max_ms: u64) -> Duration {
    let least = run_max_ms / u64::from(CHECKPOINTS_PER_RUN_MAX);
    Duration::from_millis(plan.every.get().max(least))
}

/// What the validators are paid for keeping a checkpoint.
fn keep_cost(params: &Params, staged: &Staged) -> Amount {
    let bytes = tg_gateway::Plain::bytes(staged).saturating_add(MIB / 2);
    let cost = params.jobs.keep_fee_per_mib.times(bytes.div_ceil(MIB));
    cost.unwrap_or(Amount::CAP)
}

/// Whether a node can spend this much more on keeping: never more than half of what it earns.
fn is_worth(pay: Amount, spent: Amount, cost: Amount) -> bool {
    spent.plus(cost).is_ok_and(|sum| sum.units() <= pay.units() / 2)
}

/// A package that is read, held as long as somebody reads it.
struct Held<R> {
    opening: R,
    _package: tg_gateway::LocalPackage,
}

impl<R: std::io::Read> std::io::Read for Held<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.opening.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::{interval, is_worth};
    use std::time::Duration;
    use tg_types::{Amount, CheckpointPlan, DurationMs};

    #[test]
    fn checkpoints_are_as_far_apart_as_the_ledger_takes_them() {
        let plan = CheckpointPlan { every: DurationMs::new(5_000), from: None };
        assert_eq!(interval(&plan, 60_000), Duration::from_secs(5));
        assert_eq!(interval(&plan, 10_240_000), Duration::from_secs(10));
    }

    #[test]
    fn node_spends_at_most_half_of_its_pay_on_keeping() {
        let units = |units| Amount::new(units).expect("small");
        assert!(is_worth(units(10), units(2), units(3)));
        assert!(!is_worth(units(10), units(3), units(3)));
        assert!(!is_worth(units(10), Amount::CAP, units(1)));
    }
}
