//! A ledger and simulated nodes: who comes when, how long commands take on models, and blocks of a
//! second in which nodes commit to results and show them.

use crate::bench::ledger::{AnyCertificate, first_block, next_block};
use std::{collections::BTreeMap, sync::Arc};
use tg_ledger::{
    ApplyError, BlockEnv, JobEntry, Lookup, MemoryView, PaceEntry, Rules, Run, RunState, View as _,
    apply, fee_floor, forecast, keys, subjects,
};
use tg_types::{
    AccountId, Action, Amount, Bytes, CapacityParams, CheckedTx, Decode, Device, DeviceKind,
    DurationMs, EquivocationCheck, Features, Genesis, GenesisError, GenesisSpec, Hash32,
    HeaderDigest, HostPart, JobId, JobSpec, JobStatus, KeyEscrow, Kind, Lane, List, Needs,
    NetworkKind, NoPrograms, NodeDescriptor, NodeId, Nonce, Noun, Params, PublicKey, Reason,
    ResultKey, RunResult, SecretKey, Sharing, Signature, SignedTx, StateKey, Status, Tick, Tier,
    TxBody, ValidatorSeat, Work,
    hash::sha256,
    tx::{OpenedResult, Sealed, TX_BYTES_MAX},
};

/// Models that differ in no part of the score but their times.
const MODELS: [&str; 3] = ["RTX 4090", "RTX 4080", "RTX 4070"];
/// Nodes, each with its own owner; models take turns.
pub(super) const NODES: u8 = 9;
/// Slots of each node.
pub(super) const SLOTS: u16 = 4;
/// Kinds of commands.
const COMMANDS: u8 = 6;
/// Jobs of a mix.
const JOBS: usize = 300;
/// Seats of the committee.
const SEATS: u8 = 4;
/// What the time limit of every command is.
const LIMIT: DurationMs = DurationMs::HOUR;
const BALANCE: Amount = Amount::constant(1_000_000_000_000);
const STAKE: Amount = Params::local().stake_min;
const PAY: Amount = Amount::constant(100_000);
/// What every node wants for an hour, and for 10^12 multiply-adds.
const PRICE: Amount = Amount::constant(36_000);

/// Why there is nothing to tell.
#[derive(Debug, thiserror::Error)]
pub(super) enum GridError {
    /// The genesis does not hold.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The ledger refuses a block.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The ledger refuses what somebody does.
    #[error("a transaction failed: {}", .0.code())]
    Failed(Reason),
}

/// A job that is settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// From the time at which it came until it was settled.
    pub(super) spent: DurationMs,
    /// How long its run took.
    pub(super) took: DurationMs,
    /// What `quote` would have said of that just before the run began.
    pub(super) predicted: Option<DurationMs>,
    /// What its client declared.
    pub(super) limit: DurationMs,
}

/// A linear congruential generator: the mix must not depend on anything but its seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Seconds that commands take on models, and when jobs come.
struct Mix {
    times: Vec<[u64; MODELS.len()]>,
    /// Milliseconds from the start, and which command.
    jobs: Vec<(u64, u8)>,
}

impl Mix {
    /// Commands take between 8 seconds and 4 minutes, and suit models more or less: by up to two
    /// octaves either way. Jobs come as fast as 60 % of all slots could do them without any choice.
    fn new(seed: u64) -> Self {
        let mut draws = Draws(seed);
        let mut one = || {
            let base = 8 + draws.below(8);
            [0; MODELS.len()].map(|_| base << draws.below(5))
        };
        let times: Vec<_> = (0..COMMANDS).map(|_| one()).collect();
        let count = u64::from(COMMANDS) * MODELS.len() as u64;
        let mean = times.iter().flatten().sum::<u64>() / count;
        let gap_ms = mean * 1_000 * 10 / (6 * u64::from(SLOTS) * u64::from(NODES));
        let mut at = 0;
        let jobs = (0..JOBS).map(|_| {
            at += draws.below(2 * gap_ms);
            let command = u8::try_from(draws.below(COMMANDS.into()));
            (at, command.expect("there are few commands"))
        });
        let jobs = jobs.collect();
        Self { times, jobs }
    }

