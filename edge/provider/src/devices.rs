//! What a machine has to compute with: its processor always, GPUs and other devices as found, read
//! again while the provider runs.
//!
//! A [`Catalogue`] looks through every source it has, and says of each that finds nothing why. No
//! source can spoil another, and nothing is invented: a machine without a GPU shows its processor
//! and the reasons. [`findings`] says what is wrong and what to do.

mod accel;
mod access;
#[cfg(feature = "wgpu")]
mod adapters;
mod facts;
mod findings;
mod host;
mod limits;
mod nvidia;
mod pci;
mod processor;

pub use access::Access;
pub use facts::{
    DeviceFacts, DeviceId, DeviceProcess, Feature, Health, Kind, Memory, MigMode, Owner, Partition,
    PciAddress, Percent, Refusal, Source,
};
pub use findings::{DRIVER_MAJOR_MIN, Finding, Severity, findings, judge};
pub use host::{Clock, Disk, HostFacts};
pub use nvidia::{LostDevice, NvidiaFault};
pub use pci::PciGpu;

pub(crate) use access::partition_files;
pub(crate) use nvidia::open_nvml;
pub(crate) use processor::Times;

use crate::root::Root;
use nvidia::Nvidia;
use processor::Processor;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Instant;
use tg_types::node::DEVICES_MAX;
use tg_types::{Device, DeviceKind, Features, MigSlices, Name, Sharing};

/// Where to look for devices. Made from settings and environment elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectSettings {
    /// The folder below which the operating system's files are: `/`, or a recorded tree.
    pub root: PathBuf,
    /// NVIDIA's management library, if not where it usually is.
    pub nvml_library: Option<PathBuf>,
    /// Whether to look for GPUs through Vulkan, Metal or Direct3D, if compiled with that.
    pub with_adapters: bool,
    /// Whether drivers that compute on the processor are offered as GPUs. For tests: their names
    /// say what they are.
    pub with_software: bool,
    /// Where work is kept, to see how full its disk is.
    pub work_folder: Option<PathBuf>,
    /// Processes whose use of devices, and that of their children, is our own.
    pub own_pids: BTreeSet<u32>,
}

impl Default for DetectSettings {
    fn default() -> Self {
        Self {
            root: PathBuf::from("/"),
            nvml_library: None,
            with_adapters: true,
            with_software: false,
            work_folder: None,
            own_pids: BTreeSet::from([std::process::id()]),
        }
    }
}

/// Why a source of devices found none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    /// NVIDIA's library cannot be used.
    Nvml(NvidiaFault),
    /// NVIDIA's library works and lists no GPU.
    NvmlEmpty,
    /// There is no Vulkan, Metal or Direct3D driver.
    NoAdapter,
    /// There is a driver, but only one that computes on the processor.
    OnlySoftware {
        /// Its name.
        name: String,
    },
    /// This program was compiled without the code that looks.
    WithoutWgpu,
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nvml(fault) => fault.fmt(f),
            Self::NvmlEmpty => f.write_str("the NVML library lists no GPU"),
            Self::NoAdapter => f.write_str("no Vulkan adapter: no driver lists one"),
            Self::OnlySoftware { name } => {
                write!(f, "no Vulkan adapter but {name}, which computes on the CPU")
            }
            Self::WithoutWgpu => f.write_str("no Vulkan adapter: built without wgpu"),
        }
    }
}

/// All that was read of a machine at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The devices, the processor first.
    pub devices: Vec<DeviceFacts>,
    /// GPUs that were there, or should be.
    pub lost: Vec<LostDevice>,
    /// Why sources found no GPU.
    pub absences: Vec<Absence>,
    /// The machine besides its devices.
    pub host: HostFacts,
}

/// What is different after a refresh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Devices that were not there before.
    pub appeared: Vec<DeviceId>,
    /// Devices that are not there any more.
    pub gone: Vec<DeviceId>,
    /// Devices whose memory or parts are others.
    pub resized: Vec<DeviceId>,
}

