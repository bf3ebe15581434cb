//! An owner, nodes and validators that say what they are told to say, over real connections.

use super::{KeyDesk, agreed, listed, stay};
use crate::card::DoorCard;
use crate::client::{Gateway, GatewayError};
use crate::key::KeyOrder;
use crate::message::{Failure, Reply, Request};
use crate::package::{Package, Seal, Whose};
use futures::future::BoxFuture;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tg_ledger::{Draw, JobEntry, Promise, QueueRow, Run, RunState};
use tg_net::{
    CallHandler, Peer, PeerId, PeerSettings, Reach, Relay, RelayInfo, RelaySettings, ReplySender,
    Route, Services,
};
use tg_privacy::{ContentKey, Randomness, WrapSecret};
use tg_types::genesis::{GenesisSpec, NetworkKind, ValidatorSeat};
use tg_types::{
    AccountId, Amount, Bytes, Decode as _, DurationMs, Encode as _, Extent, Genesis, GenesisHash,
    Hash32, JobId, JobSpec, JobStatus, KeyEscrow, List, Needs, NodeId, Params, ResultKey,
    SecretKey, Tick, Tier, Work,
};

const JOB: JobId = JobId::new([1; 32]);
const NONCE: [u8; 16] = [2; 16];
pub(crate) const SEATS: u8 = 4;
const OWNER: u8 = 50;
const NODE: u8 = 51;
const STRANGER: u8 = 52;

pub(crate) fn secret(number: u8) -> SecretKey {
    SecretKey::from_seed([number; 32])
}

pub(crate) fn account(number: u8) -> AccountId {
    secret(number).public().into()
}

fn genesis() -> Genesis {
    let seat = |number: u8| ValidatorSeat {
        key: secret(number).public(),
        owner: account(100 + number),
        stake: Params::local().stake_min,
        address: format!("127.0.0.1:{}", 9_000 + u16::from(number)).parse().expect("an address"),
    };
    Genesis::new(GenesisSpec {
        chain: "desk".parse().expect("a chain id"),
        kind: NetworkKind::Local,
        start: Tick::ZERO,
        validators: (1..=SEATS).map(seat).collect(),
        allocations: Vec::new(),
        treasury: Amount::ZERO,
        group_key: Bytes::EMPTY,
        polynomial: Bytes::EMPTY,
        params: Params::local(),
    })
    .expect("a genesis")
}

/// A job of somebody that a node runs.
pub(crate) fn entry(owner: u8, node: u8) -> JobEntry {
    let hash = Hash32::new([0; 32]);
    let run = Run {
        node: NodeId::new(*secret(node).public().as_bytes()),
        owner: account(node),
        bond: Amount::ZERO,
        class: None,
        asked: None,
        gpus: tg_types::GpuSlices::default(),
        begun: Tick::ZERO,
        took: None,
        yields_to: None,
        deadline: Tick::ZERO,
        state: RunState::Placed,
    };
    JobEntry {
        owner: account(owner),
        task: None,
        spec: JobSpec {
            work: Work::Opaque { task: hash },
            package: hash,
            package_bytes: 1,
            key_escrow: KeyEscrow::None,
            result_key: ResultKey { nonce: NONCE, hash },
            needs: Needs::ANY,
            tier: Tier::Trusted,
            pay: Amount::ZERO,
            run_max: DurationMs::MINUTE,
            expires_after: DurationMs::MINUTE,
            promise: None,
            checkpoint: None,
            nodes: 1,
        },
        escrow: Amount::ZERO,
        submitted: Tick::ZERO,
        expires: Tick::ZERO,
        closed: None,
        status: JobStatus::Running,
        row: QueueRow::default(),
        queued: Tick::ZERO,
        queue_place: None,
        wanted: 1,
        runs: List::new(vec![run]).expect("one"),
        extent: Extent::Whole,
        draw: Draw::Pending,
        checks: List::default(),
        promise: Promise::None,
        saved: None,
        saves: 0,
        yield_place: None,
        yields: 0,
        waits_for: None,
        paid: Amount::ZERO,
        is_stopped: false,
        gang_place: None,
    }
}

/// A validator that says this of the job, and knows where peers are that said so.
struct Validator {
    entry: JobEntry,
    /// Where it says that everybody is, if it lies.
    lie: Option<tg_net::RelayUrl>,
    seen: Mutex<Vec<(PeerId, tg_net::RelayUrl)>>,
}

impl Validator {
    fn answer(&self, from: PeerId, request: Request) -> Reply {
        let mut seen = self.seen.lock().expect("no panic");
        if let Request::Hello { relay } = request {
            seen.push((from, relay));
            return Reply::Done;
        }
        if let (Request::Whereabouts { .. }, Some(relay)) = (&request, &self.lie) {
            return Reply::Whereabouts { relay: relay.clone() };
        }
        if let Request::Whereabouts { peer } = request {
            let found = seen.iter().find(|(id, _)| *id == peer);
            let away = Reply::Failed { why: Failure::Unavailable };
            return found.map_or(away, |(_, relay)| Reply::Whereabouts { relay: relay.clone() });
        }
        Reply::Entry { bytes: Bytes::new(self.entry.to_bytes()).ok() }
    }
}

