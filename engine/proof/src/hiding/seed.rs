//! Where the randomness of hiding comes from.
//!
//! Everything random follows from a seed by hashes with tags: first a seed for a purpose, then one
//! that is bound to what it is used for (inputs, weights, statement), then a generator for each
//! kind of random number. So whoever uses one seed for several things, by mistake or to keep only
//! one, uses no random number twice.

use rand::SeedableRng;
use rand::rngs::StdRng;
use tg_types::hash::{Tag, tagged};

const PURPOSE_TAG: Tag = Tag::new("tensorgrid/proof-seed-purpose");
const BOUND_TAG: Tag = Tag::new("tensorgrid/proof-seed-bound");
const STREAM_TAG: Tag = Tag::new("tensorgrid/proof-seed-stream");

/// Where randomness comes from: 32 bytes from the system's generator, known to nobody from whom
/// something is to be hidden.
pub struct Seed([u8; 32]);

/// What a seed is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// A commitment to inputs.
    Inputs = 1,
    /// A commitment to outputs.
    Outputs = 2,
    /// A commitment to weights.
    Weights = 3,
    /// What the prover adds to a proof.
    Proof = 4,
}

/// What random numbers become in what is made with a seed; each has a generator of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stream {
    /// Cells of a stack that no equation knows.
    Noise = 1,
    /// What the library adds to a commitment: randomness of the code, salts of the tree.
    Commitment = 2,
    /// What covers messages.
    Pads = 3,
    /// What masks the last sum-check.
    Mask = 4,
    /// What hides the mask when it is shown.
    Blind = 5,
    /// What the library adds to an opening.
    Opening = 6,
}

impl Seed {
    /// A seed of these bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The seed of one of several things for a purpose, such as the inputs of a job's run number
    /// `index`. Whoever has it learns nothing of this one, nor of others that follow from it.
    #[must_use]
    pub fn derive(&self, purpose: Purpose, index: u32) -> Self {
        let purpose = [purpose as u8];
        Self(*tagged(PURPOSE_TAG, &[&self.0, &purpose, &index.to_be_bytes()]).as_bytes())
    }

    /// The seed of a purpose for this data and no other.
    pub(crate) fn bound(&self, purpose: Purpose, data: &[&[u8]]) -> Self {
        let mut pieces: Vec<Vec<u8>> = vec![self.0.to_vec(), vec![purpose as u8]];
        for piece in data {
            pieces.push((piece.len() as u64).to_be_bytes().to_vec());
            pieces.push(piece.to_vec());
        }
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        Self(*tagged(BOUND_TAG, &pieces).as_bytes())
    }

    /// The generator of a stream, of which there may be several of a kind.
    pub(crate) fn generator(&self, stream: Stream, index: u32) -> StdRng {
        let stream = [stream as u8];
        let seed = tagged(STREAM_TAG, &[&self.0, &stream, &index.to_be_bytes()]);
        StdRng::from_seed(*seed.as_bytes())
    }
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;
    use std::collections::BTreeSet;

    /// Goal: no two uses of a seed share a random number. Method: the first numbers of all of them.
    #[test]
    fn uses_of_one_seed_have_no_number_in_common() {
        let seed = Seed::new([7; 32]);
        let purposes = [Purpose::Inputs, Purpose::Outputs, Purpose::Weights, Purpose::Proof];
        let streams = [
            Stream::Noise,
            Stream::Commitment,
            Stream::Pads,
            Stream::Mask,
            Stream::Blind,
            Stream::Opening,
        ];
        let mut seeds = vec![Seed::new([7; 32])];
        for purpose in purposes {
            seeds.extend((0..3).map(|index| seed.derive(purpose, index)));
            let all: [&[&[u8]]; 5] = [&[], &[b""], &[b"ab"], &[b"a", b"b"], &[b"ab", b""]];
            seeds.extend(all.map(|data| seed.bound(purpose, data)));
        }
        let mut found = BTreeSet::new();
        for seed in &seeds {
            for stream in streams {
                for index in [0, 1, 1 << 8] {
                    found.insert(seed.generator(stream, index).random::<u64>());
                }
            }
        }
        assert_eq!(found.len(), seeds.len() * streams.len() * 3);
    }

    /// Goal: who keeps a seed finds its commitments again with a later version.
    #[test]
    fn derived_seeds_are_the_golden_ones() {
        let seed = Seed::new([7; 32]);
        let derived = seed.derive(Purpose::Outputs, 2).0;
        let golden = expect_test::expect![
            "096a8034389e18cf2cb72c8b2b5f7001d7923ae8efc7cf6af06ba38452cadfa3"
        ];
        golden.assert_eq(&tg_types::Hash32::new(derived).to_string());
        assert_eq!(format!("{seed:?}"), "Seed(hidden)");
    }
}
