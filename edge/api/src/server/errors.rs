//! What goes wrong, in the words of JSON-RPC: a code, a sentence and a hint each.

use crate::rpc::{RpcError, code};
use std::{error::Error, fmt::Display};
use tg_chain::ChainError;

/// The word of all answers that mean "later".
pub(super) const BUSY: &str = "busy";

pub(super) fn busy() -> RpcError {
    let sentence = "The node has as many calls under way as it may have.";
    RpcError::new(code::BUSY, BUSY, sentence, "ask again in a moment")
}

pub(super) fn stopping() -> RpcError {
    let sentence = "The node is stopping.";
    RpcError::new(code::STOPPING, "stopping", sentence, "start the node again, or ask another one")
}

pub(super) fn parse(error: impl Display) -> RpcError {
    let sentence = format!("The body is not JSON: {error}.");
    RpcError::new(
        code::PARSE,
        "parse",
        sentence,
        "send one JSON-RPC 2.0 request, or a list of them",
    )
}

pub(super) fn request(why: impl Display) -> RpcError {
    let sentence = format!("The body is not a JSON-RPC 2.0 request: {why}.");
    let hint = r#"send {"jsonrpc":"2.0","id":1,"method":"status","params":{}}"#;
    RpcError::new(code::REQUEST, "request", sentence, hint)
}

pub(super) fn method(name: &str) -> RpcError {
    // The name comes from outside and goes into a log or a terminal, so it is quoted and cut.
    let shown: String = name.chars().take(40).collect();
    let sentence = format!("There is no method {shown:?}.");
    let names = crate::rpc::method::ALL.map(|(name, _)| name);
    let hint = format!("methods are {}", names.join(", "));
    RpcError::new(code::METHOD, "method", sentence, hint)
}

pub(super) fn params(why: impl Display, hint: &str) -> RpcError {
    RpcError::new(code::PARAMS, "params", format!("The parameters do not fit: {why}."), hint)
}

pub(super) fn unknown(what: impl Display, hint: &str) -> RpcError {
    RpcError::new(code::UNKNOWN, "unknown", format!("This node does not know {what}."), hint)
}

pub(super) fn timeout(what: impl Display, hint: &str) -> RpcError {
    let sentence = format!("{what} did not come within the time given.");
    RpcError::new(code::TIMEOUT, "timeout", sentence, hint)
}

pub(super) fn chain(error: ChainError) -> RpcError {
    match error {
        ChainError::Stopped(_) => stopping(),
        ChainError::Corrupt(source) => unreadable(&source),
        ChainError::Index(source) => unreadable(&source),
    }
}

fn unreadable(error: &(dyn Error + 'static)) -> RpcError {
    tracing::error!(error, "what the node stored cannot be read");
    internal("What this node has stored cannot be read.")
}

pub(super) fn internal(sentence: &str) -> RpcError {
    let hint = "this is a fault of the node; its log says more, and another node may answer";
    RpcError::new(code::INTERNAL, "internal", sentence, hint)
}
