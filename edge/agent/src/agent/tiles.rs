//! Audits by tiles, from both sides: a checker asks the provider for what its drawn tiles are
//! computed from, and recomputes them; a provider answers that from the run it has kept.
//!
//! A provider that is gone, slow or wrong only costs time: then the checker computes the whole run,
//! which shows whether the result is right, and has all digests itself. It is paid for that by the
//! provider, if it shows that it did: it commits to all digests before some of them are drawn.

use super::AgentConfig;
use crate::tensor_run::{TensorRun, TensorRunError, check_inputs, trace_salt};
use std::sync::Arc;
use std::time::Duration;
use tg_gateway::message::{Failure, Reply, Request, TILES_PART_BYTES_MAX, TILES_PARTS_MAX};
use tg_gateway::{GatewayError, TensorInputs};
use tg_ledger::JobEntry;
use tg_net::PeerId;
use tg_tensor::trace::{
    ShownTiles, TileAudit, TileAuditError, TraceError, drawn_tiles, known_root, whole_answer,
};
use tg_types::{
    Bytes, CheckAnswer, Decode as _, DecodeError, DurationMs, Encode as _, JobId, NodeId,
    RunResult, TileAnswer, TileLot,
};

/// How long a provider may take to show all that a checker asks for.
const SHOWN_WITHIN: Duration = Duration::from_secs(5);

