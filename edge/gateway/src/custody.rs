//! What a validator does with the packages it keeps: it reads on the chain which are named by jobs
//! and until when, gives up the others, and says whether a package opens that somebody complains
//! about.

use crate::complaint::Case;
use crate::door::{Door, Shared};
use crate::keeper::later;
use crate::package::PackageError;
use crate::report;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tg_chain::FinalReceipts;
use tg_ledger::{JobEntry, PieceEntry, ProgramEntry, Run, keys};
use tg_net::BlobId;
use tg_types::{Action, Event, Hash32, JobId, Message, RunResult, Tick, Work};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

/// The lane in which a validator judges, so that reports of absence are not in the way.
const JUDGE_LANE: u8 = 5;

/// How often is looked at what need not be kept any more.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// How often is looked whether the chain has begun.
const BEGINNING: Duration = Duration::from_millis(100);

/// The most jobs between two sweeps; if there are more, everything is kept the whole time.
const JOBS_MAX: usize = 100_000;

/// Jobs that are read at once.
const READ_AT_ONCE: usize = 256;

/// Follows the chain until it stops.
pub async fn run(door: Door) {
    let shared = door.shared();
    let mut blocks = shared.config.chain.subscribe();
    let until = loop {
        match kept_until(shared) {
            Some(until) => break until,
            None => tokio::time::sleep(BEGINNING).await,
        }
    };
    adopt(shared, until).await;
    let (mut jobs, mut saved) = (BTreeSet::new(), BTreeMap::new());
    let mut is_complete = true;
    let mut swept = Instant::now();
    loop {
        match blocks.recv().await {
            Ok(block) => look(shared, &block, &mut jobs).await,
            Err(RecvError::Lagged(_)) => is_complete = false,
            Err(RecvError::Closed) => return,
        }
        is_complete &= jobs.len() <= JOBS_MAX;
        if swept.elapsed() >= SWEEP_INTERVAL {
            sweep(shared, std::mem::take(&mut jobs), &mut saved, is_complete).await;
            (is_complete, swept) = (true, Instant::now());
        }
    }
}

/// What was kept before this process began is kept as if its job had just ended. What had not all
/// arrived goes, unless somebody hands it in again: nobody else would ever miss it.
async fn adopt(shared: &Shared, until: Tick) {
    let Ok(kept) = shared.config.peer.blobs().list().await else { return };
    for blob in kept {
        if !blob.is_complete {
            shared.drop_package(blob.id).await;
            continue;
        }
        shared.keeper().adopt(blob.id, blob.size_bytes.unwrap_or(0), until);
        if let Err(error) = shared.give_to_all(blob.id) {
            tracing::warn!(%error, "a package that was kept is not given any more");
        }
    }
}

/// Until when a package is kept whose job ends now.
fn kept_until(shared: &Shared) -> Option<Tick> {
    let (header, _) = shared.config.chain.tip()?;
    let span = shared.config.chain.genesis().params().jobs.result_kept;
    Some(later(header.tick, span))
}

/// Notes the jobs that something happened to, and judges complaints.
async fn look(shared: &Arc<Shared>, block: &FinalReceipts, jobs: &mut BTreeSet<JobId>) {
    let events = block.record.receipts.iter().flat_map(|receipt| &receipt.events);
    for event in events.chain(&block.record.block.events) {
        if let Some(job) = event.job()
            && jobs.len() <= JOBS_MAX
        {
            jobs.insert(job);
        }
        if let Event::Complained { job, about, key, .. } = event {
            let (shared, job, about, key) = (Arc::clone(shared), *job, *about, *key);
            // A large package takes a moment; the chain does not wait for it.
            tokio::spawn(async move {
                if let Err(error) = judge(&shared, job, about, key).await {
                    tracing::warn!(%error, %job, "a complaint was not judged");
                }
            });
        }
    }
}

/// Keeps what the chain names, and gives up what need not be kept.
async fn sweep(
    shared: &Shared,
    jobs: BTreeSet<JobId>,
    saved: &mut BTreeMap<JobId, BlobId>,
    is_complete: bool,
) {
    let Some(until) = kept_until(shared) else { return };
    let now = shared.config.chain.tip().map_or(Tick::ZERO, |(header, _)| header.tick);
    let span = shared.config.chain.genesis().params().jobs.result_kept;
    let jobs: Vec<JobId> = jobs.into_iter().collect();
    let mut is_complete = is_complete;
    for some in jobs.chunks(READ_AT_ONCE) {
        let keys = some.iter().map(keys::job).collect();
        let Ok(entries) = shared.config.chain.entries::<JobEntry>(keys).await else {
            is_complete = false;
            continue;
        };
        let mut keeper = shared.keeper();
        for (job, entry) in some.iter().zip(entries) {
            let open = entry.as_ref().filter(|entry| !entry.status.is_final());
            let last = open.and_then(|entry| entry.saved).map(|last| last.checkpoint.package);
            let last = last.map(|id| BlobId::new(*id.as_bytes()));
            if let Some(before) = note_saved(saved, *job, last) {
                keeper.supersede(&before, *job, now);
            }
            let Some(entry) = entry else { continue };
            let until = entry.closed.map_or(later(entry.expires, span), |end| later(end, span));
            for package in packages(&entry) {
                keeper.name(&package, until);
                keeper.claim(&package, *job);
            }
        }
    }
    if !is_complete {
        shared.keeper().extend_all(until);
    }
    let Some((header, _)) = shared.config.chain.tip() else { return };
    let over = shared.keeper().expire(header.tick);
    for package in over {
        shared.drop_package(package).await;
    }
}

