//! What is known of one device, in integers and checked types.
//!
//! Separate from the sources, which only fill it in. Every figure that a source may not have is an
//! `Option`: nothing is invented, and zero means zero.

use super::nvidia::NvidiaFault;
use std::collections::BTreeSet;
use std::fmt;

const BYTES_PER_MIB: u64 = 1 << 20;

/// What a device is called, the same after a restart: a GPU's own id, `cpu:0`, or the place on the
/// bus of a device that has no id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(Box<str>);

impl DeviceId {
    pub(crate) fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What kind of processor a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A general processor: all of the machine's together are one device.
    Cpu,
    /// A graphics processor.
    Gpu,
    /// A processor made for neural networks: NPU, TPU and the like.
    Accelerator,
    /// The general processor, doing as if it were a GPU. Never offered as one.
    Software,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "CPU",
            Self::Gpu => "GPU",
            Self::Accelerator => "accelerator",
            Self::Software => "software renderer on the CPU",
        })
    }
}

/// Who told of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// NVIDIA's management library.
    Nvml,
    /// Vulkan, Metal or Direct3D 12.
    Wgpu,
    /// `/proc`.
    Procfs,
    /// `/sys`.
    Sysfs,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nvml => "nvml",
            Self::Wgpu => "wgpu",
            Self::Procfs => "procfs",
            Self::Sysfs => "sysfs",
        })
    }
}

/// Something a device can do that a job may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Matrix units of NVIDIA GPUs.
    TensorCores,
    /// Arithmetic on 16-bit floats at full speed.
    Fp16,
    /// Arithmetic on 16-bit floats with the range of 32-bit ones.
    Bf16,
    /// Arithmetic on 8-bit floats.
    Fp8,
    /// Sums of products of 8-bit integers in one instruction.
    Int8Dot,
    /// Products of matrices of 8-bit integers in one instruction.
    Int8Matrix,
    /// 256-bit vectors on x86.
    Avx2,
    /// 512-bit vectors on x86.
    Avx512,
    /// Sums of products of 8-bit integers on x86.
    Vnni,
    /// Matrix units on x86.
    Amx,
    /// 128-bit vectors on ARM.
    Neon,
    /// Vectors of any length on ARM.
    Sve,
}

impl Feature {
    /// The word for it in job files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TensorCores => "tensor-cores",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Int8Dot => "int8-dot",
            Self::Int8Matrix => "int8-matrix",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Vnni => "vnni",
            Self::Amx => "amx",
            Self::Neon => "neon",
            Self::Sve => "sve",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A share of the whole, 0 to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u8);

impl Percent {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The whole.
    pub const WHOLE: Self = Self(100);

    /// A share; more than the whole is the whole.
    #[must_use]
    pub fn capped(percent: u64) -> Self {
        u8::try_from(percent).map_or(Self::WHOLE, |percent| Self(percent.min(Self::WHOLE.0)))
    }

    /// The share that `part` is of `whole`, rounded to the nearest; `None` of nothing.
    #[must_use]
    pub fn of(part: u64, whole: u64) -> Option<Self> {
        let (part, whole) = (u128::from(part), u128::from(whole));
        let percent = (part * 100 + whole / 2).checked_div(whole)?;
        Some(Self::capped(u64::try_from(percent).unwrap_or(u64::MAX)))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// What is left without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Both together, at most the whole.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::capped(u64::from(self.0) + u64::from(other.0))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0)
    }
}

/// Where a device sits on the PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl PciAddress {
    /// Reads `0000:01:00.0`, with four or eight digits in front, in either case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (domain, rest) = text.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let hex = |text: &str, digits: std::ops::RangeInclusive<usize>| {
            let is_hex = text.bytes().all(|digit| digit.is_ascii_hexdigit());
            let fits = is_hex && digits.contains(&text.len());
            fits.then(|| u32::from_str_radix(text, 16).ok()).flatten()
        };
        Some(Self {
            domain: hex(domain, 4..=8)?,
            bus: u8::try_from(hex(bus, 2..=2)?).ok()?,
            device: u8::try_from(hex(device, 2..=2)?).ok().filter(|device| *device < 32)?,
            function: u8::try_from(hex(function, 1..=1)?).ok().filter(|function| *function < 8)?,
        })
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

/// Memory of a device or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total_mib: u32,
    /// What nobody uses.
    pub free_mib: u32,
}

impl Memory {
    /// Memory counted in bytes; parts of a MiB are left out.
    #[must_use]
    pub fn of_bytes(total: u64, free: u64) -> Self {
        let mib = |bytes: u64| u32::try_from(bytes / BYTES_PER_MIB).unwrap_or(u32::MAX);
        Self { total_mib: mib(total), free_mib: mib(free.min(total)) }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB, {} free", self.total_mib, self.free_mib)
    }
}

