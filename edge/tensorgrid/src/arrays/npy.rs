//! `.npy`, versions 1.0, 2.0 and 3.0: one array of numpy (numpy.lib.format).
//!
//! The file is a magic word, a version, the header's length, the header (a Python dictionary with
//! the kind of number, the order and the shape) and the numbers. Nothing may follow them.

use super::{FILE_BYTES_MAX, Fault, Limit, ParseError, RenderError, SIDES_MAX, cursor::Cursor};
use tg_tensor::{Array, Data};

/// What a file begins with.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Longest header, as in numpy's own reader. Longer ones describe records, not numbers.
pub(super) const HEADER_BYTES_MAX: usize = 10_000;

/// The kinds of numbers that are read.
pub(super) const KINDS: &str = "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1";

/// Longest kind that is repeated in a message.
const KIND_BYTES_SHOWN: usize = 16;

/// Magic, header and padding fill a multiple of this, as numpy does for memory maps.
const ALIGNMENT: usize = 64;

/// How one number is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    F2,
    F4,
    F8,
    I1,
    I2,
    I4,
    I8,
    U1,
    U2,
    U4,
    U8,
    B1,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        match name {
            "f2" => Some(Self::F2),
            "f4" => Some(Self::F4),
            "f8" => Some(Self::F8),
            "i1" => Some(Self::I1),
            "i2" => Some(Self::I2),
            "i4" => Some(Self::I4),
            "i8" => Some(Self::I8),
            "u1" => Some(Self::U1),
            "u2" => Some(Self::U2),
            "u4" => Some(Self::U4),
            "u8" => Some(Self::U8),
            "b1" => Some(Self::B1),
            _ => None,
        }
    }

    const fn bytes(self) -> usize {
        match self {
            Self::I1 | Self::U1 | Self::B1 => 1,
            Self::F2 | Self::I2 | Self::U2 => 2,
            Self::F4 | Self::I4 | Self::U4 => 4,
            Self::F8 | Self::I8 | Self::U8 => 8,
        }
    }
}

/// Which byte of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endian {
    Little,
    Big,
}

/// What the header says.
struct Header {
    kind: Kind,
    endian: Endian,
    fortran_order: bool,
    shape: Vec<usize>,
}

/// The numbers as they are in the file.
struct Body<'a> {
    bytes: &'a [u8],
    at: usize,
    header: Header,
}

/// The array in the bytes of a file, if it has at most so many numbers.
pub(super) fn parse(bytes: &[u8], elements_max: usize) -> Result<Array, ParseError> {
    let mut cursor = Cursor::new(bytes, 0);
    cursor.expect(MAGIC, "the magic word \\x93NUMPY of an .npy file")?;
    let header = read_header(&mut cursor)?;
    let at = cursor.at();
    let count = header.shape.iter().try_fold(1_usize, |product, side| product.checked_mul(*side));
    let Some(count) = count.filter(|count| *count <= elements_max) else {
        return Err(Fault::TooMany(Limit::Elements).at(at));
    };
    let (bytes, wanted) = (cursor.rest(), count.saturating_mul(header.kind.bytes()));
    if bytes.len() != wanted {
        let (shape, found) = (header.shape, bytes.len());
        return Err(Fault::Bytes { shape, wanted, found }.at(at));
    }
    let body = Body { bytes, at, header };
    let data = body.data()?;
    Ok(Array::new(body.header.shape, data).expect("the bytes were counted"))
}

/// The bytes of a file: version 1.0, row-major, `<f4` or `<i8`.
pub(super) fn render(array: &Array) -> Result<Vec<u8>, RenderError> {
    let (kind, bytes) = match array.data() {
        Data::Float(values) => ("<f4", size_of_val(values.as_slice())),
        Data::Int(values) => ("<i8", size_of_val(values.as_slice())),
    };
    let sides: Vec<String> = array.shape().iter().map(ToString::to_string).collect();
    let comma = if sides.len() == 1 { "," } else { "" }; // without it, (3) is a number in Python
    let sides = sides.join(", ");
    let header =
        format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({sides}{comma}), }}");

    let prefix = MAGIC.len() + 4; // version and length
    let numbers_at = (prefix + header.len() + 1).next_multiple_of(ALIGNMENT);
    if numbers_at.saturating_add(bytes) > FILE_BYTES_MAX {
        return Err(RenderError::TooMany(Limit::Bytes));
    }
    let padded = numbers_at - prefix;
    let length = u16::try_from(padded).expect("32 sides of 20 digits are below 64 KiB");

    let mut file = Vec::with_capacity(numbers_at + bytes);
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&[1, 0]);
    file.extend_from_slice(&length.to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    file.resize(numbers_at - 1, b' ');
    file.push(b'\n');
    match array.data() {
        Data::Float(values) => file.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        Data::Int(values) => file.extend(values.iter().flat_map(|value| value.to_le_bytes())),
    }
    Ok(file)
}

