//! Which nodes are given runs, and that no job waits that could be placed.

use arbtest::arbitrary::{Result, Unstructured};
use tg_ledger::{JobEntry, ListHead, ListOf, QueueRow, excluded, keys, run_bond, run_span};
use tg_scheduler::{Ask, Offer, fit};
use tg_types::node::DEVICES_MAX;
use tg_types::{
    AccountId, Action, Bps, CheckedTx, Hash32, HostPart, JobId, JobSpec, JobStatus, List,
    NetworkKind, NodeDescriptor, Noun, RegionAsk, StepJudge as _, Tier, Work,
};

use crate::fleet::*;
use crate::judge::TestJudge;
use crate::world::*;

#[test]
fn runs_are_spread_over_equal_nodes() {
    let mut world = World::staffed(3);
    for number in 1..3 {
        world.act(number, Action::ChangeNode { node: node(number), descriptor: offer(1) });
    }
    let tx = world.run(account(CLIENT), submit(vec![spec(Tier::Trusted); 6])).tx;
    let mut counts = [0; 3];
    for number in (0..6).flat_map(|place| world.runners(JobId::of(tx, place))) {
        counts[usize::from(number)] += 1;
    }
    assert_eq!(counts, [2; 3]);
}

/// Goal: one run may use up what another one needs. Method: the cheapest node's owner has stake for
/// one run and a bit; both of its nodes are passed over from the second job on.
#[test]
fn owner_without_stake_left_is_passed_over_with_all_nodes() {
    let bond = run_bond(job_params().run_bond, &spec(Tier::Trusted));
    let mut world = World::staffed_with(busy_params(), NetworkKind::Local, 0);
    let poor = [world.staff(0, 0, bond.units() * 3 / 2), world.staff(2, 2, STAKE)].concat();
    world.block(&poor);
    let second = world.staff(1, 0, 1);
    world.block(&second);
    let tx = world.run(account(CLIENT), submit(vec![spec(Tier::Trusted); 3])).tx;
    let runners: Vec<u8> = (0..3).flat_map(|place| world.runners(JobId::of(tx, place))).collect();
    assert_eq!(runners.len(), 3);
    assert_eq!(runners.iter().filter(|number| **number < 2).count(), 1, "{runners:?}");
}

/// Transactions by which a client submits so many jobs that nearly fit every node: their bonds are
/// beyond all stakes by less than markets tell apart. No two are alike.
fn hard_jobs(world: &World, client: u8, count: u64) -> Vec<CheckedTx> {
    let hard = |number: u64| {
        let mut spec = spec(Tier::Trusted);
        spec.pay = units(600_000 + 1_000 * u64::from(client) + number);
        spec.needs.model = Some("test".parse().expect("a name"));
        spec
    };
    let numbers: Vec<u64> = (0..count).collect();
    let batches = numbers.chunks(32).map(|some| submit(some.iter().copied().map(hard).collect()));
    world.txs(account(client), batches.collect())
}

/// Nine nodes with as many devices as a node may have.
fn long_lists() -> World {
    let mut params = busy_params();
    params.jobs.placements_per_block_max = 1_000;
    let mut world = World::staffed_with(params, NetworkKind::Local, 9);
    for number in 0..9 {
        let mut descriptor = offer(1);
        let devices = vec![descriptor.devices.as_slice()[0].clone(); DEVICES_MAX];
        descriptor.devices = List::new(devices).expect("as many as there may be");
        world.act(number, Action::ChangeNode { node: node(number), descriptor });
    }
    world
}

/// Goal: a client's jobs that are hard to place take a part of a block's time only. Method: more of
/// them than a block has time for, before a job of another client.
#[test]
fn jobs_of_one_client_that_are_hard_to_place_leave_time_for_others() {
    let mut world = long_lists();
    let mut txs = hard_jobs(&world, CLIENT, 512);
    txs.push(world.tx(account(CHALLENGER), submit(vec![spec(Tier::Trusted)])));
    let job = JobId::of(txs.last().expect("one").id(), 0);
    world.block(&txs);
    assert_eq!(world.status(job), JobStatus::Running);
}

/// Goal: a block's time is bounded, and whoever comes after hard jobs waits for a few blocks only.
/// Method: hard jobs of more clients than a block has time for.
#[test]
fn block_without_time_goes_on_in_the_next() {
    let mut world = long_lists();
    let clients = (0..9).chain([CLIENT]);
    let mut txs: Vec<CheckedTx> =
        clients.flat_map(|client| hard_jobs(&world, client, 64)).collect();
    txs.push(world.tx(account(CHALLENGER), submit(vec![spec(Tier::Trusted)])));
    let job = JobId::of(txs.last().expect("one").id(), 0);
    world.block(&txs);
    assert_eq!(world.status(job), JobStatus::Queued);
    world.block(&[]);
    assert_eq!(world.status(job), JobStatus::Running);
}

