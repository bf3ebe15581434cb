//! A machine in the network: its key, its way to the relays, what it asks and what it serves.

mod home;

use crate::blobs::{BlobError, BlobPlace, Blobs, Store};
use crate::call::{self, CallError, FrameStream, Patience};
use crate::dial::{self, Dialer, Route, RouteError, Routes};
use crate::error::TransportError;
use crate::id::PeerId;
use crate::link::{Link, Path};
use crate::relay::pins::{Pins, RELAYS_MAX};
use crate::relay::{RelayInfo, RelayUrl};
use crate::serve::{self, STREAMS_PER_CONNECTION_MAX, ServeError, Server, Services, Silence};
use futures::future::BoxFuture;
use iroh::dns::DnsResolver;
use iroh::endpoint::{NetReportConfig, PortmapperConfig, QuicTransportConfig, VarInt, presets};
use iroh::{Endpoint, RelayConfig, RelayMap, RelayMode, Watcher as _};
use iroh_relay::RelayQuicConfig;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tg_types::{Hash32, SecretKey};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{self, Instant};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// How long a handler may take for its first frame.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a handler may be silent between two frames.
const FOLLOW_SILENCE: Duration = Duration::from_secs(600);

/// How often the bytes of removed blobs are freed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// How long a relay may take to take a connection when the reason for being offline is looked for.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long each part of stopping may take: the tasks and the store.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How long others have to take note that their connections are closed. Those that live do so in
/// one round trip, which takes a third of this across the world; those that are dead never do.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What may be under way on one stream: 20 MB/s at a round trip of 100 ms.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;

/// What may be under way to us on one connection.
const RECEIVE_WINDOW_BYTES: u32 = 8 << 20;

/// What may be under way from us on one connection, and is kept until it is acknowledged.
const SEND_WINDOW_BYTES: u64 = 4 << 20;

/// How a peer is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Through relays only: no UDP socket is opened.
    RelayOnly,
    /// Directly where that is possible, on all addresses of the machine.
    Direct,
    /// Directly where that is possible, on this address only.
    DirectOn(SocketAddr),
}

/// How a peer is set up.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// How it is reached.
    pub reach: Reach,
    /// Where its blobs are kept.
    pub blobs: BlobPlace,
    /// How long a handler, here or there, may take for its first frame.
    pub call_timeout: Duration,
    /// How long a handler, here or there, may be silent between two frames.
    pub follow_silence: Duration,
    /// How often the bytes of removed blobs are freed.
    pub sweep_interval: Duration,
}

impl Default for PeerSettings {
    /// Reached directly where possible, blobs in memory.
    fn default() -> Self {
        Self {
            reach: Reach::Direct,
            blobs: BlobPlace::Memory,
            call_timeout: CALL_TIMEOUT,
            follow_silence: FOLLOW_SILENCE,
            sweep_interval: SWEEP_INTERVAL,
        }
    }
}

/// Why a peer cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// More relays than a peer knows.
    #[error("{found} relays, at most {max} are allowed")]
    TooManyRelays {
        /// How many are given.
        found: usize,
        /// The most.
        max: usize,
    },
    /// The blob store cannot be opened.
    #[error("blob store cannot be opened")]
    Blobs(#[source] BlobError),
    /// No socket can be opened.
    #[error("socket cannot be opened")]
    Socket(#[source] TransportError),
}

/// Why a peer is not online.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OnlineError {
    /// It has no relays.
    #[error("no relay is known")]
    NoRelay,
    /// The relay does not let it in, and will not unless its list changes.
    #[error("relay {relay} does not let this peer in: {reason}")]
    Denied {
        /// Which relay.
        relay: RelayUrl,
        /// What it says.
        reason: String,
    },
    /// The relay shows another certificate than the one it is known by.
    #[error("relay {relay} shows an unknown certificate, {found}")]
    Certificate {
        /// Which relay.
        relay: RelayUrl,
        /// The hash of the certificate it shows.
        found: Hash32,
    },
    /// The relay does not answer, or not as it should.
    #[error("relay {relay} cannot be used: {detail}")]
    Unreachable {
        /// Which relay.
        relay: RelayUrl,
        /// What the system or the transport says. It has no other form.
        detail: String,
    },
    /// Relays can be reached, but none has let the peer in.
    #[error("no relay has answered as it should within {} s", .after.as_secs())]
    TimedOut {
        /// How long they had.
        after: Duration,
    },
    /// We have stopped.
    #[error("this peer has stopped")]
    Stopped,
}

