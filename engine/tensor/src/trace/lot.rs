//! Audits by tiles: which tiles a lot draws, and what shows that somebody knows their digests.
//!
//! Tiles are drawn by what they cost, so whoever leaves out work is found by the share of the work
//! that is left out, not by the number of tiles. An answer is the digests of the drawn tiles with
//! all siblings on their ways to the root of the trace. It is nothing that follows from the root or
//! from the siblings: digests are what these are hashed from. So whoever can answer has hashed the
//! numbers of these tiles, or was told by somebody who has.

use super::Trace;
use crate::commit::{Book, CHILDREN, Tree, book_root, levels, node, trace_root, value_root};
use crate::program::{Operation, Program};
use std::collections::{BTreeMap, BTreeSet};
use tg_types::hash::{Tag, tagged};
use tg_types::job::TILE_ANSWER_BYTES_MAX;
use tg_types::{Hash32, TileLot, wire};

const DRAW: Tag = Tag::new("tensorgrid/tile draw");

/// Digests that fit into an answer.
pub(super) const ANSWER_DIGESTS_MAX: usize = TILE_ANSWER_BYTES_MAX / 32;

wire! {
    /// Where a tile of a trace is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct TilePlace {
        /// Whose output.
        pub operation: u32,
        /// Which tile of it.
        pub tile: u32,
    }
}

/// Tiles of a trace, in the order of the program.
pub type TilePlaces = BTreeSet<TilePlace>;

/// What the tiles of an operation cost together: multiply-adds and elements.
fn cost(operation: &Operation) -> u128 {
    u128::from(operation.multiply_adds()) + u128::from(operation.spec.len)
}

/// The tiles that a lot draws. One may be drawn more than once; and fewer are drawn than the lot
/// asks for if what shows them would not fit into an answer.
#[must_use]
pub fn drawn_tiles(program: &Program, lot: &TileLot) -> TilePlaces {
    drawn_within(program, lot, ANSWER_DIGESTS_MAX)
}

/// The tiles that a lot draws, as many as can be shown with so many digests.
pub(super) fn drawn_within(program: &Program, lot: &TileLot, digests_max: usize) -> TilePlaces {
    let costs: Vec<u128> = program.operations().iter().map(cost).collect();
    let total: u128 = costs.iter().sum();
    let mut drawn = TilePlaces::new();
    for turn in 0..lot.tiles {
        let hash = tagged(DRAW, &[lot.lot.as_bytes(), &[turn]]);
        let (half, _) = hash.as_bytes().split_at(16);
        let number = half.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
        let Some(at) = number.checked_rem(total) else { break };
        let Some(place) = tile_at(program, &costs, at) else { break };
        if drawn.insert(place) && answer_digests(program, &drawn) > digests_max {
            drawn.remove(&place);
            break;
        }
    }
    drawn
}

/// The tile into whose part of the whole cost a number falls. All elements of an operation cost the
/// same.
fn tile_at(program: &Program, costs: &[u128], mut at: u128) -> Option<TilePlace> {
    for (operation, cost) in program.operations().iter().zip(costs).enumerate() {
        let (stated, cost) = cost;
        if at < *cost {
            let each = cost / u128::from(stated.spec.len.max(1));
            let element = usize::try_from(at.checked_div(each)?).ok()?;
            let tile = element.min(stated.spec.elements().checked_sub(1)?) / crate::commit::TILE;
            let (operation, tile) = (u32::try_from(operation).ok()?, u32::try_from(tile).ok()?);
            return Some(TilePlace { operation, tile });
        }
        at -= cost;
    }
    None
}

/// How many tiles a program has, and how many of those asked for are drawn at least, whatever the
/// lot.
#[must_use]
pub fn tile_counts(program: &Program, asked: u8) -> (u64, u8) {
    let mut most = 1;
    let mut tiles = 0;
    for (operation, stated) in (0..).zip(program.operations()) {
        tiles += Tree::over_tiles(stated.spec.elements()).width(0) as u64;
        let first = TilePlaces::from([TilePlace { operation, tile: 0 }]);
        most = most.max(answer_digests(program, &first));
    }
    let sure = u8::try_from(ANSWER_DIGESTS_MAX / most).unwrap_or(u8::MAX);
    (tiles, sure.min(asked))
}

