//! Names of things: 32-byte ids, account ids, chain ids and the keys of ledger entries.
//!
//! Each meaning has its own type, so that a job's id cannot be looked up among the nodes. People
//! see them as lower-case hex; `Debug` shows the first bytes only, because logs are read by people.

use crate::codec::{Decode, DecodeError, Encode, Reader, encode_byte_string};
use crate::hash::{Tag, tagged};
use crate::hex;
use crate::key::{KeyError, PublicKey};
use std::fmt;
use std::str::FromStr;

/// Why text is no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not this many hexadecimal digits.
    #[error("expected {digits} hexadecimal digits")]
    Hex {
        /// How many digits the id has.
        digits: usize,
    },
    /// Not a chain's name.
    #[error("expected 1 to {max} of a-z, 0-9 and -", max = ChainId::BYTES_MAX)]
    Chain,
    /// Digits that are no usable public key.
    #[error("not a public key that can be used")]
    Key(#[from] KeyError),
}

macro_rules! id {
    ($($(#[$meta:meta])* $name:ident [$size:literal];)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $size]);

        impl $name {
            /// From its bytes.
            pub const fn new(bytes: [u8; $size]) -> Self {
                Self(bytes)
            }

            /// Its bytes.
            pub const fn as_bytes(&self) -> &[u8; $size] {
                &self.0
            }
        }

        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                hex::read(text).map(Self).ok_or(IdError::Hex { digits: 2 * $size })
            }
        }

        impl Encode for $name {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.0);
            }
        }

        impl Decode for $name {
            const BYTES_MIN: usize = $size;

            #[inline]
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                reader.array().map(Self)
            }
        }

        hex::display_and_debug!($name);
    )*};
}

id! {
    /// A SHA-256 hash of something that has no id type of its own.
    Hash32 [32];
    /// A transaction: the hash of its signed message, whoever carried it.
    TxId [32];
    /// A job.
    JobId [32];
    /// A provider's node.
    NodeId [32];
    /// A block header in its network.
    HeaderDigest [32];
    /// A network: the hash of its genesis.
    GenesisHash [32];
    /// A sender's own mark on a transaction: while it is remembered, no other with the same mark is
    /// taken.
    IdempotencyId [16];
}

impl JobId {
    const LATER: Tag = Tag::new("tensorgrid/job");

    /// So many bytes are the same in all jobs of a transaction; the next one counts them. Together
    /// with the noun they are what the state's index tells keys apart by.
    const ALIKE: usize = 6;

    /// The job that a transaction submits at this place. The first takes the transaction's id, and
    /// the others begin like it, so that they stand side by side in the state: a new entry makes
    /// the one before it be written again, and so would each of them among strangers.
    pub fn of(tx: TxId, place: u8) -> Self {
        if place == 0 {
            return Self(tx.0);
        }
        let mut id = *tagged(Self::LATER, &[&tx.0, &[place]]).as_bytes();
        id[..Self::ALIKE].copy_from_slice(&tx.0[..Self::ALIKE]);
        id[Self::ALIKE] = tx.0[Self::ALIKE].wrapping_add(place);
        Self(id)
    }
}

impl NodeId {
    /// The account that signs for the node: a node's id is its public key.
    pub fn account(&self) -> Result<AccountId, KeyError> {
        AccountId::new(self.0)
    }
}

/// An account: the public key that signs for it.
///
/// Small-order keys, for which anybody can sign, are refused wherever an id is made. That the bytes
/// are a point of the curve costs a square root, so it is proved where it matters: by the signature
/// of whoever acts for the account, and when a person types the id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId([u8; 32]);

impl AccountId {
    /// From bytes that are no small-order key.
    pub fn new(bytes: [u8; 32]) -> Result<Self, KeyError> {
        if crate::key::is_small_order(&bytes) {
            return Err(KeyError::SmallOrder);
        }
        Ok(Self(bytes))
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key itself, if the bytes are a point of the curve.
    pub fn public(&self) -> Result<PublicKey, KeyError> {
        PublicKey::new(self.0)
    }
}

impl From<PublicKey> for AccountId {
    fn from(key: PublicKey) -> Self {
        Self(*key.as_bytes())
    }
}

impl AsRef<[u8]> for AccountId {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl FromStr for AccountId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let bytes = hex::read(text).ok_or(IdError::Hex { digits: 64 })?;
        Ok(PublicKey::new(bytes)?.into())
    }
}

