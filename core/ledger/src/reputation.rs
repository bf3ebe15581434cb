//! Reputation: what is known of a node from work that was verified. Good and bad events weigh as
//! much as the job was worth and count half after thirty days. What is used is the lower bound of
//! what the node's true rate may be, so a newcomer is doubted and a long record is not ruined by
//! one mishap.

use tg_types::{Amount, Bps, DurationMs, Tick, wire};

/// After this time an event counts half.
pub const HALF_LIFE: DurationMs = DurationMs::new(30 * DurationMs::DAY.get());

/// The most that one event weighs, so that nobody buys a record with one large job.
const WEIGHT_MAX: u64 = 1_000_000_000_000;

/// What counts as one event when the spread is estimated: a typical small job.
const WEIGHT_UNIT: u64 = 1_000_000;

wire! {
    /// A node's record.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Reputation {
        /// Weight of what went well.
        pub good: u64,
        /// Weight of what did not.
        pub bad: u64,
        /// Up to when the weights are aged.
        pub at: Tick,
    }
}

impl Reputation {
    /// The record with one more event.
    #[must_use]
    pub(crate) fn with(self, is_good: bool, value: Amount, now: Tick) -> Self {
        let mut aged = self.aged(now);
        let weight = value.units().clamp(1, WEIGHT_MAX);
        let side = if is_good { &mut aged.good } else { &mut aged.bad };
        *side = side.saturating_add(weight);
        aged
    }

    /// The record as it counts now.
    #[must_use]
    pub fn aged(self, now: Tick) -> Self {
        let elapsed = now.since(self.at).unwrap_or_default().get();
        let halvings = u32::try_from(elapsed / HALF_LIFE.get()).unwrap_or(u32::MAX);
        let part = elapsed % HALF_LIFE.get();
        let age = |weight: u64| {
            let halved = weight.checked_shr(halvings).unwrap_or(0);
            // Between two halvings the weight falls in a straight line.
            let lost = u128::from(halved) * u128::from(part) / u128::from(2 * HALF_LIFE.get());
            halved - u64::try_from(lost).expect("less than half")
        };
        Self { good: age(self.good), bad: age(self.bad), at: now.max(self.at) }
    }

    /// The lower bound of the rate of good work: the mean of a Beta(good + 1, bad + 1) less 1.64
    /// times its spread, which 95 % of such rates exceed.
    pub fn lower_bound(self, now: Tick) -> Bps {
        let (mean, spread) = self.estimate(now);
        points(mean.saturating_sub(spread))
    }

    /// The upper bound of the rate of good work, which 95 % of such rates stay below. A newcomer's
    /// is high, so what is low was earned.
    pub fn upper_bound(self, now: Tick) -> Bps {
        let (mean, spread) = self.estimate(now);
        points(mean + spread)
    }

    /// The mean of the rate of good work and 1.64 times its spread, in basis points.
    fn estimate(self, now: Tick) -> (u128, u128) {
        let aged = self.aged(now);
        let count = |weight: u64| u128::from(weight / WEIGHT_UNIT) + 1;
        let (good, bad) = (count(aged.good), count(aged.bad));
        let all = good + bad;
        let whole = u128::from(Bps::WHOLE.points());
        let mean = good * whole / all;
        // The variance is good * bad / (all^2 * (all + 1)).
        let spread = (good * bad * whole * whole / (all * all * (all + 1))).isqrt();
        (mean, spread * 164 / 100)
    }
}

/// A rate of so many basis points, or the whole if these are more.
fn points(rate: u128) -> Bps {
    u16::try_from(rate).ok().and_then(|rate| Bps::new(rate).ok()).unwrap_or(Bps::WHOLE)
}

#[cfg(test)]
mod tests {
    use super::{HALF_LIFE, Reputation};
    use tg_types::{Amount, Tick};

    const VALUE: Amount = Amount::constant(1_000_000);

    #[test]
    fn bound_rises_with_good_work_and_falls_with_bad() {
        let now = Tick::new(1_000);
        let after = |good: u32, bad: u32| {
            let mut record = Reputation::default();
            for _ in 0..good {
                record = record.with(true, VALUE, now);
            }
            for _ in 0..bad {
                record = record.with(false, VALUE, now);
            }
            record.lower_bound(now).points()
        };
        assert!(after(0, 0) < after(1, 0) && after(1, 0) < after(10, 0));
        assert!(after(10, 0) < after(100, 0) && after(100, 0) < 10_000);
        assert!(after(100, 1) < after(100, 0) && after(100, 10) < after(100, 1));
        assert!(after(100, 1) > after(3, 0));
        assert_eq!(after(0, 1_000), 0);
    }

    #[test]
    fn upper_bound_is_low_only_after_failures() {
        let now = Tick::new(1_000);
        let upper = |good: u64, bad: u64| {
            let [good, bad] = [good, bad].map(|count| count * VALUE.units());
            Reputation { good, bad, at: now }.upper_bound(now).points()
        };
        assert!(upper(0, 0) > 9_000 && upper(10, 0) == 10_000);
        assert!(upper(0, 1) > 5_000 && upper(0, 3) < 5_000 && upper(0, 1_000) < 100);
        assert!(upper(20, 20) > 5_000 && upper(20, 60) < 5_000);
        let record = Reputation { good: 9 * VALUE.units(), bad: VALUE.units(), at: now };
        assert!(record.lower_bound(now) < record.upper_bound(now));
    }

    #[test]
    fn weights_halve_with_each_half_life() {
        let record = Reputation { good: 1_000, bad: 64, at: Tick::ZERO };
        let aged = |times: u64, part: u64| {
            let record = record.aged(Tick::new(times * HALF_LIFE.get() + part));
            (record.good, record.bad)
        };
        assert_eq!(aged(0, 0), (1_000, 64));
        assert_eq!(aged(1, 0), (500, 32));
        assert_eq!(aged(3, 0), (125, 8));
        assert_eq!(aged(0, HALF_LIFE.get() / 2), (750, 48));
        assert_eq!(aged(500, 0), (0, 0));
    }
}
