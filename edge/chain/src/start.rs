//! Bringing a node up: from a genesis and a key to a running chain.

use crate::{
    chain::{Chain, ChainError},
    index::{Index, IndexError},
    machine::{FinalReceipts, LedgerMachine, SharedLedger},
};
use std::{path::PathBuf, sync::Arc, thread, time::Duration};
use tg_bft::{
    NetConfig, Pace, RunningNode, StartError,
    committee::{Committee, CommitteeError},
    handle::Node,
    node::NodeConfig,
    recover::Recovery,
};
use tg_ledger::Rules;
use tg_types::{
    genesis::Genesis,
    header::Header,
    ids::{AccountId, Hash32, HeaderDigest},
    key::SecretKey,
    tick::Height,
    traits::{ResultVerifier, StepJudge},
};
use tokio::sync::{broadcast, oneshot};

/// Time between two proposals while blocks are not full: what a block of four validators costs on
/// a machine with two cores, where more blocks would only wait for each other.
const SPACING: Duration = Duration::from_millis(60);

/// Where the index of transactions is kept.
#[derive(Clone, Debug)]
pub enum IndexPlace {
    /// Nowhere: the node answers no questions about old transactions.
    None,
    /// In memory.
    Memory,
    /// In a file.
    File(PathBuf),
}

/// Everything needed to run a node of a chain.
pub struct ChainConfig {
    /// The chain.
    pub genesis: Arc<Genesis>,
    /// Vote and network key.
    pub key: SecretKey,
    /// Threshold share of the seat, if the node has one.
    pub share: Option<Vec<u8>>,
    /// Prefix of storage partitions, and the node's name in logs.
    pub name: String,
    /// Fetch the state from peers instead of replaying history, if there is none yet.
    pub state_sync: bool,
    /// Where the index is kept.
    pub index: IndexPlace,
    /// Final blocks, receipts and certificates kept.
    pub retain_heights: u64,
    /// Longest time without a block while nothing happens.
    pub heartbeat: Duration,
    /// How long to wait for a leader.
    pub leader_timeout: Duration,
    /// Pages of 4 KiB cached in memory.
    pub cache_pages: usize,
    /// Secret seed for the coefficients of batched signature checks.
    pub seed: [u8; 32],
    /// Judges tensor programs. All nodes of a network must have the same.
    pub judge: Arc<dyn StepJudge>,
    /// Verifies results that are shown to be right at once.
    pub verifier: Arc<dyn ResultVerifier>,
}

