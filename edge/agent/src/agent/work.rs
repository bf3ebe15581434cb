//! One run: get the package, open it, compute, hand the result to the validators.

use super::books::Attempt;
use super::courier::Parcel;
use super::desk::Desk;
use super::gpus::{Gpus, NoGpu, Seat, located};
use super::notes::{Note, Proven};
use super::packages::{Content, Lent, Named, Packages, Waited};
use super::prove::{self, Asked, HiddenOutput, Proved, ShowError};
use super::save::Saving;
use super::tiles::TilesError;
use super::{AgentConfig, Cheat, Ran, Report, Tools, patience};
use crate::contents::PackageReader;
use crate::task_run::{Keeping, TaskDone, TaskEnd, TaskOrder, TaskRunError};
use crate::tensor_run::{TensorRun, TensorRunError};
use std::error::Error as _;
use std::future::{pending, ready};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tg_gateway::package::{Whose, result_key_hash};
use tg_gateway::{
    Contents as _, Gateway, GatewayError, Kept, KeyOrder, Package, PackageError, Plain,
    TensorInputs,
};
use tg_ledger::{JobEntry, NodeEntry, keys};
use tg_net::{BlobError, FetchError};
use tg_privacy::{ContentKey, WrapPublic};
use tg_types::hash::sha256;
use tg_types::{
    Action, Amount, DecodeError, Device, DurationMs, GpuAsk, GpuSlice, Hash32, JobId, JobSpec,
    KeyEscrow, NodeId, PackageRef, ResultClaim, RunFailure, RunResult, Tick, Vouchers, Work,
};
use tokio::sync::{mpsc, oneshot, watch};

/// Why a run was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    #[error("job is not on record")]
    Unknown,
    #[error("this node does not run work of that kind")]
    Kind,
    #[error("package cannot be had")]
    Gateway(#[from] GatewayError),
    #[error("package cannot be opened")]
    NoKey(#[source] GatewayError),
    #[error("owner of the data does not hand out its key")]
    Withheld,
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
    #[error("package is not of the job's owner, or its key is not where the job says")]
    Foreign,
    #[error("shares of the package's key do not fit together")]
    Unfair,
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
    #[error("result cannot be shown to be right")]
    Show(#[from] ShowError),
    #[error("the node's account cannot pay for showing the result")]
    Poor,
    #[error(transparent)]
    NoGpu(#[from] NoGpu),
    /// No error: the run has ended before it was finished, as it was asked to, and this says so.
    #[error("run was asked to end before it was finished")]
    Yielded(Box<Action>),
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
            Self::Unknown | Self::Gateway(_) | Self::NoKey(_) | Self::Withheld | Self::NotKept => {
                RunFailure::PackageMissing
            }
            Self::Show(
                ShowError::Prove(_)
                | ShowError::TooCostly
                | ShowError::TooLong
                | ShowError::OtherWeights
                | ShowError::OtherInputs
                | ShowError::OtherTier,
            ) => RunFailure::NotShowable,
            Self::Kind
            | Self::Poor
            | Self::NoGpu(NoGpu::Unnamed | NoGpu::Gone | NoGpu::Taken)
            | Self::Task(TaskRunError::Run(tg_sandbox::RunError::NoLevel { .. })) => {
                RunFailure::Declined
            }
            Self::Run(_)
            | Self::Claim(_)
            | Self::Sealed
            | Self::OtherKey
            | Self::Foreign
            | Self::Unfair
            | Self::Task(
                TaskRunError::NotOfModels | TaskRunError::OtherTask | TaskRunError::OtherKey,
            ) => RunFailure::PackageWrong,
            Self::Inputs(_)
            | Self::Task(_)
            | Self::Stop(_)
            | Self::Package(_)
            | Self::Random
            | Self::Panicked
            | Self::NoGpu(NoGpu::Split(_))
            | Self::Yielded(_)
            | Self::Show(ShowError::Court(_) | ShowError::OtherOutputs)
            | Self::Tiles(_) => RunFailure::DeviceFailed,
        }
    }
}

impl From<tg_gateway::local::LocalError> for WorkError {
    fn from(error: tg_gateway::local::LocalError) -> Self {
        Self::Gateway(error.into())
    }
}

/// A job whose package is to be opened.
pub(crate) struct Closed<'a> {
    pub(crate) job: JobId,
    pub(crate) entry: &'a JobEntry,
    /// Its key, if that was noted.
    pub(crate) key: Option<ContentKey>,
    /// For how long an owner is waited for that keeps its keys to itself.
    pub(crate) patience: Duration,
}

