//! What the elements of a value are.
//!
//! A file knows a dozen element kinds. What the importer does with a value depends on only five
//! of them, so the narrow ones are widened at the door: every float becomes an `f32` and every
//! integer that is not a quantised code becomes an `i64`.

use std::fmt;

/// The kind of a value's elements, as far as it matters for importing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// Real numbers. Half and double precision are converted to single.
    Float,
    /// Whole numbers: sizes, indices, labels. 16, 32 and 64 bits are not told apart.
    Int,
    /// Truth values, kept as 0 and 1.
    Bool,
    /// Signed quantised codes.
    Int8,
    /// Unsigned quantised codes and bytes.
    Uint8,
}

impl Dtype {
    /// Whether elements are real numbers.
    #[must_use]
    pub const fn is_float(self) -> bool {
        match self {
            Self::Float => true,
            Self::Int | Self::Bool | Self::Int8 | Self::Uint8 => false,
        }
    }

    /// Whether elements are codes of a quantised tensor.
    #[must_use]
    pub const fn is_code(self) -> bool {
        match self {
            Self::Int8 | Self::Uint8 => true,
            Self::Float | Self::Int | Self::Bool => false,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Float => "float",
            Self::Int => "int",
            Self::Bool => "bool",
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
        })
    }
}

/// The element kinds of a file that are understood, by their numbers in `TensorProto.DataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementKind {
    /// 32-bit float.
    Float,
    /// Unsigned 8-bit integer.
    Uint8,
    /// Signed 8-bit integer.
    Int8,
    /// Unsigned 16-bit integer.
    Uint16,
    /// Signed 16-bit integer.
    Int16,
    /// Signed 32-bit integer.
    Int32,
    /// Signed 64-bit integer.
    Int64,
    /// Truth value, one byte.
    Bool,
    /// 16-bit float with 5 bits of exponent.
    Float16,
    /// 64-bit float.
    Double,
    /// 16-bit float with 8 bits of exponent.
    Bfloat16,
}

impl ElementKind {
    /// The kind with this number, if it is understood.
    #[must_use]
    pub const fn from_number(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Float),
            2 => Some(Self::Uint8),
            3 => Some(Self::Int8),
            4 => Some(Self::Uint16),
            5 => Some(Self::Int16),
            6 => Some(Self::Int32),
            7 => Some(Self::Int64),
            9 => Some(Self::Bool),
            10 => Some(Self::Float16),
            11 => Some(Self::Double),
            16 => Some(Self::Bfloat16),
            _ => None,
        }
    }

    /// The number of this kind in a file.
    #[must_use]
    pub const fn number(self) -> i64 {
        match self {
            Self::Float => 1,
            Self::Uint8 => 2,
            Self::Int8 => 3,
            Self::Uint16 => 4,
            Self::Int16 => 5,
            Self::Int32 => 6,
            Self::Int64 => 7,
            Self::Bool => 9,
            Self::Float16 => 10,
            Self::Double => 11,
            Self::Bfloat16 => 16,
        }
    }

    /// How many bytes one element takes in `raw_data`.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Uint8 | Self::Int8 | Self::Bool => 1,
            Self::Uint16 | Self::Int16 | Self::Float16 | Self::Bfloat16 => 2,
            Self::Float | Self::Int32 => 4,
            Self::Int64 | Self::Double => 8,
        }
    }

    /// What the importer makes of this kind.
    #[must_use]
    pub const fn dtype(self) -> Dtype {
        match self {
            Self::Float | Self::Float16 | Self::Double | Self::Bfloat16 => Dtype::Float,
            Self::Uint16 | Self::Int16 | Self::Int32 | Self::Int64 => Dtype::Int,
            Self::Bool => Dtype::Bool,
            Self::Int8 => Dtype::Int8,
            Self::Uint8 => Dtype::Uint8,
        }
    }
}

impl From<Dtype> for ElementKind {
    /// The kind a value of this type is written as.
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::Float => Self::Float,
            Dtype::Int => Self::Int64,
            Dtype::Bool => Self::Bool,
            Dtype::Int8 => Self::Int8,
            Dtype::Uint8 => Self::Uint8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_kind_number_gives_the_same_kind_again() {
        let known = (0..=32).filter_map(ElementKind::from_number).count();
        assert_eq!(known, 11);
        for number in -1..=32 {
            if let Some(kind) = ElementKind::from_number(number) {
                assert_eq!(kind.number(), number);
                assert!(kind.bytes() > 0);
            }
        }
    }
}
