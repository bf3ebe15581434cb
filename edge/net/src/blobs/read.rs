//! Reading a blob from its beginning.

use bytes::Bytes;
use std::fs::File;
use std::io::{self, Cursor, Read};

/// A blob that is being read. What was opened can be read to its end, also if the blob is removed
/// meanwhile.
#[derive(Debug)]
pub struct BlobReader {
    size_bytes: u64,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Memory(Cursor<Bytes>),
    File(File),
}

impl BlobReader {
    pub(super) fn of_bytes(bytes: Bytes) -> Self {
        let size_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Self { size_bytes, place: Place::Memory(Cursor::new(bytes)) }
    }

    pub(super) const fn of_file(file: File, size_bytes: u64) -> Self {
        Self { size_bytes, place: Place::File(file) }
    }

    /// How long the blob is.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Whether it is read from a disk, which may take a while.
    #[must_use]
    pub const fn is_file(&self) -> bool {
        matches!(self.place, Place::File(_))
    }
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.place {
            Place::Memory(bytes) => bytes.read(buffer),
            Place::File(file) => file.read(buffer),
        }
    }
}
