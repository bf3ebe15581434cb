//! The threads of a runner.
//!
//! The caller's thread is one of them: it starts at once, the others join in when they wake up, and
//! all take items from one queue until it is empty. So a late helper costs little, and the observer
//! of a run stays on the thread that gave it. Who does an item makes no difference to its bits.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Mutex, PoisonError};

/// The most threads of a team. More cores than this in one machine are better used by more runs.
pub(super) const THREADS_MAX: usize = 256;

/// Work, in units of about a thousandth of a microsecond, below which waking another thread does
/// not pay: a wake-up takes 5 to 50 microseconds.
pub(super) const HELPER_WORK_MIN: u64 = 30_000;

/// Pieces per thread that work is cut into, so that a thread that came late leaves less for the
/// others to wait for.
pub(super) const PIECES: usize = 4;

/// The caller's thread and its helpers.
#[derive(Debug)]
pub(super) struct Team {
    helpers: Option<ThreadPool>,
    members: usize,
    helper_work_min: u64,
}

impl Team {
    /// A team of this many threads, the caller's included; 0 is one for each core. If the system
    /// gives no threads, the caller's works alone: later, but to the same bits.
    pub(super) fn new(threads: usize) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let members = if threads == 0 { cores() } else { threads }.min(THREADS_MAX);
        let name = |index| format!("tensor-{index}");
        let build =
            || ThreadPoolBuilder::new().num_threads(members - 1).thread_name(name).build().ok();
        match if members > 1 { build() } else { None } {
            Some(pool) => Self { helpers: Some(pool), members, helper_work_min: HELPER_WORK_MIN },
            None => Self { helpers: None, members: 1, helper_work_min: HELPER_WORK_MIN },
        }
    }

    /// Spreads even the smallest work, so that tests see all of it spread.
    #[cfg(test)]
    pub(super) fn make_eager(&mut self) {
        self.helper_work_min = 1;
    }

    /// How many threads there are.
    pub(super) fn members(&self) -> usize {
        self.members
    }

    /// How many threads are worth their while for this much work (see [`HELPER_WORK_MIN`]).
    pub(super) fn ways(&self, work: u64) -> usize {
        let worthwhile = usize::try_from(work / self.helper_work_min).unwrap_or(usize::MAX);
        worthwhile.clamp(1, self.members)
    }

    /// How many of `all` things a piece has; at most `max`.
    pub(super) fn piece(&self, ways: usize, all: usize, max: usize) -> usize {
        if ways == 1 { max } else { all.div_ceil(ways * PIECES).clamp(1, max) }
    }

    /// Does all items, on `ways` threads. Each thread has a scratch of its own; there is one for
    /// each member.
    pub(super) fn share<S: Send, I: Iterator + Send>(
        &self,
        ways: usize,
        scratch: &mut [S],
        items: I,
        work: impl Fn(&mut S, I::Item) + Sync,
    ) {
        let (own, others) = scratch.split_first_mut().expect("a team has a member");
        match &self.helpers {
            Some(pool) if ways > 1 => {
                let queue = Mutex::new(items);
                let (queue, work) = (&queue, &work);
                pool.in_place_scope(|scope| {
                    for other in others.iter_mut().take(ways - 1) {
                        scope.spawn(move |_| drain(queue, other, work));
                    }
                    drain(queue, own, work);
                });
            }
            Some(_) | None => items.for_each(|item| work(own, item)),
        }
    }
}

/// Takes items until there are none.
fn drain<S, I: Iterator>(queue: &Mutex<I>, scratch: &mut S, work: &impl Fn(&mut S, I::Item)) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(item) = next else { return };
        work(scratch, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_of_any_number_of_threads_does_every_item_once() {
        for threads in 1..5 {
            let team = Team::new(threads);
            let mut scratch = vec![0_u64; team.members()];
            let mut out = vec![0_u64; 1_000];
            team.share(team.members(), &mut scratch, out.iter_mut().enumerate(), |seen, item| {
                *item.1 += item.0 as u64;
                *seen += 1;
            });
            assert_eq!(out, (0..1_000).collect::<Vec<_>>());
            assert_eq!(scratch.iter().sum::<u64>(), 1_000);
        }
    }

    #[test]
    fn ways_of_little_work_is_one() {
        let team = Team::new(3);
        assert_eq!(team.ways(HELPER_WORK_MIN), 1);
        assert_eq!(team.ways(u64::MAX), 3);
    }
}
