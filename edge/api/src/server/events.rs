//! The event stream: final blocks and what happened in them, as server-sent events.
//!
//! A block's ledger events come first and the block itself last, and only the block carries an id,
//! its height. So a listener that reconnects with the last id it saw gets every event at least
//! once.

use super::{Shared, errors};
use crate::{
    rpc::{RpcError, StreamedBlock, StreamedEvent},
    text::{Number, Text},
    view::EventView,
};
use axum::response::sse::Event as SseEvent;
use futures::{Stream, stream};
use serde::Serialize;
use std::{convert::Infallible, sync::Arc};
use tg_chain::{Chain, FinalReceipts, record::Record};
use tg_types::{Event, Header, Height, Status, TxId};
use tokio::sync::{OwnedSemaphorePermit, broadcast, watch};

/// What a listener asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    /// From this height on; from now on if not given.
    pub(super) from: Option<Height>,
    /// Blocks without their ledger events.
    pub(super) blocks_only: bool,
}

impl Wish {
    /// Reads the query `from=HEIGHT&only=blocks`, and the id a reconnecting listener has seen last.
    pub(super) fn parse(query: Option<&str>, last_id: Option<&str>) -> Result<Self, RpcError> {
        let height = |text: &str| {
            let number = text.parse::<u64>().map(Height::new);
            number.map_err(|_| wrong(format!("{text:?} is not a height")))
        };
        let mut wish = Self::default();
        for part in query.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("from", text)) => wish.from = Some(height(text)?),
                Some(("only", "blocks")) => wish.blocks_only = true,
                _ => return Err(wrong(format!("{part:?} is not an option of the stream"))),
            }
        }
        if let Some(last) = last_id {
            wish.from = Some(Height::new(height(last)?.get().saturating_add(1)));
        }
        Ok(wish)
    }
}

fn wrong(why: String) -> RpcError {
    errors::params(why, "use /events?from=HEIGHT&only=blocks, both parts as you like")
}

/// One listener's place in the chain.
struct Listening {
    chain: Chain,
    live: broadcast::Receiver<Arc<FinalReceipts>>,
    stop: watch::Receiver<bool>,
    /// The next height to send.
    next: Height,
    /// The last height known to be final.
    tip: Height,
    blocks_only: bool,
    /// What is left of the block being sent.
    sending: Option<Sending>,
    _place: OwnedSemaphorePermit,
}

/// Starts to listen.
///
/// # Errors
/// If the blocks asked for are no longer held or lie too far ahead.
pub(super) async fn listen(
    shared: &Shared,
    wish: Wish,
    place: OwnedSemaphorePermit,
) -> Result<impl Stream<Item = Result<SseEvent, Infallible>> + Send + use<>, RpcError> {
    let live = shared.chain.subscribe(); // before asking for the tip, so that nothing is missed
    let tip = shared.tip().await?;
    let after = Height::new(tip.get().saturating_add(1));
    // The genesis is no block; a stream from the beginning starts with the first one.
    let next = wish.from.map_or(after, |from| from.max(Height::new(1)));
    if next > after {
        let why = format!("height {next} lies beyond the next block {after}");
        return Err(errors::params(why, "begin at an earlier height"));
    }
    if next <= tip && !shared.chain.block(next).await.map_err(errors::chain)?.is_some_and(held) {
        let what = format!("block {next}");
        return Err(errors::unknown(what, "this node keeps fewer blocks; begin at a later height"));
    }
    let listening = Listening {
        chain: shared.chain.clone(),
        live,
        stop: shared.stop.clone(),
        next,
        tip,
        blocks_only: wish.blocks_only,
        sending: None,
        _place: place,
    };
    Ok(stream::unfold(listening, |mut listening| async move {
        let event = listening.next_event().await?;
        Some((Ok(event), listening))
    }))
}

/// Whether everything the stream needs of a block is there.
fn held<P>((_, _, record): (Header, P, Option<Record>)) -> bool {
    record.is_some()
}

