//! The beginning of a network: who votes, who owns what, and by which parameters.
//!
//! Its hash names the network. Everything signed carries that hash, so the genesis is the one thing
//! a newcomer must have from a trusted place. A [`Genesis`] that exists has passed every check.

use crate::amount::{Amount, AmountError};
use crate::bounded::{Address, Bytes};
use crate::codec::{Decode, DecodeError, Encode, Reader, encode_list, encode_opening};
use crate::hash::{Tag, tagged};
use crate::ids::{AccountId, ChainId, GenesisHash};
use crate::key::{Domain, Kind, PublicKey};
use crate::params::{Params, ParamsError};
use crate::tick::Tick;
use crate::wire;
use std::collections::BTreeSet;

/// The most seats: the engine's votes and keys are sized for a hundred.
pub const SEATS_MAX: usize = 100;
/// The most accounts with a first balance; the first block writes them all at once.
pub const ALLOCATIONS_MAX: usize = 131_072;
/// The most bytes of the threshold group's public key: two points of the largest group in use.
pub const GROUP_KEY_BYTES_MAX: usize = 192;
/// The most bytes of the public commitment to the threshold key's polynomial: a point of 96 bytes
/// for each seat.
pub const POLYNOMIAL_BYTES_MAX: usize = 16 * 1024;

wire! {
    /// What a network is for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum NetworkKind {
        /// One machine or friends; secrets may be in one hand.
        Local = 1,
        /// Strangers; every secret was made where it is used.
        Open = 2,
    }
}

wire! {
    /// A validator's seat.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ValidatorSeat {
        /// The key that votes.
        pub key: PublicKey,
        /// The account that owns the stake and earns.
        pub owner: AccountId,
        /// The stake at the start.
        pub stake: Amount,
        /// Where it listens.
        pub address: Address,
    }
}

/// The content of a genesis, before it is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenesisSpec {
    /// The network's name.
    pub chain: ChainId,
    /// What the network is for.
    pub kind: NetworkKind,
    /// The earliest time of the first block.
    pub start: Tick,
    /// Who votes, by key.
    pub validators: Vec<ValidatorSeat>,
    /// Who owns what at the start, by account.
    pub allocations: Vec<(AccountId, Amount)>,
    /// What the treasury owns at the start.
    pub treasury: Amount,
    /// The public key of the validators' threshold signature.
    pub group_key: Bytes<GROUP_KEY_BYTES_MAX>,
    /// The public commitment to the polynomial that shares it.
    pub polynomial: Bytes<POLYNOMIAL_BYTES_MAX>,
    /// The ledger's parameters.
    pub params: Params,
}

/// Why a genesis is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenesisError {
    /// No seats, or too many.
    #[error("{found} seats, expected 1 to {SEATS_MAX}")]
    Seats {
        /// How many were given.
        found: usize,
    },
    /// Too many first balances.
    #[error("{found} allocations, expected at most {ALLOCATIONS_MAX}")]
    Allocations {
        /// How many were given.
        found: usize,
    },
    /// A voting key with two seats.
    #[error("voting key {0} has two seats")]
    KeyRepeated(PublicKey),
    /// An owner with two seats: whose stake would be slashed for which?
    #[error("owner {0} has two seats")]
    OwnerRepeated(AccountId),
    /// An account with two first balances.
    #[error("account {0} has two allocations")]
    AccountRepeated(AccountId),
    /// A seat with too little at stake.
    #[error("seat of {owner} has a stake of {found}, expected at least {min}")]
    StakeTooLow {
        /// Whose seat.
        owner: AccountId,
        /// Its stake.
        found: Amount,
        /// The least allowed.
        min: Amount,
    },
    /// More money than there can be.
    #[error("allocations, stakes and treasury add up to more than can be")]
    Supply(#[from] AmountError),
    /// Parameters the ledger cannot work with.
    #[error("parameters are refused")]
    Params(#[from] ParamsError),
}

/// A checked genesis and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    spec: GenesisSpec,
    hash: GenesisHash,
    supply: Amount,
}

impl Genesis {
    /// Puts seats and allocations in order and checks everything.
    pub fn new(mut spec: GenesisSpec) -> Result<Self, GenesisError> {
        spec.validators.sort_unstable_by_key(|seat| seat.key);
        spec.allocations.sort_unstable_by_key(|(account, _)| *account);
        let supply = spec.check()?;
        let hash = GenesisHash::new(*tagged(Tag::GENESIS, &[&spec.to_bytes()]).as_bytes());
        Ok(Self { spec, hash, supply })
    }

    /// The content.
    pub const fn spec(&self) -> &GenesisSpec {
        &self.spec
    }

    /// The hash that names the network.
    pub const fn hash(&self) -> GenesisHash {
        self.hash
    }

