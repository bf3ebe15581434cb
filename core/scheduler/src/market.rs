//! Jobs and nodes of the ledger in the terms of the index: which node is given a run.
//!
//! The rules decide exactly ([`fit`]); the index only knows steps and numbers of what they are
//! about, chosen so that it never leaves out a node that fits. It walks down its rankings and asks
//! the rules about every node that would be better than the best so far: what it finds is the best
//! of all that fit.
//!
//! A market is made of what nodes offer and of nothing else. One made anew decides the same.

use crate::catalogue::{Abilities, Catalogue, UNLISTED};
use crate::index::{Event, Index, Keys, NOWHERE, NodeOffer, Purpose, TaskSpec};
use crate::packing::Models;
use crate::sharing::Modes;
use crate::{Ask, Measure, Offer, Pricing, fit, is_of_model};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use tg_types::node::DEVICES_MAX;
use tg_types::{Amount, Device, DeviceKind, Name, NodeDescriptor, NodeId, Work};

/// The step of the price in the middle, and of all speeds: how fast devices fill memory is measured
/// in block times, which are too coarse to give work by.
const MIDDLE: u8 = 32;
/// The largest step of a price.
const STEP_MAX: i64 = 63;
/// The number that all regions share for which there is none of their own.
const REGION_LAST: u8 = 63;
/// The most load that counts.
const LOAD_MAX: u32 = 7;
/// The most reliability that counts.
const RELIABILITY_MAX: u32 = 15;

/// Nodes that take runs at prices of one kind.
#[derive(Debug)]
pub struct Market {
    index: Index,
    pricing: Pricing,
    /// The price in the middle of all, in quarter octaves.
    middle: i64,
    /// By name; all after the last number share it.
    regions: Vec<Name>,
    /// What devices of a name go under, with the rows of the catalogue that have the name.
    models: BTreeMap<Name, Rows>,
    /// What was asked for and what that may be.
    asked: BTreeMap<Name, Models>,
    /// What nodes offer, as the index has it.
    stalls: Vec<Vec<(NodeId, NodeOffer)>>,
}

/// Rows of the catalogue with the name of a device.
#[derive(Debug, Default)]
struct Rows {
    rows: Vec<u8>,
    /// Under which numbers such devices stand in the index.
    used: BTreeSet<u8>,
}

