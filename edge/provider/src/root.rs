//! Reads the small files in which the operating system describes a machine, below a folder that is
//! `/` in the product and a recorded tree in tests.
//!
//! Separate because all of it is outside data: files may be absent, huge or not text, and every
//! reader wants the same bounds. What is not there is `None`; a machine without a sensor is not an
//! error.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The largest file that is read. `/proc/cpuinfo` is the longest, at 1.5 KiB for each of at most
/// some thousand processors.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// The most entries of a folder that are looked at: more than any machine has devices, and as many
/// as Linux has processes by default on large machines.
const ENTRIES_MAX: usize = 1 << 16;

/// Where the operating system's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Where a file is that is named from `/`.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// The bytes of a file, if it can be read and is not too long.
    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.path(path)).ok()?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= FILE_BYTES_MAX).then_some(bytes)
    }

    /// The text of a file. Bytes that are not text are replaced.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The one line of a file, without spaces at its ends; `None` if it is empty.
    pub(crate) fn line(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let line = text.lines().next()?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    /// The decimal number that is all of a file.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.line(path)?.parse().ok()
    }

    /// Whether there is such a file or folder.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The names in a folder, sorted; none if it is not there.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .take(ENTRIES_MAX)
            .collect();
        names.sort_unstable();
        names
    }

    /// The last part of the path that a link leads to.
    pub(crate) fn link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        target.file_name()?.to_str().map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::{FILE_BYTES_MAX, Root};
    use crate::testing::Folder;

    #[test]
    fn files_are_read_below_the_root() {
        let folder = Folder::new();
        folder.write("sys/a", " 17 \nrest");
        folder.write("sys/b", "\n");
        folder.write("sys/c", b"\xff\n");
        folder.link("sys/driver", "../../bus/pci/drivers/nouveau");
        let root = Root::new(folder.path());
        assert_eq!(root.number("/sys/a"), Some(17));
        assert_eq!(root.line("/sys/b"), None);
        assert_eq!(root.text("/sys/c").as_deref(), Some("\u{fffd}\n"));
        assert_eq!(root.names("/sys"), ["a", "b", "c", "driver"]);
        assert_eq!(root.link_name("/sys/driver").as_deref(), Some("nouveau"));
    }

    #[test]
    fn files_that_are_absent_or_too_long_are_nothing() {
        let folder = Folder::new();
        let root = Root::new(folder.path());
        assert_eq!(root.text("/none"), None);
        assert_eq!(root.text("/"), None);
        assert!(root.names("/none").is_empty());
        assert_eq!(root.link_name("/none"), None);
        let long = std::fs::File::create(folder.path().join("long")).expect("a file");
        long.set_len(FILE_BYTES_MAX + 1).expect("a long file");
        assert_eq!(root.bytes("/long"), None);
    }
}
