//! What a node keeps about final blocks beside the state: records and certificates.
//!
//! One task owns both archives; everybody else sends it messages. Records are durable before the
//! engine is told that the block was handled, so a crash repeats the block instead of losing its
//! receipts.

use crate::{
    node::NodeConfig,
    parts,
    state::{Digest, Runtime},
};
use bytes::Bytes;
use commonware_codec::RangeCfg;
use commonware_runtime::{Handle, buffer::paged::CacheRef};
use commonware_storage::{
    archive::{Archive as _, Error as ArchiveError, Identifier, prunable},
    translator::EightCap,
};
use commonware_utils::channel::{mpsc, oneshot};

/// Requests waiting for the store. Senders wait when it is full.
const REQUESTS_MAX: usize = 256;

/// Heights between two flushes of the certificates.
const CERTIFICATE_FLUSH: u64 = 64;

/// Largest record or certificate accepted back from disk.
const RECORD_BYTES_MAX: usize = 64 << 20;

type Archive<E> = prunable::Archive<EightCap, E, Digest, Bytes>;

/// Which of the two archives a request means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shelf {
    Records,
    Certificates,
}

enum Request {
    Put { shelf: Shelf, height: u64, digest: Digest, bytes: Bytes, durable: oneshot::Sender<()> },
    Get { shelf: Shelf, height: u64, answer: oneshot::Sender<Option<Bytes>> },
    Ranges { shelf: Shelf, answer: oneshot::Sender<Vec<(u64, u64)>> },
    Prune { below: u64 },
}

/// Sends requests to the task that owns the archives.
#[derive(Clone)]
pub(crate) struct Store(mpsc::Sender<Request>);

impl Store {
    /// Opens the archives and starts their owner.
    ///
    /// # Panics
    /// If the archives cannot be opened: a node must not run without its own history.
    pub(crate) async fn start<E: Runtime>(
        context: E,
        config: &NodeConfig,
        pages: &CacheRef,
    ) -> (Self, Handle<()>) {
        let (prefix, drops_sync) = (&config.prefix, config.drops_sync());
        let records = open(context.child("records"), prefix, "records", pages).await;
        let certificates = open(context.child("certificates"), prefix, "certificates", pages).await;
        let (sender, receiver) = mpsc::channel(REQUESTS_MAX);
        let owner = context.spawn(move |_| async move {
            let served = serve(records, certificates, receiver, drops_sync).await;
            served.expect("a node cannot go on without its archives");
        });
        (Self(sender), owner)
    }

    /// Stores bytes; a record is on disk when this returns.
    pub(crate) async fn put(&self, shelf: Shelf, height: u64, digest: Digest, bytes: Bytes) {
        let (durable, done) = oneshot::channel();
        let request = Request::Put { shelf, height, digest, bytes, durable };
        if self.0.send(request).await.is_ok() {
            let _stopped = done.await;
        }
    }

    /// Reads what is stored under a height.
    pub(crate) async fn get(&self, shelf: Shelf, height: u64) -> Option<Bytes> {
        let (answer, asked) = oneshot::channel();
        self.0.send(Request::Get { shelf, height, answer }).await.ok()?;
        asked.await.ok().flatten()
    }

    /// Heights held, as inclusive ranges.
    pub(crate) async fn ranges(&self, shelf: Shelf) -> Vec<(u64, u64)> {
        let (answer, asked) = oneshot::channel();
        if self.0.send(Request::Ranges { shelf, answer }).await.is_err() {
            return Vec::new();
        }
        asked.await.unwrap_or_default()
    }

    /// Forgets everything below a height (in whole sections).
    pub(crate) async fn prune(&self, below: u64) {
        let _stopped = self.0.send(Request::Prune { below }).await;
    }
}

async fn open<E: Runtime>(context: E, prefix: &str, name: &str, pages: &CacheRef) -> Archive<E> {
    let config = parts::archive(prefix, name, pages, RangeCfg::from(0..=RECORD_BYTES_MAX));
    prunable::Archive::init(context, config).await.expect("a node cannot run without its archives")
}

async fn serve<E: Runtime>(
    mut records: Archive<E>,
    mut certificates: Archive<E>,
    mut requests: mpsc::Receiver<Request>,
    drops_sync: bool,
) -> Result<(), ArchiveError> {
    while let Some(request) = requests.recv().await {
        match request {
            Request::Put { shelf: Shelf::Records, height, digest, bytes, durable } => {
                records = records.put(height, digest, &bytes).await?;
                if !drops_sync {
                    records = records.sync().await?;
                }
                let _gone = durable.send(());
            }
            Request::Put { shelf: Shelf::Certificates, height, digest, bytes, durable } => {
                // Not worth a flush each: a lost certificate is carried by a later block.
                certificates = certificates.put(height, digest, &bytes).await?;
                if height.is_multiple_of(CERTIFICATE_FLUSH) {
                    certificates = certificates.sync().await?;
                }
                let _gone = durable.send(());
            }
            Request::Get { shelf, height, answer } => {
                let id = Identifier::Index(height);
                let found = match shelf {
                    Shelf::Records => records.get(id).await?,
                    Shelf::Certificates => certificates.get(id).await?,
                };
                let _gone = answer.send(found);
            }
            Request::Ranges { shelf, answer } => {
                let ranges = match shelf {
                    Shelf::Records => records.ranges().collect(),
                    Shelf::Certificates => certificates.ranges().collect(),
                };
                let _gone = answer.send(ranges);
            }
            Request::Prune { below } => {
                records = records.prune(below).await?;
                certificates = certificates.prune(below).await?;
            }
        }
    }
    Ok(())
}
