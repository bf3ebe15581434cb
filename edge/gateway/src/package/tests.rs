//! Packages: who can open them, and what becomes of those that are not whole.

use super::{
    Holders, PACKAGE_BYTES_MAX, Package, PackageError, Parts, Results, Seal, TensorInputs,
    WeightsSecret, Whose, check_memory,
};
use crate::stream::Plain;
use std::io::{self, Read, Write};
use tg_privacy::{ContentKey, Randomness, Share, WrapSecret};
use tg_types::{
    AccountId, Decode as _, Encode as _, GenesisHash, JobId, KeyEscrow, SecretKey, Tier,
};

fn random() -> impl FnMut() -> [u8; 32] {
    let mut number = 0_u8;
    move || {
        number += 1;
        [number; 32]
    }
}

fn whose(number: u8) -> Whose {
    let owner = AccountId::from(SecretKey::from_seed([number; 32]).public());
    Whose { genesis: GenesisHash::new([9; 32]), owner }
}

/// Four seats, of which so many are given shares.
fn validators(holding: usize) -> (Vec<WrapSecret>, Holders) {
    let secrets: Vec<WrapSecret> = (1..=4).map(|n| WrapSecret::from_seed([n; 32])).collect();
    let keys = secrets.iter().take(holding).map(|secret| secret.public().clone());
    let keys = keys.enumerate().collect();
    (secrets, Holders { keys, seats: 4 })
}

fn sealed(seal: Seal, plain: &dyn Plain) -> Vec<u8> {
    let bytes = seal.bytes(plain).expect("small");
    let mut package = Vec::new();
    seal.write(plain, &mut package).expect("into memory");
    assert_eq!(package.len() as u64, bytes);
    package
}

fn inputs(holders: &Holders) -> Vec<u8> {
    let seal = Seal::inputs(&whose(1), holders, random()).expect("a quorum holds");
    sealed(seal, &b"numbers".to_vec())
}

fn output(to: &WrapSecret) -> Vec<u8> {
    let seal = Seal::output(&whose(1), to.public(), random()).expect("a seal");
    sealed(seal, &b"a two".to_vec())
}

fn open_inputs(package: &[u8], key: &ContentKey, of: &Whose) -> Result<Vec<u8>, PackageError> {
    let mut package = package;
    let head = Package::read(&mut package)?;
    let mut plain = Vec::new();
    head.open_inputs(key, of, package)?.read_to_end(&mut plain)?;
    Ok(plain)
}

fn open_output(package: &[u8], to: &WrapSecret, of: &Whose) -> Result<Vec<u8>, PackageError> {
    let mut package = package;
    let head = Package::read(&mut package)?;
    let mut plain = Vec::new();
    head.open_output(to, of, package)?.read_to_end(&mut plain)?;
    Ok(plain)
}

#[test]
fn inputs_open_with_a_quorum_of_shares_and_not_with_fewer() {
    let (secrets, holders) = validators(4);
    let package = inputs(&holders);
    let head = Package::read(&mut package.as_slice()).expect("a head");
    let genesis = whose(1).genesis;
    let share = |seat: usize| head.share_of((seat, &secrets[seat]), genesis).expect("ours");
    let shares: Vec<Share> = (1..4).map(share).collect();
    let key = head.key_of(&shares).expect("three of four");
    assert!(head.is_key(&key) && !head.is_key(&ContentKey::new([0; 32])));
    assert_eq!(open_inputs(&package, &key, &whose(1)).expect("the key"), b"numbers");
    assert!(matches!(head.key_of(&shares[1..]), Err(PackageError::Combine(_))));
    let other = open_inputs(&package, &key, &whose(2)).expect_err("of another");
    assert!(other.is_wrong(), "{other}");
    let stranger = head.share_of((0, &WrapSecret::from_seed([9; 32])), genesis);
    assert!(matches!(stranger, Err(PackageError::NoShare)));
}

