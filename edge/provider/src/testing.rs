//! What the tests of this room share: folders of their own, and random text.

use arbtest::arbitrary;
use arbtest::arbitrary::Unstructured;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder, removed with everything in it when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tg-provider-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and makes the folders it lies in.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.place(path);
        std::fs::write(path, content).expect("writes");
    }

    /// Makes a link that leads to `target`, which need not exist.
    pub(crate) fn link(&self, path: &str, target: &str) {
        std::os::unix::fs::symlink(target, self.place(path)).expect("links");
    }

    fn place(&self, path: &str) -> PathBuf {
        let path = self.0.join(path);
        let folder = path.parent().expect("a file lies in a folder");
        std::fs::create_dir_all(folder).expect("makes folders");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left_to_the_system = std::fs::remove_dir_all(&self.0);
    }
}

/// A folder of `fixtures/`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// Text made of pieces that a parser knows and of noise.
pub(crate) fn noise(u: &mut Unstructured<'_>, pieces: &[&str]) -> arbitrary::Result<String> {
    let mut text = String::new();
    for _ in 0..u.int_in_range(0..=12)? {
        if u.ratio(1, 4)? {
            text.push(u.arbitrary()?);
        } else {
            text.push_str(u.choose(pieces)?);
        }
    }
    Ok(text)
}
