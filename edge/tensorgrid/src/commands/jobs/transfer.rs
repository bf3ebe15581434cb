//! Packages on their way, as far as somebody waits for them: how many bytes have gone and come.

use crate::{printer::Printer, work::connect::Session};
use std::time::Duration;
use tg_net::BlobTraffic;

/// How often what is shown changes.
const TELL: Duration = Duration::from_millis(500);

/// Waits for something that moves packages and shows how far it is.
pub(super) fn shown<T>(
    session: &Session,
    printer: &Printer,
    what: &str,
    work: impl Future<Output = T>,
) -> T {
    let progress = printer.progress(what);
    let blobs = session.gateway.peer().blobs();
    let before = blobs.traffic();
    let moved = |now: BlobTraffic| BlobTraffic {
        sent_bytes: now.sent_bytes.saturating_sub(before.sent_bytes),
        received_bytes: now.received_bytes.saturating_sub(before.received_bytes),
    };
    session.runtime.block_on(async {
        let mut work = std::pin::pin!(work);
        loop {
            if let Ok(done) = tokio::time::timeout(TELL, &mut work).await {
                return done;
            }
            progress.set(format!("{what}{}", text(moved(blobs.traffic()))));
        }
    })
}

/// How much has gone and come.
fn text(moved: BlobTraffic) -> String {
    match (moved.sent_bytes, moved.received_bytes) {
        (0, 0) => String::new(),
        (sent, 0) => format!(", {} sent", size(sent)),
        (0, received) => format!(", {} received", size(received)),
        (sent, received) => format!(", {} sent, {} received", size(sent), size(received)),
    }
}

/// Bytes in the largest unit of which there is one.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes >> shift > 0);
    let Some((shift, name)) = unit else { return format!("{bytes} bytes") };
    let (whole, rest) = (bytes >> shift, bytes & ((1 << shift) - 1));
    format!("{whole}.{} {name}", (rest * 10) >> shift)
}

#[cfg(test)]
mod tests {
    use super::{size, text};
    use tg_net::BlobTraffic;

    #[test]
    fn sizes_are_short_and_rounded_down() {
        let cases = [
            (0, "0 bytes"),
            (1_023, "1023 bytes"),
            (1_024, "1.0 KiB"),
            ((3 << 20) - 1, "2.9 MiB"),
            ((1 << 30) + (1 << 29), "1.5 GiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn only_what_moves_is_told() {
        let moved = |sent_bytes, received_bytes| text(BlobTraffic { sent_bytes, received_bytes });
        assert_eq!(moved(0, 0), "");
        assert_eq!(moved(2_048, 0), ", 2.0 KiB sent");
        assert_eq!(moved(0, 5), ", 5 bytes received");
        assert_eq!(moved(1, 5), ", 1 bytes sent, 5 bytes received");
    }
}