/// A place in the trees over a trace: those over the tiles of operations, and the one over all
/// operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    /// Over whose tiles; none: over all operations.
    operation: Option<u32>,
    level: u8,
    index: usize,
}

/// The tiles of each operation; `None` if one does not exist.
fn by_operation(program: &Program, tiles: &TilePlaces) -> Option<BTreeMap<u32, BTreeSet<usize>>> {
    let mut found: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for place in tiles {
        let tree = tree_over(program, Some(place.operation))?;
        let index = usize::try_from(place.tile).ok().filter(|index| *index < tree.width(0))?;
        found.entry(place.operation).or_default().insert(index);
    }
    Some(found)
}

fn tree_over(program: &Program, operation: Option<u32>) -> Option<Tree> {
    let Some(operation) = operation else { return Some(Tree::over(program.operations().len())) };
    let stated = program.operations().get(usize::try_from(operation).ok()?)?;
    Some(Tree::over_tiles(stated.spec.elements()))
}

/// The parents of some nodes.
fn parents(nodes: &BTreeSet<usize>) -> BTreeSet<usize> {
    nodes.iter().map(|index| index / CHILDREN).collect()
}

/// Where the siblings are on the ways from some tiles to the root of a trace, in the order in which
/// they are written; `None` if a tile does not exist.
fn sibling_spots(program: &Program, tiles: &TilePlaces) -> Option<Vec<Spot>> {
    let leaves = by_operation(program, tiles)?;
    let operations: BTreeSet<usize> =
        leaves.keys().filter_map(|operation| usize::try_from(*operation).ok()).collect();
    let trees = leaves.into_iter().map(|(operation, leaves)| (Some(operation), leaves));
    let mut spots = Vec::new();
    for (operation, mut known) in trees.chain([(None, operations)]) {
        let tree = tree_over(program, operation)?;
        for level in 1..=tree.top() {
            let above = parents(&known);
            for parent in &above {
                let siblings =
                    tree.children(level, *parent)?.filter(|child| !known.contains(child));
                spots.extend(siblings.map(|index| Spot { operation, level: level - 1, index }));
            }
            known = above;
        }
    }
    Some(spots)
}

/// How many digests an answer about some tiles has.
fn answer_digests(program: &Program, tiles: &TilePlaces) -> usize {
    let siblings = sibling_spots(program, tiles).map_or(usize::MAX, |spots| spots.len());
    siblings.saturating_add(tiles.len())
}

/// The siblings of some tiles, from whoever has the whole trace.
pub(super) fn siblings_in(
    program: &Program,
    trace: &Trace,
    tiles: &TilePlaces,
) -> Option<Vec<Hash32>> {
    let mut trees: BTreeMap<Option<u32>, Vec<Vec<Hash32>>> = BTreeMap::new();
    let mut siblings = Vec::new();
    for Spot { operation, level, index } in sibling_spots(program, tiles)? {
        let tree = match trees.entry(operation) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                let leaves = match operation {
                    Some(operation) => trace.tiles(usize::try_from(operation).ok()?)?,
                    None => trace.value_roots(),
                };
                place.insert(levels(leaves.to_vec()))
            }
        };
        siblings.push(*tree.get(usize::from(level))?.get(index)?);
    }
    Some(siblings)
}

/// What shows that the owner of a trace knows these tiles; `None` if there are no such tiles.
#[must_use]
pub fn answer_of(program: &Program, trace: &Trace, tiles: &TilePlaces) -> Option<Vec<u8>> {
    let mut digests = Vec::new();
    for place in tiles {
        let all = trace.tiles(usize::try_from(place.operation).ok()?)?;
        digests.push(*all.get(usize::try_from(place.tile).ok()?)?);
    }
    digests.extend(siblings_in(program, trace, tiles)?);
    Some(digests.iter().flat_map(|digest| *digest.as_bytes()).collect())
}

/// The part of the trees over a trace that some tiles and their siblings give.
#[derive(Debug)]
pub(super) struct Part {
    nodes: BTreeMap<Spot, Hash32>,
    operations_root: Hash32,
}

