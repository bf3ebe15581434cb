//! What of a node stays the same while tasks come and go, and what that is worth to a task.
//!
//! Nodes with equal hardware are of one build, and of one class if all else is equal too. Rules
//! and the worth of a class are looked up once for a kind of task, not once for a node.

use super::cell::CellKey;
use super::facts::{NodeOffer, Purpose, TaskSpec, Wait};
use super::hash::Digest;
use crate::catalogue::{Abilities, Catalogue, Split, Tier};
use crate::pace::{DeviceClass, Paces};
use crate::packing::Shape;
use crate::sharing::{Device, Fraction, Modes, Take};
use std::collections::BTreeMap;
use tg_types::codec::Encode as _;
use tg_types::{DeviceKind, Features};

/// The hardware of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hardware {
    pub(super) kind: DeviceKind,
    pub(super) model: u8,
    pub(super) count: u8,
    pub(super) memory_mib: u32,
    abilities: Abilities,
    modes: Modes,
    pub(super) cpu_milli: u32,
    pub(super) ram_mib: u32,
}

/// What else tells nodes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Traits {
    region: u8,
    trust: u8,
    privacy: u8,
    speed: u8,
    price: u8,
    reliability: u8,
    bandwidth: u8,
    load: u8,
    load_held: u8,
    spare: u8,
    features: Features,
}

/// Nodes that are alike in all but what is left of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    pub(super) traits: Traits,
    pub(super) hash: u64,
    /// What it is worth to every task.
    pub(super) merit: i16,
}

/// The best that classes of a build have had: bounds that only spare work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    merit: i16,
    speed: u8,
    price: u8,
    bandwidth: u8,
}

impl Reach {
    fn with(self, traits: &Traits) -> Self {
        Self {
            merit: self.merit.max(traits.merit()),
            speed: self.speed.max(traits.speed),
            price: self.price.min(traits.price),
            bandwidth: self.bandwidth.max(traits.bandwidth),
        }
    }
}

/// Regions near each other, trust and secrecy of classes, coarsely: a set of bits that tells at
/// once if no class of a cell may run a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Zones(pub(super) u64);

impl Zones {
    /// Trust is told apart in so many steps.
    const TRUST: u8 = 4;

    /// The place of the bit of a class.
    pub(super) fn place(traits: &Traits) -> u8 {
        let trust = traits.trust.min(Self::TRUST - 1);
        let secrecy = traits.privacy & 1;
        (traits.region / 8 * Self::TRUST + trust) * 2 + secrecy
    }

    /// All bits of classes that may run a task.
    pub(super) fn of(spec: &TaskSpec) -> Self {
        let mut zones = 0;
        for area in (0..8_u8).filter(|area| spec.regions >> (8 * area) & 0xff != 0) {
            for trust in spec.trust_min.min(Self::TRUST - 1)..Self::TRUST {
                let first = (area * Self::TRUST + trust) * 2;
                zones |= if spec.privacy & 1 == 0 { 0b11 << first } else { 0b10 << first };
            }
        }
        Self(zones)
    }

    /// Whether the bit of a class is among them.
    pub(super) const fn contain(self, place: u8) -> bool {
        self.0 >> place & 1 != 0
    }

