//! The published edge cases of Ed25519, below the door that refuses small-order keys, so that the
//! rule itself is seen; and what the door and the network's name add to it.

use super::{
    Batch, BatchItem, Domain, KeyPoints, Kind, PublicKey, SecretKey, Signature, verify_batch,
};
use super::{KeyError, SignatureError, is_small_order};
use crate::ids::GenesisHash;
use ed25519_zebra::{VerificationKey, VerificationKeyBytes};
use zeroize::ZeroizeOnDrop;

/// A signature as published: key, message and signature without a network.
struct Raw {
    key: [u8; 32],
    message: Vec<u8>,
    signature: Signature,
}

impl Raw {
    fn is_valid_alone(&self) -> bool {
        VerificationKey::try_from(self.key)
            .and_then(|key| key.verify(&self.signature.0.into(), &self.message))
            .is_ok()
    }
}

fn batch_of<'p>(raws: &[&Raw], points: &'p mut KeyPoints) -> Batch<'p> {
    let mut batch = Batch::new([7; 32], 0, points);
    for raw in raws {
        batch.push(&raw.key, &raw.message, &raw.signature);
    }
    batch
}

fn all_valid<'a>(raws: impl IntoIterator<Item = &'a Raw>) -> bool {
    let raws: Vec<&Raw> = raws.into_iter().collect();
    batch_of(&raws, &mut KeyPoints::default()).all_valid()
}

/// The verdicts on a batch, which are the same when its keys have been seen before.
fn verdicts<'a>(raws: impl IntoIterator<Item = &'a Raw>) -> Vec<bool> {
    let raws: Vec<&Raw> = raws.into_iter().collect();
    let mut points = KeyPoints::default();
    let first = batch_of(&raws, &mut points).verdicts();
    assert_eq!(batch_of(&raws, &mut points).verdicts(), first, "points are known now");
    first
}

fn bytes<const N: usize>(hex: &str) -> [u8; N] {
    hex::decode(hex).expect("test data is hex").try_into().expect("test data has the right size")
}

/// All fourteen encodings of the eight points of small order that ZIP-215 accepts.
fn small_order_encodings() -> Vec<[u8; 32]> {
    let ff = "ff".repeat(30);
    let zeros = "00".repeat(30);
    let order_8 = [
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    ];
    let others = [
        format!("00{zeros}00"),
        format!("00{zeros}80"),
        format!("01{zeros}00"),
        format!("01{zeros}80"),
        format!("ec{ff}7f"),
        format!("ec{ff}ff"),
        format!("ed{ff}7f"),
        format!("ed{ff}ff"),
        format!("ee{ff}7f"),
        format!("ee{ff}ff"),
    ];
    order_8.into_iter().map(bytes).chain(others.iter().map(|hex| bytes(hex))).collect()
}

/// The 196 cases of the ZIP-215 conformance tests (ed25519-zebra and ed25519-consensus): every pair
/// of small-order A and R with s = 0. All are valid under ZIP-215, few under any other rule.
fn small_order_cases() -> Vec<Raw> {
    let encodings = small_order_encodings();
    let mut cases = Vec::new();
    for key in &encodings {
        for r in &encodings {
            let mut signature = [0; 64];
            signature[..32].copy_from_slice(r);
            let signature = Signature::new(signature);
            cases.push(Raw { key: *key, message: b"Zcash".to_vec(), signature });
        }
    }
    cases
}