/// Notes the last checkpoint of a job that goes on; says which one it takes the place of.
fn note_saved(
    saved: &mut BTreeMap<JobId, BlobId>,
    job: JobId,
    last: Option<BlobId>,
) -> Option<BlobId> {
    match last {
        Some(last) => saved.insert(job, last).filter(|before| *before != last),
        None => {
            saved.remove(&job); // it is over, and what it saved last can be gone on with
            None
        }
    }
}

/// The packages that a job names.
fn packages(entry: &JobEntry) -> impl Iterator<Item = BlobId> {
    let results = entry.runs.as_slice().iter().filter_map(Run::result);
    let results = results.map(|result| result.package);
    let saved = entry.begins_with().map(|saved| saved.package);
    results.chain([entry.spec.package]).chain(saved).map(|id| BlobId::new(*id.as_bytes()))
}

/// Why a complaint was not judged.
#[derive(Debug, thiserror::Error)]
enum JudgeError {
    #[error("job is not on record")]
    NoJob,
    #[error("chain does not answer")]
    Chain(#[from] tg_chain::ChainError),
    #[error("package is not here")]
    Blob(#[from] tg_net::BlobError),
    #[error("package cannot be read here")]
    Package(#[from] PackageError),
    #[error("judging broke off")]
    Panicked,
    #[error(transparent)]
    Report(#[from] report::ReportError),
}

async fn judge(
    shared: &Arc<Shared>,
    job: JobId,
    about: Message,
    key: [u8; 32],
) -> Result<(), JudgeError> {
    let chain = &shared.config.chain;
    let entry: Option<JobEntry> = chain.entry(keys::job(&job)).await?;
    let entry = entry.ok_or(JudgeError::NoJob)?;
    let program = match entry.spec.work {
        Work::Tensor { program, .. } => Some(program_bytes(shared, &program).await?),
        Work::Opaque { .. } => None,
    };
    let mut opens = false;
    for (package, result) in complained_about(&entry, about) {
        let blobs = shared.config.peer.blobs();
        let package = blobs.open(BlobId::new(*package.as_bytes())).await?;
        let (entry, program) = (entry.clone(), program.clone());
        let (genesis, contents) = (chain.genesis().hash(), Arc::clone(&shared.config.contents));
        let judged = tokio::task::spawn_blocking(move || {
            let (owner, spec) = (entry.owner, &entry.spec);
            let program = program.as_deref();
            let case = Case { genesis, job, owner, spec, result, program };
            case.opens(about, key, package, contents.as_ref())
        });
        opens |= judged.await.map_err(|_| JudgeError::Panicked)??;
    }
    let action = Action::JudgeComplaint { job, opens };
    let _turn = shared.judge_turn.lock().await;
    Ok(report::send(chain, &shared.config.key, JUDGE_LANE, action).await?)
}

/// The packages of which at least one ought to open: the inputs, or the results of all runs that
/// were accepted.
fn complained_about(entry: &JobEntry, about: Message) -> Vec<(Hash32, Option<RunResult>)> {
    match about {
        Message::Inputs => vec![(entry.spec.package, None)],
        Message::Result => {
            let results = entry.live().filter_map(Run::result);
            results.map(|result| (result.package, Some(result))).collect()
        }
    }
}

/// A tensor program as the chain has it on record.
async fn program_bytes(shared: &Shared, program: &Hash32) -> Result<Vec<u8>, JudgeError> {
    let chain = &shared.config.chain;
    let entry: Option<ProgramEntry> = chain.entry(keys::program(program)).await?;
    let pieces = entry.ok_or(JudgeError::NoJob)?.pieces;
    let keys = (0..pieces).map(|piece| keys::program_piece(program, piece)).collect();
    let pieces: Vec<Option<PieceEntry>> = chain.entries(keys).await?;
    Ok(pieces.into_iter().flatten().flat_map(|piece| piece.bytes.as_slice().to_vec()).collect())
}
