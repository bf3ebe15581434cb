//! The doors of this process' validators: a relay, and behind it one peer for each of them that
//! answers providers and clients. `validator` has one, `up` all of a network's. Everything goes
//! over real connections, so that what works on one machine works elsewhere.

use super::connect::wrap_secret;
use crate::files;
use crate::folder::NodeFolder;
use crate::network::now;
use crate::node::RunningNode;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tg_agent::contents::PackageReader;
use tg_chain::Chain;
use tg_gateway::{
    Door, DoorCard, DoorConfig, Gateway, GatewayError, card, client, custody, presence,
};
use tg_net::{
    BlobPlace, Peer, PeerSettings, Reach, Relay, RelayInfo, RelaySettings, Route, Ticket,
};
use tg_types::hash::{Tag, tagged};
use tg_types::{Genesis, SecretKey};
use tokio::task::JoinHandle;

/// How long a peer may take to reach the relay.
const ONLINE_WAIT: Duration = Duration::from_secs(10);

/// How often a door looks for what other validators have posted.
const LOOK: Duration = Duration::from_secs(1);

/// How often a card is posted again, for nodes that were not connected: so long they may not know
/// of a door.
const POST_EVERY: Duration = Duration::from_secs(60);

const GATEWAY: Tag = Tag::new("tensorgrid/gateway key");

/// Why the doors do not open.
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

/// A validator of this process.
pub(crate) struct Seat {
    /// Its chain.
    chain: Chain,
    /// Its key.
    key: SecretKey,
    /// The key of the trial money, if it keeps that.
    faucet: Option<SecretKey>,
    /// Where it keeps packages.
    packages: BlobPlace,
    /// Where large packages are that others of this process hand over.
    parcels: PathBuf,
}

impl Seat {
    /// The validator of a folder. Small packages are kept in memory, which is faster.
    pub(crate) fn of(folder: &NodeFolder, node: &RunningNode) -> Self {
        let copy = |key: &SecretKey| SecretKey::from_seed(*key.expose_seed());
        let (key, faucet) = (copy(&folder.key), folder.faucet.as_ref().map(copy));
        let parcels = folder.packages().with_file_name("parcels");
        let packages = BlobPlace::LargeInFolder(parcels.join("kept"));
        Self { chain: node.chain().clone(), key, faucet, packages, parcels }
    }

    /// With packages in the folder, so that they outlive the process.
    pub(crate) fn on_disk(self, folder: &NodeFolder) -> Self {
        Self { packages: BlobPlace::Folder(folder.packages()), ..self }
    }
}

/// The relay and the doors behind it.
pub(crate) struct Doors {
    relay: Relay,
    info: RelayInfo,
    open: Vec<OpenDoor>,
    chain: Chain,
    reach: Reach,
    /// Where large packages are that others of this process hand over.
    parcels: PathBuf,
}

/// One validator's door.
struct OpenDoor {
    peer: Peer,
    card: DoorCard,
    tasks: [JoinHandle<()>; 3],
}

/// The key of a validator in the network of peers: derived, so that what strangers talk to does
/// not have the key that votes.
fn peer_key(key: &SecretKey) -> SecretKey {
    SecretKey::from_seed(*tagged(GATEWAY, &[&*key.expose_seed()]).as_bytes())
}

fn random() -> Option<[u8; 32]> {
    files::random().ok()
}

/// Directly on the address where the relay listens, if it is one.
const fn reach(host: IpAddr) -> Reach {
    if host.is_unspecified() { Reach::Direct } else { Reach::DirectOn(SocketAddr::new(host, 0)) }
}

fn settings(reach: Reach, blobs: BlobPlace) -> PeerSettings {
    PeerSettings { reach, blobs, ..PeerSettings::default() }
}

impl OpenDoor {
    /// Opens a validator's door behind a relay and says so to the others.
    async fn open(seat: Seat, relay: &RelayInfo, reach: Reach) -> Result<Self, LocalError> {
        let Seat { chain, key, faucet, packages, parcels: _ } = seat;
        let (secret, settings) = (peer_key(&key), settings(reach, packages));
        let peer = Peer::bind(&secret, std::slice::from_ref(relay), settings).await?;
        let config = DoorConfig {
            chain: chain.clone(),
            peer: peer.clone(),
            key: SecretKey::from_seed(*key.expose_seed()),
            wrap: wrap_secret(&key),
            contents: Arc::new(PackageReader),
            faucet,
            random,
        };
        let door = Door::open(config)?;
        peer.online(ONLINE_WAIT).await?;
        let card = DoorCard::new(&key.public(), &secret, relay.clone(), chain.genesis());
        let tasks = [
            tokio::spawn(presence::report_absences(door.clone())),
            tokio::spawn(custody::run(door)),
            tokio::spawn(keep_posted(chain, key, peer.clone(), card.clone())),
        ];
        Ok(Self { peer, card, tasks })
    }

