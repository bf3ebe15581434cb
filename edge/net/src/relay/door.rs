//! Who may use a relay, and who does.

use crate::id::PeerId;
use iroh::EndpointId;
use iroh_relay::server::{Access, AccessControl, ClientRequest, ConnectionId};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The most peers connected at once. Each takes some 100 KiB of buffers, together about a
/// gigabyte.
const PEERS_MAX: usize = 10_000;

/// Whom a relay lets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayAllow {
    /// Whoever comes.
    Everybody,
    /// These peers only.
    Only(BTreeSet<PeerId>),
}

impl RelayAllow {
    fn contains(&self, peer: &PeerId) -> bool {
        match self {
            Self::Everybody => true,
            Self::Only(peers) => peers.contains(peer),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Door {
    // A lock and not a channel: the relay reports that a peer has left without waiting.
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    allow: RelayAllow,
    /// Connected peers with the number of their connections.
    present: BTreeMap<PeerId, usize>,
}

impl Door {
    pub(crate) fn new(allow: RelayAllow) -> Self {
        Self { state: RwLock::new(State { allow, present: BTreeMap::new() }) }
    }

    /// Changes the list and names the connected peers that are not on it.
    pub(crate) fn set_allow(&self, allow: RelayAllow) -> Vec<PeerId> {
        let mut state = self.write();
        state.allow = allow;
        let State { allow, present } = &*state;
        present.keys().filter(|peer| !allow.contains(peer)).copied().collect()
    }

    pub(crate) fn present(&self) -> Vec<PeerId> {
        self.read().present.keys().copied().collect()
    }

    /// Lets a peer in, or says why not.
    fn enter(&self, id: EndpointId) -> Result<(), &'static str> {
        let peer = PeerId::of_endpoint(id).map_err(|_| "key cannot be used")?;
        let mut state = self.write();
        if !state.allow.contains(&peer) {
            return Err("not registered");
        }
        let count = state.present.len();
        match state.present.entry(peer) {
            Entry::Occupied(mut connections) => *connections.get_mut() += 1,
            Entry::Vacant(_) if count >= PEERS_MAX => return Err("relay is full"),
            Entry::Vacant(place) => {
                place.insert(1);
            }
        }
        Ok(())
    }

    fn leave(&self, id: EndpointId) {
        let Ok(peer) = PeerId::of_endpoint(id) else { return };
        if let Entry::Occupied(mut connections) = self.write().present.entry(peer) {
            if *connections.get() <= 1 {
                connections.remove();
            } else {
                *connections.get_mut() -= 1;
            }
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AccessControl for Door {
    async fn on_connect(&self, request: &ClientRequest) -> Access {
        match self.enter(request.endpoint_id()) {
            Ok(()) => Access::Allow,
            Err(reason) => Access::Deny { reason: Some(reason.to_owned()) },
        }
    }

    fn on_disconnect(&self, id: EndpointId, _: ConnectionId) {
        self.leave(id);
    }
}
