//! The answering side, at a validator.

use crate::message::{EVENTS_MAX, EventList, Failure, LISTED_MAX, ListedEntry, Reply, Request};
use crate::package::{PACKAGE_BYTES_MAX, Package, share_context};
use crate::presence::Seen;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tg_chain::{Chain, FinalReceipts, Outcome};
use tg_ledger::{JobEntry, NodeEntry, keys};
use tg_net::{
    BlobId, CallHandler, FetchOrder, Peer, PeerId, Readers, ReplySender, ServeError, Services,
    ShareList,
};
use tg_privacy::{Randomness, Share, ShareBook, WrapContext, WrapPublic, WrapSecret, wrap_share};
use tg_types::{
    AccountId, Action, Amount, Bytes, CheckedTx, Decode, Encode, Hash32, JobId, JobStatus, Lane,
    List, Memo, NodeId, Noun, SecretKey, SignedTx, TxBody,
};

/// Bytes of packages that are kept for one peer.
const KEPT_PER_PEER_MAX: u64 = 1 << 30;

/// Packages whose share is kept at hand.
const SHARES_MAX: usize = 4_096;

/// The lane in which trial money is sent, so that other senders are not in the way.
const FAUCET_LANE: u8 = 7;

/// What trial money costs to send: above the floor for a transfer.
const FAUCET_FEE: Amount = Amount::constant(50_000);

/// The most trial money for one request.
const FAUCET_MAX: Amount = Amount::constant(1_000_000_000_000);

/// What a door needs.
pub struct DoorConfig {
    /// The validator's chain.
    pub chain: Chain,
    /// The validator in the network of peers.
    pub peer: Peer,
    /// Its place among the seats.
    pub seat: usize,
    /// The key to which shares are wrapped.
    pub wrap: WrapSecret,
    /// The key that has trial money, on local networks.
    pub faucet: Option<SecretKey>,
    /// Where random numbers come from.
    pub random: fn() -> Option<[u8; 32]>,
}

/// Why a door does not open.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// The peer does not serve.
    #[error("calls cannot be answered")]
    Serve(#[from] ServeError),
}

/// A validator's door: it answers until the peer stops.
#[derive(Clone)]
pub struct Door {
    shared: Arc<Shared>,
}

struct Shared {
    config: DoorConfig,
    shares_list: Arc<ShareList>,
    /// What is kept for whom. A lock, because calls come from any task and hold it briefly.
    kept: Mutex<BTreeMap<PeerId, u64>>,
    /// Shares that were looked up. A lock, for the same reason.
    shares: Mutex<BTreeMap<BlobId, (Share, WrapContext)>>,
    seen: Seen,
    /// Whose turn it is to be given trial money: its transactions must not overtake each other.
    faucet_turn: tokio::sync::Mutex<()>,
}

impl Door {
    /// Opens the door.
    ///
    /// # Errors
    /// If the peer serves already or has stopped.
    pub fn open(config: DoorConfig) -> Result<Self, DoorError> {
        let peer = config.peer.clone();
        let shares_list = Arc::new(ShareList::default());
        let blobs: Arc<dyn tg_net::BlobGate> = shares_list.clone();
        let shared = Arc::new(Shared {
            config,
            shares_list,
            kept: Mutex::default(),
            shares: Mutex::default(),
            seen: Seen::default(),
            faucet_turn: tokio::sync::Mutex::default(),
        });
        let door = Self { shared };
        peer.serve(Services { calls: Some(Arc::new(door.clone())), blobs: Some(blobs) })?;
        Ok(door)
    }

    /// When peers were last heard of.
    #[must_use]
    pub fn seen(&self) -> &Seen {
        &self.shared.seen
    }
}

impl CallHandler for Door {
    fn call(&self, from: PeerId, request: Vec<u8>, reply: ReplySender) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.seen.note(from);
            let Ok(request) = Request::from_bytes(&request) else {
                send(&reply, &failed(Failure::Malformed)).await;
                return;
            };
            if request == Request::Follow {
                self.shared.follow(&reply).await;
                return;
            }
            let answer = match self.shared.answer(from, request).await {
                Ok(answer) => answer,
                Err(why) => failed(why),
            };
            send(&reply, &answer).await;
        })
    }
}

const fn failed(why: Failure) -> Reply {
    Reply::Failed { why }
}

/// Sends an answer; whoever left does not need it.
async fn send(reply: &ReplySender, answer: &Reply) {
    if let Err(error) = reply.send(answer.to_bytes()).await {
        tracing::debug!(%error, "an answer was not sent");
    }
}

