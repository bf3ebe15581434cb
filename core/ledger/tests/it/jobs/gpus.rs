//! Runs that hold GPUs: each has a definite one, or a part of it, until it ends in whatever way,
//! and nobody else has that. After every block the audit holds what runs were given against what
//! their nodes list, and against the rules by which partitions lie beside each other.

use arbtest::arbitrary::{Result, Unstructured};
use tg_ledger::YieldTo;
use tg_types::gpu::{DEVICE_GONE, GpuPart, GpuSlice};
use tg_types::{
    Action, Device, DeviceKind, DurationMs, Features, GpuAsk, Hash32, JobId, JobSpec, JobStatus,
    List, MigSlices, Needs, NetworkKind, NodeDescriptor, Params, Reason, RunFailure, Sharing, Tick,
    Tier, Work,
};

use crate::fleet::*;
use crate::histories;
use crate::world::*;

fn gpu(model: &str, memory_mib: u32, count: u16, sharing: Sharing) -> Device {
    let (kind, model) = (DeviceKind::Gpu, model.parse().expect("a name"));
    Device { kind, model, memory_mib, count, features: Features::NONE, sharing }
}

pub(crate) fn a100(count: u16) -> Device {
    let sharing = Sharing { mig: Some(MigSlices::Seven), shares: false };
    gpu("NVIDIA A100-SXM4-80GB", 81_920, count, sharing)
}

pub(crate) fn rtx(count: u16, shares: bool) -> Device {
    gpu("NVIDIA GeForce RTX 4090", 24_000, count, Sharing { mig: None, shares })
}

pub(crate) fn offering(devices: Vec<Device>) -> NodeDescriptor {
    NodeDescriptor { devices: List::new(devices).expect("few"), slots: 16, ..offer(1) }
}

/// A node with A100s that are to be split.
pub(crate) fn offer_of_a100s(count: u16) -> NodeDescriptor {
    offering(vec![a100(count)])
}

/// A command that asks for this and pays enough for it.
pub(crate) fn command(gpus: GpuAsk) -> JobSpec {
    let work = Work::Opaque { task: Hash32::new([1; 32]) };
    let needs = Needs { kind: Some(DeviceKind::Gpu), gpus, ..Needs::ANY };
    JobSpec { work, needs, expires_after: DurationMs::HOUR, ..spec(Tier::Trusted) }
}

/// A command that asks for so many twentieths of a GPU.
pub(crate) fn part(steps: u8) -> JobSpec {
    command(GpuAsk::Part { steps, may_share: false })
}

fn params() -> Params {
    let mut params = busy_params();
    params.job_expires_max = DurationMs::DAY;
    params.jobs.run_max = DurationMs::HOUR;
    params.jobs.run_bond = 1;
    params
}

/// A network with one node that has these devices.
fn world_of(devices: Vec<Device>) -> World {
    let mut world = World::staffed_with(params(), NetworkKind::Local, 1);
    change(&mut world, 0, devices);
    world
}

fn change(world: &mut World, number: u8, devices: Vec<Device>) {
    let descriptor = offering(devices);
    world.succeed(account(number), Action::ChangeNode { node: node(number), descriptor });
}

fn held(world: &World, number: u8) -> Vec<GpuSlice> {
    let entry = world.node(&node(number)).expect("is there");
    entry.held.as_slice().iter().map(|held| held.slice).collect()
}

fn given(world: &World, job: JobId) -> Vec<GpuSlice> {
    let entry = world.known(job);
    entry.live().flat_map(|run| run.gpus.as_slice().to_vec()).collect()
}

