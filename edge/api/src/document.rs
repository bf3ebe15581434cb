//! What people save from a node and check without one: certificates, proofs, receipts, and the
//! network they belong to.
//!
//! The canonical bytes in a document are the truth. Everything readable beside them is made again
//! from the bytes when the document is read, and must be the same to the last letter; unknown
//! fields are refused. So a file with one changed byte is either broken JSON, or says something
//! that its bytes do not say, or has bytes that no committee certified.

mod kinds;
mod verify;

#[cfg(test)]
mod tests;

pub use kinds::{
    CertificateDocument, KeyView, NetworkDocument, NetworkWord, PathView, ProofDocument,
    ReceiptDocument,
};
pub use verify::{Verified, VerifyError, verify};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tg_types::DecodeError;

/// The format this version writes and reads.
pub const FORMAT: u32 = 1;

/// The largest file read as a document. A genesis with the most allocations has 5 MiB, which is
/// 10 MiB as hex.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// Why a document is refused before any signature is looked at.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Larger than any document.
    #[error("the file has {found} bytes, expected at most {DOCUMENT_BYTES_MAX}")]
    TooLarge {
        /// How many bytes it has.
        found: usize,
    },
    /// Not JSON, or not the fields of this kind of document.
    #[error("the file is not a document of TensorGrid")]
    Json(#[source] serde_json::Error),
    /// Another format.
    #[error("the document has format {found}; this version reads format {FORMAT} only")]
    Format {
        /// Its format.
        found: u32,
    },
    /// Bytes that are not what the field should hold.
    #[error("the bytes of {field} cannot be read")]
    Bytes {
        /// Which field.
        field: &'static str,
        /// Why.
        #[source]
        source: DecodeError,
    },
    /// A readable field that does not say what the bytes say.
    #[error("{field} does not agree with the bytes in the document")]
    Disagreement {
        /// Where the difference is.
        field: String,
    },
}

/// A document of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "one document exists per call; the smallest is plain"
)]
pub enum Document {
    /// A header with the committee's certificate.
    Certificate(CertificateDocument),
    /// An entry of the state, or its absence, with its proof.
    Proof(Box<ProofDocument>),
    /// A receipt with its proof.
    Receipt(Box<ReceiptDocument>),
    /// A network.
    Network(Box<NetworkDocument>),
}

/// The fields every document of every format has.
#[derive(Deserialize)]
struct Opening {
    format: u32,
}

impl Document {
    /// Reads a document from a file's bytes and checks that it agrees with itself. Nothing is
    /// verified yet.
    ///
    /// # Errors
    /// If it is no document, of another format, or readable fields and bytes disagree.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        if bytes.len() > DOCUMENT_BYTES_MAX {
            return Err(DocumentError::TooLarge { found: bytes.len() });
        }
        let opening: Opening = serde_json::from_slice(bytes).map_err(DocumentError::Json)?;
        check_format(opening.format)?;
        let document: Self = serde_json::from_slice(bytes).map_err(DocumentError::Json)?;
        document.check()?;
        Ok(document)
    }

    /// The document as it is saved: one field per line, so that people can read it.
    #[must_use]
    pub fn write(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a document is plain JSON");
        text.push('\n');
        text
    }

    /// Its kind, as a word.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Certificate(_) => "certificate",
            Self::Proof(_) => "proof",
            Self::Receipt(_) => "receipt",
            Self::Network(_) => "network",
        }
    }

    /// Checks that readable fields agree with the bytes.
    ///
    /// # Errors
    /// If they do not, or the bytes cannot be read.
    pub fn check(&self) -> Result<(), DocumentError> {
        match self {
            Self::Certificate(document) => document.content().map(|_| ()),
            Self::Proof(document) => document.content().map(|_| ()),
            Self::Receipt(document) => document.content().map(|_| ()),
            Self::Network(document) => document.check(),
        }
    }
}

fn check_format(found: u32) -> Result<(), DocumentError> {
    if found == FORMAT { Ok(()) } else { Err(DocumentError::Format { found }) }
}

/// Compares a document with the one made again from its bytes.
fn check_same<T: Serialize + PartialEq>(found: &T, again: &T) -> Result<(), DocumentError> {
    if found == again {
        return Ok(());
    }
    let value = |document: &T| serde_json::to_value(document).unwrap_or(Value::Null);
    let field = first_difference(&value(found), &value(again));
    Err(DocumentError::Disagreement { field: field.unwrap_or_else(|| "a field".to_owned()) })
}

/// The path of the first field in which two documents differ. Documents nest a few levels deep, so
/// the recursion is bounded by their shape.
fn first_difference(left: &Value, right: &Value) -> Option<String> {
    let join = |name: &str, inner: String| {
        if inner.is_empty() { name.to_owned() } else { format!("{name}.{inner}") }
    };
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let names = left.keys().chain(right.keys());
            names.into_iter().find_map(|name| {
                let (left, right) = (left.get(name), right.get(name));
                let (left, right) = (left.unwrap_or(&Value::Null), right.unwrap_or(&Value::Null));
                first_difference(left, right).map(|inner| join(name, inner))
            })
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            left.iter().zip(right).enumerate().find_map(|(place, (left, right))| {
                first_difference(left, right).map(|inner| join(&place.to_string(), inner))
            })
        }
        (left, right) => (left != right).then(String::new),
    }
}
