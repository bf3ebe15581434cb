//! What a tensor program is: inputs, constants, operations and outputs, all of whole numbers.
//!
//! A value is a flat run of integers with a stated range; every operation says itself how it looks
//! at the values it reads, so a reshape costs nothing and a program has no layout to guess. The
//! rules are those of `docs/tensor-program.md`; a [`Program`] that exists has passed all checks
//! that need no weights ([`check`]), and its canonical bytes are the only bytes it has.

mod check;
mod primitive;
mod rescale;
#[cfg(test)]
mod tests;

pub use check::{Flaw, ProgramError};
pub use primitive::{
    Inverse, JoinTerm, MovePart, Operand, Primitive, Run, Runs, Sides, Strides, Table, Window,
};
pub use rescale::{Multipliers, Rescale, clamp, round_shift};

use tg_types::codec::{Decode, DecodeError, Encode, Reader};
use tg_types::hash::{Tag, tagged};
use tg_types::{Hash32, List, wire};

/// Every accumulator, and every accumulator times its multiplier, stays within this in magnitude:
/// so it fits `i32` on every device whatever the order of sums, and is told apart from all others
/// in the 31-bit field of the proofs, whose prime is 2^31 - 2^24 + 1 = 2 * `MAGNITUDE_MAX` + 1.
pub const MAGNITUDE_MAX: i64 = (1 << 30) - (1 << 23);

/// The most elements of one value: 256 Mi, so that indices fit 32 bits on every device.
pub const ELEMENTS_MAX: u32 = 1 << 28;

/// The most inputs, constants, operations and outputs each. Deep networks have a few thousand.
pub const ITEMS_MAX: usize = 1 << 16;

/// The most elements of all values together: 4 Gi, far above what a machine can run at once.
pub const TOTAL_MAX: u64 = 1 << 32;

/// The most terms of all elements together: what a fast machine adds up in a day. A network or a
/// user allows far fewer; this only keeps a few bytes from asking for centuries.
pub const TERMS_MAX: u64 = 1 << 52;

/// The format of a program's bytes.
pub const PROGRAM_FORMAT: u8 = 1;

const PROGRAM_TAG: Tag = Tag::new("tensorgrid/program");

wire! {
    /// The number of a value: inputs first, then constants, then the operations' outputs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct ValueId {
        /// The place in that order.
        pub number: u32,
    }
}

impl ValueId {
    /// The place as an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.number as usize
    }
}

/// How many bytes an element takes in memory, in files and in hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// One byte, -128 to 127.
    I8,
    /// Two bytes.
    I16,
    /// Four bytes.
    I32,
}

impl Width {
    /// Bytes per element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::I16 => 2,
            Self::I32 => 4,
        }
    }
}

wire! {
    /// How many elements a value has and between which numbers they lie.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Spec {
        /// How many.
        pub len: u32,
        /// The smallest allowed.
        pub lo: i32,
        /// The largest allowed.
        pub hi: i32,
    }
}

impl Spec {
    /// The narrowest width that holds the range.
    #[must_use]
    pub fn width(&self) -> Width {
        let fits = |lo: i32, hi: i32| self.lo >= lo && self.hi <= hi;
        if fits(i8::MIN.into(), i8::MAX.into()) {
            Width::I8
        } else if fits(i16::MIN.into(), i16::MAX.into()) {
            Width::I16
        } else {
            Width::I32
        }
    }

    /// The largest magnitude in the range.
    #[must_use]
    pub fn magnitude(&self) -> i64 {
        i64::from(self.lo).abs().max(i64::from(self.hi).abs())
    }

    /// How many elements, as a length.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.len as usize
    }

    /// Whether a number lies in the range.
    #[must_use]
    pub fn admits(&self, value: i64) -> bool {
        (i64::from(self.lo)..=i64::from(self.hi)).contains(&value)
    }
}

/// How the integers of a port stand for real numbers: real = (integer - zero) * scale.
///
/// The program never uses it; it is written down so that whoever runs the program reads its inputs
/// and outputs alike. The scale is kept as the bits of a positive finite `f64`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// The real distance of two neighbouring integers.
    pub scale: f64,
    /// The integer that stands for zero.
    pub zero: i32,
}

impl Encode for Scaling {
    fn encode(&self, out: &mut Vec<u8>) {
        self.scale.to_bits().encode(out);
        self.zero.encode(out);
    }
}

