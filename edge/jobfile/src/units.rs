//! Numbers with units. They are whole numbers of the smallest unit; a fraction is taken only where
//! it is exact, so that no figure is ever rounded behind its author's back.

use crate::form::{Form, whole};
use std::fmt;
use tg_types::gpu::SHARE_STEPS;
use tg_types::{DurationMs, Tick};
use tz::UtcDateTime;

/// Bytes of memory or disk, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u64);

/// Units of sizes. `KB` is read as well; the later of two equal ones is written.
const SIZE_UNITS: [(&str, u64); 10] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("kB", 1_000),
    ("B", 1),
];

impl Size {
    /// More than any machine has, and few enough for 32 bits of MiB: 1 PiB.
    pub const MAX: Self = Self(1 << 50);

    /// So many bytes, if there are any and not too many.
    #[must_use]
    pub const fn new(bytes: u64) -> Option<Self> {
        if bytes > 0 && bytes <= Self::MAX.0 { Some(Self(bytes)) } else { None }
    }

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The number of MiB, rounded up.
    #[must_use]
    pub fn mib_ceil(self) -> u32 {
        u32::try_from(self.0.div_ceil(1 << 20)).expect("a size is at most 1 PiB")
    }
}

impl Form for Size {
    const EXPECTED: &'static str = "a size with its unit, such as 16GB, 512MiB or 2GB+";

    /// A `+` behind it says "or more", which is what every size means.
    fn read(text: &str) -> Option<Self> {
        let text = text.strip_suffix('+').unwrap_or(text);
        let (number, unit) = split_unit(text);
        let (_, scale) = SIZE_UNITS.into_iter().find(|(name, _)| *name == unit.trim_start())?;
        Self::new(decimal(number, scale)?)
    }
}

/// In the unit that makes the number smallest.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = SIZE_UNITS.into_iter().filter(|(_, scale)| self.0.is_multiple_of(*scale));
        let (name, scale) = exact.max_by_key(|(_, scale)| *scale).unwrap_or(("B", 1));
        write!(f, "{}{name}", self.0 / scale)
    }
}

/// Processors in thousandths, at least one thousandth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpus(u32);

impl Cpus {
    /// More than any machine has.
    pub const MAX: Self = Self(65_536_000);

    /// So many thousandths, if there are any and not too many.
    #[must_use]
    pub const fn from_thousandths(thousandths: u32) -> Option<Self> {
        let fits = thousandths > 0 && thousandths <= Self::MAX.0;
        if fits { Some(Self(thousandths)) } else { None }
    }

    /// The number of thousandths.
    #[must_use]
    pub const fn thousandths(self) -> u32 {
        self.0
    }
}

impl Form for Cpus {
    const EXPECTED: &'static str = "a number of processors such as 4, 0.5 or 8+";

    fn read(text: &str) -> Option<Self> {
        let text = text.strip_suffix('+').unwrap_or(text);
        Self::from_thousandths(u32::try_from(decimal(text, 1_000)?).ok()?)
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, rest) = (self.0 / 1_000, self.0 % 1_000);
        if rest == 0 {
            return write!(f, "{count}");
        }
        let digits = format!("{rest:03}");
        write!(f, "{count}.{}", digits.trim_end_matches('0'))
    }
}

/// A part of a GPU in twentieths, less than all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuShare(u8);

impl GpuShare {
    /// So many twentieths, if that is a part.
    #[must_use]
    pub const fn from_steps(steps: u8) -> Option<Self> {
        if steps > 0 && steps < SHARE_STEPS { Some(Self(steps)) } else { None }
    }

    /// The number of twentieths.
    #[must_use]
    pub const fn steps(self) -> u8 {
        self.0
    }
}

impl Form for GpuShare {
    const EXPECTED: &'static str = "a part of a GPU from 0.05 to 0.95, in steps of 0.05";

    fn read(text: &str) -> Option<Self> {
        Self::from_steps(u8::try_from(decimal(text, SHARE_STEPS.into())?).ok()?)
    }
}

impl fmt::Display for GpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = u32::from(self.0) * 100 / u32::from(SHARE_STEPS);
        write!(f, "0.{}", format!("{hundredths:02}").trim_end_matches('0'))
    }
}

/// A span of time, at least a millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(DurationMs);

/// Units of spans, the longest first, as they follow each other in `1d2h30m`.
const SPAN_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Span {
    /// Longer than anybody waits for a job, and far from any overflow: ten years.
    pub const MAX: Self = Self(DurationMs::new(3_650 * 86_400_000));

    /// A span, if it is not nothing and not too long.
    #[must_use]
    pub const fn new(span: DurationMs) -> Option<Self> {
        let fits = span.get() > 0 && span.get() <= Self::MAX.0.get();
        if fits { Some(Self(span)) } else { None }
    }

    /// The span.
    #[must_use]
    pub const fn get(self) -> DurationMs {
        self.0
    }
}

impl Form for Span {
    const EXPECTED: &'static str = "a span of time such as 90s, 10m, 1h30m or 2d";

