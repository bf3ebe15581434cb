//! What must hold, and where it did not.

use std::fmt;

/// The invariants of a run, each with the name it is reported under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invariant {
    /// Balances, escrow, stake, unbonding, treasury and burned add up to the supply.
    Supply,
    /// Events explain every balance, stake and escrow to the last unit.
    Money,
    /// Honest nodes have the same block at every height.
    OneBlock,
    /// Blocks link up, and headers are what their content demands.
    Header,
    /// Replaying from genesis gives the same receipts, roots and entries.
    Replay,
    /// An acknowledged transaction is in every honest node's records.
    Acknowledged,
    /// No transaction takes effect twice, and nonces follow each other.
    Once,
    /// Only equivocators are slashed, for what they have.
    Slashing,
    /// Evidence that was seen leads to a slashed seat.
    Conviction,
    /// Nobody acts for another: signatures, owners, quorums, certificates.
    Authority,
    /// Runs, bonds, queue and lists of nodes agree with each other, and work ends as it went.
    Work,
    /// What has a date happens at that date.
    DueDate,
    /// Stored bytes decode to a value with the same bytes.
    Canonical,
    /// Queues stay within their bounds.
    Bounded,
    /// After the faults end, everything finishes in bounded time.
    Liveness,
    /// No node panics.
    NoPanic,
}

impl Invariant {
    /// The word it is reported under.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Supply => "supply",
            Self::Money => "money",
            Self::OneBlock => "one-block",
            Self::Header => "header",
            Self::Replay => "replay",
            Self::Acknowledged => "acknowledged",
            Self::Once => "once",
            Self::Slashing => "slashing",
            Self::Conviction => "conviction",
            Self::Authority => "authority",
            Self::Work => "work",
            Self::DueDate => "due-date",
            Self::Canonical => "canonical",
            Self::Bounded => "bounded",
            Self::Liveness => "liveness",
            Self::NoPanic => "no-panic",
        }
    }
}

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) invariant: Invariant,
    pub(crate) detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant.name(), self.detail)
    }
}

/// Violations of a run. Few are kept: the first one explains, the rest repeats it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Violations(Vec<Violation>);

/// Violations kept of one run.
const KEPT_MAX: usize = 8;

impl Violations {
    pub(crate) fn add(&mut self, invariant: Invariant, detail: impl Into<String>) {
        if self.0.len() < KEPT_MAX {
            self.0.push(Violation { invariant, detail: detail.into() });
        }
    }

    /// Notes a violation unless the condition holds.
    pub(crate) fn check(
        &mut self,
        holds: bool,
        invariant: Invariant,
        detail: impl FnOnce() -> String,
    ) {
        if !holds {
            self.add(invariant, detail());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_vec(self) -> Vec<Violation> {
        self.0
    }
}
