//! Numbers in files: `.npy`, `.npz` and `.json`, read into arrays and written from them.
//!
//! Files come from strangers and other programs, so everything about them is bounded: their size,
//! the sizes they declare, the numbers they hold. A declared size is compared with the bytes that
//! are there before memory is taken for it. [`parse`] and [`render`] are pure; only [`read`] and
//! [`write`] touch the disk.
//!
//! Floats become `f32`, whole numbers and truth values `i64`. A finite number that does not fit is
//! refused, never made infinite or wrapped. What [`render`] accepts, [`parse`] reads back, but for
//! two things: `.npy` has no names, and JSON does not say the kind of no numbers.

mod cursor;
mod json;
mod npy;
mod npz;
#[cfg(test)]
mod tests;

use crate::files::{self, FileError, Readers};
use std::{
    fmt,
    path::{Path, PathBuf},
};
use tg_tensor::Array;

/// Largest file that is read or written, and most bytes that one may inflate to. With the numbers
/// it decodes to it stays well inside the memory of a machine that can run the model.
pub(crate) const FILE_BYTES_MAX: usize = 1 << 30;

/// Most numbers in a file, all its arrays together: as `i64` they take 2 GiB.
pub(crate) const ELEMENTS_MAX: usize = 1 << 28;

/// Most sides of an array, as in numpy before version 2.
pub(crate) const SIDES_MAX: usize = 32;

/// Most arrays in a file. Models have a handful of inputs and outputs.
pub(crate) const ARRAYS_MAX: usize = 1024;

/// Longest name of an array, so that it fits a line and every file system.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// The arrays of a file, in its order, with their names where the format has them.
pub(crate) type ArrayList = Vec<(Option<String>, Array)>;

/// Why arrays cannot be read from or written to a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArrayFileError {
    /// The file itself cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// Neither name nor content says what it is.
    #[error("{path} is no array file: expected .npy, .npz or .json")]
    Unknown {
        /// Which file.
        path: PathBuf,
    },
    /// Its content is not what it should be.
    #[error("{path} cannot be read as {format}")]
    Parse {
        /// Which file.
        path: PathBuf,
        /// What it was taken for.
        format: Format,
        /// What is wrong with it, and where.
        #[source]
        source: ParseError,
    },
    /// The arrays do not fit the format.
    #[error("{path} cannot be written as {format}")]
    Render {
        /// Which file.
        path: PathBuf,
        /// What it should become.
        format: Format,
        /// What does not fit.
        #[source]
        source: RenderError,
    },
}

impl ArrayFileError {
    /// What to do next.
    #[must_use]
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::File(_) => "check the path and its permissions",
            Self::Unknown { .. } => "give the file the ending .npy, .npz or .json",
            Self::Parse { source, .. } => source.fault.hint(),
            Self::Render { source, .. } => source.hint(),
        }
    }
}

/// A kind of file that holds arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// One array of numpy.
    Npy,
    /// A zip archive of numpy's arrays, by name.
    Npz,
    /// Nested lists, alone or by name.
    Json,
}

impl Format {
    /// The format that a file's ending names.
    #[must_use]
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "npy" => Some(Self::Npy),
            "npz" => Some(Self::Npz),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// The format that a file's first bytes show.
    #[must_use]
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(npy::MAGIC) {
            return Some(Self::Npy);
        }
        if bytes.starts_with(npz::MAGIC) {
            return Some(Self::Npz);
        }
        let first = bytes.iter().find(|byte| !json::is_blank(**byte))?;
        matches!(first, b'[' | b'{').then_some(Self::Json)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Json => "json",
        })
    }
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Bytes from its beginning.
    Byte(usize),
    /// In a text, both counted from 1, the column in bytes.
    Text {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// In a file inside an archive.
    Entry {
        /// The array's name.
        name: String,
        /// Bytes from the beginning of the inner file.
        byte: usize,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Byte(byte) => write!(f, "byte {byte}"),
            Self::Text { line, column } => write!(f, "line {line}, column {column}"),
            Self::Entry { name, byte } => write!(f, "entry {name:?}, byte {byte}"),
        }
    }
}

/// Bytes are not what their format asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {fault}")]
pub(crate) struct ParseError {
    /// Where.
    pub(crate) at: Place,
    /// What is wrong there.
    pub(crate) fault: Fault,
}

