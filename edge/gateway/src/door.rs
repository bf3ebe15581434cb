//! The answering side, at a validator.

use crate::complaint::Contents;
use crate::fetch::{Arrivals, Fetched};
use crate::keeper::{Credit, Keeper, Room};
use crate::message::{EVENTS_MAX, EventList, Failure, LISTED_MAX, ListedEntry, Reply, Request};
use crate::package::{Lock, PACKAGE_BYTES_MAX, Package, share_context};
use crate::presence::Seen;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tg_chain::{Chain, FinalReceipts, Outcome};
use tg_ledger::{Check, JobEntry, NodeEntry, keys};
use tg_net::{
    BlobError, BlobId, CallHandler, FetchError, Peer, PeerId, Readers, ReplySender, ServeError,
    Services, ShareList,
};
use tg_privacy::{Randomness, Share, Threshold, WrapContext, WrapPublic, WrapSecret, wrap_share};
use tg_types::{
    AccountId, Action, Amount, Bytes, CheckedTx, Decode, Encode, Hash32, JobId, JobStatus, Lane,
    List, Memo, NodeId, Noun, PackageRef, Packages, Reason, SeatSignature, SecretKey, SignedTx,
    TxBody,
};
use tokio::time::Instant;

/// Packages whose share is kept at hand.
const SHARES_MAX: usize = 4_096;

/// How long somebody waits for packages to arrive before being told to ask again; well below the
/// time after which a call counts as lost.
const KEEP_PATIENCE: Duration = Duration::from_secs(15);

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
    /// The key of its seat.
    pub key: SecretKey,
    /// Who knows what is inside packages.
    pub contents: Arc<dyn Contents>,
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

