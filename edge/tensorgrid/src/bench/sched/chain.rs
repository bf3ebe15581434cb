//! Placements through a chain: four validators in this process take arrays of tasks in and place
//! them on a made-up fleet. Nobody runs anything, so what is measured is what the chain does until
//! a task has a node.

use crate::{
    args::Grant,
    bench::{HINT, VALIDATORS, make_network, process::Memory, tenth, wait_for_first_block},
    commands,
    failure::{Failure, OrFail as _},
    files::TemporaryFolder,
    folder::NodeFolder,
    node::{self, RunningNode},
    printer::{Progress, lines},
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tg_api::{
    Client,
    rpc::{SubmitParams, Submitted, Wait},
    text::Hex,
};
use tg_chain::FinalReceipts;
use tg_ledger::fee_floor;
use tg_types::{
    AccountId, Action, Amount, CapacityParams, Device, DeviceKind, DurationMs, Encode as _, Event,
    Features, Hash32, Height, JobSpec, KeyEscrow, Kind, Lane, List, Needs, NodeDescriptor, NodeId,
    Nonce, Params, RegionAsk, ResultKey, SeatSignature, SeatSignatures, SecretKey, Status, Tier,
    TxBody, Voucher, Work,
    hash::sha256,
    key::Domain,
    tx::{ArrayTasks, TX_BYTES_MAX},
};
use tokio::sync::broadcast;

/// Tasks of one transaction.
const TASKS: u16 = 100;

/// Runs that each node takes.
const SLOTS: u16 = 32;

/// Owners of nodes, and clients.
const OWNERS: u32 = 64;
const CLIENTS: u32 = 16;

/// What accounts begin with: more than all bonds and escrows together.
const BALANCE: Amount = Amount::constant(1_000_000_000_000);
const STAKE: Amount = Amount::constant(500_000_000_000);

/// What a run is paid: more than any node asks for.
const PAY: Amount = Amount::constant(4_000);

/// Placements that a block may look at.
const PLACEMENTS_PER_BLOCK_MAX: u32 = 4_096;

/// Transactions of one request.
const BATCH: usize = 32;

/// Start that is left out while queues fill.
const WARM_UP: Duration = Duration::from_secs(1);

/// How long nodes may take to be registered.
const REGISTERED_WITHIN: Duration = Duration::from_secs(120);

/// How long a client rests that is refused.
const REST: Duration = Duration::from_millis(10);

/// Models of devices with their memories, and regions.
const MODELS: [(&str, u32); 6] = [
    ("NVIDIA GeForce RTX 3090", 24_576),
    ("NVIDIA GeForce RTX 4090", 24_564),
    ("NVIDIA L4", 23_034),
    ("NVIDIA A100-SXM4-80GB", 81_920),
    ("NVIDIA H100 80GB HBM3", 81_559),
    ("NVIDIA GeForce RTX 3060", 12_288),
];
const REGIONS: [&str; 4] = ["eu-central", "eu-north", "us-east", "us-west"];

/// How often each reason was given.
type Reasons = BTreeMap<String, u64>;

/// What was measured.
#[derive(Serialize)]
pub(super) struct Figures {
    placed_per_s: f64,
    placed: u64,
    submitted: u64,
    /// Transactions that were refused or failed, by their reasons.
    not_taken: Reasons,
    secs: f64,
    blocks: usize,
    placed_per_block_max: u64,
    validators: u16,
    nodes: u32,
    slots: u64,
    tasks_per_transaction: u16,
    rss_mb: u64,
    simulated_nodes: bool,
}

impl Figures {
    pub(super) fn text(&self) -> String {
        lines(&[
            ("placed", format!("{:.0} tasks each second, final", self.placed_per_s)),
            ("tasks", format!("{} placed of {} submitted", self.placed, self.submitted)),
            ("nodes", format!("{} with {} slots, made up", self.nodes, self.slots)),
            ("blocks", format!("{}, {} placed at most", self.blocks, self.placed_per_block_max)),
            ("memory", format!("{} MB", self.rss_mb)),
        ])
    }
}

/// Starts a network, fills it with nodes and measures for so long.
pub(super) fn measure(nodes: u32, secs: u64, progress: &Progress) -> Result<Figures, Failure> {
    progress.set("making the network");
    let folder = TemporaryFolder::new().or_fail("no temporary folder", "make room on the disk")?;
    let usual = Params::local();
    let mut params =
        Params { capacity: CapacityParams::OFF, expiry_heights_max: 1_000_000, ..usual };
    params.jobs.placements_per_block_max = PLACEMENTS_PER_BLOCK_MAX;
    params.jobs.nodes_max = params.jobs.nodes_max.max(nodes);
    let people = People::new();
    let seats = make_network(folder.path(), params, &people.grants())?;
    let running = commands::start_nodes(&seats)?;
    let found = Load { people, nodes, seats: &seats }.run(&running, secs, progress);
    node::stop_all(running);
    found
}

/// Accounts of the measured network.
struct People {
    owners: Vec<SecretKey>,
    clients: Vec<SecretKey>,
}

impl People {
    fn new() -> Self {
        let all = |role: &'static [u8], count: u32| (0..count).map(move |it| key(role, it));
        Self {
            owners: all(b"tensorgrid bench owner", OWNERS).collect(),
            clients: all(b"tensorgrid bench client", CLIENTS).collect(),
        }
    }

    fn grants(&self) -> Vec<Grant> {
        let account = |key: &SecretKey| AccountId::from(key.public());
        let all = self.owners.iter().chain(&self.clients);
        all.map(|key| Grant { account: account(key), amount: BALANCE }).collect()
    }
}

/// The same keys in every run.
fn key(role: &[u8], number: u32) -> SecretKey {
    SecretKey::from_seed(sha256(&[role, &number.to_be_bytes()]))
}

/// What is offered to the network.
struct Load<'a> {
    people: People,
    nodes: u32,
    seats: &'a [NodeFolder],
}

