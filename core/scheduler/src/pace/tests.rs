//! What is learned of times, by whom, and how slowly it moves.

use super::{CLASSES_MAX, DeviceClass, FLOOR, Forecast, Lesson, Level, MOVE_MAX, VOICES_MAX};
use crate::catalogue::UNLISTED;
use tg_types::{AccountId, Decode as _, DeviceKind, DurationMs, Encode as _};

const GPU: DeviceClass = DeviceClass { kind: DeviceKind::Gpu, model: 3 };

fn owner(number: u8) -> AccountId {
    AccountId::new([number + 10; 32]).expect("not a small-order key")
}

fn seconds(count: u64) -> DurationMs {
    DurationMs::new(count * 1_000)
}

fn level(count: u64) -> Level {
    Level::of(seconds(count), 1_000_000)
}

/// What is expected after these runs of a million units, in seconds.
fn expected(runs: &[(u8, u64)]) -> u64 {
    let mut lesson = Lesson::default();
    runs.iter().for_each(|(number, took)| lesson.learn(GPU, &owner(*number), level(*took)));
    Forecast::new(1_000_000, [&lesson]).on(GPU).expect("tried").get() / 1_000
}

#[test]
fn times_are_proportional_to_work_and_no_shorter_than_can_be_told() {
    for work in [1, 999, 1 << 20, u64::MAX / 2] {
        for time in [4, 10, 60, 3_600, 86_400] {
            let back = Level::of(seconds(time), work).time(work).get() / 1_000;
            assert!(back.abs_diff(time) <= 1 + time / 30, "{work} {time} {back}");
        }
    }
    let level = Level::of(seconds(10), 1_000);
    assert!(level.time(3_000).get().abs_diff(30_000) < 1_000);
    assert_eq!((level.time(1), level.time(0)), (FLOOR, FLOOR));
}

#[test]
fn one_owner_has_one_voice_and_the_one_in_the_middle_is_believed() {
    let honest: Vec<(u8, u64)> = (1..=4).map(|number| (number, 20)).collect();
    assert!((19..=21).contains(&expected(&honest)));
    for lie in [4, 8_000] {
        let lies = (0..50).map(|_| (9, lie));
        let told: Vec<_> = honest.iter().copied().chain(lies).collect();
        assert!((19..=21).contains(&expected(&told)), "{lie}");
    }
    // Of two the faster one is believed.
    assert!((19..=21).contains(&expected(&[(1, 20), (2, 9_000)])));
}

#[test]
fn owner_moves_its_own_voice_by_a_small_step() {
    let before = level(20).sixteenths;
    let mut lesson = Lesson::default();
    lesson.learn(GPU, &owner(1), level(20));
    lesson.learn(GPU, &owner(1), level(8_000));
    let found = lesson.classes.as_slice()[0].level().expect("one was heard").sixteenths;
    assert_eq!(found, before + MOVE_MAX);
}

#[test]
fn whoever_was_not_heard_for_longest_makes_room() {
    let mut lesson = Lesson::default();
    for number in 0..20 {
        lesson.learn(GPU, &owner(number), level(20));
    }
    let voices = lesson.classes.as_slice()[0].voices.as_slice();
    assert_eq!(voices.len(), VOICES_MAX);
    for model in 100..140 {
        lesson.learn(DeviceClass { model, ..GPU }, &owner(1), level(20));
        lesson.learn(DeviceClass { model: 99, ..GPU }, &owner(1), level(20));
    }
    let known = lesson.classes.as_slice();
    assert_eq!(known.len(), CLASSES_MAX);
    assert!(known.iter().any(|it| it.class.model == 99), "it was heard all the time");
    assert!(!known.iter().any(|it| it.class == GPU));
}

#[test]
fn finer_lessons_go_before_coarser_ones() {
    let (mut fine, mut coarse) = (Lesson::default(), Lesson::default());
    let other = DeviceClass { kind: DeviceKind::Cpu, model: UNLISTED };
    fine.learn(GPU, &owner(1), level(20));
    coarse.learn(GPU, &owner(1), level(500));
    coarse.learn(other, &owner(1), level(80));
    let forecast = Forecast::new(1_000_000, [&fine, &coarse]);
    let near = |class, time: u64| {
        let found = forecast.on(class).expect("tried").get() / 1_000;
        found.abs_diff(time) <= 3
    };
    assert!(near(GPU, 20) && near(other, 80), "{forecast:?}");
    let anywhere = forecast.anywhere().expect("known").get() / 1_000;
    assert!(anywhere.abs_diff(40) <= 2, "{anywhere}");
    assert_eq!(Forecast::default().anywhere(), None);
    let told = Forecast::new(1_000_000, [&fine]).with_told(1_000_000, &coarse);
    assert_eq!((told.on(GPU), told.on(other)), (forecast.on(GPU), forecast.on(other)));
    assert_eq!((told.paces().of(GPU), told.paces().of(other)), (0, 0), "told, not counted");
    // One owner's word counts for an octave at most.
    let paces = forecast.paces();
    assert_eq!((paces.of(GPU), paces.of(other)), (4, -4));
    assert_eq!(paces.of(DeviceClass { model: 77, ..GPU }), 0, "not tried: in the middle");
}

#[test]
fn what_few_say_counts_for_little() {
    let steps = |owners: u8| {
        let mut lesson = Lesson::default();
        for number in 0..owners {
            lesson.learn(GPU, &owner(number), level(10));
            lesson.learn(DeviceClass { model: 9, ..GPU }, &owner(number), level(10_000));
        }
        Forecast::new(1_000_000, [&lesson]).paces().of(GPU)
    };
    assert_eq!([1, 2, 3, 8].map(steps), [4, 6, 8, 8]);
}

/// Goal: whatever is learned has one form and stays within its bounds. Method: random runs.
#[test]
fn prop_lessons_are_bounded_and_have_one_form() {
    arbtest::arbtest(|u| {
        let mut lesson = Lesson::default();
        for _ in 0..u.int_in_range(0..=60)? {
            let class = DeviceClass { kind: DeviceKind::Gpu, model: u.int_in_range(0..=30)? };
            let (took, work) = (DurationMs::new(u.arbitrary()?), u.arbitrary()?);
            lesson.learn(class, &owner(u.int_in_range(0..=20)?), Level::of(took, work));
        }
        let bytes = lesson.to_bytes();
        assert!(bytes.len() <= 4 + CLASSES_MAX * (6 + 10 * VOICES_MAX));
        assert_eq!(Lesson::from_bytes(&bytes), Ok(lesson.clone()));
        let forecast = Forecast::new(u.arbitrary()?, [&lesson]);
        let paces = forecast.paces();
        for pace in lesson.classes.as_slice() {
            assert!(forecast.on(pace.class).is_some_and(|time| time >= FLOOR));
            assert!((-8..=8).contains(&paces.of(pace.class)));
        }
        Ok(())
    });
}
