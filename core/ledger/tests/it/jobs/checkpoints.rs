//! Checkpoints: who may save the state of a job, how often, what that costs, and who goes on.

use tg_ledger::SavedState;
use tg_types::checkpoint::{CHECKPOINT_BYTES_MAX, CHECKPOINT_EVERY_MIN};
use tg_types::{
    Action, Amount, CheckpointPlan, CheckpointRef, DurationMs, Event, Hash32, JobId, JobSpec,
    JobStatus, List, Reason, RunFailure, Tier, Work,
};

use crate::fleet::*;
use crate::world::*;

/// How long runs of these jobs may take.
const RUN_MAX: DurationMs = DurationMs::new(20_000);

/// A command that saves its state as often as may be.
fn command() -> JobSpec {
    let checkpoint = Some(CheckpointPlan { every: CHECKPOINT_EVERY_MIN, from: None });
    let (work, expires_after) = (Work::Opaque { task: Hash32::new([1; 32]) }, DurationMs::MINUTE);
    JobSpec { work, run_max: RUN_MAX, expires_after, checkpoint, ..spec(Tier::Trusted) }
}

fn package(number: u8) -> CheckpointRef {
    CheckpointRef { package: Hash32::new([number; 32]), package_bytes: 9 }
}

fn save(job: JobId, number: u8) -> Action {
    Action::SaveCheckpoint { job, checkpoint: package(number), vouchers: List::default() }
}

/// A network whose jobs may take a minute, and where vouchers are asked for.
fn vouching(nodes: u8) -> World {
    patient_with(nodes, true)
}

/// A network whose jobs may take a minute.
fn patient(nodes: u8) -> World {
    patient_with(nodes, false)
}

fn patient_with(nodes: u8, is_vouched: bool) -> World {
    let mut params = busy_params();
    params.jobs.is_vouched = is_vouched;
    params.job_expires_max = DurationMs::HOUR;
    params.jobs.run_max = DurationMs::MINUTE;
    World::staffed_with(params, tg_types::NetworkKind::Local, nodes)
}

fn saved(world: &World, job: JobId) -> Option<(CheckpointRef, u64)> {
    world.known(job).saved.map(|SavedState { checkpoint, ran, .. }| (checkpoint, ran.get()))
}

/// The node that runs a job alone.
fn runner(world: &World, job: JobId) -> u8 {
    let [runner] = world.runners(job)[..] else { unreachable!("one run") };
    runner
}

#[test]
fn last_checkpoint_stays_and_the_next_run_begins_with_it() {
    let mut world = patient(2);
    let job = world.ask(command());
    let first = runner(&world, job);
    assert_eq!(world.known(job).begins_with(), None);
    world.wait(5_000);
    let events = world.act(first, save(job, 7));
    assert!(events.iter().any(|event| matches!(event, Event::CheckpointSaved { .. })));
    world.wait(5_000);
    world.act(first, save(job, 8));
    let (checkpoint, ran) = saved(&world, job).expect("saved");
    assert!(checkpoint == package(8) && (10_000..12_000).contains(&ran), "{ran}");
    world.act(first, Action::GiveUp { job, failure: RunFailure::DeviceFailed });
    world.beat();
    let second = runner(&world, job);
    assert_ne!(first, second);
    assert_eq!((world.known(job).begins_with(), world.known(job).saves), (Some(package(8)), 0));
    world.wait(3_000);
    world.act(second, save(job, 9));
    let (_, later) = saved(&world, job).expect("saved");
    assert!((ran + 3_000..ran + 4_000).contains(&later), "the time between runs does not count");
}

