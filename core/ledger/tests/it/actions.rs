//! Every action: what it does, and for every reason of failure that it does nothing.

use crate::world::*;
use tg_ledger::{ApplyError, UNBONDING_MAX, apply, keys};
use tg_types::node::SLOTS_MAX;
use tg_types::tx::NodeSet;
use tg_types::{
    Action, Amount, Encode, Event, Height, JobId, JobStatus, List, NodeDescriptor, Reason,
    Signature, Status, Tick,
};

const ALICE: u8 = 0;
const BOB: u8 = 1;

fn stake(amount: u64) -> Action {
    Action::Stake { amount: units(amount) }
}

fn unstake(amount: u64) -> Action {
    Action::Unstake { amount: units(amount) }
}

/// Registers a node in the name of an account.
fn register(world: &mut World, owner: u8, number: u8) {
    let register = world.registration(number, account(owner), 5);
    world.succeed(account(owner), register);
}

fn submit_one() -> Action {
    submit(vec![job_spec(10_000)])
}

fn report(epoch: u64, nodes: &[u8]) -> Action {
    let nodes = nodes.iter().map(|number| node(*number)).collect();
    Action::ReportAbsent { epoch, nodes: NodeSet::new(nodes).expect("few nodes") }
}

fn epoch_of(tick: Tick) -> u64 {
    tick.get() / params().absence_epoch.get()
}

fn check_failure(world: &mut World, sender: u8, action: Action, reason: Reason) {
    world.fail(account(sender), action, reason, Amount::ZERO);
}

#[test]
fn transfer_to_new_account_moves_money() {
    let mut world = World::new();
    let before = world.balance(&account(ALICE));
    let events = world.succeed(account(ALICE), transfer(account(50), 7));
    let (from, to, amount) = (account(ALICE), account(50), units(7));
    assert_eq!(events, [Event::Transferred { from, to, amount }]);
    assert_eq!(world.balance(&account(50)), 7);
    assert_eq!(world.balance(&account(ALICE)), before - 7 - FEE.units());
}

#[test]
fn transfer_of_all_leaves_an_empty_account_with_its_nonce() {
    let mut world = World::new();
    let all = world.balance(&account(ALICE)) - FEE.units();
    world.succeed(account(ALICE), transfer(account(BOB), all));
    let left = world.account(&account(ALICE));
    assert_eq!((left.balance, left.lanes.used().count()), (Amount::ZERO, 1));
}

#[test]
fn transfer_back_and_forth_in_one_block_changes_only_fees() {
    let mut world = World::new();
    let there = world.tx(account(ALICE), transfer(account(BOB), 5));
    let back = world.tx(account(BOB), transfer(account(ALICE), 5));
    let before = (world.balance(&account(ALICE)), world.balance(&account(BOB)));
    world.block(&[there, back]);
    let after = (world.balance(&account(ALICE)), world.balance(&account(BOB)));
    assert_eq!(after, (before.0 - FEE.units(), before.1 - FEE.units()));
}

#[test]
fn transfer_that_fails_changes_nothing() {
    let mut world = World::new();
    let all = world.balance(&account(ALICE));
    check_failure(&mut world, ALICE, transfer(account(BOB), all), Reason::BalanceTooLow);
    check_failure(&mut world, ALICE, transfer(account(BOB), 0), Reason::AmountZero);
    check_failure(&mut world, ALICE, transfer(account(ALICE), 1), Reason::SelfTransfer);
}

#[test]
fn stake_moves_money_and_comes_back_by_itself() {
    let mut world = World::new();
    world.succeed(account(ALICE), stake(3_000_000));
    let events = world.succeed(account(ALICE), unstake(1_000_000));
    let due = world.stake(&account(ALICE)).unbonding.as_slice()[0].due;
    let (whose, amount) = (account(ALICE), units(1_000_000));
    assert_eq!(events, [Event::UnbondingStarted { account: whose, amount, due }]);
    assert_eq!(world.stake(&account(ALICE)).active, units(2_000_000));

    let before = world.balance(&account(ALICE));
    world.env.tick = Tick::new(due.get() - 1);
    assert_eq!(world.block(&[]).block_receipt.events, []);
    world.wait(1_000);
    assert_eq!(world.block(&[]).block_receipt.events, [Event::Unbonded { account: whose, amount }]);
    assert_eq!(world.balance(&account(ALICE)), before + 1_000_000);
    assert_eq!(world.stake(&account(ALICE)).unbonding.as_slice(), []);
}

