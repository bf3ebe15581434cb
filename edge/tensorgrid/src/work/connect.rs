//! How a command reaches the network of peers: with a ticket, typed or left on this machine by the
//! network that runs here, and with a key that this machine keeps for it.

use crate::{
    discovery::Place,
    failure::{Failure, OrFail as _},
    files::{self, Readers},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tg_gateway::{Gateway, GatewayError, client, doors_of, genesis_of};
use tg_net::{BlobPlace, Peer, PeerId, PeerSettings, Reach, Route, Ticket};
use tg_privacy::WrapSecret;
use tg_types::{
    AccountId, Amount, SecretKey,
    hash::{Tag, tagged},
};
use tokio::runtime::{Builder, Runtime};

/// How long a peer may take to reach the relay.
const ONLINE_WAIT: Duration = Duration::from_secs(10);

/// Bytes of a key in its file.
const KEY_BYTES: u64 = 32;

/// Trial money that is asked for when there is too little.
const TRIAL: Amount = Amount::constant(100_000_000_000);

const WRAP: Tag = Tag::new("tensorgrid/wrap key");

const WHAT: &str = "the network of providers cannot be reached";

/// The way into a network of peers.
#[derive(Debug)]
pub(crate) struct Way {
    /// The ticket that was typed.
    pub(crate) join: Option<String>,
    /// Where the network that runs on this machine is noted.
    pub(crate) place: Place,
    /// Folder with this machine's keys, one for each network and role.
    pub(crate) keys: PathBuf,
}

/// A peer that is connected.
pub(crate) struct Session {
    /// Runs everything that waits.
    pub(crate) runtime: Runtime,
    /// The validators.
    pub(crate) gateway: Arc<Gateway>,
    /// Whose session it is.
    pub(crate) key: SecretKey,
    /// Folder with this machine's keys.
    pub(crate) keys: PathBuf,
    /// The way in.
    ticket: Ticket,
}

/// As whom a command is in the network of peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// As nobody in particular: peers are told apart by their keys, and several commands of one
    /// account may run at once.
    Passing,
    /// As the node that its key names.
    Node,
}

impl Session {
    /// Connects in a role: each has an account of its own.
    pub(crate) fn open(way: &Way, role: &str, standing: Standing) -> Result<Self, Failure> {
        let ticket = way.ticket()?;
        let key = own_key(&way.keys, &ticket.genesis().to_string(), role)?;
        let hint = "is the network still there? Can its relay be reached from here?";
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.or_fail(WHAT, hint)?;
        let seed = match standing {
            Standing::Passing => {
                files::random().or_fail(WHAT, "the system has no random numbers")?
            }
            Standing::Node => *key.expose_seed(),
        };
        let peer = SecretKey::from_seed(seed);
        let parcels = parcels(&way.keys).or_fail(WHAT, "check the folder's permissions")?;
        let blobs = BlobPlace::LargeInFolder(parcels);
        let gateway = runtime.block_on(reach(&ticket, &peer, blobs)).or_fail(WHAT, hint)?;
        Ok(Self { runtime, gateway: Arc::new(gateway), key, keys: way.keys.clone(), ticket })
    }

    /// A second peer of this process: the one that the account names. Nodes find it, while the
    /// first is told apart from those of other commands, which hand over other packages.
    pub(crate) fn as_account(&self) -> Result<Arc<Gateway>, Failure> {
        let reached = self.runtime.block_on(reach(&self.ticket, &self.key, BlobPlace::Memory));
        let hint = "is the network still there? Can its relay be reached from here?";
        reached.or_fail(WHAT, hint).map(Arc::new)
    }

    /// The account of whoever is connected.
    pub(crate) fn account(&self) -> AccountId {
        AccountId::from(self.key.public())
    }

    /// Makes sure that an amount can be spent: on local networks trial money is taken.
    pub(crate) fn afford(&self, amount: Amount) -> Result<(), Failure> {
        let what = "there is too little money";
        let account = self.account();
        let balance = self.runtime.block_on(async {
            let key = tg_ledger::keys::account(&account);
            let entry: Option<tg_ledger::AccountEntry> = self.gateway.entry(key).await?;
            Ok::<_, GatewayError>(entry.map_or(Amount::ZERO, |entry| entry.balance))
        });
        let balance = balance.or_fail(what, "is the network still there?")?;
        if balance > amount {
            return Ok(());
        }
        let taken = self.runtime.block_on(self.gateway.faucet(account, TRIAL.max(amount)));
        taken.or_fail(what, format_args!("send {amount} TGRID to {account}"))
    }

