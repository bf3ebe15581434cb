//! Secret weights: registered with a proof, named by jobs of their owner, and never proven about
//! more often than their commitment can hide, whatever becomes of the jobs.

use tg_ledger::{ApplyError, Built, WeightsEntry, keys};
use tg_types::tx::{PROOF_TX_BYTES_MAX, SHOWN_BYTES_MAX};
use tg_types::weights::{WEIGHTS_PROOFS_MAX, WEIGHTS_PROOFS_MIN};
use tg_types::{
    Action, Amount, Bytes, Event, GenesisHash, Hash32, Height, JobId, JobSpec, JobStatus,
    NetworkKind, Params, Reason, RegistrationClaim, RunFailure, SecretWeights, ShownBy, Status,
    Tier, Work,
};

use crate::fleet::*;
use crate::judge::{REGISTRATION_COST, program_id, registration_of, right_result};
use crate::world::*;

/// Runs of a job in tests.
const RUNS: u16 = 3;

fn weights(proofs: u16) -> SecretWeights {
    SecretWeights { root: Hash32::new([5; 32]), proofs }
}

fn secret(weights: &SecretWeights) -> Tier {
    Tier::Zk { weights: weights.id(), inputs: Hash32::new([6; 32]), is_secret: true }
}

fn claim(world: &World, weights: SecretWeights) -> RegistrationClaim {
    let (genesis, owner) = (world.rules.domain.genesis, account(CLIENT));
    RegistrationClaim { genesis, owner, program: program_id(PROGRAM), weights }
}

fn register_with(weights: SecretWeights, proof: Vec<u8>) -> Action {
    let (program, cost) = (program_id(PROGRAM), REGISTRATION_COST);
    let proof = Bytes::new(proof).expect("short");
    Action::RegisterWeights { program, weights, cost, proof }
}

/// A world in which the client has registered weights.
fn registered(nodes: u8, proofs: u16) -> (World, SecretWeights) {
    let mut world = World::staffed(nodes);
    let weights = weights(proofs);
    let proof = registration_of(&claim(&world, weights));
    world.succeed(account(CLIENT), register_with(weights, proof));
    (world, weights)
}

fn entry(world: &World, weights: &SecretWeights) -> WeightsEntry {
    world.entry(&keys::weights(&weights.id())).expect("registered")
}

fn left(world: &World, weights: &SecretWeights) -> u16 {
    entry(world, weights).left
}

#[test]
fn weights_are_registered_with_a_proof_for_its_fee() {
    let mut world = World::staffed(1);
    let before = world.balance(&account(CLIENT));
    let weights = weights(9);
    let action = register_with(weights, registration_of(&claim(&world, weights)));
    let (owner, program, height) = (account(CLIENT), program_id(PROGRAM), world.env.height);
    let fee = world.tx(owner, action.clone()).body().fee.units();
    let events = world.succeed(owner, action);
    let (id, proofs) = (weights.id(), 8);
    assert_eq!(events, [Event::WeightsRegistered { weights: id, program, owner, proofs }]);
    let expected = WeightsEntry { program, owner, height, proofs: 9, left: 8 };
    assert_eq!(entry(&world, &weights), expected);
    assert_eq!(world.balance(&owner), before - fee);
}

/// Goal: a registration is one of a network, an owner, a program and a commitment. Method: a proof
/// of something else costs its fee and leaves nothing.
#[test]
fn false_registration_pays_its_fee_and_changes_nothing() {
    type Change = fn(&mut RegistrationClaim);
    let changes: [(&str, Change); 5] = [
        ("chain", |claim| claim.genesis = GenesisHash::new([77; 32])),
        ("owner", |claim| claim.owner = account(CHALLENGER)),
        ("program", |claim| claim.program = Hash32::new([77; 32])),
        ("root", |claim| claim.weights.root = Hash32::new([77; 32])),
        ("number", |claim| claim.weights.proofs += 1),
    ];
    let mut world = World::staffed(1);
    let weights = weights(9);
    for (what, change) in changes {
        let mut claim = claim(&world, weights);
        change(&mut claim);
        let action = register_with(weights, registration_of(&claim));
        let before = world.balance(&account(CLIENT));
        world.fail(account(CLIENT), action, Reason::RegistrationWrong, Amount::ZERO);
        assert!(world.balance(&account(CLIENT)) < before, "{what}");
    }
    let right = registration_of(&claim(&world, weights));
    for bytes in [vec![], right[..right.len() - 1].to_vec(), [right.as_slice(), &[0]].concat()] {
        let action = register_with(weights, bytes);
        world.fail(account(CLIENT), action, Reason::RegistrationWrong, Amount::ZERO);
    }
    assert_eq!(world.ids(tg_types::Noun::Weights).len(), 0);
    world.succeed(account(CLIENT), register_with(weights, right));
}

