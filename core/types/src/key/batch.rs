//! Many signatures at once, for less than half the work of one after the other.
//!
//! A batch asks whether *all* its signatures are valid: one equation, in which each signature
//! counts with a coefficient that nobody could know when it was made (ZIP-215 makes that equation
//! agree with the single one). Core has no randomness, so the coefficients are drawn from the
//! caller's seed *and* from everything in the batch; they are unpredictable to a signer even if the
//! seed is not.

use super::{Domain, Kind, PublicKey, Signature, SignatureError};
use crate::hash::{Tag, start};
use ed25519_zebra::batch::{Item, Verifier};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sha2::{Digest, Sha256};

/// When a batch fails, it is split into groups of this size, and a group that fails into single
/// signatures. A group of eight costs hardly more per signature than a large batch and half of a
/// single check, so even a batch full of bad signatures costs only twice its single checks.
const GROUP_SIZE: usize = 8;

/// One signature of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchItem<'a> {
    /// Who signed.
    pub key: PublicKey,
    /// As what kind of thing.
    pub kind: Kind,
    /// What was signed, without the network.
    pub message: &'a [u8],
    /// The signature.
    pub signature: Signature,
}

/// Whether all signatures are valid in this network. The answer does not depend on `seed`; an
/// unpredictable seed only adds to what the batch's own content already gives.
pub fn verify_batch(
    domain: &Domain,
    items: &[BatchItem<'_>],
    seed: [u8; 32],
) -> Result<(), SignatureError> {
    let mut batch = Batch::new(seed, items.len());
    for item in items {
        let message = domain.message(item.kind, item.message);
        batch.push(item.key.as_bytes(), &message, &item.signature);
    }
    if batch.all_valid() { Ok(()) } else { Err(SignatureError) }
}

/// Signatures gathered for one check. Keys are plain bytes here: one that is no point of the curve
/// makes its signature invalid, at no extra cost.
pub(crate) struct Batch {
    items: Vec<Item>,
    transcript: Sha256,
}

impl Batch {
    /// An empty batch with room for `capacity` signatures.
    pub(crate) fn new(seed: [u8; 32], capacity: usize) -> Self {
        let mut transcript = start(Tag::BATCH);
        transcript.update(seed);
        Self { items: Vec::with_capacity(capacity), transcript }
    }

    /// Adds a signature on a message that already names network and kind.
    pub(crate) fn push(&mut self, key: &[u8; 32], message: &[u8], signature: &Signature) {
        self.transcript.update(key);
        self.transcript.update(signature.as_bytes());
        self.transcript.update(u64::try_from(message.len()).unwrap_or(u64::MAX).to_be_bytes());
        self.transcript.update(message);
        self.items.push(Item::from(((*key).into(), signature.0.into(), message)));
    }

    /// Whether every signature is valid.
    pub(crate) fn all_valid(self) -> bool {
        let mut coefficients = ChaCha20Rng::from_seed(self.transcript.finalize().into());
        is_valid(&self.items, &mut coefficients)
    }

    /// For every signature whether it is valid, in the order they were added.
    pub(crate) fn verdicts(self) -> Vec<bool> {
        let mut coefficients = ChaCha20Rng::from_seed(self.transcript.finalize().into());
        if is_valid(&self.items, &mut coefficients) {
            return vec![true; self.items.len()];
        }
        let mut verdicts = Vec::with_capacity(self.items.len());
        for group in self.items.chunks(GROUP_SIZE) {
            if is_valid(group, &mut coefficients) {
                verdicts.extend(group.iter().map(|_| true));
            } else {
                verdicts.extend(group.iter().map(|item| item.clone().verify_single().is_ok()));
            }
        }
        verdicts
    }
}

fn is_valid(items: &[Item], coefficients: &mut ChaCha20Rng) -> bool {
    if let [item] = items {
        return item.clone().verify_single().is_ok();
    }
    let mut verifier = Verifier::new();
    for item in items {
        verifier.queue(item.clone());
    }
    verifier.verify(coefficients).is_ok()
}
