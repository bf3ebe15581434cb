//! Promised deadlines: who gets one, what is kept for it, and what happens when it is failed.

use std::collections::{BTreeMap, BTreeSet};

use arbtest::arbitrary::{Result, Unstructured};
use tg_ledger::{
    CANCEL_PART, KEPT_PER_NODE_MAX, Promise, PromiseCounts, SLOT_AHEAD_MAX, slot_length,
};
use tg_types::tx::NodeSet;
use tg_types::{
    Action, DeviceKind, DurationMs, Event, GpuAsk, Hash32, HostPart, JobId, JobSpec, JobStatus,
    KeyEscrow, List, Needs, NetworkKind, NodeDescriptor, Params, Reason, RunFailure, Status, Tick,
    Tier, Work,
};

use super::gpus::{a100, rtx};
use crate::fleet::*;
use crate::histories;
use crate::world::*;

pub(super) fn promise_params() -> Params {
    let mut params = busy_params();
    params.job_expires_max = DurationMs::new(300_000);
    params.seen_retention = DurationMs::HOUR; // jobs stay readable until the end of a test
    params
}

/// A network with nodes that take one run at a time.
fn narrow(nodes: u8) -> World {
    let mut world = World::staffed_with(promise_params(), NetworkKind::Local, nodes);
    for number in 0..nodes {
        world.act(number, change(number, true, 1));
    }
    world.pass(8_000); // who came in an epoch is not reported in it
    world
}

fn change(number: u8, is_open: bool, slots: u16) -> Action {
    let descriptor = NodeDescriptor { slots, is_open, ..offer(u64::from(number) + 1) };
    Action::ChangeNode { node: node(number), descriptor }
}

/// A job that is to be done so many milliseconds from the next block on.
pub(super) fn promised(world: &World, within_ms: u64) -> JobSpec {
    let by = world.env.tick.plus(DurationMs::new(within_ms)).expect("early");
    let expires_after = DurationMs::new(200_000);
    JobSpec { promise: Some(by), expires_after, ..spec(Tier::Trusted) }
}

/// How long a slot for [`spec`] is.
pub(super) fn length() -> u64 {
    slot_length(&promise_params(), &spec(Tier::Trusted)).expect("it ends with its run").get()
}

/// A job without a date that takes a slot until it is given up.
fn endless() -> JobSpec {
    JobSpec { expires_after: DurationMs::new(200_000), ..spec(Tier::Audit) }
}

pub(super) fn counts(given: u64, kept: u64, broken: u64) -> PromiseCounts {
    PromiseCounts { given, kept, broken }
}

pub(super) fn absent(world: &mut World, number: u8) {
    let nodes = NodeSet::new(vec![node(number)]).expect("one node");
    let epoch = world.env.tick.get() / promise_params().absence_epoch.get();
    for seat in 0..3 {
        world.succeed(owner(seat), Action::ReportAbsent { epoch, nodes: nodes.clone() });
    }
}

pub(super) fn has_broken(events: &[Event], job: JobId) -> bool {
    events.iter().any(|event| matches!(event, Event::PromiseBroken { job: it, .. } if *it == job))
}

