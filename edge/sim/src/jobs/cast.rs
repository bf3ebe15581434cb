//! Who takes part: owners with a node each, clients, strangers, and the genesis that gives them
//! their money.

use super::plan::{Checker, DISHONEST, PARTIES, Ploy, SLOTS, STAKE_TGRID, Scenario};
use super::tally::Role;
use crate::world::Purse;
use std::collections::BTreeMap;
use tg_types::{
    amount::Amount,
    bounded::{Bytes, List},
    genesis::{Genesis, GenesisSpec, NetworkKind, ValidatorSeat},
    hash::sha256,
    ids::{AccountId, NodeId},
    key::{Domain, Kind},
    node::{Device, DeviceKind, Features, NodeDescriptor},
    params::{CapacityParams, Params},
    tick::Tick,
    tx::Action,
};

/// When a network starts.
const START: Tick = Tick::new(1_800_000_000_000);

/// Seats of the genesis. Nobody votes about blocks here, but they judge complaints.
const SEATS: usize = 4;

/// An owner with its node.
pub(super) struct Party {
    pub(super) owner: AccountId,
    pub(super) node: NodeId,
    /// The account that the node signs with.
    pub(super) account: AccountId,
    pub(super) ploy: Ploy,
    pub(super) checker: Checker,
    purse: Purse,
}

impl Party {
    /// Whether it plays by the rules in every role.
    pub(super) fn is_honest(&self) -> bool {
        self.ploy == Ploy::Honest && self.checker == Checker::Honest
    }

    /// Whether it plays by the rules in this one.
    pub(super) fn is_honest_in(&self, role: Role) -> bool {
        match role {
            Role::Run => self.ploy == Ploy::Honest,
            Role::Check | Role::Challenge => self.checker == Checker::Honest,
        }
    }

    /// What registers its node.
    pub(super) fn register(&self, domain: &Domain) -> Action {
        let device = Device {
            kind: DeviceKind::Cpu,
            model: "sim".parse().expect("a name"),
            memory_mib: 1_024,
            count: 1,
            features: Features::NONE,
            sharing: tg_types::Sharing::WHOLE,
        };
        let descriptor = NodeDescriptor {
            region: "nowhere".parse().expect("a name"),
            devices: List::new(vec![device]).expect("one device"),
            host: tg_types::HostPart::NONE,
            price_per_hour: Amount::ZERO,
            price_per_tera: Amount::ZERO,
            slots: SLOTS,
            is_open: true,
            closes: None,
        };
        let owner = self.owner.as_bytes();
        let consent = self.purse.secret().sign(domain, Kind::NodeConsent, owner);
        Action::RegisterNode { node: self.node, descriptor, consent }
    }
}

/// Everybody.
pub(super) struct Cast {
    pub(super) parties: Vec<Party>,
    by_node: BTreeMap<NodeId, usize>,
    by_account: BTreeMap<AccountId, usize>,
    /// Owners of the seats of the genesis.
    pub(super) seats: Vec<AccountId>,
    pub(super) client: AccountId,
    pub(super) stranger: AccountId,
}

fn purse(seed: u64, kind: &str, index: usize) -> Purse {
    let index = index.to_be_bytes();
    Purse::new(sha256(&[b"tg-sim jobs", &seed.to_be_bytes(), kind.as_bytes(), &index]))
}

fn tgrid(whole: u64) -> Amount {
    Amount::tgrid(whole).expect("below the cap")
}

impl Cast {
    /// The cast of a scenario. The dishonest ones are spread over the ids by their keys.
    pub(super) fn new(seed: u64, scenario: &Scenario) -> Self {
        let party = |index: usize| {
            let (owner, node) = (purse(seed, "owner", index), purse(seed, "node", index));
            let turn = index.checked_sub(PARTIES - DISHONEST).filter(|_| scenario.is_armed);
            let (ploy, checker) = match turn {
                Some(turn) => (
                    scenario.ploys[turn % scenario.ploys.len()],
                    scenario.checkers[turn % scenario.checkers.len()],
                ),
                None => (Ploy::Honest, Checker::Honest),
            };
            let (owner, account) = (owner.account, node.account);
            let id = NodeId::new(*account.as_bytes());
            Party { owner, node: id, account, ploy, checker, purse: node }
        };
        let parties: Vec<Party> = (0..PARTIES).map(party).collect();
        let places = || parties.iter().zip(0..);
        Self {
            by_node: places().map(|(party, place)| (party.node, place)).collect(),
            by_account: places()
                .flat_map(|(party, place)| [(party.account, place), (party.owner, place)])
                .collect(),
            seats: (0..SEATS).map(|index| purse(seed, "seat", index).account).collect(),
            client: purse(seed, "client", 0).account,
            stranger: purse(seed, "stranger", 0).account,
            parties,
        }
    }

    /// The party with this node.
    pub(super) fn of_node(&self, node: &NodeId) -> Option<usize> {
        self.by_node.get(node).copied()
    }

    /// The party that this account belongs to, as a node or as its owner.
    pub(super) fn of_account(&self, account: &AccountId) -> Option<usize> {
        self.by_account.get(account).copied()
    }

    /// How many parties besides these are honest, and how many are not.
    pub(super) fn others(&self, but: &[AccountId]) -> (usize, usize) {
        let others = self.parties.iter().filter(|party| !but.contains(&party.owner));
        let honest: Vec<bool> = others.map(Party::is_honest).collect();
        let count = honest.iter().filter(|is_honest| **is_honest).count();
        (count, honest.len() - count)
    }

    /// A network in which everybody has money.
    pub(super) fn genesis(&self, seed: u64, scenario: &Scenario) -> Genesis {
        let seat = |index: usize| {
            let seat = purse(seed, "seat", index);
            ValidatorSeat {
                key: seat.secret().public(),
                owner: seat.account,
                stake: tgrid(1_000),
                address: format!("127.0.0.1:{}", 9_000 + index).parse().expect("an address"),
            }
        };
        let rich = tgrid(STAKE_TGRID + 10_000);
        let parties = self.parties.iter();
        let mut allocations: Vec<(AccountId, Amount)> =
            parties.flat_map(|party| [(party.owner, rich), (party.account, rich)]).collect();
        allocations.extend(self.seats.iter().map(|seat| (*seat, tgrid(1_000))));
        allocations.push((self.client, tgrid(1_000_000)));
        allocations.push((self.stranger, tgrid(1_000_000)));
        let mut params = Params { capacity: CapacityParams::OFF, ..Params::local() };
        params.jobs.is_vouched = false; // nothing is sealed here
        if let Some(checkers) = scenario.checkers_drawn {
            params.jobs.sync_checkers = checkers;
        }
        if let Some(tiles) = scenario.sample {
            (params.jobs.audit_tiles, params.jobs.audit_tiles_from) = (tiles, 1);
        }
        Genesis::new(GenesisSpec {
            chain: "sim".parse().expect("a chain id"),
            kind: NetworkKind::Open,
            start: START,
            validators: (0..SEATS).map(seat).collect(),
            allocations,
            treasury: tgrid(1_000),
            group_key: Bytes::EMPTY,
            polynomial: Bytes::EMPTY,
            params,
        })
        .expect("a valid genesis")
    }
}
