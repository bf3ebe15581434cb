//! Keys, signatures and what a signature is about.
//!
//! One rule everywhere, ZIP-215: a signature that passes alone passes in a batch and the other way
//! round, so nodes that check in different ways never split. Keys of small order, for which anybody
//! can sign, are refused when a key first appears. What is signed always names the chain, its
//! genesis and the kind of thing, so that a signature given on one network or for one purpose is
//! worth nothing on another.

mod batch;
mod secret;

pub(crate) use batch::Batch;
pub use batch::{BatchItem, KeyPoints, verify_batch};
pub use secret::SecretKey;

use crate::codec::{Decode, DecodeError, Encode, Reader};
use crate::hex;
use crate::ids::{ChainId, GenesisHash, IdError};
use crate::wire;
use ed25519_zebra::VerificationKey;
use std::fmt;
use std::str::FromStr;

/// What every signed message starts with.
const PREFIX: &[u8] = b"tensorgrid";

/// Why 32 bytes are no key that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not a point of the curve.
    #[error("not a point of the curve")]
    NotAPoint,
    /// A point of small order: anybody can sign for it.
    #[error("point of small order, for which anybody can sign")]
    SmallOrder,
}

/// The signature is not by this key on this message in this network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("signature does not fit key, message and network")]
pub struct SignatureError;

/// A public key: a point of the curve, not of small order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// The size of every key.
    pub const BYTES: usize = 32;

    /// Checks the bytes.
    pub fn new(bytes: [u8; 32]) -> Result<Self, KeyError> {
        if is_small_order(&bytes) {
            return Err(KeyError::SmallOrder);
        }
        VerificationKey::try_from(bytes).map_err(|_| KeyError::NotAPoint)?;
        Ok(Self(bytes))
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether `signature` is by this key on `message` as a thing of this kind in this network.
    pub fn verify(
        &self,
        domain: &Domain,
        kind: Kind,
        message: &[u8],
        signature: &Signature,
    ) -> Result<(), SignatureError> {
        let message = domain.message(kind, message);
        VerificationKey::try_from(self.0)
            .and_then(|key| key.verify(&signature.0.into(), &message))
            .map_err(|_| SignatureError)
    }
}

impl AsRef<[u8]> for PublicKey {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl FromStr for PublicKey {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Ok(Self::new(hex::read(text).ok_or(IdError::Hex { digits: 64 })?)?)
    }
}

impl Encode for PublicKey {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

impl Decode for PublicKey {
    const BYTES_MIN: usize = Self::BYTES;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = reader.array()?;
        Self::new(bytes).map_err(|source| DecodeError::Key { at: reader.position(), source })
    }
}

hex::display_and_debug!(PublicKey);

/// The y-coordinates of the eight points of small order, little-endian without the sign bit, in
/// every encoding that ZIP-215 accepts: the order-8 pair, -1, 0 and 1 in their canonical form, and
/// p and p + 1 for 0 and 1.
const SMALL_ORDER_Y: [[u8; 32]; 7] = [
    near(0x00, 0x00, 0x00),
    near(0x01, 0x00, 0x00),
    near(0xec, 0xff, 0x7f),
    near(0xed, 0xff, 0x7f),
    near(0xee, 0xff, 0x7f),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98,
        0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53,
        0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67,
        0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac,
        0x03, 0x7a,
    ],
];

const fn near(first: u8, middle: u8, last: u8) -> [u8; 32] {
    let mut bytes = [middle; 32];
    bytes[0] = first;
    bytes[31] = last;
    bytes
}

/// Whether the bytes encode a point whose order divides eight. Both signs of a listed y are of
/// small order.
pub(crate) fn is_small_order(bytes: &[u8; 32]) -> bool {
    let mut unsigned = *bytes;
    let [.., last] = &mut unsigned;
    *last &= 0x7f;
    SMALL_ORDER_Y.contains(&unsigned)
}

/// A signature. Any 64 bytes are one; whether it fits is found by verifying.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature([u8; Self::BYTES]);

impl Signature {
    /// The size of every signature.
    pub const BYTES: usize = 64;

    /// From its bytes.
    pub const fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// The point R and the scalar s, both encoded.
    fn halves(&self) -> ([u8; 32], [u8; 32]) {
        let (mut first, mut second) = ([0; 32], [0; 32]);
        let (left, right) = self.0.split_at(32);
        first.copy_from_slice(left);
        second.copy_from_slice(right);
        (first, second)
    }
}

impl Encode for Signature {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

impl Decode for Signature {
    const BYTES_MIN: usize = Self::BYTES;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.array().map(Self)
    }
}

hex::display_and_debug!(Signature);

wire! {
    /// What a signed or stored thing is. Part of every signed message, and the second byte of
    /// everything stored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Kind {
        /// A signed transaction.
        Transaction = 1,
        /// A block header.
        Header = 2,
        /// A transaction's receipt.
        Receipt = 3,
        /// A block's receipt.
        BlockReceipt = 4,
        /// A network's genesis.
        Genesis = 5,
        /// A node's word that it wants an owner.
        NodeConsent = 6,
        /// A validator's word that it holds packages.
        Voucher = 7,
        /// What a seat tells everybody beside the chain.
        Notice = 8,
        /// An owner's word that a peer may read what its job says.
        LogReader = 9,
    }
}

/// Where a signature counts: one network, by its name and its genesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain {
    /// The network's name.
    pub chain: ChainId,
    /// The network's genesis.
    pub genesis: GenesisHash,
}

impl Domain {
    /// The bytes that are signed for `message`: a fixed prefix, the chain with its length, the
    /// genesis, the kind and the message. Every part before the message has a known length, so no
    /// two messages of different meaning are equal.
    pub fn message(&self, kind: Kind, message: &[u8]) -> Vec<u8> {
        self.message_of(kind, |out| out.extend_from_slice(message))
    }

    /// As [`Domain::message`], with the message written by `write`.
    pub(crate) fn message_of(&self, kind: Kind, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = self.opening(kind);
        write(&mut out);
        out
    }

    /// What precedes the message, with room for an ordinary one.
    pub(crate) fn opening(&self, kind: Kind) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(PREFIX);
        self.chain.encode(&mut out);
        self.genesis.encode(&mut out);
        kind.encode(&mut out);
        out
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.chain, self.genesis)
    }
}

#[cfg(test)]
mod tests;
