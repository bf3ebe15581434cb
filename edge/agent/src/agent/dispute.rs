//! Both sides of a dispute: what follows from one's own run is computed, nothing is decided here.
//! Who vouched for a result defends it like its provider, if that does not.

use super::AgentConfig;
use super::outbox::Outbox;
use super::work::{self, WorkError};
use super::{Tools, patience};
use crate::tensor_run::{TensorRun, bounded};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tg_ledger::{DisputeEntry, JobEntry, Turn};
use tg_privacy::ContentKey;
use tg_tensor::commit::TILE;
use tg_tensor::dispute::{
    Answer, Child, Difference, consistent, descend, differs, handover_of, make_step,
};
use tg_tensor::judge::Evidence;
use tg_tensor::trace::{Handover, Witness};
use tg_types::{AccountId, Action, Decode, DurationMs, Encode, JobId, NodeId};
use tokio::sync::OnceCell;

/// A run that is kept, or computed once more when it is needed.
pub(crate) type KeptRun = Arc<OnceCell<Arc<TensorRun>>>;

/// As who vouched for the whole run: speaks in the place of a provider that did not go on. All who
/// vouched would say the same, so each gives those before it some time.
pub(crate) async fn stand_in(
    config: &Arc<AgentConfig>,
    tools: &Tools,
    outbox: &Outbox,
    job: JobId,
    (kept, key): (&KeptRun, Option<ContentKey>),
) -> Result<(), WorkError> {
    let node = NodeId::new(*config.key.public().as_bytes());
    let entry = patience::job(config, job, |_| true).await?;
    let Some(pause) = pause_of(&entry, &node, config.gateway.params().jobs.answer_within) else {
        return Ok(());
    };
    let run = kept.get_or_try_init(|| work::run_again(config, tools, job, key)).await?;
    tokio::time::sleep(pause).await;
    defend(config, outbox, job, run, |turn| turn == Turn::StandIns).await
}

/// How long a node waits before it speaks for the provider, so that all who vouched have their turn
/// in half of the time there is; nothing if it has not vouched for the whole run.
fn pause_of(entry: &JobEntry, node: &NodeId, window: DurationMs) -> Option<Duration> {
    let place = entry.stand_ins().position(|check| check.node == *node)?;
    let half = Duration::from_millis(window.get() / 2);
    let (place, count) =
        (u32::try_from(place).ok()?, u32::try_from(entry.stand_ins().count()).ok()?);
    half.checked_mul(place)?.checked_div(count)
}

/// As the provider, or in its place: says what the claim in dispute is made of, or shows the step
/// that decides.
pub(crate) async fn defend(
    config: &AgentConfig,
    outbox: &Outbox,
    job: JobId,
    run: &TensorRun,
    is_ours: fn(Turn) -> bool,
) -> Result<(), WorkError> {
    let is_turn = |dispute: &DisputeEntry| is_ours(dispute.turn);
    let Some(dispute) = patience::dispute(config, job, is_turn).await? else { return Ok(()) };
    let claim = Child::from_bytes(dispute.claim.as_slice())?;
    let witness = run.witness()?;
    let action = match make_step(&witness, &claim) {
        Some(step) => evidence(job, &Evidence::Step(step)),
        None => descend(&witness, &claim.node).ok().and_then(|answer| {
            // What somebody else has stated may be false: then there is nothing to say.
            consistent(witness.program(), &claim, &answer).ok()?;
            Some(Action::AnswerDispute { job, answer: bounded(answer.to_bytes())? })
        }),
    };
    if let Some(action) = action {
        outbox.send(action).await;
    }
    Ok(())
}

fn evidence(job: JobId, evidence: &Evidence) -> Option<Action> {
    Some(Action::JudgeDispute { job, evidence: bounded(evidence.to_bytes())? })
}

/// As the challenger: picks the first claim that differs from one's own, or shows that it is wrong.
pub(crate) async fn challenge(
    config: &AgentConfig,
    outbox: &Outbox,
    job: JobId,
    objection: &Objection,
) -> Result<(), WorkError> {
    let me = AccountId::from(config.key.public());
    let is_turn =
        |dispute: &DisputeEntry| dispute.challenger == me && dispute.turn == Turn::Challenger;
    let dispute = patience::dispute(config, job, is_turn).await?;
    let Some(theirs) = dispute.as_ref().and_then(|dispute| dispute.answer.clone()) else {
        return Ok(());
    };
    let Some(dispute) = dispute else { return Ok(()) };
    let theirs = Answer::from_bytes(theirs.as_slice())?;
    let claim = Child::from_bytes(dispute.claim.as_slice())?;
    for action in objection.reply(job, &claim, &theirs)? {
        outbox.send(action).await;
    }
    Ok(())
}

/// A result that is wrong in our eyes, with the run as it ought to be and what the provider has
/// said of its own so far.
pub(crate) struct Objection {
    // Answers come one after the other, but from tasks that the compiler cannot order.
    known: Mutex<Known>,
}

/// What the challenger knows.
struct Known {
    run: Arc<TensorRun>,
    answers: Vec<Answer>,
    /// What the first answer gave away.
    handover: Option<Handover>,
}

impl Known {
    /// Learns from an answer.
    fn learn(&mut self, theirs: &Answer) -> Result<(), WorkError> {
        let told = handover_of(self.run.witness()?.program(), theirs);
        self.handover = told.or(self.handover);
        self.answers.push(theirs.clone());
        Ok(())
    }
}

impl Objection {
    pub(crate) fn new(run: Arc<TensorRun>) -> Self {
        Self { known: Mutex::new(Known { run, answers: Vec::new(), handover: None }) }
    }

    /// What to say to an answer: which claim is the first wrong one, and, once it is small enough,
    /// the evidence.
    fn reply(&self, job: JobId, claim: &Child, theirs: &Answer) -> Result<Vec<Action>, WorkError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.learn(theirs)?;
        let mut witness = known.run.witness()?;
        let mine = descend(&witness, &claim.node).map_err(|_| WorkError::Kind)?;
        known.answers.iter().for_each(|answer| witness.learn(answer));
        let actions = match differs(&mine, theirs) {
            Some(Difference::Child(place)) => {
                let child = u8::try_from(place).map_err(|_| WorkError::Kind)?;
                let picked = theirs.children.get(place).ok_or(WorkError::Kind)?;
                let step = make_step(&witness, picked).map(Evidence::Step);
                let shown = step.and_then(|step| evidence(job, &step));
                [Some(Action::PickClaim { job, child }), shown]
            }
            Some(Difference::Salt) => {
                let salt = known.handover.map(Evidence::Salt);
                [salt.and_then(|salt| evidence(job, &salt)), None]
            }
            None => [traced(&witness).and_then(|tiles| evidence(job, &tiles)), None],
        };
        Ok(actions.into_iter().flatten().collect())
    }
}

/// The trace is right and the output beside it is not: what the trace says of the outputs.
fn traced(witness: &Witness<'_>) -> Option<Evidence> {
    let program = witness.program();
    let mut tiles = Vec::new();
    for output in program.outputs() {
        let count = program.spec(output.value)?.elements().div_ceil(TILE);
        for tile in 0..u32::try_from(count).ok()? {
            tiles.push(witness.open(output.value, tile)?);
        }
    }
    Some(Evidence::Traced(tiles))
}
