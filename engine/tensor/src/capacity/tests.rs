//! Filling, opening and lying.

use super::opening::OPENING_BYTES_MAX;
use super::{
    BLOCK_BYTES, BLOCKS_MAX, BLOCKS_MIN, Blocks, CapacityError, Filled, Opening, Place, Plan,
    SEEDED, check, fill, fill_by, leaf, levels,
};
use crate::kernels::{Path, Square};
use tg_types::Hash32;
use tg_types::codec::{Decode, Encode};

fn seed(number: u8) -> Hash32 {
    Hash32::new([number; 32])
}

fn plan(number: u8, blocks: u32) -> Plan {
    Plan::new(seed(number), blocks).expect("a number of blocks that is allowed")
}

/// All blocks of a memory on the host.
fn blocks_of(filled: &Filled) -> &[Square] {
    match &filled.blocks {
        Blocks::Host(blocks) => blocks,
        #[cfg(feature = "wgpu")]
        Blocks::Device(_) => unreachable!("filled by the processor"),
    }
}

/// The block by its meaning: one sum after the other.
fn naive(before: &[u8; BLOCK_BYTES], other: &[u8; BLOCK_BYTES]) -> [u8; BLOCK_BYTES] {
    let hash = *leaf(before).as_bytes();
    std::array::from_fn(|at| {
        let (row, column) = (at / 32, at % 32);
        let term = |k: usize| {
            let (x, w) = (before[row * 32 + k].cast_signed(), other[k * 32 + column].cast_signed());
            i64::from(x) * i64::from(w)
        };
        let sum: i64 = (0..32).map(term).sum();
        let rounded = (sum + 256).div_euclid(512).clamp(-128, 127);
        let byte = i8::try_from(rounded).expect("saturated").cast_unsigned();
        byte ^ other[at] ^ hash[(row + column) % 32]
    })
}

/// Goal: both paths and any number of threads fill with the same bits, and these are what the
/// definition says. Method: every block is computed again, one sum after the other.
#[test]
fn fill_is_what_the_definition_says_on_every_path() {
    for (number, blocks) in [(1, BLOCKS_MIN), (2, 2 * BLOCKS_MIN)] {
        let plan = plan(number, blocks);
        let filled = fill_by(Path::Portable, &plan, 1).expect("a little memory");
        for (path, threads) in [(Path::Avx2, 1), (Path::Avx2, 3), (Path::Portable, 0)] {
            let again = fill_by(path, &plan, threads).expect("a little memory");
            assert!(blocks_of(&again) == blocks_of(&filled) && again.root() == filled.root());
        }
        for (index, block) in blocks_of(&filled).iter().enumerate() {
            let place = plan.place_of(index);
            assert_eq!(plan.index_of(place), index);
            let Some(before) = plan.before(place) else {
                assert!(place.slice == 0 && place.step < SEEDED);
                continue;
            };
            let other = plan.other(place, &leaf(&blocks_of(&filled)[before]));
            assert!(other != before || place.step == 0);
            assert!(other < index, "a block reads what was there before");
            let expected = naive(&blocks_of(&filled)[before], &blocks_of(&filled)[other]);
            assert!(*block == expected, "block {index}");
        }
    }
}

/// Goal: the extremes of the arithmetic come out alike on both paths. Method: squares of the
/// largest and smallest numbers, and random ones.
#[test]
fn prop_chain_is_naive_on_every_path() {
    let check = |before: &[u8; BLOCK_BYTES], other: &[u8; BLOCK_BYTES]| {
        let expected = naive(before, other);
        for path in [Path::Portable, Path::Avx2] {
            let mut out = [0; BLOCK_BYTES];
            crate::kernels::chain(path, before, other, leaf(before).as_bytes(), &mut out);
            assert!(out == expected);
        }
    };
    for (a, b) in [(0x80, 0x80), (0x80, 0x7f), (0x7f, 0x7f), (0, 0x80), (0xff, 1)] {
        check(&[a; BLOCK_BYTES], &[b; BLOCK_BYTES]);
    }
    arbtest::arbtest(|u| {
        let (mut before, mut other) = ([0; BLOCK_BYTES], [0; BLOCK_BYTES]);
        u.fill_buffer(&mut before)?;
        u.fill_buffer(&mut other)?;
        check(&before, &other);
        Ok(())
    });
}

/// The chain must not run dry: products saturate and round, and a memory that repeats itself need
/// not be kept.
#[test]
fn filled_blocks_are_all_different_and_look_random() {
    let filled = fill(seed(3), BLOCKS_MIN, 1).expect("a little memory");
    let mut leaves: Vec<[u8; 32]> = filled.levels[0].iter().map(|it| *it.as_bytes()).collect();
    leaves.sort_unstable();
    leaves.dedup();
    assert_eq!(leaves.len(), blocks_of(&filled).len());
    let ones: u32 = blocks_of(&filled).iter().flatten().map(|byte| byte.count_ones()).sum();
    let bits = u32::try_from(blocks_of(&filled).len() * BLOCK_BYTES * 8).expect("8 million");
    assert!(ones.abs_diff(bits / 2) < bits / 500, "{ones} of {bits}");
    let mut counts = [0_u32; 256];
    blocks_of(&filled).iter().flatten().for_each(|byte| counts[usize::from(*byte)] += 1);
    let mean = bits / 8 / 256;
    assert!(counts.iter().all(|count| count.abs_diff(mean) < mean / 10), "{counts:?}");
}

