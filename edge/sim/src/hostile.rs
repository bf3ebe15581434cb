//! A seat whose node runs, votes and proposes, but whose machine lies: it repeats old transactions,
//! forges signatures and certificates, sends garbage, and proposes blocks that create money.

use bytes::Bytes;
use rand::{RngExt as _, rngs::StdRng};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use tg_bft::machine::{
    Executed, FinalBlock, Loaded, Machine, Place, Run, RunError, SharedMachine, Trust, Work,
};
use tg_chain::{
    gossip::Gossip,
    payload::{HeightCertificate, Payload},
};
use tg_ledger::AccountEntry;
use tg_types::{
    amount::Amount,
    codec::{Decode as _, Encode as _},
    ids::{Noun, StateKey},
    key::PublicKey,
    tick::Height,
    tx::SignedTx,
};

/// Old transactions remembered to be sent again.
const OLD_TXS_MAX: usize = 64;

/// What a liar may do, and how often it did; shared with whoever watches it.
#[derive(Debug, Default)]
pub(crate) struct Licence {
    pub(crate) is_over: AtomicBool,
    pub(crate) lies: AtomicU64,
}

struct Mood {
    chance: StdRng,
    old: Vec<SignedTx>,
    tip: Height,
}

/// A machine that lies.
pub(crate) struct Hostile {
    inner: SharedMachine,
    mood: Mutex<Mood>,
    licence: Arc<Licence>,
}

impl Hostile {
    /// Wraps an honest machine.
    pub(crate) fn wrap(
        inner: SharedMachine,
        chance: StdRng,
        licence: Arc<Licence>,
    ) -> SharedMachine {
        let mood = Mutex::new(Mood { chance, old: Vec::new(), tip: Height::ZERO });
        Arc::new(Self { inner, mood, licence })
    }

    fn mood(&self) -> MutexGuard<'_, Mood> {
        self.mood.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether to lie now, with this chance in a hundred.
    fn lies(&self, percent: u32) -> bool {
        if self.licence.is_over.load(Ordering::Relaxed) {
            return false;
        }
        let lies = self.mood().chance.random_range(0..100) < percent;
        self.licence.lies.fetch_add(u64::from(lies), Ordering::Relaxed);
        lies
    }
}

impl Mood {
    fn bytes(&mut self, count_max: usize) -> Vec<u8> {
        let count = self.chance.random_range(0..=count_max);
        (0..count).map(|_| self.chance.random()).collect()
    }

    fn old_tx(&mut self) -> Option<SignedTx> {
        let count = self.old.len();
        (count > 0).then(|| self.old[self.chance.random_range(0..count)].clone())
    }

    fn message(&mut self) -> Bytes {
        let gossip = match self.chance.random_range(0..6) {
            0..3 => Gossip::Txs((0..4).filter_map(|_| self.old_tx()).collect()),
            3 => {
                let mut tx = self.old_tx();
                if let Some(tx) = &mut tx {
                    tx.body.fee = tx.body.fee.plus(Amount::constant(1)).unwrap_or(tx.body.fee);
                }
                Gossip::Txs(tx.into_iter().collect())
            }
            4 => {
                let height = Height::new(self.chance.random_range(0..=self.tip.get() + 1));
                let bytes = self.bytes(64).into();
                Gossip::Certificates(vec![HeightCertificate { height, bytes }])
            }
            _ => return self.bytes(200).into(),
        };
        let mut bytes = gossip.to_bytes();
        if self.chance.random_range(0..4) == 0 {
            bytes.truncate(self.chance.random_range(0..=bytes.len()));
        }
        bytes.into()
    }
}

impl Machine for Hostile {
    fn work(&self) -> Work {
        self.inner.work()
    }

    fn draft(&self, place: &Place) -> Box<dyn Run> {
        let run = self.inner.draft(place);
        if self.lies(30) {
            let lie = self.mood().chance.random_range(0..4);
            return Box::new(LyingRun { run, lie });
        }
        run
    }

    fn open(&self, place: &Place, payload: &Bytes, trust: Trust) -> Result<Box<dyn Run>, String> {
        self.inner.open(place, payload, trust)
    }

    fn finalised(&self, block: &FinalBlock) {
        if let Ok(content) = Payload::from_bytes(&block.payload) {
            let mut mood = self.mood();
            mood.tip = block.header.height;
            mood.old.extend(content.txs);
            let excess = mood.old.len().saturating_sub(OLD_TXS_MAX);
            mood.old.drain(..excess);
        }
        self.inner.finalised(block);
    }

    fn carried(&self) -> Option<Height> {
        self.inner.carried()
    }

    fn certified(&self, height: Height, certificate: &Bytes) {
        if self.lies(25) {
            let mut forged = certificate.to_vec();
            if let Some(byte) = forged.last_mut() {
                *byte ^= 1;
            }
            self.inner.certified(height, &forged.into());
        } else {
            self.inner.certified(height, certificate);
        }
    }

    fn equivocated(&self, evidence: &Bytes) {
        self.inner.equivocated(evidence);
    }

    fn has_chores(&self) -> bool {
        self.inner.has_chores()
    }

    fn do_chores(&self) {
        self.inner.do_chores();
    }

    fn gossiped(&self, from: &PublicKey, message: &Bytes) -> Option<Bytes> {
        if self.lies(2) {
            return Some(self.mood().message());
        }
        self.inner.gossiped(from, message)
    }

    fn pulse(&self) -> Vec<Bytes> {
        let mut messages = self.inner.pulse();
        if self.lies(15) {
            messages.push(self.mood().message());
        }
        messages
    }
}

/// An execution whose outcome is changed behind its back.
struct LyingRun {
    run: Box<dyn Run>,
    lie: u32,
}

impl Run for LyingRun {
    fn keys(&self) -> Vec<StateKey> {
        self.run.keys()
    }

    fn run(&mut self, loaded: &Loaded) -> Result<Executed, RunError> {
        let mut executed = self.run.run(loaded)?;
        match self.lie {
            0 => executed.receipts_root = [7; 32],
            1 => executed.log_root = [7; 32],
            2 => executed.payload = Bytes::from_static(b"\x01garbage"),
            _ => mint(&mut executed),
        }
        Ok(executed)
    }
}

/// Gives money to every account that the block touches.
fn mint(executed: &mut Executed) {
    for (key, change) in &mut executed.changes {
        let entry = change.as_ref().filter(|_| key.noun() == Noun::Account);
        let Some(mut entry) = entry.and_then(|bytes| AccountEntry::from_bytes(bytes).ok()) else {
            continue;
        };
        if let Ok(more) = entry.balance.plus(Amount::constant(1_000_000_000)) {
            entry.balance = more;
            *change = Some(entry.to_bytes());
        }
    }
}
