//! Tests of findings: one fault of a machine at a time.

use super::super::facts::{
    DeviceFacts, DeviceId, DeviceProcess, Kind, Memory, MigMode, Owner, PciAddress, Refusal, Source,
};
use super::super::host::{Clock, Disk, HostFacts};
use super::super::nvidia::{LostDevice, NvidiaFault};
use super::super::pci::{PciGpu, VENDOR_AMD, VENDOR_NVIDIA};
use super::super::{Absence, Snapshot};
use super::{Finding, Severity, judge};
use std::path::PathBuf;

/// A healthy machine with one GPU.
fn healthy() -> Snapshot {
    let mut gpu = DeviceFacts::new(DeviceId::new("GPU-1"), Kind::Gpu, Source::Nvml);
    gpu.model = "RTX 4090".to_owned();
    gpu.driver = Some("580.65.06".to_owned());
    gpu.temperature_c = Some(60);
    gpu.pci = PciAddress::parse("0000:01:00.0");
    gpu.health.temperature_max_c = Some(90);
    gpu.health.is_persistent = Some(true);
    gpu.health.is_slowed_by_heat = Some(false);
    Snapshot {
        devices: vec![DeviceFacts::new(DeviceId::new("cpu:0"), Kind::Cpu, Source::Procfs), gpu],
        lost: vec![],
        absences: vec![],
        host: HostFacts {
            pci_gpus: vec![card(VENDOR_NVIDIA, Some("nvidia"))],
            has_nouveau: false,
            nvidia_kernel: Some("580.65.06".to_owned()),
            nodes_refused: vec![],
            clock: Clock::Right("systemd-timesyncd"),
            disk: Some(disk(100_000)),
        },
    }
}

fn card(vendor: u16, driver: Option<&str>) -> PciGpu {
    PciGpu {
        address: PciAddress::parse("0000:01:00.0").expect("an address"),
        vendor,
        device: 1,
        driver: driver.map(str::to_owned),
    }
}

fn disk(free_mib: u32) -> Disk {
    let space = Memory { total_mib: 200_000, free_mib };
    Disk { folder: PathBuf::from("/var/lib/tensorgrid"), space }
}

/// The one finding of a machine that is healthy but for one change.
fn check(change: impl FnOnce(&mut Snapshot), severity: Severity, code: &str, words: &str) {
    let mut snapshot = healthy();
    change(&mut snapshot);
    let found = judge(&snapshot);
    let [finding] = found.as_slice() else { panic!("one finding: {found:?}") };
    assert_eq!((finding.severity, finding.code), (severity, code), "{finding}");
    assert!(finding.what.contains(words), "{finding}");
    assert!(!finding.fix.is_empty());
}

fn gpu(snapshot: &mut Snapshot) -> &mut DeviceFacts {
    snapshot.devices.last_mut().expect("the GPU is last")
}

fn without_gpu(snapshot: &mut Snapshot, fault: NvidiaFault) {
    snapshot.devices.pop();
    snapshot.absences = vec![Absence::Nvml(fault), Absence::WithoutWgpu];
}

fn no_library() -> NvidiaFault {
    NvidiaFault::NoLibrary { looked_for: vec!["libnvidia-ml.so.1".into()], said: "x".to_owned() }
}

#[test]
fn healthy_machine_has_no_findings() {
    assert_eq!(judge(&healthy()), []);
}

#[test]
fn card_without_a_driver_is_an_error_but_no_card_is_not() {
    check(|s| without_gpu(s, no_library()), Severity::Error, "gpu-no-driver", "libnvidia-ml.so.1");
    let no_card = |s: &mut Snapshot| {
        without_gpu(s, no_library());
        s.host.pci_gpus.clear();
    };
    check(no_card, Severity::Note, "gpu-none", "built without wgpu");
}

#[test]
fn faults_of_the_driver_are_named() {
    for (fault, code) in [
        (NvidiaFault::DriverNotLoaded, "gpu-no-driver"),
        (NvidiaFault::VersionMismatch { kernel: None }, "gpu-driver-mismatch"),
        (NvidiaFault::NoPermission, "gpu-no-permission"),
        (NvidiaFault::TooOld { said: "x".to_owned() }, "gpu-driver-old"),
    ] {
        let words = fault.to_string();
        check(|s| without_gpu(s, fault), Severity::Error, code, &words);
    }
}

#[test]
fn old_driver_is_a_warning() {
    let old = |s: &mut Snapshot| gpu(s).driver = Some("470.57.02".to_owned());
    check(old, Severity::Warning, "gpu-driver-old", "470.57.02");
}

#[test]
fn lost_gpu_is_an_error_with_its_name() {
    let lose = |s: &mut Snapshot| {
        let gpu = s.devices.pop().expect("the GPU is last");
        let (id, model) = (Some(gpu.id), Some(gpu.model));
        s.lost = vec![LostDevice { id, model, index: None, fault: NvidiaFault::Vanished }];
    };
    check(lose, Severity::Error, "gpu-lost", "RTX 4090 (GPU-1): the GPU was there and is gone");
    let nameless = |s: &mut Snapshot| {
        let fault = NvidiaFault::Lost;
        s.lost = vec![LostDevice { id: None, model: None, index: Some(3), fault }];
    };
    check(nameless, Severity::Error, "gpu-lost", "GPU 3: the GPU has fallen off the bus");
}

