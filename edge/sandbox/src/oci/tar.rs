//! The tar format, read entry by entry: ustar, the long names of GNU and the extended headers of
//! POSIX (pax). Own code rather than a library because of the bounds: a stranger's header must not
//! decide how much memory is used for a name.
//!
//! Format: POSIX.1-2017, «pax», and the GNU tar manual, «Basic Tar Format».

use std::io::{self, Read};

/// The unit of everything in an archive.
const BLOCK: usize = 512;
/// Names and extended headers; attributes of files are in these too, and are not used.
const EXTENSION_BYTES_MAX: u64 = 1 << 20;
/// Extended headers before one entry.
const EXTENSIONS_MAX: u32 = 16;
/// The longest path, as the kernel has it.
pub(crate) const PATH_BYTES_MAX: usize = 4095;

/// Why an archive cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    /// It ends in the middle, or cannot be read.
    #[error("it cannot be read")]
    Io(#[from] io::Error),
    /// A header's sum is wrong.
    #[error("a header has the wrong checksum")]
    Checksum,
    /// A number is none, or too large.
    #[error("a header has a bad number")]
    Number,
    /// A name or an extended header is too long.
    #[error("a name or an extended header has {bytes} bytes")]
    TooLong {
        /// How long.
        bytes: u64,
    },
    /// An extended header is not in order.
    #[error("an extended header is not in order")]
    Extension,
    /// Too many extended headers before one entry.
    #[error("an entry has more than {EXTENSIONS_MAX} extended headers")]
    TooManyExtensions,
    /// A kind of entry that is not supported.
    #[error("an entry has the type {0:?}")]
    Kind(char),
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    HardLink,
    Symlink,
    Device,
    Folder,
    Fifo,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: Vec<u8>,
    /// Where a link leads; empty for others.
    pub(crate) link: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    pub(crate) is_executable: bool,
}

/// Something that is read in order and can leave out a part.
pub(crate) trait Source: Read {
    /// Leaves out so many bytes.
    fn skip(&mut self, bytes: u64) -> io::Result<()>;
}

/// An archive that is being read.
pub(crate) struct Tar<R> {
    source: R,
    /// Bytes of the current entry that were not read.
    left: u64,
    /// Bytes after them, to the next block.
    padding: u64,
}

/// What extended headers say about the next entry.
#[derive(Default)]
struct Extended {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    bytes: Option<u64>,
}

impl<R: Source> Tar<R> {
    pub(crate) const fn new(source: R) -> Self {
        Self { source, left: 0, padding: 0 }
    }

    /// What is behind the archive.
    pub(crate) fn into_source(self) -> R {
        self.source
    }

    pub(crate) fn source(&mut self) -> &mut R {
        &mut self.source
    }

    /// The next entry; what was not read of the one before is left out.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, TarError> {
        let mut extended = Extended::default();
        for _ in 0..=EXTENSIONS_MAX {
            self.source.skip(self.left.saturating_add(self.padding))?;
            (self.left, self.padding) = (0, 0);
            let mut header = [0; BLOCK];
            self.source.read_exact(&mut header)?;
            if header.iter().all(|&byte| byte == 0) {
                return Ok(None);
            }
            check_sum(&header)?;
            let bytes = number(field(&header, 124, 12))?;
            let flag = header.get(156).copied().unwrap_or(0);
            match flag {
                b'L' => extended.path = Some(until_zero(self.extension(bytes)?)),
                b'K' => extended.link = Some(until_zero(self.extension(bytes)?)),
                b'x' => {
                    let records = self.extension(bytes)?;
                    read_records(&records, &mut extended)?;
                }
                // What holds for all entries: comments, in practice.
                b'g' => drop(self.extension(bytes)?),
                _ => return self.entry(&header, flag, bytes, extended).map(Some),
            }
        }
        Err(TarError::TooManyExtensions)
    }

    fn entry(
        &mut self,
        header: &[u8; BLOCK],
        flag: u8,
        bytes: u64,
        extended: Extended,
    ) -> Result<Entry, TarError> {
        let path = extended.path.unwrap_or_else(|| header_path(header));
        let kind = match flag {
            b'0' | 0 | b'7' if path.ends_with(b"/") => Kind::Folder,
            b'0' | 0 | b'7' => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::Symlink,
            b'3' | b'4' => Kind::Device,
            b'5' => Kind::Folder,
            b'6' => Kind::Fifo,
            other => return Err(TarError::Kind(char::from(other))),
        };
        let link = extended.link.unwrap_or_else(|| until_zero(field(header, 157, 100).to_vec()));
        for text in [&path, &link] {
            if text.len() > PATH_BYTES_MAX {
                let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
                return Err(TarError::TooLong { bytes });
            }
        }
        // Only files have content, whatever the header of a link states.
        let bytes = if kind == Kind::File { extended.bytes.unwrap_or(bytes) } else { 0 };
        self.left = bytes;
        self.padding = padding(bytes);
        let mode = number(field(header, 100, 8)).unwrap_or(0);
        let is_executable = mode & 0o111 != 0;
        Ok(Entry { path, link, kind, bytes, is_executable })
    }

    /// The content of a long name or an extended header.
    fn extension(&mut self, bytes: u64) -> Result<Vec<u8>, TarError> {
        let length = usize::try_from(bytes).ok().filter(|_| bytes <= EXTENSION_BYTES_MAX);
        let length = length.ok_or(TarError::TooLong { bytes })?;
        let mut content = vec![0; length];
        self.source.read_exact(&mut content)?;
        self.padding = padding(bytes);
        Ok(content)
    }
}

