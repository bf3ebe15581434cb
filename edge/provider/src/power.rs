//! What electricity costs: prices, the energy of a job, and what is left of its income.
//!
//! All of it in exact integers. A price has no currency: it is whatever the owner pays in. Income
//! in TGRID and cost in that currency are compared only if the owner says what a TGRID is worth;
//! otherwise both are shown side by side.

use std::fmt;
use std::str::FromStr;
use tg_types::Amount;

/// A decimal number as people write prices: six digits behind the point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decimal {
    micros: u64,
}

const MICROS: u64 = 1_000_000;
const FRACTION_DIGITS: usize = 6;

/// The largest number before the point; no kWh and no TGRID costs more in any currency, and all
/// products with it fit.
const WHOLE_MAX: u64 = 1_000_000_000;

/// Thousandths of a joule in a kWh.
const MILLIJOULES_PER_KWH: u64 = 3_600_000_000;

/// Why a price is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// It is not a plain decimal number.
    #[error(
        "{found:?} is not a number like 0.30, with at most {FRACTION_DIGITS} digits behind \
             the point"
    )]
    Number {
        /// What was found.
        found: String,
    },
    /// It is too large.
    #[error("{found:?} is above {WHOLE_MAX}")]
    TooLarge {
        /// What was found.
        found: String,
    },
    /// The unit is missing, or another one.
    #[error("{found:?} is not a price of energy; write it like 0.30/kWh")]
    Unit {
        /// What was found.
        found: String,
    },
}

impl Decimal {
    /// Millionths.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.micros
    }
}

impl FromStr for Decimal {
    type Err = PriceError;

    fn from_str(text: &str) -> Result<Self, PriceError> {
        let number = || PriceError::Number { found: text.to_owned() };
        let is_digits = |part: &str| part.bytes().all(|digit| digit.is_ascii_digit());
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            Some(_) => return Err(number()),
            None => (text, ""),
        };
        let is_number = !whole.is_empty() && is_digits(whole) && is_digits(fraction);
        if !is_number || fraction.len() > FRACTION_DIGITS {
            return Err(number());
        }
        let large = || PriceError::TooLarge { found: text.to_owned() };
        let whole: u64 = whole.parse().map_err(|_| large())?;
        let fraction: u64 =
            format!("{fraction:0<FRACTION_DIGITS$}").parse().map_err(|_| number())?;
        if whole >= WHOLE_MAX {
            return Err(large());
        }
        Ok(Self { micros: whole * MICROS + fraction })
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:0FRACTION_DIGITS$}", self.micros % MICROS);
        let fraction = digits.trim_end_matches('0');
        // Prices have two digits, more only where they are needed.
        write!(f, "{}.{fraction:0<2}", self.micros / MICROS)
    }
}

/// What a kWh costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PowerPrice(Decimal);

impl PowerPrice {
    /// The price of a kWh.
    #[must_use]
    pub const fn per_kwh(self) -> Decimal {
        self.0
    }
}

/// Reads `0.30/kWh`.
impl FromStr for PowerPrice {
    type Err = PriceError;

    fn from_str(text: &str) -> Result<Self, PriceError> {
        let unit = || PriceError::Unit { found: text.to_owned() };
        let (number, found) = text.split_once('/').ok_or_else(unit)?;
        if !found.trim().eq_ignore_ascii_case("kwh") {
            return Err(unit());
        }
        number.trim_end().parse().map(Self)
    }
}

impl fmt::Display for PowerPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/kWh", self.0)
    }
}

/// What a TGRID is worth in the owner's currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TgridRate(pub Decimal);

/// An amount of energy, in thousandths of a joule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Energy(u64);

impl Energy {
    /// None.
    pub const ZERO: Self = Self(0);

    /// So many thousandths of a joule.
    #[must_use]
    pub const fn millijoules(count: u64) -> Self {
        Self(count)
    }

    /// What a device of this power uses in this time: the estimate where nothing was measured.
    /// Rounded down; more than can be counted is the most that can be.
    #[must_use]
    pub fn of_power(power_mw: u32, millis: u64) -> Self {
        let microjoules = u128::from(power_mw) * u128::from(millis);
        Self(u64::try_from(microjoules / 1_000).unwrap_or(u64::MAX))
    }

    /// The number of thousandths of a joule.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Both together; more than can be counted is the most that can be.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }

    /// What it costs.
    #[must_use]
    pub fn cost(self, price: PowerPrice) -> Money {
        let product = i128::from(self.0) * i128::from(price.0.micros);
        Money(product * Money::UNITS_PER_COST)
    }
}

/// In kWh, with six digits behind the point, rounded to the nearest.
impl fmt::Display for Energy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_micro = u128::from(MILLIJOULES_PER_KWH / MICROS);
        let micros = (u128::from(self.0) + per_micro / 2) / per_micro;
        let (whole, fraction) = (micros / u128::from(MICROS), micros % u128::from(MICROS));
        write!(f, "{whole}.{fraction:06} kWh")
    }
}

/// Power at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerSample {
    /// When, by any clock that never runs backwards.
    pub at_ms: u64,
    /// How much.
    pub power_mw: u32,
}

/// Why a sample is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// It is older than the last one, or than the beginning.
    #[error("sample of {at_ms} ms is before {last_ms} ms")]
    Backwards {
        /// Its time.
        at_ms: u64,
        /// The last time that counts.
        last_ms: u64,
    },
}

