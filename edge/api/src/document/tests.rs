//! Documents that agree with themselves, and files that do not. Whether signatures hold is tested
//! on files saved from a real network: `tests/fixtures`.

use super::{
    CertificateDocument, Document, DocumentError, FORMAT, NetworkDocument, ProofDocument,
    ReceiptDocument, VerifyError, verify,
};
use bytes::Bytes;
use serde_json::{Value, json};
use tg_chain::light::{CertifiedHeader, EntryProof, LightError, ProvenEntry, ReceiptProof};
use tg_ledger::{AccountEntry, keys};
use tg_types::{
    AccountId, Amount, Encode as _, Event, GenesisHash, Hash32, Header, HeaderDigest, Height,
    Reason, Receipt, SecretKey, Status, Tick, TxId, key::Domain, merkle,
};

const FIXTURES: [(&str, &str); 6] = [
    ("certificate", include_str!("../../tests/fixtures/certificate.json")),
    ("receipt", include_str!("../../tests/fixtures/receipt.json")),
    ("proof", include_str!("../../tests/fixtures/proof.json")),
    ("absence", include_str!("../../tests/fixtures/absence.json")),
    ("network", include_str!("../../tests/fixtures/network.json")),
    ("genesis", include_str!("../../tests/fixtures/genesis.json")),
];

fn fixture(name: &str) -> Document {
    let (_, text) = FIXTURES.iter().find(|(found, _)| *found == name).expect("a fixture");
    Document::read(text.as_bytes()).expect("a good file")
}

fn fixture_network() -> NetworkDocument {
    match fixture("network") {
        Document::Network(network) => *network,
        Document::Certificate(_) | Document::Proof(_) | Document::Receipt(_) => {
            panic!("another kind")
        }
    }
}

fn domain() -> Domain {
    Domain { chain: "test".parse().expect("a name"), genesis: GenesisHash::new([5; 32]) }
}

fn account(seed: u8) -> AccountId {
    SecretKey::from_seed([seed; 32]).public().into()
}

fn header(receipts_root: Hash32) -> Header {
    Header {
        height: Height::new(7),
        tick: Tick::new(1_700_000_000_123),
        parent: HeaderDigest::new([1; 32]),
        proposer: account(1),
        payload: Hash32::new([2; 32]),
        state_root: Hash32::new([3; 32]),
        receipts_root,
        log_root: Hash32::new([4; 32]),
    }
}

fn certificate() -> Document {
    let certified = CertifiedHeader {
        header: header(Hash32::new([6; 32])),
        certificate: Bytes::from_static(&[9; 48]),
    };
    Document::Certificate(CertificateDocument::new(&certified, &domain()))
}

fn proof(value: Option<Vec<u8>>) -> Document {
    let entry = ProvenEntry {
        state_root: Hash32::new([3; 32]),
        value: value.map(Bytes::from),
        proof: Bytes::from_static(&[8; 100]),
    };
    let key = keys::account(&account(2));
    let proof = EntryProof { header: header(Hash32::new([6; 32])), key, entry };
    let document = ProofDocument::new(&proof, &[9; 48], &domain()).expect("an account");
    Document::Proof(Box::new(document))
}

fn account_bytes() -> Vec<u8> {
    AccountEntry { balance: Amount::new(1_500_000_000).expect("small"), ..Default::default() }
        .to_bytes()
}

fn receipt(status: Status) -> Document {
    let amount = Amount::new(12_345).expect("small");
    let receipt = Receipt {
        tx: TxId::new([7; 32]),
        index: 1,
        status,
        fee: amount,
        events: vec![
            Event::Transferred { from: account(1), to: account(2), amount },
            Event::BeaconRecorded { height: Height::new(3), beacon: Hash32::new([1; 32]) },
        ],
    };
    let leaves = [b"first".to_vec(), receipt.to_bytes(), b"last".to_vec()];
    let path = merkle::Proof::prove(&leaves, 1).expect("a leaf");
    let proof = ReceiptProof { header: header(merkle::root(&leaves)), receipt, path };
    Document::Receipt(Box::new(ReceiptDocument::new(&proof, &[9; 48], &domain())))
}

