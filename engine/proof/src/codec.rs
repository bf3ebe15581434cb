//! The proof and its bytes.
//!
//! There is one way to write a proof: what is read must write to the same bytes again, with none
//! left over. Elements of the field are refused if they are not below p. Lists are read item by
//! item, so no more memory is used than there are bytes, and there is a limit to these.

use crate::error::VerifyError;
use crate::field::EF;
use crate::pcs::{Opening, Root};
use crate::sumcheck::SumProof;
use p3_multi_stark::fractional_gkr::FractionGkrProof;
use postcard::ser_flavors::Flavor;
use serde::{Deserialize, Serialize};

/// The most bytes of a proof that are read: several times what the largest plan gives.
pub const PROOF_BYTES_MAX: usize = 1 << 22;

/// A proof.
#[derive(Clone, Serialize, Deserialize)]
pub struct Proof {
    /// Accumulators of outputs.
    pub(crate) clear: Vec<i32>,
    /// The commitment to the run.
    pub(crate) root: Root,
    /// The look-ups.
    pub(crate) lookups: FractionGkrProof<EF>,
    /// The first sum-check, unless there are no products.
    pub(crate) products: Option<SumProof>,
    /// The factors of each product at its end.
    pub(crate) claims: Vec<EF>,
    /// The second sum-check, unless all claims are points of columns.
    pub(crate) functionals: Option<SumProof>,
    /// The opening of the run.
    pub(crate) opening: Opening,
    /// The openings of secret weights.
    pub(crate) weights: Vec<Opening>,
}

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proof").field("bytes", &self.to_bytes().len()).finish()
    }
}

impl Proof {
    /// The bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        write(self)
    }

    /// Names and bytes of the parts, in order.
    #[cfg(test)]
    pub(crate) fn sections(&self) -> Vec<(&'static str, usize)> {
        fn len(part: &impl Serialize) -> usize {
            write(part).len()
        }
        vec![
            ("accumulators", len(&self.clear)),
            ("root", len(&self.root)),
            ("look-ups", len(&self.lookups)),
            ("products", len(&self.products)),
            ("claims", len(&self.claims)),
            ("functionals", len(&self.functionals)),
            ("opening", len(&self.opening)),
            ("weights", len(&self.weights)),
        ]
    }

    /// Reads a proof.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, VerifyError> {
        read(bytes)
    }
}

/// The bytes of a proof or a part of one.
pub(crate) fn write(proof: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(proof).expect("a proof in memory can be written")
}

/// Reads a proof that is written in the one way there is.
pub(crate) fn read<'a, P: Serialize + Deserialize<'a>>(bytes: &'a [u8]) -> Result<P, VerifyError> {
    if bytes.len() > PROOF_BYTES_MAX {
        return Err(VerifyError::Size { found: bytes.len(), most: PROOF_BYTES_MAX });
    }
    let (proof, rest) = postcard::take_from_bytes::<P>(bytes).map_err(|_| VerifyError::Bytes)?;
    let is_same = postcard::serialize_with_flavor(&proof, Same { left: bytes });
    if !rest.is_empty() || is_same != Ok(true) {
        return Err(VerifyError::Bytes);
    }
    Ok(proof)
}

/// Compares what would be written with what there is.
struct Same<'a> {
    left: &'a [u8],
}

impl Flavor for Same<'_> {
    /// Whether nothing more is there.
    type Output = bool;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        let left = self.left.strip_prefix(bytes);
        self.left = left.ok_or(postcard::Error::SerializeBufferFull)?;
        Ok(())
    }

    fn finalize(self) -> postcard::Result<bool> {
        Ok(self.left.is_empty())
    }
}
