//! States of nodes, coarse enough that they come again and again.
//!
//! All nodes of one build in the same state are in one cell, and within it grouped by class. What
//! a cell is worth to a task that takes this much is found once, as long as the learned mix stays
//! the same. Whether a node has room is decided by what is really left of it.

use super::choose::NEVER;
use super::class::{Build, Class, Traits, Zones};
use super::hash::Digest;
use super::sorted::Sorted;
use crate::packing::{GPU_MILLI, GPUS_MAX, Machine, Mix};
use crate::sharing::{Gpu, STEPS, Take, profiles};
use std::cmp::{Ordering, Reverse};

/// Processor and memory are told apart in this many steps of what devices that are free would need
/// if everything was used evenly.
const LEVELS: u64 = 4;
/// Shares are told apart in so many steps of a device.
const SHARE_STEPS: u8 = 4;
/// Classes of a cell are kept in blocks of so many, a few lines of memory.
const BLOCK: usize = 16;
/// The score counts in steps of 64 thousandths of a GPU: the mix has 16 bits behind the point.
const STEP_BITS: u32 = 16 + 6;
/// The largest score either way.
const SCORE_MAX: i64 = 1_000;

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CellKey {
    /// Devices that nobody uses.
    whole: u8,
    /// Partitions that have room on devices in use, as bits.
    parts: u8,
    /// The largest share that has room on a device in use.
    share: u8,
    cpu: u8,
    ram: u8,
}

/// Nodes in one state.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) key: CellKey,
    pub(super) hash: u64,
    /// Its place among the cells of its build.
    pub(super) place: u32,
    /// Classes with nodes in this state, the worthiest first.
    pub(super) groups: Sorted<Standing, BLOCK>,
    zone_counts: Box<[u32; 64]>,
}

impl Cell {
    pub(super) fn new(key: CellKey, hash: u64, place: u32) -> Self {
        Self { key, hash, place, groups: Sorted::default(), zone_counts: Box::new([0; 64]) }
    }

    /// The group of a class. One that has none yet is added with a new group.
    pub(super) fn group_of(
        &mut self,
        standing: &Standing,
        top: &mut Top,
        new_group: impl FnOnce() -> u32,
    ) -> u32 {
        let place = match self.groups.search(standing) {
            Ok(known) => return known.group,
            Err(place) => place,
        };
        let standing = Standing { group: new_group(), ..*standing };
        self.zone_counts[usize::from(standing.zone)] += 1;
        top.zones.0 |= 1 << standing.zone;
        self.groups.insert_at(place, standing);
        top.merit = top.merit.max(standing.merit);
        standing.group
    }

    /// Takes a class away.
    pub(super) fn remove(&mut self, standing: &Standing, top: &mut Top) {
        let Some(removed) = self.groups.remove(standing) else { return };
        let count = &mut self.zone_counts[usize::from(removed.zone)];
        *count -= 1;
        if *count == 0 {
            top.zones.0 &= !(1 << removed.zone);
        }
        top.merit = self.groups.first().map_or(NEVER, |standing| standing.merit);
    }
}

/// What of a cell tells that a task need not look into it. All cells' are side by side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Top {
    /// The most merit of a class, [`NEVER`] if there is none.
    pub(super) merit: i16,
    /// The zones of all classes.
    pub(super) zones: Zones,
}

impl Top {
    /// That of a cell without nodes.
    pub(super) const NONE: Self = Self { merit: NEVER, zones: Zones(0) };
}

/// A class with nodes in a state. The worthiest come first, and no two of a cell are equal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// What the class is worth to every task.
    pub(super) merit: i16,
    pub(super) traits: Traits,
    /// The place of its bit among [`Zones`].
    pub(super) zone: u8,
    pub(super) class: u32,
    pub(super) group: u32,
    /// Of the class.
    pub(super) hash: u64,
}

impl Standing {
    /// In no group.
    pub(super) const NO_GROUP: u32 = u32::MAX;

    /// That of a node whose class is not known yet.
    pub(super) const fn unlisted(traits: Traits) -> Self {
        Self { merit: 0, traits, zone: 0, class: 0, group: Self::NO_GROUP, hash: 0 }
    }

    /// That of a class, in no group.
    pub(super) fn new(build: &Build, class: u32) -> Self {
        let Class { merit, traits, hash } = build.classes[class as usize];
        Self { merit, traits, zone: Zones::place(&traits), class, group: Self::NO_GROUP, hash }
    }

    fn order(&self) -> (Reverse<i16>, u32) {
        (Reverse(self.merit), self.class)
    }
}

