//! Which events an action may lead to: nobody acts for another, and nothing happens that was not
//! asked for.

use super::jobs::JobBooks;
use tg_types::{
    amount::Amount,
    genesis::Genesis,
    ids::{AccountId, JobId, NodeId, TxId},
    job::JobSpec,
    reason::Reason,
    receipt::{Event, Receipt, Status},
    tick::Tick,
    tx::Action,
};

/// Whether a receipt is one that this action of this sender may have.
pub(super) fn fits(
    (sender, id): (AccountId, TxId),
    action: &Action,
    receipt: &Receipt,
    tick: Tick,
    (genesis, books): (&Genesis, &JobBooks),
) -> bool {
    let events = receipt.events.as_slice();
    if let Status::Failed(reason) = receipt.status {
        return match (reason, events) {
            (Reason::EvidenceForged, [Event::PenaltyTaken { account, .. }]) => *account == sender,
            (_, events) => events.is_empty(),
        };
    }
    match (action, events) {
        (Action::Transfer { to, amount, .. }, [event]) => {
            *event == Event::Transferred { from: sender, to: *to, amount: *amount }
        }
        (Action::Stake { amount }, [event]) => {
            *event == Event::Staked { account: sender, amount: *amount }
        }
        (Action::Unstake { amount }, [event]) => {
            tick.plus(genesis.params().unbonding).is_ok_and(|due| {
                *event == Event::UnbondingStarted { account: sender, amount: *amount, due }
            })
        }
        (Action::RegisterNode { node, .. }, [event]) => {
            *event == Event::NodeRegistered { node: *node, owner: sender }
        }
        (Action::ChangeNode { node, .. }, [event]) => {
            *event == Event::NodeChanged { node: *node, owner: sender }
        }
        // Whether the sender may speak for the node is known to the books of nodes.
        (Action::LeaveNode { node }, [Event::NodeLeft { node: left, .. }]) => left == node,
        (Action::SubmitJobs { specs, escrow_max, .. }, events) => {
            fits_jobs(sender, id, (specs.as_slice(), *escrow_max), events, books)
        }
        (Action::CancelJob { job }, events) => fits_cancel(sender, job, events),
        (Action::SubmitEvidence { .. }, [Event::Slashed { reporter, .. }]) => *reporter == sender,
        (
            Action::ReportAbsent { epoch, nodes },
            [Event::AbsenceReported { reporter, epoch: at, .. }, rest @ ..],
        ) => {
            let is_lost = |event: &Event| {
                matches!(event, Event::NodeAbsent { node, .. }
                    | Event::RunEnded { node, why: Reason::RunLost, .. }
                    if nodes.as_slice().contains(node))
            };
            *reporter == sender && at == epoch && rest.iter().all(is_lost)
        }
        (Action::PutProgram { pieces, .. }, []) => *pieces > 1,
        (Action::PutProgram { program, .. }, [Event::ProgramRecorded { program: id, .. }]) => {
            id == program
        }
        (
            Action::RegisterWeights { program, weights, .. },
            [Event::WeightsRegistered { weights: id, program: of, owner, .. }],
        ) => *id == weights.id() && of == program && *owner == sender,
        (action, events) => fits_work(sender, action, events),
    }
}

