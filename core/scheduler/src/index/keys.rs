//! Short sorted lists of numbers inside entries.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, encode_list};

/// The most numbers: entries stay small.
pub const KEYS_MAX: usize = 16;

/// At most [`KEYS_MAX`] different numbers in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Keys(Vec<u64>);

impl Keys {
    /// The first [`KEYS_MAX`] of these, each once.
    pub fn new(numbers: impl IntoIterator<Item = u64>) -> Self {
        let mut sorted: Vec<u64> = numbers.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        sorted.truncate(KEYS_MAX);
        Self(sorted)
    }

    /// The numbers.
    pub fn as_slice(&self) -> &[u64] {
        &self.0
    }

    /// Whether a number is among them.
    pub fn contains(&self, number: u64) -> bool {
        self.0.binary_search(&number).is_ok()
    }

    /// With one more; if there is no room, the list as it was.
    #[must_use]
    pub fn with(&self, number: u64) -> Self {
        if self.0.len() == KEYS_MAX {
            return self.clone();
        }
        Self::new(self.0.iter().copied().chain([number]))
    }
}

impl Encode for Keys {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_list(&self.0, out);
    }
}

impl Decode for Keys {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let numbers: Vec<u64> = reader.list(KEYS_MAX)?;
        if !numbers.is_sorted_by(|one, next| one < next) {
            let at = reader.position();
            return Err(DecodeError::Order { at, expected: "numbers" });
        }
        Ok(Self(numbers))
    }
}
