//! A small blocking client for a node's interface, for the command line, tests and other programs.
//!
//! A client has one connection and does one call at a time; a clone has a connection of its own, so
//! every thread takes a clone.

mod events;
mod http;
mod plan;

pub use events::{EventStream, StreamMessage};
pub use http::HttpError;
pub use plan::{EXPIRY_HEIGHTS, PlanError, TxPlan};

use crate::{
    document::{CertificateDocument, Document, NetworkDocument, ProofDocument, ReceiptDocument},
    rpc::{
        AccountAnswer, AccountParams, BlockAnswer, BlockParams, CertificateParams, DoorsAnswer,
        FaucetAnswer, FaucetParams, JobAnswer, JobParams, JobsAnswer, JobsParams, NoParams,
        NodeAnswer, NodeParams, NodesAnswer, NodesParams, NonceAnswer, NonceParams, ParamsAnswer,
        ProveParams, ReceiptParams, Request, Response, RpcError, StatusAnswer, SubmitAnswer,
        SubmitParams, TotalsAnswer, ValidatorsAnswer, Wait, method,
    },
    text::{Hex, Number, Text, Tgrid},
};
use http::{Connection, Exchange, Host};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{io, time::Duration};
use tg_types::{
    AccountId, Amount, Encode as _, Height, JobId, Lane, NodeId, Nonce, SignedTx, StateKey, TxId,
};

/// How long an answer may take, besides the time the node was asked to wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// The longest silence in the event stream; the node sends a sign of life every few seconds.
const STREAM_SILENCE_MAX: Duration = Duration::from_secs(60);

