//! What happened, in the past tense. Events are facts for readers; the ledger itself never reads
//! them back.

use crate::amount::Amount;
use crate::ids::{AccountId, Hash32, JobId, NodeId};
use crate::job::RunResult;
use crate::reason::Reason;
use crate::tick::{DurationMs, Height, Tick};
use crate::wire;

wire! {
    /// Something that happened in a block.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Event {
        /// The genesis gave an account its balance.
        AccountCredited {
            /// Who received it.
            account: AccountId,
            /// How much.
            amount: Amount,
        } = 1,
        /// Money moved between accounts.
        Transferred {
            /// Who paid.
            from: AccountId,
            /// Who received it.
            to: AccountId,
            /// How much.
            amount: Amount,
        } = 2,
        /// Money was put at stake.
        Staked {
            /// Whose.
            account: AccountId,
            /// How much.
            amount: Amount,
        } = 3,
        /// Stake was called back.
        UnbondingStarted {
            /// Whose.
            account: AccountId,
            /// How much.
            amount: Amount,
            /// When it is released.
            due: Tick,
        } = 4,
        /// Stake was released.
        Unbonded {
            /// Whose.
            account: AccountId,
            /// How much.
            amount: Amount,
        } = 5,
        /// A node was registered.
        NodeRegistered {
            /// Which.
            node: NodeId,
            /// By whom.
            owner: AccountId,
        } = 6,
        /// A node's description changed.
        NodeChanged {
            /// Which.
            node: NodeId,
            /// By whom.
            owner: AccountId,
        } = 7,
        /// A node was taken out.
        NodeLeft {
            /// Which.
            node: NodeId,
            /// By whom.
            owner: AccountId,
        } = 8,
        /// A node was dropped because it was silent.
        NodeDropped {
            /// Which.
            node: NodeId,
            /// Whose it was.
            owner: AccountId,
        } = 9,
        /// A validator reported nodes it did not see.
        AbsenceReported {
            /// Who reported.
            reporter: AccountId,
            /// In which epoch.
            epoch: u64,
            /// How many nodes.
            count: u32,
        } = 10,
        /// A job was queued.
        JobQueued {
            /// Which.
            job: JobId,
            /// Whose.
            owner: AccountId,
            /// What was locked for it.
            escrow: Amount,
        } = 11,
        /// A job was cancelled.
        JobCancelled {
            /// Which.
            job: JobId,
            /// Whose.
            owner: AccountId,
            /// What went back.
            refund: Amount,
        } = 12,
        /// A job was not done in time.
        JobExpired {
            /// Which.
            job: JobId,
            /// Whose.
            owner: AccountId,
            /// What went back.
            refund: Amount,
        } = 13,
        /// A validator lost stake for voting twice.
        Slashed {
            /// Whose stake.
            offender: AccountId,
            /// Who sent the evidence.
            reporter: AccountId,
            /// What was lost.
            amount: Amount,
            /// What of it the reporter received; the rest was burned.
            bounty: Amount,
        } = 14,
        /// A penalty was burned.
        PenaltyTaken {
            /// Who paid.
            account: AccountId,
            /// How much.
            amount: Amount,
        } = 15,
        /// The block's fees were shared out.
        FeesShared {
            /// Who proposed the block.
            proposer: AccountId,
            /// What the proposer received.
            earned: Amount,
            /// What was burned.
            burned: Amount,
            /// What the treasury received.
            treasury: Amount,
        } = 16,
        /// A certificate became a beacon.
        BeaconRecorded {
            /// Of which block.
            height: Height,
            /// The beacon.
            beacon: Hash32,
        } = 17,
        /// A tensor program is on record.
        ProgramRecorded {
            /// Which.
            program: Hash32,
            /// What one run of it takes.
            multiply_adds: u64,
        } = 18,
        /// A job was given to a node.
        JobPlaced {
            /// Which.
            job: JobId,
            /// To which node.
            node: NodeId,
            /// Which run of the job, counted from 0.
            run: u8,
            /// When the node must have committed to a result.
            deadline: Tick,
        } = 19,
        /// A run ended without a result.
        RunEnded {
            /// Of which job.
            job: JobId,
            /// Of which node.
            node: NodeId,
            /// Why.
            why: Reason,
        } = 20,
        /// A node committed to a result.
        ResultCommitted {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
        } = 21,
        /// A node showed its result.
        ResultRevealed {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// The result.
            result: RunResult,
        } = 22,
        /// A node was drawn to check a result.
        CheckDrawn {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// In which round, counted from 0.
            round: u8,
        } = 23,
        /// A result was not drawn for an audit.
        ResultNotDrawn {
            /// Of which job.
            job: JobId,
        } = 24,
        /// A checker committed to its answer.
        CheckCommitted {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
        } = 25,
        /// A checker found a result right.
        CheckPassed {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
        } = 26,
        /// A checker did not answer in time.
        CheckMissed {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
        } = 27,
        /// Somebody objects to a result.
        DisputeOpened {
            /// Of which job.
            job: JobId,
            /// Who.
            challenger: AccountId,
            /// What stands on it.
            bond: Amount,
        } = 28,
        /// A provider answered in a dispute.
        DisputeAnswered {
            /// About which job.
            job: JobId,
            /// In which round.
            round: u8,
        } = 29,
        /// A challenger picked a claim.
        ClaimPicked {
            /// About which job.
            job: JobId,
            /// In which round.
            round: u8,
            /// Which claim.
            child: u8,
        } = 30,
        /// A dispute ended.
        DisputeEnded {
            /// About which job.
            job: JobId,
            /// Who objected.
            challenger: AccountId,
            /// How.
            why: Reason,
        } = 31,
        /// Runs of a job gave different outputs.
        RunsDisagreed {
            /// Which.
            job: JobId,
        } = 32,
        /// A job was accepted and paid.
        JobSettled {
            /// Which.
            job: JobId,
            /// Whose.
            owner: AccountId,
            /// The accepted output.
            output: Hash32,
            /// What it cost in all.
            charged: Amount,
            /// What went back.
            refund: Amount,
        } = 33,
        /// A job ended without an accepted result.
        JobFailed {
            /// Which.
            job: JobId,
            /// Whose.
            owner: AccountId,
            /// What went back.
            refund: Amount,
        } = 34,
        /// A provider was paid for a run.
        ProviderPaid {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// Who received it.
            owner: AccountId,
            /// How much.
            amount: Amount,
        } = 35,
        /// A checker was paid.
        CheckerPaid {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// Who received it.
            owner: AccountId,
            /// How much.
            amount: Amount,
        } = 36,
        /// A node's owner lost stake for a wrong result.
        NodeSlashed {
            /// Of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// Whose stake.
            owner: AccountId,
            /// What was lost.
            amount: Amount,
            /// What of it the challenger received; the rest was burned.
            bounty: Amount,
        } = 37,
        /// A node's owner was fined; the fine was burned.
        NodeFined {
            /// Because of which job.
            job: JobId,
            /// Which node.
            node: NodeId,
            /// Whose stake.
            owner: AccountId,
            /// How much.
            amount: Amount,
        } = 38,
        /// A quorum of validators does not see a node.
        NodeAbsent {
            /// Which.
            node: NodeId,
            /// Whose.
            owner: AccountId,
        } = 39,
        /// A node was asked to fill a memory.
        CapacityAsked {
            /// Which.
            node: NodeId,
            /// From what.
            seed: Hash32,
            /// How many blocks of 1 KiB.
            blocks: u32,
            /// Until when it may commit to it.
            deadline: Tick,
        } = 40,
        /// A node committed to a memory that it filled.
        CapacityCommitted {
            /// Which.
            node: NodeId,
            /// The root over all blocks.
            root: Hash32,
        } = 41,
        /// Blocks of a filled memory were drawn.
        CapacityDrawn {
            /// Whose.
            node: NodeId,
            /// What they follow from.
            lot: Hash32,
            /// Until when they may be shown.
            deadline: Tick,
        } = 42,
        /// A node showed some of the blocks that were drawn.
        CapacityShown {
            /// Which.
            node: NodeId,
            /// How many of them are shown by now.
            shown: u8,
        } = 43,
        /// A node showed its capacity.
        CapacityProved {
            /// Which.
            node: NodeId,
            /// The memory that it is credited with.
            memory_mib: u32,
            /// How many blocks of 1 KiB it filled.
            blocks: u32,
            /// How long that took, in block time.
            took: DurationMs,
        } = 44,
        /// A node did not show its capacity in time.
        CapacityMissed {
            /// Which.
            node: NodeId,
            /// When it is asked again.
            again: Tick,
        } = 45,
    }
}

