//! What a job's data is protected from, in words a person can check before paying: the names of all
//! who could read it.
//!
//! A label promises nothing about what readers do with the data afterwards, and nothing about its
//! length, which everybody sees.

use crate::shares::Threshold;
use tg_types::wire;

wire! {
    /// How a job's data is kept.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum PrivacyLabel {
        /// Not encrypted.
        Plain = 1,
        /// Sealed; validators keep shares of the key, so that the owner may be offline.
        Escrowed {
            /// How many of them can read the data together.
            threshold: Threshold,
        } = 2,
        /// Sealed; the owner alone gives the key out.
        Sealed = 3,
    }
}

/// Who takes part, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readers<'a> {
    /// The node to which the job is assigned, if it is already.
    pub provider: Option<&'a str>,
    /// Whether the job's assurance has results recomputed by drawn checkers.
    pub has_checkers: bool,
    /// The validators, in the order of their shares.
    pub validators: &'a [String],
}

/// Why a label cannot be put into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// Not one name for each share: somebody would be left out.
    #[error("{found} validators named for {expected} shares")]
    Validators {
        /// How many are named.
        found: usize,
        /// How many have a share.
        expected: usize,
    },
}

impl PrivacyLabel {
    /// Who could read the data besides its owner: the end of a sentence such as "this can be read
    /// by …".
    pub fn readers(&self, who: &Readers<'_>) -> Result<String, LabelError> {
        let mut readers = vec![match who.provider {
            Some(provider) => format!("the assigned provider {provider}"),
            None => "whichever provider is assigned".to_owned(),
        }];
        if who.has_checkers {
            readers.push("drawn checkers".to_owned());
        }
        match self {
            Self::Plain => Ok("anybody: it is not encrypted".to_owned()),
            Self::Escrowed { threshold } => {
                readers.push(holders(*threshold, who.validators)?);
                Ok(listed(&readers))
            }
            Self::Sealed => {
                let readers = listed(&readers);
                Ok(format!("{readers}, once the owner, who has to be online, hands out the key"))
            }
        }
    }
}

/// Who can put the key together from shares.
fn holders(threshold: Threshold, validators: &[String]) -> Result<String, LabelError> {
    let (needed, of) = (threshold.needed(), threshold.of());
    if validators.len() != of {
        return Err(LabelError::Validators { found: validators.len(), expected: of });
    }
    let names = validators.join(", ");
    Ok(match (needed, of) {
        (_, 1) => format!("the validator {names} alone"),
        (1, _) => format!("any one of these {of} validators alone ({names})"),
        (_, _) if needed == of => format!("these {of} validators all together ({names})"),
        (_, _) => format!("any {needed} of these {of} validators together ({names})"),
    })
}

/// "a", "a and b", "a, b, and c".
fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first, second] => format!("{first} and {second}"),
        [before @ .., last] => format!("{}, and {last}", before.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{LabelError, PrivacyLabel, Readers};
    use crate::shares::{Threshold, ThresholdSpec};
    use tg_types::{Decode, Encode};

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn escrowed(needed: usize, of: usize) -> PrivacyLabel {
        let threshold = Threshold::new(ThresholdSpec { needed, of }).expect("a threshold");
        PrivacyLabel::Escrowed { threshold }
    }

    /// The words for a job that is assigned to Alice-node, with and without checkers.
    fn check(label: PrivacyLabel, validators: &[&str], alone: &str, with_checkers: &str) {
        let validators = names(validators);
        for (has_checkers, expected) in [(false, alone), (true, with_checkers)] {
            let who =
                Readers { provider: Some("Alice-node"), has_checkers, validators: &validators };
            assert_eq!(label.readers(&who).as_deref(), Ok(expected));
        }
        assert_eq!(PrivacyLabel::from_bytes(&label.to_bytes()), Ok(label));
    }

    #[test]
    fn escrowed_data_names_provider_checkers_and_validators() {
        check(
            escrowed(3, 4),
            &["ada", "ben", "cleo", "dan"],
            "the assigned provider Alice-node and \
             any 3 of these 4 validators together (ada, ben, cleo, dan)",
            "the assigned provider Alice-node, drawn checkers, and \
             any 3 of these 4 validators together (ada, ben, cleo, dan)",
        );
        check(
            escrowed(1, 2),
            &["ada", "ben"],
            "the assigned provider Alice-node and any one of these 2 validators alone (ada, ben)",
            "the assigned provider Alice-node, drawn checkers, and \
             any one of these 2 validators alone (ada, ben)",
        );
        check(
            escrowed(2, 2),
            &["ada", "ben"],
            "the assigned provider Alice-node and these 2 validators all together (ada, ben)",
            "the assigned provider Alice-node, drawn checkers, and \
             these 2 validators all together (ada, ben)",
        );
        check(
            escrowed(1, 1),
            &["ada"],
            "the assigned provider Alice-node and the validator ada alone",
            "the assigned provider Alice-node, drawn checkers, and the validator ada alone",
        );
    }

    #[test]
    fn data_without_escrow_names_no_validator() {
        check(
            PrivacyLabel::Sealed,
            &["ada", "ben"],
            "the assigned provider Alice-node, \
             once the owner, who has to be online, hands out the key",
            "the assigned provider Alice-node and drawn checkers, \
             once the owner, who has to be online, hands out the key",
        );
    }

    #[test]
    fn plain_data_is_said_to_be_readable_by_anybody() {
        let anybody = "anybody: it is not encrypted";
        check(PrivacyLabel::Plain, &[], anybody, anybody);
    }

    #[test]
    fn data_of_a_job_that_is_not_assigned_names_nobody_yet() {
        let who = Readers { provider: None, has_checkers: false, validators: &[] };
        let words = PrivacyLabel::Sealed.readers(&who).expect("no shares");
        assert!(words.starts_with("whichever provider is assigned, once"), "{words}");
    }

    #[test]
    fn escrow_with_validators_left_out_is_refused() {
        for few in [&["ada"][..], &["ada", "ben", "cleo", "dan", "eve"]] {
            let validators = names(few);
            let who = Readers { provider: None, has_checkers: true, validators: &validators };
            let refused = LabelError::Validators { found: few.len(), expected: 4 };
            assert_eq!(escrowed(3, 4).readers(&who), Err(refused));
        }
    }
}