/// The largest answer. A block of 20,000 transactions with receipts has about 40 MB.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Why a call gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The node was not reached, or the exchange broke off.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The event stream broke off.
    #[error("the event stream broke off")]
    Stream(#[source] io::Error),
    /// The node answered with an error.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The node answered with another status than expected.
    #[error("the node answered with status {status}")]
    Status {
        /// The HTTP status.
        status: u16,
    },
    /// The answer is not what the method answers.
    #[error("the node's answer cannot be read; it may be of another version")]
    Json(#[source] serde_json::Error),
    /// The answer is neither result nor error, or a document of another kind.
    #[error("the node's answer has neither the result asked for nor an error")]
    Empty,
}

/// A client of one node.
#[derive(Debug)]
pub struct Client {
    host: Host,
    connection: Option<Connection>,
    calls: u64,
}

impl Clone for Client {
    fn clone(&self) -> Self {
        Self { host: self.host.clone(), connection: None, calls: 0 }
    }
}

impl Client {
    /// A client of the node at `http://host:port` or `host:port`. Connects with the first call.
    ///
    /// # Errors
    /// If it is not an address.
    pub fn new(address: &str) -> Result<Self, ClientError> {
        Ok(Self { host: Host::parse(address)?, connection: None, calls: 0 })
    }

    /// The node's address as host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        self.host.as_str()
    }

    /// Calls a method with any parameters.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error.
    pub fn call<P: Serialize, A: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &P,
    ) -> Result<A, ClientError> {
        self.call_within(method, params, Duration::ZERO)
    }

    /// Calls a method that the node may answer late.
    fn call_within<P: Serialize, A: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &P,
        wait: Duration,
    ) -> Result<A, ClientError> {
        self.calls = self.calls.wrapping_add(1);
        let request = Request {
            jsonrpc: "2.0".to_owned(),
            id: Some(Value::from(self.calls)),
            method: method.to_owned(),
            params: serde_json::to_value(params).map_err(ClientError::Json)?,
        };
        let body = serde_json::to_vec(&request).map_err(ClientError::Json)?;
        let exchange =
            Exchange { method: "POST", target: "/rpc", accept: "application/json", body: &body };
        let (status, answer) = self.exchange(&exchange, ANSWER_TIMEOUT.saturating_add(wait))?;
        let response: Response = match serde_json::from_slice(&answer) {
            Ok(response) => response,
            Err(_) if status != 200 => return Err(ClientError::Status { status }),
            Err(error) => return Err(ClientError::Json(error)),
        };
        match (response.result, response.error) {
            (_, Some(error)) => Err(error.into()),
            (Some(result), None) => serde_json::from_value(result).map_err(ClientError::Json),
            (None, None) => Err(ClientError::Empty),
        }
    }

    /// Sends a request and reads the answer. A kept connection that the node has closed meanwhile
    /// is opened again once: transactions have ids, so sending one twice does nothing twice.
    fn exchange(
        &mut self,
        exchange: &Exchange<'_>,
        timeout: Duration,
    ) -> Result<(u16, Vec<u8>), HttpError> {
        let kept = self.connection.take();
        if let Some(connection) = kept {
            match self.exchange_on(connection, exchange, timeout) {
                Err(HttpError::Connection { source, .. }) if is_closed(&source) => {}
                outcome => return outcome,
            }
        }
        let connection = Connection::open(&self.host)?;
        self.exchange_on(connection, exchange, timeout)
    }

    fn exchange_on(
        &mut self,
        mut connection: Connection,
        exchange: &Exchange<'_>,
        timeout: Duration,
    ) -> Result<(u16, Vec<u8>), HttpError> {
        let status = connection.send(exchange, timeout)?;
        let body = connection.body(ANSWER_BYTES_MAX)?;
        if connection.is_reusable() {
            self.connection = Some(connection);
        }
        Ok((status, body))
    }

    /// Offers signed transactions and gives one result each.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error. A refused transaction is a result.
    pub fn submit(&mut self, txs: &[SignedTx], wait: Wait) -> Result<SubmitAnswer, ClientError> {
        let txs = txs.iter().map(|tx| Hex(tx.to_bytes())).collect();
        self.submit_with(&SubmitParams { txs, wait, ..SubmitParams::default() })
    }

    /// Offers signed transactions with all options.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error. A refused transaction is a result.
    pub fn submit_with(&mut self, params: &SubmitParams) -> Result<SubmitAnswer, ClientError> {
        let wait = match params.wait {
            Wait::None => Duration::ZERO,
            Wait::Final => params
                .timeout_ms
                .map_or(crate::server::limits::SUBMIT_WAIT_DEFAULT, Duration::from_millis),
        };
        self.call_within(method::SUBMIT, params, wait)
    }

    /// An account's balance, lanes and stake.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error.
    pub fn account(&mut self, account: AccountId) -> Result<AccountAnswer, ClientError> {
        self.call(method::ACCOUNT, &AccountParams { account: Text(account) })
    }

    /// The nonce a new transaction of a lane needs.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error.
    pub fn nonce(&mut self, account: AccountId, lane: Lane) -> Result<Nonce, ClientError> {
        let params = NonceParams { account: Text(account), lane: Number(lane) };
        let answer: NonceAnswer = self.call(method::NONCE, &params)?;
        Ok(answer.nonce.0)
    }

    /// A transaction's receipt with everything needed to check it.
    ///
    /// # Errors
    /// If the node is not reached, does not know the transaction, or has no certificate in time.
    pub fn receipt(&mut self, tx: TxId) -> Result<ReceiptDocument, ClientError> {
        match self.call(method::RECEIPT, &ReceiptParams { tx: Text(tx), wait_ms: None })? {
            Document::Receipt(document) => Ok(*document),
            Document::Certificate(_) | Document::Proof(_) | Document::Network(_) => {
                Err(ClientError::Empty)
            }
        }
    }

    /// An entry of the state, or its absence, with everything needed to check it.
    ///
    /// # Errors
    /// If the node is not reached or has no certificate in time.
    pub fn prove(&mut self, key: StateKey) -> Result<ProofDocument, ClientError> {
        let params = ProveParams { key: Some(Text(key)), ..ProveParams::default() };
        match self.call(method::PROVE, &params)? {
            Document::Proof(document) => Ok(*document),
            Document::Certificate(_) | Document::Receipt(_) | Document::Network(_) => {
                Err(ClientError::Empty)
            }
        }
    }

    /// The certified header of a height, or the latest.
    ///
    /// # Errors
    /// If the node is not reached or does not hold it.
    pub fn certificate(
        &mut self,
        height: Option<Height>,
    ) -> Result<CertificateDocument, ClientError> {
        let params = CertificateParams { height: height.map(Number), wait_ms: None };
        match self.call(method::CERTIFICATE, &params)? {
            Document::Certificate(document) => Ok(document),
            Document::Proof(_) | Document::Receipt(_) | Document::Network(_) => {
                Err(ClientError::Empty)
            }
        }
    }

    /// A final block, or the latest.
    ///
    /// # Errors
    /// If the node is not reached or does not hold it.
    pub fn block(&mut self, height: Option<Height>) -> Result<BlockAnswer, ClientError> {
        self.call(method::BLOCK, &BlockParams { height: height.map(Number) })
    }

    /// Where the node stands.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error.
    pub fn status(&mut self) -> Result<StatusAnswer, ClientError> {
        self.call(method::STATUS, &NoParams {})
    }

    /// Registered nodes, at most `limit`.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error.
    pub fn nodes(&mut self, limit: Option<u32>) -> Result<NodesAnswer, ClientError> {
        self.call(method::NODES, &NodesParams { limit, before: None })
    }

    /// A node and what happened to it.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error.
    pub fn node(&mut self, node: NodeId) -> Result<NodeAnswer, ClientError> {
        self.call(method::NODE, &NodeParams { node: Text(node), before: None })
    }

    /// Jobs, the latest first.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error.
    pub fn jobs(&mut self, params: &JobsParams) -> Result<JobsAnswer, ClientError> {
        self.call(method::JOBS, params)
    }

    /// A job and what happened to it.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error.
    pub fn job(&mut self, job: JobId) -> Result<JobAnswer, ClientError> {
        self.call(method::JOB, &JobParams { job: Text(job) })
    }

    /// The committee.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error.
    pub fn validators(&mut self) -> Result<ValidatorsAnswer, ClientError> {
        self.call(method::VALIDATORS, &NoParams {})
    }

    /// What seats say of their doors, as far as the node has heard.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error.
    pub fn doors(&mut self) -> Result<DoorsAnswer, ClientError> {
        self.call(method::DOORS, &NoParams {})
    }

    /// The parts of the supply.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error.
    pub fn totals(&mut self) -> Result<TotalsAnswer, ClientError> {
        self.call(method::TOTALS, &NoParams {})
    }

    /// The network without its genesis.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error.
    pub fn network(&mut self) -> Result<NetworkDocument, ClientError> {
        let document = self.call(method::NETWORK, &NoParams {})?;
        network_of(document)
    }

    /// The network with its whole genesis.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error.
    pub fn genesis(&mut self) -> Result<NetworkDocument, ClientError> {
        let document = self.call(method::GENESIS, &NoParams {})?;
        network_of(document)
    }

    /// Asks the faucet of a local network for money and waits until it is there.
    ///
    /// # Errors
    /// If the node is not reached or has no faucet, or the faucet gives no more for now.
    pub fn faucet(
        &mut self,
        account: AccountId,
        amount: Option<Amount>,
    ) -> Result<FaucetAnswer, ClientError> {
        let params =
            FaucetParams { account: Text(account), amount: amount.map(Tgrid), wait: Wait::Final };
        let wait = crate::server::limits::SUBMIT_WAIT_DEFAULT;
        // The faucet pays for every order, so this call must not be repeated: a new connection is
        // never tried twice.
        self.connection = None;
        self.call_within(method::FAUCET, &params, wait)
    }

    /// The ledger's parameters.
    ///
    /// # Errors
    /// If the node is not reached or answers with an error.
    pub fn params(&mut self) -> Result<ParamsAnswer, ClientError> {
        self.call(method::PARAMS, &NoParams {})
    }

    /// The node's metrics in Prometheus' text form.
    ///
    /// # Errors
    /// If the node is not reached.
    pub fn metrics(&mut self) -> Result<String, ClientError> {
        self.get("/metrics")
    }

    /// A page of the node as text.
    ///
    /// # Errors
    /// If the node is not reached or answers with another status than 200.
    pub fn get(&mut self, target: &str) -> Result<String, ClientError> {
        let exchange = Exchange { method: "GET", target, accept: "*/*", body: b"" };
        let (status, body) = self.exchange(&exchange, ANSWER_TIMEOUT)?;
        if status != 200 {
            return Err(ClientError::Status { status });
        }
        String::from_utf8(body).map_err(|_| HttpError::Malformed { what: "not text" }.into())
    }

    /// The node's events from a height on, or from now on. Takes a connection of its own.
    ///
    /// # Errors
    /// If the node is not reached, or does not hold the blocks asked for any more.
    pub fn events(&self, from: Option<Height>) -> Result<EventStream, ClientError> {
        let target = from.map_or("/events".to_owned(), |from| format!("/events?from={from}"));
        let mut connection = Connection::open(&self.host)?;
        let exchange =
            Exchange { method: "GET", target: &target, accept: "text/event-stream", body: b"" };
        let status = connection.send(&exchange, STREAM_SILENCE_MAX)?;
        if status != 200 {
            let body = connection.body(ANSWER_BYTES_MAX)?;
            let error = serde_json::from_slice::<RpcError>(&body);
            return Err(error.map_or(ClientError::Status { status }, ClientError::Rpc));
        }
        Ok(EventStream::new(connection))
    }
}

fn network_of(document: Document) -> Result<NetworkDocument, ClientError> {
    match document {
        Document::Network(document) => Ok(*document),
        Document::Certificate(_) | Document::Proof(_) | Document::Receipt(_) => {
            Err(ClientError::Empty)
        }
    }
}

/// Whether the other side closed a connection, as servers do with those that were idle.
fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}
