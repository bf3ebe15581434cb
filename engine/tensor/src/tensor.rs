//! Integers in memory, as narrow as their range allows.

use crate::program::{Spec, Width};
use crate::run::Elements;

/// The elements of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tensor {
    /// One byte each.
    I8(Vec<i8>),
    /// Two bytes each.
    I16(Vec<i16>),
    /// Four bytes each.
    I32(Vec<i32>),
}

/// Why numbers are not the elements of a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// Too many or too few.
    #[error("{found} elements given, {expected} needed")]
    Count {
        /// How many are given.
        found: usize,
        /// How many are needed.
        expected: usize,
    },
    /// Outside the range.
    #[error("element {index} is {found}, outside {lo}..={hi}")]
    Range {
        /// Which element.
        index: usize,
        /// Its number.
        found: i64,
        /// The smallest allowed.
        lo: i32,
        /// The largest allowed.
        hi: i32,
    },
}

impl Tensor {
    /// Takes numbers that must be as many, and lie where, the spec says.
    pub fn new(spec: &Spec, numbers: &[i64]) -> Result<Self, TensorError> {
        if numbers.len() != spec.elements() {
            let (found, expected) = (numbers.len(), spec.elements());
            return Err(TensorError::Count { found, expected });
        }
        if let Some(index) = numbers.iter().position(|number| !spec.admits(*number)) {
            let found = numbers.get(index).copied().unwrap_or(0);
            return Err(TensorError::Range { index, found, lo: spec.lo, hi: spec.hi });
        }
        Ok(match spec.width() {
            Width::I8 => Self::I8(numbers.iter().map(|number| *number as i8).collect()),
            Width::I16 => Self::I16(numbers.iter().map(|number| *number as i16).collect()),
            Width::I32 => Self::I32(numbers.iter().map(|number| *number as i32).collect()),
        })
    }

    /// Zeros, or the number nearest to zero that is allowed.
    #[must_use]
    pub fn zeros(spec: &Spec) -> Self {
        let (count, value) = (spec.elements(), 0.clamp(spec.lo, spec.hi));
        match spec.width() {
            Width::I8 => Self::I8(vec![value as i8; count]),
            Width::I16 => Self::I16(vec![value as i16; count]),
            Width::I32 => Self::I32(vec![value; count]),
        }
    }

    /// Bytes per element.
    #[must_use]
    pub const fn width(&self) -> Width {
        match self {
            Self::I8(_) => Width::I8,
            Self::I16(_) => Width::I16,
            Self::I32(_) => Width::I32,
        }
    }

    /// How many elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::I8(elements) => elements.len(),
            Self::I16(elements) => elements.len(),
            Self::I32(elements) => elements.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One element.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<i32> {
        Elements::from(self).get(index)
    }

    /// All elements.
    #[must_use]
    pub fn to_numbers(&self) -> Vec<i64> {
        match self {
            Self::I8(elements) => elements.iter().map(|element| (*element).into()).collect(),
            Self::I16(elements) => elements.iter().map(|element| (*element).into()).collect(),
            Self::I32(elements) => elements.iter().map(|element| (*element).into()).collect(),
        }
    }

    /// Appends the big-endian bytes of the elements in a range; the part of the range that exists.
    pub fn append_bytes(&self, range: std::ops::Range<usize>, out: &mut Vec<u8>) {
        Elements::from(self).append_bytes(range, out);
    }

    /// Reads as many elements as the spec says from big-endian bytes of that length.
    pub fn from_bytes(spec: &Spec, bytes: &[u8]) -> Result<Self, TensorError> {
        let width = spec.width().bytes();
        if bytes.len() != width * spec.elements() {
            let (found, expected) = (bytes.len() / width, spec.elements());
            return Err(TensorError::Count { found, expected });
        }
        let tensor = match spec.width() {
            Width::I8 => Self::I8(bytes.iter().map(|byte| *byte as i8).collect()),
            Width::I16 => {
                let pairs = bytes.as_chunks::<2>().0.iter();
                Self::I16(pairs.map(|pair| i16::from_be_bytes(*pair)).collect())
            }
            Width::I32 => {
                let fours = bytes.as_chunks::<4>().0.iter();
                Self::I32(fours.map(|four| i32::from_be_bytes(*four)).collect())
            }
        };
        tensor.check(spec)?;
        Ok(tensor)
    }

    /// Whether this can be the elements of a value.
    pub fn check(&self, spec: &Spec) -> Result<(), TensorError> {
        if self.len() != spec.elements() || self.width() != spec.width() {
            let (found, expected) = (self.len(), spec.elements());
            return Err(TensorError::Count { found, expected });
        }
        let outside = match self {
            Self::I8(elements) => elements.iter().position(|e| !spec.admits((*e).into())),
            Self::I16(elements) => elements.iter().position(|e| !spec.admits((*e).into())),
            Self::I32(elements) => elements.iter().position(|e| !spec.admits((*e).into())),
        };
        match outside {
            None => Ok(()),
            Some(index) => {
                let found = self.get(index).map_or(0, i64::from);
                Err(TensorError::Range { index, found, lo: spec.lo, hi: spec.hi })
            }
        }
    }
}
