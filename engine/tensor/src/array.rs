//! Numbers with a shape, as they come from and go to files: the float side of a program.
//!
//! A program itself knows only integers ([`crate::Tensor`]); arrays are what users hold in their
//! hands before quantisation and after it.

/// The numbers of an array. Files know more kinds; they are read into the wider of these two.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Real numbers.
    Float(Vec<f32>),
    /// Whole numbers and truth values (0 and 1).
    Int(Vec<i64>),
}

/// Numbers in row-major order with their shape. The shape's product is the number of elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    shape: Vec<usize>,
    data: Data,
}

/// Not an array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// Shape and number of elements do not fit each other.
    #[error("{found} numbers do not fill the shape {shape:?}")]
    Count {
        /// The shape that was asked for.
        shape: Vec<usize>,
        /// How many numbers there are.
        found: usize,
    },
}

impl Array {
    /// Puts numbers into a shape.
    pub fn new(shape: Vec<usize>, data: Data) -> Result<Self, ArrayError> {
        let found = data.len();
        let asked = shape.iter().try_fold(1_usize, |product, side| product.checked_mul(*side));
        if asked == Some(found) {
            Ok(Self { shape, data })
        } else {
            Err(ArrayError::Count { shape, found })
        }
    }

    /// The sides, slowest first. Empty for a single number.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The numbers in row-major order.
    #[must_use]
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// How many numbers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cuts the numbers into arrays of one shape, which must fit a whole number of times.
    pub fn chunks(&self, shape: &[usize]) -> Result<Vec<Self>, ArrayError> {
        let each = shape.iter().try_fold(1_usize, |product, side| product.checked_mul(*side));
        let refused = || ArrayError::Count { shape: shape.to_vec(), found: self.len() };
        let each = each
            .filter(|each| *each > 0 && self.len().is_multiple_of(*each))
            .ok_or_else(refused)?;
        match &self.data {
            Data::Float(values) => {
                let parts = values.chunks(each);
                parts.map(|part| Self::new(shape.to_vec(), Data::Float(part.to_vec()))).collect()
            }
            Data::Int(values) => {
                let parts = values.chunks(each);
                parts.map(|part| Self::new(shape.to_vec(), Data::Int(part.to_vec()))).collect()
            }
        }
    }

    /// The numbers as floats. Whole numbers above 2^24 are rounded.
    #[must_use]
    pub fn to_floats(&self) -> Vec<f32> {
        match &self.data {
            Data::Float(values) => values.clone(),
            Data::Int(values) => values.iter().map(|value| *value as f32).collect(),
        }
    }
}

impl Data {
    /// How many numbers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Float(values) => values.len(),
            Self::Int(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
