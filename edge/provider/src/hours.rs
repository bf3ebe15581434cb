//! When a machine may be used: `22-08`, or `mon-fri 18:30-07:00, sat-sun 00-24`.
//!
//! Separate and pure: the moment is an argument. A span that ends before it begins runs over
//! midnight and belongs to the day on which it begins, so `fri 22-08` ends on Saturday.

mod zone;

pub use zone::{Zone, ZoneError};

use std::fmt;
use std::str::FromStr;

const MINUTES_PER_HOUR: u16 = 60;
const MINUTES_PER_DAY: u16 = 24 * MINUTES_PER_HOUR;
const MINUTES_PER_WEEK: u16 = 7 * MINUTES_PER_DAY;
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// The most rules of one list; a week hardly has more times worth naming.
const RULES_MAX: usize = 64;

/// A minute of the week, counted from Monday's first. Always local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WeekMinute(u16);

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weekday {
    /// Monday.
    Monday,
    /// Tuesday.
    Tuesday,
    /// Wednesday.
    Wednesday,
    /// Thursday.
    Thursday,
    /// Friday.
    Friday,
    /// Saturday.
    Saturday,
    /// Sunday.
    Sunday,
}

impl WeekMinute {
    /// A minute of a day, if the day has it.
    #[must_use]
    pub const fn new(day: Weekday, minute: u16) -> Option<Self> {
        if minute >= MINUTES_PER_DAY {
            return None;
        }
        Some(Self(day as u16 * MINUTES_PER_DAY + minute))
    }

    /// The minute in which a moment lies, given as seconds since the Unix epoch in local time: the
    /// offset of the zone is already added.
    #[must_use]
    pub fn of_local_seconds(seconds: i64) -> Self {
        // The epoch was a Thursday.
        let thursday = i64::from(3 * MINUTES_PER_DAY);
        let minute = (seconds.div_euclid(60) + thursday).rem_euclid(MINUTES_PER_WEEK.into());
        Self(u16::try_from(minute).expect("the rest is less than a week"))
    }

    fn plus(self, minutes: u16) -> Self {
        Self((self.0 + minutes) % MINUTES_PER_WEEK)
    }
}

/// Times of the week: spans that neither touch nor overlap, in order, the end not included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hours {
    spans: Vec<Span>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    start: u16,
    /// At most the end of the week; a span over it is two.
    end: u16,
}

/// Why a list of hours is refused. Positions are bytes from its beginning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HoursError {
    /// A rule is not `22-08` or `mon-fri 18:30-07:00`.
    #[error("rule {rule:?} at {at} is not like 22-08 or mon-fri 18:30-07:00")]
    Form {
        /// Where it begins.
        at: usize,
        /// What was found.
        rule: String,
    },
    /// There is no such day.
    #[error("{found:?} is not a day: mon, tue, wed, thu, fri, sat, sun")]
    Day {
        /// What was found.
        found: String,
    },
    /// There is no such time.
    #[error("{found:?} is not a time from 00:00 to 24:00")]
    Time {
        /// What was found.
        found: String,
    },
    /// The span has no length.
    #[error("{rule:?} begins when it ends; write 00-24 for the whole day")]
    Empty {
        /// The rule.
        rule: String,
    },
    /// A rule without days stands behind one with days, so that it is not clear which it means.
    #[error("{rule:?} stands behind a rule with days; say which days it means (mon-sun for all)")]
    DaysMissing {
        /// The rule.
        rule: String,
    },
    /// There are too many rules.
    #[error("{found} rules, at most {RULES_MAX}")]
    TooMany {
        /// How many.
        found: usize,
    },
}

impl Hours {
    /// All the time.
    #[must_use]
    pub fn always() -> Self {
        Self { spans: vec![Span { start: 0, end: MINUTES_PER_WEEK }] }
    }

    /// Whether the machine may be used in this minute.
    #[must_use]
    pub fn is_open(&self, now: WeekMinute) -> bool {
        self.spans.iter().any(|span| (span.start..span.end).contains(&now.0))
    }

    /// Minutes from the beginning of this one until [`Hours::is_open`] gives the other answer;
    /// `None` if it never does.
    #[must_use]
    pub fn until_change(&self, now: WeekMinute) -> Option<u16> {
        let is_open = self.is_open(now);
        let edges = self.spans.iter().flat_map(|span| [span.start, span.end]);
        let ahead = edges.map(|edge| {
            let minutes = (edge + MINUTES_PER_WEEK - now.0) % MINUTES_PER_WEEK;
            if minutes == 0 { MINUTES_PER_WEEK } else { minutes }
        });
        // The end of the week is an edge of two spans that belong together, and no change.
        ahead.filter(|minutes| self.is_open(now.plus(*minutes)) != is_open).min()
    }

    fn of_spans(mut spans: Vec<Span>) -> Self {
        spans.sort_unstable();
        let mut merged: Vec<Span> = Vec::new();
        for span in spans {
            match merged.last_mut() {
                Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
                Some(_) | None => merged.push(span),
            }
        }
        Self { spans: merged }
    }
}

