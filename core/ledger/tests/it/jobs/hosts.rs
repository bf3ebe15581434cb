//! Runs that hold processors and memory of their machines: as much as they ask for, until they end
//! in whatever way, and never more than there is. After every block the audit holds what nodes list
//! against what their runs asked for.

use arbtest::arbitrary::{Result, Unstructured};
use tg_ledger::YieldTo;
use tg_types::checkpoint::CHECKPOINT_EVERY_MIN;
use tg_types::{
    Action, CheckpointPlan, DurationMs, Hash32, HostPart, JobId, JobSpec, JobStatus, List, Needs,
    NetworkKind, NodeDescriptor, Params, Reason, RunFailure, Tick, Tier, Work,
};

use crate::fleet::*;
use crate::histories;
use crate::world::*;

fn part(cpu_milli: u32, memory_mib: u32) -> HostPart {
    HostPart { cpu_milli, memory_mib }
}

/// A command that asks for this.
fn command(host: HostPart) -> JobSpec {
    let work = Work::Opaque { task: Hash32::new([1; 32]) };
    let needs = Needs { host, ..Needs::ANY };
    JobSpec { work, needs, expires_after: DurationMs::HOUR, ..spec(Tier::Trusted) }
}

fn params() -> Params {
    let mut params = busy_params();
    params.job_expires_max = DurationMs::DAY;
    params.jobs.run_max = DurationMs::HOUR;
    params.jobs.run_bond = 1;
    params
}

fn offering(host: HostPart) -> NodeDescriptor {
    NodeDescriptor { host, slots: 8, ..offer(1) }
}

fn change(world: &mut World, number: u8, host: HostPart) {
    let (node, descriptor) = (node(number), offering(host));
    world.succeed(account(number), Action::ChangeNode { node, descriptor });
}

/// A network whose only node offers this.
fn world_of(host: HostPart) -> World {
    let mut world = World::staffed_with(params(), NetworkKind::Local, 1);
    change(&mut world, 0, host);
    world
}

/// What runs of a node hold together.
fn held(world: &World, number: u8) -> HostPart {
    let entry = world.node(&node(number));
    let hosted = entry.map_or_else(Vec::new, |entry| entry.hosted.as_slice().to_vec());
    hosted.iter().fold(HostPart::NONE, |all, held| all.with(held.part))
}

#[test]
fn commands_hold_processors_and_memory_until_they_end() {
    let mut world = world_of(part(4_000, 8_192));
    let [first, second, third, fourth] =
        [part(2_000, 1_024), part(1_500, 4_096), part(1_000, 0), part(0, 4_096)]
            .map(|host| world.ask(command(host)));
    let running = |world: &World, jobs: &[JobId]| -> Vec<usize> {
        jobs.iter().map(|job| world.runners(*job).len()).collect()
    };
    let jobs = [first, second, third, fourth];
    assert_eq!(running(&world, &jobs), [1, 1, 0, 0], "half a processor and 3 GiB are left");
    assert_eq!(held(&world, 0), part(3_500, 5_120));
    let slot = world.ask(command(HostPart::NONE));
    assert_eq!(world.runners(slot), [0], "who asks for nothing has a slot");
    world.deliver(0, first, &right());
    assert_eq!(running(&world, &[third, fourth]), [1, 1], "in the block that freed it");
    assert_eq!(held(&world, 0), part(2_500, 8_192));
    world.act(0, Action::GiveUp { job: second, failure: RunFailure::Declined });
    world.deliver(0, third, &right());
    world.deliver(0, fourth, &right());
    assert_eq!(held(&world, 0), HostPart::NONE);
    assert_eq!(world.status(second), JobStatus::Queued, "nobody else has as much");
}