#[test]
fn promise_with_a_free_slot_begins_at_once_and_is_kept() {
    let mut world = narrow(1);
    let job = world.ask(promised(&world, length() + 1_000));
    assert_eq!(world.status(job), JobStatus::Running);
    assert_eq!(world.known(job).promise, Promise::Running { blamed: None });
    world.deliver(0, job, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
    assert_eq!(world.cursor().promises, counts(1, 1, 0));
}

/// Goal: what is promised on a busy node begins in its slot at the latest, and nothing that might
/// last into it is placed there before. Method: a node with one slot that is taken; its owner's
/// stake does not suffice for the promised run twice, so it cannot begin before its slot.
#[test]
fn slot_of_a_busy_node_is_kept_until_it_begins() {
    let mut world = World::staffed_with(promise_params(), NetworkKind::Local, 0);
    let staff = world.staff(0, 0, 30 * PAY);
    world.block(&staff);
    world.act(0, change(0, true, 1));
    let cheap = JobSpec { pay: units(1_000), ..spec(Tier::Trusted) };
    let first = world.ask(cheap.clone());
    assert_eq!(world.runners(first), [0]);
    let spec = promised(&world, 40_000);
    let by = spec.promise.expect("a deadline");
    let job = world.ask(spec);
    let Promise::Kept { from, bond, .. } = world.known(job).promise else {
        panic!("a slot is kept: {:?}", world.known(job).promise);
    };
    assert_eq!(from.get(), by.get() - length(), "as late as can be");
    assert_eq!(world.stake(&account(0)).exposed.units(), bond.units() + 20_000);
    let refused = world.run(account(0), Action::LeaveNode { node: node(0) });
    assert_eq!(refused.status, Status::Failed(Reason::NodeBusy));
    world.deliver(0, first, &right());

    // What may last into the slot waits; what has surely ended before does not.
    let long = world.ask(JobSpec { pay: units(1_000), ..endless() });
    assert_eq!(world.status(long), JobStatus::Queued);
    let short = world.ask(cheap);
    assert_eq!(world.runners(short), [0]);
    world.deliver(0, short, &right());
    while world.env.tick < from {
        assert_eq!(world.status(job), JobStatus::Queued);
        world.pass(1_000);
    }
    world.pass(2_000);
    assert_eq!(world.runners(job), [0]);
    world.deliver(0, job, &right());
    assert_eq!(world.cursor().promises, counts(1, 1, 0));
    world.pass(1_000);
    assert_eq!(world.runners(long), [0], "nothing is kept any more");
}

/// Goal: a refusal names its rule and a deadline that is promised to whoever asks again; it costs
/// the fee. Method: too short a time on a free node and on a busy one, and a need nobody has.
#[test]
fn promise_that_cannot_be_given_names_the_earliest() {
    let refusal = |world: &mut World, spec: JobSpec| {
        let (client, before) = (account(CLIENT), world.balance(&account(CLIENT)));
        let receipt = world.run(client, submit(vec![spec]));
        assert_eq!(receipt.status, Status::Applied);
        let job = JobId::of(receipt.tx, 0);
        assert_eq!(world.status(job), JobStatus::Failed);
        assert_eq!(world.balance(&client) + receipt.fee.units(), before, "all goes back");
        let Promise::Refused { why, earliest } = world.known(job).promise else {
            panic!("refused: {:?}", world.known(job));
        };
        (why, earliest)
    };
    let mut world = narrow(1);
    let spec = promised(&world, length() - 1);
    let (why, earliest) = refusal(&mut world, spec.clone());
    assert_eq!(why, Reason::PromiseTooShort);
    let job = world.ask(JobSpec { promise: earliest, ..spec.clone() });
    assert_eq!(world.status(job), JobStatus::Running);

    let spec = promised(&world, length() + 5_000);
    let (why, earliest) = refusal(&mut world, spec.clone());
    assert_eq!(why, Reason::PromiseNoRoom);
    let job = world.ask(JobSpec { promise: earliest, ..spec.clone() });
    assert!(matches!(world.known(job).promise, Promise::Kept { .. }));

    let mut spec = promised(&world, 100_000);
    spec.needs.memory_mib_min = 4_096;
    assert_eq!(refusal(&mut world, spec), (Reason::PromiseNoNode, None));
    assert_eq!(world.cursor().promises, counts(2, 0, 0));
}

#[test]
fn promise_of_a_job_whose_end_has_no_date_changes_nothing() {
    let mut world = narrow(3);
    for tier in [Tier::Audit, Tier::Sync, Tier::Redundant { replicas: 2 }] {
        let spec = JobSpec { tier, ..promised(&world, 100_000) };
        let zero = tg_types::Amount::ZERO;
        world.fail(account(CLIENT), submit(vec![spec]), Reason::PromiseNeedsDate, zero);
    }
    let kept = JobSpec { key_escrow: KeyEscrow::None, ..promised(&world, 100_000) };
    let zero = tg_types::Amount::ZERO;
    world.fail(account(CLIENT), submit(vec![kept]), Reason::PromiseNeedsShares, zero);
}

#[test]
fn slot_of_a_lost_node_is_kept_by_another() {
    let mut world = narrow(2);
    world.ask(spec(Tier::Trusted));
    world.ask(spec(Tier::Trusted));
    let job = world.ask(promised(&world, 100_000));
    let Promise::Kept { node: first, .. } = world.known(job).promise else {
        panic!("a slot is kept");
    };
    absent(&mut world, number_of(&first));
    let events = world.pass(2_000);
    assert!(!has_broken(&events, job));
    let other = 1 - number_of(&first);
    let (promise, runners) = (world.known(job).promise, world.runners(job));
    let is_kept = matches!(promise, Promise::Kept { node: it, .. } if it == node(other));
    assert!(is_kept || runners == [other], "still promised: {promise:?}");
    assert_eq!(world.cursor().promises, counts(1, 0, 0), "one promise, however often it moves");
}

/// How often a promise was given, by events.
fn times_given(events: &[Event], job: JobId) -> usize {
    let is_given =
        |event: &&Event| matches!(event, Event::PromiseGiven { job: it, .. } if *it == job);
    events.iter().filter(is_given).count()
}

#[test]
fn busy_node_that_changes_its_price_keeps_its_slots() {
    let mut world = narrow(1);
    world.ask(spec(Tier::Trusted));
    let job = world.ask(promised(&world, 60_000));
    let before = world.known(job).promise;
    assert!(matches!(before, Promise::Kept { .. }));
    let descriptor = NodeDescriptor { price_per_hour: units(18_000), slots: 1, ..offer(1) };
    world.act(0, Action::ChangeNode { node: node(0), descriptor });
    let events = world.pass(2_000);
    assert_eq!(times_given(&events, job), 0, "it is not decided about anew");
    assert_eq!(world.known(job).promise, before);
}

#[test]
fn node_that_takes_fewer_runs_loses_only_slots_that_do_not_fit() {
    let mut world = narrow(1);
    world.act(0, change(0, true, 2));
    world.ask(spec(Tier::Trusted));
    world.ask(spec(Tier::Trusted));
    let jobs = [(); 2].map(|()| world.ask(promised(&world, 100_000)));
    let before = jobs.map(|job| world.known(job).promise);
    assert!(before.iter().all(|promise| matches!(promise, Promise::Kept { .. })));
    world.act(0, change(0, true, 1));
    let events = world.pass(2_000);
    let given = jobs.map(|job| times_given(&events, job));
    assert_eq!(given.iter().sum::<usize>(), 1, "one of them moves: {given:?}");
    let stays = usize::from(given[0] == 1);
    assert_eq!(world.known(jobs[stays]).promise, before[stays]);
    assert_eq!(world.cursor().promises, counts(2, 0, 0));
}

/// Goal: who was promised a slot is not passed by who merely waits when the slot is lost. Method:
/// the node that keeps it closes, and in the block that finds out the other one comes free, for
/// which a job without a date has been waiting for longer.
#[test]
fn lost_slot_is_kept_elsewhere_before_the_queue_takes_what_is_free() {
    let mut world = narrow(2);
    let runs = [(); 2].map(|()| world.ask(spec(Tier::Trusted)));
    let waiting = world.ask(endless());
    let job = world.ask(promised(&world, 100_000));
    let Promise::Kept { node: first, .. } = world.known(job).promise else {
        panic!("a slot is kept");
    };
    let (first, other) = (number_of(&first), 1 - number_of(&first));
    let run = runs.into_iter().find(|run| world.runners(*run) == [other]).expect("its run");
    world.act(first, change(first, false, 1));
    world.wait(1_000);
    let failure = RunFailure::Declined;
    world.act(other, Action::GiveUp { job: run, failure });
    assert_eq!(world.status(waiting), JobStatus::Queued);
    let (promise, runners) = (world.known(job).promise, world.runners(job));
    let is_kept = matches!(promise, Promise::Kept { node: it, .. } if it == node(other));
    assert!(is_kept || runners == [other], "still promised: {promise:?}");
}

#[test]
fn nothing_is_promised_behind_runs_without_a_date() {
    let mut world = narrow(1);
    world.ask(endless());
    let job = world.ask(promised(&world, 100_000));
    let refused = Promise::Refused { why: Reason::PromiseNoRoom, earliest: None };
    assert_eq!(world.known(job).promise, refused);
}

/// What a promise that nobody else can keep costs whom, after something happened to its node.
fn check_break(is_run: bool, is_to_blame: bool, fail: impl Fn(&mut World, JobId)) {
    let mut world = narrow(1);
    if !is_run {
        world.ask(spec(Tier::Trusted));
    }
    let job = world.ask(promised(&world, 60_000));
    let is_kept = matches!(world.known(job).promise, Promise::Kept { .. });
    assert_eq!((is_kept, world.runners(job).len()), (!is_run, usize::from(is_run)));
    let (client, provider) = (account(CLIENT), account(0));
    let escrow = world.known(job).escrow.units();
    let before = (world.balance(&client), world.stake(&provider).active.units());
    fail(&mut world, job);
    world.pass(2_000);
    let compensation = if is_to_blame { PAY } else { 0 };
    assert_eq!(world.status(job), JobStatus::Failed);
    let broken = Promise::Broken { compensation: units(compensation) };
    assert_eq!(world.known(job).promise, broken);
    assert_eq!(world.balance(&client), before.0 + escrow + compensation);
    assert_eq!(world.stake(&provider).active.units(), before.1 - compensation);
    assert_eq!(world.cursor().promises, counts(1, 0, 1));
}

#[test]
fn node_that_fails_a_promise_nobody_else_can_keep_pays_the_client() {
    check_break(false, true, |world, _| absent(world, 0));
    check_break(false, true, |world, _| drop(world.act(0, change(0, false, 1))));
    check_break(true, true, |world, _| absent(world, 0));
    let give_up = |failure| {
        move |world: &mut World, job: JobId| {
            world.act(0, Action::GiveUp { job, failure });
        }
    };
    // A client must not earn by handing in what cannot be run, whatever a node says about it.
    for failure in [
        RunFailure::Declined,
        RunFailure::DeviceFailed,
        RunFailure::PackageWrong,
        RunFailure::PackageMissing,
        RunFailure::TooLarge,
    ] {
        check_break(true, false, give_up(failure));
    }
}

/// Goal: a slot is no free option: who takes the job back pays whoever kept it. Method: what both
/// have before and after; all money is counted after every block.
#[test]
fn cancelled_job_frees_its_slot_and_pays_whoever_kept_it() {
    let mut world = narrow(1);
    world.ask(spec(Tier::Trusted));
    let (client, keeper) = (account(CLIENT), account(0));
    let pay = units(PAY + 1);
    let job = world.ask(JobSpec { pay, ..promised(&world, 60_000) });
    assert_eq!(world.node(&node(0)).expect("a node").kept.as_slice().len(), 1);
    let escrow = world.known(job).escrow.units();
    let before = (world.balance(&client), world.balance(&keeper));
    let receipt = world.run(client, Action::CancelJob { job });
    assert_eq!(receipt.status, Status::Applied);
    assert_eq!(world.status(job), JobStatus::Cancelled);
    assert_eq!(world.node(&node(0)).expect("a node").kept.as_slice().len(), 0);
    assert_eq!(world.cursor().promises, counts(1, 0, 0));
    let paid = PAY / CANCEL_PART + 1;
    assert_eq!(world.balance(&keeper), before.1 + paid);
    assert_eq!(world.balance(&client) + receipt.fee.units(), before.0 + escrow - paid);
}

#[test]
fn cancelled_job_that_merely_waits_costs_nothing() {
    let mut world = narrow(1);
    world.ask(spec(Tier::Trusted));
    let job = world.ask(spec(Tier::Trusted));
    let escrow = world.known(job).escrow.units();
    let (client, before) = (account(CLIENT), world.balance(&account(CLIENT)));
    let fee = world.run(client, Action::CancelJob { job }).fee.units();
    assert_eq!(world.balance(&client) + fee, before + escrow);
}

/// Goal: no slot begins later than the bound, however late the deadline is. Method: a busy node and
/// a deadline in two days; then a run before it that lasts for longer than the bound.
#[test]
fn slot_begins_within_a_day_or_is_refused() {
    let mut params = promise_params();
    let days = |count: u64| DurationMs::new(count * DurationMs::DAY.get());
    (params.job_expires_max, params.jobs.run_max) = (days(3), days(3));
    let world = || {
        let mut world = World::staffed_with(params.clone(), NetworkKind::Local, 1);
        world.act(0, change(0, true, 1));
        world
    };
    let late = |world: &World| JobSpec {
        expires_after: days(2),
        ..promised(world, days(2).get() - 1_000)
    };
    let mut busy = world();
    busy.ask(spec(Tier::Trusted));
    let job = busy.ask(late(&busy));
    let Promise::Kept { from, .. } = busy.known(job).promise else {
        panic!("a slot is kept: {:?}", busy.known(job).promise);
    };
    assert_eq!(Ok(from), busy.cursor().tick.plus(SLOT_AHEAD_MAX));

    let mut taken = world();
    let first = JobSpec { run_max: days(1), expires_after: days(2), ..spec(Tier::Trusted) };
    let first = taken.ask(first);
    assert_eq!(taken.runners(first), [0]);
    let job = taken.ask(late(&taken));
    let refused = Promise::Refused { why: Reason::PromiseNoRoom, earliest: None };
    assert_eq!(taken.known(job).promise, refused);
}

/// Goal: what a node keeps and what a block decides is bounded, and nobody who was not decided
/// about is forgotten. Method: more promises than a node may keep, in one transaction.
#[test]
fn node_keeps_a_bounded_number_of_slots() {
    let mut world = narrow(1);
    world.ask(spec(Tier::Trusted));
    let spec = promised(&world, 290_000);
    let (pay, expires_after) = (units(1_000), DurationMs::new(299_000));
    let spec = JobSpec { pay, expires_after, ..spec };
    let count = u8::try_from(KEPT_PER_NODE_MAX + 4).expect("few");
    let tx = world.run(account(CLIENT), submit(vec![spec; usize::from(count)])).tx;
    let jobs: Vec<JobId> = (0..count).map(|place| JobId::of(tx, place)).collect();
    let promise = |world: &World, job: &JobId| world.known(*job).promise;
    let is_asked =
        |world: &World| jobs.iter().any(|job| matches!(promise(world, job), Promise::Asked { .. }));
    assert!(is_asked(&world), "a block decides about some");
    world.pass(1_000);
    assert!(!is_asked(&world));
    let kept = jobs.iter().map(|job| promise(&world, job));
    let kept = kept.filter(|promise| matches!(promise, Promise::Kept { .. }));
    assert_eq!(kept.count(), KEPT_PER_NODE_MAX);
}

/// Goal: a block looks at a bounded number of devices for promises, and leaves the others to the
/// next. Method: nodes with as many devices as may be, and a model that none of them has.
#[test]
fn block_decides_about_fewer_promises_that_are_hard_to_search_for() {
    let mut params = promise_params();
    params.jobs.nodes_max = 128;
    let mut world = World::staffed_with(params, NetworkKind::Local, 0);
    let device = offer(1).devices.as_slice()[0].clone();
    let devices = List::new(vec![device; 16]).expect("as many as may be");
    for batch in 0..8 {
        let register = (batch * 16..(batch + 1) * 16).map(|number| {
            let Action::RegisterNode { node, consent, .. } =
                world.registration(number, account(0), 1)
            else {
                unreachable!("a registration");
            };
            let descriptor = NodeDescriptor { devices: devices.clone(), ..offer(1) };
            Action::RegisterNode { node, consent, descriptor }
        });
        let txs = world.txs(account(0), register.collect());
        let applied = world.block(&txs);
        assert!(applied.receipts.iter().all(|receipt| receipt.status == Status::Applied));
    }
    let mut spec = promised(&world, 100_000);
    spec.needs.model = Some("another".parse().expect("a name"));
    let tx = world.run(account(CLIENT), submit(vec![spec; 16])).tx;
    let asked = |world: &World| {
        let jobs = (0..16).map(|place| world.known(JobId::of(tx, place)).promise);
        jobs.filter(|promise| matches!(promise, Promise::Asked { .. })).count()
    };
    let first = asked(&world);
    assert!((1..16).contains(&first), "{first} are left");
    world.block(&[]);
    assert!(asked(&world) < first);
    world.pass(1_000);
    assert_eq!(asked(&world), 0);
}

/// What a node of a history offers: GPUs of two kinds, of which one is split, and a machine.
fn any_offer(u: &mut Unstructured<'_>, number: u8, is_open: bool) -> Result<Action> {
    let mut devices = vec![offer(1).devices.as_slice()[0].clone(), rtx(2, u.arbitrary()?)];
    devices.extend(u.ratio(1, 2)?.then(|| a100(1)));
    let devices = List::new(devices).expect("few");
    let host = HostPart { cpu_milli: u.int_in_range(2..=4)? * 1_000, memory_mib: 4_096 };
    let (slots, node) = (u.int_in_range(1..=3)?, node(number));
    let price = offer(u64::from(number) + 1);
    let descriptor = NodeDescriptor { devices, host, slots, is_open, ..price };
    Ok(Action::ChangeNode { node, descriptor })
}

/// A job of a history as a command that holds something.
fn any_holder(u: &mut Unstructured<'_>, spec: &JobSpec) -> Result<JobSpec> {
    let kind = Some(DeviceKind::Gpu);
    let mut needs = match u.int_in_range(0..=3)? {
        0 => Needs { kind, gpus: GpuAsk::Whole { count: u.int_in_range(1..=2)? }, ..Needs::ANY },
        1 => {
            let (steps, may_share) = (u.int_in_range(1..=19)?, u.arbitrary()?);
            Needs { kind, gpus: GpuAsk::Part { steps, may_share }, ..Needs::ANY }
        }
        _ => Needs::ANY,
    };
    let cpu_milli = u.int_in_range(0..=4)? * 1_000;
    needs.host = HostPart { cpu_milli, memory_mib: *u.choose(&[0, 1_000, 3_000])? };
    let work = Work::Opaque { task: Hash32::new([1; 32]) };
    Ok(JobSpec { work, needs, ..spec.clone() })
}

/// What nodes do wrong in a history.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failures {
    None,
    Some,
}

