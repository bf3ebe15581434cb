//! The canonical byte form of every value that is stored, hashed, signed or sent.
//!
//! One rule: bytes become a value that gives the same bytes again, or they are refused. So a hash
//! of the bytes is a hash of the value, and two nodes can never disagree about which of two forms
//! was meant.
//!
//! Integers are big-endian and of fixed width; a length is a minimal LEB128 of at most 32 bits; a
//! flag, an option and an enum start with one tag byte. Decoding never reserves more than
//! [`ALLOCATION_FACTOR`] bytes per byte of input: a list states its length first, and that length
//! is held against the bytes that are really left.

use crate::genesis::GenesisError;
use crate::key::{KeyError, Kind};

/// The one format of stored and signed things that this version reads and writes.
pub const FORMAT_VERSION: u8 = 1;

/// Bytes of memory a list may take per byte of input. Below the promised ten, because a list's
/// items may own text or byte-strings, which take their input's size once more.
pub const ALLOCATION_FACTOR: usize = 8;

/// A value with a canonical byte form.
pub trait Encode {
    /// Appends the canonical bytes to `out`.
    fn encode(&self, out: &mut Vec<u8>);

    /// The canonical bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64); // what an ordinary ledger entry takes
        self.encode(&mut out);
        out
    }
}

/// A value that can be read from its canonical bytes, and from no others.
pub trait Decode: Sized {
    /// The fewest bytes a value takes. A list holds its stated length against it before reserving
    /// memory.
    const BYTES_MIN: usize;

    /// Reads one value and leaves the reader behind it.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Reads one value that must take up all of `bytes`.
    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = Self::decode(&mut reader)?;
        reader.finish()?;
        Ok(value)
    }
}

/// Why bytes are not the canonical form of a value. `at` is the position of the offending byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The input ends inside a value.
    #[error("input ends early: at byte {at} needed {needed} more, {left} left")]
    Truncated {
        /// Where the missing piece starts.
        at: usize,
        /// How many bytes that piece takes at least.
        needed: usize,
        /// How many bytes there are.
        left: usize,
    },
    /// The input goes on behind the value.
    #[error("value ends at byte {at}, but {left} more follow")]
    Trailing {
        /// Where the value ended.
        at: usize,
        /// How many bytes follow.
        left: usize,
    },
    /// Written in a format this version does not know.
    #[error("format {found} at byte {at} is not supported, expected {supported}")]
    Version {
        /// Where the format byte stands.
        at: usize,
        /// The format byte found.
        found: u8,
        /// The format this version reads.
        supported: u8,
    },
    /// A tag byte that names no variant of the expected type.
    #[error("byte {at} is {found}, which is no {expected}")]
    Tag {
        /// Where the tag stands.
        at: usize,
        /// The tag found.
        found: u16,
        /// The type whose variant was expected.
        expected: &'static str,
    },
    /// A length outside its bounds.
    #[error("length {found} at byte {at} is not within {min}..={max}")]
    Length {
        /// Where the length stands.
        at: usize,
        /// The length found.
        found: usize,
        /// The smallest length allowed.
        min: usize,
        /// The largest length allowed.
        max: usize,
    },
    /// A length that is not written in the fewest bytes, or needs more than 32 bits.
    #[error("length at byte {at} is not a minimal 32-bit LEB128")]
    LengthForm {
        /// Where the length stands.
        at: usize,
    },
    /// A value outside the range of its type.
    #[error("value ending at byte {at} is no {expected}")]
    Range {
        /// Where the value ended.
        at: usize,
        /// What was expected, in words.
        expected: &'static str,
    },
    /// Items that are not in strictly ascending order.
    #[error("items ending at byte {at} are not strictly ascending: {expected}")]
    Order {
        /// Where the list ended.
        at: usize,
        /// Which order was expected.
        expected: &'static str,
    },
    /// A public key that nobody may use.
    #[error("public key ending at byte {at} is refused")]
    Key {
        /// Where the key ended.
        at: usize,
        /// Why the key is refused.
        source: KeyError,
    },
    /// A genesis that does not pass its checks.
    #[error("genesis ending at byte {at} is refused")]
    Genesis {
        /// Where the genesis ended.
        at: usize,
        /// Which check failed.
        source: Box<GenesisError>,
    },
}

