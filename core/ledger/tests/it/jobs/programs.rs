//! Programs on record: pieces in any order, from anybody, right and wrong.

use tg_ledger::{ApplyError, PROGRAMS_PER_BLOCK_MAX, PieceEntry, ProgramEntry, apply, keys};
use tg_types::ids::Noun;
use tg_types::{Action, Amount, Bytes, Event, Hash32, JobSpec, Reason, Status, Tier, Work};

use crate::fleet::{piece, spec};
use crate::judge::program_id;
use crate::world::*;

const PROGRAM: &[u8] = b"prog of three pieces";

/// The pieces of [`PROGRAM`].
fn part(number: u8) -> Action {
    let parts: Vec<&[u8]> = PROGRAM.chunks(7).collect();
    piece(PROGRAM, number, 3, parts[usize::from(number)])
}

fn recorded(world: &World) -> Option<ProgramEntry> {
    world.entry(&keys::program(&program_id(PROGRAM)))
}

fn bytes_of(world: &World) -> Vec<u8> {
    let program = program_id(PROGRAM);
    let pieces = recorded(world).expect("on record").pieces;
    let entry = |piece| world.entry::<PieceEntry>(&keys::program_piece(&program, piece));
    let parts = (0..pieces).map(|piece| entry(piece).expect("there").bytes.as_slice().to_vec());
    parts.collect::<Vec<_>>().concat()
}

#[test]
fn program_is_complete_with_its_last_piece_in_any_order() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut world = World::new();
        for number in &order[..2] {
            assert_eq!(world.succeed(account(0), part(*number)), []);
            assert_eq!(recorded(&world), None);
        }
        let events = world.succeed(account(0), part(order[2]));
        let (program, multiply_adds) = (program_id(PROGRAM), 1_000 * 16);
        assert_eq!(events, [Event::ProgramRecorded { program, multiply_adds }]);
        assert_eq!(bytes_of(&world), PROGRAM);
        assert_eq!(world.ids(Noun::Draft).len(), 0);
        assert_eq!(world.ids(Noun::Piece).len(), 3);
    }
}

#[test]
fn program_pieces_of_one_block_are_taken() {
    let mut world = World::new();
    let txs = world.txs(account(0), (0..3).map(part).collect());
    world.block(&txs);
    assert_eq!(bytes_of(&world), PROGRAM);
}

#[test]
fn piece_that_cannot_be_is_refused() {
    let mut world = World::new();
    for (number, pieces) in [(0, 0), (3, 3), (0, 33), (32, 33), (255, 255)] {
        let action = piece(PROGRAM, number, pieces, b"x");
        world.fail(account(0), action, Reason::PieceWrong, Amount::ZERO);
    }
    world.succeed(account(0), part(0));
    let another_count = piece(PROGRAM, 1, 2, b"x");
    world.fail(account(0), another_count, Reason::PieceWrong, Amount::ZERO);
    world.fail(account(0), part(0), Reason::ProgramExists, Amount::ZERO);
    world.succeed(account(0), part(1));
    world.succeed(account(0), part(2));
    for sender in [0, 1] {
        for number in 0..3 {
            world.fail(account(sender), part(number), Reason::ProgramExists, Amount::ZERO);
        }
    }
}

#[test]
fn program_of_one_piece_that_is_none_is_refused() {
    let mut world = World::new();
    let refused = |world: &mut World, bytes: &[u8], id: &[u8]| {
        let bytes = Bytes::new(bytes.to_vec()).expect("short");
        let action = Action::PutProgram { program: program_id(id), piece: 0, pieces: 1, bytes };
        world.fail(account(0), action, Reason::ProgramWrong, Amount::ZERO);
    };
    refused(&mut world, b"no program", b"no program");
    refused(&mut world, b"", b"");
    refused(&mut world, b"prog a", b"prog b");
    assert_eq!(world.ids(Noun::Program).len(), 0);
}

/// Goal: a wrong program costs its sender the draft, so that it is read once and not again and
/// again. Method: two right pieces and a wrong one.
#[test]
fn program_that_is_none_is_forgotten() {
    let mut world = World::new();
    world.succeed(account(0), part(0));
    world.succeed(account(0), part(1));
    let receipt = world.run(account(0), piece(PROGRAM, 2, 3, b"wrong"));
    assert_eq!(receipt.status, Status::Failed(Reason::ProgramWrong));
    assert_eq!(world.ids(Noun::Draft).len() + world.ids(Noun::Piece).len(), 0);
    for number in 0..3 {
        world.succeed(account(0), part(number));
    }
    assert_eq!(bytes_of(&world), PROGRAM);
}

