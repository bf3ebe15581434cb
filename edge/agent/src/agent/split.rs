//! Who splits the GPUs of this machine. The agent says what is to be made for a run; how it is
//! made, and that nothing is left over after a crash, is the business of whoever knows the driver.

use std::path::PathBuf;
use tg_types::MigSlices;

/// Where a partition lies and how large it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartPlace {
    /// Compute slices.
    pub compute: u8,
    /// Memory slices.
    pub memory: u8,
    /// The first of them.
    pub start: u8,
}

impl PartPlace {
    /// All of a GPU.
    #[must_use]
    pub const fn whole(slices: MigSlices) -> Self {
        let memory = match slices {
            MigSlices::Four => 4,
            MigSlices::Seven => 8,
        };
        Self { compute: slices.count(), memory, start: 0 }
    }
}

/// A partition that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadePart {
    /// Where.
    pub place: PartPlace,
    /// The driver's number of it.
    pub instance: u32,
    /// What programs call it.
    pub id: String,
    /// Device files that belong to it besides those of its GPU.
    pub files: Vec<PathBuf>,
}

/// Why a GPU was not split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitFault {
    /// This machine does not split it.
    #[error("this machine does not split that GPU")]
    NotOffered,
    /// A program cannot use several partitions.
    #[error("a program cannot use several GPUs that are split")]
    NotTogether,
    /// The driver refuses; what it says is in the log.
    #[error("the driver does not make the partition")]
    Driver,
}

/// Makes and removes partitions of this machine's GPUs.
pub trait Splitter: Send + Sync + 'static {
    /// Makes a partition of a GPU. It may take a while.
    ///
    /// # Errors
    /// If it cannot be made; then nothing is left of it.
    fn make(&self, gpu: &str, place: PartPlace) -> Result<MadePart, SplitFault>;

    /// Removes one that was made. What cannot be removed now is tried again before the next one is
    /// made, and when the node is started again.
    fn remove(&self, gpu: &str, made: &MadePart);
}