/// Whether these events can follow from what a node or a challenger did.
fn fits_work(sender: AccountId, action: &Action, events: &[Event]) -> bool {
    match (action, events) {
        (Action::CommitResults { seals } | Action::CommitChecks { seals }, [_, ..]) => {
            let is_run = matches!(action, Action::CommitResults { .. });
            let is_mine = |event: &Event| match (event, is_run) {
                (Event::ResultCommitted { job, node }, true)
                | (Event::CheckCommitted { job, node }, false) => {
                    is_node(sender, node) && seals.as_slice().iter().any(|it| it.job == *job)
                }
                (_, _) => false,
            };
            events.iter().all(is_mine)
        }
        (Action::RevealResults { results, .. }, [Event::ResultRevealed { .. }, ..]) => {
            let jobs: Vec<JobId> = results.as_slice().iter().map(|result| result.job).collect();
            events.iter().all(|event| follows_result(sender, &jobs, event))
        }
        (
            Action::RevealChecks { answers },
            [Event::CheckPassed { .. } | Event::CheckRefused { .. }, ..],
        ) => {
            let jobs: Vec<JobId> = answers.as_slice().iter().map(|answer| answer.job).collect();
            events.iter().all(|event| follows_result(sender, &jobs, event))
        }
        (Action::GiveUp { job, .. }, [Event::RunEnded { job: of, node, why }, rest @ ..]) => {
            let is_failure = |event: &Event| is_end(event, of);
            let is_mine = of == job && is_node(sender, node) && *why == Reason::RunGivenUp;
            is_mine && rest.len() <= 1 && rest.iter().all(is_failure)
        }
        (Action::LackKey { job }, [Event::KeyLacked { job: of, node }]) => {
            of == job && is_node(sender, node)
        }
        (Action::Object { job }, [Event::DisputeOpened { job: of, challenger, .. }]) => {
            of == job && *challenger == sender
        }
        (Action::Complain { job, .. }, [Event::Complained { job: of, by, .. }]) => {
            of == job && *by == sender
        }
        (
            Action::JudgeComplaint { job, opens },
            [Event::ComplaintJudged { job: of, validator, opens: says }, rest @ ..],
        ) => {
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else follows from it")]
            let follows = |event: &Event| match event {
                Event::NodeSlashed { job: of, .. } | Event::ComplaintUpheld { job: of, .. } => {
                    of == job && !opens
                }
                Event::ComplaintRejected { job: of, .. } => of == job && *opens,
                _ => false,
            };
            of == job && *validator == sender && says == opens && rest.iter().all(follows)
        }
        (Action::AnswerDispute { job, .. }, [Event::DisputeAnswered { job: of, node, .. }]) => {
            of == job && is_node(sender, node)
        }
        (Action::PickClaim { job, child }, [Event::ClaimPicked { job: of, child: at, .. }]) => {
            of == job && at == child
        }
        (Action::JudgeDispute { job, .. }, [Event::DisputeEnded { job: of, why, .. }, ..]) => {
            // A result falls undefended with whoever stated something false in its defence.
            let is_word = *why == Reason::ResultUndefended;
            let is_step = matches!(why, Reason::ResultRefuted | Reason::ObjectionRefuted);
            of == job && (is_step || is_word)
        }
        _ => false,
    }
}

/// Whether these events can follow when a client takes a job back or stops it.
fn fits_cancel(sender: AccountId, job: &JobId, events: &[Event]) -> bool {
    match events {
        [Event::StopAsked { job: asked, .. }] => asked == job,
        [runs @ .., Event::JobCancelled { job: closed, owner, .. }] => {
            let is_run = |event: &Event| {
                matches!(event, Event::RunStopped { .. } | Event::ProviderPaid { .. })
                    && event.job() == Some(*job)
            };
            closed == job && *owner == sender && runs.iter().all(is_run)
        }
        _ => false,
    }
}

/// Whether a job ends: it failed, or was stopped before.
fn is_end(event: &Event, of: &JobId) -> bool {
    matches!(event, Event::JobFailed { .. } | Event::JobCancelled { .. })
        && event.job() == Some(*of)
}

fn is_node(sender: AccountId, node: &NodeId) -> bool {
    sender.as_bytes() == node.as_bytes()
}

/// All jobs of a transaction are queued, each for what it costs at most.
fn fits_jobs(
    sender: AccountId,
    id: TxId,
    (specs, escrow_max): (&[JobSpec], Amount),
    events: &[Event],
    books: &JobBooks,
) -> bool {
    let queued = |(place, spec): (u8, &JobSpec)| {
        let escrow = books.charges(spec)?.escrow;
        Some(Event::JobQueued { job: JobId::of(id, place), owner: sender, escrow })
    };
    let expected: Option<Vec<Event>> = (0..).zip(specs).map(queued).collect();
    let locked = |event: &Event| {
        let Event::JobQueued { escrow, .. } = event else { return 0 };
        u128::from(escrow.units())
    };
    let sum: u128 = events.iter().map(locked).sum();
    expected.as_deref() == Some(events) && sum <= escrow_max.units().into()
}

/// Whether an event can follow from a node's results of these jobs.
#[expect(clippy::wildcard_enum_match_arm, reason = "nothing else follows from a result")]
fn follows_result(sender: AccountId, jobs: &[JobId], event: &Event) -> bool {
    match event {
        Event::ResultRevealed { job, node, .. } => is_node(sender, node) && jobs.contains(job),
        Event::CheckPassed { job, node }
        | Event::CheckRefused { job, node }
        | Event::TilesNotShown { job, node } => is_node(sender, node) && jobs.contains(job),
        Event::ProviderPaid { job, .. }
        | Event::CheckerPaid { job, .. }
        | Event::CheckDrawn { job, .. }
        | Event::RunsDisagreed { job }
        | Event::ResultUnchecked { job, .. }
        | Event::JobSettled { job, .. }
        | Event::JobFailed { job, .. } => jobs.contains(job),
        _ => false,
    }
}