fn read_header(cursor: &mut Cursor<'_>) -> Result<Header, ParseError> {
    let at = cursor.at();
    let wanted = "the length of the header";
    let length = match cursor.take(2, "the version of the format")? {
        [1, 0] => usize::from(cursor.u16(wanted)?),
        [2 | 3, 0] => usize::try_from(cursor.u32(wanted)?).unwrap_or(usize::MAX),
        _ => return Err(Fault::Expected("version 1.0, 2.0 or 3.0").at(at)),
    };
    if length > HEADER_BYTES_MAX {
        return Err(Fault::TooMany(Limit::Header).at(at + 2));
    }
    read_dictionary(&mut cursor.part(length, "the header")?)
}

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }` in any order.
fn read_dictionary(cursor: &mut Cursor<'_>) -> Result<Header, ParseError> {
    let (mut kind, mut fortran_order, mut shape) = (None, None, None);
    skip_blanks(cursor);
    cursor.expect(b"{", "a header in braces")?;
    skip_blanks(cursor);
    while !cursor.eat(b'}') {
        let at = cursor.at();
        let key = read_string(cursor)?;
        skip_blanks(cursor);
        cursor.expect(b":", "a colon")?;
        skip_blanks(cursor);
        match key {
            b"descr" if kind.is_none() => kind = Some(read_kind(cursor)?),
            b"fortran_order" if fortran_order.is_none() => {
                fortran_order = Some(read_truth(cursor)?);
            }
            b"shape" if shape.is_none() => shape = Some(read_shape(cursor)?),
            _ => return Err(Fault::Expected("descr, fortran_order and shape, each once").at(at)),
        }
        skip_blanks(cursor);
        let more = cursor.eat(b',');
        skip_blanks(cursor);
        if !more && cursor.peek() != Some(b'}') {
            return Err(cursor.expected("a comma or a closing brace"));
        }
    }
    let end = cursor.at();
    skip_blanks(cursor);
    if cursor.peek().is_some() {
        return Err(cursor.expected("blanks up to the end of the header"));
    }
    match (kind, fortran_order, shape) {
        (Some((endian, kind)), Some(fortran_order), Some(shape)) => {
            Ok(Header { kind, endian, fortran_order, shape })
        }
        _ => Err(Fault::Expected("descr, fortran_order and shape, each once").at(end)),
    }
}

fn skip_blanks(cursor: &mut Cursor<'_>) {
    cursor.eat_while(|byte| byte.is_ascii_whitespace());
}

/// A Python string without escapes.
fn read_string<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], ParseError> {
    const WANTED: &str = "a text in quotes";
    let quote = match cursor.peek() {
        Some(quote @ (b'\'' | b'"')) => quote,
        _ => return Err(cursor.expected(WANTED)),
    };
    cursor.expect(&[quote], WANTED)?;
    let text = cursor.eat_while(|byte| byte != quote && byte != b'\\');
    cursor.expect(&[quote], "a closing quote")?;
    Ok(text)
}

fn read_kind(cursor: &mut Cursor<'_>) -> Result<(Endian, Kind), ParseError> {
    let at = cursor.at();
    if matches!(cursor.peek(), Some(b'[' | b'(' | b'{')) {
        return Err(unknown_kind(cursor.rest()).at(at)); // a record of several numbers
    }
    let text = read_string(cursor)?;
    let endian = match text.first() {
        Some(b'<') => Some(Endian::Little),
        Some(b'>') => Some(Endian::Big),
        Some(b'|') => None,
        _ => return Err(unknown_kind(text).at(at)),
    };
    let kind = text.get(1..).and_then(|name| str::from_utf8(name).ok()).and_then(Kind::named);
    match (endian, kind) {
        (Some(endian), Some(kind)) => Ok((endian, kind)),
        // Numbers of one byte have no order of bytes.
        (None, Some(kind)) if kind.bytes() == 1 => Ok((Endian::Little, kind)),
        (None, Some(_)) | (_, None) => Err(unknown_kind(text).at(at)),
    }
}

fn unknown_kind(text: &[u8]) -> Fault {
    let shown = text.get(..KIND_BYTES_SHOWN).unwrap_or(text);
    Fault::Kind { found: String::from_utf8_lossy(shown).into_owned() }
}

fn read_truth(cursor: &mut Cursor<'_>) -> Result<bool, ParseError> {
    if cursor.rest().starts_with(b"True") {
        cursor.expect(b"True", "True")?;
        return Ok(true);
    }
    cursor.expect(b"False", "True or False")?;
    Ok(false)
}

/// A Python tuple of whole numbers. Python 2 wrote long ones with an L at the end.
fn read_shape(cursor: &mut Cursor<'_>) -> Result<Vec<usize>, ParseError> {
    let mut shape = Vec::new();
    cursor.expect(b"(", "a shape in parentheses")?;
    skip_blanks(cursor);
    while !cursor.eat(b')') {
        let at = cursor.at();
        if shape.len() >= SIDES_MAX {
            return Err(Fault::TooMany(Limit::Sides).at(at));
        }
        let digits = cursor.eat_while(|byte| byte.is_ascii_digit());
        if digits.is_empty() {
            return Err(cursor.expected("the length of a side"));
        }
        let side = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        shape.push(side.ok_or_else(|| Fault::TooMany(Limit::Elements).at(at))?);
        cursor.eat(b'L');
        skip_blanks(cursor);
        let more = cursor.eat(b',');
        skip_blanks(cursor);
        if !more && cursor.peek() != Some(b')') {
            return Err(cursor.expected("a comma or a closing parenthesis"));
        }
    }
    Ok(shape)
}

impl Body<'_> {
    fn data(&self) -> Result<Data, ParseError> {
        const FITS: &str = "within the range of f32";
        const WHOLE: &str = "at most 9223372036854775807";
        const TRUTH: &str = "0 or 1, as truth values are";
        let floats = match self.header.kind {
            Kind::F2 => self.numbers("", |bytes| Some(half(u16::from_le_bytes(bytes))))?,
            Kind::F4 => self.numbers("", |bytes| Some(f32::from_le_bytes(bytes)))?,
            Kind::F8 => self.numbers(FITS, |bytes| narrow(f64::from_le_bytes(bytes)))?,
            Kind::I1 => return self.whole("", |bytes| Some(i8::from_le_bytes(bytes))),
            Kind::I2 => return self.whole("", |bytes| Some(i16::from_le_bytes(bytes))),
            Kind::I4 => return self.whole("", |bytes| Some(i32::from_le_bytes(bytes))),
            Kind::I8 => return self.whole("", |bytes| Some(i64::from_le_bytes(bytes))),
            Kind::U1 => return self.whole("", |bytes| Some(u8::from_le_bytes(bytes))),
            Kind::U2 => return self.whole("", |bytes| Some(u16::from_le_bytes(bytes))),
            Kind::U4 => return self.whole("", |bytes| Some(u32::from_le_bytes(bytes))),
            Kind::U8 => {
                return self.whole(WHOLE, |bytes| i64::try_from(u64::from_le_bytes(bytes)).ok());
            }
            Kind::B1 => return self.whole(TRUTH, |[byte]| (byte <= 1).then_some(byte)),
        };
        Ok(Data::Float(floats))
    }

    fn whole<const N: usize, T: Into<i64>>(
        &self,
        wanted: &'static str,
        decode: impl Fn([u8; N]) -> Option<T>,
    ) -> Result<Data, ParseError> {
        self.numbers(wanted, |bytes| decode(bytes).map(Into::into)).map(Data::Int)
    }

    /// All numbers in row-major order, from their bytes with the low one first.
    fn numbers<const N: usize, T: Copy>(
        &self,
        wanted: &'static str,
        decode: impl Fn([u8; N]) -> Option<T>,
    ) -> Result<Vec<T>, ParseError> {
        let (chunks, left) = self.bytes.as_chunks::<N>();
        assert!(left.is_empty(), "the kind has {N} bytes");
        let mut numbers = Vec::with_capacity(chunks.len());
        for (index, chunk) in chunks.iter().enumerate() {
            let mut chunk = *chunk;
            if self.header.endian == Endian::Big {
                chunk.reverse();
            }
            let Some(number) = decode(chunk) else {
                return Err(Fault::Number { index, wanted }.at(self.at + index * N));
            };
            numbers.push(number);
        }
        let is_column_major = self.header.fortran_order && self.header.shape.len() > 1;
        Ok(if is_column_major { to_row_major(&self.header.shape, &numbers) } else { numbers })
    }
}

/// A side of an array while all its places are visited.
struct Axis {
    side: usize,
    stride: usize,
    index: usize,
}

/// Numbers whose first index runs fastest, in the order whose last index does.
fn to_row_major<T: Copy>(shape: &[usize], numbers: &[T]) -> Vec<T> {
    let mut stride = 1;
    let mut axes: Vec<Axis> = Vec::with_capacity(shape.len());
    for side in shape {
        axes.push(Axis { side: *side, stride, index: 0 });
        stride *= side;
    }
    let mut at = 0;
    let mut ordered = Vec::with_capacity(numbers.len());
    while ordered.len() < numbers.len() {
        ordered.push(*numbers.get(at).expect("the strides stay inside the shape"));
        for axis in axes.iter_mut().rev() {
            axis.index += 1;
            at += axis.stride;
            if axis.index < axis.side {
                break;
            }
            at -= axis.side * axis.stride;
            axis.index = 0;
        }
    }
    ordered
}

/// A float of 16 bits (IEEE 754 binary16). All of them are floats of 32 bits, too.
fn half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10 & 0x1f);
    let fraction = u32::from(bits & 0x3ff) << 13;
    match exponent {
        0 => {
            let magnitude =
                f32::from(bits & 0x3ff) / f32::from(1_u16 << 12) / f32::from(1_u16 << 12);
            f32::from_bits(sign | magnitude.to_bits())
        }
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction),
        // The bias is 15 here and 127 there.
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction),
    }
}

/// The nearest float of 32 bits, unless that is infinite only for want of range.
fn narrow(wide: f64) -> Option<f32> {
    let near = wide as f32; // rounds to nearest; there is no checked form
    (near.is_finite() || !wide.is_finite()).then_some(near)
}
