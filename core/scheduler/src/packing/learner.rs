//! Which tasks usually come, learned from those that came.

use super::demand::{Demand, Gpus, Models};
use super::machine::Shape;
use super::mix::Mix;
use std::collections::BTreeMap;

/// Counts tasks as they come. Old ones fade: when the window is full, every count is halved.
#[derive(Clone, Debug, Default)]
pub struct Learner {
    counts: BTreeMap<Demand, u64>,
    seen: u64,
    /// When the mix is to be made anew.
    due: u64,
}

/// Tasks that are remembered.
const WINDOW: u64 = 1 << 16;
/// The mix is made anew when so many percent more tasks have come.
const GROWTH_PERCENT: u64 = 5;
/// What one task that came counts, against those that are only imagined.
const WEIGHT: u64 = 16;
/// GPUs that the imagined ones take together.
const EXPECTED_GPUS: u64 = 128;

impl Learner {
    /// Counts a task. Returns whether the mix should be made anew.
    pub fn observe(&mut self, demand: &Demand) -> bool {
        *self.counts.entry(*demand).or_default() += 1;
        self.seen += 1;
        if self.seen >= WINDOW {
            self.counts.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
            self.seen = self.counts.values().sum();
            self.due = 0;
        }
        if self.seen < self.due {
            return false;
        }
        self.due = self.seen + (self.seen * GROWTH_PERCENT / 100).max(1);
        true
    }

    /// One that has seen these tasks.
    pub(crate) fn of_counts(counts: BTreeMap<Demand, u64>) -> Self {
        let seen = counts.values().sum();
        Self { counts, seen, due: seen }
    }

    /// The mix so far. Until much was seen, every machine is expected to be wanted as a whole:
    /// tasks that need the largest are rare, and too late when small ones have taken them.
    pub fn mix(&self, fleet: &BTreeMap<Shape, u64>) -> Mix {
        let mut tasks: BTreeMap<Demand, u64> = BTreeMap::new();
        for (demand, count) in &self.counts {
            *tasks.entry(*demand).or_default() += count * WEIGHT;
        }
        for (demand, count) in expected(fleet) {
            *tasks.entry(demand).or_default() += count;
        }
        Mix::new(tasks.iter().map(|(demand, count)| (demand, *count)), fleet)
    }
}

/// Tasks that fill machines: one for every shape, as often as there are such machines.
fn expected(fleet: &BTreeMap<Shape, u64>) -> impl Iterator<Item = (Demand, u64)> + '_ {
    let gpus: u64 = fleet.iter().map(|(shape, count)| u64::from(shape.gpus) * count).sum();
    fleet.iter().filter(|(shape, _)| shape.gpus > 0).map(move |(shape, count)| {
        let demand = Demand {
            gpus: Gpus::Whole(shape.gpus),
            models: Models::ANY,
            cpu_milli: shape.cpu_milli,
            memory_mib: shape.memory_mib,
        };
        (demand, (EXPECTED_GPUS * WEIGHT * count).div_ceil(gpus))
    })
}
