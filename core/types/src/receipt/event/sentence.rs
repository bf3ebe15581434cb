//! Events in sentences for people. Apart, because words change more often than facts.

use super::Event;
use crate::job::{Message, ShownBy};

impl Event {
    /// What happened, for people.
    pub fn sentence(&self) -> String {
        match self {
            Self::AccountCredited { .. }
            | Self::Transferred { .. }
            | Self::Staked { .. }
            | Self::UnbondingStarted { .. }
            | Self::Unbonded { .. } => self.sentence_about_accounts(),
            Self::NodeRegistered { .. }
            | Self::NodeChanged { .. }
            | Self::NodeLeft { .. }
            | Self::NodeDropped { .. }
            | Self::NodeAbsent { .. } => self.sentence_about_nodes(),
            Self::BeaconRecorded { .. }
            | Self::ProgramRecorded { .. }
            | Self::WeightsRegistered { .. }
            | Self::JobQueued { .. }
            | Self::JobCancelled { .. }
            | Self::JobAdjusted { .. }
            | Self::JobExpired { .. }
            | Self::JobPlaced { .. }
            | Self::RunEnded { .. }
            | Self::ResultCommitted { .. }
            | Self::ResultRevealed { .. }
            | Self::ResultProved { .. }
            | Self::CheckDrawn { .. }
            | Self::ResultNotDrawn { .. }
            | Self::CheckCommitted { .. }
            | Self::CheckPassed { .. }
            | Self::CheckRefused { .. }
            | Self::TilesNotShown { .. }
            | Self::CheckMissed { .. } => self.sentence_about_work(),
            Self::CheckpointSaved { .. } | Self::YieldAsked { .. } => self.sentence_about_endings(),
            Self::RunYielded { .. } | Self::StopAsked { .. } => self.sentence_about_endings(),
            Self::RunStopped { .. } | Self::MoveAsked { .. } => self.sentence_about_endings(),
            Self::RunMoved { .. } | Self::GangBroken { .. } => self.sentence_about_endings(),
            Self::KeyLacked { .. } | Self::CheckExcused { .. } => self.sentence_about_keys(),
            Self::ResultUnchecked { .. } => self.sentence_about_keys(),
            Self::PromiseGiven { .. }
            | Self::PromiseRefused { .. }
            | Self::PromiseBroken { .. }
            | Self::ClientCompensated { .. } => self.sentence_about_promises(),
            Self::FeesShared { .. }
            | Self::AbsenceReported { .. }
            | Self::Slashed { .. }
            | Self::PenaltyTaken { .. }
            | Self::DisputeOpened { .. }
            | Self::DisputeAnswered { .. }
            | Self::ClaimPicked { .. }
            | Self::DefencePassed { .. }
            | Self::DisputeEnded { .. }
            | Self::RunsDisagreed { .. }
            | Self::JobSettled { .. }
            | Self::JobFailed { .. }
            | Self::ProviderPaid { .. }
            | Self::CheckerPaid { .. }
            | Self::NodeSlashed { .. }
            | Self::NodeFined { .. } => self.sentence_about_its_end(),
            Self::CapacityAsked { .. }
            | Self::CapacityCommitted { .. }
            | Self::CapacityDrawn { .. }
            | Self::CapacityShown { .. }
            | Self::CapacityProved { .. }
            | Self::CapacityMissed { .. } => self.sentence_about_capacity(),
            Self::Complained { .. }
            | Self::ComplaintJudged { .. }
            | Self::ComplaintUpheld { .. }
            | Self::ComplaintRejected { .. }
            | Self::ComplaintLapsed { .. } => self.sentence_about_complaints(),
        }
    }

    /// The sentence of an event about an account and its stake.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others have been told already")]
    fn sentence_about_accounts(&self) -> String {
        match self {
            Self::AccountCredited { account, amount } => {
                format!("The genesis gave {amount} to {account}.")
            }
            Self::Transferred { from, to, amount } => format!("{from} paid {amount} to {to}."),
            Self::Staked { account, amount } => format!("{account} put {amount} at stake."),
            Self::UnbondingStarted { account, amount, due } => {
                format!("{account} called back {amount} of stake, released at {due}.")
            }
            Self::Unbonded { account, amount } => {
                format!("{amount} of stake was released to {account}.")
            }
            _ => String::new(),
        }
    }

