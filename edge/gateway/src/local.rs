//! A package of validators that is here for a while, to be read as often as needed.

use crate::package::{Package, PackageError};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tg_net::{BlobError, BlobId, BlobReader, Peer, PeerId, SMALL_BYTES_MAX};
use tg_types::{Hash32, PackageRef};
use tokio::runtime::Handle;

/// A package in our own store; removed from there when the last who holds it lets go.
pub struct LocalPackage {
    hold: Hold,
    package: PackageRef,
    head: Package,
}

/// Why a package that is here cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The store fails.
    #[error("package cannot be read")]
    Blob(#[from] BlobError),
    /// It is no package.
    #[error(transparent)]
    Package(#[from] PackageError),
}

impl LocalPackage {
    /// A package that was fetched.
    pub(crate) async fn new(peer: Peer, id: &Hash32, bytes: u64) -> Result<Self, LocalError> {
        let hold = Hold::new(peer, BlobId::new(*id.as_bytes()));
        let mut reader = hold.peer.blobs().open(hold.id).await?;
        let head = Package::read(&mut reader)?;
        let package = PackageRef { id: *id, bytes, key_escrow: head.escrow() };
        Ok(Self { hold, package, head })
    }

    /// How the chain names it.
    #[must_use]
    pub const fn package(&self) -> PackageRef {
        self.package
    }

    /// What it begins with.
    #[must_use]
    pub const fn head(&self) -> &Package {
        &self.head
    }

    /// Whether it is so small that it is dealt with in memory.
    #[must_use]
    pub const fn is_small(&self) -> bool {
        self.package.bytes <= SMALL_BYTES_MAX
    }

    /// What is sealed in it, from its beginning. Reading waits for the disk if it is not small.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn sealed(&self) -> Result<BlobReader, LocalError> {
        let mut reader = self.hold.peer.blobs().open(self.hold.id).await?;
        Package::read(&mut reader)?;
        Ok(reader)
    }

    /// Lets go of it. If nobody else holds it, it is removed, and this waits for that.
    pub async fn release(mut self) {
        if self.hold.let_go() {
            remove(self.hold.peer.clone(), self.hold.id).await;
        }
    }
}

/// A share in a blob of a store. Several may hold one that several jobs read.
struct Hold {
    peer: Peer,
    id: BlobId,
    is_released: bool,
}

impl Hold {
    fn new(peer: Peer, id: BlobId) -> Self {
        HOLDERS.add((peer.id(), id));
        Self { peer, id, is_released: false }
    }

    /// Whether nobody else holds it.
    fn let_go(&mut self) -> bool {
        let is_released = std::mem::replace(&mut self.is_released, true);
        !is_released && HOLDERS.subtract((self.peer.id(), self.id))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Without a runtime the process is about to end, and the store with it.
        if self.let_go()
            && let Ok(handle) = Handle::try_current()
        {
            handle.spawn(remove(self.peer.clone(), self.id));
        }
    }
}

/// All who hold blobs, of all stores of this process.
static HOLDERS: Holders = Holders(Mutex::new(BTreeMap::new()));

/// How many hold a blob of a peer's store.
// A lock: whoever fetches, reads or removes a package counts here, briefly.
struct Holders(Mutex<BTreeMap<(PeerId, BlobId), usize>>);

impl Holders {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(PeerId, BlobId), usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, blob: (PeerId, BlobId)) {
        *self.lock().entry(blob).or_default() += 1;
    }

    /// Whether that was the last.
    fn subtract(&self, blob: (PeerId, BlobId)) -> bool {
        let mut holders = self.lock();
        match holders.get_mut(&blob) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            Some(_) | None => {
                holders.remove(&blob);
                true
            }
        }
    }

    fn has(&self, blob: (PeerId, BlobId)) -> bool {
        self.lock().contains_key(&blob)
    }
}

/// Removes a blob, unless somebody has come for it since.
async fn remove(peer: Peer, id: BlobId) {
    if HOLDERS.has((peer.id(), id)) {
        return;
    }
    if let Err(error) = peer.blobs().remove(id).await {
        tracing::debug!(%error, "a package is still here");
    }
}

#[cfg(test)]
mod tests {
    use super::{BlobId, Holders};
    use tg_net::PeerId;
    use tg_types::SecretKey;

    #[test]
    fn blob_goes_with_the_last_who_holds_it() {
        let key = |seed| *SecretKey::from_seed([seed; 32]).public().as_bytes();
        let peer = |seed| PeerId::new(key(seed)).expect("a key");
        let holders = Holders(std::sync::Mutex::default());
        let (ours, theirs) = ((peer(1), BlobId::new([3; 32])), (peer(2), BlobId::new([3; 32])));
        for blob in [ours, ours, theirs] {
            holders.add(blob);
        }
        assert!(!holders.subtract(ours), "another job reads it");
        assert!(holders.subtract(theirs), "that is another store");
        assert!(holders.has(ours));
        assert!(holders.subtract(ours));
        assert!(!holders.has(ours));
    }
}
