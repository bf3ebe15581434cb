//! What the queue knows, and how events change it.

use super::board::{Board, Part};
use super::event::{
    Ask, Deadline, Decision, Event, JobNumber, NodeNumber, OwnerNumber, PoolNumber, RefusalReason,
    Settings,
};
use super::kept::Kept;
use super::learn::{self, Hints, Kind, Learned, Outlook, Question, claimed};
use super::timetable::{Span, Timetable};
use tg_types::{DurationMs, Tick};

/// Jobs that wait or run at most: about 1 GB.
const JOBS_MAX: usize = 2_000_000;
/// Finished jobs whose settlement is awaited at most; beyond, the oldest teaches nothing.
const FINISHED_MAX: usize = 100_000;
/// Octaves by which backlogs are told apart.
pub(crate) const SIZES: usize = 48;

/// Why an event makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueError {
    /// Time does not go back.
    Time,
    /// There is such a machine, it has no devices or its pool has no number below 64.
    Node(NodeNumber),
    /// There is no such machine.
    NoNode(NodeNumber),
    /// There is such a job, or it asks for nothing.
    Job(JobNumber),
    /// There is no such job, or it does not run.
    NoJob(JobNumber),
}

impl core::fmt::Display for QueueError {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Time => write!(formatter, "time does not go back"),
            Self::Node(node) => write!(formatter, "machine {} cannot join", node.0),
            Self::NoNode(node) => write!(formatter, "there is no machine {}", node.0),
            Self::Job(job) => write!(formatter, "job {} cannot be queued", job.0),
            Self::NoJob(job) => write!(formatter, "job {} does not run", job.0),
        }
    }
}

impl core::error::Error for QueueError {}

/// A time that is kept free for a job on certain machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) span: Span,
    pub(crate) parts: Vec<Part>,
}

/// A job that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    /// When the restart is over and it makes progress.
    pub(crate) works_from: u64,
    /// Nobody may interrupt it.
    pub(crate) is_pinned: bool,
}

/// A job that waits or runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) ask: Ask,
    pub(crate) pool: u16,
    pub(crate) queued: u64,
    /// How long it is said to run, by all hints that came with it.
    pub(crate) estimate: u64,
    /// Its place in the order, without what its owner has had.
    pub(crate) key: i64,
    /// Octave in the backlog of its pool.
    pub(crate) size: u8,
    /// Device-milliseconds in the backlog of its pool.
    pub(crate) backlog: u64,
    /// What it has run, up to the last interruption.
    pub(crate) done: u64,
    pub(crate) has_run: bool,
    pub(crate) preemptions: u16,
    pub(crate) running: Option<Running>,
    /// What is promised to it, in time order.
    pub(crate) slots: Vec<Slot>,
    /// When its place in the order is looked at again, while it waits.
    pub(crate) due: u64,
}

impl Entry {
    /// What it has run by now.
    pub(crate) fn progress(&self, now: u64) -> u64 {
        let since = |running: Running| now.saturating_sub(running.works_from);
        self.done + self.running.map_or(0, since)
    }

    /// The slot whose time it is.
    pub(crate) fn slot_at(&self, now: u64) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.span.from <= now && now < slot.span.to)
    }
}

/// What an owner has had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Device-milliseconds, raised to what others have had when it comes back.
    pub(crate) used: u64,
    /// Jobs that wait or run.
    pub(crate) jobs: u32,
    /// Devices that it holds.
    pub(crate) holds: u32,
}

/// A finished job that was not settled yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finished {
    kind: Kind,
    estimate: u64,
    hints: Hints,
    took: u64,
    nodes: Vec<u32>,
}

/// Who runs when.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    pub(crate) settings: Settings,
    pub(crate) clock: Kept<(), u64>,
    pub(crate) board: Board,
    pub(crate) jobs: Kept<u64, Entry>,
    /// Pool, owner, key, job.
    pub(crate) waiting: Kept<(u16, u32, i64, u64), ()>,
    /// Pool, job.
    pub(crate) running: Kept<(u16, u64), ()>,
    pub(crate) owners: Kept<u32, Owner>,
    /// Owners with jobs, by what they have had.
    pub(crate) active: Kept<(u64, u32), ()>,
    /// Device-milliseconds that wait in a pool, by octave.
    pub(crate) backlog: Kept<(u16, u8), u64>,
    /// Promised devices of machines.
    pub(crate) promised: Timetable,
    /// What is promised: deadline, job.
    pub(crate) promises: Kept<(u64, u64), ()>,
    /// When slots begin: time, job.
    pub(crate) begins: Kept<(u64, u64), ()>,
    /// Who has a slot on a machine: machine, job.
    pub(crate) booked: Kept<(u32, u64), ()>,
    /// When places in the order are looked at again: time, job.
    pub(crate) due: Kept<(u64, u64), ()>,
    finished: Kept<u64, Finished>,
    pub(crate) learned: Learned,
}

