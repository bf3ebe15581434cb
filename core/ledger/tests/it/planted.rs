//! Every planted bug can be noticed from outside, and the check that notices it passes without.

use crate::fleet::*;
use crate::judge::{STEP, answer};
use crate::world::*;
use tg_ledger::{Applied, ApplyError, Part, PlantedBug, apply};
use tg_types::tx::NodeSet;
use tg_types::{Action, Amount, CheckedTx, JobId, List, Message, Reason, RunResult, Status, Tier};

/// A network that makes one mistake, or none.
fn world_with(bug: Option<PlantedBug>) -> World {
    let mut world = World::new();
    world.rules.planted = bug;
    world
}

/// Applies a block without the checks of `World::block`, which the bug would trip.
fn run(world: &mut World, txs: &[CheckedTx]) -> Result<Applied, ApplyError> {
    let applied = apply(&world.rules, &world.view, &world.env, txs)?;
    world.commit(&applied);
    Ok(applied)
}

fn run_one(world: &mut World, sender: tg_types::AccountId, action: Action) -> Applied {
    let tx = world.tx(sender, action);
    run(world, &[tx]).expect("valid")
}

/// What is observed without and with a bug.
struct Expected<T> {
    healthy: T,
    sick: T,
}

/// The observation differs with the bug, and only with the bug.
fn check<T: Copy + PartialEq + std::fmt::Debug>(
    bug: PlantedBug,
    observe: impl Fn(World) -> T,
    expected: &Expected<T>,
) {
    assert_eq!(observe(world_with(None)), expected.healthy, "without a bug");
    assert_eq!(observe(world_with(Some(bug))), expected.sick, "with {bug:?}");
}

/// Which part of the money a block finds out of balance.
fn unbalanced(result: &Result<Applied, ApplyError>) -> Option<Part> {
    match result {
        Err(ApplyError::Unbalanced { part, .. }) => Some(*part),
        Ok(_) | Err(_) => None,
    }
}

fn queue(world: &mut World) -> JobId {
    let submit = submit(vec![job_spec(10_000)]);
    JobId::of(run_one(world, account(0), submit).receipts[0].tx, 0)
}

/// Whether a job counts as held that one validator has signed for.
#[test]
fn planted_one_voucher_lets_a_single_validator_vouch() {
    let observe = |bug| {
        let mut params = busy_params();
        params.jobs.is_vouched = true;
        let mut world = World::with(params);
        world.rules.planted = bug;
        let spec = job_spec(10_000);
        let vouchers = List::new(vec![world.voucher(&[0], vec![spec.package_ref()])]).expect("one");
        let specs = List::new(vec![spec]).expect("one");
        let ask = Action::SubmitJobs { specs, escrow_max: Amount::CAP, vouchers };
        run_one(&mut world, account(0), ask).receipts[0].status
    };
    assert_eq!(observe(None), Status::Failed(Reason::PackageNotHeld));
    assert_eq!(observe(Some(PlantedBug::OneVoucher)), Status::Applied);
}

#[test]
fn planted_one_judge_lets_a_single_validator_decide() {
    let observe = |bug| {
        let mut world = World::staffed(1);
        world.rules.planted = bug;
        let job = world.ask(spec(Tier::Trusted));
        world.deliver(0, job, &right());
        let complaint = Action::Complain { job, about: Message::Result, key: [1; 32] };
        run_one(&mut world, account(CLIENT), complaint);
        run_one(&mut world, owner(0), Action::JudgeComplaint { job, opens: false });
        world.complaint(&job).expect("a complaint").is_open()
    };
    assert!(observe(None));
    assert!(!observe(Some(PlantedBug::OneJudge)));
}

#[test]
fn planted_trust_tiles_lets_checkers_vouch_unseen() {
    let observe = |bug: Option<PlantedBug>| {
        let mut params = busy_params();
        params.jobs.audit_share = tg_types::Bps::WHOLE;
        params.jobs.audit_tiles_from = 1;
        let mut world = World::staffed_with(params, tg_types::NetworkKind::Local, 4);
        world.rules.planted = bug;
        let job = world.ask(spec(Tier::Audit));
        let runner = world.runners(job)[0];
        world.deliver(runner, job, &right());
        world.draw();
        let checkers = world.checkers(job);
        let tiles = tg_types::Bytes::new(vec![7; 64]).expect("short");
        let idle = tg_types::CheckAnswer::Tiles { trace: right().trace, tiles };
        for number in &checkers {
            world.act(*number, seal_answer(*number, job, &idle));
        }
        for number in &checkers {
            let _refused = world.run(voice(*number), show_answer(*number, job, &idle));
        }
        world.status(job)
    };
    assert_eq!(observe(None), tg_types::JobStatus::Checking);
    assert_eq!(observe(Some(PlantedBug::TrustTiles)), tg_types::JobStatus::Settled);
}

#[test]
fn planted_skip_nonce_lets_a_transaction_be_replayed() {
    let observe = |mut world: World| {
        let tx = world.tx(account(0), transfer(account(50), 5));
        run(&mut world, std::slice::from_ref(&tx)).expect("valid");
        let _again = run(&mut world, &[tx]);
        world.balance(&account(50))
    };
    check(PlantedBug::SkipNonce, observe, &Expected { healthy: 5, sick: 10 });
}

