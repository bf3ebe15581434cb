//! The asking side of calls: one stream per call, one frame out, frames back.

use crate::dial::{DialError, Dialer};
use crate::error::TransportError;
use crate::frame::{FRAME_BYTES_MAX, FrameError, read_frame, write_frame};
use crate::id::PeerId;
use crate::link::{Link, Topic};
use crate::refusal::Refusal;
use iroh::endpoint::{ConnectionError, ReadError, RecvStream, SendStream, WriteError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time;

/// What the asking side waits beyond the answering side's bound, so that the answer "too slow"
/// arrives before it is missed.
const GRACE: Duration = Duration::from_secs(5);

/// Frames of an answer that are not read yet.
const FRAMES_QUEUE: usize = 8;

/// Tries to open a stream. The second is for a kept connection that was lost unnoticed; as nothing
/// was said on it, nothing is said twice.
const OPEN_ATTEMPTS: usize = 2;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The request has more bytes than a frame.
    #[error("request of {found} bytes, at most {max} are allowed")]
    TooLarge {
        /// How many it has.
        found: usize,
        /// The most.
        max: usize,
    },
    /// The peer cannot be reached. It has not seen the request.
    #[error("peer {peer} cannot be reached")]
    Unreachable {
        /// Who.
        peer: PeerId,
        /// Why not.
        #[source]
        source: DialError,
    },
    /// The connection was lost. The peer may have seen the request.
    #[error("connection to peer {peer} was lost")]
    Lost {
        /// Who.
        peer: PeerId,
        /// Why.
        #[source]
        source: TransportError,
    },
    /// No answer in time. The peer may have seen the request.
    #[error("peer {peer} gave no answer within {} s", .after.as_secs())]
    TimedOut {
        /// Who.
        peer: PeerId,
        /// How long it had.
        after: Duration,
    },
    /// The peer ended the call.
    #[error("peer {peer} refused: {reason}")]
    Refused {
        /// Who.
        peer: PeerId,
        /// Why.
        reason: Refusal,
    },
    /// The answer is not made of frames.
    #[error("answer of peer {peer} is malformed")]
    Malformed {
        /// Who.
        peer: PeerId,
        /// What is wrong.
        #[source]
        source: FrameError,
    },
    /// The answer does not have the one frame that was asked for.
    #[error("peer {peer} answered with {found} frames, expected one")]
    NotOneFrame {
        /// Who.
        peer: PeerId,
        /// None, or two that were read.
        found: usize,
    },
    /// We have stopped.
    #[error("this peer has stopped")]
    Stopped,
}

/// An answer that goes on: events, logs. Dropping it tells the other side to end.
#[derive(Debug)]
pub struct FrameStream {
    frames: mpsc::Receiver<Result<Vec<u8>, CallError>>,
}

impl FrameStream {
    /// The next frame, an error as the last item, or `None` where the answer ended well. Giving up
    /// waiting loses nothing.
    pub async fn next(&mut self) -> Option<Result<Vec<u8>, CallError>> {
        self.frames.recv().await
    }

    pub(crate) fn channel() -> (mpsc::Sender<Result<Vec<u8>, CallError>>, Self) {
        let (sender, frames) = mpsc::channel(FRAMES_QUEUE);
        (sender, Self { frames })
    }
}

/// How long to wait for the first frame and for each further one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) first: Duration,
    pub(crate) next: Duration,
}

/// Asks for one frame.
pub(crate) async fn call(
    dialer: &Dialer,
    peer: PeerId,
    request: &[u8],
    patience: Patience,
) -> Result<Vec<u8>, CallError> {
    call_within(dialer, peer, request, patience.first + GRACE).await
}

/// Asks for one frame that must be here after so long.
pub(crate) async fn call_within(
    dialer: &Dialer,
    peer: PeerId,
    request: &[u8],
    after: Duration,
) -> Result<Vec<u8>, CallError> {
    check_size(request)?;
    let mut used = None;
    let asking = Box::pin(async {
        let (link, mut answer) = ask(dialer, peer, request).await?;
        used = Some(link);
        let first = next(&mut answer, peer).await?;
        let content = first.ok_or(CallError::NotOneFrame { peer, found: 0 })?;
        match next(&mut answer, peer).await? {
            None => Ok(content),
            Some(_) => Err(CallError::NotOneFrame { peer, found: 2 }),
        }
    });
    if let Ok(asked) = time::timeout(after, asking).await {
        return asked;
    }
    // A peer that has started anew does not know the old connection; the next call makes one.
    if let Some(link) = used {
        dialer.forget(peer, link).await;
    }
    Err(CallError::TimedOut { peer, after })
}

