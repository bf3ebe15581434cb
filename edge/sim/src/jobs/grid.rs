//! A ledger without a network: blocks are applied one after the other, certificates and beacons are
//! hashes. Every block is booked by the accountant, and the whole state is looked at now and then.

use crate::{
    audit::Audit,
    planted::Plant,
    scan::Scan,
    violation::{Invariant, Violations},
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tg_ledger::{
    Applied, BlockEnv, DisputeEntry, JobEntry, Lookup, MemoryView, Rules, View as _, fee_floor,
    keys,
};
use tg_tensor::judge::TensorJudge;
use tg_types::{
    amount::Amount,
    codec::{Decode, Encode as _},
    genesis::Genesis,
    hash::sha256,
    ids::{AccountId, HeaderDigest, JobId, StateKey},
    key::{PublicKey, Signature},
    receipt::{BlockReceipt, Event, Receipt, Status},
    tick::{Height, Tick},
    traits::{CertificateCheck, EquivocationCheck},
    tx::{Action, CheckedTx, Lane, Nonce, SignedTx, TxBody},
};

use super::plan::BLOCK;

/// Blocks from one look at the whole state to the next.
const LOOK_EVERY: u64 = 40;

/// Heights after which a transaction expires.
const EXPIRES_AFTER: u64 = 4;

/// Certificates are hashes, and nobody votes twice.
struct Hashes;

fn certificate(height: Height, digest: &HeaderDigest) -> Vec<u8> {
    sha256(&[b"certificate", &height.get().to_be_bytes(), digest.as_bytes()]).to_vec()
}

impl CertificateCheck for Hashes {
    fn verify(&self, height: Height, digest: &HeaderDigest, bytes: &[u8]) -> bool {
        bytes == certificate(height, digest)
    }
}

impl EquivocationCheck for Hashes {
    fn offender(&self, _evidence: &[u8]) -> Option<PublicKey> {
        None
    }
}

/// What became of a transaction.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) sender: AccountId,
    pub(super) action: Action,
    pub(super) status: Status,
    pub(super) fee: Amount,
}

/// A ledger and what waits for its next block.
pub(super) struct Grid {
    rules: Rules,
    view: MemoryView,
    env: BlockEnv,
    audit: Audit,
    nonces: BTreeMap<AccountId, Nonce>,
    outbox: Vec<(AccountId, Action)>,
    pub(super) found: Violations,
}

impl Grid {
    /// A ledger before its first block.
    pub(super) fn new(genesis: Genesis, plant: Option<Plant>) -> Self {
        let genesis = Arc::new(genesis);
        let parent = HeaderDigest::new(*genesis.hash().as_bytes());
        let proposer = genesis.validators().first().expect("a genesis has seats").key;
        let start = genesis.start();
        let mut rules = Rules {
            domain: genesis.domain(),
            genesis: Arc::clone(&genesis),
            equivocation: Arc::new(Hashes),
            certificates: Arc::new(Hashes),
            judge: Arc::new(TensorJudge),
            verifier: Arc::new(tg_types::NoPrograms),
            #[cfg(feature = "planted-bugs")]
            planted: None,
        };
        if let Some(plant) = plant {
            plant.adjust(&mut rules);
        }
        Self {
            audit: Audit::new(&genesis, &BTreeSet::new()),
            rules,
            view: MemoryView::new(),
            env: BlockEnv {
                height: Height::FIRST,
                tick: start,
                parent,
                parent_tick: start,
                proposer: proposer.into(),
                certificates: Vec::new(),
            },
            nonces: BTreeMap::new(),
            outbox: Vec::new(),
            found: Violations::default(),
        }
    }

    /// The time of the next block.
    pub(super) const fn tick(&self) -> Tick {
        self.env.tick
    }

    /// The rules.
    pub(super) const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Puts a transaction into the next block.
    pub(super) fn send(&mut self, sender: AccountId, action: Action) {
        self.outbox.push((sender, action));
    }

    fn entry<T: Decode>(&self, key: &StateKey) -> Option<T> {
        match self.view.get(key) {
            Lookup::Present(bytes) => T::from_bytes(bytes).ok(),
            Lookup::Absent | Lookup::Unknown => None,
        }
    }

    /// A job as it is stored.
    pub(super) fn job(&self, job: &JobId) -> Option<JobEntry> {
        self.entry(&keys::job(job))
    }

    /// A dispute as it is stored.
    pub(super) fn dispute(&self, job: &JobId) -> Option<DisputeEntry> {
        self.entry(&keys::dispute(job))
    }

