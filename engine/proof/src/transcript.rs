//! The transcript: who said what, in order, and the challenges that follow from it.
//!
//! Every item is absorbed behind its label and its length, so two transcripts that differ in
//! anything differ in every later challenge. Look-ups and sum-checks begin with their names and
//! sizes ([`crate::messages`]); the library's commitments absorb their own messages, behind
//! fingerprints of their shapes.

use crate::field::{EF, F};
use crate::messages::of_bytes;
use crate::pcs::{self, Sponge};
use p3_challenger::{CanObserve, FieldChallenger};
use p3_field::PrimeCharacteristicRing;
use tg_types::Hash32;

/// A transcript.
#[derive(Clone)]
pub(crate) struct Transcript {
    sponge: Sponge,
}

impl Transcript {
    /// One that has absorbed nothing but its name.
    pub(crate) fn new(label: &str) -> Self {
        let sponge = pcs::sponge();
        #[cfg(test)]
        let sponge = sponge.ruled();
        let mut transcript = Self { sponge };
        transcript.bytes(label.as_bytes());
        transcript
    }

    fn bytes(&mut self, bytes: &[u8]) {
        of_bytes(bytes).for_each(|element| self.sponge.observe(element));
    }

    /// Absorbs a digest.
    pub(crate) fn absorb_digest(&mut self, label: &str, digest: &Hash32) {
        self.bytes(label.as_bytes());
        self.bytes(digest.as_bytes());
    }

    /// Absorbs elements of the base field.
    pub(crate) fn absorb_base(&mut self, label: &str, elements: &[F]) {
        self.bytes(label.as_bytes());
        self.sponge.observe(F::from_usize(elements.len()));
        self.sponge.observe_slice(elements);
    }

    /// Absorbs elements of the extension.
    pub(crate) fn absorb(&mut self, label: &str, elements: &[EF]) {
        self.bytes(label.as_bytes());
        self.sponge.observe(F::from_usize(elements.len()));
        for element in elements {
            self.sponge.observe_algebra_element(*element);
        }
    }

    /// Draws a challenge.
    pub(crate) fn draw(&mut self, label: &str) -> EF {
        self.bytes(label.as_bytes());
        self.sponge.sample_algebra_element()
    }

    /// Draws a point.
    pub(crate) fn draw_point(&mut self, label: &str, coordinates: usize) -> Vec<EF> {
        self.bytes(label.as_bytes());
        (0..coordinates).map(|_| self.sponge.sample_algebra_element()).collect()
    }

    /// The sponge, for the library's protocols.
    pub(crate) fn sponge(&mut self) -> &mut Sponge {
        &mut self.sponge
    }
}
