//! Jobs that their clients stop while they run: who is paid what, and that nobody gains by it.

use tg_ledger::YieldTo;
use tg_types::checkpoint::CHECKPOINT_EVERY_MIN;
use tg_types::{
    Action, Amount, CheckpointPlan, Event, Hash32, JobId, JobSpec, JobStatus, NetworkKind, Reason,
    RunFailure, Status, Tier,
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
    World::staffed_with(patient(), NetworkKind::Local, nodes)
}

fn stop(job: JobId) -> Action {
    Action::CancelJob { job }
}

/// What runs that were stopped ran and were paid, in these events.
fn stopped(events: &[Event]) -> Vec<(u64, u64)> {
    let stopped = |event: &Event| {
        let Event::RunStopped { ran, paid, .. } = event else { return None };
        Some((ran.get(), paid.units()))
    };
    events.iter().filter_map(stopped).collect()
}

/// What came back when a job ended.
fn refund(events: &[Event]) -> u64 {
    let back = events.iter().find_map(|event| {
        let Event::JobCancelled { refund, .. } = event else { return None };
        Some(refund.units())
    });
    back.expect("it ended")
}

#[test]
fn command_that_is_stopped_is_paid_for_its_time_and_the_rest_goes_back() {
    let mut world = world(1);
    let job = world.ask(command());
    world.pass(9_000);
    let escrow = world.known(job).escrow.units();
    let events = world.succeed(account(CLIENT), stop(job));
    assert!(matches!(events[..], [Event::StopAsked { .. }]), "{events:?}");
    assert_eq!(world.status(job), JobStatus::Running, "its node has to say so");
    let before = world.wealth(&account(0));
    let node_before = world.balance(&voice(0));
    let events = world.act(0, yielded(job, None));
    let [(ran, paid)] = stopped(&events)[..] else { unreachable!("one run") };
    assert!((9_000..14_000).contains(&ran), "{ran}");
    assert_eq!(paid, PAY * ran / RUN_MAX);
    assert_eq!(world.wealth(&account(0)) - before, paid);
    let fee = patient().jobs.step_fee.units();
    assert_eq!(world.balance(&voice(0)) + FEE.units() - node_before, fee, "what saying so costs");
    assert_eq!(refund(&events) + paid + fee, escrow);
    assert_eq!(world.status(job), JobStatus::Cancelled);
    assert_eq!(world.totals().escrow, Amount::ZERO);
    world.fail(account(CLIENT), stop(job), Reason::JobClosed, Amount::ZERO);
}

/// Goal: nobody earns by being slow. Method: a node that says only long after its date that it has
/// ended the run.
#[test]
fn time_after_the_date_is_not_paid() {
    let mut world = world(1);
    let job = world.ask(command());
    world.pass(2_000);
    world.succeed(account(CLIENT), stop(job));
    let run = world.known(job).live().next().cloned().expect("it runs");
    let Some(YieldTo::Client { by }) = run.yields_to else { unreachable!("it was asked") };
    world.pass(20_000);
    let events = world.act(0, yielded(job, None));
    let most = by.since(run.begun).expect("later").get();
    assert_eq!(stopped(&events), [(most, PAY * most / RUN_MAX)]);
}

#[test]
fn job_that_is_saved_is_saved_once_more_and_may_go_on_later() {
    let mut world = world(1);
    let job = world.ask(saved());
    world.pass(6_000);
    world.succeed(account(CLIENT), stop(job));
    world.fail(account(CLIENT), stop(job), Reason::StopRepeated, Amount::ZERO);
    world.act(0, yielded(job, Some(package(7))));
    let entry = world.known(job);
    assert_eq!((entry.status, entry.begins_with()), (JobStatus::Cancelled, Some(package(7))));
    assert!(entry.saved.is_some_and(|last| last.ran.get() >= 6_000));
    let plan = CheckpointPlan { every: CHECKPOINT_EVERY_MIN, from: entry.begins_with() };
    let next = world.ask(JobSpec { checkpoint: Some(plan), ..saved() });
    assert_eq!(world.known(next).begins_with(), Some(package(7)));
}

