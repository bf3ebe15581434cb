//! The index against a search through all nodes, against itself replayed, undone and made anew.

use super::cell::CellKey;
use super::class::Zones;
use super::{
    CLAIMS_MAX, Decision, Event, EventError, Facts, Index, Keys, Limits, NodeFact, NodeOffer,
    Purpose, Refusal, Slice, TaskFact, TaskId, TaskSpec, UsageFact, Wait,
};
use crate::catalogue::{Abilities, Catalogue};
use crate::packing::Models;
use crate::sharing::Modes;
use std::collections::{BTreeMap, BTreeSet};
use tg_types::codec::{Decode, Encode};
use tg_types::{DeviceKind, Features, NodeId};

/// Something that makes a task another.
type Change = fn(&mut TaskSpec);

const ALL: Limits = Limits { decisions: u32::MAX, requeues: u32::MAX };

/// Numbers from a seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = super::hash::scramble(self.0);
        self.0 % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn node(&mut self) -> NodeId {
        let mut id = [0; 32];
        id.chunks_mut(8).for_each(|it| it.copy_from_slice(&self.below(u64::MAX).to_be_bytes()));
        NodeId::new(id)
    }

    fn offer(&mut self, catalogue: &Catalogue) -> NodeOffer {
        let (name, count) = self.of(&[("A100-80GB", 8), ("A30", 4), ("RTX-4090", 1), ("T4", 2)]);
        let model = catalogue.models().iter().position(|it| it.name == name).expect("listed");
        let found = &catalogue.models()[model];
        NodeOffer {
            owner: self.below(5),
            kind: found.kind,
            model: model as u8,
            count,
            memory_mib: found.memory_mib,
            abilities: found.abilities,
            features: self.of(&[Features::NONE, Features::SANDBOX]),
            modes: self.of(&[Modes::WHOLE, Modes::MIG, Modes::MPS, Modes::MIG.with(Modes::TIME)]),
            cpu_milli: 8_000 * u32::from(count),
            ram_mib: 32_768 * u32::from(count),
            region: self.of(&[0, 1, 9]),
            trust: self.below(6) as u8,
            privacy: self.below(4) as u8,
            speed: 10,
            price: self.of(&[8, 10, 12]),
            reliability: self.of(&[9, 15]),
            bandwidth: self.below(3) as u8,
            load: self.of(&[3, 3, 5]),
            load_held: self.of(&[0, 0, 1, 3]),
            spare: self.of(&[0, 7, 31]),
            is_open: self.below(10) > 0,
            cached: Keys::new([1 + self.below(3)]),
        }
    }

    fn spec(&mut self) -> TaskSpec {
        let (gpus, share_milli) =
            self.of(&[(0, 0), (1, 0), (1, 0), (2, 0), (8, 0), (1, 100), (1, 300), (1, 450)]);
        TaskSpec {
            cpu_milli: self.of(&[500, 1_000, 4_000, 8_000]) * u32::from(gpus.max(1)),
            ram_mib: self.of(&[1_024, 9_000, 30_000]) * u32::from(gpus.max(1)),
            gpus,
            share_milli,
            memory_mib: if gpus > 0 { self.of(&[2_000, 9_000, 20_000]) } else { 0 },
            regions: self.of(&[u64::MAX, u64::MAX, 0b10, 0xff]),
            trust_min: self.of(&[0, 0, 2, 5]),
            privacy: self.of(&[0, 0, 1, 2]),
            speed_min: self.of(&[0, 10]),
            price_max: self.of(&[63, 10]),
            bandwidth_min: self.of(&[0, 0, 1]),
            kind: self.of(&[None, Some(DeviceKind::Gpu)]),
            models: Models::ANY,
            abilities: self.of(&[Abilities::NONE, Abilities::TENSOR]),
            features: self.of(&[Features::NONE, Features::NONE, Features::SANDBOX]),
            may_share: self.below(2) > 0,
            purpose: self.of(&[Purpose::Inference, Purpose::Batch, Purpose::Training]),
            home: self.of(&[0, 1]),
            near: self.of(&[0, 0b10, 0xff]),
            packs: self.below(2) > 0,
            data: self.of(&[0, 0, 2]),
            excluded: self
                .of(&[None, None, Some(1)])
                .map_or_else(Keys::default, |it| Keys::new([it])),
        }
    }
}

