//! Wrapped keys: they open for one recipient, in one context, unchanged.

use crate::common::{account, key, randomness, recipient, wrap_context};
use arbtest::arbtest;
use tg_privacy::{
    Carries, KeyOf, Share, ShareIndex, UnwrapError, WrapContext, WrapPublic, WrapSecret, Wrapped,
    unwrap, unwrap_share, wrap, wrap_share,
};
use tg_types::{Decode, DecodeError, Encode, GenesisHash, Hash32, JobId};

fn wrapped() -> Wrapped {
    wrap(&key(1), recipient(1).public(), &wrap_context(), randomness(1))
}

fn share() -> Share {
    Share::new(ShareIndex::new(7).expect("an index"), [0x3c; 32])
}

fn wrapped_share() -> Wrapped {
    wrap_share(&share(), recipient(1).public(), &wrap_context(), randomness(1))
}

/// The key that comes out.
fn unwrapped(
    wrapped: &Wrapped,
    secret: &WrapSecret,
    context: &WrapContext,
) -> Result<[u8; 32], UnwrapError> {
    unwrap(wrapped, secret, context).map(|key| *key.expose())
}

#[test]
fn wrapped_key_opens_for_its_recipient() {
    let wrapped = wrapped();
    assert_eq!(unwrapped(&wrapped, &recipient(1), &wrap_context()), Ok([1; 32]));
    let read = Wrapped::from_bytes(&wrapped.to_bytes()).expect("its own bytes");
    assert_eq!(unwrapped(&read, &recipient(1), &wrap_context()), Ok([1; 32]));
    assert_eq!(read, wrapped);
}

#[test]
fn wrapped_share_opens_for_its_recipient() {
    let read = Wrapped::from_bytes(&wrapped_share().to_bytes()).expect("its own bytes");
    let opened = unwrap_share(&read, &recipient(1), &wrap_context()).expect("its recipient");
    assert_eq!(*opened.expose(), *share().expose());
    assert_eq!(read.to_bytes().len(), Wrapped::BYTES_MAX);
}

#[test]
fn prop_any_key_comes_out_as_it_went_in() {
    arbtest(|u| {
        let (secret, bytes) = (WrapSecret::from_seed(u.arbitrary()?), u.arbitrary()?);
        let key_of = if u.arbitrary()? {
            KeyOf::Job { job: JobId::new(u.arbitrary()?) }
        } else {
            KeyOf::Content { id: Hash32::new(u.arbitrary()?) }
        };
        let (genesis, owner) = (GenesisHash::new(u.arbitrary()?), account(u.arbitrary()?));
        let context = WrapContext { genesis, owner, key_of };
        let chance = tg_privacy::Randomness::new(u.arbitrary()?);
        let wrapped = wrap(&tg_privacy::ContentKey::new(bytes), secret.public(), &context, chance);
        assert_eq!(unwrapped(&wrapped, &secret, &context), Ok(bytes));
        let public = WrapPublic::from_bytes(&secret.public().to_bytes());
        assert_eq!(public.as_ref(), Ok(secret.public()));
        assert_eq!(WrapContext::from_bytes(&context.to_bytes()), Ok(context));
        Ok(())
    });
}

#[test]
fn another_recipient_is_refused() {
    let refused = unwrapped(&wrapped(), &recipient(2), &wrap_context());
    assert_eq!(refused, Err(UnwrapError::Refused));
}

#[test]
fn another_context_is_refused_in_each_field() {
    let right = wrap_context();
    let others = [
        WrapContext { genesis: GenesisHash::new([0x98; 32]), ..right },
        WrapContext { owner: account(2), ..right },
        WrapContext { key_of: KeyOf::Job { job: JobId::new([0x23; 32]) }, ..right },
        WrapContext { key_of: KeyOf::Content { id: Hash32::new([0x22; 32]) }, ..right },
    ];
    for other in others {
        let refused = unwrapped(&wrapped(), &recipient(1), &other);
        assert_eq!(refused, Err(UnwrapError::Refused), "{other:?}");
        let refused = unwrap_share(&wrapped_share(), &recipient(1), &other);
        assert_eq!(refused.map(|share| share.index()), Err(UnwrapError::Refused), "{other:?}");
    }
}