/// A time to which a queue can be taken back.
#[derive(Clone, Debug)]
pub struct Mark([usize; 13], [usize; 5], learn::Mark);

impl Queue {
    /// An empty queue.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            clock: Kept::default(),
            board: Board::default(),
            jobs: Kept::default(),
            waiting: Kept::default(),
            running: Kept::default(),
            owners: Kept::default(),
            active: Kept::default(),
            backlog: Kept::default(),
            promised: Timetable::default(),
            promises: Kept::default(),
            begins: Kept::default(),
            booked: Kept::default(),
            due: Kept::default(),
            finished: Kept::default(),
            learned: Learned::default(),
        }
    }

    /// Takes an event at a time and says what is to be done. An error changes nothing.
    pub fn apply(&mut self, at: Tick, event: Event) -> Result<Vec<Decision>, QueueError> {
        let now = at.get();
        let mut out = Vec::new();
        if now < self.now() {
            return Err(QueueError::Time);
        }
        self.check(event)?;
        self.advance(now);
        self.break_overdue(&mut out);
        match event {
            Event::NodeJoined(node, pool, size) => {
                self.board.join(node.0, pool.0, size);
            }
            Event::NodeLeft(node) => self.lose(node.0, &mut out),
            Event::JobQueued(job, ask) => self.queue(job.0, ask, &mut out),
            Event::JobFinished(job) => self.finish(job.0),
            Event::JobFailed(job) => self.fail(job.0, &mut out),
            Event::JobCancelled(job) => self.drop_job(job.0),
            Event::JobSettled(job) => self.learn(job.0),
            Event::RoundBegan => self.round(&mut out),
        }
        Ok(out)
    }

    fn check(&self, event: Event) -> Result<(), QueueError> {
        let runs = |job: JobNumber| {
            let entry = self.jobs.get(&job.0).filter(|entry| entry.running.is_some());
            entry.map(|_| ()).ok_or(QueueError::NoJob(job))
        };
        let is_held = |is_held: bool, error: QueueError| if is_held { Ok(()) } else { Err(error) };
        match event {
            Event::NodeJoined(node, pool, size) => {
                let is_new = self.board.node(node.0).is_none() && size > 0 && pool.0 < 64;
                is_held(is_new, QueueError::Node(node))
            }
            Event::NodeLeft(node) => {
                is_held(self.board.node(node.0).is_some(), QueueError::NoNode(node))
            }
            Event::JobQueued(job, ask) => {
                let is_known = self.jobs.get(&job.0).is_some();
                let asks = ask.devices > 0 && ask.limit.get() > 0 && ask.estimate.get() > 0;
                is_held(asks && !is_known, QueueError::Job(job))
            }
            Event::JobFinished(job) | Event::JobFailed(job) => runs(job),
            Event::JobCancelled(job) => {
                is_held(self.jobs.get(&job.0).is_some(), QueueError::NoJob(job))
            }
            Event::JobSettled(_) | Event::RoundBegan => Ok(()),
        }
    }

    /// The time of the last event.
    pub(crate) fn now(&self) -> u64 {
        self.clock.get(&()).copied().unwrap_or(0)
    }

    /// Charges owners for what they held until now.
    fn advance(&mut self, now: u64) {
        let passed = now - self.now();
        self.clock.insert((), now);
        if passed == 0 {
            return;
        }
        let charged: Vec<(u64, u32)> = self.active.iter().map(|(key, ())| *key).collect();
        for (used, owner) in charged {
            let Some(mut facts) = self.owners.get(&owner).copied().filter(|o| o.holds > 0) else {
                continue;
            };
            facts.used = used.saturating_add(passed.saturating_mul(u64::from(facts.holds)));
            self.active.remove(&(used, owner));
            self.active.insert((facts.used, owner), ());
            self.owners.insert(owner, facts);
        }
    }

    fn queue(&mut self, job: u64, ask: Ask, out: &mut Vec<Decision>) {
        let refuse = |reason, earliest: Option<u64>| Decision::Refuse {
            job: JobNumber(job),
            reason,
            earliest: earliest.map(Tick::new),
        };
        if self.jobs.len() >= JOBS_MAX {
            out.push(refuse(RefusalReason::QueueFull, None));
            return;
        }
        let Some(pool) = self.route(&ask) else {
            out.push(refuse(RefusalReason::TooWide, None));
            return;
        };
        let mut entry = Entry {
            ask,
            pool,
            queued: self.now(),
            estimate: self.estimate(&ask),
            key: 0,
            size: 0,
            backlog: 0,
            done: 0,
            has_run: false,
            preemptions: 0,
            running: None,
            slots: Vec::new(),
            due: 0,
        };
        if let Deadline::Promise(by) = ask.deadline {
            match self.find_slots(&ask, by.get()) {
                Ok((pool, slots)) => {
                    entry.pool = pool;
                    entry.slots = slots;
                    self.promises.insert((by.get(), job), ());
                    out.push(Decision::Promise { job: JobNumber(job), by });
                }
                Err((reason, earliest)) => {
                    out.push(refuse(reason, earliest));
                    return;
                }
            }
        }
        self.arrive(ask.owner);
        self.book(job, &entry.slots);
        self.jobs.insert(job, entry);
        self.wait(job);
    }

    fn arrive(&mut self, owner: OwnerNumber) {
        let mut facts = self.owners.get(&owner.0).copied().unwrap_or_default();
        if facts.jobs == 0 {
            // Who was away has no claim to what others could use meanwhile.
            let least = self.active.iter().next().map_or(0, |((used, _), ())| *used);
            facts.used = facts.used.max(least);
            self.active.insert((facts.used, owner.0), ());
        }
        facts.jobs += 1;
        self.owners.insert(owner.0, facts);
    }

    fn depart(&mut self, owner: OwnerNumber) {
        let Some(mut facts) = self.owners.get(&owner.0).copied() else { return };
        facts.jobs = facts.jobs.saturating_sub(1);
        if facts.jobs == 0 {
            self.active.remove(&(facts.used, owner.0));
        }
        self.owners.insert(owner.0, facts);
    }

    fn hints(&self, ask: &Ask, queued: u64) -> Hints {
        let window = match ask.deadline {
            Deadline::None => None,
            Deadline::Aim(by) | Deadline::Promise(by) => {
                Some(by.get().saturating_sub(queued)).filter(|window| *window > 0)
            }
        };
        Hints { estimate: ask.estimate.get(), window }
    }

    /// How long a job that comes now is said to run.
    fn estimate(&self, ask: &Ask) -> u64 {
        if self.settings.is_learning {
            self.learned.estimate(self.hints(ask, self.now()))
        } else {
            ask.estimate.get()
        }
    }

    /// What is to be expected of a job in a pool.
    pub(crate) fn outlook(&self, entry: &Entry, pool: u16, elapsed: u64) -> Outlook {
        self.outlook_within(entry, pool, elapsed, u64::MAX)
    }

    /// The same, with the chance that it ends in a time.
    pub(crate) fn outlook_within(
        &self,
        entry: &Entry,
        pool: u16,
        elapsed: u64,
        within: u64,
    ) -> Outlook {
        let question = Question { estimate: entry.estimate, elapsed, within };
        self.outlook_of(&entry.ask, pool, question)
    }

    fn outlook_of(&self, ask: &Ask, pool: u16, question: Question) -> Outlook {
        if !self.settings.is_learning {
            return claimed(question);
        }
        let kind = Kind::new(ask.program, pool, question.estimate);
        let mut outlook = self.learned.outlook(kind, question);
        let left = ask.limit.get().saturating_sub(question.elapsed).max(1);
        outlook.mean = outlook.mean.min(left);
        outlook
    }

    /// What is to be expected of a job that comes now.
    fn outlook_of_new(&self, ask: &Ask, pool: u16) -> Outlook {
        let estimate = self.estimate(ask);
        self.outlook_of(ask, pool, Question { estimate, elapsed: 0, within: u64::MAX })
    }

    /// The pool in which a job will be done first: what goes before it there, then itself.
    fn route(&self, ask: &Ask) -> Option<u16> {
        let pools = self.board.pools().into_iter();
        let able = pools.filter(|pool| ask.pools.has(PoolNumber(*pool)));
        let able = able.filter(|pool| self.board.pool(*pool).devices >= u32::from(ask.devices));
        able.min_by_key(|pool| (self.expected(ask, *pool), *pool))
    }

    /// How long it takes until a job that comes now is done in a pool.
    pub(crate) fn expected(&self, ask: &Ask, pool: u16) -> u64 {
        let outlook = self.outlook_of_new(ask, pool);
        let facts = self.board.pool(pool);
        let service = outlook.rank.saturating_mul(u64::from(ask.devices));
        let size = (service.max(1).ilog2() as u8).min(SIZES as u8 - 1);
        let smaller = self.backlog.range((pool, 0)..=(pool, size));
        let ahead = smaller.fold(0_u64, |sum, (_, backlog)| sum.saturating_add(*backlog));
        (ahead / u64::from(facts.devices.max(1))).saturating_add(outlook.mean)
    }

    fn finish(&mut self, job: u64) {
        let now = self.now();
        let Some(entry) = self.jobs.get(&job) else { return };
        let kind = Kind::new(entry.ask.program, entry.pool, entry.estimate);
        let parts = self.board.held(job).unwrap_or_default();
        let nodes = parts.iter().map(|part| part.node).collect();
        let hints = self.hints(&entry.ask, entry.queued);
        let (estimate, took) = (entry.estimate, entry.progress(now));
        let finished = Finished { kind, estimate, hints, took, nodes };
        if self.finished.len() >= FINISHED_MAX {
            let oldest = self.finished.iter().next().map(|(job, _)| *job);
            oldest.map(|job| self.finished.remove(&job));
        }
        self.finished.insert(job, finished);
        self.drop_job(job);
    }

    fn learn(&mut self, job: u64) {
        let Some(finished) = self.finished.remove(&job) else { return };
        self.learned.compare(finished.hints, finished.estimate, finished.took);
        self.learned.settled(finished.kind, finished.estimate, finished.took);
        for node in finished.nodes {
            self.ran(node, false);
        }
    }

    fn ran(&mut self, node: u32, has_failed: bool) {
        self.learned.ran(node, has_failed);
        if self.settings.is_learning {
            let doubt = self.learned.doubt(node);
            self.board.doubt(node, doubt);
        }
    }

    /// Forgets a job.
    pub(crate) fn drop_job(&mut self, job: u64) {
        self.release(job);
        self.unwait(job);
        self.unbook(job);
        if let Some(entry) = self.jobs.remove(&job) {
            self.depart(entry.ask.owner);
            if let Deadline::Promise(by) = entry.ask.deadline {
                self.promises.remove(&(by.get(), job));
            }
        }
    }

    /// Takes a job's devices back and keeps what it has run.
    pub(crate) fn release(&mut self, job: u64) -> Option<Vec<Part>> {
        let now = self.now();
        let parts = self.board.give(job)?;
        let entry = self.jobs.change(&job, |entry| {
            entry.done = entry.progress(now);
            entry.running = None;
            (entry.pool, entry.ask)
        });
        if let Some((pool, ask)) = entry {
            self.running.remove(&(pool, job));
            self.owners.change(&ask.owner.0, |owner| owner.holds -= u32::from(ask.devices));
        }
        Some(parts)
    }

    /// Gives devices to a job. Returns the decision.
    pub(crate) fn start(&mut self, job: u64, parts: Vec<Part>, is_pinned: bool) -> Decision {
        let now = self.now();
        let restart = self.settings.restart.get();
        self.unwait(job);
        let named = parts.iter().map(|part| (NodeNumber(part.node), part.width)).collect();
        self.board.take(job, parts);
        let started = self.jobs.change(&job, |entry| {
            let is_resumed = entry.has_run;
            let works_from = if is_resumed { now.saturating_add(restart) } else { now };
            entry.running = Some(Running { works_from, is_pinned });
            entry.has_run = true;
            (entry.pool, entry.ask, is_resumed)
        });
        let is_resumed = started.is_some_and(|(.., is_resumed)| is_resumed);
        if let Some((pool, ask, _)) = started {
            self.running.insert((pool, job), ());
            self.owners.change(&ask.owner.0, |owner| owner.holds += u32::from(ask.devices));
        }
        Decision::Start { job: JobNumber(job), parts: named, is_resumed }
    }

    /// A job's machine failed: what it ran since the last interruption is lost.
    fn fail(&mut self, job: u64, out: &mut Vec<Decision>) {
        let done = self.jobs.get(&job).map_or(0, |entry| entry.done);
        for part in self.release(job).unwrap_or_default() {
            self.ran(part.node, true);
        }
        self.unpin(job);
        self.jobs.change(&job, |entry| entry.done = done);
        self.wait(job);
        self.rebook(job, out);
    }

    fn lose(&mut self, node: u32, out: &mut Vec<Decision>) {
        let mut hit = self.board.jobs_on(node);
        for job in &hit {
            let done = self.jobs.get(job).map_or(0, |entry| entry.done);
            self.release(*job);
            self.unpin(*job);
            self.jobs.change(job, |entry| entry.done = done);
            self.wait(*job);
        }
        self.learned.ran(node, true);
        self.board.leave(node);
        hit.extend(self.booked_on(node));
        hit.sort_unstable();
        hit.dedup();
        for job in hit {
            self.rebook(job, out);
        }
    }

    /// When a job is likely to be done: what goes before it in its pool, then itself.
    pub fn eta(&self, job: JobNumber) -> Option<Tick> {
        let now = self.now();
        let entry = self.jobs.get(&job.0)?;
        let outlook = self.outlook(entry, entry.pool, entry.progress(now));
        let ahead = if entry.running.is_some() {
            0
        } else {
            let smaller = self.backlog.range((entry.pool, 0)..(entry.pool, entry.size));
            let ahead = smaller.fold(0_u64, |sum, (_, backlog)| sum.saturating_add(*backlog));
            ahead / u64::from(self.board.pool(entry.pool).devices.max(1))
        };
        Tick::new(now).plus(DurationMs::new(ahead.saturating_add(outlook.mean))).ok()
    }

    /// What a job is expected to run in all, from what is known now.
    pub fn expected_run(&self, ask: &Ask, pool: PoolNumber) -> DurationMs {
        DurationMs::new(self.outlook_of_new(ask, pool.0).mean)
    }

    /// The machines.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Jobs that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Interruptions of a job so far.
    pub fn preemptions(&self, job: JobNumber) -> Option<u16> {
        self.jobs.get(&job.0).map(|entry| entry.preemptions)
    }

    /// Device-milliseconds that an owner has had, and what it was raised to while it was away.
    pub fn used(&self, owner: OwnerNumber) -> u64 {
        self.owners.get(&owner.0).map_or(0, |owner| owner.used)
    }

    /// Where everything stands now.
    pub fn mark(&self) -> Mark {
        let maps = [
            self.clock.mark(),
            self.jobs.mark(),
            self.waiting.mark(),
            self.running.mark(),
            self.owners.mark(),
            self.active.mark(),
            self.backlog.mark(),
            self.promised.steps.mark(),
            self.promises.mark(),
            self.begins.mark(),
            self.booked.mark(),
            self.due.mark(),
            self.finished.mark(),
        ];
        Mark(maps, self.board.mark(), self.learned.mark())
    }

    /// Back to a mark. Marks before the last settling are gone.
    pub fn undo(&mut self, mark: &Mark) {
        let Mark(maps, board, learned) = mark;
        let [clock, jobs, waiting, running, owners, active, backlog, rest @ ..] = *maps;
        let [promised, promises, begins, booked, due, finished] = rest;
        self.clock.undo(clock);
        self.jobs.undo(jobs);
        self.waiting.undo(waiting);
        self.running.undo(running);
        self.owners.undo(owners);
        self.active.undo(active);
        self.backlog.undo(backlog);
        self.promised.steps.undo(promised);
        self.promises.undo(promises);
        self.begins.undo(begins);
        self.booked.undo(booked);
        self.due.undo(due);
        self.finished.undo(finished);
        self.board.undo(*board);
        self.learned.undo(*learned);
    }

    /// Nothing before now is ever undone: forgets the old values.
    pub fn settle(&mut self) {
        self.clock.settle();
        self.jobs.settle();
        self.waiting.settle();
        self.running.settle();
        self.owners.settle();
        self.active.settle();
        self.backlog.settle();
        self.promised.steps.settle();
        self.promises.settle();
        self.begins.settle();
        self.booked.settle();
        self.due.settle();
        self.finished.settle();
        self.board.settle();
        self.learned.settle();
    }
}
