//! Disputes: somebody says that a result is wrong, and evidence decides. The provider says what its
//! result is made of, sixteen claims at a time; the challenger picks the first wrong one; at the
//! end stands a step that everybody can execute. Whoever falls silent loses, whoever is right
//! gains.
//!
//! What claims, answers and evidence mean is the judge's business; here are turns, dates and money.

use tg_types::ids::{AccountId, JobId, NodeId, Noun};
use tg_types::tx::DisputeAnswer;
use tg_types::{
    Amount, Bps, Bytes, DisputePoint, Event, JobStatus, Reason, RunClaim, StepVerdict, Tick, Tier,
    TileLot, wire,
};

use super::record::{Check, Draw, JobEntry, Run};
use super::run;
use super::settle::{self, Loss};
use crate::due::{self, DueItem};
use crate::entry::{Entry, Held, entry};
use crate::error::{ApplyError, Fail, Stop};
use crate::planted::planted;
use crate::session::{Call, Session};
use crate::totals::{Flow, Part};
use crate::{account, keys, program};

wire! {
    /// Who must go on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Turn {
        /// The provider: with an answer, or with evidence.
        Provider = 1,
        /// The challenger: with a choice, or with evidence.
        Challenger = 2,
    }
}

entry! {
    /// A dispute about a job's result.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DisputeEntry {
        /// Who objects.
        pub challenger: AccountId,
        /// What stands on the objection.
        pub bond: Amount,
        /// Whose result it is.
        pub node: NodeId,
        /// How often a claim was picked.
        pub round: u8,
        /// Who must go on.
        pub turn: Turn,
        /// Until when.
        pub deadline: Tick,
        /// The claim in dispute.
        pub claim: Bytes<{ 8 * 1024 }>,
        /// The provider's answer to it.
        pub answer: Option<DisputeAnswer>,
    }
}

impl Entry for DisputeEntry {
    const NOUN: Noun = Noun::Dispute;

    fn held(&self) -> Held {
        Held { escrow: self.bond.units().into(), ..Held::default() }
    }
}

/// How often a claim may be picked: a descent sixteen ways comes to one step of 2^64 in sixteen, so
/// that this ends only disputes which lead nowhere.
const ROUNDS_MAX: u8 = 64;

/// What of a lost challenge bond the provider gets for its trouble; the rest is burned.
const DEFENCE_SHARE: Bps = Bps::constant(5_000);

/// Somebody objects.
pub(crate) fn open(session: &mut Session<'_>, call: &Call, job: &JobId) -> Result<(), Fail> {
    super::load(session, &[*job])?;
    let entry = session.tables.jobs.get(job.as_bytes())?.cloned().ok_or(Reason::JobUnknown)?;
    let is_judged = matches!(entry.spec.tier, Tier::Audit | Tier::Sync);
    if entry.status != JobStatus::Checking || !is_judged {
        return Err(Reason::NotDisputable.into());
    }
    let run = entry.live().next().cloned().ok_or(Reason::NotDisputable)?;
    let claim = entry.claim().ok_or(Reason::NotDisputable)?;
    let bond = session.params.jobs.challenge_bond;
    let left = account::balance_less(session, call.slot, bond)?;
    let first = session.rules.judge.first_claim(&claim);
    let claim = Bytes::new(first).map_err(|_| Reason::NotDisputable)?;
    let deadline = session.env.tick.plus(session.params.jobs.answer_within)?;

    account::set_balance(session, call.slot, left);
    session.totals.shift(Flow { from: Part::Balances, to: Part::Escrow, amount: bond })?;
    let (challenger, node, turn) = (call.sender, run.node, Turn::Provider);
    let dispute =
        DisputeEntry { challenger, bond, node, round: 0, turn, deadline, claim, answer: None };
    session.tables.disputes.put(job.as_bytes(), Some(dispute))?;
    let status = JobStatus::Disputed;
    session.tables.jobs.put(job.as_bytes(), Some(JobEntry { status, ..entry }))?;
    session.emit(Event::DisputeOpened { job: *job, challenger, bond });
    Ok(due::add(session, deadline, DueItem::JobStep { job: *job })?)
}

/// The dispute about a job.
fn find(session: &mut Session<'_>, job: &JobId) -> Result<DisputeEntry, Fail> {
    super::load(session, &[*job])?;
    let dispute = session.tables.disputes.get(job.as_bytes())?.cloned();
    Ok(dispute.ok_or(Reason::DisputeUnknown)?)
}

