//! What holds of the queue whatever comes: random events, and a model of machines that obeys it.

use super::*;
use arbtest::arbitrary::{Result, Unstructured};
use std::collections::BTreeMap;
use tg_types::{DurationMs, Tick};

const ROUND: u64 = 60_000;
const NODES: u32 = 6;
const NODE_SIZE: u16 = 8;

/// A job as the world knows it.
#[derive(Clone, Copy)]
struct Truth {
    duration: u64,
    ask: Ask,
    queued: u64,
    done: u64,
    works_from: Option<u64>,
    starts: u32,
    preemptions: u16,
}

/// Machines that do what the queue says and check that it can be done.
struct World {
    queue: Queue,
    settings: Settings,
    now: u64,
    next: u64,
    jobs: BTreeMap<u64, Truth>,
    promised: BTreeMap<u64, u64>,
    refused: u64,
    kept: u64,
    late: u64,
    broken: u64,
    wait_max: u64,
    log: Vec<Decision>,
}

impl World {
    fn new(settings: Settings) -> Self {
        let mut queue = Queue::new(settings);
        for node in 0..NODES {
            let joined = Event::NodeJoined(NodeNumber(node), PoolNumber(0), NODE_SIZE);
            assert_eq!(queue.apply(Tick::ZERO, joined), Ok(Vec::new()));
        }
        Self {
            queue,
            settings,
            now: 0,
            next: 0,
            jobs: BTreeMap::new(),
            promised: BTreeMap::new(),
            refused: 0,
            kept: 0,
            late: 0,
            broken: 0,
            wait_max: 0,
            log: Vec::new(),
        }
    }

    fn apply(&mut self, event: Event) {
        let decisions = self.queue.apply(Tick::new(self.now), event).expect("true to the world");
        for decision in &decisions {
            self.obey(decision);
        }
        self.log.extend(decisions);
        self.check();
    }

    fn obey(&mut self, decision: &Decision) {
        match decision {
            Decision::Start { job, parts, is_resumed } => {
                let truth = self.jobs.get_mut(&job.0).expect("known");
                let width: u16 = parts.iter().map(|(_, width)| *width).sum();
                assert_eq!(width, truth.ask.devices, "a gang starts whole");
                assert!(truth.works_from.is_none(), "it did not run");
                assert_eq!(*is_resumed, truth.starts > 0);
                let cost = if *is_resumed { self.settings.restart.get() } else { 0 };
                if truth.starts == 0 {
                    self.wait_max = self.wait_max.max(self.now - truth.queued);
                }
                truth.works_from = Some(self.now + cost);
                truth.starts += 1;
            }
            Decision::Preempt { job } => {
                let truth = self.jobs.get_mut(&job.0).expect("known");
                let from = truth.works_from.take().expect("it ran");
                truth.done += self.now.saturating_sub(from);
                truth.preemptions += 1;
                assert!(truth.ask.is_resumable, "it said that it cannot be interrupted");
                assert!(truth.preemptions <= self.settings.preemptions_max);
            }
            Decision::Stop { job, .. } => {
                let truth = self.jobs.remove(&job.0).expect("known");
                let from = truth.works_from.expect("it ran");
                let ran = truth.done + self.now.saturating_sub(from);
                assert!(ran >= truth.ask.limit.get(), "stopped before its limit");
                self.end(job.0);
            }
            Decision::Promise { job, by } => {
                self.promised.insert(job.0, by.get());
            }
            Decision::Refuse { job, .. } => {
                self.jobs.remove(&job.0).expect("known");
                self.refused += 1;
            }
            Decision::Break { job, .. } => {
                self.promised.remove(&job.0).expect("promised");
                self.broken += 1;
            }
        }
    }

    /// A job ended now: was its promise kept?
    fn end(&mut self, job: u64) {
        if let Some(by) = self.promised.remove(&job) {
            if self.now <= by {
                self.kept += 1;
            } else {
                self.late += 1;
            }
        }
    }

