//! Checkpoints, and what else happens to jobs on their way, as JSON.

use super::Listing;
use crate::text::{Number, Text, Tgrid};
use serde::{Deserialize, Serialize};
use tg_ledger::{JobEntry, SavedState};
use tg_types::{Action, Adjustment, CheckpointRef, Event, Hash32, NodeId, Tick};

/// How the state of a job is saved, and what was saved last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointView {
    /// How often it is saved.
    pub every_ms: u64,
    /// The sealed package that the next run begins with, by content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<Text<Hash32>>,
    /// Its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_bytes: Option<u64>,
    /// When it was saved; absent if another job saved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<Number<Tick>>,
    /// By which node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Text<NodeId>>,
    /// How long the work in it took, over all runs of this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_ms: Option<u64>,
    /// How often its runs were asked to make room for jobs that offer more.
    pub yields: u8,
    /// What runs that did so were paid.
    pub paid: Tgrid,
}

impl CheckpointView {
    /// Of a job, if its state is saved.
    #[must_use]
    pub fn of(entry: &JobEntry) -> Option<Self> {
        let plan = entry.spec.checkpoint?;
        let (from, last) = (entry.begins_with(), entry.saved);
        Some(Self {
            every_ms: plan.every.get(),
            package: from.map(|from| Text(from.package)),
            package_bytes: from.map(|from| from.package_bytes),
            saved: last.map(|SavedState { saved, .. }| Number(saved)),
            node: last.map(|SavedState { node, .. }| Text(node)),
            ran_ms: last.map(|SavedState { ran, .. }| ran.get()),
            yields: entry.yields,
            paid: Tgrid(entry.paid),
        })
    }
}

/// What is said of a package.
fn listed(checkpoint: &CheckpointRef, list: Listing) -> Listing {
    list.text("package", &checkpoint.package).number("package_bytes", checkpoint.package_bytes)
}

/// What a client changes of a job.
fn adjustment_details(change: &Adjustment, list: Listing) -> Listing {
    let list = change.pay.into_iter().fold(list, |list, pay| list.amount("pay", pay));
    let expires = change.expires.map(|expires| ("expires", expires.get()));
    let nodes = change.nodes.map(|nodes| ("nodes", nodes.into()));
    let numbers = expires.into_iter().chain(nodes);
    numbers.fold(list, |list, (name, number)| list.number(name, number))
}

/// What actions about saved states say, and those that change jobs, after their names.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are told elsewhere")]
pub(super) fn action_details(action: &Action, list: Listing) -> (&'static str, Listing) {
    match action {
        Action::SaveCheckpoint { job, checkpoint, .. } => {
            ("save_checkpoint", listed(checkpoint, list.text("job", job)))
        }
        Action::YieldRun { job, checkpoint, .. } => {
            let list = list.text("job", job);
            ("yield_run", checkpoint.iter().fold(list, |list, it| listed(it, list)))
        }
        Action::AdjustJob { job, change, escrow_max } => {
            let list = list.text("job", job).amount("escrow_max", *escrow_max);
            ("adjust_job", adjustment_details(change, list))
        }
        _ => ("", list),
    }
}

/// What events about checkpoints, and runs that end before they are finished, say.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are told elsewhere")]
pub(super) fn event_details(event: &Event, list: Listing) -> Listing {
    match event {
        Event::CheckpointSaved { job, node, checkpoint, ran } => {
            let list = list.text("job", job).text("node", node);
            listed(checkpoint, list).number("ran_ms", ran.get())
        }
        Event::YieldAsked { job, node, to, by } => {
            let list = list.text("job", job).text("node", node).text("to", to);
            list.number("by", by.get())
        }
        Event::RunYielded { job, node, to, ran, paid, refund } => {
            let list = list.text("job", job).text("node", node).text("to", to);
            let list = list.number("ran_ms", ran.get());
            list.amount("paid", *paid).amount("refund", *refund)
        }
        Event::StopAsked { job, node, by } | Event::MoveAsked { job, node, by } => {
            list.text("job", job).text("node", node).number("by", by.get())
        }
        Event::RunStopped { job, node, ran, paid } => {
            let list = list.text("job", job).text("node", node);
            list.number("ran_ms", ran.get()).amount("paid", *paid)
        }
        Event::RunMoved { job, node, ran, paid, refund } => {
            let list = list.text("job", job).text("node", node);
            let list = list.number("ran_ms", ran.get());
            list.amount("paid", *paid).amount("refund", *refund)
        }
        Event::GangBroken { job, node, paid } => {
            list.text("job", job).text("node", node).amount("paid", *paid)
        }
        Event::JobAdjusted { job, pay, nodes, expires, escrow } => {
            let list = list.text("job", job).amount("pay", *pay).number("nodes", *nodes);
            list.number("expires", expires.get()).amount("escrow", *escrow)
        }
        _ => list,
    }
}
