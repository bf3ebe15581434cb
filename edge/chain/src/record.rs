//! What a node keeps about a final block beside its payload: the receipts.

use crate::payload::format_byte;
use tg_types::{
    codec::{Decode, DecodeError, Encode, FORMAT_VERSION, Reader, encode_list},
    ids::TxId,
    merkle,
    receipt::{BlockReceipt, Event, Receipt},
};

/// The receipts of a block, in the order of the receipts tree: transactions first, then the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// One receipt per transaction.
    pub receipts: Vec<Receipt>,
    /// What the block itself did: expiries, releases, fees, beacons.
    pub block: BlockReceipt,
}

impl Record {
    /// All events of the block in order, each with the transaction that caused it; `None` for what
    /// the block did by itself.
    pub fn events(&self) -> impl Iterator<Item = (Option<TxId>, &Event)> {
        let caused = self.receipts.iter();
        let caused =
            caused.flat_map(|receipt| receipt.events.iter().map(|it| (Some(receipt.tx), it)));
        caused.chain(self.block.events.iter().map(|event| (None, event)))
    }

    /// The receipt of the transaction at a position, with its path to the receipts root.
    #[must_use]
    pub fn prove(&self, index: u32) -> Option<(&Receipt, merkle::Proof)> {
        let position = usize::try_from(index).ok()?;
        let receipt = self.receipts.get(position)?;
        let mut leaves: Vec<Vec<u8>> = self.receipts.iter().map(Encode::to_bytes).collect();
        leaves.push(self.block.to_bytes());
        let proof = merkle::Proof::prove(&leaves, position)?;
        Some((receipt, proof))
    }
}

impl Encode for Record {
    fn encode(&self, out: &mut Vec<u8>) {
        FORMAT_VERSION.encode(out);
        encode_list(&self.receipts, out);
        self.block.encode(out);
    }
}

impl Decode for Record {
    const BYTES_MIN: usize = 4;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        format_byte(reader)?;
        Ok(Self {
            receipts: reader.list(crate::payload::TXS_MAX)?,
            block: BlockReceipt::decode(reader)?,
        })
    }
}
