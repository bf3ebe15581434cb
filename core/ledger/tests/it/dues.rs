//! The due queue: nothing early, nothing twice, nothing lost, and never too much at once.

use crate::world::*;
use tg_ledger::{PAGE_ITEMS_MAX, SECONDS_PER_BLOCK_MAX};
use tg_types::ids::Noun;
use tg_types::{DurationMs, Event, JobId};

fn submit_many(world: &mut World, count: usize, expires_after_ms: u64) -> Vec<JobId> {
    let actions = (0..count).map(|_| submit(vec![job_spec(expires_after_ms)])).collect();
    let txs = world.txs(account(0), actions);
    world.block(&txs);
    txs.iter().map(|tx| JobId::of(tx.id(), 0)).collect()
}

fn expired(events: &[Event]) -> Vec<JobId> {
    let job = |event: &Event| {
        let Event::JobExpired { job, .. } = event else {
            return None;
        };
        Some(*job)
    };
    events.iter().filter_map(job).collect()
}

#[test]
fn due_work_is_bounded_and_continues_in_order() {
    let mut world = World::new();
    let jobs = submit_many(&mut world, 12, 2_000);
    world.wait(3_000);
    let mut seen = Vec::new();
    for count in [5, 5, 2] {
        let applied = world.block(&[]);
        let closed = expired(&applied.block_receipt.events);
        assert_eq!(closed.len(), count, "at most five a block");
        seen.extend(closed);
    }
    assert_eq!(seen, jobs);
}

#[test]
fn due_second_with_many_items_takes_several_pages() {
    let mut rules = params();
    rules.due_per_block_max = 70;
    let mut world = World::with(rules);
    let count = 2 * PAGE_ITEMS_MAX + 3;
    let jobs = submit_many(&mut world, count, 5_000);
    assert_eq!(world.ids(Noun::Due).len(), 1 + 3, "a head and three pages");
    world.wait(6_000);
    let first = expired(&world.block(&[]).block_receipt.events);
    let second = expired(&world.block(&[]).block_receipt.events);
    assert_eq!([first, second].concat(), jobs);
    world.wait(5_000);
    world.block(&[]);
    world.block(&[]);
    assert_eq!((world.ids(Noun::Due), world.ids(Noun::Job)), (vec![], vec![]));
}

#[test]
fn due_item_without_delay_is_visited_in_the_next_second() {
    let mut world = World::new();
    for _ in 0..10 {
        world.wait(900); // on and off a full second
        let jobs = submit_many(&mut world, 1, 0);
        world.wait(1_000);
        assert_eq!(expired(&world.block(&[]).block_receipt.events), jobs);
    }
}

#[test]
fn due_queue_catches_up_after_a_long_pause() {
    let mut rules = params();
    rules.tick_step_max = DurationMs::HOUR;
    let mut world = World::with(rules);
    let jobs = submit_many(&mut world, 1, 10_000);
    let first_second = world.cursor().due_second;
    world.wait(3_000_000);
    let second = world.env.tick.second();
    assert_eq!(expired(&world.block(&[]).block_receipt.events), jobs);
    assert_eq!(world.cursor().due_second, first_second + SECONDS_PER_BLOCK_MAX);
    let blocks = (second + 1 - first_second).div_ceil(SECONDS_PER_BLOCK_MAX);
    for _ in 0..blocks {
        world.block(&[]);
    }
    assert_eq!(world.cursor().due_second, world.env.parent_tick.second() + 1);
}

#[test]
fn due_item_added_while_the_queue_lags_is_not_lost() {
    let mut rules = params();
    rules.due_per_block_max = 1;
    let mut world = World::with(rules);
    let early = submit_many(&mut world, 6, 1_000);
    world.wait(5_000);
    let late = submit_many(&mut world, 1, 0);
    let mut seen = expired(&world.block(&[]).block_receipt.events);
    for _ in 0..30 {
        world.wait(500);
        seen.extend(expired(&world.block(&[]).block_receipt.events));
    }
    seen.sort_unstable();
    let mut all = [&early[1..], &late[..]].concat();
    all.sort_unstable();
    assert_eq!(seen, all, "the first of the early ones expired with the late one's block");
}