fn any_node(u: &mut Unstructured<'_>) -> Result<NodeDescriptor> {
    Ok(NodeDescriptor {
        region: u.choose(&["north", "south"])?.parse().expect("a name"),
        slots: u.int_in_range(1..=3)?,
        is_open: u.ratio(9, 10)?,
        host: HostPart { cpu_milli: *u.choose(&[0, 1_000, 2_000])?, memory_mib: 0 },
        ..offer(u.int_in_range(1..=12_000)?)
    })
}

fn any_job(u: &mut Unstructured<'_>) -> Result<JobSpec> {
    let tier = *u.choose(&[Tier::Trusted, Tier::Audit, Tier::Redundant { replicas: 3 }])?;
    let mut spec = JobSpec { pay: units(u.int_in_range(100..=PAY)?), ..spec(tier) };
    if u.ratio(1, 3)? {
        let region = u.choose(&["north", "west"])?.parse().expect("a name");
        spec.needs.region = RegionAsk::Only { region };
    }
    spec.needs.memory_mib_min = *u.choose(&[0, 1_024, 1_025])?;
    if tier == Tier::Trusted && u.arbitrary()? {
        spec.work = Work::Opaque { task: Hash32::new([1; 32]) };
        spec.needs.host.cpu_milli = *u.choose(&[0, 500, 1_500])?;
    }
    Ok(spec)
}

/// Whether a node could be given one more run of a job, by the rules alone.
fn could_run(world: &World, entry: &JobEntry, id: &[u8; 32]) -> bool {
    let params = world.rules.genesis.params();
    let facts = match entry.spec.work {
        Work::Tensor { .. } => TestJudge.facts(PROGRAM),
        Work::Opaque { .. } => None,
    };
    let excluded: Vec<AccountId> = excluded(entry);
    let bond = run_bond(params.jobs.run_bond, &entry.spec);
    let (spec, facts) = (&entry.spec, facts.as_ref());
    let span = run_span(params, spec, world.cursor().tick);
    let ask = Ask { spec, facts, bond, excluded: &excluded, span, job: None };
    let id = tg_types::NodeId::new(*id);
    let node = world.node(&id).expect("it is there");
    let offer = Offer {
        node: id,
        owner: node.owner,
        descriptor: &node.descriptor,
        running: u16::try_from(node.runs.as_slice().len()).expect("few"),
        held: node.held.as_slice(),
        hosted: node.hosted.as_slice(),
        kept: node.kept.as_slice(),
        is_present: node.absent.is_none(),
        credit: node.credit(&params.capacity),
        stake_free: world.stake(&node.owner).free(),
        reputation: Bps::ZERO,
    };
    fit(&ask, &offer).is_ok()
}

/// Goal: no job waits that a node could run, whatever was placed before it. Method: random nodes
/// and jobs; whenever a block has looked at the whole queue, all nodes are held against all jobs
/// that wait, by the rules alone.
#[test]
fn prop_job_that_waits_fits_no_node() {
    arbtest::arbtest(|u| {
        let mut world = World::staffed_with(busy_params(), NetworkKind::Local, 5);
        for _ in 0..u.int_in_range(1..=5)? {
            let change = |number| {
                let (node, descriptor) = (node(number), any_node(u)?);
                Ok(world.tx(voice(number), Action::ChangeNode { node, descriptor }))
            };
            let mut txs = (0..5).map(change).collect::<Result<Vec<_>>>()?;
            let jobs = (0..8).map(|_| any_job(u)).collect::<Result<Vec<_>>>()?;
            txs.push(world.tx(account(CLIENT), submit(jobs)));
            world.block(&txs);
            let is_midway = |row| {
                let head: Option<ListHead> = world.entry(&keys::list_head(ListOf::Queue(row)));
                head.is_some_and(|head| (head.first + 1..head.next).contains(&head.at))
            };
            if QueueRow::all().any(is_midway) {
                continue; // the block has not come to the end
            }
            let nodes = world.ids(Noun::Node);
            for job in world.ids(Noun::Job) {
                let entry = world.known(JobId::new(job));
                let waits = entry.queue_place.is_some();
                let fitting = nodes.iter().filter(|id| could_run(&world, &entry, id));
                assert!(!waits || fitting.count() == 0, "{entry:?}");
            }
        }
        Ok(())
    });
}
