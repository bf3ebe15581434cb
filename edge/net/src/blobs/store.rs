//! Where blobs are: the library's stores, and which of them a blob is in.
//!
//! Most blobs are small and live for a moment, so they stay in memory. A large one would fill it,
//! so it goes to a folder; that one is opened with the first of them, because opening it takes as
//! long as a hundred small blobs.

use super::draft::{Draft, DraftFile};
use super::read::BlobReader;
use super::{
    BlobEntry, BlobError, BlobPlace, BlobTraffic, ROOM_LEFT_BYTES, SMALL_BYTES_MAX, check_absolute,
    failed, file_failed, in_memory_max,
};
use crate::id::BlobId;
use futures::StreamExt as _;
use iroh_blobs::api::TempTag;
use iroh_blobs::api::blobs::{AddPathOptions, AddProgress, BlobStatus, Blobs, ImportMode};
use iroh_blobs::store::GcConfig;
use iroh_blobs::store::fs::FsStore;
use iroh_blobs::store::fs::options::{Options, PathOptions};
use iroh_blobs::store::mem::{self, MemStore};
use iroh_blobs::{BlobFormat, HashAndFormat, api};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;

/// Below a folder of large blobs: those that are being written.
const DRAFTS: &str = "drafts";

/// All blobs of a peer.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    base: Part,
    large: Option<Arc<Large>>,
    traffic: Arc<Traffic>,
}

/// Bytes that went over the network.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    pub(crate) fn note_sent(&self, bytes: usize) {
        self.sent.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn note_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A folder for large blobs, opened when the first one comes.
#[derive(Debug)]
struct Large {
    folder: PathBuf,
    sweep: Duration,
    part: OnceCell<Part>,
}

impl Large {
    async fn part(&self) -> Result<&Part, BlobError> {
        let open = || async {
            // Nothing is listed any more of what a process left that died.
            match fs::remove_dir_all(&self.folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(file_failed(&self.folder, error));
                }
                Ok(()) | Err(_) => {}
            }
            Part::in_folder(&self.folder, self.sweep).await
        };
        self.part.get_or_try_init(open).await
    }
}

