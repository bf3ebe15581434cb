//! Time passes: jobs come, run and end as their true durations say, which no policy knows.

use super::trace::Job;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a policy wants done in a round.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// A job starts, or goes on.
    Start(usize),
    /// A job is interrupted.
    Preempt(usize),
}

/// Who decides. Jobs are named by their place in the list.
pub(super) trait Policy {
    /// A job came.
    fn queued(&mut self, now: u64, place: usize, job: &Job);
    /// A job is done.
    fn finished(&mut self, now: u64, place: usize);
    /// A round begins.
    fn round(&mut self, now: u64) -> Vec<Act>;
}

/// What time costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Between two rounds, in milliseconds.
    pub(super) round: u64,
    /// What an interruption costs.
    pub(super) restart: u64,
}

/// How a replay went.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// When each job was done.
    pub(super) finished: Vec<u64>,
    /// Longest wait for the first start, in milliseconds.
    pub(super) wait_max: u64,
    /// Interruptions.
    pub(super) preemptions: u64,
    /// Most interruptions of one job.
    pub(super) preemptions_max: u32,
    /// Useful device-milliseconds until the last job came.
    pub(super) useful: u128,
    /// When the last job came.
    pub(super) last: u64,
}

#[derive(Clone, Copy, Default)]
struct Progress {
    done: u64,
    works_from: Option<u64>,
    starts: u32,
    interruptions: u32,
}

/// Replays jobs, sorted by their submission.
pub(super) fn replay(jobs: &[Job], clock: Clock, policy: &mut impl Policy) -> Outcome {
    let mut state = vec![Progress::default(); jobs.len()];
    let last = jobs.last().map_or(0, |job| job.submitted);
    let mut outcome = Outcome { finished: vec![0; jobs.len()], last, ..Outcome::default() };
    let mut ends: BinaryHeap<Reverse<(u64, usize, u32)>> = BinaryHeap::new();
    let (mut next, mut open, mut now) = (0, 0_usize, 0);
    while next < jobs.len() || open > 0 {
        if open == 0 {
            now = now.max(jobs[next].submitted.next_multiple_of(clock.round));
        }
        // What has happened since the last round, in its order.
        loop {
            let coming = jobs.get(next).map(|job| job.submitted).filter(|time| *time <= now);
            let ending = ends.peek().map(|Reverse((time, ..))| *time).filter(|time| *time <= now);
            match (coming, ending) {
                (Some(coming), ending) if ending.is_none_or(|ending| coming < ending) => {
                    policy.queued(coming, next, &jobs[next]);
                    (next, open) = (next + 1, open + 1);
                }
                (_, Some(time)) => {
                    let Some(Reverse((_, place, starts))) = ends.pop() else { break };
                    let progress = &mut state[place];
                    if progress.starts == starts && progress.works_from.is_some() {
                        useful(&mut outcome, &jobs[place], progress, time);
                        progress.works_from = None;
                        outcome.finished[place] = time;
                        open -= 1;
                        policy.finished(time, place);
                    }
                }
                (_, None) => break,
            }
        }
        for act in policy.round(now) {
            match act {
                Act::Start(place) => {
                    let progress = &mut state[place];
                    let cost = if progress.starts > 0 { clock.restart } else { 0 };
                    if progress.starts == 0 {
                        outcome.wait_max = outcome.wait_max.max(now - jobs[place].submitted);
                    }
                    progress.starts += 1;
                    progress.works_from = Some(now + cost);
                    let end = now + cost + (jobs[place].duration - progress.done);
                    ends.push(Reverse((end, place, progress.starts)));
                }
                Act::Preempt(place) => {
                    let progress = &mut state[place];
                    useful(&mut outcome, &jobs[place], progress, now);
                    let from = progress.works_from.take().unwrap_or(now);
                    progress.done += now.saturating_sub(from);
                    progress.interruptions += 1;
                    outcome.preemptions += 1;
                    outcome.preemptions_max = outcome.preemptions_max.max(progress.interruptions);
                }
            }
        }
        now += clock.round;
    }
    outcome
}

/// Counts what a job has done until now, as far as it lies before the last submission.
fn useful(outcome: &mut Outcome, job: &Job, progress: &Progress, now: u64) {
    let from = progress.works_from.unwrap_or(now);
    let run = now.min(outcome.last).saturating_sub(from);
    outcome.useful += u128::from(run) * u128::from(job.gpus);
}
