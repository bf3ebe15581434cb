//! Folders full of a stranger's files: walked while the stranger still writes, without following
//! its links, and removed whatever it built. Nothing here recurses, because the depth of
//! a stranger's tree is the stranger's choice.

use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::limits::Bytes;

/// The unit in which the operating system counts what a file takes.
pub(crate) const BLOCK_BYTES: u64 = 512;
/// Folders open at once on a walk; a deeper tree counts as too large.
const DEPTH_MAX: usize = 64;
/// Entries visited on one walk; a larger tree counts as too large.
const ENTRIES_MAX: u64 = 500_000;

/// Why files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
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
    /// More than expected.
    #[error("{path} has more than {max}")]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// The most it may have.
        max: Bytes,
    },
    /// Not a file: a folder, a link, a pipe.
    #[error("{path} is not a plain file")]
    NotAFile {
        /// What it is named.
        path: PathBuf,
    },
    /// More files than anybody wants.
    #[error("{path} has more than {max} files")]
    TooMany {
        /// Which folder.
        path: PathBuf,
        /// The most it may have.
        max: usize,
    },
    /// Too deep, too large or closed to us.
    #[error("{path} cannot be listed to the end")]
    Unlisted {
        /// Which folder.
        path: PathBuf,
    },
    /// The system gave no randomness.
    #[error("the operating system gives no random bytes")]
    Random(#[source] getrandom::Error),
}

impl FileError {
    /// An error of the operating system.
    pub(crate) fn io<E: Into<io::Error>>(
        verb: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { verb, path, source: source.into() }
    }
}

/// A name nobody guesses.
pub(crate) fn random_name(prefix: &str) -> Result<String, FileError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(FileError::Random)?;
    Ok(format!("{prefix}{}", hex::encode(bytes)))
}

/// What the tree below a folder takes on disk, while somebody may be changing it; nothing if it
/// cannot be counted.
pub(crate) fn measure(folder: &OwnedFd) -> Option<u64> {
    let mut bytes = 0_u64;
    let is_whole = walk(folder, &mut |_, stat| {
        let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
        bytes = bytes.saturating_add(blocks.saturating_mul(BLOCK_BYTES));
    });
    is_whole.then_some(bytes)
}

/// Visits every entry below a folder, without following links, while somebody may be changing it.
/// False if not all could be visited: too deep, too many entries, or closed to us.
pub(crate) fn walk(folder: &OwnedFd, visit: &mut dyn FnMut(&Path, &Stat)) -> bool {
    let Ok(top) = open_folder(folder, c".").and_then(Dir::new) else { return false };
    let mut open = vec![(top, PathBuf::new())];
    let mut entries = 0_u64;
    while let Some((folder, path)) = open.last_mut() {
        let entry = match folder.read() {
            None => {
                open.pop();
                continue;
            }
            Some(Err(_)) => return false,
            Some(Ok(entry)) if is_dots(entry.file_name()) => continue,
            Some(Ok(entry)) => entry,
        };
        entries = entries.saturating_add(1);
        if entries > ENTRIES_MAX {
            return false;
        }
        let Ok(at) = folder.fd() else { return false };
        // What is gone in the meantime takes no space.
        let Ok(stat) = rustix::fs::statat(at, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let path = path.join(OsStr::from_bytes(entry.file_name().to_bytes()));
        visit(&path, &stat);
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            continue;
        }
        match open_folder(at, entry.file_name()).and_then(Dir::new) {
            Ok(below) if open.len() < DEPTH_MAX => open.push((below, path)),
            Err(Errno::NOENT) => {}
            Ok(_) | Err(_) => return false,
        }
    }
    true
}