#[test]
fn commands_hold_whole_gpus_until_they_end() {
    let mut world = world_of(vec![rtx(2, false)]);
    let unit = |unit| GpuSlice { device: 0, unit, part: GpuPart::Whole };
    let [first, second, third] =
        [GpuAsk::Usual, GpuAsk::Whole { count: 1 }, GpuAsk::Usual].map(|gpus| {
            let job = world.ask(command(gpus));
            (job, world.runners(job).len())
        });
    assert_eq!([first.1, second.1, third.1], [1, 1, 0], "two GPUs, sixteen slots");
    assert_eq!(given(&world, first.0), [unit(0)]);
    assert_eq!(held(&world, 0), [unit(0), unit(1)]);
    let slot = world.ask(JobSpec { needs: Needs::ANY, ..command(GpuAsk::Usual) });
    assert_eq!(world.runners(slot), [0], "who needs no GPU has a slot");
    world.deliver(0, second.0, &right());
    assert_eq!(given(&world, third.0), [unit(1)], "in the block that freed it");
    world.act(0, Action::GiveUp { job: first.0, failure: RunFailure::Declined });
    assert_eq!(held(&world, 0), [unit(1)]);
    assert_eq!(world.status(first.0), JobStatus::Queued, "nobody else has one");
    let both = world.ask(command(GpuAsk::Whole { count: 2 }));
    assert!(world.runners(both).is_empty());
    world.deliver(0, third.0, &right());
    assert_eq!(given(&world, both), [unit(0), unit(1)]);
}

/// Goal: an A100 serves seven at once; the eighth is served when one of them ends.
#[test]
fn a100_serves_seven_and_the_eighth_when_one_ends() {
    let mut world = world_of(vec![a100(1)]);
    let jobs: Vec<JobId> = (0..8).map(|_| world.ask(part(2))).collect();
    let running: Vec<usize> = jobs.iter().map(|job| world.runners(*job).len()).collect();
    assert_eq!(running, [1, 1, 1, 1, 1, 1, 1, 0]);
    let before = given(&world, jobs[2]);
    world.deliver(0, jobs[2], &right());
    assert_eq!(given(&world, jobs[7]), before, "where one ended");
    for job in jobs.iter().filter(|job| **job != jobs[2]) {
        world.deliver(0, *job, &right());
    }
    assert_eq!(held(&world, 0), []);
    assert!(jobs.iter().all(|job| world.status(*job) == JobStatus::Settled));
}

#[test]
fn what_there_is_not_is_refused() {
    let mut world = world_of(vec![a100(1)]);
    let mut check = |spec: JobSpec, reason| {
        world.fail(account(CLIENT), submit(vec![spec]), reason, tg_types::Amount::ZERO);
    };
    for gpus in [
        GpuAsk::Whole { count: 0 },
        GpuAsk::Whole { count: 17 },
        GpuAsk::Part { steps: 0, may_share: true },
        GpuAsk::Part { steps: 20, may_share: false },
    ] {
        check(command(gpus), Reason::GpusWrong);
    }
    let needs = Needs { kind: None, ..part(2).needs };
    check(JobSpec { needs, ..part(2) }, Reason::GpusWrong);
    let needs = part(2).needs;
    check(JobSpec { needs, ..spec(Tier::Trusted) }, Reason::GpusWrong);
}

/// Goal: what runs hold goes with its device when the offer changes, and while nobody knows which
/// device a run has, none is given out.
#[test]
fn held_gpus_go_with_their_devices() {
    let mut world = world_of(vec![rtx(1, false), a100(1)]);
    let job = world.ask(part(8));
    let slice = given(&world, job)[0];
    assert_eq!(slice.device, 1);
    change(&mut world, 0, vec![a100(2), rtx(1, false)]);
    assert_eq!(held(&world, 0), [GpuSlice { device: 0, ..slice }]);
    change(&mut world, 0, vec![rtx(1, false)]);
    assert_eq!(held(&world, 0), [GpuSlice { device: DEVICE_GONE, ..slice }]);
    change(&mut world, 0, vec![a100(2), rtx(1, false)]);
    let next = world.ask(part(8));
    assert!(world.runners(next).is_empty(), "which of them is it?");
    world.deliver(0, job, &right());
    assert_eq!(world.runners(next), [0]);
}

