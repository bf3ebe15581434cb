//! Disputes: somebody says that a result is wrong, and evidence decides. The provider says what its
//! result is made of, sixteen claims at a time; the challenger picks the first wrong one; at the
//! end stands a step that everybody can execute. Whoever falls silent loses, whoever is right
//! gains.
//!
//! If the provider falls silent, those who vouched for the whole run may answer in its place: they
//! know all that it knows. So a silent provider does not spare its friends, and one that is only
//! away loses nothing as long as an honest checker is there. Everybody answers for its own words:
//! what follows from the roots is the word of all who vouched, a sum that was stated in the dispute
//! only is the word of whoever stated it.
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
        /// Those who vouched for the whole run, in the place of a provider that did not go on; or
        /// the provider after all.
        StandIns = 3,
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
        /// Who stated it.
        pub stated_by: NodeId,
        /// The answer to it.
        pub answer: Option<DisputeAnswer>,
        /// Who answered last; the provider, if nobody has.
        pub answered_by: NodeId,
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

/// What of a lost challenge bond whoever defended the result gets for its trouble; the rest is
/// burned.
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
    let (challenger, node) = (call.sender, run.node);
    let dispute = DisputeEntry {
        challenger,
        bond,
        node,
        round: 0,
        turn: Turn::Provider,
        deadline,
        claim,
        stated_by: node,
        answer: None,
        answered_by: node,
    };
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

/// Whether a node may speak for the result in dispute now.
fn may_defend(entry: &JobEntry, dispute: &DisputeEntry, node: &NodeId) -> bool {
    let is_stand_in = match dispute.turn {
        Turn::Provider | Turn::Challenger => false,
        Turn::StandIns => entry.stand_ins().any(|check| check.node == *node),
    };
    is_stand_in || dispute.node == *node
}

/// What is disputed. Looked up only for whoever may speak, because a program can be long.
struct Disputed {
    claim: RunClaim,
    program: Vec<u8>,
}

fn subject(session: &mut Session<'_>, entry: &JobEntry) -> Result<Disputed, Fail> {
    let claim = entry.claim().ok_or(Reason::DisputeUnknown)?;
    let program = program::bytes(session, &claim.program)?;
    Ok(Disputed { claim, program })
}

