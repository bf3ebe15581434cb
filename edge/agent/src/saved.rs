//! The state of a command on its way out and in: the files of its folder are copied aside while it
//! runs, so that what is sealed does not change any more, and put into the folder of the next run.

use crate::task_run::{Bench, TaskRunError, first_part, text};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tg_gateway::Plain;
use tg_gateway::stream::{FileSource, Hashing, copy, expect_end};
use tg_gateway::task::{FILES_MAX, Files, NamedFile, SavedFiles, WithFiles, word};
use tg_sandbox::{Bytes, KeptFolder};
use tg_types::Hash32;
use tg_types::checkpoint::CHECKPOINT_BYTES_MAX;

/// The variable that tells a task that it goes on from a checkpoint.
pub const RESUMED_VARIABLE: &str = "TG_RESUMED";

/// What a package takes besides the files in it: heads, names, and a tag for every chunk.
const AROUND_BYTES: u64 = CHECKPOINT_BYTES_MAX / 64;

/// The most that the files of a checkpoint have.
pub(crate) const CHECKPOINT_MAX: Bytes = Bytes::new(CHECKPOINT_BYTES_MAX - AROUND_BYTES);

/// What a checkpoint held, as it lies beside the files of a task that is about to run.
pub(crate) struct Unpacked {
    folder: PathBuf,
    paths: Vec<String>,
}

impl Unpacked {
    /// Unpacks a checkpoint below a folder, to its end.
    ///
    /// # Errors
    /// If it is none, or there is no room. What was unpacked until then is removed.
    pub(crate) fn read(from: &mut dyn Read, folder: PathBuf) -> Result<Self, TaskRunError> {
        fs::create_dir(&folder)?;
        match unpack(from, &folder) {
            Ok(paths) => Ok(Self { folder, paths }),
            Err(error) => {
                let _gone_with_the_task = fs::remove_dir_all(&folder);
                Err(error)
            }
        }
    }

    /// Moves everything to where the program finds it.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub(crate) fn put(&self, kept: &KeptFolder) -> io::Result<()> {
        for path in &self.paths {
            let (from, to) = (self.folder.join(path), kept.path().join(path));
            fs::create_dir_all(to.parent().unwrap_or(kept.path()))?;
            if fs::rename(&from, &to).is_err() {
                fs::copy(&from, &to)?; // the folders are on different disks
            }
        }
        Ok(())
    }
}

fn unpack(from: &mut dyn Read, folder: &Path) -> Result<Vec<String>, TaskRunError> {
    let head = SavedFiles::read(from).map_err(TaskRunError::Inputs)?;
    let mut paths = Vec::new();
    for file in head.files.as_slice() {
        let path = text(&file.path)?;
        first_part(&path)?;
        let target = folder.join(&path);
        fs::create_dir_all(target.parent().unwrap_or(folder))?;
        let mut out = File::create_new(&target)?;
        file.read(from, &mut out).map_err(|error| TaskRunError::Inputs(error.into()))?;
        out.set_permissions(Permissions::from_mode(0o644))?;
        paths.push(path);
    }
    expect_end(from).map_err(TaskRunError::Inputs)?;
    Ok(paths)
}

/// The state of a task at one moment. Its files are removed when this is dropped.
pub struct Staged {
    /// Tells it from other states.
    pub(crate) id: Hash32,
    plain: WithFiles<Vec<FileSource>>,
    _bench: Bench,
}

impl Plain for Staged {
    fn bytes(&self) -> u64 {
        self.plain.bytes()
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.plain.write(out)
    }
}

/// Copies what a task keeps, as it is now; nothing if there is nothing. A file that goes away
/// meanwhile was replaced by another, which is there or will be the next time.
pub(crate) fn stage(
    kept: &KeptFolder,
    max: Bytes,
    bench: Bench,
) -> Result<Option<Staged>, TaskRunError> {
    let found = kept.files(max)?;
    let (mut files, mut sources) = (Vec::new(), Vec::new());
    let mut left = max.get();
    for (number, file) in found.files().iter().take(FILES_MAX + 1).enumerate() {
        let Ok(mut from) = found.open(&file.path) else { continue };
        let path = bench.path().join(number.to_string());
        let mut out = Hashing::new(File::create_new(&path)?);
        let bytes = copy(&mut from, &mut out, left.saturating_add(1))?;
        left = left.checked_sub(bytes).ok_or(TaskRunError::Grown)?;
        let hash = out.finish();
        let name = file.path.to_str().ok_or(TaskRunError::Text)?;
        files.push(NamedFile { path: word(name)?, bytes, hash });
        sources.push(FileSource::Path { path, bytes, hash });
    }
    if files.is_empty() {
        return Ok(None);
    }
    let head = SavedFiles { files: Files::new(files)? };
    let plain = WithFiles::new(&head, sources)?;
    Ok(Some(Staged { id: head.id(), plain, _bench: bench }))
}
