//! One job, from its price to its result.

use super::market::{Market, Quote};
use crate::files;
use std::time::Duration;
use tg_agent::chance::Chance;
use tg_agent::tensor_run::{tensor_bytes, trace_salt};
use tg_gateway::message::{EventList, Reply, Request};
use tg_gateway::package::{Blobs, Results, Several, Whose, blob, blobs};
use tg_gateway::task::{NamedFile, Root, TaskLimits, Variable, word};
use tg_gateway::{
    Gateway, GatewayError, Package, PackageError, TaskInputs, TaskOutput, TensorInputs,
};
use tg_ledger::{JobEntry, ProgramEntry, keys};
use tg_net::PeerId;
use tg_privacy::{WrapPublic, WrapSecret};
use tg_tensor::commit::Salt;
use tg_tensor::judge::TensorJudge;
use tg_tensor::trace::{inputs_root, outputs_root};
use tg_tensor::{Model, Tensor, TensorError};
use tg_types::tx::{PROGRAM_PIECES_MAX, ProgramPiece};
use tg_types::{
    AccountId, Action, Amount, Decode, DecodeError, DurationMs, Encode, Event, Hash32, JobId,
    JobSpec, Lane, List, Needs, ProgramFacts, Reason, RunResult, SecretKey, StepJudge as _, Tier,
    Work,
};

/// Bytes of a program's piece.
const PIECE_BYTES: usize = 8 * 1024;

/// How long to wait before turning to another validator.
const AGAIN: Duration = Duration::from_millis(200);

/// Why a job did not go through.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OrderError {
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error("an entry of the chain cannot be read")]
    Decode(#[from] DecodeError),
    #[error("no node offers its services")]
    NoNode,
    #[error("the program has more than {PROGRAM_PIECES_MAX} pieces of {PIECE_BYTES} bytes")]
    ProgramLarge,
    #[error("the price is more than an amount can be")]
    Price,
    #[error("there are no random numbers")]
    Random(#[from] files::FileError),
    #[error("the result is not what the provider committed to")]
    OtherOutput,
    #[error("an output cannot be read")]
    Output(#[from] TensorError),
    #[error("the job is not on record any more")]
    Gone,
    #[error("the job has no result")]
    NoResult,
}

/// What is to be done.
pub(crate) struct Order<'a> {
    /// What is to be computed.
    pub(crate) job: Job<'a>,
    /// How surely.
    pub(crate) tier: Tier,
    /// Where.
    pub(crate) needs: Needs,
    /// How long a run may take.
    pub(crate) run_max: DurationMs,
    /// How long the job may take in all.
    pub(crate) expires_after: DurationMs,
}

/// What is to be computed.
#[derive(Clone, Copy)]
pub(crate) enum Job<'a> {
    /// A tensor program: it has one meaning.
    Tensor {
        /// The model.
        model: &'a Model,
        /// Its inputs; none are needed for a price.
        inputs: &'a [Tensor],
    },
    /// A program of any other kind.
    Task(&'a TaskOrder),
}

/// A program of any kind, with all it reads.
#[derive(Clone, Debug)]
pub(crate) struct TaskOrder {
    /// The program and its arguments.
    pub(crate) program: Vec<String>,
    /// Its environment.
    pub(crate) environment: Vec<(String, String)>,
    /// Where its files come from.
    pub(crate) root: Root,
    /// What it may use.
    pub(crate) limits: TaskLimits,
    /// Whether it asks for the provider's network.
    pub(crate) network: bool,
    /// Its input files by their paths.
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

impl Job<'_> {
    /// What is known of its program, if it is one of tensors.
    pub(crate) fn facts(&self) -> Option<ProgramFacts> {
        match self {
            Self::Tensor { model, .. } => TensorJudge.facts(&model.program().to_bytes()),
            Self::Task(_) => None,
        }
    }

    /// Everything a run reads, and how the ledger names it.
    fn pack(&self, to: &Recipient<'_>) -> Result<(Work, Vec<u8>), OrderError> {
        match self {
            Self::Tensor { model, inputs } => {
                let bytes = inputs.iter().map(tensor_bytes).collect();
                let package = TensorInputs {
                    salt: to.salt,
                    result_to: to.wrap.clone(),
                    tier: to.tier,
                    model: blob(model.to_bytes())?,
                    inputs: blobs(bytes)?,
                };
                let inputs = inputs_root(inputs, &Salt::new(to.salt));
                let (program, weights) = (model.id(), model.weights_root());
                let salt = trace_salt(&to.salt).mark();
                Ok((Work::Tensor { program, weights, inputs, salt }, package.to_bytes()))
            }
            Self::Task(order) => {
                let package = order.pack(to)?;
                Ok((Work::Opaque { task: package.id() }, package.to_bytes()))
            }
        }
    }
}

/// To whom a result goes.
struct Recipient<'a> {
    salt: [u8; 32],
    wrap: &'a WrapPublic,
    tier: Tier,
}

