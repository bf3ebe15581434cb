//! Owners that keep the key of their inputs and do not hand it to checkers.

use tg_ledger::{CheckState, JobEntry};
use tg_types::{
    Action, Event, JobId, JobSpec, JobStatus, KeyEscrow, NetworkKind, Reason, RunResult, Tier,
};

use super::charged;
use crate::fleet::*;
use crate::judge::STEP;
use crate::world::*;

/// A job whose owner keeps the key.
fn kept(tier: Tier) -> JobSpec {
    JobSpec { key_escrow: KeyEscrow::None, ..spec(tier) }
}

fn lack(job: JobId) -> Action {
    Action::LackKey { job }
}

/// A result of such a job of tier sync, shown by node 0, and its checkers.
fn drawn(world: &mut World, result: &RunResult) -> (JobId, Vec<u8>) {
    let job = world.ask(kept(Tier::Sync));
    world.deliver(0, job, result);
    world.draw();
    (job, world.checkers(job))
}

fn states(entry: &JobEntry) -> Vec<CheckState> {
    entry.checks.as_slice().iter().map(|check| check.state).collect()
}

/// Goal: an owner that has read its result and gives nobody the key pays for the run, and checkers
/// lose nothing but the fee of saying so. Method: all who are drawn say that they lack the key,
/// round after round.
#[test]
fn result_that_its_owner_lets_nobody_check_is_paid_and_says_so() {
    let mut world = World::staffed(8);
    let before: Vec<u64> = (0..8).map(|number| world.wealth(&account(number))).collect();
    let (job, _) = drawn(&mut world, &right());
    let (mut events, mut said) = (Vec::new(), 0);
    while world.status(job) == JobStatus::Checking {
        for number in world.checkers(job) {
            let told = world.act(number, lack(job));
            assert_eq!(told, [Event::KeyLacked { job, node: node(number) }]);
            said += 1;
        }
        events = world.pass(3_000);
        let fined = |event: &&Event| matches!(event, Event::NodeFined { .. });
        assert_eq!(events.iter().find(fined), None);
    }
    assert_eq!((world.status(job), said), (JobStatus::Settled, 7), "everybody was asked");
    assert!(events.contains(&Event::ResultUnchecked { job, owner: account(CLIENT) }));
    let prices = prices(&busy_params(), Tier::Sync);
    let paid = prices.of(1, 0).expect("payable").units();
    assert_eq!(charged(&events), (paid, prices.escrow.units() - paid));
    let after: Vec<u64> = (0..8).map(|number| world.wealth(&account(number))).collect();
    assert_eq!(after[0], before[0] + PAY);
    assert_eq!(after[1..], before[1..], "neither fined nor paid");
    assert_eq!(states(&world.known(job)), [CheckState::Excused; 7], "the record shows it");
}

