//! Wrap keys: the X-Wing key pair of somebody to whom keys are wrapped.
//!
//! The secret is X-Wing's own seed of 32 bytes. The public key is 1,216 bytes: ML-KEM-768's, then
//! X25519's. Bytes are refused that no key pair has (ML-KEM coefficients beyond the modulus, X25519
//! coordinates beyond the prime) and so are X25519 points of small order, with which that half of
//! the hybrid would protect nothing.

use hpke::kem::XWing;
use hpke::{Deserializable, Kem, Serializable};
use std::fmt;
use tg_types::hash::{Tag, tagged};
use tg_types::{Decode, DecodeError, Encode, Hash32, Reader};
use zeroize::{Zeroize, Zeroizing};

const DIGEST: Tag = Tag::new("tensorgrid/wrap key");
/// Bytes of the X25519 half, the second one.
const X25519_BYTES: usize = 32;

/// Why bytes are no public wrap key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrapKeyError {
    /// Not this many bytes.
    #[error("has {found} bytes, expected {expected}", expected = WrapPublic::BYTES)]
    Length {
        /// How many there are.
        found: usize,
    },
    /// A coefficient that is not below ML-KEM's modulus.
    #[error("a coefficient of the ML-KEM key is beyond the modulus")]
    MlKem,
    /// An X25519 coordinate that is not below the prime.
    #[error("X25519 coordinate is beyond the prime")]
    NotCanonical,
    /// A point whose shared secret everybody knows.
    #[error("X25519 point is of small order")]
    SmallOrder,
}

/// The public half: what others wrap to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WrapPublic(Box<[u8; Self::BYTES]>);

impl WrapPublic {
    /// The size of every public key.
    pub const BYTES: usize = 1216;

    /// Checks the bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, WrapKeyError> {
        let wrong_length = WrapKeyError::Length { found: bytes.len() };
        let bytes: &[u8; Self::BYTES] = bytes.try_into().map_err(|_| wrong_length)?;
        let point = bytes.last_chunk().expect("longer than a point");
        check_point(point)?;
        <XWing as Kem>::PublicKey::from_bytes(bytes).map_err(|_| WrapKeyError::MlKem)?;
        Ok(Self(Box::new(*bytes)))
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// A short name for the key: what a ledger entry may hold instead of it.
    pub fn digest(&self) -> Hash32 {
        tagged(DIGEST, &[&*self.0])
    }

    pub(super) fn key(&self) -> <XWing as Kem>::PublicKey {
        Deserializable::from_bytes(&*self.0).expect("was checked when it was made")
    }
}

impl fmt::Debug for WrapPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WrapPublic({:?})", self.digest())
    }
}

impl Encode for WrapPublic {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for WrapPublic {
    const BYTES_MIN: usize = Self::BYTES;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = reader.take(Self::BYTES)?;
        let expected = "X-Wing public key";
        Self::new(bytes).map_err(|_| DecodeError::Range { at: reader.position(), expected })
    }
}

/// The secret half. Boxed, so that moving it leaves no copy behind; wiped when dropped.
pub struct WrapSecret {
    key: Box<<XWing as Kem>::PrivateKey>,
    public: WrapPublic,
}

impl WrapSecret {
    /// The size of the seed.
    pub const SEED_BYTES: usize = 32;

    /// The key pair of a seed of random bytes.
    pub fn from_seed(mut seed: [u8; Self::SEED_BYTES]) -> Self {
        let key = <XWing as Kem>::PrivateKey::from_bytes(&seed)
            .expect("any 32 bytes are a secret key of X-Wing");
        seed.zeroize();
        let public = XWing::sk_to_pk(&key).to_bytes();
        let public = WrapPublic::new(&public).expect("a key that was just made is well formed");
        Self { key: Box::new(key), public }
    }

    /// The public half.
    pub const fn public(&self) -> &WrapPublic {
        &self.public
    }

    /// The seed, to write it into an encrypted file. Named so that every use can be found.
    pub fn expose_seed(&self) -> Zeroizing<[u8; Self::SEED_BYTES]> {
        let mut seed = Zeroizing::new([0; Self::SEED_BYTES]);
        self.key.write_exact(&mut *seed);
        seed
    }

    pub(super) fn key(&self) -> &<XWing as Kem>::PrivateKey {
        &self.key
    }
}

impl fmt::Debug for WrapSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WrapSecret(secret of {:?})", self.public)
    }
}

/// The coordinates, little-endian and below the prime, of all points of the curve and of its twist
/// whose order divides eight: 0, 1, -1 and those of order eight.
const SMALL_ORDER: [[u8; X25519_BYTES]; 5] = [
    near(0x00, 0x00, 0x00),
    near(0x01, 0x00, 0x00),
    near(0xec, 0xff, 0x7f),
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4,
        0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49,
        0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef,
        0x5b, 0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f,
        0x11, 0x57,
    ],
];

