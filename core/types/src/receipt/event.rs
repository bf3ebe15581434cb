//! What happened, in the past tense. Events are facts for readers; the ledger itself never reads
//! them back.

use crate::amount::Amount;
use crate::ids::{AccountId, Hash32, JobId, NodeId};
use crate::reason::Reason;
use crate::tick::{Height, Tick};
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
            Self::JobQueued { job, owner, escrow } => {
                format!("Job {job} of {owner} was queued with {escrow} in escrow.")
            }
            Self::JobCancelled { job, owner, refund } => {
                format!("{owner} cancelled job {job} and got {refund} back.")
            }
            Self::JobExpired { job, owner, refund } => {
                format!("Job {job} was not done in time; {owner} got {refund} back.")
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