impl Changes {
    /// Whether all is as it was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.appeared.is_empty() && self.gone.is_empty() && self.resized.is_empty()
    }

    fn between(before: &[DeviceFacts], after: &[DeviceFacts]) -> Self {
        let find = |list: &[DeviceFacts], id: &DeviceId| list.iter().any(|found| found.id == *id);
        let missing = |from: &[DeviceFacts], list: &[DeviceFacts]| -> Vec<DeviceId> {
            let ids = from.iter().map(|facts| &facts.id).filter(|id| !find(list, id));
            ids.cloned().collect()
        };
        let size = |facts: &DeviceFacts| {
            let memory = |memory: Option<Memory>| memory.map(|memory| memory.total_mib);
            let parts = facts.partitions.iter();
            let parts = parts.map(|part| (part.id.clone(), memory(part.memory)));
            (memory(facts.memory), facts.processors_milli, parts.collect::<Vec<_>>())
        };
        let is_resized = |now: &&DeviceFacts| {
            before.iter().any(|then| then.id == now.id && size(then) != size(now))
        };
        Self {
            appeared: missing(after, before),
            gone: missing(before, after),
            resized: after.iter().filter(is_resized).map(|facts| facts.id.clone()).collect(),
        }
    }
}

/// A machine's devices, and the sources from which they are read again.
#[derive(Debug)]
pub struct Catalogue {
    settings: DetectSettings,
    root: Root,
    started: Instant,
    processor: Processor,
    nvidia: Nvidia,
    /// Devices of the last look through Vulkan and its like, which takes a while, and the GPUs that
    /// were on the bus then.
    #[cfg(feature = "wgpu")]
    adapters: Option<(Vec<PciGpu>, Vec<DeviceFacts>)>,
    snapshot: Snapshot,
    given_out: GivenOut,
}

/// How GPUs are given out besides as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenOut {
    /// Those that are split for each run, and into how many slices they can be. Whatever partitions
    /// they have are ours.
    pub split: BTreeMap<DeviceId, MigSlices>,
    /// Whether the others are shared by those who agree to that.
    pub shares: bool,
}

impl GivenOut {
    /// How this device is.
    fn of(&self, facts: &DeviceFacts) -> Sharing {
        let mig = self.split.get(&facts.id).copied();
        let is_nvidia = facts.kind == Kind::Gpu && facts.source == Source::Nvml;
        Sharing { mig, shares: self.shares && is_nvidia && mig.is_none() }
    }

    /// Whether it is offered by the parts that its owner has cut it into.
    fn is_in_parts(&self, facts: &DeviceFacts) -> bool {
        let is_cut = facts.mig == MigMode::On || !facts.partitions.is_empty();
        is_cut && !self.split.contains_key(&facts.id)
    }
}

impl Catalogue {
    /// Looks for all devices of this machine.
    #[must_use]
    pub fn detect(settings: &DetectSettings) -> Self {
        let root = Root::new(&settings.root);
        let host = HostFacts::read(&root, settings.work_folder.as_deref());
        let mut catalogue = Self {
            settings: settings.clone(),
            root,
            started: Instant::now(),
            processor: Processor::default(),
            nvidia: Nvidia::new(settings.nvml_library.clone()),
            #[cfg(feature = "wgpu")]
            adapters: None,
            snapshot: Snapshot { devices: vec![], lost: vec![], absences: vec![], host },
            given_out: GivenOut::default(),
        };
        let _everything_is_new = catalogue.refresh();
        catalogue
    }

    /// Reads everything again. Devices that came or went are seen, and figures that are differences
    /// between two readings (the processor's load and power) are those since the last one.
    ///
    /// It waits for drivers, so it is to be called where waiting is allowed.
    pub fn refresh(&mut self) -> Changes {
        let host = HostFacts::read(&self.root, self.settings.work_folder.as_deref());
        let mut absences = Vec::new();
        let mut devices = vec![self.processor.read(&self.root, self.started.elapsed())];
        let mut lost = Vec::new();
        match self.nvidia.read(&self.root, &self.settings.own_pids) {
            Ok(reading) => {
                if reading.devices.is_empty() && reading.lost.is_empty() {
                    absences.push(Absence::NvmlEmpty);
                }
                lost = reading.lost;
                lost.extend(self.vanished(&reading.devices, &lost, &NvidiaFault::Vanished));
                devices.extend(reading.devices);
            }
            Err(fault) => {
                lost.extend(self.vanished(&[], &[], &fault));
                absences.push(Absence::Nvml(fault));
            }
        }
        if self.settings.with_adapters {
            self.read_adapters(&host, &mut devices, &mut absences);
        }
        devices.extend(accel::list(&self.root));
        let changes = Changes::between(&self.snapshot.devices, &devices);
        self.snapshot = Snapshot { devices, lost, absences, host };
        changes
    }

