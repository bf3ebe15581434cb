//! One check: get what the provider got, compute the same, compare.
//!
//! Programs have one meaning, so the whole trace must agree to the bit; a root that differs is a
//! wrong result, whoever computed it. The salt of an honest trace follows from the package, so the
//! provider is not needed. If the roots differ, it is asked how it salted; if it does not say, only
//! the output can be compared. A wrong one is objected to, and the provider has to tell its salt on
//! the chain; for a right one the checker neither vouches, because the trace may be a trap, nor
//! objects, because it would lose.

use super::AgentConfig;
use super::packages::Packages;
use super::patience;
use super::work::{self, WorkError};
use crate::tensor_run::{TensorRun, trace_salt, work_digest};
use std::sync::Arc;
use std::time::Duration;
use tg_gateway::TensorInputs;
use tg_gateway::message::{Reply, Request};
use tg_ledger::{Check, CheckState, JobEntry, RunState, keys};
use tg_net::PeerId;
use tg_tensor::trace::Handover;
use tg_types::hash::{Tag, tagged};
use tg_types::{CheckAnswer, Decode, Hash32, JobId, JobStatus, NodeId, RunResult};

/// How often to look whether something has happened.
const LOOK: Duration = Duration::from_millis(100);

/// How often the provider is asked before its silence counts: five seconds of it.
const ASKED_MAX: u32 = 50;

const SEED: Tag = Tag::new("tensorgrid/check seed");

/// An answer that is not shown yet.
pub(crate) struct Checked {
    pub(crate) answer: CheckAnswer,
    pub(crate) salt: [u8; 32],
}

/// What a check found.
pub(crate) enum Verdict {
    /// The result is right.
    Right(Box<Checked>),
    /// It is not; the run is as it ought to be.
    Wrong(Arc<TensorRun>),
}

/// Checks the result of a job.
pub(crate) async fn check(
    config: &Arc<AgentConfig>,
    packages: &Packages,
    node: &NodeId,
    job: JobId,
) -> Result<Verdict, WorkError> {
    let (entry, provider, result) = shown(config, job).await?;
    let inputs = TensorInputs::from_bytes(&work::open(config, packages, job, &entry).await?)?;
    let (work, salt) = (entry.spec.work, trace_salt(&inputs, &job, &provider));
    let computed = tokio::task::spawn_blocking(move || TensorRun::new(&inputs, &work, salt));
    let mut run = computed.await.map_err(|_| WorkError::Panicked)??;
    if !agrees(&run, &result)? {
        let is_output_right = run.subject()?.outputs_root == result.output;
        match ask(config, &provider, job, &result).await {
            Some(handover) => run = run.salted(handover.salt())?,
            None if is_output_right => return Err(WorkError::Unseen),
            None => return Ok(Verdict::Wrong(Arc::new(run))),
        }
        if !agrees(&run, &result)? {
            return Ok(Verdict::Wrong(Arc::new(run)));
        }
    }
    let seed = tagged(SEED, &[job.as_bytes(), node.as_bytes(), result.trace.as_bytes()]);
    let work: Hash32 = work_digest(&run, &seed);
    let salt = (config.random)().ok_or(WorkError::Random)?;
    let answer = CheckAnswer { trace: result.trace, work };
    Ok(Verdict::Right(Box::new(Checked { answer, salt })))
}

fn agrees(run: &TensorRun, result: &RunResult) -> Result<bool, WorkError> {
    let subject = run.subject()?;
    Ok(subject.trace_root == result.trace && subject.outputs_root == result.output)
}

/// Waits until the result of a job is shown.
async fn shown(
    config: &AgentConfig,
    job: JobId,
) -> Result<(JobEntry, NodeId, RunResult), WorkError> {
    loop {
        let entry = patience::job(config, job, |_| true).await?;
        if entry.status.is_final() {
            return Err(WorkError::Unknown);
        }
        let found = entry.live().find_map(|run| match run.state {
            RunState::Revealed { result, .. } => Some((run.node, result)),
            RunState::Placed | RunState::Committed { .. } | RunState::Ended { .. } => None,
        });
        match found {
            Some((node, result)) if entry.status == JobStatus::Checking => {
                return Ok((entry, node, result));
            }
            Some(_) | None => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Asks the provider for the salt of its trace; `None` if it does not give the right one.
async fn ask(
    config: &AgentConfig,
    provider: &NodeId,
    job: JobId,
    result: &RunResult,
) -> Option<Handover> {
    let peer = PeerId::new(*provider.as_bytes()).ok()?;
    for _ in 0..ASKED_MAX {
        match config.gateway.ask_peer(peer, &Request::Handover { job }).await {
            Ok(Reply::Handover { handover }) => {
                let handover = Handover::from_bytes(handover.as_slice()).ok();
                return handover.filter(|handover| handover.explains(&result.trace));
            }
            Ok(_) => return None,
            Err(error) => tracing::debug!(%job, %error, "a provider hands nothing over"),
        }
        tokio::time::sleep(LOOK).await;
    }
    None
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
        let is_waiting =
            |check: &Check| check.round == ours.round && check.state == CheckState::Drawn;
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
