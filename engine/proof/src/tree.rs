//! The tree under a commitment: the library's, with openings checked several hashes at a time.
//!
//! An opening names hundreds of leaves, and hashing them up to the root is most of what a verifier
//! does. The library hashes node after node; here all nodes of a level go through the packed
//! permutation that the prover uses. What is accepted is the same.

use crate::field::F;
use crate::pcs::{LeafHash, NodeHash, Packed, hashes};
use p3_commit::{BatchOpening, BatchOpeningRef, Mmcs};
use p3_field::PackedValue as _;
use p3_matrix::{Dimensions, Matrix};
use p3_merkle_tree::{MerkleTreeError, MerkleTreeMmcs, PrunedMerklePaths, PrunedProofError};
use p3_symmetric::{CryptographicHasher as _, PseudoCompressionFunction as _};

/// Elements of a digest.
const DIGEST: usize = 8;

/// A digest.
type Digest = [F; DIGEST];

type Inner = MerkleTreeMmcs<Packed, Packed, LeafHash, NodeHash, 2, DIGEST>;

/// A binary tree of Poseidon2 digests.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    inner: Inner,
    leaves: LeafHash,
    nodes: NodeHash,
}

impl Tree {
    /// The tree with the hashes of [`hashes`].
    pub(crate) fn new() -> Self {
        let (leaves, nodes) = hashes();
        Self { inner: Inner::new(leaves.clone(), nodes.clone(), 0), leaves, nodes }
    }

    /// Digests of rows of one width.
    fn hash_rows(&self, rows: &[&[F]]) -> Vec<Digest> {
        let mut digests = Vec::with_capacity(rows.len());
        for rows in rows.chunks(Packed::WIDTH) {
            let width = rows.first().map_or(0, |row| row.len());
            let lane = |place: usize| {
                Packed::from_fn(|lane| rows.get(lane).map_or_else(F::default, |row| row[place]))
            };
            unpack(&self.leaves.hash_iter((0..width).map(lane)), rows.len(), &mut digests);
        }
        digests
    }

    /// Digests of the parents of pairs of nodes.
    fn hash_pairs(&self, pairs: &[[Digest; 2]]) -> Vec<Digest> {
        let mut digests = Vec::with_capacity(pairs.len());
        for pairs in pairs.chunks(Packed::WIDTH) {
            let lane = |side: usize, place: usize| {
                let of = |pair: &[Digest; 2]| pair[side][place];
                Packed::from_fn(|lane| pairs.get(lane).map_or_else(F::default, of))
            };
            let sides = [0, 1].map(|side| std::array::from_fn(|place| lane(side, place)));
            unpack(&self.nodes.compress(sides), pairs.len(), &mut digests);
        }
        digests
    }

    /// The root above some leaves, whose places ascend, and the digests beside their paths.
    fn root(
        &self,
        mut places: Vec<usize>,
        mut digests: Vec<Digest>,
        (levels, beside): (usize, &[Digest]),
    ) -> Result<Option<Digest>, PrunedProofError> {
        let (mut supplied, mut asked) = (beside.iter(), 0);
        for _ in 0..levels {
            let (mut parents, mut pairs) = (Vec::new(), Vec::new());
            let mut nodes = places.iter().zip(&digests).peekable();
            while let Some((place, digest)) = nodes.next() {
                let parent = place / 2;
                let is_pair = nodes.peek().is_some_and(|(next, _)| **next / 2 == parent);
                let sibling = match nodes.next_if(|_| is_pair) {
                    Some((_, sibling)) => *sibling,
                    None => {
                        asked += 1;
                        supplied.next().copied().unwrap_or_default()
                    }
                };
                parents.push(parent);
                pairs.push(if place % 2 == 0 { [*digest, sibling] } else { [sibling, *digest] });
            }
            (places, digests) = (parents, self.hash_pairs(&pairs));
        }
        if asked != beside.len() {
            let (expected, got) = (asked, beside.len());
            return Err(PrunedProofError::SiblingCountMismatch { expected, got });
        }
        Ok(digests.first().copied())
    }
}

/// Takes the first `count` lanes of a packed digest apart.
fn unpack(packed: &[Packed; DIGEST], count: usize, digests: &mut Vec<Digest>) {
    let lane = |lane: usize| std::array::from_fn(|place| packed[place].as_slice()[lane]);
    digests.extend((0..count).map(lane));
}

/// Rows in the order of their places, each once.
fn sorted<R: AsRef<[F]> + PartialEq>(
    indices: &[usize],
    opened: &[Vec<R>],
) -> Result<(Vec<usize>, Vec<usize>), MerkleTreeError> {
    let mut order: Vec<usize> = (0..indices.len()).collect();
    order.sort_by_key(|query| indices[*query]);
    let mut kept: Vec<usize> = Vec::with_capacity(order.len());
    for query in order {
        match kept.last() {
            Some(last) if indices[*last] == indices[query] => {
                if opened[*last] != opened[query] {
                    let slot = kept.len() - 1;
                    return Err(PrunedProofError::InconsistentDuplicateOpenings { slot }.into());
                }
            }
            Some(_) | None => kept.push(query),
        }
    }
    Ok((kept.iter().map(|query| indices[*query]).collect(), kept))
}

