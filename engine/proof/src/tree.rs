//! The tree under a commitment: the library's, with openings checked level by level.
//!
//! An opening names hundreds of leaves, and hashing them up to the root is much of what a verifier
//! does. The library looks its nodes up in a map; here the nodes of a level stand in their order
//! and no level is kept. What is accepted is the same.

use crate::field::F;
use crate::hash::{DIGEST, Digest, LeafHash, NodeHash};
use p3_commit::{BatchOpening, BatchOpeningRef, Mmcs};
use p3_matrix::{Dimensions, Matrix};
use p3_merkle_tree::{MerkleTreeError, MerkleTreeMmcs, PrunedMerklePaths, PrunedProofError};
use p3_symmetric::{CryptographicHasher as _, PseudoCompressionFunction as _};

type Inner = MerkleTreeMmcs<F, F, LeafHash, NodeHash, 2, DIGEST>;

/// A binary tree of digests.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    inner: Inner,
    leaves: LeafHash,
    nodes: NodeHash,
}

impl Tree {
    /// A tree.
    pub(crate) fn new() -> Self {
        let (leaves, nodes) = (LeafHash::new(), NodeHash::new());
        Self { inner: Inner::new(leaves, nodes, 0), leaves, nodes }
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
        if asked != beside.len() {
            let (expected, got) = (asked, beside.len());
            return Err(PrunedProofError::SiblingCountMismatch { expected, got });
        }
        Ok(digests.first().copied())
    }
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
        let hash =
            |query: &usize| self.leaves.hash_iter(opened[*query][0].as_ref().iter().copied());
        let digests = queries.iter().map(hash).collect();
        let levels = height.trailing_zeros() as usize;
        let beside = (levels, proof.sibling_hashes.as_slice());
        match self.root(places, digests, beside)? {
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
