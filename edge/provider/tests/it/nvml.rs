//! NVIDIA's GPUs through a library with the C interface of NVML: the production code, with a
//! machine behind it that every test changes as it likes.

use expect_test::expect;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use tg_nvml_test::{LIBRARY_FILE, STATE_ENDING};
use tg_provider::devices::{
    Absence, Catalogue, DetectSettings, DeviceFacts, GivenOut, Kind, NvidiaFault, Owner, Percent,
    findings,
};
use tg_types::MigSlices;

pub(crate) const RTX: &str = "GPU-4090aaaa-0000-4000-8000-000000000001";
pub(crate) const A100: &str = "GPU-a100aaaa-0000-4000-8000-000000000002";

/// A machine of its own for a test: a copy of the library, and files of an operating system.
pub(crate) struct Machine {
    folder: PathBuf,
}

impl Machine {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tg-provider-it-{}-{number}", std::process::id());
        let machine = Self { folder: std::env::temp_dir().join(name) };
        std::fs::create_dir_all(machine.folder.join("root")).expect("a folder");
        std::fs::copy(built_library(), machine.library()).expect("the library was built");
        machine
    }

    fn library(&self) -> PathBuf {
        self.folder.join("libnvidia-ml.so.1")
    }

    /// Changes what the library says.
    pub(crate) fn state(&self, lines: &str) {
        let path = format!("{}{STATE_ENDING}", self.library().display());
        std::fs::write(path, lines).expect("writes");
    }

    /// Writes a file of the operating system.
    fn file(&self, path: &str, content: &str) {
        let path = self.folder.join("root").join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("makes folders");
        std::fs::write(path, content).expect("writes");
    }

    pub(crate) fn settings(&self) -> DetectSettings {
        DetectSettings {
            root: self.folder.join("root"),
            nvml_library: Some(self.library()),
            with_adapters: false,
            ..DetectSettings::default()
        }
    }

    pub(crate) fn detect(&self) -> Catalogue {
        Catalogue::detect(&self.settings())
    }

    /// Takes a function away from the library: its name is changed where the loader looks for it.
    pub(crate) fn take_away(&self, function: &str) {
        let mut bytes = std::fs::read(self.library()).expect("reads");
        let name: Vec<u8> = [b"\0", function.as_bytes(), b"\0"].concat();
        let places: Vec<usize> = (0..bytes.len())
            .filter(|at| bytes.get(*at..).is_some_and(|rest| rest.starts_with(&name)))
            .collect();
        assert!(!places.is_empty(), "the library has {function}");
        for place in places {
            *bytes.get_mut(place + 1).expect("within the file") = b'X';
        }
        std::fs::write(self.library(), bytes).expect("writes");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _left_to_the_system = std::fs::remove_dir_all(&self.folder);
    }
}

/// Cargo puts the library beside this program: it is among the dependencies.
fn built_library() -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    this.with_file_name(LIBRARY_FILE)
}

fn gpus(catalogue: &Catalogue) -> Vec<&DeviceFacts> {
    catalogue.devices().iter().filter(|facts| facts.kind == Kind::Gpu).collect()
}

fn ids(catalogue: &Catalogue) -> Vec<&str> {
    gpus(catalogue).iter().map(|facts| facts.id.as_str()).collect()
}

fn codes(catalogue: &Catalogue) -> Vec<&'static str> {
    findings(catalogue).iter().map(|finding| finding.code).collect()
}

/// What `nodes` shows of the GPUs, with ids cut to their first part.
fn shown(catalogue: &Catalogue) -> String {
    let mut text = String::new();
    for facts in gpus(catalogue) {
        writeln!(text, "{facts}").expect("text grows");
    }
    for rest in ["-0000-4000-8000-00000000000", "-0000-5000-8000-00000000000"] {
        text = text.replace(rest, ".");
    }
    text
}

