//! One thread that knows when each transaction was sent and when it was final.
//!
//! Senders and the chain's listener report to it through one bounded channel; either may be first.

use crate::bench::histogram::Histogram;
use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};
use tg_chain::{Chain, FinalReceipts};
use tg_types::TxId;
use tokio::sync::broadcast;

/// Reports that may wait; a report is one request or one block.
const REPORTS_MAX: usize = 1_024;

/// What is reported.
enum Report {
    /// These were sent at this time and taken.
    Sent(Vec<TxId>, Instant),
    /// These were offered but not taken.
    Refused(u64),
    /// These became final and durable at this time.
    Final(Vec<TxId>, Instant),
    /// A phase begins: counts start anew. What was sent before still counts for the old phase.
    Phase,
    /// How it stands.
    Ask(SyncSender<Counts>),
}

/// What happened in a phase so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Transactions taken.
    pub(crate) accepted: u64,
    /// Offers refused.
    pub(crate) refused: u64,
    /// Taken transactions that are final.
    pub(crate) finalised: u64,
    /// From sending the request to final and durable.
    pub(crate) latencies: Histogram,
    /// When how many were final, per block.
    pub(crate) finals: Vec<(Instant, u64)>,
}

impl Counts {
    /// Transactions per second that became final between two times.
    #[must_use]
    pub(crate) fn rate(&self, from: Instant, to: Instant) -> f64 {
        let within = self.finals.iter().filter(|(at, _)| (from..to).contains(at));
        let count: u64 = within.map(|(_, count)| count).sum();
        let span = to.duration_since(from).as_secs_f64();
        f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / span.max(f64::MIN_POSITIVE)
    }
}

/// The way to the tally. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Tally(SyncSender<Report>);

impl Tally {
    /// Starts the tally, listening to a chain. It ends with its last handle and the chain.
    ///
    /// # Errors
    /// If the operating system refuses a thread.
    pub(crate) fn start(chain: &Chain) -> io::Result<Self> {
        let (sender, reports) = sync_channel(REPORTS_MAX);
        let blocks = chain.subscribe();
        let listener = sender.clone();
        let name = |name: &str| thread::Builder::new().name(name.to_owned());
        // Both threads end when the chain's listeners do, with the process at the latest.
        let _counting = name("tally").spawn(move || Book::default().keep(&reports))?;
        let _listening = name("listener").spawn(move || listen(blocks, &listener))?;
        Ok(Self(sender))
    }

    /// These were sent at this time and taken.
    pub(crate) fn sent(&self, txs: Vec<TxId>, at: Instant) {
        let _ended = self.0.send(Report::Sent(txs, at));
    }

    /// So many were offered but not taken.
    pub(crate) fn refused(&self, count: u64) {
        let _ended = self.0.send(Report::Refused(count));
    }

    /// A phase begins.
    pub(crate) fn begin(&self) {
        let _ended = self.0.send(Report::Phase);
    }

    /// How the present phase stands.
    #[must_use]
    pub(crate) fn counts(&self) -> Counts {
        let (sender, answer) = sync_channel(1);
        let _ended = self.0.send(Report::Ask(sender));
        answer.recv().unwrap_or_default()
    }

    /// Waits until everything taken in this phase is final, at most `span`.
    #[must_use]
    pub(crate) fn settle(&self, span: Duration) -> Counts {
        let started = Instant::now();
        loop {
            let counts = self.counts();
            if counts.finalised >= counts.accepted || started.elapsed() >= span {
                return counts;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn listen(mut blocks: broadcast::Receiver<Arc<FinalReceipts>>, tally: &SyncSender<Report>) {
    loop {
        match blocks.blocking_recv() {
            Ok(block) => {
                let at = Instant::now();
                let txs = block.record.receipts.iter().map(|receipt| receipt.tx).collect();
                if tally.send(Report::Final(txs, at)).is_err() {
                    return;
                }
            }
            // The receipts of a thousand blocks were missed: the settling will show it.
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

/// What the tally remembers.
#[derive(Default)]
struct Book {
    phase: u64,
    counts: Counts,
    /// Sent and not final: when, and in which phase.
    open: BTreeMap<TxId, (Instant, u64)>,
    /// Final before the sender had time to report it.
    early: BTreeMap<TxId, Instant>,
}

impl Book {
    fn keep(mut self, reports: &Receiver<Report>) {
        while let Ok(report) = reports.recv() {
            match report {
                Report::Sent(txs, at) => self.sent(txs, at),
                Report::Refused(count) => self.counts.refused += count,
                Report::Final(txs, at) => self.finalised(txs, at),
                Report::Phase => {
                    self.phase += 1;
                    self.counts = Counts::default();
                    self.early.clear();
                }
                Report::Ask(answer) => {
                    let _gone = answer.send(self.counts.clone());
                }
            }
        }
    }

    fn sent(&mut self, txs: Vec<TxId>, at: Instant) {
        self.counts.accepted += u64::try_from(txs.len()).unwrap_or(0);
        for tx in txs {
            match self.early.remove(&tx) {
                Some(then) => self.settled(then.duration_since(at)),
                None => {
                    self.open.insert(tx, (at, self.phase));
                }
            }
        }
    }

    fn finalised(&mut self, txs: Vec<TxId>, at: Instant) {
        let count = u64::try_from(txs.len()).unwrap_or(0);
        self.counts.finals.push((at, count));
        for tx in txs {
            match self.open.remove(&tx) {
                Some((sent, phase)) if phase == self.phase => {
                    self.settled(at.duration_since(sent));
                }
                Some(_) => {}
                None => {
                    self.early.insert(tx, at);
                }
            }
        }
    }

    fn settled(&mut self, latency: Duration) {
        self.counts.finalised += 1;
        self.counts.latencies.add(latency);
    }
}

#[cfg(test)]
mod tests {
    use super::Book;
    use std::time::{Duration, Instant};
    use tg_types::TxId;

    #[test]
    fn transaction_counts_whoever_reports_it_first() {
        let (start, mut book) = (Instant::now(), Book::default());
        let later = start + Duration::from_millis(100);
        let (one, two) = (TxId::new([1; 32]), TxId::new([2; 32]));
        book.sent(vec![one], start);
        book.finalised(vec![one, two], later);
        assert_eq!((book.counts.accepted, book.counts.finalised), (1, 1));
        book.sent(vec![two], start);
        assert_eq!((book.counts.accepted, book.counts.finalised), (2, 2));
        assert!(book.open.is_empty() && book.early.is_empty());
        let rate = book.counts.rate(start, start + Duration::from_secs(1));
        assert!((rate - 2.0).abs() < 0.01, "{rate}");
    }
}
