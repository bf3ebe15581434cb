//! What a task left in its folder of outputs. The files stay where the task wrote them, in memory
//! or on disk, until their reader drops them; nothing is copied and nothing outlives the reader.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::files::{FileError, walk};
use crate::limits::Bytes;
use crate::run_folder::RunFolder;

/// The folder of outputs in the work folder; [`crate::OUTPUT_FOLDER`] is a link to it.
pub(crate) const OUTPUT_NAME: &str = "out";
/// Files of one task; who has more packs them.
const FILES_MAX: usize = 10_000;

/// What a task left in [`crate::OUTPUT_FOLDER`]. Its work folder is wiped when this is dropped, or
/// at once if there is nothing to read.
#[derive(Debug, Default)]
pub struct Outputs {
    folder: Option<OwnedFd>,
    files: Vec<OutputFile>,
    left_out: usize,
    /// Held as long as there is something to read.
    _run: Option<RunFolder>,
}

/// A plain file that a task left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutputFile {
    /// Where it is in the folder of outputs.
    pub path: PathBuf,
    /// How long it is.
    pub bytes: Bytes,
}

impl Outputs {
    /// Lists the outputs in a work folder, if there is one, which stays if it is kept. All
    /// processes of the task have ended.
    pub(crate) fn find(
        work: Option<&OwnedFd>,
        (run, is_kept): (RunFolder, bool),
        max: Bytes,
    ) -> Result<Self, FileError> {
        let Some(work) = work else { return Ok(Self::default()) };
        let found = Self::look(work, OUTPUT_NAME, max)?;
        let held = (is_kept || !found.files.is_empty()).then_some(run);
        Ok(Self { _run: held, ..found })
    }

    /// Lists a folder in a work folder as it is now, whoever changes it meanwhile.
    pub(crate) fn look(work: &OwnedFd, name: &str, max: Bytes) -> Result<Self, FileError> {
        let (mut found, name) = (Self::default(), Path::new(name));
        let folder = match open(work, name, OFlags::DIRECTORY) {
            Err(Errno::NOENT) => return Ok(found), // the task has removed it
            opened => opened.map_err(FileError::io("open", name))?,
        };
        let Self { files, left_out, .. } = &mut found;
        let is_whole = walk(&folder, &mut |path, stat| {
            let bytes = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
            let kind = FileType::from_raw_mode(stat.st_mode);
            if kind == FileType::RegularFile && files.len() <= FILES_MAX {
                files.push(OutputFile { path: path.to_owned(), bytes: Bytes::new(bytes) });
            } else if kind != FileType::Directory {
                *left_out = left_out.saturating_add(1);
            }
        });
        if !is_whole {
            return Err(FileError::Unlisted { path: name.to_owned() });
        }
        if files.len() > FILES_MAX {
            return Err(FileError::TooMany { path: name.to_owned(), max: FILES_MAX });
        }
        // What files say of themselves: one with holes takes less space, but as long to read.
        let bytes = files.iter().map(|file| file.bytes.get()).fold(0, u64::saturating_add);
        if bytes > max.get() {
            return Err(FileError::TooLarge { path: name.to_owned(), max });
        }
        if !files.is_empty() {
            files.sort();
            found.folder = Some(folder);
        }
        Ok(found)
    }

    /// The plain files, by path.
    #[must_use]
    pub fn files(&self) -> &[OutputFile] {
        &self.files
    }

    /// How many links, pipes and sockets are there besides; they are nothing outside the sandbox.
    #[must_use]
    pub const fn left_out(&self) -> usize {
        self.left_out
    }

    /// Opens a file to be read. Links are not followed: the task has chosen where they lead.
    ///
    /// # Errors
    /// If it is not there, not a plain file or closed to us.
    pub fn open(&self, path: &Path) -> Result<File, FileError> {
        let opened = self.folder.as_ref().map(|folder| open(folder, path, OFlags::NONBLOCK));
        let opened = opened.unwrap_or(Err(Errno::NOENT));
        let file = File::from(opened.map_err(FileError::io("open", path))?);
        let metadata = file.metadata().map_err(FileError::io("look at", path))?;
        if metadata.is_file() {
            Ok(file)
        } else {
            Err(FileError::NotAFile { path: path.to_owned() })
        }
    }
}

