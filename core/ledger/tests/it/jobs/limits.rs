//! Blocks with much to do: they can be loaded in a few rounds, and their receipts can be read.
//! `World::block` checks both of every block; here are the blocks that come nearest to the bounds.

use tg_types::tx::{NodeSet, OpenedCheck, OpenedResult, Sealed};
use tg_types::{
    Action, CheckedTx, DurationMs, Event, Hash32, JobId, JobSpec, JobStatus, List, Name, Needs,
    NetworkKind, NodeDescriptor, Params, RegionAsk, Status, Tier,
};

use crate::fleet::*;
use crate::world::*;

/// Parameters with room for many nodes and long jobs.
fn roomy_params() -> Params {
    let mut params = busy_params();
    params.jobs.nodes_max = 64;
    params.jobs.run_max = DurationMs::HOUR;
    params.jobs.answer_within = DurationMs::new(20_000);
    params.job_expires_max = DurationMs::HOUR;
    params.jobs.sync_checkers = 7;
    params
}

fn apply_all(world: &mut World, txs: &[CheckedTx]) -> Vec<Vec<Event>> {
    let applied = world.block(txs);
    let receipts = applied.receipts.into_iter();
    let done = receipts.map(|receipt| {
        assert_eq!(receipt.status, Status::Applied);
        receipt.events
    });
    done.collect()
}

/// A region with one node only.
fn corner(number: u8) -> Name {
    format!("corner-{number}").parse().expect("a name")
}

/// Makes a node take as many runs as one may, in a region of its own.
fn widen(world: &mut World, number: u8) {
    let region = corner(number);
    let descriptor = NodeDescriptor { slots: 64, region, ..offer(u64::from(number) + 1) };
    world.act(number, Action::ChangeNode { node: node(number), descriptor });
}

/// Submits 64 jobs for one node, each a second longer than the one before.
fn submit_many(world: &mut World, tier: Tier, node: u8) -> Vec<JobId> {
    let spec = |number: u64| JobSpec {
        needs: Needs { region: RegionAsk::Only { region: corner(node) }, ..Needs::ANY },
        pay: units(100),
        run_max: DurationMs::new(30_000 + 1_000 * number),
        expires_after: DurationMs::new(200_000 + 1_000 * number),
        ..spec(tier)
    };
    let batch = |first: u64| submit((first..first + 32).map(spec).collect());
    let txs = world.txs(account(CLIENT), vec![batch(0), batch(32)]);
    apply_all(world, &txs);
    txs.iter().flat_map(|tx| (0..32).map(|place| JobId::of(tx.id(), place))).collect()
}

fn seals(jobs: &[JobId], seal: Hash32) -> List<Sealed, 1, 64> {
    List::new(jobs.iter().map(|job| Sealed { job: *job, seal }).collect()).expect("64")
}

/// A node commits to the results of all jobs and shows them.
fn deliver_all(world: &mut World, number: u8, jobs: &[JobId]) {
    let (result, salt) = (right(), [number; 32]);
    let seals = seals(jobs, result.seal(&node(number), &salt));
    world.act(number, Action::CommitResults { seals });
    let results = jobs.iter().map(|job| OpenedResult { job: *job, result, salt }).collect();
    world.act(
        number,
        Action::RevealResults {
            results: List::new(results).expect("64"),
            vouchers: List::default(),
        },
    );
}

/// Goal: no transaction leaves a receipt that cannot be read, and none needs more rounds than there
/// are. Method: 64 jobs with seven checkers each are settled by one transaction.
#[test]
fn transaction_that_settles_64_jobs_leaves_a_readable_receipt() {
    let mut world = World::staffed_with(roomy_params(), NetworkKind::Local, 8);
    widen(&mut world, 0);
    let jobs = submit_many(&mut world, Tier::Sync, 0);
    assert!(jobs.iter().all(|job| world.runners(*job) == [0]));
    deliver_all(&mut world, 0, &jobs);
    world.draw();
    let answer = answer_in(0, &right());
    for number in 1..8 {
        let seals = seals(&jobs, answer.seal(&node(number), &[number; 32]));
        world.act(number, Action::CommitChecks { seals });
    }
    let mut events = Vec::new();
    for number in 1..8 {
        let salt = [number; 32];
        let opened = |job: &JobId| OpenedCheck { job: *job, answer: answer.clone(), salt };
        let answers = jobs.iter().map(opened).collect();
        let open = Action::RevealChecks { answers: List::new(answers).expect("64") };
        events = world.act(number, open);
    }
    assert_eq!(events.len(), 64 * 10);
    assert!(jobs.iter().all(|job| world.status(*job) == JobStatus::Settled));
}

#[test]
fn jobs_with_many_dates_are_loaded_in_a_few_rounds() {
    let mut world = World::staffed_with(roomy_params(), NetworkKind::Local, 2);
    widen(&mut world, 0);
    widen(&mut world, 1);
    // The second time every date has a page already.
    for number in 0..2 {
        let jobs = submit_many(&mut world, Tier::Trusted, number);
        assert!(jobs.iter().all(|job| world.runners(*job) == [number]));
    }
}

