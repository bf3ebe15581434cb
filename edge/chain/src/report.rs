//! Putting double votes on chain: whoever sees the evidence pays a small fee and earns the bounty.

use crate::chain::{Chain, ChainError};
use std::time::Duration;
use tg_ledger::fee_floor;
use tg_types::{
    amount::Amount,
    bounded::Bytes,
    ids::AccountId,
    key::SecretKey,
    tick::Height,
    tx::{Action, CheckedTx, LANES_MAX, Lane, SignedTx, TxBody},
};

/// How often a node looks for evidence it has seen.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Heights after which an unsent report is worthless; somebody else has reported by then.
const REPORT_HEIGHTS: u64 = 500;

impl Chain {
    /// Signs a transaction at the fee floor, valid for some heights from now, with the next nonce
    /// of the lane.
    ///
    /// # Errors
    /// If the node stopped or the account cannot be read.
    pub async fn sign(
        &self,
        key: &SecretKey,
        lane: Lane,
        action: Action,
        heights: u64,
    ) -> Result<SignedTx, ChainError> {
        let sender = AccountId::from(key.public());
        let nonce = self.next_nonce(&sender, lane).await?;
        let tip = self.tip().map_or(0, |(header, _)| header.height.get());
        let params = self.genesis().params();
        let expires = Height::new(tip + heights.min(params.expiry_heights_max));
        let (fee, idempotency, domain) = (Amount::ZERO, None, self.domain());
        let mut body = TxBody { sender, lane, nonce, expires, fee, idempotency, action };
        // The size does not depend on the fee, so the floor can be told from a first draft.
        let draft = CheckedTx::from_finalised(body.clone().sign(key, &domain), &domain);
        body.fee = fee_floor(params, draft.size_bytes(), &body.action);
        Ok(body.sign(key, &domain))
    }

    /// Puts evidence that this node has seen on chain, in the name of `key`. Returns how many
    /// pieces the pool took.
    ///
    /// # Errors
    /// If the node stopped or its state cannot be read.
    pub async fn report_evidence(&self, key: &SecretKey) -> Result<usize, ChainError> {
        let lane = Lane::new(LANES_MAX - 1).expect("the last lane exists");
        let mut taken = 0;
        for evidence in self.take_evidence() {
            let Ok(evidence) = Bytes::new(evidence.to_vec()) else { continue };
            let action = Action::SubmitEvidence { evidence };
            let tx = self.sign(key, lane, action, REPORT_HEIGHTS).await?;
            let checked = self.check(vec![tx]).into_iter().flatten().collect();
            taken += self.offer(checked).await?.iter().filter(|result| result.is_ok()).count();
        }
        Ok(taken)
    }

    /// Reports evidence as it is seen, until the node stops.
    pub(crate) async fn keep_reporting(self, key: SecretKey) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            match self.report_evidence(&key).await {
                Ok(0) => {}
                Ok(count) => tracing::warn!(count, "reported double votes"),
                Err(ChainError::Stopped(_)) => return,
                Err(error) => tracing::error!(%error, "cannot report double votes"),
            }
        }
    }
}
