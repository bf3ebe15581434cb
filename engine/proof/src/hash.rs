//! The hash of proofs: SHA-256's compression function on blocks of sixteen elements.
//!
//! It is the one hash of the whole protocol, and processors have instructions for it. Leaves, nodes
//! and transcripts start from the SHA-256 of their own names, so that none is taken for another.
//!
//! An element goes into a block as one word, as it lies in memory: times 2^32 modulo p. A digest is
//! eight elements, each the upper 31 bits of a word modulo p, so two digests are the same with a
//! probability of about 2^-248.

use crate::field::F;
use p3_field::{PrimeCharacteristicRing, PrimeField32};
use p3_symmetric::{CryptographicHasher, PseudoCompressionFunction};
use sha2::block_api::compress256;
use tg_types::hash::{Tag, tagged};

/// Elements of a digest.
pub(crate) const DIGEST: usize = 8;

/// A digest.
pub(crate) type Digest = [F; DIGEST];

/// Words of a block.
pub(crate) const BLOCK: usize = 16;

/// Between two blocks.
pub(crate) type State = [u32; 8];

/// Where blocks of one purpose start.
pub(crate) fn start(name: &'static str) -> State {
    let digest = tagged(Tag::new(name), &[]);
    let mut state = State::default();
    for (word, bytes) in state.iter_mut().zip(digest.as_bytes().as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    state
}

/// Takes in a block.
#[inline]
pub(crate) fn take_in(state: &mut State, words: &[u32; BLOCK]) {
    let mut block = [0; 4 * BLOCK];
    for (bytes, word) in block.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_be_bytes();
    }
    compress256(state, &[block]);
}

fn digest(state: &State) -> Digest {
    state.map(|word| F::from_u32(word >> 1))
}

/// Hashes the rows of a tree. All of them have one length, so nothing is said of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafHash(State);

impl LeafHash {
    pub(crate) fn new() -> Self {
        Self(start("tensorgrid/proof-leaf"))
    }
}

impl CryptographicHasher<F, Digest> for LeafHash {
    fn hash_iter<I: IntoIterator<Item = F>>(&self, row: I) -> Digest {
        let (mut state, mut words, mut count) = (self.0, [0; BLOCK], 0);
        for element in row {
            if count == BLOCK {
                take_in(&mut state, &words);
                (words, count) = ([0; BLOCK], 0);
            }
            words[count] = element.to_unique_u32();
            count += 1;
        }
        take_in(&mut state, &words);
        digest(&state)
    }
}

/// Hashes two nodes of a tree to the one above them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeHash(State);

impl NodeHash {
    pub(crate) fn new() -> Self {
        Self(start("tensorgrid/proof-node"))
    }
}

impl PseudoCompressionFunction<Digest, 2> for NodeHash {
    fn compress(&self, [left, right]: [Digest; 2]) -> Digest {
        let (mut state, mut words) = (self.0, [0; BLOCK]);
        for (word, element) in words.iter_mut().zip(left.iter().chain(&right)) {
            *word = element.to_unique_u32();
        }
        take_in(&mut state, &words);
        digest(&state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_types::hash::sha256;

    /// Goal: blocks are those of SHA-256. Method: its own start and padding give its digests.
    #[test]
    fn blocks_are_those_of_sha_256() {
        let mut state = [
            0x6a09_e667,
            0xbb67_ae85,
            0x3c6e_f372,
            0xa54f_f53a,
            0x510e_527f,
            0x9b05_688c,
            0x1f83_d9ab,
            0x5be0_cd19,
        ];
        let message = [7; BLOCK];
        take_in(&mut state, &message);
        let mut padding = [0; BLOCK];
        (padding[0], padding[BLOCK - 1]) = (1 << 31, 8 * 4 * BLOCK as u32);
        take_in(&mut state, &padding);
        let bytes: Vec<u8> = message.iter().flat_map(|word| word.to_be_bytes()).collect();
        let found: Vec<u8> = state.iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(found, sha256(&[&bytes]));
    }

    /// Goal: no element of a row is left out, and leaves are no nodes. Method: rows of lengths
    /// around that of a block, each element changed.
    #[test]
    fn every_element_changes_a_digest() {
        for length in [1, 15, 16, 17, 32, 33, 80] {
            let row: Vec<F> = (0..length).map(F::from_usize).collect();
            let hash = |row: &[F]| LeafHash::new().hash_iter(row.iter().copied());
            for place in 0..length {
                let mut other = row.clone();
                other[place] += F::ONE;
                assert_ne!(hash(&row), hash(&other), "{place} of {length}");
            }
        }
        let [left, right] = [1, 2].map(|one| [F::from_u32(one); DIGEST]);
        let leaf = LeafHash::new().hash_iter(left.into_iter().chain(right));
        assert_ne!(NodeHash::new().compress([left, right]), leaf);
        assert_ne!(
            NodeHash::new().compress([right, left]),
            NodeHash::new().compress([left, right])
        );
    }
}
