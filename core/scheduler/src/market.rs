//! Jobs and nodes of the ledger in the terms of the index: which node is given a run.
//!
//! The rules decide exactly ([`fit`]); the index only knows steps and numbers of what they are
//! about, chosen so that it never leaves out a node that fits. It walks down its rankings and asks
//! the rules about every node that would be better than the best so far: what it finds is the best
//! of all that fit.
//!
//! Runs that hold GPUs have a market of their own: there a stall is all equal GPUs of a node with
//! what is left of each, and the score counts what a run would leave of them for the tasks that
//! usually come ([`GpuMix`]).
//!
//! A market is made of what nodes offer and of nothing else. One made anew decides the same, as
//! long as no owner has lost its last stake: such nodes have no part in a new one.

mod gpus;
mod names;
mod standing;

pub use gpus::GpuMix;
pub use names::Names;
pub use standing::{Contest, Gain, Standing};

use crate::catalogue::Abilities;
use crate::index::{Event, Index, Keys, NOWHERE, NodeOffer, Purpose, STALLS_MAX, TaskSpec};
use crate::pace::{DeviceClass, Paces};
use crate::packing::{GPUS_MAX, Models};
use crate::{Ask, Measure, Meter, Nearness, Offer, Pricing, fit};
use names::Meant;
use std::cell::Cell;
use std::collections::BTreeSet;
use tg_types::{Amount, DeviceKind, GpuAsk, HostPart, Name, Needs, NodeDescriptor, NodeId, Work};

/// The step of the price in the middle, and of all speeds: how fast devices fill memory says little
/// of how fast they run a program. What runs of the same work took is in [`Paces`].
const MIDDLE: u8 = 32;
/// The largest step of a price.
const STEP_MAX: i64 = 63;
/// The number that all regions share for which there is none of their own.
const REGION_LAST: u8 = 63;
/// The most load that counts.
const LOAD_MAX: u32 = 7;
/// The most reliability that counts.
const RELIABILITY_MAX: u32 = 15;
/// What it takes to compare two names, at worst.
const STEPS_PER_COMPARISON: usize = 32;
/// The rules compare a device's name so often with the one that is asked for.
const COMPARISONS: usize = 4;
/// What the rules take otherwise, for a node and for each of its devices.
const STEPS_PER_NODE: usize = 16;
const STEPS_PER_DEVICE: usize = 4;
/// What it takes to see what is left of equal devices.
const STEPS_PER_UNITS: usize = 32;
/// What it takes to change a stall.
const STEPS_PER_CHANGE: usize = 64;

/// Nodes that take runs at prices of one kind.
#[derive(Debug)]
pub struct Market {
    index: Index,
    pricing: Pricing,
    /// Whether it is that of runs that hold GPUs.
    is_of_gpus: bool,
    /// The price in the middle of all, in quarter octaves.
    middle: i64,
    /// By name; all after the last number share it.
    regions: Vec<Name>,
    /// What nodes offer, as the index has it.
    stalls: Vec<Vec<Stall>>,
    /// Nodes with more devices than stalls. They are asked one by one if nobody else fits.
    crowded: Vec<usize>,
    /// Nodes of owners without stake. They are asked if nobody else fits and nothing is at risk.
    unstaked: Vec<usize>,
    /// What the rules have said of each node, and to which question.
    answers: Vec<Cell<(u64, bool)>>,
    /// How many questions there were.
    questions: u64,
}

/// A device, or several that are alike, of a node.
#[derive(Debug)]
struct Stall {
    id: NodeId,
    /// The number of the device's name.
    name: u16,
    /// The place of the device in the node's offer.
    device: u8,
    offer: NodeOffer,
}

impl Stall {
    /// The class of its device.
    const fn class(&self) -> DeviceClass {
        DeviceClass { kind: self.offer.kind, model: self.offer.model }
    }
}

/// A node for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its place among the nodes of the market.
    pub number: usize,
    /// The class of the device for which it was chosen.
    pub class: Option<DeviceClass>,
}

