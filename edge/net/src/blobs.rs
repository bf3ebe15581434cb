//! Blobs: bytes named by their BLAKE3 hash, kept in a store, given to whom the gate lets and
//! fetched from peers, verified piece by piece and resumable.
//!
//! What is in the store is what is listed: a blob is listed before its first byte arrives, so that
//! a broken fetch goes on where it ended, and it is unlisted at once when it is removed, while its
//! bytes go with the next sweep.

mod fetch;
mod gate;
mod serve;

pub use fetch::{
    FetchError, FetchOrder, FetchProgress, FetchReport, SOURCES_MAX, SourceError, SourceFailure,
};
pub use gate::{BlobGate, Readers, ShareList};
pub(crate) use serve::{ServeLimits, serve};

use crate::error::TransportError;
use crate::id::BlobId;
use crate::peer::Peer;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use iroh_blobs::api::blobs::{AddPathOptions, AddProgress, BlobStatus, ImportMode};
use iroh_blobs::store::GcConfig;
use iroh_blobs::store::fs::FsStore;
use iroh_blobs::store::fs::options::Options;
use iroh_blobs::store::mem::{self, MemStore};
use iroh_blobs::{BlobFormat, HashAndFormat, api};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most bytes that are added or read at once. Larger ones come from and go to files.
pub const BLOB_IN_MEMORY_BYTES_MAX: usize = 64 << 20;

/// Where blobs are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlobPlace {
    /// In memory, until the peer stops.
    Memory,
    /// In this folder, for one peer at a time. The path is absolute.
    Folder(PathBuf),
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
    /// If the path is not absolute, or file or store fail.
    #[must_use]
    pub fn add_path(&self, path: &Path) -> BoxFuture<'static, Result<BlobEntry, BlobError>> {
        let (store, path) = (self.store(), path.to_owned());
        Box::pin(async move {
            check_absolute(&path)?;
            let options = AddPathOptions { path, format: BlobFormat::Raw, mode: ImportMode::Copy };
            store.add(store.0.blobs().add_path_with_opts(options)).await
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
            store.add(store.0.blobs().add_bytes(bytes)).await
        })
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
            store.complete_size(id).await?;
            store.0.blobs().export(id.hash(), path).await.map_err(failed)
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
            let found = store.complete_size(id).await?;
            if found > max {
                return Err(BlobError::TooLarge { found, max });
            }
            let bytes = store.0.blobs().get_bytes(id.hash()).await.map_err(failed)?;
            Ok(bytes.into())
        })
    }

    /// Removes a blob and says whether it was there. It is neither listed nor given any more; its
    /// bytes are freed by one of the next two sweeps.
    ///
    /// # Errors
    /// If the store fails.
    #[must_use]
    pub fn remove(&self, id: BlobId) -> BoxFuture<'static, Result<bool, BlobError>> {
        let store = self.store();
        Box::pin(async move { store.unlist(id).await })
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

fn failed(error: impl Into<api::Error>) -> BlobError {
    BlobError::Store(TransportError::new(error.into()))
}

/// The library's store, in which a tag with a blob's id keeps the blob.
#[derive(Clone, Debug)]
pub(crate) struct Store(api::Store);

impl Store {
    pub(crate) async fn open(place: &BlobPlace, sweep: Duration) -> Result<Self, BlobError> {
        let sweep = Some(GcConfig { interval: sweep, add_protected: None });
        match place {
            BlobPlace::Memory => {
                Ok(Self(MemStore::new_with_opts(mem::Options { gc_config: sweep }).into()))
            }
            BlobPlace::Folder(folder) => {
                check_absolute(folder)?;
                let mut options = Options::new(folder);
                options.gc = sweep;
                let store = FsStore::load_with_opts(folder.join("blobs.db"), options).await;
                let store = store.map_err(|error| failed(api::Error::other(error)))?;
                Ok(Self(store.into()))
            }
        }
    }

    pub(crate) async fn close(&self) -> Result<(), BlobError> {
        self.0.shutdown().await.map_err(failed)
    }

    async fn add(&self, adding: AddProgress<'_>) -> Result<BlobEntry, BlobError> {
        // Keeps the bytes from being swept until they are listed.
        let added = adding.temp_tag().await.map_err(failed)?;
        let id = BlobId::of_hash(added.hash());
        self.list_blob(id).await?;
        let size = self.complete_size(id).await?;
        Ok(BlobEntry { id, size_bytes: Some(size), is_complete: true })
    }

    /// Lists a blob, also one of which nothing is here yet, and waits until that is on disk.
    async fn list_blob(&self, id: BlobId) -> Result<(), BlobError> {
        let value = HashAndFormat::raw(id.hash());
        self.0.tags().set(id.to_string(), value).await.map_err(failed)?;
        self.0.sync_db().await.map_err(failed)
    }

    async fn unlist(&self, id: BlobId) -> Result<bool, BlobError> {
        let removed = self.0.tags().delete(id.to_string()).await.map_err(failed)?;
        self.0.sync_db().await.map_err(failed)?;
        Ok(removed > 0)
    }

    async fn is_listed(&self, id: BlobId) -> Result<bool, BlobError> {
        let tag = self.0.tags().get(id.to_string()).await.map_err(failed)?;
        Ok(tag.is_some())
    }

    async fn entries(&self) -> Result<Vec<BlobEntry>, BlobError> {
        let mut tags = Box::pin(self.0.tags().list().await.map_err(failed)?);
        let mut entries = Vec::new();
        while let Some(tag) = tags.next().await {
            let id = BlobId::of_hash(tag.map_err(failed)?.hash);
            entries.extend(self.entry(id).await?);
        }
        entries.sort_by_key(|entry| entry.id);
        Ok(entries)
    }

    /// What is here of a listed blob; `None` if nothing is.
    async fn entry(&self, id: BlobId) -> Result<Option<BlobEntry>, BlobError> {
        let (size_bytes, is_complete) = match self.status(id).await? {
            BlobStatus::NotFound => return Ok(None),
            BlobStatus::Partial { size } => (size, false),
            BlobStatus::Complete { size } => (Some(size), true),
        };
        Ok(Some(BlobEntry { id, size_bytes, is_complete }))
    }

    async fn status(&self, id: BlobId) -> Result<BlobStatus, BlobError> {
        self.0.blobs().status(id.hash()).await.map_err(failed)
    }

    /// How many bytes of a blob are here.
    async fn here_bytes(&self, id: BlobId) -> Result<u64, BlobError> {
        let local = self.0.remote().local(id.hash()).await;
        Ok(local.map_err(|error| failed(api::Error::other(error)))?.local_bytes())
    }

    /// The size of a listed blob all of which is here.
    async fn complete_size(&self, id: BlobId) -> Result<u64, BlobError> {
        if !self.is_listed(id).await? {
            return Err(BlobError::Absent { id });
        }
        match self.status(id).await? {
            BlobStatus::Complete { size } => Ok(size),
            BlobStatus::Partial { .. } => Err(BlobError::Incomplete { id }),
            BlobStatus::NotFound => Err(BlobError::Absent { id }),
        }
    }
}
