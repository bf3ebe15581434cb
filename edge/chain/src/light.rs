//! What a stranger can check offline, knowing only a network's domain and group key.

use bytes::Bytes;
use tg_bft::committee::GroupVerifier;
pub use tg_bft::proof::ProvenEntry;
use tg_types::{
    codec::Encode as _, genesis::Genesis, header::Header, ids::StateKey, key::Domain, merkle,
    receipt::Receipt, traits::CertificateCheck as _,
};

/// A header with the committee's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertifiedHeader {
    /// The header.
    pub header: Header,
    /// Threshold signature over (height, header digest).
    pub certificate: Bytes,
}

/// A receipt with the path to its block's receipts root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptProof {
    /// Header of the block.
    pub header: Header,
    /// The receipt.
    pub receipt: Receipt,
    /// Path from the receipt to the header's receipts root.
    pub path: merkle::Proof,
}

/// An entry of the state, or its absence, proven against a header's state root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryProof {
    /// The header whose state root the proof is against.
    pub header: Header,
    /// The key.
    pub key: StateKey,
    /// The entry and its proof.
    pub entry: ProvenEntry,
}

/// Why something does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LightError {
    /// The network's group key is unusable.
    #[error("the network's group key cannot be read")]
    GroupKey,
    /// The certificate does not sign this header on this network.
    #[error("the certificate does not sign this header on this network")]
    Certificate,
    /// The receipt is not under the header's receipts root.
    #[error("the receipt is not under the header's receipts root")]
    Receipt,
    /// The entry is not under the header's state root.
    #[error("the entry is not under the header's state root")]
    Entry,
}

/// Knows one network and checks what claims to come from it.
#[derive(Clone)]
pub struct LightClient {
    domain: Domain,
    verifier: GroupVerifier,
}

impl LightClient {
    /// A client of the network with this domain and group key.
    ///
    /// # Errors
    /// If the group key is unusable.
    pub fn new(domain: Domain, group_key: &[u8]) -> Result<Self, LightError> {
        let verifier = GroupVerifier::new(&domain, group_key).ok_or(LightError::GroupKey)?;
        Ok(Self { domain, verifier })
    }

    /// A client of the network with this genesis.
    ///
    /// # Errors
    /// If its group key is unusable.
    pub fn of(genesis: &Genesis) -> Result<Self, LightError> {
        Self::new(genesis.domain(), genesis.spec().group_key.as_slice())
    }

    /// Checks that the committee certified a header.
    ///
    /// # Errors
    /// If the certificate does not fit.
    pub fn check_header(&self, header: &Header, certificate: &[u8]) -> Result<(), LightError> {
        let digest = header.digest(&self.domain);
        if self.verifier.verify(header.height, &digest, certificate) {
            Ok(())
        } else {
            Err(LightError::Certificate)
        }
    }

    /// Checks that a receipt is part of a certified block.
    ///
    /// # Errors
    /// If certificate or path do not fit.
    pub fn check_receipt(
        &self,
        proof: &ReceiptProof,
        certificate: &[u8],
    ) -> Result<(), LightError> {
        self.check_header(&proof.header, certificate)?;
        let root = &proof.header.receipts_root;
        if proof.path.verify(root, &proof.receipt.to_bytes()) {
            Ok(())
        } else {
            Err(LightError::Receipt)
        }
    }

    /// Checks that an entry is, or is not, part of a certified state.
    ///
    /// # Errors
    /// If certificate or proof do not fit.
    pub fn check_entry(&self, proof: &EntryProof, certificate: &[u8]) -> Result<(), LightError> {
        self.check_header(&proof.header, certificate)?;
        let fits = proof.entry.state_root == proof.header.state_root;
        if fits && proof.entry.verify(&proof.key) { Ok(()) } else { Err(LightError::Entry) }
    }
}
