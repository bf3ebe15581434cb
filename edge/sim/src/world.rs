//! What a seed decides before anything runs: the committee, who lies and how, the accounts and the
//! parameters.

use commonware_runtime::deterministic;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tg_chain::network::{NetworkPlan, SeatPlan, make_network};
use tg_sim::cluster::{Adjust, Cluster, ClusterPlan, SeatSecrets, Spread};
use tg_types::{
    amount::Amount,
    genesis::{Genesis, NetworkKind},
    hash::sha256,
    ids::AccountId,
    key::{PublicKey, SecretKey},
    params::{CapacityParams, JobParams, Params},
    tick::{DurationMs, Tick},
};

/// The simulated wall clock at the start, in seconds since the epoch.
pub(crate) const START_SECONDS: u64 = 1_800_000_000;

/// Accounts of clients.
pub(crate) const CLIENTS: usize = 10;

/// Places of the clients that own nodes: three, so that replicas of a job find different owners.
pub(crate) const PROVIDERS: [usize; 3] = [3, 8, 9];

/// Nodes that take jobs, shared out among their owners in turn.
const WORKERS: usize = 6;

/// Every so many seeds, a run is long enough to pass every ring, window and section of the chain.
const MARATHON_EVERY: u64 = 80;

/// A generator of its own for every purpose, so that a change in one does not move the others.
pub(crate) fn chance(seed: u64, purpose: &str) -> StdRng {
    StdRng::from_seed(sha256(&[b"tg-sim", &seed.to_be_bytes(), purpose.as_bytes()]))
}

/// How a seat misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vice {
    /// Signs contradicting votes.
    Equivocator(Spread),
    /// Runs twice with one key.
    Twins,
    /// Runs a node that lies in gossip, certificates and proposals.
    Hostile,
}

/// What a node does with jobs that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Commits to a result and shows it.
    Diligent,
    /// Does nothing.
    Silent,
    /// Commits to a result and often does not show it.
    Forgetful,
    /// Gives another output than everybody else.
    Liar,
    /// Often gives up.
    Fickle,
}

/// A node that takes jobs.
pub(crate) struct Worker {
    pub(crate) purse: Purse,
    /// The client that owns it.
    pub(crate) owner: AccountId,
    pub(crate) habit: Habit,
}

/// An account with its key.
pub(crate) struct Purse {
    pub(crate) seed: [u8; 32],
    pub(crate) account: AccountId,
}

impl Purse {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        let account = AccountId::from(SecretKey::from_seed(seed).public());
        Self { seed, account }
    }

    pub(crate) fn secret(&self) -> SecretKey {
        SecretKey::from_seed(self.seed)
    }
}

/// Everything a seed decides before anything runs.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) genesis: Arc<Genesis>,
    /// Places of seats that lie, at most a third.
    pub(crate) vices: Vec<(usize, Vice)>,
    /// Number of seats.
    pub(crate) seats: usize,
    /// Number of nodes without a seat; they join late.
    pub(crate) followers: usize,
    /// Keys of the seats, which are accounts too.
    pub(crate) validators: Vec<Purse>,
    /// Accounts of clients.
    pub(crate) clients: Vec<Purse>,
    /// Nodes that take jobs.
    pub(crate) workers: Vec<Worker>,
    shares: Vec<Vec<u8>>,
    latency: Duration,
    disconnects: bool,
    /// Blocks that the run has at least.
    pub(crate) blocks_min: u64,
}

/// Parameters under which everything with a date falls due within a run.
fn params() -> Params {
    Params {
        unbonding: DurationMs::new(3_000),
        absence_epoch: DurationMs::new(1_500),
        seen_retention: DurationMs::new(4_000),
        tick_step_max: DurationMs::new(10_000),
        block_tx_max: 200,
        tx_per_second_max: 1_000,
        expiry_heights_max: 1_000,
        jobs: JobParams {
            run_grace: DurationMs::new(3_000),
            answer_within: DurationMs::new(2_500),
            absent_max: DurationMs::new(3_000),
            runs_failed_max: 2,
            is_vouched: false,
            complain_within: DurationMs::new(1_500),
            complaint_judged_within: DurationMs::new(1_500),
            ..Params::local().jobs
        },
        capacity: CapacityParams::OFF,
        ..Params::local()
    }
}

fn secret_seed(seed: u64, kind: &str, index: usize) -> [u8; 32] {
    sha256(&[b"tg-sim key", &seed.to_be_bytes(), kind.as_bytes(), &index.to_be_bytes()])
}

impl World {
    /// Draws a world.
    pub(crate) fn new(seed: u64) -> Self {
        let mut draw = chance(seed, "world");
        let is_marathon = seed.is_multiple_of(MARATHON_EVERY);
        let seats = match draw.random_range(0..100) {
            _ if is_marathon => 4,
            0..88 => 4,
            88..92 => 5,
            92..95 => 6,
            95..99 => 7,
            _ => 10,
        };
        let purses = |kind, count| (0..count).map(move |i| Purse::new(secret_seed(seed, kind, i)));
        let validators: Vec<Purse> = purses("validator", seats).collect();
        let clients: Vec<Purse> = purses("client", CLIENTS).collect();
        let vices = draw_vices(seats, &mut draw);
        let workers = draw_workers(seed, &clients);
        let (genesis, shares) = make_genesis(seed, &validators, &clients, &workers);
        Self {
            seed,
            genesis: Arc::new(genesis),
            vices,
            seats,
            followers: usize::from(draw.random_range(0..5) == 0),
            validators,
            clients,
            workers,
            shares,
            latency: Duration::from_millis(draw.random_range(10..=50)),
            disconnects: draw.random_bool(0.7),
            blocks_min: if is_marathon { 300 } else { 60 },
        }
    }