#[test]
fn owner_that_comes_back_has_its_result_checked() {
    let mut world = World::staffed(4);
    let (job, checkers) = drawn(&mut world, &right());
    for number in &checkers {
        world.act(*number, lack(job));
    }
    let events = world.vouch(job, &checkers, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
    let prices = prices(&busy_params(), Tier::Sync);
    assert_eq!(charged(&events), (prices.escrow.units(), 0));
    assert!(!events.iter().any(|event| matches!(event, Event::ResultUnchecked { .. })));
}

#[test]
fn lack_of_a_key_is_said_by_drawn_checkers_of_such_jobs_and_once() {
    let mut world = World::staffed(6);
    let (job, _, checkers) = world.checked(&right());
    world.refused(checkers[0], lack(job), Reason::KeyInShares);
    world.refused(0, lack(JobId::new([1; 32])), Reason::JobUnknown);

    let job = world.ask(kept(Tier::Sync));
    world.act(0, commit_as(0, job, &right()));
    world.draw();
    let checkers = world.checkers(job);
    world.refused(checkers[0], lack(job), Reason::CheckNotThere); // nothing to check yet
    world.act(0, reveal_as(0, job, &right()));
    world.refused(0, lack(job), Reason::CheckUnknown); // the provider has no say in it
    let stranger = (1..6).find(|number| !checkers.contains(number)).expect("three are drawn");
    world.refused(stranger, lack(job), Reason::CheckUnknown);
    world.act(checkers[0], lack(job));
    world.refused(checkers[0], lack(job), Reason::CheckNotThere);
    world.act(checkers[1], vouch_as(checkers[1], job, &right()));
    world.refused(checkers[1], lack(job), Reason::CheckNotThere);
    world.succeed(account(CHALLENGER), Action::Object { job });
    world.refused(checkers[2], lack(job), Reason::CheckNotThere);
}

/// Goal: nobody learns an answer by saying that it lacks the key and committing later.
#[test]
fn answers_are_shown_when_nobody_of_the_round_can_commit_any_more() {
    let mut world = World::staffed(4);
    let (job, checkers) = drawn(&mut world, &right());
    let [keyless, second, third] = checkers[..] else { unreachable!("three checkers") };
    world.act(keyless, lack(job));
    for number in [second, third] {
        world.act(number, vouch_as(number, job, &right()));
    }
    world.refused(second, open_as(second, job, &right()), Reason::CheckNotThere);
    let events = world.pass(3_000);
    assert!(events.contains(&Event::CheckExcused { job, node: node(keyless) }));
    world.refused(keyless, vouch_as(keyless, job, &right()), Reason::CheckUnknown);
    world.act(second, open_as(second, job, &right()));
    let events = world.act(third, open_as(third, job, &right()));
    let prices = prices(&busy_params(), Tier::Sync);
    assert_eq!(charged(&events).0, prices.of(1, 2).expect("payable").units());
    assert!(!events.iter().any(|event| matches!(event, Event::ResultUnchecked { .. })));
}

#[test]
fn lie_is_refuted_by_the_one_who_has_the_key() {
    let mut world = World::staffed(4);
    let (job, checkers) = drawn(&mut world, &wrong(1));
    world.act(checkers[0], lack(job));
    world.act(checkers[1], lack(job));
    world.act(checkers[2], Action::Object { job });
    world.act(checkers[2], judge_by(job, STEP));
    assert_eq!(world.ended(job), [Reason::ResultRefuted]);
    assert_eq!(world.stake(&account(0)).active.units(), STAKE - 20 * PAY);
    for number in &checkers {
        assert_eq!(world.stake(&account(*number)).active.units(), STAKE);
    }
}

/// Goal: on an open network as many are needed who lack the key as would have to vouch. Method: of
/// all who are drawn, so many say it and the others say nothing.
#[test]
fn few_who_lack_the_key_do_not_make_up_for_those_who_say_nothing() {
    let check = |saying: usize, expected: JobStatus| {
        let mut params = busy_params();
        params.jobs.sync_checkers = 4;
        let mut world = World::staffed_with(params, NetworkKind::Open, 8);
        let (job, _) = drawn(&mut world, &right());
        let (mut said, before) = (0, world.wealth(&account(0)));
        while world.status(job) == JobStatus::Checking {
            for number in world.checkers(job) {
                if said < saying {
                    world.act(number, lack(job));
                    said += 1;
                }
            }
            world.pass(3_000);
        }
        assert_eq!((world.status(job), said), (expected, saying));
        let earned = world.wealth(&account(0)) - before;
        assert_eq!(earned, if expected == JobStatus::Settled { PAY } else { 0 });
    };
    check(4, JobStatus::Settled);
    check(3, JobStatus::Failed);
    check(0, JobStatus::Failed);
}

/// How a node behaves when it is drawn to check a lie, while the owner hands the key to everybody.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checker {
    Honest,
    Absent,
    Friend,
}

/// Whether a lie is paid whose friends vouch for it or, instead, say that they lack the key.
fn is_lie_paid(cast: [Checker; 3], by_excuses: bool) -> bool {
    let mut world = World::staffed(8);
    let (job, _) = drawn(&mut world, &wrong(1));
    while world.status(job) == JobStatus::Checking {
        let of = |number: &u8| cast[usize::from(*number) % 3];
        let unsaid = |number: &u8| world.check_of(job, *number).state == CheckState::Drawn;
        let asked: Vec<u8> = world.checkers(job).into_iter().filter(unsaid).collect();
        if let Some(honest) = asked.iter().find(|number| of(number) == Checker::Honest) {
            world.act(*honest, Action::Object { job });
            world.act(*honest, judge_by(job, STEP));
            break;
        }
        let friends: Vec<u8> =
            asked.into_iter().filter(|number| of(number) == Checker::Friend).collect();
        for number in &friends {
            let round = world.round_of(job, *number);
            let vouch = vouch_in(round, *number, job, &wrong(1));
            world.act(*number, if by_excuses { lack(job) } else { vouch });
        }
        // Answers may be shown when nobody of the round can commit any more.
        if world.known(job).checks.as_slice().iter().any(|check| check.is_unsaid()) {
            world.pass(3_000);
        }
        for number in friends.iter().filter(|_| !by_excuses) {
            let round = world.round_of(job, *number);
            let open = open_in(round, *number, job, &wrong(1));
            if world.status(job) == JobStatus::Checking {
                world.act(*number, open);
            }
        }
    }
    world.status(job) == JobStatus::Settled
}

/// Goal: excuses do not get a lie paid that vouching would not have. Method: every cast of three
/// characters among the nodes, with friends that do the one or the other.
#[test]
fn lie_is_not_paid_more_often_by_excuses_than_by_vouching() {
    let all = [Checker::Honest, Checker::Absent, Checker::Friend];
    let casts = all.iter().flat_map(|a| all.iter().flat_map(move |b| all.map(|c| [*a, *b, c])));
    let (mut by_excuses, mut by_vouching) = (0, 0);
    for cast in casts {
        let (excused, vouched) = (is_lie_paid(cast, true), is_lie_paid(cast, false));
        assert!(vouched || !excused);
        // Excuses use up all rounds, so everybody is asked in the end.
        assert!(!excused || !cast.contains(&Checker::Honest));
        by_excuses += u32::from(excused);
        by_vouching += u32::from(vouched);
    }
    assert!(by_vouching >= by_excuses && by_excuses > 0, "{by_excuses} {by_vouching}");
}
