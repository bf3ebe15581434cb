//! What a client asks for, what a provider answers, and how far a job has come.
//!
//! A job names its work by content, never by place: the program and its inputs by the roots that
//! every court understands, the sealed bytes by the hash under which anybody may hold them.

use crate::amount::Amount;
use crate::bounded::{Bytes, Name};
use crate::checkpoint::CheckpointPlan;
use crate::codec::Encode;
use crate::gpu::GpuAsk;
use crate::hash::{Tag, tagged};
use crate::host::HostPart;
use crate::ids::{Hash32, NodeId};
use crate::node::{DeviceKind, Features};
use crate::tick::{DurationMs, Tick};
use crate::tx::{SHOWN_BYTES_MAX, SHOWN_OPENLY_BYTES_MAX};
use crate::voucher::PackageRef;
use crate::wire;

/// The fewest replicas of a redundant job: one alone agrees with anything.
pub const REPLICAS_MIN: u8 = 2;
/// The most replicas of a redundant job. With the spare ones it stays below the runs of a job.
pub const REPLICAS_MAX: u8 = 4;

/// The most nodes of a job: all of them are found in one block, and listed in its record.
pub const NODES_PER_JOB_MAX: u8 = 16;

wire! {
    /// What is to be computed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Work {
        /// A registered tensor program: it has one meaning, so every court is open to it.
        Tensor {
            /// The program.
            program: Hash32,
            /// The root over its weights.
            weights: Hash32,
            /// The root over its inputs, salted by their owner.
            inputs: Hash32,
            /// The mark of the salt of its trace. The client chooses it, so that a right run has
            /// one trace only, and whoever finds another has found a lie.
            salt: Hash32,
        } = 1,
        /// Anything else: a description of what to run, by content.
        Opaque {
            /// The description.
            task: Hash32,
        } = 2,
    }
}

wire! {
    /// Where a device is to stand. Regions have the names that owners of nodes give them.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub enum RegionAsk {
        /// Anywhere.
        #[default]
        Any = 0,
        /// In this region, and nowhere else.
        Only {
            /// Which.
            region: Name,
        } = 1,
        /// Anywhere, but rather in this region or near it: the client or its data are there.
        Near {
            /// Which.
            region: Name,
        } = 2,
    }
}

impl RegionAsk {
    /// The only region that will do, if there is one.
    pub const fn only(&self) -> Option<&Name> {
        match self {
            Self::Only { region } => Some(region),
            Self::Any | Self::Near { .. } => None,
        }
    }

    /// Where the client or its data are, as far as that is a wish.
    pub const fn near(&self) -> Option<&Name> {
        match self {
            Self::Near { region } => Some(region),
            Self::Any | Self::Only { .. } => None,
        }
    }
}

wire! {
    /// What a device must have.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Needs {
        /// Its kind; any if absent.
        pub kind: Option<DeviceKind>,
        /// Words of the maker's name for it; any if absent.
        pub model: Option<Name>,
        /// Its least memory.
        pub memory_mib_min: u32,
        /// What it must be able to do.
        pub features: Features,
        /// Where it is to stand.
        pub region: RegionAsk,
        /// What a run has of GPUs.
        pub gpus: GpuAsk,
        /// What a run has of the processors and the memory of its machine.
        pub host: HostPart,
    }
}

impl Needs {
    /// Any device.
    pub const ANY: Self = Self {
        kind: None,
        model: None,
        memory_mib_min: 0,
        features: Features::NONE,
        region: RegionAsk::Any,
        gpus: GpuAsk::Usual,
        host: HostPart::NONE,
    };
}

wire! {
    /// How sure the client wants to be.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Tier {
        /// The provider's word.
        Trusted = 1,
        /// A share of all results is drawn, and recomputed: all of it or, of large runs, drawn
        /// tiles.
        Audit = 2,
        /// Every result is checked from beginning to end by drawn checkers.
        Sync = 3,
        /// Several providers must give the same output.
        Redundant {
            /// How many must agree.
            replicas: u8,
        } = 4,
        /// The provider proves the run, and every validator verifies the proof. Inputs and outputs
        /// are public.
        Proof {
            /// The commitment to the weights that proofs open, by content.
            weights: Hash32,
        } = 5,
        /// Every validator runs the program itself. Inputs, outputs and weights are public.
        Rerun = 6,
        /// The provider proves the run, and every validator verifies the proof, which shows neither
        /// inputs nor outputs.
        Zk {
            /// The commitment to the weights that proofs open, by content.
            weights: Hash32,
            /// The commitments to the inputs, one for every run that the job may have, by content:
            /// two proofs about one of them would show more than it can hide.
            inputs: Hash32,
            /// Whether the weights are a secret of the job's owner, who has registered them.
            /// Otherwise anybody who has them can make the same commitment.
            is_secret: bool,
        } = 7,
    }
}

