//! Placements and their explanations on small fleets.

use crate::change::ask_for_memory;
use crate::slots::{KeptSlot, Span};
use crate::{Ask, Change, Credit, Explanation, Offer, Rule, explain, fit, fit_later, price};
use arbtest::arbitrary::{Result, Unstructured};
use tg_types::{
    AccountId, Amount, Bps, Device, DeviceKind, DurationMs, Features, Hash32, HeldHost, HostPart,
    JobId, JobSpec, List, Name, Needs, NodeDescriptor, NodeId, ProgramFacts, Proved, RegionAsk,
    ResultKey, SecretKey, Tick, Tier, Work,
};

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// A region that alone will do.
fn only(region: &str) -> RegionAsk {
    RegionAsk::Only { region: name(region) }
}

pub(crate) fn owner(number: u8) -> AccountId {
    SecretKey::from_seed([number; 32]).public().into()
}

pub(crate) fn device(kind: DeviceKind, model: &str, memory_mib: u32) -> Device {
    Device {
        kind,
        model: name(model),
        memory_mib,
        count: 1,
        features: Features::NONE,
        sharing: tg_types::Sharing::WHOLE,
    }
}

pub(crate) fn descriptor(device: Device, price: u64) -> NodeDescriptor {
    NodeDescriptor {
        region: name("eu"),
        devices: List::new(vec![device]).expect("one"),
        host: HostPart::NONE,
        price_per_hour: Amount::constant(price),
        price_per_tera: Amount::constant(price),
        slots: 2,
        is_open: true,
        closes: None,
    }
}

pub(crate) fn spec() -> JobSpec {
    JobSpec {
        work: Work::Opaque { task: Hash32::new([1; 32]) },
        package: Hash32::new([2; 32]),
        package_bytes: 1,
        key_escrow: tg_types::KeyEscrow::Validators,
        result_key: ResultKey::NONE,
        needs: Needs::ANY,
        tier: Tier::Trusted,
        pay: Amount::constant(1_000),
        run_max: DurationMs::HOUR,
        expires_after: DurationMs::DAY,
        promise: None,
        checkpoint: None,
        nodes: 1,
    }
}

pub(crate) fn offer(number: u8, descriptor: &NodeDescriptor) -> Offer<'_> {
    Offer {
        node: NodeId::new([number; 32]),
        owner: owner(number),
        descriptor,
        running: 0,
        held: &[],
        hosted: &[],
        kept: &[],
        is_present: true,
        credit: Credit::Claims,
        stake_free: Amount::constant(50_000),
        reputation: Bps::WHOLE,
    }
}

pub(crate) fn proved(device: u8, memory_mib: u32) -> Proved {
    Proved { device, memory_mib, blocks: 1_024, took: DurationMs::SECOND, at: Tick::ZERO }
}

/// Goal: a device of which nothing was shown gets no work, while others of its node do. Method: a
/// processor that was shown beside a GPU that was not, and the other way round.
#[test]
fn device_that_was_not_shown_gets_no_work_but_its_neighbour_does() {
    let mut both = descriptor(device(DeviceKind::Cpu, "epyc", 64_000), 500);
    let gpu = device(DeviceKind::Gpu, "rtx4090", 24_000);
    both.devices = List::new(vec![both.devices.as_slice()[0].clone(), gpu]).expect("two");
    let wanting = |kind: Option<DeviceKind>, memory_mib_min: u32| {
        let mut spec = spec();
        (spec.needs.kind, spec.needs.memory_mib_min) = (kind, memory_mib_min);
        spec
    };
    let check = |shown: [Option<u32>; 2], spec: &JobSpec, expected: Result<(), Rule>| {
        let shown = (0..).zip(shown);
        let shown = shown.filter_map(|(device, mib)| Some(proved(device, mib?)));
        let shown: Vec<Proved> = shown.collect();
        let offer = Offer { credit: Credit::Shown(&shown), ..offer(1, &both) };
        assert_eq!(fit(&ask(spec), &offer), expected, "{shown:?}");
    };
    let (on_gpu, on_cpu) = (Some(DeviceKind::Gpu), Some(DeviceKind::Cpu));
    check([Some(64_000), None], &wanting(on_gpu, 0), Err(Rule::Unproved));
    check([Some(64_000), None], &wanting(on_gpu, 8_000), Err(Rule::Unproved));
    check([Some(64_000), None], &wanting(on_cpu, 0), Ok(()));
    check([Some(64_000), None], &wanting(None, 0), Ok(()));
    check([Some(9_000), None], &wanting(None, 10_000), Err(Rule::Memory));
    check([None, Some(24_000)], &wanting(on_cpu, 0), Err(Rule::Unproved));
    check([None, Some(24_000)], &wanting(on_gpu, 0), Ok(()));
    check([Some(64_000), Some(24_000)], &wanting(None, 0), Ok(()));
    check([None, None], &wanting(None, 0), Err(Rule::Unproved));
}

