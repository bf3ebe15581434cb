//! What this machine offers: its devices as they are found, in the form of a node's offer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tg_agent::agent::GpuPlace;
use tg_agent::task_run::Workshop;
use tg_provider::devices::{Catalogue, DetectSettings};
use tg_sandbox::{Sandbox, SandboxError};
use tg_types::node::SLOTS_MAX;
use tg_types::{Amount, BoundError, Device, DeviceKind, Features, List, Name, NodeDescriptor};

/// What an hour of a node costs unless its owner says otherwise.
pub(crate) const PRICE_PER_HOUR: Amount = Amount::constant(100_000_000);

/// What 10^12 multiply-adds cost unless the owner says otherwise.
pub(crate) const PRICE_PER_TERA: Amount = Amount::constant(1_000_000_000);

/// What a node has at stake unless its owner says otherwise.
pub(crate) const STAKE: Amount = Amount::constant(100_000_000_000);

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

/// Looks for the devices of this machine. `with_software` takes drivers that compute on the
/// processor for GPUs.
pub(crate) fn detect(nvml_library: Option<PathBuf>, with_software: bool) -> Catalogue {
    let settings = DetectSettings { nvml_library, with_software, ..DetectSettings::default() };
    Catalogue::detect(&settings)
}

/// Where the GPUs are that a node offers.
pub(crate) fn gpu_places(catalogue: &Catalogue) -> Vec<GpuPlace> {
    let places = catalogue.gpu_places().into_iter();
    places.map(|place| GpuPlace { model: place.model, name: place.name, pci: place.pci }).collect()
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
                let count = numbers.filter(|number| match gpus {
                    GpuChoice::All => true,
                    GpuChoice::None => false,
                    GpuChoice::These(these) => these.contains(number),
                });
                device.count = u16::try_from(count.count()).unwrap_or(u16::MAX);
                if device.count > 0 {
                    chosen.push(device);
                }
            }
        }
    }
    chosen
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
            price_per_hour: self.price_per_hour,
            price_per_tera: self.price_per_tera,
            slots: self.slots.min(SLOTS_MAX),
            is_open,
        })
    }
}
