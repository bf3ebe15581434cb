//! Deadlines that are promised: times kept free on certain machines, by the declared limit.
//!
//! On no machine do slots want more devices than it has, and whatever runs there outside of a slot
//! can be interrupted. So a job whose slot has begun can always start in it. A slot is longer than
//! the work by what every piece may cost: the time until the next round, or a restart elsewhere
//! that was under way and then had to go, and after it the restart in the slot. One more round is
//! for being stopped at the limit.
//!
//! Every promise ends in one of two ways: the job is done by then, or it is broken with a decision.
//! That is said as soon as something fails and no other slot is found, and if all else goes wrong
//! (rounds that did not come) with the first event after the deadline.

use super::board::Part;
use super::event::{Ask, Deadline, Decision, JobNumber, PoolNumber, RefusalReason, Settings};
use super::state::{Entry, Queue, Slot};
use super::timetable::{Span, Want};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use tg_types::Tick;

/// Machines looked at for one promise.
const NODES_MAX: usize = 64;
/// Pieces of a promise at most.
const PIECES_MAX: usize = 8;
/// Times tried for a gang on several machines.
const TIMES_MAX: usize = 256;
/// The furthest promise, in milliseconds: a year.
const HORIZON: u64 = 365 * 24 * 3_600_000;

/// A pool and slots in it, or why there are none and what could be promised.
type Found = Result<(u16, Vec<Slot>), (RefusalReason, Option<u64>)>;

/// What is looked for in a pool.
#[derive(Clone, Copy)]
struct Search {
    pool: u16,
    width: u16,
    within: Span,
    need: u64,
    pieces_max: usize,
}

impl Queue {
    /// What a piece costs beside the work.
    fn piece_cost(&self) -> u64 {
        let Settings { restart, round, .. } = self.settings;
        restart.get() + restart.get().max(round.get())
    }

    /// What all pieces together cost at least: whoever has to be stopped is stopped in a round.
    pub(crate) fn slot_cost(&self) -> u64 {
        self.piece_cost() + self.settings.round.get()
    }

    /// Slots with which a job of which nothing has run is done by a time.
    pub(crate) fn find_slots(&self, ask: &Ask, by: u64) -> Found {
        let now = self.now();
        let need = ask.limit.get().saturating_add(self.slot_cost());
        let pieces = PIECES_MAX.min(usize::from(self.settings.preemptions_max / 2)).max(1);
        let pieces_max = if ask.is_resumable { pieces } else { 1 };
        let to = by.min(now.saturating_add(HORIZON));
        let search =
            |pool: u16, within: Span| Search { pool, width: ask.devices, within, need, pieces_max };
        let pools: Vec<u16> = self.able_pools(ask);
        if now.saturating_add(need) <= to {
            for pool in &pools {
                let within = Span { from: now, to };
                if let Some(slots) = self.late_slots(&search(*pool, within)) {
                    return Ok((*pool, slots));
                }
            }
        }
        let horizon = Span { from: now, to: now.saturating_add(HORIZON) };
        let early = pools.iter().filter_map(|pool| self.early_slot(&search(*pool, horizon)));
        let earliest = early.map(|slot| slot.span.to).min();
        let is_short = by < now.saturating_add(need);
        let reason = if is_short { RefusalReason::TooShort } else { RefusalReason::NoRoom };
        Err((reason, earliest))
    }

    /// Pools wide enough, the one that is done first before the others.
    fn able_pools(&self, ask: &Ask) -> Vec<u16> {
        let able = self.board.pools().into_iter().filter(|pool| {
            let is_wide = self.board.pool(*pool).devices >= u32::from(ask.devices);
            is_wide && ask.pools.has(PoolNumber(*pool))
        });
        let mut able: Vec<(u64, u16)> = able.map(|pool| (self.expected(ask, pool), pool)).collect();
        able.sort_unstable();
        able.into_iter().map(|(_, pool)| pool).collect()
    }

    /// Gives a waiting job the earliest slot there is. Returns whether there is one.
    pub(crate) fn book_early(&mut self, job: u64) -> bool {
        let now = self.now();
        let Some(entry) = self.jobs.get(&job) else { return false };
        let left = entry.ask.limit.get().saturating_sub(entry.done).max(1);
        let search = Search {
            pool: entry.pool,
            width: entry.ask.devices,
            within: Span { from: now, to: now.saturating_add(HORIZON) },
            need: left.saturating_add(self.slot_cost()),
            pieces_max: 1,
        };
        let Some(slot) = self.early_slot(&search) else { return false };
        self.book(job, core::slice::from_ref(&slot));
        self.jobs.change(&job, |entry| entry.slots = vec![slot]);
        true
    }

