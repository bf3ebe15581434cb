//! Chance comes from outside: 32 bytes that the edge drew from the system's random source.
//!
//! 32 bytes serve one operation, which uses them up, so that the compiler refuses a second use.
//! Where an operation needs more, or a library wants a generator, they are hashed with the name of
//! the operation and everything that goes into it, and the hash seeds ChaCha20. So even bytes that
//! were repeated or badly chosen give unrelated numbers in different operations; as the secret at
//! hand is hashed with them, such an operation then gives away no more than that it was done twice
//! on the same things.

use chacha20::ChaCha20Rng;
use hpke::rand_core::SeedableRng;
use std::fmt;
use tg_types::hash::{Tag, tagged};
use zeroize::{Zeroize, Zeroizing};

/// 32 bytes that nobody else knows, for one operation.
pub struct Randomness(Zeroizing<[u8; Self::BYTES]>);

impl Randomness {
    /// How many bytes are drawn.
    pub const BYTES: usize = 32;

    /// From bytes that were drawn for this purpose and are used for nothing else.
    pub fn new(mut bytes: [u8; Self::BYTES]) -> Self {
        let randomness = Self(Zeroizing::new(bytes));
        bytes.zeroize();
        randomness
    }

    /// The generator of one operation. The pieces have a fixed length for every tag.
    pub(crate) fn generator(self, tag: Tag, pieces: Pieces<'_>) -> ChaCha20Rng {
        let seed = tagged(tag, &[&*self.0, pieces.secret, pieces.public]);
        let seed = Zeroizing::new(*seed.as_bytes());
        ChaCha20Rng::from_seed(*seed)
    }
}

/// The generator of an operation that everybody who knows its secret can do again.
pub(crate) fn derived(tag: Tag, pieces: Pieces<'_>) -> ChaCha20Rng {
    let seed = tagged(tag, &[pieces.secret, pieces.public]);
    let seed = Zeroizing::new(*seed.as_bytes());
    ChaCha20Rng::from_seed(*seed)
}

impl fmt::Debug for Randomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Randomness(secret)")
    }
}

/// What is hashed with the random bytes.
#[derive(Clone, Copy)]
pub(crate) struct Pieces<'a> {
    /// What the operation hides.
    pub(crate) secret: &'a [u8],
    /// What everybody may know of it.
    pub(crate) public: &'a [u8],
}

#[cfg(test)]
mod tests {
    use super::{Pieces, Randomness};
    use hpke::rand_core::Rng;
    use std::collections::BTreeSet;
    use tg_types::hash::Tag;

    fn first(bytes: [u8; 32], tag: Tag, secret: &[u8], public: &[u8]) -> u64 {
        Randomness::new(bytes).generator(tag, Pieces { secret, public }).next_u64()
    }

    #[test]
    fn generator_depends_on_everything_it_is_given() {
        let (one, other) = (Tag::new("one"), Tag::new("other"));
        let drawn = [
            first([1; 32], one, &[1], &[1]),
            first([2; 32], one, &[1], &[1]),
            first([1; 32], other, &[1], &[1]),
            first([1; 32], one, &[2], &[1]),
            first([1; 32], one, &[1], &[2]),
        ];
        assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), drawn.len());
        assert_eq!(drawn.first(), Some(&first([1; 32], one, &[1], &[1])));
    }

    #[test]
    fn debug_shows_no_byte() {
        assert_eq!(format!("{:?}", Randomness::new([0x5a; 32])), "Randomness(secret)");
    }
}
