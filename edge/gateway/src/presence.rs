//! Who is there. Nodes say hello every moment; nothing of that goes on chain. A validator reports
//! the registered nodes it did not hear of in an epoch, and the ledger acts when a quorum did not.

use crate::door::{Door, DoorConfig, nodes};
use crate::report;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tg_net::{PeerId, RelayUrl};
use tg_types::tx::NodeSet;
use tg_types::{Action, NodeId};

/// The most peers that are remembered; the one heard of longest ago is forgotten first.
const PEERS_MAX: usize = 65_536;

/// How long a peer is found where it said that it is. Whoever wants to be found says so more often.
const FOUND_SPAN: Duration = Duration::from_secs(10);

/// The lane in which a validator reports.
const REPORT_LANE: u8 = 6;

/// When and where peers were heard of.
#[derive(Debug, Default)]
pub struct Seen {
    // A lock and not a channel: noted by every call, briefly.
    peers: Mutex<BTreeMap<PeerId, Place>>,
}

#[derive(Clone, Debug)]
struct Place {
    at: Instant,
    relay: Option<RelayUrl>,
}

impl Seen {
    /// A peer was heard of.
    pub(crate) fn note(&self, peer: PeerId) {
        self.update(peer, None);
    }

    /// A peer said where it is.
    pub(crate) fn place(&self, peer: PeerId, relay: RelayUrl) {
        self.update(peer, Some(relay));
    }

    fn update(&self, peer: PeerId, relay: Option<RelayUrl>) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let at = Instant::now();
        if let Some(place) = peers.get_mut(&peer) {
            place.at = at;
            place.relay = relay.or(place.relay.take());
            return;
        }
        if peers.len() >= PEERS_MAX {
            let oldest = peers.iter().min_by_key(|(_, place)| place.at).map(|(peer, _)| *peer);
            oldest.and_then(|peer| peers.remove(&peer));
        }
        peers.insert(peer, Place { at, relay });
    }

    /// Behind which relay a peer is that was heard of lately.
    #[must_use]
    pub fn whereabouts(&self, peer: &PeerId) -> Option<RelayUrl> {
        self.whereabouts_within(peer, FOUND_SPAN)
    }

    fn whereabouts_within(&self, peer: &PeerId, span: Duration) -> Option<RelayUrl> {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let place = peers.get(peer).filter(|place| place.at.elapsed() <= span)?;
        place.relay.clone()
    }

    /// Whether a peer was heard of within this time.
    #[must_use]
    pub fn within(&self, peer: &PeerId, span: Duration) -> bool {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(peer).is_some_and(|place| place.at.elapsed() <= span)
    }
}

/// Since when a validator has been looking. Whoever has just started, or did not run for a whole
/// epoch, has not seen anybody and can say nothing of who was there.
#[derive(Clone, Copy, Debug)]
struct Watch {
    since: Instant,
    looked: Instant,
}

impl Watch {
    const fn new(now: Instant) -> Self {
        Self { since: now, looked: now }
    }

    /// Looks again, and gives whether that was done during the whole of a last epoch.
    fn look(&mut self, now: Instant, epoch: Duration) -> bool {
        if now.duration_since(self.looked) > epoch {
            self.since = now;
        }
        self.looked = now;
        now.duration_since(self.since) >= epoch
    }
}

/// Reports absent nodes, once for every epoch, until the chain stops.
pub async fn report_absences(door: Door) {
    let DoorConfig { chain, key, .. } = &door.shared().config;
    let epoch_ms = chain.genesis().params().absence_epoch.get().max(1);
    let span = Duration::from_millis(epoch_ms);
    let (mut last, mut watch) = (None, Watch::new(Instant::now()));
    loop {
        tokio::time::sleep(span / 4).await;
        let is_watching = watch.look(Instant::now(), span);
        let Some((header, _)) = chain.tip() else { continue };
        let epoch = header.tick.get() / epoch_ms;
        if last == Some(epoch) || !is_watching {
            continue;
        }
        last = Some(epoch);
        let Ok(registered) = nodes(chain).await else { return };
        let absent = registered.into_iter().filter(|(node, entry)| {
            let is_old = header.tick.since(entry.since).is_ok_and(|age| age.get() >= 2 * epoch_ms);
            is_old && entry.absent.is_none() && !is_seen(&door, node, span)
        });
        let absent: Vec<NodeId> = absent.map(|(node, _)| node).take(NodeSet::COUNT_MAX).collect();
        let Ok(nodes) = NodeSet::new(absent) else { continue };
        let action = Action::ReportAbsent { epoch, nodes };
        if let Err(error) = report::send(chain, key, REPORT_LANE, action).await {
            tracing::warn!(%error, "a report of absent nodes was not sent");
        }
    }
}

fn is_seen(door: &Door, node: &NodeId, span: Duration) -> bool {
    PeerId::new(*node.as_bytes()).is_ok_and(|peer| door.seen().within(&peer, span))
}

#[cfg(test)]
mod tests {
    use super::{FOUND_SPAN, Seen, Watch};
    use std::time::{Duration, Instant};
    use tg_net::PeerId;
    use tg_types::SecretKey;

    #[test]
    fn validator_that_did_not_look_for_an_epoch_says_nothing_until_it_has_looked_for_one() {
        let (start, epoch) = (Instant::now(), Duration::from_millis(1_000));
        let mut watch = Watch::new(start);
        let mut check = |at_ms: u64, expected: bool| {
            let now = start + Duration::from_millis(at_ms);
            assert_eq!(watch.look(now, epoch), expected, "at {at_ms} ms");
        };
        for (at_ms, expected) in [(250, false), (999, false), (1_000, true), (1_900, true)] {
            check(at_ms, expected);
        }
        check(2_901, false); // it stood still
        check(3_800, false);
        check(3_901, true);
    }

    #[test]
    fn peer_is_found_where_it_said_it_is_while_it_is_heard_of() {
        let peer = PeerId::of(&SecretKey::from_seed([1; 32]));
        let relay: tg_net::RelayUrl = "https://127.0.0.1:1".parse().expect("an address");
        let seen = Seen::default();
        seen.note(peer);
        assert_eq!(seen.whereabouts(&peer), None, "it did not say where");
        seen.place(peer, relay.clone());
        seen.note(peer);
        assert_eq!(seen.whereabouts(&peer), Some(relay));
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(seen.whereabouts_within(&peer, Duration::from_millis(1)), None);
        assert!(seen.within(&peer, FOUND_SPAN));
    }
}
