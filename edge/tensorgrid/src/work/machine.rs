//! What this machine offers: its devices as they are found, in the form of a node's offer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use tg_agent::agent::{DeviceAccess, GpuPlace};
use tg_agent::task_run::Workshop;
use tg_provider::devices::{Access, Catalogue, DetectSettings, GpuPlace as Place};
use tg_sandbox::{Sandbox, SandboxError};
use tg_types::node::SLOTS_MAX;
use tg_types::{
    Amount, BoundError, Device, DeviceKind, Features, HostPart, List, Name, NodeDescriptor,
};

/// What an hour of a node costs unless its owner says otherwise.
pub(crate) const PRICE_PER_HOUR: Amount = Amount::constant(100_000_000);

/// What 10^12 multiply-adds cost unless the owner says otherwise.
pub(crate) const PRICE_PER_TERA: Amount = Amount::constant(1_000_000_000);

/// What a node has at stake unless its owner says otherwise.
pub(crate) const STAKE: Amount = Amount::constant(100_000_000_000);

/// Runs at once of a node without GPUs, unless its owner says otherwise.
const SLOTS: u16 = 4;

/// Finds out whether strangers' programs can be run here without harm; says why not otherwise.
pub(crate) fn workshop(folder: &Path, allow_network: bool) -> Result<Arc<Workshop>, SandboxError> {
    let mut settings = tg_sandbox::Settings::new(&folder.join("runs"));
    settings.allow_network = allow_network;
    let sandbox = Sandbox::new(settings)?;
    Ok(Arc::new(Workshop::new(sandbox, folder.join("files"))))
}

/// What a node can do that has this workshop.
pub(crate) fn features(workshop: Option<&Arc<Workshop>>) -> Features {
    let Some(Workshop { sandbox, .. }) = workshop.map(Arc::as_ref) else { return Features::NONE };
    let is_usable = sandbox.abilities().usable().next().is_some();
    let sandboxed = if is_usable { Features::SANDBOX } else { Features::NONE };
    if sandbox.runs_own() { sandboxed.with(Features::ONNX) } else { sandboxed }
}

/// Which GPUs are offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GpuChoice {
    /// All.
    All,
    /// None.
    None,
    /// Those with these numbers, in the order in which they are found.
    These(Vec<usize>),
}

impl GpuChoice {
    /// Whether the one with this number is offered.
    fn contains(&self, number: usize) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::These(these) => these.contains(&number),
        }
    }
}

/// Looks for the devices of this machine. `with_software` takes drivers that compute on the
/// processor for GPUs.
pub(crate) fn detect(nvml_library: Option<PathBuf>, with_software: bool) -> Catalogue {
    Catalogue::detect(&settings(nvml_library, with_software))
}

/// Where to look for them.
pub(crate) fn settings(nvml_library: Option<PathBuf>, with_software: bool) -> DetectSettings {
    DetectSettings { nvml_library, with_software, ..DetectSettings::default() }
}

/// Where the GPUs of the owner's choice are. Parts of one that is cut up have no place.
pub(crate) fn gpu_places(catalogue: &Catalogue, gpus: &GpuChoice) -> Vec<GpuPlace> {
    let found = catalogue.gpu_places();
    let mut number = 0;
    let mut chosen = Vec::new();
    for device in catalogue.offered().iter().filter(|device| device.kind != DeviceKind::Cpu) {
        let numbers = number..number + usize::from(device.count);
        number = numbers.end;
        let is_equal = |place: &&Place| {
            (&place.model, place.memory_mib, place.sharing)
                == (&device.model, device.memory_mib, device.sharing)
        };
        let places = numbers.zip(found.iter().filter(is_equal));
        let wanted = places.filter(|(number, _)| gpus.contains(*number));
        chosen.extend(wanted.map(|(_, place)| gpu_place(place.clone())));
    }
    chosen
}

fn gpu_place(place: Place) -> GpuPlace {
    let Place { model, name, pci, memory_mib, sharing, id, access } = place;
    let access = access.map(|access| {
        let Access { files, variables, libraries } = access;
        DeviceAccess { files, variables, libraries }
    });
    let id = Some(id.as_str().to_owned());
    GpuPlace { model, name, pci, memory_mib, sharing, id, access }
}

/// Runs at once on a GPU that is shared, unless the owner says otherwise.
const SHARES: u16 = 4;