#[test]
fn planted_pay_twice_is_caught_by_the_totals() {
    let observe = |mut world: World| {
        let tx = world.tx(account(0), transfer(account(50), 5));
        unbalanced(&run(&mut world, &[tx]))
    };
    check(PlantedBug::PayTwice, observe, &Expected { healthy: None, sick: Some(Part::Balances) });
}

#[test]
fn planted_mint_on_transfer_raises_the_supply() {
    let observe = |mut world: World| {
        run_one(&mut world, account(0), transfer(account(50), 5));
        world.totals().supply.units() - world.rules.genesis.supply().units()
    };
    check(PlantedBug::MintOnTransfer, observe, &Expected { healthy: 0, sick: 5 });
}

#[test]
fn planted_forged_evidence_slashes_the_innocent() {
    let observe = |mut world: World| {
        run_one(&mut world, account(0), forged_evidence(&vote_key(1)));
        world.validator(&vote_key(1)).expect("a seat").slashed.is_some()
    };
    check(PlantedBug::ForgedEvidence, observe, &Expected { healthy: false, sick: true });
}

#[test]
fn planted_forget_unbonding_never_releases() {
    let observe = |mut world: World| {
        run_one(&mut world, owner(1), Action::Unstake { amount: units(1_000) });
        world.wait(7_000);
        run(&mut world, &[]).expect("valid");
        world.totals().unbonding.units()
    };
    check(PlantedBug::ForgetUnbonding, observe, &Expected { healthy: 0, sick: 1_000 });
}

#[test]
fn planted_slash_active_only_spares_the_unbonding() {
    let observe = |mut world: World| {
        run_one(&mut world, owner(1), Action::Unstake { amount: units(8_000_000) });
        let before = world.totals();
        run_one(&mut world, account(0), evidence_against(&vote_key(1)));
        let at_stake = |totals: tg_ledger::Totals| totals.staked.units() + totals.unbonding.units();
        at_stake(before) - at_stake(world.totals())
    };
    check(
        PlantedBug::SlashActiveOnly,
        observe,
        &Expected { healthy: 10_000_001 / 4, sick: 2_000_001 / 4 },
    );
}

#[test]
fn planted_burn_fee_twice_is_caught_by_the_totals() {
    let observe = |mut world: World| {
        let tx = world.tx(account(0), transfer(account(50), 5));
        unbalanced(&run(&mut world, &[tx]))
    };
    check(
        PlantedBug::BurnFeeTwice,
        observe,
        &Expected { healthy: None, sick: Some(Part::Balances) },
    );
}

#[test]
fn planted_lost_refund_is_caught_by_the_totals() {
    let observe = |mut world: World| {
        let job = queue(&mut world);
        let tx = world.tx(account(0), Action::CancelJob { job });
        unbalanced(&run(&mut world, &[tx]))
    };
    check(PlantedBug::LoseRefund, observe, &Expected { healthy: None, sick: Some(Part::Balances) });
}

#[test]
fn planted_kept_escrow_is_caught_by_the_totals() {
    let observe = |mut world: World| {
        let job = queue(&mut world);
        let tx = world.tx(account(0), Action::CancelJob { job });
        unbalanced(&run(&mut world, &[tx]))
    };
    check(PlantedBug::KeepEscrow, observe, &Expected { healthy: None, sick: Some(Part::Escrow) });
}

#[test]
fn planted_skip_owner_lets_anybody_cancel() {
    let observe = |mut world: World| {
        let job = queue(&mut world);
        let applied = run_one(&mut world, account(1), Action::CancelJob { job });
        applied.receipts[0].status == Status::Applied
    };
    check(PlantedBug::SkipOwner, observe, &Expected { healthy: false, sick: true });
}

#[test]
fn planted_trust_in_certificates_takes_forged_ones() {
    let observe = |mut world: World| {
        world.env.certificates = vec![(tg_types::Height::FIRST, b"forged".to_vec())];
        run(&mut world, &[]).is_ok()
    };
    check(PlantedBug::TrustCertificates, observe, &Expected { healthy: false, sick: true });
}

#[test]
fn planted_drop_on_one_report_drops_a_living_node() {
    let observe = |mut world: World| {
        let register = world.registration(1, account(0), 5);
        run_one(&mut world, account(0), register);
        world.wait(8_000);
        let epoch = world.env.tick.get() / 4_000;
        let nodes = NodeSet::new(vec![node(1)]).expect("one node");
        run_one(&mut world, owner(1), Action::ReportAbsent { epoch, nodes });
        world.node(&node(1)).is_some_and(|entry| entry.absent.is_none())
    };
    check(PlantedBug::DropOnOneReport, observe, &Expected { healthy: true, sick: false });
}

#[test]
fn planted_keep_all_fees_burns_nothing() {
    let observe = |mut world: World| {
        run_one(&mut world, account(0), transfer(account(50), 5));
        world.totals().burned == Amount::ZERO
    };
    check(PlantedBug::KeepAllFees, observe, &Expected { healthy: false, sick: true });
}

