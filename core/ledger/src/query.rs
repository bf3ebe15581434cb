//! Reading the state from outside. Entries decode themselves; these helpers add what a reader has
//! to know besides: that an account nobody has paid yet is an empty one, and that a place in a ring
//! may hold an older height than the one asked for.

use tg_types::ids::{Hash32, HeaderDigest};
use tg_types::{Decode, DecodeError, Height};

use crate::account::AccountEntry;
use crate::beacon::{BeaconEntry, HeaderEntry};
use crate::stake::StakeEntry;

/// The account under [`crate::keys::account`]; one that is not stored is empty.
pub fn account(bytes: Option<&[u8]>) -> Result<AccountEntry, DecodeError> {
    bytes.map_or_else(|| Ok(AccountEntry::default()), AccountEntry::from_bytes)
}

/// The stake under [`crate::keys::stake`]; one that is not stored is empty.
pub fn stake(bytes: Option<&[u8]>) -> Result<StakeEntry, DecodeError> {
    bytes.map_or_else(|| Ok(StakeEntry::default()), StakeEntry::from_bytes)
}

/// The beacon of `height` under [`crate::keys::beacon`], unless it is not recorded yet or no more.
pub fn beacon(bytes: Option<&[u8]>, height: Height) -> Result<Option<Hash32>, DecodeError> {
    let entry = bytes.map(BeaconEntry::from_bytes).transpose()?;
    Ok(entry.filter(|entry| entry.height == height).map(|entry| entry.beacon))
}

/// The header digest of `height` under [`crate::keys::header`], as long as the ring holds it.
pub fn header(bytes: Option<&[u8]>, height: Height) -> Result<Option<HeaderDigest>, DecodeError> {
    let entry = bytes.map(HeaderEntry::from_bytes).transpose()?;
    Ok(entry.filter(|entry| entry.height == height).map(|entry| entry.digest))
}
