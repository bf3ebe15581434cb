//! A made-up fleet and made-up tasks, the same for the same seed.
//!
//! Machines are of thirty kinds, from notebooks with one card to servers with eight, in 24 regions,
//! with owners, trust, prices, reliability, bandwidth and load drawn for each. Tasks are of several
//! hundred kinds: small and large inference, shares of a card, training on one to eight cards, and
//! work without any.

use tg_scheduler::catalogue::{Abilities, Catalogue, Tier};
use tg_scheduler::index::{Keys, NodeOffer, Purpose, TaskSpec};
use tg_scheduler::packing::Models;
use tg_scheduler::sharing::Modes;
use tg_types::{DeviceKind, Features, NodeId};

/// Regions in which machines stand.
const REGIONS: u64 = 24;
/// Models and data sets that machines keep.
const DATA_SETS: u64 = 4_096;
/// Kinds of tasks.
const KINDS: usize = 400;

/// Name, cards, cores, memory in GiB, and how many of all cards are in such machines.
const MACHINES: &[(&str, u8, u32, u32, u32)] = &[
    ("B200", 8, 224, 2_048, 2_000),
    ("H200", 8, 192, 2_048, 4_000),
    ("H100", 8, 192, 2_048, 8_000),
    ("H100-PCIE", 4, 96, 1_024, 1_200),
    ("A100-80GB", 8, 128, 1_024, 6_000),
    ("A100-80GB", 4, 64, 512, 2_000),
    ("A100-40GB", 8, 96, 1_024, 3_000),
    ("A30", 4, 64, 256, 1_600),
    ("L40S", 8, 128, 1_024, 4_000),
    ("L40S", 4, 64, 512, 2_000),
    ("L4", 8, 96, 384, 3_200),
    ("A10", 4, 64, 256, 2_400),
    ("T4", 4, 48, 192, 3_200),
    ("V100-32GB", 8, 96, 768, 4_000),
    ("MI300X", 8, 192, 2_048, 3_200),
    ("MI250", 4, 128, 512, 800),
    ("GAUDI-2", 8, 160, 1_024, 1_600),
    ("TPU-V5E", 8, 224, 384, 3_200),
    ("ASCEND-910B", 8, 192, 1_536, 1_600),
    ("RTX-A6000", 4, 64, 256, 2_000),
    ("RTX-6000-ADA", 4, 64, 512, 1_200),
    ("RTX-5090", 2, 32, 128, 2_000),
    ("RTX-4090", 8, 96, 512, 4_800),
    ("RTX-4090", 2, 32, 128, 4_000),
    ("RTX-4090", 1, 16, 64, 9_000),
    ("RTX-3090", 2, 24, 96, 3_000),
    ("RTX-3090", 1, 16, 64, 7_000),
    ("RTX-4080", 1, 16, 64, 4_000),
    ("RTX-3060", 1, 8, 32, 4_000),
    ("RX-7900-XTX", 1, 16, 64, 1_500),
    ("M3-ULTRA", 1, 32, 256, 500),
];

/// Numbers from a seed.
pub(crate) struct Draws(u64);

impl Draws {
    /// From this seed on.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    /// The next number (SplitMix64).
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn byte(&mut self, end: u64) -> u8 {
        u8::try_from(self.below(end)).unwrap_or(0)
    }

    /// Whether something of this chance in a hundred happens.
    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap_or(0)]
    }
}

/// What comes.
pub(crate) struct Workload {
    catalogue: Catalogue,
    draws: Draws,
    kinds: Vec<TaskSpec>,
    weights: Vec<u64>,
}

