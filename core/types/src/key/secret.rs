//! Secret keys: made from a seed, wiped when dropped, never printed.

use super::{Domain, Kind, PublicKey, Signature};
use ed25519_zebra::{SigningKey, VerificationKeyBytes};
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// A secret key. Boxed, so that moving it leaves no copy behind.
pub struct SecretKey(Box<SigningKey>);

impl SecretKey {
    /// The key of a seed. The caller draws the seed; core has no randomness.
    pub fn from_seed(mut seed: [u8; 32]) -> Self {
        let key = Self(Box::new(SigningKey::from(seed)));
        seed.zeroize();
        key
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        // The scalar of a seed has bit 254 set and is a multiple of eight, so the point is never of
        // small order.
        PublicKey(VerificationKeyBytes::from(&*self.0).into())
    }

    /// Signs a message as a thing of this kind in this network.
    pub fn sign(&self, domain: &Domain, kind: Kind, message: &[u8]) -> Signature {
        self.sign_opened(&domain.message(kind, message))
    }

    /// Signs bytes that already name network and kind.
    pub(crate) fn sign_opened(&self, message: &[u8]) -> Signature {
        Signature(self.0.sign(message).to_bytes())
    }

    /// The seed, to write it into a sealed file. Named so that every use can be found.
    pub fn expose_seed(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(*self.0.as_bytes())
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for SecretKey {}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(secret of {:?})", self.public())
    }
}