    fn late_slots(&self, search: &Search) -> Option<Vec<Slot>> {
        if search.width > self.board.pool(search.pool).node_size {
            let times = self.times(search, true);
            return self.gang_slot(search, &times).map(|slot| vec![slot]);
        }
        let found = self.candidates(search.pool).into_iter().filter_map(|(node, size)| {
            let spans = self.promised.latest(&self.want(search, node, size))?;
            let first = spans.first()?.from;
            // Few pieces, then where most is promised already: whole machines stay free for gangs.
            let beside = self.promised.width(node, first);
            Some((spans.len(), Reverse((beside, first)), node, spans))
        });
        let (.., node, spans) =
            found.min_by_key(|(pieces, rest, node, _)| (*pieces, *rest, *node))?;
        let parts = vec![Part { node, width: search.width }];
        Some(spans.into_iter().map(|span| Slot { span, parts: parts.clone() }).collect())
    }

    fn early_slot(&self, search: &Search) -> Option<Slot> {
        if search.width > self.board.pool(search.pool).node_size {
            let times = self.times(search, false);
            return self.gang_slot(search, &times);
        }
        let found = self.candidates(search.pool).into_iter().filter_map(|(node, size)| {
            let from = self.promised.earliest(&self.want(search, node, size))?;
            Some((from, node))
        });
        let (from, node) = found.min()?;
        let span = Span { from, to: from + search.need };
        Some(Slot { span, parts: vec![Part { node, width: search.width }] })
    }

    fn want(&self, search: &Search, node: u32, size: u16) -> Want {
        Want {
            row: node,
            within: search.within,
            need: search.need,
            width: u32::from(search.width),
            capacity: u32::from(size),
            piece_cost: self.piece_cost(),
            pieces_max: search.pieces_max,
        }
    }

    /// Some machines of a pool with their sizes; others each time, if there are many.
    fn candidates(&self, pool: u16) -> Vec<(u32, u16)> {
        let start = (self.jobs.len() as u32).wrapping_mul(2_654_435_761) >> 12;
        self.board.some_nodes(pool, start, NODES_MAX)
    }

    /// Starts worth trying for a gang: where slots end or begin on some machines.
    fn times(&self, search: &Search, is_late: bool) -> Vec<u64> {
        let Search { within, need, .. } = *search;
        let last = within.to.checked_sub(need).filter(|last| within.from <= *last);
        let Some(last) = last else { return Vec::new() };
        let mut times: BTreeSet<u64> = [if is_late { last } else { within.from }].into();
        for (node, _) in self.candidates(search.pool) {
            let steps = self.promised.steps.range((node, within.from)..=(node, within.to));
            let steps = steps.map(|((_, time), _)| *time);
            let starts =
                steps.filter_map(|time| if is_late { time.checked_sub(need) } else { Some(time) });
            times.extend(starts.filter(|time| within.from <= *time && *time <= last));
        }
        let mut times: Vec<u64> = times.into_iter().collect();
        if is_late {
            times.reverse();
        }
        times.truncate(TIMES_MAX);
        times
    }

    /// The first of these times at which a gang has whole machines.
    fn gang_slot(&self, search: &Search, times: &[u64]) -> Option<Slot> {
        let size = self.board.pool(search.pool).node_size.max(1);
        let (wholes, rest) = (search.width / size, search.width % size);
        let count = usize::from(wholes) + usize::from(rest > 0);
        let candidates = self.board.some_nodes(search.pool, 0, NODES_MAX.max(count * 4));
        times.iter().find_map(|from| {
            let span = Span { from: *from, to: from + search.need };
            let free = candidates.iter().filter(|(node, node_size)| {
                *node_size == size && self.promised.most(*node, span) == 0
            });
            let free: Vec<u32> = free.take(count).map(|(node, _)| *node).collect();
            let widths = (0..wholes).map(|_| size).chain((rest > 0).then_some(rest));
            let parts = || free.iter().zip(widths).map(|(node, width)| Part { node: *node, width });
            (free.len() == count).then(|| Slot { span, parts: parts().collect() })
        })
    }

    /// Enters slots.
    pub(crate) fn book(&mut self, job: u64, slots: &[Slot]) {
        for slot in slots {
            for part in &slot.parts {
                self.promised.enter(part.node, slot.span, u32::from(part.width));
                self.booked.insert((part.node, job), ());
            }
            self.begins.insert((slot.span.from, job), ());
        }
    }

    /// Takes all slots of a job out.
    pub(crate) fn unbook(&mut self, job: u64) {
        let now = self.now();
        let Some(entry) = self.jobs.get(&job).filter(|entry| !entry.slots.is_empty()) else {
            return;
        };
        let slots = entry.slots.clone();
        for slot in &slots {
            let left = Span { from: slot.span.from.max(now), to: slot.span.to };
            for part in &slot.parts {
                self.promised.clear(part.node, left, u32::from(part.width));
                self.booked.remove(&(part.node, job));
            }
            self.begins.remove(&(slot.span.from, job));
        }
        self.jobs.change(&job, |entry| entry.slots.clear());
    }

