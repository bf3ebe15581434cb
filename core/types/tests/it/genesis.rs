//! A genesis that could not work is refused, and says why.

use tg_types::{
    AccountId, Amount, Bps, Bytes, Decode, DecodeError, Encode, Genesis, GenesisError, GenesisSpec,
    NetworkKind, Params, PublicKey, SecretKey, Tick, ValidatorSeat,
};

fn key(number: u8) -> PublicKey {
    SecretKey::from_seed([number; 32]).public()
}

fn seat(number: u8) -> ValidatorSeat {
    ValidatorSeat {
        key: key(number),
        owner: key(number + 100).into(),
        stake: Params::local().stake_min,
        address: format!("127.0.0.1:{}", 4_000 + u16::from(number)).parse().expect("an address"),
    }
}

/// Four seats and three balances.
pub(crate) fn spec() -> GenesisSpec {
    GenesisSpec {
        chain: "local".parse().expect("a chain's name"),
        kind: NetworkKind::Local,
        start: Tick::new(1_700_000_000_000),
        validators: (1..=4).map(seat).collect(),
        allocations: (1..=3)
            .map(|n| (key(n).into(), Amount::constant(1_000 * u64::from(n))))
            .collect(),
        treasury: Amount::constant(500),
        group_key: Bytes::new(vec![0xaa; 96]).expect("a group key"),
        polynomial: Bytes::new(vec![0xbb; 192]).expect("a polynomial"),
        params: Params::local(),
    }
}

#[track_caller]
fn check(change: impl FnOnce(&mut GenesisSpec), expected: &GenesisError) {
    let mut spec = spec();
    change(&mut spec);
    assert_eq!(Genesis::new(spec).as_ref(), Err(expected));
}

#[test]
fn genesis_puts_seats_and_allocations_in_order() {
    let mut reversed = spec();
    reversed.validators.reverse();
    reversed.allocations.reverse();
    let (genesis, other) = (Genesis::new(spec()), Genesis::new(reversed));
    assert_eq!(genesis, other);
    let genesis = genesis.expect("a good genesis");
    assert!(genesis.validators().is_sorted_by_key(|seat| seat.key));
    assert!(genesis.allocations().is_sorted());
    assert_eq!(genesis.supply().units(), 4 * Params::local().stake_min.units() + 6_000 + 500);
    assert_eq!(genesis.seat(&key(2)).map(|seat| seat.owner), Some(key(102).into()));
    assert_eq!(genesis.seat(&key(102)), None);
}

#[test]
fn genesis_out_of_order_is_refused_when_decoded() {
    let genesis = Genesis::new(spec()).expect("a good genesis");
    let mut swapped = genesis.spec().clone();
    swapped.validators.swap(0, 1);
    let refused = Genesis::from_bytes(&swapped.to_bytes());
    assert!(matches!(refused, Err(DecodeError::Order { expected: "seats by voting key", .. })));
    let mut swapped = genesis.spec().clone();
    swapped.allocations.swap(0, 1);
    let refused = Genesis::from_bytes(&swapped.to_bytes());
    assert!(matches!(refused, Err(DecodeError::Order { expected: "allocations by account", .. })));
}

#[test]
fn genesis_that_fails_a_check_is_refused_when_decoded() {
    let mut repeated = Genesis::new(spec()).expect("a good genesis").spec().clone();
    repeated.allocations[1].0 = repeated.allocations[0].0;
    let account = repeated.allocations[0].0;
    let refused = Genesis::from_bytes(&repeated.to_bytes());
    let Err(DecodeError::Genesis { source, .. }) = refused else {
        unreachable!("an account with two balances is refused: {refused:?}");
    };
    assert_eq!(*source, GenesisError::AccountRepeated(account));
}

#[test]
fn genesis_without_seats_or_with_too_many_is_refused() {
    check(|spec| spec.validators.clear(), &GenesisError::Seats { found: 0 });
    check(
        |spec| spec.validators = (0..101).map(seat).collect(),
        &GenesisError::Seats { found: 101 },
    );
}

#[test]
fn genesis_with_a_repetition_is_refused() {
    check(|spec| spec.validators[1].key = key(1), &GenesisError::KeyRepeated(key(1)));
    let owner = AccountId::from(key(101));
    check(|spec| spec.validators[1].owner = owner, &GenesisError::OwnerRepeated(owner));
    let account = AccountId::from(key(1));
    check(|spec| spec.allocations[1].0 = account, &GenesisError::AccountRepeated(account));
}

#[test]
fn genesis_with_too_little_stake_is_refused() {
    let (owner, min) = (AccountId::from(key(101)), Params::local().stake_min);
    let found = Amount::constant(min.units() - 1);
    let expected = GenesisError::StakeTooLow { owner, found, min };
    check(|spec| spec.validators[0].stake = found, &expected);
}

#[test]
fn genesis_above_the_cap_is_refused() {
    let above = GenesisError::Supply(tg_types::AmountError::AboveCap);
    check(|spec| spec.treasury = Amount::CAP, &above);
    check(|spec| spec.allocations[0].1 = Amount::CAP, &above);
    check(|spec| spec.validators[0].stake = Amount::CAP, &above);
}

#[test]
fn genesis_with_bad_parameters_is_refused() {
    let mut bad = spec();
    bad.params.fee_burn_bps = Bps::WHOLE;
    assert!(matches!(Genesis::new(bad), Err(GenesisError::Params(_))));
}

/// Goal: the hash names the whole content. Method: change each field by the least possible.
#[test]
fn genesis_hash_changes_with_every_field() {
    let changes: [fn(&mut GenesisSpec); 10] = [
        |_| (),
        |spec| spec.chain = "loca".parse().expect("a chain's name"),
        |spec| spec.kind = NetworkKind::Open,
        |spec| spec.start = Tick::new(1),
        |spec| spec.validators[0].address = "127.0.0.1:1".parse().expect("an address"),
        |spec| spec.allocations[0].1 = Amount::ZERO,
        |spec| spec.treasury = Amount::ZERO,
        |spec| spec.group_key = Bytes::EMPTY,
        |spec| spec.polynomial = Bytes::EMPTY,
        |spec| spec.params.due_per_block_max += 1,
    ];
    let mut hashes = std::collections::BTreeSet::new();
    for change in changes {
        let mut spec = spec();
        change(&mut spec);
        assert!(hashes.insert(Genesis::new(spec).expect("a good genesis").hash()));
    }
}
