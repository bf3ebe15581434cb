//! What is counted: results, lies, faults, and who earned what with what.

use super::plan::{COST_PERCENT, PAY};
use super::tensor::TILES;
use super::trigger::Trigger;
use std::collections::BTreeMap;

/// In which role money was earned or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// Runs.
    Run,
    /// Checks.
    Check,
    /// Objections.
    Challenge,
}

impl Role {
    /// The name in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Check => "check",
            Self::Challenge => "challenge",
        }
    }
}

/// What everybody who did the same earned together, without fees of transactions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    /// How often it was done.
    pub(super) count: u64,
    /// What the ledger gave and took, in base units.
    pub(super) income: i128,
    /// What computing cost, in base units.
    pub(super) cost: i128,
}

impl Line {
    /// What was earned each time, in multiples of a run's pay.
    pub(super) fn net(&self) -> f64 {
        let each = (self.income - self.cost) as f64 / self.count.max(1) as f64;
        each / PAY.units() as f64
    }

    /// From which share of the pay on, that computing a whole run costs, these runs earn more than
    /// honest ones; `None` if nothing was saved.
    pub(super) fn break_even(&self) -> Option<f64> {
        let pay = PAY.units() as f64 * self.count as f64;
        let saved = 1.0 - self.cost as f64 / (pay * COST_PERCENT as f64 / 100.0);
        (saved > 1e-9).then(|| (1.0 - self.income as f64 / pay) / saved)
    }

    /// Below which share of the pay, that computing a whole run costs, this earns more each time
    /// than something else that takes less computing; `None` if it takes no more.
    pub(super) fn pays_below(&self, other: &Self) -> Option<f64> {
        let each = |sum: i128, line: &Self| sum as f64 / line.count as f64 / PAY.units() as f64;
        let runs = |line: &Self| each(line.cost, line) * 100.0 / COST_PERCENT as f64;
        let (income, computed) =
            (each(self.income, self) - each(other.income, other), runs(self) - runs(other));
        (computed > 1e-9).then(|| income / computed)
    }

    /// Adds what others earned.
    pub(super) fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.income += other.income;
        self.cost += other.cost;
    }
}

/// What computing so many tiles costs.
pub(super) fn cost_of(tiles: u32) -> i128 {
    let whole = i128::from(PAY.units()) * COST_PERCENT / 100;
    whole * i128::from(tiles) / i128::from(TILES)
}

/// What is counted in one run, or in many.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) jobs: u64,
    pub(super) settled: u64,
    pub(super) failed: u64,
    pub(super) expired: u64,
    pub(super) blocks: u64,
    /// For every lie that was committed to, how likely it is to be accepted, by the ploy.
    pub(super) lies: BTreeMap<&'static str, Vec<f64>>,
    /// How many of them were accepted.
    pub(super) lies_accepted: u64,
    pub(super) disputes: u64,
    /// Claims that were picked in all disputes.
    pub(super) picks: u64,
    /// Disputes that honest challengers won, and what their transactions cost in base units.
    pub(super) won: u64,
    pub(super) won_fees: u64,
    pub(super) honest_slashed: u64,
    pub(super) honest_fined: u64,
    /// Bonds that honest checkers lost on objections.
    pub(super) honest_bonds_lost: u64,
    /// Transactions that were refused, by why.
    pub(super) refused: BTreeMap<String, u64>,
    pub(super) lines: BTreeMap<(Role, &'static str), Line>,
    /// How often what scenarios are there for has happened.
    pub(super) fired: BTreeMap<Trigger, u64>,
}

impl Tally {
    /// Something happened that a scenario is there for.
    pub(super) fn fire(&mut self, trigger: Trigger) {
        *self.fired.entry(trigger).or_default() += 1;
    }

    /// How likely every lie is to be accepted.
    pub(super) fn all_lies(&self) -> Vec<f64> {
        self.lies.values().flatten().copied().collect()
    }

    /// The line of those who did something in a role.
    pub(super) fn line(&mut self, role: Role, name: &'static str) -> &mut Line {
        self.lines.entry((role, name)).or_default()
    }

    /// Adds another run.
    pub(super) fn add(&mut self, other: &Self) {
        self.jobs += other.jobs;
        self.settled += other.settled;
        self.failed += other.failed;
        self.expired += other.expired;
        self.blocks += other.blocks;
        for (ploy, lies) in &other.lies {
            self.lies.entry(ploy).or_default().extend_from_slice(lies);
        }
        self.lies_accepted += other.lies_accepted;
        self.disputes += other.disputes;
        self.picks += other.picks;
        self.won += other.won;
        self.won_fees += other.won_fees;
        self.honest_slashed += other.honest_slashed;
        self.honest_fined += other.honest_fined;
        self.honest_bonds_lost += other.honest_bonds_lost;
        for (why, count) in &other.refused {
            *self.refused.entry(why.clone()).or_default() += count;
        }
        for ((role, name), line) in &other.lines {
            self.line(*role, name).add(line);
        }
        for (trigger, count) in &other.fired {
            *self.fired.entry(*trigger).or_default() += count;
        }
    }
}
