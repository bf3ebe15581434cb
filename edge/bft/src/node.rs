//! One node, assembled: consensus, block archive, state, certificates, gossip.
//!
//! Generic over the runtime and the network, so that the simulator runs exactly the code that
//! validators run. [`crate::start`] is the instance on the operating system. The settings of each
//! part are in [`crate::parts`].

use crate::{
    app::{App, Pace},
    block::{Block, ConsensusContext},
    certify::{Certificates, Headers, ProvenTips, Threshold, Votes},
    committee::{Committee, CommitteeError, evidence_tag, signer},
    gossip::{self, Strangers},
    handle::{Desk, Node},
    machine::SharedMachine,
    paced::{Paced, Pulse},
    parts,
    state::{Databases, Digest, Runtime, Served, SyncSource},
    store::Store,
};
use bytes::{BufMut as _, BytesMut};
use commonware_actor::Feedback;
use commonware_broadcast::buffered;
use commonware_codec::Encode as _;
use commonware_consensus::{
    CertifiableAutomaton, Relay, Reporter, Reporters, aggregation,
    marshal::{
        core::Actor as MarshalActor,
        resolver::p2p as marshal_resolver,
        standard::{Deferred, Standard},
    },
    simplex::{
        self,
        types::{Activity, Finalization},
    },
    types::{Epoch, FixedEpocher},
};
use commonware_cryptography::{
    Digestible as _, Signer as _,
    certificate::{ConstantProvider, Verifier as _},
    ed25519,
};
use commonware_glue::stateful::{
    Stateful, SyncPlan,
    db::{DatabaseSet, p2p as qmdb_resolver},
    probe::{self, Probe},
};
use commonware_p2p::{Blocker, Provider, Receiver, Sender};
use commonware_parallel::Sequential;
use commonware_runtime::{Handle as Task, buffer::paged::CacheRef};
use commonware_storage::{archive::prunable, translator::EightCap};
use commonware_utils::{NZU16, NZUsize};
use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};
use tg_types::{
    header::Header,
    key::{Domain, SecretKey},
    traits::EquivocationCheck as _,
};
use tokio::sync::Notify;

/// Number of p2p channels a node uses.
pub const CHANNELS: usize = 9;

/// Messages per second and peer on each channel, in the order of [`Channels`]. Mailboxes are
/// allocated for this number times peers, so generous quotas cost gigabytes.
pub const QUOTAS: [u32; CHANNELS] = [256, 256, 64, 64, 64, 64, 8, 256, 256];

/// A node votes after this time although it has not heard from the whole committee.
const GREETING_TIME: Duration = Duration::from_secs(1);

/// Everything a node needs to know before it starts.
pub struct NodeConfig {
    /// The chain.
    pub domain: Arc<Domain>,
    /// Its committee.
    pub committee: Committee,
    /// The header before the first block.
    pub genesis: Header,
    /// Vote and network identity of this node.
    pub key: SecretKey,
    /// Threshold share of this node's seat, `None` for a node without a seat.
    pub share: Option<Vec<u8>>,
    /// Prefix of this node's storage partitions.
    pub prefix: String,
    /// Fetch the state from peers instead of replaying history, if this node has none yet.
    pub state_sync: bool,
    /// Timing of block production.
    pub pace: Pace,
    /// How long to wait for a leader's block before voting to skip it.
    pub leader_timeout: Duration,
    /// Final blocks, records and certificates kept on disk.
    pub retain_heights: u64,
    /// Pages of 4 KiB cached in memory.
    pub cache_pages: usize,
    /// The replicated machine.
    pub machine: SharedMachine,
    /// Plants a bug: records are not synced to disk.
    #[cfg(feature = "planted-bugs")]
    pub drops_sync: bool,
}

impl NodeConfig {
    /// Whether the bug of unsynced records is planted: never, without the feature.
    pub(crate) const fn drops_sync(&self) -> bool {
        #[cfg(feature = "planted-bugs")]
        return self.drops_sync;
        #[cfg(not(feature = "planted-bugs"))]
        return false;
    }
}

/// A node's p2p channels.
pub type Channels<S, R> = [(S, R); CHANNELS];

/// A node whose tasks run. Dropping it does not stop them; their runtime does.
pub struct Running {
    /// The way to talk to it.
    pub node: Node,
    /// Whether its state came from peers.
    pub state_synced: bool,
    tasks: Vec<Task<()>>,
}

