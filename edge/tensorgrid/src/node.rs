//! Running nodes: from a folder to a running chain, with what a seat owes its network besides
//! voting: evidence it has seen goes on chain.

use crate::{
    files::{self, FileError},
    folder::{FolderError, NodeFolder, PeerEntry},
};
use std::{
    io,
    net::{SocketAddr, TcpListener, ToSocketAddrs as _},
    ops::Range,
    sync::Arc,
    thread,
    time::Duration,
};
use tg_api::{ApiConfig, ApiError, FaucetConfig, RunningApi};
use tg_chain::{Chain, ChainConfig, ChainStartError, IndexPlace, NetConfig, Peer, RunningChain};
use tg_proof::court::Court;
use tg_tensor::judge::TensorJudge;
use tg_types::{Height, SecretKey};
use tracing_subscriber::{
    Layer as _,
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

/// Longest time without a block while nothing happens: often enough that clocks and due entries
/// move, rarely enough that an idle chain hardly grows.
const HEARTBEAT: Duration = Duration::from_millis(400);

// A leader that waits for its heartbeat must not look like a dead one.
const _: () = assert!(HEARTBEAT.as_millis() * 2 < LEADER_TIMEOUT.as_millis());

/// How long validators wait for a leader before they skip it. Blocks take a tenth of it; a busy
/// machine must not look like a dead one.
const LEADER_TIMEOUT: Duration = Duration::from_secs(1);

/// Pages of 4 KiB that a node caches: 16 MiB.
const CACHE_PAGES: usize = 4_096;

/// Threads of a node's tasks at most: network and disk keep one busy, consensus another. Signatures
/// and execution have threads of their own.
const THREADS_MAX: usize = 2;

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeError {
    /// Its folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The system gives no randomness.
    #[error(transparent)]
    File(#[from] FileError),
    /// A peer's address leads nowhere.
    #[error("the address {address} of {name} cannot be resolved")]
    Address {
        /// Whose.
        name: String,
        /// The address.
        address: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The address to listen on cannot be used.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The chain did not start.
    #[error(transparent)]
    Chain(#[from] ChainStartError),
    /// The operating system refused a thread.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

/// Who is where.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    /// Where this node listens.
    pub(crate) listen: SocketAddr,
    /// The committee.
    pub(crate) validators: Vec<Peer>,
    /// Followers.
    pub(crate) followers: Vec<Peer>,
}

impl Reach {
    /// As the node's file says.
    ///
    /// # Errors
    /// If an address cannot be resolved.
    pub(crate) fn from_folder(folder: &NodeFolder) -> Result<Self, NodeError> {
        let resolve = |peers: &[PeerEntry]| peers.iter().map(resolve).collect::<Result<_, _>>();
        Ok(Self {
            listen: folder.file.listen,
            validators: resolve(&folder.file.validators)?,
            followers: resolve(&folder.file.followers)?,
        })
    }
}

fn resolve(peer: &PeerEntry) -> Result<Peer, NodeError> {
    let address = peer.address.to_string();
    let found = address
        .to_socket_addrs()
        .and_then(|mut found| found.next().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into()));
    match found {
        Ok(address) => Ok(Peer { key: peer.key.0, address }),
        Err(source) => Err(NodeError::Address { name: peer.name.clone(), address, source }),
    }
}

/// Sends what nodes log to stderr.
pub(crate) fn log_to_stderr(level: LevelFilter) {
    // The transport calls it an error when the other side is killed; to us that is daily life.
    let is_usual = level <= LevelFilter::ERROR;
    let transport = if is_usual { LevelFilter::OFF } else { level };
    let targets = ["iroh", "iroh_blobs", "iroh_relay", "noq", "noq_proto"];
    let filter = targets.into_iter().fold(Targets::new().with_default(level), |filter, target| {
        filter.with_target(target, transport)
    });
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(io::stderr);
    let log = tracing_subscriber::registry().with(layer.with_filter(filter));
    let _installed_before = log.try_init();
}

/// Ports that operating systems do not give to outgoing connections. One that they give could be
/// taken by a node's connection to another before its own node listens on it.
const QUIET_PORTS: Range<u16> = 20_000..32_000;

/// Ports on loopback that are free now, from a random one on.
///
/// # Errors
/// If there are not so many.
pub(crate) fn free_addresses(count: usize) -> io::Result<Vec<SocketAddr>> {
    let first = u16::from_be_bytes(files::random().map_err(io::Error::other)?);
    let length = QUIET_PORTS.end - QUIET_PORTS.start;
    let port = |step: u16| QUIET_PORTS.start + (first % length + step) % length;
    let free = (0..length).filter_map(|step| TcpListener::bind(("127.0.0.1", port(step))).ok());
    // All are held until all are known, so that no port is given twice.
    let listeners: Vec<TcpListener> = free.take(count).collect();
    if listeners.len() < count {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    listeners.iter().map(TcpListener::local_addr).collect()
}

/// What a node does besides taking part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Duties {
    /// It fetches the state from peers, if it has none yet.
    pub(crate) state_sync: bool,
    /// It answers clients, so it keeps an index of transactions.
    pub(crate) answers: bool,
    /// Nodes in this process, itself included. They share the cores instead of fighting for them.
    pub(crate) housemates: usize,
}

fn threads(housemates: usize) -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (cores / housemates.max(1)).clamp(1, THREADS_MAX)
}

/// A node that runs.
pub(crate) struct RunningNode {
    chain: RunningChain,
}

impl RunningNode {
    /// Starts the node of a folder.
    ///
    /// # Errors
    /// If its folder, keys, disk or network cannot be used.
    pub(crate) fn start(
        folder: &NodeFolder,
        reach: Reach,
        duties: Duties,
    ) -> Result<Self, NodeError> {
        let data = folder.data()?;
        // The engine binds later and in a thread of its own; a taken address is told here.
        drop(
            TcpListener::bind(reach.listen)
                .map_err(|source| NodeError::Listen { address: reach.listen, source })?,
        );
        let config = ChainConfig {
            genesis: Arc::clone(&folder.genesis),
            key: SecretKey::from_seed(*folder.key.expose_seed()),
            share: folder.share.as_ref().map(|share| share.to_vec()),
            name: folder.file.name.clone(),
            state_sync: duties.state_sync,
            index: match duties.answers {
                true => IndexPlace::File(data.join("index.redb")),
                false => IndexPlace::None,
            },
            retain_heights: folder.file.retain_heights,
            heartbeat: HEARTBEAT,
            leader_timeout: LEADER_TIMEOUT,
            cache_pages: CACHE_PAGES,
            seed: files::random()?,
            judge: Arc::new(TensorJudge),
            verifier: Arc::new(Court::default()),
        };
        let net = NetConfig {
            listen: reach.listen,
            validators: reach.validators,
            followers: reach.followers,
            folder: data.join("engine"),
            threads: threads(duties.housemates),
        };
        let chain = tg_chain::start(config, net)?;
        Ok(Self { chain })
    }

    /// Its chain.
    #[must_use]
    pub(crate) const fn chain(&self) -> &Chain {
        &self.chain.chain
    }

    /// Whether its state came from peers.
    #[must_use]
    pub(crate) const fn is_state_synced(&self) -> bool {
        self.chain.state_synced
    }

    /// Whether it still runs.
    #[must_use]
    pub(crate) fn is_alive(&self) -> bool {
        self.chain.is_alive()
    }

    /// Height of its last final block; 0 before the first, or when it has stopped.
    #[must_use]
    pub(crate) fn height(&self) -> Height {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let status = runtime.ok().and_then(|it| it.block_on(self.chain().status()).ok());
        let tip = status.and_then(|status| status.tip);
        tip.map_or(Height::ZERO, |(header, _)| header.height)
    }

    /// Answers clients on an address, with a faucet if there is a key for it.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub(crate) fn serve(
        &self,
        listen: SocketAddr,
        faucet: Option<&SecretKey>,
    ) -> Result<RunningApi, ApiError> {
        let key = |key: &SecretKey| SecretKey::from_seed(*key.expose_seed());
        let faucet = faucet.map(|faucet| FaucetConfig { key: key(faucet) });
        tg_api::start(ApiConfig { listen, faucet }, self.chain().clone())
    }

    /// Stops it and waits for its threads.
    pub(crate) fn stop(&mut self) {
        self.chain.stop();
    }
}

/// Stops nodes side by side, since each takes its time.
pub(crate) fn stop_all(nodes: Vec<RunningNode>) {
    thread::scope(|scope| {
        for mut node in nodes {
            scope.spawn(move || node.stop());
        }
    });
}
