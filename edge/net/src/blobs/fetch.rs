//! Fetching blobs: from one peer after the other until all of it is here.

use super::BlobError;
use super::store::Part;
use crate::dial::DialError;
use crate::error::TransportError;
use crate::id::{BlobId, PeerId};
use crate::link::{Link, PathKind, Topic};
use crate::peer::{Peer, Shared};
use crate::refusal::Refusal;
use futures::StreamExt as _;
use iroh::endpoint::RecvStream;
use iroh_blobs::api::{self, blobs::BlobStatus};
use iroh_blobs::get::GetError;
use iroh_blobs::get::fsm::{
    AtBlobContent, AtConnected, BlobContentNext, ConnectedNext, DecodeError,
};
use iroh_blobs::protocol::GetRequest;
use std::fmt::Write as _;
use std::num::NonZeroU64;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{self, Instant};

/// The most peers asked for one blob. Whoever knows more names the nearest.
pub const SOURCES_MAX: usize = 16;

/// A peer that sends nothing for so long is given up for the next.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Fetches of at least so many bytes wait for a direct path, to spare the relay.
const BULK_BYTES_MIN: u64 = 4 << 20;

/// How old a connection may be while a direct path is waited for. One that is possible is found
/// within a few round trips.
const DIRECT_WAIT: Duration = Duration::from_secs(1);

/// Verified pieces of 16 KiB that are not written yet.
const WRITE_QUEUE: usize = 64;

/// What to fetch.
#[derive(Debug)]
pub struct FetchOrder {
    /// Which blob.
    pub id: BlobId,
    /// Whom to ask, in this order.
    pub from: Vec<PeerId>,
    /// The most bytes it may have.
    pub bytes_max: u64,
    /// Where to tell how far it is.
    pub progress: Option<watch::Sender<FetchProgress>>,
}

/// How far a fetch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchProgress {
    /// Bytes that are here.
    pub here_bytes: u64,
    /// Bytes of the whole, as the peer says. Proved when all are here.
    pub size_bytes: Option<u64>,
}

/// What a fetch did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchReport {
    /// Bytes of the blob.
    pub size_bytes: u64,
    /// Bytes of the blob that came over the network, from all peers.
    pub read_bytes: u64,
    /// Who gave the last of it; nobody if all of it was here.
    pub last_from: Option<PeerId>,
}

/// Why a blob is not here.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// None of the peers gave it.
    #[error("blob {id} could not be fetched: {}", list(.tried))]
    Failed {
        /// Which.
        id: BlobId,
        /// What each peer did.
        tried: Vec<SourceFailure>,
    },
    /// More peers are named than are asked.
    #[error("{found} peers to ask, at most {max} are allowed")]
    TooManySources {
        /// How many are named.
        found: usize,
        /// The most.
        max: usize,
    },
    /// It is here, but larger than asked for, there is no room for it, or the store fails.
    #[error(transparent)]
    Blob(#[from] BlobError),
}

fn list(tried: &[SourceFailure]) -> String {
    let mut text = String::new();
    for SourceFailure { peer, error } in tried {
        let separator = if text.is_empty() { "" } else { "; " };
        let _text_takes_all = write!(text, "{separator}peer {peer}: {error}");
    }
    if text.is_empty() { "nobody to ask".to_owned() } else { text }
}

/// What a peer did when it was asked for a blob.
#[derive(Debug)]
pub struct SourceFailure {
    /// Who.
    pub peer: PeerId,
    /// What.
    pub error: SourceError,
}