/// Goal: what cannot be registered takes no place in a block and costs nothing.
#[test]
fn registration_that_cannot_be_is_not_admitted() {
    let mut world = World::staffed(1);
    let unprovable = b"prog unprovable";
    world.succeed(account(CLIENT), piece(unprovable, 0, 1, unprovable));
    let with = |change: &dyn Fn(&mut Action)| {
        let mut action = register_with(weights(9), registration_of(&claim(&world, weights(9))));
        change(&mut action);
        world.tx(account(CLIENT), action)
    };
    fn set_program(action: &mut Action, to: Hash32) {
        if let Action::RegisterWeights { program, .. } = action {
            *program = to;
        }
    }
    let unknown = with(&|it| set_program(it, Hash32::new([1; 32])));
    world.refuse(&unknown, Reason::ProgramUnknown);
    let unprovable = with(&|it| set_program(it, program_id(unprovable)));
    world.refuse(&unprovable, Reason::ProgramNotShowable);
    let set_cost = |action: &mut Action, to: u64| {
        if let Action::RegisterWeights { cost, .. } = action {
            *cost = to;
        }
    };
    world.refuse(&with(&|it| set_cost(it, REGISTRATION_COST + 1)), Reason::ProofCostWrong);
    world.refuse(&with(&|it| set_cost(it, 0)), Reason::ProofCostWrong);
    world.refuse(&with(&|it| set_cost(it, 10_001)), Reason::ProofLimit);
    for proofs in [0, WEIGHTS_PROOFS_MIN - 1, WEIGHTS_PROOFS_MAX + 1, u16::MAX] {
        let action = register_with(weights(proofs), vec![1]);
        world.refuse(&world.tx(account(CLIENT), action), Reason::WeightsCountWrong);
    }
    let honest = register_with(weights(9), registration_of(&claim(&world, weights(9))));
    let body = world.body(account(CLIENT), honest.clone());
    let size = u64::from(world.sign(body.clone()).size_bytes());
    let floor = 7 * size + 3 * REGISTRATION_COST;
    let low = tg_types::TxBody { fee: units(floor - 1), ..body.clone() };
    world.refuse(&world.sign(low), Reason::FeeTooLow);
    let enough = world.sign(tg_types::TxBody { fee: units(floor), ..body });
    assert_eq!(world.block(&[enough]).receipts[0].status, Status::Applied);
    // Neither its owner nor anybody else registers it once more.
    for number in [CLIENT, CHALLENGER] {
        world.refuse(&world.tx(account(number), honest.clone()), Reason::WeightsExist);
    }
    let twice = world.txs(account(CLIENT), vec![honest.clone(), honest]);
    let Built { included, refused, .. } = world.build(&twice);
    let all = vec![(0, Reason::WeightsExist), (1, Reason::WeightsExist)];
    assert_eq!((included, refused), (vec![], all));
}

/// Goal: registrations take the places of results in a block, and no more. Method: one more than
/// the bytes of a block have room for, and the largest there may be.
#[test]
fn registrations_are_bounded_as_results_are() {
    let params = Params { block_bytes_max: 5 * 512 * 1024, ..busy_params() };
    let world = World::staffed_with(params, NetworkKind::Local, 1);
    let large = |number: u8, bytes| {
        let weights = SecretWeights { root: Hash32::new([number; 32]), proofs: 9 };
        world.tx(account(number), register_with(weights, vec![7; bytes]))
    };
    let largest = large(0, SHOWN_BYTES_MAX);
    assert!(usize::try_from(largest.size_bytes()).is_ok_and(|size| size <= PROOF_TX_BYTES_MAX));
    let applied = world.try_block(&[largest]).expect("admitted");
    assert_eq!(applied.receipts[0].status, Status::Failed(Reason::RegistrationWrong));
    let txs = [large(0, SHOWN_BYTES_MAX / 2), large(1, SHOWN_BYTES_MAX / 2), large(2, 100_000)];
    let refused = world.try_block(&txs);
    assert!(matches!(refused, Err(ApplyError::TooManyProofs { .. })), "{refused:?}");
    assert_eq!(world.build(&txs).included, [0, 1], "the rest waits");
}

#[test]
fn job_of_secret_weights_is_proven_and_counted() {
    let (mut world, weights) = registered(2, 9);
    let job = world.ask(spec(secret(&weights)));
    assert_eq!(left(&world, &weights), 8 - RUNS, "all runs that it may have");
    let proof = world.prove_as(0, job, &right_result(&spec(secret(&weights))));
    let events = world.act(0, proof);
    let proved = |event: &Event| {
        matches!(event, Event::ResultProved { by: ShownBy::Zk { is_secret: true, .. }, .. })
    };
    assert!(events.first().is_some_and(proved), "{events:?}");
    assert_eq!((world.status(job), left(&world, &weights)), (JobStatus::Settled, 7));
}