/// What did not stop in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// Tasks.
    #[error("{left} tasks did not stop within {} s", .after.as_secs())]
    Tasks {
        /// How many.
        left: usize,
        /// How long they had.
        after: Duration,
    },
    /// Connections.
    #[error("connections were not closed within {} s", .after.as_secs())]
    Connections {
        /// How long they had.
        after: Duration,
    },
    /// The blob store.
    #[error("blob store was not closed within {} s", .after.as_secs())]
    Store {
        /// How long it had.
        after: Duration,
    },
}

pub(crate) struct Shared {
    id: PeerId,
    endpoint: Endpoint,
    pins: Arc<Pins>,
    routes: Arc<Routes>,
    pub(crate) dialer: Dialer,
    pub(crate) store: Store,
    settings: PeerSettings,
    server: Arc<Server>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Shared {
    pub(crate) const fn is_direct(&self) -> bool {
        !matches!(self.settings.reach, Reach::RelayOnly)
    }

    const fn patience(&self) -> Patience {
        Patience { first: self.settings.call_timeout, next: self.settings.follow_silence }
    }
}

/// A machine in the network. Clones are the same peer; it stops when told to, or abruptly when
/// the last clone is dropped.
#[derive(Clone)]
pub struct Peer {
    pub(crate) shared: Arc<Shared>,
    _last: Arc<DropGuard>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Peer").field(&self.shared.id).finish()
    }
}