fn open_folder(at: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// Removes a folder and all that is in it, or a single file. Nobody may be writing to it any more.
///
/// Folders are moved up into `path` before they are emptied, so that the depth of the tree matters
/// neither for the stack nor for the number of open files nor for the length of a path. What its
/// owner made unreadable is made readable first.
pub(crate) fn remove_tree(path: &Path) -> Result<(), FileError> {
    let io = |error: Errno| FileError::io("remove", path)(error);
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(FileError::io("remove", path)(error)),
        Ok(metadata) if !metadata.is_dir() => {
            return fs::remove_file(path).map_err(FileError::io("remove", path));
        }
        Ok(_) => {}
    }
    let _best_effort = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(io)?;
    let mut moved = 0_u64;
    loop {
        let names = folders_after_removing_files(&top).map_err(io)?;
        if names.is_empty() {
            break;
        }
        for name in names {
            let below = open_for_removal(&top, &name).map_err(io)?;
            for inner in folders_after_removing_files(&below).map_err(io)? {
                make_ours(&below, &inner);
                moved = moved.saturating_add(1);
                let to = format!(".tensorgrid-{moved}-{}", random_name("")?);
                rustix::fs::renameat(&below, &inner, &top, to.as_str()).map_err(io)?;
            }
            rustix::fs::unlinkat(&top, &name, AtFlags::REMOVEDIR).map_err(io)?;
        }
    }
    fs::remove_dir(path).map_err(FileError::io("remove", path))
}

/// Removes all files in a folder; returns the names of its folders.
fn folders_after_removing_files(folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut folders = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if is_dots(entry.file_name()) {
            continue;
        }
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            let stat = rustix::fs::statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
            kind = FileType::from_raw_mode(stat.st_mode);
        }
        if kind == FileType::Directory {
            folders.push(entry.file_name().to_owned());
        } else {
            rustix::fs::unlinkat(folder, entry.file_name(), AtFlags::empty())?;
        }
    }
    Ok(folders)
}

fn open_for_removal(top: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    make_ours(top, name);
    open_folder(top, name)
}

/// Makes a folder readable and writable; where that fails, the next step says why.
fn make_ours(at: &OwnedFd, name: &CStr) {
    let _next_step_fails = rustix::fs::chmodat(at, name, Mode::RWXU, AtFlags::empty());
}

/// A folder of one's own, removed with everything in it when dropped.
#[derive(Debug)]
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Makes one in the system's place for such folders.
    #[cfg(test)]
    pub(crate) fn new() -> Result<Self, FileError> {
        Self::below(&std::env::temp_dir(), "tg-sandbox-")
    }

    /// Makes one in a folder.
    pub(crate) fn below(folder: &Path, prefix: &str) -> Result<Self, FileError> {
        let path = folder.join(random_name(prefix)?);
        fs::create_dir(&path).map_err(FileError::io("make the folder", &path))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _swept_at_the_next_start = remove_tree(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::{TemporaryFolder, measure, remove_tree};
    use rustix::fs::{Mode, OFlags};
    use std::fs;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    fn open(path: &Path) -> OwnedFd {
        OwnedFd::from(fs::File::open(path).expect("opens"))
    }

    /// Makes `depth` folders in each other, with names that soon make a path too long.
    fn nest(path: &Path, depth: usize) {
        let mut at = open(path);
        for _ in 0..depth {
            rustix::fs::mkdirat(&at, "deeper", Mode::RWXU).expect("makes");
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            at = rustix::fs::openat(&at, "deeper", flags, Mode::empty()).expect("opens");
        }
    }

    #[test]
    fn tree_of_any_depth_is_removed() {
        let folder = TemporaryFolder::new().expect("a folder");
        let path = folder.path().join("tree");
        fs::create_dir(&path).expect("makes");
        nest(&path, 1500);
        fs::create_dir(path.join("closed")).expect("makes");
        fs::write(path.join("closed/file"), "x").expect("writes");
        symlink("/", path.join("link")).expect("links");
        fs::set_permissions(path.join("closed"), fs::Permissions::from_mode(0o000))
            .expect("closes");
        remove_tree(&path).expect("removes");
        assert!(!path.exists());
        remove_tree(&path).expect("nothing to do");
        assert!(Path::new("/").exists());
    }

    #[test]
    fn measuring_counts_blocks_and_gives_up_on_hostile_trees() {
        let folder = TemporaryFolder::new().expect("a folder");
        fs::create_dir(folder.path().join("a")).expect("makes");
        fs::write(folder.path().join("a/file"), vec![1; 100_000]).expect("writes");
        symlink("/usr", folder.path().join("out")).expect("links");
        let bytes = measure(&open(folder.path())).expect("can be counted");
        assert!((100_000..200_000).contains(&bytes), "{bytes}");
        nest(folder.path(), 100);
        assert_eq!(measure(&open(folder.path())), None);
    }
}
