//! Signing, counting and the forms of a voucher that are refused.

use super::{
    PACKAGES_PER_VOUCHER_MAX, PackageRef, Packages, SeatSignature, SeatSignatures, Voucher,
    count_holders,
};
use crate::amount::Amount;
use crate::bounded::{BoundError, List};
use crate::codec::{Decode, DecodeError, Encode, encode_length};
use crate::genesis::{SEATS_MAX, ValidatorSeat};
use crate::ids::{GenesisHash, Hash32};
use crate::key::{Domain, SecretKey, Signature};

fn domain(chain: &str, genesis: u8) -> Domain {
    Domain { chain: chain.parse().expect("a name"), genesis: GenesisHash::new([genesis; 32]) }
}

fn secret(seat: u8) -> SecretKey {
    SecretKey::from_seed([seat + 1; 32])
}

fn seats(count: u8) -> Vec<ValidatorSeat> {
    let seat = |number| ValidatorSeat {
        key: secret(number).public(),
        owner: secret(number).public().into(),
        stake: Amount::ZERO,
        address: "localhost:1".parse().expect("an address"),
    };
    (0..count).map(seat).collect()
}

fn package(number: u8) -> PackageRef {
    PackageRef { id: Hash32::new([number; 32]), bytes: number.into(), key_escrow: None }
}

fn packages(numbers: &[u8]) -> Packages {
    List::new(numbers.iter().copied().map(package).collect()).expect("a few")
}

fn voucher(domain: &Domain, by: &[u8], numbers: &[u8]) -> Voucher {
    let packages = packages(numbers);
    let sign = |seat: &u8| SeatSignature::sign(&secret(*seat), domain, *seat, &packages);
    let signatures = SeatSignatures::new(by.iter().map(sign).collect()).expect("different seats");
    Voucher { packages, signatures }
}

#[test]
fn holders_are_counted_and_forged_vouchers_void() {
    let (here, seats) = (domain("here", 1), seats(4));
    let good = voucher(&here, &[3, 0, 2], &[1, 2]);
    let mut foreign_key = good.clone();
    foreign_key.signatures.0[1].seat = 1;
    let mut bent = good.clone();
    bent.signatures.0[2].signature = Signature::new([1; 64]);
    let mut other = good.clone();
    other.packages = packages(&[1, 3]);
    let mut reordered = good.clone();
    reordered.packages = packages(&[2, 1]);
    let mut longer = good.clone();
    longer.packages.as_mut_slice()[0].bytes += 1;
    let vouchers = [
        voucher(&here, &[1], &[9]),
        foreign_key,
        good.clone(),
        voucher(&domain("there", 1), &[0, 1, 2], &[1]),
        voucher(&domain("here", 2), &[0, 1, 2], &[1]),
        bent,
        voucher(&here, &[0, 1, 4], &[1]), // there is no fifth seat
        other,
        reordered,
        longer,
        good,
    ];
    let counts = count_holders(&here, &seats, &vouchers);
    let mut expected = vec![None; 11];
    (expected[0], expected[2], expected[10]) = (Some(1), Some(3), Some(3));
    assert_eq!(counts, expected);
    for (voucher, count) in vouchers.iter().zip(&counts) {
        let is_valid = |one: &SeatSignature| one.is_valid(&here, &seats, &voucher.packages);
        assert_eq!(voucher.signatures.as_slice().iter().all(is_valid), count.is_some());
    }
    assert_eq!(count_holders(&here, &seats, &[]), []);
}

