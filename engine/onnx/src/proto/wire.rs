//! The wire format of protocol buffers: fields with a number and one of four forms.
//!
//! The reader borrows from the file, checks every length against the bytes that are left, and
//! counts what it hands out: a message of two bytes becomes a structure of hundreds, so without a
//! count a small file could fill the memory.

use std::cell::Cell;

use super::ProtoError;

/// Bytes of the longest varint: ten times seven bits hold 64.
const VARINT_BYTES_MAX: usize = 10;

/// How many more messages and texts a file may hold, shared by all readers of one file.
#[derive(Debug)]
pub(super) struct Budget {
    items_left: Cell<usize>,
    items_max: usize,
}

impl Budget {
    /// Allows `items_max` messages and texts.
    pub(super) const fn new(items_max: usize) -> Self {
        Self { items_left: Cell::new(items_max), items_max }
    }

    /// Takes one item.
    pub(super) fn take(&self, at: usize) -> Result<(), ProtoError> {
        let left = self.items_left.get();
        let rest = left.checked_sub(1).ok_or(ProtoError::TooMany {
            at,
            what: "messages and texts",
            max: self.items_max,
        })?;
        self.items_left.set(rest);
        Ok(())
    }
}

/// The content of one field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content<'a> {
    /// An integer, a flag or an enum.
    Varint(u64),
    /// Eight bytes, little-endian.
    Fixed64(u64),
    /// A text, a byte-string, a message or a packed list.
    Bytes(&'a [u8]),
    /// Four bytes, little-endian.
    Fixed32(u32),
}

/// One field as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    /// The field's number within its message.
    pub(super) number: u64,
    /// Where the content starts in the file.
    pub(super) at: usize,
    /// What it holds.
    pub(super) content: Content<'a>,
}

/// Reads the fields of one message, in the order of the file.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// Where `rest` starts in the file.
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, which start at position `at` of the file.
    pub(super) const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { rest: bytes, at }
    }

    /// The next field, or nothing at the end of the message.
    pub(super) fn field(&mut self) -> Result<Option<Field<'a>>, ProtoError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key_at = self.at;
        let key = self.varint()?;
        let number = key >> 3;
        if number == 0 {
            return Err(ProtoError::FieldNumber { at: key_at });
        }
        let mut at = self.at;
        let content = match key & 7 {
            0 => Content::Varint(self.varint()?),
            1 => Content::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                at = self.at;
                Content::Bytes(self.take(length)?)
            }
            5 => Content::Fixed32(u32::from_le_bytes(self.array()?)),
            form => return Err(ProtoError::WireForm { at: key_at, form }),
        };
        Ok(Some(Field { number, at, content }))
    }

    /// One varint.
    pub(super) fn varint(&mut self) -> Result<u64, ProtoError> {
        let start = self.at;
        let mut value = 0_u64;
        for (index, byte) in self.rest.iter().enumerate().take(VARINT_BYTES_MAX) {
            let low = u64::from(byte & 0x7f);
            let shift = 7 * index;
            // The tenth byte has room for one bit.
            if shift == 63 && low > 1 {
                return Err(ProtoError::Varint { at: start });
            }
            value |= low << shift;
            if byte & 0x80 == 0 {
                self.skip(index + 1);
                return Ok(value);
            }
        }
        if self.rest.len() < VARINT_BYTES_MAX {
            Err(ProtoError::Truncated { at: start, needed: 1, left: 0 })
        } else {
            Err(ProtoError::Varint { at: start })
        }
    }

    /// Whether everything was read.
    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtoError> {
        let head = self.rest.first_chunk::<N>().copied().ok_or(ProtoError::Truncated {
            at: self.at,
            needed: N,
            left: self.rest.len(),
        })?;
        self.skip(N);
        Ok(head)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], ProtoError> {
        let truncated =
            |needed| ProtoError::Truncated { at: self.at, needed, left: self.rest.len() };
        let length = usize::try_from(length).map_err(|_| truncated(usize::MAX))?;
        let head = self.rest.get(..length).ok_or_else(|| truncated(length))?;
        self.skip(length);
        Ok(head)
    }

    fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
        self.at += count;
    }
}

impl<'a> Field<'a> {
    /// The content as a signed integer. Negative ones take ten bytes and wrap, by the format.
    pub(super) fn int(&self) -> Result<i64, ProtoError> {
        match self.content {
            Content::Varint(value) => Ok(value.cast_signed()),
            Content::Fixed64(_) | Content::Bytes(_) | Content::Fixed32(_) => Err(self.form()),
        }
    }

    /// The content as a float.
    pub(super) fn float(&self) -> Result<f32, ProtoError> {
        match self.content {
            Content::Fixed32(bits) => Ok(f32::from_bits(bits)),
            Content::Varint(_) | Content::Fixed64(_) | Content::Bytes(_) => Err(self.form()),
        }
    }

