//! Latencies counted in buckets, so that millions of them take no memory and none is left out.

use std::time::Duration;

/// Buckets per doubling: a quantile is at most 3 % too high.
const STEPS: u64 = 32;

/// Doublings covered: from a microsecond to more than an hour.
const DOUBLINGS: u64 = 32;

/// How often which latency was seen.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = usize::try_from(STEPS * DOUBLINGS).expect("a thousand");
        Self { buckets: vec![0; buckets], count: 0 }
    }
}

impl Histogram {
    /// Counts a latency.
    pub(crate) fn add(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let place = usize::try_from(bucket(micros)).unwrap_or(usize::MAX);
        let last = self.buckets.len().saturating_sub(1);
        if let Some(bucket) = self.buckets.get_mut(place.min(last)) {
            *bucket += 1;
            self.count += 1;
        }
    }

    /// The latency that `percent` of all do not exceed, in milliseconds; `None` without any.
    #[must_use]
    pub(crate) fn quantile_ms(&self, percent: u64) -> Option<f64> {
        let wanted = self.count.saturating_mul(percent).div_ceil(100).max(1);
        let mut seen = 0;
        let place = self.buckets.iter().position(|bucket| {
            seen += bucket;
            seen >= wanted
        })?;
        let micros = upper_bound(u64::try_from(place).unwrap_or(u64::MAX));
        #[expect(clippy::cast_precision_loss, reason = "a display; buckets are coarser than f64")]
        Some(micros as f64 / 1_000.0)
    }
}

/// The bucket of a number of microseconds: exact below [`STEPS`], then [`STEPS`] per doubling.
fn bucket(micros: u64) -> u64 {
    if micros < STEPS {
        return micros;
    }
    let doubling = u64::from(micros.ilog2() - STEPS.ilog2());
    STEPS + doubling * STEPS + ((micros >> doubling) - STEPS)
}

/// The largest number of microseconds in a bucket.
fn upper_bound(bucket: u64) -> u64 {
    if bucket < STEPS {
        return bucket;
    }
    let (doubling, step) = ((bucket - STEPS) / STEPS, (bucket - STEPS) % STEPS);
    ((STEPS + step + 1) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::{Histogram, bucket, upper_bound};
    use std::time::Duration;

    #[test]
    fn bucket_holds_what_it_says() {
        let mut last = 0;
        for micros in (0..100_000).chain((1..40).map(|power| (1u64 << (power % 31)) + 7)) {
            let place = bucket(micros);
            assert!(micros <= upper_bound(place), "{micros}");
            assert!(place == 0 || micros > upper_bound(place - 1), "{micros}");
            last = last.max(place);
        }
        assert!(last < 32 * 32);
    }

    #[test]
    fn quantile_is_right_within_a_bucket() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_ms(50), None);
        for ms in 1..=100 {
            histogram.add(Duration::from_millis(ms));
        }
        let (p50, p99) = (histogram.quantile_ms(50), histogram.quantile_ms(99));
        assert!(p50.is_some_and(|p50| (50.0..51.6).contains(&p50)), "{p50:?}");
        assert!(p99.is_some_and(|p99| (99.0..102.1).contains(&p99)), "{p99:?}");
        histogram.add(Duration::from_secs(1 << 20));
        assert_eq!(histogram.count, 101);
    }
}
