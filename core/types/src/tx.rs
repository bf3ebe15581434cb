//! Transactions: what an account asks the ledger to do, signed by the account's key.
//!
//! A transaction's id is the hash of what was signed, so it does not change with whoever carries
//! it, and a signature cannot be varied to make a second id. The ledger takes only a [`CheckedTx`]:
//! whether a signature is valid is decided here, once, and nowhere else.

mod action;
mod check;

pub use action::{
    ARRAY_TASKS_MAX, Action, Adjustment, ArrayTasks, CapacityOpenings, DisputeAnswer,
    DisputeEvidence, Evidence, JOBS_PER_TX_MAX, Memo, NodeSet, OpenedCheck, OpenedResult,
    PROGRAM_PIECES_MAX, ProgramPiece, REPORTS_PER_TX_MAX, SHOWN_BYTES_MAX, SHOWN_OPENLY_BYTES_MAX,
    Sealed, ShownBytes,
};
pub use check::{CheckedTx, TxError, check_batch};

use crate::amount::Amount;
use crate::codec::{Decode, DecodeError, Encode, Reader, encode_opening};
use crate::hash::{Tag, tagged};
use crate::ids::{AccountId, IdempotencyId, TxId};
use crate::key::{Domain, Kind, SecretKey, Signature};
use crate::tick::Height;
use crate::wire;
use std::fmt;

/// The most bytes of a signed transaction. The bounds of most actions keep it below; those with
/// vouchers are held against it when they are read.
pub const TX_BYTES_MAX: usize = 16 * 1024;

/// The most bytes of a signed transaction that proves a result, and of any at all. A block has room
/// for one of them.
pub const PROOF_TX_BYTES_MAX: usize = 2 * 1024 * 1024;

const _: () = assert!(SHOWN_BYTES_MAX + TX_BYTES_MAX <= PROOF_TX_BYTES_MAX);

/// How many independent sequences of nonces an account has, so that programs sharing it need not
/// wait for each other.
pub const LANES_MAX: u8 = 8;

/// One of an account's independent sequences of nonces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(u8);

/// Not the number of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lane {found} does not exist, expected below {LANES_MAX}")]
pub struct LaneError {
    /// The number given.
    pub found: u8,
}

impl Lane {
    /// The lane of those who need only one.
    pub const FIRST: Self = Self(0);

    /// The lane with this number.
    pub const fn new(number: u8) -> Result<Self, LaneError> {
        if number < LANES_MAX { Ok(Self(number)) } else { Err(LaneError { found: number }) }
    }

    /// Its number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Encode for Lane {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.0);
    }
}

impl Decode for Lane {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = reader.byte()?;
        let expected = "lane below 8";
        Self::new(number).map_err(|_| DecodeError::Range { at: reader.position(), expected })
    }
}

/// A transaction's place in its lane. Each is used once and in order, starting with 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(u64);

impl Nonce {
    /// The first of a lane.
    pub const ZERO: Self = Self(0);

    /// From its number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next one; `None` at the end of all numbers.
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

impl Encode for Nonce {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for Nonce {
    const BYTES_MIN: usize = 8;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        u64::decode(reader).map(Self)
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

wire! {
    /// What is signed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TxBody {
        /// Who asks, pays and signs.
        pub sender: AccountId,
        /// In which sequence.
        pub lane: Lane,
        /// At which place of the sequence.
        pub nonce: Nonce,
        /// The first height at which it is no longer valid.
        pub expires: Height,
        /// What it pays, whatever comes of it.
        pub fee: Amount,
        /// A mark against sending the same thing twice.
        pub idempotency: Option<IdempotencyId>,
        /// What it asks for.
        pub action: Action,
    }
}

impl TxBody {
    /// Signs the body. With a key that is not the sender's the result will not pass
    /// [`check_batch`].
    pub fn sign(self, secret: &SecretKey, domain: &Domain) -> SignedTx {
        let signature = secret.sign_opened(&self.message(domain));
        SignedTx { body: self, signature }
    }

    /// The transaction's id in this network.
    pub fn id(&self, domain: &Domain) -> TxId {
        id_of(&self.message(domain))
    }

    /// What is signed: network and kind, then the signed transaction's bytes up to the signature.
    fn message(&self, domain: &Domain) -> Vec<u8> {
        domain.message_of(Kind::Transaction, |out| self.encode_opened(out))
    }

    /// The signed transaction's bytes up to the signature. The format is signed with the rest, so
    /// that a signature for one format can never be read as one for another.
    fn encode_opened(&self, out: &mut Vec<u8>) {
        encode_opening(Kind::Transaction, out);
        self.encode(out);
    }
}

/// The id of the transaction with this signed message.
fn id_of(message: &[u8]) -> TxId {
    TxId::new(*tagged(Tag::TX, &[message]).as_bytes())
}

/// A transaction as it travels. The signature has not been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedTx {
    /// What is signed.
    pub body: TxBody,
    /// The sender's signature.
    pub signature: Signature,
}

impl SignedTx {
    /// The transaction's id in this network.
    pub fn id(&self, domain: &Domain) -> TxId {
        self.body.id(domain)
    }
}

impl Encode for SignedTx {
    fn encode(&self, out: &mut Vec<u8>) {
        self.body.encode_opened(out);
        self.signature.encode(out);
    }
}

impl Decode for SignedTx {
    const BYTES_MIN: usize = 2 + TxBody::BYTES_MIN + Signature::BYTES_MIN;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.position();
        reader.opening(Kind::Transaction)?;
        let tx = Self { body: TxBody::decode(reader)?, signature: Signature::decode(reader)? };
        let (found, max) = (reader.position() - at, tx.body.action.tx_bytes_max());
        if found > max {
            return Err(DecodeError::Length { at, found, min: Self::BYTES_MIN, max });
        }
        Ok(tx)
    }
}
