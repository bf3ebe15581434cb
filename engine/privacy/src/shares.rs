//! A content key in shares: any `needed` of `of` give it back, fewer give nothing.
//!
//! Shamir's scheme ("How to share a secret", 1979) over GF(256), for each byte of the key on its
//! own: a polynomial of degree `needed` - 1 that is the key's byte at 0 and a share's byte at the
//! share's index. The other coefficients come from a generator ([`crate::randomness`]), so that
//! fewer shares than needed are as good as nothing for whoever cannot break ChaCha20. Its seed is a
//! hash of the key, which is as random as any seed: so whoever has the key can split it once more,
//! and sees whether every share was rightly made (after Bellare, Dai and Rogaway, "Reimagining
//! secret sharing", 2020).
//!
//! Whoever splits a key publishes a [`ShareBook`]: the hash of each share and the commitment to the
//! key. A share that was changed on its way or is made up does not fit the book and is named, so
//! that a lying validator cannot spoil a key for others. A book may itself be a lie, so that some
//! shares give the key and others, which fit the book as well, do not: the first who has the key
//! finds that out ([`ShareBook::is_of`]), and with the key everybody else.
//!
//! What is computed with secrets takes the same steps whatever they are: no table is read and no
//! branch is taken by them (`field`). Indexes and the book are public.

mod field;

use crate::content::{ContentKey, KeyCommitment};
use crate::randomness::{Pieces, derived};
use hpke::rand_core::Rng;
use std::fmt;
use tg_types::codec::encode_list;
use tg_types::genesis::SEATS_MAX;
use tg_types::hash::{Tag, tagged};
use tg_types::{Decode, DecodeError, Encode, FORMAT_VERSION, Hash32, Reader};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The most shares of a key: one for each seat.
pub const SHARES_MAX: usize = SEATS_MAX;
const _: () = assert!(SHARES_MAX <= 255); // an index is a number of GF(256) other than 0

const COEFFICIENTS: Tag = Tag::new("tensorgrid/share coefficients");
const DIGEST: Tag = Tag::new("tensorgrid/share");

/// How many shares there are and how many give the key, before it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThresholdSpec {
    /// How many give the key.
    pub needed: usize,
    /// How many there are.
    pub of: usize,
}

/// Why a key cannot be split like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// No shares, or too many.
    #[error("{found} shares, expected 1 to {SHARES_MAX}")]
    Of {
        /// How many were asked for.
        found: usize,
    },
    /// None needed, or more than there are.
    #[error("{found} shares needed, expected 1 to {of}")]
    Needed {
        /// How many were asked for.
        found: usize,
        /// How many there are.
        of: usize,
    },
}

/// Any `needed` of `of`, with 1 <= needed <= of <= [`SHARES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Threshold {
    needed: u8,
    of: u8,
}

impl Threshold {
    /// Checks the numbers.
    pub fn new(spec: ThresholdSpec) -> Result<Self, ThresholdError> {
        let ThresholdSpec { needed, of } = spec;
        if of == 0 || of > SHARES_MAX {
            return Err(ThresholdError::Of { found: of });
        }
        if needed == 0 || needed > of {
            return Err(ThresholdError::Needed { found: needed, of });
        }
        let small = |number| u8::try_from(number).expect("at most SHARES_MAX");
        Ok(Self { needed: small(needed), of: small(of) })
    }

    /// The most secret threshold at which keys can still be had with a third of the validators
    /// gone: 2f+1 of 3f+1, as for finality.
    pub fn quorum(of: usize) -> Result<Self, ThresholdError> {
        Self::new(ThresholdSpec { needed: of - of.saturating_sub(1) / 3, of })
    }

    /// How many shares give the key.
    pub const fn needed(&self) -> usize {
        self.needed as usize
    }

    /// How many shares there are.
    pub const fn of(&self) -> usize {
        self.of as usize
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.needed, self.of)
    }
}

impl Encode for Threshold {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.needed, self.of]);
    }
}

