//! The best partition of a fleet that does not change, found by search on one sequence.
//!
//! The search knows the whole sequence, which no operator does, and each GPU may be divided in its
//! own way. What it finds is as good as anything that does not change, as far as tests can tell.

use super::super::draws::Draws;
use super::replay::{self, Demanded, Order, SIZES, Spill};
use super::tasks::Sequence;
use std::collections::BTreeMap;
use tg_scheduler::catalogue::Split;
use tg_scheduler::sharing::{Gpu, Take, profiles};

/// Random partitions from which the search climbs, beside those that divide all GPUs alike.
const STARTS: u32 = 4;
/// Memory slices of a GPU.
const SLICES: u8 = 8;

/// Compute slices of the partitions of one GPU, the largest first.
pub(super) type Division = Vec<u8>;

/// What was found.
pub(super) struct Found {
    /// What it gives out.
    pub(super) given: Demanded,
    /// Its divisions, and how many GPUs have each.
    pub(super) partition: Vec<(String, u32)>,
    /// What the best partition gives out that divides all GPUs alike, and its division.
    pub(super) same: (Demanded, String),
    /// What fixed partitions give out if the task that demands most goes first, as far as climbing
    /// from the best of the others finds.
    pub(super) ordered: Demanded,
    /// Partitions that were tried.
    pub(super) evaluations: u32,
}

/// A search for the best partition.
pub(super) struct Search<'a> {
    sequence: &'a Sequence,
    needs: Vec<u8>,
    gpus: u32,
    divisions: Vec<Division>,
    /// Who goes first.
    order: Order,
    /// What partitions give out that were tried: how many GPUs have each of the divisions.
    tried: BTreeMap<Vec<u32>, Demanded>,
    draws: Draws,
}

impl<'a> Search<'a> {
    pub(super) fn new(sequence: &'a Sequence, gpus: u32, draws: Draws) -> Self {
        let needs = sequence.arrivals.iter().map(|(_, task)| replay::need(task.milli)).collect();
        let (divisions, order, tried) = (divisions(), Order::Arrival, BTreeMap::new());
        Self { sequence, needs, gpus, divisions, order, tried, draws }
    }

    /// The best of all climbs.
    pub(super) fn best(mut self) -> Found {
        let kinds = self.divisions.len();
        let alike = |kind: usize| {
            let mut counts = vec![0; kinds];
            counts[kind] = self.gpus;
            counts
        };
        let mut starts: Vec<Vec<u32>> = (0..kinds).map(alike).collect();
        let given: Vec<Demanded> = starts.iter().map(|start| self.evaluate(start)).collect();
        let same = (0..kinds).map(|kind| (given[kind], kind)).max().expect("there are divisions");
        for _ in 0..STARTS {
            let mut counts = vec![0; kinds];
            (0..self.gpus).for_each(|_| counts[self.draws.below(kinds)] += 1);
            starts.push(counts);
        }
        let climbs = starts.into_iter().map(|start| self.climb(start));
        let (given, counts) = climbs.max().expect("at least one start");
        let evaluations = u32::try_from(self.tried.len()).unwrap_or(u32::MAX);
        self.order = Order::Demand;
        self.tried.clear();
        let mut whole = vec![0; kinds];
        whole[kinds - 1] = self.gpus;
        let ordered = self.climb(counts.clone()).0.max(self.climb(whole).0);
        let named = self.divisions.iter().zip(counts).filter(|(_, count)| *count > 0);
        let partition = named.map(|(division, count)| (name(division), count)).collect();
        let same = (same.0, name(&self.divisions[same.1]));
        Found { given, partition, same, ordered, evaluations }
    }

    /// Changes the division of one GPU at a time, as long as that helps.
    fn climb(&mut self, mut counts: Vec<u32>) -> (Demanded, Vec<u32>) {
        let kinds = self.divisions.len();
        let mut given = self.evaluate(&counts);
        let pairs = (0..kinds).flat_map(|from| (0..kinds).map(move |to| (from, to)));
        let mut moves: Vec<(usize, usize)> = pairs.filter(|(from, to)| from != to).collect();
        loop {
            let before = given;
            self.draws.shuffle(&mut moves);
            for &(from, to) in &moves {
                if counts[from] == 0 {
                    continue;
                }
                let mut changed = counts.clone();
                changed[from] -= 1;
                changed[to] += 1;
                let gives = self.evaluate(&changed);
                if gives > given {
                    (given, counts) = (gives, changed);
                }
            }
            // Every round but the last gives more than the one before, of finitely many partitions.
            if given == before {
                return (given, counts);
            }
        }
    }

