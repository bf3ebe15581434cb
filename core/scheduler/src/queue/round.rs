//! What is decided in a round: slots that begin, jobs that cannot wait, then the order.

use super::board::{Holder, Opening, Part};
use super::event::{Deadline, Decision, JobNumber, PoolNumber, Stop};
use super::state::{Entry, Queue, Slot};
use super::timetable::Span;
use crate::logarithm::ONE;

/// Jobs looked at for having waited too long in one round.
const PATIENCE_LOOKS_MAX: usize = 512;
/// Slots given in one round to jobs that have waited too long.
const PATIENCE_SLOTS_MAX: usize = 8;
/// Jobs of other pools looked at for devices that would stay idle.
const STEAL_LOOKS_MAX: usize = 64;
/// How much longer a job may take in another pool than in its own to be moved there.
const STEAL_TIMES: u64 = 2;
/// Who takes another's devices must be ahead by this share of an octave: it costs a restart.
const LEAD_DIVISOR: i64 = 16;

/// How a job may be started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// It can be interrupted again.
    Free,
    /// It has to be left alone until it is done.
    Pinned,
    /// Only when its slot begins.
    InSlot,
}

impl Queue {
    /// Decides everything that can be decided now.
    pub(crate) fn round(&mut self, out: &mut Vec<Decision>) {
        self.stop(out);
        self.rekey();
        self.begin_slots(out);
        for pool in self.board.pools() {
            self.fill(pool, out);
        }
        for pool in self.board.pools() {
            self.steal(pool, out);
        }
        self.be_patient();
        self.forget();
    }

    /// Ends jobs that have run as long as declared.
    fn stop(&mut self, out: &mut Vec<Decision>) {
        let now = self.now();
        let over = |job: &u64| {
            let entry = self.jobs.get(job);
            entry.is_some_and(|entry| entry.progress(now) >= entry.ask.limit.get())
        };
        let running = self.running.iter().map(|((_, job), ())| *job);
        let over: Vec<u64> = running.filter(over).collect();
        for job in over {
            self.drop_job(job);
            out.push(Decision::Stop { job: JobNumber(job), reason: Stop::Limit });
        }
    }

    /// Starts whoever has a slot now and does not run, on the machines of the slot.
    fn begin_slots(&mut self, out: &mut Vec<Decision>) {
        let now = self.now();
        let mut todo = self.begun();
        while let Some(job) = todo.pop() {
            let Some(entry) = self.jobs.get(&job) else { continue };
            let Some(slot) = entry.slot_at(now).cloned() else { continue };
            if entry.running.is_some() {
                continue;
            }
            let is_pinned = !matches!(entry.ask.deadline, Deadline::Promise(_));
            if !is_pinned && !self.is_assured(entry) {
                // Rounds did not come in time. What is found now is assured, so this ends.
                self.rebook(job, out);
                todo.push(job);
                continue;
            }
            for part in &slot.parts {
                self.evict(*part, &mut todo, out);
            }
            let start = self.start(job, slot.parts, is_pinned);
            out.push(start);
        }
    }

    /// Makes room on a machine for a slot: whoever is there outside of an own slot goes.
    fn evict(&mut self, part: Part, todo: &mut Vec<u64>, out: &mut Vec<Decision>) {
        while self.board.free_on(part.node) < part.width {
            let on = self.board.jobs_on(part.node).into_iter();
            let loose = on.filter(|job| !self.is_in_slot(*job, part.node));
            let least = loose.max_by_key(|job| (self.holder(*job).key, *job));
            let Some(victim) = least else { break };
            self.preempt(victim, out);
            todo.push(victim);
        }
        assert!(self.board.free_on(part.node) >= part.width, "slots exceed a machine");
    }

    /// Whether a job runs in its own slot on a machine. A gang that was placed before may hold more
    /// of the machine than its slot has there: then it does not.
    fn is_in_slot(&self, job: u64, node: u32) -> bool {
        let slot = self.jobs.get(&job).and_then(|entry| entry.slot_at(self.now()));
        let Some(slot) = slot else { return false };
        let held = self.board.held(job).unwrap_or_default();
        let width = |parts: &[Part]| parts.iter().find(|part| part.node == node).map(|it| it.width);
        width(&slot.parts) >= width(held)
    }

    fn preempt(&mut self, job: u64, out: &mut Vec<Decision>) {
        self.release(job);
        self.jobs.change(&job, |entry| entry.preemptions += 1);
        self.wait(job);
        out.push(Decision::Preempt { job: JobNumber(job) });
    }

    /// Whoever runs in a pool and may be interrupted, the least urgent last.
    fn holders(&self, pool: u16) -> Vec<Holder> {
        let now = self.now();
        let running = self.running.range((pool, 0)..=(pool, u64::MAX));
        let may = running.map(|((_, job), ())| *job).filter(|job| {
            let entry = self.jobs.get(job);
            entry.is_some_and(|entry| {
                let is_pinned = entry.running.is_some_and(|running| running.is_pinned);
                !is_pinned && entry.slot_at(now).is_none()
            })
        });
        let mut holders: Vec<Holder> = may.map(|job| self.holder(job)).collect();
        holders.sort_unstable();
        holders
    }

