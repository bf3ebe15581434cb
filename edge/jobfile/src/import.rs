//! Job files from what people already have: Akash SDL, compose files, Slurm batch scripts.
//!
//! An importer walks over every key of its source. Each is translated, or named in a note with its
//! line; a note also stands where the counterpart means something slightly different. So a file
//! without notes says the same as its source.

mod compose;
mod draft;
mod sdl;
mod slurm;

use crate::fault::{Fault, JobFileError, Located};
use crate::file::JobFile;
use crate::yaml::BYTES_MAX;

/// A translated job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The job.
    pub file: JobFile,
    /// What was not translated, or not quite; by line.
    pub notes: Vec<Note>,
}

/// Something that was not translated, or not quite.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The line of the source.
    pub line: usize,
    /// What it is about.
    pub what: String,
}

/// Translates an Akash SDL file (version 2). `name` is what messages call it.
///
/// # Errors
/// If it is not YAML within the bounds, or describes no service with an image.
pub fn sdl(text: &str, name: &str) -> Result<Imported, JobFileError> {
    sdl::import(text).map_err(|fault| fault.in_file(name))
}

/// Translates a compose file. `name` is what messages call it.
///
/// # Errors
/// If it is not YAML within the bounds, or describes no service with an image.
pub fn compose(text: &str, name: &str) -> Result<Imported, JobFileError> {
    compose::import(text).map_err(|fault| fault.in_file(name))
}

/// Translates a Slurm batch script. `name` is what messages call it.
///
/// # Errors
/// If it is too large, has a zero byte or no command.
pub fn slurm(text: &str, name: &str) -> Result<Imported, JobFileError> {
    slurm::import(text).map_err(|fault| fault.in_file(name))
}

fn nothing(expected: &'static str) -> Located {
    Located::new(crate::fault::Position::START, Fault::NothingToImport { expected })
}

/// The bound of the YAML reader, for sources that are no YAML.
fn check_size(text: &str) -> Result<(), Located> {
    if text.len() > BYTES_MAX {
        let fault = Fault::TooLarge { bytes: text.len(), max: BYTES_MAX };
        return Err(Located::new(crate::fault::Position::START, fault));
    }
    Ok(())
}