fn all() -> Vec<Document> {
    vec![
        certificate(),
        proof(Some(account_bytes())),
        proof(None),
        receipt(Status::Applied),
        receipt(Status::Failed(Reason::BalanceTooLow)),
    ]
}

/// The bytes a document is about, without what people read.
fn truth(document: &Document) -> Vec<Vec<u8>> {
    match document {
        Document::Certificate(found) => {
            vec![found.header.bytes.0.clone(), found.certificate.0.clone()]
        }
        Document::Proof(found) => vec![
            found.header.bytes.0.clone(),
            found.certificate.0.clone(),
            found.proof.0.clone(),
            found.value.as_ref().map_or(Vec::new(), |value| value.0.clone()),
            vec![found.present.into()],
            found.key.bytes.0.as_bytes().to_vec(),
        ],
        Document::Receipt(found) => vec![
            found.header.bytes.0.clone(),
            found.certificate.0.clone(),
            found.receipt.bytes.0.clone(),
            found.path.bytes.0.clone(),
        ],
        Document::Network(found) => vec![found.group_key.0.clone()],
    }
}

#[test]
fn document_that_is_saved_and_read_is_the_same() {
    for document in all() {
        let text = document.write();
        assert_eq!(Document::read(text.as_bytes()).expect("good"), document);
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["kind"], document.kind());
        assert_eq!(value["format"], FORMAT);
    }
}

#[test]
fn readable_field_that_disagrees_is_named() {
    for (document, path, other, expected) in [
        (certificate(), "/header/height", json!(8), "header.height"),
        (certificate(), "/header/digest", json!("00".repeat(32)), "header.digest"),
        (certificate(), "/genesis", json!("00".repeat(32)), "header.digest"),
        (
            proof(Some(account_bytes())),
            "/entry/account/balance",
            json!("2"),
            "entry.account.balance",
        ),
        (proof(Some(account_bytes())), "/present", json!(false), "present"),
        (proof(Some(account_bytes())), "/entry", Value::Null, "entry"),
        (proof(None), "/entry", json!("opaque"), "entry"),
        (proof(None), "/key/noun", json!("stake"), "key.noun"),
        (receipt(Status::Applied), "/receipt/status", json!("failed"), "receipt.status"),
        (
            receipt(Status::Applied),
            "/receipt/events/0/sentence",
            json!("x"),
            "receipt.events.0.sentence",
        ),
        (
            receipt(Status::Applied),
            "/receipt/events/0/details/amount",
            json!("9"),
            "receipt.events.0.details.amount",
        ),
        (receipt(Status::Applied), "/path/count", json!(4), "path.count"),
    ] {
        let mut value = serde_json::to_value(&document).expect("JSON");
        *value.pointer_mut(path).expect("a field") = other;
        let error = Document::read(value.to_string().as_bytes()).expect_err("refused");
        assert!(
            matches!(&error, DocumentError::Disagreement { field } if field == expected),
            "{path}: {error:?}"
        );
    }
}

#[test]
fn unknown_or_repeated_field_is_refused() {
    for document in all() {
        let text = document.write();
        for more in ["\"extra\": 1,", "\"format\": 1,", "\"kind\": \"certificate\","] {
            let text = text.replacen('{', &format!("{{{more}"), 1);
            let error = Document::read(text.as_bytes()).expect_err("refused");
            assert!(matches!(error, DocumentError::Json(_)), "{more}: {error:?}");
        }
    }
}

