//! A blob that is being written, in memory or in a file, and removed unless it is added.

use super::{BlobError, file_failed};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A blob that is being written.
#[derive(Debug)]
pub struct Draft {
    bytes_max: u64,
    left: u64,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    File(File, DraftFile),
}

/// A file that is removed when nobody needs it any more.
#[derive(Debug)]
pub(super) struct DraftFile(PathBuf);

impl DraftFile {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::debug!(%error, path = %self.0.display(), "a draft was not removed");
        }
    }
}

impl Draft {
    pub(super) fn in_memory(bytes_max: u64) -> Self {
        let bytes = Vec::with_capacity(usize::try_from(bytes_max).unwrap_or(0));
        Self { bytes_max, left: bytes_max, place: Place::Memory(bytes) }
    }

    pub(super) fn in_folder(folder: &Path, bytes_max: u64) -> Result<Self, BlobError> {
        let mut name = [0; 16];
        let drawn = getrandom::fill(&mut name).map_err(io::Error::other);
        drawn.map_err(|source| file_failed(folder, source))?;
        let path = folder.join(hex::encode(name));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|source| file_failed(&path, source))?;
        Ok(Self { bytes_max, left: bytes_max, place: Place::File(file, DraftFile(path)) })
    }

    pub(super) const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Whether it is written to a disk, which may take a while.
    #[must_use]
    pub const fn is_file(&self) -> bool {
        matches!(self.place, Place::File(..))
    }

    /// The file that was written, or else the bytes.
    pub(super) fn finish(self) -> Result<DraftFile, Vec<u8>> {
        match self.place {
            Place::File(_, path) => Ok(path),
            Place::Memory(bytes) => Err(bytes),
        }
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let left = self.left.checked_sub(count).ok_or(io::ErrorKind::FileTooLarge)?;
        match &mut self.place {
            Place::Memory(content) => content.extend_from_slice(bytes),
            Place::File(file, _) => file.write_all(bytes)?,
        }
        self.left = left;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // nothing is held back
    }
}
