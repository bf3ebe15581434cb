//! What nodes show of their capacity. A claim is believed by nobody: a node that joins, and any
//! node at random later, is asked to fill a share of the memory that one of its devices claims,
//! from a seed that nobody knew before, and to commit to it. The block time between the question
//! and the commitment is the measurement. Then a later beacon draws blocks, and the node shows
//! them. Every validator checks them here, through [`tg_types::StepJudge`]: an opening is cheap, so
//! drawing checkers would only be weaker.
//!
//! Devices are asked for one at a time. Those that are not credited with all that they claim come
//! first, in turn, so that one which never answers is in nobody's way; a node that is asked again
//! is asked for whichever the beacon says.
//!
//! Nobody is slashed. A device that was not shown is not credited: it gets no runs, and a node none
//! of whose devices was shown is not drawn either, until it answers when it is asked again.
//!
//! Two steps wait for beacons: a node that is to be asked (its seed), and one that has committed
//! (its blocks). Both stand in the list of the height at which they began to wait, and go on when
//! the beacon of two heights later is recorded; see [`crate::job::draw`] for why it is two. Lists
//! are bounded by a parameter, and so is what a beacon does.

use tg_scheduler::Credit;
use tg_types::hash::{Tag, tagged};
use tg_types::ids::{Hash32, NodeId, StateKey};
use tg_types::node::DEVICES_MAX;
use tg_types::{
    Bps, CapacityParams, Device, DurationMs, Event, FillClaim, Height, List, NodeDescriptor,
    Proved, Reason, Tick, wire,
};

use crate::due::{self, DueItem};
use crate::error::{ApplyError, Fail, Stop};
use crate::job::draw::BEACON_DELAY;
use crate::job::run::speaker;
use crate::list::{self, ListOf};
use crate::node::{self, NodeEntry};
use crate::session::{Call, Session};
use crate::{keys, planted::planted};

const SEED: Tag = Tag::new("tensorgrid/capacity-seed");
const LOT: Tag = Tag::new("tensorgrid/capacity-lot");
const PLACE: Tag = Tag::new("tensorgrid/capacity-place");
const AGAIN: Tag = Tag::new("tensorgrid/capacity-again");
const DEVICE: Tag = Tag::new("tensorgrid/capacity-device");

/// The fewest blocks that can be filled: 1 MiB.
const BLOCKS_MIN: u64 = 1 << 10;

/// Blocks of a mebibyte.
const BLOCKS_PER_MIB: u64 = 1 << 10;

/// The place of a device that is offered no more: no offer has so many.
const GONE: u8 = u8::MAX;

const _: () = assert!(DEVICES_MAX < GONE as usize);

/// What chances per million are parts of.
const MILLION: u64 = 1_000_000;

/// What was shown of the devices of a node; nothing of a device for which the node did not answer
/// the last time.
pub type Proofs = List<Proved, 0, DEVICES_MAX>;

wire! {
    /// What a node has shown of its capacity, and what it is asked for.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Capacity {
        /// What it has shown of its devices, one item for each at most.
        pub proved: Proofs,
        /// The place of the device after the one it was asked for last.
        pub next: u8,
        /// What it is asked for.
        pub step: CapacityStep,
    }
}

wire! {
    /// What a node is to fill.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Fill {
        /// From what.
        pub seed: Hash32,
        /// How many blocks of 1 KiB.
        pub blocks: u32,
        /// In the memory of which of its devices, by its place in the offer.
        pub device: u8,
        /// The memory that this device claimed.
        pub memory_mib: u32,
    }
}

wire! {
    /// How far a node has come with showing its capacity.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum CapacityStep {
        /// It is asked for nothing.
        #[default]
        Idle = 1,
        /// It waits for the beacon that makes its seed.
        Waiting {
            /// Since when.
            height: Height,
        } = 2,
        /// It is to fill a memory and to commit to it.
        Filling {
            /// What.
            fill: Fill,
            /// Since when.
            since: Tick,
            /// Until when.
            deadline: Tick,
        } = 3,
        /// It waits for the beacon that draws blocks.
        Committed {
            /// What it filled.
            fill: Fill,
            /// The root over all blocks.
            root: Hash32,
            /// Since when.
            height: Height,
            /// How long filling took.
            took: DurationMs,
        } = 4,
        /// It is to show the blocks that were drawn.
        Showing {
            /// What it filled.
            fill: Fill,
            /// The root over all blocks.
            root: Hash32,
            /// How long filling took.
            took: DurationMs,
            /// What the blocks follow from.
            lot: Hash32,
            /// How many it has shown.
            shown: u8,
            /// Until when.
            deadline: Tick,
        } = 5,
        /// It did not answer, and is asked again later.
        Resting {
            /// When.
            until: Tick,
        } = 6,
    }
}

