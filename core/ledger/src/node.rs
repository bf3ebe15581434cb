//! Providers' nodes: what they offer, whose they are, and what they are busy with. A record changes
//! only when the offer or the work does; whether a node is there is the business of
//! [`crate::absence`]. A node that left or was dropped is gone from the state, so that the registry
//! holds living nodes only. All of them stand in one list, because a placement looks at all.

use std::collections::BTreeSet;
use std::sync::Arc;

use tg_types::gpu::DEVICE_GONE;
use tg_types::ids::{AccountId, JobId, NodeId, Noun, StateKey};
use tg_types::node::SLOTS_MAX;
use tg_types::{
    Amount, Decode as _, Event, GpuSlice, HeldGpu, HeldHost, HostPart, Kind, List, NodeDescriptor,
    PublicKey, Reader, Reason, Signature, Tick,
};

use crate::capacity::{self, Capacity};
use crate::due::{self, DueItem};
use crate::entry::{Entry, decode_format, entry};
use crate::error::{ApplyError, Fail, Stop};
use crate::job::drain;
use crate::job::gpus::{HeldGpus, HeldHosts};
use crate::job::promise::KeptSlots;
use crate::keys;
use crate::list::{self, ListOf};
use crate::reputation::Reputation;
use crate::session::{Call, Session};
use crate::table::Slot;

/// Runs of a node, by job.
pub type NodeRuns = List<JobId, 0, { SLOTS_MAX as usize }>;

entry! {
    /// A registered node.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NodeEntry {
        /// Whose it is. It stands first, so that it can be read without the rest.
        pub owner: AccountId,
        /// What it offers.
        pub descriptor: NodeDescriptor,
        /// Since when it is registered.
        pub since: Tick,
        /// Its place in the list of nodes.
        pub place: u64,
        /// Jobs that it runs, until their results are settled.
        pub runs: NodeRuns,
        /// What these hold of its GPUs.
        pub held: HeldGpus,
        /// What these hold of its processors and memory.
        pub hosted: HeldHosts,
        /// Slots that it keeps for promised jobs.
        pub kept: KeptSlots,
        /// Checks that it has not finished.
        pub checks: u32,
        /// Since when validators do not see it.
        pub absent: Option<Tick>,
        /// What is known of its work.
        pub reputation: Reputation,
        /// What it has shown of its capacity.
        pub capacity: Capacity,
        /// When it is looked at next because it closes, if it is.
        pub drains: Option<Tick>,
    }
}

impl Entry for NodeEntry {
    const NOUN: Noun = Noun::Node;
}

/// Registers a node.
pub(crate) fn register(
    session: &mut Session<'_>,
    call: &Call,
    id: &NodeId,
    descriptor: &NodeDescriptor,
    consent: &Signature,
) -> Result<(), Fail> {
    check(descriptor)?;
    let slot = session.tables.nodes.find(id.as_bytes())?;
    if session.tables.nodes.at(slot).is_some() {
        return Err(Reason::NodeExists.into());
    }
    let count = list::head(session, ListOf::Nodes)?.next;
    if count >= session.params.jobs.nodes_max.into() {
        return Err(Reason::NodesFull.into());
    }
    let domain = &session.rules.domain;
    PublicKey::new(*id.as_bytes())
        .ok()
        .and_then(|key| key.verify(domain, Kind::NodeConsent, call.sender.as_bytes(), consent).ok())
        .ok_or(Reason::ConsentWrong)?;
    let drained = drain::next_look(&session.params, descriptor, None, session.env.tick)?;
    due::load_dates(session, drained.as_slice())?;

    let place = list::push(session, ListOf::Nodes, *id.as_bytes())?;
    session.forget_nodes();
    let (owner, since) = (call.sender, session.env.tick);
    let entry = NodeEntry {
        owner,
        descriptor: descriptor.clone(),
        since,
        place,
        runs: List::default(),
        held: List::default(),
        hosted: List::default(),
        kept: List::default(),
        checks: 0,
        absent: None,
        reputation: Reputation::default(),
        capacity: Capacity::default(),
        drains: None,
    };
    *session.tables.nodes.at_mut(slot) = Some(entry);
    session.emit(Event::NodeRegistered { node: *id, owner });
    drain::begin(session, id, drained)?;
    Ok(capacity::ask_if_needed(session, id)?)
}

