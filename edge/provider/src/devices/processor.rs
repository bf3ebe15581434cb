//! The general processor: every machine has one, so this source never fails.
//!
//! Facts come from `/proc` and `/sys`; what control groups and the processors allowed to this
//! process leave over is what is offered. Load and power are differences between two readings, so
//! they are absent at the first.

use super::facts::{DeviceFacts, DeviceId, Feature, Kind, Memory, Percent, Source};
use super::limits::Limits;
use crate::root::Root;
use std::collections::BTreeSet;
use std::time::Duration;

/// Names of sensors that measure the processor.
const SENSORS: [&str; 5] = ["coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal"];

/// Temperatures that a sensor can really show, in thousandths of a degree. One that is broken shows
/// others.
const SENSOR_MILLIDEGREES: std::ops::RangeInclusive<i64> = -60_000..=150_000;

/// The processor, read again and again.
#[derive(Debug, Default)]
pub(super) struct Processor {
    times: Option<Times>,
    energy: Option<Energy>,
}

impl Processor {
    /// Its facts; `now` is any clock that never runs backwards.
    pub(super) fn read(&mut self, root: &Root, now: Duration) -> DeviceFacts {
        let mut facts = DeviceFacts::new(DeviceId::new("cpu:0"), Kind::Cpu, Source::Procfs);
        let info = CpuInfo::parse(&root.text("/proc/cpuinfo").unwrap_or_default());
        facts.vendor = info.vendor.unwrap_or(facts.vendor);
        let board = || root.line("/proc/device-tree/model");
        let name = info.model.or_else(board).map(|name| name.replace('\0', ""));
        facts.model = name.unwrap_or(facts.model);
        facts.features = info.features;
        facts.clock_mhz = info.clock_mhz;

        let limits = Limits::read(root);
        facts.memory = memory(&root.text("/proc/meminfo").unwrap_or_default(), &limits);
        let allowed = allowed_processors(&root.text("/proc/self/status").unwrap_or_default());
        let logical = allowed.or((info.processors > 0).then_some(info.processors));
        let milli = logical.map(|count| count.saturating_mul(1_000));
        facts.processors_milli = milli.into_iter().chain(limits.processors_milli).min();

        let times = Times::parse(&root.text("/proc/stat").unwrap_or_default());
        facts.load = self.times.zip(times).and_then(|(before, now)| now.load_since(before));
        self.times = times.or(self.times);
        let energy = Energy::read(root, now);
        facts.power_mw = self.energy.zip(energy).and_then(|(before, now)| now.power_since(before));
        self.energy = energy.or(self.energy);
        facts.power_limit_mw = rated_power(root);
        facts.temperature_c = temperature(root);
        facts
    }
}

/// What `/proc/cpuinfo` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CpuInfo {
    vendor: Option<String>,
    model: Option<String>,
    clock_mhz: Option<u32>,
    /// What all of the processors can do.
    features: BTreeSet<Feature>,
    processors: u32,
}

impl CpuInfo {
    fn parse(text: &str) -> Self {
        let mut info = Self::default();
        let mut part = None; // of ARM's, which says no "model name"
        let mut features: Option<BTreeSet<Feature>> = None;
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let (key, value) = (key.trim_end(), value.trim());
            match key {
                "processor" => info.processors = info.processors.saturating_add(1),
                "vendor_id" => set(&mut info.vendor, vendor(value)),
                "CPU implementer" => set(&mut info.vendor, implementer(value)),
                "model name" => set(&mut info.model, value.to_owned()),
                "CPU part" => set(&mut part, part_name(value)),
                "cpu MHz" => info.clock_mhz = info.clock_mhz.max(whole(value)),
                "flags" | "Features" => {
                    let found = features_of(value);
                    features = Some(match features {
                        Some(common) => &common & &found,
                        None => found,
                    });
                }
                _ => {}
            }
        }
        info.features = features.unwrap_or_default();
        let arm_name = || Some(format!("{} {}", info.vendor.as_deref()?, part?));
        info.model = info.model.take().or_else(arm_name);
        info
    }
}

