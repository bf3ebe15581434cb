//! The whole path of a job: asked for, placed, run, checked, disputed, settled. Money is counted
//! and every entry is held against the others after every block; see `audit`.

mod adjusts;
mod arrays;
mod checkpoints;
mod checks;
mod commands;
mod complaints;
mod disputes;
mod drains;
mod draws;
mod gangs;
pub(crate) mod gpus;
mod hosts;
mod keyless;
mod limits;
mod order;
mod paces;
mod placing;
mod programs;
mod promised_parts;
mod promises;
mod proofs;
mod random;
mod rebalances;
mod runs;
mod stand_ins;
mod stops;
mod tiles;
mod vouchers;
mod weights;
mod yields;

use tg_ledger::{CheckState, Draw};
use tg_types::{
    Action, Amount, Bps, DurationMs, Event, Hash32, JobId, JobSpec, JobStatus, List, NetworkKind,
    Params, Reason, Status, Tier, Work,
};

use crate::fleet::*;
use crate::world::*;

/// Parameters with this share of audits.
fn audit_params(points: u16) -> Params {
    let mut params = busy_params();
    params.jobs.audit_share = Bps::constant(points);
    params
}

/// What a job was charged, by its last event.
fn charged(events: &[Event]) -> (u64, u64) {
    let settled = |event: &Event| {
        let Event::JobSettled { charged, refund, .. } = event else {
            return None;
        };
        Some((charged.units(), refund.units()))
    };
    events.iter().find_map(settled).expect("the job is settled")
}

#[test]
fn trusted_job_is_placed_run_and_paid() {
    let mut world = World::staffed(2);
    let (client, provider) = (account(CLIENT), account(0));
    let before = [client, provider, voice(0)].map(|id| world.balance(&id));
    let tx = world.tx(client, submit(vec![spec(Tier::Trusted)]));
    let (job, now) = (JobId::of(tx.id(), 0), world.env.tick);
    let applied = world.block(&[tx]);
    let deadline = now.plus(DurationMs::new(2_000)).expect("early");
    let placed = Event::JobPlaced { job, node: node(0), run: 0, deadline };
    assert!(applied.block_receipt.events.contains(&placed), "the cheapest node gets it");
    assert_eq!(world.stake(&provider).exposed.units(), 20 * PAY);
    assert_eq!(world.status(job), JobStatus::Running);

    let events = world.act(0, commit_as(0, job, &right()));
    assert_eq!(events, [Event::ResultCommitted { job, node: node(0) }]);
    let events = world.act(0, reveal_as(0, job, &right()));
    let (node, result, output) = (node(0), right(), right().output);
    let paid = Event::ProviderPaid { job, node, owner: provider, amount: units(PAY) };
    let (charged, refund) = (units(PAY + 120), Amount::ZERO);
    let settled = Event::JobSettled { job, owner: client, output, charged, refund };
    assert_eq!(events, [Event::ResultRevealed { job, node, result }, paid, settled]);
    let after = [client, provider, voice(0)].map(|id| world.balance(&id));
    let fee = FEE.units();
    let expected = [before[0] - PAY - 120 - fee, before[1] + PAY, before[2] + 120 - 2 * fee];
    assert_eq!((after, world.status(job)), (expected, JobStatus::Settled));
    assert_eq!(world.stake(&provider).exposed, Amount::ZERO);
    let reputation = world.node(&node).expect("registered").reputation;
    assert_eq!((reputation.good, reputation.bad), (PAY, 0));
}

#[test]
fn audit_that_is_not_drawn_is_settled_by_the_beacon() {
    let mut world = World::staffed_with(audit_params(0), NetworkKind::Local, 4);
    let job = world.ask(spec(Tier::Audit));
    world.deliver(0, job, &right());
    assert_eq!((world.status(job), world.known(job).draw), (JobStatus::Checking, Draw::Pending));
    let events = world.draw();
    assert!(events.contains(&Event::ResultNotDrawn { job }));
    let prices = prices(&audit_params(0), Tier::Audit);
    let paid = prices.of(1, 0).expect("payable").units();
    assert_eq!(charged(&events), (paid, prices.escrow.units() - paid));
}

