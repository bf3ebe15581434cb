//! Where an owner hands out the keys of its packages, if validators have no shares of them.
//!
//! The owner is in the network as the peer that its account names, so that nodes find it. It keeps
//! no list: which key a job has follows from what the chain says of the job. Nor does it believe a
//! single validator, which could name a node of its own: as many must say that a node was chosen
//! as would have to release their shares otherwise. Seats of the genesis count, each once, by the
//! cards that they signed: a ticket can name as many peers as it likes. Who is looked up when many
//! ask is a matter of [`turns`].

mod turns;

use crate::client::Gateway;
use crate::door::is_chosen;
use crate::message::{Failure, Reply, Request};
use crate::package::{Whose, key_context};
use futures::future::BoxFuture;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tg_ledger::{JobEntry, keys};
use tg_net::{CallHandler, PeerId, ReplySender, ServeError};
use tg_privacy::{ContentKey, Randomness, WrapPublic, wrap};
use tg_types::{AccountId, Decode as _, Encode as _, JobId, NodeId};
use turns::Turns;

/// How often validators are told that the owner is here; several times in what they remember.
const HELLO_EVERY: Duration = Duration::from_secs(2);

/// Tells the key of a package.
pub type KeyByNonce = dyn Fn(&[u8; 16]) -> ContentKey + Send + Sync;

/// How an owner hands out keys.
pub struct KeyDesk {
    /// The validators, asked by the peer that the owner's account names.
    pub gateway: Arc<Gateway>,
    /// The key of a package, by the nonce in its job.
    pub key: Box<KeyByNonce>,
    /// Hears of every key that is handed out: of which job, to whom.
    pub tell: Box<dyn Fn(JobId, NodeId) + Send + Sync>,
    /// Where random numbers come from.
    pub random: fn() -> Option<[u8; 32]>,
}

/// A desk that answers calls.
struct OpenDesk {
    desk: KeyDesk,
    turns: Turns,
}

impl KeyDesk {
    /// Begins to answer, until the peer stops. Nodes find the desk as long as somebody says that it
    /// is [here](stay).
    ///
    /// # Errors
    /// If the peer serves already or has stopped.
    pub fn open(self) -> Result<(), ServeError> {
        let gateway = Arc::clone(&self.gateway);
        gateway.serve(Some(Arc::new(OpenDesk { desk: self, turns: Turns::new() })))
    }
}

/// Tells validators, again and again, where an owner is found.
pub async fn stay(gateway: Arc<Gateway>) {
    gateway.stay(HELLO_EVERY).await;
}

impl OpenDesk {
    async fn hand_out(
        &self,
        to: PeerId,
        job: JobId,
        wrap_key: &WrapPublic,
    ) -> Result<Reply, Failure> {
        let KeyDesk { gateway, key, tell, random } = &self.desk;
        let place = self.turns.enter(to).ok_or(Failure::Busy)?;
        if self.turns.should_list(&to, Instant::now()) {
            self.list_nodes().await;
        }
        let _turn = place.turn().await.ok_or(Failure::Busy)?;
        let owner = gateway.peer().id();
        let request = Request::Entry { key: keys::job(&job) };
        let wanted = |seat, reply| Some((seat, nonce(&reply, &owner, &to)?));
        let said = gateway.ask_seats(&request, Duration::ZERO, wanted).await;
        let nonce = agreed(&said, gateway.quorum()).ok_or(Failure::NotChosen)?;
        let key = key(&nonce);
        let owner = AccountId::new(*owner.as_bytes()).map_err(|_| Failure::Unavailable)?;
        let whose = Whose { genesis: gateway.domain().genesis, owner };
        let context = key_context(&whose, key.commitment());
        let random = random().ok_or(Failure::Busy)?;
        let key = wrap(&key, wrap_key, &context, Randomness::new(random));
        tell(job, NodeId::new(*to.as_bytes()));
        Ok(Reply::Key { key })
    }

    /// Asks all seats who is registered, and believes what one of them says that does not lie: so
    /// nobody puts strangers into the line of nodes, or a node among strangers.
    async fn list_nodes(&self) {
        let gateway = &self.desk.gateway;
        let wanted = |_, reply| {
            let Reply::Entries { entries } = reply else { return None };
            let ids = entries.as_slice().iter().map(|node| *node.id.as_bytes());
            Some(ids.filter_map(|id| PeerId::new(id).ok()).collect::<BTreeSet<PeerId>>())
        };
        let lists = gateway.ask_seats(&Request::Nodes, Duration::ZERO, wanted).await;
        let is_quorum = lists.len() >= gateway.quorum();
        match is_quorum.then(|| listed(&lists, gateway.honest_one())).flatten() {
            Some(nodes) => self.turns.list(nodes),
            None => tracing::debug!("too few seats tell which nodes there are"),
        }
    }
}

/// Those who are in so many lists; nothing if there are not so many lists.
fn listed(lists: &[BTreeSet<PeerId>], needed: usize) -> Option<BTreeSet<PeerId>> {
    let votes = |peer: &PeerId| lists.iter().filter(|list| list.contains(peer)).count();
    let peers = lists.iter().flatten().copied();
    (lists.len() >= needed).then(|| peers.filter(|peer| votes(peer) >= needed).collect())
}

/// The nonce of a job, if a validator says that it is the owner's and that this peer was chosen.
fn nonce(reply: &Reply, owner: &PeerId, peer: &PeerId) -> Option<[u8; 16]> {
    let Reply::Entry { bytes: Some(bytes) } = reply else { return None };
    let entry = JobEntry::from_bytes(bytes.as_slice()).ok()?;
    let is_so = entry.owner.as_bytes() == owner.as_bytes() && is_chosen(&entry, peer);
    is_so.then_some(entry.spec.result_key.nonce)
}

/// What so many seats say alike.
fn agreed(said: &[(usize, [u8; 16])], quorum: usize) -> Option<[u8; 16]> {
    let seats = |nonce: &[u8; 16]| {
        let alike = said.iter().filter(|(_, other)| other == nonce);
        alike.map(|(seat, _)| *seat).collect::<BTreeSet<usize>>().len()
    };
    said.iter().map(|(_, nonce)| *nonce).find(|nonce| seats(nonce) >= quorum)
}

impl CallHandler for OpenDesk {
    fn call(&self, from: PeerId, request: Vec<u8>, reply: ReplySender) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let answer = match Request::from_bytes(&request) {
                Ok(Request::Key { job, to }) => self.hand_out(from, job, &to).await,
                Ok(_) | Err(_) => Err(Failure::Malformed),
            };
            let answer = answer.unwrap_or_else(|why| Reply::Failed { why });
            let _left = reply.send(answer.to_bytes()).await;
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
