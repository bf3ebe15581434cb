//! Keys on their way to one recipient.
//!
//! A content key, or a share of one, is encrypted to a recipient's wrap key with HPKE (RFC 9180) in
//! its base mode: X-Wing (ML-KEM-768 with X25519, so that it stays secret unless both are broken),
//! HKDF-SHA256 and ChaCha20-Poly1305. HPKE's `info` names what is carried, the network, whose data
//! it opens, the job or content and the recipient's key, so that a wrapped key that is copied to
//! another place does not open there. Base mode does not say who wrapped it: that is what the
//! signature of the transaction or message around it is for.
//!
//! Wrapping takes chance as an argument ([`crate::randomness`]).

mod keys;

pub use keys::{WrapKeyError, WrapPublic, WrapSecret};

use crate::content::ContentKey;
use crate::randomness::{Pieces, Randomness};
use crate::shares::{Share, ShareIndex};
use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::HkdfSha256;
use hpke::kem::XWing;
use hpke::{Deserializable, Kem, OpModeR, OpModeS, Serializable};
use std::fmt;
use tg_types::hash::Tag;
use tg_types::{
    AccountId, Decode, DecodeError, Encode, FORMAT_VERSION, GenesisHash, Hash32, JobId, Reader,
    wire,
};
use zeroize::Zeroizing;

/// Bytes of X-Wing's ciphertext.
const ENCAPSULATED_BYTES: usize = 1120;
/// Bytes of the tag of ChaCha20-Poly1305.
const TAG_BYTES: usize = 16;

const RANDOMNESS: Tag = Tag::new("tensorgrid/wrap randomness");
/// What `info` begins with. All parts behind it have a fixed length.
const INFO: &[u8] = b"tensorgrid/wrap";

wire! {
    /// To what a wrapped key belongs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum KeyOf {
        /// The data of one job.
        Job {
            /// Which.
            job: JobId,
        } = 1,
        /// One content, whichever jobs use it, such as a model's weights.
        Content {
            /// The hash by which it is known.
            id: Hash32,
        } = 2,
    }
}

wire! {
    /// Where a wrapped key counts. It is not stored with it: the recipient says what it must be.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct WrapContext {
        /// The network.
        pub genesis: GenesisHash,
        /// Whose data it opens. A key or share that was wrapped for one owner's data does not open
        /// where somebody says that it is another's.
        pub owner: AccountId,
        /// To what the key belongs.
        pub key_of: KeyOf,
    }
}

wire! {
    /// What is inside a wrapping.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Carries {
        /// A content key.
        Key = 1,
        /// A share of one.
        Share = 2,
    }
}

impl Carries {
    const fn bytes(self) -> usize {
        match self {
            Self::Key => ContentKey::BYTES,
            Self::Share => Share::BYTES,
        }
    }
}

/// Why something wrapped does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnwrapError {
    /// It carries something else.
    #[error("carries a {}, expected a {}", found.name(), expected.name())]
    Carries {
        /// What it carries.
        found: Carries,
        /// What was wanted.
        expected: Carries,
    },
    /// It was wrapped to another key or in another context, or was changed.
    #[error("was wrapped to another key or in another context, or was changed")]
    Refused,
    /// It opens to a share whose index no share has.
    #[error("share {found} cannot be")]
    Index {
        /// The index found.
        found: u8,
    },
}

/// A content key or a share, encrypted to one recipient.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wrapped {
    carries: Carries,
    encapsulated: Box<[u8; ENCAPSULATED_BYTES]>,
    /// As long as `carries` says.
    sealed: Box<[u8]>,
}

impl Wrapped {
    /// The most bytes it takes when stored.
    pub const BYTES_MAX: usize = 2 + ENCAPSULATED_BYTES + Share::BYTES + TAG_BYTES;

    /// What is inside.
    pub const fn carries(&self) -> Carries {
        self.carries
    }
}

impl fmt::Debug for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wrapped({})", self.carries.name())
    }
}

impl Encode for Wrapped {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT_VERSION);
        self.carries.encode(out);
        self.encapsulated.encode(out);
        out.extend_from_slice(&self.sealed);
    }
}

impl Decode for Wrapped {
    const BYTES_MIN: usize = 2 + ENCAPSULATED_BYTES + ContentKey::BYTES + TAG_BYTES;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.position();
        let found = reader.byte()?;
        if found != FORMAT_VERSION {
            return Err(DecodeError::Version { at, found, supported: FORMAT_VERSION });
        }
        let carries = Carries::decode(reader)?;
        let encapsulated = Box::new(reader.array()?);
        let sealed = reader.take(carries.bytes() + TAG_BYTES)?.into();
        Ok(Self { carries, encapsulated, sealed })
    }
}

/// Wraps a content key to a recipient.
pub fn wrap(
    key: &ContentKey,
    to: &WrapPublic,
    context: &WrapContext,
    randomness: Randomness,
) -> Wrapped {
    seal(Carries::Key, key.as_bytes(), to, context, randomness)
}

/// Wraps a share to a recipient: by the owner to the validator who keeps it, by that validator to
/// the provider or checker to whom it is released.
pub fn wrap_share(
    share: &Share,
    to: &WrapPublic,
    context: &WrapContext,
    randomness: Randomness,
) -> Wrapped {
    seal(Carries::Share, &*share.expose(), to, context, randomness)
}