impl Peer {
    /// Opens a peer with this key that uses these relays.
    ///
    /// # Errors
    /// If there are too many relays, or socket or blob store cannot be opened.
    #[must_use]
    pub fn bind(
        secret: &SecretKey,
        relays: &[RelayInfo],
        settings: PeerSettings,
    ) -> BoxFuture<'static, Result<Self, BindError>> {
        let key = iroh::SecretKey::from_bytes(&secret.expose_seed());
        Box::pin(bind(PeerId::of(secret), key, relays.to_vec(), settings))
    }

    /// Who it is.
    #[must_use]
    pub fn id(&self) -> PeerId {
        self.shared.id
    }

    /// The addresses on which it listens; none if it is reached through relays only.
    #[must_use]
    pub fn bound(&self) -> Vec<SocketAddr> {
        self.shared.endpoint.bound_sockets()
    }

    /// Waits until it is connected to a relay.
    ///
    /// # Errors
    /// If it is not within this time, with the reason, which may take two seconds more to find. A
    /// relay that does not let the peer in ends the wait.
    #[must_use]
    pub fn online(&self, within: Duration) -> BoxFuture<'_, Result<(), OnlineError>> {
        Box::pin(online(&self.shared, within))
    }

    /// Adds a relay, or gives a known one a new certificate.
    ///
    /// # Errors
    /// If there are too many.
    #[must_use]
    pub fn add_relay(&self, relay: RelayInfo) -> BoxFuture<'_, Result<(), RouteError>> {
        Box::pin(async move {
            if !self.shared.pins.insert(&relay) {
                return Err(RouteError::TooManyRelays { max: RELAYS_MAX });
            }
            let config = Arc::new(relay_config(&relay.url));
            self.shared.endpoint.insert_relay(relay.url.transport(), config).await;
            Ok(())
        })
    }

    /// Says where a peer is, in place of what was known.
    ///
    /// # Errors
    /// If the relay is not known to this peer, or there are too many routes.
    pub fn add_route(&self, peer: PeerId, route: Route) -> Result<(), RouteError> {
        self.shared.routes.add(peer, route)
    }

    /// The way to a peer, if there is a connection.
    #[must_use]
    pub fn path(&self, to: PeerId) -> BoxFuture<'_, Option<Path>> {
        Box::pin(async move { self.shared.dialer.look(to).await.as_ref().and_then(Link::path) })
    }

    /// Asks a peer for one frame.
    ///
    /// # Errors
    /// If there is none, within the time for calls. Unless the error says so, the peer may have
    /// seen the request; it is never said twice.
    #[must_use]
    pub fn call(&self, to: PeerId, request: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, CallError>> {
        Box::pin(async move {
            tokio::select! {
                () = self.shared.stop.cancelled() => Err(CallError::Stopped),
                answer = call::call(&self.shared.dialer, to, &request, self.shared.patience())
                    => answer,
            }
        })
    }

    /// Asks a peer for one frame, with less patience than is usual.
    ///
    /// # Errors
    /// As for [`call`](Self::call), within this time. The next call is made on a connection of its
    /// own, if this one only looked open.
    #[must_use]
    pub fn call_within(
        &self,
        to: PeerId,
        request: Vec<u8>,
        within: Duration,
    ) -> BoxFuture<'_, Result<Vec<u8>, CallError>> {
        Box::pin(async move {
            tokio::select! {
                () = self.shared.stop.cancelled() => Err(CallError::Stopped),
                answer = call::call_within(&self.shared.dialer, to, &request, within) => answer,
            }
        })
    }

    /// Asks a peer for frames until it has no more.
    #[must_use]
    pub fn follow(&self, to: PeerId, request: Vec<u8>) -> FrameStream {
        let (frames, stream) = FrameStream::channel();
        let shared = Arc::clone(&self.shared);
        self.shared.tasks.spawn(async move {
            let patience = shared.patience();
            let last = frames.clone();
            let is_stopped = tokio::select! {
                () = shared.stop.cancelled() => true,
                () = call::follow(&shared.dialer, to, &request, patience, frames) => false,
            };
            if is_stopped {
                let _full_or_unread = last.try_send(Err(CallError::Stopped));
            }
        });
        stream
    }

    /// Begins to serve others.
    ///
    /// # Errors
    /// If it does already, or has stopped.
    pub fn serve(&self, services: Services) -> Result<(), ServeError> {
        self.shared.server.serve(services, &self.shared.endpoint)
    }

    /// Its blobs.
    #[must_use]
    pub fn blobs(&self) -> Blobs {
        Blobs::new(self.clone())
    }

    /// Stops everything, tells the other sides, and waits for all tasks. A second time does
    /// nothing.
    ///
    /// # Errors
    /// If a part did not stop in time; the others have.
    #[must_use]
    pub fn stop(&self) -> BoxFuture<'static, Result<(), StopError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let after = STOP_TIMEOUT;
            shared.stop.cancel();
            shared.tasks.close();
            let tasks = time::timeout(after, shared.tasks.wait()).await;
            let closed = time::timeout(CLOSE_TIMEOUT, shared.endpoint.close()).await;
            let stored = time::timeout(after, shared.store.close()).await;
            tasks.map_err(|_| StopError::Tasks { left: shared.tasks.len(), after })?;
            closed.map_err(|_| StopError::Connections { after: CLOSE_TIMEOUT })?;
            // A store that is closed already says so; that is as well.
            let _closed_already = stored.map_err(|_| StopError::Store { after })?;
            Ok(())
        })
    }
}

async fn bind(
    id: PeerId,
    key: iroh::SecretKey,
    relays: Vec<RelayInfo>,
    settings: PeerSettings,
) -> Result<Peer, BindError> {
    let pins = Arc::new(Pins::default());
    if !relays.iter().all(|relay| pins.insert(relay)) {
        return Err(BindError::TooManyRelays { found: relays.len(), max: RELAYS_MAX });
    }
    let store = Store::open(&settings.blobs, settings.sweep_interval).await;
    let store = store.map_err(BindError::Blobs)?;
    let endpoint = match open_endpoint(key, &relays, &pins, settings.reach).await {
        Ok(endpoint) => endpoint,
        Err(error) => {
            let _the_first_error_counts = store.close().await;
            return Err(BindError::Socket(error));
        }
    };
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    let routes = Arc::new(Routes::new(Arc::clone(&pins)));
    let (dialer, questions) = Dialer::channel();
    let (send_made, made) = mpsc::channel(dial::MADE_QUEUE);
    let dials =
        dial::run(questions, endpoint.clone(), Arc::clone(&routes), send_made, stop.clone());
    tasks.spawn(dials);
    let silence = Silence { first: settings.call_timeout, next: settings.follow_silence };
    let server = Server::new(silence, store.clone(), stop.clone());
    tasks.spawn(serve::run(Arc::clone(&server), endpoint.clone(), dialer.clone(), made));
    let last = Arc::new(stop.clone().drop_guard());
    let shared =
        Shared { id, endpoint, pins, routes, dialer, store, settings, server, stop, tasks };
    Ok(Peer { shared: Arc::new(shared), _last: last })
}