/// Goal: nobody but the owner asks for runs of secret weights, and of no other program than theirs.
#[test]
fn jobs_that_may_not_name_secret_weights_change_nothing() {
    let (mut world, known) = registered(2, 9);
    let other = b"prog two";
    world.succeed(account(CLIENT), piece(other, 0, 1, other));
    let ask = |tier| submit(vec![spec(tier)]);
    let mut refuse = |number: u8, action: Action, reason| {
        world.fail(account(number), action, reason, Amount::ZERO);
    };
    refuse(CHALLENGER, ask(secret(&known)), Reason::WeightsNotOwned);
    refuse(CLIENT, ask(secret(&weights(8))), Reason::WeightsUnknown);
    let mut misplaced = spec(secret(&known));
    if let Work::Tensor { program, .. } = &mut misplaced.work {
        *program = program_id(other);
    }
    refuse(CLIENT, submit(vec![misplaced]), Reason::WeightsUnknown);
    let work = Work::Opaque { task: Hash32::new([1; 32]) };
    let opaque = JobSpec { work, ..spec(secret(&known)) };
    refuse(CLIENT, submit(vec![opaque]), Reason::TierNeedsProgram);
    assert_eq!(left(&world, &known), 8);
}

/// Goal: no proof lacks when it is made. Method: a job is taken only if there are proofs for all
/// its runs, also if several jobs come in one transaction.
#[test]
fn jobs_take_proofs_for_all_their_runs_or_none() {
    let (mut world, weights) = registered(4, 9);
    let ask = |count: usize| submit(vec![spec(secret(&weights)); count]);
    let refuse = |world: &mut World, count| {
        world.fail(account(CLIENT), ask(count), Reason::WeightsSpent, Amount::ZERO);
    };
    refuse(&mut world, 3);
    let receipt = world.run(account(CLIENT), ask(2));
    assert_eq!((receipt.status, left(&world, &weights)), (Status::Applied, 8 - 2 * RUNS));
    refuse(&mut world, 1);
    // One of them ends with its first run: there are enough again.
    let job = JobId::of(receipt.tx, 0);
    let [runner] = world.runners(job)[..] else { unreachable!("one run") };
    let proof = world.prove_as(runner, job, &right_result(&spec(secret(&weights))));
    world.act(runner, proof);
    assert_eq!(left(&world, &weights), 4);
    world.succeed(account(CLIENT), ask(1));
    assert_eq!(left(&world, &weights), 1);
    refuse(&mut world, 1);
}

/// Goal: a proof that may have been made counts. Method: jobs that end in every way there is; what
/// was placed is not given back, what was never placed is.
#[test]
fn proofs_of_runs_that_were_placed_are_never_given_back() {
    let give_up = |job| Action::GiveUp { job, failure: RunFailure::DeviceFailed };
    // No node: the job waits and is cancelled, or expires.
    let (mut world, weights) = registered(0, 9);
    let job = world.ask(spec(secret(&weights)));
    assert_eq!(left(&world, &weights), 8 - RUNS);
    world.succeed(account(CLIENT), Action::CancelJob { job });
    assert_eq!(left(&world, &weights), 8);
    let job = world.ask(spec(secret(&weights)));
    world.pass(22_000);
    assert_eq!((world.status(job), left(&world, &weights)), (JobStatus::Expired, 8));
    // One node misses its run and nobody else is there: one proof may have been made.
    let (mut world, weights) = registered(1, 9);
    let job = world.ask(spec(secret(&weights)));
    world.pass(22_000);
    assert_eq!((world.status(job), left(&world, &weights)), (JobStatus::Expired, 7));
    // All runs fail.
    let (mut world, weights) = registered(4, 9);
    let job = world.ask(spec(secret(&weights)));
    for number in 0..3 {
        world.act(number, give_up(job));
    }
    assert_eq!((world.status(job), left(&world, &weights)), (JobStatus::Failed, 8 - RUNS));
    // The second node shows the result.
    let job = world.ask(spec(secret(&weights)));
    world.act(0, give_up(job));
    let [runner] = world.runners(job)[..] else { unreachable!("one run") };
    let proof = world.prove_as(runner, job, &right_result(&spec(secret(&weights))));
    world.act(runner, proof);
    assert_eq!((world.status(job), left(&world, &weights)), (JobStatus::Settled, 8 - RUNS - 2));
}

/// Goal: the entry outlives its jobs: forgotten, it could be registered and counted anew.
#[test]
fn weights_whose_proofs_are_used_up_stay_registered() {
    let (mut world, weights) = registered(1, 1 + RUNS);
    let job = world.ask(spec(secret(&weights)));
    let proof = world.prove_as(0, job, &right_result(&spec(secret(&weights))));
    world.act(0, proof);
    world.pass(90_000);
    assert!(world.job(&job).is_none(), "forgotten");
    assert_eq!(left(&world, &weights), RUNS - 1);
    let again = submit(vec![spec(secret(&weights))]);
    world.fail(account(CLIENT), again, Reason::WeightsSpent, Amount::ZERO);
    let proof = registration_of(&claim(&world, weights));
    let again = world.tx(account(CLIENT), register_with(weights, proof));
    world.refuse(&again, Reason::WeightsExist);
    assert!(entry(&world, &weights).height < Height::new(10));
}
