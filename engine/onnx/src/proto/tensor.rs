//! Tensors in a file: eleven element kinds in five fields become one of two.

use tg_tensor::{Array, ArrayError, Data};

use super::wire::{Budget, Reader, Writer};
use super::{ELEMENTS_MAX, NAME_BYTES_MAX, ProtoError, RANK_MAX};
use crate::dtype::{Dtype, ElementKind};

/// A tensor as it stands in the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorProto {
    /// The name. Empty for the tensor of an attribute.
    pub name: String,
    /// The sides.
    pub dims: Vec<i64>,
    /// The number of the element kind.
    pub element: i64,
    /// Elements as little-endian bytes, the usual form.
    pub raw: Option<Vec<u8>>,
    /// Elements of float tensors that are not raw.
    pub floats: Vec<f32>,
    /// Elements of tensors of small integers and half floats (their bits) that are not raw.
    pub ints32: Vec<i64>,
    /// Elements of 64-bit integer tensors that are not raw.
    pub ints64: Vec<i64>,
    /// Elements of double tensors that are not raw.
    pub doubles: Vec<f64>,
    /// Whether the elements stand in another file.
    pub external: bool,
}

/// A tensor that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TensorError {
    /// An element kind that is not understood.
    #[error("element kind {element} is not supported")]
    Element {
        /// Its number in `TensorProto.DataType`.
        element: i64,
    },
    /// The elements stand in another file.
    #[error("its elements stand in another file")]
    External,
    /// A negative side, or more elements than allowed.
    #[error("shape {dims:?} is negative or has more than {max} elements")]
    Shape {
        /// The sides found.
        dims: Vec<i64>,
        /// How many elements are allowed.
        max: usize,
    },
    /// Raw bytes that are no whole number of elements.
    #[error("{found} raw bytes are no multiple of {element_bytes}")]
    RawBytes {
        /// How many bytes there are.
        found: usize,
        /// How many one element takes.
        element_bytes: usize,
    },
    /// Not as many elements as the shape says.
    #[error(transparent)]
    Count(#[from] ArrayError),
    /// An element that is not a number.
    #[error("element {index} is not a number")]
    NotANumber {
        /// Its position in row-major order.
        index: usize,
    },
    /// An integer that does not fit its kind.
    #[error("element {index} is {found}, which does not fit {element:?}")]
    Range {
        /// Its position in row-major order.
        index: usize,
        /// The integer.
        found: i64,
        /// The kind it must fit.
        element: ElementKind,
    },
}

impl TensorProto {
    pub(super) fn read(mut reader: Reader<'_>, budget: &Budget) -> Result<Self, ProtoError> {
        let mut tensor = Self::default();
        while let Some(field) = reader.field()? {
            match field.number {
                1 => field.ints_into(&mut tensor.dims, RANK_MAX)?,
                2 => tensor.element = field.int()?,
                4 => field.floats_into(&mut tensor.floats, ELEMENTS_MAX)?,
                5 => field.ints_into(&mut tensor.ints32, ELEMENTS_MAX)?,
                7 => field.ints_into(&mut tensor.ints64, ELEMENTS_MAX)?,
                8 => tensor.name = field.text(budget, NAME_BYTES_MAX)?,
                9 => tensor.raw = Some(field.bytes()?.to_vec()),
                10 => field.doubles_into(&mut tensor.doubles, ELEMENTS_MAX)?,
                13 => tensor.external = true,
                14 => tensor.external |= field.int()? == 1,
                _ => {}
            }
        }
        Ok(tensor)
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        writer.ints(1, &self.dims);
        writer.int(2, self.element);
        if !self.floats.is_empty() {
            writer.packed_floats(4, &self.floats);
        }
        if !self.ints32.is_empty() {
            writer.packed_ints(5, &self.ints32);
        }
        if !self.ints64.is_empty() {
            writer.packed_ints(7, &self.ints64);
        }
        if !self.name.is_empty() {
            writer.bytes(8, self.name.as_bytes());
        }
        if let Some(raw) = &self.raw {
            writer.bytes(9, raw);
        }
        if !self.doubles.is_empty() {
            writer.packed_doubles(10, &self.doubles);
        }
        if self.external {
            writer.int(14, 1);
        }
    }

