//! One run: get the package, open it, compute, hand the result to the validators.

use super::courier::Parcel;
use super::desk::Desk;
use super::notes::Note;
use super::packages::{Content, Lent, Packages};
use super::tiles::TilesError;
use super::{AgentConfig, Cheat, Ran, Tools, patience};
use crate::contents::PackageReader;
use crate::task_run::{TaskDone, TaskOrder, TaskRunError};
use crate::tensor_run::{TensorRun, TensorRunError};
use std::sync::Arc;
use std::time::Duration;
use tg_gateway::package::{Whose, result_key_hash};
use tg_gateway::{Contents as _, GatewayError, Kept, PackageError, Plain, TensorInputs};
use tg_ledger::JobEntry;
use tg_net::{BlobError, FetchError};
use tg_privacy::WrapPublic;
use tg_types::{
    DecodeError, Hash32, JobId, JobSpec, NodeId, PackageRef, RunFailure, RunResult, Work,
};

/// Why a run was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    #[error("job is not on record")]
    Unknown,
    #[error("this node does not run work of that kind")]
    Kind,
    #[error("package cannot be had")]
    Gateway(#[from] GatewayError),
    #[error("package cannot be read")]
    Inputs(#[source] PackageError),
    #[error("a claim cannot be read")]
    Claim(#[from] DecodeError),
    #[error("program cannot be run")]
    Run(#[from] TensorRunError),
    #[error("package does not open")]
    Sealed,
    #[error("package names another key for the result than the job")]
    OtherKey,
    #[error("task cannot be run")]
    Task(#[from] TaskRunError),
    #[error("task could not be stopped")]
    Stop(#[source] std::io::Error),
    #[error("result cannot be sealed")]
    Package(#[from] PackageError),
    #[error("result is not kept by the validators")]
    NotKept,
    #[error("there are no random numbers")]
    Random,
    #[error("the computation did not end well")]
    Panicked,
    #[error("tiles cannot be shown")]
    Tiles(#[from] TilesError),
}

impl WorkError {
    /// What the ledger is told.
    pub(crate) fn failure(&self) -> RunFailure {
        match self {
            Self::Gateway(
                GatewayError::Fetch(FetchError::Blob(BlobError::NoRoom { .. }))
                | GatewayError::Blob(BlobError::NoRoom { .. }),
            )
            | Self::Inputs(PackageError::Memory { .. })
            | Self::Task(TaskRunError::NoRoom { .. }) => RunFailure::TooLarge,
            Self::Inputs(error) | Self::Task(TaskRunError::Inputs(error)) if error.is_wrong() => {
                RunFailure::PackageWrong
            }
            Self::Unknown | Self::Gateway(_) | Self::NotKept => RunFailure::PackageMissing,
            Self::Kind | Self::Task(TaskRunError::Run(tg_sandbox::RunError::NoLevel { .. })) => {
                RunFailure::Declined
            }
            Self::Run(_)
            | Self::Claim(_)
            | Self::Sealed
            | Self::OtherKey
            | Self::Task(
                TaskRunError::NotOfModels | TaskRunError::OtherTask | TaskRunError::OtherKey,
            ) => RunFailure::PackageWrong,
            Self::Inputs(_)
            | Self::Task(_)
            | Self::Stop(_)
            | Self::Package(_)
            | Self::Random
            | Self::Panicked
            | Self::Tiles(_) => RunFailure::DeviceFailed,
        }
    }
}

impl From<tg_gateway::local::LocalError> for WorkError {
    fn from(error: tg_gateway::local::LocalError) -> Self {
        Self::Gateway(error.into())
    }
}

/// The package of a job, with its key.
pub(crate) async fn open(
    config: &AgentConfig,
    packages: &Packages,
    job: JobId,
    entry: &JobEntry,
) -> Result<Lent, WorkError> {
    let package = PackageRef { id: entry.spec.package, bytes: entry.spec.package_bytes };
    packages.get(package, async || open_anew(config, job, entry).await).await
}

/// The key of a job's inputs if they do not open, or are not what the job names: enough for a
/// complaint, which every validator can follow.
pub(crate) async fn key_of_wrong_inputs(
    config: &AgentConfig,
    tools: &Tools,
    job: JobId,
) -> Option<[u8; 32]> {
    let entry = patience::job(config, job, |_| true).await.ok()?;
    let content = open(config, &tools.packages, job, &entry).await.ok()?;
    let key = content.key;
    let mut plain = match content.reader().await {
        Ok(plain) => plain,
        Err(WorkError::Sealed) => return Some(key),
        Err(_) => return None,
    };
    let are_inputs =
        tokio::task::spawn_blocking(move || PackageReader.are_inputs(&entry.spec, &mut plain));
    match are_inputs.await.ok()? {
        Ok(are_inputs) => (!are_inputs).then_some(key),
        Err(error) => error.is_wrong().then_some(key),
    }
}

async fn open_anew(
    config: &AgentConfig,
    job: JobId,
    entry: &JobEntry,
) -> Result<Content, WorkError> {
    let gateway = &config.gateway;
    let whose = Whose { genesis: gateway.domain().genesis, owner: entry.owner };
    let (id, bytes) = (entry.spec.package, entry.spec.package_bytes);
    let package = match gateway.package(&id, bytes).await {
        // One that was let go a moment ago may have been removed under our hands.
        Err(GatewayError::Blob(_)) => gateway.package(&id, bytes).await?,
        package => package?,
    };
    let mut asked = 0;
    loop {
        match gateway.key(job, package.head(), &config.wrap).await {
            // Validators that are a block behind do not know yet that we were chosen.
            Err(GatewayError::TooFew { .. }) if asked < SHARES_ASKED_MAX => asked += 1,
            key => return Content::new(package, &key?, whose).await,
        }
        tokio::time::sleep(SHARES_PAUSE).await;
    }
}

/// How often shares are asked for before a run is given up.
const SHARES_ASKED_MAX: u32 = 30;

/// How long to wait in between.
const SHARES_PAUSE: Duration = Duration::from_millis(100);

/// Runs a job.
pub(crate) async fn run(
    config: &Arc<AgentConfig>,
    tools: &Tools,
    job: JobId,
) -> Result<Ran, WorkError> {
    let node = NodeId::new(*config.key.public().as_bytes());
    let is_ours = |entry: &JobEntry| entry.live().any(|run| run.node == node);
    let entry = patience::job(config, job, is_ours).await?;
    let content = open(config, &tools.packages, job, &entry).await?;
    let done = match entry.spec.work {
        Work::Tensor { .. } => {
            let inputs = content.tensor_inputs().await?;
            check_result_key(&inputs.result_to, &entry.spec)?;
            run_tensor(config, tools, &entry.spec, inputs).await?
        }
        Work::Opaque { task } => {
            run_task(config, &tools.desk, job, &entry.spec, (task, &content)).await?
        }
    };
    drop(content);
    let salt = (config.random)().ok_or(WorkError::Random)?;
    let whose = Whose { genesis: config.gateway.domain().genesis, owner: entry.owner };
    let Done { plain, result_to: to, output, trace, run } = done;
    let Kept { package, voucher } = tools.courier.send(Parcel { job, whose, to, plain }).await?;
    let PackageRef { id: package, bytes: package_bytes } = package;
    let result = RunResult { output, trace, package, package_bytes };
    Ok(Ran { run, note: Note { result, salt, voucher } })
}

/// A result that is sealed to another key than the job names could not be complained about.
fn check_result_key(to: &WrapPublic, spec: &JobSpec) -> Result<(), WorkError> {
    if result_key_hash(to) == spec.result_key.hash { Ok(()) } else { Err(WorkError::OtherKey) }
}

/// Computes once more what a job asked for, in order to defend its result.
pub(crate) async fn run_again(
    config: &Arc<AgentConfig>,
    tools: &Tools,
    job: JobId,
) -> Result<Arc<TensorRun>, WorkError> {
    let entry = patience::job(config, job, |_| true).await?;
    let content = open(config, &tools.packages, job, &entry).await?;
    let inputs = content.tensor_inputs().await?;
    run_tensor(config, tools, &entry.spec, inputs).await?.run.ok_or(WorkError::Kind)
}

/// What a run gave, before it is sealed.
struct Done {
    plain: Box<dyn Plain>,
    result_to: WrapPublic,
    output: Hash32,
    trace: Hash32,
    run: Option<Arc<TensorRun>>,
}

async fn run_tensor(
    config: &AgentConfig,
    tools: &Tools,
    spec: &JobSpec,
    inputs: TensorInputs,
) -> Result<Done, WorkError> {
    let (work, result_to, cheats) = (spec.work, inputs.result_to.clone(), config.cheats);
    let (gpus, needs) = (Arc::clone(&tools.gpus), spec.needs.clone());
    let cheats = cheats == Some(Cheat::Results);
    let computed = tokio::task::spawn_blocking(move || {
        let run = TensorRun::new(inputs, &work, &gpus.engine(&needs))?;
        if cheats { run.falsified() } else { Ok(run) }
    });
    let run = computed.await.map_err(|_| WorkError::Panicked)??;
    let subject = run.subject()?;
    let plain = Box::new(run.outputs()?);
    let (output, trace) = (subject.outputs_root, subject.trace_root);
    Ok(Done { plain, result_to, output, trace, run: Some(Arc::new(run)) })
}

async fn run_task(
    config: &AgentConfig,
    desk: &Desk,
    job: JobId,
    spec: &JobSpec,
    (task, content): (Hash32, &Content),
) -> Result<Done, WorkError> {
    let workshop = config.workshop.clone().ok_or(WorkError::Kind)?;
    let (log, stop) = desk.begin_task(job).map_err(WorkError::Stop)?;
    let order = TaskOrder {
        // Nodes of one process share a workshop, and may run replicas of one job.
        name: format!("{job}-{}", NodeId::new(*config.key.public().as_bytes())),
        task,
        result_key: spec.result_key.hash,
        wall: Duration::from_millis(spec.run_max.get()),
    };
    let mut inputs = content.reader().await?;
    let computed =
        tokio::task::spawn_blocking(move || workshop.run(&order, &mut inputs, &log, &stop));
    let TaskDone { plain, result_to, output, enforced } =
        computed.await.map_err(|_| WorkError::Panicked)??;
    Ok(Done { plain: Box::new(plain), result_to, output, trace: enforced, run: None })
}
