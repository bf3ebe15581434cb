//! What is taken over time, held against a look at every time.

use super::{Ahead, Room};
use crate::gpus::tests::{RTX, job, node, part, split};
use crate::slots::{KeptSlot, Span};
use crate::tests::{ask, offer, slot};
use crate::{Ask, Meter, Offer, Rule, fit};
use arbtest::arbitrary::{Result, Unstructured};
use tg_types::{
    DurationMs, GpuAsk, GpuPart, GpuSlice, HeldGpu, HostPart, JobId, JobSpec, List, NodeDescriptor,
    Sharing, Tick,
};

fn span(from: u64, to: u64) -> Span {
    Span { from: Tick::new(from), to: Tick::new(to) }
}

fn whole(unit: u8) -> GpuSlice {
    GpuSlice { device: 0, unit, part: GpuPart::Whole }
}

fn keeping(job: u8, from: u64, to: u64, gpus: Vec<GpuSlice>) -> KeptSlot {
    KeptSlot { gpus: List::new(gpus).expect("few"), ..slot(job, from, to) }
}

/// Goal: who might last into what is kept of the GPUs is given another, or waits for `kept`; who
/// holds none is not concerned. Method: two GPUs and many slots; the run lasts from 100 to 200.
#[test]
fn kept_gpu_is_in_the_way_of_runs_that_may_last_into_it() {
    let node = node(RTX, 24_000, 2, Sharing::WHOLE);
    let one = job(GpuAsk::Whole { count: 1 });
    let check = |kept: &[KeptSlot], held: &[u8], job: Option<u8>, expected: Option<u8>| {
        let job = job.map(|job| JobId::new([job; 32]));
        let ask = Ask { job, ..ask(&one) };
        let held: Vec<HeldGpu> = held
            .iter()
            .map(|unit| HeldGpu { job: JobId::new([9; 32]), slice: whole(*unit) })
            .collect();
        let offer = Offer { kept, held: &held, ..offer(1, &node) };
        let fits = if expected.is_some() { Ok(()) } else { Err(Rule::Kept) };
        assert_eq!(fit(&ask, &offer), fits, "beside {kept:?} and {held:?}");
        assert_eq!(offer.slices(&ask, None), expected.map(|unit| vec![whole(unit)]));
    };
    check(&[keeping(1, 199, 300, vec![whole(0)])], &[], None, Some(1));
    check(&[keeping(1, 200, 300, vec![whole(0)])], &[], None, Some(0));
    check(&[keeping(1, 199, 300, vec![whole(0)])], &[1], None, None);
    check(&[keeping(1, 199, 300, vec![whole(0)])], &[1], Some(1), Some(0));
    check(&[keeping(1, 199, 300, vec![whole(0), whole(1)])], &[], None, None);
    let turns = [keeping(1, 110, 120, vec![whole(0)]), keeping(2, 130, 140, vec![whole(1)])];
    check(&turns, &[], None, None);
    check(&[slot(1, 110, 120)], &[0], None, Some(1));
    let slots = JobSpec { needs: tg_types::Needs::ANY, ..one.clone() };
    let kept = [keeping(1, 199, 300, vec![whole(0), whole(1)])];
    assert_eq!(fit(&ask(&slots), &Offer { kept: &kept, ..offer(1, &node) }), Ok(()));
}

#[test]
fn kept_processors_are_in_the_way_of_who_holds_some() {
    let host = |cpu_milli| HostPart { cpu_milli, memory_mib: 0 };
    let node = NodeDescriptor { host: host(4_000), ..node(RTX, 24_000, 1, Sharing::WHOLE) };
    let check = |asked: u32, expected| {
        let mut spec = crate::tests::spec();
        spec.needs.host = host(asked);
        // One after the other, so three at once.
        let kept = [(1, 110, 120, 3_000), (2, 120, 130, 2_000)]
            .map(|(job, from, to, part)| KeptSlot { host: host(part), ..slot(job, from, to) });
        let offer = Offer { kept: &kept, ..offer(1, &node) };
        assert_eq!(fit(&ask(&spec), &offer), expected, "{asked}");
    };
    check(1_000, Ok(()));
    check(1_001, Err(Rule::Kept));
    check(4_001, Err(Rule::Host));
    check(0, Ok(()));
}

/// Goal: a partition that is kept lies beside others at all times, and a GPU that is kept whole
/// later is not divided beyond that.
#[test]
fn parts_are_kept_where_they_lie() {
    let (node, small) = (split(1), part(2));
    let piece = |start| GpuPart::Partition { compute: 1, memory: 1, start };
    let slice = |part| GpuSlice { device: 0, unit: 0, part };
    let mut ahead = Ahead::default();
    for start in 0..6 {
        ahead.add(span(100, 150 + u64::from(start)), [slice(piece(start))], HostPart::NONE);
    }
    let room = |ahead: &Ahead, spec: &JobSpec, within, need| {
        let (offer, meter) = (offer(1, &node), Meter::default());
        offer.latest_room(spec, ahead, (within, DurationMs::new(need)), &meter)
    };
    let found = room(&ahead, &small, span(100, 140), 20).expect("the seventh");
    assert_eq!(found, Room { from: Tick::new(120), gpus: vec![slice(piece(6))] });
    ahead.add(span(110, 130), [slice(piece(6))], HostPart::NONE);
    assert_eq!(room(&ahead, &small, span(100, 140), 20), None);
    let whole = job(GpuAsk::Whole { count: 1 });
    let found = room(&ahead, &whole, span(100, 200), 45).expect("when all have ended");
    assert_eq!(found.from, Tick::new(155));
    assert_eq!(room(&ahead, &whole, span(100, 200), 46), None);
}

