//! Which of the nodes that fit is given a run.

use super::{Found, GpuMix, Market, Names, quarter_octaves};
use crate::catalogue::UNLISTED;
use crate::pace::{DeviceClass, Forecast, Lesson, Level, Paces};
use crate::tests::{ask, descriptor, device, name, offer, owner, proved, random_host, spec};
use crate::{Ask, Credit, Meter, Offer, Pricing, fit};
use arbtest::arbitrary::{Result, Unstructured};
use std::sync::LazyLock;
use tg_types::{
    Amount, Bps, Device, DeviceKind, DurationMs, Features, GpuAsk, Hash32, HeldGpu, HeldHost,
    HostPart, JobId, JobSpec, List, MigSlices, NodeDescriptor, ProgramFacts, Proved, RegionAsk,
    Sharing, Work,
};

/// Nothing is known of times.
static NO_PACES: LazyLock<Paces> = LazyLock::new(Paces::default);

/// The node that a new market chooses.
fn chosen(spec: &JobSpec, offers: &[Offer<'_>]) -> Option<usize> {
    let market = made(Pricing::Hour, offers.iter().copied());
    among(market, (&ask(spec), &NO_PACES), 7, offers).map(|found| found.number)
}

#[test]
fn small_job_spares_the_large_device_and_price_reputation_and_load_decide_the_rest() {
    let large = descriptor(device(DeviceKind::Gpu, "NVIDIA H100 80GB HBM3", 80_000), 800);
    let cheap = descriptor(device(DeviceKind::Gpu, "NVIDIA GeForce RTX 4090", 24_000), 500);
    let dear = NodeDescriptor { price_per_hour: Amount::constant(900), ..cheap.clone() };
    let mut spec = spec();
    let all = [offer(1, &large), offer(2, &dear), offer(3, &cheap)];
    spec.needs.memory_mib_min = 16_000;
    assert_eq!(chosen(&spec, &all), Some(2));
    assert_eq!(chosen(&spec, &all[..2]), Some(1));
    spec.needs.memory_mib_min = 40_000;
    assert_eq!(chosen(&spec, &all), Some(0));
    spec.needs.memory_mib_min = 90_000;
    assert_eq!(chosen(&spec, &all), None);
    spec.needs.memory_mib_min = 0;
    let doubted = Offer { reputation: Bps::ZERO, ..offer(4, &cheap) };
    let busy = Offer { running: 1, ..offer(5, &cheap) };
    assert_eq!(chosen(&spec, &[doubted, offer(3, &cheap), busy]), Some(1));
}

/// Goal: where the client is counts among equal nodes, and excludes nobody. Method: equal nodes in
/// regions of two areas, and clients in one of them, beside one of them, elsewhere and nowhere.
#[test]
fn node_in_the_home_region_wins_then_one_near_it() {
    let at = |region: &str| {
        let same = descriptor(device(DeviceKind::Cpu, "epyc", 64_000), 500);
        NodeDescriptor { region: name(region), ..same }
    };
    let nodes = ["eu-de", "us-east", "eu-fr", "us-west"].map(at);
    let offers: Vec<Offer<'_>> = (0..).zip(&nodes).map(|(owner, it)| offer(owner, it)).collect();
    let counts = |home: Option<&str>, offers: &[Offer<'_>]| {
        let mut spec = spec();
        let near = |region| RegionAsk::Near { region: name(region) };
        spec.needs.region = home.map_or(RegionAsk::Any, near);
        drawn(offers, &spec, 100)
    };
    assert_eq!(counts(Some("eu-de"), &offers), [100, 0, 0, 0]);
    assert_eq!(counts(Some("eu-de"), &offers[1..]), [0, 100, 0], "near beats far");
    let far = counts(Some("eu-de"), &[offers[1], offers[3]]);
    assert!(far.iter().all(|count| *count > 0), "nobody is excluded: {far:?}");
    let beside = counts(Some("eu-it"), &offers);
    assert!(beside[0] > 0 && beside[2] > 0 && beside[1] + beside[3] == 0, "{beside:?}");
    for home in [None, Some("mars")] {
        let anywhere = counts(home, &offers);
        assert!(anywhere.iter().all(|count| *count > 0), "{home:?}: {anywhere:?}");
    }
    let mut dear = at("eu-de");
    dear.price_per_hour = Amount::constant(1_000);
    let mut both = offers[1..].to_vec();
    both.push(offer(9, &dear));
    assert_eq!(counts(Some("eu-de"), &both), [0, 100, 0, 0], "an octave of price counts more");
}

/// Goal: runs that hold processors and memory go where they fit most tightly, so that much stays
/// together elsewhere; those that hold none spread as before. Method: machines of two sizes, one of
/// which has a run that holds a part of it.
#[test]
fn runs_that_hold_processors_are_packed() {
    let machine = |cpu_milli, memory_mib| {
        let same = descriptor(device(DeviceKind::Cpu, "epyc", 64_000), 500);
        NodeDescriptor { host: HostPart { cpu_milli, memory_mib }, slots: 4, ..same }
    };
    let (small, large) = (machine(8_000, 16_384), machine(64_000, 262_144));
    let silent = machine(0, 0);
    let part = |cpu_milli| HostPart { cpu_milli, memory_mib: cpu_milli * 2 };
    let hosted = [HeldHost { job: JobId::new([1; 32]), part: part(3_000) }];
    let used = Offer { running: 1, hosted: &hosted, ..offer(2, &small) };
    let all = [offer(1, &small), used, offer(3, &large), offer(4, &silent)];
    let counts = |cpu_milli, offers: &[Offer<'_>]| {
        let mut spec = spec();
        spec.needs.host = part(cpu_milli);
        drawn(offers, &spec, 100)
    };
    assert_eq!(counts(5_000, &all), [0, 100, 0, 0], "what is left there is just enough");
    assert_eq!(counts(6_000, &all), [100, 0, 0, 0], "the small one, which is free");
    assert_eq!(counts(9_000, &all), [0, 0, 100, 0], "the large one, which counts what it has");
    assert_eq!(counts(70_000, &all), [0, 0, 0, 100], "who says nothing takes all");
    let crowded = Offer { running: 3, hosted: &hosted, ..offer(5, &small) };
    let spread = counts(1_000, &[offer(1, &small), crowded]);
    assert_eq!(spread, [100, 0], "runs that hold nothing are a load to it");
    let slots = drawn(&[offer(1, &small), used], &spec(), 100);
    assert_eq!(slots, [100, 0], "who holds nothing goes where fewer run");
}

/// Goal: jobs of one kind spread over equal nodes. Method: draws with many numbers.
#[test]
fn equal_nodes_are_drawn_evenly() {
    let same = descriptor(device(DeviceKind::Cpu, "epyc", 64_000), 500);
    let offers: Vec<Offer<'_>> = (0..4).map(|number| offer(number, &same)).collect();
    let counts = drawn(&offers, &spec(), 400);
    assert!(counts.iter().all(|count| (60..140).contains(count)), "{counts:?}");
}

/// Goal: what no score tells apart gives nobody more chances. Method: nine equal nodes, one that
/// shows a bit more memory, and one with many devices of odd sizes.
#[test]
fn odd_sizes_and_many_devices_win_no_more_draws() {
    let gpu = |mib: u32| device(DeviceKind::Gpu, "NVIDIA GeForce RTX 4090", mib);
    let (same, odd) = (descriptor(gpu(24_000), 500), descriptor(gpu(24_001), 500));
    let mut many = odd.clone();
    many.devices = List::new((24_002..24_018).map(gpu).collect()).expect("as many as may be");
    many.region = name("elsewhere");
    let equals = (0..9).map(|number| offer(number, &same));
    let offers: Vec<Offer<'_>> = equals.chain([offer(9, &odd), offer(10, &many)]).collect();
    let counts = drawn(&offers, &spec(), 5_500);
    assert!(counts.iter().all(|count| (400..600).contains(count)), "{counts:?}");
}

#[test]
fn price_in_the_middle_is_that_of_nodes_with_stake_and_credit() {
    let gpu = device(DeviceKind::Gpu, "rtx4090", 24_000);
    let (fair, bait) = (descriptor(gpu.clone(), 500), descriptor(gpu, 1));
    let honest: Vec<Offer<'_>> = (0..3).map(|number| offer(number, &fair)).collect();
    let unstaked = Offer { stake_free: Amount::ZERO, ..offer(9, &bait) };
    let unproved = Offer { credit: Credit::Shown(&[]), ..offer(9, &bait) };
    let (alone, _) = made(Pricing::Hour, honest.iter().copied());
    let strangers = [[unstaked; 9], [unproved; 9]].concat();
    let (among_many, _) = made(Pricing::Hour, honest.iter().copied().chain(strangers));
    assert_eq!(alone.middle, among_many.middle);
}

/// Nobody has to stake for a run that is paid nothing.
#[test]
fn node_without_stake_is_found_if_nothing_is_at_risk() {
    let free = descriptor(device(DeviceKind::Cpu, "epyc", 64_000), 0);
    let unstaked = [Offer { stake_free: Amount::ZERO, ..offer(1, &free) }];
    let job = JobSpec { pay: Amount::ZERO, ..spec() };
    let ask = Ask { bond: Amount::ZERO, ..ask(&job) };
    let market = made(Pricing::Hour, unstaked.iter().copied());
    let found = among(market, (&ask, &NO_PACES), 7, &unstaked);
    let class = Some(DeviceClass { kind: DeviceKind::Cpu, model: UNLISTED });
    assert_eq!(found, Some(Found { number: 0, class }));
}

/// Goal: devices are known by what they are, whoever is listed first and whatever is claimed.
/// Method: a processor with the name of a GPU before that GPU, and one that claims too much memory.
#[test]
fn false_name_or_memory_is_no_advantage() {
    let h100 = "NVIDIA H100 80GB HBM3";
    let cpu = descriptor(device(DeviceKind::Cpu, h100, 80_000), 500);
    let gpu = descriptor(device(DeviceKind::Gpu, h100, 80_000), 500);
    let liar = descriptor(device(DeviceKind::Gpu, h100, 200_000), 500);
    let small = descriptor(device(DeviceKind::Gpu, "NVIDIA GeForce RTX 4090", 24_000), 500);
    let mut spec = spec();
    spec.needs.kind = Some(DeviceKind::Gpu);
    let all = [offer(1, &cpu), offer(2, &gpu), offer(3, &liar), offer(4, &small)];
    assert_eq!(chosen(&spec, &all), Some(3));
    spec.needs.model = Some(name("h100"));
    let counts = drawn(&all, &spec, 100);
    assert!(counts[0] == 0 && counts[1] > 0 && counts[3] == 0, "{counts:?}");
}

/// Goal: strangers' devices and jobs make no search long, and keep nothing. Method: nodes with
/// devices of which no two are alike, and as many different jobs that nobody takes, before one that
/// fits.
#[test]
fn odd_fleet_and_odd_jobs_take_bounded_steps() {
    let nodes: Vec<NodeDescriptor> = (0..256)
        .map(|number: u32| {
            let one = |place: u32| {
                let model = format!("odd {number} {place}");
                device(DeviceKind::Gpu, &model, 1_000 + 16 * number + place)
            };
            let mut node = descriptor(one(0), 500);
            node.devices = List::new((0..16).map(one).collect()).expect("as many as may be");
            node
        })
        .collect();
    let offers: Vec<Offer<'_>> = nodes.iter().map(|node| offer(1, node)).collect();
    let (mut market, mut names) = made(Pricing::Hour, offers.iter().copied());
    let get = |place: usize| offers.get(place).copied();
    let meter = Meter::default();
    for number in 0..300 {
        let mut spec = spec();
        spec.pay = Amount::constant(499);
        spec.needs.memory_mib_min = number;
        spec.needs.model = Some(name(&format!("odd {number}")));
        let before = meter.steps();
        assert_eq!(market.find(&mut names, (&ask(&spec), &NO_PACES), 7, get, &meter), None);
        let steps = meter.steps() - before;
        assert!((1_024..1_000_000).contains(&steps), "{steps}: names and builds count");
    }
    assert_eq!(market.index.kinds_kept(), 0);
    let found = market.find(&mut names, (&ask(&spec()), &NO_PACES), 7, get, &meter);
    assert!(found.is_some());
}

#[test]
fn steps_of_prices_never_fall_and_four_are_an_octave() {
    let numbers = (0..2_000).chain([1 << 40, (1 << 40) + 1, u64::MAX - 1, u64::MAX]);
    let steps: Vec<i64> = numbers.map(quarter_octaves).collect();
    assert!(steps.is_sorted());
    assert_eq!([1, 2, 5, 6, 7, 8].map(quarter_octaves), [0, 4, 9, 10, 11, 12]);
}

/// A random node: what it offers, and what was shown of its devices.
pub(super) struct Drawn {
    descriptor: NodeDescriptor,
    shown: Option<Vec<Proved>>,
    owner: u8,
    running: u16,
    held: Vec<HeldGpu>,
    hosted: Vec<HeldHost>,
    is_present: bool,
}

const MODELS: [&str; 4] = ["NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 4090", "RTX 4090", "odd"];
const REGIONS: [&str; 4] = ["eu-de", "us", "eu-fr", "mars"];

pub(super) fn random_node(u: &mut Unstructured<'_>) -> Result<Drawn> {
    let mut devices: Vec<Device> = Vec::new();
    for _ in 0..u.int_in_range(1..=6)? {
        let kind = *u.choose(&[DeviceKind::Cpu, DeviceKind::Gpu, DeviceKind::Accelerator])?;
        let mut one = device(kind, u.choose(&MODELS)?, *u.choose(&[8, 24_000, 90_000])?);
        if u.arbitrary()? {
            one.features = Features::TENSOR_CORES;
        }
        one.count = u.int_in_range(0..=3)?;
        let mig = *u.choose(&[None, Some(MigSlices::Seven), Some(MigSlices::Four)])?;
        one.sharing = Sharing { mig, shares: mig.is_none() && u.arbitrary()? };
        devices.push(one);
    }
    let places = 0..u8::try_from(devices.len()).expect("few");
    let shown = u.arbitrary::<bool>()?.then(|| {
        let shown = places.filter_map(|place| {
            let mib = *u.choose(&[None, Some(8), Some(30_000), Some(90_000)]).ok()?;
            Some(proved(place, mib?))
        });
        shown.collect()
    });
    let mut node = descriptor(devices[0].clone(), u.int_in_range(0..=1_200)?);
    node.devices = List::new(devices).expect("few");
    node.price_per_tera = Amount::constant(u.int_in_range(0..=1_200)?);
    node.region = name(u.choose(&REGIONS[..3])?);
    node.is_open = u.ratio(9, 10)?;
    let (owner, running) = (u.int_in_range(1..=4)?, u.int_in_range(0..=2)?);
    node.host = random_host(u)?;
    let (held, hosted, is_present) = (Vec::new(), Vec::new(), u.ratio(9, 10)?);
    Ok(Drawn { descriptor: node, shown, owner, running, held, hosted, is_present })
}

pub(super) fn random_job(u: &mut Unstructured<'_>) -> Result<(JobSpec, Option<ProgramFacts>)> {
    let mut spec = spec();
    spec.pay = Amount::constant(u.int_in_range(0..=1_200)?);
    let needs = &mut spec.needs;
    needs.memory_mib_min = *u.choose(&[0, 8, 9, 24_000, 30_000, 100_000])?;
    needs.kind = *u.choose(&[None, Some(DeviceKind::Gpu), Some(DeviceKind::Accelerator)])?;
    needs.model = u.choose(&[None, Some("4090"), Some("a100"), Some("odd")])?.map(name);
    let region = name(u.choose(&REGIONS)?);
    needs.region = match u.int_in_range(0..=2)? {
        0 => RegionAsk::Any,
        1 => RegionAsk::Only { region },
        _ => RegionAsk::Near { region },
    };
    needs.features = *u.choose(&[Features::NONE, Features::TENSOR_CORES])?;
    let id = Hash32::new([0; 32]);
    if u.arbitrary()? {
        spec.work = Work::Tensor { program: id, weights: id, inputs: id, salt: id };
    }
    if spec.needs.kind == Some(DeviceKind::Gpu) && matches!(spec.work, Work::Opaque { .. }) {
        spec.needs.gpus = match u.int_in_range(0..=3)? {
            0 => GpuAsk::Usual,
            1 => GpuAsk::Whole { count: u.int_in_range(1..=3)? },
            _ => GpuAsk::Part { steps: u.int_in_range(1..=19)?, may_share: u.arbitrary()? },
        };
    }
    if matches!(spec.work, Work::Opaque { .. }) {
        spec.needs.host = random_host(u)?;
    }
    let multiply_adds = *u.choose(&[0, 1, 1_000_000_000_000])?;
    let facts = ProgramFacts { id, multiply_adds, operations: 1, elements: 0 };
    Ok((spec, u.arbitrary::<bool>()?.then_some(facts)))
}

pub(super) fn random_mix(u: &mut Unstructured<'_>) -> Result<GpuMix> {
    let mut mix = GpuMix::default();
    for _ in 0..u.int_in_range(0..=30)? {
        let whole = GpuAsk::Whole { count: u.int_in_range(1..=3)? };
        let part = GpuAsk::Part { steps: u.int_in_range(1..=19)?, may_share: false };
        mix.count(if u.arbitrary()? { whole } else { part });
    }
    Ok(mix)
}

pub(super) fn random_paces(u: &mut Unstructured<'_>) -> Result<Paces> {
    let mut lesson = Lesson::default();
    for _ in 0..u.int_in_range(0..=3)? {
        let kind = *u.choose(&[DeviceKind::Cpu, DeviceKind::Gpu])?;
        let class = DeviceClass::of(&device(kind, u.choose(&MODELS)?, 8), 8);
        let took = DurationMs::new(u.int_in_range(4_000..=400_000)?);
        lesson.learn(class, &owner(u.int_in_range(1..=4)?), Level::of(took, 1_000));
    }
    Ok(Forecast::new(1_000, [&lesson]).paces())
}

/// Goal: work goes where it was done soon, one that was not tried is neither better nor worse than
/// the mean, and price and load still count. Method: two models that differ in nothing else.
#[test]
fn work_goes_to_the_class_that_is_known_to_be_fast() {
    let gpu = |model: &str| device(DeviceKind::Gpu, model, 8_000);
    let [fast, slow, new] = ["RTX 4090", "RTX 4080", "RTX 4070"].map(gpu);
    let mut lesson = Lesson::default();
    for number in 1..=3 {
        for (device, seconds) in [(&fast, 20), (&slow, 80)] {
            let took = DurationMs::new(seconds * 1_000);
            lesson.learn(DeviceClass::of(device, 8_000), &owner(number), Level::of(took, 50));
        }
    }
    let paces = Forecast::new(50, [&lesson]).paces();
    let nodes = [&fast, &slow, &new].map(|device| descriptor(device.clone(), 500));
    let [fast, slow, new] = nodes.each_ref().map(|node| offer(1, node));
    let unknown = drawn(&[fast, slow, new], &spec(), 60);
    assert!(unknown.iter().all(|count| *count > 5), "all are alike: {unknown:?}");
    assert_eq!(drawn_at(&[fast, slow, new], &spec(), &paces, 20), [20, 0, 0]);
    assert_eq!(drawn_at(&[slow, new], &spec(), &paces, 20), [0, 20]);
    let dear = descriptor(nodes[0].devices.as_slice()[0].clone(), 1_100);
    let spec = JobSpec { pay: Amount::constant(1_100), ..spec() };
    assert_eq!(drawn_at(&[offer(1, &dear), new], &spec, &paces, 20), [0, 20], "for the price");
}

/// Goal: a node is chosen exactly if one fits; it fits, and those that do not fit have no part in
/// the choice; a market that followed all runs so far decides as one made anew. Method: random
/// fleets and jobs; every run takes a slot, stake, and the GPUs that it holds.
#[test]
fn prop_choice_fits_and_a_new_market_decides_the_same() {
    arbtest::arbtest(|u| {
        let mut nodes = Vec::new();
        for _ in 0..u.int_in_range(0..=8)? {
            nodes.push(random_node(u)?);
        }
        let mut stakes = [0; 5];
        for stake in &mut stakes {
            *stake = *u.choose(&[0, 19_999, 20_001, 33_000, 90_000])?;
        }
        let (mut markets, mix) = ([None, None, None], random_mix(u)?);
        for _ in 0..u.int_in_range(0..=8)? {
            let offers: Vec<Offer<'_>> = nodes.iter().map(|node| offer_of(node, &stakes)).collect();
            let (spec, facts) = random_job(u)?;
            let excluded = [owner(u.int_in_range(1..=9)?)];
            let ask = Ask { facts: facts.as_ref(), excluded: &excluded, ..ask(&spec) };
            let is_holding = spec.held_gpus() != GpuAsk::Usual;
            let kind = if is_holding { 2 } else { Pricing::of_job(&spec, ask.facts) as usize };
            let made_anew = || made_for(&ask, &mix, offers.iter().copied());
            let (market, names): &mut (Market, Names) = markets[kind].get_or_insert_with(made_anew);
            let (draw, meter, paces) = (u.arbitrary()?, Meter::default(), random_paces(u)?);
            let get = |place: usize| offers.get(place).copied();
            let found = market.find(names, (&ask, &paces), draw, get, &meter);
            let again = among(made_anew(), (&ask, &paces), draw, &offers);
            assert_eq!(found, again);
            let is_fit = |offer: &Offer<'_>| fit(&ask, offer).is_ok();
            let rest = offers.iter().map(|it| Offer { is_present: is_fit(it), ..*it });
            let rest = made_for(&ask, &mix, rest);
            let rest = among(rest, (&ask, &paces), draw, &offers);
            assert_eq!(found, rest, "as if others were away");
            assert_eq!(found.is_some(), offers.iter().any(is_fit), "{ask:?}");
            let Some(Found { number: place, class }) = found else { continue };
            let suits = |(device, mib): (&Device, u32)| Some(DeviceClass::of(device, mib)) == class;
            assert!(offers[place].suitable(&spec).any(suits), "a device of {class:?} can run it");
            assert_eq!(fit(&ask, &offers[place]), Ok(()));
            let slices = offers[place].slices(&ask, class).expect("the rules found room");
            assert_eq!(slices.is_empty(), !is_holding);
            let job = JobId::new([0; 32]);
            let held = slices.into_iter().map(|slice| HeldGpu { job, slice });
            nodes[place].held.extend(held);
            let part = spec.needs.host;
            let hosted = (part != HostPart::NONE).then_some(HeldHost { job, part });
            nodes[place].hosted.extend(hosted);
            nodes[place].running += 1;
            stakes[usize::from(nodes[place].owner)] -= 20_000;
            for (place, node) in nodes.iter().enumerate() {
                for (market, _) in markets.iter_mut().flatten() {
                    market.update(place, &offer_of(node, &stakes), &meter);
                }
            }
        }
        Ok(())
    });
}

/// A new market, with the names in it.
pub(super) fn made<'a>(
    pricing: Pricing,
    offers: impl Iterator<Item = Offer<'a>> + Clone,
) -> (Market, Names) {
    let mut names = Names::default();
    (Market::new(pricing, &mut names, offers), names)
}

