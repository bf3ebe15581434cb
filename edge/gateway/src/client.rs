//! The asking side: a provider or a client that knows some validators and speaks to whichever
//! answers.

use crate::card::{DoorCard, Doors, cards};
use crate::local::{LocalError, LocalPackage};
use crate::message::{Failure, ListedEntry, Reply, Request};
use crate::package::{Holders, PACKAGE_BYTES_MAX, PackageError, Seal};
use crate::roll::Roll;
use crate::rounds::Waits;
use crate::stream::Plain;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tg_net::{
    BlobGate, BlobId, CallError, CallHandler, FrameStream, Peer, PeerId, Readers, Route,
    SOURCES_MAX, ServeError, Services, ShareList,
};
use tg_privacy::{PrivacyLabel, Threshold};
use tg_types::genesis::ValidatorSeat;
use tg_types::key::Domain;
use tg_types::{
    AccountId, Action, Amount, Bytes, Decode, DecodeError, Encode, Genesis, GenesisHash, Hash32,
    Height, KeyEscrow, Lane, Nonce, PackageRef, Packages, Params, Reason, SeatSignature,
    SeatSignatures, SecretKey, StateKey, Tick, Tier, TxBody, TxId, Voucher,
};

/// Why a validator gave no useful answer.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// None of them answered.
    #[error("no validator answers")]
    Call(#[from] CallError),
    /// They are silent.
    #[error("validator is silent for {} s", .after.as_secs())]
    Silent {
        /// How long was waited.
        after: Duration,
    },
    /// They refused.
    #[error("validator refuses")]
    Refused(#[source] Failure),
    /// The ledger refused the transaction.
    #[error("transaction was refused: {}", .0.sentence())]
    Ledger(Reason),
    /// An answer cannot be read.
    #[error("answer cannot be read")]
    Decode(#[from] DecodeError),
    /// An answer to something else.
    #[error("answer to something else")]
    Unexpected,
    /// A package cannot be used.
    #[error("package cannot be used")]
    Package(#[from] PackageError),
    /// A package cannot be fetched.
    #[error("package cannot be fetched")]
    Fetch(#[source] tg_net::FetchError),
    /// The blob store fails.
    #[error("package cannot be stored")]
    Blob(#[source] tg_net::BlobError),
    /// Too few validators answered.
    #[error("{found} validators answered, {needed} are needed")]
    TooFew {
        /// How many did.
        found: usize,
        /// How many must.
        needed: usize,
    },
    /// Too few validators keep a package.
    #[error("{found} validators keep the package, {needed} must")]
    NotKept {
        /// How many do.
        found: usize,
        /// How many must.
        needed: usize,
        /// What the last of the others said.
        source: Option<Box<Self>>,
    },
    /// The owner of a package whose key nobody else has does not give it.
    #[error("owner of the data does not hand out its key: it has to be online")]
    NoKey(#[source] Box<Self>),
    /// No validator is known.
    #[error("no validator is known")]
    NoValidator,
    /// A validator is of another network than it should be.
    #[error("validator is of another network")]
    OtherNetwork,
}

impl From<LocalError> for GatewayError {
    fn from(error: LocalError) -> Self {
        match error {
            LocalError::Blob(error) => Self::Blob(error),
            LocalError::Package(error) => Self::Package(error),
        }
    }
}

/// A package that validators keep.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The package.
    pub package: PackageRef,
    /// Their word for it, for the transaction that names the package.
    pub voucher: Voucher,
}

/// How far the network is.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// The last final block.
    pub height: Height,
    /// Its time.
    pub tick: Tick,
}

/// What a validator tells of the chain, block by block.
pub struct Blocks {
    frames: FrameStream,
    heard: Instant,
    /// Who tells.
    place: usize,
}

impl Blocks {
    /// The next message; `None` when the validator has ended, failed, or been silent for so long
    /// that it must be gone. Giving up waiting loses nothing. That the validator is slow
    /// elsewhere is no reason to end: what happens between two streams is told by nobody.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        let left = SILENCE.saturating_sub(self.heard.elapsed());
        let frame = tokio::time::timeout(left, self.frames.next()).await.ok()??.ok()?;
        self.heard = Instant::now();
        Some(frame)
    }
}

/// Validators, as a provider or a client sees them.
pub struct Gateway {
    pub(crate) peer: Peer,
    pub(crate) validators: Vec<PeerId>,
    domain: Domain,
    params: Params,
    /// Seats of the committee, also those that nobody told us of.
    seats: Vec<ValidatorSeat>,
    /// Which peer speaks for which seat, by cards that the seats have signed. A ticket names any
    /// peers it likes; where a quorum counts, only these do.
    pub(crate) doors: Doors,
    /// How many of them must keep a package and hold shares of its key.
    quorum: usize,
    /// What validators may fetch from us.
    shares: Arc<ShareList>,
    /// Who answers.
    pub(crate) roll: Roll,
}

/// Asks validators for the first state of the network whose hash is known: one after the other,
/// the next one beside one that is slow. Gives also who answered.
///
/// # Errors
/// If none of them gives it.
pub async fn genesis_of(
    peer: &Peer,
    validators: &[PeerId],
    hash: GenesisHash,
) -> Result<(Genesis, PeerId), GatewayError> {
    let ask = |validator: PeerId| async move {
        let reply = read(&peer.call(validator, Request::Genesis.to_bytes()).await?)?;
        let Reply::Genesis { genesis } = reply else { return Err(GatewayError::Unexpected) };
        let genesis = Genesis::from_bytes(genesis.as_slice())?;
        match genesis.hash() == hash {
            true => Ok((genesis, validator)),
            false => Err(GatewayError::OtherNetwork),
        }
    };
    let (mut left, mut asked) = (validators.iter(), FuturesUnordered::new());
    let mut last = GatewayError::NoValidator;
    loop {
        let next = left.next();
        asked.extend(next.map(|validator| ask(*validator)));
        let patience = next.map_or(Duration::MAX, |_| SLOW);
        match tokio::time::timeout(patience, asked.next()).await {
            Ok(Some(Ok(found))) => return Ok(found),
            Ok(Some(Err(error))) => last = error,
            Ok(None) => return Err(last),
            Err(_) => {} // slow, perhaps gone
        }
    }
}

/// Asks validators where the doors of all are: the cards that seats of this network have signed,
/// in the order of the seats.
///
/// # Errors
/// If none of them answers.
pub async fn doors_of(
    peer: &Peer,
    validators: &[PeerId],
    genesis: &Genesis,
) -> Result<Vec<DoorCard>, GatewayError> {
    let ask = |validator: &PeerId| {
        let call = peer.call(*validator, Request::Doors.to_bytes());
        async move { read(&call.await?) }
    };
    let mut asked: FuturesUnordered<_> = validators.iter().map(ask).collect();
    let (mut notices, mut last) = (Vec::new(), Some(GatewayError::NoValidator));
    let needed = quorum(genesis.validators().len()).min(validators.len());
    let (mut told_by, mut end) = (0, None::<Instant>);
    loop {
        let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        let Ok(Some(answer)) = tokio::time::timeout(left, asked.next()).await else { break };
        match answer {
            Ok(Reply::Doors { notices: told }) => {
                notices.extend_from_slice(told.as_slice());
                (told_by, last) = (told_by + 1, None);
            }
            Ok(_) => last = last.map(|_| GatewayError::Unexpected),
            Err(error) => last = last.map(|_| error),
        }
        // One answer will do, but others may know more; a quorum knows as much as there is.
        if told_by >= needed {
            break;
        }
        end = end.or_else(|| (told_by > 0).then(|| Instant::now() + SLOW));
    }
    last.map_or_else(|| Ok(cards(&notices, genesis)), Err)
}

/// How many of so many seats must agree.
fn quorum(seats: usize) -> usize {
    Threshold::quorum(seats).map_or(seats, |quorum| quorum.needed())
}

impl Gateway {
    /// A gateway to validators of a network that the peer has routes to. The first is asked first;
    /// `cards` tell which of them speak for a seat.
    #[must_use]
    pub fn new(
        peer: Peer,
        validators: Vec<PeerId>,
        cards: &[DoorCard],
        genesis: &Arc<Genesis>,
    ) -> Self {
        let (domain, params) = (genesis.domain(), genesis.params().clone());
        let seats = genesis.validators().to_vec();
        let quorum = quorum(seats.len());
        let (shares, roll) = (Arc::default(), Roll::new(validators.clone()));
        let doors = Doors::new(Arc::clone(genesis), cards);
        Self { peer, validators, domain, params, seats, doors, quorum, shares, roll }
    }

    /// The peer that asks.
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Lets validators fetch packages from us, and hands calls to `calls`.
    ///
    /// # Errors
    /// If the peer serves already or has stopped.
    pub fn serve(&self, calls: Option<Arc<dyn CallHandler>>) -> Result<(), ServeError> {
        let blobs: Arc<dyn BlobGate> = self.shares.clone();
        self.peer.serve(Services { calls, blobs: Some(blobs) })
    }

    /// The network.
    #[must_use]
    pub const fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The ledger's parameters.
    #[must_use]
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// How many validators must agree on something.
    pub(crate) const fn quorum(&self) -> usize {
        self.quorum
    }

    /// Who could read what a job of this tier reads, as the end of "it can be read by …".
    #[must_use]
    pub fn readers(&self, tier: Tier, escrow: KeyEscrow) -> Option<String> {
        let validators: Vec<String> =
            self.seats.iter().map(|seat| seat.address.to_string()).collect();
        let has_checkers = match tier {
            Tier::Audit | Tier::Sync => true,
            Tier::Trusted | Tier::Redundant { .. } | Tier::Zk { .. } => false,
            Tier::Proof { .. } | Tier::Rerun => {
                return Some("anybody: inputs and outputs stand in a block".to_owned());
            }
        };
        let who = tg_privacy::Readers { provider: None, has_checkers, validators: &validators };
        let label = match escrow {
            KeyEscrow::Validators => {
                PrivacyLabel::Escrowed { threshold: Threshold::quorum(validators.len()).ok()? }
            }
            KeyEscrow::None => PrivacyLabel::Sealed,
        };
        label.readers(&who).ok()
    }

    /// Asks the validator that answered last, and the next one beside it if it is slow, until one
    /// answers.
    ///
    /// # Errors
    /// If none does, or one refuses.
    pub async fn ask(&self, request: &Request) -> Result<Reply, GatewayError> {
        let (bytes, haste) = (request.to_bytes(), haste(request));
        let first = self.roll.first();
        let (mut left, mut asked) = (self.roll.order().into_iter(), FuturesUnordered::new());
        let (mut last, mut is_first_gone) = (GatewayError::NoValidator, false);
        loop {
            let next = left.next();
            asked.extend(next.map(|place| self.ask_at(place, &bytes, haste)));
            let patience = next.map_or(Duration::MAX, |_| haste.next);
            let Ok(answer) = tokio::time::timeout(patience, asked.next()).await else {
                // Slow, perhaps gone. What becomes of a transaction may take as long.
                let slow = next.filter(|_| haste.next == SLOW).and_then(|at| self.roll.at(at));
                slow.into_iter().for_each(|peer| self.roll.missed(peer));
                continue;
            };
            let Some((place, answer)) = answer else { return Err(last) };
            match answer {
                // What one validator cannot do, another may. A transaction that is refused may
                // have come to its end by way of another.
                Err(error @ GatewayError::Refused(Failure::Unavailable | Failure::Busy)) => {
                    last = error;
                }
                Ok(Reply::Refused { reason }) if !asked.is_empty() => {
                    last = GatewayError::Ledger(reason);
                }
                Err(error @ (GatewayError::Call(_) | GatewayError::Silent { .. })) => {
                    is_first_gone |= place == first;
                    // Silence says less than what the ledger said.
                    if !matches!(last, GatewayError::Ledger(_)) {
                        last = error;
                    }
                }
                answer => {
                    if is_first_gone && answer.is_ok() {
                        self.roll.turn(first, place);
                    }
                    return answer;
                }
            }
        }
    }

    /// Asks the validator in this place.
    async fn ask_at(
        &self,
        place: usize,
        request: &[u8],
        haste: Haste,
    ) -> (usize, Result<Reply, GatewayError>) {
        let Some(validator) = self.roll.at(place) else {
            return (place, Err(GatewayError::NoValidator));
        };
        let called = self.peer.call(validator, request.to_vec());
        let answer = match tokio::time::timeout(haste.last, called).await {
            Ok(Ok(reply)) => {
                self.roll.heard(&validator);
                read(&reply)
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(GatewayError::Silent { after: haste.last }),
        };
        (place, answer)
    }

    /// Asks one validator.
    pub(crate) async fn ask_one(
        &self,
        to: PeerId,
        request: &Request,
    ) -> Result<Reply, GatewayError> {
        read(&self.peer.call(to, request.to_bytes()).await?)
    }

    /// How many seats say what at least one says that does not lie: one more than may.
    pub(crate) const fn honest_one(&self) -> usize {
        self.seats.len().saturating_sub(self.quorum) + 1
    }

    /// How far the network is.
    ///
    /// # Errors
    /// If no validator answers.
    pub async fn status(&self) -> Result<Status, GatewayError> {
        let Reply::Status { height, tick, .. } = self.ask(&Request::Status).await? else {
            return Err(GatewayError::Unexpected);
        };
        Ok(Status { height, tick })
    }

    /// An entry of the latest final state.
    ///
    /// # Errors
    /// If no validator answers, or the entry cannot be read.
    pub async fn entry<T: Decode>(&self, key: StateKey) -> Result<Option<T>, GatewayError> {
        let Reply::Entry { bytes } = self.ask(&Request::Entry { key }).await? else {
            return Err(GatewayError::Unexpected);
        };
        Ok(bytes.map(|bytes| T::from_bytes(bytes.as_slice())).transpose()?)
    }

    /// All entries of nodes or jobs.
    ///
    /// # Errors
    /// If no validator answers.
    pub async fn entries(&self, request: &Request) -> Result<Vec<ListedEntry>, GatewayError> {
        let Reply::Entries { entries } = self.ask(request).await? else {
            return Err(GatewayError::Unexpected);
        };
        Ok(entries.as_slice().to_vec())
    }

    /// The next nonce of an account: as the validator says whose word we have that our last
    /// transaction is final, or a later one that not only liars know. The first may just have come
    /// back and be behind.
    ///
    /// # Errors
    /// If no validator answers.
    pub async fn nonce(&self, account: AccountId, lane: Lane) -> Result<Nonce, GatewayError> {
        let request = Request::Nonce { account, lane };
        let wanted = |_, reply| if let Reply::Nonce { next } = reply { Some(next) } else { None };
        let all = self.ask_all(&request, Duration::ZERO, wanted);
        let (first, mut said) = futures::join!(self.ask(&request), all);
        let Reply::Nonce { next: first } = first? else { return Err(GatewayError::Unexpected) };
        said.sort_unstable_by_key(|next| std::cmp::Reverse(*next));
        let liars = self.validators.len().saturating_sub(self.quorum);
        Ok(said.get(liars).map_or(first, |said| first.max(*said)))
    }

    /// Signs an action, sends it, and waits until it is final.
    ///
    /// # Errors
    /// If it is refused or no validator answers.
    pub async fn send(
        &self,
        key: &SecretKey,
        place: (Lane, Nonce),
        action: Action,
    ) -> Result<(TxId, Height), GatewayError> {
        let height = self.status().await?.height;
        let (lane, nonce) = place;
        let mut body = TxBody {
            sender: AccountId::from(key.public()),
            lane,
            nonce,
            expires: height.plus(EXPIRY_HEIGHTS).map_err(|_| GatewayError::Unexpected)?,
            fee: Amount::ZERO,
            idempotency: None,
            action,
        };
        body.fee = self.floor(key, &body);
        let id = body.id(&self.domain);
        let tx = Bytes::new(body.sign(key, &self.domain).to_bytes());
        let tx = tx.map_err(|_| GatewayError::Ledger(Reason::TxTooLarge))?;
        Ok((id, applied(&self.ask(&Request::Submit { tx }).await?)?))
    }

    /// What asking for something costs.
    #[must_use]
    pub fn fee(&self, key: &SecretKey, action: Action) -> Amount {
        let body = TxBody {
            sender: AccountId::from(key.public()),
            lane: Lane::FIRST,
            nonce: Nonce::ZERO,
            expires: Height::FIRST,
            fee: Amount::ZERO,
            idempotency: None,
            action,
        };
        self.floor(key, &body)
    }

    /// The least fee of a transaction: numbers take as many bytes whatever they are.
    fn floor(&self, key: &SecretKey, body: &TxBody) -> Amount {
        let bytes = body.clone().sign(key, &self.domain).to_bytes().len();
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        tg_ledger::fee_floor(&self.params, bytes, &body.action)
    }

    /// Trial money for an account, on local networks.
    ///
    /// # Errors
    /// If no validator has any to give.
    pub async fn faucet(&self, account: AccountId, amount: Amount) -> Result<(), GatewayError> {
        applied(&self.ask(&Request::Faucet { account, amount }).await?)?;
        Ok(())
    }

    /// Follows what happens, from one validator.
    ///
    /// # Errors
    /// If no validator is known.
    pub fn follow(&self) -> Result<Blocks, GatewayError> {
        let place = self.roll.first();
        let validator = self.roll.at(place).ok_or(GatewayError::NoValidator)?;
        let frames = self.peer.follow(validator, Request::Follow.to_bytes());
        Ok(Blocks { frames, heard: Instant::now(), place })
    }

    /// Turns to another validator, which may know more than the one that was asked first.
    pub fn turn(&self) {
        self.roll.turn_away(self.roll.first());
    }

    /// Turns to another validator than the one that told these blocks, after it fell silent.
    /// Nothing changes if somebody else has noticed before.
    pub fn turn_from(&self, blocks: &Blocks) {
        self.roll.turn_away(blocks.place);
    }

    /// The validators that can be given shares of a key: those that answer.
    ///
    /// # Errors
    /// If too few of them do.
    pub async fn holders(&self) -> Result<Holders, GatewayError> {
        let wanted = |seat, reply| {
            if let Reply::WrapKey { key } = reply { Some((seat, key)) } else { None }
        };
        let keys = self.ask_seats(&Request::WrapKey, SLOW, wanted).await;
        self.check_quorum(keys.len())?;
        Ok(Holders { keys, seats: self.seats.len() })
    }

    /// Seals something and has it kept by validators. What is large passes through a file.
    ///
    /// # Errors
    /// If it is too large, cannot be read, there is no room, or too few of them keep it.
    pub async fn keep(&self, seal: Seal, plain: Box<dyn Plain>) -> Result<Kept, GatewayError> {
        let blobs = self.peer.blobs();
        let (bytes, key_escrow) = (seal.bytes(plain.as_ref())?, seal.escrow());
        let mut draft = blobs.draft(bytes).await.map_err(GatewayError::Blob)?;
        let written = if draft.is_file() {
            let writing = tokio::task::spawn_blocking(move || {
                seal.write(plain.as_ref(), &mut draft).map(|()| draft)
            });
            writing.await.map_err(|_| GatewayError::Unexpected)??
        } else {
            seal.write(plain.as_ref(), &mut draft)?;
            draft
        };
        let stored = blobs.add_draft(written).await.map_err(GatewayError::Blob)?;
        let id = Hash32::new(*stored.id.as_bytes());
        let kept = self.keep_stored(PackageRef { id, bytes, key_escrow }).await;
        self.drop_copy(stored.id).await;
        kept
    }

    /// Has a package kept once more that validators gave us.
    ///
    /// # Errors
    /// If too few of them keep it.
    pub async fn keep_again(&self, package: &LocalPackage) -> Result<Kept, GatewayError> {
        self.keep_stored(package.package()).await
    }

    /// Has a package kept that is in our store: by a quorum at least, who vouch for it.
    async fn keep_stored(&self, package: PackageRef) -> Result<Kept, GatewayError> {
        let id = BlobId::new(*package.id.as_bytes());
        self.shares.share(id, Readers::Everybody).map_err(GatewayError::Blob)?;
        let packages = Packages::new(vec![package]).map_err(|_| GatewayError::Unexpected)?;
        let ask = |to: PeerId| (to, self.keep_at(to, &packages));
        let asked = self.validators.iter().copied().map(ask).collect();
        let waits = Waits { late: SLOW, without_quorum: KEEP_WAIT };
        let (signatures, failed) = self.gather(asked, waits).await;
        self.shares.unshare(id);
        let (found, needed) = (signatures.len(), self.quorum);
        if found < needed {
            return Err(GatewayError::NotKept { found, needed, source: failed.map(Box::new) });
        }
        let signatures = SeatSignatures::new(signatures).map_err(|_| GatewayError::Unexpected)?;
        Ok(Kept { package, voucher: Voucher { packages, signatures } })
    }

    /// Has a package kept by one validator, who says that it takes longer if it is large. A call
    /// that is lost on the way is made again as long as the validator goes on reading.
    async fn keep_at(
        &self,
        to: PeerId,
        packages: &Packages,
    ) -> Result<SeatSignature, GatewayError> {
        let request = Request::Keep { packages: packages.clone() };
        let before = self.peer.blobs().traffic().sent_bytes;
        let (mut sent, mut idle) = (before, 0);
        loop {
            let error = match self.ask_one(to, &request).await {
                Ok(Reply::Held { signature })
                    if signature.is_valid(&self.domain, &self.seats, packages) =>
                {
                    return Ok(signature);
                }
                Ok(_) => return Err(GatewayError::Unexpected),
                Err(error @ (GatewayError::Refused(Failure::Busy) | GatewayError::Call(_))) => {
                    error
                }
                Err(error) => return Err(error),
            };
            let now = self.peer.blobs().traffic().sent_bytes;
            if now == before && matches!(error, GatewayError::Call(_)) {
                return Err(error); // nobody is there who could go on reading
            }
            idle = if now > sent { 0 } else { idle + 1 };
            sent = now;
            if idle >= IDLE_MAX {
                return Err(error);
            }
            tokio::time::sleep(KEEP_AGAIN).await;
        }
    }

    const fn check_quorum(&self, found: usize) -> Result<(), GatewayError> {
        if found >= self.quorum {
            return Ok(());
        }
        Err(GatewayError::TooFew { found, needed: self.quorum })
    }

    /// Gives up our own copy of a package that validators keep.
    async fn drop_copy(&self, id: BlobId) {
        if let Err(error) = self.peer.blobs().remove(id).await {
            tracing::debug!(%error, "a package is still here");
        }
    }

    /// Fetches a package from validators.
    ///
    /// # Errors
    /// If none of them has it, or there is no room.
    pub async fn package(&self, id: &Hash32, bytes: u64) -> Result<LocalPackage, GatewayError> {
        if bytes > PACKAGE_BYTES_MAX {
            return Err(PackageError::TooLarge { found: bytes, max: PACKAGE_BYTES_MAX }.into());
        }
        let from = sources(&self.validators, self.roll.first());
        let blob = BlobId::new(*id.as_bytes());
        if let Err(error) = crate::fetch::fetch(&self.peer, blob, from, bytes).await {
            self.drop_copy(blob).await;
            return Err(GatewayError::Fetch(error));
        }
        match LocalPackage::new(self.peer.clone(), id, bytes).await {
            Ok(package) => Ok(package),
            Err(error) => {
                self.drop_copy(blob).await;
                Err(error.into())
            }
        }
    }

    /// Asks another peer that said hello to validators. All seats are asked where it is, because
    /// one of them may not know or not tell: whoever wants to be found has told all of them, so
    /// where most say that it is comes first.
    ///
    /// # Errors
    /// If nobody knows where it is, or it does not answer.
    pub async fn ask_peer(&self, to: PeerId, request: &Request) -> Result<Reply, GatewayError> {
        let wanted = |_, reply| {
            let is_unknown = matches!(reply, Reply::Failed { .. });
            let place = if let Reply::Whereabouts { relay } = reply { Some(relay) } else { None };
            (is_unknown || place.is_some()).then_some(place)
        };
        let asked = Request::Whereabouts { peer: to };
        let told = self.ask_seats(&asked, Duration::ZERO, wanted).await;
        let places = by_votes(told.into_iter().flatten().collect());
        let mut last = GatewayError::Refused(Failure::Unavailable);
        for relay in places.into_iter().take(PLACES_MAX) {
            if self.peer.add_route(to, Route::relayed(relay)).is_err() {
                continue; // a relay that nobody knows
            }
            last = match self.peer.call_within(to, request.to_bytes(), PEER_WAIT).await {
                Err(CallError::TimedOut { .. }) => GatewayError::Refused(Failure::Busy),
                Err(error) => error.into(),
                Ok(answer) => return read(&answer),
            };
        }
        Err(last)
    }
}

/// What was told, each once, and first what was told most often.
fn by_votes<T: Ord>(told: Vec<T>) -> Vec<T> {
    let mut votes = BTreeMap::new();
    for place in told {
        *votes.entry(place).or_insert(0_usize) += 1;
    }
    let mut votes: Vec<(T, usize)> = votes.into_iter().collect();
    votes.sort_by_key(|(_, votes)| std::cmp::Reverse(*votes));
    votes.into_iter().map(|(place, _)| place).collect()
}

/// Whom to ask for a package: as many as a fetch takes, beginning with the one in this place.
fn sources(validators: &[PeerId], first: usize) -> Vec<PeerId> {
    let count = validators.len().min(SOURCES_MAX);
    validators.iter().copied().cycle().skip(first).take(count).collect()
}

/// How many blocks a transaction may wait.
const EXPIRY_HEIGHTS: u64 = 200;

/// How long one validator may take, and after how long the next is asked beside it.
#[derive(Clone, Copy)]
struct Haste {
    next: Duration,
    last: Duration,
}

/// Questions about the state are answered at once. What becomes of a transaction is known when a
/// block is final; it may be handed in twice, for it counts once. Trial money would be given twice.
const fn haste(request: &Request) -> Haste {
    match request {
        Request::Faucet { .. } => Haste { next: Duration::MAX, last: Duration::MAX },
        Request::Submit { .. } => Haste { next: SILENCE, last: Duration::MAX },
        Request::Status
        | Request::Hello { .. }
        | Request::Entry { .. }
        | Request::Nodes
        | Request::Jobs
        | Request::Nonce { .. }
        | Request::WrapKey
        | Request::Keep { .. }
        | Request::Release { .. }
        | Request::Whereabouts { .. }
        | Request::Genesis
        | Request::Doors
        | Request::Log { .. }
        | Request::Tiles { .. }
        | Request::Key { .. }
        | Request::Follow => Haste { next: SLOW, last: SILENCE },
    }
}

/// From when on a validator that says nothing counts as gone: blocks come every moment, and
/// questions about the state are answered at once.
pub(crate) const SILENCE: Duration = Duration::from_secs(4);

/// From when on a validator counts as slow: what is waited for is then had from others. A round
/// trip across the world takes a third of it.
pub const SLOW: Duration = Duration::from_secs(1);

/// How often in a row a validator may ask for patience, or be lost, while it reads nothing of a
/// package that it is to keep.
const IDLE_MAX: u32 = 3;

/// How long validators that are slow may take to keep a package that would otherwise be kept by too
/// few: a result that nobody keeps is a run for nothing. The dead are known to be so before that.
const KEEP_WAIT: Duration = Duration::from_secs(30);

/// How long to wait before it is asked again.
const KEEP_AGAIN: Duration = Duration::from_millis(200);

/// Places where a peer is looked for: where it is, where it was a moment ago, and one that a liar
/// made up. A few more would take longer than whoever asks waits.
const PLACES_MAX: usize = 3;

/// How long another peer may take to answer.
const PEER_WAIT: Duration = Duration::from_secs(5);

/// The block in which a transaction did what it asked for.
const fn applied(reply: &Reply) -> Result<Height, GatewayError> {
    match reply {
        Reply::Final { height, reason: Reason::Applied } => Ok(*height),
        Reply::Final { reason, .. } | Reply::Refused { reason } => {
            Err(GatewayError::Ledger(*reason))
        }
        Reply::Status { .. }
        | Reply::Done
        | Reply::Held { .. }
        | Reply::Entry { .. }
        | Reply::Entries { .. }
        | Reply::Nonce { .. }
        | Reply::Block { .. }
        | Reply::WrapKey { .. }
        | Reply::Share { .. }
        | Reply::Whereabouts { .. }
        | Reply::Genesis { .. }
        | Reply::Doors { .. }
        | Reply::Log { .. }
        | Reply::Tiles { .. }
        | Reply::Key { .. }
        | Reply::Failed { .. } => Err(GatewayError::Unexpected),
    }
}

fn read(bytes: &[u8]) -> Result<Reply, GatewayError> {
    let reply = Reply::from_bytes(bytes)?;
    if let Reply::Failed { why } = reply {
        return Err(GatewayError::Refused(why));
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::{by_votes, sources};
    use tg_net::{PeerId, SOURCES_MAX};
    use tg_types::SecretKey;

    #[test]
    fn places_are_tried_once_each_in_the_order_of_those_who_say_so() {
        assert_eq!(
            by_votes(vec!["lie", "here", "here", "there", "here", "there"]).first(),
            Some(&"here")
        );
        assert_eq!(by_votes(vec![1, 2, 3, 2, 3, 3]), [3, 2, 1]);
        assert!(by_votes(Vec::<u8>::new()).is_empty());
    }

    #[test]
    fn sources_are_as_many_as_a_fetch_takes_and_begin_with_the_one_that_answered() {
        let peer = |number: usize| {
            PeerId::of(&SecretKey::from_seed([u8::try_from(number).expect("few"); 32]))
        };
        let check = |count: usize, first: usize, expected: &[usize]| {
            let validators: Vec<PeerId> = (0..count).map(peer).collect();
            let expected: Vec<PeerId> = expected.iter().map(|number| peer(*number)).collect();
            assert_eq!(sources(&validators, first), expected, "{count} from {first}");
        };
        check(0, 0, &[]);
        check(3, 0, &[0, 1, 2]);
        check(3, 2, &[2, 0, 1]);
        let around: Vec<usize> = [SOURCES_MAX + 1].into_iter().chain(0..SOURCES_MAX - 1).collect();
        check(SOURCES_MAX + 2, SOURCES_MAX + 1, &around);
    }
}
