//! What is wrong with a machine, and what to do: the part of `doctor` that concerns devices.
//!
//! A pure function of what was read, so that every fault of other people's machines is a test here.

use super::facts::{DeviceFacts, DeviceId, Kind, MigMode, Owner};
use super::host::{Clock, Disk};
use super::nvidia::{LostDevice, NvidiaFault};
use super::pci::{VENDOR_NVIDIA, vendor_name};
use super::{Absence, Catalogue, Snapshot};
use std::fmt;

/// The oldest driver of NVIDIA's that runs what is built for CUDA 12, as most images are.
pub const DRIVER_MAJOR_MIN: u32 = 525;

/// Below this much free space images and models of a usual job do not fit.
const DISK_FREE_MIB_MIN: u32 = 20 << 10;

/// Below this much free space nothing is safe, not even the provider's own notes.
const DISK_FREE_MIB_LEAST: u32 = 1 << 10;

/// Memory of a GPU that others may use without being named: a screen takes a few hundred MiB.
const OTHERS_MIB_MAX: u32 = 1 << 10;

/// How near to its limit a GPU's temperature may come.
const HEAT_MARGIN_C: i16 = 5;

/// The temperature from which a processor is too hot; all slow down between 95 and 105.
const CPU_HEAT_C: i16 = 95;

/// The word for a GPU on which MIG is on and that has no partition.
const MIG_EMPTY: &str = "mig-empty";

/// How bad a finding is; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A device cannot be used.
    Error,
    /// Work will be slow, or fail at times.
    Warning,
    /// Good to know.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// Something that is wrong, or good to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// A word for programs that stays the same.
    pub code: &'static str,
    /// The device it is about.
    pub device: Option<DeviceId>,
    /// What was found.
    pub what: String,
    /// What to do.
    pub fix: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n  {}", self.severity, self.what, self.fix)
    }
}

/// All findings, the worst first.
#[must_use]
pub fn findings(catalogue: &Catalogue) -> Vec<Finding> {
    let mut found = judge(catalogue.snapshot());
    // A GPU that is split for each run has no partition while there is none.
    let is_split = |device: &DeviceId| catalogue.given_out.split.contains_key(device);
    found.retain(|it| it.code != MIG_EMPTY || !it.device.as_ref().is_some_and(is_split));
    found
}

/// As [`findings`], of what was read at some time.
#[must_use]
pub fn judge(snapshot: &Snapshot) -> Vec<Finding> {
    let mut found = Found(Vec::new());
    found.drivers(snapshot);
    for lost in &snapshot.lost {
        found.lost(lost);
    }
    for device in &snapshot.devices {
        found.health(device);
        found.mig(device);
        found.others(device);
    }
    found.clock(&snapshot.host.clock);
    if let Some(disk) = &snapshot.host.disk {
        found.disk(disk);
    }
    found.0.sort_by_key(|finding| finding.severity);
    found.0
}

struct Found(Vec<Finding>);

impl Found {
    fn add(
        &mut self,
        severity: Severity,
        code: &'static str,
        device: Option<&DeviceId>,
        text: [String; 2],
    ) {
        let [what, fix] = text;
        self.0.push(Finding { severity, code, device: device.cloned(), what, fix });
    }