#[test]
fn opening_of_every_block_is_believed_and_small() {
    let (plan, filled) = (plan(4, BLOCKS_MIN), fill(seed(4), BLOCKS_MIN, 2).expect("memory"));
    let root = filled.root();
    for place in 0..BLOCKS_MIN {
        let opening = filled.open(place).expect("a block");
        assert_eq!(check(&plan, &root, place, &opening), Ok(()));
        let bytes = opening.to_bytes();
        assert!(bytes.len() <= OPENING_BYTES_MAX);
        assert_eq!(Opening::from_bytes(&bytes), Ok(opening));
    }
    let blocks = BLOCKS_MIN;
    let missing = CapacityError::Place { place: blocks, blocks };
    assert_eq!(filled.open(blocks), Err(missing.clone()));
    let opening = filled.open(0).expect("a block");
    assert_eq!(check(&plan, &root, blocks, &opening), Err(missing));
}

const _: () = assert!(OPENING_BYTES_MAX < 6 * 1024);
const _: () = assert!(3 * OPENING_BYTES_MAX < 14 * 1024);

/// Goal: an opening fits one seed, root, place and nothing else. Method: every part is changed.
#[test]
fn prop_opening_that_was_changed_is_not_believed() {
    let (plan_here, filled) = (plan(5, BLOCKS_MIN), fill(seed(5), BLOCKS_MIN, 2).expect("memory"));
    let root = filled.root();
    let other_plan = plan(6, BLOCKS_MIN);
    arbtest::arbtest(|u| {
        let place = u.int_in_range(0..=BLOCKS_MIN - 1)?;
        let opening = filled.open(place).expect("a block");
        let next = (place + 1) % BLOCKS_MIN;
        assert!(check(&plan_here, &root, next, &opening).is_err(), "another place");
        assert!(check(&plan_here, &seed(7), place, &opening).is_err(), "another root");
        let larger = plan(5, 2 * BLOCKS_MIN);
        assert!(check(&larger, &root, place, &opening).is_err(), "another size");
        if opening.inputs.is_none() {
            assert!(check(&other_plan, &root, place, &opening).is_err(), "another seed");
        }
        let mut bytes = opening.to_bytes();
        let at = u.choose_index(bytes.len())?;
        bytes[at] ^= 1 << u.int_in_range(0..=7)?;
        let changed = Opening::from_bytes(&bytes);
        assert!(
            changed.is_err()
                || changed.is_ok_and(|it| check(&plan_here, &root, place, &it).is_err())
        );
        bytes.truncate(at);
        assert!(Opening::from_bytes(&bytes).is_err(), "cut off");
        Ok(())
    });
}

/// Goal: a memory with one false block under an honest tree is found out at that block, and at
/// every block that reads it. Method: a block is changed and the tree built anew.
#[test]
fn false_block_does_not_open_and_neither_does_what_reads_it() {
    let plan = plan(8, BLOCKS_MIN);
    let mut filled = fill(seed(8), BLOCKS_MIN, 2).expect("memory");
    let lie = plan.index_of(Place { slice: 1, lane: 3, step: 5 });
    let mut blocks = blocks_of(&filled).to_vec();
    blocks[lie] = [7; BLOCK_BYTES];
    filled.levels = levels(blocks.iter().map(leaf).collect());
    filled.blocks = Blocks::Host(blocks);
    let root = filled.root();
    let judge = |index: usize| {
        let place = u32::try_from(index).expect("small");
        check(&plan, &root, place, &filled.open(place).expect("a block"))
    };
    let place = u32::try_from(lie).expect("small");
    assert_eq!(judge(lie), Err(CapacityError::Path { place }));
    assert!(judge(lie + 1).is_err(), "the next one reads it");
    assert_eq!(judge(lie - 1), Ok(()));
}

#[test]
fn inputs_that_do_not_belong_are_refused() {
    let (plan, filled) = (plan(9, BLOCKS_MIN), fill(seed(9), BLOCKS_MIN, 1).expect("memory"));
    let root = filled.root();
    let seeded = filled.open(0).expect("a block");
    let last = filled.open(BLOCKS_MIN - 1).expect("a block");
    let with = Opening { inputs: last.inputs.clone(), ..seeded };
    assert_eq!(check(&plan, &root, 0, &with), Err(CapacityError::Inputs { place: 0 }));
    let place = BLOCKS_MIN - 1;
    let without = Opening { inputs: None, ..last.clone() };
    assert_eq!(check(&plan, &root, place, &without), Err(CapacityError::Inputs { place }));
    let mut long = last.clone();
    long.path.push(seed(0));
    assert_eq!(check(&plan, &root, place, &long), Err(CapacityError::Path { place }));
    let mut short = last;
    short.path.pop();
    assert_eq!(check(&plan, &root, place, &short), Err(CapacityError::Path { place }));
}

#[test]
fn blocks_in_a_number_that_is_not_allowed_are_refused() {
    for found in [0, 1, BLOCKS_MIN - 1, BLOCKS_MIN / 2, BLOCKS_MIN + 1, 2 * BLOCKS_MAX, u32::MAX] {
        assert_eq!(fill(seed(1), found, 1).err(), Some(CapacityError::Blocks { found }));
    }
    assert!(Plan::new(seed(1), BLOCKS_MAX).is_ok());
}

#[test]
fn root_of_a_seed_never_changes() {
    let root = fill(seed(1), BLOCKS_MIN, 0).expect("memory").root();
    expect_test::expect!["a8bfcbdaffb0ce1ca89af00fbe7aaf2130ecbf980da27337ab8752104082b95c"]
        .assert_eq(&root.to_string());
}
