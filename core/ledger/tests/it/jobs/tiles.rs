//! Audits by tiles: what checkers must show, what it costs, and what they are liable for.

use tg_ledger::{BEACON_DELAY, CheckState, drawn_lot};
use tg_types::tx::OpenedCheck;
use tg_types::{
    Action, Bytes, CheckAnswer, Event, Extent, Hash32, JobId, JobStatus, List, NetworkKind, Params,
    Reason, Tier, TileLot,
};

use super::{audit_params, charged};
use crate::fleet::*;
use crate::judge::{answer, known_root, tile_answer, wrong_tile};
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

/// What a checker commits to that has recomputed the whole run.
fn whole(number: u8, trace: Hash32, tiles: &[u8]) -> CheckAnswer {
    let known = known_root(&trace, &node(number));
    CheckAnswer::Whole { trace, known, tiles: Bytes::new(tiles.to_vec()).expect("short") }
}

/// The same with the tiles that were drawn since.
fn whole_shown(world: &World, job: JobId, number: u8, trace: Hash32) -> CheckAnswer {
    let check = world.check_of(job, number);
    let CheckState::Committed { beacon: Some(beacon), .. } = check.state else {
        unreachable!("the beacon has spoken");
    };
    let lot = TileLot { lot: check.lot.expect("tiles"), tiles: job_params().audit_tiles };
    whole(number, trace, &tile_answer(&trace, &drawn_lot(&beacon, &lot)))
}

/// Goal: a provider that does not show its tiles pays for the work it makes. Method: none, one or
/// both checkers have recomputed the whole run; the client pays the same.
#[test]
fn checkers_that_recompute_the_whole_run_are_paid_by_the_provider() {
    let prices = prices(&tile_params(), Tier::Audit);
    assert!(prices.unshown > units(0) && prices.unshown.units() * 2 < PAY);
    for count in 0..=2_usize {
        let (mut world, job, provider, checkers) = audited(&right());
        let trace = right().trace;
        for (place, number) in checkers.iter().enumerate() {
            let tiles = answer_to(&world.check_of(job, *number), &right());
            let answer = if place < count { whole(*number, trace, &[]) } else { tiles };
            world.act(*number, seal_answer(*number, job, &answer));
        }
        world.draw();
        let mut events = Vec::new();
        for (place, number) in checkers.iter().enumerate() {
            let answer = if place < count {
                whole_shown(&world, job, *number, trace)
            } else {
                answer_to(&world.check_of(job, *number), &right())
            };
            events.extend(world.act(*number, show_answer(*number, job, &answer)));
        }
        assert_eq!(world.status(job), JobStatus::Settled);
        assert_eq!(charged(&events), (prices.escrow.units(), 0), "the client pays the same");
        let taken = prices.unshown.units() * count as u64;
        let (node_of, owner) = (node(provider), account(provider));
        let amount = units(PAY - taken);
        assert!(events.contains(&Event::ProviderPaid { job, node: node_of, owner, amount }));
        for (place, number) in checkers.iter().enumerate() {
            let is_whole = place < count;
            let more = if is_whole { prices.unshown.units() } else { 0 };
            let (node, owner) = (node(*number), account(*number));
            let amount = units(prices.check_pay.units() + more);
            assert!(events.contains(&Event::CheckerPaid { job, node, owner, amount }));
            assert_eq!(events.contains(&Event::TilesNotShown { job, node }), is_whole);
            assert_eq!(world.check_of(job, *number).lot.is_none(), is_whole);
        }
    }
}

/// Goal: only who knew all digests when it committed has recomputed the run. Method: answers before
/// the beacon, for another beacon, of another checker, with another commitment, and the key.
#[test]
fn whole_run_that_was_not_committed_to_is_not_shown() {
    let trace = right().trace;
    for case in 0..4 {
        let (mut world, job, _, [first, second]) = audited(&right());
        let committed = match case {
            0 | 1 => whole(first, trace, &[]),
            2 => whole(second, trace, &[]),
            _ => answer_in(0, &right()), // which follows from what a provider shows
        };
        world.act(first, seal_answer(first, job, &committed));
        world.act(second, seal_answer(second, job, &whole(second, trace, &[])));
        let early = show_answer(first, job, &committed);
        if case < 3 {
            world.refused(first, early, Reason::CheckNotThere);
        }
        world.draw();
        let shown = whole_shown(&world, job, first, trace);
        let CheckAnswer::Whole { tiles, .. } = &shown else { unreachable!("whole") };
        let given = match case {
            0 => {
                world.act(first, show_answer(first, job, &shown));
                continue;
            }
            1 => {
                let mut bytes = tiles.as_slice().to_vec();
                bytes[0] ^= 1;
                whole(first, trace, &bytes)
            }
            2 => whole(second, trace, tiles.as_slice()),
            _ => committed,
        };
        let events = world.act(first, show_answer(first, job, &given));
        assert_eq!(events, [Event::CheckRefused { job, node: node(first) }], "case {case}");
    }
}

