//! What a transaction can ask for. Every variant is bounded, so that no transaction exceeds
//! [`TX_BYTES_MAX`](super::TX_BYTES_MAX).

use crate::amount::Amount;
use crate::bounded::{BoundError, Bytes};
use crate::codec::{Decode, DecodeError, Encode, Reader, encode_list};
use crate::ids::{AccountId, JobId, NodeId};
use crate::job::JobSpec;
use crate::node::NodeDescriptor;
use crate::wire;

/// A note to whoever receives a transfer, such as an invoice's number.
pub type Memo = Bytes<64>;

/// The engine's evidence of a double vote: two votes and their signatures. Opaque to core.
pub type Evidence = Bytes<1024>;

wire! {
    /// What a transaction asks for.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Action {
        /// Pay another account.
        Transfer {
            /// Who receives it.
            to: AccountId,
            /// How much.
            amount: Amount,
            /// A note.
            memo: Memo,
        } = 1,
        /// Put money at stake.
        Stake {
            /// How much.
            amount: Amount,
        } = 2,
        /// Call stake back. It is released after the unbonding time.
        Unstake {
            /// How much.
            amount: Amount,
        } = 3,
        /// Offer a node.
        RegisterNode {
            /// Its id.
            node: NodeId,
            /// What it offers.
            descriptor: NodeDescriptor,
        } = 4,
        /// Change what a node offers.
        ChangeNode {
            /// Its id.
            node: NodeId,
            /// What it offers from now on.
            descriptor: NodeDescriptor,
        } = 5,
        /// Take a node out.
        LeaveNode {
            /// Its id.
            node: NodeId,
        } = 6,
        /// As a validator, say which nodes were not seen.
        ReportAbsent {
            /// In which epoch.
            epoch: u64,
            /// Which nodes.
            nodes: NodeSet,
        } = 7,
        /// Ask for a job to be done.
        SubmitJob {
            /// What to do.
            spec: JobSpec,
            /// What it may cost; locked until the job ends.
            escrow: Amount,
        } = 8,
        /// Take a job back.
        CancelJob {
            /// Which.
            job: JobId,
        } = 9,
        /// Show that a validator voted twice.
        SubmitEvidence {
            /// The engine's evidence.
            evidence: Evidence,
        } = 10,
    }
}

/// Nodes in ascending order, each once: 1 to [`NodeSet::COUNT_MAX`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSet(Vec<NodeId>);

impl NodeSet {
    /// What fits well into a transaction; a validator that misses more sends several reports.
    pub const COUNT_MAX: usize = 256;

    /// Puts the nodes in order and drops repetitions.
    pub fn new(mut nodes: Vec<NodeId>) -> Result<Self, BoundError> {
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.is_empty() || nodes.len() > Self::COUNT_MAX {
            return Err(BoundError::Length { found: nodes.len(), min: 1, max: Self::COUNT_MAX });
        }
        Ok(Self(nodes))
    }

    /// The nodes.
    pub fn as_slice(&self) -> &[NodeId] {
        &self.0
    }
}

impl Encode for NodeSet {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_list(&self.0, out);
    }
}

impl Decode for NodeSet {
    const BYTES_MIN: usize = 1 + NodeId::BYTES_MIN;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let nodes: Vec<NodeId> = reader.list_within(1, Self::COUNT_MAX)?;
        if !nodes.is_sorted_by(|left, right| left < right) {
            return Err(DecodeError::Order { at: reader.position(), expected: "nodes by id" });
        }
        Ok(Self(nodes))
    }
}
