//! Packages that validators must hold: what counts as a voucher, and what it costs.

use tg_ledger::{ApplyError, VOUCHER_SIGNATURES_PER_BLOCK_MAX, fee_floor};
use tg_types::tx::{OpenedResult, Sealed, TX_BYTES_MAX};
use tg_types::{
    Action, Amount, Hash32, JobId, JobSpec, JobStatus, KeyEscrow, List, Nonce, PackageRef, Params,
    Reason, SeatSignatures, Signature, Tier, TxBody, Voucher,
};

use crate::fleet::*;
use crate::world::*;

/// Parameters with which packages must be held.
fn vouched_params() -> Params {
    let mut params = busy_params();
    params.jobs.is_vouched = true;
    params
}

fn vouched_world(nodes: u8) -> World {
    World::staffed_with(vouched_params(), tg_types::NetworkKind::Local, nodes)
}

/// What [`spec`] names.
fn package() -> PackageRef {
    spec(Tier::Trusted).package_ref()
}

/// Asks for [`spec`] with these vouchers.
fn ask_with(vouchers: Vec<Voucher>) -> Action {
    let specs = List::new(vec![spec(Tier::Trusted)]).expect("one");
    let vouchers = List::new(vouchers).expect("a few");
    Action::SubmitJobs { specs, escrow_max: Amount::CAP, vouchers }
}

fn refused(world: &mut World, vouchers: Vec<Voucher>) {
    world.fail(account(CLIENT), ask_with(vouchers), Reason::PackageNotHeld, Amount::ZERO);
}

/// The voucher with its last signature replaced.
fn forged(voucher: &Voucher) -> Voucher {
    let mut signatures = voucher.signatures.as_slice().to_vec();
    let last = signatures.last_mut().expect("one at least");
    last.signature = Signature::new([3; 64]);
    let signatures = SeatSignatures::new(signatures).expect("different seats");
    Voucher { signatures, ..voucher.clone() }
}

#[test]
fn job_whose_package_a_quorum_holds_is_queued() {
    for seats in [&[0, 1, 2][..], &[3, 1, 0], &[0, 1, 2, 3]] {
        let mut world = vouched_world(1);
        let voucher = world.voucher(seats, vec![package()]);
        world.succeed(account(CLIENT), ask_with(vec![voucher]));
    }
}

#[test]
fn job_whose_package_is_not_shown_to_be_held_is_refused() {
    let mut world = vouched_world(1);
    refused(&mut world, vec![]);
    let other = PackageRef { id: Hash32::new([1; 32]), ..package() };
    let longer = PackageRef { bytes: package().bytes + 1, ..package() };
    let few = world.voucher(&[0, 1], vec![package()]);
    let rest = world.voucher(&[2, 3], vec![package()]);
    refused(&mut world, vec![few.clone()]);
    refused(&mut world, vec![few, rest]); // two halves are no quorum
    let voucher = world.voucher(&[0, 1, 2], vec![other, longer]);
    refused(&mut world, vec![voucher]);
    // Who keeps the key is part of what validators sign.
    for key_escrow in [None, Some(KeyEscrow::None)] {
        let kept = PackageRef { key_escrow, ..package() };
        let voucher = world.voucher(&[0, 1, 2], vec![kept]);
        refused(&mut world, vec![voucher]);
    }
    // The fifth key has no seat.
    let voucher = world.voucher(&[0, 1, 2, 4], vec![package()]);
    refused(&mut world, vec![voucher]);
}

#[test]
fn one_forged_signature_makes_a_voucher_void_and_no_other() {
    let mut world = vouched_world(1);
    let all = world.voucher(&[0, 1, 2, 3], vec![package()]);
    refused(&mut world, vec![forged(&all)]);
    world.succeed(account(CLIENT), ask_with(vec![forged(&all), all]));
}

#[test]
fn voucher_of_another_network_or_about_other_packages_is_void() {
    let mut world = vouched_world(1);
    let mut params = vouched_params();
    params.fee_floor_per_byte = units(8);
    let elsewhere = World::staffed_with(params, tg_types::NetworkKind::Local, 1);
    let foreign = elsewhere.voucher(&[0, 1, 2], vec![package()]);
    refused(&mut world, vec![foreign]);
    let other = PackageRef { id: Hash32::new([1; 32]), ..package() };
    let signed = world.voucher(&[0, 1, 2], vec![other]);
    let moved = Voucher { packages: List::new(vec![package()]).expect("one"), ..signed };
    refused(&mut world, vec![moved]);
}

#[test]
fn vouchers_of_a_transaction_count_together_for_all_its_jobs() {
    let mut world = vouched_world(1);
    let packages: Vec<PackageRef> = (1..=3)
        .map(|n| PackageRef { id: Hash32::new([n; 32]), bytes: n.into(), ..package() })
        .collect();
    let spec = |it: &PackageRef| JobSpec {
        package: it.id,
        package_bytes: it.bytes,
        ..spec(Tier::Trusted)
    };
    let specs = List::new(packages.iter().map(spec).collect()).expect("three");
    let ask = |vouchers: Vec<Voucher>| Action::SubmitJobs {
        specs: specs.clone(),
        escrow_max: Amount::CAP,
        vouchers: List::new(vouchers).expect("a few"),
    };
    let first = world.voucher(&[0, 1, 2], packages[..2].to_vec());
    let second = world.voucher(&[1, 2, 3], packages[2..].to_vec());
    let reason = Reason::PackageNotHeld;
    world.fail(account(CLIENT), ask(vec![first.clone()]), reason, Amount::ZERO);
    world.fail(account(CLIENT), ask(vec![second.clone()]), reason, Amount::ZERO);
    world.succeed(account(CLIENT), ask(vec![first, second]));
}