/// 2^255 - 19, little-endian.
const PRIME: [u8; X25519_BYTES] = near(0xed, 0xff, 0x7f);

const fn near(first: u8, middle: u8, last: u8) -> [u8; X25519_BYTES] {
    let mut bytes = [middle; X25519_BYTES];
    bytes[0] = first;
    bytes[X25519_BYTES - 1] = last;
    bytes
}

fn check_point(point: &[u8; X25519_BYTES]) -> Result<(), WrapKeyError> {
    if point.iter().rev().ge(PRIME.iter().rev()) {
        return Err(WrapKeyError::NotCanonical);
    }
    if SMALL_ORDER.contains(point) {
        return Err(WrapKeyError::SmallOrder);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PRIME, SMALL_ORDER, WrapKeyError, WrapPublic, WrapSecret, check_point, near};
    use curve25519_dalek::montgomery::MontgomeryPoint;
    use tg_types::hash::sha256;
    use tg_types::{Decode, DecodeError, Encode};

    fn public() -> Vec<u8> {
        WrapSecret::from_seed([1; 32]).public().to_bytes()
    }

    /// The first of the test vectors in the appendix of draft-connolly-cfrg-xwing-kem.
    #[test]
    fn public_key_of_the_draft_s_seed_is_the_draft_s() {
        let seed = "7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26";
        let seed: [u8; 32] = hex::decode(seed).expect("hex").try_into().expect("32 bytes");
        let secret = WrapSecret::from_seed(seed);
        let public = secret.public().as_bytes();
        assert_eq!(hex::encode(&public[..16]), "e2236b35a8c24b39b10aa1323a96a919");
        let expected = "2e816deebcd76c5c80d0cd2d174478871658e8e2ff42bc9d4a6e486372e856bb";
        assert_eq!(hex::encode(sha256(&[public])), expected);
        assert_eq!(*secret.expose_seed(), seed);
    }

    #[test]
    fn points_listed_have_small_order() {
        for point in SMALL_ORDER {
            for scalar in [[0x11; 32], [0xfe; 32]] {
                let shared = MontgomeryPoint(point).mul_clamped(scalar);
                assert_eq!(shared.to_bytes(), [0; 32], "{point:?}");
            }
        }
    }

    #[test]
    fn public_key_with_a_bad_point_is_refused() {
        let mut bytes = public();
        let mut check = |point: [u8; 32], expected| {
            bytes.truncate(1184);
            bytes.extend_from_slice(&point);
            assert_eq!(WrapPublic::new(&bytes), Err(expected), "{point:?}");
            assert!(matches!(WrapPublic::from_bytes(&bytes), Err(DecodeError::Range { .. })));
        };
        for point in SMALL_ORDER {
            check(point, WrapKeyError::SmallOrder);
            let mut signed = point;
            signed[31] |= 0x80;
            check(signed, WrapKeyError::NotCanonical);
        }
        for point in [PRIME, near(0xee, 0xff, 0x7f), near(0xff, 0xff, 0x7f), [0xff; 32]] {
            check(point, WrapKeyError::NotCanonical);
        }
        assert_eq!(check_point(&near(0xeb, 0xff, 0x7f)), Ok(()));
    }

    /// A coefficient takes 12 bits; the modulus is 3,329.
    #[test]
    fn public_key_with_a_coefficient_beyond_the_modulus_is_refused() {
        let mut bytes = public();
        for (low, middle) in [(0x01, 0x0d), (0xff, 0x0f)] {
            bytes[0] = low;
            bytes[1] = (bytes[1] & 0xf0) | middle;
            assert_eq!(WrapPublic::new(&bytes), Err(WrapKeyError::MlKem));
        }
        bytes[0] = 0x00;
        bytes[1] = (bytes[1] & 0xf0) | 0x0d;
        assert!(WrapPublic::new(&bytes).is_ok());
    }

    #[test]
    fn public_key_of_another_length_is_refused() {
        let bytes = public();
        for length in [0, 31, 32, 1184, 1215] {
            let refused = WrapKeyError::Length { found: length };
            assert_eq!(WrapPublic::new(&bytes[..length]), Err(refused));
            let read = WrapPublic::from_bytes(&bytes[..length]);
            assert!(matches!(read, Err(DecodeError::Truncated { .. })));
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(WrapPublic::new(&longer), Err(WrapKeyError::Length { found: 1217 }));
        assert!(matches!(WrapPublic::from_bytes(&longer), Err(DecodeError::Trailing { .. })));
        assert_eq!(WrapPublic::from_bytes(&bytes).map(|key| key.to_bytes()), Ok(bytes));
    }

    #[test]
    fn debug_shows_no_secret() {
        let secret = WrapSecret::from_seed([0x77; 32]);
        let shown = format!("{secret:?}");
        assert!(shown.starts_with("WrapSecret(secret of WrapPublic(Hash32("), "{shown}");
        assert!(shown.len() < 80, "{shown}");
    }
}