impl Decode for Scaling {
    const BYTES_MIN: usize = 12;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let scale = f64::from_bits(u64::decode(reader)?);
        if !(scale.is_normal() && scale > 0.0) {
            let expected = "scale (a positive normal f64)";
            return Err(DecodeError::Range { at: reader.position(), expected });
        }
        Ok(Self { scale, zero: i32::decode(reader)? })
    }
}

/// A name of an input, output, constant or operation: 1 to 128 bytes of UTF-8 without control
/// characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label(Box<str>);

impl Label {
    /// The most bytes of a label.
    pub const BYTES_MAX: usize = 128;

    /// A label of this text: control characters become `_`, an empty text `_`, and what is too long
    /// is cut.
    #[must_use]
    pub fn lossy(text: &str) -> Self {
        let mut label = String::new();
        for letter in text.chars() {
            let letter = if letter.is_control() { '_' } else { letter };
            if label.len() + letter.len_utf8() > Self::BYTES_MAX {
                break;
            }
            label.push(letter);
        }
        if label.is_empty() {
            label.push('_');
        }
        Self(label.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Encode for Label {
    fn encode(&self, out: &mut Vec<u8>) {
        tg_types::codec::encode_byte_string(self.0.as_bytes(), out);
    }
}

impl Decode for Label {
    const BYTES_MIN: usize = 2;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = reader.byte_string(Self::BYTES_MAX)?;
        let at = reader.position();
        let refused = DecodeError::Range { at, expected: "label (1 to 128 bytes of plain UTF-8)" };
        let text = std::str::from_utf8(bytes).map_err(|_| refused.clone())?;
        if text.is_empty() || text.chars().any(char::is_control) {
            return Err(refused);
        }
        Ok(Self(text.into()))
    }
}

/// The sides of a port or constant, for people and files.
pub type Shape = List<u32, 0, 8>;

wire! {
    /// An input.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Input {
        /// Its name.
        pub label: Label,
        /// Its shape; the product is the number of elements.
        pub shape: Shape,
        /// Its elements. A run with an element outside the range is refused.
        pub spec: Spec,
        /// What the integers stand for; absent if they are plain integers, such as token ids.
        pub scaling: Option<Scaling>,
    }
}

wire! {
    /// A constant: weights, biases, embedding tables. Its numbers are not part of the program.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Constant {
        /// Its name.
        pub label: Label,
        /// Its shape; the product is the number of elements.
        pub shape: Shape,
        /// Its elements.
        pub spec: Spec,
    }
}

wire! {
    /// One operation and the value it makes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Operation {
        /// Where it came from, for people.
        pub label: Label,
        /// The value it makes. Results are clamped to this range where the primitive says so.
        pub spec: Spec,
        /// What it does.
        pub primitive: Primitive,
    }
}

wire! {
    /// An output.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Output {
        /// Its name.
        pub label: Label,
        /// Its shape; the product is the number of elements.
        pub shape: Shape,
        /// Which value it is.
        pub value: ValueId,
        /// What the integers stand for; absent if they are plain integers, such as class numbers.
        pub scaling: Option<Scaling>,
    }
}

/// The id of a program: the hash of its canonical bytes.
pub type ProgramId = Hash32;

/// A program that has passed its checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    parts: Parts,
    specs: Vec<Spec>,
}

/// What a program is made of, unchecked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// The inputs.
    pub inputs: Vec<Input>,
    /// The constants.
    pub constants: Vec<Constant>,
    /// The operations, each reading only values before its own.
    pub operations: Vec<Operation>,
    /// The outputs.
    pub outputs: Vec<Output>,
}

impl Operation {
    /// How many products it adds up, as many for each element.
    #[must_use]
    pub fn multiply_adds(&self) -> u64 {
        match &self.primitive {
            Primitive::Linear { window, groups, .. } => {
                let terms = window.taps() * u64::from(window.channels / groups);
                u64::from(self.spec.len) * terms
            }
            Primitive::MatMul { inner, .. } => u64::from(self.spec.len) * u64::from(*inner),
            Primitive::Join { .. }
            | Primitive::Product { .. }
            | Primitive::Table { .. }
            | Primitive::Sum { .. }
            | Primitive::Max { .. }
            | Primitive::Normalise { .. }
            | Primitive::Move { .. }
            | Primitive::Select { .. }
            | Primitive::Lookup { .. }
            | Primitive::ArgMax { .. } => 0,
        }
    }
}

