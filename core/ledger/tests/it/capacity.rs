//! What nodes show of their capacity: asked, filled, committed to, drawn, shown; or not.

use tg_ledger::{CapacityStep, Fill, Promise, blocks_for, drawn_place};
use tg_types::tx::NodeSet;
use tg_types::{
    Action, Bps, Bytes, CapacityParams, Device, DeviceKind, DurationMs, Event, Hash32, JobSpec,
    JobStatus, List, NetworkKind, NodeDescriptor, Params, Proved, Reason, Status, Tier,
};

use crate::fleet::*;
use crate::judge::{filled_root, openings};
use crate::world::*;

/// What a node of the tests claims; see [`descriptor`].
const CLAIM_MIB: u32 = 1_024;

/// A network in which nodes are asked when they join, and only then.
fn asking_params() -> Params {
    let capacity = CapacityParams {
        blocks_max: 4_096,
        share: Bps::constant(5_000),
        fill_within: DurationMs::new(3_000),
        answer_within: DurationMs::new(2_000),
        pause: DurationMs::new(4_000),
        openings: 4,
        again_per_million: 0,
        per_beacon_max: 4,
    };
    Params { capacity, ..busy_params() }
}

/// A network with so many nodes that have just joined.
fn asking(nodes: u8) -> World {
    World::staffed_with(asking_params(), NetworkKind::Local, nodes)
}

fn commit(root: Hash32) -> Action {
    Action::CommitCapacity { root }
}

fn show(places: &[u32]) -> Action {
    Action::ShowCapacity { openings: Bytes::new(openings(places)).expect("short") }
}

impl World {
    fn step(&self, number: u8) -> CapacityStep {
        self.node(&node(number)).expect("a node").capacity.step
    }

    /// What a node has shown of its first device.
    fn proved(&self, number: u8) -> Option<Proved> {
        self.proof(number, 0)
    }

    /// What a node has shown of a device.
    fn proof(&self, number: u8, device: u8) -> Option<Proved> {
        self.node(&node(number)).expect("a node").capacity.proof(device).copied()
    }

    /// What a node is asked to fill.
    fn fill(&self, number: u8) -> Fill {
        let CapacityStep::Filling { fill, .. } = self.step(number) else {
            unreachable!("node {number} is asked: {:?}", self.step(number));
        };
        fill
    }

    /// The places that a node has still to show.
    fn places(&self, number: u8) -> Vec<u32> {
        let CapacityStep::Showing { fill, lot, shown, .. } = self.step(number) else {
            unreachable!("blocks of node {number} are drawn: {:?}", self.step(number));
        };
        let needed = self.rules.genesis.params().capacity.openings;
        (shown..needed).map(|at| drawn_place(&lot, at, fill.blocks)).collect()
    }

    /// A node that is asked commits to what it filled, and blocks are drawn.
    fn commit_capacity(&mut self, number: u8) {
        let fill = self.fill(number);
        self.act(number, commit(filled_root(&fill.seed, fill.blocks)));
        self.draw();
    }

    /// A node that is asked does all that it is asked for.
    fn prove(&mut self, number: u8) {
        let device = self.fill(number).device;
        self.commit_capacity(number);
        self.act(number, show(&self.places(number)));
        assert!(self.proof(number, device).is_some());
    }
}

/// Goal: a node that joins goes the whole way, step by step, and gets work only at its end.
#[test]
fn node_that_joins_is_asked_and_gets_work_when_it_has_answered() {
    let mut world = asking(1);
    assert!(matches!(world.step(0), CapacityStep::Waiting { .. }));
    let job = world.ask(spec(Tier::Trusted));
    assert!(world.runners(job).is_empty());
    let events = world.draw();
    let fill = world.fill(0);
    assert_eq!((fill.blocks, fill.memory_mib), (4_096, CLAIM_MIB));
    let asked = |it: &Event| matches!(it, Event::CapacityAsked { node: of, .. } if *of == node(0));
    assert_eq!(events.iter().filter(|it| asked(it)).count(), 1);
    assert!(world.runners(job).is_empty());

    world.pass(1_000);
    let root = filled_root(&fill.seed, fill.blocks);
    let events = world.act(0, commit(root));
    assert_eq!(events, [Event::CapacityCommitted { node: node(0), root }]);
    let events = world.draw();
    assert!(events.iter().any(|it| matches!(it, Event::CapacityDrawn { .. })));
    assert!(world.runners(job).is_empty());
    let places = world.places(0);
    assert_eq!(places.len(), 4);
    let events = world.act(0, show(&places[..3]));
    assert_eq!(events, [Event::CapacityShown { node: node(0), shown: 3 }]);
    assert!(world.runners(job).is_empty() && world.proved(0).is_none());

    let events = world.act(0, show(&places[3..]));
    let proved = world.proved(0).expect("credited");
    assert_eq!((proved.memory_mib, proved.blocks), (CLAIM_MIB, 4_096));
    assert!(proved.took.get() >= 1_000, "{}", proved.took);
    let Proved { memory_mib, blocks, took, .. } = proved;
    let expected = Event::CapacityProved { node: node(0), device: 0, memory_mib, blocks, took };
    assert_eq!(events, [expected]);
    assert_eq!(world.runners(job), [0], "placed at the end of the same block");
    assert_eq!(world.step(0), CapacityStep::Idle);
}

