//! How people are told of jobs and nodes: the steps of a job, what a tier does and does not, where
//! a job stands and why. Here, because the page and the command line must not tell different
//! stories.

mod capacity;
mod standing;
mod tier;

pub use capacity::{NOT_ASKED, WHAT_IS_PROVED, capacity, kib};
pub use standing::Standing;
pub(crate) use tier::tier_word;
pub use tier::{SEEN_BY, TierWords};

use crate::pages::time::Moment;
use serde::{Deserialize, Serialize};
use tg_types::{Event, Message, ShownBy, Tick};

/// Whether something that happened is good news. Pages show it by a sign and by a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// As it should be.
    Plain,
    /// A result was confirmed, somebody was paid.
    Good,
    /// Something went wrong, or somebody lost something.
    Bad,
}

/// One line of a job's or a node's story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The step in a word or two.
    pub step: &'static str,
    /// What happened, the rest of the sentence.
    pub text: String,
    /// Whether that is good.
    pub tone: Tone,
    /// Whether a short telling does without it.
    pub is_detail: bool,
}

impl Line {
    fn new(step: &'static str, text: impl Into<String>) -> Self {
        Self { step, text: text.into(), tone: Tone::Plain, is_detail: false }
    }

    fn good(self) -> Self {
        Self { tone: Tone::Good, ..self }
    }

    fn bad(self) -> Self {
        Self { tone: Tone::Bad, ..self }
    }

    fn detail(self) -> Self {
        Self { is_detail: true, ..self }
    }

    /// The line for an event; `None` if it is about neither a job nor a node.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        match event {
            Event::JobQueued { .. }
            | Event::JobPlaced { .. }
            | Event::RunEnded { .. }
            | Event::ResultCommitted { .. }
            | Event::ResultRevealed { .. }
            | Event::ResultProved { .. }
            | Event::RunsDisagreed { .. } => of_run(event),
            Event::CheckDrawn { .. }
            | Event::ResultNotDrawn { .. }
            | Event::CheckCommitted { .. }
            | Event::CheckPassed { .. }
            | Event::CheckRefused { .. }
            | Event::TilesNotShown { .. }
            | Event::KeyLacked { .. }
            | Event::CheckExcused { .. }
            | Event::ResultUnchecked { .. }
            | Event::CheckMissed { .. }
            | Event::DisputeOpened { .. }
            | Event::DisputeAnswered { .. }
            | Event::ClaimPicked { .. }
            | Event::DefencePassed { .. }
            | Event::DisputeEnded { .. } => of_check(event),
            Event::Complained { .. }
            | Event::ComplaintJudged { .. }
            | Event::ComplaintUpheld { .. }
            | Event::ComplaintRejected { .. }
            | Event::ComplaintLapsed { .. } => of_complaint(event),
            Event::JobSettled { .. }
            | Event::JobFailed { .. }
            | Event::JobCancelled { .. }
            | Event::JobExpired { .. }
            | Event::ProviderPaid { .. }
            | Event::CheckerPaid { .. }
            | Event::NodeSlashed { .. }
            | Event::NodeFined { .. } => of_end(event),
            Event::PromiseGiven { .. } | Event::PromiseRefused { .. } => of_promise(event),
            Event::PromiseBroken { .. } | Event::ClientCompensated { .. } => of_promise(event),
            Event::JobAdjusted { .. } => of_checkpoint(event),
            Event::CheckpointSaved { .. } | Event::YieldAsked { .. } => of_checkpoint(event),
            Event::RunYielded { .. } | Event::StopAsked { .. } => of_checkpoint(event),
            Event::RunStopped { .. } | Event::MoveAsked { .. } => of_checkpoint(event),
            Event::RunMoved { .. } | Event::GangBroken { .. } => of_checkpoint(event),
            Event::NodeRegistered { .. }
            | Event::NodeChanged { .. }
            | Event::NodeLeft { .. }
            | Event::NodeAbsent { .. }
            | Event::NodeDropped { .. }
            | Event::CapacityAsked { .. }
            | Event::CapacityDrawn { .. }
            | Event::CapacityProved { .. }
            | Event::CapacityMissed { .. } => of_node(event),
            Event::AccountCredited { .. }
            | Event::Transferred { .. }
            | Event::Staked { .. }
            | Event::UnbondingStarted { .. }
            | Event::Unbonded { .. }
            | Event::AbsenceReported { .. }
            | Event::Slashed { .. }
            | Event::PenaltyTaken { .. }
            | Event::FeesShared { .. }
            | Event::BeaconRecorded { .. }
            | Event::ProgramRecorded { .. }
            | Event::WeightsRegistered { .. }
            | Event::CapacityCommitted { .. }
            | Event::CapacityShown { .. } => None,
        }
    }
}