#[test]
fn stake_called_back_in_full_leaves_no_entry() {
    let mut world = World::new();
    world.succeed(account(ALICE), stake(1_000_000));
    world.succeed(account(ALICE), unstake(1_000_000));
    world.wait(6_500);
    world.block(&[]);
    assert!(world.view.iter().all(|(key, _)| *key != keys::stake(&account(ALICE))));
}

#[test]
fn stake_that_fails_changes_nothing() {
    let mut world = World::new();
    let all = world.balance(&account(ALICE));
    check_failure(&mut world, ALICE, stake(0), Reason::AmountZero);
    check_failure(&mut world, ALICE, stake(all), Reason::BalanceTooLow);
    check_failure(&mut world, ALICE, stake(999_999), Reason::StakeTooLow);
    check_failure(&mut world, ALICE, unstake(1), Reason::StakeMissing);
    world.succeed(account(ALICE), stake(1_500_000));
    check_failure(&mut world, ALICE, unstake(0), Reason::AmountZero);
    check_failure(&mut world, ALICE, unstake(1_500_001), Reason::StakeMissing);
    check_failure(&mut world, ALICE, unstake(500_001), Reason::StakeTooLow);
}

#[test]
fn unstake_beyond_the_bound_is_refused_until_one_is_released() {
    let mut world = World::new();
    let count = UNBONDING_MAX as u64;
    world.succeed(account(ALICE), stake(1_000_000 + count + 1));
    let many = (0..count).map(|_| unstake(1)).collect();
    let txs = world.txs(account(ALICE), many);
    let applied = world.block(&txs);
    assert!(applied.receipts.iter().all(|receipt| receipt.status == Status::Applied));
    check_failure(&mut world, ALICE, unstake(1), Reason::UnbondingFull);
    for _ in 0..4 {
        world.wait(2_000);
        world.block(&[]);
    }
    world.succeed(account(ALICE), unstake(1));
}

#[test]
fn validator_cannot_call_its_last_stake_back() {
    let mut world = World::new();
    let all = world.stake(&owner(1)).active.units();
    world.fail(owner(1), unstake(all), Reason::ValidatorLocked, Amount::ZERO);
    world.fail(owner(1), unstake(all - 999_999), Reason::ValidatorLocked, Amount::ZERO);
    world.succeed(owner(1), unstake(all - 1_000_000));
}

#[test]
fn node_is_registered_changed_and_taken_out_by_its_owner() {
    let mut world = World::new();
    register(&mut world, ALICE, 1);
    let change = Action::ChangeNode { node: node(1), descriptor: descriptor(9) };
    world.succeed(account(ALICE), change);
    let entry = world.node(&node(1)).expect("registered");
    assert_eq!((entry.owner, entry.descriptor), (account(ALICE), descriptor(9)));
    let events = world.succeed(account(ALICE), Action::LeaveNode { node: node(1) });
    assert_eq!(events, [Event::NodeLeft { node: node(1), owner: account(ALICE) }]);
    assert_eq!(world.node(&node(1)), None);
    register(&mut world, BOB, 1);
}

#[test]
fn node_speaks_for_itself_as_its_owner_does() {
    let mut world = World::new();
    register(&mut world, ALICE, 1);
    let change = Action::ChangeNode { node: node(1), descriptor: descriptor(9) };
    world.succeed(voice(1), change);
    world.succeed(voice(1), Action::LeaveNode { node: node(1) });
    assert_eq!(world.node(&node(1)), None);
}