    /// The sentence of an event about the list of nodes.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others have been told already")]
    fn sentence_about_nodes(&self) -> String {
        match self {
            Self::NodeRegistered { node, owner } => format!("{owner} registered node {node}."),
            Self::NodeChanged { node, owner } => format!("{owner} changed node {node}."),
            Self::NodeLeft { node, owner } => format!("{owner} took out node {node}."),
            Self::NodeDropped { node, owner } => {
                format!("Node {node} of {owner} was dropped, because a quorum did not see it.")
            }
            Self::NodeAbsent { node, owner } => {
                format!("A quorum of validators does not see node {node} of {owner}.")
            }
            _ => String::new(),
        }
    }

    /// The sentence of an event about running and checking.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others have been told already")]
    fn sentence_about_work(&self) -> String {
        match self {
            Self::BeaconRecorded { height, beacon } => {
                format!("The certificate of block {height} became beacon {beacon}.")
            }
            Self::ProgramRecorded { program, multiply_adds } => {
                format!(
                    "Program {program} is on record; a run takes {multiply_adds} multiply-adds."
                )
            }
            Self::WeightsRegistered { weights, program, owner, proofs } => format!(
                "{owner} registered secret weights {weights} for program {program}, good for \
                 {proofs} more proofs."
            ),
            Self::JobQueued { job, owner, escrow } => {
                format!("Job {job} of {owner} was queued with {escrow} in escrow.")
            }
            Self::JobCancelled { job, owner, refund } => {
                format!("{owner} cancelled job {job} and got {refund} back.")
            }
            Self::JobAdjusted { job, pay, nodes, expires, escrow } => format!(
                "Job {job} was changed by its client: a run is paid {pay}, it runs on {nodes} \
                 nodes, expires at {expires}, and {escrow} is locked for it."
            ),
            Self::JobExpired { job, owner, refund } => {
                format!("Job {job} was not done in time; {owner} got {refund} back.")
            }
            Self::JobPlaced { job, node, run, deadline } => {
                format!("Job {job} was given to node {node} as run {run}, until {deadline}.")
            }
            Self::RunEnded { job, node, why } => {
                format!("The run of job {job} on node {node} ended: {}", why.sentence())
            }
            Self::ResultCommitted { job, node } => {
                format!("Node {node} committed to a result of job {job}.")
            }
            Self::ResultRevealed { job, node, result } => {
                format!("Node {node} showed output {} of job {job}.", result.output)
            }
            Self::ResultProved { job, node, result, by } => {
                let (output, how) = (result.output, shown_how(by));
                format!("Node {node} showed output {output} of job {job} {how}.")
            }
            Self::CheckDrawn { job, node, round } => {
                format!("Node {node} was drawn to check job {job} in round {round}.")
            }
            Self::ResultNotDrawn { job } => {
                format!("The result of job {job} was not drawn for an audit.")
            }
            Self::CheckCommitted { job, node } => {
                format!("Node {node} committed to its answer on job {job}.")
            }
            Self::CheckPassed { job, node } => {
                format!("Node {node} found the result of job {job} right.")
            }
            Self::CheckRefused { job, node } => {
                format!("The answer of node {node} on job {job} does not show that it looked.")
            }
            Self::TilesNotShown { job, node } => format!(
                "Node {node} recomputed all of job {job}; it says that the provider did not show \
                 what its tiles read."
            ),
            Self::CheckMissed { job, node } => {
                format!("Node {node} did not answer on job {job} in time.")
            }
            _ => String::new(),
        }
    }

    /// The sentence of an event about a key that its owner keeps.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others have been told already")]
    fn sentence_about_keys(&self) -> String {
        match self {
            Self::KeyLacked { job, node } => {
                format!("Node {node} says that the owner of job {job} has not handed it the key.")
            }
            Self::CheckExcused { job, node } => {
                format!("Node {node} could not check job {job} without its key.")
            }
            Self::ResultUnchecked { job, owner } => {
                format!("The result of job {job} was not checked: {owner} withheld the key.")
            }
            _ => String::new(),
        }
    }

