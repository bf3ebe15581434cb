//! The ledger as the engine's state machine.
//!
//! Drafting and opening a block both end in the ledger's one code path; this module only carries
//! bytes to it and its effects back: it keeps the pool, the book of certificates, and those who
//! wait for a receipt.

use crate::{
    certificates::{CertificateBook, KnownOrChecked, choose},
    gossip::{Gossip, MESSAGE_BYTES_MAX},
    mempool::Mempool,
    metrics::Metrics,
    payload::{HeightCertificate, Payload},
    record::Record,
};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tg_bft::{
    committee::Committee,
    handle::Node,
    machine::{Executed, FinalBlock, Loaded, Machine, Place, Run, RunError, Trust},
    recover::Recovery,
};
use tg_ledger::{Applied, ApplyError, BlockEnv, Budget, Cursor, Lookup, Rules, View, keys};
use tg_types::{
    codec::{Decode as _, Encode as _},
    hash::sha256,
    header::Header,
    ids::{AccountId, Hash32, HeaderDigest, StateKey, TxId},
    key::{Domain, PublicKey},
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
    pub record: Record,
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

struct Shared {
    pool: Mempool,
    /// Transactions in executed blocks that are not final yet, with the height of that block.
    in_flight: BTreeMap<TxId, Height>,
    outbox: Vec<Arc<CheckedTx>>,
    waiters: BTreeMap<TxId, Vec<oneshot::Sender<Outcome>>>,
    evidence: Vec<Bytes>,
    recent: VecDeque<Arc<FinalReceipts>>,
    tip: Option<(Header, HeaderDigest)>,
    asked_at: Option<Height>,
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
        Arc::new(Self {
            domain: rules.domain,
            rules: Arc::new(rules),
            shared: Mutex::new(Shared {
                pool,
                in_flight: BTreeMap::new(),
                outbox: Vec::new(),
                waiters: BTreeMap::new(),
                evidence: Vec::new(),
                recent: VecDeque::new(),
                tip: None,
                asked_at: None,
            }),
            book,
            committee,
            recovery,
            node: OnceLock::new(),
            listeners: broadcast::channel(LISTENER_LAG_MAX).0,
            seed,
            batches: AtomicU64::new(0),
            metrics: Metrics::default(),
        })
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
        (shared.pool.len(), shared.pool.capacity())
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
        let checked = check_batch(&self.domain, txs, seed);
        checked.into_iter().map(|tx| tx.map_err(|error| error.reason())).collect()
    }

    /// Puts transactions into the pool; those that are new go out to the peers.
    pub(crate) fn insert(
        &self,
        txs: impl IntoIterator<Item = CheckedTx>,
        announce: bool,
    ) -> Vec<Result<TxId, Reason>> {
        let mut shared = self.shared();
        let results = txs
            .into_iter()
            .map(|tx| {
                let tx = Arc::new(tx);
                shared.pool.insert(Arc::clone(&tx))?;
                let id = tx.id();
                if announce {
                    shared.outbox.push(tx);
                }
                Ok(id)
            })
            .collect::<Vec<_>>();
        self.metrics.pool_txs.set(shared.pool.len());
        drop(shared);
        if let Some(node) = self.node.get() {
            if announce {
                node.announce();
            }
            node.wake();
        }
        results
    }

    fn env(place: &Place, certificates: &[HeightCertificate]) -> BlockEnv {
        BlockEnv {
            height: place.height,
            tick: place.tick,
            parent: place.parent,
            parent_tick: place.parent_tick,
            proposer: place.proposer,
            certificates: certificates
                .iter()
                .map(|certificate| (certificate.height, certificate.bytes.to_vec()))
                .collect(),
        }
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

    fn set_in_flight(&self, height: Height, txs: impl Iterator<Item = TxId>) {
        let mut shared = self.shared();
        for id in txs {
            shared.in_flight.insert(id, height);
        }
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
            if self.committee.verify(height, &digest, &bytes) {
                self.book.add_certificate(height, bytes);
            }
        }
        if let Some(node) = self.node.get() {
            node.wake();
        }
    }
}

/// The entries the engine has loaded, as the ledger wants to see them.
struct LoadedView<'a>(&'a Loaded);

impl View for LoadedView<'_> {
    fn get(&self, key: &StateKey) -> Lookup<'_> {
        match self.0.get(key) {
            Some(Some(bytes)) => Lookup::Present(bytes),
            Some(None) => Lookup::Absent,
            None => Lookup::Unknown,
        }
    }
}

