//! Text, byte-strings and lists with a bound, checked when they are made.
//!
//! A transaction, a descriptor or a genesis holds nothing of unbounded size; these types carry the
//! bound so that no other module has to remember it.

use crate::codec::{Decode, DecodeError, Encode, Reader, encode_byte_string, encode_list};
use std::fmt;
use std::str::FromStr;

/// Why text, bytes or a list is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundError {
    /// Too short or too long.
    #[error("length is {found}, expected {min} to {max}")]
    Length {
        /// The number of bytes or items given.
        found: usize,
        /// The fewest allowed.
        min: usize,
        /// The most allowed.
        max: usize,
    },
    /// Not of the expected form.
    #[error("expected {expected}")]
    Form {
        /// The form, in words.
        expected: &'static str,
    },
}

/// At most `MAX` bytes without a meaning to core.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes<const MAX: usize>(Vec<u8>);

impl<const MAX: usize> Bytes<MAX> {
    /// No bytes.
    pub const EMPTY: Self = Self(Vec::new());

    /// Takes the bytes if they are not too many.
    pub fn new(bytes: Vec<u8>) -> Result<Self, BoundError> {
        if bytes.len() > MAX {
            return Err(BoundError::Length { found: bytes.len(), min: 0, max: MAX });
        }
        Ok(Self(bytes))
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<const MAX: usize> fmt::Debug for Bytes<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bytes(")?;
        crate::hex::write(&self.0, f)?;
        f.write_str(")")
    }
}

impl<const MAX: usize> Encode for Bytes<MAX> {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_byte_string(&self.0, out);
    }
}

impl<const MAX: usize> Decode for Bytes<MAX> {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.byte_string(MAX).map(|bytes| Self(bytes.to_vec()))
    }
}

/// A list of at least `MIN` and at most `MAX` items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T, const MIN: usize, const MAX: usize>(Vec<T>);

impl<T, const MIN: usize, const MAX: usize> List<T, MIN, MAX> {
    /// Takes the items if they are neither too few nor too many.
    pub fn new(items: Vec<T>) -> Result<Self, BoundError> {
        if items.len() < MIN || items.len() > MAX {
            return Err(BoundError::Length { found: items.len(), min: MIN, max: MAX });
        }
        Ok(Self(items))
    }

    /// The items.
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// The items, to be changed; their number stays.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T, const MAX: usize> Default for List<T, 0, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MAX: usize> List<T, 0, MAX> {
    /// Puts an item behind the last, if there is room.
    pub fn push(&mut self, item: T) -> Result<(), BoundError> {
        if self.0.len() >= MAX {
            return Err(BoundError::Length { found: self.0.len() + 1, min: 0, max: MAX });
        }
        self.0.push(item);
        Ok(())
    }

    /// Keeps the items that pass.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.0.retain(keep);
    }
}

impl<T: Encode, const MIN: usize, const MAX: usize> Encode for List<T, MIN, MAX> {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_list(&self.0, out);
    }
}

impl<T: Decode, const MIN: usize, const MAX: usize> Decode for List<T, MIN, MAX> {
    const BYTES_MIN: usize = 1 + MIN * T::BYTES_MIN;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.list_within(MIN, MAX).map(Self)
    }
}

macro_rules! text {
    ($(#[$meta:meta])* $name:ident, $max:literal, $expected:literal, $is_valid:path) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// The most bytes it can have.
            pub const BYTES_MAX: usize = $max;

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BoundError;

            fn from_str(text: &str) -> Result<Self, BoundError> {
                if text.is_empty() || text.len() > Self::BYTES_MAX {
                    let (found, max) = (text.len(), Self::BYTES_MAX);
                    return Err(BoundError::Length { found, min: 1, max });
                }
                if !$is_valid(text) {
                    return Err(BoundError::Form { expected: $expected });
                }
                Ok(Self(text.into()))
            }
        }

        impl Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                encode_byte_string(self.0.as_bytes(), out);
            }
        }

        impl Decode for $name {
            const BYTES_MIN: usize = 2;

            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let length = reader.length(1, Self::BYTES_MAX)?;
                let bytes = reader.take(length)?;
                std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or(
                    DecodeError::Range { at: reader.position(), expected: $expected },
                )
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), self.0)
            }
        }
    };
}

text!(
    /// A name people read, such as a region or a device model: printable ASCII, no space at either
    /// end.
    Name,
    64,
    "printable ASCII text without a space at either end",
    is_name
);
text!(
    /// Where a validator listens: a host name or an IP address, a colon and a port.
    Address,
    128,
    "host:port with an ASCII host name, an IPv4 address or an IPv6 address in brackets",
    is_address
);

fn is_name(text: &str) -> bool {
    text.bytes().all(|letter| matches!(letter, b' '..=b'~')) && text.trim() == text
}

fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    is_port(port) && (is_host(host) || is_bracketed_ipv6(host))
}

/// A decimal port without leading zeros, so that an address is written in one way.
fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port > 0 && port.to_string() == text)
}

fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| matches!(b, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-'))
    };
    text.split('.').all(is_label)
}

fn is_bracketed_ipv6(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::{Address, BoundError, Bytes, List, Name};

    #[test]
    fn name_of_printable_text_is_taken() {
        for text in ["eu-west", "NVIDIA H100 80GB", "~", &"x".repeat(64)] {
            assert_eq!(text.parse::<Name>().map(|name| name.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn name_of_another_form_is_refused() {
        for text in [" x", "x ", "a\nb", "ü", "a\u{7f}", "\u{0}"] {
            assert!(matches!(text.parse::<Name>(), Err(BoundError::Form { .. })), "{text:?}");
        }
        for text in ["", &"x".repeat(65)] {
            assert!(matches!(text.parse::<Name>(), Err(BoundError::Length { .. })), "{text:?}");
        }
    }

    #[test]
    fn address_with_host_and_port_is_taken() {
        for text in ["127.0.0.1:4000", "node-1.example.org:65535", "[::1]:1", "localhost:80"] {
            assert!(text.parse::<Address>().is_ok(), "{text:?}");
        }
    }

    #[test]
    fn address_of_another_form_is_refused() {
        for text in [
            "localhost",
            "localhost:",
            "localhost:0",
            "localhost:080",
            "localhost:65536",
            ":80",
            "a b:80",
            "-a:80",
            "a..b:80",
            "::1:80",
            "[::1:80",
            "[zz]:80",
            "a/b:80",
            "a:+80",
        ] {
            assert!(matches!(text.parse::<Address>(), Err(BoundError::Form { .. })), "{text:?}");
        }
    }

    #[test]
    fn bytes_and_lists_beyond_their_bound_are_refused() {
        assert!(Bytes::<2>::new(vec![1, 2]).is_ok());
        assert_eq!(
            Bytes::<2>::new(vec![1, 2, 3]),
            Err(BoundError::Length { found: 3, min: 0, max: 2 })
        );
        assert!(List::<u8, 1, 2>::new(vec![1]).is_ok());
        assert!(List::<u8, 1, 2>::new(vec![]).is_err());
        assert!(List::<u8, 1, 2>::new(vec![1, 2, 3]).is_err());
    }
}
