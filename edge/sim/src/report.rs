//! What a run leaves behind, for people and for programs.

use crate::violation::Violation;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tg_sim::cluster::Counts;
use tg_types::reason::Reason;

/// What happened in one run.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) seats: usize,
    pub(crate) followers: usize,
    pub(crate) vices: Vec<String>,
    pub(crate) blocks: u64,
    pub(crate) blocks_in_storm: u64,
    pub(crate) faults: u64,
    pub(crate) faults_by_kind: BTreeMap<&'static str, u64>,
    pub(crate) lies: u64,
    pub(crate) messages: Counts,
    pub(crate) txs_submitted: usize,
    pub(crate) txs_acknowledged: usize,
    pub(crate) slashed: usize,
    /// How often what happened, by the reasons of events.
    pub(crate) events: BTreeMap<&'static str, u64>,
    pub(crate) virtual_s: f64,
    pub(crate) real_s: f64,
    pub(crate) trace_hash: String,
    pub(crate) violations: Vec<Violation>,
}

impl Report {
    /// A run in which nothing happened yet.
    pub(crate) fn empty(seed: u64) -> Self {
        Self {
            seed,
            seats: 0,
            followers: 0,
            vices: Vec::new(),
            blocks: 0,
            blocks_in_storm: 0,
            faults: 0,
            faults_by_kind: BTreeMap::new(),
            lies: 0,
            messages: Counts::default(),
            txs_submitted: 0,
            txs_acknowledged: 0,
            slashed: 0,
            events: BTreeMap::new(),
            virtual_s: 0.0,
            real_s: 0.0,
            trace_hash: String::new(),
            violations: Vec::new(),
        }
    }

    /// One object.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "seed": self.seed,
            "trace_hash": self.trace_hash,
            "validators": self.seats,
            "followers": self.followers,
            "byzantine": self.vices,
            "blocks": self.blocks,
            "blocks_in_storm": self.blocks_in_storm,
            "faults": self.faults,
            "faults_by_kind": self.faults_by_kind,
            "lies": self.lies,
            "messages_delivered": self.messages.delivered,
            "messages_lost": self.messages.lost,
            "messages_cut": self.messages.cut,
            "messages_repeated": self.messages.repeated,
            "txs_submitted": self.txs_submitted,
            "txs_acknowledged": self.txs_acknowledged,
            "equivocators_caught": self.slashed,
            "events": self.events,
            "virtual_s": round(self.virtual_s),
            "real_s": round(self.real_s),
            "signatures": "real",
            "violations": self.violations.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }

    /// One line for people.
    pub(crate) fn to_line(&self) -> String {
        let verdict = match self.violations.first() {
            None => "ok".to_owned(),
            Some(first) => format!("VIOLATION {first}"),
        };
        format!(
            "seed {:>4}: {} validators, byzantine {:?}, {} blocks ({} in the storm), {} faults, \
             {} of {} transactions acknowledged, {:.1} s simulated in {:.2} s: {verdict}",
            self.seed,
            self.seats,
            self.vices,
            self.blocks,
            self.blocks_in_storm,
            self.faults,
            self.txs_acknowledged,
            self.txs_submitted,
            self.virtual_s,
            self.real_s,
        )
    }
}

fn round(seconds: f64) -> f64 {
    (seconds * 1_000.0).round() / 1_000.0
}

/// The sum over many runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) seeds: usize,
    blocks: u64,
    blocks_min: Option<u64>,
    faults: u64,
    faults_min: Option<u64>,
    faults_by_kind: BTreeMap<&'static str, u64>,
    lies: u64,
    messages: Counts,
    txs_acknowledged: usize,
    slashed: usize,
    events: BTreeMap<&'static str, u64>,
    virtual_s: f64,
    cpu_s: f64,
    pub(crate) failed: Vec<(u64, Violation)>,
}

