//! Which tasks usually come, as entries: what was counted, and what the mix in use was made of.

use crate::packing::{Demand, Gpus, Learner, Mix, Shape};
use std::collections::BTreeMap;

/// Tasks that are remembered: then all counts are halved.
const WINDOW: u64 = 1 << 16;
/// Kinds of tasks that make a mix. More would make every score dear, and nobody may do that to
/// others by asking for odd things.
const KINDS_MAX: usize = 64;
/// The mix is made anew when shares of tasks or machines have moved by so many percent together.
const MOVED_PERCENT: u64 = 15;
/// The fewest and the most tasks between two looks at that.
const LOOK: (u64, u64) = (64, 1 << 15);

/// What came, and what the mix in use was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) counts: BTreeMap<Demand, u64>,
    pub(super) seen: u64,
    /// Tasks since it was last looked whether the mix still holds.
    pub(super) since: u64,
    pub(super) made_of: BTreeMap<Demand, u64>,
    pub(super) made_for: BTreeMap<Shape, u64>,
}

impl Usage {
    /// Whether counting one more would halve the counts or is a time to look at the mix.
    pub(super) fn is_turn(&self) -> bool {
        self.seen + 1 >= WINDOW || self.since + 1 >= (self.seen / 2).clamp(LOOK.0, LOOK.1)
    }

    /// Counts a task.
    pub(super) fn count(&mut self, demand: Demand) {
        *self.counts.entry(demand).or_default() += 1;
        self.seen += 1;
        self.since += 1;
    }

    /// Takes back the last count.
    pub(super) fn uncount(&mut self, demand: Demand) {
        if let Some(count) = self.counts.get_mut(&demand) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&demand);
            }
        }
        self.seen -= 1;
        self.since -= 1;
    }

    /// Fades what is old, and looks whether the mix still holds. Returns whether it is to be made
    /// anew.
    pub(super) fn turn(&mut self, fleet: &BTreeMap<Shape, u64>) -> bool {
        if self.seen >= WINDOW {
            self.counts.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
            self.seen = self.counts.values().sum();
        }
        self.since = 0;
        let frequent = self.frequent();
        let moved = percent(&self.made_of, &frequent).max(percent(&self.made_for, fleet));
        if moved < MOVED_PERCENT {
            return false;
        }
        self.made_of = frequent;
        self.made_for.clone_from(fleet);
        true
    }

    /// The mix in use.
    pub(super) fn mix(&self) -> Mix {
        Learner::of_counts(self.made_of.clone()).mix(&self.made_for)
    }

    /// The kinds that come most.
    fn frequent(&self) -> BTreeMap<Demand, u64> {
        let mut sorted: Vec<(u64, Demand)> =
            self.counts.iter().map(|(demand, count)| (*count, *demand)).collect();
        sorted.sort_unstable_by_key(|(count, demand)| (std::cmp::Reverse(*count), *demand));
        sorted.truncate(KINDS_MAX);
        sorted.into_iter().map(|(count, demand)| (demand, count)).collect()
    }
}

/// A demand with processor and memory rounded up to three digits of binary, so that almost equal
/// ones count as one kind.
pub(super) fn rounded(demand: Demand) -> Demand {
    let round = |number: u32| {
        let step = 1_u32 << (32 - number.leading_zeros()).saturating_sub(3);
        number.div_ceil(step).saturating_mul(step)
    };
    let gpus = match demand.gpus {
        Gpus::Share(milli) => Gpus::Share(milli.div_ceil(50).saturating_mul(50).min(999)),
        Gpus::None | Gpus::Whole(_) => demand.gpus,
    };
    let (cpu_milli, memory_mib) = (round(demand.cpu_milli), round(demand.memory_mib));
    Demand { gpus, cpu_milli, memory_mib, ..demand }
}

/// By how much shares differ, all differences together, in percent.
fn percent<K: Ord>(from: &BTreeMap<K, u64>, to: &BTreeMap<K, u64>) -> u64 {
    let sums: [u64; 2] = [from, to].map(|counts| counts.values().sum());
    let share = |counts: &BTreeMap<K, u64>, key: &K, sum: u64| {
        let count = counts.get(key).copied().unwrap_or(0);
        (count * 10_000).checked_div(sum).unwrap_or(0)
    };
    let keys = from.keys().chain(to.keys().filter(|key| !from.contains_key(*key)));
    let apart = keys.map(|key| share(from, key, sums[0]).abs_diff(share(to, key, sums[1])));
    apart.sum::<u64>() / 100
}
