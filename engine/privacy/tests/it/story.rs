//! The whole way of a job's data, from its owner to a provider that the owner never met.

use crate::common::{context, key, message, randomness, recipient, wrap_context};
use tg_privacy::content::{CHUNK_BYTES, HEADER_BYTES, SealedHeader};
use tg_privacy::{
    CombineError, Complaint, Share, ShareBook, Threshold, WrapSecret, Wrapped, combine,
    judge_complaint, open_all, seal_all, split, unwrap, unwrap_share, wrap, wrap_share,
};
use tg_types::{Decode, Encode};

/// What the owner leaves behind when it goes offline.
struct Published {
    sealed: Vec<u8>,
    book: Vec<u8>,
    /// One for each validator.
    shares: Vec<Vec<u8>>,
    for_provider: Vec<u8>,
}

fn validators() -> Vec<WrapSecret> {
    (10..14).map(recipient).collect()
}

fn provider() -> WrapSecret {
    recipient(20)
}

fn publish(plain: &[u8]) -> Published {
    let (key, context) = (key(1), wrap_context());
    let sealed = seal_all(&key, &self::context(), randomness(1), plain).expect("short");
    let threshold = Threshold::quorum(4).expect("four validators");
    let (book, shares) = split(&key, threshold);
    let shares = shares.iter().zip(validators()).zip(30..).map(|((share, validator), chance)| {
        wrap_share(share, validator.public(), &context, randomness(chance)).to_bytes()
    });
    let for_provider = wrap(&key, provider().public(), &context, randomness(3)).to_bytes();
    Published { sealed, book: book.to_bytes(), shares: shares.collect(), for_provider }
}

/// A validator's part: opens its share, checks it and passes it on to the provider.
fn released(published: &Published, seat: usize) -> Wrapped {
    let book = ShareBook::from_bytes(&published.book).expect("a book");
    let wrapped = Wrapped::from_bytes(&published.shares[seat]).expect("a wrapped share");
    let validator = &validators()[seat];
    let share = unwrap_share(&wrapped, validator, &wrap_context()).expect("its share");
    assert_eq!(share.index().position(), seat);
    assert_eq!(book.check(&share), Ok(()));
    wrap_share(&share, provider().public(), &wrap_context(), randomness(40))
}

fn received(wrapped: &Wrapped) -> Share {
    unwrap_share(wrapped, &provider(), &wrap_context()).expect("wrapped to the provider")
}

#[test]
fn provider_reads_with_the_wrapped_key_or_with_released_shares() {
    let plain = message(CHUNK_BYTES + 100);
    let published = publish(&plain);
    let book = ShareBook::from_bytes(&published.book).expect("a book");
    let header = SealedHeader::from_bytes(&published.sealed[..HEADER_BYTES]).expect("a header");
    assert_eq!(header.key(), book.key());

    let wrapped = Wrapped::from_bytes(&published.for_provider).expect("a wrapped key");
    let direct = unwrap(&wrapped, &provider(), &wrap_context()).expect("its key");
    let shares: Vec<Share> =
        [3, 0, 2].map(|seat| received(&released(&published, seat))).into_iter().collect();
    let together = combine(&book, &shares).expect("three of four");
    for key in [direct, together] {
        let opened = open_all(&key, &context(), &published.sealed).expect("the key");
        assert!(*opened == plain);
        let verdict = judge_complaint(&published.sealed, &context(), &key);
        assert_eq!(verdict, Complaint::Decrypts, "a complaint would be dismissed");
    }
    let few = CombineError::TooFew { found: 2, needed: 3 };
    assert_eq!(combine(&book, &shares[1..]).map(|key| key.commitment()), Err(few));
}

#[test]
fn share_of_another_validator_stays_closed() {
    let published = publish(&[]);
    for (seat, bytes) in published.shares.iter().enumerate() {
        let wrapped = Wrapped::from_bytes(bytes).expect("a wrapped share");
        for (other, validator) in validators().iter().enumerate() {
            let opened = unwrap_share(&wrapped, validator, &wrap_context());
            assert_eq!(opened.is_ok(), seat == other);
        }
    }
}
