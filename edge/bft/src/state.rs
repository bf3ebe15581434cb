//! Authenticated state: keyed entries in QMDB `current`, ordered so that absence can be proven.
//!
//! State sync of variable-size entries needs a wrapper: the engine's resolver decodes operations
//! without a configuration, while operations over variable values carry one. [`WireOp`] fixes that
//! configuration in its type, [`Served`] offers the database in those terms, and [`SyncSource`]
//! translates answers back for the sync engine.

use crate::machine::ENTRY_BYTES_MAX;
use bytes::{BufMut, Bytes};
use commonware_codec::{Buf, EncodeSize, Error as CodecError, RangeCfg, Read, Write};
use commonware_cryptography::{Sha256, sha256};
use commonware_glue::stateful::db::{AttachableResolver, Shared, p2p as qmdb_p2p};
use commonware_parallel::Sequential;
use commonware_runtime::{Clock, Metrics, Spawner, Storage, buffer::paged::CacheRef};
use commonware_storage::{
    journal::contiguous::variable::Config as LogConfig,
    mmr::{self, full::Config as MmrConfig},
    qmdb::{
        any::{ordered::variable::Operation, value::VariableEncoding},
        current::{VariableConfig, ordered::variable},
        sync::{self, Feedback, Request, Response, ServeError, Source},
    },
    translator::EightCap,
};
use commonware_utils::{
    NZU64, NZUsize,
    channel::{mpsc, oneshot},
    sequence::FixedBytes,
};
use std::sync::Arc;
use tg_types::ids::StateKey;

/// Bytes of a bitmap chunk: one digest, which gives the shortest proofs.
pub(crate) const CHUNK: usize = 32;
/// Length of a state key: noun tag and id.
pub(crate) const KEY_BYTES: usize = 33;

pub(crate) type Key = FixedBytes<KEY_BYTES>;
pub(crate) type Digest = sha256::Digest;
pub(crate) type Op = Operation<mmr::Family, Key, Entry>;
pub(crate) type EntryEncoding = VariableEncoding<Entry>;
pub(crate) type Qmdb<E> =
    variable::Db<mmr::Family, E, Key, Entry, Sha256, EightCap, CHUNK, Sequential>;
pub(crate) type Databases<E> = Shared<Qmdb<E>>;
pub(crate) type QmdbConfig = VariableConfig<EightCap, ((), ()), Sequential>;

/// Runtime a node runs on: the operating system's or the simulator's.
pub trait Runtime:
    Clock + Spawner + Storage + Metrics + rand_core::CryptoRng + Send + Sync + 'static
{
}
impl<T: Clock + Spawner + Storage + Metrics + rand_core::CryptoRng + Send + Sync + 'static> Runtime
    for T
{
}

/// The value of a state entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) Bytes);

impl Write for Entry {
    fn write(&self, buf: &mut impl BufMut) {
        self.0.write(buf);
    }
}

impl EncodeSize for Entry {
    fn encode_size(&self) -> usize {
        self.0.encode_size()
    }
}

impl Read for Entry {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, CodecError> {
        Ok(Self(Bytes::read_cfg(buf, &RangeCfg::from(0..=ENTRY_BYTES_MAX))?))
    }
}

/// The database's form of a state key.
pub(crate) fn db_key(key: &StateKey) -> Key {
    Key::new(*key.as_bytes())
}

/// Where and how the entries of one node are stored.
pub(crate) fn config(prefix: &str, pages: CacheRef) -> QmdbConfig {
    let buffer = NZUsize!(1 << 20);
    QmdbConfig {
        merkle_config: MmrConfig {
            journal_partition: format!("{prefix}-state-nodes"),
            metadata_partition: format!("{prefix}-state-nodes-meta"),
            items_per_blob: NZU64!(1 << 16),
            write_buffer: buffer,
            replay_buffer: buffer,
            strategy: Sequential,
            page_cache: pages.clone(),
        },
        journal_config: LogConfig {
            partition: format!("{prefix}-state-log"),
            items_per_section: NZU64!(1 << 16),
            compression: None,
            codec_config: ((), ()),
            page_cache: pages,
            write_buffer: buffer,
            replay_buffer: buffer,
        },
        grafted_metadata_partition: format!("{prefix}-state-graft"),
        translator: EightCap,
        init_cache: Some(NZUsize!(1 << 14)),
        init_buffer: buffer,
        init_concurrency: (),
    }
}

