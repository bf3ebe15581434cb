//! What clients do: every action of the ledger, in good and in bad faith.

use crate::{
    book::Book,
    client::{Client, Ended},
    worker,
    world::{Habit, Purse, Vice, World, chance},
};
use commonware_runtime::{Spawner as _, Supervisor as _, deterministic};
use rand::RngExt as _;
use std::collections::BTreeSet;
use tg_bft::committee::Committee;
use tg_sim::cluster::Directory;
use tg_types::{
    amount::Amount,
    bounded::List,
    ids::{AccountId, Hash32, JobId, NodeId},
    job::{JobSpec, Needs, ResultKey, RunFailure, Tier, Work},
    key::{Kind, PublicKey, SecretKey},
    node::{Device, DeviceKind, Features, NodeDescriptor},
    receipt::Status,
    tick::DurationMs,
    traits::EquivocationCheck as _,
    tx::{Action, Evidence, Memo, NodeSet, ProgramPiece, Sealed},
};

/// More memory than any node has: such a job waits until it expires or is taken back.
const MEMORY_MIB_TOO_MUCH: u32 = 100_000;

/// What a client is out for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Pays others, sometimes wrongly.
    Payer,
    /// Stakes and unstakes.
    Staker,
    /// Stakes for nodes, registers, changes and removes them.
    Provider,
    /// A node.
    Worker(Habit),
    /// Submits and cancels jobs.
    Customer,
    /// Tries what it must not.
    Thief,
    /// Pays two people with the same coin.
    Cheat,
    /// Brings evidence to the chain.
    Witness,
    /// A validator that reports silent nodes.
    Guard,
    /// The owner of a lying seat, who wants the stake out before it is slashed.
    Fugitive,
}

/// Starts all clients; returns how many.
pub(crate) fn start(
    context: &deterministic::Context,
    world: &World,
    directory: &Directory,
    book: &Book,
) -> usize {
    use Role::{Cheat, Customer, Payer, Provider, Staker, Thief, Witness};
    let mut cast: Vec<(&Purse, u8, Role)> = Vec::new();
    let roles =
        [Payer, Payer, Staker, Provider, Customer, Thief, Cheat, Witness, Provider, Provider];
    cast.extend(world.clients.iter().zip(roles).map(|(purse, role)| (purse, 0, role)));
    cast.extend(world.clients.first().map(|purse| (purse, 3, Payer)));
    cast.extend(world.workers.iter().map(|it| (&it.purse, 0, Role::Worker(it.habit))));
    for (place, purse) in world.validators.iter().enumerate() {
        match world.vice(place) {
            None => cast.push((purse, 0, Role::Guard)),
            Some(Vice::Equivocator(_) | Vice::Twins) => cast.push((purse, 1, Role::Fugitive)),
            Some(Vice::Hostile) => {}
        }
    }
    let count = cast.len();
    for (index, (purse, lane, role)) in cast.into_iter().enumerate() {
        let client = Client::new(
            context.child("client").with_attribute("client", index),
            chance(world.seed, &format!("client {index}")),
            purse,
            lane,
            world.genesis.domain(),
            (directory.clone(), world.honest_seats().collect()),
            book.clone(),
        );
        let actor = Actor::new(client, role, world);
        context.child("actor").with_attribute("client", index).spawn(move |_| actor.run());
    }
    count
}

struct Actor {
    client: Client,
    role: Role,
    others: Vec<AccountId>,
    victims: Vec<PublicKey>,
    committee: Committee,
    convicted: BTreeSet<PublicKey>,
    epoch_ms: u64,
    /// Seeds of the keys of the nodes that this client owns.
    workers: Vec<[u8; 32]>,
    made: u8,
}