/// The provider, or who vouched for its result, says what the claim in dispute is made of.
pub(crate) fn answer(
    session: &mut Session<'_>,
    call: &Call,
    job: &JobId,
    answer: &DisputeAnswer,
) -> Result<(), Fail> {
    let mut dispute = find(session, job)?;
    let (entry, node) = (super::known(session, job)?, run::speaker(call));
    let is_turn = dispute.turn != Turn::Challenger || planted!(session.rules, SkipTurn);
    if !may_defend(&entry, &dispute, &node) || !is_turn {
        return Err(Reason::DisputeTurn.into());
    }
    let Disputed { program, claim: run } = subject(session, &entry)?;
    let claim = dispute.claim.as_slice();
    if !session.rules.judge.is_consistent(&program, &run, claim, answer.as_slice()) {
        return Err(Reason::AnswerWrong.into());
    }

    dispute.answer = Some(answer.clone());
    dispute.answered_by = node;
    session.emit(Event::DisputeAnswered { job: *job, node, round: dispute.round });
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
    dispute.stated_by = dispute.answered_by;
    session.emit(Event::ClaimPicked { job: *job, round: dispute.round, child });
    dispute.round += 1;
    // A provider that is there goes on alone; whoever stands in for it does not wait for it again.
    let is_there = dispute.answered_by == dispute.node;
    let turn = if is_there { Turn::Provider } else { Turn::StandIns };
    Ok(pass_turn(session, job, dispute, turn)?)
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

/// Either party shows what decides. If that is a false sum of whoever spoke in the provider's
/// place, it says nothing of the result, which its provider has not defended.
pub(crate) fn judge(
    session: &mut Session<'_>,
    call: &Call,
    job: &JobId,
    evidence: &[u8],
) -> Result<(), Fail> {
    let dispute = find(session, job)?;
    let entry = super::known(session, job)?;
    let is_defender = may_defend(&entry, &dispute, &run::speaker(call));
    if !is_defender && call.sender != dispute.challenger {
        return Err(Reason::DisputeTurn.into());
    }
    let Disputed { claim, program } = subject(session, &entry)?;
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
        let is_bound = judge.has_vouched(&program, &claim, &at, None);
        let author = entry.stand_ins().find(|check| check.node == dispute.stated_by);
        let fall = match author.filter(|_| !is_bound && dispute.stated_by != dispute.node) {
            Some(author) => Fall::FalseWord(vec![author.clone()]),
            None => {
                let checks = entry.checks.as_slice().iter();
                let answered = checks.filter(|check| check.has_answered());
                Fall::Evidence(answered.filter(is_liable).cloned().collect())
            }
        };
        return Ok(refute(session, job, entry, &dispute, fall)?);
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
        Turn::Challenger => uphold(session, job, entry, &dispute, Reason::ObjectionDropped),
        Turn::Provider if entry.stand_ins().next().is_some() => {
            pass_turn(session, job, dispute, Turn::StandIns)?;
            let deadline = session.env.tick.plus(session.params.jobs.answer_within)?;
            session.emit(Event::DefencePassed { job: *job, deadline });
            Ok(())
        }
        Turn::Provider | Turn::StandIns => {
            // Nobody but its author can go on with a false sum.
            let is_bound = session.rules.judge.is_bound(dispute.claim.as_slice());
            let is_silent = |check: &&Check| is_bound || check.node == dispute.stated_by;
            let silent = entry.stand_ins().filter(is_silent).cloned().collect();
            refute(session, job, entry, &dispute, Fall::Silence(silent))
        }
    }
}

/// Why a result does not stand, and which checkers answer for that with their own bonds.
enum Fall {
    /// Nobody defended it. Half of their bonds: those who could have.
    Silence(Vec<Check>),
    /// Who spoke in the provider's place stated something false. Its whole bond; of the result
    /// nothing was shown.
    FalseWord(Vec<Check>),
    /// It was shown to be wrong. Their whole bonds: those who have vouched for what was shown to be
    /// wrong, or were about to, since a commitment can only vouch. Who was to recompute some tiles
    /// has vouched for those, and for the output; nobody for what was said in the dispute only.
    Evidence(Vec<Check>),
}

/// The result does not stand: the provider loses its bond, or half of it if the result was not
/// shown to be wrong; checkers lose what they answer for. The job goes to another node.
fn refute(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    dispute: &DisputeEntry,
    fall: Fall,
) -> Result<(), Stop> {
    let (why, is_silent, liable) = match fall {
        Fall::Silence(silent) => (Reason::ResultUndefended, true, silent),
        Fall::FalseWord(author) => (Reason::ResultUndefended, false, author),
        Fall::Evidence(vouched) => (Reason::ResultRefuted, false, vouched),
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
    for Check { node, owner, bond, .. } in &liable {
        let loss = if is_silent {
            Loss::half(node, owner, *bond)
        } else {
            Loss::whole(node, owner, *bond)
        };
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
    let for_defence = dispute.bond.share_floor(DEFENCE_SHARE);
    let burned = dispute.bond.minus(for_defence)?;
    let stand_in = entry.stand_ins().find(|check| check.node == dispute.answered_by);
    let stand_in = stand_in.map(|check| check.owner);
    let owner = stand_in.or(entry.run_of(&dispute.node).map(|run| run.owner));
    let owner = owner.ok_or(ApplyError::Incomplete(keys::job(job)))?;
    let slot = session.tables.accounts.find(owner.as_bytes())?;
    account::credit(session, slot, for_defence)?;
    let from = Part::Escrow;
    session.totals.shift(Flow { from, to: Part::Balances, amount: for_defence })?;
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
