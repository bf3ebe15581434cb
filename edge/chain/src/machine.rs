//! The ledger as the engine's state machine.
//!
//! Drafting and opening a block both end in the ledger's one code path; this module only carries
//! bytes to it and its effects back: it keeps the pool, the book of certificates, and those who
//! wait for a receipt.

use crate::{
    certificates::{CertificateBook, KnownOrChecked},
    execution::{Done, Draft, Opened},
    gossip::{Gossip, MESSAGE_BYTES_MAX},
    mempool::{Mempool, Source},
    metrics::Metrics,
    notice::NoticeBoard,
    outbox::Outbox,
    payload::{HeightCertificate, Payload},
    record::Record,
};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tg_bft::{
    committee::Committee,
    handle::Node,
    machine::{FinalBlock, Machine, Place, Run, Trust, Work},
    recover::Recovery,
};
use tg_ledger::Rules;
use tg_types::{
    Event,
    codec::{Decode as _, Encode as _},
    hash::sha256,
    header::Header,
    ids::{AccountId, Hash32, HeaderDigest, TxId},
    key::{Domain, KeyPoints, PublicKey},
    reason::Reason,
    receipt::Receipt,
    tick::Height,
    traits::CertificateCheck as _,
    tx::{CheckedTx, Lane, Nonce, SignedTx, check_batch},
};
use tokio::sync::{broadcast, oneshot};

/// Final blocks a slow listener may lag behind before it misses some.
const LISTENER_LAG_MAX: usize = 1_024;

/// Callers waiting for receipts. More are refused; they can ask for the receipt later.
const WAITERS_MAX: usize = 100_000;

/// Final heights without a certificate before peers are asked for it.
const CERTIFICATE_PATIENCE: u64 = 8;

/// Bytes of transactions from peers that wait to be checked. More are dropped and come again.
const UNCHECKED_BYTES_MAX: usize = 8 << 20;

/// Final blocks kept in memory, for questions that come before the index has them.
const RECENT_MAX: usize = 64;

/// Heights between two searches for expired transactions.
const EXPIRE_EVERY: u64 = 16;

/// Evidence kept until it is on chain.
const EVIDENCE_MAX: usize = 64;

/// A final block with its receipts, as listeners get it.
#[derive(Clone, Debug)]
pub struct FinalReceipts {
    /// The block's header.
    pub header: Header,
    /// The header's digest.
    pub digest: HeaderDigest,
    /// The block's receipts.
    pub record: Arc<Record>,
}

/// What is known about a transaction that somebody waits for.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It is in a final block.
    Final {
        /// Height of the block.
        height: Height,
        /// Its receipt.
        receipt: Box<Receipt>,
    },
    /// It left the pool and can not become final.
    Dropped(Reason),
}

/// How many blocks after a commitment its draw is known: the beacon is the certificate of the
/// second one, and the one after carries it.
const BEACON_HEIGHTS: u64 = 4;

/// Whether something waits for a beacon from now on.
const fn waits_for_beacon(event: &Event) -> bool {
    matches!(
        event,
        Event::ResultCommitted { .. }
            | Event::NodeRegistered { .. }
            | Event::NodeChanged { .. }
            | Event::CapacityCommitted { .. }
    )
}

struct Shared {
    pool: Mempool,
    /// Transactions from peers whose signatures wait to be checked.
    unchecked: Vec<SignedTx>,
    /// Bytes of those.
    unchecked_bytes: usize,
    outbox: Outbox,
    waiters: BTreeMap<TxId, Vec<oneshot::Sender<Outcome>>>,
    evidence: Vec<Bytes>,
    recent: VecDeque<Arc<FinalReceipts>>,
    tip: Option<(Header, HeaderDigest)>,
    asked_at: Option<Height>,
    /// The height up to which blocks are awaited, because their beacons draw.
    awaited: u64,
}