    /// The sentence of an event about saved states, and runs that end before they are finished.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others have been told already")]
    fn sentence_about_endings(&self) -> String {
        match self {
            Self::CheckpointSaved { job, node, ran, .. } => {
                format!("Node {node} saved the state of job {job} after {ran} of work.")
            }
            Self::YieldAsked { job, node, to, by } => format!(
                "Node {node} was asked to end its run of job {job} until {by}, to make room for \
                 job {to}, which offers more."
            ),
            Self::RunYielded { job, node, to, ran, paid, .. } => format!(
                "Job {job} made room on node {node} for job {to}, which offers more, after a run \
                 of {ran} that was paid {paid}; it goes on where it stopped."
            ),
            Self::StopAsked { job, node, by } => format!(
                "Node {node} was asked to end its run of job {job}, which its client stops; its \
                 time is paid until {by}."
            ),
            Self::RunStopped { job, node, ran, paid } => format!(
                "Job {job} was stopped by its client on node {node}, after a run of {ran} that was \
                 paid {paid}."
            ),
            Self::MoveAsked { job, node, by } => format!(
                "Node {node} was asked to save job {job} and to end its run until {by}; it goes \
                 on elsewhere."
            ),
            Self::RunMoved { job, node, ran, paid, .. } => format!(
                "Job {job} left node {node} after a run of {ran} that was paid {paid}; it goes on \
                 elsewhere where it stopped."
            ),
            Self::GangBroken { job, node, paid } => format!(
                "Node {node} failed as a member of job {job}, so the runs of all members ended; \
                 the others were paid {paid} for their time."
            ),
            _ => String::new(),
        }
    }

    /// The sentence of an event about a promise.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others have been told already")]
    fn sentence_about_promises(&self) -> String {
        match self {
            Self::PromiseGiven { job, node, from, by } => {
                format!("Job {job} was promised by {by}: node {node} begins with it by {from}.")
            }
            Self::PromiseRefused { job, owner, why, earliest, refund } => {
                let earliest = match earliest {
                    Some(earliest) => format!(" The earliest deadline would be {earliest}."),
                    None => String::new(),
                };
                let why = why.sentence();
                format!("Job {job} was not promised: {why}{earliest} {owner} got {refund} back.")
            }
            Self::PromiseBroken { job, owner, by } => {
                format!("The promise to {owner} that job {job} is done by {by} was broken.")
            }
            Self::ClientCompensated { job, node, owner, client, amount } => format!(
                "{owner} paid {client} {amount} of stake: node {node} failed the promise of job \
                 {job}."
            ),
            _ => String::new(),
        }
    }

    /// The sentence of an event about what a node can do.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others have been told already")]
    fn sentence_about_capacity(&self) -> String {
        match self {
            Self::CapacityAsked { node, device, blocks, deadline, .. } => format!(
                "Node {node} was asked to fill {blocks} KiB of the memory of its device {device} \
                 until {deadline}."
            ),
            Self::CapacityCommitted { node, .. } => {
                format!("Node {node} committed to a memory that it filled.")
            }
            Self::CapacityDrawn { node, deadline, .. } => {
                format!("Blocks were drawn that node {node} has to show until {deadline}.")
            }
            Self::CapacityShown { node, shown } => {
                format!("Node {node} showed the first {shown} of the blocks that were drawn.")
            }
            Self::CapacityProved { node, device, memory_mib, blocks, took } => format!(
                "Node {node} filled {blocks} KiB of the memory of its device {device} in {took} \
                 and is credited with {memory_mib} MiB."
            ),
            Self::CapacityMissed { node, device, again } => format!(
                "Node {node} did not show the capacity of its device {device} in time; it is \
                 asked again at {again}."
            ),
            _ => String::new(),
        }
    }