impl<R: Read> Read for Tar<R> {
    /// Reads the content of the current entry.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.source.read(buffer.get_mut(..room).unwrap_or_default())?;
        if count == 0 && room > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left = self.left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }
}

fn padding(bytes: u64) -> u64 {
    let block = u64::try_from(BLOCK).unwrap_or(1);
    (block - bytes % block) % block
}

fn field(header: &[u8; BLOCK], from: usize, length: usize) -> &[u8] {
    header.get(from..from.saturating_add(length)).unwrap_or_default()
}

fn until_zero(mut text: Vec<u8>) -> Vec<u8> {
    if let Some(end) = text.iter().position(|&byte| byte == 0) {
        text.truncate(end);
    }
    text
}

/// The path in a header: a prefix and a name, where the header is of the kind that has a prefix.
fn header_path(header: &[u8; BLOCK]) -> Vec<u8> {
    let name = until_zero(field(header, 0, 100).to_vec());
    let prefix = until_zero(field(header, 345, 155).to_vec());
    let has_prefix = field(header, 257, 6) == b"ustar\0" && !prefix.is_empty();
    if has_prefix { [prefix, b"/".to_vec(), name].concat() } else { name }
}

/// The sum of all bytes of a header, its own field counted as blanks.
fn check_sum(header: &[u8; BLOCK]) -> Result<(), TarError> {
    let stated = number(field(header, 148, 8)).map_err(|_| TarError::Checksum)?;
    let counted = header.iter().enumerate().map(|(index, &byte)| {
        if (148..156).contains(&index) { u64::from(b' ') } else { u64::from(byte) }
    });
    if counted.sum::<u64>() == stated { Ok(()) } else { Err(TarError::Checksum) }
}

/// A number in octal digits, or in binary where the first bit is set.
fn number(field: &[u8]) -> Result<u64, TarError> {
    if let Some((&first, rest)) = field.split_first().filter(|(first, _)| **first & 0x80 != 0) {
        let top = u64::from(first & 0x7f);
        return rest.iter().try_fold(top, |value, &byte| {
            value
                .checked_mul(256)
                .and_then(|value| value.checked_add(byte.into()))
                .ok_or(TarError::Number)
        });
    }
    let is_blank = |byte: &u8| *byte == b' ' || *byte == 0;
    let digits = field.iter().skip_while(|byte| is_blank(byte)).take_while(|byte| !is_blank(byte));
    digits.copied().try_fold(0_u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 8).ok_or(TarError::Number)?;
        value
            .checked_mul(8)
            .and_then(|value| value.checked_add(digit.into()))
            .ok_or(TarError::Number)
    })
}

/// Records of an extended header, each «length key=value\n» with the length of all of it.
fn read_records(mut records: &[u8], extended: &mut Extended) -> Result<(), TarError> {
    while !records.is_empty() {
        let blank = records.iter().position(|&byte| byte == b' ').ok_or(TarError::Extension)?;
        let length: usize = records
            .get(..blank)
            .and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
            .ok_or(TarError::Extension)?;
        let record = records.get(blank.saturating_add(1)..length).ok_or(TarError::Extension)?;
        let record = record.strip_suffix(b"\n").ok_or(TarError::Extension)?;
        let equals = record.iter().position(|&byte| byte == b'=').ok_or(TarError::Extension)?;
        let (key, value) = record.split_at(equals);
        let value = value.get(1..).unwrap_or_default();
        match key {
            b"path" => extended.path = Some(value.to_vec()),
            b"linkpath" => extended.link = Some(value.to_vec()),
            b"size" => {
                let text = std::str::from_utf8(value).map_err(|_| TarError::Extension)?;
                extended.bytes = Some(text.parse().map_err(|_| TarError::Number)?);
            }
            key if key.starts_with(b"GNU.sparse") => return Err(TarError::Kind('S')),
            _ => {}
        }
        records = records.get(length..).unwrap_or_default();
    }
    Ok(())
}
