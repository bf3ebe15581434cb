//! Tests of traces, openings and audits.

use super::testing::{Builder, Lie, Ran, Random, bytes, inputs, spec};
use super::{
    AuditError, Handover, OpenedTiles, Opening, OpeningError, OutputOpening, Subject, Trace,
    TraceBuilder, TraceError, Verdict, inputs_root, judge_output, judge_tile, operand_tiles,
    outputs_root, recompute_tile,
};
use crate::commit::{Book, Salt, TILE, Tree, book_root, climb, commit, levels, path, top};
use crate::program::{Place, ValueId};
use crate::run::{Elements, Options, Runner};
use crate::tensor::Tensor;
use std::collections::BTreeSet;
use tg_types::codec::{Decode, Encode};
use tg_types::{Bytes, Hash32, List};

fn ran(seed: u64) -> Ran {
    Ran::zoo(&mut Random(seed))
}

/// Every tile of every value.
fn places(ran: &Ran) -> Vec<(ValueId, u32)> {
    let specs = (0..).zip(ran.program().specs());
    let tiles = specs.flat_map(|(number, spec)| {
        (0..spec.len.div_ceil(TILE as u32)).map(move |tile| (ValueId { number }, tile))
    });
    tiles.collect()
}

#[test]
fn path_of_every_leaf_leads_to_the_top() {
    for count in [1_usize, 2, 15, 16, 17, 31, 32, 255, 256, 257, 4096, 4097] {
        let leaves: Vec<Hash32> = (0..count as u32)
            .map(|leaf| crate::commit::leaf(&[0; 32], &leaf.to_be_bytes()))
            .collect();
        let (levels, top) = (levels(leaves.clone()), top(&leaves));
        let tree = Tree::over(count);
        assert_eq!(levels.len(), usize::from(tree.top()) + 1);
        for leaf in (0..count).step_by(1 + count / 40).chain([count - 1]) {
            let path = path(&levels, leaf);
            assert_eq!(climb(tree, leaf, leaves[leaf], &path), Some(top));
            if count > 1 {
                assert_ne!(climb(tree, leaf ^ 1, leaves[leaf], &path), Some(top));
                assert_eq!(climb(tree, leaf, leaves[leaf], &path[1..]), None);
            }
            assert_eq!(climb(tree, leaf, leaves[leaf], &[path, vec![top]].concat()), None);
        }
        assert_eq!(climb(tree, count, top, &[]), None);
        assert_eq!(tree.children(tree.top() + 1, 0), None);
        assert_eq!(tree.children(0, 0), None);
    }
}

#[test]
fn builder_gives_the_roots_of_the_definition() {
    let ran = ran(1);
    let mut roots = Vec::new();
    for (operation, output) in ran.operations.iter().enumerate() {
        let number = ran.program().value_of(operation).number;
        roots.push(commit(output, number, ran.trace.salt()));
        assert_eq!(ran.trace.value_root(operation), roots.last().copied());
    }
    let book = book_root(Book::Operations, roots.len() as u32, &top(&roots));
    assert_eq!(ran.trace.operations_root(), book);
    assert!(ran.trace.handover().explains(&ran.trace.root()));
    let other = Handover { secret: None, operations_root: book };
    assert!(!other.explains(&ran.trace.root()));
    assert_eq!(Handover::from_bytes(&ran.trace.handover().to_bytes()), Ok(ran.trace.handover()));
    assert_eq!(ran.trace.value_root(roots.len()), None);
}

