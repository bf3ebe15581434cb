//! Checks: order of steps, those who do not answer, and networks with few checkers.

use tg_ledger::{CheckState, Draw};
use tg_types::tx::{OpenedCheck, Sealed};
use tg_types::{
    Action, Amount, CheckAnswer, Event, Hash32, JobSpec, JobStatus, List, NetworkKind, Reason, Tier,
};

use crate::fleet::*;
use crate::judge::{STEP, trace_of};
use crate::world::*;

#[test]
fn check_steps_out_of_order_are_refused() {
    let mut world = World::staffed(5);
    let job = world.ask(spec(Tier::Sync));
    world.act(0, commit_as(0, job, &right()));
    world.draw();
    let checkers = world.checkers(job);
    let first = checkers[0];
    world.refused(first, vouch_as(first, job, &right()), Reason::CheckNotThere);
    world.act(0, reveal_as(0, job, &right()));

    let other = (1..5).find(|number| !checkers.contains(number)).expect("one is not drawn");
    for stranger in [0, other] {
        world.refused(stranger, vouch_as(stranger, job, &right()), Reason::CheckUnknown);
        world.refused(stranger, open_as(stranger, job, &right()), Reason::CheckUnknown);
    }
    world.refused(first, open_as(first, job, &right()), Reason::CheckNotThere);
    let unknown = tg_types::JobId::new([1; 32]);
    world.refused(first, vouch_as(first, unknown, &right()), Reason::JobUnknown);
    world.refused(first, open_as(first, unknown, &right()), Reason::JobUnknown);
    world.act(first, vouch_as(first, job, &right()));
    world.refused(first, vouch_as(first, job, &right()), Reason::CheckNotThere);
    world.refused(first, open_as(first, job, &right()), Reason::CheckNotThere);
    for number in &checkers[1..] {
        world.act(*number, vouch_as(*number, job, &right()));
    }
    world.act(first, open_as(first, job, &right()));
    world.refused(first, open_as(first, job, &right()), Reason::CheckUnknown);
    world.act(checkers[1], open_as(checkers[1], job, &right()));
    world.act(checkers[2], open_as(checkers[2], job, &right()));
    assert_eq!(world.status(job), JobStatus::Settled);
    world.refused(first, vouch_as(first, job, &right()), Reason::CheckUnknown);
}

#[test]
fn answer_that_does_not_fit_its_seal_is_refused() {
    let mut world = World::staffed(4);
    let (job, _, checkers) = world.checked(&right());
    let [first, second, third] = checkers[..] else {
        unreachable!("three checkers");
    };
    // The second copies the first; the third commits to another trace.
    let seal = vouch_as(first, job, &right());
    world.act(first, seal.clone());
    world.act(second, seal);
    world.act(third, vouch_as(third, job, &wrong(1)));
    let opened = |key, salt| {
        let answer = CheckAnswer::Key { trace: right().trace, key };
        let opened = OpenedCheck { job, answer, salt };
        Action::RevealChecks { answers: List::new(vec![opened]).expect("one") }
    };
    let key = trace_of(&right().output).key(0).expect("a round");
    let salt = [first; 32];
    world.refused(second, opened(key, salt), Reason::SealWrong);
    world.refused(second, open_as(second, job, &right()), Reason::SealWrong);
    world.refused(third, open_as(third, job, &right()), Reason::SealWrong);
    // What fits its seal is an answer, and the only one.
    let events = world.act(third, open_as(third, job, &wrong(1)));
    assert_eq!(events, [Event::CheckRefused { job, node: node(third) }]);
    world.refused(third, open_as(third, job, &wrong(1)), Reason::CheckNotThere);
    world.refused(first, opened(key, [9; 32]), Reason::SealWrong);
    world.refused(first, opened(Hash32::new([9; 32]), salt), Reason::SealWrong);
    world.act(first, opened(key, salt));
    // Whoever cannot open what it sealed has not answered.
    let events = world.pass(3_000);
    for number in [second, third] {
        assert!(events.contains(&Event::CheckMissed { job, node: node(number) }));
    }
}

