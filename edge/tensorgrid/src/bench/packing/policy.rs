//! The policies that the scheduler is measured against, as their papers have them.

use super::super::draws::Draws;
use std::collections::BTreeMap;
use tg_scheduler::packing::{Demand, Fleet, GPU_MILLI, Gpus, Judge, Machine, Models, Placed, Slot};

/// Kinds of tasks count as typical until so many percent of all tasks are covered.
const TYPICAL_PERCENT: u64 = 95;
/// The processor of the largest machine, by which Best Fit weighs processors.
const CPU_MILLI_MAX: f64 = 128_000.0;
/// The same of GPUs.
const GPU_MILLI_MAX: f64 = 8_000.0;

/// Fragmentation Gradient Descent (Weng et al., ATC'23): the machine whose expected fragments grow
/// least. Its score is a whole number up to 100, and ties go to the first machine.
pub(super) struct Fgd {
    typical: Vec<(Typical, f64)>,
}

/// What FGD looks at of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Typical {
    cpu_milli: u32,
    gpus: Gpus,
    models: Models,
}

impl Fgd {
    /// One that knows all tasks in advance, as in the paper.
    pub(super) fn new(tasks: &[Demand]) -> Self {
        let mut counts: BTreeMap<Typical, u64> = BTreeMap::new();
        for task in tasks {
            let &Demand { cpu_milli, gpus, models, .. } = task;
            *counts.entry(Typical { cpu_milli, gpus, models }).or_default() += 1;
        }
        let mut sorted: Vec<(Typical, u64)> = counts.into_iter().collect();
        sorted.sort_by(|(a, m), (b, n)| n.cmp(m).then(b.cmp(a)));
        let mut covered = 0;
        let enough = TYPICAL_PERCENT * tasks.len() as u64;
        sorted.retain(|(_, count)| {
            let is_typical = covered * 100 < enough;
            covered += if is_typical { *count } else { 0 };
            is_typical
        });
        let share = |count: u64| count as f64 / covered as f64;
        Self { typical: sorted.into_iter().map(|(task, count)| (task, share(count))).collect() }
    }

    /// The expected part of what is left that a typical task cannot use.
    fn fragment(&self, machine: &Machine) -> f64 {
        let all = machine.gpu_milli();
        let of = |task: &Typical| {
            if task.gpus == Gpus::None || !task.models.contains(machine.shape().model) {
                return all;
            }
            let is_small = |free: &&u16| **free < task.gpus.each();
            let small = machine.free().iter().filter(is_small);
            let able = machine.free().len() - small.clone().count();
            let is_enough = able >= usize::from(task.gpus.count());
            if is_enough && machine.cpu_milli() >= task.cpu_milli {
                small.map(|free| u32::from(*free)).sum()
            } else {
                all
            }
        };
        self.typical.iter().map(|(task, share)| share * f64::from(of(task))).sum()
    }
}

impl Judge for Fgd {
    fn best(&self, machine: &Machine, demand: &Demand) -> Option<(i64, Slot)> {
        if !machine.fits(demand) {
            return None;
        }
        let before = self.fragment(machine);
        let mut best: Option<(i64, Slot)> = None;
        for slot in machine.slots(demand) {
            let gain = before - self.fragment(&machine.with(demand, slot)?);
            let score = (100.0 / (1.0 + (-gain / f64::from(GPU_MILLI)).exp())).floor() as i64;
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, slot));
            }
        }
        best
    }
}

/// Best Fit: the machine of which least is left.
pub(super) struct BestFit;

impl Judge for BestFit {
    fn best(&self, machine: &Machine, demand: &Demand) -> Option<(i64, Slot)> {
        if !machine.fits(demand) {
            return None;
        }
        let slot = tightest(machine, demand)?;
        let left = machine.with(demand, slot)?;
        let cpu = f64::from(left.cpu_milli()) / CPU_MILLI_MAX;
        let gpu = f64::from(left.gpu_milli()) / GPU_MILLI_MAX;
        Some((((1.0 - (cpu + gpu) / 2.0) * 100.0) as i64, slot))
    }
}

/// The GPU of which least is left that is enough.
fn tightest(machine: &Machine, demand: &Demand) -> Option<Slot> {
    let left = |slot: &Slot| match *slot {
        Slot::Whole => 0,
        Slot::Shared(gpu) => machine.free()[usize::from(gpu)],
    };
    machine.slots(demand).min_by_key(left)
}

/// Any machine that fits, any GPU of it.
pub(super) fn random<J: Judge>(
    fleet: &Fleet<J>,
    demand: &Demand,
    draws: &mut Draws,
) -> Option<Placed> {
    let fits = |(_, machine): &(usize, &Machine)| machine.fits(demand);
    let able: Vec<(usize, &Machine)> = fleet.machines().iter().enumerate().filter(fits).collect();
    let (place, machine) = *able.get(draws.below(able.len()))?;
    let slots: Vec<Slot> = machine.slots(demand).collect();
    Some(Placed { machine: place, slot: *slots.get(draws.below(slots.len()))? })
}
