//! Shares: enough of them give the key, fewer or wrong ones give an error that says which.

use crate::common::key;
use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use tg_privacy::shares::SHARES_MAX;
use tg_privacy::{
    BadShare, CombineError, ContentKey, Share, ShareBook, ShareFault, ShareIndex, Threshold,
    ThresholdSpec, combine, split,
};
use tg_types::{Decode, DecodeError, Encode};

fn threshold(needed: usize, of: usize) -> Threshold {
    Threshold::new(ThresholdSpec { needed, of }).expect("a threshold")
}

fn three_of_five() -> (ShareBook, Vec<Share>) {
    split(&key(1), threshold(3, 5))
}

fn copy(share: &Share) -> Share {
    let exposed = share.expose();
    Share::new(share.index(), *exposed.last_chunk().expect("index and bytes"))
}

/// The shares at these positions.
fn some(shares: &[Share], positions: &[usize]) -> Vec<Share> {
    positions.iter().map(|position| copy(&shares[*position])).collect()
}

fn combined(book: &ShareBook, shares: &[Share]) -> std::result::Result<[u8; 32], CombineError> {
    combine(book, shares).map(|key| *key.expose())
}

/// The share with one bit of its bytes flipped.
fn forged(share: &Share, bit: usize) -> Share {
    let mut bytes: [u8; 32] = *share.expose().last_chunk().expect("index and bytes");
    bytes[bit / 8] ^= 1 << (bit % 8);
    Share::new(share.index(), bytes)
}

fn bad(number: u8, fault: ShareFault) -> BadShare {
    BadShare { index: ShareIndex::new(number).expect("an index"), fault }
}

/// All positions, in any order.
fn shuffled(u: &mut Unstructured<'_>, count: usize) -> Result<Vec<usize>> {
    let mut positions: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        positions.swap(last, u.int_in_range(0..=last)?);
    }
    Ok(positions)
}

#[test]
fn prop_any_shares_that_are_enough_give_the_key_and_fewer_do_not() {
    arbtest(|u| {
        let most = if u.ratio(1, 8)? { SHARES_MAX } else { 9 };
        let of = u.int_in_range(1..=most)?;
        let needed = u.int_in_range(1..=of)?;
        let bytes = u.arbitrary()?;
        let (book, shares) = split(&ContentKey::new(bytes), threshold(needed, of));
        assert_eq!(shares.len(), of);
        assert!(shares.iter().all(|share| book.check(share) == Ok(())));
        assert_eq!(ShareBook::from_bytes(&book.to_bytes()).as_ref(), Ok(&book));

        let given = some(&shares, &shuffled(u, of)?);
        assert_eq!(combined(&book, &given[..needed]), Ok(bytes));
        assert_eq!(combined(&book, &given), Ok(bytes), "more than needed do no harm");
        let few = CombineError::TooFew { found: needed - 1, needed };
        assert_eq!(combined(&book, &given[..needed - 1]), Err(few));
        Ok(())
    });
}

#[test]
fn every_choice_of_three_of_five_gives_the_key() {
    let (book, shares) = three_of_five();
    for a in 0..5 {
        for b in (0..5).filter(|b| *b != a) {
            for c in (0..5).filter(|c| *c != a && *c != b) {
                assert_eq!(combined(&book, &some(&shares, &[a, b, c])), Ok([1; 32]));
            }
        }
    }
}

/// Goal: one share too few gives nothing even to whoever ignores the book. Method: the same book,
/// written anew with a lower threshold, so that combining goes on; the key is wrong.
#[test]
fn one_share_too_few_gives_another_key() {
    let (book, shares) = three_of_five();
    let mut bytes = book.to_bytes();
    assert_eq!(bytes[1], 3);
    bytes[1] = 2;
    let lower = ShareBook::from_bytes(&bytes).expect("a book");
    for a in 0..5 {
        for b in (0..5).filter(|b| *b != a) {
            assert_eq!(combined(&lower, &some(&shares, &[a, b])), Err(CombineError::Key));
        }
    }
}

#[test]
fn hundred_of_hundred_give_the_key() {
    let (book, shares) = split(&key(1), threshold(SHARES_MAX, SHARES_MAX));
    assert_eq!(combined(&book, &shares), Ok([1; 32]));
    let few = CombineError::TooFew { found: 99, needed: 100 };
    assert_eq!(combined(&book, &shares[1..]), Err(few));
}

#[test]
fn prop_forged_share_is_named() {
    let (book, shares) = three_of_five();
    arbtest(|u| {
        let liar = u.int_in_range(0..=4)?;
        let mut given = some(&shares, &shuffled(u, 5)?);
        let at = given.iter().position(|share| share.index().position() == liar);
        let at = at.expect("all are there");
        given[at] = forged(&given[at], u.int_in_range(0..=255)?);
        assert_eq!(book.check(&given[at]), Err(ShareFault::Forged));
        let named = bad(u8::try_from(liar + 1).expect("small"), ShareFault::Forged);
        assert_eq!(combined(&book, &given), Err(CombineError::Bad(vec![named])));
        given.remove(at);
        assert_eq!(combined(&book, &given), Ok([1; 32]), "the others are enough");
        Ok(())
    });
}

