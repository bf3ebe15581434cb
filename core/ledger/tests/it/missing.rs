//! Views that have not loaded everything.

use crate::fleet::*;
use crate::world::*;
use tg_ledger::{
    ApplyError, LIST_PAGE_MAX, ListOf, Lookup, PartialView, QueueRow, View, apply, build, keys,
    reads,
};
use tg_types::tx::ArrayTasks;
use tg_types::{
    Action, Amount, DurationMs, Event, Hash32, IdempotencyId, JobSpec, List, StateKey, Tier,
    TxBody, Work,
};

/// Everything that `reads` names, as it is in the state.
fn loaded(world: &World, txs: &[tg_types::CheckedTx]) -> PartialView {
    let keys = reads(&world.rules.genesis, &world.env, txs);
    assert!(keys.is_sorted_by(|a, b| a < b));
    keys.into_iter().map(|key| (key, stored(world, &key))).collect()
}

/// An entry as it is in the state.
fn stored(world: &World, key: &StateKey) -> Option<Vec<u8>> {
    match world.view.get(key) {
        Lookup::Present(bytes) => Some(bytes.to_vec()),
        Lookup::Absent | Lookup::Unknown => None,
    }
}

#[test]
fn missing_entries_are_all_named_at_once() {
    let world = World::new();
    let txs = [
        world.tx(account(0), transfer(account(1), 5)),
        world.tx(account(2), transfer(account(3), 5)),
    ];
    let error = apply(&world.rules, &PartialView::new(), &world.env, &txs);
    let named = reads(&world.rules.genesis, &world.env, &txs);
    assert_eq!(error, Err(ApplyError::Missing(named.clone())));
    let built = build(&world.rules, &PartialView::new(), &world.env, &txs, NO_BUDGET);
    assert_eq!(built.expect_err("nothing is known"), ApplyError::Missing(named));
}

#[test]
fn reads_suffice_for_ordinary_blocks() {
    let mut world = World::new();
    let mark = Some(IdempotencyId::new([1; 16]));
    let marked = world.body(account(3), transfer(account(60), 5));
    let txs = [
        world.tx(account(0), transfer(account(1), 5)),
        world.tx(account(1), Action::Stake { amount: units(2_000_000) }),
        world.sign(TxBody { idempotency: mark, ..marked }),
    ];
    world.wait(1_000);
    world.env.certificates = vec![world.certificate(1)];
    let applied = apply(&world.rules, &loaded(&world, &txs), &world.env, &txs);
    assert_eq!(applied, world.try_block(&txs));
    applied.expect("nothing is missing");
}

#[test]
fn missing_entries_of_later_transactions_are_named_too() {
    let mut world = World::new();
    world.env.tick = world.env.parent_tick;
    let txs = [
        world.tx(account(0), evidence_against(&vote_key(1))),
        world.tx(account(1), evidence_against(&vote_key(2))),
        world.tx(account(2), transfer(account(2), 1)),
    ];
    let error = apply(&world.rules, &loaded(&world, &txs), &world.env, &txs);
    let mut named = vec![keys::validator(&vote_key(1)), keys::validator(&vote_key(2))];
    named.sort_unstable();
    assert_eq!(error, Err(ApplyError::Missing(named)));
}

#[test]
fn missing_entries_come_before_a_refusal_that_may_depend_on_them() {
    let world = World::new();
    let [first, second] = world
        .txs(account(0), vec![evidence_against(&vote_key(1)), transfer(account(1), 5)])
        .try_into()
        .expect("two");
    let txs = [first, second.clone(), second];
    let error = apply(&world.rules, &loaded(&world, &txs), &world.env, &txs);
    assert!(matches!(error, Err(ApplyError::Missing(_))));
}

/// Goal: whatever a block needs is asked for before its transactions are executed, but for pages
/// that it begins itself: nobody knows those, and asking would make all of it be executed again.
/// Method: two blocks that take in more jobs than a page of the queue holds, the second behind the
/// holes that the first has left; what is asked for is given.
#[test]
fn pages_that_a_block_begins_are_not_asked_for() {
    let mut world = World::staffed(3);
    let spec = JobSpec { work: Work::Opaque { task: Hash32::new([1; 32]) }, ..spec(Tier::Trusted) };
    for next in [0, 200] {
        let (tasks, vouchers) = (ArrayTasks { first: 0, count: 200 }, List::default());
        let (spec, escrow_max) = (spec.clone(), Amount::CAP);
        let array = Action::SubmitArray { spec, tasks, escrow_max, vouchers };
        let txs = [world.tx(account(CLIENT), array)];
        let begun = next / LIST_PAGE_MAX + 1..=(next + 200) / LIST_PAGE_MAX;
        let begun: Vec<StateKey> = QueueRow::all()
            .flat_map(|row| {
                begun.clone().map(move |page| keys::list_page(ListOf::Queue(row), page))
            })
            .collect();
        let mut view = loaded(&world, &txs);
        let applied = loop {
            match apply(&world.rules, &view, &world.env, &txs) {
                Err(ApplyError::Missing(missing)) => {
                    for key in missing {
                        assert!(!begun.contains(&key), "{key:?} is not there yet");
                        view.hold(key, stored(&world, &key));
                    }
                }
                applied => break applied.expect("the block is valid"),
            }
        };
        assert_eq!(applied, world.block(&txs));
    }
}

/// Goal: what deciding about promises that wait needs is asked for before the block's transactions
/// are executed. Method: more promises than a block decides about, which all are refused; what the
/// next block asks for is given, and how often it does is counted.
#[test]
fn promises_that_wait_are_loaded_ahead() {
    let mut world = World::staffed(1);
    let by = world.env.tick.plus(DurationMs::MINUTE).expect("early");
    let mut spec = JobSpec { promise: Some(by), ..spec(Tier::Trusted) };
    spec.needs.memory_mib_min = 4_096;
    let asks = vec![submit(vec![spec.clone(); 24]), submit(vec![spec; 24])];
    let asks = world.txs(account(CLIENT), asks);
    world.block(&asks);
    for _ in 0..2 {
        let mut view = loaded(&world, &[]);
        let mut rounds = 0;
        let applied = loop {
            match apply(&world.rules, &view, &world.env, &[]) {
                Err(ApplyError::Missing(missing)) => {
                    rounds += 1;
                    missing.iter().for_each(|key| view.hold(*key, stored(&world, key)));
                }
                applied => break applied.expect("the block is valid"),
            }
        };
        let refused = |event: &&Event| matches!(event, Event::PromiseRefused { .. });
        assert!(applied.block_receipt.events.iter().filter(refused).count() > 0);
        assert_eq!(applied, world.block(&[]));
        assert!(rounds <= 4, "{rounds} rounds");
    }
}
