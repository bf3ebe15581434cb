//! Clients that change their mind: what a job offers, until when and on how many nodes it is
//! wanted, what is locked for it then, and what cannot be changed any more.

use tg_ledger::{BONUS_PER_OCTAVE, SECONDS_PER_BLOCK_MAX};
use tg_types::{
    Action, Adjustment, Amount, DurationMs, Event, Hash32, JobId, JobSpec, JobStatus, NetworkKind,
    NodeDescriptor, Params, Reason, Tick, Tier, Work,
};

use crate::fleet::*;
use crate::world::*;

fn command(pay: u64) -> JobSpec {
    let work = Work::Opaque { task: Hash32::new([1; 32]) };
    JobSpec { work, pay: units(pay), expires_after: DurationMs::HOUR, ..spec(Tier::Trusted) }
}

fn patient() -> Params {
    let mut params = busy_params();
    params.job_expires_max = DurationMs::DAY;
    params.tick_step_max = DurationMs::DAY;
    params
}

/// A network whose nodes take one run each, or none until they open.
fn world(nodes: u8, is_open: bool) -> World {
    let mut world = World::staffed_with(patient(), NetworkKind::Local, nodes);
    for number in 0..nodes {
        set_open(&mut world, number, is_open);
    }
    world
}

fn set_open(world: &mut World, number: u8, is_open: bool) {
    let descriptor = NodeDescriptor { is_open, slots: 1, ..offer(1) };
    world.act(number, Action::ChangeNode { node: node(number), descriptor });
}

fn adjust(job: JobId, change: Adjustment) -> Action {
    Action::AdjustJob { job, change, escrow_max: Amount::CAP }
}

fn pay(amount: u64) -> Adjustment {
    Adjustment { pay: Some(units(amount)), ..Adjustment::NONE }
}

fn until(expires: Tick) -> Adjustment {
    Adjustment { expires: Some(expires), ..Adjustment::NONE }
}

fn nodes(count: u8) -> Adjustment {
    Adjustment { nodes: Some(count), ..Adjustment::NONE }
}

/// Changes a job and checks that what is locked is what a new one would have to lock.
fn check_adjusted(world: &mut World, job: JobId, change: Adjustment) {
    let before = world.known(job);
    let had = world.wealth(&account(CLIENT)) + before.escrow.units();
    let receipt = world.run(account(CLIENT), adjust(job, change));
    let after = world.known(job);
    let has = world.wealth(&account(CLIENT)) + after.escrow.units();
    assert_eq!(has, had - receipt.fee.units(), "nothing but the fee is gone");
    assert_eq!((after.queued, after.submitted), (before.queued, before.submitted));
    let fresh = world.ask(after.spec.clone());
    assert_eq!(world.known(fresh).escrow, after.escrow);
    assert_eq!(world.known(fresh).row, after.row);
    world.succeed(account(CLIENT), Action::CancelJob { job: fresh });
}

#[test]
fn better_offer_stands_where_it_would_had_it_been_made_at_once() {
    let mut world = world(1, false);
    let [first, second] = [(); 2].map(|()| {
        world.wait(1_000);
        world.ask(command(50_000))
    });
    check_adjusted(&mut world, second, pay(100_000));
    check_adjusted(&mut world, second, pay(70_000));
    check_adjusted(&mut world, second, pay(400_000));
    let key = |job| world.known(job).queue_key().expect("it waits");
    assert!(key(second) < key(first));
    set_open(&mut world, 0, true);
    assert_eq!(world.status(second), JobStatus::Running);
    assert_eq!(world.status(first), JobStatus::Queued);
}

#[test]
fn lower_offer_waits_longer_and_gets_money_back() {
    let mut world = world(1, false);
    let first = world.ask(command(400_000));
    world.wait(BONUS_PER_OCTAVE.get() / 2);
    let second = world.ask(command(400_000));
    check_adjusted(&mut world, first, pay(100_000));
    set_open(&mut world, 0, true);
    assert_eq!(world.status(second), JobStatus::Running);
    assert_eq!(world.status(first), JobStatus::Queued);
}