#[test]
fn node_action_that_fails_changes_nothing() {
    let mut world = World::new();
    let change = |number| Action::ChangeNode { node: node(number), descriptor: descriptor(9) };
    let leave = |number| Action::LeaveNode { node: node(number) };
    check_failure(&mut world, ALICE, change(1), Reason::NodeUnknown);
    check_failure(&mut world, ALICE, leave(1), Reason::NodeUnknown);
    register(&mut world, ALICE, 1);
    for owner in [ALICE, BOB] {
        let again = world.registration(1, account(owner), 5);
        check_failure(&mut world, owner, again, Reason::NodeExists);
    }
    check_failure(&mut world, BOB, change(1), Reason::NodeNotOwned);
    check_failure(&mut world, BOB, leave(1), Reason::NodeNotOwned);
    for slots in [0, SLOTS_MAX + 1, u16::MAX] {
        let descriptor = NodeDescriptor { slots, ..descriptor(9) };
        let change = Action::ChangeNode { node: node(1), descriptor };
        check_failure(&mut world, ALICE, change, Reason::SlotsWrong);
    }
}

#[test]
fn node_without_its_consent_is_refused() {
    let mut world = World::new();
    let wanted_by_alice = world.registration(1, account(ALICE), 5);
    check_failure(&mut world, BOB, wanted_by_alice, Reason::ConsentWrong);
    let Action::RegisterNode { consent, descriptor, .. } = world.registration(2, account(ALICE), 5)
    else {
        unreachable!("a registration");
    };
    let forged = |number, consent| {
        let descriptor = descriptor.clone();
        Action::RegisterNode { node: node(number), descriptor, consent }
    };
    check_failure(&mut world, ALICE, forged(1, consent), Reason::ConsentWrong);
    check_failure(&mut world, ALICE, forged(1, Signature::new([0; 64])), Reason::ConsentWrong);
    let no_key = Action::RegisterNode { node: NODE_OFF_CURVE, descriptor, consent };
    check_failure(&mut world, ALICE, no_key, Reason::ConsentWrong);
}

/// An id that is no point of the curve.
const NODE_OFF_CURVE: tg_types::NodeId = {
    let mut id = [0; 32];
    id[0] = 2;
    tg_types::NodeId::new(id)
};

#[test]
fn nodes_beyond_the_bound_are_refused_until_one_leaves() {
    let mut few = params();
    few.jobs.nodes_max = 3;
    let mut world = World::with(few);
    for number in 0..3 {
        register(&mut world, ALICE, number);
    }
    let fourth = world.registration(3, account(ALICE), 5);
    check_failure(&mut world, ALICE, fourth.clone(), Reason::NodesFull);
    // Whoever leaves from the middle leaves no hole; the audit of every block looks.
    world.succeed(account(ALICE), Action::LeaveNode { node: node(0) });
    world.succeed(account(ALICE), fourth);
    let places = [1, 2, 3].map(|number| world.node(&node(number)).expect("registered").place);
    assert_eq!(places, [1, 0, 2]);
}

/// A world with nodes 1 and 2 that have been registered for a whole epoch.
fn world_with_nodes() -> (World, u64) {
    let mut world = World::new();
    register(&mut world, ALICE, 1);
    register(&mut world, BOB, 2);
    world.wait(8_000);
    let epoch = epoch_of(world.env.tick);
    (world, epoch)
}

fn is_absent(world: &World, number: u8) -> bool {
    world.node(&node(number)).is_some_and(|entry| entry.absent.is_some())
}

#[test]
fn node_unseen_by_a_quorum_is_absent_and_then_dropped() {
    let (mut world, epoch) = world_with_nodes();
    let reported =
        |number: u8, count| Event::AbsenceReported { reporter: owner(number), epoch, count };
    assert_eq!(world.succeed(owner(0), report(epoch, &[1, 2])), [reported(0, 2)]);
    assert_eq!(world.succeed(owner(1), report(epoch, &[1])), [reported(1, 1)]);
    let absent = Event::NodeAbsent { node: node(1), owner: account(ALICE) };
    assert_eq!(world.succeed(owner(2), report(epoch, &[1])), [reported(2, 1), absent]);
    assert_eq!((is_absent(&world, 1), world.absence(&node(1))), (true, None));
    assert!(!is_absent(&world, 2));
    // A late report about a node that is absent already and one that is not counts for the latter.
    assert_eq!(world.succeed(owner(3), report(epoch, &[1, 2])), [reported(3, 1)]);

    world.wait(5_000);
    world.block(&[]);
    assert!(is_absent(&world, 1));
    world.wait(1_500);
    let dropped = Event::NodeDropped { node: node(1), owner: account(ALICE) };
    assert_eq!(world.block(&[]).block_receipt.events, [dropped]);
    assert_eq!(world.node(&node(1)), None);
    assert!(world.node(&node(2)).is_some());

    register(&mut world, ALICE, 1);
    assert!(world.node(&node(1)).is_some_and(|entry| entry.absent.is_none()), "it is back");
}

