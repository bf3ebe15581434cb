//! One run: get the package, open it, compute, hand the result to the validators.

use super::{AgentConfig, Ran, patience};
use crate::tensor_run::{TensorRun, TensorRunError};
use std::sync::Arc;
use std::time::Duration;
use tg_gateway::package::Whose;
use tg_gateway::{GatewayError, Package, PackageError, TensorInputs};
use tg_ledger::JobEntry;
use tg_tensor::commit::Salt;
use tg_types::{Decode, DecodeError, Encode, JobId, NodeId, RunFailure, RunResult, Work};

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
    #[error("result cannot be sealed")]
    Package(#[from] PackageError),
    #[error("there are no random numbers")]
    Random,
    #[error("the computation did not end well")]
    Panicked,
}

impl WorkError {
    /// What the ledger is told.
    pub(crate) const fn failure(&self) -> RunFailure {
        match self {
            Self::Unknown | Self::Gateway(_) => RunFailure::PackageMissing,
            Self::Kind => RunFailure::Declined,
            Self::Decode(_) | Self::Run(_) => RunFailure::PackageWrong,
            Self::Package(_) | Self::Random | Self::Panicked => RunFailure::DeviceFailed,
        }
    }
}

/// The package of a job, opened.
pub(crate) async fn open(
    config: &AgentConfig,
    job: JobId,
    entry: &JobEntry,
) -> Result<TensorInputs, WorkError> {
    if !matches!(entry.spec.work, Work::Tensor { .. }) {
        return Err(WorkError::Kind);
    }
    let gateway = &config.gateway;
    let whose = Whose { genesis: gateway.domain().genesis, owner: entry.owner };
    let package = gateway.package(&entry.spec.package, entry.spec.package_bytes).await?;
    let mut asked = 0;
    let plain = loop {
        match gateway.open_inputs(job, &package, &whose, &config.wrap).await {
            // Validators that are a block behind do not know yet that we were chosen.
            Err(GatewayError::TooFew { .. }) if asked < SHARES_ASKED_MAX => asked += 1,
            answer => break answer?,
        }
        tokio::time::sleep(SHARES_PAUSE).await;
    };
    Ok(TensorInputs::from_bytes(&plain)?)
}

/// How often shares are asked for before a run is given up.
const SHARES_ASKED_MAX: u32 = 30;

/// How long to wait in between.
const SHARES_PAUSE: Duration = Duration::from_millis(100);

/// Runs a job.
pub(crate) async fn run(config: &Arc<AgentConfig>, job: JobId) -> Result<Ran, WorkError> {
    let gateway = &config.gateway;
    let node = NodeId::new(*config.key.public().as_bytes());
    let is_ours = |entry: &JobEntry| entry.live().any(|run| run.node == node);
    let entry = patience::job(config, job, is_ours).await?;
    let inputs = open(config, job, &entry).await?;
    let random = config.random;
    let draw = move || random().ok_or(WorkError::Random);
    let (trace_salt, salt) = (draw()?, draw()?);
    let (work, result_to, cheats) = (entry.spec.work, inputs.result_to.clone(), config.cheats);
    let computed = tokio::task::spawn_blocking(move || {
        let run = TensorRun::new(&inputs, &work, Salt::new(trace_salt))?;
        if cheats { run.falsified() } else { Ok(run) }
    });
    let run = Arc::new(computed.await.map_err(|_| WorkError::Panicked)??);
    let subject = run.subject()?;
    let whose = Whose { genesis: gateway.domain().genesis, owner: entry.owner };
    let seed = draw()?;
    let mut numbers = crate::chance::Chance::new(seed);
    let outputs = run.outputs()?.to_bytes();
    let sealed = Package::seal_output(&outputs, &whose, &result_to, || numbers.draw())?;
    let (package, package_bytes) = gateway.keep(&sealed).await?;
    let (output, trace) = (subject.outputs_root, subject.trace_root);
    let result = RunResult { output, trace, package, package_bytes };
    Ok(Ran { run, result, salt })
}
