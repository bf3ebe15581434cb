//! Weights that only their owner has, as the network knows them: by a commitment.
//!
//! The commitment is opaque to core but for two things that the ledger counts by: its id, and how
//! many proofs may be made about it before they could show something of the weights.

use crate::bounded::Bytes;
use crate::codec::{Decode as _, DecodeError, Encode as _};
use crate::hash::{Tag, tagged};
use crate::ids::{AccountId, GenesisHash, Hash32};
use crate::key::SecretKey;
use crate::tx::ShownBytes;
use crate::wire;

/// The most proofs that one commitment may be for, its registration included. Every proof needs
/// noise in the commitment, and whoever proves has all of it in memory.
pub const WEIGHTS_PROOFS_MAX: u16 = 256;

/// The fewest: the registration, and a run.
pub const WEIGHTS_PROOFS_MIN: u16 = 2;

wire! {
    /// A hiding commitment to weights.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SecretWeights {
        /// Its root.
        pub root: Hash32,
        /// How many proofs may be made about it, the registration included.
        pub proofs: u16,
    }
}

impl SecretWeights {
    const ID: Tag = Tag::new("tensorgrid/proof-hiding-weights");

    /// What jobs and results name it by.
    pub fn id(&self) -> Hash32 {
        tagged(Self::ID, &[&self.to_bytes()])
    }

    /// Whether the network counts that many proofs.
    pub fn is_countable(&self) -> bool {
        (WEIGHTS_PROOFS_MIN..=WEIGHTS_PROOFS_MAX).contains(&self.proofs)
    }
}

wire! {
    /// That secret weights fit a program, with all that a proof of it must be bound to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RegistrationClaim {
        /// The network, by its genesis.
        pub genesis: GenesisHash,
        /// Whose weights they are.
        pub owner: AccountId,
        /// The program.
        pub program: Hash32,
        /// The commitment.
        pub weights: SecretWeights,
    }
}

impl RegistrationClaim {
    /// The network of a registration that is for none.
    pub const NOWHERE: GenesisHash = GenesisHash::new([0; 32]);

    /// The account of a registration that is for no network: whoever likes has its key.
    pub fn nobody() -> AccountId {
        AccountId::from(SecretKey::from_seed([0; 32]).public())
    }
}

wire! {
    /// A registration with all that is needed to verify it, as a file.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RegistrationFile {
        /// What is claimed.
        pub claim: RegistrationClaim,
        /// The program that the claim names.
        pub program: Bytes<{ 256 * 1024 }>,
        /// What shows it.
        pub proof: ShownBytes,
    }
}

impl RegistrationFile {
    /// The first bytes of such a file.
    pub const MAGIC: [u8; 4] = *b"TGW1";

    /// The bytes of the file.
    pub fn to_file(&self) -> Vec<u8> {
        let mut bytes = Self::MAGIC.to_vec();
        self.encode(&mut bytes);
        bytes
    }

    /// Reads a file; `None` if it is another one.
    pub fn from_file(bytes: &[u8]) -> Option<Result<Self, DecodeError>> {
        bytes.strip_prefix(&Self::MAGIC).map(Self::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{SecretWeights, WEIGHTS_PROOFS_MAX, WEIGHTS_PROOFS_MIN};
    use crate::codec::Encode as _;
    use crate::ids::Hash32;

    #[test]
    fn commitment_is_named_by_its_root_and_its_number() {
        let weights = |proofs| SecretWeights { root: Hash32::new([7; 32]), proofs };
        assert_eq!(weights(0x0102).to_bytes(), [&[7; 32][..], &[1, 2]].concat());
        assert_ne!(weights(2).id(), weights(3).id());
        let ends = [WEIGHTS_PROOFS_MIN, WEIGHTS_PROOFS_MAX];
        assert!(ends.iter().all(|proofs| weights(*proofs).is_countable()));
        let beyond = [0, WEIGHTS_PROOFS_MIN - 1, WEIGHTS_PROOFS_MAX + 1, u16::MAX];
        assert!(!beyond.iter().any(|proofs| weights(*proofs).is_countable()));
    }
}
