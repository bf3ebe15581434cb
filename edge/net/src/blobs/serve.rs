//! Giving blobs away.
//!
//! The library's own handler would answer more than it is asked here: a blob read as a list of
//! hashes gives all blobs on the list, past any gate, and others may watch or even write. So the
//! request is read here, and only a plain read of one blob is passed on.

use super::BlobGate;
use super::store::{Part, Store, Traffic};
use crate::id::{BlobId, PeerId};
use crate::refusal::Refusal;
use bytes::Bytes;
use iroh::endpoint::{RecvStream, SendStream, VarInt};
use iroh_blobs::api::blobs::BlobStatus;
use iroh_blobs::protocol::{GetRequest, Request};
use iroh_blobs::provider::events::EventSender;
use iroh_blobs::provider::{StreamPair, handle_get};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time;

/// How long parts of a read may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServeLimits {
    /// For the request to arrive.
    pub(crate) request: Duration,
    /// For a piece to be taken.
    pub(crate) write: Duration,
}

/// Answers one request for a blob.
pub(crate) async fn serve(
    store: &Store,
    gate: &dyn BlobGate,
    peer: PeerId,
    (mut send, mut receive): (SendStream, RecvStream),
    limits: ServeLimits,
) {
    let read = time::timeout(limits.request, read_request(&mut receive)).await;
    let admitted = match read.unwrap_or(Err(Refusal::TooSlow)) {
        Ok(request) => admit(store, gate, peer, request).await,
        Err(reason) => Err(reason),
    };
    let (part, request) = match admitted {
        Ok(admitted) => admitted,
        Err(reason) => {
            tracing::debug!(?peer, %reason, "a blob is not given");
            let _is_closed = receive.stop(reason.code());
            let _is_closed = send.reset(reason.code());
            return;
        }
    };
    let id = BlobId::of_hash(request.hash);
    let sent = Arc::clone(store.counted());
    let send = Paced { stream: send, patience: limits.write, sent };
    // The number tells connections apart in the library's events, which are off.
    let pair = StreamPair::new(0, receive, send, EventSender::DEFAULT);
    if let Err(error) = Box::pin(handle_get(pair, part.library().clone(), request)).await {
        tracing::debug!(?peer, ?id, %error, "a blob was not read to its end");
    }
}

/// A request for one blob, whole or in part.
async fn read_request(receive: &mut RecvStream) -> Result<GetRequest, Refusal> {
    let (request, _) = Request::read_async(receive).await.map_err(|_| Refusal::Malformed)?;
    match request {
        Request::Get(request) if request.ranges.is_blob() => Ok(request),
        Request::Get(_)
        | Request::Observe(_)
        | Request::Push(_)
        | Request::GetMany(_)
        | Request::Slot2
        | Request::Slot3
        | Request::Slot4
        | Request::Slot5
        | Request::Slot6
        | Request::Slot7 => Err(Refusal::Forbidden),
    }
}

async fn admit(
    store: &Store,
    gate: &dyn BlobGate,
    peer: PeerId,
    request: GetRequest,
) -> Result<(Part, GetRequest), Refusal> {
    let id = BlobId::of_hash(request.hash);
    if !gate.may_read(peer, id) {
        return Err(Refusal::Forbidden);
    }
    let part = store.find(id).await.map_err(|_| Refusal::Failed)?;
    let is_listed = part.is_listed(id).await.map_err(|_| Refusal::Failed)?;
    match part.status(id).await.map_err(|_| Refusal::Failed)? {
        BlobStatus::Complete { .. } if is_listed => Ok((part, request)),
        BlobStatus::Complete { .. } | BlobStatus::Partial { .. } | BlobStatus::NotFound => {
            Err(Refusal::Absent)
        }
    }
}

/// A stream whose reader must not stand still.
struct Paced {
    stream: SendStream,
    patience: Duration,
    sent: Arc<Traffic>,
}

impl iroh_blobs::util::SendStream for Paced {
    async fn send_bytes(&mut self, bytes: Bytes) -> io::Result<()> {
        let count = bytes.len();
        time::timeout(self.patience, self.stream.write_chunk(bytes)).await??;
        self.sent.note_sent(count);
        Ok(())
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        time::timeout(self.patience, self.stream.write_all(bytes)).await??;
        Ok(())
    }

    async fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn reset(&mut self, code: VarInt) -> io::Result<()> {
        Ok(self.stream.reset(code)?)
    }

    async fn stopped(&mut self) -> io::Result<Option<VarInt>> {
        Ok(self.stream.stopped().await?)
    }

    fn id(&self) -> u64 {
        self.stream.id().index()
    }
}