    /// How long a command takes on a node.
    fn time(&self, command: u8, node: usize) -> DurationMs {
        DurationMs::new(self.times[usize::from(command)][node % MODELS.len()] * 1_000)
    }
}

/// A job that is not settled yet.
struct Open {
    came: Tick,
    command: u8,
    /// When its run began, and what was known of that before.
    begun: Option<(Tick, Option<DurationMs>)>,
}

/// A ledger with nodes.
pub(super) struct Grid {
    rules: Rules,
    view: MemoryView,
    env: BlockEnv,
    nodes: Vec<SecretKey>,
    nonces: BTreeMap<AccountId, u64>,
    is_learning: bool,
}

struct NoEvidence;

impl EquivocationCheck for NoEvidence {
    fn offender(&self, _evidence: &[u8]) -> Option<PublicKey> {
        None
    }
}

/// The same keys in every run.
fn key(role: &[u8], number: u8) -> SecretKey {
    SecretKey::from_seed(sha256(&[b"tensorgrid bench learning", role, &[number]]))
}

fn account(key: &SecretKey) -> AccountId {
    key.public().into()
}

fn owner(number: u8) -> SecretKey {
    key(b"owner", number)
}

fn client() -> AccountId {
    account(&key(b"client", 0))
}

/// A local network's parameters, but what nodes claim is believed and nobody vouches: what is
/// simulated fills no memory and hands nothing over.
fn params() -> Params {
    let usual = Params::local();
    let mut params = Params { capacity: CapacityParams::OFF, ..usual };
    params.jobs.is_vouched = false;
    params.jobs.placements_per_block_max = 64;
    params
}

fn genesis() -> Result<Genesis, GenesisError> {
    let seat = |number: u8| ValidatorSeat {
        key: key(b"seat", number).public(),
        owner: account(&key(b"seat owner", number)),
        stake: params().stake_min,
        address: format!("127.0.0.1:{}", 9_000 + u16::from(number)).parse().expect("an address"),
    };
    let people = (0..NODES).flat_map(|number| [owner(number), key(b"node", number)]);
    let mut allocations: Vec<_> = people.map(|key| (account(&key), BALANCE)).collect();
    allocations.push((client(), BALANCE));
    Genesis::new(GenesisSpec {
        chain: "bench".parse().expect("a chain's name"),
        kind: NetworkKind::Local,
        start: Tick::new(1_700_000_000_000),
        validators: (0..SEATS).map(seat).collect(),
        allocations,
        treasury: Amount::ZERO,
        group_key: Bytes::EMPTY,
        polynomial: Bytes::EMPTY,
        params: params(),
    })
}

/// What a node of this number offers.
fn descriptor(number: u8) -> NodeDescriptor {
    let model = MODELS[usize::from(number) % MODELS.len()].parse().expect("a name");
    let (kind, features, sharing) = (DeviceKind::Gpu, Features::NONE, Sharing::WHOLE);
    let device = Device { kind, model, memory_mib: 1_024, count: 1, features, sharing };
    NodeDescriptor {
        region: "eu-north".parse().expect("a name"),
        devices: List::new(vec![device]).expect("one device"),
        host: HostPart::NONE,
        price_per_hour: PRICE,
        price_per_tera: PRICE,
        slots: SLOTS,
        is_open: true,
        closes: None,
    }
}

fn command(number: u8) -> JobSpec {
    JobSpec {
        work: Work::Opaque { task: Hash32::new([number; 32]) },
        package: Hash32::new(sha256(&[b"package", &[number]])),
        package_bytes: 1_000,
        key_escrow: KeyEscrow::Validators,
        result_key: ResultKey::NONE,
        needs: Needs::ANY,
        tier: Tier::Trusted,
        pay: PAY,
        run_max: LIMIT,
        expires_after: DurationMs::DAY,
        promise: None,
        checkpoint: None,
        nodes: 1,
    }
}

