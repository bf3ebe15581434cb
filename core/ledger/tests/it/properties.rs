//! Long random histories with all actions, valid and not.

use crate::fleet::*;
use crate::histories::fixed_bytes;
use crate::judge::{STEP, answer};
use crate::world::*;
use arbtest::arbitrary::{Result, Unstructured};
use std::collections::BTreeMap;
use tg_types::ids::AccountId;
use tg_types::tx::{ArrayTasks, NodeSet};
use tg_types::{
    Action, Adjustment, Amount, CheckedTx, DurationMs, Hash32, Height, IdempotencyId, JobId,
    JobSpec, JobStatus, KeyEscrow, Lane, List, Message, NetworkKind, NodeDescriptor, Nonce, Reason,
    RunFailure, Status, Tick, Tier, TxBody, Work,
};

/// How often every ending was seen; a history that never succeeds would prove nothing.
type Endings = BTreeMap<Reason, u64>;

/// Every way in which a transaction can end in the ledger.
const LEDGER_ENDINGS: [Reason; 71] = [
    Reason::NonceTooLow,
    Reason::NonceTooHigh,
    Reason::FeeTooLow,
    Reason::FeeNotCovered,
    Reason::Expired,
    Reason::ExpiresTooFar,
    Reason::IdempotencySeen,
    Reason::EvidenceLimit,
    Reason::ProgramLimit,
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
    Reason::JobUnknown,
    Reason::JobNotOwned,
    Reason::JobClosed,
    Reason::JobExpiryTooLong,
    Reason::EvidenceForged,
    Reason::OffenderUnknown,
    Reason::AlreadySlashed,
    Reason::ProgramUnknown,
    Reason::ProgramWrong,
    Reason::ProgramExists,
    Reason::PieceWrong,
    Reason::CheckersTooFew,
    Reason::ReplicasWrong,
    Reason::TierNeedsProgram,
    Reason::EscrowTooLow,
    Reason::ConsentWrong,
    Reason::SlotsWrong,
    Reason::NodesFull,
    Reason::NodeBusy,
    Reason::StakeExposed,
    Reason::RunUnknown,
    Reason::RunNotThere,
    Reason::SealWrong,
    Reason::CheckUnknown,
    Reason::CheckNotThere,
    Reason::NotDisputable,
    Reason::DisputeUnknown,
    Reason::DisputeTurn,
    Reason::AnswerWrong,
    Reason::EvidenceVoid,
    Reason::PayTooLow,
    Reason::RunTooLong,
    Reason::PackageNotHeld,
    Reason::NotComplainable,
    Reason::ComplaintLate,
    Reason::ComplaintRepeated,
    Reason::ComplaintUnknown,
    Reason::VoteRepeated,
    Reason::ArrayWrong,
    Reason::ArrayNeedsCommand,
    Reason::KeyInShares,
    Reason::StopTooLate,
    Reason::StopRepeated,
    Reason::AdjustNothing,
    Reason::AdjustPast,
    Reason::AdjustTooLate,
    Reason::NodesWrong,
    Reason::TxTooLarge,
    Reason::Applied,
];

/// Nodes of the histories; at the start the first four have owners.
const NODES: u8 = 6;

fn any_account(u: &mut Unstructured<'_>) -> Result<AccountId> {
    Ok(match u.int_in_range(0..=14)? {
        number @ 0..=6 => account(number),
        7 => vote_key(0).into(),
        number @ 8..=11 => owner(number - 8),
        _ => voice(u.int_in_range(0..=NODES)?),
    })
}

