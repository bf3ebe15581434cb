//! Where the parts of an image are: files of a folder, or stretches of one archive. Either way a
//! part is found by its name in the image and read in order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Take};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use sha2::{Digest as _, Sha256};

use super::tar::{Kind, Source, Tar};
use super::{DOCUMENT_BYTES_MAX, ImageError};
use crate::files::FileError;

/// Parts of one archive; a layer is one, a document is one.
const PARTS_MAX: usize = 10_000;

/// An image as it is stored.
pub(super) enum Store {
    /// A folder.
    Folder(OwnedFd),
    /// An archive, with where each part begins and how long it is. Parts share the position in the
    /// file, so they are read one after the other.
    Archive(File, BTreeMap<String, (u64, u64)>),
}

/// A part that is being read.
pub(super) type Part = Take<File>;

impl Store {
    pub(super) fn open(path: &Path) -> Result<Self, ImageError> {
        let io = |error: io::Error| FileError::io("open", path)(error);
        let file = File::open(path).map_err(io)?;
        if file.metadata().map_err(io)?.is_dir() {
            return Ok(Self::Folder(file.into()));
        }
        let parts = index(file.try_clone().map_err(io)?)?;
        Ok(Self::Archive(file, parts))
    }

    /// Opens a part; nothing if it is not there.
    pub(super) fn part(&self, name: &str) -> Result<Option<Part>, ImageError> {
        let read = |source: io::Error| ImageError::Read { part: name.to_owned(), source };
        match self {
            Self::Folder(folder) => {
                let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
                let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
                let opened = rustix::fs::openat2(folder, name, flags, Mode::empty(), resolve);
                let file = match opened {
                    Ok(file) => file,
                    Err(rustix::io::Errno::NOENT) => return Ok(None),
                    Err(error) => return Err(read(error.into())),
                };
                let stat = rustix::fs::fstat(&file).map_err(|error| read(error.into()))?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                    return Err(read(io::ErrorKind::InvalidInput.into()));
                }
                let bytes = u64::try_from(stat.st_size).unwrap_or(0);
                Ok(Some(File::from(file).take(bytes)))
            }
            Self::Archive(file, parts) => {
                let Some(&(from, bytes)) = parts.get(name) else { return Ok(None) };
                let mut file = file.try_clone().map_err(read)?;
                file.seek(SeekFrom::Start(from)).map_err(read)?;
                Ok(Some(file.take(bytes)))
            }
        }
    }

    /// Reads a whole document.
    pub(super) fn document(&self, name: &str) -> Result<Option<Vec<u8>>, ImageError> {
        let Some(part) = self.part(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = |source| ImageError::Read { part: name.to_owned(), source };
        part.take(DOCUMENT_BYTES_MAX.saturating_add(1)).read_to_end(&mut bytes).map_err(read)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > DOCUMENT_BYTES_MAX {
            return Err(ImageError::TooLarge { part: name.to_owned(), max: DOCUMENT_BYTES_MAX });
        }
        Ok(Some(bytes))
    }
}

/// A file in which parts are left out by moving on.
struct Seeking(File);

impl Read for Seeking {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Source for Seeking {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let bytes =
            i64::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        self.0.seek(SeekFrom::Current(bytes)).map(drop)
    }
}

/// Finds all parts of an archive.
fn index(file: File) -> Result<BTreeMap<String, (u64, u64)>, ImageError> {
    let fault = |source| ImageError::Tar { layer: 0, source };
    let io = |source| ImageError::Read { part: "archive".to_owned(), source };
    let length = file.metadata().map_err(io)?.len();
    let mut tar = Tar::new(Seeking(file));
    let mut parts = BTreeMap::new();
    while let Some(entry) = tar.next().map_err(fault)? {
        if entry.kind != Kind::File {
            continue;
        }
        let from = tar.source().0.stream_position().map_err(io)?;
        if from.checked_add(entry.bytes).is_none_or(|end| end > length) {
            return Err(io(io::ErrorKind::UnexpectedEof.into()));
        }
        if parts.len() >= PARTS_MAX {
            let max = u64::try_from(PARTS_MAX).unwrap_or(u64::MAX);
            return Err(ImageError::TooManyEntries { max });
        }
        parts.insert(plain_name(&entry.path), (from, entry.bytes));
    }
    Ok(parts)
}

/// `./blobs/x` and `blobs/x` are the same part.
fn plain_name(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path).into_owned();
    let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
}

/// A hash as images state it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sha([u8; 32]);

impl Sha {
    pub(super) fn parse(text: &str) -> Result<Self, ImageError> {
        let bytes = text.strip_prefix("sha256:").and_then(|digits| hex::decode(digits).ok());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| ImageError::Digest { digest: text.to_owned() })
    }

    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The part's name in a layout.
    pub(super) fn blob(&self) -> String {
        format!("blobs/sha256/{}", hex::encode(self.0))
    }
}

/// Hashes what is read.
pub(super) struct Hashing<R> {
    source: R,
    hash: Sha256,
}

impl<R: Read> Hashing<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, hash: Sha256::new() }
    }

    pub(super) fn finish(self) -> (R, Sha) {
        (self.source, Sha(self.hash.finalize().into()))
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.hash.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}
