//! Sharing against an independent model of what NVIDIA's tools print.

use super::{Device, Fraction, Gpu, Modes, Profile, STEPS, Take, profiles};
use crate::catalogue::Split;
use crate::packing::GPU_MILLI;

/// Name, compute slices, memory slices and allowed places, as `nvidia-smi mig -lgipp` prints them.
type Row = (&'static str, u8, u8, &'static [u8]);

const A100: &[Row] = &[
    ("1g.5gb", 1, 1, &[0, 1, 2, 3, 4, 5, 6]),
    ("1g.10gb", 1, 2, &[0, 2, 4, 6]),
    ("2g.10gb", 2, 2, &[0, 2, 4]),
    ("3g.20gb", 3, 4, &[0, 4]),
    ("4g.20gb", 4, 4, &[0]),
    ("7g.40gb", 7, 8, &[0]),
];
const A30: &[Row] =
    &[("1g.6gb", 1, 1, &[0, 1, 2, 3]), ("2g.12gb", 2, 2, &[0, 2]), ("4g.24gb", 4, 4, &[0])];

/// A GPU as a list of partitions, with nothing but the printed rules.
struct Printed {
    rows: &'static [Row],
    slices: [u8; 2],
    held: Vec<(Row, u8)>,
}

impl Printed {
    fn is_free(&self, row: Row, start: u8) -> bool {
        let (_, compute, memory, places) = row;
        let used: u8 = self.held.iter().map(|((_, compute, _, _), _)| compute).sum();
        let apart = |other: &(Row, u8)| start >= other.1 + other.0.2 || start + memory <= other.1;
        let [all_compute, all_memory] = self.slices;
        places.contains(&start)
            && start + memory <= all_memory
            && used + compute <= all_compute
            && self.held.iter().all(apart)
    }

    fn has_room(&self, row: Row) -> bool {
        (0..8).any(|start| self.is_free(row, start))
    }
}

fn row_of(rows: &'static [Row], profile: Profile) -> Row {
    let same = |row: &&Row| (row.1, row.2) == (profile.compute, profile.memory);
    *rows.iter().find(same).expect("a printed profile")
}

#[test]
fn profiles_are_those_that_are_printed() {
    for (split, rows) in [(Split::Mig7, A100), (Split::Mig4, A30)] {
        let ours: Vec<(u8, u8, Vec<u8>)> = profiles(split)
            .iter()
            .map(|it| (it.compute, it.memory, it.starts().collect()))
            .collect();
        let printed: Vec<(u8, u8, Vec<u8>)> =
            rows.iter().map(|row| (row.1, row.2, row.3.to_vec())).collect();
        assert_eq!(ours, printed);
    }
}

/// Goal: no sequence of requests breaks a placement rule, and none is refused that could be served.
/// Method: random requests and returns, beside a model that knows the printed rules only.
#[test]
fn prop_partitions_obey_the_printed_rules() {
    arbtest::arbtest(|u| {
        let is_seven = u.ratio(1, 2)?;
        let (split, rows, slices) =
            if is_seven { (Split::Mig7, A100, [7, 8]) } else { (Split::Mig4, A30, [4, 4]) };
        let mut printed = Printed { rows, slices, held: Vec::new() };
        let mut gpu = Gpu::FREE;
        let mut held: Vec<(Profile, u8)> = Vec::new();
        for _ in 0..u.int_in_range(0..=60)? {
            if !held.is_empty() && u.ratio(2, 5)? {
                let at = u.choose_index(held.len())?;
                let (profile, start) = held.swap_remove(at);
                printed.held.swap_remove(at);
                gpu = gpu.without(Take::Part(profile), start).expect("it was taken");
            } else {
                let profile = *u.choose(profiles(split))?;
                let row = row_of(printed.rows, profile);
                match gpu.with(Take::Part(profile), split) {
                    Some((with, start)) => {
                        assert!(printed.is_free(row, start), "{} at {start}", row.0);
                        printed.held.push((row, start));
                        held.push((profile, start));
                        gpu = with;
                    }
                    None => assert!(!printed.has_room(row), "{} has room", row.0),
                }
            }
            assert_eq!(gpu == Gpu::FREE, held.is_empty());
            // A GPU in partitions is given to nobody as a whole or beside others.
            let others = [Take::Whole(1), Take::Share(1)];
            let given = others.into_iter().any(|take| gpu.with(take, split).is_some());
            assert_eq!(given, held.is_empty());
        }
        Ok(())
    });
}

