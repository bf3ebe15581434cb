//! The judge: takes every final block from the first honest node that has it, replays it through
//! the ledger and checks what must hold; compares what the other nodes say about the same height.

use crate::{
    audit::Audit,
    book::Book,
    scan::Scan,
    trace::Trace,
    violation::{Invariant, Violations},
    world::World,
};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};
use tg_bft::committee::Committee;
use tg_chain::{FinalReceipts, genesis_header, payload::Payload, record::Record};
use tg_ledger::{BlockEnv, FIRST_BLOCK_DELAY_MAX, MemoryView, Rules};
use tg_sim::cluster::{Adjust, Directory, Live};
use tg_types::{
    codec::{Decode as _, Encode as _},
    hash::sha256,
    header::Header,
    ids::{HeaderDigest, TxId},
    key::{Domain, KeyPoints},
    merkle,
    tick::Height,
    traits::CertificateCheck,
    tx::{CheckedTx, check_batch},
};
use tokio::sync::broadcast;

/// States kept for the comparison at the end: nodes are at most a few blocks apart then.
const STATES_MAX: usize = 24;

/// A judged block.
pub(crate) struct Judged {
    pub(crate) digest: HeaderDigest,
    pub(crate) header: Header,
    pub(crate) payload: Bytes,
    pub(crate) record: Bytes,
    /// Positions of its transactions.
    pub(crate) txs: BTreeMap<TxId, usize>,
}

/// Certificates the judge has verified itself; the replayed ledger asks here, so each is paired
/// once.
#[derive(Clone, Default)]
struct Verdicts(Arc<Mutex<BTreeMap<Certified, bool>>>);

/// A height and the bytes that claim to be its certificate.
type Certified = (Height, Vec<u8>);

impl CertificateCheck for Verdicts {
    fn verify(&self, height: Height, _digest: &HeaderDigest, certificate: &[u8]) -> bool {
        let verdicts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.get(&(height, certificate.to_vec())).copied().unwrap_or(false)
    }
}

/// Listens to one start of one node.
struct Ear {
    place: usize,
    serial: u64,
    blocks: broadcast::Receiver<Arc<FinalReceipts>>,
}

/// The judge.
pub(crate) struct Judge {
    rules: Rules,
    domain: Domain,
    committee: Committee,
    verdicts: Verdicts,
    view: MemoryView,
    pub(crate) audit: Audit,
    honest: Vec<usize>,
    ears: Vec<Ear>,
    /// Which digests nodes have told of which heights.
    told: BTreeMap<Height, Vec<(usize, HeaderDigest)>>,
    /// How far nodes have come.
    reach: BTreeMap<usize, Height>,
    book: Book,
    pub(crate) blocks: BTreeMap<Height, Judged>,
    pub(crate) states: VecDeque<(Height, MemoryView)>,
    pub(crate) found: Violations,
    pub(crate) trace: Trace,
}

impl Judge {
    pub(crate) fn new(world: &World, adjust: &Adjust, book: Book) -> Self {
        let genesis = Arc::clone(&world.genesis);
        let domain = genesis.domain();
        let committee = Committee::new(&genesis, &domain).expect("the world's genesis is valid");
        let verdicts = Verdicts::default();
        let mut rules = Rules {
            genesis: Arc::clone(&genesis),
            domain,
            equivocation: Arc::new(committee.clone()),
            certificates: Arc::new(verdicts.clone()),
            judge: Arc::new(tg_types::NoPrograms),
            verifier: Arc::new(tg_types::NoPrograms),
            #[cfg(feature = "planted-bugs")]
            planted: None,
        };
        // A real bug would be in the replay as well, so a planted one is too.
        adjust(&mut rules);
        Self {
            audit: Audit::new(&genesis, &world.liars()),
            rules,
            domain,
            committee,
            verdicts,
            view: MemoryView::new(),
            honest: world.honest(),
            ears: Vec::new(),
            told: BTreeMap::new(),
            reach: BTreeMap::new(),
            book,
            blocks: BTreeMap::new(),
            states: VecDeque::new(),
            found: Violations::default(),
            trace: Trace::new(world.seed),
        }
    }

    /// The last judged height.
    pub(crate) fn height(&self) -> Height {
        self.blocks.last_key_value().map_or(Height::ZERO, |(height, _)| *height)
    }

