//! What a tier does, and what it does not protect against: the table of `docs/protocol.md`.

use serde::{Deserialize, Serialize};
use tg_types::{NetworkKind, Tier};

/// Who can read what a job computes with, at every tier.
pub const SEEN_BY: &str = "The provider and the drawn checkers see the input in clear; any quorum \
    of validators together could.";

/// A tier in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierWords {
    /// As people write it: "none", "audit", "sync", "redundant:n", "proof", "rerun" or "zk".
    pub word: String,
    /// What holds the word back: "local demo" where one owner may run all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// What is done.
    pub does: String,
    /// What it does not protect against.
    pub not_against: String,
}

impl TierWords {
    /// The words for a tier on a network of this kind; with the number of tiles that are drawn for
    /// a checker, if it need not recompute the whole run.
    #[must_use]
    pub fn new(tier: Tier, network: NetworkKind, tiles: Option<u8>) -> Self {
        let does = match tier {
            Tier::Trusted => "Nothing is checked: the provider's word counts.".to_owned(),
            Tier::Audit => audit(tiles),
            Tier::Sync => {
                "Every result is recomputed from beginning to end by drawn checkers.".to_owned()
            }
            Tier::Redundant { replicas } => {
                format!("{replicas} providers of different owners must give the same output.")
            }
            Tier::Proof { .. } => "The provider proves the run; every validator verifies the \
                proof in the block that pays for it."
                .to_owned(),
            Tier::Rerun => "Every validator runs the program itself, in the block that pays for \
                it: that takes less than verifying a proof."
                .to_owned(),
            Tier::Zk { is_secret: false, .. } => {
                "The provider proves the run without showing inputs and outputs; every validator \
                 verifies the proof in the block that pays for it."
                    .to_owned()
            }
            Tier::Zk { is_secret: true, .. } => {
                "The provider proves the run without showing inputs, outputs and the registered \
                 weights; every validator verifies the proof in the block that pays for it."
                    .to_owned()
            }
        };
        let not_against = match tier {
            Tier::Trusted => "A lying provider.",
            Tier::Audit if tiles.is_some() => {
                "One targeted lie: a few wrong tiles of many are seldom drawn."
            }
            Tier::Audit => "One targeted lie whose worth exceeds the bond.",
            Tier::Sync => {
                "A coalition that holds nearly all stake; a program or input that is itself wrong."
            }
            Tier::Redundant { .. } => {
                "Providers that lie together. Work that is not deterministic is reported, not \
                 judged."
            }
            Tier::Proof { .. } => {
                "Readers: anybody can read inputs and outputs. A commitment to other weights than \
                 you meant."
            }
            Tier::Rerun => "Readers: anybody can read inputs, outputs and weights.",
            Tier::Zk { is_secret: false, .. } => {
                "The provider: it sees all data. Readers of weights: the proof does not hide them. \
                 A commitment to other weights than you meant."
            }
            Tier::Zk { is_secret: true, .. } => {
                "The provider: it sees all data and the weights. Readers of the program: its \
                 sizes, tables and bounds are public."
            }
        };
        let caveat = match (tier, network) {
            (Tier::Sync, NetworkKind::Local) => Some("local demo".to_owned()),
            (
                Tier::Trusted
                | Tier::Audit
                | Tier::Redundant { .. }
                | Tier::Proof { .. }
                | Tier::Rerun
                | Tier::Zk { .. },
                _,
            )
            | (Tier::Sync, NetworkKind::Open) => None,
        };
        Self { word: tier_word(tier), caveat, does, not_against: not_against.to_owned() }
    }
}

/// What an audit does.
fn audit(tiles: Option<u8>) -> String {
    let drawn = "A share of all results is drawn by the beacon;";
    match tiles {
        None => format!("{drawn} drawn checkers recompute those."),
        Some(tiles) => format!(
            "{drawn} of those, each drawn checker recomputes {tiles} tiles, drawn by what they \
             cost, fewer if they do not fit into its answer. If a share x of the work is made up, \
             it finds that with 1 - (1 - x)^{tiles}."
        ),
    }
}

/// The word for a tier, as people write it.
pub(crate) fn tier_word(tier: Tier) -> String {
    match tier {
        Tier::Trusted => "none".to_owned(),
        Tier::Audit => "audit".to_owned(),
        Tier::Sync => "sync".to_owned(),
        Tier::Redundant { replicas } => format!("redundant:{replicas}"),
        Tier::Proof { .. } => "proof".to_owned(),
        Tier::Rerun => "rerun".to_owned(),
        Tier::Zk { .. } => "zk".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::TierWords;
    use tg_types::{NetworkKind, Tier};

    #[test]
    fn sync_on_a_local_network_says_that_it_is_a_demo() {
        let caveat = |tier, network| TierWords::new(tier, network, None).caveat;
        assert_eq!(caveat(Tier::Sync, NetworkKind::Local).as_deref(), Some("local demo"));
        assert_eq!(caveat(Tier::Sync, NetworkKind::Open), None);
        assert_eq!(caveat(Tier::Trusted, NetworkKind::Local), None);
    }

    #[test]
    fn audit_by_tiles_says_how_much_it_finds() {
        let words = |tiles| TierWords::new(Tier::Audit, NetworkKind::Open, tiles);
        assert!(words(Some(16)).does.contains("1 - (1 - x)^16"));
        assert!(words(Some(16)).not_against.contains("seldom drawn"));
        assert!(!words(None).does.contains("tiles"));
    }
}
