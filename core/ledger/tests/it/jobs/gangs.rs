//! Jobs for several nodes at once: all members or none, where they are placed, who is paid when one
//! of them fails, and that they neither starve nor keep others from their places for ever.

use tg_ledger::{GANG_HOLD_MAX, GANG_PATIENCE, apply, rest_of_run};
use tg_types::{
    Action, Amount, CheckedTx, CheckpointPlan, DurationMs, Event, JobId, JobSpec, JobStatus, List,
    NetworkKind, NodeDescriptor, Reason, RegionAsk, RunFailure, Status, Tier,
};

use super::commands::*;
use crate::fleet::*;
use crate::histories;
use crate::world::*;

/// How long runs of these jobs may take.
const RUN_MAX: u64 = 40_000;

fn command() -> JobSpec {
    JobSpec { expires_after: DurationMs::DAY, ..command_of(RUN_MAX) }
}

fn gang(nodes: u8) -> JobSpec {
    JobSpec { nodes, ..command() }
}

/// A network of nodes with this many slots.
fn world(nodes: u8, slots: u16) -> World {
    let mut world = World::staffed_with(patient(), NetworkKind::Local, nodes);
    for number in 0..nodes {
        change(&mut world, number, |offer| offer.slots = slots);
    }
    world
}

/// Changes what a node offers.
fn change(world: &mut World, number: u8, change: impl Fn(&mut NodeDescriptor)) {
    let mut descriptor = world.node(&node(number)).expect("is there").descriptor;
    change(&mut descriptor);
    let action = Action::ChangeNode { node: node(number), descriptor };
    world.succeed(voice(number), action);
}

fn stop(job: JobId) -> Action {
    Action::CancelJob { job }
}

fn give_up(job: JobId) -> Action {
    Action::GiveUp { job, failure: RunFailure::DeviceFailed }
}

/// What a node asked for its run of a job.
fn asked(world: &World, job: JobId, number: u8) -> u64 {
    let entry = world.known(job);
    let run = entry.live().find(|run| run.node == node(number)).expect("it runs");
    run.asked.expect("a member").units()
}

/// What the others were paid when a gang was broken up in these events.
fn broken(events: &[Event]) -> Vec<u64> {
    let broken = |event: &Event| {
        if let Event::GangBroken { paid, .. } = event { Some(paid.units()) } else { None }
    };
    events.iter().filter_map(broken).collect()
}

#[test]
fn gang_is_placed_on_different_nodes_and_settles_when_all_have_delivered() {
    let mut world = world(3, 4);
    let client = world.balance(&account(CLIENT));
    let tx = world.tx(account(CLIENT), submit(vec![gang(3)]));
    let (job, fee) = (JobId::of(tx.id(), 0), tx.body().fee.units());
    world.block(&[tx]);
    let entry = world.known(job);
    let steps = 2 * patient().jobs.step_fee.units();
    assert_eq!(entry.escrow.units(), 3 * (PAY + steps), "one run each");
    let mut runners = world.runners(job);
    for (rank, runner) in (0..).zip(&runners) {
        assert_eq!(entry.rank_of(&node(*runner)), Some(rank));
    }
    runners.sort_unstable();
    assert_eq!(runners, [0, 1, 2], "each another one");
    for runner in [0, 2] {
        world.deliver(runner, job, &right());
        assert_eq!(world.status(job), JobStatus::Running, "not all are done");
    }
    let before = world.wealth(&account(1));
    world.deliver(1, job, &wrong(3));
    assert_eq!(world.status(job), JobStatus::Settled, "members may give different outputs");
    assert_eq!(world.wealth(&account(1)) - before, PAY);
    assert_eq!(world.balance(&account(CLIENT)), client - fee - 3 * (PAY + steps));
}

#[test]
fn gang_waits_for_all_its_nodes_while_smaller_jobs_pass() {
    let mut world = world(3, 1);
    let first = world.ask(command());
    let [busy] = world.runners(first)[..] else { unreachable!("one run") };
    let waiting = world.ask(gang(3));
    assert_eq!(world.status(waiting), JobStatus::Queued);
    assert!(world.runners(waiting).is_empty(), "it holds nothing");
    let passing = world.ask(command());
    assert_eq!(world.runners(passing).len(), 1, "others use what it cannot");
    let runner = world.runners(passing)[0];
    world.deliver(runner, passing, &right());
    world.deliver(busy, first, &right());
    world.beat();
    assert_eq!(world.runners(waiting).len(), 3);
}

