//! Results that are shown to be right in the block that accepts them: paid at once if they pass;
//! the bond is lost if they do not; and whatever is wrong with sizes, costs or names is refused
//! before.

use tg_ledger::{ApplyError, Built, RunState};
use tg_types::tx::{PROOF_TX_BYTES_MAX, SHOWN_BYTES_MAX, SHOWN_OPENLY_BYTES_MAX};
use tg_types::{
    Action, Amount, Bytes, CheckedTx, DurationMs, Event, GenesisHash, Hash32, Height, JobId,
    JobSpec, JobStatus, NetworkKind, Params, Reason, ResultClaim, RunFailure, RunResult, ShownBy,
    Status, Tier, Work,
};

use super::charged;
use crate::fleet::*;
use crate::judge::{program_id, proof_of, right_result};
use crate::world::*;

const COMMITMENT: Hash32 = Hash32::new([5; 32]);
const PROOF: Tier = Tier::Proof { weights: COMMITMENT };

const INPUTS: Hash32 = Hash32::new([6; 32]);
const ZK: Tier = Tier::Zk { weights: COMMITMENT, inputs: INPUTS, is_secret: false };

/// How the result of a run of tier [`ZK`] is shown.
const fn hidden(run: u8) -> ShownBy {
    ShownBy::Zk { weights: COMMITMENT, inputs: INPUTS, run, is_secret: false }
}

/// What a run of [`PROGRAM`] takes, by the test's verifier.
const COST: u64 = 5_000;

fn shown(world: &mut World, tier: Tier) -> (JobId, RunResult) {
    let job = world.ask(spec(tier));
    assert_eq!(world.runners(job), [0]);
    (job, right_result(&spec(tier)))
}

/// Parameters with room for transactions as large as they may be.
fn wide_params() -> Params {
    Params { block_bytes_max: 5 * 512 * 1024, ..busy_params() }
}

#[test]
fn proven_result_is_paid_in_its_block() {
    for (tier, by, cost) in [
        (PROOF, ShownBy::Proof { weights: COMMITMENT }, COST),
        (Tier::Rerun, ShownBy::Rerun, COST - 1_000),
        (ZK, hidden(0), COST + 2_000),
    ] {
        let mut world = World::staffed(2);
        let (client, provider) = (account(CLIENT), account(0));
        let before = [client, provider, voice(0)].map(|id| world.balance(&id));
        let (job, result) = shown(&mut world, tier);
        let locked = prices(&busy_params(), tier).escrow.units();
        assert_eq!(world.known(job).escrow.units(), locked);
        assert_eq!(world.stake(&provider).exposed.units(), 20 * PAY);
        let action = world.prove_as(0, job, &result);
        let size = u64::from(world.tx(voice(0), action.clone()).size_bytes());
        let events = world.act(0, action.clone());
        let Action::ProveResult { result, .. } = action else { unreachable!("a result") };
        let node = node(0);
        assert_eq!(events.first(), Some(&Event::ResultProved { job, node, result, by }));
        // The node gets back what its transaction had to cost, not what it offered.
        let fees = 7 * size + 3 * cost;
        assert_eq!(charged(&events), (PAY + fees, locked - PAY - fees));
        let after = [client, provider, voice(0)].map(|id| world.balance(&id));
        let fee = FEE.units();
        let expected = [before[0] - PAY - fees - fee, before[1] + PAY, before[2] + fees - fee];
        assert_eq!((after, world.status(job)), (expected, JobStatus::Settled));
        assert_eq!(world.stake(&provider).exposed, Amount::ZERO);
        let height = Height::new(world.env.height.get() - 1);
        let states: Vec<_> = world.known(job).live().map(|run| run.state).collect();
        assert_eq!(states, [RunState::Revealed { result, height }], "the hash of it stays");
        assert_eq!(world.node(&node).expect("registered").reputation.good, PAY);
    }
}