fn open(folder: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(folder, path, flags, Mode::empty(), resolve)
}

#[cfg(test)]
mod tests {
    use super::Outputs;
    use crate::files::{FileError, TemporaryFolder};
    use crate::limits::Bytes;
    use crate::run_folder::RunFolder;
    use rustix::fs::{CWD, FileType, Mode};
    use std::fs::{self, File};
    use std::io::Read as _;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// What is found in a work folder that a task left like this.
    fn found(
        make: impl FnOnce(&Path),
        max: Bytes,
    ) -> (TemporaryFolder, Result<Outputs, FileError>) {
        let folder = TemporaryFolder::new().expect("a folder");
        let run = RunFolder::make(folder.path()).expect("a run");
        let work = run.path().join("job");
        fs::create_dir_all(work.join("out")).expect("makes");
        make(&work);
        let work = OwnedFd::from(File::open(work).expect("opens"));
        (folder, Outputs::find(Some(&work), (run, false), max))
    }

    #[test]
    fn plain_files_are_found_and_read_and_then_gone() {
        let make = |work: &Path| {
            fs::create_dir_all(work.join("out/a/b")).expect("makes");
            fs::write(work.join("out/a/b/file"), "hello").expect("writes");
            fs::write(work.join("out/x"), "").expect("writes");
            fs::write(work.join("beside"), "not an output").expect("writes");
            symlink("/etc/passwd", work.join("out/absolute")).expect("links");
            symlink("../beside", work.join("out/up")).expect("links");
            symlink("a", work.join("out/inner")).expect("links");
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(CWD, work.join("out/pipe"), FileType::Fifo, mode, 0).expect("pipe");
        };
        let (folder, outputs) = found(make, Bytes::new(5));
        let outputs = outputs.expect("finds");
        let files: Vec<(&Path, u64)> =
            outputs.files().iter().map(|file| (file.path.as_path(), file.bytes.get())).collect();
        assert_eq!(files, [(Path::new("a/b/file"), 5), (Path::new("x"), 0)]);
        assert_eq!(outputs.left_out(), 4);
        let mut text = String::new();
        let mut file = outputs.open("a/b/file".as_ref()).expect("opens");
        file.read_to_string(&mut text).expect("reads");
        assert_eq!(text, "hello");
        for name in ["absolute", "up", "inner/b/file", "../beside", "/etc/passwd", "none"] {
            let refused = outputs.open(name.as_ref());
            assert!(matches!(refused, Err(FileError::Io { .. })), "{name}");
        }
        for name in ["a", "pipe"] {
            let refused = outputs.open(name.as_ref());
            assert!(matches!(refused, Err(FileError::NotAFile { .. })), "{name}");
        }
        drop(outputs);
        assert_eq!(fs::read_dir(folder.path()).expect("lists").count(), 0, "wiped");
    }

    #[test]
    fn too_much_and_too_many_are_refused_and_wiped() {
        let sparse = |work: &Path| {
            let file = File::create(work.join("out/holes")).expect("makes");
            file.set_len(1 << 40).expect("grows");
        };
        let (folder, refused) = found(sparse, Bytes::mib(1));
        assert!(matches!(refused, Err(FileError::TooLarge { .. })), "{refused:?}");
        assert_eq!(fs::read_dir(folder.path()).expect("lists").count(), 0);
        let many = |work: &Path| {
            for number in 0..=super::FILES_MAX {
                File::create(work.join(format!("out/{number}"))).expect("makes");
            }
        };
        let (_folder, refused) = found(many, Bytes::mib(1));
        assert!(matches!(refused, Err(FileError::TooMany { .. })), "{refused:?}");
    }

    #[test]
    fn folder_of_outputs_may_be_gone_but_not_a_link() {
        let gone = |work: &Path| fs::remove_dir(work.join("out")).expect("removes");
        let (_folder, outputs) = found(gone, Bytes::new(0));
        assert!(outputs.expect("finds").files().is_empty());
        let link = |work: &Path| {
            fs::remove_dir(work.join("out")).expect("removes");
            symlink("/etc", work.join("out")).expect("links");
        };
        let (_folder, refused) = found(link, Bytes::mib(1));
        assert!(matches!(refused, Err(FileError::Io { .. })), "{refused:?}");
    }
}