impl Load<'_> {
    fn run(
        &self,
        running: &[RunningNode],
        secs: u64,
        progress: &Progress,
    ) -> Result<Figures, Failure> {
        let first = running.first().ok_or_else(|| Failure::new("there is no validator", HINT))?;
        let api = first.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None);
        let api = api.or_fail("clients cannot be answered", HINT)?;
        wait_for_first_block(first)?;
        let client =
            Client::new(&api.address().to_string()).or_fail("clients cannot be answered", HINT)?;
        let watch = Arc::new(Watch::default());
        let (blocks, listener) = (first.chain().subscribe(), Arc::clone(&watch));
        // It ends with the chain.
        let _listening = thread::spawn(move || listener.listen(blocks));
        progress.set("registering nodes");
        self.register(&client, &watch)?;
        progress.set("signing arrays of tasks");
        let arrays = self.arrays();
        progress.set("measuring");
        let (started, span) = (Instant::now(), Duration::from_secs(secs));
        let refused = offer(&client, &arrays, started + span)?;
        let ended = started + span;
        thread::sleep(ended.saturating_duration_since(Instant::now()));
        let mut heard = watch.heard();
        for (reason, count) in refused {
            *heard.failed.entry(reason).or_default() += count;
        }
        Ok(self.figures(heard, (started, ended)))
    }

    fn figures(&self, heard: Heard, (started, ended): (Instant, Instant)) -> Figures {
        let from = started + WARM_UP;
        let within = heard.blocks.iter().filter(|(at, _)| (from..ended).contains(at));
        let counts: Vec<u64> = within.map(|(_, placed)| *placed).collect();
        let placed: u64 = counts.iter().sum();
        let secs = (ended - from).as_secs_f64();
        Figures {
            placed_per_s: tenth(f64::from(u32::try_from(placed).unwrap_or(u32::MAX)) / secs),
            placed,
            submitted: heard.queued,
            not_taken: heard.failed,
            secs,
            blocks: counts.len(),
            placed_per_block_max: counts.into_iter().max().unwrap_or(0),
            validators: VALIDATORS,
            nodes: self.nodes,
            slots: u64::from(self.nodes) * u64::from(SLOTS),
            tasks_per_transaction: TASKS,
            rss_mb: Memory::read().peak_mib,
            simulated_nodes: true,
        }
    }

    /// Registers all nodes and waits until they are on record.
    fn register(&self, client: &Client, watch: &Watch) -> Result<(), Failure> {
        let domain = self.domain();
        let mut books: Vec<Vec<Vec<u8>>> = Vec::new();
        for (number, owner) in (0..).zip(&self.people.owners) {
            let mut actions = vec![Action::Stake { amount: STAKE }];
            let own = (0..self.nodes).filter(|it| it % OWNERS == number);
            actions.extend(own.map(|number| registered(number, owner, &domain)));
            books.push(self.signed(owner, actions));
        }
        let until = Instant::now() + REGISTERED_WITHIN;
        let _pool_was_full = offer(client, &books, until)?;
        while watch.heard().registered < u64::from(self.nodes) {
            if Instant::now() > until {
                return Err(Failure::new("nodes were not registered in time", HINT));
            }
            thread::sleep(REST);
        }
        Ok(())
    }

    /// Arrays of tasks for all slots, by client.
    fn arrays(&self) -> Vec<Vec<Vec<u8>>> {
        let slots = u64::from(self.nodes) * u64::from(SLOTS);
        let arrays = u32::try_from(slots / u64::from(TASKS)).unwrap_or(u32::MAX);
        let of = |(number, client): (u32, &SecretKey)| {
            let own = (number..arrays).step_by(CLIENTS as usize);
            self.signed(client, own.map(|array| self.array(array)).collect())
        };
        (0..).zip(&self.people.clients).map(of).collect()
    }

    /// One array: every third may run anywhere, others name a memory, a region or a model.
    fn array(&self, number: u32) -> Action {
        let place = number as usize;
        // A command that needs a GPU would hold it, and this measures slots.
        let mut needs = Needs::ANY;
        match number % 6 {
            1 => needs.memory_mib_min = 16 << 10,
            2 => {
                let region = REGIONS[place / 6 % REGIONS.len()].parse().ok();
                needs.region = region.map_or(RegionAsk::Any, |region| RegionAsk::Only { region });
            }
            4 => needs.memory_mib_min = 40 << 10,
            5 => needs.model = ["RTX 4090", "A100"][place / 6 % 2].parse().ok(),
            _ => {}
        }
        let spec = JobSpec {
            work: Work::Opaque { task: Hash32::new(sha256(&[&number.to_be_bytes()])) },
            package: Hash32::new(sha256(&[b"package", &number.to_be_bytes()])),
            package_bytes: 1_000,
            key_escrow: KeyEscrow::Validators,
            result_key: ResultKey::NONE,
            needs,
            tier: Tier::Trusted,
            pay: PAY,
            run_max: DurationMs::HOUR,
            expires_after: DurationMs::HOUR,
            promise: None,
            checkpoint: None,
            nodes: 1,
        };
        let vouchers = List::new(vec![self.voucher(&spec)]).expect("one voucher");
        let tasks = ArrayTasks { first: 0, count: TASKS };
        Action::SubmitArray { spec, tasks, escrow_max: Amount::CAP, vouchers }
    }

    /// Signatures of a quorum for an array's package, as validators give them.
    fn voucher(&self, spec: &JobSpec) -> Voucher {
        let packages = List::new(vec![spec.package_ref()]).expect("one package");
        let domain = self.domain();
        let quorum = self.seats.len() - (self.seats.len() - 1) / 3;
        let sign = |seat: &NodeFolder| {
            let seats = seat.genesis.validators().iter();
            let place = seats.take_while(|it| it.key != seat.key.public()).count();
            let place = u8::try_from(place).expect("a seat's place is a byte");
            SeatSignature::sign(&seat.key, &domain, place, &packages)
        };
        let signatures = self.seats.iter().take(quorum).map(sign).collect();
        Voucher { signatures: SeatSignatures::new(signatures).expect("different seats"), packages }
    }

    fn domain(&self) -> Domain {
        self.seats.first().expect("there are seats").genesis.domain()
    }

    /// Signs an account's actions in order.
    fn signed(&self, key: &SecretKey, actions: Vec<Action>) -> Vec<Vec<u8>> {
        let domain = self.domain();
        let params = self.seats.first().expect("there are seats").genesis.params();
        let sign = |(nonce, action): (u64, Action)| {
            let size = u32::try_from(TX_BYTES_MAX).expect("a transaction's size is a u32");
            let body = TxBody {
                sender: AccountId::from(key.public()),
                lane: Lane::FIRST,
                nonce: Nonce::new(nonce),
                expires: Height::new(params.expiry_heights_max),
                fee: fee_floor(params, size, &action),
                idempotency: None,
                action,
            };
            body.sign(key, &domain).to_bytes()
        };
        (0..).zip(actions).map(sign).collect()
    }
}

