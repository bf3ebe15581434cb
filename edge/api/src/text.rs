//! How single values are written in JSON: each in exactly one way.
//!
//! Ids and bytes are lower-case hex, amounts are decimal text beside their base units, heights and
//! times are numbers. Reading accepts only the text that writing gives, so two different files
//! never mean the same and a changed letter is always seen.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use tg_chain::index::JobPlace;
use tg_types::{
    AccountId, Address, Amount, ChainId, DurationMs, GenesisHash, Hash32, HeaderDigest, Height,
    IdempotencyId, JobId, Lane, Name, NodeId, Nonce, Noun, PublicKey, Reason, StateKey, Tick, TxId,
    codec::Decode as _,
};

/// A value that people see as text.
pub trait OneText: Sized {
    /// What it is, for the error.
    const WHAT: &'static str;

    /// Its text.
    fn to_text(&self) -> String;

    /// Reads it; other spellings of the same value may be taken, the caller compares.
    fn from_text(text: &str) -> Option<Self>;
}

/// A value written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<T>(pub T);

impl<T> From<T> for Text<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T: OneText> fmt::Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_text())
    }
}

impl<T: OneText> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_text())
    }
}

impl<'de, T: OneText> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        read_text(&text).map(Self).ok_or_else(|| D::Error::custom(format!("expected {}", T::WHAT)))
    }
}

/// Reads a value from the one text it has.
#[must_use]
pub fn read_text<T: OneText>(text: &str) -> Option<T> {
    T::from_text(text).filter(|value| value.to_text() == text)
}

macro_rules! texts {
    ($( $type:ty: $what:literal; )*) => {$(
        impl OneText for $type {
            const WHAT: &'static str = $what;

            fn to_text(&self) -> String {
                self.to_string()
            }

            fn from_text(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    )*};
}

texts! {
    Hash32: "64 lower-case hexadecimal digits";
    TxId: "a transaction id of 64 lower-case hexadecimal digits";
    JobId: "a job id of 64 lower-case hexadecimal digits";
    NodeId: "a node id of 64 lower-case hexadecimal digits";
    HeaderDigest: "a header digest of 64 lower-case hexadecimal digits";
    GenesisHash: "a genesis hash of 64 lower-case hexadecimal digits";
    PublicKey: "a public key of 64 lower-case hexadecimal digits";
    ChainId: "a chain's name of 1 to 32 of a-z, 0-9 and -";
    Address: "an address as host:port";
    Name: "a name of printable ASCII";
}

/// Receivers of transfers need not be points of the curve, so reading asks for less than what a
/// person types into a wallet.
impl OneText for AccountId {
    const WHAT: &'static str = "an account of 64 lower-case hexadecimal digits";

    fn to_text(&self) -> String {
        self.to_string()
    }

    fn from_text(text: &str) -> Option<Self> {
        let bytes: Hash32 = text.parse().ok()?;
        Self::new(*bytes.as_bytes()).ok()
    }
}

impl OneText for IdempotencyId {
    const WHAT: &'static str = "an idempotency id of 32 lower-case hexadecimal digits";

    fn to_text(&self) -> String {
        hex::encode(self.as_bytes())
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl OneText for StateKey {
    const WHAT: &'static str = "a state key of 66 lower-case hexadecimal digits";

    fn to_text(&self) -> String {
        hex::encode(self.as_bytes())
    }

    fn from_text(text: &str) -> Option<Self> {
        Self::from_bytes(&hex::decode(text).ok()?).ok()
    }
}

impl OneText for Reason {
    const WHAT: &'static str = "a reason code";

    fn to_text(&self) -> String {
        self.code().to_owned()
    }

    fn from_text(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|reason| reason.code() == text).copied()
    }
}

impl OneText for JobPlace {
    const WHAT: &'static str = "a place in the order of jobs, such as 17-0";

    fn to_text(&self) -> String {
        format!("{}-{}", self.height, self.place)
    }

    fn from_text(text: &str) -> Option<Self> {
        let (height, place) = text.split_once('-')?;
        Some(Self { height: Height::new(height.parse().ok()?), place: place.parse().ok()? })
    }
}

/// All nouns, in the order of their tags.
const NOUNS: [(Noun, &str); 23] = [
    (Noun::Totals, "totals"),
    (Noun::Account, "account"),
    (Noun::Seen, "seen"),
    (Noun::Stake, "stake"),
    (Noun::Node, "node"),
    (Noun::Job, "job"),
    (Noun::Due, "due"),
    (Noun::Headers, "headers"),
    (Noun::Beacon, "beacon"),
    (Noun::Log, "log"),
    (Noun::Params, "params"),
    (Noun::Validator, "validator"),
    (Noun::Cursor, "cursor"),
    (Noun::Absence, "absence"),
    (Noun::List, "list"),
    (Noun::Program, "program"),
    (Noun::Dispute, "dispute"),
    (Noun::Piece, "piece"),
    (Noun::Draft, "draft"),
    (Noun::Complaint, "complaint"),
    (Noun::Weights, "weights"),
    (Noun::Pace, "pace"),
    (Noun::GpuMix, "gpu_mix"),
];

impl OneText for Noun {
    const WHAT: &'static str = "a noun such as account, stake, node, job or totals";

    fn to_text(&self) -> String {
        let word = NOUNS.iter().find(|(noun, _)| noun == self).map(|(_, word)| *word);
        word.expect("the table has every noun").to_owned()
    }

    fn from_text(text: &str) -> Option<Self> {
        NOUNS.iter().find(|(_, word)| *word == text).map(|(noun, _)| *noun)
    }
}

/// Bytes as lower-case hex.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Hex(pub Vec<u8>);

impl fmt::Debug for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hex({} bytes)", self.0.len())
    }
}

impl OneText for Hex {
    const WHAT: &'static str = "an even number of lower-case hexadecimal digits";

    fn to_text(&self) -> String {
        let mut digits = vec![0; 2 * self.0.len()];
        hex::encode_to_slice(&self.0, &mut digits).expect("two digits for each byte");
        String::from_utf8(digits).expect("digits are text")
    }

    // Into a slice: reading by iterator is several times slower, and every transaction passes here.
    fn from_text(text: &str) -> Option<Self> {
        let mut bytes = vec![0; text.len() / 2];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text())
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Text::deserialize(deserializer).map(|Text(bytes)| bytes)
    }
}

