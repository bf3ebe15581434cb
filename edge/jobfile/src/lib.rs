//! The job file `job.tg.yaml`, and importers that make one of what people already have.
//!
//! A room of its own because it is all grammar: text goes in, checked types come out, and nothing
//! here opens a file, asks the network or knows what is done with a job.
//!
//! Invariants:
//! - Nothing is guessed and nothing is dropped. An unknown key is an error with a suggestion; one
//!   that this version cannot honour is read and named by [`JobFile::unsupported`]; what has no
//!   counterpart for an importer is in its notes.
//! - Every error names file, line and column, and says what was expected.
//! - Text is bounded in size and depth before it becomes a tree, and aliases are refused, so a
//!   small file cannot become a large one.
//! - What [`JobFile::to_yaml`] writes reads back as the same job.

mod fault;
mod file;
mod form;
pub mod import;
mod keys;
mod read;
mod units;
mod unsupported;
mod words;
mod write;
mod yaml;

pub use fault::{Fault, JobFileError, Position};
pub use file::{
    Accelerator, Checkpoint, JobFile, KeyEscrow, Model, ModelSource, Public, Resources, Run,
    Service, Task, Verify, Work,
};
pub use form::FormError;
pub use import::{Imported, Note};
pub use keys::{Key, SECTIONS, Section};
pub use units::{Cpus, Deadline, GpuShare, Priority, Size, Span};
pub use unsupported::Unsupported;
pub use words::{
    EnvName, EnvValue, FileName, ImageName, LocalPath, MountPath, PortName, Script, UrlPath, Word,
    WorkPath,
};
pub use yaml::{BYTES_MAX, DEPTH_MAX};

/// What the job file is called if nobody says otherwise.
pub const FILE_NAME: &str = "job.tg.yaml";
