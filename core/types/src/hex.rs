//! Lower-case hexadecimal, the form in which people see ids and keys.

use std::fmt;

/// Writes the bytes as lower-case digits.
pub(crate) fn write(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // In pieces on the stack: ids are written by the million, and formatting each byte is slow.
    for piece in bytes.chunks(32) {
        let mut digits = [0; 64];
        for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(piece) {
            *pair = [letter(byte >> 4), letter(byte & 0x0f)];
        }
        let written = digits.get(..2 * piece.len()).unwrap_or_default();
        f.write_str(std::str::from_utf8(written).unwrap_or_default())?;
    }
    Ok(())
}

const fn letter(digit: u8) -> u8 {
    if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }
}

/// Reads exactly `N` bytes from lower- or upper-case digits; `None` for anything else.
pub(crate) fn read<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    if pairs.len() != N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        b'A'..=b'F' => Some(letter - b'A' + 10),
        _ => None,
    }
}

/// `Display` as full hex and `Debug` as the type and the first four bytes, for a newtype of 32
/// bytes.
macro_rules! display_and_debug {
    ($name:ident) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::hex::write(&self.0, f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let [first, second, third, fourth, ..] = self.0;
                write!(f, "{}(", stringify!($name))?;
                $crate::hex::write(&[first, second, third, fourth], f)?;
                f.write_str("…)")
            }
        }
    };
}
pub(crate) use display_and_debug;
