//! What settled jobs teach about run times, and that work goes where it is done soon.

use tg_ledger::{PaceEntry, forecast, keys, subjects};
use tg_scheduler::pace::{DeviceClass, FLOOR, Forecast};
use tg_types::{
    Action, CheckedTx, DeviceKind, DurationMs, Hash32, JobId, JobSpec, JobStatus, KeyEscrow, List,
    NetworkKind, NodeDescriptor, Noun, Params, StepJudge as _, Tier, Work,
};

use crate::fleet::*;
use crate::judge::{TestJudge, right_result};
use crate::world::*;

/// Models that differ in no part of the score but their times.
const MODELS: [&str; 3] = ["RTX 4090", "RTX 4080", "RTX 4070"];

/// Runs may take minutes here.
fn long_params() -> Params {
    let mut params = busy_params();
    params.jobs.run_max = DurationMs::HOUR;
    params.job_expires_max = DurationMs::DAY;
    params.tick_step_max = DurationMs::HOUR;
    params
}

/// An offer of a GPU of this model.
fn gpu(model: &str) -> NodeDescriptor {
    let mut descriptor = offer(1);
    let mut device = descriptor.devices.as_slice()[0].clone();
    (device.kind, device.model) = (DeviceKind::Gpu, model.parse().expect("a name"));
    descriptor.devices = List::new(vec![device]).expect("one");
    NodeDescriptor { slots: 4, ..descriptor }
}

fn class(model: &str) -> DeviceClass {
    let descriptor = gpu(model);
    DeviceClass::of(&descriptor.devices.as_slice()[0], 1_024)
}

/// A command that is known by a number.
fn command(number: u8) -> JobSpec {
    JobSpec {
        work: Work::Opaque { task: Hash32::new([number; 32]) },
        run_max: DurationMs::HOUR,
        expires_after: DurationMs::DAY,
        ..spec(Tier::Trusted)
    }
}

/// Nodes of these models; each has its own owner.
fn fleet_of(models: &[&str]) -> World {
    let mut world = World::staffed_with(long_params(), NetworkKind::Local, 0);
    let numbers = 0..u8::try_from(models.len()).expect("few");
    let staff = numbers.clone().flat_map(|number| world.staff(number, number, STAKE));
    let staff: Vec<CheckedTx> = staff.collect();
    world.block(&staff);
    let change = |(number, model): (u8, &&str)| {
        let (node, descriptor) = (node(number), gpu(model));
        world.tx(voice(number), Action::ChangeNode { node, descriptor })
    };
    let changes: Vec<CheckedTx> = numbers.zip(models).map(change).collect();
    world.block(&changes);
    world
}

/// What is expected of a job.
fn expected(world: &World, client: u8, spec: &JobSpec) -> Forecast {
    let facts = match spec.work {
        Work::Tensor { .. } => TestJudge.facts(PROGRAM),
        Work::Opaque { .. } => None,
    };
    let subjects = subjects(&account(client), spec).into_iter();
    let known = subjects.map(|subject| (subject, world.entry::<PaceEntry>(&keys::pace(&subject))));
    forecast(spec, facts.as_ref(), &known.collect::<Vec<_>>())
}

/// Runs a job that takes so long on the node that it is given to; says which that is.
fn run_for(world: &mut World, client: u8, spec: &JobSpec, seconds: u64) -> u8 {
    let tx = world.run(account(client), submit(vec![spec.clone()])).tx;
    let job = JobId::of(tx, 0);
    let runner = world.runners(job)[0];
    world.wait(seconds * 1_000 - 100);
    world.deliver(runner, job, &right_result(spec));
    assert_eq!(world.status(job), JobStatus::Settled);
    runner
}

fn near(found: Option<DurationMs>, seconds: u64) -> bool {
    found.is_some_and(|found| found.get().abs_diff(seconds * 1_000) <= seconds * 50)
}

