//! Rules about rooms: the table in ARCHITECTURE.md, the walls between rooms, and the crates each
//! floor may use. A wall that is only written down is broken within a month; here it is compared
//! with every manifest.

use std::collections::BTreeSet;

use super::manifest::{Dependency, Manifest, Section};
use super::source::Source;
use super::{Tree, Violation, markdown};

const MAP: &str = "ARCHITECTURE.md";
const TABLE_START: &str = "<!-- rooms -->";
const TABLE_END: &str = "<!-- /rooms -->";

/// The floors from the bottom up: a room may use rooms of its own floor and of those below.
const FLOORS: &[&str] = &["core", "engine", "edge"];

/// What code in core/ may use. An allow-list, because the list of crates that read a clock, a file
/// or a random source has no end. Each of these is a pure function of its arguments as used here.
const CORE_CRATES: &[&str] = &[
    "curve25519-dalek",
    "ed25519-zebra",
    "rand_chacha",
    "rand_core",
    "sha2",
    "thiserror",
    "zeroize",
];
/// What tests in core/ may use besides.
const CORE_TEST_CRATES: &[&str] = &["arbtest", "expect-test", "hex"];

/// Types of the BFT engine live behind this prefix and in these rooms only
/// (docs/design/0001-engine-room.md).
const ENGINE_PREFIX: &str = "commonware";
const ENGINE_ROOMS: &[&str] = &["edge/bft", "edge/sim"];

/// The ledger feature that ships nowhere.
const PLANTED: &str = "planted-bugs";

/// A crate with a workspace of its own: it is built with other flags and belongs to no floor.
const OUTSIDE: &str = "fuzz";

/// A row of the table in the map.
struct Row {
    line: usize,
    folder: String,
    package: String,
    uses: BTreeSet<String>,
}

/// A crate of the tree.
struct Room<'a> {
    folder: &'a str,
    path: &'a str,
    manifest: Manifest,
}

impl Room<'_> {
    fn floor(&self) -> Option<usize> {
        let (first, _) = self.folder.split_once('/')?;
        FLOORS.iter().position(|floor| *floor == first)
    }

    fn package(&self) -> &str {
        self.manifest.value("package.name").unwrap_or_default()
    }

    fn violation(&self, line: usize, what: String, fix: &'static str) -> Violation {
        Violation { path: self.path.into(), line, what, fix }
    }

    fn is_core(&self) -> bool {
        self.folder.starts_with("core/")
    }
}

fn rooms(tree: &Tree) -> Vec<Room<'_>> {
    let manifests = tree.with_ending("/Cargo.toml");
    let rooms = manifests.filter_map(|(path, text)| {
        let folder = path.strip_suffix("/Cargo.toml").filter(|folder| *folder != OUTSIDE)?;
        Some(Room { folder, path, manifest: Manifest::parse(text) })
    });
    rooms.collect()
}

/// A dependency on another room, by crate name.
fn is_room(dependency: &Dependency) -> bool {
    dependency.name.starts_with("tg-") || dependency.name == "tensorgrid"
}

fn map_violation(line: usize, what: String, fix: &'static str) -> Violation {
    Violation { path: MAP.into(), line, what, fix }
}

/// The table lists exactly the rooms that exist, under their right names and with exactly the
/// other rooms that their manifests name.
pub(crate) fn table(tree: &Tree) -> Vec<Violation> {
    let (rows, mut found) = read_table(tree);
    if rows.is_empty() {
        let what = format!("no room table between {TABLE_START} and {TABLE_END}");
        found.push(map_violation(1, what, "add the table: folder, crate, uses, purpose"));
        return found;
    }
    let rooms = rooms(tree);
    for row in &rows {
        match rooms.iter().find(|room| room.folder == row.folder) {
            None => {
                let what = format!("the table lists {}, which does not exist", row.folder);
                let fix = "drop the row: a room is listed when it has code";
                found.push(map_violation(row.line, what, fix));
            }
            Some(room) => found.extend(compare(row, room)),
        }
    }
    for room in rooms {
        if !rows.iter().any(|row| row.folder == room.folder) {
            let what = format!("{} is not in the room table of {MAP}", room.folder);
            found.push(room.violation(1, what, "add a row with its purpose and what it uses"));
        }
    }
    found
}

fn compare(row: &Row, room: &Room<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    if row.package != room.package() {
        let what = format!("{} is named {}, not {}", row.folder, room.package(), row.package);
        found.push(map_violation(row.line, what, "write the name of its manifest"));
    }
    let dependencies = || room.manifest.dependencies.iter().filter(|d| is_room(d));
    for dependency in dependencies().filter(|d| !row.uses.contains(&d.name)) {
        let what =
            format!("{} uses {}, which the table does not allow", row.folder, dependency.name);
        let fix = "remove the dependency, or add it to the room's row and say why in the commit";
        found.push(room.violation(dependency.line, what, fix));
    }
    for name in row.uses.iter().filter(|name| !dependencies().any(|d| d.name == **name)) {
        let what = format!("the table says {} uses {name}, the manifest does not", row.folder);
        found.push(map_violation(row.line, what, "remove it from the row"));
    }
    found
}

