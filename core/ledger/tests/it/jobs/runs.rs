//! Runs: order of steps, replicas, and what becomes of those who do not finish.

use tg_ledger::{ListHead, ListOf, RunState, keys};
use tg_types::tx::{NodeSet, OpenedResult, Sealed};
use tg_types::{
    Action, Amount, DurationMs, Event, Hash32, JobId, JobSpec, JobStatus, List, NetworkKind,
    NodeDescriptor, Reason, RegionAsk, RunFailure, RunResult, Status, Tier,
};

use crate::fleet::*;
use crate::world::*;

const GIVE_UP: RunFailure = RunFailure::DeviceFailed;

/// All runners commit to a result and then show it.
pub(super) fn all_agree(world: &mut World, job: JobId, result: &RunResult) {
    let runners = world.runners(job);
    for number in &runners {
        world.act(*number, commit_as(*number, job, result));
    }
    for number in &runners {
        world.act(*number, reveal_as(*number, job, result));
    }
}

#[test]
fn steps_out_of_order_are_refused() {
    let mut world = World::staffed(3);
    let (job, result) = (world.ask(spec(Tier::Trusted)), right());
    world.refused(0, reveal_as(0, job, &result), Reason::RunNotThere);
    world.refused(1, commit_as(1, job, &result), Reason::RunUnknown);
    world.refused(1, Action::GiveUp { job, failure: GIVE_UP }, Reason::RunUnknown);
    world.refused(0, commit_as(0, JobId::new([1; 32]), &result), Reason::JobUnknown);
    world.refused(0, reveal_as(0, JobId::new([1; 32]), &result), Reason::JobUnknown);
    let unknown = Action::GiveUp { job: JobId::new([1; 32]), failure: GIVE_UP };
    world.refused(0, unknown, Reason::JobUnknown);
    world.act(0, commit_as(0, job, &result));
    world.refused(0, commit_as(0, job, &wrong(1)), Reason::RunNotThere);
    world.refused(0, Action::GiveUp { job, failure: GIVE_UP }, Reason::RunNotThere);
    world.act(0, reveal_as(0, job, &result));
    world.refused(0, reveal_as(0, job, &result), Reason::RunNotThere);
    world.refused(0, commit_as(0, job, &result), Reason::RunNotThere);
}

#[test]
fn node_does_not_speak_for_others_and_owners_do_not_speak_for_nodes() {
    let mut world = World::staffed(3);
    let job = world.ask(spec(Tier::Trusted));
    let commit = commit_as(0, job, &right());
    world.fail(account(0), commit, Reason::RunUnknown, Amount::ZERO);
}