    /// Whether they have a bit in common.
    pub(super) const fn meet(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Nodes with equal hardware.
#[derive(Clone, Debug)]
pub(super) struct Build {
    pub(super) hardware: Hardware,
    pub(super) split: Split,
    /// `None` if it is not listed.
    tier: Option<Tier>,
    pub(super) classes: Vec<Class>,
    class_of: BTreeMap<Traits, u32>,
    /// How many nodes of each class there are.
    counts: Vec<u32>,
    /// The states that nodes have been in, as numbers of cells.
    pub(super) cells: Vec<u32>,
    pub(super) cell_of: BTreeMap<CellKey, u32>,
    /// Of the hardware.
    pub(super) hash: u64,
    /// The best that any class has had.
    pub(super) reach: Reach,
    /// Whether a kind of task that could run here may be waiting for room.
    pub(super) has_blocked: bool,
}

impl Hardware {
    pub(super) fn of(offer: &NodeOffer) -> Self {
        Self {
            kind: offer.kind,
            model: offer.model,
            count: offer.count,
            memory_mib: offer.memory_mib,
            abilities: offer.abilities,
            modes: offer.modes,
            cpu_milli: offer.cpu_milli,
            ram_mib: offer.ram_mib,
        }
    }

    pub(super) fn shape(&self) -> Shape {
        Shape {
            model: self.model,
            gpus: self.count,
            cpu_milli: self.cpu_milli,
            memory_mib: self.ram_mib,
        }
    }

    fn hash(&self) -> u64 {
        let more = [self.abilities.bits(), self.modes.bits(), self.kind.tag()];
        Digest::of(&[self.model.into(), self.count.into(), self.memory_mib.into()])
            .with(&[self.cpu_milli.into(), self.ram_mib.into()])
            .with(&more.map(u64::from))
            .get()
    }

    /// Whether a task of this kind could run on such hardware if all of it was free.
    pub(super) fn suits(&self, spec: &TaskSpec) -> bool {
        let has_devices = spec.gpus == 0
            || self.count >= spec.gpus
                && spec.kind.is_none_or(|kind| kind == self.kind)
                && spec.models.contains(self.model)
                && self.memory_mib >= spec.memory_mib
                && self.abilities.contains(spec.abilities);
        has_devices && self.cpu_milli >= spec.cpu_milli && self.ram_mib >= spec.ram_mib
    }

    /// What a task takes of the devices.
    pub(super) fn take(&self, split: Split, gpus: u8, asked: Fraction) -> Take {
        match (gpus, asked.milli) {
            (0, _) => Take::None,
            (count, 0) => Take::Whole(count),
            (_, _) => {
                let (modes, memory_mib) = (self.modes, self.memory_mib);
                Device { split, modes, memory_mib }.take(asked)
            }
        }
    }
}

impl Traits {
    pub(super) fn of(offer: &NodeOffer) -> Self {
        Self {
            region: offer.region,
            trust: offer.trust,
            privacy: offer.privacy,
            speed: offer.speed,
            price: offer.price,
            reliability: offer.reliability,
            bandwidth: offer.bandwidth,
            load: offer.load,
            load_held: offer.load_held,
            spare: offer.spare,
            features: offer.features,
        }
    }

    fn hash(&self, build: u64) -> u64 {
        let numbers = [
            self.region,
            self.trust,
            self.privacy,
            self.speed,
            self.price,
            self.reliability,
            self.bandwidth,
            self.load,
            self.load_held,
            self.spare,
        ];
        let features = self.features.to_bytes().into_iter().map(u64::from);
        let features: Vec<u64> = features.collect();
        Digest::of(&[build]).with(&numbers.map(u64::from)).with(&features).get()
    }

    /// What it is worth to every task: speed for the price, reliability, bandwidth and load.
    pub(super) fn merit(&self) -> i16 {
        self.value()
            + worth::RELIABILITY * i16::from(self.reliability)
            + worth::BANDWIDTH * i16::from(self.bandwidth)
            - worth::LOAD * i16::from(self.load)
    }

    /// What speed for the price is worth.
    fn value(&self) -> i16 {
        let steps = i16::from(self.speed) - i16::from(self.price);
        worth::VALUE * steps.clamp(-worth::VALUE_STEPS, worth::VALUE_STEPS)
    }

    /// What is lost because nodes stand away from the client or its data, or have much left that
    /// other tasks could use; or the rule that removes them.
    pub(super) fn away(&self, spec: &TaskSpec) -> Result<i32, Wait> {
        self.admit(spec)?;
        Ok(self.far(spec) + self.loose(spec))
    }

    /// What is lost by the way to the client or its data.
    fn far(&self, spec: &TaskSpec) -> i32 {
        let is_near = spec.near & 1_u64.checked_shl(self.region.into()).unwrap_or(0) != 0;
        let away = match (self.region == spec.home, is_near) {
            (true, _) => 0,
            (false, true) => worth::HOME / 2,
            (false, false) => worth::HOME,
        };
        if spec.purpose == Purpose::Inference { 2 * away } else { away }
    }

    /// What a task that holds processors or memory loses where it fits loosely. Others that hold
    /// theirs are no load to it, though [`Self::merit`] counts them: the fewer there are, the more
    /// is taken off.
    fn loose(&self, spec: &TaskSpec) -> i32 {
        if !spec.packs {
            return 0;
        }
        let others = worth::LOAD_MAX - self.load_held.min(worth::LOAD_MAX);
        i32::from(worth::LOAD) * i32::from(others) + worth::SPARE * i32::from(self.spare)
    }

    /// The rules that hardware has no part in.
    pub(super) fn admit(&self, spec: &TaskSpec) -> Result<(), Wait> {
        if spec.regions & 1_u64.checked_shl(self.region.into()).unwrap_or(0) == 0 {
            return Err(Wait::Region);
        }
        if !self.features.contains(spec.features) {
            return Err(Wait::Hardware);
        }
        if self.trust < spec.trust_min || self.privacy & spec.privacy != spec.privacy {
            return Err(Wait::Trust);
        }
        if spec.gpus > 0 && self.speed < spec.speed_min || self.bandwidth < spec.bandwidth_min {
            return Err(Wait::Speed);
        }
        if self.price > spec.price_max {
            return Err(Wait::Price);
        }
        Ok(())
    }
}

/// What one thing is worth against the others, in steps of the score: 64 thousandths of a GPU.
pub(super) mod worth {
    /// One tier more, to training. To inference, one less.
    pub(in super::super) const TIER: i32 = 4;
    /// The same for work that has time.
    pub(in super::super) const TIER_BATCH: i32 = 2;
    /// Tasks without devices leave nodes with some alone, as if these were so many tiers higher.
    pub(in super::super) const TIERS_SPARED: i32 = 3;
    /// One step more of speed for the price.
    pub(in super::super) const VALUE: i16 = 3;
    /// The most steps of speed for the price that count.
    pub(in super::super) const VALUE_STEPS: i16 = 8;
    /// One step more of reliability.
    pub(in super::super) const RELIABILITY: i16 = 1;
    /// The region of the client or its data; near it, half of that; twice as much to inference.
    pub(in super::super) const HOME: i32 = 6;
    /// One step more of bandwidth.
    pub(in super::super) const BANDWIDTH: i16 = 1;
    /// One step more of load, against it.
    pub(in super::super) const LOAD: i16 = 2;
    /// The most steps of load.
    pub(in super::super) const LOAD_MAX: u8 = 7;
    /// Half an octave more of processors and memory that are free, against it.
    pub(in super::super) const SPARE: i32 = 1;
    /// The task's model or data is there already.
    pub(in super::super) const CACHED: i32 = 12;
}

/// A part of the score in which nodes of a market differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScorePart {
    /// How scarce the device is, and whether the work is worth it.
    Tier,
    /// How far the node is from the client or its data.
    Region,
    /// What the node asks for.
    Price,
    /// How soon such devices do this work.
    Speed,
    /// What is known of the node's work.
    Reputation,
    /// How busy the node is.
    Load,
    /// What a run leaves of GPUs for the tasks that usually come, and how tightly it fits into
    /// what is free of processors and memory.
    Left,
}

impl ScorePart {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Tier,
        Self::Region,
        Self::Price,
        Self::Speed,
        Self::Reputation,
        Self::Load,
        Self::Left,
    ];

