//! Images by name. This room has no network: `podman`, where a machine has it, fetches the image
//! from the registry it is set up for and saves it as an archive, which is then unpacked like any
//! other stranger's archive.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::settings::find;

/// The longest name that registries take.
const NAME_BYTES_MAX: usize = 255;
/// Kept of what `podman` says when it fails.
const SAID_BYTES_MAX: usize = 2048;

/// The name of an image, such as `registry.example/tools/python:3.13`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName(String);

impl ImageName {
    /// Checks a name: nothing in it can be an option, a path or another way of fetching.
    ///
    /// # Errors
    /// If it has other characters than names have, or does not begin with a letter or digit.
    pub fn new(name: &str) -> Result<Self, PullError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        let fits = name.len() <= NAME_BYTES_MAX && begins_well && name.chars().all(is_plain);
        // «docker-archive:/path» and the like are ways of fetching, not names.
        let is_reference = name.split('/').next().is_some_and(|first| {
            first.split_once(':').is_none_or(|(_, port)| {
                let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
                is_port || !name.contains('/')
            })
        });
        if fits && is_reference && !name.contains("//") && !name.contains("..") {
            return Ok(Self(name.to_owned()));
        }
        Err(PullError::Name { name: name.chars().take(NAME_BYTES_MAX).collect() })
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Why an image cannot be had by its name.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// Not a name.
    #[error("{name:?} is no name of an image")]
    Name {
        /// As given.
        name: String,
    },
    /// No program that fetches images.
    #[error("images are fetched by podman, which is not installed; give an archive or a layout")]
    NoPodman,
    /// It cannot be started.
    #[error("podman cannot be started")]
    Start(#[source] io::Error),
    /// It failed.
    #[error("podman {step} failed, saying {said:?}")]
    Failed {
        /// Fetching or saving.
        step: &'static str,
        /// The end of what it said.
        said: String,
    },
}

/// Fetches an image by name into an archive that must not be there yet.
///
/// # Errors
/// If `podman` is missing or fails.
pub fn pull(name: &ImageName, archive: &Path) -> Result<(), PullError> {
    let podman = find("podman").ok_or(PullError::NoPodman)?;
    step(Command::new(&podman).args(["pull", "--quiet", &name.0]), "pull")?;
    let save = ["save", "--quiet", "--format", "oci-archive", "--output"];
    step(Command::new(&podman).args(save).arg(archive).arg(&name.0), "save")
}

fn step(command: &mut Command, step: &'static str) -> Result<(), PullError> {
    let output = command.stdin(Stdio::null()).output().map_err(PullError::Start)?;
    if output.status.success() {
        return Ok(());
    }
    let from = output.stderr.len().saturating_sub(SAID_BYTES_MAX);
    let said = output.stderr.get(from..).unwrap_or_default();
    Err(PullError::Failed { step, said: String::from_utf8_lossy(said).trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::ImageName;

    #[test]
    fn names_cannot_be_options_paths_or_other_ways_of_fetching() {
        let digest = format!("alpine@sha256:{}", "a".repeat(64));
        let good =
            ["alpine", "alpine:3.20", "localhost:5000/a/b:c", "docker.io/library/x", &digest];
        for name in good {
            assert!(ImageName::new(name).is_ok(), "{name}");
        }
        let long = "a".repeat(256);
        let bad = [
            "",
            "-v",
            "--all",
            "/etc",
            "./x",
            "a b",
            "a;b",
            "oci:/x",
            "docker-archive:/x.tar",
            "dir:x/y",
            "a//b",
            "a/../b",
            "ä",
            &long,
            "containers-storage:x/y",
        ];
        for name in bad {
            assert!(ImageName::new(name).is_err(), "{name}");
        }
    }
}