#[test]
fn seeds_of_nodes_differ_and_follow_a_later_beacon() {
    let mut world = asking(2);
    let mut other = world.clone();
    world.draw();
    assert_ne!(world.fill(0).seed, world.fill(1).seed);
    other.succeed(account(9), transfer(account(50), 5));
    other.draw();
    assert_ne!(world.fill(0).seed, other.fill(0).seed, "the block after joining changes it");
}

#[test]
fn node_without_capacity_is_neither_drawn_nor_counted() {
    let mut world = asking(4);
    world.draw();
    for number in 0..3 {
        world.prove(number);
    }
    for round in 0..4 {
        let (job, provider, checkers) = world.checked(&right());
        assert!(provider != 3 && !checkers.is_empty() && !checkers.contains(&3), "{round}");
        world.vouch(job, &checkers, &right());
    }
    let params = asking_params();
    let mut open = World::staffed_with(params, NetworkKind::Open, 4);
    open.draw();
    let tx = open.tx(account(CLIENT), submit(vec![spec(Tier::Sync)]));
    let applied = open.block(&[tx]);
    assert_eq!(applied.receipts[0].status, Status::Failed(Reason::CheckersTooFew));
}

#[test]
fn steps_out_of_turn_are_refused_and_change_nothing() {
    let mut world = asking(1);
    let root = Hash32::new([1; 32]);
    world.refused(0, commit(root), Reason::CapacityNotThere);
    world.refused(0, show(&[0]), Reason::CapacityNotThere);
    world.refused(5, commit(root), Reason::NodeUnknown);
    world.refused(5, show(&[0]), Reason::NodeUnknown);
    world.draw();
    let fill = world.fill(0);
    world.refused(0, show(&[0]), Reason::CapacityNotThere);
    world.act(0, commit(filled_root(&fill.seed, fill.blocks)));
    world.refused(0, commit(root), Reason::CapacityNotThere);
    world.refused(0, show(&[0]), Reason::CapacityNotThere);
    world.draw();
    world.refused(0, commit(root), Reason::CapacityNotThere);
    let places = world.places(0);
    world.act(0, show(&places));
    world.refused(0, show(&places), Reason::CapacityNotThere);
    world.refused(0, commit(root), Reason::CapacityNotThere);
}

/// Goal: wrong openings count as none. Method: all ways to be wrong, then no more time.
#[test]
fn wrong_openings_are_refused_and_the_node_is_asked_again_after_a_pause() {
    let mut world = asking(1);
    world.draw();
    world.commit_capacity(0);
    let places = world.places(0);
    let first = world.step(0);
    let mut turned = places.clone();
    turned.swap(0, 1);
    let long = [&places[..], &[0]].concat();
    for wrong in [&turned[..], &[], &long, &[places[0] ^ 1], &places[1..2]] {
        world.refused(0, show(wrong), Reason::OpeningWrong);
    }
    assert_eq!(world.step(0), first);
    let events = world.pass(3_000);
    let again = events.iter().find_map(|event| {
        let Event::CapacityMissed { again, .. } = event else { return None };
        Some(*again)
    });
    assert_eq!(world.step(0), CapacityStep::Resting { until: again.expect("missed") });
    world.refused(0, show(&places), Reason::CapacityNotThere);
    let job = world.ask(spec(Tier::Trusted));
    world.pass(4_000);
    assert_eq!((world.status(job), world.proved(0)), (JobStatus::Queued, None));
    world.draw();
    world.prove(0);
    assert_eq!(world.runners(job), [0]);
}