/// As [`check`], in a network with nodes and a job of this tier that runs on node 0.
fn check_job<T: Copy + PartialEq + std::fmt::Debug>(
    bug: PlantedBug,
    (nodes, tier): (u8, Tier),
    observe: impl Fn(World, JobId) -> T,
    expected: &Expected<T>,
) {
    for (planted, expected) in [(None, expected.healthy), (Some(bug), expected.sick)] {
        let mut world = World::staffed(nodes);
        world.rules.planted = planted;
        let job = run_one(&mut world, account(CLIENT), submit(vec![spec(tier)])).receipts[0].tx;
        let job = JobId::of(job, 0);
        assert_eq!(world.runners(job), [0]);
        assert_eq!(observe(world, job), expected, "with {planted:?}");
    }
}

/// A node commits to one result and shows another.
fn deliver(world: &mut World, job: JobId, committed: &RunResult, shown: &RunResult) -> Status {
    run_one(world, voice(0), commit_as(0, job, committed));
    run_one(world, voice(0), reveal_as(0, job, shown)).receipts[0].status
}

#[test]
fn planted_skip_seal_takes_what_was_not_committed_to() {
    let observe =
        |mut world: World, job| deliver(&mut world, job, &right(), &wrong(1)) == Status::Applied;
    let expected = Expected { healthy: false, sick: true };
    check_job(PlantedBug::SkipSeal, (2, Tier::Trusted), observe, &expected);
}

#[test]
fn planted_self_check_lets_owners_vouch_for_themselves() {
    let observe = |mut world: World, job| {
        deliver(&mut world, job, &wrong(1), &wrong(1));
        for _ in 0..3 {
            let (last, until) = (world.cursor().beacon.get(), world.env.height.get());
            world.env.certificates = (last + 1..until).map(|at| world.certificate(at)).collect();
            run(&mut world, &[]).expect("valid");
        }
        world.checkers(job).contains(&0)
    };
    let expected = Expected { healthy: false, sick: true };
    check_job(PlantedBug::SelfCheck, (1, Tier::Sync), observe, &expected);
}

#[test]
fn planted_double_pay_is_caught_by_the_totals() {
    let observe = |mut world: World, job| {
        run_one(&mut world, voice(0), commit_as(0, job, &right()));
        let reveal = world.tx(voice(0), reveal_as(0, job, &right()));
        unbalanced(&run(&mut world, &[reveal]))
    };
    let expected = Expected { healthy: None, sick: Some(Part::Balances) };
    check_job(PlantedBug::PayTwiceOnSettle, (2, Tier::Trusted), observe, &expected);
}

#[test]
fn planted_forgotten_bond_stays_exposed() {
    let observe = |mut world: World, job| {
        deliver(&mut world, job, &right(), &right());
        world.stake(&account(0)).exposed.units()
    };
    let expected = Expected { healthy: 0, sick: 20 * PAY };
    check_job(PlantedBug::ForgetBond, (2, Tier::Trusted), observe, &expected);
}

#[test]
fn planted_slash_of_the_honest_takes_a_right_result_for_wrong() {
    let observe = |mut world: World, job| {
        deliver(&mut world, job, &right(), &right());
        run_one(&mut world, account(CHALLENGER), Action::Object { job });
        run_one(&mut world, voice(0), judge_by(job, STEP));
        world.stake(&account(0)).active.units()
    };
    let expected = Expected { healthy: STAKE, sick: STAKE - 20 * PAY };
    check_job(PlantedBug::SlashHonest, (4, Tier::Sync), observe, &expected);
}

#[test]
fn planted_skip_turn_lets_a_provider_answer_twice() {
    let observe = |mut world: World, job| {
        deliver(&mut world, job, &right(), &right());
        run_one(&mut world, account(CHALLENGER), Action::Object { job });
        let answers = [16, 1].map(|children| answer_by(job, answer(0, children)));
        let endings = answers.map(|it| run_one(&mut world, voice(0), it).receipts[0].status);
        endings == [Status::Applied; 2]
    };
    let expected = Expected { healthy: false, sick: true };
    check_job(PlantedBug::SkipTurn, (4, Tier::Sync), observe, &expected);
}

#[test]
fn planted_trust_in_proofs_pays_for_a_lie() {
    let tier = Tier::Proof { weights: tg_types::Hash32::new([5; 32]) };
    let observe = |mut world: World, job| {
        let lie = world.prove_as(0, job, &wrong(1));
        run_one(&mut world, voice(0), lie);
        world.stake(&account(0)).active.units()
    };
    let expected = Expected { healthy: STAKE - 20 * PAY, sick: STAKE };
    check_job(PlantedBug::TrustProofs, (2, tier), observe, &expected);
}

/// Goal: no bug is listed without a test. Method: the tests above, counted.
#[test]
fn planted_bugs_are_all_listed() {
    let mut all = PlantedBug::ALL.map(|bug| format!("{bug:?}"));
    all.sort_unstable();
    assert!(all.is_sorted_by(|a, b| a < b), "each once");
    assert_eq!(all.len(), 19);
}
