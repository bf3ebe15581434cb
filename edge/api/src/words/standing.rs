//! Where a job stands and why: one reason and one sentence, from its record alone.

use super::short;
use crate::{text::Text, view::PromiseView, why::WhyView};
use serde::{Deserialize, Serialize};
use tg_ledger::{Draw, JobEntry, Promise, Run, RunState};
use tg_types::{Amount, Extent, JobStatus, Reason, Tier};

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
        if let Some(ended) = unpromised(entry) {
            return ended;
        }
        match entry.status {
            JobStatus::Queued => {
                let waits = why.map_or("Waits for a node.".to_owned(), WhyView::sentence);
                let promised = PromiseView::of(entry);
                let promised = promised.map(|promise| format!("{} ", promise.sentence));
                Self::new(Reason::JobQueued, format!("{}{waits}", promised.unwrap_or_default()))
            }
            JobStatus::Running => running(entry),
            JobStatus::Checking => checking(entry),
            JobStatus::Disputed => Self::new(
                Reason::DisputeOpened,
                "Somebody computed something else; the ledger judges one step by evidence.",
            ),
            JobStatus::Settled => {
                let text = format!("{}{}", accepted(entry), before(entry));
                Self::new(Reason::JobSettled, text)
            }
            JobStatus::Failed => Self::new(Reason::JobFailed, failed(entry)),
            JobStatus::Expired => Self::new(Reason::JobExpired, Reason::JobExpired.sentence()),
            JobStatus::Cancelled if entry.paid > Amount::ZERO => {
                let text = format!(
                    "Stopped by its owner; {} was paid for what it had taken, and the rest was \
                     refunded.",
                    entry.paid
                );
                Self::new(Reason::JobCancelled, text)
            }
            JobStatus::Cancelled => {
                Self::new(Reason::JobCancelled, Reason::JobCancelled.sentence())
            }
        }
    }
}

/// Where a job stands whose promise was refused or broken.
fn unpromised(entry: &JobEntry) -> Option<Standing> {
    let code = match entry.promise {
        Promise::Refused { why, .. } => why,
        Promise::Broken { .. } => Reason::PromiseBroken,
        Promise::None | Promise::Asked { .. } | Promise::Kept { .. } | Promise::Running { .. } => {
            return None;
        }
    };
    let promise = PromiseView::of(entry)?;
    let text = format!("{} The escrow was refunded.", promise.sentence);
    (entry.status != JobStatus::Settled).then(|| Standing::new(code, text))
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
    if entry.is_stopped && last.state == RunState::Placed {
        let text = format!("Stopped by its owner; node {node} saves what there is and ends it.");
        return Standing::new(Reason::StopAsked, text);
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
            let (passed, excused) = (entry.passed(), entry.excused());
            let mut text = format!("{passed} of {needed} checkers have computed the same so far.");
            if excused > 0 {
                let more = format!(" Without a key from the owner, and excused: {excused}.");
                text.push_str(&more);
            }
            Standing::new(Reason::CheckDrawn, text)
        }
    }
}

fn accepted(entry: &JobEntry) -> String {
    let (passed, excused) = (entry.passed(), entry.excused());
    if passed == 0 && excused > 0 {
        return "Paid unchecked: the owner withheld the key from the checkers.".to_owned();
    }
    let accepted = accepted_by(entry, passed);
    match excused {
        0 => accepted,
        1 => format!("{accepted} 1 was excused: the owner withheld the key from it."),
        more => format!("{accepted} {more} were excused: the owner withheld the key from them."),
    }
}