    /// No machine gives more than it has, and every job holds all or nothing.
    fn check(&self) {
        let mut used: BTreeMap<u32, u16> = BTreeMap::new();
        for (job, truth) in &self.jobs {
            let held = self.queue.board().held(*job).unwrap_or_default();
            let width: u16 = held.iter().map(|part| part.width).sum();
            let wanted = if truth.works_from.is_some() { truth.ask.devices } else { 0 };
            assert_eq!(width, wanted, "job {job}");
            for part in held {
                *used.entry(part.node).or_default() += part.width;
            }
        }
        assert!(used.values().all(|used| *used <= NODE_SIZE));
        let free =
            u32::from(NODE_SIZE) * NODES - used.values().map(|used| u32::from(*used)).sum::<u32>();
        assert!(self.broken > 0 || self.queue.board().pool(0).free <= free);
    }

    fn queue(&mut self, ask: Ask, duration: u64) -> u64 {
        let job = self.next;
        self.next += 1;
        let truth = Truth {
            duration: duration.min(ask.limit.get()),
            ask,
            queued: self.now,
            done: 0,
            works_from: None,
            starts: 0,
            preemptions: 0,
        };
        self.jobs.insert(job, truth);
        self.apply(Event::JobQueued(JobNumber(job), ask));
        job
    }

    /// Goes on until a time, with a round in every minute.
    fn go_on(&mut self, until: u64) {
        while self.now < until {
            let round = (self.now + 1).next_multiple_of(ROUND);
            let ending = self.jobs.iter().filter_map(|(job, truth)| {
                let end = truth.works_from? + truth.duration - truth.done;
                Some((end.max(self.now), *job))
            });
            match ending.min().filter(|(end, _)| *end <= round.min(until)) {
                Some((end, job)) => {
                    self.now = end;
                    self.jobs.remove(&job);
                    self.end(job);
                    self.apply(Event::JobFinished(JobNumber(job)));
                    self.apply(Event::JobSettled(JobNumber(job)));
                }
                None if round <= until => {
                    self.now = round;
                    self.apply(Event::RoundBegan);
                    self.queue.settle();
                }
                None => self.now = until,
            }
        }
    }
}

fn ask() -> Ask {
    Ask {
        owner: OwnerNumber(0),
        devices: 1,
        pools: PoolSet::ALL,
        program: 0,
        limit: DurationMs::HOUR,
        estimate: DurationMs::HOUR,
        deadline: Deadline::None,
        bid_percent: 100,
        priority: 0,
        is_resumable: true,
    }
}

/// Something that a client could ask, with its true duration.
fn any_ask(u: &mut Unstructured<'_>, now: u64) -> Result<(Ask, u64)> {
    let limit = u.int_in_range(1..=300)? * ROUND / 2;
    let duration = if u.ratio(1, 4)? { limit * 2 } else { limit * u.int_in_range(1..=100)? / 100 };
    let slack = u.int_in_range(80..=600)?;
    let by = Tick::new(now + limit * slack / 100 + 2 * ROUND);
    let deadline = *u.choose(&[Deadline::None, Deadline::Aim(by), Deadline::Promise(by)])?;
    let ask = Ask {
        owner: OwnerNumber(u.int_in_range(0..=3)?),
        devices: *u.choose(&[1, 1, 1, 2, 3, 4, 8, 16, 20])?,
        limit: DurationMs::new(limit),
        estimate: DurationMs::new((limit * u.int_in_range(1..=150)? / 100).max(1)),
        deadline,
        bid_percent: u.int_in_range(50..=400)?,
        priority: u.int_in_range(0..=2)?,
        is_resumable: u.ratio(3, 4)?,
        ..ask()
    };
    Ok((ask, duration.max(1)))
}

/// Goal: whatever is asked, gangs start whole, limits and bounds hold, and no promise is broken.
/// Method: random jobs on machines that check every decision; the rest runs to its end.
#[test]
fn prop_promises_are_kept_and_gangs_start_whole() {
    arbtest::arbtest(|u| {
        let preemptions_max = u.int_in_range(0..=8)?;
        let mut world = World::new(Settings { preemptions_max, ..Settings::default() });
        for _ in 0..u.int_in_range(1..=60)? {
            let (ask, duration) = any_ask(u, world.now)?;
            world.queue(ask, duration);
            let pause = u.int_in_range(0..=20)? * ROUND / 3;
            world.go_on(world.now + pause);
        }
        world.go_on(world.now + 60 * 24 * 3_600_000);
        assert_eq!((world.late, world.broken, world.promised.len()), (0, 0, 0));
        assert!(world.jobs.is_empty(), "everything ends: {:?}", world.jobs.keys());
        Ok(())
    });
}

