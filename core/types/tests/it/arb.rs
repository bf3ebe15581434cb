//! Arbitrary well-formed values of every type that has a canonical form.

use arbtest::arbitrary::{Result, Unstructured};
use tg_types::genesis::{Genesis, GenesisSpec, NetworkKind, ValidatorSeat};
use tg_types::merkle::{Peaks, Proof};
use tg_types::tx::{
    Action, Adjustment, Lane, NodeSet, Nonce, OpenedCheck, OpenedResult, Sealed, SignedTx, TxBody,
};
use tg_types::{
    AccountId, Address, Amount, BlockReceipt, Bps, Bytes, ChainId, CheckAnswer, CheckpointPlan,
    CheckpointRef, Device, DeviceKind, DurationMs, Event, Features, GenesisHash, Hash32, Header,
    HeaderDigest, Height, HostPart, IdempotencyId, JobId, JobParams, JobSpec, JobStatus, KeyEscrow,
    Kind, List, Message, Name, Needs, NodeDescriptor, NodeId, Noun, PackageRef, Params, PublicKey,
    Reason, Receipt, RegionAsk, ResultKey, RunFailure, RunResult, SeatSignature, SeatSignatures,
    SecretKey, SecretWeights, ShownBy, Signature, StateKey, Status, Tick, Tier, TxId, Voucher,
    Work,
};
use tg_types::{GpuAsk, MigSlices, Sharing};

