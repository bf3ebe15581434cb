//! The state of the network between nodes: what is cut, lost and repeated on the way from one node
//! to another. Directed, so a node may hear without being heard.
//!
//! The simulated network below delivers in order with a latency; it can also lose, but changing a
//! link there means a new connection. Here a change takes effect at once and costs nothing.

use super::lock;
use commonware_cryptography::ed25519;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// A share of messages, in thousandths.
pub type PerMille = u32;

/// The state of one direction between two nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Nothing arrives.
    pub is_cut: bool,
    /// This share is lost.
    pub loss: PerMille,
    /// This share arrives a second time, a few messages later.
    pub repeats: PerMille,
}

/// How often the network interfered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that arrived.
    pub delivered: u64,
    /// Messages lost at random.
    pub lost: u64,
    /// Messages stopped by a cut.
    pub cut: u64,
    /// Messages that arrived twice.
    pub repeated: u64,
}

#[derive(Debug)]
struct Sky {
    places: BTreeMap<ed25519::PublicKey, usize>,
    ways: Vec<Vec<Way>>,
    counts: Counts,
    chance: StdRng,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Arrives,
    ArrivesTwice,
    Lost,
}

/// The network between the nodes of a cluster. Cheap to clone.
///
/// A lock, because the engine polls receivers from tasks that cannot wait for an owner's answer;
/// it is held for a look-up.
#[derive(Clone, Debug)]
pub struct Weather(Arc<Mutex<Sky>>);

impl Weather {
    pub(crate) fn new(keys: &[ed25519::PublicKey], seed: u64) -> Self {
        let places = keys.iter().cloned().enumerate().map(|(place, key)| (key, place)).collect();
        let ways = vec![vec![Way::default(); keys.len()]; keys.len()];
        let chance = StdRng::seed_from_u64(seed);
        Self(Arc::new(Mutex::new(Sky { places, ways, counts: Counts::default(), chance })))
    }

    /// Changes one direction between two nodes, by their places in the cluster.
    pub fn change(&self, from: usize, to: usize, change: impl FnOnce(&mut Way)) {
        let mut sky = lock(&self.0);
        if let Some(way) = sky.ways.get_mut(from).and_then(|row| row.get_mut(to)) {
            change(way);
        }
    }

    /// Everything arrives again, once.
    pub fn clear(&self) {
        for way in lock(&self.0).ways.iter_mut().flatten() {
            *way = Way::default();
        }
    }

    /// How often the network interfered so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        lock(&self.0).counts
    }

    pub(crate) fn fate(&self, from: &ed25519::PublicKey, to: usize) -> Fate {
        let mut sky = lock(&self.0);
        let Sky { places, ways, counts, chance } = &mut *sky;
        let way = places.get(from).and_then(|from| ways.get(*from)?.get(to).copied());
        let way = way.unwrap_or_default();
        if way.is_cut {
            counts.cut += 1;
            return Fate::Lost;
        }
        if way.loss > 0 && chance.random_range(0..1_000) < way.loss {
            counts.lost += 1;
            return Fate::Lost;
        }
        counts.delivered += 1;
        if way.repeats > 0 && chance.random_range(0..1_000) < way.repeats {
            counts.repeated += 1;
            return Fate::ArrivesTwice;
        }
        Fate::Arrives
    }
}
