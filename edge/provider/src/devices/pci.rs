//! Graphics processors on the PCI bus, whether or not a driver makes them usable.
//!
//! Separate from the sources of devices: this list says why a device is missing (there is none, it
//! has no driver, it has the wrong one), and when to look again.

use super::facts::PciAddress;
#[cfg(any(feature = "wgpu", test))]
use super::{
    facts::{Memory, Percent},
    processor::degrees,
};
use crate::root::Root;

const DEVICES: &str = "/sys/bus/pci/devices";

/// PCI's class of displays: VGA, 3D and other controllers.
const CLASS_DISPLAY: u32 = 0x03;

/// PCI's number of NVIDIA.
pub(super) const VENDOR_NVIDIA: u16 = 0x10de;
/// PCI's number of AMD's graphics.
pub(super) const VENDOR_AMD: u16 = 0x1002;
/// PCI's number of Intel.
pub(super) const VENDOR_INTEL: u16 = 0x8086;
/// PCI's number of Google, which makes TPUs.
pub(super) const VENDOR_GOOGLE: u16 = 0x1ae0;
/// PCI's number of Habana Labs.
pub(super) const VENDOR_HABANA: u16 = 0x1da3;

/// A graphics processor as the bus sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciGpu {
    /// Where it sits.
    pub address: PciAddress,
    /// Its maker's number.
    pub vendor: u16,
    /// The maker's number for it.
    pub device: u16,
    /// The driver that has it.
    pub driver: Option<String>,
}

impl PciGpu {
    /// All of the machine's that are real: the pictures of virtual machines' screens are left out.
    pub(super) fn list(root: &Root) -> Vec<Self> {
        let names = root.names(DEVICES).into_iter();
        names.filter_map(|name| Self::read(root, &name)).collect()
    }

    fn read(root: &Root, name: &str) -> Option<Self> {
        let folder = format!("{DEVICES}/{name}");
        let class = hex(&root.line(&format!("{folder}/class"))?)?;
        let vendor = u16::try_from(hex(&root.line(&format!("{folder}/vendor"))?)?).ok()?;
        let is_gpu = [VENDOR_NVIDIA, VENDOR_AMD, VENDOR_INTEL].contains(&vendor);
        (class >> 16 == CLASS_DISPLAY && is_gpu).then_some(())?;
        Some(Self {
            address: PciAddress::parse(name)?,
            vendor,
            device: u16::try_from(hex(&root.line(&format!("{folder}/device"))?)?).ok()?,
            driver: root.link_name(&format!("{folder}/driver")),
        })
    }
}

/// The maker's name by its number.
#[must_use]
pub(super) fn vendor_name(vendor: u16) -> String {
    match vendor {
        VENDOR_NVIDIA => "NVIDIA".to_owned(),
        VENDOR_AMD => "AMD".to_owned(),
        VENDOR_INTEL => "Intel".to_owned(),
        VENDOR_GOOGLE => "Google".to_owned(),
        VENDOR_HABANA => "Habana".to_owned(),
        0x106b => "Apple".to_owned(),
        0x13b5 => "ARM".to_owned(),
        0x5143 => "Qualcomm".to_owned(),
        other => format!("maker {other:04x}"),
    }
}

/// What AMD's driver says of a GPU besides, in files of its own.
#[cfg(any(feature = "wgpu", test))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DriverFacts {
    pub(super) memory: Option<Memory>,
    pub(super) load: Option<Percent>,
    pub(super) temperature_c: Option<i16>,
    pub(super) power_mw: Option<u32>,
    pub(super) power_limit_mw: Option<u32>,
}

#[cfg(any(feature = "wgpu", test))]
impl DriverFacts {
    pub(super) fn read(root: &Root, address: PciAddress) -> Self {
        let folder = format!("{DEVICES}/{address}");
        let number = |file: &str| root.number(&format!("{folder}/{file}"));
        let memory = number("mem_info_vram_total").zip(number("mem_info_vram_used"));
        let monitor = root.names(&format!("{folder}/hwmon")).into_iter().next();
        let monitor = monitor.map(|name| format!("{folder}/hwmon/{name}"));
        let sensor = |file: &str| monitor.as_ref().map(|monitor| format!("{monitor}/{file}"));
        let milliwatts = |file: &str| {
            u32::try_from(root.number(&sensor(file)?)? / 1_000).ok() // counted in microwatts
        };
        Self {
            memory: memory.map(|(total, used)| Memory::of_bytes(total, total.saturating_sub(used))),
            load: number("gpu_busy_percent").map(Percent::capped),
            temperature_c: sensor("temp1_input").and_then(|path| degrees(root, &path)),
            power_mw: milliwatts("power1_average").or_else(|| milliwatts("power1_input")),
            power_limit_mw: milliwatts("power1_cap"),
        }
    }
}

