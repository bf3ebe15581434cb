//! The answering side: connections are let in within bounds, calls are handed to a handler and
//! cut when they take too long, blobs are given to whom the gate lets.

use crate::blobs::{self, BlobGate, Store};
use crate::dial::Protocol;
use crate::frame::{FRAME_BYTES_MAX, FrameError, read_frame, write_frame};
use crate::id::PeerId;
use crate::quota::{Place, Quota};
use crate::refusal::Refusal;
use futures::future::BoxFuture;
use iroh::Endpoint;
use iroh::endpoint::{Connection, Incoming, RecvStream, SendStream, VarInt};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{self, Instant};
use tokio_util::sync::CancellationToken;

/// Calls answered at once. Each holds at most a request and a few frames of a megabyte.
pub const CALLS_MAX: usize = 1024;

/// Calls answered at once for one peer: an ordinary client makes a few, a gateway some dozens.
pub const CALLS_PER_PEER_MAX: usize = 64;

/// Streams a peer may open on one connection. Above the bound of calls, so that the one too many
/// is told "busy" instead of waiting for nothing.
pub(crate) const STREAMS_PER_CONNECTION_MAX: u32 = 128;

/// Blobs given at once. Each reads from disk and fills a send window.
const BLOB_READS_MAX: usize = 64;

/// Blobs given at once to one peer.
const BLOB_READS_PER_PEER_MAX: usize = 8;

/// Connections at once. A validator has one or two with every provider it serves.
const CONNECTIONS_MAX: usize = 4096;

/// Connections at once with one peer: one per protocol, and as many that it has lost but we have
/// not missed yet.
const CONNECTIONS_PER_PEER_MAX: usize = 32;

/// Handshakes at once. Nobody has proved anything yet, so these are few.
const HANDSHAKES_MAX: usize = 256;

/// A connection on which nobody asked anything for so long is closed, so that those who only hold
/// their places lose them. Longer than the asking side keeps one unused.
const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(900);

/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a request may take to arrive, once its stream is open.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the other side may leave a frame unread before it counts as gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Frames of an answer that are not written yet.
const REPLY_QUEUE: usize = 4;

/// What a peer that asks may send us at once. Requests are small; two largest ones fit.
const RECEIVE_WINDOW: VarInt = VarInt::from_u32(2 << 20);

/// Answers calls.
pub trait CallHandler: Send + Sync + 'static {
    /// Answers one call: sends any number of frames (one, for whoever asked by `call`) and ends.
    /// The future is dropped when the other side loses interest, or when it is silent for too
    /// long.
    fn call(&self, from: PeerId, request: Vec<u8>, reply: ReplySender) -> BoxFuture<'_, ()>;
}

/// Why a frame of an answer is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// It has more bytes than a frame.
    #[error("frame of {found} bytes, at most {max} are allowed")]
    TooLarge {
        /// How many it has.
        found: usize,
        /// The most.
        max: usize,
    },
    /// Nobody waits for it any more.
    #[error("nobody waits for the answer any more")]
    Closed,
}

/// Where a handler puts the frames of its answer.
#[derive(Clone, Debug)]
pub struct ReplySender {
    frames: mpsc::Sender<Vec<u8>>,
}

impl ReplySender {
    /// Sends one frame; waits while the other side is behind. An empty frame shows that we are
    /// still there.
    ///
    /// # Errors
    /// If it is too large or nobody waits for it.
    pub async fn send(&self, frame: Vec<u8>) -> Result<(), ReplyError> {
        if frame.len() > FRAME_BYTES_MAX {
            return Err(ReplyError::TooLarge { found: frame.len(), max: FRAME_BYTES_MAX });
        }
        self.frames.send(frame).await.map_err(|_| ReplyError::Closed)
    }
}

/// What a peer does for others.
#[derive(Clone, Default)]
pub struct Services {
    /// Answers calls; without it, none is let in.
    pub calls: Option<Arc<dyn CallHandler>>,
    /// Decides who may read which blob; without it, nobody.
    pub blobs: Option<Arc<dyn BlobGate>>,
}

/// Why a peer cannot serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    /// It does already.
    #[error("this peer serves already")]
    Already,
    /// It has stopped.
    #[error("this peer has stopped")]
    Stopped,
}