#[test]
fn what_cannot_be_held_is_refused() {
    let mut world = world_of(part(4_000, 8_192));
    let mut check = |spec: JobSpec, reason| {
        world.fail(account(CLIENT), submit(vec![spec]), reason, tg_types::Amount::ZERO);
    };
    for host in [part(1, 0), part(0, 1)] {
        let needs = Needs { host, ..Needs::ANY };
        check(JobSpec { needs, ..spec(Tier::Trusted) }, Reason::HostWrong);
    }
}

/// Goal: an offer that shrinks takes nothing from whoever runs, and gives nothing out that is not
/// there; one that says nothing counts slots.
#[test]
fn changed_offer_takes_nothing_from_whoever_runs() {
    let mut world = world_of(part(4_000, 8_192));
    let job = world.ask(command(part(3_000, 1_024)));
    change(&mut world, 0, part(2_000, 8_192));
    assert_eq!(held(&world, 0), part(3_000, 1_024));
    let next = world.ask(command(part(500, 0)));
    assert!(world.runners(next).is_empty(), "more is held than there is");
    let silent = world.ask(command(part(64_000, 0)));
    world.deliver(0, job, &right());
    assert_eq!(world.runners(next), [0]);
    assert!(world.runners(silent).is_empty());
    change(&mut world, 0, HostPart::NONE);
    world.beat();
    assert_eq!(world.runners(silent), [0], "nothing is said of processors any more");
    assert_eq!(held(&world, 0), part(64_500, 0));
}

#[test]
fn run_makes_room_with_its_processors() {
    let mut world = world_of(part(4_000, 8_192));
    let checkpoint = Some(CheckpointPlan { every: CHECKPOINT_EVERY_MIN, from: None });
    let run_max = DurationMs::new(40_000);
    let job = world.ask(JobSpec { checkpoint, run_max, ..command(part(3_000, 0)) });
    assert_eq!(world.runners(job), [0]);
    world.pass(10_000);
    let urgent = JobSpec { run_max, pay: units(8 * PAY), ..command(part(2_000, 0)) };
    let urgent = world.ask(urgent);
    assert!(world.runners(urgent).is_empty(), "slots are free, processors are not");
    let entry = world.known(job);
    let yields_to = entry.live().next().and_then(|run| run.yields_to);
    assert_eq!(yields_to, Some(YieldTo::Job { job: urgent }));
    let vouchers = List::default();
    world.act(0, Action::YieldRun { job, checkpoint: None, vouchers });
    assert_eq!(world.runners(urgent), [0]);
    assert_eq!(held(&world, 0), part(2_000, 0));
}

/// Goal: a job for much of a machine does not starve behind a stream of small ones. Method: a
/// machine with four processors, on which jobs for two begin and end in turn.
#[test]
fn job_for_much_of_a_machine_is_served_before_younger_ones_after_a_while() {
    let mut world = world_of(part(4_000, 8_192));
    let run_max = DurationMs::new(60_000);
    let half = JobSpec { run_max, ..command(part(2_000, 0)) };
    let mut small = vec![world.ask(half.clone()), world.ask(half.clone())];
    let all = world.ask(JobSpec { run_max, ..command(part(4_000, 0)) });
    let patience = tg_ledger::GANG_PATIENCE.get();
    let mut waited = 0;
    while world.status(all) == JobStatus::Queued && waited < 2 * patience {
        small.push(world.ask(half.clone()));
        let running = small.iter().position(|job| world.status(*job) == JobStatus::Running);
        let ended = small.remove(running.expect("one runs"));
        world.deliver(0, ended, &right());
        world.pass(10_000);
        waited += 10_000;
    }
    assert!(waited > patience && waited <= patience + 40_000, "after {waited} ms");
    assert_eq!(held(&world, 0), part(4_000, 0));
}

fn random_offer(u: &mut Unstructured<'_>) -> Result<HostPart> {
    Ok(part(*u.choose(&[0, 1_000, 4_000, 8_000])?, *u.choose(&[0, 512, 4_096, 20_000])?))
}

