//! The network between providers, clients and validators: calls, blobs and the relays in between.
//!
//! Home machines sit behind routers that let nobody in. Here every machine is a [`Peer`] named by
//! its public key; it keeps a connection to a relay, which validators run ([`Relay`]), and any two
//! peers reach each other through it until they find a direct way. What they say is encrypted from
//! end to end; a relay sees who talks to whom and how much, never what.
//!
//! This room is apart because the transport (iroh) takes minutes to compile and changes its types
//! with every release. No type of it leaves this room, and no public function is generic: futures
//! are boxed, streams are channels. Nothing here reaches an address that was not given: no foreign
//! relays, no foreign name servers, no port mapping.
//!
//! Invariants: a peer is whom its id says; a blob that was fetched has the bytes its id says; every
//! queue, frame, retry and wait has a bound; stopping joins every task.

mod blobs;
mod call;
mod dial;
mod error;
pub mod frame;
mod id;
mod link;
mod peer;
mod quota;
mod refusal;
mod relay;
mod serve;
mod ticket;

pub use blobs::{
    BLOB_IN_MEMORY_BYTES_MAX, BlobEntry, BlobError, BlobGate, BlobPlace, BlobReader, BlobTraffic,
    Blobs, Draft, FetchError, FetchOrder, FetchProgress, FetchReport, ROOM_LEFT_BYTES, Readers,
    SMALL_BYTES_MAX, SOURCES_MAX, ShareList, SourceError, SourceFailure, free_bytes,
};
pub use call::{CallError, FrameStream};
pub use dial::{DialError, Route, RouteError};
pub use error::TransportError;
pub use frame::FRAME_BYTES_MAX;
pub use id::{BlobId, PeerId};
pub use link::{Path, PathKind};
pub use peer::{BindError, OnlineError, Peer, PeerSettings, Reach, StopError};
pub use refusal::Refusal;
pub use relay::{
    CertificatePlace, Relay, RelayAllow, RelayError, RelayInfo, RelaySettings, RelayTraffic,
    RelayUrl, RelayUrlError,
};
pub use serve::{
    CALLS_MAX, CALLS_PER_PEER_MAX, CallHandler, ReplyError, ReplySender, ServeError, Services,
};
pub use ticket::{Ticket, TicketError, TicketParts, TicketValidator};
