//! Our queue, as the network runs it, driven by a replay.

use super::replay::{Act, Policy};
use super::trace::Job;
use tg_scheduler::queue::{
    Ask, Deadline, Decision, Event, JobNumber, NodeNumber, OwnerNumber, PoolNumber, PoolSet, Queue,
    Settings,
};
use tg_types::{DurationMs, Tick};

/// How long a job may run: as long as the longest recorded one.
const LIMIT: DurationMs = DurationMs::new(7 * DurationMs::DAY.get());

/// Our queue.
pub(super) struct Ours {
    queue: Queue,
    /// Sum of the absolute error of what was expected of jobs when they came, and of the estimates
    /// they came with; over all jobs that are done.
    pub(super) expected: Vec<u64>,
}

impl Ours {
    /// A queue with machines of some GPUs each.
    pub(super) fn new(gpus: u32, per_node: u16, settings: Settings) -> Self {
        let mut queue = Queue::new(settings);
        let (mut left, mut node) = (gpus, 0);
        while left > 0 {
            let size = left.min(u32::from(per_node)) as u16;
            let joined = Event::NodeJoined(NodeNumber(node), PoolNumber(0), size);
            queue.apply(Tick::ZERO, joined).expect("machines are new");
            (left, node) = (left - u32::from(size), node + 1);
        }
        Self { queue, expected: Vec::new() }
    }

    fn apply(&mut self, now: u64, event: Event) -> Vec<Decision> {
        let decisions = self.queue.apply(Tick::new(now), event);
        decisions.expect("the replay tells what happened, in order")
    }
}

impl Policy for Ours {
    fn queued(&mut self, now: u64, place: usize, job: &Job) {
        let ask = Ask {
            owner: OwnerNumber(0),
            devices: job.gpus,
            pools: PoolSet::ALL,
            program: 0,
            limit: LIMIT,
            estimate: DurationMs::new(job.estimate),
            deadline: Deadline::Aim(Tick::new(job.deadline)),
            bid_percent: 100,
            priority: 0,
            is_resumable: true,
        };
        self.expected.push(self.queue.expected_run(&ask, PoolNumber(0)).get());
        self.apply(now, Event::JobQueued(JobNumber(place as u64), ask));
    }

    fn finished(&mut self, now: u64, place: usize) {
        let job = JobNumber(place as u64);
        self.apply(now, Event::JobFinished(job));
        self.apply(now, Event::JobSettled(job));
    }

    fn round(&mut self, now: u64) -> Vec<Act> {
        let decisions = self.apply(now, Event::RoundBegan);
        self.queue.settle();
        let acts = decisions.into_iter().filter_map(|decision| match decision {
            Decision::Start { job, .. } => Some(Act::Start(job.0 as usize)),
            Decision::Preempt { job } => Some(Act::Preempt(job.0 as usize)),
            Decision::Stop { .. }
            | Decision::Promise { .. }
            | Decision::Refuse { .. }
            | Decision::Break { .. } => None,
        });
        acts.collect()
    }
}
