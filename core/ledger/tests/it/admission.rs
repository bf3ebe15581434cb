//! Which transactions may be in a block, and who gets their fees.

use crate::world::*;
use tg_ledger::{ApplyError, Budget, EVIDENCE_PER_BLOCK_MAX, build};
use tg_types::tx::LANES_MAX;
use tg_types::{Action, Amount, Event, Height, IdempotencyId, Lane, Nonce, Reason, Status, TxBody};

fn pay() -> Action {
    transfer(account(1), 5)
}

fn marked(world: &World, number: u8) -> TxBody {
    let idempotency = Some(IdempotencyId::new([number; 16]));
    TxBody { idempotency, ..world.body(account(0), pay()) }
}

#[test]
fn nonce_must_be_the_next_of_its_lane() {
    let mut world = World::new();
    let body =
        |world: &World, nonce| TxBody { nonce: Nonce::new(nonce), ..world.body(account(0), pay()) };
    world.refuse(&world.sign(body(&world, 1)), Reason::NonceTooHigh);
    world.refuse(&world.sign(body(&world, u64::MAX)), Reason::NonceTooHigh);
    world.succeed(account(0), pay());
    world.refuse(&world.sign(body(&world, 0)), Reason::NonceTooLow);
    world.refuse(&world.sign(body(&world, 2)), Reason::NonceTooHigh);
    world.block(&[world.sign(body(&world, 1))]);
}

#[test]
fn nonce_lanes_are_independent() {
    let mut world = World::new();
    let lane = |number| Lane::new(number).expect("a lane");
    let in_lane = |number| TxBody { lane: lane(number), ..world.body(account(0), pay()) };
    let txs: Vec<_> = (0..LANES_MAX).rev().map(|n| world.sign(in_lane(n))).collect();
    world.block(&txs);
    let lanes = world.account(&account(0)).lanes;
    assert!((0..LANES_MAX).all(|number| lanes.next(lane(number)) == Nonce::new(1)));
}

#[test]
fn nonce_of_a_failed_transaction_is_used_up() {
    let mut world = World::new();
    let failing = world.tx(account(0), transfer(account(0), 1));
    world.block(std::slice::from_ref(&failing));
    world.refuse(&failing, Reason::NonceTooLow);
}

#[test]
fn fee_below_the_floor_is_refused() {
    let mut world = World::new();
    let body = |fee| TxBody { fee, ..world.body(account(0), pay()) };
    let size = u64::from(world.sign(body(Amount::ZERO)).size_bytes());
    let floor = size * params().fee_floor_per_byte.units();
    world.refuse(&world.sign(body(units(floor - 1))), Reason::FeeTooLow);
    let exact = world.sign(body(units(floor)));
    world.block(&[exact]);
}

#[test]
fn fee_may_take_the_whole_balance_and_no_more() {
    let mut world = World::new();
    world.succeed(account(0), transfer(account(50), FEE.units()));
    let more = TxBody { fee: units(FEE.units() + 1), ..world.body(account(50), pay()) };
    world.refuse(&world.sign(more), Reason::FeeNotCovered);
    let receipt = world.run(account(50), pay());
    assert_eq!(receipt.status, Status::Failed(Reason::BalanceTooLow));
    assert_eq!(world.balance(&account(50)), 0);
    world.refuse(&world.tx(account(50), pay()), Reason::FeeNotCovered);
    world.refuse(&world.tx(account(51), pay()), Reason::FeeNotCovered);
}

#[test]
fn expiry_must_be_ahead_but_not_far() {
    let mut world = World::new();
    let height = world.env.height.get();
    let body = |expires| TxBody { expires: Height::new(expires), ..world.body(account(0), pay()) };
    for past in [0, 1, height] {
        world.refuse(&world.sign(body(past)), Reason::Expired);
    }
    for far in [height + 51, u64::MAX] {
        world.refuse(&world.sign(body(far)), Reason::ExpiresTooFar);
    }
    let (soon, latest) = (body(height + 1), body(height + 50));
    let latest = TxBody { nonce: Nonce::new(1), ..latest };
    world.block(&[world.sign(soon), world.sign(latest)]);
}

#[test]
fn idempotency_id_counts_once_until_it_is_forgotten() {
    let mut world = World::new();
    let mark = IdempotencyId::new([1; 16]);
    let first = world.sign(marked(&world, 1));
    world.block(&[first]);
    assert!(world.has_seen(&account(0), &mark) && !world.has_seen(&account(1), &mark));
    world.refuse(&world.sign(marked(&world, 1)), Reason::IdempotencySeen);
    let other_sender = TxBody { sender: account(2), nonce: Nonce::ZERO, ..marked(&world, 1) };
    let other_mark = marked(&world, 2);
    world.block(&[world.sign(other_sender), world.sign(other_mark)]);
    world.wait(4_000);
    world.block(&[]);
    assert!(!world.has_seen(&account(0), &mark));
    let again = world.sign(marked(&world, 1));
    world.block(&[again]);
}

#[test]
fn idempotency_id_twice_in_one_block_makes_it_invalid() {
    let world = World::new();
    let second = TxBody { nonce: Nonce::new(1), ..marked(&world, 1) };
    let txs = [world.sign(marked(&world, 1)), world.sign(second)];
    let reason = Reason::IdempotencySeen;
    assert_eq!(world.try_block(&txs), Err(ApplyError::InadmissibleTx { index: 1, reason }));
}