#[test]
fn gang_that_is_made_smaller_begins_and_a_job_can_become_one() {
    let mut world = world(2, true);
    let job = world.ask(JobSpec { nodes: 3, ..command(50_000) });
    assert_eq!(world.status(job), JobStatus::Queued);
    world.succeed(account(CLIENT), adjust(job, nodes(2)));
    assert_eq!(world.status(job), JobStatus::Running);
    assert_eq!(world.known(job).live().count(), 2);
    let other = world.ask(command(50_000));
    check_adjusted(&mut world, other, nodes(4));
    check_adjusted(&mut world, other, nodes(1));
    assert_eq!(world.known(other).wanted, 1);
}

/// Blocks that are so much later, as many as it takes to look at all dates in between.
fn later_by(world: &mut World, span_ms: u64) {
    world.wait(span_ms);
    for _ in 0..=span_ms / 1_000 / SECONDS_PER_BLOCK_MAX {
        world.block(&[]);
    }
}

#[test]
fn moved_date_is_the_one_that_counts() {
    let mut world = world(1, false);
    let [earlier, later] = [(); 2].map(|()| world.ask(command(50_000)));
    let date = world.known(earlier).expires;
    let half = Tick::new(date.get() - DurationMs::HOUR.get() / 2);
    world.succeed(account(CLIENT), adjust(earlier, until(half)));
    let twice = date.plus(DurationMs::HOUR).expect("early");
    world.succeed(account(CLIENT), adjust(later, until(twice)));
    later_by(&mut world, DurationMs::HOUR.get() / 2 + 2_000);
    assert_eq!(world.status(earlier), JobStatus::Expired);
    later_by(&mut world, DurationMs::HOUR.get() / 2 + 2_000);
    assert_eq!(world.status(later), JobStatus::Queued, "its first date has passed");
    later_by(&mut world, DurationMs::HOUR.get());
    assert_eq!(world.status(later), JobStatus::Expired);
}

#[test]
fn what_cannot_be_changed_is_refused_and_stays() {
    let mut world = world(1, true);
    let running = world.ask(command(50_000));
    assert_eq!(world.status(running), JobStatus::Running);
    let waiting = world.ask(command(50_000));
    let date = world.known(waiting).expires;
    let now = world.env.tick;
    let far = now.plus(DurationMs::new(2 * DurationMs::DAY.get())).expect("early");
    let cases = [
        (CLIENT, waiting, Adjustment::NONE, Reason::AdjustNothing),
        (CLIENT, waiting, pay(1), Reason::PayTooLow),
        (CLIENT, waiting, nodes(0), Reason::NodesWrong),
        (CLIENT, waiting, nodes(17), Reason::NodesWrong),
        (CLIENT, waiting, until(now), Reason::AdjustPast),
        (CLIENT, waiting, until(far), Reason::JobExpiryTooLong),
        (CLIENT, waiting, pay(Amount::CAP.units() / 2), Reason::BalanceTooLow),
        (0, waiting, pay(60_000), Reason::JobNotOwned),
        (CLIENT, JobId::new([9; 32]), pay(60_000), Reason::JobUnknown),
        (CLIENT, running, pay(60_000), Reason::AdjustTooLate),
        (CLIENT, running, nodes(2), Reason::AdjustTooLate),
        (CLIENT, running, until(Tick::new(date.get() - 60_000)), Reason::AdjustTooLate),
    ];
    let before = [running, waiting].map(|job| world.known(job));
    for (sender, job, change, reason) in cases {
        world.fail(account(sender), adjust(job, change), reason, Amount::ZERO);
    }
    let action = Action::AdjustJob { job: waiting, change: pay(60_000), escrow_max: units(9_999) };
    world.fail(account(CLIENT), action, Reason::EscrowTooLow, Amount::ZERO);
    assert_eq!([running, waiting].map(|job| world.known(job)), before);
    let later = date.plus(DurationMs::HOUR).expect("early");
    let events = world.succeed(account(CLIENT), adjust(running, until(later)));
    assert!(matches!(events[..], [Event::JobAdjusted { nodes: 1, .. }]), "{events:?}");
    assert_eq!(world.known(running).expires, later);
    world.succeed(account(CLIENT), Action::CancelJob { job: waiting });
    world.fail(account(CLIENT), adjust(waiting, pay(60_000)), Reason::JobClosed, Amount::ZERO);
}
