//! Every environment variable the program looks at, in one place, so that their description is made
//! from the same list and none is read behind the user's back.

use std::{ffi::OsString, fmt::Write as _, path::PathBuf};

macro_rules! variables {
    ($( $(#[doc = $help:literal])+ $variant:ident = $name:literal; )*) => {
        /// An environment variable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Variable {
            $( $(#[doc = $help])+ $variant, )*
        }

        impl Variable {
            /// All variables, in the order of their description.
            pub const ALL: &[Self] = &[$( Self::$variant, )*];

            /// Its name in the environment.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )*
                }
            }

            /// What it does, in a sentence.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self {
                    $( Self::$variant => concat!($( $help, )+).trim_ascii_start(), )*
                }
            }
        }
    };
}

variables! {
    /// address of the node to ask, like --rpc
    Rpc = "TENSORGRID_RPC";
    /// ticket of the network whose providers to use, like --join
    Join = "TENSORGRID_JOIN";
    /// folder of the wallets, instead of tensorgrid/wallets under XDG_DATA_HOME
    Wallets = "TENSORGRID_WALLETS";
    /// passphrase of the wallet, instead of a prompt
    Passphrase = "TENSORGRID_PASSPHRASE";
    /// what nodes log to stderr: off, error, warn, info, debug or trace (error unless given)
    Log = "TENSORGRID_LOG";
    /// any value: no colour
    NoColor = "NO_COLOR";
    /// base of user data (~/.local/share unless given)
    XdgDataHome = "XDG_DATA_HOME";
    /// base of user state, where a running local network is noted (~/.local/state unless given)
    XdgStateHome = "XDG_STATE_HOME";
    /// home folder
    Home = "HOME";
    /// for tests of the program: how often the end-to-end test kills a validator (6 unless given)
    TestKills = "TENSORGRID_TEST_KILLS";
    /// for tests of the program: the seed of the end-to-end test's kills
    TestSeed = "TENSORGRID_TEST_SEED";
}

impl Variable {
    /// Its value, if it is set and not empty.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads them")]
    fn get_os(self) -> Option<OsString> {
        std::env::var_os(self.name()).filter(|value| !value.is_empty())
    }

    /// Its value as text, if it is set and not empty. What is not text is taken letter by letter as
    /// far as it goes, so that the reader of the value refuses it.
    #[must_use]
    pub fn get(self) -> Option<String> {
        self.get_os().map(|value| value.to_string_lossy().into_owned())
    }

    /// Its value as a path, if it is set and not empty.
    #[must_use]
    pub fn path(self) -> Option<PathBuf> {
        self.get_os().map(PathBuf::from)
    }
}

/// The description of all variables that users may set.
#[must_use]
pub fn description() -> String {
    let mut text = String::from("Environment:");
    let shown = |variable: &&Variable| {
        !matches!(variable, Variable::TestKills | Variable::TestSeed | Variable::Home)
    };
    for variable in Variable::ALL.iter().filter(shown) {
        let _infallible = write!(text, "\n  {:<22} {}", variable.name(), variable.help());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Variable, description};

    #[test]
    fn variable_of_users_is_described() {
        let text = description();
        assert!(text.contains("TENSORGRID_RPC         address of the node to ask"), "{text}");
        assert!(!text.contains("TENSORGRID_TEST"), "{text}");
        for variable in Variable::ALL {
            assert!(!variable.help().is_empty(), "{variable:?}");
        }
    }
}
