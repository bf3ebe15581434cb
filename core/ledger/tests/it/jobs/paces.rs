//! What settled jobs teach about run times, and that work goes where it is done soon.

use std::collections::BTreeMap;

use tg_ledger::{PaceEntry, RunState, apply, forecast, keys, subjects};
use tg_scheduler::pace::{DeviceClass, FLOOR, Forecast};
use tg_types::{
    Action, CheckedTx, DeviceKind, DurationMs, Hash32, JobId, JobSpec, JobStatus, KeyEscrow, List,
    NetworkKind, NodeDescriptor, Noun, Params, StepJudge as _, Tick, Tier, Work,
};

use crate::audit::audit;
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

/// A linear congruential generator: the mix must not depend on anything but its seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

const PROGRAMS: u8 = 6;
const NODES: u8 = 9;
const JOBS: usize = 300;

/// Seconds that programs take on models, and when jobs come.
struct Mix {
    times: Vec<[u64; MODELS.len()]>,
    jobs: Vec<(u64, u8)>,
}

impl Mix {
    /// Programs take between 8 seconds and 4 minutes, and suit models more or less: by up to two
    /// octaves either way. Jobs come as fast as 60 % of all slots could do them without any choice.
    fn new(seed: u64) -> Self {
        let mut draws = Draws(seed);
        let octaves = [1, 2, 4, 8, 16];
        let mut one = || {
            let base = 8 + draws.below(8);
            [0; MODELS.len()].map(|_| base * octaves[draws.below(5) as usize])
        };
        let times: Vec<_> = (0..PROGRAMS).map(|_| one()).collect();
        let mean =
            times.iter().flatten().sum::<u64>() / (u64::from(PROGRAMS) * MODELS.len() as u64);
        let gap_ms = mean * 1_000 * 10 / (6 * 4 * u64::from(NODES));
        let mut at = 0;
        let jobs = (0..JOBS).map(|_| {
            at += draws.below(2 * gap_ms);
            (at, u8::try_from(draws.below(PROGRAMS.into())).expect("few"))
        });
        let jobs = jobs.collect();
        Self { times, jobs }
    }
}

/// Runs a mix on simulated nodes, block by block, with or without what was learned; gives the mean
/// completion time in milliseconds, and the root of the last receipts.
fn completion(mix: &Mix, is_learning: bool) -> (u64, Hash32) {
    let models: Vec<&str> = (0..NODES).map(|number| MODELS[usize::from(number) % 3]).collect();
    let mut world = fleet_of(&models);
    let start = world.env.tick;
    let mut open: BTreeMap<JobId, (Tick, u8)> = BTreeMap::new();
    let (mut next, mut spent, mut root) = (0, 0, Hash32::new([0; 32]));
    while next < JOBS || !open.is_empty() {
        world.wait(900);
        let now = world.env.tick;
        let mut actions: BTreeMap<u8, Vec<Action>> = BTreeMap::new();
        for (job, (_, program)) in &open {
            let entry = world.known(*job);
            let Some(run) = entry.live().next() else { continue };
            let number = number_of(&run.node);
            let took = mix.times[usize::from(*program)][usize::from(number) % 3] * 1_000;
            let result = right_result(&entry.spec);
            match run.state {
                RunState::Placed if run.begun.get() + took <= now.get() => {
                    actions.entry(number).or_default().push(commit_as(number, *job, &result));
                }
                RunState::Committed { .. } => {
                    actions.entry(number).or_default().push(reveal_as(number, *job, &result));
                }
                RunState::Placed | RunState::Revealed { .. } | RunState::Ended { .. } => {}
            }
        }
        let mut txs: Vec<CheckedTx> = Vec::new();
        for (number, actions) in actions {
            txs.extend(world.txs(voice(number), actions));
        }
        let mut specs = Vec::new();
        while mix.jobs.get(next).is_some_and(|(at, _)| start.get() + at <= now.get()) {
            specs.push(mix.jobs[next]);
            next += 1;
        }
        for (place, tx) in submissions(&world, &specs).into_iter().enumerate() {
            let (at, program) = specs[place];
            open.insert(JobId::of(tx.id(), 0), (Tick::new(start.get() + at), program));
            txs.push(tx);
        }
        let applied = apply(&world.rules, &world.view, &world.env, &txs).expect("a valid block");
        root = applied.receipts_root;
        world.commit(&applied);
        if !is_learning {
            let forgotten = world.ids(Noun::Pace).into_iter();
            let forgotten = forgotten.map(|id| (tg_types::StateKey::new(Noun::Pace, id), None));
            let forgotten = forgotten.collect();
            world.view.commit(&forgotten);
        }
        open.retain(|job, (came, _)| {
            let is_open = !world.status(*job).is_final();
            spent += if is_open { 0 } else { now.since(*came).expect("later").get() };
            is_open
        });
    }
    audit(&world);
    (spent / JOBS as u64, root)
}

fn submissions(world: &World, jobs: &[(u64, u8)]) -> Vec<CheckedTx> {
    let actions = jobs.iter().map(|(_, program)| submit(vec![command(*program)])).collect();
    world.txs(account(CLIENT), actions)
}

/// Goal: what is learned shortens the mean completion time of a mix by a tenth at least, against a
/// ledger that forgets it after every block; and the same mix ends in the same state. Method:
/// simulated nodes of three models in block times of a second; the seeds were fixed beforehand.
/// `-- --nocapture` prints the figures.
#[test]
fn sim_learned_times_shorten_a_mix() {
    let (mut with, mut without) = (0, 0);
    for seed in 1..=5 {
        let mix = Mix::new(seed);
        let (learned, root) = completion(&mix, true);
        let (forgetful, _) = completion(&mix, false);
        println!("seed {seed}: {learned} ms learned, {forgetful} ms not (simulated nodes)");
        if seed == 1 {
            assert_eq!((learned, root), completion(&mix, true), "the same again");
        }
        with += learned;
        without += forgetful;
    }
    println!("mean: {} ms learned, {} ms not (simulated nodes)", with / 5, without / 5);
    assert!(with * 10 <= without * 9, "{with} {without}");
}