/// A network that goes its random way.
struct World {
    draws: Draws,
    catalogue: Catalogue,
    nodes: Vec<NodeId>,
    tasks: Vec<TaskId>,
    next: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let catalogue = Catalogue::builtin();
        Self { draws: Draws(seed), catalogue, nodes: Vec::new(), tasks: Vec::new(), next: 0 }
    }

    fn event(&mut self) -> Event {
        let task = |world: &mut Self| {
            let number = world.draws.below(world.next.max(1));
            world.tasks.get(number as usize).copied().unwrap_or(TaskId { number })
        };
        match self.draws.below(20) {
            0..3 => {
                let node = self.draws.node();
                self.nodes.push(node);
                Event::NodeJoined { node, offer: Box::new(self.draws.offer(&self.catalogue)) }
            }
            3 if !self.nodes.is_empty() => {
                let at = self.draws.below(self.nodes.len() as u64) as usize;
                Event::NodeLeft { node: self.nodes.swap_remove(at) }
            }
            4 if !self.nodes.is_empty() => {
                let node = self.draws.below(self.nodes.len() as u64) as usize;
                let offer = Box::new(self.draws.offer(&self.catalogue));
                Event::NodeChanged { node: self.nodes[node], offer }
            }
            5..8 => Event::TaskFinished { task: task(self) },
            8 => Event::TaskFailed { task: task(self), owner: self.draws.below(5) },
            9 => {
                let spec = Box::new(self.draws.spec());
                Event::TaskAdjusted { task: task(self), spec }
            }
            _ => {
                let task = TaskId { number: self.next };
                self.next += 1;
                self.tasks.push(task);
                Event::TaskQueued { task, spec: Box::new(self.draws.spec()) }
            }
        }
    }

    fn block(&mut self) -> Vec<Event> {
        (0..self.draws.below(30)).map(|_| self.event()).collect()
    }
}

/// Carries out a block. Refused events are part of life.
fn run(index: &mut Index, block: &[Event], limits: Limits) -> Vec<Decision> {
    for event in block {
        let _refused_is_fine = index.apply(event.clone());
    }
    index.tick(limits)
}

/// The score of the best node by a search through all, or of one node.
fn searched(index: &Index, kind: u32, only: Option<u32>) -> Option<i32> {
    let spec = &index.kinds[kind as usize].spec;
    let slots = (0_u32..).zip(&index.nodes).filter_map(|(slot, node)| Some((slot, node.as_ref()?)));
    let fitting = slots.filter_map(|(slot, node)| {
        let build = &index.builds[node.build as usize];
        let found = index.room(kind, slot)?;
        let traits = super::class::Traits::of(&node.offer);
        let away = traits.away(spec).ok()?;
        let is_open = node.offer.is_open && !node.is_gone;
        let is_asked = only.is_none_or(|only| only == slot);
        if !is_open || !is_asked || spec.excluded.contains(node.offer.owner) {
            return None;
        }
        assert!(Zones::of(spec).0 & 1 << Zones::place(&traits) != 0);
        let (cpu_milli, ram_mib) = (spec.cpu_milli, spec.ram_mib);
        let want = super::cell::Want { take: found.take, cpu_milli, ram_mib }.coarse();
        let rated = CellKey::of(build, &node.left).rate(build, &index.mix, &want);
        let rated = rated.expect("a cell with room is rated");
        Some(i32::from(rated) + build.base(spec) - away + i32::from(traits.merit()))
    });
    fitting.max()
}