/// Goal: time is paid even if nothing was saved, or a client could have work done for nothing by
/// a program that saves nothing. Method: a job with checkpoints, and none.
#[test]
fn time_is_paid_even_if_nothing_was_saved() {
    let mut world = world(1);
    let job = world.ask(saved());
    world.pass(6_000);
    world.succeed(account(CLIENT), stop(job));
    let events = world.act(0, yielded(job, None));
    let [(ran, paid)] = stopped(&events)[..] else { unreachable!("one run") };
    assert!(ran >= 6_000 && paid == PAY * ran / RUN_MAX);
}

/// Goal: a node that is about to finish may, and nobody earns by going on. Method: a result that
/// comes before the date by which the run was to end, one that comes after it, and none at all.
#[test]
fn node_that_does_not_answer_is_paid_for_a_result_only_if_it_comes_before_the_date() {
    let mut world = world(1);
    let job = world.ask(command());
    world.pass(2_000);
    world.succeed(account(CLIENT), stop(job));
    world.deliver(0, job, &right());
    assert_eq!(world.status(job), JobStatus::Settled);

    let job = world.ask(command());
    world.pass(2_000);
    world.succeed(account(CLIENT), stop(job));
    world.pass(5_000);
    world.refused(0, commit_as(0, job, &right()), Reason::RunNotThere);
    let other = world.clone();
    let events = world.act(0, yielded(job, None));
    assert_eq!(stopped(&events).len(), 1, "it may still say that it has stopped");

    let mut world = other;
    let (escrow, stake) = (world.known(job).escrow.units(), world.wealth(&account(0)));
    let events = world.pass(RUN_MAX - 5_000);
    assert_eq!((refund(&events), world.status(job)), (escrow, JobStatus::Cancelled));
    let fine = patient().jobs.fine.units();
    assert_eq!(stake - world.wealth(&account(0)), fine, "it missed its date");
}

#[test]
fn stopped_job_whose_node_fails_ends_and_is_not_placed_again() {
    let mut world = world(2);
    let job = world.ask(command());
    let [runner] = world.runners(job)[..] else { unreachable!("one run") };
    world.succeed(account(CLIENT), stop(job));
    let escrow = world.known(job).escrow.units();
    let failure = RunFailure::DeviceFailed;
    let events = world.act(runner, Action::GiveUp { job, failure });
    assert_eq!((refund(&events), world.status(job)), (escrow, JobStatus::Cancelled));

    let job = world.ask(command());
    world.succeed(account(CLIENT), stop(job));
    world.pass(RUN_MAX + 3_000);
    assert_eq!(world.status(job), JobStatus::Cancelled, "its date passed");
}

#[test]
fn job_with_a_result_others_jobs_and_strange_words_are_refused() {
    let mut world = world(1);
    let job = world.ask(command());
    world.fail(account(CHALLENGER), stop(job), Reason::JobNotOwned, Amount::ZERO);
    world.refused(0, yielded(job, None), Reason::YieldNotAsked);
    world.act(0, commit_as(0, job, &right()));
    world.fail(account(CLIENT), stop(job), Reason::StopTooLate, Amount::ZERO);
    let other = world.ask(command());
    world.succeed(account(CLIENT), stop(other));
    world.refused(0, yielded(other, Some(package(1))), Reason::CheckpointNotAsked);
    world.refused(1, yielded(other, None), Reason::RunUnknown);
}

/// Goal: a run that is priced by its work is paid in full, because nobody sees how much of it is
/// done, and what was locked for its checks goes back. Method: every tier of tensor programs.
#[test]
fn tensor_program_that_is_stopped_is_paid_in_full_at_once() {
    let hash = Hash32::new([5; 32]);
    let zk = Tier::Zk { weights: hash, inputs: Hash32::new([6; 32]), is_secret: false };
    let shown = [Tier::Proof { weights: hash }, Tier::Rerun, zk];
    for tier in [Tier::Trusted, Tier::Audit, Tier::Sync].into_iter().chain(shown) {
        let mut world = world(1);
        let job = world.ask(spec(tier));
        assert_eq!(world.runners(job), [0], "{tier:?}");
        let escrow = world.known(job).escrow.units();
        let events = world.succeed(account(CLIENT), stop(job));
        assert_eq!(stopped(&events).iter().map(|(_, paid)| *paid).collect::<Vec<_>>(), [PAY]);
        assert_eq!(refund(&events) + PAY, escrow, "{tier:?}");
        assert_eq!(world.ended(job), [Reason::RunStopped]);
        assert!(world.node(&node(0)).expect("is there").runs.as_slice().is_empty());
        world.refused(0, commit_as(0, job, &right()), Reason::RunUnknown);
    }
}

