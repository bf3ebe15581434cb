//! Blobs: bytes named by their BLAKE3 hash, kept in a store, given to whom the gate lets and
//! fetched from peers, verified piece by piece and resumable.
//!
//! What is in the store is what is listed: a blob is listed before its first byte arrives, so that
//! a broken fetch goes on where it ended, and it is unlisted at once when it is removed, while its
//! bytes go with the next sweep.

mod draft;
mod fetch;
mod gate;
mod read;
mod serve;
mod store;

pub use draft::Draft;
pub use fetch::{
    FetchError, FetchOrder, FetchProgress, FetchReport, SOURCES_MAX, SourceError, SourceFailure,
};
pub use gate::{BlobGate, Readers, ShareList};
pub use read::BlobReader;
pub(crate) use serve::{ServeLimits, serve};
pub(crate) use store::Store;
pub use store::free_bytes;

use crate::error::TransportError;
use crate::id::BlobId;
use crate::peer::Peer;
use futures::future::BoxFuture;
use iroh_blobs::api;
use iroh_blobs::api::blobs::ImportMode;
use std::path::{Path, PathBuf};

/// The most bytes that are added or read at once. Larger ones come from and go to files.
pub const BLOB_IN_MEMORY_BYTES_MAX: usize = 64 << 20;

/// Up to here a blob stays in memory where large ones go to a folder: what an ordinary job takes,
/// which is done in less time than a disk needs to say that it has written something.
pub const SMALL_BYTES_MAX: u64 = 4 << 20;

/// What is left free on a disk: others write there too, and the chain is among them.
pub const ROOM_LEFT_BYTES: u64 = 256 << 20;

/// Where blobs are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlobPlace {
    /// In memory, until the peer stops.
    Memory,
    /// In this folder, for one peer at a time. The path is absolute.
    Folder(PathBuf),
    /// Small ones in memory and larger ones in this folder, until the peer stops. The folder is
    /// made with the first of them, is this peer's alone and is removed in the end. The path is
    /// absolute.
    LargeInFolder(PathBuf),
}

/// Why a blob cannot be added, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// A path that depends on where the process was started.
    #[error("path {path} is not absolute")]
    NotAbsolute {
        /// The path.
        path: PathBuf,
    },
    /// It has more bytes than asked for.
    #[error("blob of {found} bytes, at most {max} are allowed")]
    TooLarge {
        /// How many it has.
        found: u64,
        /// The most.
        max: u64,
    },
    /// It is not in the store.
    #[error("blob {id} is not here")]
    Absent {
        /// Which.
        id: BlobId,
    },
    /// Only a part of it is in the store.
    #[error("blob {id} is not complete")]
    Incomplete {
        /// Which.
        id: BlobId,
    },
    /// There is no room for it.
    #[error("no room for {needed} bytes: {free} are free, of which {ROOM_LEFT_BYTES} stay so")]
    NoRoom {
        /// How many it takes.
        needed: u64,
        /// How many are free.
        free: u64,
    },
    /// A file of the store cannot be used.
    #[error("cannot use {path}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The list of shared blobs is full.
    #[error("more than {max} blobs are shared")]
    TooManyShares {
        /// The most.
        max: usize,
    },
    /// The store fails.
    #[error("blob store fails")]
    Store(#[source] TransportError),
}

/// A blob in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobEntry {
    /// Its name.
    pub id: BlobId,
    /// Its size, if it is known.
    pub size_bytes: Option<u64>,
    /// Whether all of it is here.
    pub is_complete: bool,
}

/// Bytes of blobs that went over the network, all in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobTraffic {
    /// To others.
    pub sent_bytes: u64,
    /// From others.
    pub received_bytes: u64,
}

/// The blobs of a peer.
#[derive(Clone)]
pub struct Blobs {
    peer: Peer,
}

impl Blobs {
    pub(crate) const fn new(peer: Peer) -> Self {
        Self { peer }
    }

    fn store(&self) -> Store {
        self.peer.shared.store.clone()
    }

