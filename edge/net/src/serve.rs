//! The answering side: connections are let in within bounds, calls are handed to a handler and
//! cut when they take too long, blobs are given to whom the gate lets.

use crate::blobs::{self, BlobGate, Store};
use crate::dial::{Dialer, Made};
use crate::frame::{FRAME_BYTES_MAX, FrameError, read_frame, write_frame};
use crate::id::PeerId;
use crate::link::{ALPN, Link, Topic};
use crate::quota::Quota;
use crate::refusal::Refusal;
use futures::future::BoxFuture;
use iroh::Endpoint;
use iroh::endpoint::{Connection, Incoming, RecvStream, SendStream, VarInt};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{self, Instant};
use tokio_util::sync::CancellationToken;

/// Calls answered at once. Each holds at most a request and [`REPLY_QUEUE`] frames of up to 2 MiB;
/// nearly all have kilobytes, a result that is shown by a hiding proof has 1.4 MB and more.
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

/// Connections at once that others have made. A validator has one with every provider it serves.
const CONNECTIONS_MAX: usize = 4096;

/// Connections at once that one peer has made: one, and those it has lost but we have not missed. A
/// process that dies every second leaves thirty.
const CONNECTIONS_PER_PEER_MAX: usize = 32;

/// Handshakes at once. Nobody has proved anything yet, so these are few.
const HANDSHAKES_MAX: usize = 256;

/// A connection on which we have nothing to ask, and the other side has not asked for so long, is
/// closed, so that those who only hold their places lose them. Longer than the asking side keeps
/// one unused, so that none is closed while a question is on its way.
const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(900);

/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a request may take to arrive, once its stream is open.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the other side may leave a frame unread before it counts as gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Frames of an answer that are not written yet.
const REPLY_QUEUE: usize = 4;

/// What a peer that asks may send us before we have read it. Most requests are small. The largest,
/// which show a result, are a little longer, and go on coming while they are read.
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
    /// Answers calls; without it, all are refused.
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

/// What all connections of a peer share.
pub(crate) struct Server {
    /// Set once, by whoever serves.
    services: OnceLock<Services>,
    silence: Silence,
    store: Store,
    stop: CancellationToken,
    quotas: Quotas,
}

struct Quotas {
    connections: Arc<Quota>,
    calls: Arc<Quota>,
    blobs: Arc<Quota>,
}

impl Server {
    pub(crate) fn new(silence: Silence, store: Store, stop: CancellationToken) -> Arc<Self> {
        let quotas = Quotas {
            connections: Quota::new(CONNECTIONS_MAX, CONNECTIONS_PER_PEER_MAX),
            calls: Quota::new(CALLS_MAX, CALLS_PER_PEER_MAX),
            blobs: Quota::new(BLOB_READS_MAX, BLOB_READS_PER_PEER_MAX),
        };
        Arc::new(Self { services: OnceLock::new(), silence, store, stop, quotas })
    }

    /// Begins to answer, and to let others connect.
    pub(crate) fn serve(&self, services: Services, endpoint: &Endpoint) -> Result<(), ServeError> {
        if self.stop.is_cancelled() {
            return Err(ServeError::Stopped);
        }
        self.services.set(services).map_err(|_| ServeError::Already)?;
        endpoint.set_alpns(vec![ALPN.to_vec()]);
        Ok(())
    }
}

