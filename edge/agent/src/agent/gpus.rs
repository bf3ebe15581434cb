//! The GPUs on which a node computes: a job that asks for one is run there.
//!
//! A tensor program is computed by our own kernels, beside others. Opening a GPU takes a while, so
//! it is done once, when the first job asks. The bits are the same on every device, so a GPU that
//! fails costs time and nothing else: the processor does what is left.
//!
//! A command is a stranger's program: it has what its run holds by the ledger, whole GPUs or a part
//! of one, and sees nothing else; otherwise it is not run. Partitions are made before it begins
//! and removed after it has ended, by a [`Splitter`] of this machine.

use super::split::{MadePart, PartPlace, SplitFault, Splitter};
use crate::tensor_run::Engine;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tg_types::gpu::SHARE_STEPS;
use tg_types::{Device, DeviceKind, GpuPart, GpuSlice, Name, Needs, Sharing};
use tokio::sync::watch;

#[cfg(feature = "wgpu")]
use {
    super::capacity::open_gpu, std::collections::BTreeMap, std::sync::atomic::AtomicUsize,
    tg_tensor::gpu::Gpu,
};

/// How a stranger's program gets to a device, and to no other.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceAccess {
    /// Its device files.
    pub files: Vec<PathBuf>,
    /// Variables that name it.
    pub variables: Vec<(String, String)>,
    /// The driver's libraries, which images do not have.
    pub libraries: Vec<PathBuf>,
}

impl DeviceAccess {
    /// To several devices: variables with one name list what each has.
    fn together(all: Vec<Self>) -> Self {
        let mut sum = Self::default();
        for access in all {
            for (name, value) in access.variables {
                match sum.variables.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, values)) => {
                        values.push(',');
                        values.push_str(&value);
                    }
                    None => sum.variables.push((name, value)),
                }
            }
            let is_new = |file: &PathBuf| !sum.files.contains(file);
            let files: Vec<PathBuf> = access.files.into_iter().filter(is_new).collect();
            sum.files.extend(files);
            sum.libraries = access.libraries; // of the one driver of this machine
        }
        sum
    }
}

/// Where a GPU of this machine is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuPlace {
    /// As what it is offered.
    pub model: Name,
    /// What its driver calls it.
    pub name: String,
    /// Its place on the bus, if that is known.
    pub pci: Option<String>,
    /// The memory that it is offered with.
    pub memory_mib: u32,
    /// How it is given out.
    pub sharing: Sharing,
    /// By what it is split, if it is.
    pub id: Option<String>,
    /// How strangers' programs get to it, if they can.
    pub access: Option<DeviceAccess>,
}

impl GpuPlace {
    /// Whether both are one device, or devices that nothing tells apart. What its driver offers
    /// besides may change while it is in use.
    fn is_same(&self, other: &Self) -> bool {
        match (&self.pci, &other.pci) {
            (Some(one), Some(other)) => one == other,
            _ => (&self.model, &self.name) == (&other.model, &other.name),
        }
    }

    /// A GPU that strangers' programs do not get to.
    #[must_use]
    pub const fn new(model: Name, name: String, pci: Option<String>) -> Self {
        let (sharing, id, access) = (Sharing::WHOLE, None, None);
        Self { model, name, pci, memory_mib: 0, sharing, id, access }
    }

    /// Whether it is one of the devices of an offer, features aside: see [`located`].
    fn is_of(&self, device: &Device) -> bool {
        (&self.model, self.memory_mib, self.sharing)
            == (&device.model, device.memory_mib, device.sharing)
    }
}

/// What is held of the devices of an offer, with the device that it is of. Places are told apart by
/// their order, which is that of the offer, where devices may differ in features alone; so the
/// unit is counted on through all that are alike.
pub(crate) fn located(devices: &[Device], slice: GpuSlice) -> Option<(GpuSlice, Device)> {
    let device = devices.get(usize::from(slice.device))?;
    let is_alike = |other: &&Device| {
        let features = device.features;
        Device { count: device.count, features, ..(*other).clone() } == *device
    };
    let before = devices.iter().take(slice.device.into()).filter(is_alike);
    let unit = before.map(|other| other.count).fold(slice.unit.into(), u16::saturating_add);
    let unit = u8::try_from(unit).unwrap_or(u8::MAX); // nobody offers so many
    Some((GpuSlice { unit, ..slice }, device.clone()))
}