/// The beginning of an id, as much as a person compares.
#[must_use]
pub fn short(id: &impl ToString) -> String {
    id.to_string().chars().take(8).collect()
}

/// The beginning of a job's id, and the digits that tell jobs of one transaction apart: their first
/// twelve are the same, the next two count.
#[must_use]
pub fn short_job(id: &impl ToString) -> String {
    let id = id.to_string();
    id.chars().take(4).chain(['…']).chain(id.chars().skip(12).take(4)).collect()
}

/// Lines about handing in and running.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are told elsewhere")]
fn of_run(event: &Event) -> Option<Line> {
    Some(match event {
        Event::JobQueued { escrow, .. } => Line::new(
            "Escrowed",
            format!("{escrow} are locked: the quote, and the most it can cost."),
        )
        .detail(),
        Event::JobPlaced { node, run, .. } => {
            Line::new("Placed", format!("node {} runs it, as run {run}.", short(node)))
        }
        Event::RunEnded { why, .. } => Line::new("Run ended", why.sentence()).bad(),
        Event::ResultCommitted { node, .. } => {
            Line::new("Committed", format!("node {} is bound to its result.", short(node)))
        }
        Event::ResultRevealed { result, .. } => {
            let (output, trace) = (short(&result.output), short(&result.trace));
            Line::new("Revealed", format!("output {output}, trace {trace}."))
        }
        Event::ResultProved { result, by, .. } => {
            let output = short(&result.output);
            Line::new("Shown", format!("output {output}; {}", shown_by(*by)))
        }
        Event::RunsDisagreed { .. } => {
            Line::new("Disagreed", event.reason().sentence()).bad().detail()
        }
        _ => return None,
    })
}

/// How validators saw that a result is right.
fn shown_by(by: ShownBy) -> &'static str {
    match by {
        ShownBy::Proof { .. } => "every validator verified its proof.",
        ShownBy::Rerun => "every validator ran the program itself.",
        ShownBy::Zk { is_secret: false, .. } => {
            "every validator verified its proof, which shows no data."
        }
        ShownBy::Zk { is_secret: true, .. } => {
            "every validator verified its proof, which shows neither data nor the registered \
             weights."
        }
    }
}

/// Lines about checks and disputes.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are told elsewhere")]
fn of_check(event: &Event) -> Option<Line> {
    Some(match event {
        Event::CheckDrawn { node, .. } => {
            Line::new("Drawn", format!("node {} checks it.", short(node)))
        }
        Event::ResultNotDrawn { .. } => {
            Line::new("Not drawn", "this result is not among those that are audited.").detail()
        }
        Event::CheckCommitted { node, .. } => {
            Line::new("Check sealed", format!("node {} is bound to its answer.", short(node)))
                .detail()
        }
        Event::CheckPassed { node, .. } => {
            Line::new("Checked", format!("node {} computed the same, to the bit.", short(node)))
                .good()
        }
        Event::CheckRefused { node, .. } => {
            let text = format!("the answer of node {} does not show that it looked.", short(node));
            Line::new("Check refused", text).bad().detail()
        }
        Event::TilesNotShown { node, .. } => {
            let node = short(node);
            let text = format!(
                "node {node} computed the whole run, because it was not shown what its tiles read; \
                 the provider pays for that."
            );
            Line::new("Not shown", text).bad()
        }
        Event::KeyLacked { node, .. } => {
            let node = short(node);
            let text = format!("node {node} has not been handed the key by the owner.");
            Line::new("No key", text).bad().detail()
        }
        Event::CheckExcused { node, .. } => {
            let text = format!("node {} could not look without the key.", short(node));
            Line::new("Check excused", text).bad().detail()
        }
        Event::ResultUnchecked { .. } => {
            Line::new("Unchecked", "the owner withheld the key; the provider is paid.").bad()
        }
        Event::CheckMissed { node, .. } => {
            Line::new("Check missed", format!("node {} did not answer in time.", short(node)))
                .bad()
                .detail()
        }
        Event::DisputeOpened { .. } => {
            Line::new("Disputed", "a checker computed something else.").bad()
        }
        Event::DisputeAnswered { node, round, .. } => {
            let node = short(node);
            Line::new("Answered", format!("node {node} opened the claims of round {round}."))
                .detail()
        }
        Event::DefencePassed { .. } => {
            let text = "the provider does not answer; those who checked the whole run may.";
            Line::new("Undefended", text).bad().detail()
        }
        Event::ClaimPicked { round, child, .. } => {
            Line::new("Doubted", format!("the challenger picked claim {child} of round {round}."))
                .detail()
        }
        Event::DisputeEnded { why, .. } => Line::new("Judged", why.sentence()),
        _ => return None,
    })
}

