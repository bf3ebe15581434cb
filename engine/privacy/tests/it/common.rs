//! What the tests have in common: a context, keys and random bytes by number.

use tg_privacy::{ContentKey, Context, KeyOf, Purpose, Randomness, WrapContext, WrapSecret};
use tg_types::{AccountId, GenesisHash, Hash32, JobId, SecretKey};

pub(crate) fn context() -> Context {
    Context {
        genesis: GenesisHash::new([0x99; 32]),
        owner: account(1),
        purpose: Purpose::Input,
        label: Hash32::new([0x11; 32]),
    }
}

pub(crate) fn wrap_context() -> WrapContext {
    let key_of = KeyOf::Job { job: JobId::new([0x22; 32]) };
    WrapContext { genesis: GenesisHash::new([0x99; 32]), owner: account(1), key_of }
}

pub(crate) fn account(number: u8) -> AccountId {
    SecretKey::from_seed([number; 32]).public().into()
}

pub(crate) fn key(number: u8) -> ContentKey {
    ContentKey::new([number; 32])
}

pub(crate) fn randomness(number: u8) -> Randomness {
    Randomness::new([number; 32])
}

pub(crate) fn recipient(number: u8) -> WrapSecret {
    WrapSecret::from_seed([number; 32])
}

/// Bytes without a pattern that chunks could share.
pub(crate) fn message(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}