impl<'a> Closed<'a> {
    /// A job that is run.
    const fn of_run(job: JobId, entry: &'a JobEntry) -> Self {
        Self { job, entry, key: None, patience: owner_wait(entry.spec.run_max) }
    }
}

/// The package of a job, with its key. If its owner is late with the key, that is `told` once; who
/// waits goes on asking all the same, so that a key which comes late leaves as much time as it can.
pub(crate) async fn open(
    config: &AgentConfig,
    packages: &Packages,
    closed: Closed<'_>,
    told: impl Future<Output = ()>,
) -> Result<Lent, WorkError> {
    let (job, entry) = (closed.job, closed.entry);
    let package = Named { owner: entry.owner, package: entry.spec.package_ref() };
    // From here on, not from when it is our turn: jobs that share a package wait for each other.
    let until = tokio::time::Instant::now() + closed.patience;
    let late = async {
        tracing::warn!(%job, "{}, and is waited for", WorkError::Withheld);
        told.await;
        tokio::time::sleep_until(until).await;
        WorkError::Withheld
    };
    packages.get(package, async |is_late| open_anew(config, &closed, is_late).await, late).await
}

/// What a complaint shows about inputs that are not the job owner's: everybody sees that in their
/// head, and their key, should we know it, is none of this owner's business.
const NO_KEY: [u8; 32] = [0; 32];

