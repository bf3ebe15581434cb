//! Money for trying things out, on networks whose genesis says that they are local.
//!
//! One task owns the faucet's key and nonces and serves orders one by one, so two orders never take
//! the same nonce. It signs ordinary transfers; the ledger knows nothing of faucets.

use super::{
    errors,
    limits::{
        FAUCET_ACCOUNT_ORDERS_MAX, FAUCET_AMOUNT_DEFAULT, FAUCET_AMOUNT_MAX, FAUCET_ORDERS_MAX,
        FAUCET_QUEUE_MAX, FAUCET_WINDOW,
    },
    submit::{Collector, Deadline, Verdict, result_of},
};
use crate::{
    client::TxPlan,
    rpc::{FaucetAnswer, FaucetParams, RpcError, Wait, code},
    text::{Tgrid, Units},
};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};
use tg_chain::Chain;
use tg_types::{AccountId, Action, Amount, Height, Lane, NetworkKind, SecretKey, bounded::Bytes};
use tokio::sync::{mpsc, oneshot};

/// A faucet.
#[derive(Debug)]
pub struct FaucetConfig {
    /// The account that pays.
    pub key: SecretKey,
}

struct Order {
    account: AccountId,
    amount: Amount,
    answer: oneshot::Sender<Result<Verdict, RpcError>>,
}

/// The way to the faucet.
#[derive(Clone)]
pub(super) struct Faucet(mpsc::Sender<Order>);

impl Faucet {
    /// A faucet and the task that must run for it; `None` on networks that have none.
    pub(super) fn new(
        config: FaucetConfig,
        chain: Chain,
        collector: Collector,
    ) -> Option<(Self, impl Future<Output = ()> + Send)> {
        if chain.genesis().spec().kind != NetworkKind::Local {
            return None;
        }
        let (sender, orders) = mpsc::channel(FAUCET_QUEUE_MAX);
        let limiter = Limiter::default();
        let task = Task { key: config.key, chain, collector, limiter };
        Some((Self(sender), task.run(orders)))
    }

    /// The method `faucet`.
    pub(super) async fn order(&self, params: FaucetParams) -> Result<FaucetAnswer, RpcError> {
        let amount = params.amount.map_or(FAUCET_AMOUNT_DEFAULT, |Tgrid(amount)| amount);
        if amount.is_zero() || amount > FAUCET_AMOUNT_MAX {
            let why =
                format!("{amount} asked, the faucet gives at most {FAUCET_AMOUNT_MAX} at once");
            return Err(errors::params(why, "ask for less, or several times"));
        }
        let (answer, answered) = oneshot::channel();
        let order = Order { account: params.account.0, amount, answer };
        match self.0.try_send(order) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(errors::busy()),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(errors::stopping()),
        }
        let verdict = answered.await.map_err(|_| errors::stopping())??;
        let verdict = match (params.wait, verdict) {
            (Wait::None, Verdict::Taken { id, .. }) => Verdict::Taken { id, outcome: None },
            (_, verdict) => verdict,
        };
        let result = result_of(verdict, false, &Deadline::new(None)).await;
        Ok(FaucetAnswer { amount: Tgrid(amount), amount_units: Units(amount), result })
    }
}

struct Task {
    key: SecretKey,
    chain: Chain,
    collector: Collector,
    limiter: Limiter,
}

