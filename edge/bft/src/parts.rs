//! How each part of the engine is set: sizes, time-outs and names, one function per part.
//!
//! Apart from [`crate::node`], which only wires the parts together.

use crate::{
    app::App,
    block::{Block, ConsensusContext},
    certify::{Certificates, Headers, OneEpoch, Threshold, Votes},
    node::NodeConfig,
    state::{self, Digest, Runtime, Served, SyncSource},
};
use commonware_broadcast::buffered;
use commonware_consensus::{
    aggregation,
    marshal::{
        self,
        core::{Floor, Mailbox as MarshalMailbox},
        resolver::p2p as marshal_resolver,
        standard::Standard,
    },
    simplex::{
        self,
        config::{ForwardPolicy, SkipPolicy},
        elector::RoundRobin,
    },
    types::{Epoch, EpochDelta, FixedEpocher, HeightDelta, ViewDelta},
};
use commonware_cryptography::{Digested, Sha256, certificate::ConstantProvider, ed25519};
use commonware_glue::stateful::{
    Config as StatefulConfig, PruneConfig, SyncPlan,
    db::{SyncEngineConfig, p2p as qmdb_resolver},
    probe::Config as ProbeConfig,
};
use commonware_p2p::{Blocker, Provider};
use commonware_parallel::Sequential;
use commonware_runtime::buffer::paged::CacheRef;
use commonware_storage::{archive::prunable, translator::EightCap};
use commonware_utils::{NZDuration, NZU64, NZUsize};
use std::{
    num::{NonZeroU64, NonZeroUsize},
    time::Duration,
};

/// Messages between the engine's own tasks before senders wait.
const MAILBOX: NonZeroUsize = NZUsize!(256);

/// A peer that does not answer a request within this time is not waited for.
const FETCH_TIMEOUT: Duration = Duration::from_secs(2);

/// The committee is fixed by genesis: one epoch without end.
const EPOCH_LENGTH: NonZeroU64 = NZU64!(u64::MAX);

/// Views whose votes are kept after they are decided, so that conflicting ones are noticed.
const VIEWS_KEPT: ViewDelta = ViewDelta::new(64);

/// Heights certified at the same time.
const CERTIFY_WINDOW: NonZeroU64 = NZU64!(16);

/// Heights below the certified ones whose signatures are still sent to those that lack them. Each
/// is repeated every [`REPEAT`], so many would fill the channel.
const CERTIFY_HELP: HeightDelta = HeightDelta::new(32);

/// How often a signature is repeated.
const REPEAT: Duration = Duration::from_secs(2);

/// Records per file of an archive; pruning removes whole files.
const SECTION: NonZeroU64 = NZU64!(256);

/// Final blocks between two rounds of pruning.
const PRUNE_EVERY: NonZeroUsize = NZUsize!(256);

/// Blocks' worth of state operations kept for peers that sync.
const SYNC_BLOCKS_KEPT: usize = 1_024;

const SMALL_BUFFER: NonZeroUsize = NZUsize!(1 << 16);
const LARGE_BUFFER: NonZeroUsize = NZUsize!(1 << 18);

type Key = ed25519::PublicKey;
type Plan<E> = SyncPlan<E, Votes, Standard<Block>>;

pub(crate) fn epocher() -> FixedEpocher {
    FixedEpocher::new(EPOCH_LENGTH)
}

pub(crate) fn archive<C>(
    prefix: &str,
    name: &str,
    pages: &CacheRef,
    codec_config: C,
) -> prunable::Config<EightCap, C> {
    prunable::Config {
        translator: EightCap,
        metadata_partition: format!("{prefix}-{name}-meta"),
        key_partition: format!("{prefix}-{name}-keys"),
        key_page_cache: pages.clone(),
        value_partition: format!("{prefix}-{name}-values"),
        compression: None,
        codec_config,
        items_per_section: SECTION,
        key_write_buffer: SMALL_BUFFER,
        value_write_buffer: LARGE_BUFFER,
        replay_buffer: LARGE_BUFFER,
    }
}