/// How long a handler may be silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    pub(crate) first: Duration,
    pub(crate) next: Duration,
}

pub(crate) struct Server {
    pub(crate) services: Services,
    pub(crate) silence: Silence,
    pub(crate) store: Store,
    pub(crate) stop: CancellationToken,
    quotas: Quotas,
}

struct Quotas {
    connections: Arc<Quota>,
    calls: Arc<Quota>,
    blobs: Arc<Quota>,
}

impl Server {
    pub(crate) fn new(
        services: Services,
        silence: Silence,
        store: Store,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let quotas = Quotas {
            connections: Quota::new(CONNECTIONS_MAX, CONNECTIONS_PER_PEER_MAX),
            calls: Quota::new(CALLS_MAX, CALLS_PER_PEER_MAX),
            blobs: Quota::new(BLOB_READS_MAX, BLOB_READS_PER_PEER_MAX),
        };
        Arc::new(Self { services, silence, store, stop, quotas })
    }

    /// The names of what is served.
    pub(crate) fn alpns(&self) -> Vec<Vec<u8>> {
        let calls = self.services.calls.is_some().then_some(Protocol::Call);
        let blobs = self.services.blobs.is_some().then_some(Protocol::Blob);
        [calls, blobs].into_iter().flatten().map(|protocol| protocol.alpn().to_vec()).collect()
    }
}

/// Lets connections in until told to stop, and waits for all of them.
pub(crate) async fn accept(server: Arc<Server>, endpoint: Endpoint) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = server.stop.cancelled() => break,
            Some(ended) = connections.join_next() => report(ended),
            incoming = endpoint.accept() => {
                let Some(incoming) = incoming else { break };
                let Ok(permit) = Arc::clone(&handshakes).try_acquire_owned() else {
                    incoming.refuse();
                    continue;
                };
                let server = Arc::clone(&server);
                connections.spawn(async move {
                    let Some(connection) = Box::pin(shake_hands(incoming)).await else { return };
                    drop(permit);
                    let stop = server.stop.clone();
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = serve_connection(server, connection) => {}
                    }
                });
            }
        }
    }
    connections.shutdown().await;
}

async fn shake_hands(incoming: Incoming) -> Option<Connection> {
    let accepting = incoming.accept().ok()?;
    time::timeout(HANDSHAKE_TIMEOUT, accepting).await.ok()?.ok()
}

/// Serves what a peer asks on one connection, until it is closed.
async fn serve_connection(server: Arc<Server>, connection: Connection) {
    let Ok(peer) = PeerId::of_endpoint(connection.remote_id()) else {
        connection.close(Refusal::Malformed.code(), b"key cannot be used");
        return;
    };
    let Some(_place) = server.quotas.connections.take(peer) else {
        connection.close(Refusal::Busy.code(), b"too many connections");
        return;
    };
    connection.set_receive_window(RECEIVE_WINDOW);
    let is_call = connection.alpn() == Protocol::Call.alpn();
    let quota = if is_call { &server.quotas.calls } else { &server.quotas.blobs };
    let mut streams = JoinSet::new();
    let mut idle = Box::pin(time::sleep(CONNECTION_IDLE_MAX));
    loop {
        tokio::select! {
            Some(ended) = streams.join_next() => {
                report(ended);
                idle.as_mut().reset(Instant::now() + CONNECTION_IDLE_MAX);
            }
            () = &mut idle, if streams.is_empty() => {
                connection.close(VarInt::from_u32(0), b"idle");
                break;
            }
            opened = connection.accept_bi() => {
                let Ok((send, receive)) = opened else { break };
                match quota.take(peer) {
                    None => refuse(send, receive, Refusal::Busy),
                    Some(place) => {
                        let server = Arc::clone(&server);
                        let stream = Stream { peer, send, receive, place };
                        if is_call {
                            streams.spawn(async move { serve_call(&server, stream).await });
                        } else {
                            streams.spawn(async move { serve_blob(&server, stream).await });
                        }
                    }
                }
            }
        }
    }
    streams.shutdown().await;
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a handler broke off");
    }
}