impl CallHandler for Validator {
    fn call(&self, from: PeerId, request: Vec<u8>, reply: ReplySender) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let request = Request::from_bytes(&request).expect("a request");
            let _left = reply.send(self.answer(from, request).to_bytes()).await;
        })
    }
}

/// A relay with validators behind it.
pub(crate) struct Net {
    relay: Relay,
    genesis: Arc<Genesis>,
    peers: Vec<Peer>,
    /// Of the seats, which are the first of the peers.
    cards: Vec<DoorCard>,
}

impl Net {
    /// Peers that say these things of the job; the first of them are validators.
    async fn start(entries: Vec<JobEntry>) -> Self {
        Self::with_liar(entries, None).await
    }

    /// The same, of which the first lies about where others are.
    async fn with_liar(entries: Vec<JobEntry>, lie: Option<tg_net::RelayUrl>) -> Self {
        let handler = |(place, entry)| -> Arc<dyn CallHandler> {
            let lie = lie.clone().filter(|_| place == 0);
            Arc::new(Validator { entry, lie, seen: Mutex::default() })
        };
        Self::of(entries.into_iter().enumerate().map(handler).collect()).await
    }

    /// Peers that answer like this; the first of them are validators.
    pub(crate) async fn of(handlers: Vec<Arc<dyn CallHandler>>) -> Self {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let relay = Relay::start(RelaySettings::new(here)).await.expect("a relay");
        let mut peers = Vec::new();
        for (number, calls) in (1..).zip(handlers) {
            let peer = peer(number, relay.info()).await;
            peer.serve(Services { calls: Some(calls), blobs: None }).expect("serves");
            peers.push(peer);
        }
        let genesis = Arc::new(genesis());
        let card = |number: u8| {
            let (seat, peer) = (secret(number).public(), secret(number));
            DoorCard::new(&seat, &peer, relay.info().clone(), &genesis)
        };
        let cards = (1..=SEATS).map(card).collect();
        Self { relay, genesis, peers, cards }
    }

    pub(crate) async fn gateway(&self, number: u8) -> Arc<Gateway> {
        let peer = peer(number, self.relay.info()).await;
        let ids: Vec<PeerId> = self.peers.iter().map(Peer::id).collect();
        for id in &ids {
            let route = Route::relayed(self.relay.info().url.clone());
            peer.add_route(*id, route).expect("a route");
        }
        Arc::new(Gateway::new(peer, ids, &self.cards, &self.genesis))
    }
}

async fn peer(number: u8, relay: &RelayInfo) -> Peer {
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let settings = PeerSettings { reach: Reach::DirectOn(here), ..PeerSettings::default() };
    let peer = Peer::bind(&secret(number), std::slice::from_ref(relay), settings).await;
    let peer = peer.expect("a peer");
    peer.online(Duration::from_secs(30)).await.expect("is online");
    peer
}

/// The owner's key of a nonce.
fn content_key(nonce: &[u8; 16]) -> ContentKey {
    ContentKey::new([nonce[0]; 32])
}

/// A head of a package with this key.
fn package(genesis: GenesisHash, key: ContentKey) -> Package {
    let whose = Whose { genesis, owner: account(OWNER) };
    let seal = Seal::owned(&whose, key, Randomness::new([3; 32])).expect("a seal");
    let mut bytes = Vec::new();
    seal.write(&b"numbers".to_vec(), &mut bytes).expect("seals");
    Package::read(&mut bytes.as_slice()).expect("a head")
}

async fn ask(gateway: &Gateway, package: &Package) -> Result<ContentKey, GatewayError> {
    let secret = &WrapSecret::from_seed([9; 32]);
    let order = KeyOrder { job: JOB, owner: account(OWNER), package, secret };
    gateway.key(&order).await
}

fn is_refused(answer: Result<ContentKey, GatewayError>, expected: Failure) {
    let error = answer.expect_err("no key");
    let GatewayError::NoKey(why) = &error else { panic!("{error}") };
    assert!(matches!(**why, GatewayError::Refused(found) if found == expected), "{why}");
}

/// Goal: the key goes to the node that a quorum of validators names, to nobody else, also if one of
/// them lies; and to nobody while the owner is away. Method: four validators, of which the last
/// names a stranger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_is_handed_to_the_chosen_node_and_to_nobody_else() {
    let honest = || entry(OWNER, NODE);
    let net = Net::start(vec![honest(), honest(), honest(), entry(OWNER, STRANGER)]).await;
    let owned = package(net.genesis.hash(), content_key(&NONCE));
    let (node, stranger) = (net.gateway(NODE).await, net.gateway(STRANGER).await);
    is_refused(ask(&node, &owned).await, Failure::Unavailable);

    let owner = net.gateway(OWNER).await;
    let told: Arc<Mutex<Vec<(JobId, NodeId)>>> = Arc::default();
    let notes = Arc::clone(&told);
    let desk = KeyDesk {
        gateway: Arc::clone(&owner),
        key: Box::new(content_key),
        tell: Box::new(move |job, node| notes.lock().expect("no panic").push((job, node))),
        random: || Some([4; 32]),
    };
    desk.open().expect("serves");
    owner.hello(Duration::from_secs(5)).await;
    let staying = tokio::spawn(stay(Arc::clone(&owner)));
    let key = ask(&node, &owned).await.expect("was chosen");
    assert!(owned.is_key(&key));
    is_refused(ask(&stranger, &owned).await, Failure::NotChosen);
    let handed = (JOB, NodeId::new(*secret(NODE).public().as_bytes()));
    assert_eq!(*told.lock().expect("no panic"), [handed]);

    // Another key than the package's own is no key.
    let other = package(net.genesis.hash(), ContentKey::new([77; 32]));
    let error = ask(&node, &other).await.expect_err("another key");
    assert!(matches!(error, GatewayError::NoKey(_)), "{error}");
    staying.abort();
    owner.peer().stop().await.expect("stops");
}

