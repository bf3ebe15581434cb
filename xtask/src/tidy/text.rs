//! Rules about any tracked text: notes without an issue, and traces of the machine it was written
//! on (folders, package mirrors), which mean nothing to the next reader.

use super::source::Source;
use super::{Tree, Violation, markdown};

/// Words that announce unfinished work.
const MARKS: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];

/// Folders of somebody's machine. Split so that this file does not break its own rule.
const MACHINE_FOLDERS: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("C:\\Us", "ers\\"),
];

/// Addresses and settings of package registries and mirrors.
const REGISTRY_MARKS: &[&str] = &[
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("crates.io", "-index"),
    concat!("registry+", "http"),
    concat!("sparse+", "http"),
    concat!("replace", "-with"),
    concat!("registry.npmjs", ".org"),
    concat!("npm_config", "_registry"),
    concat!("pypi", ".org"),
    concat!("arti", "factory"),
];

const LOCK: &str = "Cargo.lock";
/// The only source a locked package may have.
const LOCK_SOURCE: &str =
    concat!("source = \"registry+", "https://github.com/rust-lang/crates.io", "-index\"");

/// Unfinished work names the issue that will finish it.
pub(crate) fn todo_issue(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| *path != LOCK) {
        let lines: Vec<(usize, String)> = if path.ends_with(".rs") {
            numbered(Source::new(text).comment_lines())
        } else if path.ends_with(".md") {
            let prose = markdown::prose(text).into_iter();
            prose.map(|line| (line.number, markdown::without_code(line.text))).collect()
        } else {
            numbered(text.lines().map(str::to_owned).collect())
        };
        for (number, line) in lines {
            for mark in MARKS.iter().filter(|mark| has_mark_without_issue(&line, mark)) {
                let what = format!("{mark} without an issue");
                let fix = "do it now, or open an issue and write its number: TODO(#12)";
                found.push(Violation { path: path.into(), line: number, what, fix });
            }
        }
    }
    found
}

fn numbered(lines: Vec<String>) -> Vec<(usize, String)> {
    lines.into_iter().enumerate().map(|(index, line)| (index + 1, line)).collect()
}

fn has_mark_without_issue(line: &str, mark: &str) -> bool {
    line.match_indices(mark).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let rest = line.get(at + mark.len()..).unwrap_or_default();
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let stands_alone =
            !before.is_some_and(is_word) && !rest.chars().next().is_some_and(is_word);
        let has_issue = rest
            .strip_prefix("(#")
            .and_then(|rest| rest.split_once(')'))
            .is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        stands_alone && !has_issue
    })
}

/// No folder of a particular machine.
pub(crate) fn machine_path(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.iter() {
        for (index, line) in text.lines().enumerate() {
            if MACHINE_FOLDERS.iter().any(|folder| begins_path(line, folder)) {
                let what = "a folder of one machine".into();
                let fix = "take it as an argument, or write it relative to the repository";
                found.push(Violation { path: path.into(), line: index + 1, what, fix });
            }
        }
    }
    found
}

/// Whether `folder` occurs as the beginning of a path rather than inside one or inside an address.
fn begins_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.~}*$".contains(c))
    })
}

/// No registry or mirror is named, and every locked package comes from the public index.
pub(crate) fn registry_host(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.iter() {
        for (index, line) in text.lines().enumerate() {
            let broken = if path == LOCK {
                line.starts_with("source =") && line != LOCK_SOURCE
            } else {
                REGISTRY_MARKS.iter().any(|mark| line.contains(mark))
            };
            if broken {
                let what = "a package registry or mirror is named".into();
                let fix = "keep it in the settings of the machine, outside the repository";
                found.push(Violation { path: path.into(), line: index + 1, what, fix });
            }
        }
    }
    found
}
