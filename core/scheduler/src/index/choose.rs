//! The search for the best place.
//!
//! The score of a place is what a cell is worth to what the task takes, plus what a class is worth
//! to what it is for. The first is ranked once for each build, so the walk down a ranking ends
//! where even the best class could not make up for the cell.

use super::cell::{Cell, Want, coarse};
use super::class::{Build, worth};
use super::hash::scramble;
use super::nodes::Node;
use super::ranked::{Member, Ranked};
use super::tasks::Task;
use super::{Index, Keys, TaskSpec};
use crate::Meter;
use crate::pace::Paces;
use crate::packing::Mix;
use crate::sharing::{Fraction, Take};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Nodes that keep a task's data and are looked at on their own.
const HOLDERS_MAX: usize = 8;
/// What it takes to rate a state in the light of one kind of task.
const STEPS_PER_KIND: usize = 4;
/// To draw between so many equals is a step.
const MEMBERS_PER_STEP: usize = 4;
/// Nodes whose keys differ by less, from a multiple of it on, are one machine to [`Index::best`]:
/// they have one chance together.
pub(crate) const STALLS_MAX: u64 = 4;
/// The score of a cell where a task does not fit, and the merit of one without nodes.
pub(super) const NEVER: i16 = i16::MIN;

/// What a task asks for, as far as rankings tell it from others on any build. It follows from the
/// task alone: what was ranked before must not matter to what is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    gpus: u8,
    /// Of one device: speed, memory, whether strangers may be there.
    share: Option<(u16, u32, bool)>,
    cpu_milli: u32,
    ram_mib: u32,
}

impl Claim {
    pub(super) fn of(spec: &TaskSpec) -> Self {
        let is_share = spec.gpus > 0 && spec.share_milli > 0;
        Self {
            gpus: spec.gpus,
            share: is_share.then_some((spec.share_milli, spec.memory_mib, spec.may_share)),
            cpu_milli: coarse(spec.cpu_milli),
            ram_mib: coarse(spec.ram_mib),
        }
    }
}

/// What the cells of a build are worth to tasks that take about the same.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    want: Want,
    /// The mix by which they were rated.
    epoch: u64,
    /// All cells, as the build has them.
    all: Vec<i16>,
    /// Those where it fits, the best first.
    rated: Vec<(i16, u32)>,
}

/// The rankings of all builds.
#[derive(Clone, Debug, Default)]
pub(super) struct Rankings {
    all: Vec<Ranking>,
    /// By build and what is taken of it.
    number_of: BTreeMap<(u32, Want), u32>,
}

/// A build as a kind of task sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnBuild {
    pub(super) build: u32,
    ranking: u32,
    want: Want,
    /// The most that it is worth besides merit and what is left.
    base: i32,
    /// The most merit that a class may have, and the most that any place may be worth. `None` if
    /// surely no place will do; both are looked up when something of the build changes.
    reach: Option<Reach>,
}

/// Bounds that only spare work.
#[derive(Clone, Copy, Debug)]
struct Reach {
    merit: i32,
    score: i32,
}

/// A place for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) slot: u32,
    pub(super) take: Take,
}

/// A group that a search has come to.
struct Group<'a> {
    members: &'a Ranked,
    cell_hash: u64,
    class_hash: u64,
    offer: &'a OnBuild,
    build: &'a Build,
    /// Whether all its nodes have room on their devices.
    is_sure: bool,
    nodes: &'a [Option<Box<Node>>],
    excluded: &'a Keys,
}

impl Group<'_> {
    /// Whether a node of it has room, and its owner is admitted.
    fn has_room(&self, slot: u32, admits: &impl Fn(u64) -> bool) -> bool {
        self.nodes[slot as usize].as_deref().is_some_and(|node| {
            (self.is_sure || node.left.devices(self.offer.want.take, self.build).is_some())
                && !self.excluded.contains(node.offer.owner)
                && admits(node.offer.owner)
        })
    }
}

/// The best so far.
#[derive(Clone, Copy)]
struct Best {
    score: i32,
    /// The least wins between equals.
    tie: u64,
    found: Option<Found>,
}

impl Best {
    const NONE: Self = Self { score: i32::MIN, tie: u64::MAX, found: None };

    fn yields_to(&self, score: i32, tie: u64) -> bool {
        score > self.score || score == self.score && tie < self.tie
    }
}

impl Ranking {
    /// Rates cells that are new, or all if the mix has changed.
    /// Says how many there were.
    fn update(&mut self, build: &Build, mix: &Mix, epoch: u64, cells: &[Cell]) -> usize {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.all.clear();
            self.rated.clear();
        }
        let new = build.cells.len() - self.all.len();
        if new == 0 {
            return 0;
        }
        for cell in &build.cells[self.all.len()..] {
            let score = cells[*cell as usize].key.rate(build, mix, &self.want);
            self.all.push(score.unwrap_or(NEVER));
            self.rated.extend(score.map(|score| (score, *cell)));
        }
        self.rated.sort_by_key(|(score, _)| Reverse(*score));
        new
    }
}