    fn evaluate(&mut self, counts: &[u32]) -> Demanded {
        if let Some(given) = self.tried.get(counts) {
            return *given;
        }
        let mut free = [0; SIZES];
        for (division, count) in self.divisions.iter().zip(counts) {
            division.iter().for_each(|size| free[usize::from(*size)] += count);
        }
        // Small tasks in large partitions help until large ones want these: both are tried.
        let gives = |spill| replay::fixed(self.sequence, &self.needs, free, (spill, self.order));
        let given = gives(Spill::Any).max(gives(Spill::None));
        self.tried.insert(counts.to_vec(), given);
        given
    }
}

fn name(division: &Division) -> String {
    let sizes: Vec<String> = division.iter().map(u8::to_string).collect();
    sizes.join("+")
}

/// All divisions of a GPU to which nothing can be added and than which no other has larger
/// partitions throughout.
pub(super) fn divisions() -> Vec<Division> {
    let mut all = Vec::new();
    extend(Gpu::FREE, 0, &mut Vec::new(), &mut all);
    all.sort_unstable();
    all.dedup();
    let is_less = |division: &Division| {
        all.iter().any(|other| {
            other != division
                && other.len() >= division.len()
                && other.iter().zip(division).all(|(other, size)| other >= size)
        })
    };
    all.iter().filter(|division| !is_less(division)).cloned().collect()
}

/// Adds all divisions that go on from a memory slice with what lies before it.
fn extend(gpu: Gpu, from: u8, sizes: &mut Vec<u8>, all: &mut Vec<Division>) {
    let kinds = profiles(Split::Mig7);
    if from == SLICES {
        if kinds.iter().all(|kind| gpu.with(Take::Part(*kind), Split::Mig7).is_none()) {
            let mut division = sizes.clone();
            division.sort_unstable_by(|a, b| b.cmp(a));
            all.push(division);
        }
        return;
    }
    extend(gpu, from + 1, sizes, all);
    for kind in kinds {
        if let Some(with) = gpu.with_at(Take::Part(*kind), from, Split::Mig7) {
            sizes.push(kind.compute);
            extend(with, from + kind.memory, sizes, all);
            sizes.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Draws, Search, divisions, name};
    use crate::bench::mig::tasks::{Sequence, Task};

    #[test]
    fn divisions_are_those_of_an_a100() {
        let names: Vec<String> = divisions().iter().map(name).collect();
        let expected = [
            "1+1+1+1+1+1+1",
            "2+1+1+1+1+1",
            "2+2+1+1+1",
            "2+2+2+1",
            "3+1+1+1+1",
            "3+2+1+1",
            "3+2+2",
            "4+1+1+1",
            "4+2+1",
            "4+3",
            "7",
        ];
        assert_eq!(names, expected);
    }

    /// Goal: the search finds a partition that is known to be best. Method: tasks that fill a GPU
    /// in halves, and others that fill one as a whole.
    #[test]
    fn search_finds_the_division_that_the_tasks_fill() {
        let task = |milli| Task { created: 0, milli, seconds: 10 };
        let round = [task(570), task(420), task(1_000)];
        let rounds = (0..20).flat_map(|at| round.map(|task| (10 * at, task)));
        let sequence = Sequence { arrivals: rounds.collect(), window: 200 };
        let found = Search::new(&sequence, 2, Draws::new(7)).best();
        assert_eq!(found.partition, [("4+3".to_owned(), 1), ("7".to_owned(), 1)]);
        assert!((found.given.share(2, 200) - 0.995).abs() < 1e-9);
    }

    /// Goal: the search finds the best of all partitions. Method: three GPUs, for which all
    /// partitions can be tried, and random tasks.
    #[test]
    fn search_finds_what_trying_all_finds() {
        let mut draws = Draws::new(3);
        for seed in 0..4 {
            let task = |draws: &mut Draws| {
                let milli = [100, 250, 400, 460, 810, 1_000][draws.below(6)];
                Task { created: 0, milli, seconds: 50 + draws.below(400) as u64 }
            };
            let arrivals = (0..150).map(|place| (10 * place, task(&mut draws))).collect();
            let sequence = Sequence { arrivals, window: 1_490 };
            let mut all = Search::new(&sequence, 3, Draws::new(seed));
            let kinds = all.divisions.len();
            let mut most = None;
            for place in 0..kinds.pow(3) {
                let mut counts = vec![0; kinds];
                for kind in [place % kinds, place / kinds % kinds, place / kinds / kinds] {
                    counts[kind] += 1;
                }
                most = most.max(Some(all.evaluate(&counts)));
            }
            let found = Search::new(&sequence, 3, Draws::new(seed)).best();
            assert_eq!(Some(found.given), most);
            assert!(found.same.0 <= found.given);
        }
    }
}