/// Goal: seats that are gone while a package is sealed make it no easier to open.
#[test]
fn inputs_for_fewer_holders_need_as_many_shares() {
    let (secrets, holders) = validators(3);
    let package = inputs(&holders);
    let head = Package::read(&mut package.as_slice()).expect("a head");
    let share = |seat: usize| head.share_of((seat, &secrets[seat]), whose(1).genesis);
    let shares: Vec<Share> = (0..3).map(|seat| share(seat).expect("ours")).collect();
    let key = head.key_of(&shares).expect("three of three");
    assert_eq!(open_inputs(&package, &key, &whose(1)).expect("opens"), b"numbers");
    assert!(head.key_of(&shares[1..]).is_err());
    assert!(matches!(share(3), Err(PackageError::NoShare)));
    let other = head.share_of((1, &secrets[0]), whose(1).genesis);
    assert!(matches!(other, Err(PackageError::NoShare)), "the share of another seat");
    let (_, few) = validators(2);
    let refused = Seal::inputs(&whose(1), &few, random());
    assert!(matches!(refused.err(), Some(PackageError::Threshold(_))));
}

fn owned(key: [u8; 32]) -> Vec<u8> {
    let seal = Seal::owned(&whose(1), ContentKey::new(key), Randomness::new([5; 32]));
    sealed(seal.expect("a seal"), &b"numbers".to_vec())
}

#[test]
fn inputs_that_their_owner_keeps_open_with_its_key_and_validators_have_none() {
    let package = owned([3; 32]);
    let head = Package::read(&mut package.as_slice()).expect("a head");
    assert_eq!(head.escrow(), Some(KeyEscrow::None));
    let (key, other) = (ContentKey::new([3; 32]), ContentKey::new([4; 32]));
    assert!(head.is_key(&key) && !head.is_key(&other));
    assert_eq!(open_inputs(&package, &key, &whose(1)).expect("the key"), b"numbers");
    assert!(open_inputs(&package, &other, &whose(1)).expect_err("another key").is_wrong());
    assert!(open_inputs(&package, &key, &whose(2)).expect_err("of another").is_wrong());
    let (secrets, _) = validators(4);
    for secret in &secrets {
        let share = head.share_of((0, secret), whose(1).genesis);
        assert!(matches!(share, Err(PackageError::Kind)));
    }
    assert!(matches!(head.key_of(&[]), Err(PackageError::Kind)));
    assert!(matches!(open_output(&package, &secrets[0], &whose(1)), Err(PackageError::Kind)));
}

