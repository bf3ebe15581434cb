//! Commitments to values: SHA-256 trees of sixteen children over tiles of 1,024 elements.
//!
//! Sixteen, because a dispute goes down sixteen ways at a time: the children of a node are exactly
//! what one message of a dispute carries. A contract opens these trees with its hash precompile.
//!
//! - leaf  = H(0x00 ‖ salt ‖ bytes of the tile)
//! - node  = H(0x01 ‖ 1 to 16 children)
//! - value = H(0x02 ‖ number of elements ‖ bytes per element ‖ top)
//! - book  = H(0x03 ‖ which book ‖ number of values ‖ top over the values)
//! - trace = the end of the chain of keys over H(0x04 ‖ mark of the salt ‖ book of the operations)
//!
//! Elements and numbers are big-endian. The top over one leaf is that leaf; over more it is the
//! node that is left when nodes are put over nodes. A tree has no more freedom than its number of
//! leaves, so a path needs no directions: the place of a leaf says where it goes at every level.

use crate::program::Width;
use crate::run::Elements;
use crate::tensor::Tensor;
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use std::ops::Range;
use tg_types::hash::{Tag, sha256, tagged};
use tg_types::{Hash32, TraceSecret};

/// Elements of a tile: small enough to open on chain, large enough that hashing is cheap.
pub const TILE: usize = 1_024;

/// Children of a node.
pub const CHILDREN: usize = 16;

/// The most bytes of a tile.
pub const TILE_BYTES_MAX: usize = TILE * 4;

/// From this many tiles on they are hashed by several threads: below, waking the threads takes
/// longer than the hashing.
const PARALLEL_TILES_MIN: usize = 128;

/// Tiles that one thread takes at a time.
const PARALLEL_TILES: usize = 32;

const LEAF: u8 = 0;
const NODE: u8 = 1;
const VALUE: u8 = 2;
const BOOK: u8 = 3;
const TRACE: u8 = 4;

const SALT_TAG: Tag = Tag::new("tensorgrid/trace-salt");
const MARK_TAG: Tag = Tag::new("tensorgrid/trace-salt-mark");

/// Keeps a commitment from telling what it commits to: whoever does not know the salt cannot try
/// out likely tiles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Salt(Option<[u8; 32]>);

impl std::fmt::Debug for Salt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Salt(secret)" } else { "Salt(none)" })
    }
}

impl Salt {
    /// No salt: everybody who has the values gets the same commitment.
    pub const NONE: Self = Self(None);

    /// A secret salt, to be used for one run only.
    #[must_use]
    pub const fn new(secret: [u8; 32]) -> Self {
        Self(Some(secret))
    }

    /// The secret; `None` if there is none.
    #[must_use]
    pub const fn secret(&self) -> Option<&[u8; 32]> {
        self.0.as_ref()
    }

    /// The salt of one tile, which opens that tile and no other.
    #[must_use]
    pub fn of_tile(&self, value: u32, tile: u32) -> [u8; 32] {
        match self.0 {
            None => [0; 32],
            Some(secret) => {
                let pieces: [&[u8]; 3] = [&secret, &value.to_be_bytes(), &tile.to_be_bytes()];
                *tagged(SALT_TAG, &pieces).as_bytes()
            }
        }
    }

    /// What is published of the salt, so that a tile with another salt than its own is provable.
    #[must_use]
    pub fn mark(&self) -> Hash32 {
        match self.0 {
            None => Hash32::new([0; 32]),
            Some(secret) => tagged(MARK_TAG, &[&secret]),
        }
    }
}

/// Which values a commitment is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Book {
    /// A program's inputs.
    Inputs,
    /// A program's constants.
    Constants,
    /// The operations' outputs: the trace.
    Operations,
    /// A program's outputs.
    Outputs,
}

impl Book {
    const fn tag(self) -> u8 {
        match self {
            Self::Inputs => 0,
            Self::Constants => 1,
            Self::Operations => 2,
            Self::Outputs => 3,
        }
    }
}

/// The shape of a tree over a number of leaves. Level 0 are the leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    leaves: usize,
}

impl Tree {
    /// The tree over this many leaves, at least one.
    #[must_use]
    pub fn over(leaves: usize) -> Self {
        Self { leaves: leaves.max(1) }
    }

