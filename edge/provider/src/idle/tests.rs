//! Tests of idleness: the decision on made-up samples, the samplers on made-up files.

use super::{IdleRules, IdleSample, IdleSampler, IdleWatch, Idleness, Usage};
use crate::devices::{Catalogue, DetectSettings, Percent};
use crate::root::Root;
use crate::testing::Folder;
use std::collections::BTreeSet;
use std::time::Duration;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn sample(at: u64, cpu: u64) -> IdleSample {
    let cpu = Some(Percent::capped(cpu));
    IdleSample { at: seconds(at), cpu, gpu: None, input_age: None }
}

/// A watch that has found the machine idle at 1,000 s.
fn idle() -> IdleWatch {
    let mut watch = IdleWatch::new(IdleRules::default());
    watch.step(&sample(0, 0));
    assert_eq!(watch.step(&sample(1_000, 0)), Idleness::Idle);
    watch
}

#[test]
fn machine_is_idle_after_a_quiet_while() {
    let mut watch = IdleWatch::new(IdleRules::default());
    assert_eq!(watch.verdict(), Idleness::Unknown);
    assert_eq!(watch.step(&sample(0, 5)), Idleness::Settling);
    assert_eq!(watch.step(&sample(119, 5)), Idleness::Settling);
    assert_eq!(watch.step(&sample(120, 5)), Idleness::Idle);
}

#[test]
fn short_load_does_not_end_idleness_but_lasting_load_does() {
    let mut watch = idle();
    assert_eq!(watch.step(&sample(1_001, 90)), Idleness::Idle);
    assert_eq!(watch.step(&sample(1_009, 90)), Idleness::Idle);
    assert_eq!(watch.step(&sample(1_010, 5)), Idleness::Idle);
    assert_eq!(watch.step(&sample(1_020, 90)), Idleness::Idle);
    assert_eq!(watch.step(&sample(1_030, 90)), Idleness::Cpu);
    // Back below the high mark it is still not quiet, then it has to stay quiet.
    assert_eq!(watch.step(&sample(1_031, 20)), Idleness::Cpu);
    assert_eq!(watch.step(&sample(1_032, 10)), Idleness::Settling);
    assert_eq!(watch.step(&sample(1_100, 20)), Idleness::Settling);
    assert_eq!(watch.step(&sample(1_152, 10)), Idleness::Settling);
    assert_eq!(watch.step(&sample(1_272, 10)), Idleness::Idle);
}

#[test]
fn load_between_the_marks_changes_nothing() {
    let mut watch = idle();
    for at in 1_001..3_000 {
        assert_eq!(watch.step(&sample(at, 24)), Idleness::Idle);
    }
}

#[test]
fn person_ends_idleness_at_once() {
    let mut watch = idle();
    let touched = IdleSample { input_age: Some(seconds(299)), ..sample(1_001, 0) };
    assert_eq!(watch.step(&touched), Idleness::Input);
    let left = IdleSample { input_age: Some(seconds(300)), ..sample(1_002, 0) };
    assert_eq!(watch.step(&left), Idleness::Settling);
}

#[test]
fn busy_gpu_counts_as_a_busy_processor_does() {
    let mut watch = idle();
    for (at, expected) in [(1_001, Idleness::Idle), (1_011, Idleness::Gpu)] {
        let playing = IdleSample { gpu: Some(Percent::capped(80)), ..sample(at, 30) };
        assert_eq!(watch.step(&playing), expected);
    }
}

#[test]
fn machine_that_cannot_be_seen_is_never_idle() {
    let mut watch = idle();
    let blind = IdleSample { cpu: None, ..sample(1_001, 0) };
    assert_eq!(watch.step(&blind), Idleness::Unknown);
    assert_eq!(watch.step(&IdleSample { at: seconds(9_000), ..blind }), Idleness::Unknown);
}