#[test]
fn builder_takes_operations_in_any_order_and_by_many_threads() {
    let mut b = Builder::default();
    let x = b.input(bytes(300_000));
    let table = |x| crate::program::Primitive::Table {
        x,
        entries: List::new((0..256).map(|entry| 127 - entry).collect()).unwrap(),
    };
    let first = b.operation(bytes(300_000), table(x));
    let last = b.operation(bytes(300_000), table(first));
    let model = b.finish(&[last]);
    let mut random = Random(3);
    let outputs = [random.tensor(&bytes(300_000)), random.tensor(&bytes(300_000))];
    let salt = Salt::new([1; 32]);
    let mut builder = TraceBuilder::new(model.program(), salt);
    builder.operation(1, (&outputs[1]).into()).unwrap();
    builder.operation(0, (&outputs[0]).into()).unwrap();
    let trace = builder.finish().unwrap();
    assert_eq!(Trace::of(model.program(), salt, &outputs), Ok(trace.clone()));
    assert_eq!(trace.tiles(1).unwrap().len(), 293);
    for tile in [0_u32, 1, 127, 128, 292] {
        let mut bytes = Vec::new();
        let from = tile as usize * TILE;
        outputs[1].append_bytes(from..from + TILE, &mut bytes);
        let digest = crate::commit::leaf(&salt.of_tile(2, tile), &bytes);
        assert_eq!(trace.tiles(1).unwrap()[tile as usize], digest);
    }
}

#[test]
fn builder_refuses_what_does_not_fit() {
    let ran = ran(1);
    let salt = Salt::NONE;
    let mut builder = TraceBuilder::new(ran.program(), salt);
    let few = builder.operation(0, Elements::I8(&[0; 5]));
    assert!(matches!(few, Err(TraceError::Elements { operation: 0, found: 5, .. })));
    let wide = builder.operation(0, Elements::I16(&[0; 4096]));
    assert!(matches!(wide, Err(TraceError::Elements { bytes: 2, .. })));
    let unknown = builder.operation(999, Elements::I8(&[0; 5]));
    assert!(matches!(unknown, Err(TraceError::Operation { operation: 999, .. })));
    assert_eq!(builder.finish(), Err(TraceError::Missing { operation: 0 }));
}

#[test]
fn salt_hides_equal_runs_from_each_other() {
    let ran = ran(1);
    let of = |salt| Trace::of(ran.program(), salt, &ran.operations).unwrap().root();
    let roots = [of(Salt::NONE), of(Salt::new([0; 32])), of(Salt::new([1; 32]))];
    assert!(roots[0] != roots[1] && roots[1] != roots[2] && roots[0] != roots[2]);
    assert!(!format!("{:?} {:?}", ran.trace.salt(), ran.trace.handover()).contains("secret:"));
}

#[test]
fn opening_of_every_tile_is_accepted_and_travels() {
    let ran = ran(2);
    let witness = ran.witness();
    let subject = witness.subject();
    assert_eq!(Subject::from_bytes(&subject.to_bytes()), Ok(subject));
    assert_eq!(subject.inputs_root, inputs_root(&ran.inputs, &ran.inputs_salt));
    for (value, tile) in places(&ran) {
        let opening = witness.open(value, tile).unwrap();
        let opened = opening.verify(ran.program(), &subject).unwrap();
        let tensor = witness.tensor(value).unwrap();
        for (within, element) in opened.elements().iter().enumerate() {
            assert_eq!(tensor.get(tile as usize * TILE + within), Some(*element));
        }
        let bytes = opening.to_bytes();
        assert_eq!(Opening::from_bytes(&bytes).as_ref(), Ok(&opening));
        assert!(Opening::from_bytes(&bytes[..bytes.len() - 1]).is_err());
    }
    assert_eq!(witness.open(ValueId { number: 0 }, 2), None);
    assert_eq!(witness.open(ValueId { number: 999 }, 0), None);
}