    /// The GPUs of NVIDIA's that were known at the last reading and are neither found nor known to
    /// be lost now.
    fn vanished(
        &self,
        devices: &[DeviceFacts],
        lost: &[LostDevice],
        fault: &NvidiaFault,
    ) -> Vec<LostDevice> {
        let is_nvidia = |facts: &&DeviceFacts| facts.source == Source::Nvml;
        let seen = self.snapshot.devices.iter().filter(is_nvidia);
        let seen = seen.map(|facts| (facts.id.clone(), Some(facts.model.clone())));
        let missed = self.snapshot.lost.iter();
        let missed = missed.filter_map(|lost| Some((lost.id.clone()?, lost.model.clone())));
        let is_there = |id: &DeviceId| {
            devices.iter().any(|facts| facts.id == *id)
                || lost.iter().any(|lost| lost.id.as_ref() == Some(id))
        };
        let gone = seen.chain(missed).filter(|(id, _)| !is_there(id));
        let gone = gone.map(|(id, model)| LostDevice {
            id: Some(id),
            model,
            index: None,
            fault: fault.clone(),
        });
        gone.take(nvidia::GPUS_MAX as usize).collect()
    }

    #[cfg(feature = "wgpu")]
    fn read_adapters(
        &mut self,
        host: &HostFacts,
        devices: &mut Vec<DeviceFacts>,
        absences: &mut Vec<Absence>,
    ) {
        let found = match self.adapters.take() {
            Some((bus, found)) if bus == host.pci_gpus => found,
            Some(_) | None => adapters::list(),
        };
        let software = found.iter().find(|facts| facts.kind == Kind::Software);
        match (found.iter().any(|facts| facts.kind == Kind::Gpu), software) {
            (true, _) => {}
            (false, Some(facts)) => {
                absences.push(Absence::OnlySoftware { name: facts.model.clone() });
            }
            (false, None) => absences.push(Absence::NoAdapter),
        }
        let new = found.iter().filter(|facts| !adapters::is_known(facts, devices)).cloned();
        let mut new: Vec<DeviceFacts> = new.collect();
        for facts in &mut new {
            adapters::refresh(facts, &self.root);
        }
        devices.extend(new);
        self.adapters = Some((host.pci_gpus.clone(), found));
    }

    #[cfg(not(feature = "wgpu"))]
    fn read_adapters(
        &mut self,
        _host: &HostFacts,
        _devices: &mut Vec<DeviceFacts>,
        absences: &mut Vec<Absence>,
    ) {
        absences.push(Absence::WithoutWgpu);
    }

    /// Names the processes whose use of devices is our own from now on.
    pub fn set_own_pids(&mut self, own_pids: BTreeSet<u32>) {
        self.settings.own_pids = own_pids;
    }

    /// All that was read last.
    #[must_use]
    pub const fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The devices that were found last, the processor first.
    #[must_use]
    pub fn devices(&self) -> &[DeviceFacts] {
        &self.snapshot.devices
    }

    /// Why sources found no GPU.
    #[must_use]
    pub fn absences(&self) -> &[Absence] {
        &self.snapshot.absences
    }

    /// The devices in the form of a node's descriptor.
    #[must_use]
    pub fn offered(&self) -> Vec<Device> {
        offered(&self.snapshot.devices, self.settings.with_software, &self.given_out)
    }

    /// Says how GPUs are given out from now on.
    pub fn give_out(&mut self, how: GivenOut) {
        self.given_out = how;
    }

    /// Where the GPUs are that are offered. Parts of one that is cut up are not among them: they
    /// cannot be opened through Vulkan.
    #[must_use]
    pub fn gpu_places(&self) -> Vec<GpuPlace> {
        let with_software = self.settings.with_software;
        gpu_places(&self.snapshot.devices, &self.root, with_software, &self.given_out)
    }

    pub(crate) const fn settings(&self) -> &DetectSettings {
        &self.settings
    }
}

