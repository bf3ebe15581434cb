//! The ledger alone, and signatures alone: what the chain could do if the rest cost nothing.

use crate::{bench::supply::Senders, folder::NodeFolder};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tg_chain::{ChainConfig, ChainStartError, IndexPlace};
use tg_ledger::{ApplyError, BlockEnv, MemoryView, Rules, apply};
use tg_types::{
    AccountId, CertificateCheck, CheckedTx, Decode as _, DurationMs, Genesis, GenesisError,
    GenesisSpec, HeaderDigest, Height, Params, Tick,
    key::{Domain, KeyPoints},
    tx::{SignedTx, check_batch},
};

/// Transactions per block of the ledger's own measurement.
const BLOCK_TXS: usize = 1_000;

/// Blocks measured; the genesis' block and as many again warm up before.
const BLOCKS: usize = 200;

/// Time between the blocks.
const STEP: DurationMs = DurationMs::new(1_000);

/// How long signatures are measured.
const VERIFY_SPAN: Duration = Duration::from_secs(1);

/// Signatures checked together, as nodes do.
const VERIFY_BATCH: usize = 1_024;

/// Why the ledger has no rules to be measured with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RulesError {
    /// The genesis does not hold with other limits.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// Its committee cannot be used.
    #[error(transparent)]
    Chain(#[from] ChainStartError),
}

/// Certificates are not what is measured: any will do.
pub(super) struct AnyCertificate;

impl CertificateCheck for AnyCertificate {
    fn verify(&self, _height: Height, _digest: &HeaderDigest, _certificate: &[u8]) -> bool {
        true
    }
}

/// The rules as a node of this folder has them, but with the usual limits, whatever the measured
/// chain's are, and with any certificate.
///
/// # Errors
/// If the genesis' committee cannot be used.
pub(crate) fn rules(folder: &NodeFolder) -> Result<Rules, RulesError> {
    let params = Params::local();
    let spec = GenesisSpec { params, ..folder.genesis.spec().clone() };
    let config = ChainConfig {
        genesis: Arc::new(Genesis::new(spec)?),
        key: tg_types::SecretKey::from_seed(*folder.key.expose_seed()),
        share: None,
        name: "rules".to_owned(),
        state_sync: false,
        index: IndexPlace::None,
        retain_heights: 1,
        heartbeat: Duration::from_secs(1),
        leader_timeout: Duration::from_secs(1),
        cache_pages: 1,
        seed: [0; 32],
        judge: Arc::new(tg_tensor::judge::TensorJudge),
        verifier: Arc::new(tg_types::NoPrograms),
    };
    let mut taken = None;
    tg_chain::prepare(config, |rules| taken = Some(rules.clone()))?;
    let mut rules = taken.expect("preparing shows the rules");
    rules.certificates = Arc::new(AnyCertificate);
    Ok(rules)
}

/// Transfers per second that the ledger applies on one core, in memory.
///
/// # Errors
/// If the ledger refuses a block, which would be a fault of the measurement.
pub(crate) fn apply_per_s(rules: &Rules, senders: &Senders) -> Result<f64, ApplyError> {
    let mut view = MemoryView::new();
    let mut env = first_block(rules);
    view.commit(&apply(rules, &view, &env, &[])?.changes);
    let txs = senders.unsigned(2 * BLOCKS * BLOCK_TXS, Height::new(1_000));
    let checked: Vec<CheckedTx> =
        txs.into_iter().map(|tx| CheckedTx::from_finalised(tx, &rules.domain)).collect();
    let mut spent = Duration::ZERO;
    for (number, block) in checked.chunks(BLOCK_TXS).enumerate() {
        env = next_block(&env)?;
        let started = Instant::now();
        let applied = apply(rules, &view, &env, block)?;
        if number >= BLOCKS {
            spent += started.elapsed();
        }
        view.commit(&applied.changes);
    }
    let count = u32::try_from(BLOCKS * BLOCK_TXS).unwrap_or(u32::MAX);
    Ok(f64::from(count) / spent.as_secs_f64())
}

/// The first block of a network.
pub(super) fn first_block(rules: &Rules) -> BlockEnv {
    let start = rules.genesis.start();
    let proposer = rules.genesis.validators().first().map(|seat| AccountId::from(seat.key));
    BlockEnv {
        height: Height::FIRST,
        tick: start,
        parent: HeaderDigest::new([0; 32]),
        parent_tick: start,
        proposer: proposer.expect("a genesis has seats"),
        certificates: Vec::new(),
    }
}

/// The block a second after this one, with this one's certificate.
pub(super) fn next_block(env: &BlockEnv) -> Result<BlockEnv, ApplyError> {
    let tick: Tick = env.tick.plus(STEP)?;
    Ok(BlockEnv {
        height: env.height.next()?,
        tick,
        parent_tick: env.tick,
        certificates: vec![(env.height, vec![1; 48])],
        ..env.clone()
    })
}

/// Signatures per second that one core checks in batches.
#[must_use]
pub(crate) fn verify_per_s(senders: &Senders, domain: &Domain) -> f64 {
    let supply = senders.sign(VERIFY_BATCH, domain, Height::new(1));
    let count = senders.count();
    let txs: Vec<SignedTx> = (0..VERIFY_BATCH)
        .filter_map(|number| supply.get(number % count, number / count))
        .filter_map(|bytes| SignedTx::from_bytes(bytes).ok())
        .collect();
    let (started, mut checked) = (Instant::now(), 0u32);
    while started.elapsed() < VERIFY_SPAN {
        let mut unknown = KeyPoints::default(); // as if nobody had signed before
        let verdicts = check_batch(domain, txs.clone(), [7; 32], &mut unknown);
        let good = verdicts.iter().filter(|verdict| verdict.is_ok()).count();
        checked = checked.saturating_add(u32::try_from(good).unwrap_or(0));
    }
    f64::from(checked) / started.elapsed().as_secs_f64()
}
