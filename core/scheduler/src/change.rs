//! What a client could change so that a job finds a node: the answer to "why is my job waiting?".

use std::collections::BTreeSet;
use tg_types::node::Features;
use tg_types::{Amount, DeviceKind, HostPart, JobSpec, Name, Needs, RegionAsk};

use crate::{Ask, Offer, Rule, fit, price};

/// Machines of different sizes that are tried as less to ask for, the largest first: each is held
/// against all nodes.
const HOSTS_MAX: usize = 64;

/// A change with which a node fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Wait: a node that fits is busy, absent or closed.
    Wait(Rule),
    /// Pay a run at least this much.
    Pay(Amount),
    /// Accept any region.
    AnyRegion,
    /// Ask for this much memory at most.
    Memory(u32),
    /// Hold so much of a machine's processors and memory at most.
    Host(HostPart),
    /// Leave features out.
    AnyFeatures,
    /// Accept this model.
    Model(Name),
    /// Accept this kind of device.
    Kind(DeviceKind),
    /// Several at once: a job like this fits the best node there is.
    Several(Box<JobSpec>),
}

/// The cheapest change: waiting costs nothing, money less than giving up what was asked for, and
/// one change less than several. Among changes of a kind, the smallest.
pub fn cheapest_change(ask: &Ask<'_>, offers: &[Offer<'_>]) -> Option<Change> {
    let waiting: [&[Rule]; 5] =
        [&Rule::PASSING, &[Rule::Stake], &[Rule::Closed], &[Rule::Unproved], &[Rule::Absent]];
    for rules in waiting {
        let mut found = offers.iter().filter(|offer| fits_but_for(ask, offer, rules));
        if let Some(offer) = found.next() {
            let rule = rules.iter().find(|rule| !rule.admits(ask, offer));
            return rule.copied().map(Change::Wait);
        }
    }
    let lower_pay = offers.iter().filter(|offer| fits_but_for(ask, offer, &[Rule::Price]));
    let pay = lower_pay.filter_map(|offer| offer.lowest_price(ask)).min();
    if let Some(pay) = pay {
        return Some(Change::Pay(pay));
    }
    single(ask, offers).or_else(|| several(ask, offers))
}

/// Whether the node passes all rules but some.
fn fits_but_for(ask: &Ask<'_>, offer: &Offer<'_>, spared: &[Rule]) -> bool {
    let mut others = Rule::ALL.into_iter().filter(|rule| !spared.contains(rule));
    !spared.iter().all(|rule| rule.admits(ask, offer)) && others.all(|rule| rule.admits(ask, offer))
}

/// One of the needs given up.
fn single(ask: &Ask<'_>, offers: &[Offer<'_>]) -> Option<Change> {
    let would_fit = |change: &dyn Fn(&mut JobSpec)| {
        let mut spec = ask.spec.clone();
        change(&mut spec);
        let ask = Ask { spec: &spec, ..*ask };
        offers.iter().any(|offer| fit(&ask, offer).is_ok())
    };
    if would_fit(&|spec| spec.needs.region = RegionAsk::Any) {
        return Some(Change::AnyRegion);
    }
    let devices = || offers.iter().flat_map(|offer| offer.descriptor.devices.as_slice());
    let credited = offers.iter().flat_map(|offer| offer.devices().filter_map(|(_, mib)| mib));
    let offered = offers.iter().map(|offer| offer.descriptor.host.memory_mib);
    let mut memories: Vec<u32> = credited.chain(offered.filter(|mib| *mib > 0)).collect();
    memories.retain(|memory| *memory < ask.spec.needs.memory_mib_min);
    memories.sort_unstable();
    memories.dedup();
    let mut memories = memories.into_iter().rev();
    if let Some(memory) =
        memories.find(|memory| would_fit(&|spec| ask_for_memory(&mut spec.needs, *memory)))
    {
        return Some(Change::Memory(memory));
    }
    let asked = ask.spec.needs.host;
    let hosts = offers.iter().map(|offer| asked.at_most(offer.descriptor.host));
    let hosts: BTreeSet<HostPart> = hosts.filter(|host| *host != asked).collect();
    let mut hosts = hosts.into_iter().rev().take(HOSTS_MAX);
    if let Some(host) = hosts.find(|host| would_fit(&|spec| spec.needs.host = *host)) {
        return Some(Change::Host(host));
    }
    if would_fit(&|spec| spec.needs.features = Features::NONE) {
        return Some(Change::AnyFeatures);
    }
    let mut models: Vec<&Name> = devices().map(|device| &device.model).collect();
    models.sort_unstable();
    models.dedup();
    let mut models = models.into_iter();
    if let Some(model) =
        models.find(|model| would_fit(&|spec| spec.needs.model = Some((*model).clone())))
    {
        return Some(Change::Model(model.clone()));
    }
    let mut kinds = [DeviceKind::Cpu, DeviceKind::Gpu, DeviceKind::Accelerator].into_iter();
    kinds.find(|kind| would_fit(&|spec| spec.needs.kind = Some(*kind))).map(Change::Kind)
}

/// Asks for less memory. That of a processor is its machine's: who asks for as much of both has
/// asked once.
pub(crate) fn ask_for_memory(needs: &mut Needs, mib: u32) {
    if needs.host.memory_mib == needs.memory_mib_min {
        needs.host.memory_mib = mib;
    }
    needs.memory_mib_min = mib;
}

/// All needs given up for the cheapest node that is there.
fn several(ask: &Ask<'_>, offers: &[Offer<'_>]) -> Option<Change> {
    let is_reachable = |rule: Rule, offer: &Offer<'_>| rule.admits(ask, offer);
    // No need that is given up makes a node close later.
    let lasting = [Rule::Excluded, Rule::Closing];
    let reachable =
        offers.iter().filter(|offer| lasting.iter().all(|rule| is_reachable(*rule, offer)));
    let priced = reachable.filter_map(|offer| {
        let price = price(ask.spec, ask.facts, offer.descriptor)?;
        let memory = offer.devices().filter_map(|(_, credited)| credited).max()?;
        Some((price, offer.node, memory))
    });
    let (price, _, memory) = priced.min()?;
    let mut spec = ask.spec.clone();
    let memory_mib_min = memory.min(spec.needs.memory_mib_min);
    spec.needs = Needs { memory_mib_min, ..Needs::ANY };
    spec.pay = spec.pay.max(price);
    Some(Change::Several(Box::new(spec)))
}
