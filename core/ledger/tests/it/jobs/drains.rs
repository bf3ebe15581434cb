//! Nodes that close: who is given to them, what moves away, and what is paid for it.

use tg_ledger::{DueItem, DuePage, Lookup, View as _, YieldTo};
use tg_types::ids::{Noun, StateKey};
use tg_types::{
    Action, Amount, Decode as _, DurationMs, Event, JobId, JobSpec, JobStatus, NetworkKind,
    NodeDescriptor, Status, Tick,
};

use super::commands::*;
use crate::fleet::*;
use crate::histories;
use crate::world::*;

/// How long runs of these jobs may take.
const RUN_MAX: u64 = 40_000;

fn command() -> JobSpec {
    command_of(RUN_MAX)
}

fn saved() -> JobSpec {
    saved_often(command())
}

fn world(nodes: u8) -> World {
    World::staffed_with(patient_with_small_bonds(), NetworkKind::Local, nodes)
}

/// A node says when it closes, and whether it takes runs until then.
fn close(world: &mut World, number: u8, after: Option<u64>, is_open: bool) -> Vec<Event> {
    let now = world.env.tick;
    let closes = after.map(|after| now.plus(DurationMs::new(after)).expect("early"));
    let descriptor = NodeDescriptor { closes, is_open, ..offer(u64::from(number) + 1) };
    world.succeed(voice(number), Action::ChangeNode { node: node(number), descriptor })
}

/// The jobs that were asked to move in these events.
fn asked(events: &[Event]) -> Vec<JobId> {
    let asked = |event: &Event| {
        if let Event::MoveAsked { job, .. } = event { Some(*job) } else { None }
    };
    events.iter().filter_map(asked).collect()
}

#[test]
fn node_that_closes_is_given_only_what_surely_ends_before() {
    let mut world = world(1);
    close(&mut world, 0, Some(RUN_MAX - 1), true);
    let long = world.ask(command());
    assert!(world.runners(long).is_empty(), "it may last longer");
    let short = JobSpec { run_max: DurationMs::new(RUN_MAX / 2), ..command() };
    let short = world.ask(short);
    assert_eq!(world.runners(short), [0]);
    close(&mut world, 0, None, true);
    world.beat();
    assert_eq!(world.runners(long), [0], "it does not close any more");
}