/// Goal: what is somebody else's is not handed out, whoever asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_of_another_owner_has_no_key_here() {
    let theirs = entry(STRANGER, NODE);
    let net = Net::start(vec![theirs; SEATS.into()]).await;
    let (node, owner) = (net.gateway(NODE).await, net.gateway(OWNER).await);
    let desk = KeyDesk {
        gateway: Arc::clone(&owner),
        key: Box::new(content_key),
        tell: Box::new(|_, _| {}),
        random: || Some([4; 32]),
    };
    desk.open().expect("serves");
    owner.hello(Duration::from_secs(5)).await;
    let owned = package(net.genesis.hash(), content_key(&NONCE));
    is_refused(ask(&node, &owned).await, Failure::NotChosen);
}

/// Goal: a validator that lies about where an owner is keeps nobody from its key. Method: the one
/// that is asked first lies, of four.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owner_is_found_though_a_validator_lies_about_where_it_is() {
    let lie = "https://127.0.0.1:1".parse().expect("an address");
    let net = Net::with_liar(vec![entry(OWNER, NODE); SEATS.into()], Some(lie)).await;
    let (node, owner) = (net.gateway(NODE).await, net.gateway(OWNER).await);
    let desk = KeyDesk {
        gateway: Arc::clone(&owner),
        key: Box::new(content_key),
        tell: Box::new(|_, _| {}),
        random: || Some([4; 32]),
    };
    desk.open().expect("serves");
    owner.hello(Duration::from_secs(5)).await;
    let owned = package(net.genesis.hash(), content_key(&NONCE));
    assert!(owned.is_key(&ask(&node, &owned).await.expect("was chosen")));
}

/// Goal: no minority of validators puts strangers into the line of nodes, nor leaves a node out.
#[test]
fn node_is_listed_if_so_many_say_so_that_one_of_them_is_honest() {
    let peer = |number| PeerId::of(&secret(number));
    let list = |numbers: &[u8]| numbers.iter().map(|number| peer(*number)).collect();
    let honest = || list(&[NODE, OWNER]);
    let lists: Vec<BTreeSet<PeerId>> = vec![list(&[STRANGER]), honest(), honest()];
    assert_eq!(listed(&lists, 2), Some(honest()));
    assert_eq!(listed(&lists[..1], 2), None, "one alone says nothing");
    assert_eq!(listed(&[list(&[]), honest()], 2), Some(list(&[])));
}

/// Goal: a ticket that names many peers makes no quorum of them. Method: beside four validators
/// there are as many others, who all say that a stranger was chosen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_without_a_seat_make_no_quorum() {
    let mut entries = vec![entry(OWNER, NODE); SEATS.into()];
    entries.extend(vec![entry(OWNER, STRANGER); SEATS.into()]);
    let net = Net::start(entries).await;
    let (node, stranger) = (net.gateway(NODE).await, net.gateway(STRANGER).await);
    let owner = net.gateway(OWNER).await;
    let desk = KeyDesk {
        gateway: Arc::clone(&owner),
        key: Box::new(content_key),
        tell: Box::new(|_, _| {}),
        random: || Some([4; 32]),
    };
    desk.open().expect("serves");
    owner.hello(Duration::from_secs(5)).await;
    let owned = package(net.genesis.hash(), content_key(&NONCE));
    is_refused(ask(&stranger, &owned).await, Failure::NotChosen);
    assert!(owned.is_key(&ask(&node, &owned).await.expect("was chosen")));
    // Shares of a key would go to seats alone, too.
    let holders = owner.ask_seats(&Request::Status, Duration::ZERO, |seat, _| Some(seat)).await;
    assert!(holders.len() <= SEATS.into(), "{holders:?}");
}

#[test]
fn nonce_counts_if_a_quorum_of_seats_says_the_same() {
    let (one, other) = ([1; 16], [2; 16]);
    let all = [(0, one), (1, other), (2, one), (3, one)];
    assert_eq!(agreed(&all, 3), Some(one));
    assert_eq!(agreed(&all[..3], 3), None);
    assert_eq!(agreed(&[(2, one), (2, one), (2, one), (3, one)], 3), None, "one seat, thrice");
    assert_eq!(agreed(&[], 1), None);
}
