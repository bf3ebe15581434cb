//! Who runs what: which nodes fit a job, which of them is best, and why the others do not.
//!
//! A placement and its explanation come from the same rules, so `why` can never tell another story
//! than what happened. Of the nodes that pass all rules the one with the highest score of the
//! [`index`] wins ([`Market`]); ties go by hashes of contents, so every validator decides alike.

pub mod ahead;
pub mod catalogue;
mod change;
mod gpus;
mod host;
pub mod index;
mod logarithm;
mod market;
mod meter;
mod model;
pub mod pace;
pub mod packing;
pub mod queue;
mod region;
mod rule;
pub mod sharing;
pub mod slots;

pub use change::{Change, cheapest_change};
pub use gpus::asked_milli;
pub use market::{Contest, Found, Gain, GpuMix, Market, Names, Standing, stake_step, steps_of};
pub use meter::Meter;
pub use model::is_of_model;
pub use region::Nearness;
pub use rule::Rule;

use pace::DeviceClass;
use slots::{KeptSlot, Span};
use tg_types::{
    AccountId, Amount, Bps, Device, DurationMs, GpuAsk, HeldGpu, HeldHost, JobId, JobSpec,
    NodeDescriptor, NodeId, ProgramFacts, Proved, Work,
};

/// What a job asks of a node.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The job.
    pub spec: &'a JobSpec,
    /// What is known of its program, if it has one.
    pub facts: Option<&'a ProgramFacts>,
    /// What a run puts at risk.
    pub bond: Amount,
    /// Owners that may not run it (again).
    pub excluded: &'a [AccountId],
    /// From now on until the run has surely ended.
    pub span: Span,
    /// The job, if slots may be kept for it: its own slot is not in its way.
    pub job: Option<JobId>,
}

/// A node as the scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The node.
    pub node: NodeId,
    /// Whose it is.
    pub owner: AccountId,
    /// What it offers.
    pub descriptor: &'a NodeDescriptor,
    /// Runs it has now.
    pub running: u16,
    /// What its runs have of its GPUs.
    pub held: &'a [HeldGpu],
    /// What they have of its processors and memory.
    pub hosted: &'a [HeldHost],
    /// Slots that it keeps for promised jobs.
    pub kept: &'a [KeptSlot],
    /// Whether validators see it.
    pub is_present: bool,
    /// What its devices are credited with.
    pub credit: Credit<'a>,
    /// What of the owner's stake stands for nothing yet.
    pub stake_free: Amount,
    /// The lower bound of its reputation.
    pub reputation: Bps,
}

/// What the devices of a node are credited with.
#[derive(Clone, Copy, Debug)]
pub enum Credit<'a> {
    /// What they claim: nobody is asked.
    Claims,
    /// What was shown of them.
    Shown(&'a [Proved]),
}

impl Credit<'_> {
    /// The memory of a device as far as it is credited; `None` if nothing was shown of it.
    fn mib(self, place: usize, device: &Device) -> Option<u32> {
        match self {
            Self::Claims => Some(device.memory_mib),
            Self::Shown(shown) => {
                let proved = shown.iter().find(|proved| usize::from(proved.device) == place)?;
                Some(proved.memory_mib.min(device.memory_mib))
            }
        }
    }
}

/// Milliseconds of an hour, in which prices of time are given.
const HOUR_MS: u128 = DurationMs::HOUR.get() as u128;

/// Multiply-adds in which prices of work are given.
const TERA: u128 = 1_000_000_000_000;

/// A whole GPU in the unit of its parts.
const WHOLE_MILLI: u128 = packing::GPU_MILLI as u128;

/// What prices are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pricing {
    /// Time.
    Hour,
    /// Work.
    Tera,
}

impl Pricing {
    /// How jobs like this are priced.
    pub fn of_job(spec: &JobSpec, facts: Option<&ProgramFacts>) -> Self {
        Measure::of(spec, facts).pricing
    }

    /// What a node asks for.
    const fn of(self, offer: &NodeDescriptor) -> Amount {
        match self {
            Self::Hour => offer.price_per_hour,
            Self::Tera => offer.price_per_tera,
        }
    }
}

/// How much of what a run is priced by.
#[derive(Clone, Copy, Debug)]
struct Measure {
    pricing: Pricing,
    count: u128,
    /// Prices are given for so many.
    per: u128,
}

impl Measure {
    fn of(spec: &JobSpec, facts: Option<&ProgramFacts>) -> Self {
        match (&spec.work, facts) {
            (Work::Tensor { .. }, Some(facts)) => {
                // Elements are moved and rounded too: each counts as one more.
                let count = u128::from(facts.multiply_adds) + u128::from(facts.elements);
                Self { pricing: Pricing::Tera, count, per: TERA }
            }
            (Work::Tensor { .. }, None) | (Work::Opaque { .. }, _) => {
                // Of several GPUs, or of a part of one, at least what is asked for is paid.
                let count = u128::from(spec.run_max.get()) * u128::from(asked_milli(spec));
                Self { pricing: Pricing::Hour, count, per: HOUR_MS * WHOLE_MILLI }
            }
        }
    }

    /// The highest price at which this pay is enough.
    fn price_max(&self, pay: Amount) -> u64 {
        let most = (u128::from(pay.units()) * self.per).checked_div(self.count);
        most.and_then(|most| u64::try_from(most).ok()).unwrap_or(u64::MAX)
    }
}

