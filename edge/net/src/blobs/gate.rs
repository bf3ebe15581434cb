//! Who may read which blob. Without a gate that says yes, nobody reads anything.

use super::BlobError;
use crate::id::{BlobId, PeerId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most blobs a list shares: the inputs and outputs of a node's jobs of some days.
const SHARES_MAX: usize = 100_000;

/// Decides who may read which blob.
pub trait BlobGate: Send + Sync + 'static {
    /// Whether `who`, which has proved its id, may read the blob. Asked for every request, before
    /// it is said whether the blob is here.
    fn may_read(&self, who: PeerId, id: BlobId) -> bool;
}

/// Who may read a shared blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Whoever knows its id.
    Everybody,
    /// These peers.
    Only(BTreeSet<PeerId>),
}

/// A gate that knows for each blob who may read it. Empty at first.
#[derive(Debug, Default)]
pub struct ShareList {
    // A lock and not a channel: the gate answers in the middle of a call that cannot wait.
    shares: Mutex<BTreeMap<BlobId, Readers>>,
}

impl ShareList {
    /// Shares a blob with these readers, in place of earlier ones.
    ///
    /// # Errors
    /// If as many blobs are shared as a list can hold.
    pub fn share(&self, id: BlobId, readers: Readers) -> Result<(), BlobError> {
        let mut shares = self.lock();
        if shares.len() >= SHARES_MAX && !shares.contains_key(&id) {
            return Err(BlobError::TooManyShares { max: SHARES_MAX });
        }
        shares.insert(id, readers);
        Ok(())
    }

    /// Shares a blob with nobody any more. Whoever is reading it may finish.
    pub fn unshare(&self, id: BlobId) {
        self.lock().remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<BlobId, Readers>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlobGate for ShareList {
    fn may_read(&self, who: PeerId, id: BlobId) -> bool {
        match self.lock().get(&id) {
            None => false,
            Some(Readers::Everybody) => true,
            Some(Readers::Only(peers)) => peers.contains(&who),
        }
    }
}