/// A part of a GPU with memory and processors of its own: an instance of MIG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its id.
    pub id: DeviceId,
    /// Its size, as the maker names it: `3g.40gb`.
    pub profile: String,
    /// Its memory, if it can be told.
    pub memory: Option<Memory>,
    /// Its multiprocessors, if they can be told.
    pub multiprocessors: Option<u32>,
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MIG {}", self.profile)?;
        if let Some(memory) = self.memory {
            write!(f, ", {memory}")?;
        }
        if let Some(count) = self.multiprocessors {
            write!(f, ", {count} multiprocessors")?;
        }
        write!(f, ", {}", self.id)
    }
}

/// Whether a GPU is cut into instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigMode {
    /// It cannot be cut.
    Absent,
    /// It can be, and is whole.
    Off,
    /// It is cut: only its instances can be used.
    On,
    /// It was switched, and is waiting for a reset to become what is named.
    Waiting {
        /// Whether it will be on.
        to_be_on: bool,
    },
}

/// To whom a process belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// To the provider's own work.
    Ours,
    /// To somebody else on this machine.
    Other,
    /// It cannot be seen from here, as from within a container.
    Unseen,
}

/// A process that uses a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceProcess {
    /// Its number.
    pub pid: u32,
    /// Its name, if it can be seen.
    pub name: Option<String>,
    /// Memory it uses on the device, if the driver tells.
    pub memory_mib: Option<u32>,
    /// How busy it keeps the device, if the driver tells.
    pub load: Option<Percent>,
    /// To whom it belongs.
    pub owner: Owner,
}

/// How well a device does, as far as the driver tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// From which temperature it slows down.
    pub temperature_max_c: Option<i16>,
    /// Whether heat slows it down now.
    pub is_slowed_by_heat: Option<bool>,
    /// Whether the driver keeps it ready when nobody uses it.
    pub is_persistent: Option<bool>,
    /// Questions that the driver refused to answer for this device.
    pub refusals: Vec<Refusal>,
}

/// A question that the driver refused to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was asked for.
    pub question: &'static str,
    /// What the driver said.
    pub fault: NvidiaFault,
}

/// All that is known of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// What it is called.
    pub id: DeviceId,
    /// What it is.
    pub kind: Kind,
    /// Its maker.
    pub vendor: String,
    /// The maker's name for it.
    pub model: String,
    /// Its number in its source, which may change with every restart.
    pub index: Option<u32>,
    /// Who told of it.
    pub source: Source,
    /// Its memory; of the CPU what this process may use, less if it is in a container.
    pub memory: Option<Memory>,
    /// The largest single value that it can hold, where its whole memory cannot be told.
    pub value_mib_max: Option<u32>,
    /// Thousandths of logical processors that this process may use. Of the CPU only.
    pub processors_milli: Option<u32>,
    /// How busy it is.
    pub load: Option<Percent>,
    /// How hot it is.
    pub temperature_c: Option<i16>,
    /// What it draws.
    pub power_mw: Option<u32>,
    /// What it may draw: its rated power.
    pub power_limit_mw: Option<u32>,
    /// The clock of its processors.
    pub clock_mhz: Option<u32>,
    /// The driver's version.
    pub driver: Option<String>,
    /// The interface through which it is used, with its version.
    pub interface: Option<String>,
    /// The family of its processors.
    pub architecture: Option<String>,
    /// Where it sits.
    pub pci: Option<PciAddress>,
    /// What it can do.
    pub features: BTreeSet<Feature>,
    /// Whether it is cut into instances.
    pub mig: MigMode,
    /// The instances.
    pub partitions: Vec<Partition>,
    /// Who uses it, as far as the driver tells.
    pub processes: Vec<DeviceProcess>,
    /// How well it does.
    pub health: Health,
}

impl DeviceFacts {
    /// A device of which nothing else is known yet.
    pub(super) fn new(id: DeviceId, kind: Kind, source: Source) -> Self {
        Self {
            id,
            kind,
            vendor: "unknown".to_owned(),
            model: "unknown".to_owned(),
            index: None,
            source,
            memory: None,
            value_mib_max: None,
            processors_milli: None,
            load: None,
            temperature_c: None,
            power_mw: None,
            power_limit_mw: None,
            clock_mhz: None,
            driver: None,
            interface: None,
            architecture: None,
            pci: None,
            features: BTreeSet::new(),
            mig: MigMode::Absent,
            partitions: Vec::new(),
            processes: Vec::new(),
            health: Health::default(),
        }
    }

    /// How busy others keep it: its load without that of our own processes. `None` if that cannot
    /// be told, as when the driver does not say which process causes how much.
    #[must_use]
    pub fn load_of_others(&self) -> Option<Percent> {
        let load = self.load?;
        let own = || self.processes.iter().filter(|process| process.owner == Owner::Ours);
        if own().next().is_none() {
            return Some(load);
        }
        if self.processes.iter().all(|process| process.owner == Owner::Ours) {
            return Some(Percent::ZERO);
        }
        let loads = own().map(|process| process.load);
        let own =
            loads.collect::<Option<Vec<Percent>>>()?.into_iter().fold(Percent::ZERO, Percent::and);
        Some(load.without(own))
    }
}

