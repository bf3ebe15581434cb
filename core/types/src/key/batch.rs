//! Many signatures at once, for less than half the work of one after the other.
//!
//! A batch asks whether *all* its signatures are valid: one equation, in which each signature
//! counts with a coefficient that nobody could know when it was made (ZIP-215 makes that equation
//! agree with the single one). Core has no randomness, so the coefficients are drawn from the
//! caller's seed *and* from everything in the batch; they are unpredictable to a signer even if the
//! seed is not.

use super::{Domain, Kind, PublicKey, Signature, SignatureError};
use crate::hash::{Tag, start};
use curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{IsIdentity as _, VartimeMultiscalarMul as _};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng};
use sha2::{Digest, Sha256, Sha512};
use std::collections::BTreeMap;

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
    let mut points = KeyPoints::default();
    let mut batch = Batch::new(seed, items.len(), &mut points);
    for item in items {
        let message = domain.message(item.kind, item.message);
        batch.push(item.key.as_bytes(), &message, &item.signature);
    }
    if batch.all_valid() { Ok(()) } else { Err(SignatureError) }
}

/// Points of keys that have signed before. Finding the point of a key takes a square root, a fifth
/// of a check in a large batch, so those who check many signatures keep them.
#[derive(Clone, Debug, Default)]
pub struct KeyPoints(pub(super) BTreeMap<[u8; 32], EdwardsPoint>);

impl KeyPoints {
    /// Keys remembered at most: three megabytes.
    pub const MOST: usize = 16_384;

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The points of those keys that are known.
    pub fn find<'a>(&self, keys: impl Iterator<Item = &'a [u8; 32]>) -> Self {
        Self(keys.filter_map(|key| Some((*key, *self.0.get(key)?))).collect())
    }

    /// Takes points over. When it would hold too many, it begins anew.
    pub fn keep(&mut self, others: &Self) {
        for (key, point) in &others.0 {
            if self.0.len() >= Self::MOST && !self.0.contains_key(key) {
                self.0.clear();
            }
            self.0.entry(*key).or_insert(*point);
        }
    }

    /// The point of a key; `None` if the bytes are no point of the curve.
    pub(super) fn point(&mut self, key: &[u8; 32]) -> Option<EdwardsPoint> {
        if let Some(point) = self.0.get(key) {
            return Some(*point);
        }
        let point = CompressedEdwardsY(*key).decompress()?;
        self.0.insert(*key, point);
        Some(point)
    }
}

/// One signature of a batch, as the equation needs it.
struct Item {
    key: [u8; 32],
    nonce: [u8; 32],
    response: [u8; 32],
    challenge: Scalar,
}

/// Signatures gathered for one check. Keys are plain bytes here: one that is no point of the curve
/// makes its signature invalid, at no extra cost.
pub(crate) struct Batch<'a> {
    items: Vec<Item>,
    transcript: Sha256,
    points: &'a mut KeyPoints,
}

impl<'a> Batch<'a> {
    /// An empty batch with room for `capacity` signatures. New points are added to `points`.
    pub(crate) fn new(seed: [u8; 32], capacity: usize, points: &'a mut KeyPoints) -> Self {
        let mut transcript = start(Tag::BATCH);
        transcript.update(seed);
        Self { items: Vec::with_capacity(capacity), transcript, points }
    }

    /// Adds a signature on a message that already names network and kind.
    pub(crate) fn push(&mut self, key: &[u8; 32], message: &[u8], signature: &Signature) {
        self.transcript.update(key);
        self.transcript.update(signature.as_bytes());
        self.transcript.update(u64::try_from(message.len()).unwrap_or(u64::MAX).to_be_bytes());
        self.transcript.update(message);
        let (nonce, response) = signature.halves();
        let hash = Sha512::new().chain_update(nonce).chain_update(key).chain_update(message);
        let challenge = Scalar::from_hash(hash);
        self.items.push(Item { key: *key, nonce, response, challenge });
    }

    /// Whether every signature is valid.
    pub(crate) fn all_valid(self) -> bool {
        let mut coefficients = ChaCha20Rng::from_seed(self.transcript.finalize().into());
        is_valid(&self.items, &mut coefficients, self.points)
    }

    /// For every signature whether it is valid, in the order they were added.
    pub(crate) fn verdicts(self) -> Vec<bool> {
        let mut coefficients = ChaCha20Rng::from_seed(self.transcript.finalize().into());
        if is_valid(&self.items, &mut coefficients, self.points) {
            return vec![true; self.items.len()];
        }
        let mut verdicts = Vec::with_capacity(self.items.len());
        for group in self.items.chunks(GROUP_SIZE) {
            if is_valid(group, &mut coefficients, self.points) {
                verdicts.extend(group.iter().map(|_| true));
                continue;
            }
            for item in group {
                let single = std::slice::from_ref(item);
                verdicts.push(is_valid(single, &mut coefficients, self.points));
            }
        }
        verdicts
    }
}

/// The equation of ZIP-215 for all signatures at once: with a random z for each, eight times
/// sum(z R) + sum(z k A) - sum(z s) B is nothing. The terms of one key are added up first.
fn is_valid(items: &[Item], coefficients: &mut ChaCha20Rng, points: &mut KeyPoints) -> bool {
    let mut scalars = Vec::with_capacity(2 * items.len() + 1);
    let mut terms = Vec::with_capacity(2 * items.len() + 1);
    let mut by_key: BTreeMap<&[u8; 32], Scalar> = BTreeMap::new();
    let mut base = Scalar::ZERO;
    for item in items {
        let Some(nonce) = CompressedEdwardsY(item.nonce).decompress() else { return false };
        let response = Scalar::from_canonical_bytes(item.response);
        let Some(response) = Option::<Scalar>::from(response) else { return false };
        let coefficient = draw(coefficients);
        base -= coefficient * response;
        *by_key.entry(&item.key).or_default() += coefficient * item.challenge;
        scalars.push(coefficient);
        terms.push(nonce);
    }
    for (key, scalar) in by_key {
        let Some(point) = points.point(key) else { return false };
        scalars.push(scalar);
        terms.push(point);
    }
    scalars.push(base);
    terms.push(ED25519_BASEPOINT_POINT);
    EdwardsPoint::vartime_multiscalar_mul(&scalars, &terms).mul_by_cofactor().is_identity()
}

/// A coefficient of 128 bits: nobody hits the right one for a bad signature.
fn draw(coefficients: &mut ChaCha20Rng) -> Scalar {
    let mut bytes = [0; 16];
    coefficients.fill_bytes(&mut bytes);
    Scalar::from(u128::from_le_bytes(bytes))
}