#[test]
fn checkpoints_are_paid_for_and_what_was_not_saved_goes_back() {
    let mut world = patient(1);
    let plain = JobSpec { checkpoint: None, ..command() };
    let without = world.ask(plain);
    let before = world.totals().escrow;
    world.deliver(0, without, &right());
    let job = world.ask(command());
    let fee = busy_params().jobs.step_fee;
    let locked = before.plus(fee.times(4).expect("small")).expect("small");
    assert_eq!(world.totals().escrow, locked, "four checkpoints in twenty seconds");
    world.wait(5_000);
    let (node, client) = (voice(0), account(CLIENT));
    world.act(0, save(job, 7));
    let before = (world.balance(&node), world.balance(&client));
    let events = world.deliver(0, job, &right());
    let Some(Event::JobSettled { charged, refund, .. }) =
        events.iter().find(|event| matches!(event, Event::JobSettled { .. }))
    else {
        unreachable!("it ends well")
    };
    assert_eq!(charged.plus(*refund), Ok(locked));
    assert_eq!(*refund, fee.times(3).expect("small"));
    let gained = world.balance(&client) - before.1;
    assert_eq!(gained, refund.units());
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn what_no_job_may_ask_for_is_refused() {
    let mut world = patient(1);
    let mut check = |spec: JobSpec, reason| {
        world.fail(account(CLIENT), submit(vec![spec]), reason, Amount::ZERO);
    };
    let plan = |every| Some(CheckpointPlan { every: DurationMs::new(every), from: None });
    let often = JobSpec { checkpoint: plan(CHECKPOINT_EVERY_MIN.get() - 1), ..command() };
    check(often, Reason::CheckpointTooOften);
    let program = JobSpec { checkpoint: plan(5_000), ..spec(Tier::Trusted) };
    check(program, Reason::CheckpointNeedsCommand);
    let replicas = JobSpec { tier: Tier::Redundant { replicas: 2 }, ..command() };
    check(replicas, Reason::CheckpointNeedsCommand);
    let from = Some(CheckpointRef { package_bytes: CHECKPOINT_BYTES_MAX + 1, ..package(1) });
    let large = Some(CheckpointPlan { every: DurationMs::MINUTE, from });
    check(JobSpec { checkpoint: large, ..command() }, Reason::CheckpointTooLarge);
}

#[test]
fn saving_is_refused_to_others_too_early_too_often_and_unvouched() {
    let mut world = patient(2);
    let job = world.ask(command());
    let first = runner(&world, job);
    world.refused(first, save(job, 7), Reason::CheckpointTooOften);
    world.wait(5_000);
    world.refused(1 - first, save(job, 7), Reason::RunUnknown);
    world.refused(first, save(JobId::new([9; 32]), 7), Reason::JobUnknown);
    let checkpoint = CheckpointRef { package_bytes: CHECKPOINT_BYTES_MAX + 1, ..package(7) };
    let large = Action::SaveCheckpoint { job, checkpoint, vouchers: List::default() };
    world.refused(first, large, Reason::CheckpointTooLarge);
    for number in 0..4 {
        world.act(first, save(job, number));
        world.wait(2_600);
    }
    world.refused(first, save(job, 9), Reason::CheckpointTooOften);
    world.act(first, commit_as(first, job, &right()));
    world.refused(first, save(job, 9), Reason::RunNotThere);
    let plain = world.ask(JobSpec { checkpoint: None, ..command() });
    let node = runner(&world, plain);
    world.refused(node, save(plain, 7), Reason::CheckpointNotAsked);
}

#[test]
fn job_goes_on_with_the_checkpoint_of_another() {
    let mut world = patient(1);
    let plan = CheckpointPlan { every: DurationMs::MINUTE, from: Some(package(3)) };
    let job = world.ask(JobSpec { checkpoint: Some(plan), ..command() });
    assert_eq!(world.known(job).begins_with(), Some(package(3)));
}

#[test]
fn checkpoint_that_nobody_vouches_for_is_refused() {
    let mut world = vouching(1);
    let plan = CheckpointPlan { every: CHECKPOINT_EVERY_MIN, from: Some(package(3)) };
    let spec = JobSpec { checkpoint: Some(plan), ..command() };
    let ask = world.vouched(submit(vec![spec.clone()]));
    let voucher = |world: &World, packages| {
        List::new(vec![world.voucher(&[0, 1, 2], packages)]).expect("one")
    };
    let mut half = ask.clone();
    if let Action::SubmitJobs { vouchers, .. } = &mut half {
        *vouchers = voucher(&world, vec![spec.package_ref()]);
    }
    world.fail(account(CLIENT), half, Reason::PackageNotHeld, Amount::ZERO);
    let receipt = world.run(account(CLIENT), ask);
    let job = JobId::of(receipt.tx, 0);
    world.wait(5_000);
    let node = runner(&world, job);
    let vouchers = voucher(&world, vec![package(8).package_ref()]);
    let other = Action::SaveCheckpoint { job, checkpoint: package(7), vouchers };
    world.refused(node, other, Reason::PackageNotHeld);
    world.act(node, world.vouched(save(job, 7)));
    assert_eq!(saved(&world, job).map(|(checkpoint, _)| checkpoint), Some(package(7)));
}