fn read_table(tree: &Tree) -> (Vec<Row>, Vec<Violation>) {
    let mut rows = Vec::new();
    let mut found = Vec::new();
    let lines = tree.text(MAP).unwrap_or_default().lines().enumerate();
    let inside = lines
        .skip_while(|(_, line)| line.trim() != TABLE_START)
        .take_while(|(_, line)| line.trim() != TABLE_END);
    // The first two rows are the heading and the rule below it.
    for (index, line) in inside.filter(|(_, line)| line.starts_with('|')).skip(2) {
        let cells = markdown::cells(line);
        match cells.as_slice() {
            [folder, package, uses, purpose] if !purpose.is_empty() => rows.push(Row {
                line: index + 1,
                folder: folder.trim_matches('`').into(),
                package: package.trim_matches('`').into(),
                uses: markdown::code_spans(uses).into_iter().collect(),
            }),
            _ => {
                let what = "a row of the room table is not folder, crate, uses, purpose".into();
                found.push(map_violation(index + 1, what, "give it these four cells"));
            }
        }
    }
    (rows, found)
}

/// No room uses a room of a higher floor, whatever the table says.
pub(crate) fn floor(tree: &Tree) -> Vec<Violation> {
    let rooms = rooms(tree);
    let mut found = Vec::new();
    for room in &rooms {
        for dependency in room.manifest.dependencies.iter().filter(|d| is_room(d)) {
            let used = rooms.iter().find(|other| other.package() == dependency.name);
            let (Some(floor), Some(used)) = (room.floor(), used) else {
                continue;
            };
            if used.floor().is_none_or(|above| above > floor) {
                let what = format!("{} must not use {}, a higher floor", room.folder, used.folder);
                let fix = "move the shared part down, or pass it in through a trait of types";
                found.push(room.violation(dependency.line, what, fix));
            }
        }
    }
    found
}

/// Every room is named after its folder, takes the workspace's lints, stands on a floor that has
/// its clippy.toml, and renames no crate.
pub(crate) fn manifest_form(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for room in rooms(tree) {
        let expected = match room.folder {
            "xtask" => "xtask".to_owned(),
            "edge/tensorgrid" => "tensorgrid".to_owned(),
            folder => format!("tg-{}", folder.rsplit('/').next().unwrap_or(folder)),
        };
        if room.package() != expected {
            let what = format!("crate {} should be named {expected}", room.package());
            found.push(room.violation(1, what, "a crate is tg-<folder>"));
        }
        if room.manifest.value("lints.workspace") != Some("true") {
            let what = "the room does not take the workspace's lints".into();
            found.push(room.violation(1, what, "add [lints] workspace = true"));
        }
        match room.floor().and_then(|floor| FLOORS.get(floor)) {
            Some(floor) if !tree.exists(&format!("{floor}/clippy.toml")) => {
                let what = format!("floor {floor}/ has no clippy.toml");
                found.push(room.violation(1, what, "write the floor's rules into one"));
            }
            None if room.folder != "xtask" => {
                let what = format!("{} stands on no floor", room.folder);
                found.push(room.violation(1, what, "put it into core/, engine/ or edge/"));
            }
            Some(_) | None => {}
        }
        for dependency in &room.manifest.dependencies {
            if dependency.value.contains("package =") {
                let what = format!("{} is a renamed crate", dependency.name);
                let fix = "use crates under their own name, so that the walls can be checked";
                found.push(room.violation(dependency.line, what, fix));
            }
        }
    }
    found
}

/// Rooms in core/ use other rooms and the crates of the allow-list, nothing else.
pub(crate) fn core_crates(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for room in rooms(tree).into_iter().filter(Room::is_core) {
        for dependency in room.manifest.dependencies.iter().filter(|d| !is_room(d)) {
            let name = dependency.name.as_str();
            let allowed = match dependency.section {
                Section::Normal | Section::Build => CORE_CRATES.contains(&name),
                Section::Dev => CORE_CRATES.contains(&name) || CORE_TEST_CRATES.contains(&name),
            };
            if !allowed {
                let what = format!("core/ must not use {name}");
                let fix = "do it in edge/, or show that it is pure and add it to CORE_CRATES";
                found.push(room.violation(dependency.line, what, fix));
            }
        }
    }
    found
}

/// The BFT engine's crates are named only by the rooms that may know them.
pub(crate) fn engine_wall(tree: &Tree) -> Vec<Violation> {
    let fix = "let edge/bft offer it under our own types";
    let mut found = Vec::new();
    for room in rooms(tree).into_iter().filter(|room| !ENGINE_ROOMS.contains(&room.folder)) {
        for dependency in &room.manifest.dependencies {
            if dependency.name.starts_with(ENGINE_PREFIX) {
                let what = format!("{} must not use {}", room.folder, dependency.name);
                found.push(room.violation(dependency.line, what, fix));
            }
        }
    }
    let path_prefix = format!("{ENGINE_PREFIX}_");
    for (path, text) in tree.with_ending(".rs") {
        if ENGINE_ROOMS.iter().any(|room| path.starts_with(&format!("{room}/"))) {
            continue;
        }
        for (index, line) in Source::new(text).code_lines().iter().enumerate() {
            if line.contains(&path_prefix) {
                let what = "a type of the BFT engine outside its rooms".into();
                found.push(Violation { path: path.into(), line: index + 1, what, fix });
            }
        }
    }
    found
}

/// No room switches the planted bugs on: they are chosen on the command line or not at all.
pub(crate) fn planted_bugs(tree: &Tree) -> Vec<Violation> {
    let fix = "forward it as a feature of the room, never as a default";
    let mut found = Vec::new();
    for room in rooms(tree) {
        for dependency in &room.manifest.dependencies {
            if dependency.value.contains(PLANTED) {
                let what = format!("{} switches {PLANTED} on", dependency.name);
                found.push(room.violation(dependency.line, what, fix));
            }
        }
        let defaults = room.manifest.entries.iter().filter(|e| e.key == "features.default");
        for entry in defaults.filter(|entry| entry.value.contains(PLANTED)) {
            let what = format!("{PLANTED} is a default feature");
            found.push(room.violation(entry.line, what, fix));
        }
    }
    found
}
