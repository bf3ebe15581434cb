//! Bytes that mean something, but are not the one form of it.

use tg_types::codec::{DecodeError, Reader, encode_length};
use tg_types::merkle::{Peaks, Proof};
use tg_types::tx::{
    Action, Adjustment, ArrayTasks, JOBS_PER_TX_MAX, Lane, Memo, NodeSet, Nonce, OpenedCheck,
    OpenedResult, REPORTS_PER_TX_MAX, Sealed, SignedTx, TX_BYTES_MAX, TxBody,
};
use tg_types::{
    AccountId, Amount, Bytes, CheckAnswer, CheckpointRef, Decode, Device, DeviceKind, DurationMs,
    Encode, Features, Hash32, Header, Height, HostPart, IdempotencyId, JobId, JobSpec, KeyError,
    KeyEscrow, List, Message, Name, Needs, NodeDescriptor, NodeId, PackageRef, Receipt, RegionAsk,
    ResultKey, RunFailure, RunResult, SeatSignature, SeatSignatures, SecretKey, SecretWeights,
    Signature, Tick, Tier, Voucher, Vouchers, Work,
};
use tg_types::{GpuAsk, MigSlices, Sharing};

fn transfer() -> SignedTx {
    let account = AccountId::from(SecretKey::from_seed([1; 32]).public());
    SignedTx {
        body: TxBody {
            sender: account,
            lane: Lane::FIRST,
            nonce: Nonce::new(2),
            expires: Height::new(3),
            fee: Amount::constant(4),
            idempotency: None,
            action: Action::Transfer {
                to: account,
                amount: Amount::constant(5),
                memo: Memo::new(vec![6, 7]).expect("a short memo"),
            },
        },
        signature: Signature::new([8; 64]),
    }
}

// Where the pieces of `transfer()` start.
const SENDER: usize = 2;
const LANE: usize = SENDER + 32;
const FEE: usize = LANE + 1 + 8 + 8;
const OPTION: usize = FEE + 8;
const ACTION: usize = OPTION + 1;
const MEMO: usize = ACTION + 1 + 32 + 8;

/// Replaces the bytes at `at` and expects this error.
#[track_caller]
fn check(at: usize, replaced: usize, by: &[u8], expected: &DecodeError) {
    let mut bytes = transfer().to_bytes();
    bytes.splice(at..at + replaced, by.iter().copied());
    assert_eq!(SignedTx::from_bytes(&bytes).as_ref(), Err(expected));
}

#[test]
fn transaction_of_another_format_or_kind_is_refused() {
    check(0, 1, &[2], &DecodeError::Version { at: 0, found: 2, supported: 1 });
    check(0, 1, &[0], &DecodeError::Version { at: 0, found: 0, supported: 1 });
    check(1, 1, &[2], &DecodeError::Tag { at: 1, found: 2, expected: "Transaction" });
    let bytes = transfer().to_bytes();
    assert!(matches!(Header::from_bytes(&bytes), Err(DecodeError::Tag { at: 1, .. })));
    assert!(matches!(Receipt::from_bytes(&bytes), Err(DecodeError::Tag { at: 1, .. })));
}

#[test]
fn transaction_with_a_field_out_of_range_is_refused() {
    let small_order = DecodeError::Key { at: LANE, source: KeyError::SmallOrder };
    check(SENDER, 32, &[0; 32], &small_order);
    check(LANE, 1, &[8], &DecodeError::Range { at: LANE + 1, expected: "lane below 8" });
    let expected = "amount of at most 21000000000000000 base units";
    check(FEE, 8, &[0xff; 8], &DecodeError::Range { at: OPTION, expected });
}

#[test]
fn transaction_with_an_unknown_tag_is_refused() {
    check(OPTION, 1, &[2], &DecodeError::Tag { at: OPTION, found: 2, expected: "flag (0 or 1)" });
    check(ACTION, 1, &[0], &DecodeError::Tag { at: ACTION, found: 0, expected: "Action" });
    check(ACTION, 1, &[32], &DecodeError::Tag { at: ACTION, found: 32, expected: "Action" });
}

#[test]
fn memo_with_a_length_of_another_form_is_refused() {
    check(MEMO, 1, &[0x82, 0x00], &DecodeError::LengthForm { at: MEMO });
    check(MEMO, 1, &[0x82, 0x80, 0x00], &DecodeError::LengthForm { at: MEMO });
    check(MEMO, 1, &[0x82, 0x80, 0x80, 0x80, 0x10], &DecodeError::LengthForm { at: MEMO });
    check(MEMO, 1, &[0x82, 0x80, 0x80, 0x80, 0x80, 0x00], &DecodeError::LengthForm { at: MEMO });
}

