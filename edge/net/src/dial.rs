//! Outgoing connections: made when first needed, kept, and made again when lost.
//!
//! One task owns them all. Whoever needs one asks for it; those who ask for the same peer at the
//! same time share one attempt. After a failure the next attempt waits, longer each time up to a
//! bound, so that a peer that is gone costs little and is found soon after it is back.

use crate::error::TransportError;
use crate::id::PeerId;
use crate::relay::RelayUrl;
use crate::relay::pins::Pins;
use iroh::endpoint::Connection;
use iroh::{Endpoint, EndpointAddr};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{self, Instant};
use tokio_util::sync::CancellationToken;

/// How long an attempt may take. A handshake through a relay takes a few round trips.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after a first failure; it doubles with each further one.
const BACKOFF_START: Duration = Duration::from_millis(100);

/// The longest pause: how late a peer that is back is noticed.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Attempts at the same time. More wait for nothing but the same relays.
const DIALS_MAX: usize = 128;

/// Peers whose connections are kept. Beyond that the one used longest ago is given up.
const KEPT_MAX: usize = 1024;

/// A connection that nobody used for so long is given up.
const KEEP_UNUSED: Duration = Duration::from_secs(600);

/// How often unused connections are looked for.
const TIDY_INTERVAL: Duration = Duration::from_secs(60);

/// Callers that wait for one peer. As many as it would answer at once.
const WAITING_MAX: usize = 256;

/// Questions to the task that are not read yet.
const QUEUE: usize = 64;

/// The most peers with a known route: all providers of a large network, 100 bytes each.
const ROUTES_MAX: usize = 100_000;

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Call,
    Blob,
}

impl Protocol {
    /// The name by which peers agree on it.
    pub(crate) const fn alpn(self) -> &'static [u8] {
        match self {
            Self::Call => b"tensorgrid/call/1",
            Self::Blob => b"tensorgrid/blob/1",
        }
    }
}

/// Why there is no connection to a peer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DialError {
    /// Nobody said where it is.
    #[error("no route to the peer is known")]
    NoRoute,
    /// It did not answer.
    #[error("peer did not answer within {} s", .after.as_secs())]
    TimedOut {
        /// How long it had.
        after: Duration,
    },
    /// The attempt failed.
    #[error("cannot connect to the peer")]
    Failed(#[source] TransportError),
    /// Too many attempts are going on.
    #[error("too many connections are being made")]
    Busy,
    /// We have stopped.
    #[error("this peer has stopped")]
    Stopped,
}

/// Where a peer is: behind a relay, at an address, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    relay: Option<RelayUrl>,
    direct: Option<SocketAddr>,
}

impl Route {
    /// Through a relay. A direct way is looked for from there.
    #[must_use]
    pub const fn relayed(relay: RelayUrl) -> Self {
        Self { relay: Some(relay), direct: None }
    }

    /// At an address that can be reached, such as in the same local network.
    #[must_use]
    pub const fn direct(address: SocketAddr) -> Self {
        Self { relay: None, direct: Some(address) }
    }
}

/// Why a route is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The relay's certificate is not known, so it could be anybody.
    #[error("relay {relay} is not known to this peer")]
    UnknownRelay {
        /// The relay.
        relay: RelayUrl,
    },
    /// There are as many relays as a peer can know.
    #[error("more than {max} relays")]
    TooManyRelays {
        /// The most.
        max: usize,
    },
    /// There are as many routes as a peer can know.
    #[error("more than {max} routes")]
    TooManyRoutes {
        /// The most.
        max: usize,
    },
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

/// A connection and since when there is one.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) connection: Connection,
    pub(crate) made: Instant,
}

impl Link {
    pub(crate) fn path(&self) -> Option<Path> {
        let paths = self.connection.paths();
        let path = paths.iter().find(iroh::endpoint::Path::is_selected)?;
        let kind = if path.is_ip() { PathKind::Direct } else { PathKind::Relayed };
        Some(Path { kind, round_trip: path.rtt() })
    }

    fn is_open(&self) -> bool {
        self.connection.close_reason().is_none()
    }
}

/// Where peers are.
#[derive(Debug)]
pub(crate) struct Routes {
    pins: Arc<Pins>,
    // A lock and not a channel: written by callers and read by attempts, never across a wait.
    known: Mutex<BTreeMap<PeerId, Route>>,
}