/// Goal: no opening but the right one is accepted. Method: random places, every kind of forgery.
#[test]
fn prop_forged_opening_is_refused() {
    let ran = ran(4);
    let witness = ran.witness();
    let subject = witness.subject();
    let places = places(&ran);
    arbtest::arbtest(|u| {
        let (value, tile) = *u.choose(&places)?;
        let mut opening = witness.open(value, tile).unwrap();
        let other = *u.choose(&places)?;
        let stranger = witness.open(other.0, other.1).unwrap();
        let proof = &mut opening.proof;
        match u.int_in_range(0..=9)? {
            0 => opening.value.number = u.arbitrary()?,
            1 => proof.tile = u.arbitrary()?,
            2 => proof.salt[usize::from(u.int_in_range(0..=31_u8)?)] ^= 1,
            3 => {
                let mut bytes = proof.bytes.as_slice().to_vec();
                let place = u.choose_index(bytes.len())?;
                bytes[place] ^= 1 << u.int_in_range(0..=7)?;
                proof.bytes = Bytes::new(bytes).unwrap();
            }
            4 => {
                let bytes = proof.bytes.as_slice();
                let end = u.choose_index(bytes.len())?;
                proof.bytes = Bytes::new(bytes[..end].to_vec()).unwrap();
            }
            5 => proof.tile_path = forge(proof.tile_path.as_slice(), u)?,
            6 => proof.book_path = forge(proof.book_path.as_slice(), u)?,
            7 => opening.mark = if u.arbitrary()? { None } else { Some(Hash32::new([7; 32])) },
            8 => opening.proof.bytes = stranger.proof.bytes,
            _ => opening.proof = stranger.proof,
        }
        let right = witness.open(opening.value, opening.proof.tile);
        assert_eq!(opening.verify(ran.program(), &subject).is_ok(), Some(opening) == right);
        Ok(())
    });
}

/// Drops, doubles, swaps or changes a hash of a path.
fn forge<const MAX: usize>(
    path: &[Hash32],
    u: &mut arbtest::arbitrary::Unstructured<'_>,
) -> arbtest::arbitrary::Result<List<Hash32, 0, MAX>> {
    let mut path = path.to_vec();
    if path.is_empty() {
        path.push(Hash32::new([3; 32]));
        return Ok(List::new(path).unwrap());
    }
    let (place, other) = (u.choose_index(path.len())?, u.choose_index(path.len())?);
    match u.int_in_range(0..=3)? {
        0 => drop(path.remove(place)),
        1 => path.swap(place, other),
        2 => path[place] = Hash32::new(u.arbitrary()?),
        _ if path.len() < MAX => path.insert(place, path[other]),
        _ => drop(path.pop()),
    }
    Ok(List::new(path).unwrap())
}

/// Goal: bytes from outside never panic. Method: random bytes, and right bytes with random changes.
#[test]
fn prop_opening_of_any_bytes_is_an_error_or_right() {
    let ran = ran(4);
    let witness = ran.witness();
    let subject = witness.subject();
    let places = places(&ran);
    arbtest::arbtest(|u| {
        let (value, tile) = *u.choose(&places)?;
        let right = witness.open(value, tile).unwrap();
        let mut bytes = right.to_bytes();
        for _ in 0..u.int_in_range(1..=4)? {
            let place = u.choose_index(bytes.len())?;
            bytes[place] = u.arbitrary()?;
        }
        if u.ratio(1, 4)? {
            bytes = u.arbitrary()?;
        }
        if let Ok(opening) = Opening::from_bytes(&bytes) {
            assert_eq!(opening.to_bytes(), bytes);
            let right = witness.open(opening.value, opening.proof.tile);
            assert_eq!(opening.verify(ran.program(), &subject).is_ok(), Some(opening) == right);
        }
        Ok(())
    });
}

#[test]
fn opening_against_another_subject_is_refused() {
    let ran = ran(5);
    let witness = ran.witness();
    let subject = witness.subject();
    for (value, tile) in places(&ran) {
        let opening = witness.open(value, tile).unwrap();
        let mut other = subject;
        match ran.program().place(value).unwrap() {
            Place::Input(_) => other.inputs_root = Hash32::new([1; 32]),
            Place::Constant(_) => other.weights_root = Hash32::new([1; 32]),
            Place::Operation(_) => other.trace_root = Hash32::new([1; 32]),
        }
        let refused = opening.verify(ran.program(), &other);
        assert!(matches!(refused, Err(OpeningError::Root { .. })));
    }
}