/// Why a command does not get the GPU that its run holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoGpu {
    /// The ledger does not say which.
    #[error("the ledger does not say which GPU the run holds")]
    Unnamed,
    /// It is not there any more, or strangers' programs do not get to it.
    #[error("the GPU that the run holds is out of reach")]
    Gone,
    /// Another run has it still.
    #[error("the GPU that the run holds is still in use")]
    Taken,
    /// It cannot be split.
    #[error("the GPU that the run holds cannot be split")]
    Split(#[source] SplitFault),
}

/// What a command has of a GPU.
struct Use {
    place: GpuPlace,
    /// Tells apart those that nothing else does.
    unit: u8,
    part: GpuPart,
}

impl Use {
    fn is_on(&self, other: &Self) -> bool {
        let is_told_apart = self.place.pci.is_some() && other.place.pci.is_some();
        self.place.is_same(&other.place) && (is_told_apart || self.unit == other.unit)
    }

    /// Whether both may be on one GPU, shares aside.
    fn is_beside(&self, other: &Self) -> bool {
        match (self.part, other.part) {
            (
                GpuPart::Partition { memory, start, .. },
                GpuPart::Partition { memory: others, start: from, .. },
            ) => start.saturating_add(memory) <= from || from.saturating_add(others) <= start,
            (GpuPart::Share { .. }, GpuPart::Share { .. }) => true,
            (GpuPart::Whole | GpuPart::Partition { .. } | GpuPart::Share { .. }, _) => false,
        }
    }

    const fn steps(&self) -> u16 {
        match self.part {
            GpuPart::Share { steps } => steps as u16,
            GpuPart::Whole | GpuPart::Partition { .. } => 0,
        }
    }
}

/// The GPUs, or the part of one, that one command has, until this is dropped.
pub(crate) struct Seat {
    number: u64,
    access: DeviceAccess,
    /// The partition that was made for it.
    part: Option<(String, MadePart)>,
    gpus: Arc<Gpus>,
}

impl Seat {
    /// How the command gets to it.
    pub(crate) fn access(&self) -> DeviceAccess {
        self.access.clone()
    }

    /// Makes the partition that a command has, and lets it see nothing else. All of a GPU that is
    /// to be split is its largest partition.
    fn split(&mut self, place: &GpuPlace, part: GpuPart) -> Result<(), SplitFault> {
        let slices = place.sharing.mig.ok_or(SplitFault::NotOffered)?;
        let wanted = match part {
            GpuPart::Whole => PartPlace::whole(slices),
            GpuPart::Partition { compute, memory, start } => PartPlace { compute, memory, start },
            GpuPart::Share { .. } => return Err(SplitFault::NotOffered),
        };
        let splitter = self.gpus.splitter.as_ref().ok_or(SplitFault::NotOffered)?;
        let gpu = place.id.clone().ok_or(SplitFault::NotOffered)?;
        let made = splitter.make(&gpu, wanted)?;
        self.access.variables.retain(|(name, _)| !VISIBLE.contains(&name.as_str()));
        let visible = VISIBLE.map(|name| (name.to_owned(), made.id.clone()));
        self.access.variables.extend(visible);
        self.access.files.extend(made.files.iter().cloned());
        self.part = Some((gpu, made));
        Ok(())
    }