#[test]
fn absent_node_that_changes_is_present_and_not_dropped() {
    let (mut world, epoch) = world_with_nodes();
    for seat in 0..3 {
        world.succeed(owner(seat), report(epoch, &[1]));
    }
    world.wait(3_000);
    let change = Action::ChangeNode { node: node(1), descriptor: descriptor(5) };
    let back = world.env.tick;
    world.succeed(voice(1), change);
    assert!(!is_absent(&world, 1));
    assert_eq!(world.node(&node(1)).map(|entry| entry.since), Some(back));
    world.wait(5_000);
    assert_eq!(world.block(&[]).block_receipt.events, []);
    assert!(world.node(&node(1)).is_some());
}

#[test]
fn absent_node_that_came_back_and_went_again_is_dropped_by_the_later_date() {
    let (mut world, epoch) = world_with_nodes();
    for seat in 0..3 {
        world.succeed(owner(seat), report(epoch, &[1]));
    }
    let change = Action::ChangeNode { node: node(1), descriptor: descriptor(5) };
    world.succeed(voice(1), change);
    world.wait(5_000);
    let epoch = epoch_of(world.env.tick);
    let since = world.node(&node(1)).expect("registered").since;
    assert!(epoch * params().absence_epoch.get() >= since.get(), "a whole epoch");
    for seat in 0..3 {
        world.succeed(owner(seat), report(epoch, &[1]));
    }
    world.wait(2_000);
    assert_eq!(world.block(&[]).block_receipt.events, [], "the first date is passed over");
    world.wait(4_500);
    let dropped = Event::NodeDropped { node: node(1), owner: account(ALICE) };
    assert_eq!(world.block(&[]).block_receipt.events, [dropped]);
}

#[test]
fn node_reports_of_different_epochs_do_not_add_up() {
    let (mut world, epoch) = world_with_nodes();
    world.succeed(owner(0), report(epoch - 1, &[1]));
    world.succeed(owner(1), report(epoch, &[1]));
    world.succeed(owner(2), report(epoch, &[1]));
    world.succeed(owner(2), report(epoch - 1, &[1]));
    assert!(!is_absent(&world, 1));
    world.succeed(owner(1), report(epoch - 1, &[1]));
    assert!(is_absent(&world, 1), "three reports for the last epoch");
}

#[test]
fn node_reports_of_old_epochs_are_let_go() {
    let (mut world, epoch) = world_with_nodes();
    world.succeed(owner(0), report(epoch, &[1]));
    world.succeed(owner(1), report(epoch, &[1]));
    world.wait(8_000);
    world.succeed(owner(2), report(epoch + 2, &[1]));
    let votes = world.absence(&node(1)).expect("reported");
    let counts = (votes.epoch, votes.latest.count(), votes.before.count());
    assert_eq!(counts, (epoch + 2, 1, 0));
}

#[test]
fn report_by_voting_key_counts_once_with_its_owner() {
    let (mut world, epoch) = world_with_nodes();
    world.succeed(vote_key(0).into(), report(epoch, &[1]));
    let same_seat = report(epoch, &[1]);
    world.fail(owner(0), same_seat, Reason::ReportRepeated, Amount::ZERO);
}

#[test]
fn report_that_fails_changes_nothing() {
    let (mut world, epoch) = world_with_nodes();
    check_failure(&mut world, ALICE, report(epoch, &[1]), Reason::NotValidator);
    for wrong in [epoch + 1, epoch - 2, 0, u64::MAX] {
        world.fail(owner(0), report(wrong, &[1]), Reason::EpochWrong, Amount::ZERO);
    }
    world.succeed(owner(0), report(epoch, &[1]));
    world.fail(owner(0), report(epoch, &[1]), Reason::ReportRepeated, Amount::ZERO);
    world.fail(owner(0), report(epoch, &[77]), Reason::ReportRepeated, Amount::ZERO);
    register(&mut world, ALICE, 3);
    let too_young = report(epoch_of(world.env.tick), &[3]);
    world.fail(owner(0), too_young, Reason::ReportRepeated, Amount::ZERO);
}