#[test]
fn replicas_that_are_stopped_are_paid_for_their_time_at_once() {
    let mut world = world(3);
    let redundant = JobSpec { tier: Tier::Redundant { replicas: 2 }, ..command() };
    let job = world.ask(redundant.clone());
    let runners = world.runners(job);
    world.pass(10_000);
    let escrow = world.known(job).escrow.units();
    let events = world.succeed(account(CLIENT), stop(job));
    let paid = stopped(&events);
    assert_eq!((paid.len(), runners.len()), (2, 2));
    assert!(paid.iter().all(|(ran, paid)| *ran >= 10_000 && *paid == PAY * ran / RUN_MAX));
    assert_eq!(refund(&events) + paid.iter().map(|(_, paid)| paid).sum::<u64>(), escrow);
    let job = world.ask(redundant);
    let [first, _] = world.runners(job)[..] else { unreachable!("two runs") };
    world.act(first, commit_as(first, job, &right()));
    world.fail(account(CLIENT), stop(job), Reason::StopTooLate, Amount::ZERO);
}

#[test]
fn stopped_run_says_nothing_about_its_node() {
    let mut world = world(1);
    let before = world.node(&node(0)).expect("is there").reputation;
    for spec in [command(), spec(Tier::Audit)] {
        let job = world.ask(spec);
        world.succeed(account(CLIENT), stop(job));
        world.run(voice(0), yielded(job, None));
        assert_eq!(world.node(&node(0)).expect("is there").reputation, before);
    }
}

/// Goal: whatever clients and nodes do, no money is made or lost, and no stopped run is paid more
/// than a finished one. Method: random jobs, stops, words of nodes, results and time; the audit of
/// every block counts the money.
#[test]
fn prop_stops_conserve_money_and_pay_no_more_than_a_run() {
    let seen: usize = histories::play("stops", 24, |u, seen| {
        let mut world = world(3);
        let mut jobs: Vec<JobId> = Vec::new();
        for _ in 0..u.int_in_range(5..=40)? {
            let any = if jobs.is_empty() { None } else { Some(*u.choose(&jobs)?) };
            let runner = any.and_then(|job| world.runners(job).first().copied());
            let events = match (u.int_in_range(0..=8)?, any, runner) {
                (0..=2, _, _) | (_, None, _) => {
                    let redundant = Tier::Redundant { replicas: 2 };
                    let spec = match u.int_in_range(0..=3)? {
                        0 => command(),
                        1 => saved(),
                        2 => JobSpec { tier: redundant, ..command() },
                        _ => spec(*u.choose(&[Tier::Trusted, Tier::Audit, Tier::Sync])?),
                    };
                    let receipt = world.run(account(CLIENT), submit(vec![spec]));
                    if receipt.status == Status::Applied {
                        jobs.push(JobId::of(receipt.tx, 0));
                    }
                    receipt.events
                }
                (3, _, _) => world.pass(u.int_in_range(1_000..=9_000)?),
                (4 | 5, Some(job), _) => world.run(account(CLIENT), stop(job)).events,
                (6 | 7, Some(job), Some(runner)) => {
                    let checkpoint = u.arbitrary::<bool>()?.then(|| package(1));
                    world.run(voice(runner), yielded(job, checkpoint)).events
                }
                (_, Some(job), Some(runner)) => {
                    world.run(voice(runner), commit_as(runner, job, &right()));
                    world.run(voice(runner), reveal_as(runner, job, &right())).events
                }
                (_, Some(_), None) => world.beat().block_receipt.events,
            };
            let paid = stopped(&events);
            assert!(paid.iter().all(|(_, paid)| *paid <= PAY));
            *seen += paid.len();
            jobs.retain(|job| world.job(job).is_some_and(|entry| !entry.status.is_final()));
        }
        let locked: u64 = jobs.iter().map(|job| world.known(*job).escrow.units()).sum();
        assert_eq!(world.totals().escrow.units(), locked);
        Ok(())
    });
    assert!(seen > 0, "some were stopped");
}