fn any_amount(u: &mut Unstructured<'_>) -> Result<Amount> {
    Ok(units(match u.int_in_range(0..=6)? {
        0 => 0,
        1 => u.int_in_range(1..=10)?,
        2 => u.int_in_range(1..=1_000_000)?,
        3 => 1_000_000,
        4 => u.int_in_range(1..=30_000_000)?,
        5 => STAKE,
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

fn any_spec(u: &mut Unstructured<'_>) -> Result<JobSpec> {
    let tier = match u.int_in_range(0..=4)? {
        0 => Tier::Trusted,
        1 => Tier::Audit,
        2 => Tier::Sync,
        3 if u.ratio(1, 4)? => Tier::Proof { weights: Hash32::new([5; 32]) },
        _ => Tier::Redundant { replicas: u.int_in_range(1..=4)? },
    };
    let hash = Hash32::new([1; 32]);
    let work = match u.int_in_range(0..=9)? {
        0 => Work::Opaque { task: hash },
        1 => Work::Tensor { program: hash, weights: hash, inputs: hash, salt: hash },
        _ => spec(tier).work,
    };
    Ok(JobSpec {
        work,
        tier,
        key_escrow: if u.arbitrary()? { KeyEscrow::Validators } else { KeyEscrow::None },
        pay: units(if u.ratio(1, 20)? { 99 } else { u.int_in_range(100..=3_000)? }),
        run_max: DurationMs::new(u.int_in_range(0..=4_100)?),
        expires_after: DurationMs::new(u.int_in_range(0..=21_000)?),
        ..spec(tier)
    })
}

/// What accounts, owners and validators do.
fn any_action(
    u: &mut Unstructured<'_>,
    world: &World,
    sender: AccountId,
    jobs: &[JobId],
) -> Result<Action> {
    let number = u.int_in_range(0..=NODES)?;
    let node_id = node(number);
    Ok(match u.int_in_range(0..=16)? {
        0..=3 => Action::Transfer {
            to: any_account(u)?,
            amount: any_amount(u)?,
            memo: Default::default(),
        },
        4 => Action::Stake { amount: any_amount(u)? },
        5 => Action::Unstake { amount: if u.arbitrary()? { units(STAKE) } else { any_amount(u)? } },
        6 => {
            let owner = if u.ratio(1, 8)? { any_account(u)? } else { sender };
            world.registration(number, owner, 1)
        }
        7 => {
            let slots = u.int_in_range(0..=4)?;
            let descriptor = NodeDescriptor { slots, is_open: u.arbitrary()?, ..offer(1) };
            Action::ChangeNode { node: node_id, descriptor }
        }
        8 => Action::LeaveNode { node: node_id },
        9 | 10 => {
            let epoch = world.env.tick.get() / 4_000 - u.int_in_range(0..=2)?;
            Action::ReportAbsent {
                epoch,
                nodes: NodeSet::new(vec![node(0), node_id]).expect("two"),
            }
        }
        11 if u.ratio(1, 3)? => {
            let tasks = ArrayTasks { first: u.arbitrary()?, count: u.int_in_range(0..=4)? };
            let escrow_max = if u.ratio(1, 6)? { any_amount(u)? } else { Amount::CAP };
            Action::SubmitArray { spec: any_spec(u)?, tasks, escrow_max, vouchers: List::default() }
        }
        11 | 12 => {
            let specs = (0..u.int_in_range(1..=2)?).map(|_| any_spec(u)).collect::<Result<_>>()?;
            let escrow_max = if u.ratio(1, 6)? { any_amount(u)? } else { Amount::CAP };
            Action::SubmitJobs {
                specs: List::new(specs).expect("one or two"),
                escrow_max,
                vouchers: List::default(),
            }
        }
        13 if u.ratio(1, 2)? => {
            let pay = if u.arbitrary()? { Some(any_amount(u)?) } else { None };
            let expires = if u.arbitrary()? { Some(Tick::new(u.arbitrary()?)) } else { None };
            let nodes = if u.arbitrary()? { Some(u.int_in_range(0..=17)?) } else { None };
            let change = Adjustment { pay, expires, nodes };
            Action::AdjustJob { job: any_job(u, jobs)?, change, escrow_max: any_amount(u)? }
        }
        13 => Action::CancelJob { job: any_job(u, jobs)? },
        14 | 15 => {
            let program = *u.choose(&[PROGRAM, b"prog two", b"no program"])?;
            let (number, pieces) = (u.int_in_range(0..=2)?, u.int_in_range(1..=2)?);
            let half = program.len() / 2;
            let right = if pieces == 1 {
                program
            } else {
                [&program[..half], &program[half..]][usize::from(number % 2)]
            };
            piece(program, number, pieces, if u.ratio(1, 4)? { b"junk" } else { right })
        }
        _ => match u.int_in_range(0..=9)? {
            key @ 0..=4 => evidence_against(&vote_key(key)),
            _ => forged_evidence(&vote_key(1)),
        },
    })
}

/// What a node or a challenger does about a job: often somebody who has a part in it.
fn any_step(
    u: &mut Unstructured<'_>,
    world: &World,
    jobs: &[JobId],
) -> Result<(AccountId, Action)> {
    let is_open = |job: &&JobId| world.job(job).is_some_and(|it| !it.status.is_final());
    let open: Vec<JobId> = jobs.iter().filter(is_open).copied().collect();
    if open.len() < 3 && u.ratio(2, 3)? {
        let client = account(u.int_in_range(4..=6)?);
        return Ok((client, submit(vec![any_spec(u)?])));
    }
    let job = any_job(u, if open.is_empty() { jobs } else { &open })?;
    let mut parts: Vec<u8> = Vec::new();
    if let Some(entry) = world.job(&job) {
        parts.extend(entry.live().map(|run| number_of(&run.node)));
        parts.extend(entry.checks.as_slice().iter().map(|check| number_of(&check.node)));
    }
    let is_stranger = parts.is_empty() || u.ratio(1, 8)?;
    let number = if is_stranger { u.int_in_range(0..=NODES)? } else { *u.choose(&parts)? };
    let result = if u.ratio(1, 6)? { wrong(1) } else { right() };
    let depth = world.dispute(&job).map_or(0, |dispute| dispute.round);
    let challenger = world.dispute(&job).map_or(account(CHALLENGER), |it| it.challenger);
    let defender = world.dispute(&job).map_or(number, |it| number_of(&it.node));
    let failure = RunFailure::TooLarge;
    let evidence = if u.ratio(1, 3)? { STEP } else { b"nothing" };
    let is_disputed = world.dispute(&job).is_some() || u.ratio(1, 10)?;
    let steps = if is_disputed { 10..=14 } else { 0..=10 };
    let step = match u.int_in_range(steps)? {
        0 | 1 => commit_as(number, job, &result),
        2..=4 => reveal_as(number, job, &result),
        5 | 6 => vouch_as(number, job, &result),
        7 | 8 => open_as(number, job, &result),
        9 if u.arbitrary()? => Action::LackKey { job },
        9 => Action::GiveUp { job, failure },
        10 => return Ok((account(CHALLENGER), Action::Object { job })),
        11 => {
            let answered = answer_by(job, answer(depth + u.int_in_range(0..=3)?, 16));
            return Ok((voice(defender), answered));
        }
        12 => return Ok((challenger, Action::PickClaim { job, child: u.int_in_range(0..=17)? })),
        13 => judge_by(job, evidence),
        _ => return Ok((challenger, judge_by(job, evidence))),
    };
    Ok((voice(number), step))
}

/// A complaint or a vote on one, mostly by somebody who may.
fn any_complaint(
    u: &mut Unstructured<'_>,
    world: &World,
    jobs: &[JobId],
) -> Result<(AccountId, Action)> {
    let is_open = |job: &&JobId| world.complaint(job).is_some_and(|it| it.is_open());
    let open: Vec<JobId> = jobs.iter().filter(is_open).copied().collect();
    if !open.is_empty() && u.ratio(3, 4)? {
        let sender = if u.ratio(1, 8)? { any_account(u)? } else { owner(u.int_in_range(0..=3)?) };
        let opens = u.arbitrary()?;
        return Ok((sender, Action::JudgeComplaint { job: *u.choose(&open)?, opens }));
    }
    let job = any_job(u, jobs)?;
    let entry = world.job(&job);
    let is_settled = entry.as_ref().is_some_and(|it| it.status == JobStatus::Settled);
    let is_about_result = is_settled != u.ratio(1, 8)?;
    let about = if is_about_result { Message::Result } else { Message::Inputs };
    let runner = entry.as_ref().and_then(|it| it.live().next()).map(|run| number_of(&run.node));
    let sender = match (entry, runner) {
        (Some(entry), _) if is_about_result => entry.owner,
        (Some(_), Some(runner)) => voice(runner),
        (Some(_), None) | (None, _) => any_account(u)?,
    };
    let sender = if u.ratio(1, 8)? { any_account(u)? } else { sender };
    if u.ratio(1, 8)? {
        return Ok((sender, Action::JudgeComplaint { job, opens: u.arbitrary()? }));
    }
    Ok((sender, Action::Complain { job, about, key: [u.arbitrary()?; 32] }))
}

/// The action with vouchers as they should be, or with bad ones, or with none.
fn any_vouchers(u: &mut Unstructured<'_>, world: &World, action: Action) -> Result<Action> {
    let has_packages = matches!(
        action,
        Action::SubmitJobs { .. } | Action::SubmitArray { .. } | Action::RevealResults { .. }
    );
    if !has_packages {
        return Ok(action);
    }
    let fault = u.int_in_range(0..=12)?;
    let mut action = if fault == 0 { action } else { world.vouched(action) };
    if let Action::SubmitJobs { vouchers, .. }
    | Action::SubmitArray { vouchers, .. }
    | Action::RevealResults { vouchers, .. } = &mut action
    {
        for voucher in vouchers.as_mut_slice() {
            let seats = if fault == 1 { &[0, 1][..] } else { &[0, 1, 3] };
            let mut packages = voucher.packages.as_slice().to_vec();
            *voucher = world.voucher(seats, packages.clone());
            if fault == 2 {
                packages[0].bytes += 1;
                voucher.packages = List::new(packages).expect("as many as before");
            }
        }
    }
    Ok(action)
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
        let (sender, action) = if u.ratio(1, 10)? {
            any_complaint(u, world, jobs)?
        } else if u.ratio(2, 3)? {
            any_step(u, world, jobs)?
        } else {
            let sender = any_account(u)?;
            (sender, any_action(u, world, sender, jobs)?)
        };
        let action = any_vouchers(u, world, action)?;
        let lane = Lane::new(u.int_in_range(0..=1)?).expect("a lane");
        let first = world.account(&sender).lanes.next(lane).get();
        let nonce = next.entry((sender, lane)).or_insert(first);
        let mut body = TxBody { lane, ..world.body(sender, action) };
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
    let longest = if u.ratio(1, 4)? { 5_000 } else { 600 };
    world.wait(u.int_in_range(0..=longest)?);
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
        if let (Action::SubmitJobs { specs, .. }, Status::Applied) =
            (&tx.body().action, receipt.status)
        {
            let places = (0..).zip(specs.as_slice());
            jobs.extend(places.map(|(place, _)| JobId::of(receipt.tx, place)));
        }
        if let (Action::SubmitArray { tasks, .. }, Status::Applied) =
            (&tx.body().action, receipt.status)
        {
            let places = (0..).take(tasks.count.into());
            jobs.extend(places.map(|place| JobId::of(receipt.tx, place)));
        }
    }
    Ok(())
}

/// Blocks until the randomness is used up.
fn any_history(u: &mut Unstructured<'_>, endings: &mut Endings) -> Result<()> {
    let kind = *u.choose(&[NetworkKind::Local, NetworkKind::Open])?;
    let mut params = params();
    params.jobs.is_vouched = u.arbitrary()?;
    params.jobs.audit_tiles_from = *u.choose(&[1, u64::MAX])?;
    let mut world = World::staffed_with(params, kind, 4);
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
    let mut endings = Endings::new();
    for part in fixed_bytes("", 48 << 12).chunks(1 << 12) {
        any_history(&mut Unstructured::new(part), &mut endings).expect("bytes suffice");
    }
    let special = [
        Reason::EvidenceLimit,
        Reason::ProgramLimit,
        Reason::UnbondingFull,
        Reason::NodesFull,
        Reason::KeyInShares,
        Reason::StopTooLate,
        Reason::StopRepeated,
        Reason::AdjustPast,
        Reason::NodesWrong,
        Reason::TxTooLarge,
    ];
    let expected = LEDGER_ENDINGS.iter().filter(|reason| !special.contains(reason));
    let unseen: Vec<_> = expected.filter(|reason| !endings.contains_key(reason)).collect();
    assert!(unseen.is_empty(), "not reached: {unseen:?} of {endings:?}");
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
        let mut jobs = Vec::new();
        let mut first: Vec<CheckedTx> = vec![world.tx(account(11), piece(PROGRAM, 0, 1, PROGRAM))];
        first.extend((0..4).flat_map(|number| world.staff(number, number, STAKE)));
        history.push((world.env.clone(), first.clone()));
        world.block(&first);
        for _ in 0..u.int_in_range(1..=12)? {
            let candidates = any_candidates(u, &world, &jobs)?;
            let built = world.build(&candidates);
            let chosen: Vec<_> =
                built.included.iter().map(|index| candidates[*index].clone()).collect();
            history.push((world.env.clone(), chosen.clone()));
            world.block(&chosen);
            jobs.extend(chosen.iter().map(|tx| JobId::of(tx.id(), 0)));
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