#[test]
fn opening_out_of_range_is_refused_even_with_a_right_path() {
    let mut random = Random(5);
    let mut b = Builder::default();
    let x = b.input(spec(10, 0, 100));
    let entries = List::new((0..101).collect()).unwrap();
    let out = b.operation(bytes(10), crate::program::Primitive::Table { x, entries });
    let model = b.finish(&[out]);
    let ran = Ran::new(model.clone(), inputs(&model, &mut random), [[0; 32]; 2]);
    let witness = ran.witness();
    let mut opening = witness.open(x, 0).unwrap();
    let bad = Tensor::I8(vec![101; 10]);
    let mut subject = witness.subject();
    subject.inputs_root = inputs_root(std::slice::from_ref(&bad), &ran.inputs_salt);
    opening.proof.bytes = Bytes::new(vec![101; 10]).unwrap();
    let refused = opening.verify(ran.program(), &subject);
    assert!(matches!(refused, Err(OpeningError::Elements { tile: 0, .. })), "{refused:?}");
}

#[test]
fn every_tile_is_recomputed_from_the_tiles_it_reads() {
    let ran = ran(6);
    let witness = ran.witness();
    let subject = witness.subject();
    for (operation, output) in ran.operations.iter().enumerate() {
        for tile in 0..output.len().div_ceil(TILE) as u32 {
            let needed = operand_tiles(ran.program(), operation, tile).unwrap();
            let mut openings: Vec<Opening> =
                needed.iter().map(|(value, tile)| witness.open(*value, *tile).unwrap()).collect();
            let found = loop {
                match recompute_tile(ran.program(), &subject, (operation, tile), &openings) {
                    Ok(found) => break found,
                    Err(AuditError::Missing(missing)) => {
                        openings.push(witness.open(missing.value, missing.tile).unwrap());
                    }
                    Err(error) => panic!("{error:?}"),
                }
            };
            let from = tile as usize * TILE;
            let expected: Vec<i32> =
                (from..output.len().min(from + TILE)).map(|i| output.get(i).unwrap()).collect();
            assert_eq!(found, expected);
            let elements = from..output.len().min(from + TILE);
            let all = witness.open_operands(operation, elements, None).unwrap();
            let places = |openings: &[Opening]| -> BTreeSet<(ValueId, u32)> {
                openings.iter().map(|opening| (opening.value, opening.proof.tile)).collect()
            };
            assert_eq!(places(&all), places(&openings));
            let claimed = witness.open(ran.program().value_of(operation), tile).unwrap();
            let verdict = judge_tile(ran.program(), &subject, &claimed, &all);
            assert_eq!(verdict, Ok(Verdict::Upheld));
        }
    }
}

/// Goal: what a runner shows gives the trace of the definition, and every tile of it can be opened
/// and recomputed. Method: random models.
#[test]
fn prop_trace_of_a_runner_is_that_of_the_meaning() {
    arbtest::arbtest(|u| {
        let model = crate::sample::model(u)?;
        let inputs = crate::sample::inputs(u, model.program())?;
        let ran = Ran::new(model, inputs, [[1; 32], u.arbitrary()?]);
        let runner = Runner::new(ran.model.clone(), Options { threads: 1, path: None });
        let mut builder = TraceBuilder::new(ran.program(), *ran.trace.salt());
        runner
            .run_observed(&ran.inputs, &mut |operation, elements| {
                builder.operation(operation, elements).unwrap();
            })
            .unwrap();
        assert_eq!(builder.finish().as_ref(), Ok(&ran.trace));
        let witness = ran.witness();
        let subject = witness.subject();
        for (operation, output) in ran.operations.iter().enumerate() {
            let tile = u.choose_index(output.len().div_ceil(TILE))?;
            let elements = tile * TILE..output.len().min(tile * TILE + TILE);
            let operands = witness.open_operands(operation, elements, None).unwrap();
            let claimed = witness.open(ran.program().value_of(operation), tile as u32).unwrap();
            let verdict = judge_tile(ran.program(), &subject, &claimed, &operands);
            assert_eq!(verdict, Ok(Verdict::Upheld));
        }
        Ok(())
    })
    .budget_ms(1_000);
}

