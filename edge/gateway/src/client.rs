//! The asking side: a provider or a client that knows some validators and speaks to whichever
//! answers.

use crate::message::{Failure, ListedEntry, Reply, Request};
use crate::package::{Package, PackageError, Whose, share_context};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tg_net::{
    BlobGate, BlobId, CallError, CallHandler, FetchOrder, FrameStream, Peer, PeerId, Readers,
    RelayUrl, Route, ServeError, Services, ShareList,
};
use tg_privacy::{Share, WrapPublic, WrapSecret, unwrap_share};
use tg_types::key::Domain;
use tg_types::{
    AccountId, Action, Amount, Bytes, Decode, DecodeError, Encode, Genesis, GenesisHash, Hash32,
    Height, JobId, Lane, Nonce, Params, Reason, SecretKey, StateKey, Tick, TxBody, TxId,
};

/// Why a validator gave no useful answer.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// None of them answered.
    #[error("no validator answers")]
    Call(#[from] CallError),
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
    /// No validator is known.
    #[error("no validator is known")]
    NoValidator,
    /// A validator is of another network than it should be.
    #[error("validator is of another network")]
    OtherNetwork,
}

/// How far the network is.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// The last final block.
    pub height: Height,
    /// Its time.
    pub tick: Tick,
}

/// Validators, as a provider or a client sees them.
pub struct Gateway {
    peer: Peer,
    validators: Vec<PeerId>,
    domain: Domain,
    params: Params,
    /// What validators may fetch from us.
    shares: Arc<ShareList>,
    /// Who answered last; asked first.
    first: AtomicUsize,
}

