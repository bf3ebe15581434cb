//! Tests of audits by tiles.

use super::testing::{Lie, Ran, Random, inputs, perceptron};
use super::{
    Knower, ShownTile, ShownTiles, TileAudit, TileAuditError, TilePlace, TilePlaces, Trace,
    answer_of, check_answer, check_whole, drawn_tiles, known_root, tile_counts, whole_answer,
};
use crate::commit::{Salt, TILE};
use crate::program::Program;
use crate::tensor::Tensor;
use std::collections::BTreeMap;
use tg_types::codec::{Decode, Encode};
use tg_types::job::TILE_ANSWER_BYTES_MAX;
use tg_types::{Bytes, Hash32, List, NodeId, TileLot};

fn lot(number: u64, tiles: u8) -> TileLot {
    TileLot { lot: some_hash(number), tiles }
}

/// Some hash for a number.
fn some_hash(number: u64) -> Hash32 {
    Hash32::new(tg_types::hash::sha256(&[&number.to_be_bytes()]))
}

fn audit(ran: &Ran) -> TileAudit<'_> {
    let subject = ran.witness().subject();
    TileAudit {
        model: &ran.model,
        inputs: &ran.inputs,
        salt: *ran.trace.salt(),
        trace_root: subject.trace_root,
        outputs_root: subject.outputs_root,
    }
}

/// Layers of which the second costs four times as much as the first, with several tiles each.
fn layers(seed: u64) -> Ran {
    let mut random = Random(seed);
    let model = perceptron(&mut random, 60, &[40, 50, 200, 3]);
    let inputs = inputs(&model, &mut random);
    Ran::new(model, inputs, [random.bytes(), random.bytes()])
}

fn is_shown(ran: &Ran, tiles: &TilePlaces, answer: &[u8]) -> bool {
    let roots = (&ran.trace.salt().mark(), &ran.trace.root());
    check_answer(ran.program(), roots, tiles, answer)
}

/// What every tile costs, by the definition.
fn costs(program: &Program) -> BTreeMap<TilePlace, u128> {
    let mut costs = BTreeMap::new();
    for (operation, stated) in (0..).zip(program.operations()) {
        let each = stated.multiply_adds() / u64::from(stated.spec.len) + 1;
        for first in (0..stated.spec.elements()).step_by(TILE) {
            let elements = (stated.spec.elements() - first).min(TILE);
            let place = TilePlace { operation, tile: (first / TILE) as u32 };
            costs.insert(place, u128::from(each) * elements as u128);
        }
    }
    costs
}

/// Goal: a tile is drawn as often as its share of the cost says. Method: many lots of one tile; no
/// tile is further from its share than five standard deviations.
#[test]
fn tiles_are_drawn_by_what_they_cost() {
    const LOTS: u64 = 40_000;
    let ran = layers(3);
    let mut drawn: BTreeMap<TilePlace, u64> = BTreeMap::new();
    for number in 0..LOTS {
        for place in drawn_tiles(ran.program(), &lot(number, 1)) {
            *drawn.entry(place).or_default() += 1;
        }
    }
    let costs = costs(ran.program());
    let total: u128 = costs.values().sum();
    let facts = u128::from(ran.program().multiply_adds());
    let elements: u128 = ran.program().operations().iter().map(|it| u128::from(it.spec.len)).sum();
    assert_eq!(total, facts + elements);
    assert_eq!(drawn.values().sum::<u64>(), LOTS);
    for (place, cost) in costs {
        let share = cost as f64 / total as f64;
        let (mean, found) = (share * LOTS as f64, drawn.get(&place).copied().unwrap_or(0) as f64);
        let deviation = (mean * (1.0 - share)).sqrt();
        assert!((found - mean).abs() < 5.0 * deviation, "{place:?}: {found} of {mean}");
    }
}