impl TaskOrder {
    fn pack(&self, to: &Recipient<'_>) -> Result<TaskInputs, PackageError> {
        let words = self.program.iter().map(|text| word(text)).collect::<Result<_, _>>();
        let variables = self
            .environment
            .iter()
            .map(|(name, value)| Ok(Variable { name: word(name)?, value: word(value)? }));
        let files = self
            .files
            .iter()
            .map(|(path, bytes)| Ok(NamedFile { path: word(path)?, bytes: blob(bytes.clone())? }));
        Ok(TaskInputs {
            salt: to.salt,
            result_to: to.wrap.clone(),
            program: Several::new(words?)?,
            environment: Several::new(variables.collect::<Result<_, PackageError>>()?)?,
            root: self.root.clone(),
            limits: self.limits,
            network: self.network,
            files: Several::new(files.collect::<Result<_, PackageError>>()?)?,
        })
    }
}

/// Who asks.
pub(crate) struct Client<'a> {
    /// The validators.
    pub(crate) gateway: &'a Gateway,
    /// The client's key.
    pub(crate) key: &'a SecretKey,
    /// The key to which results are wrapped.
    pub(crate) wrap: &'a WrapSecret,
}

impl Order<'_> {
    /// The lowest price at which a node does it now, and what that makes in all.
    pub(crate) async fn quote(&self, gateway: &Gateway) -> Result<Quote, OrderError> {
        let nothing = Hash32::new([0; 32]);
        let work = match self.job {
            Job::Tensor { model, .. } => {
                let (program, weights) = (model.id(), model.weights_root());
                Work::Tensor { program, weights, inputs: nothing, salt: nothing }
            }
            Job::Task(_) => Work::Opaque { task: nothing },
        };
        let spec = self.spec(work, (nothing, 0), Amount::ZERO);
        Market::look(gateway).await?.quote(&spec, self.job.facts().as_ref())
    }

    fn spec(&self, work: Work, (package, package_bytes): (Hash32, u64), pay: Amount) -> JobSpec {
        JobSpec {
            work,
            package,
            package_bytes,
            needs: self.needs.clone(),
            tier: self.tier,
            pay,
            run_max: self.run_max,
            expires_after: self.expires_after,
        }
    }
}

