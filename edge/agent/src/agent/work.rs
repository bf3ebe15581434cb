//! One run: get the package, open it, compute, hand the result to the validators.

use super::courier::Parcel;
use super::desk::Desk;
use super::notes::Note;
use super::packages::{Content, Packages};
use super::{AgentConfig, Cheat, Ran, Tools, patience};
use crate::contents::PackageReader;
use crate::task_run::TaskRunError;
use crate::tensor_run::{TensorRun, TensorRunError};
use std::sync::Arc;
use std::time::Duration;
use tg_gateway::package::{Whose, result_key_hash};
use tg_gateway::{
    Contents as _, GatewayError, Kept, Opened, PackageError, TaskInputs, TensorInputs,
};
use tg_ledger::JobEntry;
use tg_privacy::WrapPublic;
use tg_types::{
    Decode, DecodeError, Encode, Hash32, JobId, JobSpec, NodeId, PackageRef, RunFailure, RunResult,
    Work,
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
    Decode(#[from] DecodeError),
    #[error("program cannot be run")]
    Run(#[from] TensorRunError),
    #[error("package does not open")]
    Sealed,
    #[error("package holds another task")]
    OtherTask,
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
}

impl WorkError {
    /// What the ledger is told.
    pub(crate) const fn failure(&self) -> RunFailure {
        match self {
            Self::Unknown | Self::Gateway(_) | Self::NotKept => RunFailure::PackageMissing,
            Self::Kind | Self::Task(TaskRunError::Run(tg_sandbox::RunError::NoLevel { .. })) => {
                RunFailure::Declined
            }
            Self::Decode(_)
            | Self::Run(_)
            | Self::Sealed
            | Self::OtherTask
            | Self::OtherKey
            | Self::Task(TaskRunError::NotOfModels) => RunFailure::PackageWrong,
            Self::Task(_) | Self::Stop(_) | Self::Package(_) | Self::Random | Self::Panicked => {
                RunFailure::DeviceFailed
            }
        }
    }
}

/// The package of a job, with its key.
pub(crate) async fn open(
    config: &AgentConfig,
    packages: &Packages,
    job: JobId,
    entry: &JobEntry,
) -> Result<Arc<Content>, WorkError> {
    packages.get(entry.spec.package, async || open_anew(config, job, entry).await).await
}

impl Content {
    /// What is inside.
    pub(crate) fn plain(&self) -> Result<&[u8], WorkError> {
        self.plain.as_deref().ok_or(WorkError::Sealed)
    }
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
    let are_inputs = tokio::task::spawn_blocking(move || {
        content.plain().is_ok_and(|plain| PackageReader.are_inputs(&entry.spec, plain))
    });
    let is_wrong = !are_inputs.await.ok()?;
    is_wrong.then_some(key)
}

async fn open_anew(
    config: &AgentConfig,
    job: JobId,
    entry: &JobEntry,
) -> Result<Content, WorkError> {
    let gateway = &config.gateway;
    let whose = Whose { genesis: gateway.domain().genesis, owner: entry.owner };
    let package = gateway.package(&entry.spec.package, entry.spec.package_bytes).await?;
    let mut asked = 0;
    loop {
        match gateway.open_inputs(job, &package, &whose, &config.wrap).await {
            // Validators that are a block behind do not know yet that we were chosen.
            Err(GatewayError::TooFew { .. }) if asked < SHARES_ASKED_MAX => asked += 1,
            answer => {
                let Opened { key, plain } = answer?;
                let plain = plain.inspect_err(|error| tracing::warn!(%job, %error, "sealed"));
                return Ok(Content { key: *key.expose(), plain: plain.ok() });
            }
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
    let plain = content.plain()?;
    let done = match entry.spec.work {
        Work::Tensor { .. } => {
            let inputs = TensorInputs::from_bytes(plain)?;
            check_result_key(&inputs.result_to, &entry.spec)?;
            run_tensor(config, &entry.spec.work, inputs).await?
        }
        Work::Opaque { task } => {
            let inputs = TaskInputs::from_bytes(plain)?;
            if inputs.id() != task {
                return Err(WorkError::OtherTask);
            }
            check_result_key(&inputs.result_to, &entry.spec)?;
            let wall = Duration::from_millis(entry.spec.run_max.get());
            run_task(config, &tools.desk, job, inputs, wall).await?
        }
    };
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
    let inputs = TensorInputs::from_bytes(content.plain()?)?;
    run_tensor(config, &entry.spec.work, inputs).await?.run.ok_or(WorkError::Kind)
}

/// What a run gave, before it is sealed.
struct Done {
    plain: Vec<u8>,
    result_to: WrapPublic,
    output: Hash32,
    trace: Hash32,
    run: Option<Arc<TensorRun>>,
}

async fn run_tensor(
    config: &AgentConfig,
    work: &Work,
    inputs: TensorInputs,
) -> Result<Done, WorkError> {
    let (work, result_to, cheats) = (*work, inputs.result_to.clone(), config.cheats);
    let cheats = cheats == Some(Cheat::Results);
    let computed = tokio::task::spawn_blocking(move || {
        let run = TensorRun::new(&inputs, &work)?;
        if cheats { run.falsified() } else { Ok(run) }
    });
    let run = computed.await.map_err(|_| WorkError::Panicked)??;
    let subject = run.subject()?;
    let plain = run.outputs()?.to_bytes();
    let (output, trace) = (subject.outputs_root, subject.trace_root);
    Ok(Done { plain, result_to, output, trace, run: Some(Arc::new(run)) })
}

async fn run_task(
    config: &AgentConfig,
    desk: &Desk,
    job: JobId,
    inputs: TaskInputs,
    wall: Duration,
) -> Result<Done, WorkError> {
    let workshop = config.workshop.clone().ok_or(WorkError::Kind)?;
    let (log, stop) = desk.begin_task(job).map_err(WorkError::Stop)?;
    // Nodes of one process share a workshop, and may run replicas of one job.
    let name = format!("{job}-{}", NodeId::new(*config.key.public().as_bytes()));
    let result_to = inputs.result_to.clone();
    let computed =
        tokio::task::spawn_blocking(move || workshop.run(&name, &inputs, wall, &log, &stop));
    let done = computed.await.map_err(|_| WorkError::Panicked)??;
    let (output, trace) = (done.id(), done.enforced_id());
    Ok(Done { plain: done.to_bytes(), result_to, output, trace, run: None })
}
