//! Draws: who is drawn, by which beacon, and how often.

use std::collections::BTreeSet;

use tg_ledger::{Draw, apply};
use tg_types::{Action, CheckedTx, Event, JobId, JobStatus, NetworkKind, Params, Tier};

use super::audit_params;
use crate::fleet::*;
use crate::world::*;

/// Draws that a test of frequencies makes: enough for three sigma to be a few per cent.
const DRAWS: u32 = 400;

/// Applies a block without the checks of `World::block`, for tests that need many.
fn run(world: &mut World, txs: &[CheckedTx]) {
    let applied = apply(&world.rules, &world.view, &world.env, txs).expect("valid");
    world.commit(&applied);
}

/// The world after the beacon for what was committed to. Every number gives another beacon, because
/// it gives another block before it.
fn after_beacon(world: &World, number: u64) -> World {
    let mut world = world.clone();
    let filler = world.tx(account(9), transfer(account(50), number + 1));
    run(&mut world, &[filler]);
    for _ in 0..3 {
        let last = world.cursor().beacon.get();
        let until = world.env.height.get();
        world.env.certificates = (last + 1..until).map(|at| world.certificate(at)).collect();
        run(&mut world, &[]);
    }
    world
}

/// A network in which node 0 has shown the result of an audit that waits for its beacon.
fn waiting(params: Params, nodes: u8) -> (World, JobId) {
    let mut world = World::staffed_with(params, NetworkKind::Local, nodes);
    let job = world.ask(spec(Tier::Audit));
    world.deliver(0, job, &right());
    (world, job)
}

#[test]
fn owner_of_a_run_never_checks_it() {
    let mut world = World::staffed_with(audit_params(10_000), NetworkKind::Local, 2);
    for number in [5, 6, 7] {
        let txs = world.staff(number, 0, STAKE);
        world.block(&txs);
    }
    let mut owners = BTreeSet::new();
    for _ in 0..12 {
        let job = world.ask(spec(Tier::Audit));
        let provider = world.runners(job)[0];
        world.deliver(provider, job, &right());
        world.draw();
        let checkers = world.checkers(job);
        assert_eq!(checkers, [1], "the only other owner");
        world.vouch(job, &checkers, &right());
        owners.insert(provider);
    }
    assert_eq!(owners.into_iter().collect::<Vec<_>>(), [0]);
}

#[test]
fn draw_is_the_same_for_all_who_compute_it_and_another_for_another_beacon() {
    let (world, job) = waiting(audit_params(10_000), 10);
    let drawn = |number| after_beacon(&world, number).checkers(job);
    let draws: Vec<Vec<u8>> = (0..30).map(drawn).collect();
    for (number, checkers) in (0..30).zip(&draws) {
        assert_eq!(drawn(number), *checkers, "again");
        assert!(checkers.len() == 2 && !checkers.contains(&0));
    }
    let different: BTreeSet<&Vec<u8>> = draws.iter().collect();
    assert!(different.len() > 15, "72 are possible: {different:?}");
}

/// Goal: owners are drawn by their stake. Method: four owners with one to four shares, one checker,
/// many beacons; every count is within three sigma of its share.
#[test]
fn owners_are_drawn_as_often_as_their_stake_says() {
    let mut params = audit_params(10_000);
    params.jobs.audit_checkers = 1;
    let (mut world, _) = waiting(params, 5);
    for number in 2..5 {
        let more = Action::Stake { amount: units((u64::from(number) - 1) * STAKE) };
        world.succeed(account(number), more);
    }
    let job = world.ask(spec(Tier::Audit));
    world.deliver(0, job, &right());
    let mut counts = [0_u32; 5];
    for number in 0..DRAWS {
        let [checker] = after_beacon(&world, number.into()).checkers(job)[..] else {
            unreachable!("one checker");
        };
        counts[usize::from(checker)] += 1;
    }
    assert_eq!(counts[0], 0, "the provider");
    for (share, count) in (1..).zip(&counts[1..]) {
        check_count(*count, share, 10);
    }
}

/// A count of independent draws is within three sigma of what is expected if each has the chance
/// `part` of `whole`. The variance is draws * part * (whole - part) / whole^2.
fn check_count(count: u32, part: u32, whole: u32) {
    let [count, part, whole, draws] = [count, part, whole, DRAWS].map(u64::from);
    let distance = (count * whole).abs_diff(draws * part);
    let variance = draws * part * (whole - part);
    assert!(distance * distance <= 9 * variance, "{count} of {draws} drawn for {part}/{whole}");
}