/// The ledger behind the engine's interface.
///
/// The engine calls from several tasks, synchronously and briefly; the lock is never held across
/// an execution or a signature check.
pub(crate) struct LedgerMachine {
    rules: Arc<Rules>,
    domain: Domain,
    shared: Mutex<Shared>,
    book: CertificateBook,
    committee: Arc<Committee>,
    recovery: Recovery,
    node: OnceLock<Node>,
    listeners: broadcast::Sender<Arc<FinalReceipts>>,
    seed: [u8; 32],
    batches: AtomicU64,
    /// Keys of those who have sent before.
    points: Mutex<KeyPoints>,
    pub(crate) notices: NoticeBoard,
    pub(crate) metrics: Metrics,
}

impl LedgerMachine {
    pub(crate) fn new(
        mut rules: Rules,
        committee: Committee,
        recovery: Recovery,
        seed: [u8; 32],
    ) -> Arc<Self> {
        let book = CertificateBook::default();
        let committee = Arc::new(committee);
        rules.certificates = Arc::new(KnownOrChecked {
            book: book.clone(),
            committee: Arc::clone(&committee) as Arc<_>,
        });
        let pool = Mempool::new(rules.genesis.params());
        let outbox_most = pool.most();
        Arc::new(Self {
            domain: rules.domain,
            rules: Arc::new(rules),
            shared: Mutex::new(Shared {
                pool,
                unchecked: Vec::new(),
                unchecked_bytes: 0,
                outbox: Outbox::new(outbox_most),
                waiters: BTreeMap::new(),
                evidence: Vec::new(),
                recent: VecDeque::new(),
                tip: None,
                asked_at: None,
                awaited: 0,
            }),
            book,
            committee,
            recovery,
            node: OnceLock::new(),
            listeners: broadcast::channel(LISTENER_LAG_MAX).0,
            seed,
            batches: AtomicU64::new(0),
            points: Mutex::default(),
            notices: NoticeBoard::default(),
            metrics: Metrics::default(),
        })
    }

    fn points(&self) -> MutexGuard<'_, KeyPoints> {
        self.points.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Connects the machine with the node that runs it, and tells it where the chain stands.
    pub(crate) fn attach(&self, node: Node, tip: Option<(Header, HeaderDigest)>) {
        let _twice = self.node.set(node);
        if let Some((header, digest)) = &tip {
            self.book.add_header(header.height, *digest);
        }
        let mut shared = self.shared();
        if shared.tip.is_none() {
            shared.tip = tip;
        }
    }

    pub(crate) fn set_carried(&self, height: Height) {
        self.book.set_carried(height);
    }

    pub(crate) fn add_header(&self, height: Height, digest: HeaderDigest) {
        self.book.add_header(height, digest);
    }

    pub(crate) fn add_certificate(&self, height: Height, certificate: Bytes) {
        self.book.add_certificate(height, certificate);
    }

    pub(crate) fn tip(&self) -> Option<(Header, HeaderDigest)> {
        self.shared().tip.clone()
    }

