//! What the ledger must be able to ask but cannot know: the engine's evidence and certificates.
//!
//! They are traits, because the engine's formats belong to the edge; to core they are opaque bytes.
//! An implementation must be a pure function of its arguments and the genesis, otherwise nodes
//! would disagree.

use crate::ids::HeaderDigest;
use crate::key::PublicKey;
use crate::tick::Height;

/// Judges evidence that a validator voted for two things at once.
pub trait EquivocationCheck: Send + Sync {
    /// The voting key that the evidence convicts; `None` if it convicts nobody.
    fn offender(&self, evidence: &[u8]) -> Option<PublicKey>;
}

/// Judges certificates by which a quorum finalised a header.
pub trait CertificateCheck: Send + Sync {
    /// Whether a quorum signed this digest at this height.
    fn verify(&self, height: Height, digest: &HeaderDigest, certificate: &[u8]) -> bool;
}
