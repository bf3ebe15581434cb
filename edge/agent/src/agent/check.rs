//! One check: get what the provider got, compute the same, compare. Of a large run drawn tiles are
//! recomputed first ([`super::tiles`]), and the whole if they are not found right for any reason.
//!
//! Programs have one meaning and the job states the salt of its trace, so the whole trace must
//! agree to the bit; a root that differs is a wrong result, whoever computed it. The provider is
//! not needed for that. Who has computed the trace knows its keys, and an answer shows the one of
//! its round.

use super::dispute::KeptRun;
use super::patience::{self, Look};
use super::tiles;
use super::work::{self, Closed, WorkError};
use super::{AgentConfig, Tools};
use crate::tensor_run::TensorRun;
use std::sync::Arc;
use std::time::Duration;
use tg_ledger::{Check, CheckState, JobEntry, drawn_lot, keys};
use tg_privacy::ContentKey;
use tg_types::{CheckAnswer, DurationMs, Hash32, JobId, JobStatus, NodeId, RunResult, TileLot};

/// How often to look whether something has happened.
const LOOK: Duration = Duration::from_millis(100);

/// An answer that is not shown yet.
pub(crate) struct Checked {
    pub(crate) answer: CheckAnswer,
    pub(crate) salt: [u8; 32],
    /// The whole run, if that was computed: a defence needs it.
    pub(crate) run: Option<Arc<TensorRun>>,
    /// The key of the inputs, if their owner keeps it: for a defence after a restart.
    pub(crate) key: Option<ContentKey>,
}

/// What a check found.
pub(crate) enum Verdict {
    /// The result is right.
    Right(Box<Checked>),
    /// It is not; the run is as it ought to be.
    Wrong(Arc<TensorRun>),
}

/// Checks the result of a job. If its owner keeps the key and is late with it, that is `told`, and
/// the check goes on as soon as the key comes: if that is too late, its date excuses it.
pub(crate) async fn check(
    config: &Arc<AgentConfig>,
    tools: &Tools,
    (node, job): (&NodeId, JobId),
    told: impl Future<Output = ()>,
) -> Result<Verdict, WorkError> {
    let Shown { entry, result, round, lot } = shown(config, node, job).await?;
    let patience = time_for_check(&entry, config.gateway.params().jobs.check_grace);
    let closed = Closed { job, entry: &entry, key: None, patience };
    let content = work::open(config, &tools.packages, closed, told).await?;
    let key = content.key_to_note(&entry.spec);
    let inputs = Arc::new(content.tensor_inputs().await?);
    let lot = lot.map(|lot| TileLot { lot, tiles: config.gateway.params().jobs.audit_tiles });
    let salt = (config.random)().ok_or(WorkError::Random)?;
    if let Some(lot) = lot {
        let (entry, inputs) = (&entry, Arc::clone(&inputs));
        let audited = tiles::Audited { job, entry, result, inputs, lot };
        match tiles::audit(config, audited).await {
            Ok(answer) => {
                let checked = Checked { answer, salt, run: None, key };
                return Ok(Verdict::Right(Box::new(checked)));
            }
            Err(error) => tracing::warn!(%job, %error, "the whole run is recomputed"),
        }
    }
    let (work, needs, gpus) = (entry.spec.work, entry.spec.needs, Arc::clone(&tools.gpus));
    let computed =
        tokio::task::spawn_blocking(move || TensorRun::new(inputs, &work, &gpus.engine(&needs)));
    let run = computed.await.map_err(|_| WorkError::Panicked)??;
    if !agrees(&run, &result)? {
        return Ok(Verdict::Wrong(Arc::new(run)));
    }
    let answer = match lot {
        Some(_) => tiles::whole_sealed(&run, &result, node)?,
        None => {
            let key = run.trace().secret().key(round).ok_or(WorkError::Unknown)?;
            CheckAnswer::Key { trace: result.trace, key }
        }
    };
    let run = Some(Arc::new(run));
    Ok(Verdict::Right(Box::new(Checked { answer, salt, run, key })))
}

/// How long a check may take in all: a key that comes later is of no use to anybody.
const fn time_for_check(entry: &JobEntry, grace: DurationMs) -> Duration {
    Duration::from_millis(entry.spec.run_max.get().saturating_add(grace.get()))
}

fn agrees(run: &TensorRun, result: &RunResult) -> Result<bool, WorkError> {
    let subject = run.subject()?;
    Ok(subject.trace_root == result.trace && subject.outputs_root == result.output)
}