    pub(crate) fn pool_len(&self) -> (usize, usize) {
        let shared = self.shared();
        (shared.pool.ready(), shared.pool.capacity())
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<FinalReceipts>> {
        self.listeners.subscribe()
    }

    /// A transaction among the most recent final blocks, with its position.
    pub(crate) fn recent(&self, id: &TxId) -> Option<(Arc<FinalReceipts>, u32)> {
        let shared = self.shared();
        shared.recent.iter().rev().find_map(|block| {
            let receipt = block.record.receipts.iter().find(|receipt| receipt.tx == *id)?;
            Some((Arc::clone(block), receipt.index))
        })
    }

    /// The most recent final blocks, the latest first.
    pub(crate) fn recent_blocks(&self) -> Vec<Arc<FinalReceipts>> {
        self.shared().recent.iter().rev().cloned().collect()
    }

    /// The recent final header with this state root.
    pub(crate) fn header_with_root(&self, root: &Hash32) -> Option<Header> {
        let shared = self.shared();
        let recent = shared.recent.iter().rev().map(|block| &block.header);
        let tip = shared.tip.iter().map(|(header, _)| header);
        recent.chain(tip).find(|header| header.state_root == *root).cloned()
    }

    /// A certificate that is known but may not be stored yet.
    pub(crate) fn known_certificate(&self, height: Height) -> Option<Bytes> {
        self.book.consecutive(height, 1).pop().map(|certificate| certificate.bytes)
    }

    /// The nonce after those that wait in a lane, at least `settled`.
    pub(crate) fn nonce_after(&self, id: &AccountId, lane: Lane, settled: Nonce) -> Nonce {
        self.shared().pool.nonce_after(id, lane, settled)
    }

    /// Takes evidence that was seen but is not known to be on chain yet.
    pub(crate) fn take_evidence(&self) -> Vec<Bytes> {
        std::mem::take(&mut self.shared().evidence)
    }

    /// A waiter for a transaction's outcome, `None` if too many wait.
    pub(crate) fn wait(&self, id: TxId) -> Option<oneshot::Receiver<Outcome>> {
        let (sender, receiver) = oneshot::channel();
        let mut shared = self.shared();
        if shared.waiters.len() >= WAITERS_MAX {
            shared.waiters.retain(|_, waiting| {
                waiting.retain(|sender| !sender.is_closed());
                !waiting.is_empty()
            });
            if shared.waiters.len() >= WAITERS_MAX {
                return None;
            }
        }
        shared.waiters.entry(id).or_default().push(sender);
        Some(receiver)
    }

    /// Checks signatures, all at once. Costs tens of microseconds each.
    pub(crate) fn check(&self, txs: Vec<SignedTx>) -> Vec<Result<CheckedTx, Reason>> {
        self.metrics.signatures_checked.add(txs.len());
        let batch = self.batches.fetch_add(1, Ordering::Relaxed);
        let seed = sha256(&[&self.seed, &batch.to_be_bytes()]);
        let senders = txs.iter().map(|tx| tx.body.sender.as_bytes());
        let mut points = self.points().find(senders); // the lock is not held while checking
        let before = points.len();
        let checked = check_batch(&self.domain, txs, seed, &mut points);
        if points.len() > before {
            let good = checked.iter().flatten().map(|tx| tx.body().sender.as_bytes());
            self.points().keep(&points.find(good));
        }
        checked.into_iter().map(|tx| tx.map_err(|error| error.reason())).collect()
    }

    /// Puts transactions into the pool; those that are new go out to the peers.
    pub(crate) fn insert(
        &self,
        txs: impl IntoIterator<Item = CheckedTx>,
        source: Source,
    ) -> Vec<Result<TxId, Reason>> {
        let announce = source == Source::Client;
        let mut shared = self.shared();
        let results = txs
            .into_iter()
            .map(|tx| {
                let tx = Arc::new(tx);
                shared.pool.insert(Arc::clone(&tx), source)?;
                let id = tx.id();
                if announce {
                    shared.outbox.push(tx);
                }
                Ok(id)
            })
            .collect::<Vec<_>>();
        self.metrics.pool_txs.set(shared.pool.ready());
        drop(shared);
        if let Some(node) = self.node.get() {
            if announce {
                node.announce();
            }
            node.wake();
        }
        results
    }

    /// Turns signed transactions into checked ones. Those that wait in the pool with the same
    /// signature were checked when they came in.
    fn checked(&self, txs: Vec<SignedTx>, trust: Trust) -> Result<Vec<CheckedTx>, String> {
        if trust == Trust::Finalised {
            let domain = &self.domain;
            return Ok(txs.into_iter().map(|tx| CheckedTx::from_finalised(tx, domain)).collect());
        }
        let ids: Vec<TxId> = txs.iter().map(|tx| tx.id(&self.domain)).collect();
        let known: Vec<Option<Arc<CheckedTx>>> = {
            let shared = self.shared();
            ids.iter().map(|id| shared.pool.get(id).cloned()).collect()
        };
        let mut checked: Vec<Option<CheckedTx>> = Vec::with_capacity(txs.len());
        let mut strangers = Vec::new();
        for (tx, known) in txs.into_iter().zip(known) {
            match known {
                Some(known) if known.tx().signature == tx.signature => {
                    checked.push(Some(CheckedTx::clone(&known)));
                }
                _ => {
                    checked.push(None);
                    strangers.push(tx);
                }
            }
        }
        let mut strangers = self.check(strangers).into_iter();
        checked
            .into_iter()
            .map(|slot| match slot {
                Some(tx) => Ok(tx),
                None => match strangers.next() {
                    Some(Ok(tx)) => Ok(tx),
                    Some(Err(reason)) => Err(reason.sentence().to_owned()),
                    None => Err("fewer answers than transactions".to_owned()),
                },
            })
            .collect()
    }

    /// A block at this height was executed with these transactions.
    pub(crate) fn take_off(&self, height: Height, txs: impl Iterator<Item = TxId>) {
        self.shared().pool.take_off(height, txs);
    }

    /// The answer to a node that lacks certificates from a height on: those that are here, or this
    /// seat's signature so that the lost one can be made again.
    fn help_out(&self, from: Height) -> Option<Bytes> {
        let found = self.book.consecutive(from, crate::gossip::CERTIFICATES_MAX);
        if !found.is_empty() {
            return Some(Gossip::Certificates(found).to_bytes().into());
        }
        let bytes = self.recovery.acknowledge(from, &self.book.digest(from)?)?;
        Some(Gossip::Acknowledgement(HeightCertificate { height: from, bytes }).to_bytes().into())
    }

    /// Takes a seat's signature over a header whose certificate is lost; with a quorum of them the
    /// certificate is made again.
    fn gather(&self, from: PublicKey, signed: HeightCertificate) {
        let HeightCertificate { height, bytes } = signed;
        let Some(digest) = self.book.digest(height) else { return };
        if self.book.lacking(height, 0) != Some(height) {
            return;
        }
        let mut gathered = self.book.gather(height, from, bytes);
        gathered.extend(self.recovery.acknowledge(height, &digest));
        if let Some(made) = self.recovery.assemble(height, &digest, gathered.iter()) {
            self.receive_certificates(vec![HeightCertificate { height, bytes: made }]);
        }
    }

    fn receive_certificates(&self, certificates: Vec<HeightCertificate>) {
        for HeightCertificate { height, bytes } in certificates {
            let Some(digest) = self.book.digest(height) else { continue };
            if self.book.wants(height) && self.committee.verify(height, &digest, &bytes) {
                self.book.add_certificate(height, bytes);
            }
        }
        if let Some(node) = self.node.get() {
            node.wake();
        }
    }
}

impl LedgerMachine {
    /// Forgets candidates that can never enter a block; those that may later stay.
    pub(crate) fn drop_refused(&self, candidates: &[CheckedTx], refused: &[(usize, Reason)]) {
        let mut shared = self.shared();
        for (index, reason) in refused {
            let Some(tx) = candidates.get(*index) else { continue };
            if *reason == Reason::NonceTooHigh {
                shared.pool.park(tx.body().sender, tx.body().lane);
                continue;
            }
            shared.pool.remove(&tx.id());
            for waiter in shared.waiters.remove(&tx.id()).into_iter().flatten() {
                let _gone = waiter.send(Outcome::Dropped(*reason));
            }
        }
    }