    /// Gives it back. Removing a partition takes a while: not for a thread that others wait for.
    pub(crate) async fn give_back(seat: Option<Self>) {
        if let Some(seat) = seat {
            let _panicked = tokio::task::spawn_blocking(move || drop(seat)).await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let (Some((gpu, part)), Some(splitter)) = (self.part.take(), &self.gpus.splitter) {
            splitter.remove(&gpu, &part);
        }
        self.gpus.taken().retain(|(number, _)| *number != self.number);
    }
}

/// Variables by which NVIDIA's server for programs side by side (MPS) limits what a share may use.
/// Without that server programs take turns, and nothing but their agreement limits them.
fn share_limits(of: &Use) -> Vec<(String, String)> {
    let GpuPart::Share { steps } = of.part else { return Vec::new() };
    let percent = u32::from(steps) * 100 / u32::from(SHARE_STEPS);
    let memory = u64::from(of.place.memory_mib) * u64::from(steps) / u64::from(SHARE_STEPS);
    vec![
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE".to_owned(), percent.to_string()),
        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT".to_owned(), format!("0={memory}M")),
    ]
}

/// Variables that name the devices which a program sees.
const VISIBLE: [&str; 2] = ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"];

/// The GPUs that are offered.
pub(crate) struct Gpus {
    offered: watch::Receiver<Vec<GpuPlace>>,
    splitter: Option<Arc<dyn Splitter>>,
    // A lock: runs begin and end on threads of their own, and hold it for a moment.
    /// What commands have, by the numbers of their seats.
    taken: Mutex<Vec<(u64, Use)>>,
    /// How many seats there were.
    seats: AtomicU64,
    // A lock: looked at by every run that asks for a GPU, and held while one is opened.
    #[cfg(feature = "wgpu")]
    opened: Mutex<BTreeMap<GpuPlace, Gpu>>,
    /// Whose turn it is.
    #[cfg(feature = "wgpu")]
    turn: AtomicUsize,
}

impl Gpus {
    pub(crate) fn new(
        offered: watch::Receiver<Vec<GpuPlace>>,
        splitter: Option<Arc<dyn Splitter>>,
    ) -> Self {
        Self {
            offered,
            splitter,
            taken: Mutex::default(),
            seats: AtomicU64::new(0),
            #[cfg(feature = "wgpu")]
            opened: Mutex::default(),
            #[cfg(feature = "wgpu")]
            turn: AtomicUsize::new(0),
        }
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Vec<(u64, Use)>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The GPUs that a run holds, each with the device of the offer that it is one of; nothing if
    /// it holds none. Whatever the ledger says, no two commands meet on a GPU that must not. This
    /// may make a partition: not for a thread that others wait for.
    pub(crate) fn seat(
        self: &Arc<Self>,
        held: &[(GpuSlice, Device)],
    ) -> Result<Option<Seat>, NoGpu> {
        if held.is_empty() {
            return Ok(None);
        }
        let offered = self.offered.borrow().clone();
        let mut uses = Vec::new();
        for (slice, device) in held {
            let mut equal = offered.iter().filter(|place| place.is_of(device));
            let place = equal.nth(slice.unit.into()).ok_or(NoGpu::Gone)?.clone();
            uses.push(Use { place, unit: slice.unit, part: slice.part });
        }
        let accesses = uses.iter().map(|it| it.place.access.clone().ok_or(NoGpu::Gone));
        let accesses = accesses.collect::<Result<Vec<DeviceAccess>, NoGpu>>()?;
        let split = uses.iter().find(|it| it.place.sharing.mig.is_some());
        let split = split.map(|it| (it.place.clone(), it.part));
        if split.is_some() && uses.len() > 1 {
            // CUDA uses one partition at a time, and a GPU with MIG on has nothing else.
            return Err(NoGpu::Split(SplitFault::NotTogether));
        }
        let limits = uses.iter().flat_map(share_limits).collect::<Vec<_>>();
        let number = self.take(uses)?;
        let access = DeviceAccess::together(accesses);
        // From here on dropping gives back what was taken.
        let mut seat = Seat { number, access, part: None, gpus: Arc::clone(self) };
        seat.access.variables.extend(limits);
        if let Some((place, part)) = split {
            seat.split(&place, part).map_err(NoGpu::Split)?;
        }
        Ok(Some(seat))
    }

    /// Notes what a command has, unless others are in the way; gives the number of its seat.
    fn take(&self, uses: Vec<Use>) -> Result<u64, NoGpu> {
        let mut taken = self.taken();
        for new in &uses {
            let here = || taken.iter().map(|(_, it)| it).filter(|it| it.is_on(new));
            let steps = here().map(Use::steps).fold(new.steps(), u16::saturating_add);
            if !here().all(|it| it.is_beside(new)) || steps > u16::from(SHARE_STEPS) {
                return Err(NoGpu::Taken);
            }
        }
        let number = self.seats.fetch_add(1, Ordering::Relaxed);
        taken.extend(uses.into_iter().map(|it| (number, it)));
        Ok(number)
    }

    /// What computes a job with these needs. The first time this opens a device: not for a thread
    /// that others wait for.
    pub(crate) fn engine(&self, needs: &Needs) -> Engine {
        if needs.kind == Some(DeviceKind::Gpu) {
            self.any(needs.model.as_ref())
        } else {
            Engine::Processor
        }
    }

    /// The next GPU in turn that works, of those that are wanted.
    #[cfg(feature = "wgpu")]
    fn any(&self, model: Option<&Name>) -> Engine {
        let offered = self.offered.borrow().clone();
        let mut wanted = wanted(&offered, model);
        // Commands have theirs for themselves, as long as there are others.
        let is_free =
            |place: &GpuPlace| !self.taken().iter().any(|(_, it)| it.place.is_same(place));
        if wanted.iter().any(|place| is_free(place)) {
            wanted.retain(|place| is_free(place));
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        for number in 0..wanted.len() {
            let Some(place) = wanted.get(turn.wrapping_add(number) % wanted.len()) else { break };
            if let Some(gpu) = self.get(place) {
                return Engine::Gpu(gpu);
            }
        }
        Engine::Processor
    }

    #[cfg(feature = "wgpu")]
    fn get(&self, place: &GpuPlace) -> Option<Gpu> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has failed may work when it is opened anew.
        if let Some(gpu) = opened.get(place).filter(|gpu| gpu.failure().is_none()) {
            return Some(gpu.clone());
        }
        let model = &place.model;
        let gpu = open_gpu(model, std::slice::from_ref(place));
        let gpu = gpu.inspect_err(|error| tracing::warn!(%model, %error, "another one computes"));
        let gpu = gpu.ok()?;
        opened.insert(place.clone(), gpu.clone());
        Some(gpu)
    }

    /// There are no kernels for GPUs in this build.
    #[cfg(not(feature = "wgpu"))]
    #[expect(clippy::unused_self, reason = "a build with kernels needs it")]
    const fn any(&self, _: Option<&Name>) -> Engine {
        Engine::Processor
    }
}

/// The GPUs of the model that is asked for. A checker may have none of it: then all of them, since
/// any is quicker than the processor.
#[cfg(any(test, feature = "wgpu"))]
fn wanted<'a>(offered: &'a [GpuPlace], model: Option<&Name>) -> Vec<&'a GpuPlace> {
    let is_wanted = |place: &&GpuPlace| model.is_none_or(|asked| is_of_model(asked, &place.model));
    let wanted: Vec<&GpuPlace> = offered.iter().filter(is_wanted).collect();
    if wanted.is_empty() { offered.iter().collect() } else { wanted }
}

