//! One job, from its price to its result.

mod error;

pub(crate) use error::OrderError;

use super::market::{Market, Quote, Urgency};
use super::times::Times;
use crate::files;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tg_agent::chance::Chance;
use tg_agent::contents::PackageReader;
use tg_agent::tensor_run::{read_result, tensor_bytes, trace_salt};
use tg_api::eta::EtaView;
use tg_gateway::message::{EventList, Reply, Request, log_reader};
use tg_gateway::package::{Results, Several, Whose, result_key_hash};
use tg_gateway::stream::{FileSource, expect_end};
use tg_gateway::task::{NamedFile, Root, TaskLimits, Variable, WithFiles, word};
use tg_gateway::{
    Contents as _, Gateway, GatewayError, Kept, KeyEscrow, PackageError, Plain, Seal, TaskInputs,
    TaskOutput, TensorInputs, WeightsSecret,
};
use tg_ledger::{JobEntry, PieceEntry, ProgramEntry, Run, keys};
use tg_net::PeerId;
use tg_privacy::{ContentKey, Randomness, WrapPublic, WrapSecret};
use tg_proof::court::hidden::{Committer, inputs_id};
use tg_proof::court::secret;
use tg_scheduler::catalogue::Catalogue;
use tg_tensor::commit::Salt;
use tg_tensor::judge::TensorJudge;
use tg_tensor::trace::inputs_root;
use tg_tensor::{Model, Tensor};
use tg_types::hash::{Tag, tagged};
use tg_types::tx::{ARRAY_TASKS_MAX, ArrayTasks, PROGRAM_PIECES_MAX, ProgramPiece};
use tg_types::{
    AccountId, Action, Amount, CheckpointPlan, CheckpointRef, Decode, DurationMs, Encode, Event,
    GenesisHash, Hash32, JobId, JobSpec, Kind, Lane, List, Message, Needs, PackageRef,
    ProgramFacts, Reason, ResultKey, RunResult, SecretKey, StepJudge as _, Tick, Tier, Voucher,
    Work,
};

/// Bytes of a program's piece.
const PIECE_BYTES: usize = 8 * 1024;

const RESULT_SECRET: Tag = Tag::new("tensorgrid/result secret");

const CONTENT_SECRET: Tag = Tag::new("tensorgrid/content secret");

/// The key of what an order's jobs read, if its owner keeps it: derived, so that it can be handed
/// out again by whoever has the owner's key and reads the nonce on the chain.
pub(crate) fn content_key(
    owner: &SecretKey,
    genesis: &GenesisHash,
    nonce: &[u8; 16],
) -> ContentKey {
    // The network is part of it: who runs another one cannot have this one's keys handed out there.
    let pieces: [&[u8]; 3] = [&*owner.expose_seed(), genesis.as_bytes(), nonce];
    ContentKey::new(*tagged(CONTENT_SECRET, &pieces).as_bytes())
}

/// How long to wait before turning to another validator.
const AGAIN: Duration = Duration::from_millis(200);

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
    /// By when it is to be promised, if it is.
    pub(crate) promise: Option<Tick>,
    /// How often its state is saved, if it is.
    pub(crate) checkpoint: Option<DurationMs>,
    /// On how many nodes it runs at the same time.
    pub(crate) nodes: u8,
    /// Who keeps the key of what it reads.
    pub(crate) escrow: KeyEscrow,
    /// What it offers to be served sooner.
    pub(crate) urgency: Urgency,
    /// What makes the commitment to its weights, if they are the client's secret.
    pub(crate) secret: Option<WeightsSecret>,
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
    /// Its folder that is saved while it runs, if there is one.
    pub(crate) checkpoint: Option<String>,
    /// Its input files by their paths.
    pub(crate) files: Vec<(String, TaskFile)>,
}

/// What is in an input file.
#[derive(Clone, Debug)]
pub(crate) enum TaskFile {
    /// These bytes.
    Bytes(Arc<[u8]>),
    /// What is in a file of this machine when the job is handed in.
    Path(PathBuf),
}

