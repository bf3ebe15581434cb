//! Checked pieces of text: names, paths and commands. Each has one grammar, so that nothing that
//! was read can mean something else to a shell, a mount table or the operating system.

use crate::form::{Form, FormError};
use std::fmt;
use std::str::FromStr;

macro_rules! word {
    ($(#[$meta:meta])* $name:ident, $max:literal, $expected:literal, $is:expr) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The longest there is.
            pub const BYTES_MAX: usize = $max;

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Form for $name {
            const EXPECTED: &'static str = $expected;

            fn read(text: &str) -> Option<Self> {
                let is: fn(&str) -> bool = $is;
                let fits = text.len() <= Self::BYTES_MAX && !text.contains('\0');
                (fits && is(text)).then(|| Self(text.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = FormError;

            fn from_str(text: &str) -> Result<Self, FormError> {
                Self::read(text).ok_or(FormError { expected: Self::EXPECTED })
            }
        }
    };
}

word!(
    /// A command for the shell: one line or many.
    Script,
    65_536,
    "a command, at most 64 KiB of text",
    |text| !text.trim().is_empty()
);
word!(
    /// A word of a command: a program or one of its arguments.
    Word,
    65_536,
    "a word of a command, at most 64 KiB of text",
    |_| true
);
word!(
    /// The name of an environment variable.
    EnvName,
    128,
    "the name of a variable: letters, digits and _, not beginning with a digit",
    is_variable
);
word!(
    /// The value of an environment variable.
    EnvValue,
    32_768,
    "text of at most 32 KiB; empty text is \"\"",
    |_| true
);
word!(
    /// A file or folder on the machine of whoever hands the job in.
    LocalPath,
    4_096,
    "the path of a file or folder",
    |text| !text.trim().is_empty()
);
word!(
    /// An absolute path inside the sandbox.
    MountPath,
    255,
    "an absolute path without `.` and `..`, such as /data, of at most 255 bytes",
    |text| text.strip_prefix('/').is_some_and(is_plain_path)
);
word!(
    /// An output of a command: a path in its work folder.
    WorkPath,
    255,
    "a path inside the work folder of at most 255 bytes, without a leading /, `.` and `..`",
    is_plain_path
);
word!(
    /// An input of a command: its name in the folder of inputs.
    FileName,
    255,
    "a file name of letters, digits, `.`, `-` and `_`, not beginning with a dot",
    is_file_name
);
word!(
    /// An input or output of a model, by its label.
    PortName,
    128,
    "the label of an input or output of the model, 1 to 128 bytes",
    |text| !text.is_empty() && !text.contains(char::is_control)
);
word!(
    /// A container image.
    ImageName,
    512,
    "an image such as ghcr.io/acme/lora:2, or NAME@sha256:DIGEST",
    |text| !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_graphic())
);
word!(
    /// The path of an address.
    UrlPath,
    1_024,
    "the path of an address, such as /health",
    |text| text.starts_with('/') && text.bytes().all(|letter| letter.is_ascii_graphic())
);

fn is_variable(text: &str) -> bool {
    let is_first = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    text.starts_with(is_first) && text.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

fn is_file_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    !text.is_empty() && !text.starts_with('.') && text.chars().all(is_plain)
}

/// Parts between slashes, none of them empty or a step to elsewhere.
fn is_plain_path(text: &str) -> bool {
    text.split('/').all(|part| !matches!(part, "" | "." | "..")) && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::{EnvName, FileName, Form, ImageName, LocalPath, MountPath, Script, WorkPath};

    #[test]
    fn paths_cannot_leave_their_folder() {
        for text in ["", ".", "..", "/", "a/../b", "a//b", "./a", "a/", "/a", "a\nb", "a\0"] {
            assert_eq!(WorkPath::read(text), None, "{text:?}");
        }
        assert!(WorkPath::read("frames/0001.ppm").is_some());
        for text in ["", "/", "data", "/data/", "/data/../etc", "//data", "/a\0"] {
            assert_eq!(MountPath::read(text), None, "{text:?}");
        }
        assert!(MountPath::read("/data/set 1").is_some());
        for text in ["", ".", "..", ".env", "a/b", "a b", &"x".repeat(256)] {
            assert_eq!(FileName::read(text), None, "{text:?}");
        }
        assert!(FileName::read("model-1_a.onnx").is_some());
    }

    #[test]
    fn words_of_another_form_are_refused() {
        for text in ["", "1A", "A-B", "A=B", "Ä", &"x".repeat(129)] {
            assert_eq!(EnvName::read(text), None, "{text:?}");
        }
        for text in ["", " ", "a b", "a\n", "ü", &"x".repeat(513)] {
            assert_eq!(ImageName::read(text), None, "{text:?}");
        }
        for text in ["", " \n", "a\0b", &"x".repeat(65_537)] {
            assert_eq!(Script::read(text), None, "{text:?}");
        }
        for text in ["", "  ", "a\0"] {
            assert_eq!(LocalPath::read(text), None, "{text:?}");
        }
    }
}
