//! Packages as streams: what is inside passes through one chunk of memory on its way in and out.
//!
//! Everything that has parts of any length is written alike: a head that says what follows, with
//! its own length before it, and then the bytes that it announces, one part after the other. The
//! head is small and read whole; the rest is read by whoever knows where it goes. There is one form
//! for each content: heads are canonical, and whoever reads to the end refuses bytes behind it.

use crate::package::PackageError;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use tg_privacy::content::CHUNK_BYTES;
use tg_privacy::{ContentKey, Context, OpenError, Opener, Randomness, Sealer};
use tg_types::{Decode, Encode, Hash32};

/// The longest head of anything: what a program said, its command line and the names of its files,
/// with room to spare.
pub const HEAD_BYTES_MAX: usize = 32 << 20;

/// Bytes that are read or written at once.
const PIECE_BYTES: usize = 4 * CHUNK_BYTES;

/// What goes into a package. It can be written as often as needed, and is the same every time.
pub trait Plain: Send + Sync {
    /// How many bytes it has.
    fn bytes(&self) -> u64;

    /// Writes all of it.
    ///
    /// # Errors
    /// If it cannot be read, or is not what it was.
    fn write(&self, out: &mut dyn Write) -> io::Result<()>;
}

impl Plain for Vec<u8> {
    fn bytes(&self) -> u64 {
        length(self)
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(self)
    }
}

/// How many bytes there are.
pub(crate) fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Content of a file that is in memory or on a disk.
#[derive(Clone, Debug)]
pub enum FileSource {
    /// In memory.
    Bytes(Arc<[u8]>),
    /// On a disk, as long as this and with this hash when it was looked at.
    Path {
        /// Where.
        path: PathBuf,
        /// How long.
        bytes: u64,
        /// The SHA-256 of it.
        hash: Hash32,
    },
}

impl FileSource {
    /// A file on disk, which is read once to know its hash.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        let (mut hash, mut file) = (Hashing::new(io::sink()), File::open(&path)?);
        let bytes = copy(&mut file, &mut hash, u64::MAX)?;
        Ok(Self::Path { path, bytes, hash: hash.finish() })
    }

    /// How long it is.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => length(bytes),
            Self::Path { bytes, .. } => *bytes,
        }
    }

    /// The SHA-256 of it.
    #[must_use]
    pub fn hash(&self) -> Hash32 {
        match self {
            Self::Bytes(bytes) => Hash32::new(tg_types::hash::sha256(&[bytes])),
            Self::Path { hash, .. } => *hash,
        }
    }

    /// Writes it, if it is still the same.
    ///
    /// # Errors
    /// If it cannot be read or has changed.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Bytes(bytes) => out.write_all(bytes),
            Self::Path { path, bytes, hash } => {
                let mut file = File::open(path)?;
                copy_checked(&mut file, out, *bytes, hash).map_err(|error| {
                    if is_other_content(&error) {
                        io::Error::other(format!("{} changed while it was read", path.display()))
                    } else {
                        error
                    }
                })
            }
        }
    }
}

