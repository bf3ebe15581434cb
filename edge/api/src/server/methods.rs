//! The methods: the table of names, and what each asks the chain.

use super::{
    Shared, errors, faucet,
    limits::{CERTIFICATE_POLL, CERTIFICATE_WAIT_DEFAULT, CERTIFICATE_WAIT_MAX},
    submit, work,
};
use crate::{
    document::{CertificateDocument, Document, NetworkDocument, ProofDocument, ReceiptDocument},
    rpc::{
        AccountAnswer, AccountParams, BlockAnswer, BlockParams, CertificateParams, DoorAnswer,
        DoorsAnswer, NoParams, NonceAnswer, NonceParams, ParamsAnswer, ProveParams, ReceiptParams,
        RpcError, StatusAnswer, TotalsAnswer, ValidatorAnswer, ValidatorsAnswer, method,
    },
    text::{Hex, Number, Text},
    view::{EventView, HeaderView, ReceiptView, SeatView, TxView},
};
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::time::Duration;
use tg_chain::{Notice, light::CertifiedHeader};
use tg_ledger::{AccountEntry, StakeEntry, ValidatorEntry, keys};
use tg_types::{Encode as _, Header, Height, StateKey, ValidatorSeat};
use tokio::time::Instant;

/// Calls a method. Where parameters do not fit, the hint says what the method takes.
pub(super) async fn call(shared: &Shared, name: &str, params: Value) -> Result<Value, RpcError> {
    let outcome = dispatch(shared, name, params).await;
    outcome.map_err(|mut error| {
        if let (true, Some(takes)) = (error.data.hint.is_empty(), takes(name)) {
            error.data.hint = format!("{name} takes {takes}");
        }
        error
    })
}

fn takes(name: &str) -> Option<&'static str> {
    method::ALL.iter().find(|(method, _)| *method == name).map(|(_, takes)| *takes)
}

/// The table of all methods.
async fn dispatch(shared: &Shared, name: &str, params: Value) -> Result<Value, RpcError> {
    match name {
        method::SUBMIT => json(&submit::submit(shared, read(params)?).await?),
        method::ACCOUNT => json(&account(shared, read(params)?).await?),
        method::NONCE => json(&nonce(shared, read(params)?).await?),
        method::RECEIPT => json(&receipt(shared, read(params)?).await?),
        method::PROVE => json(&prove(shared, read(params)?).await?),
        method::CERTIFICATE => json(&certificate(shared, read(params)?).await?),
        method::BLOCK => json(&block(shared, read(params)?).await?),
        method::STATUS => {
            let NoParams {} = read(params)?;
            json(&status(shared).await?)
        }
        method::NODES => json(&work::nodes(shared, read(params)?).await?),
        method::NODE => json(&work::node(shared, read(params)?).await?),
        method::JOBS => json(&work::jobs(shared, read(params)?).await?),
        method::JOB => json(&work::job(shared, read(params)?).await?),
        method::VALIDATORS => {
            let NoParams {} = read(params)?;
            json(&validators(shared).await?)
        }
        method::DOORS => {
            let NoParams {} = read(params)?;
            json(&doors(shared))
        }
        method::TOTALS => {
            let NoParams {} = read(params)?;
            json(&totals(shared).await?)
        }
        method::GENESIS => {
            let NoParams {} = read(params)?;
            json(&network(NetworkDocument::with_genesis(shared.chain.genesis())))
        }
        method::NETWORK => {
            let NoParams {} = read(params)?;
            json(&network(NetworkDocument::new(shared.chain.genesis())))
        }
        method::FAUCET => {
            let params = read(params)?;
            let faucet = shared.faucet.as_ref().ok_or_else(faucet::none)?;
            json(&faucet.order(params).await?)
        }
        method::PARAMS => {
            let NoParams {} = read(params)?;
            json(&ParamsAnswer::new(shared.chain.genesis().params()))
        }
        unknown => Err(errors::method(unknown)),
    }
}

/// Reads a method's parameters. None given means none needed. The hint is added by the caller, who
/// knows the method.
fn read<P: DeserializeOwned>(params: Value) -> Result<P, RpcError> {
    let params = match params {
        Value::Null => Value::Object(serde_json::Map::new()),
        Value::Object(_) => params,
        Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let why = "they are not an object with named fields";
            return Err(errors::params(why, ""));
        }
    };
    serde_json::from_value(params).map_err(|error| errors::params(error, ""))
}

fn json(answer: &impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(answer)
        .map_err(|_| errors::internal("The answer cannot be written as JSON."))
}

fn network(document: NetworkDocument) -> Document {
    Document::Network(Box::new(document))
}

