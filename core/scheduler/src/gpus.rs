//! Which GPUs of a node a run would have, and what that costs: rules, placements and prices ask
//! here, so a run is given exactly what it was admitted for.
//!
//! What runs hold stands in the entries of their nodes as definite devices and parts. From these
//! follows what is left of each GPU; nothing else is kept.

use crate::ahead::Ahead;
use crate::catalogue::Split;
use crate::pace::DeviceClass;
use crate::packing::{GPU_MILLI, GPUS_MAX};
use crate::sharing::{self, Fraction, Gpu, Modes, Profile, STEPS, Take, profiles};
use crate::{Ask, Offer, is_able};
use tg_types::gpu::DEVICE_GONE;
use tg_types::{Amount, Device, DeviceKind, GpuAsk, GpuPart, GpuSlice, HeldGpu, JobSpec};

/// Thousandths of a GPU that a job asks for at least, as far as prices are concerned: one GPU if it
/// holds none.
pub fn asked_milli(spec: &JobSpec) -> u32 {
    let whole = u32::from(GPU_MILLI);
    match spec.held_gpus() {
        GpuAsk::Usual => whole,
        GpuAsk::Whole { count } => whole * u32::from(count.max(1)),
        GpuAsk::Part { steps, .. } => (whole / u32::from(STEPS)) * u32::from(steps.max(1)),
    }
}

/// A device of a node of which a run could have what it asks for if nobody used it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat<'a> {
    /// Its place in the offer.
    place: u8,
    device: &'a Device,
    memory_mib: u32,
    /// What the run would take.
    take: Take,
}

/// What a job takes of a device with so much memory.
pub(crate) fn take_of(spec: &JobSpec, device: &Device, memory_mib: u32) -> Take {
    match spec.held_gpus() {
        GpuAsk::Usual => Take::None,
        GpuAsk::Whole { count } => Take::Whole(count),
        GpuAsk::Part { steps, may_share } => {
            let (split, modes) = (Split::of(device.sharing), Modes::of(device.sharing));
            let milli = u16::from(steps) * (GPU_MILLI / u16::from(STEPS));
            let asked = Fraction { milli, memory_mib: spec.needs.memory_mib_min, may_share };
            sharing::Device { split, modes, memory_mib }.take(asked)
        }
    }
}

/// How many of equal devices are given out.
pub(crate) fn count_of(device: &Device) -> u8 {
    u8::try_from(device.count).unwrap_or(u8::MAX).min(tg_types::gpu::GPUS_MAX)
}

/// What is left of the devices at a place of an offer; those beyond their number count as taken.
pub(crate) fn units(place: u8, device: &Device, held: &[HeldGpu]) -> [Gpu; GPUS_MAX] {
    let mut units = [Gpu::TAKEN; GPUS_MAX];
    units.iter_mut().take(count_of(device).into()).for_each(|unit| *unit = Gpu::FREE);
    // A device that is offered no more may be offered again under another name: until its last
    // user is gone nobody knows which of these it is.
    if held.iter().any(|held| held.slice.device == DEVICE_GONE) {
        return [Gpu::TAKEN; GPUS_MAX];
    }
    for HeldGpu { slice, .. } in held.iter().filter(|held| held.slice.device == place) {
        if let Some(unit) = units.get_mut(usize::from(slice.unit)) {
            *unit = unit.used_by(slice.part);
        }
    }
    units
}

impl<'a> Seat<'a> {
    /// What the run costs here, in thousandths of the price of one GPU.
    pub(crate) fn charge_milli(&self) -> u32 {
        self.take.charge_milli()
    }

    fn split(&self) -> Split {
        Split::of(self.device.sharing)
    }

    /// The place of its device in the offer.
    pub(crate) const fn place(&self) -> u8 {
        self.place
    }