/// Goal: the walk down the rankings finds the best place, and one exactly if there is one. Method:
/// random networks; every decision beside a search through all nodes.
#[test]
fn sim_place_is_the_best_of_a_full_search() {
    let mut placed = 0;
    for seed in 0..40 {
        let (mut world, mut index) = (World::new(seed), Index::new());
        for _ in 0..25 {
            for event in world.block() {
                let _refused_is_fine = index.apply(event);
            }
            while let Some((number, kind)) = index.ready.first().copied() {
                let has_data = index.tasks.get(number).expect("it waits").data != 0;
                let most = searched(&index, kind, None);
                let waiting = *index.tasks.get(number).expect("it is listed");
                let found = index.choose(number, waiting);
                let score = found.and_then(|found| searched(&index, kind, Some(found.slot)));
                if has_data {
                    assert_eq!(score.is_some(), most.is_some());
                } else {
                    assert_eq!(score, most, "seed {seed}");
                }
                placed += usize::from(score.is_some());
                index.decide();
            }
        }
    }
    assert!(placed > 1_000, "{placed}");
}

/// Goal: the same events give the same decisions, wherever nodes have come in another order.
#[test]
fn sim_order_of_nodes_changes_no_decision() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        let joined = |world: &mut World| {
            let offer = Box::new(world.draws.offer(&world.catalogue));
            Event::NodeJoined { node: world.draws.node(), offer }
        };
        let joins: Vec<Event> = (0..60).map(|_| joined(&mut world)).collect();
        let blocks: Vec<Vec<Event>> = (0..20).map(|_| world.block()).collect();
        let decisions = |joins: &[Event]| -> Vec<Decision> {
            let mut index = Index::new();
            run(&mut index, joins, ALL);
            blocks.iter().flat_map(|block| run(&mut index, block, ALL)).collect()
        };
        let first = decisions(&joins);
        assert_eq!(first, decisions(&joins), "replay");
        let turned: Vec<Event> = joins.into_iter().rev().collect();
        assert_eq!(first, decisions(&turned), "seed {seed}");
    }
}

/// Goal: undoing gives back what was. Method: random blocks, a mark, more blocks, and back; then
/// the facts are the old ones, and what follows is what follows for an index made of them.
#[test]
fn sim_undo_is_the_identity() {
    let few = Limits { decisions: 7, requeues: 3 };
    for seed in 100..140 {
        let (mut world, mut index) = (World::new(seed), Index::new());
        for _ in 0..12 {
            run(&mut index, &world.block(), few);
            let (mark, facts) = (index.begin(), index.facts());
            for _ in 0..3 {
                run(&mut index, &world.block(), few);
            }
            index.rollback(mark);
            assert_eq!(index.facts(), facts, "seed {seed}");
            index.commit(mark);
            let mut fresh = Index::rebuild(facts).expect("sound");
            let next = world.block();
            let decisions = run(&mut index, &next, few);
            assert_eq!(decisions, run(&mut fresh, &next, few), "seed {seed}");
        }
    }
}

/// The same facts, read from their bytes.
fn through_bytes(Facts { nodes, tasks, blocked, usage }: Facts) -> Facts {
    fn one<T: Encode + Decode>(value: &T) -> T {
        T::from_bytes(&value.to_bytes()).expect("own bytes")
    }
    Facts {
        nodes: nodes.iter().map(one::<NodeFact>).collect(),
        tasks: tasks.iter().map(one::<TaskFact>).collect(),
        blocked: blocked.iter().map(one::<TaskSpec>).collect(),
        usage: one::<UsageFact>(&usage),
    }
}

/// Goal: the index is nothing but its facts. Method: two indices hear the same; after every fifth
/// block the second is dropped and made anew from the bytes of its facts. All decisions are equal.
#[test]
fn sim_index_made_anew_decides_the_same() {
    let limits = Limits { decisions: 40, requeues: 5 };
    for seed in 200..206 {
        let (mut world, mut index, mut other) = (World::new(seed), Index::new(), Index::new());
        let mut count = 0;
        for number in 1..=250 {
            let block = world.block();
            let decisions = run(&mut index, &block, limits);
            assert_eq!(decisions, run(&mut other, &block, limits), "seed {seed}, block {number}");
            if number % 5 == 0 {
                other = Index::rebuild(through_bytes(other.facts())).expect("sound");
                assert_eq!(index.facts(), other.facts(), "seed {seed}, block {number}");
                count += decisions.len();
            } else if number > 5 {
                count += decisions.len();
            }
        }
        assert!(count >= 1_000, "{count}");
    }
}