    /// The word programs branch on.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Tier => "tier",
            Self::Region => "region",
            Self::Price => "price",
            Self::Speed => "speed",
            Self::Reputation => "reputation",
            Self::Load => "load",
            Self::Left => "left",
        }
    }
}

/// The score of a place by its parts. What is left of a machine has a part in it only where runs
/// hold GPUs, processors or memory: otherwise it is the same for all nodes of a market.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score {
    tier: i32,
    region: i32,
    price: i32,
    speed: i32,
    reputation: i32,
    load: i32,
    left: i32,
}

impl Score {
    /// Of an offer to a task; `None` if they do not suit each other.
    pub(crate) fn of(
        offer: &NodeOffer,
        spec: &TaskSpec,
        paces: &Paces,
        catalogue: &Catalogue,
    ) -> Option<Self> {
        let (hardware, traits) = (Hardware::of(offer), Traits::of(offer));
        if !hardware.suits(spec) {
            return None;
        }
        traits.admit(spec).ok()?;
        let build = Build::new(hardware, catalogue);
        let (reputation, load) = (
            worth::RELIABILITY * i16::from(traits.reliability),
            worth::LOAD * i16::from(traits.load),
        );
        Some(Self {
            tier: build.base(spec),
            region: -traits.far(spec),
            price: traits.value().into(),
            speed: build.worth_of(paces),
            reputation: reputation.into(),
            load: -i32::from(load),
            left: -traits.loose(spec),
        })
    }