/// Goal: the same events give the same decisions, undone events leave no trace. Method: a second
/// queue that hears everything, and before each event another one that is undone.
#[test]
fn prop_replay_and_undo_give_the_same_queue() {
    arbtest::arbtest(|u| {
        let mut first = Queue::new(Settings::default());
        let mut second = first.clone();
        let mut now = 0;
        for number in 0..u.int_in_range(1..=80)? {
            now += u.int_in_range(0..=5)? * ROUND / 2;
            let other = any_event(u, number + 1_000, now)?;
            let mark = second.mark();
            let before = second.clone();
            let _undone = second.apply(Tick::new(now), other);
            second.undo(&mark);
            assert_eq!(second, before);
            let event = any_event(u, number, now)?;
            let one = first.apply(Tick::new(now), event);
            assert_eq!(one, second.apply(Tick::new(now), event));
            if one.is_err() {
                assert_eq!(second, before, "an error changes nothing");
            }
            if u.ratio(1, 8)? {
                second.settle();
            }
        }
        assert_eq!(first, second);
        Ok(())
    });
}

fn any_event(u: &mut Unstructured<'_>, number: u64, now: u64) -> Result<Event> {
    let job = JobNumber(u.int_in_range(0..=number)?);
    let node = NodeNumber(u.int_in_range(0..=5)?);
    Ok(match u.int_in_range(0..=11)? {
        0 | 1 => {
            Event::NodeJoined(node, PoolNumber(u.int_in_range(0..=1)?), u.int_in_range(0..=8)?)
        }
        2 => Event::NodeLeft(node),
        3 => Event::JobFinished(job),
        4 => Event::JobFailed(job),
        5 => Event::JobCancelled(job),
        6 => Event::JobSettled(job),
        7 | 8 => Event::RoundBegan,
        _ => Event::JobQueued(JobNumber(number), any_ask(u, now)?.0),
    })
}

/// A number that looks random, for worlds that are larger than what a property can draw.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Goal: nobody waits for ever, not even a wide gang that cannot push others out. Method: a flood
/// of small jobs that cannot be interrupted and come faster than they go, for two weeks.
#[test]
fn sim_wide_gangs_are_not_starved_by_a_flood() {
    let day = 24 * 3_600_000;
    let settings = Settings { patience: DurationMs::DAY, ..Settings::default() };
    let mut world = World::new(settings);
    let mut draws = Draws(7);
    let mut gangs = Vec::new();
    for number in 0..14 * 48_u64 {
        for _ in 0..14 {
            let limit = (1 + draws.below(6)) * 15 * ROUND;
            let span = DurationMs::new(limit);
            let flood = Ask { limit: span, estimate: span, is_resumable: false, ..ask() };
            world.queue(flood, limit);
        }
        if number % 48 == 0 {
            let owner = OwnerNumber(number as u32 % 3);
            let wide = Ask { owner, devices: 48, is_resumable: false, ..ask() };
            gangs.push(world.queue(wide, 3_600_000));
        }
        world.go_on(world.now + 30 * ROUND);
    }
    let waiting = gangs.iter().filter(|job| world.jobs.contains_key(job)).count();
    assert!(waiting <= 4, "{waiting} of {} gangs wait", gangs.len());
    assert!(world.wait_max <= 5 * day, "{} h", world.wait_max / 3_600_000);
}

/// Goal: owners who always have work get the same. Method: one sends many small jobs, one large
/// ones, one pays more; none may get far more than its share.
#[test]
fn sim_owners_with_work_get_equal_shares() {
    let mut world = World::new(Settings::default());
    let hour = 3_600_000;
    for _ in 0..4 * 24 {
        for _ in 0..80 {
            let small = DurationMs::new(20 * ROUND);
            let ask = Ask { owner: OwnerNumber(0), limit: small, estimate: small, ..ask() };
            world.queue(ask, 20 * ROUND);
        }
        for _ in 0..6 {
            let long = DurationMs::new(5 * hour);
            let large = Ask { devices: 8, limit: long, estimate: long, ..ask() };
            world.queue(Ask { owner: OwnerNumber(1), ..large }, 5 * hour);
            world.queue(Ask { owner: OwnerNumber(2), bid_percent: 300, ..large }, 5 * hour);
        }
        world.go_on(world.now + hour);
    }
    let used = [0, 1, 2].map(|owner| world.queue.used(OwnerNumber(owner)) / hour);
    let (least, most) = (used.iter().min().expect("three"), used.iter().max().expect("three"));
    assert!(most - least <= u64::from(NODES) * u64::from(NODE_SIZE) * 12, "{used:?}");
}

