//! Arbitrary well-formed values of every type that has a canonical form.

use arbtest::arbitrary::{Result, Unstructured};
use tg_types::genesis::{Genesis, GenesisSpec, NetworkKind, ValidatorSeat};
use tg_types::merkle::{Peaks, Proof};
use tg_types::tx::{Action, Lane, NodeSet, Nonce, SignedTx, TxBody};
use tg_types::{
    AccountId, Address, Amount, BlockReceipt, Bps, Bytes, ChainId, Device, DeviceKind, DurationMs,
    Event, GenesisHash, Hash32, Header, HeaderDigest, Height, IdempotencyId, JobId, JobSpec,
    JobStatus, Kind, List, Name, NodeDescriptor, NodeId, Noun, Params, PublicKey, Reason, Receipt,
    SecretKey, Signature, StateKey, Status, Tick, TxId,
};

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
    DeviceKind: u => *u.choose(&[Self::Cpu, Self::Gpu])?;
    JobStatus: u => *u.choose(&[Self::Queued, Self::Cancelled, Self::Expired])?;
    NetworkKind: u => *u.choose(&[Self::Local, Self::Open])?;
    Kind: u => *u.choose(&[
        Self::Transaction, Self::Header, Self::Receipt, Self::BlockReceipt, Self::Genesis,
    ])?;
    Noun: u => *u.choose(&[
        Self::Totals, Self::Account, Self::Seen, Self::Stake, Self::Node, Self::Job, Self::Due,
        Self::Headers, Self::Beacon, Self::Log, Self::Params, Self::Validator, Self::Cursor,
        Self::Absence,
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
    };
    NodeDescriptor: u => Self {
        region: Name::arb(u)?,
        devices: List::arb(u)?,
        price_per_hour: Amount::arb(u)?,
    };
    JobSpec: u => Self {
        program: Hash32::arb(u)?,
        input: Hash32::arb(u)?,
        max_run_ms: DurationMs::arb(u)?,
        expires_after: DurationMs::arb(u)?,
        memory_mib_min: u.arbitrary()?,
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
    Params: u => Self {
        fee_floor_per_byte: Amount::arb(u)?,
        slash_bounty_bps: Bps::arb(u)?,
        block_tx_max: u.int_in_range(1..=1_000_000)?,
        seen_retention: DurationMs::new(u.int_in_range(1..=1_000_000)?),
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
        Ok(match u.int_in_range(1..=10)? {
            1 => {
                let (to, amount) = Arb::arb(u)?;
                Self::Transfer { to, amount, memo: Bytes::arb(u)? }
            }
            2 => Self::Stake { amount: Amount::arb(u)? },
            3 => Self::Unstake { amount: Amount::arb(u)? },
            4 => Self::RegisterNode { node: NodeId::arb(u)?, descriptor: NodeDescriptor::arb(u)? },
            5 => Self::ChangeNode { node: NodeId::arb(u)?, descriptor: NodeDescriptor::arb(u)? },
            6 => Self::LeaveNode { node: NodeId::arb(u)? },
            7 => Self::ReportAbsent { epoch: u.arbitrary()?, nodes: NodeSet::arb(u)? },
            8 => Self::SubmitJob { spec: JobSpec::arb(u)?, escrow: Amount::arb(u)? },
            9 => Self::CancelJob { job: JobId::arb(u)? },
            _ => Self::SubmitEvidence { evidence: Bytes::arb(u)? },
        })
    }
}

impl Arb for Event {
    fn arb(u: &mut Unstructured<'_>) -> Result<Self> {
        let (account, other) = (AccountId::arb(u)?, AccountId::arb(u)?);
        let (amount, bounty) = (Amount::arb(u)?, Amount::arb(u)?);
        let (node, job) = (NodeId::arb(u)?, JobId::arb(u)?);
        Ok(match u.int_in_range(1..=17)? {
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
            _ => Self::BeaconRecorded { height: Height::arb(u)?, beacon: Hash32::arb(u)? },
        })
    }
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

/// 1 to `max` of these letters.
fn letters(u: &mut Unstructured<'_>, alphabet: &[u8], max: usize) -> Result<String> {
    let count = u.int_in_range(1..=max)?;
    (0..count).map(|_| u.choose(alphabet).map(|letter| char::from(*letter))).collect()
}
