//! Runs that are saved and make room for jobs that offer much more: who yields to whom, what is
//! paid, and that nobody yields for ever.

use tg_ledger::YieldTo;
use tg_types::{
    Action, Amount, DurationMs, Event, JobId, JobSpec, JobStatus, NetworkKind, Reason, Status,
};

use super::commands::*;
use crate::fleet::*;
use crate::histories;
use crate::world::*;

/// How long runs of these jobs may take.
const RUN_MAX: u64 = 40_000;

/// A command that is saved, and offers so many times the usual.
fn saved(times: u64) -> JobSpec {
    saved_often(command(times))
}

/// A command that offers so many times the usual.
fn command(times: u64) -> JobSpec {
    JobSpec { pay: units(PAY * times), ..command_of(RUN_MAX) }
}

fn world(nodes: u8) -> World {
    World::staffed_with(patient_with_small_bonds(), NetworkKind::Local, nodes)
}

/// Takes all slots of all nodes with commands that cannot yield; gives them.
fn crowd(world: &mut World) -> Vec<JobId> {
    let mut jobs = Vec::new();
    loop {
        let job = world.ask(command(1));
        if world.runners(job).is_empty() {
            world.succeed(account(CLIENT), Action::CancelJob { job });
            return jobs;
        }
        jobs.push(job);
    }
}

/// A full network in which one command that is saved runs on a node.
fn full(nodes: u8) -> (World, JobId, u8) {
    let mut world = world(nodes);
    let job = world.ask(saved(1));
    let [runner] = world.runners(job)[..] else { unreachable!("one run") };
    crowd(&mut world);
    (world, job, runner)
}

/// Who was asked to yield in these events, and to whom.
fn asked(events: &[Event]) -> Vec<(JobId, JobId)> {
    let asked = |event: &Event| {
        if let Event::YieldAsked { job, to, .. } = event { Some((*job, *to)) } else { None }
    };
    events.iter().filter_map(asked).collect()
}

#[test]
fn run_makes_room_is_paid_for_its_time_and_goes_on_later() {
    let (mut world, job, runner) = full(1);
    world.pass(10_000);
    let escrow = world.known(job).escrow;
    let queued = world.known(job).queued;
    let urgent = world.ask(command(8));
    assert!(world.runners(urgent).is_empty(), "no room");
    let entry = world.known(job);
    assert_eq!(
        entry.live().next().and_then(|run| run.yields_to),
        Some(YieldTo::Job { job: urgent })
    );
    assert_eq!(world.known(urgent).waits_for, Some(job));
    let before = world.balance(&world.node(&node(runner)).expect("is there").owner);
    let events = world.act(runner, yielded(job, Some(package(7))));
    let yielded = events.iter().find_map(|event| {
        let Event::RunYielded { ran, paid, refund, .. } = event else { return None };
        Some((*ran, *paid, *refund))
    });
    let (ran, paid, back) = yielded.expect("it yielded");
    assert!((10_000..14_000).contains(&ran.get()), "{ran}");
    assert_eq!(paid.units(), PAY * ran.get() / RUN_MAX);
    let after = world.balance(&world.node(&node(runner)).expect("is there").owner);
    assert_eq!(after - before, paid.units());
    assert_eq!((world.runners(urgent), world.status(urgent)), (vec![runner], JobStatus::Running));
    let entry = world.known(job);
    assert_eq!((entry.status, entry.queued), (JobStatus::Queued, queued), "it keeps its place");
    assert_eq!(entry.spec.pay.plus(paid), Ok(units(PAY)));
    assert_eq!(entry.spec.run_max.get() + ran.get(), RUN_MAX);
    assert_eq!(entry.begins_with(), Some(package(7)));
    let all = [entry.escrow, entry.paid, back].map(Amount::units);
    assert_eq!(all.iter().sum::<u64>(), escrow.units());
    assert_eq!(entry.runs.as_slice().len(), 0, "it is no failure");
    world.deliver(runner, urgent, &right());
    world.beat();
    assert_eq!(world.runners(job), [runner], "it goes on");
    let events = world.deliver(runner, job, &right());
    let settled = events.iter().find_map(|event| {
        let Event::JobSettled { charged, refund, .. } = event else { return None };
        charged.plus(*refund).ok()
    });
    let settled = settled.and_then(|settled| settled.plus(back).ok());
    assert_eq!(settled, Some(escrow), "what was locked is charged or goes back");
}