/// The content key that was wrapped. Whether it is the key of a message is what the message's
/// header says.
pub fn unwrap(
    wrapped: &Wrapped,
    secret: &WrapSecret,
    context: &WrapContext,
) -> Result<ContentKey, UnwrapError> {
    let bytes = open(Carries::Key, wrapped, secret, context)?;
    let bytes = bytes.first_chunk().expect("a wrapped key is as long as a key");
    Ok(ContentKey::new(*bytes))
}

/// The share that was wrapped. Whether it belongs to a book is what [`crate::ShareBook::check`]
/// says.
pub fn unwrap_share(
    wrapped: &Wrapped,
    secret: &WrapSecret,
    context: &WrapContext,
) -> Result<Share, UnwrapError> {
    let bytes = open(Carries::Share, wrapped, secret, context)?;
    let (index, bytes) = bytes.split_first().expect("a wrapped share is as long as a share");
    let bytes = bytes.first_chunk().expect("a wrapped share is as long as a share");
    let index = ShareIndex::new(*index).ok_or(UnwrapError::Index { found: *index })?;
    Ok(Share::new(index, *bytes))
}

fn seal(
    carries: Carries,
    payload: &[u8],
    to: &WrapPublic,
    context: &WrapContext,
    randomness: Randomness,
) -> Wrapped {
    let info = info(carries, to, context);
    let mut generator = randomness.generator(RANDOMNESS, Pieces { secret: payload, public: &info });
    let (encapsulated, sealed) = hpke::single_shot_seal_with_rng::<
        ChaCha20Poly1305,
        HkdfSha256,
        XWing,
    >(
        &OpModeS::Base, &to.key(), &info, payload, &[], &mut generator
    )
    .expect("X-Wing encapsulates to every checked key, and the first message of a key fits");
    let mut bytes = Box::new([0; ENCAPSULATED_BYTES]);
    encapsulated.write_exact(&mut *bytes);
    Wrapped { carries, encapsulated: bytes, sealed: sealed.into() }
}

fn open(
    expected: Carries,
    wrapped: &Wrapped,
    secret: &WrapSecret,
    context: &WrapContext,
) -> Result<Zeroizing<Vec<u8>>, UnwrapError> {
    if wrapped.carries != expected {
        return Err(UnwrapError::Carries { found: wrapped.carries, expected });
    }
    let encapsulated = <XWing as Kem>::EncappedKey::from_bytes(&*wrapped.encapsulated)
        .expect("any bytes of this length are a ciphertext of X-Wing");
    hpke::single_shot_open::<ChaCha20Poly1305, HkdfSha256, XWing>(
        &OpModeR::Base,
        secret.key(),
        &encapsulated,
        &info(expected, secret.public(), context),
        &wrapped.sealed,
        &[],
    )
    .map(Zeroizing::new)
    .map_err(|_| UnwrapError::Refused)
}

/// What enters HPKE's key schedule besides the shared secret.
fn info(carries: Carries, to: &WrapPublic, context: &WrapContext) -> Vec<u8> {
    let mut info = INFO.to_vec();
    info.push(FORMAT_VERSION);
    carries.encode(&mut info);
    context.encode(&mut info);
    to.digest().encode(&mut info);
    info
}

#[cfg(test)]
mod tests {
    use super::{Carries, KeyOf, UnwrapError, WrapContext, WrapSecret, info, seal, unwrap_share};
    use crate::{Randomness, Share};
    use std::collections::BTreeSet;
    use tg_types::{GenesisHash, Hash32, JobId, SecretKey};

    #[test]
    fn info_differs_in_everything_it_names() {
        let (one, other) = (WrapSecret::from_seed([1; 32]), WrapSecret::from_seed([2; 32]));
        let owner = |seed| SecretKey::from_seed([seed; 32]).public().into();
        let at = |genesis, key_of| WrapContext {
            genesis: GenesisHash::new([genesis; 32]),
            owner: owner(1),
            key_of,
        };
        let job = |number| KeyOf::Job { job: JobId::new([number; 32]) };
        let content = KeyOf::Content { id: Hash32::new([1; 32]) };
        let all = [
            info(Carries::Key, one.public(), &at(1, job(1))),
            info(Carries::Share, one.public(), &at(1, job(1))),
            info(Carries::Key, other.public(), &at(1, job(1))),
            info(Carries::Key, one.public(), &at(2, job(1))),
            info(Carries::Key, one.public(), &at(1, job(2))),
            info(Carries::Key, one.public(), &at(1, content)),
            info(Carries::Key, one.public(), &WrapContext { owner: owner(2), ..at(1, job(1)) }),
        ];
        assert!(all.iter().all(|info| info.len() == 15 + 1 + 1 + 32 + 32 + 33 + 32));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }

    /// Only somebody who wraps by a program of its own can make one.
    #[test]
    fn wrapped_share_of_an_impossible_index_is_refused() {
        let secret = WrapSecret::from_seed([1; 32]);
        let key_of = KeyOf::Job { job: JobId::new([2; 32]) };
        let owner = SecretKey::from_seed([4; 32]).public().into();
        let context = WrapContext { genesis: GenesisHash::new([3; 32]), owner, key_of };
        for index in [0, 101, 255] {
            let mut payload = [5; Share::BYTES];
            payload[0] = index;
            let randomness = Randomness::new([4; 32]);
            let wrapped = seal(Carries::Share, &payload, secret.public(), &context, randomness);
            let refused = unwrap_share(&wrapped, &secret, &context).map(|share| share.index());
            assert_eq!(refused, Err(UnwrapError::Index { found: index }));
        }
    }
}
