//! When jobs run, on made-up nodes.

use super::{EtaView, Ground, Known, about};
use crate::why::Candidate;
use tg_ledger::{
    Capacity, Draw, JobEntry, NodeEntry, Promise, QueueRow, Reputation, Run, RunState,
};
use tg_scheduler::GpuMix;
use tg_scheduler::pace::{DeviceClass, Forecast, Lesson, Level};
use tg_types::{
    AccountId, Amount, CapacityParams, Device, DeviceKind, DurationMs, Features, Hash32, JobId,
    JobSpec, JobStatus, KeyEscrow, List, Needs, NodeDescriptor, NodeId, Params, ResultKey,
    SecretKey, Tick, Tier, Work,
};

const HASH: Hash32 = Hash32::new([2; 32]);
pub(crate) const NODE: NodeId = NodeId::new([5; 32]);
pub(crate) const NOW: Tick = Tick::new(1_700_000_000_000);

fn owner(number: u8) -> AccountId {
    SecretKey::from_seed([number; 32]).public().into()
}

fn device() -> Device {
    let model = "RTX 4090".parse().expect("a name");
    let features = Features::NONE;
    Device {
        kind: DeviceKind::Gpu,
        model,
        memory_mib: 24_000,
        count: 1,
        features,
        sharing: tg_types::Sharing::WHOLE,
    }
}

fn later(seconds: u64) -> Tick {
    NOW.plus(DurationMs::new(seconds * 1_000)).expect("early")
}

fn earlier(seconds: u64) -> Tick {
    Tick::new(NOW.get() - seconds * 1_000)
}

/// What is expected of a job that took so long before.
fn forecast(seconds: Option<u64>) -> Forecast {
    let mut lesson = Lesson::default();
    if let Some(seconds) = seconds {
        let level = Level::of(DurationMs::new(seconds * 1_000), 1_000);
        lesson.learn(DeviceClass::of(&device(), 24_000), &owner(9), level);
    }
    Forecast::new(1_000, [&lesson])
}

/// A node with so many slots that runs so many jobs.
pub(crate) fn candidate(slots: u16, running: u8) -> Candidate {
    let runs = (0..running).map(|number| JobId::new([number; 32])).collect();
    let entry = NodeEntry {
        owner: owner(1),
        descriptor: NodeDescriptor {
            region: "eu".parse().expect("a name"),
            devices: List::new(vec![device()]).expect("one"),
            host: tg_types::HostPart::NONE,
            price_per_hour: Amount::constant(1),
            price_per_tera: Amount::constant(1),
            slots,
            is_open: true,
            closes: None,
        },
        since: NOW,
        place: 0,
        runs: List::new(runs).expect("few"),
        drains: None,
        held: List::default(),
        hosted: List::default(),
        kept: List::default(),
        checks: 0,
        absent: None,
        reputation: Reputation::default(),
        capacity: Capacity::default(),
    };
    Candidate { id: NODE, entry, stake_free: Amount::CAP }
}

/// A job that waits since so many seconds, or runs since then.
pub(crate) fn job(seconds: u64, is_running: bool) -> JobEntry {
    let run = Run {
        node: NODE,
        owner: owner(1),
        bond: Amount::ZERO,
        class: Some(DeviceClass::of(&device(), 24_000)),
        asked: None,
        gpus: List::default(),
        begun: earlier(seconds),
        took: None,
        deadline: later(3_600),
        yields_to: None,
        state: RunState::Placed,
    };
    JobEntry {
        owner: owner(2),
        task: None,
        spec: JobSpec {
            work: Work::Opaque { task: HASH },
            package: HASH,
            package_bytes: 1,
            key_escrow: KeyEscrow::Validators,
            result_key: ResultKey::NONE,
            needs: Needs::ANY,
            tier: Tier::Trusted,
            pay: Amount::constant(1_000),
            run_max: DurationMs::HOUR,
            expires_after: DurationMs::DAY,
            promise: None,
            checkpoint: None,
            nodes: 1,
        },
        escrow: Amount::ZERO,
        submitted: earlier(seconds),
        expires: later(86_400),
        closed: None,
        status: if is_running { JobStatus::Running } else { JobStatus::Queued },
        row: QueueRow::default(),
        queued: earlier(seconds),
        queue_place: if is_running { None } else { Some(1_000 - seconds) },
        wanted: 1,
        runs: if is_running { List::new(vec![run]).expect("one") } else { List::default() },
        extent: tg_types::Extent::Whole,
        draw: Draw::Pending,
        checks: List::default(),
        promise: Promise::None,
        saved: None,
        saves: 0,
        yield_place: None,
        yields: 0,
        waits_for: None,
        paid: Amount::ZERO,
        is_stopped: false,
        gang_place: None,
    }
}

