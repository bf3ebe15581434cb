//! All nodes as placements see them. What they offer is looked up in its place, which is why it is
//! always what the rules would see; the scheduler's markets are derived from it, in every block
//! anew, and follow every run that is given.

mod better;
mod gang;

use std::collections::{BTreeMap, BTreeSet};

use gang::Hold;
use tg_scheduler::pace::Paces;
use tg_scheduler::{Ask, Found, GpuMix, Market, Meter, Names, Offer, Pricing, stake_step};
use tg_types::ids::{AccountId, JobId, NodeId};
use tg_types::{Amount, Bps, CapacityParams, Encode as _, ProgramFacts, Tick};

use super::gpus;
use super::pace::{self, Subject};
use super::place::{excluded, run_bond};
use super::promise::{self, Promise};
use super::record::JobEntry;
use crate::error::Stop;
use crate::node::{self, NodeEntry};
use crate::session::Session;
use crate::table::Slot;

/// Steps of searches in a block, about 10 ns each, before the next run has to wait for the next
/// block. A usual job takes a few thousand; one that nearly fits all of 4,096 nodes up to half a
/// million, and one that asks for a model by name besides may take all of them.
pub(super) const STEPS_PER_BLOCK_MAX: u64 = 1 << 23;
/// The part of them that one client may have: jobs that are hard to place take the time of others.
const CLIENTS_PER_BLOCK_MIN: u64 = 8;
/// The part of them after which no other gang that has waited for long is looked for before all
/// other jobs: one part in so many.
const ELDERS_PART: u64 = 4;

/// All nodes.
pub(super) struct Fleet {
    seats: Vec<Seat>,
    /// How many of them take one more run.
    open: usize,
    by_hour: Option<Market>,
    by_tera: Option<Market>,
    /// That of runs that hold GPUs, and what usually comes of these.
    of_gpus: Option<Market>,
    mix: Option<GpuMix>,
    owners: BTreeMap<AccountId, Holding>,
    /// What devices of both markets are called.
    names: Names,
    /// What searches have taken.
    meter: Meter,
    /// What searches for the jobs of a client have taken.
    spent: BTreeMap<AccountId, u64>,
    /// What was asked for in vain. Until the block ends there is only less, but for slots that are
    /// free again because their job has begun elsewhere: the next block finds those.
    in_vain: BTreeSet<Vec<u8>>,
    /// What is known of the times of the job that is placed, and which job that is. Tasks of an
    /// array come one after the other and are alike.
    times: Option<(Vec<Subject>, u64)>,
    paces: Paces,
    /// Nodes that were found for members of the gang that is looked at, by their places.
    beside: Vec<usize>,
    /// Nodes that are held back for a gang.
    hold: Hold,
}

/// What an owner has.
#[derive(Default)]
struct Holding {
    /// Nodes, by their places.
    places: Vec<usize>,
    /// Stake that stands for nothing yet, as far as markets tell it apart.
    stake: u8,
}

/// A node.
struct Seat {
    id: NodeId,
    owner: AccountId,
    node: Slot,
    stake: Slot,
    reputation: Bps,
    /// How many more runs it takes.
    room: usize,
}

impl Fleet {
    /// All nodes, with what they offer now.
    pub(super) fn load(session: &mut Session<'_>) -> Result<Self, Stop> {
        let now = session.env.tick;
        let mut seats = Vec::new();
        let mut owners: BTreeMap<AccountId, Holding> = BTreeMap::new();
        for id in node::all(session)?.iter() {
            let node = session.tables.nodes.find(id.as_bytes())?;
            let Some(entry) = session.tables.nodes.at(node) else {
                continue;
            };
            let (owner, reputation) = (entry.owner, entry.reputation.lower_bound(now));
            let room = room_of(entry, &session.params.capacity, now);
            let stake = session.tables.stakes.find(owner.as_bytes())?;
            let holding = owners.entry(owner).or_default();
            holding.places.push(seats.len());
            holding.stake = stake_step(stake_free(session, stake));
            seats.push(Seat { id: *id, owner, node, stake, reputation, room });
        }
        let open = seats.iter().filter(|seat| seat.room > 0).count();
        let (by_hour, by_tera, of_gpus, mix) = (None, None, None, None);
        let (names, meter) = (Names::default(), Meter::default());
        let (spent, in_vain) = (BTreeMap::new(), BTreeSet::new());
        let (times, paces) = (None, Paces::default());
        let (beside, hold) = (Vec::new(), Hold::default());
        Ok(Self {
            beside,
            hold,
            seats,
            open,
            by_hour,
            by_tera,
            of_gpus,
            mix,
            owners,
            names,
            meter,
            spent,
            in_vain,
            times,
            paces,
        })
    }

    /// Whether any node takes one more run.
    pub(super) fn has_room(&self) -> bool {
        self.open > 0
    }

    /// How many more runs all nodes take.
    pub(super) fn room(&self) -> usize {
        self.seats.iter().map(|seat| seat.room).sum()
    }

