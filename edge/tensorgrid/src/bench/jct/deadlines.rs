//! Promises: random jobs that ask for one, with and without machines that fail.

use super::trace::Draws;
use serde::Serialize;
use std::{cmp::Reverse, collections::BinaryHeap};
use tg_scheduler::queue::{
    Ask, Deadline, Decision, Event, JobNumber, NodeNumber, OwnerNumber, PoolNumber, PoolSet, Queue,
    Settings,
};
use tg_types::{DurationMs, Tick};

/// Machines and GPUs of each.
const NODES: u32 = 48;
const NODE_SIZE: u16 = 8;
const ROUND: u64 = 60_000;
/// What all jobs declare, over what the machines have while they come.
const LOAD: f64 = 1.6;
/// A machine is away for this long.
const AWAY: u64 = 2 * 3_600_000;

/// A job that asks for a promise.
#[derive(Clone, Copy)]
struct Wish {
    at: u64,
    ask: Ask,
    by: u64,
    duration: u64,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    jobs: usize,
    /// Jobs that were promised their deadline.
    promised: usize,
    /// Jobs that preemptive EDF meets the deadlines of when it knows the true durations, restarts
    /// cost nothing and gangs are spread at will; it drops who cannot make it any more.
    offline_edf: usize,
    /// Promised jobs over those.
    accepted_pct: f64,
    /// The same in declared GPU-hours.
    accepted_gpu_hours_pct: f64,
    /// Machines that failed.
    node_failures: u64,
    /// Promises that the queue said it breaks, so that they are compensated.
    compensated: u64,
    /// Promises broken without a word.
    broken: u64,
    /// Jobs stopped at their declared limit.
    stopped: u64,
}

/// Has random jobs ask for promises. Every so many hours a machine fails, if at all.
pub(super) fn measure(jobs: usize, seed: u64, fails_every: Option<u64>) -> Figures {
    let wishes = wishes(jobs, seed);
    let mut run = Run::new(&wishes);
    let mut draws = Draws::new(seed.wrapping_add(77));
    let mut next = 0;
    let mut failure = fails_every;
    let mut back: Vec<(u64, u32)> = Vec::new();
    let mut now = 0;
    while next < wishes.len() || run.open > 0 {
        run.finish(now);
        while wishes.get(next).is_some_and(|wish| wish.at <= now) {
            run.tell(now, Event::JobQueued(JobNumber(next as u64), wishes[next].ask));
            next += 1;
        }
        if failure.is_some_and(|at| at <= now) {
            let node = draws.below(NODES as usize) as u32;
            if !back.iter().any(|(_, away)| *away == node) {
                run.fail(now, node);
                back.push((now + AWAY, node));
            }
            failure = fails_every.map(|every| now + every);
        }
        for (_, node) in back.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            run.tell(now, joined(node));
        }
        run.tell(now, Event::RoundBegan);
        run.queue.settle();
        now += ROUND;
    }
    run.figures(&wishes)
}

fn joined(node: u32) -> Event {
    Event::NodeJoined(NodeNumber(node), PoolNumber(0), NODE_SIZE)
}

/// Random jobs: run times over three orders of magnitude, deadlines 1.2 to 6 times the limit away.
fn wishes(jobs: usize, seed: u64) -> Vec<Wish> {
    let mut draws = Draws::new(seed);
    let mut declared = 0.0;
    let mut wishes = Vec::new();
    let gpus = f64::from(NODES) * f64::from(NODE_SIZE);
    for _ in 0..jobs {
        let limit = (300.0 * 200.0_f64.powf(draws.unit())) as u64 * 1_000;
        let devices = [1, 1, 1, 1, 2, 2, 3, 4, 8, 16][draws.below(10)];
        // Most jobs need less than they declare, a few would need more.
        let share = 0.4 + 0.65 * draws.unit();
        let slack = 1.2 + 4.8 * draws.unit();
        let at = (declared / (gpus * LOAD)) as u64;
        declared += limit as f64 * f64::from(devices);
        let by = at + (limit as f64 * slack) as u64 + 4 * ROUND;
        let ask = Ask {
            owner: OwnerNumber(draws.below(20) as u32),
            devices,
            pools: PoolSet::ALL,
            program: 0,
            limit: DurationMs::new(limit),
            estimate: DurationMs::new(limit),
            deadline: Deadline::Promise(Tick::new(by)),
            bid_percent: 100,
            priority: 0,
            is_resumable: draws.unit() < 0.9,
        };
        wishes.push(Wish { at, ask, by, duration: (limit as f64 * share) as u64 });
    }
    wishes
}

/// Machines that obey a queue.
struct Run<'a> {
    queue: Queue,
    wishes: &'a [Wish],
    state: Vec<(u64, Option<u64>, u32)>,
    ends: BinaryHeap<Reverse<(u64, usize, u32)>>,
    promised: Vec<bool>,
    owed: Vec<bool>,
    open: usize,
    figures: [u64; 4],
}