async fn account(shared: &Shared, params: AccountParams) -> Result<AccountAnswer, RpcError> {
    let id = params.account.0;
    let account: Option<AccountEntry> = shared.entry(keys::account(&id)).await?;
    let stake: Option<StakeEntry> = shared.entry(keys::stake(&id)).await?;
    Ok(AccountAnswer {
        id: Text(id),
        exists: account.is_some(),
        account: (&account.unwrap_or_default()).into(),
        stake: (&stake.unwrap_or_default()).into(),
    })
}

async fn nonce(shared: &Shared, params: NonceParams) -> Result<NonceAnswer, RpcError> {
    let (account, lane) = (params.account, params.lane);
    let nonce = shared.chain.next_nonce(&account.0, lane.0).await.map_err(errors::chain)?;
    Ok(NonceAnswer { account, lane, nonce: Number(nonce) })
}

/// The method `receipt`, also linked from pages.
pub(super) async fn receipt(shared: &Shared, params: ReceiptParams) -> Result<Document, RpcError> {
    let patience = Patience::new(params.wait_ms);
    let found = shared.chain.find_receipt(&params.tx.0).await.map_err(errors::chain)?;
    let Some(proof) = found else {
        let what = format!("transaction {}", params.tx);
        let hint = "it may still wait, have expired, or be older than what this node keeps";
        return Err(errors::unknown(what, hint));
    };
    let certificate = wait_for_certificate(shared, proof.header.height, &patience).await?;
    let document = ReceiptDocument::new(&proof, &certificate, &shared.chain.domain());
    Ok(Document::Receipt(Box::new(document)))
}

async fn prove(shared: &Shared, params: ProveParams) -> Result<Document, RpcError> {
    let patience = Patience::new(params.wait_ms);
    let key = key_of(&params)?;
    let proof = loop {
        if let Some(proof) = shared.chain.prove(key).await.map_err(errors::chain)? {
            break proof;
        }
        // No block is final yet, or the state has just moved on from the header that was known.
        patience.pause("A final block to prove the entry against").await?;
    };
    let certificate = wait_for_certificate(shared, proof.header.height, &patience).await?;
    let document = ProofDocument::new(&proof, &certificate, &shared.chain.domain());
    let document = document
        .map_err(|_| errors::internal("The entry cannot be read as what its key says it is."))?;
    Ok(Document::Proof(Box::new(document)))
}

fn key_of(params: &ProveParams) -> Result<StateKey, RpcError> {
    match (&params.noun, &params.id, &params.key) {
        (Some(noun), Some(id), None) => Ok(StateKey::new(noun.0, *id.0.as_bytes())),
        (None, None, Some(key)) => Ok(key.0),
        _ => Err(errors::params("they are neither noun and id, nor key", "")),
    }
}

async fn certificate(shared: &Shared, params: CertificateParams) -> Result<Document, RpcError> {
    let patience = Patience::new(params.wait_ms);
    let height = match params.height {
        Some(Number(height)) => height,
        None => loop {
            let status = shared.chain.status().await.map_err(errors::chain)?;
            match status.certified {
                Some(height) => break height,
                None => patience.pause("The first certificate").await?,
            }
        },
    };
    let certificate = wait_for_certificate(shared, height, &patience).await?;
    let found = shared.chain.certified_header(height).await.map_err(errors::chain)?;
    let Some(CertifiedHeader { header, .. }) = found else {
        return Err(unknown_block(height));
    };
    let certified = CertifiedHeader { header, certificate };
    let document = CertificateDocument::new(&certified, &shared.chain.domain());
    Ok(Document::Certificate(document))
}

fn unknown_block(height: Height) -> RpcError {
    let hint = "it may not be final yet, or be older than what this node keeps";
    errors::unknown(format!("block {height}"), hint)
}

/// Waits for the certificate of a height. A height that lies beyond the chain, or so far back that
/// its certificate can only have been pruned, is not waited for.
async fn wait_for_certificate(
    shared: &Shared,
    height: Height,
    patience: &Patience,
) -> Result<Bytes, RpcError> {
    loop {
        let found = shared.chain.certificate(height).await.map_err(errors::chain)?;
        if let Some(certificate) = found {
            return Ok(certificate);
        }
        let status = shared.chain.status().await.map_err(errors::chain)?;
        let tip = status.tip.map_or(Height::ZERO, |(header, _)| header.height);
        let is_late = tip.get().saturating_sub(height.get()) > tg_ledger::CERTIFICATE_LAG_MAX;
        if height > tip || is_late {
            return Err(unknown_block(height));
        }
        patience.pause(&format!("The certificate of block {height}")).await?;
    }
}

/// How long a call looks for something that is about to come.
struct Patience(Instant);

impl Patience {
    fn new(asked_ms: Option<u64>) -> Self {
        let asked = asked_ms.map_or(CERTIFICATE_WAIT_DEFAULT, Duration::from_millis);
        Self(Instant::now() + asked.min(CERTIFICATE_WAIT_MAX))
    }