/// One request on its way.
struct Stream {
    peer: PeerId,
    send: SendStream,
    receive: RecvStream,
    place: Place,
}

fn refuse(mut send: SendStream, mut receive: RecvStream, reason: Refusal) {
    // Either may be closed already; then the other side has lost interest.
    let _is_closed = receive.stop(reason.code());
    let _is_closed = send.reset(reason.code());
}

async fn serve_call(server: &Server, stream: Stream) {
    let Stream { peer, send, mut receive, place: _place } = stream;
    // Without a handler the protocol is not offered.
    let Some(handler) = server.services.calls.clone() else { return };
    let mut answer = Answer::new(send);
    let read = time::timeout(REQUEST_TIMEOUT, read_request(&mut receive)).await;
    let request = match read.unwrap_or(Err(Refusal::TooSlow)) {
        Ok(request) => request,
        Err(reason) => {
            let _is_closed = receive.stop(reason.code());
            answer.refuse(reason);
            return;
        }
    };
    let (frames, queue) = mpsc::channel(REPLY_QUEUE);
    let work = handler.call(peer, request, ReplySender { frames });
    match write_answer(&mut answer, work, queue, server.silence).await {
        Ok(()) => answer.finish(),
        Err(reason) => answer.refuse(reason),
    }
}

/// The one frame of a request.
async fn read_request(receive: &mut RecvStream) -> Result<Vec<u8>, Refusal> {
    let refusal_of = |error| match error {
        FrameError::TooLarge { .. } => Refusal::TooLarge,
        FrameError::Truncated { .. } | FrameError::Io(_) => Refusal::Malformed,
    };
    let request = read_frame(receive).await.map_err(refusal_of)?.ok_or(Refusal::Malformed)?;
    match read_frame(receive).await {
        Ok(None) => Ok(request),
        Ok(Some(_)) | Err(_) => Err(Refusal::Malformed),
    }
}

/// Lets the handler work and writes what it says, until it is done, silent for too long, or the
/// other side has lost interest.
async fn write_answer(
    answer: &mut Answer,
    mut work: BoxFuture<'_, ()>,
    mut queue: mpsc::Receiver<Vec<u8>>,
    silence: Silence,
) -> Result<(), Refusal> {
    let mut stopped = Box::pin(answer.stream.stopped());
    let mut patience = Box::pin(time::sleep(silence.first));
    let (mut is_working, mut is_open) = (true, true);
    while is_working || is_open {
        tokio::select! {
            biased;
            _ = &mut stopped => return Err(Refusal::Failed),
            frame = queue.recv(), if is_open => match frame {
                Some(frame) => {
                    let write = write_frame(&mut answer.stream, &frame);
                    match time::timeout(WRITE_TIMEOUT, write).await {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) | Err(_) => return Err(Refusal::Failed),
                    }
                    patience.as_mut().reset(Instant::now() + silence.next);
                }
                None => is_open = false,
            },
            () = &mut work, if is_working => {
                is_working = false;
                queue.close(); // what is queued is still written
            }
            () = &mut patience => return Err(Refusal::TooSlow),
        }
    }
    Ok(())
}

/// The stream of an answer. Dropped without an end, as when a handler breaks off, it tells the
/// other side so: a dropped stream would look like one that ended well.
struct Answer {
    stream: SendStream,
    is_ended: bool,
}

impl Answer {
    const fn new(stream: SendStream) -> Self {
        Self { stream, is_ended: false }
    }

    fn finish(mut self) {
        self.is_ended = true;
        let _is_closed = self.stream.finish();
    }

    fn refuse(mut self, reason: Refusal) {
        self.is_ended = true;
        let _is_closed = self.stream.reset(reason.code());
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.is_ended {
            let _is_closed = self.stream.reset(Refusal::Failed.code());
        }
    }
}

async fn serve_blob(server: &Server, stream: Stream) {
    let Stream { peer, send, receive, place: _place } = stream;
    let Some(gate) = server.services.blobs.clone() else { return };
    let limits = blobs::ServeLimits { request: REQUEST_TIMEOUT, write: WRITE_TIMEOUT };
    blobs::serve(&server.store, gate.as_ref(), peer, (send, receive), limits).await;
}
