//! What learning is worth: jobs of unlike programs on unlike machines, some of which fail.

use super::trace::Draws;
use serde::Serialize;
use std::{cmp::Reverse, collections::BinaryHeap};
use tg_scheduler::queue::{
    Ask, Deadline, Decision, Event, JobNumber, NodeNumber, OwnerNumber, PoolNumber, PoolSet, Queue,
    Settings,
};
use tg_types::{DurationMs, Tick};

/// Kinds of GPUs, machines of each kind, GPUs of each machine.
const POOLS: u16 = 4;
const NODES: u32 = 12;
const NODE_SIZE: u16 = 4;
/// Kinds of programs.
const PROGRAMS: usize = 12;
/// One machine in so many fails jobs, with this chance each.
const FLAKY_EVERY: u32 = 8;
const FAILS: f64 = 0.3;
const ROUND: u64 = 60_000;
const LOAD: f64 = 0.85;

/// What was measured.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Figures {
    /// Mean job completion time.
    pub(super) mean_jct_s: f64,
    /// Mean of how far the expected run time was off when a job started for the last time.
    pub(super) mean_error_s: f64,
    /// Runs that failed.
    pub(super) failures: f64,
}

/// A mix of jobs and machines.
struct Mix {
    /// How much longer than said a program takes on a kind of GPU.
    factors: Vec<[f64; POOLS as usize]>,
    jobs: Vec<(u64, Ask, f64)>,
}

impl Mix {
    /// Programs suit kinds of GPUs more or less, and their authors estimate well or badly.
    fn new(jobs: usize, seed: u64) -> Self {
        let mut draws = Draws::new(seed);
        let factors: Vec<[f64; POOLS as usize]> = (0..PROGRAMS)
            .map(|_| {
                let bias = 2.0_f64.powf(draws.normal());
                [0; POOLS as usize].map(|_| bias * 2.0_f64.powf(draws.normal()))
            })
            .collect();
        let gpus = f64::from(POOLS) * f64::from(NODES) * f64::from(NODE_SIZE);
        let (mut at, mut list) = (0.0, Vec::new());
        for _ in 0..jobs {
            let program = draws.below(PROGRAMS);
            let estimate = (900.0 * (1.2 * draws.normal()).exp()).clamp(60.0, 86_400.0);
            let devices = [1, 1, 1, 2, 4][draws.below(5)];
            let noise = (0.2 * draws.normal()).exp();
            let mean = factors[program].iter().sum::<f64>() / f64::from(POOLS);
            at += estimate * mean * f64::from(devices) / (gpus * LOAD);
            let ask = Ask {
                owner: OwnerNumber(0),
                devices,
                pools: PoolSet::ALL,
                program: program as u32,
                limit: DurationMs::new(30 * DurationMs::DAY.get()),
                estimate: DurationMs::new((estimate * 1_000.0) as u64),
                deadline: Deadline::None,
                bid_percent: 100,
                priority: 0,
                is_resumable: true,
            };
            list.push(((at * 1_000.0) as u64, ask, noise));
        }
        Self { factors, jobs: list }
    }
}

/// Runs a mix with or without learning. Both meet the same jobs, machines and failures.
pub(super) fn measure(jobs: usize, seed: u64, is_learning: bool) -> Figures {
    let mix = Mix::new(jobs, seed);
    let mut queue = Queue::new(Settings { is_learning, ..Settings::default() });
    for node in 0..u32::from(POOLS) * NODES {
        let pool = PoolNumber((node / NODES) as u16);
        let joined = Event::NodeJoined(NodeNumber(node), pool, NODE_SIZE);
        queue.apply(Tick::ZERO, joined).expect("machines are new");
    }
    let mut run = Run {
        queue,
        mix: &mix,
        state: vec![State::default(); jobs],
        ends: BinaryHeap::new(),
        draws: Draws::new(seed.wrapping_add(5)),
        figures: Figures::default(),
        open: 0,
    };
    let (mut next, mut now) = (0, 0);
    while next < jobs || run.open > 0 {
        run.finish(now);
        while mix.jobs.get(next).is_some_and(|(at, ..)| *at <= now) {
            run.tell(now, Event::JobQueued(JobNumber(next as u64), mix.jobs[next].1));
            (next, run.open) = (next + 1, run.open + 1);
        }
        run.tell(now, Event::RoundBegan);
        run.queue.settle();
        now += ROUND;
    }
    let count = jobs as f64;
    let Figures { mean_jct_s, mean_error_s, failures } = run.figures;
    Figures { mean_jct_s: mean_jct_s / count, mean_error_s: mean_error_s / count, failures }
}