#[test]
fn memo_beyond_its_bound_is_refused() {
    let long = |found| DecodeError::Length { at: MEMO, found, min: 0, max: 64 };
    check(MEMO, 1, &[65], &long(65));
    check(MEMO, 1, &[0xff, 0xff, 0xff, 0xff, 0x0f], &long(u32::MAX as usize));
}

/// The largest descriptor: 16 devices with the longest names.
fn large_descriptor() -> NodeDescriptor {
    let model = long_name();
    let features = Features::ONNX;
    let sharing = Sharing { mig: Some(MigSlices::Seven), shares: true };
    let kind = DeviceKind::Gpu;
    let device = Device { kind, model, memory_mib: 1, count: 1, features, sharing };
    NodeDescriptor {
        region: long_name(),
        devices: List::new(vec![device; 16]).expect("16 devices"),
        host: HostPart { cpu_milli: u32::MAX, memory_mib: u32::MAX },
        price_per_hour: Amount::CAP,
        price_per_tera: Amount::CAP,
        slots: 64,
        is_open: true,
        closes: None,
    }
}

fn long_name() -> Name {
    "x".repeat(64).parse().expect("a name")
}

/// The largest spec: a tensor program with every need.
fn large_spec() -> JobSpec {
    let hash = Hash32::new([1; 32]);
    JobSpec {
        work: Work::Tensor { program: hash, weights: hash, inputs: hash, salt: hash },
        package: hash,
        package_bytes: u64::MAX,
        key_escrow: KeyEscrow::None,
        result_key: ResultKey { nonce: [2; 16], hash },
        needs: Needs {
            kind: Some(DeviceKind::Cpu),
            model: Some(long_name()),
            memory_mib_min: u32::MAX,
            features: Features::NONE,
            region: RegionAsk::Only { region: long_name() },
            gpus: GpuAsk::Part { steps: 1, may_share: true },
            host: HostPart { cpu_milli: u32::MAX, memory_mib: u32::MAX },
        },
        tier: Tier::Redundant { replicas: 4 },
        pay: Amount::CAP,
        run_max: DurationMs::MAX,
        expires_after: DurationMs::MAX,
        promise: Some(Tick::MAX),
        checkpoint: None, // a command may have some, and is shorter
        nodes: 1,
    }
}

/// So many vouchers of these many packages, each signed by these many seats.
fn vouchers(count: usize, packages: usize, seats: u8) -> Vouchers {
    let package =
        PackageRef { id: Hash32::new([1; 32]), bytes: u64::MAX, key_escrow: Some(KeyEscrow::None) };
    let signature = Signature::new([6; 64]);
    let signatures = (0..seats).map(|seat| SeatSignature { seat, signature }).collect();
    let voucher = Voucher {
        packages: List::new(vec![package; packages]).expect("at most 32"),
        signatures: SeatSignatures::new(signatures).expect("different seats"),
    };
    List::new(vec![voucher; count]).expect("at most 8")
}

/// The seats of a network for which the longest lists and full vouchers fit a transaction.
const SEATS: u8 = 16;

