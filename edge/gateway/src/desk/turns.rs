//! Whose turn it is to have the chain looked at. Anybody may ask for a key, and to answer takes a
//! question to every validator. So that strangers, who cost nothing to make, cannot keep a chosen
//! node from its key, registered nodes wait in a line of their own, in which everybody has a few
//! places; whoever is not registered has what little is set apart, or comes again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tg_net::PeerId;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Questions of one peer that are answered or wait: a node asks for the keys of several jobs.
const PER_PEER_MAX: usize = 4;

/// Questions of registered nodes for which the chain is looked at at once; others wait for their
/// turn, as they came.
const NODES_AT_ONCE: usize = 64;

/// The same of peers that do not seem to be registered. A validator may be behind or not tell, so
/// they are not refused outright; and they do not wait.
const STRANGERS_AT_ONCE: usize = 8;

/// How often the list of nodes is asked for, whoever wants to be in it.
const LIST_EVERY: Duration = Duration::from_secs(2);

/// Who is being answered, and who waits.
pub(super) struct Turns {
    // A lock: looked at by every call, briefly.
    book: Mutex<Book>,
    nodes: Semaphore,
    strangers: Semaphore,
}

#[derive(Default)]
struct Book {
    /// The registered nodes, as validators told last.
    known: BTreeSet<PeerId>,
    /// When they were asked.
    listed: Option<Instant>,
    /// How many questions of each peer are here.
    asked: BTreeMap<PeerId, usize>,
}

/// A place in the line, until it is dropped.
pub(super) struct Place<'a> {
    turns: &'a Turns,
    peer: PeerId,
}

impl Turns {
    pub(super) fn new() -> Self {
        let (nodes, strangers) = (Semaphore::new(NODES_AT_ONCE), Semaphore::new(STRANGERS_AT_ONCE));
        Self { book: Mutex::default(), nodes, strangers }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a question of a peer, unless it has as many as one may have.
    pub(super) fn enter(&self, peer: PeerId) -> Option<Place<'_>> {
        let mut book = self.book();
        let asked = book.asked.entry(peer).or_default();
        if *asked >= PER_PEER_MAX {
            return None;
        }
        *asked += 1;
        Some(Place { turns: self, peer })
    }

    /// Whether the list of nodes should be asked for because of this peer. Says so to one at a
    /// time, and not often.
    pub(super) fn should_list(&self, peer: &PeerId, now: Instant) -> bool {
        let mut book = self.book();
        let is_due = book.listed.is_none_or(|at| now.duration_since(at) >= LIST_EVERY);
        let is_asked = is_due && !book.known.contains(peer);
        if is_asked {
            book.listed = Some(now);
        }
        is_asked
    }

    /// These nodes are registered.
    pub(super) fn list(&self, nodes: BTreeSet<PeerId>) {
        self.book().known = nodes;
    }
}

impl Place<'_> {
    /// Waits for the turn; nothing if a stranger would have to.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        let is_known = self.turns.book().known.contains(&self.peer);
        if is_known {
            self.turns.nodes.acquire().await.ok()
        } else {
            self.turns.strangers.try_acquire().ok()
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut book = self.turns.book();
        if let Some(asked) = book.asked.get_mut(&self.peer) {
            *asked = asked.saturating_sub(1);
            if *asked == 0 {
                book.asked.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LIST_EVERY, NODES_AT_ONCE, PER_PEER_MAX, STRANGERS_AT_ONCE, Turns};
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};
    use tg_net::PeerId;
    use tg_types::SecretKey;

    fn peer(number: usize) -> PeerId {
        let mut seed = [1; 32];
        seed[..8].copy_from_slice(&number.to_be_bytes());
        PeerId::of(&SecretKey::from_seed(seed))
    }

    /// Goal: no number of strangers keeps a node waiting. Method: far more of them ask than the old
    /// bound for all was, and none of them ever ends.
    #[tokio::test]
    async fn strangers_do_not_take_the_place_of_a_node() {
        let turns = Turns::new();
        let node = peer(0);
        turns.list(BTreeSet::from([node]));
        let places: Vec<_> = (1..=300).filter_map(|it| turns.enter(peer(it))).collect();
        let mut served = Vec::new();
        for place in &places {
            served.extend(place.turn().await);
        }
        assert_eq!((places.len(), served.len()), (300, STRANGERS_AT_ONCE));
        let place = turns.enter(node).expect("few questions");
        let turn = tokio::time::timeout(Duration::from_secs(1), place.turn());
        assert!(turn.await.expect("does not wait").is_some());
    }

    /// Goal: a node that asks and asks gets its share, and others theirs in the order they came.
    #[tokio::test]
    async fn greedy_nodes_have_a_few_places_each_and_others_get_their_turn() {
        let turns = Turns::new();
        let greedy: Vec<PeerId> = (1..=NODES_AT_ONCE).map(peer).collect();
        turns.list(greedy.iter().copied().chain([peer(0)]).collect());
        let mut places = Vec::new();
        for peer in &greedy {
            places.extend((0..10).filter_map(|_| turns.enter(*peer)));
        }
        assert_eq!(places.len(), NODES_AT_ONCE * PER_PEER_MAX, "so many each");
        let mut served = Vec::new();
        for place in places.iter().take(NODES_AT_ONCE) {
            served.extend(place.turn().await);
        }
        let mine = turns.enter(peer(0)).expect("the others' greed is not mine");
        let mut waiting = Box::pin(mine.turn());
        let early = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
        assert!(early.is_err(), "all are busy");
        served.pop();
        let turn = tokio::time::timeout(Duration::from_secs(1), waiting).await;
        assert!(turn.expect("it is my turn").is_some());
    }

    #[tokio::test]
    async fn place_is_free_again_when_its_question_is_answered() {
        let turns = Turns::new();
        for _ in 0..3 {
            let places: Vec<_> = (0..=PER_PEER_MAX).map(|_| turns.enter(peer(1))).collect();
            assert_eq!(places.iter().flatten().count(), PER_PEER_MAX);
        }
        assert!(turns.book().asked.is_empty());
    }

    #[test]
    fn list_is_asked_for_now_and_then_and_for_strangers_only() {
        let (turns, start) = (Turns::new(), Instant::now());
        assert!(turns.should_list(&peer(1), start));
        assert!(!turns.should_list(&peer(2), start), "it is under way");
        turns.list(BTreeSet::from([peer(1)]));
        let later = start + LIST_EVERY;
        assert!(!turns.should_list(&peer(1), later), "is in it");
        assert!(turns.should_list(&peer(2), later));
        assert!(!turns.should_list(&peer(3), later + LIST_EVERY / 2));
    }
}