    /// The tree over the tiles of this many elements.
    #[must_use]
    pub fn over_tiles(elements: usize) -> Self {
        Self::over(elements.div_ceil(TILE))
    }

    /// The level of the top.
    #[must_use]
    pub fn top(&self) -> u8 {
        (0..u8::MAX).find(|level| self.width(*level) == 1).unwrap_or(u8::MAX)
    }

    /// How many nodes a level has.
    #[must_use]
    pub fn width(&self, level: u8) -> usize {
        CHILDREN.checked_pow(level.into()).map_or(1, |leaves| self.leaves.div_ceil(leaves))
    }

    /// The nodes one level lower that a node stands over; `None` if there is no such node or it is
    /// a leaf.
    #[must_use]
    pub fn children(&self, level: u8, index: usize) -> Option<Range<usize>> {
        let lower = level.checked_sub(1)?;
        if level > self.top() || index >= self.width(level) {
            return None;
        }
        let first = index * CHILDREN;
        Some(first..(first + CHILDREN).min(self.width(lower)))
    }

    /// How many siblings a path from a leaf to the top holds; `None` if there is no such leaf.
    fn siblings(&self, leaf: usize) -> Option<usize> {
        let group = |level: u8| {
            let index = leaf.checked_shr(4 * u32::from(level)).unwrap_or(0);
            self.children(level, index).map_or(0, |children| children.len() - 1)
        };
        (leaf < self.leaves).then(|| (1..=self.top()).map(group).sum())
    }
}

/// The digest of a tile's bytes.
#[must_use]
pub fn leaf(salt: &[u8; 32], bytes: &[u8]) -> Hash32 {
    Hash32::new(sha256(&[&[LEAF], salt, bytes]))
}

/// The digest of 1 to 16 children.
#[must_use]
pub fn node(children: &[Hash32]) -> Hash32 {
    let mut bytes = [NODE; 1 + 32 * CHILDREN];
    let mut count = 1;
    let places = bytes.get_mut(1..).unwrap_or_default().as_chunks_mut::<32>().0;
    for (place, child) in places.iter_mut().zip(children) {
        *place = *child.as_bytes();
        count += 32;
    }
    Hash32::new(sha256(&[bytes.get(..count).unwrap_or_default()]))
}

/// The levels of a tree, leaves first, top last. There is no level over nothing.
#[must_use]
pub fn levels(leaves: Vec<Hash32>) -> Vec<Vec<Hash32>> {
    let mut levels = vec![leaves];
    while let Some(last) = levels.last().filter(|level| level.len() > 1) {
        let next = last.chunks(CHILDREN).map(node).collect();
        levels.push(next);
    }
    levels
}

/// The top of the tree over leaves; zeros over nothing.
#[must_use]
pub fn top(leaves: &[Hash32]) -> Hash32 {
    if let [only] = leaves {
        return *only;
    }
    let mut level: Vec<Hash32> = leaves.chunks(CHILDREN).map(node).collect();
    while level.len() > 1 {
        level = level.chunks(CHILDREN).map(node).collect();
    }
    level.first().copied().unwrap_or(Hash32::new([0; 32]))
}

/// What a path from a leaf to the top holds: the siblings, lowest level first, in their order.
#[must_use]
pub fn path(levels: &[Vec<Hash32>], leaf: usize) -> Vec<Hash32> {
    let mut siblings = Vec::new();
    let mut index = leaf;
    for level in levels.iter().filter(|level| level.len() > 1) {
        let first = index / CHILDREN * CHILDREN;
        let group = level.iter().enumerate().skip(first).take(CHILDREN);
        siblings.extend(group.filter(|(place, _)| *place != index).map(|(_, digest)| *digest));
        index /= CHILDREN;
    }
    siblings
}

/// The top of the tree of this shape in which `digest` is the given leaf and `path` holds the
/// siblings; `None` if there is no such leaf or the path is too long or too short.
#[must_use]
pub fn climb(tree: Tree, leaf: usize, digest: Hash32, path: &[Hash32]) -> Option<Hash32> {
    if tree.siblings(leaf)? != path.len() {
        return None;
    }
    let (mut digest, mut index, mut rest) = (digest, leaf, path);
    for level in 1..=tree.top() {
        let (place, parent) = (index % CHILDREN, index / CHILDREN);
        let (siblings, above) =
            rest.split_at_checked(tree.children(level, parent)?.len().checked_sub(1)?)?;
        let (before, after) = siblings.split_at_checked(place)?;
        digest = node(&[before, &[digest], after].concat());
        (index, rest) = (parent, above);
    }
    Some(digest)
}