#[test]
fn two_gangs_that_want_the_same_nodes_come_one_after_the_other() {
    let mut world = world(3, 1);
    let specs = vec![gang(2), gang(2), gang(2)];
    let tx = world.tx(account(CLIENT), submit(specs));
    let jobs = [0, 1, 2].map(|place| JobId::of(tx.id(), place));
    world.block(&[tx]);
    for _ in 0..20 {
        for job in jobs.iter().filter(|job| world.status(**job) == JobStatus::Running) {
            let runners = world.clone().runners(*job);
            assert_eq!(runners.len(), 2);
        }
        let running = jobs.into_iter().find(|job| world.status(*job) == JobStatus::Running);
        let Some(job) = running else { break };
        for runner in world.runners(job) {
            world.deliver(runner, job, &right());
        }
        world.beat();
    }
    assert!(jobs.iter().all(|job| world.status(*job) == JobStatus::Settled));
}

#[test]
fn gang_is_placed_in_one_region_if_one_has_room_for_all() {
    let mut world = world(5, 4);
    for number in [0, 2] {
        change(&mut world, number, |offer| offer.region = "us-west".parse().expect("a name"));
    }
    let regions = |world: &World, job: JobId| {
        let runners = world.runners(job).into_iter();
        let regions = runners.map(|number| world.node(&node(number)).expect("is there"));
        let mut regions: Vec<_> = regions.map(|it| it.descriptor.region.to_string()).collect();
        regions.sort_unstable();
        regions.dedup();
        regions
    };
    let (near, anywhere) = (world.ask(gang(3)), world.ask(gang(4)));
    assert_eq!(regions(&world, near), ["eu-north"]);
    assert_eq!(regions(&world, anywhere), ["eu-north", "us-west"]);
    let region = RegionAsk::Only { region: "us-west".parse().expect("a name") };
    let mut asked = gang(2);
    asked.needs.region = region;
    let asked = world.ask(asked);
    assert_eq!(regions(&world, asked), ["us-west"]);
    let mut at_home = gang(2);
    for (home, expected) in [("us-east", "us-west"), ("mars", "eu-north")] {
        at_home.needs.region = RegionAsk::Near { region: home.parse().expect("a name") };
        let job = world.ask(at_home.clone());
        assert_eq!(regions(&world, job), [expected], "nearest to {home}, or with the most nodes");
    }
}

/// Goal: an owner whose stake stands for one run only is not given two members. Method: two nodes
/// of one owner, with stake for one and a half runs.
#[test]
fn members_of_one_owner_need_stake_for_all_of_them() {
    let mut world = World::staffed_with(patient(), NetworkKind::Local, 1);
    let txs = world.staff(1, 2, 30 * PAY);
    world.block(&txs);
    let registration = world.registration(2, account(2), 1);
    world.succeed(account(2), registration);
    change(&mut world, 2, |it| *it = NodeDescriptor { slots: 4, ..offer(2) });
    let job = world.ask(gang(3));
    assert!(world.runners(job).is_empty());
    world.succeed(account(2), Action::Stake { amount: units(10 * PAY) });
    world.beat();
    assert_eq!(world.runners(job).len(), 3, "two of one owner are two machines");
}

#[test]
fn gangs_that_cannot_be_are_refused() {
    let mut world = world(2, 4);
    let refuse = |world: &mut World, spec: JobSpec, reason| {
        world.fail(account(CLIENT), submit(vec![spec]), reason, Amount::ZERO);
    };
    refuse(&mut world, gang(0), Reason::NodesWrong);
    refuse(&mut world, gang(17), Reason::NodesWrong);
    let redundant = JobSpec { tier: Tier::Redundant { replicas: 2 }, ..gang(2) };
    refuse(&mut world, redundant, Reason::GangNeedsCommand);
    refuse(&mut world, JobSpec { nodes: 2, ..spec(Tier::Trusted) }, Reason::GangNeedsCommand);
    let promise = world.env.tick.plus(DurationMs::HOUR).ok();
    refuse(&mut world, JobSpec { promise, ..gang(2) }, Reason::GangNeedsCommand);
    let every = DurationMs::MINUTE;
    let checkpoint = Some(CheckpointPlan { every, from: None });
    refuse(&mut world, JobSpec { checkpoint, ..gang(2) }, Reason::GangNeedsCommand);
}