impl Listening {
    /// The next event, `None` at the end of the stream.
    async fn next_event(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(event) = self.sending.as_mut().and_then(Sending::next_event) {
                return Some(event);
            }
            let block = self.next_block().await?;
            self.next = Height::new(block.header.height.get().saturating_add(1));
            self.sending = Some(Sending::new(block, self.blocks_only));
        }
    }

    /// The block at the next height: from the store while it lags behind, then live.
    async fn next_block(&mut self) -> Option<Arc<FinalReceipts>> {
        loop {
            if self.next <= self.tip {
                let (header, _, record) = self.chain.block(self.next).await.ok()??;
                let digest = header.digest(&self.chain.domain());
                return Some(Arc::new(FinalReceipts { header, digest, record: Arc::new(record?) }));
            }
            let mut stop = self.stop.clone();
            let block = tokio::select! {
                block = self.live.recv() => block,
                _ = stop.wait_for(|stopping| *stopping) => return None,
            };
            match block {
                Ok(block) if block.header.height == self.next => {
                    self.tip = self.next;
                    return Some(block);
                }
                // An earlier one was sent before; a later one means that some were missed, which
                // are then read from the store.
                Ok(block) => self.tip = self.tip.max(block.header.height),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// A block on its way to one listener. Listeners share the block; its text is made event by event,
/// so that a large block costs no listener more than its largest event.
struct Sending {
    block: Arc<FinalReceipts>,
    /// The receipt whose events are next; the one after the last stands for the block's own.
    receipt: usize,
    event: usize,
    done: bool,
}

impl Sending {
    const fn new(block: Arc<FinalReceipts>, blocks_only: bool) -> Self {
        let receipt = if blocks_only { usize::MAX } else { 0 };
        Self { block, receipt, event: 0, done: false }
    }

    fn next_event(&mut self) -> Option<SseEvent> {
        let record = &self.block.record;
        let height = self.block.header.height;
        while self.receipt <= record.receipts.len() {
            let (tx, events) = match record.receipts.get(self.receipt) {
                Some(receipt) => (Some(receipt.tx), &receipt.events),
                None => (None, &record.block.events),
            };
            if let Some(event) = events.get(self.event) {
                self.event += 1;
                return ledger(height, tx, event);
            }
            (self.receipt, self.event) = (self.receipt + 1, 0);
        }
        if self.done {
            return None;
        }
        self.done = true;
        let event = event("block", &summary(&self.block))?;
        Some(event.id(height.to_string()))
    }
}

fn summary(block: &FinalReceipts) -> StreamedBlock {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let receipts = &block.record.receipts;
    let failed = receipts.iter().filter(|receipt| receipt.status != Status::Applied);
    StreamedBlock {
        height: Number(block.header.height),
        tick: Number(block.header.tick),
        digest: Text(block.digest),
        state_root: Text(block.header.state_root),
        txs: count(receipts.len()),
        failed: count(failed.count()),
    }
}

fn ledger(height: Height, tx: Option<TxId>, happened: &Event) -> Option<SseEvent> {
    let streamed =
        StreamedEvent { height: Number(height), tx: tx.map(Text), event: EventView::new(happened) };
    event("ledger", &streamed)
}

/// An event with JSON data; our own views can always be written.
fn event(name: &str, data: &impl Serialize) -> Option<SseEvent> {
    let data = serde_json::to_string(data).ok()?;
    Some(SseEvent::default().event(name).data(data))
}

#[cfg(test)]
mod tests {
    use super::Wish;
    use tg_types::Height;

    fn check(query: Option<&str>, last: Option<&str>) -> Option<(Option<u64>, bool)> {
        let wish = Wish::parse(query, last).ok()?;
        Some((wish.from.map(Height::get), wish.blocks_only))
    }

    #[test]
    fn wish_is_read_from_query_and_last_id() {
        assert_eq!(check(None, None), Some((None, false)));
        assert_eq!(check(Some("from=7"), None), Some((Some(7), false)));
        assert_eq!(check(Some("from=7&only=blocks"), None), Some((Some(7), true)));
        assert_eq!(check(Some("from=7"), Some("9")), Some((Some(10), false)));
    }

    #[test]
    fn wish_of_another_form_is_refused() {
        for query in ["from=x", "from=", "from", "from=-1", "until=3", "only=events"] {
            assert_eq!(check(Some(query), None), None, "{query}");
        }
        assert_eq!(check(None, Some("x")), None);
    }
}