pub(crate) fn ask(spec: &JobSpec) -> Ask<'_> {
    let bond = Amount::constant(20_000);
    let span = Span { from: Tick::new(100), to: Tick::new(200) };
    Ask { spec, facts: None, bond, excluded: &[], span, job: None }
}

pub(crate) fn slot(job: u8, from: u64, to: u64) -> KeptSlot {
    let (from, to) = (Tick::new(from), Tick::new(to));
    let (gpus, host) = (List::default(), HostPart::NONE);
    KeptSlot { job: JobId::new([job; 32]), from, to, gpus, host }
}

/// Goal: a run that has surely ended before a slot begins may be placed beside it, and so may one
/// for which there is room besides. Method: a node with two slots; the run lasts from 100 to 200.
#[test]
fn kept_slot_is_in_the_way_of_runs_that_may_last_into_it() {
    let node = descriptor(device(DeviceKind::Gpu, "rtx4090", 24_000), 500);
    let spec = spec();
    let check = |running: u16, kept: &[KeptSlot], job: Option<u8>, expected: Result<(), Rule>| {
        let ask = Ask { job: job.map(|job| JobId::new([job; 32])), ..ask(&spec) };
        let offer = Offer { running, kept, ..offer(1, &node) };
        assert_eq!(fit(&ask, &offer), expected, "{running} beside {kept:?}");
        assert_eq!(fit_later(&ask, &offer), Ok(()), "at another time");
    };
    check(1, &[slot(1, 200, 300)], None, Ok(()));
    check(1, &[slot(1, 199, 300)], None, Err(Rule::Kept));
    check(0, &[slot(1, 199, 300)], None, Ok(()));
    check(1, &[slot(1, 199, 300)], Some(1), Ok(()));
    check(1, &[slot(1, 199, 300)], Some(2), Err(Rule::Kept));
    check(0, &[slot(1, 120, 140), slot(2, 140, 160)], None, Ok(())); // one after the other
    check(0, &[slot(1, 120, 141), slot(2, 140, 160)], None, Err(Rule::Kept));
    check(2, &[], None, Err(Rule::Busy));
}

