//! Asks NVIDIA's library for all facts of one GPU.

use super::super::facts::{
    DeviceFacts, DeviceId, DeviceProcess, Feature, Health, Kind, Memory, MigMode, Owner, Partition,
    PciAddress, Percent, Refusal, Source,
};
use super::{NvidiaFault, Session};
use crate::processes::Processes;
use crate::root::Root;
use nvml_wrapper::Device;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor, TemperatureThreshold};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

/// The most instances of one GPU that are asked for; the maker's limit is 7.
const INSTANCES_MAX: u32 = 16;

/// The most processes of one GPU that are kept.
const PROCESSES_MAX: usize = 256;

/// How far back loads of processes are asked for. The driver takes samples several times a second.
const LOADS_WINDOW: Duration = Duration::from_secs(2);

/// NVIDIA's number of a mode that is on.
const ON: u32 = 1;

/// Slices into which MIG divides the memory of a GPU.
const MEMORY_SLICES: u64 = 8;

/// Reads the device with this number.
pub(super) fn device(
    session: &Session,
    root: &Root,
    index: u32,
    processes: &Processes,
    own: &BTreeSet<u32>,
) -> Result<DeviceFacts, NvidiaFault> {
    let fault = |error| NvidiaFault::of(error, root);
    let device = session.nvml.device_by_index(index).map_err(fault)?;
    let id = DeviceId::new(device.uuid().map_err(fault)?);
    let mut asker = Asker { root, refusals: Vec::new(), end: None, is_cut: false };

    let mut facts = DeviceFacts::new(id, Kind::Gpu, Source::Nvml);
    facts.vendor = "NVIDIA".to_owned();
    facts.index = Some(index);
    facts.driver.clone_from(&session.driver);
    facts.interface.clone_from(&session.cuda);
    if let Some(name) = asker.ask("name", device.name()) {
        facts.model = name;
    }
    facts.mig = mig_mode(&mut asker, &device);
    asker.is_cut = match facts.mig {
        MigMode::On => true,
        MigMode::Waiting { to_be_on } => !to_be_on,
        MigMode::Absent | MigMode::Off => false,
    };
    let capability = asker.ask("compute capability", device.cuda_compute_capability());
    let capability = capability.map(|capability| (capability.major, capability.minor));
    facts.features = features(capability, &facts.model);
    let family = asker.ask("architecture", device.architecture());
    facts.architecture = architecture(family.map(|family| family.to_string()), capability);
    let pci = asker.ask("PCI address", device.pci_info());
    facts.pci = pci.and_then(|pci| PciAddress::parse(&pci.bus_id));
    let memory = asker.ask("memory", device.memory_info());
    facts.memory = memory.map(|memory| Memory::of_bytes(memory.total, memory.free));
    let load = asker.ask("load", device.utilization_rates());
    facts.load = load.map(|load| Percent::capped(load.gpu.into()));
    let temperature = asker.ask("temperature", device.temperature(TemperatureSensor::Gpu));
    facts.temperature_c = temperature.and_then(|degrees| i16::try_from(degrees).ok());
    facts.power_mw = asker.ask("power", device.power_usage());
    facts.power_limit_mw = asker.ask("power limit", device.enforced_power_limit());
    facts.clock_mhz = asker.ask("clock", device.clock_info(Clock::SM));
    let loads = process_loads(&mut asker, &device);
    facts.processes = device_processes(&mut asker, &device, loads.as_ref(), processes, own);
    facts.health = health(&mut asker, &device);
    if asker.is_cut {
        asker.is_cut = false; // what follows is asked of the parts
        facts.partitions = partitions(&mut asker, &device, facts.memory);
    }
    match asker.end {
        Some(fault) => Err(fault),
        None => {
            facts.health.refusals = asker.refusals;
            Ok(facts)
        }
    }
}

/// Sorts answers from refusals.
struct Asker<'a> {
    root: &'a Root,
    refusals: Vec<Refusal>,
    /// The first fault after which the device is of no use.
    end: Option<NvidiaFault>,
    /// Whether questions are about a whole that is cut into parts. Only an administrator may see
    /// that, and nobody needs it.
    is_cut: bool,
}

impl Asker<'_> {
    /// The answer. What the device does not have, or does not have now, is no refusal.
    fn ask<T>(&mut self, question: &'static str, answer: Result<T, NvmlError>) -> Option<T> {
        let error = match answer {
            Ok(value) => return Some(value),
            Err(
                NvmlError::NotSupported
                | NvmlError::NotFound
                | NvmlError::NoData
                | NvmlError::InsufficientSize(_),
            ) => return None,
            Err(NvmlError::NoPermission) if self.is_cut => return None,
            Err(error) => error,
        };
        let fault = NvidiaFault::of(error, self.root);
        if fault.ends_device() && self.end.is_none() {
            self.end = Some(fault.clone());
        }
        self.refusals.push(Refusal { question, fault });
        None
    }
}

