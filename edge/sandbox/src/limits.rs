//! How much of a machine a task may use. Checked once, before anything is started, so that no
//! mechanism is ever handed a figure that it would silently round or refuse.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::task::Work;

/// A number of bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Bytes(u64);

impl Bytes {
    /// So many bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// So many times 2^20 bytes; what does not fit becomes the largest number.
    #[must_use]
    pub const fn mib(mib: u64) -> Self {
        Self(mib.saturating_mul(1 << 20))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The larger of two.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => {
                write!(f, "{} MiB", bytes >> 20)
            }
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// What a task may use at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of all its processes together; a work folder in memory counts as well.
    pub memory: Bytes,
    /// What it may keep in its work folder.
    pub disk: Bytes,
    /// What it may write to standard output and standard error together.
    pub streams: Bytes,
    /// How long its output files may be together.
    pub outputs: Bytes,
    /// Time from its start to its end.
    pub wall: Duration,
    /// Processor time of all its processes together.
    pub cpu_time: Duration,
    /// How much of the processors at once, in thousandths of a core.
    pub cpu_milli: u32,
    /// Processes and threads at once.
    pub pids: u32,
    /// Open files of each process.
    pub open_files: u32,
}

impl Limits {
    /// Below this the first process of a sandbox and a shell have no room.
    pub const MEMORY_MIN: Bytes = Bytes::mib(16);
    /// A page: less cannot be a file system.
    pub const DISK_MIN: Bytes = Bytes::new(4096);
    /// A month; a longer task is more likely a mistake in the unit.
    pub const WALL_MAX: Duration = Duration::from_secs(31 * 24 * 3600);
    /// The kernel refuses quotas under a millisecond in the period of 100 ms that is used here.
    pub const CPU_MILLI_MIN: u32 = 10;
    /// More cores than machines have.
    pub const CPU_MILLI_MAX: u32 = 4_096_000;
    /// The kernel's own bound for process numbers on 64-bit machines.
    pub const PIDS_MAX: u32 = 1 << 22;
    /// Three streams and what a dynamic loader opens.
    pub const OPEN_FILES_MIN: u32 = 16;
    /// The kernel's default for the most that root may ask for.
    pub const OPEN_FILES_MAX: u32 = 1 << 20;

    /// Whether every figure can be enforced as it stands.
    ///
    /// # Errors
    /// The first figure that cannot.
    pub(crate) fn check(&self, work: Work) -> Result<(), LimitError> {
        let out = |what, given: u64, least: u64, most: u64| {
            if (least..=most).contains(&given) {
                return Ok(());
            }
            Err(LimitError::OutOfRange { what, given, least, most })
        };
        let wall = u64::try_from(self.wall.as_millis()).unwrap_or(u64::MAX);
        let cpu_time = u64::try_from(self.cpu_time.as_millis()).unwrap_or(u64::MAX);
        let wall_max = u64::try_from(Self::WALL_MAX.as_millis()).unwrap_or(u64::MAX);
        let bytes_max = i64::MAX.unsigned_abs();
        out("memory", self.memory.get(), Self::MEMORY_MIN.get(), bytes_max)?;
        out("disk", self.disk.get(), Self::DISK_MIN.get(), bytes_max)?;
        out("wall time in ms", wall, 1, wall_max)?;
        out("processor time in ms", cpu_time, 1, u64::MAX - 1)?;
        let cores = (Self::CPU_MILLI_MIN.into(), Self::CPU_MILLI_MAX.into());
        out("thousandths of a core", self.cpu_milli.into(), cores.0, cores.1)?;
        out("processes", self.pids.into(), 1, Self::PIDS_MAX.into())?;
        let files = (Self::OPEN_FILES_MIN.into(), Self::OPEN_FILES_MAX.into());
        out("open files", self.open_files.into(), files.0, files.1)?;
        if work == Work::Memory && self.disk > self.memory {
            return Err(LimitError::WorkAboveMemory { disk: self.disk, memory: self.memory });
        }
        Ok(())
    }
}

impl Default for Limits {
    /// A small task: a core, 1 GiB, an hour.
    fn default() -> Self {
        Self {
            memory: Bytes::mib(1024),
            disk: Bytes::mib(256),
            streams: Bytes::mib(16),
            outputs: Bytes::mib(256),
            wall: Duration::from_secs(3600),
            cpu_time: Duration::from_secs(3600),
            cpu_milli: 1000,
            pids: 256,
            open_files: 1024,
        }
    }
}

/// Why limits cannot be enforced as they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// A figure is too small or too large.
    #[error("{what}: {given} is not between {least} and {most}")]
    OutOfRange {
        /// Which figure.
        what: &'static str,
        /// As given.
        given: u64,
        /// The least it may be.
        least: u64,
        /// The most it may be.
        most: u64,
    },
    /// A work folder in memory cannot be larger than the memory.
    #[error("a work folder of {disk} in memory does not fit into {memory} of memory")]
    WorkAboveMemory {
        /// What the work folder may hold.
        disk: Bytes,
        /// What the task may use.
        memory: Bytes,
    },
}

#[cfg(test)]
mod tests {
    use super::{Bytes, LimitError, Limits};
    use crate::task::Work;
    use std::time::Duration;

    #[test]
    fn default_limits_are_in_range() {
        assert_eq!(Limits::default().check(Work::Memory), Ok(()));
        assert_eq!(Limits::default().check(Work::Disk), Ok(()));
    }

    #[test]
    fn figures_out_of_range_are_refused_by_name() {
        let base = Limits::default();
        let cases = [
            ("memory", Limits { memory: Bytes::mib(1), ..base }),
            ("memory", Limits { memory: Bytes::new(u64::MAX), ..base }),
            ("disk", Limits { disk: Bytes::new(0), ..base }),
            ("wall time in ms", Limits { wall: Duration::ZERO, ..base }),
            ("wall time in ms", Limits { wall: Duration::MAX, ..base }),
            ("processor time in ms", Limits { cpu_time: Duration::ZERO, ..base }),
            ("thousandths of a core", Limits { cpu_milli: 9, ..base }),
            ("processes", Limits { pids: 0, ..base }),
            ("open files", Limits { open_files: u32::MAX, ..base }),
        ];
        for (name, limits) in cases {
            let error = limits.check(Work::Disk).expect_err(name);
            assert!(matches!(error, LimitError::OutOfRange { what, .. } if what == name));
        }
    }

    #[test]
    fn work_folder_in_memory_must_fit_into_memory() {
        let limits = Limits { memory: Bytes::mib(64), disk: Bytes::mib(65), ..Limits::default() };
        assert!(matches!(limits.check(Work::Memory), Err(LimitError::WorkAboveMemory { .. })));
        assert_eq!(limits.check(Work::Disk), Ok(()));
    }
}
