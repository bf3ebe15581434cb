//! Splits this machine's GPUs for runs: makes partitions before and removes them after.
//!
//! Which partitions are ours is noted in a file before they are made, by GPU and place. So whatever
//! a process that died has left is found and removed by the next one, and what somebody else has
//! made is never touched: a GPU that has partitions of others is not split by us. One process at a
//! time has the notes, or it would take the partitions of another for those of one that died.
//!
//! Invariant: a partition that we have made is noted until the driver has removed it.

use crate::files::{self, FileError, Readers};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tg_agent::agent::{MadePart, PartPlace, SplitFault, Splitter};
use tg_provider::devices::{Catalogue, DetectSettings, DeviceId, MigMode, NvidiaFault};
use tg_provider::partition::{Made, PartitionFault, Partitioner, Place};
use tg_types::MigSlices;

/// How often removing a partition is tried: programs take a moment to end.
const REMOVE_TRIES: u32 = 20;

/// How long to wait before the next try.
const REMOVE_PAUSE: Duration = Duration::from_millis(100);

/// The most partitions of earlier runs that are tried again before one is made: no GPU has more.
const LEFT_MAX: usize = 8;

/// The most bytes of notes: a line for each partition of many GPUs.
const NOTES_BYTES_MAX: u64 = 1 << 16;

