//! What the outside sees of a node: pages for people, JSON-RPC over HTTP, an event stream, metrics,
//! and the documents that people save and check offline.
//!
//! Separate from `edge/chain` so that the chain knows no HTTP, and separate from the command line
//! so that tests and other programs use the same client. Nothing is decided here: questions become
//! calls of the chain, answers become JSON.

pub mod client;
pub mod document;
pub mod eta;
mod pages;
pub mod picked;
pub mod rpc;
pub mod server;
pub mod text;
pub mod view;
pub mod why;
pub mod words;

pub use client::{Client, ClientError};
pub use document::{
    CertificateDocument, Document, DocumentError, NetworkDocument, ProofDocument, ReceiptDocument,
    Verified, VerifyError, verify,
};
pub use rpc::RpcError;
pub use server::{ApiConfig, ApiError, FaucetConfig, RunningApi, serve, start};
