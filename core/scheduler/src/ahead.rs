//! What is taken of a node from now on: its slots, and what runs and kept slots hold of its GPUs,
//! processors and memory, each for a span of time.
//!
//! Whoever adds something for a time looks at all that is taken within it. A GPU of which different
//! parts are taken at different times has room for what lies beside all of them; of processors and
//! memory what is taken at once counts. So what is kept is there when its time comes, and a run
//! that goes on for all of that time has room too.

use crate::gpus::{Seat, count_of};
use crate::packing::GPUS_MAX;
use crate::sharing::Gpu;
use crate::slots::{KeptSlot, Span, busiest, starts};
use crate::{Ask, Meter, Offer};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use tg_types::gpu::DEVICE_GONE;
use tg_types::{Device, DurationMs, GpuAsk, GpuSlice, HostPart, JobSpec, Tick};

/// Starts that are looked at on one node for something that is held: as many as it may keep slots,
/// and some ends of runs. Whatever is found is good, so more would only be a little better.
const STARTS_MAX: usize = 64;

/// What is taken of a node, and when.
#[derive(Clone, Debug, Default)]
pub struct Ahead {
    /// Slots.
    spans: Vec<Span>,
    /// GPUs and parts of them.
    gpus: Vec<(Span, GpuSlice)>,
    /// Processors and memory.
    hosts: Vec<(Span, HostPart)>,
}

/// Where something has room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// From when on.
    pub from: Tick,
    /// Which GPUs it has; none if it holds none.
    pub gpus: Vec<GpuSlice>,
}

impl Ahead {
    /// A slot is taken for that time, with these GPUs and so much of the machine.
    pub fn add(&mut self, span: Span, gpus: impl IntoIterator<Item = GpuSlice>, host: HostPart) {
        self.spans.push(span);
        self.gpus.extend(gpus.into_iter().map(|slice| (span, slice)));
        self.hosts.extend((host != HostPart::NONE).then_some((span, host)));
    }

    /// What a kept slot takes.
    pub fn keep(&mut self, slot: &KeptSlot) {
        self.add(slot.span(), slot.gpus.as_slice().iter().copied(), slot.host);
    }

    /// How many slots are taken at some time.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether nothing is taken.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// What a run that begins now is held against: all that runs hold, as if they went on for as
    /// long as it does, and what is kept for others in that time.
    pub(crate) fn beside(ask: &Ask<'_>, offer: &Offer<'_>) -> Self {
        let mut ahead = Self::default();
        ahead.gpus.extend(offer.held.iter().map(|held| (ask.span, held.slice)));
        ahead.hosts.extend(offer.hosted.iter().map(|held| (ask.span, held.part)));
        kept_for_others(ask, offer).for_each(|slot| ahead.keep(slot));
        ahead
    }

    /// What is left of equal devices for whoever has them for all of a time.
    pub(crate) fn units(&self, place: u8, device: &Device, within: Span) -> [Gpu; GPUS_MAX] {
        let here = self.gpus.iter().filter(|(span, _)| span.meets(within));
        // Nobody knows which of these a device is that is offered no more.
        if here.clone().any(|(_, slice)| slice.device == DEVICE_GONE) {
            return [Gpu::TAKEN; GPUS_MAX];
        }
        let here = here.filter(|(_, slice)| slice.device == place);
        let (always, sometimes): (Vec<_>, Vec<_>) =
            here.copied().partition(|(span, _)| span.covers(within));
        let mut units = [Gpu::TAKEN; GPUS_MAX];
        units.iter_mut().take(count_of(device).into()).for_each(|unit| *unit = Gpu::FREE);
        always.iter().for_each(|(_, slice)| use_of(&mut units, *slice));
        let times: BTreeSet<Tick> =
            sometimes.iter().map(|(span, _)| span.from.max(within.from)).collect();
        let alone = units;
        for time in times {
            let mut then = alone;
            let taken = sometimes.iter().filter(|(span, _)| span.has(time));
            taken.for_each(|(_, slice)| use_of(&mut then, *slice));
            units.iter_mut().zip(then).for_each(|(unit, then)| *unit = unit.or(then));
        }
        units
    }

