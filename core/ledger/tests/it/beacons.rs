//! Certificates, beacons and the ring of headers.

use crate::world::*;
use tg_ledger::{ApplyError, CERTIFICATE_BYTES_MAX, CERTIFICATE_LAG_MAX, RING_HEIGHTS};
use tg_types::hash::sha256;
use tg_types::ids::{Hash32, Noun};
use tg_types::{Event, Height};

/// A world whose next block has this height and carries nothing.
fn world_at(height: u64) -> World {
    let mut world = World::new();
    while world.env.height.get() < height {
        world.block(&[]);
    }
    world.env.certificates.clear();
    world
}

fn beacon_of(world: &World, height: u64) -> Hash32 {
    Hash32::new(sha256(&[&world.certificate(height).1]))
}

#[test]
fn certificates_in_order_become_beacons() {
    let mut world = world_at(5);
    world.env.certificates = (1..=4).map(|height| world.certificate(height)).collect();
    let applied = world.block(&[]);
    for (event, height) in applied.block_receipt.events.iter().zip(1..=4) {
        let beacon = beacon_of(&world, height);
        assert_eq!(*event, Event::BeaconRecorded { height: Height::new(height), beacon });
        assert_eq!(world.beacon(height), Some(beacon));
    }
    assert_eq!((applied.events_len, world.cursor().beacon), (4, Height::new(4)));
}

#[test]
fn certificate_out_of_order_is_refused() {
    let mut world = world_at(5);
    let expected = Height::new(1);
    for wrong in [0, 2, 4] {
        world.env.certificates = vec![world.certificate(wrong)];
        let found = Height::new(wrong);
        assert_eq!(world.try_block(&[]), Err(ApplyError::CertificateOrder { found, expected }));
    }
    world.env.certificates = vec![world.certificate(1), world.certificate(1)];
    let (found, expected) = (Height::new(1), Height::new(2));
    assert_eq!(world.try_block(&[]), Err(ApplyError::CertificateOrder { found, expected }));
}

#[test]
fn certificate_of_the_block_itself_is_refused() {
    let mut world = world_at(2);
    let (found, height) = (Height::new(2), Height::new(2));
    world.env.certificates = vec![world.certificate(1), (found, vec![])];
    assert_eq!(world.try_block(&[]), Err(ApplyError::CertificateEarly { found, height }));
}

#[test]
fn certificate_that_does_not_verify_is_refused() {
    let mut world = world_at(5);
    let height = Height::new(1);
    let (_, of_another) = world.certificate(2);
    for forged in [vec![], vec![0; 32], of_another] {
        world.env.certificates = vec![(height, forged)];
        assert_eq!(world.try_block(&[]), Err(ApplyError::CertificateForged { height }));
    }
    let (bytes, max) = (CERTIFICATE_BYTES_MAX + 1, CERTIFICATE_BYTES_MAX);
    world.env.certificates = vec![(height, vec![0; bytes])];
    let too_long = ApplyError::CertificateLong { height, bytes, max };
    assert_eq!(world.try_block(&[]), Err(too_long));
}

#[test]
fn block_lacking_an_overdue_certificate_is_refused() {
    let mut world = world_at(CERTIFICATE_LAG_MAX);
    world.block(&[]);
    world.env.certificates.clear();
    let (needed, last) = (Height::new(1), Height::ZERO);
    assert_eq!(world.env.height.get(), CERTIFICATE_LAG_MAX + 1);
    assert_eq!(world.try_block(&[]), Err(ApplyError::CertificateOverdue { needed, last }));
    world.env.certificates = vec![world.certificate(1)];
    world.block(&[]);
}

#[test]
fn rings_keep_the_last_heights_only() {
    let world = world_at(3 * RING_HEIGHTS + 7);
    let ring = usize::try_from(RING_HEIGHTS).expect("small");
    assert_eq!(world.ids(Noun::Headers).len(), ring);
    assert_eq!(world.ids(Noun::Beacon).len(), ring);
    let last = world.cursor().beacon.get();
    assert_eq!(world.beacon(last), Some(beacon_of(&world, last)));
    let parent = world.env.height.get() - 1;
    assert_eq!(world.header(parent), None, "the next block will record it");
    assert_eq!(world.header(parent - 1), Some(world.headers[world.headers.len() - 2]));
    assert_eq!(world.header(parent - 1 - RING_HEIGHTS), None);
    let oldest = last + 1 - RING_HEIGHTS;
    assert_eq!(world.beacon(oldest), Some(beacon_of(&world, oldest)));
    assert_eq!((world.beacon(oldest - 1), world.beacon(last + 1)), (None, None));
}