impl Large {
    fn remove(&self) {
        if self.part.initialized() {
            let _gone_already = fs::remove_dir_all(&self.folder);
        }
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Store {
    pub(crate) async fn open(place: &BlobPlace, sweep: Duration) -> Result<Self, BlobError> {
        let (base, large) = match place {
            BlobPlace::Memory => (Part::in_memory(sweep), None),
            BlobPlace::Folder(folder) => (Part::in_folder(folder, sweep).await?, None),
            BlobPlace::LargeInFolder(folder) => {
                check_absolute(folder)?;
                let (folder, part) = (folder.clone(), OnceCell::new());
                (Part::in_memory(sweep), Some(Arc::new(Large { folder, sweep, part })))
            }
        };
        Ok(Self { base, large, traffic: Arc::default() })
    }

    pub(crate) async fn close(&self) -> Result<(), BlobError> {
        if let Some(part) = self.large.as_ref().and_then(|large| large.part.get()) {
            part.store.shutdown().await.map_err(failed)?;
        }
        if let Some(large) = &self.large {
            large.remove();
        }
        self.base.store.shutdown().await.map_err(failed)
    }

    pub(crate) const fn counted(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    pub(super) fn traffic(&self) -> BlobTraffic {
        let Traffic { sent, received } = self.traffic.as_ref();
        BlobTraffic {
            sent_bytes: sent.load(Ordering::Relaxed),
            received_bytes: received.load(Ordering::Relaxed),
        }
    }

    pub(super) fn free_bytes_for(&self, bytes: u64) -> Option<u64> {
        let large = self.large.as_ref().filter(|_| bytes > SMALL_BYTES_MAX);
        let base = self.base.paths.as_ref().map(|paths| paths.data_path.as_path());
        free_bytes(large.map(|large| large.folder.as_path()).or(base)?)
    }

    /// The part in which a blob is listed; the first one if it is in none.
    pub(crate) async fn find(&self, id: BlobId) -> Result<Part, BlobError> {
        if let Some(part) = self.large.as_ref().and_then(|large| large.part.get())
            && part.is_listed(id).await?
        {
            return Ok(part.clone());
        }
        Ok(self.base.clone())
    }

    /// The part for a blob of so many bytes.
    pub(super) async fn part_for(&self, bytes: u64) -> Result<Part, BlobError> {
        match &self.large {
            Some(large) if bytes > SMALL_BYTES_MAX => large.part().await.cloned(),
            Some(_) | None => Ok(self.base.clone()),
        }
    }

    /// The part for a blob that is to come and has at most so many bytes, or the one in which all
    /// of it is. What is in the wrong part of one that is not complete would fill that: it goes.
    pub(super) async fn part_to_fetch(&self, id: BlobId, bytes: u64) -> Result<Part, BlobError> {
        let (found, wanted) = (self.find(id).await?, self.part_for(bytes).await?);
        if found.is_on_disk() == wanted.is_on_disk() {
            return Ok(wanted);
        }
        if matches!(found.status(id).await?, BlobStatus::Complete { .. }) {
            return Ok(found);
        }
        found.unlist(id).await?;
        Ok(wanted)
    }

    pub(super) async fn entries(&self) -> Result<Vec<BlobEntry>, BlobError> {
        let mut entries = self.base.entries().await?;
        if let Some(part) = self.large.as_ref().and_then(|large| large.part.get()) {
            entries.extend(part.entries().await?);
        }
        entries.sort_by_key(|entry| entry.id);
        Ok(entries)
    }
}

/// One store of the library, in which a tag with a blob's id keeps the blob.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    store: api::Store,
    /// Where its files are; none if it is in memory.
    paths: Option<Arc<PathOptions>>,
    /// Files of ours that it reads, until their blobs are removed. A lock, held briefly.
    drafts: Arc<Mutex<BTreeMap<BlobId, DraftFile>>>,
}

impl Part {
    fn in_memory(sweep: Duration) -> Self {
        let options = mem::Options { gc_config: Some(swept(sweep)) };
        Self::new(MemStore::new_with_opts(options).into(), None)
    }

    async fn in_folder(folder: &Path, sweep: Duration) -> Result<Self, BlobError> {
        check_absolute(folder)?;
        let mut options = Options::new(folder);
        options.gc = Some(swept(sweep));
        let paths = options.path.clone();
        let store = FsStore::load_with_opts(folder.join("blobs.db"), options).await;
        let store = store.map_err(|error| failed(api::Error::other(error)))?;
        Ok(Self::new(store.into(), Some(Arc::new(paths))))
    }

    fn new(store: api::Store, paths: Option<Arc<PathOptions>>) -> Self {
        Self { store, paths, drafts: Arc::default() }
    }

    /// The library's store.
    pub(crate) const fn library(&self) -> &api::Store {
        &self.store
    }

    pub(super) fn blobs(&self) -> &Blobs {
        self.store.blobs()
    }

    pub(super) const fn is_on_disk(&self) -> bool {
        self.paths.is_some()
    }

    /// Refuses so many bytes if the disk has no room for them.
    pub(super) fn check_room(&self, needed: u64) -> Result<(), BlobError> {
        let free = self.paths.as_ref().and_then(|paths| free_bytes(&paths.data_path));
        match free {
            Some(free) if free.saturating_sub(ROOM_LEFT_BYTES) < needed => {
                Err(BlobError::NoRoom { needed, free })
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn draft(&self, bytes_max: u64) -> Result<Draft, BlobError> {
        let Some(paths) = &self.paths else {
            let max = in_memory_max(u64::MAX);
            if bytes_max > max {
                return Err(BlobError::TooLarge { found: bytes_max, max });
            }
            return Ok(Draft::in_memory(bytes_max));
        };
        let folder = paths.data_path.with_file_name(DRAFTS);
        fs::create_dir_all(&folder).map_err(|source| file_failed(&folder, source))?;
        Draft::in_folder(&folder, bytes_max)
    }

    pub(super) async fn add_draft(&self, draft: Draft) -> Result<BlobEntry, BlobError> {
        match draft.finish() {
            Ok(file) => {
                let path = file.path().to_owned();
                let added = self.add_path(path, ImportMode::TryReference).await?;
                let mut drafts = self.drafts.lock().unwrap_or_else(PoisonError::into_inner);
                // The same bytes may have been added before; the store reads the first file.
                drafts.entry(added.id).or_insert(file);
                drop(drafts);
                Ok(added)
            }
            Err(bytes) => self.add_bytes(bytes).await,
        }
    }

    pub(super) async fn add_bytes(&self, bytes: Vec<u8>) -> Result<BlobEntry, BlobError> {
        self.add(self.blobs().add_bytes(bytes)).await
    }

    pub(super) async fn add_path(
        &self,
        path: PathBuf,
        mode: ImportMode,
    ) -> Result<BlobEntry, BlobError> {
        let options = AddPathOptions { path, format: BlobFormat::Raw, mode };
        self.add(self.blobs().add_path_with_opts(options)).await
    }

    async fn add(&self, adding: AddProgress<'_>) -> Result<BlobEntry, BlobError> {
        // Keeps the bytes from being swept until they are listed.
        let added = adding.temp_tag().await.map_err(failed)?;
        let id = BlobId::of_hash(added.hash());
        self.list_blob(id).await?;
        let size = self.complete_size(id).await?;
        Ok(BlobEntry { id, size_bytes: Some(size), is_complete: true })
    }

    pub(super) async fn open_blob(&self, id: BlobId) -> Result<BlobReader, BlobError> {
        let size = self.complete_size(id).await?;
        if let Some(paths) = self.paths.as_ref().filter(|_| size > SMALL_BYTES_MAX) {
            let path = self.draft_path(id).unwrap_or_else(|| paths.data_path(&id.hash()));
            let file = File::open(&path).map_err(|source| file_failed(&path, source))?;
            return Ok(BlobReader::of_file(file, size));
        }
        let max = in_memory_max(u64::MAX);
        if size > max {
            return Err(BlobError::TooLarge { found: size, max });
        }
        let bytes = self.blobs().get_bytes(id.hash()).await.map_err(failed)?;
        Ok(BlobReader::of_bytes(bytes))
    }

    /// Where the file is of a blob that was written here.
    fn draft_path(&self, id: BlobId) -> Option<PathBuf> {
        let drafts = self.drafts.lock().unwrap_or_else(PoisonError::into_inner);
        drafts.get(&id).map(|file| file.path().to_owned())
    }

    /// Lists a blob, also one of which nothing is here yet, and waits until that is on disk.
    pub(super) async fn list_blob(&self, id: BlobId) -> Result<(), BlobError> {
        let value = HashAndFormat::raw(id.hash());
        self.store.tags().set(id.to_string(), value).await.map_err(failed)?;
        self.store.sync_db().await.map_err(failed)
    }

    /// Keeps what is here of a blob from being swept as long as the answer lives, also if it is
    /// not listed any more.
    pub(super) async fn protect(&self, id: BlobId) -> Result<TempTag, BlobError> {
        self.store.tags().temp_tag(HashAndFormat::raw(id.hash())).await.map_err(failed)
    }

    pub(super) async fn unlist(&self, id: BlobId) -> Result<bool, BlobError> {
        let removed = self.store.tags().delete(id.to_string()).await.map_err(failed)?;
        self.store.sync_db().await.map_err(failed)?;
        self.drafts.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        Ok(removed > 0)
    }

    pub(super) async fn is_listed(&self, id: BlobId) -> Result<bool, BlobError> {
        let tag = self.store.tags().get(id.to_string()).await.map_err(failed)?;
        Ok(tag.is_some())
    }

    async fn entries(&self) -> Result<Vec<BlobEntry>, BlobError> {
        let mut tags = Box::pin(self.store.tags().list().await.map_err(failed)?);
        let mut entries = Vec::new();
        while let Some(tag) = tags.next().await {
            let id = BlobId::of_hash(tag.map_err(failed)?.hash);
            entries.extend(self.entry(id).await?);
        }
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

    pub(super) async fn status(&self, id: BlobId) -> Result<BlobStatus, BlobError> {
        self.blobs().status(id.hash()).await.map_err(failed)
    }

    /// How many bytes of a blob are here.
    pub(super) async fn here_bytes(&self, id: BlobId) -> Result<u64, BlobError> {
        let local = self.store.remote().local(id.hash()).await;
        Ok(local.map_err(|error| failed(api::Error::other(error)))?.local_bytes())
    }

    /// The size of a listed blob all of which is here.
    pub(super) async fn complete_size(&self, id: BlobId) -> Result<u64, BlobError> {
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

const fn swept(interval: Duration) -> GcConfig {
    GcConfig { interval, add_protected: None }
}

/// Free bytes on the disk where a folder is, or will be; nothing if that cannot be told.
#[must_use]
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let there = folder.ancestors().find(|folder| folder.exists())?;
    let disk = rustix::fs::statvfs(there).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}
