//! The bridge between the engine's blocks and the machine's executions.
//!
//! Proposing and verifying take the same road: gather entries, run the machine, merkleize its
//! changes. The machine names entries it lacks; they are read and it runs again, a bounded number
//! of times.

use crate::{
    block::{Block, ConsensusContext},
    certify::{Headers, Votes},
    machine::{Executed, FinalBlock, Loaded, Memo, Place, Run, RunError, SharedMachine, Trust},
    state::{Databases, Digest, Entry, Key, Runtime, db_key},
    store::{Shelf, Store},
};
use bytes::Bytes;
use commonware_consensus::marshal::ancestry::Ancestry;
use commonware_cryptography::Digestible as _;
use commonware_glue::stateful::{
    Application, Finality, Input, Proposed,
    db::{DatabaseSet, Merkleized as _},
};
use commonware_storage::qmdb::{any::batch::Slot, sync::Target};
use commonware_utils::non_empty_range;
use futures::StreamExt as _;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};
use tg_types::{
    hash::sha256,
    header::Header,
    ids::{AccountId, Hash32, HeaderDigest, StateKey},
    key::Domain,
    tick::{Height, Tick},
};

/// Loads per execution. Every round names at least one new entry; ordinary blocks need one.
const LOAD_ROUNDS_MAX: usize = 32;

/// How far a proposer's clock may be ahead of ours before we hold back our vote.
const CLOCK_AHEAD_MAX: Duration = Duration::from_millis(500);

type Unmerkleized<E> = <Databases<E> as DatabaseSet<E>>::Unmerkleized;
type Merkleized<E> = <Databases<E> as DatabaseSet<E>>::Merkleized;

/// A write to an entry that was not read: its new value, or `None` to remove it.
type Write = (Key, Option<Entry>);

/// What the execution of a block left that is not final yet.
pub(crate) struct Pending {
    height: u64,
    record: Bytes,
    memo: Memo,
}

/// Timing of block production.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Longest time without a block while there is nothing to do.
    pub heartbeat: Duration,
    /// Shortest time between two proposals, unless a block is full. Blocks cost much whatever they
    /// hold, so that fewer of them are sooner final on a busy machine.
    pub spacing: Duration,
    /// Largest step of the block clock; a chain that slept catches up in such steps.
    pub tick_step_max: Duration,
}

/// The application that the engine drives.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) machine: SharedMachine,
    pub(crate) domain: Arc<Domain>,
    pub(crate) genesis: Block,
    pub(crate) store: Store,
    pub(crate) headers: Headers,
    pub(crate) pace: Pace,
    pub(crate) last_tick: Arc<AtomicU64>,
    pub(crate) retain_heights: u64,
    /// Executed blocks that are not final yet, by block digest.
    pub(crate) pending: Arc<Mutex<BTreeMap<Digest, Pending>>>,
}