/// The key of a job's inputs if they do not open, or are not what the job names: enough for a
/// complaint, which every validator can follow. Never the key of another owner's package.
pub(crate) async fn key_of_wrong_inputs(
    config: &AgentConfig,
    tools: &Tools,
    job: JobId,
) -> Option<[u8; 32]> {
    let entry = patience::job(config, job, |_| true).await.ok()?;
    let closed = Closed::of_run(job, &entry);
    let content = match open(config, &tools.packages, closed, ready(())).await {
        Ok(content) => content,
        Err(error) => return shown_without_key(&error),
    };
    let key = content.key;
    if !content.is_fair {
        return Some(key);
    }
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

/// What is shown about a package that was not opened.
fn shown_without_key(error: &WorkError) -> Option<[u8; 32]> {
    matches!(error, WorkError::Foreign).then_some(NO_KEY)
}

/// Refuses inputs that anybody sees not to be the job's, before a key is asked for.
fn check_foreign(package: &Package, whose: &Whose, spec: &JobSpec) -> Result<(), WorkError> {
    if package.is_of(whose, spec) { Ok(()) } else { Err(WorkError::Foreign) }
}

async fn open_anew(
    config: &AgentConfig,
    closed: &Closed<'_>,
    is_late: &watch::Sender<bool>,
) -> Result<Content, WorkError> {
    let (gateway, Closed { job, entry, .. }) = (&config.gateway, closed);
    let whose = Whose { genesis: gateway.domain().genesis, owner: entry.owner };
    let (id, bytes) = (entry.spec.package, entry.spec.package_bytes);
    let package = match gateway.package(&id, bytes).await {
        // One that was let go a moment ago may have been removed under our hands.
        Err(GatewayError::Blob(_)) => gateway.package(&id, bytes).await?,
        package => package?,
    };
    if let Err(error) = check_foreign(package.head(), &whose, &entry.spec) {
        package.release().await;
        return Err(error);
    }
    let started = Instant::now();
    let key = match closed.key.as_ref().filter(|key| package.head().is_key(key)) {
        Some(noted) => ContentKey::new(*noted.expose()),
        None => {
            let (owner, head, secret) = (entry.owner, package.head(), &config.wrap);
            let order = KeyOrder { job: *job, owner, package: head, secret };
            let asking = ask_key(gateway, &order);
            match entry.spec.key_escrow {
                KeyEscrow::None => tell_late(is_late, asking).await?,
                KeyEscrow::Validators => asking.await?,
            }
        }
    };
    let waited = Waited { at: Instant::now(), span: started.elapsed() };
    Content::new(package, &key, whose, waited).await
}

/// Asks for a key until it comes. One that an owner keeps is asked for again and again: whoever
/// waits for it decides for how long.
async fn ask_key(gateway: &Gateway, order: &KeyOrder<'_>) -> Result<ContentKey, WorkError> {
    let (job, mut asked) = (order.job, 0);
    loop {
        // Validators that are a block behind do not know yet that we were chosen.
        match gateway.key(order).await {
            Err(GatewayError::TooFew { .. }) if asked < SHARES_ASKED_MAX => asked += 1,
            Err(GatewayError::NoKey(error)) => {
                let why = error.source().map(ToString::to_string).unwrap_or_default();
                tracing::debug!(%job, %error, why, "the owner gives no key");
            }
            key => return key.map_err(WorkError::NoKey),
        }
        tokio::time::sleep(KEY_PAUSE).await;
    }
}

/// Says when an owner is late with a key, and goes on asking for it. The clock does not wait for an
/// answer to come, for an owner may be slow with that, too.
async fn tell_late<T>(is_late: &watch::Sender<bool>, asking: impl Future<Output = T>) -> T {
    let telling = async {
        tokio::time::sleep(KEY_LATE).await;
        is_late.send_replace(true);
        pending().await
    };
    tokio::select! {
        biased;
        key = asking => key,
        never = telling => never,
    }
}

/// How long an owner that keeps its keys to itself may be away while its job is run: while there is
/// half of the time for the work left, and no longer than a place of ours may be taken for nothing.
const fn owner_wait(run_max: DurationMs) -> Duration {
    let half = Duration::from_millis(run_max.get() / 2);
    if half.as_millis() < KEY_LATE.as_millis() {
        KEY_LATE
    } else if half.as_millis() > OWNER_WAIT_MAX.as_millis() {
        OWNER_WAIT_MAX
    } else {
        half
    }
}

/// From when on an owner that gives no key is late, and a checker says so: a few round trips across
/// the world, and a small part of what any check may take.
const KEY_LATE: Duration = Duration::from_secs(2);

/// The longest that an owner is waited for.
const OWNER_WAIT_MAX: Duration = Duration::from_secs(120);

/// How often shares are asked for before a run is given up.
const SHARES_ASKED_MAX: u32 = 30;

/// How long to wait before a key is asked for again.
const KEY_PAUSE: Duration = Duration::from_millis(100);

/// Runs a job since it was placed. What showed the result before is shown again; the key of its
/// inputs was noted then, if only their owner has it.
pub(crate) async fn run(
    config: &Arc<AgentConfig>,
    (tools, reports): (&Tools, &mpsc::Sender<Report>),
    (job, since): (JobId, Tick),
    before: Option<(Proven, Option<ContentKey>)>,
) -> Result<Ran, WorkError> {
    let begun = Instant::now();
    let node = NodeId::new(*config.key.public().as_bytes());
    let entry = begin(config, reports, (job, since), &node).await?;
    let (before, key) = before.unzip();
    let closed = Closed { key: key.flatten(), ..Closed::of_run(job, &entry) };
    let content = open(config, &tools.packages, closed, ready(())).await?;
    // What we have the key of by luck, checkers might not.
    if !content.is_fair {
        return Err(WorkError::Unfair);
    }
    let mut proved = None;
    let done = match entry.spec.work {
        Work::Tensor { .. } => {
            let inputs = content.tensor_inputs().await?;
            check_result_key(&inputs.result_to, &entry.spec)?;
            // Whoever names another's package in a job of its own must not have it published.
            if entry.spec.tier.is_shown() && inputs.tier != entry.spec.tier {
                return Err(ShowError::OtherTier.into());
            }
            let mut done = run_tensor(config, tools, &entry.spec, inputs).await?;
            proved = show(config, tools, (job, node, before), &entry, &done).await?;
            if let Some(hidden) = proved.as_ref().and_then(|proved| proved.hidden) {
                done.hide(&hidden)?;
            }
            done
        }
        Work::Opaque { task } => {
            // Who keeps a node waiting for the key has less time for the work.
            let run_max = Duration::from_millis(entry.spec.run_max.get());
            let wall = run_max.saturating_sub(content.waited.since(begun));
            let asked = Instant::now();
            let seat = seat(config, tools, (job, node), &entry.spec).await?;
            let order = TaskOrder {
                name: format!("{job}-{node}"),
                task,
                number: entry.task,
                member: entry.rank_of(&node).map(|rank| (rank, entry.spec.nodes)),
                result_key: entry.spec.result_key.hash,
                wall: wall.saturating_sub(asked.elapsed()),
                host: entry.spec.needs.host,
                gpu: seat.as_ref().map(Seat::access),
            };
            let saving = Saving { job, entry: &entry, task, key: content.key, reports };
            run_seated(config, tools, (saving, order), &content, seat).await?
        }
    };
    let key = content.key_to_note(&entry.spec);
    drop(content);
    let salt = (config.random)().ok_or(WorkError::Random)?;
    let whose = Whose { genesis: config.gateway.domain().genesis, owner: entry.owner };
    let Done { plain, result_to: to, output, mut trace, run } = done;
    if let Some(proved) = &proved {
        trace = Hash32::new(sha256(&[&proved.bytes]));
    }
    let Kept { package, voucher } = tools.courier.send(Parcel { job, whose, to, plain }).await?;
    let PackageRef { id: package, bytes: package_bytes, .. } = package;
    let result = RunResult { output, trace, package, package_bytes };
    Ok(Ran { run, note: Note { result, salt, voucher }, proved, key, is_committed: false })
}

/// The job of a run that begins, once the run that was placed then is there. The agent is told
/// which one it is.
async fn begin(
    config: &AgentConfig,
    reports: &mpsc::Sender<Report>,
    (job, since): (JobId, Tick),
    node: &NodeId,
) -> Result<JobEntry, WorkError> {
    let is_there =
        |entry: &JobEntry| Attempt::of(entry, node).is_some_and(|run| run.begun >= since);
    let entry = patience::job(config, job, is_there).await?;
    if let Some(attempt) = Attempt::of(&entry, node) {
        // The agent has stopped if nobody hears this.
        let _unheard = reports.send(Report::Begun(job, attempt)).await;
    }
    check_money(config, &entry).await?;
    if entry.live().any(|run| run.node == *node && run.yields_to.is_some()) {
        // It was asked to end before we began anew.
        let (checkpoint, vouchers) = (None, Vouchers::default());
        return Err(WorkError::Yielded(Box::new(Action::YieldRun { job, checkpoint, vouchers })));
    }
    Ok(entry)
}

/// The GPUs that a run holds, for its program alone. Which they are is in the node's own entry, by
/// the offer that stands there; it may come a moment after the job's.
async fn seat(
    config: &AgentConfig,
    tools: &Tools,
    (job, node): (JobId, NodeId),
    spec: &JobSpec,
) -> Result<Option<Seat>, WorkError> {
    if spec.held_gpus() == GpuAsk::Usual {
        return Ok(None);
    }
    let mut held = Vec::new();
    for _ in 0..HELD_ASKED_MAX {
        let entry: Option<NodeEntry> = config.gateway.entry(keys::node(&node)).await?;
        held = entry.map_or_else(Vec::new, |entry| held_of(&entry, &job));
        if !held.is_empty() {
            break;
        }
        tokio::time::sleep(KEY_PAUSE).await;
    }
    if held.is_empty() {
        return Err(NoGpu::Unnamed.into());
    }
    seat_when_free(&tools.gpus, held).await
}

/// These GPUs once they are free: the ledger may give them to a run in the block in which another
/// one ended there, whose program has yet to be ended and its partition to be removed.
async fn seat_when_free(
    gpus: &Arc<Gpus>,
    held: Vec<(GpuSlice, Device)>,
) -> Result<Option<Seat>, WorkError> {
    let (held, mut asked) = (Arc::new(held), 0);
    loop {
        let (gpus, held) = (Arc::clone(gpus), Arc::clone(&held));
        let seat = tokio::task::spawn_blocking(move || gpus.seat(&held)).await;
        match seat.map_err(|_| WorkError::Panicked)? {
            Err(NoGpu::Taken) if asked < TAKEN_ASKED_MAX => asked += 1,
            seat => return Ok(seat?),
        }
        tokio::time::sleep(KEY_PAUSE).await;
    }
}

/// How often GPUs that are still in use are asked for: several times what ending a program and
/// removing its partition take, about two seconds.
const TAKEN_ASKED_MAX: u32 = 80;

/// What a run holds of a node's devices, each with the device that it is of.
fn held_of(entry: &NodeEntry, job: &JobId) -> Vec<(GpuSlice, Device)> {
    let devices = entry.descriptor.devices.as_slice();
    let held = entry.held.as_slice().iter().filter(|held| held.job == *job);
    held.filter_map(|held| located(devices, held.slice)).collect()
}

/// How often a node's entry is looked at for what a run holds.
const HELD_ASKED_MAX: u32 = 30;

/// What shows a result takes many bytes, which the node pays for until the job is settled.
async fn check_money(config: &AgentConfig, entry: &JobEntry) -> Result<(), WorkError> {
    let params = config.gateway.params();
    let charges = tg_ledger::charges(params, &entry.spec, entry.extent);
    let needed = charges.map_or(Amount::CAP, |charges| charges.fees);
    let is_shown = entry.spec.tier.is_shown();
    if is_shown && super::balance(config).await < needed { Err(WorkError::Poor) } else { Ok(()) }
}

/// What shows a result to be right; nothing if the job does not ask for it.
async fn show(
    config: &AgentConfig,
    tools: &Tools,
    (job, node, before): (JobId, NodeId, Option<Proven>),
    entry: &JobEntry,
    done: &Done,
) -> Result<Option<Proved>, WorkError> {
    let spec = &entry.spec;
    let Work::Tensor { program, weights, inputs, .. } = spec.work else { return Ok(None) };
    let by = entry.run_number(&node).and_then(|number| spec.tier.shown_by(number));
    let Some((by, run)) = by.zip(done.run.clone()) else { return Ok(None) };
    let (genesis, output) = (config.gateway.domain().genesis, done.output);
    let claim = ResultClaim { genesis, job, node, program, weights, inputs, output, by };
    let (provers, cheats) = (Arc::clone(&tools.provers), lies(config, spec));
    let runs = config.gateway.params().jobs.runs_max();
    let shown = move || prove::show(&provers, Asked { run: &run, claim, runs, cheats, before });
    let shown = tokio::task::spawn_blocking(shown).await.map_err(|_| WorkError::Panicked)?;
    shown.map(Some)
}

/// A result that is sealed to another key than the job names could not be complained about.
fn check_result_key(to: &WrapPublic, spec: &JobSpec) -> Result<(), WorkError> {
    if result_key_hash(to) == spec.result_key.hash { Ok(()) } else { Err(WorkError::OtherKey) }
}

/// Computes once more what a job asked for, in order to defend its result. Its owner need not be
/// there if the key was noted.
pub(crate) async fn run_again(
    config: &Arc<AgentConfig>,
    tools: &Tools,
    job: JobId,
    key: Option<ContentKey>,
) -> Result<Arc<TensorRun>, WorkError> {
    let entry = patience::job(config, job, |_| true).await?;
    let closed = Closed { key, ..Closed::of_run(job, &entry) };
    let content = open(config, &tools.packages, closed, ready(())).await?;
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

impl Done {
    /// Names the outputs as they are committed to, and hands the seed of that back with them.
    fn hide(&mut self, hidden: &HiddenOutput) -> Result<(), WorkError> {
        let run = self.run.as_ref().ok_or(WorkError::Kind)?;
        self.plain = Box::new(run.hidden_outputs(hidden.seed)?);
        self.output = hidden.id;
        Ok(())
    }
}

/// Whether the node lies about a job.
fn lies(config: &AgentConfig, spec: &JobSpec) -> bool {
    match config.cheats {
        Some(Cheat::Results) => true,
        Some(Cheat::Proofs) => spec.tier.is_shown(),
        Some(Cheat::Capacity | Cheat::Sealed) | None => false,
    }
}

async fn run_tensor(
    config: &AgentConfig,
    tools: &Tools,
    spec: &JobSpec,
    inputs: TensorInputs,
) -> Result<Done, WorkError> {
    let (work, result_to, cheats) = (spec.work, inputs.result_to.clone(), lies(config, spec));
    let (gpus, needs) = (Arc::clone(&tools.gpus), spec.needs.clone());
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

/// Runs a task and gives back the GPUs that it had, however it ended.
async fn run_seated(
    config: &Arc<AgentConfig>,
    tools: &Tools,
    (saving, order): (Saving<'_>, TaskOrder),
    content: &Lent,
    seat: Option<Seat>,
) -> Result<Done, WorkError> {
    let ran = run_task(config, &tools.desk, (saving, order), content).await;
    Seat::give_back(seat).await;
    ran
}

async fn run_task(
    config: &AgentConfig,
    desk: &Desk,
    (saving, mut order): (Saving<'_>, TaskOrder),
    content: &Content,
) -> Result<Done, WorkError> {
    let workshop = config.workshop.clone().ok_or(WorkError::Kind)?;
    let begun = Instant::now();
    let begins_with = saving.begins_with(config).await;
    order.wall = order.wall.saturating_sub(begun.elapsed());
    let (tell, folder) = oneshot::channel();
    let keeping = Keeping { begins_with, folder: Some(tell) };
    let (log, stop) = desk.begin_task(saving.job).map_err(WorkError::Stop)?;
    let mut inputs = content.reader().await?;
    let saved = saving.save_until_dropped(config, (&workshop, order.name.clone()), folder);
    let workshop = Arc::clone(&workshop);
    let computed = tokio::task::spawn_blocking(move || {
        workshop.run(&order, &mut inputs, (&log, &stop), keeping)
    });
    let computed = tokio::select! {
        computed = computed => computed,
        never = saved => match never {},
    };
    let TaskDone { plain, result_to, output, enforced } =
        match computed.map_err(|_| WorkError::Panicked)?? {
            TaskEnd::Done(done) => done,
            TaskEnd::Yielded(staged) => {
                let action = saving.yielded(config, staged).await;
                return Err(WorkError::Yielded(Box::new(action)));
            }
        };
    Ok(Done { plain: Box::new(plain), result_to, output, trace: enforced, run: None })
}

#[cfg(test)]
mod tests {
    use super::{
        KEY_LATE, NO_KEY, OWNER_WAIT_MAX, WorkError, check_foreign, owner_wait, seat_when_free,
        shown_without_key, tell_late, watch,
    };
    use crate::agent::gpus::{DeviceAccess, GpuPlace, Gpus};
    use std::future::{pending, ready};
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use tg_gateway::package::Whose;
    use tg_gateway::{GatewayError, Package, Seal};
    use tg_privacy::{ContentKey, Randomness};
    use tg_types::{
        AccountId, Amount, Device, DeviceKind, DurationMs, Features, GenesisHash, GpuPart,
        GpuSlice, Hash32, JobSpec, KeyEscrow, Needs, ResultKey, RunFailure, SecretKey, Sharing,
        Tier, Work,
    };

    fn whose(owner: u8, genesis: u8) -> Whose {
        let owner = AccountId::from(SecretKey::from_seed([owner; 32]).public());
        Whose { genesis: GenesisHash::new([genesis; 32]), owner }
    }

    fn spec(key_escrow: KeyEscrow) -> JobSpec {
        let hash = Hash32::new([1; 32]);
        JobSpec {
            work: Work::Opaque { task: hash },
            package: hash,
            package_bytes: 1,
            key_escrow,
            result_key: ResultKey::NONE,
            needs: Needs::ANY,
            tier: Tier::Trusted,
            pay: Amount::ZERO,
            run_max: DurationMs::MINUTE,
            expires_after: DurationMs::MINUTE,
            promise: None,
            checkpoint: None,
            nodes: 1,
        }
    }

    /// Goal: whoever names another's package in a job of its own makes no node publish its key, not
    /// even one that knows it. Method: the package is refused by its head, before any key is asked
    /// for or looked up, and what a complaint shows then is no key.
    #[test]
    fn package_of_another_owner_is_refused_and_complained_about_without_its_key() {
        let (victim, thief) = (whose(1, 9), whose(2, 9));
        let key = ContentKey::new([3; 32]);
        let seal = Seal::owned(&victim, key, Randomness::new([4; 32])).expect("a seal");
        let mut bytes = Vec::new();
        seal.write(&b"numbers".to_vec(), &mut bytes).expect("into memory");
        let head = Package::read(&mut bytes.as_slice()).expect("a head");
        let (kept, shared) = (spec(KeyEscrow::None), spec(KeyEscrow::Validators));
        assert!(check_foreign(&head, &victim, &kept).is_ok());
        for (reader, spec) in [(thief, &kept), (whose(1, 8), &kept), (victim, &shared)] {
            let error = check_foreign(&head, &reader, spec).expect_err("not the job's");
            assert_eq!(error.failure(), RunFailure::PackageWrong);
            assert_eq!(shown_without_key(&error), Some(NO_KEY));
        }
        let others = [WorkError::Sealed, WorkError::NoKey(GatewayError::Unexpected)];
        assert_eq!(others.map(|error| shown_without_key(&error)), [None, None]);
    }

    /// Goal: an owner that answers slowly is late as soon as one that does not answer. Method: one
    /// question that is never answered, and one that is answered at once.
    #[tokio::test]
    async fn owner_that_stalls_an_answer_is_late_all_the_same() {
        let (is_late, begun) = (watch::Sender::new(false), Instant::now());
        assert!(tell_late(&is_late, ready(true)).await && !*is_late.borrow());
        let mut told = is_late.subscribe();
        tokio::select! {
            () = tell_late(&is_late, pending()) => unreachable!("nobody answers"),
            seen = told.wait_for(|is_late| *is_late) => assert!(seen.is_ok()),
        }
        assert!((KEY_LATE..2 * KEY_LATE).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    /// Goal: a run does not decline because the one before it is still being ended. Method: a GPU
    /// that is given back a moment after it is asked for.
    #[tokio::test]
    async fn gpu_that_is_given_back_soon_is_waited_for() {
        let model: tg_types::Name = "one".parse().expect("a name");
        let access = Some(DeviceAccess::default());
        let place = GpuPlace { access, ..GpuPlace::new(model.clone(), String::new(), None) };
        let (_offers, offered) = watch::channel(vec![place]);
        let gpus = Arc::new(Gpus::new(offered, None));
        let device = Device {
            kind: DeviceKind::Gpu,
            model,
            memory_mib: 0,
            count: 1,
            features: Features::NONE,
            sharing: Sharing::WHOLE,
        };
        let held = vec![(GpuSlice { device: 0, unit: 0, part: GpuPart::Whole }, device)];
        let before = gpus.seat(&held).expect("is free");
        let given_back = async {
            tokio::time::sleep(Duration::from_millis(250)).await;
            drop(before);
        };
        let (seat, ()) = tokio::join!(seat_when_free(&gpus, held), given_back);
        assert!(seat.is_ok_and(|seat| seat.is_some()));
    }

    #[test]
    fn owner_is_waited_for_while_there_is_time_for_the_work() {
        let wait = |run_max: u64| owner_wait(DurationMs::new(run_max));
        assert_eq!(wait(5_002), Duration::from_millis(2_501));
        assert_eq!((wait(0), wait(u64::MAX)), (KEY_LATE, OWNER_WAIT_MAX));
    }
}