impl Market {
    /// The market of these nodes, known by their places from now on. What it takes is bounded by
    /// the number of nodes. Those that have shown or staked nothing have no part in it: they would
    /// set prices and make searches long at no cost.
    pub fn new<'a>(
        pricing: Pricing,
        names: &mut Names,
        offers: impl Iterator<Item = Offer<'a>> + Clone,
    ) -> Self {
        Self::made(pricing, None, names, offers)
    }

    /// The market of these nodes for runs that hold GPUs, in the light of what usually comes.
    pub fn of_gpus<'a>(
        mix: &GpuMix,
        names: &mut Names,
        offers: impl Iterator<Item = Offer<'a>> + Clone,
    ) -> Self {
        Self::made(Pricing::Hour, Some(mix), names, offers)
    }

    /// The market in which a job is placed.
    pub fn for_job<'a>(
        ask: &Ask<'_>,
        mix: &GpuMix,
        names: &mut Names,
        offers: impl Iterator<Item = Offer<'a>> + Clone,
    ) -> Self {
        match ask.spec.held_gpus() {
            GpuAsk::Usual => Self::new(Pricing::of_job(ask.spec, ask.facts), names, offers),
            GpuAsk::Whole { .. } | GpuAsk::Part { .. } => Self::of_gpus(mix, names, offers),
        }
    }

    fn made<'a>(
        pricing: Pricing,
        mix: Option<&GpuMix>,
        names: &mut Names,
        offers: impl Iterator<Item = Offer<'a>> + Clone,
    ) -> Self {
        let earnest = || offers.clone().filter(Offer::is_earnest).map(|offer| offer.descriptor);
        let mut prices: Vec<i64> = earnest().map(|it| pricing.step_of(it)).collect();
        prices.sort_unstable();
        let regions: BTreeSet<&Name> = earnest().map(|it| &it.region).collect();
        let mut market = Self {
            index: Index::new(),
            pricing,
            is_of_gpus: mix.is_some(),
            middle: prices.get(prices.len() / 2).copied().unwrap_or(0),
            regions: regions.into_iter().cloned().collect(),
            stalls: Vec::new(),
            crowded: Vec::new(),
            unstaked: Vec::new(),
            answers: Vec::new(),
            questions: 0,
        };
        for (number, offer) in offers.enumerate() {
            let stalls = market.stalls_of(names, number, &offer);
            for stall in &stalls {
                let (node, offer) = (stall.id, Box::new(stall.offer.clone()));
                let joined = market.index.apply(Event::NodeJoined { node, offer });
                joined.expect("all numbers are in their range");
            }
            market.stalls.push(stalls);
            market.occupy(number, &offer);
        }
        if let Some(mix) = mix {
            market.index.set_usual(mix.demands());
        }
        market.answers.resize(market.stalls.len(), Cell::default());
        market.index.settle();
        market
    }

    /// A node has more or fewer runs than before, or its owner another stake.
    pub fn update(&mut self, number: usize, offer: &Offer<'_>, meter: &Meter) {
        let Some(stalls) = self.stalls.get_mut(number) else { return };
        for Stall { id, offer: stall, .. } in stalls {
            let before = stall.clone();
            stall.follow(offer);
            if *stall != before {
                meter.add(STEPS_PER_CHANGE);
                let (node, offer) = (*id, Box::new(stall.clone()));
                let changed = self.index.apply(Event::NodeChanged { node, offer });
                changed.expect("all numbers are in their range");
                self.index.settle();
            }
        }
        if self.occupy(number, offer) {
            meter.add(STEPS_PER_CHANGE);
            self.index.settle();
        }
    }

    /// The best node for one more run. What is known of the time that it takes on classes of
    /// devices counts in the score; the draw decides between equals; `offer` says what a node
    /// offers now. Every node is asked once at most.
    pub fn find<'a>(
        &mut self,
        names: &mut Names,
        (ask, paces): (&Ask<'_>, &Paces),
        draw: u64,
        offer: impl Fn(usize) -> Option<Offer<'a>>,
        meter: &Meter,
    ) -> Option<Found> {
        let needs = &ask.spec.needs;
        let meant = needs.model.as_ref().map(|asked| names.meant(asked, meter));
        meter.add(needs.region.near().map_or(0, |_| self.regions.len().min(REGION_LAST.into())));
        let task = self.task(ask, meant.as_ref());
        let Self { index, stalls, crowded, unstaked, answers, questions, .. } = self;
        *questions += 1;
        let question = *questions;
        let is_fit = |number: usize| {
            meter.add(1);
            let Some(answer) = answers.get(number) else { return false };
            let (asked, is_fit) = answer.get();
            if asked == question {
                return is_fit;
            }
            let is_fit = offer(number).is_some_and(|offer| {
                meter.add(steps_of(ask, &offer));
                fit(ask, &offer).is_ok()
            });
            answer.set((question, is_fit));
            is_fit
        };
        let admits = |place: u64| {
            let (number, place) = node_and_place(place);
            let stall = stalls.get(number).and_then(|stalls| stalls.get(place));
            let is_meant =
                stall.is_some_and(|stall| meant.as_ref().is_none_or(|it| it.has(stall.name)));
            is_meant && is_fit(number)
        };
        let found = task.and_then(|task| index.best((task, paces), draw, meter, admits));
        if let Some(place) = found {
            let (number, place) = node_and_place(place);
            let stall = stalls.get(number).and_then(|stalls| stalls.get(place));
            return Some(Found { number, class: stall.map(Stall::class) });
        }
        let unstaked = if ask.bond == Amount::ZERO { unstaked.as_slice() } else { &[] };
        [crowded.as_slice(), unstaked].into_iter().find_map(|aside| {
            let turn = draw.checked_rem(aside.len() as u64).unwrap_or(0);
            let (before, after) = aside.split_at(usize::try_from(turn).unwrap_or(0));
            let number = after.iter().chain(before).copied().find(|number| is_fit(*number))?;
            Some(Found { number, class: offer(number)?.class_for(ask.spec) })
        })
    }

    /// What a job asks for; `None` if no node of the index can have it.
    fn task(&self, ask: &Ask<'_>, meant: Option<&Meant>) -> Option<TaskSpec> {
        let needs = &ask.spec.needs;
        let gpus::Wanted { gpus, share_milli, may_share } = gpus::wanted(ask.spec);
        let region = match needs.region.only() {
            Some(region) => Some(self.region(region)?),
            None => None,
        };
        let (home, near) = self.home(needs);
        let limit = Measure::of(ask.spec, ask.facts).price_max(ask.spec.pay);
        Some(TaskSpec {
            cpu_milli: 0,
            ram_mib: 0,
            gpus,
            share_milli,
            memory_mib: needs.memory_mib_min,
            regions: region.map_or(u64::MAX, |region| 1 << region),
            trust_min: stake_step(ask.bond),
            privacy: 0,
            speed_min: 0,
            price_max: self.step(quarter_octaves(limit)),
            bandwidth_min: 0,
            kind: needs.kind,
            models: meant.map_or(Models::ANY, |meant| meant.models),
            abilities: Abilities::NONE,
            features: needs.features,
            may_share,
            purpose: match ask.spec.work {
                Work::Tensor { .. } => Purpose::Inference,
                Work::Opaque { .. } => Purpose::Batch,
            },
            home,
            near,
            data: 0,
            packs: needs.host != HostPart::NONE,
            excluded: Keys::default(),
        })
    }

    /// The devices of a node with which it is credited, those that are alike once.
    fn stalls_of(&mut self, names: &mut Names, number: usize, offer: &Offer<'_>) -> Vec<Stall> {
        let mut stalls: Vec<Stall> = Vec::new();
        if !offer.is_earnest() {
            self.unstaked.extend(offer.is_shown().then_some(number));
            return stalls;
        }
        let mut seen = BTreeSet::new();
        for (place, (device, credited)) in (0..).zip(offer.devices()) {
            let Some(memory_mib) = credited else { continue };
            let features = device.features;
            let is_known = !seen.insert((device.kind, &device.model, memory_mib, features));
            if self.is_of_gpus && device.kind != DeviceKind::Gpu || !self.is_of_gpus && is_known {
                continue;
            }
            let Some(id) = place_of(number, stalls.len()) else {
                self.crowded.push(number);
                break;
            };
            let (name, model) = names.of(device, memory_mib);
            let Some((count, modes)) = self.shape_of(device, model) else {
                self.crowded.push(number);
                break;
            };
            let mut stall = NodeOffer {
                owner: id,
                kind: device.kind,
                model,
                count,
                memory_mib,
                abilities: Abilities::NONE,
                features,
                modes,
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
                load_held: 0,
                spare: 0,
                is_open: false,
                cached: Keys::default(),
            };
            stall.follow(offer);
            stalls.push(Stall { id: stall_id(id), name, device: place, offer: stall });
        }
        stalls
    }

    /// The number of a region; `None` if no node stands there.
    fn region(&self, name: &Name) -> Option<u8> {
        let place = self.regions.binary_search(name).ok()?;
        Some(u8::try_from(place).unwrap_or(REGION_LAST).min(REGION_LAST))
    }

    /// The number of the region where the client or its data are, and those of regions near it, as
    /// bits. What has no number of its own counts as far.
    fn home(&self, needs: &Needs) -> (u8, u64) {
        let home = needs.region.near();
        let numbered = || (0..REGION_LAST).zip(&self.regions);
        let at = |nearness| {
            let found = numbered().filter(move |(_, it)| Nearness::of(home, it) == nearness);
            found.map(|(number, _)| number)
        };
        let near = at(Nearness::Near).fold(0, |bits, number| bits | 1 << number);
        (at(Nearness::Same).next().unwrap_or(NOWHERE), near)
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
        let load = |runs: u32| small((LOAD_MAX * runs / slots.max(1)).min(LOAD_MAX));
        let holders = u32::try_from(offer.hosted.len()).unwrap_or(u32::MAX);
        self.load = load(running);
        self.load_held = self.load.saturating_sub(load(running.saturating_sub(holders)));
        self.spare = offer.spare();
        self.is_open = offer.is_present && offer.descriptor.is_open && running < slots;
    }
}