/// Something that is taken of a node with two GPUs in shares and four processors.
fn any_claim(u: &mut Unstructured<'_>) -> Result<(Span, Vec<GpuSlice>, HostPart)> {
    let from = u.int_in_range(0..=40_u64)?;
    let unit = u.int_in_range(0..=1)?;
    let part = match u.int_in_range(0..=2)? {
        0 => GpuPart::Whole,
        _ => GpuPart::Share { steps: u.int_in_range(1..=20)? },
    };
    let gpus = if u.arbitrary()? { vec![GpuSlice { device: 0, unit, part }] } else { Vec::new() };
    let host = HostPart { cpu_milli: u.int_in_range(0..=3)? * 1_000, memory_mib: 0 };
    Ok((span(from, from + u.int_in_range(1..=20)?), gpus, host))
}

fn any_job(u: &mut Unstructured<'_>) -> Result<JobSpec> {
    let mut spec = job(match u.int_in_range(0..=2)? {
        0 => GpuAsk::Whole { count: u.int_in_range(1..=2)? },
        _ => GpuAsk::Part { steps: u.int_in_range(1..=19)?, may_share: true },
    });
    if u.ratio(1, 4)? {
        spec.needs = tg_types::Needs::ANY;
    }
    spec.needs.host.cpu_milli = u.int_in_range(0..=3)? * 1_000;
    Ok(spec)
}

/// Goal: what is found for a time has room at every moment of it, nothing later does, and what was
/// found can be kept. Method: random claims, held against a count at every time.
#[test]
fn prop_found_rooms_have_room_at_every_time() {
    arbtest::arbtest(|u| {
        let sharing = Sharing { mig: None, shares: true };
        let host = HostPart { cpu_milli: 4_000, memory_mib: 0 };
        let node = NodeDescriptor { host, slots: 4, ..node(RTX, 24_000, 2, sharing) };
        let claims = (0..u.int_in_range(0..=6)?).map(|_| any_claim(u));
        let claims = claims.collect::<Result<Vec<_>>>()?;
        let mut ahead = Ahead::default();
        for (span, gpus, host) in &claims {
            ahead.add(*span, gpus.iter().copied(), *host);
        }
        let (spec, need) = (any_job(u)?, u.int_in_range(1..=20_u64)?);
        let offer = offer(1, &node);
        let at = |time: u64| claims.iter().filter(move |(span, ..)| span.has(Tick::new(time)));
        let left = |unit: u8, time: u64| {
            let parts = at(time).flat_map(|(_, gpus, _)| gpus).filter(|it| it.unit == unit);
            let (mut steps, mut is_whole) = (0_u32, false);
            for slice in parts {
                match slice.part {
                    GpuPart::Share { steps: more } => steps += u32::from(more),
                    GpuPart::Whole | GpuPart::Partition { .. } => is_whole = true,
                }
            }
            (!is_whole).then(|| 20_u32.saturating_sub(steps))
        };
        let has = |from: u64| {
            let times = || from..from + need;
            let slots = times().all(|time| at(time).count() < 4);
            let cpus = |time| at(time).map(|(.., host)| host.cpu_milli).sum::<u32>();
            let asked = spec.needs.host.cpu_milli;
            let cpus = asked == 0 || times().all(|time| cpus(time) + asked <= 4_000);
            let free = |unit| times().all(|time| left(unit, time) == Some(20));
            let gpus = match spec.held_gpus() {
                GpuAsk::Usual => true,
                GpuAsk::Whole { count } => {
                    (0..2).filter(|unit| free(*unit)).count() >= count.into()
                }
                GpuAsk::Part { steps, .. } => (0..2)
                    .any(|unit| times().all(|time| left(unit, time) >= Some(u32::from(steps)))),
            };
            slots && cpus && gpus
        };
        let (meter, length) = (Meter::default(), DurationMs::new(need));
        let late = offer.latest_room(&spec, &ahead, (span(5, 60), length), &meter);
        let expected = (5..=60 - need).rev().find(|from| has(*from));
        assert_eq!(late.as_ref().map(|room| room.from.get()), expected, "{spec:?} {claims:?}");
        let early = offer.earliest_room(&spec, &ahead, (Tick::new(5), length), &meter);
        assert_eq!(early.map(|room| room.from.get()), (5..200).find(|from| has(*from)));
        if let Some(Room { from, gpus }) = late {
            let to = from.get() + need;
            let kept = keeping(1, from.get(), to, gpus);
            let kept = KeptSlot { host: spec.needs.host, ..kept };
            assert!(offer.can_keep(&spec, &kept, &ahead) && offer.offers_kept(&spec, &kept));
            ahead.keep(&kept);
            let again = offer.can_keep(&spec, &kept, &ahead);
            let holds = spec.held_gpus() != GpuAsk::Usual;
            let is_whole = matches!(spec.held_gpus(), GpuAsk::Whole { .. });
            assert!(!again || !holds || !is_whole, "it is not kept twice");
        }
        Ok(())
    });
}
