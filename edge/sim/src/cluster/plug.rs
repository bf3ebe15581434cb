//! The ends of a node's network channels: the simulated network's, behind the weather, and split
//! in two for twins (two nodes that run with the same key).
//!
//! There is one type for all nodes, because each further one would compile the whole engine again.

use super::{
    lock,
    runtime::Skew,
    weather::{Fate, Weather},
};
use commonware_cryptography::ed25519;
use commonware_p2p::{LimitedSender, Message, Receiver, Recipients, simulated};
use commonware_runtime::{Spawner, deterministic};
use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroUsize,
    sync::{Arc, Mutex},
    time::SystemTime,
};
use tokio::sync::mpsc;

pub(crate) type Key = ed25519::PublicKey;
pub(crate) type NetSender = simulated::Sender<Key, deterministic::Context>;
pub(crate) type NetReceiver = simulated::Receiver<Key>;

/// A repeated message comes back after this many others.
const REPEAT_AFTER: usize = 3;

/// Messages waiting for one of two twins. More are lost, as on a busy link.
const TWIN_QUEUE_MAX: usize = 4_096;

/// Which of two twins a peer talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first only.
    First,
    /// The second only.
    Second,
    /// Both.
    Both,
}

impl Side {
    fn reaches(self, twin: Twin) -> bool {
        match self {
            Self::Both => true,
            Self::First => twin == Twin::First,
            Self::Second => twin == Twin::Second,
        }
    }
}

/// One of two twins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Twin {
    First,
    Second,
}

/// Which peers talk to which twin; who is not listed talks to the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sides(Arc<Mutex<BTreeMap<Key, Side>>>);

impl Sides {
    pub(crate) fn set(&self, peer: Key, side: Side) {
        lock(&self.0).insert(peer, side);
    }

    fn reaches(&self, peer: &Key, twin: Twin) -> bool {
        lock(&self.0).get(peer).copied().unwrap_or(Side::First).reaches(twin)
    }

    fn peers(&self, twin: Twin) -> Vec<Key> {
        let sides = lock(&self.0);
        sides.iter().filter(|(_, side)| side.reaches(twin)).map(|(key, _)| key.clone()).collect()
    }
}

/// The sending end of a channel.
#[derive(Clone, Debug)]
pub(crate) struct PlugSender {
    inner: NetSender,
    skew: Skew,
    twin: Option<(Twin, Sides)>,
}

impl PlugSender {
    pub(crate) fn new(inner: NetSender, skew: Skew, twin: Option<(Twin, Sides)>) -> Self {
        Self { inner, skew, twin }
    }

    fn narrow(&self, recipients: Recipients<Key>) -> Recipients<Key> {
        let Some((twin, sides)) = &self.twin else { return recipients };
        match recipients {
            Recipients::All => Recipients::Some(sides.peers(*twin)),
            Recipients::Some(peers) => Recipients::Some(
                peers.into_iter().filter(|peer| sides.reaches(peer, *twin)).collect(),
            ),
            Recipients::One(peer) if sides.reaches(&peer, *twin) => Recipients::One(peer),
            Recipients::One(_) => Recipients::Some(Vec::new()),
        }
    }
}

impl LimitedSender for PlugSender {
    type PublicKey = Key;
    type Checked<'a> = <NetSender as LimitedSender>::Checked<'a>;

    fn check(&mut self, recipients: Recipients<Key>) -> Result<Self::Checked<'_>, SystemTime> {
        let recipients = self.narrow(recipients);
        // The network's clock is right; the node compares the answer with its own.
        self.inner.check(recipients).map_err(|until| self.skew.show(until))
    }
}

/// Where a receiving end gets its messages from.
#[derive(Debug)]
enum Source {
    Network(NetReceiver),
    Twin { queue: mpsc::Receiver<Message<Key>>, capacity: NonZeroUsize },
}

/// The receiving end of a channel.
#[derive(Debug)]
pub(crate) struct PlugReceiver {
    source: Source,
    weather: Weather,
    place: usize,
    /// Messages that come a second time, with how many others have to come before.
    repeats: VecDeque<(usize, Message<Key>)>,
}

impl PlugReceiver {
    pub(crate) fn new(source: NetReceiver, weather: Weather, place: usize) -> Self {
        Self { source: Source::Network(source), weather, place, repeats: VecDeque::new() }
    }

    fn due_repeat(&mut self) -> Option<Message<Key>> {
        match self.repeats.front() {
            Some((0, _)) => self.repeats.pop_front().map(|(_, message)| message),
            _ => None,
        }
    }
}

impl Receiver for PlugReceiver {
    type Error = simulated::Error;
    type PublicKey = Key;

    async fn recv(&mut self) -> Result<Message<Key>, simulated::Error> {
        // Nothing is held across the wait, so a caller may drop this future at any time.
        if let Some(message) = self.due_repeat() {
            return Ok(message);
        }
        loop {
            let message = match &mut self.source {
                Source::Network(receiver) => receiver.recv().await?,
                Source::Twin { queue, .. } => {
                    queue.recv().await.ok_or(simulated::Error::NetworkClosed)?
                }
            };
            let fate = self.weather.fate(&message.0, self.place);
            if fate == Fate::Lost {
                continue;
            }
            for (others, _) in &mut self.repeats {
                *others = others.saturating_sub(1);
            }
            if fate == Fate::ArrivesTwice {
                self.repeats.push_back((REPEAT_AFTER, message.clone()));
            }
            return Ok(message);
        }
    }

    fn capacity(&self) -> NonZeroUsize {
        match &self.source {
            Source::Network(receiver) => receiver.capacity(),
            Source::Twin { capacity, .. } => *capacity,
        }
    }
}

/// Splits a receiving end between two twins: every message goes to those its sender talks to.
pub(crate) fn split(
    context: deterministic::Context,
    mut source: NetReceiver,
    sides: Sides,
    weather: &Weather,
    place: usize,
) -> (PlugReceiver, PlugReceiver) {
    let capacity = source.capacity();
    let (to_first, first) = mpsc::channel(TWIN_QUEUE_MAX);
    let (to_second, second) = mpsc::channel(TWIN_QUEUE_MAX);
    context.spawn(move |_| async move {
        while let Ok(message) = source.recv().await {
            if sides.reaches(&message.0, Twin::First) {
                let _full_or_gone = to_first.try_send(message.clone());
            }
            if sides.reaches(&message.0, Twin::Second) {
                let _full_or_gone = to_second.try_send(message);
            }
        }
    });
    let end = |queue| PlugReceiver {
        source: Source::Twin { queue, capacity },
        weather: weather.clone(),
        place,
        repeats: VecDeque::new(),
    };
    (end(first), end(second))
}
