//! Blocks that must not exist, and the first one.

use crate::world::*;
use tg_ledger::{ApplyError, FIRST_BLOCK_DELAY_MAX, MemoryView, apply, keys};
use tg_types::{Action, Amount, Bytes, CheckedTx, DurationMs, Event, Height, Tick, TxBody};

fn pay() -> Action {
    transfer(account(1), 5)
}

fn many(world: &World, count: usize) -> Vec<CheckedTx> {
    world.txs(account(0), (0..count).map(|_| pay()).collect())
}

#[test]
fn first_block_writes_the_genesis() {
    let world = World::unborn(params());
    let applied = world.try_block(&[]).expect("valid");
    let credited = |event: &&Event| matches!(event, Event::AccountCredited { .. });
    let events = &applied.block_receipt.events;
    let funded = 2 * usize::from(FUNDED) + 5;
    assert_eq!(events.iter().filter(credited).count(), funded);
    assert_eq!(events.len(), funded + 4, "four seats staked");
    let world = World::new();
    assert_eq!(world.totals().supply, world.rules.genesis.supply());
    assert_eq!(world.balance(&account(0)), 1_000_000_000);
    assert_eq!(world.stake(&owner(3)).active, units(10_000_003));
    assert!(world.view.iter().all(|(key, _)| *key != keys::account(&account(99))));
}

#[test]
fn first_block_may_hold_transactions() {
    let mut world = World::unborn(params());
    let pay = world.tx(account(0), pay());
    world.block(&[pay]);
    assert_eq!(world.balance(&account(1)), 1_000_000_005);
}

#[test]
fn first_block_may_be_late_but_not_early() {
    let mut world = World::unborn(params());
    let latest = START.plus(FIRST_BLOCK_DELAY_MAX).expect("early");
    let bad = |found| Err(ApplyError::BadTick { found, earliest: START, latest });
    world.env.tick = Tick::new(START.get() - 1);
    assert_eq!(world.try_block(&[]), bad(world.env.tick));
    world.env.tick = latest.plus(DurationMs::new(1)).expect("early");
    assert_eq!(world.try_block(&[]), bad(world.env.tick));
    world.env.tick = latest;
    world.block(&[]);
    assert_eq!(world.cursor().due_second, latest.second() + 1);
}

#[test]
fn block_of_another_height_is_refused() {
    let mut world = World::new();
    for found in [0, 1, 3, u64::MAX].map(Height::new) {
        world.env.height = found;
        let expected = Height::new(2);
        assert_eq!(world.try_block(&[]), Err(ApplyError::WrongHeight { found, expected }));
    }
    let mut unborn = World::unborn(params());
    for found in [0, 2].map(Height::new) {
        unborn.env.height = found;
        let expected = Height::FIRST;
        assert_eq!(unborn.try_block(&[]), Err(ApplyError::WrongHeight { found, expected }));
    }
}

#[test]
fn block_time_outside_its_bounds_is_refused() {
    let mut world = World::new();
    let (earliest, latest) = (START, Tick::new(START.get() + 10_000));
    for found in [0, START.get() - 1, latest.get() + 1, u64::MAX].map(Tick::new) {
        world.env.tick = found;
        let bad = ApplyError::BadTick { found, earliest, latest };
        assert_eq!(world.try_block(&[]), Err(bad));
    }
    for fine in [earliest, latest] {
        world.env.tick = fine;
        world.try_block(&[]).expect("valid");
    }
}

#[test]
fn block_with_another_parent_time_is_refused() {
    let mut world = World::new();
    let (found, expected) = (Tick::new(START.get() - 1), START);
    world.env.parent_tick = found;
    assert_eq!(world.try_block(&[]), Err(ApplyError::WrongParentTick { found, expected }));
    let mut unborn = World::unborn(params());
    unborn.env.parent_tick = found;
    assert_eq!(unborn.try_block(&[]), Err(ApplyError::WrongParentTick { found, expected }));
}

#[test]
fn block_by_a_stranger_is_refused() {
    let mut world = World::new();
    for stranger in [account(0), owner(0), vote_key(9).into()] {
        world.env.proposer = stranger;
        assert_eq!(world.try_block(&[]), Err(ApplyError::UnknownProposer(stranger)));
    }
}

#[test]
fn block_with_too_many_transactions_is_refused() {
    let world = World::new();
    let txs = many(&world, 151);
    world.try_block(&txs[..150]).expect("valid");
    let too_many = ApplyError::TooManyTxs { count: 151, max: 150 };
    assert_eq!(world.try_block(&txs), Err(too_many));
}

/// Goal: the rate is a rate, however many blocks share a second. Method: full blocks without time
/// between them use a second's worth up; then a millisecond earns one transaction.
#[test]
fn blocks_together_keep_to_the_rate() {
    let mut world = World::new();
    world.env.tick = world.env.parent_tick;
    for _ in 0..6 {
        let txs = many(&world, 150);
        world.block(&txs);
        world.env.tick = world.env.parent_tick;
    }
    let txs = many(&world, 102);
    assert_eq!(world.try_block(&txs[..101]), Err(ApplyError::TooFast { count: 101, max: 100 }));
    world.wait(1);
    assert_eq!(world.try_block(&txs), Err(ApplyError::TooFast { count: 102, max: 101 }));
    world.try_block(&txs[..101]).expect("valid");
}

#[test]
fn block_with_too_many_bytes_is_refused() {
    let world = World::new();
    let openings = Bytes::new(vec![0; 14 * 1_024]).expect("as long as allowed");
    let body = |n| TxBody {
        nonce: tg_types::Nonce::new(n),
        ..world.body(account(0), Action::ShowCapacity { openings: openings.clone() })
    };
    let txs: Vec<_> = (0..150).map(|n| world.sign(body(n))).collect();
    let bytes = txs.iter().map(|tx| u64::from(tx.size_bytes())).sum();
    let too_many = ApplyError::TooManyBytes { bytes, max: 2 * 1024 * 1024 };
    assert_eq!(world.try_block(&txs), Err(too_many));
}

#[test]
fn block_on_a_corrupt_entry_is_refused() {
    let world = World::new();
    let key = keys::account(&account(1));
    let tx = world.tx(account(0), pay());
    for bytes in [vec![], vec![1], vec![2; 10], vec![0xff; 400]] {
        let mut view = world.view.clone();
        view.commit(&[(key, Some(bytes))].into());
        let error = apply(&world.rules, &view, &world.env, std::slice::from_ref(&tx));
        assert!(matches!(error, Err(ApplyError::Corrupt { key: found, .. }) if found == key));
    }
}

#[test]
fn block_on_an_incomplete_state_is_refused() {
    let world = World::new();
    for key in [keys::totals(), keys::params(), keys::log()] {
        let mut view: MemoryView = world.view.clone();
        view.commit(&[(key, None)].into());
        let error = apply(&world.rules, &view, &world.env, &[]);
        assert_eq!(error, Err(ApplyError::Incomplete(key)));
    }
}

#[test]
fn block_receipt_of_an_idle_block_is_empty() {
    let mut world = World::new();
    let applied = world.block(&[]);
    assert_eq!((applied.events_len, applied.receipts.len()), (0, 0));
    let touched: Vec<_> = applied.changes.keys().copied().collect();
    let ring = keys::header(Height::FIRST);
    assert_eq!(touched, [ring, keys::log(), keys::cursor()]);
    assert_eq!(world.totals().burned, Amount::ZERO);
}
