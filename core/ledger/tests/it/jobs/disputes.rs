//! Disputes: turns, dates, and who loses what.

use tg_ledger::{Draw, Turn};
use tg_types::{Action, Amount, Event, JobId, JobStatus, NetworkKind, Reason, Tier};

use crate::fleet::*;
use crate::judge::{FALSE_SUM, REFUTED, STEP, UPHELD, answer};
use crate::world::*;

const BOND: u64 = 500_000;

/// A network of six nodes in which a result of tier sync is shown and its checkers are drawn.
fn contested(is_right: bool) -> (World, JobId, u8, Vec<u8>) {
    let mut world = World::staffed(6);
    let result = if is_right { right() } else { wrong(1) };
    let (job, provider, checkers) = world.checked(&result);
    (world, job, provider, checkers)
}

fn object(world: &mut World, job: JobId) -> Vec<Event> {
    world.succeed(account(CHALLENGER), Action::Object { job })
}

/// The challenger does something that must be refused.
fn refused(world: &mut World, action: Action, reason: Reason) {
    world.fail(account(CHALLENGER), action, reason, Amount::ZERO);
}

#[test]
fn objection_locks_its_bond_and_names_the_provider() {
    let (mut world, job, provider, _) = contested(false);
    let before = (world.balance(&account(CHALLENGER)), world.totals().escrow.units());
    let (now, events) = (world.env.tick, object(&mut world, job));
    let (challenger, bond) = (account(CHALLENGER), units(BOND));
    assert_eq!(events, [Event::DisputeOpened { job, challenger, bond }]);
    assert_eq!(world.balance(&challenger), before.0 - BOND - FEE.units());
    assert_eq!(world.totals().escrow.units(), before.1 + BOND);
    let dispute = world.dispute(&job).expect("open");
    let facts = (dispute.challenger, dispute.node, dispute.round, dispute.turn);
    assert_eq!(facts, (challenger, node(provider), 0, Turn::Provider));
    assert_eq!(dispute.deadline.since(now).map(|span| span.get()), Ok(2_000));
    assert_eq!((dispute.claim.as_slice(), dispute.answer), ([b'c', 0].as_slice(), None));
    assert_eq!(world.status(job), JobStatus::Disputed);
    refused(&mut world, Action::Object { job }, Reason::NotDisputable);
}

#[test]
fn objection_without_an_object_is_refused() {
    let mut world = World::staffed(3);
    let unknown = Action::Object { job: JobId::new([1; 32]) };
    refused(&mut world, unknown, Reason::JobUnknown);
    for tier in [Tier::Trusted, Tier::Redundant { replicas: 2 }, Tier::Sync] {
        let job = world.ask(spec(tier));
        refused(&mut world, Action::Object { job }, Reason::NotDisputable);
        world.act(0, commit_as(0, job, &right()));
        refused(&mut world, Action::Object { job }, Reason::NotDisputable);
    }
    let job = world.ask(spec(Tier::Trusted));
    world.deliver(0, job, &right());
    refused(&mut world, Action::Object { job }, Reason::NotDisputable);
    let (job, ..) = world.checked(&right());
    let poor = account(50);
    world.succeed(account(CLIENT), transfer(poor, FEE.units() + BOND - 1));
    world.fail(poor, Action::Object { job }, Reason::BalanceTooLow, Amount::ZERO);
}

/// Goal: a provider and a challenger that act together cannot make honest checkers lose anything.
/// Method: the provider states a false sum about a right result, the challenger shows that.
#[test]
fn false_sum_in_a_dispute_costs_nobody_but_the_provider() {
    let (mut world, job, provider, checkers) = contested(true);
    for number in &checkers {
        world.act(*number, vouch_as(*number, job, &right()));
    }
    object(&mut world, job);
    let events = world.succeed(account(CHALLENGER), judge_by(job, FALSE_SUM));
    let is_slash = |event: &&Event| matches!(event, Event::NodeSlashed { .. });
    let slashed: Vec<&Event> = events.iter().filter(is_slash).collect();
    assert!(
        matches!(slashed[..], [Event::NodeSlashed { node: one, .. }] if *one == node(provider)),
        "{slashed:?}"
    );
    let runners = world.runners(job);
    for number in &checkers {
        // One of them may run the job now.
        let run = if runners.contains(number) { 20 * PAY } else { 0 };
        let stake = world.stake(&account(*number));
        assert_eq!((stake.active.units(), stake.free().units()), (STAKE, STAKE - run));
    }
}

