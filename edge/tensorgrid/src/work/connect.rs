//! How a command reaches the network of peers: through the ticket that the running network left on
//! this machine, with a key that this machine keeps for it.

use crate::{
    ask::{self, OrAsk as _},
    discovery::Current,
    failure::{Failure, OrFail as _},
    files::{self, Readers},
    settings::JobSettings,
};
use std::{path::Path, sync::Arc, time::Duration};
use tg_gateway::Gateway;
use tg_net::{BlobPlace, Peer, PeerSettings, Reach, Route, Ticket};
use tg_privacy::WrapSecret;
use tg_types::{
    AccountId, Amount, Genesis, SecretKey,
    hash::{Tag, tagged},
};
use tokio::runtime::{Builder, Runtime};

/// How long a peer may take to reach the relay.
const ONLINE_WAIT: Duration = Duration::from_secs(10);

/// Bytes of a key in its file.
const KEY_BYTES: u64 = 32;

/// Trial money that is asked for when there is too little.
const TRIAL: Amount = Amount::constant(100_000_000_000);

const WRAP: Tag = Tag::new("tensorgrid/client wrap key");

/// A client that is connected.
pub(crate) struct Session {
    /// Runs everything that waits.
    pub(crate) runtime: Runtime,
    /// The validators.
    pub(crate) gateway: Arc<Gateway>,
    /// The client's key.
    pub(crate) key: SecretKey,
    /// The key to which results are wrapped.
    pub(crate) wrap: WrapSecret,
}

impl Session {
    /// Connects to the network that runs on this machine.
    pub(crate) fn open(settings: &JobSettings) -> Result<Self, Failure> {
        let what = "the network of providers cannot be reached";
        let hint = "start one with `tensorgrid up`";
        let current = settings.place.find();
        let current: Current =
            current.ok_or_else(|| Failure::new("no network runs on this machine", hint))?;
        let ticket = current.ticket.ok_or_else(|| Failure::new(what, hint))?;
        let ticket: Ticket = ticket.parse().or_fail(what, hint)?;
        let mut client = ask::client(&settings.rpc)?;
        let network = client.genesis().or_ask(what)?;
        let genesis = network.read_genesis().or_fail(what, hint)?;
        let genesis: Genesis = genesis.ok_or_else(|| Failure::new(what, hint))?;
        let key = own_key(&settings.keys, &genesis.hash().to_string())?;
        let wrap = WrapSecret::from_seed(*tagged(WRAP, &[&*key.expose_seed()]).as_bytes());
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.or_fail(what, hint)?;
        let gateway = runtime.block_on(reach(&ticket, &genesis, &key)).or_fail(what, hint)?;
        Ok(Self { runtime, gateway: Arc::new(gateway), key, wrap })
    }

    /// Makes sure that an amount can be spent: on local networks trial money is taken.
    pub(crate) fn afford(&self, amount: Amount) -> Result<(), Failure> {
        let what = "there is too little money for the job";
        let account = AccountId::from(self.key.public());
        let balance = self.runtime.block_on(async {
            let key = tg_ledger::keys::account(&account);
            let entry: Option<tg_ledger::AccountEntry> = self.gateway.entry(key).await?;
            Ok::<_, tg_gateway::GatewayError>(entry.map_or(Amount::ZERO, |entry| entry.balance))
        });
        let balance = balance.or_fail(what, "is the network still there?")?;
        if balance > amount {
            return Ok(());
        }
        let taken = self.runtime.block_on(self.gateway.faucet(account, TRIAL.max(amount)));
        taken.or_fail(what, format_args!("send some to {account}"))
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

/// Why the network of peers cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReachError {
    #[error("the ticket is of another network")]
    OtherNetwork,
    #[error(transparent)]
    Bind(#[from] tg_net::BindError),
    #[error(transparent)]
    Route(#[from] tg_net::RouteError),
    #[error(transparent)]
    Online(#[from] tg_net::OnlineError),
    #[error(transparent)]
    Serve(#[from] tg_net::ServeError),
}

/// A gateway to the validators of a ticket.
pub(crate) async fn reach(
    ticket: &Ticket,
    genesis: &Genesis,
    key: &SecretKey,
) -> Result<Gateway, ReachError> {
    if ticket.genesis() != genesis.hash() {
        return Err(ReachError::OtherNetwork);
    }
    let settings =
        PeerSettings { reach: Reach::Direct, blobs: BlobPlace::Memory, ..PeerSettings::default() };
    let peer = Peer::bind(key, ticket.relays(), settings).await?;
    let validators = ticket.validators();
    for validator in &validators {
        peer.add_route(validator.id, Route::relayed(validator.relay.clone()))?;
    }
    peer.online(ONLINE_WAIT).await?;
    let ids = validators.iter().map(|validator| validator.id).collect();
    let gateway = Gateway::new(peer, ids, genesis.domain(), genesis.params().clone());
    gateway.serve(None)?;
    if let Some(relay) = ticket.relays().first() {
        gateway.hello(&relay.url).await;
    }
    Ok(gateway)
}

/// The key that this machine uses on a network; made the first time.
fn own_key(folder: &Path, network: &str) -> Result<SecretKey, Failure> {
    let path = folder.join(format!("{network}.key"));
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
