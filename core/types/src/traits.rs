//! What the ledger must be able to ask but cannot know: the engine's evidence and certificates,
//! and what tensor programs mean.
//!
//! They are traits, because the engine's formats belong to the edge; to core they are opaque bytes.
//! An implementation must be a pure function of its arguments and the genesis, otherwise nodes
//! would disagree.

use crate::bounded::Bytes;
use crate::codec::{Decode as _, DecodeError, Encode as _};
use crate::ids::{GenesisHash, Hash32, HeaderDigest, JobId, NodeId};
use crate::job::ShownBy;
use crate::key::PublicKey;
use crate::tick::Height;
use crate::tx::ShownBytes;
use crate::weights::RegistrationClaim;
use crate::wire;

/// Judges evidence that a validator voted for two things at once.
pub trait EquivocationCheck: Send + Sync {
    /// The voting key that the evidence convicts; `None` if it convicts nobody.
    fn offender(&self, evidence: &[u8]) -> Option<PublicKey>;
}

/// Judges certificates by which a quorum finalised a header.
pub trait CertificateCheck: Send + Sync {
    /// Whether a quorum signed this digest at this height.
    fn verify(&self, height: Height, digest: &HeaderDigest, certificate: &[u8]) -> bool;
}

/// What is claimed of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunClaim {
    /// The program.
    pub program: Hash32,
    /// The root over its weights.
    pub weights: Hash32,
    /// The root over its inputs.
    pub inputs: Hash32,
    /// The mark of the salt that its trace must have.
    pub salt: Hash32,
    /// The root of the trace.
    pub trace: Hash32,
    /// The output.
    pub output: Hash32,
}

/// What is known of a tensor program without running it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramFacts {
    /// Its id.
    pub id: Hash32,
    /// What one run takes.
    pub multiply_adds: u64,
    /// Operations.
    pub operations: u32,
    /// Elements that a run computes.
    pub elements: u64,
}

/// What is claimed of a memory that was filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillClaim {
    /// What it was filled from.
    pub seed: Hash32,
    /// How many blocks of 1 KiB it has.
    pub blocks: u32,
    /// The root over all blocks.
    pub root: Hash32,
}

/// Which tiles of a run a checker is to recompute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileLot {
    /// What they are drawn by: nobody could know it when the result was committed to.
    pub lot: Hash32,
    /// How many are drawn.
    pub tiles: u8,
}

/// Who says to have computed a whole run of which it was to recompute some tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownRun {
    /// The node.
    pub node: NodeId,
    /// What it has committed to: a root over the digests of all tiles, hashed with its name.
    pub known: Hash32,
    /// Which tiles it must show: nobody could know that when it committed.
    pub lot: TileLot,
}

/// How evidence decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepVerdict {
    /// The claim is right.
    Upheld,
    /// The claim is wrong.
    Refuted,
}

/// Judges tensor programs step by step. Claims, answers and evidence are opaque to core; every
/// call is bounded by the size of its arguments.
pub trait StepJudge: Send + Sync {
    /// What the bytes of a program say; `None` if they are no program in canonical form.
    fn facts(&self, program: &[u8]) -> Option<ProgramFacts>;

    /// The claim a dispute begins with.
    fn first_claim(&self, run: &RunClaim) -> Vec<u8>;

    /// Whether an answer about a run fits the claim it is for.
    fn is_consistent(&self, program: &[u8], run: &RunClaim, claim: &[u8], answer: &[u8]) -> bool;

    /// The claim of one child in an answer; `None` if there is no such child.
    fn child(&self, answer: &[u8], child: u8) -> Option<Vec<u8>>;

    /// What evidence says about a run when a dispute has come to this claim and answer; `None` if
    /// it decides nothing.
    fn judge(&self, program: &[u8], run: &RunClaim, at: &DisputePoint<'_>) -> Option<StepVerdict>;

    /// Whether these bytes show that somebody knows the digests of the tiles that a lot draws from
    /// a run: exactly those tiles, and all of them lead to the root of its trace. Takes the time of
    /// reading the program and of some hashes for each tile.
    fn shows_tiles(&self, program: &[u8], run: &RunClaim, lot: &TileLot, shown: &[u8]) -> bool;

    /// Whether these bytes show that a node knew the digests of the tiles that were drawn of a run
    /// after it had committed to all: they lead to the root of the trace, and to what the node has
    /// committed to. Takes the time of reading the program and of some hashes for each tile.
    fn shows_whole(&self, program: &[u8], run: &RunClaim, by: &KnownRun, shown: &[u8]) -> bool;

    /// Whether what refuted a run, when a dispute had come to this point, is something that a
    /// checker has vouched for. It must follow from the roots of the run: sums that were stated
    /// in the dispute only are the provider's own, who might state a false one to harm those who
    /// checked a right result. With a lot, it must be in one of the lot's tiles, or be the output,
    /// which all compare.
    fn has_vouched(
        &self,
        program: &[u8],
        run: &RunClaim,
        at: &DisputePoint<'_>,
        lot: Option<&TileLot>,
    ) -> bool;

    /// Whether a claim in a dispute follows from the roots of a run, so that whoever has computed
    /// a right run can go on with it, whoever stated it. Sums inside an element do not: they are
    /// the word of whoever stated them.
    fn is_bound(&self, claim: &[u8]) -> bool;

    /// How many blocks of a filled memory these bytes open: the first one at the first of the
    /// places, and so on; `None` if any is not what it ought to be, or none is opened. Takes the
    /// time of as many blocks, whatever the memory.
    fn opened(&self, fill: &FillClaim, places: &[u32], openings: &[u8]) -> Option<usize>;
}

wire! {
    /// A result that is said to be right, with all that a proof of it must be bound to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ResultClaim {
        /// The network, by its genesis.
        pub genesis: GenesisHash,
        /// The job.
        pub job: JobId,
        /// Whose result it is.
        pub node: NodeId,
        /// The program.
        pub program: Hash32,
        /// The root over its weights.
        pub weights: Hash32,
        /// The root over its inputs.
        pub inputs: Hash32,
        /// The output.
        pub output: Hash32,
        /// How it is shown to be right.
        pub by: ShownBy,
    }
}