/// Lines for people: how it does, what it is, and one for every part. What `nodes` shows.
impl fmt::Display for DeviceFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.model)?;
        if let Some(memory) = self.memory {
            write!(f, ", {memory}")?;
        } else if let Some(mib) = self.value_mib_max {
            write!(f, ", values up to {mib} MiB")?;
        }
        if let Some(milli) = self.processors_milli {
            let digits = format!("{}.{:03}", milli / 1_000, milli % 1_000);
            let number = digits.trim_end_matches('0').trim_end_matches('.');
            write!(f, ", {number} processors")?;
        }
        if let Some(load) = self.load {
            write!(f, ", load {load}")?;
        }
        if let Some(temperature) = self.temperature_c {
            write!(f, ", {temperature} C")?;
        }
        if let Some(power) = self.power_mw {
            write!(f, ", {}.{} W", power / 1_000, power % 1_000 / 100)?;
        }
        if let Some(limit) = self.power_limit_mw {
            write!(f, " of {} W", limit / 1_000)?;
        }
        write!(f, "\n  {} ({})", self.id, self.source)?;
        for feature in &self.features {
            write!(f, " {feature}")?;
        }
        for partition in &self.partitions {
            write!(f, "\n  {partition}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        DeviceFacts, DeviceId, DeviceProcess, Kind, Memory, Owner, PciAddress, Percent, Source,
    };
    use crate::testing::noise;

    #[test]
    fn percent_is_never_above_the_whole() {
        assert_eq!(Percent::capped(101), Percent::WHOLE);
        assert_eq!(Percent::capped(u64::MAX), Percent::WHOLE);
        assert_eq!(Percent::of(1, 3), Some(Percent::capped(33)));
        assert_eq!(Percent::of(2, 3), Some(Percent::capped(67)));
        assert_eq!(Percent::of(u64::MAX, 1), Some(Percent::WHOLE));
        assert_eq!(Percent::of(u64::MAX, u64::MAX), Some(Percent::WHOLE));
        assert_eq!(Percent::of(0, 0), None);
    }

    #[test]
    fn memory_is_counted_in_whole_mib() {
        let memory = Memory::of_bytes((3 << 20) + 5, u64::MAX);
        assert_eq!(memory, Memory { total_mib: 3, free_mib: 3 });
        assert_eq!(Memory::of_bytes(u64::MAX, 0).total_mib, u32::MAX);
    }

    #[test]
    fn pci_address_is_read_in_both_lengths() {
        let short = PciAddress::parse("0000:0a:1f.7").expect("as in sysfs");
        assert_eq!(PciAddress::parse("00000000:0A:1F.7"), Some(short));
        assert_eq!(short.to_string(), "0000:0a:1f.7");
    }

    #[test]
    fn prop_pci_address_of_any_text_is_itself_or_nothing() {
        arbtest::arbtest(|u| {
            let text = noise(u, &["0000", "00010000", ":", "0a", "1f", ".", "7", "+", "-1"])?;
            if let Some(address) = PciAddress::parse(&text) {
                assert_eq!(PciAddress::parse(&address.to_string()), Some(address));
            }
            Ok(())
        });
        for text in
            ["", "0000:00:00", "000:00:00.0", "0000:00:20.0", "0000:00:00.8", "0000:+1:00.0"]
        {
            assert_eq!(PciAddress::parse(text), None, "{text}");
        }
    }

    #[test]
    fn load_of_others_is_the_load_without_our_own() {
        let check =
            |load: Option<u64>, processes: &[(Owner, Option<u64>)], expected: Option<u64>| {
                let mut facts = DeviceFacts::new(DeviceId::new("x"), Kind::Gpu, Source::Nvml);
                facts.load = load.map(Percent::capped);
                let process = |(owner, load): &(Owner, Option<u64>)| DeviceProcess {
                    pid: 1,
                    name: None,
                    memory_mib: None,
                    load: load.map(Percent::capped),
                    owner: *owner,
                };
                facts.processes = processes.iter().map(process).collect();
                assert_eq!(facts.load_of_others(), expected.map(Percent::capped), "{processes:?}");
            };
        check(None, &[], None);
        check(Some(40), &[], Some(40));
        check(Some(40), &[(Owner::Other, None)], Some(40));
        check(Some(40), &[(Owner::Ours, None)], Some(0));
        check(Some(40), &[(Owner::Ours, Some(30)), (Owner::Other, None)], Some(10));
        check(Some(40), &[(Owner::Ours, Some(50)), (Owner::Other, None)], Some(0));
        check(Some(40), &[(Owner::Ours, None), (Owner::Other, Some(5))], None);
    }
}