impl Encode for AccountId {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

impl Decode for AccountId {
    const BYTES_MIN: usize = 32;

    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = reader.array()?;
        Self::new(bytes).map_err(|source| DecodeError::Key { at: reader.position(), source })
    }
}

hex::display_and_debug!(AccountId);

/// A network's name: 1 to 32 letters of a-z, 0-9 and -.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId {
    bytes: [u8; Self::BYTES_MAX],
    length: u8,
}

impl ChainId {
    /// The most letters a name can have.
    pub const BYTES_MAX: usize = 32;

    /// The name.
    pub fn as_str(&self) -> &str {
        let letters = self.bytes.get(..self.length.into()).expect("a name fits its array");
        std::str::from_utf8(letters).expect("a chain's name is ASCII")
    }

    fn from_letters(letters: &[u8]) -> Option<Self> {
        let length = u8::try_from(letters.len()).ok()?;
        let mut bytes = [0; Self::BYTES_MAX];
        bytes.get_mut(..letters.len())?.copy_from_slice(letters);
        let is_letter = |letter: &u8| matches!(letter, b'a'..=b'z' | b'0'..=b'9' | b'-');
        (length > 0 && letters.iter().all(is_letter)).then_some(Self { bytes, length })
    }
}

impl FromStr for ChainId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::from_letters(text.as_bytes()).ok_or(IdError::Chain)
    }
}

impl Encode for ChainId {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_byte_string(self.as_str().as_bytes(), out);
    }
}

impl Decode for ChainId {
    const BYTES_MIN: usize = 2;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let length = reader.length(1, Self::BYTES_MAX)?;
        let letters = reader.take(length)?;
        let expected = "chain name of a-z, 0-9 and -";
        Self::from_letters(letters).ok_or(DecodeError::Range { at: reader.position(), expected })
    }
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChainId({})", self.as_str())
    }
}

crate::wire! {
    /// What a ledger entry is about. The first byte of its key, so that entries of one noun lie
    /// together.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Noun {
        /// Running totals of the supply.
        Totals = 0,
        /// An account's balance and lanes.
        Account = 1,
        /// An idempotency id that has been used.
        Seen = 2,
        /// An account's stake.
        Stake = 3,
        /// A provider's node.
        Node = 4,
        /// A job.
        Job = 5,
        /// What falls due in one second.
        Due = 6,
        /// The ring of recent header digests.
        Headers = 7,
        /// A recorded beacon.
        Beacon = 8,
        /// The peaks of the header log.
        Log = 9,
        /// Ledger parameters.
        Params = 10,
        /// A validator's seat.
        Validator = 11,
        /// How far bounded work has come.
        Cursor = 12,
        /// Reports of absent nodes in one epoch.
        Absence = 13,
        /// A list of ids: nodes, waiting jobs, results that wait for a beacon.
        List = 14,
        /// A tensor program on record.
        Program = 15,
        /// A dispute about a result.
        Dispute = 16,
        /// A piece of a tensor program.
        Piece = 17,
        /// A tensor program of which some pieces are still to come.
        Draft = 18,
        /// A complaint that a package does not open.
        Complaint = 19,
        /// Secret weights that are registered for a program.
        Weights = 20,
        /// What settled jobs have taught about run times.
        Pace = 21,
        /// What is usually asked for of GPUs.
        GpuMix = 22,
    }
}

/// The key of a ledger entry: its noun and 32 bytes that name it within the noun.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateKey([u8; Self::BYTES]);

impl StateKey {
    /// The size of every key.
    pub const BYTES: usize = 33;

    /// The key of the entry `id` of `noun`.
    pub fn new(noun: Noun, id: [u8; 32]) -> Self {
        let mut bytes = [0; Self::BYTES];
        let (tag, rest) = bytes.split_at_mut(1);
        tag.copy_from_slice(&[noun.tag()]);
        rest.copy_from_slice(&id);
        Self(bytes)
    }

