//! GF(256) with the polynomial x^8 + x^4 + x^3 + x + 1, in which numbers are added by exclusive or.
//! Secrets are handled 32 bytes at a time. The factor of [`scale`] is public (an index or a weight
//! made of indexes); the bytes are not, and what is done does not depend on them.

/// What overflows when a byte is doubled is replaced by this.
const REDUCTION: u8 = 0x1b;

/// Adds the second to the first.
pub(super) fn add(to: &mut [u8; 32], from: &[u8; 32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= from;
    }
}

/// Multiplies every byte by a public factor.
pub(super) fn scale(bytes: &mut [u8; 32], factor: u8) {
    for byte in bytes {
        *byte = multiply(*byte, factor);
    }
}

/// The product: the doublings of the first that the bits of the second ask for. Masks instead of
/// branches, so that neither number decides which steps are taken.
pub(super) const fn multiply(mut value: u8, factor: u8) -> u8 {
    let mut product = 0;
    let mut bit = 0;
    while bit < 8 {
        product ^= value & mask(factor >> bit);
        value = (value << 1) ^ (REDUCTION & mask(value >> 7));
        bit += 1;
    }
    product
}

/// The quotient of two public numbers; 0 if the second is 0.
pub(super) const fn divide(value: u8, by: u8) -> u8 {
    // by^254 is its inverse, since by^255 is 1.
    let mut inverse = 1;
    let mut power = by;
    let mut bit = 1;
    while bit < 8 {
        power = multiply(power, power);
        inverse = multiply(inverse, power);
        bit += 1;
    }
    multiply(value, inverse)
}

/// All bits as the lowest one.
const fn mask(bit: u8) -> u8 {
    (bit & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::{add, divide, multiply, scale};

    /// FIPS 197, section 4.2.
    #[test]
    fn products_are_those_of_the_standard() {
        for (value, factor, product) in [
            (0x57, 0x83, 0xc1),
            (0x57, 0x13, 0xfe),
            (0x57, 0x02, 0xae),
            (0x57, 0x04, 0x47),
            (0x57, 0x08, 0x8e),
            (0x57, 0x10, 0x07),
        ] {
            assert_eq!(multiply(value, factor), product);
            assert_eq!(multiply(factor, value), product);
        }
    }

    #[test]
    fn numbers_form_a_field() {
        for a in 0..=255 {
            assert_eq!(multiply(a, 1), a);
            assert_eq!(multiply(a, 0), 0);
            assert_eq!(divide(a, 0), 0);
            for b in 1..=255 {
                assert_eq!(multiply(divide(a, b), b), a);
                assert_eq!(multiply(a, b), multiply(b, a));
                let (c, d) = (a ^ 0x35, b ^ 0x9c);
                assert_eq!(multiply(a, c ^ d), multiply(a, c) ^ multiply(a, d));
                assert_eq!(multiply(multiply(a, b), d), multiply(a, multiply(b, d)));
            }
        }
    }

    #[test]
    fn bytes_are_scaled_and_added_one_by_one() {
        let numbers: [u8; 32] = std::array::from_fn(|index| 8 * index as u8 + 3);
        let mut scaled = numbers;
        scale(&mut scaled, 0x83);
        assert_eq!(scaled, numbers.map(|number| multiply(number, 0x83)));
        add(&mut scaled, &numbers);
        assert_eq!(scaled, numbers.map(|number| multiply(number, 0x82)));
    }
}