fn run_error(error: ApplyError) -> RunError {
    if let ApplyError::Missing(keys) = error {
        return RunError::Missing(keys);
    }
    RunError::Invalid(error.to_string())
}

fn executed(applied: Applied, payload: Bytes) -> Executed {
    let record = Record { receipts: applied.receipts, block: applied.block_receipt };
    Executed {
        payload,
        changes: applied.changes,
        receipts_root: *applied.receipts_root.as_bytes(),
        log_root: *applied.log_root.as_bytes(),
        record: record.to_bytes().into(),
    }
}

/// A block being built by this node.
struct Draft {
    machine: Arc<LedgerMachine>,
    place: Place,
    candidates: Vec<CheckedTx>,
    certificates: BTreeMap<Height, Bytes>,
}

impl Run for Draft {
    fn keys(&self) -> Vec<StateKey> {
        let env = LedgerMachine::env(&self.place, &[]);
        let mut keys = tg_ledger::reads(&self.machine.rules.genesis, &env, &self.candidates);
        keys.push(keys::cursor());
        keys.sort();
        keys.dedup();
        keys
    }

    fn run(&mut self, loaded: &Loaded) -> Result<Executed, RunError> {
        let next = match loaded.get(&keys::cursor()) {
            Some(Some(bytes)) => {
                let cursor = Cursor::from_bytes(bytes)
                    .map_err(|error| RunError::Invalid(error.to_string()))?;
                Height::new(cursor.beacon.get() + 1)
            }
            Some(None) => Height::new(1),
            None => return Err(RunError::Missing(vec![keys::cursor()])),
        };
        let certificates = choose(&self.certificates, next, self.place.height);
        let env = LedgerMachine::env(&self.place, &certificates);
        let params = self.machine.rules.genesis.params();
        let budget = Budget { tx_max: params.block_tx_max, bytes_max: params.block_bytes_max };
        let view = LoadedView(loaded);
        let built = tg_ledger::build(&self.machine.rules, &view, &env, &self.candidates, budget)
            .map_err(run_error)?;
        self.machine.drop_refused(&self.candidates, &built.refused);
        let txs: Vec<SignedTx> = built
            .included
            .iter()
            .filter_map(|index| self.candidates.get(*index))
            .map(|tx| tx.tx().clone())
            .collect();
        let ids = built.applied.receipts.iter().map(|receipt| receipt.tx);
        self.machine.set_in_flight(self.place.height, ids);
        let payload = Payload { certificates, txs }.to_bytes();
        Ok(executed(built.applied, payload.into()))
    }
}

/// A block built by somebody else.
struct Opened {
    machine: Arc<LedgerMachine>,
    env: BlockEnv,
    txs: Vec<CheckedTx>,
    payload: Bytes,
}

impl Run for Opened {
    fn keys(&self) -> Vec<StateKey> {
        tg_ledger::reads(&self.machine.rules.genesis, &self.env, &self.txs)
    }

    fn run(&mut self, loaded: &Loaded) -> Result<Executed, RunError> {
        let view = LoadedView(loaded);
        let applied = tg_ledger::apply(&self.machine.rules, &view, &self.env, &self.txs)
            .map_err(run_error)?;
        self.machine.set_in_flight(self.env.height, self.txs.iter().map(CheckedTx::id));
        Ok(executed(applied, self.payload.clone()))
    }
}

impl LedgerMachine {
    /// Forgets candidates that can never enter a block; those that may later stay.
    fn drop_refused(&self, candidates: &[CheckedTx], refused: &[(usize, Reason)]) {
        let mut shared = self.shared();
        for (index, reason) in refused {
            let waits =
                matches!(reason, Reason::NonceTooHigh | Reason::BlockFull | Reason::RateLimited);
            let Some(tx) = candidates.get(*index).filter(|_| !waits) else { continue };
            shared.pool.remove(&tx.id());
            for waiter in shared.waiters.remove(&tx.id()).into_iter().flatten() {
                let _gone = waiter.send(Outcome::Dropped(*reason));
            }
        }
    }

    /// Takes a final block over: the pool forgets its transactions, waiters get their receipts.
    fn settle(&self, block: &Arc<FinalReceipts>, payload: &Payload) {
        let height = block.header.height;
        let mut shared = self.shared();
        shared.recent.push_back(Arc::clone(block)); // first, so that who is told can also ask
        while shared.recent.len() > RECENT_MAX {
            shared.recent.pop_front();
        }
        shared.tip = Some((block.header.clone(), block.digest));
        for tx in &payload.txs {
            shared.pool.finalised(tx.body.sender, tx.body.lane, tx.body.nonce);
        }
        shared.in_flight.retain(|_, at| *at > height);
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
        self.metrics.pool_txs.set(shared.pool.len());
    }
}

