//! The documents of an image: from its index over the manifest to the list of layers and the
//! configuration, each compared with the hash by which it was named.
//!
//! Formats: OCI image specification 1.1 (index, manifest, configuration, layout) and the
//! `manifest.json` of `docker save`.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::source::{Sha, Store};
use super::{ImageConfig, ImageError, LAYERS_MAX};

/// An index names manifests, or other indexes; deeper nesting has no use.
const DEPTH_MAX: u32 = 3;

/// An image: its layers from the bottom up, and what it says about its program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) layers: Vec<Layer>,
    pub(super) config: ImageConfig,
}

/// One layer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layer {
    /// The part's name.
    pub(super) part: String,
    /// The hash of the part, where one is stated.
    pub(super) packed: Option<Sha>,
    /// The hash of its content.
    pub(super) content: Sha,
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

/// `manifest.json` of `docker save`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    layers: Vec<String>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    config: Option<ProcessConfig>,
    rootfs: Layers,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ProcessConfig {
    env: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Layers {
    diff_ids: Vec<String>,
}

/// Finds the one image of a store that is for this machine.
pub(super) fn resolve(store: &Store) -> Result<Image, ImageError> {
    if let Some(bytes) = store.document("index.json")? {
        let index: Index = parse("index.json", &bytes)?;
        return from_index(store, &index, 0);
    }
    let part = "manifest.json";
    let missing = || ImageError::Missing { part: format!("index.json or {part}") };
    let bytes = store.document(part)?.ok_or_else(missing)?;
    let mut saved: Vec<Saved> = parse(part, &bytes)?;
    let count = saved.len();
    let saved = saved.pop().filter(|_| count == 1).ok_or(ImageError::Ambiguous { count })?;
    let missing = || ImageError::Missing { part: saved.config.clone() };
    let config = store.document(&saved.config)?.ok_or_else(missing)?;
    let layers = saved.layers.iter().map(|part| (part.clone(), None)).collect();
    image(parse(&saved.config, &config)?, layers)
}

fn from_index(store: &Store, index: &Index, depth: u32) -> Result<Image, ImageError> {
    if depth >= DEPTH_MAX {
        return Err(ImageError::Nested);
    }
    let wanted = architecture();
    let fits = |descriptor: &&Descriptor| {
        let platform = descriptor.platform.as_ref();
        platform.is_none_or(|p| p.os == "linux" && p.architecture == wanted)
    };
    let fitting: Vec<&Descriptor> = index.manifests.iter().filter(fits).collect();
    let descriptor = match fitting.as_slice() {
        [one] => *one,
        [] => {
            let names = index.manifests.iter().filter_map(|one| one.platform.as_ref());
            let names = names.map(|one| format!("{}/{}", one.os, one.architecture));
            let found = names.take(8).collect::<Vec<_>>().join(", ");
            return Err(ImageError::Platform { found, wanted });
        }
        several => return Err(ImageError::Ambiguous { count: several.len() }),
    };
    let (part, bytes) = blob(store, descriptor)?;
    let is_index = ["image.index.v1+json", "manifest.list.v2+json"]
        .iter()
        .any(|ending| descriptor.media_type.ends_with(ending));
    if is_index {
        return from_index(store, &parse(&part, &bytes)?, depth.saturating_add(1));
    }
    let manifest: Manifest = parse(&part, &bytes)?;
    let (part, bytes) = blob(store, &manifest.config)?;
    let config = parse(&part, &bytes)?;
    let layers = manifest.layers.iter().map(|layer| {
        let sha = Sha::parse(&layer.digest)?;
        Ok((sha.blob(), Some(sha)))
    });
    image(config, layers.collect::<Result<_, ImageError>>()?)
}

/// A document found by its hash.
fn blob(store: &Store, descriptor: &Descriptor) -> Result<(String, Vec<u8>), ImageError> {
    let sha = Sha::parse(&descriptor.digest)?;
    let part = sha.blob();
    let missing = || ImageError::Missing { part: part.clone() };
    let bytes = store.document(&part)?.ok_or_else(missing)?;
    if Sha::of(&bytes) != sha {
        return Err(ImageError::WrongDigest { part });
    }
    Ok((part, bytes))
}

fn image(config: Config, layers: Vec<(String, Option<Sha>)>) -> Result<Image, ImageError> {
    let hashes = config.rootfs.diff_ids.len();
    if layers.len() != hashes || hashes > LAYERS_MAX {
        return Err(ImageError::Layers { layers: layers.len(), hashes });
    }
    let is_ours = |stated: &str, ours: &str| stated.is_empty() || stated == ours;
    if !is_ours(&config.os, "linux") || !is_ours(&config.architecture, architecture()) {
        let found = format!("{}/{}", config.os, config.architecture);
        return Err(ImageError::Platform { found, wanted: architecture() });
    }
    let layers = layers
        .into_iter()
        .zip(&config.rootfs.diff_ids)
        .map(|((part, packed), id)| Ok(Layer { part, packed, content: Sha::parse(id)? }));
    let process = config.config.unwrap_or_default();
    Ok(Image {
        layers: layers.collect::<Result<_, ImageError>>()?,
        config: ImageConfig {
            env: process.env.unwrap_or_default(),
            entrypoint: process.entrypoint.unwrap_or_default(),
            cmd: process.cmd.unwrap_or_default(),
        },
    })
}

fn parse<T: DeserializeOwned>(part: &str, bytes: &[u8]) -> Result<T, ImageError> {
    serde_json::from_slice(bytes)
        .map_err(|source| ImageError::Json { part: part.to_owned(), source })
}

/// This machine as images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
