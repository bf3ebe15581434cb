//! What ought to happen: exact probabilities of the draw, and how far what happened lies from them.
//!
//! All owners have the same stake, so a draw by stake without replacement is hypergeometric.

/// The probabilities that 0, 1, … of `count` drawn checkers are honest.
pub(super) fn honest_drawn(count: u8, honest: usize, dishonest: usize) -> Vec<f64> {
    let count = usize::from(count).min(honest + dishonest);
    let mut chances = vec![1.0];
    for drawn in 0..count {
        let mut next = vec![0.0; chances.len() + 1];
        for (found, chance) in chances.iter().enumerate() {
            let left = (honest + dishonest - drawn) as f64;
            let honest_left = honest.saturating_sub(found) as f64;
            let share = honest_left / left;
            next[found + 1] += chance * share;
            next[found] += chance * (1.0 - share);
        }
        chances = next;
    }
    chances
}

/// The probability that none of the drawn checkers notices, if each honest one notices with
/// `detection` and no other does.
pub(super) fn unnoticed(count: u8, honest: usize, dishonest: usize, detection: f64) -> f64 {
    let chances = honest_drawn(count, honest, dishonest);
    (0..).zip(chances).map(|(found, chance)| chance * (1.0 - detection).powi(found)).sum()
}

/// The probability that a wrong tile is drawn, if wrong tiles are this share of the whole cost.
/// Every draw is by cost and with replacement, so they are independent.
pub(super) fn sampled(share: f64, draws: u8) -> f64 {
    1.0 - (1.0 - share).powi(draws.into())
}

/// What decides how likely a lie is to be accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Odds {
    /// The share of results that is drawn.
    pub(super) drawn: f64,
    /// How many checkers are drawn for one.
    pub(super) checkers: u8,
    /// How likely an honest checker is to notice.
    pub(super) detection: f64,
    /// Owners that may be drawn.
    pub(super) honest: usize,
    pub(super) dishonest: usize,
}

impl Odds {
    /// The probability that a lie is accepted, if every dishonest checker accepts it and every
    /// honest one that notices objects and wins.
    pub(super) fn accepted(&self) -> f64 {
        let Self { drawn, checkers, detection, honest, dishonest } = *self;
        1.0 - drawn * (1.0 - unnoticed(checkers, honest, dishonest, detection))
    }
}

/// The probability of at least `seen` successes in independent trials with these probabilities,
/// exactly: the trials are added one by one.
pub(super) fn tail(trials: &[f64], seen: usize) -> f64 {
    if seen == 0 {
        return 1.0;
    }
    // What is at `seen` or above is never needed in detail.
    let mut below = vec![0.0; seen];
    below[0] = 1.0;
    let mut above = 0.0;
    for chance in trials {
        above += below[seen - 1] * chance;
        for count in (1..seen).rev() {
            below[count] = below[count] * (1.0 - chance) + below[count - 1] * chance;
        }
        below[0] *= 1.0 - chance;
    }
    above
}

/// The variance of the number of successes.
pub(super) fn variance(trials: &[f64]) -> f64 {
    trials.iter().map(|chance| chance * (1.0 - chance)).sum()
}

/// How many standard deviations a count lies from its mean; 0 if nothing could vary.
pub(super) fn sigma(trials: &[f64], seen: usize) -> f64 {
    let mean: f64 = trials.iter().sum();
    let (variance, off) = (variance(trials), seen as f64 - mean);
    if variance > f64::EPSILON {
        return off / variance.sqrt();
    }
    if off.abs() < 0.5 { 0.0 } else { f64::INFINITY.copysign(off) }
}

#[cfg(test)]
mod tests {
    use super::{Odds, honest_drawn, sampled, sigma, tail, unnoticed};

    fn check(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} instead of {expected}");
    }

    #[test]
    fn draws_are_hypergeometric() {
        // Two of five, three of which are honest: C(2,2), C(3,1)*C(2,1) and C(3,2) of C(5,2).
        for (found, expected) in honest_drawn(2, 3, 2).into_iter().zip([0.1, 0.6, 0.3]) {
            check(found, expected);
        }
        // Seven of 29 with 8 dishonest: C(8,7) of C(29,7).
        check(unnoticed(7, 21, 8, 1.0), 8.0 / 1_560_780.0);
        check(unnoticed(7, 24, 5, 1.0), 0.0);
        check(unnoticed(7, 21, 8, 0.0), 1.0);
    }

    #[test]
    fn samples_find_what_they_touch() {
        check(sampled(0.1, 1), 0.1);
        check(sampled(0.5, 2), 0.75);
        check(sampled(1.0, 1), 1.0);
        check(sampled(0.0, 40), 0.0);
    }

    #[test]
    fn lies_are_accepted_unless_drawn_and_noticed() {
        let odds = Odds { drawn: 0.1, checkers: 2, detection: 1.0, honest: 3, dishonest: 2 };
        check(odds.accepted(), 1.0 - 0.1 * 0.9);
    }

    #[test]
    fn tails_add_up_to_the_binomial() {
        check(tail(&[0.5; 3], 0), 1.0);
        check(tail(&[0.5; 3], 2), 0.5);
        check(tail(&[0.5; 3], 3), 0.125);
        check(tail(&[0.5; 3], 4), 0.0);
        check(tail(&[0.1, 0.2], 1), 1.0 - 0.9 * 0.8);
        check(tail(&[0.0; 9], 1), 0.0);
    }

    #[test]
    fn sigma_counts_standard_deviations() {
        check(sigma(&[0.5; 100], 60), 2.0);
        check(sigma(&[0.0; 5], 0), 0.0);
        assert_eq!(sigma(&[0.0; 5], 1), f64::INFINITY);
    }
}
