//! The formats, byte for byte. These bytes are on disks and under signatures: a change here is a
//! new format, made by an explicit decision, not by regenerating the fixture.

use crate::genesis::spec;
use expect_test::{Expect, expect};
use tg_types::{
    AccountId, Action, Amount, BlockReceipt, Decode, Device, DeviceKind, Domain, Encode, Event,
    Genesis, GenesisHash, Hash32, Header, HeaderDigest, Height, IdempotencyId, JobId, Lane, List,
    Memo, NodeDescriptor, NodeId, Nonce, Reason, Receipt, SecretKey, SignedTx, Status, Tick,
    TxBody, TxId,
};

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
    };
    let devices = vec![device(DeviceKind::Gpu, "H100"), device(DeviceKind::Cpu, "EPYC 9654")];
    let descriptor = NodeDescriptor {
        region: "eu-west".parse().expect("a name"),
        devices: List::new(devices).expect("two devices"),
        price_per_hour: Amount::constant(2_000_000_000),
    };
    let node = NodeId::new([0x55; 32]);
    let tx = signed(None, Action::RegisterNode { node, descriptor });
    check(
        &tx,
        &tx.id(&domain()).to_string(),
        &expect![[r#"
        01018a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f
        6f5c03000000000102030400000000000001f400000000000007d00004555555
        5555555555555555555555555555555555555555555555555555555555076575
        2d77657374020204483130300001400000080109455059432039363534000140
        0000080000000077359400b3ef9246cdd0c86a200f85abdfbc9a9a19672b7584
        84c8c2181092997e8dd702488bcd072f9456afabd5252243eb94e1a5b2771b14
        af14a237469ca895215d05
        eaafc54ab60c3f949359b49ae09bd50bacf54dbe326a3bdd93fb0a61d913971d"#]],
    );
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
            00000000ea6000000002540be40003e801f4000000003b9aca00000000000000
            27100000000005265c00000007d00010000000004e2000000000000027100000
            00000036ee80000000000000138800000fa0
            46e21e2b91cb673b1d1d8d51212175188efa9083f1bebe05cfd01b31ab2d5da7"#]],
    );
}