#[test]
fn a100_splits_into_seven_and_no_more() {
    let device = Device { split: Split::Mig7, modes: Modes::MIG, memory_mib: 81_920 };
    let take = device.take(Fraction { milli: 100, memory_mib: 8_000, may_share: false });
    let Take::Part(profile) = take else { panic!("{take:?}") };
    assert_eq!((profile.compute, profile.memory), (1, 1));
    let mut gpu = Gpu::FREE;
    for left in (0..7_u16).rev() {
        gpu = gpu.with(take, Split::Mig7).expect("room").0;
        assert_eq!(gpu.left_milli(Split::Mig7), GPU_MILLI * left / 7);
    }
    assert_eq!(gpu.with(take, Split::Mig7), None);
}

#[test]
fn small_partition_leaves_room_for_large_ones() {
    let [one, _, _, three, four, ..] = profiles(Split::Mig7) else { panic!("six profiles") };
    let (gpu, start) = Gpu::FREE.with(Take::Part(*one), Split::Mig7).expect("room");
    assert_eq!(start, 6);
    let (gpu, _) = gpu.with(Take::Part(*four), Split::Mig7).expect("room for the largest");
    assert_eq!(gpu.with(Take::Part(*three), Split::Mig7), None);
    assert_eq!(gpu.left_milli(Split::Mig7), GPU_MILLI * 2 / 7);
}

#[test]
fn fraction_takes_the_smallest_part_that_both_sides_allow() {
    let all = Modes::MIG.with(Modes::MPS);
    let check = |modes, milli, memory_mib, may_share, expected: &str| {
        let device = Device { split: Split::Mig7, modes, memory_mib: 40_960 };
        let take = match device.take(Fraction { milli, memory_mib, may_share }) {
            Take::None => "none".to_owned(),
            Take::Whole(count) => format!("{count}"),
            Take::Part(profile) => format!("{}g of {}", profile.compute, profile.memory),
            Take::Share(steps) => format!("{steps}/20"),
        };
        assert_eq!(take, expected);
    };
    check(all, 100, 1_000, false, "1g of 1");
    check(all, 100, 1_000, true, "2/20");
    check(all, 100, 20_000, true, "11/20");
    check(all, 100, 9_000, false, "1g of 2");
    check(all, 200, 9_000, false, "2g of 2");
    check(all, 400, 1_000, false, "3g of 4");
    check(all, 500, 1_000, false, "4g of 4");
    check(all, 600, 1_000, false, "1");
    check(all, 990, 1_000, true, "1");
    check(Modes::WHOLE, 100, 1_000, true, "1");
    check(Modes::MPS, 100, 1_000, false, "1");
    check(Modes::TIME, 0, 0, true, "1/20");
}

/// Goal: shares never exceed the GPU, and what is given back is what was taken.
#[test]
fn prop_shares_stay_within_the_gpu() {
    arbtest::arbtest(|u| {
        let (mut gpu, mut held) = (Gpu::FREE, Vec::new());
        for _ in 0..u.int_in_range(0..=40)? {
            if !held.is_empty() && u.ratio(1, 2)? {
                let steps = held.swap_remove(u.choose_index(held.len())?);
                gpu = gpu.without(Take::Share(steps), 0).expect("it was taken");
            } else {
                let steps = u.int_in_range(1..=STEPS)?;
                let sum: u8 = held.iter().sum::<u8>() + steps;
                let with = gpu.with(Take::Share(steps), Split::None);
                assert_eq!(with.is_some(), sum <= STEPS);
                if let Some((with, _)) = with {
                    gpu = with;
                    held.push(steps);
                }
            }
            let sum: u16 = held.iter().map(|steps| u16::from(*steps)).sum();
            assert_eq!(gpu.left_milli(Split::None), GPU_MILLI - sum * 50);
            assert_eq!(gpu.without(Take::Whole(1), 0), None);
        }
        Ok(())
    });
}
