//! The formats, byte for byte. These bytes are on disks and under signatures: a change here is a
//! new format, made by an explicit decision, not by regenerating the fixture.

use crate::genesis::spec;
use expect_test::{Expect, expect};
use tg_types::tx::{OpenedCheck, OpenedResult, Sealed};
use tg_types::{
    AccountId, Action, Amount, BlockReceipt, Bytes, CheckAnswer, CheckpointPlan, CheckpointRef,
    Decode, Device, DeviceKind, Domain, DurationMs, Encode, Event, Features, Genesis, GenesisHash,
    Hash32, Header, HeaderDigest, Height, HostPart, IdempotencyId, JobId, JobSpec, KeyEscrow, Kind,
    Lane, List, Memo, Message, Needs, NodeDescriptor, NodeId, Nonce, PackageRef, Reason, Receipt,
    RegionAsk, ResultKey, RunFailure, RunResult, SeatSignature, SeatSignatures, SecretKey,
    SecretWeights, SignedTx, Status, Tick, Tier, TxBody, TxId, Voucher, Vouchers, Work,
};
use tg_types::{GpuAsk, MigSlices, Sharing};

/// The value's bytes in hex, 32 to a line, and that they decode to the value.
fn check<T: Encode + Decode + PartialEq + std::fmt::Debug>(
    value: &T,
    more: &str,
    expected: &Expect,
) {
    let bytes = value.to_bytes();
    assert_eq!(T::from_bytes(&bytes).as_ref(), Ok(value));
    let mut lines: Vec<String> = bytes.chunks(32).map(hex::encode).collect();
    lines.push(more.to_owned());
    expected.assert_eq(&lines.join("\n"));
}

fn domain() -> Domain {
    Domain {
        chain: "golden-1".parse().expect("a chain's name"),
        genesis: GenesisHash::new([0x99; 32]),
    }
}

fn account(number: u8) -> AccountId {
    SecretKey::from_seed([number; 32]).public().into()
}

fn signed(idempotency: Option<IdempotencyId>, action: Action) -> SignedTx {
    let body = TxBody {
        sender: account(1),
        lane: Lane::new(3).expect("a lane"),
        nonce: Nonce::new(0x0102_0304),
        expires: Height::new(500),
        fee: Amount::constant(2_000),
        idempotency,
        action,
    };
    body.sign(&SecretKey::from_seed([1; 32]), &domain())
}

