//! Rules about documents: links and paths lead somewhere, figures can be reproduced, the changelog
//! keeps its form.

use super::{Tree, Violation, markdown};

/// Prefixes that make a `code` span a path of this repository.
const PATH_PREFIXES: &[&str] = &[
    "core/",
    "engine/",
    "edge/",
    "docs/",
    "xtask/",
    "fixtures/",
    "contracts/",
    "examples/",
    ".ci/",
    ".cargo/",
];
/// Documents about the past: what they name may be gone.
const HISTORY: &[&str] = &["CHANGELOG.md", "docs/design/"];

/// Units that turn a number in README into a claim.
const UNITS: &[&str] = &[
    "tx/s", "blocks/s", "ms", "µs", "us", "s", "min", "minutes", "seconds", "KB", "kB", "KiB",
    "MB", "MiB", "GB", "GiB", "%", "x",
];
/// How a command begins that reproduces a figure.
const COMMANDS: &[&str] = &["cargo ", "tensorgrid ", "tg-sim ", ".ci/run"];

const README: &str = "README.md";
const CHANGELOG: &str = "CHANGELOG.md";
/// Headings that sort by kind of edit; ours sort by capability.
const EDIT_KINDS: &[&str] = &["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

/// Relative links and anchors of all documents lead to something that exists.
pub(crate) fn dead_link(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.with_ending(".md") {
        for line in markdown::prose(text) {
            for target in markdown::link_targets(line.text) {
                if let Some(what) = link_fault(tree, path, &target) {
                    let fix = "correct the link or remove it";
                    found.push(Violation { path: path.into(), line: line.number, what, fix });
                }
            }
        }
    }
    found
}

fn link_fault(tree: &Tree, from: &str, target: &str) -> Option<String> {
    let is_address = target.contains("://") || target.starts_with("mailto:");
    if is_address {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { Some(from.to_owned()) } else { resolve(from, file) };
    let Some(path) = path.filter(|path| tree.exists(path)) else {
        return Some(format!("link to {target}, which does not exist"));
    };
    let text = tree.text(&path).unwrap_or_default();
    let has_anchor = anchor.is_empty()
        || !path.ends_with(".md")
        || markdown::anchors(text).iter().any(|known| known == anchor);
    (!has_anchor).then(|| format!("link to #{anchor}, but {path} has no such heading"))
}

/// `link` as seen from the folder of `from`; nothing if it leaves the repository.
fn resolve(from: &str, link: &str) -> Option<String> {
    if link.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// A `path/in/code` that begins like a path of ours exists.
pub(crate) fn dead_path(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let is_current = |path: &str| !HISTORY.iter().any(|past| path.starts_with(past));
    for (path, text) in tree.with_ending(".md").filter(|(path, _)| is_current(path)) {
        for line in markdown::prose(text) {
            for span in markdown::code_spans(line.text) {
                let is_path = PATH_PREFIXES.iter().any(|prefix| span.starts_with(prefix));
                let is_pattern = span.contains(|c: char| " *<>{}$".contains(c));
                if is_path && !is_pattern && !tree.exists(&span) {
                    let what = format!("{span} does not exist");
                    let fix = "name what is there now";
                    found.push(Violation { path: path.into(), line: line.number, what, fix });
                }
            }
        }
    }
    found
}

/// A line of README with a figure, and every row of its table of figures, carries the command that
/// reproduces it.
pub(crate) fn readme_figure(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut in_figures = false;
    let mut table_rows = 0_usize;
    for line in markdown::prose(tree.text(README).unwrap_or_default()) {
        if let Some(heading) = line.text.strip_prefix("## ") {
            in_figures = heading == "Figures";
            table_rows = 0;
        }
        let is_row = in_figures && line.text.starts_with('|');
        table_rows += usize::from(is_row);
        // The first two rows are the heading and the rule below it.
        let is_figure = has_figure(&markdown::without_code(line.text)) || table_rows > 2 && is_row;
        let has_command = markdown::code_spans(line.text)
            .iter()
            .any(|span| COMMANDS.iter().any(|command| span.starts_with(command)));
        if is_figure && !has_command {
            let what = "a figure without the command that reproduces it".into();
            let fix = "put the command on the same line, or move the figure into the table";
            found.push(Violation { path: README.into(), line: line.number, what, fix });
        }
    }
    found
}

/// Whether a number with a unit stands in the line: `5 ms`, `12,000 tx/s`, `99.5%`.
fn has_figure(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().map(|w| w.trim_matches(trimmed)).collect();
    let follows = |index: usize| words.get(index + 1).is_some_and(|unit| UNITS.contains(unit));
    words.iter().enumerate().any(|(index, word)| {
        let number_end = word.rfind(|c: char| c.is_ascii_digit()).map_or(0, |at| at + 1);
        let (number, unit) = word.split_at_checked(number_end).unwrap_or(("", word));
        let is_number =
            !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || ".,".contains(c));
        is_number && (UNITS.contains(&unit) || (unit.is_empty() && follows(index)))
    })
}

fn trimmed(c: char) -> bool {
    "|()[]*_,.;:<>=~≤≥".contains(c)
}

/// The changelog has an Unreleased part first, dated releases after it, entries by capability.
pub(crate) fn changelog_form(tree: &Tree) -> Vec<Violation> {
    let text = tree.text(CHANGELOG).unwrap_or_default();
    let lines = markdown::prose(text);
    let mut found = Vec::new();
    if text.lines().next() != Some("# Changelog") {
        let what = "the first line is not `# Changelog`".into();
        found.push(change_violation(1, what, "make it the title"));
    }
    found.extend(release_faults(&lines));
    found.extend(capability_faults(&lines));
    found
}

fn change_violation(line: usize, what: String, fix: &'static str) -> Violation {
    Violation { path: CHANGELOG.into(), line, what, fix }
}

fn release_faults(lines: &[markdown::Line<'_>]) -> Vec<Violation> {
    let mut found = Vec::new();
    let releases = || lines.iter().filter_map(|l| Some((l.number, l.text.strip_prefix("## ")?)));
    let first = releases().next();
    if first.is_none_or(|(_, release)| release != "Unreleased") {
        let line = first.map_or(1, |(line, _)| line);
        let what = "the first part is not Unreleased".into();
        found.push(change_violation(line, what, "begin with `## Unreleased`, even if it is empty"));
    }
    for (line, release) in releases().skip(1).filter(|(_, release)| !is_release(release)) {
        let what = format!("heading `{release}` is not a release");
        found.push(change_violation(line, what, "write it as `## 1.2.3 - 2027-01-31`"));
    }
    found
}

/// A `###` heading of the changelog while its entries are counted.
struct Capability {
    line: usize,
    entries: usize,
}

fn capability_faults(lines: &[markdown::Line<'_>]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut capabilities: Vec<Capability> = Vec::new();
    let mut inside = false;
    for line in lines {
        if line.text.starts_with("## ") {
            inside = false;
        } else if let Some(name) = line.text.strip_prefix("### ") {
            inside = true;
            capabilities.push(Capability { line: line.number, entries: 0 });
            if EDIT_KINDS.contains(&name) {
                let what = format!("`{name}` is a kind of edit");
                let fix = "sort by what the reader can do, e.g. `### Wallet`";
                found.push(change_violation(line.number, what, fix));
            }
        } else if line.text.starts_with("- ") {
            match capabilities.last_mut().filter(|_| inside) {
                Some(capability) => capability.entries += 1,
                None => {
                    let what = "an entry under no capability".into();
                    found.push(change_violation(line.number, what, "put it below a `###` heading"));
                }
            }
        }
    }
    for capability in capabilities.iter().filter(|capability| capability.entries == 0) {
        let what = "a capability without an entry".into();
        found.push(change_violation(capability.line, what, "add one or drop it"));
    }
    found
}

fn is_release(heading: &str) -> bool {
    let numbers = |text: &str, separator: char, lengths: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        parts.len() == lengths.len()
            && parts.iter().zip(lengths).all(|(part, length)| {
                part.parse::<u32>().is_ok() && (*length == 0 || part.len() == *length)
            })
    };
    heading.split_once(" - ").is_some_and(|(version, date)| {
        numbers(version, '.', &[0, 0, 0]) && numbers(date, '-', &[4, 2, 2])
    })
}