/// How long to wait before a provider that is busy is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Why tiles were not audited.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TilesError {
    #[error("provider is not known")]
    NoProvider,
    #[error("provider does not show its tiles in time")]
    Late,
    #[error("tiles take too long")]
    Slow,
    #[error("provider does not show its tiles")]
    Gateway(#[from] GatewayError),
    #[error("what the provider shows cannot be read")]
    Decode(#[from] DecodeError),
    #[error("package cannot be used")]
    Package(#[from] TensorRunError),
    #[error("tiles are not found right")]
    Audit(#[from] TileAuditError),
    #[error("answer is too long")]
    Long,
    #[error("trace does not fit its program")]
    Trace(#[from] TraceError),
    #[error("the computation did not end well")]
    Panicked,
}

/// A result whose tiles are audited.
pub(crate) struct Audited<'a> {
    pub(crate) job: JobId,
    pub(crate) entry: &'a JobEntry,
    pub(crate) result: RunResult,
    pub(crate) inputs: Arc<TensorInputs>,
    pub(crate) lot: TileLot,
}

/// How long an audit by tiles may take, from asking to the last tile. A check has the time of the
/// run and some grace; if tiles are not found right, the whole run must still be computed in it.
fn time_for_tiles(run_max: DurationMs, grace: DurationMs) -> Duration {
    Duration::from_millis(grace.get() / 2) + Duration::from_millis(run_max.get() / 8)
}

/// Recomputes the tiles that a lot draws, from what the provider shows.
pub(crate) async fn audit(
    config: &AgentConfig,
    audited: Audited<'_>,
) -> Result<CheckAnswer, TilesError> {
    let grace = config.gateway.params().jobs.check_grace;
    let time = time_for_tiles(audited.entry.spec.run_max, grace);
    tokio::time::timeout(time, recompute(config, audited)).await.map_err(|_| TilesError::Slow)?
}

async fn recompute(config: &AgentConfig, audited: Audited<'_>) -> Result<CheckAnswer, TilesError> {
    let Audited { job, entry, result, inputs, lot } = audited;
    let run = entry.live().find(|run| run.result().is_some()).ok_or(TilesError::NoProvider)?;
    let provider = PeerId::new(*run.node.as_bytes()).map_err(|_| TilesError::NoProvider)?;
    let asked = tokio::time::timeout(SHOWN_WITHIN, ask(config, provider, job));
    let shown = asked.await.map_err(|_| TilesError::Late)??;
    let work = entry.spec.work;
    let computed = tokio::task::spawn_blocking(move || {
        let (model, values) = check_inputs(&inputs, &work)?;
        let shown = ShownTiles::from_bytes(&shown)?;
        let drawn = drawn_tiles(model.program(), &lot);
        let audit = TileAudit {
            model: &model,
            inputs: &values,
            salt: trace_salt(&inputs.salt),
            trace_root: result.trace,
            outputs_root: result.output,
        };
        answer(&result, audit.recompute(&drawn, &shown)?)
    });
    computed.await.map_err(|_| TilesError::Panicked)?
}

/// All parts of what a provider shows. One that is busy, with other checkers for instance, is asked
/// again for as long as the caller waits.
async fn ask(config: &AgentConfig, provider: PeerId, job: JobId) -> Result<Vec<u8>, GatewayError> {
    let mut all = Vec::new();
    for part in 0..TILES_PARTS_MAX {
        let request = Request::Tiles { job, part };
        let reply = loop {
            match config.gateway.ask_peer(provider, &request).await {
                Err(GatewayError::Refused(Failure::Busy)) => tokio::time::sleep(ASK_AGAIN).await,
                reply => break reply?,
            }
        };
        let Reply::Tiles { parts, bytes } = reply else { return Err(GatewayError::Unexpected) };
        all.extend_from_slice(bytes.as_slice());
        if part + 1 >= parts {
            break;
        }
    }
    Ok(all)
}

/// What whoever has computed the whole run commits to. The tiles that it shows are drawn later.
pub(crate) fn whole_sealed(
    run: &TensorRun,
    result: &RunResult,
    node: &NodeId,
) -> Result<CheckAnswer, TilesError> {
    let witness = run.witness()?;
    let known = known_root(witness.program(), run.trace(), node)?;
    Ok(CheckAnswer::Whole { trace: result.trace, known, tiles: TileAnswer::EMPTY })
}

/// The tiles that it shows when they are drawn.
pub(crate) fn whole_tiles(
    run: &TensorRun,
    node: &NodeId,
    lot: &TileLot,
) -> Result<TileAnswer, TilesError> {
    let witness = run.witness()?;
    let tiles = whole_answer(witness.program(), run.trace(), node, lot).ok_or(TilesError::Long)?;
    TileAnswer::new(tiles).map_err(|_| TilesError::Long)
}

fn answer(result: &RunResult, tiles: Vec<u8>) -> Result<CheckAnswer, TilesError> {
    let tiles = TileAnswer::new(tiles).map_err(|_| TilesError::Long)?;
    Ok(CheckAnswer::Tiles { trace: result.trace, tiles })
}

/// What a provider shows of its run to the checker with this lot.
pub(crate) fn shown(run: &TensorRun, lot: &TileLot) -> Result<Vec<u8>, Failure> {
    let witness = run.witness().map_err(|_| Failure::NoPackage)?;
    let drawn = drawn_tiles(witness.program(), lot);
    let shown = witness.show_tiles(&drawn).ok_or(Failure::Quota)?.to_bytes();
    let parts = shown.len().div_ceil(TILES_PART_BYTES_MAX);
    if parts > usize::from(TILES_PARTS_MAX) { Err(Failure::Quota) } else { Ok(shown) }
}

/// One part of that.
pub(crate) fn part_of(shown: &[u8], part: u16) -> Result<Reply, Failure> {
    let mut chunks = shown.chunks(TILES_PART_BYTES_MAX);
    let parts = u16::try_from(chunks.len()).map_err(|_| Failure::Quota)?;
    let bytes = chunks.nth(part.into()).ok_or(Failure::Malformed)?;
    let bytes = Bytes::new(bytes.to_vec()).map_err(|_| Failure::Quota)?;
    Ok(Reply::Tiles { parts, bytes })
}

#[cfg(test)]
mod tests {
    use super::{part_of, time_for_tiles};
    use std::time::Duration;
    use tg_gateway::message::{Failure, Reply, TILES_PART_BYTES_MAX};
    use tg_types::DurationMs;

    #[test]
    fn audit_by_tiles_leaves_time_for_the_whole_run() {
        let (run_max, grace) = (DurationMs::new(8_000), DurationMs::new(10_000));
        assert_eq!(time_for_tiles(run_max, grace), Duration::from_secs(6));
        assert!(time_for_tiles(DurationMs::new(u64::MAX), grace) < Duration::MAX);
    }

    #[test]
    fn parts_put_together_are_the_whole() {
        for length in [1, TILES_PART_BYTES_MAX, TILES_PART_BYTES_MAX + 1] {
            let whole: Vec<u8> = (0..length).map(|place| place as u8).collect();
            let count = u16::try_from(length.div_ceil(TILES_PART_BYTES_MAX)).expect("few");
            let mut all = Vec::new();
            for part in 0..count {
                let Ok(Reply::Tiles { parts, bytes }) = part_of(&whole, part) else {
                    unreachable!("there is such a part");
                };
                assert_eq!(parts, count);
                all.extend_from_slice(bytes.as_slice());
            }
            assert_eq!(all, whole);
            assert_eq!(part_of(&whole, count), Err(Failure::Malformed));
        }
        assert_eq!(part_of(&[], 0), Err(Failure::Malformed));
    }
}