/// Why a peer did not give a blob.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It cannot be reached.
    #[error("cannot be reached")]
    Unreachable(#[source] DialError),
    /// It does not give it.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// It says that the blob has more bytes than asked for.
    #[error("says that the blob has {found} bytes, at most {max} are asked for")]
    TooLarge {
        /// How many.
        found: u64,
        /// The most.
        max: u64,
    },
    /// It sent bytes that are not the blob's.
    #[error("sent bytes that are not the blob's")]
    Forged,
    /// It stood still.
    #[error("sent nothing for {} s", .after.as_secs())]
    Stalled {
        /// How long.
        after: Duration,
    },
    /// The connection failed.
    #[error("the connection failed")]
    Lost(#[source] TransportError),
    /// Our own store failed.
    #[error("our store failed")]
    Store(#[source] TransportError),
}

impl From<GetError> for SourceError {
    fn from(error: GetError) -> Self {
        if let Some(code) = error.iroh_error_code() {
            return Self::Refused(Refusal::of(code));
        }
        let is_forged = matches!(
            &error,
            GetError::Decode {
                source: DecodeError::ParentHashMismatch { .. }
                    | DecodeError::LeafHashMismatch { .. },
                ..
            }
        );
        if is_forged { Self::Forged } else { Self::Lost(TransportError::new(error)) }
    }
}

pub(super) async fn fetch(peer: Peer, order: FetchOrder) -> Result<FetchReport, FetchError> {
    let FetchOrder { id, from, bytes_max, progress } = order;
    if from.len() > SOURCES_MAX {
        return Err(FetchError::TooManySources { found: from.len(), max: SOURCES_MAX });
    }
    let shared = &peer.shared;
    let store = &shared.store.part_to_fetch(id, bytes_max).await?;
    if store.is_on_disk() {
        store.check_room(bytes_max.saturating_sub(store.here_bytes(id).await?))?;
    }
    let _protected = store.protect(id).await?; // a second fetch may give up meanwhile
    store.list_blob(id).await?; // from now on what arrives is kept
    let fetch = Fetch { shared, store, id, bytes_max, progress };
    let mut read_bytes = 0;
    let mut tried = Vec::new();
    let mut last_from = None;
    let mut sources = from.into_iter();
    loop {
        if let BlobStatus::Complete { size } = store.status(id).await? {
            if size > bytes_max {
                return Err(BlobError::TooLarge { found: size, max: bytes_max }.into());
            }
            store.list_blob(id).await?; // a second fetch may have unlisted it
            fetch.tell(size, Some(size));
            return Ok(FetchReport { size_bytes: size, read_bytes, last_from });
        }
        let Some(peer) = sources.next() else { break };
        match fetch.ask(peer, &mut read_bytes).await {
            Ok(()) => last_from = Some(peer),
            Err(error) => tried.push(SourceFailure { peer, error }),
        }
    }
    if store.here_bytes(id).await? == 0 {
        store.unlist(id).await?;
    }
    Err(FetchError::Failed { id, tried })
}

struct Fetch<'a> {
    shared: &'a Shared,
    store: &'a Part,
    id: BlobId,
    bytes_max: u64,
    progress: Option<watch::Sender<FetchProgress>>,
}

impl Fetch<'_> {
    /// Reads what is missing from one peer.
    async fn ask(&self, peer: PeerId, read_bytes: &mut u64) -> Result<(), SourceError> {
        let link = self.shared.dialer.connect(peer).await;
        let link = link.map_err(SourceError::Unreachable)?;
        let read = self.read(&link, read_bytes).await;
        if matches!(read, Err(SourceError::Stalled { .. })) {
            // It may be of a process that is gone; the next time there will be another.
            self.shared.dialer.forget(peer, link).await;
        }
        read
    }

    async fn read(&self, link: &Link, read_bytes: &mut u64) -> Result<(), SourceError> {
        if self.bytes_max >= BULK_BYTES_MIN && self.shared.is_direct() {
            wait_for_direct(link).await;
        }
        let local = self.store.library().remote().local(self.id.hash()).await;
        let local = local.map_err(|error| store_failed(api::Error::other(error)))?;
        if local.is_complete() {
            return Ok(());
        }
        let here_bytes = local.local_bytes();
        let (content, size) = patient(start(link, local.missing())).await??;
        if size > self.bytes_max {
            return Err(SourceError::TooLarge { found: size, max: self.bytes_max });
        }
        let Some(size) = NonZeroU64::new(size) else {
            // Only the empty blob is empty, and that one is always here.
            return Err(SourceError::Forged);
        };
        self.write(content, size, here_bytes, read_bytes).await
    }

    /// Writes what a peer sends, verified, into the store.
    async fn write(
        &self,
        mut content: AtBlobContent<RecvStream>,
        size: NonZeroU64,
        here_bytes: u64,
        read_bytes: &mut u64,
    ) -> Result<(), SourceError> {
        let before = *read_bytes;
        let library = self.store.library();
        let import = library.blobs().import_bao(self.id.hash(), size, WRITE_QUEUE).await;
        let import = import.map_err(store_failed)?;
        let (pieces, stored) = (import.tx, import.rx);
        let reading = async move {
            loop {
                match patient(content.next()).await? {
                    BlobContentNext::More((next, piece)) => {
                        let piece = piece.map_err(GetError::from)?;
                        let read = next.stats().payload_bytes_read;
                        let so_far = before.saturating_add(read);
                        let more = so_far.saturating_sub(*read_bytes);
                        self.shared.store.counted().note_received(more);
                        *read_bytes = so_far;
                        if pieces.send(piece).await.is_err() {
                            return Ok::<_, SourceError>(()); // the store says why
                        }
                        self.tell(here_bytes.saturating_add(read), Some(size.get()));
                        content = next;
                    }
                    BlobContentNext::Done(_) => return Ok(()),
                }
            }
        };
        let (read, stored) = tokio::join!(Box::pin(reading), stored);
        read?;
        match stored {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(store_failed(error)),
            Err(error) => Err(store_failed(api::Error::other(error))),
        }
    }

    fn tell(&self, here_bytes: u64, size_bytes: Option<u64>) {
        if let Some(progress) = &self.progress {
            progress.send_replace(FetchProgress { here_bytes, size_bytes });
        }
    }
}

fn store_failed(error: impl Into<api::Error>) -> SourceError {
    SourceError::Store(TransportError::new(error.into()))
}

/// Sends the request and reads the size.
async fn start(
    link: &Link,
    request: GetRequest,
) -> Result<(AtBlobContent<RecvStream>, u64), SourceError> {
    let opened = link.open(Topic::Blob).await;
    let (send, receive) = opened.map_err(|error| SourceError::Lost(TransportError::new(error)))?;
    let connected = AtConnected::new(Instant::now(), receive, send, request, <_>::default());
    match connected.next().await.map_err(GetError::from)? {
        ConnectedNext::StartRoot(root) => Ok(root.next().next().await.map_err(GetError::from)?),
        // The request asks for parts of the blob and nothing else.
        ConnectedNext::StartChild(_) | ConnectedNext::Closing(_) => Err(SourceError::Forged),
    }
}

async fn patient<T>(work: impl Future<Output = T>) -> Result<T, SourceError> {
    let after = STALL_TIMEOUT;
    time::timeout(after, Box::pin(work)).await.map_err(|_| SourceError::Stalled { after })
}

/// Waits until the connection has a direct path, or is old enough that there is none.
async fn wait_for_direct(link: &Link) {
    if link.path().is_some_and(|path| path.kind == PathKind::Direct) {
        return;
    }
    let direct = async {
        let mut changes = link.connection.paths_stream();
        while changes.next().await.is_some() {
            if link.path().is_some_and(|path| path.kind == PathKind::Direct) {
                return;
            }
        }
    };
    let _none_is_fine = time::timeout_at(link.made + DIRECT_WAIT, direct).await;
}
