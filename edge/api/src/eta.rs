//! How long a run will take and when a waiting job's turn comes, from what settled jobs have
//! taught. Times are learned in block times and from few runs, so they are told coarsely, and not
//! at all where nothing is known.

use crate::why::Candidate;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tg_ledger::{JobEntry, excluded, run_bond, run_span};
use tg_scheduler::pace::{DeviceClass, Forecast};
use tg_scheduler::{Ask, GpuMix, Market, Meter, Names, Offer, fit, fit_later};
use tg_types::{AccountId, DurationMs, JobSpec, Params, ProgramFacts, Tick};

/// When a job runs, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtaView {
    /// Seconds that a run takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_s: Option<u64>,
    /// On what: the catalogue's name of a device, or its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Seconds until it begins, if it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins_in_s: Option<u64>,
    /// Seconds until its run ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in_s: Option<u64>,
    /// The same for people.
    pub sentence: String,
}

/// All nodes at a time.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// The network's parameters.
    pub params: &'a Params,
    /// All nodes.
    pub nodes: &'a [Candidate],
    /// What is usually asked for of GPUs.
    pub mix: &'a GpuMix,
    /// When.
    pub now: Tick,
}

/// A job that runs or waits, and what is expected of it.
#[derive(Clone, Debug)]
pub struct Known {
    /// The job.
    pub entry: JobEntry,
    /// What is expected of its runs.
    pub forecast: Forecast,
}

impl Ground<'_> {
    fn ask<'a>(
        &self,
        spec: &'a JobSpec,
        facts: Option<&'a ProgramFacts>,
        excluded: &'a [AccountId],
    ) -> Ask<'a> {
        let bond = run_bond(self.params.jobs.run_bond, spec);
        let span = run_span(self.params, spec, self.now);
        Ask { spec, facts, bond, excluded, span, job: None }
    }

    /// What all of them offer now.
    pub(crate) fn offers(&self) -> Vec<Offer<'_>> {
        self.nodes.iter().map(|node| node.offer_at(self.params, self.now)).collect()
    }

    /// The class of the device on which a job would run if it was placed now.
    fn class(&self, ask: &Ask<'_>, forecast: &Forecast) -> Option<DeviceClass> {
        let (offers, mut names) = (self.offers(), Names::default());
        let mut market = Market::for_job(ask, self.mix, &mut names, offers.iter().copied());
        let get = |place: usize| offers.get(place).copied();
        let question = (ask, &forecast.paces());
        market.find(&mut names, question, 0, get, &Meter::default())?.class
    }

    /// What is to be expected of a job that is not handed in yet.
    #[must_use]
    pub fn quote(
        &self,
        spec: &JobSpec,
        facts: Option<&ProgramFacts>,
        forecast: &Forecast,
    ) -> EtaView {
        let class = self.class(&self.ask(spec, facts, &[]), forecast);
        EtaView::of_run(class, forecast)
    }

    /// What is to be expected of a job on record. Of `others` those count that run or wait before
    /// it; `None` if not all of them are known.
    #[must_use]
    pub fn eta(
        &self,
        job: &Known,
        facts: Option<&ProgramFacts>,
        others: Option<&[Known]>,
    ) -> EtaView {
        let Known { entry, forecast } = job;
        if let Some(end) = job.end(self.now) {
            let class = entry.live().find_map(|run| run.class);
            let eta = EtaView::of_run(class, forecast);
            let ends_in_s = Some(end.since(self.now).map_or(0, DurationMs::get) / 1_000);
            let ends =
                ends_in_s.map_or(String::new(), |left| format!("its run ends {}", in_words(left)));
            let sentence = format!("{}; {ends}", eta.sentence);
            return EtaView { ends_in_s, sentence, ..eta };
        }
        let Some(own) = entry.queue_key() else { return EtaView::default() };
        let excluded = excluded(entry);
        let ask = self.ask(&entry.spec, facts, &excluded);
        let eta = EtaView::of_run(self.class(&ask, forecast), forecast);
        // When so many slots are free at once is not looked for.
        let others = others.filter(|_| !entry.spec.is_gang());
        let begins = others.and_then(|others| {
            let mut before: Vec<&Known> = others.iter().collect();
            before.retain(|other| other.entry.queue_key().is_some_and(|key| key < own));
            before.sort_by_key(|other| other.entry.queue_key());
            self.begins(&ask, others, &before)
        });
        let begins_in_s = begins.map(|at| at.since(self.now).map_or(0, DurationMs::get) / 1_000);
        let ends_in_s = begins_in_s.zip(eta.run_s).map(|(begins, run)| begins + run);
        let turn = begins_in_s.map_or("when it begins is not known yet".to_owned(), |at| {
            format!("it begins {}", in_words(at))
        });
        let sentence = format!("{turn}; {}", eta.sentence);
        EtaView { begins_in_s, ends_in_s, sentence, ..eta }
    }

    /// When a slot is free for a job that waits behind others: each of these takes the slot that is
    /// free first among those of nodes that the job may have. `None` if that depends on an end
    /// that is not known.
    fn begins(&self, ask: &Ask<'_>, others: &[Known], before: &[&Known]) -> Option<Tick> {
        let mut slots: BinaryHeap<Reverse<Tick>> = BinaryHeap::new();
        let offers = self.offers();
        for (node, offer) in self.nodes.iter().zip(&offers) {
            if fit_later(ask, offer).is_err() {
                continue;
            }
            let running = node.entry.runs.as_slice().len();
            let is_open = fit(ask, offer).is_ok() || running >= usize::from(offer.descriptor.slots);
            let free = usize::from(offer.descriptor.slots).saturating_sub(running);
            slots.extend((0..if is_open { free } else { 0 }).map(|_| Reverse(self.now)));
            let here = |known: &&Known| known.entry.live().any(|run| run.node == node.id);
            let ends = others.iter().filter(here).filter_map(|known| known.end(self.now));
            slots.extend(ends.map(Reverse));
        }
        for Known { entry, forecast } in before {
            let wanted = usize::from(entry.wanted).saturating_sub(entry.live().count());
            for _ in 0..wanted {
                let Reverse(at) = slots.pop()?;
                // Whoever runs for a time that is not known frees nothing that is known.
                let end = forecast.anywhere().and_then(|time| at.plus(time).ok());
                slots.extend(end.map(Reverse));
            }
        }
        slots.pop().map(|Reverse(at)| at)
    }
}