impl Routes {
    pub(crate) fn new(pins: Arc<Pins>) -> Self {
        Self { pins, known: Mutex::default() }
    }

    /// Adds what is new about a peer: another relay or another address replaces the old one.
    pub(crate) fn add(&self, peer: PeerId, route: Route) -> Result<(), RouteError> {
        if let Some(relay) = route.relay.as_ref().filter(|relay| !self.pins.contains(relay)) {
            return Err(RouteError::UnknownRelay { relay: relay.clone() });
        }
        let mut known = self.lock();
        if known.len() >= ROUTES_MAX && !known.contains_key(&peer) {
            return Err(RouteError::TooManyRoutes { max: ROUTES_MAX });
        }
        let old = known.entry(peer).or_insert(Route { relay: None, direct: None });
        old.relay = route.relay.or(old.relay.take());
        old.direct = route.direct.or(old.direct.take());
        Ok(())
    }

    fn address(&self, peer: PeerId) -> Option<EndpointAddr> {
        let route = self.lock().get(&peer)?.clone();
        let mut address = EndpointAddr::new(peer.endpoint());
        if let Some(relay) = &route.relay {
            address = address.with_relay_url(relay.transport());
        }
        if let Some(direct) = route.direct {
            address = address.with_ip_addr(direct);
        }
        Some(address)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PeerId, Route>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Key = (PeerId, Protocol);
type Answer = oneshot::Sender<Result<Link, DialError>>;

enum Question {
    Connect { key: Key, answer: Answer },
    Look { key: Key, answer: oneshot::Sender<Option<Link>> },
    Forget { key: Key, link: Link },
}

/// Asks the task that owns the connections.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    questions: mpsc::Sender<Question>,
}

impl Dialer {
    /// The questions' two ends: the task is [`run`].
    pub(crate) fn channel() -> (Self, Questions) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        (Self { questions: sender }, Questions(receiver))
    }

    /// A connection to a peer, kept or new.
    pub(crate) async fn connect(
        &self,
        peer: PeerId,
        protocol: Protocol,
    ) -> Result<Link, DialError> {
        let (answer, answered) = oneshot::channel();
        let question = Question::Connect { key: (peer, protocol), answer };
        self.questions.send(question).await.map_err(|_| DialError::Stopped)?;
        answered.await.map_err(|_| DialError::Stopped)?
    }

    /// The connection to a peer if there is one.
    pub(crate) async fn look(&self, peer: PeerId, protocol: Protocol) -> Option<Link> {
        let (answer, answered) = oneshot::channel();
        let question = Question::Look { key: (peer, protocol), answer };
        self.questions.send(question).await.ok()?;
        answered.await.ok()?
    }

    /// Says that a connection is of no use any more, although it looks open.
    pub(crate) async fn forget(&self, peer: PeerId, protocol: Protocol, link: Link) {
        let question = Question::Forget { key: (peer, protocol), link };
        let _stopped_is_forgotten_too = self.questions.send(question).await;
    }
}

/// What the task reads.
pub(crate) struct Questions(mpsc::Receiver<Question>);

/// What is known of the connection to one peer.
struct Entry {
    link: Option<Link>,
    /// Whoever waits for the attempt that is going on; none if there is no attempt.
    waiting: Vec<Answer>,
    failures: u32,
    used: Instant,
}

struct Book {
    endpoint: Endpoint,
    routes: Arc<Routes>,
    entries: BTreeMap<Key, Entry>,
    dials: JoinSet<(Key, Result<Connection, DialError>)>,
}

/// The task that owns the connections. Ends when told to, or when nobody can ask any more.
pub(crate) async fn run(
    mut questions: Questions,
    endpoint: Endpoint,
    routes: Arc<Routes>,
    stop: CancellationToken,
) {
    let mut book = Book { endpoint, routes, entries: BTreeMap::new(), dials: JoinSet::new() };
    let mut tidy = time::interval(TIDY_INTERVAL);
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            question = questions.0.recv() => match question {
                Some(question) => book.answer(question),
                None => break,
            },
            Some(done) = book.dials.join_next() => match done {
                Ok((key, result)) => book.dialed(key, result),
                Err(error) => tracing::error!(%error, "an attempt to connect broke off"),
            },
            _ = tidy.tick() => book.tidy(),
        }
    }
    book.dials.shutdown().await;
}