#[test]
fn promise_that_cannot_be_given_is_refused_with_one_that_can() {
    let mut world = World::new(Settings::default());
    let by = |minutes: u64| Deadline::Promise(Tick::new(minutes * ROUND));
    let wide = Ask { devices: 48, ..ask() };
    world.queue(Ask { deadline: by(90), ..wide }, 3_600_000);
    assert!(world.promised.contains_key(&0));
    let late = Ask { deadline: by(100), ..wide };
    let at = Tick::new(world.now);
    let refused = world.queue.apply(at, Event::JobQueued(JobNumber(9), late)).expect("taken");
    let [Decision::Refuse { reason, earliest: Some(earliest), .. }] = refused.as_slice() else {
        panic!("{refused:?}");
    };
    assert_eq!(*reason, RefusalReason::NoRoom);
    let again = Ask { deadline: Deadline::Promise(*earliest), ..wide };
    let taken = world.queue.apply(at, Event::JobQueued(JobNumber(9), again)).expect("taken");
    assert_eq!(taken, [Decision::Promise { job: JobNumber(9), by: *earliest }]);
    let short = Ask { deadline: by(30), ..ask() };
    let refused = world.queue.apply(at, Event::JobQueued(JobNumber(10), short)).expect("taken");
    assert!(matches!(
        refused.as_slice(),
        [Decision::Refuse { reason: RefusalReason::TooShort, earliest: Some(_), .. }]
    ));
}

#[test]
fn lost_machine_moves_its_promises_or_breaks_them_openly() {
    let mut world = World::new(Settings::default());
    let by = Deadline::Promise(Tick::new(70 * ROUND));
    for _ in 0..NODES {
        world.queue(Ask { devices: 8, deadline: by, ..ask() }, 3_600_000);
    }
    world.go_on(8 * ROUND);
    let out = world.queue.apply(Tick::new(world.now), Event::NodeLeft(NodeNumber(0)));
    let out = out.expect("it was there");
    assert!(matches!(out.as_slice(), [Decision::Break { .. }]), "{out:?}");
}

#[test]
fn job_of_a_dear_bid_goes_first_and_waiting_counts() {
    let mut world = World::new(Settings::default());
    let all = Ask { devices: 48, is_resumable: false, ..ask() };
    world.queue(all, 3_600_000);
    world.go_on(ROUND);
    let cheap = world.queue(all, 3_600_000);
    let dear = world.queue(Ask { bid_percent: 200, ..all }, 3_600_000);
    let urgent = world.queue(Ask { priority: 1, ..all }, 3_600_000);
    world.go_on(6 * 3_600_000);
    let starts = world.log.iter().filter_map(|decision| match decision {
        Decision::Start { job, .. } => Some(job.0),
        _ => None,
    });
    assert_eq!(starts.collect::<Vec<_>>(), [0, urgent, dear, cheap]);
}

#[test]
fn settled_jobs_teach_how_long_others_take() {
    let mut world = World::new(Settings::default());
    let minute = DurationMs::MINUTE;
    let slow = Ask { program: 5, estimate: minute, ..ask() };
    for _ in 0..40 {
        world.queue(slow, 8 * ROUND);
        world.go_on(world.now + 2 * ROUND);
    }
    world.go_on(world.now + 20 * ROUND);
    let expected = world.queue.expected_run(&slow, PoolNumber(0)).get();
    assert!(expected.abs_diff(8 * ROUND) < ROUND / 10, "{expected}");
    let job = world.queue(slow, 8 * ROUND);
    let eta = world.queue.eta(JobNumber(job)).expect("known").get();
    assert!(eta.abs_diff(world.now + 8 * ROUND) < ROUND, "{eta}");
}