/// Where a GPU is that is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// What it is called.
    pub id: DeviceId,
    /// How programs get to it, if they can.
    pub access: Option<Access>,
}

fn gpu_places(
    devices: &[DeviceFacts],
    root: &Root,
    with_software: bool,
    given_out: &GivenOut,
) -> Vec<GpuPlace> {
    let devices = devices.iter().filter(|facts| match facts.kind {
        Kind::Gpu => !given_out.is_in_parts(facts),
        Kind::Software => with_software,
        Kind::Cpu | Kind::Accelerator => false,
    });
    let place = |facts: &DeviceFacts| GpuPlace {
        model: printable(&offered_name(facts)),
        name: facts.model.clone(),
        pci: facts.pci.map(|address| address.to_string()),
        memory_mib: offered_mib(facts).unwrap_or(0),
        sharing: given_out.of(facts),
        id: facts.id.clone(),
        access: access::access(facts, root),
    };
    devices.map(place).collect()
}

/// The memory of a device in an offer, if it can be told.
fn offered_mib(facts: &DeviceFacts) -> Option<u32> {
    facts.memory.map(|memory| memory.total_mib).or(facts.value_mib_max)
}

/// What a device is called in an offer: a renderer in software is called one.
fn offered_name(facts: &DeviceFacts) -> Cow<'_, str> {
    match facts.kind {
        Kind::Software => format!("software {}", facts.model).into(),
        Kind::Cpu | Kind::Gpu | Kind::Accelerator => facts.model.as_str().into(),
    }
}

/// Devices that jobs can run on, equal ones counted together: a GPU that its owner has cut up by
/// its parts, the processor as one. Renderers in software, unless they are asked for, and
/// accelerators that nothing here can use are left out, and so is what is beyond the bound of a
/// descriptor.
fn offered(devices: &[DeviceFacts], with_software: bool, given_out: &GivenOut) -> Vec<Device> {
    let mut found: Vec<Device> = Vec::new();
    let mut add = |device: Device| {
        let is_equal = |other: &&mut Device| Device { count: 1, ..(*other).clone() } == device;
        if let Some(equal) = found.iter_mut().find(is_equal) {
            equal.count = equal.count.saturating_add(1);
        } else if found.len() < DEVICES_MAX {
            found.push(device);
        }
    };
    for facts in devices {
        let kind = match facts.kind {
            Kind::Cpu => DeviceKind::Cpu,
            Kind::Gpu => DeviceKind::Gpu,
            Kind::Software if with_software => DeviceKind::Gpu,
            Kind::Accelerator | Kind::Software => continue,
        };
        let features = features_of(facts);
        if given_out.is_in_parts(facts) {
            for part in &facts.partitions {
                let Some(memory) = part.memory else { continue };
                let model = printable(&format!("{} MIG {}", facts.model, part.profile));
                let (features, sharing) = (features.with(Features::PARTITION), Sharing::WHOLE);
                let memory_mib = memory.total_mib;
                add(Device { kind, model, memory_mib, count: 1, features, sharing });
            }
        } else if let Some(memory_mib) = offered_mib(facts) {
            let (model, sharing) = (printable(&offered_name(facts)), given_out.of(facts));
            add(Device { kind, model, memory_mib, count: 1, features, sharing });
        }
    }
    found
}

/// What of a device's features the ledger has words for.
fn features_of(facts: &DeviceFacts) -> Features {
    let known =
        [(Feature::TensorCores, Features::TENSOR_CORES), (Feature::Fp16, Features::HALF_PRECISION)];
    let present = known.into_iter().filter(|(feature, _)| facts.features.contains(feature));
    present.fold(Features::NONE, |all, (_, one)| all.with(one))
}

/// A name as the ledger takes it: letters that it does not know are left out, and what is too long
/// is cut.
fn printable(text: &str) -> Name {
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| word.chars().filter(char::is_ascii_graphic).collect::<String>())
        .filter(|word| !word.is_empty())
        .collect();
    let joined: String = words.join(" ").chars().take(Name::BYTES_MAX).collect();
    let name = joined.trim().parse();
    name.unwrap_or_else(|_| "unknown".parse().expect("a plain word is a name"))
}

#[cfg(test)]
mod tests;
