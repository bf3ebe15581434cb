//! Arrays by name, and their one byte form: what a run reads and gives.
//!
//! The form is that of `tg_types::codec` around the numbers: a format byte, a count, and for each
//! array its name, a byte for the kind of its elements, its sides as lengths, and its elements in
//! row-major order, little-endian and without padding. Names ascend strictly, so a set of arrays
//! has one form. No length is believed before that many bytes are seen to be there.

use std::collections::BTreeMap;
use std::fmt;

use tg_types::codec::{Decode, DecodeError, Encode, Reader, encode_byte_string, encode_length};

/// Most arrays of one set. Models have a handful of inputs; decoders with caches have some hundred.
pub const ARRAYS_MAX: usize = 1024;

/// Longest name, so that it fits a line and every file of arrays.
pub const NAME_BYTES_MAX: usize = 255;

/// Most sides of an array. Nothing published goes beyond six.
pub const RANK_MAX: usize = 16;

/// Most elements of one array.
pub const ELEMENTS_MAX: usize = 1 << 28;

/// Most bytes of all numbers of a set: what the longest array of the widest elements takes.
pub const BYTES_MAX: usize = 1 << 30;

/// The byte that opens a set of arrays.
const FORMAT: u8 = 1;

/// What the elements of an array are. These are the runtime's own: 64-bit integers and truth values
/// of a model are `I32`, doubles and half floats are `F32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// Single-precision floats.
    F32,
    /// 32-bit integers.
    I32,
    /// Signed bytes.
    I8,
    /// Bytes.
    U8,
}

impl Element {
    const ALL: [Self; 4] = [Self::F32, Self::I32, Self::I8, Self::U8];

    /// Bytes of one element.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::I8 | Self::U8 => 1,
        }
    }

    const fn tag(self) -> u8 {
        match self {
            Self::F32 => 1,
            Self::I32 => 2,
            Self::I8 => 3,
            Self::U8 => 4,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::I32 => "i32",
            Self::I8 => "i8",
            Self::U8 => "u8",
        })
    }
}

/// The elements of an array, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Single-precision floats.
    F32(Vec<f32>),
    /// 32-bit integers.
    I32(Vec<i32>),
    /// Signed bytes.
    I8(Vec<i8>),
    /// Bytes.
    U8(Vec<u8>),
}

impl Data {
    /// What the elements are.
    #[must_use]
    pub const fn element(&self) -> Element {
        match self {
            Self::F32(_) => Element::F32,
            Self::I32(_) => Element::I32,
            Self::I8(_) => Element::I8,
            Self::U8(_) => Element::U8,
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::I8(values) => values.len(),
            Self::U8(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::F32(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::I32(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::I8(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::U8(values) => out.extend_from_slice(values),
        }
    }

    /// The elements in bytes that are a whole number of them.
    fn of_bytes(element: Element, bytes: &[u8]) -> Self {
        let (fours, _none) = bytes.as_chunks::<4>();
        match element {
            Element::F32 => Self::F32(fours.iter().map(|four| f32::from_le_bytes(*four)).collect()),
            Element::I32 => Self::I32(fours.iter().map(|four| i32::from_le_bytes(*four)).collect()),
            Element::I8 => Self::I8(bytes.iter().map(|byte| byte.cast_signed()).collect()),
            Element::U8 => Self::U8(bytes.to_vec()),
        }
    }
}

/// Why numbers make no array, or an array does not belong into a set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// Too many sides.
    #[error("{found} sides, at most {RANK_MAX}")]
    Rank {
        /// How many.
        found: usize,
    },
    /// The numbers do not fill the shape, or are too many.
    #[error("{found} numbers for the shape {shape:?}, at most {ELEMENTS_MAX}")]
    Count {
        /// The shape.
        shape: Vec<usize>,
        /// How many numbers there are.
        found: usize,
    },
    /// Not a name of an array.
    #[error("the name {name:?}, expected 1 to {NAME_BYTES_MAX} bytes without control characters")]
    Name {
        /// The name, cut.
        name: String,
    },
    /// A name that is taken.
    #[error("two arrays are named {name:?}")]
    Twice {
        /// The name.
        name: String,
    },
    /// Too many arrays.
    #[error("more than {ARRAYS_MAX} arrays")]
    TooMany,
    /// Too many bytes in all.
    #[error("more than {BYTES_MAX} bytes of numbers")]
    TooLarge,
}

/// Numbers with a shape. The product of the sides is how many there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    shape: Vec<usize>,
    data: Data,
}

impl Array {
    /// Puts numbers into a shape.
    ///
    /// # Errors
    /// If they do not fill it, or a bound is broken.
    pub fn new(shape: Vec<usize>, data: Data) -> Result<Self, ArrayError> {
        if shape.len() > RANK_MAX {
            return Err(ArrayError::Rank { found: shape.len() });
        }
        let found = data.len();
        // Sides beside an empty one are bounded too, or they would have no byte form.
        let is_bounded = shape.iter().all(|side| *side <= ELEMENTS_MAX);
        if !is_bounded || elements(&shape) != Some(found) || found > ELEMENTS_MAX {
            return Err(ArrayError::Count { shape, found });
        }
        Ok(Self { shape, data })
    }

    /// The sides, slowest first; none for a single number.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The numbers.
    #[must_use]
    pub const fn data(&self) -> &Data {
        &self.data
    }

    /// Bytes of the numbers. Cannot overflow: their count is bounded.
    fn bytes(&self) -> usize {
        self.data.len() * self.data.element().size()
    }
}

/// How many elements a shape has.
pub(crate) fn elements(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_usize, |product, side| product.checked_mul(*side))
}

/// Whether text may name an array.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains(char::is_control)
}