/// The root of a value, from the top over its tiles.
#[must_use]
pub fn value_root(elements: u32, width: Width, top: &Hash32) -> Hash32 {
    let width = [width.bytes() as u8];
    Hash32::new(sha256(&[&[VALUE], &elements.to_be_bytes(), &width, top.as_bytes()]))
}

/// The root of a book, from the top over its values.
#[must_use]
pub fn book_root(book: Book, values: u32, top: &Hash32) -> Hash32 {
    Hash32::new(sha256(&[&[BOOK, book.tag()], &values.to_be_bytes(), top.as_bytes()]))
}

/// What a trace comes down to, from the mark of its salt and the book of its operations.
#[must_use]
pub fn trace_secret(mark: &Hash32, operations: &Hash32) -> TraceSecret {
    let pieces: [&[u8]; 3] = [&[TRACE], mark.as_bytes(), operations.as_bytes()];
    TraceSecret::new(Hash32::new(sha256(&pieces)))
}

/// The root of a trace, from the mark of its salt and the book of its operations.
#[must_use]
pub fn trace_root(mark: &Hash32, operations: &Hash32) -> Hash32 {
    trace_secret(mark, operations).root()
}

/// Writes the bytes of a tile to `buffer`; returns the part written. The copy takes a few percent
/// of the hashing.
fn tile_bytes<'b>(
    elements: Elements<'_>,
    tile: usize,
    buffer: &'b mut [u8; TILE_BYTES_MAX],
) -> &'b [u8] {
    let end = ((tile + 1) * TILE).min(elements.len());
    let range = (tile * TILE).min(end)..end;
    let count = range.len() * elements.width().bytes();
    match elements {
        Elements::I8(elements) => {
            let part = elements.get(range).unwrap_or_default();
            buffer.iter_mut().zip(part).for_each(|(byte, element)| *byte = *element as u8);
        }
        Elements::I16(elements) => {
            let part = elements.get(range).unwrap_or_default();
            let pairs = buffer.as_chunks_mut::<2>().0.iter_mut();
            pairs.zip(part).for_each(|(pair, element)| *pair = element.to_be_bytes());
        }
        Elements::I32(elements) => {
            let part = elements.get(range).unwrap_or_default();
            let fours = buffer.as_chunks_mut::<4>().0.iter_mut();
            fours.zip(part).for_each(|(four, element)| *four = element.to_be_bytes());
        }
    }
    buffer.get(..count).unwrap_or_default()
}

/// Writes the digests of a value's tiles, one for each place of `digests`. `number` is the value's
/// number, for the salts. Nothing is allocated.
pub fn digest_tiles(elements: Elements<'_>, number: u32, salt: &Salt, digests: &mut [Hash32]) {
    let fill = |first: usize, digests: &mut [Hash32]| {
        let mut buffer = [0; TILE_BYTES_MAX];
        for (tile, digest) in (first..).zip(digests) {
            let bytes = tile_bytes(elements, tile, &mut buffer);
            *digest = leaf(&salt.of_tile(number, tile as u32), bytes);
        }
    };
    if digests.len() < PARALLEL_TILES_MIN {
        fill(0, digests);
    } else {
        let parts = digests.par_chunks_mut(PARALLEL_TILES).enumerate();
        parts.for_each(|(part, digests)| fill(part * PARALLEL_TILES, digests));
    }
}

/// The digests of a value's tiles. `number` is the value's number, for the salts.
#[must_use]
pub fn tile_digests(tensor: &Tensor, number: u32, salt: &Salt) -> Vec<Hash32> {
    let mut digests = vec![Hash32::new([0; 32]); tensor.len().div_ceil(TILE)];
    digest_tiles(tensor.into(), number, salt, &mut digests);
    digests
}

/// The root of a value, from its elements.
#[must_use]
pub fn commit(tensor: &Tensor, number: u32, salt: &Salt) -> Hash32 {
    let digests = tile_digests(tensor, number, salt);
    value_root(tensor.len() as u32, tensor.width(), &top(&digests))
}
