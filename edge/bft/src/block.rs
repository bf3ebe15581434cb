//! The block that consensus orders: our header and payload, wrapped in what the engine needs.
//!
//! The engine's digest commits to the payload's real bytes, so a peer cannot answer a request for a
//! block with the right header and other content. The *header* digest is separate: it is what the
//! committee certifies and what receipts are proven against.

use crate::{machine::PAYLOAD_BYTES_MAX, state::Digest};
use bytes::{BufMut, Bytes};
use commonware_codec::{
    Buf, EncodeSize, Error as CodecError, FixedSize as _, MaxEncodeSize as _, RangeCfg, Read,
    ReadExt as _, Write,
};
use commonware_consensus::{
    Block as ConsensusBlock, BoundedBlock, CertifiableBlock, Heightable,
    simplex::types::Context,
    types::{Epoch, Height, Round, View},
};
use commonware_cryptography::{
    Digest as _, Digested, Digestible, Hasher as _, Sha256, Signer as _, ed25519,
};
use commonware_storage::{
    mmr::{self, Location},
    qmdb::sync::Target,
};
use commonware_utils::range::NonEmptyRange;
use tg_types::{
    codec::{Decode as _, Encode as _},
    header::Header,
};

/// Encoded size of a header; headers have no variable part.
pub(crate) const HEADER_BYTES_MAX: usize = 256;

pub(crate) type ConsensusContext = Context<Digest, ed25519::PublicKey>;

/// A block as consensus sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) context: ConsensusContext,
    pub(crate) parent: Digest,
    pub(crate) header: Header,
    /// Root and range of the operation log, from which a late node syncs.
    pub(crate) ops_root: Digest,
    pub(crate) ops_range: NonEmptyRange<Location>,
    pub(crate) payload: Bytes,
}

impl Block {
    /// The block before the first one. Its state is empty; allocations are made by block 1.
    pub(crate) fn genesis(header: Header, empty: Target<mmr::Family, Digest>) -> Self {
        let context = Context {
            round: Round::new(Epoch::zero(), View::zero()),
            leader: ed25519::PrivateKey::from_seed(0).public_key(),
            parent: (View::zero(), Digest::EMPTY),
        };
        Self {
            context,
            parent: Digest::EMPTY,
            header,
            ops_root: empty.root,
            ops_range: empty.range,
            payload: Bytes::new(),
        }
    }

    pub(crate) fn into_digested(self) -> Digested<Self> {
        let digest = self.digest();
        Digested::precomputed(self, digest)
    }

    fn write_without_payload(&self, buf: &mut impl BufMut) {
        self.context.write(buf);
        self.parent.write(buf);
        Bytes::from(self.header.to_bytes()).write(buf);
        self.ops_root.write(buf);
        self.ops_range.write(buf);
    }
}

impl Write for Block {
    fn write(&self, buf: &mut impl BufMut) {
        self.write_without_payload(buf);
        self.payload.write(buf);
    }
}

impl EncodeSize for Block {
    fn encode_size(&self) -> usize {
        self.context.encode_size()
            + self.parent.encode_size()
            + Bytes::from(self.header.to_bytes()).encode_size()
            + self.ops_root.encode_size()
            + self.ops_range.encode_size()
            + self.payload.encode_size()
    }
}

impl Read for Block {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, CodecError> {
        let context = Context::read(buf)?;
        let parent = Digest::read(buf)?;
        let header = Bytes::read_cfg(buf, &RangeCfg::from(0..=HEADER_BYTES_MAX))?;
        let header = Header::from_bytes(&header)
            .map_err(|error| CodecError::Wrapped("Header", Box::new(error)))?;
        Ok(Self {
            context,
            parent,
            header,
            ops_root: Digest::read(buf)?,
            ops_range: NonEmptyRange::read(buf)?,
            payload: Bytes::read_cfg(buf, &RangeCfg::from(0..=PAYLOAD_BYTES_MAX))?,
        })
    }
}

impl Digestible for Block {
    type Digest = Digest;

    fn digest(&self) -> Digest {
        let mut head = Vec::with_capacity(512);
        self.write_without_payload(&mut head);
        let payload = Sha256::hash(&[&self.payload]);
        Sha256::hash(&[&head, &payload])
    }
}

impl Heightable for Block {
    fn height(&self) -> Height {
        Height::new(self.header.height.get())
    }
}

impl ConsensusBlock for Block {
    fn parent(&self) -> Digest {
        self.parent
    }
}

impl CertifiableBlock for Block {
    type Context = ConsensusContext;

    fn context(&self) -> ConsensusContext {
        self.context.clone()
    }
}

impl BoundedBlock for Block {
    fn max_encode_size((): &()) -> usize {
        ConsensusContext::MAX_ENCODE_SIZE
            + 2 * Digest::SIZE
            + HEADER_BYTES_MAX
            + NonEmptyRange::<Location>::MAX_ENCODE_SIZE
            + PAYLOAD_BYTES_MAX
            + 16 // two length prefixes
    }
}