#[test]
fn false_root_is_found_out() {
    let mut world = asking(1);
    world.draw();
    world.act(0, commit(Hash32::new([9; 32])));
    world.draw();
    let places = world.places(0);
    world.refused(0, show(&places), Reason::OpeningWrong);
    world.pass(3_000);
    assert!(matches!(world.step(0), CapacityStep::Resting { .. }));
}

#[test]
fn commitment_that_comes_too_late_is_refused() {
    let mut world = asking(1);
    world.draw();
    let fill = world.fill(0);
    let events = world.pass(4_000);
    assert!(events.iter().any(|it| matches!(it, Event::CapacityMissed { .. })));
    let root = filled_root(&fill.seed, fill.blocks);
    world.refused(0, commit(root), Reason::CapacityNotThere);
}

/// Goal: who has shown its capacity is asked again, loses its credit if it does not answer, and
/// nothing else. Method: a network that asks a node with every beacon.
#[test]
fn node_is_asked_again_at_random_and_not_while_it_works() {
    let mut params = asking_params();
    params.capacity.again_per_million = 1_000_000;
    let mut world = World::staffed_with(params, NetworkKind::Local, 1);
    world.draw();
    world.prove(0);
    let first = world.proved(0);
    let job = world.ask(spec(Tier::Trusted));
    assert_eq!(world.runners(job), [0]);
    world.draw();
    assert_eq!(world.step(0), CapacityStep::Idle, "who works is left alone");
    world.deliver(0, job, &right());
    world.draw();
    assert!(matches!(world.step(0), CapacityStep::Filling { .. }));
    assert_eq!(world.proved(0), first, "credited until it fails");
    world.prove(0);
    assert_ne!(world.proved(0), first);

    world.draw();
    let stake = world.stake(&account(0));
    let job = world.ask(JobSpec { run_max: DurationMs::new(4_000), ..spec(Tier::Trusted) });
    world.pass(4_000);
    assert_eq!((world.proved(0), world.stake(&account(0)).active), (None, stake.active));
    assert_eq!(world.runners(job), [0], "what it had before it may finish");
    let next = world.ask(spec(Tier::Trusted));
    assert!(world.runners(next).is_empty());
}

/// Goal: a promise does not wait for its slot to find out that the node cannot keep it. Method: a
/// node that keeps a slot behind a run, and does not answer meanwhile; there is no other.
#[test]
fn node_that_does_not_answer_loses_the_slots_that_it_keeps_at_once() {
    let mut params = asking_params();
    params.capacity.again_per_million = 1_000_000;
    params.job_expires_max = DurationMs::new(300_000);
    params.seen_retention = DurationMs::HOUR;
    let mut world = World::staffed_with(params, NetworkKind::Local, 1);
    world.act(0, change(NodeDescriptor { slots: 1, ..offer(1) }));
    world.draw();
    world.prove(0);
    world.draw();
    world.ask(JobSpec { run_max: DurationMs::new(4_000), ..spec(Tier::Trusted) });
    let by = world.env.tick.plus(DurationMs::new(100_000)).expect("early");
    let expires_after = DurationMs::new(200_000);
    let promised = JobSpec { promise: Some(by), expires_after, ..spec(Tier::Trusted) };
    let job = world.ask(promised);
    assert!(matches!(world.known(job).promise, Promise::Kept { .. }));
    world.pass(4_000);
    assert_eq!(world.proved(0), None);
    let promise = world.known(job).promise;
    assert!(matches!(promise, Promise::Broken { .. }), "{promise:?}");
}

#[test]
fn frequency_of_asking_again_follows_the_parameter() {
    let mut params = asking_params();
    params.capacity.again_per_million = 100_000;
    params.capacity.fill_within = DurationMs::new(50_000);
    let mut world = World::staffed_with(params, NetworkKind::Local, 3);
    world.draw();
    for number in 0..3 {
        if matches!(world.step(number), CapacityStep::Filling { .. }) {
            world.prove(number);
        }
    }
    let mut asked = 0;
    for _ in 0..100 {
        let events = world.beat().block_receipt.events;
        asked += events.iter().filter(|it| matches!(it, Event::CapacityAsked { .. })).count();
        for number in 0..3 {
            if matches!(world.step(number), CapacityStep::Filling { .. }) {
                world.prove(number);
            }
        }
    }
    // Every beacon asks 0.3 nodes; proving takes four more.
    assert!((20..150).contains(&asked), "{asked} of 100 rounds");
}

