//! Providers' nodes: what they offer and whose they are. A record changes only when the offer
//! does; whether a node is there is the business of [`crate::absence`]. A node that left or was
//! dropped is gone from the state, so that the registry holds living nodes only.

use tg_types::ids::{AccountId, NodeId, Noun};
use tg_types::{Event, NodeDescriptor, Reason, Tick};

use crate::entry::{Entry, entry};
use crate::error::Fail;
use crate::session::{Call, Session};
use crate::table::Slot;

entry! {
    /// A registered node.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NodeEntry {
        /// Whose it is.
        pub owner: AccountId,
        /// What it offers.
        pub descriptor: NodeDescriptor,
        /// Since when it is registered.
        pub since: Tick,
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
) -> Result<(), Fail> {
    let slot = session.tables.nodes.find(id.as_bytes())?;
    if session.tables.nodes.at(slot).is_some() {
        return Err(Reason::NodeExists.into());
    }

    let (owner, since) = (call.sender, session.env.tick);
    let entry = NodeEntry { owner, descriptor: descriptor.clone(), since };
    *session.tables.nodes.at_mut(slot) = Some(entry);
    session.emit(Event::NodeRegistered { node: *id, owner });
    Ok(())
}

/// Changes what a node offers.
pub(crate) fn change(
    session: &mut Session<'_>,
    call: &Call,
    id: &NodeId,
    descriptor: &NodeDescriptor,
) -> Result<(), Fail> {
    let (slot, entry) = owned(session, call, id)?;

    let descriptor = descriptor.clone();
    *session.tables.nodes.at_mut(slot) = Some(NodeEntry { descriptor, ..entry });
    session.emit(Event::NodeChanged { node: *id, owner: call.sender });
    Ok(())
}

/// Takes a node out.
pub(crate) fn leave(session: &mut Session<'_>, call: &Call, id: &NodeId) -> Result<(), Fail> {
    let (slot, entry) = owned(session, call, id)?;
    let reports = session.tables.absences.find(id.as_bytes())?;

    *session.tables.nodes.at_mut(slot) = None;
    *session.tables.absences.at_mut(reports) = None;
    session.emit(Event::NodeLeft { node: *id, owner: entry.owner });
    Ok(())
}

/// A node that the sender may change.
fn owned(session: &mut Session<'_>, call: &Call, id: &NodeId) -> Result<(Slot, NodeEntry), Fail> {
    let slot = session.tables.nodes.find(id.as_bytes())?;
    let entry = session.tables.nodes.at(slot).cloned().ok_or(Reason::NodeUnknown)?;
    if entry.owner != call.sender {
        return Err(Reason::NodeNotOwned.into());
    }
    Ok((slot, entry))
}