#[test]
fn settled_run_teaches_its_subjects_from_fine_to_coarse() {
    let mut world = fleet_of(&MODELS[..1]);
    let at = class(MODELS[0]);
    assert_eq!(expected(&world, CLIENT, &command(1)).on(at), None);
    run_for(&mut world, CLIENT, &command(1), 80);
    assert!(near(expected(&world, CLIENT, &command(1)).on(at), 80));
    assert!(near(expected(&world, CLIENT, &command(2)).on(at), 80), "another task of the client");
    assert!(near(expected(&world, 9, &command(2)).on(at), 80), "a command of somebody else");
    let short = JobSpec { run_max: DurationMs::MINUTE, ..command(2) };
    assert_eq!(expected(&world, 9, &short).on(at), None, "limits of another size");
    let program = JobSpec { work: spec(Tier::Trusted).work, ..command(1) };
    assert_eq!(expected(&world, CLIENT, &program).on(at), None);
    run_for(&mut world, CLIENT, &program, 40);
    assert!(near(expected(&world, 9, &program).on(at), 40));
    assert_eq!(world.ids(Noun::Pace).len(), 3 + 2);
    let proof = JobSpec { tier: Tier::PROOF, ..program };
    assert_eq!(expected(&world, CLIENT, &proof).on(at), None, "proofs take longer");
}

#[test]
fn what_no_stranger_ran_for_the_client_teaches_nothing() {
    let mut world = fleet_of(&MODELS[..1]);
    run_for(&mut world, 0, &command(1), 30); // the owner of the node
    let keyless = JobSpec { key_escrow: KeyEscrow::None, ..command(1) };
    run_for(&mut world, CLIENT, &keyless, 30);
    let job = world.ask(command(1));
    world.wait(30_000);
    world.act(0, commit_as(0, job, &right()));
    assert_eq!(world.status(job), JobStatus::Running, "not settled");
    assert_eq!(world.ids(Noun::Pace).len(), 0);
    let took = world.known(job).runs.as_slice()[0].took;
    assert!(near(took, 30));
}

#[test]
fn run_that_is_too_short_to_be_told_says_nothing_of_other_programs() {
    let mut world = fleet_of(&MODELS[..1]);
    let program = JobSpec { run_max: DurationMs::HOUR, ..spec(Tier::Trusted) };
    run_for(&mut world, CLIENT, &program, 1);
    let found = expected(&world, CLIENT, &program).on(class(MODELS[0]));
    assert!(near(found, FLOOR.get() / 1_000), "{found:?}");
    assert_eq!(world.ids(Noun::Pace).len(), 1);
}

/// Goal: once both models were tried, work goes to the faster one; a model that was never tried is
/// taken before one that is known to be slow. Method: the same command again and again, on one
/// node of each model.
#[test]
fn work_goes_where_it_was_done_soon_and_what_is_new_is_tried() {
    let mut world = fleet_of(&MODELS);
    let times = [60, 15, 240];
    // Several at once are spread, whatever is drawn between equals.
    let jobs: Vec<JobId> = (0..2).map(|_| world.ask(command(1))).collect();
    let mut first: Vec<(u64, u8, JobId)> = Vec::new();
    for job in jobs {
        let runner = world.runners(job)[0];
        first.push((times[usize::from(runner)], runner, job));
    }
    first.sort_unstable();
    let mut passed = 0;
    for (time, runner, job) in first {
        world.wait((time - passed) * 1_000);
        passed = time;
        world.deliver(runner, job, &right_result(&command(1)));
    }
    let mut counts = [0_u32; 3];
    for number in 0..40 {
        let job = world.ask(command(1));
        let runner = world.runners(job)[0];
        world.wait(times[usize::from(runner)] * 1_000);
        world.deliver(runner, job, &right_result(&command(1)));
        counts[usize::from(runner)] += u32::from(number >= 10);
    }
    assert!(counts[1] >= 24, "{counts:?}");
    let forecast = expected(&world, CLIENT, &command(1));
    assert!(near(forecast.on(class(MODELS[1])), 15), "{forecast:?}");
}