#[test]
fn larger_claim_is_credited_only_when_it_is_shown() {
    let mut world = asking(1);
    world.draw();
    world.prove(0);
    let mut descriptor: NodeDescriptor = offer(1);
    let mut devices = descriptor.devices.as_slice().to_vec();
    devices[0].memory_mib = 4 * CLAIM_MIB;
    descriptor.devices = List::new(devices).expect("one device");
    let mut large = spec(Tier::Trusted);
    large.needs.memory_mib_min = 2 * CLAIM_MIB;
    world.succeed(account(0), Action::ChangeNode { node: node(0), descriptor });
    let small = world.ask(spec(Tier::Trusted));
    assert_eq!(world.runners(small), [0], "credited with what it has shown");
    let large = world.ask(large);
    assert!(world.runners(large).is_empty());
    world.draw();
    assert_eq!(world.fill(0).memory_mib, 4 * CLAIM_MIB);
    world.prove(0);
    assert_eq!(world.runners(large), [0]);
}

/// An offer with the usual processor and a GPU of this memory, in this order or turned.
fn with_gpu(memory_mib: u32, is_turned: bool) -> NodeDescriptor {
    let cpu = Device { kind: DeviceKind::Cpu, ..offer(1).devices.as_slice()[0].clone() };
    let model = "a gpu".parse().expect("a name");
    let gpu = Device { kind: DeviceKind::Gpu, model, memory_mib, ..cpu.clone() };
    let devices = if is_turned { vec![gpu, cpu] } else { vec![cpu, gpu] };
    NodeDescriptor { devices: List::new(devices).expect("two"), ..offer(1) }
}

fn change(descriptor: NodeDescriptor) -> Action {
    Action::ChangeNode { node: node(0), descriptor }
}

/// A network with one node that has just joined with a processor and a GPU.
fn asking_with_gpu(params: Params) -> World {
    let mut world = World::staffed_with(params, NetworkKind::Local, 1);
    world.act(0, change(with_gpu(2 * CLAIM_MIB, false)));
    world.draw();
    world
}

fn wanting(kind: DeviceKind) -> JobSpec {
    let mut spec = spec(Tier::Trusted);
    spec.needs.kind = Some(kind);
    spec
}

/// Goal: every device is asked for and credited on its own. Method: jobs for both kinds; the
/// processor is shown first, the GPU afterwards.
#[test]
fn devices_are_asked_for_one_after_the_other_and_credited_alone() {
    let mut world = asking_with_gpu(asking_params());
    let on_cpu = world.ask(wanting(DeviceKind::Cpu));
    let on_gpu = world.ask(wanting(DeviceKind::Gpu));
    let first = world.fill(0);
    assert_eq!((first.device, first.memory_mib), (0, CLAIM_MIB));
    world.prove(0);
    assert_eq!(world.runners(on_cpu), [0]);
    assert!(world.runners(on_gpu).is_empty(), "nothing was shown of the GPU");
    world.draw();
    let second = world.fill(0);
    assert_eq!((second.device, second.memory_mib), (1, 2 * CLAIM_MIB));
    assert_ne!(first.seed, second.seed);
    world.prove(0);
    assert_eq!(world.runners(on_gpu), [0]);
    assert_eq!(world.proof(0, 1).map(|proof| proof.memory_mib), Some(2 * CLAIM_MIB));
    assert_eq!(world.step(0), CapacityStep::Idle);
}