/// Goal: whoever is seen to fail pays the others for their work, and the gang waits again. Method:
/// a member that misses its date while another has delivered.
#[test]
fn member_that_misses_its_date_pays_the_others_and_the_gang_waits_again() {
    let mut world = world(4, 4);
    let job = world.ask(gang(2));
    let escrow = world.known(job).escrow;
    let [late, good] = world.runners(job)[..] else { unreachable!("two runs") };
    world.deliver(good, job, &right());
    let before = [late, good].map(|number| world.wealth(&account(number)));
    let asked = asked(&world, job, late);
    assert!(asked > 0 && asked < PAY, "{asked}");
    let events = world.pass(RUN_MAX + 3_000);
    assert_eq!(broken(&events), [asked], "its work was done; nobody pays more than it asks for");
    let after = [late, good].map(|number| world.wealth(&account(number)));
    assert_eq!(after[1] - before[1], asked);
    assert_eq!(before[0] - after[0], asked + patient().jobs.fine.units());
    let entry = world.known(job);
    assert_eq!((entry.status, entry.escrow), (JobStatus::Running, escrow), "it is run again");
    assert_eq!(world.runners(job).len(), 2);
}

#[test]
fn gang_of_a_lost_member_is_run_again_by_others() {
    let mut world = world(3, 4);
    let job = world.ask(gang(2));
    let [lost, good] = world.runners(job)[..] else { unreachable!("two runs") };
    let asked = asked(&world, job, lost);
    world.pass(10_000);
    let before = [lost, good].map(|number| world.wealth(&account(number)));
    let epoch = world.env.tick.get() / patient().absence_epoch.get() - 1;
    let nodes = tg_types::tx::NodeSet::new(vec![node(lost)]).expect("one");
    let reports: Vec<CheckedTx> = (0..3)
        .map(|seat| {
            let nodes = nodes.clone();
            world.tx(owner(seat), Action::ReportAbsent { epoch, nodes })
        })
        .collect();
    world.block(&reports);
    let events = world.pass(3_000);
    let [paid] = broken(&events)[..] else { unreachable!("broken once: {events:?}") };
    assert!(paid >= asked * 10_000 / RUN_MAX && paid < asked / 2, "{paid}");
    let after = [lost, good].map(|number| world.wealth(&account(number)));
    assert_eq!((after[1] - before[1], before[0] - after[0]), (paid, paid));
    let runners = world.runners(job);
    assert!(runners.len() == 2 && !runners.contains(&lost), "{runners:?}");
    assert_eq!(world.ended(job), [], "it is no failure of the job's");
}

/// Goal: a node that is back soon does not cost its gang all its runs. Method: a member that a
/// quorum misses for a moment, and changes what it offers.
#[test]
fn member_that_is_back_soon_goes_on() {
    let mut params = patient();
    params.jobs.yields.after = DurationMs::new(5_000);
    let mut world = World::staffed_with(params, NetworkKind::Local, 3);
    let job = world.ask(gang(2));
    let runners = world.runners(job);
    world.pass(10_000);
    let epoch = world.env.tick.get() / patient().absence_epoch.get() - 1;
    let nodes = tg_types::tx::NodeSet::new(vec![node(runners[0])]).expect("one");
    let report = Action::ReportAbsent { epoch, nodes };
    let reports: Vec<CheckedTx> =
        (0..3).map(|seat| world.tx(owner(seat), report.clone())).collect();
    world.block(&reports);
    assert!(world.node(&node(runners[0])).expect("is there").absent.is_some());
    assert_eq!(broken(&world.pass(2_000)), []);
    change(&mut world, runners[0], |_| {});
    assert_eq!(broken(&world.pass(6_000)), []);
    assert_eq!(world.runners(job), runners);
}

