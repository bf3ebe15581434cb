//! All machines, and the best place for a task.

use super::demand::Demand;
use super::machine::{Machine, Shape, Slot};
use std::collections::BTreeMap;

/// Where a task went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The machine, by its place in the fleet.
    pub machine: usize,
    /// Where on it.
    pub slot: Slot,
}

/// Who says what a place is worth.
pub trait Judge {
    /// The best place for a task on a machine and what it is worth, more being better; `None` if it
    /// does not fit. What is left of the machine decides, and nothing else.
    fn best(&self, machine: &Machine, demand: &Demand) -> Option<(i64, Slot)>;
}

/// What was found for a kind of task on a machine.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// How often the machine had changed then.
    change: u32,
    best: Option<(i64, Slot)>,
}

/// Machines with what is left of them.
#[derive(Clone, Debug)]
pub struct Fleet<J> {
    machines: Vec<Machine>,
    /// How often each machine has changed.
    changes: Vec<u32>,
    judge: J,
    found: BTreeMap<Demand, Vec<Found>>,
}

impl<J: Judge> Fleet<J> {
    /// Machines on which nothing runs.
    pub fn new(shapes: impl IntoIterator<Item = Shape>, judge: J) -> Self {
        let machines: Vec<Machine> = shapes.into_iter().map(Machine::new).collect();
        Self { changes: vec![1; machines.len()], machines, judge, found: BTreeMap::new() }
    }

    /// How many machines of each shape there are.
    pub fn shapes(&self) -> BTreeMap<Shape, u64> {
        let mut shapes = BTreeMap::new();
        for machine in &self.machines {
            *shapes.entry(*machine.shape()).or_default() += 1;
        }
        shapes
    }

    /// The machines.
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// Another judge from now on.
    pub fn judge_by(&mut self, judge: J) {
        self.judge = judge;
        self.found.clear();
    }

    /// The best place for a task, the first of equal ones; `None` if it fits nowhere.
    pub fn best(&mut self, demand: &Demand) -> Option<Placed> {
        let count = self.machines.len();
        let unknown = Found { change: 0, best: None };
        let found = self.found.entry(*demand).or_insert_with(|| vec![unknown; count]);
        let mut best: Option<(i64, Placed)> = None;
        let all = self.machines.iter().zip(&self.changes).zip(found).enumerate();
        for (place, ((machine, change), found)) in all {
            if found.change != *change {
                *found = Found { change: *change, best: self.judge.best(machine, demand) };
            }
            let Some((score, slot)) = found.best else { continue };
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, Placed { machine: place, slot }));
            }
        }
        best.map(|(_, placed)| placed)
    }

    /// Puts a task there. Returns whether it fits.
    pub fn place(&mut self, demand: &Demand, placed: Placed) -> bool {
        let machine = self.machines.get(placed.machine);
        let Some(left) = machine.and_then(|machine| machine.with(demand, placed.slot)) else {
            return false;
        };
        self.machines[placed.machine] = left;
        self.changes[placed.machine] += 1;
        true
    }
}