/// An amount in TGRID, such as "1.5".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tgrid(pub Amount);

impl OneText for Tgrid {
    const WHAT: &'static str = "an amount in TGRID such as \"1.5\", with at most nine digits \
        behind the point and no zeros that say nothing";

    fn to_text(&self) -> String {
        let text = self.0.to_string();
        text.split(' ').next().unwrap_or_default().to_owned()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

/// An amount in base units, such as "1500000000".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Units(pub Amount);

impl OneText for Units {
    const WHAT: &'static str = "an amount in base units such as \"1500000000\"";

    fn to_text(&self) -> String {
        self.0.units().to_string()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().and_then(|units| Amount::new(units).ok()).map(Self)
    }
}

macro_rules! as_text {
    ($( $type:ty ),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.to_text())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Text::deserialize(deserializer).map(|Text(value)| value)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.to_text())
            }
        }
    )*};
}

as_text!(Tgrid, Units);

/// A value that is a number.
pub trait OneNumber: Sized {
    /// What it is, for the error.
    const WHAT: &'static str;

    /// Its number.
    fn to_number(&self) -> u64;

    /// From its number.
    fn from_number(number: u64) -> Option<Self>;
}

/// A value written as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number<T>(pub T);

impl<T> From<T> for Number<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T: OneNumber> fmt::Display for Number<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.to_number().fmt(f)
    }
}

impl<T: OneNumber> Serialize for Number<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0.to_number())
    }
}

impl<'de, T: OneNumber> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        let value = T::from_number(number);
        value.map(Self).ok_or_else(|| D::Error::custom(format!("expected {}", T::WHAT)))
    }
}

