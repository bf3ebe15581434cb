//! Sealing and opening piece by piece. A message of any length passes through one chunk of memory:
//! bytes are pushed in pieces of any size, and whatever is finished is appended to the caller's
//! buffer, which it empties when it likes.
//!
//! The last chunk is marked, so a full chunk waits until a further byte or the end arrives.

use super::{
    CHUNK_BYTES, ContentKey, Context, HEADER_BYTES, KeyCommitment, PREFIX_BYTES,
    SEALED_CHUNK_BYTES, SealedHeader, TAG_BYTES,
};
use crate::randomness::{Pieces, Randomness};
use chacha20poly1305::{AeadInOut, ChaCha20Poly1305, KeyInit, Nonce, Tag as AuthTag};
use hpke::rand_core::Rng;
use std::fmt;
use tg_types::hash::Tag;
use tg_types::{Decode, DecodeError, Encode, Hash32};
use zeroize::Zeroizing;

const PREFIX: Tag = Tag::new("tensorgrid/nonce prefix");

/// Why a message cannot be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// More chunks than can be numbered, which is 256 TiB.
    #[error("message has more than 2^32 chunks")]
    TooLong,
}

/// Why a sealed message does not open. Chunks are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It does not begin with a header that this version reads.
    #[error("header is refused")]
    Header(#[source] DecodeError),
    /// The header commits to another key.
    #[error("key is not the one that the header commits to")]
    Key,
    /// A chunk that is not the one sealed in this place of this message with this context.
    #[error("chunk {chunk} is not what was sealed in this place and context")]
    Chunk {
        /// Which.
        chunk: u32,
    },
    /// It ends inside a chunk.
    #[error("ends inside chunk {chunk}")]
    Truncated {
        /// Which.
        chunk: u32,
    },
    /// The last chunk is empty though the message is not: another sealed form of the same message.
    #[error("last chunk {chunk} is empty")]
    Empty {
        /// Which.
        chunk: u32,
    },
    /// It goes on behind the last chunk that has a number.
    #[error("goes on behind chunk {chunk}, the last that has a number")]
    TooLong {
        /// Which.
        chunk: u32,
    },
}

/// Seals a message piece by piece.
pub struct Sealer {
    chunks: Chunks,
    /// At most one chunk of plaintext; never grows beyond what it first reserved.
    waiting: Zeroizing<Vec<u8>>,
    refusal: Option<SealError>,
}

impl Sealer {
    /// Begins a message: appends the header to `out`.
    pub fn start(
        key: &ContentKey,
        context: &Context,
        randomness: Randomness,
        out: &mut Vec<u8>,
    ) -> Self {
        let mut prefix = [0; PREFIX_BYTES];
        let pieces = Pieces { secret: key.as_bytes(), public: &context.to_bytes() };
        randomness.generator(PREFIX, pieces).fill_bytes(&mut prefix);
        let header = SealedHeader { prefix, key: key.commitment() };
        header.encode(out);
        Self {
            chunks: Chunks::new(cipher(key), &header, context),
            waiting: Zeroizing::new(Vec::with_capacity(CHUNK_BYTES)),
            refusal: None,
        }
    }

    /// Takes the next piece of the message and appends the chunks that it completes to `out`. After
    /// an error every further call gives the same error.
    pub fn push(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), SealError> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        let taken = self.take(plain, out);
        self.refusal = taken.err();
        taken
    }

    /// Ends the message: appends the last chunk to `out`.
    pub fn finish(self, out: &mut Vec<u8>) -> Result<(), SealError> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        self.chunks.seal(Ending::Last, &self.waiting, out);
        Ok(())
    }

    fn take(&mut self, mut plain: &[u8], out: &mut Vec<u8>) -> Result<(), SealError> {
        while !plain.is_empty() {
            if self.waiting.len() == CHUNK_BYTES {
                self.chunks.seal_next(&self.waiting, out)?;
                self.waiting.clear();
            }
            plain = match plain.split_at_checked(CHUNK_BYTES) {
                // Not copied first: something follows, so it is known not to be the last.
                Some((chunk, rest)) if self.waiting.is_empty() && !rest.is_empty() => {
                    self.chunks.seal_next(chunk, out)?;
                    rest
                }
                Some(_) | None => fill(&mut self.waiting, plain, CHUNK_BYTES),
            };
        }
        Ok(())
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer(at chunk {})", self.chunks.number)
    }
}