/// What is wrong at one place of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// Something else is there.
    #[error("expected {0}")]
    Expected(&'static str),
    /// Nothing is there.
    #[error("the end, expected {0}")]
    Ended(&'static str),
    /// Numbers of a kind that has no place in an array.
    #[error("numbers of kind {found:?}, expected one of {}", npy::KINDS)]
    Kind {
        /// The kind that was found.
        found: String,
    },
    /// The numbers do not fill the shape.
    #[error("{found} bytes of numbers, expected {wanted} for the shape {shape:?}")]
    Bytes {
        /// The shape.
        shape: Vec<usize>,
        /// What it takes.
        wanted: usize,
        /// What is there.
        found: usize,
    },
    /// A list is not as long as those beside it.
    #[error("a list of {found}, expected {wanted} as in the lists before it")]
    Ragged {
        /// The length of the others.
        wanted: usize,
        /// Its own.
        found: usize,
    },
    /// A number that has no place in an array.
    #[error("number {index} is not {wanted}")]
    Number {
        /// Which one, in the file's order, counted from 0.
        index: usize,
        /// What it should be.
        wanted: &'static str,
    },
    /// A file inside an archive is not as long as declared.
    #[error("an entry that does not have the {wanted} bytes it declares")]
    Length {
        /// What it declares.
        wanted: usize,
    },
    /// A file inside an archive was changed.
    #[error("checksum {found:08x}, expected {wanted:08x}")]
    Checksum {
        /// What the archive says.
        wanted: u32,
        /// What the bytes give.
        found: u32,
    },
    /// The file is sound, but uses what is not read here.
    #[error("{0} is not supported")]
    Unsupported(Feature),
    /// Not a name of an array.
    #[error("the name {0:?}, expected 1 to {NAME_BYTES_MAX} bytes without control characters")]
    Name(String),
    /// A name that was there already.
    #[error("the name {0:?} for the second time")]
    Repeated(String),
    /// A bound was reached.
    #[error("more than {0}")]
    TooMany(Limit),
}

impl Fault {
    /// At a byte of the file.
    fn at(self, byte: usize) -> ParseError {
        ParseError { at: Place::Byte(byte), fault: self }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Expected(_) | Self::Ended(_) | Self::Bytes { .. } | Self::Length { .. } => {
                "save the arrays again, with numpy.save, numpy.savez or json.dump"
            }
            Self::Checksum { .. } => "copy the file again: it was changed on its way",
            Self::Kind { .. } => "convert the array first, say with array.astype(numpy.float32)",
            Self::Ragged { .. } => "make all lists of one level equally long",
            Self::Number { .. } => "scale or replace the number",
            Self::Unsupported(_) => "save each array as .npy with numpy.save",
            Self::Name(_) | Self::Repeated(_) => "give every array a name of its own",
            Self::TooMany(_) => "split the arrays into several files",
        }
    }
}

/// What zip archives can do and arrays do not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Feature {
    /// Records for sizes from 4 GiB or 65535 entries on.
    #[error("zip64, the form for archives above 4 GiB,")]
    Zip64,
    /// Archives in several files.
    #[error("an archive in several parts")]
    Parts,
    /// Encryption and patches.
    #[error("an encrypted or patched entry")]
    Encryption,
    /// Neither stored nor deflated.
    #[error("compression method {0}")]
    Method(u16),
}

/// A bound of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Limit {
    /// Of the file, and of what it inflates to.
    #[error("{FILE_BYTES_MAX} bytes")]
    Bytes,
    /// Of the description in front of the numbers.
    #[error("{} bytes of header", npy::HEADER_BYTES_MAX)]
    Header,
    /// Of all numbers together.
    #[error("{ELEMENTS_MAX} numbers")]
    Elements,
    /// Of an array's sides.
    #[error("{SIDES_MAX} sides")]
    Sides,
    /// Of arrays in a file.
    #[error("{ARRAYS_MAX} arrays")]
    Arrays,
}

/// Arrays do not fit a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RenderError {
    /// Too few or too many for the format.
    #[error("{found} arrays, expected {}", if *.format == Format::Npy { "one" } else { "some" })]
    Count {
        /// The format.
        format: Format,
        /// How many there are.
        found: usize,
    },
    /// Not a name of an array.
    #[error("the name {0:?}, expected 1 to {NAME_BYTES_MAX} bytes without control characters")]
    Name(String),
    /// Two arrays of one name.
    #[error("the name {0:?} for the second time")]
    Repeated(String),
    /// A number that JSON cannot say.
    #[error("number {index} of {name:?} is not finite")]
    NotFinite {
        /// Which array.
        name: String,
        /// Which number, in row-major order, counted from 0.
        index: usize,
    },
    /// Nested lists lose the sides after one of length 0.
    #[error("nested lists cannot say the shape {shape:?} of {name:?}")]
    Shape {
        /// Which array.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// A bound would be broken.
    #[error("more than {0}")]
    TooMany(Limit),
}