/// Asks, and sends every frame of the answer on until it ends or nobody reads it any more.
pub(crate) async fn follow(
    dialer: &Dialer,
    peer: PeerId,
    request: &[u8],
    patience: Patience,
    frames: mpsc::Sender<Result<Vec<u8>, CallError>>,
) {
    let pumped = tokio::select! {
        () = frames.closed() => return,
        pumped = Box::pin(pump(dialer, peer, request, patience, &frames)) => pumped,
    };
    if let Err(error) = pumped {
        let _nobody_reads = frames.send(Err(error)).await;
    }
}

async fn pump(
    dialer: &Dialer,
    peer: PeerId,
    request: &[u8],
    patience: Patience,
    frames: &mpsc::Sender<Result<Vec<u8>, CallError>>,
) -> Result<(), CallError> {
    check_size(request)?;
    let mut after = patience.first + GRACE;
    let asked = time::timeout(after, ask(dialer, peer, request)).await;
    let (link, mut answer) = asked.map_err(|_| CallError::TimedOut { peer, after })??;
    loop {
        let Ok(frame) = time::timeout(after, next(&mut answer, peer)).await else {
            dialer.forget(peer, link).await;
            return Err(CallError::TimedOut { peer, after });
        };
        let Some(frame) = frame? else { return Ok(()) };
        if frames.send(Ok(frame)).await.is_err() {
            return Ok(()); // nobody reads any more
        }
        after = patience.next + GRACE;
    }
}

fn check_size(request: &[u8]) -> Result<(), CallError> {
    if request.len() > FRAME_BYTES_MAX {
        return Err(CallError::TooLarge { found: request.len(), max: FRAME_BYTES_MAX });
    }
    Ok(())
}

/// Opens a stream and says the request on it.
async fn ask(
    dialer: &Dialer,
    peer: PeerId,
    request: &[u8],
) -> Result<(Link, RecvStream), CallError> {
    let (link, mut send, receive) = open(dialer, peer).await?;
    write_frame(&mut send, request).await.map_err(|error| of_frame(peer, error))?;
    // It can only be closed already if the peer does not want to read it, and then it says why.
    let _peer_says_why = send.finish();
    Ok((link, receive))
}

async fn open(dialer: &Dialer, peer: PeerId) -> Result<(Link, SendStream, RecvStream), CallError> {
    let mut attempt = 1;
    loop {
        let link = dialer.connect(peer).await;
        let link = link.map_err(|source| match source {
            DialError::Stopped => CallError::Stopped,
            DialError::NoRoute
            | DialError::TimedOut { .. }
            | DialError::Failed(_)
            | DialError::Busy => CallError::Unreachable { peer, source },
        })?;
        match link.open(Topic::Call).await {
            Ok((send, receive)) => return Ok((link, send, receive)),
            Err(_) if attempt < OPEN_ATTEMPTS => {
                attempt += 1;
                dialer.forget(peer, link).await;
            }
            Err(error) => return Err(of_connection(peer, error)),
        }
    }
}

async fn next(answer: &mut RecvStream, peer: PeerId) -> Result<Option<Vec<u8>>, CallError> {
    read_frame(answer).await.map_err(|error| of_frame(peer, error))
}

fn of_frame(peer: PeerId, error: FrameError) -> CallError {
    let error = match error {
        FrameError::Io(error) => error,
        source @ (FrameError::TooLarge { .. } | FrameError::Truncated { .. }) => {
            return CallError::Malformed { peer, source };
        }
    };
    let inner = error.get_ref();
    if let Some(read) = inner.and_then(|inner| inner.downcast_ref::<ReadError>()) {
        match read {
            ReadError::Reset(code) => {
                return CallError::Refused { peer, reason: Refusal::of(*code) };
            }
            ReadError::ConnectionLost(lost) => return of_connection(peer, lost.clone()),
            ReadError::ClosedStream | ReadError::ZeroRttRejected => {}
        }
    } else if let Some(write) = inner.and_then(|inner| inner.downcast_ref::<WriteError>()) {
        match write {
            WriteError::Stopped(code) => {
                return CallError::Refused { peer, reason: Refusal::of(*code) };
            }
            WriteError::ConnectionLost(lost) => return of_connection(peer, lost.clone()),
            WriteError::ClosedStream | WriteError::ZeroRttRejected => {}
        }
    }
    CallError::Lost { peer, source: TransportError::new(error) }
}

fn of_connection(peer: PeerId, error: ConnectionError) -> CallError {
    if let ConnectionError::ApplicationClosed(close) = &error {
        let reason = Refusal::of(close.error_code);
        if !matches!(reason, Refusal::Other(_)) {
            return CallError::Refused { peer, reason };
        }
    }
    if matches!(error, ConnectionError::LocallyClosed) {
        return CallError::Stopped;
    }
    CallError::Lost { peer, source: TransportError::new(error) }
}
