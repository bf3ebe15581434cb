//! A place in bytes that moves forward. Every step is checked, so that the readers of the formats
//! never index; what is missing is reported with its place.

use super::{Fault, ParseError};

/// A place in bytes.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A place; beyond the end there is simply nothing.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Bytes from the beginning.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next byte.
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Everything from here on.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Goes past a byte, if it is the next one.
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Goes past all bytes of a kind and gives them.
    pub(super) fn eat_while(&mut self, is_kind: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = self.rest();
        let count = rest.iter().position(|byte| !is_kind(*byte)).unwrap_or(rest.len());
        let (found, _) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        self.at += found.len();
        found
    }

    /// Goes past these bytes, which must be next.
    pub(super) fn expect(&mut self, bytes: &[u8], wanted: &'static str) -> Result<(), ParseError> {
        if !self.rest().starts_with(bytes) {
            return Err(self.expected(wanted));
        }
        self.at += bytes.len();
        Ok(())
    }

    /// The next `count` bytes.
    pub(super) fn take(
        &mut self,
        count: usize,
        wanted: &'static str,
    ) -> Result<&'a [u8], ParseError> {
        let Some((found, _)) = self.rest().split_at_checked(count) else {
            return Err(Fault::Ended(wanted).at(self.bytes.len()));
        };
        self.at += count;
        Ok(found)
    }

    /// The next `count` bytes, with the places of the whole.
    pub(super) fn part(&mut self, count: usize, wanted: &'static str) -> Result<Self, ParseError> {
        let start = self.at;
        self.take(count, wanted)?;
        Ok(Self { bytes: self.bytes.get(..self.at).unwrap_or_default(), at: start })
    }

    /// The next 16 bits, the low ones first.
    pub(super) fn u16(&mut self, wanted: &'static str) -> Result<u16, ParseError> {
        Ok(u16::from_le_bytes(self.array(wanted)?))
    }

    /// The next 32 bits, the low ones first.
    pub(super) fn u32(&mut self, wanted: &'static str) -> Result<u32, ParseError> {
        Ok(u32::from_le_bytes(self.array(wanted)?))
    }

    fn array<const N: usize>(&mut self, wanted: &'static str) -> Result<[u8; N], ParseError> {
        let Some(found) = self.rest().first_chunk::<N>() else {
            return Err(Fault::Ended(wanted).at(self.bytes.len()));
        };
        self.at += N;
        Ok(*found)
    }

    /// Something else is here, or nothing.
    pub(super) fn expected(&self, wanted: &'static str) -> ParseError {
        match self.peek() {
            Some(_) => Fault::Expected(wanted).at(self.at),
            None => Fault::Ended(wanted).at(self.at),
        }
    }
}
