//! A node of this machine: money at stake, an offer on the chain, and the agent that works.

use super::connect::wrap_secret;
use crate::files;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tg_agent::agent::{Agent, AgentConfig, AgentError, Cheat, Deeds, GpuPlace, Splitter};
use tg_agent::registration::Registration;
use tg_agent::task_run::Workshop;
use tg_api::words::short_job;
use tg_gateway::{Gateway, GatewayError};
use tg_jobfile::Deadline;
use tg_ledger::{AccountEntry, JobEntry, NodeEntry, Run, RunState, StakeEntry, YieldTo, keys};
use tg_types::{AccountId, Action, Amount, Lane, NodeDescriptor, NodeId, Reason, SecretKey, Tick};

/// What a node has besides its stake, for the fees of its transactions and for objections.
const WORKING_BALANCE: Amount = Amount::constant(20_000_000_000);

/// How often to look whether a node that leaves has finished.
const LOOK: Duration = Duration::from_millis(200);

/// Runs that are told one by one while a node leaves.
const TOLD_MAX: usize = 8;

/// How often to look whether a node is credited.
const LOOK_CREDIT: Duration = Duration::from_millis(20);

/// Why a node does not work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderError {
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// What a node is to be.
pub(crate) struct ProviderPlan {
    /// What it offers.
    pub(crate) descriptor: NodeDescriptor,
    /// Where the GPUs are that it offers.
    pub(crate) gpus: Vec<GpuPlace>,
    /// Who splits them, if they are.
    pub(crate) splitter: Option<Arc<dyn Splitter>>,
    /// What it has at stake.
    pub(crate) stake: Amount,
    /// Where it runs strangers' programs, if it does.
    pub(crate) workshop: Option<Arc<Workshop>>,
    /// Where it notes what it has committed to, if it may come back.
    pub(crate) notes: Option<PathBuf>,
    /// Whether it lies, to show that it is caught.
    pub(crate) cheats: Option<Cheat>,
}

/// A node that works.
pub(crate) struct Provider {
    agent: Agent,
    gateway: Arc<Gateway>,
    registration: Arc<Registration>,
}

/// How a node left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// It is not registered any more.
    Left,
    /// It still had something to finish; it stays registered and counts as absent.
    Busy,
}

impl Provider {
    /// Puts money at stake, makes the offer, and starts the agent.
    pub(crate) async fn start(
        gateway: Arc<Gateway>,
        key: SecretKey,
        plan: ProviderPlan,
    ) -> Result<Self, ProviderError> {
        let ProviderPlan { descriptor, gpus, splitter, stake, workshop, notes, cheats } = plan;
        back(&gateway, &key, stake).await?;
        let own = SecretKey::from_seed(*key.expose_seed());
        let registration = Arc::new(Registration::new(Arc::clone(&gateway), own));
        registration.offer(descriptor).await?;
        let (wrap, random) = (wrap_secret(&key), || files::random().ok());
        let config = AgentConfig {
            key,
            wrap,
            gateway: Arc::clone(&gateway),
            registration: Arc::clone(&registration),
            random,
            workshop,
            notes,
            gpus,
            splitter,
            cheats,
        };
        Ok(Self { agent: Agent::start(config)?, gateway, registration })
    }

    /// Which node it is.
    pub(crate) fn node(&self) -> NodeId {
        self.registration.node()
    }

    /// How often it had to come back, because validators did not see it.
    pub(crate) fn returns(&self) -> u64 {
        self.registration.returns()
    }

    /// What its agent has done.
    pub(crate) fn deeds(&self) -> Deeds {
        self.agent.deeds()
    }

    /// Waits until a device of the node is credited and it gets work; says whether one is.
    pub(crate) async fn credited(&self, patience: Duration) -> Result<bool, ProviderError> {
        let params = &self.gateway.params().capacity;
        let end = tokio::time::Instant::now() + patience;
        loop {
            let entry: Option<NodeEntry> = self.gateway.entry(keys::node(&self.node())).await?;
            let is_credited = entry.is_some_and(|entry| entry.is_credited(params));
            if is_credited || tokio::time::Instant::now() >= end {
                return Ok(is_credited);
            }
            tokio::time::sleep(LOOK_CREDIT).await;
        }
    }