impl Tier {
    /// A proof, before anybody has committed to the weights.
    pub const PROOF: Self = Self::Proof { weights: Hash32::new([0; 32]) };

    /// A proof that hides its numbers, before anybody has committed to any.
    pub const ZK: Self =
        Self::Zk { weights: Hash32::new([0; 32]), inputs: Hash32::new([0; 32]), is_secret: false };

    /// How the result of a run, counted from 0, is shown to be right in the block that accepts it;
    /// `None` if it is not.
    pub const fn shown_by(self, run: u8) -> Option<ShownBy> {
        match self {
            Self::Proof { weights } => Some(ShownBy::Proof { weights }),
            Self::Rerun => Some(ShownBy::Rerun),
            Self::Zk { weights, inputs, is_secret } => {
                Some(ShownBy::Zk { weights, inputs, run, is_secret })
            }
            Self::Trusted | Self::Audit | Self::Sync | Self::Redundant { .. } => None,
        }
    }

    /// The registered weights that proofs of this tier are about; `None` if they are no secret.
    pub const fn secret_weights(self) -> Option<Hash32> {
        match self {
            Self::Zk { weights, is_secret: true, .. } => Some(weights),
            Self::Trusted
            | Self::Audit
            | Self::Sync
            | Self::Redundant { .. }
            | Self::Proof { .. }
            | Self::Rerun
            | Self::Zk { is_secret: false, .. } => None,
        }
    }

    /// Whether results are shown to be right in the block that accepts them.
    pub const fn is_shown(self) -> bool {
        self.shown_by(0).is_some()
    }

    /// Whether a job ends with its first run, so that the date of the run is that of the job.
    /// Others wait for draws, checkers or further runs, and nobody knows for how long.
    pub const fn ends_with_its_run(self) -> bool {
        match self {
            Self::Trusted | Self::Proof { .. } | Self::Rerun | Self::Zk { .. } => true,
            Self::Audit | Self::Sync | Self::Redundant { .. } => false,
        }
    }

    /// How many runs are started.
    pub const fn runs(self) -> u8 {
        match self {
            Self::Trusted
            | Self::Audit
            | Self::Sync
            | Self::Proof { .. }
            | Self::Rerun
            | Self::Zk { .. } => 1,
            Self::Redundant { replicas } => replicas,
        }
    }

    /// How many runs may be paid: where runs disagree, more are started until enough agree.
    pub const fn runs_paid_max(self) -> u8 {
        match self {
            Self::Trusted
            | Self::Audit
            | Self::Sync
            | Self::Proof { .. }
            | Self::Rerun
            | Self::Zk { .. } => 1,
            Self::Redundant { replicas } => replicas.saturating_mul(2).saturating_sub(1),
        }
    }
}

wire! {
    /// How every validator sees that a result is right.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ShownBy {
        /// By a proof of the run.
        Proof {
            /// The commitment to the weights, by content.
            weights: Hash32,
        } = 1,
        /// By running the program with the weights.
        Rerun = 2,
        /// By a proof of the run that shows neither inputs nor outputs.
        Zk {
            /// The commitment to the weights, by content.
            weights: Hash32,
            /// The commitments to the inputs, one for every run, by content.
            inputs: Hash32,
            /// Which run of the job it is, counted from 0.
            run: u8,
            /// Whether the weights are registered: a commitment that hides them counts then, and
            /// no other.
            is_secret: bool,
        } = 3,
    }
}

impl ShownBy {
    /// The most bytes that show a result in this way. Proofs that hide are long.
    pub const fn bytes_max(self) -> usize {
        match self {
            Self::Proof { .. } | Self::Rerun => SHOWN_OPENLY_BYTES_MAX,
            Self::Zk { .. } => SHOWN_BYTES_MAX,
        }
    }
}

wire! {
    /// How much of a run a drawn checker recomputes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Extent {
        /// All of it.
        Whole = 1,
        /// Tiles that its lot draws.
        Tiles = 2,
    }
}

wire! {
    /// The key to which a result is sealed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ResultKey {
        /// What the client derives the secret from, together with its own key.
        pub nonce: [u8; 16],
        /// The hash of the public key.
        pub hash: Hash32,
    }
}