/// Arrays by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrays(BTreeMap<String, Array>);

impl Arrays {
    /// No arrays.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds an array.
    ///
    /// # Errors
    /// If its name is none or taken, or a bound would be broken; the set is as before then.
    pub fn insert(&mut self, name: &str, array: Array) -> Result<(), ArrayError> {
        if !is_name(name) {
            return Err(ArrayError::Name { name: name.chars().take(NAME_BYTES_MAX).collect() });
        }
        if self.0.contains_key(name) {
            return Err(ArrayError::Twice { name: name.to_owned() });
        }
        if self.0.len() >= ARRAYS_MAX {
            return Err(ArrayError::TooMany);
        }
        let before: usize = self.0.values().map(Array::bytes).sum(); // at most BYTES_MAX
        if before.saturating_add(array.bytes()) > BYTES_MAX {
            return Err(ArrayError::TooLarge);
        }
        self.0.insert(name.to_owned(), array);
        Ok(())
    }

    /// The array of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Array> {
        self.0.get(name)
    }

    /// All arrays, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Array)> {
        self.0.iter().map(|(name, array)| (name.as_str(), array))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Encode for Arrays {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        encode_length(self.0.len(), out);
        for (name, array) in &self.0 {
            encode_byte_string(name.as_bytes(), out);
            out.push(array.data.element().tag());
            encode_length(array.shape.len(), out);
            for side in &array.shape {
                encode_length(*side, out);
            }
            array.data.encode(out);
        }
    }
}

impl Decode for Arrays {
    const BYTES_MIN: usize = 2;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.position();
        let found = reader.byte()?;
        if found != FORMAT {
            return Err(DecodeError::Version { at, found, supported: FORMAT });
        }
        let count = reader.length(0, ARRAYS_MAX)?;
        let mut arrays = Self::new();
        for _ in 0..count {
            let (name, array) = decode_one(reader)?;
            let at = reader.position();
            if arrays.0.last_key_value().is_some_and(|(last, _)| *last >= name) {
                return Err(DecodeError::Order { at, expected: "arrays by their names" });
            }
            let refused = |_| DecodeError::Range { at, expected: "set of arrays within bounds" };
            arrays.insert(&name, array).map_err(refused)?;
        }
        Ok(arrays)
    }
}