#[test]
fn both_gpus_are_shown_with_memory_and_instances() {
    let catalogue = Machine::new().detect();
    expect![[r#"
        GPU: NVIDIA GeForce RTX 4090, 24564 MiB, 23140 free, load 3 %, 41 C, 28.5 W of 450 W
          GPU-4090aaaa.1 (nvml) tensor-cores fp16 bf16 fp8 int8-dot int8-matrix
        GPU: NVIDIA A100-SXM4-80GB, 81920 MiB, 80908 free, 35 C, 61.2 W of 400 W
          GPU-a100aaaa.2 (nvml) tensor-cores fp16 bf16 int8-dot int8-matrix
          MIG 3g.40gb, 40192 MiB, 39779 free, 42 multiprocessors, MIG-a100aaaa.1
          MIG 2g.20gb, 19968 MiB, 19555 free, 28 multiprocessors, MIG-a100aaaa.2
          MIG 1g.10gb, 9728 MiB, 9315 free, 14 multiprocessors, MIG-a100aaaa.3
    "#]]
    .assert_eq(&shown(&catalogue));
    let [rtx, a100] = gpus(&catalogue)[..] else { panic!("two GPUs") };
    assert_eq!(rtx.driver.as_deref(), Some("580.65.06"));
    assert_eq!(rtx.interface.as_deref(), Some("CUDA 13.0"));
    assert_eq!(rtx.architecture.as_deref(), Some("Ada, compute 8.9"));
    assert_eq!(rtx.pci.map(|pci| pci.to_string()).as_deref(), Some("0000:01:00.0"));
    assert_eq!(rtx.clock_mhz, Some(2_520));
    assert_eq!((rtx.index, a100.index), (Some(0), Some(1)));
    assert_eq!(a100.load, None, "no load is told of a GPU that is cut up");
    for facts in [rtx, a100] {
        assert_eq!(facts.health.refusals, [], "the library answers all questions");
    }
}

#[test]
fn offer_has_instances_in_place_of_the_gpu_that_is_cut_up() {
    let catalogue = Machine::new().detect();
    let mut text = String::new();
    for device in catalogue.offered() {
        writeln!(text, "{} x {}, {} MiB", device.count, device.model, device.memory_mib)
            .expect("text grows");
    }
    expect![[r#"
        1 x NVIDIA GeForce RTX 4090, 24564 MiB
        1 x NVIDIA A100-SXM4-80GB MIG 3g.40gb, 40192 MiB
        1 x NVIDIA A100-SXM4-80GB MIG 2g.20gb, 19968 MiB
        1 x NVIDIA A100-SXM4-80GB MIG 1g.10gb, 9728 MiB
    "#]]
    .assert_eq(&text);
}

#[test]
fn figures_are_read_again() {
    let machine = Machine::new();
    let mut catalogue = machine.detect();
    machine
        .state("gpu 0 used-mib 20000\ngpu 0 load 97\ngpu 0 temperature 71\ngpu 0 power-mw 431000");
    assert!(catalogue.refresh().is_empty(), "no device came or went");
    let [rtx, _] = gpus(&catalogue)[..] else { panic!("two GPUs") };
    assert_eq!(rtx.memory.map(|memory| memory.free_mib), Some(24_564 - 20_000 - 400));
    assert_eq!(rtx.load, Some(Percent::capped(97)));
    assert_eq!((rtx.temperature_c, rtx.power_mw), (Some(71), Some(431_000)));
}

#[test]
fn gpu_that_disappears_and_returns_is_noticed() {
    let machine = Machine::new();
    let mut catalogue = machine.detect();
    machine.state("gpu 0 absent");
    let changes = catalogue.refresh();
    assert_eq!(changes.gone.iter().map(|id| id.as_str()).collect::<Vec<_>>(), [RTX]);
    assert_eq!(ids(&catalogue), [A100]);
    let finding = findings(&catalogue).into_iter().find(|finding| finding.code == "gpu-lost");
    let finding = finding.expect("the loss is found");
    assert_eq!(
        finding.what,
        format!("NVIDIA GeForce RTX 4090 ({RTX}): the GPU was there and is gone")
    );
    assert!(catalogue.refresh().is_empty());
    assert!(codes(&catalogue).contains(&"gpu-lost"), "it is not forgotten");

    machine.state("");
    let changes = catalogue.refresh();
    assert_eq!(changes.appeared.iter().map(|id| id.as_str()).collect::<Vec<_>>(), [RTX]);
    assert_eq!(ids(&catalogue), [RTX, A100]);
    assert!(!codes(&catalogue).contains(&"gpu-lost"));
}

#[test]
fn gpu_that_falls_off_the_bus_does_not_take_the_other_with_it() {
    let machine = Machine::new();
    let mut catalogue = machine.detect();
    // The handle is still given, but the first question fails; or not even the handle.
    for lines in ["fail nvmlDeviceGetUUID 15 gpu 0", "fail handle 15 gpu 0"] {
        machine.state(lines);
        catalogue.refresh();
        assert_eq!(ids(&catalogue), [A100], "{lines}");
        let [lost] = catalogue.snapshot().lost.as_slice() else { panic!("one is lost") };
        assert_eq!(lost.id.as_ref().map(|id| id.as_str()), Some(RTX), "its name is remembered");
        assert_eq!(lost.fault, NvidiaFault::Lost);
    }
    machine.state("");
    catalogue.refresh();
    assert_eq!(ids(&catalogue), [RTX, A100]);
    assert!(catalogue.snapshot().lost.is_empty());
}

#[test]
fn gpu_lost_in_the_middle_of_a_reading_is_not_listed() {
    let machine = Machine::new();
    machine.state("fail nvmlDeviceGetPowerUsage 15 gpu 1");
    let catalogue = machine.detect();
    assert_eq!(ids(&catalogue), [RTX]);
    assert_eq!(catalogue.snapshot().lost.first().map(|lost| lost.index), Some(Some(1)));
}

#[test]
fn one_figure_that_is_refused_costs_no_other() {
    let machine = Machine::new();
    machine.state("fail nvmlDeviceGetTemperature 999 gpu 0\nfail nvmlDeviceGetMigMode 4 gpu 1");
    let catalogue = machine.detect();
    let [rtx, a100] = gpus(&catalogue)[..] else { panic!("two GPUs") };
    assert_eq!(rtx.temperature_c, None);
    assert!(rtx.memory.is_some() && rtx.power_mw.is_some());
    let questions = |facts: &DeviceFacts| -> Vec<&str> {
        facts.health.refusals.iter().map(|refusal| refusal.question).collect()
    };
    assert_eq!(questions(rtx), ["temperature"]);
    assert_eq!(questions(a100), ["MIG mode"]);
    assert!(codes(&catalogue).contains(&"gpu-refused"));
    assert!(codes(&catalogue).contains(&"gpu-no-permission"));
}

#[test]
fn instances_that_change_are_noticed() {
    let machine = Machine::new();
    let mut catalogue = machine.detect();
    machine.state("gpu 1 instance 0 absent\ngpu 1 instance 2 used-mib 4000");
    let changes = catalogue.refresh();
    assert_eq!(changes.resized.iter().map(|id| id.as_str()).collect::<Vec<_>>(), [A100]);
    let profiles = |catalogue: &Catalogue| -> Vec<String> {
        let a100 = gpus(catalogue).into_iter().find(|facts| facts.id.as_str() == A100);
        let parts = &a100.expect("it is there").partitions;
        parts.iter().map(|part| part.profile.clone()).collect()
    };
    assert_eq!(profiles(&catalogue), ["2g.20gb", "1g.10gb"]);

    machine.state("gpu 1 instance 0 absent\ngpu 1 instance 1 absent\ngpu 1 instance 2 absent");
    catalogue.refresh();
    assert!(profiles(&catalogue).is_empty());
    assert!(codes(&catalogue).contains(&"mig-empty"));
    assert!(catalogue.offered().iter().all(|device| !device.model.as_str().contains("A100")));

    let a100 = gpus(&catalogue).into_iter().find(|facts| facts.id.as_str() == A100);
    let split = [(a100.expect("it is there").id.clone(), MigSlices::Seven)].into();
    catalogue.give_out(GivenOut { split, shares: false });
    assert!(!codes(&catalogue).contains(&"mig-empty"), "it is split when a run needs it");
    assert!(catalogue.offered().iter().any(|device| device.model.as_str().contains("A100")));
    catalogue.give_out(GivenOut::default());

    machine.state("gpu 1 mig off");
    catalogue.refresh();
    assert!(catalogue.offered().iter().any(|device| device.model.as_str().contains("A100")));
}

#[test]
fn whole_that_only_an_administrator_may_see_is_no_refusal() {
    let machine = Machine::new();
    // The same error of an instance is one: those are for everybody.
    machine.state("fail nvmlDeviceGetMemoryInfo_v2 4 gpu 1");
    let catalogue = machine.detect();
    let a100 = gpus(&catalogue).pop().expect("it is there");
    assert_eq!(a100.memory, None);
    let questions: Vec<&str> =
        a100.health.refusals.iter().map(|refusal| refusal.question).collect();
    assert_eq!(questions, ["memory of a MIG instance"; 3]);
    machine.state("fail nvmlDeviceGetComputeRunningProcesses_v3 4 gpu 1");
    let catalogue = machine.detect();
    let a100 = gpus(&catalogue).pop().expect("it is there");
    assert_eq!(a100.health.refusals, []);
    assert_eq!(a100.partitions.len(), 3);
}

#[test]
fn profile_is_made_up_from_the_size_if_the_name_does_not_say_it() {
    let machine = Machine::new();
    machine.state("fail nvmlDeviceGetName 3 gpu 1");
    let catalogue = machine.detect();
    let a100 = gpus(&catalogue).pop().expect("it is there");
    let profiles: Vec<&str> = a100.partitions.iter().map(|part| part.profile.as_str()).collect();
    assert_eq!(profiles, ["3g.40gb", "2g.20gb", "1g.10gb"]);
    assert_eq!(a100.model, "unknown");
}

#[test]
fn faults_of_the_whole_driver_are_said_in_words() {
    let check = |code: u32, words: &str, fix: &str| {
        let machine = Machine::new();
        machine.file("proc/driver/nvidia/version", "NVRM version: NVIDIA Kernel 535.154.05 x\n");
        machine.state(&format!("fail nvmlInit_v2 {code}"));
        let catalogue = machine.detect();
        assert!(gpus(&catalogue).is_empty());
        let [Absence::Nvml(fault)] = catalogue.absences() else { panic!("one reason") };
        assert!(fault.to_string().contains(words), "{fault}");
        assert!(fault.fix().contains(fix), "{}", fault.fix());
        assert_eq!(catalogue.devices().len(), 1, "the processor is still there");
        machine.state("");
        let mut later = catalogue;
        assert_eq!(later.refresh().appeared.len(), 2, "found as soon as the driver works");
    };
    check(18, "in the kernel (535.154.05) and the NVML library are of different", "restart");
    check(9, "is not loaded", "modprobe nvidia");
    check(4, "may not use", "group");
    check(999, "refused", "nvidia-smi");
}

#[test]
fn driver_that_stops_answering_loses_all_gpus_and_gives_them_back() {
    let machine = Machine::new();
    let mut catalogue = machine.detect();
    machine.state("fail nvmlDeviceGetCount_v2 9\nfail nvmlInit_v2 9");
    for _ in 0..2 {
        catalogue.refresh();
        assert!(gpus(&catalogue).is_empty());
        let lost = &catalogue.snapshot().lost;
        assert_eq!(lost.len(), 2);
        assert!(lost.iter().all(|lost| lost.fault == NvidiaFault::DriverNotLoaded));
    }
    machine.state("");
    catalogue.refresh();
    assert_eq!(ids(&catalogue), [RTX, A100]);
}

#[test]
fn library_that_is_another_one_is_refused() {
    let machine = Machine::new();
    machine.take_away("nvmlInit_v2");
    let catalogue = machine.detect();
    let [Absence::Nvml(fault @ NvidiaFault::NotNvml { .. })] = catalogue.absences() else {
        panic!("one reason: {:?}", catalogue.absences());
    };
    assert!(fault.to_string().contains("nvmlInit_v2"), "{fault}");
}

#[test]
fn file_that_is_no_library_is_refused() {
    let machine = Machine::new();
    std::fs::write(machine.library(), "no library").expect("writes");
    let catalogue = machine.detect();
    assert!(matches!(catalogue.absences(), [Absence::Nvml(NvidiaFault::NotNvml { .. })]));
    assert!(codes(&catalogue).contains(&"gpu-wrong-library"));
}

#[test]
fn library_without_an_end_is_refused_and_does_not_stop_the_program() {
    let machine = Machine::new();
    machine.take_away("nvmlShutdown");
    let catalogue = machine.detect();
    let [Absence::Nvml(NvidiaFault::NotNvml { said, .. })] = catalogue.absences() else {
        panic!("one reason: {:?}", catalogue.absences());
    };
    assert!(said.contains("nvmlShutdown"), "{said}");
    drop(catalogue);
}

#[test]
fn old_driver_without_a_function_loses_only_that_figure() {
    let machine = Machine::new();
    machine.take_away("nvmlDeviceGetMemoryInfo_v2");
    machine.state("driver 470.57.02");
    let catalogue = machine.detect();
    let [rtx, _] = gpus(&catalogue)[..] else { panic!("two GPUs") };
    assert_eq!(rtx.memory, None);
    assert_eq!(rtx.temperature_c, Some(41));
    let found = findings(&catalogue);
    let old: Vec<&str> = found
        .iter()
        .filter(|finding| finding.code == "gpu-driver-old")
        .map(|finding| finding.what.as_str())
        .collect();
    assert!(old.iter().any(|what| what.contains("470.57.02")), "{old:?}");
    assert!(old.iter().any(|what| what.contains("nvmlDeviceGetMemoryInfo_v2")), "{old:?}");
}

#[test]
fn load_of_our_own_processes_is_told_from_that_of_others() {
    let machine = Machine::new();
    let stat = |pid: u32, parent: u32| {
        format!("{pid} (x) S {parent} 1 1 0 -1 0 9 8 7 6 0 0 0 0 20 0 1 0 100\n")
    };
    for (pid, parent, name) in [(100, 1, "tensorgrid"), (101, 100, "job"), (200, 1, "game")] {
        machine.file(&format!("proc/{pid}/stat"), &stat(pid, parent));
        machine.file(&format!("proc/{pid}/comm"), &format!("{name}\n"));
    }
    machine.state(
        "gpu 0 load 90\ngpu 0 process 101 8000 60\ngpu 0 process 200 3000 30\n\
         gpu 0 process 300 10 0",
    );
    let settings = DetectSettings { own_pids: [100].into(), ..machine.settings() };
    let catalogue = Catalogue::detect(&settings);
    let [rtx, _] = gpus(&catalogue)[..] else { panic!("two GPUs") };
    let seen: Vec<_> = rtx
        .processes
        .iter()
        .map(|process| (process.pid, process.name.as_deref(), process.memory_mib, process.owner))
        .collect();
    let expected = [
        (101, Some("job"), Some(8_000), Owner::Ours),
        (200, Some("game"), Some(3_000), Owner::Other),
        (300, None, Some(10), Owner::Unseen),
    ];
    assert_eq!(seen, expected);
    assert_eq!(rtx.load_of_others(), Some(Percent::capped(30)));
    let used = findings(&catalogue).into_iter().find(|found| found.code == "gpu-memory-used");
    assert!(used.expect("others use memory").what.contains("game 200 (3000 MiB)"));
}

#[test]
fn gpus_that_the_driver_adds_make_the_library_load_anew() {
    let machine = Machine::new();
    machine.file("proc/driver/nvidia/gpus/0000:41:00.0/information", "Model: A100\n");
    machine.state("gpu 0 absent");
    let mut catalogue = machine.detect();
    assert_eq!(ids(&catalogue), [A100]);
    machine.state("");
    machine.file("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: RTX 4090\n");
    assert_eq!(catalogue.refresh().appeared.len(), 1);
}

#[test]
fn health_of_gpus_is_judged() {
    let machine = Machine::new();
    machine.state("gpu 0 temperature 86\ngpu 0 hot\ngpu 1 persistence off");
    let catalogue = machine.detect();
    let found = codes(&catalogue);
    assert!(found.contains(&"device-hot") && found.contains(&"gpu-persistence"), "{found:?}");
}

#[test]
fn state_that_is_not_understood_is_a_fault_and_not_an_answer() {
    let machine = Machine::new();
    machine.state("gpu 0 colour red");
    let catalogue = machine.detect();
    assert!(gpus(&catalogue).is_empty());
    assert!(matches!(catalogue.absences(), [Absence::Nvml(NvidiaFault::Refused { .. })]));
}

#[test]
fn library_is_where_cargo_puts_it() {
    let library = built_library();
    assert!(Path::exists(&library), "{} is not there", library.display());
}
