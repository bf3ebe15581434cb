//! Processors made for neural networks, as Linux lists them under `/sys/class/accel`.
//!
//! They are just another kind of device. Nothing here can run a job on them yet; they are shown so
//! that a machine's owner sees that they were found.

use super::facts::{DeviceFacts, DeviceId, Kind, PciAddress, Source};
use super::pci::{hex, vendor_name};
use crate::root::Root;

const CLASS: &str = "/sys/class/accel";

/// All of the machine's.
pub(super) fn list(root: &Root) -> Vec<DeviceFacts> {
    let names = root.names(CLASS).into_iter().filter(|name| name.starts_with("accel"));
    names.map(|name| read(root, &name)).collect()
}

fn read(root: &Root, name: &str) -> DeviceFacts {
    let device = format!("{CLASS}/{name}/device");
    let pci = root.link_name(&device).and_then(|link| PciAddress::parse(&link));
    let id = pci.map_or_else(|| name.to_owned(), |address| format!("pci:{address}"));
    let mut facts = DeviceFacts::new(DeviceId::new(id), Kind::Accelerator, Source::Sysfs);
    let number = |file: &str| u16::try_from(hex(&root.line(&format!("{device}/{file}"))?)?).ok();
    let driver = root.link_name(&format!("{device}/driver"));
    facts.vendor = number("vendor").map_or(facts.vendor, vendor_name);
    facts.model = match (number("device"), &driver) {
        (Some(number), Some(driver)) => format!("{} {driver} {number:04x}", facts.vendor),
        (Some(number), None) => format!("{} {number:04x}", facts.vendor),
        (None, Some(driver)) => driver.clone(),
        (None, None) => name.to_owned(),
    };
    facts.index = name.strip_prefix("accel").and_then(|number| number.parse().ok());
    facts.driver = driver;
    facts.pci = pci;
    facts
}

#[cfg(test)]
mod tests {
    use super::list;
    use crate::root::Root;
    use crate::testing::Folder;

    #[test]
    fn accelerators_are_named_by_maker_and_driver() {
        let folder = Folder::new();
        let device = "sys/devices/pci0000:00/0000:00:0b.0";
        folder.write(&format!("{device}/vendor"), "0x8086\n");
        folder.write(&format!("{device}/device"), "0x7d1d\n");
        folder.link(&format!("{device}/driver"), "../../../bus/pci/drivers/intel_vpu");
        folder.link("sys/class/accel/accel0/device", "../../../devices/pci0000:00/0000:00:0b.0");
        folder.write("sys/class/accel/accel1/dev", "261:1\n");
        let shown: Vec<String> =
            list(&Root::new(folder.path())).iter().map(ToString::to_string).collect();
        let expected = [
            "accelerator: Intel intel_vpu 7d1d\n  pci:0000:00:0b.0 (sysfs)",
            "accelerator: accel1\n  accel1 (sysfs)",
        ];
        assert_eq!(shown, expected);
        assert!(list(&Root::new(&folder.path().join("none"))).is_empty());
    }
}
