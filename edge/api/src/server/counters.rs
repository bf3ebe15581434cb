//! What the server counts about itself, in Prometheus' text form.

use crate::rpc::method;
use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// One of a method's counts.
type Choice = fn(&MethodCounters) -> &AtomicU64;

/// Counts of one method.
#[derive(Debug, Default)]
struct MethodCounters {
    calls: AtomicU64,
    errors: AtomicU64,
    microseconds: AtomicU64,
}

/// What the server counts.
#[derive(Debug, Default)]
pub(super) struct Counters {
    methods: [MethodCounters; method::ALL.len()],
    /// Requests that were no call of a method.
    malformed: AtomicU64,
    /// Requests turned away because too much was under way.
    busy: AtomicU64,
}

impl Counters {
    pub(super) fn called(&self, name: &str, took: Duration, failed: bool) {
        let place = method::ALL.iter().position(|(method, _)| *method == name);
        let Some(counters) = place.and_then(|place| self.methods.get(place)) else {
            self.malformed();
            return;
        };
        counters.calls.fetch_add(1, Ordering::Relaxed);
        counters.errors.fetch_add(failed.into(), Ordering::Relaxed);
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        counters.microseconds.fetch_add(microseconds, Ordering::Relaxed);
    }

    pub(super) fn malformed(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn busy(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    /// All numbers in Prometheus' text form.
    pub(super) fn to_text(&self, listeners: usize) -> String {
        let mut text = String::new();
        self.write(&mut text, listeners).expect("a string takes all text");
        text
    }

    fn write(&self, text: &mut String, listeners: usize) -> std::fmt::Result {
        let families: [(&str, &str, Choice); 3] = [
            ("calls", "Calls of a method.", |counters| &counters.calls),
            ("errors", "Calls that ended in an error.", |counters| &counters.errors),
            ("microseconds", "Time spent in calls.", |counters| &counters.microseconds),
        ];
        for (word, help, number) in families {
            let name = format!("tensorgrid_rpc_{word}_total");
            writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter")?;
            for ((method, _), counters) in method::ALL.iter().zip(&self.methods) {
                let value = number(counters).load(Ordering::Relaxed);
                writeln!(text, "{name}{{method=\"{method}\"}} {value}")?;
            }
        }
        let malformed = self.malformed.load(Ordering::Relaxed);
        let name = "tensorgrid_rpc_malformed_total";
        writeln!(text, "# HELP {name} Requests that were no call of a method.")?;
        writeln!(text, "# TYPE {name} counter\n{name} {malformed}")?;
        let busy = self.busy.load(Ordering::Relaxed);
        let name = "tensorgrid_rpc_busy_total";
        writeln!(text, "# HELP {name} Requests turned away because too much was under way.")?;
        writeln!(text, "# TYPE {name} counter\n{name} {busy}")?;
        let name = "tensorgrid_event_listeners";
        writeln!(text, "# HELP {name} Listeners of the event stream.")?;
        writeln!(text, "# TYPE {name} gauge\n{name} {listeners}")
    }
}

#[cfg(test)]
mod tests {
    use super::Counters;
    use std::time::Duration;

    #[test]
    fn calls_are_counted_by_method() {
        let counters = Counters::default();
        counters.called("status", Duration::from_micros(5), false);
        counters.called("status", Duration::from_micros(7), true);
        counters.called("no such method", Duration::ZERO, true);
        counters.busy();
        let text = counters.to_text(3);
        for line in [
            "tensorgrid_rpc_calls_total{method=\"status\"} 2",
            "tensorgrid_rpc_errors_total{method=\"status\"} 1",
            "tensorgrid_rpc_microseconds_total{method=\"status\"} 12",
            "tensorgrid_rpc_calls_total{method=\"submit\"} 0",
            "tensorgrid_rpc_malformed_total 1",
            "tensorgrid_rpc_busy_total 1",
            "tensorgrid_event_listeners 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