/// Goal: idle means quiet for long enough, and time running backwards breaks nothing.
/// Method: random samples beside a history of them.
#[test]
fn prop_idleness_begins_only_after_quiet() {
    arbtest::arbtest(|u| {
        let rules = IdleRules::default();
        let mut watch = IdleWatch::new(rules);
        let mut quiet_since = None;
        let mut clock = 0_u64;
        for _ in 0..u.int_in_range(1..=60)? {
            let before = watch.verdict();
            let at = clock.saturating_add(u.int_in_range(0..=60)?).saturating_sub(5);
            clock = clock.max(at);
            let percent = |u: &mut arbtest::arbitrary::Unstructured<'_>| {
                u.int_in_range(0..=30_u64).map(Percent::capped)
            };
            let seen = IdleSample {
                at: seconds(at),
                cpu: if u.ratio(9, 10)? { Some(percent(u)?) } else { None },
                gpu: if u.ratio(1, 2)? { Some(percent(u)?) } else { None },
                input_age: if u.ratio(1, 8)? {
                    Some(seconds(u.int_in_range(0..=600)?))
                } else {
                    None
                },
            };
            let is_quiet = seen.cpu.max(seen.gpu).is_none_or(|load| load <= rules.quiet_to)
                && seen.input_age.is_none_or(|age| age >= rules.input_after)
                && (seen.cpu.is_some() || seen.gpu.is_some() || seen.input_age.is_some());
            if is_quiet {
                quiet_since.get_or_insert(clock);
            } else {
                quiet_since = None;
            }
            let verdict = watch.step(&seen);
            if verdict == Idleness::Idle && before != Idleness::Idle {
                let since = quiet_since.expect("idleness begins when it is quiet");
                assert!(seconds(clock - since) >= rules.idle_after);
            }
            if seen.input_age.is_some_and(|age| age < rules.input_after) {
                assert_eq!(verdict, Idleness::Input);
            }
        }
        Ok(())
    });
}

fn stat_line(pid: u32, parent: u32, ticks: u64) -> String {
    format!("{pid} (x) S {parent} 1 1 0 -1 4194304 9 8 7 6 {ticks} 0 0 0 20 0 1 0 100\n")
}

#[test]
fn load_of_others_is_without_our_own_processes() {
    let folder = Folder::new();
    let root = Root::new(folder.path());
    let own = BTreeSet::from([50]);
    let read = |busy: u64, idle: u64, ours: u64| {
        folder.write("proc/stat", format!("cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\n"));
        folder.write("proc/50/stat", stat_line(50, 1, 7));
        folder.write("proc/51/stat", stat_line(51, 50, ours));
        folder.write("proc/60/stat", stat_line(60, 1, 999));
        Usage::read(&root, &own).expect("the files are there")
    };
    let before = read(1_000, 1_000, 100);
    let after = read(1_080, 1_020, 150);
    assert_eq!(after.others_since(before), Some(Percent::capped(30)));
    let all_ours = read(1_080, 1_020, 900);
    assert_eq!(all_ours.others_since(before), Some(Percent::ZERO));
    // One of ours has ended: its time is others' for once.
    let ended = read(1_080, 1_020, 0);
    assert_eq!(ended.others_since(before), Some(Percent::capped(80)));
    assert_eq!(before.others_since(after), None);
}

#[test]
fn sampler_knows_the_processor_from_the_second_sample_on() {
    let folder = Folder::new();
    folder.write("proc/stat", "cpu  10 0 0 10 0 0 0 0 0 0\n");
    let settings = DetectSettings {
        root: folder.path().to_owned(),
        nvml_library: Some(folder.path().join("none.so")),
        with_adapters: false,
        ..DetectSettings::default()
    };
    let catalogue = Catalogue::detect(&settings);
    let mut sampler = IdleSampler::new(&catalogue);
    let first = sampler.sample(&catalogue);
    assert_eq!((first.cpu, first.gpu, first.input_age), (None, None, None));
    folder.write("proc/stat", "cpu  20 0 0 20 0 0 0 0 0 0\n");
    let second = sampler.sample(&catalogue);
    assert_eq!(second.cpu, Some(Percent::capped(50)));
    assert!(second.at >= first.at);
}