impl Build {
    /// What a task takes of such hardware.
    pub(super) fn want(&self, spec: &TaskSpec) -> Want {
        let (milli, memory_mib) = (spec.share_milli, spec.memory_mib);
        let asked = Fraction { milli, memory_mib, may_share: spec.may_share };
        let take = self.hardware.take(self.split, spec.gpus, asked);
        Want { take, cpu_milli: spec.cpu_milli, ram_mib: spec.ram_mib }
    }
}

impl Rankings {
    /// The number of the ranking for what a task takes, new or known.
    fn number(&mut self, build: u32, want: Want) -> u32 {
        let want = want.coarse();
        let all = &mut self.all;
        *self.number_of.entry((build, want)).or_insert_with(|| {
            all.push(Ranking { want, epoch: 0, all: Vec::new(), rated: Vec::new() });
            u32::try_from(all.len() - 1).expect("few kinds")
        })
    }
}

impl Index {
    /// Makes known to a kind of task which builds there are.
    pub(super) fn update(&mut self, kind: u32) {
        let kind = &mut self.kinds[kind as usize];
        if kind.builds_seen == self.builds.len() {
            return;
        }
        for (number, build) in (0..).zip(&self.builds).skip(kind.builds_seen) {
            if build.hardware.suits(&kind.spec) {
                let want = build.want(&kind.spec);
                kind.offers.push(OnBuild {
                    build: number,
                    ranking: self.rankings.number(number, want),
                    want,
                    base: build.base(&kind.spec) + build.worth_of(&kind.paces),
                    reach: None,
                });
            }
        }
        kind.builds_seen = self.builds.len();
        kind.looked = None;
    }

    /// The best place for a task.
    pub(super) fn choose(&mut self, number: u64, task: Task) -> Option<Found> {
        let Task { kind, data, .. } = task;
        self.update(kind);
        let draw = scramble(number);
        let mut best = Best::NONE;
        if data != 0 {
            self.consider_holders(kind, data, draw, &mut best);
        }
        self.consider_groups(kind, draw, &mut best);
        best.found
    }

    /// The owner of the best place among those that are admitted, for a task that is not kept here
    /// and is done sooner on some classes of devices than on others: whoever asks decides what is
    /// taken, and says so by [`super::Event::NodeChanged`]. Places are shown to `admits` by their
    /// owners' numbers, as few of them as the search needs. Machines that are equally good have
    /// equal chances, however many groups they are in.
    pub(crate) fn best(
        &mut self,
        (spec, paces): (TaskSpec, &Paces),
        draw: u64,
        meter: &Meter,
        admits: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let known = self.passing.take();
        let known = known.filter(|kind| kind.spec == spec && kind.paces == *paces);
        let passing = known.unwrap_or_else(|| self.made_kind(spec, paces.clone()));
        meter.add(self.builds.len() - passing.builds_seen);
        let kind = u32::try_from(self.kinds.len()).expect("few kinds");
        self.kinds.push(passing);
        self.update(kind);
        let mut best = Best::NONE;
        let draw = scramble(draw);
        let tie_of = |member: &Member| scramble((member.key / STALLS_MAX) ^ draw);
        self.walk(kind, &mut best, meter, |group, score, best| {
            let Group { members, offer, .. } = group;
            let found = |slot: u32| Some(Found { slot, take: offer.want.take });
            let steps = members.len().div_ceil(MEMBERS_PER_STEP);
            meter.add(steps);
            let Some((tie, slot)) = members.drawn(tie_of) else { return };
            if !best.yields_to(score, tie) {
                return;
            }
            // Whoever is drawn will usually do, so that nobody else is asked.
            if group.has_room(slot, &admits) {
                *best = Best { score, tie, found: found(slot) };
                return;
            }
            meter.add(steps);
            for member in members.blocks().flatten() {
                let tie = tie_of(member);
                if best.yields_to(score, tie) && group.has_room(member.slot, &admits) {
                    *best = Best { score, tie, found: found(member.slot) };
                }
            }
        });
        self.passing = self.kinds.pop();
        best.found.map(|found| self.node(found.slot).offer.owner)
    }

    /// Looks at groups, and draws one of those that are equally good.
    fn consider_groups(&mut self, kind: u32, draw: u64, best: &mut Best) {
        self.walk(kind, best, &Meter::default(), |group, score, best| {
            let tie = scramble(group.cell_hash ^ scramble(group.class_hash ^ draw));
            if !best.yields_to(score, tie) {
                return;
            }
            let want = group.offer.want;
            // Most nodes need not be looked at.
            let is_any = group.is_sure && group.excluded.as_slice().is_empty();
            let has_room = |slot: u32| is_any || group.has_room(slot, &|_any| true);
            let picked = group.members.pick([want.cpu_milli, want.ram_mib], draw, has_room);
            if let Some(slot) = picked {
                let found = Some(Found { slot, take: want.take });
                *best = Best { score, tie, found };
            }
        });
    }

