//! Merkle trees over SHA-256: receipts of a block, and the log of all headers.
//!
//! The tree is that of RFC 6962: leaves are hashed with 0x00, nodes with 0x01, and a node without a
//! sibling moves up as it is. The root hashes the top with 0x02 and the number of leaves, so a
//! proof fixes leaf, place *and* count. [`Peaks`] is the same tree grown leaf by leaf, of which
//! only the complete subtrees are kept.

mod peaks;

pub use peaks::Peaks;

use crate::codec::{Decode, DecodeError, Encode, Reader};
use crate::hash::sha256;
use crate::ids::Hash32;

/// The most leaves of a tree: more headers than a network makes in ten thousand years of ten blocks
/// a second.
pub const LEAVES_MAX: u64 = 1 << 48;

const LEAF: &[u8] = &[0];
const NODE: &[u8] = &[1];
const ROOT: &[u8] = &[2];

/// The hash of a leaf.
pub fn leaf_hash(leaf: &[u8]) -> Hash32 {
    Hash32::new(sha256(&[LEAF, leaf]))
}

/// The root over `leaves`, in order.
pub fn root<L: AsRef<[u8]>>(leaves: &[L]) -> Hash32 {
    let mut peaks = Peaks::EMPTY;
    for leaf in leaves {
        peaks.append(leaf.as_ref());
    }
    peaks.root()
}

/// That a leaf is the one at `index` of the `count` under a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    index: u64,
    count: u64,
    path: Vec<Hash32>,
}

impl Proof {
    /// The proof of the leaf at `index`; `None` if there is none.
    pub fn prove<L: AsRef<[u8]>>(leaves: &[L], index: usize) -> Option<Self> {
        leaves.get(index)?;
        let mut level: Vec<Hash32> = leaves.iter().map(|leaf| leaf_hash(leaf.as_ref())).collect();
        let mut place = index;
        let mut path = Vec::new();
        while level.len() > 1 {
            path.extend(level.get(place ^ 1));
            level = level.chunks(2).map(join).collect();
            place /= 2;
        }
        let count = u64::try_from(leaves.len()).ok()?;
        Some(Self { index: u64::try_from(index).ok()?, count, path })
    }

    /// Which leaf it is about.
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// How many leaves there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Whether `leaf` is at this index of this many leaves under `root`.
    pub fn verify(&self, root: &Hash32, leaf: &[u8]) -> bool {
        // A proof that exists has as many hashes as steps: both `prove` and `decode` see to it.
        let mut hash = leaf_hash(leaf);
        for (side, sibling) in steps(self.index, self.count).zip(&self.path) {
            hash = match side {
                Side::Left => node_hash(sibling, &hash),
                Side::Right => node_hash(&hash, sibling),
            };
        }
        root_hash(self.count, Some(&hash)) == *root
    }
}

impl Encode for Proof {
    fn encode(&self, out: &mut Vec<u8>) {
        self.index.encode(out);
        self.count.encode(out);
        for sibling in &self.path {
            sibling.encode(out);
        }
    }
}

/// The path's length follows from index and count, so it is not written.
impl Decode for Proof {
    const BYTES_MIN: usize = 16;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (index, count) = (u64::decode(reader)?, u64::decode(reader)?);
        if index >= count || count > LEAVES_MAX {
            let expected = "index below a count of at most 2^48 leaves";
            return Err(DecodeError::Range { at: reader.position(), expected });
        }
        let length = steps(index, count).count();
        let mut path = Vec::with_capacity(length.min(reader.remaining() / Hash32::BYTES_MIN));
        for _ in 0..length {
            path.push(Hash32::decode(reader)?);
        }
        Ok(Self { index, count, path })
    }
}

/// On which side of the path the sibling stands.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

/// The siblings from leaf to top. A level without a sibling for the path is left out: the node
/// moves up.
fn steps(index: u64, count: u64) -> impl Iterator<Item = Side> {
    let mut place = index;
    let mut last = count.saturating_sub(1);
    std::iter::from_fn(move || {
        while last > 0 {
            let (here, end) = (place, last);
            place /= 2;
            last /= 2;
            if here % 2 == 1 {
                return Some(Side::Left);
            }
            if here < end {
                return Some(Side::Right);
            }
        }
        None
    })
}

/// Two siblings make a node; one alone moves up.
fn join(siblings: &[Hash32]) -> Hash32 {
    match siblings {
        [left, right] => node_hash(left, right),
        [alone] => *alone,
        [] | [_, _, _, ..] => unreachable!("chunks of two have one or two items"),
    }
}

fn node_hash(left: &Hash32, right: &Hash32) -> Hash32 {
    Hash32::new(sha256(&[NODE, left.as_bytes(), right.as_bytes()]))
}

/// The root of a tree with this top; a tree without leaves has none.
fn root_hash(count: u64, top: Option<&Hash32>) -> Hash32 {
    let top: &[u8] = top.map_or(&[], |top| top.as_bytes());
    Hash32::new(sha256(&[ROOT, &count.to_be_bytes(), top]))
}
