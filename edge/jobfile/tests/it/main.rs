//! The job file from outside: errors as people see them, importers against their goldens, the
//! examples of the repository, and what holds for every file.

mod documents;
mod errors;
mod examples;
mod imports;
mod properties;

use std::path::{Path, PathBuf};

/// The folder of the whole repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the repository.
#[track_caller]
fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect("a file of the repository")
}
