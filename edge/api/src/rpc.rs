//! The words of the JSON-RPC interface, used by server and client alike: methods, parameters,
//! answers and errors.
//!
//! Parameters are always objects with named fields; unknown fields are refused, so that a misspelt
//! option is an error and not a surprise.

mod work;

pub use work::{
    Happened, JobAnswer, JobParams, JobRecord, JobsAnswer, JobsParams, ListedJob, ListedNode,
    NodeAnswer, NodeParams, NodesAnswer, NodesParams, PriceView, ProgramView, ReputationView,
};

use crate::{
    document::NetworkWord,
    text::{Hex, Number, OneText as _, Text, Tgrid, Units},
    view::{AccountView, EventView, HeaderView, ReceiptView, StakeView, TotalsView, TxView},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tg_types::{
    AccountId, Address, ChainId, Decode as _, DecodeError, Encode as _, GenesisHash, Hash32,
    HeaderDigest, Height, Lane, Nonce, Noun, Params, PublicKey, Reason, StateKey, Tick, TxId,
};

/// The methods, by name.
pub mod method {
    /// Offer signed transactions.
    pub const SUBMIT: &str = "submit";
    /// An account's balance, lanes and stake.
    pub const ACCOUNT: &str = "account";
    /// The next nonce of a lane.
    pub const NONCE: &str = "nonce";
    /// A transaction's receipt, as a document.
    pub const RECEIPT: &str = "receipt";
    /// An entry of the state with its proof, as a document.
    pub const PROVE: &str = "prove";
    /// A certified header, as a document.
    pub const CERTIFICATE: &str = "certificate";
    /// A final block.
    pub const BLOCK: &str = "block";
    /// Where the node stands.
    pub const STATUS: &str = "status";
    /// Registered nodes.
    pub const NODES: &str = "nodes";
    /// A node and what happened to it.
    pub const NODE: &str = "node";
    /// Jobs, the latest first.
    pub const JOBS: &str = "jobs";
    /// A job and what happened to it.
    pub const JOB: &str = "job";
    /// The committee.
    pub const VALIDATORS: &str = "validators";
    /// What seats say of their doors.
    pub const DOORS: &str = "doors";
    /// The parts of the supply.
    pub const TOTALS: &str = "totals";
    /// The network, as a document with the whole genesis.
    pub const GENESIS: &str = "genesis";
    /// The network, as a short document.
    pub const NETWORK: &str = "network";
    /// Money for trying things out, on local networks.
    pub const FAUCET: &str = "faucet";
    /// The ledger's parameters.
    pub const PARAMS: &str = "params";

    /// All methods with what they take, in the order of the manual.
    pub const ALL: [(&str, &str); 19] = [
        (SUBMIT, "txs: list of hex, wait: none|final, timeout_ms, brief: true|false"),
        (ACCOUNT, "account: 64 digits"),
        (NONCE, "account: 64 digits, lane: 0 to 7"),
        (RECEIPT, "tx: 64 digits, wait_ms"),
        (PROVE, "noun: a word and id: 64 digits, or key: 66 digits; wait_ms"),
        (CERTIFICATE, "height, wait_ms"),
        (BLOCK, "height"),
        (STATUS, "nothing"),
        (NODES, "limit, before: a place from `next`"),
        (NODE, "node: 64 digits, before: a height from `earlier`"),
        (JOBS, "limit, before: a place from `next`"),
        (JOB, "job: 64 digits"),
        (VALIDATORS, "nothing"),
        (DOORS, "nothing"),
        (TOTALS, "nothing"),
        (GENESIS, "nothing"),
        (NETWORK, "nothing"),
        (FAUCET, "account: 64 digits, amount: TGRID as text, wait: none|final"),
        (PARAMS, "nothing"),
    ];
}

/// Codes of JSON-RPC errors: the standard's, and ours from -32000 on.
pub mod code {
    /// Not JSON.
    pub const PARSE: i64 = -32_700;
    /// JSON, but not a request.
    pub const REQUEST: i64 = -32_600;
    /// No such method.
    pub const METHOD: i64 = -32_601;
    /// Parameters that the method does not take.
    pub const PARAMS: i64 = -32_602;
    /// A fault of this node.
    pub const INTERNAL: i64 = -32_603;
    /// Too much at once; ask again later.
    pub const BUSY: i64 = -32_000;
    /// This node does not know it.
    pub const UNKNOWN: i64 = -32_001;
    /// Not within the time given.
    pub const TIMEOUT: i64 = -32_002;
    /// Refused by a rule; `data.code` says which.
    pub const REFUSED: i64 = -32_003;
    /// The node is stopping.
    pub const STOPPING: i64 = -32_004;
}

/// What went wrong, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorData {
    /// The word programs branch on.
    pub code: String,
    /// What went wrong, in a sentence.
    pub sentence: String,
    /// What to do next.
    pub hint: String,
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// One of [`code`].
    pub code: i64,
    /// The same as the sentence in `data`.
    pub message: String,
    /// The details.
    pub data: ErrorData,
}

