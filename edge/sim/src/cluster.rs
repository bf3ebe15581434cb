//! A network of nodes on one seeded runtime: starting, crashing and restarting them, and the
//! weather between them.
//!
//! Every node is the product's: `tg_chain::prepare` and `tg_bft::node::start_node`, on a context
//! whose clock and disk belong to that node. Nothing here looks into a node; it is talked to
//! through the same handles as in the product.

mod disk;
mod equivocator;
mod plug;
mod runtime;
mod weather;

pub use disk::{DiskBlob, Tear};
pub use equivocator::Spread;
pub use plug::Side;
pub use runtime::NodeContext;
pub use weather::{Counts, PerMille, Way, Weather};

use commonware_cryptography::Signer as _;
use commonware_p2p::simulated;
use commonware_runtime::{Clock as _, Handle, Quota, Spawner as _, Supervisor as _, deterministic};
use commonware_utils::{NZUsize, Probability, probability};
use disk::Disk;
use equivocator::{private_key, public_key};
use plug::{Key, NetReceiver, NetSender, PlugReceiver, PlugSender, Sides, Twin};
use rand::{SeedableRng as _, rngs::StdRng};
use runtime::Skew;
use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tg_bft::{
    handle::Node,
    machine::{PAYLOAD_BYTES_MAX, SharedMachine},
    node::{CHANNELS, NodeConfig, QUOTAS, start_node},
};
use tg_chain::{Chain, ChainConfig, IndexPlace, Prepared, prepare};
use tg_ledger::Rules;
use tg_types::{genesis::Genesis, key::SecretKey};

/// Turns of the runtime in which the tasks of a crashed node end.
const CRASH_TURNS: Duration = Duration::from_millis(20);

/// Room in a message beyond the payload, as in the product.
const MESSAGE_OVERHEAD: usize = 64 << 10;

/// Final blocks kept: more than a run has.
const RETAIN_HEIGHTS: u64 = 1_000_000;

/// Pages of 4 KiB cached per node; the runs are small.
const CACHE_PAGES: usize = 256;

/// Locks for a look-up. A poisoned lock means that a panic is on its way out anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A seat of a cluster.
#[derive(Clone)]
pub struct SeatSecrets {
    /// Seed of its key.
    pub key: [u8; 32],
    /// Its threshold share.
    pub share: Vec<u8>,
}

/// Changes the rules of every node, to plant a bug.
pub type Adjust = Arc<dyn Fn(&mut Rules) + Send + Sync>;

/// Replaces the machine of a node, to make it lie.
pub type Wrap = Box<dyn FnOnce(SharedMachine) -> SharedMachine>;

/// A network to be simulated.
pub struct ClusterPlan {
    /// How it begins.
    pub genesis: Arc<Genesis>,
    /// Its seats; their places are their order here.
    pub seats: Vec<SeatSecrets>,
    /// Keys of nodes without a seat, placed after the seats.
    pub followers: Vec<[u8; 32]>,
    /// Seed of the network's chance.
    pub seed: u64,
    /// Typical latency between two nodes.
    pub latency: Duration,
    /// Whether a node that is blocked is cut off, or its messages still arrive.
    pub disconnects: bool,
    /// Longest time without a block.
    pub heartbeat: Duration,
    /// How long nodes wait for a leader.
    pub leader_timeout: Duration,
    /// What is changed in every node's rules.
    pub adjust: Adjust,
    /// Plants the bug that records are not synced.
    #[cfg(feature = "planted-bugs")]
    pub drops_sync: bool,
}

/// A node that is up.
#[derive(Clone)]
pub struct Live {
    /// The chain as clients see it.
    pub chain: Chain,
    /// The engine's handle: stored bytes as they are.
    pub node: Node,
    /// Whether the node took its state from peers.
    pub state_synced: bool,
    /// Counts the starts of this node.
    pub serial: u64,
}

/// Where a node's handles appear when it is up.
#[derive(Clone, Default)]
struct Slot(Arc<Mutex<Option<Live>>>);

/// One running instance of a node.
#[derive(Default)]
struct Body {
    name: String,
    skew: Skew,
    disk: Disk,
    slot: Slot,
    task: Option<Handle<()>>,
    starts: u64,
}