impl Task {
    async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        while let Some(order) = orders.recv().await {
            let verdict = match self.limiter.admit(order.account, Instant::now()) {
                Ok(()) => self.pay(order.account, order.amount).await,
                Err(wait) => Err(too_often(wait)),
            };
            let _gone = order.answer.send(verdict);
        }
    }

    async fn pay(&self, to: AccountId, amount: Amount) -> Result<Verdict, RpcError> {
        let payer = AccountId::from(self.key.public());
        let lane = Lane::FIRST;
        let nonce = self.chain.next_nonce(&payer, lane).await.map_err(errors::chain)?;
        let status = self.chain.status().await.map_err(errors::chain)?;
        let plan = TxPlan {
            lane,
            nonce,
            height: status.tip.map_or(Height::ZERO, |(header, _)| header.height),
            idempotency: None,
            action: Action::Transfer { to, amount, memo: Bytes::EMPTY },
        };
        let (domain, genesis) = (self.chain.domain(), self.chain.genesis());
        let tx = plan.sign(&self.key, &domain, genesis.params());
        let tx = tx.map_err(|_| errors::internal("The faucet cannot compute its fee."))?;
        let mut verdicts = self.collector.submit(vec![tx], Wait::Final).await?;
        verdicts.pop().ok_or_else(errors::stopping)
    }
}

fn too_often(wait: Duration) -> RpcError {
    let sentence = "The faucet was asked too often.";
    let hint = format!("ask again in {} s", wait.as_secs() + 1);
    RpcError::new(code::REFUSED, "faucet_limit", sentence, hint)
}

pub(super) fn none() -> RpcError {
    let sentence = "This node has no faucet: it was given no key for one, or its network is open.";
    let hint = "on an open network, somebody has to send you TGRID";
    RpcError::new(code::REFUSED, "no_faucet", sentence, hint)
}

/// Counts the orders of the last window.
#[derive(Debug, Default)]
struct Limiter(VecDeque<(Instant, AccountId)>);

impl Limiter {
    /// Takes an order, or says how long to wait.
    fn admit(&mut self, account: AccountId, now: Instant) -> Result<(), Duration> {
        while self.0.front().is_some_and(|(at, _)| now.duration_since(*at) >= FAUCET_WINDOW) {
            self.0.pop_front();
        }
        let free_at = |at: &Instant| FAUCET_WINDOW.saturating_sub(now.duration_since(*at));
        if let Some((oldest, _)) = self.0.front().filter(|_| self.0.len() >= FAUCET_ORDERS_MAX) {
            return Err(free_at(oldest));
        }
        let mut own = self.0.iter().filter(|(_, asker)| *asker == account).peekable();
        let oldest = own.peek().map(|(at, _)| *at);
        if let Some(oldest) = oldest.filter(|_| own.count() >= FAUCET_ACCOUNT_ORDERS_MAX) {
            return Err(free_at(&oldest));
        }
        self.0.push_back((now, account));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{FAUCET_ACCOUNT_ORDERS_MAX, FAUCET_ORDERS_MAX, FAUCET_WINDOW, Limiter};
    use std::time::{Duration, Instant};
    use tg_types::AccountId;

    fn account(number: usize) -> AccountId {
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
        AccountId::new(bytes).expect("not a small-order key")
    }

    #[test]
    fn account_that_asks_too_often_waits_for_the_window() {
        let (mut limiter, start) = (Limiter::default(), Instant::now());
        for _ in 0..FAUCET_ACCOUNT_ORDERS_MAX {
            assert_eq!(limiter.admit(account(1), start), Ok(()));
        }
        let later = start + Duration::from_secs(10);
        assert_eq!(limiter.admit(account(1), later), Err(FAUCET_WINDOW - Duration::from_secs(10)));
        assert_eq!(limiter.admit(account(2), later), Ok(()));
        assert_eq!(limiter.admit(account(1), start + FAUCET_WINDOW), Ok(()));
    }

    #[test]
    fn faucet_that_is_asked_by_too_many_remembers_a_bounded_number() {
        let (mut limiter, start) = (Limiter::default(), Instant::now());
        for number in 0..2 * FAUCET_ORDERS_MAX {
            let admitted = limiter.admit(account(number), start);
            assert_eq!(admitted.is_ok(), number < FAUCET_ORDERS_MAX, "{number}");
        }
        assert_eq!(limiter.0.len(), FAUCET_ORDERS_MAX);
        assert_eq!(limiter.admit(account(0), start + FAUCET_WINDOW), Ok(()));
        assert_eq!(limiter.0.len(), 1);
    }
}
