//! What can be typed for making job files of what people already have.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `import`
#[derive(Clone, Debug, Args)]
pub(crate) struct ImportJobArguments {
    /// What the file is
    pub(crate) kind: SourceKind,
    /// The file
    pub(crate) file: PathBuf,
    /// File to write; stdout unless given
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// What a job file can be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceKind {
    /// Akash's SDL
    Sdl,
    /// A compose file
    Compose,
    /// A Slurm batch script
    Slurm,
}
