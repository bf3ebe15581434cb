//! What the process itself costs.

use crate::files;
use std::path::Path;

/// The file has some fifty lines.
const STATUS_BYTES_MAX: u64 = 64 << 10;

/// Memory of the process in MiB.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// Now.
    pub(crate) now_mib: u64,
    /// The most so far.
    pub(crate) peak_mib: u64,
}

impl Memory {
    /// Reads it from the operating system; zeros where that does not tell.
    #[must_use]
    pub(crate) fn read() -> Self {
        let bytes = files::read(Path::new("/proc/self/status"), STATUS_BYTES_MAX);
        let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
        Self { now_mib: field(&text, "VmRSS:"), peak_mib: field(&text, "VmHWM:") }
    }
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1_024
}

#[cfg(test)]
mod tests {
    use super::{Memory, field};

    #[test]
    fn memory_is_read_in_mebibytes() {
        assert_eq!(field("Name:\tx\nVmRSS:\t  2048 kB\n", "VmRSS:"), 2);
        assert_eq!(field("", "VmRSS:"), 0);
        let memory = Memory::read();
        assert!(memory.now_mib <= memory.peak_mib, "{memory:?}");
    }
}