/// A network whose nodes take their time, and fail if they may.
struct Play {
    world: World,
    failures: Failures,
    /// When the work on a run is done.
    done: BTreeMap<JobId, Tick>,
    given: BTreeMap<JobId, Tick>,
    broken: BTreeSet<JobId>,
    compensated: BTreeMap<JobId, u64>,
    /// Slots that were kept, and those of them for jobs that hold something.
    slots: usize,
    holding: usize,
    /// Promises that were given anew.
    moved: usize,
}

/// What happened in all histories of a test.
#[derive(Default)]
struct Seen {
    slots: usize,
    holding: usize,
    moved: usize,
    broken: usize,
    compensated: usize,
}

impl Play {
    fn new(u: &mut Unstructured<'_>, failures: Failures) -> Result<Self> {
        let mut world = World::staffed_with(promise_params(), NetworkKind::Local, 3);
        for number in 0..3 {
            world.act(number, any_offer(u, number, true)?);
        }
        let (done, given, broken) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let (compensated, slots, holding, moved) = (BTreeMap::new(), 0, 0, 0);
        Ok(Self { world, failures, done, given, broken, compensated, slots, holding, moved })
    }

    fn any_spec(&self, u: &mut Unstructured<'_>) -> Result<JobSpec> {
        let spec = self.any_slot(u)?;
        if u.ratio(1, 2)? { any_holder(u, &spec) } else { Ok(spec) }
    }