    /// Makes a block of all that waits. Gives the events in their order, and what became of the
    /// transactions.
    pub(super) fn block(&mut self) -> (Vec<Event>, Vec<Told>) {
        let outbox = std::mem::take(&mut self.outbox);
        let txs: Vec<SignedTx> =
            outbox.into_iter().map(|(sender, action)| self.sign(sender, action)).collect();
        let checked = |tx: &SignedTx| CheckedTx::from_finalised(tx.clone(), &self.rules.domain);
        let checked: Vec<CheckedTx> = txs.iter().map(checked).collect();
        let applied = match tg_ledger::apply(&self.rules, &self.view, &self.env, &checked) {
            Ok(applied) => applied,
            Err(error) => {
                let height = self.env.height.get();
                let detail = format!("block {height} of {} is invalid: {error}", txs.len());
                self.found.add(Invariant::Replay, detail);
                return (Vec::new(), Vec::new());
            }
        };
        self.view.commit(&applied.changes);
        self.check(&txs, &applied);
        self.go_on(&applied);
        let told = txs.into_iter().zip(&applied.receipts).map(|(tx, receipt)| Told {
            sender: tx.body.sender,
            action: tx.body.action,
            status: receipt.status,
            fee: receipt.fee,
        });
        (events_of(&applied), told.collect())
    }

    fn check(&mut self, txs: &[SignedTx], applied: &Applied) {
        let genesis = Arc::clone(&self.rules.genesis);
        let tick = self.env.tick;
        let found = &mut self.found;
        for receipt in &applied.receipts {
            let same = Receipt::from_bytes(&receipt.to_bytes()).as_ref() == Ok(receipt);
            found.check(same, Invariant::Canonical, || {
                format!("a receipt with {} events cannot be read", receipt.events.len())
            });
        }
        let block = &applied.block_receipt;
        let same = BlockReceipt::from_bytes(&block.to_bytes()).as_ref() == Ok(block);
        found.check(same, Invariant::Canonical, || "a block's receipt cannot be read".to_owned());
        self.audit.book(&genesis, tick, txs, &applied.receipts, block, found);
        if self.env.height.get().is_multiple_of(LOOK_EVERY) {
            self.look();
        }
    }

    /// Looks at the whole state: all money is counted and held against the books.
    pub(super) fn look(&mut self) {
        let scan = Scan::of(&self.view, &mut self.found);
        let found = &mut self.found;
        scan.check_supply(&self.rules.genesis, found);
        // After a block the time is already that of the next one.
        let last = scan.cursor.as_ref().map_or(self.env.tick, |cursor| cursor.tick);
        scan.check_due(last, found);
        scan.check_work(found);
        self.audit.compare(&scan, found);
    }

    fn sign(&mut self, sender: AccountId, action: Action) -> SignedTx {
        let nonce = self.nonces.entry(sender).or_default();
        let body = TxBody {
            sender,
            lane: Lane::FIRST,
            nonce: *nonce,
            expires: self.env.height.plus(EXPIRES_AFTER).expect("a low height"),
            fee: Amount::ZERO,
            idempotency: None,
            action,
        };
        *nonce = nonce.next().expect("few transactions");
        // Who signed is known here, and checked nowhere; a fee takes the same bytes whatever it is.
        let mut tx = SignedTx { body, signature: Signature::new([0; 64]) };
        let size = u32::try_from(tx.to_bytes().len()).expect("transactions are small");
        tx.body.fee = fee_floor(self.rules.genesis.params(), size, &tx.body.action);
        tx
    }

    /// Prepares the next block: it carries the certificate of this one.
    fn go_on(&mut self, applied: &Applied) {
        let digest = sha256(&[self.env.parent.as_bytes(), applied.receipts_root.as_bytes()]);
        let (height, digest) = (self.env.height, HeaderDigest::new(digest));
        self.env = BlockEnv {
            height: height.next().expect("a low height"),
            tick: self.env.tick.plus(BLOCK).expect("an early time"),
            parent: digest,
            parent_tick: self.env.tick,
            proposer: self.env.proposer,
            certificates: vec![(height, certificate(height, &digest))],
        };
    }
}

/// All events of a block: what fell due, what transactions did, placements and fees.
fn events_of(applied: &Applied) -> Vec<Event> {
    let block = &applied.block_receipt.events;
    let (first, last) = Audit::split(block);
    let of_txs = applied.receipts.iter().flat_map(|receipt| &receipt.events);
    first.iter().chain(of_txs).chain(last).cloned().collect()
}
