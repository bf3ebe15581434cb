//! Long random histories with all actions, valid and not.

use crate::world::*;
use arbtest::arbitrary::{Result, Unstructured};
use std::collections::BTreeMap;
use tg_types::hash::sha256;
use tg_types::ids::AccountId;
use tg_types::tx::NodeSet;
use tg_types::{
    Action, Amount, CheckedTx, Height, IdempotencyId, JobId, Lane, Nonce, Reason, Status, TxBody,
};

/// How often every ending was seen; a history that never succeeds would prove nothing.
type Endings = BTreeMap<Reason, u64>;

/// Every way in which a transaction can end in the ledger.
const LEDGER_ENDINGS: [Reason; 31] = [
    Reason::NonceTooLow,
    Reason::NonceTooHigh,
    Reason::FeeTooLow,
    Reason::FeeNotCovered,
    Reason::Expired,
    Reason::ExpiresTooFar,
    Reason::IdempotencySeen,
    Reason::EvidenceLimit,
    Reason::BalanceTooLow,
    Reason::AmountZero,
    Reason::SelfTransfer,
    Reason::StakeTooLow,
    Reason::StakeMissing,
    Reason::UnbondingFull,
    Reason::ValidatorLocked,
    Reason::NodeExists,
    Reason::NodeUnknown,
    Reason::NodeNotOwned,
    Reason::NotValidator,
    Reason::EpochWrong,
    Reason::ReportRepeated,
    Reason::JobExists,
    Reason::JobUnknown,
    Reason::JobNotOwned,
    Reason::JobClosed,
    Reason::JobExpiryTooLong,
    Reason::EscrowZero,
    Reason::EvidenceForged,
    Reason::OffenderUnknown,
    Reason::AlreadySlashed,
    Reason::Applied,
];

fn any_account(u: &mut Unstructured<'_>) -> Result<AccountId> {
    Ok(match u.int_in_range(0..=11)? {
        number @ 0..=6 => account(number),
        7 => vote_key(0).into(),
        number => owner(number - 8),
    })
}

fn any_amount(u: &mut Unstructured<'_>) -> Result<Amount> {
    Ok(units(match u.int_in_range(0..=5)? {
        0 => 0,
        1 => u.int_in_range(1..=10)?,
        2 => u.int_in_range(1..=1_000_000)?,
        3 => 1_000_000,
        4 => u.int_in_range(1..=30_000_000)?,
        _ => u.int_in_range(1..=2_000_000_000)?,
    }))
}

fn any_job(u: &mut Unstructured<'_>, jobs: &[JobId]) -> Result<JobId> {
    if jobs.is_empty() || u.ratio(1, 10)? {
        return Ok(JobId::new([u.arbitrary()?; 32]));
    }
    let recent = &jobs[jobs.len().saturating_sub(10)..];
    u.choose(recent).copied()
}

fn any_action(u: &mut Unstructured<'_>, world: &World, jobs: &[JobId]) -> Result<Action> {
    let node_id = node(u.int_in_range(0..=3)?);
    Ok(match u.int_in_range(0..=14)? {
        0..=3 => Action::Transfer {
            to: any_account(u)?,
            amount: any_amount(u)?,
            memo: Default::default(),
        },
        4 => Action::Stake { amount: any_amount(u)? },
        5 => Action::Unstake { amount: any_amount(u)? },
        6 => Action::RegisterNode { node: node_id, descriptor: descriptor(1) },
        7 => Action::ChangeNode { node: node_id, descriptor: descriptor(2) },
        8 => Action::LeaveNode { node: node_id },
        9 | 10 => {
            let epoch = world.env.tick.get() / 4_000 - u.int_in_range(0..=2)?;
            Action::ReportAbsent {
                epoch,
                nodes: NodeSet::new(vec![node(0), node_id]).expect("two"),
            }
        }
        11 | 12 => {
            let expires_after_ms = u.int_in_range(0..=21_000)?;
            Action::SubmitJob { spec: job_spec(expires_after_ms), escrow: any_amount(u)? }
        }
        13 => Action::CancelJob { job: any_job(u, jobs)? },
        _ => match u.int_in_range(0..=9)? {
            key @ 0..=4 => evidence_against(&vote_key(key)),
            _ => forged_evidence(&vote_key(1)),
        },
    })
}

/// Mostly admissible transactions of random senders.
fn any_candidates(
    u: &mut Unstructured<'_>,
    world: &World,
    jobs: &[JobId],
) -> Result<Vec<CheckedTx>> {
    let mut next: BTreeMap<(AccountId, Lane), u64> = BTreeMap::new();
    let mut candidates = Vec::new();
    for _ in 0..u.int_in_range(0..=8)? {
        let sender = any_account(u)?;
        let lane = Lane::new(u.int_in_range(0..=1)?).expect("a lane");
        let first = world.account(&sender).lanes.next(lane).get();
        let nonce = next.entry((sender, lane)).or_insert(first);
        let mut body = TxBody { lane, ..world.body(sender, any_action(u, world, jobs)?) };
        body.nonce = Nonce::new(*nonce);
        *nonce += 1;
        match u.int_in_range(0..=30)? {
            0 => body.nonce = Nonce::new(u.int_in_range(0..=*nonce + 1)?),
            1 => body.fee = any_amount(u)?,
            2 => body.expires = Height::new(u.int_in_range(0..=world.env.height.get() + 60)?),
            3..=6 => body.idempotency = Some(IdempotencyId::new([u.int_in_range(0..=9)?; 16])),
            _ => {}
        }
        candidates.push(world.sign(body));
    }
    Ok(candidates)
}