/// What GPUs of a compute capability can do. The 16 series calls itself 7.5 like the 20 series, but
/// has no tensor cores.
fn features(capability: Option<(i32, i32)>, model: &str) -> BTreeSet<Feature> {
    let Some(capability) = capability else { return BTreeSet::new() };
    let has_tensor_cores = capability >= (7, 0) && !model.contains("GTX 16");
    let has_fp16 = [(5, 3), (6, 0), (6, 2)].contains(&capability) || capability >= (7, 0);
    let has_int8 = capability >= (6, 1);
    let all = [
        (Feature::TensorCores, has_tensor_cores),
        (Feature::Fp16, has_fp16),
        (Feature::Bf16, capability >= (8, 0)),
        (Feature::Fp8, capability >= (8, 9)),
        (Feature::Int8Dot, has_int8),
        (Feature::Int8Matrix, has_tensor_cores && capability >= (7, 2)),
    ];
    all.into_iter().filter(|(_, has)| *has).map(|(feature, _)| feature).collect()
}

fn architecture(family: Option<String>, capability: Option<(i32, i32)>) -> Option<String> {
    let number = capability.map(|(major, minor)| format!("compute {major}.{minor}"));
    match (family, number) {
        (Some(family), Some(number)) => Some(format!("{family}, {number}")),
        (family, number) => family.or(number),
    }
}

fn mig_mode(asker: &mut Asker<'_>, device: &Device<'_>) -> MigMode {
    match asker.ask("MIG mode", device.mig_mode()) {
        None => MigMode::Absent,
        Some(mode) if mode.current != mode.pending => {
            MigMode::Waiting { to_be_on: mode.pending == ON }
        }
        Some(mode) if mode.current == ON => MigMode::On,
        Some(_) => MigMode::Off,
    }
}

fn partitions(asker: &mut Asker<'_>, device: &Device<'_>, whole: Option<Memory>) -> Vec<Partition> {
    let count = asker.ask("number of MIG instances", device.mig_device_count()).unwrap_or(0);
    let mut found = Vec::new();
    for index in 0..count.min(INSTANCES_MAX) {
        // The numbers have gaps where nothing is cut out.
        let Some(part) = asker.ask("MIG instance", device.mig_device_by_index(index)) else {
            continue;
        };
        let Some(id) = asker.ask("id of a MIG instance", part.uuid()) else { continue };
        let memory = asker.ask("memory of a MIG instance", part.memory_info());
        let attributes = asker.ask("size of a MIG instance", part.attributes());
        let name = asker.ask("name of a MIG instance", part.name());
        let from_name = name.as_deref().and_then(profile_in_name);
        let from_size = || {
            let size = attributes.as_ref()?;
            let slices = [size.gpu_instance_slice_count, size.compute_instance_slice_count];
            profile_of_size(slices, size.memory_size_mb, whole?.total_mib.into())
        };
        found.push(Partition {
            id: DeviceId::new(id),
            profile: from_name.or_else(from_size).unwrap_or_else(|| "unknown".to_owned()),
            memory: memory.map(|memory| Memory::of_bytes(memory.total, memory.free)),
            multiprocessors: attributes.as_ref().map(|size| size.multiprocessor_count),
        });
    }
    found
}

/// `3g.40gb` of `NVIDIA A100-SXM4-80GB MIG 3g.40gb`.
fn profile_in_name(name: &str) -> Option<String> {
    let (_, profile) = name.rsplit_once(" MIG ")?;
    (!profile.is_empty()).then(|| profile.to_owned())
}

/// The name of a size, as NVIDIA's own tools make it up: slices of processors, and the GPU's memory
/// by the eighths that the instance has of it, rounded up.
fn profile_of_size(slices: [u32; 2], memory_mib: u64, whole_mib: u64) -> Option<String> {
    let eighths = memory_mib.checked_mul(MEMORY_SLICES)?.checked_add(whole_mib)?.checked_sub(1)?;
    let eighths = eighths.checked_div(whole_mib)?;
    let whole_gib = whole_mib.div_ceil(1_024);
    let gib = (eighths.checked_mul(whole_gib)? + MEMORY_SLICES / 2) / MEMORY_SLICES;
    let [gpu, compute] = slices;
    Some(match gpu == compute {
        true => format!("{gpu}g.{gib}gb"),
        false => format!("{compute}c.{gpu}g.{gib}gb"),
    })
}

/// How busy each process keeps the device. `None` if the driver does not tell.
fn process_loads(asker: &mut Asker<'_>, device: &Device<'_>) -> Option<BTreeMap<u32, Percent>> {
    // The driver's samples have the time of the system's clock.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let since = u64::try_from(now.saturating_sub(LOADS_WINDOW).as_micros()).unwrap_or(u64::MAX);
    let samples = match device.process_utilization_stats(since) {
        // Nobody was busy.
        Err(NvmlError::NotFound) => Vec::new(),
        answer => asker.ask("load of processes", answer)?,
    };
    let mut latest: BTreeMap<u32, (u64, Percent)> = BTreeMap::new();
    for sample in samples {
        let load = Percent::capped(sample.sm_util.into());
        let found = latest.entry(sample.pid).or_insert((sample.timestamp, load));
        if sample.timestamp >= found.0 {
            *found = (sample.timestamp, load);
        }
    }
    Some(latest.into_iter().map(|(pid, (_, load))| (pid, load)).collect())
}