#[test]
fn another_format_is_refused_with_a_sentence() {
    for document in all() {
        let text = document.write().replace("\"format\": 1", "\"format\": 2");
        let error = Document::read(text.as_bytes()).expect_err("refused");
        assert!(matches!(error, DocumentError::Format { found: 2 }), "{error:?}");
        assert!(error.to_string().contains("reads format 1 only"), "{error}");
        // Later formats may have other fields; the answer is the same.
        let error = Document::read(br#"{"kind": "dream", "format": 3, "x": []}"#);
        assert!(matches!(error, Err(DocumentError::Format { found: 3 })));
    }
}

#[test]
fn value_of_another_noun_is_refused() {
    let text = proof(Some(account_bytes())).write();
    let text = text.replace(&hex::encode(account_bytes()), "0011");
    let error = Document::read(text.as_bytes()).expect_err("refused");
    assert!(matches!(error, DocumentError::Bytes { field: "value", .. }), "{error:?}");
}

/// Goal: a file with a changed byte never says the same with other words, and never breaks the
/// reader. Method: every byte of every kind of document: the next letter, another case, no text.
#[test]
fn flipped_byte_is_seen_or_changes_the_truth() {
    for document in all() {
        let text = document.write();
        let truth_before = truth(&document);
        let mut bytes = text.into_bytes();
        for place in 0..bytes.len() {
            for mask in [0x01, 0x20, 0x80] {
                bytes[place] ^= mask;
                if let Ok(read) = Document::read(&bytes) {
                    let is_space = bytes[place].is_ascii_whitespace();
                    assert!(
                        (is_space && read == document) || truth(&read) != truth_before,
                        "byte {place} mask {mask}"
                    );
                }
                bytes[place] ^= mask;
            }
        }
    }
}

#[test]
fn prop_truncated_or_changed_files_never_break_the_reader() {
    let files: Vec<Vec<u8>> = all().iter().map(|document| document.write().into_bytes()).collect();
    arbtest::arbtest(|u| {
        let mut bytes = u.choose(&files)?.clone();
        bytes.truncate(u.int_in_range(0..=bytes.len())?);
        for _ in 0..u.int_in_range(0..=4)? {
            let place = u.choose_index(bytes.len().max(1))?;
            if let Some(byte) = bytes.get_mut(place) {
                *byte = u.arbitrary()?;
            }
        }
        let _refused_is_fine = Document::read(&bytes);
        let random: Vec<u8> = u.arbitrary()?;
        let _refused_is_fine = Document::read(&random);
        Ok(())
    });
}

#[test]
fn fixtures_hold_and_are_written_as_before() {
    let network = fixture_network();
    for (name, text) in FIXTURES {
        let document = fixture(name);
        assert_eq!(document.write(), text, "{name} is written in another way");
        let verified = verify(&document, &network).expect("holds");
        assert_eq!(verified.kind, document.kind());
        assert!(verified.sentences.iter().all(|line| line.ends_with('.')), "{verified}");
    }
}

#[test]
fn fixture_with_a_flipped_byte_does_not_hold() {
    let network = fixture_network();
    for (name, text) in FIXTURES.iter().take(4) {
        let document = fixture(name);
        let mut bytes = text.as_bytes().to_vec();
        for place in 0..bytes.len() {
            bytes[place] ^= 1;
            let read = Document::read(&bytes).ok();
            if read.is_some_and(|read| verify(&read, &network).is_ok()) {
                let read = Document::read(&bytes).expect("read before");
                assert!(read == document && bytes[place].is_ascii_whitespace(), "{name} {place}");
            }
            bytes[place] ^= 1;
        }
    }
}

#[test]
fn document_does_not_hold_in_another_network() {
    let document = fixture("certificate");
    let mut other = fixture_network();
    other.genesis.0 = GenesisHash::new([1; 32]);
    let refused = verify(&document, &other).expect_err("another genesis");
    assert!(matches!(refused, VerifyError::OtherNetwork { .. }), "{refused}");
    let mut broken = fixture_network();
    broken.group_key.0.clear();
    let refused = verify(&document, &broken).expect_err("no key");
    assert!(matches!(refused, VerifyError::Light(LightError::GroupKey)), "{refused}");
    let refused = verify(&certificate(), &fixture_network()).expect_err("another chain");
    assert!(matches!(refused, VerifyError::OtherNetwork { .. }), "{refused}");
}

#[test]
fn genesis_that_disagrees_with_its_network_is_refused() {
    let text = fixture("genesis").write();
    let text = text.replace("\"network\": \"local\"", "\"network\": \"open\"");
    let error = Document::read(text.as_bytes()).expect_err("refused");
    assert!(matches!(&error, DocumentError::Disagreement { field } if field == "network"));
}