fn accepted_by(entry: &JobEntry, passed: usize) -> String {
    match entry.spec.tier {
        Tier::Trusted => "Paid on the provider's word; nothing was checked.".to_owned(),
        Tier::Redundant { .. } => {
            let agreed = entry.live().filter(|run| run.result().is_some()).count();
            format!("Accepted and paid: {agreed} providers gave the same output.")
        }
        Tier::Proof { .. } => "Proven and paid: every validator verified the proof.".to_owned(),
        Tier::Rerun => "Accepted and paid: every validator ran the program itself.".to_owned(),
        Tier::Zk { is_secret: false, .. } => {
            "Proven and paid: every validator verified the proof, which shows no data.".to_owned()
        }
        Tier::Zk { is_secret: true, .. } => {
            "Proven and paid: every validator verified the proof, which shows neither data nor \
             the secret weights that are registered."
                .to_owned()
        }
        Tier::Audit if passed == 0 => {
            "Accepted and paid; the result was not drawn for an audit.".to_owned()
        }
        Tier::Audit | Tier::Sync if entry.extent == Extent::Tiles => {
            let who = if passed == 1 { "1 checker" } else { &format!("{passed} checkers") };
            format!("Accepted and paid: {who} computed drawn tiles of it, the same to the bit.")
        }
        Tier::Audit | Tier::Sync if passed == 1 => {
            "Accepted and paid: 1 checker computed the same, to the bit.".to_owned()
        }
        Tier::Audit | Tier::Sync => {
            format!("Accepted and paid: {passed} checkers computed the same, to the bit.")
        }
    }
}