impl Decode for Threshold {
    const BYTES_MIN: usize = 2;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let [needed, of] = reader.array()?;
        let expected = "threshold";
        Self::new(ThresholdSpec { needed: needed.into(), of: of.into() })
            .map_err(|_| DecodeError::Range { at: reader.position(), expected })
    }
}

/// Which share, from 1 to [`SHARES_MAX`]. The share of the first seat has index 1: at 0 is the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShareIndex(u8);

impl ShareIndex {
    /// The index of this number, if a share can have it.
    pub const fn new(index: u8) -> Option<Self> {
        if index == 0 || index as usize > SHARES_MAX { None } else { Some(Self(index)) }
    }

    /// Its number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The place of its digest in a book, and of its keeper in the list of validators.
    pub const fn position(self) -> usize {
        self.0 as usize - 1
    }
}

impl fmt::Display for ShareIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One share of a key. Boxed and wiped like the key itself.
pub struct Share {
    index: ShareIndex,
    bytes: Box<[u8; ContentKey::BYTES]>,
}

impl Share {
    /// The size of a share with its index.
    pub const BYTES: usize = 1 + ContentKey::BYTES;

    /// The share of this index with these bytes, as somebody handed it over.
    pub fn new(index: ShareIndex, mut bytes: [u8; ContentKey::BYTES]) -> Self {
        let share = Self { index, bytes: Box::new(bytes) };
        bytes.zeroize();
        share
    }

    /// Which share.
    pub const fn index(&self) -> ShareIndex {
        self.index
    }

    /// What a book says of it.
    pub fn digest(&self) -> Hash32 {
        tagged(DIGEST, &[&[self.index.get()], &*self.bytes])
    }

    /// Index and bytes, to store them encrypted or to publish them. Named so that every use can be
    /// found.
    pub fn expose(&self) -> Zeroizing<[u8; Self::BYTES]> {
        let mut exposed = Zeroizing::new([self.index.get(); Self::BYTES]);
        let (_, bytes) = exposed.split_first_mut().expect("an index and bytes");
        bytes.copy_from_slice(&*self.bytes);
        exposed
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

impl ZeroizeOnDrop for Share {}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Share({}, secret)", self.index)
    }
}

/// What is published of a split key: how many shares give it, what each of them hashes to and what
/// the key is committed to by. All three come from one who may lie; [`combine`] finds out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareBook {
    threshold: Threshold,
    key: KeyCommitment,
    /// One for each share, in the order of their indexes.
    digests: Vec<Hash32>,
}

impl ShareBook {
    /// How many shares there are and how many give the key.
    pub const fn threshold(&self) -> Threshold {
        self.threshold
    }

    /// The key they give.
    pub const fn key(&self) -> KeyCommitment {
        self.key
    }

    /// The hash of each share, in the order of their indexes.
    pub fn digests(&self) -> &[Hash32] {
        &self.digests
    }

    /// Whether all shares that it lists are shares of this key: any that are enough give it.
    pub fn is_of(&self, key: &ContentKey) -> bool {
        *self == split(key, self.threshold).0
    }

    /// Whether a share is the one that the book lists under its index. A validator asks this before
    /// it signs that it has its share, a provider for each share it is given.
    pub fn check(&self, share: &Share) -> Result<(), ShareFault> {
        let listed = self.digests.get(share.index.position()).ok_or(ShareFault::NotListed)?;
        if *listed != share.digest() {
            return Err(ShareFault::Forged);
        }
        Ok(())
    }
}

impl Encode for ShareBook {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[FORMAT_VERSION, self.threshold.needed]);
        self.key.encode(out);
        encode_list(&self.digests, out);
    }
}

impl Decode for ShareBook {
    const BYTES_MIN: usize = 1 + 1 + KeyCommitment::BYTES_MIN + 1 + Hash32::BYTES_MIN;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.position();
        let found = reader.byte()?;
        if found != FORMAT_VERSION {
            return Err(DecodeError::Version { at, found, supported: FORMAT_VERSION });
        }
        let needed = reader.byte()?.into();
        let key = KeyCommitment::decode(reader)?;
        let digests: Vec<Hash32> = reader.list_within(1, SHARES_MAX)?;
        let threshold = Threshold::new(ThresholdSpec { needed, of: digests.len() });
        let expected = "book that needs 1 to all of its shares";
        let threshold =
            threshold.map_err(|_| DecodeError::Range { at: reader.position(), expected })?;
        Ok(Self { threshold, key, digests })
    }
}