    /// Takes a final block over: the pool forgets its transactions, waiters get their receipts.
    fn settle(&self, block: &Arc<FinalReceipts>, places: &[(AccountId, Lane, Nonce)]) {
        let height = block.header.height;
        let mut shared = self.shared();
        shared.recent.push_back(Arc::clone(block)); // first, so that who is told can also ask
        while shared.recent.len() > RECENT_MAX {
            shared.recent.pop_front();
        }
        shared.tip = Some((block.header.clone(), block.digest));
        let receipts = block.record.receipts.iter();
        let mut events = receipts.flat_map(|receipt| &receipt.events);
        if events.any(waits_for_beacon) {
            shared.awaited = height.get().saturating_add(BEACON_HEIGHTS);
        }
        for (sender, lane, nonce) in places {
            shared.pool.finalised(*sender, *lane, *nonce);
        }
        shared.pool.land(height);
        for receipt in &block.record.receipts {
            for waiter in shared.waiters.remove(&receipt.tx).into_iter().flatten() {
                let receipt = Box::new(receipt.clone());
                let _gone = waiter.send(Outcome::Final { height, receipt });
            }
        }
        if height.get().is_multiple_of(EXPIRE_EVERY) {
            for id in shared.pool.expire(height) {
                for waiter in shared.waiters.remove(&id).into_iter().flatten() {
                    let _gone = waiter.send(Outcome::Dropped(Reason::Expired));
                }
            }
        }
        self.metrics.pool_txs.set(shared.pool.ready());
    }
}

/// The engine's interface, on a shared machine: runs keep it alive.
pub(crate) struct SharedLedger(pub(crate) Arc<LedgerMachine>);

impl Machine for SharedLedger {
    fn work(&self) -> Work {
        let shared = self.0.shared();
        let height = shared.tip.as_ref().map_or(0, |(header, _)| header.height.get());
        let (ready, is_awaited) = (shared.pool.ready(), height < shared.awaited);
        drop(shared);
        let full = usize::try_from(self.0.rules.genesis.params().block_tx_max).unwrap_or(0);
        match ready {
            0 if !is_awaited => Work::None,
            _ if ready >= full => Work::Full,
            _ => Work::Some,
        }
    }