/// Goal: it does not matter after which block the index is lost. Method: after each of forty blocks
/// a copy is made anew from the bytes of the facts, and never again; the thousand decisions that
/// follow are those of the one that was not lost.
#[test]
fn sim_index_made_anew_after_any_block_decides_the_next_thousand_the_same() {
    let limits = Limits { decisions: 40, requeues: 5 };
    let mut world = World::new(300);
    let blocks: Vec<Vec<Event>> = (0..400).map(|_| world.block()).collect();
    let mut index = Index::new();
    let mut lost: Vec<(usize, Index)> = Vec::new();
    let mut done = 0;
    for (number, block) in blocks.iter().enumerate() {
        let decisions = run(&mut index, block, limits);
        for (count, other) in &mut lost {
            assert_eq!(decisions, run(other, block, limits), "block {number}");
            *count += decisions.len();
        }
        done += lost.extract_if(.., |(count, _)| *count >= 1_000).count();
        if (30..70).contains(&number) {
            let facts = through_bytes(index.facts());
            lost.push((0, Index::rebuild(facts).expect("sound")));
        }
    }
    assert_eq!(done, 40, "blocks were too few for a thousand decisions");
}

/// Goal: tasks that are all different make no slow block. Method: more of them than a block ranks,
/// with a second of each: every block tries so many and no more, in order, an index made anew does
/// the same, and in the end all were tried.
#[test]
fn claims_of_too_many_sorts_go_on_in_later_blocks() {
    let mut world = World::new(11);
    let mut index = Index::new();
    for _ in 0..20 {
        let (node, offer) = (world.draws.node(), Box::new(plain_offer(&mut world)));
        index.apply(Event::NodeJoined { node, offer }).expect("joins");
    }
    let sorts = 2 * CLAIMS_MAX as u64 + 10;
    for number in 0..2 * sorts {
        let mut spec = plain_task(1);
        (spec.share_milli, spec.memory_mib) = (100, 1_000 + (number / 2) as u32);
        queue(&mut index, number..number + 1, &spec);
    }
    let mut tried = 0;
    for _ in 0..3 {
        let mut anew = Index::rebuild(index.facts()).expect("sound");
        let decisions = index.tick(ALL);
        assert_eq!(decisions, anew.tick(ALL));
        let numbers = decisions.iter().map(|decision| match decision {
            Decision::Place { task, .. } | Decision::Queue { task, .. } => task.number,
            Decision::Requeue { .. } => panic!("nobody left"),
        });
        let sorts: BTreeSet<u64> = numbers.map(|number| number / 2).collect();
        let first = tried as u64;
        tried += sorts.len();
        assert!(sorts.len() <= CLAIMS_MAX, "{}", sorts.len());
        assert_eq!((sorts.first(), sorts.last()), (Some(&first), Some(&(tried as u64 - 1))));
    }
    assert_eq!(tried as u64, sorts);
    assert_eq!(index.tick(ALL), []);
}

fn plain_offer(world: &mut World) -> NodeOffer {
    let mut offer = world.draws.offer(&world.catalogue);
    (offer.is_open, offer.region, offer.modes) = (true, 0, Modes::WHOLE);
    offer
}

fn plain_task(gpus: u8) -> TaskSpec {
    TaskSpec {
        cpu_milli: 1_000,
        ram_mib: 1_024,
        gpus,
        share_milli: 0,
        memory_mib: 1_024,
        regions: u64::MAX,
        trust_min: 0,
        privacy: 0,
        speed_min: 0,
        price_max: 63,
        bandwidth_min: 0,
        kind: None,
        models: Models::ANY,
        abilities: Abilities::NONE,
        features: Features::NONE,
        may_share: false,
        purpose: Purpose::Batch,
        home: 0,
        near: 0,
        packs: false,
        data: 0,
        excluded: Keys::default(),
    }
}

