//! Making a certificate again when every copy of it is lost.
//!
//! The certifying engine does not fill gaps: a height it skipped stays without certificate unless
//! somebody kept one. Since blocks must carry certificates in order, a lost one would stop the
//! chain. A final header's digest is the same for every honest node, so each can sign it again at
//! any time; a quorum of such signatures is the same certificate.

use crate::{
    certify::Threshold,
    committee::{Committee, CommitteeError},
    state::Digest,
};
use bytes::Bytes;
use commonware_codec::{Copying, DecodeExt as _, Encode as _};
use commonware_consensus::{
    aggregation::types::{Ack, Certificate, Item},
    types::{Epoch, Height as ConsensusHeight},
};
use commonware_parallel::Sequential;
use commonware_utils::iter::NonEmpty;
use rand::{SeedableRng as _, rngs::StdRng};
use tg_types::{ids::HeaderDigest, tick::Height};

/// Signs header digests for one seat, and puts such signatures together.
#[derive(Clone)]
pub struct Recovery(Threshold);

impl Recovery {
    /// For the seat with this share; without one it can only put together.
    ///
    /// # Errors
    /// If the share does not belong to the committee.
    pub fn new(committee: &Committee, share: Option<&[u8]>) -> Result<Self, CommitteeError> {
        Ok(Self(committee.threshold(share)?))
    }

    /// This seat's signature over a final header, `None` without a seat.
    #[must_use]
    pub fn acknowledge(&self, height: Height, digest: &HeaderDigest) -> Option<Bytes> {
        Some(Ack::sign(&self.0, Epoch::zero(), item(height, digest))?.encode())
    }

    /// Puts the signatures of a quorum together. Bad and repeated ones are left out.
    #[must_use]
    pub fn assemble<'a>(
        &self,
        height: Height,
        digest: &HeaderDigest,
        acknowledgements: impl Iterator<Item = &'a Bytes>,
    ) -> Option<Bytes> {
        let item = item(height, digest);
        let mut unused = StdRng::from_seed([0; 32]);
        let mut acks: Vec<Ack<Threshold, Digest>> = Vec::new();
        for bytes in acknowledgements {
            let Ok(ack) = Ack::<Threshold, Digest>::decode(Copying(&bytes[..])) else { continue };
            let is_new =
                acks.iter().all(|known| known.attestation.signer != ack.attestation.signer);
            if is_new && ack.item == item && ack.verify(&mut unused, &self.0, &Sequential) {
                acks.push(ack);
            }
        }
        let (first, rest) = acks.split_first()?;
        let acks = NonEmpty::new(first, rest.iter());
        let made = Certificate::from_acks(&self.0, acks, &Sequential).ok()?;
        Some(made.certificate.encode())
    }
}

fn item(height: Height, digest: &HeaderDigest) -> Item<Digest> {
    Item { height: ConsensusHeight::new(height.get()), digest: Digest::from(*digest.as_bytes()) }
}