#[test]
fn opening_that_does_not_fit_its_seal_is_refused() {
    let mut world = World::staffed(2);
    let job = world.ask(spec(Tier::Trusted));
    world.act(0, commit_as(0, job, &right()));
    world.refused(0, reveal_as(0, job, &wrong(1)), Reason::SealWrong);
    let opened = |result, salt| {
        let opened = OpenedResult { job, result, salt };
        Action::RevealResults {
            results: List::new(vec![opened]).expect("one"),
            vouchers: List::default(),
        }
    };
    world.refused(0, opened(right(), [9; 32]), Reason::SealWrong);
    let other_package = RunResult { package: Hash32::new([1; 32]), ..right() };
    world.refused(0, opened(other_package, [0; 32]), Reason::SealWrong);
    world.act(0, opened(right(), [0; 32]));
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn copied_seal_cannot_be_opened_by_the_copier() {
    let mut world = World::staffed(2);
    let job = world.ask(spec(Tier::Redundant { replicas: 2 }));
    let commit = commit_as(0, job, &right());
    world.act(0, commit.clone());
    world.act(1, commit);
    world.act(0, reveal_as(0, job, &right()));
    let copied = OpenedResult { job, result: right(), salt: [0; 32] };
    let copied = Action::RevealResults {
        results: List::new(vec![copied]).expect("one"),
        vouchers: List::default(),
    };
    world.refused(1, copied, Reason::SealWrong);
    world.refused(1, reveal_as(1, job, &right()), Reason::SealWrong);
}

#[test]
fn report_about_many_jobs_counts_for_those_it_can() {
    let mut world = World::staffed(1);
    let [first, second] = [(); 2].map(|()| world.ask(spec(Tier::Trusted)));
    let seal = |job| Sealed { job, seal: right().seal(&node(0), &[0; 32]) };
    let all = |seals| Action::CommitResults { seals: List::new(seals).expect("a few") };
    let unknown = seal(JobId::new([1; 32]));
    world.refused(0, all(vec![unknown, unknown]), Reason::JobUnknown);
    let events = world.act(0, all(vec![unknown, seal(first), seal(first), seal(second)]));
    let committed = |job| Event::ResultCommitted { job, node: node(0) };
    assert_eq!(events, [committed(first), committed(second)]);
    let opened = |job| OpenedResult { job, result: right(), salt: [0; 32] };
    let results = List::new(vec![opened(second), opened(first)]).expect("two");
    world.act(0, Action::RevealResults { results, vouchers: List::default() });
    assert!([first, second].map(|job| world.status(job)) == [JobStatus::Settled; 2]);
}

#[test]
fn replicas_of_different_owners_agree_and_are_all_paid() {
    let mut world = World::staffed(3);
    let txs = world.staff(4, 0, STAKE);
    world.block(&txs);
    let job = world.ask(spec(Tier::Redundant { replicas: 3 }));
    assert_eq!(world.runners(job), [0, 1, 2], "node 4 has the owner of node 0");
    let before = [0, 1, 2].map(|number| world.balance(&account(number)));
    all_agree(&mut world, job, &right());
    let after = [0, 1, 2].map(|number| world.balance(&account(number)));
    assert_eq!(after, before.map(|balance| balance + PAY));
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn replica_shows_nothing_before_all_have_committed() {
    let mut world = World::staffed(2);
    let job = world.ask(spec(Tier::Redundant { replicas: 2 }));
    world.act(0, commit_as(0, job, &right()));
    world.refused(0, reveal_as(0, job, &right()), Reason::RunNotThere);
    // Waiting for others is no fault: only who has not committed is late.
    let events = world.pass(4_000);
    let ended = |number, why| Event::RunEnded { job, node: node(number), why };
    assert!(events.contains(&ended(1, Reason::RunMissed)));
    assert_eq!(world.stake(&account(0)).active.units(), STAKE);
    assert_eq!(world.runners(job)[0], 0);
}

#[test]
fn replica_is_not_started_alone_into_a_reveal() {
    let mut world = World::staffed(1);
    let job = world.ask(spec(Tier::Redundant { replicas: 2 }));
    assert_eq!((world.runners(job), world.status(job)), (vec![0], JobStatus::Running));
    world.act(0, commit_as(0, job, &right()));
    world.refused(0, reveal_as(0, job, &right()), Reason::RunNotThere);
    let txs = world.staff(1, 1, STAKE);
    world.block(&txs);
    assert_eq!(world.runners(job), [0, 1]);
    world.refused(0, reveal_as(0, job, &right()), Reason::RunNotThere);
    world.act(1, commit_as(1, job, &right()));
    world.act(1, reveal_as(1, job, &right()));
    world.act(0, reveal_as(0, job, &right()));
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn two_of_three_replicas_decide() {
    let mut world = World::staffed(3);
    let job = world.ask(spec(Tier::Redundant { replicas: 2 }));
    world.act(0, commit_as(0, job, &right()));
    world.act(1, commit_as(1, job, &wrong(1)));
    world.act(0, reveal_as(0, job, &right()));
    let events = world.act(1, reveal_as(1, job, &wrong(1)));
    assert!(events.contains(&Event::RunsDisagreed { job }));
    assert_eq!(world.runners(job), [0, 1, 2], "a third is asked in the same block");
    let before = [0, 1, 2].map(|number| world.wealth(&account(number)));
    world.deliver(2, job, &right());
    let after = [0, 1, 2].map(|number| world.wealth(&account(number)));
    assert_eq!(after, [before[0] + PAY, before[1], before[2] + PAY], "no slash by majority");
    assert_eq!(world.ended(job), [Reason::RunsDisagreed]);
    assert_eq!(world.known(job).result(), Some(right()));
}

#[test]
fn replicas_that_never_agree_fail_and_are_refunded() {
    let mut world = World::staffed(4);
    let before = world.balance(&account(CLIENT));
    let job = world.ask(spec(Tier::Redundant { replicas: 2 }));
    for number in 0..2 {
        world.act(number, commit_as(number, job, &wrong(number)));
    }
    for number in 0..2 {
        world.act(number, reveal_as(number, job, &wrong(number)));
    }
    world.act(2, commit_as(2, job, &wrong(2)));
    let events = world.act(2, reveal_as(2, job, &wrong(2)));
    let (owner, refund) =
        (account(CLIENT), prices(&busy_params(), Tier::Redundant { replicas: 2 }).escrow);
    assert!(events.contains(&Event::JobFailed { job, owner, refund }));
    assert_eq!(world.balance(&account(CLIENT)), before - FEE.units());
    assert!((0..3).all(|number| world.stake(&account(number)).active.units() == STAKE));
}

#[test]
fn run_given_up_goes_to_another_node() {
    let mut world = World::staffed(3);
    let job = world.ask(spec(Tier::Trusted));
    let events = world.act(0, Action::GiveUp { job, failure: GIVE_UP });
    assert_eq!(events, [Event::RunEnded { job, node: node(0), why: Reason::RunGivenUp }]);
    assert_eq!((world.runners(job), world.ended(job)), (vec![1], vec![Reason::RunGivenUp]));
    assert_eq!(world.stake(&account(0)).active.units(), STAKE, "no fine");
    assert!(world.node(&node(0)).expect("registered").reputation.bad > 0, "but a bad word");
    world.refused(0, commit_as(0, job, &right()), Reason::RunUnknown);
    world.deliver(1, job, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn job_that_all_give_up_fails() {
    let mut world = World::staffed(4);
    let before = world.balance(&account(CLIENT));
    let job = world.ask(spec(Tier::Trusted));
    for number in 0..3 {
        assert_eq!(world.runners(job), [number]);
        world.act(number, Action::GiveUp { job, failure: GIVE_UP });
    }
    assert_eq!((world.status(job), world.runners(job)), (JobStatus::Failed, vec![]));
    assert_eq!(world.balance(&account(CLIENT)), before - FEE.units());
}

#[test]
fn missed_run_is_fined_and_given_to_another() {
    let mut world = World::staffed(2);
    let job = world.ask(spec(Tier::Trusted));
    let events = world.pass(3_000);
    let (owner, amount) = (account(0), busy_params().jobs.fine);
    assert!(events.contains(&Event::RunEnded { job, node: node(0), why: Reason::RunMissed }));
    assert!(events.contains(&Event::NodeFined { job, node: node(0), owner, amount }));
    assert_eq!(world.stake(&owner).active.units(), STAKE - amount.units());
    assert_eq!(world.runners(job), [1], "not again to whom it was best before");
    world.refused(0, commit_as(0, job, &right()), Reason::RunUnknown);
    world.deliver(1, job, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn missed_run_goes_back_to_the_only_node_until_the_job_fails() {
    let mut world = World::staffed(1);
    let before = world.balance(&account(CLIENT));
    let job = world.ask(spec(Tier::Trusted));
    let mut fines = 0;
    for round in 1..=3 {
        assert_eq!(world.runners(job), [0], "round {round}");
        let events = world.pass(3_000);
        let is_fine = |event: &&Event| matches!(event, Event::NodeFined { .. });
        fines += events.iter().filter(is_fine).count();
    }
    assert_eq!((fines, world.status(job)), (3, JobStatus::Failed));
    assert_eq!(world.balance(&account(CLIENT)), before - FEE.units());
    let fine = busy_params().jobs.fine.units();
    assert_eq!(world.stake(&account(0)).active.units(), STAKE - 3 * fine);
}

#[test]
fn result_not_shown_after_its_seal_costs_half_of_the_bond() {
    for tier in [Tier::Trusted, Tier::Sync] {
        let mut world = World::staffed(5);
        let job = world.ask(spec(tier));
        world.act(0, commit_as(0, job, &right()));
        world.draw();
        let burned = world.totals().burned.units();
        let events = world.pass(3_000);
        let (node, owner) = (node(0), account(0));
        let (amount, bounty) = (units(10 * PAY), Amount::ZERO);
        assert!(events.contains(&Event::NodeSlashed { job, node, owner, amount, bounty }));
        let ended = Event::RunEnded { job, node, why: Reason::ResultUndefended };
        assert!(events.contains(&ended));
        assert_eq!(world.totals().burned.units(), burned + 10 * PAY);
        assert_eq!(world.stake(&owner).active.units(), STAKE - 10 * PAY);
        assert_eq!(world.runners(job), [1]);
        assert_eq!(world.known(job).checks.as_slice(), [], "its checkers are free");
    }
}

/// Goal: nobody waits for the draw behind a job's expiry. Method: a commitment shortly before that
/// date, which is shown behind it, or not at all.
#[test]
fn result_committed_to_just_before_the_expiry_is_still_owed() {
    let short = JobSpec { expires_after: DurationMs::new(1_800), ..spec(Tier::Sync) };
    for is_shown in [false, true] {
        let mut world = World::staffed(5);
        let before = world.balance(&account(CLIENT));
        let job = world.ask(short.clone());
        world.pass(1_000);
        world.act(0, commit_as(0, job, &right()));
        let mut events = world.pass(1_000);
        assert!(world.env.parent_tick > world.known(job).expires);
        assert_eq!(world.status(job), JobStatus::Running);
        if is_shown {
            world.act(0, reveal_as(0, job, &right()));
            assert_eq!(world.status(job), JobStatus::Checking);
            continue;
        }
        events.extend(world.pass(4_000));
        let (node, owner) = (node(0), account(0));
        let (amount, bounty) = (units(10 * PAY), Amount::ZERO);
        let slashed = Event::NodeSlashed { job, node, owner, amount, bounty };
        let is_placed = |event: &Event| matches!(event, Event::JobPlaced { .. });
        assert!(events.contains(&slashed) && !events.iter().any(is_placed), "nobody else runs it");
        assert_eq!(world.status(job), JobStatus::Expired);
        assert_eq!(world.balance(&account(CLIENT)), before - FEE.units());
    }
}

/// Lets a quorum report a node.
fn report(world: &mut World, number: u8) {
    let epoch = world.env.tick.get() / busy_params().absence_epoch.get();
    for seat in 0..3 {
        let nodes = NodeSet::new(vec![node(number)]).expect("one node");
        world.succeed(owner(seat), Action::ReportAbsent { epoch, nodes });
    }
    assert!(world.node(&node(number)).expect("registered").absent.is_some());
}

/// A world whose nodes have been there for an epoch, and a job on node 0 that takes long.
fn world_with_long_run() -> (World, JobId) {
    world_with_long_run_of(Tier::Trusted)
}

fn world_with_long_run_of(tier: Tier) -> (World, JobId) {
    let mut world = World::staffed(3);
    world.pass(8_000);
    let long = JobSpec { run_max: DurationMs::new(4_000), ..spec(tier) };
    let job = world.ask(long);
    assert_eq!(world.runners(job), [0]);
    (world, job)
}

#[test]
fn run_of_an_absent_node_goes_elsewhere_and_is_paid_once() {
    let (mut world, job) = world_with_long_run();
    report(&mut world, 0);
    let events = world.pass(1_000);
    assert!(events.contains(&Event::RunEnded { job, node: node(0), why: Reason::RunLost }));
    assert_eq!((world.runners(job), world.ended(job)), (vec![1], vec![]), "no failure of the job");
    assert_eq!(world.stake(&account(0)).active.units(), STAKE, "no fine");
    world.refused(0, commit_as(0, job, &right()), Reason::RunUnknown);
    let before = [0, 1].map(|number| world.balance(&account(number)));
    world.deliver(1, job, &right());
    let after = [0, 1].map(|number| world.balance(&account(number)));
    assert_eq!(after, [before[0], before[1] + PAY]);
    world.refused(0, reveal_as(0, job, &right()), Reason::RunUnknown);
}

/// Goal: a run that is lost may have sent a proof about its commitment to inputs, so that the next
/// one is about another.
#[test]
fn lost_run_of_a_hidden_job_stays_in_the_record() {
    let (mut world, job) = world_with_long_run_of(Tier::ZK);
    report(&mut world, 0);
    world.pass(1_000);
    assert_eq!((world.runners(job), world.ended(job)), (vec![1], vec![Reason::RunLost]));
    assert_eq!(world.known(job).run_number(&node(1)), Some(1));
    let honest = world.prove_as(1, job, &right());
    world.act(1, honest);
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn absent_node_that_comes_back_in_time_keeps_its_run() {
    let (mut world, job) = world_with_long_run();
    report(&mut world, 0);
    let change = Action::ChangeNode { node: node(0), descriptor: offer(1) };
    world.act(0, change);
    world.pass(1_000);
    assert_eq!(world.runners(job), [0]);
    world.deliver(0, job, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn absent_node_that_has_committed_may_still_show_its_result() {
    let (mut world, job) = world_with_long_run();
    world.act(0, commit_as(0, job, &right()));
    report(&mut world, 0);
    world.pass(1_000);
    assert_eq!(world.runners(job), [0]);
    world.act(0, reveal_as(0, job, &right()));
    assert_eq!(world.status(job), JobStatus::Settled);
    // An absent node gets nothing new.
    let job = world.ask(spec(Tier::Trusted));
    assert_eq!(world.runners(job), [1]);
}

#[test]
fn absent_node_with_work_is_dropped_only_when_that_is_finished() {
    let mut params = busy_params();
    params.jobs.absent_max = DurationMs::new(1_000);
    params.jobs.answer_within = DurationMs::new(5_000);
    let mut world = World::staffed_with(params, NetworkKind::Local, 3);
    world.pass(8_000);
    let job = world.ask(spec(Tier::Trusted));
    world.act(0, commit_as(0, job, &right()));
    report(&mut world, 0);
    world.pass(3_000);
    assert!(world.node(&node(0)).is_some());
    world.act(0, reveal_as(0, job, &right()));
    let events = world.pass(6_000);
    assert!(events.contains(&Event::NodeDropped { node: node(0), owner: account(0) }));
}

/// A job that fits no node.
fn unplaceable() -> JobSpec {
    let mut spec = spec(Tier::Trusted);
    spec.needs.region = RegionAsk::Only { region: "nowhere".parse().expect("a name") };
    spec
}

#[test]
fn jobs_that_fit_nowhere_do_not_hide_the_others() {
    let mut params = busy_params();
    params.jobs.placements_per_block_max = 3;
    let mut world = World::staffed_with(params, NetworkKind::Local, 1);
    let specs = [vec![unplaceable(); 7], vec![spec(Tier::Trusted)]].concat();
    let tx = world.run(account(CLIENT), submit(specs)).tx;
    let last = JobId::of(tx, 7);
    for _ in 0..2 {
        assert_eq!(world.status(last), JobStatus::Queued);
        world.block(&[]);
    }
    assert_eq!(world.status(last), JobStatus::Running, "three places a block");
}

/// Goal: a full network serves jobs in the order in which they came. Method: more jobs than places,
/// of which a block looks at a few.
#[test]
fn jobs_that_wait_for_room_are_placed_in_their_order() {
    let mut params = busy_params();
    params.jobs.placements_per_block_max = 3;
    let mut world = World::staffed_with(params, NetworkKind::Local, 1);
    let tx = world.run(account(CLIENT), submit(vec![spec(Tier::Trusted); 10])).tx;
    let jobs: Vec<JobId> = (0..10).map(|place| JobId::of(tx, place)).collect();
    let running = |world: &World| -> Vec<JobId> {
        jobs.iter().filter(|job| world.status(**job) == JobStatus::Running).copied().collect()
    };
    for first in 0..6 {
        world.block(&[]);
        assert_eq!(running(&world), jobs[first..first + 4]);
        world.deliver(0, jobs[first], &right());
    }
}

/// Goal: the front of the queue does not stay behind. Method: more jobs than a page holds, all
/// placed but the first; then the first leaves, and with it the long row of holes behind it.
#[test]
fn queue_moves_on_when_a_long_waiting_job_leaves_its_front() {
    let mut world = World::staffed(2);
    let first = world.ask(JobSpec { pay: units(1_000), ..unplaceable() });
    for _ in 0..4 {
        let specs = vec![JobSpec { pay: units(1_000), ..spec(Tier::Trusted) }; 32];
        let tx = world.run(account(CLIENT), submit(specs)).tx;
        let jobs: Vec<JobId> = (0..32).map(|place| JobId::of(tx, place)).collect();
        while jobs.iter().any(|job| !world.status(*job).is_final()) {
            run_all(&mut world, &jobs);
        }
    }
    let row = world.known(first).row;
    let head = |world: &World| world.entry::<ListHead>(&keys::list_head(ListOf::Queue(row)));
    let ends = |world: &World| head(world).map(|head| (head.first, head.next)).expect("used");
    assert_eq!(ends(&world), (0, 129));
    world.succeed(account(CLIENT), Action::CancelJob { job: first });
    assert_eq!(ends(&world), (129, 129));
    let job = world.ask(spec(Tier::Trusted));
    assert_eq!(world.status(job), JobStatus::Running);
}

/// Every node finishes all it has of these jobs, in two blocks.
fn run_all(world: &mut World, jobs: &[JobId]) {
    let mut commits = Vec::new();
    let mut reveals = Vec::new();
    for number in 0..2 {
        let mine = |job: &&JobId| {
            let entry = world.known(**job);
            let is_mine =
                |run: &tg_ledger::Run| run.node == node(number) && run.state == RunState::Placed;
            entry.live().any(is_mine)
        };
        let mine: Vec<JobId> = jobs.iter().filter(mine).copied().collect();
        if mine.is_empty() {
            continue;
        }
        let (result, salt) = (right(), [number; 32]);
        let seal = result.seal(&node(number), &salt);
        let seals = mine.iter().map(|job| Sealed { job: *job, seal }).collect();
        let results = mine.iter().map(|job| OpenedResult { job: *job, result, salt }).collect();
        let commit = Action::CommitResults { seals: List::new(seals).expect("a few") };
        commits.push((number, commit));
        let reveal = Action::RevealResults {
            results: List::new(results).expect("a few"),
            vouchers: List::default(),
        };
        reveals.push((number, reveal));
    }
    for actions in [commits, reveals] {
        let txs: Vec<_> =
            actions.into_iter().map(|(number, action)| world.tx(voice(number), action)).collect();
        let applied = world.block(&txs);
        assert!(applied.receipts.iter().all(|receipt| receipt.status == Status::Applied));
    }
}

#[test]
fn node_takes_no_more_runs_than_its_slots_and_stake_allow() {
    let mut world = World::staffed(0);
    let txs = world.staff(0, 0, 3 * 20 * PAY);
    world.block(&txs);
    let specs = vec![spec(Tier::Trusted); 6];
    world.succeed(account(CLIENT), submit(specs));
    assert_eq!(world.node(&node(0)).expect("registered").runs.as_slice().len(), 3, "by stake");
    world.succeed(account(0), Action::Stake { amount: units(STAKE) });
    assert_eq!(world.node(&node(0)).expect("registered").runs.as_slice().len(), 4, "by slots");
    let closed = NodeDescriptor { is_open: false, slots: 64, ..offer(1) };
    world.act(0, Action::ChangeNode { node: node(0), descriptor: closed.clone() });
    assert_eq!(world.node(&node(0)).expect("registered").runs.as_slice().len(), 4, "closed");
    let open = NodeDescriptor { is_open: true, ..closed };
    world.act(0, Action::ChangeNode { node: node(0), descriptor: open });
    assert_eq!(world.node(&node(0)).expect("registered").runs.as_slice().len(), 6);
}