    /// The sentence of an event about packages that do not open.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others have been told already")]
    fn sentence_about_complaints(&self) -> String {
        let name = |about: &Message| match about {
            Message::Inputs => "inputs",
            Message::Result => "result",
        };
        match self {
            Self::Complained { job, by, about, bond, .. } => format!(
                "{by} says that the {} of job {job} cannot be opened, with a bond of {bond}.",
                name(about)
            ),
            Self::ComplaintJudged { job, validator, opens } => {
                let found = if *opens { "can" } else { "cannot" };
                format!("{validator} found that the package of job {job} {found} be opened.")
            }
            Self::ComplaintUpheld { job, about, lost } => format!(
                "Validators found that the {} of job {job} cannot be opened; {lost} was taken.",
                name(about)
            ),
            Self::ComplaintRejected { job, about, by, lost } => format!(
                "Validators found that the {} of job {job} can be opened; {by} lost {lost}.",
                name(about)
            ),
            Self::ComplaintLapsed { job, about } => format!(
                "Too few validators judged the complaint about the {} of job {job} in time.",
                name(about)
            ),
            _ => String::new(),
        }
    }

    /// The sentence of an event about disputes and settlements.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others have been told already")]
    fn sentence_about_its_end(&self) -> String {
        match self {
            Self::AbsenceReported { reporter, epoch, count } => {
                format!("{reporter} did not see {count} nodes in epoch {epoch}.")
            }
            Self::Slashed { offender, reporter, amount, bounty } => format!(
                "{offender} voted twice and lost {amount}, of which {reporter} got {bounty}."
            ),
            Self::FeesShared { proposer, earned, burned, treasury } => format!(
                "Of the block's fees {proposer} got {earned} and the treasury {treasury}; \
                 {burned} was burned."
            ),
            Self::PenaltyTaken { account, amount } => {
                format!("{account} paid a penalty of {amount}, which was burned.")
            }
            Self::DisputeOpened { job, challenger, bond } => {
                format!("{challenger} objects to the result of job {job} with a bond of {bond}.")
            }
            Self::DisputeAnswered { job, node, round } => {
                format!("Node {node} answered round {round} of the dispute about job {job}.")
            }
            Self::DefencePassed { job, deadline } => format!(
                "The provider of job {job} did not go on in the dispute about it; those who \
                 vouched for the whole run may, until {deadline}."
            ),
            Self::ClaimPicked { job, round, child } => {
                format!(
                    "The challenger picked claim {child} in round {round} of the dispute about job \
                     {job}."
                )
            }
            Self::DisputeEnded { job, challenger, why } => {
                format!("{challenger} objected to the result of job {job}: {}", why.sentence())
            }
            Self::RunsDisagreed { job } => {
                format!("Runs of job {job} gave different outputs.")
            }
            Self::JobSettled { job, owner, charged, refund, .. } => {
                format!(
                    "The result of job {job} was accepted: {owner} paid {charged} and got {refund} \
                     back."
                )
            }
            Self::JobFailed { job, owner, refund } => {
                format!("Job {job} ended without an accepted result; {owner} got {refund} back.")
            }
            Self::ProviderPaid { job, node, owner, amount } => {
                format!("{owner} got {amount} for the run of job {job} by node {node}.")
            }
            Self::CheckerPaid { job, node, owner, amount } => {
                format!("{owner} got {amount} for the check of job {job} by node {node}.")
            }
            Self::NodeSlashed { job, node, owner, amount, bounty } => {
                format!(
                    "{owner} lost {amount} of stake for what node {node} gave of job {job}; who \
                     showed it got {bounty}."
                )
            }
            Self::NodeFined { job, node, owner, amount } => {
                format!("{owner} was fined {amount} for node {node} and job {job}.")
            }
            _ => String::new(),
        }
    }
}

/// How everybody sees that a result is right.
const fn shown_how(by: &ShownBy) -> &'static str {
    match by {
        ShownBy::Proof { .. } => "with a proof, which every validator verified",
        ShownBy::Rerun => "and every validator ran the program itself",
        ShownBy::Zk { is_secret: false, .. } => {
            "with a proof that hides it, which every validator verified"
        }
        ShownBy::Zk { is_secret: true, .. } => {
            "with a proof that hides it and the registered weights, which every validator verified"
        }
    }
}
