//! Every rule is shown a small tree that breaks it and one that keeps it, and the repository
//! itself must be tidy. A rule without a sample fails here.

use std::collections::BTreeMap;

use super::*;

/// A tree that breaks a rule in exactly one place.
struct Sample {
    rule: &'static str,
    /// Where, as `path:line`.
    at: &'static str,
    files: Vec<(&'static str, String)>,
}

fn tree(files: &[(&str, String)]) -> Tree {
    let files: BTreeMap<String, String> =
        files.iter().map(|(path, text)| ((*path).to_owned(), text.clone())).collect();
    Tree { files }
}

fn places(rule: &str, tree: &Tree) -> Vec<String> {
    let rule = RULES.iter().find(|known| known.name == rule).expect("a sample names a rule");
    let violations = (rule.check)(tree);
    violations.iter().map(|v| format!("{}:{}", v.path, v.line)).collect()
}

fn sample(rule: &'static str, at: &'static str, files: &[(&'static str, &str)]) -> Sample {
    let files = files.iter().map(|(path, text)| (*path, (*text).to_owned())).collect();
    Sample { rule, at, files }
}

fn long(rule: &'static str, at: &'static str, path: &'static str, text: String) -> Sample {
    Sample { rule, at, files: vec![(path, text)] }
}

/// A room table with one row per `folder crate uses`.
fn map(rows: &[&str]) -> String {
    let mut text =
        String::from("# Map\n<!-- rooms -->\n| room | crate | uses | for |\n|-|-|-|-|\n");
    for row in rows {
        let words: Vec<&str> = row.split(' ').collect();
        let cell = |index: usize| words.get(index).copied().unwrap_or_default();
        text += &format!("| `{}` | `{}` | {} | it |\n", cell(0), cell(1), cell(2));
    }
    text + "<!-- /rooms -->\n"
}

fn manifest(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n[dependencies]\n{rest}\n")
}

/// Two rooms that keep all rules; samples replace one file.
fn house(path: &'static str, text: String) -> Vec<(&'static str, String)> {
    let mut files = vec![
        ("ARCHITECTURE.md", map(&["core/types tg-types -", "edge/bft tg-bft `tg-types`"])),
        ("core/clippy.toml", String::new()),
        ("core/types/Cargo.toml", manifest("tg-types", "sha2 = \"1\"")),
        ("edge/clippy.toml", String::new()),
        ("edge/bft/Cargo.toml", manifest("tg-bft", "tg-types.workspace = true")),
    ];
    files.retain(|(known, _)| *known != path);
    files.push((path, text));
    files
}

fn in_house(rule: &'static str, at: &'static str, path: &'static str, text: String) -> Sample {
    Sample { rule, at, files: house(path, text) }
}

fn room_samples() -> Vec<Sample> {
    let both = ["core/types tg-types -", "edge/bft tg-bft `tg-types`"];
    let bft = |rest: &str| manifest("tg-bft", &format!("tg-types.workspace = true\n{rest}"));
    let third = map(&[both[0], both[1], "edge/gone tg-gone -"]);
    let few = map(&["core/types tg-types -"]);
    let wrong_name = map(&["core/types types -", both[1]]);
    let too_much = map(&[both[0], "edge/bft tg-bft `tg-types`,`tg-ledger`"]);
    let engine_user = "//! commonware_p2p in a comment.\nuse commonware_p2p::Peer;\n";
    let hidden = "commonware-p2p.workspace = true";
    let planted = "tg-x = { features = [\n\"planted-bugs\"] }";
    let default = "[features]\ndefault = [\"planted-bugs\"]";
    vec![
        in_house("room-table", "ARCHITECTURE.md:1", "ARCHITECTURE.md", "# Map\n".into()),
        in_house("room-table", "ARCHITECTURE.md:7", "ARCHITECTURE.md", third),
        in_house("room-table", "edge/bft/Cargo.toml:1", "ARCHITECTURE.md", few),
        in_house("room-table", "ARCHITECTURE.md:5", "ARCHITECTURE.md", wrong_name),
        in_house("room-table", "ARCHITECTURE.md:6", "ARCHITECTURE.md", too_much),
        in_house("room-table", "edge/bft/Cargo.toml:7", "edge/bft/Cargo.toml", bft("tg-a = \"1\"")),
        in_house(
            "room-floor",
            "core/types/Cargo.toml:6",
            "core/types/Cargo.toml",
            manifest("tg-types", "tg-bft.workspace = true"),
        ),
        in_house(
            "room-manifest",
            "core/types/Cargo.toml:1",
            "core/types/Cargo.toml",
            manifest("types", ""),
        ),
        in_house(
            "room-manifest",
            "edge/bft/Cargo.toml:1",
            "edge/bft/Cargo.toml",
            "[package]\nname = \"tg-bft\"\n".into(),
        ),
        in_house(
            "room-manifest",
            "attic/x/Cargo.toml:1",
            "attic/x/Cargo.toml",
            manifest("tg-x", ""),
        ),
        in_house(
            "room-manifest",
            "edge/bft/Cargo.toml:7",
            "edge/bft/Cargo.toml",
            bft("quiet = { version = \"1\", package = \"tokio\" }"),
        ),
        in_house(
            "core-crates",
            "core/types/Cargo.toml:6",
            "core/types/Cargo.toml",
            manifest("tg-types", "tokio = { version = \"1\" }"),
        ),
        in_house(
            "core-crates",
            "core/types/Cargo.toml:6",
            "core/types/Cargo.toml",
            manifest("tg-types", "hex = \"0.4\" # a test crate outside of tests"),
        ),
        in_house(
            "core-crates",
            "core/types/Cargo.toml:8",
            "core/types/Cargo.toml",
            manifest("tg-types", "[dev-dependencies]\nsha2 = \"1\"\nproptest = \"1\""),
        ),
        in_house(
            "engine-wall",
            "edge/chain/Cargo.toml:6",
            "edge/chain/Cargo.toml",
            manifest("tg-chain", hidden),
        ),
        in_house("engine-wall", "edge/api/src/a.rs:2", "edge/api/src/a.rs", engine_user.into()),
        in_house(
            "planted-bugs",
            "edge/sim/Cargo.toml:6",
            "edge/sim/Cargo.toml",
            manifest("tg-sim", planted),
        ),
        in_house(
            "planted-bugs",
            "core/ledger/Cargo.toml:7",
            "core/ledger/Cargo.toml",
            manifest("tg-ledger", default),
        ),
    ]
}

fn rust_samples() -> Vec<Sample> {
    let lines = |count: usize| "    x();\n".repeat(count);
    let long_file = format!("//! Doc.\n{}", "const A: u8 = 1;\n".repeat(800));
    let hidden_file = format!("//! D.\n#[cfg(test)]\nmod tests {{}}\n{}", "use a;\n".repeat(800));
    let long_function = format!("//! Doc.\nfn f() {{\n    let s = \"}}\";\n{}}}\n", lines(68));
    let wide = format!("//! Doc.\n// {}\n", "word ".repeat(25));
    let wide_script = format!("#!/bin/sh\n# {}\n", "word ".repeat(25));
    let wide_code = format!("//! Doc.\nconst A: &str = \"{}\";\n", "a".repeat(100));
    let expect = "//! D.\n#[expect(dead_code)]\nfn f() {}\n";
    let config = "//! D.\n\n#![cfg_attr(test,\n    allow(dead_code))]\n";
    let allow = "//! #[allow(x)]\n#[allow(dead_code, reason = \"r\")]\nfn f() {}\n";
    let slow =
        "//! D.\n#[test]\n#[ignore = \"slow: x\"]\nfn a_slow() {}\n#[test]\nfn b_slow() {}\n";
    let ignored = "//! D.\n#[test]\n#[ignore = \"r\"]\nfn a() {}\n#[test]\nfn b() {}\n";
    let silent = "//! D.\nfn x_slow() {}\n#[test]\n#[ignore]\nfn a_slow() {}\n";
    let apply = "//! apply\nfn apply_faults() {}\nimpl A { fn apply(&self) {} }\n";
    vec![
        long("file-length", "core/a.rs:1", "core/a.rs", long_file),
        long("file-length", "core/a.rs:1", "core/a.rs", hidden_file),
        long("function-length", "core/a.rs:2", "core/a.rs", long_function),
        long("line-length", "core/a.rs:2", "core/a.rs", wide),
        long("line-length", "core/a.rs:2", "core/a.rs", wide_code),
        long("line-length", ".ci/run:2", ".ci/run", wide_script),
        sample("module-doc", "core/a.rs:1", &[("core/a.rs", "use x;\n//! late\n")]),
        sample("module-doc", "core/a.rs:1", &[("core/a.rs", "")]),
        sample("lint-allow", "core/a.rs:2", &[("core/a.rs", allow)]),
        sample("lint-allow", "core/a.rs:2", &[("core/a.rs", expect)]),
        sample("lint-allow", "core/a.rs:3", &[("core/a.rs", config)]),
        sample("slow-test", "core/a.rs:6", &[("core/a.rs", slow)]),
        sample("slow-test", "core/a.rs:4", &[("core/a.rs", ignored)]),
        sample("slow-test", "core/a.rs:5", &[("core/a.rs", silent)]),
        sample("sim-apply", "edge/sim/src/a.rs:3", &[("edge/sim/src/a.rs", apply)]),
    ]
}

fn text_samples() -> Vec<Sample> {
    let folder = concat!("see \"/ho", "me/ada/notes\"\n");
    let host = concat!("[source]\nurl = \"https://index.crates", ".io/\"\n");
    let lock = "[[package]]\nsource = \"git+https://example.org/fork\"\n";
    vec![
        sample("todo-issue", "a.rs:1", &[("a.rs", "//! TODO: later\nconst A: &str = \"TODO\";")]),
        sample("todo-issue", "a.md:2", &[("a.md", "`TODO` TODO(#7)\nFIXME(#soon)\n")]),
        sample("todo-issue", "a.toml:1", &[("a.toml", "# HACK around it\n")]),
        sample("machine-path", "a.md:1", &[("a.md", folder)]),
        sample("registry-host", "a.toml:2", &[("a.toml", host)]),
        sample("registry-host", "Cargo.lock:2", &[("Cargo.lock", lock)]),
    ]
}

fn document_samples() -> Vec<Sample> {
    let changes = |text: &'static str, at| sample("changelog-form", at, &[("CHANGELOG.md", text)]);
    let readme = |text: &'static str, at| sample("readme-figure", at, &[("README.md", text)]);
    let link = |text: &'static str, at| sample("dead-link", at, &[("docs/a.md", text)]);
    vec![
        link("[x](../README.md)\n", "docs/a.md:1"),
        link("# A b\n[x](#a-b) [y](#a-c)\n", "docs/a.md:2"),
        link("![x](../../outside.svg)\n", "docs/a.md:1"),
        link("[x]: b.md\n", "docs/a.md:1"),
        sample("dead-path", "README.md:1", &[("README.md", "in `core/gone` and `cargo x`\n")]),
        readme("It is fast: 10,000 tx/s.\n", "README.md:1"),
        readme("# R\nThe run takes 5ms, see `src`.\n", "README.md:2"),
        readme("## Figures\n| a | b |\n|-|-|\n| blocks | 7 |\n", "README.md:4"),
        changes("# Changes\n## Unreleased\n", "CHANGELOG.md:1"),
        changes("# Changelog\n", "CHANGELOG.md:1"),
        changes("# Changelog\n## Unreleased\n- x\n", "CHANGELOG.md:3"),
        changes("# Changelog\n## Unreleased\n### Wallet\n", "CHANGELOG.md:3"),
        changes("# Changelog\n## Unreleased\n### Fixed\n- x\n", "CHANGELOG.md:3"),
        changes("# Changelog\n## Unreleased\n## 1.0 - May\n", "CHANGELOG.md:3"),
    ]
}

fn samples() -> Vec<Sample> {
    [room_samples(), rust_samples(), text_samples(), document_samples()]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn rule_broken_in_one_place_reports_this_place() {
    for Sample { rule, at, files } in samples() {
        let found = places(rule, &tree(&files));
        assert_eq!(found, [at], "rule {rule} on a sample that breaks it at {at}");
    }
}

#[test]
fn rule_without_a_sample_is_not_accepted() {
    let shown: Vec<&str> = samples().iter().map(|sample| sample.rule).collect();
    let unshown: Vec<&str> =
        RULES.iter().map(|rule| rule.name).filter(|name| !shown.contains(name)).collect();
    assert_eq!(unshown, Vec::<&str>::new());
}

/// The negative space: things that look like violations and are none.
#[test]
fn tree_that_keeps_all_rules_is_silent() {
    let body = "    x();\n".repeat(68);
    let hex = "ab".repeat(50);
    let code = format!(
        "//! Doc.\n// TODO(#12): later, see https://example.org/{hex}\n\
         #[expect(dead_code, reason = \"r\")]\nfn f() {{\n{body}}}\n\
         #[cfg(test)]\nmod tests {{\n    const KEY: &str = \"{hex}\";\n    fn long() {{\n{body}\
         {body}    }}\n}}\n"
    );
    let readme = "# R\n[map](ARCHITECTURE.md#map) and `core/types`, built on x86-64-v3.\n\
                  ## Figures\n| what | value | command |\n|-|-|-|\n\
                  | speed | 9 tx/s | `cargo run --release -- bench` |\n";
    let changes = "# Changelog\n## Unreleased\n### Wallet\n- new\n  line\n## 1.0.0 - 2027-01-31\n";
    let mut files = house("core/types/src/lib.rs", code);
    files.push(("README.md", readme.into()));
    files.push(("CHANGELOG.md", changes.into()));
    files.push(("a.sh", "cd \"$HOME/work/here\" https://example.org/home/\n".into()));
    assert_eq!(report(&tree(&files)), Vec::<String>::new());
}

#[test]
fn violation_is_printed_with_place_rule_and_advice() {
    let files = [("core/a.rs", "fn f() {}\n".to_owned()), ("CHANGELOG.md", String::new())];
    let lines = report(&tree(&files));
    let expected = "core/a.rs:1: module-doc: the file does not begin with //!; \
                    say what it is for and why it is separate";
    assert!(lines.iter().any(|line| line == expected), "{lines:#?}");
}

#[test]
fn contributing_explains_every_rule() {
    let root = crate::workspace_root().expect("tests run inside the workspace");
    let tree = Tree::load(&root).expect("git lists the files");
    let guide = tree.text("CONTRIBUTING.md").expect("CONTRIBUTING.md exists");
    for rule in RULES {
        assert!(guide.contains(&format!("`{}`", rule.name)), "{} is not explained", rule.name);
    }
}

#[test]
fn repository_is_tidy() {
    let root = crate::workspace_root().expect("tests run inside the workspace");
    let tree = Tree::load(&root).expect("git lists the files");
    let report = report(&tree);
    assert!(report.is_empty(), "cargo xtask tidy says:\n{}", report.join("\n"));
}