/// Runs at once unless the owner says otherwise: one for each GPU, since a command that asks for
/// one has it for itself, or one for each part that it may have; a few if there is none.
pub(crate) fn slots(devices: &[Device]) -> u16 {
    let gpus = devices.iter().filter(|device| device.kind == DeviceKind::Gpu);
    let runs = |device: &Device| {
        let parts = device.sharing.mig.map_or(1, |slices| u16::from(slices.count()));
        let parts = if device.sharing.shares { parts.max(SHARES) } else { parts };
        device.count.saturating_mul(parts)
    };
    let count = gpus.map(runs).fold(0, u16::saturating_add);
    if count == 0 { SLOTS } else { count.min(SLOTS_MAX) }
}

/// What to do so that GPUs can show their memory.
pub(crate) const KERNELS_FIX: &str = "build with --features wgpu";

/// What is wrong if there are GPUs and this build has no kernels for them.
pub(crate) fn missing_kernels(catalogue: &Catalogue) -> Option<String> {
    let is_gpu = |device: &Device| device.kind == DeviceKind::Gpu;
    let gpu = catalogue.offered().into_iter().find(is_gpu).filter(|_| !cfg!(feature = "wgpu"))?;
    Some(format!(
        "this build has no GPU kernels: {} cannot show its memory and gets no work",
        gpu.model
    ))
}

/// The devices that a node offers: the processor with a share of the memory, and the GPUs of the
/// owner's choice; all with what the node can do besides.
pub(crate) fn devices(
    catalogue: &Catalogue,
    gpus: &GpuChoice,
    share: u32,
    features: Features,
) -> Vec<Device> {
    let mut number = 0;
    let mut chosen = Vec::new();
    for mut device in catalogue.offered() {
        device.features = device.features.with(features);
        match device.kind {
            DeviceKind::Cpu => {
                device.memory_mib /= share.max(1);
                chosen.push(device);
            }
            DeviceKind::Gpu | DeviceKind::Accelerator => {
                let numbers = number..number + usize::from(device.count);
                number = numbers.end;
                let count = numbers.filter(|number| gpus.contains(*number));
                device.count = u16::try_from(count.count()).unwrap_or(u16::MAX);
                if device.count > 0 {
                    chosen.push(device);
                }
            }
        }
    }
    chosen
}

/// The processors and the memory of this machine, as far as its owner lets commands hold them.
/// Nodes that share a machine say nothing of either: neither is theirs alone.
pub(crate) fn host(devices: &[Device], most: HostPart) -> HostPart {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let cpu_milli = u32::try_from(processors).unwrap_or(u32::MAX).saturating_mul(1_000);
    let cpu = devices.iter().find(|device| device.kind == DeviceKind::Cpu);
    HostPart { cpu_milli, memory_mib: cpu.map_or(0, |cpu| cpu.memory_mib) }.at_most(most)
}

/// What a node of this machine offers.
#[derive(Clone, Debug)]
pub(crate) struct OfferTerms {
    /// Where it says it stands.
    pub(crate) region: Name,
    /// What an hour costs at least.
    pub(crate) price_per_hour: Amount,
    /// What 10^12 multiply-adds cost at least.
    pub(crate) price_per_tera: Amount,
    /// Runs at once.
    pub(crate) slots: u16,
    /// Processors and memory that runs may hold.
    pub(crate) host: HostPart,
}

impl OfferTerms {
    /// The offer with these devices.
    pub(crate) fn with(
        &self,
        devices: Vec<Device>,
        is_open: bool,
    ) -> Result<NodeDescriptor, BoundError> {
        Ok(NodeDescriptor {
            region: self.region.clone(),
            devices: List::new(devices)?,
            host: self.host,
            price_per_hour: self.price_per_hour,
            price_per_tera: self.price_per_tera,
            slots: self.slots.min(SLOTS_MAX),
            is_open,
            closes: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::slots;
    use tg_types::{Device, DeviceKind, Features, MigSlices, Sharing};

    #[test]
    fn node_takes_a_run_for_each_gpu_or_a_few() {
        let device = |kind, count| Device {
            kind,
            model: "one".parse().expect("a name"),
            memory_mib: 1,
            count,
            features: Features::NONE,
            sharing: Sharing::WHOLE,
        };
        let (cpu, gpus) = (device(DeviceKind::Cpu, 1), device(DeviceKind::Gpu, 2));
        assert_eq!(slots(std::slice::from_ref(&cpu)), 4);
        assert_eq!(slots(&[cpu.clone(), gpus.clone()]), 2);
        assert_eq!(slots(&[cpu.clone(), gpus.clone(), device(DeviceKind::Gpu, u16::MAX)]), 256);
        let sharing = |mig, shares| Device { sharing: Sharing { mig, shares }, ..gpus.clone() };
        assert_eq!(slots(&[sharing(Some(MigSlices::Seven), false), cpu]), 14);
        assert_eq!(slots(&[sharing(None, true)]), 8);
    }
}