/// Why a node did not come up.
#[derive(Debug, thiserror::Error)]
pub enum ChainStartError {
    /// The genesis' committee is unusable, or the key does not fit it.
    #[error("the genesis' committee cannot be used")]
    Committee(#[from] CommitteeError),
    /// The engine did not start.
    #[error("the engine did not start")]
    Engine(#[from] StartError),
    /// The index cannot be opened.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The node's state cannot be read.
    #[error("the node's state cannot be read")]
    Chain(#[from] ChainError),
    /// The operating system refused a thread or runtime.
    #[error("cannot start a helper thread")]
    Thread(#[source] std::io::Error),
}

/// A node that is configured but not started: what the engine needs, and what connects it.
pub struct Prepared {
    machine: Arc<LedgerMachine>,
    index: Option<Index>,
}

/// The header before the first block of a chain.
#[must_use]
pub fn genesis_header(genesis: &Genesis) -> Header {
    let proposer = genesis.validators().first().map_or_else(
        || AccountId::new([1; 32]).expect("not a small-order key"),
        |seat| AccountId::from(seat.key),
    );
    let nothing = Hash32::new([0; 32]);
    Header {
        height: Height::new(0),
        tick: genesis.start(),
        parent: HeaderDigest::new([0; 32]),
        proposer,
        payload: nothing,
        state_root: nothing,
        receipts_root: nothing,
        log_root: nothing,
    }
}

/// Prepares a node for an engine on any runtime; [`start`] is for the operating system's.
/// `adjust` may change the rules before they are used; the product leaves them as they are.
///
/// # Errors
/// If the committee or the index cannot be used.
pub fn prepare(
    config: ChainConfig,
    adjust: impl FnOnce(&mut Rules),
) -> Result<(NodeConfig, Prepared), ChainStartError> {
    let genesis = config.genesis;
    let domain = genesis.domain();
    let committee = Committee::new(&genesis, &domain)?;
    let mut rules = Rules {
        genesis: Arc::clone(&genesis),
        domain,
        equivocation: Arc::new(committee.clone()),
        certificates: Arc::new(committee.clone()),
        judge: config.judge,
        verifier: config.verifier,
        #[cfg(feature = "planted-bugs")]
        planted: None,
    };
    adjust(&mut rules);
    let recovery = Recovery::new(&committee, config.share.as_deref())?;
    let machine = LedgerMachine::new(rules, committee.clone(), recovery, config.seed);
    let index = match config.index {
        IndexPlace::None => None,
        IndexPlace::Memory => Some(Index::in_memory()?),
        IndexPlace::File(file) => Some(Index::open(&file)?),
    };
    let node = NodeConfig {
        domain: Arc::new(domain),
        committee,
        genesis: genesis_header(&genesis),
        key: config.key,
        share: config.share,
        prefix: config.name,
        state_sync: config.state_sync,
        pace: Pace {
            heartbeat: config.heartbeat,
            spacing: SPACING,
            tick_step_max: Duration::from_millis(genesis.params().tick_step_max.get()),
        },
        leader_timeout: config.leader_timeout,
        retain_heights: config.retain_heights,
        cache_pages: config.cache_pages,
        machine: Arc::new(SharedLedger(Arc::clone(&machine))),
        #[cfg(feature = "planted-bugs")]
        drops_sync: false,
    };
    Ok((node, Prepared { machine, index }))
}

impl Prepared {
    /// Connects with the node that was started from the configuration.
    ///
    /// # Errors
    /// If the node stopped or its state cannot be read.
    pub async fn attach(self, node: Node) -> Result<Chain, ChainError> {
        Chain::attach(self.machine, node, self.index).await
    }
}

/// A running chain node. Dropping it stops it.
pub struct RunningChain {
    /// The chain.
    pub chain: Chain,
    /// Whether its state came from peers.
    pub state_synced: bool,
    node: RunningNode,
    keeper: Option<(oneshot::Sender<()>, thread::JoinHandle<()>)>,
}

impl RunningChain {
    /// Whether the node still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.node.is_alive()
    }

    /// Stops the node and waits for its threads.
    pub fn stop(&mut self) {
        if let Some((stop, keeper)) = self.keeper.take() {
            let _ended_already = stop.send(());
            let _panicked = keeper.join();
        }
        self.node.stop();
    }
}

/// Starts a node on threads of its own.
///
/// # Errors
/// If the genesis, key, disk or network cannot be used.
pub fn start(config: ChainConfig, net: NetConfig) -> Result<RunningChain, ChainStartError> {
    let retain_heights = config.retain_heights;
    let name = format!("{}-keeper", config.name);
    let reporter = config.share.as_ref().map(|_| SecretKey::from_seed(*config.key.expose_seed()));
    let (node_config, prepared) = prepare(config, |_| {})?;
    let blocks = prepared.machine.subscribe(); // before the node runs, so that none is missed
    let node = tg_bft::start(node_config, net)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(ChainStartError::Thread)?;
    let chain = runtime.block_on(prepared.attach(node.node.clone()))?;
    let (stop, stopped) = oneshot::channel();
    let keeping = chain.clone();
    let keeper = thread::Builder::new()
        .name(name)
        .spawn(move || runtime.block_on(keep(keeping, blocks, retain_heights, reporter, stopped)))
        .map_err(ChainStartError::Thread)?;
    let state_synced = node.state_synced;
    Ok(RunningChain { chain, state_synced, node, keeper: Some((stop, keeper)) })
}

/// What a node does beside serving: it keeps the index, and reports double votes if it has a seat.
async fn keep(
    chain: Chain,
    blocks: broadcast::Receiver<Arc<FinalReceipts>>,
    retain_heights: u64,
    reporter: Option<SecretKey>,
    stopped: oneshot::Receiver<()>,
) {
    let reporting = async {
        match reporter {
            Some(key) => chain.clone().keep_reporting(key).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = stopped => {}
        () = reporting => {}
        kept = chain.clone().keep_index(blocks, retain_heights) => {
            if let Err(error) = kept {
                tracing::error!(%error, "the index of transactions stopped");
            }
        }
    }
}
