//! The policies of the literature, on the same board and in the same rounds as ours.

use super::replay::{Act, Policy};
use super::trace::Job;
use std::collections::BTreeMap;
use tg_scheduler::queue::{Board, Holder};

/// In which order jobs get GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    /// As they came; nobody overtakes.
    Fifo,
    /// As they came; whoever fits may overtake.
    Backfill,
    /// The least remaining time times GPUs first.
    Srsf,
    /// The nearest deadline first.
    Edf,
    /// The least GPU-time had first, by classes of four times as much each; in a class as they came
    /// (Tiresias).
    Las,
    /// The logarithms of the remaining GPU-time and of the time to the deadline, the second with
    /// this weight: 0 is SRSF, 1 is EDF.
    Mixed(f64),
    /// The remaining GPU-time and the time to the deadline themselves, each over its mean.
    MixedLinear(f64),
}

impl Order {
    fn preempts(self) -> bool {
        !matches!(self, Self::Fifo | Self::Backfill)
    }
}

/// The first class of LAS ends here, in GPU-milliseconds.
const LAS_FIRST: u64 = 1_000_000;

#[derive(Clone, Copy)]
struct Known {
    gpus: u16,
    submitted: u64,
    deadline: u64,
    estimate: u64,
    done: u64,
    works_from: Option<u64>,
    has_run: bool,
}

/// A policy of the literature.
pub(super) struct Rod {
    order: Order,
    restart: u64,
    board: Board,
    waiting: BTreeMap<usize, Known>,
    running: BTreeMap<usize, Known>,
    /// Sums of GPU-time and of time to the deadline over all jobs so far, and their number.
    means: (f64, f64, f64),
}

impl Rod {
    /// A policy on a board.
    pub(super) fn new(order: Order, board: Board, restart: u64) -> Self {
        let (waiting, running) = (BTreeMap::new(), BTreeMap::new());
        Self { order, restart, board, waiting, running, means: (0.0, 0.0, 0.0) }
    }

    fn key(&self, job: &Known, now: u64) -> i64 {
        let done = job.done + job.works_from.map_or(0, |from| now.saturating_sub(from));
        let left = job.estimate.saturating_sub(done).max(1_000);
        let service = (left * u64::from(job.gpus)) as f64;
        let ahead = job.deadline.saturating_sub(now).max(1_000) as f64;
        let key = match self.order {
            Order::Fifo | Order::Backfill => job.submitted as f64,
            Order::Srsf => service,
            Order::Edf => job.deadline as f64,
            Order::Las => {
                let had = (done * u64::from(job.gpus)) / LAS_FIRST;
                let class = (had + 1).ilog2() / 2;
                f64::from(class) * 1e13 + job.submitted as f64
            }
            Order::Mixed(weight) => ((1.0 - weight) * service.ln() + weight * ahead.ln()) * 1e12,
            Order::MixedLinear(weight) => {
                let (services, aheads, count) = self.means;
                let mixed = (1.0 - weight) * service / (services / count);
                // Late jobs stay in the order of their deadlines.
                let ahead = job.deadline as f64 - now as f64;
                (mixed + weight * ahead / (aheads / count)) * 1e9
            }
        };
        key as i64
    }

    fn start(&mut self, now: u64, place: usize, parts: Vec<tg_scheduler::queue::Part>) {
        let Some(mut job) = self.waiting.remove(&place) else { return };
        self.board.take(place as u64, parts);
        let cost = if job.has_run { self.restart } else { 0 };
        (job.works_from, job.has_run) = (Some(now + cost), true);
        self.running.insert(place, job);
    }

    fn stop(&mut self, now: u64, place: usize) {
        let Some(mut job) = self.running.remove(&place) else { return };
        self.board.give(place as u64);
        job.done += job.works_from.take().map_or(0, |from| now.saturating_sub(from));
        self.waiting.insert(place, job);
    }

    fn fill(&mut self, now: u64, preempts: bool, acts: &mut Vec<Act>) {
        let sorted = |jobs: &BTreeMap<usize, Known>, rod: &Self| {
            let keys = jobs.iter().map(|(place, job)| (rod.key(job, now), *place, job.gpus));
            let mut keys: Vec<(i64, usize, u16)> = keys.collect();
            keys.sort_unstable();
            keys
        };
        let waiting = sorted(&self.waiting, self);
        let mut holders: Vec<Holder> = Vec::new();
        if preempts {
            let running = sorted(&self.running, self).into_iter();
            holders = running.map(|(key, job, _)| Holder { key, job: job as u64 }).collect();
        }
        let mut too_wide = u16::MAX;
        for (key, place, gpus) in waiting {
            if gpus >= too_wide {
                continue;
            }
            let mut victims = Vec::new();
            let mut parts = self.board.room(0, gpus, |_| true);
            if parts.is_none() && preempts {
                let opening = self.board.clear(0, (gpus, key), &holders, |_| true);
                if let Some(opening) = opening {
                    victims = opening.victims;
                    parts = Some(opening.parts);
                }
            }
            let Some(parts) = parts else {
                if self.order == Order::Fifo {
                    break;
                }
                too_wide = gpus;
                continue;
            };
            holders.retain(|holder| !victims.contains(&holder.job));
            for victim in victims {
                self.stop(now, victim as usize);
                acts.push(Act::Preempt(victim as usize));
            }
            self.start(now, place, parts);
            acts.push(Act::Start(place));
        }
    }
}

impl Policy for Rod {
    fn queued(&mut self, _now: u64, place: usize, job: &Job) {
        let service = (job.estimate * u64::from(job.gpus)) as f64;
        self.means.0 += service;
        self.means.1 += (job.deadline - job.submitted) as f64;
        self.means.2 += 1.0;
        let known = Known {
            gpus: job.gpus,
            submitted: job.submitted,
            deadline: job.deadline,
            estimate: job.estimate,
            done: 0,
            works_from: None,
            has_run: false,
        };
        self.waiting.insert(place, known);
    }

    fn finished(&mut self, _now: u64, place: usize) {
        self.running.remove(&place);
        self.board.give(place as u64);
    }

    fn round(&mut self, now: u64) -> Vec<Act> {
        let mut acts = Vec::new();
        if !self.waiting.is_empty() {
            self.fill(now, self.order.preempts(), &mut acts);
            if self.order.preempts() && self.board.pool(0).free > 0 {
                self.fill(now, false, &mut acts);
            }
        }
        self.board.settle();
        acts
    }
}