impl TaskFile {
    fn source(&self) -> Result<FileSource, OrderError> {
        match self {
            Self::Bytes(bytes) => Ok(FileSource::Bytes(Arc::clone(bytes))),
            Self::Path(path) => FileSource::open(path.clone())
                .map_err(|source| OrderError::Input { path: path.clone(), source }),
        }
    }
}

impl Job<'_> {
    /// What is known of its program, if it is one of tensors.
    pub(crate) fn facts(&self) -> Option<ProgramFacts> {
        match self {
            Self::Tensor { model, .. } => TensorJudge.facts(&model.program().to_bytes()),
            Self::Task(_) => None,
        }
    }

    /// The tier with commitments to the inputs for so many runs, if it asks for them: all of them
    /// follow from the secret that the package carries.
    fn committed(&self, tier: Tier, secret: &[u8; 32], runs: u8) -> Result<Tier, OrderError> {
        match (self, tier) {
            (Self::Tensor { model, inputs }, Tier::Zk { weights, is_secret, .. }) => {
                let roots = Committer::new(model.program())?.inputs(inputs, secret, runs)?;
                Ok(Tier::Zk { weights, inputs: inputs_id(&roots), is_secret })
            }
            (Self::Tensor { .. } | Self::Task(_), tier) => Ok(tier),
        }
    }

    /// Everything a run reads, and how the ledger names it.
    fn pack(&self, to: &Recipient<'_>) -> Result<(Work, Box<dyn Plain>), OrderError> {
        match self {
            Self::Tensor { model, inputs } => {
                let bytes = inputs.iter().map(tensor_bytes).collect();
                let package = TensorInputs {
                    salt: to.salt,
                    result_to: to.wrap.clone(),
                    tier: to.tier,
                    model: model.to_bytes(),
                    inputs: bytes,
                    secret: to.secret,
                };
                let inputs = inputs_root(inputs, &Salt::new(to.salt));
                let (program, root) = (model.id(), model.weights_root());
                let weights = to.secret.map_or(root, |_| secret::name(&root, &to.salt));
                let salt = trace_salt(&to.salt).mark();
                let work = Work::Tensor { program, weights, inputs, salt };
                Ok((work, Box::new(package.into_plain()?)))
            }
            Self::Task(order) => {
                let (head, files) = order.pack(to)?;
                let plain = WithFiles::new(&head, files)?;
                Ok((Work::Opaque { task: head.id() }, Box::new(plain)))
            }
        }
    }
}

/// To whom a result goes.
struct Recipient<'a> {
    salt: [u8; 32],
    wrap: &'a WrapPublic,
    tier: Tier,
    secret: Option<WeightsSecret>,
}

impl TaskOrder {
    fn pack(&self, to: &Recipient<'_>) -> Result<(TaskInputs, Vec<FileSource>), OrderError> {
        let words = self.program.iter().map(|text| word(text)).collect::<Result<_, _>>();
        let variables = self
            .environment
            .iter()
            .map(|(name, value)| Ok(Variable { name: word(name)?, value: word(value)? }));
        let (mut files, mut sources) = (Vec::new(), Vec::new());
        for (path, file) in &self.files {
            let source = file.source()?;
            let (bytes, hash) = (source.bytes(), source.hash());
            files.push(NamedFile { path: word(path)?, bytes, hash });
            sources.push(source);
        }
        let head = TaskInputs {
            salt: to.salt,
            result_to: to.wrap.clone(),
            program: Several::new(words?)?,
            environment: Several::new(variables.collect::<Result<_, PackageError>>()?)?,
            root: self.root.clone(),
            limits: self.limits,
            network: self.network,
            checkpoint: self.checkpoint.as_deref().map(word).transpose()?,
            files: Several::new(files)?,
        };
        Ok((head, sources))
    }
}

/// How a complaint ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// The provider lost so much.
    Upheld(Amount),
    /// We did.
    Rejected(Amount),
    /// Nobody did.
    Lapsed,
}

impl Judged {
    fn of(job: JobId, event: &Event) -> Option<Self> {
        if event.job() != Some(job) {
            None
        } else if let Event::ComplaintUpheld { lost, .. } = event {
            Some(Self::Upheld(*lost))
        } else if let Event::ComplaintRejected { lost, .. } = event {
            Some(Self::Rejected(*lost))
        } else {
            matches!(event, Event::ComplaintLapsed { .. }).then_some(Self::Lapsed)
        }
    }
}