impl Running {
    /// Aborts every task of the node at once, as a crash would.
    pub fn abort(self) {
        for task in self.tasks {
            task.abort();
        }
    }
}

/// Reports conflicting votes to the machine. The engine reports them unverified, so they are
/// verified here first.
#[derive(Clone)]
struct Evidence {
    machine: SharedMachine,
    committee: Committee,
}

impl Reporter for Evidence {
    type Activity = Activity<Votes, Digest>;

    fn report(&mut self, activity: Self::Activity) -> Feedback {
        let (tag, body) = match activity {
            Activity::ConflictingNotarize(votes) => (evidence_tag::NOTARIZE, votes.encode()),
            Activity::ConflictingFinalize(votes) => (evidence_tag::FINALIZE, votes.encode()),
            Activity::NullifyFinalize(votes) => (evidence_tag::NULLIFY_FINALIZE, votes.encode()),
            Activity::Notarize(_)
            | Activity::Notarization(_)
            | Activity::Certification(_)
            | Activity::Nullify(_)
            | Activity::Nullification(_)
            | Activity::Finalize(_)
            | Activity::Finalization(_) => return Feedback::Ok,
        };
        let mut evidence = BytesMut::with_capacity(body.len() + 1);
        evidence.put_u8(tag);
        evidence.put_slice(&body);
        let evidence = evidence.freeze();
        if self.committee.offender(&evidence).is_some() {
            self.machine.equivocated(&evidence);
        }
        Feedback::Ok
    }
}

/// What a part's start adds to the node: tasks that run until the node ends.
type Tasks = Vec<Task<()>>;

/// Starts a node. Returns when its state is open: at once, or after state sync.
///
/// # Errors
/// If the key or share does not fit the committee.
///
/// # Panics
/// If storage cannot be opened.
pub async fn start_node<E, P, B, S, R>(
    context: E,
    config: NodeConfig,
    peers: P,
    blocker: B,
    channels: Channels<S, R>,
) -> Result<Running, CommitteeError>
where
    E: Runtime,
    P: Provider<PublicKey = ed25519::PublicKey>,
    B: Blocker<PublicKey = ed25519::PublicKey>,
    S: Sender<PublicKey = ed25519::PublicKey>,
    R: Receiver<PublicKey = ed25519::PublicKey>,
{
    let [votes, certificates, resolver, backfill, broadcast, sync, probe, acks, talk] = channels;
    let me = signer(&config.key).public_key();
    let scheme = config.committee.votes(&config.key);
    let threshold = config.committee.threshold(config.share.as_deref())?;
    let pages = CacheRef::new(NZU16!(4_096), config.cache_pages.try_into().unwrap_or(NZUsize!(1)));
    let (store, owner) = Store::start(context.child("store"), &config, &pages).await;

    let block_resolver = marshal_resolver::init(
        context.child("block_resolver"),
        parts::block_resolver(me.clone(), peers.clone(), blocker.clone()),
        backfill,
    );
    let broadcasting = parts::block_broadcast(me.clone(), peers.clone());
    let (blocks, block_buffer) = buffered::Engine::new(context.child("blocks"), broadcasting);
    let mut tasks = vec![owner, blocks.start(broadcast)];

    let probing = Probe::new(parts::probe(context.child("probe"), scheme.clone(), blocker.clone()));
    let (plan, probe_mailbox, task) = plan_history(&context, &config, probing, probe).await;
    let state_synced = plan.floor().is_some();
    tasks.push(task);
    let genesis = genesis_block::<E>(&config);
    let (finalizations, blocks) = open_archives(&context, &config.prefix, &pages).await;
    let settings = parts::marshal(&config, pages.clone(), scheme.clone(), &plan, genesis.clone());
    let (marshal_actor, marshal, floor) =
        History::init(context.child("marshal"), finalizations, blocks, settings).await;

    let resolving = parts::state_resolver(me.clone(), peers, blocker.clone());
    let (sync_source, task) = sync_source(&context, resolving, sync);
    tasks.push(task);
    let headers = Headers::new(marshal.clone(), Arc::clone(&config.domain), &config.genesis);
    let signals = Signals::default();
    let app = app(&config, &genesis, &store, &headers, &signals);
    let (state_actor, state) = Stateful::new(
        context.child("state"),
        parts::state(&config, pages.clone(), app, (marshal.clone(), floor), plan, sync_source),
    );
    let deferred =
        Deferred::new(context.child("deferred"), state.clone(), marshal.clone(), parts::epocher());
    let paced = Paced::new(context.child("paced"), deferred, signals.pulse(&config));
    tasks.push(marshal_actor.start(state.clone(), block_buffer, block_resolver));
    probe_mailbox.attach(marshal.clone());
    tasks.push(state_actor.start());

    let engines = Engines { context: &context, config: &config, pages, blocker, tasks };
    let mut tasks = engines
        .gossip(&signals, &me, talk)
        .await
        .certify(threshold, headers, store.clone(), acks)
        .consensus(scheme, genesis.digest(), paced, (votes, certificates, resolver))
        .tasks;

    let databases: Databases<E> = state.subscribe_databases().await;
    let (node, questions) = Node::new(signals.work, signals.outbox);
    tasks.push(Desk { databases, store, marshal }.start(context.child("desk"), questions));
    Ok(Running { node, state_synced, tasks })
}

