//! What a transaction can ask for. Every variant is bounded, so that no transaction exceeds
//! [`TX_BYTES_MAX`](super::TX_BYTES_MAX), and those that prove something not
//! [`PROOF_TX_BYTES_MAX`](super::PROOF_TX_BYTES_MAX). Only those with vouchers or tile answers
//! could: the more validators a network has, the longer a voucher, and the fewer jobs or results go
//! into one transaction; and of tile answers there is one in a transaction.

use crate::amount::Amount;
use crate::bounded::{BoundError, Bytes, List};
use crate::checkpoint::CheckpointRef;
use crate::codec::{Decode, DecodeError, Encode, Reader, encode_list};
use crate::ids::{AccountId, Hash32, JobId, NodeId};
use crate::job::{CheckAnswer, JobSpec, Message, RunFailure, RunResult};
use crate::key::Signature;
use crate::node::NodeDescriptor;
use crate::tick::Tick;
use crate::voucher::{Voucher, Vouchers};
use crate::weights::SecretWeights;
use crate::wire;
use std::ops::RangeInclusive;

/// A note to whoever receives a transfer, such as an invoice's number.
pub type Memo = Bytes<64>;

/// The engine's evidence of a double vote: two votes and their signatures. Opaque to core.
pub type Evidence = Bytes<1024>;

/// A piece of a tensor program's bytes.
pub type ProgramPiece = Bytes<{ 8 * 1024 }>;

/// The most pieces of a program: 256 KiB, enough for networks of thousands of operations without
/// their weights.
pub const PROGRAM_PIECES_MAX: u8 = 32;

/// The most jobs that one transaction submits.
pub const JOBS_PER_TX_MAX: usize = 32;

/// The most tasks of an array that one transaction submits; a longer array takes several.
pub const ARRAY_TASKS_MAX: u16 = 256;

/// The most runs or checks that one transaction reports.
pub const REPORTS_PER_TX_MAX: usize = 64;

/// A defender's answer in a dispute: the claims of up to 16 children. Opaque to core.
pub type DisputeAnswer = Bytes<{ 8 * 1024 }>;

/// What ends a dispute: a step with all that it reads. Opaque to core.
pub type DisputeEvidence = Bytes<{ 14 * 1024 }>;

/// Blocks of a filled memory with all that they read. Opaque to core.
pub type CapacityOpenings = Bytes<{ 14 * 1024 }>;

/// What shows that a result is right: inputs and outputs in the clear, and a proof or the weights;
/// or commitments to both, and a proof that hides them. Opaque to core; with the rest of a
/// transaction it stays below its limit.
pub type ShownBytes = Bytes<SHOWN_BYTES_MAX>;

/// The most bytes that show a result in any way. Proofs that hide their numbers have 1.4 to 1.8 MB.
pub const SHOWN_BYTES_MAX: usize = 2032 * 1024;

/// The most bytes that show a result with its numbers in the clear. Proofs of models that fit a
/// machine have 50 to 350 KB.
pub const SHOWN_OPENLY_BYTES_MAX: usize = 496 * 1024;

wire! {
    /// Tasks of an array: jobs that differ in nothing but their numbers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ArrayTasks {
        /// The number of the first.
        pub first: u32,
        /// How many there are: 1 to [`ARRAY_TASKS_MAX`].
        pub count: u16,
    }
}

impl ArrayTasks {
    /// Their numbers; `None` if there are too few, too many, or one without a number.
    pub fn numbers(self) -> Option<RangeInclusive<u32>> {
        let last = self.first.checked_add(self.count.checked_sub(1)?.into())?;
        (self.count <= ARRAY_TASKS_MAX).then_some(self.first..=last)
    }
}

wire! {
    /// What a client changes of a job; what is absent stays as it is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Adjustment {
        /// What a run is paid.
        pub pay: Option<Amount>,
        /// When it expires.
        pub expires: Option<Tick>,
        /// On how many nodes it runs at the same time.
        pub nodes: Option<u8>,
    }
}

impl Adjustment {
    /// Nothing is changed.
    pub const NONE: Self = Self { pay: None, expires: None, nodes: None };
}

wire! {
    /// A commitment to what will be said about a job.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Sealed {
        /// The job.
        pub job: JobId,
        /// The commitment.
        pub seal: Hash32,
    }
}

