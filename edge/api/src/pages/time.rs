//! Times and spans for people. The ledger's time is UTC, and so is the page's.

use tg_types::Tick;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// A moment, as the calendar and the clock show it.
pub(crate) struct Moment {
    /// Such as "2026-11-16".
    pub(super) date: String,
    /// Such as "11:14:03".
    pub(super) time: String,
}

impl Moment {
    /// The moment of a tick.
    pub(crate) fn new(tick: Tick) -> Self {
        let (days, ms) = (tick.get() / DAY_MS, tick.get() % DAY_MS);
        let seconds = ms / 1_000;
        let (year, month, day) = civil(days);
        Self {
            date: format!("{year:04}-{month:02}-{day:02}"),
            time: format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60),
        }
    }

    /// For programs: RFC 3339.
    pub(crate) fn machine(&self) -> String {
        format!("{}T{}Z", self.date, self.time)
    }
}

/// Year, month and day of a day since the Unix epoch. Howard Hinnant, "chrono-compatible low-level
/// date algorithms": years begin in March, so that the leap day is the last.
const fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// A span: as exact as it matters.
pub(super) fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms / 1_000 % 60),
        3_600_000..DAY_MS => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
        DAY_MS.. => format!("{} d {} h", ms / DAY_MS, ms / 3_600_000 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::{Moment, span};
    use tg_types::Tick;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (1_794_827_643, "2026-11-16T11:14:03Z"),
        ] {
            assert_eq!(Moment::new(Tick::new(seconds * 1_000)).machine(), expected);
        }
        let last = Moment::new(Tick::new(u64::MAX));
        assert!(last.machine().ends_with('Z'), "no time is too late");
    }

    #[test]
    fn spans_are_as_exact_as_it_matters() {
        for (ms, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_250, "1.2 s"),
            (61_000, "1 min 1 s"),
            (3_660_000, "1 h 1 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(span(ms), expected);
        }
    }
}