/// What is wrong with a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareFault {
    /// The book has no share of this index.
    #[error("not listed in the book")]
    NotListed,
    /// Its hash is not the one in the book.
    #[error("not the one in the book")]
    Forged,
    /// It was given twice.
    #[error("given twice")]
    Repeated,
}

/// A share that does not count, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadShare {
    /// Which.
    pub index: ShareIndex,
    /// Why.
    pub fault: ShareFault,
}

/// Why shares give no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CombineError {
    /// These shares do not count. The others may be tried again without them.
    #[error("shares that do not count: {}", named(.0))]
    Bad(Vec<BadShare>),
    /// Fewer shares than needed.
    #[error("{found} shares, needed {needed}")]
    TooFew {
        /// How many were given.
        found: usize,
        /// How many give the key.
        needed: usize,
    },
    /// All shares are those of the book, but the key is not: whoever made the book lied, and these
    /// shares show it.
    #[error("shares give another key than the book promised")]
    Key,
}

/// Splits a key, in the only way there is for this threshold. The shares come in the order of their
/// indexes.
pub fn split(key: &ContentKey, threshold: Threshold) -> (ShareBook, Vec<Share>) {
    let pieces = Pieces { secret: key.as_bytes(), public: &threshold.to_bytes() };
    let mut generator = derived(COEFFICIENTS, pieces);
    // From the constant coefficient, which is the key, to the highest.
    let mut coefficients = Zeroizing::new(vec![*key.as_bytes(); threshold.needed()]);
    for coefficient in coefficients.iter_mut().skip(1) {
        generator.fill_bytes(coefficient);
    }
    let share = |index| {
        let mut share = Share::new(ShareIndex(index), [0; ContentKey::BYTES]);
        for coefficient in coefficients.iter().rev() {
            field::scale(&mut share.bytes, index); // Horner's rule
            field::add(&mut share.bytes, coefficient);
        }
        share
    };
    let shares: Vec<Share> = (1..=threshold.of).map(share).collect();
    let digests = shares.iter().map(Share::digest).collect();
    (ShareBook { threshold, key: key.commitment(), digests }, shares)
}

/// The key of these shares, if all of them are shares of the book, each is given once and they are
/// enough.
pub fn combine(book: &ShareBook, shares: &[Share]) -> Result<ContentKey, CombineError> {
    let bad = bad_shares(book, shares);
    if !bad.is_empty() {
        return Err(CombineError::Bad(bad));
    }
    let needed = book.threshold.needed();
    let enough = shares.get(..needed);
    let enough = enough.ok_or(CombineError::TooFew { found: shares.len(), needed })?;
    let key = interpolate(enough);
    if key.commitment() != book.key {
        return Err(CombineError::Key);
    }
    Ok(key)
}

/// The shares that do not count, in the order given.
fn bad_shares(book: &ShareBook, shares: &[Share]) -> Vec<BadShare> {
    let mut seen = [false; SHARES_MAX];
    let fault = |share: &Share| {
        book.check(share)?;
        let seen = seen.get_mut(share.index.position()).ok_or(ShareFault::NotListed)?;
        if std::mem::replace(seen, true) { Err(ShareFault::Repeated) } else { Ok(()) }
    };
    let faults: Vec<Result<(), ShareFault>> = shares.iter().map(fault).collect();
    let bad = shares.iter().zip(faults).filter_map(|(share, fault)| {
        fault.err().map(|fault| BadShare { index: share.index, fault })
    });
    bad.collect()
}

/// "3 (given twice), 7 (not the one in the book)".
fn named(bad: &[BadShare]) -> String {
    let names: Vec<String> =
        bad.iter().map(|BadShare { index, fault }| format!("{index} ({fault})")).collect();
    names.join(", ")
}