impl PartialEq for Standing {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Standing {}

impl PartialOrd for Standing {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Standing {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// Which states have nodes, among those of a build.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    /// How many states with so many free devices have nodes.
    whole: [u32; GPUS_MAX + 1],
    /// Those counts that are not 0, as bits.
    bits: u32,
    /// States with room on devices in use.
    used: u32,
}

impl Room {
    /// A state has its first node, or none any more.
    pub(super) fn count(&mut self, key: &CellKey, is_more: bool) {
        let add = |count: &mut u32| *count = if is_more { *count + 1 } else { *count - 1 };
        let whole = usize::from(key.whole);
        add(&mut self.whole[whole]);
        if self.whole[whole] > 0 {
            self.bits |= 1 << whole;
        } else {
            self.bits &= !(1 << whole);
        }
        if key.parts != 0 || key.share != 0 {
            add(&mut self.used);
        }
    }

    /// Whether a node may have room for this, as far as devices are concerned.
    pub(super) fn may_have(&self, take: Take) -> bool {
        match take {
            Take::None => self.bits != 0,
            Take::Whole(count) => self.bits >> count != 0,
            Take::Part(_) | Take::Share(_) => self.used > 0 || self.bits >> 1 != 0,
        }
    }
}

/// What a task takes of a node of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Want {
    pub(super) take: Take,
    pub(super) cpu_milli: u32,
    pub(super) ram_mib: u32,
}

/// What is left of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) cpu_milli: u32,
    pub(super) ram_mib: u32,
    /// Devices beyond those that there are count as taken.
    pub(super) gpus: [Gpu; GPUS_MAX],
}

/// What a cell stands for: the least that its nodes have of devices, in thousandths.
#[derive(Clone, Copy)]
struct Devices {
    whole: u8,
    used: u16,
}

impl Devices {
    fn milli(self) -> u64 {
        u64::from(self.whole) * u64::from(GPU_MILLI) + u64::from(self.used)
    }
}

impl Want {
    /// As far as scores tell it from others.
    pub(super) fn coarse(self) -> Self {
        let (cpu_milli, ram_mib) = (coarse(self.cpu_milli), coarse(self.ram_mib));
        Self { take: self.take, cpu_milli, ram_mib }
    }
}

/// Rounded down to three binary digits.
pub(super) fn coarse(number: u32) -> u32 {
    let low = (32 - number.leading_zeros()).saturating_sub(3);
    number >> low << low
}

impl CellKey {
    pub(super) fn of(build: &Build, left: &Left) -> Self {
        let count = usize::from(build.hardware.count);
        let (mut whole, mut parts, mut share) = (0, 0, 0);
        for gpu in &left.gpus[..count] {
            if *gpu == Gpu::FREE {
                whole += 1;
            } else if *gpu != Gpu::TAKEN {
                parts |= gpu.parts_left(build.split);
                share = share.max(gpu.steps_left().div_ceil(SHARE_STEPS));
            }
        }
        let mut key = Self { whole, parts, share, cpu: 0, ram: 0 };
        let milli = key.devices(build).milli();
        let hardware = &build.hardware;
        key.cpu = level(left.cpu_milli, full(hardware.cpu_milli, milli, hardware.count));
        key.ram = level(left.ram_mib, full(hardware.ram_mib, milli, hardware.count));
        key
    }

    pub(super) fn hash(&self, build: u64) -> u64 {
        let numbers = [self.whole, self.parts, self.share, self.cpu, self.ram];
        Digest::of(&[build]).with(&numbers.map(u64::from)).get()
    }

    /// The steps of a device in use that are left at least.
    fn share_least(&self) -> u8 {
        self.share.checked_sub(1).map_or(0, |below| below * SHARE_STEPS + 1)
    }

    fn devices(&self, build: &Build) -> Devices {
        let parts = profiles(build.split).iter().enumerate();
        let parts = parts.filter(|(place, _)| self.parts & 1 << place != 0);
        let part = parts.map(|(_, profile)| profile.milli()).max().unwrap_or(0);
        let share = u16::from(self.share_least()) * (GPU_MILLI / u16::from(STEPS));
        Devices { whole: self.whole, used: part.max(share) }
    }

    /// Whether every node has room, as far as devices are concerned; if not, some may all the same.
    pub(super) fn surely_has(&self, build: &Build, take: Take) -> bool {
        match take {
            Take::None => true,
            Take::Whole(count) => self.whole >= count,
            Take::Part(profile) => {
                let place = profiles(build.split).iter().position(|other| *other == profile);
                self.whole > 0 || place.is_some_and(|place| self.parts & 1 << place != 0)
            }
            Take::Share(steps) => self.whole > 0 || self.share_least() >= steps,
        }
    }

