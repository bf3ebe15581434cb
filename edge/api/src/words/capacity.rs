//! What a node has shown of its capacity, in a few words.

use tg_ledger::{Capacity, CapacityStep};
use tg_types::{CapacityParams, DurationMs, Tick};

/// What stands where nodes are not asked.
pub const NOT_ASKED: &str = "capacity not proved on this network: claims are believed";

/// What stands beside anything that was measured.
pub const HOST_ONLY: &str = "What is proved is host memory, filled by the processor. The memory \
                             of graphics processors and other devices is claimed, not measured.";

/// An amount of memory in its usual unit.
#[must_use]
pub fn kib(kib: u32) -> String {
    match kib {
        ..1_024 => format!("{kib} KiB"),
        1_024..1_048_576 => format!("{} MiB", kib / 1_024),
        1_048_576.. => format!("{} GiB", kib / 1_048_576),
    }
}

/// Whether and how a node has shown its capacity.
#[must_use]
pub fn capacity(capacity: &Capacity, params: &CapacityParams, now: Tick) -> String {
    if params.blocks_max == 0 {
        return NOT_ASKED.to_owned();
    }
    if let Some(proved) = &capacity.proved {
        let memory = kib(proved.blocks);
        return format!("proved: {memory} in {}, {}", proved.took, ago(proved.at, now));
    }
    match capacity.step {
        CapacityStep::Idle | CapacityStep::Waiting { .. } => {
            "not proved yet: waits for the beacon that asks it".to_owned()
        }
        CapacityStep::Filling { fill, .. } => {
            format!("not proved yet: is to fill {} of memory", kib(fill.blocks))
        }
        CapacityStep::Committed { .. } => {
            "not proved yet: waits for the beacon that draws blocks".to_owned()
        }
        CapacityStep::Showing { .. } => "not proved yet: is to show drawn blocks".to_owned(),
        CapacityStep::Resting { until } => {
            let left = until.since(now).unwrap_or_default();
            format!("not proved: it did not answer in time; asked again in {}", span(left))
        }
    }
}

fn ago(then: Tick, now: Tick) -> String {
    match now.since(then).unwrap_or_default() {
        span if span < DurationMs::SECOND => "just now".to_owned(),
        elapsed => format!("{} ago", span(elapsed)),
    }
}

/// A span in its largest unit.
fn span(span: DurationMs) -> String {
    let units = [
        (DurationMs::DAY, "day"),
        (DurationMs::HOUR, "hour"),
        (DurationMs::MINUTE, "minute"),
        (DurationMs::SECOND, "second"),
    ];
    let fitting = units.into_iter().find(|(unit, _)| span >= *unit);
    let (unit, word) = fitting.unwrap_or((DurationMs::SECOND, "second"));
    match span.get() / unit.get() {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::{NOT_ASKED, capacity, kib};
    use tg_ledger::{Capacity, CapacityStep, Proved};
    use tg_types::{CapacityParams, DurationMs, Height, Params, Tick};

    const NOW: Tick = Tick::new(1_000_000_000);

    #[test]
    fn node_says_what_it_has_shown_or_why_not() {
        let params = Params::local().capacity;
        let check = |capacity_of: &Capacity, expected: &str| {
            assert_eq!(capacity(capacity_of, &params, NOW), expected);
        };
        let at = |ago: u64| Capacity {
            proved: Some(Proved {
                memory_mib: 24_000,
                blocks: 1_024,
                took: DurationMs::new(40),
                at: Tick::new(NOW.get() - ago),
            }),
            step: CapacityStep::Idle,
        };
        check(&at(200_000), "proved: 1 MiB in 40 ms, 3 minutes ago");
        check(&at(60_000), "proved: 1 MiB in 40 ms, 1 minute ago");
        check(&at(999), "proved: 1 MiB in 40 ms, just now");
        let step = |step| Capacity { proved: None, step };
        let waiting = step(CapacityStep::Waiting { height: Height::FIRST });
        check(&waiting, "not proved yet: waits for the beacon that asks it");
        let resting = step(CapacityStep::Resting { until: Tick::new(NOW.get() + 8_500) });
        check(&resting, "not proved: it did not answer in time; asked again in 8 seconds");
        assert_eq!(capacity(&at(0), &CapacityParams::OFF, NOW), NOT_ASKED);
    }

    #[test]
    fn memory_has_its_usual_unit() {
        assert_eq!([kib(3), kib(1_024), kib(1 << 22)], ["3 KiB", "1 MiB", "4 GiB"]);
    }
}