pub(crate) fn block_resolver<P, B>(
    public_key: Key,
    peer_provider: P,
    blocker: B,
) -> marshal_resolver::Config<Key, P, B>
where
    P: Provider<PublicKey = Key>,
    B: Blocker<PublicKey = Key>,
{
    marshal_resolver::Config {
        public_key,
        peer_provider,
        blocker,
        mailbox_size: MAILBOX,
        fetch_timeout: NZDuration!(FETCH_TIMEOUT),
        fetch_retry_delay: Duration::from_millis(100),
        priority_requests: false,
        priority_responses: false,
    }
}

pub(crate) fn block_broadcast<P: Provider<PublicKey = Key>>(
    public_key: Key,
    peer_provider: P,
) -> buffered::Config<Key, (), P, Sequential> {
    buffered::Config {
        public_key,
        mailbox_size: MAILBOX,
        deque_size: 8, // blocks per sender; a leader has one or two under way
        priority: false,
        codec_config: (),
        peer_provider,
        strategy: Sequential,
    }
}

pub(crate) fn probe<E: Runtime, B: Blocker<PublicKey = Key>>(
    context: E,
    scheme: Votes,
    blocker: B,
) -> ProbeConfig<E, ConstantProvider<Votes, Epoch>, Sequential, Key, B> {
    ProbeConfig {
        context,
        provider: ConstantProvider::new(scheme),
        strategy: Sequential,
        mailbox_size: NZUsize!(64),
        blocker,
        minimum_epoch: Epoch::zero(),
        retry_timeout: NZDuration!(Duration::from_millis(200)),
    }
}

type MarshalConfig = marshal::Config<
    ConstantProvider<Votes, Epoch>,
    FixedEpocher,
    Sequential,
    Block,
    Digested<Block>,
>;

pub(crate) fn marshal<E: Runtime>(
    config: &NodeConfig,
    pages: CacheRef,
    scheme: Votes,
    plan: &Plan<E>,
    genesis: Block,
) -> MarshalConfig {
    marshal::Config {
        provider: ConstantProvider::new(scheme),
        epocher: epocher(),
        start: plan.marshal_start(genesis.into_digested()),
        partition_prefix: config.prefix.clone(),
        mailbox_size: MAILBOX,
        view_retention: VIEWS_KEPT,
        prunable_items_per_section: SECTION,
        page_cache: pages,
        replay_buffer: LARGE_BUFFER,
        key_write_buffer: SMALL_BUFFER,
        value_write_buffer: LARGE_BUFFER,
        block_codec_config: (),
        max_repair: NZUsize!(16),
        max_pending_acks: NZUsize!(8),
        strategy: Sequential,
    }
}

pub(crate) fn state_resolver<E, P, B>(
    me: Key,
    peer_provider: P,
    blocker: B,
) -> qmdb_resolver::Config<Key, P, B, Served<E>>
where
    E: Runtime,
    P: Provider<PublicKey = Key>,
    B: Blocker<PublicKey = Key>,
{
    qmdb_resolver::Config {
        peer_provider,
        blocker,
        database: None,
        mailbox_size: NZUsize!(64),
        me: Some(me),
        fetch_timeout: NZDuration!(FETCH_TIMEOUT),
        fetch_retry_delay: Duration::from_millis(100),
        max_serve_ops: NZU64!(512),
        priority_requests: false,
        priority_responses: false,
    }
}