#[test]
fn draws_depend_on_the_lot_and_fit_into_an_answer() {
    let ran = layers(4);
    let (tiles, sure) = tile_counts(ran.program(), 16);
    assert_eq!((tiles, sure), (3 + 12 + 1, 16));
    // An answer has room for 448 digests, and a tile of the second layer takes 1 + 11 + 2.
    assert_eq!(tile_counts(ran.program(), 64), (16, 32));
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..100 {
        let drawn = drawn_tiles(ran.program(), &lot(number, 16));
        assert_eq!(drawn, drawn_tiles(ran.program(), &lot(number, 16)));
        let answer = answer_of(ran.program(), &ran.trace, &drawn).expect("tiles");
        assert!(answer.len() <= TILE_ANSWER_BYTES_MAX);
        let fewer = drawn_tiles(ran.program(), &lot(number, 3));
        assert!(fewer.len() <= 3 && fewer.is_subset(&drawn));
        seen.insert(drawn);
    }
    assert!(seen.len() > 95, "lots rarely agree");
    assert!(drawn_tiles(ran.program(), &lot(1, 0)).is_empty());
}

/// Goal: as many tiles are drawn as fit, and no answer is too long. Method: a value of many tiles,
/// whose ways to the root have little in common; its numbers do not matter.
#[test]
fn draw_ends_where_an_answer_is_full() {
    let model = perceptron(&mut Random(1), 9_000, &[2, 100, 1]);
    let program = model.program();
    let zeros: Vec<Tensor> =
        program.operations().iter().map(|operation| Tensor::zeros(&operation.spec)).collect();
    let trace = Trace::of(program, Salt::NONE, &zeros).expect("all outputs");
    let (tiles, sure) = tile_counts(program, 64);
    assert_eq!((tiles, sure), (879 + 9, 12));
    for number in 0..40 {
        let drawn = drawn_tiles(program, &lot(number, 64));
        assert!((usize::from(sure)..64).contains(&drawn.len()), "{} drawn", drawn.len());
        let answer = answer_of(program, &trace, &drawn).expect("tiles");
        assert!(answer.len() <= TILE_ANSWER_BYTES_MAX);
        assert!(check_answer(program, (&Salt::NONE.mark(), &trace.root()), &drawn, &answer));
    }
}

/// Goal: of a right run every lot is found right, from the provider's words and from one's own run
/// alike. Method: all twelve primitives, many lots; through bytes.
#[test]
fn right_run_is_found_right_by_every_lot() {
    for (seed, ran) in [(1, Ran::zoo(&mut Random(11))), (2, layers(5))] {
        for number in 0..12 {
            let drawn = drawn_tiles(ran.program(), &lot(seed * 1_000 + number, 8));
            let shown = ran.witness().show_tiles(&drawn).expect("little");
            let bytes = shown.to_bytes();
            let shown = ShownTiles::from_bytes(&bytes).expect("canonical");
            let answer = audit(&ran).recompute(&drawn, &shown).expect("right");
            assert_eq!(Some(&answer), answer_of(ran.program(), &ran.trace, &drawn).as_ref());
            assert!(is_shown(&ran, &drawn, &answer));
            // Nothing of what was drawn is told.
            for place in &drawn {
                let digest =
                    ran.trace.tiles(place.operation as usize).unwrap()[place.tile as usize];
                assert!(!shown.siblings.as_slice().contains(&digest));
                assert!(shown.tiles.as_slice().iter().all(|tile| tile.place != *place));
                assert!(!bytes.windows(32).any(|some| some == digest.as_bytes()));
            }
        }
    }
}

/// Goal: a wrong tile is found by exactly those lots that draw it. Method: one element is another,
/// and what follows is computed from it.
#[test]
fn wrong_tile_is_found_by_the_lots_that_draw_it() {
    let ran = layers(6);
    let wrong = TilePlace { operation: 1, tile: 4 };
    let lying = ran.lying(&[Lie { operation: 1, element: 4 * TILE + 77, by: 3 }]);
    let (mut found, mut missed) = (0, 0);
    for number in 0..60 {
        let drawn = drawn_tiles(lying.program(), &lot(number, 4));
        let shown = lying.witness().show_tiles(&drawn).expect("little");
        let outcome = audit(&lying).recompute(&drawn, &shown);
        if drawn.contains(&wrong) {
            assert!(matches!(outcome, Err(TileAuditError::Root { .. })), "{outcome:?}");
            found += 1;
            // A friend who is told the digests can still answer: that is what its bond is for.
            let told = answer_of(lying.program(), &lying.trace, &drawn).expect("tiles");
            assert!(is_shown(&lying, &drawn, &told));
        } else {
            assert!(outcome.is_ok(), "{outcome:?}");
            missed += 1;
        }
    }
    assert!(found > 5 && missed > 5, "{found} found, {missed} missed");
}

