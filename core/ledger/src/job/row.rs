//! The rows of the queue: jobs that offer about the same for what they take stand in one row, in
//! the order in which they came. An offer moves a job ahead by a fixed time for each doubling, so a
//! job's key never changes: whoever waits comes nearer to the front as fast as everybody else, and
//! nobody is passed by a job that came more than [`BONUS_MAX`] later.

use tg_scheduler::{Pricing, offered};
use tg_types::{
    Decode, DecodeError, DurationMs, Encode, JobSpec, ProgramFacts, Reader, Tick, TimeError,
};

/// Rows of each kind of price: offers between the least and the greatest that counts differ by a
/// factor of 32,768, which is more than any two devices do.
const OCTAVES: u8 = 16;

/// Rows in all. A block merges their fronts, so they are few.
pub const ROWS: u8 = 2 * OCTAVES;

/// What each doubling of an offer is worth: enough to matter where jobs take minutes to hours.
pub const BONUS_PER_OCTAVE: DurationMs = DurationMs::new(10 * DurationMs::MINUTE.get());

/// The most that any offer is worth, two and a half hours: what a job can be passed by.
pub const BONUS_MAX: DurationMs = DurationMs::new((OCTAVES as u64 - 1) * BONUS_PER_OCTAVE.get());

/// The logarithm of the lowest price of an hour that is told apart: 0.001 TGRID. Usual prices of
/// both kinds stand in the middle and are worth the same, so neither kind of work starves another.
const HOUR_LOWEST: u32 = 20;

/// The same of 10^12 multiply-adds: 0.008 TGRID.
const TERA_LOWEST: u32 = 23;

/// A row of the queue: first those of work that is priced by the hour, by their offers, then those
/// of work that is priced by its multiply-adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueRow(u8);

impl QueueRow {
    /// All rows.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..ROWS).map(Self)
    }

    /// The row of a job, by the highest price at which its pay is enough.
    pub fn of(spec: &JobSpec, facts: Option<&ProgramFacts>) -> Self {
        let (pricing, price) = offered(spec, facts);
        let (first, lowest) = match pricing {
            Pricing::Hour => (0, HOUR_LOWEST),
            Pricing::Tera => (OCTAVES, TERA_LOWEST),
        };
        let above = price.max(1).ilog2().saturating_sub(lowest);
        Self(first + u8::try_from(above).unwrap_or(u8::MAX).min(OCTAVES - 1))
    }

    /// Its number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Which octave its offers are in, counted from the lowest.
    pub const fn octave(self) -> u8 {
        self.0 % OCTAVES
    }

    /// What its jobs' offers are worth.
    pub const fn bonus(self) -> DurationMs {
        DurationMs::new(self.octave() as u64 * BONUS_PER_OCTAVE.get())
    }

    /// The key of a job that was put into this row: the least goes first. Moved by the largest
    /// bonus, so that it is never before the epoch.
    pub(super) fn key(self, queued: Tick) -> Result<Tick, TimeError> {
        queued.plus(DurationMs::new(BONUS_MAX.get() - self.bonus().get()))
    }
}

/// What decides whose turn comes first. Between equals the row and the place decide, so no two
/// waiting jobs have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueKey {
    /// When a job with the best offer would have come to have the same turn.
    pub(super) came: Tick,
    pub(super) row: QueueRow,
    pub(super) place: u64,
}

impl Encode for QueueRow {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for QueueRow {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = reader.byte()?;
        let expected = "row of the queue below 32";
        let outside = DecodeError::Range { at: reader.position(), expected };
        if number < ROWS { Ok(Self(number)) } else { Err(outside) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::command;
    use super::{BONUS_MAX, BONUS_PER_OCTAVE, OCTAVES, QueueRow, ROWS};
    use tg_types::{Amount, Decode, DurationMs, Encode, Hash32, JobSpec, ProgramFacts, Tick, Work};

    /// An hour of work at this price, or 10^12 multiply-adds.
    fn row(price: u64, is_tera: bool) -> QueueRow {
        let hash = Hash32::new([0; 32]);
        let work = if is_tera {
            Work::Tensor { program: hash, weights: hash, inputs: hash, salt: hash }
        } else {
            Work::Opaque { task: hash }
        };
        let spec = JobSpec { work, ..command(price, DurationMs::HOUR.get()) };
        let multiply_adds = 1_000_000_000_000;
        let facts = ProgramFacts { id: hash, multiply_adds, operations: 1, elements: 0 };
        QueueRow::of(&spec, is_tera.then_some(&facts))
    }

    #[test]
    fn each_doubling_of_an_offer_is_one_row_until_it_counts_no_more() {
        for is_tera in [false, true] {
            let first = if is_tera { OCTAVES } else { 0 };
            let rows: Vec<u8> = (0..=54).map(|octave| row(1 << octave, is_tera).0).collect();
            assert_eq!((rows[0], rows[54]), (first, first + OCTAVES - 1));
            assert!(rows.is_sorted_by(|a, b| *b == *a || *b == a + 1));
            assert_eq!(row(0, is_tera).0, first);
            let usual = row(100_000_000, is_tera);
            assert_eq!(row(200_000_000, is_tera).0, usual.0 + 1);
            assert!(usual.bonus() > DurationMs::ZERO && usual.bonus() < BONUS_MAX);
        }
        assert_eq!(row(Amount::CAP.units(), true).bonus(), BONUS_MAX);
        // Usual prices of both kinds.
        assert_eq!(row(100_000_000, false).bonus(), row(1_000_000_000, true).bonus());
    }

    #[test]
    fn keys_differ_by_what_offers_are_worth() {
        let (low, high) = (row(100_000_000, false), row(200_000_000, false));
        let now = Tick::new(1_000_000);
        let then = now.plus(BONUS_PER_OCTAVE).expect("early");
        assert_eq!(low.key(now), high.key(then));
        assert!(QueueRow(0).key(Tick::MAX).is_err());
    }

    #[test]
    fn rows_that_do_not_exist_are_refused() {
        assert!(QueueRow::all().all(|row| QueueRow::from_bytes(&row.to_bytes()) == Ok(row)));
        assert!(QueueRow::from_bytes(&[ROWS]).is_err());
    }
}