    /// Its device.
    pub(crate) const fn device(&self) -> &'a Device {
        self.device
    }

    /// The class of its device.
    pub(crate) fn class(&self) -> DeviceClass {
        DeviceClass::of(self.device, self.memory_mib)
    }

    /// Whether there is room now.
    pub(crate) fn has_room(&self, held: &[HeldGpu]) -> bool {
        self.slices(units(self.place, self.device, held)).is_some()
    }

    /// What the run would have: whole devices from the front; otherwise a part of the device in use
    /// that has the least room which is enough, and of a free one only if there is none.
    pub(crate) fn slices(&self, units: [Gpu; GPUS_MAX]) -> Option<Vec<GpuSlice>> {
        let at = |unit: usize, part| {
            let unit = u8::try_from(unit).unwrap_or(u8::MAX);
            GpuSlice { device: self.place, unit, part }
        };
        let split = self.split();
        let places = units.iter().enumerate();
        let part = match self.take {
            Take::None => return Some(Vec::new()),
            Take::Whole(count) => {
                let free = places.filter(|(_, unit)| **unit == Gpu::FREE).take(count.into());
                let found: Vec<_> = free.map(|(unit, _)| at(unit, GpuPart::Whole)).collect();
                return (found.len() == usize::from(count)).then_some(found);
            }
            Take::Part(profile) => {
                let (compute, memory) = (profile.compute, profile.memory);
                GpuPart::Partition { compute, memory, start: 0 }
            }
            Take::Share(steps) => GpuPart::Share { steps },
        };
        let fitting =
            places.filter_map(|(place, unit)| Some((place, *unit, unit.with(self.take, split)?.1)));
        let best = fitting
            .min_by_key(|(place, unit, _)| (*unit == Gpu::FREE, unit.left_milli(split), *place));
        let (unit, _, start) = best?;
        let part = match part {
            GpuPart::Partition { compute, memory, .. } => {
                GpuPart::Partition { compute, memory, start }
            }
            GpuPart::Whole | GpuPart::Share { .. } => part,
        };
        Some(vec![at(unit, part)])
    }

    /// Whether the run can have these definite ones, which were enough when they were chosen: they
    /// are as much as it takes now or more, lie where they may, and this much is left.
    pub(crate) fn can_give(&self, slices: &[GpuSlice], units: [Gpu; GPUS_MAX]) -> bool {
        let count = match self.take {
            Take::None => return slices.is_empty(),
            Take::Whole(count) => usize::from(count),
            Take::Part(_) | Take::Share(_) => 1,
        };
        let is_left = |slice: &GpuSlice| {
            let unit = units.get(usize::from(slice.unit)).copied().unwrap_or(Gpu::TAKEN);
            slice.device == self.place && self.is_enough(slice.part, unit)
        };
        slices.len() == count && slices.iter().all(is_left)
    }

    /// Whether a part of a GPU is what the run takes, or more, and is left.
    fn is_enough(&self, part: GpuPart, unit: Gpu) -> bool {
        match (part, self.take) {
            (GpuPart::Whole, _) => unit == Gpu::FREE,
            (GpuPart::Partition { compute, memory, start }, Take::Part(least)) => {
                let is_this = |it: &&Profile| it.compute == compute && it.memory == memory;
                let found = profiles(self.split()).iter().find(is_this);
                let found = found.filter(|_| compute >= least.compute && memory >= least.memory);
                let with = |it: &Profile| unit.with_at(Take::Part(*it), start, self.split());
                found.is_some_and(|it| with(it).is_some())
            }
            (GpuPart::Share { steps }, Take::Share(least)) => {
                steps >= least && unit.with(Take::Share(steps), self.split()).is_some()
            }
            (GpuPart::Partition { .. } | GpuPart::Share { .. }, _) => false,
        }
    }
}

impl<'a> Offer<'a> {
    /// The devices of which a run could have what it asks for if nobody used them.
    pub(crate) fn seats(&self, spec: &JobSpec) -> impl Iterator<Item = Seat<'a>> {
        let places = (0..).zip(self.devices());
        places.filter_map(|(place, (device, credited))| {
            let memory_mib = credited.filter(|mib| *mib >= spec.needs.memory_mib_min)?;
            if device.kind != DeviceKind::Gpu || !is_able(spec, device) {
                return None;
            }
            let take = take_of(spec, device, memory_mib);
            let is_enough = match take {
                // A program cannot use several GPUs that are to be split.
                Take::Whole(2..) if device.sharing.mig.is_some() => false,
                Take::Whole(count) => count <= count_of(device),
                Take::None | Take::Part(_) | Take::Share(_) => count_of(device) > 0,
            };
            is_enough.then_some(Seat { place, device, memory_mib, take })
        })
    }

    /// The definite GPUs that a run of this job is given now: of a device of this class if there is
    /// one, and where the least is left, beside what is kept for others while it may go on. `None`
    /// if there is no room that the pay is enough for; nothing if it holds none.
    pub fn slices(&self, ask: &Ask<'_>, class: Option<DeviceClass>) -> Option<Vec<GpuSlice>> {
        self.slices_beside(ask.spec, class, &Ahead::beside(ask, self), ask.span)
    }

    /// The class of the device that these are of; of the first on which the job can run if it
    /// holds none.
    pub fn class_of(&self, spec: &JobSpec, slices: &[GpuSlice]) -> Option<DeviceClass> {
        let Some(first) = slices.first() else { return self.class_for(spec) };
        self.seats(spec).find(|seat| seat.place == first.device).map(|seat| seat.class())
    }

    /// Whether the pay is enough for what a run takes of a device.
    pub(crate) fn is_paid(&self, spec: &JobSpec, seat: &Seat<'_>) -> bool {
        let price = crate::price_of(spec, None, self.descriptor, seat.charge_milli());
        price.is_some_and(|price| price <= spec.pay)
    }
}

impl Offer<'_> {
    /// The lowest price at which the node takes a run now.
    pub(crate) fn lowest_price(&self, ask: &Ask<'_>) -> Option<Amount> {
        let ahead = Ahead::beside(ask, self);
        let free = self.seats(ask.spec).filter(|seat| {
            let units = ahead.units(seat.place, seat.device, ask.span);
            seat.slices(units).is_some()
        });
        let price = |seat: Seat<'_>| {
            crate::price_of(ask.spec, ask.facts, self.descriptor, seat.charge_milli())
        };
        free.filter_map(price).min().or_else(|| crate::price(ask.spec, ask.facts, self.descriptor))
    }
}

#[cfg(test)]
pub(crate) mod tests;
