//! A Merkle tree that only grows: the log of headers, of which a node keeps a few hashes instead of
//! all headers.
//!
//! Kept are the tops of the complete subtrees ("peaks"), one for every bit that is set in the
//! number of leaves. Joined from right to left they give the root of the whole tree, the same as
//! [`super::root`] over all leaves.

use super::{LEAVES_MAX, leaf_hash, node_hash, root_hash};
use crate::codec::{Decode, DecodeError, Encode, Reader};
use crate::ids::Hash32;

/// The complete subtrees of a growing Merkle tree, largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    count: u64,
    tops: Vec<Hash32>,
}

impl Peaks {
    /// No leaves yet.
    pub const EMPTY: Self = Self { count: 0, tops: Vec::new() };

    /// How many leaves there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Adds a leaf at the end.
    ///
    /// # Panics
    /// Beyond [`LEAVES_MAX`] leaves, which no network lives to see.
    pub fn append(&mut self, leaf: &[u8]) {
        assert!(self.count < LEAVES_MAX, "a tree has at most 2^48 leaves");
        let mut top = leaf_hash(leaf);
        // Like a carry when one is added to the count: equal subtrees join, from the smallest on.
        for _ in 0..self.count.trailing_ones() {
            let left = self.tops.pop().expect("one top for every bit of the count");
            top = node_hash(&left, &top);
        }
        self.tops.push(top);
        self.count += 1;
    }

    /// The root over all leaves so far.
    pub fn root(&self) -> Hash32 {
        let top = self.tops.iter().rev().copied().reduce(|right, left| node_hash(&left, &right));
        root_hash(self.count, top.as_ref())
    }
}

/// The number of peaks follows from the count, so it is not written.
impl Encode for Peaks {
    fn encode(&self, out: &mut Vec<u8>) {
        self.count.encode(out);
        for top in &self.tops {
            top.encode(out);
        }
    }
}

impl Decode for Peaks {
    const BYTES_MIN: usize = 8;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = u64::decode(reader)?;
        if count > LEAVES_MAX {
            let expected = "count of at most 2^48 leaves";
            return Err(DecodeError::Range { at: reader.position(), expected });
        }
        let mut tops = Vec::new();
        for _ in 0..count.count_ones() {
            tops.push(Hash32::decode(reader)?);
        }
        Ok(Self { count, tops })
    }
}
