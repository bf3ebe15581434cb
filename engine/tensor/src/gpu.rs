//! Runs programs on GPUs, through Vulkan, Metal or Direct3D 12.
//!
//! A [`Gpu`] is an opened device; [`Runner::on`](crate::Runner::on) makes a model ready for it. The
//! kernels compute with whole numbers of 32 bits what [`crate::element`] defines: programs are
//! checked so that no sum leaves 31 bits in any order, so the results are those of the processor to
//! the bit. Values stay on the device between operations; what the device cannot do (a value larger
//! than its buffers, a sum too long for one lane) the processor does.
//!
//! A device can fail at any moment: it is lost, its memory is full, it does not answer. Then the
//! run begins anew on the processor, and so do all later ones; [`Gpu::failure`] says what happened.
//! Nothing here panics for a device's sake.
//!
//! The same devices show how much memory they have: [`crate::capacity::fill_on`].

mod fill;
mod grid;
mod kernels;
mod launch;
mod memory;
mod moves;
mod prepare;
mod products;
mod reduce;
mod session;
#[cfg(test)]
mod tests;

pub(crate) use fill::{DeviceBlocks, FillShape, SLICES, Seeded, fill};
pub(crate) use prepare::Prepared;

use kernels::Kernels;
use memory::Bounds;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

/// Invocations of the largest workgroup of a kernel.
const INVOCATIONS: u32 = 256;

/// Bytes of memory that the workgroups of a kernel share.
const WORKGROUP_BYTES: u32 = 2 * 4 * 1_040;

/// Buffers that a kernel reads and writes.
const BUFFERS: u32 = 6;

/// The bytes of the longest parameters of a kernel.
const PARAMETER_BYTES: u64 = 512;

/// Percentage of a device's memory above which buffers are refused: a part is left for the kernels
/// and for other programs.
const MEMORY_PERCENT: u8 = 95;

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceKind {
    /// A card with its own memory.
    Discrete,
    /// Part of the processor.
    Integrated,
    /// A share of a card, given by a hypervisor.
    Virtual,
    /// None of these, or unknown.
    Other,
    /// The processor, doing as if it were a GPU. For tests.
    Software,
}

/// A device that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number, for [`Gpu::open`]. Discrete devices come first, software last.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// The interface through which it is used.
    pub backend: &'static str,
    /// The driver and its version.
    pub driver: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Its place on the bus, such as `0000:01:00.0`, where the interface tells it.
    pub pci: Option<String>,
    /// Bytes of the largest value that it can hold. The interfaces do not tell all of its memory.
    pub value_bytes_max: u64,
}

/// What can go wrong with a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// There is no such device.
    #[error("no GPU {index}, {found} found")]
    NoDevice {
        /// The one that was asked for.
        index: usize,
        /// How many there are.
        found: usize,
    },
    /// The device is too small for the kernels.
    #[error("{device} has {what} of {found}, the kernels need {needed}")]
    Limit {
        /// Its name.
        device: String,
        /// Of what there is too little.
        what: &'static str,
        /// How much there is.
        found: u64,
        /// How much is needed.
        needed: u64,
    },
    /// The driver refused to open the device.
    #[error("{device} cannot be opened: {reason}")]
    Open {
        /// Its name.
        device: String,
        /// What the driver says.
        reason: String,
    },
    /// Its memory is full.
    #[error("memory of the GPU is full")]
    Memory,
    /// It is gone: pulled out, reset or taken by the driver.
    #[error("GPU is lost: {reason}")]
    Lost {
        /// What the driver says.
        reason: String,
    },
    /// The driver refused a kernel, a buffer or a command.
    #[error("GPU refused a command: {reason}")]
    Refused {
        /// What the driver says.
        reason: String,
    },
    /// It did not finish in time.
    #[error("GPU did not answer within {seconds} s")]
    Silent {
        /// How long was waited.
        seconds: u64,
    },
}

/// All devices of this machine that can compute. Empty if there is no driver.
#[must_use]
pub fn devices() -> Vec<DeviceInfo> {
    let adapters = adapters().into_iter().enumerate();
    adapters.map(|(index, adapter)| describe(index, &adapter)).collect()
}

/// An opened device. Clones share it.
#[derive(Clone, Debug)]
pub struct Gpu(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    info: DeviceInfo,
    device: wgpu::Device,
    queue: wgpu::Queue,
    bounds: Bounds,
    kernels: Kernels,
    failure: Arc<OnceLock<GpuError>>,
}