/// Opens a message piece by piece.
///
/// What is appended to the buffer is what was sealed, as far as it goes; only [`Opener::finish`]
/// tells that it is all of it. After an error every further call gives the same error.
pub struct Opener {
    stage: Stage,
    context: Context,
    /// At most the header or one sealed chunk.
    waiting: Vec<u8>,
    refusal: Option<OpenError>,
}

/// How far an [`Opener`] has come.
enum Stage {
    Header { cipher: Box<ChaCha20Poly1305>, expected: KeyCommitment },
    Chunks(Chunks),
}

impl Opener {
    /// Expects a message of this context under this key.
    pub fn new(key: &ContentKey, context: &Context) -> Self {
        Self {
            stage: Stage::Header { cipher: cipher(key), expected: key.commitment() },
            context: *context,
            waiting: Vec::with_capacity(SEALED_CHUNK_BYTES),
            refusal: None,
        }
    }

    /// Takes the next piece of the sealed message and appends the plaintext of the chunks that it
    /// completes to `out`.
    pub fn push(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), OpenError> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let taken = self.take(sealed, out);
        self.refusal = taken.as_ref().err().cloned();
        taken
    }

    /// Takes the end of the message: appends the plaintext of the last chunk to `out`.
    pub fn finish(self, out: &mut Vec<u8>) -> Result<(), OpenError> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        match self.stage {
            Stage::Header { .. } => {
                let short =
                    SealedHeader::from_bytes(&self.waiting).expect_err("shorter than a header");
                Err(OpenError::Header(short))
            }
            Stage::Chunks(chunks) => chunks.open(Ending::Last, &self.waiting, out),
        }
    }

    fn take(&mut self, mut sealed: &[u8], out: &mut Vec<u8>) -> Result<(), OpenError> {
        while !sealed.is_empty() {
            let Stage::Chunks(chunks) = &mut self.stage else {
                sealed = fill(&mut self.waiting, sealed, HEADER_BYTES);
                self.read_header()?;
                continue;
            };
            if self.waiting.len() == SEALED_CHUNK_BYTES {
                chunks.open_next(&self.waiting, out)?;
                self.waiting.clear();
            }
            sealed = match sealed.split_at_checked(SEALED_CHUNK_BYTES) {
                // Not copied first: something follows, so it is known not to be the last.
                Some((chunk, rest)) if self.waiting.is_empty() && !rest.is_empty() => {
                    chunks.open_next(chunk, out)?;
                    rest
                }
                Some(_) | None => fill(&mut self.waiting, sealed, SEALED_CHUNK_BYTES),
            };
        }
        Ok(())
    }

    /// Goes on to the chunks once the header is there and names the key.
    fn read_header(&mut self) -> Result<(), OpenError> {
        let Stage::Header { cipher, expected } = &self.stage else {
            return Ok(());
        };
        if self.waiting.len() < HEADER_BYTES {
            return Ok(());
        }
        let header = SealedHeader::from_bytes(&self.waiting).map_err(OpenError::Header)?;
        if header.key != *expected {
            return Err(OpenError::Key);
        }
        self.stage = Stage::Chunks(Chunks::new(cipher.clone(), &header, &self.context));
        self.waiting.clear();
        Ok(())
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stage {
            Stage::Header { .. } => f.write_str("Opener(at the header)"),
            Stage::Chunks(chunks) => write!(f, "Opener(at chunk {})", chunks.number),
        }
    }
}

