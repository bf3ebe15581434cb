//! What a run is given of a node's GPUs, where it goes, and what it costs.

use crate::tests::{ask, descriptor, device, name, offer, spec};
use crate::{GpuMix, Market, Meter, Names, Offer, Rule, fit, price};
use tg_types::gpu::DEVICE_GONE;
use tg_types::{
    Amount, DeviceKind, GpuAsk, GpuPart, GpuSlice, HeldGpu, JobId, JobSpec, MigSlices,
    NodeDescriptor, Sharing,
};

pub(crate) const A100: &str = "NVIDIA A100-SXM4-80GB";
pub(crate) const RTX: &str = "NVIDIA GeForce RTX 4090";

pub(crate) fn node(model: &str, memory_mib: u32, count: u16, sharing: Sharing) -> NodeDescriptor {
    let mut gpu = device(DeviceKind::Gpu, model, memory_mib);
    (gpu.count, gpu.sharing) = (count, sharing);
    NodeDescriptor { slots: 64, ..descriptor(gpu, 700) }
}

pub(crate) fn split(count: u16) -> NodeDescriptor {
    node(A100, 81_920, count, Sharing { mig: Some(MigSlices::Seven), shares: false })
}

/// A command that asks for this, and pays for as much.
pub(crate) fn job(gpus: GpuAsk) -> JobSpec {
    let mut spec = spec();
    spec.needs.kind = Some(DeviceKind::Gpu);
    (spec.needs.memory_mib_min, spec.needs.gpus) = (0, gpus);
    spec.pay = Amount::constant(100_000);
    spec
}

pub(crate) fn part(steps: u8) -> JobSpec {
    job(GpuAsk::Part { steps, may_share: false })
}

fn hold(held: &mut Vec<HeldGpu>, slices: &[GpuSlice]) {
    let job = JobId::new([u8::try_from(held.len()).expect("few"); 32]);
    held.extend(slices.iter().map(|slice| HeldGpu { job, slice: *slice }));
}

/// Goal: an A100 serves seven, the eighth is told why it waits, and who ends makes room.
#[test]
fn a100_serves_seven_and_the_eighth_waits() {
    let (node, spec) = (split(1), part(2));
    let mut held = Vec::new();
    for _ in 0..7 {
        let offer = Offer { held: &held, ..offer(1, &node) };
        assert_eq!(fit(&ask(&spec), &offer), Ok(()));
        let slices = offer.slices(&ask(&spec), None).expect("room");
        hold(&mut held, &slices);
    }
    let starts = held.iter().map(|it| match it.slice.part {
        GpuPart::Partition { compute: 1, memory: 1, start } => start,
        other @ (GpuPart::Whole | GpuPart::Partition { .. } | GpuPart::Share { .. }) => {
            unreachable!("{other}")
        }
    });
    let mut starts: Vec<u8> = starts.collect();
    starts.sort_unstable();
    assert_eq!(starts, [0, 1, 2, 3, 4, 5, 6]);
    let full = Offer { held: &held, ..offer(1, &node) };
    assert_eq!(fit(&ask(&spec), &full), Err(Rule::Part));
    assert_eq!(full.slices(&ask(&spec), None), None);
    assert_eq!(fit(&ask(&job(GpuAsk::Whole { count: 1 })), &full), Err(Rule::Gpus));
    let less = Offer { held: &held[1..], ..full };
    assert_eq!(less.slices(&ask(&spec), None), Some(vec![held[0].slice]), "where one ended");
}

#[test]
fn strangers_meet_only_if_both_agree() {
    let shared = node(RTX, 24_000, 1, Sharing { mig: None, shares: true });
    let whole = node(RTX, 24_000, 1, Sharing::WHOLE);
    let given = |node: &NodeDescriptor, may_share| {
        let spec = job(GpuAsk::Part { steps: 5, may_share });
        offer(1, node).slices(&ask(&spec), None).expect("room")[0].part
    };
    assert_eq!(given(&shared, true), GpuPart::Share { steps: 5 });
    assert_eq!(given(&shared, false), GpuPart::Whole);
    assert_eq!(given(&whole, true), GpuPart::Whole);
}