/// What is disputed. Looked up only for whoever may speak, because a program can be long.
struct Disputed {
    entry: JobEntry,
    claim: RunClaim,
    program: Vec<u8>,
}

fn subject(session: &mut Session<'_>, job: &JobId) -> Result<Disputed, Fail> {
    let entry = super::known(session, job)?;
    let claim = entry.claim().ok_or(Reason::DisputeUnknown)?;
    let program = program::bytes(session, &claim.program)?;
    Ok(Disputed { entry, claim, program })
}

/// The provider says what the claim in dispute is made of.
pub(crate) fn answer(
    session: &mut Session<'_>,
    call: &Call,
    job: &JobId,
    answer: &DisputeAnswer,
) -> Result<(), Fail> {
    let mut dispute = find(session, job)?;
    let is_turn = dispute.turn == Turn::Provider || planted!(session.rules, SkipTurn);
    if run::speaker(call) != dispute.node || !is_turn {
        return Err(Reason::DisputeTurn.into());
    }
    let Disputed { program, claim: run, .. } = subject(session, job)?;
    let claim = dispute.claim.as_slice();
    if !session.rules.judge.is_consistent(&program, &run, claim, answer.as_slice()) {
        return Err(Reason::AnswerWrong.into());
    }

    dispute.answer = Some(answer.clone());
    session.emit(Event::DisputeAnswered { job: *job, round: dispute.round });
    Ok(pass_turn(session, job, dispute, Turn::Challenger)?)
}

/// The challenger says which claim is the first wrong one.
pub(crate) fn pick(
    session: &mut Session<'_>,
    call: &Call,
    job: &JobId,
    child: u8,
) -> Result<(), Fail> {
    let mut dispute = find(session, job)?;
    if call.sender != dispute.challenger || dispute.turn != Turn::Challenger {
        return Err(Reason::DisputeTurn.into());
    }
    let answer = dispute.answer.take().ok_or(Reason::DisputeTurn)?;
    let claim = session.rules.judge.child(answer.as_slice(), child);
    let claim = claim.and_then(|claim| Bytes::new(claim).ok()).ok_or(Reason::AnswerWrong)?;
    if dispute.round >= ROUNDS_MAX {
        return Err(Reason::AnswerWrong.into());
    }

    dispute.claim = claim;
    session.emit(Event::ClaimPicked { job: *job, round: dispute.round, child });
    dispute.round += 1;
    Ok(pass_turn(session, job, dispute, Turn::Provider)?)
}

fn pass_turn(
    session: &mut Session<'_>,
    job: &JobId,
    dispute: DisputeEntry,
    turn: Turn,
) -> Result<(), Stop> {
    let deadline = session.env.tick.plus(session.params.jobs.answer_within)?;
    let dispute = DisputeEntry { turn, deadline, ..dispute };
    session.tables.disputes.put(job.as_bytes(), Some(dispute))?;
    due::add(session, deadline, DueItem::JobStep { job: *job })
}

/// Either party shows what decides.
pub(crate) fn judge(
    session: &mut Session<'_>,
    call: &Call,
    job: &JobId,
    evidence: &[u8],
) -> Result<(), Fail> {
    let dispute = find(session, job)?;
    if run::speaker(call) != dispute.node && call.sender != dispute.challenger {
        return Err(Reason::DisputeTurn.into());
    }
    let Disputed { entry, claim, program } = subject(session, job)?;
    let answer = dispute.answer.as_ref().map(DisputeAnswer::as_slice);
    let at = DisputePoint { claim: dispute.claim.as_slice(), answer, evidence };
    let verdict = session.rules.judge.judge(&program, &claim, &at).ok_or(Reason::EvidenceVoid)?;

    if verdict == StepVerdict::Refuted || planted!(session.rules, SlashHonest) {
        let tiles = session.params.jobs.audit_tiles;
        let judge = &session.rules.judge;
        let is_liable = |check: &&Check| {
            let lot = check.lot.map(|lot| TileLot { lot, tiles });
            judge.has_vouched(&program, &claim, &at, lot.as_ref())
        };
        let answered = entry.checks.as_slice().iter().filter(|check| check.has_answered());
        let vouched = answered.filter(is_liable);
        let vouched: Vec<Check> = vouched.cloned().collect();
        return Ok(refute(session, job, entry, &dispute, Shown::Evidence { vouched })?);
    }
    Ok(uphold(session, job, entry, &dispute, Reason::ObjectionRefuted)?)
}