/// Goal: a device that never answers costs only its own credit, and no other is spared for it.
/// Method: a GPU that is not there, on a network that asks again with every beacon.
#[test]
fn device_that_never_answers_takes_nothing_from_the_others() {
    let mut world = asking_with_gpu(asking_params());
    world.prove(0);
    for _ in 0..3 {
        world.draw();
        assert_eq!(world.fill(0).device, 1, "asked for again and again");
        let events = world.pass(4_000);
        let is_missed = |it: &Event| matches!(it, Event::CapacityMissed { device: 1, .. });
        assert!(events.iter().any(is_missed));
        assert!(world.proof(0, 0).is_some() && world.proof(0, 1).is_none());
        let job = world.ask(wanting(DeviceKind::Cpu));
        assert_eq!(world.runners(job), [0]);
        world.deliver(0, job, &right());
        world.pass(4_000);
    }

    let mut params = asking_params();
    params.capacity.again_per_million = 1_000_000;
    params.capacity.pause = DurationMs::new(60_000);
    let mut world = asking_with_gpu(params);
    world.prove(0);
    let (mut processor_asked, mut is_missed) = (0, false);
    for _ in 0..40 {
        if let CapacityStep::Filling { fill, .. } = world.step(0) {
            if fill.device == 0 {
                processor_asked += u32::from(is_missed);
                world.prove(0);
            } else {
                world.pass(4_000);
                is_missed = true;
            }
        }
        world.draw();
    }
    assert!(processor_asked > 0, "who rests for a GPU is asked for its processor");
    assert!(world.proof(0, 0).is_some() && world.proof(0, 1).is_none());
}

/// Goal: what was shown stays with its device when an offer is put in another order, and goes with
/// it. Method: the offer is turned round and cut at every step.
#[test]
fn proofs_and_questions_follow_their_devices_through_changes_of_the_offer() {
    let mut world = asking_with_gpu(asking_params());
    world.prove(0);
    world.draw();
    let asked = world.fill(0);
    assert_eq!(asked.device, 1);
    world.act(0, change(with_gpu(2 * CLAIM_MIB, true)));
    assert_eq!(world.fill(0), Fill { device: 0, ..asked });
    assert!(world.proof(0, 0).is_none() && world.proof(0, 1).is_some());
    world.commit_capacity(0);
    world.act(0, change(with_gpu(2 * CLAIM_MIB, false)));
    let places = world.places(0);
    world.act(0, show(&places));
    assert_eq!(world.proof(0, 1).map(|proof| proof.memory_mib), Some(2 * CLAIM_MIB));

    world.act(0, change(with_gpu(3 * CLAIM_MIB, false)));
    world.draw();
    assert_eq!((world.fill(0).device, world.fill(0).memory_mib), (1, 3 * CLAIM_MIB));
    let cpu = with_gpu(1, false).devices.as_slice()[..1].to_vec();
    let devices = List::new(cpu).expect("one");
    world.act(0, change(NodeDescriptor { devices, ..offer(1) }));
    assert!(world.proof(0, 0).is_some() && world.proof(0, 1).is_none());
    // The question stands, cannot be answered, and counts as missed.
    assert!(matches!(world.step(0), CapacityStep::Filling { .. }), "{:?}", world.step(0));
    world.refused(0, commit(Hash32::new([1; 32])), Reason::CapacityNotThere);
    world.act(0, change(with_gpu(CLAIM_MIB, false)));
    assert!(matches!(world.step(0), CapacityStep::Filling { .. }), "{:?}", world.step(0));
    world.pass(4_000);
    assert!(matches!(world.step(0), CapacityStep::Resting { .. }), "{:?}", world.step(0));
    assert!(world.proof(0, 0).is_some(), "only what was asked for is lost");
    world.pass(20_000);
    world.draw();
    assert_eq!(world.fill(0).device, 1, "a device that comes back begins anew");
}

#[test]
fn beacon_asks_no_more_nodes_than_it_may() {
    let mut params = asking_params();
    params.capacity.per_beacon_max = 2;
    let mut world = World::staffed_with(params, NetworkKind::Local, 3);
    assert!(matches!(world.step(2), CapacityStep::Resting { .. }));
    world.draw();
    let commits: Vec<_> = (0..2)
        .map(|number| {
            let fill = world.fill(number);
            world.tx(voice(number), commit(filled_root(&fill.seed, fill.blocks)))
        })
        .collect();
    world.pass(2_000);
    world.draw();
    let fill = world.fill(2);
    let late = world.tx(voice(2), commit(filled_root(&fill.seed, fill.blocks)));
    let statuses: Vec<_> = world
        .block(&[commits[0].clone(), commits[1].clone(), late])
        .receipts
        .iter()
        .map(|receipt| receipt.status)
        .collect();
    let limit = Status::Failed(Reason::CapacityLimit);
    assert_eq!(statuses, [Status::Applied, Status::Applied, limit]);
    world.draw();
    world.prove(2);
}