/// Goal: a part costs its part, rounded up, several cost as many times one, and who takes a whole
/// GPU for want of partitions pays for it.
#[test]
fn part_of_a_gpu_costs_its_part() {
    let (split, whole) = (split(2), node(RTX, 24_000, 2, Sharing::WHOLE));
    let cost = |spec: &JobSpec, node| price(spec, None, node).expect("small").units();
    assert_eq!(cost(&job(GpuAsk::Usual), &whole), 700);
    assert_eq!(cost(&job(GpuAsk::Whole { count: 2 }), &whole), 1_400);
    assert_eq!(cost(&part(2), &split), 101, "a seventh of 700, rounded up");
    assert_eq!(cost(&part(8), &split), 350, "3 of 7 and half of the memory");
    assert_eq!(cost(&part(2), &whole), 700, "there are no partitions");
    let poor = JobSpec { pay: Amount::constant(350), ..part(8) };
    assert_eq!(fit(&ask(&poor), &offer(1, &split)), Ok(()));
    let poor = JobSpec { pay: Amount::constant(349), ..poor };
    assert_eq!(fit(&ask(&poor), &offer(1, &split)), Err(Rule::Price));
}

#[test]
fn rules_say_whether_there_are_too_few_or_others_have_them() {
    let two = node(RTX, 24_000, 2, Sharing::WHOLE);
    let wanted = |count| job(GpuAsk::Whole { count });
    assert_eq!(fit(&ask(&wanted(3)), &offer(1, &two)), Err(Rule::Count));
    let one = GpuSlice { device: 0, unit: 0, part: GpuPart::Whole };
    let mut held = Vec::new();
    hold(&mut held, &[one]);
    let busy = Offer { held: &held, ..offer(1, &two) };
    assert_eq!(fit(&ask(&wanted(2)), &busy), Err(Rule::Gpus));
    let given = busy.slices(&ask(&wanted(1)), None).expect("the other");
    assert_eq!(given, [GpuSlice { unit: 1, ..one }]);
    held[0].slice.device = DEVICE_GONE;
    let unclear = Offer { held: &held, ..offer(1, &two) };
    assert_eq!(fit(&ask(&wanted(1)), &unclear), Err(Rule::Gpus), "which one is it?");
    let mut slot = wanted(1);
    (slot.needs.kind, slot.needs.gpus) = (None, GpuAsk::Usual);
    assert_eq!(fit(&ask(&slot), &unclear), Ok(()), "a slot is free");
    let mut model = wanted(1);
    model.needs.model = Some(name("H100"));
    assert_eq!(fit(&ask(&model), &unclear), Err(Rule::Model));
}

/// The node that is given a job if this usually comes.
fn chosen(spec: &JobSpec, mix: &GpuMix, offers: &[Offer<'_>]) -> usize {
    let (mut names, ask) = (Names::default(), ask(spec));
    let mut market = Market::for_job(&ask, mix, &mut names, offers.iter().copied());
    let paces = crate::pace::Paces::default();
    let get = |place: usize| offers.get(place).copied();
    let found = market.find(&mut names, (&ask, &paces), 3, get, &Meter::default());
    found.expect("one fits").number
}

/// Goal: a small task goes into a GPU that is divided already, or to a consumer's, and breaks no
/// whole one, whatever usually comes. Method: nodes that differ in nothing but that.
#[test]
fn small_task_spares_whole_gpus() {
    let (node, spec) = (split(1), part(2));
    let part = GpuPart::Partition { compute: 3, memory: 4, start: 4 };
    let mut held = Vec::new();
    hold(&mut held, &[GpuSlice { device: 0, unit: 0, part }]);
    let divided = Offer { held: &held, ..offer(2, &node) };
    let mut mixes = [GpuMix::default(), GpuMix::default()];
    for _ in 0..100 {
        mixes[1].count(GpuAsk::Whole { count: 1 });
    }
    for mix in &mixes {
        assert_eq!(chosen(&spec, mix, &[offer(1, &node), divided]), 1, "{mix:?}");
        assert_eq!(chosen(&spec, mix, &[divided, offer(1, &node)]), 0, "{mix:?}");
    }
    let consumer = self::node(RTX, 24_000, 1, Sharing { mig: None, shares: true });
    let small = job(GpuAsk::Part { steps: 2, may_share: true });
    assert_eq!(chosen(&small, &mixes[1], &[offer(1, &node), offer(2, &consumer)]), 1);
}