    /// Leaves the network.
    pub(crate) fn close(self) {
        let Self { runtime, gateway, .. } = self;
        if let Err(error) = runtime.block_on(gateway.peer().stop()) {
            tracing::debug!(%error, "the peer did not stop well");
        }
        runtime.shutdown_background();
    }
}

impl Way {
    fn ticket(&self) -> Result<Ticket, Failure> {
        if let Some(typed) = &self.join {
            let hint = "a ticket is one word, as `up`, `validator --door` and `ticket` print it";
            return typed.parse().map_err(|error| {
                Failure::misuse("this is not a ticket", hint)
                    .because(&error as &tg_net::TicketError)
            });
        }
        let hint = "start one with `tensorgrid up`, or give --join TICKET";
        let current = self.place.find();
        let current = current.ok_or_else(|| Failure::new("no network runs on this machine", hint));
        let ticket = current?.ticket.ok_or_else(|| Failure::new(WHAT, hint))?;
        ticket.parse().or_fail(WHAT, hint)
    }
}

/// Why the network of peers cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReachError {
    #[error(transparent)]
    Bind(#[from] tg_net::BindError),
    #[error(transparent)]
    Route(#[from] tg_net::RouteError),
    #[error(transparent)]
    Online(#[from] tg_net::OnlineError),
    #[error(transparent)]
    Serve(#[from] tg_net::ServeError),
    #[error(transparent)]
    Gateway(#[from] GatewayError),
}

/// A gateway to the validators of a ticket, and to those that they tell of. Nothing listens: the
/// peer only calls out.
async fn reach(ticket: &Ticket, key: &SecretKey, blobs: BlobPlace) -> Result<Gateway, ReachError> {
    let settings = PeerSettings { reach: Reach::Direct, blobs, ..PeerSettings::default() };
    let peer = Peer::bind(key, ticket.relays(), settings).await?;
    let validators = ticket.validators();
    for validator in &validators {
        peer.add_route(validator.id, Route::relayed(validator.relay.clone()))?;
    }
    peer.online(ONLINE_WAIT).await?;
    let mut ids: Vec<PeerId> = validators.iter().map(|validator| validator.id).collect();
    let (genesis, first) = genesis_of(&peer, &ids, ticket.genesis()).await?;
    // A ticket may be older than a door, or too short for all of them. Seats sign where theirs is,
    // so it does not matter who tells.
    let cards = doors_of(&peer, &ids, &genesis).await?;
    for card in &cards {
        peer.trust_relay(card.relay())?;
        peer.add_route(card.peer(), Route::relayed(card.relay().url.clone()))?;
        if !ids.contains(&card.peer()) {
            ids.push(card.peer());
        }
    }
    ids.sort_by_key(|id| *id != first);
    let gateway = Gateway::new(peer, ids, &cards, &Arc::new(genesis));
    gateway.hello(client::SLOW).await;
    Ok(gateway)
}

/// Where large packages of this process pass through; those of processes that died are removed.
fn parcels(keys: &Path) -> io::Result<PathBuf> {
    let folder = std::path::absolute(keys)?.join("parcels");
    for left in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let process = left.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _gone_already = fs::remove_dir_all(left.path());
        }
    }
    Ok(folder.join(std::process::id().to_string()))
}

/// The key to which shares are wrapped that a node or a validator may have: derived, so that one
/// key is kept.
pub(crate) fn wrap_secret(key: &SecretKey) -> WrapSecret {
    WrapSecret::from_seed(*tagged(WRAP, &[&*key.expose_seed()]).as_bytes())
}

/// The key that this machine uses in a role on a network; made the first time.
fn own_key(folder: &Path, network: &str, role: &str) -> Result<SecretKey, Failure> {
    let path = folder.join(format!("{network}.{role}.key"));
    let (what, hint) = ("this machine's key cannot be used", "check the folder's permissions");
    match files::read(&path, KEY_BYTES) {
        Ok(bytes) => {
            let seed = bytes.first_chunk().copied();
            let seed = seed.ok_or_else(|| Failure::new(what, format!("remove {}", path.display())));
            Ok(SecretKey::from_seed(seed?))
        }
        Err(error) if error.is_absent() => {
            let seed: [u8; 32] = files::random().or_fail(what, hint)?;
            files::make_folder(folder).or_fail(what, hint)?;
            files::write(&path, &seed, Readers::Owner).or_fail(what, hint)?;
            Ok(SecretKey::from_seed(seed))
        }
        Err(error) => Err(Failure::new(what, hint).because(&error)),
    }
}
