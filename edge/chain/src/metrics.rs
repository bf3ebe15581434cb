//! Numbers the chain counts about itself, in Prometheus' text form.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
};

/// One number.
#[derive(Debug, Default)]
pub struct Number(AtomicU64);

impl Number {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: usize) {
        self.0.store(value as u64, Ordering::Relaxed);
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! metrics {
    ($( $field:ident: $kind:literal, $name:literal, $help:literal; )*) => {
        /// What the chain counts.
        #[derive(Debug, Default)]
        pub struct Metrics {
            $( #[doc = $help] pub $field: Number, )*
        }

        impl Metrics {
            /// All numbers in Prometheus' text form.
            #[must_use]
            pub fn to_text(&self) -> String {
                let mut text = String::new();
                $(
                    let _infallible = writeln!(
                        text,
                        "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}",
                        name = $name, help = $help, kind = $kind, value = self.$field.get(),
                    );
                )*
                text
            }
        }
    };
}

metrics! {
    height: "gauge", "tensorgrid_height", "Height of the last final block.";
    blocks_final: "counter", "tensorgrid_blocks_final_total", "Blocks that became final.";
    txs_final: "counter", "tensorgrid_txs_final_total", "Transactions that became final.";
    pool_txs: "gauge", "tensorgrid_pool_txs", "Transactions waiting in the pool.";
    txs_refused: "counter", "tensorgrid_txs_refused_total", "Transactions refused on entry.";
    signatures_checked: "counter", "tensorgrid_signatures_checked_total", "Signatures checked.";
    certificates: "counter", "tensorgrid_certificates_total", "Threshold certificates made.";
    equivocations: "counter", "tensorgrid_equivocations_total", "Conflicting votes seen.";
}
