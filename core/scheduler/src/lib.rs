//! Who runs what: which nodes fit a job, which of them is best, and why the others do not.
//!
//! A placement and its explanation come from the same rules, so `why` can never tell another story
//! than what happened. The first node in the order of [`Rank`] wins: least memory left over (a
//! large device is not wasted on a small job), then the lowest price, then the better reputation,
//! then the id, so that every validator decides alike.

pub mod catalogue;
mod change;
pub mod index;
mod model;
pub mod packing;
pub mod queue;
mod rule;
pub mod sharing;

pub use change::{Change, cheapest_change};
pub use rule::Rule;

use model::is_of_model;
use tg_types::{
    AccountId, Amount, Bps, Device, DurationMs, JobSpec, NodeDescriptor, NodeId, ProgramFacts,
    Proved, Work,
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

/// How good a fit is; the least is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Memory that the job does not need.
    memory_left_mib: u32,
    /// What the node asks for.
    price: Amount,
    /// What is missing to the best reputation.
    doubt: u16,
    /// The node.
    node: NodeId,
}

/// Milliseconds of an hour, in which prices of time are given.
const HOUR_MS: u128 = DurationMs::HOUR.get() as u128;

/// Multiply-adds in which prices of work are given.
const TERA: u128 = 1_000_000_000_000;

/// What a node asks for a run, rounded up; `None` if no amount is large enough.
pub fn price(
    spec: &JobSpec,
    facts: Option<&ProgramFacts>,
    offer: &NodeDescriptor,
) -> Option<Amount> {
    let (price, count, per) = match (&spec.work, facts) {
        (Work::Tensor { .. }, Some(facts)) => {
            // Elements are moved and rounded too: each counts as one more.
            let work = u128::from(facts.multiply_adds) + u128::from(facts.elements);
            (offer.price_per_tera, work, TERA)
        }
        (Work::Tensor { .. }, None) | (Work::Opaque { .. }, _) => {
            (offer.price_per_hour, u128::from(spec.run_max.get()), HOUR_MS)
        }
    };
    let units = u128::from(price.units()).checked_mul(count)?.div_ceil(per);
    Amount::new(u64::try_from(units).ok()?).ok()
}

/// Whether a node can be given a run, and how good that would be.
pub fn fit(ask: &Ask<'_>, offer: &Offer<'_>) -> Result<Rank, Rule> {
    for rule in Rule::ALL {
        if !rule.admits(ask, offer) {
            return Err(rule);
        }
    }
    let (spec, descriptor) = (ask.spec, offer.descriptor);
    let memory = offer.suitable_mib(spec).min();
    let left = memory.unwrap_or(u32::MAX).saturating_sub(spec.needs.memory_mib_min);
    let price = price(spec, ask.facts, descriptor).unwrap_or(Amount::CAP);
    let doubt = Bps::WHOLE.points().saturating_sub(offer.reputation.points());
    Ok(Rank { memory_left_mib: left, price, doubt, node: offer.node })
}

/// The place of the best node among these, if any fits.
pub fn choose<'a>(ask: &Ask<'_>, offers: impl IntoIterator<Item = Offer<'a>>) -> Option<usize> {
    let ranks = offers.into_iter().enumerate();
    let ranks = ranks.filter_map(|(place, offer)| Some((fit(ask, &offer).ok()?, place)));
    ranks.min().map(|(_, place)| place)
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
            Ok(_) => fitting += 1,
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

    /// The credited memories of the devices on which a job can run.
    fn suitable_mib(&self, spec: &JobSpec) -> impl Iterator<Item = u32> {
        let able = self.devices().filter(|(device, _)| is_able(spec, device));
        let credited = able.filter_map(|(_, credited)| credited);
        credited.filter(|mib| *mib >= spec.needs.memory_mib_min)
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
