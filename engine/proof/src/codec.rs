//! The proof and its bytes.
//!
//! There is one way to write a proof: what is read would write to the same bytes again, with none
//! left over ([`crate::reader`]). Elements of the field are refused if they are not below p. Lists
//! are read item by item, so no more memory is used than there are bytes, and there is a limit to
//! these.

use crate::error::VerifyError;
use crate::field::EF;
use crate::pcs::{Opening, Root};
use crate::reader::Reader;
use crate::sumcheck::SumProof;
use p3_multi_stark::fractional_gkr::FractionGkrProof;
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
    /// The second commitment to the run, if it has two.
    pub(crate) rest: Option<Rest>,
    /// The openings of secret weights.
    pub(crate) weights: Vec<Opening>,
}

/// The second commitment to a divided run: to the pieces of columns that its first stack has no
/// room for.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Rest {
    /// The root, absorbed behind that of the first stack.
    pub(crate) root: Root,
    /// The opening, made behind that of the first stack.
    pub(crate) opening: Opening,
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
            ("rest", len(&self.rest)),
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
pub(crate) fn read<'a, P: Deserialize<'a>>(bytes: &'a [u8]) -> Result<P, VerifyError> {
    if bytes.len() > PROOF_BYTES_MAX {
        return Err(VerifyError::Size { found: bytes.len(), most: PROOF_BYTES_MAX });
    }
    let mut reader = Reader { left: bytes };
    let proof = P::deserialize(&mut reader).map_err(|_| VerifyError::Bytes)?;
    if reader.left.is_empty() { Ok(proof) } else { Err(VerifyError::Bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::programs::Net;
    use crate::{Mode, Prover};

    /// Whether postcard reads all of it and would write the same.
    fn is_canonical(bytes: &[u8]) -> bool {
        let read = postcard::take_from_bytes::<Proof>(bytes);
        read.is_ok_and(|(proof, rest)| rest.is_empty() && write(&proof) == bytes)
    }

    /// Goal: what is read is what postcard reads and writes in the same way. Method: proofs with
    /// bytes changed, put in and left out, most of them near the start, where lengths are.
    #[test]
    fn prop_bytes_are_read_if_and_only_if_they_are_canonical() {
        let net = Net::Convolution;
        let proofs = [Mode::Public, Mode::Committed].map(|mode| {
            let prover = Prover::new(net.model(), mode, 1).expect("a plan");
            prover.prove(vec![net.inputs(1)], Vec::new()).expect("inputs fit").1.to_bytes()
        });
        assert!(proofs.iter().all(|bytes| is_canonical(bytes)));
        let (mut read, mut refused) = (0, 0);
        arbtest::arbtest(|u| {
            let mut bytes = u.choose(&proofs)?.clone();
            let most = if u.ratio(2, 3)? { 64 } else { bytes.len() - 1 };
            for _ in 0..u.int_in_range(0..=2)? {
                let at = u.int_in_range(0..=most.min(bytes.len() - 1))?;
                match u.int_in_range(0..=3)? {
                    0 => bytes[at] ^= 1 << u.int_in_range(0..=7)?,
                    1 => bytes.insert(at, u.arbitrary()?),
                    2 => drop(bytes.remove(at)),
                    // The same number in one byte more.
                    _ => {
                        bytes[at] |= 0x80;
                        bytes.insert(at + 1, 0);
                    }
                }
            }
            let found = self::read::<Proof>(&bytes);
            assert_eq!(found.is_ok(), is_canonical(&bytes));
            if let Ok(proof) = &found {
                assert_eq!(write(proof), bytes);
            }
            *(if found.is_ok() { &mut read } else { &mut refused }) += 1;
            Ok(())
        });
        assert!(read > 10 && refused > 10, "{read} {refused}");
    }
}