#[test]
fn only_much_higher_offers_make_a_run_yield_and_not_at_once() {
    let (mut world, job, _) = full(1);
    let urgent = world.ask(command(8));
    assert_eq!(world.known(urgent).waits_for, None, "its run has just begun");
    world.succeed(account(CLIENT), Action::CancelJob { job: urgent });
    world.pass(5_000);
    let higher = world.ask(command(2));
    world.beat();
    assert_eq!(world.known(higher).waits_for, None, "an octave is not enough");
    world.succeed(account(CLIENT), Action::CancelJob { job: higher });
    let urgent = world.ask(command(4));
    world.beat();
    assert_eq!(world.known(urgent).waits_for, Some(job));
    let second = world.ask(command(8));
    world.beat();
    assert_eq!(world.known(second).waits_for, None, "one run makes room for one job");
}

#[test]
fn nobody_yields_who_was_not_asked_has_finished_or_is_promised() {
    let (mut world, job, runner) = full(2);
    world.pass(3_000);
    world.refused(runner, yielded(job, None), Reason::YieldNotAsked);
    world.refused(1 - runner, yielded(job, None), Reason::RunUnknown);
    world.refused(runner, yielded(JobId::new([9; 32]), None), Reason::JobUnknown);
    world.act(runner, commit_as(runner, job, &right()));
    let urgent = world.ask(command(8));
    world.beat();
    assert_eq!(world.known(urgent).waits_for, None, "it has finished");
    world.refused(runner, yielded(job, None), Reason::RunNotThere);

    let mut world = self::world(1);
    let promise = world.env.tick.plus(DurationMs::HOUR).ok();
    let job = world.ask(JobSpec { promise, ..saved(1) });
    assert_eq!(world.runners(job).len(), 1);
    crowd(&mut world);
    world.pass(3_000);
    let urgent = world.ask(command(8));
    world.beat();
    assert_eq!(world.known(urgent).waits_for, None, "it is promised");
}