pub(crate) struct Shared {
    pub(crate) config: DoorConfig,
    /// Its place in the genesis; none if it has lost its seat.
    seat: Option<u8>,
    shares_list: Arc<ShareList>,
    /// What is kept. A lock, because calls come from any task and hold it briefly.
    keeper: Mutex<Keeper>,
    /// What is on its way.
    arrivals: Arrivals,
    /// Shares that were looked up. A lock, for the same reason.
    shares: Mutex<BTreeMap<BlobId, (Share, WrapContext)>>,
    seen: Seen,
    /// Whose turn it is to be given trial money: its transactions must not overtake each other.
    faucet_turn: tokio::sync::Mutex<()>,
    /// Whose turn it is to tell a judgement, for the same reason.
    pub(crate) judge_turn: tokio::sync::Mutex<()>,
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
        let key = config.key.public();
        let mut seats = config.chain.genesis().validators().iter();
        let seat =
            seats.position(|seat| seat.key == key).and_then(|place| u8::try_from(place).ok());
        let shared = Arc::new(Shared {
            config,
            seat,
            shares_list,
            keeper: Mutex::default(),
            arrivals: Arrivals::default(),
            shares: Mutex::default(),
            seen: Seen::default(),
            faucet_turn: tokio::sync::Mutex::default(),
            judge_turn: tokio::sync::Mutex::default(),
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

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
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
    async fn answer(self: &Arc<Self>, from: PeerId, request: Request) -> Result<Reply, Failure> {
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
            Request::Keep { packages } => self.keep(from, &packages).await,
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
            Request::Doors => {
                let notices = List::new(self.config.chain.notices());
                Ok(Reply::Doors { notices: notices.map_err(|_| Failure::Unavailable)? })
            }
            Request::Log { .. } | Request::Tiles { .. } | Request::Key { .. } | Request::Follow => {
                Err(Failure::Malformed)
            }
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
            // It may have been handed in at a validator that has died since.
            Some(Ok(_) | Err(Reason::PoolDuplicate)) => {}
            Some(Err(reason)) => return Ok(Reply::Refused { reason }),
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

    /// Fetches packages from whoever offers them, gives them to everybody who knows their names,
    /// for they are sealed, and vouches for them.
    async fn keep(self: &Arc<Self>, from: PeerId, packages: &Packages) -> Result<Reply, Failure> {
        let until = Instant::now() + KEEP_PATIENCE;
        for package in packages.as_slice() {
            let kept = self.keep_one(from, *package);
            tokio::time::timeout_at(until, kept).await.unwrap_or(Err(Failure::Busy))?;
        }
        let DoorConfig { key, chain, .. } = &self.config;
        let seat = self.seat.ok_or(Failure::Unavailable)?;
        let signature = SeatSignature::sign(key, &chain.domain(), seat, packages);
        Ok(Reply::Held { signature })
    }

    /// Keeps a package that is here, or has it fetched. That goes on when whoever waits for it is
    /// told that it takes longer, or leaves.
    async fn keep_one(self: &Arc<Self>, from: PeerId, package: PackageRef) -> Result<(), Failure> {
        let PackageRef { id, bytes, key_escrow } = package;
        let id = BlobId::new(*id.as_bytes());
        let (header, _) = self.config.chain.tip().ok_or(Failure::Busy)?;
        if bytes > PACKAGE_BYTES_MAX {
            return Err(Failure::Quota);
        }
        let credit = Credit::with_free(self.config.peer.blobs().free_bytes_for(bytes));
        let room = self.keeper().reserve(from, id, bytes, header.tick, credit);
        match room {
            Room::Held | Room::Made => {}
            Room::OtherSize => return Err(Failure::NoPackage),
            Room::None => return Err(Failure::Quota),
        }
        let arriving = self.arrivals.get(id, from, || {
            let shared = Arc::clone(self);
            async move { shared.arrive(from, id, bytes).await }
        });
        arriving.ok_or(Failure::Busy)?.await?;
        // We sign where its key is, so that nobody can tell the chain otherwise.
        if self.head(id).await?.escrow() == key_escrow { Ok(()) } else { Err(Failure::NoPackage) }
    }

    async fn arrive(self: Arc<Self>, from: PeerId, id: BlobId, bytes: u64) -> Result<(), Failure> {
        let fetched = self.fetch(from, id, bytes).await.and_then(|()| {
            let (header, _) = self.config.chain.tip().ok_or(Failure::Busy)?;
            let is_kept = self.keeper().arrived(&id, header.tick);
            // If it came too late, its room may be somebody else's by now.
            if is_kept { Ok(()) } else { Err(Failure::Busy) }
        });
        let is_last = self.arrivals.remove(id, from);
        if fetched.is_err() {
            if is_last {
                self.keeper().failed(&id);
            }
            self.drop_package(id).await;
        }
        fetched
    }

    async fn fetch(&self, from: PeerId, id: BlobId, bytes: u64) -> Result<(), Failure> {
        let peer = &self.config.peer;
        match crate::fetch::fetch(peer, id, vec![from], bytes).await {
            Ok(Fetched { size_bytes }) if size_bytes == bytes => {}
            Ok(_) => return Err(Failure::NoPackage),
            Err(error) => {
                tracing::warn!(%error, "a package could not be fetched");
                let is_room = matches!(error, FetchError::Blob(BlobError::NoRoom { .. }));
                return Err(if is_room { Failure::NoRoom } else { Failure::NoPackage });
            }
        }
        self.look_inside(id).await?;
        self.give_to_all(id).map_err(|_| Failure::Quota)
    }

    /// Lets everybody who knows its name read a package.
    pub(crate) fn give_to_all(&self, id: BlobId) -> Result<(), BlobError> {
        self.shares_list.share(id, Readers::Everybody)
    }

    /// Holds what a package says against what a validator can know: it is of this network, and if
    /// it has shares of a key, a quorum of them must be enough, and that of our seat must be among
    /// them, wrapped for the owner that it names. So nobody can have another's shares kept under
    /// its own name, nor the same share by two seats.
    /// Whether the shares of others fit to ours cannot be seen from here; whoever has the key can.
    async fn look_inside(&self, id: BlobId) -> Result<(), Failure> {
        let package = self.head(id).await?;
        if package.whose.genesis != self.config.chain.genesis().hash() {
            return Err(Failure::NoPackage);
        }
        match &package.lock {
            Lock::Escrowed { book, .. } => {
                let seats = self.config.chain.genesis().validators().len();
                let quorum = Threshold::quorum(seats).map_err(|_| Failure::NoPackage)?;
                if book.threshold().needed() != quorum.needed() {
                    return Err(Failure::NoPackage);
                }
                self.share_in(id, &package).map(|_| ())
            }
            Lock::Direct { .. } | Lock::Owned { .. } | Lock::Checkpoint { .. } => Ok(()),
        }
    }

    pub(crate) fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a package begins with.
    async fn head(&self, id: BlobId) -> Result<Package, Failure> {
        let opened = self.config.peer.blobs().open(id).await;
        let mut package = opened.map_err(|_| Failure::NoPackage)?;
        Package::read(&mut package).map_err(|_| Failure::NoPackage)
    }

    /// Gives up the bytes of a package, unless it is to be kept.
    pub(crate) async fn drop_package(&self, id: BlobId) {
        if self.keeper().holds(&id) {
            return;
        }
        self.shares_list.unshare(id);
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Err(error) = self.config.peer.blobs().remove(id).await {
            tracing::warn!(%error, "a package could not be removed");
        }
    }

    /// Gives our share of a job's key to a node that the chain has chosen for it, if the package is
    /// of the job's owner.
    async fn release(&self, to: PeerId, job: &JobId, key: &WrapPublic) -> Result<Reply, Failure> {
        let entry: Option<JobEntry> =
            self.config.chain.entry(keys::job(job)).await.map_err(|_| Failure::Busy)?;
        let entry = entry.filter(|entry| is_chosen(entry, &to)).ok_or(Failure::NotChosen)?;
        let package = BlobId::new(*entry.spec.package.as_bytes());
        let (share, context) = self.share_of(package).await?;
        check_owner(&entry, &context)?;
        let random = (self.config.random)().ok_or(Failure::Busy)?;
        let share = wrap_share(&share, key, &context, Randomness::new(random));
        Ok(Reply::Share { share })
    }

    /// Our share of a package's key, and where it counts.
    async fn share_of(&self, id: BlobId) -> Result<(Share, WrapContext), Failure> {
        if let Some(known) = self.known_share(id) {
            return Ok(known);
        }
        self.share_in(id, &self.head(id).await?)
    }

    fn share_in(&self, id: BlobId, package: &Package) -> Result<(Share, WrapContext), Failure> {
        let Lock::Escrowed { book, .. } = &package.lock else { return Err(Failure::NoPackage) };
        let genesis = self.config.chain.genesis().hash();
        let seat = self.seat.ok_or(Failure::Unavailable)?;
        let share = package.share_of((seat.into(), &self.config.wrap), genesis);
        let share = share.map_err(|_| Failure::NoPackage)?;
        let context = share_context(&package.whose, book);
        self.remember_share(id, (copy_of(&share), context));
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

/// Whoever names another's package in a job of its own gets no share of its key, whichever node was
/// chosen for that job.
fn check_owner(entry: &JobEntry, context: &WrapContext) -> Result<(), Failure> {
    if context.owner == entry.owner { Ok(()) } else { Err(Failure::NotOwners) }
}

/// Whether the chain has chosen this peer to run a job or to check its result.
pub(crate) fn is_chosen(entry: &JobEntry, peer: &PeerId) -> bool {
    let node = NodeId::new(*peer.as_bytes());
    let runs = entry.live().any(|run| run.node == node);
    // Who vouched for a result may have to defend it.
    let is_disputed = entry.status == JobStatus::Disputed;
    let is_asked = |check: &Check| check.is_open() || is_disputed && check.has_answered();
    let checks = entry.checks.as_slice().iter().any(|check| check.node == node && is_asked(check));
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

#[cfg(test)]
mod tests {
    use super::{check_owner, is_chosen};
    use crate::desk::tests::{account, entry, secret};
    use crate::message::Failure;
    use crate::package::{Whose, key_context};
    use tg_net::PeerId;
    use tg_privacy::ContentKey;
    use tg_types::GenesisHash;

    /// Goal: whoever names another's package in a job of its own gets no share of its key. Method:
    /// a node is rightly chosen for the thief's job; the shares are of the victim's package.
    #[test]
    fn share_is_released_for_jobs_of_the_packages_owner_alone() {
        let (victim, thief, node) = (1, 2, 3);
        let whose = Whose { genesis: GenesisHash::new([9; 32]), owner: account(victim) };
        let context = key_context(&whose, ContentKey::new([5; 32]).commitment());
        for (owner, expected) in [(victim, Ok(())), (thief, Err(Failure::NotOwners))] {
            let job = entry(owner, node);
            assert!(is_chosen(&job, &PeerId::of(&secret(node))));
            assert_eq!(check_owner(&job, &context), expected);
        }
    }
}
