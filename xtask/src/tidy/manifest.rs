//! Reads the part of a `Cargo.toml` that the room rules need: package name, dependencies and
//! features. It is not a TOML parser: sections, keys and values that may span lines are enough, and
//! a form it does not know (a renamed crate) is itself a violation.

/// Which table a dependency stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Normal,
    Build,
    Dev,
}

/// A dependency as written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) section: Section,
    pub(crate) line: usize,
    pub(crate) value: String,
}

/// A key of the manifest outside the dependency tables, e.g. `package.name`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) line: usize,
    pub(crate) value: String,
}

/// The read parts of a manifest.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) entries: Vec<Entry>,
}

impl Manifest {
    pub(crate) fn parse(text: &str) -> Self {
        let mut manifest = Self::default();
        let mut header: Vec<String> = Vec::new();
        for (line, statement) in statements(text) {
            let inside = statement.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            if let Some(inside) = inside {
                header = key_parts(inside.trim_matches(['[', ']']));
                if let Some((section, [name])) = dependency_table(&header) {
                    manifest.add_dependency(line, section, name, String::new());
                }
            } else if let Some((key, value)) = statement.split_once('=') {
                manifest.add(line, &header, &key_parts(key), value.trim());
            }
        }
        manifest
    }

    /// The value of a key, without quotes.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(entry.value.trim_matches('"'))
    }

    fn add(&mut self, line: usize, header: &[String], key: &[String], value: &str) {
        match dependency_table(header) {
            None => {
                let key = [header, key].concat().join(".");
                self.entries.push(Entry { key, line, value: value.into() });
            }
            Some((section, [])) => {
                if let Some(name) = key.first() {
                    self.add_dependency(line, section, name, value.into());
                }
            }
            Some((_, [_, ..])) => {
                if let Some(dependency) = self.dependencies.last_mut() {
                    dependency.value += &format!("{} = {value}\n", key.join("."));
                }
            }
        }
    }

    fn add_dependency(&mut self, line: usize, section: Section, name: &str, value: String) {
        self.dependencies.push(Dependency { name: name.into(), section, line, value });
    }
}

/// If a header opens a dependency table: which, and the parts behind it.
fn dependency_table(header: &[String]) -> Option<(Section, &[String])> {
    let header = match header {
        // target.'cfg(unix)'.dependencies
        [first, _, rest @ ..] if first == "target" => rest,
        all => all,
    };
    let (first, rest) = header.split_first()?;
    let section = match first.as_str() {
        "dependencies" => Section::Normal,
        "build-dependencies" => Section::Build,
        "dev-dependencies" => Section::Dev,
        _ => return None,
    };
    Some((section, rest))
}

/// Statements with the line they begin on: comments dropped, lines joined while a bracket is open.
fn statements(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut depth = 0_usize;
    for (index, line) in text.lines().enumerate() {
        let line = without_comment(line).trim();
        if line.is_empty() {
            continue;
        }
        match found.last_mut() {
            Some((_, open)) if depth > 0 => {
                open.push(' ');
                open.push_str(line);
            }
            _ => found.push((index + 1, line.into())),
        }
        for c in outside_quotes(line) {
            match c {
                '[' | '{' => depth += 1,
                ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
    found
}

fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (c, quote) {
            ('#', None) => return line.get(..at).unwrap_or(line),
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
    }
    line
}

fn outside_quotes(line: &str) -> Vec<char> {
    let mut quote = None;
    let mut kept = Vec::new();
    for c in line.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, None) => kept.push(c),
            _ => {}
        }
    }
    kept
}

/// `target.'cfg(a.b)'.x` is three parts.
fn key_parts(key: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    for c in key.trim().chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('.', None) => parts.push(String::new()),
            (c, _) => {
                if let Some(part) = parts.last_mut() {
                    part.push(c);
                }
            }
        }
    }
    parts.into_iter().map(|part| part.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_in_all_usual_forms_is_read() {
        let text = r#"
[package]
name = "tg-x" # the name
[dependencies]
a.workspace = true
b = { version = "1", features = [
  "c", # not a key = 1
  "d",
] }
[target.'cfg(target_os = "linux")'.dependencies]
e = "1"
[dev-dependencies.f]
version = "1"
features = ["g"]
[features]
default = ["h"]
"#;
        let manifest = Manifest::parse(text);
        assert_eq!(manifest.value("package.name"), Some("tg-x"));
        assert_eq!(manifest.value("features.default"), Some("[\"h\"]"));
        let names: Vec<(&str, Section, usize)> =
            manifest.dependencies.iter().map(|d| (d.name.as_str(), d.section, d.line)).collect();
        let expected = [
            ("a", Section::Normal, 5),
            ("b", Section::Normal, 6),
            ("e", Section::Normal, 11),
            ("f", Section::Dev, 12),
        ];
        assert_eq!(names, expected);
        assert!(manifest.dependencies.iter().any(|d| d.name == "f" && d.value.contains("\"g\"")));
    }
}
