//! Whether the machine's owner needs it now, for those who offer it only when it is idle.
//!
//! [`IdleWatch`] decides from samples and is pure; [`IdleSampler`] takes them. Load that our own
//! work causes does not count, or a machine would stop being idle as soon as it is used. A person
//! at the keyboard ends idleness at once; load has to last a while, so that a short chore does not
//! throw a job out; and it takes a longer while without either until the machine is idle again.

mod input;

use crate::devices::{Catalogue, DeviceFacts, Kind, Percent, Times};
use crate::processes::Processes;
use crate::root::Root;
use input::InputWatch;
use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

/// What counts as idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleRules {
    /// Load of others from which a device is busy.
    pub busy_from: Percent,
    /// Load of others up to which a device is quiet again. Between the two nothing changes.
    pub quiet_to: Percent,
    /// How long a device must be busy until the machine is.
    pub busy_after: Duration,
    /// How long all must be quiet until the machine is idle.
    pub idle_after: Duration,
    /// How long ago the last touch of keyboard, mouse or terminal must be.
    pub input_after: Duration,
}

impl Default for IdleRules {
    fn default() -> Self {
        Self {
            busy_from: Percent::capped(25),
            quiet_to: Percent::capped(10),
            busy_after: Duration::from_secs(10),
            idle_after: Duration::from_secs(120),
            input_after: Duration::from_secs(300),
        }
    }
}

/// What was seen at one time. `None` is what cannot be seen on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleSample {
    /// When, by a clock that never runs backwards.
    pub at: Duration,
    /// How busy others keep the processor.
    pub cpu: Option<Percent>,
    /// How busy others keep the busiest GPU.
    pub gpu: Option<Percent>,
    /// How long ago somebody touched keyboard, mouse or terminal.
    pub input_age: Option<Duration>,
}

/// Whether the machine is idle, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idleness {
    /// Nobody needs it.
    Idle,
    /// Somebody is at it.
    Input,
    /// Others keep the processor busy.
    Cpu,
    /// Others keep a GPU busy.
    Gpu,
    /// It has been quiet, but not for long enough.
    Settling,
    /// Nothing can be seen, so nothing is taken for granted.
    Unknown,
}

/// Decides whether a machine is idle.
#[derive(Clone, Debug)]
pub struct IdleWatch {
    rules: IdleRules,
    verdict: Idleness,
    /// Since when the load was high.
    busy_since: Option<Duration>,
    /// Since when all was quiet.
    quiet_since: Option<Duration>,
    last_at: Duration,
}

impl IdleWatch {
    /// A watch that has seen nothing yet.
    #[must_use]
    pub const fn new(rules: IdleRules) -> Self {
        Self {
            rules,
            verdict: Idleness::Unknown,
            busy_since: None,
            quiet_since: None,
            last_at: Duration::ZERO,
        }
    }

    /// What was decided last.
    #[must_use]
    pub const fn verdict(&self) -> Idleness {
        self.verdict
    }

    /// Decides anew. A sample that is older than the last one is taken to be of the same time.
    pub fn step(&mut self, sample: &IdleSample) -> Idleness {
        let at = sample.at.max(self.last_at);
        self.last_at = at;
        let loads = [(sample.cpu, Idleness::Cpu), (sample.gpu, Idleness::Gpu)];
        let loads = loads.into_iter().filter_map(|(load, reason)| Some((load?, reason)));
        let busiest = loads.max_by_key(|(load, _)| *load);
        let is_touched = sample.input_age.is_some_and(|age| age < self.rules.input_after);
        let is_seen = busiest.is_some() || sample.input_age.is_some();
        let load = busiest.map_or(Percent::ZERO, |(load, _)| load);

        if load < self.rules.busy_from {
            self.busy_since = None;
        } else {
            self.busy_since.get_or_insert(at);
        }
        if !is_seen || is_touched || load > self.rules.quiet_to {
            self.quiet_since = None;
        } else {
            self.quiet_since.get_or_insert(at);
        }
        let lasts = |since: Option<Duration>, needed: Duration| {
            since.is_some_and(|since| at.saturating_sub(since) >= needed)
        };
        self.verdict = match (busiest, self.verdict) {
            _ if !is_seen => Idleness::Unknown,
            _ if is_touched => Idleness::Input,
            (Some((_, reason)), _) if lasts(self.busy_since, self.rules.busy_after) => reason,
            (_, Idleness::Idle) => Idleness::Idle,
            (_, _) if lasts(self.quiet_since, self.rules.idle_after) => Idleness::Idle,
            // The reason stays until it is quiet; then time is all that is missing.
            (Some(_), reason @ (Idleness::Cpu | Idleness::Gpu)) if self.quiet_since.is_none() => {
                reason
            }
            (_, _) => Idleness::Settling,
        };
        self.verdict
    }
}

/// Takes samples of this machine.
#[derive(Debug)]
pub struct IdleSampler {
    root: Root,
    started: Instant,
    last: Option<Usage>,
    input: InputWatch,
}

/// Processor time of the machine and of our own processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Usage {
    times: Times,
    own_ticks: u64,
}

impl Usage {
    fn read(root: &Root, own: &BTreeSet<u32>) -> Option<Self> {
        let times = Times::parse(&root.text("/proc/stat")?)?;
        Some(Self { times, own_ticks: Processes::read(root).ticks(own) })
    }

    /// How busy others kept the processor since an earlier reading. Our own time runs backwards
    /// when one of our processes ends unseen; then it counts as none, and others get all.
    fn others_since(self, before: Self) -> Option<Percent> {
        let total = self.times.total.checked_sub(before.times.total)?;
        let busy = self.times.busy.checked_sub(before.times.busy)?;
        let own = self.own_ticks.saturating_sub(before.own_ticks);
        Percent::of(busy.saturating_sub(own), total)
    }
}

impl IdleSampler {
    /// A sampler of the machine of a catalogue.
    #[must_use]
    pub fn new(catalogue: &Catalogue) -> Self {
        let root = Root::new(&catalogue.settings().root);
        let input = InputWatch::open(&root);
        Self { root, started: Instant::now(), last: None, input }
    }

    /// Takes a sample; GPUs are as the catalogue read them last. The first one knows nothing of the
    /// processor, which is measured between two.
    pub fn sample(&mut self, catalogue: &Catalogue) -> IdleSample {
        let at = self.started.elapsed();
        let usage = Usage::read(&self.root, &catalogue.settings().own_pids);
        let cpu = self.last.zip(usage).and_then(|(before, now)| now.others_since(before));
        self.last = usage.or(self.last);
        let input_age = self.input.age(&self.root, at, SystemTime::now());
        IdleSample { at, cpu, gpu: busiest_gpu(catalogue.devices()), input_age }
    }
}

/// How busy others keep the busiest GPU, of those that can be told.
fn busiest_gpu(devices: &[DeviceFacts]) -> Option<Percent> {
    let gpus = devices.iter().filter(|facts| facts.kind == Kind::Gpu);
    gpus.filter_map(DeviceFacts::load_of_others).max()
}

#[cfg(test)]
mod tests;
