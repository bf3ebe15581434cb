//! The formats, byte for byte. These bytes are in stores and under hashes: a change here is a new
//! format, made by an explicit decision, not by regenerating the fixture.

use crate::common::{context, key, message, randomness};
use expect_test::{Expect, expect};
use tg_privacy::content::CHUNK_BYTES;
use tg_privacy::{Threshold, ThresholdSpec, combine, open_all, seal_all, split};
use tg_types::Encode;
use tg_types::hash::sha256;

/// Bytes in hex, 32 to a line.
fn check(bytes: &[u8], expected: &Expect) {
    let lines: Vec<String> = bytes.chunks(32).map(hex::encode).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn context_has_these_bytes() {
    check(
        &context().to_bytes(),
        &expect![[r#"
        9999999999999999999999999999999999999999999999999999999999999999
        8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c
        0111111111111111111111111111111111111111111111111111111111111111
        11"#]],
    );
}

#[test]
fn short_message_has_these_bytes() {
    let sealed = seal_all(&key(1), &context(), randomness(1), b"attack at dawn").expect("short");
    assert_eq!(**open_all(&key(1), &context(), &sealed).expect("sealed"), *b"attack at dawn");
    check(
        &sealed,
        &expect![[r#"
        01dfe7bd57355d78d79fcdac6a123a8100f9f2f8b55b3bb8c7bfaf69ccbe9436
        bb501b855a36dbd9a6e676a455055d0e0f5c9e70849e5bff75920635737306b5
        3114c5169aeb"#]],
    );
}

#[test]
fn empty_message_has_these_bytes() {
    let sealed = seal_all(&key(1), &context(), randomness(1), b"").expect("short");
    check(
        &sealed,
        &expect![[r#"
        01dfe7bd57355d78d79fcdac6a123a8100f9f2f8b55b3bb8c7bfaf69ccbe9436
        bb501b855a36dbd9eeefec5ffb5844ca0fbc7f96e81f8afe"#]],
    );
}

#[test]
fn message_of_three_chunks_has_this_hash() {
    let plain = message(2 * CHUNK_BYTES + 1000);
    let sealed = seal_all(&key(1), &context(), randomness(1), &plain).expect("short");
    check(
        &sha256(&[&plain]),
        &expect!["6fb8bb374247e06d02d1fa42341ce188fa048acffab79dec5562063fe3f048ac"],
    );
    check(
        &sha256(&[&sealed]),
        &expect!["4be5c5b23e32f2fb6bcc1403e266a52092ddad2cdbd53556461e2a7e31e65179"],
    );
}

#[test]
fn share_book_has_these_bytes_and_its_shares_these() {
    let threshold = Threshold::new(ThresholdSpec { needed: 3, of: 4 }).expect("a threshold");
    let (book, shares) = split(&key(1), threshold, randomness(1));
    assert!(combine(&book, &shares).is_ok());
    check(
        &book.to_bytes(),
        &expect![[r#"
        0103d79fcdac6a123a8100f9f2f8b55b3bb8c7bfaf69ccbe9436bb501b855a36
        dbd904d8e23e25de6859b1286ee7bf077c783ae04def79d5f77816b968cd9c3c
        6ee5bb1407fb5344684b087758e700add7e9fdcf5b888f1c31c0d233977b283e
        aa6bcc14e74b459e18688d459868bf1e97092bd3d78d45274b6348795b2f2140
        d55641f0d9653b9d49df8bd4713a540942347e0593019b99deccfc095a1de195
        82d37e"#]],
    );
    let exposed: Vec<String> = shares.iter().map(|share| hex::encode(*share.expose())).collect();
    expect![[r#"
        01f335ce3c8dac4c6485f9d60fdd5e96da1a4f46854f3a8cc869db667c7de77eb8
        022eb2dc6db8f3fdbd155852a6698a219841af4ec5ff740c7880b9d5dd6b91c24e
        03dc861350345eb0d891a085a8b5d5b6435ae10941b14f81b1e863b2a01777bdf7
        04323ddb81b60461a1354d128ed0d815f8428eb6e375e72b1e4736da3aab3d6807"#]]
    .assert_eq(&exposed.join("\n"));
}