/// Who asks.
pub(crate) struct Client<'a> {
    /// The validators.
    pub(crate) gateway: &'a Gateway,
    /// The client's key.
    pub(crate) key: &'a SecretKey,
}

impl Order<'_> {
    /// The lowest price at which a node does it now, or what is offered, and all that comes to it.
    pub(crate) async fn quote(&self, gateway: &Gateway) -> Result<Quote, OrderError> {
        Ok(self.priced(gateway).await?.2)
    }

    /// The same, and how long a run of it takes for somebody who hands it in.
    pub(crate) async fn quote_for(
        &self,
        gateway: &Gateway,
        owner: &AccountId,
    ) -> Result<(Quote, EtaView), OrderError> {
        let (market, spec, quote) = self.priced(gateway).await?;
        let facts = self.job.facts();
        let forecast = Times::new(gateway).forecast(owner, &spec, facts.as_ref()).await?;
        Ok((quote, market.ground().quote(&spec, facts.as_ref(), &forecast)))
    }

    /// What nodes offer now, the job at the price that it has now, and that price.
    async fn priced(&self, gateway: &Gateway) -> Result<(Market, JobSpec, Quote), OrderError> {
        let nothing = Hash32::new([0; 32]);
        let work = match self.job {
            Job::Tensor { model, .. } => {
                let (program, weights) = (model.id(), model.weights_root());
                Work::Tensor { program, weights, inputs: nothing, salt: nothing }
            }
            Job::Task(_) => Work::Opaque { task: nothing },
        };
        self.check_verifiable(gateway)?;
        let package = PackageRef { id: nothing, bytes: 0, key_escrow: Some(self.escrow) };
        let spec = self.spec(work, package, ResultKey::NONE, Amount::ZERO);
        let (market, facts) = (Market::look(gateway).await?, self.job.facts());
        self.check_model(&market)?;
        let quote = market.quote(&spec, facts.as_ref(), self.urgency)?;
        let spec = JobSpec { pay: quote.charges.pay, ..spec };
        let promise = match self.promise {
            Some(_) => Some(market.promise(gateway, &spec, facts.as_ref()).await?),
            None => None,
        };
        Ok((market, spec, Quote { promise, ..quote }))
    }

    /// Refuses a model that neither the catalogue nor any node has: it is surely a slip.
    fn check_model(&self, market: &Market) -> Result<(), OrderError> {
        let Some(model) = &self.needs.model else { return Ok(()) };
        let catalogue = Catalogue::shared();
        if !catalogue.names_of(model.as_str(), 0).is_empty() || market.has_model(model) {
            return Ok(());
        }
        let near = catalogue.near(model.as_str()).join(", ");
        Err(OrderError::ModelUnknown { model: model.clone(), near })
    }

    /// Refuses what the ledger would refuse after its program was paid for.
    fn check_verifiable(&self, gateway: &Gateway) -> Result<(), OrderError> {
        let (Job::Tensor { model, .. }, Some(by)) = (self.job, self.tier.shown_by(0)) else {
            return Ok(());
        };
        let most = gateway.params().jobs.proof_cost_max;
        let cost = tg_proof::court::costs(model.program()).by(by);
        let is_short = cost.is_some_and(|cost| cost <= most);
        is_short.then_some(()).ok_or(OrderError::VerifiedTooLong { most })
    }

    fn spec(&self, work: Work, package: PackageRef, result_key: ResultKey, pay: Amount) -> JobSpec {
        JobSpec {
            work,
            package: package.id,
            package_bytes: package.bytes,
            key_escrow: self.escrow,
            result_key,
            needs: self.needs.clone(),
            tier: self.tier,
            pay,
            run_max: self.run_max,
            expires_after: self.expires_after,
            promise: self.promise,
            checkpoint: self.checkpoint.map(|every| CheckpointPlan { every, from: None }),
            nodes: self.nodes,
        }
    }
}

