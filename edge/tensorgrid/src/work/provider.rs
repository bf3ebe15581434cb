//! A node of this machine: money at stake, an offer on the chain, and the agent that works.

use super::connect::wrap_secret;
use crate::files;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tg_agent::agent::{Agent, AgentConfig, AgentError, Cheat, Deeds, GpuPlace};
use tg_agent::registration::Registration;
use tg_agent::task_run::Workshop;
use tg_gateway::{Gateway, GatewayError};
use tg_ledger::{AccountEntry, NodeEntry, StakeEntry, keys};
use tg_types::{AccountId, Action, Amount, Lane, NodeDescriptor, NodeId, Reason, SecretKey};

/// What a node has besides its stake, for the fees of its transactions and for objections.
const WORKING_BALANCE: Amount = Amount::constant(20_000_000_000);

/// How often to look whether a node that leaves has finished.
const LOOK: Duration = Duration::from_millis(200);

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
        let ProviderPlan { descriptor, gpus, stake, workshop, notes, cheats } = plan;
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

    /// Takes no more work, finishes what it has, at most for `patience`, and leaves the network.
    pub(crate) async fn leave(
        self,
        descriptor: NodeDescriptor,
        patience: Duration,
    ) -> Result<Leave, ProviderError> {
        self.change(NodeDescriptor { is_open: false, ..descriptor }).await?;
        let end = tokio::time::Instant::now() + patience;
        let left = loop {
            match self.registration.leave().await {
                Ok(()) => break Leave::Left,
                Err(GatewayError::Ledger(Reason::NodeBusy)) => {}
                Err(error) => return Err(error.into()),
            }
            if tokio::time::Instant::now() >= end {
                break Leave::Busy;
            }
            tokio::time::sleep(LOOK).await;
        };
        self.stop().await;
        Ok(left)
    }

    /// Stops without taking the node out.
    pub(crate) async fn stop(self) {
        self.agent.stop().await;
        if let Err(error) = self.gateway.peer().stop().await {
            tracing::debug!(%error, "a peer did not stop well");
        }
    }
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
