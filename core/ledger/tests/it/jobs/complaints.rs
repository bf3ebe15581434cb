//! Packages that do not open: who may say so, who judges, and who loses what.

use tg_ledger::{RunState, Verdict};
use tg_types::{
    Action, Amount, Bps, DurationMs, Event, JobId, JobSpec, JobStatus, Message, NetworkKind,
    NodeId, Reason, RunFailure, Tier,
};

use crate::fleet::*;
use crate::world::*;

/// What stands on a complaint.
const BOND: u64 = 300_000;
/// What a run costs its client: the pay and two fees for its steps.
const PAID: u64 = PAY + 2 * 60;

fn complain(job: JobId, about: Message) -> Action {
    Action::Complain { job, about, key: [7; 32] }
}

/// A network with nodes and a job that node 0 has done.
fn settled(world: &mut World) -> JobId {
    let job = world.ask(spec(Tier::Trusted));
    assert_eq!(world.runners(job), [0]);
    world.deliver(0, job, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
    job
}

/// These seats judge, all in one block; gives the events.
fn judge(world: &mut World, job: JobId, votes: &[(u8, bool)]) -> Vec<Event> {
    let vote = |(seat, opens): &(u8, bool)| {
        world.tx(owner(*seat), Action::JudgeComplaint { job, opens: *opens })
    };
    let txs: Vec<_> = votes.iter().map(vote).collect();
    let applied = world.block(&txs);
    let applied = applied.receipts.into_iter();
    applied
        .flat_map(|receipt| {
            assert_eq!(receipt.status, tg_types::Status::Applied);
            receipt.events
        })
        .collect()
}

/// Three seats say the same.
fn decide(world: &mut World, job: JobId, opens: bool) -> Vec<Event> {
    judge(world, job, &[(0, opens), (1, opens), (2, opens)])
}

fn verdict(world: &World, job: JobId) -> Option<Verdict> {
    let complaint = world.complaint(&job).expect("a complaint");
    assert_eq!(complaint.bond.is_zero(), complaint.verdict.is_some());
    complaint.verdict
}

/// What an owner of a node has; it pays no fees here.
fn worth(world: &World, number: u8) -> u64 {
    world.wealth(&account(number))
}

#[test]
fn result_that_does_not_open_costs_the_provider_and_repays_the_client() {
    let mut world = World::staffed(1);
    let job = settled(&mut world);
    let before = world.balance(&account(CLIENT));
    let events = world.succeed(account(CLIENT), complain(job, Message::Result));
    let complaint = world.complaint(&job).expect("a complaint");
    let (by, bond, deadline) = (account(CLIENT), units(BOND), complaint.deadline);
    let about = Message::Result;
    let complained = Event::Complained { job, by, about, key: [7; 32], bond, deadline };
    assert_eq!(events, [complained]);
    assert_eq!(complaint.against.as_slice(), [account(0)]);
    let fee = FEE.units();
    assert_eq!(world.balance(&account(CLIENT)), before - BOND - fee);

    let reputation = |world: &World| world.node(&node(0)).expect("there").reputation;
    let (burned, record) = (world.totals().burned.units(), reputation(&world));
    let one = judge(&mut world, job, &[(3, true), (0, false)]);
    let judged = |seat, opens| Event::ComplaintJudged { job, validator: owner(seat), opens };
    assert_eq!(one, [judged(3, true), judged(0, false)]);
    assert_eq!(verdict(&world, job), None);
    let rest = judge(&mut world, job, &[(1, false), (2, false)]);
    let lost = STAKE / 50; // 2 %
    let slashed = Event::NodeSlashed {
        job,
        node: node(0),
        owner: account(0),
        amount: units(lost),
        bounty: units(PAID),
    };
    let upheld = Event::ComplaintUpheld { job, about, lost: units(lost) };
    assert_eq!(rest, [judged(1, false), judged(2, false), slashed, upheld]);
    assert_eq!(verdict(&world, job), Some(Verdict::Upheld));
    assert_eq!(world.stake(&account(0)).active.units(), STAKE - lost);
    assert_eq!(world.balance(&account(CLIENT)), before - fee + PAID);
    assert!(world.totals().burned.units() >= burned + lost - PAID, "the rest is burned");
    assert!(reputation(&world).bad > record.bad);
}

#[test]
fn provider_loses_at_least_what_it_was_paid_as_far_as_its_stake_goes() {
    let mut params = busy_params();
    params.jobs.complaint_slash_bps = Bps::ZERO;
    let mut world = World::staffed_with(params.clone(), NetworkKind::Local, 1);
    let job = settled(&mut world);
    world.succeed(account(CLIENT), complain(job, Message::Result));
    decide(&mut world, job, false);
    assert_eq!(world.stake(&account(0)).active.units(), STAKE - PAID);

    params.jobs.complaint_slash_bps = Bps::WHOLE;
    let mut world = World::staffed_with(params, NetworkKind::Local, 1);
    let jobs = [settled(&mut world), settled(&mut world)];
    world.succeed(account(0), Action::Unstake { amount: units(STAKE) });
    let before = world.balance(&account(CLIENT));
    for (job, lost) in jobs.into_iter().zip([STAKE, 0]) {
        world.succeed(account(CLIENT), complain(job, Message::Result));
        let events = decide(&mut world, job, false);
        let upheld = Event::ComplaintUpheld { job, about: Message::Result, lost: units(lost) };
        assert_eq!(events.last(), Some(&upheld), "unbonding stake is within reach");
    }
    let after = world.balance(&account(CLIENT));
    assert_eq!(after, before + PAID - 2 * FEE.units(), "what could be had");
}

#[test]
fn all_whose_replicas_were_paid_answer_for_the_result() {
    let mut world = World::staffed(3);
    let job = world.ask(spec(Tier::Redundant { replicas: 2 }));
    for step in [commit_as, reveal_as] {
        for number in [0, 1] {
            world.act(number, step(number, job, &right()));
        }
    }
    assert_eq!(world.status(job), JobStatus::Settled);
    let before = [0, 1, 2].map(|number| worth(&world, number));
    let client = world.balance(&account(CLIENT));
    world.succeed(account(CLIENT), complain(job, Message::Result));
    let complaint = world.complaint(&job).expect("a complaint");
    assert_eq!(complaint.against.as_slice(), [account(0), account(1)]);
    decide(&mut world, job, false);
    let after = [0, 1, 2].map(|number| worth(&world, number));
    let lost = STAKE / 50;
    assert_eq!(after, [before[0] - lost, before[1] - lost, before[2]]);
    assert_eq!(world.balance(&account(CLIENT)), client + 2 * PAID - FEE.units());
}

#[test]
fn complaint_about_what_opens_loses_its_bond_and_nothing_else_changes() {
    let mut world = World::staffed(1);
    let job = settled(&mut world);
    let (client, provider) = (world.balance(&account(CLIENT)), worth(&world, 0));
    world.succeed(account(CLIENT), complain(job, Message::Result));
    let burned = world.totals().burned.units();
    let events = decide(&mut world, job, true);
    let (about, by) = (Message::Result, account(CLIENT));
    let rejected = Event::ComplaintRejected { job, about, by, lost: units(BOND) };
    assert_eq!(events.last(), Some(&rejected));
    assert_eq!(verdict(&world, job), Some(Verdict::Rejected));
    assert_eq!(world.balance(&account(CLIENT)), client - BOND - FEE.units());
    assert_eq!(worth(&world, 0), provider);
    assert!(world.totals().burned.units() >= burned + BOND);
}

#[test]
fn complaint_without_a_quorum_lapses_and_gives_the_bond_back() {
    for votes in
        [&[][..], &[(0, false), (1, false)], &[(0, true), (1, false), (2, false), (3, true)]]
    {
        let mut world = World::staffed(1);
        let job = settled(&mut world);
        let (client, provider) = (world.balance(&account(CLIENT)), worth(&world, 0));
        world.succeed(account(CLIENT), complain(job, Message::Result));
        judge(&mut world, job, votes);
        let lapsed = Event::ComplaintLapsed { job, about: Message::Result };
        assert!(world.pass(2_000).contains(&lapsed));
        assert_eq!(verdict(&world, job), Some(Verdict::Lapsed));
        assert_eq!(world.balance(&account(CLIENT)), client - FEE.units());
        assert_eq!(worth(&world, 0), provider);
        let vote = Action::JudgeComplaint { job, opens: false };
        world.fail(owner(3), vote, Reason::ComplaintUnknown, Amount::ZERO);
    }
}

#[test]
fn only_the_owner_complains_about_an_accepted_result_and_not_late() {
    let mut world = World::staffed(2);
    let fail = |world: &mut World, sender, job, reason| {
        world.fail(sender, complain(job, Message::Result), reason, Amount::ZERO);
    };
    fail(&mut world, account(CLIENT), JobId::new([1; 32]), Reason::JobUnknown);
    let job = world.ask(spec(Tier::Trusted));
    fail(&mut world, account(CLIENT), job, Reason::NotComplainable);
    world.deliver(0, job, &right());
    for stranger in [account(0), voice(0), owner(0), account(5)] {
        fail(&mut world, stranger, job, Reason::JobNotOwned);
    }
    world.pass(1_000);
    world.wait(500);
    world.block(&[]);
    world.wait(600);
    fail(&mut world, account(CLIENT), job, Reason::ComplaintLate);

    let mut world = World::staffed(0);
    let cancelled = world.ask(spec(Tier::Trusted));
    world.succeed(account(CLIENT), Action::CancelJob { job: cancelled });
    fail(&mut world, account(CLIENT), cancelled, Reason::NotComplainable);
}

#[test]
fn complaint_needs_its_bond() {
    let mut world = World::staffed(1);
    let job = settled(&mut world);
    let rest = world.balance(&account(CLIENT)) - 2 * FEE.units() - BOND + 1;
    world.succeed(account(CLIENT), transfer(account(1), rest));
    let complaint = complain(job, Message::Result);
    world.fail(account(CLIENT), complaint, Reason::BalanceTooLow, Amount::ZERO);
}

#[test]
fn complaint_is_made_once() {
    let mut world = World::staffed(1);
    let job = settled(&mut world);
    let again = |world: &mut World| {
        let complaint = complain(job, Message::Result);
        world.fail(account(CLIENT), complaint, Reason::ComplaintRepeated, Amount::ZERO);
    };
    world.succeed(account(CLIENT), complain(job, Message::Result));
    again(&mut world);
    decide(&mut world, job, false);
    again(&mut world);
}

#[test]
fn only_seats_judge_each_once_and_only_what_is_open() {
    let mut world = World::staffed(1);
    let job = settled(&mut world);
    let fail = |world: &mut World, sender, opens, reason| {
        world.fail(sender, Action::JudgeComplaint { job, opens }, reason, Amount::ZERO);
    };
    fail(&mut world, owner(0), false, Reason::ComplaintUnknown);
    world.succeed(account(0), evidence_against(&vote_key(3)));
    world.succeed(account(CLIENT), complain(job, Message::Result));
    // The last one has been slashed.
    for stranger in [account(0), account(CLIENT), voice(0), owner(3)] {
        fail(&mut world, stranger, false, Reason::NotValidator);
    }
    world.succeed(vote_key(0).into(), Action::JudgeComplaint { job, opens: false });
    fail(&mut world, owner(0), false, Reason::VoteRepeated); // the same seat
    fail(&mut world, owner(0), true, Reason::VoteRepeated);
    assert_eq!(verdict(&world, job), None);
    judge(&mut world, job, &[(1, false), (2, false)]);
    assert_eq!(verdict(&world, job), Some(Verdict::Upheld));
    fail(&mut world, owner(1), false, Reason::ComplaintUnknown);
}

#[test]
fn inputs_that_do_not_open_end_the_job_and_pay_the_node() {
    // The escrow holds more than the pay: there are checkers to be paid too.
    for (pay, gets) in [(10_000, 12_360), (400_000, BOND)] {
        let mut world = World::staffed(2);
        let client = world.balance(&account(CLIENT));
        let job = world.ask(JobSpec { pay: units(pay), ..spec(Tier::Audit) });
        let escrow = world.known(job).escrow.units();
        let [runner] = world.runners(job)[..] else { unreachable!("one run") };
        let before = world.balance(&voice(runner));
        let stake = world.stake(&account(runner)).active;
        let record = world.node(&node(runner)).expect("there").reputation;
        world.act(runner, complain(job, Message::Inputs));
        assert_eq!(world.balance(&voice(runner)), before - BOND - FEE.units());
        let complaint = world.complaint(&job).expect("a complaint");
        assert_eq!(complaint.against.as_slice(), [account(CLIENT)]);
        let events = decide(&mut world, job, false);
        assert_eq!(gets, BOND.min(escrow));
        let why = Reason::PackageDoesNotOpen;
        let refund = units(escrow - gets);
        let expected = [
            Event::RunEnded { job, node: node(runner), why },
            Event::JobFailed { job, owner: account(CLIENT), refund },
            Event::ComplaintUpheld { job, about: Message::Inputs, lost: units(gets) },
        ];
        assert_eq!(events[3..], expected);
        assert_eq!(world.status(job), JobStatus::Failed);
        assert_eq!(world.ended(job), [why]);
        assert_eq!(world.balance(&voice(runner)), before + gets - FEE.units());
        assert_eq!(world.balance(&account(CLIENT)), client - gets - FEE.units());
        assert_eq!(world.stake(&account(runner)).active, stake);
        assert_eq!(world.stake(&account(runner)).exposed, Amount::ZERO);
        assert_eq!(world.node(&node(runner)).expect("there").reputation, record, "no blame");
    }
}

#[test]
fn inputs_that_open_cost_the_node_its_bond_and_the_run_goes_on() {
    let mut world = World::staffed(2);
    let job = world.ask(spec(Tier::Trusted));
    world.act(0, complain(job, Message::Inputs));
    world.refused(0, complain(job, Message::Inputs), Reason::ComplaintRepeated);
    decide(&mut world, job, true);
    assert_eq!(verdict(&world, job), Some(Verdict::Rejected));
    world.refused(0, complain(job, Message::Inputs), Reason::ComplaintRepeated);
    assert_eq!(world.runners(job), [0]);
    world.deliver(0, job, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
    // One of each kind: the owner may still complain about the result.
    world.succeed(account(CLIENT), complain(job, Message::Result));
    decide(&mut world, job, false);
    assert_eq!(verdict(&world, job), Some(Verdict::Upheld));
}

#[test]
fn only_one_complaint_is_open_at_a_time() {
    let mut world = World::staffed(1);
    let job = world.ask(spec(Tier::Trusted));
    world.act(0, complain(job, Message::Inputs));
    world.deliver(0, job, &right());
    let result = complain(job, Message::Result);
    world.fail(account(CLIENT), result.clone(), Reason::ComplaintRepeated, Amount::ZERO);
    // The job was done, so its end stands whatever is found.
    let client = world.balance(&account(CLIENT));
    decide(&mut world, job, false);
    assert_eq!(world.status(job), JobStatus::Settled);
    assert_eq!(world.balance(&account(CLIENT)), client);
    world.succeed(account(CLIENT), result);
}

#[test]
fn only_a_node_that_computes_complains_about_inputs() {
    let mut world = World::staffed(2);
    let job = world.ask(spec(Tier::Trusted));
    for stranger in [account(CLIENT), account(0), voice(1), owner(0)] {
        let complaint = complain(job, Message::Inputs);
        world.fail(stranger, complaint, Reason::RunUnknown, Amount::ZERO);
    }
    world.refused(0, complain(JobId::new([1; 32]), Message::Inputs), Reason::JobUnknown);
    world.act(0, commit_as(0, job, &right()));
    world.refused(0, complain(job, Message::Inputs), Reason::RunNotThere);
}

#[test]
fn inputs_that_do_not_open_leave_a_result_that_is_owed_alone() {
    let mut world = World::staffed(6);
    let job = world.ask(spec(Tier::Sync));
    let [runner] = world.runners(job)[..] else { unreachable!("one run") };
    world.act(runner, complain(job, Message::Inputs));
    world.act(runner, commit_as(runner, job, &right()));
    let before = world.balance(&voice(runner));
    let events = decide(&mut world, job, false);
    let upheld = Event::ComplaintUpheld { job, about: Message::Inputs, lost: Amount::ZERO };
    assert_eq!(events.last(), Some(&upheld));
    assert_eq!(world.status(job), JobStatus::Running);
    let run = world.known(job).live().next().cloned().expect("the run");
    assert!(matches!(run.state, RunState::Committed { .. }));
    assert_eq!(world.balance(&voice(runner)), before + BOND);
}

#[test]
fn inputs_that_do_not_open_end_a_job_that_has_moved_on() {
    let mut world = World::staffed(2);
    let job = world.ask(spec(Tier::Trusted));
    world.act(0, complain(job, Message::Inputs));
    world.act(0, Action::GiveUp { job, failure: RunFailure::PackageWrong });
    assert_eq!(world.runners(job), [1]);
    let before = world.balance(&voice(0));
    decide(&mut world, job, false);
    assert_eq!(world.status(job), JobStatus::Failed);
    assert_eq!(world.ended(job), [Reason::RunGivenUp, Reason::JobClosed]);
    assert_eq!(world.balance(&voice(0)), before + BOND + PAID);
}

#[test]
fn inputs_of_a_job_that_has_ended_meanwhile_cost_nobody_anything() {
    let mut world = World::staffed(1);
    let short = JobSpec { expires_after: DurationMs::new(400), ..spec(Tier::Trusted) };
    let job = world.ask(short);
    let before = world.balance(&voice(0));
    world.act(0, complain(job, Message::Inputs));
    world.wait(600);
    world.block(&[]);
    assert_eq!(world.status(job), JobStatus::Expired);
    let client = world.balance(&account(CLIENT));
    let events = decide(&mut world, job, false);
    let upheld = Event::ComplaintUpheld { job, about: Message::Inputs, lost: Amount::ZERO };
    assert_eq!(events.last(), Some(&upheld));
    assert_eq!(world.balance(&voice(0)), before - FEE.units());
    assert_eq!(world.balance(&account(CLIENT)), client);
}

/// Goal: a job and what was said about it stay until all complaints are over, then both are gone.
/// Method: a complaint in the last moment, in a network that forgets jobs quickly otherwise.
#[test]
fn job_is_kept_until_complaints_are_over() {
    let mut params = busy_params();
    params.seen_retention = DurationMs::new(100);
    let mut world = World::staffed_with(params, NetworkKind::Local, 1);
    let job = settled(&mut world);
    let closed = world.known(job).closed.expect("it has ended");
    world.wait(1_700);
    world.block(&[]);
    assert!(world.known(job).closed.expect("still there").get() + 2_000 > world.env.tick.get());
    world.succeed(account(CLIENT), complain(job, Message::Result));
    let before = world.balance(&account(CLIENT));
    world.wait(600);
    world.block(&[]);
    assert_eq!(world.status(job), JobStatus::Settled);
    world.pass(6_000);
    assert!(world.env.tick.get() > closed.get() + 3_000);
    assert!(world.job(&job).is_none() && world.complaint(&job).is_none());
    assert_eq!(world.balance(&account(CLIENT)), before + BOND);
    assert_eq!(world.totals().escrow, Amount::ZERO);
    let vote = Action::JudgeComplaint { job, opens: false };
    world.fail(owner(0), vote, Reason::ComplaintUnknown, Amount::ZERO);
}

#[test]
fn complaint_against_a_node_that_has_left_is_paid_from_its_owners_stake() {
    let mut world = World::staffed(1);
    let job = settled(&mut world);
    world.succeed(account(0), Action::LeaveNode { node: node(0) });
    assert_eq!(world.node(&NodeId::new(*node(0).as_bytes())), None);
    world.succeed(account(CLIENT), complain(job, Message::Result));
    decide(&mut world, job, false);
    assert_eq!(world.stake(&account(0)).active.units(), STAKE - STAKE / 50);
}
