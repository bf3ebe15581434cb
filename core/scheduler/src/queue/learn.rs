//! What settled jobs have taught: how long work takes where, and which machines fail.
//!
//! A client's estimate is a claim. What is learned is the ratio of the true time to it, as counts
//! over half octaves, for each kind of program, pool and size, and for coarser kinds until enough
//! was seen of the finer one. From the counts come the time that is still to be expected of a job
//! that has run for a while, the chance that it ends in a given time, and its rank: the least of
//! what it costs to go on for some time over the chance that it ends in that time (Gittins). With
//! one certain outcome the rank is the remaining time.

use super::kept::Kept;
use crate::logarithm::{ONE, log2, times_power};

/// Half octaves between 1/64 and 64 times the estimate.
const BINS: usize = 25;
/// The bin of estimates that were right.
const MIDDLE: i64 = 12;
/// From so many settled jobs on a kind speaks for itself.
const ENOUGH: u32 = 24;
/// At so many all counts of a kind are halved: what was long ago counts less.
const FULL: u32 = 1_024;
/// Kinds that are kept apart; further ones count as the coarser kind only. About 3 MB.
const KINDS_MAX: usize = 8_192;
/// A job that should have ended long ago is expected to take this share of its time again.
const OVERDUE_DIVISOR: u64 = 2;
/// Chances are in this fraction of one.
pub(crate) const CERTAIN: u64 = 1_024;
/// Hints are weighed in this many parts.
const WEIGHTS: i64 = 1_024;
/// Of runs of a machine, so many are remembered; then all counts are halved.
const RUNS_FULL: u32 = 256;

/// What is alike in jobs whose times are learned together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    /// The kind of program.
    pub(crate) program: u32,
    /// The pool of devices.
    pub(crate) pool: u16,
    /// The octave of the estimate.
    pub(crate) size: u8,
}

/// A kind or a coarser one: what is `None` may be anything.
type Cell = (Option<u32>, Option<u16>, Option<u8>);

impl Kind {
    /// A kind of a job by its estimate.
    pub(crate) fn new(program: u32, pool: u16, estimate: u64) -> Self {
        Self { program, pool, size: estimate.max(1).ilog2() as u8 }
    }

    /// From fine to coarse.
    fn cells(self) -> [Cell; 5] {
        let Self { program, pool, size } = self;
        [
            (Some(program), Some(pool), Some(size)),
            (Some(program), Some(pool), None),
            (Some(program), None, None),
            (None, Some(pool), Some(size)),
            (None, None, Some(size)),
        ]
    }
}

/// How often the true time was which multiple of the estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bin {
    count: u32,
    /// Sum of the logarithms.
    octaves: i64,
    /// The least and the most that was seen.
    least: i64,
    most: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Counts {
    bins: [Bin; BINS],
    total: u32,
}

/// What is to be expected of a job that has run for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outlook {
    /// The mean of what remains, in milliseconds.
    pub(crate) mean: u64,
    /// The chance that it ends in the time that was asked about, in [`CERTAIN`].
    pub(crate) chance: u64,
    /// The rank: small ones first.
    pub(crate) rank: u64,
}

/// What is asked about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// How long it is said to run.
    pub(crate) estimate: u64,
    /// What it has run.
    pub(crate) elapsed: u64,
    /// The time in which it should end.
    pub(crate) within: u64,
}

/// What a client says of a job's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hints {
    /// The estimate.
    pub(crate) estimate: u64,
    /// The time until the deadline, if there is one: who knows that a job takes long gives it time.
    pub(crate) window: Option<u64>,
}

/// How well a hint tells the time that jobs take: logarithms of the ratio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moments {
    count: i64,
    sum: i64,
    /// Sum of squares, in 1/256 octaves.
    squares: i64,
}

impl Moments {
    fn add(&mut self, octaves: i64) {
        if self.count >= i64::from(FULL) {
            (self.count, self.sum, self.squares) = (self.count / 2, self.sum / 2, self.squares / 2);
        }
        self.count += 1;
        self.sum += octaves;
        self.squares += (octaves >> 8) * (octaves >> 8);
    }

