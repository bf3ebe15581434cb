//! Making networks: keys, threshold shares and the genesis of a committee.

use tg_bft::committee::{CommitteeError, deal_threshold_key};
use tg_types::{
    amount::Amount,
    bounded::{Address, BoundError, Bytes},
    genesis::{Genesis, GenesisError, GenesisSpec, NetworkKind, ValidatorSeat},
    hash::sha256,
    ids::{AccountId, ChainId},
    key::{PublicKey, SecretKey},
    params::Params,
    tick::Tick,
};

/// Why a network cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The committee's keys cannot be used.
    #[error("the committee's keys cannot be used")]
    Committee(#[from] CommitteeError),
    /// The genesis breaks one of its own rules.
    #[error("the genesis is not valid")]
    Genesis(#[from] GenesisError),
    /// A part is too large.
    #[error("a part of the genesis is too large")]
    Bound(#[from] BoundError),
}

/// A seat of a network to be made.
pub struct SeatPlan {
    /// The seat's key; votes, network identity and owner account are this one key.
    pub key: SecretKey,
    /// Where the seat's node listens.
    pub address: Address,
    /// Its stake.
    pub stake: Amount,
}

/// A network to be made.
pub struct NetworkPlan {
    /// Its name.
    pub chain: ChainId,
    /// Local networks have a faucet and a dealer who knows all shares.
    pub kind: NetworkKind,
    /// Its first moment.
    pub start: Tick,
    /// Its committee.
    pub seats: Vec<SeatPlan>,
    /// Balances to begin with.
    pub allocations: Vec<(AccountId, Amount)>,
    /// What the treasury begins with.
    pub treasury: Amount,
    /// The ledger's parameters.
    pub params: Params,
    /// Secret seed of the threshold key.
    pub seed: [u8; 32],
}

/// A network and the secret shares of its seats, in the order of the plan.
pub struct MadeNetwork {
    /// The genesis everybody gets.
    pub genesis: Genesis,
    /// What only the seats get.
    pub shares: Vec<Vec<u8>>,
}

/// Makes a network: deals the threshold key and writes the genesis.
///
/// # Errors
/// If keys repeat, amounts exceed the cap, or parameters contradict each other.
pub fn make_network(plan: NetworkPlan) -> Result<MadeNetwork, NetworkError> {
    let keys: Vec<PublicKey> = plan.seats.iter().map(|seat| seat.key.public()).collect();
    let dealt = deal_threshold_key(&keys, sha256(&[b"threshold", &plan.seed]))?;
    let validators = plan
        .seats
        .into_iter()
        .map(|seat| ValidatorSeat {
            key: seat.key.public(),
            owner: AccountId::from(seat.key.public()),
            stake: seat.stake,
            address: seat.address,
        })
        .collect();
    let mut allocations = plan.allocations;
    allocations.sort_by_key(|(account, _)| *account);
    let genesis = Genesis::new(GenesisSpec {
        chain: plan.chain,
        kind: plan.kind,
        start: plan.start,
        validators,
        allocations,
        treasury: plan.treasury,
        group_key: Bytes::new(dealt.group_key)?,
        polynomial: Bytes::new(dealt.polynomial)?,
        params: plan.params,
    })?;
    Ok(MadeNetwork { genesis, shares: dealt.shares })
}
