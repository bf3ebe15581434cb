//! The network of peers of validators on one machine: a relay and a door at every validator. All of
//! it over real connections, so that what works here works elsewhere.

use super::connect::wrap_secret;
use crate::files;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tg_chain::Chain;
use tg_gateway::{Door, DoorConfig, Gateway, GatewayError, presence};
use tg_net::{
    BlobPlace, Peer, PeerId, PeerSettings, Reach, Relay, RelayInfo, RelaySettings, Route, Ticket,
    TicketParts, TicketValidator,
};
use tg_types::hash::{Tag, tagged};
use tg_types::key::Domain;
use tg_types::{Params, SecretKey};
use tokio::task::JoinHandle;

/// How long a peer may take to reach the relay.
const ONLINE_WAIT: Duration = Duration::from_secs(10);

const GATEWAY: Tag = Tag::new("tensorgrid/gateway key");

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
    host: IpAddr,
}

/// The key of a validator in the network of peers: derived, so that its voting key signs votes
/// only.
fn peer_key(key: &SecretKey) -> SecretKey {
    SecretKey::from_seed(*tagged(GATEWAY, &[&*key.expose_seed()]).as_bytes())
}

fn random() -> Option<[u8; 32]> {
    files::random().ok()
}

fn settings(host: IpAddr) -> PeerSettings {
    PeerSettings {
        reach: Reach::DirectOn(SocketAddr::from((host, 0))),
        blobs: BlobPlace::Memory,
        ..PeerSettings::default()
    }
}

impl Doors {
    /// Starts the relay on an address of this machine and opens a door at every validator.
    pub(crate) async fn open(seats: Vec<Seat>, at: SocketAddr) -> Result<Self, LocalError> {
        let relay = Relay::start(RelaySettings::new(at)).await?;
        let info = relay.info().clone();
        let mut doors = Vec::new();
        let (mut peers, mut ids) = (Vec::new(), Vec::new());
        let first = seats.first().map(|seat| (seat.chain.domain(), seat.chain.genesis().clone()));
        for (place, seat) in seats.into_iter().enumerate() {
            let secret = peer_key(&seat.key);
            let settings = settings(at.ip());
            let peer = Peer::bind(&secret, std::slice::from_ref(&info), settings).await?;
            let config = DoorConfig {
                chain: seat.chain.clone(),
                peer: peer.clone(),
                seat: place,
                wrap: wrap_secret(&seat.key),
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
        Ok(Self { relay, info, peers, ids, reporters, domain, params, host: at.ip() })
    }

    /// A peer that speaks to the validators.
    pub(crate) async fn gateway(&self, key: &SecretKey) -> Result<Arc<Gateway>, LocalError> {
        let settings = settings(self.host);
        let peer = Peer::bind(key, std::slice::from_ref(&self.info), settings).await?;
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
