//! What look-ups and sum-checks say to a sponge, on both sides.
//!
//! Each begins with its name and the numbers that fix how many messages follow and how long they
//! are. The library describes such a protocol step by step and hashes the description for every
//! proof, which took a verifier longer than the messages.

use crate::field::{EF, F};
use p3_challenger::FieldChallenger;
use p3_field::PrimeCharacteristicRing;
use p3_multi_stark::fractional_gkr::SplitFraction;

/// The elements that stand for bytes: their number, then three to an element.
pub(crate) fn of_bytes(bytes: &[u8]) -> impl Iterator<Item = F> {
    let pack =
        |chunk: &[u8]| chunk.iter().fold(0_u32, |packed, byte| packed << 8 | u32::from(*byte));
    let packed = bytes.chunks(3).map(move |chunk| F::from_u32(pack(chunk)));
    std::iter::once(F::from_usize(bytes.len())).chain(packed)
}

/// How a protocol begins.
pub(crate) struct Heading {
    name: &'static str,
    sizes: [usize; 2],
}

impl Heading {
    /// That of look-ups of 2^bits leaves.
    pub(crate) fn lookups(bits: usize) -> Self {
        Self { name: "look-ups", sizes: [bits, 0] }
    }

    /// That of a sum-check.
    pub(crate) fn sum(rounds: usize, degree: usize) -> Self {
        Self { name: "sum-check", sizes: [rounds, degree] }
    }

    /// Its elements.
    pub(crate) fn elements(&self) -> impl Iterator<Item = F> {
        of_bytes(self.name.as_bytes()).chain(self.sizes.map(F::from_usize))
    }
}

/// Look-ups on their way from the root to the leaves.
pub(crate) struct LookupMessages<'a, S> {
    sponge: &'a mut S,
}

impl<'a, S: FieldChallenger<F>> LookupMessages<'a, S> {
    /// Begins with the denominator of the root.
    pub(crate) fn new(sponge: &'a mut S, bits: usize, root_denominator: EF) -> Self {
        Heading::lookups(bits).elements().for_each(|element| sponge.observe(element));
        sponge.observe_algebra_element(root_denominator);
        Self { sponge }
    }

    /// What joins numerator and denominator in the next layer.
    pub(crate) fn begin_layer(&mut self) -> EF {
        self.sponge.sample_algebra_element()
    }

    /// The challenge of a round.
    pub(crate) fn round(&mut self, values: &[EF; 3]) -> EF {
        self.sponge.observe_algebra_slice(values);
        self.coordinate()
    }

    /// What chooses between the children of a layer.
    pub(crate) fn end_layer(&mut self, sent: &SplitFraction<EF>) -> EF {
        self.sponge.observe_algebra_slice(&[sent.n0, sent.d0, sent.n1, sent.d1]);
        self.coordinate()
    }

    /// A coordinate of the next layer's point. The prover divides by it, so it is not 0.
    fn coordinate(&mut self) -> EF {
        loop {
            let drawn: EF = self.sponge.sample_algebra_element();
            if drawn != EF::ZERO {
                return drawn;
            }
        }
    }
}

/// The rounds of a sum-check.
pub(crate) struct SumMessages<'a, S> {
    sponge: &'a mut S,
}

impl<'a, S: FieldChallenger<F>> SumMessages<'a, S> {
    /// Begins with the sum.
    pub(crate) fn new(
        sponge: &'a mut S,
        (rounds, degree): (usize, usize),
        claimed_sum: EF,
    ) -> Self {
        Heading::sum(rounds, degree).elements().for_each(|element| sponge.observe(element));
        sponge.observe_algebra_element(claimed_sum);
        Self { sponge }
    }

    /// The challenge of a round.
    pub(crate) fn round(&mut self, values: &[EF]) -> EF {
        self.sponge.observe_algebra_slice(values);
        self.sponge.sample_algebra_element()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: protocols of different names or sizes begin differently, and none as another does.
    #[test]
    fn headings_differ() {
        let all = [
            Heading::lookups(5),
            Heading::lookups(6),
            Heading::sum(5, 0),
            Heading::sum(5, 2),
            Heading::sum(2, 5),
        ];
        let all: Vec<Vec<F>> = all.iter().map(|heading| heading.elements().collect()).collect();
        for (index, heading) in all.iter().enumerate() {
            let others = all.iter().enumerate().filter(|(other, _)| *other != index);
            assert!(others.into_iter().all(|(_, other)| !other.starts_with(heading)));
        }
    }
}
