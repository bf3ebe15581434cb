//! Where a job stands and why: one reason and one sentence, from its record alone.

use super::short;
use crate::{text::Text, why::WhyView};
use serde::{Deserialize, Serialize};
use tg_ledger::{Draw, JobEntry, Run, RunState};
use tg_types::{JobStatus, Reason, Tier};

/// Why a job is where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// The word programs branch on.
    pub code: Text<Reason>,
    /// The sentence people read.
    pub sentence: String,
}

impl Standing {
    pub(crate) fn new(code: Reason, sentence: impl Into<String>) -> Self {
        Self { code: Text(code), sentence: sentence.into() }
    }

    /// Where a job stands. What the scheduler says is told of a job that waits.
    #[must_use]
    pub fn of(entry: &JobEntry, why: Option<&WhyView>) -> Self {
        match entry.status {
            JobStatus::Queued => {
                let waits = why.map_or("Waits for a node.".to_owned(), WhyView::sentence);
                Self::new(Reason::JobQueued, waits)
            }
            JobStatus::Running => running(entry),
            JobStatus::Checking => checking(entry),
            JobStatus::Disputed => Self::new(
                Reason::DisputeOpened,
                "Somebody computed something else; the ledger judges one step by evidence.",
            ),
            JobStatus::Settled => Self::new(Reason::JobSettled, accepted(entry)),
            JobStatus::Failed => Self::new(Reason::JobFailed, failed(entry)),
            JobStatus::Expired => Self::new(Reason::JobExpired, Reason::JobExpired.sentence()),
            JobStatus::Cancelled => {
                Self::new(Reason::JobCancelled, Reason::JobCancelled.sentence())
            }
        }
    }
}

fn running(entry: &JobEntry) -> Standing {
    let Some(last) = entry.live().last() else {
        return Standing::new(Reason::JobPlaced, "Its run ended; another node is looked for.");
    };
    let node = short(&last.node);
    let committed = entry.live().filter(|run| run.committed().is_some()).count();
    let live = entry.live().count();
    if live > 1 {
        let text = format!("{live} nodes run it; {committed} of them are bound to a result.");
        return Standing::new(Reason::JobPlaced, text);
    }
    match last.state {
        RunState::Committed { .. } | RunState::Revealed { .. } => Standing::new(
            Reason::ResultCommitted,
            format!("Node {node} is bound to its result and will show it."),
        ),
        RunState::Placed | RunState::Ended { .. } => {
            Standing::new(Reason::JobPlaced, format!("Node {node} runs it."))
        }
    }
}

fn checking(entry: &JobEntry) -> Standing {
    match entry.draw {
        Draw::Pending => Standing::new(
            Reason::ResultRevealed,
            "The result is there; the next beacon draws who checks it.",
        ),
        Draw::Spared => Standing::new(Reason::ResultNotDrawn, Reason::ResultNotDrawn.sentence()),
        Draw::Drawn { needed, .. } => {
            let passed = entry.passed();
            let text = format!("{passed} of {needed} checkers have computed the same so far.");
            Standing::new(Reason::CheckDrawn, text)
        }
    }
}

fn accepted(entry: &JobEntry) -> String {
    let passed = entry.passed();
    match entry.spec.tier {
        Tier::Trusted => "Paid on the provider's word; nothing was checked.".to_owned(),
        Tier::Redundant { .. } => {
            let agreed = entry.live().filter(|run| run.result().is_some()).count();
            format!("Accepted and paid: {agreed} providers gave the same output.")
        }
        Tier::Audit if passed == 0 => {
            "Accepted and paid; the result was not drawn for an audit.".to_owned()
        }
        Tier::Audit | Tier::Sync if passed == 1 => {
            "Accepted and paid: 1 checker computed the same, to the bit.".to_owned()
        }
        Tier::Audit | Tier::Sync => {
            format!("Accepted and paid: {passed} checkers computed the same, to the bit.")
        }
    }
}

fn failed(entry: &JobEntry) -> String {
    let why = entry.runs.as_slice().iter().rev().find_map(|run: &Run| match run.state {
        RunState::Ended { why } if why != Reason::JobClosed => Some(why),
        RunState::Ended { .. }
        | RunState::Placed
        | RunState::Committed { .. }
        | RunState::Revealed { .. } => None,
    });
    let refunded = Reason::JobFailed.sentence();
    why.map_or(refunded.to_owned(), |why| format!("{refunded} Last run: {}", why.sentence()))
}
