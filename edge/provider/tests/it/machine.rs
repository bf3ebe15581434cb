//! The machine that runs the tests: whatever it is, its processor is found and nothing is invented.

use tg_provider::devices::{Catalogue, DetectSettings, Kind, findings};
use tg_provider::hours::Zone;
use tg_provider::idle::{IdleRules, IdleSampler, IdleWatch, Idleness};

#[test]
fn this_machine_has_a_processor_with_memory() {
    let settings =
        DetectSettings { work_folder: Some(std::env::temp_dir()), ..DetectSettings::default() };
    let mut catalogue = Catalogue::detect(&settings);
    assert!(catalogue.refresh().is_empty(), "nothing comes or goes between two readings");
    let processor = catalogue.devices().first().expect("the processor is first");
    assert_eq!((processor.kind, processor.id.as_str()), (Kind::Cpu, "cpu:0"));
    assert!(processor.memory.is_some_and(|memory| memory.total_mib > 0));
    assert!(processor.processors_milli.is_some_and(|milli| milli > 0));
    assert!(!catalogue.offered().is_empty());
    let has_gpu = catalogue.devices().iter().any(|facts| facts.kind == Kind::Gpu);
    assert!(has_gpu || !catalogue.absences().is_empty(), "no GPU, and no reason");
    for finding in findings(&catalogue) {
        assert!(!finding.what.is_empty() && !finding.fix.is_empty());
    }
}

#[test]
fn this_machine_is_not_idle_at_first_sight() {
    let catalogue = Catalogue::detect(&DetectSettings::default());
    let mut sampler = IdleSampler::new(&catalogue);
    let mut watch = IdleWatch::new(IdleRules::default());
    for _ in 0..2 {
        let verdict = watch.step(&sampler.sample(&catalogue));
        assert_ne!(verdict, Idleness::Idle);
    }
}

#[test]
fn this_machine_knows_its_time_of_the_week() {
    let zone = Zone::read(std::path::Path::new("/")).expect("a zone, or UTC");
    assert!(zone.week_minute(1_768_478_400).is_ok());
}
