//! What was done so far, in small steps: a bound on it bounds how long a block takes.

use std::cell::Cell;

/// Counts steps of about 10 ns.
#[derive(Debug, Default)]
pub struct Meter(Cell<u64>);

impl Meter {
    /// Counts so many more.
    pub fn add(&self, steps: usize) {
        self.0.set(self.0.get().saturating_add(steps as u64));
    }

    /// All that were counted.
    pub fn steps(&self) -> u64 {
        self.0.get()
    }
}