/// Changes what a node offers. Whoever changes a node is there to do it, so the node counts as
/// present again.
pub(crate) fn change(
    session: &mut Session<'_>,
    call: &Call,
    id: &NodeId,
    descriptor: &NodeDescriptor,
) -> Result<(), Fail> {
    check(descriptor)?;
    let (slot, entry) = owned(session, call, id)?;
    let drained = drain::next_look(&session.params, descriptor, entry.drains, session.env.tick)?;
    due::load_dates(session, drained.as_slice())?;

    let capacity = entry.capacity.carried(&entry.descriptor, descriptor);
    let (held, kept) = carried(&entry, descriptor);
    let descriptor = descriptor.clone();
    let has_kept = !entry.kept.as_slice().is_empty();
    let since = session.env.tick;
    let since = if entry.absent.is_some() { since } else { entry.since };
    *session.tables.nodes.at_mut(slot) =
        Some(NodeEntry { descriptor, since, absent: None, capacity, held, kept, ..entry });
    session.forget_nodes();
    session.emit(Event::NodeChanged { node: *id, owner: call.sender });
    if has_kept {
        // The due queue looks for other slots, because that may take many jobs.
        due::add(session, session.env.tick, DueItem::RecheckSlots { node: *id })?;
    }
    drain::begin(session, id, drained)?;
    Ok(capacity::ask_if_needed(session, id)?)
}

/// Takes a node out that has nothing to finish.
pub(crate) fn leave(session: &mut Session<'_>, call: &Call, id: &NodeId) -> Result<(), Fail> {
    let (_, entry) = owned(session, call, id)?;
    if entry.is_bound() {
        return Err(Reason::NodeBusy.into());
    }

    remove(session, id)?;
    session.emit(Event::NodeLeft { node: *id, owner: entry.owner });
    Ok(())
}

/// A node has been absent for long: it is dropped, unless it came back.
pub(crate) fn fall_due(session: &mut Session<'_>, id: &NodeId) -> Result<(), Stop> {
    let Some(entry) = session.tables.nodes.get(id.as_bytes())?.cloned() else {
        return Ok(());
    };
    let Some(absent) = entry.absent else {
        return Ok(());
    };
    let end = absent.plus(session.params.jobs.absent_max)?;
    if end > session.env.tick {
        return Ok(()); // it came back and went again: a later date stands in the queue
    }
    if entry.is_bound() {
        let later = session.env.tick.plus(session.params.jobs.answer_within)?;
        return due::add(session, later, DueItem::DropNode { node: *id });
    }
    remove(session, id)?;
    session.emit(Event::NodeDropped { node: *id, owner: entry.owner });
    Ok(())
}

/// Removes a node from the registry; the last of the list takes its place.
fn remove(session: &mut Session<'_>, id: &NodeId) -> Result<(), Stop> {
    if !session.are_nodes_loaded {
        // Who is the last depends on who left before, so all are loaded and not one by one.
        all(session)?;
    }
    let gone = session.tables.nodes.get(id.as_bytes())?.map(|entry| entry.place);
    let Some(place) = gone else {
        return Ok(());
    };
    let head = list::head(session, ListOf::Nodes)?;
    let last = list::get(session, ListOf::Nodes, head.next.saturating_sub(1))?;
    let last = last.ok_or(ApplyError::Incomplete(keys::list_head(ListOf::Nodes)))?;
    session.forget_nodes();
    if last != *id.as_bytes() {
        let slot = session.tables.nodes.find(&last)?;
        let moved = session.tables.nodes.at_mut(slot);
        let moved = moved.as_mut().ok_or(ApplyError::Incomplete(keys::node(&NodeId::new(last))))?;
        moved.place = place;
        list::set(session, ListOf::Nodes, place, Some(last))?;
    }
    list::pop(session, ListOf::Nodes)?;
    session.tables.nodes.put(id.as_bytes(), None)?;
    session.tables.absences.put(id.as_bytes(), None)
}

/// All nodes in the order of the list. They and their owners' stakes are loaded, in a few goes.
pub(crate) fn all(session: &mut Session<'_>) -> Result<Arc<[NodeId]>, Stop> {
    if let Some(nodes) = &session.nodes {
        return Ok(Arc::clone(nodes));
    }
    let head = list::head(session, ListOf::Nodes)?;
    let ids = list::range(session, ListOf::Nodes, head.first..head.next)?;
    let ids: Arc<[NodeId]> = ids.into_iter().map(|(_, id)| NodeId::new(id)).collect();
    let mut owners = BTreeSet::new();
    let mut is_complete = true;
    for id in ids.iter() {
        let owner = owner_of(session, id);
        let known = session.attempt(owner)?;
        is_complete &= known.is_some();
        owners.extend(known.flatten());
    }
    if !is_complete {
        session.check_complete()?;
    }
    let stakes: Vec<StateKey> = owners.iter().map(keys::stake).collect();
    session.require(&stakes)?;
    session.nodes = Some(Arc::clone(&ids));
    session.are_nodes_loaded = true;
    Ok(ids)
}

/// Whose a node is, if it is registered. All nodes are asked before it is known whether they are
/// needed, so the rest of a record is not decoded for that.
fn owner_of(session: &Session<'_>, id: &NodeId) -> Result<Option<AccountId>, Stop> {
    let stored = |reader: &mut Reader<'_>| {
        decode_format(reader)?;
        AccountId::decode(reader)
    };
    session.tables.nodes.peek(id.as_bytes(), |entry| entry.owner, stored)
}

