//! Audits by tiles: what checkers must show, what it costs, and what they are liable for.

use tg_ledger::CheckState;
use tg_types::tx::OpenedCheck;
use tg_types::{
    Action, Bytes, CheckAnswer, Event, Extent, Hash32, JobId, JobStatus, List, NetworkKind, Params,
    Reason, Tier,
};

use super::{audit_params, charged};
use crate::fleet::*;
use crate::judge::{answer, wrong_tile};
use crate::world::*;

/// Every result is drawn, and every audit goes by tiles.
fn tile_params() -> Params {
    let mut params = audit_params(10_000);
    params.jobs.audit_tiles_from = 1;
    params
}

/// A job whose result was drawn, its provider and its two checkers.
fn audited(result: &tg_types::RunResult) -> (World, JobId, u8, [u8; 2]) {
    let mut world = World::staffed_with(tile_params(), NetworkKind::Local, 6);
    let job = world.ask(spec(Tier::Audit));
    let [provider] = world.runners(job)[..] else { unreachable!("one run") };
    world.deliver(provider, job, result);
    world.draw();
    let [first, second] = world.checkers(job)[..] else { unreachable!("two checkers") };
    (world, job, provider, [first, second])
}

#[test]
fn audit_by_tiles_is_paid_less_and_its_bytes_are_paid_for() {
    let (mut world, job, _, checkers) = audited(&right());
    assert_eq!(world.known(job).extent, Extent::Tiles);
    let prices = prices(&tile_params(), Tier::Audit);
    assert_eq!(prices.check_pay, units(PAY * 3 / 100));
    assert_eq!(prices.check_fees, units(120 + 4 * 50));
    let voices = checkers.map(|number| world.balance(&voice(number)));
    assert_eq!(world.check_of(job, checkers[0]).bond, units(20 * PAY * 3 / 100));
    let events = world.vouch(job, &checkers, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
    assert_eq!(charged(&events), (prices.escrow.units(), 0));
    for (number, before) in checkers.iter().zip(voices) {
        let owner = account(*number);
        let paid = Event::CheckerPaid { job, node: node(*number), owner, amount: prices.check_pay };
        assert!(events.contains(&paid));
        assert!(world.balance(&voice(*number)) <= before + prices.check_fees.units());
    }
}

#[test]
fn small_programs_and_other_tiers_are_recomputed_as_a_whole() {
    let mut params = tile_params();
    let facts = 1_000 * (PROGRAM.len() as u64 - 4);
    for (from, tier, expected) in [
        (facts, Tier::Audit, Extent::Tiles),
        (facts + 1, Tier::Audit, Extent::Whole),
        (facts, Tier::Sync, Extent::Whole),
        (facts, Tier::Trusted, Extent::Whole),
    ] {
        params.jobs.audit_tiles_from = from;
        let mut world = World::staffed_with(params.clone(), NetworkKind::Local, 6);
        let job = world.ask(spec(tier));
        assert_eq!(world.known(job).extent, expected);
        let [provider] = world.runners(job)[..] else { unreachable!("one run") };
        world.deliver(provider, job, &right());
        world.draw();
        let entry = world.known(job);
        let has_lot = |check: &tg_ledger::Check| check.lot.is_some();
        assert!(
            entry.checks.as_slice().iter().all(|it| has_lot(it) == (expected == Extent::Tiles))
        );
    }
}

#[test]
fn lots_differ_between_checkers_jobs_and_rounds() {
    let (mut world, job, provider, checkers) = audited(&right());
    let mut lots: Vec<Hash32> =
        checkers.iter().filter_map(|number| world.check_of(job, *number).lot).collect();
    world.pass(4_000);
    let entry = world.known(job);
    lots.extend(entry.checks.as_slice().iter().filter(|it| it.round == 1).filter_map(|it| it.lot));
    assert_eq!(lots.len(), 4, "two rounds of two");
    let next = world.ask(spec(Tier::Audit));
    let runner = world.runners(next)[0];
    assert_eq!(runner, provider, "the cheapest");
    world.deliver(runner, next, &right());
    world.draw();
    lots.extend(world.known(next).checks.as_slice().iter().filter_map(|it| it.lot));
    let count = lots.len();
    lots.sort_unstable();
    lots.dedup();
    assert_eq!((count, lots.len()), (6, 6));
}

/// Goal: only who knows the digests of its own tiles has answered. Method: every answer that is
/// something else is sealed and shown once, and misses the check in the end.
#[test]
fn answer_that_does_not_show_its_own_tiles_is_a_missed_check() {
    let wrong_bytes = |answer: &CheckAnswer, change: fn(&mut Vec<u8>)| {
        let CheckAnswer::Tiles { trace, tiles } = answer else { unreachable!("tiles") };
        let mut bytes = tiles.as_slice().to_vec();
        change(&mut bytes);
        CheckAnswer::Tiles { trace: *trace, tiles: Bytes::new(bytes).expect("short") }
    };
    for case in 0..7 {
        let (mut world, job, _, [first, second]) = audited(&right());
        let own = answer_to(&world.check_of(job, first), &right());
        let given = match case {
            0 => wrong_bytes(&own, |bytes| bytes[0] ^= 1),
            1 => wrong_bytes(&own, |bytes| bytes.truncate(31)),
            2 => wrong_bytes(&own, |bytes| bytes.push(0)),
            3 => wrong_bytes(&own, Vec::clear),
            4 => answer_to(&world.check_of(job, second), &right()), // somebody else's
            5 => answer_in(0, &right()),                            // the key of the whole run
            _ => CheckAnswer::Tiles {
                trace: right().trace,
                tiles: Bytes::new(vec![7; 14 * 1024]).expect("full"),
            },
        };
        world.act(first, seal_answer(first, job, &given));
        let good = answer_to(&world.check_of(job, second), &right());
        world.act(second, seal_answer(second, job, &good));
        world.refused(first, show_answer(first, job, &own), Reason::SealWrong);
        let events = world.act(first, show_answer(first, job, &given));
        assert_eq!(events, [Event::CheckRefused { job, node: node(first) }]);
        world.refused(first, show_answer(first, job, &given), Reason::CheckNotThere);
        world.refused(first, show_answer(first, job, &own), Reason::CheckNotThere);
        world.act(second, show_answer(second, job, &good));
        let events = world.pass(3_000);
        assert!(events.contains(&Event::CheckMissed { job, node: node(first) }), "case {case}");
    }
}

#[test]
fn tiles_for_a_check_of_the_whole_run_are_refused() {
    let mut world = World::staffed(6);
    let (job, _, checkers) = world.checked(&right());
    let tiles = Bytes::new(vec![1; 64]).expect("short");
    let answer = CheckAnswer::Tiles { trace: right().trace, tiles };
    for number in &checkers {
        world.act(*number, seal_answer(*number, job, &answer));
    }
    let events = world.act(checkers[0], show_answer(checkers[0], job, &answer));
    assert_eq!(events, [Event::CheckRefused { job, node: node(checkers[0]) }]);
}

#[test]
fn transaction_with_two_tile_answers_is_refused() {
    let (mut world, job, _, [first, second]) = audited(&right());
    for number in [first, second] {
        let answer = answer_to(&world.check_of(job, number), &right());
        world.act(number, seal_answer(number, job, &answer));
    }
    let answer = answer_to(&world.check_of(job, first), &right());
    let opened = OpenedCheck { job, answer, salt: [first; 32] };
    let answers = List::new(vec![opened.clone(), opened]).expect("two");
    world.refused(first, Action::RevealChecks { answers }, Reason::CheckKeyWrong);
}

/// Goal: a checker of tiles answers for its tiles and for nothing else. Method: both have vouched
/// for a wrong result, one by a sealed and one by a shown answer; a tile of the first is refuted.
#[test]
fn refuted_tile_costs_only_those_who_had_it() {
    for guilty in 0..3_usize {
        let (mut world, job, provider, checkers) = audited(&wrong(1));
        let answers = checkers.map(|number| answer_to(&world.check_of(job, number), &wrong(1)));
        for (number, answer) in checkers.iter().zip(&answers) {
            world.act(*number, seal_answer(*number, job, answer));
        }
        world.act(checkers[0], show_answer(checkers[0], job, &answers[0]));
        assert_eq!(world.check_of(job, checkers[0]).state, CheckState::Passed);
        let lots = checkers.map(|number| {
            let lot = world.check_of(job, number).lot.expect("tiles");
            lot.as_bytes()[0]
        });
        assert_ne!(lots[0], lots[1], "the test's lots differ in the first byte");
        let other = (0..=u8::MAX).find(|tile| !lots.contains(tile)).expect("two are taken");
        let tile = lots.get(guilty).copied().unwrap_or(other);
        world.succeed(account(CHALLENGER), Action::Object { job });
        world.act(provider, answer_by(job, answer(0, 16)));
        let events = world.succeed(account(CHALLENGER), judge_by(job, &wrong_tile(tile)));
        let slashed = |number: u8| {
            let is_it = |event: &&Event| {
                let Event::NodeSlashed { node: of, .. } = event else { return false };
                *of == node(number)
            };
            events.iter().filter(is_it).count()
        };
        assert_eq!(slashed(provider), 1);
        let expected = [usize::from(guilty == 0), usize::from(guilty == 1)];
        assert_eq!(checkers.map(slashed), expected);
    }
}
