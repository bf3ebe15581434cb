//! Running the index on a made-up network, and timing what it decides.

use super::workload::Workload;
use std::time::{Duration, Instant};
use tg_scheduler::index::{Decision, Event, Index, Limits, TaskId};
use tg_types::NodeId;

/// Tasks that end in a block, and as many that come.
const ENDS: u64 = 1_000;
/// Nodes that leave in a block, and as many that come.
const LEAVES: u64 = 2;
/// Tasks of lost nodes that are queued again in a block.
const REQUEUES: u32 = 1_000;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Devices of the fleet.
    pub(crate) gpus: u64,
    /// Tasks that wait when it begins.
    pub(crate) queued: u64,
    /// Decisions that are timed.
    pub(crate) decisions: u64,
    /// Of everything that is drawn.
    pub(crate) seed: u64,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// Machines.
    pub(crate) nodes: usize,
    /// Tasks that were running when the clock started.
    pub(crate) running: usize,
    /// How long the fleet took to fill from nothing, rankings included.
    pub(crate) fill: Duration,
    /// Decisions that were timed.
    pub(crate) decisions: u64,
    /// Those that placed a task; the others found that there is no place.
    pub(crate) placed: u64,
    /// All events and decisions.
    pub(crate) took: Duration,
    /// The decisions alone, each.
    pub(crate) each: Vec<Duration>,
    /// Making the index anew from its facts, until every kind of task was looked at once.
    pub(crate) rebuild: Duration,
    /// Groups of nodes and states at the end.
    pub(crate) groups: (usize, usize),
    /// Tasks that wait at the end.
    pub(crate) waiting: usize,
}

impl Measured {
    /// The latency that so many of a thousand do not exceed.
    pub(crate) fn quantile(&self, per_mille: usize) -> Duration {
        let mut sorted = self.each.clone();
        sorted.sort_unstable();
        let place = (sorted.len() * per_mille).div_ceil(1_000).saturating_sub(1);
        sorted.get(place).copied().unwrap_or_default()
    }

    /// Seconds of a decision, its share of the events included.
    pub(crate) fn cost(&self) -> f64 {
        self.took.as_secs_f64() / self.decisions.max(1) as f64
    }
}

/// A network while it is measured.
struct Run {
    index: Index,
    workload: Workload,
    nodes: Vec<NodeId>,
    running: Vec<TaskId>,
    next: u64,
}

/// Measures a network of this size.
pub(crate) fn measure(size: Size) -> Measured {
    let mut run = Run {
        index: Index::new(),
        workload: Workload::new(size.seed),
        nodes: Vec::new(),
        running: Vec::new(),
        next: 0,
    };
    for (node, offer) in run.workload.fleet(size.gpus) {
        run.nodes.push(node);
        run.apply(vec![Event::NodeJoined { node, offer: Box::new(offer) }]);
    }
    for _ in 0..size.queued {
        let event = run.task();
        run.apply(vec![event]);
    }
    let mut measured = Measured { nodes: run.index.nodes(), ..Measured::default() };
    let start = Instant::now();
    while let Some(decision) = run.index.decide() {
        run.note(decision);
    }
    measured.fill = start.elapsed();
    measured.running = run.running.len();
    run.commit();
    while measured.decisions < size.decisions && !run.running.is_empty() {
        run.block(&mut measured);
    }
    measured.groups = run.index.groups();
    measured.waiting = run.index.waiting();
    let facts = run.index.facts();
    let start = Instant::now();
    let Ok(mut index) = Index::rebuild(facts) else { return measured };
    let limits = Limits { decisions: u32::MAX, requeues: 0 };
    index.tick(limits);
    measured.rebuild = start.elapsed();
    measured
}

impl Run {
    /// A task more.
    fn task(&mut self) -> Event {
        let task = TaskId { number: self.next };
        self.next += 1;
        Event::TaskQueued { task, spec: Box::new(self.workload.task()) }
    }

    /// Takes note of events. Some tasks are refused: no model could run them.
    fn apply(&mut self, events: Vec<Event>) {
        for event in events {
            let _refused_is_fine = self.index.apply(event);
        }
    }

    fn note(&mut self, decision: Decision) -> bool {
        match decision {
            Decision::Place { task, .. } => {
                self.running.push(task);
                true
            }
            Decision::Requeue { task, .. } => {
                self.running.retain(|other| *other != task);
                false
            }
            Decision::Queue { .. } => false,
        }
    }

    fn commit(&mut self) {
        let mark = self.index.begin();
        self.index.commit(mark);
    }

    /// What happens in a block, drawn before the clock starts.
    fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for _ in 0..ENDS.min(self.running.len() as u64) {
            let place = self.workload.below(self.running.len() as u64);
            let task = self.running.swap_remove(usize::try_from(place).unwrap_or(0));
            events.push(Event::TaskFinished { task });
            events.push(self.task());
        }
        for _ in 0..LEAVES {
            let (node, offer) = self.workload.any_node();
            events.push(Event::NodeJoined { node, offer: Box::new(offer) });
            let place = self.workload.below(self.nodes.len() as u64);
            let place = usize::try_from(place).unwrap_or(0);
            events.push(Event::NodeLeft { node: std::mem::replace(&mut self.nodes[place], node) });
        }
        events
    }

    fn block(&mut self, measured: &mut Measured) {
        let events = self.events();
        let start = Instant::now();
        self.apply(events);
        let lost = self.index.tick(Limits { decisions: 0, requeues: REQUEUES });
        measured.took += start.elapsed();
        for decision in lost {
            self.note(decision);
        }
        loop {
            let start = Instant::now();
            let Some(decision) = self.index.decide() else { break };
            let took = start.elapsed();
            measured.took += took;
            measured.each.push(took);
            measured.decisions += 1;
            measured.placed += u64::from(self.note(decision));
        }
        let start = Instant::now();
        self.commit();
        measured.took += start.elapsed();
    }
}
