//! A node on the operating system: real sockets, real disk, its own threads.
//!
//! [`start`] is not generic on purpose: the engine's generics are compiled here and nowhere else in
//! the product.

use crate::{
    committee::{CommitteeError, signer},
    handle::Node,
    node::{CHANNELS, NodeConfig, QUOTAS, start_node},
};
use ::tokio::sync::oneshot;
use commonware_codec::{Copying, DecodeExt as _};
use commonware_cryptography::{ChaCha20Poly1305, ed25519};
use commonware_p2p::{
    Address, AddressableManager as _, AddressableTrackedPeers, authenticated::lookup,
};
use commonware_runtime::{Quota, Runner as _, Spawner as _, Supervisor as _, tokio};
use commonware_stream::{
    cups::{self, Cups},
    sake::{self, Sake},
};
use commonware_utils::{NZUsize, TryCollect as _, ordered::Map};
use std::{net::SocketAddr, num::NonZeroU32, path::PathBuf, thread, time::Duration};
use tg_types::key::PublicKey;

/// Room in a message beyond the payload: headers, votes, proofs.
const MESSAGE_OVERHEAD: usize = 64 << 10;

/// How often a node dials one of the peers it is not connected with.
const DIAL_EVERY: Duration = Duration::from_millis(100);

/// A peer is not dialled again before this time. Short, because nodes of a network start together
/// and the first attempt often finds nobody listening.
const REDIAL_AFTER: Duration = Duration::from_millis(300);

/// Where a peer listens.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its network identity.
    pub key: PublicKey,
    /// Its address.
    pub address: SocketAddr,
}

/// How a node reaches the others.
pub struct NetConfig {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// The committee's nodes, this one included.
    pub validators: Vec<Peer>,
    /// Nodes without a seat that may follow.
    pub followers: Vec<Peer>,
    /// Folder for everything the node stores.
    pub folder: PathBuf,
    /// Threads for the node's tasks.
    pub threads: usize,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its key or share does not fit the committee.
    #[error("the node's keys do not fit the network")]
    Committee(#[from] CommitteeError),
    /// A peer's key is unusable or listed twice.
    #[error("the list of peers has an unusable or repeated key")]
    Peers,
    /// The operating system refused a thread.
    #[error("cannot start the node's thread")]
    Thread(#[source] std::io::Error),
    /// The node ended while starting; its own message says why.
    #[error("the node stopped while starting")]
    Died,
}

/// A started node. Dropping it stops the node.
pub struct RunningNode {
    /// The way to talk to it.
    pub node: Node,
    /// Whether its state came from peers.
    pub state_synced: bool,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl RunningNode {
    /// Whether the node still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Stops the node and waits for its threads.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _stopped_already = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        self.stop();
    }
}

fn peers_map(peers: &[Peer]) -> Result<Map<ed25519::PublicKey, Address>, StartError> {
    let peers = peers
        .iter()
        .map(|peer| {
            let key = ed25519::PublicKey::decode(Copying(&peer.key.as_bytes()[..]))
                .map_err(|_| StartError::Peers)?;
            Ok((key, Address::from(peer.address)))
        })
        .collect::<Result<Vec<_>, StartError>>()?;
    peers.into_iter().try_collect().map_err(|_| StartError::Peers)
}

type Started = Result<(Node, bool), StartError>;

/// Starts a node on threads of its own and waits until its state is open.
///
/// # Errors
/// If its keys do not fit the network, or it ends while starting.
pub fn start(config: NodeConfig, net: NetConfig) -> Result<RunningNode, StartError> {
    let peers =
        AddressableTrackedPeers::new(peers_map(&net.validators)?, peers_map(&net.followers)?);
    let (stop, stopped) = oneshot::channel();
    let (started, starting) = std::sync::mpsc::sync_channel::<Started>(1);
    let thread = thread::Builder::new()
        .name(config.prefix.clone())
        .spawn(move || {
            let runtime = tokio::Config::new()
                .with_storage_directory(net.folder.clone())
                .with_worker_threads(net.threads);
            tokio::Runner::new(runtime).start(async move |context| {
                let running = Box::pin(run(&context, config, &net, peers)).await;
                let answer = running.as_ref().map(|r| (r.node.clone(), r.state_synced));
                let failed = match answer {
                    Ok(answer) => started.send(Ok(answer)).is_err(),
                    Err(_) => true,
                };
                match running {
                    Ok(_kept) if !failed => {
                        let _dropped = stopped.await;
                        let _late = context.stop(0, Some(Duration::from_millis(500))).await;
                    }
                    Ok(_) => {}
                    Err(error) => {
                        let _gone = started.send(Err(error.into()));
                    }
                }
            });
        })
        .map_err(StartError::Thread)?;
    let (node, state_synced) = starting.recv().map_err(|_| StartError::Died)??;
    Ok(RunningNode { node, state_synced, stop: Some(stop), thread: Some(thread) })
}

async fn run(
    context: &tokio::Context,
    config: NodeConfig,
    net: &NetConfig,
    peers: AddressableTrackedPeers<ed25519::PublicKey>,
) -> Result<crate::node::Running, CommitteeError> {
    let handshake = Cups::<_, ChaCha20Poly1305>::new(
        Sake {
            signer: signer(&config.key),
            synchrony_bound: Duration::from_secs(5),
            max_handshake_age: Duration::from_secs(10),
            version: sake::Version::V1,
        },
        cups::Version::V1,
    );
    let known = net.validators.len() + net.followers.len() + 1;
    let message_max = crate::machine::PAYLOAD_BYTES_MAX + MESSAGE_OVERHEAD;
    let mut p2p = lookup::Config::local(
        handshake,
        &config.committee.namespace,
        net.listen,
        known.try_into().unwrap_or(NZUsize!(1)),
        u32::try_from(message_max).expect("messages are far below 4 GiB"),
        NZUsize!(256),
    );
    p2p.tracked_peer_sets = NZUsize!(1);
    p2p.dial_frequency = DIAL_EVERY;
    p2p.peer_connection_cooldown = REDIAL_AFTER;
    p2p.bypass_ip_check = true; // peers are known by key; addresses may be translated on the way
    let (mut network, oracle) = lookup::Network::new(context.child("network"), p2p);
    let mut manager = oracle.clone();
    manager.track(0, peers);
    let channels: [_; CHANNELS] = std::array::from_fn(|index| {
        let quota = NonZeroU32::new(QUOTAS[index]).expect("quotas are not zero");
        network.register(index as u64, Quota::per_second(quota))
    });
    let _network = network.start();
    Box::pin(start_node(context.child("node"), config, oracle.clone(), oracle, channels)).await
}
