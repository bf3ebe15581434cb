//! Runs that go on at a better place: who is asked to move and who is not, where they go on, and
//! that nobody moves for ever.

use std::collections::BTreeMap;

use tg_ledger::{ApplyError, Lookup, PartialView, RunState, View as _, YieldTo, apply, reads};
use tg_types::checkpoint::CHECKPOINT_EVERY_MIN;
use tg_types::{
    Action, CheckedTx, DeviceKind, DurationMs, Encode as _, Event, JobId, JobSpec, JobStatus,
    KeyEscrow, List, NetworkKind, NodeDescriptor, Params, RunFailure, StateKey, Status,
};

use super::commands::*;
use crate::fleet::*;
use crate::histories;
use crate::judge::right_result;
use crate::world::*;

/// How long runs of these jobs may take.
const RUN_MAX: u64 = 400_000;

/// A weight that is plenty for a record.
const MUCH: u64 = 50_000_000;

/// Models that differ in no part of the score but their times.
const MODELS: [&str; 4] = ["RTX 4090", "RTX 4090", "RTX 4080", "RTX 4080"];

fn command() -> JobSpec {
    command_of(RUN_MAX)
}

fn saved() -> JobSpec {
    saved_often(command())
}

fn hasty() -> Params {
    let mut params = patient_with_small_bonds();
    params.tick_step_max = DurationMs::HOUR;
    params
}

fn world(nodes: u8) -> World {
    World::staffed_with(hasty(), NetworkKind::Local, nodes)
}

/// Writes down what is known of a node's work.
fn record(world: &mut World, number: u8, good: u64, bad: u64) {
    let mut entry = world.node(&node(number)).expect("is there");
    (entry.reputation.good, entry.reputation.bad) = (good, bad);
    entry.reputation.at = world.env.tick;
    let key = tg_ledger::keys::node(&node(number));
    world.view.commit(&[(key, Some(entry.to_bytes()))].into());
}

/// A saved command on a node that fails, while all others are known to be good.
fn failing(nodes: u8) -> (World, JobId, u8) {
    let mut world = world(nodes);
    let job = world.ask(saved());
    let [from] = world.runners(job)[..] else { unreachable!("one run") };
    blame(&mut world, from, nodes);
    (world, job, from)
}

/// One node fails, and all others are good.
fn blame(world: &mut World, bad: u8, nodes: u8) {
    for number in 0..nodes {
        let (good, bad) = if number == bad { (0, MUCH) } else { (MUCH, 0) };
        record(world, number, good, bad);
    }
}

/// The jobs that were asked to move in these events.
fn asked(events: &[Event]) -> Vec<JobId> {
    let asked = |event: &Event| {
        if let Event::MoveAsked { job, .. } = event { Some(*job) } else { None }
    };
    events.iter().filter_map(asked).collect()
}

/// Takes all slots of a node with commands that are not saved: all others are closed meanwhile.
fn crowd(world: &mut World, number: u8, nodes: u8) -> Vec<JobId> {
    let others: Vec<u8> = (0..nodes).filter(|other| *other != number).collect();
    for other in &others {
        open(world, *other, false);
    }
    let mut jobs = Vec::new();
    loop {
        let job = world.ask(command());
        if world.runners(job).is_empty() {
            world.succeed(account(CLIENT), Action::CancelJob { job });
            break;
        }
        jobs.push(job);
    }
    for other in others {
        open(world, other, true);
    }
    jobs
}

/// A node takes runs, or takes none, and is otherwise as it was.
fn open(world: &mut World, number: u8, is_open: bool) {
    let descriptor = world.node(&node(number)).expect("is there").descriptor;
    let descriptor = NodeDescriptor { is_open, ..descriptor };
    world.act(number, Action::ChangeNode { node: node(number), descriptor });
}