    /// Writes an array down. Integers must fit the kind that `dtype` is written as.
    pub fn from_array(name: &str, dtype: Dtype, array: &Array) -> Result<Self, TensorError> {
        let mut dims = Vec::with_capacity(array.shape().len());
        for side in array.shape() {
            let max = ELEMENTS_MAX;
            dims.push(i64::try_from(*side).map_err(|_| TensorError::Shape { dims: vec![], max })?);
        }
        let element = ElementKind::from(dtype);
        let raw = match array.data() {
            Data::Float(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Data::Int(values) => raw_ints(values, element)?,
        };
        let name = name.to_owned();
        Ok(Self { name, dims, element: element.number(), raw: Some(raw), ..Self::default() })
    }

    /// The element kind.
    pub fn kind(&self) -> Result<ElementKind, TensorError> {
        let element = self.element;
        ElementKind::from_number(element).ok_or(TensorError::Element { element })
    }

    /// The tensor as an array of at most `elements_max` elements.
    ///
    /// What is not a number is refused. Infinities become the largest finite floats: exporters
    /// write them into attention masks, where they mean "as small as can be", and every finite
    /// stand-in gives the same softmax without ever turning into a NaN.
    pub fn to_array(&self, elements_max: usize) -> Result<Array, TensorError> {
        let max = elements_max.min(ELEMENTS_MAX);
        let shape = self.shape(max)?;
        if self.external {
            return Err(TensorError::External);
        }
        let kind = self.kind()?;
        let data = if kind.dtype().is_float() {
            Data::Float(finite(self.float_elements(kind)?)?)
        } else {
            Data::Int(self.int_elements(kind)?)
        };
        Ok(Array::new(shape, data)?)
    }

    fn shape(&self, max: usize) -> Result<Vec<usize>, TensorError> {
        let wrong = || TensorError::Shape { dims: self.dims.clone(), max };
        let mut shape = Vec::with_capacity(self.dims.len());
        let mut elements = 1_usize;
        for side in &self.dims {
            let side = usize::try_from(*side).map_err(|_| wrong())?;
            // A zero must not hide a side that overflows, so zeros count as one here.
            elements = elements.checked_mul(side.max(1)).ok_or_else(wrong)?;
            shape.push(side);
        }
        if elements > max { Err(wrong()) } else { Ok(shape) }
    }

    fn float_elements(&self, kind: ElementKind) -> Result<Vec<f32>, TensorError> {
        let Some(raw) = &self.raw else {
            return Ok(match kind {
                ElementKind::Double => self.doubles.iter().map(|value| *value as f32).collect(),
                ElementKind::Float16 => self.ints32.iter().map(|v| half(*v as u16)).collect(),
                ElementKind::Bfloat16 => self.ints32.iter().map(|v| brain(*v as u16)).collect(),
                ElementKind::Float
                | ElementKind::Uint8
                | ElementKind::Int8
                | ElementKind::Uint16
                | ElementKind::Int16
                | ElementKind::Int32
                | ElementKind::Int64
                | ElementKind::Bool => self.floats.clone(),
            });
        };
        match kind {
            ElementKind::Double => chunks(raw, |bytes| f64::from_le_bytes(bytes) as f32),
            ElementKind::Float16 => chunks(raw, |bytes| half(u16::from_le_bytes(bytes))),
            ElementKind::Bfloat16 => chunks(raw, |bytes| brain(u16::from_le_bytes(bytes))),
            ElementKind::Float
            | ElementKind::Uint8
            | ElementKind::Int8
            | ElementKind::Uint16
            | ElementKind::Int16
            | ElementKind::Int32
            | ElementKind::Int64
            | ElementKind::Bool => chunks(raw, f32::from_le_bytes),
        }
    }

    fn int_elements(&self, kind: ElementKind) -> Result<Vec<i64>, TensorError> {
        let Some(raw) = &self.raw else {
            let values = if kind == ElementKind::Int64 { &self.ints64 } else { &self.ints32 };
            return fitting(values, kind);
        };
        match kind {
            ElementKind::Uint8 => Ok(raw.iter().map(|byte| i64::from(*byte)).collect()),
            ElementKind::Int8 => chunks(raw, |bytes| i64::from(i8::from_le_bytes(bytes))),
            ElementKind::Bool => Ok(raw.iter().map(|byte| i64::from(*byte != 0)).collect()),
            ElementKind::Uint16 => chunks(raw, |bytes| i64::from(u16::from_le_bytes(bytes))),
            ElementKind::Int16 => chunks(raw, |bytes| i64::from(i16::from_le_bytes(bytes))),
            ElementKind::Int32 => chunks(raw, |bytes| i64::from(i32::from_le_bytes(bytes))),
            ElementKind::Int64
            | ElementKind::Float
            | ElementKind::Float16
            | ElementKind::Double
            | ElementKind::Bfloat16 => chunks(raw, i64::from_le_bytes),
        }
    }
}

/// Replaces infinities and refuses what is not a number, see [`TensorProto::to_array`].
pub(crate) fn finite(mut values: Vec<f32>) -> Result<Vec<f32>, TensorError> {
    for (index, value) in values.iter_mut().enumerate() {
        if value.is_nan() {
            return Err(TensorError::NotANumber { index });
        }
        *value = value.clamp(f32::MIN, f32::MAX);
    }
    Ok(values)
}

fn chunks<const N: usize, T>(
    raw: &[u8],
    convert: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>, TensorError> {
    let (whole, rest) = raw.as_chunks::<N>();
    if rest.is_empty() {
        Ok(whole.iter().map(|bytes| convert(*bytes)).collect())
    } else {
        Err(TensorError::RawBytes { found: raw.len(), element_bytes: N })
    }
}

/// Checks integers of a typed field against their kind. Truth values become 0 and 1.
fn fitting(values: &[i64], element: ElementKind) -> Result<Vec<i64>, TensorError> {
    let range = match element {
        ElementKind::Bool => return Ok(values.iter().map(|v| i64::from(*v != 0)).collect()),
        ElementKind::Uint8 => 0..=i64::from(u8::MAX),
        ElementKind::Int8 => i64::from(i8::MIN)..=i64::from(i8::MAX),
        ElementKind::Uint16 => 0..=i64::from(u16::MAX),
        ElementKind::Int16 => i64::from(i16::MIN)..=i64::from(i16::MAX),
        ElementKind::Int32 => i64::from(i32::MIN)..=i64::from(i32::MAX),
        ElementKind::Int64
        | ElementKind::Float
        | ElementKind::Float16
        | ElementKind::Double
        | ElementKind::Bfloat16 => i64::MIN..=i64::MAX,
    };
    match values.iter().enumerate().find(|(_, value)| !range.contains(value)) {
        Some((index, found)) => Err(TensorError::Range { index, found: *found, element }),
        None => Ok(values.to_vec()),
    }
}

/// Integers as the raw bytes of one of the kinds that [`ElementKind::from`] gives.
fn raw_ints(values: &[i64], element: ElementKind) -> Result<Vec<u8>, TensorError> {
    let values = fitting(values, element)?;
    let width = element.bytes();
    // Two's complement: the low bytes of a fitting value are its narrow form.
    let narrow = |value: &i64| value.to_le_bytes().into_iter().take(width);
    Ok(values.iter().flat_map(narrow).collect())
}

/// A 16-bit float (IEEE 754 binary16) by its bits.
fn half(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let mantissa = u32::from(bits) & 0x3ff;
    match exponent {
        0 => {
            // Subnormal: the mantissa counts steps of 2^-24, which f32 holds exactly.
            let magnitude = mantissa as f32 / 16_777_216.0;
            if sign == 0 { magnitude } else { -magnitude }
        }
        31 => f32::from_bits(sign | 0x7f80_0000 | mantissa << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | mantissa << 13),
    }
}

/// A 16-bit float with the exponent of an `f32`, by its bits.
fn brain(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> TensorProto {
        TensorProto {
            dims: vec![values.len() as i64],
            element: 1,
            floats: values.to_vec(),
            ..TensorProto::default()
        }
    }

    #[test]
    fn half_floats_are_converted_exactly() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x8400, -6.103_515_6e-5),
            (0x0000, 0.0),
        ] {
            assert_eq!(half(bits), value, "{bits:#06x}");
        }
        assert!(half(0x7e00).is_nan());
        assert_eq!(half(0xfc00), f32::NEG_INFINITY);
        assert_eq!(brain(0x3f80), 1.0);
    }

    #[test]
    fn array_written_and_read_is_the_same() {
        let cases = [
            (Dtype::Float, Data::Float(vec![1.5, -2.0])),
            (Dtype::Int, Data::Int(vec![i64::MIN, i64::MAX])),
            (Dtype::Bool, Data::Int(vec![0, 1])),
            (Dtype::Int8, Data::Int(vec![-128, 127])),
            (Dtype::Uint8, Data::Int(vec![0, 255])),
        ];
        for (dtype, data) in cases {
            let array = Array::new(vec![2, 1], data).unwrap();
            let tensor = TensorProto::from_array("t", dtype, &array).unwrap();
            assert_eq!(tensor.kind().unwrap().dtype(), dtype);
            assert_eq!(tensor.to_array(2), Ok(array));
        }
        let wide = Array::new(vec![1], Data::Int(vec![256])).unwrap();
        let refused = TensorProto::from_array("t", Dtype::Uint8, &wide);
        assert!(matches!(refused, Err(TensorError::Range { index: 0, found: 256, .. })));
    }

    #[test]
    fn typed_fields_are_read_by_kind() {
        let tensor = |element: ElementKind, ints32: Vec<i64>| TensorProto {
            dims: vec![ints32.len() as i64],
            element: element.number(),
            ints32,
            ..TensorProto::default()
        };
        let read = |tensor: TensorProto| tensor.to_array(8).map(|array| array.data().clone());
        assert_eq!(read(tensor(ElementKind::Bool, vec![7, 0])), Ok(Data::Int(vec![1, 0])));
        assert_eq!(read(tensor(ElementKind::Float16, vec![0x3c00])), Ok(Data::Float(vec![1.0])));
        assert!(read(tensor(ElementKind::Int8, vec![128])).is_err());
        let double =
            TensorProto { dims: vec![], element: 11, doubles: vec![0.5], ..TensorProto::default() };
        assert_eq!(read(double), Ok(Data::Float(vec![0.5])));
    }

    #[test]
    fn infinite_weights_become_finite_and_nan_is_refused() {
        let array = floats(&[f32::NEG_INFINITY, f32::INFINITY]).to_array(2).unwrap();
        assert_eq!(array.data(), &Data::Float(vec![f32::MIN, f32::MAX]));
        let refused = floats(&[0.0, f32::NAN]).to_array(2);
        assert_eq!(refused, Err(TensorError::NotANumber { index: 1 }));
    }

    #[test]
    fn shapes_out_of_bounds_are_refused() {
        for dims in [vec![-1], vec![3], vec![1 << 40, 1 << 40], vec![0, i64::MAX, i64::MAX]] {
            let tensor = TensorProto { dims: dims.clone(), element: 1, ..TensorProto::default() };
            assert_eq!(tensor.to_array(2), Err(TensorError::Shape { dims, max: 2 }));
        }
        let external = TensorProto { element: 1, external: true, ..TensorProto::default() };
        assert_eq!(external.to_array(2), Err(TensorError::External));
        let odd = TensorProto {
            dims: vec![1],
            element: 1,
            raw: Some(vec![0; 3]),
            ..TensorProto::default()
        };
        assert!(matches!(odd.to_array(2), Err(TensorError::RawBytes { found: 3, .. })));
    }
}