impl Known {
    /// When its run ends, if it runs and the time is known; one that should have ended may at any
    /// time.
    fn end(&self, now: Tick) -> Option<Tick> {
        let run = self.entry.live().find(|run| run.took.is_none())?;
        let known = run.class.and_then(|class| self.forecast.on(class));
        let time = known.or_else(|| self.forecast.anywhere())?;
        run.begun.plus(time).ok().map(|end| end.max(now))
    }
}

impl EtaView {
    /// A run on this class.
    fn of_run(class: Option<DeviceClass>, forecast: &Forecast) -> Self {
        let on = class.and_then(|class| Some((class, forecast.on(class)?)));
        let run_s = |time: DurationMs| Some(time.get().div_ceil(1_000));
        match (on, forecast.anywhere()) {
            (Some((class, time)), _) => {
                let device = class.name().to_owned();
                let takes = about(time.get() / 1_000);
                let sentence = format!("a run takes {takes} on a {device}");
                Self { run_s: run_s(time), device: Some(device), sentence, ..Self::default() }
            }
            (None, Some(time)) => {
                let sentence = format!("a run takes {}", about(time.get() / 1_000));
                Self { run_s: run_s(time), sentence, ..Self::default() }
            }
            (None, None) => {
                let sentence = "how long a run takes is not known yet".to_owned();
                Self { sentence, ..Self::default() }
            }
        }
    }
}

/// A span of seconds, coarsely.
fn about(seconds: u64) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    let nearest = |step: u64| (seconds + step / 2) / step;
    match seconds {
        0..=4 => "a few seconds".to_owned(),
        5..=57 => format!("about {} s", (5 * nearest(5)).max(5)),
        58..=5_399 => format!("about {} min", nearest(MINUTE)),
        _ => format!("about {} h", nearest(HOUR)),
    }
}

/// When something happens that is so many seconds away.
fn in_words(seconds: u64) -> String {
    if seconds == 0 { "at any moment".to_owned() } else { format!("in {}", about(seconds)) }
}

#[cfg(test)]
pub(crate) mod tests;
