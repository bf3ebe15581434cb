//! `.npz`: a zip archive with one `.npy` file per array (PKWARE APPNOTE 6.3, numpy.savez).
//!
//! Sizes and places are those of the central directory; of an entry's own header only the name, the
//! method and its length count. So entries with data descriptors are read, as are numpy's, which
//! have zip64 fields in front of small entries. Memory for an entry is taken only after its
//! declared size has been found possible for the bytes that are there.

use super::{
    ArrayList, ELEMENTS_MAX, FILE_BYTES_MAX, Fault, Feature, Limit, ParseError, Place, RenderError,
    admit, cursor::Cursor, npy,
};
use miniz_oxide::inflate::{
    TINFLStatus,
    core::{
        DecompressorOxide, decompress,
        inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF as INTO_WHOLE_OUTPUT,
    },
};
use std::borrow::Cow;
use tg_tensor::Array;

/// What an archive with entries begins with; also in front of every entry.
pub(super) const MAGIC: &[u8] = b"PK\x03\x04";
/// In front of every record of the central directory.
const RECORD_MAGIC: &[u8] = b"PK\x01\x02";
/// In front of the end record.
const END_MAGIC: &[u8] = b"PK\x05\x06";
/// In front of the pointer to zip64's end record.
const ZIP64_MAGIC: &[u8] = b"PK\x06\x07";

/// Bytes of the end record without its comment.
const END_BYTES: usize = 22;
/// Bytes of zip64's pointer, which lies right before the end record.
const ZIP64_BYTES: usize = 20;
/// Longest comment: its length has 16 bits.
const COMMENT_BYTES_MAX: usize = u16::MAX as usize;

/// The extra field that carries zip64 sizes.
const ZIP64_FIELD: u16 = 1;

/// Most bytes that one byte of deflate can stand for: a match of 258 bytes takes two bits or more.
const INFLATE_RATIO_MAX: usize = 1032;

/// What every entry's name ends with.
const ENDING: &str = ".npy";

/// Flags of an entry: encrypted, patch data, strongly encrypted, masked directory.
const FLAGS_REFUSED: u16 = 1 | 1 << 5 | 1 << 6 | 1 << 13;
/// The name is UTF-8.
const FLAG_UTF8: u16 = 1 << 11;

/// Version of the format that a reader must know: 2.0, the first with deflate.
const VERSION: u16 = 20;
/// The first day that zip can say, so that the same arrays give the same bytes.
const DATE: u16 = 1 << 5 | 1;

/// How an entry's bytes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Stored,
    Deflated,
}

/// What the central directory says about an entry.
struct Record<'a> {
    /// Where the record is.
    at: usize,
    name: &'a [u8],
    method: Method,
    checksum: u32,
    packed_bytes: usize,
    bytes: usize,
    /// Where the entry is.
    entry_at: usize,
}

/// Where the central directory is.
struct Directory {
    at: usize,
    records: usize,
}

/// The arrays of an archive, in the order of its directory.
pub(super) fn parse(file: &[u8]) -> Result<ArrayList, ParseError> {
    let directory = find_directory(file)?;
    let mut cursor = Cursor::new(file, directory.at);
    let (mut bytes_left, mut elements_left) = (FILE_BYTES_MAX, ELEMENTS_MAX);
    let mut arrays = Vec::new();
    for _ in 0..directory.records {
        let record = read_record(&mut cursor)?;
        let name = array_name(&record)?;
        admit(name, &arrays).map_err(|fault| fault.at(record.at))?;
        let Some(left) = bytes_left.checked_sub(record.bytes) else {
            return Err(Fault::TooMany(Limit::Bytes).at(record.at));
        };
        bytes_left = left;
        let packed = find_entry(file, &directory, &record)?;
        let inner = unpack(packed, &record)?;
        let array = npy::parse(&inner, elements_left).map_err(|error| inside(name, error))?;
        elements_left -= array.len();
        arrays.push((Some(name.to_owned()), array));
    }
    if arrays.is_empty() {
        return Err(Fault::Expected("at least one array").at(directory.at));
    }
    if !cursor.rest().starts_with(END_MAGIC) {
        return Err(cursor.expected("the end record after the last entry's record"));
    }
    Ok(arrays)
}

/// The bytes of an archive whose entries are stored.
pub(super) fn render(arrays: &[(String, Array)]) -> Result<Vec<u8>, RenderError> {
    let mut file = Vec::new();
    let mut directory = Vec::new();
    for (name, array) in arrays {
        let inner = npy::render(array)?;
        if file.len() + directory.len() + inner.len() > FILE_BYTES_MAX {
            return Err(RenderError::TooMany(Limit::Bytes));
        }
        let name = format!("{name}{ENDING}");
        let fields = common_fields(&name, &inner);

        directory.extend_from_slice(RECORD_MAGIC);
        directory.extend_from_slice(&VERSION.to_le_bytes()); // made by
        directory.extend_from_slice(&fields);
        directory.extend_from_slice(&[0; 10]); // comment, part, attributes
        directory.extend_from_slice(&small(file.len()).to_le_bytes());
        directory.extend_from_slice(name.as_bytes());

        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&fields);
        file.extend_from_slice(name.as_bytes());
        file.extend_from_slice(&inner);
    }
    let (at, bytes) = (small(file.len()), small(directory.len()));
    let count = u16::try_from(arrays.len()).expect("there are at most 1024");
    file.append(&mut directory);
    file.extend_from_slice(END_MAGIC);
    file.extend_from_slice(&[0; 4]); // parts
    file.extend_from_slice(&count.to_le_bytes());
    file.extend_from_slice(&count.to_le_bytes());
    file.extend_from_slice(&bytes.to_le_bytes());
    file.extend_from_slice(&at.to_le_bytes());
    file.extend_from_slice(&[0; 2]); // comment
    if file.len() > FILE_BYTES_MAX {
        return Err(RenderError::TooMany(Limit::Bytes));
    }
    Ok(file)
}

