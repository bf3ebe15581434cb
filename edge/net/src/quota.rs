//! How much is going on at once: in all and for one peer.

use crate::id::PeerId;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts what is going on. Whoever takes a [`Place`] gives it back by dropping it.
#[derive(Debug)]
pub(crate) struct Quota {
    total_max: usize,
    per_peer_max: usize,
    // A lock and not a channel: places are given back in `drop`, which cannot wait.
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    per_peer: BTreeMap<PeerId, usize>,
}

/// One of the places of a [`Quota`].
#[derive(Debug)]
pub(crate) struct Place {
    quota: Arc<Quota>,
    peer: PeerId,
}

impl Quota {
    pub(crate) fn new(total_max: usize, per_peer_max: usize) -> Arc<Self> {
        Arc::new(Self { total_max, per_peer_max, taken: Mutex::default() })
    }

    /// A place for this peer, unless it or all together have theirs.
    pub(crate) fn take(self: &Arc<Self>, peer: PeerId) -> Option<Place> {
        let mut taken = self.lock();
        let of_peer = taken.per_peer.get(&peer).copied().unwrap_or(0);
        if taken.total >= self.total_max || of_peer >= self.per_peer_max {
            return None;
        }
        taken.total += 1;
        taken.per_peer.insert(peer, of_peer + 1);
        drop(taken);
        Some(Place { quota: Arc::clone(self), peer })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.quota.lock();
        taken.total = taken.total.saturating_sub(1);
        if let Entry::Occupied(mut of_peer) = taken.per_peer.entry(self.peer) {
            if *of_peer.get() <= 1 {
                of_peer.remove();
            } else {
                *of_peer.get_mut() -= 1;
            }
        }
    }
}