    /// Takes the slot of a job out that was entered because it may not be interrupted.
    pub(crate) fn unpin(&mut self, job: u64) {
        let entry = self.jobs.get(&job);
        if entry.is_some_and(|entry| !matches!(entry.ask.deadline, Deadline::Promise(_))) {
            self.unbook(job);
        }
    }

    /// Jobs with a slot on a machine.
    pub(crate) fn booked_on(&self, node: u32) -> Vec<u64> {
        let booked = self.booked.range((node, 0)..=(node, u64::MAX));
        booked.map(|((_, job), ())| *job).collect()
    }

    /// Promises a job anew what it was promised after its machine failed; if that is not possible
    /// the promise is broken, and becomes an aim.
    pub(crate) fn rebook(&mut self, job: u64, out: &mut Vec<Decision>) {
        self.unbook(job);
        let Some(entry) = self.jobs.get(&job) else { return };
        let Deadline::Promise(by) = entry.ask.deadline else { return };
        let left = entry.ask.limit.get().saturating_sub(entry.done).max(1);
        let (pool, width) = (entry.pool, entry.ask.devices);
        // Between two pieces it is interrupted.
        let preemptions = self.settings.preemptions_max.saturating_sub(entry.preemptions);
        let pieces = PIECES_MAX.min(usize::from(preemptions)).max(1);
        let search = Search {
            pool,
            width,
            within: Span { from: self.now(), to: by.get() },
            need: left.saturating_add(self.slot_cost()),
            pieces_max: if entry.ask.is_resumable { pieces } else { 1 },
        };
        if let Some(slots) = self.late_slots(&search) {
            self.book(job, &slots);
            self.jobs.change(&job, |entry| entry.slots = slots);
        } else {
            self.break_promise(job, by, out);
        }
    }

    fn break_promise(&mut self, job: u64, by: Tick, out: &mut Vec<Decision>) {
        self.promises.remove(&(by.get(), job));
        self.jobs.change(&job, |entry| entry.ask.deadline = Deadline::Aim(by));
        out.push(Decision::Break { job: JobNumber(job), by });
    }

    /// Breaks promises whose time is over.
    pub(crate) fn break_overdue(&mut self, out: &mut Vec<Decision>) {
        let overdue = self.promises.range((0, 0)..(self.now(), 0));
        let overdue: Vec<(u64, u64)> = overdue.map(|(key, ())| *key).collect();
        for (by, job) in overdue {
            self.break_promise(job, Tick::new(by), out);
        }
    }

    /// Whether a job that starts now in a slot will be done in what it has, up to its limit.
    pub(crate) fn is_assured(&self, entry: &Entry) -> bool {
        let now = self.now();
        let Settings { restart, round, .. } = self.settings;
        let restart = if entry.has_run { restart.get() } else { 0 };
        let room = entry.slots.iter().fold(0_u64, |room, Slot { span, .. }| {
            let cost = if span.from <= now { restart } else { self.piece_cost() };
            room.saturating_add(span.to.saturating_sub(span.from.max(now)).saturating_sub(cost))
        });
        entry.ask.limit.get().saturating_sub(entry.done).saturating_add(round.get()) <= room
    }

    /// Drops slots that are over, and says whose have begun.
    pub(crate) fn begun(&mut self) -> Vec<u64> {
        let now = self.now();
        let begun = self.begins.range((0, 0)..=(now, u64::MAX));
        let begun: Vec<(u64, u64)> = begun.map(|(key, ())| *key).collect();
        let mut jobs = Vec::new();
        for (from, job) in begun {
            let slot = |entry: &Entry| {
                entry.slots.iter().find(|slot| slot.span.from == from).map(|slot| slot.span.to)
            };
            let end = self.jobs.get(&job).and_then(slot);
            if end.is_some_and(|end| end > now) {
                jobs.push(job);
                continue;
            }
            self.begins.remove(&(from, job));
            let gone = self.jobs.change(&job, |entry| {
                let place = entry.slots.iter().position(|slot| slot.span.from == from);
                place.map(|place| entry.slots.remove(place))
            });
            let left = self.jobs.get(&job).map_or(0, |entry| entry.slots.len());
            for part in gone.flatten().into_iter().flat_map(|slot| slot.parts) {
                if left == 0 {
                    self.booked.remove(&(part.node, job));
                }
            }
        }
        jobs
    }

    /// Whether a part could be held from now on without interruption, as far as promises go.
    pub(crate) fn may_pin(&self, part: Part, left: u64) -> bool {
        let now = self.now();
        let size = self.board.node(part.node).map_or(0, |(_, size)| u32::from(size));
        let span = Span { from: now, to: now.saturating_add(left) };
        self.promised.most(part.node, span) + u32::from(part.width) <= size
    }

    /// By when a job was promised to be done.
    pub fn promise(&self, job: JobNumber) -> Option<Tick> {
        match self.jobs.get(&job.0)?.ask.deadline {
            Deadline::Promise(by) => Some(by),
            Deadline::None | Deadline::Aim(_) => None,
        }
    }
}