impl<'a> Run<'a> {
    fn new(wishes: &'a [Wish]) -> Self {
        let mut run = Self {
            queue: Queue::new(Settings::default()),
            wishes,
            state: vec![(0, None, 0); wishes.len()],
            ends: BinaryHeap::new(),
            promised: vec![false; wishes.len()],
            owed: vec![false; wishes.len()],
            open: 0,
            figures: [0; 4],
        };
        (0..NODES).for_each(|node| run.tell(0, joined(node)));
        run
    }

    fn tell(&mut self, now: u64, event: Event) {
        let decisions = self.queue.apply(Tick::new(now), event);
        for decision in decisions.expect("the run tells what happened, in order") {
            self.obey(now, &decision);
        }
    }

    fn obey(&mut self, now: u64, decision: &Decision) {
        match decision {
            Decision::Start { job, .. } => {
                let place = job.0 as usize;
                let (done, works_from, starts) = &mut self.state[place];
                let from = now + if *starts > 0 { ROUND } else { 0 };
                (*works_from, *starts) = (Some(from), *starts + 1);
                let end = from + self.wishes[place].duration - *done;
                self.ends.push(Reverse((end, place, *starts)));
            }
            Decision::Preempt { job } => {
                let (done, works_from, _) = &mut self.state[job.0 as usize];
                *done += works_from.take().map_or(0, |from| now.saturating_sub(from));
            }
            Decision::Stop { job, .. } => {
                self.figures[3] += 1;
                self.end(now, job.0 as usize);
            }
            Decision::Promise { job, .. } => {
                self.promised[job.0 as usize] = true;
                self.open += 1;
            }
            Decision::Refuse { .. } => {}
            Decision::Break { job, .. } => {
                self.owed[job.0 as usize] = true;
                self.figures[1] += 1;
            }
        }
    }

    fn end(&mut self, now: u64, place: usize) {
        self.state[place].1 = None;
        self.open -= 1;
        if now > self.wishes[place].by && !self.owed[place] {
            self.figures[2] += 1;
        }
    }

    fn finish(&mut self, now: u64) {
        while let Some(Reverse((end, place, starts))) = self.ends.peek().copied() {
            if end > now {
                break;
            }
            self.ends.pop();
            if self.state[place].2 == starts && self.state[place].1.is_some() {
                let job = JobNumber(place as u64);
                self.tell(end, Event::JobFinished(job));
                self.end(end, place);
                self.tell(end, Event::JobSettled(job));
            }
        }
    }

    /// A machine is gone: what ran there goes on from its last checkpoint some day.
    fn fail(&mut self, now: u64, node: u32) {
        self.figures[0] += 1;
        for (place, state) in self.state.iter_mut().enumerate() {
            let held = self.queue.board().held(place as u64).unwrap_or_default();
            if held.iter().any(|part| part.node == node) {
                state.1 = None;
            }
        }
        self.tell(now, Event::NodeLeft(NodeNumber(node)));
    }

    fn figures(&self, wishes: &[Wish]) -> Figures {
        let offline = offline(wishes);
        let hours = |chosen: &[bool]| -> f64 {
            let chosen = wishes.iter().zip(chosen).filter(|(_, chosen)| **chosen);
            chosen.map(|(wish, _)| wish.ask.limit.get() as f64 * f64::from(wish.ask.devices)).sum()
        };
        let count = |chosen: &[bool]| chosen.iter().filter(|chosen| **chosen).count();
        let (promised, offline_edf) = (count(&self.promised), count(&offline));
        let [node_failures, compensated, broken, stopped] = self.figures;
        Figures {
            jobs: wishes.len(),
            promised,
            offline_edf,
            accepted_pct: 100.0 * promised as f64 / offline_edf as f64,
            accepted_gpu_hours_pct: 100.0 * hours(&self.promised) / hours(&offline),
            node_failures,
            compensated,
            broken,
            stopped,
        }
    }
}

/// Which jobs preemptive EDF gets done in time, with true run times on one machine of all GPUs.
fn offline(wishes: &[Wish]) -> Vec<bool> {
    let gpus = u32::from(NODE_SIZE) * NODES;
    let mut met = vec![false; wishes.len()];
    let mut open: Vec<(u64, usize, u64)> = Vec::new();
    let (mut next, mut now) = (0, 0);
    while next < wishes.len() || !open.is_empty() {
        while wishes.get(next).is_some_and(|wish| wish.at <= now) {
            let left = wishes[next].duration.min(wishes[next].ask.limit.get());
            open.push((wishes[next].by, next, left));
            next += 1;
        }
        open.retain(|(by, _, left)| now + left <= *by);
        open.sort_unstable();
        let mut free = gpus;
        for (_, place, left) in &mut open {
            let devices = u32::from(wishes[*place].ask.devices);
            if devices <= free {
                free -= devices;
                *left = left.saturating_sub(ROUND);
                met[*place] = *left == 0;
            }
        }
        open.retain(|(.., left)| *left > 0);
        now += ROUND;
    }
    met
}