/// The registration of a node by its owner.
fn registered(number: u32, owner: &SecretKey, domain: &Domain) -> Action {
    let (node, place) = (key(b"tensorgrid bench node", number), number as usize);
    let (model, memory_mib) = MODELS[place % MODELS.len()];
    let device = Device {
        kind: DeviceKind::Gpu,
        model: model.parse().expect("a name"),
        memory_mib,
        count: 1,
        features: Features::SANDBOX,
        sharing: tg_types::Sharing::WHOLE,
    };
    let price = |units: u64| Amount::new(units + u64::from(number % 7) * 300).expect("small");
    let descriptor = NodeDescriptor {
        region: REGIONS[place / MODELS.len() % REGIONS.len()].parse().expect("a name"),
        devices: List::new(vec![device]).expect("one device"),
        host: tg_types::HostPart::NONE,
        price_per_hour: price(1_000),
        price_per_tera: price(1_000),
        slots: SLOTS,
        is_open: true,
        closes: None,
    };
    let owner = AccountId::from(owner.public());
    let consent = node.sign(domain, Kind::NodeConsent, owner.as_bytes());
    Action::RegisterNode { node: NodeId::new(*node.public().as_bytes()), descriptor, consent }
}

/// Offers transactions of all accounts in turn, each account's in order, until a time. Those that
/// are refused are offered again; says why they were.
fn offer(client: &Client, books: &[Vec<Vec<u8>>], until: Instant) -> Result<Reasons, Failure> {
    let mut client = client.clone();
    let mut refused = Reasons::new();
    let mut next = vec![0; books.len()];
    while Instant::now() < until {
        let mut txs = Vec::new();
        let mut senders = Vec::new();
        // In rounds, so that no account runs ahead of the others.
        for ahead in 0..BATCH.div_ceil(books.len().max(1)) {
            for (sender, book) in books.iter().enumerate() {
                if let Some(bytes) = book.get(next[sender] + ahead) {
                    txs.push(Hex(bytes.clone()));
                    senders.push(sender);
                }
            }
        }
        if txs.is_empty() {
            break;
        }
        let params = SubmitParams { txs, wait: Wait::None, timeout_ms: None, brief: true };
        let answer = client.submit_with(&params).or_fail("the load lost the node", HINT)?;
        let mut is_refused = vec![false; books.len()];
        for (sender, result) in senders.iter().zip(answer.results) {
            let is_taken = matches!(result, Submitted::Accepted { .. });
            if let Submitted::Refused { code, .. } = result {
                *refused.entry(code).or_default() += 1;
            }
            is_refused[*sender] |= !is_taken;
            next[*sender] += usize::from(is_taken && !is_refused[*sender]);
        }
        if is_refused.contains(&true) {
            thread::sleep(REST);
        }
    }
    Ok(refused)
}