/// What a run gives; nobody looks at it.
fn result(job: JobId) -> RunResult {
    let hash = |label: &[u8]| Hash32::new(sha256(&[label, job.as_bytes()]));
    let (output, trace, package) = (hash(b"output"), hash(b"trace"), hash(b"package"));
    RunResult { output, trace, package, package_bytes: 77 }
}

impl Grid {
    /// A ledger on which all nodes are registered.
    pub(super) fn new(is_learning: bool) -> Result<Self, GridError> {
        let genesis = Arc::new(genesis()?);
        let rules = Rules {
            domain: genesis.domain(),
            genesis,
            equivocation: Arc::new(NoEvidence),
            certificates: Arc::new(AnyCertificate),
            judge: Arc::new(NoPrograms),
            verifier: Arc::new(NoPrograms),
        };
        let env = first_block(&rules);
        let nodes = (0..NODES).map(|number| key(b"node", number)).collect();
        let (view, nonces) = (MemoryView::new(), BTreeMap::new());
        let mut grid = Self { rules, view, env, nodes, nonces, is_learning };
        grid.block(&[])?;
        let mut txs = Vec::new();
        for number in 0..NODES {
            let owner = account(&owner(number));
            let key = key(b"node", number);
            let consent = key.sign(&grid.rules.domain, Kind::NodeConsent, owner.as_bytes());
            let node = NodeId::new(*key.public().as_bytes());
            let descriptor = descriptor(number);
            txs.push(grid.tx(owner, Action::Stake { amount: STAKE }));
            txs.push(grid.tx(owner, Action::RegisterNode { node, descriptor, consent }));
        }
        grid.block(&txs)?;
        Ok(grid)
    }

    /// Runs the mix of a seed until all of it is settled.
    pub(super) fn run(mut self, seed: u64) -> Result<Vec<Done>, GridError> {
        let mix = Mix::new(seed);
        let start = self.env.parent_tick;
        let mut open: BTreeMap<JobId, Open> = BTreeMap::new();
        let (mut coming, mut done) = (mix.jobs.iter().peekable(), Vec::new());
        while coming.peek().is_some() || !open.is_empty() {
            let now = self.env.tick;
            let mut txs = self.deliveries(&mix, &open);
            let has_come = |(at, _): &&(u64, u8)| start.get() + at <= now.get();
            while let Some((at, number)) = coming.next_if(has_come) {
                let specs = List::new(vec![command(*number)]).expect("one job");
                let (escrow_max, vouchers) = (Amount::CAP, List::default());
                let tx = self.tx(client(), Action::SubmitJobs { specs, escrow_max, vouchers });
                let came = Tick::new(start.get() + at);
                open.insert(JobId::of(tx.id(), 0), Open { came, command: *number, begun: None });
                txs.push(tx);
            }
            let told: Vec<_> = (0..COMMANDS).map(|number| self.forecast(number)).collect();
            self.block(&txs)?;
            open.retain(|job, it| {
                let Some((entry, run)) = self.running(job) else { return true };
                let of_begun = it.begun.filter(|(begun, _)| *begun == run.begun);
                it.begun = of_begun.or_else(|| {
                    let told = told.get(usize::from(it.command));
                    Some((run.begun, told.and_then(|told| told(&run))))
                });
                let took = run.took.filter(|_| entry.status == JobStatus::Settled);
                if let (Some(took), Ok(spent)) = (took, now.since(it.came)) {
                    let predicted = it.begun.and_then(|(_, predicted)| predicted);
                    done.push(Done { spent, took, predicted, limit: entry.spec.run_max });
                }
                !entry.status.is_final()
            });
        }
        Ok(done)
    }