impl Event {
    /// Why it happened.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::AccountCredited { .. } => Reason::Credited,
            Self::Transferred { .. } => Reason::Transferred,
            Self::Staked { .. } => Reason::Staked,
            Self::UnbondingStarted { .. } => Reason::UnbondingStarted,
            Self::Unbonded { .. } => Reason::Unbonded,
            Self::NodeRegistered { .. } => Reason::NodeRegistered,
            Self::NodeChanged { .. } => Reason::NodeChanged,
            Self::NodeLeft { .. } => Reason::NodeLeft,
            Self::NodeDropped { .. } => Reason::NodeSilent,
            Self::AbsenceReported { .. } => Reason::AbsenceReported,
            Self::JobQueued { .. } => Reason::JobQueued,
            Self::JobCancelled { .. } => Reason::JobCancelled,
            Self::JobExpired { .. } => Reason::JobExpired,
            Self::Slashed { .. } => Reason::Equivocated,
            Self::PenaltyTaken { .. } => Reason::PenaltyTaken,
            Self::FeesShared { .. } => Reason::FeesShared,
            Self::BeaconRecorded { .. } => Reason::BeaconRecorded,
            Self::ProgramRecorded { .. } => Reason::ProgramRecorded,
            Self::JobPlaced { .. } => Reason::JobPlaced,
            Self::RunEnded { why, .. } => *why,
            Self::ResultCommitted { .. } => Reason::ResultCommitted,
            Self::ResultRevealed { .. } => Reason::ResultRevealed,
            Self::CheckDrawn { .. } => Reason::CheckDrawn,
            Self::ResultNotDrawn { .. } => Reason::ResultNotDrawn,
            Self::CheckCommitted { .. } => Reason::CheckCommitted,
            Self::CheckPassed { .. } => Reason::CheckPassed,
            Self::CheckMissed { .. } => Reason::CheckMissed,
            Self::DisputeOpened { .. } => Reason::DisputeOpened,
            Self::DisputeAnswered { .. } => Reason::DisputeAnswered,
            Self::ClaimPicked { .. } => Reason::ClaimPicked,
            Self::DisputeEnded { why, .. } => *why,
            Self::RunsDisagreed { .. } => Reason::RunsDisagreed,
            Self::JobSettled { .. } => Reason::JobSettled,
            Self::JobFailed { .. } => Reason::JobFailed,
            Self::ProviderPaid { .. } => Reason::ProviderPaid,
            Self::CheckerPaid { .. } => Reason::CheckerPaid,
            Self::NodeSlashed { .. } => Reason::NodeSlashed,
            Self::NodeFined { .. } => Reason::NodeFined,
            Self::NodeAbsent { .. } => Reason::NodeAbsent,
            Self::CapacityAsked { .. } => Reason::CapacityAsked,
            Self::CapacityCommitted { .. } => Reason::CapacityCommitted,
            Self::CapacityDrawn { .. } => Reason::CapacityDrawn,
            Self::CapacityShown { .. } => Reason::CapacityShown,
            Self::CapacityProved { .. } => Reason::CapacityProved,
            Self::CapacityMissed { .. } => Reason::CapacityMissed,
        }
    }

    /// The job it is about, if it is about one.
    pub const fn job(&self) -> Option<JobId> {
        match self {
            Self::JobQueued { job, .. }
            | Self::JobCancelled { job, .. }
            | Self::JobExpired { job, .. }
            | Self::JobPlaced { job, .. }
            | Self::RunEnded { job, .. }
            | Self::ResultCommitted { job, .. }
            | Self::ResultRevealed { job, .. }
            | Self::CheckDrawn { job, .. }
            | Self::ResultNotDrawn { job, .. }
            | Self::CheckCommitted { job, .. }
            | Self::CheckPassed { job, .. }
            | Self::CheckMissed { job, .. }
            | Self::DisputeOpened { job, .. }
            | Self::DisputeAnswered { job, .. }
            | Self::ClaimPicked { job, .. }
            | Self::DisputeEnded { job, .. }
            | Self::RunsDisagreed { job, .. }
            | Self::JobSettled { job, .. }
            | Self::JobFailed { job, .. }
            | Self::ProviderPaid { job, .. }
            | Self::CheckerPaid { job, .. }
            | Self::NodeSlashed { job, .. }
            | Self::NodeFined { job, .. } => Some(*job),
            Self::AccountCredited { .. }
            | Self::Transferred { .. }
            | Self::Staked { .. }
            | Self::UnbondingStarted { .. }
            | Self::Unbonded { .. }
            | Self::NodeRegistered { .. }
            | Self::NodeChanged { .. }
            | Self::NodeLeft { .. }
            | Self::NodeDropped { .. }
            | Self::AbsenceReported { .. }
            | Self::Slashed { .. }
            | Self::PenaltyTaken { .. }
            | Self::FeesShared { .. }
            | Self::BeaconRecorded { .. }
            | Self::ProgramRecorded { .. }
            | Self::NodeAbsent { .. }
            | Self::CapacityAsked { .. }
            | Self::CapacityCommitted { .. }
            | Self::CapacityDrawn { .. }
            | Self::CapacityShown { .. }
            | Self::CapacityProved { .. }
            | Self::CapacityMissed { .. } => None,
        }
    }

    /// What happened, for people.
    pub fn sentence(&self) -> String {
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
            Self::NodeRegistered { node, owner } => format!("{owner} registered node {node}."),
            Self::NodeChanged { node, owner } => format!("{owner} changed node {node}."),
            Self::NodeLeft { node, owner } => format!("{owner} took out node {node}."),
            Self::NodeDropped { node, owner } => {
                format!("Node {node} of {owner} was dropped, because a quorum did not see it.")
            }
            Self::AbsenceReported { reporter, epoch, count } => {
                format!("{reporter} did not see {count} nodes in epoch {epoch}.")
            }
            Self::Slashed { offender, reporter, amount, bounty } => format!(
                "{offender} voted twice and lost {amount}, of which {reporter} got {bounty}."
            ),
            Self::PenaltyTaken { account, amount } => {
                format!("{account} paid a penalty of {amount}, which was burned.")
            }
            Self::FeesShared { proposer, earned, burned, treasury } => format!(
                "Of the block's fees {proposer} got {earned} and the treasury {treasury}; \
                 {burned} was burned."
            ),
            Self::BeaconRecorded { height, beacon } => {
                format!("The certificate of block {height} became beacon {beacon}.")
            }
            Self::ProgramRecorded { .. }
            | Self::JobQueued { .. }
            | Self::JobCancelled { .. }
            | Self::JobExpired { .. }
            | Self::JobPlaced { .. }
            | Self::RunEnded { .. }
            | Self::ResultCommitted { .. }
            | Self::ResultRevealed { .. }
            | Self::CheckDrawn { .. }
            | Self::ResultNotDrawn { .. }
            | Self::CheckCommitted { .. }
            | Self::CheckPassed { .. }
            | Self::CheckMissed { .. } => self.sentence_about_work(),
            Self::DisputeOpened { .. }
            | Self::DisputeAnswered { .. }
            | Self::ClaimPicked { .. }
            | Self::DisputeEnded { .. }
            | Self::RunsDisagreed { .. }
            | Self::JobSettled { .. }
            | Self::JobFailed { .. }
            | Self::ProviderPaid { .. }
            | Self::CheckerPaid { .. }
            | Self::NodeSlashed { .. }
            | Self::NodeFined { .. }
            | Self::NodeAbsent { .. } => self.sentence_about_its_end(),
            Self::CapacityAsked { .. }
            | Self::CapacityCommitted { .. }
            | Self::CapacityDrawn { .. }
            | Self::CapacityShown { .. }
            | Self::CapacityProved { .. }
            | Self::CapacityMissed { .. } => self.sentence_about_capacity(),
        }
    }

    /// The sentence of an event about running and checking.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others have been told already")]
    fn sentence_about_work(&self) -> String {
        match self {
            Self::ProgramRecorded { program, multiply_adds } => {
                format!(
                    "Program {program} is on record; a run takes {multiply_adds} multiply-adds."
                )
            }
            Self::JobQueued { job, owner, escrow } => {
                format!("Job {job} of {owner} was queued with {escrow} in escrow.")
            }
            Self::JobCancelled { job, owner, refund } => {
                format!("{owner} cancelled job {job} and got {refund} back.")
            }
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
            Self::CheckMissed { job, node } => {
                format!("Node {node} did not answer on job {job} in time.")
            }
            _ => String::new(),
        }
    }

    /// The sentence of an event about what a node can do.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others have been told already")]
    fn sentence_about_capacity(&self) -> String {
        match self {
            Self::CapacityAsked { node, blocks, deadline, .. } => {
                format!("Node {node} was asked to fill {blocks} KiB of memory until {deadline}.")
            }
            Self::CapacityCommitted { node, .. } => {
                format!("Node {node} committed to a memory that it filled.")
            }
            Self::CapacityDrawn { node, deadline, .. } => {
                format!("Blocks were drawn that node {node} has to show until {deadline}.")
            }
            Self::CapacityShown { node, shown } => {
                format!("Node {node} showed the first {shown} of the blocks that were drawn.")
            }
            Self::CapacityProved { node, memory_mib, blocks, took } => format!(
                "Node {node} filled {blocks} KiB of memory in {took} and is credited with \
                 {memory_mib} MiB."
            ),
            Self::CapacityMissed { node, again } => format!(
                "Node {node} did not show its capacity in time; it is asked again at {again}."
            ),
            _ => String::new(),
        }
    }

    /// The sentence of an event about disputes and settlements.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others have been told already")]
    fn sentence_about_its_end(&self) -> String {
        match self {
            Self::DisputeOpened { job, challenger, bond } => {
                format!("{challenger} objects to the result of job {job} with a bond of {bond}.")
            }
            Self::DisputeAnswered { job, round } => {
                format!("The provider answered round {round} of the dispute about job {job}.")
            }
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
                    "{owner} lost {amount} of stake for what node {node} said of job {job}; the \
                     challenger got {bounty}."
                )
            }
            Self::NodeFined { job, node, owner, amount } => {
                format!("{owner} was fined {amount} for node {node} and job {job}.")
            }
            Self::NodeAbsent { node, owner } => {
                format!("A quorum of validators does not see node {node} of {owner}.")
            }
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Event;
    use crate::amount::Amount;
    use crate::ids::AccountId;
    use crate::key::SecretKey;
    use crate::reason::Reason;

    #[test]
    fn event_is_told_in_a_sentence_with_its_values() {
        let account = |number| AccountId::from(SecretKey::from_seed([number; 32]).public());
        let (from, to, amount) = (account(1), account(2), Amount::constant(1_500_000_000));
        let event = Event::Transferred { from, to, amount };
        assert_eq!(event.reason(), Reason::Transferred);
        assert_eq!(event.sentence(), format!("{from} paid 1.5 TGRID to {to}."));
    }
}
