//! Four validators as processes of their own, under load, killed without warning.
//!
//! A transaction is acknowledged when a node returned its final receipt. After any number of kills
//! every node must have every acknowledged transaction at the same height, the same roots, and a
//! node that joins late must agree.

use crate::support::{Home, PATIENCE, Process, free_addresses, text, turn, wait_until};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tensorgrid::env::Variable;
use tg_api::{
    Client,
    client::TxPlan,
    rpc::{SubmitParams, Submitted, Wait},
    text::Hex,
};
use tg_types::{
    AccountId, Action, Amount, Encode as _, GenesisHash, Hash32, Height, Lane, Memo, Nonce, Params,
    SecretKey, SignedTx, TxId, hash::sha256, key::Domain,
};

const SEATS: usize = 4;
const KILLS: u32 = 50;
const SEED: u64 = 1;

/// Clients that send one transaction after the other.
const SENDERS: u8 = 6;

/// A killed node that is not back at the head by then hangs. How fast it really is, is printed.
const BACK_MAX: Duration = Duration::from_secs(60);

/// One kill in so many takes two validators at once, which stops the chain until they are back.
const DOUBLE_KILL: u32 = 5;

/// How long a sender waits for finality before it asks what became of its transaction.
const FINAL_WAIT_MS: u64 = 3_000;

/// Where the nodes answer; a killed node's place is empty until it is back.
type Places = Arc<Mutex<Vec<Option<String>>>>;

fn number(variable: Variable) -> Option<u64> {
    variable.get().map(|text| text.parse().expect("a number in the environment"))
}

#[test]
#[ignore = "slow: fifty kills of four processes take two minutes"]
fn validators_killed_at_random_lose_nothing_slow() {
    let kills = number(Variable::TestKills).and_then(|kills| u32::try_from(kills).ok());
    run(kills.unwrap_or(KILLS), number(Variable::TestSeed).unwrap_or(SEED));
}

/// Goal: kills lose nothing that was acknowledged. Method: senders go on through all kills; then
/// all nodes are compared with what the senders were told, and with each other.
fn run(kills: u32, seed: u64) {
    let _turn = turn();
    let started = Instant::now();
    let mut fleet = Fleet::start();
    let load = Load::start(&fleet);
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut done, mut longest) = (0, Duration::ZERO);
    while done < kills {
        thread::sleep(Duration::from_millis(rng.random_range(200..1_500)));
        let first = rng.random_range(0..SEATS);
        let mut victims = vec![first];
        if done + 1 < kills && rng.random_range(0..DOUBLE_KILL) == 0 {
            victims.push((first + rng.random_range(1..SEATS)) % SEATS);
        }
        let pause = Duration::from_millis(rng.random_range(0..1_000));
        longest = longest.max(fleet.kill_and_restart(&victims, pause));
        done += u32::try_from(victims.len()).expect("few");
    }
    let (acknowledged, asked_again) = load.stop();
    fleet.compare(&acknowledged);
    let joined = fleet.join_late();
    eprintln!(
        "{done} kills (seed {seed}), {} acknowledged transactions, 0 lost, {asked_again} asked \
         for again; longest time back to head {longest:.1?}; late joiner at head after \
         {joined:.1?}; {:.0?} in all",
        acknowledged.len(),
        started.elapsed()
    );
    fleet.stop();
    assert!(!acknowledged.is_empty(), "the load was never served");
    assert!(longest <= BACK_MAX, "back to head after {longest:?}");
}

fn sender(number: u8) -> SecretKey {
    SecretKey::from_seed(sha256(&[b"kill test sender", &[number]]))
}

/// The network: its processes and where they answer.
struct Fleet {
    home: Home,
    nodes: Vec<Process>,
    places: Places,
    domain: Domain,
}