/// Lines about ends and money.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are told elsewhere")]
fn of_end(event: &Event) -> Option<Line> {
    Some(match event {
        Event::JobSettled { charged, refund, .. } => {
            Line::new("Paid", format!("{charged}; {refund} came back.")).good()
        }
        Event::JobFailed { refund, .. } => {
            Line::new("Failed", format!("no result was accepted; {refund} came back."))
                .bad()
                .detail()
        }
        Event::JobCancelled { refund, .. } => {
            Line::new("Cancelled", format!("by its owner; {refund} came back.")).detail()
        }
        Event::JobExpired { refund, .. } => {
            Line::new("Expired", format!("it was not done in time; {refund} came back."))
                .bad()
                .detail()
        }
        Event::ProviderPaid { node, amount, .. } => {
            Line::new("Run paid", format!("{amount} to the owner of node {}.", short(node)))
                .good()
                .detail()
        }
        Event::CheckerPaid { node, amount, .. } => {
            Line::new("Check paid", format!("{amount} to the owner of node {}.", short(node)))
                .good()
                .detail()
        }
        Event::NodeSlashed { node, amount, .. } => {
            Line::new("Slashed", format!("node {} lost {amount}.", short(node))).bad()
        }
        Event::NodeFined { node, amount, .. } => {
            Line::new("Fined", format!("node {} lost {amount}.", short(node))).bad().detail()
        }
        _ => return None,
    })
}

/// Lines about saved states, and runs that end before they are finished.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are told elsewhere")]
fn of_checkpoint(event: &Event) -> Option<Line> {
    Some(match event {
        Event::CheckpointSaved { node, ran, .. } => {
            Line::new("Saved", format!("after {ran} of work, by node {}.", short(node)))
        }
        Event::YieldAsked { node, by, .. } => {
            let by = Moment::new(*by).machine();
            let text = format!("a job offers more; node {} ends the run by {by}.", short(node));
            Line::new("Asked to make room", text)
        }
        Event::RunYielded { paid, .. } => {
            let text = format!("for a job that offers more; {paid} paid. It goes on later.");
            Line::new("Made room", text)
        }
        Event::JobAdjusted { pay, nodes, expires, escrow, .. } => {
            let by = Moment::new(*expires).machine();
            let on = if *nodes == 1 { String::new() } else { format!(" on {nodes} nodes") };
            let text = format!("a run is paid {pay}{on}, until {by}; {escrow} are locked.");
            Line::new("Changed by its owner", text).detail()
        }
        Event::StopAsked { node, .. } => {
            Line::new("Asked to stop", format!("node {} ends the run.", short(node)))
        }
        Event::RunStopped { ran, paid, .. } => {
            Line::new("Stopped", format!("after {ran}; {paid} paid for that time."))
        }
        Event::MoveAsked { node, by, .. } => {
            let by = Moment::new(*by).machine();
            let text = format!("node {} saves it by {by}, and it goes on elsewhere.", short(node));
            Line::new("Asked to move", text)
        }
        Event::RunMoved { node, paid, .. } => {
            let node = short(node);
            Line::new("Moved", format!("away from node {node}; {paid} paid. It goes on elsewhere."))
        }
        Event::GangBroken { node, paid, .. } => {
            let text = format!(
                "node {} failed, so all of its gang ended; the others were paid {paid}.",
                short(node)
            );
            Line::new("Gang broken up", text).bad()
        }
        _ => return None,
    })
}

/// Lines about promised deadlines.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are told elsewhere")]
fn of_promise(event: &Event) -> Option<Line> {
    Some(match event {
        Event::PromiseGiven { node, from, by, .. } => {
            let (by, from) = (Moment::new(*by).machine(), Moment::new(*from).machine());
            let text = format!("by {by}; node {} begins at {from} at the latest.", short(node));
            Line::new("Promised", text).good()
        }
        Event::PromiseRefused { why, earliest, refund, .. } => {
            let earliest = earliest_promise(*earliest);
            let text = format!("{}{earliest} {refund} came back.", why.sentence());
            Line::new("Not promised", text).bad()
        }
        Event::PromiseBroken { by, .. } => {
            let by = Moment::new(*by).machine();
            Line::new("Promise broken", format!("it cannot be done by {by} any more.")).bad()
        }
        Event::ClientCompensated { node, amount, .. } => {
            let text = format!("{amount} from the owner of node {}.", short(node));
            Line::new("Compensated", text).bad()
        }
        _ => return None,
    })
}

/// The earliest deadline that would be promised, as a sentence of its own.
pub(crate) fn earliest_promise(earliest: Option<Tick>) -> String {
    let at = earliest.map(|at| Moment::new(at).machine());
    at.map_or(String::new(), |at| format!(" The earliest that would be is {at}."))
}

