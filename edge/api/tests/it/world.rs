//! A real network of one validator behind a real server, on free ports and in a temporary folder.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tg_api::{ApiConfig, Client, FaucetConfig, RunningApi, client::TxPlan, text::Number};
use tg_chain::{
    ChainConfig, IndexPlace, NetConfig, Peer, RunningChain,
    network::{NetworkPlan, SeatPlan, make_network},
};
use tg_types::{
    AccountId, Action, Amount, CapacityParams, Genesis, Height, JobParams, Lane, NetworkKind,
    Nonce, Params, SecretKey, SignedTx, Tick, bounded::Bytes,
};

pub(crate) struct World {
    pub(crate) genesis: Arc<Genesis>,
    pub(crate) rich: SecretKey,
    pub(crate) api: RunningApi,
    node: RunningChain,
    folder: PathBuf,
}

pub(crate) fn tgrid(whole: u64) -> Amount {
    Amount::tgrid(whole).expect("below the cap")
}

pub(crate) fn account(seed: u8) -> AccountId {
    SecretKey::from_seed([seed; 32]).public().into()
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound")
}

impl World {
    pub(crate) fn start() -> Self {
        let rich = SecretKey::from_seed([100; 32]);
        let faucet = SecretKey::from_seed([101; 32]);
        let address = free_address();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let made = make_network(NetworkPlan {
            chain: "api-test".parse().expect("a chain id"),
            kind: NetworkKind::Local,
            start: Tick::new(u64::try_from(now.as_millis()).expect("fits")),
            seats: vec![SeatPlan {
                key: SecretKey::from_seed([1; 32]),
                address: address.to_string().parse().expect("an address"),
                stake: tgrid(1_000),
            }],
            allocations: vec![
                (rich.public().into(), tgrid(1_000_000)),
                (faucet.public().into(), tgrid(1_000_000)),
            ],
            treasury: tgrid(5),
            params: Params {
                jobs: JobParams { is_vouched: false, ..Params::local().jobs },
                capacity: CapacityParams::OFF,
                ..Params::local()
            },
            seed: [9; 32],
        })
        .expect("a network");
        let genesis = Arc::new(made.genesis);
        let folder = std::env::temp_dir().join(format!("tg-api-it-{}", std::process::id()));
        let config = ChainConfig {
            genesis: Arc::clone(&genesis),
            key: SecretKey::from_seed([1; 32]),
            share: made.shares.into_iter().next(),
            name: "api-test".to_owned(),
            state_sync: false,
            index: IndexPlace::Memory,
            retain_heights: 100_000,
            heartbeat: Duration::from_millis(100),
            leader_timeout: Duration::from_secs(2),
            cache_pages: 1_024,
            seed: [3; 32],
            judge: Arc::new(tg_types::NoPrograms),
            verifier: Arc::new(tg_types::NoPrograms),
        };
        let key = SecretKey::from_seed([1; 32]).public();
        let net = NetConfig {
            listen: address,
            validators: vec![Peer { key, address }],
            followers: Vec::new(),
            folder: folder.clone(),
            threads: 2,
        };
        let node = tg_chain::start(config, net).expect("the node starts");
        let faucet = Some(FaucetConfig { key: faucet });
        let api = tg_api::start(ApiConfig { faucet, ..ApiConfig::loopback(0) }, node.chain.clone());
        let world = Self { genesis, rich, api: api.expect("the server starts"), node, folder };
        world.wait_for_block();
        world
    }

    fn wait_for_block(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        let second = Some(Number(Height::new(2)));
        while self.client().status().expect("the server answers").certified < second {
            assert!(Instant::now() < deadline, "no block is certified");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The seat tells everybody something.
    pub(crate) fn post_notice(&self, text: &[u8]) {
        let text = Bytes::new(text.to_vec()).expect("short");
        let seat = SecretKey::from_seed([1; 32]);
        self.node.chain.post_notice(&seat, Tick::new(7), text).expect("it has a seat");
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.api.address().to_string()).expect("an address")
    }

    pub(crate) fn rich_account(&self) -> AccountId {
        self.rich.public().into()
    }

    /// A signed transfer from the rich account.
    pub(crate) fn transfer(&self, to: AccountId, amount: Amount, nonce: Nonce) -> SignedTx {
        let height = self.client().status().expect("the server answers").height.0;
        self.plan(to, amount, nonce, height)
    }

    pub(crate) fn plan(
        &self,
        to: AccountId,
        amount: Amount,
        nonce: Nonce,
        height: Height,
    ) -> SignedTx {
        let action = Action::Transfer { to, amount, memo: Bytes::EMPTY };
        let plan = TxPlan { lane: Lane::FIRST, nonce, height, idempotency: None, action };
        plan.sign(&self.rich, &self.genesis.domain(), self.genesis.params()).expect("a small fee")
    }

    /// Sends bytes as they are and gives everything the server answers.
    pub(crate) fn raw(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.api.address()).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        // The server may answer and close before it has read everything.
        let _refused_early = stream.write_all(request);
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Reads an endless answer until it has this many empty lines.
    pub(crate) fn raw_stream(&self, target: &str, ends: usize) -> String {
        let mut stream = TcpStream::connect(self.api.address()).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        let request = format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let (mut answer, mut buffer) = (String::new(), [0; 4_096]);
        while answer.matches("\n\n").count() < ends {
            let read = stream.read(&mut buffer).expect("goes on");
            answer.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
        answer
    }

    /// Posts a body to /rpc; gives status and body.
    pub(crate) fn post(&self, kind: &str, body: &str) -> (u16, String) {
        let request = format!(
            "POST /rpc HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {kind}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        split(&self.raw(request.as_bytes()))
    }
}

/// Status and body of an answer with a length.
pub(crate) fn split(answer: &str) -> (u16, String) {
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status.unwrap_or_else(|| panic!("no status in {answer:?}")), body.to_owned())
}

impl Drop for World {
    fn drop(&mut self) {
        let _failed = self.api.stop();
        self.node.stop();
        let _not_there = std::fs::remove_dir_all(&self.folder);
    }
}