/// Whether a GPU is of a model, as the scheduler sees it: words in a row of its name are those that
/// are asked for, however they are spaced.
#[cfg(any(test, feature = "wgpu"))]
fn is_of_model(asked: &Name, name: &Name) -> bool {
    let letters = |text: &str| -> String {
        text.chars().filter(|it| it.is_alphanumeric()).collect::<String>().to_lowercase()
    };
    let asked = letters(asked.as_str());
    let words = name.as_str().split(|it: char| !it.is_alphanumeric());
    let words: Vec<String> = words.map(letters).collect();
    let is_row = |row: &[String]| row.concat() == asked;
    !asked.is_empty() && (1..=words.len()).any(|count| words.windows(count).any(is_row))
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "wgpu")]
    use super::Engine;
    use super::{DeviceAccess, GpuPlace, Gpus, NoGpu, located, wanted};
    use crate::agent::split::{MadePart, PartPlace, SplitFault, Splitter};
    use std::path::PathBuf;
    use std::sync::Arc;
    #[cfg(feature = "wgpu")]
    use tg_types::Needs;
    use tg_types::{Device, DeviceKind, Features, GpuPart, GpuSlice, MigSlices, Sharing};
    use tokio::sync::watch;

    fn place(model: &str, pci: &str) -> GpuPlace {
        let model = model.parse().expect("a name");
        GpuPlace::new(model, String::new(), Some(pci.to_owned()))
    }

    fn device(place: &GpuPlace) -> Device {
        Device {
            kind: DeviceKind::Gpu,
            model: place.model.clone(),
            memory_mib: place.memory_mib,
            count: 2,
            features: Features::NONE,
            sharing: place.sharing,
        }
    }

    fn reached(place: GpuPlace, number: u8) -> GpuPlace {
        let variable = ("CUDA_VISIBLE_DEVICES".to_owned(), format!("GPU-{number}"));
        let access = DeviceAccess {
            files: vec![PathBuf::from(format!("/dev/nvidia{number}")), "/dev/nvidiactl".into()],
            variables: vec![variable],
            ..DeviceAccess::default()
        };
        GpuPlace { access: Some(access), ..place }
    }

    const fn slice(unit: u8, part: GpuPart) -> GpuSlice {
        GpuSlice { device: 0, unit, part }
    }

    /// Goal: a command has the GPUs that its run holds, whatever the ledger says never one that
    /// another has. Method: two equal cards, and one that is out of reach.
    #[test]
    fn command_has_the_gpus_that_its_run_holds_or_none() {
        let cards = [reached(place("RTX 4090", "1"), 0), reached(place("RTX 4090", "2"), 1)];
        let far = place("A100", "3");
        let near = device(&cards[0]);
        let away = device(&far);
        let [one, two] = cards;
        let (_offers, offered) = watch::channel(vec![one, far, two]);
        let gpus = Arc::new(Gpus::new(offered, None));
        let whole = |unit| (slice(unit, GpuPart::Whole), near.clone());
        assert!(gpus.seat(&[]).is_ok_and(|seat| seat.is_none()), "it holds none");
        assert_eq!(gpus.seat(&[(slice(0, GpuPart::Whole), away)]).err(), Some(NoGpu::Gone));
        assert_eq!(gpus.seat(&[whole(2)]).err(), Some(NoGpu::Gone), "there is no third");
        let seat = gpus.seat(&[whole(1)]).ok().flatten().expect("it is free");
        assert_eq!(seat.access().files, ["/dev/nvidia1", "/dev/nvidiactl"].map(PathBuf::from));
        assert_eq!(gpus.seat(&[whole(1)]).err(), Some(NoGpu::Taken));
        assert_eq!(gpus.seat(&[whole(0), whole(1)]).err(), Some(NoGpu::Taken));
        drop(seat);
        let both = gpus.seat(&[whole(0), whole(1)]).ok().flatten().expect("both are free");
        let access = both.access();
        assert_eq!(access.files.len(), 3, "the shared file once");
        assert_eq!(access.variables[0].1, "GPU-0,GPU-1");
        assert_eq!(gpus.seat(&[whole(0)]).err(), Some(NoGpu::Taken));
    }

    /// Goal: devices of an offer that differ in features alone are different GPUs. Method: two of
    /// one, one of the other, and one in between that is not alike.
    #[test]
    fn gpus_that_differ_in_features_alone_are_told_apart() {
        let cards = [0, 1, 2].map(|number| reached(place("RTX 4090", &number.to_string()), number));
        let far = Device { memory_mib: 1, ..device(&cards[0]) };
        let two = device(&cards[0]);
        let other = Device { features: Features::TENSOR_CORES, count: 1, ..two.clone() };
        let devices = [two, far, other];
        let (_offers, offered) = watch::channel(cards.to_vec());
        let gpus = Arc::new(Gpus::new(offered, None));
        let part = GpuPart::Whole;
        let held = [(0, 0), (0, 1), (2, 0)].map(|(device, unit)| {
            located(&devices, GpuSlice { device, unit, part }).expect("is in the offer")
        });
        let seat = gpus.seat(&held).ok().flatten().expect("three GPUs");
        assert_eq!(seat.access().variables[0].1, "GPU-0,GPU-1,GPU-2");
        assert!(located(&devices, GpuSlice { device: 3, unit: 0, part }).is_none());
    }

    #[test]
    fn shares_of_a_gpu_have_limits_and_never_more_than_all_of_it() {
        let sharing = Sharing { mig: None, shares: true };
        let card = GpuPlace { memory_mib: 24_000, sharing, ..reached(place("RTX 4090", "1"), 0) };
        let of = device(&card);
        let (_offers, offered) = watch::channel(vec![card]);
        let gpus = Arc::new(Gpus::new(offered, None));
        let share = |steps| gpus.seat(&[(slice(0, GpuPart::Share { steps }), of.clone())]);
        let seats = [share(5), share(15)].map(|seat| seat.ok().flatten().expect("room"));
        let limits = |seat: &super::Seat| seat.access().variables[1..].to_vec();
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let first = [
            named("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25"),
            named("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=6000M"),
        ];
        assert_eq!(limits(&seats[0]), first);
        assert_eq!(share(1).err(), Some(NoGpu::Taken));
        let whole = [(slice(0, GpuPart::Whole), of.clone())];
        assert_eq!(gpus.seat(&whole).err(), Some(NoGpu::Taken));
        drop(seats);
        assert!(gpus.seat(&whole).is_ok_and(|seat| seat.is_some()), "it is free again");
    }

    /// What is made of a GPU that does not exist.
    #[derive(Default)]
    struct Paper(std::sync::Mutex<Vec<PartPlace>>);

    impl Splitter for Paper {
        fn make(&self, gpu: &str, place: PartPlace) -> Result<MadePart, SplitFault> {
            let mut made = self.0.lock().expect("nobody panics");
            if gpu != "GPU-1" {
                return Err(SplitFault::Driver);
            }
            made.push(place);
            let files = vec![PathBuf::from(format!("/dev/cap{}", place.start))];
            let id = format!("MIG-{}", place.start);
            Ok(MadePart { place, instance: place.start.into(), id, files })
        }

        fn remove(&self, _: &str, made: &MadePart) {
            self.0.lock().expect("nobody panics").retain(|place| *place != made.place);
        }
    }

    /// Goal: a partition is there while its command is, and the command sees nothing else.
    #[test]
    fn partition_is_made_for_a_command_and_removed_after_it() {
        let sharing = Sharing { mig: Some(MigSlices::Seven), shares: false };
        let card = reached(place("A100", "1"), 1);
        let card = GpuPlace { sharing, id: Some("GPU-1".to_owned()), ..card };
        let of = device(&card);
        let (_offers, offered) = watch::channel(vec![card]);
        let paper = Arc::new(Paper::default());
        let gpus = Arc::new(Gpus::new(offered.clone(), Some(paper.clone())));
        let part = |start| {
            let part = GpuPart::Partition { compute: 1, memory: 1, start };
            gpus.seat(&[(slice(0, part), of.clone())])
        };
        let seats: Vec<_> = (0..7).map(|start| part(start).ok().flatten().expect("room")).collect();
        assert_eq!(paper.0.lock().expect("nobody panics").len(), 7);
        let access = seats[3].access();
        assert!(access.variables.iter().all(|(_, value)| value == "MIG-3"), "{access:?}");
        assert!(access.files.contains(&PathBuf::from("/dev/cap3")), "{access:?}");
        assert_eq!(part(3).err(), Some(NoGpu::Taken));
        let whole = [(slice(0, GpuPart::Whole), of.clone())];
        assert_eq!(gpus.seat(&whole).err(), Some(NoGpu::Taken));
        drop(seats);
        assert_eq!(paper.0.lock().expect("nobody panics").len(), 0, "all are removed");
        let all = gpus.seat(&whole).ok().flatten().expect("all of it");
        let whole_place = PartPlace { compute: 7, memory: 8, start: 0 };
        assert_eq!(*paper.0.lock().expect("nobody panics"), [whole_place]);
        drop(all);
        let alone = Arc::new(Gpus::new(offered, None));
        let fault = NoGpu::Split(SplitFault::NotOffered);
        assert_eq!(alone.seat(&whole).err(), Some(fault), "nobody splits it here");
        assert!(alone.taken().is_empty(), "and nothing is left of it");
    }

    #[test]
    fn gpus_of_the_model_that_is_asked_for_are_wanted_and_any_if_there_is_none() {
        let offered = [
            place("NVIDIA GeForce RTX 4090", "1"),
            place("NVIDIA A100 80GB", "2"),
            place("NVIDIA GeForce RTX 4090", "3"),
        ];
        let found = |asked: Option<&str>| -> Vec<&str> {
            let asked = asked.map(|name| name.parse().expect("a name"));
            let wanted = wanted(&offered, asked.as_ref()).into_iter();
            wanted.filter_map(|place| place.pci.as_deref()).collect()
        };
        assert_eq!(found(Some("rtx4090")), ["1", "3"], "equal cards are two");
        assert_eq!(found(Some("a100")), ["2"]);
        assert_eq!(found(Some("A10")), ["1", "2", "3"], "there is none");
        assert_eq!(found(None), ["1", "2", "3"]);
    }

    #[cfg(feature = "wgpu")]
    #[test]
    fn gpu_computes_what_asks_for_one_and_the_processor_all_else() {
        let adapter = tg_tensor::gpu::devices().into_iter().next().expect("a driver in software");
        let model: tg_types::Name = "offered gpu".parse().expect("a name");
        let place = GpuPlace::new(model, adapter.name, adapter.pci);
        let gone = GpuPlace::new("gone".parse().expect("a name"), String::new(), None);
        let needs = Needs { kind: Some(DeviceKind::Gpu), ..Needs::ANY };
        let check = |offered: Vec<GpuPlace>, needs: &Needs, on_gpu: bool| {
            let (_offers, offered) = watch::channel(offered);
            let gpus = Gpus::new(offered, None);
            for _ in 0..2 {
                assert_eq!(matches!(gpus.engine(needs), Engine::Gpu(_)), on_gpu);
            }
        };
        check(vec![place.clone()], &needs, true);
        check(vec![gone.clone(), place.clone()], &needs, true);
        check(vec![place], &Needs::ANY, false);
        check(vec![gone], &needs, false);
        check(Vec::new(), &needs, false);
    }
}
