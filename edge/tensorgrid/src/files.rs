//! Files: written whole or not at all, secrets for their owner only, read with a bound.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    thread,
};

/// The unit in which the operating system counts what a file takes.
const BLOCK_BYTES: u64 = 512;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The operating system refused.
    #[error("cannot {verb} {path}")]
    Io {
        /// What was tried.
        verb: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// There is more than expected.
    #[error("{path} has more than {max} bytes")]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// The most it may have.
        max: u64,
    },
    /// The system gave no randomness.
    #[error("the operating system gives no random bytes")]
    Random(#[source] getrandom::Error),
}

impl FileError {
    /// An error of the operating system.
    pub(crate) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { verb, path, source }
    }

    /// Whether the file simply is not there.
    #[must_use]
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Its owner only.
    Owner,
    /// Everybody.
    All,
}

impl Readers {
    const fn mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::All => 0o644,
        }
    }
}

/// Random bytes from the operating system.
///
/// # Errors
/// If it gives none.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], FileError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(FileError::Random)?;
    Ok(bytes)
}

/// Makes a folder and those above it, for their owner only.
///
/// # Errors
/// If the operating system refuses.
pub(crate) fn make_folder(path: &Path) -> Result<(), FileError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(FileError::io("make the folder", path))
}

/// Writes a file whole: a reader sees the old content or the new one, also after a power cut.
///
/// # Errors
/// If the operating system refuses; then the old content is still there.
pub(crate) fn write(path: &Path, bytes: &[u8], readers: Readers) -> Result<(), FileError> {
    let mut draft = Draft::new(path, readers)?;
    draft.write_all(bytes).map_err(FileError::io("write", path))?;
    draft.finish()
}

/// A file that is written piece by piece, and is there when it is finished or not at all.
#[derive(Debug)]
pub(crate) struct Draft {
    file: File,
    written: Written,
}

/// A file that is written, on disk and closed, and not in its place yet.
#[derive(Debug)]
pub(crate) struct Written {
    /// What it is called until then.
    draft: PathBuf,
    path: PathBuf,
}

impl Draft {
    /// Begins a file.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub(crate) fn new(path: &Path, readers: Readers) -> Result<Self, FileError> {
        // Short, because a file's own name may be as long as names can be.
        let draft = folder_of(path).join(format!(".{}", hex::encode(random::<8>()?)));
        let mut options = OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(readers.mode()).open(&draft);
        let file = opened.map_err(FileError::io("write", path))?;
        Ok(Self { file, written: Written { draft, path: path.to_owned() } })
    }

    /// Closes the file, for whoever finishes many together.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub(crate) fn close(self) -> Result<Written, FileError> {
        self.file.sync_all().map_err(FileError::io("write", &self.written.path))?;
        Ok(self.written)
    }

    /// Puts the file in its place, over what was there.
    ///
    /// # Errors
    /// If the operating system refuses; then the old content is still there.
    pub(crate) fn finish(self) -> Result<(), FileError> {
        self.close()?.finish()
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Written {
    /// Puts the file in its place, over what was there.
    ///
    /// # Errors
    /// If the operating system refuses; then the old content is still there.
    pub(crate) fn finish(self) -> Result<(), FileError> {
        let renamed = fs::rename(&self.draft, &self.path);
        let done = renamed.and_then(|()| File::open(folder_of(&self.path))?.sync_all());
        done.map_err(FileError::io("write", &self.path))
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _absent_when_finished = fs::remove_file(&self.draft);
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Reads a whole file of at most `max` bytes.
///
/// # Errors
/// If it is larger, or the operating system refuses.
pub(crate) fn read(path: &Path, max: u64) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(max.saturating_add(1)).read_to_end(&mut bytes))
        .map_err(FileError::io("read", path))?;
    if bytes.len() as u64 > max {
        return Err(FileError::TooLarge { path: path.to_owned(), max });
    }
    Ok(bytes)
}

/// Whether a folder holds nothing, or is not there.
///
/// # Errors
/// If it cannot be listed.
pub(crate) fn is_empty_folder(path: &Path) -> Result<bool, FileError> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(FileError::io("list", path)(error)),
    }
}

/// Bytes that all files below a folder take on disk, as far as they can be seen.
#[must_use]
pub(crate) fn folder_bytes(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => folder_bytes(&entry.path()),
        Ok(data) => data.blocks() * BLOCK_BYTES,
        Err(_) => 0, // gone in the meantime
    };
    entries.flatten().map(size).sum()
}

/// A temporary folder, removed with everything in it when dropped.
#[derive(Debug)]
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Makes one for this user only.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub(crate) fn new() -> Result<Self, FileError> {
        let name = format!("tensorgrid-{}", hex::encode(random::<8>()?));
        let path = std::env::temp_dir().join(name);
        make_folder(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Each removal waits for the disk; side by side hundreds of them are quick.
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        thread::scope(|scope| {
            for path in entries.map(|entry| entry.path()).filter(|path| path.is_dir()) {
                scope.spawn(move || fs::remove_dir_all(path));
            }
        });
        let _left_to_the_system = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::{FileError, Readers, TemporaryFolder, folder_bytes, is_empty_folder, read, write};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn secret_file_is_for_its_owner_only() {
        let folder = TemporaryFolder::new().expect("a folder");
        let path = folder.path().join("key");
        write(&path, b"old", Readers::Owner).expect("writes");
        write(&path, b"new", Readers::Owner).expect("writes again");
        assert_eq!(read(&path, 3).expect("reads"), b"new");
        let mode = std::fs::metadata(&path).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let left = std::fs::read_dir(folder.path()).expect("lists").count();
        assert_eq!(left, 1, "no draft is left behind");
        assert!(folder_bytes(folder.path()) <= 64 << 10);
    }

    #[test]
    fn file_that_is_too_large_or_absent_is_refused() {
        let folder = TemporaryFolder::new().expect("a folder");
        let path = folder.path().join("file");
        assert!(read(&path, 1).expect_err("absent").is_absent());
        write(&path, b"12", Readers::All).expect("writes");
        assert!(matches!(read(&path, 1), Err(FileError::TooLarge { max: 1, .. })));
    }

    #[test]
    fn temporary_folder_is_gone_after_use() {
        let folder = TemporaryFolder::new().expect("a folder");
        let path = folder.path().to_owned();
        assert!(is_empty_folder(&path).expect("lists"));
        write(&path.join("x"), b"x", Readers::All).expect("writes");
        assert!(!is_empty_folder(&path).expect("lists"));
        drop(folder);
        assert!(!path.exists());
    }
}
