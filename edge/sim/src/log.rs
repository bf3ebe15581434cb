//! What nodes log, with the virtual time of the run instead of the machine's.

use std::{cell::Cell, fmt};
use tracing_subscriber::{
    EnvFilter,
    fmt::{format::Writer, time::FormatTime},
};

thread_local! {
    static NOW_MS: Cell<u64> = const { Cell::new(0) };
}

/// Sets the virtual time that the next lines of this thread carry.
pub(crate) fn set_now(now_ms: u64) {
    NOW_MS.with(|now| now.set(now_ms));
}

struct VirtualTime;

impl FormatTime for VirtualTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{:>7} ms", NOW_MS.with(Cell::get))
    }
}

/// Prints what passes the filter to stderr from now on.
pub(crate) fn print(filter: &str) {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_timer(VirtualTime)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
}