/// Asks validators for the first state of the network whose hash is known.
///
/// # Errors
/// If none of them gives it.
pub async fn genesis_of(
    peer: &Peer,
    validators: &[PeerId],
    hash: GenesisHash,
) -> Result<Genesis, GatewayError> {
    let mut last = GatewayError::NoValidator;
    for validator in validators {
        let reply = match peer.call(*validator, Request::Genesis.to_bytes()).await {
            Ok(reply) => read(&reply),
            Err(error) => Err(error.into()),
        };
        match reply {
            Ok(Reply::Genesis { genesis }) => match Genesis::from_bytes(genesis.as_slice()) {
                Ok(genesis) if genesis.hash() == hash => return Ok(genesis),
                Ok(_) => last = GatewayError::OtherNetwork,
                Err(error) => last = error.into(),
            },
            Ok(_) => last = GatewayError::Unexpected,
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Gateway {
    /// A gateway to validators that the peer has routes to, in the order of their seats.
    #[must_use]
    pub fn new(peer: Peer, validators: Vec<PeerId>, domain: Domain, params: Params) -> Self {
        let (shares, first) = (Arc::default(), AtomicUsize::new(0));
        Self { peer, validators, domain, params, shares, first }
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

    /// Asks validators one after the other until one answers.
    ///
    /// # Errors
    /// If none does, or one refuses.
    pub async fn ask(&self, request: &Request) -> Result<Reply, GatewayError> {
        let bytes = request.to_bytes();
        let count = self.validators.len();
        let first = self.first.load(Ordering::Relaxed);
        let mut last = GatewayError::NoValidator;
        for turn in 0..count {
            let place = (first + turn) % count;
            let Some(validator) = self.validators.get(place) else { continue };
            match self.peer.call(*validator, bytes.clone()).await {
                Ok(reply) => match read(&reply) {
                    // What one validator cannot do, another may.
                    Err(error @ GatewayError::Refused(Failure::Unavailable | Failure::Busy)) => {
                        last = error;
                    }
                    answer => return answer,
                },
                Err(error) => {
                    last = error.into();
                    self.first.store((place + 1) % count, Ordering::Relaxed);
                }
            }
        }
        Err(last)
    }

    /// Asks one validator.
    async fn ask_one(&self, to: PeerId, request: &Request) -> Result<Reply, GatewayError> {
        read(&self.peer.call(to, request.to_bytes()).await?)
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

    /// Tells all validators that we are here.
    pub async fn hello(&self, relay: &RelayUrl) {
        let request = Request::Hello { relay: relay.clone() };
        let calls = self.validators.iter().map(|to| self.ask_one(*to, &request));
        for answer in futures::future::join_all(calls).await {
            if let Err(error) = answer {
                tracing::debug!(%error, "a validator does not hear us");
            }
        }
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

    /// The next nonce of an account.
    ///
    /// # Errors
    /// If no validator answers.
    pub async fn nonce(&self, account: AccountId, lane: Lane) -> Result<Nonce, GatewayError> {
        let Reply::Nonce { next } = self.ask(&Request::Nonce { account, lane }).await? else {
            return Err(GatewayError::Unexpected);
        };
        Ok(next)
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
        let bytes = body.clone().sign(key, &self.domain).to_bytes().len();
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        body.fee = tg_ledger::fee_floor(&self.params, bytes);
        let id = body.id(&self.domain);
        let tx = Bytes::new(body.sign(key, &self.domain).to_bytes());
        let tx = tx.map_err(|_| GatewayError::Ledger(Reason::TxTooLarge))?;
        Ok((id, applied(&self.ask(&Request::Submit { tx }).await?)?))
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
    pub fn follow(&self) -> Result<FrameStream, GatewayError> {
        let first = self.first.load(Ordering::Relaxed);
        let validator = self.validators.get(first).ok_or(GatewayError::NoValidator)?;
        Ok(self.peer.follow(*validator, Request::Follow.to_bytes()))
    }

    /// Turns to another validator, after this one fell silent.
    pub fn turn(&self) {
        let next = (self.first.load(Ordering::Relaxed) + 1) % self.validators.len().max(1);
        self.first.store(next, Ordering::Relaxed);
    }

    /// The keys to which shares for the validators are wrapped, in the order of the seats.
    ///
    /// # Errors
    /// If one of them does not answer.
    pub async fn wrap_keys(&self) -> Result<Vec<WrapPublic>, GatewayError> {
        let mut keys = Vec::new();
        for validator in &self.validators {
            let answer = self.ask_one(*validator, &Request::WrapKey).await?;
            let Reply::WrapKey { key } = answer else { return Err(GatewayError::Unexpected) };
            keys.push(key);
        }
        Ok(keys)
    }

    /// Stores a package here and has it kept by validators: by a quorum at least.
    ///
    /// # Errors
    /// If too few of them keep it.
    pub async fn keep(&self, package: &Package) -> Result<(Hash32, u64), GatewayError> {
        let bytes = package.to_bytes();
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let stored = self.peer.blobs().add_bytes(bytes).await.map_err(GatewayError::Blob)?;
        self.shares.share(stored.id, Readers::Everybody).map_err(GatewayError::Blob)?;
        let request = Request::Keep { package: stored.id, bytes: length };
        let calls = self.validators.iter().map(|to| self.ask_one(*to, &request));
        let answers = futures::future::join_all(calls).await;
        let found = answers.iter().filter(|answer| matches!(answer, Ok(Reply::Done))).count();
        let all = self.validators.len();
        let needed = all - all.saturating_sub(1) / 3;
        if found < needed {
            for error in answers.into_iter().filter_map(Result::err) {
                tracing::warn!(%error, "a validator does not keep a package");
            }
            return Err(GatewayError::TooFew { found, needed });
        }
        Ok((Hash32::new(*stored.id.as_bytes()), length))
    }

    /// Fetches a package from validators.
    ///
    /// # Errors
    /// If none of them has it.
    pub async fn package(&self, id: &Hash32, bytes: u64) -> Result<Package, GatewayError> {
        let id = BlobId::new(*id.as_bytes());
        let order =
            FetchOrder { id, from: self.validators.clone(), bytes_max: bytes, progress: None };
        self.peer.blobs().fetch(order).await.map_err(GatewayError::Fetch)?;
        let read = self.peer.blobs().read(id, bytes).await.map_err(GatewayError::Blob)?;
        Ok(Package::from_bytes(&read)?)
    }

    /// Collects enough shares to open a job's package, and opens it.
    ///
    /// # Errors
    /// If too few validators give theirs: the chain must have chosen us.
    pub async fn open_inputs(
        &self,
        job: JobId,
        package: &Package,
        whose: &Whose,
        secret: &WrapSecret,
    ) -> Result<Vec<u8>, GatewayError> {
        let Package::Escrowed { book, .. } = package else {
            return Err(PackageError::Kind.into());
        };
        let needed = book.threshold().needed();
        let context = share_context(self.domain.genesis, book);
        let request = Request::Release { job, to: secret.public().clone() };
        let calls = self.validators.iter().map(|to| self.ask_one(*to, &request));
        let mut shares: Vec<Share> = Vec::new();
        for answer in futures::future::join_all(calls).await {
            let share = match answer {
                Ok(Reply::Share { share }) => unwrap_share(&share, secret, &context).ok(),
                Ok(_) => None,
                Err(error) => {
                    tracing::debug!(%error, "a validator gives no share");
                    None
                }
            };
            shares.extend(share.filter(|share| book.check(share).is_ok()));
        }
        shares.truncate(needed);
        if shares.len() < needed {
            return Err(GatewayError::TooFew { found: shares.len(), needed });
        }
        Ok(package.open_inputs(&shares, whose)?)
    }

    /// Asks another peer that said hello to a validator.
    ///
    /// # Errors
    /// If nobody knows where it is, or it does not answer.
    pub async fn ask_peer(&self, to: PeerId, request: &Request) -> Result<Reply, GatewayError> {
        let answer = self.ask(&Request::Whereabouts { peer: to }).await?;
        let Reply::Whereabouts { relay } = answer else { return Err(GatewayError::Unexpected) };
        let added = self.peer.add_route(to, Route::relayed(relay));
        added.map_err(|_| GatewayError::Refused(Failure::Unavailable))?;
        let asked = tokio::time::timeout(PEER_WAIT, self.ask_one(to, request));
        asked.await.map_err(|_| GatewayError::Refused(Failure::Busy))?
    }
}

/// How many blocks a transaction may wait.
const EXPIRY_HEIGHTS: u64 = 200;

/// How long another provider may take to answer.
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
        | Reply::Entry { .. }
        | Reply::Entries { .. }
        | Reply::Nonce { .. }
        | Reply::Block { .. }
        | Reply::WrapKey { .. }
        | Reply::Share { .. }
        | Reply::Whereabouts { .. }
        | Reply::Genesis { .. }
        | Reply::Log { .. }
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
