//! What all stored entries have in common: a noun, one canonical byte form that opens with the
//! format version, and an answer to "how much money do you hold?". The last one is what lets the
//! end of a block compare the running totals with the entries themselves.

use std::ops::AddAssign;

use tg_types::ids::{Noun, StateKey};
use tg_types::{Decode, DecodeError, Encode, FORMAT_VERSION, Reader};

/// A value that is stored under a key of its own.
pub(crate) trait Entry: Encode + Decode {
    /// The noun under which entries of this type are stored.
    const NOUN: Noun;

    /// The money inside this entry; most entries hold none.
    fn held(&self) -> Held {
        Held::default()
    }
}

/// The key of an entry of type `T`.
pub(crate) fn key_of<T: Entry>(id: [u8; 32]) -> StateKey {
    StateKey::new(T::NOUN, id)
}

/// Money found in entries, by what it is there for. Wider than an amount, because a sum over
/// entries is being checked, not trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Free to spend.
    pub(crate) balances: u128,
    /// Locked for jobs.
    pub(crate) escrow: u128,
    /// Staked.
    pub(crate) staked: u128,
    /// On its way from stake to balance.
    pub(crate) unbonding: u128,
}

impl AddAssign for Held {
    fn add_assign(&mut self, more: Self) {
        self.balances += more.balances;
        self.escrow += more.escrow;
        self.staked += more.staked;
        self.unbonding += more.unbonding;
    }
}

/// Reads the format byte that opens every entry.
pub(crate) fn decode_format(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let at = reader.position();
    let found = reader.byte()?;
    if found != FORMAT_VERSION {
        return Err(DecodeError::Version { at, found, supported: FORMAT_VERSION });
    }
    Ok(())
}

/// Defines a stored entry together with its byte form: the format byte, then the fields in order.
macro_rules! entry {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* pub $field:ident : $ty:ty ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $ty, )*
        }

        impl ::tg_types::Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                out.push(::tg_types::FORMAT_VERSION);
                $( ::tg_types::Encode::encode(&self.$field, out); )*
            }
        }

        impl ::tg_types::Decode for $name {
            const BYTES_MIN: usize = 1 $( + <$ty as ::tg_types::Decode>::BYTES_MIN )*;

            fn decode(
                reader: &mut ::tg_types::Reader<'_>,
            ) -> Result<Self, ::tg_types::DecodeError> {
                $crate::entry::decode_format(reader)?;
                Ok(Self { $( $field: ::tg_types::Decode::decode(reader)?, )* })
            }
        }
    };
}

pub(crate) use entry;
