//! From an action to a signed transaction: fee, expiry and signature.

use tg_types::{
    Action, Amount, AmountError, Encode as _, Height, IdempotencyId, Lane, Nonce, Params,
    SecretKey, Signature, SignedTx, TxBody, key::Domain,
};

/// Blocks after which a transaction that was not taken expires, as far as the network allows: about
/// a minute of quick blocks, so that a lost transaction is soon known to be lost.
pub const EXPIRY_HEIGHTS: u64 = 600;

/// Why a transaction cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The fee is more than there can be.
    #[error("the fee of a transaction of {bytes} bytes cannot be computed")]
    Fee {
        /// The transaction's size.
        bytes: usize,
        /// Why.
        #[source]
        source: AmountError,
    },
}

/// A transaction to be made.
#[derive(Clone, Debug)]
pub struct TxPlan {
    /// In which sequence.
    pub lane: Lane,
    /// At which place of the sequence.
    pub nonce: Nonce,
    /// The network's height now.
    pub height: Height,
    /// A mark against sending the same thing twice.
    pub idempotency: Option<IdempotencyId>,
    /// What it asks for.
    pub action: Action,
}

impl TxPlan {
    /// Signs the transaction with the least fee and the usual expiry.
    ///
    /// # Errors
    /// If the fee would be above the cap.
    pub fn sign(
        self,
        secret: &SecretKey,
        domain: &Domain,
        params: &Params,
    ) -> Result<SignedTx, PlanError> {
        let ahead = EXPIRY_HEIGHTS.min(params.expiry_heights_max);
        let body = TxBody {
            sender: secret.public().into(),
            lane: self.lane,
            nonce: self.nonce,
            expires: Height::new(self.height.get().saturating_add(ahead)),
            fee: Amount::ZERO,
            idempotency: self.idempotency,
            action: self.action,
        };
        // Fees and signatures take the same bytes whatever they are, so the size is known before.
        let mut tx = SignedTx { body, signature: Signature::new([0; Signature::BYTES]) };
        let bytes = tx.to_bytes().len();
        let count = u32::try_from(bytes).unwrap_or(u32::MAX);
        let fee = tg_ledger::try_fee_floor(params, count, &tx.body.action);
        tx.body.fee = fee.map_err(|source| PlanError::Fee { bytes, source })?;
        Ok(tx.body.sign(secret, domain))
    }
}
