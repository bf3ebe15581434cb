//! Images: an OCI layout folder, an OCI archive or a Docker archive becomes a folder that can be
//! the root of a task. All of it is a stranger's: every size, count, path and link is checked, and
//! the bytes must have the hashes that the image states.
//!
//! Owners, times and special modes are dropped: every file belongs to whoever unpacks it and is
//! readable by the task, which is all that a read-only root needs.

mod json;
mod pull;
mod source;
mod tar;
mod unpack;

pub use pull::{ImageName, PullError, pull};
pub use tar::TarError;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::{FileError, remove_tree};
use crate::limits::Bytes;
use crate::view::make_places;

/// Layers of an image; more than overlay file systems take.
pub const LAYERS_MAX: usize = 512;
/// The documents of an image: index, manifest, configuration.
pub const DOCUMENT_BYTES_MAX: u64 = 4 << 20;

/// The unpacked files, in the folder that was named.
const ROOT_NAME: &str = "root";
/// What was in the way, until it is removed.
const TRASH_NAME: &str = "trash";
/// What the image says about its program.
const CONFIG_NAME: &str = "image.json";

/// How much an image may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of all layers, uncompressed.
    pub bytes: Bytes,
    /// Files, folders and links of all layers.
    pub entries: u64,
}

impl Default for Bounds {
    /// The largest images that people run on GPUs have some tens of gigabytes.
    fn default() -> Self {
        Self { bytes: Bytes::mib(64 << 10), entries: 2_000_000 }
    }
}

/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Files cannot be read or written.
    #[error(transparent)]
    Files(#[from] FileError),
    /// A part of the image cannot be read.
    #[error("the image's {part} cannot be read")]
    Read {
        /// Which part.
        part: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A part is not there.
    #[error("the image has no {part}")]
    Missing {
        /// Which part.
        part: String,
    },
    /// A document is too large.
    #[error("the image's {part} has more than {max} bytes")]
    TooLarge {
        /// Which part.
        part: String,
        /// The most it may have.
        max: u64,
    },
    /// A document is not what it should be.
    #[error("the image's {part} cannot be understood")]
    Json {
        /// Which part.
        part: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// Not a hash.
    #[error("{digest:?} is no SHA-256 digest")]
    Digest {
        /// As stated.
        digest: String,
    },
    /// Not the bytes that the image states.
    #[error("the image's {part} does not have the digest it states")]
    WrongDigest {
        /// Which part.
        part: String,
    },
    /// Not for this machine.
    #[error("the image is for {found}, not for linux/{wanted}")]
    Platform {
        /// What it is for.
        found: String,
        /// What this machine is.
        wanted: &'static str,
    },
    /// More than one image.
    #[error("{count} images are there; which one is meant?")]
    Ambiguous {
        /// How many.
        count: usize,
    },
    /// Indexes that contain indexes without end.
    #[error("the image's indexes are nested too deeply")]
    Nested,
    /// More layers than make sense, or not as many as hashes.
    #[error("the image has {layers} layers and {hashes} hashes of layers")]
    Layers {
        /// Layers.
        layers: usize,
        /// Hashes.
        hashes: usize,
    },
    /// A way of packing that is not known here.
    #[error("the image's {part} is packed as {packing}, which is not supported")]
    Packing {
        /// Which part.
        part: String,
        /// How.
        packing: &'static str,
    },
    /// A layer is no archive.
    #[error("layer {layer} is no readable archive")]
    Tar {
        /// Which layer, from 0.
        layer: usize,
        /// Why not.
        #[source]
        source: TarError,
    },
    /// More bytes than allowed.
    #[error("the image has more than {max}")]
    TooManyBytes {
        /// The most it may have.
        max: Bytes,
    },
    /// More entries than allowed.
    #[error("the image has more than {max} entries")]
    TooManyEntries {
        /// The most it may have.
        max: u64,
    },
    /// A path that leads out or nowhere.
    #[error("the image contains the path {path:?}")]
    Path {
        /// The path.
        path: String,
    },
    /// A device outside of `/dev`.
    #[error("the image contains the device {path:?}")]
    Device {
        /// The path.
        path: String,
    },
    /// An entry cannot be made.
    #[error("the image's entry {path:?} cannot be made")]
    Entry {
        /// The path.
        path: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// What an image says about its program. The user it states is not asked: a task is always the
/// provider's user for tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    env: Vec<String>,
    entrypoint: Vec<String>,
    cmd: Vec<String>,
}

impl ImageConfig {
    /// The variables it states, as far as they are variables.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<String, String> {
        let pairs = self.env.iter().filter_map(|text| text.split_once('='));
        let pairs = pairs.filter(|(name, value)| {
            !name.is_empty() && !name.contains('\0') && !value.contains('\0')
        });
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The program it states, with its arguments.
    #[must_use]
    pub fn program(&self) -> Vec<String> {
        self.entrypoint.iter().chain(&self.cmd).cloned().collect()
    }
}

/// An unpacked image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rootfs {
    folder: PathBuf,
    config: ImageConfig,
}

impl Rootfs {
    /// An image unpacked before.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(folder: &Path) -> Result<Self, ImageError> {
        let path = folder.join(CONFIG_NAME);
        let mut bytes = Vec::new();
        File::open(&path)
            .and_then(|file| file.take(DOCUMENT_BYTES_MAX).read_to_end(&mut bytes))
            .map_err(FileError::io("read", &path))?;
        let part = || CONFIG_NAME.to_owned();
        let config = serde_json::from_slice(&bytes)
            .map_err(|source| ImageError::Json { part: part(), source })?;
        Ok(Self { folder: folder.join(ROOT_NAME), config })
    }

    /// What the image says about its program.
    #[must_use]
    pub const fn config(&self) -> &ImageConfig {
        &self.config
    }

    /// The folder that becomes the root.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Unpacks an image into a folder that must not be there yet. `source` is an OCI layout folder, an
/// OCI archive or an archive as `docker save` writes it.
///
/// # Errors
/// If anything about the image is not in order; then the folder is not there either.
pub fn unpack(source: &Path, folder: &Path, bounds: &Bounds) -> Result<Rootfs, ImageError> {
    let store = source::Store::open(source)?;
    let image = json::resolve(&store)?;
    crate::view::make_folder(folder)?;
    let done = unpack_into(&store, &image, folder, bounds);
    if done.is_err() {
        remove_tree(folder)?;
    }
    done
}

fn unpack_into(
    store: &source::Store,
    image: &json::Image,
    folder: &Path,
    bounds: &Bounds,
) -> Result<Rootfs, ImageError> {
    let root = folder.join(ROOT_NAME);
    let trash = folder.join(TRASH_NAME);
    for path in [&root, &trash] {
        fs::create_dir(path).map_err(FileError::io("make the folder", path))?;
    }
    crate::view::make_folder(&root)?;
    let mut tree = unpack::Tree::new(&root, &trash, bounds)?;
    for (index, layer) in image.layers.iter().enumerate() {
        tree.apply(store, index, layer)?;
    }
    drop(tree);
    remove_tree(&trash)?;
    make_places(&root)?;
    let path = folder.join(CONFIG_NAME);
    let text = serde_json::to_vec(&image.config)
        .map_err(|source| ImageError::Json { part: CONFIG_NAME.to_owned(), source })?;
    fs::write(&path, text).map_err(FileError::io("write", &path))?;
    Rootfs::open(folder)
}

#[cfg(test)]
mod tests;