/// Every action at its largest.
fn large_actions() -> Vec<Action> {
    let (node, job, seal) = (NodeId::new([1; 32]), JobId::new([2; 32]), Hash32::new([3; 32]));
    let account = AccountId::from(SecretKey::from_seed([1; 32]).public());
    let (descriptor, salt) = (large_descriptor(), [4; 32]);
    let nodes: Vec<NodeId> = (0..=255).map(|number| NodeId::new([number; 32])).collect();
    let result = RunResult { output: seal, trace: seal, package: seal, package_bytes: u64::MAX };
    let answer = CheckAnswer::Key { trace: seal, key: seal };
    let tiles = CheckAnswer::Tiles { trace: seal, tiles: full() };
    let seals = || List::new(vec![Sealed { job, seal }; REPORTS_PER_TX_MAX]).expect("64 seals");
    let results = vec![OpenedResult { job, result, salt }; REPORTS_PER_TX_MAX];
    let answers = vec![OpenedCheck { job, answer, salt }; REPORTS_PER_TX_MAX];
    let tiles = vec![OpenedCheck { job, answer: tiles, salt }];
    let specs = vec![large_spec(); JOBS_PER_TX_MAX];
    let consent = Signature::new([5; 64]);
    vec![
        Action::Transfer { to: account, amount: Amount::CAP, memo: full() },
        Action::Stake { amount: Amount::CAP },
        Action::Unstake { amount: Amount::CAP },
        Action::RegisterNode { node, descriptor: descriptor.clone(), consent },
        Action::ChangeNode { node, descriptor },
        Action::LeaveNode { node },
        Action::ReportAbsent { epoch: 1, nodes: NodeSet::new(nodes).expect("256 nodes") },
        Action::SubmitJobs {
            specs: List::new(specs).expect("32"),
            escrow_max: Amount::CAP,
            vouchers: vouchers(1, JOBS_PER_TX_MAX, SEATS),
        },
        Action::CancelJob { job },
        Action::SubmitEvidence { evidence: full() },
        Action::PutProgram { program: seal, piece: 31, pieces: 32, bytes: full() },
        Action::CommitResults { seals: seals() },
        Action::RevealResults {
            results: List::new(results).expect("64 results"),
            vouchers: vouchers(2, REPORTS_PER_TX_MAX / 2, SEATS),
        },
        Action::GiveUp { job, failure: RunFailure::Declined },
        Action::CommitChecks { seals: seals() },
        Action::RevealChecks { answers: List::new(answers).expect("64 answers") },
        Action::RevealChecks { answers: List::new(tiles).expect("one") },
        Action::Object { job },
        Action::AnswerDispute { job, answer: full() },
        Action::PickClaim { job, child: 15 },
        Action::JudgeDispute { job, evidence: full() },
        Action::CommitCapacity { root: seal },
        Action::ShowCapacity { openings: full() },
        Action::Complain { job, about: Message::Result, key: salt },
        Action::JudgeComplaint { job, opens: true },
        Action::ProveResult {
            job,
            result,
            cost: u64::MAX,
            shown: full(),
            vouchers: vouchers(1, 1, SEATS),
        },
        Action::LackKey { job },
        Action::SubmitArray {
            spec: large_spec(),
            tasks: ArrayTasks { first: u32::MAX - 255, count: 256 },
            escrow_max: Amount::CAP,
            vouchers: vouchers(1, 1, SEATS),
        },
        Action::RegisterWeights {
            program: seal,
            weights: SecretWeights { root: seal, proofs: u16::MAX },
            cost: u64::MAX,
            proof: full(),
        },
        Action::SaveCheckpoint {
            job,
            checkpoint: CheckpointRef { package: seal, package_bytes: u64::MAX },
            vouchers: vouchers(1, 1, SEATS),
        },
        Action::YieldRun {
            job,
            checkpoint: Some(CheckpointRef { package: seal, package_bytes: u64::MAX }),
            vouchers: vouchers(1, 1, SEATS),
        },
        Action::AdjustJob {
            job,
            change: Adjustment {
                pay: Some(Amount::CAP),
                expires: Some(Tick::MAX),
                nodes: Some(u8::MAX),
            },
            escrow_max: Amount::CAP,
        },
    ]
}

/// As many bytes as there may be.
fn full<const MAX: usize>() -> Bytes<MAX> {
    Bytes::new(vec![0xff; MAX]).expect("the most there may be")
}

#[test]
fn largest_transaction_of_every_action_fits_the_bound() {
    let actions = large_actions();
    let mut tags: Vec<u8> = actions.iter().map(Action::tag).collect();
    tags.dedup(); // answers of checkers have two forms
    assert_eq!(tags, (1..=31).collect::<Vec<u8>>(), "every action once");
    for action in actions {
        let mut tx = transfer();
        tx.body.idempotency = Some(IdempotencyId::new([9; 16]));
        tx.body.action = action;
        let bytes = tx.to_bytes();
        let (name, max) = (tx.body.action.name(), tx.body.action.tx_bytes_max());
        assert!(bytes.len() <= max, "{name} has {}", bytes.len());
        assert_eq!(SignedTx::from_bytes(&bytes), Ok(tx));
    }
}

/// Goal: vouchers cannot blow a transaction up. Method: eight vouchers fit, full ones of all seats
/// do not, and neither does a ninth.
#[test]
fn transaction_beyond_the_bound_is_refused() {
    let with = |vouchers| {
        let specs = List::new(vec![large_spec()]).expect("one");
        let mut tx = transfer();
        tx.body.action = Action::SubmitJobs { specs, escrow_max: Amount::CAP, vouchers };
        tx
    };
    let fits = with(vouchers(8, 1, SEATS));
    assert_eq!(SignedTx::from_bytes(&fits.to_bytes()), Ok(fits));
    let bytes = with(vouchers(8, 32, 100)).to_bytes();
    let found = bytes.len();
    let refused = SignedTx::from_bytes(&bytes);
    assert!(
        matches!(refused, Err(DecodeError::Length { at: 0, found: it, max: TX_BYTES_MAX, .. })
            if it == found),
        "{refused:?}"
    );
    let mut nine = vec![9];
    nine.extend(vouchers(1, 1, 1).as_slice()[0].to_bytes().repeat(9));
    let length = DecodeError::Length { at: 0, found: 9, min: 0, max: 8 };
    assert_eq!(Vouchers::from_bytes(&nine), Err(length));
}