wire! {
    /// A claim with all that is needed to verify it, as a file.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ProofFile {
        /// What is claimed.
        pub claim: ResultClaim,
        /// The program that the claim names.
        pub program: Bytes<{ 256 * 1024 }>,
        /// What shows it.
        pub shown: ShownBytes,
    }
}

impl ProofFile {
    /// The first bytes of such a file.
    pub const MAGIC: [u8; 4] = *b"TGR1";

    /// The bytes of the file.
    pub fn to_file(&self) -> Vec<u8> {
        let mut bytes = Self::MAGIC.to_vec();
        self.encode(&mut bytes);
        bytes
    }

    /// Reads a file; `None` if it is another one.
    pub fn from_file(bytes: &[u8]) -> Option<Result<Self, DecodeError>> {
        bytes.strip_prefix(&Self::MAGIC).map(Self::from_bytes)
    }
}

wire! {
    /// What verifying one result of a program takes at most, in microseconds of one core.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct VerifyCosts {
        /// A proof; absent if runs cannot be proven.
        pub proof: Option<u64>,
        /// Running the program; absent if it is too large for that.
        pub rerun: Option<u64>,
        /// A proof that hides inputs and outputs; absent if runs cannot be proven so.
        pub zk: Option<u64>,
        /// A proof that secret weights fit; absent if they cannot be registered.
        pub registration: Option<u64>,
    }
}

impl VerifyCosts {
    /// Nothing can be verified.
    pub const NONE: Self = Self { proof: None, rerun: None, zk: None, registration: None };

    /// What it takes if a result is shown that way.
    pub const fn by(&self, by: ShownBy) -> Option<u64> {
        match by {
            ShownBy::Proof { .. } => self.proof,
            ShownBy::Rerun => self.rerun,
            ShownBy::Zk { .. } => self.zk,
        }
    }
}

/// Verifies results that are shown to be right by a proof, or by the weights to run the program
/// with. What is shown is opaque to core.
pub trait ResultVerifier: Send + Sync {
    /// What verifying a result of this program takes at most. It follows from the program's sizes
    /// alone, so that it can be paid for and bounded before any work.
    fn costs(&self, program: &[u8]) -> VerifyCosts;

    /// Whether this shows that the claim is right. Takes no longer than its cost and the reading of
    /// its arguments.
    fn verify(&self, program: &[u8], claim: &ResultClaim, shown: &[u8]) -> bool;

    /// Whether this proves that secret weights fit their program. Takes no longer than its cost and
    /// the reading of its arguments.
    fn verify_registration(&self, program: &[u8], claim: &RegistrationClaim, proof: &[u8]) -> bool;
}

/// How far a dispute has come, and what is to decide it.
#[derive(Clone, Copy, Debug)]
pub struct DisputePoint<'a> {
    /// The claim in dispute.
    pub claim: &'a [u8],
    /// The provider's answer to it, if it has answered.
    pub answer: Option<&'a [u8]>,
    /// What is to decide it.
    pub evidence: &'a [u8],
}

/// The judge of a network without tensor programs: it knows none, so none can be put on record, and
/// no node can show its capacity.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPrograms;

impl StepJudge for NoPrograms {
    fn facts(&self, _program: &[u8]) -> Option<ProgramFacts> {
        None
    }

    fn first_claim(&self, _run: &RunClaim) -> Vec<u8> {
        Vec::new()
    }

    fn is_consistent(&self, _: &[u8], _: &RunClaim, _: &[u8], _: &[u8]) -> bool {
        false
    }

    fn child(&self, _answer: &[u8], _child: u8) -> Option<Vec<u8>> {
        None
    }

    fn judge(&self, _: &[u8], _: &RunClaim, _: &DisputePoint<'_>) -> Option<StepVerdict> {
        None
    }

    fn shows_tiles(&self, _: &[u8], _: &RunClaim, _: &TileLot, _shown: &[u8]) -> bool {
        false
    }

    fn shows_whole(&self, _: &[u8], _: &RunClaim, _: &KnownRun, _shown: &[u8]) -> bool {
        false
    }

    fn has_vouched(
        &self,
        _: &[u8],
        _: &RunClaim,
        _: &DisputePoint<'_>,
        _: Option<&TileLot>,
    ) -> bool {
        false
    }

    fn is_bound(&self, _claim: &[u8]) -> bool {
        false
    }

    fn opened(&self, _: &FillClaim, _places: &[u32], _openings: &[u8]) -> Option<usize> {
        None
    }
}

impl ResultVerifier for NoPrograms {
    fn costs(&self, _program: &[u8]) -> VerifyCosts {
        VerifyCosts::NONE
    }

    fn verify(&self, _program: &[u8], _claim: &ResultClaim, _shown: &[u8]) -> bool {
        false
    }

    fn verify_registration(&self, _: &[u8], _: &RegistrationClaim, _: &[u8]) -> bool {
        false
    }
}