#[test]
fn audit_that_is_not_drawn_is_settled_when_it_is_shown_later() {
    let mut world = World::staffed_with(audit_params(0), NetworkKind::Local, 4);
    let job = world.ask(spec(Tier::Audit));
    world.act(0, commit_as(0, job, &right()));
    world.draw();
    assert_eq!((world.status(job), world.known(job).draw), (JobStatus::Running, Draw::Spared));
    charged(&world.act(0, reveal_as(0, job, &right())));
}

#[test]
fn audit_that_is_drawn_is_checked_and_paid() {
    let mut world = World::staffed_with(audit_params(10_000), NetworkKind::Local, 4);
    let job = world.ask(spec(Tier::Audit));
    world.deliver(0, job, &right());
    let events = world.draw();
    let checkers = world.checkers(job);
    assert_eq!(checkers.len(), 2);
    for number in &checkers {
        let drawn = Event::CheckDrawn { job, node: node(*number), round: 0 };
        assert!(events.contains(&drawn) && *number != 0);
        // A tenth of the pay, twenty times.
        assert_eq!(world.stake(&account(*number)).exposed.units(), 2 * PAY);
    }
    let before = world.balance(&account(checkers[0]));
    let events = world.vouch(job, &checkers, &right());
    let prices = prices(&audit_params(10_000), Tier::Audit);
    assert_eq!(charged(&events), (prices.escrow.units(), 0));
    assert_eq!(world.balance(&account(checkers[0])), before + PAY / 10);
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn sync_is_settled_when_all_checkers_have_passed() {
    let mut world = World::staffed(5);
    let (job, provider, checkers) = world.checked(&right());
    assert_eq!((provider, checkers.len()), (0, 3));
    for number in &checkers {
        world.act(*number, vouch_as(*number, job, &right()));
    }
    let before: Vec<u64> = checkers.iter().map(|number| world.balance(&voice(*number))).collect();
    for number in &checkers[..2] {
        let events = world.act(*number, open_as(*number, job, &right()));
        assert_eq!(events, [Event::CheckPassed { job, node: node(*number) }]);
    }
    assert_eq!(world.status(job), JobStatus::Checking);
    let last = checkers[2];
    let events = world.act(last, open_as(last, job, &right()));
    let prices = prices(&busy_params(), Tier::Sync);
    assert_eq!(charged(&events), (prices.of(1, 3).expect("payable").units(), 0));
    for (number, before) in checkers.iter().zip(before) {
        let paid = Event::CheckerPaid {
            job,
            node: node(*number),
            owner: account(*number),
            amount: units(PAY / 2),
        };
        assert!(events.contains(&paid));
        assert_eq!(world.balance(&voice(*number)), before - FEE.units() + 120);
        assert_eq!(world.stake(&account(*number)).exposed, Amount::ZERO);
    }
    let passed = world.known(job).checks;
    assert!(passed.as_slice().iter().all(|it| it.state == CheckState::Passed));
}

/// Goal: what a client is told is what it pays. Method: every tier, once with all that it may cost
/// and once with less; the quote, the escrow and the balance are held against each other.
#[test]
fn charges_are_what_is_charged_in_every_tier() {
    let check = |tier: Tier, share, run: &dyn Fn(&mut World, JobId), runs, checks| {
        let params = audit_params(share);
        let mut world = World::staffed_with(params.clone(), NetworkKind::Local, 8);
        let before = world.balance(&account(CLIENT)) - FEE.units();
        let job = world.ask(spec(tier));
        let quote = prices(&params, tier);
        assert_eq!(world.known(job).escrow, quote.escrow);
        assert_eq!(world.balance(&account(CLIENT)), before - quote.escrow.units());
        run(&mut world, job);
        assert_eq!(world.status(job), JobStatus::Settled, "{tier:?}");
        let paid = quote.of(runs, checks).expect("payable").units();
        assert_eq!(before - world.balance(&account(CLIENT)), paid, "{tier:?}");
    };
    let deliver = |world: &mut World, job| drop(world.deliver(0, job, &right()));
    let spared = |world: &mut World, job| {
        world.deliver(0, job, &right());
        world.draw();
    };
    let checked = |world: &mut World, job| {
        spared(world, job);
        world.vouch(job, &world.checkers(job), &right());
    };
    let agree = |world: &mut World, job| runs::all_agree(world, job, &right());
    check(Tier::Trusted, 0, &deliver, 1, 0);
    check(Tier::Audit, 0, &spared, 1, 0);
    check(Tier::Audit, 10_000, &checked, 1, 2);
    check(Tier::Sync, 0, &checked, 1, 3);
    for replicas in 2..=4 {
        check(Tier::Redundant { replicas }, 0, &agree, replicas.into(), 0);
    }
}

#[test]
fn batch_of_jobs_is_taken_as_a_whole() {
    let mut world = World::staffed(3);
    let count = 20;
    let before = world.balance(&account(CLIENT));
    let receipt = world.run(account(CLIENT), submit(vec![spec(Tier::Trusted); count]));
    let jobs: Vec<JobId> = (0..20).map(|place| JobId::of(receipt.tx, place)).collect();
    let escrow = prices(&busy_params(), Tier::Trusted).escrow.units();
    let locked = u64::try_from(count).expect("few") * escrow;
    assert_eq!(world.balance(&account(CLIENT)), before - locked - FEE.units());
    assert_eq!((receipt.events.len(), world.totals().escrow.units()), (count, locked));
    // Three nodes with four places each; the rest waits, and follows as places come free.
    let running = |world: &World| -> Vec<JobId> {
        let is_running =
            |job: &&JobId| world.job(job).is_some_and(|entry| entry.status == JobStatus::Running);
        jobs.iter().filter(is_running).copied().collect()
    };
    assert_eq!(running(&world).len(), 12);
    for _ in 0..count {
        let job = *running(&world).first().expect("one is running");
        let number = world.runners(job)[0];
        world.deliver(number, job, &right());
    }
    assert!(jobs.iter().all(|job| world.job(job).is_none_or(|it| it.status.is_final())));
    assert_eq!(world.totals().escrow, Amount::ZERO);
}

#[test]
fn batch_with_one_bad_job_is_refused_as_a_whole() {
    let mut world = World::staffed(2);
    let bad = JobSpec { pay: units(1), ..spec(Tier::Trusted) };
    let specs = vec![spec(Tier::Trusted), spec(Tier::Sync), bad];
    world.fail(account(CLIENT), submit(specs), Reason::PayTooLow, Amount::ZERO);
    let specs = List::new(vec![spec(Tier::Trusted); 3]).expect("three");
    let escrow = prices(&busy_params(), Tier::Trusted).escrow.times(3).expect("small");
    let escrow_max = escrow.minus(units(1)).expect("more than one");
    let tight = Action::SubmitJobs { specs: specs.clone(), escrow_max, vouchers: List::default() };
    world.fail(account(CLIENT), tight, Reason::EscrowTooLow, Amount::ZERO);
    world.succeed(
        account(CLIENT),
        Action::SubmitJobs { specs, escrow_max: escrow, vouchers: List::default() },
    );
}

#[test]
fn tier_that_cannot_be_is_refused() {
    let mut world = World::staffed(3);
    let mut check = |spec: JobSpec, reason| {
        world.fail(account(CLIENT), submit(vec![spec]), reason, Amount::ZERO);
    };
    let opaque = Work::Opaque { task: Hash32::new([1; 32]) };
    for tier in [Tier::Audit, Tier::Sync] {
        check(JobSpec { work: opaque, ..spec(tier) }, Reason::TierNeedsProgram);
    }
    for replicas in [0, 1, 5, 255] {
        check(spec(Tier::Redundant { replicas }), Reason::ReplicasWrong);
    }
    let hash = Hash32::new([1; 32]);
    let unknown = Work::Tensor { program: hash, weights: hash, inputs: hash, salt: hash };
    for tier in [Tier::Trusted, Tier::Audit, Tier::Sync, Tier::Redundant { replicas: 2 }] {
        check(JobSpec { work: unknown, ..spec(tier) }, Reason::ProgramUnknown);
    }
}

#[test]
fn sync_on_an_open_network_needs_five_owners() {
    let open = |nodes| World::staffed_with(busy_params(), NetworkKind::Open, nodes);
    let ask = || submit(vec![spec(Tier::Sync)]);
    open(4).fail(account(CLIENT), ask(), Reason::CheckersTooFew, Amount::ZERO);
    open(5).succeed(account(CLIENT), ask());
    // Two nodes of one owner are one owner.
    let mut world = open(4);
    let txs = world.staff(4, 3, STAKE);
    world.block(&txs);
    world.fail(account(CLIENT), ask(), Reason::CheckersTooFew, Amount::ZERO);
    // Other tiers need nobody.
    world.succeed(account(CLIENT), submit(vec![spec(Tier::Audit), spec(Tier::Trusted)]));
}

#[test]
fn cancel_takes_back_what_waits() {
    let mut world = World::staffed(0);
    let before = world.balance(&account(CLIENT));
    let job = world.ask(spec(Tier::Sync));
    let cancel = Action::CancelJob { job };
    world.fail(account(0), cancel.clone(), Reason::JobNotOwned, Amount::ZERO);
    world.succeed(account(CLIENT), cancel.clone());
    assert_eq!(world.balance(&account(CLIENT)), before - 2 * FEE.units());
    world.fail(account(CLIENT), cancel, Reason::JobClosed, Amount::ZERO);

    let mut world = World::staffed(2);
    let job = world.ask(spec(Tier::Trusted));
    world.act(0, Action::GiveUp { job, failure: tg_types::RunFailure::Declined });
    world.act(1, Action::GiveUp { job, failure: tg_types::RunFailure::Declined });
    assert_eq!(world.status(job), JobStatus::Queued, "everybody has declined");
    world.succeed(account(CLIENT), Action::CancelJob { job });
    assert_eq!(world.status(job), JobStatus::Cancelled);
}

#[test]
fn expiry_ends_what_has_no_result() {
    let short = JobSpec { expires_after: DurationMs::new(1_500), ..spec(Tier::Sync) };
    let mut world = World::staffed(4);
    let before = world.balance(&account(CLIENT));
    let job = world.ask(short);
    let (owner, refund) = (account(CLIENT), prices(&busy_params(), Tier::Sync).escrow);
    let events = world.pass(2_000);
    assert!(events.contains(&Event::JobExpired { job, owner, refund }));
    assert_eq!(world.balance(&account(CLIENT)), before - FEE.units());
    assert_eq!(world.ended(job), [Reason::JobClosed]);
    assert_eq!(world.stake(&account(0)).active.units(), STAKE, "nobody is to blame");
    world.refused(0, commit_as(0, job, &right()), Reason::RunUnknown);
    world.refused(0, reveal_as(0, job, &right()), Reason::RunUnknown);
}

#[test]
fn expiry_does_not_end_what_is_being_checked() {
    let short = JobSpec { expires_after: DurationMs::new(1_000), ..spec(Tier::Sync) };
    let mut world = World::staffed(4);
    let job = world.ask(short);
    world.deliver(0, job, &right());
    world.draw();
    world.wait(1_000);
    world.block(&[]);
    assert!(world.env.parent_tick > world.known(job).expires);
    assert_eq!(world.status(job), JobStatus::Checking);
    let checkers = world.checkers(job);
    world.vouch(job, &checkers, &right());
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn stake_that_stands_for_work_cannot_be_called_back() {
    let mut world = World::staffed(4);
    let (job, _, checkers) = world.checked(&right());
    let unstake = |amount| Action::Unstake { amount: units(amount) };
    let whole = |world: &mut World, number: u8, exposed: u64| {
        let owner = account(number);
        assert_eq!(world.stake(&owner).exposed.units(), exposed);
        world.fail(owner, unstake(STAKE - exposed + 1), Reason::StakeExposed, Amount::ZERO);
        world.fail(owner, unstake(STAKE), Reason::StakeExposed, Amount::ZERO);
    };
    whole(&mut world, 0, 20 * PAY);
    whole(&mut world, checkers[0], 10 * PAY);
    world.succeed(account(0), unstake(STAKE - 20 * PAY));
    world.vouch(job, &checkers, &right());
    world.succeed(account(0), unstake(20 * PAY));
}

#[test]
fn node_with_work_cannot_leave() {
    let mut world = World::staffed(4);
    let (job, provider, checkers) = world.checked(&right());
    for number in [provider, checkers[0]] {
        let leave = Action::LeaveNode { node: node(number) };
        world.refused(number, leave.clone(), Reason::NodeBusy);
        world.fail(account(number), leave, Reason::NodeBusy, Amount::ZERO);
    }
    world.vouch(job, &checkers, &right());
    for number in 0..4 {
        let receipt = world.run(account(number), Action::LeaveNode { node: node(number) });
        assert_eq!(receipt.status, Status::Applied);
    }
}