impl Body {
    fn named(name: String) -> Self {
        Self { name, ..Self::default() }
    }
}

/// The nodes that are up, for clients. Cheap to clone.
#[derive(Clone)]
pub struct Directory(Vec<Slot>);

impl Directory {
    /// The node at a place, if it is up.
    #[must_use]
    pub fn live(&self, place: usize) -> Option<Live> {
        lock(&self.0.get(place)?.0).clone()
    }
}

type Oracle = simulated::Oracle<Key, deterministic::Context>;
type Ends = (NetSender, NetReceiver);

/// A network of nodes.
pub struct Cluster {
    context: deterministic::Context,
    plan: ClusterPlan,
    keys: Vec<Key>,
    oracle: Oracle,
    weather: Weather,
    bodies: Vec<Body>,
    /// Second instances of seats that run twice.
    twins: Vec<(usize, Body, Sides)>,
    liars: Vec<(usize, Handle<()>)>,
}

impl Cluster {
    /// Makes the network; no node runs yet.
    pub async fn new(context: &deterministic::Context, plan: ClusterPlan) -> Self {
        let seats: Vec<Key> = plan.seats.iter().map(|seat| engine_key(seat.key)).collect();
        let followers: Vec<Key> = plan.followers.iter().map(|key| engine_key(*key)).collect();
        let keys: Vec<Key> = seats.iter().chain(&followers).cloned().collect();
        let config = simulated::Config {
            max_size: u32::try_from(PAYLOAD_BYTES_MAX + MESSAGE_OVERHEAD)
                .expect("messages are far below 4 GiB"),
            max_peers_per_set: keys.len().try_into().unwrap_or(NZUsize!(1)),
            disconnect_on_block: plan.disconnects,
            tracked_peer_sets: NZUsize!(1),
        };
        let (network, oracle) = simulated::Network::new_with_split_peers(
            context.child("network"),
            config,
            seats,
            followers,
        )
        .await;
        network.start();
        let weather = Weather::new(&keys, plan.seed);
        let names = (0..keys.len()).map(|place| format!("v{place}"));
        let bodies = names.map(Body::named).collect();
        let cluster = Self {
            context: context.child("cluster"),
            plan,
            keys,
            oracle,
            weather,
            bodies,
            twins: Vec::new(),
            liars: Vec::new(),
        };
        for from in 0..cluster.keys.len() {
            for to in 0..cluster.keys.len() {
                cluster.link(from, to, cluster.plan.latency).await;
            }
        }
        cluster
    }

    /// The weather between nodes.
    #[must_use]
    pub fn weather(&self) -> &Weather {
        &self.weather
    }

    /// The nodes that are up, also later ones.
    #[must_use]
    pub fn directory(&self) -> Directory {
        Directory(self.bodies.iter().map(|body| body.slot.clone()).collect())
    }

    /// Whether the node at a place was started and has not crashed since.
    #[must_use]
    pub fn runs(&self, place: usize) -> bool {
        self.bodies.get(place).is_some_and(|body| body.task.is_some())
    }

    /// Sets how far a node's clock is off.
    pub fn skew(&self, place: usize, millis: i64) {
        if let Some(body) = self.bodies.get(place) {
            body.skew.set(millis);
        }
    }

    /// Sets the latency of one direction between two nodes.
    pub async fn slow(&self, from: usize, to: usize, latency: Duration) {
        let (Some(sender), Some(receiver)) = (self.keys.get(from), self.keys.get(to)) else {
            return;
        };
        if from != to {
            let removed = self.oracle.remove_link(sender.clone(), receiver.clone()).await;
            removed.expect("all nodes are linked");
            self.link(from, to, latency).await;
        }
    }

    async fn link(&self, from: usize, to: usize, latency: Duration) {
        let (Some(sender), Some(receiver)) = (self.keys.get(from), self.keys.get(to)) else {
            return;
        };
        if from != to {
            let success_rate: Probability = probability!(1.0);
            let link = simulated::Link { latency, jitter: latency / 4, success_rate };
            let added = self.oracle.add_link(sender.clone(), receiver.clone(), link).await;
            added.expect("the link is new");
        }
    }

