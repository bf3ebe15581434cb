//! GPUs of all makers, through Vulkan, Metal or Direct3D 12. Compiled with the feature `wgpu`.
//!
//! Devices are found in the same way as by the engine that runs programs on them (the room
//! `engine/tensor`), so that both count the same ones in the same order. The interfaces tell what a
//! device is, not how it does; where AMD's driver says more in files of its own, that is added.
//!
//! A renderer in software is listed and labelled, because it explains why a Vulkan driver without a
//! GPU is not a GPU.

use super::facts::{DeviceFacts, DeviceId, Feature, Kind, PciAddress, Source};
use super::pci::{DriverFacts, vendor_name};
use crate::root::Root;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const BYTES_PER_MIB: u64 = 1 << 20;

/// All devices that can compute: discrete ones first, software last, numbered in that order.
pub(super) fn list() -> Vec<DeviceFacts> {
    let mut adapters = adapters();
    adapters.sort_by_key(|adapter| rank(adapter.get_info().device_type));
    let adapters = (0..).zip(adapters);
    adapters.map(|(index, adapter)| describe(index, &adapter)).collect()
}

/// Adds what the driver says of a device now.
pub(super) fn refresh(facts: &mut DeviceFacts, root: &Root) {
    let Some(address) = facts.pci else { return };
    let now = DriverFacts::read(root, address);
    facts.memory = now.memory;
    facts.load = now.load;
    facts.temperature_c = now.temperature_c;
    facts.power_mw = now.power_mw;
    facts.power_limit_mw = now.power_limit_mw;
}

/// Whether NVIDIA's library knows the device already, and more of it: the one at the same place, or
/// one of the same name if the place is unknown.
pub(super) fn is_known(facts: &DeviceFacts, nvidia: &[DeviceFacts]) -> bool {
    nvidia.iter().any(|known| match (facts.pci, known.pci) {
        (Some(place), Some(other)) => place == other,
        (None, _) | (_, None) => facts.vendor == known.vendor && facts.model == known.model,
    })
}

fn adapters() -> Vec<wgpu::Adapter> {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::PRIMARY;
    descriptor.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(descriptor);
    let mut found = now(instance.enumerate_adapters(wgpu::Backends::PRIMARY)).unwrap_or_default();
    found.retain(|adapter| {
        let flags = adapter.get_downlevel_capabilities().flags;
        flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS)
    });
    found
}

/// The order of the engine's list.
fn rank(device: wgpu::DeviceType) -> u8 {
    match device {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    }
}

fn describe(index: u32, adapter: &wgpu::Adapter) -> DeviceFacts {
    let (info, limits) = (adapter.get_info(), adapter.limits());
    let kind = match info.device_type {
        wgpu::DeviceType::Cpu => Kind::Software,
        wgpu::DeviceType::DiscreteGpu
        | wgpu::DeviceType::IntegratedGpu
        | wgpu::DeviceType::VirtualGpu
        | wgpu::DeviceType::Other => Kind::Gpu,
    };
    let pci = PciAddress::parse(&info.device_pci_bus_id);
    let backend = info.backend.to_str();
    let id = match pci {
        Some(address) => format!("pci:{address}"),
        None => format!("{backend}:{:04x}:{:04x}:{index}", info.vendor, info.device),
    };
    let mut facts = DeviceFacts::new(DeviceId::new(id), kind, Source::Wgpu);
    facts.vendor = u16::try_from(info.vendor).map_or(facts.vendor, vendor_name);
    facts.model = info.name;
    facts.index = Some(index);
    let driver = format!("{} {}", info.driver, info.driver_info);
    facts.driver = Some(driver.trim().to_owned()).filter(|driver| !driver.is_empty());
    facts.interface = Some(backend.to_owned());
    facts.pci = pci;
    let value_bytes = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
    facts.value_mib_max = u32::try_from(value_bytes / BYTES_PER_MIB).ok();
    if adapter.features().contains(wgpu::Features::SHADER_F16) {
        facts.features.insert(Feature::Fp16);
    }
    facts
}

/// The result of a future that never waits. Those of native devices do not.
fn now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{is_known, list};
    use crate::devices::facts::{DeviceFacts, DeviceId, Kind, PciAddress, Source};

    fn gpu(model: &str, pci: Option<&str>) -> DeviceFacts {
        let mut facts = DeviceFacts::new(DeviceId::new("x"), Kind::Gpu, Source::Wgpu);
        facts.vendor = "NVIDIA".to_owned();
        facts.model = model.to_owned();
        facts.pci = pci.and_then(PciAddress::parse);
        facts
    }

    #[test]
    fn device_of_two_sources_is_listed_once() {
        let known = [gpu("A", Some("0000:01:00.0"))];
        assert!(is_known(&gpu("A (Vulkan)", Some("0000:01:00.0")), &known));
        assert!(!is_known(&gpu("A", Some("0000:02:00.0")), &known));
        assert!(is_known(&gpu("A", None), &known));
        assert!(!is_known(&gpu("B", None), &known));
        assert!(!is_known(&gpu("A", None), &[]));
    }

    /// Goal: a processor that does as if it were a GPU is never called one. Method: this machine's
    /// own drivers; without any, the list is empty.
    #[test]
    fn gpu_in_software_is_labelled() {
        for facts in list() {
            let is_software = ["llvmpipe", "lavapipe", "SwiftShader", "WARP"];
            let is_software = is_software.iter().any(|name| facts.model.contains(name));
            assert_eq!(facts.kind == Kind::Software, is_software, "{facts}");
            assert!(facts.value_mib_max.is_some(), "{facts}");
        }
    }
}