/// Goal: work of members that are done is not had for nothing. Method: a gang whose own date comes
/// while one of its members still runs.
#[test]
fn gang_that_runs_does_not_expire_before_its_members_dates() {
    let mut world = world(3, 4);
    let expires_after = DurationMs::new(10_000);
    let job = world.ask(JobSpec { expires_after, ..gang(2) });
    let [first, second] = world.runners(job)[..] else { unreachable!("two runs") };
    world.deliver(first, job, &right());
    world.pass(15_000);
    assert_eq!(world.status(job), JobStatus::Running, "its members have dates of their own");
    world.deliver(second, job, &right());
    assert_eq!(world.status(job), JobStatus::Settled);

    let job = world.ask(JobSpec { expires_after, ..gang(2) });
    let first = world.runners(job)[0];
    world.deliver(first, job, &right());
    let events = world.pass(RUN_MAX + 5_000);
    assert!(matches!(broken(&events)[..], [paid] if paid > 0), "who failed pays who is done");
    let is_expired = |event: &Event| matches!(event, Event::JobExpired { .. });
    assert_eq!(events.iter().filter(|event| is_expired(event)).count(), 1, "it is not run again");
}

/// Goal: nobody is paid in full for what it only committed to, or by a failure of its own. Method:
/// a provider with two nodes, one of which commits at once while the other gives up.
#[test]
fn owner_whose_member_gives_up_is_not_paid_for_its_others() {
    let mut world = World::staffed_with(patient(), NetworkKind::Local, 2);
    let registration = world.registration(2, account(1), 1);
    world.succeed(account(1), registration);
    change(&mut world, 2, |it| *it = NodeDescriptor { slots: 4, ..offer(3) });
    let job = world.ask(gang(3));
    assert_eq!(world.runners(job).len(), 3);
    world.pass(10_000);
    world.act(2, commit_as(2, job, &right()));
    world.act(0, commit_as(0, job, &right()));
    let before = [0, 1].map(|number| world.wealth(&account(number)));
    let events = world.act(1, give_up(job));
    let after = [0, 1].map(|number| world.wealth(&account(number)));
    let [paid] = broken(&events)[..] else { unreachable!("broken once") };
    assert_eq!((after[0] - before[0], after[1] - before[1]), (paid, 0));
    assert!((PAY * 10_000 / RUN_MAX..PAY / 2).contains(&paid), "by its time: {paid}");
}

/// Goal: work is not had for nothing in slices. Method: a long time that counts as hardly begun for
/// other things, and a member that gives up within it.
#[test]
fn member_that_gives_up_after_a_few_seconds_is_not_free() {
    let mut params = patient();
    params.jobs.yields.after = DurationMs::MINUTE;
    let mut world = World::staffed_with(params, NetworkKind::Local, 3);
    let job = world.ask(gang(2));
    world.pass(7_000);
    let runner = world.runners(job)[0];
    let events = world.act(runner, give_up(job));
    assert!(matches!(broken(&events)[..], [paid] if paid >= PAY * 7_000 / RUN_MAX));
    assert_eq!(world.status(job), JobStatus::Failed);
}

#[test]
fn member_that_is_done_keeps_its_slot_until_the_others_dates_and_not_for_ever() {
    let mut world = world(2, 4);
    let job = world.ask(gang(2));
    let [done, _] = world.runners(job)[..] else { unreachable!("two runs") };
    world.deliver(done, job, &right());
    let rest = rest_of_run(&patient(), &world.known(job), &node(done), world.env.tick);
    let most = world.env.tick.plus(DurationMs::new(2 * RUN_MAX)).expect("early");
    assert!(rest.to < most, "{rest:?}");
}

/// Goal: each member has its own time to show what it committed to. Method: one that commits, and
/// another that commits later.
#[test]
fn commitment_of_one_member_does_not_put_off_anothers_date() {
    let mut world = world(2, 4);
    let job = world.ask(gang(2));
    let [first, second] = world.runners(job)[..] else { unreachable!("two runs") };
    let date = |world: &World| {
        let entry = world.known(job);
        entry.live().find(|run| run.node == node(first)).expect("runs").deadline
    };
    world.act(first, commit_as(first, job, &right()));
    let before = date(&world);
    world.wait(1_000);
    world.act(second, commit_as(second, job, &right()));
    assert_eq!(date(&world), before);
}