#[test]
fn report_by_slashed_validator_is_refused() {
    let (mut world, _) = world_with_nodes();
    world.succeed(account(ALICE), evidence_against(&vote_key(3)));
    let epoch = epoch_of(world.env.tick);
    world.fail(owner(3), report(epoch, &[1]), Reason::NotValidator, Amount::ZERO);
}

#[test]
fn job_locks_escrow_and_cancel_returns_it() {
    let mut world = World::new();
    let before = world.balance(&account(ALICE));
    let receipt = world.run(account(ALICE), submit_one());
    let job = JobId::of(receipt.tx, 0);
    let (owner, escrow) = (account(ALICE), units(ESCROW));
    assert_eq!(receipt.events, [Event::JobQueued { job, owner, escrow }]);
    let entry = world.job(&job).expect("queued");
    let facts = (entry.owner, entry.escrow, entry.status);
    assert_eq!(facts, (owner, escrow, JobStatus::Queued));
    assert_eq!(world.balance(&account(ALICE)), before - ESCROW - FEE.units());
    assert_eq!(world.totals().escrow, escrow);

    let events = world.succeed(account(ALICE), Action::CancelJob { job });
    assert_eq!(events, [Event::JobCancelled { job, owner, refund: escrow }]);
    assert_eq!(world.balance(&account(ALICE)), before - 2 * FEE.units());
    let entry = world.job(&job).expect("still readable");
    assert_eq!((entry.escrow, entry.status), (Amount::ZERO, JobStatus::Cancelled));
}

#[test]
fn job_not_done_in_time_expires_and_is_forgotten_later() {
    let mut world = World::new();
    let before = world.balance(&account(ALICE));
    let job = JobId::of(world.run(account(ALICE), submit_one()).tx, 0);
    world.wait(9_000);
    assert_eq!(world.block(&[]).block_receipt.events, []);
    world.wait(2_000);
    let (owner, refund) = (account(ALICE), units(ESCROW));
    let expired = Event::JobExpired { job, owner, refund };
    assert_eq!(world.block(&[]).block_receipt.events, [expired]);
    assert_eq!(world.balance(&account(ALICE)), before - FEE.units());
    assert_eq!(world.job(&job).map(|entry| entry.status), Some(JobStatus::Expired));
    check_failure(&mut world, ALICE, Action::CancelJob { job }, Reason::JobClosed);
    world.wait(4_000);
    world.block(&[]);
    assert_eq!(world.job(&job), None);
}

/// Goal: a closed job can be read for the retention time, even if the date of its expiry comes
/// first. Method: cancel shortly before that date.
#[test]
fn job_closed_just_before_its_expiry_stays_readable() {
    let mut world = World::new();
    let job = JobId::of(world.run(account(ALICE), submit_one()).tx, 0);
    world.wait(9_000);
    world.succeed(account(ALICE), Action::CancelJob { job });
    world.wait(2_000);
    world.block(&[]);
    assert_eq!(world.job(&job).map(|entry| entry.status), Some(JobStatus::Cancelled));
    world.wait(2_000);
    world.block(&[]);
    assert_eq!(world.job(&job), None);
}

#[test]
fn job_action_that_fails_changes_nothing() {
    let mut world = World::new();
    let many = |pay: u64| submit(vec![tg_types::JobSpec { pay: units(pay), ..job_spec(1) }]);
    let dear = many(world.balance(&account(ALICE)));
    let most = units(ESCROW - 1);
    let specs = List::new(vec![job_spec(1)]).expect("one job");
    let tight = Action::SubmitJobs { specs, escrow_max: most, vouchers: List::default() };
    let unknown = Action::CancelJob { job: JobId::new([9; 32]) };
    check_failure(&mut world, ALICE, tight, Reason::EscrowTooLow);
    check_failure(&mut world, ALICE, dear, Reason::BalanceTooLow);
    check_failure(&mut world, ALICE, many(Amount::CAP.units()), Reason::EscrowTooLow);
    check_failure(&mut world, ALICE, submit(vec![job_spec(20_001)]), Reason::JobExpiryTooLong);
    check_failure(&mut world, ALICE, many(99), Reason::PayTooLow);
    let long = tg_types::JobSpec { run_max: tg_types::DurationMs::new(4_001), ..job_spec(1) };
    check_failure(&mut world, ALICE, submit(vec![job_spec(1), long]), Reason::RunTooLong);
    check_failure(&mut world, ALICE, unknown, Reason::JobUnknown);
    let job = JobId::of(world.run(account(ALICE), submit_one()).tx, 0);
    check_failure(&mut world, BOB, Action::CancelJob { job }, Reason::JobNotOwned);
    world.succeed(account(ALICE), Action::CancelJob { job });
    check_failure(&mut world, ALICE, Action::CancelJob { job }, Reason::JobClosed);
}