    fn draft(&self, place: &Place) -> Box<dyn Run> {
        let count = usize::try_from(self.0.rules.genesis.params().block_tx_max).unwrap_or(0);
        let candidates = self.0.shared().pool.candidates(count);
        let candidates = candidates.iter().map(|tx| CheckedTx::clone(tx)).collect();
        Box::new(Draft {
            machine: Arc::clone(&self.0),
            place: place.clone(),
            candidates,
            certificates: self.0.book.snapshot(),
        })
    }

    fn open(&self, place: &Place, payload: &Bytes, trust: Trust) -> Result<Box<dyn Run>, String> {
        let content = Payload::from_bytes(payload).map_err(|error| error.to_string())?;
        let txs = self.0.checked(content.txs, trust)?;
        let machine = Arc::clone(&self.0);
        Ok(Box::new(Opened::new(machine, place, content.certificates, txs, payload.clone())))
    }

    fn finalised(&self, block: &FinalBlock) {
        let done = block.memo.downcast_ref::<Done>().expect("this machine left it");
        self.0.book.add_header(block.header.height, block.digest);
        if let Some(last) = done.certificates.last() {
            for carried in &done.certificates {
                self.0.book.add_certificate(carried.height, carried.bytes.clone());
            }
            self.0.book.set_carried(last.height);
        }
        let metrics = &self.0.metrics;
        metrics.blocks_final.add(1);
        metrics.txs_final.add(done.places.len());
        metrics.height.set(usize::try_from(block.header.height.get()).unwrap_or(usize::MAX));
        let (header, digest) = (block.header.clone(), block.digest);
        let record = Arc::clone(&done.record);
        let receipts = Arc::new(FinalReceipts { header, digest, record });
        self.0.settle(&receipts, &done.places);
        let _nobody = self.0.listeners.send(receipts);
    }

    fn carried(&self) -> Option<Height> {
        self.0.book.carried()
    }

    fn certified(&self, height: Height, certificate: &Bytes) {
        self.0.book.add_certificate(height, certificate.clone());
        self.0.metrics.certificates.add(1);
    }

    fn equivocated(&self, evidence: &Bytes) {
        self.0.metrics.equivocations.add(1);
        let mut shared = self.0.shared();
        if shared.evidence.len() < EVIDENCE_MAX && !shared.evidence.contains(evidence) {
            shared.evidence.push(evidence.clone());
        }
    }

    fn gossiped(&self, from: &PublicKey, message: &Bytes) -> Option<Bytes> {
        match Gossip::from_bytes(message).ok()? {
            Gossip::Txs(txs) => {
                let mut shared = self.0.shared();
                if shared.unchecked_bytes.saturating_add(message.len()) <= UNCHECKED_BYTES_MAX {
                    shared.unchecked_bytes += message.len();
                    shared.unchecked.extend(txs);
                }
                None
            }
            Gossip::CertificatesWanted(height) => self.0.help_out(height),
            Gossip::Acknowledgement(signed) => {
                self.0.gather(*from, signed);
                None
            }
            Gossip::Certificates(certificates) => {
                self.0.receive_certificates(certificates);
                None
            }
            Gossip::Notices(notices) => {
                self.0.notices.receive(notices, &self.0.rules.genesis);
                None
            }
            Gossip::NoticesWanted => {
                let held = self.0.notices.held();
                (!held.is_empty()).then(|| Gossip::Notices(held).to_bytes().into())
            }
        }
    }