macro_rules! numbers {
    ($( $type:ty: $what:literal; )*) => {$(
        impl OneNumber for $type {
            const WHAT: &'static str = $what;

            fn to_number(&self) -> u64 {
                self.get()
            }

            fn from_number(number: u64) -> Option<Self> {
                Some(Self::new(number))
            }
        }
    )*};
}

numbers! {
    Height: "a height";
    Tick: "milliseconds since the Unix epoch";
    DurationMs: "milliseconds";
    Nonce: "a nonce";
}

impl OneNumber for Lane {
    const WHAT: &'static str = "a lane from 0 to 7";

    fn to_number(&self) -> u64 {
        self.get().into()
    }

    fn from_number(number: u64) -> Option<Self> {
        u8::try_from(number).ok().and_then(|number| Self::new(number).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::{Hex, NOUNS, Number, OneText, Text, Tgrid, Units, read_text};
    use serde::{Serialize, de::DeserializeOwned};
    use std::fmt::Debug;
    use tg_chain::index::JobPlace;
    use tg_types::{AccountId, Amount, Hash32, Height, Lane, Noun, Reason, StateKey};

    fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, json: &str) {
        assert_eq!(serde_json::to_string(value).expect("writes"), json);
        assert_eq!(&serde_json::from_str::<T>(json).expect("reads"), value);
    }

    #[test]
    fn values_are_written_as_people_read_them() {
        check(&Tgrid(Amount::new(1_500_000_000).expect("small")), "\"1.5\"");
        check(&Tgrid(Amount::ZERO), "\"0\"");
        check(&Units(Amount::new(1_500_000_000).expect("small")), "\"1500000000\"");
        check(&Number(Height::new(7)), "7");
        check(&Text(Reason::NonceTooLow), "\"nonce_too_low\"");
        check(&Text(Noun::Account), "\"account\"");
        check(&Hex(vec![0xab, 1]), "\"ab01\"");
        check(&Text(JobPlace { height: Height::new(17), place: 0 }), "\"17-0\"");
        check(&Text(Hash32::new([0xab; 32])), &format!("\"{}\"", "ab".repeat(32)));
        let key = StateKey::new(Noun::Job, [1; 32]);
        check(&Text(key), &format!("\"05{}\"", "01".repeat(32)));
    }

    #[test]
    fn another_spelling_of_a_value_is_refused() {
        for text in ["1.50", "01.5", "1.5 TGRID", "+1", " 1", "1.", ".5", ""] {
            assert!(read_text::<Tgrid>(text).is_none(), "{text:?}");
        }
        for text in ["01", "+1", "1.0", "", "99999999999999999999"] {
            assert!(read_text::<Units>(text).is_none(), "{text:?}");
        }
        for text in ["1", "1-", "-1", "01-0", "+1-0", "1-0-0", "1 -0", "1-4294967296"] {
            assert!(read_text::<JobPlace>(text).is_none(), "{text:?}");
        }
        assert!(read_text::<Hash32>(&"AB".repeat(32)).is_none());
        assert!(read_text::<Hex>("AB").is_none());
        assert!(read_text::<Hex>("abc").is_none());
        assert!(read_text::<AccountId>(&"00".repeat(32)).is_none());
        assert!(serde_json::from_str::<Number<Height>>("1.0").is_err());
        assert!(serde_json::from_str::<Number<Lane>>("8").is_err());
    }

    #[test]
    fn account_that_is_no_point_of_the_curve_is_read() {
        let off_curve = format!("02{}", "00".repeat(31));
        assert!(read_text::<AccountId>(&off_curve).is_some());
    }

    #[test]
    fn nouns_are_all_in_the_table() {
        for (tag, (noun, word)) in (0u8..).zip(NOUNS) {
            let key = StateKey::new(noun, [0; 32]);
            assert_eq!(key.as_bytes().first(), Some(&tag), "{word}");
            assert_eq!(Noun::from_text(word), Some(noun));
        }
    }
}
