//! Arrays: jobs that differ in their numbers only, taken in by one transaction.

use tg_ledger::{ApplyError, JOBS_PER_BLOCK_MAX, fee_floor};
use tg_types::tx::ArrayTasks;
use tg_types::{
    Action, Amount, Hash32, JobId, JobSpec, JobStatus, List, Params, Reason, Tier, Work,
};

use crate::fleet::*;
use crate::world::*;

/// A command.
fn command() -> JobSpec {
    JobSpec { work: Work::Opaque { task: Hash32::new([1; 32]) }, ..spec(Tier::Trusted) }
}

fn array(spec: JobSpec, first: u32, count: u16) -> Action {
    let (tasks, vouchers) = (ArrayTasks { first, count }, List::default());
    Action::SubmitArray { spec, tasks, escrow_max: Amount::CAP, vouchers }
}

fn escrow_of(tasks: u64) -> Amount {
    prices(&busy_params(), Tier::Trusted).escrow.times(tasks).expect("small")
}

#[test]
fn every_task_is_a_job_with_its_number() {
    let mut world = World::staffed(3);
    let tx = world.run(account(CLIENT), array(command(), 7, 5)).tx;
    assert_eq!(world.totals().escrow, escrow_of(5));
    for place in 0..5 {
        let entry = world.known(JobId::of(tx, place));
        assert_eq!((entry.task, entry.spec), (Some(7 + u32::from(place)), command()));
    }
    assert!(world.job(&JobId::of(tx, 5)).is_none());
    let alone = world.run(account(CLIENT), submit(vec![command()])).tx;
    assert_eq!(world.known(JobId::of(alone, 0)).task, None);
}

#[test]
fn largest_array_is_queued_and_goes_back_when_it_expires() {
    let mut world = World::staffed(0);
    let tx = world.run(account(CLIENT), array(command(), u32::MAX - 255, 256)).tx;
    let last = world.known(JobId::of(tx, 255));
    assert_eq!((last.task, last.status), (Some(u32::MAX), JobStatus::Queued));
    assert_eq!(world.totals().escrow, escrow_of(256));
    for _ in 0..3 {
        world.wait(7_000);
        world.block(&[]);
    }
    assert_eq!(world.totals().escrow, Amount::ZERO);
}

#[test]
fn array_without_tasks_or_numbers_is_refused() {
    let mut world = World::staffed(1);
    for (first, count) in [(0, 0), (0, 257), (u32::MAX, 2)] {
        let ask = array(command(), first, count);
        world.fail(account(CLIENT), ask, Reason::ArrayWrong, Amount::ZERO);
    }
    let ask = array(spec(Tier::Trusted), 0, 2);
    world.fail(account(CLIENT), ask, Reason::ArrayNeedsCommand, Amount::ZERO);
}

#[test]
fn array_that_costs_more_than_is_allowed_is_refused_as_a_whole() {
    let mut world = World::staffed(1);
    let tight = |escrow_max: Amount| {
        let (tasks, vouchers) = (ArrayTasks { first: 0, count: 4 }, List::default());
        Action::SubmitArray { spec: command(), tasks, escrow_max, vouchers }
    };
    let less = escrow_of(4).minus(units(1)).expect("more than one");
    world.fail(account(CLIENT), tight(less), Reason::EscrowTooLow, Amount::ZERO);
    world.succeed(account(CLIENT), tight(escrow_of(4)));
}

/// Goal: nobody fills the state for the price of one job's bytes. Method: compare the floors of an
/// array and of as many jobs.
#[test]
fn array_pays_for_the_bytes_of_every_task() {
    let params = Params { fee_floor_per_byte: units(1), ..busy_params() };
    let floor = |count: u16| fee_floor(&params, 500, &array(command(), 0, count)).units();
    let bytes = tg_types::Encode::to_bytes(&command()).len() as u64;
    assert_eq!(floor(1), 500);
    assert_eq!(floor(100), 500 + 99 * bytes);
}

/// Goal: arrays cannot make a block long. Method: one transaction more than a block takes in.
#[test]
fn block_takes_in_a_bounded_number_of_jobs() {
    let world = World::staffed(0);
    let arrays = u64::from(JOBS_PER_BLOCK_MAX / 256) + 1;
    let actions = (0..arrays).map(|_| array(command(), 0, 256)).collect();
    let txs = world.txs(account(CLIENT), actions);
    let (jobs, max) = (JOBS_PER_BLOCK_MAX + 256, JOBS_PER_BLOCK_MAX);
    assert_eq!(world.try_block(&txs), Err(ApplyError::TooManyJobs { jobs, max }));
    let built = world.build(&txs);
    assert_eq!(built.included.len() + 1, txs.len());
    assert!(built.refused.is_empty(), "the next block takes it");
}