impl ResultKey {
    /// No key: where nothing is sealed, as in simulated networks.
    pub const NONE: Self = Self { nonce: [0; 16], hash: Hash32::new([0; 32]) };
}

wire! {
    /// What one party of a job seals for the other.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Message {
        /// What the client hands in: the package that the job names.
        Inputs = 0,
        /// What the provider hands in: the package that the result names.
        Result = 1,
    }
}

wire! {
    /// Who keeps the key of a run's inputs while the job waits and runs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum KeyEscrow {
        /// Validators, each a share of it: the owner may be offline.
        Validators = 1,
        /// Nobody but the owner, who has to be online.
        None = 2,
    }
}

wire! {
    /// A job: what to compute, on what kind of machine, for how much and how surely.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct JobSpec {
        /// What to compute.
        pub work: Work,
        /// The sealed package with everything a provider needs, by content.
        pub package: Hash32,
        /// Bytes of the package.
        pub package_bytes: u64,
        /// Who keeps the package's key. Vouchers say the same, so nobody can state it falsely.
        pub key_escrow: KeyEscrow,
        /// The key to which the result is to be sealed.
        pub result_key: ResultKey,
        /// Where it can run.
        pub needs: Needs,
        /// How sure the client wants to be.
        pub tier: Tier,
        /// What one run is paid.
        pub pay: Amount,
        /// How long a run may take.
        pub run_max: DurationMs,
        /// How long the job may take in all before the escrow goes back.
        pub expires_after: DurationMs,
        /// By when its end is to be promised; if that cannot be, the job is not wanted.
        pub promise: Option<Tick>,
        /// Whether and how its state is saved, so that it can go on elsewhere.
        pub checkpoint: Option<CheckpointPlan>,
        /// On how many nodes it runs at the same time: a gang if there are several.
        pub nodes: u8,
    }
}

impl JobSpec {
    /// Whether it runs on several nodes at the same time, or not at all.
    pub const fn is_gang(&self) -> bool {
        self.nodes > 1
    }

    /// How many runs are started.
    pub const fn runs(&self) -> u8 {
        if self.is_gang() { self.nodes } else { self.tier.runs() }
    }

    /// How many runs may be paid.
    pub const fn runs_paid_max(&self) -> u8 {
        if self.is_gang() { self.nodes } else { self.tier.runs_paid_max() }
    }

    /// The package as vouchers name it.
    pub const fn package_ref(&self) -> PackageRef {
        let (id, bytes) = (self.package, self.package_bytes);
        PackageRef { id, bytes, key_escrow: Some(self.key_escrow) }
    }

    /// The GPUs that a run holds; [`GpuAsk::Usual`] if it holds none. A command that needs a GPU
    /// has one for itself unless it says otherwise.
    pub const fn held_gpus(&self) -> GpuAsk {
        match (self.needs.gpus, self.needs.kind, &self.work) {
            (GpuAsk::Usual, Some(DeviceKind::Gpu), Work::Opaque { .. }) => {
                GpuAsk::Whole { count: 1 }
            }
            (asked, _, _) => asked,
        }
    }
}

wire! {
    /// What a run gave, as its provider says.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RunResult {
        /// The output, by content.
        pub output: Hash32,
        /// The root of the trace; the hash of what shows the result, if it is shown to be right at
        /// once; of no meaning for opaque work.
        pub trace: Hash32,
        /// The sealed package with the output, by content.
        pub package: Hash32,
        /// Bytes of that package.
        pub package_bytes: u64,
    }
}

impl RunResult {
    /// The package as vouchers name it.
    pub const fn package_ref(&self) -> PackageRef {
        PackageRef { id: self.package, bytes: self.package_bytes, key_escrow: None }
    }

    const SEAL: Tag = Tag::new("tensorgrid/result");

    /// What a provider commits to before anybody sees the result. It names the provider, so that
    /// a seal which was copied cannot be opened by the copier.
    pub fn seal(&self, provider: &NodeId, salt: &[u8; 32]) -> Hash32 {
        tagged(Self::SEAL, &[&self.to_bytes(), provider.as_bytes(), salt])
    }
}

/// Rounds of checkers that a trace has keys for.
pub const CHECK_ROUNDS_MAX: u8 = 4;

/// What a trace comes down to before it is published. Only who has computed the run knows it, and
/// the published root is the end of a chain of hashes over it: its links are the keys by which
/// checkers show that they have done the work. Each round of checkers shows a link nearer to the
/// beginning, so what one round has shown helps nobody in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSecret(Hash32);