    /// Says where the GPUs are that the node offers from now on.
    pub(crate) fn set_gpus(&self, gpus: Vec<GpuPlace>) {
        self.agent.set_gpus(gpus);
    }

    /// Makes another offer.
    pub(crate) async fn change(&self, descriptor: NodeDescriptor) -> Result<(), ProviderError> {
        Ok(self.registration.offer(descriptor).await?)
    }

    /// Takes no more work, has commands that are saved go on elsewhere, finishes the rest, at most
    /// for `patience`, and leaves the network. Says what it waits for. Its agent works no more
    /// afterwards, however this ends.
    pub(crate) async fn leave(
        self,
        descriptor: NodeDescriptor,
        patience: Duration,
        tell: impl Fn(&str),
    ) -> Result<Leave, ProviderError> {
        let left = self.drain(descriptor, patience, tell).await;
        self.stop().await;
        left
    }

    async fn drain(
        &self,
        descriptor: NodeDescriptor,
        patience: Duration,
        tell: impl Fn(&str),
    ) -> Result<Leave, ProviderError> {
        let closes = closing_after(patience);
        self.change(NodeDescriptor { is_open: false, closes, ..descriptor }).await?;
        let end = tokio::time::Instant::now() + patience;
        let mut told = String::new();
        loop {
            match self.registration.leave().await {
                Ok(()) => return Ok(Leave::Left),
                Err(GatewayError::Ledger(Reason::NodeBusy)) => {}
                Err(error) => return Err(error.into()),
            }
            // Whoever cannot be told waits all the same.
            let waits = self.waits_for(closes).await.unwrap_or_default();
            if is_news(&waits, &told) {
                tell(&waits);
                told = waits;
            }
            if tokio::time::Instant::now() >= end {
                return Ok(Leave::Busy);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What a node that leaves then still has to finish, in a line; nothing if there is nothing.
    async fn waits_for(&self, closes: Option<Tick>) -> Result<String, ProviderError> {
        let node = self.node();
        let entry: Option<NodeEntry> = self.gateway.entry(keys::node(&node)).await?;
        let Some(entry) = entry else { return Ok(String::new()) };
        let mut parts = Vec::new();
        let runs = entry.runs.as_slice();
        for job in runs.iter().take(TOLD_MAX) {
            let known: Option<JobEntry> = self.gateway.entry(keys::job(job)).await?;
            let run = known.as_ref().and_then(|known| known.live().find(|run| run.node == node));
            let what = run.and_then(|run| run_words(run, closes));
            parts.extend(what.map(|what| format!("job {}, {what}", short_job(job))));
        }
        if runs.len() > TOLD_MAX {
            parts.push(format!("{} more runs", runs.len() - TOLD_MAX));
        }
        if entry.checks > 0 {
            parts.push(format!("{} checks of others' results", entry.checks));
        }
        if !entry.kept.as_slice().is_empty() {
            parts.push("promised jobs, which go elsewhere".to_owned());
        }
        Ok(if parts.is_empty() {
            String::new()
        } else {
            format!("Waiting for {}.", parts.join("; "))
        })
    }

    /// Stops without taking the node out.
    pub(crate) async fn stop(self) {
        self.agent.stop().await;
        if let Err(error) = self.gateway.peer().stop().await {
            tracing::debug!(%error, "a peer did not stop well");
        }
    }
}

/// The instant after so long, as blocks tell the time.
fn closing_after(patience: Duration) -> Option<Tick> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let closes = u64::try_from(now.saturating_add(patience).as_millis()).ok()?;
    Some(Tick::new(closes))
}

/// Whether a line says something, and not what was said last.
fn is_news(line: &str, told: &str) -> bool {
    !line.is_empty() && line != told
}

/// What a node that leaves then still has to do for a run; nothing if that has ended.
fn run_words(run: &Run, closes: Option<Tick>) -> Option<String> {
    let what = match (run.state, run.yields_to) {
        (RunState::Placed, Some(YieldTo::Job { .. } | YieldTo::Owner | YieldTo::Better)) => {
            "which is saved and goes on elsewhere".to_owned()
        }
        (RunState::Placed, Some(YieldTo::Client { .. })) => "which its client stops".to_owned(),
        (RunState::Placed, None) => {
            let by = |by| Deadline::new(by).map(|by| by.to_string()).unwrap_or_default();
            match closes.filter(|closes| *closes < run.deadline) {
                Some(closes) => format!("which is left to others unless it ends by {}", by(closes)),
                None => format!("which ends here, by {} at the latest", by(run.deadline)),
            }
        }
        (RunState::Committed { .. } | RunState::Revealed { .. }, _) => {
            "whose result is being accepted".to_owned()
        }
        (RunState::Ended { .. }, _) => return None,
    };
    Some(what)
}

/// Makes sure that a node has its stake, with trial money where there is some.
async fn back(gateway: &Gateway, key: &SecretKey, stake: Amount) -> Result<(), GatewayError> {
    let account = AccountId::from(key.public());
    let entry: Option<StakeEntry> = gateway.entry(keys::stake(&account)).await?;
    let staked = entry.map_or(Amount::ZERO, |entry| entry.active);
    let missing = stake.minus(staked).unwrap_or(Amount::ZERO);
    let balance: Option<AccountEntry> = gateway.entry(keys::account(&account)).await?;
    let balance = balance.map_or(Amount::ZERO, |entry| entry.balance);
    let has_enough = balance.minus(missing).is_ok_and(|rest| rest >= WORKING_BALANCE);
    if !has_enough {
        gateway.faucet(account, missing.max(WORKING_BALANCE)).await?;
        gateway.faucet(account, WORKING_BALANCE).await?;
    }
    if missing > Amount::ZERO {
        let nonce = gateway.nonce(account, Lane::FIRST).await?;
        gateway.send(key, (Lane::FIRST, nonce), Action::Stake { amount: missing }).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{is_news, run_words};
    use tg_ledger::{Run, RunState, YieldTo};
    use tg_types::{AccountId, Amount, GpuSlices, JobId, NodeId, Reason, SecretKey, Tick};

    /// A run that is to end two seconds after the epoch.
    fn run(state: RunState, yields_to: Option<YieldTo>) -> Run {
        Run {
            node: NodeId::new([1; 32]),
            owner: AccountId::from(SecretKey::from_seed([1; 32]).public()),
            bond: Amount::ZERO,
            class: None,
            gpus: GpuSlices::default(),
            asked: None,
            begun: Tick::new(0),
            took: None,
            deadline: Tick::new(2_000),
            yields_to,
            state,
        }
    }

    #[test]
    fn node_that_leaves_says_what_becomes_of_each_run() {
        let check = |run: &Run, closes: u64, expected: Option<&str>| {
            let said = run_words(run, Some(Tick::new(closes)));
            assert_eq!(said.as_deref(), expected);
        };
        let runs = run(RunState::Placed, None);
        check(&runs, 2_000, Some("which ends here, by 1970-01-01T00:00:02Z at the latest"));
        let earlier = "which is left to others unless it ends by 1970-01-01T00:00:01Z";
        check(&runs, 1_000, Some(earlier));
        let saved = Some("which is saved and goes on elsewhere");
        check(&run(RunState::Placed, Some(YieldTo::Owner)), 1_000, saved);
        check(&run(RunState::Placed, Some(YieldTo::Better)), 1_000, saved);
        let job = JobId::new([2; 32]);
        check(&run(RunState::Placed, Some(YieldTo::Job { job })), 1_000, saved);
        let stopped = Some(YieldTo::Client { by: Tick::new(1_000) });
        check(&run(RunState::Placed, stopped), 1_000, Some("which its client stops"));
        check(&run(RunState::Ended { why: Reason::NodeBusy }, stopped), 1_000, None);
    }

    #[test]
    fn line_that_is_empty_or_was_said_is_no_news() {
        assert!(is_news("a", "") && is_news("a", "b"));
        assert!(!is_news("a", "a") && !is_news("", "") && !is_news("", "a"));
    }
}