fn known(entry: JobEntry, seconds: Option<u64>) -> Known {
    Known { entry, forecast: forecast(seconds) }
}

fn eta(nodes: &[Candidate], one: &Known, others: Option<&[Known]>) -> EtaView {
    let params = Params { capacity: CapacityParams::OFF, ..Params::local() };
    let mix = GpuMix::default();
    Ground { params: &params, nodes, mix: &mix, now: NOW }.eta(one, None, others)
}

fn near(found: Option<u64>, expected: u64) -> bool {
    found.is_some_and(|found| found.abs_diff(expected) <= 1 + expected / 20)
}

#[test]
fn times_are_told_coarsely() {
    let told = [3, 8, 41, 59, 200, 5_399, 9_000].map(about);
    let expected = ["a few seconds", "about 10 s", "about 40 s", "about 1 min", "about 3 min"];
    assert_eq!(told[..5], expected);
    assert_eq!(told[5..], ["about 90 min", "about 3 h"]);
}

#[test]
fn run_that_was_never_seen_has_no_time() {
    let eta = eta(&[candidate(1, 0)], &known(job(1, false), None), Some(&[]));
    assert_eq!((eta.run_s, eta.begins_in_s, eta.ends_in_s), (None, Some(0), None));
    assert_eq!(eta.sentence, "it begins at any moment; how long a run takes is not known yet");
}

#[test]
fn running_job_ends_when_its_kind_usually_does() {
    let eta = |since| eta(&[candidate(1, 1)], &known(job(since, true), Some(80)), None);
    assert!(near(eta(20).ends_in_s, 60) && near(eta(20).run_s, 80), "{:?}", eta(20));
    assert_eq!(eta(20).device.as_deref(), Some("RTX-4090"));
    assert_eq!(eta(500).ends_in_s, Some(0), "overdue");
    assert_eq!(
        eta(20).sentence,
        "a run takes about 1 min on a RTX-4090; its run ends in about 1 min"
    );
}

/// Goal: a turn comes after the ends of what runs and of who goes before; what depends on an end
/// that is not known is not known. Method: one node with two slots.
#[test]
fn turn_comes_when_those_before_have_ended() {
    let own = known(job(10, false), Some(40));
    let running = [known(job(30, true), Some(90)), known(job(10, true), Some(30))];
    let nodes = [candidate(2, 2)];
    let at = |others: &[Known]| eta(&nodes, &own, Some(others)).begins_in_s;
    assert!(near(at(&running), 20), "{:?}", at(&running));
    let before = |time| [running.as_slice(), &[known(job(50, false), time)]].concat();
    assert!(near(at(&before(Some(100))), 60), "one before has the slot at 20 s");
    assert!(near(at(&before(Some(10))), 30));
    let two = [before(None), vec![known(job(60, false), None)]].concat();
    assert_eq!(at(&two), None);
    let behind = [running.as_slice(), &[known(job(2, false), Some(100))]].concat();
    assert!(near(at(&behind), 20), "whoever goes after does not count");
    assert_eq!(eta(&nodes, &own, None).begins_in_s, None);
    assert!(near(eta(&nodes, &own, Some(&running)).ends_in_s, 60));
}