/// A position in the input. Every read is checked against what is left.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, length: bytes.len() }
    }

    /// How many bytes have been read.
    #[inline]
    pub const fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    /// How many bytes are left.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) =
            self.rest.split_at_checked(count).ok_or_else(|| self.truncated(count))?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes, as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.truncated(N))?;
        self.rest = rest;
        Ok(*head)
    }

    /// One byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A length within `min..=max`, in the fewest bytes.
    #[inline]
    pub fn length(&mut self, min: usize, max: usize) -> Result<usize, DecodeError> {
        let at = self.position();
        let mut value: u32 = 0;
        for shift in [0_u32, 7, 14, 21, 28] {
            let byte = self.byte()?;
            let low = u32::from(byte & 0x7f);
            if shift == 28 && low > 0x0f {
                return Err(DecodeError::LengthForm { at });
            }
            value |= low << shift;
            if byte & 0x80 == 0 {
                if byte == 0 && shift > 0 {
                    return Err(DecodeError::LengthForm { at });
                }
                let found = usize::try_from(value).map_err(|_| DecodeError::LengthForm { at })?;
                if found < min || found > max {
                    return Err(DecodeError::Length { at, found, min, max });
                }
                return Ok(found);
            }
        }
        Err(DecodeError::LengthForm { at })
    }

    /// A byte-string of at most `max` bytes, borrowed from the input.
    #[inline]
    pub fn byte_string(&mut self, max: usize) -> Result<&'a [u8], DecodeError> {
        let length = self.length(0, max)?;
        self.take(length)
    }

    /// A list of at most `max` items.
    pub fn list<T: Decode>(&mut self, max: usize) -> Result<Vec<T>, DecodeError> {
        self.list_within(0, max)
    }

    /// A list of at least `min` and at most `max` items.
    pub fn list_within<T: Decode>(
        &mut self,
        min: usize,
        max: usize,
    ) -> Result<Vec<T>, DecodeError> {
        const {
            assert!(
                T::BYTES_MIN > 0 && size_of::<T>() <= ALLOCATION_FACTOR * T::BYTES_MIN,
                "a list's item takes at most 8 bytes of memory per byte of its shortest form"
            );
        };
        let length = self.length(min, max)?;
        let needed = length.saturating_mul(T::BYTES_MIN);
        if needed > self.remaining() {
            return Err(self.truncated(needed));
        }
        let mut items = Vec::with_capacity(length);
        for _ in 0..length {
            items.push(T::decode(self)?);
        }
        Ok(items)
    }

    /// The two bytes that open every stored or signed thing: format, then `kind`.
    pub fn opening(&mut self, kind: Kind) -> Result<(), DecodeError> {
        let at = self.position();
        let found = self.byte()?;
        if found != FORMAT_VERSION {
            return Err(DecodeError::Version { at, found, supported: FORMAT_VERSION });
        }
        let at = self.position();
        let found = self.byte()?;
        if found != kind.tag() {
            return Err(DecodeError::Tag { at, found: found.into(), expected: kind.name() });
        }
        Ok(())
    }

    /// Refuses whatever is left.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(DecodeError::Trailing { at: self.position(), left: self.rest.len() })
    }

    #[cold]
    fn truncated(&self, needed: usize) -> DecodeError {
        DecodeError::Truncated { at: self.position(), needed, left: self.rest.len() }
    }
}

/// Appends a length in the fewest bytes. Lengths are bounded far below 32 bits by the types that
/// have them.
pub fn encode_length(length: usize, out: &mut Vec<u8>) {
    let mut left =
        u32::try_from(length).expect("every list and byte-string is bounded below 32 bits");
    while left >= 0x80 {
        let [low, ..] = left.to_le_bytes();
        out.push(low | 0x80);
        left >>= 7;
    }
    let [low, ..] = left.to_le_bytes();
    out.push(low);
}

