//! The words of TensorGrid: ids, amounts, times, transactions, receipts, headers and the genesis,
//! with one canonical byte form, one hash and one signature rule for all of them.
//!
//! This room is separate because everything else is written in its words. It decides nothing about
//! the ledger; it guarantees that a value which exists is well formed: amounts are within the cap,
//! keys can be used, lists are bounded, and the bytes of a value are the only bytes it has. JSON
//! and files are the edge's business.

pub mod amount;
pub mod bounded;
pub mod checkpoint;
pub mod codec;
pub mod genesis;
pub mod gpu;
pub mod hash;
pub mod header;
mod hex;
pub mod host;
pub mod ids;
pub mod job;
pub mod key;
pub mod merkle;
pub mod node;
pub mod params;
pub mod reason;
pub mod receipt;
pub mod tick;
pub mod traits;
pub mod tx;
pub mod voucher;
pub mod weights;

pub use amount::{Amount, AmountError, Bps};
pub use bounded::{Address, BoundError, Bytes, List, Name};
pub use checkpoint::{CheckpointPlan, CheckpointRef};
pub use codec::{Decode, DecodeError, Encode, FORMAT_VERSION, Reader};
pub use genesis::{Genesis, GenesisError, GenesisSpec, NetworkKind, ValidatorSeat};
pub use gpu::{GpuAsk, GpuPart, GpuSlice, GpuSlices, HeldGpu, MigSlices, Sharing};
pub use header::Header;
pub use host::{HeldHost, HostPart};
pub use ids::{
    AccountId, ChainId, GenesisHash, Hash32, HeaderDigest, IdError, IdempotencyId, JobId, NodeId,
    Noun, StateKey, TxId,
};
pub use job::{
    CheckAnswer, Extent, JobSpec, JobStatus, KeyEscrow, Message, Needs, RegionAsk, ResultKey,
    RunFailure, RunResult, ShownBy, Tier, TileAnswer, TraceSecret, Work,
};
pub use key::{Domain, KeyError, Kind, PublicKey, SecretKey, Signature};
pub use node::{Device, DeviceKind, Features, NodeDescriptor, Proved};
pub use params::{CapacityParams, JobParams, Params, ParamsError, YieldParams};
pub use reason::Reason;
pub use receipt::{BlockReceipt, Event, Receipt, Status};
pub use tick::{DurationMs, Height, Tick, TimeError};
pub use traits::{
    CertificateCheck, DisputePoint, EquivocationCheck, FillClaim, KnownRun, NoPrograms,
    ProgramFacts, ProofFile, ResultClaim, ResultVerifier, RunClaim, StepJudge, StepVerdict,
    TileLot, VerifyCosts,
};
pub use tx::{
    Action, Adjustment, CheckedTx, Evidence, Lane, Memo, NodeSet, Nonce, SignedTx, TxBody, TxError,
};
pub use voucher::{PackageRef, Packages, SeatSignature, SeatSignatures, Voucher, Vouchers};
pub use weights::{RegistrationClaim, SecretWeights};
