//! The rules by which a node is fit for a job, in the order in which they are tried.

use tg_types::{Device, GpuAsk, HostPart};

use crate::ahead::{Ahead, kept_for_others};
use crate::model::is_of_model;
use crate::slots::{KeptSlot, busiest};
use crate::{Ask, Offer, gpus, is_able, price};

macro_rules! rules {
    ($( $(#[$meta:meta])* $rule:ident, $code:literal, $sentence:literal; )*) => {
        /// A rule that removes nodes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $( $(#[$meta])* $rule, )*
        }

        impl Rule {
            /// All rules, in the order in which they are tried.
            pub const ALL: [Self; [$( $code ),*].len()] = [$( Self::$rule, )*];

            /// The word programs branch on.
            pub const fn code(self) -> &'static str {
                match self {
                    $( Self::$rule => $code, )*
                }
            }

            /// What it says of the nodes it removes.
            pub const fn sentence(self) -> &'static str {
                match self {
                    $( Self::$rule => $sentence, )*
                }
            }
        }
    };
}

rules! {
    /// Validators do not see it.
    Absent, "absent", "are not seen by the validators";
    /// It has not shown the capacity of any device that would do.
    Unproved, "unproved", "have not proved what they can do yet";
    /// It takes no runs now.
    Closed, "closed", "take no runs at this time";
    /// It or its owner has had this job, or may not have it.
    Excluded, "excluded", "have had this job before, or have the same owner as one that has";
    /// It stands elsewhere.
    Region, "region", "stand in another region";
    /// It has no device of that kind.
    Kind, "kind", "have no device of this kind";
    /// It has no device of that model.
    Model, "model", "have no device of this model";
    /// No such device can do what is needed.
    Features, "features", "have no such device with the needed features";
    /// No such device has the memory.
    Memory, "memory", "have no such device with enough memory";
    /// It has fewer such devices than are asked for.
    Count, "count", "have too few such GPUs";
    /// Its machine has fewer processors or less memory.
    Host, "host", "have fewer processors or less memory than a run is to hold";
    /// It asks for more.
    Price, "price", "ask for more than a run is paid";
    /// Its owner has too little at stake.
    Stake, "stake", "have too little stake left to stand for the run";
    /// It has as many runs as it takes.
    Busy, "busy", "are busy";
    /// Others have its devices.
    Gpus, "gpus", "have too few such GPUs free";
    /// Others have so much of its devices that too little of each is left.
    Part, "part", "have no part of such a GPU free that is enough";
    /// Others have its processors or its memory.
    Room, "room", "have too few processors or too little memory free";
    /// It keeps what is free for others that were promised it before this run would surely end.
    Kept, "kept", "keep what they have free for jobs that were promised";
    /// It closes before the run may have ended.
    Closing, "closing", "close before the run may have ended";
}

impl Rule {
    /// The rules about slots and what is free: what they say changes with time.
    pub(crate) const OF_SLOTS: [Self; 6] =
        [Self::Busy, Self::Gpus, Self::Part, Self::Room, Self::Kept, Self::Closing];

    /// Those of them that pass by waiting: who closes does not come back by that.
    pub(crate) const PASSING: [Self; 5] =
        [Self::Busy, Self::Gpus, Self::Part, Self::Room, Self::Kept];

    /// Where it stands in [`Rule::ALL`].
    pub const fn place(self) -> usize {
        self as usize
    }

    /// Whether the node passes this rule. Rules about devices look at those that passed the rules
    /// before.
    pub(crate) fn admits(self, ask: &Ask<'_>, offer: &Offer<'_>) -> bool {
        let (needs, descriptor) = (&ask.spec.needs, offer.descriptor);
        let asked = ask.spec.held_gpus();
        let kind = |device: &Device| needs.kind.is_none_or(|kind| kind == device.kind);
        let model = |device: &Device| {
            needs.model.as_ref().is_none_or(|model| is_of_model(model, &device.model))
        };
        let any =
            |is_fit: &dyn Fn(&Device) -> bool| descriptor.devices.as_slice().iter().any(is_fit);
        match self {
            Self::Absent => offer.is_present,
            Self::Unproved => is_proved(ask, offer),
            Self::Closed => descriptor.is_open,
            Self::Excluded => !ask.excluded.contains(&offer.owner),
            Self::Region => needs.region.only().is_none_or(|at| *at == descriptor.region),
            Self::Kind => any(&kind),
            Self::Model => any(&|device| kind(device) && model(device)),
            Self::Features => any(&|device| {
                kind(device) && model(device) && device.features.contains(needs.features)
            }),
            Self::Memory => has_memory(ask, offer),
            Self::Count => has_count(ask, offer),
            Self::Host => offer.has_host(needs.host),
            Self::Price => is_paid(ask, offer),
            Self::Stake => offer.stake_free >= ask.bond,
            Self::Busy => offer.running < descriptor.slots,
            Self::Gpus => !matches!(asked, GpuAsk::Whole { .. }) || has_gpus(ask, offer),
            Self::Part => !matches!(asked, GpuAsk::Part { .. }) || has_gpus(ask, offer),
            // Of a machine that has not as much another rule says what is missing.
            Self::Room => !offer.has_host(needs.host) || offer.has_host_free(needs.host),
            Self::Kept => leaves_kept_slots(ask, offer) && leaves_kept_parts(ask, offer),
            Self::Closing => {
                let end = ask.span.from.plus(ask.spec.run_max);
                descriptor.closes.is_none_or(|at| end.is_ok_and(|end| end <= at))
            }
        }
    }
}

