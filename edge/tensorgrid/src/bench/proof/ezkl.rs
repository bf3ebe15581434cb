//! The peer of proofs: ezkl, run through its Python package on the same files in the same run.

use crate::failure::{Failure, OrFail as _};
use serde::Deserialize;
use std::{path::Path, process::Command};

/// Setup, proof and verification of one model, as a program for Python.
const SCRIPT: &str = include_str!("ezkl.py");

/// What a proof by ezkl takes.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Peer {
    /// Seconds of processor time to make a proof.
    pub(super) prove_cpu_s: f64,
    /// Seconds of processor time to verify it.
    pub(super) verify_s: f64,
}

/// Proves `name` of a folder of models with ezkl.
pub(super) fn measure(python: &Path, folder: &Path, name: &str) -> Result<Peer, Failure> {
    let what = format!("ezkl cannot prove {name}");
    let hint = "--ezkl names a Python that has ezkl 23.0.5; lenet takes it minutes and 11 GB";
    let output = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(folder.join(format!("{name}.onnx")))
        .arg(folder.join(format!("{name}.input.json")))
        .output()
        .or_fail(&what, hint)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = said.lines().rfind(|line| !line.is_empty()).unwrap_or("it says nothing");
        return Err(Failure::new(format!("{what}: {last}"), hint));
    }
    // Its library talks as well; what we asked for is the last line.
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = said.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
    serde_json::from_str(last).or_fail(&what, hint)
}