fn queue(index: &mut Index, numbers: std::ops::Range<u64>, spec: &TaskSpec) {
    for number in numbers {
        let spec = Box::new(spec.clone());
        index.apply(Event::TaskQueued { task: TaskId { number }, spec }).expect("taken");
    }
}

/// Goal: the loss of most nodes at once makes no slow block. Method: 200 nodes with tasks, all but
/// ten leave; every block does what the limits say and no more, until all tasks have places or
/// wait.
#[test]
fn mass_loss_of_nodes_goes_on_in_later_blocks() {
    let mut world = World::new(7);
    let mut index = Index::new();
    let mut nodes = Vec::new();
    for _ in 0..200 {
        let (node, offer) = (world.draws.node(), Box::new(plain_offer(&mut world)));
        nodes.push(node);
        index.apply(Event::NodeJoined { node, offer }).expect("joins");
    }
    queue(&mut index, 0..300, &plain_task(1));
    assert_eq!(run(&mut index, &[], ALL).len(), 300);
    for node in nodes.drain(10..) {
        index.apply(Event::NodeLeft { node }).expect("leaves");
    }
    let limits = Limits { decisions: 8, requeues: 20 };
    let (mut requeued, mut blocks) = (0, 0);
    loop {
        let decisions = index.tick(limits);
        if decisions.is_empty() {
            break;
        }
        let lost = decisions.iter().filter(|it| matches!(it, Decision::Requeue { .. })).count();
        assert!(lost <= 20 && decisions.len() - lost <= 8, "{decisions:?}");
        (requeued, blocks) = (requeued + lost, blocks + 1);
    }
    assert!(requeued > 200 && blocks >= requeued / 20, "{requeued} in {blocks}");
    assert_eq!(index.nodes(), 10);
    let running = index.facts().tasks.iter().filter(|task| task.at.is_some()).count();
    assert_eq!(running + index.waiting(), 300);
}

/// Goal: an A100 serves seven strangers at once, each in its own partition.
#[test]
fn seven_strangers_share_an_a100_in_partitions() {
    let mut world = World::new(1);
    let mut index = Index::new();
    let model = world.catalogue.models().iter().position(|it| it.name == "A100-80GB");
    let mut offer = plain_offer(&mut world);
    let model = model.expect("listed") as u8;
    (offer.model, offer.count, offer.modes, offer.memory_mib) = (model, 1, Modes::MIG, 81_920);
    (offer.cpu_milli, offer.ram_mib) = (64_000, 262_144);
    let node = world.draws.node();
    index.apply(Event::NodeJoined { node, offer: Box::new(offer) }).expect("joins");
    let mut spec = plain_task(1);
    (spec.share_milli, spec.memory_mib) = (100, 8_000);
    queue(&mut index, 0..8, &spec);
    let decisions = run(&mut index, &[], ALL);
    let mut starts: BTreeMap<u8, u64> = BTreeMap::new();
    for decision in &decisions {
        if let Decision::Place { slice: Slice::Part { device: 0, start, .. }, task, .. } = decision
        {
            starts.insert(*start, task.number);
        }
    }
    assert_eq!(starts.keys().copied().collect::<Vec<u8>>(), [0, 1, 2, 3, 4, 5, 6]);
    let eighth = TaskId { number: 7 };
    assert_eq!(decisions.last(), Some(&Decision::Queue { task: eighth, reason: Wait::Busy }));
    assert_eq!(index.why(eighth), Some(Wait::Busy));
    index.apply(Event::TaskFinished { task: TaskId { number: 3 } }).expect("ends");
    assert!(
        matches!(run(&mut index, &[], ALL)[..], [Decision::Place { task, .. }] if task == eighth)
    );
}