impl Book {
    fn answer(&mut self, question: Question) {
        match question {
            Question::Connect { key, answer } => self.connect(key, answer),
            Question::Look { key, answer } => {
                let link = self.entries.get(&key).and_then(|entry| entry.link.clone());
                let _nobody_waits = answer.send(link.filter(Link::is_open));
            }
            Question::Forget { key, link } => {
                let forgotten = link.connection.stable_id();
                if let Some(entry) = self.entries.get_mut(&key)
                    && entry.link.as_ref().is_some_and(|l| l.connection.stable_id() == forgotten)
                {
                    entry.link = None;
                }
            }
        }
    }

    fn connect(&mut self, key: Key, answer: Answer) {
        if !self.entries.contains_key(&key) {
            self.make_room();
        }
        let entry = self.entries.entry(key).or_insert_with(|| Entry {
            link: None,
            waiting: Vec::new(),
            failures: 0,
            used: Instant::now(),
        });
        entry.used = Instant::now();
        entry.link = entry.link.take().filter(Link::is_open);
        if let Some(link) = &entry.link {
            let _nobody_waits = answer.send(Ok(link.clone()));
            return;
        }
        let is_dialing = !entry.waiting.is_empty();
        if entry.waiting.len() >= WAITING_MAX || (!is_dialing && self.dials.len() >= DIALS_MAX) {
            let _nobody_waits = answer.send(Err(DialError::Busy));
            return;
        }
        entry.waiting.push(answer);
        if !is_dialing {
            let pause = backoff(entry.failures);
            let (peer, protocol) = key;
            let dial = dial(self.endpoint.clone(), Arc::clone(&self.routes), peer, protocol);
            self.dials.spawn(async move {
                time::sleep(pause).await;
                (key, dial.await)
            });
        }
    }

    fn dialed(&mut self, key: Key, result: Result<Connection, DialError>) {
        // An entry with an attempt is never given up.
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let result = result.map(|connection| Link { connection, made: Instant::now() });
        match &result {
            Ok(link) => {
                entry.link = Some(link.clone());
                entry.failures = 0;
            }
            Err(error) => {
                tracing::debug!(peer = ?key.0, protocol = ?key.1, %error, "no connection");
                // Without a route nothing was tried, so nothing has to be waited for.
                let is_tried = !matches!(error, DialError::NoRoute);
                entry.failures = entry.failures.saturating_add(u32::from(is_tried));
            }
        }
        for answer in entry.waiting.drain(..) {
            let _nobody_waits = answer.send(result.clone());
        }
    }

    /// Gives up the entry used longest ago if there are as many as are kept.
    fn make_room(&mut self) {
        if self.entries.len() < KEPT_MAX {
            return;
        }
        let idle = self.entries.iter().filter(|(_, entry)| entry.waiting.is_empty());
        let oldest = idle.min_by_key(|(_, entry)| entry.used).map(|(key, _)| *key);
        if let Some(key) = oldest {
            self.entries.remove(&key);
        }
    }

    /// Gives up what is closed or unused. Whoever still holds a connection can use it to its end.
    fn tidy(&mut self) {
        self.entries
            .retain(|_, entry| !entry.waiting.is_empty() || entry.used.elapsed() < KEEP_UNUSED);
    }
}

async fn dial(
    endpoint: Endpoint,
    routes: Arc<Routes>,
    peer: PeerId,
    protocol: Protocol,
) -> Result<Connection, DialError> {
    let address = routes.address(peer).ok_or(DialError::NoRoute)?;
    let connecting = Box::pin(endpoint.connect(address, protocol.alpn()));
    match time::timeout(DIAL_TIMEOUT, connecting).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(DialError::Failed(TransportError::new(error))),
        Err(_) => Err(DialError::TimedOut { after: DIAL_TIMEOUT }),
    }
}

fn backoff(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => {
            let factor = 2_u32.saturating_pow(doublings);
            BACKOFF_START.saturating_mul(factor).min(BACKOFF_MAX)
        }
    }
}