wire! {
    /// A result that was sealed before.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpenedResult {
        /// The job.
        pub job: JobId,
        /// What the run gave.
        pub result: RunResult,
        /// What the seal was made with.
        pub salt: [u8; 32],
    }
}

wire! {
    /// A checker's answer that was sealed before.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OpenedCheck {
        /// The job.
        pub job: JobId,
        /// The answer.
        pub answer: CheckAnswer,
        /// What the seal was made with.
        pub salt: [u8; 32],
    }
}

wire! {
    /// What a transaction asks for.
    #[expect(clippy::large_enum_variant, reason = "a box would cost every array an allocation")]
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
            /// Its id: the public key of the node.
            node: NodeId,
            /// What it offers.
            descriptor: NodeDescriptor,
            /// The node's signature that it wants this owner.
            consent: Signature,
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
        /// Ask for jobs to be done.
        SubmitJobs {
            /// What to do.
            specs: List<JobSpec, 1, JOBS_PER_TX_MAX>,
            /// The most that may be locked for all of them together.
            escrow_max: Amount,
            /// That validators hold their packages.
            vouchers: Vouchers,
        } = 8,
        /// Take a job back that waits, or stop one that runs.
        CancelJob {
            /// Which.
            job: JobId,
        } = 9,
        /// Show that a validator voted twice.
        SubmitEvidence {
            /// The engine's evidence.
            evidence: Evidence,
        } = 10,
        /// Put a piece of a tensor program on record.
        PutProgram {
            /// The program.
            program: Hash32,
            /// Which piece, counted from 0.
            piece: u8,
            /// How many there are.
            pieces: u8,
            /// Its bytes.
            bytes: ProgramPiece,
        } = 11,
        /// As a node, commit to results.
        CommitResults {
            /// The commitments.
            seals: List<Sealed, 1, REPORTS_PER_TX_MAX>,
        } = 12,
        /// As a node, show results that were committed to.
        RevealResults {
            /// The results.
            results: List<OpenedResult, 1, REPORTS_PER_TX_MAX>,
            /// That validators hold their packages.
            vouchers: Vouchers,
        } = 13,
        /// As a node, give a run up.
        GiveUp {
            /// Of which job.
            job: JobId,
            /// Why.
            failure: RunFailure,
        } = 14,
        /// As a drawn node, commit to what checking showed.
        CommitChecks {
            /// The commitments.
            seals: List<Sealed, 1, REPORTS_PER_TX_MAX>,
        } = 15,
        /// As a drawn node, show what was committed to.
        RevealChecks {
            /// The answers.
            answers: List<OpenedCheck, 1, REPORTS_PER_TX_MAX>,
        } = 16,
        /// Say that a result is wrong, and put a bond on it.
        Object {
            /// Of which job.
            job: JobId,
        } = 17,
        /// As the provider of a disputed result, say what it is made of.
        AnswerDispute {
            /// Which job.
            job: JobId,
            /// The claims of the children.
            answer: DisputeAnswer,
        } = 18,
        /// As the challenger of a result, say which claim is the first wrong one.
        PickClaim {
            /// Which job.
            job: JobId,
            /// The child.
            child: u8,
        } = 19,
        /// As either party, show what decides a dispute.
        JudgeDispute {
            /// Which job.
            job: JobId,
            /// What decides it.
            evidence: DisputeEvidence,
        } = 20,
        /// As a node that was asked for its capacity, commit to the memory it filled.
        CommitCapacity {
            /// The root over all blocks.
            root: Hash32,
        } = 21,
        /// As a node that was asked for its capacity, show blocks that were drawn.
        ShowCapacity {
            /// The next ones, in the order in which they were drawn.
            openings: CapacityOpenings,
        } = 22,
        /// Say that a package does not open, and put a bond on it.
        Complain {
            /// Of which job.
            job: JobId,
            /// Which of its packages: the inputs, as a node that runs it, or the result, as its
            /// owner.
            about: Message,
            /// The secret that should open it: the content key of the inputs, or the seed of the
            /// result key. Public from now on.
            key: [u8; 32],
        } = 23,
        /// As a validator, say whether a package opens that somebody complained about.
        JudgeComplaint {
            /// Of which job.
            job: JobId,
            /// Whether it opens with the key that was shown, to what the chain says is in it.
            opens: bool,
        } = 24,
        /// As a node, show a result with all that shows it to be right.
        ProveResult {
            /// Of which job.
            job: JobId,
            /// What the run gave; in place of a trace stands the hash of what is shown.
            result: RunResult,
            /// What verifying takes, as the ledger meters it: the fee covers it, and a block has
            /// room for some.
            cost: u64,
            /// What shows it.
            shown: ShownBytes,
            /// That validators hold its package.
            vouchers: Vouchers,
        } = 25,
        /// As a drawn node, say that the owner of a job, who keeps its key, has not handed it out.
        LackKey {
            /// Of which job.
            job: JobId,
        } = 26,
        /// Ask for an opaque job to be done several times, each time with another number.
        SubmitArray {
            /// What to do.
            spec: JobSpec,
            /// Which numbers.
            tasks: ArrayTasks,
            /// The most that may be locked for all of them together.
            escrow_max: Amount,
            /// That validators hold the package.
            vouchers: Vouchers,
        } = 27,
        /// Register secret weights for a program: show that they fit it, without showing them.
        RegisterWeights {
            /// The program.
            program: Hash32,
            /// The commitment to the weights.
            weights: SecretWeights,
            /// What verifying takes, as the ledger meters it: the fee covers it, and a block has
            /// room for some.
            cost: u64,
            /// What shows it.
            proof: ShownBytes,
        } = 28,
        /// As a node, save the state of a command that it runs.
        SaveCheckpoint {
            /// Of which job.
            job: JobId,
            /// The package with it.
            checkpoint: CheckpointRef,
            /// That validators hold the package.
            vouchers: Vouchers,
        } = 29,
        /// As a node that was asked to, end a run: another job is to have its place, the client
        /// stops the job, or the node closes.
        YieldRun {
            /// Of which job.
            job: JobId,
            /// The package with its state, if that was saved once more.
            checkpoint: Option<CheckpointRef>,
            /// That validators hold the package.
            vouchers: Vouchers,
        } = 30,
        /// Change what is wanted of a job that has not ended.
        AdjustJob {
            /// Which.
            job: JobId,
            /// What is changed.
            change: Adjustment,
            /// The most that may be locked for it besides.
            escrow_max: Amount,
        } = 31,
    }
}

