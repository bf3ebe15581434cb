//! A client: an account that signs transactions and follows each until it is final, whatever
//! happens to the nodes it talks to.
//!
//! A client keeps one transaction per lane under way. It sends the same bytes again, to another
//! node, until it is told that they are final or finds that their place in the lane is taken.

use crate::{
    book::{Acknowledged, Book},
    world::Purse,
};
use commonware_runtime::{Clock as _, deterministic};
use rand::{RngExt as _, rngs::StdRng};
use std::time::{Duration, UNIX_EPOCH};
use tg_chain::Outcome;
use tg_sim::cluster::{Directory, Live};
use tg_types::{
    amount::Amount,
    codec::Decode,
    ids::{AccountId, IdempotencyId, StateKey, TxId},
    key::{Domain, SecretKey},
    reason::Reason,
    receipt::Status,
    tick::Height,
    tx::{Action, Lane, Nonce, SignedTx, TxBody},
};

/// Time between two moments at which clients act.
const BEAT_MS: u64 = 700;

/// Heights until a transaction expires: more than a run has.
const EXPIRES_AFTER: u64 = 900;

/// How long a node may take to accept a transaction before the client turns to another.
const OFFER_PATIENCE: Duration = Duration::from_millis(800);

/// Tries with one refused transaction before the client makes another one.
const REFUSALS_MAX: usize = 40;

/// How a transaction ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// A node said so.
    Acknowledged(TxId, Status),
    /// Nobody said so, but its place in the lane is taken, by itself or by a rival.
    Taken(TxId),
    /// It was refused and will not become final.
    Refused(Reason),
}

/// A client with one lane of one account.
pub(crate) struct Client {
    pub(crate) context: deterministic::Context,
    pub(crate) chance: StdRng,
    pub(crate) account: AccountId,
    secret: SecretKey,
    lane: Lane,
    nonce: Nonce,
    pub(crate) domain: Domain,
    directory: Directory,
    honest: Vec<usize>,
    pub(crate) book: Book,
}

impl Client {
    pub(crate) fn new(
        context: deterministic::Context,
        chance: StdRng,
        purse: &Purse,
        lane: u8,
        domain: Domain,
        (directory, honest): (Directory, Vec<usize>),
        book: Book,
    ) -> Self {
        Self {
            context,
            chance,
            account: purse.account,
            secret: purse.secret(),
            lane: Lane::new(lane).expect("a lane of an account"),
            nonce: Nonce::ZERO,
            domain,
            directory,
            honest,
            book,
        }
    }

    /// Waits a random while, in milliseconds.
    pub(crate) async fn pause(&mut self, millis: std::ops::Range<u64>) {
        let millis = self.chance.random_range(millis);
        self.context.sleep(Duration::from_millis(millis)).await;
    }

    /// Waits for one of the next beats. Clients act together, so that blocks hold several
    /// transactions and a run does not consist of blocks with one each.
    pub(crate) async fn next_beat(&mut self, beats: std::ops::Range<u64>) {
        let since = self.context.current().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(since.as_millis()).unwrap_or(0);
        let beat = now / BEAT_MS + self.chance.random_range(beats);
        let at = beat * BEAT_MS + self.chance.random_range(0..50);
        self.context.sleep(Duration::from_millis(at.saturating_sub(now))).await;
    }

    /// Whether clients should come to an end.
    pub(crate) fn is_closing(&self) -> bool {
        self.book.pages().is_closing
    }

    /// An amount of whole coins.
    pub(crate) fn coins(&mut self, coins: std::ops::Range<u64>) -> Amount {
        Amount::tgrid(self.chance.random_range(coins)).expect("below the cap")
    }

    /// A random honest node that is up.
    fn pick(&mut self) -> Option<(usize, Live)> {
        let up: Vec<usize> =
            self.honest.iter().copied().filter(|p| self.directory.live(*p).is_some()).collect();
        let place = *up.get(self.chance.random_range(0..up.len().max(1)))?;
        Some((place, self.directory.live(place)?))
    }

