//! The order: who is next when there is not room for all.
//!
//! A job's key is a sum of logarithms: of the time to its deadline, of a share of its size, of what
//! it pays; the least goes first. The nearer the deadline the more it counts, so the order is that
//! of deadlines when time is short, and prefers small jobs as long as it is not. A deadline counts
//! as much as the chance that it is met: the time to it is divided by this chance, and one that
//! cannot be met any more does not count at all. In overload, who will be late must not make others
//! late too. Waiting lowers keys, and what an owner has had raises them.

use super::board::Holder;
use super::event::{Deadline, OwnerNumber};
use super::learn::CERTAIN;
use super::state::{Entry, Queue, SIZES};
use crate::logarithm::{ONE, log2};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Waiting jobs looked at in one round of a pool at most; the order decides which.
const LOOKS_MAX: usize = 4_096;
/// Keys that time changes are made anew when this share of the time to the deadline has passed.
const REKEY_DIVISOR: u64 = 16;
/// Jobs whose keys are made anew in one round at most; the rest follow in the next.
const REKEYS_MAX: usize = 8_192;
/// A job without a deadline counts as one that is wanted in so many octaves more than it takes.
const STRETCH: i64 = 2 * ONE;
/// A job that is too late counts as one that is wanted in so many octaves more than it takes.
const LOST: i64 = 4 * ONE;
/// One step of priority, in octaves.
const PRIORITY: i64 = 2 * ONE;
/// When a key has to be looked at that time does not change.
const NEVER: u64 = u64::MAX;

impl Queue {
    /// A job's place in the order, without what its owner has had.
    pub(crate) fn key(&self, entry: &Entry, now: u64) -> i64 {
        let is_restarted = entry.has_run && entry.running.is_none();
        let restart = if is_restarted { self.settings.restart.get() } else { 0 };
        let ahead = match entry.ask.deadline {
            Deadline::None => None,
            Deadline::Aim(by) | Deadline::Promise(by) => Some(by.get().saturating_sub(now)),
        };
        let within = ahead.map_or(u64::MAX, |ahead| ahead.saturating_sub(restart));
        let outlook = self.outlook_within(entry, entry.pool, entry.progress(now), within);
        let size = log2(outlook.mean.saturating_mul(u64::from(entry.ask.devices)));
        let left = log2(outlook.rank);
        // Waiting lowers keys. What is added here instead is the time from which that counts.
        let (ahead, since) = match ahead {
            None => (left + STRETCH, entry.queued),
            Some(_) if outlook.chance == 0 => (left + LOST, entry.queued),
            Some(ahead) => (log2(ahead) + log2(CERTAIN) - log2(outlook.chance), now),
        };
        let share = i64::from(self.settings.size_percent) * self.certainty() / 1_024;
        let paid = log2(u64::from(entry.ask.bid_percent.max(1)))
            + PRIORITY * i64::from(entry.ask.priority);
        let age = u128::from(since) * ONE as u128 / u128::from(self.settings.age.get().max(1));
        let age = i64::try_from(age).unwrap_or(i64::MAX / 2);
        (ahead + size * share / 100 - paid).saturating_add(age)
    }

    /// How far sizes can be trusted, in 1/1,024: not at all if they scatter by a third of an
    /// octave.
    fn certainty(&self) -> i64 {
        let scatter = if self.settings.is_learning { self.learned.scatter() } else { 0 };
        (1_024 - scatter * 8 / 64).max(0)
    }

    /// What an owner has had, as octaves.
    pub(crate) fn charge(&self, owner: OwnerNumber, pool: u16) -> i64 {
        let used = self.owners.get(&owner.0).map_or(0, |owner| owner.used);
        let devices = self.board.pool(pool).devices.max(1);
        let whole = u128::from(self.settings.fairness.get().max(1)) * u128::from(devices);
        i64::try_from(u128::from(used) * ONE as u128 / whole).unwrap_or(i64::MAX / 2)
    }