impl Actor {
    fn new(client: Client, role: Role, world: &World) -> Self {
        let accounts = world.clients.iter().map(|purse| purse.account);
        let victims = world.honest_seats().filter_map(|place| world.validators.get(place));
        let workers = world.workers.iter().filter(|worker| worker.owner == client.account);
        Self {
            role,
            others: accounts.filter(|account| *account != client.account).collect(),
            victims: victims.map(|purse| purse.secret().public()).collect(),
            committee: Committee::new(&world.genesis, &client.domain).expect("a valid genesis"),
            convicted: BTreeSet::new(),
            epoch_ms: world.genesis.params().absence_epoch.get(),
            workers: workers.map(|worker| worker.purse.seed).collect(),
            made: 0,
            client,
        }
    }

    async fn run(mut self) {
        self.client.next_beat(1..2).await;
        while !self.client.is_closing() {
            self.step().await;
            let beats = match self.role {
                Role::Witness | Role::Worker(_) => 1..2,
                Role::Guard => 1..4,
                Role::Payer
                | Role::Staker
                | Role::Provider
                | Role::Customer
                | Role::Thief
                | Role::Cheat
                | Role::Fugitive => 1..3,
            };
            self.client.next_beat(beats).await;
        }
        if self.role == Role::Witness {
            self.testify().await;
        }
        self.client.book.pages().clients_done += 1;
    }

    async fn step(&mut self) {
        match self.role {
            Role::Payer => self.pay().await,
            Role::Staker => self.stake().await,
            Role::Provider => self.provide().await,
            Role::Worker(habit) => worker::work(&mut self.client, habit).await,
            Role::Customer => self.order().await,
            Role::Thief => self.steal().await,
            Role::Cheat => self.cheat().await,
            Role::Witness => self.testify().await,
            Role::Guard => self.report().await,
            Role::Fugitive => self.flee().await,
        }
    }

    fn other(&mut self) -> AccountId {
        self.others[self.client.chance.random_range(0..self.others.len())]
    }

    fn salt(&mut self) -> [u8; 32] {
        self.client.chance.random()
    }

    async fn pay(&mut self) {
        let to = match self.client.chance.random_range(0..12) {
            0 => self.client.account,
            1 => AccountId::from(SecretKey::from_seed(self.salt()).public()),
            _ => self.other(),
        };
        let amount = match self.client.chance.random_range(0..12) {
            0 => Amount::ZERO,
            1 => self.client.coins(1_000_000..2_000_000),
            _ => self.client.coins(1..20),
        };
        let memo = Memo::new(vec![7; self.client.chance.random_range(0..8)]).unwrap_or_default();
        let action = Action::Transfer { to, amount, memo };
        let mark = self.client.chance.random_range(0..4) == 0;
        let idempotency = mark.then(|| self.client.chance.random());
        let ended = self.client.send(action.clone(), idempotency).await;
        // The same request under a new nonce must not take effect again.
        if let (Ended::Acknowledged(_, Status::Applied), Some(id)) = (ended, idempotency) {
            let _refused = self.client.send(action, Some(id)).await;
        }
    }

    async fn stake(&mut self) {
        let amount = self.client.coins(5..40);
        let action = match self.client.chance.random_range(0..5) {
            0..3 => Action::Stake { amount },
            _ => Action::Unstake { amount },
        };
        self.client.send(action, None).await;
    }

    fn descriptor(&mut self) -> NodeDescriptor {
        let device = Device {
            kind: DeviceKind::Gpu,
            model: "sim".parse().expect("a name"),
            memory_mib: self.client.chance.random_range(1..80_000),
            count: 1,
            features: Features::NONE,
            sharing: tg_types::Sharing::WHOLE,
        };
        NodeDescriptor {
            region: "nowhere".parse().expect("a name"),
            devices: List::new(vec![device]).expect("one device"),
            host: tg_types::HostPart::NONE,
            price_per_hour: self.client.coins(1..5),
            price_per_tera: Amount::ZERO,
            slots: self.client.chance.random_range(1..4),
            is_open: self.client.chance.random_range(0..8) > 0,
            closes: None,
        }
    }

