//! What an event says is true, but the validator that is asked may be a block behind the one that
//! told. So whoever acts on an event looks again for a while before it believes the contrary. One
//! that does not answer at all says nothing, so that is a look like any other.

use super::AgentConfig;
use super::work::WorkError;
use std::time::{Duration, Instant};
use tg_gateway::GatewayError;
use tg_ledger::{DisputeEntry, JobEntry, keys};
use tg_types::JobId;

/// How long to look: a few blocks.
pub(crate) const WINDOW: Duration = Duration::from_secs(3);

/// How long to wait in between.
pub(crate) const PAUSE: Duration = Duration::from_millis(60);

/// What a look shows.
pub(crate) enum Look<T> {
    /// Nothing yet.
    Nothing,
    /// Something else than what is looked for, which must do if nothing else comes.
    SoFar(T),
    /// What is looked for.
    Found(T),
}

/// Looks until there is something to see, for at most this long.
///
/// # Errors
/// If there is nothing in that time, or a look says why there will never be.
pub(crate) async fn until<T, Looking>(
    window: Duration,
    pause: Duration,
    look: impl Fn() -> Looking,
) -> Result<T, WorkError>
where
    Looking: Future<Output = Result<Look<T>, WorkError>>,
{
    let begun = Instant::now();
    let mut last = Err(WorkError::Unknown);
    loop {
        match look().await {
            Ok(Look::Found(found)) => return Ok(found),
            Ok(Look::SoFar(seen)) => last = Ok(seen),
            Ok(Look::Nothing) => {}
            Err(error) if may_pass(&error) => {
                tracing::debug!(%error, "a validator does not answer");
                last = last.or(Err(error));
            }
            Err(error) => return Err(error),
        }
        if begun.elapsed() >= window {
            return last;
        }
        tokio::time::sleep(pause).await;
    }
}

/// Whether another validator, or the same one later, may answer.
fn may_pass(error: &WorkError) -> bool {
    matches!(error, WorkError::Gateway(error) if !matches!(error, GatewayError::Ledger(_)))
}

/// A job once it is as expected; as it is if that does not happen.
pub(crate) async fn job(
    config: &AgentConfig,
    job: JobId,
    is_expected: impl Fn(&JobEntry) -> bool,
) -> Result<JobEntry, WorkError> {
    let is_expected = &is_expected;
    let look = || async move {
        let found = config.gateway.entry::<JobEntry>(keys::job(&job)).await?;
        Ok(match found {
            Some(entry) if is_expected(&entry) || entry.status.is_final() => Look::Found(entry),
            Some(entry) => Look::SoFar(entry),
            None => Look::Nothing,
        })
    };
    until(WINDOW, PAUSE, look).await
}

/// A dispute once it is as expected; nothing if that does not happen.
pub(crate) async fn dispute(
    config: &AgentConfig,
    job: JobId,
    is_expected: impl Fn(&DisputeEntry) -> bool,
) -> Result<Option<DisputeEntry>, WorkError> {
    let is_expected = &is_expected;
    let look = || async move {
        let found = config.gateway.entry::<DisputeEntry>(keys::dispute(&job)).await?;
        Ok(found.filter(is_expected).map_or(Look::Nothing, Look::Found))
    };
    match until(WINDOW, PAUSE, look).await {
        Ok(dispute) => Ok(Some(dispute)),
        Err(WorkError::Unknown) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{GatewayError, Look, WorkError, until};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    type Answer = fn() -> Result<Look<u8>, WorkError>;

    /// Looks that give these answers one after the other, the last one again and again.
    async fn seen(window_ms: u64, answers: &[Answer]) -> String {
        let looks = AtomicUsize::new(0);
        let look = || {
            let place = looks.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1);
            std::future::ready(answers[place]())
        };
        let window = Duration::from_millis(window_ms);
        match until(window, Duration::from_millis(1), look).await {
            Ok(found) => format!("{found}"),
            Err(error) => error.to_string(),
        }
    }

    /// Goal: one error of a gateway does not lose an answer that has time. Method: errors, nothing
    /// and what was looked for, in all orders that matter.
    #[tokio::test]
    async fn validator_that_does_not_answer_is_asked_again_until_the_date() {
        let fails: Answer = || Err(GatewayError::NoValidator.into());
        let (nothing, there): (Answer, Answer) = (|| Ok(Look::Nothing), || Ok(Look::Found(7)));
        let (other, never): (Answer, Answer) = (|| Ok(Look::SoFar(3)), || Err(WorkError::Kind));
        assert_eq!(seen(1_000, &[fails, there]).await, "7");
        assert_eq!(seen(1_000, &[nothing, fails, fails, other, nothing, there]).await, "7");
        assert_eq!(seen(1_000, &[fails, never, there]).await, WorkError::Kind.to_string());
        assert_eq!(seen(5, &[nothing]).await, WorkError::Unknown.to_string());
        assert_eq!(seen(5, &[other, fails]).await, "3");
        let unheard = WorkError::Gateway(GatewayError::NoValidator);
        assert_eq!(seen(5, &[fails]).await, unheard.to_string());
    }
}