/// Goal: a result that is not shown to be right costs its sender the bond, whatever is wrong with
/// it. Method: an honest proof with one thing changed at a time.
#[test]
fn result_that_does_not_pass_costs_the_bond() {
    type Change = fn(&mut ResultClaim);
    let other = Hash32::new([77; 32]);
    let changes: [(&str, Change); 7] = [
        ("output", |claim| claim.output = Hash32::new([77; 32])),
        ("chain", |claim| claim.genesis = GenesisHash::new([77; 32])),
        ("job", |claim| claim.job = JobId::new([77; 32])),
        ("provider", |claim| claim.node = node(1)),
        ("program", |claim| claim.program = Hash32::new([77; 32])),
        ("inputs", |claim| claim.inputs = Hash32::new([77; 32])),
        ("commitment", |claim| claim.by = ShownBy::Rerun),
    ];
    for (what, change) in changes {
        let mut world = World::staffed(2);
        let (job, result) = shown(&mut world, PROOF);
        let mut claim = claim_as(&world.rules.domain, (0, job, 0), &spec(PROOF), &result);
        change(&mut claim);
        let result = RunResult { output: claim.output, ..result };
        check_refuted(&mut world, job, &result, proof_of(&claim), what);
    }
    for (what, bytes) in [("no bytes", vec![]), ("long ones", vec![7; 4_000])] {
        let mut world = World::staffed(2);
        let (job, result) = shown(&mut world, PROOF);
        check_refuted(&mut world, job, &result, bytes, what);
    }
    let mut world = World::staffed(2);
    let (job, _) = shown(&mut world, Tier::Rerun);
    let lie = RunResult { output: other, ..right_result(&spec(Tier::Rerun)) };
    let claim = claim_as(&world.rules.domain, (0, job, 0), &spec(Tier::Rerun), &lie);
    check_refuted(&mut world, job, &lie, proof_of(&claim), "a run that gives something else");
}

/// The bond of node 0 is burned and the job goes to node 1, which is paid for an honest result.
fn check_refuted(world: &mut World, job: JobId, result: &RunResult, bytes: Vec<u8>, what: &str) {
    let spec = world.known(job).spec;
    let escrow = world.known(job).escrow;
    let events = world.act(0, show_as(job, &spec, result, bytes));
    let (node, owner, amount) = (node(0), account(0), units(20 * PAY));
    let why = Reason::ResultRefuted;
    let slashed = Event::NodeSlashed { job, node, owner, amount, bounty: Amount::ZERO };
    assert_eq!(events, [Event::RunEnded { job, node, why }, slashed], "{what}");
    assert_eq!(world.stake(&owner).active.units(), STAKE - 20 * PAY, "{what}");
    assert_eq!(world.node(&node).expect("registered").reputation.bad, PAY, "{what}");
    assert_eq!((world.runners(job), world.known(job).escrow), (vec![1], escrow), "{what}");
    let honest = world.prove_as(1, job, &right_result(&spec));
    world.act(1, honest);
    assert_eq!(world.status(job), JobStatus::Settled, "{what}");
}

#[test]
fn result_of_another_step_tier_or_node_is_refused() {
    let mut world = World::staffed(2);
    let (job, result) = shown(&mut world, PROOF);
    let action = world.prove_as(0, job, &result);
    let not_admitted = |world: &World, number: u8, action: &Action| {
        world.refuse(&world.tx(voice(number), action.clone()), Reason::ResultNotAwaited);
    };
    not_admitted(&world, 1, &action);
    world.refused(0, commit_as(0, job, &result), Reason::RunNotThere);
    world.refused(0, reveal_as(0, job, &result), Reason::RunNotThere);
    let with = |change: &dyn Fn(&mut Action)| {
        let mut action = action.clone();
        change(&mut action);
        action
    };
    let dear = with(&|it| {
        if let Action::ProveResult { cost, .. } = it {
            *cost += 1;
        }
    });
    world.refuse(&world.tx(voice(0), dear), Reason::ProofCostWrong);
    let misnamed = with(&|it| {
        if let Action::ProveResult { result, .. } = it {
            result.trace = Hash32::new([1; 32]);
        }
    });
    world.refused(0, misnamed, Reason::ProofHashWrong);
    let unknown = with(&|it| {
        if let Action::ProveResult { job, .. } = it {
            *job = JobId::new([1; 32]);
        }
    });
    not_admitted(&world, 0, &unknown);
    world.act(0, action.clone());
    not_admitted(&world, 0, &action); // it was accepted
    let trusted = world.ask(spec(Tier::Trusted));
    let [runner] = world.runners(trusted)[..] else { unreachable!("one run") };
    let wrong_tier = show_as(trusted, &spec(PROOF), &right(), vec![1]);
    not_admitted(&world, runner, &wrong_tier);
    assert_eq!(world.stake(&account(0)).active.units(), STAKE, "none of this costs a bond");
}

