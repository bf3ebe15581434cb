//! Readable JSON of promised deadlines.

use super::Listing;
use crate::{
    pages::time::Moment,
    text::{Number, Text, Tgrid},
    words::{earliest_promise, short},
};
use serde::{Deserialize, Serialize};
use tg_ledger::{JobEntry, Promise};
use tg_types::{Event, GpuAsk, HostPart, JobSpec, JobStatus, NodeId, Reason, Tick};

/// What was promised of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromiseView {
    /// "asked", "given", "kept" if it was done in time, "refused" or "broken".
    pub state: String,
    /// By when it is to be done.
    pub by: Number<Tick>,
    /// The node that keeps a slot for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Text<NodeId>>,
    /// When that slot begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Number<Tick>>,
    /// Why it was refused, as a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Text<Reason>>,
    /// The earliest deadline that would have been promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earliest: Option<Number<Tick>>,
    /// What the client received for a broken one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation: Option<Tgrid>,
    /// All of that for people.
    pub sentence: String,
}

impl PromiseView {
    /// What was promised of a job; `None` if nobody asked.
    #[must_use]
    pub fn of(entry: &JobEntry) -> Option<Self> {
        let by = Moment::new(entry.expires).machine();
        let new = |state: &str, sentence: String| Self {
            state: state.to_owned(),
            by: Number(entry.expires),
            node: None,
            from: None,
            why: None,
            earliest: None,
            compensation: None,
            sentence,
        };
        Some(match entry.promise {
            Promise::None => return None,
            Promise::Asked { was_given: false, .. } => {
                new("asked", format!("Whether it is promised by {by} is decided in a moment."))
            }
            Promise::Asked { was_given: true, .. } => {
                new("given", format!("Promised by {by}; another node is looked for."))
            }
            Promise::Kept { node, from, .. } => {
                let at = Moment::new(from).machine();
                let with = kept_with(&entry.spec);
                let at = format!("node {} keeps a slot{with} for it from {at}", short(&node));
                let view = new("given", format!("Promised by {by}; {at}."));
                Self { node: Some(Text(node)), from: Some(Number(from)), ..view }
            }
            Promise::Running { .. } if entry.status == JobStatus::Settled => {
                new("kept", format!("Promised by {by}, and done in time."))
            }
            Promise::Running { .. } => {
                new("given", format!("Promised by {by}; its run ends in time by its limit."))
            }
            Promise::Refused { why, earliest } => {
                let said = format!("Not promised by {by}: {}", why.sentence());
                let view = new("refused", format!("{said}{}", earliest_promise(earliest)));
                Self { why: Some(Text(why)), earliest: earliest.map(Number), ..view }
            }
            Promise::Broken { compensation } => {
                let paid = if compensation.is_zero() {
                    String::new()
                } else {
                    format!(" Who failed it paid {compensation}.")
                };
                let view = new("broken", format!("The promise by {by} was broken.{paid}"));
                Self { compensation: Some(Tgrid(compensation)), ..view }
            }
        })
    }
}

/// What is kept with the slot of a job that holds something.
fn kept_with(spec: &JobSpec) -> String {
    let gpus = Some(spec.held_gpus()).filter(|gpus| *gpus != GpuAsk::Usual);
    let host = Some(spec.needs.host).filter(|host| *host != HostPart::NONE);
    let parts = [gpus.map(|gpus| gpus.to_string()), host.map(|host| host.to_string())];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!(" with {}", parts.join(" and ")) }
}

/// What events about promises say.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are told elsewhere")]
pub(super) fn event_details(event: &Event, list: Listing) -> Listing {
    match event {
        Event::PromiseGiven { job, node, from, by } => {
            let list = list.text("job", job).text("node", node);
            list.number("from", from.get()).number("by", by.get())
        }
        Event::PromiseRefused { job, owner, why, earliest, refund } => {
            let list = list.text("job", job).text("owner", owner).text("why", why);
            let list = match earliest {
                Some(earliest) => list.number("earliest", earliest.get()),
                None => list,
            };
            list.amount("refund", *refund)
        }
        Event::PromiseBroken { job, owner, by } => {
            list.text("job", job).text("owner", owner).number("by", by.get())
        }
        Event::ClientCompensated { job, node, owner, client, amount } => list
            .text("job", job)
            .text("node", node)
            .text("owner", owner)
            .text("client", client)
            .amount("amount", *amount),
        _ => list,
    }
}

#[cfg(test)]
mod tests {
    use super::kept_with;
    use tg_types::{
        Amount, DeviceKind, DurationMs, GpuAsk, Hash32, HostPart, JobSpec, KeyEscrow, Needs,
        ResultKey, Tier, Work,
    };

    #[test]
    fn what_is_kept_has_words() {
        let with = |kind, gpus, host| {
            let needs = Needs { kind, gpus, host, ..Needs::ANY };
            let spec = JobSpec {
                work: Work::Opaque { task: Hash32::new([1; 32]) },
                package: Hash32::new([2; 32]),
                package_bytes: 3,
                key_escrow: KeyEscrow::Validators,
                result_key: ResultKey::NONE,
                needs,
                tier: Tier::Trusted,
                pay: Amount::ZERO,
                run_max: DurationMs::SECOND,
                expires_after: DurationMs::HOUR,
                promise: None,
                checkpoint: None,
                nodes: 1,
            };
            kept_with(&spec)
        };
        let gpu = Some(DeviceKind::Gpu);
        assert_eq!(with(None, GpuAsk::Usual, HostPart::NONE), "");
        assert_eq!(with(gpu, GpuAsk::Usual, HostPart::NONE), " with a whole GPU");
        let host = HostPart { cpu_milli: 4_000, memory_mib: 0 };
        let words = format!(" with 2 whole GPUs and {host}");
        assert_eq!(with(gpu, GpuAsk::Whole { count: 2 }, host), words);
    }
}