/// What entry and record have in common: version, flags, method, time, sizes, length of the name.
fn common_fields(name: &str, inner: &[u8]) -> Vec<u8> {
    let name_bytes = u16::try_from(name.len()).expect("names are checked");
    let mut fields = Vec::new();
    for field in [VERSION, FLAG_UTF8, 0, 0, DATE] {
        fields.extend_from_slice(&field.to_le_bytes());
    }
    for field in [checksum(inner), small(inner.len()), small(inner.len())] {
        fields.extend_from_slice(&field.to_le_bytes());
    }
    fields.extend_from_slice(&name_bytes.to_le_bytes());
    fields.extend_from_slice(&[0; 2]); // extra fields
    fields
}

fn small(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("files are below 4 GiB")
}

/// Finds the end record, which lies before a comment of unknown length, and reads it.
fn find_directory(file: &[u8]) -> Result<Directory, ParseError> {
    const WANTED: &str = "the end record of a zip archive";
    if !file.starts_with(MAGIC) && !file.starts_with(END_MAGIC) {
        return Err(Cursor::new(file, 0).expected("a zip archive, which begins with PK"));
    }
    let Some(last) = file.len().checked_sub(END_BYTES) else {
        return Err(Fault::Ended(WANTED).at(file.len()));
    };
    let is_end = |at: &usize| {
        let record = file.get(*at..).unwrap_or_default();
        let comment = record.get(END_BYTES - 2..END_BYTES).and_then(|bytes| bytes.first_chunk());
        let comment = comment.map(|bytes| usize::from(u16::from_le_bytes(*bytes)));
        record.starts_with(END_MAGIC) && comment == Some(last - at)
    };
    let found = (last.saturating_sub(COMMENT_BYTES_MAX)..=last).rev().find(is_end);
    let end = found.ok_or_else(|| Fault::Ended(WANTED).at(file.len()))?;

    let mut cursor = Cursor::new(file, end + END_MAGIC.len());
    let parts = (cursor.u16(WANTED)?, cursor.u16(WANTED)?);
    let (records_here, records) = (cursor.u16(WANTED)?, cursor.u16(WANTED)?);
    let (bytes, at) = (cursor.u32(WANTED)?, cursor.u32(WANTED)?);
    let pointer = end.checked_sub(ZIP64_BYTES).and_then(|at| file.get(at..));
    let has_pointer = pointer.is_some_and(|bytes| bytes.starts_with(ZIP64_MAGIC));
    if has_pointer || records == u16::MAX || bytes == u32::MAX || at == u32::MAX {
        return Err(Fault::Unsupported(Feature::Zip64).at(end));
    }
    if parts != (0, 0) || records_here != records {
        return Err(Fault::Unsupported(Feature::Parts).at(end));
    }
    let (at, bytes) = (wide(at), wide(bytes));
    if at.checked_add(bytes) != Some(end) {
        return Err(Fault::Expected("a directory that ends where the end record begins").at(end));
    }
    Ok(Directory { at, records: usize::from(records) })
}

fn wide(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn read_record<'a>(cursor: &mut Cursor<'a>) -> Result<Record<'a>, ParseError> {
    const WANTED: &str = "a record of the archive's directory";
    let at = cursor.at();
    cursor.expect(RECORD_MAGIC, WANTED)?;
    cursor.take(4, WANTED)?; // versions
    let (flags, method) = (cursor.u16(WANTED)?, cursor.u16(WANTED)?);
    cursor.take(4, WANTED)?; // time
    let checksum = cursor.u32(WANTED)?;
    let (packed_bytes, bytes) = (cursor.u32(WANTED)?, cursor.u32(WANTED)?);
    let (name, extra) = (cursor.u16(WANTED)?, cursor.u16(WANTED)?);
    let (comment, part) = (cursor.u16(WANTED)?, cursor.u16(WANTED)?);
    cursor.take(6, WANTED)?; // attributes
    let entry_at = cursor.u32(WANTED)?;
    let name = cursor.take(usize::from(name), WANTED)?;
    let extra = cursor.take(usize::from(extra), WANTED)?;
    cursor.take(usize::from(comment), WANTED)?;

    let needs_zip64 = [packed_bytes, bytes, entry_at].contains(&u32::MAX) || has_zip64(extra);
    if needs_zip64 {
        return Err(Fault::Unsupported(Feature::Zip64).at(at));
    }
    if part != 0 {
        return Err(Fault::Unsupported(Feature::Parts).at(at));
    }
    if flags & FLAGS_REFUSED != 0 {
        return Err(Fault::Unsupported(Feature::Encryption).at(at));
    }
    let method = read_method(method).map_err(|fault| fault.at(at))?;
    let (packed_bytes, bytes, entry_at) = (wide(packed_bytes), wide(bytes), wide(entry_at));
    Ok(Record { at, name, method, checksum, packed_bytes, bytes, entry_at })
}