fn random_ask(u: &mut Unstructured<'_>, now: Tick) -> Result<JobSpec> {
    let host = part(*u.choose(&[0, 250, 1_000, 4_000])?, *u.choose(&[0, 256, 1_000, 17_000])?);
    let mut spec = command(host);
    spec.pay = units(PAY * u.int_in_range(1..=4)?);
    match u.int_in_range(0..=9)? {
        0 => spec.tier = Tier::Redundant { replicas: 2 },
        1 => spec.nodes = 2,
        2 => spec.checkpoint = Some(CheckpointPlan { every: CHECKPOINT_EVERY_MIN, from: None }),
        3..=5 => spec.promise = now.plus(DurationMs::new(u.int_in_range(5_000..=60_000)?)).ok(),
        _ => {}
    }
    Ok(spec)
}

/// One thing that a provider, a client or time does.
fn happen(u: &mut Unstructured<'_>, world: &mut World, jobs: &mut Vec<JobId>) -> Result<()> {
    let number = u.int_in_range(0..=2)?;
    match u.int_in_range(0..=11)? {
        0..=4 => jobs.push(world.ask(random_ask(u, world.env.tick)?)),
        5 => {
            let (node, descriptor) = (node(number), offering(random_offer(u)?));
            world.run(account(number), Action::ChangeNode { node, descriptor });
        }
        6 if !jobs.is_empty() => {
            let job = *u.choose(jobs)?;
            world.run(account(CLIENT), Action::CancelJob { job });
        }
        7 => drop(world.pass(u.int_in_range(1..=20)? * 1_000)),
        8 => drop(world.run(account(number), Action::LeaveNode { node: node(number) })),
        _ if !jobs.is_empty() => {
            let job = *u.choose(jobs)?;
            let Some(entry) = world.job(&job) else { return Ok(()) };
            let Some(run) = entry.live().next() else { return Ok(()) };
            let number = number_of(&run.node);
            if u.arbitrary()? {
                let failure = RunFailure::DeviceFailed;
                world.run(voice(number), Action::GiveUp { job, failure });
            } else {
                world.run(voice(number), commit_as(number, job, &right()));
                world.run(voice(number), reveal_as(number, job, &right()));
            }
        }
        _ => {}
    }
    Ok(())
}

/// Goal: whatever comes, changes, fails and leaves, no more of a machine is held than it offers,
/// unless it offers less than before to whoever runs; and what ended holds nothing. Method: random
/// nodes and jobs; the audit looks after every block, and every block is replayed.
#[test]
fn prop_no_more_is_held_than_a_machine_has() {
    let placed: usize = histories::play("hosts", 24, |u, placed| {
        let mut world = World::staffed_with(params(), NetworkKind::Local, 3);
        for number in 0..3 {
            change(&mut world, number, random_offer(u)?);
        }
        let mut jobs: Vec<JobId> = Vec::new();
        for _ in 0..u.int_in_range(4..=30)? {
            let before = [0, 1, 2].map(|number| held(&world, number));
            happen(u, &mut world, &mut jobs)?;
            for (number, before) in (0..3).zip(before) {
                let Some(entry) = world.node(&node(number)) else { continue };
                let (now, offered) = (held(&world, number), entry.descriptor.host);
                let is_kept = |now: u32, offered: u32, before: u32| {
                    offered == 0 || now <= offered || now <= before
                };
                assert!(is_kept(now.cpu_milli, offered.cpu_milli, before.cpu_milli));
                assert!(is_kept(now.memory_mib, offered.memory_mib, before.memory_mib));
                *placed += usize::from(now != HostPart::NONE);
            }
        }
        world.pass(60_000);
        let now = world.env.tick;
        for entry in (0..3).filter_map(|number| world.node(&node(number))) {
            for held in entry.hosted.as_slice() {
                let job = world.known(held.job);
                assert!(job.live().any(|run| run.deadline >= now), "it is held by who goes on");
            }
        }
        Ok(())
    });
    assert!(placed > 0, "some held processors or memory");
}