    fn has_chores(&self) -> bool {
        !self.0.shared().unchecked.is_empty()
    }

    fn do_chores(&self) {
        let unchecked = {
            let mut shared = self.0.shared();
            shared.unchecked_bytes = 0;
            std::mem::take(&mut shared.unchecked)
        };
        let named: Vec<(TxId, SignedTx)> =
            unchecked.into_iter().map(|tx| (tx.id(&self.0.domain), tx)).collect();
        let strangers = {
            let shared = self.0.shared();
            // Several peers may send the same; another signature makes it another candidate.
            let mut seen = BTreeSet::new();
            let mut is_new = |id: &TxId, tx: &SignedTx| {
                !shared.pool.knows(id) && seen.insert((*id, tx.signature))
            };
            named.into_iter().filter(|(id, tx)| is_new(id, tx)).map(|(_, tx)| tx).collect()
        };
        self.0.insert(self.0.check(strangers).into_iter().flatten(), Source::Peer);
    }

    fn pulse(&self) -> Vec<Bytes> {
        let (outbox, tip, asked_at) = {
            let mut shared = self.0.shared();
            let tip = shared.tip.as_ref().map(|(header, _)| header.height);
            let Shared { outbox, pool, .. } = &mut *shared;
            let due = outbox.due(tip.unwrap_or(Height::new(0)), |id| pool.get(id).is_some());
            (due, tip, shared.asked_at)
        };
        let mut messages = pack(outbox);
        let lacking = tip.and_then(|tip| self.0.book.lacking(tip, CERTIFICATE_PATIENCE));
        // Ask once per final height, or while the chain stands still at every pulse.
        if let Some(lacking) = lacking.filter(|_| asked_at != tip || messages.is_empty()) {
            messages.push(Gossip::CertificatesWanted(lacking).to_bytes().into());
            self.0.shared().asked_at = tip;
        }
        messages.extend(self.0.notices.due().iter().map(|due| due.to_bytes().into()));
        messages
    }
}

/// Packs transactions into messages of bounded size.
fn pack(outbox: Vec<Arc<CheckedTx>>) -> Vec<Bytes> {
    let mut messages = Vec::new();
    let (mut batch, mut bytes) = (Vec::new(), 0usize);
    for tx in outbox {
        bytes += usize::try_from(tx.size_bytes()).unwrap_or(MESSAGE_BYTES_MAX);
        batch.push(tx.tx().clone());
        if bytes >= MESSAGE_BYTES_MAX {
            messages.push(Gossip::Txs(std::mem::take(&mut batch)).to_bytes().into());
            bytes = 0;
        }
    }
    if !batch.is_empty() {
        messages.push(Gossip::Txs(batch).to_bytes().into());
    }
    messages
}

impl LedgerMachine {
    /// What this machine holds in memory, each with its bound.
    pub(crate) fn held(&self) -> [(&'static str, usize, usize); 8] {
        let shared = self.shared();
        let pool = shared.pool.most();
        let block = usize::try_from(self.rules.genesis.params().block_tx_max).unwrap_or(usize::MAX);
        // Views between two final blocks may execute several candidates of a height.
        let in_flight = block.saturating_mul(IN_FLIGHT_BLOCKS_MAX);
        [
            ("waiting transactions", shared.pool.len(), pool),
            ("transactions in flight", shared.pool.in_flight(), in_flight),
            ("bytes to check", shared.unchecked_bytes, UNCHECKED_BYTES_MAX),
            ("transactions to announce", shared.outbox.len(), 2 * pool),
            ("waiters", shared.waiters.len(), WAITERS_MAX),
            ("pieces of evidence", shared.evidence.len(), EVIDENCE_MAX),
            ("recent blocks", shared.recent.len(), RECENT_MAX),
            ("notices", self.notices.held().len(), self.rules.genesis.validators().len()),
        ]
    }
}

/// Blocks whose transactions may be in flight at once: candidates above the last final height.
const IN_FLIGHT_BLOCKS_MAX: usize = 64;