    /// Why GPUs of the machine are not among its devices.
    fn drivers(&mut self, snapshot: &Snapshot) {
        let host = &snapshot.host;
        let has_nvidia_card = host.pci_gpus.iter().any(|gpu| gpu.vendor == VENDOR_NVIDIA);
        if host.has_nouveau && has_nvidia_card {
            let what = "the driver nouveau is loaded, which keeps NVIDIA's own driver out";
            let fix = "put `blacklist nouveau` into /etc/modprobe.d/nouveau.conf, rebuild the \
                       initramfs, restart, then install NVIDIA's driver";
            self.add(Severity::Error, "gpu-nouveau", None, [what.into(), fix.into()]);
        }
        if !host.nodes_refused.is_empty() {
            let paths = host.nodes_refused.iter().map(|path| path.display().to_string());
            let paths: Vec<String> = paths.collect();
            let what = format!("this user may not open {}", paths.join(", "));
            let fix = NvidiaFault::NoPermission.fix().to_owned();
            self.add(Severity::Error, "gpu-no-permission", None, [what, fix]);
        }
        let mut has_reason = false;
        for absence in &snapshot.absences {
            let Absence::Nvml(fault) = absence else { continue };
            // Without a card of NVIDIA's there is nothing wrong if their library is not there.
            if has_nvidia_card || !matches!(fault, NvidiaFault::NoLibrary { .. }) {
                has_reason = true;
                let code = fault_code(fault);
                self.add(Severity::Error, code, None, [fault.to_string(), fault.fix().into()]);
            }
        }
        let is_gpu = |device: &DeviceFacts| device.kind == Kind::Gpu;
        let others = host.pci_gpus.iter().filter(|gpu| gpu.vendor != VENDOR_NVIDIA);
        let is_listed = |address| snapshot.devices.iter().any(|device| device.pci == Some(address));
        for gpu in others.filter(|gpu| !is_listed(gpu.address)) {
            let driver = gpu.driver.as_deref().unwrap_or("none");
            let maker = vendor_name(gpu.vendor);
            let what = format!("a GPU of {maker} at {} is not used, driver: {driver}", gpu.address);
            let fix = "use a build with the feature wgpu, and install a Vulkan driver \
                       (mesa-vulkan-drivers)";
            self.add(Severity::Note, "gpu-unused", None, [what, fix.into()]);
        }
        if !snapshot.devices.iter().any(is_gpu) && !has_reason && host.pci_gpus.is_empty() {
            let reasons: Vec<String> = snapshot.absences.iter().map(ToString::to_string).collect();
            let what = format!("this machine has no GPU ({})", reasons.join("; "));
            let fix = "nothing is wrong: it offers its processor";
            self.add(Severity::Note, "gpu-none", None, [what, fix.into()]);
        }
    }

    fn lost(&mut self, lost: &LostDevice) {
        let name = match (&lost.model, &lost.id, lost.index) {
            (Some(model), Some(id), _) => format!("{model} ({id})"),
            (_, _, Some(index)) => format!("GPU {index}"),
            (_, _, None) => "a GPU".to_owned(),
        };
        let what = format!("{name}: {}", lost.fault);
        let fix = lost.fault.fix().to_owned();
        self.add(Severity::Error, fault_code(&lost.fault), lost.id.as_ref(), [what, fix]);
    }

    fn health(&mut self, device: &DeviceFacts) {
        let (id, model, health) = (Some(&device.id), &device.model, &device.health);
        let major = device.driver.as_deref().and_then(major).filter(|_| device.is_nvidia());
        if let (Some(driver), Some(found)) = (&device.driver, major)
            && found < DRIVER_MAJOR_MIN
        {
            let what = format!("{model}: NVIDIA's driver {driver} is too old for CUDA 12");
            let fix = format!("update it to version {DRIVER_MAJOR_MIN} or newer");
            self.add(Severity::Warning, "gpu-driver-old", id, [what, fix]);
        }
        for refusal in &health.refusals {
            let what = format!("{model}: no {}: {}", refusal.question, refusal.fault);
            let code = fault_code(&refusal.fault);
            self.add(Severity::Warning, code, id, [what, refusal.fault.fix().into()]);
        }
        if health.is_persistent == Some(false) {
            let what = format!("{model}: persistence mode is off, so every job starts slowly");
            let fix = "run `nvidia-smi -pm 1`, or enable nvidia-persistenced";
            self.add(Severity::Note, "gpu-persistence", id, [what, fix.into()]);
        }
        let limit = match device.kind {
            Kind::Cpu => Some(CPU_HEAT_C),
            Kind::Gpu | Kind::Accelerator | Kind::Software => {
                health.temperature_max_c.map(|max| max.saturating_sub(HEAT_MARGIN_C))
            }
        };
        let temperature = device.temperature_c;
        let is_hot = temperature.zip(limit).is_some_and(|(now, limit)| now >= limit);
        if is_hot || health.is_slowed_by_heat == Some(true) {
            let degrees = temperature.map_or(String::new(), |now| format!(", {now} C"));
            let slowed = match health.is_slowed_by_heat {
                Some(true) => " and is slowed down by it",
                Some(false) | None => "",
            };
            let what = format!("{model} is too hot{degrees}{slowed}");
            let fix = "clean fans and filters, give it air, or lower its power limit \
                       (`nvidia-smi -pl`)";
            self.add(Severity::Warning, "device-hot", id, [what, fix.into()]);
        }
    }