#[test]
fn job_that_cannot_be_shown_is_not_taken() {
    let mut params = busy_params();
    params.jobs.proof_cost_max = COST - 1;
    let mut world = World::staffed_with(params, NetworkKind::Local, 2);
    let ask = |tier| submit(vec![spec(tier)]);
    world.fail(account(CLIENT), ask(PROOF), Reason::ProofTooCostly, Amount::ZERO);
    world.succeed(account(CLIENT), ask(Tier::Rerun));
    let unprovable = b"prog unprovable";
    world.succeed(account(CLIENT), piece(unprovable, 0, 1, unprovable));
    let mut spec_of = spec(PROOF);
    if let Work::Tensor { program, .. } = &mut spec_of.work {
        *program = program_id(unprovable);
    }
    let ask_of = submit(vec![spec_of]);
    world.fail(account(CLIENT), ask_of, Reason::ProgramNotShowable, Amount::ZERO);
    for tier in [PROOF, Tier::Rerun, ZK] {
        let work = Work::Opaque { task: Hash32::new([1; 32]) };
        let opaque = submit(vec![JobSpec { work, ..spec(tier) }]);
        world.fail(account(CLIENT), opaque, Reason::TierNeedsProgram, Amount::ZERO);
    }
}

#[test]
fn silence_about_a_result_to_be_shown_is_a_missed_run() {
    let mut world = World::staffed(2);
    let (job, result) = shown(&mut world, PROOF);
    let events = world.pass(3_000);
    let why = Reason::RunMissed;
    assert!(events.contains(&Event::RunEnded { job, node: node(0), why }));
    assert_eq!(world.runners(job), [1]);
    let late = world.prove_as(0, job, &result);
    world.refuse(&world.tx(voice(0), late), Reason::ResultNotAwaited);
    let honest = world.prove_as(1, job, &result);
    world.act(1, honest);
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn result_without_a_voucher_costs_no_bond() {
    let mut params = busy_params();
    params.jobs.is_vouched = true;
    let mut world = World::staffed_with(params, NetworkKind::Local, 2);
    let ask = world.vouched(submit(vec![spec(PROOF)]));
    let job = JobId::of(world.run(account(CLIENT), ask).tx, 0);
    let action = world.prove_as(0, job, &right_result(&spec(PROOF)));
    world.refused(0, action.clone(), Reason::PackageNotHeld);
    let vouched = world.vouched(action);
    world.act(0, vouched);
    assert_eq!(world.status(job), JobStatus::Settled);
}

#[test]
fn fee_covers_bytes_and_verifying() {
    let mut world = World::staffed(2);
    let (job, result) = shown(&mut world, PROOF);
    let body = world.body(voice(0), world.prove_as(0, job, &result));
    let size = u64::from(world.sign(body.clone()).size_bytes());
    let floor = units(7 * size + 3 * COST);
    let mut low = body.clone();
    low.fee = floor.minus(units(1)).expect("more than one");
    world.refuse(&world.sign(low), Reason::FeeTooLow);
    let mut enough = body.clone();
    enough.fee = floor;
    assert_eq!(world.block(&[world.sign(enough)]).receipts[0].status, Status::Applied);
    let mut dear = body;
    if let Action::ProveResult { cost, .. } = &mut dear.action {
        *cost = 10_001;
    }
    dear.nonce = dear.nonce.next().expect("early");
    world.refuse(&world.sign(dear), Reason::ProofLimit);
}

/// Goal: nobody but its provider takes a place of a block for a result, whatever is offered for it.
/// Method: nodes without the run offer more than its provider does, and come first.
#[test]
fn results_of_others_take_no_place_in_a_block() {
    let mut world = World::staffed(5);
    let (job, result) = shown(&mut world, PROOF);
    let honest = world.prove_as(0, job, &result);
    let mut txs: Vec<CheckedTx> = (1..5)
        .map(|number| {
            let body = world.body(voice(number), world.prove_as(number, job, &result));
            let fee = body.fee.times(10).expect("below the cap");
            world.sign(tg_types::TxBody { fee, ..body })
        })
        .collect();
    txs.push(world.tx(voice(0), honest));
    let Built { included, refused, .. } = world.build(&txs);
    let all = (0..4).map(|place| (place, Reason::ResultNotAwaited)).collect();
    assert_eq!((included, refused), (vec![4], all));
    world.block(&txs[4..]);
    assert_eq!(world.status(job), JobStatus::Settled);
}

/// Goal: a node that comes back and shows its result once more pays for it once. Method: the same
/// result twice, in one block and in the next one.
#[test]
fn result_that_is_shown_twice_is_paid_for_once() {
    let mut world = World::staffed(2);
    let (job, result) = shown(&mut world, PROOF);
    let action = world.prove_as(0, job, &result);
    let twice = world.txs(voice(0), vec![action.clone(), action.clone()]);
    let Built { included, refused, .. } = world.build(&twice);
    assert_eq!((included, refused), (vec![0], vec![(1, Reason::ResultNotAwaited)]));
    let before = world.balance(&voice(0));
    world.block(&twice[..1]);
    let paid = before - world.balance(&voice(0));
    let fee = twice[0].body().fee.units();
    assert!(paid < fee, "the client pays it back as far as it had to be");
    world.refuse(&world.tx(voice(0), action), Reason::ResultNotAwaited);
}

#[test]
fn result_that_nobody_can_show_costs_no_reputation() {
    let mut world = World::staffed(4);
    let before = world.balance(&account(CLIENT));
    let (job, _) = shown(&mut world, PROOF);
    for number in 0..3 {
        assert_eq!(world.runners(job), [number]);
        let events = world.act(number, Action::GiveUp { job, failure: RunFailure::NotShowable });
        let why = Reason::ResultNotShowable;
        assert_eq!(events.first(), Some(&Event::RunEnded { job, node: node(number), why }));
        assert_eq!(world.node(&node(number)).expect("registered").reputation.bad, 0);
        assert_eq!(world.stake(&account(number)).exposed, Amount::ZERO);
    }
    assert_eq!((world.status(job), world.runners(job)), (JobStatus::Failed, vec![]));
    assert_eq!(world.ended(job), [Reason::ResultNotShowable; 3], "the record says why");
    assert_eq!(world.balance(&account(CLIENT)), before - FEE.units());
}

/// Goal: saying that a result cannot be shown is no way out of a run. Method: another node shows
/// it; and of a tier that shows nothing, such a word is one like any other.
#[test]
fn result_that_somebody_shows_costs_its_doubters_reputation() {
    let mut world = World::staffed(3);
    let (job, result) = shown(&mut world, PROOF);
    let failure = RunFailure::NotShowable;
    world.act(0, Action::GiveUp { job, failure });
    let honest = world.prove_as(1, job, &result);
    world.act(1, honest);
    assert_eq!(world.status(job), JobStatus::Settled);
    let bad = |world: &World, number| world.node(&node(number)).expect("known").reputation.bad;
    assert_eq!([0, 1].map(|number| bad(&world, number)), [PAY, 0]);
    let trusted = world.ask(spec(Tier::Trusted));
    let [runner] = world.runners(trusted)[..] else { unreachable!("one run") };
    let before = bad(&world, runner);
    world.act(runner, Action::GiveUp { job: trusted, failure });
    assert_eq!(world.ended(trusted), [Reason::RunGivenUp]);
    assert!(bad(&world, runner) > before);
}

/// Transactions that show so many bytes for each of these runs, at a cost.
fn large(world: &World, jobs: &[JobId], bytes: usize, cost: u64) -> Vec<CheckedTx> {
    let shown = Bytes::new(vec![7; bytes]).expect("within the bound");
    let show = |job: &JobId| {
        let (result, vouchers, shown) = (right(), tg_types::List::default(), shown.clone());
        Action::ProveResult { job: *job, result, cost, shown, vouchers }
    };
    let of = |number: u8| {
        let jobs = jobs.iter().filter(|job| world.runners(**job) == [number]);
        world.txs(voice(number), jobs.map(show).collect())
    };
    (0..FUNDED).flat_map(of).collect()
}

/// Goal: a block has no more to verify than it has time for. Method: one transaction more than
/// fits, by number, by cost and by bytes; building leaves it out, applying refuses the block.
#[test]
fn block_with_too_many_results_to_verify_is_refused() {
    let check = |bytes: usize, limit: &dyn Fn(&mut Params), fits: usize| {
        let mut params = wide_params();
        limit(&mut params);
        let mut world = World::staffed_with(params, NetworkKind::Local, 5);
        let jobs: Vec<JobId> = (0..4).map(|_| world.ask(spec(ZK))).collect();
        let txs = large(&world, &jobs[..=fits], bytes, COST + 2_000);
        assert!(world.try_block(&txs[..fits]).is_ok());
        let refused = world.try_block(&txs);
        assert!(matches!(refused, Err(ApplyError::TooManyProofs { .. })), "{refused:?}");
        let Built { included, refused, .. } = world.build(&txs);
        assert_eq!((included.len(), refused.len()), (fits, 0), "the rest waits");
    };
    let cost = |params: &mut Params, most: u64| params.jobs.proof_cost_per_block_max = most;
    check(100, &|params| cost(params, 4 * (COST + 2_000)), 3);
    check(100, &|params| cost(params, 3 * (COST + 2_000) - 1), 2);
    check(750_000, &|params| cost(params, 4 * (COST + 2_000)), 2);
}

#[test]
fn result_may_be_large_and_not_larger() {
    let mut world = World::staffed_with(wide_params(), NetworkKind::Local, 2);
    for (tier, most, cost) in [
        (PROOF, SHOWN_OPENLY_BYTES_MAX, COST),
        (Tier::Rerun, SHOWN_OPENLY_BYTES_MAX, COST - 1_000),
        (ZK, SHOWN_BYTES_MAX, COST + 2_000),
    ] {
        let job = world.ask(spec(tier));
        if most < SHOWN_BYTES_MAX {
            // It takes no place in a block and costs nothing.
            let longer = large(&world, &[job], most + 1, cost);
            world.refuse(&longer[0], Reason::TxTooLarge);
            let Built { included, refused, .. } = world.build(&longer);
            assert_eq!((included, refused), (vec![], vec![(0, Reason::TxTooLarge)]));
        }
        let txs = large(&world, &[job], most, cost);
        assert!(usize::try_from(txs[0].size_bytes()).is_ok_and(|size| size <= PROOF_TX_BYTES_MAX));
        let status = world.block(&txs).receipts[0].status;
        assert_eq!(status, Status::Failed(Reason::ProofHashWrong), "admitted");
    }
    assert!(Bytes::<SHOWN_BYTES_MAX>::new(vec![7; SHOWN_BYTES_MAX + 1]).is_err());
}

/// Goal: no two proofs that may be published are about the same commitment to inputs. Method: a
/// run that follows a failed one has the next number, and a proof for another number is a lie.
#[test]
fn each_run_of_a_hidden_job_has_a_number_of_its_own() {
    let mut world = World::staffed(4);
    let (job, result) = shown(&mut world, ZK);
    world.act(0, Action::GiveUp { job, failure: RunFailure::DeviceFailed });
    assert_eq!(world.known(job).run_number(&node(1)), Some(1));
    let again = claim_as(&world.rules.domain, (1, job, 0), &spec(ZK), &result);
    let events = world.act(1, show_as(job, &spec(ZK), &result, proof_of(&again)));
    let why = Reason::ResultRefuted;
    assert_eq!(events.first(), Some(&Event::RunEnded { job, node: node(1), why }));
    let honest = world.prove_as(2, job, &result);
    let events = world.act(2, honest);
    let proved =
        |event: &Event| matches!(event, Event::ResultProved { by, .. } if *by == hidden(2));
    assert!(events.iter().any(proved), "{events:?}");
    assert_eq!(world.status(job), JobStatus::Settled);
}

/// Goal: a node that is late with a proof of one run is not taken for a liar about the next.
/// Method: one node, which may try other jobs again that it has missed.
#[test]
fn nobody_runs_a_hidden_job_twice() {
    for (tier, expected) in [(PROOF, vec![0]), (ZK, vec![])] {
        let mut world = World::staffed(1);
        let (job, _) = shown(&mut world, tier);
        world.pass(3_000);
        assert_eq!((world.runners(job), world.ended(job)), (expected, vec![Reason::RunMissed]));
    }
}

#[test]
fn result_that_does_not_open_can_be_complained_about() {
    let mut world = World::staffed(2);
    let (job, result) = shown(&mut world, PROOF);
    let action = world.prove_as(0, job, &result);
    world.act(0, action);
    world.wait(DurationMs::SECOND.get());
    let about = tg_types::Message::Result;
    world.succeed(account(CLIENT), Action::Complain { job, about, key: [1; 32] });
    for number in [0, 1, 2] {
        world.succeed(owner(number), Action::JudgeComplaint { job, opens: false });
    }
    assert!(world.stake(&account(0)).active.units() < STAKE, "the provider pays for it");
}