fn decode_one(reader: &mut Reader<'_>) -> Result<(String, Array), DecodeError> {
    let name = reader.byte_string(NAME_BYTES_MAX)?;
    let at = reader.position();
    let name = std::str::from_utf8(name).ok().filter(|name| is_name(name));
    let name = name.ok_or(DecodeError::Range { at, expected: "name of an array" })?.to_owned();
    let at = reader.position();
    let tag = reader.byte()?;
    let element = Element::ALL.into_iter().find(|element| element.tag() == tag);
    let found = tag.into();
    let element = element.ok_or(DecodeError::Tag { at, found, expected: "kind of elements" })?;
    let rank = reader.length(0, RANK_MAX)?;
    let mut shape = Vec::with_capacity(rank);
    for _ in 0..rank {
        shape.push(reader.length(0, ELEMENTS_MAX)?);
    }
    let at = reader.position();
    let refused = DecodeError::Range { at, expected: "shape within bounds" };
    let count = elements(&shape).filter(|count| *count <= ELEMENTS_MAX).ok_or(refused.clone())?;
    let bytes = reader.take(count.saturating_mul(element.size()))?;
    let array = Array::new(shape, Data::of_bytes(element, bytes)).map_err(|_| refused)?;
    Ok((name, array))
}

#[cfg(test)]
mod tests {
    use super::{
        ARRAYS_MAX, Array, ArrayError, Arrays, Data, ELEMENTS_MAX, NAME_BYTES_MAX, RANK_MAX,
    };
    use arbtest::arbitrary::{self, Unstructured};
    use tg_types::codec::{Decode as _, DecodeError, Encode as _};

    fn drawn(u: &mut Unstructured<'_>) -> arbitrary::Result<Arrays> {
        let mut arrays = Arrays::new();
        for _ in 0..u.int_in_range(0..=4)? {
            let mut shape = Vec::new();
            for _ in 0..u.int_in_range(0..=3)? {
                shape.push(u.int_in_range(0..=4)?);
            }
            let count: usize = shape.iter().product();
            let data = match u.int_in_range(0..=3)? {
                0 => Data::F32((0..count).map(|_| u.arbitrary()).collect::<Result<_, _>>()?),
                1 => Data::I32((0..count).map(|_| u.arbitrary()).collect::<Result<_, _>>()?),
                2 => Data::I8((0..count).map(|_| u.arbitrary()).collect::<Result<_, _>>()?),
                _ => Data::U8((0..count).map(|_| u.arbitrary()).collect::<Result<_, _>>()?),
            };
            let name: String = u.arbitrary()?;
            let array = Array::new(shape, data).expect("fills its shape");
            let _no_name_or_taken = arrays.insert(&name, array);
        }
        Ok(arrays)
    }

    #[test]
    fn prop_arrays_are_read_back() {
        arbtest::arbtest(|u| {
            let arrays = drawn(u)?;
            let bytes = arrays.to_bytes();
            let read = Arrays::from_bytes(&bytes).expect("its own bytes");
            assert_eq!(read.to_bytes(), bytes); // not the values: NaN differs from itself
            assert_eq!(read.len(), arrays.len());
            Ok(())
        });
    }

    #[test]
    fn prop_changed_bytes_are_refused_or_mean_what_they_say() {
        arbtest::arbtest(|u| {
            let mut bytes = drawn(u)?.to_bytes();
            for _ in 0..u.int_in_range(1..=4)? {
                let at = u.choose_index(bytes.len())?;
                bytes[at] = u.arbitrary()?;
            }
            if u.arbitrary()? {
                bytes.truncate(u.int_in_range(0..=bytes.len())?);
            }
            if let Ok(arrays) = Arrays::from_bytes(&bytes) {
                assert_eq!(arrays.to_bytes(), bytes);
            }
            Ok(())
        });
    }

    #[test]
    fn prop_every_part_of_the_bytes_is_needed() {
        arbtest::arbtest(|u| {
            let mut bytes = drawn(u)?.to_bytes();
            let cut = u.int_in_range(0..=bytes.len() - 1)?;
            assert!(Arrays::from_bytes(&bytes[..cut]).is_err());
            bytes.push(0);
            let trailing = Arrays::from_bytes(&bytes);
            assert!(matches!(trailing, Err(DecodeError::Trailing { left: 1, .. })));
            Ok(())
        });
    }

    fn one() -> Array {
        Array::new(vec![1], Data::U8(vec![7])).expect("an array")
    }