impl Market {
    /// The market of these nodes, known by their places from now on.
    pub fn new<'a>(pricing: Pricing, offers: impl Iterator<Item = Offer<'a>> + Clone) -> Self {
        let descriptors = || offers.clone().map(|offer| offer.descriptor);
        let mut prices: Vec<i64> = descriptors().map(|it| pricing.step_of(it)).collect();
        prices.sort_unstable();
        let mut market = Self {
            index: Index::new(),
            pricing,
            middle: prices.get(prices.len() / 2).copied().unwrap_or(0),
            regions: Vec::new(),
            models: BTreeMap::new(),
            asked: BTreeMap::new(),
            stalls: Vec::new(),
        };
        let regions: BTreeSet<&Name> = descriptors().map(|it| &it.region).collect();
        market.regions = regions.into_iter().cloned().collect();
        let catalogue = Catalogue::builtin();
        for (number, offer) in (0..).zip(offers) {
            let stalls = market.stalls_of(&catalogue, number, &offer);
            for (node, stall) in &stalls {
                let (node, offer) = (*node, Box::new(stall.clone()));
                let joined = market.index.apply(Event::NodeJoined { node, offer });
                joined.expect("all numbers are in their range");
            }
            market.stalls.push(stalls);
        }
        market
    }

    /// A node has more or fewer runs than before, or its owner another stake.
    pub fn update(&mut self, number: usize, offer: &Offer<'_>) {
        let Some(stalls) = self.stalls.get_mut(number) else { return };
        for (node, stall) in stalls {
            let before = stall.clone();
            stall.follow(offer);
            if *stall != before {
                let (node, offer) = (*node, Box::new(stall.clone()));
                let changed = self.index.apply(Event::NodeChanged { node, offer });
                changed.expect("all numbers are in their range");
            }
        }
    }

    /// The best node for one more run, by its place. The draw decides between equals; `offer` says
    /// what a node offers now, and `tries` counts how often it was asked.
    pub fn find<'a>(
        &mut self,
        ask: &Ask<'_>,
        draw: u64,
        offer: impl Fn(usize) -> Option<Offer<'a>>,
        tries: &Cell<u32>,
    ) -> Option<usize> {
        let task = self.task(ask)?;
        let admits = |number: u64| {
            tries.set(tries.get().saturating_add(1));
            let offer = usize::try_from(number).ok().and_then(&offer);
            offer.is_some_and(|offer| fit(ask, &offer).is_ok())
        };
        let found = self.index.best(task, draw, admits)?;
        usize::try_from(found).ok()
    }

    /// What a job asks for; `None` if no node can have it.
    fn task(&mut self, ask: &Ask<'_>) -> Option<TaskSpec> {
        let needs = &ask.spec.needs;
        let region = match &needs.region {
            Some(region) => Some(self.region(region)?),
            None => None,
        };
        let limit = Measure::of(ask.spec, ask.facts).price_max(ask.spec.pay);
        Some(TaskSpec {
            cpu_milli: 0,
            ram_mib: 0,
            gpus: 1,
            share_milli: 0,
            memory_mib: needs.memory_mib_min,
            regions: region.map_or(u64::MAX, |region| 1 << region),
            trust_min: stake_step(ask.bond),
            privacy: 0,
            speed_min: 0,
            price_max: self.step(quarter_octaves(limit)),
            bandwidth_min: 0,
            kind: needs.kind,
            models: needs.model.as_ref().map_or(Models::ANY, |model| self.models_of(model)),
            abilities: Abilities::NONE,
            features: needs.features,
            may_share: false,
            purpose: match ask.spec.work {
                Work::Tensor { .. } => Purpose::Inference,
                Work::Opaque { .. } => Purpose::Batch,
            },
            home: region.unwrap_or(NOWHERE),
            data: 0,
            excluded: Keys::default(),
        })
    }

    /// The devices of a node with which it is credited.
    fn stalls_of(
        &mut self,
        catalogue: &Catalogue,
        number: u64,
        offer: &Offer<'_>,
    ) -> Vec<(NodeId, NodeOffer)> {
        let mut stalls = Vec::new();
        for (place, (device, credited)) in (0..).zip(offer.devices()) {
            let Some(memory_mib) = credited else { continue };
            let mut stall = NodeOffer {
                owner: number,
                kind: device.kind,
                model: self.model(catalogue, device, memory_mib),
                count: 1,
                memory_mib,
                abilities: Abilities::NONE,
                features: device.features,
                modes: Modes::WHOLE,
                cpu_milli: 0,
                ram_mib: 0,
                region: self.region(&offer.descriptor.region).unwrap_or(REGION_LAST),
                trust: 0,
                privacy: 0,
                speed: MIDDLE,
                price: self.step(self.pricing.step_of(offer.descriptor)),
                reliability: 0,
                bandwidth: 0,
                load: 0,
                is_open: false,
                cached: Keys::default(),
            };
            stall.follow(offer);
            stalls.push((stall_id(number, place), stall));
        }
        stalls
    }

    /// The number of a region; `None` if no node stands there.
    fn region(&self, name: &Name) -> Option<u8> {
        let place = self.regions.binary_search(name).ok()?;
        Some(u8::try_from(place).unwrap_or(REGION_LAST).min(REGION_LAST))
    }

    /// The number of a device's model, and a note of it for those who ask by name. A memory that no
    /// such device has makes it one that is not listed.
    fn model(&mut self, catalogue: &Catalogue, device: &Device, memory_mib: u32) -> u8 {
        if !self.models.contains_key(&device.model) {
            let rows = match device.kind {
                DeviceKind::Cpu => Vec::new(), // the catalogue has none
                DeviceKind::Gpu | DeviceKind::Accelerator => catalogue.named(device.model.as_str()),
            };
            self.models.insert(device.model.clone(), Rows { rows, used: BTreeSet::new() });
        }
        let rows = self.models.entry(device.model.clone()).or_default();
        let number = catalogue.nearest(&rows.rows, memory_mib);
        let is_it = catalogue.get(number).is_some_and(|model| model.kind == device.kind);
        let is_it = is_it && catalogue.is_plausible(number, memory_mib);
        let number = if is_it { number } else { UNLISTED };
        rows.used.insert(number);
        number
    }

    /// The numbers under which models that may be meant stand in the index.
    fn models_of(&mut self, asked: &Name) -> Models {
        if let Some(known) = self.asked.get(asked) {
            return *known;
        }
        let meant = self.models.iter().filter(|(name, _)| is_of_model(asked, name));
        let numbers = meant.flat_map(|(_, rows)| rows.used.iter().copied());
        let found = numbers.fold(Models::NONE, Models::with);
        self.asked.insert(asked.clone(), found);
        found
    }

    /// A price in quarter octaves as a step around the middle.
    fn step(&self, price: i64) -> u8 {
        let step = i64::from(MIDDLE) + price - self.middle;
        u8::try_from(step.clamp(0, STEP_MAX)).unwrap_or(MIDDLE)
    }
}

impl NodeOffer {
    /// Takes over what changes while jobs are placed.
    fn follow(&mut self, offer: &Offer<'_>) {
        let (running, slots) = (u32::from(offer.running), u32::from(offer.descriptor.slots));
        let reputation = u32::from(offer.reputation.points());
        let small = |number: u32| u8::try_from(number).unwrap_or(0);
        self.trust = stake_step(offer.stake_free);
        self.reliability = small((reputation * RELIABILITY_MAX / 10_000).min(RELIABILITY_MAX));
        self.load = small((LOAD_MAX * running / slots.max(1)).min(LOAD_MAX));
        self.is_open = offer.is_present && offer.descriptor.is_open && running < slots;
    }
}

impl Pricing {
    /// What a node asks for, in quarter octaves.
    fn step_of(self, descriptor: &NodeDescriptor) -> i64 {
        quarter_octaves(self.of(descriptor).units())
    }
}

/// How a device of a node is called in the index: every one differently.
fn stall_id(number: u64, device: u64) -> NodeId {
    let mut id = [0; 32];
    let place = number * DEVICES_MAX as u64 + device;
    // Names order equals, so they are spread evenly and do not follow the list of nodes.
    let spread = crate::index::scramble(place).to_be_bytes();
    id.iter_mut().zip(spread).for_each(|(byte, spread)| *byte = spread);
    NodeId::new(id)
}

/// A stake as far as markets tell it apart: the power of two below it, counted from 1; 0 for none.
/// Whoever keeps a market up to date has to tell it of other steps only.
pub fn stake_step(stake: Amount) -> u8 {
    u8::try_from(u64::BITS - stake.units().leading_zeros()).unwrap_or(u8::MAX)
}

/// Four times the logarithm of a number to base two, rounded down to a straight line between
/// powers; 0 for 0. It never falls when the number rises.
fn quarter_octaves(number: u64) -> i64 {
    let Some(whole) = number.checked_ilog2() else { return 0 };
    let quarters = (u128::from(number) << 2 >> whole) - 4;
    i64::from(whole) * 4 + i64::try_from(quarters).unwrap_or(0)
}

#[cfg(test)]
mod tests;
