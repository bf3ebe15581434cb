//! Content keys and the messages sealed with them.
//!
//! A sealed message is a header and chunks:
//! ```text
//! header   format (1 byte) ‖ nonce prefix (7) ‖ commitment to the key (32)
//! chunk    ChaCha20-Poly1305 of up to 64 KiB ‖ tag (16)
//! nonce    prefix (7) ‖ number of the chunk (4, big-endian) ‖ 1 for the last, 0 for others (1)
//! ```
//! This is the STREAM construction (Hoang, Reyhanitabar, Rogaway, Vizár: "Online Authenticated-
//! Encryption and its Nonce-Reuse Misuse-Resistance", 2015, section 7). Every chunk but the last is
//! full, and the last is empty only where the whole message is: a plaintext has one sealed length.
//! A chunk that is left out, repeated, moved, cut off or added has the wrong number or the wrong
//! mark of the last one and is refused. Each chunk is bound to the hash of header and [`Context`].
//!
//! ChaCha20-Poly1305 does not commit to its key: one can make a ciphertext that two keys open to
//! two plaintexts. The header therefore carries a hash of the key, which is compared before
//! anything else, so that a published key decides a complaint for one plaintext only.
//!
//! A key is meant for one message. Two messages under one key are still apart if their nonce
//! prefixes are, which chance gets wrong once in 2^56 pairs; publishing the key opens both.

mod complaint;
mod stream;

pub use complaint::{Complaint, Judge, judge_complaint};
pub use stream::{OpenError, Opener, SealError, Sealer};

use crate::randomness::Randomness;
use std::fmt;
use tg_types::hash::{Tag, tagged};
use tg_types::{
    AccountId, Decode, DecodeError, Encode, FORMAT_VERSION, GenesisHash, Hash32, Reader, wire,
};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Plaintext bytes of every chunk but the last. Large enough that 16 bytes of tag do not count,
/// small enough that a chunk stays in a processor's cache and that showing a bad one costs little.
pub const CHUNK_BYTES: usize = 64 * 1024;
/// Bytes of the tag behind every chunk.
pub const TAG_BYTES: usize = 16;
/// Bytes of a full chunk as it is stored.
pub const SEALED_CHUNK_BYTES: usize = CHUNK_BYTES + TAG_BYTES;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 1 + PREFIX_BYTES + 32;
/// What is left of a nonce of 12 bytes beside the number of the chunk and the mark of the last one.
const PREFIX_BYTES: usize = 12 - 4 - 1;

const COMMITMENT: Tag = Tag::new("tensorgrid/content key");
const ASSOCIATED: Tag = Tag::new("tensorgrid/sealed");

/// The key of one sealed message. Boxed, so that moving it leaves no copy behind.
pub struct ContentKey(Box<[u8; Self::BYTES]>);

impl ContentKey {
    /// The size of every key.
    pub const BYTES: usize = 32;

    /// The key of these bytes: fresh random ones, or those that somebody published.
    pub fn new(mut bytes: [u8; Self::BYTES]) -> Self {
        let key = Self(Box::new(bytes));
        bytes.zeroize();
        key
    }

    /// What everybody may know of the key.
    pub fn commitment(&self) -> KeyCommitment {
        KeyCommitment(tagged(COMMITMENT, &[&*self.0]))
    }

    /// The bytes, to publish them in a complaint or to store them encrypted. Named so that every
    /// use can be found.
    pub fn expose(&self) -> Zeroizing<[u8; Self::BYTES]> {
        Zeroizing::new(*self.0)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl Drop for ContentKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for ContentKey {}

impl fmt::Debug for ContentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentKey(secret of {:?})", self.commitment().0)
    }
}

/// A hash that only one key has. Keys are random, so it tells nothing about the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyCommitment(Hash32);

impl KeyCommitment {
    /// From the hash, as read in a header or a book.
    pub const fn new(hash: Hash32) -> Self {
        Self(hash)
    }

    /// The hash.
    pub const fn hash(&self) -> &Hash32 {
        &self.0
    }
}

impl fmt::Display for KeyCommitment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Encode for KeyCommitment {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for KeyCommitment {
    const BYTES_MIN: usize = Hash32::BYTES_MIN;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Hash32::decode(reader).map(Self)
    }
}

wire! {
    /// What a sealed message is to its job.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Purpose {
        /// What the job reads.
        Input = 1,
        /// A model's numbers.
        Weights = 2,
        /// What the job gives.
        Output = 3,
        /// The program itself.
        Program = 4,
        /// The state of a job, for whoever goes on with it.
        Checkpoint = 5,
    }
}

wire! {
    /// Where a sealed message belongs. It is not stored with the message: whoever opens it says
    /// what it must be, and a message of another network, owner or purpose does not open.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Context {
        /// The network.
        pub genesis: GenesisHash,
        /// Whose data it is.
        pub owner: AccountId,
        /// What it is for.
        pub purpose: Purpose,
        /// The hash of whatever else tells this message from others, such as a name and a version.
        pub label: Hash32,
    }
}