    /// Whether the block may look for one more run.
    pub(super) fn has_time(&self) -> bool {
        self.meter.steps() < STEPS_PER_BLOCK_MAX
    }

    /// Whether it may look for one more run for this client.
    pub(super) fn has_time_for(&self, client: &AccountId) -> bool {
        let spent = self.spent.get(client).copied().unwrap_or(0);
        self.has_time() && spent < STEPS_PER_BLOCK_MAX / CLIENTS_PER_BLOCK_MIN
    }

    /// Whether it may look for one more gang before all other jobs.
    pub(super) fn has_time_for_elders(&self) -> bool {
        self.meter.steps() < STEPS_PER_BLOCK_MAX / ELDERS_PART
    }

    /// A client has less time: that since the meter stood there.
    fn charge(&mut self, client: &AccountId, before: u64) {
        let spent = self.spent.entry(*client).or_default();
        *spent = spent.saturating_add(self.meter.steps().saturating_sub(before));
    }

    /// The id of a node, by its place.
    pub(super) fn id(&self, place: usize) -> NodeId {
        self.seats[place].id
    }

    /// Looks up what is known of the times of a job's runs, and what usually comes if these hold
    /// GPUs.
    pub(super) fn learn(
        &mut self,
        session: &mut Session<'_>,
        entry: &JobEntry,
        facts: Option<&ProgramFacts>,
    ) -> Result<(), Stop> {
        let subjects: Vec<Subject> = pace::placing(&entry.owner, &entry.spec).collect();
        let asked = (subjects, pace::work(&entry.spec, facts));
        if self.times.as_ref() != Some(&asked) {
            self.paces = pace::forecast_of(session, asked.1, &asked.0)?.paces();
            self.times = Some(asked);
        }
        if gpus::is_holding(&entry.spec) && self.mix.is_none() {
            self.mix = Some(gpus::mix(session)?);
        }
        Ok(())
    }

    /// The best node for one more run of the job that was looked up last: of an owner that has not
    /// had the job, or else of one that merely disappeared, or that it left in this block for a
    /// better place. The job's client has less time then.
    pub(super) fn find(
        &mut self,
        session: &Session<'_>,
        job: &JobId,
        entry: &JobEntry,
        facts: Option<&ProgramFacts>,
    ) -> Option<Found> {
        let before = self.meter.steps();
        let found = self.search(session, job, entry, facts);
        self.charge(&entry.owner, before);
        found
    }

    fn search(
        &mut self,
        session: &Session<'_>,
        job: &JobId,
        entry: &JobEntry,
        facts: Option<&ProgramFacts>,
    ) -> Option<Found> {
        let bond = run_bond(session.params.jobs.run_bond, &entry.spec);
        let asked = asked(entry, facts, bond, self.hold.is_respected);
        // A slot that is kept for a job is in the way of others only.
        let has_slot = matches!(entry.promise, Promise::Kept { .. });
        if !has_slot && self.in_vain.contains(&asked) {
            return None;
        }
        let owners = entry.runs.as_slice().iter().map(|run| &run.owner);
        let all: Vec<AccountId> = owners.chain(session.parted.get(job)).copied().collect();
        let draw = draw(session, job, all.len());
        let span = promise::run_span(&session.params, &entry.spec, session.env.tick);
        let (spec, job) = (&entry.spec, Some(*job));
        let without = |excluded| Ask { spec, facts, bond, excluded, span, job };
        let found = self.best(session, &without(&all), draw);
        if found.is_some() {
            return found;
        }
        if all.is_empty() && !has_slot {
            self.in_vain.insert(asked);
            return None;
        }
        let excluded = excluded(entry);
        if excluded.len() < all.len() {
            return self.best(session, &without(&excluded), draw);
        }
        None
    }

    fn best(&mut self, session: &Session<'_>, ask: &Ask<'_>, draw: u64) -> Option<Found> {
        let Self {
            seats, by_hour, by_tera, of_gpus, mix, names, meter, paces, beside, hold, ..
        } = self;
        let is_holding = gpus::is_holding(ask.spec);
        let unknown = Paces::default();
        let paces = if draw.is_multiple_of(pace::TRIES_ONE_IN) { &unknown } else { &*paces };
        let market = match Pricing::of_job(ask.spec, ask.facts) {
            Pricing::Hour if is_holding => of_gpus,
            Pricing::Hour => by_hour,
            Pricing::Tera => by_tera,
        };
        let market = market.get_or_insert_with(|| {
            // Nodes are known by their places, so none may be left out.
            let offers = seats.iter().map(|seat| offer(session, seat).expect("it was loaded"));
            Market::for_job(ask, mix.get_or_insert_default(), names, offers)
        });
        let here = |place: usize| {
            let seat = seats.get(place)?;
            if beside.contains(&place) || hold.keeps(place, seat.room, ask.spec) {
                return None;
            }
            let offer = offer(session, seat)?;
            // What was found for others of the same gang is as good as given.
            let more = beside.iter().filter(|other| seats[**other].owner == seat.owner).count();
            let bonds = ask.bond.times(u64::try_from(more).unwrap_or(u64::MAX));
            let stake_free = bonds.and_then(|bonds| offer.stake_free.minus(bonds));
            Some(Offer { stake_free: stake_free.unwrap_or(Amount::ZERO), ..offer })
        };
        market.find(names, (ask, paces), draw, here, meter)
    }