    /// The content as bytes.
    pub(super) fn bytes(&self) -> Result<&'a [u8], ProtoError> {
        match self.content {
            Content::Bytes(bytes) => Ok(bytes),
            Content::Varint(_) | Content::Fixed64(_) | Content::Fixed32(_) => Err(self.form()),
        }
    }

    /// The content as a message.
    pub(super) fn message(&self, budget: &Budget) -> Result<Reader<'a>, ProtoError> {
        budget.take(self.at)?;
        Ok(Reader::new(self.bytes()?, self.at))
    }

    /// The content as text of at most `max` bytes. What is no UTF-8 is replaced: names are only
    /// compared and shown.
    pub(super) fn text(&self, budget: &Budget, max: usize) -> Result<String, ProtoError> {
        budget.take(self.at)?;
        let bytes = self.bytes()?;
        if bytes.len() > max {
            return Err(ProtoError::TooMany { at: self.at, what: "bytes of text", max });
        }
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Appends the integers of a repeated field, which may be packed or single.
    pub(super) fn ints_into(&self, list: &mut Vec<i64>, max: usize) -> Result<(), ProtoError> {
        match self.content {
            Content::Varint(value) => self.push(list, value.cast_signed(), max),
            Content::Bytes(bytes) => {
                let mut reader = Reader::new(bytes, self.at);
                while !reader.is_empty() {
                    let value = reader.varint()?.cast_signed();
                    self.push(list, value, max)?;
                }
                Ok(())
            }
            Content::Fixed64(_) | Content::Fixed32(_) => Err(self.form()),
        }
    }

    /// Appends the floats of a repeated field, which may be packed or single.
    pub(super) fn floats_into(&self, list: &mut Vec<f32>, max: usize) -> Result<(), ProtoError> {
        match self.content {
            Content::Fixed32(bits) => self.push(list, f32::from_bits(bits), max),
            Content::Bytes(bytes) => {
                let mut reader = Reader::new(bytes, self.at);
                while !reader.is_empty() {
                    let value = f32::from_le_bytes(reader.array()?);
                    self.push(list, value, max)?;
                }
                Ok(())
            }
            Content::Varint(_) | Content::Fixed64(_) => Err(self.form()),
        }
    }

    /// Appends the doubles of a repeated field, which may be packed or single.
    pub(super) fn doubles_into(&self, list: &mut Vec<f64>, max: usize) -> Result<(), ProtoError> {
        match self.content {
            Content::Fixed64(bits) => self.push(list, f64::from_bits(bits), max),
            Content::Bytes(bytes) => {
                let mut reader = Reader::new(bytes, self.at);
                while !reader.is_empty() {
                    let value = f64::from_le_bytes(reader.array()?);
                    self.push(list, value, max)?;
                }
                Ok(())
            }
            Content::Varint(_) | Content::Fixed32(_) => Err(self.form()),
        }
    }

    fn push<T>(&self, list: &mut Vec<T>, item: T, max: usize) -> Result<(), ProtoError> {
        if list.len() >= max {
            return Err(ProtoError::TooMany { at: self.at, what: "numbers", max });
        }
        list.push(item);
        Ok(())
    }

    const fn form(&self) -> ProtoError {
        ProtoError::FieldForm { at: self.at, number: self.number }
    }
}

/// Writes the fields of one message. Defaults are left out by the callers.
#[derive(Debug, Default)]
pub(super) struct Writer {
    out: Vec<u8>,
}

impl Writer {
    /// What was written.
    pub(super) fn finish(self) -> Vec<u8> {
        self.out
    }

    /// An integer field.
    pub(super) fn int(&mut self, number: u64, value: i64) {
        self.varint(number << 3);
        self.varint(value.cast_unsigned());
    }

    /// A float field.
    pub(super) fn float(&mut self, number: u64, value: f32) {
        self.varint(number << 3 | 5);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// A text, or any other byte-string.
    pub(super) fn bytes(&mut self, number: u64, value: &[u8]) {
        self.varint(number << 3 | 2);
        self.varint(value.len() as u64);
        self.out.extend_from_slice(value);
    }

    /// A message within this one.
    pub(super) fn message(&mut self, number: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(number, &inner.out);
    }

    /// A list of integers, each in a field of its own: the form of shapes and attributes, where
    /// other readers understand no packed lists.
    pub(super) fn ints(&mut self, number: u64, values: &[i64]) {
        for value in values {
            self.int(number, *value);
        }
    }

    /// A list of floats, each in a field of its own: the form of attributes.
    pub(super) fn floats(&mut self, number: u64, values: &[f32]) {
        for value in values {
            self.float(number, *value);
        }
    }

    /// A list of integers, packed: the form of elements.
    pub(super) fn packed_ints(&mut self, number: u64, values: &[i64]) {
        let mut inner = Self::default();
        for value in values {
            inner.varint(value.cast_unsigned());
        }
        self.bytes(number, &inner.out);
    }

    /// A list of floats, packed: the form of elements.
    pub(super) fn packed_floats(&mut self, number: u64, values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.bytes(number, &bytes);
    }

    /// A list of doubles, packed: the form of elements.
    pub(super) fn packed_doubles(&mut self, number: u64, values: &[f64]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.bytes(number, &bytes);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}