impl Fleet {
    fn start() -> Self {
        let home = Home::new();
        let out = home.path("net");
        let mut arguments = vec!["--json".to_owned(), "genesis".to_owned()];
        arguments.extend(["--out".to_owned(), text(&out).to_owned()]);
        let addresses = free_addresses(SEATS + 1);
        let (late, seats) = addresses.split_last().expect("five");
        for (number, address) in seats.iter().enumerate() {
            arguments.extend(["--seat".to_owned(), format!("v{number}={address}")]);
        }
        arguments.extend(["--follower".to_owned(), format!("late={late}")]);
        for key in (0..SENDERS).map(sender) {
            let account = AccountId::from(key.public());
            arguments.extend(["--fund".to_owned(), format!("{account}=1000")]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let made = home.run(&arguments).expect(0).json();
        let genesis: GenesisHash =
            made["genesis"].as_str().and_then(|text| text.parse().ok()).expect("a hash");
        let chain = made["chain"].as_str().and_then(|text| text.parse().ok()).expect("a name");
        let mut nodes: Vec<Process> = (0..SEATS).map(|seat| spawn(&home, seat)).collect();
        nodes.iter_mut().for_each(Process::wait_ready);
        let places = nodes.iter().map(|node| Some(node.rpc())).collect();
        let places = Arc::new(Mutex::new(places));
        let fleet = Self { home, nodes, places, domain: Domain { chain, genesis } };
        wait_until("the first block", PATIENCE, || fleet.height(0).is_some_and(|it| it > 0));
        fleet
    }

    fn client(&self, seat: usize) -> Option<Client> {
        let place = self.places.lock().expect("no test panicked").get(seat).cloned().flatten();
        place.and_then(|place| Client::new(&place).ok())
    }

    fn height(&self, seat: usize) -> Option<u64> {
        Some(self.client(seat)?.status().ok()?.height.0.get())
    }

    fn head(&self) -> u64 {
        (0..SEATS).filter_map(|seat| self.height(seat)).max().unwrap_or(0)
    }

    fn set_place(&self, seat: usize, place: Option<String>) {
        if let Some(slot) = self.places.lock().expect("no test panicked").get_mut(seat) {
            *slot = place;
        }
    }

    /// Kills seats, starts them again and waits until they are at the head; gives the longest time
    /// from start to head.
    fn kill_and_restart(&mut self, victims: &[usize], pause: Duration) -> Duration {
        for seat in victims {
            self.set_place(*seat, None);
            self.nodes.get_mut(*seat).expect("a seat").kill();
        }
        thread::sleep(pause);
        let started = Instant::now();
        for seat in victims {
            *self.nodes.get_mut(*seat).expect("a seat") = spawn(&self.home, *seat);
        }
        for seat in victims {
            let node = self.nodes.get_mut(*seat).expect("a seat");
            node.wait_ready();
            let place = node.rpc();
            self.set_place(*seat, Some(place));
        }
        // At the head means: as high as the others, and a new block was made since the start.
        let before = self.head();
        loop {
            let head = self.head();
            let is_there = |seat: &usize| self.height(*seat).is_some_and(|own| own >= head);
            if head > before && victims.iter().all(is_there) {
                return started.elapsed();
            }
            let heights: Vec<Option<u64>> = (0..SEATS).map(|seat| self.height(seat)).collect();
            let waited = started.elapsed();
            assert!(waited < PATIENCE, "{victims:?} are not back at the head: {heights:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Header and transactions of a block, as a seat or follower tells it.
    fn block(client: &mut Client, height: u64) -> Option<(Hash32, String, Vec<TxId>)> {
        let block = client.block(Some(Height::new(height))).ok()?;
        let txs = block.txs.iter().map(|tx| tx.tx.0).collect();
        Some((block.header.state_root.0, block.header.digest.to_string(), txs))
    }

    /// Every node has every acknowledged transaction at its height, and all roots are equal.
    fn compare(&self, acknowledged: &BTreeMap<TxId, Height>) {
        let mut heights: BTreeMap<u64, Vec<TxId>> = BTreeMap::new();
        for (tx, height) in acknowledged {
            heights.entry(height.get()).or_default().push(*tx);
        }
        let last = heights.keys().next_back().copied().unwrap_or(1);
        wait_until("all nodes have the last transaction", PATIENCE, || {
            (0..SEATS).all(|seat| self.height(seat).is_some_and(|height| height >= last))
        });
        let mut clients: Vec<Client> = (0..SEATS).filter_map(|seat| self.client(seat)).collect();
        assert_eq!(clients.len(), SEATS);
        for (height, txs) in heights {
            let mut roots = Vec::new();
            for (seat, client) in clients.iter_mut().enumerate() {
                let (root, digest, held) = Self::block(client, height)
                    .unwrap_or_else(|| panic!("seat {seat} lacks block {height}"));
                for tx in &txs {
                    assert!(held.contains(tx), "seat {seat} lost {tx} of block {height}");
                }
                roots.push((root, digest));
            }
            roots.dedup();
            assert_eq!(roots.len(), 1, "roots of block {height} differ");
        }
    }

    /// A fifth node fetches the state from its peers and agrees; gives the time it took.
    fn join_late(&self) -> Duration {
        let folder = self.home.path("net").join("late");
        let arguments = [
            "--json",
            "validator",
            "--home",
            text(&folder),
            "--rpc",
            "127.0.0.1:0",
            "--state-sync",
        ];
        let started = Instant::now();
        let late = self.home.start("late", &arguments);
        assert_eq!(late.ready["state_synced"], true, "{}", late.ready);
        assert_eq!(late.ready["seat"], false);
        let mut follower = Client::new(&late.rpc()).expect("an address");
        let before = self.head();
        let mut own = 0;
        wait_until("the late joiner at the head", PATIENCE, || {
            own = follower.status().map_or(0, |status| status.height.0.get());
            own > before
        });
        let took = started.elapsed();
        let mut seat = self.client(0).expect("a seat");
        wait_until("the seat at the same height", PATIENCE, || {
            self.height(0).is_some_and(|height| height >= own)
        });
        let (mine, theirs) = (Self::block(&mut follower, own), Self::block(&mut seat, own));
        assert!(mine.is_some() && mine == theirs, "block {own} differs: {mine:?} {theirs:?}");
        for key in (0..SENDERS).map(sender) {
            let account = AccountId::from(key.public());
            let (mine, theirs) = (follower.account(account), seat.account(account));
            assert_eq!(mine.expect("answers").account, theirs.expect("answers").account);
        }
        assert_eq!(late.stop("TERM").0.code(), Some(0));
        took
    }

    fn stop(self) {
        for node in self.nodes {
            let (status, _) = node.stop("TERM");
            assert_eq!(status.code(), Some(0), "a validator ends cleanly");
        }
    }
}

fn spawn(home: &Home, seat: usize) -> Process {
    let folder = home.path("net").join(format!("v{seat}"));
    let arguments = ["--json", "validator", "--home", text(&folder), "--rpc", "127.0.0.1:0"];
    Process::spawn(home, &format!("v{seat}"), &arguments)
}

/// Senders that go on through all kills.
struct Load {
    stop: Arc<AtomicBool>,
    senders: Vec<thread::JoinHandle<(BTreeMap<TxId, Height>, u64)>>,
}

impl Load {
    fn start(fleet: &Fleet) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let senders = (0..SENDERS)
            .map(|number| {
                let mut sender = Sender {
                    key: sender(number),
                    domain: fleet.domain,
                    places: Arc::clone(&fleet.places),
                    rng: StdRng::seed_from_u64(number.into()),
                    nonce: Nonce::ZERO,
                    acknowledged: BTreeMap::new(),
                    asked_again: 0,
                };
                let stop = Arc::clone(&stop);
                thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        sender.send_one();
                    }
                    (sender.acknowledged, sender.asked_again)
                })
            })
            .collect();
        Self { stop, senders }
    }

    fn stop(self) -> (BTreeMap<TxId, Height>, u64) {
        self.stop.store(true, Ordering::Relaxed);
        let (mut all, mut asked_again) = (BTreeMap::new(), 0);
        for sender in self.senders {
            let (own, again) = sender.join().expect("senders do not fail");
            all.extend(own);
            asked_again += again;
        }
        (all, asked_again)
    }
}

/// One client with one account.
struct Sender {
    key: SecretKey,
    domain: Domain,
    places: Places,
    rng: StdRng,
    nonce: Nonce,
    acknowledged: BTreeMap<TxId, Height>,
    asked_again: u64,
}

impl Sender {
    /// A client of a node that is believed to run.
    fn client(&mut self) -> Option<Client> {
        let places = self.places.lock().expect("no test panicked").clone();
        let running: Vec<String> = places.into_iter().flatten().collect();
        let chosen = running.get(self.rng.random_range(0..running.len().max(1)))?;
        Client::new(chosen).ok()
    }