/// Goal: who has not computed the run cannot vouch for it. Method: a checker that commits to a
/// made-up key, and one drawn later that has seen the key of the first round.
#[test]
fn answer_without_the_key_of_its_round_is_a_missed_check() {
    let mut world = World::staffed(6);
    let (job, _, checkers) = world.checked(&right());
    let [idle, second, third] = checkers[..] else {
        unreachable!("three checkers");
    };
    let answer = CheckAnswer::Key { trace: right().trace, key: Hash32::new([7; 32]) };
    let salt = [idle; 32];
    let sealed = Sealed { job, seal: answer.seal(&node(idle), &salt) };
    world.act(idle, Action::CommitChecks { seals: List::new(vec![sealed]).expect("one") });
    for number in [second, third] {
        world.act(number, vouch_as(number, job, &right()));
    }
    let opened = OpenedCheck { job, answer, salt };
    let opened = Action::RevealChecks { answers: List::new(vec![opened]).expect("one") };
    let events = world.act(idle, opened.clone());
    assert_eq!(events, [Event::CheckRefused { job, node: node(idle) }]);
    world.refused(idle, opened, Reason::CheckNotThere);
    let drawn = world.known(job).checks.as_slice().len();
    assert_eq!(drawn, 3, "others are drawn at the date, not when somebody wants it");
    for number in [second, third] {
        world.act(number, open_as(number, job, &right()));
    }
    let events = world.pass(3_000);
    assert!(events.contains(&Event::CheckMissed { job, node: node(idle) }));
    let later = world.checkers(job);
    let late = *later.iter().find(|number| ![second, third].contains(number)).expect("another");
    assert_eq!(world.round_of(job, late), 1);
    world.act(late, vouch_as(late, job, &right()));
    world.act(late, open_as(late, job, &right()));
    assert_eq!(world.check_of(job, late).state, CheckState::Refused);
    world.pass(3_000);
    let last = world.checkers(job);
    let last = last.into_iter().filter(|number| ![second, third].contains(number));
    let last: Vec<u8> = last.collect();
    world.vouch(job, &last, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}

/// Goal: nobody frees itself from what it has sealed by showing nonsense. Method: a result is
/// refuted for which somebody has shown a key that is none.
#[test]
fn refused_answer_still_stands_for_the_result() {
    let mut world = World::staffed(6);
    let (job, _, checkers) = world.checked(&wrong(1));
    let [idle, friend, _] = checkers[..] else { unreachable!("three checkers") };
    let made_up = CheckAnswer::Key { trace: wrong(1).trace, key: Hash32::new([7; 32]) };
    world.act(idle, seal_answer(idle, job, &made_up));
    world.act(friend, vouch_as(friend, job, &wrong(1)));
    world.pass(4_000);
    world.act(idle, show_answer(idle, job, &made_up));
    let stakes = |world: &World| {
        [idle, friend].map(|number| STAKE - world.stake(&account(number)).active.units())
    };
    assert_eq!(stakes(&world), [0, 0]);
    world.succeed(account(CHALLENGER), Action::Object { job });
    world.succeed(account(CHALLENGER), judge_by(job, STEP));
    assert_eq!(stakes(&world), [10 * PAY, 10 * PAY]);
}

#[test]
fn report_about_many_checks_counts_for_those_it_can() {
    let mut world = World::staffed(2);
    let jobs = [(); 2].map(|()| world.ask(spec(Tier::Sync)));
    for job in jobs {
        world.deliver(0, job, &right());
    }
    world.draw();
    let seal = vouch_as(1, jobs[0], &right());
    let Action::CommitChecks { seals } = seal else {
        unreachable!("a commitment");
    };
    let seal = seals.as_slice()[0].seal;
    let sealed = |job| Sealed { job, seal };
    let unknown = tg_types::JobId::new([1; 32]);
    let seals = vec![sealed(jobs[0]), sealed(unknown), sealed(jobs[1])];
    let events = world.act(1, Action::CommitChecks { seals: List::new(seals).expect("three") });
    assert_eq!(events.len(), 2);
    let answer = answer_in(0, &right());
    let opened = |job| OpenedCheck { job, answer: answer.clone(), salt: [1; 32] };
    let answers = vec![opened(unknown), opened(jobs[1]), opened(jobs[0])];
    world.act(1, Action::RevealChecks { answers: List::new(answers).expect("three") });
    assert_eq!(jobs.map(|job| world.status(job)), [JobStatus::Settled; 2]);
}

#[test]
fn checker_that_does_not_commit_is_fined_and_replaced() {
    let mut world = World::staffed(6);
    let (job, provider, checkers) = world.checked(&right());
    let (late, others) = (checkers[0], &checkers[1..]);
    for number in others {
        world.act(*number, vouch_as(*number, job, &right()));
    }
    let events = world.pass(4_000);
    let (owner, amount) = (account(late), busy_params().jobs.fine);
    assert!(events.contains(&Event::NodeFined { job, node: node(late), owner, amount }));
    assert!(events.contains(&Event::CheckMissed { job, node: node(late) }));
    assert_eq!(world.stake(&owner).active.units(), STAKE - amount.units());
    let replaced: Vec<u8> =
        world.checkers(job).into_iter().filter(|number| !others.contains(number)).collect();
    let [new] = replaced[..] else {
        unreachable!("one more was drawn: {replaced:?}");
    };
    assert!(![provider, late].contains(&new));
    assert!(events.contains(&Event::CheckDrawn { job, node: node(new), round: 1 }));
    world.refused(late, vouch_as(late, job, &right()), Reason::CheckUnknown);
    // The first round is open now, whatever the second does.
    for number in others {
        world.act(*number, open_as(*number, job, &right()));
    }
    let before = world.balance(&owner);
    world.vouch(job, &[new], &right());
    assert_eq!(world.status(job), JobStatus::Settled);
    assert_eq!(world.balance(&owner), before, "who did not answer is not paid");
}

#[test]
fn checker_that_does_not_open_is_fined_and_replaced() {
    let mut world = World::staffed(5);
    let (job, _, checkers) = world.checked(&right());
    for number in &checkers {
        world.act(*number, vouch_as(*number, job, &right()));
    }
    for number in &checkers[1..] {
        world.act(*number, open_as(*number, job, &right()));
    }
    world.pass(3_000);
    let late = account(checkers[0]);
    assert_eq!(world.stake(&late).active.units(), STAKE - busy_params().jobs.fine.units());
    assert_eq!(world.stake(&late).exposed, Amount::ZERO);
    let new = *world.checkers(job).last().expect("one more");
    assert!(!checkers.contains(&new));
    world.vouch(job, &[new], &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn answers_that_are_there_must_do_when_nobody_else_is() {
    let mut world = World::staffed(4);
    let (job, _, checkers) = world.checked(&right());
    world.act(checkers[0], vouch_as(checkers[0], job, &right()));
    world.pass(3_000);
    assert_eq!(world.status(job), JobStatus::Checking, "one answer is to come");
    let events = world.act(checkers[0], open_as(checkers[0], job, &right()));
    let paid = prices(&busy_params(), Tier::Sync).of(1, 1).expect("payable").units();
    assert_eq!(super::charged(&events).0, paid);
}

#[test]
fn result_that_nobody_checks_fails_and_is_refunded() {
    let mut world = World::staffed(3);
    let before = world.balance(&account(CLIENT));
    let (job, _, checkers) = world.checked(&right());
    assert_eq!(checkers.len(), 2);
    let events = world.pass(4_000);
    let (owner, refund) = (account(CLIENT), prices(&busy_params(), Tier::Sync).escrow);
    assert!(events.contains(&Event::JobFailed { job, owner, refund }));
    assert_eq!(world.balance(&account(CLIENT)), before - FEE.units());
    assert_eq!(world.stake(&account(0)).active.units(), STAKE, "the provider is not to blame");
}

/// Goal: rounds end. Method: nobody ever answers in a network with more owners than all rounds
/// need.
#[test]
fn rounds_of_silent_checkers_are_bounded() {
    let mut params = busy_params();
    params.jobs.sync_checkers = 2;
    let mut world = World::staffed_with(params, NetworkKind::Local, 10);
    let (job, _, _) = world.checked(&right());
    let mut missed = 0;
    for _ in 0..12 {
        let events = world.pass(1_000);
        let is_missed = |event: &&Event| matches!(event, Event::CheckMissed { .. });
        missed += events.iter().filter(is_missed).count();
    }
    assert_eq!((missed, world.status(job)), (6, JobStatus::Failed), "three rounds of two");
}

#[test]
fn local_network_does_with_the_checkers_it_has() {
    let mut world = World::staffed(2);
    let (job, _, checkers) = world.checked(&right());
    assert_eq!(checkers, [1]);
    assert_eq!(world.known(job).draw, Draw::Drawn { needed: 1, round: 0 });
    world.vouch(job, &checkers, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn local_network_without_a_checker_spares_audits_and_fails_sync() {
    let mut world = World::staffed_with(super::audit_params(10_000), NetworkKind::Local, 1);
    let [audit, sync] = [Tier::Audit, Tier::Sync].map(|tier| world.ask(spec(tier)));
    world.deliver(0, audit, &right());
    world.deliver(0, sync, &right());
    let events = world.draw();
    assert!(events.contains(&Event::ResultNotDrawn { job: audit }));
    assert_eq!(world.status(audit), JobStatus::Settled);
    assert_eq!(world.status(sync), JobStatus::Failed);
}

#[test]
fn sync_without_a_checker_at_the_draw_finds_one_that_came_later() {
    let mut world = World::staffed(1);
    let job = world.ask(spec(Tier::Sync));
    world.act(0, commit_as(0, job, &right()));
    world.draw();
    let txs = world.staff(1, 1, STAKE);
    world.block(&txs);
    world.act(0, reveal_as(0, job, &right()));
    assert_eq!(world.checkers(job), [1]);
    world.vouch(job, &[1], &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}

/// Goal: an open network with fewer owners than a result should have checkers does not get stuck.
/// Method: seven checkers are asked for, five are there, and all of them pass.
#[test]
fn open_network_does_with_enough_checkers_if_all_pass() {
    let mut params = busy_params();
    params.jobs.sync_checkers = 7;
    let mut world = World::staffed_with(params, NetworkKind::Open, 6);
    let (job, _, checkers) = world.checked(&right());
    assert_eq!(checkers.len(), 5);
    world.vouch(job, &checkers, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}

/// Goal: an open network never accepts a result of tier sync for which fewer than four vouched, and
/// does not wait for ever either. Method: five owners, of which two cannot pay the bond.
#[test]
fn open_network_fails_what_too_few_can_check() {
    let mut params = busy_params();
    params.jobs.sync_checkers = 7;
    let mut world = World::staffed_with(params, NetworkKind::Open, 3);
    for number in [3, 4] {
        let txs = world.staff(number, number, 1_000_000);
        world.block(&txs);
    }
    let dear = JobSpec { pay: units(2 * PAY), ..spec(Tier::Sync) };
    let job = world.ask(dear);
    world.deliver(0, job, &right());
    world.draw();
    let checkers = world.checkers(job);
    assert_eq!((checkers.len(), world.known(job).draw), (2, Draw::Drawn { needed: 4, round: 0 }));
    let events = world.vouch(job, &checkers, &right());
    assert!(matches!(events.last(), Some(Event::JobFailed { .. })), "{events:?}");
    assert_eq!(world.stake(&account(0)).active.units(), STAKE);
}

#[test]
fn open_network_accepts_what_four_vouched_for_if_the_fifth_is_silent() {
    let mut params = busy_params();
    params.jobs.sync_checkers = 5;
    let mut world = World::staffed_with(params, NetworkKind::Open, 6);
    let (job, _, checkers) = world.checked(&right());
    assert_eq!(checkers.len(), 5);
    for number in &checkers[1..] {
        world.act(*number, vouch_as(*number, job, &right()));
    }
    world.pass(3_000);
    for number in &checkers[1..] {
        world.act(*number, open_as(*number, job, &right()));
    }
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn open_network_fails_what_only_three_vouched_for() {
    let mut params = busy_params();
    params.jobs.sync_checkers = 5;
    let mut world = World::staffed_with(params, NetworkKind::Open, 6);
    let (job, _, checkers) = world.checked(&right());
    for number in &checkers[2..] {
        world.act(*number, vouch_as(*number, job, &right()));
    }
    world.pass(3_000);
    for number in &checkers[2..] {
        world.act(*number, open_as(*number, job, &right()));
    }
    assert_eq!(world.status(job), JobStatus::Failed);
}

#[test]
fn checks_that_missed_stay_on_record_until_the_job_ends() {
    let mut world = World::staffed(6);
    let (job, _, checkers) = world.checked(&right());
    world.pass(4_000);
    let entry = world.known(job);
    let missed = entry.checks.as_slice().iter().filter(|it| it.state == CheckState::Missed);
    assert_eq!(missed.count(), checkers.len());
    assert_eq!(entry.draw, Draw::Drawn { needed: 3, round: 1 });
}