#[test]
fn key_is_not_taken_for_a_share_nor_a_share_for_a_key() {
    let (carries, share) = (Carries::Key, Carries::Share);
    let refused = unwrapped(&wrapped_share(), &recipient(1), &wrap_context());
    assert_eq!(refused, Err(UnwrapError::Carries { found: share, expected: carries }));
    let refused = unwrap_share(&wrapped(), &recipient(1), &wrap_context());
    let expected = UnwrapError::Carries { found: carries, expected: share };
    assert_eq!(refused.map(|share| share.index()), Err(expected));

    // Calling it something else in the bytes does not help: neither the length nor the key fits.
    let mut bytes = wrapped().to_bytes();
    bytes[1] = Carries::Share.tag();
    assert!(matches!(Wrapped::from_bytes(&bytes), Err(DecodeError::Truncated { .. })));
    bytes.push(0);
    let called_share = Wrapped::from_bytes(&bytes).expect("the length fits now");
    let refused = unwrap_share(&called_share, &recipient(1), &wrap_context());
    assert_eq!(refused.map(|share| share.index()), Err(UnwrapError::Refused));
    let mut bytes = wrapped_share().to_bytes();
    bytes[1] = Carries::Key.tag();
    assert!(matches!(Wrapped::from_bytes(&bytes), Err(DecodeError::Trailing { .. })));
}

#[test]
fn prop_flipped_bit_is_refused() {
    let bytes = wrapped().to_bytes();
    let secret = recipient(1);
    arbtest(|u| {
        let at = u.int_in_range(0..=bytes.len() - 1)?;
        let mut changed = bytes.clone();
        changed[at] ^= 1 << u.int_in_range(0..=7)?;
        match Wrapped::from_bytes(&changed) {
            Err(_) => assert!(at < 2, "{at}"),
            Ok(changed) => {
                let refused = unwrapped(&changed, &secret, &wrap_context());
                assert_eq!(refused, Err(UnwrapError::Refused), "{at}");
            }
        }
        Ok(())
    });
}

#[test]
fn bytes_of_another_form_are_refused() {
    for bytes in [wrapped().to_bytes(), wrapped_share().to_bytes()] {
        for length in 0..bytes.len() {
            let read = Wrapped::from_bytes(&bytes[..length]);
            assert!(matches!(read, Err(DecodeError::Truncated { .. })), "{length}");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(matches!(Wrapped::from_bytes(&longer), Err(DecodeError::Trailing { .. })));
        let another_format = [&[2], &bytes[1..]].concat();
        let refused = DecodeError::Version { at: 0, found: 2, supported: 1 };
        assert_eq!(Wrapped::from_bytes(&another_format), Err(refused));
        for tag in [0, 3, 255] {
            let another_kind = [&[1, tag], &bytes[2..]].concat();
            let refused = DecodeError::Tag { at: 1, found: tag.into(), expected: "Carries" };
            assert_eq!(Wrapped::from_bytes(&another_kind), Err(refused));
        }
    }
}

#[test]
fn same_randomness_gives_nothing_in_common_elsewhere() {
    let (one, two) = (recipient(1), recipient(2));
    let content = KeyOf::Content { id: Hash32::new([0x22; 32]) };
    let elsewhere = WrapContext { key_of: content, ..wrap_context() };
    let all = [
        wrap(&key(1), one.public(), &wrap_context(), randomness(1)),
        wrap(&key(1), one.public(), &wrap_context(), randomness(2)),
        wrap(&key(1), two.public(), &wrap_context(), randomness(1)),
        wrap(&key(1), one.public(), &elsewhere, randomness(1)),
        wrap(&key(2), one.public(), &wrap_context(), randomness(1)),
    ];
    // The last 32 bytes of the encapsulation are the X25519 point of the random bytes.
    let points = all.iter().map(|wrapped| wrapped.to_bytes()[2 + 1088..2 + 1120].to_vec());
    assert_eq!(points.collect::<std::collections::BTreeSet<_>>().len(), all.len());
    assert_eq!(wrapped(), all[0], "chance is an argument");
}