#[test]
fn slash_takes_a_share_of_active_and_unbonding_stake() {
    let mut world = World::new();
    let total = world.stake(&owner(2)).active.units();
    world.succeed(owner(2), unstake(8_500_000));
    let before = (world.balance(&account(ALICE)), world.totals().burned.units());
    let events = world.succeed(account(ALICE), evidence_against(&vote_key(2)));

    let (lost, bounty) = (total / 4, total / 4 / 10);
    let (offender, reporter) = (owner(2), account(ALICE));
    let (amount, bounty_paid) = (units(lost), units(bounty));
    assert_eq!(events, [Event::Slashed { offender, reporter, amount, bounty: bounty_paid }]);
    let stake = world.stake(&owner(2));
    assert_eq!(stake.active, Amount::ZERO, "1 500 002 active went first");
    assert_eq!(stake.unbonding.as_slice()[0].amount.units(), total - lost);
    assert_eq!(world.balance(&account(ALICE)), before.0 + bounty - FEE.units());
    let burned_fee = FEE.units() * 3_333 / 10_000;
    assert_eq!(world.totals().burned.units(), before.1 + lost - bounty + burned_fee);
    assert_eq!(world.validator(&vote_key(2)).expect("a seat").slashed, Some(Height::new(3)));

    world.wait(6_500);
    let freed = Event::Unbonded { account: owner(2), amount: units(total - lost) };
    assert_eq!(world.block(&[]).block_receipt.events, [freed]);
}

#[test]
fn slash_of_everything_leaves_nothing_to_release() {
    let mut all = params();
    all.slash_equivocation_bps = tg_types::Bps::WHOLE;
    let mut world = World::with(all);
    world.succeed(owner(2), unstake(1_000));
    world.succeed(owner(2), evidence_against(&vote_key(2)));
    assert!(world.view.iter().all(|(key, _)| *key != keys::stake(&owner(2))));
    world.wait(6_500);
    assert_eq!(world.block(&[]).block_receipt.events, []);
}

#[test]
fn evidence_that_fails_changes_nothing_but_the_penalty() {
    let mut world = World::new();
    let penalty = params().forged_evidence_penalty;
    let stranger = evidence_against(&vote_key(9));
    check_failure(&mut world, ALICE, stranger, Reason::OffenderUnknown);
    world.succeed(account(ALICE), evidence_against(&vote_key(1)));
    check_failure(&mut world, ALICE, evidence_against(&vote_key(1)), Reason::AlreadySlashed);
    let forged = forged_evidence(&vote_key(2));
    world.fail(account(ALICE), forged, Reason::EvidenceForged, penalty);
}

#[test]
fn forged_evidence_by_the_poor_takes_what_there_is() {
    let mut world = World::new();
    world.succeed(account(ALICE), transfer(account(50), FEE.units() + 11));
    world.fail(account(50), forged_evidence(&vote_key(1)), Reason::EvidenceForged, units(11));
    assert_eq!(world.balance(&account(50)), 0);
}

#[test]
fn state_out_of_balance_stops_the_block() {
    let world = World::new();
    let mut totals = world.totals();
    totals.treasury = totals.treasury.plus(units(1)).expect("below the cap");
    let mut view = world.view.clone();
    view.commit(&[(keys::totals(), Some(totals.to_bytes()))].into());
    let error = apply(&world.rules, &view, &world.env, &[]).expect_err("a unit too many");
    assert!(
        matches!(error, ApplyError::Unbalanced { totals, entries, .. } if totals + 1 == entries)
    );
}