impl Client<'_> {
    fn account(&self) -> AccountId {
        AccountId::from(self.key.public())
    }

    /// The seed of the secret key to which results of an order are sealed. Each order has its own,
    /// so that one can be made public and tells nothing of others.
    fn result_seed(&self, nonce: &[u8; 16]) -> [u8; 32] {
        let genesis = self.gateway.domain().genesis;
        let pieces: [&[u8]; 3] = [&*self.key.expose_seed(), genesis.as_bytes(), nonce];
        *tagged(RESULT_SECRET, &pieces).as_bytes()
    }

    fn result_secret(&self, nonce: &[u8; 16]) -> WrapSecret {
        WrapSecret::from_seed(self.result_seed(nonce))
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
        if matches!(order.tier, Tier::Zk { .. }) && count != 1 {
            return Err(OrderError::HiddenOnce { jobs: count });
        }
        let (spec, voucher) = self.seal(order, quote).await?;
        self.hand_in(vec![spec; count], vec![voucher], quote, lane).await
    }

    /// Hands in so many tasks of an array, numbered from 0 on, in as few transactions as can be.
    /// They share one sealed package.
    pub(crate) async fn submit_array(
        &self,
        order: &Order<'_>,
        quote: &Quote,
        tasks: u32,
    ) -> Result<Vec<JobId>, OrderError> {
        let (spec, voucher) = self.seal(order, quote).await?;
        let mut jobs = Vec::new();
        let mut first = 0;
        while first < tasks {
            let count = u16::try_from(tasks - first).unwrap_or(u16::MAX).min(ARRAY_TASKS_MAX);
            let escrow_max = quote.charges.escrow.times(count.into());
            let action = Action::SubmitArray {
                spec: spec.clone(),
                tasks: ArrayTasks { first, count },
                escrow_max: escrow_max.map_err(|_| OrderError::Price)?,
                vouchers: List::new(vec![voucher.clone()]).map_err(|_| OrderError::Price)?,
            };
            jobs.extend(self.send_jobs(action, count.into(), Lane::FIRST).await?);
            first += u32::from(count);
        }
        Ok(jobs)
    }

    /// Seals what a job needs, has it kept, and says what to ask for.
    async fn seal(
        &self,
        order: &Order<'_>,
        quote: &Quote,
    ) -> Result<(JobSpec, Voucher), OrderError> {
        let nonce = files::random()?;
        let result_secret = self.result_secret(&nonce);
        let (salt, wrap) = (files::random()?, result_secret.public());
        let runs = self.gateway.params().jobs.runs_max();
        let tier = order.job.committed(order.tier, &salt, runs)?;
        let to = Recipient { salt, wrap, tier, secret: order.secret };
        let (work, plain) = order.job.pack(&to)?;
        let result_key = ResultKey { nonce, hash: result_key_hash(wrap) };
        let mut chance = Chance::new(files::random()?);
        let seal = match order.escrow {
            KeyEscrow::Validators => {
                let holders = self.gateway.holders().await?;
                Seal::inputs(&self.whose(), &holders, || chance.draw())?
            }
            KeyEscrow::None => {
                let key = content_key(self.key, &self.gateway.domain().genesis, &nonce);
                Seal::owned(&self.whose(), key, Randomness::new(chance.draw()))?
            }
        };
        let Kept { package, voucher } = self.gateway.keep(seal, plain).await?;
        let spec = order.spec(work, package, result_key, quote.charges.pay);
        Ok((JobSpec { tier, ..spec }, voucher))
    }

    /// Hands in once more what was asked for before, at a new price, to go on where its state was
    /// saved last, if that can be had. Packages are fetched from validators that still keep them
    /// and given to all of them again. Tells also who keeps the key, and whether it goes on.
    pub(crate) async fn submit_again(
        &self,
        entry: &JobEntry,
        quote: &Quote,
    ) -> Result<(JobId, KeyEscrow, bool), OrderError> {
        let spec = entry.spec.clone();
        let (Kept { package, voucher }, escrow) =
            self.keep_again(&spec.package, spec.package_bytes).await?;
        let escrow = escrow.ok_or(PackageError::Kind)?;
        let mut vouchers = vec![voucher];
        let mut from = None;
        if let Some(CheckpointRef { package, package_bytes }) = entry.begins_with()
            && let Ok((kept, None)) = self.keep_again(&package, package_bytes).await
        {
            vouchers.push(kept.voucher);
            from = entry.begins_with();
        }
        let PackageRef { id, bytes, .. } = package;
        let checkpoint = spec.checkpoint.map(|plan| CheckpointPlan { from, ..plan });
        let (pay, package_bytes) = (quote.charges.pay, bytes);
        // What was promised before is over.
        let spec = JobSpec { package: id, package_bytes, pay, promise: None, checkpoint, ..spec };
        let jobs = self.hand_in(vec![spec], vouchers, quote, Lane::FIRST).await?;
        Ok((jobs.first().copied().ok_or(OrderError::Gone)?, escrow, from.is_some()))
    }

    /// Has a package kept again by all validators; tells also who keeps its key.
    async fn keep_again(
        &self,
        id: &Hash32,
        bytes: u64,
    ) -> Result<(Kept, Option<KeyEscrow>), OrderError> {
        let package = self.gateway.package(id, bytes).await?;
        let escrow = package.head().escrow();
        let kept = self.gateway.keep_again(&package).await;
        package.release().await;
        Ok((kept?, escrow))
    }

    /// Hands jobs in that are priced alike and share a package.
    async fn hand_in(
        &self,
        specs: Vec<JobSpec>,
        vouchers: Vec<Voucher>,
        quote: &Quote,
        lane: Lane,
    ) -> Result<Vec<JobId>, OrderError> {
        let count = specs.len();
        let specs = List::new(specs).map_err(|_| OrderError::Price)?;
        let times = u64::try_from(count).unwrap_or(u64::MAX);
        let escrow_max = quote.charges.escrow.times(times).map_err(|_| OrderError::Price)?;
        let vouchers = List::new(vouchers).map_err(|_| OrderError::Price)?;
        let action = Action::SubmitJobs { specs, escrow_max, vouchers };
        self.send_jobs(action, count, lane).await
    }

    /// Sends what submits so many jobs; says their ids.
    async fn send_jobs(
        &self,
        action: Action,
        count: usize,
        lane: Lane,
    ) -> Result<Vec<JobId>, OrderError> {
        let nonce = self.gateway.nonce(self.account(), lane).await?;
        let (tx, _) = self.gateway.send(self.key, (lane, nonce), action).await?;
        let places = (0..=u8::MAX).take(count);
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
            while let Some(frame) = blocks.next().await {
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
            self.gateway.turn_from(&blocks);
        }
    }

    async fn ended(&self, job: JobId) -> Result<Option<JobEntry>, OrderError> {
        let entry: Option<JobEntry> = self.gateway.entry(keys::job(&job)).await?;
        let entry = entry.ok_or(OrderError::Gone)?;
        Ok(entry.status.is_final().then_some(entry))
    }

    /// Fetches what a job gave and reads it: of the first of its accepted runs whose package opens.
    async fn fetch<T>(
        &self,
        job: JobId,
        entry: &JobEntry,
        read: impl Fn(&RunResult, &mut dyn Read) -> Result<T, OrderError>,
    ) -> Result<T, OrderError> {
        let mut last = OrderError::NoResult;
        for result in entry.live().filter_map(Run::result) {
            match self.open(job, entry, &result, &read).await {
                Ok(found) => return Ok(found),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn open<T>(
        &self,
        job: JobId,
        entry: &JobEntry,
        result: &RunResult,
        read: impl Fn(&RunResult, &mut dyn Read) -> Result<T, OrderError>,
    ) -> Result<T, OrderError> {
        let package = self.gateway.package(&result.package, result.package_bytes).await?;
        let secret = self.result_secret(&entry.spec.result_key.nonce);
        let sealed = package.sealed().await.map_err(GatewayError::from)?;
        let opened = package.head().open_output(&secret, &self.whose(), sealed);
        // A client waits for its result and for nothing else, so it may wait for the disk here.
        let found = opened.map_err(OrderError::from).and_then(|mut plain| {
            let found = Results::read(&mut plain, &job, |plain| {
                let found = read(result, plain)?;
                expect_end(plain)?;
                Ok::<_, OrderError>(found)
            });
            found?.ok_or(OrderError::OtherOutput)
        });
        package.release().await;
        found
    }

    /// Fetches the outputs of a program, and holds them against what was committed to.
    pub(crate) async fn result(
        &self,
        job: JobId,
        entry: &JobEntry,
        model: &Model,
    ) -> Result<Vec<Tensor>, OrderError> {
        let read = |result: &RunResult, plain: &mut dyn Read| {
            let outputs = read_result(model.program(), entry.spec.tier, result, plain)?;
            outputs.ok_or(OrderError::OtherOutput)
        };
        self.fetch(job, entry, read).await
    }

    /// Fetches what a task gave, and holds it against what was committed to. Files are handed to
    /// `take`; what it makes of them counts only if this ends well.
    pub(crate) async fn task_result<T>(
        &self,
        job: JobId,
        entry: &JobEntry,
        take: impl Fn(&TaskOutput, &mut dyn Read) -> Result<T, OrderError>,
    ) -> Result<(TaskOutput, T), OrderError> {
        let read = |result: &RunResult, plain: &mut dyn Read| {
            let output = TaskOutput::read(plain)?;
            if output.id() != result.output || output.enforced_id() != result.trace {
                return Err(OrderError::OtherOutput);
            }
            let taken = take(&output, plain)?;
            Ok((output, taken))
        };
        self.fetch(job, entry, read).await
    }

    /// Whether the result of a job opens, to what its provider committed to: of any of its runs,
    /// as validators see it.
    pub(crate) async fn opens(&self, job: JobId, entry: &JobEntry) -> Result<bool, OrderError> {
        let program = match entry.spec.work {
            Work::Tensor { program, .. } => Some(self.program(&program).await?),
            Work::Opaque { .. } => None,
        };
        let read = |result: &RunResult, plain: &mut dyn Read| {
            Ok(PackageReader.is_output(&entry.spec, program.as_deref(), result, plain)?)
        };
        let mut found = Err(OrderError::NoResult);
        for result in entry.live().filter_map(Run::result) {
            match self.open(job, entry, &result, &read).await {
                Ok(true) => return Ok(true),
                Err(error) if !error.is_sealed() => return Err(error),
                Ok(false) | Err(_) => found = Ok(false),
            }
        }
        found
    }

    /// A program as the chain has it on record.
    async fn program(&self, program: &Hash32) -> Result<Vec<u8>, OrderError> {
        let entry: Option<ProgramEntry> = self.gateway.entry(keys::program(program)).await?;
        let mut bytes = Vec::new();
        for piece in 0..entry.ok_or(OrderError::Gone)?.pieces {
            let key = keys::program_piece(program, piece);
            let piece: Option<PieceEntry> = self.gateway.entry(key).await?;
            bytes.extend_from_slice(piece.ok_or(OrderError::Gone)?.bytes.as_slice());
        }
        Ok(bytes)
    }

    /// Complains that a result does not open, and waits until that is judged.
    pub(crate) async fn complain(
        &self,
        job: JobId,
        entry: &JobEntry,
    ) -> Result<Judged, OrderError> {
        let mut blocks = self.gateway.follow()?;
        let key = self.result_seed(&entry.spec.result_key.nonce);
        self.send(Action::Complain { job, about: Message::Result, key }).await?;
        while let Some(frame) = blocks.next().await {
            let Ok(Reply::Block { events: EventList(events), .. }) = Reply::from_bytes(&frame)
            else {
                continue;
            };
            if let Some(judged) = events.iter().find_map(|event| Judged::of(job, event)) {
                return Ok(judged);
            }
        }
        Err(OrderError::Gone)
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
        let message = log_reader(&job, &self.gateway.peer().id());
        let consent = self.key.sign(self.gateway.domain(), Kind::LogReader, &message);
        match self.gateway.ask_peer(peer, &Request::Log { job, from, consent }).await {
            Ok(Reply::Log { bytes, is_end }) => Ok(Some((bytes.as_slice().to_vec(), is_end))),
            // Not begun, or gone: the job moves on without us.
            Ok(_) | Err(GatewayError::Refused(_) | GatewayError::Call(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
