//! Elements in place: borrowed runs of the three widths, and the conversions between them.

use crate::kernels::Narrow;
use crate::program::{Spec, Width};
use crate::tensor::Tensor;
use std::ops::Range;

/// Elements that are looked at together.
const BLOCK: usize = 4_096;

/// The elements of one value, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements<'a> {
    /// One byte each.
    I8(&'a [i8]),
    /// Two bytes each.
    I16(&'a [i16]),
    /// Four bytes each.
    I32(&'a [i32]),
}

/// Does the same with the elements, whatever their width.
macro_rules! with_elements {
    ($elements:expr, $name:ident => $then:expr) => {
        match $elements {
            $crate::run::elements::Elements::I8($name) => $then,
            $crate::run::elements::Elements::I16($name) => $then,
            $crate::run::elements::Elements::I32($name) => $then,
        }
    };
}

/// Does the same with a place for elements, whatever their width.
macro_rules! with_target {
    ($target:expr, $name:ident => $then:expr) => {
        match $target {
            $crate::run::elements::Target::I8($name) => $then,
            $crate::run::elements::Target::I16($name) => $then,
            $crate::run::elements::Target::I32($name) => $then,
        }
    };
}

pub(super) use {with_elements, with_target};

impl<'a> Elements<'a> {
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
    pub const fn len(&self) -> usize {
        with_elements!(self, elements => elements.len())
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One element.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<i32> {
        match self {
            Self::I8(elements) => elements.get(index).map(|element| (*element).into()),
            Self::I16(elements) => elements.get(index).map(|element| (*element).into()),
            Self::I32(elements) => elements.get(index).copied(),
        }
    }

    /// A copy that stays.
    #[must_use]
    pub fn to_tensor(&self) -> Tensor {
        match self {
            Self::I8(elements) => Tensor::I8(elements.to_vec()),
            Self::I16(elements) => Tensor::I16(elements.to_vec()),
            Self::I32(elements) => Tensor::I32(elements.to_vec()),
        }
    }

    /// Appends the big-endian bytes of the elements in a range; the part of the range that exists.
    pub fn append_bytes(&self, range: Range<usize>, out: &mut Vec<u8>) {
        let end = range.end.min(self.len());
        let range = range.start.min(end)..end;
        with_elements!(self, elements => {
            let part = elements.get(range).unwrap_or_default();
            out.extend(part.iter().flat_map(|element| element.to_be_bytes()));
        });
    }

    /// Whether all elements lie in the range of a spec of this width.
    pub(super) fn is_within(&self, spec: &Spec) -> bool {
        with_elements!(self, elements => is_within(elements, spec))
    }

    /// `len` elements from `start` on.
    pub(super) fn part(&self, start: usize, len: usize) -> Self {
        match self {
            Self::I8(elements) => Self::I8(&elements[start..start + len]),
            Self::I16(elements) => Self::I16(&elements[start..start + len]),
            Self::I32(elements) => Self::I32(&elements[start..start + len]),
        }
    }

    /// The first elements of a tensor that may be longer.
    pub(super) fn first(tensor: &'a Tensor, len: usize) -> Self {
        match tensor {
            Tensor::I8(elements) => Self::I8(&elements[..len]),
            Tensor::I16(elements) => Self::I16(&elements[..len]),
            Tensor::I32(elements) => Self::I32(&elements[..len]),
        }
    }
}

impl<'a> From<&'a Tensor> for Elements<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self::first(tensor, tensor.len())
    }
}

/// Where elements are written to.
#[derive(Debug)]
pub(crate) enum Target<'a> {
    /// One byte each.
    I8(&'a mut [i8]),
    /// Two bytes each.
    I16(&'a mut [i16]),
    /// Four bytes each.
    I32(&'a mut [i32]),
}

impl<'a> Target<'a> {
    /// The first places of a tensor that may be longer.
    pub(super) fn first(tensor: &'a mut Tensor, len: usize) -> Self {
        match tensor {
            Tensor::I8(elements) => Self::I8(&mut elements[..len]),
            Tensor::I16(elements) => Self::I16(&mut elements[..len]),
            Tensor::I32(elements) => Self::I32(&mut elements[..len]),
        }
    }
}

/// What elements can be.
pub(super) trait Number: Narrow + Into<i32> + Ord + Send + Sync {
    /// The number of a place along a side; sides have at most 2^28 places.
    fn of_place(place: usize) -> Self {
        Self::narrow(place as i32)
    }
}
impl Number for i8 {}
impl Number for i16 {}
impl Number for i32 {}

/// Looks at all elements of a block, many at a time, which is faster than stopping at the first
/// that lies outside.
fn is_within<S: Number>(elements: &[S], spec: &Spec) -> bool {
    let (lo, hi) = (S::narrow(spec.lo), S::narrow(spec.hi));
    let outside = |found: bool, x: &S| found | (*x < lo) | (*x > hi);
    elements.chunks(BLOCK).all(|block| !block.iter().fold(false, outside))
}

/// Copies between widths. Every number that is read fits the width that is written.
#[inline]
pub(super) fn convert<S: Number, T: Number>(from: &[S], to: &mut [T]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = T::narrow((*from).into());
    }
}

/// Copies to factors of 16 bits. Every number fits once the offset is added.
#[inline]
pub(super) fn to_factors<S: Number>(from: &[S], offset: i32, to: &mut [i16]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = i16::narrow((*from).into().wrapping_add(offset));
    }
}