    /// What a cell is worth to a task that takes this much; `None` if it fits none of its nodes.
    pub(super) fn rate(&self, build: &Build, mix: &Mix, want: &Want) -> Option<i16> {
        let hardware = &build.hardware;
        let before = self.devices(build);
        let after = self.after(before, build, want.take)?;
        let milli = before.milli();
        let all = [hardware.cpu_milli, hardware.ram_mib];
        let needed = [want.cpu_milli, want.ram_mib];
        let mut had = [0; 2];
        for (place, level) in [self.cpu, self.ram].into_iter().enumerate() {
            let full = full(all[place], milli, hardware.count);
            had[place] = enough(level, full, all[place], needed[place])?;
        }
        let shape = hardware.shape();
        let [cpu, ram] = had;
        let machine = |devices: [Devices; 1], new: u16, cpu, ram| {
            let [Devices { whole, used }] = devices;
            let mut free = [0; GPUS_MAX];
            free[..usize::from(whole)].fill(GPU_MILLI);
            for (left, place) in [used, new].into_iter().zip(usize::from(whole)..) {
                if let Some(free) = free.get_mut(place) {
                    *free = left;
                }
            }
            Machine::left(shape, cpu, ram, &free)
        };
        let before = machine([before], 0, cpu, ram);
        let (devices, new) = after;
        let left = machine([devices], new, cpu - want.cpu_milli, ram - want.ram_mib);
        let gain = mix.loss(&before) - mix.loss(&left);
        let price = mix.price_of(&shape, want.take.milli(), want.cpu_milli);
        let score = ((gain - price) >> STEP_BITS).clamp(-SCORE_MAX, SCORE_MAX);
        i16::try_from(score).ok()
    }

    /// What is left of the devices, and of one that the task is the first to share.
    fn after(&self, before: Devices, build: &Build, take: Take) -> Option<(Devices, u16)> {
        let Devices { whole, used } = before;
        let milli = u16::try_from(take.milli().min(u32::from(GPU_MILLI))).unwrap_or(GPU_MILLI);
        let (on_used, may_use) = match take {
            Take::None => return Some((before, 0)),
            Take::Whole(count) => {
                let whole = whole.checked_sub(count)?;
                return Some((Devices { whole, used }, 0));
            }
            Take::Part(profile) => {
                let mut all = profiles(build.split).iter().enumerate();
                let (place, _) = all.find(|(_, other)| **other == profile)?;
                let has_room = self.parts & 1 << place != 0;
                (has_room, has_room)
            }
            Take::Share(steps) => (self.share_least() >= steps, self.share * SHARE_STEPS >= steps),
        };
        if on_used || whole == 0 && may_use {
            return Some((Devices { whole, used: used.saturating_sub(milli) }, 0));
        }
        let whole = whole.checked_sub(1)?;
        Some((Devices { whole, used }, GPU_MILLI - milli))
    }
}

/// What free devices need of something if all of it was used evenly; without devices, all of it.
fn full(all: u32, milli: u64, count: u8) -> u64 {
    let devices = u64::from(count) * u64::from(GPU_MILLI);
    let full = if milli == 0 { all.into() } else { u64::from(all) * milli / devices.max(1) };
    full.max(1)
}

/// How many steps of what is needed in full are left. They are counted: dividing takes longer.
fn level(left: u32, full: u64) -> u8 {
    let left = u64::from(left) * LEVELS;
    (1..=LEVELS).map(|level| u8::from(left >= full.saturating_mul(level))).sum()
}

/// What a level has at least, but not less than is needed; `None` if no node at this level has it.
fn enough(level: u8, full: u64, all: u32, needed: u32) -> Option<u32> {
    let level = u64::from(level);
    let least = u32::try_from(full * level / LEVELS).unwrap_or(u32::MAX).min(all);
    let most = if level >= LEVELS { all.into() } else { (full * (level + 1)).div_ceil(LEVELS) };
    if u64::from(needed) > most { None } else { Some(least.max(needed)) }
}

impl Left {
    /// All of it.
    pub(super) fn free(build: &Build) -> Self {
        let mut gpus = [Gpu::TAKEN; GPUS_MAX];
        gpus.iter_mut().take(build.hardware.count.into()).for_each(|gpu| *gpu = Gpu::FREE);
        Self { cpu_milli: build.hardware.cpu_milli, ram_mib: build.hardware.ram_mib, gpus }
    }

    /// The devices that a task would have, as bits: whole ones from the front; otherwise the device
    /// in use with the least room that is enough, and a free one only if there is none.
    pub(super) fn devices(&self, take: Take, build: &Build) -> Option<u16> {
        let places = self.gpus.iter().enumerate();
        match take {
            Take::None => Some(0),
            Take::Whole(count) => {
                let free = places.filter(|(_, gpu)| **gpu == Gpu::FREE).take(count.into());
                let bits = free.fold(0_u16, |bits, (place, _)| bits | 1 << place);
                (bits.count_ones() == u32::from(count)).then_some(bits)
            }
            Take::Part(_) | Take::Share(_) => {
                let fitting = places.filter(|(_, gpu)| gpu.with(take, build.split).is_some());
                let best = fitting.min_by_key(|(place, gpu)| {
                    (**gpu == Gpu::FREE, gpu.left_milli(build.split), *place)
                });
                best.map(|(place, _)| 1 << place)
            }
        }
    }

    /// Whether a task has room.
    pub(super) fn fits(&self, want: &Want, build: &Build) -> bool {
        self.cpu_milli >= want.cpu_milli
            && self.ram_mib >= want.ram_mib
            && self.devices(want.take, build).is_some()
    }
}
