//! Logarithms and powers of two in fixed point, so that sizes can be compared by ratio.

/// One octave.
pub(crate) const ONE: i64 = 1 << 16;

/// 2^16 · 2^(n/16), rounded, for the fractions between two powers.
const POWERS: [u64; 17] = [
    65_536, 68_438, 71_468, 74_632, 77_936, 81_386, 84_990, 88_752, 92_682, 96_785, 101_070,
    105_545, 110_218, 115_098, 120_194, 125_515, 131_072,
];

/// log2 of a number, in 1/65,536 octaves, 0 for 0 and 1. At most 80 units off.
pub(crate) fn log2(number: u64) -> i64 {
    let number = number.max(1);
    let whole = number.ilog2();
    let mantissa = if whole >= 16 { number >> (whole - 16) } else { number << (16 - whole) };
    let place = POWERS.partition_point(|power| *power <= mantissa).saturating_sub(1).min(15);
    let (low, high) = (POWERS[place], POWERS[place + 1]);
    let part = (mantissa - low) * 4_096 / (high - low);
    i64::from(whole) * ONE + place as i64 * 4_096 + part as i64
}

/// A number times 2^(octaves), in 1/65,536 octaves, rounded down; saturates.
pub(crate) fn times_power(number: u64, octaves: i64) -> u64 {
    let whole = octaves.div_euclid(ONE);
    let part = octaves.rem_euclid(ONE) as u64;
    let place = (part / 4_096) as usize;
    let (low, high) = (POWERS[place], POWERS[place + 1]);
    let factor = low + (high - low) * (part % 4_096) / 4_096;
    let product = u128::from(number) * u128::from(factor);
    let shifted = match u32::try_from((16 - whole).unsigned_abs()) {
        Ok(bits) if whole <= 16 => product.checked_shr(bits).unwrap_or(0),
        Ok(bits) if bits <= 40 => product << bits,
        _ => u128::MAX,
    };
    u64::try_from(shifted).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_and_logarithms_are_inverse_within_a_thousandth() {
        for number in [1_u64, 2, 3, 1_000, 65_535, 65_537, 86_400_000, 1 << 40] {
            let back = times_power(1 << 20, log2(number) - 20 * ONE);
            assert!(back.abs_diff(number) <= 1 + number / 800, "{number} {back}");
        }
        assert_eq!((log2(0), log2(1), log2(8)), (0, 0, 3 * ONE));
        assert_eq!(times_power(1_000, -ONE), 500);
        assert_eq!(times_power(u64::MAX, ONE), u64::MAX);
        assert_eq!(times_power(5, -90 * ONE), 0);
        assert_eq!(times_power(5, 90 * ONE), u64::MAX);
    }
}