impl Capacity {
    /// What was shown of a device.
    pub fn proof(&self, device: u8) -> Option<&Proved> {
        self.proved.as_slice().iter().find(|proof| proof.device == device)
    }

    /// Notes what was shown of a device.
    fn note(&mut self, proof: Proved) {
        self.forget(proof.device);
        // A list with room for all devices is never full of the others.
        let _full = self.proved.push(proof);
    }

    /// What was shown of a device counts no more.
    fn forget(&mut self, device: u8) {
        self.proved.retain(|proof| proof.device != device);
    }

    /// The same after the offer has changed: what was shown goes with the devices it was shown of.
    /// A question about a device that is gone stands until its date and counts as missed: a node
    /// that could drop questions by renaming a device would never be asked for another.
    pub(crate) fn carried(&self, old: &NodeDescriptor, new: &NodeDescriptor) -> Self {
        let origins = origins(old, new);
        let place_of = |device: u8| {
            let place = origins.iter().position(|origin| *origin == Some(device));
            place.and_then(|place| u8::try_from(place).ok())
        };
        let moved = |proof: &Proved| Some(Proved { device: place_of(proof.device)?, ..*proof });
        let proved = self.proved.as_slice().iter().filter_map(moved).collect();
        let proved = List::new(proved).unwrap_or_default();
        let mut step = self.step;
        match &mut step {
            CapacityStep::Filling { fill, .. }
            | CapacityStep::Committed { fill, .. }
            | CapacityStep::Showing { fill, .. } => match place_of(fill.device) {
                Some(device) => fill.device = device,
                None => fill.device = GONE,
            },
            CapacityStep::Idle | CapacityStep::Waiting { .. } | CapacityStep::Resting { .. } => {}
        }
        Self { proved, next: self.next, step }
    }
}

/// Where each device of an offer stood in the one before: devices of one kind and model are the
/// same in both, in their order.
pub(crate) fn origins(old: &NodeDescriptor, new: &NodeDescriptor) -> Vec<Option<u8>> {
    let mut left: Vec<(u8, &Device)> = (0..).zip(old.devices.as_slice()).collect();
    let origin = |device: &Device| {
        let is_same = |(_, it): &(u8, &Device)| it.kind == device.kind && it.model == device.model;
        let at = left.iter().position(is_same)?;
        Some(left.remove(at).0)
    };
    new.devices.as_slice().iter().map(origin).collect()
}

impl NodeEntry {
    /// What the devices of a node are credited with. Where nobody is asked, all claims are
    /// believed.
    pub fn credit(&self, params: &CapacityParams) -> Credit<'_> {
        if params.blocks_max == 0 {
            return Credit::Claims;
        }
        Credit::Shown(self.capacity.proved.as_slice())
    }

    /// Whether any device is credited, so that the node gets work.
    pub fn is_credited(&self, params: &CapacityParams) -> bool {
        params.blocks_max == 0 || !self.capacity.proved.as_slice().is_empty()
    }

    /// The next device that claims more than was shown of it, if there is one.
    pub fn unproved_device(&self) -> Option<u8> {
        let devices = self.descriptor.devices.as_slice();
        let is_unproved = |(place, device): &(u8, &Device)| {
            let proof = self.capacity.proof(*place);
            proof.is_none_or(|proof| device.memory_mib > proof.memory_mib)
        };
        let unproved = || (0..).zip(devices).filter(is_unproved).map(|(place, _)| place);
        unproved().find(|place| *place >= self.capacity.next).or_else(|| unproved().next())
    }
}