#[test]
fn head_of_owned_inputs_is_read_back_and_nothing_else_is() {
    let head = Package::read(&mut owned([3; 32]).as_slice()).expect("a head");
    let bytes = head.to_bytes();
    assert_eq!(Package::from_bytes(&bytes), Ok(head));
    for length in 0..bytes.len() {
        assert!(Package::from_bytes(&bytes[..length]).is_err(), "{length} bytes");
    }
    assert!(Package::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
    let kind = [&bytes[..64], &[4], &bytes[65..]].concat();
    assert!(Package::from_bytes(&kind).is_err(), "no such kind");
}

/// Goal: a head that commits to another key than its content opens with neither.
#[test]
fn owned_inputs_with_a_forged_commitment_do_not_open() {
    let (mut package, forged) = (owned([3; 32]), ContentKey::new([4; 32]));
    // Behind the length, whose it is, and the kind of its lock.
    let (true_key, place) = (ContentKey::new([3; 32]), 4 + 64 + 1);
    package[place..place + 32].copy_from_slice(forged.commitment().hash().as_bytes());
    let head = Package::read(&mut package.as_slice()).expect("a head");
    assert!(head.is_key(&forged) && !head.is_key(&true_key));
    assert!(open_inputs(&package, &forged, &whose(1)).expect_err("is another").is_wrong());
}

/// The same package with another's name in its head.
fn renamed(package: &[u8], whose: Whose) -> Vec<u8> {
    let mut sealed = package;
    let head = Package { whose, ..Package::read(&mut sealed).expect("a head") };
    [&crate::stream::head_bytes(&head).expect("short")[..], sealed].concat()
}

/// Goal: whoever copies another's package under its own name gets nothing of it. Method: the head
/// is rewritten, all else is kept: no validator finds a share, and with the key itself, in the old
/// name or the new one, nothing opens.
#[test]
fn package_that_was_renamed_has_no_share_and_does_not_open() {
    let (secrets, holders) = validators(4);
    let package = inputs(&holders);
    let head = Package::read(&mut package.as_slice()).expect("a head");
    let share =
        |seat: usize| head.share_of((seat, &secrets[seat]), whose(1).genesis).expect("ours");
    let key = head.key_of(&[share(0), share(1), share(2)]).expect("three");
    let elsewhere = Whose { genesis: GenesisHash::new([8; 32]), ..whose(1) };
    for (thief, copy) in [whose(2), elsewhere].map(|it| (it, renamed(&package, it))) {
        let stolen = Package::read(&mut copy.as_slice()).expect("a head");
        assert_eq!(stolen.whose, thief);
        for ours in secrets.iter().enumerate() {
            assert!(stolen.share_of(ours, thief.genesis).is_err());
            assert!(stolen.share_of(ours, whose(1).genesis).is_err());
        }
        for reader in [whose(1), thief] {
            assert!(open_inputs(&copy, &key, &reader).expect_err("renamed").is_wrong());
        }
    }
    assert_eq!(open_inputs(&package, &key, &whose(1)).expect("is the owner's"), b"numbers");
}

#[test]
fn renamed_result_does_not_open() {
    let client = WrapSecret::from_seed([7; 32]);
    let copy = renamed(&output(&client), whose(2));
    for reader in [whose(1), whose(2)] {
        assert!(open_output(&copy, &client, &reader).expect_err("renamed").is_wrong());
    }
    let refused = open_output(&copy, &client, &whose(1));
    assert!(matches!(refused, Err(PackageError::Whose)));
}

#[test]
fn output_opens_for_the_client_alone() {
    let client = WrapSecret::from_seed([7; 32]);
    let package = output(&client);
    assert_eq!(open_output(&package, &client, &whose(1)).expect("ours"), b"a two");
    let stranger = open_output(&package, &WrapSecret::from_seed([8; 32]), &whose(1));
    assert!(matches!(stranger, Err(PackageError::Unwrap(_))));
    let kind = open_inputs(&package, &ContentKey::new([0; 32]), &whose(1));
    assert!(matches!(kind, Err(PackageError::Kind)));
    assert!(open_output(&package, &client, &whose(2)).expect_err("of another").is_wrong());
}

#[test]
fn prop_truncated_extended_or_changed_packages_never_open() {
    let client = WrapSecret::from_seed([7; 32]);
    let package = output(&client);
    arbtest::arbtest(|u| {
        let mut changed = package.clone();
        let at = u.choose_index(changed.len())?;
        match u.int_in_range(0..=2)? {
            0 => changed.truncate(at),
            1 => changed[at] ^= 1 << u.int_in_range(0..=7)?,
            _ => changed.push(u.arbitrary()?),
        }
        let refused = open_output(&changed, &client, &whose(1)).expect_err("is another");
        assert!(refused.is_wrong(), "{refused}");
        Ok(())
    });
}

/// Says that it has so many bytes and writes so many.
struct Odd {
    stated: u64,
    written: usize,
}

impl Plain for Odd {
    fn bytes(&self) -> u64 {
        self.stated
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&vec![0; self.written])
    }
}

#[test]
fn content_is_bounded_and_has_the_length_it_states() {
    let client = WrapSecret::from_seed([7; 32]);
    let seal = || Seal::output(&whose(1), client.public(), random()).expect("a seal");
    for stated in [PACKAGE_BYTES_MAX, u64::MAX] {
        let refused = seal().bytes(&Odd { stated, written: 0 });
        assert!(matches!(refused, Err(PackageError::TooLarge { .. })), "{refused:?}");
    }
    assert!(seal().bytes(&Odd { stated: PACKAGE_BYTES_MAX - (1 << 27), written: 0 }).is_ok());
    for written in [4, 6] {
        let refused = seal().write(&Odd { stated: 5, written }, &mut io::sink());
        assert!(matches!(refused, Err(PackageError::Length { stated: 5, .. })), "{refused:?}");
    }
}