    /// Mean and variance; `None` if not enough was seen.
    fn summary(&self) -> Option<(i64, i64)> {
        if self.count < i64::from(ENOUGH) {
            return None;
        }
        let mean = self.sum / self.count;
        let square = (mean >> 8) * (mean >> 8);
        Some((mean, (self.squares / self.count - square).max(0)))
    }
}

/// Runs of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Runs {
    kept: u32,
    failed: u32,
}

/// What settled jobs have taught.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Learned {
    cells: Kept<Cell, Counts>,
    runs: Kept<u32, Runs>,
    /// The estimate, the window, the estimate from both.
    hints: Kept<u8, Moments>,
}

/// Where the logs stand.
pub(crate) type Mark = [usize; 3];

impl Learned {
    /// A job of this kind has settled after a true time.
    pub(crate) fn settled(&mut self, kind: Kind, estimate: u64, took: u64) {
        let octaves = log2(took.max(1)) - log2(estimate.max(1));
        let octaves = octaves.clamp(-(MIDDLE * ONE / 2), MIDDLE * ONE / 2);
        let place = (octaves + ONE / 4).div_euclid(ONE / 2) + MIDDLE;
        let place = usize::try_from(place).unwrap_or(0).min(BINS - 1);
        for cell in kind.cells() {
            if self.cells.get(&cell).is_none() {
                if self.cells.len() >= KINDS_MAX {
                    continue;
                }
                let empty = Counts { bins: [Bin::default(); BINS], total: 0 };
                self.cells.insert(cell, empty);
            }
            self.cells.change(&cell, |counts| counts.add(place, octaves));
        }
    }

    /// Settled jobs also teach what hints are worth.
    pub(crate) fn compare(&mut self, hints: Hints, estimate: u64, took: u64) {
        let hints = [Some(hints.estimate), hints.window, Some(estimate)];
        for (place, hint) in (0..).zip(hints) {
            let Some(hint) = hint else { continue };
            let mut moments = self.hints.get(&place).copied().unwrap_or_default();
            moments.add((log2(took) - log2(hint)).clamp(-16 * ONE, 16 * ONE));
            self.hints.insert(place, moments);
        }
    }

    /// How much the ratio of the true time to the estimate from all hints scatters: the variance,
    /// in 1/65,536 of a square octave.
    pub(crate) fn scatter(&self) -> i64 {
        self.hints.get(&2).and_then(Moments::summary).map_or(0, |(_, scatter)| scatter)
    }

    /// One estimate from all hints, each weighed by how little it has scattered.
    pub(crate) fn estimate(&self, hints: Hints) -> u64 {
        let summary = |place: u8| self.hints.get(&place).and_then(Moments::summary);
        let (Some((_, noise)), Some((shift, scatter)), Some(window)) =
            (summary(0), summary(1), hints.window)
        else {
            return hints.estimate;
        };
        let weight = WEIGHTS * noise / (noise + scatter).max(1);
        let by_window = log2(window) + shift - log2(hints.estimate);
        times_power(hints.estimate, by_window * weight / WEIGHTS).clamp(1, window)
    }

    /// What to expect of a job that has run for a time.
    pub(crate) fn outlook(&self, kind: Kind, question: Question) -> Outlook {
        let enough = |cell: &Cell| self.cells.get(cell).filter(|counts| counts.total >= ENOUGH);
        match kind.cells().iter().find_map(enough) {
            Some(counts) => counts.outlook(question),
            None => claimed(question),
        }
    }

    /// A run on a machine has ended.
    pub(crate) fn ran(&mut self, node: u32, has_failed: bool) {
        let mut runs = self.runs.get(&node).copied().unwrap_or_default();
        if has_failed {
            runs.failed += 1;
        } else {
            runs.kept += 1;
        }
        if runs.failed + runs.kept >= RUNS_FULL {
            runs = Runs { kept: runs.kept / 2, failed: runs.failed / 2 };
        }
        self.runs.insert(node, runs);
    }

