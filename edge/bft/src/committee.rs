//! The validators of a chain: who votes, and the threshold key they certify with.
//!
//! Votes are ed25519 signatures, which name their signer: two conflicting ones are evidence. The
//! threshold key gives one small certificate per height; its shares are dealt with the genesis of
//! a local network.

use crate::{
    certify::{Threshold, Votes},
    state::Digest,
};
use commonware_codec::{Copying, Decode as _, DecodeExt as _, Encode as _};
use commonware_consensus::{
    aggregation::types::{Certificate, Item},
    simplex::types::{
        Attributable as _, ConflictingFinalize, ConflictingNotarize, NullifyFinalize,
    },
    types::Height as ConsensusHeight,
};
use commonware_cryptography::{
    bls12381::{
        dkg::feldman_desmedt::deal,
        primitives::{
            group::Share as GroupShare,
            sharing::{Mode, ModeVersion, Sharing},
            variant::{MinSig, Variant},
        },
    },
    certificate::Verifier,
    ed25519,
};
use commonware_parallel::Sequential;
use commonware_utils::{N3f1, Participant, TryCollect as _, ordered::Set};
use rand::{SeedableRng as _, rngs::StdRng};
use std::num::NonZeroU32;
use tg_types::{
    codec::Encode as _,
    genesis::Genesis,
    ids::HeaderDigest,
    key::{Domain, PublicKey, SecretKey},
    tick::Height,
    traits::{CertificateCheck, EquivocationCheck},
};

/// Most seats of a committee; bounds the decoding of its public polynomial.
const SEATS_MAX: NonZeroU32 = NonZeroU32::new(100).expect("100 is not zero");

type ThresholdCertificate = <Threshold as Verifier>::Certificate;
type GroupKey = <MinSig as Variant>::Public;

/// A committee that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CommitteeError {
    /// The genesis names no usable set of voting keys.
    #[error("the genesis names {0} usable voting keys, at least one is needed, each once")]
    Keys(usize),
    /// The genesis' threshold polynomial cannot be read.
    #[error("the genesis' threshold key cannot be read")]
    Polynomial(#[source] commonware_codec::Error),
    /// The polynomial belongs to another group key or committee size.
    #[error("the genesis' threshold key does not belong to its committee")]
    Mismatch,
    /// A share cannot be read or belongs to another seat.
    #[error("this threshold share does not belong to the seat")]
    Share,
}

/// Threshold key material dealt at once, for networks that start on one machine.
pub struct Dealt {
    /// The key that certificates are verified with.
    pub group_key: Vec<u8>,
    /// Public commitment to all shares.
    pub polynomial: Vec<u8>,
    /// Every seat's secret share, in the order of the given keys.
    pub shares: Vec<Vec<u8>>,
}

/// Deals a threshold key to the given voting keys. Whoever calls this knows every share, so it is
/// for local networks; the genesis says so.
///
/// # Errors
/// If a key is unusable or given twice.
pub fn deal_threshold_key(keys: &[PublicKey], seed: [u8; 32]) -> Result<Dealt, CommitteeError> {
    let set = voters(keys.iter())?;
    let dealt = deal::<MinSig, _, N3f1>(StdRng::from_seed(seed), Mode::NonZeroCounter, set);
    let (output, shares) = dealt.map_err(|_| CommitteeError::Keys(keys.len()))?;
    let shares = keys
        .iter()
        .map(|key| {
            let share = shares.get_value(&voter(key)?).ok_or(CommitteeError::Share)?;
            Ok(share.encode().to_vec())
        })
        .collect::<Result<_, CommitteeError>>()?;
    Ok(Dealt {
        group_key: output.public().public().encode().to_vec(),
        polynomial: output.public().encode().to_vec(),
        shares,
    })
}

fn voter(key: &PublicKey) -> Result<ed25519::PublicKey, CommitteeError> {
    ed25519::PublicKey::decode(Copying(&key.as_bytes()[..])).map_err(|_| CommitteeError::Keys(0))
}

fn voters<'a>(
    keys: impl Iterator<Item = &'a PublicKey>,
) -> Result<Set<ed25519::PublicKey>, CommitteeError> {
    let keys = keys.map(voter).collect::<Result<Vec<_>, _>>()?;
    let count = keys.len();
    keys.into_iter().try_collect().map_err(|_| CommitteeError::Keys(count))
}

/// The engine's form of a secret key.
pub(crate) fn signer(key: &SecretKey) -> ed25519::PrivateKey {
    let seed = key.expose_seed();
    ed25519::PrivateKey::decode(Copying(&seed[..])).expect("any 32 bytes are a secret key")
}

/// The bytes every vote and certificate of a chain is bound to.
pub(crate) fn namespace(domain: &Domain) -> Vec<u8> {
    let mut bytes = b"tensorgrid".to_vec();
    domain.chain.encode(&mut bytes);
    domain.genesis.encode(&mut bytes);
    bytes
}

/// The committee of a chain. Verifies certificates and evidence; cheap to clone.
#[derive(Clone)]
pub struct Committee {
    pub(crate) namespace: Vec<u8>,
    pub(crate) voters: Set<ed25519::PublicKey>,
    pub(crate) polynomial: Sharing<MinSig>,
    verifier: Threshold,
}