/// Somebody did not go on in time.
pub(crate) fn fall_due(session: &mut Session<'_>, job: &JobId) -> Result<(), Stop> {
    let dispute = session.tables.disputes.get(job.as_bytes())?.cloned();
    let dispute = dispute.ok_or(ApplyError::Incomplete(keys::dispute(job)))?;
    if dispute.deadline > session.env.tick {
        return Ok(());
    }
    let entry = super::known(session, job)?;
    match dispute.turn {
        Turn::Provider => refute(session, job, entry, &dispute, Shown::Silence),
        Turn::Challenger => uphold(session, job, entry, &dispute, Reason::ObjectionDropped),
    }
}

/// Why a result does not stand.
enum Shown {
    /// Nobody defended it.
    Silence,
    /// It was shown to be wrong.
    Evidence {
        /// Checkers that have vouched for what was shown to be wrong, or were about to: a
        /// commitment can only vouch. Who was to recompute some tiles has vouched for those, and
        /// for the output; nobody for what was said in the dispute only.
        vouched: Vec<Check>,
    },
}

/// The result does not stand: the provider loses its bond, or half of it for silence; checkers that
/// vouched for what was shown to be wrong lose theirs. The job goes to another node.
fn refute(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    dispute: &DisputeEntry,
    shown: Shown,
) -> Result<(), Stop> {
    let (why, vouched) = match shown {
        Shown::Silence => (Reason::ResultUndefended, Vec::new()),
        Shown::Evidence { vouched } => (Reason::ResultRefuted, vouched),
    };
    let slot = session.tables.accounts.find(dispute.challenger.as_bytes())?;
    end(session, job, dispute, why)?;
    account::credit(session, slot, dispute.bond)?;
    let (from, to) = (Part::Escrow, Part::Balances);
    session.totals.shift(Flow { from, to, amount: dispute.bond })?;
    let Some(Run { node, owner, bond, .. }) = entry.run_of(&dispute.node).cloned() else {
        return Err(ApplyError::Incomplete(keys::job(job)).into());
    };
    run::end(session, job, &mut entry, &node, why)?;
    let is_shown = why == Reason::ResultRefuted;
    let loss =
        if is_shown { Loss::whole(&node, &owner, bond) } else { Loss::half(&node, &owner, bond) };
    settle::slash(session, job, &loss, Some(slot))?;
    settle::release_checks(session, &mut entry)?;
    for check in vouched {
        let loss = Loss::whole(&check.node, &check.owner, check.bond);
        settle::slash(session, job, &loss, Some(slot))?;
    }
    entry.checks = super::record::Checks::default();
    entry.draw = Draw::Pending;
    run::retry(session, job, entry)
}

/// The objection does not stand: the challenger loses its bond, and the checks go on.
fn uphold(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    dispute: &DisputeEntry,
    why: Reason,
) -> Result<(), Stop> {
    end(session, job, dispute, why)?;
    let for_provider = dispute.bond.share_floor(DEFENCE_SHARE);
    let burned = dispute.bond.minus(for_provider)?;
    let owner = entry.run_of(&dispute.node).map(|run| run.owner);
    let owner = owner.ok_or(ApplyError::Incomplete(keys::job(job)))?;
    let slot = session.tables.accounts.find(owner.as_bytes())?;
    account::credit(session, slot, for_provider)?;
    let from = Part::Escrow;
    session.totals.shift(Flow { from, to: Part::Balances, amount: for_provider })?;
    session.totals.shift(Flow { from, to: Part::Burned, amount: burned })?;
    entry.status = JobStatus::Checking;
    // Nobody could answer meanwhile, so everybody gets the whole time again.
    let until = session.env.tick.plus(entry.spec.run_max)?.plus(session.params.jobs.check_grace)?;
    for check in entry.checks.as_mut_slice() {
        if check.is_open() && check.deadline != Tick::MAX {
            check.deadline = until;
        }
    }
    // The beacon may have spoken meanwhile.
    run::advance(session, job, entry)
}

/// Forgets a dispute.
fn end(
    session: &mut Session<'_>,
    job: &JobId,
    dispute: &DisputeEntry,
    why: Reason,
) -> Result<(), Stop> {
    session.tables.disputes.put(job.as_bytes(), None)?;
    session.emit(Event::DisputeEnded { job: *job, challenger: dispute.challenger, why });
    Ok(())
}
