//! The tree under a commitment: the library's, with openings checked level by level.
//!
//! An opening names hundreds of leaves, and hashing them up to the root is much of what a verifier
//! does. Here the nodes of a level stand in their order and take the room of the level below. What
//! is accepted is what the library accepts.

use crate::field::F;
use crate::hash::{DIGEST, Digest, LeafHash, NodeHash};
use p3_field::BasedVectorSpace;
use p3_merkle_tree::{MerkleTreeMmcs, PrunedMerklePaths};
use p3_symmetric::{CryptographicHasher as _, PseudoCompressionFunction as _};

/// A binary tree of digests.
pub(crate) type Tree = MerkleTreeMmcs<F, F, LeafHash, NodeHash, 2, DIGEST>;

/// The digests beside the paths of an opening.
pub(crate) type Paths = PrunedMerklePaths<F, DIGEST>;

/// A tree that commits.
pub(crate) fn tree() -> Tree {
    Tree::new(LeafHash::new(), NodeHash::new(), 0)
}

/// Checks openings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeCheck {
    leaves: LeafHash,
    nodes: NodeHash,
}

/// What is to be opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    pub(crate) root: &'a Digest,
    /// How many there are: a power of two.
    pub(crate) height: usize,
    /// Items of each.
    pub(crate) width: usize,
    /// Which of them are opened, in any order.
    pub(crate) places: &'a [usize],
}

impl TreeCheck {
    /// One for trees of [`tree`].
    pub(crate) fn new() -> Self {
        Self { leaves: LeafHash::new(), nodes: NodeHash::new() }
    }

    /// Checks that these are the rows, by the digests beside their paths.
    pub(crate) fn check<T: BasedVectorSpace<F> + PartialEq>(
        &self,
        asked: Rows<'_>,
        rows: &[Vec<T>],
        beside: &[Digest],
    ) -> Option<()> {
        let has_width = |row: &Vec<T>| row.len() == asked.width;
        if rows.len() != asked.places.len() || !rows.iter().all(has_width) {
            return None;
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_unstable_by_key(|query| asked.places[*query]);
        let (mut places, mut digests) = (Vec::new(), Vec::new());
        let mut last: Option<&Vec<T>> = None;
        for query in order {
            let (place, row) = (asked.places[query], &rows[query]);
            if places.last() == Some(&place) {
                // A row that is asked for twice is shown twice.
                if last != Some(row) {
                    return None;
                }
                continue;
            }
            let elements = row.iter().flat_map(|item| item.as_basis_coefficients_slice());
            digests.push(self.leaves.hash_iter(elements.copied()));
            places.push(place);
            last = Some(row);
        }
        let is_inside = places.last().is_none_or(|last| *last < asked.height);
        let levels = asked.height.trailing_zeros() as usize;
        let found = self.root(places, digests, (levels, beside))?;
        (is_inside && found == *asked.root).then_some(())
    }

    /// The root above some leaves, whose places ascend, and the digests beside their paths.
    fn root(
        &self,
        mut places: Vec<usize>,
        mut digests: Vec<Digest>,
        (levels, beside): (usize, &[Digest]),
    ) -> Option<Digest> {
        let (mut supplied, mut asked) = (beside.iter(), 0);
        for _ in 0..levels {
            let (mut from, mut to) = (0, 0);
            while let Some(place) = places.get(from).copied() {
                let (digest, parent) = (digests[from], place / 2);
                let is_pair = places.get(from + 1).is_some_and(|next| next / 2 == parent);
                let sibling = if is_pair {
                    digests[from + 1]
                } else {
                    asked += 1;
                    supplied.next().copied().unwrap_or_default()
                };
                let pair = if place % 2 == 0 { [digest, sibling] } else { [sibling, digest] };
                // Parents take the room of children that were read.
                (places[to], digests[to]) = (parent, self.nodes.compress(pair));
                from += 1 + usize::from(is_pair);
                to += 1;
            }
            places.truncate(to);
            digests.truncate(to);
        }
        if asked == beside.len() { digests.first().copied() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p3_commit::Mmcs as _;
    use p3_field::PrimeCharacteristicRing as _;
    use p3_matrix::Matrix as _;
    use p3_matrix::dense::RowMajorMatrix;

    /// Goal: exactly what the library accepts is accepted. Method: trees and queries of random
    /// sizes, repeated and unsorted, right or with one thing changed, judged by both.
    #[test]
    fn prop_openings_are_judged_as_by_the_library() {
        let (mut accepted, mut refused) = (0, 0);
        arbtest::arbtest(|u| {
            let tree = tree();
            let (levels, width) = (u.int_in_range(0..=6)?, u.int_in_range(1..=40_usize)?);
            let height = 1_usize << levels;
            let cells = (0..height * width).map(|cell| F::from_usize(cell * cell + 7)).collect();
            let matrix = RowMajorMatrix::<F>::new(cells, width);
            let mut dimensions = [matrix.dimensions()];
            let (commit, kept) = tree.commit(vec![matrix]);
            let count = u.int_in_range(1..=30_usize)?;
            let mut indices = Vec::new();
            for _ in 0..count {
                indices.push(u.int_in_range(0..=height - 1)?);
            }
            let (mut opened, mut proof) = tree.open_multi_batch(&indices, &kept);
            let query = u.choose_index(count)?;
            match u.int_in_range(0..=8)? {
                0 => opened[query][0][u.choose_index(width)?] += F::ONE,
                1 => opened[query][0].push(F::ONE),
                2 => drop(opened.pop()),
                3 => proof.sibling_hashes.push([F::ONE; 8]),
                4 => drop(proof.sibling_hashes.pop()),
                5 if !proof.sibling_hashes.is_empty() => {
                    let sibling = u.choose_index(proof.sibling_hashes.len())?;
                    proof.sibling_hashes[sibling][u.choose_index(8)?] += F::ONE;
                }
                6 => indices[query] = u.int_in_range(0..=height)?,
                7 => dimensions[0].width += 1,
                _ => {}
            }
            let theirs = tree.verify_multi_batch(&commit, &dimensions, &indices, &opened, &proof);
            let rows: Vec<Vec<F>> = opened.into_iter().flatten().collect();
            let (root, width) = (&commit.roots()[0], dimensions[0].width);
            let asked = Rows { root, height, width, places: &indices };
            let ours = TreeCheck::new().check(asked, &rows, &proof.sibling_hashes);
            assert_eq!(ours.is_some(), theirs.is_ok(), "{theirs:?}");
            *(if ours.is_some() { &mut accepted } else { &mut refused }) += 1;
            Ok(())
        });
        assert!(accepted > 10 && refused > 10, "{accepted} {refused}");
    }
}
