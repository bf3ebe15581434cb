//! The event stream of a node, read message by message.

use super::{ClientError, http::Connection};
use crate::rpc::{StreamedBlock, StreamedEvent};
use serde::de::DeserializeOwned;
use std::io::{BufRead as _, BufReader, Read as _};

/// Bytes of one line of the stream. A message is one event or one block's summary.
const LINE_BYTES_MAX: u64 = 256 << 10;

/// One message of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamMessage {
    /// Something happened in the ledger.
    Ledger(StreamedEvent),
    /// A block is final; its ledger events came before.
    Block(StreamedBlock),
}

/// A node's events, as they come. Ends when the node stops.
pub struct EventStream {
    reader: BufReader<Connection>,
}

impl EventStream {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { reader: BufReader::new(connection) }
    }

    /// The next message, `None` at the end of the stream.
    ///
    /// # Errors
    /// If the connection fails or the message cannot be read.
    pub fn next_message(&mut self) -> Result<Option<StreamMessage>, ClientError> {
        let (mut event, mut data) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            let read = (&mut self.reader).take(LINE_BYTES_MAX).read_line(&mut line);
            if read.map_err(ClientError::Stream)? == 0 {
                return Ok(None);
            }
            let line = line.trim_end_matches(['\r', '\n']);
            match line.split_once(':') {
                _ if line.is_empty() => {
                    if let Some(message) = message(&event, &data)? {
                        return Ok(Some(message));
                    }
                    (event, data) = (String::new(), String::new());
                }
                Some(("event", value)) => event = value.trim_start().to_owned(),
                Some(("data", value)) => data.push_str(value.trim_start()),
                _ => {} // comments keep the connection alive, ids are in the data too
            }
        }
    }
}

impl Iterator for EventStream {
    type Item = Result<StreamMessage, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_message().transpose()
    }
}

fn message(event: &str, data: &str) -> Result<Option<StreamMessage>, ClientError> {
    Ok(match event {
        "block" => Some(StreamMessage::Block(read(data)?)),
        "ledger" => Some(StreamMessage::Ledger(read(data)?)),
        _ => None,
    })
}

fn read<T: DeserializeOwned>(data: &str) -> Result<T, ClientError> {
    serde_json::from_str(data).map_err(ClientError::Json)
}
