//! Rules about Rust files: their length, their documentation, and what they may not contain.

use super::source::{Function, Source};
use super::{Tree, Violation};

/// Lines of a file that are not tests.
const FILE_LINES_MAX: usize = 800;
/// Lines of a function from `fn` to its closing brace: what fits on a screen.
const FUNCTION_LINES_MAX: usize = 70;
/// Characters of a line: two files side by side on a laptop.
const LINE_COLUMNS_MAX: usize = 100;
/// In tests, a word this long is a fixture (hex, a path of a golden file) that cannot be broken.
const FIXTURE_WORD_MIN: usize = 60;

/// Names under which a second state machine would appear in the simulator.
const APPLY_NAMES: &[&str] =
    &["apply", "apply_block", "apply_tx", "apply_txs", "apply_transaction", "apply_transactions"];

/// Files that hold tests only.
fn is_test_path(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.contains("fixtures/")
}

fn violation(path: &str, line: usize, what: String, fix: &'static str) -> Violation {
    Violation { path: path.into(), line, what, fix }
}

fn production_files(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.with_ending(".rs").filter(|(path, _)| !is_test_path(path))
}

/// At most [`FILE_LINES_MAX`] lines, tests not counted.
pub(crate) fn file_length(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in production_files(tree) {
        let tests = Source::new(text).test_items();
        let is_production = |line: &usize| !tests.iter().any(|item| item.contains(line));
        let lines = (1..=text.lines().count()).filter(is_production).count();
        if lines > FILE_LINES_MAX {
            let what = format!("{lines} lines without tests, at most {FILE_LINES_MAX}");
            found.push(violation(path, 1, what, "split it where the meaning changes"));
        }
    }
    found
}

/// At most [`FUNCTION_LINES_MAX`] lines per function, tests exempt.
pub(crate) fn function_length(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in production_files(tree) {
        let source = Source::new(text);
        let tests = source.test_items();
        for Function { name, lines } in source.functions() {
            let is_test = tests.iter().any(|item| item.contains(lines.start()));
            let count = lines.end() - lines.start() + 1;
            if count > FUNCTION_LINES_MAX && !is_test {
                let what =
                    format!("function {name} has {count} lines, at most {FUNCTION_LINES_MAX}");
                let fix = "keep the branches here and move straight-line pieces into helpers";
                found.push(violation(path, *lines.start(), what, fix));
            }
        }
    }
    found
}

/// At most [`LINE_COLUMNS_MAX`] columns in code and scripts; addresses and test fixtures exempt.
pub(crate) fn line_length(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.iter() {
        let is_rust = path.ends_with(".rs");
        let is_script = path.ends_with(".sh") || text.starts_with("#!");
        if path.contains("fixtures/") || !(is_rust || is_script) {
            continue;
        }
        let tests = if is_rust { Source::new(text).test_items() } else { Vec::new() };
        for (index, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns <= LINE_COLUMNS_MAX || line.contains("://") {
                continue;
            }
            let in_test = is_test_path(path) || tests.iter().any(|t| t.contains(&(index + 1)));
            let has_fixture =
                line.split_whitespace().any(|word| word.chars().count() >= FIXTURE_WORD_MIN);
            if !(in_test && has_fixture) {
                let what = format!("{columns} columns, at most {LINE_COLUMNS_MAX}");
                found.push(violation(path, index + 1, what, "break the line"));
            }
        }
    }
    found
}

/// Every Rust file begins with `//!`: what it is for and why it is separate.
pub(crate) fn module_doc(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.with_ending(".rs") {
        let first = text.lines().find(|line| !line.trim().is_empty());
        if !first.is_some_and(|line| line.starts_with("//!")) {
            let what = "the file does not begin with //!".into();
            found.push(violation(path, 1, what, "say what it is for and why it is separate"));
        }
    }
    found
}

/// Lints are silenced by `expect` with a reason, never by `allow`.
pub(crate) fn lint_allow(tree: &Tree) -> Vec<Violation> {
    let fix = "use #[expect(lint, reason = \"...\")]";
    let mut found = Vec::new();
    for (path, text) in tree.with_ending(".rs") {
        for attribute in Source::new(text).attributes() {
            let text = &attribute.text;
            let has = |what: &str| {
                text.starts_with(what)
                    || (text.starts_with("cfg_attr(") && text.contains(&format!(",{what}")))
            };
            if has("allow(") {
                let what = "a lint is silenced with allow".into();
                found.push(violation(path, attribute.line, what, fix));
            } else if has("expect(") && !text.contains("reason=") {
                let what = "a lint is silenced without a reason".into();
                found.push(violation(path, attribute.line, what, fix));
            }
        }
    }
    found
}

/// A test whose name ends in `_slow` is ignored with a reason, and no other test is: `cargo test`
/// stays quick, and `cargo xtask ci` runs the slow ones apart.
pub(crate) fn slow_test(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.with_ending(".rs") {
        let source = Source::new(text);
        let attributes = source.attributes();
        let mut first_line = 1;
        for Function { name, lines } in source.functions() {
            let own =
                || attributes.iter().filter(|a| (first_line..=*lines.start()).contains(&a.line));
            let is_test = own().any(|attribute| attribute.text == "test");
            let ignore = own().find(|attribute| attribute.text.starts_with("ignore"));
            let is_slow = name.ends_with("_slow");
            let fault = match ignore {
                Some(ignore) if ignore.text == "ignore" => Some("is ignored without a reason"),
                Some(_) if !is_slow => Some("is ignored, but its name does not end in _slow"),
                None if is_slow && is_test => Some("is slow, but not ignored"),
                Some(_) | None => None,
            };
            if let Some(fault) = fault {
                let fix = "name it ..._slow and mark it #[ignore = \"slow: why\"], or neither";
                found.push(violation(path, *lines.start(), format!("test {name} {fault}"), fix));
            }
            first_line = lines.start() + 1;
        }
    }
    found
}

/// The simulator runs the product's state machine and has none of its own.
pub(crate) fn sim_apply(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.with_ending(".rs").filter(|(path, _)| path.starts_with("edge/sim/")) {
        for Function { name, lines } in Source::new(text).functions() {
            if APPLY_NAMES.contains(&name.as_str()) {
                let what = format!("edge/sim has a function {name} of its own");
                let fix = "call the ledger's; a simulator with its own rules tests nothing";
                found.push(violation(path, *lines.start(), what, fix));
            }
        }
    }
    found
}