/// Goal: nobody keeps a program off the record by putting wrong pieces of it. Method: a stranger
/// puts wrong pieces, with another count and with the same.
#[test]
fn wrong_pieces_of_a_stranger_spoil_nothing() {
    let mut world = World::new();
    world.succeed(account(1), piece(PROGRAM, 0, 32, b"junk"));
    world.succeed(account(2), piece(PROGRAM, 1, 3, b"junk"));
    world.succeed(account(0), part(0));
    world.succeed(account(2), piece(PROGRAM, 2, 3, b"junk"));
    world.succeed(account(0), part(1));
    world.succeed(account(0), part(2));
    assert_eq!(bytes_of(&world), PROGRAM);
}

/// Goal: whatever id somebody names as a program, the block is valid. Method: ids under which
/// other entries of programs lie.
#[test]
fn id_of_another_entry_named_as_a_program_does_no_harm() {
    let mut world = World::new();
    let txs = world.txs(account(0), (0..3).map(part).collect());
    world.block(&txs);
    world.succeed(account(1), piece(b"prog draft", 0, 2, b"prog "));
    let mut ids: Vec<[u8; 32]> = Vec::new();
    for noun in [Noun::Program, Noun::Piece, Noun::Draft] {
        ids.extend(world.ids(noun));
    }
    assert_eq!(ids.len(), 1 + 4 + 1);
    for id in ids {
        let program = Hash32::new(id);
        let work = Work::Tensor { program, weights: program, inputs: program, salt: program };
        let submit = submit(vec![JobSpec { work, ..spec(Tier::Trusted) }]);
        let bytes = Bytes::new(b"x".to_vec()).expect("short");
        let put = Action::PutProgram { program, piece: 0, pieces: 2, bytes };
        for action in [submit, put] {
            let tx = world.tx(account(2), action);
            let answer = apply(&world.rules, &world.view, &world.env, &[tx]);
            assert!(!matches!(answer, Err(ApplyError::Corrupt { .. })), "{program}");
            answer.expect("a valid block");
        }
    }
}

#[test]
fn program_of_many_pieces_is_loaded_in_a_few_rounds() {
    let program: Vec<u8> = [b"prog ".as_slice(), &[7; 3_000]].concat();
    let parts: Vec<&[u8]> = program.chunks(95).collect();
    assert_eq!(parts.len(), 32);
    let mut world = World::new();
    for (number, part) in (0..).zip(&parts) {
        // World::block counts the rounds in which a view that knows nothing is loaded.
        world.succeed(account(0), piece(&program, number, 32, part));
    }
    let entry = world.entry::<ProgramEntry>(&keys::program(&program_id(&program)));
    assert_eq!(entry.map(|entry| entry.pieces), Some(32));
}

/// Goal: a block plans no more programs than it has time for, and what finds no room is taken by
/// the next one. Method: one program more than that, of one piece and of two, with a payment behind
/// it in the same lane; building leaves both for later, applying refuses the block.
#[test]
fn program_beyond_the_bound_waits_for_the_next_block() {
    let count = PROGRAMS_PER_BLOCK_MAX as usize;
    let whole = |number: usize| format!("prog {number}").into_bytes();
    for pieces in [1, 2] {
        let mut world = World::new();
        let last = whole(count);
        let (first, second) = last.split_at(last.len() / 2);
        if pieces == 2 {
            world.succeed(account(1), piece(&last, 0, 2, first));
        }
        let mut txs = world.txs(
            account(0),
            (0..count).map(|number| piece(&whole(number), 0, 1, &whole(number))).collect(),
        );
        let more = if pieces == 2 { piece(&last, 1, 2, second) } else { piece(&last, 0, 1, &last) };
        txs.extend(world.txs(account(1), vec![more, transfer(account(2), 1)]));
        let reason = Reason::ProgramLimit;
        let invalid = ApplyError::InadmissibleTx { index: count, reason };
        assert_eq!(world.try_block(&txs), Err(invalid));
        let built = world.build(&txs);
        assert_eq!((built.included, built.refused), ((0..count).collect(), vec![]));
        let on_record = piece(&whole(0), 0, 1, &whole(0));
        let fifth = piece(b"prog of two", 0, 2, b"prog of ");
        world.block(&[&txs[..count], &world.txs(account(2), vec![on_record, fifth])].concat());
        assert_eq!(world.ids(Noun::Program).len(), count);
        world.block(&txs[count..]);
        assert_eq!(world.ids(Noun::Program).len(), count + 1);
    }
}
