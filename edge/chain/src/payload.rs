//! What a block carries: certificates of earlier heights and transactions.
//!
//! Transactions stay in their signed bytes, each with its length, so that a block is decoded once
//! and hashed as it stands.

use bytes::Bytes;
use tg_bft::machine::PAYLOAD_BYTES_MAX;
use tg_types::{
    codec::{Decode, DecodeError, Encode, FORMAT_VERSION, Reader, encode_byte_string, encode_list},
    params::BLOCK_BYTES_MAX,
    tick::Height,
    tx::SignedTx,
};

/// Certificates in one block. A block must carry that of 32 heights before, so a few per block
/// catch up with any gap.
pub const CERTIFICATES_MAX: usize = 16;

/// Transactions in one block, whatever the ledger's parameters say.
pub const TXS_MAX: usize = 20_000;

/// Longest certificate, in bytes. A threshold signature has 48.
pub const CERTIFICATE_BYTES_MAX: usize = 128;

// Whatever the ledger's parameters, a block fits into the engine's messages.
const _: () = assert!(
    BLOCK_BYTES_MAX as usize + CERTIFICATES_MAX * (CERTIFICATE_BYTES_MAX + 16) + TXS_MAX * 4
        <= PAYLOAD_BYTES_MAX
);

/// A certificate with its height.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeightCertificate {
    /// The height it certifies.
    pub height: Height,
    /// The threshold signature.
    pub bytes: Bytes,
}

impl Encode for HeightCertificate {
    fn encode(&self, out: &mut Vec<u8>) {
        self.height.encode(out);
        encode_byte_string(&self.bytes, out);
    }
}

impl Decode for HeightCertificate {
    const BYTES_MIN: usize = 9;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let height = Height::decode(reader)?;
        let bytes = reader.byte_string(CERTIFICATE_BYTES_MAX)?;
        Ok(Self { height, bytes: Bytes::copy_from_slice(bytes) })
    }
}

/// The content of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Certificates of earlier heights, in order.
    pub certificates: Vec<HeightCertificate>,
    /// The transactions, in order.
    pub txs: Vec<SignedTx>,
}

impl Encode for Payload {
    fn encode(&self, out: &mut Vec<u8>) {
        FORMAT_VERSION.encode(out);
        encode_list(&self.certificates, out);
        encode_list(&self.txs, out);
    }
}

impl Decode for Payload {
    const BYTES_MIN: usize = 3;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        format_byte(reader)?;
        Ok(Self { certificates: reader.list(CERTIFICATES_MAX)?, txs: reader.list(TXS_MAX)? })
    }
}

/// Reads the byte that says in which format the rest is written.
pub(crate) fn format_byte(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let at = reader.position();
    let found = reader.byte()?;
    if found == FORMAT_VERSION {
        Ok(())
    } else {
        Err(DecodeError::Version { at, found, supported: FORMAT_VERSION })
    }
}
