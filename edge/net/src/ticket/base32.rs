//! Base32 in lower case without padding (RFC 4648, section 6), one form for every byte-string.

const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Bits of a letter.
const BITS: u32 = 5;

pub(super) enum Base32Error {
    /// A letter that means nothing; `at` counts letters from 0.
    Letter { at: usize, found: char },
    /// Letters or bits at the end that belong to no byte.
    End,
}

pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 8);
    let (mut buffer, mut bits) = (0_u32, 0);
    for byte in bytes {
        buffer = buffer << 8 | u32::from(*byte);
        bits += 8;
        while bits >= BITS {
            bits -= BITS;
            text.push(letter(buffer >> bits));
        }
        buffer &= (1 << bits) - 1;
    }
    if bits > 0 {
        text.push(letter(buffer << (BITS - bits)));
    }
    text
}

pub(super) fn decode(text: &str) -> Result<Vec<u8>, Base32Error> {
    let mut bytes = Vec::with_capacity(text.len() * 5 / 8);
    let (mut buffer, mut bits) = (0_u32, 0);
    for (at, found) in text.chars().enumerate() {
        let value = value(found).ok_or(Base32Error::Letter { at, found })?;
        buffer = buffer << BITS | value;
        bits += BITS;
        if bits >= 8 {
            bits -= 8;
            let [.., byte] = (buffer >> bits).to_be_bytes();
            bytes.push(byte);
        }
        buffer &= (1 << bits) - 1;
    }
    // A whole letter too many, or bits that are not zero: another text for the same bytes.
    if bits >= BITS || buffer != 0 {
        return Err(Base32Error::End);
    }
    Ok(bytes)
}

fn letter(value: u32) -> char {
    let place = usize::try_from(value & 0x1f).expect("five bits");
    char::from(*LETTERS.get(place).expect("there is a letter for five bits"))
}

fn value(letter: char) -> Option<u32> {
    match letter {
        'a'..='z' => Some(u32::from(letter) - u32::from('a')),
        '2'..='7' => Some(u32::from(letter) - u32::from('2') + 26),
        _ => None,
    }
}