/// The twelve vectors of "Taming the many EdDSAs" (Chalkias, Garillot, Nikolaenko, 2020): message,
/// key, signature, and whether ZIP-215 accepts it. 6 and 7 have s >= l; 8 is made for a verifier
/// that hashes R in reduced form, 9 for one that hashes it as it came.
const TAMING: [(&str, &str, &str, bool); 12] = [
    (
        "8c93255d71dcab10e8f379c26200f3c7bd5f09d9bc3068d3ef4edeb4853022b6",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a\
         0000000000000000000000000000000000000000000000000000000000000000",
        true,
    ),
    (
        "9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43\
         a5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04",
        true,
    ),
    (
        "aebf3f2601a0c8c5d39cc7d8911642f740b78168218da8471772b35f9d35b9ab",
        "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa\
         8c4bd45aecaca5b24fb97bc10ac27ac8751a7dfe1baff8b953ec9f5833ca260e",
        true,
    ),
    (
        "9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79",
        "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
        "9046a64750444938de19f227bb80485e92b83fdb4b6506c160484c016cc1852f\
         87909e14428a7a1d62e9f22f3d3ad7802db02eb2e688b6c52fcd6648a98bd009",
        true,
    ),
    (
        "e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c",
        "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
        "160a1cb0dc9c0258cd0a7d23e94d8fa878bcb1925f2c64246b2dee1796bed512\
         5ec6bc982a269b723e0668e540911a9a6a58921d6925e434ab10aa7940551a09",
        true,
    ),
    (
        "e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c",
        "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
        "21122a84e0b5fca4052f5b1235c80a537878b38f3142356b2c2384ebad4668b7\
         e40bc836dac0f71076f9abe3a53f9c03c1ceeeddb658d0030494ace586687405",
        true,
    ),
    (
        "85e241a07d148b41e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec40",
        "442aad9f089ad9e14647b1ef9099a1ff4798d78589e66f28eca69c11f582a623",
        "e96f66be976d82e60150baecff9906684aebb1ef181f67a7189ac78ea23b6c0e\
         547f7690a0e2ddcd04d87dbc3490dc19b3b3052f7ff0538cb68afb369ba3a514",
        false,
    ),
    (
        "85e241a07d148b41e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec40",
        "442aad9f089ad9e14647b1ef9099a1ff4798d78589e66f28eca69c11f582a623",
        "8ce5b96c8f26d0ab6c47958c9e68b937104cd36e13c33566acd2fe8d38aa1942\
         7e71f98a473474f2f13f06f97c20d58cc3f54b8bd0d272f42b695dd7e89a8c22",
        false,
    ),
    (
        "9bedc267423725d473888631ebf45988bad3db83851ee85c85e241a07d148b41",
        "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\
         03be9678ac102edcd92b0210bb34d7428d12ffc5df5f37e359941266a4e35f0f",
        false,
    ),
    (
        "9bedc267423725d473888631ebf45988bad3db83851ee85c85e241a07d148b41",
        "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\
         ca8c5b64cd208982aa38d4936621a4775aa233aa0505711d8fdcfdaa943d4908",
        true,
    ),
    (
        "e96b7021eb39c1a163b6da4e3093dcd3f21387da4cc4572be588fafae23c155b",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "a9d55260f765261eb9b84e106f665e00b867287a761990d7135963ee0a7d59dc\
         a5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04",
        true,
    ),
    (
        "39a591f5321bbe07fd5a23dc2f39d025d74526615746727ceefd6e82ae65c06f",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "a9d55260f765261eb9b84e106f665e00b867287a761990d7135963ee0a7d59dc\
         a5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04",
        true,
    ),
];

fn taming_cases() -> Vec<(Raw, bool)> {
    let read = |&(message, key, signature, is_valid): &(&str, &str, &str, bool)| {
        let message = hex::decode(message).expect("test data is hex");
        (Raw { key: bytes(key), message, signature: Signature::new(bytes(signature)) }, is_valid)
    };
    TAMING.iter().map(read).collect()
}

#[test]
fn small_order_signatures_are_valid_alone_and_in_a_batch() {
    let cases = small_order_cases();
    assert_eq!(cases.len(), 196);
    for case in &cases {
        assert!(case.is_valid_alone());
        assert!(all_valid([case]));
        assert!(all_valid([case, case]));
    }
    assert!(all_valid(&cases));
    assert_eq!(verdicts(&cases), [true; 196]);
}

#[test]
fn taming_vectors_have_the_published_verdicts_alone_and_in_a_batch() {
    let cases = taming_cases();
    for (case, expected) in &cases {
        assert_eq!(case.is_valid_alone(), *expected);
        assert_eq!(all_valid([case]), *expected);
        assert_eq!(all_valid([case, case]), *expected);
    }
    let expected: Vec<bool> = cases.iter().map(|(_, expected)| *expected).collect();
    assert_eq!(verdicts(cases.iter().map(|(case, _)| case)), expected);
}

