//! Nodes for all members of a gang at once, and nodes that are held back for one that has waited
//! for long. Nothing is given before all members have a node: until then they are only found.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use tg_scheduler::{Ask, Found, Nearness, fit, fit_when_idle, steps_of};
use tg_types::bounded::Name;
use tg_types::ids::{AccountId, JobId};
use tg_types::{HostPart, JobSpec, Needs, RegionAsk};

use super::{Fleet, asked, draw, offer, stake_free};
use crate::job::place::{excluded, run_bond};
use crate::job::record::JobEntry;
use crate::job::row::QueueKey;
use crate::job::{gpus, promise};
use crate::session::Session;

/// Regions in which a block tries to have a whole gang, before it takes nodes from anywhere.
const REGIONS_MAX: usize = 4;

/// Nodes that are held back for a gang.
#[derive(Default)]
pub(super) struct Hold {
    /// The gang's turn: whoever comes later leaves it a place on each of them.
    key: Option<QueueKey>,
    /// Which, by their places.
    places: BTreeSet<usize>,
    /// Whether it holds GPUs.
    has_gpus: bool,
    /// Whether it holds processors or memory.
    has_host: bool,
    /// Whether the job that is looked at comes later.
    pub(super) is_respected: bool,
}

impl Hold {
    /// Whether a node with so much room is not there for the job that is looked at, which may hold
    /// the same too: GPUs, processors and memory come free one by one, and much at once only if
    /// nobody takes them.
    pub(super) fn keeps(&self, place: usize, room: usize, spec: &JobSpec) -> bool {
        let takes_gpus = self.has_gpus && gpus::is_holding(spec);
        let takes_host = self.has_host && spec.needs.host != HostPart::NONE;
        let is_kept = room <= 1 || takes_gpus || takes_host;
        self.is_respected && is_kept && self.places.contains(&place)
    }
}

impl Fleet {
    /// Says whose turn it is: later jobs leave what is held back.
    pub(in crate::job) fn turn_of(&mut self, key: QueueKey) {
        self.hold.is_respected = self.hold.key.is_some_and(|elder| key > elder);
    }

    /// Nodes for all members of a gang that was looked up last: in one region if there is one with
    /// room for all, otherwise anywhere; `None` if there are too few. Its client has less time
    /// then.
    pub(in crate::job) fn find_gang(
        &mut self,
        session: &Session<'_>,
        job: &JobId,
        entry: &JobEntry,
    ) -> Option<Vec<Found>> {
        let before = self.meter.steps();
        let found = self.search_gang(session, job, entry);
        self.beside.clear();
        self.charge(&entry.owner, before);
        found
    }

    fn search_gang(
        &mut self,
        session: &Session<'_>,
        job: &JobId,
        entry: &JobEntry,
    ) -> Option<Vec<Found>> {
        let bond = run_bond(session.params.jobs.run_bond, &entry.spec);
        let asked = asked(entry, None, bond, self.hold.is_respected);
        if self.open < usize::from(entry.spec.nodes) || self.in_vain.contains(&asked) {
            return None;
        }
        let out = excluded(entry);
        for region in self.regions(session, &entry.spec) {
            let region = RegionAsk::Only { region };
            let needs = Needs { region, ..entry.spec.needs.clone() };
            let near = JobSpec { needs, ..entry.spec.clone() };
            let found = self.members(session, job, (&near, &out));
            if found.is_some() {
                return found;
            }
        }
        let found = self.members(session, job, (&entry.spec, &out));
        if found.is_none() && out.is_empty() {
            self.in_vain.insert(asked);
        }
        found
    }