/// Milliseconds since the epoch on the runtime's clock.
pub(crate) fn now_ms(context: &impl commonware_runtime::Clock) -> u64 {
    let since = context.current().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl App {
    fn digest_of(&self, header: &Header) -> HeaderDigest {
        header.digest(&self.domain)
    }

    fn place(&self, parent: &Header, tick: Tick, context: &ConsensusContext) -> Option<Place> {
        let proposer: [u8; 32] = context.leader.as_ref().try_into().ok()?;
        Some(Place {
            height: Height::new(parent.height.get() + 1),
            tick,
            parent: self.digest_of(parent),
            parent_tick: parent.tick,
            proposer: AccountId::new(proposer).ok()?,
        })
    }

    /// The latest time a child of `parent` may have. A network may begin long after its genesis was
    /// written, so the first block is bounded by the machine's own rules alone.
    fn latest_tick(&self, parent: &Header) -> u64 {
        if parent.height.get() == 0 {
            return u64::MAX;
        }
        parent.tick.get().saturating_add(millis(self.pace.tick_step_max))
    }

    fn remember(&self, digest: Digest, height: u64, executed: Executed) {
        let Executed { record, memo, .. } = executed;
        self.pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(digest, Pending { height, record, memo });
    }

    /// Takes what a block that became final left, and drops what can no longer become final.
    fn recall(&self, digest: &Digest, height: u64) -> Option<Pending> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let left = pending.remove(digest);
        pending.retain(|_, other| other.height > height);
        left
    }

    /// A block's header as its execution demands it.
    fn header(place: &Place, executed: &Executed, state_root: Digest) -> Header {
        Header {
            height: place.height,
            tick: place.tick,
            parent: place.parent,
            proposer: place.proposer,
            payload: Hash32::new(sha256(&[&executed.payload])),
            state_root: Hash32::new(state_root.0),
            receipts_root: Hash32::new(executed.receipts_root),
            log_root: Hash32::new(executed.log_root),
        }
    }

    async fn check<E: Runtime>(
        &self,
        context: E,
        block: &Block,
        parent: &Header,
        batches: Unmerkleized<E>,
        trust: Trust,
    ) -> Result<(Executed, Merkleized<E>), String> {
        let tick = block.header.tick.get();
        if tick > self.latest_tick(parent) {
            return Err("block clock jumps".to_owned());
        }
        let place = self
            .place(parent, block.header.tick, &block.context)
            .ok_or("leader key is not an account")?;
        if trust == Trust::Candidate {
            let ahead = tick.saturating_sub(now_ms(&context));
            if ahead > millis(CLOCK_AHEAD_MAX) {
                context.sleep(Duration::from_millis(ahead).min(self.pace.tick_step_max)).await;
            }
        }
        let (machine, payload) = (Arc::clone(&self.machine), block.payload.clone());
        let opening = place.clone();
        let run = context
            .child("open")
            .shared(true)
            .spawn(move |_| async move { machine.open(&opening, &payload, trust) })
            .await
            .map_err(|error| error.to_string())??;
        let (executed, merkleized) = execute(&context, run, batches).await?;
        if Self::header(&place, &executed, merkleized.root()) != block.header {
            return Err("header does not match the execution".to_owned());
        }
        Ok((executed, merkleized))
    }
}

/// Runs the machine on the state and merkleizes what it changed.
async fn execute<E: Runtime>(
    context: &E,
    mut run: Box<dyn Run>,
    batches: Unmerkleized<E>,
) -> Result<(Executed, Merkleized<E>), String> {
    let mut order = run.keys();
    let keys: Vec<Key> = order.iter().map(db_key).collect();
    let (values, mut staged) =
        batches.stage(&keys.iter().collect::<Vec<_>>()).await.map_err(|error| error.to_string())?;
    let mut loaded = Loaded::new();
    insert_all(&mut loaded, &order, values);
    for _round in 0..LOAD_ROUNDS_MAX {
        let outcome;
        (outcome, run, loaded) = context
            .child("run")
            .shared(true)
            .spawn(move |_| async move { (run.run(&loaded), run, loaded) })
            .await
            .map_err(|error| error.to_string())?;
        let more = match outcome {
            Ok(mut executed) => {
                let changes = std::mem::take(&mut executed.changes);
                let (slots, unread) = split_changes(&order, changes);
                let merkleized =
                    staged.merkleize(slots, unread).await.map_err(|error| error.to_string())?;
                return Ok((executed, merkleized));
            }
            Err(RunError::Invalid(reason)) => return Err(reason),
            Err(RunError::Missing(mut more)) => {
                more.retain(|key| !loaded.contains_key(key));
                more.sort();
                more.dedup();
                more
            }
        };
        if more.is_empty() {
            return Err("execution asks again for entries it was given".to_owned());
        }
        let keys: Vec<Key> = more.iter().map(db_key).collect();
        let values;
        (_, values, staged) = staged
            .expand(&keys.iter().collect::<Vec<_>>())
            .await
            .map_err(|error| error.to_string())?;
        insert_all(&mut loaded, &more, values);
        order.extend(more);
    }
    Err("execution needs too many loads".to_owned())
}

fn insert_all(loaded: &mut Loaded, keys: &[StateKey], values: Vec<Option<Entry>>) {
    for (key, value) in keys.iter().zip(values) {
        loaded.insert(*key, value.map(|entry| entry.0));
    }
}

/// Sorts changes into slots of entries that were read, and writes to entries that were not.
fn split_changes(
    order: &[StateKey],
    mut rest: BTreeMap<StateKey, Option<Vec<u8>>>,
) -> (Vec<Slot<Entry>>, Vec<Write>) {
    let slots = order
        .iter()
        .map(|key| match rest.remove(key) {
            None => Slot::Keep,
            Some(Some(value)) => Slot::Put(Entry(value.into())),
            Some(None) => Slot::Delete,
        })
        .collect();
    let unread = rest
        .into_iter()
        .map(|(key, value)| (db_key(&key), value.map(|value| Entry(value.into()))))
        .collect();
    (slots, unread)
}