/// How many blocks a node with this claim is asked to fill: a share of it, rounded down to a power
/// of two, within the bounds.
pub fn blocks_for(params: &CapacityParams, memory_mib: u32) -> u32 {
    let all = u64::from(memory_mib) * BLOCKS_PER_MIB;
    let share = all * u64::from(params.share.points()) / u64::from(Bps::WHOLE.points());
    let asked = share.max(BLOCKS_MIN).min(params.blocks_max.into());
    let power = asked.checked_ilog2().map_or(0, |power| 1_u64 << power);
    u32::try_from(power).unwrap_or(params.blocks_max)
}

/// The block that is drawn as the given number.
pub fn drawn_place(lot: &Hash32, number: u8, blocks: u32) -> u32 {
    let at = half(&tagged(PLACE, &[lot.as_bytes(), &[number]])) % u64::from(blocks.max(1));
    u32::try_from(at).unwrap_or(0)
}

/// The first quarter of a hash as a number. A remainder of it by anything up to 32 bits is as good
/// as even.
fn half(hash: &Hash32) -> u64 {
    let (bytes, _) = hash.as_bytes().split_at(8);
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A node joined, or claims more than it has shown: it is asked, unless it is being asked.
pub(crate) fn ask_if_needed(session: &mut Session<'_>, id: &NodeId) -> Result<(), Stop> {
    let entry = session.tables.nodes.get(id.as_bytes())?;
    let is_needed = entry.is_some_and(|entry| {
        entry.capacity.step == CapacityStep::Idle && entry.unproved_device().is_some()
    });
    if is_needed && session.params.capacity.blocks_max > 0 { wait(session, id) } else { Ok(()) }
}

/// Lets a node wait for its seed; if too many wait already, for another second.
fn wait(session: &mut Session<'_>, id: &NodeId) -> Result<(), Stop> {
    let height = session.env.height;
    if !has_room(session)? {
        let until = session.env.tick.plus(DurationMs::SECOND)?;
        return rest(session, id, until);
    }
    list::push(session, ListOf::Capacities(height), *id.as_bytes())?;
    set_step(session, id, CapacityStep::Waiting { height })
}

/// Whether one more node may wait for the beacon that this height waits for.
fn has_room(session: &mut Session<'_>) -> Result<bool, Stop> {
    let waiting = list::head(session, ListOf::Capacities(session.env.height))?.next;
    Ok(waiting < u64::from(session.params.capacity.per_beacon_max))
}

fn rest(session: &mut Session<'_>, id: &NodeId, until: Tick) -> Result<(), Stop> {
    set_step(session, id, CapacityStep::Resting { until })?;
    due::add(session, until, DueItem::CapacityStep { node: *id })
}

fn set_step(session: &mut Session<'_>, id: &NodeId, step: CapacityStep) -> Result<(), Stop> {
    node::update(session, id, |entry| entry.capacity.step = step)
}

/// Takes a node's commitment to the memory it filled.
pub(crate) fn commit(session: &mut Session<'_>, call: &Call, root: Hash32) -> Result<(), Fail> {
    let id = speaker(call);
    let entry = session.tables.nodes.get(id.as_bytes())?.ok_or(Reason::NodeUnknown)?;
    let CapacityStep::Filling { fill, since, deadline } = entry.capacity.step else {
        return Err(Reason::CapacityNotThere.into());
    };
    let (now, height) = (session.env.tick, session.env.height);
    if now > deadline || fill.device == GONE {
        return Err(Reason::CapacityNotThere.into());
    }
    let took = now.since(since)?;
    if !has_room(session)? {
        return Err(Reason::CapacityLimit.into());
    }

    list::push(session, ListOf::Capacities(height), *id.as_bytes())?;
    set_step(session, &id, CapacityStep::Committed { fill, root, height, took })?;
    session.emit(Event::CapacityCommitted { node: id, root });
    Ok(())
}

/// Takes openings of blocks that were drawn; with the last one the node is credited.
pub(crate) fn show(session: &mut Session<'_>, call: &Call, openings: &[u8]) -> Result<(), Fail> {
    let id = speaker(call);
    let entry = session.tables.nodes.get(id.as_bytes())?.ok_or(Reason::NodeUnknown)?;
    let step = entry.capacity.step;
    let CapacityStep::Showing { fill, root, took, lot, shown, deadline } = step else {
        return Err(Reason::CapacityNotThere.into());
    };
    let now = session.env.tick;
    if now > deadline || fill.device == GONE {
        return Err(Reason::CapacityNotThere.into());
    }
    let needed = session.params.capacity.openings;
    let places: Vec<u32> =
        (shown..needed).map(|number| drawn_place(&lot, number, fill.blocks)).collect();
    let claim = FillClaim { seed: fill.seed, blocks: fill.blocks, root };
    let opened = if planted!(session.rules, TrustOpenings) {
        Some(places.len())
    } else {
        session.rules.judge.opened(&claim, &places, openings)
    };
    let opened = opened.filter(|count| (1..=places.len()).contains(count));
    let opened = opened.and_then(|count| u8::try_from(count).ok()).ok_or(Reason::OpeningWrong)?;

    let shown = shown.saturating_add(opened);
    if shown < needed {
        let step = CapacityStep::Showing { fill, root, took, lot, shown, deadline };
        set_step(session, &id, step)?;
        session.emit(Event::CapacityShown { node: id, shown });
        return Ok(());
    }
    let Fill { device, blocks, memory_mib, .. } = fill;
    let proof = Proved { device, memory_mib, blocks, took, at: now };
    node::update(session, &id, |entry| {
        entry.capacity.note(proof);
        entry.capacity.step = CapacityStep::Idle;
    })?;
    session.forget_nodes();
    session.emit(Event::CapacityProved { node: id, device, memory_mib, blocks, took });
    // There may be other devices, and it may have claimed more meanwhile.
    Ok(ask_if_needed(session, &id)?)
}

/// A node may have missed a step, or have rested long enough.
pub(crate) fn fall_due(session: &mut Session<'_>, id: &NodeId) -> Result<(), Stop> {
    let now = session.env.tick;
    let Some(entry) = session.tables.nodes.get(id.as_bytes())? else {
        return Ok(());
    };
    match entry.capacity.step {
        CapacityStep::Filling { fill, deadline, .. }
        | CapacityStep::Showing { fill, deadline, .. } => {
            if deadline <= now {
                miss(session, id, fill.device)
            } else {
                Ok(())
            }
        }
        CapacityStep::Resting { until } if until <= now => wait(session, id),
        CapacityStep::Resting { .. }
        | CapacityStep::Idle
        | CapacityStep::Waiting { .. }
        | CapacityStep::Committed { .. } => Ok(()),
    }
}

/// A node did not answer: the device is not credited any more, and the node is asked again after a
/// while.
fn miss(session: &mut Session<'_>, id: &NodeId, device: u8) -> Result<(), Stop> {
    let again = session.env.tick.plus(session.params.capacity.pause)?;
    node::update(session, id, |entry| entry.capacity.forget(device))?;
    session.forget_nodes();
    session.emit(Event::CapacityMissed { node: *id, device, again });
    let entry = session.tables.nodes.get(id.as_bytes())?;
    if entry.is_some_and(|entry| !entry.kept.as_slice().is_empty()) {
        // It may be credited with too little for what it has promised.
        due::add(session, session.env.tick, DueItem::RecheckSlots { node: *id })?;
    }
    rest(session, id, again)
}

/// Loads what [`fall_due`] needs besides the node.
pub(crate) fn load_due(session: &mut Session<'_>) -> Result<(), Stop> {
    let again = session.env.tick.plus(session.params.capacity.pause)?;
    let soon = session.env.tick.plus(DurationMs::SECOND)?;
    let dates = due::load_dates(session, &[again, soon, session.env.tick]);
    let list = list::load_end(session, ListOf::Capacities(session.env.height));
    session.all_of([dates, list])
}

/// What a beacon that was recorded in this block calls for.
struct Turn {
    beacon: Hash32,
    /// Since when those have been waiting that go on.
    waiting_since: Option<Height>,
    /// Who has been waiting.
    waiting: Vec<NodeId>,
    /// Who has shown its capacity and may be asked again.
    again: Vec<NodeId>,
}

/// What the beacons of this block call for, with all nodes loaded.
fn turns(session: &mut Session<'_>) -> Result<Vec<Turn>, Stop> {
    if session.params.capacity.blocks_max == 0 {
        return Ok(Vec::new());
    }
    let heights: Vec<Height> = session.env.certificates.iter().map(|(height, _)| *height).collect();
    let mut turns = Vec::new();
    for height in heights {
        let beacon = session.tables.beacons.get(&keys::ring_id(height))?;
        let beacon = beacon.ok_or(ApplyError::Incomplete(keys::beacon(height)))?.beacon;
        let waiting_since = height.minus(BEACON_DELAY).ok();
        let waiting = match waiting_since.map(ListOf::Capacities) {
            None => Vec::new(),
            Some(list) => {
                let next = list::head(session, list)?.next;
                let found = list::range(session, list, 0..next)?;
                found.into_iter().map(|(_, id)| NodeId::new(id)).collect()
            }
        };
        let again = drawn_again(session, &beacon)?;
        turns.push(Turn { beacon, waiting_since, waiting, again });
    }
    let nodes = turns.iter().flat_map(|turn| turn.waiting.iter().chain(&turn.again));
    let nodes: Vec<StateKey> = nodes.map(keys::node).collect();
    session.require(&nodes)?;
    Ok(turns)
}

/// Who a beacon asks again. As many as chance says on the average, drawn from the list of nodes, so
/// that a block looks at those only.
fn drawn_again(session: &mut Session<'_>, beacon: &Hash32) -> Result<Vec<NodeId>, Stop> {
    let nodes = list::head(session, ListOf::Nodes)?.next;
    let params = &session.params.capacity;
    let expected = nodes.saturating_mul(params.again_per_million.into());
    let lot = |number: u64| half(&tagged(AGAIN, &[beacon.as_bytes(), &number.to_be_bytes()]));
    let is_one_more = lot(0) % MILLION < expected % MILLION;
    let count = (expected / MILLION + u64::from(is_one_more)).min(params.per_beacon_max.into());
    let mut drawn = Vec::new();
    for number in 1..=count {
        let place = lot(number).checked_rem(nodes).unwrap_or(0);
        drawn.extend(list::get(session, ListOf::Nodes, place)?.map(NodeId::new));
    }
    Ok(drawn)
}

/// Loads what [`draw_all`] needs.
pub(crate) fn load_ahead(session: &mut Session<'_>) -> Result<(), Stop> {
    let turns = turns(session)?;
    if turns.iter().all(|turn| turn.waiting.is_empty() && turn.again.is_empty()) {
        return Ok(());
    }
    let params = &session.params.capacity;
    let (fill, answer) = (params.fill_within, params.answer_within);
    let dates = [session.env.tick.plus(fill)?, session.env.tick.plus(answer)?];
    due::load_dates(session, &dates)
}

/// Lets nodes go on for which a beacon came, and asks some again.
pub(crate) fn draw_all(session: &mut Session<'_>) -> Result<(), Stop> {
    for Turn { beacon, waiting_since, waiting, again } in turns(session)? {
        if let Some(height) = waiting_since.filter(|_| !waiting.is_empty()) {
            let list = ListOf::Capacities(height);
            for (place, id) in (0..).zip(&waiting) {
                list::set(session, list, place, None)?;
                go_on(session, id, height, &beacon)?;
            }
            list::forget(session, list)?;
        }
        for id in &again {
            let entry = session.tables.nodes.get(id.as_bytes())?;
            // Who computes for somebody is left alone, and who is not there cannot answer. Who
            // rests is asked: otherwise a device that never answers would spare all others.
            let free = entry.filter(|entry| {
                let is_idle = match entry.capacity.step {
                    CapacityStep::Idle | CapacityStep::Resting { .. } => true,
                    CapacityStep::Waiting { .. }
                    | CapacityStep::Filling { .. }
                    | CapacityStep::Committed { .. }
                    | CapacityStep::Showing { .. } => false,
                };
                is_idle && entry.absent.is_none() && entry.runs.as_slice().is_empty()
            });
            if let Some(device) = free.map(|entry| drawn_device(&beacon, id, &entry.descriptor)) {
                ask(session, id, &beacon, device)?;
            }
        }
    }
    Ok(())
}

/// The beacon has come that a node has been waiting for since a height.
fn go_on(
    session: &mut Session<'_>,
    id: &NodeId,
    since: Height,
    beacon: &Hash32,
) -> Result<(), Stop> {
    let entry = session.tables.nodes.get(id.as_bytes())?;
    match entry.map(|entry| entry.capacity.step) {
        Some(CapacityStep::Waiting { height }) if height == since => {
            let first = entry.and_then(NodeEntry::unproved_device);
            ask(session, id, beacon, first.unwrap_or(0))
        }
        Some(CapacityStep::Committed { fill, root, height, took }) if height == since => {
            let deadline = session.env.tick.plus(session.params.capacity.answer_within)?;
            let lot = tagged(LOT, &[beacon.as_bytes(), id.as_bytes(), root.as_bytes()]);
            let step = CapacityStep::Showing { fill, root, took, lot, shown: 0, deadline };
            set_step(session, id, step)?;
            session.emit(Event::CapacityDrawn { node: *id, lot, deadline });
            due::add(session, deadline, DueItem::CapacityStep { node: *id })
        }
        // It left, and may have joined again since.
        Some(_) | None => Ok(()),
    }
}

/// The device of which a beacon asks a node again: drawn by what it claims, so that small ones
/// beside a large one do not keep it from being asked for.
fn drawn_device(beacon: &Hash32, id: &NodeId, offer: &NodeDescriptor) -> u8 {
    let devices = offer.devices.as_slice();
    let claim = |device: &Device| u64::from(device.memory_mib.max(1)) * u64::from(device.count);
    let all: u64 = devices.iter().map(claim).sum();
    let mut at = half(&tagged(DEVICE, &[beacon.as_bytes(), id.as_bytes()])) % all.max(1);
    let place = devices.iter().position(|device| {
        let is_here = at < claim(device);
        at = at.saturating_sub(claim(device));
        is_here
    });
    place.and_then(|place| u8::try_from(place).ok()).unwrap_or(0)
}

/// Asks a node to fill a share of the memory that a device claims.
fn ask(session: &mut Session<'_>, id: &NodeId, beacon: &Hash32, device: u8) -> Result<(), Stop> {
    let Some(entry) = session.tables.nodes.get(id.as_bytes())? else {
        return Ok(());
    };
    let claim = entry.descriptor.devices.as_slice().get(usize::from(device));
    let memory_mib = claim.map_or(0, |device| device.memory_mib);
    let blocks = blocks_for(&session.params.capacity, memory_mib);
    let seed = tagged(SEED, &[beacon.as_bytes(), id.as_bytes(), &[device]]);
    let since = session.env.tick;
    let deadline = since.plus(session.params.capacity.fill_within)?;
    let fill = Fill { seed, blocks, device, memory_mib };
    node::update(session, id, |entry| {
        entry.capacity.step = CapacityStep::Filling { fill, since, deadline };
        entry.capacity.next = device.saturating_add(1);
    })?;
    session.emit(Event::CapacityAsked { node: *id, device, seed, blocks, deadline });
    due::add(session, deadline, DueItem::CapacityStep { node: *id })
}

#[cfg(test)]
mod tests {
    use super::{blocks_for, drawn_place};
    use tg_types::{CapacityParams, Hash32, Params};

    #[test]
    fn share_of_a_claim_is_a_power_of_two_within_the_bounds() {
        let check = |params: &CapacityParams, memory_mib, expected| {
            assert_eq!(blocks_for(params, memory_mib), expected, "{memory_mib} MiB");
        };
        let (local, open) = (Params::local().capacity, Params::open().capacity);
        for memory_mib in [0, 1, 7, 24_000, u32::MAX] {
            check(&local, memory_mib, 1 << 10);
        }
        check(&open, 0, 1 << 10);
        check(&open, 1_024, 1 << 19);
        check(&open, 1_500, 1 << 19);
        check(&open, 2_048, 1 << 20);
        check(&open, u32::MAX, 1 << 22);
        let odd = CapacityParams { blocks_max: 3_000, ..open };
        check(&odd, u32::MAX, 2_048);
    }

    #[test]
    fn places_are_spread_over_all_blocks() {
        let lot = Hash32::new([3; 32]);
        let places: Vec<u32> = (0..=255).map(|number| drawn_place(&lot, number, 1 << 10)).collect();
        assert!(places.iter().all(|place| *place < 1 << 10));
        let upper = places.iter().filter(|place| **place >= 1 << 9).count();
        assert!((96..160).contains(&upper), "{upper} of 256 in the upper half");
        assert_eq!(drawn_place(&lot, 0, 0), 0);
    }
}
