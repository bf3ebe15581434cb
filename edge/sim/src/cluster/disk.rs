//! A node's disk, which forgets or tears what was not synced when the node crashes.
//!
//! The runtime's own blobs already lose unsynced bytes when they are dropped. A real disk may also
//! have written some of them: any subset of the bytes of a write that no sync covered. The runtime
//! models that only for a crash of the whole machine, and here single nodes crash while the others
//! go on. So every blob notes what it owes to the disk, and after a crash a part of that is
//! written behind the node's back, before it starts again.

use super::lock;
use commonware_runtime::{
    Blob, BlobVersion, Clock as _, Error, Handle, IoBufs, IoBufsMut, ReadOptions, Storage,
    WriteOptions, deterministic,
};
use rand::{RngExt as _, rngs::StdRng};
use std::{
    collections::BTreeMap,
    ops::{Range, RangeInclusive},
    sync::{Arc, Mutex},
    time::Duration,
};

/// Times a blob is tried to be opened after a crash: its last owner may need a few turns to go.
const REOPEN_TRIES_MAX: usize = 100;

/// Longest run of bytes that a torn write keeps or loses in one piece.
const TORN_RUN_BYTES_MAX: usize = 96;

/// A blob by partition and name.
type FileKey = (String, Vec<u8>);

/// What a disk does at a crash with bytes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// It has none of them.
    Lose,
    /// It has a beginning of each write.
    Prefix,
    /// It has some bytes of each write and not others.
    Subset,
}

impl Tear {
    /// Every way, for a draw.
    pub const ALL: [Self; 3] = [Self::Lose, Self::Prefix, Self::Subset];
}

/// Something done to a blob that no sync of the whole blob has covered yet.
#[derive(Debug)]
enum Mutation {
    Write {
        offset: u64,
        bytes: IoBufs,
    },
    /// Written through: durable, but earlier debts must not be written over it.
    Durable {
        offset: u64,
        bytes: IoBufs,
    },
    Resize(u64),
}

#[derive(Debug)]
struct Debt {
    generation: u64,
    mutations: Vec<Mutation>,
}

#[derive(Debug, Default)]
struct Debts {
    generation: u64,
    files: BTreeMap<FileKey, Debt>,
}

/// The disk of one node: what its blobs have not synced yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<Debts>>);

impl Disk {
    fn opened(&self, file: FileKey) -> u64 {
        let mut debts = lock(&self.0);
        debts.generation += 1;
        let generation = debts.generation;
        debts.files.insert(file, Debt { generation, mutations: Vec::new() });
        generation
    }

    fn removed(&self, partition: &str, name: Option<&[u8]>) {
        lock(&self.0).files.retain(|(in_partition, in_name), _| {
            in_partition != partition || name.is_some_and(|name| in_name != name)
        });
    }

    fn note(&self, blob: &DiskBlob, mutation: Mutation) {
        let mut debts = lock(&self.0);
        if let Some(debt) = debts.files.get_mut(&blob.file)
            && debt.generation == blob.generation
        {
            debt.mutations.push(mutation);
        }
    }

    fn settled(&self, blob: &DiskBlob) {
        let mut debts = lock(&self.0);
        if let Some(debt) = debts.files.get_mut(&blob.file)
            && debt.generation == blob.generation
        {
            debt.mutations.clear();
        }
    }

    /// The node has crashed and all its blobs are dropped: decides what of their debts is written.
    /// Returns how many blobs have torn writes.
    pub(crate) async fn crash(
        &self,
        context: &deterministic::Context,
        tear: Tear,
        chance: &mut StdRng,
    ) -> usize {
        let files = std::mem::take(&mut lock(&self.0).files);
        let mut torn = 0;
        for ((partition, name), debt) in files {
            if tear == Tear::Lose || debt.mutations.is_empty() || chance.random_range(0..4) == 0 {
                continue;
            }
            let blob = reopen(context, &partition, &name).await;
            for mutation in debt.mutations {
                write_torn(&blob, mutation, tear, chance).await;
            }
            blob.sync().await.expect("memory can be synced");
            torn += 1;
        }
        torn
    }
}

async fn reopen(
    context: &deterministic::Context,
    partition: &str,
    name: &[u8],
) -> deterministic::Blob {
    for _try in 0..REOPEN_TRIES_MAX {
        let versions = BlobVersion::new(0)..=BlobVersion::new(u16::MAX);
        match context.open_versioned(partition, name, versions).await {
            Ok((blob, _, _)) => return blob,
            Err(Error::BlobAlreadyOpen(..)) => context.sleep(Duration::from_millis(1)).await,
            Err(error) => unreachable!("memory cannot be opened: {error}"),
        }
    }
    unreachable!("a task of the crashed node still runs")
}