#[test]
fn idempotency_id_of_a_failed_transaction_is_free() {
    let mut world = World::new();
    let failing = TxBody { action: transfer(account(0), 1), ..marked(&world, 1) };
    let applied = world.block(&[world.sign(failing)]);
    assert_eq!(applied.receipts[0].status, Status::Failed(Reason::SelfTransfer));
    let retry = world.sign(marked(&world, 1));
    let applied = world.block(&[retry]);
    assert_eq!(applied.receipts[0].status, Status::Applied);
}

#[test]
fn evidence_beyond_the_bound_is_refused() {
    let world = World::new();
    let count = EVIDENCE_PER_BLOCK_MAX as usize;
    let many = (0..=count).map(|_| forged_evidence(&vote_key(1))).collect();
    let txs = world.txs(account(0), many);
    let reason = Reason::EvidenceLimit;
    let invalid = Err(ApplyError::InadmissibleTx { index: count, reason });
    assert_eq!(world.try_block(&txs), invalid);
    let built = world.build(&txs);
    assert_eq!((built.included.len(), built.refused), (count, vec![]), "the rest waits");
}

#[test]
fn fees_are_shared_to_the_last_unit() {
    let mut world = World::new();
    let before = (world.totals(), world.balance(&owner(0)));
    let txs = [world.tx(account(0), pay()), world.tx(account(2), transfer(account(2), 1))];
    let applied = world.block(&txs);
    let fees = 2 * FEE.units();
    let (burned, treasury) = (fees * 3_333 / 10_000, fees * 1_111 / 10_000);
    let earned = fees - burned - treasury;
    let shared = Event::FeesShared {
        proposer: owner(0),
        earned: units(earned),
        burned: units(burned),
        treasury: units(treasury),
    };
    assert_eq!(applied.block_receipt.events, [shared]);
    let after = world.totals();
    assert_eq!(after.burned.units(), before.0.burned.units() + burned);
    assert_eq!(after.treasury.units(), before.0.treasury.units() + treasury);
    assert_eq!(world.balance(&owner(0)), before.1 + earned);
}

#[test]
fn fees_return_to_a_sender_that_proposes() {
    let mut world = World::new();
    let before = world.balance(&owner(0));
    world.succeed(owner(0), pay());
    let fee = FEE.units();
    let earned = fee - fee * 3_333 / 10_000 - fee * 1_111 / 10_000;
    assert_eq!(world.balance(&owner(0)), before - 5 - fee + earned);
}

#[test]
fn fees_of_a_block_cannot_be_spent_in_it() {
    let mut world = World::new();
    let all = world.balance(&owner(0));
    let paying = world.tx(account(0), pay());
    let spending = world.tx(owner(0), transfer(account(1), all - FEE.units() + 1));
    let applied = world.block(&[paying, spending]);
    assert_eq!(applied.receipts[1].status, Status::Failed(Reason::BalanceTooLow));
}

#[test]
fn build_leaves_the_inadmissible_out_and_keeps_the_order() {
    let world = World::new();
    let mut candidates = world.txs(account(0), vec![pay(), pay(), pay()]);
    candidates.swap(0, 1);
    candidates.push(world.tx(account(51), pay()));
    candidates.push(world.tx(account(1), transfer(account(0), 5)));
    let built = world.build(&candidates);
    assert_eq!(built.included, [1, 4]);
    let too_high = Reason::NonceTooHigh;
    assert_eq!(built.refused, [(0, too_high), (2, too_high), (3, Reason::FeeNotCovered)]);
    let chosen: Vec<_> = built.included.iter().map(|index| candidates[*index].clone()).collect();
    assert_eq!(world.try_block(&chosen), Ok(built.applied));
}

#[test]
fn build_keeps_within_the_budget() {
    let world = World::new();
    let txs = world.txs(account(0), vec![pay(), pay(), pay(), pay()]);
    let size = txs[0].size_bytes();
    let check = |tx_max, bytes_max, expected: &[usize]| {
        let budget = Budget { tx_max, bytes_max };
        let built = build(&world.rules, &world.view, &world.env, &txs, budget).expect("built");
        assert_eq!(
            (built.included.as_slice(), built.refused.as_slice()),
            (expected, [].as_slice())
        );
    };
    check(u32::MAX, u32::MAX, &[0, 1, 2, 3]);
    check(2, u32::MAX, &[0, 1]);
    check(u32::MAX, 3 * size + 1, &[0, 1, 2]);
    check(0, u32::MAX, &[]);
    check(u32::MAX, 0, &[]);
}

#[test]
fn build_keeps_within_the_limits_of_the_ledger() {
    let mut world = World::new();
    let txs = world.txs(account(0), (0..160).map(|_| pay()).collect());
    let max = |world: &World| world.build(&txs).included.len();
    assert_eq!(max(&world), 150, "the most that fits in a block");
    world.env.tick = world.env.parent_tick;
    for _ in 0..6 {
        let txs = world.txs(account(0), (0..150).map(|_| pay()).collect());
        world.block(&txs);
        world.env.tick = world.env.parent_tick;
    }
    let txs = world.txs(account(0), (0..160).map(|_| pay()).collect());
    let max = |world: &World| world.build(&txs).included.len();
    assert_eq!(max(&world), 100, "what is left of a second's worth");
    world.wait(1);
    assert_eq!(max(&world), 101);
}
