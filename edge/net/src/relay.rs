//! The relay a validator runs: it passes on packets between peers that have no direct way, and
//! tells them under which address the world sees them.
//!
//! It cannot read what it passes on. It knows who is connected, which is what attesting the
//! presence of providers needs, and lets in only whom it is told to.

mod certificate;
mod door;
mod info;
pub(crate) mod pins;

pub use certificate::CertificatePlace;
pub use door::RelayAllow;
pub use info::{RelayInfo, RelayUrl, RelayUrlError};

use crate::error::TransportError;
use crate::id::PeerId;
use certificate::Certificate;
use door::Door;
use futures::future::BoxFuture;
use iroh_relay::server::{self, CertConfig, ClientRateLimit, Server, ServerConfig, TlsConfig};
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tg_types::Address;
use tokio::time;

/// How often a port that is taken is tried again. A relay that was just stopped frees its port
/// within a second or two.
const BIND_ATTEMPTS_MAX: u32 = 20;

/// The pause before a port is tried again.
const BIND_PAUSE: Duration = Duration::from_millis(250);

/// How long a relay may take to stop before it is dropped.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// What a relay reads from one peer per second unless told otherwise: half a gigabit, so that one
/// peer alone does not fill an ordinary server's line.
const BYTES_PER_SECOND_MAX: NonZeroU32 = NonZeroU32::new(64 << 20).expect("not zero");

/// How a relay is set up.
#[derive(Clone, Debug)]
pub struct RelaySettings {
    /// Where it listens, by TCP (HTTPS) and by UDP (address discovery) on the same port. Port 0
    /// takes a free one.
    pub listen: SocketAddr,
    /// Where peers reach it, if not at `listen`. Both TCP and UDP must arrive there.
    pub public: Option<Address>,
    /// Where its certificate is kept.
    pub certificate: CertificatePlace,
    /// Whom it lets in.
    pub allow: RelayAllow,
    /// What it reads from one peer per second.
    pub bytes_per_second_max: NonZeroU32,
}

impl RelaySettings {
    /// A relay for everybody with a certificate of its own, kept in memory.
    #[must_use]
    pub const fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            public: None,
            certificate: CertificatePlace::Memory,
            allow: RelayAllow::Everybody,
            bytes_per_second_max: BYTES_PER_SECOND_MAX,
        }
    }
}

/// Why a relay does not start or stop.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// Peers cannot be told where it is.
    #[error("relay listens on all addresses of {listen}; name the one where peers reach it")]
    NoPublicAddress {
        /// Where it listens.
        listen: SocketAddr,
    },
    /// The public address is none that a URL can have.
    #[error("public address cannot be used")]
    Url(#[from] RelayUrlError),
    /// A file of the certificate cannot be used.
    #[error("cannot {verb} {path}")]
    File {
        /// What was tried.
        verb: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// No certificate can be made or used.
    #[error("certificate cannot be used")]
    Certificate(#[source] TransportError),
    /// The port cannot be used.
    #[error("cannot listen on {listen}, tried {attempts} times")]
    Listen {
        /// Where.
        listen: SocketAddr,
        /// How often.
        attempts: u32,
        /// Why not.
        #[source]
        source: TransportError,
    },
    /// It did not stop in time and was dropped.
    #[error("relay did not stop within {} s", .after.as_secs())]
    StopTimedOut {
        /// How long it had.
        after: Duration,
    },
}

/// What went through a relay since it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayTraffic {
    /// Bytes that peers sent.
    pub received_bytes: u64,
    /// Bytes that were passed on to peers.
    pub sent_bytes: u64,
}

/// A running relay. Dropping it stops it at once.
#[derive(Debug)]
pub struct Relay {
    server: Server,
    door: Arc<Door>,
    info: RelayInfo,
}

impl Relay {
    /// Starts a relay.
    #[must_use]
    pub fn start(settings: RelaySettings) -> BoxFuture<'static, Result<Self, RelayError>> {
        Box::pin(start(settings))
    }

    /// What peers have to know to use it.
    #[must_use]
    pub const fn info(&self) -> &RelayInfo {
        &self.info
    }

    /// Replaces the list of whom it lets in, and drops whoever is connected and not on it.
    pub fn set_allow(&self, allow: RelayAllow) {
        let Some(service) = self.server.relay_service() else { return };
        for peer in self.door.set_allow(allow) {
            service.clients().disconnect(peer.endpoint(), None);
        }
    }

    /// Who is connected, in ascending order.
    #[must_use]
    pub fn present(&self) -> Vec<PeerId> {
        self.door.present()
    }

    /// What went through it.
    #[must_use]
    pub fn traffic(&self) -> RelayTraffic {
        let counters = &self.server.metrics().server;
        RelayTraffic {
            received_bytes: counters.bytes_recv.get(),
            sent_bytes: counters.bytes_sent.get(),
        }
    }

    /// Stops it and waits for its tasks.
    #[must_use]
    pub fn stop(self) -> BoxFuture<'static, Result<(), RelayError>> {
        Box::pin(async move {
            match time::timeout(STOP_TIMEOUT, self.server.shutdown()).await {
                // How its tasks ended does not matter any more.
                Ok(Ok(()) | Err(_)) => Ok(()),
                Err(_) => Err(RelayError::StopTimedOut { after: STOP_TIMEOUT }),
            }
        })
    }
}

