//! Tests of the processor's facts, on recorded and on broken files.

use super::{CpuInfo, Energy, Processor, Times, allowed_processors, features_of, memory};
use crate::devices::facts::{Feature, Memory, Percent};
use crate::devices::limits::Limits;
use crate::root::Root;
use crate::testing::{Folder, fixture, noise};
use expect_test::{Expect, expect};
use std::time::Duration;

/// What a recorded tree shows after two readings.
fn check(name: &str, expected: &Expect) {
    let root = Root::new(&fixture(name));
    let mut processor = Processor::default();
    let first = processor.read(&root, Duration::ZERO);
    assert_eq!(first.load, None, "one reading says nothing of the load");
    let facts = processor.read(&root, Duration::from_secs(1));
    let clock = facts.clock_mhz.map_or("unknown".to_owned(), |clock| format!("{clock} MHz"));
    expected.assert_eq(&format!("{facts}\n{}, {clock}\n", facts.vendor));
}

#[test]
fn virtual_machine_on_control_groups_of_the_first_generation() {
    check(
        "epyc-vm",
        &expect![[r#"
        CPU: AMD EPYC, 4096 MiB, 4042 free, 2 processors
          cpu:0 (procfs) avx2
        AMD, 2445 MHz
    "#]],
    );
}

#[test]
fn desktop_on_control_groups_of_the_second_generation() {
    check(
        "desktop",
        &expect![[r#"
        CPU: 13th Gen Intel(R) Core(TM) i5-13400F, 16384 MiB, 14848 free, 6.5 processors, 44 C
          cpu:0 (procfs) avx2 vnni
        Intel, 4100 MHz
    "#]],
    );
}

#[test]
fn small_board_on_arm() {
    check(
        "arm-board",
        &expect![[r#"
        CPU: ARM Cortex-A76, 8051 MiB, 7304 free, 4 processors
          cpu:0 (procfs) fp16 int8-dot neon
        ARM, unknown
    "#]],
    );
}

#[test]
fn machine_that_says_nothing_is_still_a_processor() {
    let folder = Folder::new();
    let facts = Processor::default().read(&Root::new(folder.path()), Duration::ZERO);
    assert_eq!(facts.to_string(), "CPU: unknown\n  cpu:0 (procfs)");
}

#[test]
fn features_of_unlike_processors_are_those_of_all() {
    let text = "processor : 0\nflags : avx2 avx512f\n\nprocessor : 1\nflags : avx2\n";
    let info = CpuInfo::parse(text);
    assert_eq!(info.features, [Feature::Avx2].into());
    assert_eq!(info.processors, 2);
    assert_eq!(features_of("avx avx2x AVX2"), [].into());
}

#[test]
fn memory_is_that_of_the_group_if_less() {
    let meminfo = "MemTotal:       8000000 kB\nMemFree: 1 kB\nMemAvailable:    4000000 kB\n";
    let limits = |memory_bytes, memory_free_bytes| Limits {
        memory_bytes,
        memory_free_bytes,
        processors_milli: None,
    };
    let check = |limits, total_mib, free_mib| {
        assert_eq!(memory(meminfo, &limits), Some(Memory { total_mib, free_mib }));
    };
    check(limits(None, None), 7_812, 3_906);
    check(limits(Some(1 << 30), Some(1 << 29)), 1_024, 512);
    check(limits(Some(1 << 30), None), 1_024, 1_024);
    check(limits(Some(1 << 40), Some(1 << 40)), 7_812, 3_906);
    assert_eq!(memory("MemTotal: many kB\n", &limits(None, None)), None);
}

#[test]
fn allowed_processors_are_counted_in_ranges() {
    let count = |list: &str| allowed_processors(&format!("Name:\tx\nCpus_allowed_list:\t{list}\n"));
    assert_eq!(count("0"), Some(1));
    assert_eq!(count("0-3,8,10-11"), Some(7));
    for list in ["", "3-1", "a", "1,", "0-4294967295", "-1"] {
        assert_eq!(count(list), None, "{list}");
    }
    assert_eq!(allowed_processors(""), None);
}

#[test]
fn load_is_what_was_done_between_two_readings() {
    let times = |text: &str| Times::parse(text).expect("a line of times");
    let before = times("cpu  100 0 0 100 0 0 0 500 0 0\ncpu0 1 1 1 1");
    let after = times("cpu  130 5 5 130 20 5 5 900 0 0\n");
    assert_eq!(after.load_since(before), Some(Percent::capped(50)));
    assert_eq!(before.load_since(after), None);
    assert_eq!(after.load_since(after), None);
    // Kernels before 2.6 have four fields.
    assert_eq!(times("cpu 1 2 3 4"), Times { busy: 6, total: 10 });
}

#[test]
fn power_is_energy_by_time_also_when_a_counter_begins_anew() {
    let energy = |seconds, microjoules| Energy {
        at: Duration::from_secs(seconds),
        microjoules,
        range: 1_000_000_000,
    };
    assert_eq!(energy(2, 120_000_000).power_since(energy(0, 0)), Some(60_000));
    let anew = energy(1, 5_000_000).power_since(energy(0, 995_000_000));
    assert_eq!(anew, Some(10_000));
    assert_eq!(energy(1, 5).power_since(energy(1, 0)), None);
    assert_eq!(energy(0, 5).power_since(energy(1, 0)), None);
}

#[test]
fn sensors_and_counters_are_found_by_name() {
    let folder = Folder::new();
    folder.write("sys/class/hwmon/hwmon0/name", "nvme\n");
    folder.write("sys/class/hwmon/hwmon0/temp1_input", "99000\n");
    folder.write("sys/class/hwmon/hwmon1/name", "coretemp\n");
    folder.write("sys/class/hwmon/hwmon1/temp1_input", "48500\n");
    folder.write("sys/class/hwmon/hwmon1/temp2_input", "51000\n");
    folder.write("sys/class/hwmon/hwmon1/temp2_label", "Core 0\n");
    folder.write("sys/class/hwmon/hwmon1/temp3_input", "4294967295\n");
    for (package, energy) in [("intel-rapl:0", 5_u64), ("intel-rapl:1", 7), ("intel-rapl:0:0", 99)]
    {
        let file = |name: &str| format!("sys/class/powercap/{package}/{name}");
        folder.write(&file("energy_uj"), energy.to_string());
        folder.write(&file("max_energy_range_uj"), "1000");
        folder.write(&file("constraint_0_power_limit_uw"), "65000000");
    }
    let root = Root::new(folder.path());
    let facts = Processor::default().read(&root, Duration::ZERO);
    assert_eq!(facts.temperature_c, Some(51));
    assert_eq!(facts.power_limit_mw, Some(130_000));
    assert_eq!(Energy::read(&root, Duration::ZERO).map(|energy| energy.microjoules), Some(12));
}

/// Goal: no text makes a reader fail. Method: random pieces of the real files.
#[test]
fn prop_any_files_give_facts() {
    arbtest::arbtest(|u| {
        let pieces = ["cpu ", "1 ", "18446744073709551615 ", ":", "flags", "\n", "processor", "-"];
        let text = noise(u, &pieces)?;
        let info = CpuInfo::parse(&text);
        assert!(info.processors as usize <= text.lines().count());
        if let Some(times) = Times::parse(&text) {
            assert!(times.busy <= times.total);
        }
        let _any_count = allowed_processors(&text);
        if let Some(memory) = memory(&text, &Limits::default()) {
            assert!(memory.free_mib <= memory.total_mib);
        }
        Ok(())
    });
}
