//! Recent headers and their certificates, as far as this node knows them.
//!
//! Blocks must carry the certificates of earlier heights in order. The book hands them out, knows
//! which are lacking, and spares the pairing for a certificate that this node has made itself.

use crate::payload::{CERTIFICATES_MAX, HeightCertificate};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use tg_types::{ids::HeaderDigest, key::PublicKey, tick::Height, traits::CertificateCheck};

/// Certificates kept after a block has carried them, for peers that ask.
const CARRIED_KEPT: u64 = 64;

/// Certificates kept before a block has carried them: twice as many as one may be late.
pub(crate) const WAITING_KEPT: u64 = 64;

/// Headers kept: those of the certificates above.
const HEADERS_MAX: usize = (CARRIED_KEPT + WAITING_KEPT) as usize;

/// Signatures kept for one certificate: one per seat of the largest committee.
const SEATS_MAX: usize = 100;

#[derive(Debug, Default)]
struct Pages {
    digests: BTreeMap<Height, HeaderDigest>,
    certificates: BTreeMap<Height, Bytes>,
    /// Last height whose certificate a final block has carried.
    carried: Option<Height>,
    /// Signatures gathered to make a lost certificate again, by who sent them.
    gathered: BTreeMap<PublicKey, Bytes>,
    gathered_for: Option<Height>,
}

impl Pages {
    fn is_waiting(&self, height: Height) -> bool {
        let carried = self.carried.map_or(0, Height::get);
        (carried + 1..=carried + WAITING_KEPT).contains(&height.get())
    }
}

/// Recent headers and certificates. The lock is held for map operations only.
#[derive(Clone, Debug, Default)]
pub(crate) struct CertificateBook(Arc<Mutex<Pages>>);

impl CertificateBook {
    fn pages(&self) -> std::sync::MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A header became final.
    pub(crate) fn add_header(&self, height: Height, digest: HeaderDigest) {
        let mut pages = self.pages();
        pages.digests.insert(height, digest);
        while pages.digests.len() > HEADERS_MAX {
            pages.digests.pop_first();
        }
    }

    /// Whether the certificate of this height is neither here nor carried by a block.
    pub(crate) fn wants(&self, height: Height) -> bool {
        let pages = self.pages();
        pages.is_waiting(height) && !pages.certificates.contains_key(&height)
    }

    /// A certificate that was verified, or made by this node's own engine.
    pub(crate) fn add_certificate(&self, height: Height, certificate: Bytes) {
        let mut pages = self.pages();
        if pages.is_waiting(height) {
            pages.certificates.insert(height, certificate);
        }
    }

    /// The height up to which final blocks have carried certificates.
    pub(crate) fn carried(&self) -> Option<Height> {
        self.pages().carried
    }

    /// A final block carried the certificates up to this height.
    pub(crate) fn set_carried(&self, height: Height) {
        let mut pages = self.pages();
        pages.carried = pages.carried.max(Some(height));
        let kept = height.get().saturating_sub(CARRIED_KEPT);
        pages.certificates = pages.certificates.split_off(&Height::new(kept));
    }

    /// Consecutive certificates from `from` on, as many as a block takes.
    pub(crate) fn consecutive(&self, from: Height, count: usize) -> Vec<HeightCertificate> {
        let pages = self.pages();
        (from.get()..)
            .map(Height::new)
            .map_while(|height| {
                let bytes = pages.certificates.get(&height)?.clone();
                Some(HeightCertificate { height, bytes })
            })
            .take(count.min(crate::gossip::CERTIFICATES_MAX))
            .collect()
    }

    /// All that a block built now may carry.
    pub(crate) fn snapshot(&self) -> BTreeMap<Height, Bytes> {
        self.pages().certificates.clone()
    }

    /// The first height whose certificate is overdue: its header has been final for a while, no
    /// block carried it, and it is not here.
    pub(crate) fn lacking(&self, tip: Height, patience: u64) -> Option<Height> {
        let pages = self.pages();
        let next = Height::new(pages.carried.map_or(0, Height::get) + 1);
        let late = next.get().saturating_add(patience) <= tip.get();
        (late && !pages.certificates.contains_key(&next)).then_some(next)
    }

    /// Keeps a seat's signature over the header at `height`, and returns all that are there.
    /// Signatures for another height than the one asked for last are dropped.
    pub(crate) fn gather(&self, height: Height, from: PublicKey, signed: Bytes) -> Vec<Bytes> {
        let mut pages = self.pages();
        if pages.gathered_for != Some(height) {
            pages.gathered.clear();
            pages.gathered_for = Some(height);
        }
        if pages.gathered.len() < SEATS_MAX {
            pages.gathered.insert(from, signed);
        }
        pages.gathered.values().cloned().collect()
    }

    pub(crate) fn digest(&self, height: Height) -> Option<HeaderDigest> {
        self.pages().digests.get(&height).copied()
    }

    fn is_known(&self, height: Height, digest: &HeaderDigest, certificate: &[u8]) -> bool {
        let pages = self.pages();
        pages.certificates.get(&height).is_some_and(|known| known[..] == *certificate)
            && pages.digests.get(&height) == Some(digest)
    }
}

/// Picks the certificates a block at a given state may carry.
pub(crate) fn choose(
    known: &BTreeMap<Height, Bytes>,
    next: Height,
    height: Height,
) -> Vec<HeightCertificate> {
    (next.get()..height.get())
        .map(Height::new)
        .map_while(|height| {
            known.get(&height).map(|bytes| HeightCertificate { height, bytes: bytes.clone() })
        })
        .take(CERTIFICATES_MAX)
        .collect()
}

/// Checks certificates against the committee, or against those this node already knows.
pub(crate) struct KnownOrChecked {
    pub(crate) book: CertificateBook,
    pub(crate) committee: Arc<dyn CertificateCheck + Send + Sync>,
}

impl CertificateCheck for KnownOrChecked {
    fn verify(&self, height: Height, digest: &HeaderDigest, certificate: &[u8]) -> bool {
        self.book.is_known(height, digest, certificate)
            || self.committee.verify(height, digest, certificate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: old certificates never push new ones out. Method: a chain far longer than the book,
    /// whose blocks carry certificates ten heights late.
    #[test]
    fn book_always_has_the_certificate_that_is_needed_next() {
        let book = CertificateBook::default();
        for height in 1..=1_000 {
            book.add_header(Height::new(height), HeaderDigest::new([1; 32]));
            book.add_certificate(Height::new(height), Bytes::from_static(b"certificate"));
            let next = Height::new(height.saturating_sub(10).max(1));
            assert_eq!(book.consecutive(next, 1).len(), 1, "height {height}");
            book.set_carried(next);
            assert_eq!(book.lacking(Height::new(height), 0), None);
        }
        let pages = book.pages();
        assert!(pages.certificates.len() <= HEADERS_MAX && pages.digests.len() <= HEADERS_MAX);
    }

    #[test]
    fn certificate_that_is_not_needed_is_not_kept() {
        let book = CertificateBook::default();
        book.set_carried(Height::new(100));
        for height in [99, 100, 100 + WAITING_KEPT + 1] {
            book.add_certificate(Height::new(height), Bytes::from_static(b"certificate"));
        }
        assert!(book.snapshot().is_empty());
    }
}