    /// Where signatures of this network count.
    pub const fn domain(&self) -> Domain {
        Domain { chain: self.spec.chain, genesis: self.hash }
    }

    /// All money at the start: allocations, stakes and treasury.
    pub const fn supply(&self) -> Amount {
        self.supply
    }

    /// The network's name.
    pub const fn chain(&self) -> ChainId {
        self.spec.chain
    }

    /// The earliest time of the first block.
    pub const fn start(&self) -> Tick {
        self.spec.start
    }

    /// Who votes, in the order of their keys.
    pub fn validators(&self) -> &[ValidatorSeat] {
        &self.spec.validators
    }

    /// The seat of a voting key.
    pub fn seat(&self, key: &PublicKey) -> Option<&ValidatorSeat> {
        let place = self.spec.validators.binary_search_by_key(key, |seat| seat.key).ok()?;
        self.spec.validators.get(place)
    }

    /// Who owns what at the start, in the order of the accounts.
    pub fn allocations(&self) -> &[(AccountId, Amount)] {
        &self.spec.allocations
    }

    /// What the treasury owns at the start.
    pub const fn treasury(&self) -> Amount {
        self.spec.treasury
    }

    /// The ledger's parameters.
    pub const fn params(&self) -> &Params {
        &self.spec.params
    }
}

impl GenesisSpec {
    /// All checks, on seats and allocations that are in order; gives the supply.
    fn check(&self) -> Result<Amount, GenesisError> {
        self.params.check()?;
        if self.validators.is_empty() || self.validators.len() > SEATS_MAX {
            return Err(GenesisError::Seats { found: self.validators.len() });
        }
        if self.allocations.len() > ALLOCATIONS_MAX {
            return Err(GenesisError::Allocations { found: self.allocations.len() });
        }
        if let Some(key) = first_repeated(self.validators.iter().map(|seat| seat.key)) {
            return Err(GenesisError::KeyRepeated(key));
        }
        if let Some(account) = first_repeated(self.allocations.iter().map(|(account, _)| *account))
        {
            return Err(GenesisError::AccountRepeated(account));
        }
        let mut owners = BTreeSet::new();
        let mut supply = self.treasury;
        for ValidatorSeat { owner, stake, .. } in &self.validators {
            if !owners.insert(*owner) {
                return Err(GenesisError::OwnerRepeated(*owner));
            }
            let min = self.params.stake_min;
            if *stake < min {
                return Err(GenesisError::StakeTooLow { owner: *owner, found: *stake, min });
            }
            supply = supply.plus(*stake)?;
        }
        for (_, amount) in &self.allocations {
            supply = supply.plus(*amount)?;
        }
        Ok(supply)
    }
}

/// The first item that equals the one before it.
fn first_repeated<T: PartialEq + Copy>(items: impl Iterator<Item = T>) -> Option<T> {
    let mut before = None;
    for item in items {
        if before == Some(item) {
            return Some(item);
        }
        before = Some(item);
    }
    None
}

impl Encode for GenesisSpec {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_opening(Kind::Genesis, out);
        self.chain.encode(out);
        self.kind.encode(out);
        self.start.encode(out);
        encode_list(&self.validators, out);
        encode_list(&self.allocations, out);
        self.treasury.encode(out);
        self.group_key.encode(out);
        self.polynomial.encode(out);
        self.params.encode(out);
    }
}

impl Encode for Genesis {
    fn encode(&self, out: &mut Vec<u8>) {
        self.spec.encode(out);
    }
}

impl Decode for Genesis {
    const BYTES_MIN: usize = 2
        + ChainId::BYTES_MIN
        + NetworkKind::BYTES_MIN
        + Tick::BYTES_MIN
        + (1 + ValidatorSeat::BYTES_MIN)
        + 1
        + Amount::BYTES_MIN
        + 2
        + Params::BYTES_MIN;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.opening(Kind::Genesis)?;
        let spec = GenesisSpec {
            chain: ChainId::decode(reader)?,
            kind: NetworkKind::decode(reader)?,
            start: Tick::decode(reader)?,
            validators: reader.list_within(1, SEATS_MAX)?,
            allocations: reader.list(ALLOCATIONS_MAX)?,
            treasury: Amount::decode(reader)?,
            group_key: Bytes::decode(reader)?,
            polynomial: Bytes::decode(reader)?,
            params: Params::decode(reader)?,
        };
        let at = reader.position();
        if !spec.validators.is_sorted_by_key(|seat| seat.key) {
            return Err(DecodeError::Order { at, expected: "seats by voting key" });
        }
        if !spec.allocations.is_sorted_by_key(|(account, _)| *account) {
            return Err(DecodeError::Order { at, expected: "allocations by account" });
        }
        Self::new(spec).map_err(|source| DecodeError::Genesis { at, source: Box::new(source) })
    }
}
