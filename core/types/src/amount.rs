//! Money and shares of money.
//!
//! Separate so that no other module can make an amount that is negative, above the cap or the
//! result of a wrapped sum. The unit is 10^-9 TGRID; the cap of 21 million TGRID leaves room to add
//! two capped amounts in 64 bits.

use crate::codec::{Decode, DecodeError, Encode, Reader};
use std::fmt;
use std::str::FromStr;

const UNITS_PER_TGRID: u64 = 1_000_000_000;
const FRACTION_DIGITS: usize = 9;
const UNIT_NAME: &str = "TGRID";

/// A token amount in base units of 10^-9 TGRID. Never negative, never above [`Amount::CAP`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(u64);

const _: () = assert!(Amount::CAP.0 <= u64::MAX / 2); // two capped amounts can be added

/// Why an amount cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// More than there can ever be.
    #[error("result is above the cap of {cap}", cap = Amount::CAP)]
    AboveCap,
    /// More is asked than is held.
    #[error("{asked} asked, {held} held")]
    Insufficient {
        /// What was to be taken.
        asked: Amount,
        /// What there is.
        held: Amount,
    },
    /// More than the whole.
    #[error("{found} basis points are more than the whole of {max}", max = Bps::WHOLE.0)]
    AboveWhole {
        /// The number given.
        found: u16,
    },
    /// Not a decimal number with at most nine digits behind the point.
    #[error("expected a decimal number with at most {FRACTION_DIGITS} digits behind the point")]
    Form,
}

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// All there will ever be: 21 million TGRID.
    pub const CAP: Self = Self(21_000_000 * UNITS_PER_TGRID);

    /// An amount of base units, if not above the cap.
    pub const fn new(units: u64) -> Result<Self, AmountError> {
        if units <= Self::CAP.0 { Ok(Self(units)) } else { Err(AmountError::AboveCap) }
    }

    /// An amount known when the program is built; too large a number does not compile when used in
    /// a constant.
    pub const fn constant(units: u64) -> Self {
        assert!(units <= Self::CAP.0, "a constant amount is not above the cap");
        Self(units)
    }

    /// Whole TGRID.
    pub const fn tgrid(whole: u64) -> Result<Self, AmountError> {
        match whole.checked_mul(UNITS_PER_TGRID) {
            Some(units) => Self::new(units),
            None => Err(AmountError::AboveCap),
        }
    }

    /// The number of base units.
    pub const fn units(self) -> u64 {
        self.0
    }

    /// Whether this is nothing.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum, if not above the cap.
    pub const fn plus(self, more: Self) -> Result<Self, AmountError> {
        Self::new(self.0 + more.0)
    }

    /// What is left after taking `asked`.
    pub const fn minus(self, asked: Self) -> Result<Self, AmountError> {
        match self.0.checked_sub(asked.0) {
            Some(left) => Ok(Self(left)),
            None => Err(AmountError::Insufficient { asked, held: self }),
        }
    }

    /// The amount `count` times, if not above the cap.
    pub const fn times(self, count: u64) -> Result<Self, AmountError> {
        match self.0.checked_mul(count) {
            Some(units) => Self::new(units),
            None => Err(AmountError::AboveCap),
        }
    }

    /// This share of the amount, rounded down.
    pub fn share_floor(self, share: Bps) -> Self {
        let units = u128::from(self.0) * u128::from(share.0) / u128::from(Bps::WHOLE.0);
        Self(u64::try_from(units).expect("a share is not above the whole"))
    }
}

impl Encode for Amount {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for Amount {
    const BYTES_MIN: usize = 8;

    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let units = u64::decode(reader)?;
        let expected = "amount of at most 21000000000000000 base units";
        Self::new(units).map_err(|_| DecodeError::Range { at: reader.position(), expected })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / UNITS_PER_TGRID, self.0 % UNITS_PER_TGRID);
        if fraction == 0 {
            return write!(f, "{whole} {UNIT_NAME}");
        }
        let digits = format!("{fraction:0FRACTION_DIGITS$}");
        write!(f, "{whole}.{} {UNIT_NAME}", digits.trim_end_matches('0'))
    }
}

/// Reads "1.5" or "1.5 TGRID".
impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let number = text.strip_suffix(UNIT_NAME).map_or(text, str::trim_end);
        let (whole, fraction) = match number.split_once('.') {
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            Some(_) => return Err(AmountError::Form),
            None => (number, ""),
        };
        if fraction.len() > FRACTION_DIGITS {
            return Err(AmountError::Form);
        }
        let padded = format!("{fraction:0<FRACTION_DIGITS$}");
        let (whole, fraction) = (digits(whole)?, digits(&padded)?);
        let units =
            whole.checked_mul(UNITS_PER_TGRID).and_then(|units| units.checked_add(fraction));
        Self::new(units.ok_or(AmountError::AboveCap)?)
    }
}