/// Why a GPU, or none of this machine, is split.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsplit {
    /// Another process has the notes.
    #[error("another `provide` of this machine splits its GPUs")]
    Locked,
    /// Nobody knows which partitions are ours.
    #[error("which partitions are ours cannot be told")]
    Notes(#[source] FileError),
    /// The driver's library does not work.
    #[error("NVIDIA's library does not work")]
    Library(#[source] NvidiaFault),
    /// It is cut up already.
    #[error("the GPU {device} has partitions that are its owner's")]
    Foreign {
        /// Which.
        device: DeviceId,
    },
    /// The scheduler does not know its partitions.
    #[error("the driver makes partitions of the GPU {device} that are not known here")]
    OtherKinds {
        /// Which.
        device: DeviceId,
    },
    /// Making, listing or removing one failed.
    #[error(transparent)]
    Partition(#[from] PartitionFault),
}

impl Unsplit {
    /// What to do about it.
    pub(crate) const fn fix(&self) -> &'static str {
        match self {
            Self::Locked => "offer all GPUs by one `provide`",
            Self::Notes(_) => "mend that file; if it is lost, remove it and our partitions",
            Self::Library(fault) => fault.fix(),
            Self::Foreign { .. } => {
                "commands get no GPU that is cut up; remove its parts with `nvidia-smi mig -dci` \
                 and `-dgi`, so that it is split for each run"
            }
            Self::OtherKinds { .. } => "switch MIG off with `nvidia-smi -mig 0` to offer it whole",
            Self::Partition(fault) => fault.fix(),
        }
    }
}

/// Partitions that are ours: of which GPU, and where.
type Ours = BTreeSet<(String, Place)>;

/// What was made and is not removed.
#[derive(Default)]
struct State {
    /// As it is noted.
    ours: Ours,
    /// Those whose run has ended, by GPU and the driver's number.
    left: BTreeMap<(String, u32), Place>,
}

/// Splits GPUs.
pub(crate) struct MigSplitter {
    partitioner: Partitioner,
    /// GPUs that are split, by what they are called.
    gpus: BTreeMap<String, (DeviceId, MigSlices)>,
    notes: PathBuf,
    /// Keeps others from the notes while it is open.
    _lock: File,
    // A lock: runs begin and end on threads of their own. It is held while a driver works, because
    // two programs that change one GPU at a time get in each other's way.
    state: Mutex<State>,
}

impl MigSplitter {
    /// Takes over the GPUs of this machine that are to be split: those on which MIG is on, that
    /// nobody else has cut up, and that this user may split. None if there are none. Says why
    /// others are not split.
    pub(crate) fn open(
        settings: &DetectSettings,
        catalogue: &Catalogue,
        notes: PathBuf,
    ) -> (Option<Self>, Vec<Unsplit>) {
        let on = catalogue.devices().iter().filter(|facts| facts.mig == MigMode::On);
        let ids: Vec<DeviceId> = on.map(|facts| facts.id.clone()).collect();
        if ids.is_empty() {
            return (None, Vec::new());
        }
        let mut splitter = match Self::begin(settings, notes) {
            Ok(splitter) => splitter,
            Err(why) => return (None, vec![why]),
        };
        let mut reasons = Vec::new();
        for id in ids {
            match splitter.take_over(&id) {
                Ok(slices) => {
                    splitter.gpus.insert(id.as_str().to_owned(), (id, slices));
                }
                Err(why) => reasons.push(why),
            }
        }
        ((!splitter.gpus.is_empty()).then_some(splitter), reasons)
    }

    /// One that splits nothing yet.
    fn begin(settings: &DetectSettings, notes: PathBuf) -> Result<Self, Unsplit> {
        let lock = lock(&notes)?;
        let ours = read(&notes).map_err(Unsplit::Notes)?;
        let state = Mutex::new(State { ours, ..State::default() });
        let partitioner = Partitioner::open(settings).map_err(Unsplit::Library)?;
        Ok(Self { partitioner, gpus: BTreeMap::new(), notes, _lock: lock, state })
    }

    /// The GPUs that are split, and into how many slices they can be.
    pub(crate) fn gpus(&self) -> BTreeMap<DeviceId, MigSlices> {
        self.gpus.values().cloned().collect()
    }

    /// Removes what an earlier process has left of a GPU; says how it splits if it does.
    fn take_over(&self, id: &DeviceId) -> Result<MigSlices, Unsplit> {
        let mut state = self.state();
        for made in self.partitioner.list(id)? {
            if state.ours.contains(&(id.as_str().to_owned(), made.place)) {
                self.remove_slowly(id, made.instance)?;
                self.forget(&mut state, id, made.place);
                tracing::info!(%id, place = %made.place, "a partition of an earlier run is gone");
            }
        }
        // What else is noted was never made, or somebody has removed it.
        state.ours.retain(|(gpu, _)| gpu != id.as_str());
        self.write(&state.ours);
        if !self.partitioner.list(id)?.is_empty() {
            return Err(Unsplit::Foreign { device: id.clone() });
        }
        let other_kinds = || Unsplit::OtherKinds { device: id.clone() };
        let slices = self.partitioner.slices(id)?.ok_or_else(other_kinds)?;
        self.try_out(&mut state, id)?;
        Ok(slices)
    }

    /// Makes and removes the smallest partition of a GPU that has none: drivers do not say before
    /// whether this user may.
    fn try_out(&self, state: &mut State, id: &DeviceId) -> Result<(), PartitionFault> {
        let Some(smallest) = self.partitioner.places(id)?.into_iter().next() else { return Ok(()) };
        let made = self.make_noted(state, id, smallest)?;
        self.remove_slowly(id, made.instance)?;
        self.forget(state, id, smallest);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a partition; one that is not there is removed.
    fn remove_slowly(&self, id: &DeviceId, instance: u32) -> Result<(), PartitionFault> {
        let mut tries = 1;
        loop {
            match self.partitioner.remove(id, instance) {
                Err(PartitionFault::InUse { .. }) if tries < REMOVE_TRIES => tries += 1,
                Err(PartitionFault::Unknown { .. }) => return Ok(()),
                removed => return removed,
            }
            thread::sleep(REMOVE_PAUSE);
        }
    }

    /// Tries once more to remove what is left of runs that have ended.
    fn remove_left(&self, state: &mut State, id: &DeviceId) {
        let of_gpu = state.left.iter().filter(|((gpu, _), _)| gpu == id.as_str());
        let left = of_gpu.map(|((_, instance), place)| (*instance, *place)).take(LEFT_MAX);
        for (instance, place) in left.collect::<Vec<_>>() {
            match self.partitioner.remove(id, instance) {
                Ok(()) | Err(PartitionFault::Unknown { .. }) => {
                    state.left.remove(&(id.as_str().to_owned(), instance));
                    self.forget(state, id, place);
                }
                Err(fault) => tracing::debug!(%fault, "a partition is still left over"),
            }
        }
    }

    /// Notes a partition and makes it. What fails leaves no note, unless there was one before or
    /// half of the partition stays.
    fn make_noted(
        &self,
        state: &mut State,
        id: &DeviceId,
        place: Place,
    ) -> Result<Made, PartitionFault> {
        let gpu = id.as_str().to_owned();
        let is_new = state.ours.insert((gpu.clone(), place));
        self.write(&state.ours);
        let made = self.partitioner.make(id, place);
        match &made {
            // Whatever was left there, or had its number, is gone.
            Ok(made) => state.left.retain(|(of, instance), at| {
                *of != gpu || (*instance != made.instance && *at != place)
            }),
            Err(_) if is_new => match self.half_made(id, place) {
                Some(instance) => {
                    state.left.insert((gpu, instance), place);
                }
                None => self.forget(state, id, place),
            },
            Err(_) => {}
        }
        made
    }

    /// The number of a partition at a place that no program can use.
    fn half_made(&self, id: &DeviceId, place: Place) -> Option<u32> {
        let mut listed = self.partitioner.list(id).ok()?.into_iter();
        let half = listed.find(|made| made.place == place && made.id.is_none());
        half.map(|made| made.instance)
    }

    fn forget(&self, state: &mut State, id: &DeviceId, place: Place) {
        state.ours.remove(&(id.as_str().to_owned(), place));
        self.write(&state.ours);
    }

    /// Notes what is ours. Whoever cannot note it still removes it, unless it dies.
    fn write(&self, ours: &Ours) {
        let line = |(gpu, place): &(String, Place)| {
            format!("{gpu} {} {} {}\n", place.compute, place.memory, place.start)
        };
        let text: String = ours.iter().map(line).collect();
        if let Err(error) = files::write(&self.notes, text.as_bytes(), Readers::Owner) {
            tracing::warn!(%error, "which partitions are ours is not noted");
        }
    }
}

impl Splitter for MigSplitter {
    fn make(&self, gpu: &str, place: PartPlace) -> Result<MadePart, SplitFault> {
        let (id, _) = self.gpus.get(gpu).ok_or(SplitFault::NotOffered)?;
        let PartPlace { compute, memory, start } = place;
        let mut state = self.state();
        self.remove_left(&mut state, id);
        let made = self.make_noted(&mut state, id, Place { compute, memory, start });
        let made = made.map_err(|fault| {
            tracing::warn!(%fault, fix = fault.fix(), "a GPU was not split");
            SplitFault::Driver
        })?;
        drop(state);
        let files = self.partitioner.files(id, made.instance);
        // A partition that was made has an id.
        let name = made.id.map_or_else(String::new, |id| id.as_str().to_owned());
        Ok(MadePart { place, instance: made.instance, id: name, files })
    }

    fn remove(&self, gpu: &str, made: &MadePart) {
        let Some((id, _)) = self.gpus.get(gpu) else { return };
        let PartPlace { compute, memory, start } = made.place;
        let place = Place { compute, memory, start };
        let mut state = self.state();
        match self.remove_slowly(id, made.instance) {
            Ok(()) => self.forget(&mut state, id, place),
            // It stays noted, and is tried again.
            Err(fault) => {
                tracing::warn!(%fault, fix = fault.fix(), "a partition is left over");
                state.left.insert((gpu.to_owned(), made.instance), place);
            }
        }
    }
}

/// Has the notes for this process alone, until the file is closed.
fn lock(notes: &Path) -> Result<File, Unsplit> {
    let path = notes.with_extension("lock");
    if let Some(folder) = path.parent() {
        files::make_folder(folder).map_err(Unsplit::Notes)?;
    }
    let opened = File::options().create(true).append(true).open(&path);
    let file = opened.map_err(FileError::io("open", &path)).map_err(Unsplit::Notes)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Unsplit::Locked),
        Err(TryLockError::Error(error)) => Err(Unsplit::Notes(FileError::io("lock", &path)(error))),
    }
}

/// What was noted; nothing if there are no notes. Lines that are not understood are left out.
fn read(notes: &Path) -> Result<Ours, FileError> {
    let bytes = match files::read(notes, NOTES_BYTES_MAX) {
        Err(error) if error.is_absent() => Vec::new(),
        read => read?,
    };
    let line = |line: &str| {
        let mut words = line.split(' ');
        let gpu = words.next()?.to_owned();
        let mut number = || words.next()?.parse::<u8>().ok();
        let (compute, memory, start) = (number()?, number()?, number()?);
        Some((gpu, Place { compute, memory, start }))
    };
    Ok(String::from_utf8_lossy(&bytes).lines().filter_map(line).collect())
}

#[cfg(test)]
mod tests;
