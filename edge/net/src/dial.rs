//! Which connection leads to a peer: made when first needed, kept, and made again when lost.
//!
//! One task owns them all. Whoever needs one asks for it; those who ask for the same peer at the
//! same time share one attempt. After a failure the next attempt waits, longer each time up to a
//! bound, so that a peer that is gone costs little and is found soon after it is back. A peer that
//! connects to us is asked on that connection.

use crate::error::TransportError;
use crate::id::PeerId;
use crate::link::{ALPN, Link};
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

/// Peers whose connections are kept: all that may connect to us and some more. Beyond that the one
/// used longest ago is given up.
const KEPT_MAX: usize = 8192;

/// A connection that nobody used for so long is given up.
const KEEP_UNUSED: Duration = Duration::from_secs(600);

/// How often unused connections are looked for.
const TIDY_INTERVAL: Duration = Duration::from_secs(60);

/// Callers that wait for one peer. As many as it would answer at once.
const WAITING_MAX: usize = 256;

/// Questions to the task that are not read yet.
const QUEUE: usize = 64;

/// Connections that were made and are not served yet.
pub(crate) const MADE_QUEUE: usize = 16;

/// The most peers with a known route: all providers of a large network, 100 bytes each.
const ROUTES_MAX: usize = 100_000;

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

type Answer = oneshot::Sender<Result<Link, DialError>>;

enum Question {
    Connect { peer: PeerId, answer: Answer },
    Look { peer: PeerId, answer: oneshot::Sender<Option<Link>> },
    Offer { peer: PeerId, link: Link },
    Forget { peer: PeerId, link: Link },
}

/// A connection that we have made, to be served as those are that others make.
pub(crate) struct Made {
    pub(crate) connection: Connection,
    /// Nobody asks on it any more.
    pub(crate) given_up: CancellationToken,
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
    pub(crate) async fn connect(&self, peer: PeerId) -> Result<Link, DialError> {
        let (answer, answered) = oneshot::channel();
        let question = Question::Connect { peer, answer };
        self.questions.send(question).await.map_err(|_| DialError::Stopped)?;
        answered.await.map_err(|_| DialError::Stopped)?
    }

    /// The connection to a peer if there is one.
    pub(crate) async fn look(&self, peer: PeerId) -> Option<Link> {
        let (answer, answered) = oneshot::channel();
        self.questions.send(Question::Look { peer, answer }).await.ok()?;
        answered.await.ok()?
    }

    /// Says that a peer has connected to us: from now on it is asked there.
    pub(crate) async fn offer(&self, peer: PeerId, link: Link) {
        let _stopped_needs_none = self.questions.send(Question::Offer { peer, link }).await;
    }

    /// Says that a connection is of no use any more, although it looks open.
    pub(crate) async fn forget(&self, peer: PeerId, link: Link) {
        let _stopped_is_forgotten_too = self.questions.send(Question::Forget { peer, link }).await;
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

impl Entry {
    fn new() -> Self {
        Self { link: None, waiting: Vec::new(), failures: 0, used: Instant::now() }
    }

    /// Has a connection, and tells whoever waits for one.
    fn has(&mut self, link: &Link) {
        self.link = Some(link.clone());
        self.failures = 0;
        self.used = Instant::now();
        for answer in self.waiting.drain(..) {
            let _nobody_waits = answer.send(Ok(link.clone()));
        }
    }
}

struct Book {
    endpoint: Endpoint,
    routes: Arc<Routes>,
    entries: BTreeMap<PeerId, Entry>,
    dials: JoinSet<(PeerId, Result<Link, DialError>)>,
    made: mpsc::Sender<Made>,
}

/// The task that owns the connections. Ends when told to, or when nobody can ask any more.
pub(crate) async fn run(
    mut questions: Questions,
    endpoint: Endpoint,
    routes: Arc<Routes>,
    made: mpsc::Sender<Made>,
    stop: CancellationToken,
) {
    let (entries, dials) = (BTreeMap::new(), JoinSet::new());
    let mut book = Book { endpoint, routes, entries, dials, made };
    let mut tidy = time::interval(TIDY_INTERVAL);
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            question = questions.0.recv() => match question {
                Some(question) => book.answer(question),
                None => break,
            },
            Some(done) = book.dials.join_next() => match done {
                Ok((peer, result)) => book.dialed(peer, result),
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
            Question::Connect { peer, answer } => self.connect(peer, answer),
            Question::Look { peer, answer } => {
                let link = self.entries.get(&peer).and_then(|entry| entry.link.clone());
                let _nobody_waits = answer.send(link.filter(Link::is_open));
            }
            Question::Offer { peer, link } => self.entry(peer).has(&link),
            Question::Forget { peer, link } => {
                if let Some(entry) = self.entries.get_mut(&peer)
                    && entry.link.as_ref().is_some_and(|kept| kept.is_same(&link))
                {
                    entry.link = None;
                }
            }
        }
    }

    fn entry(&mut self, peer: PeerId) -> &mut Entry {
        if !self.entries.contains_key(&peer) {
            self.make_room();
        }
        self.entries.entry(peer).or_insert_with(Entry::new)
    }

    fn connect(&mut self, peer: PeerId, answer: Answer) {
        let dials = self.dials.len();
        let entry = self.entry(peer);
        entry.used = Instant::now();
        entry.link = entry.link.take().filter(Link::is_open);
        if let Some(link) = &entry.link {
            let _nobody_waits = answer.send(Ok(link.clone()));
            return;
        }
        let is_dialing = !entry.waiting.is_empty();
        if entry.waiting.len() >= WAITING_MAX || (!is_dialing && dials >= DIALS_MAX) {
            let _nobody_waits = answer.send(Err(DialError::Busy));
            return;
        }
        entry.waiting.push(answer);
        let pause = backoff(entry.failures);
        if !is_dialing {
            let dial = dial(self.endpoint.clone(), Arc::clone(&self.routes), peer);
            let made = self.made.clone();
            self.dials.spawn(async move {
                time::sleep(pause).await;
                let connection = match dial.await {
                    Ok(connection) => connection,
                    Err(error) => return (peer, Err(error)),
                };
                let (link, given_up) = Link::new(connection.clone());
                let _stopping = made.send(Made { connection, given_up }).await;
                (peer, Ok(link))
            });
        }
    }

    fn dialed(&mut self, peer: PeerId, result: Result<Link, DialError>) {
        // An entry with an attempt is given up only if the peer has come to us meanwhile.
        let Some(entry) = self.entries.get_mut(&peer) else { return };
        match result {
            Ok(link) => entry.has(&link),
            Err(error) => {
                tracing::debug!(?peer, %error, "no connection");
                // Without a route nothing was tried, so nothing has to be waited for.
                let is_tried = !matches!(error, DialError::NoRoute);
                entry.failures = entry.failures.saturating_add(u32::from(is_tried));
                for answer in entry.waiting.drain(..) {
                    let _nobody_waits = answer.send(Err(error.clone()));
                }
            }
        }
    }

    /// Gives up the entry used longest ago if there are as many as are kept.
    fn make_room(&mut self) {
        if self.entries.len() < KEPT_MAX {
            return;
        }
        let idle = self.entries.iter().filter(|(_, entry)| entry.waiting.is_empty());
        let oldest = idle.min_by_key(|(_, entry)| entry.used).map(|(peer, _)| *peer);
        if let Some(peer) = oldest {
            self.entries.remove(&peer);
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
) -> Result<Connection, DialError> {
    let address = routes.address(peer).ok_or(DialError::NoRoute)?;
    let connecting = Box::pin(endpoint.connect(address, ALPN));
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