/// A result that we are to check.
struct Shown {
    entry: JobEntry,
    result: RunResult,
    /// The round in which we were drawn.
    round: u8,
    /// What our tiles are drawn by, if we need not recompute the whole run.
    lot: Option<Hash32>,
}

/// Waits until the result of a job is shown.
async fn shown(config: &AgentConfig, node: &NodeId, job: JobId) -> Result<Shown, WorkError> {
    let ours = |entry: &JobEntry| {
        let mut checks = entry.checks.as_slice().iter();
        let ours = checks.find(|check| check.node == *node && check.is_open());
        ours.map(|check| (check.round, check.lot))
    };
    loop {
        // A validator that is a block behind does not know of our draw yet.
        let entry = patience::job(config, job, |entry| ours(entry).is_some()).await?;
        let Some((round, lot)) = ours(&entry).filter(|_| !entry.status.is_final()) else {
            return Err(WorkError::Unknown);
        };
        match entry.result() {
            Some(result) if entry.status == JobStatus::Checking => {
                return Ok(Shown { entry, result, round, lot });
            }
            Some(_) | None => tokio::time::sleep(LOOK).await,
        }
    }
}

/// An answer as it is shown: who has recomputed a run of which tiles were asked for shows those
/// that are drawn once its round is open. A run that was computed before the agent started anew is
/// computed again.
pub(crate) async fn completed(
    config: &Arc<AgentConfig>,
    tools: &Tools,
    job: JobId,
    (answer, kept, key): (CheckAnswer, &KeptRun, Option<ContentKey>),
) -> Result<CheckAnswer, WorkError> {
    let CheckAnswer::Whole { trace, known, .. } = answer else { return Ok(answer) };
    let node = NodeId::new(*config.key.public().as_bytes());
    let again = || work::run_again(config, tools, job, key);
    let run = Arc::clone(kept.get_or_try_init(again).await?);
    let lot = drawn_after(config, &node, job).await?;
    let shown = tokio::task::spawn_blocking(move || tiles::whole_tiles(&run, &node, &lot));
    let tiles = shown.await.map_err(|_| WorkError::Panicked)??;
    Ok(CheckAnswer::Whole { trace, known, tiles })
}

/// Waits for the beacon that draws the tiles of who has recomputed the whole run: until the date of
/// its answer, whatever goes wrong with asking in between.
async fn drawn_after(
    config: &AgentConfig,
    node: &NodeId,
    job: JobId,
) -> Result<TileLot, WorkError> {
    let jobs = &config.gateway.params().jobs;
    let (tiles, window) = (jobs.audit_tiles, Duration::from_millis(jobs.answer_within.get()));
    let look = || async move {
        let entry = config.gateway.entry::<JobEntry>(keys::job(&job)).await?;
        let entry = entry.ok_or(WorkError::Unknown)?;
        let mut checks = entry.checks.as_slice().iter();
        let ours = checks.find(|check| check.node == *node && check.is_open());
        let ours = ours.ok_or(WorkError::Unknown)?;
        let CheckState::Committed { beacon, .. } = ours.state else { return Ok(Look::Nothing) };
        let drawn = beacon.zip(ours.lot);
        let drawn = drawn.map(|(beacon, lot)| drawn_lot(&beacon, &TileLot { lot, tiles }));
        Ok(drawn.map_or(Look::Nothing, Look::Found))
    };
    patience::until(window, LOOK, look).await
}

/// Waits until everybody of our round has committed or missed; false if that no longer matters.
pub(crate) async fn wait_for_turn(config: &AgentConfig, node: &NodeId, job: JobId) -> bool {
    let is_ours =
        |check: &&Check| check.node == *node && matches!(check.state, CheckState::Committed { .. });
    // A validator that is a block behind does not know of our commitment yet.
    let known =
        patience::job(config, job, |entry| entry.checks.as_slice().iter().any(|it| is_ours(&it)));
    let Ok(mut entry) = known.await else { return false };
    loop {
        let checks = entry.checks.as_slice();
        let Some(ours) = checks.iter().find(is_ours) else { return false };
        let is_waiting = |check: &Check| check.round == ours.round && check.is_unsaid();
        if !checks.iter().any(is_waiting) {
            return true;
        }
        tokio::time::sleep(LOOK).await;
        match config.gateway.entry(keys::job(&job)).await {
            Ok(Some(now)) => entry = now,
            Ok(None) => return false,
            Err(error) => tracing::debug!(%job, %error, "a job cannot be looked up"),
        }
    }
}
