//! Following what happens, line by line.

use crate::{
    ask::{self, OrAsk as _},
    failure::{Exit, Failure},
    printer::{Printer, Tone},
    settings::Rpc,
};
use serde::Serialize;
use tg_api::{
    client::StreamMessage,
    rpc::{StreamedBlock, StreamedEvent},
};

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line<'a> {
    Block(&'a StreamedBlock),
    Event(&'a StreamedEvent),
}

/// `events`
pub(crate) fn run(rpc: &Rpc, count: Option<u64>, printer: &Printer) -> Result<Exit, Failure> {
    let stream = ask::client(rpc)?.events(None).or_ask("events cannot be followed")?;
    printer.say("Following events; ^C ends it.");
    let limit = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    for message in stream.take(limit) {
        match message.or_ask("the stream of events ended")? {
            StreamMessage::Block(block) => print_block(&block, printer),
            StreamMessage::Ledger(event) => {
                printer.result(&Line::Event(&event), || {
                    let place = printer.word(Tone::Quiet, &format!("{:>8}", event.height));
                    format!("{place}  {}", event.event.sentence)
                });
            }
        }
    }
    Ok(Exit::Done)
}

fn print_block(block: &StreamedBlock, printer: &Printer) {
    printer.result(&Line::Block(block), || {
        let place = printer.word(Tone::Strong, &format!("{:>8}", block.height));
        let failed = match block.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        format!("{place}  final with {} transactions{failed}", block.txs)
    });
}