/// Goal: a client has nothing for free by a friend that gives up at the end. Method: a member that
/// gives up at once, and one that does so later.
#[test]
fn member_that_gives_up_late_makes_the_client_pay_the_others() {
    let mut world = world(4, 4);
    let job = world.ask(gang(2));
    let [first, _] = world.runners(job)[..] else { unreachable!("two runs") };
    let events = world.act(first, give_up(job));
    assert_eq!((broken(&events), world.runners(job).len()), (vec![0], 2), "hardly begun");
    let [second, other] = world.runners(job)[..] else { unreachable!("two runs") };
    world.pass(20_000);
    let (escrow, before) = (world.known(job).escrow.units(), world.wealth(&account(other)));
    let events = world.act(second, give_up(job));
    let [paid] = broken(&events)[..] else { unreachable!("broken once") };
    assert!(paid >= PAY / 2, "{paid}");
    assert_eq!(world.wealth(&account(other)) - before, paid);
    let refund = events.iter().find_map(|event| {
        if let Event::JobFailed { refund, .. } = event { Some(refund.units()) } else { None }
    });
    assert_eq!(refund, Some(escrow - paid), "and the job ends");
    assert!(world.runners(job).is_empty());
}

#[test]
fn gang_fails_when_too_many_attempts_have() {
    let mut world = world(6, 4);
    let job = world.ask(gang(2));
    for _ in 0..=patient().jobs.runs_failed_max {
        let runner = world.runners(job)[0];
        world.act(runner, give_up(job));
    }
    assert_eq!(world.status(job), JobStatus::Failed);
}

#[test]
fn gang_that_is_stopped_ends_at_once_and_its_members_are_paid() {
    let mut world = world(3, 4);
    let job = world.ask(gang(3));
    let [done, ..] = world.runners(job)[..] else { unreachable!("three runs") };
    world.pass(10_000);
    world.deliver(done, job, &right());
    let events = world.succeed(account(CLIENT), stop(job));
    let paid = |event: &Event| {
        let Event::RunStopped { ran, paid, .. } = event else { return None };
        Some((ran.get(), paid.units()))
    };
    let mut paid: Vec<(u64, u64)> = events.iter().filter_map(paid).collect();
    paid.sort_by_key(|(_, paid)| *paid);
    let [(ran, first), (_, second), (_, third)] = paid[..] else { unreachable!("{paid:?}") };
    assert_eq!((first, second, third), (PAY * ran / RUN_MAX, PAY * ran / RUN_MAX, PAY));
    assert_eq!(world.status(job), JobStatus::Cancelled);
    assert_eq!(world.totals().escrow, Amount::ZERO);
}

/// Goal: a gang does not starve behind a stream of small jobs. Method: one-slot nodes on which
/// small jobs begin and end in turn, so that two are never free at once; after its patience the
/// gang has what comes free.
#[test]
fn gang_that_has_waited_for_long_is_served_before_younger_jobs() {
    let mut world = world(2, 1);
    let mut small = vec![world.ask(command()), world.ask(command())];
    let job = world.ask(gang(2));
    let mut waited = 0;
    let patience = GANG_PATIENCE.get();
    while world.status(job) == JobStatus::Queued && waited < 2 * patience {
        // There is always another small one, and one of them ends now and then.
        small.push(world.ask(command()));
        let running = small.iter().position(|job| world.status(*job) == JobStatus::Running);
        let ended = small.remove(running.expect("one runs or the gang does"));
        let runner = world.runners(ended)[0];
        world.deliver(runner, ended, &right());
        waited += 10_000;
        world.pass(10_000);
        if waited < patience {
            assert_eq!(world.status(job), JobStatus::Queued, "others pass it for a while");
        }
    }
    assert_eq!(world.status(job), JobStatus::Running, "after {waited} ms");
    assert!(waited <= patience + 40_000, "{waited}");
}

/// Goal: nodes are not held back for a gang that can never be placed. Method: one that wants more
/// nodes than there are, long ago.
#[test]
fn gang_that_no_network_could_run_holds_nobody_up() {
    let mut world = world(2, 1);
    let never = world.ask(gang(5));
    world.pass(GANG_PATIENCE.get() + 10_000);
    let other = world.ask(gang(2));
    assert_eq!(world.runners(other).len(), 2);
    assert_eq!(world.status(never), JobStatus::Queued);
}

