//! The network of peers on one machine: a relay, a door at every validator, providers on this
//! machine's devices. All of it over real connections, so that what works here works elsewhere.

use crate::files;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tg_agent::agent::{Agent, AgentConfig};
use tg_chain::Chain;
use tg_gateway::{Door, DoorConfig, Gateway, GatewayError, presence};
use tg_net::{
    BlobPlace, Peer, PeerId, PeerSettings, Reach, Relay, RelayInfo, RelaySettings, Route, Ticket,
    TicketParts, TicketValidator,
};
use tg_privacy::WrapSecret;
use tg_types::hash::{Tag, tagged};
use tg_types::key::Domain;
use tg_types::{
    AccountId, Action, Amount, Device, DeviceKind, Features, Kind, Lane, List, Name,
    NodeDescriptor, NodeId, Params, SecretKey,
};
use tokio::task::JoinHandle;

/// How long a peer may take to reach the relay.
const ONLINE_WAIT: Duration = Duration::from_secs(10);

/// What a provider of this machine has at stake.
pub(crate) const PROVIDER_STAKE: Amount = Amount::constant(100_000_000_000);

/// What it gets besides, for the fees of its transactions and for objections.
const PROVIDER_BALANCE: Amount = Amount::constant(20_000_000_000);

/// What an hour of it costs.
const PRICE_PER_HOUR: Amount = Amount::constant(100_000_000);

const GATEWAY: Tag = Tag::new("tensorgrid/gateway key");
const WRAP: Tag = Tag::new("tensorgrid/wrap key");

