//! What a node has shown of its capacity, in a few words.

use crate::view::kind_word;
use tg_ledger::{Capacity, CapacityStep, NodeEntry};
use tg_types::{CapacityParams, DurationMs, Proved, Tick};

/// What stands where nodes are not asked.
pub const NOT_ASKED: &str = "capacity not proved on this network: claims are believed";

/// What stands beside anything that was measured.
pub const WHAT_IS_PROVED: &str = "What is proved is memory that was filled in the time given: \
                                  that of the host for a processor, that of one GPU for GPUs of \
                                  a kind. How many there are is claimed.";

/// An amount of memory in its usual unit.
#[must_use]
pub fn kib(kib: u32) -> String {
    match kib {
        ..1_024 => format!("{kib} KiB"),
        1_024..1_048_576 => format!("{} MiB", kib / 1_024),
        1_048_576.. => format!("{} GiB", kib / 1_048_576),
    }
}

/// Whether and how a node has shown its capacity, device by device.
#[must_use]
pub fn capacity(node: &NodeEntry, params: &CapacityParams, now: Tick) -> String {
    if params.blocks_max == 0 {
        return NOT_ASKED.to_owned();
    }
    let devices = node.descriptor.devices.as_slice();
    let words = (0..).zip(devices).map(|(place, device)| {
        let words = match node.capacity.proof(place) {
            Some(proof) => proved(proof, now),
            None => unproved(&node.capacity, place, now),
        };
        match devices {
            [_] => words,
            [] | [_, _, ..] => format!("{} {words}", kind_word(device.kind)),
        }
    });
    words.collect::<Vec<String>>().join("; ")
}

/// What was measured of a device.
fn proved(proof: &Proved, now: Tick) -> String {
    let (memory, took, ago) = (kib(proof.blocks), proof.took, ago(proof.at, now));
    let speed = kib(u32::try_from(proof.blocks_per_second()).unwrap_or(u32::MAX));
    format!("proved: {memory} in {took} ({speed}/s), {ago}")
}

/// Why nothing was measured of a device.
fn unproved(capacity: &Capacity, device: u8, now: Tick) -> String {
    let turn = "not proved yet: waits for its turn".to_owned();
    match capacity.step {
        CapacityStep::Idle | CapacityStep::Waiting { .. } => {
            "not proved yet: waits for the beacon that asks it".to_owned()
        }
        CapacityStep::Filling { fill, .. } if fill.device == device => {
            format!("not proved yet: is to fill {} of memory", kib(fill.blocks))
        }
        CapacityStep::Committed { fill, .. } if fill.device == device => {
            "not proved yet: waits for the beacon that draws blocks".to_owned()
        }
        CapacityStep::Showing { fill, .. } if fill.device == device => {
            "not proved yet: is to show drawn blocks".to_owned()
        }
        CapacityStep::Filling { .. }
        | CapacityStep::Committed { .. }
        | CapacityStep::Showing { .. } => turn,
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
    use tg_ledger::{Capacity, CapacityStep, Fill, NodeEntry, Reputation};
    use tg_types::{
        Amount, CapacityParams, Device, DeviceKind, DurationMs, Features, Hash32, Height, List,
        NodeDescriptor, Params, Proved, SecretKey, Tick,
    };

    const NOW: Tick = Tick::new(1_000_000_000);

    fn entry(kinds: &[DeviceKind], capacity: Capacity) -> NodeEntry {
        let name = |text: &str| text.parse().expect("a name");
        let device = |kind: &DeviceKind| Device {
            kind: *kind,
            model: name("test"),
            memory_mib: 24_000,
            count: 1,
            features: Features::NONE,
            sharing: tg_types::Sharing::WHOLE,
        };
        NodeEntry {
            owner: SecretKey::from_seed([1; 32]).public().into(),
            descriptor: NodeDescriptor {
                region: name("here"),
                devices: List::new(kinds.iter().map(device).collect()).expect("devices"),
                host: tg_types::HostPart::NONE,
                price_per_hour: Amount::ZERO,
                price_per_tera: Amount::ZERO,
                slots: 1,
                is_open: true,
                closes: None,
            },
            since: Tick::ZERO,
            place: 0,
            runs: List::default(),
            drains: None,
            held: List::default(),
            hosted: List::default(),
            kept: List::default(),
            checks: 0,
            absent: None,
            reputation: Reputation::default(),
            capacity,
        }
    }

    fn proved(device: u8, ago: u64) -> Proved {
        let (took, at) = (DurationMs::new(40), Tick::new(NOW.get() - ago));
        Proved { device, memory_mib: 24_000, blocks: 1_024, took, at }
    }

    fn shown(proofs: &[Proved], step: CapacityStep) -> Capacity {
        Capacity { proved: List::new(proofs.to_vec()).expect("few"), next: 0, step }
    }

    #[test]
    fn node_says_what_it_has_shown_or_why_not() {
        let params = Params::local().capacity;
        let check = |kinds: &[DeviceKind], of: Capacity, expected: &str| {
            assert_eq!(capacity(&entry(kinds, of), &params, NOW), expected);
        };
        let cpu = [DeviceKind::Cpu];
        let at = |ago: u64| shown(&[proved(0, ago)], CapacityStep::Idle);
        check(&cpu, at(200_000), "proved: 1 MiB in 40 ms (25 MiB/s), 3 minutes ago");
        check(&cpu, at(60_000), "proved: 1 MiB in 40 ms (25 MiB/s), 1 minute ago");
        check(&cpu, at(999), "proved: 1 MiB in 40 ms (25 MiB/s), just now");
        let waiting = shown(&[], CapacityStep::Waiting { height: Height::FIRST });
        check(&cpu, waiting, "not proved yet: waits for the beacon that asks it");
        let resting = CapacityStep::Resting { until: Tick::new(NOW.get() + 8_500) };
        let late = "not proved: it did not answer in time; asked again in 8 seconds";
        check(&cpu, shown(&[], resting), late);
        let off = entry(&cpu, at(0));
        assert_eq!(capacity(&off, &CapacityParams::OFF, NOW), NOT_ASKED);
    }

    #[test]
    fn devices_of_a_node_are_told_apart() {
        let params = Params::local().capacity;
        let seed = Hash32::new([1; 32]);
        let fill = Fill { seed, blocks: 2_048, device: 1, memory_mib: 24_000 };
        let filling = CapacityStep::Filling { fill, since: NOW, deadline: NOW };
        let kinds = [DeviceKind::Cpu, DeviceKind::Gpu, DeviceKind::Gpu];
        let node = entry(&kinds, shown(&[proved(0, 999)], filling));
        assert_eq!(
            capacity(&node, &params, NOW),
            "cpu proved: 1 MiB in 40 ms (25 MiB/s), just now; gpu not proved yet: is to fill 2 MiB \
             of memory; gpu not proved yet: waits for its turn"
        );
    }

    #[test]
    fn memory_has_its_usual_unit() {
        assert_eq!([kib(3), kib(1_024), kib(1 << 22)], ["3 KiB", "1 MiB", "4 GiB"]);
    }
}
