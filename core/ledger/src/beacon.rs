//! Public randomness and the memory of recent headers. A block's certificate is made by a quorum
//! after the block, so nobody knows it while writing the block: its hash is a beacon by which
//! checkers are drawn. Certificates reach the ledger inside later blocks, in order and without
//! gaps; a proposer that leaves them out may delay a beacon, but never by more than
//! [`CERTIFICATE_LAG_MAX`] heights, and can never choose between two of them.

use tg_types::hash::sha256;
use tg_types::ids::{Hash32, HeaderDigest, Noun};
use tg_types::{Event, Height};

use crate::entry::{Entry, entry};
use crate::error::{ApplyError, Stop};
use crate::keys;
use crate::planted::planted;
use crate::session::Session;

/// Heights for which header digests and beacons are kept: twice the lag, so that every certificate
/// that may still arrive finds its header.
pub const RING_HEIGHTS: u64 = 64;

/// A block lacking the certificate of the height this many below it is invalid.
pub const CERTIFICATE_LAG_MAX: u64 = 32;

/// Bytes of a certificate. A threshold certificate has a few hundred.
pub const CERTIFICATE_BYTES_MAX: usize = 4096;

const _: () = assert!(CERTIFICATE_LAG_MAX < RING_HEIGHTS);

entry! {
    /// The digest of a recent header.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct HeaderEntry {
        /// The header's height.
        pub height: Height,
        /// Its digest.
        pub digest: HeaderDigest,
    }
}

impl Entry for HeaderEntry {
    const NOUN: Noun = Noun::Headers;
}

entry! {
    /// A recorded beacon.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BeaconEntry {
        /// The height whose certificate it was made from.
        pub height: Height,
        /// The hash of that certificate.
        pub beacon: Hash32,
    }
}

impl Entry for BeaconEntry {
    const NOUN: Noun = Noun::Beacon;
}

/// Writes the parent's digest into the ring.
pub(crate) fn record_parent(session: &mut Session<'_>) -> Result<(), Stop> {
    let height = session.env.height.minus(1)?;
    let entry = HeaderEntry { height, digest: session.env.parent };
    session.tables.headers.put(&keys::ring_id(height), Some(entry))
}

/// Checks and records the certificates that the block carries.
pub(crate) fn record_certificates(session: &mut Session<'_>) -> Result<(), Stop> {
    let height = session.env.height;
    for (found, certificate) in &session.env.certificates {
        let expected = session.cursor.beacon.next()?;
        if *found >= height {
            return Err(ApplyError::CertificateEarly { found: *found, height }.into());
        }
        if *found != expected {
            return Err(ApplyError::CertificateOrder { found: *found, expected }.into());
        }
        record(session, *found, certificate)?;
    }
    let last = session.cursor.beacon;
    match height.minus(CERTIFICATE_LAG_MAX) {
        Ok(needed) if last < needed => Err(ApplyError::CertificateOverdue { needed, last }.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Checks one certificate against the header it is for, and makes it a beacon.
fn record(session: &mut Session<'_>, height: Height, certificate: &[u8]) -> Result<(), Stop> {
    let (bytes, max) = (certificate.len(), CERTIFICATE_BYTES_MAX);
    if bytes > max {
        return Err(ApplyError::CertificateLong { height, bytes, max }.into());
    }
    let header = session.tables.headers.get(&keys::ring_id(height))?.copied();
    let header = header
        .filter(|header| header.height == height)
        .ok_or(ApplyError::Incomplete(keys::header(height)))?;
    let is_valid = session.rules.certificates.verify(height, &header.digest, certificate);
    if !is_valid && !planted!(session.rules, TrustCertificates) {
        return Err(ApplyError::CertificateForged { height }.into());
    }

    let beacon = Hash32::new(sha256(&[certificate]));
    let entry = BeaconEntry { height, beacon };
    session.tables.beacons.put(&keys::ring_id(height), Some(entry))?;
    session.cursor.beacon = height;
    session.emit(Event::BeaconRecorded { height, beacon });
    Ok(())
}