#[test]
fn network_without_the_rule_looks_at_no_voucher() {
    let mut world = World::staffed(1);
    let few = forged(&world.voucher(&[0], vec![package()]));
    world.succeed(account(CLIENT), ask_with(vec![]));
    world.succeed(account(CLIENT), ask_with(vec![few]));
}

#[test]
fn results_are_shown_one_by_one_as_far_as_their_packages_are_held() {
    let mut world = vouched_world(1);
    let ask = world.vouched(submit(vec![spec(Tier::Trusted), spec(Tier::Trusted)]));
    let receipt = world.run(account(CLIENT), ask);
    let jobs = [0, 1].map(|place| JobId::of(receipt.tx, place));
    let mut results = [right(), right()];
    results[1].package = Hash32::new([5; 32]);
    let seal = |at: usize| Sealed { job: jobs[at], seal: results[at].seal(&node(0), &[0; 32]) };
    let seals = List::new(vec![seal(0), seal(1)]).expect("two");
    world.act(0, Action::CommitResults { seals });
    let opened = |at: usize| OpenedResult { job: jobs[at], result: results[at], salt: [0; 32] };
    let both = |vouchers: Vec<Voucher>| Action::RevealResults {
        results: List::new(vec![opened(0), opened(1)]).expect("two"),
        vouchers: List::new(vouchers).expect("a few"),
    };
    world.refused(0, both(vec![]), Reason::PackageNotHeld);
    let held =
        |world: &World, at: usize| world.voucher(&[0, 1, 2], vec![results[at].package_ref()]);
    let forged = forged(&held(&world, 0));
    world.refused(0, both(vec![forged.clone()]), Reason::PackageNotHeld);
    let voucher = held(&world, 1);
    world.act(0, both(vec![forged, voucher]));
    let status = jobs.map(|job| world.status(job));
    assert_eq!(status, [JobStatus::Running, JobStatus::Settled]);
    let voucher = held(&world, 0);
    world.act(0, both(vec![voucher]));
    assert_eq!(world.status(jobs[0]), JobStatus::Settled);
}

#[test]
fn whoever_hands_packages_in_pays_for_keeping_them() {
    let world = vouched_world(1);
    let large = PackageRef { bytes: 64 << 20, ..package() };
    let vouchers = vec![
        world.voucher(&[0, 1, 2], vec![package(), large]),
        world.voucher(&[0, 1, 2], vec![large]),
    ];
    let body = world.body(account(CLIENT), ask_with(vouchers));
    let size = world.sign(body.clone()).size_bytes();
    let params = world.rules.genesis.params();
    let floor = fee_floor(params, size, &body.action);
    assert_eq!(floor.units(), 7 * u64::from(size) + 1_100 * 65);
    let low = TxBody { fee: floor.minus(units(1)).expect("more than one"), ..body.clone() };
    world.refuse(&world.sign(low), Reason::FeeTooLow);
    world.try_block(&[world.sign(TxBody { fee: floor, ..body })]).expect("enough");
}

#[test]
fn transaction_that_vouchers_make_too_large_is_refused() {
    let world = vouched_world(1);
    let voucher = world.voucher(&[0, 1, 2], vec![package(); 32]);
    let fits = world.tx(account(CLIENT), ask_with(vec![voucher.clone(); 8]));
    assert!(usize::try_from(fits.size_bytes()).is_ok_and(|size| size <= TX_BYTES_MAX));
    let specs = List::new(vec![spec(Tier::Trusted); 32]).expect("32");
    let vouchers = List::new(vec![voucher; 8]).expect("eight");
    let large = Action::SubmitJobs { specs, escrow_max: Amount::CAP, vouchers };
    let tx = world.tx(account(CLIENT), large);
    assert!(usize::try_from(tx.size_bytes()).is_ok_and(|size| size > TX_BYTES_MAX));
    world.refuse(&tx, Reason::TxTooLarge);
}

/// Goal: a block is not made slow with signatures. Method: a block at the bound is valid, one
/// beyond it is not, and building leaves for later what does not fit.
#[test]
fn block_with_too_many_signatures_is_refused() {
    let world = World::with(busy_params());
    let voucher = world.voucher(&[0, 1, 2, 3], vec![package()]);
    let txs: Vec<_> = (0..65)
        .map(|number| {
            let body = world.body(account(CLIENT), ask_with(vec![voucher.clone(); 8]));
            world.sign(TxBody { nonce: Nonce::new(number), ..body })
        })
        .collect();
    let max = VOUCHER_SIGNATURES_PER_BLOCK_MAX;
    world.try_block(&txs[..64]).expect("32 signatures each");
    let signatures = 65 * 32;
    assert_eq!(world.try_block(&txs), Err(ApplyError::TooManySignatures { signatures, max }));
    let built = world.build(&txs);
    assert_eq!((built.included.len(), built.refused.len()), (64, 0));
}