#[test]
fn every_rule_removes_its_node_and_names_the_change() {
    let good = descriptor(device(DeviceKind::Gpu, "rtx4090", 24_000), 500);
    let spec = spec();
    let check = |spec: &JobSpec, node: &Offer<'_>, rule: Rule, change: Option<Change>| {
        assert_eq!(fit(&ask(spec), node), Err(rule));
        let explained = explain(&ask(spec), &[*node]);
        assert_eq!(explained, Explanation { fitting: 0, removed: vec![(rule, 1)], change });
    };
    let node = offer(1, &good);
    let wait = |rule| Some(Change::Wait(rule));
    check(&spec, &Offer { is_present: false, ..node }, Rule::Absent, wait(Rule::Absent));
    let unproved = Offer { credit: Credit::Shown(&[]), ..node };
    check(&spec, &unproved, Rule::Unproved, wait(Rule::Unproved));
    check(&spec, &Offer { running: 2, ..node }, Rule::Busy, wait(Rule::Busy));
    let kept = [slot(1, 150, 300), slot(2, 199, 400)];
    check(&spec, &Offer { kept: &kept, ..node }, Rule::Kept, wait(Rule::Kept));
    let both = Offer { running: 2, kept: &kept, ..node };
    check(&spec, &both, Rule::Busy, wait(Rule::Busy));
    check(&spec, &Offer { stake_free: Amount::ZERO, ..node }, Rule::Stake, wait(Rule::Stake));
    let closed = NodeDescriptor { is_open: false, ..good.clone() };
    check(&spec, &offer(1, &closed), Rule::Closed, wait(Rule::Closed));
    let end = ask(&spec).span.from.plus(spec.run_max).expect("early");
    let closing = |at: u64| NodeDescriptor { closes: Some(Tick::new(at)), ..good.clone() };
    check(&spec, &offer(1, &closing(end.get() - 1)), Rule::Closing, None);
    assert_eq!(fit(&ask(&spec), &offer(1, &closing(end.get()))), Ok(()));
    let with = |change: &dyn Fn(&mut JobSpec)| {
        let mut spec = spec.clone();
        change(&mut spec);
        spec
    };
    let poor = with(&|spec| spec.pay = Amount::constant(499));
    check(&poor, &node, Rule::Price, Some(Change::Pay(Amount::constant(500))));
    let far = with(&|spec| spec.needs.region = only("us"));
    check(&far, &node, Rule::Region, Some(Change::AnyRegion));
    let huge = with(&|spec| spec.needs.memory_mib_min = 48_000);
    check(&huge, &node, Rule::Memory, Some(Change::Memory(24_000)));
    let middle = with(&|spec| spec.needs.memory_mib_min = 10_000);
    check(&middle, &unproved, Rule::Unproved, wait(Rule::Unproved));
    let shown = [proved(0, 8_000)];
    let small = Offer { credit: Credit::Shown(&shown), ..node };
    check(&middle, &small, Rule::Memory, Some(Change::Memory(8_000)));
    // The memory of a processor is that of its machine, asked for once.
    let host = |memory_mib| HostPart { cpu_milli: 0, memory_mib };
    let most = NodeDescriptor { host: host(20_000), ..good.clone() };
    let both = with(&|spec| (spec.needs.memory_mib_min, spec.needs.host) = (48_000, host(48_000)));
    check(&both, &offer(9, &most), Rule::Memory, Some(Change::Memory(20_000)));
    let model = with(&|spec| spec.needs.model = Some(name("h100")));
    check(&model, &node, Rule::Model, Some(Change::Model(name("rtx4090"))));
    let kind = with(&|spec| spec.needs.kind = Some(DeviceKind::Cpu));
    check(&kind, &node, Rule::Kind, Some(Change::Kind(DeviceKind::Gpu)));
    let able = with(&|spec| spec.needs.features = Features::TENSOR_CORES);
    check(&able, &node, Rule::Features, Some(Change::AnyFeatures));
    let part = |cpu_milli, memory_mib| HostPart { cpu_milli, memory_mib };
    let machine = NodeDescriptor { host: part(8_000, 4_096), ..good.clone() };
    let wide = with(&|spec| spec.needs.host = part(9_000, 4_096));
    let host = Some(Change::Host(part(8_000, 4_096)));
    check(&wide, &offer(1, &machine), Rule::Host, host);
    let deep = with(&|spec| spec.needs.host = part(0, 5_000));
    check(&deep, &offer(1, &machine), Rule::Host, Some(Change::Host(part(0, 4_096))));
    assert_eq!(fit(&ask(&deep), &node), Ok(()), "it says nothing of its memory");
    let hosted = [HeldHost { job: JobId::new([1; 32]), part: part(3_000, 1_000) }; 2];
    let shared = Offer { hosted: &hosted, ..offer(1, &machine) };
    let half = with(&|spec| spec.needs.host = part(2_001, 0));
    check(&half, &shared, Rule::Room, wait(Rule::Room));
    let rest = with(&|spec| spec.needs.host = part(2_000, 2_096));
    assert_eq!(fit(&ask(&rest), &shared), Ok(()));
    assert_eq!(fit(&ask(&spec), &shared), Ok(()), "a slot is enough for who asks for nothing");
    let again = Ask { excluded: &[owner(1)], ..ask(&spec) };
    assert_eq!(fit(&again, &node), Err(Rule::Excluded));
    assert_eq!(explain(&again, &[node]).change, None);
}

