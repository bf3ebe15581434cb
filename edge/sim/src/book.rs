//! What is known to be final, shared between the judge that writes it and the clients that read it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tg_types::{
    ids::{AccountId, JobId, NodeId, TxId},
    key::PublicKey,
    receipt::Receipt,
    tick::{Height, Tick},
    tx::{Lane, Nonce},
};

/// A transaction that a node has acknowledged to a client.
#[derive(Clone, Debug)]
pub(crate) struct Acknowledged {
    pub(crate) place: usize,
    pub(crate) height: Height,
    pub(crate) receipt: Receipt,
}

/// The pages of the book.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// The last judged height and its time.
    pub(crate) tip: Option<(Height, Tick)>,
    /// Final transactions by their place in a lane.
    pub(crate) by_nonce: BTreeMap<(AccountId, Lane, Nonce), TxId>,
    /// What clients were told.
    pub(crate) acknowledged: Vec<Acknowledged>,
    /// Jobs that clients have made, with their owners.
    pub(crate) jobs: Vec<(JobId, AccountId)>,
    /// Nodes that clients have registered, with their owners.
    pub(crate) nodes: Vec<(NodeId, AccountId)>,
    /// Voting keys against which honest nodes have valid evidence.
    pub(crate) accused: BTreeSet<PublicKey>,
    /// Clients that have finished.
    pub(crate) clients_done: usize,
    /// Whether clients should finish.
    pub(crate) is_closing: bool,
    /// Transactions that clients made.
    pub(crate) submitted: usize,
}

/// What is known to be final. Cheap to clone; locked for look-ups only, because the judge and the
/// clients are tasks of one runtime that only pass values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book(Arc<Mutex<Pages>>);

impl Book {
    pub(crate) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last judged height.
    pub(crate) fn height(&self) -> Height {
        self.pages().tip.map_or(Height::ZERO, |(height, _)| height)
    }

    /// The transaction that took a place in a lane, if one did.
    pub(crate) fn taken(&self, sender: AccountId, lane: Lane, nonce: Nonce) -> Option<TxId> {
        self.pages().by_nonce.get(&(sender, lane, nonce)).copied()
    }
}