/// Serves the connections that others make and those that we have made, until told to stop, and
/// waits for all of them.
pub(crate) async fn run(
    server: Arc<Server>,
    endpoint: Endpoint,
    dialer: Dialer,
    mut made: mpsc::Receiver<Made>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    let mut connections = JoinSet::new();
    loop {
        let server = Arc::clone(&server);
        tokio::select! {
            () = server.stop.cancelled() => break,
            Some(ended) = connections.join_next() => report(ended),
            Some(Made { connection, given_up }) = made.recv() => {
                connections.spawn(async move { answer(&server, connection, given_up).await });
            }
            incoming = endpoint.accept() => {
                let Some(incoming) = incoming else { break };
                let Ok(permit) = Arc::clone(&handshakes).try_acquire_owned() else {
                    incoming.refuse();
                    continue;
                };
                let dialer = dialer.clone();
                connections.spawn(async move {
                    let Some(connection) = Box::pin(shake_hands(incoming)).await else { return };
                    drop(permit);
                    let_in(&server, &dialer, connection).await;
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

/// Serves a connection that another peer has made, and asks there what we want of that peer.
async fn let_in(server: &Arc<Server>, dialer: &Dialer, connection: Connection) {
    let Ok(peer) = PeerId::of_endpoint(connection.remote_id()) else {
        connection.close(Refusal::Malformed.code(), b"key cannot be used");
        return;
    };
    let Some(_place) = server.quotas.connections.take(peer) else {
        connection.close(Refusal::Busy.code(), b"too many connections");
        return;
    };
    connection.set_receive_window(RECEIVE_WINDOW);
    let (link, given_up) = Link::new(connection.clone());
    dialer.offer(peer, link).await;
    answer(server, connection, given_up).await;
}

/// Answers what a peer asks on one connection, until it is closed or of no use to either side.
async fn answer(server: &Arc<Server>, connection: Connection, given_up: CancellationToken) {
    let Ok(peer) = PeerId::of_endpoint(connection.remote_id()) else { return };
    let mut streams = JoinSet::new();
    let mut idle = Box::pin(time::sleep(CONNECTION_IDLE_MAX));
    loop {
        let is_unused = streams.is_empty();
        let useless = async {
            given_up.cancelled().await;
            idle.as_mut().await;
        };
        tokio::select! {
            () = server.stop.cancelled() => break,
            Some(ended) = streams.join_next() => report(ended),
            () = useless, if is_unused => {
                connection.close(VarInt::from_u32(0), b"idle");
                break;
            }
            opened = connection.accept_bi() => {
                let Ok((send, receive)) = opened else { break };
                let server = Arc::clone(server);
                let stream = Stream { peer, send, receive };
                streams.spawn(async move { serve_stream(&server, stream).await });
            }
        }
        idle.as_mut().reset(Instant::now() + CONNECTION_IDLE_MAX);
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
}

/// Answers one request if we serve what it is about and have a place for it.
async fn serve_stream(server: &Server, mut stream: Stream) {
    let topic = time::timeout(REQUEST_TIMEOUT, Topic::read(&mut stream.receive)).await;
    let services = server.services.get().cloned().unwrap_or_default();
    let refusal = match topic.unwrap_or(Err(Refusal::TooSlow)) {
        Ok(Topic::Call) => match (services.calls, server.quotas.calls.take(stream.peer)) {
            (Some(calls), Some(_place)) => {
                return serve_call(calls.as_ref(), server.silence, stream).await;
            }
            (Some(_), None) => Refusal::Busy,
            (None, _) => Refusal::Forbidden,
        },
        Ok(Topic::Blob) => match (services.blobs, server.quotas.blobs.take(stream.peer)) {
            (Some(gate), Some(_place)) => {
                return serve_blob(gate.as_ref(), &server.store, stream).await;
            }
            (Some(_), None) => Refusal::Busy,
            (None, _) => Refusal::Forbidden,
        },
        Err(refusal) => refusal,
    };
    refuse(stream.send, stream.receive, refusal);
}

fn refuse(mut send: SendStream, mut receive: RecvStream, reason: Refusal) {
    // Either may be closed already; then the other side has lost interest.
    let _is_closed = receive.stop(reason.code());
    let _is_closed = send.reset(reason.code());
}

async fn serve_call(handler: &dyn CallHandler, silence: Silence, stream: Stream) {
    let Stream { peer, send, mut receive } = stream;
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
    match write_answer(&mut answer, work, queue, silence).await {
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

async fn serve_blob(gate: &dyn BlobGate, store: &Store, stream: Stream) {
    let Stream { peer, send, receive } = stream;
    let limits = blobs::ServeLimits { request: REQUEST_TIMEOUT, write: WRITE_TIMEOUT };
    blobs::serve(store, gate, peer, (send, receive), limits).await;
}