    fn some_node(&mut self) -> Option<(NodeId, AccountId)> {
        let nodes = self.client.book.pages().nodes.clone();
        let count = nodes.len();
        (count > 0).then(|| nodes[self.client.chance.random_range(0..count)])
    }

    /// Stake comes first, so that jobs can be placed, then the nodes; later anything.
    async fn provide(&mut self) {
        let step = usize::from(self.made);
        self.made = self.made.saturating_add(1);
        if step == 0 {
            let amount = self.client.coins(20..60);
            self.client.send(Action::Stake { amount }, None).await;
            return;
        }
        let descriptor = self.descriptor();
        let known = self.some_node();
        let is_new = step <= self.workers.len();
        let action = match (self.client.chance.random_range(0..8), known) {
            (0..2, Some((node, _))) if !is_new => Action::ChangeNode { node, descriptor },
            (2, Some((node, _))) if !is_new => Action::LeaveNode { node },
            (3, _) if !is_new => Action::Stake { amount: self.client.coins(5..20) },
            (4, _) if !is_new => {
                let seed = self.salt(); // nobody will work for this one
                self.register(seed, descriptor)
            }
            _ => {
                let seed = self.workers[step % self.workers.len()];
                self.register(seed, descriptor)
            }
        };
        self.client.send(action, None).await;
    }

    /// Registers a node with its consent, now and then with that to another owner.
    fn register(&mut self, seed: [u8; 32], descriptor: NodeDescriptor) -> Action {
        let key = SecretKey::from_seed(seed);
        let is_wrong = self.client.chance.random_range(0..10) == 0;
        let owner = if is_wrong { self.other() } else { self.client.account };
        let node = NodeId::new(*key.public().as_bytes());
        let consent = key.sign(&self.client.domain, Kind::NodeConsent, owner.as_bytes());
        if !is_wrong {
            self.client.book.pages().nodes.push((node, owner));
        }
        Action::RegisterNode { node, descriptor, consent }
    }

    fn some_job(&mut self) -> Option<(JobId, AccountId)> {
        let jobs = self.client.book.pages().jobs.clone();
        let count = jobs.len();
        (count > 0).then(|| jobs[self.client.chance.random_range(0..count)])
    }

    async fn order(&mut self) {
        let known = self.some_job();
        if let (0, Some((job, _))) = (self.client.chance.random_range(0..3), known) {
            self.client.send(Action::CancelJob { job }, None).await;
            return;
        }
        let count = self.client.chance.random_range(1..4);
        let specs: Vec<JobSpec> = (0..count).map(|_| self.spec()).collect();
        let specs = List::new(specs).expect("at most three");
        let escrow_max = match self.client.chance.random_range(0..12) {
            0 => Amount::ZERO,
            _ => self.client.coins(50..90),
        };
        let ended = self
            .client
            .send(Action::SubmitJobs { specs, escrow_max, vouchers: List::default() }, None)
            .await;
        if let Ended::Acknowledged(tx, Status::Applied) = ended {
            let owner = self.client.account;
            let jobs = (0..count).map(|place| (JobId::of(tx, place), owner));
            self.client.book.pages().jobs.extend(jobs);
        }
    }

    /// A job that most networks can do, now and then one that none takes.
    fn spec(&mut self) -> JobSpec {
        let task = Hash32::new(self.salt());
        let chance = &mut self.client.chance;
        let tier = match chance.random_range(0..24) {
            0 => Tier::Redundant { replicas: 9 },
            1 => Tier::Sync, // what is opaque cannot be checked
            2..12 => Tier::Redundant { replicas: 2 },
            _ => Tier::Trusted,
        };
        let is_too_large = chance.random_range(0..4) == 0;
        let memory_mib_min = if is_too_large { MEMORY_MIB_TOO_MUCH } else { 1 };
        JobSpec {
            work: Work::Opaque { task },
            package: task,
            package_bytes: 1,
            key_escrow: tg_types::KeyEscrow::Validators,
            result_key: ResultKey::NONE,
            needs: Needs { memory_mib_min, ..Needs::ANY },
            tier,
            pay: Amount::constant(chance.random_range(2_000_000..400_000_000)),
            run_max: DurationMs::new(chance.random_range(500..2_000)),
            expires_after: DurationMs::new(chance.random_range(500..15_000)),
            promise: None,
            checkpoint: None,
            nodes: 1,
        }
    }