/// A type of which arbitrary values can be made.
pub(crate) trait Arb: Sized {
    /// An arbitrary value.
    fn arb(u: &mut Unstructured<'_>) -> Result<Self>;
}

macro_rules! arb_from {
    ($($ty:ty: $u:ident => $value:expr;)*) => {$(
        impl Arb for $ty {
            fn arb($u: &mut Unstructured<'_>) -> Result<Self> {
                Ok($value)
            }
        }
    )*};
}

arb_from! {
    bool: u => u.arbitrary()?;
    u8: u => u.arbitrary()?;
    u16: u => u.arbitrary()?;
    u32: u => u.arbitrary()?;
    u64: u => u.arbitrary()?;
    Hash32: u => Self::new(u.arbitrary()?);
    TxId: u => Self::new(u.arbitrary()?);
    JobId: u => Self::new(u.arbitrary()?);
    NodeId: u => Self::new(u.arbitrary()?);
    HeaderDigest: u => Self::new(u.arbitrary()?);
    GenesisHash: u => Self::new(u.arbitrary()?);
    IdempotencyId: u => Self::new(u.arbitrary()?);
    Signature: u => Self::new(Arb::arb(u)?);
    PublicKey: u => SecretKey::from_seed([u.arbitrary()?; 32]).public();
    AccountId: u => match Self::new(u.arbitrary()?) {
        Ok(account) => account,
        Err(_) => PublicKey::arb(u)?.into(),
    };
    Tick: u => Self::new(u.arbitrary()?);
    Height: u => Self::new(u.arbitrary()?);
    DurationMs: u => Self::new(u.arbitrary()?);
    Nonce: u => Self::new(u.arbitrary()?);
    Lane: u => Self::new(u.int_in_range(0..=7)?).expect("a lane");
    Amount: u => Self::constant(u.int_in_range(0..=Self::CAP.units())?);
    Bps: u => Self::constant(u.int_in_range(0..=10_000)?);
    Reason: u => *u.choose(Self::ALL)?;
    Status: u => if u.arbitrary()? { Self::Applied } else { Self::Failed(Reason::arb(u)?) };
    StateKey: u => Self::new(Noun::arb(u)?, u.arbitrary()?);
    DeviceKind: u => *u.choose(&[Self::Cpu, Self::Gpu, Self::Accelerator])?;
    Features: u => {
        let some = u.arbitrary::<u8>()?;
        let is_in = |(place, _): &(usize, _)| some >> place & 1 == 1;
        let chosen = Self::ALL.into_iter().enumerate().filter(is_in);
        chosen.fold(Self::NONE, |all, (_, (one, _))| all.with(one))
    };
    JobStatus: u => *u.choose(&[
        Self::Queued, Self::Cancelled, Self::Expired, Self::Running, Self::Checking,
        Self::Disputed, Self::Settled, Self::Failed,
    ])?;
    Tier: u => match u.int_in_range(1..=7)? {
        1 => Self::Trusted,
        2 => Self::Audit,
        3 => Self::Sync,
        4 => Self::Redundant { replicas: u.arbitrary()? },
        5 => Self::Proof { weights: Hash32::arb(u)? },
        6 => Self::Rerun,
        _ => {
            let ((weights, inputs), is_secret) = (Arb::arb(u)?, u.arbitrary()?);
            Self::Zk { weights, inputs, is_secret }
        }
    };
    ShownBy: u => match u.int_in_range(1..=3)? {
        1 => Self::Proof { weights: Hash32::arb(u)? },
        2 => Self::Rerun,
        _ => Self::Zk {
            weights: Hash32::arb(u)?,
            inputs: Hash32::arb(u)?,
            run: u.arbitrary()?,
            is_secret: u.arbitrary()?,
        },
    };
    RunFailure: u => *u.choose(&[
        Self::Declined, Self::PackageMissing, Self::PackageWrong, Self::TooLarge,
        Self::DeviceFailed, Self::NotShowable,
    ])?;
    NetworkKind: u => *u.choose(&[Self::Local, Self::Open])?;
    Kind: u => *u.choose(&[
        Self::Transaction, Self::Header, Self::Receipt, Self::BlockReceipt, Self::Genesis,
        Self::NodeConsent, Self::Voucher, Self::Notice, Self::LogReader,
    ])?;
    Noun: u => *u.choose(&[
        Self::Totals, Self::Account, Self::Seen, Self::Stake, Self::Node, Self::Job, Self::Due,
        Self::Headers, Self::Beacon, Self::Log, Self::Params, Self::Validator, Self::Cursor,
        Self::Absence, Self::List, Self::Program, Self::Dispute, Self::Piece, Self::Draft,
        Self::Complaint, Self::Weights, Self::GpuMix,
    ])?;
    ChainId: u => letters(u, b"abcxyz0189-", 32)?.parse().expect("a chain's name");
    Name: u => letters(u, b"azAZ09-_.~!", 64)?.parse().expect("a name");
    Address: u => format!("{}:{}", letters(u, b"az09", 60)?, u.int_in_range(1..=u16::MAX)?)
        .parse().expect("an address");
    Device: u => Self {
        kind: DeviceKind::arb(u)?,
        model: Name::arb(u)?,
        memory_mib: u.arbitrary()?,
        count: u.arbitrary()?,
        features: Features::arb(u)?,
        sharing: Sharing::arb(u)?,
    };
    MigSlices: u => *u.choose(&[Self::Four, Self::Seven])?;
    Sharing: u => Self { mig: Option::arb(u)?, shares: u.arbitrary()? };
    GpuAsk: u => match u.int_in_range(0..=2)? {
        0 => Self::Usual,
        1 => Self::Whole { count: u.arbitrary()? },
        _ => Self::Part { steps: u.arbitrary()?, may_share: u.arbitrary()? },
    };
    HostPart: u => Self { cpu_milli: u.arbitrary()?, memory_mib: u.arbitrary()? };
    NodeDescriptor: u => Self {
        region: Name::arb(u)?,
        devices: List::arb(u)?,
        host: HostPart::arb(u)?,
        price_per_hour: Amount::arb(u)?,
        price_per_tera: Amount::arb(u)?,
        slots: u.arbitrary()?,
        is_open: u.arbitrary()?,
        closes: Option::arb(u)?,
    };
    Work: u => if u.arbitrary()? {
        let ((program, weights), (inputs, salt)) = Arb::arb(u)?;
        Self::Tensor { program, weights, inputs, salt }
    } else {
        Self::Opaque { task: Hash32::arb(u)? }
    };
    RegionAsk: u => match u.int_in_range(0..=2)? {
        0 => Self::Any,
        1 => Self::Only { region: Name::arb(u)? },
        _ => Self::Near { region: Name::arb(u)? },
    };
    Needs: u => Self {
        kind: Option::arb(u)?,
        model: Option::arb(u)?,
        memory_mib_min: u.arbitrary()?,
        features: Features::arb(u)?,
        region: RegionAsk::arb(u)?,
        gpus: GpuAsk::arb(u)?,
        host: HostPart::arb(u)?,
    };
    ResultKey: u => Self { nonce: Arb::arb(u)?, hash: Hash32::arb(u)? };
    Message: u => *u.choose(&[Self::Inputs, Self::Result])?;
    KeyEscrow: u => if u.arbitrary()? { Self::Validators } else { Self::None };
    PackageRef: u => Self {
        id: Hash32::arb(u)?,
        bytes: u.arbitrary()?,
        key_escrow: Option::arb(u)?,
    };
    SeatSignature: u => Self { seat: u.arbitrary()?, signature: Signature::arb(u)? };
    SeatSignatures: u => {
        let mut signatures: Vec<SeatSignature> = some(u, 1, 4)?;
        signatures.sort_by_key(|one| one.seat);
        signatures.dedup_by_key(|one| one.seat);
        Self::new(signatures).expect("different seats")
    };
    Voucher: u => Self { packages: few(u)?, signatures: SeatSignatures::arb(u)? };
    JobSpec: u => Self {
        work: Work::arb(u)?,
        package: Hash32::arb(u)?,
        package_bytes: u.arbitrary()?,
        key_escrow: KeyEscrow::arb(u)?,
        result_key: ResultKey::arb(u)?,
        needs: Needs::arb(u)?,
        tier: Tier::arb(u)?,
        pay: Amount::arb(u)?,
        run_max: DurationMs::arb(u)?,
        expires_after: DurationMs::arb(u)?,
        promise: Option::arb(u)?,
        checkpoint: Option::arb(u)?,
        nodes: u.arbitrary()?,
    };
    CheckpointRef: u => Self { package: Hash32::arb(u)?, package_bytes: u.arbitrary()? };
    CheckpointPlan: u => Self { every: DurationMs::arb(u)?, from: Option::arb(u)? };
    RunResult: u => Self {
        output: Hash32::arb(u)?,
        trace: Hash32::arb(u)?,
        package: Hash32::arb(u)?,
        package_bytes: u.arbitrary()?,
    };
    CheckAnswer: u => {
        let trace = Hash32::arb(u)?;
        match u.int_in_range(1..=3)? {
            1 => Self::Key { trace, key: Hash32::arb(u)? },
            2 => Self::Tiles { trace, tiles: Arb::arb(u)? },
            _ => Self::Whole { trace, known: Hash32::arb(u)?, tiles: Arb::arb(u)? },
        }
    };
    Sealed: u => Self { job: JobId::arb(u)?, seal: Hash32::arb(u)? };
    OpenedResult: u => Self {
        job: JobId::arb(u)?,
        result: RunResult::arb(u)?,
        salt: Arb::arb(u)?,
    };
    OpenedCheck: u => Self {
        job: JobId::arb(u)?,
        answer: CheckAnswer::arb(u)?,
        salt: Arb::arb(u)?,
    };
    NodeSet: u => Self::new(some(u, 1, 8)?).expect("a few nodes");
    TxBody: u => Self {
        sender: AccountId::arb(u)?,
        lane: Lane::arb(u)?,
        nonce: Nonce::arb(u)?,
        expires: Height::arb(u)?,
        fee: Amount::arb(u)?,
        idempotency: Option::arb(u)?,
        action: Action::arb(u)?,
    };
    SignedTx: u => Self { body: TxBody::arb(u)?, signature: Signature::arb(u)? };
    Receipt: u => Self {
        tx: TxId::arb(u)?,
        index: u.arbitrary()?,
        status: Status::arb(u)?,
        fee: Amount::arb(u)?,
        events: some(u, 0, 4)?,
    };
    BlockReceipt: u => Self { height: Height::arb(u)?, events: some(u, 0, 4)? };
    Header: u => Self {
        height: Height::arb(u)?,
        tick: Tick::arb(u)?,
        parent: HeaderDigest::arb(u)?,
        proposer: AccountId::arb(u)?,
        payload: Hash32::arb(u)?,
        state_root: Hash32::arb(u)?,
        receipts_root: Hash32::arb(u)?,
        log_root: Hash32::arb(u)?,
    };
    ValidatorSeat: u => Self {
        key: PublicKey::arb(u)?,
        owner: AccountId::arb(u)?,
        stake: Amount::arb(u)?,
        address: Address::arb(u)?,
    };
    JobParams: u => Self {
        pay_min: Amount::constant(u.int_in_range(1..=Amount::CAP.units())?),
        audit_share: Bps::arb(u)?,
        sync_checkers: u.int_in_range(1..=16)?,
        fine: Amount::arb(u)?,
        ..if u.arbitrary()? { Params::local().jobs } else { Params::open().jobs }
    };
    Params: u => Self {
        fee_floor_per_byte: Amount::arb(u)?,
        unbonding: Self::open().unbonding, // the bounds hold with the times of either network
        slash_bounty_bps: Bps::arb(u)?,
        block_tx_max: u.int_in_range(1..=1_000_000)?,
        seen_retention: DurationMs::new(u.int_in_range(1..=1_000_000)?),
        jobs: JobParams::arb(u)?,
        ..if u.arbitrary()? { Self::local() } else { Self::open() }
    };
    Proof: u => {
        let leaves: Vec<[u8; 1]> = (0..u.int_in_range(1..=40)?).map(|leaf| [leaf]).collect();
        Self::prove(&leaves, u.choose_index(leaves.len())?).expect("a leaf")
    };
    Peaks: u => {
        let mut peaks = Self::EMPTY;
        for leaf in 0..u.int_in_range(0..=70)? {
            peaks.append(&[leaf]);
        }
        peaks
    };
}

impl<T: Arb> Arb for Option<T> {
    fn arb(u: &mut Unstructured<'_>) -> Result<Self> {
        if u.arbitrary()? { T::arb(u).map(Some) } else { Ok(None) }
    }
}

impl<A: Arb, B: Arb> Arb for (A, B) {
    fn arb(u: &mut Unstructured<'_>) -> Result<Self> {
        Ok((A::arb(u)?, B::arb(u)?))
    }
}

impl<const N: usize> Arb for [u8; N] {
    fn arb(u: &mut Unstructured<'_>) -> Result<Self> {
        let mut bytes = [0; N];
        u.fill_buffer(&mut bytes)?;
        Ok(bytes)
    }
}

impl<const MAX: usize> Arb for Bytes<MAX> {
    fn arb(u: &mut Unstructured<'_>) -> Result<Self> {
        Ok(Self::new(some(u, 0, MAX.min(300))?).expect("within the bound"))
    }
}

impl<T: Arb, const MIN: usize, const MAX: usize> Arb for List<T, MIN, MAX> {
    fn arb(u: &mut Unstructured<'_>) -> Result<Self> {
        Ok(Self::new(some(u, MIN, MAX)?).expect("within the bounds"))
    }
}

impl Arb for Action {
    fn arb(u: &mut Unstructured<'_>) -> Result<Self> {
        let (node, job) = (NodeId::arb(u)?, JobId::arb(u)?);
        Ok(match u.int_in_range(1..=30)? {
            1 => {
                let (to, amount) = Arb::arb(u)?;
                Self::Transfer { to, amount, memo: Bytes::arb(u)? }
            }
            2 => Self::Stake { amount: Amount::arb(u)? },
            3 => Self::Unstake { amount: Amount::arb(u)? },
            4 => {
                let (descriptor, consent) = Arb::arb(u)?;
                Self::RegisterNode { node, descriptor, consent }
            }
            5 => Self::ChangeNode { node, descriptor: NodeDescriptor::arb(u)? },
            6 => Self::LeaveNode { node },
            7 => Self::ReportAbsent { epoch: u.arbitrary()?, nodes: NodeSet::arb(u)? },
            8 => {
                let (specs, vouchers) = (few(u)?, fewer(u)?);
                Self::SubmitJobs { specs, escrow_max: Amount::arb(u)?, vouchers }
            }
            9 => Self::CancelJob { job },
            10 => Self::SubmitEvidence { evidence: Bytes::arb(u)? },
            11 => {
                let (program, (piece, pieces)) = Arb::arb(u)?;
                Self::PutProgram { program, piece, pieces, bytes: Bytes::arb(u)? }
            }
            12 => Self::CommitResults { seals: few(u)? },
            13 => Self::RevealResults { results: few(u)?, vouchers: fewer(u)? },
            14 => Self::GiveUp { job, failure: RunFailure::arb(u)? },
            15 => Self::CommitChecks { seals: few(u)? },
            16 => Self::RevealChecks { answers: few(u)? },
            17 => Self::Object { job },
            18 => Self::AnswerDispute { job, answer: Bytes::arb(u)? },
            19 => Self::PickClaim { job, child: u.arbitrary()? },
            20 => Self::JudgeDispute { job, evidence: Bytes::arb(u)? },
            21 => Self::CommitCapacity { root: Hash32::arb(u)? },
            22 => Self::ShowCapacity { openings: Bytes::arb(u)? },
            23 => Self::Complain { job, about: Message::arb(u)?, key: Arb::arb(u)? },
            24 => Self::JudgeComplaint { job, opens: u.arbitrary()? },
            26 => Self::LackKey { job },
            28 => {
                let ((program, root), (proofs, cost)) = Arb::arb(u)?;
                let weights = SecretWeights { root, proofs };
                Self::RegisterWeights { program, weights, cost, proof: Bytes::arb(u)? }
            }
            27 => {
                let checkpoint = CheckpointRef::arb(u)?;
                Self::SaveCheckpoint { job, checkpoint, vouchers: fewer(u)? }
            }
            29 => Self::YieldRun { job, checkpoint: Option::arb(u)?, vouchers: fewer(u)? },
            30 => {
                let (pay, expires) = Arb::arb(u)?;
                let change = Adjustment { pay, expires, nodes: Option::arb(u)? };
                Self::AdjustJob { job, change, escrow_max: Amount::arb(u)? }
            }
            _ => {
                let (result, cost) = Arb::arb(u)?;
                Self::ProveResult { job, result, cost, shown: Bytes::arb(u)?, vouchers: fewer(u)? }
            }
        })
    }
}

impl Arb for Event {
    fn arb(u: &mut Unstructured<'_>) -> Result<Self> {
        let (account, other) = (AccountId::arb(u)?, AccountId::arb(u)?);
        let (amount, bounty) = (Amount::arb(u)?, Amount::arb(u)?);
        let (node, job) = (NodeId::arb(u)?, JobId::arb(u)?);
        Ok(match u.int_in_range(1..=71)? {
            1 => Self::AccountCredited { account, amount },
            2 => Self::Transferred { from: account, to: other, amount },
            3 => Self::Staked { account, amount },
            4 => Self::UnbondingStarted { account, amount, due: Tick::arb(u)? },
            5 => Self::Unbonded { account, amount },
            6 => Self::NodeRegistered { node, owner: account },
            7 => Self::NodeChanged { node, owner: account },
            8 => Self::NodeLeft { node, owner: account },
            9 => Self::NodeDropped { node, owner: account },
            10 => {
                let (epoch, count) = Arb::arb(u)?;
                Self::AbsenceReported { reporter: account, epoch, count }
            }
            11 => Self::JobQueued { job, owner: account, escrow: amount },
            12 => Self::JobCancelled { job, owner: account, refund: amount },
            13 => Self::JobExpired { job, owner: account, refund: amount },
            14 => Self::Slashed { offender: account, reporter: other, amount, bounty },
            15 => Self::PenaltyTaken { account, amount },
            16 => {
                let treasury = Amount::arb(u)?;
                Self::FeesShared { proposer: account, earned: amount, burned: bounty, treasury }
            }
            17 => Self::BeaconRecorded { height: Height::arb(u)?, beacon: Hash32::arb(u)? },
            18 => {
                let (program, multiply_adds) = Arb::arb(u)?;
                Self::ProgramRecorded { program, multiply_adds }
            }
            28 => Self::DisputeOpened { job, challenger: account, bond: amount },
            33 => {
                let (owner, output) = (account, Hash32::arb(u)?);
                Self::JobSettled { job, owner, output, charged: amount, refund: bounty }
            }
            34 => Self::JobFailed { job, owner: account, refund: amount },
            35 => Self::ProviderPaid { job, node, owner: account, amount },
            36 => Self::CheckerPaid { job, node, owner: account, amount },
            37 => Self::NodeSlashed { job, node, owner: account, amount, bounty },
            38 => Self::NodeFined { job, node, owner: account, amount },
            39 => Self::NodeAbsent { node, owner: account },
            40 => {
                let ((seed, blocks), deadline) = Arb::arb(u)?;
                Self::CapacityAsked { node, device: u.arbitrary()?, seed, blocks, deadline }
            }
            41 => Self::CapacityCommitted { node, root: Hash32::arb(u)? },
            42 => Self::CapacityDrawn { node, lot: Hash32::arb(u)?, deadline: Tick::arb(u)? },
            43 => Self::CapacityShown { node, shown: u.arbitrary()? },
            44 => {
                let ((memory_mib, blocks), took) = Arb::arb(u)?;
                let device = u.arbitrary()?;
                Self::CapacityProved { node, device, memory_mib, blocks, took }
            }
            45 => {
                let (device, again) = (u.arbitrary()?, Tick::arb(u)?);
                Self::CapacityMissed { node, device, again }
            }
            46 => {
                let (about, (key, deadline)) = Arb::arb(u)?;
                Self::Complained { job, by: account, about, key, bond: amount, deadline }
            }
            47 => Self::ComplaintJudged { job, validator: account, opens: u.arbitrary()? },
            48 => Self::ComplaintUpheld { job, about: Message::arb(u)?, lost: amount },
            49 => {
                let about = Message::arb(u)?;
                Self::ComplaintRejected { job, about, by: account, lost: amount }
            }
            50 => Self::ComplaintLapsed { job, about: Message::arb(u)? },
            57 => Self::ResultUnchecked { job, owner: account },
            58 => Self::PromiseGiven { job, node, from: Tick::arb(u)?, by: Tick::arb(u)? },
            59 => {
                let (why, earliest) = Arb::arb(u)?;
                Self::PromiseRefused { job, owner: account, why, earliest, refund: amount }
            }
            60 => Self::PromiseBroken { job, owner: account, by: Tick::arb(u)? },
            61 => Self::ClientCompensated { job, node, owner: account, client: other, amount },
            62 => {
                let ((weights, program), proofs) = Arb::arb(u)?;
                Self::WeightsRegistered { weights, program, owner: account, proofs }
            }
            63 => {
                let (checkpoint, ran) = Arb::arb(u)?;
                Self::CheckpointSaved { job, node, checkpoint, ran }
            }
            64 => {
                let (to, by) = Arb::arb(u)?;
                Self::YieldAsked { job, node, to, by }
            }
            65 => {
                let (to, ran) = Arb::arb(u)?;
                Self::RunYielded { job, node, to, ran, paid: amount, refund: bounty }
            }
            66 => Self::StopAsked { job, node, by: Tick::arb(u)? },
            67 => Self::RunStopped { job, node, ran: DurationMs::arb(u)?, paid: amount },
            68 => Self::MoveAsked { job, node, by: Tick::arb(u)? },
            69 => {
                let ran = DurationMs::arb(u)?;
                Self::RunMoved { job, node, ran, paid: amount, refund: bounty }
            }
            70 => Self::GangBroken { job, node, paid: amount },
            71 => {
                let (nodes, expires) = Arb::arb(u)?;
                Self::JobAdjusted { job, pay: amount, nodes, expires, escrow: bounty }
            }
            number => step(u, number, node, job)?,
        })
    }
}

/// A step of a job, by the number of its event.
fn step(u: &mut Unstructured<'_>, number: u8, node: NodeId, job: JobId) -> Result<Event> {
    let round = u.arbitrary()?;
    Ok(match number {
        19 => Event::JobPlaced { job, node, run: round, deadline: Tick::arb(u)? },
        20 => Event::RunEnded { job, node, why: Reason::arb(u)? },
        21 => Event::ResultCommitted { job, node },
        22 => Event::ResultRevealed { job, node, result: RunResult::arb(u)? },
        23 => Event::CheckDrawn { job, node, round },
        51 => {
            let (result, by) = Arb::arb(u)?;
            Event::ResultProved { job, node, result, by }
        }
        24 => Event::ResultNotDrawn { job },
        25 => Event::CheckCommitted { job, node },
        26 => Event::CheckPassed { job, node },
        27 => Event::CheckMissed { job, node },
        29 => Event::DisputeAnswered { job, node, round },
        30 => Event::ClaimPicked { job, round, child: u.arbitrary()? },
        31 => {
            let (challenger, why) = Arb::arb(u)?;
            Event::DisputeEnded { job, challenger, why }
        }
        52 => Event::DefencePassed { job, deadline: Tick::arb(u)? },
        53 => Event::CheckRefused { job, node },
        54 => Event::TilesNotShown { job, node },
        55 => Event::KeyLacked { job, node },
        56 => Event::CheckExcused { job, node },
        _ => Event::RunsDisagreed { job },
    })
}

impl Arb for Genesis {
    fn arb(u: &mut Unstructured<'_>) -> Result<Self> {
        let params = Params::arb(u)?;
        let mut seats: Vec<ValidatorSeat> = some(u, 1, 3)?;
        for (number, seat) in (0_u8..).zip(&mut seats) {
            let secret = SecretKey::from_seed([number; 32]);
            seat.key = secret.public();
            seat.owner = secret.public().into();
            seat.stake = params.stake_min;
        }
        let mut allocations: Vec<(AccountId, Amount)> = some(u, 0, 3)?;
        allocations.sort();
        allocations.dedup_by_key(|(account, _)| *account);
        for (_, amount) in &mut allocations {
            *amount = Amount::constant(u.int_in_range(0..=1_000)?);
        }
        let spec = GenesisSpec {
            chain: ChainId::arb(u)?,
            kind: NetworkKind::arb(u)?,
            start: Tick::arb(u)?,
            validators: seats,
            allocations,
            treasury: Amount::constant(u.int_in_range(0..=1_000)?),
            group_key: Bytes::arb(u)?,
            polynomial: Bytes::arb(u)?,
            params,
        };
        Ok(Self::new(spec).expect("a genesis within all bounds"))
    }
}

/// At least `min` and at most `max` arbitrary values.
fn some<T: Arb>(u: &mut Unstructured<'_>, min: usize, max: usize) -> Result<Vec<T>> {
    let count = u.int_in_range(min..=max)?;
    (0..count).map(|_| T::arb(u)).collect()
}

/// A list of one to four items: long ones would use all randomness up.
fn few<T: Arb, const MAX: usize>(u: &mut Unstructured<'_>) -> Result<List<T, 1, MAX>> {
    Ok(List::new(some(u, 1, 4)?).expect("within the bounds"))
}

/// A list of at most two items.
fn fewer<T: Arb, const MAX: usize>(u: &mut Unstructured<'_>) -> Result<List<T, 0, MAX>> {
    Ok(List::new(some(u, 0, 2)?).expect("within the bounds"))
}

/// 1 to `max` of these letters.
fn letters(u: &mut Unstructured<'_>, alphabet: &[u8], max: usize) -> Result<String> {
    let count = u.int_in_range(1..=max)?;
    (0..count).map(|_| u.choose(alphabet).map(|letter| char::from(*letter))).collect()
}
