//! SHA-256, the only hash of the protocol: contracts can open its trees and processors have
//! instructions for it.

use crate::ids::Hash32;
use sha2::{Digest, Sha256};

/// SHA-256 over the pieces, one after the other. The caller makes sure that the split is
/// unambiguous.
pub fn sha256(pieces: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for piece in pieces {
        hasher.update(piece);
    }
    hasher.finalize().into()
}

/// What a hash is of. A tag keeps hashes of different things apart even where their bytes are
/// equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(&'static str);

impl Tag {
    /// A transaction's id.
    pub const TX: Self = Self::new("tensorgrid/tx");
    /// A header's digest.
    pub const HEADER: Self = Self::new("tensorgrid/header");
    /// A network's genesis hash.
    pub const GENESIS: Self = Self::new("tensorgrid/genesis");
    /// Coefficients of a batch of signatures.
    pub const BATCH: Self = Self::new("tensorgrid/batch");

    /// A tag of 1 to 255 bytes. Its length is hashed before it, so no tag is the beginning of
    /// another.
    pub const fn new(name: &'static str) -> Self {
        assert!(!name.is_empty() && name.len() <= 255, "a tag has 1 to 255 bytes");
        Self(name)
    }
}

/// SHA-256 over the tag's length, the tag and the pieces.
pub fn tagged(tag: Tag, pieces: &[&[u8]]) -> Hash32 {
    let mut hasher = start(tag);
    for piece in pieces {
        hasher.update(piece);
    }
    Hash32::new(hasher.finalize().into())
}

/// A hasher that has taken in the tag.
pub(crate) fn start(tag: Tag) -> Sha256 {
    let length = u8::try_from(tag.0.len()).expect("a tag has at most 255 bytes");
    let mut hasher = Sha256::new();
    hasher.update([length]);
    hasher.update(tag.0.as_bytes());
    hasher
}