/// A number of decimal digits only: no sign, no space.
fn digits(text: &str) -> Result<u64, AmountError> {
    if text.is_empty() || !text.bytes().all(|letter| letter.is_ascii_digit()) {
        return Err(AmountError::Form);
    }
    text.parse().map_err(|_| AmountError::AboveCap)
}

/// A share in basis points: 0 to 10 000, the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bps(u16);

impl Bps {
    /// No share.
    pub const ZERO: Self = Self(0);
    /// The whole.
    pub const WHOLE: Self = Self(10_000);

    /// A share of at most the whole.
    pub const fn new(points: u16) -> Result<Self, AmountError> {
        if points <= Self::WHOLE.0 {
            Ok(Self(points))
        } else {
            Err(AmountError::AboveWhole { found: points })
        }
    }

    /// A share known when the program is built.
    pub const fn constant(points: u16) -> Self {
        assert!(points <= Self::WHOLE.0, "a share is not above the whole");
        Self(points)
    }

    /// The number of basis points.
    pub const fn points(self) -> u16 {
        self.0
    }

    /// Both shares together, if not above the whole.
    pub const fn plus(self, more: Self) -> Result<Self, AmountError> {
        Self::new(self.0 + more.0)
    }
}

impl Encode for Bps {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for Bps {
    const BYTES_MIN: usize = 2;

    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let points = u16::decode(reader)?;
        let expected = "share of at most 10000 basis points";
        Self::new(points).map_err(|_| DecodeError::Range { at: reader.position(), expected })
    }
}

impl fmt::Display for Bps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02} %", self.0 / 100, self.0 % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::{Amount, AmountError, Bps};

    #[track_caller]
    fn check(text: &str, expected: Result<u64, AmountError>) {
        assert_eq!(text.parse::<Amount>().map(Amount::units), expected);
    }

    #[test]
    fn amount_text_is_read_as_base_units() {
        check("0", Ok(0));
        check("1", Ok(1_000_000_000));
        check("1.5", Ok(1_500_000_000));
        check("1.5 TGRID", Ok(1_500_000_000));
        check("0.000000001", Ok(1));
        check("21000000", Ok(Amount::CAP.units()));
    }

    #[test]
    fn amount_text_of_another_form_is_refused() {
        for text in ["", ".", "1.", ".5", "-1", "+1", " 1", "1,5", "1.5.5", "1e3", "TGRID", "0x1"] {
            check(text, Err(AmountError::Form));
        }
        check("0.0000000001", Err(AmountError::Form));
        check("1.٥", Err(AmountError::Form));
    }

    #[test]
    fn amount_text_above_the_cap_is_refused() {
        check("21000000.000000001", Err(AmountError::AboveCap));
        check("18446744073.709551616", Err(AmountError::AboveCap));
        check("99999999999999999999999999", Err(AmountError::AboveCap));
    }

    #[test]
    fn amount_sum_above_the_cap_is_refused() {
        assert_eq!(Amount::CAP.plus(Amount::ZERO), Ok(Amount::CAP));
        assert_eq!(Amount::CAP.plus(Amount::constant(1)), Err(AmountError::AboveCap));
        assert_eq!(Amount::CAP.plus(Amount::CAP), Err(AmountError::AboveCap));
        assert_eq!(Amount::constant(2).times(u64::MAX), Err(AmountError::AboveCap));
        assert_eq!(Amount::new(u64::MAX), Err(AmountError::AboveCap));
    }

    #[test]
    fn amount_minus_more_than_held_is_refused() {
        let (held, asked) = (Amount::constant(3), Amount::constant(4));
        assert_eq!(held.minus(asked), Err(AmountError::Insufficient { asked, held }));
        assert_eq!(asked.minus(held), Ok(Amount::constant(1)));
    }

    #[test]
    fn share_of_the_cap_does_not_overflow() {
        assert_eq!(Amount::CAP.share_floor(Bps::WHOLE), Amount::CAP);
        assert_eq!(Amount::CAP.share_floor(Bps::ZERO), Amount::ZERO);
        assert_eq!(Amount::constant(9_999).share_floor(Bps::constant(1)), Amount::ZERO);
        assert_eq!(Amount::constant(10_000).share_floor(Bps::constant(1)), Amount::constant(1));
        assert_eq!(Bps::new(10_001), Err(AmountError::AboveWhole { found: 10_001 }));
    }

    #[test]
    fn prop_amount_text_is_read_back() {
        arbtest::arbtest(|u| {
            let amount = Amount::constant(u.int_in_range(0..=Amount::CAP.units())?);
            assert_eq!(amount.to_string().parse(), Ok(amount));
            Ok(())
        });
    }
}
