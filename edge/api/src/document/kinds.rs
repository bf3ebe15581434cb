//! The four kinds of documents: how each is made from typed values, and how those are got back.

use super::{DocumentError, FORMAT, check_format, check_same};
use crate::{
    text::{Hex, Text},
    view::{EntryView, HeaderView, ReceiptView},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tg_chain::light::{
    CertifiedHeader, EntryProof, LightClient, LightError, ProvenEntry, ReceiptProof,
};
use tg_types::{
    ChainId, Decode as _, DecodeError, Encode as _, Genesis, GenesisHash, Header, NetworkKind,
    Noun, Receipt, StateKey, key::Domain, merkle,
};

fn decode<T>(
    field: &'static str,
    bytes: &Hex,
    read: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
) -> Result<T, DocumentError> {
    read(&bytes.0).map_err(|source| DocumentError::Bytes { field, source })
}

fn read_header(view: &HeaderView) -> Result<Header, DocumentError> {
    decode("header", &view.bytes, Header::from_bytes)
}

/// A header with the committee's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateDocument {
    /// Format of the document.
    pub format: u32,
    /// The network's name.
    pub chain: Text<ChainId>,
    /// The network's genesis.
    pub genesis: Text<GenesisHash>,
    /// The header.
    pub header: HeaderView,
    /// The committee's threshold signature over height and header digest.
    pub certificate: Hex,
}

impl CertificateDocument {
    /// The document of a certified header.
    #[must_use]
    pub fn new(certified: &CertifiedHeader, domain: &Domain) -> Self {
        Self {
            format: FORMAT,
            chain: Text(domain.chain),
            genesis: Text(domain.genesis),
            header: HeaderView::new(&certified.header, domain),
            certificate: Hex(certified.certificate.to_vec()),
        }
    }

    /// The network it names.
    #[must_use]
    pub const fn domain(&self) -> Domain {
        Domain { chain: self.chain.0, genesis: self.genesis.0 }
    }

    /// The typed content, after checking that readable fields agree with the bytes.
    ///
    /// # Errors
    /// If they do not, or the bytes cannot be read.
    pub fn content(&self) -> Result<CertifiedHeader, DocumentError> {
        check_format(self.format)?;
        let certified = CertifiedHeader {
            header: read_header(&self.header)?,
            certificate: Bytes::copy_from_slice(&self.certificate.0),
        };
        check_same(self, &Self::new(&certified, &self.domain()))?;
        Ok(certified)
    }
}

/// The key of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyView {
    /// What the entry is about.
    pub noun: Text<Noun>,
    /// Its id within the noun.
    pub id: Hex,
    /// The whole key.
    pub bytes: Text<StateKey>,
}

impl KeyView {
    fn new(key: StateKey) -> Self {
        Self { noun: Text(key.noun()), id: Hex(key.id().to_vec()), bytes: Text(key) }
    }
}

/// An entry of the state, or its absence, with the proof, the header and the certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProofDocument {
    /// Format of the document.
    pub format: u32,
    /// The network's name.
    pub chain: Text<ChainId>,
    /// The network's genesis.
    pub genesis: Text<GenesisHash>,
    /// The entry's key.
    pub key: KeyView,
    /// Whether there is an entry.
    pub present: bool,
    /// The entry in readable form, if there is one.
    pub entry: Option<EntryView>,
    /// The entry's bytes, if there is one.
    pub value: Option<Hex>,
    /// The proof against the header's state root.
    pub proof: Hex,
    /// The header.
    pub header: HeaderView,
    /// The committee's certificate of the header.
    pub certificate: Hex,
}

impl ProofDocument {
    /// The document of a proven entry, or of its absence.
    ///
    /// # Errors
    /// If the entry's bytes are not an entry of the key's noun.
    pub fn new(
        proof: &EntryProof,
        certificate: &[u8],
        domain: &Domain,
    ) -> Result<Self, DocumentError> {
        let value = proof.entry.value.as_ref();
        let entry = value.map(|bytes| EntryView::new(&proof.key, bytes)).transpose();
        Ok(Self {
            format: FORMAT,
            chain: Text(domain.chain),
            genesis: Text(domain.genesis),
            key: KeyView::new(proof.key),
            present: value.is_some(),
            entry: entry.map_err(|source| DocumentError::Bytes { field: "value", source })?,
            value: value.map(|bytes| Hex(bytes.to_vec())),
            proof: Hex(proof.entry.proof.to_vec()),
            header: HeaderView::new(&proof.header, domain),
            certificate: Hex(certificate.to_vec()),
        })
    }

    /// The network it names.
    #[must_use]
    pub const fn domain(&self) -> Domain {
        Domain { chain: self.chain.0, genesis: self.genesis.0 }
    }

    /// The typed content, after checking that readable fields agree with the bytes.
    ///
    /// # Errors
    /// If they do not, or the bytes cannot be read.
    pub fn content(&self) -> Result<(EntryProof, Bytes), DocumentError> {
        check_format(self.format)?;
        let header = read_header(&self.header)?;
        let entry = ProvenEntry {
            state_root: header.state_root,
            value: self.value.as_ref().map(|value| Bytes::copy_from_slice(&value.0)),
            proof: Bytes::copy_from_slice(&self.proof.0),
        };
        let proof = EntryProof { header, key: self.key.bytes.0, entry };
        check_same(self, &Self::new(&proof, &self.certificate.0, &self.domain())?)?;
        Ok((proof, Bytes::copy_from_slice(&self.certificate.0)))
    }
}