#[test]
fn edge_cases_among_each_other_keep_their_verdicts() {
    let small_order = small_order_cases();
    let taming = taming_cases();
    let mixed: Vec<&Raw> =
        small_order.iter().step_by(13).chain(taming.iter().map(|(case, _)| case)).collect();
    let expected: Vec<bool> = mixed.iter().map(|case| case.is_valid_alone()).collect();
    assert!(!all_valid(mixed.iter().copied()));
    assert_eq!(verdicts(mixed), expected);
}

#[test]
fn key_of_small_order_is_refused() {
    for encoding in small_order_encodings() {
        assert_eq!(PublicKey::new(encoding), Err(KeyError::SmallOrder));
    }
    for (case, _) in taming_cases() {
        assert_eq!(PublicKey::new(case.key).is_err(), is_small_order(&case.key));
    }
}

/// Goal: the list of small-order encodings is complete. Method: with s = 0 and R the identity, the
/// equation of ZIP-215 holds exactly if [8][k]A = 0, that is if A is of small order; ask it about
/// every encoding with y >= p, both signs, and about the eight canonical points.
#[test]
fn small_order_list_agrees_with_the_equation() {
    let mut candidates = small_order_encodings();
    for low in 0xed..=0xff_u8 {
        for high in [0x7f, 0xff] {
            let mut encoding = [0xff; 32];
            encoding[0] = low;
            encoding[31] = high;
            candidates.push(encoding);
        }
    }
    for seed in 0..32 {
        candidates.push(*SecretKey::from_seed([seed; 32]).public().as_bytes());
    }
    let mut identity = [0; 64];
    identity[0] = 1;
    for key in candidates {
        let signature = Signature::new(identity);
        let raw = Raw { key, message: b"any".to_vec(), signature };
        assert_eq!(is_small_order(&key), raw.is_valid_alone(), "{}", hex::encode(key));
    }
}

#[test]
fn key_off_the_curve_is_refused() {
    let mut off_curve = [0; 32];
    off_curve[0] = 2;
    assert_eq!(PublicKey::new(off_curve), Err(KeyError::NotAPoint));
    let raw = Raw { key: off_curve, message: vec![], signature: Signature::new([0; 64]) };
    assert_eq!(verdicts([&raw]), [false]);
    assert_eq!(verdicts([&raw, &raw]), [false, false]);
}

/// RFC 8032, section 7.1, tests 1 and 3.
#[test]
fn signature_of_the_rfc_vectors_is_reproduced() {
    let check = |seed: &str, key: &str, message: &str, signature: &str| {
        let secret = SecretKey::from_seed(bytes(seed));
        assert_eq!(*secret.public().as_bytes(), bytes(key));
        let message = hex::decode(message).expect("test data is hex");
        assert_eq!(*secret.sign_opened(&message).as_bytes(), bytes(signature));
    };
    check(
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155\
         5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    );
    check(
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac\
         18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    );
}

fn domain(chain: &str, genesis: u8) -> Domain {
    Domain {
        chain: chain.parse().expect("test chains have valid names"),
        genesis: GenesisHash::new([genesis; 32]),
    }
}

#[test]
fn signature_counts_only_for_its_network_kind_and_message() {
    let secret = SecretKey::from_seed([1; 32]);
    let here = domain("here", 1);
    let signature = secret.sign(&here, Kind::Transaction, b"message");
    let check =
        |domain: Domain, kind: Kind, message: &[u8], expected: Result<(), SignatureError>| {
            let key = secret.public();
            assert_eq!(key.verify(&domain, kind, message, &signature), expected);
            let item = BatchItem { key, kind, message, signature };
            assert_eq!(verify_batch(&domain, &[item, item], [0; 32]), expected);
        };
    check(here, Kind::Transaction, b"message", Ok(()));
    check(domain("there", 1), Kind::Transaction, b"message", Err(SignatureError));
    check(domain("here", 2), Kind::Transaction, b"message", Err(SignatureError));
    check(here, Kind::Header, b"message", Err(SignatureError));
    check(here, Kind::Transaction, b"messag", Err(SignatureError));
    check(here, Kind::Transaction, b"message ", Err(SignatureError));
    let other = SecretKey::from_seed([2; 32]).public();
    let verdict = other.verify(&here, Kind::Transaction, b"message", &signature);
    assert_eq!(verdict, Err(SignatureError));
}