    fn mig(&mut self, device: &DeviceFacts) {
        let (id, model) = (Some(&device.id), &device.model);
        match device.mig {
            MigMode::On if device.partitions.is_empty() => {
                let what = format!("{model}: MIG is on, but there is no instance to run on");
                let fix = "make some with `nvidia-smi mig -cgi PROFILE -C`, or switch MIG off \
                           with `nvidia-smi -mig 0`";
                self.add(Severity::Error, MIG_EMPTY, id, [what, fix.into()]);
            }
            MigMode::Waiting { to_be_on } => {
                let mode = if to_be_on { "on" } else { "off" };
                let what = format!("{model}: MIG is to be {mode} and waits for a reset");
                let fix = "end what uses the GPU, then `nvidia-smi --gpu-reset`, or restart";
                self.add(Severity::Warning, "mig-waiting", id, [what, fix.into()]);
            }
            MigMode::Absent | MigMode::Off | MigMode::On => {}
        }
    }

    fn others(&mut self, device: &DeviceFacts) {
        let others = device.processes.iter().filter(|process| process.owner == Owner::Other);
        let mut used_mib = 0_u32;
        let mut names = Vec::new();
        for process in others {
            let mib = process.memory_mib.unwrap_or(0);
            used_mib = used_mib.saturating_add(mib);
            let name = process.name.as_deref().unwrap_or("process");
            names.push(format!("{name} {} ({mib} MiB)", process.pid));
        }
        if used_mib > OTHERS_MIB_MAX {
            let model = &device.model;
            let what = format!("{model}: others use {used_mib} MiB of it: {}", names.join(", "));
            let fix = "end them if the memory is to be offered; jobs get what is free";
            self.add(Severity::Warning, "gpu-memory-used", Some(&device.id), [what, fix.into()]);
        }
    }

    fn clock(&mut self, clock: &Clock) {
        let what = match clock {
            Clock::Right(_) | Clock::Kept(_) => return,
            Clock::Waiting(name) => format!("{name} has not set the clock yet"),
            Clock::Unkept => "nothing is seen that keeps this machine's clock right".to_owned(),
        };
        let fix = "enable systemd-timesyncd (`timedatectl set-ntp true`) or install chrony; in a \
                   container or virtual machine, see to the host's clock";
        self.add(Severity::Warning, "clock", None, [what, fix.into()]);
    }

    fn disk(&mut self, disk: &Disk) {
        let free = disk.space.free_mib;
        let severity = match free {
            0..DISK_FREE_MIB_LEAST => Severity::Error,
            DISK_FREE_MIB_LEAST..DISK_FREE_MIB_MIN => Severity::Warning,
            DISK_FREE_MIB_MIN.. => return,
        };
        let what = format!("{} has {free} MiB left on its disk", disk.folder.display());
        let fix = format!("make room, or choose another folder; jobs want {DISK_FREE_MIB_MIN} MiB");
        self.add(severity, "disk-low", None, [what, fix]);
    }
}

impl DeviceFacts {
    fn is_nvidia(&self) -> bool {
        self.source == super::Source::Nvml
    }
}

/// The first number of a version.
fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

const fn fault_code(fault: &NvidiaFault) -> &'static str {
    match fault {
        NvidiaFault::NoLibrary { .. } | NvidiaFault::DriverNotLoaded => "gpu-no-driver",
        NvidiaFault::NotNvml { .. } => "gpu-wrong-library",
        NvidiaFault::TooOld { .. } => "gpu-driver-old",
        NvidiaFault::VersionMismatch { .. } => "gpu-driver-mismatch",
        NvidiaFault::NoPermission | NvidiaFault::Blocked => "gpu-no-permission",
        NvidiaFault::Lost | NvidiaFault::Vanished => "gpu-lost",
        NvidiaFault::ResetRequired => "gpu-reset",
        NvidiaFault::Power => "gpu-power",
        NvidiaFault::Interrupts | NvidiaFault::InfoRom => "gpu-broken",
        NvidiaFault::Timeout | NvidiaFault::Refused { .. } => "gpu-refused",
    }
}

#[cfg(test)]
mod tests;
