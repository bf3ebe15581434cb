//! The rules of the house that a machine can check. One table of rules, each a pure function of
//! the tracked files, so that every rule is tested on a small sample tree that breaks it.
//!
//! `tidy` reports everything it finds, never only the first: file:line, the rule, what is wrong and
//! what to do. The rules work on text (a small scanner, no Rust parser), which is exact enough for
//! formatted code and keeps this room free of dependencies.

mod docs;
mod manifest;
mod markdown;
mod rooms;
mod rust;
mod source;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// All tracked files by path, with `/` between folders. Files that are not text have empty text.
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Files that git tracks or would track, so that a forgotten `git add` is checked as well.
    fn load(root: &Path) -> Result<Self, String> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("cannot start git: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("git ls-files failed: {}", said.trim()));
        }
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut files = BTreeMap::new();
        for path in listed.split('\0').filter(|path| !path.is_empty()) {
            // A tracked file that was deleted is still listed; it is simply gone.
            if let Ok(bytes) = std::fs::read(root.join(path)) {
                files.insert(path.to_owned(), String::from_utf8(bytes).unwrap_or_default());
            }
        }
        Ok(Self { files })
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    fn with_ending<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.iter().filter(move |(path, _)| path.ends_with(ending))
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether a path names a tracked file or a folder that holds one.
    fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.keys().any(|file| file.starts_with(&folder))
    }
}

/// One place that breaks one rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    path: String,
    /// Counted from 1.
    line: usize,
    what: String,
    fix: &'static str,
}

/// A rule: its name (listed in CONTRIBUTING.md) and its check.
struct Rule {
    name: &'static str,
    check: fn(&Tree) -> Vec<Violation>,
}

const fn rule(name: &'static str, check: fn(&Tree) -> Vec<Violation>) -> Rule {
    Rule { name, check }
}

const RULES: &[Rule] = &[
    rule("room-table", rooms::table),
    rule("room-floor", rooms::floor),
    rule("room-manifest", rooms::manifest_form),
    rule("core-crates", rooms::core_crates),
    rule("engine-wall", rooms::engine_wall),
    rule("planted-bugs", rooms::planted_bugs),
    rule("sim-apply", rust::sim_apply),
    rule("file-length", rust::file_length),
    rule("function-length", rust::function_length),
    rule("line-length", rust::line_length),
    rule("module-doc", rust::module_doc),
    rule("lint-allow", rust::lint_allow),
    rule("slow-test", rust::slow_test),
    rule("todo-issue", text::todo_issue),
    rule("machine-path", text::machine_path),
    rule("registry-host", text::registry_host),
    rule("dead-link", docs::dead_link),
    rule("dead-path", docs::dead_path),
    rule("readme-figure", docs::readme_figure),
    rule("changelog-form", docs::changelog_form),
];

/// Checks the tree at `root` and prints all violations; true if there is none.
pub(crate) fn run(root: &Path) -> bool {
    let tree = match Tree::load(root) {
        Ok(tree) => tree,
        Err(error) => {
            println!("tidy: {error}");
            return false;
        }
    };
    let report = report(&tree);
    for line in &report {
        println!("{line}");
    }
    let files = tree.files.len();
    println!("tidy: {} rules, {files} files, {} violations", RULES.len(), report.len());
    report.is_empty()
}

/// One printed line per violation, rule by rule.
fn report(tree: &Tree) -> Vec<String> {
    let lines = RULES.iter().flat_map(|rule| {
        (rule.check)(tree).into_iter().map(|violation| {
            let Violation { path, line, what, fix } = violation;
            format!("{path}:{line}: {}: {what}; {fix}", rule.name)
        })
    });
    lines.collect()
}
