//! What a piece of work holds in memory, and how long it takes.

use crate::counting::most_held;
use std::time::{Duration, Instant};

/// What a piece of work may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Bytes that it may hold at once.
    pub(crate) held: usize,
    pub(crate) time: Duration,
}

/// What a piece of work gave, and what it took.
pub(crate) fn measured<R>(work: impl FnOnce() -> R) -> (R, Bounds) {
    let begun = Instant::now();
    let (made, held) = most_held(work);
    (made, Bounds { held, time: begun.elapsed() })
}

/// What a piece of work gave that stayed within its bounds.
pub(crate) fn bounded<R>(bounds: Bounds, work: impl FnOnce() -> R) -> R {
    let (made, took) = measured(work);
    assert!(took.held <= bounds.held && took.time <= bounds.time, "{took:?} of {bounds:?}");
    made
}