    /// When the place of a waiting job has to be looked at again.
    fn due_again(&self, entry: &Entry) -> u64 {
        match entry.ask.deadline {
            Deadline::None => NEVER,
            Deadline::Aim(by) | Deadline::Promise(by) => {
                let now = self.now();
                let ahead = by.get().saturating_sub(now);
                if ahead == 0 {
                    return NEVER;
                }
                now + (ahead / REKEY_DIVISOR).max(self.settings.round.get())
            }
        }
    }

    /// Makes keys anew that time has changed.
    pub(crate) fn rekey(&mut self) {
        let due = self.due.range((0, 0)..=(self.now(), u64::MAX));
        let due: Vec<u64> = due.take(REKEYS_MAX).map(|((_, job), ())| *job).collect();
        for job in due {
            self.unwait(job);
            self.wait(job);
        }
    }

    /// A running job and its key now.
    pub(crate) fn holder(&self, job: u64) -> Holder {
        let now = self.now();
        let key = self.jobs.get(&job).map_or(0, |entry| {
            self.key(entry, now).saturating_add(self.charge(entry.ask.owner, entry.pool))
        });
        Holder { key, job }
    }

    /// Waiting jobs of a pool, the most urgent first: the owners' orders merged.
    pub(crate) fn ordered(&self, pool: u16) -> Vec<(i64, u64)> {
        let mut heads = BinaryHeap::new();
        let next = |owner: u32, key: i64, job: u64| {
            let rest = (pool, owner, key, job)..=(pool, owner, i64::MAX, u64::MAX);
            self.waiting.range(rest).next().map(|((.., key, job), ())| (*key, *job))
        };
        let mut owner = Some(0);
        while let Some(least) = owner {
            let rest = (pool, least, i64::MIN, 0)..=(pool, u32::MAX, i64::MAX, u64::MAX);
            let Some(((_, found, key, job), ())) = self.waiting.range(rest).next() else { break };
            let charge = self.charge(OwnerNumber(*found), pool);
            heads.push(Reverse((key.saturating_add(charge), *job, *found, *key, charge)));
            owner = found.checked_add(1);
        }
        let mut ordered = Vec::new();
        while let Some(Reverse((urgency, job, owner, key, charge))) = heads.pop() {
            ordered.push((urgency, job));
            if ordered.len() >= LOOKS_MAX {
                break;
            }
            if let Some((key, job)) = next(owner, key, job + 1) {
                heads.push(Reverse((key.saturating_add(charge), job, owner, key, charge)));
            }
        }
        ordered
    }

    /// Puts a job among those that wait.
    pub(crate) fn wait(&mut self, job: u64) {
        let now = self.now();
        let Some(entry) = self.jobs.get(&job) else { return };
        let key = self.key(entry, now);
        let outlook = self.outlook(entry, entry.pool, entry.done);
        let backlog = outlook.mean.saturating_mul(u64::from(entry.ask.devices));
        let size = (backlog.max(1).ilog2() as u8).min(SIZES as u8 - 1);
        let (pool, owner) = (entry.pool, entry.ask.owner.0);
        let due = self.due_again(entry);
        self.jobs.change(&job, |entry| {
            entry.due = due;
            entry.key = key;
            entry.size = size;
            entry.backlog = backlog;
        });
        self.waiting.insert((pool, owner, key, job), ());
        self.due.insert((due, job), ());
        let sum = self.backlog.get(&(pool, size)).copied().unwrap_or(0);
        self.backlog.insert((pool, size), sum.saturating_add(backlog));
    }

    /// Takes a job from those that wait.
    pub(crate) fn unwait(&mut self, job: u64) {
        let Some(entry) = self.jobs.get(&job) else { return };
        let place = (entry.pool, entry.ask.owner.0, entry.key, job);
        if self.waiting.remove(&place).is_some() {
            let due = entry.due;
            let (pool, size, backlog) = (entry.pool, entry.size, entry.backlog);
            let sum = self.backlog.get(&(pool, size)).copied().unwrap_or(0);
            self.backlog.insert((pool, size), sum.saturating_sub(backlog));
            self.due.remove(&(due, job));
        }
    }
}