/// Goal: an owner that lets some shares give the key and others not is found out by whoever has the
/// key. Method: of any split, one digest in the book is that of another share.
#[test]
fn prop_book_with_a_share_that_does_not_fit_is_not_of_its_key() {
    arbtest(|u| {
        let of = u.int_in_range(1..=9)?;
        let threshold = threshold(u.int_in_range(1..=of)?, of);
        let (book, shares) = split(&key(1), threshold);
        assert!(book.is_of(&key(1)) && !book.is_of(&key(2)));
        let odd = forged(&shares[u.int_in_range(0..=of - 1)?], u.int_in_range(0..=255)?);
        let mut bytes = book.to_bytes();
        let place = bytes.len() - 32 * (of - odd.index().position());
        bytes[place..place + 32].copy_from_slice(odd.digest().as_bytes());
        let lie = ShareBook::from_bytes(&bytes).expect("a book");
        assert_eq!(lie.check(&odd), Ok(()), "its holder cannot see it");
        assert!(!lie.is_of(&key(1)));
        Ok(())
    });
}

#[test]
fn all_bad_shares_are_named_in_the_order_given() {
    let (book, shares) = three_of_five();
    let (_, more) = split(&key(1), threshold(3, 6));
    let renamed = Share::new(shares[0].index(), *shares[1].expose().last_chunk().expect("bytes"));
    let given = vec![
        copy(&more[5]),
        copy(&shares[2]),
        copy(&shares[2]),
        renamed,
        copy(&more[1]),
        copy(&shares[3]),
    ];
    let named = vec![
        bad(6, ShareFault::NotListed),
        bad(3, ShareFault::Repeated),
        bad(1, ShareFault::Forged),
        bad(2, ShareFault::Forged),
    ];
    let error = combined(&book, &given).expect_err("four are bad");
    let words = "shares that do not count: 6 (not listed in the book), 3 (given twice), \
                 1 (not the one in the book), 2 (not the one in the book)";
    assert_eq!(error.to_string(), words);
    assert_eq!(error, CombineError::Bad(named));
}

/// A share repeated does not stand for another.
#[test]
fn same_share_again_and_again_is_not_enough() {
    let (book, shares) = three_of_five();
    let repeated = vec![bad(1, ShareFault::Repeated), bad(1, ShareFault::Repeated)];
    let refused = combined(&book, &some(&shares, &[0, 0, 0]));
    assert_eq!(refused, Err(CombineError::Bad(repeated)));
}

#[test]
fn book_that_promises_another_key_is_found_out() {
    let (book, shares) = three_of_five();
    let mut bytes = book.to_bytes();
    bytes[2..34].copy_from_slice(key(2).commitment().hash().as_bytes());
    let lie = ShareBook::from_bytes(&bytes).expect("a book");
    assert!(shares.iter().all(|share| lie.check(share) == Ok(())));
    assert_eq!(combined(&lie, &shares), Err(CombineError::Key));
}

#[test]
fn book_of_another_form_is_refused() {
    let (book, _) = three_of_five();
    let bytes = book.to_bytes();
    assert_eq!(bytes.len(), 1 + 1 + 32 + 1 + 5 * 32);
    for length in 0..bytes.len() {
        let read = ShareBook::from_bytes(&bytes[..length]);
        assert!(matches!(read, Err(DecodeError::Truncated { .. })), "{length}");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(matches!(ShareBook::from_bytes(&longer), Err(DecodeError::Trailing { .. })));
    let with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        ShareBook::from_bytes(&bytes)
    };
    assert!(matches!(with(0, 0), Err(DecodeError::Version { at: 0, found: 0, .. })));
    for needed in [0, 6, 101, 255] {
        assert!(matches!(with(1, needed), Err(DecodeError::Range { .. })), "{needed}");
    }
    for count in [0, 101, 127] {
        assert!(matches!(with(34, count), Err(DecodeError::Length { .. })), "{count}");
    }
}

#[test]
fn prop_strange_bytes_are_no_book_or_the_bytes_of_one() {
    arbtest(|u| {
        let mut bytes = vec![1];
        bytes.extend_from_slice(u.bytes(u.len().min(400))?);
        if let Ok(book) = ShareBook::from_bytes(&bytes) {
            assert_eq!(book.to_bytes(), bytes);
        }
        Ok(())
    });
}

#[test]
fn shares_depend_on_key_and_threshold_alone() {
    let all = [
        split(&key(1), threshold(2, 3)),
        split(&key(1), threshold(2, 4)),
        split(&key(1), threshold(3, 3)),
        split(&key(2), threshold(2, 3)),
    ];
    assert_eq!(split(&key(1), threshold(2, 3)).0, all[0].0, "whoever has the key can do it again");
    let firsts = all.iter().map(|(book, _)| book.digests()[0]);
    assert_eq!(firsts.collect::<std::collections::BTreeSet<_>>().len(), all.len());
}

/// With a threshold of one, every share is the key; the book still names forgeries.
#[test]
fn one_of_many_is_the_key_itself() {
    let (book, shares) = split(&key(1), threshold(1, 3));
    assert_ne!(book.digests()[0], book.digests()[1], "the book does not tell that they are equal");
    for share in &shares {
        assert_eq!(share.expose()[1..], [1; 32]);
        assert_eq!(combined(&book, &[copy(share)]), Ok([1; 32]));
    }
    let refused = combined(&book, &[forged(&shares[1], 3)]);
    assert_eq!(refused, Err(CombineError::Bad(vec![bad(2, ShareFault::Forged)])));
}