/// A path from a receipt to the root of its block's receipts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathView {
    /// Which leaf.
    pub index: u64,
    /// Of how many.
    pub count: u64,
    /// The path's canonical bytes.
    pub bytes: Hex,
}

/// A receipt with its path, the header and the certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptDocument {
    /// Format of the document.
    pub format: u32,
    /// The network's name.
    pub chain: Text<ChainId>,
    /// The network's genesis.
    pub genesis: Text<GenesisHash>,
    /// The receipt.
    pub receipt: ReceiptView,
    /// Its path to the header's receipts root.
    pub path: PathView,
    /// The header.
    pub header: HeaderView,
    /// The committee's certificate of the header.
    pub certificate: Hex,
}

impl ReceiptDocument {
    /// The document of a proven receipt.
    #[must_use]
    pub fn new(proof: &ReceiptProof, certificate: &[u8], domain: &Domain) -> Self {
        Self {
            format: FORMAT,
            chain: Text(domain.chain),
            genesis: Text(domain.genesis),
            receipt: ReceiptView::new(&proof.receipt),
            path: PathView {
                index: proof.path.index(),
                count: proof.path.count(),
                bytes: Hex(proof.path.to_bytes()),
            },
            header: HeaderView::new(&proof.header, domain),
            certificate: Hex(certificate.to_vec()),
        }
    }

    /// The network it names.
    #[must_use]
    pub const fn domain(&self) -> Domain {
        Domain { chain: self.chain.0, genesis: self.genesis.0 }
    }

    /// The typed content, after checking that readable fields agree with the bytes.
    ///
    /// # Errors
    /// If they do not, or the bytes cannot be read.
    pub fn content(&self) -> Result<(ReceiptProof, Bytes), DocumentError> {
        check_format(self.format)?;
        let proof = ReceiptProof {
            header: read_header(&self.header)?,
            receipt: decode("receipt", &self.receipt.bytes, Receipt::from_bytes)?,
            path: decode("path", &self.path.bytes, merkle::Proof::from_bytes)?,
        };
        check_same(self, &Self::new(&proof, &self.certificate.0, &self.domain()))?;
        Ok((proof, Bytes::copy_from_slice(&self.certificate.0)))
    }
}

/// What a network is for, as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkWord {
    /// One machine or friends.
    Local,
    /// Strangers.
    Open,
}

impl From<NetworkKind> for NetworkWord {
    fn from(kind: NetworkKind) -> Self {
        match kind {
            NetworkKind::Local => Self::Local,
            NetworkKind::Open => Self::Open,
        }
    }
}

/// A network: what a stranger must have from a trusted place to check everything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkDocument {
    /// Format of the document.
    pub format: u32,
    /// The network's name.
    pub chain: Text<ChainId>,
    /// The network's genesis.
    pub genesis: Text<GenesisHash>,
    /// What the network is for.
    pub network: NetworkWord,
    /// The public key of the committee's threshold signature.
    pub group_key: Hex,
    /// The whole genesis in canonical bytes, if it is included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub genesis_bytes: Option<Hex>,
}

impl NetworkDocument {
    /// The document of a network, short.
    #[must_use]
    pub fn new(genesis: &Genesis) -> Self {
        Self {
            format: FORMAT,
            chain: Text(genesis.chain()),
            genesis: Text(genesis.hash()),
            network: genesis.spec().kind.into(),
            group_key: Hex(genesis.spec().group_key.as_slice().to_vec()),
            genesis_bytes: None,
        }
    }

    /// The document of a network with its whole genesis.
    #[must_use]
    pub fn with_genesis(genesis: &Genesis) -> Self {
        Self { genesis_bytes: Some(Hex(genesis.to_bytes())), ..Self::new(genesis) }
    }

    /// Where signatures of this network count.
    #[must_use]
    pub const fn domain(&self) -> Domain {
        Domain { chain: self.chain.0, genesis: self.genesis.0 }
    }

    /// The genesis, if it is included, after checking that the other fields agree with it.
    ///
    /// # Errors
    /// If they do not, or the bytes cannot be read.
    pub fn read_genesis(&self) -> Result<Option<Genesis>, DocumentError> {
        check_format(self.format)?;
        let Some(bytes) = &self.genesis_bytes else { return Ok(None) };
        let genesis = decode("genesis_bytes", bytes, Genesis::from_bytes)?;
        check_same(self, &Self::with_genesis(&genesis))?;
        Ok(Some(genesis))
    }

    /// Checks that the fields agree with the genesis, if it is included.
    ///
    /// # Errors
    /// If they do not, or the bytes cannot be read.
    pub fn check(&self) -> Result<(), DocumentError> {
        self.read_genesis().map(|_| ())
    }

    /// Someone who can check what claims to come from this network.
    ///
    /// # Errors
    /// If its group key is unusable.
    pub fn light_client(&self) -> Result<LightClient, LightError> {
        LightClient::new(self.domain(), &self.group_key.0)
    }
}