#[test]
fn other_outputs_than_those_of_the_trace_are_found() {
    let ran = layers(7);
    let drawn = drawn_tiles(ran.program(), &lot(1, 4));
    let shown = ran.witness().show_tiles(&drawn).expect("little");
    let fake = TileAudit { outputs_root: some_hash(9), ..audit(&ran) };
    assert_eq!(fake.recompute(&drawn, &shown), Err(TileAuditError::Output));
}

#[test]
fn another_salt_than_the_jobs_is_found() {
    let ran = layers(7);
    let drawn = drawn_tiles(ran.program(), &lot(1, 4));
    let shown = ran.witness().show_tiles(&drawn).expect("little");
    let other = TileAudit { salt: Salt::new([9; 32]), ..audit(&ran) };
    let outcome = other.recompute(&drawn, &shown);
    assert!(matches!(outcome, Err(TileAuditError::Root { .. })));
}

/// Goal: whatever a provider shows instead of the truth does not pass. Method: each part is left
/// out, repeated, changed or moved.
#[test]
fn shown_tiles_that_were_tampered_with_do_not_pass() {
    let ran = layers(8);
    let drawn = drawn_tiles(ran.program(), &lot(2, 4));
    let shown = ran.witness().show_tiles(&drawn).expect("little");
    let (tiles, siblings) = (shown.tiles.as_slice().to_vec(), shown.siblings.as_slice().to_vec());
    assert!(!tiles.is_empty() && !siblings.is_empty());
    let outcome = |tiles: Vec<ShownTile>, siblings: Vec<Hash32>| {
        let tiles = List::new(tiles).expect("few");
        let shown = ShownTiles { tiles, siblings: List::new(siblings).expect("few") };
        audit(&ran).recompute(&drawn, &shown)
    };
    assert!(outcome(tiles.clone(), siblings.clone()).is_ok());
    for index in 0..tiles.len() {
        let mut less = tiles.clone();
        less.remove(index);
        assert!(outcome(less, siblings.clone()).is_err());
        let mut twice = tiles.clone();
        twice.push(tiles[index].clone());
        assert!(outcome(twice, siblings.clone()).is_err());
        let mut other = tiles.clone();
        let mut bytes = other[index].bytes.as_slice().to_vec();
        bytes[0] ^= 1;
        other[index].bytes = Bytes::new(bytes).expect("as long");
        assert!(outcome(other, siblings.clone()).is_err());
        let mut short = tiles.clone();
        short[index].bytes = Bytes::EMPTY;
        assert!(matches!(outcome(short, siblings.clone()), Err(TileAuditError::Elements(_))));
        let mut away = tiles.clone();
        away[index].place.operation = 99;
        assert!(matches!(outcome(away, siblings.clone()), Err(TileAuditError::Place { .. })));
    }
    for index in 0..siblings.len() {
        let mut other = siblings.clone();
        other[index] = some_hash(5);
        assert!(matches!(outcome(tiles.clone(), other), Err(TileAuditError::Root { .. })));
    }
    let (less, more) = (siblings[1..].to_vec(), [siblings.clone(), vec![some_hash(1)]].concat());
    for siblings in [less, more, Vec::new()] {
        let refused = outcome(tiles.clone(), siblings);
        assert!(matches!(refused, Err(TileAuditError::Siblings { .. })));
    }
    let told = ShownTile { place: *drawn.first().expect("some"), bytes: Bytes::EMPTY };
    let told = outcome([tiles, vec![told]].concat(), siblings);
    assert!(matches!(told, Err(TileAuditError::Place { .. })));
}