#[test]
fn work_is_priced_by_the_tera_and_time_by_the_hour_rounded_up() {
    let offer = descriptor(device(DeviceKind::Cpu, "cpu", 1_000), 1_000_000);
    let id = Hash32::new([0; 32]);
    let facts =
        |multiply_adds, elements| ProgramFacts { id, multiply_adds, operations: 1, elements };
    let tensor =
        JobSpec { work: Work::Tensor { program: id, weights: id, inputs: id, salt: id }, ..spec() };
    let cost = |facts: &ProgramFacts| price(&tensor, Some(facts), &offer).map(Amount::units);
    assert_eq!(cost(&facts(1_000_000_000_000, 0)), Some(1_000_000));
    assert_eq!(cost(&facts(1, 0)), Some(1));
    assert_eq!(cost(&facts(999_999, 1)), Some(1));
    assert_eq!(cost(&facts(1_000_000, 1)), Some(2));
    assert_eq!(cost(&facts(u64::MAX, u64::MAX)), Some(36_893_488_147_420));
    let spec = JobSpec { run_max: DurationMs::new(1), ..spec() };
    assert_eq!(price(&spec, None, &offer).map(Amount::units), Some(1));
    let forever = JobSpec { run_max: DurationMs::MAX, ..spec };
    let dear = NodeDescriptor { price_per_hour: Amount::CAP, ..offer };
    assert_eq!(price(&forever, None, &dear), None);
}

/// So much of a machine, or nothing that is said.
pub(crate) fn random_host(u: &mut Unstructured<'_>) -> Result<HostPart> {
    let cpu_milli = *u.choose(&[0, 0, 500, 4_000, 64_000])?;
    Ok(HostPart { cpu_milli, memory_mib: *u.choose(&[0, 0, 512, 8_192, 1 << 18])? })
}

/// Goal: every node fits or is removed by a rule; the cheapest change, applied, makes a node fit.
/// Method: random fleets and needs.
#[test]
fn prop_change_helps() {
    arbtest::arbtest(|u| {
        let models = ["a", "b"];
        let mut nodes = Vec::new();
        for _ in 0..u.int_in_range(0..=5)? {
            let kind = *u.choose(&[DeviceKind::Cpu, DeviceKind::Gpu])?;
            let device = device(kind, u.choose(&models)?, u.int_in_range(1..=4)?);
            let mut node = descriptor(device, u.int_in_range(1..=2_000)?);
            node.host = random_host(u)?;
            nodes.push((node, u.int_in_range(0..=2)?));
        }
        let offers: Vec<Offer<'_>> = (1..)
            .zip(&nodes)
            .map(|(number, (descriptor, running))| Offer {
                running: *running,
                ..offer(number, descriptor)
            })
            .collect();
        let mut spec = spec();
        spec.needs.memory_mib_min = u.int_in_range(0..=5)?;
        spec.needs.kind = u.arbitrary::<bool>()?.then_some(DeviceKind::Gpu);
        spec.needs.model = u.arbitrary::<bool>()?.then(|| name("a"));
        spec.needs.host = random_host(u)?;
        let explained = explain(&ask(&spec), &offers);
        let removed: usize = explained.removed.iter().map(|(_, count)| count).sum();
        assert_eq!(explained.fitting + removed, offers.len());
        let mut changed = spec.clone();
        match explained.change {
            None => assert!(explained.fitting > 0 || offers.is_empty()),
            Some(Change::Wait(_)) => return Ok(()),
            Some(Change::Pay(pay)) => changed.pay = pay,
            Some(Change::AnyRegion) => changed.needs.region = RegionAsk::Any,
            Some(Change::Memory(memory)) => ask_for_memory(&mut changed.needs, memory),
            Some(Change::Host(host)) => changed.needs.host = host,
            Some(Change::AnyFeatures) => changed.needs.features = Features::NONE,
            Some(Change::Model(model)) => changed.needs.model = Some(model),
            Some(Change::Kind(kind)) => changed.needs.kind = Some(kind),
            Some(Change::Several(spec)) => changed = *spec,
        }
        let mut free = offers.iter().map(|offer| Offer { running: 0, ..*offer });
        let helps = free.any(|offer| fit(&ask(&changed), &offer).is_ok());
        assert!(helps || offers.is_empty(), "{changed:?}");
        Ok(())
    });
}
