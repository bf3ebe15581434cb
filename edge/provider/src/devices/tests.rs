//! Tests of the catalogue without any library: recorded trees and made-up devices.

use super::{
    Absence, Catalogue, Changes, DetectSettings, DeviceFacts, DeviceId, GivenOut, Kind, Memory,
    MigMode, NvidiaFault, Partition, Source, gpu_places, offered, printable,
};
use crate::root::Root;
use crate::testing::{Folder, fixture, noise};
use tg_types::node::DEVICES_MAX;
use tg_types::{MigSlices, Sharing};

fn settings(root: std::path::PathBuf) -> DetectSettings {
    DetectSettings { root, with_adapters: false, ..DetectSettings::default() }
}

fn gpu(id: &str, model: &str, total_mib: u32) -> DeviceFacts {
    let mut facts = DeviceFacts::new(DeviceId::new(id), Kind::Gpu, Source::Nvml);
    facts.model = model.to_owned();
    facts.memory = Some(Memory { total_mib, free_mib: total_mib });
    facts
}

fn part(id: &str, profile: &str, total_mib: u32) -> Partition {
    Partition {
        id: DeviceId::new(id),
        profile: profile.to_owned(),
        memory: Some(Memory { total_mib, free_mib: 0 }),
        multiprocessors: None,
    }
}

#[test]
fn machine_without_a_gpu_shows_its_processor_and_says_why() {
    let missing = std::path::PathBuf::from("/nowhere/libnvidia-ml.so.1");
    let catalogue = Catalogue::detect(&DetectSettings {
        nvml_library: Some(missing.clone()),
        with_adapters: !cfg!(feature = "wgpu"),
        ..settings(fixture("epyc-vm"))
    });
    let kinds: Vec<Kind> = catalogue.devices().iter().map(|facts| facts.kind).collect();
    assert_eq!(kinds, [Kind::Cpu]);
    let reasons: Vec<String> = catalogue.absences().iter().map(ToString::to_string).collect();
    let mut expected =
        vec!["no NVML library found: looked for /nowhere/libnvidia-ml.so.1".to_owned()];
    if !cfg!(feature = "wgpu") {
        expected.push("no Vulkan adapter: built without wgpu".to_owned());
    }
    assert_eq!(reasons, expected);
    let Some(Absence::Nvml(NvidiaFault::NoLibrary { said, .. })) = catalogue.absences().first()
    else {
        panic!("a missing library is a reason");
    };
    assert!(said.contains("libnvidia-ml.so.1"), "the loader's own words: {said}");
}

#[test]
fn library_is_looked_for_where_systems_keep_it() {
    let folder = Folder::new();
    let catalogue = Catalogue::detect(&settings(folder.path().to_owned()));
    // Machines with NVIDIA's driver have no such reason.
    if let Some(reason) = catalogue.absences().first() {
        assert!(reason.to_string().contains("libnvidia-ml.so.1"), "{reason}");
    }
}

#[test]
fn changes_name_what_came_went_and_was_resized() {
    let mut cut = gpu("b", "B", 10);
    cut.partitions = vec![part("p", "1g", 5)];
    let before = [gpu("a", "A", 10), cut.clone(), gpu("c", "C", 10)];
    cut.partitions = vec![part("q", "1g", 5)];
    let mut used = gpu("c", "C", 10);
    used.memory = Some(Memory { total_mib: 10, free_mib: 1 });
    let after = [cut, used, gpu("d", "D", 10)];
    let id = |text: &str| vec![DeviceId::new(text)];
    let expected = Changes { appeared: id("d"), gone: id("a"), resized: id("b") };
    assert_eq!(Changes::between(&before, &after), expected);
    assert!(Changes::between(&after, &after).is_empty());
}