/// The engine's interface, on a shared machine: runs keep it alive.
pub(crate) struct SharedLedger(pub(crate) Arc<LedgerMachine>);

impl Machine for SharedLedger {
    fn has_work(&self) -> bool {
        let shared = self.0.shared();
        shared.pool.ids().any(|id| !shared.in_flight.contains_key(id))
    }

    fn draft(&self, place: &Place) -> Box<dyn Run> {
        let shared = self.0.shared();
        let count = usize::try_from(self.0.rules.genesis.params().block_tx_max).unwrap_or(0);
        let in_flight = &shared.in_flight;
        let candidates = shared
            .pool
            .candidates(count + in_flight.len())
            .into_iter()
            .filter(|tx| !in_flight.contains_key(&tx.id()))
            .take(count)
            .map(|tx| CheckedTx::clone(&tx))
            .collect();
        drop(shared);
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
        Ok(Box::new(Opened {
            machine: Arc::clone(&self.0),
            env: LedgerMachine::env(place, &content.certificates),
            txs,
            payload: payload.clone(),
        }))
    }

    fn finalised(&self, block: &FinalBlock) {
        let payload = Payload::from_bytes(&block.payload).expect("a final payload was decoded");
        let record = Record::from_bytes(&block.record).expect("this node encoded the record");
        self.0.book.add_header(block.header.height, block.digest);
        if let Some(last) = payload.certificates.last() {
            for carried in &payload.certificates {
                self.0.book.add_certificate(carried.height, carried.bytes.clone());
            }
            self.0.book.set_carried(last.height);
        }
        let metrics = &self.0.metrics;
        metrics.blocks_final.add(1);
        metrics.txs_final.add(record.receipts.len());
        metrics.height.set(usize::try_from(block.header.height.get()).unwrap_or(usize::MAX));
        let (header, digest) = (block.header.clone(), block.digest);
        let done = Arc::new(FinalReceipts { header, digest, record });
        self.0.settle(&done, &payload);
        let _nobody = self.0.listeners.send(done);
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
                let strangers = {
                    let shared = self.0.shared();
                    let is_new = |tx: &SignedTx| {
                        let id = tx.id(&self.0.domain);
                        shared.pool.get(&id).is_none() && !shared.in_flight.contains_key(&id)
                    };
                    txs.into_iter().filter(is_new).collect()
                };
                self.0.insert(self.0.check(strangers).into_iter().flatten(), false);
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
        }
    }

    fn pulse(&self) -> Vec<Bytes> {
        let (outbox, tip, asked_at) = {
            let mut shared = self.0.shared();
            let tip = shared.tip.as_ref().map(|(header, _)| header.height);
            (std::mem::take(&mut shared.outbox), tip, shared.asked_at)
        };
        let mut messages = pack(outbox);
        let lacking = tip.and_then(|tip| self.0.book.lacking(tip, CERTIFICATE_PATIENCE));
        // Ask once per final height, or while the chain stands still at every pulse.
        if let Some(lacking) = lacking.filter(|_| asked_at != tip || messages.is_empty()) {
            messages.push(Gossip::CertificatesWanted(lacking).to_bytes().into());
            self.0.shared().asked_at = tip;
        }
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
    pub(crate) fn held(&self) -> [(&'static str, usize, usize); 6] {
        let shared = self.shared();
        let pool = shared.pool.capacity();
        let block = usize::try_from(self.rules.genesis.params().block_tx_max).unwrap_or(usize::MAX);
        // Views between two final blocks may execute several candidates of a height.
        let in_flight = block.saturating_mul(IN_FLIGHT_BLOCKS_MAX);
        [
            ("waiting transactions", shared.pool.len(), pool),
            ("transactions in flight", shared.in_flight.len(), in_flight),
            ("transactions to announce", shared.outbox.len(), pool),
            ("waiters", shared.waiters.len(), WAITERS_MAX),
            ("pieces of evidence", shared.evidence.len(), EVIDENCE_MAX),
            ("recent blocks", shared.recent.len(), RECENT_MAX),
        ]
    }
}

/// Blocks whose transactions may be in flight at once: candidates above the last final height.
const IN_FLIGHT_BLOCKS_MAX: usize = 64;