impl Shared {
    async fn answer(&self, from: PeerId, request: Request) -> Result<Reply, Failure> {
        match request {
            Request::Status => self.status(),
            Request::Hello { relay } => {
                self.seen.place(from, relay);
                Ok(Reply::Done)
            }
            Request::Entry { key } => {
                let bytes = self.config.chain.raw_entry(key).await.map_err(|_| Failure::Busy)?;
                let bytes = bytes.map(Bytes::new).transpose().map_err(|_| Failure::Malformed)?;
                Ok(Reply::Entry { bytes })
            }
            Request::Nodes => self.list(Noun::Node).await,
            Request::Jobs => self.list(Noun::Job).await,
            Request::Nonce { account, lane } => {
                let next = self.config.chain.next_nonce(&account, lane).await;
                Ok(Reply::Nonce { next: next.map_err(|_| Failure::Busy)? })
            }
            Request::Submit { tx } => self.submit(tx.as_slice()).await,
            Request::WrapKey => Ok(Reply::WrapKey { key: self.config.wrap.public().clone() }),
            Request::Keep { package, bytes } => self.keep(from, package, bytes).await,
            Request::Release { job, to } => self.release(from, &job, &to).await,
            Request::Faucet { account, amount } => self.give(account, amount).await,
            Request::Whereabouts { peer } => {
                let relay = self.seen.whereabouts(&peer).ok_or(Failure::Unavailable)?;
                Ok(Reply::Whereabouts { relay })
            }
            Request::Genesis => {
                let genesis = Bytes::new(self.config.chain.genesis().to_bytes());
                Ok(Reply::Genesis { genesis: genesis.map_err(|_| Failure::Unavailable)? })
            }
            Request::Log { .. } | Request::Follow => Err(Failure::Malformed),
        }
    }

    fn status(&self) -> Result<Reply, Failure> {
        let chain = &self.config.chain;
        let (header, _) = chain.tip().ok_or(Failure::Busy)?;
        let genesis = chain.genesis().hash();
        Ok(Reply::Status { genesis, height: header.height, tick: header.tick })
    }

    async fn list(&self, noun: Noun) -> Result<Reply, Failure> {
        let found = self.config.chain.scan(noun, LISTED_MAX).await.map_err(|_| Failure::Busy)?;
        let listed = found.into_iter().map(|entry| {
            let (key, bytes) = entry;
            let bytes = Bytes::new(bytes.to_vec()).ok()?;
            Some(ListedEntry { id: Hash32::new(key.id()), bytes })
        });
        let entries: Option<Vec<ListedEntry>> = listed.collect();
        let entries = entries.and_then(|entries| List::new(entries).ok());
        Ok(Reply::Entries { entries: entries.ok_or(Failure::Busy)? })
    }

    async fn submit(&self, bytes: &[u8]) -> Result<Reply, Failure> {
        let tx = SignedTx::from_bytes(bytes).map_err(|_| Failure::Malformed)?;
        let chain = self.config.chain.clone();
        let checked = tokio::task::spawn_blocking(move || chain.check(vec![tx]).pop());
        let checked = checked.await.ok().flatten().ok_or(Failure::Busy)?;
        match checked {
            Ok(tx) => self.offer(tx).await,
            Err(reason) => Ok(Reply::Refused { reason }),
        }
    }

    /// Puts a transaction into the pool and waits for its end.
    async fn offer(&self, tx: CheckedTx) -> Result<Reply, Failure> {
        let chain = &self.config.chain;
        let outcome = chain.wait(tx.id()).ok_or(Failure::Busy)?;
        let taken = chain.offer(vec![tx]).await.map_err(|_| Failure::Busy)?;
        match taken.into_iter().next() {
            Some(Err(reason)) => return Ok(Reply::Refused { reason }),
            Some(Ok(_)) => {}
            None => return Err(Failure::Busy),
        }
        match outcome.await {
            Ok(Outcome::Final { height, receipt }) => {
                Ok(Reply::Final { height, reason: receipt.status.reason() })
            }
            Ok(Outcome::Dropped(reason)) => Ok(Reply::Refused { reason }),
            Err(_) => Err(Failure::Busy),
        }
    }

