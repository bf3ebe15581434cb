//! One execution of a block by the ledger: built here, or built by somebody else.
//!
//! Both end in the ledger's one code path and leave the same [`Done`] for the time when the block
//! is final.

use crate::{
    certificates::choose,
    machine::LedgerMachine,
    payload::{HeightCertificate, Payload},
    record::Record,
};
use bytes::Bytes;
use std::{collections::BTreeMap, sync::Arc};
use tg_bft::machine::{Executed, Loaded, Place, Run, RunError};
use tg_ledger::{Applied, ApplyError, BlockEnv, Budget, Cursor, Lookup, View, keys};
use tg_types::{
    codec::{Decode as _, Encode as _},
    ids::{AccountId, StateKey},
    tick::Height,
    tx::{CheckedTx, Lane, Nonce, SignedTx},
};

/// What an execution leaves for the time when its block is final.
pub(crate) struct Done {
    pub(crate) record: Arc<Record>,
    pub(crate) certificates: Vec<HeightCertificate>,
    /// The place of each transaction in its sender's lane.
    pub(crate) places: Vec<(AccountId, Lane, Nonce)>,
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

fn executed<'a>(
    applied: Applied,
    payload: Bytes,
    certificates: Vec<HeightCertificate>,
    txs: impl Iterator<Item = &'a SignedTx>,
) -> Executed {
    let record = Record { receipts: applied.receipts, block: applied.block_receipt };
    let places = txs.map(|tx| (tx.body.sender, tx.body.lane, tx.body.nonce)).collect();
    Executed {
        payload,
        changes: applied.changes,
        receipts_root: *applied.receipts_root.as_bytes(),
        log_root: *applied.log_root.as_bytes(),
        record: record.to_bytes().into(),
        memo: Arc::new(Done { record: Arc::new(record), certificates, places }),
    }
}

/// A block being built by this node.
pub(crate) struct Draft {
    pub(crate) machine: Arc<LedgerMachine>,
    pub(crate) place: Place,
    pub(crate) candidates: Vec<CheckedTx>,
    pub(crate) certificates: BTreeMap<Height, Bytes>,
}

impl Run for Draft {
    fn keys(&self) -> Vec<StateKey> {
        let env = env(&self.place, &[]);
        let mut keys = tg_ledger::reads(&self.machine.rules().genesis, &env, &self.candidates);
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
        let env = env(&self.place, &certificates);
        let rules = self.machine.rules();
        let params = rules.genesis.params();
        let budget = Budget { tx_max: params.block_tx_max, bytes_max: params.block_bytes_max };
        let view = LoadedView(loaded);
        let built =
            tg_ledger::build(rules, &view, &env, &self.candidates, budget).map_err(run_error)?;
        self.machine.drop_refused(&self.candidates, &built.refused);
        let included = built.included.iter().filter_map(|index| self.candidates.get(*index));
        let txs: Vec<SignedTx> = included.map(|tx| tx.tx().clone()).collect();
        let ids = built.applied.receipts.iter().map(|receipt| receipt.tx);
        self.machine.take_off(self.place.height, ids);
        let payload = Payload { certificates, txs };
        let bytes = payload.to_bytes().into();
        Ok(executed(built.applied, bytes, payload.certificates, payload.txs.iter()))
    }
}

/// A block built by somebody else.
pub(crate) struct Opened {
    machine: Arc<LedgerMachine>,
    env: BlockEnv,
    certificates: Vec<HeightCertificate>,
    txs: Vec<CheckedTx>,
    payload: Bytes,
}

impl Opened {
    pub(crate) fn new(
        machine: Arc<LedgerMachine>,
        place: &Place,
        certificates: Vec<HeightCertificate>,
        txs: Vec<CheckedTx>,
        payload: Bytes,
    ) -> Self {
        Self { machine, env: env(place, &certificates), certificates, txs, payload }
    }
}

impl Run for Opened {
    fn keys(&self) -> Vec<StateKey> {
        tg_ledger::reads(&self.machine.rules().genesis, &self.env, &self.txs)
    }

    fn run(&mut self, loaded: &Loaded) -> Result<Executed, RunError> {
        let view = LoadedView(loaded);
        let applied = tg_ledger::apply(self.machine.rules(), &view, &self.env, &self.txs)
            .map_err(run_error)?;
        self.machine.take_off(self.env.height, self.txs.iter().map(CheckedTx::id));
        let (payload, certificates) = (self.payload.clone(), self.certificates.clone());
        Ok(executed(applied, payload, certificates, self.txs.iter().map(CheckedTx::tx)))
    }
}