impl Gpu {
    /// Opens a device by its number in [`devices`].
    pub fn open(index: usize) -> Result<Self, GpuError> {
        let adapters = adapters();
        let found = adapters.len();
        let adapter = adapters.into_iter().nth(index);
        let adapter = adapter.ok_or(GpuError::NoDevice { index, found })?;
        let info = describe(index, &adapter);
        let limits = adapter.limits();
        check_limits(&info, &limits)?;

        let descriptor = wgpu::DeviceDescriptor {
            label: Some("tensorgrid"),
            required_limits: limits.clone(),
            ..wgpu::DeviceDescriptor::default()
        };
        let refused = |reason: String| GpuError::Open { device: info.name.clone(), reason };
        let (device, queue) = now(adapter.request_device(&descriptor))
            .ok_or_else(|| refused("driver did not answer".to_owned()))?
            .map_err(|error| refused(error.to_string()))?;
        let failure = Arc::new(OnceLock::new());
        listen(&device, &failure);
        let (bounds, kernels) = (Bounds::new(&limits), Kernels::new(&device));
        Ok(Self(Arc::new(Opened { info, device, queue, bounds, kernels, failure })))
    }

    /// What it is.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// Why it is not used any more; `None` as long as it works.
    #[must_use]
    pub fn failure(&self) -> Option<&GpuError> {
        self.0.failure.get()
    }

    /// Takes the device away, as if it had been pulled out.
    #[cfg(test)]
    pub(crate) fn destroy(&self) {
        self.0.device.destroy();
    }

    /// Notes a failure, the first one, and gives the one that is noted.
    fn fail(&self, error: GpuError) -> GpuError {
        self.0.failure.get_or_init(|| error).clone()
    }

    /// An error if it has failed.
    fn check(&self) -> Result<(), GpuError> {
        self.failure().map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// Notes whatever goes wrong from now on. Without this a driver's error would be a panic.
fn listen(device: &wgpu::Device, failure: &Arc<OnceLock<GpuError>>) {
    let noted = Arc::clone(failure);
    device.on_uncaptured_error(Arc::new(move |error| {
        let error = match error {
            wgpu::Error::OutOfMemory { .. } => GpuError::Memory,
            wgpu::Error::Validation { description: reason, .. }
            | wgpu::Error::Internal { description: reason, .. } => GpuError::Refused { reason },
        };
        noted.get_or_init(|| error);
    }));
    let noted = Arc::clone(failure);
    device.set_device_lost_callback(move |_, reason| {
        noted.get_or_init(|| GpuError::Lost { reason });
    });
}

fn adapters() -> Vec<wgpu::Adapter> {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::PRIMARY;
    // Checks of the driver's own, which only developers of drivers need, are left out.
    descriptor.flags = wgpu::InstanceFlags::empty();
    descriptor.memory_budget_thresholds.for_resource_creation = Some(MEMORY_PERCENT);
    let instance = wgpu::Instance::new(descriptor);
    let mut found = now(instance.enumerate_adapters(wgpu::Backends::PRIMARY)).unwrap_or_default();
    found.retain(can_compute);
    found.sort_by_key(|adapter| kind(adapter.get_info().device_type));
    found
}

fn can_compute(adapter: &wgpu::Adapter) -> bool {
    let flags = adapter.get_downlevel_capabilities().flags;
    flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS)
}

fn describe(index: usize, adapter: &wgpu::Adapter) -> DeviceInfo {
    let info = adapter.get_info();
    DeviceInfo {
        index,
        backend: info.backend.to_str(),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        kind: kind(info.device_type),
        pci: Some(info.device_pci_bus_id).filter(|place| !place.is_empty()),
        value_bytes_max: Bounds::new(&adapter.limits()).value_bytes,
        name: info.name,
    }
}

fn kind(device: wgpu::DeviceType) -> DeviceKind {
    match device {
        wgpu::DeviceType::DiscreteGpu => DeviceKind::Discrete,
        wgpu::DeviceType::IntegratedGpu => DeviceKind::Integrated,
        wgpu::DeviceType::VirtualGpu => DeviceKind::Virtual,
        wgpu::DeviceType::Cpu => DeviceKind::Software,
        wgpu::DeviceType::Other => DeviceKind::Other,
    }
}

fn check_limits(info: &DeviceInfo, limits: &wgpu::Limits) -> Result<(), GpuError> {
    let needs: [(&'static str, u64, u64); 6] = [
        (
            "invocations of a workgroup",
            limits.max_compute_invocations_per_workgroup.into(),
            INVOCATIONS.into(),
        ),
        (
            "bytes of a workgroup's memory",
            limits.max_compute_workgroup_storage_size.into(),
            WORKGROUP_BYTES.into(),
        ),
        ("buffers of a kernel", limits.max_storage_buffers_per_shader_stage.into(), BUFFERS.into()),
        ("bytes of parameters", limits.max_uniform_buffer_binding_size, PARAMETER_BYTES),
        (
            "workgroups of one side",
            limits.max_compute_workgroups_per_dimension.into(),
            launch::SIDE_MAX.into(),
        ),
        ("bytes of a value", info.value_bytes_max, memory::VALUE_BYTES_MIN),
    ];
    for (what, found, needed) in needs {
        if found < needed {
            return Err(GpuError::Limit { device: info.name.clone(), what, found, needed });
        }
    }
    Ok(())
}

/// The result of a future that never waits. Those of native devices do not.
fn now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
