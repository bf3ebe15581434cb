//! What can be wrong with a file, and where.

use std::fmt;

/// A place in a file, counted from 1 in lines and characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl Position {
    /// Where a file begins.
    pub const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A fault in a file, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{at}: {fault}")]
pub struct JobFileError {
    /// The file, as its reader called it.
    pub file: String,
    /// Where.
    pub at: Position,
    /// What.
    pub fault: Fault,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// More than is read.
    #[error("the file has {bytes} bytes, at most {max}")]
    TooLarge {
        /// How many.
        bytes: usize,
        /// The most.
        max: usize,
    },
    /// Not YAML.
    #[error("this is not YAML: {detail}")]
    Syntax {
        /// What the parser says.
        detail: String,
    },
    /// Lists and mappings in each other, without end.
    #[error("lists and mappings are nested more than {max} deep")]
    TooDeep {
        /// The most.
        max: usize,
    },
    /// An alias, or an anchor for one.
    #[error("anchors (&) and aliases (*) are not read; write the value out")]
    Alias,
    /// A tag.
    #[error("tags (!) are not read; leave it out")]
    Tag,
    /// A second document.
    #[error("a second document begins here; one file is one job")]
    SecondDocument,
    /// Nothing but comments.
    #[error("the file is empty")]
    Empty,
    /// A key that is a list, a mapping or nothing.
    #[error("a key must be a word")]
    KeyForm,
    /// A key that stands twice.
    #[error("`{key}` is here a second time; the first is in line {first}")]
    RepeatedKey {
        /// The key.
        key: String,
        /// The line of the first.
        first: usize,
    },
    /// A key without a meaning.
    #[error("unknown key `{key}`{}", suggest(*.suggestion))]
    UnknownKey {
        /// The key, with the sections around it.
        key: String,
        /// The closest key that has a meaning.
        suggestion: Option<&'static str>,
    },
    /// A value of another form.
    #[error("`{key}`: expected {expected}, found {found}")]
    Expected {
        /// The key, with the sections around it.
        key: String,
        /// The form, in words.
        expected: &'static str,
        /// What is there, shortened.
        found: String,
    },
    /// A key without which the others mean nothing.
    #[error("`{key}` is missing: {expected}")]
    Missing {
        /// The key, with the sections around it.
        key: String,
        /// What it would say.
        expected: &'static str,
    },
    /// Two keys that exclude each other.
    #[error("`{key}` cannot be used together with `{other}`: {why}")]
    Together {
        /// The one that is one too many.
        key: &'static str,
        /// The other one.
        other: &'static str,
        /// Why not both.
        why: &'static str,
    },
    /// A job without work.
    #[error("nothing to run: name a `model`, an `image` or a command in `run`")]
    NothingToRun,
    /// A list or mapping with more than is read.
    #[error("`{key}` has {count} entries, at most {max}")]
    TooMany {
        /// The key, with the sections around it.
        key: String,
        /// How many.
        count: usize,
        /// The most.
        max: usize,
    },
    /// A source for an importer that describes no work.
    #[error("there is nothing to import: {expected}")]
    NothingToImport {
        /// What was looked for.
        expected: &'static str,
    },
}

fn suggest(suggestion: Option<&'static str>) -> String {
    suggestion.map(|key| format!("; did you mean `{key}`?")).unwrap_or_default()
}

/// A fault that does not know its file yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) at: Position,
    pub(crate) fault: Fault,
}

impl Located {
    pub(crate) fn new(at: Position, fault: Fault) -> Self {
        Self { at, fault }
    }

    pub(crate) fn in_file(self, file: &str) -> JobFileError {
        JobFileError { file: file.to_owned(), at: self.at, fault: self.fault }
    }
}