fn written(plain: &dyn Plain) -> Vec<u8> {
    let mut out = Vec::new();
    plain.write(&mut out).expect("into memory");
    assert_eq!(out.len() as u64, plain.bytes());
    out
}

fn result_of(package: &[u8], job: &JobId) -> Result<Option<Vec<u8>>, PackageError> {
    let mut from = package;
    Results::read(&mut from, job, |part| {
        let mut found = Vec::new();
        part.read_to_end(&mut found)?;
        Ok(found)
    })
}

#[test]
fn results_are_found_by_their_jobs_and_read_to_their_end() {
    let job = |number: u8| JobId::new([number; 32]);
    let one = |number: u8, plain: Vec<u8>| (job(number), Box::new(plain) as Box<dyn Plain>);
    let results = Results::new(vec![one(1, vec![1]), one(2, Vec::new()), one(4, vec![5; 9])]);
    let package = written(&results.expect("few"));
    assert_eq!(result_of(&package, &job(1)).expect("reads"), Some(vec![1]));
    assert_eq!(result_of(&package, &job(2)).expect("reads"), Some(Vec::new()));
    assert_eq!(result_of(&package, &job(4)).expect("reads"), Some(vec![5; 9]));
    assert_eq!(result_of(&package, &job(3)).expect("reads"), None);
    let short = result_of(&package[..package.len() - 1], &job(1)).expect_err("cut off");
    assert!(short.is_wrong());
    let long = result_of(&[&package[..], &[0]].concat(), &job(1));
    assert!(matches!(long, Err(PackageError::Trailing)));
    let many = (0..=Results::COUNT_MAX).map(|_| one(1, Vec::new())).collect();
    assert!(matches!(Results::new(many).err(), Some(PackageError::TooMany { .. })));
}

#[test]
fn tensors_are_read_back_and_lengths_that_lie_take_no_memory() {
    let inputs = TensorInputs {
        salt: [1; 32],
        result_to: WrapSecret::from_seed([2; 32]).public().clone(),
        tier: Tier::Audit,
        model: vec![3; 1_000],
        inputs: vec![vec![4; 10], Vec::new()],
        secret: Some(WeightsSecret { seed: [5; 32], proofs: 9 }),
    };
    assert!(!format!("{:?}", inputs.secret).contains('5'), "a seed is not printed");
    let bytes = written(&inputs.clone().into_plain().expect("few"));
    let read = |bytes: &[u8], most| TensorInputs::read(&mut { bytes }, most);
    assert_eq!(read(&bytes, 2_000).expect("reads"), inputs);
    assert!(matches!(read(&bytes, 1_009), Err(PackageError::TooLarge { found: 1_010, .. })));
    assert!(read(&bytes[..bytes.len() - 1], 2_000).expect_err("cut off").is_wrong());
    let long = read(&[&bytes[..], &[0]].concat(), 2_000);
    assert!(matches!(long, Err(PackageError::Trailing)));
    let outputs = vec![vec![1; 5], vec![2; 6]];
    let bytes = written(&Parts::outputs(outputs.clone()).expect("few"));
    let read = |most, expected: &[u64]| Parts::read_outputs(&mut bytes.as_slice(), most, expected);
    assert_eq!(read(11, &[5, 6]).expect("reads"), Some(outputs));
    assert!(read(10, &[5, 6]).expect_err("cannot be in there").is_wrong());
    for other in [&[5, 7][..], &[5], &[5, 6, 0], &[u64::MAX, 6]] {
        assert_eq!(read(u64::MAX, other).expect("is told apart"), None, "{other:?}");
    }
    let many = Parts::outputs(vec![Vec::new(); super::BLOBS_MAX + 1]);
    assert!(matches!(many.err(), Some(PackageError::TooMany { .. })));
}

#[test]
fn more_than_the_memory_of_any_machine_is_refused() {
    assert!(check_memory(1 << 10).is_ok());
    let refused = check_memory(1 << 60).expect_err("nobody has that");
    assert!(matches!(refused, PackageError::Memory { .. }) && !refused.is_wrong());
}
