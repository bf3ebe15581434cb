//! Promised jobs that hold something: GPUs, parts of one, processors and memory are kept with their
//! slots, given to nobody who might still have them then, and free again afterwards. The audit
//! looks after every block whether all that is kept is there.

use tg_ledger::{CANCEL_PART, Promise};
use tg_scheduler::slots::KeptSlot;
use tg_types::gpu::GpuSlice;
use tg_types::{
    Action, Device, DurationMs, GpuAsk, HostPart, JobId, JobSpec, JobStatus, Needs, NetworkKind,
    NodeDescriptor, Params, Reason, Status, Tick,
};

use super::gpus::{a100, command, offering, part, rtx};
use super::promises::{absent, counts, has_broken, length, promise_params, promised};
use crate::fleet::*;
use crate::world::*;

fn whole(count: u8) -> JobSpec {
    command(GpuAsk::Whole { count })
}

/// What holds no GPU.
fn processor() -> Device {
    offer(1).devices.as_slice()[0].clone()
}

/// Runs may last for long here, and put little at risk unless the test is about that.
fn params(run_bond: u16) -> Params {
    let mut params = promise_params();
    (params.jobs.run_max, params.jobs.run_bond) = (DurationMs::HOUR, run_bond);
    params
}

/// A command that holds so much of a machine.
fn hosted(cpu_milli: u32, memory_mib: u32) -> JobSpec {
    let host = HostPart { cpu_milli, memory_mib };
    JobSpec { needs: Needs { host, ..Needs::ANY }, ..whole(1) }
}

/// The same job, to be done so many milliseconds from now.
fn by(world: &World, within_ms: u64, spec: JobSpec) -> JobSpec {
    let JobSpec { promise, expires_after, .. } = promised(world, within_ms);
    JobSpec { promise, expires_after, ..spec }
}

/// A job without a promise that waits for long.
fn lasting(spec: JobSpec, run_ms: u64) -> JobSpec {
    let (run_max, expires_after) = (DurationMs::new(run_ms), DurationMs::new(290_000));
    JobSpec { run_max, expires_after, ..spec }
}

fn world_of(nodes: u8, devices: &[Device]) -> World {
    let mut world = World::staffed_with(params(1), NetworkKind::Local, nodes);
    for number in 0..nodes {
        change(&mut world, number, devices);
    }
    world.pass(8_000); // who came in an epoch is not reported in it
    world
}

fn change(world: &mut World, number: u8, devices: &[Device]) {
    let host = HostPart { cpu_milli: 4_000, memory_mib: 8_192 };
    let descriptor = NodeDescriptor { host, ..offering(devices.to_vec()) };
    world.act(number, Action::ChangeNode { node: node(number), descriptor });
}

fn kept(world: &World, number: u8) -> Vec<KeptSlot> {
    world.node(&node(number)).map_or_else(Vec::new, |it| it.kept.as_slice().to_vec())
}

fn begins(world: &World, job: JobId) -> Tick {
    let promise = world.known(job).promise;
    let from = if let Promise::Kept { from, .. } = promise { Some(from) } else { None };
    from.expect("a slot is kept")
}

fn given(world: &World, job: JobId) -> Vec<GpuSlice> {
    world.known(job).live().flat_map(|run| run.gpus.as_slice().to_vec()).collect()
}

/// Goal: what might last into the slot of a promised GPU has another, or waits for `kept` though
/// the GPU is idle. Method: the owner's stake does not suffice for the promised run twice, so it
/// cannot begin before its slot.
#[test]
fn run_that_may_last_into_a_kept_gpu_is_not_placed() {
    let mut world = World::staffed_with(params(20), NetworkKind::Local, 0);
    let staff = world.staff(0, 0, 30 * PAY);
    world.block(&staff);
    change(&mut world, 0, &[rtx(2, false)]);
    let cheap = |spec: JobSpec| JobSpec { pay: units(2_000), ..spec };
    let first = world.ask(cheap(lasting(whole(2), 1_000)));
    assert_eq!(world.runners(first), [0]);
    let job = world.ask(by(&world, 60_000, whole(1)));
    let from = begins(&world, job);
    world.deliver(0, first, &right());
    let both = world.ask(cheap(lasting(whole(2), 100_000)));
    assert!(world.runners(both).is_empty(), "one of them is kept");
    let long = world.ask(cheap(lasting(whole(1), 100_000)));
    assert_eq!(given(&world, long)[0].unit, 1, "the other one");
    let next = world.ask(cheap(lasting(whole(1), 100_000)));
    assert!(world.runners(next).is_empty());
    let short = world.ask(cheap(lasting(whole(1), 1_000)));
    assert_eq!(given(&world, short)[0].unit, 0, "it has surely ended before");
    let idle = world.ask(cheap(JobSpec { needs: Needs::ANY, ..lasting(whole(1), 100_000) }));
    assert_eq!(world.runners(idle), [0], "who holds nothing has a slot");
    world.deliver(0, short, &right());
    assert!(world.runners(next).is_empty());
    while world.status(job) == JobStatus::Queued && world.env.tick.get() < from.get() + 5_000 {
        world.pass(1_000);
    }
    assert_eq!(given(&world, job)[0].unit, 0);
    world.deliver(0, job, &right());
    assert_eq!(world.cursor().promises, counts(1, 1, 0));
    world.pass(1_000);
    assert_eq!(given(&world, next)[0].unit, 0, "nothing is kept any more");
}