impl FromStr for Hours {
    type Err = HoursError;

    fn from_str(text: &str) -> Result<Self, HoursError> {
        let found = text.split(',').count();
        if found > RULES_MAX {
            return Err(HoursError::TooMany { found });
        }
        let mut spans = Vec::new();
        let mut had_days = false;
        let mut at = 0;
        for rule in text.split(',') {
            let parsed = Rule::parse(rule.trim(), at)?;
            if had_days && parsed.days.is_none() {
                return Err(HoursError::DaysMissing { rule: rule.trim().to_owned() });
            }
            had_days |= parsed.days.is_some();
            parsed.spans(&mut spans);
            at += rule.len() + 1;
        }
        Ok(Self::of_spans(spans))
    }
}

/// One rule, read but not yet laid out over the week.
struct Rule {
    /// First and last day; the first may be behind the last.
    days: Option<[u16; 2]>,
    start: u16,
    end: u16,
}

impl Rule {
    fn parse(rule: &str, at: usize) -> Result<Self, HoursError> {
        let form = || HoursError::Form { at, rule: rule.to_owned() };
        let words: Vec<&str> = rule.split_whitespace().collect();
        let (days, span) = match words.as_slice() {
            [span] => (None, *span),
            [days, span] => (Some(*days), *span),
            _ => return Err(form()),
        };
        let days = days.map(parse_days).transpose()?;
        let (start, end) = span.split_once('-').ok_or_else(form)?;
        let (start, end) = (parse_time(start)?, parse_time(end)?);
        if start == end {
            return Err(HoursError::Empty { rule: rule.to_owned() });
        }
        if start == MINUTES_PER_DAY {
            return Err(HoursError::Time { found: "24 as a beginning".to_owned() });
        }
        Ok(Self { days, start, end })
    }

    fn spans(&self, spans: &mut Vec<Span>) {
        let [first, last] = self.days.unwrap_or([0, 6]);
        let count = (last + 7 - first) % 7 + 1;
        let length = match self.end > self.start {
            true => self.end - self.start,
            false => MINUTES_PER_DAY - self.start + self.end,
        };
        for day in (first..first + count).map(|day| day % 7) {
            let start = day * MINUTES_PER_DAY + self.start;
            let end = start + length;
            spans.push(Span { start, end: end.min(MINUTES_PER_WEEK) });
            if end > MINUTES_PER_WEEK {
                spans.push(Span { start: 0, end: end - MINUTES_PER_WEEK });
            }
        }
    }
}

fn parse_days(text: &str) -> Result<[u16; 2], HoursError> {
    let day = |name: &str| {
        let found = (0..).zip(DAYS).find(|(_, day)| day.eq_ignore_ascii_case(name));
        found.map(|(index, _)| index).ok_or_else(|| HoursError::Day { found: name.to_owned() })
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Ok([day(first)?, day(last)?])
}

/// Reads `7`, `07` or `07:30`; 24 and 24:00 are the end of the day.
fn parse_time(text: &str) -> Result<u16, HoursError> {
    let refused = || HoursError::Time { found: text.to_owned() };
    let number = |digits: &str, lengths: std::ops::RangeInclusive<usize>| {
        let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
        let fits = is_number && lengths.contains(&digits.len());
        fits.then(|| digits.parse::<u16>().ok()).flatten().ok_or_else(refused)
    };
    let (hour, minute) = match text.split_once(':') {
        Some((hour, minute)) => (number(hour, 1..=2)?, number(minute, 2..=2)?),
        None => (number(text, 1..=2)?, 0),
    };
    let total = hour * MINUTES_PER_HOUR + minute;
    if minute >= MINUTES_PER_HOUR || total > MINUTES_PER_DAY {
        return Err(refused());
    }
    Ok(total)
}

/// Every span with its days and times, in a form that is read back to the same hours.
impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (day, start, end)) in self.by_day().into_iter().enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            let name = DAYS.get(usize::from(day)).unwrap_or(&"");
            write!(f, "{separator}{name} {}-{}", clock(start), clock(end))?;
        }
        Ok(())
    }
}

impl Hours {
    /// Day, beginning and end of all spans, cut at midnights.
    fn by_day(&self) -> Vec<(u16, u16, u16)> {
        let mut found = Vec::new();
        for span in &self.spans {
            for day in 0..7 {
                let midnight = day * MINUTES_PER_DAY;
                let start = span.start.max(midnight);
                let end = span.end.min(midnight + MINUTES_PER_DAY);
                if start < end {
                    found.push((day, start - midnight, end - midnight));
                }
            }
        }
        found
    }
}

fn clock(minute: u16) -> String {
    format!("{:02}:{:02}", minute / MINUTES_PER_HOUR, minute % MINUTES_PER_HOUR)
}

#[cfg(test)]
mod tests;