/// What the first validator says of final blocks.
#[derive(Default)]
struct Watch(Mutex<Heard>); // a lock: one thread listens, another one measures

#[derive(Clone, Default)]
struct Heard {
    registered: u64,
    queued: u64,
    failed: Reasons,
    /// When how many tasks were placed.
    blocks: Vec<(Instant, u64)>,
}

impl Watch {
    fn heard(&self) -> Heard {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn listen(&self, mut blocks: broadcast::Receiver<Arc<FinalReceipts>>) {
        while let Ok(block) = blocks.blocking_recv() {
            let count = |is_counted: fn(&Event) -> bool| {
                let found = block.record.events().filter(|(_, event)| is_counted(event)).count();
                u64::try_from(found).unwrap_or(u64::MAX)
            };
            let placed = count(|event| matches!(event, Event::JobPlaced { .. }));
            let receipts = block.record.receipts.iter();
            let failed = receipts.filter(|receipt| receipt.status != Status::Applied);
            let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            heard.registered += count(|event| matches!(event, Event::NodeRegistered { .. }));
            heard.queued += count(|event| matches!(event, Event::JobQueued { .. }));
            for receipt in failed {
                let code = receipt.status.reason().code().to_owned();
                *heard.failed.entry(code).or_default() += 1;
            }
            if placed > 0 {
                heard.blocks.push((Instant::now(), placed));
            }
        }
    }
}