    /// Signs an action for the lane's next place.
    pub(crate) fn sign(&mut self, action: Action, idempotency: Option<[u8; 16]>) -> SignedTx {
        let body = TxBody {
            sender: self.account,
            lane: self.lane,
            nonce: self.nonce,
            expires: Height::new(self.book.height().get() + EXPIRES_AFTER),
            fee: Amount::constant(20_000 + self.chance.random_range(0..1_000)),
            idempotency: idempotency.map(IdempotencyId::new),
            action,
        };
        self.book.pages().submitted += 1;
        body.sign(&self.secret, &self.domain)
    }

    /// Signs an action and follows it to its end.
    pub(crate) async fn send(&mut self, action: Action, idempotency: Option<[u8; 16]>) -> Ended {
        let tx = self.sign(action, idempotency);
        self.follow(&tx).await
    }

    /// Hands a transaction to one node and does not look back.
    pub(crate) async fn toss(&mut self, tx: &SignedTx) {
        if let Some((_, live)) = self.pick() {
            let _whatever = self.offer(&live, tx).await;
        }
    }

    async fn offer(&self, live: &Live, tx: &SignedTx) -> Option<Result<TxId, Reason>> {
        let (chain, tx) = (live.chain.clone(), tx.clone());
        let offering = async move {
            let checked = match chain.check(vec![tx]).pop()? {
                Ok(checked) => checked,
                Err(reason) => return Some(Err(reason)),
            };
            chain.offer(vec![checked]).await.ok()?.pop()
        };
        self.context.timeout(OFFER_PATIENCE, offering).await.ok().flatten()
    }

    /// Sends the same transaction to one node after the other until it has ended.
    pub(crate) async fn follow(&mut self, tx: &SignedTx) -> Ended {
        let id = tx.id(&self.domain);
        let mut refusals = 0;
        loop {
            if let Some(taker) = self.book.taken(self.account, self.lane, self.nonce) {
                self.advance();
                return Ended::Taken(taker);
            }
            let Some((place, live)) = self.pick() else {
                self.pause(20..60).await;
                continue;
            };
            let outcome = live.chain.wait(id);
            match self.offer(&live, tx).await {
                Some(Ok(_) | Err(Reason::PoolDuplicate)) => {}
                Some(Err(reason)) => {
                    refusals += 1;
                    let waits = matches!(
                        reason,
                        Reason::NonceTooLow | Reason::PoolFull | Reason::PoolReplaced
                    );
                    if !waits && refusals > REFUSALS_MAX {
                        return Ended::Refused(reason);
                    }
                    self.pause(40..120).await;
                    continue;
                }
                None => continue,
            }
            let Some(outcome) = outcome else { continue };
            let patience = Duration::from_millis(self.chance.random_range(1_000..3_000));
            match self.context.timeout(patience, outcome).await {
                Ok(Ok(Outcome::Final { height, receipt })) => {
                    let receipt = *receipt;
                    let status = receipt.status;
                    let told = Acknowledged { place, height, receipt };
                    self.book.pages().acknowledged.push(told);
                    self.advance();
                    return Ended::Acknowledged(id, status);
                }
                Ok(Ok(Outcome::Dropped(reason @ Reason::IdempotencySeen))) => {
                    return Ended::Refused(reason);
                }
                // The node crashed, dropped it or takes too long: try another.
                Ok(Ok(Outcome::Dropped(_)) | Err(_)) | Err(_) => self.pause(10..40).await,
            }
        }
    }

    fn advance(&mut self) {
        self.nonce = self.nonce.next().expect("a run has few transactions");
    }

    /// An entry as a random honest node has it; absent if the node does not say.
    pub(crate) async fn entry<T>(&mut self, key: StateKey) -> Option<T>
    where
        T: Decode + Send + 'static,
    {
        let (_, live) = self.pick()?;
        let asking = async move { live.chain.entry(key).await.ok().flatten() };
        self.context.timeout(OFFER_PATIENCE, asking).await.ok().flatten()
    }

    /// The honest nodes that are up.
    pub(crate) fn nodes_up(&self) -> Vec<Live> {
        self.honest.iter().filter_map(|place| self.directory.live(*place)).collect()
    }
}
