//! Asking a node: finding it, and saying what went wrong in a way that helps.

use crate::{failure::Failure, settings::Rpc};
use std::fmt::Display;
use tg_api::{Client, ClientError, client::HttpError};

const START_HINT: &str = "start one with `tensorgrid up`, or name a node with --rpc URL";

/// A client of the node that the settings name.
///
/// # Errors
/// If no local network runs, or the address is none.
pub(crate) fn client(rpc: &Rpc) -> Result<Client, Failure> {
    let address = match rpc {
        Rpc::At(address) => address.clone(),
        Rpc::Local(place) => {
            let current = place.find();
            let current =
                current.ok_or_else(|| Failure::new("no network runs on this machine", START_HINT));
            current?.rpc
        }
    };
    Client::new(&address).map_err(|error| {
        Failure::misuse("the node's address cannot be used", "it looks like http://127.0.0.1:9420")
            .because(&error)
    })
}

/// Turns errors of the client into failures.
pub(crate) trait OrAsk<T> {
    /// The answer, or a failure with the node's own hint if it gave one.
    ///
    /// # Errors
    /// If there is no answer.
    fn or_ask(self, what: impl Display) -> Result<T, Failure>;
}

impl<T> OrAsk<T> for Result<T, ClientError> {
    fn or_ask(self, what: impl Display) -> Result<T, Failure> {
        self.map_err(|error| {
            let hint = match &error {
                ClientError::Rpc(error) => error.data.hint.clone(),
                ClientError::Http(HttpError::Connect { .. }) => {
                    format!("does the node run? {START_HINT}")
                }
                ClientError::Http(_) | ClientError::Stream(_) | ClientError::Status { .. } => {
                    "try again; look at the node's messages if it stays".to_owned()
                }
                ClientError::Json(_) | ClientError::Empty => {
                    "use the same version of `tensorgrid` for node and command".to_owned()
                }
            };
            Failure::new(what, hint).because(&error)
        })
    }
}