/// What wakes the node's tasks from outside.
#[derive(Default)]
struct Signals {
    work: Arc<Notify>,
    outbox: Arc<Notify>,
    last_tick: Arc<AtomicU64>,
}

impl Signals {
    fn pulse(&self, config: &NodeConfig) -> Pulse {
        Pulse {
            machine: Arc::clone(&config.machine),
            work: Arc::clone(&self.work),
            pace: config.pace,
            last_tick: Arc::clone(&self.last_tick),
            proposed: Arc::default(),
        }
    }
}

fn genesis_block<E: Runtime>(config: &NodeConfig) -> Block {
    let empty = <Databases<E> as DatabaseSet<E>>::initial_sync_targets();
    Block::genesis(config.genesis.clone(), empty)
}

fn app(
    config: &NodeConfig,
    genesis: &Block,
    store: &Store,
    headers: &Headers,
    signals: &Signals,
) -> App {
    App {
        machine: Arc::clone(&config.machine),
        domain: Arc::clone(&config.domain),
        genesis: genesis.clone(),
        store: store.clone(),
        headers: headers.clone(),
        pace: config.pace,
        last_tick: Arc::clone(&signals.last_tick),
        retain_heights: config.retain_heights,
        pending: Arc::default(),
    }
}

type ProbeMailbox = probe::Mailbox<Votes, Standard<Block>>;
type Prober<E, B> = Probe<
    E,
    Votes,
    ConstantProvider<Votes, Epoch>,
    Standard<Block>,
    Sequential,
    ed25519::PublicKey,
    B,
>;
type History<E> = MarshalActor<
    E,
    Standard<Block>,
    ConstantProvider<Votes, Epoch>,
    Archive<E, Finalization<Votes, Digest>>,
    Archive<E, Arc<Block>>,
    FixedEpocher,
    Sequential,
>;
type Archive<E, V> = prunable::Archive<EightCap, E, Digest, V>;

async fn open_archives<E: Runtime>(
    context: &E,
    prefix: &str,
    pages: &CacheRef,
) -> (Archive<E, Finalization<Votes, Digest>>, Archive<E, Arc<Block>>) {
    let votes = Votes::certificate_codec_config_unbounded();
    let finalizations = prunable::Archive::init(
        context.child("finalizations"),
        parts::archive(prefix, "finalizations", pages, votes),
    );
    let blocks = prunable::Archive::init(
        context.child("block_archive"),
        parts::archive(prefix, "blocks", pages, ()),
    );
    (
        finalizations.await.expect("the archive of finalizations opens"),
        blocks.await.expect("the archive of blocks opens"),
    )
}

/// Decides where history begins: at genesis, where this node stopped, or at what its peers have.
async fn plan_history<E: Runtime, B: Blocker<PublicKey = ed25519::PublicKey>>(
    context: &E,
    config: &NodeConfig,
    (probing, mailbox): (Prober<E, B>, ProbeMailbox),
    channel: (
        impl Sender<PublicKey = ed25519::PublicKey>,
        impl Receiver<PublicKey = ed25519::PublicKey>,
    ),
) -> (SyncPlan<E, Votes, Standard<Block>>, ProbeMailbox, Task<()>) {
    let mut plan = SyncPlan::init(context.child("plan"), config.prefix.clone()).await;
    let task = probing.start(channel);
    if plan.should_sync(config.state_sync) {
        plan = plan.set_floor(mailbox.subscribe().await.expect("the probe runs")).await;
    }
    (plan, mailbox, task)
}

