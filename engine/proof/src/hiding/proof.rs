//! The hiding proof and its bytes; see [`crate::codec`] for how it is read.

use super::last::LastProof;
use super::pcs::HiddenOpening;
use crate::codec;
use crate::error::VerifyError;
use crate::field::EF;
use crate::pcs::Root;
use crate::sumcheck::SumProof;
use p3_multi_stark::fractional_gkr::FractionGkrProof;
use serde::{Deserialize, Serialize};

/// A proof that hides inputs and all numbers on the way.
#[derive(Clone, Serialize, Deserialize)]
pub struct HidingProof {
    /// The commitment to the run.
    pub(crate) root: Root,
    /// The look-ups, covered.
    pub(crate) lookups: FractionGkrProof<EF>,
    /// The first sum-check, covered, unless there are no products.
    pub(crate) products: Option<SumProof>,
    /// The factors of each product at its end, covered.
    pub(crate) claims: Vec<EF>,
    /// The lower coefficients of the equation of products, covered.
    pub(crate) lower: Vec<EF>,
    /// The factors of the equation of products, each moved by a pad.
    pub(crate) factors: Vec<EF>,
    /// The last sum-check.
    pub(crate) last: LastProof,
    /// The opening of the run.
    pub(crate) opening: HiddenOpening,
    /// The openings of what was committed before: inputs, weights, outputs, as far as they are.
    pub(crate) owned: Vec<HiddenOpening>,
}

impl std::fmt::Debug for HidingProof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HidingProof").field("bytes", &self.to_bytes().len()).finish()
    }
}

impl HidingProof {
    /// The bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        codec::write(self)
    }

    /// Reads a proof.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, VerifyError> {
        codec::read(bytes)
    }

    /// Names and bytes of the parts, in order.
    #[cfg(test)]
    pub(crate) fn sections(&self) -> Vec<(&'static str, usize)> {
        vec![
            ("root", codec::write(&self.root).len()),
            ("look-ups", codec::write(&self.lookups).len()),
            ("products", codec::write(&self.products).len()),
            ("claims", codec::write(&self.claims).len()),
            ("coefficients", codec::write(&self.lower).len()),
            ("factors", codec::write(&self.factors).len()),
            ("last", codec::write(&self.last).len()),
            ("opening", codec::write(&self.opening).len()),
            ("owned", codec::write(&self.owned).len()),
        ]
    }
}