/// Goal: places are not held for a gang that cannot have them: its nodes close too soon, or the
/// stake of one owner does not stand for all its members. Method: full nodes of one slot, one of
/// which comes free after the gang's patience.
#[test]
fn nodes_are_not_held_for_a_gang_that_they_will_not_take() {
    let check = |is_held: bool, prepare: &dyn Fn(&mut World)| {
        let mut world = World::staffed_with(patient(), NetworkKind::Local, 1);
        let txs = world.staff(1, 2, 59 * PAY);
        world.block(&txs);
        let registration = world.registration(2, account(2), 1);
        world.succeed(account(2), registration);
        for number in 0..3 {
            change(&mut world, number, |it| *it = NodeDescriptor { slots: 1, ..offer(1) });
        }
        let long = JobSpec { run_max: DurationMs::HOUR, ..command() };
        let small: Vec<JobId> = (0..3).map(|_| world.ask(long.clone())).collect();
        assert!(small.iter().all(|job| world.runners(*job).len() == 1));
        prepare(&mut world);
        let waiting = world.ask(gang(3));
        world.pass(GANG_PATIENCE.get() + 3_000);
        let freed = world.runners(small[0])[0];
        world.deliver(freed, small[0], &right());
        let next = world.ask(command());
        assert_eq!(world.runners(next).is_empty(), is_held, "{:?}", world.runners(next));
        assert_eq!(world.status(waiting), JobStatus::Queued);
    };
    check(true, &|world| {
        world.succeed(account(2), Action::Stake { amount: units(40 * PAY) });
    });
    check(false, &|_| {}); // of 59 all but 19 stand for what runs
    check(false, &|world| {
        world.succeed(account(2), Action::Stake { amount: units(40 * PAY) });
        let end = world.env.tick.plus(DurationMs::MINUTE).ok();
        change(world, 1, |it| it.closes = end);
    });
}

/// Goal: what is held back is held for a while. Method: a gang that waits for a run of an hour.
#[test]
fn nodes_are_held_for_a_bounded_time() {
    let mut world = world(2, 1);
    let long = JobSpec { run_max: DurationMs::HOUR, ..command() };
    let busy = world.ask(long);
    let waiting = world.ask(gang(2));
    world.pass(GANG_PATIENCE.get() + 2_000);
    let at = world.known(waiting).gang_place.expect("it waits");
    assert!(at.until.is_some(), "it is held for");
    let other = world.ask(command());
    assert!(world.runners(other).is_empty(), "the free node is held");
    let is_placed = |world: &World| !world.runners(other).is_empty();
    for _ in 0..GANG_HOLD_MAX.get() / 10_000 {
        world.wait(9_900);
        world.block(&[]);
    }
    assert!(is_placed(&world), "no longer");
    let behind = world.known(waiting).gang_place.expect("it waits");
    assert!(behind.place > at.place && behind.until.is_none(), "it went behind the others");
    assert_eq!(world.status(busy), JobStatus::Running);
}

/// Goal: gangs that can never be placed do not keep others from their turn. Method: eight of them
/// before one that could be, on nodes that are never free at once.
#[test]
fn gangs_for_which_there_are_too_few_nodes_go_behind() {
    let mut world = world(2, 1);
    let never: Vec<JobId> = (0..8).map(|_| world.ask(gang(5))).collect();
    world.ask(JobSpec { run_max: DurationMs::HOUR, ..command() });
    let possible = world.ask(gang(2));
    world.pass(GANG_PATIENCE.get() + 5_000);
    let at = |job: JobId| world.known(job).gang_place.expect("it waits");
    assert!(at(possible).until.is_some(), "its turn has come");
    assert!(never.iter().all(|job| at(*job).place > at(possible).place));
}