    /// Sends the next transaction until it is known to be final. Whatever breaks off on the way, it
    /// is offered again as it is, so it can never be carried out twice.
    fn send_one(&mut self) {
        let Some(tx) = self.sign() else {
            thread::sleep(Duration::from_millis(100));
            return;
        };
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            let Some(mut client) = self.client() else { continue };
            match self.offer(&mut client, &tx) {
                Some(done) if done => return,
                Some(_) => break,
                None => {
                    self.asked_again += 1;
                    thread::sleep(Duration::from_millis(50));
                }
            }
            // It may have become final while nobody was listening.
            let account = AccountId::from(self.key.public());
            let next = client
                .account(account)
                .ok()
                .map(|answer| answer.account.lanes.first().map_or(Nonce::ZERO, |lane| lane.next.0));
            if next.is_some_and(|next| next > self.nonce) {
                self.nonce = self.nonce.next().expect("few");
                return;
            }
        }
    }

    /// Offers a transaction: `Some(true)` if it was acknowledged, `Some(false)` if it can never
    /// become final, `None` if that is open.
    fn offer(&mut self, client: &mut Client, tx: &SignedTx) -> Option<bool> {
        let params = SubmitParams {
            txs: vec![Hex(tx.to_bytes())],
            wait: Wait::Final,
            timeout_ms: Some(FINAL_WAIT_MS),
            brief: true,
        };
        match client.submit_with(&params).ok()?.results.pop()? {
            Submitted::Final { tx, height, .. } => {
                self.acknowledged.insert(tx.0, height.0);
                self.nonce = self.nonce.next().expect("few");
                Some(true)
            }
            Submitted::Refused { code, .. } if code == "expired" => Some(false),
            Submitted::Refused { .. }
            | Submitted::Accepted { .. }
            | Submitted::Dropped { .. }
            | Submitted::Pending { .. } => None,
        }
    }

    fn sign(&mut self) -> Option<SignedTx> {
        let height = self.client()?.status().ok()?.height.0;
        let to = AccountId::from(sender(SENDERS).public());
        let amount = Amount::new(1).expect("one unit");
        let plan = TxPlan {
            lane: Lane::FIRST,
            nonce: self.nonce,
            height,
            idempotency: None,
            action: Action::Transfer { to, amount, memo: Memo::EMPTY },
        };
        plan.sign(&self.key, &self.domain, &Params::local()).ok()
    }
}