    /// Looks up bounds of what a kind of task can find on each build, if they may have changed, and
    /// puts the builds that promise most first.
    fn look_up(&mut self, kind: u32, meter: &Meter) {
        let Self { builds, rankings, cells, mix, changed, changes, .. } = self;
        let kind = &mut self.kinds[kind as usize];
        if kind.looked == Some(*changes) {
            return;
        }
        let mut is_sorted = true;
        for offer in &mut kind.offers {
            let since = changed[offer.build as usize];
            if kind.looked.is_some_and(|looked| since <= looked) {
                continue;
            }
            meter.add(1);
            is_sorted = false;
            let build = &builds[offer.build as usize];
            let ranking = &mut rankings.all[offer.ranking as usize];
            let rated = ranking.update(build, mix, self.epoch, cells);
            meter.add(rated * mix.kinds_count() * STEPS_PER_KIND);
            let best = ranking.rated.first().map(|(score, _)| i32::from(*score));
            offer.reach = best.zip(build.merit_max(&kind.spec)).map(|(best, merit)| {
                let score = best + offer.base + merit;
                Reach { merit, score }
            });
        }
        if !is_sorted {
            let most = |offer: &OnBuild| offer.reach.map(|reach| reach.score);
            kind.offers.sort_by_key(|offer| Reverse(most(offer)));
        }
        kind.looked = Some(*changes);
    }

    /// Shows all groups that may be as good as the best so far.
    fn walk(
        &mut self,
        kind: u32,
        best: &mut Best,
        meter: &Meter,
        mut look: impl FnMut(&Group<'_>, i32, &mut Best),
    ) {
        self.look_up(kind, meter);
        let Self { builds, rankings, cells, tops, rooms, nodes, groups, .. } = self;
        let kind = &self.kinds[kind as usize];
        for offer in &kind.offers {
            meter.add(1);
            let Some(reach) = offer.reach.filter(|reach| reach.score >= best.score) else { break };
            if !rooms[offer.build as usize].may_have(offer.want.take) {
                continue;
            }
            let build = &builds[offer.build as usize];
            let ranking = &rankings.all[offer.ranking as usize];
            for (cell_score, cell) in &ranking.rated {
                let most = i32::from(*cell_score) + offer.base;
                if most + reach.merit < best.score {
                    break;
                }
                let top = tops[*cell as usize];
                let is_reached = most + i32::from(top.merit) >= best.score;
                if top.merit == NEVER || !is_reached || !top.zones.meet(kind.zones) {
                    continue;
                }
                let cell = &cells[*cell as usize];
                let is_sure = cell.key.surely_has(build, offer.want.take);
                for standing in cell.groups.iter() {
                    if most + i32::from(standing.merit) < best.score {
                        break;
                    }
                    meter.add(1);
                    if !kind.zones.contain(standing.zone) {
                        continue;
                    }
                    let Ok(away) = standing.traits.away(&kind.spec) else { continue };
                    let score = most + i32::from(standing.merit) - away;
                    if score < best.score {
                        continue;
                    }
                    let group = Group {
                        members: &groups[standing.group as usize],
                        cell_hash: cell.hash,
                        class_hash: standing.hash,
                        offer,
                        build,
                        is_sure,
                        nodes,
                        excluded: &kind.spec.excluded,
                    };
                    look(&group, score, best);
                }
            }
        }
    }

    /// Looks at nodes that keep what the task uses.
    fn consider_holders(&mut self, kind: u32, data: u64, draw: u64, best: &mut Best) {
        let Some(holders) = self.holders.get(&data) else { return };
        let kind = &self.kinds[kind as usize];
        let ring = holders.range(draw..).chain(holders.range(..draw));
        for (key, slot) in ring.take(HOLDERS_MAX) {
            let node = self.nodes[*slot as usize].as_deref().expect("a holder is there");
            let Some((cell, class)) = node.standing() else { continue };
            let offer = kind.offers.iter().find(|offer| offer.build == node.build);
            let Some(offer) = offer else { continue };
            let build = &self.builds[node.build as usize];
            let class = &build.classes[class as usize];
            let Ok(away) = class.traits.away(&kind.spec) else { continue };
            let is_allowed = !kind.spec.excluded.contains(node.offer.owner);
            if !is_allowed || !node.left.fits(&offer.want, build) {
                continue;
            }
            let ranking = &mut self.rankings.all[offer.ranking as usize];
            ranking.update(build, &self.mix, self.epoch, &self.cells);
            let rated = ranking.all[self.cells[cell as usize].place as usize];
            let score =
                i32::from(rated) + offer.base + i32::from(class.merit) - away + worth::CACHED;
            let tie = scramble(key ^ draw);
            if rated != NEVER && best.yields_to(score, tie) {
                let found = Some(Found { slot: *slot, take: offer.want.take });
                *best = Best { score, tie, found };
            }
        }
    }

    /// Room for a kind of task on one node, whether or not it takes new tasks.
    pub(super) fn room(&self, kind: u32, slot: u32) -> Option<Found> {
        let spec = &self.kinds[kind as usize].spec;
        let node = self.node(slot);
        let build = &self.builds[node.build as usize];
        let want = build.want(spec);
        let has_room = build.hardware.suits(spec) && node.left.fits(&want, build);
        has_room.then_some(Found { slot, take: want.take })
    }
}