/// Whether a chunk is the last one of its message; the last byte of its nonce.
#[derive(Clone, Copy)]
enum Ending {
    More = 0,
    Last = 1,
}

/// The chunks of one message: what they are bound to, and the number of the next.
struct Chunks {
    cipher: Box<ChaCha20Poly1305>,
    prefix: [u8; PREFIX_BYTES],
    associated: Hash32,
    number: u32,
}

impl Chunks {
    fn new(cipher: Box<ChaCha20Poly1305>, header: &SealedHeader, context: &Context) -> Self {
        let associated = header.associated(context);
        Self { cipher, prefix: header.prefix, associated, number: 0 }
    }

    /// Seals a chunk that is not the last one. A number is left for the one behind it, or nothing
    /// is done.
    fn seal_next(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Result<(), SealError> {
        let next = self.number.checked_add(1).ok_or(SealError::TooLong)?;
        self.seal(Ending::More, chunk, out);
        self.number = next;
        Ok(())
    }

    /// Opens a chunk that is not the last one.
    fn open_next(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), OpenError> {
        let chunk = self.number;
        let next = chunk.checked_add(1).ok_or(OpenError::TooLong { chunk })?;
        self.open(Ending::More, sealed, out)?;
        self.number = next;
        Ok(())
    }

    fn seal(&self, ending: Ending, chunk: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.reserve(chunk.len() + TAG_BYTES);
        out.extend_from_slice(chunk);
        let added = out.get_mut(start..).expect("was extended");
        let tag = self
            .cipher
            .encrypt_inout_detached(&self.nonce(ending), self.associated.as_ref(), added.into())
            .expect("a chunk is far shorter than the cipher's 256 GiB");
        out.extend_from_slice(&tag);
    }

    fn open(&self, ending: Ending, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), OpenError> {
        let chunk = self.number;
        let (body, tag) =
            sealed.split_last_chunk::<TAG_BYTES>().ok_or(OpenError::Truncated { chunk })?;
        if body.is_empty() && chunk > 0 {
            return Err(OpenError::Empty { chunk });
        }
        let start = out.len();
        out.extend_from_slice(body);
        let added = out.get_mut(start..).expect("was extended");
        let opened = self.cipher.decrypt_inout_detached(
            &self.nonce(ending),
            self.associated.as_ref(),
            added.into(),
            &AuthTag::from(*tag),
        );
        opened.map_err(|_| {
            // The cipher checks before it decrypts: what is taken away here is still sealed.
            out.truncate(start);
            OpenError::Chunk { chunk }
        })
    }

    fn nonce(&self, ending: Ending) -> Nonce {
        let mut nonce = Nonce::default();
        let number = self.number.to_be_bytes();
        let bytes = self.prefix.iter().chain(&number).copied().chain([ending as u8]);
        nonce.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        nonce
    }
}

fn cipher(key: &ContentKey) -> Box<ChaCha20Poly1305> {
    Box::new(ChaCha20Poly1305::new(key.as_bytes().into()))
}

/// Moves bytes to the buffer until it holds `full`; gives what is left.
fn fill<'a>(buffer: &mut Vec<u8>, bytes: &'a [u8], full: usize) -> &'a [u8] {
    let room = full.saturating_sub(buffer.len()).min(bytes.len());
    let (taken, rest) = bytes.split_at(room);
    buffer.extend_from_slice(taken);
    rest
}

#[cfg(test)]
mod tests {
    use super::{CHUNK_BYTES, Chunks, Ending, OpenError, Opener, SealError, Sealer, Stage};
    use crate::{ContentKey, Context, Purpose, Randomness};
    use std::collections::BTreeSet;
    use tg_types::{AccountId, GenesisHash, Hash32};

    fn context() -> Context {
        Context {
            genesis: GenesisHash::new([1; 32]),
            owner: AccountId::new([2; 32]).expect("no small-order key"),
            purpose: Purpose::Input,
            label: Hash32::new([3; 32]),
        }
    }