#[test]
fn results_are_drawn_as_often_as_the_share_says() {
    for points in [1_000, 5_000] {
        let (world, job) = waiting(audit_params(points), 3);
        let is_drawn = |number: &u32| {
            let after = after_beacon(&world, u64::from(*number));
            after.known(job).status == JobStatus::Checking
        };
        let count = (0..DRAWS).filter(is_drawn).count();
        check_count(u32::try_from(count).expect("few"), points.into(), 10_000);
    }
}

/// Goal: splitting a stake over many nodes gains nothing. Method: an owner with as much stake as
/// another but eight nodes is drawn as often.
#[test]
fn owner_with_many_nodes_is_not_drawn_more_often() {
    let mut params = audit_params(10_000);
    params.jobs.audit_checkers = 1;
    let mut world = World::staffed_with(params, NetworkKind::Local, 3);
    for number in 3..10 {
        let txs = world.staff(number, 2, 1_000_000);
        world.block(&txs);
    }
    let less = Action::Unstake { amount: units(7_000_000) };
    world.succeed(account(2), less);
    let job = world.ask(spec(Tier::Audit));
    world.deliver(0, job, &right());
    let is_first = |number: &u32| after_beacon(&world, (*number).into()).checkers(job) == [1];
    let count = (0..DRAWS).filter(is_first).count();
    check_count(u32::try_from(count).expect("few"), 1, 2);
}

/// Goal: a result is never drawn by a beacon that was known when it was committed to. Method: the
/// first provider commits and falls silent; the second commits; then the first one's beacon comes.
#[test]
fn second_result_is_not_drawn_by_the_beacon_of_the_first() {
    let mut world = World::staffed_with(audit_params(0), NetworkKind::Local, 4);
    let job = world.ask(spec(Tier::Audit));
    let first = world.env.height.get();
    world.act(0, commit_as(0, job, &right()));
    world.pass(3_000);
    assert_eq!(world.runners(job), [1], "half of the bond is lost");
    let second = world.env.height.get();
    world.deliver(1, job, &right());
    assert_eq!(world.known(job).draw, Draw::Pending);

    let until = first + 2;
    let last = world.cursor().beacon.get();
    world.env.certificates = (last + 1..=until).map(|at| world.certificate(at)).collect();
    let events = world.block(&[]).block_receipt.events;
    assert!(!events.contains(&Event::ResultNotDrawn { job }));
    assert_eq!((world.status(job), world.known(job).draw), (JobStatus::Checking, Draw::Pending));
    assert_eq!(world.cursor().draw_height.get(), first + 1);
    let events = world.draw();
    assert!(events.contains(&Event::ResultNotDrawn { job }));
    assert!(world.cursor().draw_height.get() > second);
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn draws_of_a_block_are_bounded_and_continue_in_the_next() {
    let mut params = audit_params(0);
    params.jobs.draws_per_block_max = 2;
    let mut world = World::staffed_with(params, NetworkKind::Local, 3);
    let jobs = [(); 5].map(|()| world.ask(spec(Tier::Audit)));
    let txs = jobs.map(|job| {
        let number = world.runners(job)[0];
        (number, commit_as(number, job, &right()))
    });
    let mut all = Vec::new();
    for number in 0..3 {
        let mine = txs.iter().filter(|(who, _)| *who == number).map(|(_, it)| it.clone());
        all.extend(world.txs(voice(number), mine.collect()));
    }
    world.block(&all);
    let mut counts = Vec::new();
    for _ in 0..6 {
        let events = world.beat().block_receipt.events;
        let is_spared = |event: &&Event| matches!(event, Event::ResultNotDrawn { .. });
        counts.push(events.iter().filter(is_spared).count());
    }
    assert_eq!(counts, [0, 0, 2, 2, 1, 0]);
}

/// Goal: beacons may come late without harm. Method: as late as a block is still valid.
#[test]
fn late_beacons_draw_what_has_waited() {
    let mut world = World::staffed_with(audit_params(10_000), NetworkKind::Local, 4);
    let job = world.ask(spec(Tier::Audit));
    world.deliver(0, job, &right());
    let height = world.env.height.get();
    // Certificates come only when they must: 32 blocks later, one by one.
    while world.known(job).draw == Draw::Pending {
        world.block(&[]);
        assert!(world.env.height.get() < height + 40, "not drawn");
    }
    assert!(world.env.height.get() > height + 30);
    let checkers = world.checkers(job);
    world.vouch(job, &checkers, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}