impl Workload {
    /// What comes for a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let catalogue = Catalogue::builtin();
        let mut draws = Draws::new(seed);
        let kinds: Vec<TaskSpec> = (0..KINDS).map(|_| kind(&catalogue, &mut draws)).collect();
        // A few kinds are most of what comes, as in all traces of real clusters.
        let mut sum = 0;
        let weights = (1..=KINDS as u64).map(|rank| {
            sum += 100_000 / (rank + 9);
            sum
        });
        Self { weights: weights.collect(), catalogue, draws, kinds }
    }

    /// Machines with so many cards together.
    pub(crate) fn fleet(&mut self, gpus: u64) -> Vec<(NodeId, NodeOffer)> {
        let mut nodes = Vec::new();
        let all: u64 = MACHINES.iter().map(|machine| u64::from(machine.4)).sum();
        for machine in MACHINES {
            let (cards, share) = (u64::from(machine.1), u64::from(machine.4));
            for _ in 0..(gpus * share).div_ceil(all * cards) {
                nodes.push(self.node(*machine));
            }
        }
        // A tenth more machines have processors only.
        for _ in 0..nodes.len() / 10 {
            nodes.push(self.node(("none", 0, 64, 256, 0)));
        }
        nodes
    }

    /// One more machine of any kind.
    pub(crate) fn any_node(&mut self) -> (NodeId, NodeOffer) {
        let machine = self.draws.pick(MACHINES);
        self.node(machine)
    }

    fn node(&mut self, machine: (&str, u8, u32, u32, u32)) -> (NodeId, NodeOffer) {
        let (name, count, cores, ram_gib, _) = machine;
        let models = self.catalogue.models();
        let found = models.iter().position(|model| model.name == name);
        let model = found.map(|place| &models[place]);
        let draws = &mut self.draws;
        let mut id = [0; 32];
        for bytes in id.chunks_mut(8) {
            bytes.copy_from_slice(&draws.next().to_be_bytes());
        }
        let tier = model.map_or(0, |model| u8::try_from(model.tier.place()).unwrap_or(0));
        let is_farm = tier >= 3;
        let mut modes = Modes::WHOLE;
        if model.is_some_and(|it| it.maker == "nvidia") && draws.percent(40) {
            modes = if is_farm { Modes::MIG } else { Modes::MPS };
        }
        let speed = 10 + 6 * tier + draws.byte(2);
        let sets = if draws.percent(50) { draws.below(8) } else { 0 };
        let cached: Vec<u64> = (0..sets).map(|_| 1 + draws.below(DATA_SETS)).collect();
        let offer = NodeOffer {
            owner: draws.below(5_000),
            kind: model.map_or(DeviceKind::Cpu, |model| model.kind),
            model: found.and_then(|place| u8::try_from(place).ok()).unwrap_or(u8::MAX),
            count,
            memory_mib: model.map_or(0, |model| model.memory_mib),
            abilities: model.map_or(Abilities::NONE, |model| model.abilities),
            features: if draws.percent(70) { Features::SANDBOX } else { Features::NONE },
            modes,
            cpu_milli: cores * 1_000,
            ram_mib: ram_gib * 1_024,
            region: draws.byte(REGIONS),
            trust: draws.byte(3) + u8::from(is_farm),
            privacy: u8::from(is_farm && draws.percent(50)),
            speed,
            price: speed - 3 + draws.byte(6),
            reliability: 15 - draws.byte(4) - if is_farm { 0 } else { draws.byte(6) },
            bandwidth: if is_farm { 5 + draws.byte(3) } else { 1 + draws.byte(4) },
            load: if draws.percent(80) { 0 } else { draws.byte(4) },
            load_held: 0,
            spare: 0,
            is_open: true,
            cached: Keys::new(cached),
        };
        (NodeId::new(id), offer)
    }

    /// The next task.
    pub(crate) fn task(&mut self) -> TaskSpec {
        let most = self.weights.last().copied().unwrap_or(1);
        let drawn = self.draws.below(most);
        let place = self.weights.partition_point(|sum| *sum <= drawn);
        let mut spec = self.kinds[place.min(KINDS - 1)].clone();
        if spec.purpose == Purpose::Inference && self.draws.percent(20) {
            spec.data = 1 + self.draws.below(DATA_SETS);
        }
        spec
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.draws.below(end)
    }
}

/// A kind of task.
fn kind(catalogue: &Catalogue, draws: &mut Draws) -> TaskSpec {
    let purpose = match draws.below(10) {
        0..5 => Purpose::Inference,
        5..8 => Purpose::Batch,
        _ => Purpose::Training,
    };
    let (gpus, share_milli) = match purpose {
        Purpose::Inference if draws.percent(50) => (1, draws.pick(&[100, 140, 250, 280, 400, 500])),
        Purpose::Inference => (draws.pick(&[1, 1, 1, 1, 2, 4]), 0),
        Purpose::Batch if draws.percent(20) => (0, 0),
        Purpose::Batch => (draws.pick(&[1, 1, 1, 2]), 0),
        Purpose::Training => (draws.pick(&[1, 1, 2, 4, 8]), 0),
    };
    let each = u32::from(gpus.max(1));
    let memory_gib = match purpose {
        Purpose::Inference => draws.pick(&[4, 6, 10, 16, 22]),
        Purpose::Batch => draws.pick(&[6, 10, 16, 24]),
        Purpose::Training => draws.pick(&[16, 24, 40, 64]),
    };
    let regions = if draws.percent(30) {
        let first = draws.below(REGIONS / 8) * 8;
        0xff << first
    } else {
        u64::MAX
    };
    let models = if draws.percent(20) {
        let tier = if purpose == Purpose::Training { Tier::Datacentre } else { Tier::Consumer };
        let wanted = (0..u8::MAX).zip(catalogue.models()).filter(|(_, it)| it.tier >= tier);
        wanted.fold(Models::NONE, |all, (number, _)| all.with(number))
    } else {
        Models::ANY
    };
    let abilities = match draws.below(4) {
        0 => Abilities::TENSOR,
        1 => Abilities::BF16,
        2 => Abilities::INT8,
        _ => Abilities::NONE,
    };
    let mut task = TaskSpec {
        cpu_milli: each * draws.pick(&[1_000, 2_000, 4_000, 6_000, 8_000]),
        ram_mib: each * 1_024 * draws.pick(&[4, 8, 16, 24, 32]),
        gpus,
        share_milli,
        memory_mib: if gpus > 0 { memory_gib * 1_024 } else { 0 },
        regions,
        trust_min: draws.pick(&[0, 0, 0, 0, 1, 1, 2]),
        privacy: u8::from(draws.percent(5)),
        speed_min: draws.pick(&[0, 0, 0, 16, 22]),
        price_max: draws.pick(&[63, 63, 40, 36, 30]),
        bandwidth_min: draws.pick(&[0, 0, 0, 2, 4]),
        kind: if draws.percent(50) && gpus > 0 { Some(DeviceKind::Gpu) } else { None },
        models,
        abilities: if gpus > 0 { abilities } else { Abilities::NONE },
        features: if draws.percent(10) { Features::SANDBOX } else { Features::NONE },
        may_share: draws.percent(30),
        purpose,
        home: draws.byte(REGIONS),
        near: 0,
        packs: false,
        data: 0,
        excluded: Keys::default(),
    };
    task.near = 0xff << (task.home / 8 * 8); // eight regions in a row are near each other
    task
}
