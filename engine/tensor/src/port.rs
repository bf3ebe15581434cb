//! Between real numbers and a program's integers.
//!
//! The only place where a user's numbers are rounded, so that everybody who runs a program on the
//! same file gives it the same integers: `integer = round(real / scale) + zero`, halves away from
//! zero, clamped to the port's range.

use crate::array::{Array, Data};
use crate::program::{Input, Output, Shape};
use crate::tensor::{Tensor, TensorError};

/// Why an array cannot be given to a port.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PortError {
    /// Another shape.
    #[error("{port:?} takes {expected:?}, got {found:?}")]
    Shape {
        /// The port's name.
        port: String,
        /// The shape it takes.
        expected: Vec<u32>,
        /// The shape given.
        found: Vec<usize>,
    },
    /// A number that is none.
    #[error("{port:?} got NaN at element {index}")]
    NotANumber {
        /// The port's name.
        port: String,
        /// Which element.
        index: usize,
    },
    /// A whole number that the port cannot take.
    #[error("{port:?} takes whole numbers")]
    Elements {
        /// The port's name.
        port: String,
        /// What is wrong with them.
        source: TensorError,
    },
    /// Real numbers where whole ones are needed.
    #[error("{port:?} takes whole numbers, element {index} is {found}")]
    Fraction {
        /// The port's name.
        port: String,
        /// Which element.
        index: usize,
        /// What it is.
        found: f32,
    },
}

impl Input {
    /// The integers of an array of this input's shape; axes of one place may be missing, and a flat
    /// run of as many numbers will do.
    pub fn encode(&self, array: &Array) -> Result<Tensor, PortError> {
        let port = || self.label.as_str().to_owned();
        if !fits(&self.shape, array.shape()) {
            let (expected, found) = (self.shape.as_slice().to_vec(), array.shape().to_vec());
            return Err(PortError::Shape { port: port(), expected, found });
        }
        let numbers = match (&self.scaling, array.data()) {
            (Some(scaling), _) => {
                let reals = array.to_floats();
                if let Some(index) = reals.iter().position(|real| real.is_nan()) {
                    return Err(PortError::NotANumber { port: port(), index });
                }
                let (lo, hi) = (f64::from(self.spec.lo), f64::from(self.spec.hi));
                let zero = f64::from(scaling.zero);
                let encode = |real: &f32| {
                    ((f64::from(*real) / scaling.scale).round() + zero).clamp(lo, hi) as i64
                };
                reals.iter().map(encode).collect()
            }
            (None, Data::Int(numbers)) => numbers.clone(),
            (None, Data::Float(reals)) => {
                let fraction = reals.iter().position(|real| real.fract() != 0.0);
                if let Some(index) = fraction {
                    let found = reals.get(index).copied().unwrap_or(f32::NAN);
                    return Err(PortError::Fraction { port: port(), index, found });
                }
                reals.iter().map(|real| *real as i64).collect()
            }
        };
        Tensor::new(&self.spec, &numbers)
            .map_err(|source| PortError::Elements { port: port(), source })
    }
}

impl Output {
    /// The numbers that the integers of this output stand for.
    #[must_use]
    pub fn decode(&self, tensor: &Tensor) -> Array {
        let numbers = tensor.to_numbers();
        let data = match &self.scaling {
            None => Data::Int(numbers),
            Some(scaling) => {
                let real = |number: &i64| {
                    ((*number - i64::from(scaling.zero)) as f64 * scaling.scale) as f32
                };
                Data::Float(numbers.iter().map(real).collect())
            }
        };
        let shape = self.shape.as_slice().iter().map(|side| *side as usize).collect();
        Array::new(shape, data).unwrap_or_else(|_| unreachable!("a program's shapes are checked"))
    }
}

fn wide(sides: &[usize]) -> Vec<usize> {
    sides.iter().copied().filter(|side| *side != 1).collect()
}

/// Whether an array's shape is a port's, apart from axes of one place, or a flat run of as many.
fn fits(shape: &Shape, found: &[usize]) -> bool {
    let own: Vec<usize> = shape.as_slice().iter().map(|side| *side as usize).collect();
    wide(&own) == wide(found) || found == [own.iter().product::<usize>()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Label, Scaling, Spec, ValueId};

    fn input(scaling: Option<Scaling>) -> Input {
        let shape = Shape::new(vec![1, 2, 2]).expect("is short");
        let spec = Spec { len: 4, lo: -128, hi: 127 };
        Input { label: Label::lossy("x"), shape, spec, scaling }
    }

    fn array(shape: &[usize], reals: &[f32]) -> Array {
        Array::new(shape.to_vec(), Data::Float(reals.to_vec())).expect("fits")
    }

    #[test]
    fn reals_are_rounded_away_from_zero_and_clamped() {
        let input = input(Some(Scaling { scale: 0.5, zero: 1 }));
        let given = array(&[2, 2], &[0.25, -0.25, 1_000.0, f32::NEG_INFINITY]);
        assert_eq!(input.encode(&given), Ok(Tensor::I8(vec![2, 0, 127, -128])));
    }

    #[test]
    fn shape_may_lack_single_axes_or_be_flat_and_nothing_else() {
        let input = input(Some(Scaling { scale: 1.0, zero: 0 }));
        for shape in [&[1, 2, 2][..], &[2, 2], &[2, 1, 2], &[4]] {
            assert!(input.encode(&array(shape, &[0.0; 4])).is_ok(), "{shape:?}");
        }
        for shape in [&[1, 4][..], &[4, 1, 1]] {
            let refused = input.encode(&array(shape, &[0.0; 4]));
            assert!(matches!(refused, Err(PortError::Shape { .. })), "{shape:?}: {refused:?}");
        }
    }

    #[test]
    fn what_is_no_number_of_the_port_is_refused_with_its_place() {
        let scaled = input(Some(Scaling { scale: 1.0, zero: 0 }));
        let refused = scaled.encode(&array(&[4], &[0.0, f32::NAN, 0.0, 0.0]));
        assert!(matches!(refused, Err(PortError::NotANumber { index: 1, .. })));
        let plain = input(None);
        let refused = plain.encode(&array(&[4], &[0.0, 0.0, 0.5, 0.0]));
        assert!(matches!(refused, Err(PortError::Fraction { index: 2, .. })));
        let refused = plain.encode(&array(&[4], &[0.0, 0.0, 0.0, 200.0]));
        assert!(matches!(refused, Err(PortError::Elements { .. })));
    }

    #[test]
    fn outputs_stand_for_reals_or_for_themselves() {
        let shape = Shape::new(vec![2]).expect("is short");
        let (label, value) = (Label::lossy("y"), ValueId { number: 0 });
        let scaling = Some(Scaling { scale: 0.5, zero: 1 });
        let scaled = Output { label: label.clone(), shape: shape.clone(), value, scaling };
        let tensor = Tensor::I8(vec![3, -1]);
        assert_eq!(scaled.decode(&tensor), array(&[2], &[1.0, -1.0]));
        let plain = Output { label, shape, value, scaling: None };
        assert_eq!(plain.decode(&tensor).data(), &Data::Int(vec![3, -1]));
    }
}