impl Action {
    /// The vouchers that come with it; most actions have none.
    pub fn vouchers(&self) -> &[Voucher] {
        if let Self::SubmitJobs { vouchers, .. }
        | Self::SubmitArray { vouchers, .. }
        | Self::RevealResults { vouchers, .. }
        | Self::SaveCheckpoint { vouchers, .. }
        | Self::YieldRun { vouchers, .. }
        | Self::ProveResult { vouchers, .. } = self
        {
            return vouchers.as_slice();
        }
        &[]
    }

    /// How jobs are asked for by it, and how many in each way.
    pub fn jobs(&self) -> impl Iterator<Item = (&JobSpec, u16)> {
        let specs = if let Self::SubmitJobs { specs, .. } = self { specs.as_slice() } else { &[] };
        let array = if let Self::SubmitArray { spec, tasks, .. } = self {
            Some((spec, tasks.count))
        } else {
            None
        };
        specs.iter().map(|spec| (spec, 1)).chain(array)
    }

    /// Bytes that it does not have itself but makes everybody store: of all tasks but the first.
    pub fn bytes_repeated(&self) -> u64 {
        let Self::SubmitArray { spec, tasks, .. } = self else { return 0 };
        let each = u64::try_from(spec.to_bytes().len()).unwrap_or(u64::MAX);
        each.saturating_mul(u64::from(tasks.count).saturating_sub(1))
    }

    /// What verifying it takes, as it says itself; `None` if it proves neither a result nor that
    /// weights fit.
    pub const fn proof_cost(&self) -> Option<u64> {
        if let Self::ProveResult { cost, .. } | Self::RegisterWeights { cost, .. } = self {
            Some(*cost)
        } else {
            None
        }
    }

    /// The most bytes of a signed transaction with this action.
    pub const fn tx_bytes_max(&self) -> usize {
        if self.proof_cost().is_some() { super::PROOF_TX_BYTES_MAX } else { super::TX_BYTES_MAX }
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