/// Adds up the energy of a job while it runs. Between two samples power is taken to change evenly;
/// before the first and behind the last one it is taken to stand still. Nothing is stored but sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnergyMeter {
    started_ms: u64,
    last: Option<PowerSample>,
    /// Twice the sum, in millionths of a joule: the mean of two samples has halves.
    twice_microjoules: u128,
}

impl EnergyMeter {
    /// A meter of a job that starts now.
    #[must_use]
    pub const fn start(at_ms: u64) -> Self {
        Self { started_ms: at_ms, last: None, twice_microjoules: 0 }
    }

    /// Adds a sample.
    pub fn add(&mut self, sample: PowerSample) -> Result<(), SampleError> {
        // A first sample stands for the time before it too.
        let first = PowerSample { at_ms: self.started_ms, ..sample };
        let last = self.last.unwrap_or(first);
        let (at_ms, last_ms) = (sample.at_ms, last.at_ms);
        let millis = at_ms.checked_sub(last_ms).ok_or(SampleError::Backwards { at_ms, last_ms })?;
        let twice_power = u128::from(last.power_mw) + u128::from(sample.power_mw);
        self.twice_microjoules =
            self.twice_microjoules.saturating_add(twice_power * u128::from(millis));
        self.last = Some(sample);
        Ok(())
    }

    /// The energy from the start to a moment, and how it is known. Without a sample the rated power
    /// of the device is taken; without that nothing can be said.
    pub fn finish(
        mut self,
        at_ms: u64,
        rated_power_mw: Option<u32>,
    ) -> Result<Option<JobEnergy>, SampleError> {
        let Some(last) = self.last else {
            let last_ms = self.started_ms;
            let millis = at_ms.checked_sub(last_ms);
            let millis = millis.ok_or(SampleError::Backwards { at_ms, last_ms })?;
            return Ok(rated_power_mw.map(|power| JobEnergy {
                energy: Energy::of_power(power, millis),
                basis: EnergyBasis::Rated,
            }));
        };
        self.add(PowerSample { at_ms, ..last })?;
        let millijoules = u64::try_from(self.twice_microjoules / 2_000).unwrap_or(u64::MAX);
        Ok(Some(JobEnergy { energy: Energy(millijoules), basis: EnergyBasis::Measured }))
    }
}

/// How an energy is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnergyBasis {
    /// From samples of the device's own meter.
    Measured,
    /// From the power that the device may draw at most: rather too much.
    Rated,
}

/// The energy of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobEnergy {
    /// How much.
    pub energy: Energy,
    /// How it is known.
    pub basis: EnergyBasis,
}

/// Money in the owner's currency, exactly: in parts of 18 * 10^15. A cost (millionths of a unit for
/// 3.6 * 10^9 mJ) and an income (10^-9 TGRID at millionths of a unit) both are whole numbers of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(i128);

impl Money {
    const UNITS_PER_COST: i128 = 5;
    const UNITS_PER_INCOME: i128 = 18;
    const UNITS_PER_MICRO: i128 = 18_000_000_000;

    /// An income, at what a TGRID is worth.
    #[must_use]
    pub fn of_amount(amount: Amount, rate: TgridRate) -> Self {
        let product = i128::from(amount.units()) * i128::from(rate.0.micros);
        Self(product * Self::UNITS_PER_INCOME)
    }

    /// What is left after paying `cost`; less than nothing if it is more.
    #[must_use]
    pub const fn minus(self, cost: Self) -> Self {
        // Neither is beyond 10^35, so that the difference fits.
        Self(self.0 - cost.0)
    }

    /// Millionths of the currency's unit, rounded down: never better than it is.
    #[must_use]
    pub const fn micros_floor(self) -> i128 {
        self.0.div_euclid(Self::UNITS_PER_MICRO)
    }

    /// Millionths of the currency's unit, rounded up: what costs are shown as.
    #[must_use]
    pub const fn micros_ceil(self) -> i128 {
        -((-self.0).div_euclid(Self::UNITS_PER_MICRO))
    }
}

// The largest of both kinds fit.
const _: () = {
    let price = (WHOLE_MAX * MICROS) as i128;
    assert!(price * (u64::MAX as i128) < i128::MAX / 64);
    assert!(price * (Amount::CAP.units() as i128) < i128::MAX / 64);
    assert!(Money::UNITS_PER_COST * MILLIJOULES_PER_KWH as i128 == Money::UNITS_PER_MICRO);
};

/// With six digits behind the point, rounded down.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.micros_floor();
        let sign = if micros < 0 { "-" } else { "" };
        let (whole, fraction) = (
            micros.unsigned_abs() / u128::from(MICROS),
            micros.unsigned_abs() % u128::from(MICROS),
        );
        write!(f, "{sign}{whole}.{fraction:06}")
    }
}

/// What a job brought, as far as it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Earnings {
    /// What was paid for it.
    pub income: Amount,
    /// The energy it took.
    pub energy: Option<JobEnergy>,
    /// What the energy cost, if a price is known.
    pub cost: Option<Money>,
    /// What is left, if it is known what a TGRID is worth.
    pub net: Option<Money>,
}

impl Earnings {
    /// Puts together what is known.
    #[must_use]
    pub fn new(
        income: Amount,
        energy: Option<JobEnergy>,
        price: Option<PowerPrice>,
        rate: Option<TgridRate>,
    ) -> Self {
        let cost = energy.zip(price).map(|(energy, price)| energy.energy.cost(price));
        let net = cost.zip(rate).map(|(cost, rate)| Money::of_amount(income, rate).minus(cost));
        Self { income, energy, cost, net }
    }
}

#[cfg(test)]
mod tests;