    fn sealer(out: &mut Vec<u8>) -> Sealer {
        Sealer::start(&ContentKey::new([4; 32]), &context(), Randomness::new([5; 32]), out)
    }

    /// Goal: no number is used twice, and a message that is too long is never passed off as a whole
    /// one. Method: pretend that all chunks but the last one or two were sealed already.
    #[test]
    fn sealing_beyond_the_last_number_is_refused_for_good() {
        let mut out = Vec::new();
        let mut last = sealer(&mut out);
        last.chunks.number = u32::MAX - 1;
        assert_eq!(last.push(&[0; 2 * CHUNK_BYTES], &mut out), Ok(()));
        assert_eq!(last.finish(&mut out), Ok(()));

        let mut out = Vec::new();
        let mut sealer = sealer(&mut out);
        sealer.chunks.number = u32::MAX;
        assert_eq!(sealer.push(&[0; CHUNK_BYTES], &mut out), Ok(()));
        let before = out.len();
        assert_eq!(sealer.push(&[0], &mut out), Err(SealError::TooLong));
        assert_eq!(sealer.push(&[], &mut out), Err(SealError::TooLong));
        assert_eq!(sealer.finish(&mut out), Err(SealError::TooLong));
        assert_eq!(out.len(), before);
    }

    #[test]
    fn opening_beyond_the_last_number_is_refused_for_good() {
        let mut sealed = Vec::new();
        let mut sealer = sealer(&mut sealed);
        sealer.push(&[0; 2 * CHUNK_BYTES], &mut sealed).expect("short");
        sealer.finish(&mut sealed).expect("short");

        let (header, chunks) = sealed.split_at(super::HEADER_BYTES);
        let mut out = Vec::new();
        let mut opener = Opener::new(&ContentKey::new([4; 32]), &context());
        opener.push(header, &mut out).expect("the right key");
        let Stage::Chunks(Chunks { number, .. }) = &mut opener.stage else {
            panic!("behind the header");
        };
        *number = u32::MAX;
        let refused = Err(OpenError::TooLong { chunk: u32::MAX });
        assert_eq!(opener.push(chunks, &mut out), refused);
        assert_eq!(opener.push(&[], &mut out), refused);
        assert_eq!(opener.finish(&mut out), refused);
        assert!(out.is_empty());
    }

    /// Only somebody with the key can make one, and it would be a second form of the same message.
    #[test]
    fn empty_chunk_behind_a_full_one_is_refused() {
        let (mut out, mut plain) = (Vec::new(), Vec::new());
        let mut sealer = sealer(&mut out);
        sealer.chunks.seal_next(&[7; CHUNK_BYTES], &mut out).expect("a number is left");
        sealer.finish(&mut out).expect("short");
        let mut opener = Opener::new(&ContentKey::new([4; 32]), &context());
        opener.push(&out, &mut plain).expect("the first chunk is right");
        assert_eq!(opener.finish(&mut plain), Err(OpenError::Empty { chunk: 1 }));
    }

    #[test]
    fn nonces_differ_in_number_and_ending() {
        let mut chunks = sealer(&mut Vec::new()).chunks;
        let mut nonces = BTreeSet::new();
        let numbers = [0, 1, 2, 255, 256, 65_535, 65_536, 1 << 24, u32::MAX];
        for number in numbers {
            chunks.number = number;
            for ending in [Ending::More, Ending::Last] {
                nonces.insert(chunks.nonce(ending));
            }
        }
        assert_eq!(nonces.len(), 2 * numbers.len());
    }

    #[test]
    fn debug_shows_the_place_and_no_secret() {
        let mut out = Vec::new();
        assert_eq!(format!("{:?}", sealer(&mut out)), "Sealer(at chunk 0)");
        let opener = Opener::new(&ContentKey::new([4; 32]), &context());
        assert_eq!(format!("{opener:?}"), "Opener(at the header)");
    }
}