#[test]
fn run_that_does_not_yield_goes_on_and_is_paid() {
    let (mut world, job, runner) = full(1);
    world.pass(3_000);
    let urgent = world.ask(command(8));
    assert_eq!(world.known(urgent).waits_for, Some(job));
    world.pass(3_000);
    assert_eq!(world.runners(job), [runner], "it may be sealing what it gave");
    assert!(world.runners(urgent).is_empty());
    world.deliver(runner, job, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
    world.beat();
    assert_eq!(world.runners(urgent), [runner], "the better offer is served next");
}

/// Goal: a job that is saved does not end while it runs, since its state would outlast what was
/// locked for it. Method: one that would expire before its run is over.
#[test]
fn job_that_is_saved_does_not_expire_while_it_runs() {
    let mut world = world(1);
    let job = world.ask(JobSpec { expires_after: DurationMs::new(2_000), ..saved(1) });
    let [runner] = world.runners(job)[..] else { unreachable!("one run") };
    world.pass(5_000);
    assert_eq!(world.status(job), JobStatus::Running);
    world.deliver(runner, job, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}

/// Goal: nobody is paid for time whose work nobody can go on with. Method: a node that yields with
/// nothing saved.
#[test]
fn run_that_yields_nothing_is_paid_nothing() {
    let (mut world, job, runner) = full(1);
    world.pass(10_000);
    let urgent = world.ask(command(8));
    assert_eq!(world.known(urgent).waits_for, Some(job));
    let before = world.known(job).spec;
    world.act(runner, yielded(job, None));
    let after = world.known(job).spec;
    assert_eq!((after.pay, after.run_max), (before.pay, before.run_max));
}

#[test]
fn job_yields_so_many_times_and_then_never_again() {
    let (mut world, job, runner) = full(1);
    for time in 1..=2 {
        world.pass(3_000);
        let urgent = world.ask(command(8));
        assert_eq!(world.known(urgent).waits_for, Some(job), "time {time}");
        world.act(runner, yielded(job, None));
        world.deliver(runner, urgent, &right());
        world.beat();
        assert_eq!(world.runners(job), [runner], "time {time}");
        assert_eq!(world.known(job).yields, time);
    }
    world.pass(3_000);
    let urgent = world.ask(command(16));
    world.beat();
    assert_eq!(world.known(urgent).waits_for, None, "it has yielded often enough");
}

#[test]
fn least_offer_yields_first() {
    let mut world = world(2);
    let (low, high) = (world.ask(saved(1)), world.ask(saved(2)));
    crowd(&mut world);
    world.pass(3_000);
    let tx = world.tx(account(CLIENT), submit(vec![command(16)]));
    let applied = world.block(&[tx]);
    let urgent = JobId::of(applied.receipts[0].tx, 0);
    assert_eq!(asked(&applied.block_receipt.events), [(low, urgent)]);
    let applied = world.block(&[]);
    assert_eq!(asked(&applied.block_receipt.events), [], "{high} is left alone");
}

#[test]
fn job_that_was_taken_back_leaves_the_place_to_others() {
    let (mut world, job, runner) = full(1);
    world.pass(3_000);
    let urgent = world.ask(command(8));
    world.succeed(account(CLIENT), Action::CancelJob { job: urgent });
    world.act(runner, yielded(job, Some(package(3))));
    assert_eq!(world.runners(job), [runner], "nobody else waits, so it goes on");
    assert_eq!(world.known(job).begins_with(), Some(package(3)));
}

/// Goal: whatever clients and nodes do, no money is made or lost, no job yields more often than
/// may be, and everything that was asked for ends when nodes work. Method: random offers, yields,
/// results and time, also too much of it; then every node does what it has to.
#[test]
fn prop_yields_conserve_money_and_nothing_starves() {
    let seen: u32 = histories::play("yields", 24, |u, seen| {
        let mut world = world(2);
        let mut jobs: Vec<JobId> = Vec::new();
        for _ in 0..u.int_in_range(5..=40)? {
            let any = if jobs.is_empty() { None } else { Some(*u.choose(&jobs)?) };
            let runner = any.and_then(|job| world.runners(job).first().copied());
            match (u.int_in_range(0..=7)?, any, runner) {
                (0..=2, _, _) | (_, None, _) => {
                    let times = *u.choose(&[1, 2, 4, 8, 16])?;
                    let spec = if u.arbitrary()? { saved(times) } else { command(times) };
                    let receipt = world.run(account(CLIENT), submit(vec![spec]));
                    if receipt.status == Status::Applied {
                        jobs.push(JobId::of(receipt.tx, 0));
                    }
                }
                (3, _, _) => drop(world.pass(u.int_in_range(1_000..=4_000)?)),
                (4 | 5, Some(job), Some(runner)) => {
                    let receipt = world.run(voice(runner), yielded(job, Some(package(1))));
                    *seen += u32::from(receipt.status == Status::Applied);
                }
                (_, Some(job), Some(runner)) => {
                    world.run(voice(runner), commit_as(runner, job, &right()));
                    world.run(voice(runner), reveal_as(runner, job, &right()));
                }
                (_, Some(_), None) => drop(world.beat()),
            }
            let most = patient_with_small_bonds().jobs.yields.per_job_max;
            let few = |job: &JobId| world.job(job).is_none_or(|entry| entry.yields <= most);
            assert!(jobs.iter().all(few));
            jobs.retain(|job| world.job(job).is_some_and(|entry| !entry.status.is_final()));
        }
        world.finish(jobs);
        Ok(())
    });
    assert!(seen > 0, "some made room");
}