    fn any_slot(&self, u: &mut Unstructured<'_>) -> Result<JobSpec> {
        let run_max = DurationMs::new(u.int_in_range(500..=4_000)?);
        if u.ratio(2, 3)? {
            let within = u.int_in_range(5_000..=60_000)?;
            return Ok(JobSpec { run_max, ..promised(&self.world, within) });
        }
        let tier = *u.choose(&[Tier::Trusted, Tier::Redundant { replicas: 2 }])?;
        let pay = units(u.int_in_range(1_000..=4 * PAY)?);
        Ok(JobSpec { run_max, pay, expires_after: DurationMs::new(60_000), ..spec(tier) })
    }

    /// A block in which jobs are asked for, and nodes go on with what they have.
    fn block(&mut self, u: &mut Unstructured<'_>, is_asking: bool) -> Result<()> {
        self.world.wait(u.int_in_range(100..=900)?);
        let now = self.world.env.tick;
        let mut txs = Vec::new();
        if is_asking && u.ratio(1, 2)? {
            let specs = (0..u.int_in_range(1..=3)?).map(|_| self.any_spec(u));
            let ask = submit(specs.collect::<Result<_>>()?);
            txs.push(self.world.tx(account(CLIENT), ask));
        }
        for number in 0..3 {
            let mut actions = self.steps(u, number, now)?;
            if self.failures == Failures::Some && u.ratio(1, 30)? {
                let is_open = u.ratio(2, 3)?;
                actions.push(any_offer(u, number, is_open)?);
            }
            txs.extend(self.world.txs(voice(number), actions));
        }
        if self.failures == Failures::Some && u.ratio(1, 20)? {
            let nodes = NodeSet::new(vec![node(u.int_in_range(0..=2)?)]).expect("one node");
            let epoch = now.get() / promise_params().absence_epoch.get();
            let report = |seat| {
                let action = Action::ReportAbsent { epoch, nodes: nodes.clone() };
                self.world.tx(owner(seat), action)
            };
            txs.extend((0..3).map(report));
        }
        let applied = self.world.block(&txs);
        let receipts = applied.receipts.iter().flat_map(|receipt| &receipt.events);
        for event in receipts.chain(&applied.block_receipt.events) {
            self.note(event);
        }
        Ok(())
    }