#[test]
fn saved_command_moves_away_from_a_node_that_closes_and_is_paid_for_its_time() {
    let mut world = world(2);
    let job = world.ask(saved());
    let [from] = world.runners(job)[..] else { unreachable!("one run") };
    world.pass(9_000);
    let (escrow, queued) = (world.known(job).escrow, world.known(job).queued);
    close(&mut world, from, Some(10_000), false);
    let events = world.pass(1_500);
    assert_eq!(asked(&events), [job]);
    let run = world.known(job).live().next().cloned().expect("it runs on");
    assert_eq!(run.yields_to, Some(YieldTo::Owner));
    let events = world.act(from, yielded(job, Some(package(7))));
    let told = events.iter().find_map(|event| {
        let Event::RunMoved { ran, paid, refund, .. } = event else { return None };
        Some((ran.get(), paid.units(), refund.units()))
    });
    let (ran, paid, back) = told.expect("it moved");
    assert!(ran >= 9_000 && paid == PAY * ran / RUN_MAX, "{paid} for {ran}");
    assert_eq!(world.runners(job), [1 - from], "in the same block");
    let entry = world.known(job);
    assert_eq!((entry.queued, entry.begins_with()), (queued, Some(package(7))));
    assert_eq!(entry.yields, 0, "nobody offered more");
    let all = entry.escrow.units() + entry.paid.units() + back;
    assert_eq!(all, escrow.units());
    world.succeed(voice(from), Action::LeaveNode { node: node(from) });
    world.deliver(1 - from, job, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn what_is_not_saved_promised_or_ends_in_time_runs_on() {
    let mut world = world(1);
    let plain = world.ask(command());
    let short = JobSpec { run_max: DurationMs::new(5_000), ..saved() };
    let short = world.ask(short);
    let promise = world.env.tick.plus(DurationMs::HOUR).ok();
    let promised = world.ask(JobSpec { promise, ..saved() });
    for job in [plain, short, promised] {
        assert_eq!(world.runners(job), [0]);
    }
    close(&mut world, 0, Some(20_000), false);
    let events = world.pass(3_000);
    assert_eq!(asked(&events), []);
    world.deliver(0, plain, &right());
    assert_eq!(world.status(plain), JobStatus::Settled);
}

/// Goal: a node with hours says beforehand when it closes, and its runs move shortly before.
/// Method: a node that stays open for a while, and another that changes its mind.
#[test]
fn open_node_is_drained_shortly_before_it_closes_unless_it_stays() {
    let mut world = world(1);
    let job = world.ask(saved());
    close(&mut world, 0, Some(30_000), true);
    assert_eq!(asked(&world.pass(24_000)), [], "there is time");
    assert_eq!(asked(&world.pass(4_000)), [job]);

    let mut world = self::world(1);
    let _job = world.ask(saved());
    close(&mut world, 0, Some(30_000), true);
    world.pass(10_000);
    close(&mut world, 0, None, true);
    assert_eq!(asked(&world.pass(25_000)), [], "it stays");
}

/// How many items of the due queue are about nodes that close.
fn items(world: &World) -> usize {
    let ids = world.ids(Noun::Due).into_iter().map(|id| StateKey::new(Noun::Due, id));
    let pages = ids.filter_map(|key| match world.view.get(&key) {
        Lookup::Present(bytes) => DuePage::from_bytes(bytes).ok(),
        Lookup::Absent | Lookup::Unknown => None,
    });
    let is_drain = |item: &&DueItem| matches!(item, DueItem::DrainNode { .. });
    pages.map(|page| page.items.as_slice().iter().filter(is_drain).count()).sum()
}

/// Goal: changing one's mind costs others nothing. Method: the same end again and again, later
/// ones, and one that is years ahead.
#[test]
fn node_that_says_again_when_it_closes_stands_once_in_the_due_queue() {
    let mut world = world(1);
    let job = world.ask(saved());
    for _ in 0..5 {
        close(&mut world, 0, Some(10_000), true);
    }
    assert_eq!(items(&world), 1);
    close(&mut world, 0, Some(30_000), true);
    assert_eq!(asked(&world.pass(12_000)), [], "it closes later");
    assert_eq!(items(&world), 1, "and is looked at again then");
    assert_eq!(asked(&world.pass(16_000)), [job]);
    assert_eq!((items(&world), world.node(&node(0)).expect("is there").drains), (0, None));
    close(&mut world, 0, Some(100 * DurationMs::DAY.get()), true);
    let drains = world.node(&node(0)).expect("is there").drains.expect("it closes");
    let month = world.env.tick.plus(DurationMs::new(30 * DurationMs::DAY.get())).expect("early");
    assert!(drains <= month, "nothing stands there for years");
}

#[test]
fn many_runs_of_a_node_are_asked_a_few_at_a_time() {
    let mut world = world(1);
    let jobs: Vec<JobId> = (0..4).map(|_| world.ask(saved())).collect();
    assert!(jobs.iter().all(|job| world.runners(*job) == [0]));
    close(&mut world, 0, Some(10_000), false);
    let most = usize::from(patient().jobs.yields.per_block_max);
    let mut all = Vec::new();
    for _ in 0..16 {
        let applied = world.beat();
        let now = asked(&applied.block_receipt.events);
        assert!(now.len() <= most, "{now:?}");
        all.extend(now);
    }
    all.sort_unstable();
    let mut expected = jobs;
    expected.sort_unstable();
    assert_eq!(all, expected);
}

/// Goal: a slot that a node keeps is kept only if it ends before the node closes. Method: a full
/// node that keeps a slot for later, and says that it closes before.
#[test]
fn slot_after_the_end_is_not_kept_and_none_is_given() {
    let mut world = world(1);
    let fill: Vec<JobId> = (0..4).map(|_| world.ask(command())).collect();
    assert!(fill.iter().all(|job| world.runners(*job) == [0]));
    let by = |world: &World, ms| world.env.tick.plus(DurationMs::new(ms)).ok();
    let promise = by(&world, 200_000);
    let kept = world.ask(JobSpec { promise, ..command() });
    assert_eq!(world.node(&node(0)).expect("is there").kept.as_slice().len(), 1);
    close(&mut world, 0, Some(60_000), true);
    world.pass(2_000);
    assert_eq!(world.status(kept), JobStatus::Failed, "nobody else is there");
    let promise = by(&world, 200_000);
    let refused = world.ask(JobSpec { promise, ..command() });
    assert_eq!(world.status(refused), JobStatus::Failed);
    assert_eq!(
        world.totals().escrow,
        fill.iter()
            .fold(Amount::ZERO, |sum, job| { sum.plus(world.known(*job).escrow).expect("small") })
    );
}

/// Goal: whatever nodes say about their ends, money is conserved and every job ends once nodes
/// work. Method: random jobs, ends, moves, results and time; then all nodes stay open.
#[test]
fn prop_drains_conserve_money_and_nothing_is_lost() {
    let seen: usize = histories::play("drains", 24, |u, seen| {
        let mut world = world(3);
        let mut jobs: Vec<JobId> = Vec::new();
        for _ in 0..u.int_in_range(5..=40)? {
            let any = if jobs.is_empty() { None } else { Some(*u.choose(&jobs)?) };
            let runner = any.and_then(|job| world.runners(job).first().copied());
            match (u.int_in_range(0..=8)?, any, runner) {
                (0..=2, _, _) | (_, None, _) => {
                    let spec = if u.ratio(2, 3)? { saved() } else { command() };
                    let receipt = world.run(account(CLIENT), submit(vec![spec]));
                    if receipt.status == Status::Applied {
                        jobs.push(JobId::of(receipt.tx, 0));
                    }
                }
                (3, _, _) => drop(world.pass(u.int_in_range(1_000..=9_000)?)),
                (4 | 5, _, _) => {
                    let after = u.arbitrary::<bool>()?.then_some(u.int_in_range(0..=60_000)?);
                    close(&mut world, u.int_in_range(0..=2)?, after, u.arbitrary()?);
                }
                (6 | 7, Some(job), Some(runner)) => {
                    let checkpoint = u.arbitrary::<bool>()?.then(|| package(1));
                    let receipt = world.run(voice(runner), yielded(job, checkpoint));
                    *seen += usize::from(receipt.status == Status::Applied);
                }
                (_, Some(job), Some(runner)) => {
                    world.run(voice(runner), commit_as(runner, job, &right()));
                    world.run(voice(runner), reveal_as(runner, job, &right()));
                }
                (_, Some(_), None) => drop(world.beat()),
            }
            jobs.retain(|job| world.job(job).is_some_and(|entry| !entry.status.is_final()));
        }
        for number in 0..3 {
            close(&mut world, number, None, true);
        }
        world.finish(jobs);
        Ok(())
    });
    assert!(seen > 0, "some moved");
}

#[test]
fn date_that_has_passed_closes_a_node_at_once() {
    let mut world = world(1);
    let job = world.ask(saved());
    let descriptor = NodeDescriptor { closes: Some(Tick::new(1)), ..offer(1) };
    world.succeed(voice(0), Action::ChangeNode { node: node(0), descriptor });
    assert_eq!(asked(&world.pass(1_500)), [job]);
    let other = world.ask(command());
    assert!(world.runners(other).is_empty());
}