/// Appends a length and the bytes.
pub fn encode_byte_string(bytes: &[u8], out: &mut Vec<u8>) {
    encode_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Appends a length and the items.
pub fn encode_list<T: Encode>(items: &[T], out: &mut Vec<u8>) {
    encode_length(items.len(), out);
    for item in items {
        item.encode(out);
    }
}

/// Appends the two bytes that open every stored or signed thing.
pub fn encode_opening(kind: Kind, out: &mut Vec<u8>) {
    out.extend_from_slice(&[FORMAT_VERSION, kind.tag()]);
}

macro_rules! integer {
    ($($int:ty),*) => {$(
        impl Encode for $int {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
        impl Decode for $int {
            const BYTES_MIN: usize = size_of::<$int>();
            #[inline]
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                reader.array().map(Self::from_be_bytes)
            }
        }
    )*};
}
integer!(u8, u16, u32, u64, i16, i32, i64);

impl Encode for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl Decode for bool {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.position();
        match reader.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(DecodeError::Tag { at, found: found.into(), expected: "flag (0 or 1)" }),
        }
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }
}

impl<T: Decode> Decode for Option<T> {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if bool::decode(reader)? { T::decode(reader).map(Some) } else { Ok(None) }
    }
}

impl<A: Encode, B: Encode> Encode for (A, B) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }
}

impl<A: Decode, B: Decode> Decode for (A, B) {
    const BYTES_MIN: usize = A::BYTES_MIN + B::BYTES_MIN;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((A::decode(reader)?, B::decode(reader)?))
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl<const N: usize> Decode for [u8; N] {
    const BYTES_MIN: usize = N;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.array()
    }
}

/// Defines a struct or an enum together with its canonical form, so that the two cannot drift
/// apart.
///
/// A struct is its fields in the order written. An enum is one tag byte (`= 1` behind the variant)
/// and then the variant's fields. Tags are part of the format: a variant may be added, never
/// renumbered.
#[macro_export]
macro_rules! wire {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $( $(#[$field_meta:meta])* $field_vis:vis $field:ident : $ty:ty ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $( $(#[$field_meta])* $field_vis $field: $ty, )*
        }

        impl $crate::codec::Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                $( $crate::codec::Encode::encode(&self.$field, out); )*
            }
        }

        impl $crate::codec::Decode for $name {
            const BYTES_MIN: usize = 0 $( + <$ty as $crate::codec::Decode>::BYTES_MIN )*;

            fn decode(
                reader: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::DecodeError> {
                Ok(Self { $( $field: $crate::codec::Decode::decode(reader)?, )* })
            }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $(
                $(#[$variant_meta:meta])*
                $variant:ident
                $({ $( $(#[$field_meta:meta])* $field:ident : $ty:ty ),* $(,)? })?
                = $tag:literal
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $( $(#[$variant_meta])* $variant $({ $( $(#[$field_meta])* $field: $ty, )* })?, )*
        }

        impl $name {
            /// The byte that opens the canonical form of this variant.
            pub const fn tag(&self) -> u8 {
                match self {
                    $( Self::$variant { .. } => $tag, )*
                }
            }

            /// The name of this variant.
            pub const fn name(&self) -> &'static str {
                match self {
                    $( Self::$variant { .. } => stringify!($variant), )*
                }
            }
        }

        impl $crate::codec::Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(
                        Self::$variant $({ $( $field, )* })? => {
                            out.push($tag);
                            $( $( $crate::codec::Encode::encode($field, out); )* )?
                        }
                    )*
                }
            }
        }

        impl $crate::codec::Decode for $name {
            const BYTES_MIN: usize = {
                let mut least = usize::MAX;
                $(
                    let size: usize =
                        1 $( $( + <$ty as $crate::codec::Decode>::BYTES_MIN )* )?;
                    if size < least {
                        least = size;
                    }
                )*
                least
            };

            fn decode(
                reader: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::DecodeError> {
                let at = reader.position();
                match reader.byte()? {
                    $(
                        $tag => Ok(Self::$variant $({
                            $( $field: $crate::codec::Decode::decode(reader)?, )*
                        })?),
                    )*
                    found => Err($crate::codec::DecodeError::Tag {
                        at,
                        found: found.into(),
                        expected: stringify!($name),
                    }),
                }
            }
        }
    };
}