    /// Registers a node's channels anew; what another instance had is closed.
    async fn register(&self, place: usize) -> Vec<Ends> {
        let control = self.oracle.control(self.keys[place].clone());
        let mut ends = Vec::with_capacity(CHANNELS);
        for (channel, quota) in (0u64..).zip(QUOTAS) {
            let quota = NonZeroU32::new(quota).expect("quotas are not zero");
            let end = control.register(channel, Quota::per_second(quota)).await;
            ends.push(end.expect("the network runs"));
        }
        ends
    }

    /// A process forgets whom it blocked.
    async fn unblock(&self, place: usize) {
        let me = &self.keys[place];
        let blocked = self.oracle.blocked().await.expect("the network runs");
        for (from, to) in blocked.into_iter().filter(|(from, _)| from == me) {
            self.oracle.unblock(from, to).await.expect("the network runs");
        }
    }

    /// Seats that others have blocked, as (who, whom).
    pub async fn blocked(&self) -> Vec<(usize, usize)> {
        let place = |key: &Key| self.keys.iter().position(|other| other == key);
        let blocked = self.oracle.blocked().await.expect("the network runs");
        blocked.iter().filter_map(|(from, to)| Some((place(from)?, place(to)?))).collect()
    }

    /// Starts a node. It is in the directory when its state is open.
    ///
    /// # Panics
    /// If the plan's keys do not fit its genesis.
    pub async fn start(&mut self, place: usize, state_sync: bool, wrap: Option<Wrap>) {
        self.unblock(place).await;
        let skew = self.bodies[place].skew.clone();
        let ends = self.register(place).await.into_iter().map(|(sender, receiver)| {
            let sender = PlugSender::new(sender, skew.clone(), None);
            (sender, PlugReceiver::new(receiver, self.weather.clone(), place))
        });
        let ends = ends.collect();
        let prepared = self.prepare(place, &self.bodies[place].name, state_sync, wrap);
        let task = self.spawn(place, &self.bodies[place], prepared, ends);
        self.bodies[place].task = Some(task);
        self.bodies[place].starts += 1;
    }

    /// Starts a seat twice. Peers talk to the first instance until [`Self::sides`] says otherwise.
    /// The second instance's clock is off, so that the two do not build the same blocks.
    pub async fn start_twins(&mut self, place: usize) {
        let (sides, mut second) = (Sides::default(), Body::named(format!("v{place}b")));
        second.skew.set(37);
        for (peer, key) in self.keys.iter().enumerate() {
            if peer != place {
                sides.set(key.clone(), Side::First);
            }
        }
        let first = &self.bodies[place];
        let (mut first_ends, mut second_ends) = (Vec::new(), Vec::new());
        for (sender, receiver) in self.register(place).await {
            let side = |twin| Some((twin, sides.clone()));
            let context = self.context.child("twin_router");
            let (left, right) = plug::split(context, receiver, sides.clone(), &self.weather, place);
            let sending = PlugSender::new(sender.clone(), first.skew.clone(), side(Twin::First));
            first_ends.push((sending, left));
            let sending = PlugSender::new(sender, second.skew.clone(), side(Twin::Second));
            second_ends.push((sending, right));
        }
        let prepared = self.prepare(place, &first.name, false, None);
        let first_task = self.spawn(place, first, prepared, first_ends);
        let prepared = self.prepare(place, &second.name, false, None);
        second.task = Some(self.spawn(place, &second, prepared, second_ends));
        self.bodies[place].task = Some(first_task);
        self.twins.push((place, second, sides));
    }

    /// Says to which instance of a twin a peer talks.
    pub fn sides(&self, twin: usize, peer: usize, side: Side) {
        let Some(key) = self.keys.get(peer) else { return };
        for (place, _, sides) in &self.twins {
            if *place == twin && peer != twin {
                sides.set(key.clone(), side);
            }
        }
    }

    /// Makes a seat vote for everything instead of running a node.
    pub async fn start_equivocator(&mut self, place: usize, spread: Spread, seed: u64) {
        let mut ends = self.register(place).await;
        let votes = ends.swap_remove(0);
        let key = SecretKey::from_seed(self.plan.seats[place].key);
        let context = self.context.child("equivocator");
        let chance = StdRng::seed_from_u64(seed);
        let task = equivocator::start(context, &self.plan.genesis, &key, votes, spread, chance);
        self.liars.push((place, task));
    }