impl Part {
    /// Climbs from the digests of some tiles; `None` if a tile does not exist, there is none, or
    /// these are not as many siblings as there must be.
    pub(super) fn climb(
        program: &Program,
        digests: &BTreeMap<TilePlace, Hash32>,
        siblings: &[Hash32],
    ) -> Option<Self> {
        let tiles: TilePlaces = digests.keys().copied().collect();
        let spots = sibling_spots(program, &tiles)?;
        if spots.len() != siblings.len() || tiles.is_empty() {
            return None;
        }
        let mut nodes: BTreeMap<Spot, Hash32> =
            spots.into_iter().zip(siblings.iter().copied()).collect();
        for (TilePlace { operation, tile }, digest) in digests {
            let index = usize::try_from(*tile).ok()?;
            nodes.insert(Spot { operation: Some(*operation), level: 0, index }, *digest);
        }
        let mut operations = BTreeSet::new();
        for (operation, leaves) in by_operation(program, &tiles)? {
            let top = climb_tree(program, Some(operation), leaves, &mut nodes)?;
            let index = usize::try_from(operation).ok()?;
            let spec = program.operations().get(index)?.spec;
            let root = value_root(spec.len, spec.width(), &top);
            nodes.insert(Spot { operation: None, level: 0, index }, root);
            operations.insert(index);
        }
        let top = climb_tree(program, None, operations, &mut nodes)?;
        let count = u32::try_from(program.operations().len()).ok()?;
        Some(Self { nodes, operations_root: book_root(Book::Operations, count, &top) })
    }

    /// Where it leads with this mark of a salt.
    pub(super) fn trace_root(&self, mark: &Hash32) -> Hash32 {
        trace_root(mark, &self.operations_root)
    }

    /// The root over all operations.
    pub(super) const fn operations_root(&self) -> Hash32 {
        self.operations_root
    }

    /// An answer about some of its tiles; `None` if they are not among them.
    pub(super) fn answer(&self, program: &Program, tiles: &TilePlaces) -> Option<Vec<u8>> {
        let leaf = |place: &TilePlace| {
            let index = usize::try_from(place.tile).ok()?;
            Some(Spot { operation: Some(place.operation), level: 0, index })
        };
        let mut spots: Vec<Spot> = tiles.iter().filter_map(leaf).collect();
        spots.extend(sibling_spots(program, tiles)?);
        let mut bytes = Vec::new();
        for spot in &spots {
            bytes.extend_from_slice(self.nodes.get(spot)?.as_bytes());
        }
        Some(bytes)
    }
}

/// Puts nodes over some leaves, all of whose siblings are known; gives the top.
fn climb_tree(
    program: &Program,
    operation: Option<u32>,
    mut known: BTreeSet<usize>,
    nodes: &mut BTreeMap<Spot, Hash32>,
) -> Option<Hash32> {
    let tree = tree_over(program, operation)?;
    for level in 1..=tree.top() {
        known = parents(&known);
        for index in &known {
            let lower = level - 1;
            let digest = |index| nodes.get(&Spot { operation, level: lower, index }).copied();
            let children: Option<Vec<Hash32>> = tree.children(level, *index)?.map(digest).collect();
            nodes.insert(Spot { operation, level, index: *index }, node(&children?));
        }
    }
    nodes.get(&Spot { operation, level: tree.top(), index: 0 }).copied()
}

/// Whether an answer is about exactly these tiles, and leads from them to the root of a trace whose
/// salt has this mark.
#[must_use]
pub fn check_answer(
    program: &Program,
    (mark, root): (&Hash32, &Hash32),
    tiles: &TilePlaces,
    answer: &[u8],
) -> bool {
    let (digests, rest) = answer.as_chunks::<32>();
    if !rest.is_empty() {
        return false;
    }
    let digests: Vec<Hash32> = digests.iter().copied().map(Hash32::new).collect();
    let Some((leaves, siblings)) = digests.split_at_checked(tiles.len()) else { return false };
    let leaves = tiles.iter().copied().zip(leaves.iter().copied()).collect();
    let part = Part::climb(program, &leaves, siblings);
    part.is_some_and(|part| part.trace_root(mark) == *root)
}
