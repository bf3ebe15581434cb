//! Why a job did not go through. Apart from how it does, because every step has its own reasons.

use super::PIECE_BYTES;
use crate::files;
use std::io;
use std::path::PathBuf;
use tg_agent::tensor_run::TensorRunError;
use tg_gateway::{GatewayError, PackageError};
use tg_proof::court::CourtError;
use tg_types::tx::PROGRAM_PIECES_MAX;
use tg_types::{Amount, DecodeError, Name};

/// Why a job did not go through.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OrderError {
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error("an entry of the chain cannot be read")]
    Decode(#[from] DecodeError),
    #[error("no node offers its services")]
    NoNode,
    #[error(
        "no accelerator is called {model}, in the catalogue or on any node; the nearest names are \
         {near} (`tensorgrid catalogue` lists all)"
    )]
    ModelUnknown { model: Name, near: String },
    #[error("the program has more than {PROGRAM_PIECES_MAX} pieces of {PIECE_BYTES} bytes")]
    ProgramLarge,
    #[error("the price is more than an amount can be")]
    Price,
    #[error("a run is paid {least} at least")]
    BidLow { least: Amount },
    #[error("there are no random numbers")]
    Random(#[from] files::FileError),
    #[error("{path} cannot be read")]
    Input { path: PathBuf, source: io::Error },
    #[error("an output cannot be written")]
    Write(#[source] files::FileError),
    #[error("an output is named {name:?}, which is no path below a folder")]
    OutputName { name: String },
    #[error("the result is not what the provider committed to")]
    OtherOutput,
    #[error("an output cannot be read")]
    Output(#[from] TensorRunError),
    #[error("the inputs cannot be committed to")]
    Hidden(#[from] CourtError),
    #[error(
        "validators verify a result for {most} microseconds at most, and this program's take \
         longer; `--verify audit` or `sync` has it checked by other nodes instead"
    )]
    VerifiedTooLong { most: u64 },
    #[error("commitments to inputs serve for one job, {jobs} were asked for")]
    HiddenOnce { jobs: usize },
    #[error("the job is not on record any more")]
    Gone,
    #[error("the job has no result")]
    NoResult,
}

impl OrderError {
    /// Whether a result is there and does not open, or is not what its provider committed to.
    pub(crate) fn is_sealed(&self) -> bool {
        match self {
            Self::Package(error) | Self::Gateway(GatewayError::Package(error)) => error.is_wrong(),
            Self::Output(TensorRunError::Package(error)) => error.is_wrong(),
            Self::OtherOutput | Self::Output(_) => true,
            Self::Gateway(_)
            | Self::Decode(_)
            | Self::NoNode
            | Self::ModelUnknown { .. }
            | Self::VerifiedTooLong { .. }
            | Self::ProgramLarge
            | Self::Price
            | Self::BidLow { .. }
            | Self::Random(_)
            | Self::Input { .. }
            | Self::Write(_)
            | Self::OutputName { .. }
            | Self::Hidden(_)
            | Self::HiddenOnce { .. }
            | Self::Gone
            | Self::NoResult => false,
        }
    }
}
