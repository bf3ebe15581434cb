//! Commands that the product will have and this version has not. They are refused with a sentence
//! that says what there is instead, because a command that is simply unknown looks like a typo.

use crate::failure::Failure;

/// What this version can do in place of a missing command.
const JOBS: &str = "this version runs each job once, to its end. \
    It has: up, provide, run, quote, why, ps, show, logs, cp, stop, adjust, resume, verify";
const MARKET: &str = "this version has no market yet. It has: up, run, quote, status, nodes";
const LATER: &str = "this version does not have it yet. `tensorgrid --help` lists what it has";

/// The missing commands, and what to say.
const ABSENT: &[(&str, &str)] = &[
    ("serve", JOBS),
    ("dispute", JOBS),
    ("vote", LATER),
    ("prices", MARKET),
    ("market", MARKET),
    ("mcp", LATER),
];

/// The list of missing commands, for the help.
#[must_use]
pub(crate) fn description() -> String {
    let names: Vec<&str> = ABSENT.iter().map(|(name, _)| *name).collect();
    format!("Not in this version: {}", names.join(", "))
}

/// The refusal of a missing command; `None` for a word that is no command of the product.
#[must_use]
pub(crate) fn refusal(word: &str) -> Option<Failure> {
    let (name, hint) = ABSENT.iter().find(|(name, _)| *name == word)?;
    Some(Failure::misuse(format!("`{name}` is not in version {}", env!("CARGO_PKG_VERSION")), hint))
}

#[cfg(test)]
mod tests {
    use super::{ABSENT, refusal};
    use crate::{args::Arguments, failure::Exit};
    use clap::CommandFactory as _;

    #[test]
    fn absent_command_is_refused_as_misuse() {
        assert_eq!(refusal("serve").expect("is planned").exit, Exit::Misused);
        assert!(refusal("rum").is_none());
    }

    #[test]
    fn absent_command_is_really_absent() {
        let present = Arguments::command();
        for (name, _) in ABSENT {
            assert!(present.find_subcommand(name).is_none(), "{name} is there");
        }
    }
}