pub(crate) fn state<E: Runtime>(
    config: &NodeConfig,
    pages: CacheRef,
    application: App,
    marshal: (MarshalMailbox<Votes, Standard<Block>>, Floor),
    plan: Plan<E>,
    resolvers: SyncSource<E>,
) -> StatefulConfig<E, App, Standard<Block>, SyncSource<E>, Sequential> {
    let retained = usize::try_from(config.retain_heights).unwrap_or(usize::MAX);
    StatefulConfig {
        application,
        db_config: state::config(&config.prefix, pages),
        provider: (),
        marshal,
        mailbox_size: MAILBOX,
        plan,
        resolvers,
        sync_config: SyncEngineConfig {
            fetch_batch_size: NZU64!(512),
            apply_batch_size: NZU64!(1_024),
            max_outstanding_requests: NZUsize!(8),
        },
        prune_config: Some(PruneConfig {
            maintenance_interval: PRUNE_EVERY,
            retained_marshal_blocks: retained,
            retained_qmdb_blocks: retained.min(SYNC_BLOCKS_KEPT),
        }),
        strategy: Sequential,
    }
}

type CertifyConfig<B> = aggregation::Config<
    ConstantProvider<Threshold, Epoch>,
    Digest,
    Headers,
    Certificates,
    OneEpoch,
    B,
    Sequential,
>;

pub(crate) fn certify<B: Blocker<PublicKey = Key>>(
    prefix: &str,
    pages: CacheRef,
    scheme: Threshold,
    headers: Headers,
    finished: Certificates,
    blocker: B,
) -> CertifyConfig<B> {
    aggregation::Config {
        monitor: OneEpoch::default(),
        provider: ConstantProvider::new(scheme),
        automaton: headers,
        reporter: finished,
        blocker,
        priority_acks: false,
        rebroadcast_timeout: NZDuration!(REPEAT),
        epoch_bounds: (EpochDelta::new(1), EpochDelta::new(1)),
        window: CERTIFY_WINDOW,
        activity_timeout: CERTIFY_HELP,
        journal_partition: format!("{prefix}-certify"),
        journal_write_buffer: SMALL_BUFFER,
        journal_replay_buffer: SMALL_BUFFER,
        journal_heights_per_section: SECTION,
        journal_compression: None,
        journal_page_cache: pages,
        strategy: Sequential,
    }
}

type ConsensusConfig<A, F, B> =
    simplex::Config<Votes, RoundRobin<Sha256>, B, Digest, A, A, F, Sequential>;

/// Votes are kept for a while after a view is decided: that is how double votes are noticed.
pub(crate) fn consensus<A, F, B>(
    config: &NodeConfig,
    pages: CacheRef,
    scheme: Votes,
    genesis: Digest,
    parts: (A, F, B),
) -> ConsensusConfig<A, F, B>
where
    A: commonware_consensus::CertifiableAutomaton<Digest = Digest, Context = ConsensusContext>
        + commonware_consensus::Relay<Digest = Digest, PublicKey = Key>,
    F: commonware_consensus::Reporter<Activity = simplex::types::Activity<Votes, Digest>>,
    B: Blocker<PublicKey = Key>,
{
    let (automaton, reporter, blocker) = parts;
    simplex::Config {
        scheme,
        elector: RoundRobin::default(),
        blocker,
        automaton: automaton.clone(),
        relay: automaton,
        reporter,
        strategy: Sequential,
        partition: format!("{}-consensus", config.prefix),
        mailbox_size: MAILBOX,
        epoch: Epoch::zero(),
        floor: simplex::config::Floor::Genesis(genesis),
        replay_buffer: LARGE_BUFFER,
        write_buffer: LARGE_BUFFER,
        page_cache: pages,
        leader_timeout: config.leader_timeout,
        certification_timeout: config.leader_timeout * 3 / 2,
        timeout_retry: Duration::from_millis(500),
        view_retention: VIEWS_KEPT,
        skip: SkipPolicy::Enabled {
            timeout: config.leader_timeout * 4,
            budget: simplex::SkipBudget::Participants,
        },
        fetch_timeout: NZDuration!(FETCH_TIMEOUT),
        fetch_retry_delay: Duration::from_millis(200),
        forward: ForwardPolicy::Disabled,
        track_historical_votes: true,
    }
}