#[test]
fn reasons_name_the_rule_that_is_nearest() {
    let mut world = World::new(3);
    let mut index = Index::new();
    let mut offer = plain_offer(&mut world);
    (offer.trust, offer.price, offer.speed, offer.privacy) = (1, 10, 10, 0);
    let count = offer.count;
    let node = world.draws.node();
    index.apply(Event::NodeJoined { node, offer: Box::new(offer) }).expect("joins");
    let cases: [(Change, Wait); 5] = [
        (|spec| spec.ram_mib = u32::MAX, Wait::Hardware),
        (|spec| spec.regions = 2, Wait::Region),
        (|spec| spec.trust_min = 2, Wait::Trust),
        (|spec| spec.speed_min = 11, Wait::Speed),
        (|spec| spec.price_max = 9, Wait::Price),
    ];
    for (number, (change, reason)) in (0..).zip(cases) {
        let mut spec = plain_task(1);
        change(&mut spec);
        queue(&mut index, number..number + 1, &spec);
        let task = TaskId { number };
        assert_eq!(index.decide(), Some(Decision::Queue { task, reason }));
    }
    queue(&mut index, 10..12, &plain_task(count));
    assert!(matches!(index.decide(), Some(Decision::Place { .. })));
    let (task, reason) = (TaskId { number: 11 }, Wait::Busy);
    assert_eq!(index.decide(), Some(Decision::Queue { task, reason }));
}

/// Goal: what is refused changes nothing. Method: every kind of refusal, with the facts before and
/// after.
#[test]
fn refused_events_change_nothing() {
    let mut world = World::new(5);
    let mut index = Index::new();
    let (node, offer) = (world.draws.node(), plain_offer(&mut world));
    index.apply(Event::NodeJoined { node, offer: Box::new(offer.clone()) }).expect("joins");
    queue(&mut index, 0..1, &plain_task(1));
    run(&mut index, &[], ALL);
    queue(&mut index, 1..2, &TaskSpec { ram_mib: u32::MAX, ..plain_task(1) });
    let facts = index.facts();
    let mut check = |event: Event, error: EventError| {
        assert_eq!(index.apply(event), Err(error));
        assert_eq!(index.facts(), facts);
    };
    let joined = |offer: NodeOffer| Box::new(offer);
    let other = world.draws.node();
    let (known, unknown) = (TaskId { number: 0 }, TaskId { number: 9 });
    let spec = |change: Change| {
        let mut spec = plain_task(1);
        change(&mut spec);
        Box::new(spec)
    };
    check(Event::NodeJoined { node, offer: joined(offer.clone()) }, EventError::NodeKnown);
    let wide = NodeOffer { load: 8, ..offer.clone() };
    check(Event::NodeJoined { node: other, offer: joined(wide) }, EventError::Offer);
    let fat = NodeOffer { memory_mib: u32::MAX, ..offer.clone() };
    check(Event::NodeJoined { node: other, offer: joined(fat) }, EventError::Offer);
    let small = NodeOffer { cpu_milli: 1, ..offer.clone() };
    check(Event::NodeChanged { node, offer: joined(small) }, EventError::NodeBusy);
    check(Event::NodeChanged { node: other, offer: joined(offer) }, EventError::NodeUnknown);
    check(Event::NodeLeft { node: other }, EventError::NodeUnknown);
    check(Event::TaskQueued { task: known, spec: spec(|_| {}) }, EventError::TaskKnown);
    check(Event::TaskFinished { task: unknown }, EventError::TaskUnknown);
    check(Event::TaskFailed { task: unknown, owner: 0 }, EventError::TaskUnknown);
    check(Event::TaskFailed { task: TaskId { number: 1 }, owner: 0 }, EventError::TaskWaits);
    let large = spec(|spec| spec.ram_mib = u32::MAX);
    check(Event::TaskAdjusted { task: known, spec: large }, EventError::NoRoom);
    let refusals: [(Change, Refusal); 5] = [
        (|spec| spec.gpus = 17, Refusal::Devices),
        (|spec| spec.share_milli = 1_000, Refusal::Share),
        (|spec| (spec.gpus, spec.share_milli) = (2, 500), Refusal::Share),
        (|spec| spec.regions = 0, Refusal::Region),
        (|spec| spec.models = Models::NONE, Refusal::Model),
    ];
    for (change, refusal) in refusals {
        let event = Event::TaskQueued { task: unknown, spec: spec(change) };
        check(event, EventError::Refused(refusal));
    }
}