    async fn close(self) {
        for task in self.tasks {
            task.abort();
        }
        if let Err(error) = self.peer.stop().await {
            tracing::debug!(%error, "a peer did not stop well");
        }
    }
}

/// Tells other validators where a door is, and lets its peer call behind their relays.
async fn keep_posted(chain: Chain, key: SecretKey, peer: Peer, card: DoorCard) {
    let (mut posted, mut known) = (None::<Instant>, Vec::new());
    loop {
        let notices = chain.notices();
        if notices != known {
            for card in card::cards(&notices, chain.genesis()) {
                if let Err(error) = peer.trust_relay(card.relay()) {
                    tracing::warn!(%error, "a validator's relay cannot be used");
                }
            }
            known = notices;
        }
        let pause = if known.len() > 1 { POST_EVERY } else { LOOK };
        if posted.is_none_or(|at| at.elapsed() >= pause) {
            if let Err(error) = chain.post_notice(&key, now(), card.text()) {
                tracing::warn!(%error, "a door is not told to others");
            }
            posted = Some(Instant::now());
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl Doors {
    /// Starts a relay and opens a door behind it at every validator.
    pub(crate) async fn open(seats: Vec<Seat>, at: RelaySettings) -> Result<Self, LocalError> {
        let first = seats.first().ok_or(GatewayError::NoValidator)?;
        let (chain, parcels) = (first.chain.clone(), first.parcels.clone());
        let reach = reach(at.listen.ip());
        let relay = Relay::start(at).await?;
        let info = relay.info().clone();
        let opening = seats.into_iter().map(|seat| OpenDoor::open(seat, &info, reach));
        let open = futures::future::try_join_all(opening).await?;
        Ok(Self { relay, info, open, chain, reach, parcels })
    }

    /// A peer that speaks to the validators.
    pub(crate) async fn gateway(&self, key: &SecretKey) -> Result<Arc<Gateway>, LocalError> {
        let parcels = self.parcels.join(tg_net::PeerId::of(key).to_string());
        let settings = settings(self.reach, BlobPlace::LargeInFolder(parcels));
        let peer = Peer::bind(key, std::slice::from_ref(&self.info), settings).await?;
        let ids: Vec<_> = self.open.iter().map(|door| door.peer.id()).collect();
        for id in &ids {
            peer.add_route(*id, Route::relayed(self.info.url.clone()))?;
        }
        peer.online(ONLINE_WAIT).await?;
        let gateway = Gateway::new(peer, ids, &self.cards(), self.chain.genesis());
        gateway.hello(client::SLOW).await;
        Ok(Arc::new(gateway))
    }

    fn genesis(&self) -> &Genesis {
        self.chain.genesis()
    }

    /// The doors that are known: those of this process, then others'.
    fn cards(&self) -> Vec<DoorCard> {
        let mut cards: Vec<DoorCard> = self.open.iter().map(|door| door.card.clone()).collect();
        let others = card::cards(&self.chain.notices(), self.genesis());
        cards.extend(others.into_iter().filter(|it| !self.is_ours(it)));
        cards
    }

    fn is_ours(&self, card: &DoorCard) -> bool {
        self.open.iter().any(|door| door.card.peer() == card.peer())
    }

    /// Doors that are known, and validators that there are.
    pub(crate) fn known(&self) -> (usize, usize) {
        (self.cards().len(), self.genesis().validators().len())
    }

    /// The way in for other processes, with the doors that are known.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        card::ticket(&self.cards(), self.genesis()).ok()
    }

    /// The relay of this process.
    pub(crate) const fn relay(&self) -> &RelayInfo {
        &self.info
    }

    /// Closes all doors.
    pub(crate) async fn close(self) {
        for door in self.open {
            door.close().await;
        }
        if let Err(error) = self.relay.stop().await {
            tracing::debug!(%error, "the relay did not stop well");
        }
    }
}