#[test]
fn run_makes_room_with_its_gpu() {
    use tg_types::CheckpointPlan;
    use tg_types::checkpoint::CHECKPOINT_EVERY_MIN;
    let mut world = World::staffed_with(params(), NetworkKind::Local, 1);
    change(&mut world, 0, vec![a100(1)]);
    let checkpoint = Some(CheckpointPlan { every: CHECKPOINT_EVERY_MIN, from: None });
    let run_max = DurationMs::new(40_000);
    let whole = GpuAsk::Whole { count: 1 };
    let saved = JobSpec { checkpoint, run_max, ..command(whole) };
    let job = world.ask(saved);
    assert_eq!(world.runners(job), [0]);
    world.pass(10_000);
    let urgent = JobSpec { run_max, pay: units(8 * PAY), ..command(whole) };
    let urgent = world.ask(urgent);
    assert!(world.runners(urgent).is_empty(), "slots are free, the GPU is not");
    let entry = world.known(job);
    assert_eq!(
        entry.live().next().and_then(|run| run.yields_to),
        Some(YieldTo::Job { job: urgent })
    );
    let vouchers = List::default();
    world.act(0, Action::YieldRun { job, checkpoint: None, vouchers });
    assert_eq!(world.runners(urgent), [0]);
    assert_eq!(given(&world, urgent), [GpuSlice { device: 0, unit: 0, part: GpuPart::Whole }]);
}

/// Goal: a job for several GPUs of a node does not starve behind a stream of jobs for one. Method:
/// a node with two, on which small jobs begin and end in turn.
#[test]
fn job_for_several_gpus_is_served_before_younger_ones_after_a_while() {
    let mut world = world_of(vec![rtx(2, false)]);
    let run_max = DurationMs::new(60_000);
    let one = JobSpec { run_max, ..command(GpuAsk::Whole { count: 1 }) };
    let mut small = vec![world.ask(one.clone()), world.ask(one.clone())];
    let pay = units(2 * PAY);
    let both = world.ask(JobSpec { run_max, pay, ..command(GpuAsk::Whole { count: 2 }) });
    let patience = tg_ledger::GANG_PATIENCE.get();
    let mut waited = 0;
    while world.status(both) == JobStatus::Queued && waited < 2 * patience {
        small.push(world.ask(one.clone()));
        let running = small.iter().position(|job| world.status(*job) == JobStatus::Running);
        let ended = small.remove(running.expect("one runs"));
        world.deliver(0, ended, &right());
        world.pass(10_000);
        waited += 10_000;
    }
    assert!(waited > patience && waited <= patience + 40_000, "after {waited} ms");
    assert_eq!(given(&world, both).len(), 2);
}

/// Goal: a gang whose members hold GPUs gets them, though younger jobs want them one by one.
#[test]
fn gang_that_holds_gpus_is_served_after_a_while() {
    let mut world = World::staffed_with(params(), NetworkKind::Local, 2);
    for number in 0..2 {
        change(&mut world, number, vec![rtx(1, false)]);
    }
    let run_max = DurationMs::new(60_000);
    let one = JobSpec { run_max, ..command(GpuAsk::Whole { count: 1 }) };
    let mut small = vec![world.ask(one.clone()), world.ask(one.clone())];
    let gang = world.ask(JobSpec { nodes: 2, ..one.clone() });
    let patience = tg_ledger::GANG_PATIENCE.get();
    let mut waited = 0;
    while world.status(gang) == JobStatus::Queued && waited < 2 * patience {
        small.push(world.ask(one.clone()));
        let running = small.iter().position(|job| world.status(*job) == JobStatus::Running);
        let ended = small.remove(running.expect("one runs"));
        let runner = world.runners(ended)[0];
        world.deliver(runner, ended, &right());
        world.pass(10_000);
        waited += 10_000;
    }
    assert!(waited > patience && waited <= patience + 40_000, "after {waited} ms");
    assert_eq!(given(&world, gang).len(), 2);
}

