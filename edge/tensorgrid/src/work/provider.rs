//! A node of this machine: money at stake, an offer on the chain, and the agent that works.

use super::connect::wrap_secret;
use crate::files;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tg_agent::agent::{Agent, AgentConfig, AgentError, Cheat, Deeds, GpuPlace};
use tg_agent::task_run::Workshop;
use tg_gateway::{Gateway, GatewayError};
use tg_ledger::{AccountEntry, NodeEntry, StakeEntry, keys};
use tg_types::{AccountId, Action, Amount, Kind, Lane, NodeDescriptor, NodeId, Reason, SecretKey};

/// What a node has besides its stake, for the fees of its transactions and for objections.
const WORKING_BALANCE: Amount = Amount::constant(20_000_000_000);

/// The lane of the owner's own transactions: the agent's are in the first.
const OWNER_LANE: Lane = match Lane::new(1) {
    Ok(lane) => lane,
    Err(_) => Lane::FIRST,
};

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
    key: SecretKey,
    node: NodeId,
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
        let node = offer(&gateway, &key, descriptor).await?;
        let own = SecretKey::from_seed(*key.expose_seed());
        let (wrap, random) = (wrap_secret(&key), || files::random().ok());
        let config = AgentConfig {
            key: own,
            wrap,
            gateway: Arc::clone(&gateway),
            random,
            workshop,
            notes,
            gpus,
            cheats,
        };
        Ok(Self { agent: Agent::start(config)?, gateway, key, node })
    }

    /// Which node it is.
    pub(crate) const fn node(&self) -> NodeId {
        self.node
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
            let entry: Option<NodeEntry> = self.gateway.entry(keys::node(&self.node)).await?;
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
        let action = Action::ChangeNode { node: self.node, descriptor };
        Ok(send(&self.gateway, &self.key, action).await?)
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
            match send(&self.gateway, &self.key, Action::LeaveNode { node: self.node }).await {
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
        send(gateway, key, Action::Stake { amount: missing }).await?;
    }
    Ok(())
}

/// Registers a node, or changes its offer if it is registered.
async fn offer(
    gateway: &Gateway,
    key: &SecretKey,
    descriptor: NodeDescriptor,
) -> Result<NodeId, GatewayError> {
    let account = AccountId::from(key.public());
    let node = NodeId::new(*key.public().as_bytes());
    let known: Option<NodeEntry> = gateway.entry(keys::node(&node)).await?;
    let action = if known.is_some() {
        Action::ChangeNode { node, descriptor }
    } else {
        let consent = key.sign(gateway.domain(), Kind::NodeConsent, account.as_bytes());
        Action::RegisterNode { node, descriptor, consent }
    };
    send(gateway, key, action).await?;
    Ok(node)
}

async fn send(gateway: &Gateway, key: &SecretKey, action: Action) -> Result<(), GatewayError> {
    let nonce = gateway.nonce(AccountId::from(key.public()), OWNER_LANE).await?;
    gateway.send(key, (OWNER_LANE, nonce), action).await.map(drop)
}