    /// The noun of the entry.
    pub fn noun(&self) -> Noun {
        Noun::decode(&mut Reader::new(&self.0)).expect("a key starts with a noun")
    }

    /// The name of the entry within its noun.
    pub fn id(&self) -> [u8; 32] {
        let [_, id @ ..] = self.0;
        id
    }

    /// All its bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl AsRef<[u8]> for StateKey {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Encode for StateKey {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

impl Decode for StateKey {
    const BYTES_MIN: usize = Self::BYTES;

    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self::new(Noun::decode(reader)?, reader.array()?))
    }
}

impl fmt::Debug for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateKey({:?} {:?})", self.noun(), Hash32(self.id()))
    }
}

#[cfg(test)]
mod tests {
    use super::{AccountId, ChainId, Hash32, IdError, IdempotencyId, JobId, Noun, StateKey, TxId};
    use crate::key::{KeyError, SecretKey};
    use std::collections::BTreeSet;

    #[test]
    fn id_is_shown_in_full_and_debugged_short() {
        let mut bytes = [0xab; 32];
        bytes[0] = 0x01;
        let id = Hash32::new(bytes);
        assert_eq!(id.to_string(), format!("01{}", "ab".repeat(31)));
        assert_eq!(format!("{id:?}"), "Hash32(01ababab…)");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().to_uppercase().parse(), Ok(id));
    }

    #[test]
    fn id_of_other_text_is_refused() {
        for text in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"a".repeat(65), &"é".repeat(32)]
        {
            assert_eq!(text.parse::<Hash32>(), Err(IdError::Hex { digits: 64 }), "{text:?}");
            assert_eq!(text.parse::<IdempotencyId>(), Err(IdError::Hex { digits: 32 }), "{text:?}");
        }
    }

    #[test]
    fn account_text_that_is_no_usable_key_is_refused() {
        let account = AccountId::from(SecretKey::from_seed([1; 32]).public());
        assert_eq!(account.to_string().parse(), Ok(account));
        let small_order = "00".repeat(32).parse::<AccountId>();
        assert_eq!(small_order, Err(IdError::Key(KeyError::SmallOrder)));
        let off_curve = format!("02{}", "00".repeat(31)).parse::<AccountId>();
        assert_eq!(off_curve, Err(IdError::Key(KeyError::NotAPoint)));
    }

    #[test]
    fn chain_name_of_other_letters_is_refused() {
        for text in ["a", "local-1", &"z".repeat(32)] {
            assert_eq!(text.parse::<ChainId>().map(|id| id.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "A", "a_b", "a b", "ä", &"z".repeat(33), &"z".repeat(300)] {
            assert_eq!(text.parse::<ChainId>(), Err(IdError::Chain), "{text:?}");
        }
    }

    #[test]
    fn jobs_of_a_transaction_stand_side_by_side_and_are_all_different() {
        let tx = TxId::new([0xf0; 32]);
        let jobs: Vec<JobId> = (0..=u8::MAX).map(|place| JobId::of(tx, place)).collect();
        assert_eq!(jobs[0].as_bytes(), tx.as_bytes());
        for (place, job) in (0_u8..).zip(&jobs) {
            let [alike @ .., counted] = job.as_bytes().first_chunk::<7>().expect("32 bytes");
            assert_eq!((*alike, *counted), ([0xf0; 6], 0xf0_u8.wrapping_add(place)));
        }
        let rests: BTreeSet<&[u8]> = jobs.iter().map(|job| &job.as_bytes()[7..]).collect();
        assert_eq!(rests.len(), jobs.len()); // the rest is a hash
        let other = JobId::of(TxId::new([0xf1; 32]), 1);
        assert_ne!(other.as_bytes()[7..], jobs[1].as_bytes()[7..]);
    }

    #[test]
    fn state_key_starts_with_its_noun() {
        let key = StateKey::new(Noun::Job, [9; 32]);
        assert_eq!((key.noun(), key.id(), key.as_bytes()[0]), (Noun::Job, [9; 32], 5));
        assert!(StateKey::new(Noun::Account, [255; 32]) < StateKey::new(Noun::Seen, [0; 32]));
    }
}
