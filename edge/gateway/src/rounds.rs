//! Asking all validators at once, and saying to all of them that one is here. Some may be dead at
//! any time: nobody waits long for those, and no answer waits for theirs.

use crate::client::{Gateway, GatewayError, SILENCE, SLOW};
use crate::message::{Reply, Request};
use futures::future::{FutureExt as _, join_all};
use futures::stream::{FuturesUnordered, StreamExt as _};
use std::collections::BTreeSet;
use std::pin::pin;
use std::time::{Duration, Instant};
use tg_net::PeerId;
use tg_types::Encode as _;
use tokio::time::timeout;

/// How long a validator may take to answer a greeting before its connection is given up and made
/// anew. A validator that lives has then not seen us for a little longer.
const HELLO_WAIT: Duration = Duration::from_secs(2);

/// How long a round goes on when all have answered who are not silent.
#[derive(Clone, Copy)]
pub(crate) struct Waits {
    /// For more than a quorum.
    pub(crate) late: Duration,
    /// For a quorum.
    pub(crate) without_quorum: Duration,
}

impl Gateway {
    /// Tells all validators once that we are here, and where others find us. When a quorum has
    /// heard it, the others are waited for as long again, and so long at least.
    pub async fn hello(&self, late: Duration) {
        let started = Instant::now();
        let heard = self.ask_all(&self.greeting(), late, |from, _| Some(from)).await;
        if heard.len() < self.quorum() || started.elapsed() < SLOW {
            return; // they were not waited for long enough to be called silent
        }
        for (place, validator) in self.validators.iter().enumerate() {
            if !heard.contains(validator) {
                self.miss(place, *validator);
            }
        }
    }

    /// Tells all validators, again and again, that we are here, and where others find us. Each is
    /// told at its own pace: one that is gone keeps no other waiting. Does not end by itself.
    pub async fn stay(&self, every: Duration) {
        let tell = |(place, to): (usize, &PeerId)| {
            let to = *to;
            async move {
                loop {
                    self.tell(place, to).await;
                    tokio::time::sleep(every).await;
                }
            }
        };
        join_all(self.validators.iter().enumerate().map(tell)).await;
    }

    /// Tells one validator that we are here, and notes whether it has heard it.
    async fn tell(&self, place: usize, to: PeerId) {
        let mut telling = pin!(self.peer.call_within(to, self.greeting().to_bytes(), HELLO_WAIT));
        let told = match timeout(SLOW, &mut telling).await {
            Ok(told) => told,
            Err(_) => {
                self.roll.missed(to); // slow: others are asked first
                telling.await
            }
        };
        match told {
            Ok(_) => self.roll.heard(&to),
            Err(_) => self.miss(place, to),
        }
    }

    /// Notes that a validator was waited for in vain, and turns to another.
    fn miss(&self, place: usize, validator: PeerId) {
        self.roll.missed(validator);
        self.roll.turn_away(place);
    }

    /// Without a relay nobody can call us; that we ask shows that we are here.
    fn greeting(&self) -> Request {
        self.peer.home().map_or(Request::Status, |relay| Request::Hello { relay })
    }

    /// Asks all validators at once and collects what is wanted of their answers. When a quorum has
    /// answered, the others have as long again, and so long at least, unless they are silent.
    pub(crate) async fn ask_all<T>(
        &self,
        request: &Request,
        late: Duration,
        wanted: impl Fn(PeerId, Reply) -> Option<T>,
    ) -> Vec<T> {
        let wanted = &wanted;
        let ask = |to: PeerId| {
            let asked = self.ask_one(to, request).map(move |reply| {
                reply.and_then(|it| wanted(to, it).ok_or(GatewayError::Unexpected))
            });
            (to, asked)
        };
        let asked = self.validators.iter().copied().map(ask).collect();
        self.gather(asked, Waits { late, without_quorum: late }).await.0
    }

    /// As [`Self::ask_all`], of those who speak for a seat: each seat is asked once, and whoever
    /// has none does not count.
    pub(crate) async fn ask_seats<T>(
        &self,
        request: &Request,
        late: Duration,
        wanted: impl Fn(usize, Reply) -> Option<T>,
    ) -> Vec<T> {
        let mut doors = self.doors.known();
        if doors.len() < self.quorum() {
            // Doors may have been opened, or told, since we came.
            self.doors.learn(&self.peer, &self.validators).await;
            doors = self.doors.known();
        }
        let wanted = &wanted;
        let ask = |(seat, to): (usize, PeerId)| {
            let asked = async move {
                let asked = timeout(SILENCE, self.ask_one(to, request)).await;
                let reply = match asked.map_err(|_| GatewayError::Silent { after: SILENCE })? {
                    // That a seat does not know is an answer, too: nobody waits for another one.
                    Err(GatewayError::Refused(why)) => Reply::Failed { why },
                    reply => reply?,
                };
                let failed = if let Reply::Failed { why } = &reply {
                    GatewayError::Refused(*why)
                } else {
                    GatewayError::Unexpected
                };
                wanted(seat, reply).ok_or(failed)
            };
            (to, asked)
        };
        let asked = doors.into_iter().map(ask).collect();
        self.gather(asked, Waits { late, without_quorum: late }).await.0
    }

    /// Collects what all of them say and what the last one said that failed. When a quorum has
    /// answered, the others have as long again, and so long at least. Those who are silent are not
    /// waited for beside a quorum; if one of the others refuses, they have so long as is said, for
    /// they may be dead or merely slow. If too many are silent for a quorum, all are waited for.
    pub(crate) async fn gather<T>(
        &self,
        asked: Vec<(PeerId, impl Future<Output = Result<T, GatewayError>>)>,
        waits: Waits,
    ) -> (Vec<T>, Option<GatewayError>) {
        let started = Instant::now();
        let peers: BTreeSet<PeerId> = asked.iter().map(|(peer, _)| *peer).collect();
        let mut awaited: BTreeSet<PeerId> =
            peers.iter().copied().filter(|peer| !self.roll.is_silent(peer)).collect();
        if awaited.len() < self.quorum() {
            awaited = peers; // it may be we who were silent
        }
        let calls = asked.into_iter().map(|(peer, call)| async move { (peer, call.await) });
        let mut calls: FuturesUnordered<_> = calls.collect();
        let (mut found, mut failed, mut enough) = (Vec::new(), None, None::<Instant>);
        loop {
            let is_quorum = found.len() >= self.quorum();
            if enough.is_none() && (is_quorum || awaited.is_empty()) {
                enough = Some(Instant::now());
            }
            let left = enough.map_or(Duration::MAX, |enough| {
                let again = enough.duration_since(started);
                let more = match (is_quorum, awaited.is_empty()) {
                    (true, true) => again,
                    (true, false) => again.max(waits.late),
                    (false, _) => again.max(waits.without_quorum),
                };
                (enough + more).saturating_duration_since(Instant::now())
            });
            let Ok(Some((peer, answer))) = timeout(left, calls.next()).await else {
                return (found, failed);
            };
            awaited.remove(&peer);
            match answer {
                Ok(answer) => {
                    self.roll.heard(&peer);
                    found.push(answer);
                }
                Err(error) => {
                    tracing::debug!(%error, "a validator does not do what it is asked");
                    if matches!(error, GatewayError::Refused(_) | GatewayError::Unexpected) {
                        self.roll.heard(&peer);
                    }
                    failed = Some(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