#[test]
fn run_leaves_a_node_that_fails_and_goes_on_from_what_was_saved() {
    let (mut world, job, from) = failing(2);
    let (escrow, queued) = (world.known(job).escrow, world.known(job).queued);
    assert_eq!(asked(&world.pass(4_000)), [job]);
    let entry = world.known(job);
    assert_eq!(entry.live().next().and_then(|run| run.yields_to), Some(YieldTo::Better));
    assert_eq!(entry.yields, 1, "it counts as one of the times");
    let events = world.act(from, yielded(job, Some(package(7))));
    let told = events.iter().find_map(|event| {
        let Event::RunMoved { ran, paid, refund, .. } = event else { return None };
        Some((ran.get(), paid.units(), refund.units()))
    });
    let (ran, paid, back) = told.expect("it moved");
    assert!(ran >= 3_000 && paid == PAY * ran / RUN_MAX, "{paid} for {ran}");
    assert_eq!(world.runners(job), [1 - from], "in the same block");
    let entry = world.known(job);
    assert_eq!((entry.queued, entry.begins_with()), (queued, Some(package(7))));
    assert_eq!(entry.escrow.units() + entry.paid.units() + back, escrow.units());
    assert_eq!(asked(&world.pass(9_000)), [], "it stays where it is well");
    world.deliver(1 - from, job, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}

/// Goal: a record is made of what happens, and not only of what a test writes down. Method: a node
/// that runs a saved command gives up what is worth much, and another node delivers it.
#[test]
fn node_that_gives_up_loses_what_it_runs() {
    let mut world = world(2);
    let job = world.ask(saved());
    let [from] = world.runners(job)[..] else { unreachable!("one run") };
    open(&mut world, 1 - from, false);
    let large = JobSpec { pay: units(9_000_000), ..command() };
    let large = world.ask(large);
    assert_eq!(world.runners(large), [from]);
    open(&mut world, 1 - from, true);
    world.act(from, Action::GiveUp { job: large, failure: RunFailure::DeviceFailed });
    assert_eq!(world.runners(large), [1 - from]);
    assert_eq!(asked(&world.pass(4_000)), [], "of the other nothing is known");
    world.deliver(1 - from, large, &right());
    assert_eq!(asked(&world.pass(4_000)), [job]);
}

#[test]
fn nobody_moves_for_little() {
    // Where it could go it is hardly better.
    let (mut world, _, from) = failing(2);
    record(&mut world, 1 - from, MUCH / 8, MUCH);
    assert_eq!(asked(&world.pass(6_000)), [], "the other is hardly better");
    record(&mut world, 1 - from, 0, 0);
    assert_eq!(asked(&world.pass(6_000)), [], "of the other nothing is known");
    // Nobody fails who does half of its work well, or of whom nothing is known.
    for (good, bad) in [(0, 0), (MUCH, MUCH)] {
        let (mut world, _, from) = failing(2);
        record(&mut world, from, good, bad);
        assert_eq!(asked(&world.pass(6_000)), [], "{good} good and {bad} bad");
    }
    // Too little is left.
    let mut world = self::world(2);
    let job = world.ask(JobSpec { run_max: DurationMs::new(9_000), ..saved() });
    let [from] = world.runners(job)[..] else { unreachable!("one run") };
    blame(&mut world, from, 2);
    assert_eq!(asked(&world.pass(8_000)), []);
    // Too much would be done again, unless it is saved.
    let (mut world, job, from) = failing(2);
    world.wait(200_000);
    assert_eq!(asked(&world.pass(6_000)), []);
    let vouchers = List::default();
    world.act(from, Action::SaveCheckpoint { job, checkpoint: package(1), vouchers });
    world.pass(6_000);
    assert_eq!(world.known(job).yields, 1);
}

#[test]
fn nobody_moves_who_may_not_end_now() {
    let mut world = world(2);
    let promise = world.env.tick.plus(DurationMs::HOUR).ok();
    let specs = [
        JobSpec { promise, ..saved() },
        JobSpec { key_escrow: KeyEscrow::None, ..saved() },
        command(),
        JobSpec { expires_after: DurationMs::new(5_000), ..saved() },
    ];
    for spec in specs {
        open(&mut world, 1, false);
        let job = world.ask(spec.clone());
        assert_eq!(world.runners(job), [0]);
        open(&mut world, 1, true);
        world.pass(2_000);
        blame(&mut world, 0, 2);
        assert_eq!(asked(&world.pass(6_000)), [], "{spec:?}");
        blame(&mut world, 1, 2);
    }
    let (mut world, job, from) = failing(2);
    world.pass(2_000);
    world.act(from, commit_as(from, job, &right()));
    assert_eq!(asked(&world.pass(6_000)), [], "it has finished");
}

#[test]
fn who_waits_comes_first() {
    // No other node has room.
    let (mut world, job, from) = failing(2);
    let others = crowd(&mut world, 1 - from, 2);
    blame(&mut world, from, 2);
    assert_eq!(asked(&world.pass(6_000)), []);
    world.deliver(1 - from, others[0], &right());
    blame(&mut world, from, 2);
    assert_eq!(asked(&world.pass(4_000)), [job]);
    // One that waits for several nodes would have what is idle.
    let (mut world, job, _) = failing(2);
    let gang = world.ask(JobSpec { nodes: 3, ..command() });
    assert_eq!(asked(&world.pass(6_000)), []);
    world.succeed(account(CLIENT), Action::CancelJob { job: gang });
    assert_eq!(asked(&world.pass(4_000)), [job]);
    // One that can use nothing of it is in nobody's way.
    let (mut world, job, _) = failing(2);
    let mut large = command();
    large.needs.memory_mib_min = 1 << 20;
    let large = world.ask(large);
    assert_eq!(asked(&world.pass(4_000)), [job]);
    assert!(world.runners(large).is_empty());
}

#[test]
fn place_that_was_left_is_taken_again_only_if_there_is_no_other() {
    // The node that it leaves is the cheapest by far, and would win.
    let (mut world, job, from) = failing(3);
    let descriptor = offer(1);
    world.act(from, Action::ChangeNode { node: node(from), descriptor });
    assert_eq!(asked(&world.pass(4_000)), [job]);
    record(&mut world, from, MUCH, 0); // nothing but where it was is against it
    world.act(from, yielded(job, Some(package(1))));
    let [to] = world.runners(job)[..] else { unreachable!("one run") };
    assert_ne!(to, from);

    let (mut world, job, from) = failing(2);
    assert_eq!(asked(&world.pass(4_000)), [job]);
    crowd(&mut world, 1 - from, 2);
    world.act(from, yielded(job, Some(package(1))));
    assert_eq!(world.runners(job), [from], "somebody was faster, so it goes on here");
    assert_eq!(world.known(job).begins_with(), Some(package(1)));
}

#[test]
fn job_moves_so_many_times_and_then_never_again() {
    let (mut world, job, mut at) = failing(2);
    for time in 1..=2 {
        assert_eq!(asked(&world.pass(6_000)), [job], "time {time}");
        world.act(at, yielded(job, Some(package(time))));
        at = 1 - at;
        assert_eq!(world.runners(job), [at]);
        blame(&mut world, at, 2);
    }
    assert_eq!(asked(&world.pass(20_000)), [], "it was asked often enough");
    assert_eq!(world.known(job).yields, 2);
}

#[test]
fn few_are_asked_at_a_time_and_no_place_is_meant_twice() {
    let mut world = world(3);
    open(&mut world, 1, false);
    open(&mut world, 2, false);
    let jobs: Vec<JobId> = (0..4).map(|_| world.ask(saved())).collect();
    assert!(jobs.iter().all(|job| world.runners(*job) == [0]));
    open(&mut world, 1, true);
    blame(&mut world, 0, 3);
    let applied: Vec<Event> = world.pass(2_000);
    assert_eq!(asked(&applied).len(), 1, "one node has room");
    open(&mut world, 2, true);
    blame(&mut world, 0, 3);
    for _ in 0..8 {
        let events = world.pass(1_000);
        assert!(asked(&events).len() <= 2, "as many as may be");
    }
}

/// An offer of a GPU of this model.
fn gpu(model: &str) -> NodeDescriptor {
    let mut descriptor = offer(1);
    let mut device = descriptor.devices.as_slice()[0].clone();
    (device.kind, device.model) = (DeviceKind::Gpu, model.parse().expect("a name"));
    descriptor.devices = List::new(vec![device]).expect("one");
    NodeDescriptor { slots: 4, ..descriptor }
}

/// Nodes of [`MODELS`], of which it is known how many seconds a command takes on the first and on
/// the second model. It was saved while it taught that.
fn taught(first: u64, second: u64) -> World {
    taught_with(hasty(), first, second)
}

fn taught_with(params: Params, first: u64, second: u64) -> World {
    let mut world = World::staffed_with(params, NetworkKind::Local, 4);
    for (number, model) in (0..).zip(MODELS) {
        world.act(number, Action::ChangeNode { node: node(number), descriptor: gpu(model) });
    }
    for (only, seconds) in [(0..2, first), (2..4, second)] {
        for number in 0..4 {
            open(&mut world, number, only.contains(&number));
        }
        let jobs = [world.ask(saved()), world.ask(saved())];
        let runners = jobs.map(|job| world.runners(job)[0]);
        assert_ne!(runners[0], runners[1], "two owners teach");
        world.wait(seconds * 1_000);
        for (job, runner) in jobs.into_iter().zip(runners) {
            world.deliver(runner, job, &right_result(&saved()));
        }
    }
    world
}

/// A saved command that was placed on the first model while the second had no room.
fn misplaced(world: &mut World) -> (JobId, u8) {
    for number in 0..4 {
        open(world, number, number < 2);
    }
    let job = world.ask(saved());
    for number in 2..4 {
        open(world, number, true);
    }
    (job, world.runners(job)[0])
}

#[test]
fn run_leaves_a_class_that_is_slow_for_it() {
    let mut world = taught(200, 40);
    let (job, from) = misplaced(&mut world);
    assert!(from < 2);
    assert_eq!(asked(&world.pass(6_000)), [job]);
    world.act(from, yielded(job, Some(package(1))));
    let [to] = world.runners(job)[..] else { unreachable!("one run") };
    assert!(to != from && world.known(job).begins_with() == Some(package(1)), "{to}");
    assert_eq!(asked(&world.pass(9_000)), []);
    world.deliver(to, job, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn nobody_leaves_a_class_for_little_or_on_one_owners_word() {
    let mut world = taught(60, 50);
    misplaced(&mut world);
    assert_eq!(asked(&world.pass(9_000)), [], "it is hardly faster elsewhere");

    let mut world = taught(40, 200);
    misplaced(&mut world);
    assert_eq!(asked(&world.pass(9_000)), [], "it is slower elsewhere");

    for (ran, times) in [(100, 1), (195, 0)] {
        let mut world = taught(200, 40);
        let (job, from) = misplaced(&mut world);
        world.wait(ran * 1_000);
        let vouchers = List::default();
        world.act(from, Action::SaveCheckpoint { job, checkpoint: package(1), vouchers });
        world.pass(6_000);
        assert_eq!(world.known(job).yields, times, "after {ran} s");
    }

    let mut world = self::world(2);
    for (number, model) in (0..).zip(["RTX 4090", "RTX 4080"]) {
        world.act(number, Action::ChangeNode { node: node(number), descriptor: gpu(model) });
    }
    for (number, seconds) in [(0, 200), (1, 40)] {
        open(&mut world, number, true);
        open(&mut world, 1 - number, false);
        let job = world.ask(saved());
        world.wait(seconds * 1_000);
        world.deliver(number, job, &right());
    }
    open(&mut world, 1, false);
    open(&mut world, 0, true);
    let job = world.ask(saved());
    assert_eq!(world.runners(job), [0]);
    open(&mut world, 1, true);
    assert_eq!(asked(&world.pass(9_000)), [], "one owner of each class says so");
}

/// Goal: only a run that did all of the work teaches how long that takes. Method: a job that moved,
/// and what is expected of the next one.
#[test]
fn rest_of_a_job_that_moved_teaches_nothing() {
    let (mut world, job, from) = failing(2);
    assert_eq!(asked(&world.pass(4_000)), [job]);
    world.act(from, yielded(job, Some(package(1))));
    world.pass(9_000);
    world.deliver(1 - from, job, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
    assert_eq!(world.ids(tg_types::Noun::Pace).len(), 0);
}

/// Goal: what a block needs to look for better places is asked for a few times only, since all of
/// it is executed again each time. Method: a block that asks a run to move, with what it asks for.
#[test]
fn what_moving_needs_is_loaded_in_a_few_goes() {
    let mut world = world(6);
    let job = world.ask(saved());
    let [from] = world.runners(job)[..] else { unreachable!("one run") };
    world.pass(2_000);
    blame(&mut world, from, 6);
    for _ in 0..3 {
        world.wait(900);
        let stored = |key: &StateKey| match world.view.get(key) {
            Lookup::Present(bytes) => Some(bytes.to_vec()),
            Lookup::Absent | Lookup::Unknown => None,
        };
        let known = reads(&world.rules.genesis, &world.env, &[]).into_iter();
        let mut view: PartialView = known.map(|key| (key, stored(&key))).collect();
        let mut rounds = 0;
        let applied = loop {
            match apply(&world.rules, &view, &world.env, &[]) {
                Err(ApplyError::Missing(missing)) => {
                    rounds += 1;
                    missing.iter().for_each(|key| view.hold(*key, stored(key)));
                }
                applied => break applied.expect("the block is valid"),
            }
        };
        assert!(rounds <= 6, "{rounds} rounds");
        assert_eq!(applied, world.block(&[]));
        if asked(&applied.block_receipt.events) == [job] {
            return;
        }
    }
    unreachable!("it was asked");
}

/// Seconds that a command takes on the first and on the second model here.
const SECONDS: [u64; 2] = [200, 40];

/// Runs as many commands as there are slots on simulated nodes, where each goes on from what was
/// saved; gives the mean completion time in milliseconds, and how many moved.
fn completion(per_job_max: u8) -> (u64, usize) {
    let mut params = hasty();
    params.jobs.yields.per_job_max = per_job_max;
    let mut world = taught_with(params, SECONDS[0], SECONDS[1]);
    (0..4).for_each(|number| open(&mut world, number, true));
    let start = world.env.tick;
    let mut jobs: Vec<(JobId, u64)> = (0..16).map(|_| (world.ask(saved()), 0)).collect();
    let (mut spent, mut moved) = (0, 0);
    while !jobs.is_empty() {
        world.wait(900);
        let now = world.env.tick;
        let mut actions: BTreeMap<u8, Vec<Action>> = BTreeMap::new();
        for (job, done) in &mut jobs {
            let entry = world.known(*job);
            let Some(run) = entry.live().next() else { continue };
            let number = number_of(&run.node);
            // Done is counted in parts of a million.
            let all = SECONDS[usize::from(number / 2)] * 1_000;
            let ran = now.since(run.begun).expect("later").get();
            let reached = *done + ran * 1_000_000 / all;
            let actions = actions.entry(number).or_default();
            match (run.state, run.yields_to) {
                (RunState::Committed { .. }, _) => {
                    actions.push(reveal_as(number, *job, &right()));
                    spent += now.since(start).expect("later").get();
                }
                (_, Some(_)) => {
                    actions.push(yielded(*job, Some(package(1))));
                    (*done, moved) = (reached, moved + 1);
                }
                (_, None) if reached >= 1_000_000 => {
                    actions.push(commit_as(number, *job, &right()));
                }
                (_, None) => {
                    let last = entry.saved.map_or(run.begun, |last| last.saved.max(run.begun));
                    if now.since(last).is_ok_and(|since| since >= CHECKPOINT_EVERY_MIN) {
                        let (job, checkpoint) = (*job, package(1));
                        let vouchers = List::default();
                        actions.push(Action::SaveCheckpoint { job, checkpoint, vouchers });
                    }
                }
            }
        }
        let txs = actions.into_iter().map(|(number, all)| world.txs(voice(number), all));
        let txs: Vec<CheckedTx> = txs.collect::<Vec<_>>().concat();
        let applied = world.block(&txs);
        assert!(applied.receipts.iter().all(|receipt| receipt.status == Status::Applied));
        jobs.retain(|(job, _)| !world.status(*job).is_final());
    }
    (spent / 16, moved)
}

/// Goal: moving shortens the mean completion time by a fifth at least, where fast devices come free
/// while slow ones still run. Method: sixteen commands on simulated nodes of two models, once with
/// moves and once without. `-- --nocapture` prints the figures.
#[test]
fn sim_moves_shorten_what_runs_at_slow_places() {
    let ((with, moved), (without, none)) = (completion(2), completion(0));
    println!("mean completion: {with} ms with {moved} moves, {without} ms without (simulated)");
    assert!(moved > 0 && none == 0);
    assert!(with * 5 <= without * 4, "{with} {without}");
}

/// Goal: whatever records nodes have and whatever they do, money is conserved, no job is asked more
/// often than may be, and everything ends once nodes work. Method: random records, jobs, moves,
/// results and time.
#[test]
fn prop_moves_are_few_conserve_money_and_end() {
    let moved: usize = histories::play("moves", 24, |u, moved| {
        let mut world = world(3);
        let mut jobs: Vec<JobId> = Vec::new();
        for _ in 0..u.int_in_range(5..=40)? {
            let any = if jobs.is_empty() { None } else { Some(*u.choose(&jobs)?) };
            let runner = any.and_then(|job| world.runners(job).first().copied());
            match (u.int_in_range(0..=8)?, any, runner) {
                (0 | 1, _, _) | (_, None, _) => {
                    let spec = if u.ratio(3, 4)? { saved() } else { command() };
                    let receipt = world.run(account(CLIENT), submit(vec![spec]));
                    if receipt.status == Status::Applied {
                        jobs.push(JobId::of(receipt.tx, 0));
                    }
                }
                (2 | 3, _, _) => drop(world.pass(u.int_in_range(1_000..=5_000)?)),
                (4 | 5, _, _) => {
                    let (good, bad) = *u.choose(&[(0, MUCH), (MUCH, 0), (MUCH, 0), (0, 0)])?;
                    record(&mut world, u.int_in_range(0..=2)?, good, bad);
                }
                (6 | 7, Some(job), Some(runner)) => {
                    let checkpoint = u.ratio(2, 3)?.then(|| package(1));
                    let receipt = world.run(voice(runner), yielded(job, checkpoint));
                    *moved += usize::from(receipt.status == Status::Applied);
                }
                (_, Some(job), Some(runner)) => {
                    world.run(voice(runner), commit_as(runner, job, &right()));
                    world.run(voice(runner), reveal_as(runner, job, &right()));
                }
                (_, Some(_), None) => drop(world.beat()),
            }
            let most = hasty().jobs.yields.per_job_max;
            let few = |job: &JobId| world.job(job).is_none_or(|entry| entry.yields <= most);
            assert!(jobs.iter().all(few));
            jobs.retain(|job| world.job(job).is_some_and(|entry| !entry.status.is_final()));
        }
        world.finish(jobs);
        Ok(())
    });
    assert!(moved > 0, "some moved");
}
