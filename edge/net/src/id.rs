//! Names: peers by their public key, blobs by their content.

use iroh::EndpointId;
use std::fmt;
use std::str::FromStr;
use tg_types::{
    Decode, DecodeError, Encode, IdError, KeyError, NodeId, PublicKey, Reader, SecretKey,
};

/// A peer: the ed25519 public key with which it proves itself when a connection is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(PublicKey);

impl PeerId {
    /// The size of every id.
    pub const BYTES: usize = PublicKey::BYTES;

    /// From the bytes of a public key that can be used.
    ///
    /// # Errors
    /// If they are no point of the curve, or one for which anybody can sign.
    pub fn new(bytes: [u8; Self::BYTES]) -> Result<Self, KeyError> {
        let key = PublicKey::new(bytes)?;
        // The transport has its own reading of keys; an id is one that both read alike.
        match EndpointId::from_bytes(&bytes) {
            Ok(id) if *id.as_bytes() == bytes => Ok(Self(key)),
            Ok(_) | Err(_) => Err(KeyError::NotAPoint),
        }
    }

    /// The id of whoever holds this key.
    #[must_use]
    pub fn of(secret: &SecretKey) -> Self {
        let public = secret.public();
        Self::new(*public.as_bytes()).expect("the public key of a secret key can be used")
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        self.0.as_bytes()
    }

    /// The public key.
    #[must_use]
    pub const fn key(&self) -> PublicKey {
        self.0
    }

    pub(crate) fn endpoint(self) -> EndpointId {
        EndpointId::from_bytes(self.as_bytes()).expect("an id is read when it is made")
    }

    pub(crate) fn of_endpoint(id: EndpointId) -> Result<Self, KeyError> {
        Self::new(*id.as_bytes())
    }
}

impl From<PeerId> for NodeId {
    fn from(peer: PeerId) -> Self {
        Self::new(*peer.as_bytes())
    }
}

impl TryFrom<NodeId> for PeerId {
    type Error = KeyError;

    fn try_from(node: NodeId) -> Result<Self, KeyError> {
        Self::new(*node.as_bytes())
    }
}

impl FromStr for PeerId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let key: PublicKey = text.parse()?;
        Ok(Self::new(*key.as_bytes())?)
    }
}

impl Encode for PeerId {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for PeerId {
    const BYTES_MIN: usize = Self::BYTES;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = reader.array()?;
        Self::new(bytes).map_err(|source| DecodeError::Key { at: reader.position(), source })
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        short("PeerId", self.as_bytes(), f)
    }
}

/// A blob: the BLAKE3 hash of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId([u8; Self::BYTES]);

impl BlobId {
    /// The size of every id.
    pub const BYTES: usize = 32;

    /// From its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The id of these bytes.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        Self(*iroh_blobs::Hash::new(content).as_bytes())
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    pub(crate) fn hash(self) -> iroh_blobs::Hash {
        iroh_blobs::Hash::from_bytes(self.0)
    }

    pub(crate) fn of_hash(hash: iroh_blobs::Hash) -> Self {
        Self(*hash.as_bytes())
    }
}

impl FromStr for BlobId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut bytes = [0; Self::BYTES];
        let read = hex::decode_to_slice(text, &mut bytes);
        read.map(|()| Self(bytes)).map_err(|_| IdError::Hex { digits: 2 * Self::BYTES })
    }
}

impl Encode for BlobId {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

impl Decode for BlobId {
    const BYTES_MIN: usize = Self::BYTES;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.array().map(Self)
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        short("BlobId", &self.0, f)
    }
}

/// The type and the first four bytes, because logs are read by people.
fn short(name: &str, bytes: &[u8; 32], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let [first, second, third, fourth, ..] = bytes;
    write!(f, "{name}({first:02x}{second:02x}{third:02x}{fourth:02x}…)")
}