    /// With what is left of the machine.
    pub(crate) fn leaving(self, left: i16) -> Self {
        Self { left: self.left + i32::from(left), ..self }
    }

    /// One part.
    pub const fn part(&self, part: ScorePart) -> i32 {
        match part {
            ScorePart::Tier => self.tier,
            ScorePart::Region => self.region,
            ScorePart::Price => self.price,
            ScorePart::Speed => self.speed,
            ScorePart::Reputation => self.reputation,
            ScorePart::Load => self.load,
            ScorePart::Left => self.left,
        }
    }

    /// The sum of all parts.
    pub fn total(&self) -> i32 {
        ScorePart::ALL.into_iter().map(|part| self.part(part)).sum()
    }
}

impl Build {
    pub(super) fn new(hardware: Hardware, catalogue: &Catalogue) -> Self {
        let model = catalogue.get(hardware.model);
        Self {
            hardware,
            split: model.map_or(Split::None, |model| model.split),
            tier: match hardware.kind {
                DeviceKind::Cpu => Some(Tier::Consumer),
                DeviceKind::Gpu | DeviceKind::Accelerator => model.map(|model| model.tier),
            },
            classes: Vec::new(),
            class_of: BTreeMap::new(),
            counts: Vec::new(),
            cells: Vec::new(),
            cell_of: BTreeMap::new(),
            hash: hardware.hash(),
            reach: Reach { merit: i16::MIN, speed: 0, price: u8::MAX, bandwidth: 0 },
            has_blocked: true,
        }
    }

    /// The number of a class, new or known.
    pub(super) fn class(&mut self, traits: Traits) -> u32 {
        let (classes, build) = (&mut self.classes, self.hash);
        self.reach = self.reach.with(&traits);
        *self.class_of.entry(traits).or_insert_with(|| {
            let (hash, merit) = (traits.hash(build), traits.merit());
            classes.push(Class { traits, hash, merit });
            u32::try_from(classes.len() - 1).expect("no more classes than nodes")
        })
    }

    /// One node more or less of a class.
    pub(super) fn count(&mut self, class: u32, is_more: bool) {
        self.counts.resize(self.classes.len(), 0);
        let count = &mut self.counts[class as usize];
        *count = if is_more { *count + 1 } else { *count - 1 };
    }

    /// Whether there are nodes of a class.
    pub(super) fn is_present(&self, class: u32) -> bool {
        self.counts.get(class as usize).is_some_and(|count| *count > 0)
    }

    /// The classes of which there are nodes.
    pub(super) fn present(&self) -> impl Iterator<Item = (u32, &Traits)> {
        let counted = (0..).zip(self.classes.iter().zip(&self.counts));
        let present = counted.filter(|(_, (_, count))| **count > 0);
        present.map(|(class, (found, _))| (class, &found.traits))
    }

    /// The most merit that any class has had that may run a task; `None` if surely none may.
    pub(super) fn merit_max(&self, spec: &TaskSpec) -> Option<i32> {
        let Reach { merit, speed, price, bandwidth } = self.reach;
        let may_run = (spec.gpus == 0 || speed >= spec.speed_min)
            && price <= spec.price_max
            && bandwidth >= spec.bandwidth_min;
        may_run.then_some(merit.into())
    }

    /// What the time is worth that a task takes on such hardware.
    pub(super) fn worth_of(&self, paces: &Paces) -> i32 {
        let Hardware { kind, model, .. } = self.hardware;
        i32::from(worth::VALUE) * i32::from(paces.of(DeviceClass { kind, model }))
    }

    /// What such hardware is worth to a task, and at most the place where it stands.
    pub(super) fn base(&self, spec: &TaskSpec) -> i32 {
        // A name that is not listed must not be an advantage: who hides a model gains nothing.
        let unlisted = if spec.purpose == Purpose::Training { Tier::Entry } else { Tier::Flagship };
        let tier = self.tier.unwrap_or(unlisted).place();
        if spec.gpus == 0 && self.hardware.count > 0 {
            return worth::HOME - worth::TIER * (tier + worth::TIERS_SPARED);
        }
        match spec.purpose {
            Purpose::Training => worth::HOME + worth::TIER * tier,
            Purpose::Batch => worth::HOME - worth::TIER_BATCH * tier,
            Purpose::Inference => 2 * worth::HOME - worth::TIER * tier,
        }
    }
}