    /// Tells what happens until the other side leaves or falls behind.
    async fn follow(&self, reply: &ReplySender) {
        let mut blocks = self.config.chain.subscribe();
        while let Ok(block) = blocks.recv().await {
            for message in messages(&block) {
                if reply.send(message.to_bytes()).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Fetches a package from whoever offers it, and gives it to everybody who knows its name: it
    /// is sealed.
    async fn keep(&self, from: PeerId, package: BlobId, bytes: u64) -> Result<Reply, Failure> {
        let most = u64::try_from(PACKAGE_BYTES_MAX).unwrap_or(u64::MAX);
        if bytes > most || !self.reserve(from, bytes) {
            return Err(Failure::Quota);
        }
        let order = FetchOrder { id: package, from: vec![from], bytes_max: bytes, progress: None };
        let fetched = self.config.peer.blobs().fetch(order).await;
        if let Err(error) = fetched {
            tracing::warn!(%error, "a package could not be fetched");
            return Err(Failure::NoPackage);
        }
        self.shares_list.share(package, Readers::Everybody).map_err(|_| Failure::Quota)?;
        Ok(Reply::Done)
    }

    fn reserve(&self, peer: PeerId, bytes: u64) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let held = kept.entry(peer).or_default();
        match held.checked_add(bytes).filter(|sum| *sum <= KEPT_PER_PEER_MAX) {
            Some(sum) => {
                *held = sum;
                true
            }
            None => false,
        }
    }

    /// Gives our share of a job's key to a node that the chain has chosen for it.
    async fn release(&self, to: PeerId, job: &JobId, key: &WrapPublic) -> Result<Reply, Failure> {
        let entry: Option<JobEntry> =
            self.config.chain.entry(keys::job(job)).await.map_err(|_| Failure::Busy)?;
        let entry = entry.filter(|entry| is_chosen(entry, &to)).ok_or(Failure::NotChosen)?;
        let package = BlobId::new(*entry.spec.package.as_bytes());
        let (share, context) = self.share_of(package).await?;
        let random = (self.config.random)().ok_or(Failure::Busy)?;
        let share = wrap_share(&share, key, &context, Randomness::new(random));
        Ok(Reply::Share { share })
    }

    /// Our share of a package's key, and where it counts.
    async fn share_of(&self, package: BlobId) -> Result<(Share, WrapContext), Failure> {
        if let Some(known) = self.known_share(package) {
            return Ok(known);
        }
        let most = u64::try_from(PACKAGE_BYTES_MAX).unwrap_or(u64::MAX);
        let bytes = self.config.peer.blobs().read(package, most).await;
        let bytes = bytes.map_err(|_| Failure::NoPackage)?;
        let opened = Package::from_bytes(&bytes).map_err(|_| Failure::NoPackage)?;
        let genesis = self.config.chain.genesis().hash();
        let share = opened.share_of(self.config.seat, &self.config.wrap, genesis);
        let share = share.map_err(|_| Failure::NoPackage)?;
        let Package::Escrowed { book, .. } = &opened else { return Err(Failure::NoPackage) };
        let book: &ShareBook = book;
        let context = share_context(genesis, book);
        self.remember_share(package, (copy_of(&share), context));
        Ok((share, context))
    }

    fn known_share(&self, package: BlobId) -> Option<(Share, WrapContext)> {
        let known = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&package).map(|(share, context)| (copy_of(share), *context))
    }

    fn remember_share(&self, package: BlobId, share: (Share, WrapContext)) {
        let mut known = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < SHARES_MAX {
            known.insert(package, share);
        }
    }

    /// Sends trial money.
    async fn give(&self, account: AccountId, amount: Amount) -> Result<Reply, Failure> {
        let faucet = self.config.faucet.as_ref().ok_or(Failure::Unavailable)?;
        if amount > FAUCET_MAX {
            return Err(Failure::Quota);
        }
        let _turn = self.faucet_turn.lock().await;
        let chain = &self.config.chain;
        let sender = AccountId::from(faucet.public());
        let lane = Lane::new(FAUCET_LANE).map_err(|_| Failure::Unavailable)?;
        let (header, _) = chain.tip().ok_or(Failure::Busy)?;
        let nonce = chain.next_nonce(&sender, lane).await.map_err(|_| Failure::Busy)?;
        let body = TxBody {
            sender,
            lane,
            nonce,
            expires: header.height.plus(100).map_err(|_| Failure::Busy)?,
            fee: FAUCET_FEE,
            idempotency: None,
            action: Action::Transfer { to: account, amount, memo: Memo::EMPTY },
        };
        let tx = body.sign(faucet, &chain.domain());
        self.submit(&tx.to_bytes()).await
    }
}

/// A share in other hands of ours.
fn copy_of(share: &Share) -> Share {
    let bytes = share.expose();
    let (_, secret) = bytes.split_at(1);
    let secret = secret.first_chunk().copied().unwrap_or_default();
    Share::new(share.index(), secret)
}

/// Whether the chain has chosen this peer to run a job or to check its result.
fn is_chosen(entry: &JobEntry, peer: &PeerId) -> bool {
    let node = NodeId::new(*peer.as_bytes());
    let runs = entry.live().any(|run| run.node == node);
    let checks = entry.checks.as_slice().iter().any(|check| check.node == node && check.is_open());
    let is_open = entry.status != JobStatus::Cancelled && entry.status != JobStatus::Expired;
    is_open && (runs || checks)
}

/// What happened in a block, in messages of bounded size.
fn messages(block: &FinalReceipts) -> Vec<Reply> {
    let receipts = block.record.receipts.iter().flat_map(|receipt| &receipt.events);
    let events: Vec<_> = receipts.chain(&block.record.block.events).cloned().collect();
    let (height, tick) = (block.header.height, block.header.tick);
    let message = |events: Vec<_>| Reply::Block { height, tick, events: EventList(events) };
    if events.is_empty() {
        return vec![message(events)];
    }
    events.chunks(EVENTS_MAX).map(|events| message(events.to_vec())).collect()
}

/// The registered nodes of a chain, for those who run beside it.
///
/// # Errors
/// If the node has stopped.
pub async fn nodes(chain: &Chain) -> Result<Vec<(NodeId, NodeEntry)>, tg_chain::ChainError> {
    let found = chain.scan(Noun::Node, LISTED_MAX).await?;
    let decoded = found
        .into_iter()
        .map(|(key, bytes)| Ok((NodeId::new(key.id()), NodeEntry::from_bytes(&bytes)?)));
    decoded.collect()
}