async fn write_torn(
    blob: &deterministic::Blob,
    mutation: Mutation,
    tear: Tear,
    chance: &mut StdRng,
) {
    let (offset, bytes, is_durable) = match mutation {
        Mutation::Write { offset, bytes } => (offset, bytes, false),
        Mutation::Durable { offset, bytes } => (offset, bytes, true),
        Mutation::Resize(length) => {
            if chance.random_bool(0.5) {
                blob.resize(length).await.expect("memory can be resized");
            }
            return;
        }
    };
    let bytes = bytes.coalesce();
    let length = bytes.len();
    let beginning = |end| std::iter::once(0..end).collect();
    let runs: Vec<Range<usize>> = match tear {
        _ if is_durable => beginning(length),
        Tear::Lose => Vec::new(),
        Tear::Prefix => beginning(chance.random_range(0..=length)),
        Tear::Subset => torn_runs(length, chance),
    };
    for run in runs.into_iter().filter(|run| !run.is_empty()) {
        let at = offset + run.start as u64;
        let run = bytes.slice(run);
        blob.write_at(at, run, WriteOptions::default()).await.expect("memory can be written");
    }
}

/// Every other run of a random cut.
fn torn_runs(length: usize, chance: &mut StdRng) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let (mut at, mut is_kept) = (0, chance.random_bool(0.5));
    while at < length {
        let end = length.min(at + chance.random_range(1..=TORN_RUN_BYTES_MAX));
        if is_kept {
            runs.push(at..end);
        }
        (at, is_kept) = (end, !is_kept);
    }
    runs
}

/// A blob that tells its node's disk what it has not synced.
#[derive(Debug)]
pub struct DiskBlob {
    inner: BlobDebug,
    disk: Disk,
    file: FileKey,
    generation: u64,
}

/// The runtime's blob, which cannot be printed.
struct BlobDebug(deterministic::Blob);

impl std::fmt::Debug for BlobDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Blob")
    }
}

impl DiskBlob {
    pub(crate) async fn open(
        context: &deterministic::Context,
        disk: &Disk,
        file: FileKey,
        versions: RangeInclusive<BlobVersion>,
    ) -> Result<(Self, u64, BlobVersion), Error> {
        let (inner, length, version) = context.open_versioned(&file.0, &file.1, versions).await?;
        let generation = disk.opened(file.clone());
        let inner = BlobDebug(inner);
        Ok((Self { inner, disk: disk.clone(), file, generation }, length, version))
    }

    pub(crate) async fn remove(
        context: &deterministic::Context,
        disk: &Disk,
        partition: &str,
        name: Option<&[u8]>,
    ) -> Result<(), Error> {
        context.remove(partition, name).await?;
        disk.removed(partition, name);
        Ok(())
    }
}

impl Blob for DiskBlob {
    async fn read_at_buf(
        &self,
        offset: u64,
        len: usize,
        bufs: impl Into<IoBufsMut> + Send,
        options: ReadOptions,
    ) -> Result<IoBufsMut, Error> {
        self.inner.0.read_at_buf(offset, len, bufs, options).await
    }

    async fn read_at(
        &self,
        offset: u64,
        len: usize,
        options: ReadOptions,
    ) -> Result<IoBufsMut, Error> {
        self.inner.0.read_at(offset, len, options).await
    }

    async fn write_at(
        &self,
        offset: u64,
        bufs: impl Into<IoBufs> + Send,
        options: WriteOptions,
    ) -> Result<(), Error> {
        let bytes = bufs.into();
        self.inner.0.write_at(offset, bytes.clone(), options).await?;
        let mutation = if options.contains(WriteOptions::SYNC) {
            Mutation::Durable { offset, bytes }
        } else {
            Mutation::Write { offset, bytes }
        };
        self.disk.note(self, mutation);
        Ok(())
    }

    async fn resize(&self, len: u64) -> Result<(), Error> {
        self.inner.0.resize(len).await?;
        self.disk.note(self, Mutation::Resize(len));
        Ok(())
    }

    async fn sync(&self) -> Result<(), Error> {
        self.inner.0.sync().await?;
        self.disk.settled(self);
        Ok(())
    }

    async fn start_sync(&self) -> Handle<()> {
        // The memory behind it has finished when this returns, whatever the handle says later.
        let started = self.inner.0.start_sync().await;
        self.disk.settled(self);
        started
    }
}
