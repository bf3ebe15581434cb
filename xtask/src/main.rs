//! Chores of the house: `cargo xtask tidy` checks the rules a machine can check, `cargo xtask ci`
//! runs everything a change must pass. It is a room of its own so that the product never depends
//! on it, and it uses the standard library alone so that it is built in seconds.
//!
//! Exit codes: 0 done, 1 failed, 2 misused.

mod ci;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <tidy|ci>

  tidy   check the rules of the house; prints file:line, the rule and what to do
  ci     tidy, format, clippy, build, all tests and a short simulation, in this order
";

const FAILED: u8 = 1;
const MISUSED: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some(root) = workspace_root() else {
        eprintln!("xtask: no Cargo.toml with a [workspace] here or above; run it inside the clone");
        return ExitCode::from(MISUSED);
    };
    let passed = match arguments.as_slice() {
        ["tidy"] => tidy::run(&root),
        ["ci"] => ci::run(&root),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            true
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(MISUSED);
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

/// The folder of the workspace manifest, looked for upwards from the current folder. A path baked
/// in at compile time would point to another clone when clones share a target folder.
fn workspace_root() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().find(|folder| is_workspace(folder)).map(Path::to_path_buf)
}

fn is_workspace(folder: &Path) -> bool {
    std::fs::read_to_string(folder.join("Cargo.toml"))
        .is_ok_and(|manifest| manifest.lines().any(|line| line.trim() == "[workspace]"))
}
