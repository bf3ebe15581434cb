//! The one door from a signed to a checked transaction.
//!
//! Signatures are checked in batches, which costs less than half of checking them one by one; the
//! batch is also where a transaction's id and size are computed, because the signed bytes are at
//! hand there.

use super::{SignedTx, TxBody, id_of};
use crate::ids::TxId;
use crate::key::{Batch, Domain, KeyPoints, Kind, Signature};
use crate::reason::Reason;

/// The most signatures of one equation: larger ones hardly gain, but one bad signature among them
/// costs more.
const BATCH_MAX: usize = 1024;

/// Why a transaction is refused before the ledger sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TxError {
    /// The signature does not fit sender, content and network.
    #[error("signature of transaction {id} does not fit its sender, content and network")]
    Signature {
        /// The transaction.
        id: TxId,
    },
}

impl TxError {
    /// The reason to report.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Signature { .. } => Reason::SignatureInvalid,
        }
    }
}

/// A transaction whose signature is known to be valid in one network, with its id and size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedTx {
    tx: SignedTx,
    id: TxId,
    size_bytes: u32,
}

impl CheckedTx {
    /// Takes a transaction from a finalised block without looking at its signature.
    ///
    /// A quorum has finalised the block, and every member checked the signatures before it voted;
    /// checking them again would double the work of replaying a chain and could not change what is
    /// final. Only call it for such blocks.
    pub fn from_finalised(tx: SignedTx, domain: &Domain) -> Self {
        let mut scratch = Scratch::new(domain);
        let (id, size_bytes) = scratch.write(&tx.body);
        Self { tx, id, size_bytes }
    }

    /// The transaction.
    pub const fn tx(&self) -> &SignedTx {
        &self.tx
    }

    /// What was signed.
    pub const fn body(&self) -> &TxBody {
        &self.tx.body
    }

    /// Its id.
    pub const fn id(&self) -> TxId {
        self.id
    }

    /// How many bytes the signed transaction takes.
    pub const fn size_bytes(&self) -> u32 {
        self.size_bytes
    }

    /// The transaction without its check.
    pub fn into_tx(self) -> SignedTx {
        self.tx
    }
}

/// Checks the signatures of `txs` in this network and answers in the same order.
///
/// The answers depend neither on `seed`, see [`crate::key::verify_batch`], nor on `points`, which
/// only spare work; the points of new senders are added to them.
pub fn check_batch(
    domain: &Domain,
    txs: Vec<SignedTx>,
    seed: [u8; 32],
    points: &mut KeyPoints,
) -> Vec<Result<CheckedTx, TxError>> {
    let mut scratch = Scratch::new(domain);
    let mut named = Vec::with_capacity(txs.len());
    let mut verdicts = Vec::with_capacity(txs.len());
    for chunk in txs.chunks(BATCH_MAX) {
        let mut batch = Batch::new(seed, chunk.len(), points);
        for tx in chunk {
            named.push(scratch.write(&tx.body));
            batch.push(tx.body.sender.as_bytes(), &scratch.message, &tx.signature);
        }
        verdicts.extend(batch.verdicts());
    }
    let answer = |((tx, (id, size_bytes)), is_valid)| {
        if is_valid { Ok(CheckedTx { tx, id, size_bytes }) } else { Err(TxError::Signature { id }) }
    };
    txs.into_iter().zip(named).zip(verdicts).map(answer).collect()
}

/// A buffer for signed messages: the network's part is written once, the body's again for every
/// transaction.
struct Scratch {
    message: Vec<u8>,
    opening_length: usize,
}

impl Scratch {
    fn new(domain: &Domain) -> Self {
        let message = domain.opening(Kind::Transaction);
        Self { opening_length: message.len(), message }
    }

    /// Writes the signed message of a body; gives the id and the size of the signed transaction.
    fn write(&mut self, body: &TxBody) -> (TxId, u32) {
        self.message.truncate(self.opening_length);
        body.encode_opened(&mut self.message);
        let size = self.message.len() - self.opening_length + Signature::BYTES;
        let size_bytes = u32::try_from(size).expect("a transaction is bounded to 16 KiB");
        (id_of(&self.message), size_bytes)
    }
}