#[test]
fn offered_devices_are_counted_by_model_and_memory() {
    let mut cut = gpu("c", "A100", 81_920);
    cut.mig = MigMode::On;
    cut.partitions = vec![
        part("1", "1g.10gb", 9_728),
        part("2", "1g.10gb", 9_728),
        part("3", "3g.40gb", 40_192),
    ];
    let mut empty = gpu("d", "A30", 24_576);
    empty.mig = MigMode::On;
    let mut software = gpu("e", "llvmpipe", 100);
    software.kind = Kind::Software;
    let mut accelerator = gpu("f", "NPU", 100);
    accelerator.kind = Kind::Accelerator;
    let mut untold = gpu("g", "Arc", 0);
    (untold.memory, untold.value_mib_max) = (None, Some(4_096));
    let mut unknown = gpu("h", "Mystery", 0);
    unknown.memory = None;
    let devices = [
        gpu("a", "RTX 4090", 24_564),
        gpu("b", "RTX 4090", 24_564),
        cut,
        empty,
        software,
        accelerator,
        untold,
        unknown,
    ];
    let shown = |with_software: bool| -> Vec<String> {
        offered(&devices, with_software, &GivenOut::default())
            .iter()
            .map(|device| format!("{} x {}, {} MiB", device.count, device.model, device.memory_mib))
            .collect()
    };
    let expected = [
        "2 x RTX 4090, 24564 MiB",
        "2 x A100 MIG 1g.10gb, 9728 MiB",
        "1 x A100 MIG 3g.40gb, 40192 MiB",
        "1 x Arc, 4096 MiB",
    ];
    assert_eq!(shown(false), expected);
    let software = "1 x software llvmpipe, 100 MiB".to_owned();
    assert!(shown(true).contains(&software) && shown(true).len() == expected.len() + 1);
    let models = |with_software: bool| -> Vec<String> {
        let (folder, whole) = (Folder::new(), GivenOut::default());
        let places = gpu_places(&devices, &Root::new(folder.path()), with_software, &whole);
        places.iter().map(|place| format!("{} = {}", place.model, place.name)).collect()
    };
    let whole = ["RTX 4090 = RTX 4090", "RTX 4090 = RTX 4090", "Arc = Arc", "Mystery = Mystery"];
    assert_eq!(models(false), whole, "parts cannot be opened by themselves");
    assert!(models(true).contains(&"software llvmpipe = llvmpipe".to_owned()));
}

#[test]
fn offered_devices_keep_the_bound_of_a_descriptor() {
    let devices: Vec<DeviceFacts> =
        (0..40).map(|number| gpu("x", &format!("model {number}"), 1)).collect();
    assert_eq!(offered(&devices, false, &GivenOut::default()).len(), DEVICES_MAX);
}

/// An A100 that is to be split and has a partition, an RTX 4090, and a GPU of another maker.
fn given_out() -> [DeviceFacts; 3] {
    let mut split = gpu("a", "A100", 81_920);
    split.mig = MigMode::On;
    split.partitions = vec![part("1", "1g.10gb", 9_728)];
    let mut other = gpu("c", "Arc", 16_384);
    other.source = Source::Wgpu;
    [split, gpu("b", "RTX 4090", 24_564), other]
}

/// Seven slices of the A100.
fn seven() -> GivenOut {
    let split = [(DeviceId::new("a"), MigSlices::Seven)].into();
    GivenOut { split, shares: false }
}

const SEVEN: Sharing = Sharing { mig: Some(MigSlices::Seven), shares: false };
const SHARES: Sharing = Sharing { mig: None, shares: true };

#[test]
fn device_is_given_out_as_its_owner_and_its_driver_allow() {
    let devices = given_out();
    let check = |how: &GivenOut, sharing: [Sharing; 3], in_parts: [bool; 3]| {
        assert_eq!(devices.each_ref().map(|facts| how.of(facts)), sharing);
        assert_eq!(devices.each_ref().map(|facts| how.is_in_parts(facts)), in_parts);
    };
    let whole = Sharing::WHOLE;
    check(&GivenOut::default(), [whole; 3], [true, false, false]);
    check(&seven(), [SEVEN, whole, whole], [false; 3]);
    // One that is split is not shared, and nothing limits shares of other makers' GPUs.
    check(&GivenOut { shares: true, ..seven() }, [SEVEN, SHARES, whole], [false; 3]);
}

#[test]
fn gpu_that_is_split_for_runs_is_offered_as_one_and_has_a_place() {
    let devices = given_out();
    let check = |how: &GivenOut, expected: &[(&str, u32, Sharing)]| {
        let root = Folder::new();
        let places = gpu_places(&devices, &Root::new(root.path()), false, how);
        let places = places.iter().map(|it| (it.model.as_str(), it.memory_mib, it.sharing));
        assert_eq!(places.collect::<Vec<_>>(), expected);
        let offers = offered(&devices, false, how);
        let offers = offers.iter().map(|it| (it.model.as_str(), it.memory_mib, it.sharing));
        assert_eq!(offers.collect::<Vec<_>>(), expected, "offers and places are found by these");
    };
    let whole = Sharing::WHOLE;
    let rest = [("RTX 4090", 24_564, whole), ("Arc", 16_384, whole)];
    check(&seven(), &[("A100", 81_920, SEVEN), rest[0], rest[1]]);
    let shared = ("RTX 4090", 24_564, SHARES);
    let how = GivenOut { shares: true, ..seven() };
    check(&how, &[("A100", 81_920, SEVEN), shared, rest[1]]);
}

#[test]
fn prop_any_model_becomes_a_name() {
    arbtest::arbtest(|u| {
        let text = noise(u, &["NVIDIA", " ", "\t", "é", "(R)", "\u{0}", "xxxxxxxxxxxxxxxxxxxx"])?;
        let name = printable(&text);
        assert!(!name.as_str().is_empty());
        Ok(())
    });
    assert_eq!(printable("  Intel(R)\tArc™  A770 ").as_str(), "Intel(R) Arc A770");
    assert_eq!(printable("™").as_str(), "unknown");
}