/// How many runs came before without an accepted result.
fn before(entry: &JobEntry) -> String {
    match entry.runs.as_slice().iter().filter(|run| !run.is_live()).count() {
        0 => String::new(),
        1 => " One run before was not accepted.".to_owned(),
        more => format!(" {more} runs before were not accepted."),
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
    let refunded = match entry.paid {
        Amount::ZERO => Reason::JobFailed.sentence().to_owned(),
        paid => format!(
            "No result was accepted; {paid} was paid for the time of nodes that did their part, \
             and the rest was refunded."
        ),
    };
    why.map_or(refunded.clone(), |why| format!("{refunded} Last run: {}", why.sentence()))
}

#[cfg(test)]
mod tests {
    use super::Standing;
    use tg_ledger::{Check, CheckState, Draw, JobEntry, Promise, QueueRow, Run, RunState};
    use tg_types::{
        AccountId, Amount, DurationMs, Hash32, Height, JobSpec, JobStatus, List, Needs, NodeId,
        Reason, RunResult, SecretKey, Tick, Tier, Work,
    };

    const HASH: Hash32 = Hash32::new([2; 32]);

    fn owner() -> AccountId {
        SecretKey::from_seed([1; 32]).public().into()
    }

    fn run(node: u8, state: RunState) -> Run {
        let node = NodeId::new([node; 32]);
        let (class, begun, took, yields_to) = (None, Tick::ZERO, None, None);
        let (owner, bond, deadline) = (owner(), Amount::ZERO, Tick::ZERO);
        let gpus = tg_types::GpuSlices::default();
        let asked = None;
        Run { node, owner, bond, class, asked, gpus, begun, took, deadline, yields_to, state }
    }

    fn revealed() -> RunState {
        let result = RunResult { output: HASH, trace: HASH, package: HASH, package_bytes: 1 };
        RunState::Revealed { result, height: Height::ZERO }
    }

    fn passed(node: u8) -> Check {
        Check {
            node: NodeId::new([node; 32]),
            owner: owner(),
            bond: Amount::ZERO,
            round: 0,
            lot: None,
            deadline: Tick::ZERO,
            state: CheckState::Passed,
        }
    }

    #[test]
    fn result_that_nobody_could_check_is_said_to_be_unchecked() {
        let excused = Check { state: CheckState::Excused, ..passed(7) };
        let mut entry = entry(Tier::Sync, JobStatus::Settled, Vec::new());
        entry.checks = List::new(vec![excused.clone(), excused]).expect("few");
        let said = Standing::of(&entry, None).sentence;
        assert_eq!(said, "Paid unchecked: the owner withheld the key from the checkers.");
    }

    /// Goal: nobody takes a result for checked by all who were drawn if some of them had no key.
    #[test]
    fn result_that_some_could_not_check_says_how_many_did_and_how_many_were_excused() {
        let excused = |node| Check { state: CheckState::Excused, ..passed(node) };
        let said = |checks, status| {
            let mut entry = entry(Tier::Sync, status, Vec::new());
            (entry.checks, entry.draw) =
                (List::new(checks).expect("few"), Draw::Drawn { needed: 3, round: 1 });
            Standing::of(&entry, None).sentence
        };
        assert_eq!(
            said(vec![excused(7), passed(8)], JobStatus::Settled),
            "Accepted and paid: 1 checker computed the same, to the bit. 1 was excused: the owner \
             withheld the key from it."
        );
        assert_eq!(
            said(vec![excused(6), excused(7), passed(8), passed(9)], JobStatus::Settled),
            "Accepted and paid: 2 checkers computed the same, to the bit. 2 were excused: the \
             owner withheld the key from them."
        );
        assert_eq!(
            said(vec![excused(7), passed(8)], JobStatus::Checking),
            "1 of 3 checkers have computed the same so far. Without a key from the owner, and \
             excused: 1."
        );
    }

    #[test]
    fn promise_is_part_of_where_a_job_stands() {
        let node = NodeId::new([7; 32]);
        let told = |promise, status, code, sentence: &str| {
            check(
                &JobEntry { promise, ..entry(Tier::Trusted, status, Vec::new()) },
                code,
                sentence,
            );
        };
        let kept = Promise::Kept {
            node,
            owner: owner(),
            bond: Amount::ZERO,
            from: Tick::new(1_700_000_000_000),
        };
        told(
            kept,
            JobStatus::Queued,
            Reason::JobQueued,
            "Promised by 1970-01-01T00:00:00Z; node 07070707 keeps a slot for it from \
             2023-11-14T22:13:20Z. Waits for a node.",
        );
        let earliest = Some(Tick::new(1_700_000_000_000));
        told(
            Promise::Refused { why: Reason::PromiseTooShort, earliest },
            JobStatus::Failed,
            Reason::PromiseTooShort,
            "Not promised by 1970-01-01T00:00:00Z: A run with all its dates takes longer than \
             there is until the deadline. The earliest that would be is 2023-11-14T22:13:20Z. The \
             escrow was refunded.",
        );
        told(
            Promise::Broken { compensation: Amount::constant(2_000_000_000) },
            JobStatus::Expired,
            Reason::PromiseBroken,
            "The promise by 1970-01-01T00:00:00Z was broken. Who failed it paid 2 TGRID. The \
             escrow was refunded.",
        );
    }

    fn entry(tier: Tier, status: JobStatus, runs: Vec<Run>) -> JobEntry {
        JobEntry {
            owner: owner(),
            task: None,
            spec: JobSpec {
                work: Work::Opaque { task: HASH },
                package: HASH,
                package_bytes: 1,
                key_escrow: tg_types::KeyEscrow::Validators,
                result_key: tg_types::ResultKey::NONE,
                needs: Needs::ANY,
                tier,
                pay: Amount::ZERO,
                run_max: DurationMs::SECOND,
                expires_after: DurationMs::MINUTE,
                promise: None,
                checkpoint: None,
                nodes: 1,
            },
            escrow: Amount::ZERO,
            submitted: Tick::ZERO,
            expires: Tick::ZERO,
            closed: None,
            status,
            row: QueueRow::default(),
            queued: Tick::ZERO,
            queue_place: None,
            wanted: 1,
            runs: List::new(runs).expect("few"),
            extent: tg_types::Extent::Whole,
            draw: Draw::Pending,
            checks: List::default(),
            promise: Promise::None,
            saved: None,
            saves: 0,
            yield_place: None,
            yields: 0,
            waits_for: None,
            paid: Amount::ZERO,
            is_stopped: false,
            gang_place: None,
        }
    }

    fn check(entry: &JobEntry, code: Reason, sentence: &str) {
        let found = Standing::of(entry, None);
        assert_eq!((found.code.0, found.sentence.as_str()), (code, sentence));
    }

    #[test]
    fn job_on_its_way_says_what_it_waits_for() {
        let queued = entry(Tier::Sync, JobStatus::Queued, Vec::new());
        check(&queued, Reason::JobQueued, "Waits for a node.");
        let placed = entry(Tier::Sync, JobStatus::Running, vec![run(0xab, RunState::Placed)]);
        check(&placed, Reason::JobPlaced, "Node abababab runs it.");
        let ended = RunState::Ended { why: Reason::RunLost };
        let lost = entry(Tier::Sync, JobStatus::Running, vec![run(3, ended)]);
        check(&lost, Reason::JobPlaced, "Its run ended; another node is looked for.");
        let mut drawn = entry(Tier::Sync, JobStatus::Checking, vec![run(3, revealed())]);
        drawn.draw = Draw::Drawn { needed: 2, round: 0 };
        drawn.checks = List::new(vec![passed(4)]).expect("one");
        let sentence = "1 of 2 checkers have computed the same so far.";
        check(&drawn, Reason::CheckDrawn, sentence);
    }

    #[test]
    fn job_that_was_stopped_says_what_was_paid() {
        let paid = Amount::new(2_500_000_000).expect("small");
        let placed = vec![run(0xab, RunState::Placed)];
        let mut job = entry(Tier::Trusted, JobStatus::Running, placed);
        job.is_stopped = true;
        let sentence = "Stopped by its owner; node abababab saves what there is and ends it.";
        check(&job, Reason::StopAsked, sentence);
        let ended = RunState::Ended { why: Reason::RunStopped };
        let mut job = entry(Tier::Trusted, JobStatus::Cancelled, vec![run(3, ended)]);
        check(&job, Reason::JobCancelled, Reason::JobCancelled.sentence());
        job.paid = paid;
        let found = Standing::of(&job, None);
        assert!(found.sentence.contains(&format!("{paid} was paid")), "{}", found.sentence);
        let params = tg_types::Params::local();
        let charges = tg_ledger::charges(&params, &job.spec, job.extent).expect("small");
        let price = crate::rpc::PriceView::new(&job, &charges);
        assert_eq!(price.charged, Some(crate::text::Tgrid(paid)), "it has cost that");
        job.status = JobStatus::Failed;
        let found = Standing::of(&job, None);
        assert!(found.sentence.contains(&format!("{paid} was paid")), "{}", found.sentence);
    }

    #[test]
    fn accepted_job_says_on_what_that_rests() {
        let trusted = entry(Tier::Trusted, JobStatus::Settled, vec![run(3, revealed())]);
        let sentence = "Paid on the provider's word; nothing was checked.";
        check(&trusted, Reason::JobSettled, sentence);
        let ended = RunState::Ended { why: Reason::ResultRefuted };
        let runs = vec![run(3, ended), run(4, revealed())];
        let mut sync = entry(Tier::Sync, JobStatus::Settled, runs);
        sync.checks = List::new(vec![passed(5), passed(6)]).expect("two");
        let sentence = "Accepted and paid: 2 checkers computed the same, to the bit. One run \
                        before was not accepted.";
        check(&sync, Reason::JobSettled, sentence);
        let mut audit = entry(Tier::Audit, JobStatus::Settled, vec![run(3, revealed())]);
        audit.extent = tg_types::Extent::Tiles;
        audit.checks = List::new(vec![passed(5)]).expect("one");
        let sentence =
            "Accepted and paid: 1 checker computed drawn tiles of it, the same to the bit.";
        check(&audit, Reason::JobSettled, sentence);
        let tier = Tier::Redundant { replicas: 2 };
        let runs = vec![run(3, revealed()), run(4, revealed())];
        let redundant = entry(tier, JobStatus::Settled, runs);
        let sentence = "Accepted and paid: 2 providers gave the same output.";
        check(&redundant, Reason::JobSettled, sentence);
    }

    #[test]
    fn failed_job_says_why_its_last_run_ended() {
        let ended = |why| RunState::Ended { why };
        let runs = vec![run(3, ended(Reason::RunMissed)), run(4, ended(Reason::JobClosed))];
        let failed = entry(Tier::Sync, JobStatus::Failed, runs);
        let sentence = "No result was accepted; the escrow was refunded. Last run: A node did not \
                        answer in time.";
        check(&failed, Reason::JobFailed, sentence);
        let runs = vec![run(3, ended(Reason::ResultNotShowable))];
        let failed = entry(Tier::Proof { weights: HASH }, JobStatus::Failed, runs);
        let sentence = "No result was accepted; the escrow was refunded. Last run: A node says \
                        that no result of this job can be shown to be right in the way it asks \
                        for.";
        check(&failed, Reason::JobFailed, sentence);
    }
}
