//! Which entries a block will surely touch, as far as that can be known without reading any. The
//! edge loads them in one go before it calls `apply` or `build`; for ordinary blocks that is all.
//! What is not named here (an offender's stake, a full page of the due queue) is asked for by
//! [`crate::ApplyError::Missing`]. So this list may be too short, but never decides anything.

use tg_types::genesis::ValidatorSeat;
use tg_types::ids::{AccountId, JobId, NodeId, StateKey};
use tg_types::{Action, CheckedTx, Genesis, Height, JobSpec, Params, Tick, TxBody, Work};

use crate::entry::key_of;
use crate::job::draw::BEACON_DELAY;
use crate::job::{QueueRow, pace};
use crate::list::ListOf;
use crate::program::PieceEntry;
use crate::rules::BlockEnv;
use crate::{due, keys};

/// The entries that a block of these transactions surely touches, sorted and without repetition.
pub fn reads(genesis: &Genesis, env: &BlockEnv, txs: &[CheckedTx]) -> Vec<StateKey> {
    let mut out = vec![keys::totals(), keys::params(), keys::cursor(), keys::log()];
    add_block(genesis, env, &mut out);
    if env.height == Height::FIRST {
        add_genesis(genesis, &mut out);
    }
    for tx in txs {
        let body = tx.body();
        out.push(keys::account(&body.sender));
        if let Some(id) = &body.idempotency {
            out.push(keys::seen(&body.sender, id));
            add_due(env.tick.plus(genesis.params().seen_retention).ok(), &mut out);
        }
        add_action(genesis, env, tx, &mut out);
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// What every block touches.
fn add_block(genesis: &Genesis, env: &BlockEnv, out: &mut Vec<StateKey>) {
    let mut seats = genesis.validators().iter();
    let seat = seats.find(|seat| seat.key.as_bytes() == env.proposer.as_bytes());
    out.extend(seat.map(|seat| keys::account(&seat.owner)));
    out.extend(env.height.minus(1).map(keys::header));
    for (height, _) in &env.certificates {
        out.extend([keys::header(*height), keys::beacon(*height)]);
        let drawn = height.minus(BEACON_DELAY);
        for height in drawn.iter().copied() {
            out.extend([ListOf::Commits, ListOf::Capacities].map(|of| keys::list_head(of(height))));
        }
    }
    out.push(keys::list_head(ListOf::Nodes));
    out.extend(QueueRow::all().map(|row| keys::list_head(ListOf::Queue(row))));
    out.extend([ListOf::Promises, ListOf::Renewals, ListOf::Yielding].map(keys::list_head));
    out.push(keys::list_head(ListOf::Gangs));
    // The due queue has usually come as far as the parent's second.
    let first = env.parent_tick.second().saturating_add(1);
    let last = env.tick.second().min(first.saturating_add(due::SECONDS_PER_BLOCK_MAX));
    out.extend((first..=last).map(keys::due_head));
}

/// What the first block writes.
fn add_genesis(genesis: &Genesis, out: &mut Vec<StateKey>) {
    out.extend(genesis.allocations().iter().map(|(account, _)| keys::account(account)));
    for seat in genesis.validators() {
        out.extend([keys::stake(&seat.owner), keys::validator(&seat.key)]);
    }
}

/// What an action touches besides its sender.
fn add_action(genesis: &Genesis, env: &BlockEnv, tx: &CheckedTx, out: &mut Vec<StateKey>) {
    let body: &TxBody = tx.body();
    let params: &Params = genesis.params();
    match &body.action {
        Action::Transfer { to, .. } => out.push(keys::account(to)),
        Action::Stake { .. } => out.push(keys::stake(&body.sender)),
        Action::Unstake { .. } => {
            out.push(keys::stake(&body.sender));
            add_due(env.tick.plus(params.unbonding).ok(), out);
        }
        Action::RegisterNode { node, .. } | Action::ChangeNode { node, .. } => {
            out.push(keys::node(node));
            add_list(ListOf::Capacities(env.height), out);
        }
        Action::CommitCapacity { .. } => {
            out.push(keys::node(&NodeId::new(*body.sender.as_bytes())));
            add_list(ListOf::Capacities(env.height), out);
        }
        Action::ShowCapacity { .. } => {
            out.push(keys::node(&NodeId::new(*body.sender.as_bytes())));
        }
        Action::LeaveNode { node } => out.extend([keys::node(node), keys::absence(node)]),
        Action::ReportAbsent { nodes, .. } => {
            add_seat(genesis, &body.sender, out);
            for node in nodes.as_slice() {
                out.extend([keys::node(node), keys::absence(node)]);
            }
        }
        Action::SubmitJobs { specs, .. } => {
            specs.as_slice().iter().for_each(|spec| add_spec(env, &body.sender, spec, out));
        }
        Action::SubmitArray { spec, .. } => add_spec(env, &body.sender, spec, out),
        Action::PutProgram { program, piece, .. } => {
            let draft = keys::draft_id(&body.sender, program);
            out.extend([keys::program(program), keys::draft(&body.sender, program)]);
            out.push(key_of::<PieceEntry>(keys::draft_piece_id(&draft, *piece)));
        }
        Action::RegisterWeights { program, weights, .. } => {
            out.extend([keys::program(program), keys::weights(&weights.id())]);
        }
        Action::CommitResults { seals } | Action::CommitChecks { seals } => {
            add_list(ListOf::Commits(env.height), out);
            seals.as_slice().iter().for_each(|item| add_job(&item.job, out));
        }
        Action::RevealResults { results, .. } => {
            results.as_slice().iter().for_each(|item| add_job(&item.job, out));
        }
        Action::RevealChecks { answers } => {
            answers.as_slice().iter().for_each(|item| add_job(&item.job, out));
        }
        Action::GiveUp { job, .. }
        | Action::ProveResult { job, .. }
        | Action::LackKey { job }
        | Action::SaveCheckpoint { job, .. }
        | Action::YieldRun { job, .. }
        | Action::Object { job }
        | Action::AnswerDispute { job, .. }
        | Action::PickClaim { job, .. }
        | Action::JudgeDispute { job, .. }
        | Action::CancelJob { job } => add_job(job, out),
        Action::AdjustJob { job, change, .. } => add_moved(job, change.expires, out),
        Action::Complain { job, .. } => add_complaint(params, env, job, out),
        Action::JudgeComplaint { job, .. } => {
            add_seat(genesis, &body.sender, out);
            add_complaint(params, env, job, out);
        }
        Action::SubmitEvidence { .. } => {}
    }
}

/// What taking a job in and placing it looks at: its date, its program, secret weights, and what is
/// known of times.
fn add_spec(env: &BlockEnv, sender: &AccountId, spec: &JobSpec, out: &mut Vec<StateKey>) {
    add_due(env.tick.plus(spec.expires_after).ok(), out);
    if let Work::Tensor { program, .. } = &spec.work {
        out.push(keys::program(program));
    }
    out.extend(spec.tier.secret_weights().map(|id| keys::weights(&id)));
    out.extend(pace::placing(sender, spec).map(|subject| keys::pace(&subject)));
}

/// The seats for which an account may speak.
fn add_seat(genesis: &Genesis, sender: &AccountId, out: &mut Vec<StateKey>) {
    let speaks =
        |seat: &&ValidatorSeat| seat.owner == *sender || seat.key.as_bytes() == sender.as_bytes();
    let seats = genesis.validators().iter().filter(speaks);
    out.extend(seats.map(|seat| keys::validator(&seat.key)));
}

/// What every step of a complaint looks at.
fn add_complaint(params: &Params, env: &BlockEnv, job: &JobId, out: &mut Vec<StateKey>) {
    add_job(job, out);
    out.push(keys::complaint(job));
    add_due(env.tick.plus(params.jobs.complaint_judged_within).ok(), out);
}

/// The beginning of a list that belongs to one height.
fn add_list(list: ListOf, out: &mut Vec<StateKey>) {
    out.extend([keys::list_head(list), keys::list_page(list, 0)]);
}

/// What every step of a job looks at.
fn add_job(job: &JobId, out: &mut Vec<StateKey>) {
    out.extend([keys::job(job), keys::dispute(job)]);
}

/// A job whose date may move.
fn add_moved(job: &JobId, expires: Option<Tick>, out: &mut Vec<StateKey>) {
    add_job(job, out);
    add_due(expires, out);
}

/// The bucket of a date, if the date can be written.
fn add_due(tick: Option<Tick>, out: &mut Vec<StateKey>) {
    out.extend(tick.map(|tick| keys::due_head(due::second_of(tick))));
}