fn random_devices(u: &mut Unstructured<'_>) -> Result<Vec<Device>> {
    let mut devices = Vec::new();
    for _ in 0..u.int_in_range(1..=3)? {
        devices.push(match u.int_in_range(0..=2)? {
            0 => a100(u.int_in_range(0..=2)?),
            1 => rtx(u.int_in_range(0..=2)?, u.arbitrary()?),
            _ => gpu("odd", 8_000, 1, Sharing { mig: Some(MigSlices::Seven), shares: true }),
        });
    }
    Ok(devices)
}

fn random_ask(u: &mut Unstructured<'_>, now: Tick) -> Result<JobSpec> {
    let gpus = match u.int_in_range(0..=4)? {
        0 => GpuAsk::Usual,
        1 => GpuAsk::Whole { count: u.int_in_range(1..=3)? },
        _ => GpuAsk::Part { steps: u.int_in_range(1..=19)?, may_share: u.arbitrary()? },
    };
    let mut spec = command(gpus);
    spec.needs.memory_mib_min = *u.choose(&[0, 0, 5_000, 20_000, 40_000])?;
    spec.pay = units(PAY * u.int_in_range(1..=4)?);
    if u.ratio(1, 6)? {
        spec.needs = Needs::ANY;
    }
    if u.ratio(1, 8)? {
        spec.tier = Tier::Redundant { replicas: 2 };
    } else if u.ratio(1, 3)? {
        spec.promise = now.plus(DurationMs::new(u.int_in_range(5_000..=60_000)?)).ok();
    }
    Ok(spec)
}

/// Goal: whatever comes, changes, fails and leaves, no GPU or part of one is given out twice,
/// partitions lie where they may, and what ended holds nothing. Method: random nodes and jobs; the
/// audit looks after every block, and every block is replayed.
#[test]
fn prop_no_gpu_is_given_out_twice() {
    let placed: usize = histories::play("gpus", 24, |u, placed| {
        let mut world = World::staffed_with(params(), NetworkKind::Local, 3);
        for number in 0..3 {
            change(&mut world, number, random_devices(u)?);
        }
        let mut jobs: Vec<JobId> = Vec::new();
        for _ in 0..u.int_in_range(4..=24)? {
            match u.int_in_range(0..=9)? {
                0..=4 => jobs.push(world.ask(random_ask(u, world.env.tick)?)),
                5 => {
                    let number = u.int_in_range(0..=2)?;
                    change(&mut world, number, random_devices(u)?);
                }
                6 if !jobs.is_empty() => {
                    let job = *u.choose(&jobs)?;
                    let sender = account(CLIENT);
                    world.run(sender, Action::CancelJob { job });
                }
                7 => drop(world.pass(u.int_in_range(1..=4)? * 1_000)),
                _ if !jobs.is_empty() => {
                    let job = *u.choose(&jobs)?;
                    let Some(entry) = world.job(&job) else { continue };
                    let Some(run) = entry.live().next() else { continue };
                    let number = number_of(&run.node);
                    let failure = RunFailure::DeviceFailed;
                    if u.arbitrary()? {
                        world.run(voice(number), Action::GiveUp { job, failure });
                    } else {
                        world.run(voice(number), commit_as(number, job, &right()));
                        world.run(voice(number), reveal_as(number, job, &right()));
                    }
                }
                _ => {}
            }
        }
        *placed += (0..3).map(|number| held(&world, number).len()).sum::<usize>();
        world.pass(60_000);
        let now = world.cursor().tick;
        for number in 0..3 {
            let entry = world.node(&node(number)).expect("is there");
            for held in entry.held.as_slice() {
                let job = world.known(held.job);
                let mut runs = job.live().filter(|run| run.node == node(number));
                assert!(runs.any(|run| run.deadline >= now), "it is held by a run that goes on");
            }
        }
        Ok(())
    });
    assert!(placed > 0, "some held GPUs");
}