    /// Hears what honest nodes report and judges what can be judged. Returns new heights.
    pub(crate) async fn advance(&mut self, directory: &Directory, now_ms: u64) {
        self.listen(directory);
        self.hear(now_ms);
        loop {
            let next = Height::new(self.height().get() + 1);
            let witnesses = self.reach.iter().filter(|(_, reach)| **reach >= next);
            let witnesses: Vec<usize> = witnesses.map(|(place, _)| *place).collect();
            let mut is_judged = false;
            for place in witnesses {
                let Some(live) = directory.live(place) else { continue };
                if let Some((header, payload, record)) = fetch(&live, next).await {
                    self.judge(header, payload, record);
                    is_judged = true;
                    break;
                }
            }
            if !is_judged || !self.found.is_empty() {
                return;
            }
            self.compare_told(next);
        }
    }

    fn listen(&mut self, directory: &Directory) {
        for place in self.honest.clone() {
            let Some(live) = directory.live(place) else { continue };
            let is_known = |ear: &Ear| ear.place == place && ear.serial == live.serial;
            if !self.ears.iter().any(is_known) {
                self.ears.retain(|ear| ear.place != place);
                let blocks = live.chain.subscribe();
                self.ears.push(Ear { place, serial: live.serial, blocks });
                // What became final before we listened is told by the tip.
                if let Some((header, digest)) = live.chain.tip() {
                    self.tell(place, header.height, digest);
                }
            }
            for (what, held, max) in live.chain.held() {
                self.found.check(held <= max, Invariant::Bounded, || {
                    format!("node {place} holds {held} {what}, at most {max} are allowed")
                });
            }
        }
    }

    fn tell(&mut self, place: usize, height: Height, digest: HeaderDigest) {
        self.told.entry(height).or_default().push((place, digest));
        let reach = self.reach.entry(place).or_default();
        *reach = height.max(*reach);
        self.compare_told(height);
    }

    fn hear(&mut self, now_ms: u64) {
        let mut heard = Vec::new();
        for ear in &mut self.ears {
            while let Ok(block) = ear.blocks.try_recv() {
                heard.push((ear.place, block));
            }
        }
        for (place, block) in heard {
            let height = block.header.height;
            let note = [&place.to_be_bytes()[..], block.digest.as_bytes()].concat();
            self.trace.note(now_ms, "final", &note);
            self.tell(place, height, block.digest);
        }
    }

    /// Honest nodes have the same block at a height.
    fn compare_told(&mut self, height: Height) {
        let Some(judged) = self.blocks.get(&height) else { return };
        for (place, digest) in self.told.get(&height).into_iter().flatten() {
            self.found.check(*digest == judged.digest, Invariant::OneBlock, || {
                format!(
                    "node {place} has {digest:?} at height {}, others have {:?}",
                    height.get(),
                    judged.digest
                )
            });
        }
    }

    fn judge(&mut self, header: Header, payload: Bytes, record: Bytes) {
        let height = header.height;
        let parsed = Payload::from_bytes(&payload).ok().zip(Record::from_bytes(&record).ok());
        let Some((content, receipts)) = parsed else {
            let detail = format!("payload or record of height {} does not decode", height.get());
            return self.found.add(Invariant::Canonical, detail);
        };
        let same = content.to_bytes() == payload
            && receipts.to_bytes() == record
            && Header::from_bytes(&header.to_bytes()).as_ref() == Ok(&header);
        self.found.check(same, Invariant::Canonical, || {
            format!("header, payload or record of height {} encode otherwise", height.get())
        });
        self.check_header(&header, &payload, &receipts);
        self.check_signatures(&header, &content);
        let txs = self.replay(&header, &content, &receipts);
        let genesis = Arc::clone(&self.rules.genesis);
        let found = &mut self.found;
        let (block, receipts) = (&receipts.block, &receipts.receipts);
        self.audit.book(&genesis, header.tick, &content.txs, receipts, block, found);
        let scan = Scan::of(&self.view, found);
        scan.check_supply(&genesis, found);
        scan.check_due(header.tick, found);
        scan.check_work(found);
        self.audit.compare(&scan, found);
        self.keep(header, payload, record, &content, &txs);
    }

    fn keep(
        &mut self,
        header: Header,
        payload: Bytes,
        record: Bytes,
        content: &Payload,
        txs: &[CheckedTx],
    ) {
        let (height, tick) = (header.height, header.tick);
        {
            let mut pages = self.book.pages();
            pages.tip = Some((height, tick));
            for (tx, checked) in content.txs.iter().zip(txs) {
                let place = (tx.body.sender, tx.body.lane, tx.body.nonce);
                pages.by_nonce.insert(place, checked.id());
            }
        }
        let digest = header.digest(&self.domain);
        let txs = txs.iter().enumerate().map(|(index, tx)| (tx.id(), index)).collect();
        self.blocks.insert(height, Judged { digest, header, payload, record, txs });
        self.states.push_back((height, self.view.clone()));
        while self.states.len() > STATES_MAX {
            self.states.pop_front();
        }
    }

