//! Proofs that the state holds, or does not hold, an entry under a key.

use crate::state::{CHUNK, Digest, Entry, EntryEncoding, Key, db_key};
use bytes::Bytes;
use commonware_codec::{Copying, Decode as _, Encode as _};
use commonware_cryptography::Sha256;
use commonware_storage::{
    mmr,
    qmdb::current::ordered::proof::constant::{ExclusionProof, KeyValueProof},
};
use tg_types::ids::{Hash32, StateKey};

/// Digests a proof may carry; a tree of 2^64 operations needs fewer.
const PROOF_DIGESTS_MAX: usize = 256;

pub(crate) type Presence = KeyValueProof<mmr::Family, Key, Digest, CHUNK>;
pub(crate) type Absence = ExclusionProof<mmr::Family, Key, EntryEncoding, Digest, CHUNK>;

/// An entry (or its absence) with the proof against the state root it was read under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenEntry {
    /// Root the proof is made against.
    pub state_root: Hash32,
    /// The entry's bytes, `None` if there is none.
    pub value: Option<Bytes>,
    /// The proof.
    pub proof: Bytes,
}

impl ProvenEntry {
    pub(crate) fn present(root: Digest, value: Entry, proof: &Presence) -> Self {
        Self { state_root: Hash32::new(root.0), value: Some(value.0), proof: proof.encode() }
    }

    pub(crate) fn absent(root: Digest, proof: &Absence) -> Self {
        Self { state_root: Hash32::new(root.0), value: None, proof: proof.encode() }
    }

    /// Whether the proof shows that `key` has this value (or none) under this state root.
    #[must_use]
    pub fn verify(&self, key: &StateKey) -> bool {
        let root = Digest::from(*self.state_root.as_bytes());
        let key = db_key(key);
        match &self.value {
            Some(value) => Presence::decode_cfg(Copying(&self.proof[..]), &(PROOF_DIGESTS_MAX, ()))
                .is_ok_and(|proof| {
                    let entry = Entry(value.clone());
                    proof.encode()[..] == self.proof[..]
                        && proof.verify::<Sha256, EntryEncoding>(key, entry, &root)
                }),
            None => {
                Absence::decode_cfg(Copying(&self.proof[..]), &(PROOF_DIGESTS_MAX, ((), ()), ()))
                    .is_ok_and(|proof| {
                        proof.encode()[..] == self.proof[..] && proof.verify::<Sha256>(&key, &root)
                    })
            }
        }
    }
}
