//! How a command ends when it does not end well: what failed, why, what to do next, exit code.
//!
//! Rooms below return typed errors; only here, at the door to a person, they become text.

use std::{error::Error, fmt::Display};

/// The exit codes of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, or good.
    Done = 0,
    /// Failed, or bad.
    Failed = 1,
    /// Misused.
    Misused = 2,
    /// Cannot tell.
    CannotTell = 3,
}

/// A command's bad end.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What failed.
    pub(crate) what: String,
    /// Why, from the nearest to the deepest cause.
    pub(crate) causes: Vec<String>,
    /// What to do next.
    pub(crate) hint: String,
    /// The exit code.
    pub(crate) exit: Exit,
}

impl Failure {
    /// A failure with exit code 1.
    pub(crate) fn new(what: impl Display, hint: impl Display) -> Self {
        let (what, hint) = (what.to_string(), hint.to_string());
        Self { what, causes: Vec::new(), hint, exit: Exit::Failed }
    }

    /// A failure of whoever typed the command: exit code 2.
    pub(crate) fn misuse(what: impl Display, hint: impl Display) -> Self {
        Self { exit: Exit::Misused, ..Self::new(what, hint) }
    }

    /// No verdict is possible: exit code 3.
    pub(crate) fn cannot_tell(what: impl Display, hint: impl Display) -> Self {
        Self { exit: Exit::CannotTell, ..Self::new(what, hint) }
    }

    /// Adds an error and its sources as causes.
    #[must_use]
    pub(crate) fn because(mut self, error: &dyn Error) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            // Transparent wrappers repeat the text of what they wrap.
            if self.causes.last() != Some(&text) {
                self.causes.push(text);
            }
            next = error.source();
        }
        self
    }
}

/// Turns errors of rooms below into failures.
pub(crate) trait OrFail<T> {
    /// The value, or a failure that says what was tried and what to do next.
    ///
    /// # Errors
    /// If there is no value.
    fn or_fail(self, what: impl Display, hint: impl Display) -> Result<T, Failure>;
}

impl<T, E: Error> OrFail<T> for Result<T, E> {
    fn or_fail(self, what: impl Display, hint: impl Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(what, hint).because(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::{Exit, Failure};

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("inner")]
    struct Inner;

    #[test]
    fn failure_lists_its_causes_from_near_to_deep() {
        let failure = Failure::new("cannot", "try").because(&Outer(Inner));
        assert_eq!(failure.causes, ["outer", "inner"]);
        assert_eq!(failure.exit, Exit::Failed);
    }

    #[test]
    fn failure_keeps_its_kind_when_a_cause_is_added() {
        assert_eq!(Failure::misuse("no", "do").because(&Inner).exit, Exit::Misused);
        assert_eq!(Failure::cannot_tell("no", "do").because(&Inner).exit, Exit::CannotTell);
    }
}
