//! Values that are written as one piece of text, and the sentence that says how.

use crate::file::{Accelerator, KeyEscrow, Public, Verify};
use crate::units::{Cpus, Deadline, GpuShare, Priority, Size, Span};
use std::num::{NonZeroU8, NonZeroU16};
use std::str::FromStr;
use tg_types::{Amount, Features, Name};

/// Text that is not of the expected form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
pub struct FormError {
    /// The form, in words.
    pub expected: &'static str,
}

/// A value that is written as one piece of text.
pub(crate) trait Form: Sized {
    /// The form, in words.
    const EXPECTED: &'static str;

    /// The value, if the text is of that form.
    fn read(text: &str) -> Option<Self>;
}

/// What people outside this room use to read a value.
macro_rules! from_form {
    ($($name:ident),* $(,)?) => {$(
        impl FromStr for $name {
            type Err = FormError;

            fn from_str(text: &str) -> Result<Self, FormError> {
                Self::read(text).ok_or(FormError { expected: Self::EXPECTED })
            }
        }
    )*};
}

from_form!(Accelerator, Cpus, Deadline, GpuShare, KeyEscrow, Priority, Public, Size, Span, Verify);

impl Form for bool {
    const EXPECTED: &'static str = "true or false";

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Form for NonZeroU16 {
    const EXPECTED: &'static str = "a whole number from 1 to 65535";

    fn read(text: &str) -> Option<Self> {
        whole(text).and_then(|number| Self::new(u16::try_from(number).ok()?))
    }
}

impl Form for NonZeroU8 {
    const EXPECTED: &'static str = "a whole number from 1 to 255";

    fn read(text: &str) -> Option<Self> {
        whole(text).and_then(|number| Self::new(u8::try_from(number).ok()?))
    }
}

impl Form for Name {
    const EXPECTED: &'static str =
        "1 to 64 printable ASCII characters without a space at either end";

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Form for Amount {
    const EXPECTED: &'static str =
        "an amount of TGRID such as 0.05, with at most nine digits behind the point";

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Form for KeyEscrow {
    const EXPECTED: &'static str = "validators or none";

    fn read(text: &str) -> Option<Self> {
        [Self::Validators, Self::None].into_iter().find(|escrow| escrow.word() == text)
    }
}

impl Form for Features {
    const EXPECTED: &'static str =
        "a feature: tensor-cores, half-precision, partition, sandbox or onnx";

    fn read(text: &str) -> Option<Self> {
        Self::of_word(text)
    }
}

/// A number of decimal digits only: no sign, no space.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let is_digits = !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits)
}

#[cfg(test)]
mod tests {
    use super::Form;
    use tg_types::Features;

    #[test]
    fn all_features_are_named_in_the_form() {
        for (feature, word) in Features::ALL {
            assert_eq!(Features::read(word), Some(feature));
            assert!(Features::EXPECTED.contains(word), "{word}");
        }
    }

    #[test]
    fn numbers_with_signs_spaces_or_zero_are_refused() {
        use std::num::NonZeroU16;
        assert_eq!(NonZeroU16::read("65535").map(NonZeroU16::get), Some(65_535));
        for text in ["", "0", "+1", "-1", " 1", "1.0", "65536", "0x1", "٣"] {
            assert_eq!(NonZeroU16::read(text), None, "{text}");
        }
    }
}
