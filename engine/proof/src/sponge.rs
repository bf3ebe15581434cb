//! The sponge of a transcript, from which challenges are drawn.
//!
//! What is absorbed is hashed block by block. A block has fifteen elements, or fewer before a draw,
//! and says in its last word how many. What is drawn are hashes of the state with one more block,
//! whose last word is a number that no absorbed block has. So the inputs of any two draws are lists
//! of blocks of which none begins with the other, and for such lists a compression function that is
//! ideal gives a random oracle (Coron, Dodis, Malinaud, Puniya: Merkle-Damgård revisited, 2005).

use crate::field::F;
use crate::hash::{BLOCK, Digest, State, start, take_in};
use p3_challenger::{
    CanObserve, CanSample, CanSampleBits, CanSampleUniformBits, FieldChallenger,
    GrindingChallenger, ResamplingError,
};
use p3_field::{PrimeCharacteristicRing, PrimeField32};
use p3_symmetric::MerkleCap;

/// Elements of a full block.
const RATE: usize = BLOCK - 1;

/// A sponge.
#[derive(Clone, Debug)]
pub(crate) struct RealSponge {
    state: State,
    /// Elements that are not hashed yet, and zeros.
    heard: [u32; BLOCK],
    count: usize,
    /// The last block that was drawn, and how many of its words are left.
    drawn: State,
    left: usize,
    /// How many blocks were drawn since something was absorbed.
    draws: u32,
}

impl RealSponge {
    /// One that has absorbed nothing.
    pub(crate) fn new() -> Self {
        let state = start("tensorgrid/proof-sponge");
        Self { state, heard: [0; BLOCK], count: 0, drawn: State::default(), left: 0, draws: 0 }
    }

    fn hash_heard(&mut self) {
        self.heard[RATE] = self.count as u32;
        take_in(&mut self.state, &self.heard);
        (self.heard, self.count) = ([0; BLOCK], 0);
    }

    /// The next 32 random bits.
    fn word(&mut self) -> u32 {
        if self.count > 0 {
            self.hash_heard();
        }
        if self.left == 0 {
            let mut block = [0; BLOCK];
            block[RATE] = BLOCK as u32 + self.draws;
            self.drawn = self.state;
            take_in(&mut self.drawn, &block);
            (self.left, self.draws) = (self.drawn.len(), self.draws + 1);
        }
        self.left -= 1;
        self.drawn[self.left]
    }
}

impl CanObserve<F> for RealSponge {
    fn observe(&mut self, element: F) {
        (self.left, self.draws) = (0, 0);
        self.heard[self.count] = element.to_unique_u32();
        self.count += 1;
        if self.count == RATE {
            self.hash_heard();
        }
    }
}

impl CanObserve<MerkleCap<F, Digest>> for RealSponge {
    fn observe(&mut self, cap: MerkleCap<F, Digest>) {
        cap.roots().iter().flatten().for_each(|element| self.observe(*element));
    }
}

impl CanSample<F> for RealSponge {
    /// An element, each as likely as the others: 31 bits that are not below p are drawn again.
    fn sample(&mut self) -> F {
        loop {
            let number = self.word() >> 1;
            if number < F::ORDER_U32 {
                return F::from_u32(number);
            }
        }
    }
}

impl CanSampleBits<usize> for RealSponge {
    fn sample_bits(&mut self, bits: usize) -> usize {
        assert!(bits < u32::BITS as usize, "a word has the bits");
        self.word() as usize & ((1 << bits) - 1)
    }
}

impl CanSampleUniformBits<F> for RealSponge {
    fn sample_uniform_bits<const RESAMPLE: bool>(
        &mut self,
        bits: usize,
    ) -> Result<usize, ResamplingError> {
        Ok(self.sample_bits(bits))
    }
}

impl FieldChallenger<F> for RealSponge {}

impl GrindingChallenger for RealSponge {
    type Witness = F;

    /// The first number that does it: a proof does not depend on how many threads search.
    fn grind(&mut self, bits: usize) -> F {
        if bits == 0 {
            return F::ZERO;
        }
        let does = |witness: &F| self.clone().check_witness(bits, *witness);
        let mut numbers = (0..F::ORDER_U32).map(F::from_u32);
        let found = numbers.find(does).expect("one of 2^31 numbers does it");
        assert!(self.check_witness(bits, found));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(elements: &[u32]) -> RealSponge {
        let mut sponge = RealSponge::new();
        elements.iter().for_each(|element| sponge.observe(F::from_u32(*element)));
        sponge
    }

    fn drawn(mut sponge: RealSponge) -> [F; 12] {
        std::array::from_fn(|_| sponge.sample())
    }

    /// Goal: what was absorbed, in which order and how much of it decides what is drawn. Method:
    /// lists around the length of a block, shortened, lengthened by 0, and each element changed.
    #[test]
    fn every_element_and_their_number_change_what_is_drawn() {
        for length in [0_u32, 1, 7, 14, 15, 16, 29, 30, 31] {
            let list: Vec<u32> = (0..length).collect();
            let longer = [list.as_slice(), &[0]].concat();
            assert_ne!(drawn(heard(&list)), drawn(heard(&longer)), "{length}");
            assert_eq!(drawn(heard(&list)), drawn(heard(&list)));
            for place in 0..list.len() {
                let mut other = list.clone();
                other[place] += 1;
                assert_ne!(drawn(heard(&list)), drawn(heard(&other)), "{place} of {length}");
            }
        }
    }

    /// Goal: draws follow each other without repeating, until something is absorbed.
    #[test]
    fn draws_differ_and_are_forgotten_when_something_is_absorbed() {
        let mut sponge = heard(&[1, 2, 3]);
        let all: Vec<u32> = (0..64).map(|_| sponge.word()).collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), all.len());
        let (mut once, mut often) = (heard(&[1]), heard(&[1]));
        let _: F = once.sample();
        let _: [F; 20] = often.sample_array();
        once.observe(F::TWO);
        often.observe(F::TWO);
        assert_eq!(drawn(once), drawn(often));
    }

    /// Goal: work is what it says. Method: what was found has the zeros, all before it have not.
    #[test]
    fn first_number_with_the_zeros_is_found() {
        let sponge = heard(&[5]);
        let found = sponge.clone().grind(6);
        let checks = |number: u32| sponge.clone().check_witness(6, F::from_u32(number));
        let found = found.as_canonical_u32();
        assert!(checks(found) && (0..found).all(|number| !checks(number)));
        assert_eq!(sponge.clone().grind(0), F::ZERO);
    }
}