impl Pricing {
    /// What a node asks for, in quarter octaves.
    fn step_of(self, descriptor: &NodeDescriptor) -> i64 {
        quarter_octaves(self.of(descriptor).units())
    }
}

impl Offer<'_> {
    /// Whether any device is credited.
    fn is_shown(&self) -> bool {
        self.devices().any(|(_, credited)| credited.is_some())
    }

    /// Whether there is something behind it.
    fn is_earnest(&self) -> bool {
        self.stake_free > Amount::ZERO && self.is_shown()
    }
}

/// What it takes to try all rules, in steps of a [`Meter`].
pub fn steps_of(ask: &Ask<'_>, offer: &Offer<'_>) -> usize {
    let by_name = ask.spec.needs.model.as_ref().map_or(0, |_| COMPARISONS * STEPS_PER_COMPARISON);
    let devices = offer.descriptor.devices.as_slice().len();
    let hosted = if ask.spec.needs.host == HostPart::NONE { 0 } else { offer.hosted.len() };
    let usual = STEPS_PER_NODE + hosted + devices * (STEPS_PER_DEVICE + by_name);
    // What is kept is looked at whenever some of it begins.
    let slices = offer.kept.iter().map(|slot| slot.gpus.as_slice().len()).sum::<usize>();
    let kept = if slices == 0 { 0 } else { devices * offer.kept.len() * (GPUS_MAX + slices) };
    match ask.spec.held_gpus() {
        GpuAsk::Usual => usual,
        // Rules about GPUs look at all devices once more, and at what runs have of them.
        GpuAsk::Whole { .. } | GpuAsk::Part { .. } => {
            2 * usual + devices * (STEPS_PER_UNITS + offer.held.len()) + kept
        }
    }
}

/// The number of a stall; `None` if the node has as many as it may.
fn place_of(number: usize, place: usize) -> Option<u64> {
    let place = u64::try_from(place).ok().filter(|place| *place < STALLS_MAX)?;
    u64::try_from(number).ok()?.checked_mul(STALLS_MAX)?.checked_add(place)
}

/// The node of a stall and the stall's place there.
fn node_and_place(stall: u64) -> (usize, usize) {
    let small = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    (small(stall / STALLS_MAX), small(stall % STALLS_MAX))
}

/// How a stall is called in the index: its key is its number.
fn stall_id(number: u64) -> NodeId {
    let mut id = [0; 32];
    id.iter_mut().zip(number.to_be_bytes()).for_each(|(byte, part)| *byte = part);
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