    /// Adds a copy of a file.
    ///
    /// # Errors
    /// If the path is not absolute, there is no room, or file or store fail.
    #[must_use]
    pub fn add_path(&self, path: &Path) -> BoxFuture<'static, Result<BlobEntry, BlobError>> {
        let (store, path) = (self.store(), path.to_owned());
        Box::pin(async move {
            check_absolute(&path)?;
            // Of a file that is not there the store says so.
            let size = path.metadata().map_or(0, |metadata| metadata.len());
            let part = store.part_for(size).await?;
            part.check_room(size)?;
            part.add_path(path, ImportMode::Copy).await
        })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// If they are more than [`BLOB_IN_MEMORY_BYTES_MAX`], or the store fails.
    #[must_use]
    pub fn add_bytes(&self, bytes: Vec<u8>) -> BoxFuture<'static, Result<BlobEntry, BlobError>> {
        let store = self.store();
        Box::pin(async move {
            let max = in_memory_max(u64::MAX);
            let found = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            if found > max {
                return Err(BlobError::TooLarge { found, max });
            }
            store.part_for(found).await?.add_bytes(bytes).await
        })
    }

    /// Begins a blob that is written piece by piece and has at most so many bytes: in memory if
    /// it is small, in a file otherwise, if there is room for it.
    ///
    /// # Errors
    /// If there is no room, or the store fails.
    #[must_use]
    pub fn draft(&self, bytes_max: u64) -> BoxFuture<'static, Result<Draft, BlobError>> {
        let store = self.store();
        Box::pin(async move {
            let part = store.part_for(bytes_max).await?;
            part.check_room(bytes_max)?;
            part.draft(bytes_max)
        })
    }

    /// Adds what was written. A file is not copied; it goes when the blob is removed.
    ///
    /// # Errors
    /// If the store fails.
    #[must_use]
    pub fn add_draft(&self, draft: Draft) -> BoxFuture<'static, Result<BlobEntry, BlobError>> {
        let store = self.store();
        Box::pin(async move { store.part_for(draft.bytes_max()).await?.add_draft(draft).await })
    }

    /// Free bytes on the disk where a blob of so many bytes is kept; nothing if that is in memory.
    #[must_use]
    pub fn free_bytes_for(&self, bytes: u64) -> Option<u64> {
        self.peer.shared.store.free_bytes_for(bytes)
    }

    /// What went over the network so far.
    #[must_use]
    pub fn traffic(&self) -> BlobTraffic {
        self.peer.shared.store.traffic()
    }

    /// Fetches a blob from the first of the peers that gives it. What is here already is not
    /// fetched again; what arrives is verified before it is written, and stays when the fetch
    /// fails or is dropped.
    ///
    /// # Errors
    /// If none of the peers gives it, it is too large, or the store fails.
    #[must_use]
    pub fn fetch(&self, order: FetchOrder) -> BoxFuture<'static, Result<FetchReport, FetchError>> {
        Box::pin(fetch::fetch(self.peer.clone(), order))
    }

    /// Writes a blob to a file and says how many bytes it has.
    ///
    /// # Errors
    /// If the path is not absolute, the blob is not complete, or file or store fail.
    #[must_use]
    pub fn export(&self, id: BlobId, path: &Path) -> BoxFuture<'static, Result<u64, BlobError>> {
        let (store, path) = (self.store(), path.to_owned());
        Box::pin(async move {
            check_absolute(&path)?;
            let part = store.find(id).await?;
            part.complete_size(id).await?;
            part.blobs().export(id.hash(), path).await.map_err(failed)
        })
    }

    /// The bytes of a blob, if they are at most `bytes_max` and
    /// [`BLOB_IN_MEMORY_BYTES_MAX`].
    ///
    /// # Errors
    /// If they are more, the blob is not complete, or the store fails.
    #[must_use]
    pub fn read(
        &self,
        id: BlobId,
        bytes_max: u64,
    ) -> BoxFuture<'static, Result<Vec<u8>, BlobError>> {
        let store = self.store();
        Box::pin(async move {
            let max = in_memory_max(bytes_max);
            let part = store.find(id).await?;
            let found = part.complete_size(id).await?;
            if found > max {
                return Err(BlobError::TooLarge { found, max });
            }
            Ok(part.blobs().get_bytes(id.hash()).await.map_err(failed)?.into())
        })
    }

    /// A blob to be read from its beginning, however large it is. Reading may wait for the disk.
    ///
    /// # Errors
    /// If the blob is not complete, or the store fails.
    #[must_use]
    pub fn open(&self, id: BlobId) -> BoxFuture<'static, Result<BlobReader, BlobError>> {
        let store = self.store();
        Box::pin(async move { store.find(id).await?.open_blob(id).await })
    }

    /// Removes a blob and says whether it was there. It is neither listed nor given any more; its
    /// bytes are freed by one of the next two sweeps.
    ///
    /// # Errors
    /// If the store fails.
    #[must_use]
    pub fn remove(&self, id: BlobId) -> BoxFuture<'static, Result<bool, BlobError>> {
        let store = self.store();
        Box::pin(async move { store.find(id).await?.unlist(id).await })
    }

    /// What is in the store, in ascending order of ids.
    ///
    /// # Errors
    /// If the store fails.
    #[must_use]
    pub fn list(&self) -> BoxFuture<'static, Result<Vec<BlobEntry>, BlobError>> {
        let store = self.store();
        Box::pin(async move { store.entries().await })
    }
}

fn check_absolute(path: &Path) -> Result<(), BlobError> {
    if path.is_absolute() {
        return Ok(());
    }
    Err(BlobError::NotAbsolute { path: path.to_owned() })
}

fn in_memory_max(bytes_max: u64) -> u64 {
    u64::try_from(BLOB_IN_MEMORY_BYTES_MAX).unwrap_or(u64::MAX).min(bytes_max)
}

fn file_failed(path: &Path, source: std::io::Error) -> BlobError {
    BlobError::File { path: path.to_owned(), source }
}

fn failed(error: impl Into<api::Error>) -> BlobError {
    BlobError::Store(TransportError::new(error.into()))
}
