//! What clients do: every action of the ledger, in good and in bad faith.

use crate::{
    book::Book,
    client::{Client, Ended},
    world::{Vice, World, chance},
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
    job::JobSpec,
    key::PublicKey,
    node::{Device, DeviceKind, NodeDescriptor},
    receipt::Status,
    tick::DurationMs,
    traits::EquivocationCheck as _,
    tx::{Action, Evidence, Memo, NodeSet},
};

/// What a client is out for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Pays others, sometimes wrongly.
    Payer,
    /// Stakes and unstakes.
    Staker,
    /// Registers, changes and removes nodes.
    Provider,
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
    let mut cast: Vec<(&crate::world::Purse, u8, Role)> = Vec::new();
    let roles = [Payer, Payer, Staker, Provider, Customer, Thief, Cheat, Witness];
    cast.extend(world.clients.iter().zip(roles).map(|(purse, role)| (purse, 0, role)));
    cast.extend(world.clients.first().map(|purse| (purse, 3, Payer)));
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
    made: u8,
}

impl Actor {
    fn new(client: Client, role: Role, world: &World) -> Self {
        let accounts = world.clients.iter().map(|purse| purse.account);
        let victims = world.honest_seats().filter_map(|place| world.validators.get(place));
        Self {
            role,
            others: accounts.filter(|account| *account != client.account).collect(),
            victims: victims.map(|purse| purse.secret().public()).collect(),
            committee: Committee::new(&world.genesis, &client.domain).expect("a valid genesis"),
            convicted: BTreeSet::new(),
            epoch_ms: world.genesis.params().absence_epoch.get(),
            made: 0,
            client,
        }
    }

    async fn run(mut self) {
        self.client.next_beat(1..2).await;
        while !self.client.is_closing() {
            self.step().await;
            let beats = match self.role {
                Role::Witness => 1..2,
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
            1 => AccountId::from(tg_types::SecretKey::from_seed(self.salt()).public()),
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
        };
        NodeDescriptor {
            region: "nowhere".parse().expect("a name"),
            devices: List::new(vec![device]).expect("one device"),
            price_per_hour: self.client.coins(1..5),
        }
    }

    fn some_node(&mut self) -> Option<(NodeId, AccountId)> {
        let nodes = self.client.book.pages().nodes.clone();
        let count = nodes.len();
        (count > 0).then(|| nodes[self.client.chance.random_range(0..count)])
    }

    async fn provide(&mut self) {
        let descriptor = self.descriptor();
        let known = self.some_node();
        let action = match (self.client.chance.random_range(0..4), known) {
            (0, Some((node, _))) => Action::ChangeNode { node, descriptor },
            (1, Some((node, _))) => Action::LeaveNode { node },
            _ => {
                let node = NodeId::new(self.salt());
                self.client.book.pages().nodes.push((node, self.client.account));
                Action::RegisterNode { node, descriptor }
            }
        };
        self.client.send(action, None).await;
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
        let spec = JobSpec {
            program: Hash32::new(self.salt()),
            input: Hash32::new(self.salt()),
            max_run_ms: DurationMs::new(1_000),
            expires_after: DurationMs::new(self.client.chance.random_range(500..6_000)),
            memory_mib_min: 1,
        };
        let escrow = self.client.coins(1..9);
        let ended = self.client.send(Action::SubmitJob { spec, escrow }, None).await;
        if let Ended::Acknowledged(tx, Status::Applied) = ended {
            let owner = self.client.account;
            self.client.book.pages().jobs.push((JobId::of(tx), owner));
        }
    }

    /// Others' jobs and nodes, and evidence against the honest.
    async fn steal(&mut self) {
        let (job, node) = (self.some_job(), self.some_node());
        let action = match (self.client.chance.random_range(0..4), job, node) {
            (0 | 1, Some((job, _)), _) => Action::CancelJob { job },
            (2, _, Some((node, _))) => Action::LeaveNode { node },
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
        let (Some(tick), Some((node, _))) = (tick, self.some_node()) else { return };
        let epoch = tick.get() / self.epoch_ms;
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