/// An owner with a node that is present and credited, and where its stake lies.
pub(crate) struct OwnerSeat {
    pub(crate) owner: AccountId,
    /// The one that comes first in the list.
    pub(crate) node: NodeId,
    pub(crate) stake: Slot,
}

/// Owners of nodes that are present and credited, in the order of their first nodes.
pub(crate) fn owners(session: &mut Session<'_>) -> Result<Arc<[OwnerSeat]>, Stop> {
    if let Some(owners) = &session.owners {
        return Ok(Arc::clone(owners));
    }
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for node in all(session)?.iter() {
        let params = &session.params.capacity;
        let is_fit = |entry: &&NodeEntry| entry.absent.is_none() && entry.is_credited(params);
        let entry = session.tables.nodes.get(node.as_bytes())?;
        let owner = entry.filter(is_fit).map(|entry| entry.owner);
        if let Some(owner) = owner.filter(|owner| seen.insert(*owner)) {
            let stake = session.tables.stakes.find(owner.as_bytes())?;
            found.push(OwnerSeat { owner, node: *node, stake });
        }
    }
    let owners: Arc<[OwnerSeat]> = found.into();
    session.owners = Some(Arc::clone(&owners));
    Ok(owners)
}

/// What happens to a node's record when work on a job begins or ends. A node that is gone has no
/// record any more.
pub(crate) fn update(
    session: &mut Session<'_>,
    id: &NodeId,
    change: impl FnOnce(&mut NodeEntry),
) -> Result<(), Stop> {
    let slot = session.tables.nodes.find(id.as_bytes())?;
    if let Some(entry) = session.tables.nodes.at_mut(slot) {
        change(entry);
    }
    Ok(())
}

impl NodeEntry {
    /// Whether it has something to finish.
    fn is_bound(&self) -> bool {
        let is_idle = self.runs.as_slice().is_empty() && self.kept.as_slice().is_empty();
        !is_idle || self.checks > 0
    }

    /// The node has one more run, which holds these GPUs and so much of processors and memory;
    /// false if it has too many.
    pub(crate) fn begin_run(&mut self, job: JobId, gpus: &[GpuSlice], part: HostPart) -> bool {
        let mut held = gpus.iter().map(|slice| HeldGpu { job, slice: *slice });
        let mut hosted = (part != HostPart::NONE).then_some(HeldHost { job, part }).into_iter();
        self.runs.push(job).is_ok()
            && held.all(|held| self.held.push(held).is_ok())
            && hosted.all(|hosted| self.hosted.push(hosted).is_ok())
    }

    /// The node has one run less, and what that held is free.
    pub(crate) fn end_run(&mut self, job: &JobId) {
        self.runs.retain(|run| run != job);
        self.held.retain(|held| held.job != *job);
        self.hosted.retain(|held| held.job != *job);
    }

    /// Something verified happened.
    pub(crate) fn judge(&mut self, is_good: bool, value: Amount, now: Tick) {
        self.reputation = self.reputation.with(is_good, value, now);
    }
}

/// What runs hold and slots keep after the offer has changed: it goes with the devices.
fn carried(entry: &NodeEntry, new: &NodeDescriptor) -> (HeldGpus, KeptSlots) {
    let origins = capacity::origins(&entry.descriptor, new);
    let carry = |slice: &mut GpuSlice| {
        let place = origins.iter().position(|origin| *origin == Some(slice.device));
        let place = place.and_then(|place| u8::try_from(place).ok());
        slice.device = place.unwrap_or(DEVICE_GONE);
    };
    let (mut held, mut kept) = (entry.held.clone(), entry.kept.clone());
    held.as_mut_slice().iter_mut().for_each(|held| carry(&mut held.slice));
    let slices = kept.as_mut_slice().iter_mut().flat_map(|slot| slot.gpus.as_mut_slice());
    slices.for_each(carry);
    (held, kept)
}

/// What no node may offer.
fn check(descriptor: &NodeDescriptor) -> Result<(), Reason> {
    if descriptor.slots == 0 || descriptor.slots > SLOTS_MAX {
        return Err(Reason::SlotsWrong);
    }
    Ok(())
}

/// A node that the sender may change: as its owner, or as the node itself.
fn owned(session: &mut Session<'_>, call: &Call, id: &NodeId) -> Result<(Slot, NodeEntry), Fail> {
    let slot = session.tables.nodes.find(id.as_bytes())?;
    let entry = session.tables.nodes.at(slot).cloned().ok_or(Reason::NodeUnknown)?;
    if entry.owner != call.sender && call.sender.as_bytes() != id.as_bytes() {
        return Err(Reason::NodeNotOwned.into());
    }
    Ok((slot, entry))
}