async fn start(settings: RelaySettings) -> Result<Relay, RelayError> {
    let RelaySettings { listen, public, certificate, allow, bytes_per_second_max } = settings;
    if public.is_none() && listen.ip().is_unspecified() {
        return Err(RelayError::NoPublicAddress { listen });
    }
    let host = public.as_ref().map_or_else(|| listen.ip().to_string(), info::host_of);
    let certificate = Certificate::load_or_make(&certificate, &host)?;
    let tls = certificate.server_config()?;
    let door = Arc::new(Door::new(allow));
    let rate = ClientRateLimit::new(bytes_per_second_max);
    let (server, bound) = listen_at(listen, &tls, &door, rate).await?;
    let address = match public {
        Some(address) => address,
        None => bound.to_string().parse().map_err(RelayUrlError::Address)?,
    };
    let info = RelayInfo { url: RelayUrl::new(address)?, certificate: certificate.hash() };
    Ok(Relay { server, door, info })
}

/// Binds and starts, again while the port is taken.
async fn listen_at(
    listen: SocketAddr,
    tls: &rustls::ServerConfig,
    door: &Arc<Door>,
    rate: ClientRateLimit,
) -> Result<(Server, SocketAddr), RelayError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let started = match free_port(listen) {
            Ok(bound) => {
                let config = config(bound, tls.clone(), Arc::clone(door), rate);
                let started = Server::spawn(config).await;
                started.map(|server| (server, bound)).map_err(TransportError::new)
            }
            Err(error) => Err(TransportError::new(error)),
        };
        match started {
            Ok(started) => return Ok(started),
            Err(error) if attempts < BIND_ATTEMPTS_MAX && is_address_taken(&error) => {
                tracing::debug!(%listen, attempts, "port is taken, waiting");
                time::sleep(BIND_PAUSE).await;
            }
            Err(source) => return Err(RelayError::Listen { listen, attempts, source }),
        }
    }
}

/// `listen` with a port that is free for TCP and UDP, if it leaves the port open.
fn free_port(listen: SocketAddr) -> io::Result<SocketAddr> {
    if listen.port() != 0 {
        return Ok(listen);
    }
    let bound = TcpListener::bind(listen)?.local_addr()?;
    UdpSocket::bind(bound)?;
    Ok(bound)
}

fn config(
    bound: SocketAddr,
    tls: rustls::ServerConfig,
    door: Arc<Door>,
    rate: ClientRateLimit,
) -> ServerConfig {
    // The library serves a page for captive portals by plain HTTP; nobody asks it here, so it is
    // kept inside the machine.
    let mut relay = server::RelayConfig::new((Ipv4Addr::LOCALHOST, 0));
    relay.tls = Some(TlsConfig::new(bound, CertConfig::Manual { server_config: tls }));
    relay.limits.client_rx = Some(rate);
    relay.access = door;
    let mut config = ServerConfig::default();
    config.relay = Some(relay);
    config.quic = Some(server::QuicConfig::new(bound));
    config
}

fn is_address_taken(error: &TransportError) -> bool {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>()
            && error.kind() == io::ErrorKind::AddrInUse
        {
            return true;
        }
        next = error.source();
    }
    false
}