#[derive(Clone, Copy, Default)]
struct State {
    /// Share of the work that is done.
    done: f64,
    works_from: Option<u64>,
    starts: u32,
    /// All of the work on the machine where it runs.
    whole: f64,
    will_fail: bool,
    expected: f64,
}

struct Run<'a> {
    queue: Queue,
    mix: &'a Mix,
    state: Vec<State>,
    ends: BinaryHeap<Reverse<(u64, usize, u32)>>,
    draws: Draws,
    figures: Figures,
    open: usize,
}

impl Run<'_> {
    fn tell(&mut self, now: u64, event: Event) {
        let decisions = self.queue.apply(Tick::new(now), event);
        for decision in decisions.expect("the run tells what happened, in order") {
            match decision {
                Decision::Start { job, parts, .. } => {
                    let nodes: Vec<u32> = parts.iter().map(|(node, _)| node.0).collect();
                    self.start(now, job.0 as usize, &nodes);
                }
                Decision::Preempt { job } => {
                    let state = &mut self.state[job.0 as usize];
                    let from = state.works_from.take().unwrap_or(now);
                    state.done += now.saturating_sub(from) as f64 / state.whole;
                }
                Decision::Stop { .. }
                | Decision::Promise { .. }
                | Decision::Refuse { .. }
                | Decision::Break { .. } => {}
            }
        }
    }

    fn start(&mut self, now: u64, place: usize, nodes: &[u32]) {
        let (_, ask, noise) = &self.mix.jobs[place];
        let pool = nodes.first().map_or(0, |node| node / NODES) as u16;
        let factor = self.mix.factors[ask.program as usize][usize::from(pool)];
        let whole = ask.estimate.get() as f64 * factor * noise;
        let is_flaky = nodes.iter().any(|node| node % FLAKY_EVERY == 0);
        let draw = self.draws.unit();
        let state = &mut self.state[place];
        let from = now + if state.starts > 0 { ROUND } else { 0 };
        let left = whole * (1.0 - state.done).max(0.0);
        state.will_fail = is_flaky && draw < FAILS;
        // Who fails does so half way.
        let end = from + (if state.will_fail { left / 2.0 } else { left }) as u64 + 1;
        (state.works_from, state.starts, state.whole) = (Some(from), state.starts + 1, whole);
        state.expected = self.queue.expected_run(ask, PoolNumber(pool)).get() as f64;
        self.ends.push(Reverse((end, place, state.starts)));
    }

    fn finish(&mut self, now: u64) {
        while let Some(Reverse((end, place, starts))) = self.ends.peek().copied() {
            if end > now {
                break;
            }
            self.ends.pop();
            let state = &mut self.state[place];
            if state.starts != starts || state.works_from.is_none() {
                continue;
            }
            state.works_from = None;
            let job = JobNumber(place as u64);
            if state.will_fail {
                self.figures.failures += 1.0;
                self.tell(end, Event::JobFailed(job));
                continue;
            }
            self.figures.mean_error_s += (state.expected - state.whole).abs() / 1_000.0;
            self.figures.mean_jct_s += (end - self.mix.jobs[place].0) as f64 / 1_000.0;
            self.open -= 1;
            self.tell(end, Event::JobFinished(job));
            self.tell(end, Event::JobSettled(job));
        }
    }
}