    /// What is taken of processors and of memory at once, at most, within a time.
    pub(crate) fn host(&self, within: Span) -> HostPart {
        let here = || self.hosts.iter().filter(|(span, _)| span.meets(within));
        let times: BTreeSet<Tick> = here().map(|(span, _)| span.from.max(within.from)).collect();
        times.into_iter().fold(HostPart::NONE, |most, time| {
            let taken = here().filter(|(span, _)| span.has(time));
            let taken = taken.fold(HostPart::NONE, |all, (_, part)| all.with(*part));
            HostPart {
                cpu_milli: most.cpu_milli.max(taken.cpu_milli),
                memory_mib: most.memory_mib.max(taken.memory_mib),
            }
        })
    }

    /// When what is held begins or ends.
    fn edges(&self, of: impl Fn(&Span) -> Tick) -> BTreeSet<Tick> {
        let gpus = self.gpus.iter().map(|(span, _)| of(span));
        gpus.chain(self.hosts.iter().map(|(span, _)| of(span))).collect()
    }

    /// What it takes to look at a time, in steps.
    fn steps(&self, devices: usize) -> usize {
        let held = self.gpus.len() + self.hosts.len();
        devices * (GPUS_MAX + held) + held
    }
}

/// One more user of one of these devices.
fn use_of(units: &mut [Gpu; GPUS_MAX], slice: GpuSlice) {
    if let Some(unit) = units.get_mut(usize::from(slice.unit)) {
        *unit = unit.used_by(slice.part);
    }
}

/// Slots that a node keeps for others while a run may go on.
pub(crate) fn kept_for_others<'a>(
    ask: &Ask<'_>,
    offer: &Offer<'a>,
) -> impl Iterator<Item = &'a KeptSlot> + use<'a> {
    let (job, span) = (ask.job, ask.span);
    let others = offer.kept.iter().filter(move |slot| job != Some(slot.job));
    others.filter(move |slot| slot.span().meets(span))
}

/// Whether a run of a job holds anything but its slot.
fn is_holding(spec: &JobSpec) -> bool {
    spec.held_gpus() != GpuAsk::Usual || spec.needs.host != HostPart::NONE
}