/// The first value counts; the other processors of a machine repeat it.
fn set(place: &mut Option<String>, value: String) {
    if place.is_none() && !value.is_empty() {
        *place = Some(value);
    }
}

/// The whole part of a decimal number.
fn whole(value: &str) -> Option<u32> {
    value.split('.').next()?.parse().ok()
}

fn vendor(id: &str) -> String {
    match id {
        "GenuineIntel" => "Intel",
        "AuthenticAMD" => "AMD",
        "HygonGenuine" => "Hygon",
        other => other,
    }
    .to_owned()
}

/// Makers of ARM processors, by the numbers that ARM gave them.
fn implementer(id: &str) -> String {
    match id {
        "0x41" => "ARM",
        "0x42" => "Broadcom",
        "0x43" => "Cavium",
        "0x46" => "Fujitsu",
        "0x48" => "HiSilicon",
        "0x4e" => "NVIDIA",
        "0x51" => "Qualcomm",
        "0x61" => "Apple",
        "0xc0" => "Ampere",
        other => other,
    }
    .to_owned()
}

/// Designs of ARM's that servers and boards have, by their numbers.
fn part_name(id: &str) -> String {
    match id {
        "0xd03" => "Cortex-A53",
        "0xd08" => "Cortex-A72",
        "0xd0b" => "Cortex-A76",
        "0xd0c" => "Neoverse-N1",
        "0xd40" => "Neoverse-V1",
        "0xd49" => "Neoverse-N2",
        "0xd4f" => "Neoverse-V2",
        other => other,
    }
    .to_owned()
}

/// What the kernel's words for abilities mean to jobs.
fn features_of(flags: &str) -> BTreeSet<Feature> {
    let known = flags.split_ascii_whitespace().filter_map(|flag| {
        Some(match flag {
            "avx2" => Feature::Avx2,
            "avx512f" => Feature::Avx512,
            "avx512_vnni" | "avx_vnni" => Feature::Vnni,
            "amx_int8" => Feature::Amx,
            "avx512_fp16" | "asimdhp" => Feature::Fp16,
            "avx512_bf16" | "amx_bf16" | "bf16" => Feature::Bf16,
            "asimd" => Feature::Neon,
            "asimddp" => Feature::Int8Dot,
            "i8mm" => Feature::Int8Matrix,
            "sve" => Feature::Sve,
            _ => return None,
        })
    });
    known.collect()
}

/// Memory of the machine, or of the group if that is less.
fn memory(meminfo: &str, limits: &Limits) -> Option<Memory> {
    let value = |key: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1_024)
    };
    let total = value("MemTotal").into_iter().chain(limits.memory_bytes).min()?;
    // Kernels before 3.14 have no estimate of what is available.
    let available = value("MemAvailable").or_else(|| value("MemFree"));
    let free = available.into_iter().chain(limits.memory_free_bytes).min().unwrap_or(0);
    Some(Memory::of_bytes(total, free))
}

/// How many processors `Cpus_allowed_list: 0-3,8` allows.
fn allowed_processors(status: &str) -> Option<u32> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim();
    let count = |range: &str| -> Option<u32> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    let counts = list.split(',').map(count).collect::<Option<Vec<u32>>>()?;
    counts.into_iter().try_fold(0_u32, u32::checked_add).filter(|count| *count > 0)
}

/// How long all processors together were busy and idle since the start, in the kernel's ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// Doing work.
    pub(crate) busy: u64,
    /// Doing anything or nothing. What a hypervisor took away is left out: nobody here used it.
    pub(crate) total: u64,
}