impl RpcError {
    /// An error with its word, sentence and hint.
    #[must_use]
    pub fn new(
        code: i64,
        word: &str,
        sentence: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let sentence = sentence.into();
        let data =
            ErrorData { code: word.to_owned(), sentence: sentence.clone(), hint: hint.into() };
        Self { code, message: sentence, data }
    }
}

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Always "2.0".
    pub jsonrpc: String,
    /// Chosen by the caller; without it no answer is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    /// The method.
    pub method: String,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub params: Value,
}

/// A response: a result or an error.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Response {
    /// Always "2.0".
    pub jsonrpc: String,
    /// The request's id, null if it could not be read.
    pub id: Value,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
}

impl Response {
    /// The response to a request.
    #[must_use]
    pub fn new(id: Value, outcome: Result<Value, RpcError>) -> Self {
        let (result, error) = match outcome {
            Ok(result) => (Some(result), None),
            Err(error) => (None, Some(error)),
        };
        Self { jsonrpc: "2.0".to_owned(), id, result, error }
    }
}

/// What a submission waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Nothing but the node's own verdict.
    #[default]
    None,
    /// The transaction is in a final block on this node's disk.
    Final,
}

/// Parameters of `submit`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitParams {
    /// Signed transactions in canonical bytes.
    pub txs: Vec<Hex>,
    /// What to wait for.
    #[serde(default)]
    pub wait: Wait,
    /// How long to wait at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Leave the receipts out and give only the code.
    #[serde(default)]
    pub brief: bool,
}

/// What became of one submitted transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case", deny_unknown_fields)]
pub enum Submitted {
    /// It waits in the pool.
    Accepted {
        /// The transaction.
        tx: Text<TxId>,
    },
    /// It is in a final block.
    Final {
        /// The transaction.
        tx: Text<TxId>,
        /// The block.
        height: Number<Height>,
        /// How it ended.
        code: Text<Reason>,
        /// Its receipt, unless a brief answer was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<Box<ReceiptView>>,
    },
    /// It was not taken.
    Refused {
        /// Its id, if its bytes could be read and its signature fits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tx: Option<Text<TxId>>,
        /// Why: a reason code, or "busy".
        code: String,
        /// Why, in a sentence.
        sentence: String,
    },
    /// It was taken but left the pool again and cannot become final.
    Dropped {
        /// The transaction.
        tx: Text<TxId>,
        /// Why.
        code: Text<Reason>,
        /// Why, in a sentence.
        sentence: String,
    },
    /// It was taken and was not final within the time given. It may become final later.
    Pending {
        /// The transaction.
        tx: Text<TxId>,
        /// Always "timeout".
        code: String,
        /// How long it was waited for, in a sentence.
        sentence: String,
    },
}

impl Submitted {
    /// The transaction's id, if it is known.
    #[must_use]
    pub fn tx(&self) -> Option<TxId> {
        match self {
            Self::Accepted { tx }
            | Self::Final { tx, .. }
            | Self::Dropped { tx, .. }
            | Self::Pending { tx, .. } => Some(tx.0),
            Self::Refused { tx, .. } => tx.map(|Text(tx)| tx),
        }
    }

    pub(crate) fn refused(tx: Option<TxId>, reason: Reason) -> Self {
        let (code, sentence) = (reason.to_text(), reason.sentence().to_owned());
        Self::Refused { tx: tx.map(Text), code, sentence }
    }
}

/// Answer of `submit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitAnswer {
    /// One result per transaction, in the same order.
    pub results: Vec<Submitted>,
}

/// Parameters of methods that are about one account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountParams {
    /// The account.
    pub account: Text<AccountId>,
}