/// Goal: no message of one network is the message of another. Method: chain names of which one is
/// the beginning of the other, with bodies that would make up the difference.
#[test]
fn messages_of_different_networks_are_never_equal() {
    let mut seen = std::collections::BTreeSet::new();
    for chain in ["a", "aa", "aaa"] {
        for genesis in [b'a', b'b'] {
            for kind in [Kind::Transaction, Kind::Header] {
                for body in [&b""[..], b"a", b"aa", b"aaa"] {
                    assert!(seen.insert(domain(chain, genesis).message(kind, body)));
                }
            }
        }
    }
}

#[test]
fn secret_is_not_shown_and_wiped_when_dropped() {
    fn is_wiped<T: ZeroizeOnDrop>(_: &T) {}
    let secret = SecretKey::from_seed([0xab; 32]);
    is_wiped(&secret);
    let shown = format!("{secret:?} {secret:#?}");
    assert!(shown.starts_with("SecretKey(secret of PublicKey("), "{shown}");
    assert!(!shown.contains("abab") && !shown.contains("171"), "{shown}");
    assert_eq!(*secret.expose_seed(), [0xab; 32]);
}

/// Goal: batches say of each signature what the single check says, whatever the seed. Method:
/// random sizes and keys, some keys twice, random damage to key, signature or message.
#[test]
fn prop_batch_agrees_with_single_checks() {
    let secrets: Vec<SecretKey> = (0..6).map(|seed| SecretKey::from_seed([seed; 32])).collect();
    arbtest::arbtest(|u| {
        let mut raws = Vec::new();
        for _ in 0..u.int_in_range(0..=24)? {
            let secret = u.choose(&secrets)?;
            let message: Vec<u8> = u.arbitrary()?;
            let mut signature = *secret.sign_opened(&message).as_bytes();
            let mut key: [u8; 32] = VerificationKeyBytes::from(*secret.public().as_bytes()).into();
            match u.int_in_range(0..=9)? {
                0 => signature[u.choose_index(64)?] ^= 1 << u.int_in_range(0..=7)?,
                1 => key[u.choose_index(32)?] ^= 1 << u.int_in_range(0..=7)?,
                2 => signature = u.arbitrary()?,
                _ => (),
            }
            raws.push(Raw { key, message, signature: Signature::new(signature) });
        }
        let singles: Vec<bool> = raws.iter().map(Raw::is_valid_alone).collect();
        let mut points = KeyPoints::default();
        let mut batch = Batch::new(u.arbitrary()?, raws.len(), &mut points);
        for raw in &raws {
            batch.push(&raw.key, &raw.message, &raw.signature);
        }
        assert_eq!(batch.verdicts(), singles);
        assert_eq!(all_valid(&raws), singles.iter().all(|is_valid| *is_valid));
        Ok(())
    });
}

#[test]
fn points_are_bounded_and_found_again() {
    let keys: Vec<[u8; 32]> =
        (0..4).map(|seed| *SecretKey::from_seed([seed; 32]).public().as_bytes()).collect();
    let mut known = KeyPoints::default();
    for key in &keys {
        assert!(known.point(key).is_some());
    }
    let mut kept = KeyPoints::default();
    kept.keep(&known);
    assert_eq!(kept.find(keys.iter().take(2)).len(), 2);
    assert_eq!(kept.find([[9; 32]].iter()).len(), 0);
    assert_eq!(kept.point(&bytes(&format!("02{}", "00".repeat(31)))), None, "not on the curve");
    let point = kept.point(&keys[0]).expect("known");
    let many = (0..u64::try_from(KeyPoints::MOST).expect("small")).map(|number| {
        let mut key = [0xff; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        (key, point)
    });
    kept.keep(&KeyPoints(many.collect()));
    assert!(kept.len() <= KeyPoints::MOST);
}