#[test]
fn lists_of_reports_and_jobs_beyond_their_bounds_are_refused() {
    let sealed = Sealed { job: JobId::new([2; 32]), seal: Hash32::new([3; 32]) };
    let encoded = |tag: u8, count: usize, item: &[u8]| {
        let mut bytes = vec![tag];
        encode_length(count, &mut bytes);
        bytes.extend(item.repeat(count));
        Action::from_bytes(&bytes)
    };
    let length = |found, max| Err(DecodeError::Length { at: 1, found, min: 1, max });
    for tag in [12, 15] {
        assert!(encoded(tag, 64, &sealed.to_bytes()).is_ok());
        assert_eq!(encoded(tag, 65, &sealed.to_bytes()), length(65, 64));
        assert_eq!(encoded(tag, 0, &[]), length(0, 64));
    }
    assert_eq!(encoded(13, 65, &[0; 168]), length(65, 64));
    assert_eq!(encoded(16, 65, &[0; 128]), length(65, 64));
    assert_eq!(encoded(8, 33, &large_spec().to_bytes()), length(33, 32));
    assert_eq!(encoded(8, 0, &[]), length(0, 32));
}

#[test]
fn nodes_out_of_order_or_repeated_are_refused() {
    let encoded = |numbers: &[u8]| {
        let mut bytes = Vec::new();
        encode_length(numbers.len(), &mut bytes);
        bytes.extend(numbers.iter().flat_map(|number| [*number; 32]));
        NodeSet::from_bytes(&bytes).map(|nodes| nodes.as_slice().len())
    };
    let order =
        |count: usize| Err(DecodeError::Order { at: 1 + 32 * count, expected: "nodes by id" });
    assert_eq!(encoded(&[1, 2, 3]), Ok(3));
    assert_eq!(encoded(&[1, 3, 2]), order(3));
    assert_eq!(encoded(&[1, 1]), order(2));
    assert_eq!(encoded(&[]), Err(DecodeError::Length { at: 0, found: 0, min: 1, max: 256 }));
    let many = encoded(&[0; 257]);
    assert_eq!(many, Err(DecodeError::Length { at: 0, found: 257, min: 1, max: 256 }));
}

#[test]
fn list_longer_than_the_input_is_refused_before_reading() {
    let mut bytes = Vec::new();
    encode_length(200, &mut bytes);
    bytes.extend([0; 64]);
    let expected = DecodeError::Truncated { at: 2, needed: 200 * 32, left: 64 };
    assert_eq!(NodeSet::from_bytes(&bytes), Err(expected));
}

#[test]
fn merkle_forms_that_cannot_be_are_refused() {
    let proof = |index: u64, count: u64| {
        Proof::from_bytes(&[index.to_be_bytes(), count.to_be_bytes()].concat())
    };
    assert!(proof(0, 1).is_ok());
    assert!(matches!(proof(1, 1), Err(DecodeError::Range { .. })));
    assert!(matches!(proof(0, 0), Err(DecodeError::Range { .. })));
    assert!(matches!(proof(0, u64::MAX), Err(DecodeError::Range { .. })));
    assert!(matches!(proof(0, 1 << 48), Err(DecodeError::Truncated { .. })));
    let peaks = Peaks::from_bytes(&u64::MAX.to_be_bytes());
    assert!(matches!(peaks, Err(DecodeError::Range { .. })));
}

/// Goal: a length has one form. Method: all inputs of up to three bytes, and the edges of each
/// size.
#[test]
fn every_short_length_is_minimal_or_refused() {
    let check = |bytes: &[u8]| {
        let mut reader = Reader::new(bytes);
        if let Ok(length) = reader.length(0, usize::MAX) {
            let mut again = Vec::new();
            encode_length(length, &mut again);
            assert_eq!(again, bytes[..reader.position()]);
        }
    };
    for number in 0..1_u32 << 24 {
        let [_, bytes @ ..] = number.to_be_bytes();
        check(&bytes);
    }
    for length in [0, 0x7f, 0x80, 0x3fff, 0x4000, 0x1f_ffff, 0x20_0000, 0xfff_ffff, 0x1000_0000] {
        let mut bytes = Vec::new();
        encode_length(length, &mut bytes);
        assert_eq!(Reader::new(&bytes).length(0, usize::MAX), Ok(length));
    }
    let largest = [0xff, 0xff, 0xff, 0xff, 0x0f];
    assert_eq!(Reader::new(&largest).length(0, usize::MAX), Ok(u32::MAX as usize));
}

#[test]
fn error_names_position_and_expectation() {
    let mut bytes = transfer().to_bytes();
    bytes[ACTION] = 99;
    let error = SignedTx::from_bytes(&bytes).expect_err("an unknown action");
    assert_eq!(error.to_string(), format!("byte {ACTION} is 99, which is no Action"));
}