fn read_method(method: u16) -> Result<Method, Fault> {
    match method {
        0 => Ok(Method::Stored),
        8 => Ok(Method::Deflated),
        _ => Err(Fault::Unsupported(Feature::Method(method))),
    }
}

/// Whether zip64 sizes are among a record's extra fields, each an id, a length and its bytes.
fn has_zip64(extra: &[u8]) -> bool {
    const WANTED: &str = "an extra field";
    let mut cursor = Cursor::new(extra, 0);
    while let (Ok(id), Ok(length)) = (cursor.u16(WANTED), cursor.u16(WANTED)) {
        if id == ZIP64_FIELD {
            return true;
        }
        if cursor.take(usize::from(length), WANTED).is_err() {
            break; // other programs' fields are none of ours
        }
    }
    false
}

fn array_name<'a>(record: &Record<'a>) -> Result<&'a str, ParseError> {
    let name = str::from_utf8(record.name).ok().and_then(|name| name.strip_suffix(ENDING));
    let wanted = "an entry with a name in UTF-8 that ends in .npy";
    name.ok_or_else(|| Fault::Expected(wanted).at(record.at))
}

/// The packed bytes of an entry.
fn find_entry<'a>(
    file: &'a [u8],
    directory: &Directory,
    record: &Record<'_>,
) -> Result<&'a [u8], ParseError> {
    const WANTED: &str = "an entry of the archive";
    let entries = file.get(..directory.at).unwrap_or_default();
    let mut cursor = Cursor::new(entries, record.entry_at);
    cursor.expect(MAGIC, WANTED)?;
    cursor.take(4, WANTED)?; // version, flags
    let at = cursor.at();
    let method = read_method(cursor.u16(WANTED)?).map_err(|fault| fault.at(at))?;
    cursor.take(16, WANTED)?; // time, checksum, sizes: the directory's count
    let (name, extra) = (cursor.u16(WANTED)?, cursor.u16(WANTED)?);
    let name = cursor.take(usize::from(name), WANTED)?;
    cursor.take(usize::from(extra), WANTED)?;
    if name != record.name || method != record.method {
        let wanted = "an entry with the name and the method that the directory says";
        return Err(Fault::Expected(wanted).at(record.entry_at));
    }
    cursor.take(record.packed_bytes, "the bytes of an entry")
}

/// The bytes of an entry's file, which are exactly as many as declared and have its checksum.
fn unpack<'a>(packed: &'a [u8], record: &Record<'_>) -> Result<Cow<'a, [u8]>, ParseError> {
    let length = || Fault::Length { wanted: record.bytes }.at(record.entry_at);
    let inner = match record.method {
        Method::Stored if packed.len() == record.bytes => Cow::Borrowed(packed),
        Method::Stored => return Err(length()),
        Method::Deflated => {
            if record.bytes > packed.len().saturating_mul(INFLATE_RATIO_MAX) {
                return Err(length());
            }
            let mut inner = vec![0; record.bytes];
            let (status, read, written) =
                decompress(&mut DecompressorOxide::new(), packed, &mut inner, 0, INTO_WHOLE_OUTPUT);
            if !matches!(status, TINFLStatus::Done | TINFLStatus::HasMoreOutput) {
                return Err(Fault::Expected("a deflated entry").at(record.entry_at));
            }
            if status != TINFLStatus::Done || read != packed.len() || written != record.bytes {
                return Err(length());
            }
            Cow::Owned(inner)
        }
    };
    let (wanted, found) = (record.checksum, checksum(&inner));
    if wanted != found {
        return Err(Fault::Checksum { wanted, found }.at(record.entry_at));
    }
    Ok(inner)
}

/// An error of an entry's file, seen from the archive.
fn inside(name: &str, error: ParseError) -> ParseError {
    let at = match error.at {
        Place::Byte(byte) => Place::Entry { name: name.to_owned(), byte },
        at @ (Place::Text { .. } | Place::Entry { .. }) => at,
    };
    ParseError { at, fault: error.fault }
}

/// CRC-32 of ISO 3309, bit by bit for every byte.
const CHECKSUM_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ 0xedb8_8320 } else { rest >> 1 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
};

/// CRC-32 of ISO 3309, as zip uses it.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let step = |rest: u32, byte: &u8| {
        let [low, ..] = rest.to_le_bytes();
        CHECKSUM_TABLE[usize::from(low ^ byte)] ^ rest >> 8
    };
    !bytes.iter().fold(u32::MAX, step)
}