    fn read(text: &str) -> Option<Self> {
        let mut rest = text;
        let mut units = SPAN_UNITS.into_iter();
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit())?;
            let (number, tail) = rest.split_at_checked(digits)?;
            let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at_checked(letters)?;
            // Units already passed are gone, so each comes once and in order.
            let (_, scale) = units.find(|(name, _)| *name == unit)?;
            total = total.checked_add(whole(number)?.checked_mul(scale)?)?;
            rest = tail;
        }
        Self::new(DurationMs::new(total))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.get();
        for (name, scale) in SPAN_UNITS {
            if rest >= scale {
                write!(f, "{}{name}", rest / scale)?;
                rest %= scale;
            }
        }
        Ok(())
    }
}

/// An instant by which a job must be done. Between 1970 and 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(Tick);

impl Deadline {
    /// The last millisecond of the year 9999.
    pub const MAX: Self = Self(Tick::new(253_402_300_799_999));

    /// An instant, if a calendar with four digits has it.
    #[must_use]
    pub const fn new(tick: Tick) -> Option<Self> {
        if tick.get() <= Self::MAX.0.get() { Some(Self(tick)) } else { None }
    }

    /// The instant.
    #[must_use]
    pub const fn get(self) -> Tick {
        self.0
    }
}

impl Form for Deadline {
    const EXPECTED: &'static str =
        "an instant as in RFC 3339, such as 2026-12-01T08:00:00Z or 2026-12-01T09:00+01:00";

    /// RFC 3339, section 5.6; seconds may be left out.
    fn read(text: &str) -> Option<Self> {
        let (date, clock) = text.split_once(['T', 't'])?;
        let [year, month, day] = fields::<3>(date, '-', &[4, 2, 2])?;
        let (clock, offset_minutes) = split_offset(clock)?;
        let (clock, millis) = match clock.split_once('.') {
            Some((clock, fraction)) if clock.len() == 8 => (clock, milliseconds(fraction)?),
            Some(_) => return None,
            None => (clock, 0),
        };
        let [hour, minute, second] = match clock.len() {
            5 => {
                let [hour, minute] = fields::<2>(clock, ':', &[2, 2])?;
                [hour, minute, 0]
            }
            _ => fields::<3>(clock, ':', &[2, 2, 2])?,
        };
        let small = |number: i64| u8::try_from(number).ok();
        let second = small(second).filter(|second| *second < 60)?;
        let moment = UtcDateTime::new(
            i32::try_from(year).ok()?,
            small(month)?,
            small(day)?,
            small(hour)?,
            small(minute)?,
            second,
            0,
        );
        let seconds = moment.ok()?.unix_time().checked_sub(offset_minutes * 60)?;
        let millis = seconds.checked_mul(1_000)?.checked_add(millis)?;
        Self::new(Tick::new(u64::try_from(millis).ok()?))
    }
}

/// Always in UTC.
impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.get() / 1_000, self.0.get() % 1_000);
        let seconds = i64::try_from(seconds).expect("a deadline is before the year 10000");
        let at = UtcDateTime::from_timespec(seconds, 0).expect("the calendar has this year");
        let (year, month, day) = (at.year(), at.month(), at.month_day());
        write!(f, "{year:04}-{month:02}-{day:02}")?;
        write!(f, "T{:02}:{:02}:{:02}", at.hour(), at.minute(), at.second())?;
        if millis > 0 {
            write!(f, ".{millis:03}")?;
        }
        f.write_str("Z")
    }
}

/// How urgent a job is: 0 is usual, and each step doubles what its runs are paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// The most: eight times the usual pay.
    pub const MAX: Self = Self(3);

    /// A priority up to the most.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Form for Priority {
    const EXPECTED: &'static str =
        "a whole number from 0 to 3, of which each step doubles what a run is paid";

    fn read(text: &str) -> Option<Self> {
        Self::new(u8::try_from(whole(text)?).ok()?)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number in front and what follows it.
pub(crate) fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// A decimal number times a scale, if the product is whole.
pub(crate) fn decimal(text: &str, scale: u64) -> Option<u64> {
    /// More digits do not fit into the sum, and nobody writes them.
    const DIGITS_MAX: usize = 9;
    let (count, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.len() > DIGITS_MAX {
        return None;
    }
    let base = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = u128::from(whole(fraction)?) * u128::from(scale);
    if !part.is_multiple_of(base) {
        return None;
    }
    let total = u128::from(whole(count)?) * u128::from(scale) + part / base;
    u64::try_from(total).ok()
}

/// Numbers of a fixed number of digits between separators.
fn fields<const N: usize>(text: &str, separator: char, digits: &[usize; N]) -> Option<[i64; N]> {
    let mut found = [0; N];
    let mut parts = text.split(separator);
    for (slot, count) in found.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == *count)?;
        *slot = i64::try_from(whole(part)?).ok()?;
    }
    parts.next().is_none().then_some(found)
}

/// The time of day and how many minutes its zone is ahead of UTC.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let at = text.rfind(['+', '-'])?;
    let (clock, offset) = text.split_at_checked(at)?;
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let [hours, minutes] = fields::<2>(offset.get(1..)?, ':', &[2, 2])?;
    (hours < 24 && minutes < 60).then_some((clock, sign * (hours * 60 + minutes)))
}

fn milliseconds(fraction: &str) -> Option<i64> {
    let exact = (1..=3).contains(&fraction.len());
    i64::try_from(whole(&format!("{fraction:0<3}"))?).ok().filter(|_| exact)
}

#[cfg(test)]
mod tests;