/// What a job offers: the highest price at which its pay is enough, and what that is a price of.
pub fn offered(spec: &JobSpec, facts: Option<&ProgramFacts>) -> (Pricing, u64) {
    let measure = Measure::of(spec, facts);
    (measure.pricing, measure.price_max(spec.pay))
}

/// What a node asks for a run, rounded up; `None` if no amount is large enough. Of the devices that
/// would do, the one of which the run takes the least counts.
pub fn price(
    spec: &JobSpec,
    facts: Option<&ProgramFacts>,
    offer: &NodeDescriptor,
) -> Option<Amount> {
    if spec.held_gpus() == GpuAsk::Usual {
        return price_of(spec, facts, offer, asked_milli(spec));
    }
    let able = offer.devices.as_slice().iter().filter(|device| is_able(spec, device));
    let charges = able.map(|device| gpus::take_of(spec, device, device.memory_mib).charge_milli());
    price_of(spec, facts, offer, charges.min().unwrap_or_else(|| asked_milli(spec)))
}

/// What a node asks for a run that takes so much of a GPU, rounded up.
fn price_of(
    spec: &JobSpec,
    facts: Option<&ProgramFacts>,
    offer: &NodeDescriptor,
    charge_milli: u32,
) -> Option<Amount> {
    let Measure { pricing, count, per } = Measure::of(spec, facts);
    let asked = u128::from(asked_milli(spec));
    let (count, per) = match pricing {
        Pricing::Hour => (count / asked * u128::from(charge_milli), per),
        Pricing::Tera => (count, per),
    };
    let units = u128::from(pricing.of(offer).units()).checked_mul(count)?.div_ceil(per);
    Amount::new(u64::try_from(units).ok()?).ok()
}

/// Whether a node can be given a run, or the first rule that is in the way.
pub fn fit(ask: &Ask<'_>, offer: &Offer<'_>) -> Result<(), Rule> {
    let in_the_way = Rule::ALL.into_iter().find(|rule| !rule.admits(ask, offer));
    in_the_way.map_or(Ok(()), Err)
}

/// Whether a node could be given a run at another time, or the first rule that is in the way
/// whatever else it does.
pub fn fit_later(ask: &Ask<'_>, offer: &Offer<'_>) -> Result<(), Rule> {
    let lasting = Rule::ALL.into_iter().filter(|rule| !Rule::OF_SLOTS.contains(rule));
    let in_the_way = lasting.into_iter().find(|rule| !rule.admits(ask, offer));
    in_the_way.map_or(Ok(()), Err)
}

/// Whether a node could be given a run if those that it has now had ended, or the first rule that
/// would be in the way even then. Waiting for these runs is of use only where this is so: slots
/// that are kept, the node's end and its owner's stake do not change with them.
pub fn fit_when_idle(ask: &Ask<'_>, offer: &Offer<'_>) -> Result<(), Rule> {
    fit(ask, &Offer { running: 0, held: &[], hosted: &[], ..*offer })
}

/// What stands between a job and a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Nodes that could be given the job now.
    pub fitting: usize,
    /// How many nodes each rule removed, in the order in which the rules are tried. Rules that
    /// removed none are left out.
    pub removed: Vec<(Rule, usize)>,
    /// The cheapest change with which a node would fit, if none does.
    pub change: Option<Change>,
}

/// Says how many nodes each rule removes, and what would help.
pub fn explain(ask: &Ask<'_>, offers: &[Offer<'_>]) -> Explanation {
    let mut fitting = 0;
    let mut counts = [0_usize; Rule::ALL.len()];
    for offer in offers {
        match fit(ask, offer) {
            Ok(()) => fitting += 1,
            Err(rule) => {
                if let Some(count) = counts.get_mut(rule.place()) {
                    *count += 1;
                }
            }
        }
    }
    let removed = Rule::ALL.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect();
    let change = if fitting == 0 { cheapest_change(ask, offers) } else { None };
    Explanation { fitting, removed, change }
}

impl<'a> Offer<'a> {
    /// All devices with the memory they are credited with; `None` for those of which nothing was
    /// shown.
    fn devices(&self) -> impl Iterator<Item = (&'a Device, Option<u32>)> {
        let credit = self.credit;
        let devices = self.descriptor.devices.as_slice().iter().enumerate();
        devices.map(move |(place, device)| (device, credit.mib(place, device)))
    }

    /// The devices on which a job can run, with their credited memories.
    fn suitable(&self, spec: &JobSpec) -> impl Iterator<Item = (&'a Device, u32)> {
        let able = self.devices().filter(|(device, _)| is_able(spec, device));
        let credited = able.filter_map(|(device, credited)| Some((device, credited?)));
        credited.filter(|(_, mib)| *mib >= spec.needs.memory_mib_min)
    }

    /// The class of the first device on which a job can run.
    pub fn class_for(&self, spec: &JobSpec) -> Option<DeviceClass> {
        let (device, memory_mib) = self.suitable(spec).next()?;
        Some(DeviceClass::of(device, memory_mib))
    }
}

/// Whether a device is of the kind that a job needs; its memory and what it costs do not matter
/// here.
fn is_able(spec: &JobSpec, device: &Device) -> bool {
    let needs = &spec.needs;
    needs.kind.is_none_or(|kind| kind == device.kind)
        && needs.model.as_ref().is_none_or(|model| is_of_model(model, &device.model))
        && device.features.contains(needs.features)
}

#[cfg(test)]
mod tests;