impl TraceSecret {
    const LINK: Tag = Tag::new("tensorgrid/trace key");

    /// The secret with this digest.
    pub const fn new(digest: Hash32) -> Self {
        Self(digest)
    }

    /// The root that is published.
    pub fn root(&self) -> Hash32 {
        Self::follow(self.0, CHECK_ROUNDS_MAX)
    }

    /// The key for a round, counted from 0; `None` if there are no such many rounds.
    pub fn key(&self, round: u8) -> Option<Hash32> {
        let links = CHECK_ROUNDS_MAX.checked_sub(round)?.checked_sub(1)?;
        Some(Self::follow(self.0, links))
    }

    /// Whether a key of a round is that of the trace with this root.
    pub fn is_key(root: &Hash32, round: u8, key: &Hash32) -> bool {
        round < CHECK_ROUNDS_MAX && Self::follow(*key, round + 1) == *root
    }

    fn follow(from: Hash32, links: u8) -> Hash32 {
        (0..links).fold(from, |link, _| tagged(Self::LINK, &[link.as_bytes()]))
    }
}

wire! {
    /// What a checker says of a result it found right. There is no answer for a wrong one: whoever
    /// objects opens a dispute.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum CheckAnswer {
        /// From whoever was to recompute the whole run.
        Key {
            /// The result that was checked.
            trace: Hash32,
            /// The trace's key for the checker's round, which only those know who have computed
            /// the run: see [`TraceSecret`].
            key: Hash32,
        } = 1,
        /// From whoever was to recompute drawn tiles.
        Tiles {
            /// The result that was checked.
            trace: Hash32,
            /// The digests of these tiles, which only those know who have computed them, and how
            /// they lead to the root of the trace.
            tiles: TileAnswer,
        } = 2,
        /// From whoever was to recompute drawn tiles, could not and has recomputed the whole run.
        Whole {
            /// The result that was checked.
            trace: Hash32,
            /// What the checker commits to: a root over the digests of all tiles, hashed with its
            /// name. A key of the trace would show nothing here: it follows from what a provider
            /// shows for some tiles.
            known: Hash32,
            /// The digests of tiles that are drawn after that, and how they lead to both roots.
            tiles: TileAnswer,
        } = 3,
    }
}

/// The bytes of the digests of drawn tiles and of all siblings on their ways to the root. Opaque to
/// core; with the rest of a transaction they stay below its limit.
pub type TileAnswer = Bytes<TILE_ANSWER_BYTES_MAX>;

/// The most bytes of a tile answer: 448 digests.
pub const TILE_ANSWER_BYTES_MAX: usize = 14 * 1024;

impl CheckAnswer {
    const SEAL: Tag = Tag::new("tensorgrid/check");

    /// The result that was checked.
    pub const fn trace(&self) -> Hash32 {
        match self {
            Self::Key { trace, .. } | Self::Tiles { trace, .. } | Self::Whole { trace, .. } => {
                *trace
            }
        }
    }

    /// Whether judging it takes reading a program; of such answers there is one in a transaction.
    pub const fn is_long(&self) -> bool {
        match self {
            Self::Key { .. } => false,
            Self::Tiles { .. } | Self::Whole { .. } => true,
        }
    }

    /// What a checker commits to before any answer is opened; tiles that are drawn afterwards are
    /// no part of it.
    pub fn seal(&self, checker: &NodeId, salt: &[u8; 32]) -> Hash32 {
        let sealed = match self {
            Self::Key { .. } | Self::Tiles { .. } => self.to_bytes(),
            Self::Whole { trace, known, .. } => {
                let (trace, known, tiles) = (*trace, *known, TileAnswer::EMPTY);
                Self::Whole { trace, known, tiles }.to_bytes()
            }
        };
        tagged(Self::SEAL, &[&sealed, checker.as_bytes(), salt])
    }
}

wire! {
    /// Why a provider gave a run up.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum RunFailure {
        /// It does not want this job.
        Declined = 1,
        /// The package cannot be had.
        PackageMissing = 2,
        /// The package is not what the job says.
        PackageWrong = 3,
        /// The work needs more than the device has.
        TooLarge = 4,
        /// The device or its software failed.
        DeviceFailed = 5,
        /// The result cannot be shown to be right in the way that the job asks for: the weights are
        /// not those that it commits to, or what shows it would be too long.
        NotShowable = 6,
    }
}