/// Lines about packages that do not open.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are told elsewhere")]
fn of_complaint(event: &Event) -> Option<Line> {
    let name = |about: &Message| match about {
        Message::Inputs => "the inputs",
        Message::Result => "the result",
    };
    Some(match event {
        Event::Complained { by, about, .. } => {
            let text = format!("account {} cannot open {}.", short(by), name(about));
            Line::new("Complaint", text).bad()
        }
        Event::ComplaintJudged { validator, opens, .. } => {
            let found = if *opens { "could" } else { "could not" };
            let text = format!("validator {} {found} open the package.", short(validator));
            Line::new("Judged", text).detail()
        }
        Event::ComplaintUpheld { about, lost, .. } => {
            let text = format!("{} cannot be opened; {lost} was taken.", name(about));
            Line::new("Complaint upheld", text).bad()
        }
        Event::ComplaintRejected { about, by, lost, .. } => {
            let text = format!("{} can be opened; account {} lost {lost}.", name(about), short(by));
            Line::new("Complaint rejected", text)
        }
        Event::ComplaintLapsed { .. } => {
            Line::new("Complaint lapsed", event.reason().sentence()).detail()
        }
        _ => return None,
    })
}

/// Lines about nodes as such.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are told elsewhere")]
fn of_node(event: &Event) -> Option<Line> {
    Some(match event {
        Event::NodeRegistered { owner, .. } => {
            Line::new("Registered", format!("by account {}.", short(owner)))
        }
        Event::NodeChanged { .. } => Line::new("Changed", "what the node offers."),
        Event::NodeLeft { .. } => Line::new("Left", "its owner took it out."),
        Event::NodeAbsent { .. } => Line::new("Absent", event.reason().sentence()).bad(),
        Event::NodeDropped { .. } => Line::new("Dropped", event.reason().sentence()).bad(),
        Event::CapacityAsked { device, blocks, .. } => {
            let memory = kib(*blocks);
            let text = format!("to fill {memory} of device {device}, to show what it can do.");
            Line::new("Asked", text).detail()
        }
        Event::CapacityDrawn { .. } => {
            Line::new("Drawn", "blocks of the filled memory, which it has to show.").detail()
        }
        Event::CapacityProved { device, blocks, took, .. } => {
            let text = format!("{} of device {device} filled in {took}.", kib(*blocks));
            Line::new("Proved", text).good()
        }
        Event::CapacityMissed { .. } => Line::new("Not proved", event.reason().sentence()).bad(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Line, Tone, short, short_job};
    use std::collections::BTreeSet;
    use tg_types::{AccountId, Amount, Event, Hash32, JobId, NodeId, Reason, SecretKey, TxId};

    fn owner() -> AccountId {
        SecretKey::from_seed([1; 32]).public().into()
    }

    #[test]
    fn events_of_a_job_have_lines_and_others_have_none() {
        let (job, node, amount) = (JobId::new([7; 32]), NodeId::new([8; 32]), Amount::ZERO);
        let check = |event: Event, expected: Option<(&str, Tone, bool)>| {
            let line = Line::of(&event);
            let found = line.as_ref().map(|line| (line.step, line.tone, line.is_detail));
            assert_eq!(found, expected, "{event:?}");
            assert!(line.is_none_or(|line| line.text.ends_with('.')), "{event:?}");
        };
        check(Event::CheckPassed { job, node }, Some(("Checked", Tone::Good, false)));
        check(Event::CheckMissed { job, node }, Some(("Check missed", Tone::Bad, true)));
        let why = Reason::RunMissed;
        check(Event::RunEnded { job, node, why }, Some(("Run ended", Tone::Bad, false)));
        let output = Hash32::new([1; 32]);
        let paid =
            Event::JobSettled { job, owner: owner(), output, charged: amount, refund: amount };
        check(paid, Some(("Paid", Tone::Good, false)));
        check(Event::NodeAbsent { node, owner: owner() }, Some(("Absent", Tone::Bad, false)));
        check(Event::Staked { account: owner(), amount }, None);
        let took = tg_types::DurationMs::new(40);
        let proved = Event::CapacityProved { node, device: 0, memory_mib: 9, blocks: 1_024, took };
        assert_eq!(
            Line::of(&proved).map(|line| line.text).as_deref(),
            Some("1 MiB of device 0 filled in 40 ms.")
        );
        check(proved, Some(("Proved", Tone::Good, false)));
        let missed = Event::CapacityMissed { node, device: 0, again: tg_types::Tick::ZERO };
        check(missed, Some(("Not proved", Tone::Bad, false)));
    }

    #[test]
    fn short_ids_have_eight_digits() {
        let (tx, job) = (TxId::new([0xab; 32]), JobId::new([0xcd; 32]));
        assert_eq!((short(&tx).as_str(), short_job(&job).as_str()), ("abababab", "cdcd…cdcd"));
        let jobs = (0..=u8::MAX).map(|place| short_job(&JobId::of(tx, place)));
        assert_eq!(jobs.collect::<BTreeSet<_>>().len(), 256);
    }
}
