//! What goes wrong below this room, with its cause but without its type.

use std::io;
use std::sync::Arc;

/// A failure of the transport, a certificate or the blob store. It prints and has a source; its
/// type stays in this room.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct TransportError(Arc<Cause>);

impl TransportError {
    pub(crate) fn new(cause: impl Into<Cause>) -> Self {
        Self(Arc::new(cause.into()))
    }
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) enum Cause {
    Bind(#[from] iroh::endpoint::BindError),
    Address(#[from] iroh::endpoint::InvalidSocketAddr),
    Connect(#[from] iroh::endpoint::ConnectError),
    Connection(#[from] iroh::endpoint::ConnectionError),
    Get(#[from] iroh_blobs::get::GetError),
    Store(#[from] iroh_blobs::api::Error),
    Relay(#[from] iroh_relay::server::SpawnError),
    Certificate(#[from] rcgen::Error),
    Tls(#[from] rustls::Error),
    Io(#[from] io::Error),
}
