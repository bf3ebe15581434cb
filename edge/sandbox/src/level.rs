//! Each level in its own words: how a view becomes arguments of `bwrap`, a container's
//! configuration for `runc`, or arguments of `podman`. Pure functions, so that what other programs
//! are told can be tested without them.

pub(crate) mod bubblewrap;
pub(crate) mod podman;
pub(crate) mod runc;

use std::path::{Path, PathBuf};

use crate::helper::{CONTROL_NAME, HELPER_FOLDER, Helper};
use crate::spec::{INSIDE_WORD, JobUser};
use crate::view::View;

/// Container programs make `/dev` themselves, where nothing can be linked: shared memory has a
/// bound of its own there.
pub(crate) const SHARED_MEMORY_BYTES: u64 = 64 << 20;

/// What a container is made of.
pub(crate) struct Container<'a> {
    pub(crate) view: &'a View,
    pub(crate) helper: &'a Helper,
    pub(crate) user: JobUser,
    /// The container's name.
    pub(crate) name: &'a str,
    /// Where the container program may keep its own files.
    pub(crate) state: &'a Path,
    /// Bytes for shared memory.
    pub(crate) shared_memory: u64,
}

/// A path that cannot be written into a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} cannot be named in a configuration")]
pub struct PathError {
    /// The path.
    pub path: PathBuf,
}

/// A path as text.
pub(crate) fn text(path: &Path) -> Result<String, PathError> {
    path.to_str().map(str::to_owned).ok_or_else(|| PathError { path: path.to_owned() })
}

/// How the first process is started where its files are mounted.
fn first_process(helper: &Helper) -> Vec<String> {
    let mut words = helper.command_inside();
    words.push(INSIDE_WORD.to_owned());
    words.push(format!("{HELPER_FOLDER}/{CONTROL_NAME}"));
    words
}

#[cfg(test)]
mod tests;
