//! What an event says is true, but the validator that is asked may be a block behind the one that
//! told. So whoever acts on an event looks again for a while before it believes the contrary.

use super::AgentConfig;
use super::work::WorkError;
use std::time::Duration;
use tg_ledger::{DisputeEntry, JobEntry, keys};
use tg_types::JobId;

/// How often to look.
const LOOKS_MAX: u32 = 50;

/// How long to wait in between.
const PAUSE: Duration = Duration::from_millis(60);

/// A job once it is as expected; as it is if that does not happen.
pub(crate) async fn job(
    config: &AgentConfig,
    job: JobId,
    is_expected: impl Fn(&JobEntry) -> bool,
) -> Result<JobEntry, WorkError> {
    let mut found = None;
    for _ in 0..LOOKS_MAX {
        found = config.gateway.entry::<JobEntry>(keys::job(&job)).await?;
        match &found {
            Some(entry) if is_expected(entry) || entry.status.is_final() => break,
            Some(_) | None => tokio::time::sleep(PAUSE).await,
        }
    }
    found.ok_or(WorkError::Unknown)
}

/// A dispute once it is as expected; nothing if that does not happen.
pub(crate) async fn dispute(
    config: &AgentConfig,
    job: JobId,
    is_expected: impl Fn(&DisputeEntry) -> bool,
) -> Result<Option<DisputeEntry>, WorkError> {
    for _ in 0..LOOKS_MAX {
        let found = config.gateway.entry::<DisputeEntry>(keys::dispute(&job)).await?;
        if found.as_ref().is_some_and(&is_expected) {
            return Ok(found);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(None)
}