impl Client<'_> {
    fn account(&self) -> AccountId {
        AccountId::from(self.key.public())
    }

    fn whose(&self) -> Whose {
        Whose { genesis: self.gateway.domain().genesis, owner: self.account() }
    }

    async fn send(&self, action: Action) -> Result<(), OrderError> {
        let nonce = self.gateway.nonce(self.account(), Lane::FIRST).await?;
        self.gateway.send(self.key, (Lane::FIRST, nonce), action).await?;
        Ok(())
    }

    /// Puts a model's program on record, if it is not yet.
    pub(crate) async fn record(&self, model: &Model) -> Result<(), OrderError> {
        let program = model.id();
        let entry: Option<ProgramEntry> = self.gateway.entry(keys::program(&program)).await?;
        if entry.is_some() {
            return Ok(());
        }
        let bytes = model.program().to_bytes();
        let chunks: Vec<&[u8]> = bytes.chunks(PIECE_BYTES).collect();
        let pieces = u8::try_from(chunks.len()).ok().filter(|count| *count <= PROGRAM_PIECES_MAX);
        let pieces = pieces.ok_or(OrderError::ProgramLarge)?;
        for (piece, chunk) in (0..pieces).zip(chunks) {
            let bytes = ProgramPiece::new(chunk.to_vec()).map_err(|_| OrderError::ProgramLarge)?;
            match self.send(Action::PutProgram { program, piece, pieces, bytes }).await {
                Ok(()) | Err(OrderError::Gateway(GatewayError::Ledger(Reason::ProgramExists))) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Hands a job in at a quoted price.
    pub(crate) async fn submit(
        &self,
        order: &Order<'_>,
        quote: &Quote,
    ) -> Result<JobId, OrderError> {
        if let Job::Tensor { model, .. } = order.job {
            self.record(model).await?;
        }
        let jobs = self.submit_many(order, quote, 1, Lane::FIRST).await?;
        jobs.first().copied().ok_or(OrderError::Gone)
    }

    /// Hands in so many equal jobs, whose program is on record, in one transaction. They share one
    /// sealed package.
    pub(crate) async fn submit_many(
        &self,
        order: &Order<'_>,
        quote: &Quote,
        count: usize,
        lane: Lane,
    ) -> Result<Vec<JobId>, OrderError> {
        let (salt, wrap) = (files::random()?, self.wrap.public());
        let (work, plain) = order.job.pack(&Recipient { salt, wrap, tier: order.tier })?;
        let keys = self.gateway.wrap_keys().await?;
        let mut chance = Chance::new(files::random()?);
        let sealed = Package::seal_inputs(&plain, &self.whose(), &keys, || chance.draw())?;
        let kept = self.gateway.keep(&sealed).await?;
        let spec = order.spec(work, kept, quote.charges.pay);
        self.hand_in(vec![spec; count], quote, lane).await
    }

    /// Hands in once more what was asked for before, at a new price. Its package is fetched from
    /// validators that still keep it and given to all of them again.
    pub(crate) async fn submit_again(
        &self,
        spec: &JobSpec,
        quote: &Quote,
    ) -> Result<JobId, OrderError> {
        let package = self.gateway.package(&spec.package, spec.package_bytes).await?;
        let (package, package_bytes) = self.gateway.keep(&package).await?;
        let spec = JobSpec { package, package_bytes, pay: quote.charges.pay, ..spec.clone() };
        let jobs = self.hand_in(vec![spec], quote, Lane::FIRST).await?;
        jobs.first().copied().ok_or(OrderError::Gone)
    }

    /// Hands jobs in that are priced alike.
    async fn hand_in(
        &self,
        specs: Vec<JobSpec>,
        quote: &Quote,
        lane: Lane,
    ) -> Result<Vec<JobId>, OrderError> {
        let count = specs.len();
        let specs = List::new(specs).map_err(|_| OrderError::Price)?;
        let times = u64::try_from(count).unwrap_or(u64::MAX);
        let escrow_max = quote.charges.escrow.times(times).map_err(|_| OrderError::Price)?;
        let action = Action::SubmitJobs { specs, escrow_max };
        let nonce = self.gateway.nonce(self.account(), lane).await?;
        let (tx, _) = self.gateway.send(self.key, (lane, nonce), action).await?;
        let places = 0..u8::try_from(count).unwrap_or(u8::MAX);
        Ok(places.map(|place| JobId::of(tx, place)).collect())
    }

    /// Follows a job to its end, telling what happens to it.
    pub(crate) async fn follow(
        &self,
        job: JobId,
        mut tell: impl FnMut(&Event),
    ) -> Result<JobEntry, OrderError> {
        loop {
            let mut blocks = self.gateway.follow()?;
            if let Some(entry) = self.ended(job).await? {
                return Ok(entry);
            }
            while let Some(Ok(frame)) = blocks.next().await {
                let Ok(Reply::Block { events: EventList(events), .. }) = Reply::from_bytes(&frame)
                else {
                    continue;
                };
                let about = events.iter().filter(|event| event.job() == Some(job));
                let about: Vec<&Event> = about.collect();
                about.iter().for_each(|event| tell(event));
                if !about.is_empty()
                    && let Some(entry) = self.ended(job).await?
                {
                    return Ok(entry);
                }
            }
            tokio::time::sleep(AGAIN).await;
            self.gateway.turn();
        }
    }

    async fn ended(&self, job: JobId) -> Result<Option<JobEntry>, OrderError> {
        let entry: Option<JobEntry> = self.gateway.entry(keys::job(&job)).await?;
        let entry = entry.ok_or(OrderError::Gone)?;
        Ok(entry.status.is_final().then_some(entry))
    }

    /// Fetches the package of a job's result.
    async fn fetch(
        &self,
        job: JobId,
        entry: &JobEntry,
    ) -> Result<(RunResult, Vec<u8>), OrderError> {
        let result = entry.result().ok_or(OrderError::NoResult)?;
        let package = self.gateway.package(&result.package, result.package_bytes).await?;
        let opened = package.open_output(self.wrap, &self.whose())?;
        let results = Results::from_bytes(&opened)?;
        let plain = results.of(&job).ok_or(OrderError::OtherOutput)?.to_vec();
        Ok((result, plain))
    }

    /// Fetches the outputs of a program, and holds them against what was committed to.
    pub(crate) async fn result(
        &self,
        job: JobId,
        entry: &JobEntry,
        model: &Model,
    ) -> Result<Vec<Tensor>, OrderError> {
        let (result, plain) = self.fetch(job, entry).await?;
        let blobs = Blobs::from_bytes(&plain)?;
        let program = model.program();
        let mut outputs = Vec::new();
        for (output, bytes) in program.outputs().iter().zip(blobs.as_slice()) {
            let spec = program.spec(output.value).ok_or(OrderError::OtherOutput)?;
            outputs.push(Tensor::from_bytes(&spec, bytes.as_slice())?);
        }
        if outputs_root(outputs.iter()) != result.output {
            return Err(OrderError::OtherOutput);
        }
        Ok(outputs)
    }

    /// Fetches what a task gave, and holds it against what was committed to.
    pub(crate) async fn task_result(
        &self,
        job: JobId,
        entry: &JobEntry,
    ) -> Result<TaskOutput, OrderError> {
        let (result, plain) = self.fetch(job, entry).await?;
        let output = TaskOutput::from_bytes(&plain)?;
        if output.id() != result.output || output.enforced_id() != result.trace {
            return Err(OrderError::OtherOutput);
        }
        Ok(output)
    }

    /// What a running task said since then, and whether that was all; `None` if nobody runs it.
    pub(crate) async fn log(
        &self,
        job: JobId,
        entry: &JobEntry,
        from: u64,
    ) -> Result<Option<(Vec<u8>, bool)>, OrderError> {
        let Some(run) = entry.live().next() else { return Ok(None) };
        let Ok(peer) = PeerId::new(*run.node.as_bytes()) else { return Ok(None) };
        match self.gateway.ask_peer(peer, &Request::Log { job, from }).await {
            Ok(Reply::Log { bytes, is_end }) => Ok(Some((bytes.as_slice().to_vec(), is_end))),
            // Not begun, or gone: the job moves on without us.
            Ok(_) | Err(GatewayError::Refused(_) | GatewayError::Call(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