/// A block from random candidates at a random time by a random proposer. `World::block` holds it
/// against everything that must always be true.
fn any_block(
    u: &mut Unstructured<'_>,
    world: &mut World,
    jobs: &mut Vec<JobId>,
    endings: &mut Endings,
) -> Result<()> {
    world.env.tick = world.env.parent_tick;
    world.wait(u.int_in_range(0..=4)? * u.int_in_range(0..=1_200)?);
    world.env.proposer = vote_key(u.int_in_range(0..=3)?).into();
    let last = world.cursor().beacon.get();
    let carried = world.env.certificates.len() as u64 + u.int_in_range(0..=2)?;
    let until = (last + carried).min(world.env.height.get() - 1);
    world.env.certificates = (last + 1..=until).map(|height| world.certificate(height)).collect();

    let candidates = any_candidates(u, world, jobs)?;
    let built = world.build(&candidates);
    let chosen: Vec<_> = built.included.iter().map(|index| candidates[*index].clone()).collect();
    let applied = world.block(&chosen);
    assert_eq!(applied, built.applied, "what was built is what is applied");
    for (_, reason) in built.refused {
        *endings.entry(reason).or_default() += 1;
    }
    for (receipt, tx) in applied.receipts.iter().zip(&chosen) {
        *endings.entry(receipt.status.reason()).or_default() += 1;
        let is_job = matches!(tx.body().action, Action::SubmitJob { .. });
        if is_job && receipt.status == Status::Applied {
            jobs.push(JobId::of(receipt.tx));
        }
    }
    Ok(())
}

/// Blocks until the randomness is used up.
fn any_history(u: &mut Unstructured<'_>, endings: &mut Endings) -> Result<()> {
    let mut world = World::new();
    let mut jobs = Vec::new();
    while !u.is_empty() {
        any_block(u, &mut world, &mut jobs, endings)?;
    }
    Ok(())
}

/// Goal: no history makes or loses money, replays differently, or depends on how a block came
/// about. Method: random blocks of all actions until the randomness is used up, each built from
/// candidates of which some are inadmissible, then held against the checks of `World::block`.
#[test]
fn prop_histories_conserve_money_and_replay_the_same() {
    let mut endings = Endings::new();
    arbtest::arbtest(|u| any_history(u, &mut endings))
        .size_min(1 << 10)
        .size_max(1 << 14)
        .budget_ms(3_000);
}

/// Goal: the histories above are not idle. Method: histories from fixed bytes, in which every
/// ending must occur that does not need a history of its own.
#[test]
fn histories_reach_almost_every_ending() {
    let bytes: Vec<u8> = (0..4_096_u32).flat_map(|n| sha256(&[&n.to_be_bytes()])).collect();
    let mut endings = Endings::new();
    for part in bytes.chunks(1 << 12) {
        any_history(&mut Unstructured::new(part), &mut endings).expect("bytes suffice");
    }
    let special = [Reason::EvidenceLimit, Reason::UnbondingFull, Reason::JobExists];
    let expected = LEDGER_ENDINGS.iter().filter(|reason| !special.contains(reason));
    let unseen: Vec<_> = expected.filter(|reason| !endings.contains_key(reason)).collect();
    assert!(unseen.is_empty(), "not reached: {unseen:?}");
    let strange = endings.keys().filter(|reason| !LEDGER_ENDINGS.contains(reason));
    assert_eq!(strange.count(), 0, "endings that the ledger does not know: {endings:?}");
}

/// Goal: the same blocks on a fresh state give the same state. Method: a random history is
/// recorded and replayed from nothing.
#[test]
fn prop_replay_from_genesis_gives_the_same_state() {
    arbtest::arbtest(|u| {
        let mut world = World::new();
        let mut history = vec![(World::unborn(params()).env, vec![])];
        for _ in 0..u.int_in_range(1..=12)? {
            let candidates = any_candidates(u, &world, &[])?;
            let built = world.build(&candidates);
            let chosen: Vec<_> =
                built.included.iter().map(|index| candidates[*index].clone()).collect();
            history.push((world.env.clone(), chosen.clone()));
            world.block(&chosen);
        }
        let mut replayed = World::unborn(params());
        for (env, txs) in history {
            replayed.env = env;
            replayed.block(&txs);
        }
        assert_eq!(replayed.view, world.view);
        Ok(())
    })
    .budget_ms(1_000);
}
