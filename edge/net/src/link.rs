//! Connections: one between two peers, whoever made it, and both ask and answer on it.
//!
//! That a peer can be asked on the connection it has made itself spares a second handshake, and
//! more: a peer that was killed and started again is reached at once. Whoever dials it would send
//! to the address of the dead process until the transport has missed that, half a minute later;
//! but it comes to us as soon as it is back, and the newest connection is the one that is used.

use crate::refusal::Refusal;
use iroh::endpoint::{Connection, ConnectionError, RecvStream, SendStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The name by which peers agree on what is spoken.
pub(crate) const ALPN: &[u8] = b"tensorgrid/2";

/// What is asked on a stream: its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    Call,
    Blob,
}

impl Topic {
    const fn byte(self) -> u8 {
        match self {
            Self::Call => 1,
            Self::Blob => 2,
        }
    }

    /// Reads the first byte of a stream.
    pub(crate) async fn read(stream: &mut RecvStream) -> Result<Self, Refusal> {
        let mut byte = [0];
        stream.read_exact(&mut byte).await.map_err(|_| Refusal::Malformed)?;
        let known = [Self::Call, Self::Blob].into_iter().find(|topic| [topic.byte()] == byte);
        known.ok_or(Refusal::Malformed)
    }
}

/// How a peer is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// From address to address.
    Direct,
    /// Through a relay.
    Relayed,
}

/// The way a connection takes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// How.
    pub kind: PathKind,
    /// There and back again.
    pub round_trip: Duration,
}

/// A connection on which we may ask, and since when there is one.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) connection: Connection,
    pub(crate) made: Instant,
    /// Tells when the last of these is gone.
    _held: Arc<DropGuard>,
}

impl Link {
    /// The link, and what tells that nobody holds it any more.
    pub(crate) fn new(connection: Connection) -> (Self, CancellationToken) {
        let given_up = CancellationToken::new();
        let held = Arc::new(given_up.clone().drop_guard());
        (Self { connection, made: Instant::now(), _held: held }, given_up)
    }

    /// Opens a stream and says what it is about.
    pub(crate) async fn open(
        &self,
        topic: Topic,
    ) -> Result<(SendStream, RecvStream), ConnectionError> {
        let (mut send, receive) = self.connection.open_bi().await?;
        // A stream that just began can only fail with its connection, which the next write tells.
        let _next_write_tells = send.write_all(&[topic.byte()]).await;
        Ok((send, receive))
    }

    pub(crate) fn path(&self) -> Option<Path> {
        let paths = self.connection.paths();
        let path = paths.iter().find(iroh::endpoint::Path::is_selected)?;
        let kind = if path.is_ip() { PathKind::Direct } else { PathKind::Relayed };
        Some(Path { kind, round_trip: path.rtt() })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.connection.close_reason().is_none()
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.connection.stable_id() == other.connection.stable_id()
    }
}