impl Committee {
    /// Reads the committee of a genesis.
    ///
    /// # Errors
    /// If its keys or its threshold key are unusable.
    pub fn new(genesis: &Genesis, domain: &Domain) -> Result<Self, CommitteeError> {
        let voters = voters(genesis.validators().iter().map(|seat| &seat.key))?;
        let config = (SEATS_MAX, ModeVersion::v0());
        let polynomial =
            Sharing::<MinSig>::decode_cfg(Copying(genesis.spec().polynomial.as_slice()), &config)
                .map_err(CommitteeError::Polynomial)?;
        let namespace = namespace(domain);
        let fits = polynomial.total().get() as usize == voters.len()
            && polynomial.public().encode()[..] == *genesis.spec().group_key.as_slice();
        if !fits {
            return Err(CommitteeError::Mismatch);
        }
        let verifier = Threshold::certificate_verifier(&namespace, *polynomial.public());
        Ok(Self { namespace, voters, polynomial, verifier })
    }

    /// The scheme a seat votes with; without a seat, one that only verifies.
    pub(crate) fn votes(&self, key: &SecretKey) -> Votes {
        Votes::signer(&self.namespace, self.voters.clone(), signer(key))
            .unwrap_or_else(|| Votes::verifier(&self.namespace, self.voters.clone()))
    }

    /// The scheme a seat certifies with; without a share, one that only verifies.
    pub(crate) fn threshold(&self, share: Option<&[u8]>) -> Result<Threshold, CommitteeError> {
        let (namespace, voters) = (&self.namespace, self.voters.clone());
        let Some(share) = share else {
            return Ok(Threshold::verifier(namespace, voters, self.polynomial.clone()));
        };
        let share = GroupShare::decode(Copying(share)).map_err(|_| CommitteeError::Share)?;
        Threshold::signer(namespace, voters, self.polynomial.clone(), share)
            .ok_or(CommitteeError::Share)
    }

    fn key_of(&self, participant: Participant) -> Option<PublicKey> {
        let key = self.voters.get(usize::from(participant))?;
        PublicKey::new(key.as_ref().try_into().ok()?).ok()
    }
}

/// What a light client needs to check certificates: the network's domain and group key.
#[derive(Clone)]
pub struct GroupVerifier(Threshold);

impl GroupVerifier {
    /// A verifier for the network whose genesis states this group key.
    #[must_use]
    pub fn new(domain: &Domain, group_key: &[u8]) -> Option<Self> {
        let key = GroupKey::decode(Copying(group_key)).ok()?;
        Some(Self(Threshold::certificate_verifier(&namespace(domain), key)))
    }
}

impl CertificateCheck for GroupVerifier {
    fn verify(&self, height: Height, digest: &HeaderDigest, certificate: &[u8]) -> bool {
        verify_certificate(&self.0, height, digest, certificate)
    }
}

impl CertificateCheck for Committee {
    fn verify(&self, height: Height, digest: &HeaderDigest, certificate: &[u8]) -> bool {
        verify_certificate(&self.verifier, height, digest, certificate)
    }
}

fn verify_certificate(
    verifier: &Threshold,
    height: Height,
    digest: &HeaderDigest,
    certificate: &[u8],
) -> bool {
    let Ok(certificate) = ThresholdCertificate::decode(Copying(certificate)) else { return false };
    let item = Item {
        height: ConsensusHeight::new(height.get()),
        digest: Digest::from(*digest.as_bytes()),
    };
    // One signature is checked by one pairing equation; the generator is only used for batches.
    let mut unused = StdRng::from_seed([0; 32]);
    Certificate::<Threshold, Digest> { item, certificate }.verify(
        &mut unused,
        verifier,
        &Sequential,
    )
}

/// Kinds of conflicting votes, as the first byte of evidence.
pub(crate) mod evidence_tag {
    pub(crate) const NOTARIZE: u8 = 1;
    pub(crate) const FINALIZE: u8 = 2;
    pub(crate) const NULLIFY_FINALIZE: u8 = 3;
}

impl EquivocationCheck for Committee {
    fn offender(&self, evidence: &[u8]) -> Option<PublicKey> {
        let (tag, body) = evidence.split_first()?;
        let scheme = Votes::verifier(&self.namespace, self.voters.clone());
        let mut unused = StdRng::from_seed([0; 32]);
        macro_rules! offender {
            ($kind:ident) => {{
                let conflict = $kind::<Votes, Digest>::decode(Copying(body)).ok()?;
                // Decoding skips nothing, so equal bytes mean that there is one form of evidence.
                let canonical = conflict.encode()[..] == *body;
                (canonical && conflict.verify(&mut unused, &scheme, &Sequential))
                    .then(|| conflict.signer())
            }};
        }
        let signer = match *tag {
            evidence_tag::NOTARIZE => offender!(ConflictingNotarize),
            evidence_tag::FINALIZE => offender!(ConflictingFinalize),
            evidence_tag::NULLIFY_FINALIZE => offender!(NullifyFinalize),
            _unknown => None,
        }?;
        self.key_of(signer)
    }
}