    /// Waits a moment, or says that the time is over.
    async fn pause(&self, what: &str) -> Result<(), RpcError> {
        if Instant::now() >= self.0 {
            return Err(errors::timeout(what, "ask again, or give a longer wait_ms"));
        }
        tokio::time::sleep(CERTIFICATE_POLL).await;
        Ok(())
    }
}

async fn block(shared: &Shared, params: BlockParams) -> Result<BlockAnswer, RpcError> {
    let height = match params.height {
        Some(Number(height)) => height,
        None => shared.tip().await?,
    };
    let found = shared.chain.block(height).await.map_err(errors::chain)?;
    let (header, payload, record) = found.ok_or_else(|| unknown_block(height))?;
    let domain = shared.chain.domain();
    let events = record.iter().flat_map(|record| &record.block.events);
    Ok(BlockAnswer {
        header: HeaderView::new(&header, &domain),
        txs: payload.txs.iter().map(|tx| TxView::new(tx, &domain)).collect(),
        events: events.map(EventView::new).collect(),
        receipts: record
            .as_ref()
            .map(|record| record.receipts.iter().map(ReceiptView::new).collect()),
        certificates: payload.certificates.iter().map(|item| Number(item.height)).collect(),
    })
}

/// The method `status`, also shown on the page.
pub(super) async fn status(shared: &Shared) -> Result<StatusAnswer, RpcError> {
    let status = shared.chain.status().await.map_err(errors::chain)?;
    let genesis = shared.chain.genesis();
    let tip = status.tip.as_ref();
    Ok(StatusAnswer {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        chain: Text(genesis.chain()),
        genesis: Text(genesis.hash()),
        network: genesis.spec().kind.into(),
        height: Number(tip.map_or(Height::ZERO, |(header, _)| header.height)),
        tick: tip.map(|(header, _)| Number(header.tick)),
        digest: tip.map(|(_, digest)| Text(*digest)),
        state_root: tip.map(|(header, _)| Text(header.state_root)),
        certified: status.certified.map(Number),
        block_ms: block_ms(&shared.chain.recent_headers()),
        pool_txs: count(status.pool.0),
        pool_txs_max: count(status.pool.1),
        validators: count(genesis.validators().len()),
        faucet: shared.faucet.is_some(),
        capacity_kib_max: genesis.params().capacity.blocks_max,
    })
}

/// The method `validators`, also shown on the page.
pub(super) async fn validators(shared: &Shared) -> Result<ValidatorsAnswer, RpcError> {
    let recent = shared.chain.recent_headers();
    let mut validators = Vec::new();
    for seat in shared.chain.genesis().validators() {
        validators.push(validator(shared, seat, &recent).await?);
    }
    Ok(ValidatorsAnswer { validators, blocks: count(recent.len()) })
}

/// The method `doors`, also at its own address.
pub(super) fn doors(shared: &Shared) -> DoorsAnswer {
    let answer = |notice: &Notice| DoorAnswer {
        seat: Text(notice.seat()),
        issued: Number(notice.issued()),
        notice: Hex(notice.to_bytes()),
    };
    DoorsAnswer {
        doors: shared.chain.notices().iter().map(answer).collect(),
        seats: count(shared.chain.genesis().validators().len()),
    }
}

async fn validator(
    shared: &Shared,
    seat: &ValidatorSeat,
    recent: &[Header],
) -> Result<ValidatorAnswer, RpcError> {
    let stake: Option<StakeEntry> = shared.entry(keys::stake(&seat.owner)).await?;
    let entry: Option<ValidatorEntry> = shared.entry(keys::validator(&seat.key)).await?;
    let is_mine = |header: &&Header| header.proposer.as_bytes() == seat.key.as_bytes();
    let mine = || recent.iter().filter(is_mine);
    Ok(ValidatorAnswer {
        key: Text(seat.key),
        owner: Text(seat.owner),
        address: Text(seat.address.clone()),
        stake: (&stake.unwrap_or_default()).into(),
        slashed: entry.as_ref().and_then(|entry| SeatView::from(entry).slashed),
        proposed: count(mine().count()),
        proposed_last: mine().next().map(|header| Number(header.height)),
    })
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The mean time between blocks, from the latest to the earliest of these.
fn block_ms(recent: &[Header]) -> Option<u64> {
    let (last, first) = (recent.first()?, recent.last()?);
    let blocks = last.height.get().checked_sub(first.height.get()).filter(|blocks| *blocks > 0)?;
    Some(last.tick.get().saturating_sub(first.tick.get()) / blocks)
}

/// The method `totals`, also shown on the page.
pub(super) async fn totals(shared: &Shared) -> Result<TotalsAnswer, RpcError> {
    let totals = shared.chain.totals().await.map_err(errors::chain)?;
    let totals = totals.ok_or_else(|| {
        errors::unknown("the totals before the first block", "wait for the first block")
    })?;
    Ok((&totals).into())
}