fn device_processes(
    asker: &mut Asker<'_>,
    device: &Device<'_>,
    loads: Option<&BTreeMap<u32, Percent>>,
    processes: &Processes,
    own: &BTreeSet<u32>,
) -> Vec<DeviceProcess> {
    let computing = asker.ask("processes", device.running_compute_processes());
    let drawing = asker.ask("processes", device.running_graphics_processes());
    let mut found: BTreeMap<u32, DeviceProcess> = BTreeMap::new();
    for process in computing.into_iter().chain(drawing).flatten().take(PROCESSES_MAX) {
        let memory_mib = match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(Memory::of_bytes(bytes, 0).total_mib),
            UsedGpuMemory::Unavailable => None,
        };
        let pid = process.pid;
        let owner = match processes.has(pid) {
            false => Owner::Unseen,
            true if processes.descends(pid, own) => Owner::Ours,
            true => Owner::Other,
        };
        // A process without a sample was not busy.
        let load = loads.map(|loads| loads.get(&pid).copied().unwrap_or(Percent::ZERO));
        let name = asker.root.line(&format!("/proc/{pid}/comm"));
        found.insert(pid, DeviceProcess { pid, name, memory_mib, load, owner });
    }
    found.into_values().collect()
}

fn health(asker: &mut Asker<'_>, device: &Device<'_>) -> Health {
    let slowdown = device.temperature_threshold(TemperatureThreshold::Slowdown);
    let slowdown = asker.ask("temperature limit", slowdown);
    let reasons = asker.ask("reasons of a low clock", device.current_throttle_reasons());
    let heat = ThrottleReasons::SW_THERMAL_SLOWDOWN | ThrottleReasons::HW_THERMAL_SLOWDOWN;
    Health {
        temperature_max_c: slowdown.and_then(|degrees| i16::try_from(degrees).ok()),
        is_slowed_by_heat: reasons.map(|reasons| reasons.intersects(heat)),
        is_persistent: asker.ask("persistence mode", device.is_in_persistent_mode()),
        refusals: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{features, profile_in_name, profile_of_size};
    use crate::devices::facts::Feature;

    #[test]
    fn tensor_cores_begin_with_volta_but_not_in_the_16_series() {
        let has =
            |capability, model| features(Some(capability), model).contains(&Feature::TensorCores);
        assert!(!has((6, 1), "NVIDIA GeForce GTX 1080"));
        assert!(has((7, 0), "Tesla V100-SXM2-16GB"));
        assert!(has((7, 5), "NVIDIA GeForce RTX 2060"));
        assert!(!has((7, 5), "NVIDIA GeForce GTX 1660 Ti"));
        assert!(has((12, 0), "NVIDIA GeForce RTX 5090"));
        assert!(features(None, "NVIDIA GeForce RTX 5090").is_empty());
    }

    #[test]
    fn features_grow_with_the_capability() {
        let names = |capability| -> Vec<&str> {
            features(Some(capability), "x").into_iter().map(Feature::name).collect()
        };
        assert_eq!(names((6, 1)), ["int8-dot"]);
        assert_eq!(names((7, 0)), ["tensor-cores", "fp16", "int8-dot"]);
        assert_eq!(names((8, 0)), ["tensor-cores", "fp16", "bf16", "int8-dot", "int8-matrix"]);
        assert!(names((8, 9)).contains(&"fp8"));
    }

    #[test]
    fn profile_is_named_as_by_the_maker() {
        assert_eq!(profile_in_name("NVIDIA A100 MIG 3g.40gb").as_deref(), Some("3g.40gb"));
        assert_eq!(profile_in_name("NVIDIA A100"), None);
        assert_eq!(profile_in_name("NVIDIA A100 MIG "), None);
        // Sizes of the A100 with 80 and with 40 GB.
        for (slices, memory, whole, expected) in [
            ([1, 1], 9_728, 81_920, "1g.10gb"),
            ([2, 2], 19_968, 81_920, "2g.20gb"),
            ([3, 3], 40_192, 81_920, "3g.40gb"),
            ([3, 1], 40_192, 81_920, "1c.3g.40gb"),
            ([7, 7], 80_384, 81_920, "7g.80gb"),
            ([1, 1], 4_864, 40_960, "1g.5gb"),
        ] {
            assert_eq!(profile_of_size(slices, memory, whole).as_deref(), Some(expected));
        }
        assert_eq!(profile_of_size([1, 1], 1, 0), None);
        assert_eq!(profile_of_size([1, 1], u64::MAX, 1), None);
    }
}