#[test]
fn nouveau_matters_only_with_a_card_of_nvidia() {
    let nouveau = |s: &mut Snapshot| s.host.has_nouveau = true;
    check(nouveau, Severity::Error, "gpu-nouveau", "nouveau");
    let mut without_card = healthy();
    without_card.host.has_nouveau = true;
    without_card.host.pci_gpus.clear();
    assert_eq!(judge(&without_card), []);
}

#[test]
fn files_that_may_not_be_opened_are_an_error() {
    let refuse = |s: &mut Snapshot| s.host.nodes_refused = vec![PathBuf::from("/dev/nvidia0")];
    check(refuse, Severity::Error, "gpu-no-permission", "/dev/nvidia0");
}

#[test]
fn card_of_another_maker_that_is_not_used_is_noted() {
    let amd = |s: &mut Snapshot| {
        let mut other = card(VENDOR_AMD, Some("amdgpu"));
        other.address = PciAddress::parse("0000:03:00.0").expect("an address");
        s.host.pci_gpus.push(other);
    };
    check(amd, Severity::Note, "gpu-unused", "AMD at 0000:03:00.0");
}

#[test]
fn heat_is_found_by_degrees_and_by_the_clock() {
    let degrees = |s: &mut Snapshot| gpu(s).temperature_c = Some(85);
    check(degrees, Severity::Warning, "device-hot", "85 C");
    let slowed = |s: &mut Snapshot| gpu(s).health.is_slowed_by_heat = Some(true);
    check(slowed, Severity::Warning, "device-hot", "slowed down");
    let processor = |s: &mut Snapshot| {
        s.devices.first_mut().expect("the processor").temperature_c = Some(95);
    };
    check(processor, Severity::Warning, "device-hot", "95 C");
    let mut warm = healthy();
    gpu(&mut warm).temperature_c = Some(84);
    assert_eq!(judge(&warm), []);
}

#[test]
fn persistence_and_refusals_are_found() {
    let off = |s: &mut Snapshot| gpu(s).health.is_persistent = Some(false);
    check(off, Severity::Note, "gpu-persistence", "persistence mode is off");
    let refuse = |s: &mut Snapshot| {
        let fault = NvidiaFault::Refused { said: "no".to_owned() };
        gpu(s).health.refusals = vec![Refusal { question: "power", fault }];
    };
    check(refuse, Severity::Warning, "gpu-refused", "no power");
}

#[test]
fn cut_gpu_without_parts_cannot_be_used() {
    let empty = |s: &mut Snapshot| gpu(s).mig = MigMode::On;
    check(empty, Severity::Error, "mig-empty", "no instance");
    let waiting = |s: &mut Snapshot| gpu(s).mig = MigMode::Waiting { to_be_on: true };
    check(waiting, Severity::Warning, "mig-waiting", "to be on");
}

#[test]
fn memory_of_others_is_named_but_not_our_own() {
    let process = |owner, memory_mib| DeviceProcess {
        pid: 42,
        name: Some("blender".to_owned()),
        memory_mib: Some(memory_mib),
        load: None,
        owner,
    };
    let others = |s: &mut Snapshot| {
        gpu(s).processes = vec![process(Owner::Other, 6_000), process(Owner::Ours, 9_000)];
    };
    check(others, Severity::Warning, "gpu-memory-used", "others use 6000 MiB of it: blender 42");
    let mut fine = healthy();
    gpu(&mut fine).processes = vec![
        process(Owner::Other, 500),
        process(Owner::Ours, 9_000),
        process(Owner::Unseen, 9_000),
    ];
    assert_eq!(judge(&fine), []);
}

#[test]
fn clock_and_disk_are_watched() {
    check(|s| s.host.clock = Clock::Unkept, Severity::Warning, "clock", "clock");
    let waiting = |s: &mut Snapshot| s.host.clock = Clock::Waiting("systemd-timesyncd");
    check(waiting, Severity::Warning, "clock", "has not set");
    check(|s| s.host.disk = Some(disk(20_479)), Severity::Warning, "disk-low", "20479 MiB");
    check(|s| s.host.disk = Some(disk(1_023)), Severity::Error, "disk-low", "1023 MiB");
}

#[test]
fn worst_findings_come_first() {
    let mut snapshot = healthy();
    gpu(&mut snapshot).health.is_persistent = Some(false);
    snapshot.host.clock = Clock::Unkept;
    snapshot.host.has_nouveau = true;
    let found = judge(&snapshot);
    let severities: Vec<Severity> =
        found.iter().map(|finding: &Finding| finding.severity).collect();
    assert_eq!(severities, [Severity::Error, Severity::Warning, Severity::Note]);
}