    /// Others' jobs and nodes, and evidence against the honest.
    async fn steal(&mut self) {
        let (job, node) = (self.some_job(), self.some_node());
        let action = match (self.client.chance.random_range(0..8), job, node) {
            (0..3, Some((job, _)), _) => Action::CancelJob { job },
            (3, Some((job, _)), _) => Action::GiveUp { job, failure: RunFailure::Declined },
            (4, Some((job, _)), _) => {
                let seal = Hash32::new(self.salt());
                let seals = List::new(vec![Sealed { job, seal }]).expect("one");
                Action::CommitResults { seals }
            }
            (5, _, Some((node, _))) => Action::LeaveNode { node },
            // Half of a program that is none, then the other half.
            (6, _, _) => {
                let piece = self.made % 2;
                self.made = piece + 1;
                let (program, bytes) = (Hash32::new([7; 32]), ProgramPiece::EMPTY);
                Action::PutProgram { program, piece, pieces: 2, bytes }
            }
            _ => {
                let victim = self.client.chance.random_range(0..self.victims.len().max(1));
                let Some(victim) = self.victims.get(victim) else { return };
                let mut bytes = victim.as_bytes().to_vec();
                bytes.extend(self.salt());
                let evidence = Evidence::new(bytes).expect("64 bytes");
                Action::SubmitEvidence { evidence }
            }
        };
        self.client.send(action, None).await;
    }

    /// Two payments for one place in the lane, given to different nodes.
    async fn cheat(&mut self) {
        let amount = self.client.coins(1..5);
        let pay = |client: &mut Client, to| {
            let memo = Memo::default();
            client.sign(Action::Transfer { to, amount, memo }, None)
        };
        let (first, second) = (self.other(), self.other());
        let (first, second) = (pay(&mut self.client, first), pay(&mut self.client, second));
        self.client.toss(&first).await;
        self.client.follow(&second).await;
    }

    /// Brings what nodes have seen to the chain, once per offender.
    async fn testify(&mut self) {
        let nodes = self.client.nodes_up();
        for evidence in nodes.iter().flat_map(|live| live.chain.take_evidence()) {
            let Some(offender) = self.committee.offender(&evidence) else { continue };
            self.client.book.pages().accused.insert(offender);
            if !self.convicted.insert(offender) && self.made > 3 {
                continue;
            }
            self.made += 1;
            let Ok(evidence) = Evidence::new(evidence.to_vec()) else { continue };
            self.client.send(Action::SubmitEvidence { evidence }, None).await;
        }
    }

    async fn report(&mut self) {
        let tick = self.client.book.pages().tip.map(|(_, tick)| tick);
        let (Some(tick), Some((any, _))) = (tick, self.some_node()) else { return };
        let epoch = tick.get() / self.epoch_ms;
        // Half of the time all guards miss the same node, so that a quorum comes about.
        let nodes = self.client.book.pages().nodes.clone();
        let same = nodes.iter().cycle().nth((epoch % 100) as usize).map_or(any, |(node, _)| *node);
        let node = if self.client.chance.random_bool(0.5) { same } else { any };
        let Ok(nodes) = NodeSet::new(vec![node]) else { return };
        self.client.send(Action::ReportAbsent { epoch, nodes }, None).await;
    }

    async fn flee(&mut self) {
        if self.made < 3 {
            self.made += 1;
            let amount = self.client.coins(10..100);
            self.client.send(Action::Unstake { amount }, None).await;
        }
    }
}