/// Goal: no other bytes than the right ones are an answer. Method: every digest changed, cut off,
/// too long, of another lot, of another run, of another salt.
#[test]
fn forged_answers_are_refused() {
    let (ran, other) = (layers(9), layers(10));
    let drawn = drawn_tiles(ran.program(), &lot(3, 6));
    let answer = answer_of(ran.program(), &ran.trace, &drawn).expect("tiles");
    assert!(is_shown(&ran, &drawn, &answer));
    for at in (0..answer.len()).step_by(31) {
        let mut forged = answer.clone();
        forged[at] ^= 0x80;
        assert!(!is_shown(&ran, &drawn, &forged));
    }
    for cut in [0, 1, 31, 32, 33] {
        assert!(!is_shown(&ran, &drawn, &answer[..answer.len() - 1 - cut]));
    }
    assert!(!is_shown(&ran, &drawn, &[answer.as_slice(), &[0; 32]].concat()));
    assert!(!is_shown(&ran, &drawn, &[]));
    assert!(!is_shown(&ran, &TilePlaces::new(), &[]), "nothing drawn shows nothing");
    for number in 4..40 {
        let others = drawn_tiles(ran.program(), &lot(number, 6));
        let theirs = answer_of(ran.program(), &ran.trace, &others).expect("tiles");
        assert_eq!(is_shown(&ran, &drawn, &theirs), others == drawn);
    }
    assert!(!is_shown(&other, &drawn, &answer));
    let root = ran.trace.root();
    assert!(!check_answer(ran.program(), (&some_hash(1), &root), &drawn, &answer));
    let beyond = TilePlaces::from([TilePlace { operation: 0, tile: 3 }]);
    assert!(answer_of(ran.program(), &ran.trace, &beyond).is_none());
    assert!(!is_shown(&ran, &beyond, &answer));
}

/// Goal: only who knew all drawn digests when it committed has computed the run. Method: every byte
/// changed, another name, another commitment, another run, and trees in which one leaf is made up.
#[test]
fn whole_run_is_shown_by_who_has_committed_to_it() {
    let (ran, other) = (layers(9), layers(10));
    let (node, stranger) = (NodeId::new([1; 32]), NodeId::new([2; 32]));
    let root = |ran: &Ran, node| known_root(ran.program(), &ran.trace, node).expect("a trace");
    let known = root(&ran, &node);
    assert!(known != root(&ran, &stranger) && known != ran.trace.operations_root());
    let is_shown = |ran: &Ran, node: &NodeId, known: &Hash32, lot: &TileLot, answer: &[u8]| {
        let roots = (&ran.trace.salt().mark(), &ran.trace.root());
        check_whole(ran.program(), roots, &Knower { node, known, lot }, answer)
    };
    for number in 0..20 {
        let lot = lot(number, 6);
        let answer = whole_answer(ran.program(), &ran.trace, &node, &lot).expect("a trace");
        assert!(answer.len() <= TILE_ANSWER_BYTES_MAX);
        assert!(is_shown(&ran, &node, &known, &lot, &answer));
        for at in (0..answer.len()).step_by(97) {
            let mut forged = answer.clone();
            forged[at] ^= 1;
            assert!(!is_shown(&ran, &node, &known, &lot, &forged));
        }
        for length in [0, 31, answer.len() - 32, answer.len() - 1] {
            assert!(!is_shown(&ran, &node, &known, &lot, &answer[..length]));
        }
        assert!(!is_shown(&ran, &stranger, &known, &lot, &answer));
        assert!(!is_shown(&ran, &node, &root(&other, &node), &lot, &answer));
        assert!(!is_shown(&other, &node, &known, &lot, &answer));
        // Who has made one digest up passes only where that tile is not drawn.
        let place = TilePlace { operation: 1, tile: u32::try_from(number % 3).expect("small") };
        let right = ran.trace.tiles(1).expect("tiles")[place.tile as usize];
        let twist = |digest: &Hash32| if *digest == right { some_hash(number) } else { *digest };
        let liar = ran.trace.mapped(ran.program(), twist).expect("a trace");
        let known = known_root(ran.program(), &liar, &node).expect("a trace");
        let made_up = whole_answer(ran.program(), &liar, &node, &lot).expect("a trace");
        assert!(!is_shown(&ran, &node, &known, &lot, &made_up));
        assert!(!is_shown(&ran, &node, &known, &lot, &answer));
    }
}

#[test]
fn prop_any_bytes_are_no_answer_and_no_shown_tiles() {
    let ran = layers(12);
    let drawn = drawn_tiles(ran.program(), &lot(3, 2));
    arbtest::arbtest(|u| {
        let bytes: Vec<u8> = u.arbitrary()?;
        assert!(!is_shown(&ran, &drawn, &bytes));
        if let Ok(shown) = ShownTiles::from_bytes(&bytes) {
            assert_eq!(shown.to_bytes(), bytes);
            assert!(audit(&ran).recompute(&drawn, &shown).is_err());
        }
        Ok(())
    });
}
