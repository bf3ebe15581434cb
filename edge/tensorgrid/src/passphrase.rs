//! Where a wallet's passphrase comes from: a file, the environment, or a person at a terminal.

use crate::{
    failure::{Failure, OrFail as _},
    files,
};
use age::secrecy::{ExposeSecret as _, SecretString};
use std::{fmt, path::PathBuf};
use zeroize::Zeroizing;

/// A passphrase is a sentence, not a book.
const BYTES_MAX: u64 = 4 * 1024;

/// Tries to type the same passphrase twice.
const TRIES_MAX: u32 = 3;

const HINT: &str = "type it at a terminal, set TENSORGRID_PASSPHRASE, or give --passphrase-file";

/// Where to take the passphrase from.
#[derive(Clone)]
pub(crate) enum PassphraseSource {
    /// The first line of a file.
    File(PathBuf),
    /// Given by the environment.
    Given(SecretString),
    /// Ask.
    Prompt,
}

impl fmt::Debug for PassphraseSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Given(_) => f.write_str("Given"),
            Self::Prompt => f.write_str("Prompt"),
        }
    }
}

impl PassphraseSource {
    /// The passphrase of a wallet that exists.
    ///
    /// # Errors
    /// If there is nobody to ask, or it is empty.
    pub(crate) fn known(&self, wallet: impl fmt::Display) -> Result<SecretString, Failure> {
        match self {
            Self::Prompt => ask(&format!("passphrase of wallet {wallet}: ")),
            Self::File(_) | Self::Given(_) => self.stated(),
        }
        .and_then(not_empty)
    }

    /// The passphrase of a wallet to be made: a person types it twice.
    ///
    /// # Errors
    /// If there is nobody to ask, it is empty, or the two differ.
    pub(crate) fn chosen(&self, wallet: impl fmt::Display) -> Result<SecretString, Failure> {
        match self {
            Self::Prompt => ask_twice(&wallet),
            Self::File(_) | Self::Given(_) => self.stated(),
        }
        .and_then(not_empty)
    }

    fn stated(&self) -> Result<SecretString, Failure> {
        match self {
            Self::File(path) => {
                let bytes = files::read(path, BYTES_MAX).or_fail("no passphrase", HINT)?;
                let text = Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned());
                Ok(SecretString::from(text.lines().next().unwrap_or_default().to_owned()))
            }
            Self::Given(passphrase) => Ok(passphrase.clone()),
            Self::Prompt => Err(Failure::misuse("no passphrase", HINT)),
        }
    }
}

fn not_empty(passphrase: SecretString) -> Result<SecretString, Failure> {
    if passphrase.expose_secret().is_empty() {
        return Err(Failure::misuse("the passphrase is empty", HINT));
    }
    Ok(passphrase)
}

fn ask(prompt: &str) -> Result<SecretString, Failure> {
    let terminal = console::Term::stderr();
    if !terminal.is_term() {
        return Err(Failure::misuse("there is no terminal to ask for the passphrase", HINT));
    }
    let typed = terminal.write_str(prompt).and_then(|()| terminal.read_secure_line());
    Ok(SecretString::from(typed.or_fail("the passphrase cannot be read", HINT)?))
}

fn ask_twice(wallet: &dyn fmt::Display) -> Result<SecretString, Failure> {
    for _ in 0..TRIES_MAX {
        let first = ask(&format!("new passphrase of wallet {wallet}: "))?;
        let second = ask("the same again: ")?;
        if first.expose_secret() == second.expose_secret() {
            return Ok(first);
        }
    }
    Err(Failure::misuse("the two passphrases differ", "try again, more slowly"))
}

#[cfg(test)]
mod tests {
    use super::PassphraseSource;
    use crate::{
        failure::Exit,
        files::{self, Readers, TemporaryFolder},
    };
    use age::secrecy::{ExposeSecret as _, SecretString};

    #[test]
    fn passphrase_file_counts_up_to_its_first_line_break() {
        let folder = TemporaryFolder::new().expect("a folder");
        let path = folder.path().join("pass");
        files::write(&path, b"open sesame\nmore\n", Readers::Owner).expect("writes");
        let pass = PassphraseSource::File(path).known("a").expect("reads");
        assert_eq!(pass.expose_secret(), "open sesame");
    }

    #[test]
    fn passphrase_that_is_empty_is_refused() {
        let empty = PassphraseSource::Given(SecretString::from(String::new()));
        assert_eq!(empty.chosen("a").expect_err("refused").exit, Exit::Misused);
    }
}