#[test]
fn transfer_has_these_bytes_and_this_id() {
    let memo = Memo::new(b"invoice 7".to_vec()).expect("a short memo");
    let amount = Amount::constant(1_500_000_000);
    let idempotency = Some(IdempotencyId::new([0x44; 16]));
    let tx = signed(idempotency, Action::Transfer { to: account(2), amount, memo });
    check(
        &tx,
        &tx.id(&domain()).to_string(),
        &expect![[r#"
        01018a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f
        6f5c03000000000102030400000000000001f400000000000007d00144444444
        444444444444444444444444018139770ea87d175f56a35466c34c7ecccb8d8a
        91b4ee37a25df60f5b8fc9b3940000000059682f0009696e766f6963652037fe
        439b23aade158b609eacd485f1d02ef5a3ead2b226590cf261ad093047ec471c
        226c98f15e5cf298be9ef6750c3dce58e076e8aa6e32c691aa31f80c38d206
        c22097475d3d7c92d7ac30735cacded9749e9eaff4c6ece7a2e076faafe27705"#]],
    );
}

#[test]
fn node_registration_has_these_bytes_and_this_id() {
    let device = |kind, model: &str| Device {
        kind,
        model: model.parse().expect("a name"),
        memory_mib: 81_920,
        count: 8,
        features: Features::TENSOR_CORES.with(Features::ONNX),
        sharing: Sharing { mig: Some(MigSlices::Seven), shares: false },
    };
    let devices = vec![device(DeviceKind::Gpu, "H100"), device(DeviceKind::Cpu, "EPYC 9654")];
    let descriptor = NodeDescriptor {
        region: "eu-west".parse().expect("a name"),
        devices: List::new(devices).expect("two devices"),
        host: HostPart { cpu_milli: 96_000, memory_mib: 786_432 },
        price_per_hour: Amount::constant(2_000_000_000),
        price_per_tera: Amount::constant(3_000_000),
        slots: 16,
        is_open: true,
        closes: None,
    };
    let secret = SecretKey::from_seed([5; 32]);
    let node = NodeId::new(*secret.public().as_bytes());
    let consent = secret.sign(&domain(), Kind::NodeConsent, account(1).as_bytes());
    let tx = signed(None, Action::RegisterNode { node, descriptor, consent });
    check(
        &tx,
        &tx.id(&domain()).to_string(),
        &expect![[r#"
            01018a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f
            6f5c03000000000102030400000000000001f400000000000007d000046e7a1c
            dd29b0b78fd13af4c5598feff4ef2a97166e3ca6f2e4fbfccd80505bf1076575
            2d77657374020204483130300001400000080011010700010945505943203936
            3534000140000008001101070000017700000c00000000000077359400000000
            00002dc6c000100100ff1a1d98ad48b046184fefaa7c517caae074a0672aa89c
            b63383bedfe4a5470682022858f502183567fd14ffd21a7ab09752a2943fd166
            34085a5c91e6ca4e009a5b8d35575f9930f5ef6b8df8a693a9e972c2008b2d78
            09d64f739d0ed3b99ca57f1dd1bc79fe383082129ec6875bb5a6e7c0bcb3123c
            1c469b65effdaa5803
            fe597527ba5e79f7710c5127c335d7af147d7f62f53c86b5aa3985f35f044104"#]],
    );
}

/// A voucher of two seats for one package.
fn vouchers(id: Hash32, key_escrow: Option<KeyEscrow>) -> Vouchers {
    let packages = List::new(vec![PackageRef { id, bytes: 9, key_escrow }]).expect("one");
    let sign = |seat: u8| {
        let secret = SecretKey::from_seed([seat; 32]);
        SeatSignature::sign(&secret, &domain(), seat, &packages)
    };
    let signatures = SeatSignatures::new(vec![sign(1), sign(3)]).expect("two seats");
    List::new(vec![Voucher { packages, signatures }]).expect("one")
}

#[test]
fn jobs_have_these_bytes_and_this_id() {
    let hash = |byte| Hash32::new([byte; 32]);
    let tensor = JobSpec {
        work: Work::Tensor {
            program: hash(0x11),
            weights: hash(0x12),
            inputs: hash(0x13),
            salt: hash(0x14),
        },
        package: hash(0x14),
        package_bytes: 1_000_000,
        key_escrow: KeyEscrow::Validators,
        result_key: ResultKey { nonce: [0x16; 16], hash: hash(0x17) },
        needs: Needs {
            kind: Some(DeviceKind::Gpu),
            model: Some("H100".parse().expect("a name")),
            memory_mib_min: 40_000,
            features: Features::HALF_PRECISION,
            region: RegionAsk::Only { region: "eu-west".parse().expect("a name") },
            gpus: GpuAsk::Part { steps: 5, may_share: false },
            host: HostPart { cpu_milli: 2_500, memory_mib: 4_096 },
        },
        tier: Tier::Sync,
        pay: Amount::constant(70_000),
        run_max: DurationMs::MINUTE,
        expires_after: DurationMs::HOUR,
        promise: None,
        checkpoint: None,
        nodes: 1,
    };
    let opaque = JobSpec {
        work: Work::Opaque { task: hash(0x15) },
        needs: Needs::ANY,
        tier: Tier::Redundant { replicas: 3 },
        ..tensor.clone()
    };
    let promised =
        JobSpec { tier: Tier::Trusted, promise: Some(Tick::new(0x0102_0304)), ..opaque.clone() };
    let from = Some(CheckpointRef { package: hash(0x18), package_bytes: 7 });
    let checkpoint = Some(CheckpointPlan { every: DurationMs::MINUTE, from });
    let saved = JobSpec { tier: Tier::Trusted, checkpoint, ..opaque.clone() };
    let region = RegionAsk::Near { region: "eu-de".parse().expect("a name") };
    let needs = Needs { region, ..Needs::ANY };
    let gang = JobSpec { tier: Tier::Trusted, nodes: 4, needs, ..opaque.clone() };
    let specs = List::new(vec![tensor, opaque, promised, saved, gang]).expect("five jobs");
    let escrow_max = Amount::constant(900_000);
    let vouchers = vouchers(hash(0x14), Some(KeyEscrow::Validators));
    let tx = signed(None, Action::SubmitJobs { specs, escrow_max, vouchers });
    let id = tx.id(&domain());
    let jobs = [JobId::of(id, 0), JobId::of(id, 1)].map(|job| job.to_string());
    check(
        &tx,
        &format!("{id}\n{}", jobs.join("\n")),
        &expect![[r#"
            01018a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f
            6f5c03000000000102030400000000000001f400000000000007d00008050111
            1111111111111111111111111111111111111111111111111111111111111112
            1212121212121212121212121212121212121212121212121212121212121213
            1313131313131313131313131313131313131313131313131313131313131314
            1414141414141414141414141414141414141414141414141414141414141414
            1414141414141414141414141414141414141414141414141414141414141400
            000000000f424001161616161616161616161616161616161717171717171717
            1717171717171717171717171717171717171717171717170102010448313030
            00009c400002010765752d77657374020500000009c400001000030000000000
            011170000000000000ea60000000000036ee8000000102151515151515151515
            1515151515151515151515151515151515151515151515141414141414141414
            141414141414141414141414141414141414141414141400000000000f424001
            1616161616161616161616161616161617171717171717171717171717171717
            1717171717171717171717171717171700000000000000000000000000000000
            000004030000000000011170000000000000ea60000000000036ee8000000102
            1515151515151515151515151515151515151515151515151515151515151515
            1414141414141414141414141414141414141414141414141414141414141414
            00000000000f4240011616161616161616161616161616161617171717171717
            1717171717171717171717171717171717171717171717171700000000000000
            0000000000000000000000010000000000011170000000000000ea6000000000
            0036ee8001000000000102030400010215151515151515151515151515151515
            1515151515151515151515151515151514141414141414141414141414141414
            1414141414141414141414141414141400000000000f42400116161616161616
            1616161616161616161717171717171717171717171717171717171717171717
            1717171717171717170000000000000000000000000000000000000100000000
            00011170000000000000ea60000000000036ee800001000000000000ea600118
            1818181818181818181818181818181818181818181818181818181818181800
            0000000000000701021515151515151515151515151515151515151515151515
            1515151515151515151414141414141414141414141414141414141414141414
            14141414141414141400000000000f4240011616161616161616161616161616
            1616171717171717171717171717171717171717171717171717171717171717
            17170000000000000000020565752d6465000000000000000000010000000000
            011170000000000000ea60000000000036ee8000000400000000000dbba00101
            1414141414141414141414141414141414141414141414141414141414141414
            000000000000000901010201f9cec8e0628d4a4623fbded8251fc8095965dca2
            a5bdd7d48dae758f390b724525a631f6e5c503208643d3df8f0c2be465f1d343
            4a80a3addf07fd555b19ef0703be3da28d8a8e181ecdeffe19ad429e73144a53
            5ff2d89a952ac93c301b98d5c2653b5e5c36c0d8790a5862e2c0a311d4f5df3e
            258a0e6908fc9f60c092a25a0666e19d269131cec42437634e9638f3e1f50b91
            e58d37ddd36e8ffdf9422946693b9fb59c57e3f382f0acc8b939b59266f65e3f
            d1d2eb9feebb6a38851116cd0c
            d6278714cc3a08599756325e06c42cbf530bfac2868bf505e75a381c31483bdd
            d6278714cc3a08599756325e06c42cbf530bfac2868bf505e75a381c31483bdd
            d6278714cc3a0944504e05b9ad3f724f8c0355022302c447a4c8438876ea5a93"#]],
    );
}

/// Goal: what nodes sign before and after a run keeps its form. Method: one transaction of each,
/// with the seals that the openings belong to.
#[test]
fn reports_have_these_bytes() {
    let hash = |byte| Hash32::new([byte; 32]);
    let (node, job, salt) = (NodeId::new(*account(1).as_bytes()), JobId::new([0x21; 32]), [7; 32]);
    let result =
        RunResult { output: hash(0x22), trace: hash(0x23), package: hash(0x24), package_bytes: 9 };
    let answer = CheckAnswer::Key { trace: hash(0x23), key: hash(0x25) };
    let tiles = Bytes::new(vec![0x29; 5]).expect("short");
    let tiles = CheckAnswer::Tiles { trace: hash(0x23), tiles };
    let bytes = |bytes: &[u8]| bytes.to_vec();
    let actions = [
        Action::CommitResults {
            seals: List::new(vec![Sealed { job, seal: result.seal(&node, &salt) }]).expect("one"),
        },
        Action::RevealResults {
            results: List::new(vec![OpenedResult { job, result, salt }]).expect("one"),
            vouchers: vouchers(hash(0x24), None),
        },
        Action::GiveUp { job, failure: RunFailure::PackageWrong },
        Action::CommitChecks {
            seals: List::new(vec![Sealed { job, seal: answer.seal(&node, &salt) }]).expect("one"),
        },
        Action::RevealChecks {
            answers: List::new(vec![OpenedCheck { job, answer, salt }]).expect("one"),
        },
        Action::RevealChecks {
            answers: List::new(vec![OpenedCheck { job, answer: tiles, salt }]).expect("one"),
        },
        Action::Object { job },
        Action::AnswerDispute { job, answer: Bytes::new(bytes(b"answer")).expect("short") },
        Action::PickClaim { job, child: 3 },
        Action::JudgeDispute { job, evidence: Bytes::new(bytes(b"step")).expect("short") },
        Action::PutProgram {
            program: hash(0x26),
            piece: 1,
            pieces: 2,
            bytes: Bytes::new(bytes(b"piece")).expect("short"),
        },
        Action::CommitCapacity { root: hash(0x27) },
        Action::ShowCapacity { openings: Bytes::new(bytes(b"blocks")).expect("short") },
        Action::Complain { job, about: Message::Result, key: [0x28; 32] },
        Action::JudgeComplaint { job, opens: true },
        Action::ProveResult {
            job,
            result,
            cost: 0x0102_0304,
            shown: Bytes::new(bytes(b"shown")).expect("short"),
            vouchers: vouchers(hash(0x24), None),
        },
        Action::LackKey { job },
        Action::RegisterWeights {
            program: hash(0x26),
            weights: SecretWeights { root: hash(0x2a), proofs: 0x0102 },
            cost: 0x0102_0304,
            proof: Bytes::new(bytes(b"proof")).expect("short"),
        },
        Action::SaveCheckpoint {
            job,
            checkpoint: CheckpointRef { package: hash(0x24), package_bytes: 9 },
            vouchers: vouchers(hash(0x24), None),
        },
        Action::YieldRun { job, checkpoint: None, vouchers: List::default() },
    ];
    let mut lines = Vec::new();
    for action in actions {
        let encoded = action.to_bytes();
        assert_eq!(Action::from_bytes(&encoded).as_ref(), Ok(&action));
        lines.push(action.name().to_owned());
        lines.extend(encoded.chunks(32).map(hex::encode));
    }
    expect![[r#"
        CommitResults
        0c01212121212121212121212121212121212121212121212121212121212121
        21218be39236cca79fdef6431c4b75b5c23eb671e6134b7f928f7d3fe4cf3ca3
        b5e6
        RevealResults
        0d01212121212121212121212121212121212121212121212121212121212121
        2121222222222222222222222222222222222222222222222222222222222222
        2222232323232323232323232323232323232323232323232323232323232323
        2323242424242424242424242424242424242424242424242424242424242424
        2424000000000000000907070707070707070707070707070707070707070707
        0707070707070707070701012424242424242424242424242424242424242424
        2424242424242424242424240000000000000009000201398905e071993c689b
        ad3af4109bda22f81d034e4e768dc096274eca99c99d405508e0eb4c35eb7a27
        02bd331db499d4419418cd9e5da170a981b88d97a2440203ce6d6448612d3032
        3af06e0a94ee2178ae6650435d28c9359ddfd5ad83f7383a3752c12dbc75a116
        ec1b7d591b67ca28df0ef777232430a93bb6612b98a85903
        GiveUp
        0e21212121212121212121212121212121212121212121212121212121212121
        2103
        CommitChecks
        0f01212121212121212121212121212121212121212121212121212121212121
        2121ddbc955d9245623b71d12c6d3af7d2ca22a3d0841a40be47af9fa158793a
        4741
        RevealChecks
        1001212121212121212121212121212121212121212121212121212121212121
        2121012323232323232323232323232323232323232323232323232323232323
        2323232525252525252525252525252525252525252525252525252525252525
        2525250707070707070707070707070707070707070707070707070707070707
        070707
        RevealChecks
        1001212121212121212121212121212121212121212121212121212121212121
        2121022323232323232323232323232323232323232323232323232323232323
        2323230529292929290707070707070707070707070707070707070707070707
        070707070707070707
        Object
        1121212121212121212121212121212121212121212121212121212121212121
        21
        AnswerDispute
        1221212121212121212121212121212121212121212121212121212121212121
        2106616e73776572
        PickClaim
        1321212121212121212121212121212121212121212121212121212121212121
        2103
        JudgeDispute
        1421212121212121212121212121212121212121212121212121212121212121
        210473746570
        PutProgram
        0b26262626262626262626262626262626262626262626262626262626262626
        260102057069656365
        CommitCapacity
        1527272727272727272727272727272727272727272727272727272727272727
        27
        ShowCapacity
        1606626c6f636b73
        Complain
        1721212121212121212121212121212121212121212121212121212121212121
        2101282828282828282828282828282828282828282828282828282828282828
        2828
        JudgeComplaint
        1821212121212121212121212121212121212121212121212121212121212121
        2101
        ProveResult
        1921212121212121212121212121212121212121212121212121212121212121
        2122222222222222222222222222222222222222222222222222222222222222
        2223232323232323232323232323232323232323232323232323232323232323
        2324242424242424242424242424242424242424242424242424242424242424
        24000000000000000900000000010203040573686f776e010124242424242424
        2424242424242424242424242424242424242424242424242400000000000000
        09000201398905e071993c689bad3af4109bda22f81d034e4e768dc096274eca
        99c99d405508e0eb4c35eb7a2702bd331db499d4419418cd9e5da170a981b88d
        97a2440203ce6d6448612d30323af06e0a94ee2178ae6650435d28c9359ddfd5
        ad83f7383a3752c12dbc75a116ec1b7d591b67ca28df0ef777232430a93bb661
        2b98a85903
        LackKey
        1a21212121212121212121212121212121212121212121212121212121212121
        21
        RegisterWeights
        1c26262626262626262626262626262626262626262626262626262626262626
        262a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a
        2a010200000000010203040570726f6f66
        SaveCheckpoint
        1d21212121212121212121212121212121212121212121212121212121212121
        2124242424242424242424242424242424242424242424242424242424242424
        2400000000000000090101242424242424242424242424242424242424242424
        24242424242424242424240000000000000009000201398905e071993c689bad
        3af4109bda22f81d034e4e768dc096274eca99c99d405508e0eb4c35eb7a2702
        bd331db499d4419418cd9e5da170a981b88d97a2440203ce6d6448612d30323a
        f06e0a94ee2178ae6650435d28c9359ddfd5ad83f7383a3752c12dbc75a116ec
        1b7d591b67ca28df0ef777232430a93bb6612b98a85903
        YieldRun
        1e21212121212121212121212121212121212121212121212121212121212121
        210000"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn header_has_these_bytes_and_this_digest() {
    let header = Header {
        height: Height::new(7),
        tick: Tick::new(1_700_000_000_123),
        parent: HeaderDigest::new([1; 32]),
        proposer: account(3),
        payload: Hash32::new([2; 32]),
        state_root: Hash32::new([3; 32]),
        receipts_root: Hash32::new([4; 32]),
        log_root: Hash32::new([5; 32]),
    };
    check(
        &header,
        &header.digest(&domain()).to_string(),
        &expect![[r#"
        010200000000000000070000018bcfe5687b0101010101010101010101010101
        010101010101010101010101010101010101ed4928c628d1c2c6eae903389059
        95612959273a5c63f93636c14614ac8737d10202020202020202020202020202
        0202020202020202020202020202020202020303030303030303030303030303
        0303030303030303030303030303030303030404040404040404040404040404
        0404040404040404040404040404040404040505050505050505050505050505
        050505050505050505050505050505050505
        7fcf8bcc99afb770e799f887364b1958c81a7479fc9a39d24ce506d062f758d1"#]],
    );
}

#[test]
fn receipt_has_these_bytes() {
    let (owner, job) = (account(1), JobId::new([7; 32]));
    let applied = Receipt {
        tx: TxId::new([6; 32]),
        index: 258,
        status: Status::Applied,
        fee: Amount::constant(2_000),
        events: vec![
            Event::Transferred { from: owner, to: account(2), amount: Amount::constant(9) },
            Event::JobQueued { job, owner, escrow: Amount::constant(10) },
        ],
    };
    check(
        &applied,
        "",
        &expect![[r#"
        0103060606060606060606060606060606060606060606060606060606060606
        0606000001020100000000000007d002028a88e3dd7409f195fd52db2d3cba5d
        72ca6709bf1d94121bf3748801b40f6f5c8139770ea87d175f56a35466c34c7e
        cccb8d8a91b4ee37a25df60f5b8fc9b39400000000000000090b070707070707
        07070707070707070707070707070707070707070707070707078a88e3dd7409
        f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c000000000000
        000a
    "#]],
    );
    let status = Status::Failed(Reason::BalanceTooLow);
    let failed = Receipt { status, events: Vec::new(), ..applied };
    check(
        &failed,
        "",
        &expect![[r#"
        0103060606060606060606060606060606060606060606060606060606060606
        0606000001020200c800000000000007d000
    "#]],
    );
}

#[test]
fn block_receipt_has_these_bytes() {
    let amount = Amount::constant(11);
    let receipt = BlockReceipt {
        height: Height::new(7),
        events: vec![
            Event::Unbonded { account: account(1), amount },
            Event::BeaconRecorded { height: Height::new(5), beacon: Hash32::new([8; 32]) },
        ],
    };
    check(
        &receipt,
        "",
        &expect![[r#"
        0104000000000000000702058a88e3dd7409f195fd52db2d3cba5d72ca6709bf
        1d94121bf3748801b40f6f5c000000000000000b110000000000000005080808
        0808080808080808080808080808080808080808080808080808080808
    "#]],
    );
}

#[test]
fn genesis_has_these_bytes_and_this_hash() {
    let genesis = Genesis::new(spec()).expect("a good genesis");
    check(
        &genesis,
        &genesis.hash().to_string(),
        &expect![[r#"
            0105056c6f63616c010000018bcfe56800048139770ea87d175f56a35466c34c
            7ecccb8d8a91b4ee37a25df60f5b8fc9b39434b4d9043156cb6dcf0beb0a2949
            b7559c940d2bcb6dbe8c53a9b30278e3a74600000002540be4000e3132372e30
            2e302e313a343030328a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d9412
            1bf3748801b40f6f5cd62f016a1efd1e4fdf793eb42cd84471e1ba9f0cf04d12
            87b5cc71f616287cb800000002540be4000e3132372e302e302e313a34303031
            ca93ac1705187071d67b83c7ff0efe8108e8ec4530575d7726879333dbdabe7c
            54b0d81d0fa7d00e4a7d600dfaba6f2b22035b22fe335e17edf5f9aa5bb05074
            00000002540be4000e3132372e302e302e313a34303034ed4928c628d1c2c6ea
            e90338905995612959273a5c63f93636c14614ac8737d112a41592c8b7c17d40
            59e7b29b61e8ff96c7415f2f803348f2f017e05b9ea1da00000002540be4000e
            3132372e302e302e313a34303033038139770ea87d175f56a35466c34c7ecccb
            8d8a91b4ee37a25df60f5b8fc9b39400000000000007d08a88e3dd7409f195fd
            52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c00000000000003e8ed
            4928c628d1c2c6eae90338905995612959273a5c63f93636c14614ac8737d100
            00000000000bb800000000000001f460aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
            aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
            aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
            aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac001bbbbbbbbbbbbbbbbbbbbbbbbbbbb
            bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
            bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
            bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
            bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
            bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
            bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb000000000000000a138803e80000
            0000006ddd0000000002540be40003e801f4000000003b9aca00000000000000
            03e80000000005265c00000007d00028000000004e2000000000000027100000
            00000036ee80000000000000138800000fa000000000000003e8000000000036
            ee800000000000002710000000000000271000000000000027100403e8020703
            1b581b5800000010000000000803e813880000000000003a9800000000000013
            8800140014000000003b9aca00138800000000000f4240000000000000ea6000
            00100000000400000004000100000000000003e80000000005265c0000000000
            0036ee8000000000000075300000000005f5e1000064000000000000000a0000
            0000000186a000000000000186a00000000400200000020000000000004e2000
            0000000000271004080000040027100000000000002710000000000000271000
            00000000002710030000012c00000100
            c4531f212fa176b7e519fea26fb8a9be51ebbd24d03da76e33c3088e11ff12d2"#]],
    );
}

/// How a result of sealed data is asked for and shown.
#[test]
fn tier_of_sealed_data_has_these_bytes() {
    let (weights, inputs) = (Hash32::new([0x11; 32]), Hash32::new([0x22; 32]));
    let tier = Tier::Zk { weights, inputs, is_secret: true };
    check(
        &tier,
        "",
        &expect![[r#"
            0711111111111111111111111111111111111111111111111111111111111111
            1122222222222222222222222222222222222222222222222222222222222222
            2201
        "#]],
    );
    check(
        &tier.shown_by(3).expect("shown"),
        "",
        &expect![[r#"
            0311111111111111111111111111111111111111111111111111111111111111
            1122222222222222222222222222222222222222222222222222222222222222
            220301
        "#]],
    );
}