    /// The network, not running yet.
    pub(crate) async fn cluster(
        &self,
        context: &deterministic::Context,
        adjust: Adjust,
        drops_sync: bool,
    ) -> Cluster {
        let secrets = self.validators.iter().zip(&self.shares);
        let seats =
            secrets.map(|(purse, share)| SeatSecrets { key: purse.seed, share: share.clone() });
        #[cfg(not(feature = "planted-bugs"))]
        assert!(!drops_sync, "bugs are planted only with the feature");
        let plan = ClusterPlan {
            genesis: Arc::clone(&self.genesis),
            seats: seats.collect(),
            followers: (0..self.followers).map(|i| secret_seed(self.seed, "follower", i)).collect(),
            seed: self.seed,
            latency: self.latency,
            disconnects: self.disconnects,
            heartbeat: Duration::from_millis(500),
            leader_timeout: Duration::from_millis(600),
            adjust,
            #[cfg(feature = "planted-bugs")]
            drops_sync,
        };
        Cluster::new(context, plan).await
    }

    /// The typical latency between two nodes.
    pub(crate) const fn latency(&self) -> Duration {
        self.latency
    }

    /// The vice of a seat, if it has one.
    pub(crate) fn vice(&self, place: usize) -> Option<Vice> {
        self.vices.iter().find(|(seat, _)| *seat == place).map(|(_, vice)| *vice)
    }

    /// Places of seats without a vice.
    pub(crate) fn honest_seats(&self) -> impl Iterator<Item = usize> {
        (0..self.seats).filter(|place| self.vice(*place).is_none())
    }

    /// Places of all nodes without a vice, followers included.
    pub(crate) fn honest(&self) -> Vec<usize> {
        self.honest_seats().chain(self.seats..self.seats + self.followers).collect()
    }

    /// The voting keys of seats with a vice.
    pub(crate) fn liars(&self) -> BTreeSet<PublicKey> {
        let keys = self.vices.iter().filter_map(|(place, _)| self.validators.get(*place));
        keys.map(|purse| purse.secret().public()).collect()
    }
}

fn draw_vices(seats: usize, draw: &mut StdRng) -> Vec<(usize, Vice)> {
    let faulty_max = (seats - 1) / 3;
    let count = if draw.random_range(0..4) == 0 { 0 } else { draw.random_range(1..=faulty_max) };
    let mut places: Vec<usize> = (0..seats).collect();
    places.shuffle(draw);
    let mut vices: Vec<(usize, Vice)> = places
        .into_iter()
        .take(count)
        .map(|place| {
            let vice = match draw.random_range(0..10) {
                0..2 => Vice::Equivocator(Spread::Both),
                2..4 => Vice::Equivocator(Spread::Halves),
                4..7 => Vice::Twins,
                _ => Vice::Hostile,
            };
            (place, vice)
        })
        .collect();
    vices.sort_by_key(|(place, _)| *place);
    vices
}

/// Half of the nodes are diligent, the others have any habit.
fn draw_workers(seed: u64, clients: &[Purse]) -> Vec<Worker> {
    let mut draw = chance(seed, "workers");
    let worker = |index: usize| {
        let habit = match draw.random_range(0..8) {
            _ if index.is_multiple_of(2) => Habit::Diligent,
            0..3 => Habit::Silent,
            3..5 => Habit::Forgetful,
            5..7 => Habit::Liar,
            _ => Habit::Fickle,
        };
        let owner = clients[PROVIDERS[index % PROVIDERS.len()]].account;
        Worker { purse: Purse::new(secret_seed(seed, "worker", index)), owner, habit }
    };
    (0..WORKERS).map(worker).collect()
}

fn make_genesis(
    seed: u64,
    validators: &[Purse],
    clients: &[Purse],
    workers: &[Worker],
) -> (Genesis, Vec<Vec<u8>>) {
    let seats = validators.iter().zip(1u16..).map(|(purse, port)| SeatPlan {
        key: purse.secret(),
        address: format!("127.0.0.1:{port}").parse().expect("an address"),
        stake: Amount::tgrid(1_000).expect("below the cap"),
    });
    let rich = Amount::tgrid(10_000).expect("below the cap");
    // Nodes pay the fees of what they say themselves.
    let purses = validators.iter().chain(clients).chain(workers.iter().map(|it| &it.purse));
    let allocations = purses.map(|purse| (purse.account, rich));
    let plan = NetworkPlan {
        chain: "sim".parse().expect("a chain id"),
        kind: NetworkKind::Local,
        start: Tick::new(START_SECONDS * 1_000),
        seats: seats.collect(),
        allocations: allocations.collect(),
        treasury: Amount::tgrid(5_000).expect("below the cap"),
        params: params(),
        seed: secret_seed(seed, "threshold", 0),
    };
    let made = make_network(plan).expect("the world's network is valid");
    (made.genesis, made.shares)
}