/// Goal: parts of a GPU, processors and memory are kept as whole GPUs are, and a refusal names a
/// deadline that is promised. Method: a node that is full of the same, with slots left.
#[test]
fn whatever_is_held_is_kept_or_refused_with_the_earliest() {
    let share = |steps| command(GpuAsk::Part { steps, may_share: true });
    for (devices, spec, count) in [
        (vec![a100(1)], part(2), 7),
        (vec![a100(1)], part(8), 2),
        (vec![rtx(1, true)], share(10), 2),
        (vec![rtx(4, false)], whole(2), 2),
        (vec![rtx(1, false)], hosted(2_000, 0), 2),
        (vec![rtx(1, false)], hosted(0, 3_000), 2),
    ] {
        let mut world = world_of(1, &devices);
        let runs: Vec<JobId> =
            (0..count).map(|_| world.ask(lasting(spec.clone(), 10_000))).collect();
        assert!(runs.iter().all(|run| world.runners(*run) == [0]), "{spec:?}");
        let soon = world.ask(by(&world, length() + 3_000, spec.clone()));
        let Promise::Refused { why: Reason::PromiseNoRoom, earliest: Some(earliest) } =
            world.known(soon).promise
        else {
            panic!("refused: {:?}", world.known(soon).promise);
        };
        let job = world.ask(JobSpec { promise: Some(earliest), ..by(&world, 0, spec.clone()) });
        begins(&world, job);
        let slot = kept(&world, 0).remove(0);
        let needs = &spec.needs;
        assert_eq!(slot.host, needs.host);
        assert_eq!(slot.gpus.as_slice().is_empty(), needs.kind.is_none());
        world.pass(30_000); // nobody delivers: the runs end by their dates, and the slot begins
        assert!(kept(&world, 0).is_empty(), "{spec:?}");
        assert!(world.cursor().promises.given == 1, "{spec:?}");
    }
}

/// Goal: what is kept goes with its device when the offer changes; a device that is gone is looked
/// for elsewhere.
#[test]
fn kept_gpu_goes_with_its_device_or_moves() {
    let mut world = world_of(2, &[rtx(1, false), a100(1)]);
    for _ in 0..4 {
        world.ask(lasting(whole(1), 20_000));
    }
    let job = world.ask(by(&world, 100_000, whole(1)));
    begins(&world, job);
    let number = (0..2).find(|number| !kept(&world, *number).is_empty()).expect("one keeps it");
    let slice = kept(&world, number)[0].gpus.as_slice()[0];
    let turned = [a100(1), rtx(1, false)];
    change(&mut world, number, &turned);
    world.pass(2_000);
    let moved = kept(&world, number)[0].gpus.as_slice()[0];
    assert_eq!(moved.device, 1 - slice.device, "it is the same one");
    change(&mut world, number, &[processor()]);
    let events = world.pass(2_000);
    assert!(!has_broken(&events, job));
    assert_eq!((kept(&world, number).len(), kept(&world, 1 - number).len()), (0, 1));
    assert_eq!(world.cursor().promises, counts(1, 0, 0));
}

/// Goal: who fails what it keeps pays as for a slot, and who takes its job back pays whoever kept
/// it; nothing is kept afterwards.
#[test]
fn kept_gpu_that_is_failed_or_cancelled_is_paid_for() {
    type Fail = fn(&mut World);
    let gone: Fail = |world| change(world, 0, &[processor()]);
    let lost: Fail = |world| absent(world, 0);
    let less: Fail = |world| {
        let descriptor = NodeDescriptor { slots: 1, ..offering(vec![rtx(1, false)]) };
        world.act(0, Action::ChangeNode { node: node(0), descriptor });
    };
    for fail in [gone, lost, less] {
        let mut world = world_of(1, &[rtx(2, false)]);
        world.ask(lasting(whole(2), 20_000));
        let job = world.ask(by(&world, 100_000, whole(2)));
        begins(&world, job);
        let (client, escrow) = (account(CLIENT), world.known(job).escrow.units());
        let before = world.balance(&client);
        fail(&mut world);
        world.pass(2_000);
        assert_eq!(world.known(job).promise, Promise::Broken { compensation: units(PAY) });
        assert_eq!(world.balance(&client), before + escrow + PAY);
        assert_eq!(kept(&world, 0), []);
    }
    let mut world = world_of(1, &[rtx(2, false)]);
    world.ask(lasting(whole(2), 20_000));
    let job = world.ask(by(&world, 100_000, whole(2)));
    let before = world.balance(&account(0));
    let receipt = world.run(account(CLIENT), Action::CancelJob { job });
    assert_eq!(receipt.status, Status::Applied);
    assert_eq!(world.balance(&account(0)), before + PAY.div_ceil(CANCEL_PART));
    assert_eq!(kept(&world, 0), []);
}
