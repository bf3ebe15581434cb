//! What a transaction and a block did: receipts, provable for ever under a header's
//! `receipts_root`.

mod event;

pub use event::Event;

use crate::amount::Amount;
use crate::codec::{Decode, DecodeError, Encode, Reader, encode_list, encode_opening};
use crate::ids::TxId;
use crate::key::Kind;
use crate::reason::Reason;
use crate::tick::Height;

/// How a transaction in a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It did what it asked for.
    Applied,
    /// It paid its fee and did nothing else, for this reason.
    Failed(Reason),
}

impl Status {
    /// The reason of either ending.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Applied => Reason::Applied,
            Self::Failed(reason) => *reason,
        }
    }
}

impl Encode for Status {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Applied => out.push(1),
            Self::Failed(reason) => {
                out.push(2);
                reason.encode(out);
            }
        }
    }
}

impl Decode for Status {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.position();
        match reader.byte()? {
            1 => Ok(Self::Applied),
            2 => Reason::decode(reader).map(Self::Failed),
            found => Err(DecodeError::Tag { at, found: found.into(), expected: "Status" }),
        }
    }
}

/// What one transaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The transaction.
    pub tx: TxId,
    /// Its place in the block.
    pub index: u32,
    /// How it ended.
    pub status: Status,
    /// The fee it paid.
    pub fee: Amount,
    /// What happened, in order.
    pub events: Vec<Event>,
}

impl Receipt {
    /// No action causes more. A transaction that opens 64 answers comes closest: each may settle a
    /// job with its provider and 16 checkers.
    pub const EVENTS_MAX: usize = 2_048;
}

impl Encode for Receipt {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_opening(Kind::Receipt, out);
        self.tx.encode(out);
        self.index.encode(out);
        self.status.encode(out);
        self.fee.encode(out);
        encode_list(&self.events, out);
    }
}

impl Decode for Receipt {
    const BYTES_MIN: usize = 2 + 32 + 4 + Status::BYTES_MIN + 8 + 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.opening(Kind::Receipt)?;
        Ok(Self {
            tx: TxId::decode(reader)?,
            index: u32::decode(reader)?,
            status: Status::decode(reader)?,
            fee: Amount::decode(reader)?,
            events: reader.list(Self::EVENTS_MAX)?,
        })
    }
}

/// What a block did by itself: what fell due, beacons, fees. The last leaf under `receipts_root`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockReceipt {
    /// The block.
    pub height: Height,
    /// What happened, in order.
    pub events: Vec<Event>,
}

impl BlockReceipt {
    /// No block causes more. What falls due counts most: with the largest parameters 8,192 absent
    /// nodes lose 256 runs each. Each run says so and may end a job; one of a gang of 16 ends 16,
    /// with two events for each that is paid. The genesis has 131,072 allocations.
    pub const EVENTS_MAX: usize = 1 << 23;
}

impl Encode for BlockReceipt {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_opening(Kind::BlockReceipt, out);
        self.height.encode(out);
        encode_list(&self.events, out);
    }
}

impl Decode for BlockReceipt {
    const BYTES_MIN: usize = 2 + 8 + 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.opening(Kind::BlockReceipt)?;
        Ok(Self { height: Height::decode(reader)?, events: reader.list(Self::EVENTS_MAX)? })
    }
}