impl Program {
    /// Checks the parts and makes a program of them.
    pub fn new(parts: Parts) -> Result<Self, ProgramError> {
        let specs = check::check(&parts)?;
        Ok(Self { parts, specs })
    }

    /// The inputs.
    #[must_use]
    pub fn inputs(&self) -> &[Input] {
        &self.parts.inputs
    }

    /// The constants.
    #[must_use]
    pub fn constants(&self) -> &[Constant] {
        &self.parts.constants
    }

    /// The operations in the order in which they run.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.parts.operations
    }

    /// The outputs.
    #[must_use]
    pub fn outputs(&self) -> &[Output] {
        &self.parts.outputs
    }

    /// What is known of every value, by number.
    #[must_use]
    pub fn specs(&self) -> &[Spec] {
        &self.specs
    }

    /// What is known of a value; `None` if there is no such value.
    #[must_use]
    pub fn spec(&self, value: ValueId) -> Option<Spec> {
        self.specs.get(value.index()).copied()
    }

    /// What a number stands for.
    #[must_use]
    pub fn place(&self, value: ValueId) -> Option<Place> {
        let (inputs, constants) = (self.parts.inputs.len(), self.parts.constants.len());
        let index = value.index();
        if index < inputs {
            Some(Place::Input(index))
        } else if index < inputs + constants {
            Some(Place::Constant(index - inputs))
        } else if index < self.specs.len() {
            Some(Place::Operation(index - inputs - constants))
        } else {
            None
        }
    }

    /// The value that an operation makes.
    #[must_use]
    pub fn value_of(&self, operation: usize) -> ValueId {
        let before = self.parts.inputs.len() + self.parts.constants.len();
        ValueId { number: (before + operation) as u32 }
    }

    /// The value of a constant.
    #[must_use]
    pub fn value_of_constant(&self, constant: usize) -> ValueId {
        ValueId { number: (self.parts.inputs.len() + constant) as u32 }
    }

    /// How many products a run adds up: the usual measure of its work.
    #[must_use]
    pub fn multiply_adds(&self) -> u64 {
        self.parts.operations.iter().map(Operation::multiply_adds).sum()
    }

    /// How many terms the elements of a run have together: the work of an audit of everything.
    #[must_use]
    pub fn terms(&self) -> u64 {
        terms(&self.parts.operations)
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> ProgramId {
        tagged(PROGRAM_TAG, &[&self.to_bytes()])
    }
}

fn terms(operations: &[Operation]) -> u64 {
    let each = |operation: &Operation| {
        u64::from(operation.spec.len).saturating_mul(operation.primitive.terms())
    };
    operations.iter().map(each).fold(0, u64::saturating_add)
}

/// Which of a program's values a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An input, by its place among them.
    Input(usize),
    /// A constant, by its place among them.
    Constant(usize),
    /// The output of an operation, by its place among them.
    Operation(usize),
}

fn encode_items<T: Encode>(items: &[T], out: &mut Vec<u8>) {
    tg_types::codec::encode_list(items, out);
}

/// Reads a list without reserving memory for what is only announced: an operation in memory is
/// larger than its shortest bytes.
fn decode_items<T: Decode>(reader: &mut Reader<'_>) -> Result<Vec<T>, DecodeError> {
    let count = reader.length(0, ITEMS_MAX)?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(T::decode(reader)?);
    }
    Ok(items)
}

impl Encode for Program {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(PROGRAM_FORMAT);
        encode_items(&self.parts.inputs, out);
        encode_items(&self.parts.constants, out);
        encode_items(&self.parts.operations, out);
        encode_items(&self.parts.outputs, out);
    }
}

impl Program {
    /// Reads a program and checks it. `reader` is left behind it.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, ProgramError> {
        let at = reader.position();
        let found = reader.byte()?;
        if found != PROGRAM_FORMAT {
            let supported = PROGRAM_FORMAT;
            return Err(DecodeError::Version { at, found, supported }.into());
        }
        Self::new(Parts {
            inputs: decode_items(reader)?,
            constants: decode_items(reader)?,
            operations: decode_items(reader)?,
            outputs: decode_items(reader)?,
        })
    }

    /// Reads a program that takes up all of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ProgramError> {
        let mut reader = Reader::new(bytes);
        let program = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(program)
    }
}