async fn open_endpoint(
    key: iroh::SecretKey,
    relays: &[RelayInfo],
    pins: &Arc<Pins>,
    reach: Reach,
) -> Result<Endpoint, TransportError> {
    let map: RelayMap = relays.iter().map(|relay| relay_config(&relay.url)).collect();
    let mut probes = NetReportConfig::default();
    probes.captive_portal_check = false; // asks a page that our relays do not show
    // `Minimal` brings the cryptography and nothing else: no foreign relays, no foreign lookup.
    let mut builder = Endpoint::builder(presets::Minimal)
        .secret_key(key)
        .relay_mode(RelayMode::Custom(map))
        .ca_tls_config(pins.tls_config())
        // Without the second half public resolvers are asked when the machine's own fail.
        .dns_resolver(DnsResolver::builder().with_system_defaults().disable_fallback().build())
        .portmapper_config(PortmapperConfig::Disabled)
        .net_report_config(probes)
        .transport_config(transport_config());
    builder = match reach {
        Reach::Direct => builder,
        Reach::RelayOnly => builder.clear_ip_transports(),
        Reach::DirectOn(address) => {
            builder.clear_ip_transports().bind_addr(address).map_err(TransportError::new)?
        }
    };
    Box::pin(builder.bind()).await.map_err(TransportError::new)
}

fn relay_config(url: &RelayUrl) -> RelayConfig {
    RelayConfig::new(url.transport(), Some(RelayQuicConfig::new(url.port())))
}

fn transport_config() -> QuicTransportConfig {
    QuicTransportConfig::builder()
        .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS_PER_CONNECTION_MAX))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW_BYTES))
        .send_window(SEND_WINDOW_BYTES)
        .build()
}

async fn online(shared: &Shared, within: Duration) -> Result<(), OnlineError> {
    if shared.stop.is_cancelled() {
        return Err(OnlineError::Stopped);
    }
    let until = Instant::now() + within;
    let mut watcher = shared.endpoint.home_relay_status();
    let mut relays = watcher.get();
    loop {
        if relays.iter().any(iroh::endpoint::RelayStatus::is_connected) {
            return Ok(());
        }
        let denied = relays.iter().find_map(|relay| Some((relay, relay.auth_denied_reason()?)));
        if let Some((relay, reason)) = denied {
            let relay = shared.pins.url(relay.url()).ok_or(OnlineError::NoRelay)?;
            return Err(OnlineError::Denied { relay, reason: reason.to_owned() });
        }
        tokio::select! {
            () = shared.stop.cancelled() => return Err(OnlineError::Stopped),
            () = time::sleep_until(until) => {
                return Err(reason_for_offline(shared, &relays, within).await);
            }
            updated = watcher.updated() => match updated {
                Ok(updated) => relays = updated,
                Err(_) => return Err(OnlineError::Stopped),
            },
        }
    }
}

async fn reason_for_offline(
    shared: &Shared,
    statuses: &[iroh::endpoint::RelayStatus],
    after: Duration,
) -> OnlineError {
    let Some(relay) = shared.pins.urls().into_iter().next() else {
        return OnlineError::NoRelay;
    };
    if let Some((relay, found)) = shared.pins.rejected() {
        return OnlineError::Certificate { relay, found };
    }
    let failed = statuses.iter().find_map(|relay| {
        let detail = format!("{:#}", relay.last_error()?);
        Some(OnlineError::Unreachable { relay: shared.pins.url(relay.url())?, detail })
    });
    if let Some(failed) = failed {
        return failed;
    }
    // Without a chosen relay the transport says nothing. One of them stands for all here.
    let connecting = TcpStream::connect(relay.address().as_str());
    match time::timeout(PROBE_TIMEOUT, connecting).await {
        Ok(Ok(_)) => OnlineError::TimedOut { after },
        Ok(Err(error)) => OnlineError::Unreachable { relay, detail: error.to_string() },
        Err(_) => {
            let error = io::Error::from(io::ErrorKind::TimedOut);
            OnlineError::Unreachable { relay, detail: error.to_string() }
        }
    }
}
