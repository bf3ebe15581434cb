//! What a node announces to its peers.
//!
//! A message may be lost, and then only this node could build a block with what it said. So what
//! was announced and still waits a while later is announced again.

use std::{collections::VecDeque, sync::Arc};
use tg_types::{ids::TxId, tick::Height, tx::CheckedTx};

/// Final heights after which a transaction that still waits is announced again.
const PATIENCE: u64 = 16;

/// Transactions to announce, and those that were.
#[derive(Debug)]
pub(crate) struct Outbox {
    fresh: Vec<Arc<CheckedTx>>,
    /// What was announced, and at which height.
    announced: VecDeque<(Height, Arc<CheckedTx>)>,
    /// The most of each. What is beyond is not announced again.
    most: usize,
}

impl Outbox {
    pub(crate) const fn new(most: usize) -> Self {
        Self { fresh: Vec::new(), announced: VecDeque::new(), most }
    }

    /// How many were announced and are remembered, or will be.
    pub(crate) fn len(&self) -> usize {
        self.fresh.len() + self.announced.len()
    }

    pub(crate) fn push(&mut self, tx: Arc<CheckedTx>) {
        if self.fresh.len() < self.most {
            self.fresh.push(tx);
        }
    }

    /// Takes what is to be announced now: what is new, and what waits for long.
    pub(crate) fn due(
        &mut self,
        tip: Height,
        still_waits: impl Fn(&TxId) -> bool,
    ) -> Vec<Arc<CheckedTx>> {
        let mut due = std::mem::take(&mut self.fresh);
        let is_late = |at: Height| at.get().saturating_add(PATIENCE) <= tip.get();
        while let Some((_, tx)) = self.announced.pop_front_if(|(at, _)| is_late(*at)) {
            if still_waits(&tx.id()) {
                due.push(tx);
            }
        }
        self.announced.extend(due.iter().map(|tx| (tip, Arc::clone(tx))));
        let excess = self.announced.len().saturating_sub(self.most);
        self.announced.drain(..excess);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mempool::tests::tx;

    fn ids(txs: &[Arc<CheckedTx>]) -> Vec<TxId> {
        txs.iter().map(|tx| tx.id()).collect()
    }

    #[test]
    fn transaction_that_waits_for_long_is_announced_again() {
        let mut outbox = Outbox::new(10);
        let (waits, gone) = (tx(1, 0, 0, 1_000), tx(2, 0, 0, 1_000));
        outbox.push(Arc::clone(&waits));
        outbox.push(Arc::clone(&gone));
        let still_waits = |id: &TxId| *id == waits.id();
        let at = |height| Height::new(height);
        assert_eq!(ids(&outbox.due(at(5), still_waits)), [waits.id(), gone.id()]);
        assert_eq!(outbox.due(at(5 + PATIENCE - 1), still_waits), []);
        assert_eq!(ids(&outbox.due(at(5 + PATIENCE), still_waits)), [waits.id()]);
        assert_eq!(outbox.due(at(5 + PATIENCE), still_waits), []);
        assert_eq!(ids(&outbox.due(at(5 + 2 * PATIENCE), still_waits)), [waits.id()]);
    }

    #[test]
    fn outbox_is_bounded_while_the_chain_stands_still() {
        let mut outbox = Outbox::new(10);
        for nonce in 0..100 {
            outbox.push(tx(1, 0, nonce, 1_000));
            if nonce % 3 == 0 {
                outbox.due(Height::new(7), |_| true);
            }
        }
        assert!(outbox.len() <= 20);
    }
}
