//! Clients that offer transfers through the node's HTTP interface.
//!
//! Each client has a connection and senders of its own and goes round among them. A refused
//! transfer is offered again at its sender's next turn, as a patient client would, so nonces never
//! have gaps.

use crate::bench::{supply::Supply, tally::Tally};
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tg_api::{
    Client, ClientError,
    rpc::{SubmitParams, Submitted, Wait},
    text::Hex,
};
use tg_types::{Reason, TxId};

/// Clients, each with one connection.
pub(crate) const CLIENTS: usize = 4;

/// Transfers in one request when as many as possible are offered.
const BATCH: usize = 250;

/// How long a client rests when most of what it offered was refused.
const REST: Duration = Duration::from_millis(20);

/// How often a client with a fixed rate sends what is due.
const BEAT: Duration = Duration::from_millis(10);

/// How fast transfers are offered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// As many as the network takes.
    Most,
    /// This many per second over all clients, whatever becomes of them.
    PerSecond(u32),
}

/// One sender's place.
#[derive(Clone, Copy, Debug)]
struct Turn {
    sender: usize,
    nonce: usize,
}

/// One client.
pub(crate) struct Worker {
    client: Client,
    supply: Arc<Supply>,
    tally: Tally,
    turns: Vec<Turn>,
    next: usize,
}

/// Makes the clients and divides the senders among them.
#[must_use]
pub(crate) fn workers(
    client: &Client,
    supply: &Arc<Supply>,
    senders: usize,
    tally: &Tally,
) -> Vec<Worker> {
    let own = |number: usize| (number..senders).step_by(CLIENTS);
    let turns = |number| own(number).map(|sender| Turn { sender, nonce: 0 }).collect();
    (0..CLIENTS)
        .map(|number| Worker {
            client: client.clone(),
            supply: Arc::clone(supply),
            tally: tally.clone(),
            turns: turns(number),
            next: 0,
        })
        .collect()
}

/// Lets all clients offer transfers for a while. Ends early when the supply is used up.
///
/// # Errors
/// If a client loses the node.
pub(crate) fn offer(workers: &mut [Worker], pace: Pace, span: Duration) -> Result<(), ClientError> {
    thread::scope(|scope| {
        let started = Instant::now();
        let threads: Vec<_> = workers
            .iter_mut()
            .map(|worker| {
                scope.spawn(move || match pace {
                    Pace::Most => worker.offer_most(started, span),
                    Pace::PerSecond(rate) => worker.offer_steadily(started, span, rate),
                })
            })
            .collect();
        threads.into_iter().try_for_each(|it| it.join().expect("clients do not panic"))
    })
}

impl Worker {
    fn offer_most(&mut self, started: Instant, span: Duration) -> Result<(), ClientError> {
        while started.elapsed() < span {
            let offered = self.submit(BATCH)?;
            if offered.count == 0 {
                break;
            }
            if offered.accepted < offered.count / 2 {
                thread::sleep(REST);
            }
        }
        Ok(())
    }

    fn offer_steadily(
        &mut self,
        started: Instant,
        span: Duration,
        rate: u32,
    ) -> Result<(), ClientError> {
        let own_rate = u128::from(rate) / u128::try_from(CLIENTS).unwrap_or(1).max(1);
        let mut sent = 0usize;
        loop {
            let elapsed = started.elapsed();
            if elapsed >= span {
                return Ok(());
            }
            let due = usize::try_from(elapsed.as_micros() * own_rate / 1_000_000);
            let due = due.unwrap_or(usize::MAX).saturating_sub(sent).min(4 * BATCH);
            if due > 0 {
                let offered = self.submit(due)?;
                if offered.count == 0 {
                    return Ok(());
                }
                sent += offered.count;
            }
            thread::sleep(BEAT);
        }
    }

    /// Offers the next transfers of as many senders, each once; none if the supply is used up.
    fn submit(&mut self, count: usize) -> Result<Offered, ClientError> {
        let (mut places, mut txs) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for _ in 0..self.turns.len() {
            if txs.len() == count {
                break;
            }
            let place = self.next % self.turns.len();
            self.next = place + 1;
            let turn = self.turns.get(place).copied();
            let bytes = turn.and_then(|turn| self.supply.get(turn.sender, turn.nonce));
            if let Some(bytes) = bytes {
                places.push(place);
                txs.push(Hex(bytes.to_vec()));
            }
        }
        if txs.is_empty() {
            return Ok(Offered { count: 0, accepted: 0 });
        }
        let params = SubmitParams { txs, wait: Wait::None, timeout_ms: None, brief: true };
        let at = Instant::now();
        let answer = self.client.submit_with(&params)?;
        Ok(self.note(&places, answer.results, at))
    }

    fn note(&mut self, places: &[usize], results: Vec<Submitted>, at: Instant) -> Offered {
        let mut taken: Vec<TxId> = Vec::with_capacity(places.len());
        let mut refused = 0;
        for (place, result) in places.iter().zip(results) {
            let is_used = match &result {
                Submitted::Accepted { tx } => {
                    taken.push(tx.0);
                    true
                }
                // Taken by an earlier request whose answer was lost.
                Submitted::Refused { code, .. } => {
                    refused += 1;
                    code == Reason::PoolDuplicate.code() || code == Reason::NonceTooLow.code()
                }
                Submitted::Final { .. } | Submitted::Dropped { .. } | Submitted::Pending { .. } => {
                    false
                }
            };
            if let Some(turn) = self.turns.get_mut(*place).filter(|_| is_used) {
                turn.nonce += 1;
            }
        }
        let accepted = taken.len();
        self.tally.sent(taken, at);
        self.tally.refused(refused);
        Offered { count: places.len(), accepted }
    }
}

struct Offered {
    count: usize,
    accepted: usize,
}