/// Goal: together and one by one say the same. Method: vouchers of which some signatures are moved
/// to other seats, packages or networks.
#[test]
fn prop_counting_agrees_with_single_checks() {
    let (here, there, seats) = (domain("here", 1), domain("there", 1), seats(5));
    arbtest::arbtest(|u| {
        let mut vouchers = Vec::new();
        for _ in 0..u.int_in_range(0..=4)? {
            let by: Vec<u8> = (0..6).filter(|_| u.ratio(1, 2).unwrap_or(false)).collect();
            let by = if by.is_empty() { vec![2] } else { by };
            let domain = if u.ratio(1, 8)? { &there } else { &here };
            let mut one = voucher(domain, &by, &[u.arbitrary()?, 7]);
            if u.ratio(1, 4)? {
                let at = u.choose_index(by.len())?;
                one.signatures.0[at].signature = Signature::new([u.arbitrary()?; 64]);
            }
            vouchers.push(one);
        }
        let expected: Vec<Option<usize>> = vouchers
            .iter()
            .map(|one| {
                let all = one.signatures.as_slice();
                let is_valid = |it: &SeatSignature| it.is_valid(&here, &seats, &one.packages);
                all.iter().all(is_valid).then_some(all.len())
            })
            .collect();
        assert_eq!(count_holders(&here, &seats, &vouchers), expected);
        Ok(())
    });
}

#[test]
fn seats_out_of_order_or_repeated_are_refused() {
    let encoded = |seats: &[u8]| {
        let mut bytes = Vec::new();
        encode_length(seats.len(), &mut bytes);
        for seat in seats {
            SeatSignature { seat: *seat, signature: Signature::new([5; 64]) }.encode(&mut bytes);
        }
        SeatSignatures::from_bytes(&bytes).map(|all| all.as_slice().len())
    };
    let order = |count: usize| Err(DecodeError::Order { at: 1 + 65 * count, expected: "seats" });
    assert_eq!(encoded(&[0, 3, 255]), Ok(3));
    assert_eq!(encoded(&[3, 0]), order(2));
    assert_eq!(encoded(&[0, 1, 1]), order(3));
    let length = |found| Err(DecodeError::Length { at: 0, found, min: 1, max: SEATS_MAX });
    assert_eq!(encoded(&[]), length(0));
    let all: Vec<u8> = (0..=100).collect();
    assert_eq!(encoded(&all[..100]), Ok(100));
    assert_eq!(encoded(&all), length(101));
}

#[test]
fn signatures_are_put_in_order_and_repeated_seats_refused() {
    let one = |seat| SeatSignature { seat, signature: Signature::new([seat; 64]) };
    let all = SeatSignatures::new(vec![one(2), one(0), one(1)]).expect("different seats");
    assert_eq!(all.as_slice(), [one(0), one(1), one(2)]);
    let repeated = SeatSignatures::new(vec![one(2), one(0), one(2)]);
    assert!(matches!(repeated, Err(BoundError::Form { .. })));
    assert!(matches!(SeatSignatures::new(vec![]), Err(BoundError::Length { found: 0, .. })));
    let many = (0..=100).map(one).collect();
    assert!(matches!(SeatSignatures::new(many), Err(BoundError::Length { found: 101, .. })));
}

#[test]
fn voucher_that_is_truncated_or_names_too_many_packages_is_refused() {
    let good = voucher(&domain("here", 1), &[0, 1], &[1, 2, 3]);
    let bytes = good.to_bytes();
    assert_eq!(Voucher::from_bytes(&bytes), Ok(good));
    for end in 0..bytes.len() {
        let cut = Voucher::from_bytes(&bytes[..end]);
        assert!(matches!(cut, Err(DecodeError::Truncated { .. })), "cut at {end}: {cut:?}");
    }
    let mut many = Vec::new();
    let count = PACKAGES_PER_VOUCHER_MAX + 1;
    encode_length(count, &mut many);
    many.extend(package(1).to_bytes().repeat(count));
    let length = DecodeError::Length { at: 0, found: count, min: 1, max: 32 };
    assert_eq!(Voucher::from_bytes(&many), Err(length));
    assert_eq!(
        Voucher::from_bytes(&[0]),
        Err(DecodeError::Length { at: 0, found: 0, min: 1, max: 32 })
    );
}
