//! The tasks that usually come, and what a place is worth in their light.

use super::demand::{Demand, Gpus, Models};
use super::fleet::Judge;
use super::machine::{Machine, Shape, Slot};
use std::collections::BTreeMap;

/// Shares, pressures and scores are in this fraction of one.
const ONE: i64 = 1 << 16;
/// Kinds of tasks are looked at until so many percent of all tasks are covered; tasks of several
/// GPUs always are, since few of them need much.
const COVERED_PERCENT: u64 = 95;
/// The most pressure that counts, in [`ONE`].
const PRESSURE_MAX: u64 = 2 * ONE as u64;
/// Sums of small pressures are kept with so many bits more.
const FINE_BITS: u32 = 24;

/// What one thing is worth against the others. They were found on the public traces of one cluster,
/// with seeds that are not those of the benchmark.
mod worth {
    /// GPU that a usual task could not use at all.
    pub(super) const UNUSABLE: i64 = 1;
    /// GPU that is left over when usual tasks fill the machine.
    pub(super) const LEFT_OVER: i64 = 2;
    /// GPU for which there is too little processor or memory.
    pub(super) const STRANDED: i64 = 8;
    /// The same if tasks needed half as much.
    pub(super) const STRANDED_HARD: i64 = 4;
    /// Using machines that many wait for.
    pub(super) const PRESSURE: i64 = 2;
    /// Thousandths of a processor that count as one of a GPU.
    pub(super) const CPU_PER_GPU: i64 = 25;
}

/// Tasks that take the same of GPUs.
#[derive(Clone, Debug)]
struct Kind {
    gpus: Gpus,
    models: Models,
    share: i64,
    /// The processors they take, with their shares.
    cpus: Vec<(u32, i64)>,
}

/// How much of something a thousandth of a GPU takes along, as a fraction.
#[derive(Clone, Copy, Debug, Default)]
struct Ratio {
    of: u64,
    per: u64,
}

impl Ratio {
    /// The GPU that this much is enough for, at this ratio times `tenths` / 10 or at the machine's
    /// own, whichever needs less.
    fn served(self, left: u32, tenths: u64, own: Self) -> u64 {
        let at = |of: u64, per: u64| {
            u64::from(left).saturating_mul(per).checked_div(of).unwrap_or(u64::MAX)
        };
        at(self.of.saturating_mul(tenths), self.per.saturating_mul(10)).max(at(own.of, own.per))
    }
}

/// The tasks that usually come.
#[derive(Clone, Debug, Default)]
pub struct Mix {
    kinds: Vec<Kind>,
    /// The share of tasks without a GPU.
    without: i64,
    cpu: Ratio,
    memory: Ratio,
    pressure: BTreeMap<Shape, i64>,
}

/// What a machine is worth less than it could be, in thousandths of a GPU times [`ONE`].
#[derive(Clone, Copy, Debug)]
struct Waste {
    unusable: i64,
    left_over: i64,
    stranded: i64,
    stranded_hard: i64,
}

impl Waste {
    const NONE: Self = Self { unusable: 0, left_over: 0, stranded: 0, stranded_hard: 0 };

    fn sum(&self) -> i64 {
        worth::UNUSABLE * self.unusable
            + worth::LEFT_OVER * self.left_over
            + worth::STRANDED * self.stranded
            + worth::STRANDED_HARD * self.stranded_hard
    }
}

impl Mix {
    /// The mix of these tasks, each so many times, for a fleet of these machines.
    pub fn new<'a>(
        tasks: impl IntoIterator<Item = (&'a Demand, u64)>,
        fleet: &BTreeMap<Shape, u64>,
    ) -> Self {
        let tasks: Vec<(&Demand, u64)> = tasks.into_iter().filter(|(_, n)| *n > 0).collect();
        let mut mix = Self { pressure: pressure(&tasks, fleet), ..Self::default() };
        for (demand, count) in tasks.iter().filter(|(demand, _)| demand.gpus != Gpus::None) {
            let gpu = u64::from(demand.gpus.milli()) * count;
            for (ratio, of) in
                [(&mut mix.cpu, demand.cpu_milli), (&mut mix.memory, demand.memory_mib)]
            {
                ratio.of = ratio.of.saturating_add(u64::from(of) * count);
                ratio.per = ratio.per.saturating_add(gpu);
            }
        }
        mix.fill_kinds(&tasks);
        mix
    }