/// Whether a stream could be read and is not what it should be.
pub(crate) fn is_other_content(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

/// Hashes what is written.
pub struct Hashing<W> {
    out: W,
    hash: sha2::Sha256,
}

impl<W: Write> Hashing<W> {
    /// Passes everything on.
    pub fn new(out: W) -> Self {
        Self { out, hash: sha2::Digest::new() }
    }

    /// The SHA-256 of what was written.
    #[must_use]
    pub fn finish(self) -> Hash32 {
        Hash32::new(sha2::Digest::finalize(self.hash).into())
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        sha2::Digest::update(&mut self.hash, bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Copies at most so many bytes and says how many there were.
///
/// # Errors
/// If one side fails.
pub fn copy(from: &mut dyn Read, to: &mut dyn Write, most: u64) -> io::Result<u64> {
    let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(most).unwrap_or(PIECE_BYTES))];
    let mut copied = 0_u64;
    while copied < most {
        let left = usize::try_from(most - copied).unwrap_or(usize::MAX).min(piece.len());
        let count = match from.read(piece.get_mut(..left).unwrap_or_default()) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(piece.get(..count).unwrap_or_default())?;
        copied += u64::try_from(count).unwrap_or(0);
    }
    Ok(copied)
}

/// Copies exactly so many bytes, which must have this hash. What was written counts only if this
/// ends well.
///
/// # Errors
/// If one side fails, there are fewer bytes, or they are others.
pub fn copy_checked(
    from: &mut dyn Read,
    to: &mut dyn Write,
    bytes: u64,
    hash: &Hash32,
) -> io::Result<()> {
    let mut hashing = Hashing::new(to);
    if copy(from, &mut hashing, bytes)? != bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let is_right = hashing.finish() == *hash;
    if is_right { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Reads exactly so many bytes into memory. The caller has held their number against what there
/// can be.
pub(crate) fn read_bytes(from: &mut dyn Read, bytes: u64) -> Result<Vec<u8>, PackageError> {
    let count = usize::try_from(bytes).map_err(|_| PackageError::Memory { needed: bytes })?;
    let mut content = Vec::new();
    content.try_reserve_exact(count).map_err(|_| PackageError::Memory { needed: bytes })?;
    let found = from.take(bytes).read_to_end(&mut content)?;
    if found == count { Ok(content) } else { Err(truncated()) }
}

fn truncated() -> PackageError {
    io::Error::from(io::ErrorKind::UnexpectedEof).into()
}

/// Refuses whatever comes behind the last part. Whether a package was sealed to its end is known
/// only then.
///
/// # Errors
/// If there is something, or the package does not end well.
pub fn expect_end(from: &mut dyn Read) -> Result<(), PackageError> {
    let mut more = [0];
    match from.read(&mut more)? {
        0 => Ok(()),
        _ => Err(PackageError::Trailing),
    }
}

/// A head with its length before it.
pub(crate) fn head_bytes(head: &impl Encode) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    head.encode(&mut bytes);
    let length = bytes.len() - 4;
    if length > HEAD_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    bytes.get_mut(..4).unwrap_or_default().copy_from_slice(&length);
    Ok(bytes)
}

/// Reads a head and leaves the reader behind it.
///
/// # Errors
/// If it is too long, or is not the one form of a head.
pub fn read_head<T: Decode>(from: &mut dyn Read, most: usize) -> Result<T, PackageError> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let found = u64::from(u32::from_be_bytes(length));
    if found > u64::try_from(most).unwrap_or(u64::MAX) {
        return Err(PackageError::Head { found, max: most });
    }
    // Grows with what is really there.
    let mut bytes = Vec::new();
    let read = from.take(found).read_to_end(&mut bytes)?;
    if u64::try_from(read).unwrap_or(u64::MAX) != found {
        return Err(truncated());
    }
    Ok(T::from_bytes(&bytes)?)
}

/// Seals what is written to it.
pub(crate) struct Sealing<'a> {
    sealer: Sealer,
    out: &'a mut dyn Write,
    /// Sealed and not yet passed on: at most one piece.
    sealed: Vec<u8>,
}

impl<'a> Sealing<'a> {
    pub(crate) fn start(
        key: &ContentKey,
        context: &Context,
        randomness: Randomness,
        out: &'a mut dyn Write,
    ) -> Self {
        let mut sealed = Vec::new();
        let sealer = Sealer::start(key, context, randomness, &mut sealed);
        Self { sealer, out, sealed }
    }

    fn pass_on(&mut self) -> io::Result<()> {
        self.out.write_all(&self.sealed)?;
        self.sealed.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<(), PackageError> {
        self.pass_on()?;
        self.sealer.finish(&mut self.sealed)?;
        Ok(self.out.write_all(&self.sealed)?)
    }
}

impl Write for Sealing<'_> {
    fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        let piece = plain.get(..PIECE_BYTES).unwrap_or(plain);
        self.sealer.push(piece, &mut self.sealed).map_err(io::Error::other)?;
        self.pass_on()?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // a chunk waits until it is known whether it is the last
    }
}

/// Opens what it reads. Whoever reads to the end knows that nothing was cut off; a chunk that is
/// not what was sealed in its place is an error of kind [`io::ErrorKind::InvalidData`].
pub struct Opening<R> {
    source: R,
    /// Gone when the end was reached.
    opener: Option<Opener>,
    /// A piece as it came.
    sealed: Vec<u8>,
    /// What it was opened to, and how much of that was read.
    plain: Vec<u8>,
    read: usize,
}

impl<R: Read> Opening<R> {
    /// Expects a sealed message of this context under this key, of which `begun` was read already.
    pub(crate) fn new(
        key: &ContentKey,
        context: &Context,
        begun: &[u8],
        source: R,
    ) -> Result<Self, OpenError> {
        let (mut opener, mut plain) = (Opener::new(key, context), Vec::new());
        opener.push(begun, &mut plain)?;
        Ok(Self { source, opener: Some(opener), sealed: Vec::new(), plain, read: 0 })
    }

    fn open_more(&mut self) -> io::Result<()> {
        let wrong = |error: OpenError| io::Error::new(io::ErrorKind::InvalidData, error);
        self.read = 0;
        self.plain.clear();
        while self.plain.is_empty()
            && let Some(opener) = &mut self.opener
        {
            self.sealed.resize(PIECE_BYTES, 0);
            match self.source.read(&mut self.sealed) {
                Ok(0) => {
                    let last = self.opener.take().map(|it| it.finish(&mut self.plain));
                    return last.unwrap_or(Ok(())).map_err(wrong);
                }
                Ok(count) => {
                    let piece = self.sealed.get(..count).unwrap_or_default();
                    opener.push(piece, &mut self.plain).map_err(wrong)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Opening<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read >= self.plain.len() {
            self.open_more()?;
        }
        let mut rest = self.plain.get(self.read..).unwrap_or_default();
        let count = rest.read(buffer)?;
        self.read += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