#[test]
fn refuted_result_costs_the_bond_and_the_job_is_run_elsewhere() {
    let (mut world, job, provider, checkers) = contested(false);
    let client = world.balance(&account(CLIENT));
    // All vouch for the lie, and two have shown their answers, before somebody objects.
    for number in &checkers {
        world.act(*number, vouch_as(*number, job, &wrong(1)));
    }
    for number in &checkers[..2] {
        world.act(*number, open_as(*number, job, &wrong(1)));
    }
    let before = world.balance(&account(CHALLENGER));
    object(&mut world, job);
    let events = world.succeed(account(CHALLENGER), judge_by(job, STEP));
    let slashed = |number: u8, amount: u64| Event::NodeSlashed {
        job,
        node: node(number),
        owner: account(number),
        amount: units(amount),
        bounty: units(amount / 2),
    };
    let (challenger, why) = (account(CHALLENGER), Reason::ResultRefuted);
    assert_eq!(
        events,
        [
            Event::DisputeEnded { job, challenger, why },
            Event::RunEnded { job, node: node(provider), why },
            slashed(provider, 20 * PAY),
            slashed(checkers[0], 10 * PAY),
            slashed(checkers[1], 10 * PAY),
            slashed(checkers[2], 10 * PAY),
        ]
    );
    let bounties = (20 + 3 * 10) * PAY / 2;
    assert_eq!(world.balance(&challenger), before + bounties - 2 * FEE.units());
    let stake = |number: u8| world.stake(&account(number)).active.units();
    assert_eq!(stake(provider), STAKE - 20 * PAY);
    assert_eq!([0, 1, 2].map(|place| stake(checkers[place])), [STAKE - 10 * PAY; 3]);
    assert_eq!(world.dispute(&job), None);
    assert_eq!(world.known(job).draw, Draw::Pending);

    let [next] = world.runners(job)[..] else {
        unreachable!("one run");
    };
    assert_ne!(next, provider);
    world.deliver(next, job, &right());
    world.draw();
    let checkers = world.checkers(job);
    assert!(!checkers.contains(&provider) && !checkers.contains(&next));
    world.vouch(job, &checkers, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
    assert_eq!(world.balance(&account(CLIENT)), client, "paid once, from the escrow");
    assert_eq!(world.known(job).result(), Some(right()));
}

#[test]
fn upheld_result_costs_the_challenger_its_bond_and_the_checks_go_on() {
    let (mut world, job, provider, checkers) = contested(true);
    world.act(checkers[0], vouch_as(checkers[0], job, &right()));
    object(&mut world, job);
    world.refused(checkers[1], vouch_as(checkers[1], job, &right()), Reason::CheckNotThere);
    let before = [account(CHALLENGER), account(provider)].map(|id| world.balance(&id));
    let burned = world.totals().burned.units();
    let events = world.act(provider, judge_by(job, STEP));
    let (challenger, why) = (account(CHALLENGER), Reason::ObjectionRefuted);
    assert_eq!(events, [Event::DisputeEnded { job, challenger, why }]);
    let after = [challenger, account(provider)].map(|id| world.balance(&id));
    assert_eq!(after, [before[0], before[1] + BOND / 2]);
    let fee_burned = FEE.units() * 3_333 / 10_000;
    assert_eq!(world.totals().burned.units(), burned + BOND / 2 + fee_burned);
    assert_eq!(world.stake(&account(provider)).active.units(), STAKE);
    assert_eq!(world.status(job), JobStatus::Checking);
    for number in &checkers[1..] {
        world.act(*number, vouch_as(*number, job, &right()));
    }
    for number in &checkers {
        world.act(*number, open_as(*number, job, &right()));
    }
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn provider_that_does_not_defend_its_result_loses_half() {
    let (mut world, job, provider, checkers) = contested(true);
    let before = world.balance(&account(CHALLENGER));
    object(&mut world, job);
    let events = world.pass(3_000);
    let (challenger, why) = (account(CHALLENGER), Reason::ResultUndefended);
    assert!(events.contains(&Event::DisputeEnded { job, challenger, why }));
    assert_eq!(world.stake(&account(provider)).active.units(), STAKE - 10 * PAY);
    assert_eq!(world.balance(&challenger), before + PAY - FEE.units(), "a tenth of the half");
    for number in checkers {
        assert_eq!(world.stake(&account(number)).active.units(), STAKE, "nothing was shown");
    }
    assert_ne!(world.runners(job), [provider]);
    assert_eq!(world.ended(job), [Reason::ResultUndefended]);
}

#[test]
fn challenger_that_does_not_go_on_loses_its_bond() {
    let (mut world, job, provider, checkers) = contested(true);
    let before = world.balance(&account(CHALLENGER));
    object(&mut world, job);
    world.act(provider, answer_by(job, answer(0, 16)));
    let events = world.pass(3_000);
    let (challenger, why) = (account(CHALLENGER), Reason::ObjectionDropped);
    assert!(events.contains(&Event::DisputeEnded { job, challenger, why }));
    assert_eq!(world.balance(&challenger), before - BOND - FEE.units());
    world.vouch(job, &checkers, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn dispute_descends_turn_by_turn() {
    let (mut world, job, provider, _) = contested(false);
    object(&mut world, job);
    let pick = |child| Action::PickClaim { job, child };
    for round in 0..5 {
        refused(&mut world, pick(0), Reason::DisputeTurn);
        world.refused(provider, answer_by(job, answer(round + 1, 16)), Reason::AnswerWrong);
        world.refused(provider, answer_by(job, vec![]), Reason::AnswerWrong);
        let events = world.act(provider, answer_by(job, answer(round, 16)));
        let node = node(provider);
        assert_eq!(events, [Event::DisputeAnswered { job, node, round }]);
        world.refused(provider, answer_by(job, answer(round, 16)), Reason::DisputeTurn);
        world.refused(provider, pick(0), Reason::DisputeTurn);
        refused(&mut world, pick(16), Reason::AnswerWrong);
        let events = world.succeed(account(CHALLENGER), pick(15));
        assert_eq!(events, [Event::ClaimPicked { job, round, child: 15 }]);
        let dispute = world.dispute(&job).expect("open");
        let facts = (dispute.round, dispute.turn, dispute.claim.as_slice().to_vec());
        assert_eq!(facts, (round + 1, Turn::Provider, vec![b'c', round + 1]));
        assert_eq!(dispute.answer, None);
    }
    world.act(provider, judge_by(job, REFUTED));
    assert_eq!(world.ended(job), [Reason::ResultRefuted], "evidence counts, whoever brings it");
}

#[test]
fn dispute_that_leads_nowhere_is_ended() {
    let (mut world, job, provider, _) = contested(true);
    object(&mut world, job);
    for round in 0..64 {
        world.act(provider, answer_by(job, answer(round, 1)));
        world.succeed(account(CHALLENGER), Action::PickClaim { job, child: 0 });
    }
    world.act(provider, answer_by(job, answer(64, 1)));
    refused(&mut world, Action::PickClaim { job, child: 0 }, Reason::AnswerWrong);
    world.pass(3_000);
    assert_eq!(world.status(job), JobStatus::Checking);
}

#[test]
fn dispute_is_between_its_parties_only() {
    let (mut world, job, provider, checkers) = contested(true);
    let actions = |job| {
        [answer_by(job, answer(0, 1)), Action::PickClaim { job, child: 0 }, judge_by(job, REFUTED)]
    };
    for action in actions(job) {
        refused(&mut world, action.clone(), Reason::DisputeUnknown);
        world.refused(provider, action, Reason::DisputeUnknown);
    }
    object(&mut world, job);
    for action in actions(job) {
        world.refused(checkers[0], action.clone(), Reason::DisputeTurn);
        world.fail(account(provider), action.clone(), Reason::DisputeTurn, Amount::ZERO);
        world.fail(account(CLIENT), action, Reason::DisputeTurn, Amount::ZERO);
    }
    for evidence in [b"".as_slice(), b"nonsense"] {
        refused(&mut world, judge_by(job, evidence), Reason::EvidenceVoid);
        world.refused(provider, judge_by(job, evidence), Reason::EvidenceVoid);
    }
    world.act(provider, judge_by(job, UPHELD));
    refused(&mut world, judge_by(job, REFUTED), Reason::DisputeUnknown);
}

/// Goal: a draw during a dispute changes nothing before the dispute has ended. Method: object
/// before the beacon speaks, for both answers of the beacon.
#[test]
fn draw_during_a_dispute_waits_for_its_end() {
    for share in [0, 10_000] {
        let mut world = World::staffed_with(super::audit_params(share), NetworkKind::Local, 5);
        let job = world.ask(spec(Tier::Audit));
        world.deliver(0, job, &right());
        object(&mut world, job);
        world.draw();
        assert_eq!(world.status(job), JobStatus::Disputed, "share {share}");
        assert!(world.dispute(&job).is_some());
        world.act(0, judge_by(job, STEP));
        if share == 0 {
            assert_eq!(world.status(job), JobStatus::Settled);
            continue;
        }
        let checkers = world.checkers(job);
        assert_eq!((world.status(job), checkers.len()), (JobStatus::Checking, 2));
        world.vouch(job, &checkers, &right());
        assert_eq!(world.status(job), JobStatus::Settled);
    }
}

/// Goal: a draw that finds nobody during a dispute does not end the job under it. Method: a network
/// in which nobody could check.
#[test]
fn draw_of_nobody_during_a_dispute_waits_for_its_end() {
    let mut world = World::staffed(1);
    let job = world.ask(spec(Tier::Sync));
    world.deliver(0, job, &right());
    object(&mut world, job);
    world.draw();
    assert_eq!(world.status(job), JobStatus::Disputed);
    world.act(0, judge_by(job, STEP));
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.totals().escrow, Amount::ZERO);
}

#[test]
fn refuted_result_that_was_drawn_meanwhile_frees_its_checkers() {
    let mut world = World::staffed(5);
    let job = world.ask(spec(Tier::Sync));
    world.deliver(0, job, &wrong(1));
    object(&mut world, job);
    world.draw();
    assert_eq!(world.checkers(job).len(), 3);
    world.succeed(account(CHALLENGER), judge_by(job, STEP));
    assert_eq!(world.known(job).checks.as_slice(), []);
    assert_eq!(world.runners(job), [1]);
}

#[test]
fn dispute_outlasts_the_expiry_of_its_job() {
    let mut world = World::staffed(5);
    let mut short = spec(Tier::Sync);
    short.expires_after = tg_types::DurationMs::new(1_000);
    let job = world.ask(short);
    world.deliver(0, job, &right());
    world.draw();
    object(&mut world, job);
    world.wait(1_500);
    world.block(&[]);
    assert!(world.env.parent_tick > world.known(job).expires);
    assert_eq!(world.status(job), JobStatus::Disputed);
    world.act(0, judge_by(job, STEP));
    let checkers = world.checkers(job);
    world.vouch(job, &checkers, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn checkers_get_their_time_again_after_a_false_objection() {
    let (mut world, job, provider, checkers) = contested(true);
    for number in &checkers {
        world.act(*number, vouch_as(*number, job, &right()));
    }
    object(&mut world, job);
    world.wait(1_600);
    world.block(&[]);
    world.act(provider, judge_by(job, STEP));
    world.wait(1_500);
    world.block(&[]);
    for number in &checkers {
        assert_eq!(world.stake(&account(*number)).active.units(), STAKE);
        world.act(*number, open_as(*number, job, &right()));
    }
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn slash_takes_what_is_left_and_leaves_a_debt() {
    // The provider has three runs, of which two are shown to be wrong; its stake covers the bonds
    // of all, but fines have eaten into it.
    let mut world = World::staffed(0);
    let bond = 20 * PAY;
    let txs = world.staff(0, 0, 2 * bond);
    world.block(&txs);
    let jobs = [(); 2].map(|()| world.ask(spec(Tier::Sync)));
    let late = world.ask(spec(Tier::Trusted));
    assert_eq!(world.status(late), JobStatus::Queued, "no stake is left for it");
    for job in jobs {
        world.deliver(0, job, &wrong(1));
    }
    for job in jobs {
        world.succeed(account(CHALLENGER), Action::Object { job });
        world.succeed(account(CHALLENGER), judge_by(job, STEP));
    }
    assert_eq!(world.stake(&account(0)).active, Amount::ZERO);
    assert_eq!(world.stake(&account(0)).exposed, Amount::ZERO);
}