#[test]
fn node_that_leaves_and_joins_again_begins_anew() {
    let mut world = asking(1);
    world.draw();
    let old = world.fill(0);
    world.act(0, commit(filled_root(&old.seed, old.blocks)));
    world.succeed(account(0), Action::LeaveNode { node: node(0) });
    let again = world.registration(0, account(0), 1);
    world.succeed(account(0), again);
    world.draw();
    assert_ne!(world.fill(0).seed, old.seed);
    world.prove(0);
}

#[test]
fn absent_node_is_dropped_with_what_it_was_asked() {
    let mut world = asking(1);
    world.draw();
    world.pass(8_000);
    let epoch = world.env.tick.get() / 4_000;
    for seat in 0..3 {
        let nodes = NodeSet::new(vec![node(0)]).expect("one node");
        world.succeed(owner(seat), Action::ReportAbsent { epoch: epoch - 1, nodes });
    }
    world.pass(20_000);
    assert_eq!(world.node(&node(0)), None);
}

#[test]
fn network_that_asks_nobody_believes_claims() {
    let mut world = World::staffed(1);
    assert_eq!((world.step(0), world.proved(0)), (CapacityStep::Idle, None));
    let job = world.ask(spec(Tier::Trusted));
    assert_eq!(world.runners(job), [0]);
    assert_eq!(blocks_for(&CapacityParams::OFF, u32::MAX), 0);
    world.refused(0, commit(Hash32::new([1; 32])), Reason::CapacityNotThere);
}

/// Goal: whatever nodes answer, every node is asked until it has answered, nobody who did not is
/// credited, and money is conserved. Method: random answers at random times; every block is held
/// against the ledger's audit.
#[test]
fn prop_only_right_answers_are_credited() {
    arbtest::arbtest(|u| {
        let mut params = asking_params();
        params.capacity.again_per_million = u.int_in_range(0..=200_000)?;
        params.capacity.per_beacon_max = u.int_in_range(1..=3)?;
        params.due_per_block_max = u.int_in_range(1..=10)?;
        let mut world = World::staffed_with(params, NetworkKind::Local, 3);
        for number in 0..3 {
            let descriptor = with_gpu(CLAIM_MIB, u.arbitrary()?);
            world.act(number, Action::ChangeNode { node: node(number), descriptor });
        }
        // Node 2 lies.
        while !u.is_empty() {
            let number: u8 = u.int_in_range(0..=2)?;
            let is_honest = number < 2;
            let mut root = Hash32::new([u.arbitrary()?; 32]);
            if let CapacityStep::Filling { fill, .. } = world.step(number)
                && is_honest
            {
                root = filled_root(&fill.seed, fill.blocks);
            }
            let is_drawn = matches!(world.step(number), CapacityStep::Showing { .. });
            let places = if is_drawn { world.places(number) } else { vec![u.arbitrary()?] };
            let count = u.int_in_range(0..=places.len())?;
            let changed = with_gpu(u.int_in_range(1..=2)? * CLAIM_MIB, u.arbitrary()?);
            let actions = [
                commit(root),
                show(&places[..count]),
                Action::LeaveNode { node: node(9) },
                Action::ChangeNode { node: node(number), descriptor: changed },
            ];
            let action = u.choose(&actions)?.clone();
            let tx = world.tx(voice(number), action);
            if u.ratio(2, 3)? {
                let first = world.cursor().beacon.get() + 1;
                let end = world.env.height.get();
                world.env.certificates = (first..end).map(|at| world.certificate(at)).collect();
            }
            world.wait(u.int_in_range(0..=1_500)?);
            world.block(&[tx]);
            for device in 0..2 {
                assert_eq!(world.proof(2, device), None, "a liar is never credited");
            }
        }
        Ok(())
    })
    .budget_ms(4_000);
}

/// A ledger that believes openings unseen credits whoever sends any.
#[cfg(feature = "planted-bugs")]
#[test]
fn planted_trust_openings_credits_a_liar() {
    for (bug, expected) in [(None, false), (Some(tg_ledger::PlantedBug::TrustOpenings), true)] {
        let mut world = asking(1);
        world.rules.planted = bug;
        world.draw();
        world.act(0, commit(Hash32::new([9; 32])));
        world.draw();
        world.run(voice(0), show(&[]));
        assert_eq!(world.proved(0).is_some(), expected);
    }
}
