//! Documents saved from a running node and checked offline.

use crate::{
    submitting::pay,
    world::{World, account},
};
use std::path::Path;
use tg_api::{
    Client, ClientError, Document, NetworkDocument, VerifyError, rpc::RpcError, rpc::code, verify,
    view::EntryView,
};
use tg_chain::light::{LightClient, LightError};
use tg_ledger::keys;
use tg_types::{Height, NodeId, TxId};

fn network(world: &World) -> NetworkDocument {
    NetworkDocument::new(&world.genesis)
}

/// Saves, reads and verifies a document, and gives what was shown.
fn check(world: &World, document: &Document) -> Vec<String> {
    let read = Document::read(document.write().as_bytes()).expect("agrees with itself");
    assert_eq!(&read, document);
    verify(&read, &network(world)).expect("holds").sentences
}

pub(crate) fn receipt_document_is_verified_offline(world: &World) {
    let mut client = world.client();
    let tx = pay(world, 210);
    let document = client.receipt(tx).expect("receipt");
    let (proof, certificate) = document.content().expect("agrees with itself");
    assert_eq!(proof.receipt.tx, tx);
    let light = LightClient::of(&world.genesis).expect("a group key");
    assert_eq!(light.check_receipt(&proof, &certificate), Ok(()));
    let sentences = check(world, &Document::Receipt(Box::new(document)));
    assert!(sentences.iter().any(|line| line.contains("paid 1 TGRID to")), "{sentences:?}");
}

pub(crate) fn proof_documents_are_verified_offline(world: &World) {
    let mut client = world.client();
    pay(world, 211);
    let document = client.prove(keys::account(&account(211))).expect("proof");
    assert!(matches!(&document.entry, Some(EntryView::Account(found)) if
        found.balance.to_string() == "1"));
    let sentences = check(world, &Document::Proof(Box::new(document)));
    assert!(sentences.contains(&"The balance is 1 TGRID.".to_owned()), "{sentences:?}");

    let owner = world.genesis.validators()[0].owner;
    for key in [keys::stake(&owner), keys::totals(), keys::cursor(), keys::params()] {
        let document = client.prove(key).expect("proof");
        assert!(document.present);
        check(world, &Document::Proof(Box::new(document)));
    }
    for key in [keys::node(&NodeId::new([3; 32])), keys::account(&account(251))] {
        let document = client.prove(key).expect("proof");
        assert!(!document.present && document.entry.is_none() && document.value.is_none());
        let sentences = check(world, &Document::Proof(Box::new(document)));
        assert!(sentences.iter().any(|line| line.contains("holds no")), "{sentences:?}");
    }
}

pub(crate) fn certificate_document_is_verified_offline(world: &World) {
    let mut client = world.client();
    for height in [None, Some(Height::new(1)), Some(Height::new(2))] {
        let document = client.certificate(height).expect("certificate");
        assert!(height.is_none_or(|height| document.header.height.0 == height));
        assert!(document.certificate.0.len() <= 200);
        check(world, &Document::Certificate(document));
    }
    let whole = client.genesis().expect("genesis");
    check(world, &Document::Network(Box::new(whole)));
}

pub(crate) fn documents_of_another_network_are_refused(world: &World) {
    let mut client = world.client();
    let document = Document::Certificate(client.certificate(None).expect("certificate"));
    let mut other = network(world);
    other.chain = tg_api::text::Text("other".parse().expect("a chain id"));
    let refused = verify(&document, &other).expect_err("another network");
    assert!(matches!(refused, VerifyError::OtherNetwork { .. }), "{refused}");
    let mut other = network(world);
    let key = client.genesis().expect("genesis").group_key;
    other.group_key.0 = vec![0; key.0.len()];
    let refused = verify(&document, &other).expect_err("another key");
    assert!(matches!(refused, VerifyError::Light(LightError::GroupKey)), "{refused}");
}

/// All files one could save, small ones first.
fn files(world: &World, client: &mut Client) -> Vec<(&'static str, Document)> {
    let tx = pay(world, 212);
    let proof =
        |client: &mut Client, key| Document::Proof(Box::new(client.prove(key).expect("proof")));
    vec![
        ("certificate", Document::Certificate(client.certificate(None).expect("certificate"))),
        ("receipt", Document::Receipt(Box::new(client.receipt(tx).expect("receipt")))),
        ("proof", proof(client, keys::account(&account(212)))),
        ("absence", proof(client, keys::account(&account(252)))),
    ]
}

/// Goal: no file with a changed byte is accepted. Method: every byte of every file gets its lowest
/// bit flipped.
pub(crate) fn files_with_a_flipped_byte_are_refused(world: &World) {
    let mut client = world.client();
    let network = network(world);
    for (name, document) in files(world, &mut client) {
        let mut bytes = document.write().into_bytes();
        for place in 0..bytes.len() {
            bytes[place] ^= 1;
            let outcome = Document::read(&bytes).map(|read| (verify(&read, &network), read));
            if let Ok((Ok(_), read)) = outcome {
                assert_eq!(read, document, "{name}: byte {place} was flipped unseen");
                assert!(bytes[place].is_ascii_whitespace(), "{name}: byte {place}");
            }
            bytes[place] ^= 1;
        }
    }
}

pub(crate) fn unknown_things_are_named(world: &World) {
    let mut client = world.client();
    let error = |outcome: Result<(), ClientError>| -> RpcError {
        match outcome {
            Err(ClientError::Rpc(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let found = error(client.receipt(TxId::new([9; 32])).map(|_| ()));
    assert_eq!((found.code, found.data.code.as_str()), (code::UNKNOWN, "unknown"));
    assert!(found.data.hint.contains("expired"), "{found:?}");
    let far = Some(Height::new(1 << 40));
    assert_eq!(error(client.certificate(far).map(|_| ())).code, code::UNKNOWN);
    assert_eq!(error(client.block(far).map(|_| ())).code, code::UNKNOWN);
}

/// Writes one file of each kind for the tests that need no network.
pub(crate) fn write_fixtures(world: &World) {
    let mut client = world.client();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut all = files(world, &mut client);
    all.push(("network", Document::Network(Box::new(network(world)))));
    all.push(("genesis", Document::Network(Box::new(client.genesis().expect("genesis")))));
    for (name, document) in all {
        std::fs::write(folder.join(format!("{name}.json")), document.write()).expect("written");
    }
}