impl Summary {
    /// Adds a run.
    pub(crate) fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.blocks += report.blocks;
        self.blocks_min = Some(self.blocks_min.unwrap_or(u64::MAX).min(report.blocks));
        self.faults += report.faults;
        self.faults_min = Some(self.faults_min.unwrap_or(u64::MAX).min(report.faults));
        for (kind, count) in &report.faults_by_kind {
            *self.faults_by_kind.entry(kind).or_default() += count;
        }
        self.lies += report.lies;
        self.messages.delivered += report.messages.delivered;
        self.messages.lost += report.messages.lost;
        self.messages.cut += report.messages.cut;
        self.messages.repeated += report.messages.repeated;
        self.txs_acknowledged += report.txs_acknowledged;
        self.slashed += report.slashed;
        for (reason, count) in &report.events {
            *self.events.entry(reason).or_default() += count;
        }
        self.virtual_s += report.virtual_s;
        self.cpu_s += report.real_s;
        self.failed.extend(report.violations.iter().map(|found| (report.seed, found.clone())));
    }

    /// One object.
    pub(crate) fn to_json(&self, wall_s: f64) -> Value {
        json!({
            "seeds": self.seeds,
            "blocks": self.blocks,
            "blocks_min": self.blocks_min,
            "faults": self.faults,
            "faults_min": self.faults_min,
            "faults_by_kind": self.faults_by_kind,
            "lies": self.lies,
            "messages_delivered": self.messages.delivered,
            "messages_lost": self.messages.lost,
            "messages_cut": self.messages.cut,
            "messages_repeated": self.messages.repeated,
            "txs_acknowledged": self.txs_acknowledged,
            "equivocators_caught": self.slashed,
            "events": self.events,
            "virtual_s": round(self.virtual_s),
            "real_s": round(wall_s),
            "thread_s": round(self.cpu_s),
            "virtual_over_real": round(self.virtual_s / wall_s.max(0.001)),
            "signatures": "real",
            "violations": self.failed.iter()
                .map(|(seed, found)| format!("TG_SEED={seed} {found}")).collect::<Vec<_>>(),
        })
    }

    /// Some lines for people.
    pub(crate) fn to_text(&self, wall_s: f64) -> String {
        let mut text = format!(
            "{} seeds, {} blocks (at least {} per seed), {} transactions acknowledged, {} \
             equivocators caught; all signatures are real\n",
            self.seeds,
            self.blocks,
            self.blocks_min.unwrap_or(0),
            self.txs_acknowledged,
            self.slashed,
        );
        text.push_str(&format!(
            "{:.0} s simulated in {wall_s:.0} s: {:.1} times faster than real time\n",
            self.virtual_s,
            self.virtual_s / wall_s.max(0.001),
        ));
        let kinds: Vec<String> =
            self.faults_by_kind.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        text.push_str(&format!(
            "{} faults (at least {} per seed): {}\n",
            self.faults,
            self.faults_min.unwrap_or(0),
            kinds.join(", "),
        ));
        let count = |reason: Reason| self.events.get(reason.code()).copied().unwrap_or(0);
        text.push_str(&format!(
            "{} jobs queued, {} runs placed, {} results shown, {} jobs settled, {} failed; {} runs \
             missed, {} lost; {} nodes fined, {} slashed\n",
            count(Reason::JobQueued),
            count(Reason::JobPlaced),
            count(Reason::ResultRevealed),
            count(Reason::JobSettled),
            count(Reason::JobFailed),
            count(Reason::RunMissed),
            count(Reason::RunLost),
            count(Reason::NodeFined),
            count(Reason::NodeSlashed),
        ));
        text.push_str(&format!(
            "messages: {} delivered, {} lost, {} cut off, {} repeated; {} lies told\n",
            self.messages.delivered,
            self.messages.lost,
            self.messages.cut,
            self.messages.repeated,
            self.lies,
        ));
        for (seed, found) in &self.failed {
            text.push_str(&format!("VIOLATION TG_SEED={seed} {found}\n"));
            text.push_str(&format!("  again: tg-sim --seed {seed} --json\n"));
        }
        let count = self.failed.len();
        text.push_str(&format!("{count} violations"));
        text
    }
}