/// Goal: however many jobs a block takes in, it is loaded in a few rounds. Method: more than
/// sixteen pages of the queue, which nobody could know before.
#[test]
fn queue_that_grows_by_many_pages_is_loaded_in_a_few_rounds() {
    let mut world = World::with(roomy_params());
    let batch = || submit(vec![job_spec(10_000); 32]);
    let txs = world.txs(account(CLIENT), (0..40).map(|_| batch()).collect());
    apply_all(&mut world, &txs);
    assert_eq!(world.ids(tg_types::Noun::List).len(), 1 + 20, "a head and twenty pages");
}

#[test]
fn checks_of_many_jobs_begin_in_a_few_rounds() {
    let mut world = World::staffed_with(roomy_params(), NetworkKind::Local, 8);
    widen(&mut world, 0);
    for _ in 0..2 {
        let jobs = submit_many(&mut world, Tier::Sync, 0);
        let (result, salt) = (right(), [0; 32]);
        let seals = seals(&jobs, result.seal(&node(0), &salt));
        world.act(0, Action::CommitResults { seals });
        world.draw();
        let results = jobs.iter().map(|job| OpenedResult { job: *job, result, salt }).collect();
        world.act(
            0,
            Action::RevealResults {
                results: List::new(results).expect("64"),
                vouchers: List::default(),
            },
        );
        assert!(jobs.iter().all(|job| world.checkers(*job).len() == 7));
        for job in jobs {
            world.vouch_quickly(job);
        }
    }
}

impl World {
    /// All checkers of a job vouch for it, in two blocks.
    fn vouch_quickly(&mut self, job: JobId) {
        for act in [vouch_as, open_as] {
            let checkers = self.checkers(job);
            let tx = |number: &u8| self.tx(voice(*number), act(*number, job, &right()));
            let txs: Vec<CheckedTx> = checkers.iter().map(tx).collect();
            apply_all(self, &txs);
        }
        assert_eq!(self.status(job), JobStatus::Settled);
    }
}

#[test]
fn nodes_that_leave_together_are_loaded_in_a_few_rounds() {
    let mut world = World::with(roomy_params());
    let register = (0..40).map(|number| world.registration(number, account(0), 1)).collect();
    let txs = world.txs(account(0), register);
    apply_all(&mut world, &txs);
    let leave = |number: u8| Action::LeaveNode { node: node(number) };
    let txs = world.txs(account(0), (0..40).rev().step_by(2).map(leave).collect());
    apply_all(&mut world, &txs);
    let txs = world.txs(account(0), (0..40).step_by(2).map(leave).collect());
    apply_all(&mut world, &txs);
    assert_eq!(world.ids(tg_types::Noun::Node).len(), 0);
}

/// Goal: a quorum that does not see a node with many runs costs a few rounds and small receipts.
/// Method: two nodes with 64 runs each disappear at once.
#[test]
fn nodes_that_disappear_with_many_runs_are_loaded_in_a_few_rounds() {
    let mut world = World::staffed_with(roomy_params(), NetworkKind::Local, 2);
    widen(&mut world, 0);
    widen(&mut world, 1);
    world.pass(8_000);
    let jobs: Vec<JobId> =
        (0..2).flat_map(|number| submit_many(&mut world, Tier::Trusted, number)).collect();
    let epoch = world.env.tick.get() / roomy_params().absence_epoch.get();
    for seat in 0..3 {
        let nodes = NodeSet::new(vec![node(0), node(1)]).expect("two");
        let events = world.succeed(owner(seat), Action::ReportAbsent { epoch, nodes });
        assert!(events.len() <= 3);
    }
    let events = world.pass(1_000);
    let is_lost = |event: &&Event| matches!(event, Event::RunEnded { .. });
    assert_eq!(events.iter().filter(is_lost).count(), 128);
    assert!(jobs.iter().all(|job| world.status(*job) == JobStatus::Queued));
    let events = world.pass(7_000);
    let is_dropped = |event: &&Event| matches!(event, Event::NodeDropped { .. });
    assert_eq!(events.iter().filter(is_dropped).count(), 2);
}

#[test]
fn programs_of_many_pieces_can_be_disputed_in_a_few_rounds() {
    let program: Vec<u8> = [b"prog ".as_slice(), &[7; 3_000]].concat();
    let mut world = World::staffed(4);
    for (number, part) in (0..).zip(program.chunks(95)) {
        world.succeed(account(0), piece(&program, number, 32, part));
    }
    let mut long = spec(Tier::Sync);
    let hash = Hash32::new([7; 32]);
    let program = crate::judge::program_id(&program);
    long.work = tg_types::Work::Tensor { program, weights: hash, inputs: hash, salt: hash };
    let job = world.ask(long);
    world.deliver(0, job, &right());
    world.succeed(account(CHALLENGER), Action::Object { job });
    world.act(0, answer_by(job, crate::judge::answer(0, 3)));
    world.succeed(account(CHALLENGER), Action::PickClaim { job, child: 2 });
    world.succeed(account(CHALLENGER), judge_by(job, crate::judge::STEP));
    assert_eq!(world.ended(job), [tg_types::Reason::ResultRefuted]);
}
