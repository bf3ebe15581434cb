//! A package of validators that is here for a while, to be read as often as needed.

use crate::package::{Package, PackageError};
use tg_net::{BlobError, BlobId, BlobReader, Peer, SMALL_BYTES_MAX};
use tg_types::{Hash32, PackageRef};
use tokio::runtime::Handle;

/// A package in our own store; removed from there when this is dropped.
pub struct LocalPackage {
    peer: Peer,
    package: PackageRef,
    head: Package,
    is_released: bool,
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

fn blob_id(package: &PackageRef) -> BlobId {
    BlobId::new(*package.id.as_bytes())
}

impl LocalPackage {
    /// A package that was fetched.
    pub(crate) async fn new(peer: Peer, id: &Hash32, bytes: u64) -> Result<Self, LocalError> {
        let package = PackageRef { id: *id, bytes };
        let mut reader = peer.blobs().open(blob_id(&package)).await?;
        let head = Package::read(&mut reader)?;
        Ok(Self { peer, package, head, is_released: false })
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
        let mut reader = self.peer.blobs().open(blob_id(&self.package)).await?;
        Package::read(&mut reader)?;
        Ok(reader)
    }

    /// Removes it, and waits for that.
    pub async fn release(mut self) {
        self.is_released = true;
        remove(self.peer.clone(), blob_id(&self.package)).await;
    }
}

impl Drop for LocalPackage {
    fn drop(&mut self) {
        if self.is_released {
            return;
        }
        // Without a runtime the process is about to end, and the store with it.
        if let Ok(handle) = Handle::try_current() {
            handle.spawn(remove(self.peer.clone(), blob_id(&self.package)));
        }
    }
}

async fn remove(peer: Peer, id: BlobId) {
    if let Err(error) = peer.blobs().remove(id).await {
        tracing::debug!(%error, "a package is still here");
    }
}