/// A new market in which a job is placed, with the names in it.
pub(super) fn made_for<'a>(
    ask: &Ask<'_>,
    mix: &GpuMix,
    offers: impl Iterator<Item = Offer<'a>> + Clone,
) -> (Market, Names) {
    let mut names = Names::default();
    (Market::for_job(ask, mix, &mut names, offers), names)
}

/// How often each node is chosen with so many draws.
fn drawn(offers: &[Offer<'_>], spec: &JobSpec, draws: u64) -> Vec<u64> {
    drawn_at(offers, spec, &NO_PACES, draws)
}

/// The same if it is known where such work is done soon.
fn drawn_at(offers: &[Offer<'_>], spec: &JobSpec, paces: &Paces, draws: u64) -> Vec<u64> {
    let (mut market, mut names) = made(Pricing::Hour, offers.iter().copied());
    let mut counts = vec![0; offers.len()];
    for draw in 0..draws {
        let get = |place: usize| offers.get(place).copied();
        let found = market.find(&mut names, (&ask(spec), paces), draw, get, &Meter::default());
        counts[found.expect("one fits").number] += 1;
    }
    counts
}

/// The node that a market chooses.
pub(super) fn among(
    (mut market, mut names): (Market, Names),
    question: (&Ask<'_>, &Paces),
    draw: u64,
    offers: &[Offer<'_>],
) -> Option<Found> {
    let get = |place: usize| offers.get(place).copied();
    market.find(&mut names, question, draw, get, &Meter::default())
}

pub(super) fn offer_of<'a>(node: &'a Drawn, stakes: &[u64; 5]) -> Offer<'a> {
    Offer {
        running: node.running,
        held: &node.held,
        hosted: &node.hosted,
        is_present: node.is_present,
        credit: node.shown.as_deref().map_or(Credit::Claims, Credit::Shown),
        stake_free: Amount::constant(stakes[usize::from(node.owner)]),
        ..offer(node.owner, &node.descriptor)
    }
}