impl RenderError {
    fn hint(&self) -> &'static str {
        match self {
            Self::Count { .. } => "write one array to .npy and several to .npz or .json",
            Self::Name(_) | Self::Repeated(_) => "give every array a name of its own",
            Self::NotFinite { .. } | Self::Shape { .. } => "write to .npy or .npz instead",
            Self::TooMany(_) => "split the arrays into several files",
        }
    }
}

/// Reads the arrays of a file, in its order. The ending names the format; without a known one the
/// first bytes do. Arrays have no name in `.npy` and in JSON that is a list or in the form of
/// model test data, see [`parse`].
///
/// # Errors
/// If the file cannot be read, is of no known format, or not sound.
pub(crate) fn read(path: &Path) -> Result<ArrayList, ArrayFileError> {
    let bytes = files::read(path, FILE_BYTES_MAX as u64)?;
    let format = Format::of_path(path).or_else(|| Format::of_bytes(&bytes));
    let Some(format) = format else {
        return Err(ArrayFileError::Unknown { path: path.to_owned() });
    };
    let failed = |source| ArrayFileError::Parse { path: path.to_owned(), format, source };
    parse(&bytes, format).map_err(failed)
}

/// Writes arrays to a file in the format that its ending names: `.npy` takes exactly one and drops
/// its name. The file is written whole or not at all.
///
/// # Errors
/// If the ending names no format, the arrays do not fit it, or the file cannot be written.
pub(crate) fn write(path: &Path, arrays: &[(String, Array)]) -> Result<(), ArrayFileError> {
    let Some(format) = Format::of_path(path) else {
        return Err(ArrayFileError::Unknown { path: path.to_owned() });
    };
    let failed = |source| ArrayFileError::Render { path: path.to_owned(), format, source };
    let bytes = render(arrays, format).map_err(failed)?;
    Ok(files::write(path, &bytes, Readers::All)?)
}

/// The arrays in the bytes of a file; at least one.
///
/// JSON is a number, a nested list of numbers, an object with one of these per name, or an object
/// whose only name is `input_data` or `output_data`: then its list holds one array per input or
/// output, in order and without names, or, if it begins with a number, is the only array.
///
/// # Errors
/// At the first place that is not as the format asks for.
pub(crate) fn parse(bytes: &[u8], format: Format) -> Result<ArrayList, ParseError> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(Fault::TooMany(Limit::Bytes).at(FILE_BYTES_MAX));
    }
    match format {
        Format::Npy => Ok(vec![(None, npy::parse(bytes, ELEMENTS_MAX)?)]),
        Format::Npz => npz::parse(bytes),
        Format::Json => json::parse(bytes),
    }
}

/// The bytes of a file with these arrays. The same arrays give the same bytes.
///
/// # Errors
/// If they do not fit the format or the bounds.
pub(crate) fn render(arrays: &[(String, Array)], format: Format) -> Result<Vec<u8>, RenderError> {
    check(arrays)?;
    match (format, arrays) {
        (Format::Npy, [(_, array)]) => npy::render(array),
        (Format::Npy, _) | (Format::Npz | Format::Json, []) => {
            Err(RenderError::Count { format, found: arrays.len() })
        }
        (Format::Npz, arrays) => npz::render(arrays),
        (Format::Json, arrays) => json::render(arrays),
    }
}

/// The bounds that hold in every format.
fn check(arrays: &[(String, Array)]) -> Result<(), RenderError> {
    if arrays.len() > ARRAYS_MAX {
        return Err(RenderError::TooMany(Limit::Arrays));
    }
    let mut left = ELEMENTS_MAX;
    for (index, (name, array)) in arrays.iter().enumerate() {
        if !is_name(name) {
            return Err(RenderError::Name(name.clone()));
        }
        if arrays.iter().take(index).any(|(other, _)| other == name) {
            return Err(RenderError::Repeated(name.clone()));
        }
        if array.shape().len() > SIDES_MAX {
            return Err(RenderError::TooMany(Limit::Sides));
        }
        left = left.checked_sub(array.len()).ok_or(RenderError::TooMany(Limit::Elements))?;
    }
    Ok(())
}

/// Takes up a named array's name, if it may have it.
fn admit(name: &str, before: &[(Option<String>, Array)]) -> Result<(), Fault> {
    if before.len() >= ARRAYS_MAX {
        return Err(Fault::TooMany(Limit::Arrays));
    }
    if !is_name(name) {
        return Err(Fault::Name(name.to_owned()));
    }
    if before.iter().any(|(other, _)| other.as_deref() == Some(name)) {
        return Err(Fault::Repeated(name.to_owned()));
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains(char::is_control)
}