    /// What a node does about its runs: it takes any time within the limit, and if it may fail it
    /// also gives up or falls silent.
    fn steps(&mut self, u: &mut Unstructured<'_>, number: u8, now: Tick) -> Result<Vec<Action>> {
        let entry = self.world.node(&node(number));
        let runs = entry.map_or(Vec::new(), |entry| entry.runs.as_slice().to_vec());
        let mut actions = Vec::new();
        for job in runs {
            let entry = self.world.known(job);
            let run = entry.live().find(|run| run.node == node(number)).expect("its run");
            if run.committed().is_some() {
                actions.push(reveal_as(number, job, &right()));
                continue;
            }
            let begun = run.deadline.get() - entry.spec.run_max.get() - 1_000;
            let takes = u.int_in_range(0..=entry.spec.run_max.get())?;
            let is_failing = self.failures == Failures::Some && u.ratio(1, 12)?;
            let done = *self.done.entry(job).or_insert_with(|| Tick::new(begun + takes));
            let late = Tick::new(done.get().max(begun));
            if is_failing {
                let failure = *u.choose(&[RunFailure::Declined, RunFailure::PackageMissing])?;
                actions.push(Action::GiveUp { job, failure });
                self.done.remove(&job);
            } else if late <= now {
                actions.push(commit_as(number, job, &right()));
            }
        }
        Ok(actions)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are no part of a promise")]
    fn note(&mut self, event: &Event) {
        match event {
            Event::PromiseGiven { job, from, by, .. } => {
                assert!(from < by);
                let is_slot = *from > self.world.cursor().tick;
                let needs = &self.world.known(*job).spec.needs;
                let is_holding = needs.kind.is_some() || needs.host != HostPart::NONE;
                self.slots += usize::from(is_slot);
                self.holding += usize::from(is_slot && is_holding);
                self.moved += usize::from(self.given.contains_key(job));
                assert_eq!(*self.given.entry(*job).or_insert(*by), *by, "it never moves");
            }
            Event::PromiseBroken { job, .. } => {
                assert!(self.given.contains_key(job) && self.broken.insert(*job), "once");
            }
            Event::ClientCompensated { job, owner, amount, .. } => {
                assert!(self.broken.contains(job), "it was said before");
                let (pay, stake) = (self.world.known(*job).spec.pay, self.world.stake(owner));
                assert!(*amount == pay || stake.active.units() == 0, "all of it, or all there is");
                assert_eq!(self.compensated.insert(*job, amount.units()), None, "once");
            }
            Event::PromiseRefused { job, .. } => assert!(!self.given.contains_key(job)),
            Event::JobSettled { job, .. } if self.given.contains_key(job) => {
                let now = self.world.cursor().tick;
                assert!(now <= self.given[job], "{job} was done at {now}");
            }
            _ => {}
        }
    }

    /// Every promise ended in one of two ways, and none silently.
    fn check_rest(&self) {
        for (job, by) in &self.given {
            let entry = self.world.known(*job);
            let is_broken = self.broken.contains(job);
            if entry.status == JobStatus::Settled {
                assert!(!is_broken && entry.closed <= Some(*by));
                continue;
            }
            assert!(matches!(entry.status, JobStatus::Failed | JobStatus::Expired), "{entry:?}");
            let compensation = self.compensated.get(job).copied().unwrap_or(0);
            let expected = Promise::Broken { compensation: units(compensation) };
            assert!(is_broken && entry.promise == expected, "{job}: {entry:?}");
        }
        let count = |number: usize| u64::try_from(number).expect("few");
        let (given, broken) = (count(self.given.len()), count(self.broken.len()));
        assert_eq!(self.world.cursor().promises, counts(given, given - broken, broken));
        for number in 0..3 {
            let Some(node) = self.world.node(&node(number)) else { continue };
            assert!(node.kept.as_slice().is_empty(), "all slots are free again");
            assert!(node.held.as_slice().is_empty() && node.hosted.as_slice().is_empty());
        }
    }
}

/// Blocks until the randomness is used up, and then until all jobs have ended.
fn any_play(u: &mut Unstructured<'_>, failures: Failures, seen: &mut Seen) -> Result<()> {
    let mut play = Play::new(u, failures)?;
    while !u.is_empty() {
        play.block(u, true)?;
    }
    for _ in 0..150 {
        play.world.wait(400);
        play.block(u, false)?;
    }
    play.check_rest();
    seen.slots += play.slots;
    seen.holding += play.holding;
    seen.moved += play.moved;
    seen.broken += play.broken.len();
    seen.compensated += play.compensated.len();
    Ok(())
}

/// Goal: without failing nodes no promise is broken, however full the network is. Method: random
/// jobs of which most ask for a promise, on nodes that take any time within the limits.
#[test]
fn prop_promises_are_kept_if_no_node_fails() {
    let seen: Seen = histories::play("kept", 16, |u, seen| any_play(u, Failures::None, seen));
    assert_eq!(seen.broken, 0);
    assert!(seen.holding > 0 && seen.slots > seen.holding, "some of both had to wait");
}

/// Goal: with failing nodes every promise is kept or broken with a word. Method: nodes that also
/// close, shrink, disappear, decline and say that the package is missing.
#[test]
fn prop_promises_are_broken_openly_if_nodes_fail() {
    let seen: Seen = histories::play("broken", 16, |u, seen| any_play(u, Failures::Some, seen));
    let Seen { slots, holding, moved, broken, compensated } = seen;
    assert!(slots > holding && holding > 0 && moved > 0, "{slots} and {holding}, {moved} moved");
    assert!(compensated > 0 && broken > compensated, "{broken} broke, {compensated} at a price");
}
