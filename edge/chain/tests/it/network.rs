//! A network of four nodes in one process, on free ports and a temporary folder.

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tg_chain::{
    Chain, ChainConfig, IndexPlace, NetConfig, Peer, RunningChain,
    network::{NetworkPlan, SeatPlan, make_network},
};
use tg_types::{
    List, RunResult,
    amount::Amount,
    bounded::Bytes,
    genesis::{Genesis, NetworkKind},
    ids::{AccountId, Hash32, JobId},
    key::SecretKey,
    params::{CapacityParams, Params},
    tick::{Height, Tick},
    tx::{Action, Lane, Nonce, SignedTx, TxBody},
};

pub(crate) const NODES: u8 = 4;

pub(crate) struct Network {
    genesis: Arc<Genesis>,
    shares: Vec<Vec<u8>>,
    addresses: Vec<SocketAddr>,
    nodes: Vec<Option<RunningChain>>,
    folder: PathBuf,
    pub(crate) rich: SecretKey,
}

fn seat_key(index: u8) -> SecretKey {
    SecretKey::from_seed([index + 1; 32])
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound")
}

impl Network {
    pub(crate) fn start() -> Self {
        let addresses: Vec<SocketAddr> = (0..NODES).map(|_| free_address()).collect();
        let rich = SecretKey::from_seed([100; 32]);
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let made = make_network(NetworkPlan {
            chain: "test-net".parse().expect("a chain id"),
            kind: NetworkKind::Local,
            start: Tick::new(u64::try_from(now.as_millis()).expect("fits")),
            seats: (0..NODES)
                .zip(&addresses)
                .map(|(index, address)| SeatPlan {
                    key: seat_key(index),
                    address: address.to_string().parse().expect("an address"),
                    stake: tgrid(1_000),
                })
                .collect(),
            allocations: vec![(AccountId::from(rich.public()), tgrid(1_000_000))],
            treasury: Amount::ZERO,
            params: Params { capacity: CapacityParams::OFF, ..Params::local() },
            seed: [9; 32],
        })
        .expect("a network");
        let folder = std::env::temp_dir().join(format!("tg-chain-it-{}", std::process::id()));
        let nodes = (0..NODES).map(|_| None).collect();
        let genesis = Arc::new(made.genesis);
        let mut network = Self { genesis, shares: made.shares, addresses, nodes, folder, rich };
        std::thread::scope(|scope| {
            let this = &network;
            let starting: Vec<_> = (0..usize::from(NODES))
                .map(|index| scope.spawn(move || this.start_node(index)))
                .collect();
            starting.into_iter().map(|node| node.join().expect("starts")).collect::<Vec<_>>()
        })
        .into_iter()
        .enumerate()
        .for_each(|(index, node)| network.nodes[index] = Some(node));
        network
    }

    fn start_node(&self, index: usize) -> RunningChain {
        let seat = u8::try_from(index).expect("few nodes");
        let peers = (0..NODES)
            .zip(&self.addresses)
            .map(|(seat, address)| Peer { key: seat_key(seat).public(), address: *address });
        tg_chain::start(
            ChainConfig {
                genesis: Arc::clone(&self.genesis),
                key: seat_key(seat),
                share: Some(self.shares[index].clone()),
                name: format!("node-{index}"),
                state_sync: false,
                index: IndexPlace::Memory,
                retain_heights: 10_000,
                heartbeat: Duration::from_millis(300),
                leader_timeout: Duration::from_secs(1),
                cache_pages: 512,
                seed: [seat; 32],
                judge: Arc::new(tg_types::NoPrograms),
                verifier: Arc::new(tg_types::NoPrograms),
            },
            NetConfig {
                listen: self.addresses[index],
                validators: peers.collect(),
                followers: Vec::new(),
                folder: self.folder.join(format!("node-{index}")),
                threads: 2,
            },
        )
        .expect("the node starts")
    }

    pub(crate) fn chain(&self, index: usize) -> Chain {
        self.nodes[index].as_ref().expect("runs").chain.clone()
    }

    pub(crate) fn restart(&mut self, index: usize) {
        self.nodes[index].take().expect("runs").stop();
        self.nodes[index] = Some(self.start_node(index));
    }

    /// Waits until the genesis allocations exist: the first block makes them.
    pub(crate) async fn first_block(&self, chain: &Chain) {
        for _ in 0..200 {
            if chain.totals().await.expect("runs").is_some() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        unreachable!("no first block");
    }

    pub(crate) async fn certificate(&self, chain: &Chain, height: Height) -> Vec<u8> {
        for _ in 0..200 {
            if let Some(certificate) = chain.certificate(height).await.expect("runs") {
                return certificate.to_vec();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        unreachable!("no certificate for height {height}");
    }

    pub(crate) fn stop(mut self) {
        for node in self.nodes.iter_mut().flatten() {
            node.stop();
        }
        let _left = std::fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn transfer(
    chain: &Chain,
    from: &SecretKey,
    to: AccountId,
    whole: u64,
    nonce: u64,
) -> SignedTx {
    TxBody {
        sender: AccountId::from(from.public()),
        lane: Lane::FIRST,
        nonce: Nonce::new(nonce),
        expires: Height::new(500),
        fee: tgrid(1),
        idempotency: None,
        action: Action::Transfer { to, amount: tgrid(whole), memo: Bytes::EMPTY },
    }
    .sign(from, &chain.domain())
}

/// A result with a proof of a job that nobody has asked for.
pub(crate) fn unawaited_proof(chain: &Chain, from: &SecretKey, nonce: u64) -> SignedTx {
    let hash = Hash32::new([1; 32]);
    let result = RunResult { output: hash, trace: hash, package: hash, package_bytes: 1 };
    let action = Action::ProveResult {
        job: JobId::new([1; 32]),
        result,
        cost: 1_000,
        shown: Bytes::new(vec![7; 100_000]).expect("within the bound"),
        vouchers: List::default(),
    };
    let body = transfer(chain, from, AccountId::from(from.public()), 1, nonce).body;
    TxBody { action, ..body }.sign(from, &chain.domain())
}

fn tgrid(whole: u64) -> Amount {
    Amount::tgrid(whole).expect("below the cap")
}