impl Times {
    /// Reads the line `cpu user nice system idle iowait irq softirq steal …`.
    pub(crate) fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let fields = line.split_ascii_whitespace().take(7).map(|word| word.parse::<u64>().ok());
        let fields = fields.collect::<Option<Vec<u64>>>()?;
        let [user, nice, system, idle, rest @ ..] = fields.as_slice() else { return None };
        let (waiting, interrupts) = rest.split_first().unwrap_or((&0, &[]));
        let sum =
            |fields: &[u64]| fields.iter().try_fold(0_u64, |sum, part| sum.checked_add(*part));
        let busy = sum(&[*user, *nice, *system, sum(interrupts)?])?;
        Some(Self { busy, total: sum(&[busy, *idle, *waiting])? })
    }

    /// How busy the processors were since an earlier reading; `None` if no time has passed, or the
    /// counters ran backwards.
    pub(crate) fn load_since(self, before: Self) -> Option<Percent> {
        let total = self.total.checked_sub(before.total)?;
        Percent::of(self.busy.checked_sub(before.busy)?, total)
    }
}

/// Energy that the processors have used, from Intel's and AMD's own counters. Only the system's
/// administrator may read them on most machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Energy {
    at: Duration,
    microjoules: u64,
    /// After which the counter begins anew.
    range: u64,
}

const POWERCAP: &str = "/sys/class/powercap";

/// The packages; their parts have a second colon.
fn packages(root: &Root) -> impl Iterator<Item = String> {
    let names = root.names(POWERCAP).into_iter();
    names.filter(|name| name.strip_prefix("intel-rapl:").is_some_and(|rest| !rest.contains(':')))
}

impl Energy {
    fn read(root: &Root, at: Duration) -> Option<Self> {
        let mut sum: Option<Self> = None;
        for package in packages(root) {
            let microjoules = root.number(&format!("{POWERCAP}/{package}/energy_uj"))?;
            let range = root.number(&format!("{POWERCAP}/{package}/max_energy_range_uj"))?;
            let (held, range_held) = sum.map_or((0, 0), |sum| (sum.microjoules, sum.range));
            sum = Some(Self {
                at,
                microjoules: held.checked_add(microjoules)?,
                range: range_held.max(range),
            });
        }
        sum
    }

    /// Power since an earlier reading, if time has passed.
    fn power_since(self, before: Self) -> Option<u32> {
        let micros = self.at.checked_sub(before.at)?.as_micros();
        let used = match self.microjoules.checked_sub(before.microjoules) {
            Some(used) => used,
            // One counter began anew. If two did at once, there is no figure this time.
            None => (self.microjoules + before.range).checked_sub(before.microjoules)?,
        };
        u32::try_from((u128::from(used) * 1_000).checked_div(micros)?).ok()
    }
}

/// What all packages together may draw for long.
fn rated_power(root: &Root) -> Option<u32> {
    let limit =
        |package: String| root.number(&format!("{POWERCAP}/{package}/constraint_0_power_limit_uw"));
    let limits = packages(root).map(limit).collect::<Option<Vec<u64>>>()?;
    let microwatts = limits.into_iter().try_fold(0_u64, u64::checked_add)?;
    u32::try_from(microwatts / 1_000).ok().filter(|milliwatts| *milliwatts > 0)
}

/// The hottest sensor of the processor.
fn temperature(root: &Root) -> Option<i16> {
    let hwmon = "/sys/class/hwmon";
    let is_processor = |monitor: &String| {
        let name = root.line(&format!("{hwmon}/{monitor}/name"));
        name.is_some_and(|name| SENSORS.contains(&name.as_str()))
    };
    let monitors = root.names(hwmon).into_iter().filter(is_processor);
    let inputs = monitors.flat_map(|monitor| {
        let folder = format!("{hwmon}/{monitor}");
        let is_input = |name: &String| name.starts_with("temp") && name.ends_with("_input");
        let names = root.names(&folder).into_iter().filter(is_input);
        names.map(|name| format!("{folder}/{name}")).collect::<Vec<String>>()
    });
    inputs.filter_map(|path| degrees(root, &path)).max()
}

/// The degrees of a sensor that counts in thousandths.
pub(super) fn degrees(root: &Root, path: &str) -> Option<i16> {
    let millidegrees: i64 = root.line(path)?.parse().ok()?;
    let is_real = SENSOR_MILLIDEGREES.contains(&millidegrees);
    is_real.then(|| i16::try_from(millidegrees.div_euclid(1_000)).ok()).flatten()
}

#[cfg(test)]
mod tests;