wire! {
    /// How far a job has come.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum JobStatus {
        /// Waiting for a node; its escrow is locked.
        Queued = 1,
        /// Taken back by its owner; the escrow has been refunded.
        Cancelled = 2,
        /// Not done in time; the escrow has been refunded.
        Expired = 3,
        /// Placed: a node runs it, or several.
        Running = 4,
        /// A result is there and waits for its draw or its checks.
        Checking = 5,
        /// Somebody objects to the result.
        Disputed = 6,
        /// Accepted and paid.
        Settled = 7,
        /// No provider gave a result that was accepted; the escrow has been refunded.
        Failed = 8,
    }
}

impl JobStatus {
    /// Whether nothing will happen to the job any more.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Cancelled | Self::Expired | Self::Settled | Self::Failed => true,
            Self::Queued | Self::Running | Self::Checking | Self::Disputed => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CHECK_ROUNDS_MAX, CheckAnswer, RunResult, Tier, TileAnswer, TraceSecret};
    use crate::ids::{Hash32, NodeId};

    #[test]
    fn seals_differ_in_every_field_provider_and_salt() {
        let hash = |byte| Hash32::new([byte; 32]);
        let tiles = |byte| TileAnswer::new(vec![byte; 32]).expect("short");
        let whole = |trace, known, byte| CheckAnswer::Whole {
            trace: hash(trace),
            known: hash(known),
            tiles: tiles(byte),
        };
        let result =
            RunResult { output: hash(1), trace: hash(2), package: hash(3), package_bytes: 4 };
        let (node, salt) = (NodeId::new([5; 32]), [6; 32]);
        let mut seals = vec![
            result.seal(&node, &salt),
            RunResult { output: hash(9), ..result }.seal(&node, &salt),
            RunResult { trace: hash(9), ..result }.seal(&node, &salt),
            RunResult { package: hash(9), ..result }.seal(&node, &salt),
            RunResult { package_bytes: 9, ..result }.seal(&node, &salt),
            result.seal(&NodeId::new([9; 32]), &salt),
            result.seal(&node, &[9; 32]),
            CheckAnswer::Key { trace: hash(1), key: hash(2) }.seal(&node, &salt),
            CheckAnswer::Key { trace: hash(1), key: hash(9) }.seal(&node, &salt),
            CheckAnswer::Tiles { trace: hash(1), tiles: tiles(2) }.seal(&node, &salt),
            CheckAnswer::Tiles { trace: hash(1), tiles: tiles(9) }.seal(&node, &salt),
            CheckAnswer::Tiles { trace: hash(9), tiles: tiles(2) }.seal(&node, &salt),
            whole(1, 2, 3).seal(&node, &salt),
            whole(9, 2, 3).seal(&node, &salt),
            whole(1, 9, 3).seal(&node, &salt),
        ];
        assert_eq!(whole(1, 2, 3).seal(&node, &salt), whole(1, 2, 9).seal(&node, &salt));
        let count = seals.len();
        seals.sort_unstable();
        seals.dedup();
        assert_eq!(seals.len(), count);
    }

    #[test]
    fn key_of_a_round_opens_that_round_of_that_trace_only() {
        let secret = TraceSecret::new(Hash32::new([7; 32]));
        let other = TraceSecret::new(Hash32::new([8; 32]));
        let keys: Vec<Hash32> =
            (0..CHECK_ROUNDS_MAX).map(|round| secret.key(round).expect("a key")).collect();
        assert_eq!(secret.key(CHECK_ROUNDS_MAX), None);
        assert_ne!(secret.root(), other.root());
        for (round, key) in (0..).zip(&keys) {
            for asked in 0..=CHECK_ROUNDS_MAX {
                assert_eq!(TraceSecret::is_key(&secret.root(), asked, key), asked == round);
                assert!(!TraceSecret::is_key(&other.root(), asked, key));
            }
            // What a round shows is not what a later one asks for, nor does it lead there.
            assert!(!keys.iter().skip(usize::from(round) + 1).any(|later| later == key));
        }
        assert!(!TraceSecret::is_key(&secret.root(), u8::MAX, &secret.root()));
    }

    #[test]
    fn redundant_runs_leave_room_for_a_majority() {
        let tier = Tier::Redundant { replicas: 3 };
        assert_eq!((tier.runs(), tier.runs_paid_max()), (3, 5));
        assert_eq!((Tier::Sync.runs(), Tier::Sync.runs_paid_max()), (1, 1));
    }
}