/// What a sealed message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedHeader {
    prefix: [u8; PREFIX_BYTES],
    key: KeyCommitment,
}

impl SealedHeader {
    /// The key it commits to. Whoever passes a message on can compare it with a [`ShareBook`]'s
    /// without knowing the key.
    ///
    /// [`ShareBook`]: crate::ShareBook
    pub const fn key(&self) -> KeyCommitment {
        self.key
    }

    /// What every chunk is bound to. Header and context have a fixed length.
    fn associated(&self, context: &Context) -> Hash32 {
        tagged(ASSOCIATED, &[&self.to_bytes(), &context.to_bytes()])
    }
}

impl Encode for SealedHeader {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT_VERSION);
        self.prefix.encode(out);
        self.key.encode(out);
    }
}

impl Decode for SealedHeader {
    const BYTES_MIN: usize = HEADER_BYTES;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.position();
        let found = reader.byte()?;
        if found != FORMAT_VERSION {
            return Err(DecodeError::Version { at, found, supported: FORMAT_VERSION });
        }
        Ok(Self { prefix: reader.array()?, key: KeyCommitment::decode(reader)? })
    }
}

/// How many bytes a message of `plain` bytes takes when it is sealed; `None` beyond 64 bits.
pub fn sealed_bytes(plain: u64) -> Option<u64> {
    let chunks = plain.div_ceil(CHUNK_BYTES as u64).max(1);
    let tags = chunks.checked_mul(TAG_BYTES as u64)?;
    plain.checked_add(tags)?.checked_add(HEADER_BYTES as u64)
}

/// Seals a message that is in memory as a whole.
pub fn seal_all(
    key: &ContentKey,
    context: &Context,
    randomness: Randomness,
    plain: &[u8],
) -> Result<Vec<u8>, SealError> {
    let chunks = plain.len() / CHUNK_BYTES + 1;
    let mut out = Vec::with_capacity(HEADER_BYTES + plain.len() + chunks * TAG_BYTES);
    let mut sealer = Sealer::start(key, context, randomness, &mut out);
    sealer.push(plain, &mut out)?;
    sealer.finish(&mut out)?;
    Ok(out)
}

/// Opens a message that is in memory as a whole: all of its plaintext, or nothing.
pub fn open_all(
    key: &ContentKey,
    context: &Context,
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let mut plain = Zeroizing::new(Vec::with_capacity(sealed.len()));
    let mut opener = Opener::new(key, context);
    opener.push(sealed, &mut plain)?;
    opener.finish(&mut plain)?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::{CHUNK_BYTES, ContentKey, HEADER_BYTES, KeyCommitment, SealedHeader, sealed_bytes};
    use tg_types::{Decode, DecodeError, Encode, Hash32};

    #[test]
    fn header_of_another_format_or_length_is_refused() {
        let header = SealedHeader { prefix: [7; 7], key: KeyCommitment::new(Hash32::new([9; 32])) };
        let mut bytes = header.to_bytes();
        assert_eq!(bytes.len(), HEADER_BYTES);
        assert_eq!(SealedHeader::from_bytes(&bytes), Ok(header));
        for length in 0..HEADER_BYTES {
            let cut = bytes.get(..length).expect("shorter");
            assert!(matches!(SealedHeader::from_bytes(cut), Err(DecodeError::Truncated { .. })));
        }
        for format in [0, 2, 255] {
            *bytes.first_mut().expect("a format byte") = format;
            let refused = DecodeError::Version { at: 0, found: format, supported: 1 };
            assert_eq!(SealedHeader::from_bytes(&bytes), Err(refused));
        }
    }

    #[test]
    fn sealed_length_counts_header_and_tags() {
        let chunk = CHUNK_BYTES as u64;
        for (plain, tags) in [(0, 1), (1, 1), (chunk, 1), (chunk + 1, 2), (3 * chunk, 3)] {
            assert_eq!(sealed_bytes(plain), Some(40 + plain + 16 * tags), "{plain}");
        }
        assert_eq!(sealed_bytes(u64::MAX), None);
    }

    #[test]
    fn key_shows_only_its_commitment() {
        let key = ContentKey::new([0xab; 32]);
        let shown = format!("{key:?}");
        assert!(!shown.contains("ab, ") && !shown.contains("171"), "{shown}");
        assert!(shown.starts_with("ContentKey(secret of Hash32("), "{shown}");
        assert!(!shown.contains("abababab"), "{shown}");
        assert_ne!(key.commitment().hash().as_bytes(), &[0xab; 32]);
        assert_ne!(key.commitment(), ContentKey::new([0xac; 32]).commitment());
    }
}