    fn prepare(
        &self,
        place: usize,
        name: &str,
        state_sync: bool,
        wrap: Option<Wrap>,
    ) -> (NodeConfig, Prepared) {
        let seat = self.plan.seats.get(place);
        let follower = || self.plan.followers.get(place - self.plan.seats.len());
        let key = seat.map(|seat| &seat.key).or_else(follower).expect("the place exists");
        let config = ChainConfig {
            genesis: Arc::clone(&self.plan.genesis),
            key: SecretKey::from_seed(*key),
            share: seat.map(|seat| seat.share.clone()),
            name: name.to_owned(),
            state_sync,
            index: IndexPlace::None,
            retain_heights: RETAIN_HEIGHTS,
            heartbeat: self.plan.heartbeat,
            leader_timeout: self.plan.leader_timeout,
            cache_pages: CACHE_PAGES,
            seed: *key,
            judge: Arc::new(tg_types::NoPrograms),
            verifier: Arc::new(tg_types::NoPrograms),
        };
        let (mut node, prepared) =
            prepare(config, |rules| (self.plan.adjust)(rules)).expect("the plan fits its genesis");
        #[cfg(feature = "planted-bugs")]
        {
            node.drops_sync = self.plan.drops_sync;
        }
        if let Some(wrap) = wrap {
            node.machine = wrap(node.machine);
        }
        (node, prepared)
    }

    fn spawn(
        &self,
        place: usize,
        body: &Body,
        (config, prepared): (NodeConfig, Prepared),
        ends: Vec<(PlugSender, PlugReceiver)>,
    ) -> Handle<()> {
        let Ok(channels) = <[_; CHANNELS]>::try_from(ends) else {
            unreachable!("one end was made for every channel")
        };
        let inner = self.context.child("node").with_attribute("node", &body.name);
        let context = NodeContext::new(inner, body.skew.clone(), body.disk.clone());
        let (manager, control) =
            (self.oracle.manager(), self.oracle.control(self.keys[place].clone()));
        let (slot, serial) = (body.slot.clone(), body.starts);
        context.spawn(move |context| async move {
            let engine = context.child("engine");
            let starting = Box::pin(start_node(engine, config, manager, control, channels));
            let started = starting.await;
            let running = started.expect("the plan fits its genesis");
            let Ok(chain) = prepared.attach(running.node.clone()).await else { return };
            let (node, state_synced) = (running.node.clone(), running.state_synced);
            *lock(&slot.0) = Some(Live { chain, node, state_synced, serial });
            std::future::pending::<()>().await;
            drop(running);
        })
    }

    /// Ends a node at once, with what its disk makes of it. Returns how many files were torn.
    pub async fn crash(&mut self, place: usize, tear: Tear, chance: &mut StdRng) -> usize {
        let mut torn = end(&self.context, &mut self.bodies[place], tear, chance).await;
        for (twin, body, _) in &mut self.twins {
            if *twin == place {
                torn += end(&self.context, body, tear, chance).await;
            }
        }
        self.twins.retain(|(twin, _, _)| *twin != place);
        torn
    }

    /// Ends an equivocator.
    pub fn silence(&mut self, place: usize) {
        for (_, task) in self.liars.extract_if(.., |(liar, _)| *liar == place) {
            task.abort();
        }
    }
}

async fn end(
    context: &deterministic::Context,
    body: &mut Body,
    tear: Tear,
    chance: &mut StdRng,
) -> usize {
    *lock(&body.slot.0) = None;
    let Some(task) = body.task.take() else { return 0 };
    task.abort();
    context.sleep(CRASH_TURNS).await;
    body.disk.crash(context, tear, chance).await
}

fn engine_key(seed: [u8; 32]) -> Key {
    let key = SecretKey::from_seed(seed);
    let engine = private_key(&key).public_key();
    assert_eq!(engine, public_key(key.public().as_bytes()), "both forms are the same key");
    engine
}