    /// How much a machine is doubted, from 0: octaves of the odds that it fails, above one in 64.
    pub(crate) fn doubt(&self, node: u32) -> u8 {
        let runs = self.runs.get(&node).copied().unwrap_or_default();
        // One failure in 64 runs is expected of a machine of which nothing is known.
        let odds = u64::from(runs.failed * 64 + 64) * 64 / (u64::from(runs.kept * 64) + 4_096);
        odds.max(1).ilog2().min(15) as u8
    }

    /// Where the logs stand.
    pub(crate) fn mark(&self) -> Mark {
        [self.cells.mark(), self.runs.mark(), self.hints.mark()]
    }

    /// Back to a mark.
    pub(crate) fn undo(&mut self, [cells, runs, hints]: Mark) {
        self.cells.undo(cells);
        self.runs.undo(runs);
        self.hints.undo(hints);
    }

    /// Nothing before now is undone.
    pub(crate) fn settle(&mut self) {
        self.cells.settle();
        self.runs.settle();
        self.hints.settle();
    }
}

/// What to expect when only the claim is known.
pub(crate) fn claimed(Question { estimate, elapsed, within }: Question) -> Outlook {
    let due = estimate.saturating_sub(elapsed);
    let left = if due == 0 { elapsed / OVERDUE_DIVISOR } else { due }.max(1);
    let chance = if within > 0 && due <= within { CERTAIN } else { 0 };
    Outlook { mean: left, chance, rank: left }
}

impl Counts {
    fn add(&mut self, place: usize, octaves: i64) {
        if self.total >= FULL {
            self.total = 0;
            for bin in &mut self.bins {
                // An odd one stays, so that rare outcomes are not forgotten at once.
                let count = bin.count.div_ceil(2);
                bin.octaves = bin.octaves * i64::from(count) / i64::from(bin.count.max(1));
                bin.count = count;
                self.total += count;
            }
        }
        let Some(bin) = self.bins.get_mut(place) else { return };
        let is_first = bin.count == 0;
        bin.least = if is_first { octaves } else { bin.least.min(octaves) };
        bin.most = if is_first { octaves } else { bin.most.max(octaves) };
        bin.count += 1;
        bin.octaves += octaves;
        self.total += 1;
    }

    fn outlook(&self, question: Question) -> Outlook {
        let Question { estimate, elapsed, within } = question;
        let mut left = [(0_u64, 0_u64, 0_u64); BINS];
        let (mut count, mut sum, mut used) = (0_u64, 0_u128, 0);
        let time = |octaves: i64| times_power(estimate.max(1), octaves);
        for bin in self.bins.iter().filter(|bin| bin.count > 0) {
            let latest = time(bin.most).saturating_sub(elapsed);
            if latest == 0 {
                continue;
            }
            // Of a bin that has begun, what is left of it lies between now and its end.
            let mean = time(bin.octaves / i64::from(bin.count)).saturating_sub(elapsed);
            let more = if mean == 0 { latest.div_ceil(2) } else { mean };
            let soonest = time(bin.least).saturating_sub(elapsed);
            left[used] = (more, u64::from(bin.count), soonest);
            used += 1;
            count += u64::from(bin.count);
            sum += u128::from(more) * u128::from(bin.count);
        }
        if count == 0 {
            return claimed(Question { estimate: 0, ..question });
        }
        let mean = u64::try_from(sum / u128::from(count)).unwrap_or(u64::MAX);
        let (mut rank, mut in_time) = (u64::MAX, 0_u64);
        let (mut ended, mut spent) = (0_u64, 0_u128);
        for (more, here, soonest) in &left[..used] {
            ended += here;
            spent += u128::from(*more) * u128::from(*here);
            let others = u128::from(*more) * u128::from(count - ended);
            let cost = (spent + others) / u128::from(ended);
            rank = rank.min(u64::try_from(cost).unwrap_or(u64::MAX));
            // Twice, so that of a bin on both sides of the limit half of the jobs count.
            in_time += here * (u64::from(*more <= within) + u64::from(*soonest < within));
        }
        let chance = CERTAIN * in_time / (2 * count);
        Outlook { mean: mean.max(1), chance, rank: rank.max(1) }
    }
}