/// Serves state to peers that sync, and fetches it when this node does.
fn sync_source<E, P, B>(
    context: &E,
    settings: qmdb_resolver::Config<ed25519::PublicKey, P, B, Served<E>>,
    channel: (
        impl Sender<PublicKey = ed25519::PublicKey>,
        impl Receiver<PublicKey = ed25519::PublicKey>,
    ),
) -> (SyncSource<E>, Task<()>)
where
    E: Runtime,
    P: Provider<PublicKey = ed25519::PublicKey>,
    B: Blocker<PublicKey = ed25519::PublicKey>,
{
    let (actor, mailbox) = qmdb_resolver::Actor::new(context.child("state_sync"), settings);
    (SyncSource::new(mailbox, context.child("sync_source")), actor.start(channel))
}

/// The engines that run on top of the opened history and state.
struct Engines<'a, E: Runtime, B> {
    context: &'a E,
    config: &'a NodeConfig,
    pages: CacheRef,
    blocker: B,
    tasks: Tasks,
}

impl<E: Runtime, B: Blocker<PublicKey = ed25519::PublicKey>> Engines<'_, E, B> {
    /// Certifies final headers.
    fn certify(
        mut self,
        scheme: Threshold,
        headers: Headers,
        store: Store,
        acks: (
            impl Sender<PublicKey = ed25519::PublicKey>,
            impl Receiver<PublicKey = ed25519::PublicKey>,
        ),
    ) -> Self {
        let storing = self.context.child("certificate_store");
        let machine = Arc::clone(&self.config.machine);
        let (finished, owner) = Certificates::start(storing, store, machine);
        let (prefix, pages) = (&self.config.prefix, self.pages.clone());
        let settings =
            parts::certify(prefix, pages, scheme, headers, finished, self.blocker.clone());
        let engine = aggregation::Engine::new(self.context.child("certify"), settings);
        let acks = (acks.0, ProvenTips::new(acks.1, Arc::clone(&self.config.machine)));
        self.tasks.extend([owner, engine.start(acks)]);
        self
    }

    /// Orders blocks and watches for double votes.
    fn consensus<A, S, R>(
        mut self,
        scheme: Votes,
        genesis: Digest,
        automaton: A,
        (votes, certificates, resolver): ((S, R), (S, R), (S, R)),
    ) -> Self
    where
        A: CertifiableAutomaton<Digest = Digest, Context = ConsensusContext>
            + Relay<
                Digest = Digest,
                PublicKey = ed25519::PublicKey,
                Plan = simplex::Plan<ed25519::PublicKey>,
            > + Reporter<Activity = Activity<Votes, Digest>>,
        S: Sender<PublicKey = ed25519::PublicKey>,
        R: Receiver<PublicKey = ed25519::PublicKey>,
    {
        let (config, pages) = (self.config, self.pages.clone());
        let evidence =
            Evidence { machine: Arc::clone(&config.machine), committee: config.committee.clone() };
        let reporter = Reporters::from((automaton.clone(), evidence));
        let parts = (automaton, reporter, self.blocker.clone());
        let settings = parts::consensus(config, pages, scheme, genesis, parts);
        let engine = simplex::Engine::new(self.context.child("consensus"), settings);
        self.tasks.push(engine.start(votes, certificates, resolver));
        self
    }

    /// Lets the machines of the nodes talk, and waits until the committee was heard.
    async fn gossip(
        mut self,
        signals: &Signals,
        me: &ed25519::PublicKey,
        talk: (
            impl Sender<PublicKey = ed25519::PublicKey>,
            impl Receiver<PublicKey = ed25519::PublicKey>,
        ),
    ) -> Self {
        let machine = Arc::clone(&self.config.machine);
        let outbox = Arc::clone(&signals.outbox);
        let others = self.config.committee.voters.iter().filter(|key| *key != me).cloned();
        let (strangers, all_heard) = Strangers::new(others);
        let context = self.context.child("gossip");
        self.tasks.push(gossip::start(context, machine, outbox, strangers, talk));
        let _silent = self.context.timeout(GREETING_TIME, all_heard).await;
        self
    }
}