/// The value at 0 of the polynomial through shares of different indexes, by Lagrange: the sum of
/// each share times the product of x / (x - its index) over the other indexes x.
fn interpolate(shares: &[Share]) -> ContentKey {
    let mut sum = Zeroizing::new([0; ContentKey::BYTES]);
    for share in shares {
        let own = share.index.get();
        let mut weight = 1;
        for other in shares.iter().map(|other| other.index.get()).filter(|other| *other != own) {
            weight = field::multiply(weight, field::divide(other, other ^ own));
        }
        let mut term = Zeroizing::new(*share.bytes);
        field::scale(&mut term, weight);
        field::add(&mut sum, &term);
    }
    ContentKey::new(*sum)
}

#[cfg(test)]
mod tests {
    use super::{
        ContentKey, Share, ShareIndex, Threshold, ThresholdError, ThresholdSpec, interpolate, split,
    };
    use tg_types::{Decode, DecodeError, Encode};

    #[test]
    fn threshold_outside_its_bounds_is_refused() {
        let check = |needed, of| Threshold::new(ThresholdSpec { needed, of });
        for of in [0, 101, 256, 300] {
            assert_eq!(check(1, of), Err(ThresholdError::Of { found: of }));
        }
        for needed in [0, 5, 260] {
            assert_eq!(check(needed, 4), Err(ThresholdError::Needed { found: needed, of: 4 }));
        }
        for (needed, of) in [(1, 1), (1, 100), (100, 100), (3, 4)] {
            let threshold = check(needed, of).expect("within bounds");
            assert_eq!((threshold.needed(), threshold.of()), (needed, of));
            assert_eq!(Threshold::from_bytes(&threshold.to_bytes()), Ok(threshold));
        }
        for bytes in [[0, 1], [1, 0], [2, 1], [1, 101]] {
            let read = Threshold::from_bytes(&bytes);
            assert!(matches!(read, Err(DecodeError::Range { at: 2, .. })));
        }
    }

    #[test]
    fn quorum_is_all_but_a_third() {
        for (of, needed) in [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4), (7, 5), (10, 7), (100, 67)] {
            assert_eq!(Threshold::quorum(of).map(|threshold| threshold.needed()), Ok(needed));
        }
        assert_eq!(Threshold::quorum(0), Err(ThresholdError::Of { found: 0 }));
        assert_eq!(Threshold::quorum(101), Err(ThresholdError::Of { found: 101 }));
    }

    #[test]
    fn index_that_no_share_has_is_refused() {
        assert_eq!(ShareIndex::new(0), None);
        assert_eq!(ShareIndex::new(101), None);
        assert_eq!(ShareIndex::new(1).map(ShareIndex::position), Some(0));
        assert_eq!(ShareIndex::new(100).map(ShareIndex::position), Some(99));
    }

    /// Goal: what fewer shares than needed say of the key is nothing. Method: beside them, every
    /// candidate for a byte of the key is as possible as the true one, since a last share exists
    /// that leads to it; here that share is computed for all 256.
    #[test]
    fn shares_below_the_threshold_fit_every_key() {
        let threshold = Threshold::new(ThresholdSpec { needed: 3, of: 4 }).expect("a threshold");
        let key = ContentKey::new([0x5c; 32]);
        let (_, shares) = split(&key, threshold);
        let [first, second, third, _] = shares.as_slice() else {
            panic!("four shares");
        };
        let copy = |share: &Share| Share::new(share.index, *share.bytes);
        let mut keys = std::collections::BTreeSet::new();
        for change in 0..=255 {
            let mut last = copy(third);
            last.bytes[0] ^= change;
            let key = interpolate(&[copy(first), copy(second), last]);
            assert_eq!(key.as_bytes()[1..], [0x5c; 31]);
            keys.insert(key.as_bytes()[0]);
        }
        assert_eq!(keys.len(), 256);
    }

    #[test]
    fn debug_shows_no_secret() {
        let share = Share::new(ShareIndex::new(7).expect("an index"), [0x5c; 32]);
        assert_eq!(format!("{share:?}"), "Share(7, secret)");
        assert_eq!(share.expose()[0], 7);
        assert_eq!(share.expose()[1..], [0x5c; 32]);
    }
}
