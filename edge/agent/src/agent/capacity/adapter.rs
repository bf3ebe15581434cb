//! Which adapter is the GPU that an offer speaks of.
//!
//! An offer has the maker's name, as a node's owner may have found it by another way than the one
//! that opens devices. What connects both is the place on the bus, or the driver's name where no
//! place is known. A name that only looks alike connects nothing: no other device may stand in.

use super::GpuPlace;
use tg_tensor::gpu::DeviceInfo;
use tg_types::Name;

/// The number of the adapter that is offered as this model; of equal ones the first.
pub(super) fn find(model: &Name, gpus: &[GpuPlace], adapters: &[DeviceInfo]) -> Option<usize> {
    let is_it = |place: &GpuPlace, adapter: &DeviceInfo| match (&place.pci, &adapter.pci) {
        (Some(place), Some(adapter)) => place.eq_ignore_ascii_case(adapter),
        (None, _) | (_, None) => place.name == adapter.name,
    };
    let offered: Vec<&GpuPlace> = gpus.iter().filter(|place| place.model == *model).collect();
    let found = adapters.iter().find(|adapter| offered.iter().any(|place| is_it(place, adapter)));
    found.map(|adapter| adapter.index)
}

#[cfg(test)]
mod tests {
    use super::{DeviceInfo, GpuPlace, find};
    use tg_tensor::gpu::DeviceKind;

    fn adapter(index: usize, name: &str, pci: Option<&str>) -> DeviceInfo {
        DeviceInfo {
            index,
            name: name.to_owned(),
            backend: "vulkan",
            driver: String::new(),
            kind: DeviceKind::Discrete,
            pci: pci.map(str::to_owned),
            value_bytes_max: 1 << 30,
        }
    }

    fn place(model: &str, name: &str, pci: Option<&str>) -> GpuPlace {
        let model = model.parse().expect("a name");
        GpuPlace::new(model, name.to_owned(), pci.map(str::to_owned))
    }

    #[test]
    fn adapter_is_found_by_its_place_or_by_its_name_and_never_by_likeness() {
        let adapters = [
            adapter(0, "RTX 4090", Some("0000:01:00.0")),
            adapter(1, "RTX 4090", Some("0000:0A:00.0")),
            adapter(2, "Arc", None),
            adapter(3, "llvmpipe", None),
        ];
        let places = [
            place("NVIDIA GeForce RTX 4090", "GeForce", Some("0000:0a:00.0")),
            place("Arc", "Arc", Some("0000:03:00.0")),
            place("gone", "RTX 4090", Some("0000:0f:00.0")),
            place("llvm", "llvmpipe (LLVM)", None),
        ];
        let check = |model: &str, expected| {
            let model = model.parse().expect("a name");
            assert_eq!(find(&model, &places, &adapters), expected, "{model}");
        };
        check("NVIDIA GeForce RTX 4090", Some(1));
        check("Arc", Some(2));
        check("gone", None);
        check("llvm", None);
        check("RTX 4090", None);
        check("llvmpipe", None);
    }
}