/// Goal: patience is no way around the queue. Method: two gangs that have waited for long and a
/// job that offers much more, when four nodes open in one block.
#[test]
fn one_gang_in_a_block_comes_before_all_other_jobs() {
    let mut world = world(4, 1);
    let toggled = |world: &World, is_open: bool| -> Vec<CheckedTx> {
        let tx = |number: u8| {
            let mut descriptor = world.node(&node(number)).expect("is there").descriptor;
            descriptor.is_open = is_open;
            world.tx(voice(number), Action::ChangeNode { node: node(number), descriptor })
        };
        (0..4).map(tx).collect()
    };
    let txs = toggled(&world, false);
    world.block(&txs);
    let gangs = [world.ask(gang(2)), world.ask(gang(2))];
    world.pass(GANG_PATIENCE.get() + 5_000);
    let urgent =
        world.ask(JobSpec { pay: units(4 * PAY), run_max: DurationMs::SECOND, ..command() });
    let txs = toggled(&world, true);
    world.block(&txs);
    let running = gangs.map(|job| world.runners(job).len());
    assert_eq!((running, world.runners(urgent).len()), ([2, 0], 1));
}

/// Goal: whatever happens, money is conserved, no part of a gang runs alone after a block,
/// everything ends once nodes work, and the same block gives the same state. Method: random gangs
/// and jobs, results, failures, stops and time; the audit looks at every block.
#[test]
fn prop_gangs_are_whole_conserve_money_and_end() {
    let (seen, placed): (usize, usize) = histories::play("gangs", 24, |u, (seen, placed)| {
        let mut world = world(4, 2);
        let mut jobs: Vec<JobId> = Vec::new();
        for _ in 0..u.int_in_range(5..=40)? {
            let any = if jobs.is_empty() { None } else { Some(*u.choose(&jobs)?) };
            let runners = any.map(|job| world.runners(job)).unwrap_or_default();
            let runner = if runners.is_empty() { None } else { Some(*u.choose(&runners)?) };
            let events = match (u.int_in_range(0..=9)?, any, runner) {
                (0..=2, _, _) | (_, None, _) => {
                    let spec = JobSpec { nodes: u.int_in_range(1..=5)?, ..command() };
                    let receipt = world.run(account(CLIENT), submit(vec![spec]));
                    if receipt.status == Status::Applied {
                        jobs.push(JobId::of(receipt.tx, 0));
                    }
                    receipt.events
                }
                (3, _, _) => world.pass(u.int_in_range(1_000..=20_000)?),
                (4, Some(job), _) => world.run(account(CLIENT), stop(job)).events,
                (5, Some(job), Some(runner)) => world.run(voice(runner), give_up(job)).events,
                (_, Some(job), Some(runner)) => {
                    world.run(voice(runner), commit_as(runner, job, &right()));
                    world.run(voice(runner), reveal_as(runner, job, &right())).events
                }
                (_, Some(_), None) => world.beat().block_receipt.events,
            };
            *seen += broken(&events).len();
            jobs.retain(|job| world.job(job).is_some_and(|entry| !entry.status.is_final()));
            let is_placed = |job: &&JobId| world.known(**job).live().count() > 1;
            *placed += jobs.iter().filter(is_placed).count();
        }
        for _ in 0..60 {
            jobs.retain(|job| world.job(job).is_some_and(|entry| !entry.status.is_final()));
            // Five nodes there are not.
            jobs.retain(|job| world.known(*job).spec.nodes < 5);
            for job in jobs.clone() {
                for runner in world.runners(job) {
                    if world.known(job).is_stopped {
                        let (checkpoint, vouchers) = (None, List::default());
                        world.run(voice(runner), Action::YieldRun { job, checkpoint, vouchers });
                        continue;
                    }
                    world.run(voice(runner), commit_as(runner, job, &right()));
                    world.run(voice(runner), reveal_as(runner, job, &right()));
                }
            }
            world.beat();
        }
        // Owners whose runs ended by their own doing are not given the job again.
        let has_nodes = |job: &&JobId| {
            let entry = world.known(**job);
            entry.runs.as_slice().len() + usize::from(entry.spec.nodes) <= 4
        };
        assert_eq!(jobs.iter().filter(has_nodes).count(), 0, "everything ends");
        let again = apply(&world.rules, &world.view, &world.env, &[]).expect("applies");
        let twice = apply(&world.rules, &world.view, &world.env, &[]).expect("applies");
        assert_eq!(again.changes, twice.changes);
        Ok(())
    });
    assert!(seen > 0 && placed > 0, "{seen} were broken up, {placed} placed");
}