    /// A node was given a run: it has less room, and its owner less stake for all its nodes.
    pub(super) fn follow(&mut self, session: &Session<'_>, place: usize) {
        let Self { seats, open, by_hour, by_tera, of_gpus, owners, meter, .. } = self;
        let seat = &mut seats[place];
        seat.room = seat.room.saturating_sub(1);
        if seat.room == 0 {
            *open = open.saturating_sub(1);
        }
        let holding = owners.entry(seat.owner).or_default();
        let stake = stake_step(stake_free(session, seat.stake));
        let is_poorer = stake != holding.stake;
        holding.stake = stake;
        let places = if is_poorer { holding.places.as_slice() } else { &[place] };
        for place in places {
            let Some(offer) = offer(session, &seats[*place]) else { continue };
            let markets = [&mut *by_hour, &mut *by_tera, &mut *of_gpus];
            for market in markets.into_iter().flatten() {
                market.update(*place, &offer, meter);
            }
        }
    }
}

/// Whether any node takes one more run. As few nodes are decoded as that takes.
pub(super) fn has_room(session: &mut Session<'_>) -> Result<bool, Stop> {
    let now = session.env.tick;
    for id in node::all(session)?.iter() {
        let entry = session.tables.nodes.get(id.as_bytes())?;
        if entry.is_some_and(|entry| room_of(entry, &session.params.capacity, now) > 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How many more runs a node takes now: none if it has closed.
fn room_of(entry: &NodeEntry, params: &CapacityParams, now: Tick) -> usize {
    let is_there = entry.absent.is_none() && entry.is_credited(params);
    let offer = &entry.descriptor;
    let is_open = is_there && offer.is_open && offer.closes.is_none_or(|closes| closes > now);
    let slots = if is_open { usize::from(entry.descriptor.slots) } else { 0 };
    slots.saturating_sub(entry.runs.as_slice().len())
}

/// What of an owner's stake stands for nothing yet.
fn stake_free(session: &Session<'_>, stake: Slot) -> Amount {
    session.tables.stakes.at(stake).map_or(Amount::ZERO, |stake| stake.free())
}

/// What a node offers now.
fn offer<'a>(session: &'a Session<'_>, seat: &Seat) -> Option<Offer<'a>> {
    let offer = offer_of(session, seat.id, seat.node, seat.stake)?;
    Some(Offer { reputation: seat.reputation, ..offer })
}

/// What a node offers now, to those who do not ask for its reputation.
pub(super) fn offer_of<'a>(
    session: &'a Session<'_>,
    id: NodeId,
    node: Slot,
    stake: Slot,
) -> Option<Offer<'a>> {
    let entry = session.tables.nodes.at(node)?;
    Some(Offer {
        node: id,
        owner: entry.owner,
        descriptor: &entry.descriptor,
        running: u16::try_from(entry.runs.as_slice().len()).unwrap_or(u16::MAX),
        held: entry.held.as_slice(),
        hosted: entry.hosted.as_slice(),
        kept: entry.kept.as_slice(),
        is_present: entry.absent.is_none(),
        credit: entry.credit(&session.params.capacity),
        stake_free: stake_free(session, stake),
        reputation: Bps::ZERO,
    })
}

/// All that rules look at of a job, owners that may not have it left out, and whether it leaves
/// what is held back.
fn asked(
    entry: &JobEntry,
    facts: Option<&ProgramFacts>,
    bond: Amount,
    is_leaving: bool,
) -> Vec<u8> {
    let spec = &entry.spec;
    let mut bytes = Vec::new();
    is_leaving.encode(&mut bytes);
    spec.needs.encode(&mut bytes);
    spec.pay.encode(&mut bytes);
    spec.run_max.encode(&mut bytes);
    spec.tier.ends_with_its_run().encode(&mut bytes);
    spec.nodes.encode(&mut bytes);
    bond.encode(&mut bytes);
    let work = facts.map(|facts| (facts.multiply_adds, facts.elements));
    work.encode(&mut bytes);
    bytes
}

/// The number by which equal nodes are drawn for the next run of a job. The block before has a part
/// in it, or clients could choose ids that favour their own nodes.
pub(super) fn draw(session: &Session<'_>, job: &JobId, runs: usize) -> u64 {
    let first = |[a, b, c, d, e, f, g, h, ..]: [u8; 32]| {
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) // digests, or a count behind the first six
    };
    let by_block = first(*session.env.parent.as_bytes());
    (first(*job.as_bytes()) ^ by_block).wrapping_add(runs as u64)
}