    /// What nodes commit to and show in the next block.
    fn deliveries(&mut self, mix: &Mix, open: &BTreeMap<JobId, Open>) -> Vec<CheckedTx> {
        let now = self.env.tick;
        let mut txs = Vec::new();
        for (job, Open { command, .. }) in open {
            let Some((_, run)) = self.running(job) else { continue };
            let is_it = |key: &SecretKey| key.public().as_bytes() == run.node.as_bytes();
            let Some(place) = self.nodes.iter().position(is_it) else { continue };
            let (result, salt) = (result(*job), [7; 32]);
            let took = mix.time(*command, place);
            let action = match run.state {
                RunState::Placed if run.begun.get() + took.get() <= now.get() => {
                    let seal = Sealed { job: *job, seal: result.seal(&run.node, &salt) };
                    Action::CommitResults { seals: List::new(vec![seal]).expect("one") }
                }
                RunState::Committed { .. } => {
                    let opened = OpenedResult { job: *job, result, salt };
                    let results = List::new(vec![opened]).expect("one");
                    Action::RevealResults { results, vouchers: List::default() }
                }
                RunState::Placed | RunState::Revealed { .. } | RunState::Ended { .. } => continue,
            };
            let sender = account(&self.nodes[place]);
            txs.push(self.tx(sender, action));
        }
        txs
    }

    /// What `quote` says now of the time that a run of this command takes.
    fn forecast(&self, number: u8) -> impl Fn(&Run) -> Option<DurationMs> + use<> {
        let spec = command(number);
        let known = subjects(&client(), &spec).into_iter();
        let known = known.map(|it| (it, self.entry::<PaceEntry>(&keys::pace(&it))));
        let forecast = forecast(&spec, None, &known.collect::<Vec<_>>());
        move |run| run.class.and_then(|class| forecast.on(class)).or_else(|| forecast.anywhere())
    }

    /// A job with the run that it has.
    fn running(&self, job: &JobId) -> Option<(JobEntry, Run)> {
        let entry: JobEntry = self.entry(&keys::job(job))?;
        let run = entry.live().next()?.clone();
        Some((entry, run))
    }

    fn entry<T: Decode>(&self, key: &StateKey) -> Option<T> {
        match self.view.get(key) {
            Lookup::Present(bytes) => Some(T::from_bytes(bytes).expect("entries are readable")),
            Lookup::Absent | Lookup::Unknown => None,
        }
    }

    /// The sender's next transaction. The ledger takes checked ones, and this one counts as that.
    fn tx(&mut self, sender: AccountId, action: Action) -> CheckedTx {
        let params = self.rules.genesis.params();
        let size = u32::try_from(TX_BYTES_MAX).expect("a transaction's size is a u32");
        let nonce = self.nonces.entry(sender).or_default();
        let body = TxBody {
            sender,
            lane: Lane::FIRST,
            nonce: Nonce::new(*nonce),
            expires: self.env.height.plus(10).expect("a low height"),
            fee: fee_floor(params, size, &action),
            idempotency: None,
            action,
        };
        *nonce += 1;
        let tx = SignedTx { body, signature: Signature::new([0; Signature::BYTES]) };
        CheckedTx::from_finalised(tx, &self.rules.domain)
    }

    /// Applies a block in which all must succeed; the next one is a second later.
    fn block(&mut self, txs: &[CheckedTx]) -> Result<(), GridError> {
        let applied = apply(&self.rules, &self.view, &self.env, txs)?;
        let failed = applied.receipts.iter().find(|receipt| receipt.status != Status::Applied);
        if let Some(receipt) = failed {
            return Err(GridError::Failed(receipt.status.reason()));
        }
        self.view.commit(&applied.changes);
        if !self.is_learning {
            let keys = self.view.iter().map(|(key, _)| *key);
            let forgotten = keys.filter(|key| key.noun() == Noun::Pace).map(|key| (key, None));
            let forgotten = forgotten.collect();
            self.view.commit(&forgotten);
        }
        let digest = sha256(&[self.env.parent.as_bytes(), applied.receipts_root.as_bytes()]);
        self.env = BlockEnv { parent: HeaderDigest::new(digest), ..next_block(&self.env)? };
        Ok(())
    }
}