    #[test]
    fn form_is_this_one() {
        let mut arrays = Arrays::new();
        let array = Array::new(vec![2, 1], Data::F32(vec![1.0, -2.5])).expect("an array");
        arrays.insert("x", array).expect("a name");
        let array = Array::new(vec![], Data::I8(vec![-1])).expect("an array");
        arrays.insert("a", array).expect("a name");
        let a = [&[1, b'a', 3, 0, 0xff][..]].concat();
        let x = [&[1, b'x', 1, 2, 2, 1, 0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0][..]].concat();
        assert_eq!(arrays.to_bytes(), [&[1, 2][..], &a, &x].concat());
        assert_eq!(Arrays::from_bytes(&arrays.to_bytes()), Ok(arrays));
        let reordered = [&[1, 2][..], &x, &a].concat();
        assert!(matches!(Arrays::from_bytes(&reordered), Err(DecodeError::Order { .. })));
        let repeated = [&[1, 2][..], &a, &a].concat();
        assert!(matches!(Arrays::from_bytes(&repeated), Err(DecodeError::Order { .. })));
    }

    #[test]
    fn forged_lengths_are_refused_before_memory_is_taken() {
        let head = [1, 1, 1, b'x', 1];
        // 2^28 floats in a file of a few bytes.
        let long = [&head[..], &[1, 0x80, 0x80, 0x80, 0x80, 0x01]].concat();
        let needed = ELEMENTS_MAX * 4;
        assert!(matches!(
            Arrays::from_bytes(&long),
            Err(DecodeError::Truncated { needed: found, .. }) if found == needed
        ));
        // Two such sides: more than there may be, and more than can be counted in a third.
        let side = [0x80, 0x80, 0x80, 0x80, 0x01];
        for rank in [2, 3] {
            let wide = [&head[..], &[rank], &side.repeat(rank.into())].concat();
            assert!(matches!(Arrays::from_bytes(&wide), Err(DecodeError::Range { .. })), "{rank}");
        }
        let sides = [&head[..], &[17], &[1; 17], &[0; 4]].concat();
        assert!(matches!(Arrays::from_bytes(&sides), Err(DecodeError::Length { max: 16, .. })));
        let many = [1, 0x81, 0x08]; // 1025 arrays
        assert!(matches!(Arrays::from_bytes(&many), Err(DecodeError::Length { .. })));
        let other = [2, 0];
        assert!(matches!(Arrays::from_bytes(&other), Err(DecodeError::Version { found: 2, .. })));
        let kind = [1, 1, 1, b'x', 9, 0];
        assert!(matches!(Arrays::from_bytes(&kind), Err(DecodeError::Tag { found: 9, .. })));
    }

    #[test]
    fn set_keeps_its_bounds_and_is_unchanged_by_a_refusal() {
        let mut arrays = Arrays::new();
        arrays.insert("x", one()).expect("the first");
        let before = arrays.clone();
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in ["", "a\nb", &long] {
            let refused = arrays.insert(name, one());
            assert!(matches!(refused, Err(ArrayError::Name { .. })), "{name:?}");
        }
        assert!(matches!(arrays.insert("x", one()), Err(ArrayError::Twice { .. })));
        assert_eq!(arrays, before);
        for number in 1..ARRAYS_MAX {
            arrays.insert(&number.to_string(), one()).expect("still room");
        }
        assert_eq!(arrays.insert("more", one()), Err(ArrayError::TooMany));
    }

    #[test]
    fn numbers_that_do_not_fill_their_shape_are_no_array() {
        let check = |shape: Vec<usize>, count| Array::new(shape, Data::U8(vec![0; count]));
        assert!(check(vec![], 1).is_ok() && check(vec![0, 5], 0).is_ok());
        for (shape, count) in [(vec![], 0), (vec![2, 3], 5), (vec![usize::MAX, 2], 0)] {
            let refused = check(shape, count);
            assert!(matches!(refused, Err(ArrayError::Count { .. })), "{refused:?}");
        }
        assert!(matches!(check(vec![0, ELEMENTS_MAX + 1], 0), Err(ArrayError::Count { .. })));
        assert_eq!(check(vec![1; RANK_MAX + 1], 1), Err(ArrayError::Rank { found: 17 }));
    }
}