/// Goal: the small bond of a check of tiles does not answer for a provider that falls silent.
/// Method: both checkers recomputed the whole run, and somebody objects.
#[test]
fn who_recomputed_the_whole_run_does_not_stand_in_for_its_provider() {
    let (mut world, job, provider, [first, second]) = audited(&wrong(1));
    let trace = wrong(1).trace;
    for number in [first, second] {
        world.act(number, seal_answer(number, job, &whole(number, trace, &[])));
    }
    world.draw();
    let shown = whole_shown(&world, job, first, trace);
    world.act(first, show_answer(first, job, &shown));
    world.succeed(account(CHALLENGER), Action::Object { job });
    let events = world.pass(3_000);
    assert!(!events.iter().any(|event| matches!(event, Event::DefencePassed { .. })));
    let lost = |number: u8| STAKE - world.stake(&account(number)).active.units();
    assert_eq!([provider, first, second].map(lost), [10 * PAY, 0, 0]);
}

/// Goal: a dispute does not keep a checker from showing the whole run, and nobody buys another draw
/// with a false objection. Method: somebody objects in between; the same tiles are shown.
#[test]
fn whole_run_is_shown_after_a_dispute_by_the_same_draw() {
    let (mut world, job, provider, checkers) = audited(&right());
    let trace = right().trace;
    for number in checkers {
        world.act(number, seal_answer(number, job, &whole(number, trace, &[])));
    }
    world.draw();
    let before = checkers.map(|number| whole_shown(&world, job, number, trace));
    world.succeed(account(CHALLENGER), Action::Object { job });
    world.act(provider, judge_by(job, crate::judge::STEP));
    world.draw();
    for (number, before) in checkers.into_iter().zip(before) {
        let shown = whole_shown(&world, job, number, trace);
        assert_eq!(shown, before);
        world.act(number, show_answer(number, job, &shown));
    }
    assert_eq!(world.status(job), JobStatus::Settled);
}

/// Goal: the whole run can be shown until its date, however many blocks come before. Method: more
/// blocks than the ledger keeps beacons, in little time; also where the beacon speaks while
/// somebody objects, and where the round is opened because the other checker missed.
#[test]
fn whole_run_is_shown_although_its_beacon_is_forgotten() {
    let trace = right().trace;
    for case in 0..3 {
        let (mut world, job, provider, [first, second]) = audited(&right());
        world.act(first, seal_answer(first, job, &whole(first, trace, &[])));
        if case < 2 {
            world.act(second, seal_answer(second, job, &whole(second, trace, &[])));
        } else {
            let events = world.pass(3_000);
            assert!(events.contains(&Event::CheckMissed { job, node: node(second) }));
        }
        let CheckState::Committed { opened: Some(opened), .. } = world.check_of(job, first).state
        else {
            unreachable!("the round is open");
        };
        if case == 1 {
            world.succeed(account(CHALLENGER), Action::Object { job });
        }
        for _ in 0..=tg_ledger::RING_HEIGHTS + BEACON_DELAY {
            world.env.tick = world.env.parent_tick;
            world.beat();
        }
        assert_eq!(world.beacon(opened.get() + BEACON_DELAY), None, "the ring has forgotten it");
        if case == 1 {
            world.act(provider, judge_by(job, crate::judge::STEP));
        }
        let shown = whole_shown(&world, job, first, trace);
        let events = world.act(first, show_answer(first, job, &shown));
        assert_eq!(events.first(), Some(&Event::CheckPassed { job, node: node(first) }));
    }
}
