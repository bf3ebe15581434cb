//! The hash over everything that happened in a run, in order. Two runs of one seed must agree in
//! it; if they do not, something in the product depends on more than its inputs.

use tg_types::hash::sha256;

/// A running hash.
#[derive(Clone, Debug)]
pub(crate) struct Trace([u8; 32]);

impl Trace {
    pub(crate) fn new(seed: u64) -> Self {
        Self(sha256(&[b"tg-sim trace", &seed.to_be_bytes()]))
    }

    /// Adds something that happened at a moment of virtual time.
    pub(crate) fn note(&mut self, at_ms: u64, what: &str, bytes: &[u8]) {
        self.0 = sha256(&[&self.0, &at_ms.to_be_bytes(), what.as_bytes(), &[0], bytes]);
    }

    /// The hash in hexadecimal.
    pub(crate) fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
