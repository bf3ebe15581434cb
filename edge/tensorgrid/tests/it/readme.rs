//! The commands of README.md, run as they stand there.

use crate::support::{Home, turn, turn_alone};
use std::{collections::BTreeSet, fs, path::PathBuf, process::Command};

/// How a command of README.md begins that runs the program.
const PROGRAM: &str = "cargo run --release -- ";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).expect("is there")
}

/// Lines of the fenced blocks.
fn blocks(text: &str) -> Vec<&str> {
    let mut is_inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            is_inside = !is_inside;
        } else if is_inside {
            found.push(line);
        }
    }
    found
}

/// Runs a command of the program where its files are, with a home of its own.
fn run(home: &Home, words: &str) {
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut command: Command = home.command(&words);
    let output = command.current_dir(root()).output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
}

/// Goal: what a reader types first works, and so does every example. Method: every line of every
/// block but the one that runs the tests; every job file of the examples.
#[test]
fn commands_to_start_with_run() {
    let _turn = turn();
    let (home, text) = (Home::new(), readme());
    let blocks = blocks(&text);
    let mut commands = blocks.iter().map(|line| {
        let other = *line == "cargo xtask ci";
        assert!(other || line.starts_with(PROGRAM), "{line}: who runs this?");
        line.strip_prefix(PROGRAM)
    });
    assert_eq!(commands.next(), Some(Some("up")));
    let up = home.start("up", &["--json", "up", "--port", "0"]);
    for command in commands.flatten() {
        if command == "provide" {
            let provider = home.start("provide", &["--json", "provide"]);
            assert_eq!(provider.stop("INT").0.code(), Some(0));
        } else {
            run(&home, command);
        }
    }
    let examples = fs::read_dir(root().join("examples")).expect("is there");
    let folders = examples.map(|entry| entry.expect("readable").path());
    let folders: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
    assert_eq!(folders.len(), 5, "{folders:?}");
    for folder in folders {
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        run(&home, &format!("run examples/{name}/job.tg.yaml"));
    }
    assert_eq!(up.stop("INT").0.code(), Some(0));
}

/// Goal: every figure can be reproduced. Method: the commands of the table that are the program's
/// own; those of cargo are run by the other steps of CI.
#[test]
#[ignore = "slow: measures"]
fn commands_of_figures_run_slow() {
    let _turn = turn_alone();
    let (home, text) = (Home::new(), readme());
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let commands: BTreeSet<&str> =
        rows.filter_map(|row| row.split('`').rev().nth(1)?.strip_prefix(PROGRAM)).collect();
    assert!(commands.len() > 3, "{commands:?}");
    for command in commands.into_iter().filter(|command| *command != "up") {
        if command.split(' ').any(|word| word == "DIR") {
            eprintln!("skipped, because it needs files that are not ours to keep here: {command}");
            continue;
        }
        run(&home, command);
    }
}