/// Answer of `account`. An account nobody has paid is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountAnswer {
    /// The account asked for.
    pub id: Text<AccountId>,
    /// Whether the ledger has an entry for it.
    pub exists: bool,
    /// Its balance and lanes.
    pub account: AccountView,
    /// Its stake.
    pub stake: StakeView,
}

/// Parameters of `nonce`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NonceParams {
    /// The account.
    pub account: Text<AccountId>,
    /// The lane; the first if not given.
    #[serde(default = "first_lane")]
    pub lane: Number<Lane>,
}

const fn first_lane() -> Number<Lane> {
    Number(Lane::FIRST)
}

/// Answer of `nonce`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NonceAnswer {
    /// The account.
    pub account: Text<AccountId>,
    /// The lane.
    pub lane: Number<Lane>,
    /// The nonce a new transaction needs, those that wait included.
    pub nonce: Number<Nonce>,
}

/// Parameters of `receipt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptParams {
    /// The transaction.
    pub tx: Text<TxId>,
    /// How long to wait for the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// Parameters of `prove`: a noun and an id, or a whole key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProveParams {
    /// What the entry is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noun: Option<Text<Noun>>,
    /// Its id within the noun; zeros for what exists once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Text<Hash32>>,
    /// The whole key, instead of noun and id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Text<StateKey>>,
    /// How long to wait for the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// Parameters of `certificate`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateParams {
    /// The height; the latest if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<Number<Height>>,
    /// How long to wait for the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// Parameters of `block`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockParams {
    /// The height; the latest if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<Number<Height>>,
}

/// Parameters of methods that take none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// Answer of `block`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockAnswer {
    /// The header.
    pub header: HeaderView,
    /// The transactions, in order.
    pub txs: Vec<TxView>,
    /// Their receipts; `None` if this node holds them no more.
    pub receipts: Option<Vec<ReceiptView>>,
    /// What the block itself did.
    pub events: Vec<EventView>,
    /// Heights whose certificates the block carries.
    pub certificates: Vec<Number<Height>>,
}

/// Answer of `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusAnswer {
    /// Version of the program.
    pub version: String,
    /// The network's name.
    pub chain: Text<ChainId>,
    /// The network's genesis.
    pub genesis: Text<GenesisHash>,
    /// What the network is for.
    pub network: NetworkWord,
    /// Height of the last final block.
    pub height: Number<Height>,
    /// Its time, `None` before the first block.
    pub tick: Option<Number<Tick>>,
    /// Its digest, `None` before the first block.
    pub digest: Option<Text<HeaderDigest>>,
    /// Root of the state after it, `None` before the first block.
    pub state_root: Option<Text<Hash32>>,
    /// The last height whose certificate is held.
    pub certified: Option<Number<Height>>,
    /// The mean time between recent blocks, in milliseconds; `None` before the second block.
    pub block_ms: Option<u64>,
    /// Transactions in this node's pool that wait for a block.
    pub pool_txs: u64,
    /// From this number of waiting transactions on, clients are refused.
    pub pool_txs_max: u64,
    /// Seats of the committee.
    pub validators: u64,
    /// Whether `faucet` gives money.
    pub faucet: bool,
    /// The most memory that a node fills to show its capacity; 0 if claims are believed.
    pub capacity_kib_max: u32,
}

/// One seat of the committee.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidatorAnswer {
    /// The key that votes.
    pub key: Text<PublicKey>,
    /// The account that owns the stake and earns.
    pub owner: Text<AccountId>,
    /// Where it listens.
    pub address: Text<Address>,
    /// Its stake now.
    pub stake: StakeView,
    /// When it was slashed, if it was.
    pub slashed: Option<Number<Height>>,
    /// How many of the recent blocks it proposed. The seats take turns, so one that proposes none
    /// for long is not there.
    pub proposed: u64,
    /// The last recent block it proposed.
    pub proposed_last: Option<Number<Height>>,
}

/// Answer of `validators`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidatorsAnswer {
    /// The committee, by key.
    pub validators: Vec<ValidatorAnswer>,
    /// How many recent blocks were looked at.
    pub blocks: u64,
}

/// Where a seat's door is, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoorAnswer {
    /// The seat's key.
    pub seat: Text<PublicKey>,
    /// When it said so, by its clock.
    pub issued: Number<Tick>,
    /// The notice that it signed.
    pub notice: Hex,
}