    /// The header follows its parent and is what payload and receipts demand.
    fn check_header(&mut self, header: &Header, payload: &Bytes, record: &Record) {
        let genesis = genesis_header(&self.rules.genesis);
        let parent = self.blocks.last_key_value().map_or(&genesis, |(_, last)| &last.header);
        let mut leaves: Vec<Vec<u8>> = record.receipts.iter().map(|r| r.to_bytes()).collect();
        leaves.push(record.block.to_bytes());
        let step = if parent.height.get() == 0 {
            FIRST_BLOCK_DELAY_MAX.get() // a network may wait for its validators
        } else {
            self.rules.genesis.params().tick_step_max.get()
        };
        let claims = [
            ("parent", header.parent == parent.digest(&self.domain)),
            ("height", header.height.get() == parent.height.get() + 1),
            ("time", (parent.tick.get()..=parent.tick.get() + step).contains(&header.tick.get())),
            ("payload", *header.payload.as_bytes() == sha256(&[payload])),
            ("receipts root", header.receipts_root == merkle::root(&leaves)),
        ];
        for (claim, holds) in claims {
            self.found.check(holds, Invariant::Header, || {
                format!("the {claim} of height {} is wrong", header.height.get())
            });
        }
    }

    /// Every transaction is signed by its sender, every certificate by the committee.
    fn check_signatures(&mut self, header: &Header, content: &Payload) {
        let height = header.height.get();
        let seed = *header.payload.as_bytes();
        let txs = content.txs.clone();
        let verdicts = check_batch(&self.domain, txs, seed, &mut KeyPoints::default());
        for error in verdicts.into_iter().filter_map(Result::err) {
            self.found.add(Invariant::Authority, format!("height {height}: {error}"));
        }
        for certificate in &content.certificates {
            let signed = self.blocks.get(&certificate.height);
            let is_valid = signed.is_some_and(|signed| {
                self.committee.verify(certificate.height, &signed.digest, &certificate.bytes)
            });
            self.found.check(is_valid, Invariant::Authority, || {
                let of = certificate.height.get();
                format!("block {height} carries a forged certificate of height {of}")
            });
            let mut verdicts = self.verdicts.0.lock().unwrap_or_else(PoisonError::into_inner);
            verdicts.insert((certificate.height, certificate.bytes.to_vec()), is_valid);
        }
    }

    /// Executes the block again on the replayed state and compares.
    fn replay(&mut self, header: &Header, content: &Payload, record: &Record) -> Vec<CheckedTx> {
        let genesis = genesis_header(&self.rules.genesis);
        let parent = self.blocks.last_key_value().map_or(&genesis, |(_, last)| &last.header);
        let env = BlockEnv {
            height: header.height,
            tick: header.tick,
            parent: header.parent,
            parent_tick: parent.tick,
            proposer: header.proposer,
            certificates: content
                .certificates
                .iter()
                .map(|certificate| (certificate.height, certificate.bytes.to_vec()))
                .collect(),
        };
        let finalised =
            |tx: &tg_types::SignedTx| CheckedTx::from_finalised(tx.clone(), &self.domain);
        let txs: Vec<CheckedTx> = content.txs.iter().map(finalised).collect();
        let height = header.height.get();
        match tg_ledger::apply(&self.rules, &self.view, &env, &txs) {
            Ok(applied) => {
                let same = applied.receipts == record.receipts
                    && applied.block_receipt == record.block
                    && applied.receipts_root == header.receipts_root
                    && applied.log_root == header.log_root;
                self.found.check(same, Invariant::Replay, || {
                    format!("replaying height {height} gives other receipts or roots")
                });
                self.view.commit(&applied.changes);
            }
            Err(error) => {
                self.found.add(Invariant::Replay, format!("height {height} is invalid: {error}"));
            }
        }
        txs
    }
}

/// A final block and its record, as a node has stored them.
async fn fetch(live: &Live, height: Height) -> Option<(Header, Bytes, Bytes)> {
    let (header, payload) = live.node.block(height).await.ok()??;
    let record = live.node.record(height).await.ok()??;
    Some((header, payload, record))
}