    /// Regions with room for a whole gang: that of its client first, then those near it, and of
    /// equals those with the most nodes; none if it names one.
    fn regions(&self, session: &Session<'_>, spec: &JobSpec) -> Vec<Name> {
        if spec.needs.region.only().is_some() {
            return Vec::new();
        }
        let mut counts: BTreeMap<&Name, usize> = BTreeMap::new();
        for seat in self.seats.iter().filter(|seat| seat.room > 0) {
            self.meter.add(1);
            if let Some(entry) = session.tables.nodes.at(seat.node) {
                *counts.entry(&entry.descriptor.region).or_default() += 1;
            }
        }
        let enough = counts.into_iter().filter(|(_, count)| *count >= usize::from(spec.nodes));
        let mut enough: Vec<(&Name, usize)> = enough.collect();
        let home = spec.needs.region.near();
        enough.sort_by_key(|(region, count)| {
            Reverse((Nearness::of(home, region), *count)) // equals stay in their order
        });
        enough.into_iter().take(REGIONS_MAX).map(|(region, _)| region.clone()).collect()
    }

    /// One node after the other, each the best of those that are left.
    fn members(
        &mut self,
        session: &Session<'_>,
        job: &JobId,
        (spec, excluded): (&JobSpec, &[AccountId]),
    ) -> Option<Vec<Found>> {
        let bond = run_bond(session.params.jobs.run_bond, spec);
        let span = promise::run_span(&session.params, spec, session.env.tick);
        let ask = Ask { spec, facts: None, bond, excluded, span, job: Some(*job) };
        self.beside.clear();
        let mut found = Vec::new();
        for member in 0..usize::from(spec.nodes) {
            if !self.has_time() {
                return None;
            }
            let next = self.best(session, &ask, draw(session, job, member))?;
            self.beside.push(next.number);
            found.push(next);
        }
        Some(found)
    }

    /// Holds nodes back for a gang that found too few: as many as it lacks of those that would take
    /// it if what they run now had ended, free ones first, and no more of one owner than its stake
    /// stands for. Says whether there are enough; its client has less time then.
    pub(in crate::job) fn hold_for(
        &mut self,
        session: &Session<'_>,
        job: &JobId,
        entry: &JobEntry,
    ) -> bool {
        let before = self.meter.steps();
        let (spec, excluded) = (&entry.spec, excluded(entry));
        let bond = run_bond(session.params.jobs.run_bond, spec);
        let span = promise::run_span(&session.params, spec, session.env.tick);
        let (excluded, job) = (excluded.as_slice(), Some(*job));
        let ask = Ask { spec, facts: None, bond, excluded, span, job };
        let mut fitting = Vec::new();
        for (place, seat) in self.seats.iter().enumerate() {
            let Some(offer) = offer(session, seat) else { continue };
            self.meter.add(steps_of(&ask, &offer));
            if fit_when_idle(&ask, &offer).is_ok() {
                self.meter.add(steps_of(&ask, &offer));
                let is_free = seat.room > 0 && fit(&ask, &offer).is_ok();
                fitting.push((!is_free, seat.room == 0, place));
            }
        }
        fitting.sort_unstable();
        let wanted = usize::from(entry.wanted).saturating_sub(entry.live().count());
        let mut places = BTreeSet::new();
        let mut counts: BTreeMap<AccountId, u64> = BTreeMap::new();
        for (_, _, place) in fitting {
            let seat = &self.seats[place];
            let covered = stake_free(session, seat.stake).units().checked_div(bond.units());
            // Members of a gang may have one owner; other runs of a job do not.
            let most = if spec.is_gang() { covered.unwrap_or(u64::MAX) } else { 1 };
            let count = counts.entry(seat.owner).or_default();
            if places.len() < wanted && *count < most {
                *count += 1;
                places.insert(place);
            }
        }
        self.charge(&entry.owner, before);
        let is_possible = places.len() == wanted;
        if is_possible {
            let (key, has_gpus) = (entry.queue_key(), gpus::is_holding(spec));
            let has_host = spec.needs.host != HostPart::NONE;
            self.hold = Hold { key, places, has_gpus, has_host, is_respected: false };
        }
        is_possible
    }
}