#[test]
fn wrong_tile_is_refuted_and_missing_operands_are_named() {
    let honest = ran(7);
    let mut random = Random(70);
    for operation in 0..honest.operations.len() {
        let element = random.below(honest.operations[operation].len());
        let liar = honest.lying(&[Lie { operation, element, by: random.below(1 << 20) as i64 }]);
        let witness = liar.witness();
        let (subject, program) = (witness.subject(), liar.program());
        let tile = element / TILE;
        let elements = tile * TILE..(tile * TILE + TILE).min(liar.operations[operation].len());
        let mut operands = witness.open_operands(operation, elements, None).unwrap();
        let claimed = witness.open(program.value_of(operation), tile as u32).unwrap();
        let verdict = judge_tile(program, &subject, &claimed, &operands);
        assert_eq!(verdict, Ok(Verdict::Refuted));
        let dropped = operands.pop().unwrap();
        let missing = judge_tile(program, &subject, &claimed, &operands);
        let Err(AuditError::Missing(missing)) = missing else { panic!("{missing:?}") };
        assert_eq!((missing.value, missing.tile), (dropped.value, dropped.proof.tile));
        let weights = OpenedTiles::verify(program, &subject, &operands).unwrap();
        let weights = weights.with_weights(&liar.model);
        let found = weights.recompute(program, operation, tile as u32);
        let is_constant = matches!(program.place(dropped.value), Some(Place::Constant(_)));
        assert_eq!(found.is_ok(), is_constant);
    }
    let witness = honest.witness();
    let (subject, program) = (witness.subject(), honest.program());
    let input = witness.open(ValueId { number: 0 }, 0).unwrap();
    let refused = judge_tile(program, &subject, &input, &[]);
    assert!(matches!(refused, Err(AuditError::Claim { .. })));
    for (operation, tile) in [(0, 4), (0, u32::MAX), (99, 0), (usize::MAX, 0)] {
        let refused = recompute_tile(program, &subject, (operation, tile), &[]);
        assert_eq!(refused, Err(AuditError::Tile { operation, tile }));
        assert!(operand_tiles(program, operation, tile).is_err());
    }
    let other = Subject { program: Hash32::new([0; 32]), ..subject };
    let refused = recompute_tile(program, &other, (0, 0), &[]);
    assert!(matches!(refused, Err(AuditError::Program { .. })));
}

#[test]
fn delivered_output_that_is_not_the_trace_is_refuted() {
    let honest = ran(8);
    let witness = honest.witness();
    let program = honest.program();
    let value = program.outputs()[2].value;
    let Some(Place::Operation(operation)) = program.place(value) else { panic!() };
    let liar = honest.lying(&[Lie { operation, element: 17, by: 1 }]);
    let lying = liar.witness();
    let subject = Subject { outputs_root: lying.subject().outputs_root, ..witness.subject() };
    let delivered = lying.open_output(2, 0).unwrap();
    let traced = witness.open(value, 0).unwrap();
    let judged = judge_output(program, &subject, &delivered, &traced);
    assert_eq!(judged, Ok(Verdict::Refuted));
    let bytes = delivered.to_bytes();
    assert_eq!(OutputOpening::from_bytes(&bytes), Ok(delivered.clone()));
    let judged =
        judge_output(program, &witness.subject(), &witness.open_output(2, 0).unwrap(), &traced);
    assert_eq!(judged, Ok(Verdict::Upheld));
    let judged = judge_output(program, &witness.subject(), &delivered, &traced);
    assert!(matches!(judged, Err(AuditError::Opening { index: 0, .. })));
    let other = witness.open(ValueId { number: 0 }, 0).unwrap();
    let judged = judge_output(program, &subject, &delivered, &other);
    assert!(matches!(judged, Err(AuditError::Claim { .. })));
    let unknown = OutputOpening { output: 3, ..delivered };
    let judged = judge_output(program, &subject, &unknown, &traced);
    assert!(matches!(judged, Err(AuditError::Opening { index: 0, .. })));
    let all = program.outputs().iter().map(|output| witness.tensor(output.value).unwrap());
    assert_eq!(witness.subject().outputs_root, outputs_root(all));
}
