//! How long runs and slots take of a node.

use tg_scheduler::ahead::Ahead;
use tg_scheduler::slots::Span;
use tg_types::ids::{JobId, NodeId};
use tg_types::{DurationMs, HostPart, JobSpec, Params, Tick};

use super::SLOT_MARGIN;
use crate::job::drain;
use crate::job::record::{JobEntry, Run, RunState};
use crate::node::NodeEntry;

/// How long a slot for a run of this job is; `None` if there is no date by which the job ends.
pub fn slot_length(params: &Params, spec: &JobSpec) -> Option<DurationMs> {
    let jobs = &params.jobs;
    let dates = spec.run_max.plus(jobs.run_grace).and_then(|span| span.plus(jobs.answer_within));
    let length = dates.and_then(|span| span.plus(SLOT_MARGIN));
    length.ok().filter(|_| spec.tier.ends_with_its_run())
}

/// What a run takes of a node that begins it now: until it has surely ended.
pub fn run_span(params: &Params, spec: &JobSpec, now: Tick) -> Span {
    let end = slot_length(params, spec).and_then(|length| now.plus(length).ok());
    Span { from: now, to: end.unwrap_or(Tick::MAX) }
}

/// What the run of a job on a node still takes of it.
pub fn rest_of_run(params: &Params, entry: &JobEntry, node: &NodeId, now: Tick) -> Span {
    let run = entry.live().find(|run| run.node == *node);
    let after = |run: &Run| match run.state {
        RunState::Placed => params.jobs.answer_within.plus(SLOT_MARGIN),
        RunState::Committed { .. } | RunState::Revealed { .. } | RunState::Ended { .. } => {
            Ok(SLOT_MARGIN)
        }
    };
    let run = run.filter(|_| entry.spec.tier.ends_with_its_run());
    let end = run.and_then(|run| run.deadline.plus(after(run).ok()?).ok());
    // A member of a gang that is done has no date of its own: it waits for those of the others,
    // which began with it.
    let length = slot_length(params, &entry.spec);
    let end = end.or_else(|| run?.begun.plus(length?).ok());
    Span { from: now, to: end.unwrap_or(Tick::MAX) }
}

/// What is taken of a node: by the slots that it keeps, by these jobs that it runs, and by its
/// closing.
pub fn ahead_of(
    params: &Params,
    (id, node): (&NodeId, &NodeEntry),
    runs: &[(JobId, JobEntry)],
    now: Tick,
) -> Ahead {
    let mut ahead = Ahead::default();
    node.kept.as_slice().iter().for_each(|slot| ahead.keep(slot));
    for span in drain::closed_spans(&node.descriptor) {
        ahead.add(span, [], HostPart::NONE);
    }
    for (job, entry) in runs {
        let span = rest_of_run(params, entry, id, now);
        ahead.add(span, node.gpus_of(job), node.host_of(job));
    }
    ahead
}
