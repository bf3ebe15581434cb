//! One job of a tensor program, from its price to its result.

use crate::files;
use std::time::Duration;
use tg_agent::chance::Chance;
use tg_gateway::message::{EventList, Reply, Request};
use tg_gateway::package::{Blob, Blobs, Whose};
use tg_gateway::{Gateway, GatewayError, Package, PackageError, TensorInputs};
use tg_ledger::{Charges, JobEntry, NodeEntry, ProgramEntry, charges, keys};
use tg_privacy::WrapSecret;
use tg_tensor::commit::Salt;
use tg_tensor::judge::TensorJudge;
use tg_tensor::trace::{inputs_root, outputs_root};
use tg_tensor::{Model, Tensor, TensorError};
use tg_types::tx::{PROGRAM_PIECES_MAX, ProgramPiece};
use tg_types::{
    AccountId, Action, Amount, Decode, DecodeError, DurationMs, Encode, Event, Hash32, JobId,
    JobSpec, Lane, List, Needs, ProgramFacts, Reason, SecretKey, StepJudge as _, Tier, Work,
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
}

/// What is to be done.
pub(crate) struct Order<'a> {
    /// The model.
    pub(crate) model: &'a Model,
    /// Its inputs.
    pub(crate) inputs: &'a [Tensor],
    /// How surely.
    pub(crate) tier: Tier,
    /// Where.
    pub(crate) needs: Needs,
    /// How long a run may take.
    pub(crate) run_max: DurationMs,
    /// How long the job may take in all.
    pub(crate) expires_after: DurationMs,
}

/// A price and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Quote {
    /// All parts of the price.
    pub(crate) charges: Charges,
    /// Nodes that could do it for that.
    pub(crate) nodes: usize,
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

/// What is known of a model's program.
pub(crate) fn facts(model: &Model) -> Option<ProgramFacts> {
    TensorJudge.facts(&model.program().to_bytes())
}

/// The lowest price at which a node does it now, and what that makes in all.
pub(crate) async fn quote(gateway: &Gateway, order: &Order<'_>) -> Result<Quote, OrderError> {
    let spec = spec_of(order, Amount::ZERO, &Prepared::default());
    let facts = facts(order.model);
    let mut prices = Vec::new();
    for listed in gateway.entries(&Request::Nodes).await? {
        let node = NodeEntry::from_bytes(listed.bytes.as_slice())?;
        if node.absent.is_none() && node.descriptor.is_open {
            prices.extend(tg_scheduler::price(&spec, facts.as_ref(), &node.descriptor));
        }
    }
    let lowest = prices.iter().min().copied().ok_or(OrderError::NoNode)?;
    let pay = lowest.max(gateway.params().jobs.pay_min);
    let nodes = prices.iter().filter(|price| **price <= pay).count();
    let charges = charges(gateway.params(), &JobSpec { pay, ..spec }).ok_or(OrderError::Price)?;
    Ok(Quote { charges, nodes })
}

/// What was made ready for a job.
#[derive(Clone, Copy)]
struct Prepared {
    inputs: Hash32,
    package: Hash32,
    package_bytes: u64,
}

impl Default for Prepared {
    fn default() -> Self {
        let nothing = Hash32::new([0; 32]);
        Self { inputs: nothing, package: nothing, package_bytes: 0 }
    }
}

fn spec_of(order: &Order<'_>, pay: Amount, ready: &Prepared) -> JobSpec {
    JobSpec {
        work: Work::Tensor {
            program: order.model.id(),
            weights: order.model.weights_root(),
            inputs: ready.inputs,
        },
        package: ready.package,
        package_bytes: ready.package_bytes,
        needs: order.needs.clone(),
        tier: order.tier,
        pay,
        run_max: order.run_max,
        expires_after: order.expires_after,
    }
}

impl Client<'_> {
    fn account(&self) -> AccountId {
        AccountId::from(self.key.public())
    }

    fn whose(&self) -> Whose {
        Whose { genesis: self.gateway.domain().genesis, owner: self.account() }
    }

    async fn send(&self, action: Action) -> Result<JobId, OrderError> {
        let nonce = self.gateway.nonce(self.account(), Lane::FIRST).await?;
        let (tx, _) = self.gateway.send(self.key, (Lane::FIRST, nonce), action).await?;
        Ok(JobId::of(tx, 0))
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
                Ok(_) | Err(OrderError::Gateway(GatewayError::Ledger(Reason::ProgramExists))) => {}
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
        self.record(order.model).await?;
        let salt: [u8; 32] = files::random()?;
        let blob = |bytes: Vec<u8>| {
            let found = bytes.len();
            Blob::new(bytes).map_err(|_| PackageError::TooLarge { found })
        };
        let inputs = order.inputs.iter().map(tg_agent::tensor_run::tensor_bytes).collect();
        let package = TensorInputs {
            salt,
            result_to: self.wrap.public().clone(),
            tier: order.tier,
            model: blob(order.model.to_bytes())?,
            inputs: Blobs::new(inputs)?,
        };
        let keys = self.gateway.wrap_keys().await?;
        let mut chance = Chance::new(files::random()?);
        let sealed =
            Package::seal_inputs(&package.to_bytes(), &self.whose(), &keys, || chance.draw())?;
        let (package, package_bytes) = self.gateway.keep(&sealed).await?;
        let inputs = inputs_root(order.inputs, &Salt::new(salt));
        let ready = Prepared { inputs, package, package_bytes };
        let spec = spec_of(order, quote.charges.pay, &ready);
        let specs = List::new(vec![spec]).map_err(|_| OrderError::Price)?;
        self.send(Action::SubmitJobs { specs, escrow_max: quote.charges.escrow }).await
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

    /// Fetches the result of a job that was paid, and holds it against what was committed to.
    pub(crate) async fn result(
        &self,
        entry: &JobEntry,
        model: &Model,
    ) -> Result<Vec<Tensor>, OrderError> {
        let result = entry.result().ok_or(OrderError::Gone)?;
        let package = self.gateway.package(&result.package, result.package_bytes).await?;
        let plain = package.open_output(self.wrap, &self.whose())?;
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
}