/// Answer of `doors`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoorsAnswer {
    /// The doors that this node has heard of, by seat.
    pub doors: Vec<DoorAnswer>,
    /// Seats of the committee.
    pub seats: u64,
}

/// Answer of `totals`.
pub type TotalsAnswer = TotalsView;

/// Parameters of `faucet`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaucetParams {
    /// Who receives it.
    pub account: Text<AccountId>,
    /// How much; the faucet's usual amount if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<Tgrid>,
    /// What to wait for.
    #[serde(default)]
    pub wait: Wait,
}

/// Answer of `faucet`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaucetAnswer {
    /// How much is on its way.
    pub amount: Tgrid,
    /// The same in base units.
    pub amount_units: Units,
    /// The transfer.
    pub result: Submitted,
}

/// Answer of `params`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParamsAnswer {
    /// The least fee per byte, in base units.
    pub fee_floor_per_byte_units: Units,
    /// The share of fees that is burned, in basis points.
    pub fee_burn_bps: u16,
    /// The share of fees that goes into the treasury, in basis points.
    pub fee_treasury_bps: u16,
    /// How long stake that was called back can still be slashed.
    pub unbonding_ms: u64,
    /// The least stake.
    pub stake_min: Tgrid,
    /// The share lost for voting twice, in basis points.
    pub slash_equivocation_bps: u16,
    /// The share of it that the reporter receives, in basis points.
    pub slash_bounty_bps: u16,
    /// What forged evidence costs.
    pub forged_evidence_penalty: Tgrid,
    /// The span in which validators report silent nodes.
    pub absence_epoch_ms: u64,
    /// The longest a job may wait.
    pub job_expires_max_ms: u64,
    /// The most transactions in a block.
    pub block_tx_max: u32,
    /// The most bytes of transactions in a block.
    pub block_bytes_max: u32,
    /// The most transactions in a second of block time.
    pub tx_per_second_max: u32,
    /// How many blocks ahead a transaction may expire.
    pub expiry_heights_max: u64,
    /// How long an idempotency id is remembered.
    pub seen_retention_ms: u64,
    /// How much later than its parent a block may be.
    pub tick_step_max_ms: u64,
    /// How many things that fell due a block works off.
    pub due_per_block_max: u32,
    /// The parameters in canonical bytes.
    pub bytes: Hex,
}

impl ParamsAnswer {
    /// Shows parameters.
    #[must_use]
    pub fn new(params: &Params) -> Self {
        Self {
            fee_floor_per_byte_units: Units(params.fee_floor_per_byte),
            fee_burn_bps: params.fee_burn_bps.points(),
            fee_treasury_bps: params.fee_treasury_bps.points(),
            unbonding_ms: params.unbonding.get(),
            stake_min: Tgrid(params.stake_min),
            slash_equivocation_bps: params.slash_equivocation_bps.points(),
            slash_bounty_bps: params.slash_bounty_bps.points(),
            forged_evidence_penalty: Tgrid(params.forged_evidence_penalty),
            absence_epoch_ms: params.absence_epoch.get(),
            job_expires_max_ms: params.job_expires_max.get(),
            block_tx_max: params.block_tx_max,
            block_bytes_max: params.block_bytes_max,
            tx_per_second_max: params.tx_per_second_max,
            expiry_heights_max: params.expiry_heights_max,
            seen_retention_ms: params.seen_retention.get(),
            tick_step_max_ms: params.tick_step_max.get(),
            due_per_block_max: params.due_per_block_max,
            bytes: Hex(params.to_bytes()),
        }
    }

    /// The typed parameters.
    ///
    /// # Errors
    /// If the bytes are not parameters.
    pub fn params(&self) -> Result<Params, DecodeError> {
        Params::from_bytes(&self.bytes.0)
    }
}

/// A final block in the event stream. It comes after the block's ledger events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamedBlock {
    /// The block.
    pub height: Number<Height>,
    /// Its time.
    pub tick: Number<Tick>,
    /// Its digest.
    pub digest: Text<HeaderDigest>,
    /// Root of the state after it.
    pub state_root: Text<Hash32>,
    /// Its transactions.
    pub txs: u64,
    /// How many of them failed.
    pub failed: u64,
}

/// A ledger event in the event stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamedEvent {
    /// Its block.
    pub height: Number<Height>,
    /// The transaction that caused it, `None` for what the block did by itself.
    pub tx: Option<Text<TxId>>,
    /// What happened.
    pub event: EventView,
}