/// Whether a run leaves all slots that the node keeps for others. Runs that the node has now are
/// taken to last as long as this one: so none of their ends has to be known, and who ends early
/// makes room early.
fn leaves_kept_slots(ask: &Ask<'_>, offer: &Offer<'_>) -> bool {
    let kept = busiest(kept_for_others(ask, offer).map(KeptSlot::span), ask.span);
    kept == 0 || usize::from(offer.running) + kept < usize::from(offer.descriptor.slots)
}

/// Whether a run that holds something leaves what is kept of that for others, in the same way. Of a
/// node that has not as much other rules say what is missing.
fn leaves_kept_parts(ask: &Ask<'_>, offer: &Offer<'_>) -> bool {
    let mut kept = kept_for_others(ask, offer);
    let (gpus, host) = (ask.spec.held_gpus(), ask.spec.needs.host);
    let has_gpus = |slot: &KeptSlot| gpus != GpuAsk::Usual && !slot.gpus.as_slice().is_empty();
    let has_host = |slot: &KeptSlot| host != HostPart::NONE && slot.host != HostPart::NONE;
    if !kept.any(|slot| has_gpus(slot) || has_host(slot)) {
        return true;
    }
    let ahead = Ahead::beside(ask, offer);
    let leaves_host = !offer.has_host(host) || offer.has_host_beside(host, ahead.host(ask.span));
    let leaves_gpus = gpus == GpuAsk::Usual
        || has_gpus_where(ask, offer, |seat| {
            let units = ahead.units(seat.place(), seat.device(), ask.span);
            seat.slices(units).is_some()
        });
    leaves_host && leaves_gpus
}

/// Whether there are as many equal devices as are asked for, whoever has them. If none was shown,
/// that is in the way, and not their number.
fn has_count(ask: &Ask<'_>, offer: &Offer<'_>) -> bool {
    let holds = ask.spec.held_gpus() != GpuAsk::Usual;
    !holds || offer.suitable(ask.spec).next().is_none() || offer.seats(ask.spec).next().is_some()
}

/// Whether the pay is enough for what a run takes here.
fn is_paid(ask: &Ask<'_>, offer: &Offer<'_>) -> bool {
    let mut seats = offer.seats(ask.spec).peekable();
    if ask.spec.held_gpus() == GpuAsk::Usual || seats.peek().is_none() {
        let price = price(ask.spec, ask.facts, offer.descriptor);
        return price.is_some_and(|price| price <= ask.spec.pay);
    }
    seats.any(|seat| offer.is_paid(ask.spec, &seat))
}

/// Whether what a run takes is free.
fn has_gpus(ask: &Ask<'_>, offer: &Offer<'_>) -> bool {
    has_gpus_where(ask, offer, |seat| seat.has_room(offer.held))
}

/// Whether there is room on a device that the pay is enough for; on any if it is not enough for
/// one: then it is the price that is in the way. Of a node without such devices another rule says
/// what is missing.
fn has_gpus_where(
    ask: &Ask<'_>,
    offer: &Offer<'_>,
    has_room: impl Fn(&gpus::Seat<'_>) -> bool,
) -> bool {
    let is_paid = is_paid(ask, offer);
    let mut seats = offer.seats(ask.spec).peekable();
    let is_fit =
        |seat: gpus::Seat<'_>| (!is_paid || offer.is_paid(ask.spec, &seat)) && has_room(&seat);
    seats.peek().is_none() || seats.any(is_fit)
}

/// Whether a device was shown that would do. Of a node with none that would do it is enough if any
/// was shown: another rule says what is missing.
fn is_proved(ask: &Ask<'_>, offer: &Offer<'_>) -> bool {
    let able = || offer.devices().filter(|(device, _)| is_able(ask.spec, device));
    let is_shown = |(_, credited): (&Device, Option<u32>)| credited.is_some();
    if able().next().is_some() { able().any(is_shown) } else { offer.devices().any(is_shown) }
}

/// Whether a device that would do has the memory, as it was shown. If none was shown, claims count:
/// then it is not the memory that is in the way.
fn has_memory(ask: &Ask<'_>, offer: &Offer<'_>) -> bool {
    let able = || offer.devices().filter(|(device, _)| is_able(ask.spec, device));
    if able().any(|(_, credited)| credited.is_some()) {
        return offer.suitable(ask.spec).next().is_some();
    }
    able().any(|(device, _)| device.memory_mib >= ask.spec.needs.memory_mib_min)
}