/// An operation as it travels in state sync.
#[derive(Clone, Debug)]
pub(crate) struct WireOp(Op);

impl Write for WireOp {
    fn write(&self, buf: &mut impl BufMut) {
        self.0.write(buf);
    }
}

impl EncodeSize for WireOp {
    fn encode_size(&self) -> usize {
        self.0.encode_size()
    }
}

impl Read for WireOp {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, CodecError> {
        Ok(Self(Op::read_cfg(buf, &((), ()))?))
    }
}

/// The database offered to peers that sync.
pub(crate) struct Served<E: Runtime>(Databases<E>);

impl<E: Runtime> Source for Served<E> {
    type Family = mmr::Family;
    type Digest = Digest;
    type Op = WireOp;
    type Error = ServeError<mmr::Family>;

    async fn serve(&self, request: Request<mmr::Family>) -> sync::source::Result<Self> {
        // A local database answers without feedback: there is no sender to blame.
        let (response, _) = self.0.serve(request).await?;
        Ok((map_response(response, WireOp), None))
    }
}

pub(crate) type Resolver<E> = qmdb_p2p::Mailbox<Served<E>, mmr::Family, WireOp, Digest>;

/// State-sync answers in the database's own terms.
pub(crate) struct SyncSource<E: Runtime> {
    resolver: Resolver<E>,
    context: Arc<E>,
}

impl<E: Runtime> Clone for SyncSource<E> {
    fn clone(&self) -> Self {
        Self { resolver: self.resolver.clone(), context: Arc::clone(&self.context) }
    }
}

impl<E: Runtime> SyncSource<E> {
    pub(crate) fn new(resolver: Resolver<E>, context: E) -> Self {
        Self { resolver, context: Arc::new(context) }
    }
}

impl<E: Runtime> AttachableResolver<Qmdb<E>> for SyncSource<E> {
    async fn attach_database(&self, db: Databases<E>) {
        self.resolver.attach_database(Shared::new("served", Served(db)));
    }
}

impl<E: Runtime> Source for SyncSource<E> {
    type Family = mmr::Family;
    type Digest = Digest;
    type Op = Op;
    type Error = qmdb_p2p::ResponseDropped;

    async fn serve(&self, request: Request<mmr::Family>) -> sync::source::Result<Self> {
        let (response, feedback) = self.resolver.serve(request).await?;
        let feedback = feedback.map(|inner| relay_feedback(self.context.as_ref(), inner));
        Ok((map_response(response, |op| op.0), feedback))
    }
}

/// Passes verdicts on translated answers to the resolver, and its further candidates back.
fn relay_feedback<E: Runtime>(
    context: &E,
    mut inner: Feedback<Response<mmr::Family, WireOp, Digest>>,
) -> Feedback<Response<mmr::Family, Op, Digest>> {
    let (verdict, mut judged) = oneshot::channel();
    let (candidates, receiver) = mpsc::channel(1);
    context.child("sync_feedback").spawn(move |_| async move {
        loop {
            match judged.await {
                Ok(true) => return inner.accept(),
                Ok(false) => {}
                Err(_) => return, // request cancelled
            }
            let Some((response, next)) = inner.reject().await else { return };
            let (verdict, next_judged) = oneshot::channel();
            if candidates.send((map_response(response, |op| op.0), verdict)).await.is_err() {
                return;
            }
            inner = next;
            judged = next_judged;
        }
    });
    Feedback::new(verdict, receiver)
}

fn map_response<A, B>(
    response: Response<mmr::Family, A, Digest>,
    map: impl Fn(A) -> B,
) -> Response<mmr::Family, B, Digest> {
    match response {
        Response::Operations { proof, operations } => {
            Response::Operations { proof, operations: operations.into_iter().map(map).collect() }
        }
        Response::Boundary { proof, op, pinned_nodes } => {
            Response::Boundary { proof, op: map(op), pinned_nodes }
        }
    }
}