/// Reads `0x030000`.
pub(super) fn hex(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0x")?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::{DriverFacts, PciGpu, VENDOR_AMD, VENDOR_NVIDIA, hex};
    use crate::devices::facts::{Memory, Percent};
    use crate::root::Root;
    use crate::testing::Folder;

    fn add(folder: &Folder, address: &str, class: &str, ids: [&str; 2], driver: Option<&str>) {
        let file = |name: &str| format!("sys/bus/pci/devices/{address}/{name}");
        folder.write(&file("class"), class);
        folder.write(&file("vendor"), ids[0]);
        folder.write(&file("device"), ids[1]);
        if let Some(driver) = driver {
            folder.link(&file("driver"), &format!("../../../../bus/pci/drivers/{driver}"));
        }
    }

    #[test]
    fn graphics_processors_are_found_with_their_drivers() {
        let folder = Folder::new();
        add(&folder, "0000:00:1f.0", "0x060100\n", ["0x8086\n", "0x7a04\n"], None);
        add(&folder, "0000:01:00.0", "0x030000\n", ["0x10de\n", "0x2684\n"], Some("nouveau"));
        add(&folder, "0000:03:00.0", "0x030000\n", ["0x1002\n", "0x744c\n"], Some("amdgpu"));
        add(&folder, "0000:04:00.0", "0x030000\n", ["0x1234\n", "0x1111\n"], None);
        add(&folder, "0000:05:00.0", "0x030200\n", ["0x10de\n", "0x20b2\n"], None);
        add(&folder, "0000:06:00.0", "garbage", ["0x10de\n", "0x20b2\n"], None);
        let found = PciGpu::list(&Root::new(folder.path()));
        let seen: Vec<_> = found.iter().map(|gpu| (gpu.vendor, gpu.driver.as_deref())).collect();
        let expected =
            [(VENDOR_NVIDIA, Some("nouveau")), (VENDOR_AMD, Some("amdgpu")), (VENDOR_NVIDIA, None)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn facts_of_the_driver_are_read_where_it_has_them() {
        let folder = Folder::new();
        add(&folder, "0000:03:00.0", "0x030000\n", ["0x1002\n", "0x744c\n"], Some("amdgpu"));
        let file = |name: &str| format!("sys/bus/pci/devices/0000:03:00.0/{name}");
        let root = Root::new(folder.path());
        let address = PciGpu::list(&root).first().expect("one GPU").address;
        assert_eq!(DriverFacts::read(&root, address), DriverFacts::default());
        for (name, value) in [
            ("mem_info_vram_total", "25753026560"),
            ("mem_info_vram_used", "1073741824"),
            ("gpu_busy_percent", "7"),
            ("hwmon/hwmon4/temp1_input", "52000"),
            ("hwmon/hwmon4/power1_average", "38000000"),
            ("hwmon/hwmon4/power1_cap", "303000000"),
        ] {
            folder.write(&file(name), value);
        }
        let expected = DriverFacts {
            memory: Some(Memory { total_mib: 24_560, free_mib: 23_536 }),
            load: Some(Percent::capped(7)),
            temperature_c: Some(52),
            power_mw: Some(38_000),
            power_limit_mw: Some(303_000),
        };
        assert_eq!(DriverFacts::read(&root, address), expected);
    }

    #[test]
    fn hex_numbers_have_their_mark_and_nothing_else() {
        assert_eq!(hex("0x10de"), Some(0x10de));
        for text in ["", "10de", "0x", "0x+1", "0x1_0", "0x100000000", "0x 1"] {
            assert_eq!(hex(text), None, "{text}");
        }
    }
}