/// Why the local network of peers did not come up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocalError {
    #[error(transparent)]
    Relay(#[from] tg_net::RelayError),
    #[error(transparent)]
    Bind(#[from] tg_net::BindError),
    #[error(transparent)]
    Online(#[from] tg_net::OnlineError),
    #[error(transparent)]
    Route(#[from] tg_net::RouteError),
    #[error(transparent)]
    Door(#[from] tg_gateway::DoorError),
    #[error(transparent)]
    Serve(#[from] tg_net::ServeError),
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    #[error(transparent)]
    File(#[from] files::FileError),
    #[error("the key cannot be used")]
    Key(#[from] tg_types::KeyError),
}

/// A validator of this machine.
pub(crate) struct Seat {
    /// Its chain.
    pub(crate) chain: Chain,
    /// Its key.
    pub(crate) key: SecretKey,
    /// The key of the trial money, if it keeps that.
    pub(crate) faucet: Option<SecretKey>,
}

/// The relay and the validators' doors.
pub(crate) struct Doors {
    relay: Relay,
    info: RelayInfo,
    peers: Vec<Peer>,
    ids: Vec<PeerId>,
    reporters: Vec<JoinHandle<()>>,
    domain: Domain,
    params: Params,
}

/// The key of a validator in the network of peers: derived, so that its voting key signs votes
/// only.
fn derived(tag: Tag, key: &SecretKey) -> [u8; 32] {
    *tagged(tag, &[&*key.expose_seed()]).as_bytes()
}

fn random() -> Option<[u8; 32]> {
    files::random().ok()
}

fn settings() -> PeerSettings {
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    PeerSettings {
        reach: Reach::DirectOn(here),
        blobs: BlobPlace::Memory,
        ..PeerSettings::default()
    }
}

impl Doors {
    /// Starts the relay and opens a door at every validator.
    pub(crate) async fn open(seats: Vec<Seat>) -> Result<Self, LocalError> {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let relay = Relay::start(RelaySettings::new(here)).await?;
        let info = relay.info().clone();
        let mut doors = Vec::new();
        let (mut peers, mut ids) = (Vec::new(), Vec::new());
        let first = seats.first().map(|seat| (seat.chain.domain(), seat.chain.genesis().clone()));
        for (place, seat) in seats.into_iter().enumerate() {
            let secret = SecretKey::from_seed(derived(GATEWAY, &seat.key));
            let peer = Peer::bind(&secret, std::slice::from_ref(&info), settings()).await?;
            let config = DoorConfig {
                chain: seat.chain.clone(),
                peer: peer.clone(),
                seat: place,
                wrap: WrapSecret::from_seed(derived(WRAP, &seat.key)),
                faucet: seat.faucet,
                random,
            };
            let door = Door::open(config)?;
            doors.push((seat.chain, door, seat.key));
            ids.push(peer.id());
            peers.push(peer);
        }
        for peer in &peers {
            peer.online(ONLINE_WAIT).await?;
        }
        let report = |(chain, door, key)| tokio::spawn(presence::report_absences(chain, door, key));
        let reporters = doors.into_iter().map(report).collect();
        let (domain, genesis) = first.ok_or(GatewayError::NoValidator)?;
        let params = genesis.params().clone();
        Ok(Self { relay, info, peers, ids, reporters, domain, params })
    }

    /// A peer that speaks to the validators.
    pub(crate) async fn gateway(&self, key: &SecretKey) -> Result<Arc<Gateway>, LocalError> {
        let peer = Peer::bind(key, std::slice::from_ref(&self.info), settings()).await?;
        for id in &self.ids {
            peer.add_route(*id, Route::relayed(self.info.url.clone()))?;
        }
        peer.online(ONLINE_WAIT).await?;
        let gateway = Gateway::new(peer, self.ids.clone(), self.domain, self.params.clone());
        gateway.hello(&self.info.url).await;
        Ok(Arc::new(gateway))
    }

    /// The way in for other processes; `None` if the network has too many validators for one.
    pub(crate) fn ticket(&self) -> Option<String> {
        let seat = |id: &PeerId| TicketValidator { id: *id, relay: self.info.url.clone() };
        let parts = TicketParts {
            chain: self.domain.chain,
            genesis: self.domain.genesis,
            relays: vec![self.info.clone()],
            validators: self.ids.iter().map(seat).collect(),
        };
        Ticket::new(parts).ok().map(|ticket| ticket.to_string())
    }

    /// The relay of this machine.
    pub(crate) const fn relay(&self) -> &RelayInfo {
        &self.info
    }

    /// Closes all doors.
    pub(crate) async fn close(self) {
        for reporter in self.reporters {
            reporter.abort();
        }
        for peer in self.peers {
            if let Err(error) = peer.stop().await {
                tracing::debug!(%error, "a peer did not stop well");
            }
        }
        if let Err(error) = self.relay.stop().await {
            tracing::debug!(%error, "the relay did not stop well");
        }
    }
}

/// A provider of this machine.
pub(crate) struct Provider {
    agent: Agent,
    gateway: Arc<Gateway>,
}

/// What a provider of this machine is to be.
pub(crate) struct ProviderPlan {
    /// Where it says it stands.
    pub(crate) region: Name,
    /// The processor's name.
    pub(crate) model: Name,
    /// Memory it offers.
    pub(crate) memory_mib: u32,
    /// Runs at once.
    pub(crate) slots: u16,
    /// What 10^12 multiply-adds cost.
    pub(crate) price_per_tera: Amount,
    /// Whether it lies.
    pub(crate) cheats: bool,
}

impl Provider {
    /// Registers a node with money and stake of its own, and starts its agent.
    pub(crate) async fn start(doors: &Doors, plan: &ProviderPlan) -> Result<Self, LocalError> {
        let key = SecretKey::from_seed(files::random()?);
        let wrap = WrapSecret::from_seed(derived(WRAP, &key));
        let gateway = doors.gateway(&key).await?;
        let account = AccountId::from(key.public());
        let node = NodeId::new(*key.public().as_bytes());
        gateway.faucet(account, PROVIDER_STAKE).await?;
        gateway.faucet(account, PROVIDER_BALANCE).await?;
        let device = Device {
            kind: DeviceKind::Cpu,
            model: plan.model.clone(),
            memory_mib: plan.memory_mib,
            count: 1,
            features: Features::NONE,
        };
        let descriptor = NodeDescriptor {
            region: plan.region.clone(),
            devices: List::new(vec![device]).map_err(|_| GatewayError::Unexpected)?,
            price_per_hour: PRICE_PER_HOUR,
            price_per_tera: plan.price_per_tera,
            slots: plan.slots,
            is_open: true,
        };
        let consent = key.sign(gateway.domain(), Kind::NodeConsent, account.as_bytes());
        for action in [
            Action::Stake { amount: PROVIDER_STAKE },
            Action::RegisterNode { node, descriptor, consent },
        ] {
            let nonce = gateway.nonce(account, Lane::FIRST).await?;
            gateway.send(&key, (Lane::FIRST, nonce), action).await?;
        }
        let relay = doors.relay().url.clone();
        let config = AgentConfig {
            key,
            wrap,
            gateway: Arc::clone(&gateway),
            relay,
            random,
            cheats: plan.cheats,
        };
        let agent = Agent::start(config)?;
        Ok(Self { agent, gateway })
    }

    /// Stops it without taking the node out.
    pub(crate) async fn stop(self) {
        self.agent.stop().await;
        if let Err(error) = self.gateway.peer().stop().await {
            tracing::debug!(%error, "a peer did not stop well");
        }
    }
}