    /// How a waiting job may be started outside of a slot.
    fn manner(&self, entry: &Entry) -> Manner {
        let left = self.settings.preemptions_max.saturating_sub(entry.preemptions);
        if entry.ask.is_resumable && usize::from(left) > entry.slots.len() {
            Manner::Free
        } else if entry.slots.is_empty() {
            Manner::Pinned
        } else {
            Manner::InSlot
        }
    }

    /// What a job that is left alone holds its devices for at most.
    fn hold(&self, entry: &Entry) -> u64 {
        let left = entry.ask.limit.get().saturating_sub(entry.done);
        left.saturating_add(self.slot_cost())
    }

    /// Starts a job as it may be, in free room or in room that others have to leave.
    fn place(
        &mut self,
        job: u64,
        lead: i64,
        holders: &mut Vec<Holder>,
        out: &mut Vec<Decision>,
    ) -> bool {
        let Some(entry) = self.jobs.get(&job) else { return false };
        let (pool, width, manner) = (entry.pool, entry.ask.devices, self.manner(entry));
        let hold = self.hold(entry);
        let may = |part: Part| match manner {
            Manner::Free => true,
            Manner::Pinned => self.may_pin(part, hold),
            Manner::InSlot => false,
        };
        let free = self.board.room(pool, width, may);
        let free = free.map(|parts| Opening { parts, victims: Vec::new() });
        let Some(opening) = free.or_else(|| self.board.clear(pool, (width, lead), holders, may))
        else {
            return false;
        };
        holders.retain(|holder| !opening.victims.contains(&holder.job));
        for victim in opening.victims {
            self.preempt(victim, out);
        }
        let is_pinned = manner == Manner::Pinned;
        if is_pinned {
            let now = self.now();
            let span = Span { from: now, to: now.saturating_add(hold) };
            let slot = Slot { span, parts: opening.parts.clone() };
            self.book(job, core::slice::from_ref(&slot));
            self.jobs.change(&job, |entry| entry.slots = vec![slot]);
        }
        let start = self.start(job, opening.parts, is_pinned);
        out.push(start);
        true
    }

    /// Starts jobs in their order, then fills what is left.
    fn fill(&mut self, pool: u16, out: &mut Vec<Decision>) {
        let lead = ONE / LEAD_DIVISOR;
        let mut holders = self.holders(pool);
        // A width that found no room finds none later: those behind are less urgent.
        let mut too_wide = u16::MAX;
        for (key, job) in self.ordered(pool) {
            let width = self.jobs.get(&job).map_or(0, |entry| entry.ask.devices);
            if width >= too_wide {
                continue;
            }
            let is_free = self.jobs.get(&job).map(|entry| self.manner(entry)) == Some(Manner::Free);
            let is_placed = self.place(job, key.saturating_add(lead), &mut holders, out);
            if !is_placed && is_free {
                too_wide = width;
                if too_wide <= 1 {
                    break;
                }
            }
        }
        if self.board.pool(pool).free > 0 {
            for (_, job) in self.ordered(pool) {
                let free = self.board.pool(pool).free;
                if free == 0 {
                    break;
                }
                let width = self.jobs.get(&job).map_or(u16::MAX, |entry| entry.ask.devices);
                if u32::from(width) <= free {
                    self.place(job, i64::MAX, &mut Vec::new(), out);
                }
            }
        }
    }

    /// Fills idle devices with jobs that wait for other pools.
    fn steal(&mut self, pool: u16, out: &mut Vec<Decision>) {
        if self.board.pool(pool).free == 0 {
            return;
        }
        for other in self.board.pools().into_iter().filter(|other| *other != pool) {
            let ordered = self.ordered(other).into_iter().take(STEAL_LOOKS_MAX);
            for (_, job) in ordered {
                let Some(entry) = self.jobs.get(&job) else { continue };
                let mean = |pool: u16| self.outlook(entry, pool, entry.done).mean;
                let is_better = mean(pool) <= mean(other).saturating_mul(STEAL_TIMES);
                let may = entry.ask.pools.has(PoolNumber(pool)) && entry.slots.is_empty();
                let fits = u32::from(entry.ask.devices) <= self.board.pool(pool).free;
                if is_better && may && fits {
                    self.transfer(job, pool);
                    if !self.place(job, i64::MAX, &mut Vec::new(), out) {
                        self.transfer(job, other);
                    }
                }
            }
        }
    }

    /// Moves a waiting job to another pool.
    fn transfer(&mut self, job: u64, pool: u16) {
        self.unwait(job);
        self.jobs.change(&job, |entry| entry.pool = pool);
        self.wait(job);
    }

    /// Gives those who have waited too long a time of their own.
    fn be_patient(&mut self) {
        let now = self.now();
        let oldest = self.jobs.iter().take(PATIENCE_LOOKS_MAX);
        let tired = oldest.filter(|(_, entry)| {
            let waited = now.saturating_sub(entry.queued);
            let is_waiting = entry.running.is_none() && entry.slots.is_empty();
            is_waiting && waited >= self.settings.patience.get()
        });
        let tired: Vec<u64> = tired.map(|(job, _)| *job).take(PATIENCE_SLOTS_MAX).collect();
        for job in tired {
            self.book_early(job);
        }
    }

    /// Drops what lies in the past from the timetables.
    fn forget(&mut self) {
        let now = self.now();
        for pool in self.board.pools() {
            let nodes: Vec<u32> = self.board.nodes(pool).collect();
            for node in nodes {
                self.promised.forget(node, now);
            }
        }
    }
}