impl Offer<'_> {
    /// The latest start within a time of a run that takes so long, beside what is ahead, and the
    /// GPUs that it would have then.
    pub fn latest_room(
        &self,
        spec: &JobSpec,
        ahead: &Ahead,
        (within, need): (Span, DurationMs),
        meter: &Meter,
    ) -> Option<Room> {
        let free = starts(&ahead.spans, self.descriptor.slots.into(), within, need);
        if !is_holding(spec) {
            return free.last().map(|span| Room { from: span.to, gpus: Vec::new() });
        }
        // A start is the latest one if something begins when the run has ended.
        let before = |time: Tick| time.get().checked_sub(need.get()).map(Tick::new);
        let edges: BTreeSet<Tick> =
            ahead.edges(|span| span.from).into_iter().filter_map(before).collect();
        let within = |span: &Span| {
            let edges = edges.range(span.from..span.to).rev().copied();
            std::iter::once(span.to).chain(edges).collect::<Vec<Tick>>()
        };
        let mut tried = free.iter().rev().flat_map(within).take(STARTS_MAX);
        tried.find_map(|from| self.room_at(spec, ahead, (from, need), meter))
    }

    /// The earliest start of a run that takes so long, from a time on.
    pub fn earliest_room(
        &self,
        spec: &JobSpec,
        ahead: &Ahead,
        (from, need): (Tick, DurationMs),
        meter: &Meter,
    ) -> Option<Room> {
        let within = Span { from, to: Tick::MAX };
        let free = starts(&ahead.spans, self.descriptor.slots.into(), within, need);
        if !is_holding(spec) {
            return free.first().map(|span| Room { from: span.from, gpus: Vec::new() });
        }
        // A start is the earliest one if something ends then.
        let edges = ahead.edges(|span| span.to);
        let within = |span: &Span| {
            let later = edges.range(span.from..=span.to).copied();
            std::iter::once(span.from).chain(later).collect::<Vec<Tick>>()
        };
        let mut tried = free.iter().flat_map(within).take(STARTS_MAX);
        tried.find_map(|from| self.room_at(spec, ahead, (from, need), meter))
    }

    /// What a run that has a slot would have from then on, if there is room for it.
    fn room_at(
        &self,
        spec: &JobSpec,
        ahead: &Ahead,
        (from, need): (Tick, DurationMs),
        meter: &Meter,
    ) -> Option<Room> {
        let span = Span { from, to: from.plus(need).ok()? };
        meter.add(ahead.steps(self.descriptor.devices.as_slice().len()));
        if !self.has_host_beside(spec.needs.host, ahead.host(span)) {
            return None;
        }
        let gpus = self.slices_beside(spec, None, ahead, span)?;
        Some(Room { from, gpus })
    }

    /// Whether a slot can be kept with all that it keeps, beside what is ahead.
    pub fn can_keep(&self, spec: &JobSpec, slot: &KeptSlot, ahead: &Ahead) -> bool {
        let span = slot.span();
        let taken = ahead.spans.iter().copied();
        busiest(taken, span) < usize::from(self.descriptor.slots)
            && self.has_held(spec, slot, ahead, span)
    }

    /// Whether what a slot keeps is still offered, and nobody has it now.
    pub fn has_kept_free(&self, spec: &JobSpec, slot: &KeptSlot) -> bool {
        let mut ahead = Ahead::default();
        let span = slot.span();
        ahead.gpus.extend(self.held.iter().map(|held| (span, held.slice)));
        ahead.hosts.extend(self.hosted.iter().map(|held| (span, held.part)));
        self.running < self.descriptor.slots && self.has_held(spec, slot, &ahead, span)
    }

    /// Whether a node that keeps a slot still offers what it keeps, whoever has it now.
    pub fn offers_kept(&self, spec: &JobSpec, slot: &KeptSlot) -> bool {
        self.has_held(spec, slot, &Ahead::default(), slot.span())
    }

    fn has_held(&self, spec: &JobSpec, slot: &KeptSlot, ahead: &Ahead, span: Span) -> bool {
        let gpus = slot.gpus.as_slice();
        let has_gpus = match gpus.first() {
            None => spec.held_gpus() == GpuAsk::Usual,
            Some(first) => self.seats(spec).any(|seat| {
                let units = || ahead.units(seat.place(), seat.device(), span);
                seat.place() == first.device
                    && self.is_paid(spec, &seat)
                    && seat.can_give(gpus, units())
            }),
        };
        has_gpus && self.has_host_beside(slot.host, ahead.host(span))
    }

    /// The GPUs that a run is given for a time: of a device of this class if there is one, and
    /// where the least is left. `None` if there is no room that the pay is enough for; nothing if
    /// it holds none.
    pub(crate) fn slices_beside(
        &self,
        spec: &JobSpec,
        class: Option<crate::pace::DeviceClass>,
        ahead: &Ahead,
        span: Span,
    ) -> Option<Vec<GpuSlice>> {
        if spec.held_gpus() == GpuAsk::Usual {
            return Some(Vec::new());
        }
        let paid = self.seats(spec).filter(|seat| self.is_paid(spec, seat));
        let slices = |seat: &Seat<'_>| {
            let units = ahead.units(seat.place(), seat.device(), span);
            seat.slices(units)
        };
        let found = paid.filter_map(|seat| Some((seat, slices(&seat)?)));
        let best = found.min_by_key(|(seat, _)| {
            let is_meant = class.is_some_and(|class| class == seat.class());
            (Reverse(is_meant), seat.charge_milli(), seat.place())
        });
        best.map(|(_, slices)| slices)
    }
}

#[cfg(test)]
mod tests;
