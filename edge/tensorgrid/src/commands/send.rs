//! A wallet's transaction: built, signed here, submitted, waited for.

use crate::{
    ask::{self, OrAsk as _},
    commands::wallet,
    failure::{Exit, Failure, OrFail as _},
    printer::{Printer, duration, lines},
    settings::SendSettings,
};
use serde::Serialize;
use std::time::{Duration, Instant};
use tg_api::{
    Client,
    client::TxPlan,
    rpc::{SubmitParams, Submitted, Wait},
    text::{Hex, Number, Text, Tgrid, Units},
};
use tg_types::{Encode as _, Height, Lane, Reason, SignedTx, TxId, key::Domain};

/// How long to wait for finality. A healthy network needs well below a second; a network that has
/// lost a leader some seconds.
const FINAL_WAIT: Duration = Duration::from_secs(30);

/// What a transaction did.
#[derive(Serialize)]
struct Sent {
    tx: Text<TxId>,
    height: Number<Height>,
    status: &'static str,
    code: Text<Reason>,
    sentence: String,
    fee: Tgrid,
    fee_units: Units,
    ms: u64,
    events: Vec<String>,
}

/// `wallet send`, `stake`, `unstake`
pub(crate) fn run(settings: SendSettings, printer: &Printer) -> Result<Exit, Failure> {
    let SendSettings { rpc, key, action, idempotency } = settings;
    let mut client = ask::client(&rpc)?;
    let status = client.status().or_ask("the node cannot be asked")?; // before asking a person
    let (card, secret) = wallet::open(&key, printer)?;
    let what = "the transaction cannot be made";
    let params = client.params().or_ask(what)?.params();
    let params = params.or_fail(what, "use the same version for node and command")?;
    let lane = Lane::FIRST;
    let nonce = client.nonce(card.account, lane).or_ask(what)?;
    let height = client.status().or_ask(what)?.height.0;
    let domain = Domain { chain: status.chain.0, genesis: status.genesis.0 };
    let plan = TxPlan { lane, nonce, height, idempotency, action };
    let tx = plan.sign(&secret, &domain, &params);
    let tx = tx.or_fail(what, "the network's parameters leave no room for it")?;

    let started = Instant::now();
    let waiting = printer.progress("waiting until the transaction is final");
    let result = submit(&mut client, &tx)?;
    drop(waiting);
    report(result, started.elapsed(), printer)
}

fn submit(client: &mut Client, tx: &SignedTx) -> Result<Submitted, Failure> {
    let params = SubmitParams {
        txs: vec![Hex(tx.to_bytes())],
        wait: Wait::Final,
        timeout_ms: u64::try_from(FINAL_WAIT.as_millis()).ok(),
        brief: false,
    };
    let what = "the transaction was not submitted";
    let mut answer = client.submit_with(&params).or_ask(what)?;
    let result = answer.results.pop();
    result.ok_or_else(|| Failure::new(what, "use the same version for node and command"))
}

fn report(result: Submitted, span: Duration, printer: &Printer) -> Result<Exit, Failure> {
    match result {
        Submitted::Final { tx, height, code, receipt: Some(receipt) } => {
            let applied = code.0 == Reason::Applied;
            let sent = Sent {
                tx,
                height,
                status: if applied { "applied" } else { "failed" },
                code,
                sentence: receipt.sentence.clone(),
                fee: receipt.fee,
                fee_units: receipt.fee_units,
                ms: u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
                events: receipt.events.iter().map(|event| event.sentence.clone()).collect(),
            };
            printer.result(&sent, || sent_text(&sent, span));
            Ok(if applied { Exit::Done } else { Exit::Failed })
        }
        Submitted::Refused { sentence, code, .. } => {
            Err(Failure::new(format!("the transaction was refused: {sentence}"), hint(&code)))
        }
        Submitted::Dropped { tx, sentence, code } => {
            let what = format!("transaction {tx} was dropped: {sentence}");
            Err(Failure::new(what, hint(&code.to_string())))
        }
        Submitted::Pending { tx, sentence, .. } => Err(Failure::cannot_tell(
            format!("transaction {tx} is not final yet: {sentence}"),
            format!("ask later with `tensorgrid receipt {tx}`; do not send it again"),
        )),
        Submitted::Final { tx, .. } | Submitted::Accepted { tx } => Err(Failure::cannot_tell(
            format!("the node gave no receipt for transaction {tx}"),
            format!("ask with `tensorgrid receipt {tx}`"),
        )),
    }
}

fn sent_text(sent: &Sent, span: Duration) -> String {
    let mut text = lines(&[
        ("transaction", sent.tx.to_string()),
        ("result", format!("{}: {}", sent.status, sent.sentence)),
        ("final in", format!("block {} after {}", sent.height, duration(span))),
        ("fee", format!("{} TGRID", sent.fee)),
    ]);
    for event in &sent.events {
        text.push('\n');
        text.push_str(event);
    }
    text
}

const HINT_MONEY: &str = "look at `tensorgrid wallet balance`; on a local network \
    `tensorgrid wallet faucet` gives trial money";
const HINT_BUSY: &str = "the network is busy; try again in a moment";
const HINT_NONCE: &str = "another transaction of this wallet is under way; try again in a moment";

/// What to do about refusals whose sentence alone does not say it.
const HINTS: &[(Reason, &str)] = &[
    (Reason::FeeNotCovered, HINT_MONEY),
    (Reason::BalanceTooLow, HINT_MONEY),
    (Reason::IdempotencySeen, "it was sent before; do not send it again"),
    (Reason::PoolFull, HINT_BUSY),
    (Reason::SenderBusy, HINT_BUSY),
    (Reason::NonceTooLow, HINT_NONCE),
    (Reason::NonceTooHigh, HINT_NONCE),
    (Reason::PoolReplaced, HINT_NONCE),
];

fn hint(code: &str) -> &'static str {
    let known = HINTS.iter().find(|(reason, _)| reason.code() == code);
    known.map_or("the sentence says why; nothing was paid", |(_, hint)| hint)
}
