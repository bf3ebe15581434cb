//! "Available but undecryptable": whoever was given a message that its key does not open publishes
//! the key, and everybody who can read the sealed bytes decides the same.
//!
//! The context comes from the chain, never from the one who complains: with another context every
//! message would fail. A complaint with a key that the header does not commit to proves nothing,
//! since anybody can publish a wrong key; if the header commits to a key that nobody was given, the
//! shares of the key show it (see [`crate::CombineError::Key`]).
//!
//! The published key opens the message to everybody, so the one who complains rightly gives away
//! what the sealer failed to seal; whoever complains wrongly gives away what it was trusted with,
//! under its own name.

use super::{ContentKey, Context, OpenError, Opener, SEALED_CHUNK_BYTES};
use std::fmt;
use zeroize::Zeroizing;

/// What a published key shows about a sealed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// The message does not begin with a header: no key opens it.
    NotSealed,
    /// The header commits to another key: nothing is shown.
    KeyIsNotTheOne,
    /// It is the key, and this chunk is the first that it does not open.
    Undecryptable {
        /// Which, counted from 0.
        chunk: u32,
    },
    /// The key opens the whole message.
    Decrypts,
}

impl Complaint {
    /// Whether the sealer is at fault.
    pub const fn is_upheld(&self) -> bool {
        match self {
            Self::NotSealed | Self::Undecryptable { .. } => true,
            Self::KeyIsNotTheOne | Self::Decrypts => false,
        }
    }
}

/// Decides a complaint about a message that is in memory as a whole.
pub fn judge_complaint(sealed: &[u8], context: &Context, published: &ContentKey) -> Complaint {
    let mut judge = Judge::new(context, published);
    judge.push(sealed);
    judge.finish()
}

/// Decides a complaint while the message passes by, in the memory of two chunks.
pub struct Judge {
    opener: Opener,
    plain: Zeroizing<Vec<u8>>,
}

impl Judge {
    /// Expects the message of which `published` is said to be the key.
    pub fn new(context: &Context, published: &ContentKey) -> Self {
        let plain = Zeroizing::new(Vec::with_capacity(2 * SEALED_CHUNK_BYTES));
        Self { opener: Opener::new(published, context), plain }
    }

    /// Takes the next piece of the message. Gives whether the rest still matters.
    pub fn push(&mut self, sealed: &[u8]) -> bool {
        sealed.chunks(SEALED_CHUNK_BYTES).all(|piece| {
            self.plain.clear();
            self.opener.push(piece, &mut self.plain).is_ok()
        })
    }

    /// Takes the end of the message and decides.
    pub fn finish(mut self) -> Complaint {
        self.plain.clear();
        match self.opener.finish(&mut self.plain) {
            Ok(()) => Complaint::Decrypts,
            Err(OpenError::Header(_)) => Complaint::NotSealed,
            Err(OpenError::Key) => Complaint::KeyIsNotTheOne,
            Err(
                OpenError::Chunk { chunk }
                | OpenError::Truncated { chunk }
                | OpenError::Empty { chunk }
                | OpenError::TooLong { chunk },
            ) => Complaint::Undecryptable { chunk },
        }
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Judge({:?})", self.opener)
    }
}