impl<E: Runtime> Application<E> for App {
    type SigningScheme = Votes;
    type Context = ConsensusContext;
    type Block = Block;
    type Databases = Databases<E>;
    type Captured = ();
    type Provider = ();
    type Input = ();

    fn sync_targets(block: &Block) -> <Databases<E> as DatabaseSet<E>>::SyncTargets {
        Target::new(block.ops_root, block.ops_range.clone())
    }

    async fn genesis(&mut self) -> Block {
        self.genesis.clone()
    }

    async fn propose(
        &mut self,
        (runtime, context): (E, ConsensusContext),
        ancestry: impl Ancestry<Block>,
        batches: Unmerkleized<E>,
        _input: Input<(), ()>,
    ) -> Option<Proposed<Self, E>> {
        let mut ancestry = Box::pin(ancestry);
        let parent = ancestry.next().await?;
        let parent_header = parent.inner().header.clone();
        let earliest = parent_header.tick.get();
        let tick = Tick::new(now_ms(&runtime).clamp(earliest, self.latest_tick(&parent_header)));
        let place = self.place(&parent_header, tick, &context)?;
        let run = self.machine.draft(&place);
        let (executed, merkleized) = match execute(&runtime, run, batches).await {
            Ok(done) => done,
            Err(reason) => {
                tracing_refusal("own proposal", place.height.get(), &reason);
                return None;
            }
        };
        let block = Block {
            context,
            parent: parent.digest(),
            header: Self::header(&place, &executed, merkleized.root()),
            ops_root: merkleized.ops_root(),
            ops_range: non_empty_range!(merkleized.sync_boundary(), merkleized.bounds().tip.size),
            payload: executed.payload.clone(),
        };
        self.remember(block.digest(), place.height.get(), executed);
        Some(Proposed { block, merkleized })
    }

    async fn process(
        &mut self,
        (runtime, _context): (E, ConsensusContext),
        ancestry: impl Ancestry<Block>,
        batches: Unmerkleized<E>,
        finality: Finality,
    ) -> Option<Merkleized<E>> {
        let mut ancestry = Box::pin(ancestry);
        let block = ancestry.next().await?;
        let digest = block.digest();
        let block = block.inner().clone();
        let parent = ancestry.next().await?.inner().header.clone();
        let trust = match finality {
            Finality::Candidate => Trust::Candidate,
            Finality::Finalized => Trust::Finalised,
        };
        match self.check(runtime, &block, &parent, batches, trust).await {
            Ok((executed, merkleized)) => {
                self.remember(digest, block.header.height.get(), executed);
                Some(merkleized)
            }
            Err(reason) => {
                tracing_refusal("block", block.header.height.get(), &reason);
                None
            }
        }
    }

    async fn capture(
        &mut self,
        _context: (E, ConsensusContext),
        _block: &Block,
        _batches: &Merkleized<E>,
        _readers: <Databases<E> as DatabaseSet<E>>::Readers,
    ) {
    }

    async fn finalized(
        &mut self,
        _context: (E, ConsensusContext),
        block: &Block,
        (): (),
        _readers: <Databases<E> as DatabaseSet<E>>::Readers,
    ) {
        let digest = block.digest();
        let height = block.header.height.get();
        let Pending { record, memo, .. } =
            self.recall(&digest, height).expect("a final block was executed before");
        self.store.put(Shelf::Records, height, digest, record).await;
        let header_digest = self.digest_of(&block.header);
        self.headers.put(height, Digest::from(*header_digest.as_bytes()));
        self.last_tick.store(block.header.tick.get(), Ordering::Relaxed);
        self.machine.finalised(&FinalBlock {
            header: block.header.clone(),
            digest: header_digest,
            payload: block.payload.clone(),
            memo,
        });
        if height > self.retain_heights && height.is_multiple_of(256) {
            self.store.prune(height - self.retain_heights).await;
        }
    }
}

/// Tells the operator why a block was not built or not voted for.
fn tracing_refusal(what: &str, height: u64, reason: &str) {
    tracing::warn!(height, reason, "{what} refused");
}