    /// Takes the kinds that are most frequent until enough tasks are covered, and all that take
    /// several GPUs.
    fn fill_kinds(&mut self, tasks: &[(&Demand, u64)]) {
        let mut counts: BTreeMap<(Gpus, Models, u32), u64> = BTreeMap::new();
        for (demand, count) in tasks {
            let key = (demand.gpus, demand.models, demand.cpu_milli);
            *counts.entry(key).or_default() += count;
        }
        let all: u64 = counts.values().sum();
        let mut sorted: Vec<_> = counts.into_iter().collect();
        sorted.sort_by_key(|(key, count)| (std::cmp::Reverse(*count), *key));
        let mut covered = 0;
        sorted.retain(|((gpus, _, _), count)| {
            let is_kept = covered * 100 < COVERED_PERCENT * all || gpus.count() > 1;
            covered += if is_kept { *count } else { 0 };
            is_kept
        });
        let mut kinds: BTreeMap<(Gpus, Models), Kind> = BTreeMap::new();
        for ((gpus, models, cpu), count) in sorted {
            let share = (u128::from(count) * ONE as u128 / u128::from(covered.max(1))) as i64;
            if gpus == Gpus::None {
                self.without += share;
                continue;
            }
            let new = || Kind { gpus, models, share: 0, cpus: Vec::new() };
            let kind = kinds.entry((gpus, models)).or_insert_with(new);
            kind.share += share;
            kind.cpus.push((cpu, share));
        }
        self.kinds = kinds.into_values().collect();
    }

    /// Kinds of tasks that are looked at.
    pub(crate) fn kinds_count(&self) -> usize {
        self.kinds.len()
    }

    /// What a machine is worth less than it could be.
    pub(crate) fn loss(&self, machine: &Machine) -> i64 {
        self.waste(machine).sum()
    }

    /// What using such a machine costs those that wait for it.
    fn price(&self, machine: &Machine, demand: &Demand) -> i64 {
        self.price_of(machine.shape(), demand.gpus.milli(), demand.cpu_milli)
    }

    /// What so much of a machine of this shape costs those that wait for it.
    pub(crate) fn price_of(&self, shape: &Shape, gpu_milli: u32, cpu_milli: u32) -> i64 {
        let pressure = self.pressure.get(shape).copied().unwrap_or(0);
        let used = worth::CPU_PER_GPU * i64::from(gpu_milli) + i64::from(cpu_milli);
        worth::PRESSURE * pressure * used / worth::CPU_PER_GPU
    }

    fn waste(&self, machine: &Machine) -> Waste {
        let all = i64::from(machine.gpu_milli());
        if all == 0 {
            return Waste::NONE;
        }
        let mut waste = Waste { unusable: self.without * all, ..Waste::NONE };
        for kind in &self.kinds {
            let (unusable, left_over) = kind.waste(machine, all);
            waste.unusable += unusable;
            waste.left_over += left_over;
        }
        waste.stranded = self.stranded(machine, all, [9, 10]) * ONE;
        waste.stranded_hard = self.stranded(machine, all, [5, 5]) * ONE;
        waste
    }

    /// GPU for which there is too little processor or memory, if tasks need so many tenths of what
    /// they need in the mean.
    fn stranded(&self, machine: &Machine, all: i64, tenths: [u64; 2]) -> i64 {
        let shape = machine.shape();
        let own = |of: u32| Ratio { of: of.into(), per: shape.gpu_milli().into() };
        let [cpu, memory] = tenths;
        let cpu = self.cpu.served(machine.cpu_milli(), cpu, own(shape.cpu_milli));
        let memory = self.memory.served(machine.memory_mib(), memory, own(shape.memory_mib));
        let served = i64::try_from(cpu.min(memory)).unwrap_or(i64::MAX);
        (all - served).max(0)
    }
}