impl Mmcs<F> for Tree {
    type ProverData<M> = <Inner as Mmcs<F>>::ProverData<M>;
    type Commitment = <Inner as Mmcs<F>>::Commitment;
    type Proof = <Inner as Mmcs<F>>::Proof;
    type MultiProof = PrunedMerklePaths<F, DIGEST>;
    type Error = MerkleTreeError;

    fn commit<M: Matrix<F>>(&self, inputs: Vec<M>) -> (Self::Commitment, Self::ProverData<M>) {
        self.inner.commit(inputs)
    }

    fn open_batch<M: Matrix<F>>(
        &self,
        index: usize,
        kept: &Self::ProverData<M>,
    ) -> BatchOpening<F, Self> {
        let (values, proof) = self.inner.open_batch(index, kept).unpack();
        BatchOpening::new(values, proof)
    }

    fn get_matrices<'a, M: Matrix<F>>(&self, kept: &'a Self::ProverData<M>) -> Vec<&'a M> {
        self.inner.get_matrices(kept)
    }

    fn verify_batch(
        &self,
        commit: &Self::Commitment,
        dimensions: &[Dimensions],
        index: usize,
        opening: BatchOpeningRef<'_, F, Self>,
    ) -> Result<(), Self::Error> {
        let opening = BatchOpeningRef::new(opening.opened_values, opening.opening_proof);
        self.inner.verify_batch(commit, dimensions, index, opening)
    }

    fn open_multi_batch<M: Matrix<F>>(
        &self,
        indices: &[usize],
        kept: &Self::ProverData<M>,
    ) -> (Vec<Vec<Vec<F>>>, Self::MultiProof) {
        self.inner.open_multi_batch(indices, kept)
    }

    fn verify_multi_batch<R: AsRef<[F]> + PartialEq>(
        &self,
        commit: &Self::Commitment,
        dimensions: &[Dimensions],
        indices: &[usize],
        opened: &[Vec<R>],
        proof: &Self::MultiProof,
    ) -> Result<(), Self::Error> {
        // Of any other shape there are none in our proofs.
        let ([Dimensions { width, height }], [root]) = (dimensions, commit.roots()) else {
            return self.inner.verify_multi_batch(commit, dimensions, indices, opened, proof);
        };
        if !height.is_power_of_two() || indices.is_empty() {
            return self.inner.verify_multi_batch(commit, dimensions, indices, opened, proof);
        }
        if opened.len() != indices.len() {
            let (expected, got) = (indices.len(), opened.len());
            return Err(MerkleTreeError::WrongBatchSize { expected, got });
        }
        for rows in opened {
            let [row] = rows.as_slice() else {
                return Err(MerkleTreeError::WrongBatchSize { expected: 1, got: rows.len() });
            };
            let (expected, got) = (*width, row.as_ref().len());
            if got != expected {
                return Err(MerkleTreeError::WrongWidth { matrix: 0, expected, got });
            }
        }
        if let Some(index) = indices.iter().find(|index| *index >= height) {
            return Err(MerkleTreeError::IndexOutOfBounds { max_height: *height, index: *index });
        }
        let (places, queries) = sorted(indices, opened)?;
        let rows: Vec<&[F]> = queries.iter().map(|query| opened[*query][0].as_ref()).collect();
        let levels = height.trailing_zeros() as usize;
        let beside = (levels, proof.sibling_hashes.as_slice());
        match self.root(places, self.hash_rows(&rows), beside)? {
            Some(found) if found == *root => Ok(()),
            Some(_) | None => Err(MerkleTreeError::CapMismatch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{F, Mmcs as _, Tree};
    use p3_field::PrimeCharacteristicRing as _;
    use p3_matrix::Matrix as _;
    use p3_matrix::dense::RowMajorMatrix;

    /// Goal: exactly what the library accepts is accepted. Method: trees and queries of random
    /// sizes, repeated and unsorted, right or with one thing changed, judged by both.
    #[test]
    fn prop_openings_are_judged_as_by_the_library() {
        let (mut accepted, mut refused) = (0, 0);
        arbtest::arbtest(|u| {
            let tree = Tree::new();
            let (levels, width) = (u.int_in_range(0..=6)?, u.int_in_range(1..=40_usize)?);
            let height = 1_usize << levels;
            let cells = (0..height * width).map(|cell| F::from_usize(cell * cell + 7)).collect();
            let matrix = RowMajorMatrix::<F>::new(cells, width);
            let mut dimensions = vec![matrix.dimensions()];
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
            let ours = tree.verify_multi_batch(&commit, &dimensions, &indices, &opened, &proof);
            let theirs =
                tree.inner.verify_multi_batch(&commit, &dimensions, &indices, &opened, &proof);
            assert_eq!(ours.is_ok(), theirs.is_ok(), "{ours:?} {theirs:?}");
            *(if ours.is_ok() { &mut accepted } else { &mut refused }) += 1;
            Ok(())
        });
        assert!(accepted > 10 && refused > 10, "{accepted} {refused}");
    }
}