impl Judge for Mix {
    fn best(&self, machine: &Machine, demand: &Demand) -> Option<(i64, Slot)> {
        if !machine.fits(demand) {
            return None;
        }
        let before = self.waste(machine).sum();
        let mut best: Option<(i64, Slot)> = None;
        for slot in machine.slots(demand) {
            let Some(after) = machine.with(demand, slot) else { continue };
            let gain = before - self.waste(&after).sum();
            if best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, slot));
            }
        }
        best.map(|(gain, slot)| (gain - self.price(machine, demand), slot))
    }
}

impl Kind {
    /// What such tasks could not use of a machine of which `all` is left, and what would be left
    /// over if they filled it.
    fn waste(&self, machine: &Machine, all: i64) -> (i64, i64) {
        if !self.models.contains(machine.shape().model) {
            return (self.share * all, self.share * all);
        }
        let (each, count) = (self.gpus.each(), i64::from(self.gpus.count()));
        let (mut able, mut small, mut places) = (0, 0, 0);
        for free in machine.free() {
            if *free >= each {
                able += 1;
                places += i64::from(*free / each);
            } else {
                small += i64::from(*free);
            }
        }
        let copies = places / count;
        if copies == 0 {
            return (self.share * all, self.share * all);
        }
        let (mut unusable, mut left_over) = (0, 0);
        let size = i64::from(self.gpus.milli());
        for (cpu, share) in &self.cpus {
            let is_enough = able >= count && machine.cpu_milli() >= *cpu;
            unusable += share * if is_enough { small } else { all };
            let by_cpu = machine.cpu_milli().checked_div(*cpu).map_or(copies, i64::from);
            left_over += share * (all - copies.min(by_cpu) * size);
        }
        (unusable, left_over)
    }
}

/// How much is wanted of machines of each shape against what there is, if every task spreads evenly
/// over all machines that could ever run it and all of them together want the whole fleet.
fn pressure(tasks: &[(&Demand, u64)], fleet: &BTreeMap<Shape, u64>) -> BTreeMap<Shape, i64> {
    let shapes: Vec<(Machine, u128)> = fleet
        .iter()
        .map(|(shape, count)| {
            let supply = u128::from(shape.gpu_milli()) * u128::from(*count);
            (Machine::new(*shape), supply)
        })
        .collect();
    let supply: u128 = shapes.iter().map(|(_, supply)| *supply).sum();
    let wanted = |demand: &Demand, count: u64| u128::from(demand.gpus.milli()) * u128::from(count);
    let all: u128 = tasks.iter().map(|(demand, count)| wanted(demand, *count)).sum();
    let mut pressure: BTreeMap<Shape, u64> = fleet.keys().map(|shape| (*shape, 0)).collect();
    for (demand, count) in tasks.iter().filter(|(demand, _)| demand.gpus != Gpus::None) {
        let able = || shapes.iter().filter(|(machine, _)| machine.fits(demand));
        let of_able: u128 = able().map(|(_, supply)| *supply).sum();
        let share = (wanted(demand, *count) * supply * ((ONE as u128) << FINE_BITS))
            .checked_div(all * of_able)
            .and_then(|share| u64::try_from(share).ok())
            .unwrap_or(0);
        for (machine, _) in able() {
            let sum = pressure.entry(*machine.shape()).or_default();
            *sum = sum.saturating_add(share);
        }
    }
    let rounded = |sum: u64| (sum >> FINE_BITS).min(PRESSURE_MAX) as i64;
    pressure.into_iter().map(|(shape, sum)| (shape, rounded(sum))).collect()
}
